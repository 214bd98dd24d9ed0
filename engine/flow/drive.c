/* DESIGN.
 * 1. An entity moves only here: own it, run its state's step with no control transaction open, then one transaction with the new state.
 * 2. A tick that stays in its state writes no history. A refusal moves the entity to its refused state, with the marker; running it again is the
 *    operator's word that the remedy was applied, and goes back through `resume`.
 * 3. Only a run that goes on until a stop tries transient errors again, as the policy says; one-shot work reports them (exit 1) and is repeated by
 *    whoever called it. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/flow/flow.h"
#include "engine/flow/notify.h"

const struct step step_all[] = {
    {"producer_full", step_producer_full}, {"producer_follow", step_producer_follow}, {"broker_start", step_broker_start},
    {"broker_reset", step_broker_reset},   {"broker_tail", step_broker_tail},         {"task_run", step_task_run},
};
const size_t step_count = MEM_ARRAY_LEN(step_all);

static step_fn find_step(const char *name) {
    for (size_t i = 0; i < step_count; i++)
        if (strcmp(step_all[i].name, name) == 0) return step_all[i].fn;
    return NULL;
}

static int check_machine(struct job *j, struct err *e) {
    const char *names[16];
    for (size_t i = 0; i < step_count; i++) names[i] = step_all[i].name;
    return machine_check(j->control, names, step_count, e);
}

static void drop_ctx(struct job *j) {
    if (j->ctx) j->ctx_free(j->ctx);
    j->ctx = NULL;
}

static int advance(struct job *j, const char *event, const char *detail, const struct err *why, struct buf *did, struct err *e) {
    char from[32];
    bool moved;
    snprintf(from, sizeof from, "%s", j->entity.state);
    if (FAULT("drive.before_advance", e) < 0) return -1;
    if (entity_advance(j->control, &j->entity, event, detail && detail[0] ? detail : NULL, NULL, why, &moved, e) < 0) return -1;
    if (!moved) log_info("somebody moved the entity meanwhile", KV_STR("state", j->entity.state));
    else if (did && buf_addf(did, e, "%s -> %s (%s)\n", from, j->entity.state, event) < 0) return -1;
    return FAULT("drive.after_advance", e);
}

/* The refused state of where we are, with the marker; what cannot be recorded is only logged: the refusal itself is what the caller must see. */
static void record_refusal(struct job *j, const struct err *why) {
    struct err e = {0};
    if (machine_has_event(j->control, j->entity.kind, j->entity.state, "refused") && advance(j, "refused", NULL, why, NULL, &e) < 0) log_err(&e);
    if (refusal_record(j->control, &j->entity, why, &e) < 0) log_err(&e);
}

/* One line for whoever watches: the service manager, and the terminal while it tails. Other steps show progress of their own there, or ask. */
static void show(struct job *j, bool on_terminal, const char *said) {
    char line[512];
    snprintf(line, sizeof line, "%s %.80s: %s%s%s", j->entity.kind, j->entity.name, j->entity.state, said[0] ? ", " : "", said);
    notify_status("%s", line);
    if (on_terminal) log_status(line);
}

/* Only a tick comes round by itself; other steps hold calls whose length nobody can foretell. */
static int run_step(step_fn fn, bool tailing, struct job *j, struct step_result *r, struct err *e) {
    if (!tailing) notify_long(true);
    int rc = fn(j, r, e);
    if (!tailing) notify_long(false);
    return rc;
}

struct trying { uint64_t attempt; int64_t progress_us; };

/* True: waited as the policy said, try again. */
static bool try_again(struct job *j, struct trying *t, const char *step, const struct err *why) {
    struct policy_ask ask = {.kind = j->entity.kind, .name = j->entity.name, .verb = step, .attempt = ++t->attempt,
                             .since_progress_us = clock_mono_us() - t->progress_us, .why = why};
    struct policy_answer answer = {0};
    policy_retry(j->policy, &ask, &answer);
    if (!answer.again) return false;
    notify_status("%s failed, attempt %llu follows: %s", step, (unsigned long long)t->attempt + 1, why->msg);
    log_warn("failed; trying again", KV_STR("step", step), KV_U64("attempt", t->attempt), KV_U64("wait_ms", answer.wait_us / 1000),
             KV_STR("code", err_code_name(why->code)), KV_STR("err", why->msg));
    return !stopper_wait(&j->stopper, answer.wait_us);
}

