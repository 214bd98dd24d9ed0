/* DESIGN: entities, owned and advanced.
 *  1. Advance is the only way an engine moves anything: one transaction WHERE token = mine AND state = seen. Zero rows mean that somebody
 *     else moved it: the caller looks again, it is no error.
 *  2. History is written by the triggers, from the move_* columns of the same UPDATE, so it cannot be forgotten.
 *  3. Owning is the lock (lock.c); the owner columns are for people. What was read before owning is read again after. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/control/room.h"

#define OWNER_WAIT_US (300 * INT64_C(1000000)) /* how long an owner waits to write down a move */

void entity_free(struct entity *en) {
    mem_free(en->config);
    mem_free(en->checkpoint);
    en->config = en->checkpoint = NULL;
}

static int copy(char *to, size_t cap, sqlite3_stmt *s, int col, struct err *e) {
    const char *p = stmt_str(s, col);
    if (strlen(p) >= cap) return err_set(e, CODE_CONTROL, "'%s' of an entity is too long: '%.40s…'", sqlite3_column_name(s, col), p);
    memcpy(to, p, strlen(p) + 1);
    return 0;
}

/* Columns: id, kind, name, state, token, config, checkpoint, source, target, store. Leaves *en alone on failure. */
int entity_read(struct control *c, sqlite3_stmt *s, struct entity *en, struct err *e) {
    (void)c;
    struct entity r = {.id = sqlite3_column_int64(s, 0), .token = sqlite3_column_int64(s, 4)};
    if (copy(r.kind, sizeof r.kind, s, 1, e) < 0 || copy(r.name, sizeof r.name, s, 2, e) < 0 ||
        copy(r.state, sizeof r.state, s, 3, e) < 0 || copy(r.source, sizeof r.source, s, 7, e) < 0 ||
        copy(r.target, sizeof r.target, s, 8, e) < 0 || copy(r.store, sizeof r.store, s, 9, e) < 0)
        return -1;
    if (!(r.config = mem_strdup(stmt_str(s, 5), e))) return -1;
    if (sqlite3_column_type(s, 6) != SQLITE_NULL && !(r.checkpoint = mem_strdup(stmt_str(s, 6), e))) {
        entity_free(&r);
        return -1;
    }
    entity_free(en);
    *en = r;
    return 0;
}

int entity_find(struct control *c, const char *kind, const char *name, struct entity *en, bool *found, struct err *e) {
    *found = false;
    sqlite3_stmt *s = stmt_get(c, "control/entity_find", e);
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    stmt_text(c, s, ":name", name);
    int rc = stmt_step(c, s, e);
    if (rc <= 0) return rc;
    rc = entity_read(c, s, en, e);
    stmt_end(s);
    *found = rc == 0;
    return rc;
}

static int by_id(struct control *c, int64_t id, struct entity *en, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/entity_by_id", e);
    if (!s) return -1;
    stmt_int(c, s, ":id", id);
    int rc = stmt_step(c, s, e);
    if (rc < 0) return -1;
    if (rc == 0) return err_set(e, CODE_NOT_FOUND, "there is no entity %" PRId64, id);
    rc = entity_read(c, s, en, e);
    stmt_end(s);
    return rc;
}

static void bind_config(struct control *c, sqlite3_stmt *s, const struct entity *en) {
    stmt_text_or_null(c, s, ":source", en->source);
    stmt_text_or_null(c, s, ":target", en->target);
    stmt_text_or_null(c, s, ":store", en->store);
    stmt_text_or_null(c, s, ":config", en->config);
    stmt_text(c, s, ":actor", c->actor);
}

int entity_put(struct control *c, struct entity *en, struct err *e) {
    struct txn t;
    struct entity there = {0};
    bool found;
    sqlite3_stmt *s;
    int rc = -1;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    if (entity_find(c, en->kind, en->name, &there, &found, e) < 0) goto out;
    if (!(s = stmt_get(c, found ? "control/entity_configure" : "control/entity_insert", e))) goto out;
    bind_config(c, s, en);
    if (found) {
        stmt_int(c, s, ":id", there.id);
    } else {
        stmt_text(c, s, ":kind", en->kind);
        stmt_text(c, s, ":name", en->name);
    }
    if (stmt_run(c, s, e) < 0 || entity_find(c, en->kind, en->name, &there, &found, e) < 0) goto out;
    if (!found) {
        err_set(e, CODE_INTERNAL, "the entity just written is not there");
        goto out;
    }
    rc = 0;
out:
    rc = txn_end(&t, rc, e);
    if (rc == 0) {
        entity_free(en);
        *en = there;
        return 0;
    }
    entity_free(&there);
    return err_wrap(e, "%s '%s'", en->kind, en->name);
}

