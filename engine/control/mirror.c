/* DESIGN: mirrors and the small tables around entities.
 *  1. A mirror repeats what target or chain know: it may be lost or late, never waited for, and a failure of it is a debug line.
 *  2. It is written with synchronous=NORMAL: a power cut may take it back, never tear it.
 *  3. Requests and refusals are kept: answered or cleared once, never deleted. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/control/room.h"

static void mirror_begin(struct control *c) {
    struct err ignored = {0};
    control_patience(c, 0);
    db_exec(c, "PRAGMA synchronous = NORMAL", &ignored);
}

static void mirror_end(struct control *c, const char *what, int rc, const struct err *e) {
    struct err ignored = {0};
    db_exec(c, "PRAGMA synchronous = FULL", &ignored);
    control_patience(c, -1);
    if (rc < 0) log_debug("mirror not written", KV_STR("what", what), KV_STR("why", e->msg));
}

static void stmt_known(struct control *c, sqlite3_stmt *s, const char *name, int64_t v) {
    if (v < 0) stmt_text(c, s, name, NULL);
    else stmt_int(c, s, name, v);
}

void position_mirror(struct control *c, const struct entity *en, const struct mirror *m) {
    struct err e = {0};
    struct txn t;
    mirror_begin(c);
    int rc = txn_begin(&t, c, TXN_WRITE, &e);
    if (rc == 0) {
        sqlite3_stmt *s = stmt_get(c, "control/position_put", &e);
        if (s) {
            stmt_int(c, s, ":entity", en->id);
            stmt_text(c, s, ":link", m->link_id);
            stmt_text(c, s, ":pos", m->pos);
            stmt_int(c, s, ":seq", (int64_t)m->seq);
            /* lag unknown is told by its time; links and bytes are then unknown as well */
            stmt_known(c, s, ":lag_links", m->lag_links > INT64_MAX ? -1 : (int64_t)m->lag_links);
            stmt_known(c, s, ":lag_bytes", m->lag_bytes > INT64_MAX ? -1 : (int64_t)m->lag_bytes);
            stmt_known(c, s, ":lag_us", m->lag_us);
            stmt_int(c, s, ":rows", (int64_t)m->rows);
            stmt_int(c, s, ":at", clock_wall_us());
        }
        rc = txn_end(&t, s ? stmt_run(c, s, &e) : -1, &e);
    }
    mirror_end(c, "position", rc, &e);
}

void chain_mirror(struct control *c, const char *store_endpoint, const char *lineage, const char *json_segments_links) {
    static const char *const steps[] = {"control/chain_drop_other", "control/chain_put", "control/segment_put", "control/link_put"};
    struct err e = {0};
    struct txn t;
    mirror_begin(c);
    int rc = txn_begin(&t, c, TXN_WRITE, &e);
    if (rc == 0) {
        for (size_t i = 0; rc == 0 && i < sizeof steps / sizeof steps[0]; i++) {
            sqlite3_stmt *s = stmt_get(c, steps[i], &e);
            if (!s) {
                rc = -1;
                break;
            }
            stmt_text(c, s, ":lineage", lineage);
            if (i < 2) stmt_text(c, s, ":store", store_endpoint);
            if (i > 0) stmt_text(c, s, ":json", json_segments_links);
            if (i == 1) stmt_int(c, s, ":at", clock_wall_us());
            rc = stmt_run(c, s, &e);
        }
        rc = txn_end(&t, rc, &e);
    }
    mirror_end(c, "chain", rc, &e);
}

/* ---- requests -------------------------------------------------------------------------------------------------------------- */

int request_add(struct control *c, const char *kind, const char *name, const char *verb, struct err *e) {
    struct txn t;
    sqlite3_stmt *s;
    int rc = -1;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    if (!(s = stmt_get(c, "control/request_add", e))) goto out;
    stmt_text(c, s, ":actor", c->actor);
    stmt_text(c, s, ":kind", kind);
    stmt_text(c, s, ":name", name);
    stmt_text(c, s, ":verb", verb);
    rc = stmt_run(c, s, e);
out:
    rc = txn_end(&t, rc, e);
    return rc < 0 ? err_wrap(e, "cannot ask %s '%s' to %s", kind, name, verb) : 0;
}