static int leave_stopped(struct job *j, struct buf *did, struct err *e) {
    j->result.stopped = true;
    if (!machine_has_event(j->control, j->entity.kind, j->entity.state, "stopped")) return 0;
    char detail[128];
    snprintf(detail, sizeof detail, "{\"by\":\"%s\"}", j->stopper.why);
    return advance(j, "stopped", detail, NULL, did, e);
}

/* From a resting state (refused, stopped) back into work; false when the state is simply the end. */
static int wake(struct job *j, bool *woke, struct buf *did, struct err *e) {
    *woke = machine_has_event(j->control, j->entity.kind, j->entity.state, "resume");
    if (!*woke) return 0;
    if (refusal_clear(j->control, &j->entity, e) < 0) return -1;
    j->again = strcmp(j->entity.state, "done") == 0;
    return advance(j, "resume", NULL, NULL, did, e);
}

static int drive(struct job *j, enum drive_until until, uint64_t steps, struct buf *did, struct err *e) {
    struct trying t = {.progress_us = clock_mono_us()};
    bool woke = false;
    for (uint64_t made = 0; !steps || made < steps;) {
        char step[64];
        bool tailing;
        struct step_result r = {0};
        if (machine_step(j->control, j->entity.kind, j->entity.state, step, &tailing, e) < 0) return -1;
        if (!step[0]) {
            if (made || woke) return 0;
            if (wake(j, &woke, did, e) < 0) return -1;
            if (!woke) return 0;
            continue;
        }
        step_fn fn = find_step(step);
        if (!fn) return err_set(e, CODE_INTERNAL, "step '%s' has no function", step);
        if (entity_owner_check(j->control, e) < 0) return -1;
        if (run_step(fn, tailing, j, &r, e) < 0) {
            drop_ctx(j);
            if (e->class == ERR_REFUSE && !marker_restartable(e->marker)) {
                record_refusal(j, e);
                return -1;
            }
            if (until == DRIVE_STOP && tailing && e->code == CODE_INTERRUPTED && stopper_asked(&j->stopper)) { /* asked while it waited for a server: nothing is half done */
                err_clear(e);
                return leave_stopped(j, did, e);
            }
            if (until != DRIVE_STOP || e->class == ERR_CONFIG || e->class == ERR_BUSY || e->code == CODE_INTERRUPTED) return -1;
            if (!try_again(j, &t, step, e)) {
                if (!j->stopper.why[0]) return -1;
                err_clear(e);
                return leave_stopped(j, did, e);
            }
            err_clear(e);
            continue;
        }
        made++;
        t = (struct trying){.progress_us = clock_mono_us()};
        show(j, tailing && until == DRIVE_STOP, r.said);
        if (did && r.said[0] && buf_addf(did, e, "%s: %s\n", step, r.said) < 0) return -1;
        if (r.event) {
            if (advance(j, r.event, r.detail, NULL, did, e) < 0) return -1;
            if (j->stopper.why[0]) return leave_stopped(j, did, e);
            /* One-shot work is done where its own machine says so, not a tick further. */
            if (until == DRIVE_DONE && strcmp(j->entity.kind, "broker") != 0) return 0;
            continue;
        }
        if (!tailing) return 0;
        if (j->stopper.why[0] || stopper_asked(&j->stopper)) return leave_stopped(j, did, e);
        if (until == DRIVE_DONE || (until == DRIVE_IDLE && r.idle)) return 0;
        if (until == DRIVE_STOP && r.idle && !j->options.continuous && stopper_wait(&j->stopper, j->options.poll_us)) return leave_stopped(j, did, e);
    }
    return 0;
}

int flow_drive(struct job *j, enum drive_until until, uint64_t steps, struct buf *did, struct err *e) {
    if (check_machine(j, e) < 0) return -1;
    if (!j->stopper.control) {
        j->stopper.control = j->control;
        j->stopper.entity = &j->entity;
        j->stopper.store = j->store;
        j->stopper.stream_id = strcmp(j->entity.kind, "broker") == 0 ? j->entity.name : NULL;
        if (stopper_begin(&j->stopper, e) < 0) return -1;
    }
    notify_begin();
    show(j, false, "");
    int rc = drive(j, until, steps, did, e);
    log_status(NULL);
    if (rc < 0) notify_status("ended: %s", e->msg);
    return rc;
}
