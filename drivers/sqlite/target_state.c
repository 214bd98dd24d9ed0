/* The control tables on the target: the stream's state row, its lanes and its copy marks.
 *
 * DESIGN
 * 1. One stream, one writer: every write transaction of ours looks at the epoch first, and takeover raises it in the state row and all lane
 *    rows in one transaction, which BEGIN IMMEDIATE makes wait for transactions in flight. A former writer gets CODE_FENCED and writes
 *    nothing.
 * 2. An epoch only grows, also over a state row that was removed and written anew while lanes stayed.
 * 3. A file that was never written by us has no control table, and reading it creates none. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/text.h"

int sqt_control_there(struct target *t, bool *there, struct err *e) {
    int64_t n;
    if (sqt_count(t->db, "sqlite/target_control_there", &n, e) < 0) return -1;
    *there = n > 0;
    return 0;
}

static int meta_put(sqlite3 *db, const char *k, const char *v, struct err *e) {
    sqlite3_stmt *s = NULL;
    if (sqt_named(db, "sqlite/target_meta_put", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":k", k, e) < 0 || sqt_bind_str(s, ":v", v, e) < 0 ? -1 : sqt_done(s, e);
    sqlite3_finalize(s);
    return rc;
}

static int format_check(sqlite3 *db, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    int64_t format = 0;
    if (sqt_named(db, "sqlite/target_meta_get", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":k", "format", e) < 0 ? -1 : sqt_step(s, &row, e);
    if (rc == 0 && (!row || text_i64((const char *)sqlite3_column_text(s, 0), &format) < 0))
        rc = err_set(e, CODE_FORMAT_UNSUPPORTED, "the target's table 'sluice_cdc_meta' names no format");
    sqlite3_finalize(s);
    if (rc < 0 || format <= TARGET_FORMAT) return rc;
    err_set(e, CODE_FORMAT_UNSUPPORTED, "the target's control tables have format %lld, this binary knows %d", (long long)format,
            TARGET_FORMAT);
    return err_hint(e, "use the newer sluice that wrote them");
}

int sqt_control_ensure(struct target *t, struct err *e) {
    bool there;
    int64_t meta;
    char identity[128];
    if (sqt_control_there(t, &there, e) < 0 || sqt_count(t->db, "sqlite/target_meta_there", &meta, e) < 0) return -1;
    if (there && meta) return format_check(t->db, e);
    if (sqlite_target_ops.identity(t, identity, e) < 0 || sq_begin(t->db, true, e) < 0) return -1;
    if (sq_exec(t->db, embed_sql("sqlite/target_control_create"), e) < 0 || meta_put(t->db, "format", "1", e) < 0 ||
        meta_put(t->db, "identity", identity, e) < 0 || format_check(t->db, e) < 0 || FAULT("sqlite.control_before_commit", e) < 0) {
        sq_rollback(t->db);
        return err_wrap(e, "cannot make the control tables on the target");
    }
    return sq_commit(t->db, e);
}

static void copy_text(sqlite3_stmt *s, int col, char *out, size_t out_len) {
    const char *p = (const char *)sqlite3_column_text(s, col);
    snprintf(out, out_len, "%s", p ? p : "");
}

static void state_fill(sqlite3_stmt *s, struct target_state *st) {
    memset(st, 0, sizeof *st);
    copy_text(s, 0, st->stream_id, sizeof st->stream_id);
    copy_text(s, 1, st->lineage, sizeof st->lineage);
    copy_text(s, 2, st->source_identity, sizeof st->source_identity);
    copy_text(s, 3, st->link_id, sizeof st->link_id);
    st->seq = (uint64_t)sqlite3_column_int64(s, 4);
    st->epoch = (uint64_t)sqlite3_column_int64(s, 5);
    st->format = sqlite3_column_int(s, 6);
    copy_text(s, 7, st->phase, sizeof st->phase);
    copy_text(s, 8, st->detail, sizeof st->detail);
    st->stop_requested_us = sqlite3_column_int64(s, 9);
    copy_text(s, 10, st->refusal, sizeof st->refusal);
    st->updated_us = sqlite3_column_int64(s, 11);
}

static int state_get(sqlite3 *db, const char *stream_id, struct target_state *st, bool *found, struct err *e) {
    sqlite3_stmt *s = NULL;
    *found = false;
    if (sqt_named(db, "sqlite/target_state_read", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", stream_id, e) < 0 ? -1 : sqt_step(s, found, e);
    if (rc == 0 && *found) state_fill(s, st);
    sqlite3_finalize(s);
    if (rc == 0 && *found && st->format > TARGET_FORMAT)
        return err_set(e, CODE_FORMAT_UNSUPPORTED, "stream '%s' on the target has format %d, this binary knows %d", stream_id, st->format,
                       TARGET_FORMAT);
    return rc;
}

int sqt_state_read(struct target *t, const char *stream_id, struct target_state *st, bool *found, struct err *e) {
    bool there;
    *found = false;
    memset(st, 0, sizeof *st);
    if (sqt_control_there(t, &there, e) < 0) return -1;
    return there ? state_get(t->db, stream_id, st, found, e) : 0;
}

int sqt_state_list(struct target *t, struct arena *a, struct target_state **st, size_t *n, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool there, row = false;
    size_t cap = 0;
    *st = NULL;
    *n = 0;
    if (sqt_control_there(t, &there, e) < 0) return -1;
    if (!there) return 0;
    if (sqt_named(t->db, "sqlite/target_state_list", &s, e) < 0) return -1;
    int rc;
    while ((rc = sqt_step(s, &row, e)) == 0 && row) {
        if (*n == cap) {
            size_t more = cap ? cap * 2 : 8;
            struct target_state *v = arena_alloc(a, more * sizeof *v, e);
            if (!v) {
                rc = -1;
                break;
            }
            if (*n) memcpy(v, *st, *n * sizeof *v);
            *st = v;
            cap = more;
        }
        state_fill(s, &(*st)[(*n)++]);
    }
    sqlite3_finalize(s);
    return rc;
}

int sqt_fenced(const char *stream_id, struct err *e) {
    err_set(e, CODE_FENCED, "another process took stream '%s' over on the target", stream_id);
    return err_hint(e, "see which host runs it; stop one of them");
}

int sqt_epoch_check(sqlite3 *db, const char *stream_id, uint64_t epoch, bool absent_is_fine, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    uint64_t have = 0;
    if (sqt_named(db, "sqlite/target_state_epoch", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", stream_id, e) < 0 ? -1 : sqt_step(s, &row, e);
    if (rc == 0 && row) have = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    if (rc < 0) return -1;
    if (!row && absent_is_fine) return 0;
    return row && have == epoch ? 0 : sqt_fenced(stream_id, e);
}

static int state_bind(sqlite3_stmt *s, const struct target_state *st, struct err *e) {
    if (sqt_bind_str(s, ":stream_id", st->stream_id, e) < 0 || sqt_bind_str(s, ":lineage", st->lineage, e) < 0 ||
        sqt_bind_str(s, ":source_identity", st->source_identity, e) < 0 || sqt_bind_str(s, ":link_id", st->link_id, e) < 0 ||
        sqt_bind_i64(s, ":seq", (int64_t)st->seq, e) < 0 || sqt_bind_i64(s, ":epoch", (int64_t)st->epoch, e) < 0 ||
        sqt_bind_i64(s, ":format", st->format ? st->format : TARGET_FORMAT, e) < 0 || sqt_bind_str(s, ":phase", st->phase, e) < 0 ||
        sqt_bind_str(s, ":detail", st->detail, e) < 0 || sqt_bind_str(s, ":refusal", st->refusal, e) < 0)
        return -1;
    return sqt_bind_i64(s, ":updated_us", st->updated_us, e);
}

static int state_run(sqlite3 *db, const char *block, const struct target_state *st, struct err *e) {
    sqlite3_stmt *s = NULL;
    if (sqt_named(db, block, &s, e) < 0) return -1;
    int rc = state_bind(s, st, e) < 0 ? -1 : sqt_done(s, e);
    sqlite3_finalize(s);
    return rc;
}

int sqt_state_write(struct target *t, struct target_state *st, struct err *e) {
    sqlite3 *db = t->db;
    st->updated_us = clock_wall_us();
    if (sq_begin(db, true, e) < 0) return -1;
    if (state_run(db, "sqlite/target_state_insert", st, e) < 0) goto fail;
    if (sqlite3_changes(db) == 0) {
        if (state_run(db, "sqlite/target_state_update", st, e) < 0) goto fail;
        if (sqlite3_changes(db) == 0) {
            sqt_fenced(st->stream_id, e);
            goto fail;
        }
    }
    if (FAULT("sqlite.state_before_commit", e) < 0) goto fail;
    if (sq_commit(db, e) < 0) return -1;
    return FAULT("sqlite.state_after_commit", e);
fail:
    sq_rollback(db);
    return -1;
}

/* A block whose only parameter is the stream. */
static int stream_run(sqlite3 *db, const char *block, const char *stream_id, struct err *e) {
    sqlite3_stmt *s = NULL;
    if (sqt_named(db, block, &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", stream_id, e) < 0 ? -1 : sqt_done(s, e);
    sqlite3_finalize(s);
    return rc;
}

static int unknown(const char *stream_id, struct err *e) {
    err_set(e, CODE_STREAM_UNKNOWN, "the target has no saved position for stream '%s'", stream_id);
    return err_hint(e, "give --reset-target-data, or --at-chain-id ID");
}

int sqt_takeover(struct target *t, struct target_state *st, struct err *e) {
    sqlite3 *db = t->db;
    char stream_id[256];
    bool there, found = false;
    snprintf(stream_id, sizeof stream_id, "%s", st->stream_id);
    if (sqt_control_there(t, &there, e) < 0) return -1;
    if (!there) return unknown(stream_id, e);
    if (sq_begin(db, true, e) < 0) return -1;
    if (stream_run(db, "sqlite/target_state_raise", stream_id, e) < 0) goto fail;
    if (sqlite3_changes(db) == 0) {
        unknown(stream_id, e);
        goto fail;
    }
    if (stream_run(db, "sqlite/target_lanes_raise", stream_id, e) < 0 || state_get(db, stream_id, st, &found, e) < 0 ||
        FAULT("sqlite.takeover_before_commit", e) < 0)
        goto fail;
    if (sq_commit(db, e) < 0) return -1;
    return FAULT("sqlite.takeover_after_commit", e);
fail:
    sq_rollback(db);
    return -1;
}

int sqt_stop_request(struct target *t, const char *stream_id, int64_t us, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool there;
    if (sqt_control_there(t, &there, e) < 0) return -1;
    if (!there) return unknown(stream_id, e);
    if (sqt_named(t->db, "sqlite/target_stop_request", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", stream_id, e) < 0 || sqt_bind_i64(s, ":us", us, e) < 0 ? -1 : sqt_done(s, e);
    if (rc == 0 && sqlite3_changes(t->db) == 0) rc = unknown(stream_id, e);
    sqlite3_finalize(s);
    return rc;
}

int sqt_marks_read(struct target *t, const char *stream_id, uint64_t *lane_seq, size_t *nlanes, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool there, row = false;
    size_t cap = *nlanes, n = 0;
    *nlanes = 0;
    if (sqt_control_there(t, &there, e) < 0) return -1;
    if (!there) return 0;
    if (sqt_named(t->db, "sqlite/target_lanes_read", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", stream_id, e);
    while (rc == 0 && (rc = sqt_step(s, &row, e)) == 0 && row) {
        if (n < cap) lane_seq[n] = (uint64_t)sqlite3_column_int64(s, 1);
        n++;
    }
    sqlite3_finalize(s);
    if (rc < 0) return -1;
    if (n > cap) return err_set(e, CODE_MARK_MISMATCH, "stream '%s' has %zu lanes on the target, %zu were expected", stream_id, n, cap);
    *nlanes = n;
    return 0;
}

int sqt_marks_clear(struct target *t, const struct target_state *st, struct err *e) {
    sqlite3 *db = t->db;
    bool there;
    if (sqt_control_there(t, &there, e) < 0) return -1;
    if (!there) return 0;
    if (sq_begin(db, true, e) < 0) return -1;
    if (sqt_epoch_check(db, st->stream_id, st->epoch, true, e) < 0 || stream_run(db, "sqlite/target_lanes_clear", st->stream_id, e) < 0 ||
        stream_run(db, "sqlite/target_copy_clear", st->stream_id, e) < 0 || FAULT("sqlite.marks_clear_before_commit", e) < 0) {
        sq_rollback(db);
        return -1;
    }
    return sq_commit(db, e);
}
