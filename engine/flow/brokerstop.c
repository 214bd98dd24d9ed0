/* `sync from-backup stop`: the request lies in the store, so it reaches a broker on another host; a broker whose store it cannot write is asked through
 * its row on the target, and one on this control DB through a request row as well. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/flow/flow.h"

#define POLL_US 200000

static int ask_target(struct job *j, const char *stream_id, struct err *e) {
    struct target *t = NULL;
    struct target_state st = {0};
    bool found;
    int rc = -1;
    if (job_target(j, stream_id, &t, e) < 0) return -1;
    const struct target_ops *ops = j->target_driver->target;
    if (ops->state_read(t, stream_id, &st, &found, e) < 0) goto out;
    if (!found) {
        err_set(e, CODE_NOT_FOUND, "the target has no stream '%s'", stream_id);
        goto out;
    }
    rc = ops->stop_request(t, stream_id, clock_wall_us(), e);
out:
    ops->close(t);
    return rc;
}

static void ask_local(struct job *j, const char *stream_id) {
    struct err e = {0};
    struct entity en = {0};
    bool found = false;
    if (entity_find(j->control, "broker", stream_id, &en, &found, &e) == 0 && found && request_add(j->control, "broker", stream_id, "stop", &e) < 0)
        log_debug("no local request", KV_STR("err", e.msg));
    entity_free(&en);
}

/* A broker of this control DB whose lock is free was killed before it could say that it ended. */
static bool dead_here(struct job *j, const char *stream_id) {
    struct err e = {0};
    struct entity en = {0};
    bool found = false, dead = false;
    if (entity_find(j->control, "broker", stream_id, &en, &found, &e) == 0 && found && entity_own(j->control, &en, &e) == 0) {
        entity_disown(j->control, &en);
        dead = true;
    }
    entity_free(&en);
    return dead;
}

/* Ended since we asked? A consumer that cannot write the store is judged by its target row's phase alone, which does not say: its own control DB does. */
static int wait_ended(struct job *j, const char *stream_id, int64_t timeout_us, struct err *e) {
    int64_t until = clock_mono_us() + timeout_us;
    for (;;) {
        struct consumer *c;
        size_t n;
        bool running = false, known = false;
        struct arena *a = arena_new(4096, e);
        if (!a) return -1;
        int rc = chain_consumers(j->store, a, &c, &n, e);
        for (size_t i = 0; rc == 0 && i < n; i++)
            if (strcmp(c[i].stream_id, stream_id) == 0) {
                known = true;
                running = c[i].stopped_us == 0;
            }
        arena_free(a);
        if (rc < 0) return -1;
        if (known && !running) return 0;
        if (clock_mono_us() >= until) {
            err_set(e, CODE_BUSY, "stream '%s' has not ended yet", stream_id);
            e->class = ERR_RETRY;
            return err_hint(e, "it ends after the window it is in; look again with `sluice sync status`");
        }
        if (stop_wait(POLL_US)) return err_set(e, CODE_INTERRUPTED, "stopped waiting for stream '%s'; the request stays", stream_id);
    }
}

int flow_broker_stop(struct job *j, const struct broker_stop *s, struct buf *stopped, struct err *e) {
    struct consumer *c;
    size_t n, asked = 0;
    int rc = -1;
    struct arena *a = arena_new(4096, e);
    if (!a) return -1;
    if (chain_consumers(j->store, a, &c, &n, e) < 0) goto out;
    bool known = false;
    for (size_t i = 0; i < n; i++) known = known || (s->stream_id && strcmp(c[i].stream_id, s->stream_id) == 0);
    if (s->stream_id && !known && !j->target_driver) {
        err_set(e, CODE_NOT_FOUND, "no broker with stream-id '%s' is registered at '%s'", s->stream_id, j->store->url);
        err_hint(e, "a consumer that may not write the store is stopped through its target: add --target-driver and --target");
        goto out;
    }
    if (j->target_driver && s->stream_id && ask_target(j, s->stream_id, e) < 0) goto out;
    struct err store_err = {0};
    if (chain_stop_put(j->store, s->stream_id, &store_err) < 0) {
        if (!j->target_driver || !s->stream_id) {
            *e = store_err;
            goto out;
        }
        log_warn("the store cannot be written; the stop was left on the target", KV_STR("err", store_err.msg));
    }
    for (size_t i = 0; i < n; i++) {
        if (s->stream_id && strcmp(c[i].stream_id, s->stream_id) != 0) continue;
        ask_local(j, c[i].stream_id);
        if (c[i].stopped_us != 0 || dead_here(j, c[i].stream_id)) continue;
        asked++;
        if (buf_addf(stopped, e, "%s\n", c[i].stream_id) < 0) goto out;
        if (s->wait && wait_ended(j, c[i].stream_id, s->timeout_us, e) < 0) goto out;
    }
    if (s->stream_id && !known) {
        if (buf_addf(stopped, e, "%s\n", s->stream_id) < 0) goto out;
        if (s->wait) { /* what does not register cannot be watched: better said than taken for ended */
            err_set(e, CODE_BUSY, "stream '%s' was asked to end, but is not registered in the store, so nothing tells when it has", s->stream_id);
            e->class = ERR_RETRY;
            err_hint(e, "look at its process, or at `sluice sync status` where it runs; the request stays");
            goto out;
        }
    }
    if (!asked && known) log_info("no broker of that name is running", KV_STR("stream", s->stream_id));
    rc = 0;
out:
    arena_free(a);
    return rc;
}