int request_next(struct control *c, const struct entity *en, int64_t since_id, int64_t *id, char verb[32], struct err *e) {
    *id = 0;
    verb[0] = 0;
    sqlite3_stmt *s = stmt_get(c, "control/request_next", e);
    if (!s) return -1;
    stmt_text(c, s, ":kind", en->kind);
    stmt_text(c, s, ":name", en->name);
    stmt_int(c, s, ":since", since_id);
    control_patience(c, 0);
    int rc = stmt_step(c, s, e);
    control_patience(c, -1);
    if (rc > 0) {
        *id = sqlite3_column_int64(s, 0);
        size_t n = strnlen(stmt_str(s, 1), 31);
        memcpy(verb, stmt_str(s, 1), n);
        verb[n] = 0;
        stmt_end(s);
    }
    if (rc < 0 && e->code == CODE_CONTROL_LOCKED) { /* seen at the next tick */
        err_clear(e);
        return 0;
    }
    return rc < 0 ? -1 : 0;
}

int request_last_id(struct control *c, int64_t *id, struct err *e) {
    *id = 0;
    sqlite3_stmt *s = stmt_get(c, "control/request_last_id", e);
    if (!s) return -1;
    int rc = stmt_step(c, s, e);
    if (rc > 0) *id = sqlite3_column_int64(s, 0);
    if (rc > 0) stmt_end(s);
    return rc < 0 ? -1 : 0;
}

int request_done(struct control *c, int64_t id, const char *result, struct err *e) {
    struct txn t;
    sqlite3_stmt *s;
    int rc = -1;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    if (!(s = stmt_get(c, "control/request_done", e))) goto out;
    stmt_int(c, s, ":id", id);
    stmt_text(c, s, ":result", result);
    stmt_int(c, s, ":at", clock_wall_us());
    rc = stmt_run(c, s, e);
out:
    return txn_end(&t, rc, e);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------------------- */

static int clear_open(struct control *c, const struct entity *en, const char *by, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/refusal_clear", e);
    if (!s) return -1;
    stmt_int(c, s, ":entity", en->id);
    stmt_int(c, s, ":at", clock_wall_us());
    stmt_text(c, s, ":by", by);
    return stmt_run(c, s, e);
}

int refusal_record(struct control *c, const struct entity *en, const struct err *why, struct err *e) {
    struct txn t;
    sqlite3_stmt *s;
    int rc = -1;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    /* The same one again is one refusal: it stands since the first time. */
    if (!(s = stmt_get(c, "control/refusal_same", e))) goto out;
    stmt_int(c, s, ":entity", en->id);
    stmt_text(c, s, ":code", err_code_name(why->code));
    stmt_text_or_null(c, s, ":marker", marker_name(why->marker));
    stmt_text(c, s, ":message", why->msg);
    int same = stmt_step(c, s, e);
    if (same < 0) goto out;
    if (same) {
        stmt_end(s);
        rc = 0;
        goto out;
    }
    if (clear_open(c, en, "another refusal", e) < 0 || !(s = stmt_get(c, "control/refusal_add", e))) goto out;
    stmt_int(c, s, ":entity", en->id);
    stmt_text(c, s, ":class", err_class_name(why->class));
    stmt_text(c, s, ":code", err_code_name(why->code));
    stmt_text_or_null(c, s, ":marker", marker_name(why->marker));
    stmt_text_or_null(c, s, ":sub", marker_name(why->sub));
    stmt_int(c, s, ":restartable", why->marker ? marker_restartable(why->marker) : why->class == ERR_RETRY || why->class == ERR_BUG);
    stmt_text(c, s, ":message", why->msg);
    stmt_text_or_null(c, s, ":hint", why->hint[0] ? why->hint : err_code_remedy(why->code));
    rc = stmt_run(c, s, e);
out:
    return txn_end(&t, rc, e);
}

int refusal_clear(struct control *c, const struct entity *en, struct err *e) {
    struct txn t;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    return txn_end(&t, clear_open(c, en, c->actor, e), e);
}