int settings_json(struct control *c, char **json, struct err *e) {
    *json = NULL;
    sqlite3_stmt *s = stmt_get(c, "control/settings", e);
    if (!s) return -1;
    int rc = stmt_step(c, s, e);
    if (rc < 0) return -1;
    *json = mem_strdup(rc ? stmt_str(s, 0) : "{}", e);
    stmt_end(s);
    return *json ? 0 : -1;
}

/* ---- owning ------------------------------------------------------------------------------------------------------------ */

static void boot_id(char out[64]) {
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = 0;
    if (!f) return;
    if (!fgets(out, 64, f)) out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

/* Clock ticks since boot at which this process started; 0 when unknown. */
static int64_t process_start(void) {
    char line[1024];
    int64_t v = 0;
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f) return 0;
    char *p = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    for (int i = 0; p && i < 20; i++)
        p = strchr(p + 1, ' ');
    if (p) v = strtoll(p + 1, NULL, 10);
    fclose(f);
    return v;
}

static int busy(struct control *c, const struct entity *en, struct err *e) {
    struct err ignored = {0};
    char when[32];
    int64_t pid = 0;
    sqlite3_stmt *s = stmt_get(c, "control/entity_owner", &ignored);
    when[0] = 0;
    if (s) {
        stmt_int(c, s, ":id", en->id);
        if (stmt_step(c, s, &ignored) > 0) {
            pid = sqlite3_column_int64(s, 0);
            clock_iso(sqlite3_column_int64(s, 1), when);
        }
        stmt_end(s);
    }
    if (pid) err_set(e, CODE_BUSY, "%s '%s' is run by process %" PRId64 " since %s", en->kind, en->name, pid, when);
    else err_set(e, CODE_BUSY, "%s '%s' is owned by another process", en->kind, en->name);
    return err_hint(e, "wait for that process, or stop it; the lock is byte %" PRId64 " of '%s'", en->id, c->lock_path);
}

/* Take the lock on a file that the path still names. */
static int take(struct control *c, const struct entity *en, struct err *e) {
    for (int attempt = 0;; attempt++) {
        bool got = false;
        struct err moved = {0};
        if (lock_try(c, en->id, 1, &got, e) < 0) return -1;
        if (!got) return busy(c, en, e);
        if (lock_same_file(c, &moved) == 0) return 0;
        lock_drop(c, en->id, 1);
        if (c->owned > 0 || attempt == 3) {
            *e = moved;
            return -1;
        } /* what we own already hangs on the file that is gone */
        lock_close(c);
    }
}

int entity_own(struct control *c, struct entity *en, struct err *e) {
    struct txn t;
    char boot[64];
    if (en->id <= 0) return err_set(e, CODE_INTERNAL, "an entity that is not in the control DB cannot be owned");
    if (take(c, en, e) < 0) return -1;
    boot_id(boot);
    int rc = txn_begin(&t, c, TXN_WRITE, e);
    if (rc == 0) {
        sqlite3_stmt *s = stmt_get(c, "control/entity_own", e);
        if (s) {
            stmt_int(c, s, ":id", en->id);
            stmt_int(c, s, ":pid", getpid());
            stmt_text(c, s, ":boot", boot);
            stmt_int(c, s, ":start", process_start());
            stmt_int(c, s, ":since", clock_wall_us());
        }
        rc = s && stmt_run(c, s, e) == 0 ? by_id(c, en->id, en, e) : -1;
        rc = txn_end(&t, rc, e);
    }
    if (rc < 0) {
        lock_drop(c, en->id, 1);
        return err_wrap(e, "cannot own %s '%s'", en->kind, en->name);
    }
    c->owned++;
    return 0;
}

void entity_disown(struct control *c, struct entity *en) {
    struct err ignored = {0};
    struct txn t;
    if (en->id <= 0) return;
    control_patience(c, 200 * 1000); /* only for people: a locked DB does not hold up an exit */
    if (txn_begin(&t, c, TXN_WRITE, &ignored) == 0) {
        sqlite3_stmt *s = stmt_get(c, "control/entity_disown", &ignored);
        if (s) {
            stmt_int(c, s, ":id", en->id);
            stmt_int(c, s, ":pid", getpid());
        }
        txn_end(&t, s ? stmt_run(c, s, &ignored) : -1, &ignored);
    }
    control_patience(c, -1);
    lock_drop(c, en->id, 1);
    if (c->owned > 0) c->owned--;
}

/* ---- advancing ----------------------------------------------------------------------------------------------------------- */

static int edge(struct control *c, const char *kind, const char *from, const char *event, char to[32], struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/transition_find", e);
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    stmt_text(c, s, ":from", from);
    stmt_text(c, s, ":event", event);
    int rc = stmt_step(c, s, e);
    if (rc > 0) {
        snprintf(to, 32, "%s", stmt_str(s, 0));
        stmt_end(s);
    }
    return rc;
}

int entity_advance(struct control *c, struct entity *en, const char *event, const char *detail, const char *checkpoint,
                   const struct err *why, bool *moved, struct err *e) {
    struct txn t;
    struct entity now = {0};
    char to[32];
    sqlite3_stmt *s;
    int rc = -1;
    bool changed = false;
    *moved = false;
    /* Somebody's shell may hold the file for minutes; work that is done is not given up for that. */
    if (c->owned > 0 && c->wait_us < OWNER_WAIT_US) control_patience(c, OWNER_WAIT_US);
    rc = txn_begin(&t, c, TXN_WRITE, e);
    control_patience(c, -1);
    if (rc < 0) return -1;
    rc = -1;
    int there = edge(c, en->kind, en->state, event, to, e);
    if (there < 0) goto out;
    if (!there) {
        err_set(e, CODE_INTERNAL, "no edge '%s' leaves state '%s' of a %s", event, en->state, en->kind);
        goto out;
    }
    if (!(s = stmt_get(c, "control/entity_advance", e))) goto out;
    stmt_int(c, s, ":id", en->id);
    stmt_int(c, s, ":token", en->token);
    stmt_text(c, s, ":seen", en->state);
    stmt_text(c, s, ":to", to);
    stmt_text(c, s, ":event", event);
    stmt_text(c, s, ":actor", c->actor);
    stmt_text(c, s, ":detail", detail);
    stmt_text(c, s, ":checkpoint", checkpoint);
    bool err = why && why->class != ERR_NONE;
    stmt_text(c, s, ":code", err ? err_code_name(why->code) : NULL);
    stmt_text_or_null(c, s, ":marker", err ? marker_name(why->marker) : NULL);
    stmt_text(c, s, ":message", err ? why->msg : NULL);
    if (stmt_run(c, s, e) < 0) goto out;
    changed = sqlite3_changes(c->db) > 0;
    if (FAULT("control.advance", e) < 0 || by_id(c, en->id, &now, e) < 0) goto out;
    rc = 0;
out:
    rc = txn_end(&t, rc, e);
    if (rc < 0) {
        entity_free(&now);
        return err_wrap(e, "%s '%s' at '%s'", en->kind, en->name, event);
    }
    entity_free(en);
    *en = now;
    *moved = changed;
    return 0;
}

/* ---- the machine as data --------------------------------------------------------------------------------------------------- */

int machine_step(struct control *c, const char *kind, const char *state, char step[64], bool *tailing, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/state_find", e);
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    stmt_text(c, s, ":state", state);
    int rc = stmt_step(c, s, e);
    if (rc < 0) return -1;
    if (rc == 0) return err_set(e, CODE_NOT_FOUND, "a %s has no state '%s'", kind, state);
    snprintf(step, 64, "%s", stmt_str(s, 0));
    *tailing = sqlite3_column_int(s, 1) != 0;
    stmt_end(s);
    return 0;
}

bool machine_has_event(struct control *c, const char *kind, const char *state, const char *event) {
    struct err ignored = {0};
    char to[32];
    return edge(c, kind, state, event, to, &ignored) > 0;
}

int machine_check(struct control *c, const char *const *names, size_t n, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/steps", e);
    struct buf missing = BUF_INIT(1024);
    bool seen[64] = {false};
    int rc = -1, more;
    if (!s) return -1;
    if (n > MEM_ARRAY_LEN(seen)) return err_set(e, CODE_INTERNAL, "more than %zu steps", MEM_ARRAY_LEN(seen));
    while ((more = stmt_step(c, s, e)) > 0) {
        size_t i = 0;
        while (i < n && strcmp(names[i], stmt_str(s, 0)) != 0)
            i++;
        if (i < n) seen[i] = true;
        else if (buf_addf(&missing, e, " %s", stmt_str(s, 0)) < 0) goto out;
    }
    if (more < 0) goto out;
    if (missing.n) {
        err_set(e, CODE_INTERNAL, "steps without a function:%s", buf_str(&missing, e));
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        if (!seen[i]) {
            err_set(e, CODE_INTERNAL, "function '%s' is not the step of any state", names[i]);
            goto out;
        }
    rc = 0;
out:
    stmt_end(s);
    buf_free(&missing);
    return rc;
}

static int print_states(struct control *c, const char *kind, bool dot, struct buf *out, size_t *n, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/machine_states", e);
    int more;
    char last[32] = "";
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    while ((more = stmt_step(c, s, e)) > 0) {
        const char *k = stmt_str(s, 0), *state = stmt_str(s, 1), *step = stmt_str(s, 4), *comment = stmt_str(s, 5);
        bool initial = sqlite3_column_int(s, 2), tailing = sqlite3_column_int(s, 3);
        int rc;
        ++*n;
        if (dot)
            rc = buf_addf(out, e, "    \"%s/%s\" [label=\"%s\\n%s\"%s%s];\n", k, state, state, step, initial ? ", style=bold" : "",
                          tailing ? ", peripheries=2" : "");
        else
            rc = buf_addf(out, e, "%s%s%-14s %-16s %-16s %s\n", strcmp(last, k) ? k : "", strcmp(last, k) ? " states\n  " : "  ", state,
                          *step ? step : "-",
                          initial   ? "born here"
                          : tailing ? "ticks"
                                    : "",
                          comment);
        snprintf(last, sizeof last, "%s", k);
        if (rc < 0) {
            stmt_end(s);
            return -1;
        }
    }
    return more;
}

static int print_edges(struct control *c, const char *kind, bool dot, struct buf *out, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/machine_edges", e);
    int more;
    char last[32] = "";
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    while ((more = stmt_step(c, s, e)) > 0) {
        const char *k = stmt_str(s, 0), *from = stmt_str(s, 1), *event = stmt_str(s, 2), *to = stmt_str(s, 3), *comment = stmt_str(s, 4);
        int rc;
        if (dot) rc = buf_addf(out, e, "    \"%s/%s\" -> \"%s/%s\" [label=\"%s\"];\n", k, from, k, to, event);
        else
            rc = buf_addf(out, e, "%s%s%-14s --%-10s--> %-14s %s\n", strcmp(last, k) ? k : "", strcmp(last, k) ? " moves\n  " : "  ", from,
                          event, to, comment);
        snprintf(last, sizeof last, "%s", k);
        if (rc < 0) {
            stmt_end(s);
            return -1;
        }
    }
    return more;
}

int machine_print(struct control *c, const char *kind, bool dot, struct buf *out, struct err *e) {
    size_t n = 0;
    if (dot && buf_adds(out, "digraph machine {\n    rankdir=LR;\n    node [shape=box];\n", e) < 0) return -1;
    if (print_states(c, kind, dot, out, &n, e) < 0) return -1;
    if (n == 0) {
        err_set(e, CODE_NOT_FOUND, "there is no machine '%s'", kind ? kind : "");
        return err_hint(e, "the kinds are producer, broker and task");
    }
    if (print_edges(c, kind, dot, out, e) < 0) return -1;
    return dot ? buf_adds(out, "}\n", e) : 0;
}
