/* The log of a SQLite source, read tick by tick.
 *
 * DESIGN
 * 1. A tick is one read transaction: the log's rows behind our position and the current rows of the keys they name, so what it tells is the
 * net effect up to one consistent view. It ends in one commit whose position is the last log row of that view.
 * 2. A tick may span many batches; the transaction and one statement stay open between them. Memory is bounded by the batch: the touched
 * keys lie in a temporary table (on disk when it grows).
 * 3. Order inside a tick: truncates of tables that are copied whole (under their old shapes), shape changes, deletes of keys that are gone,
 * updates and inserts, whole copies, commit. So a unique value may move from a row that is gone to another one.
 * 4. What a key's notes say: no NEW: the row existed; first note NEW: it did not; NEW behind another note: unknown, so a present row is
 *    told as delete and insert, which is right in both cases. Unknown too: what a later snapshot of a resumed copy may have seen.
 * 5. Between ticks no transaction is open, so the WAL can be reset; an idle tick writes nothing. */
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/stream.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"

#define POLL_MIN_US 5000
#define POLL_MAX_US 100000
#define ACK_ROWS 1000

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

static int take_known(struct stream *st, struct shape *const *known, size_t n, struct err *e) {
    for (size_t i = 0; i < n; i++) {
        int64_t number = known[i]->oid;
        for (size_t c = 0; number <= 0 && c < st->cap.n; c++)
            if (strcasecmp(st->cap.v[c].shape->name, known[i]->name) == 0) number = st->cap.v[c].n;
        struct shape *s = shape_copy(known[i], e);
        if (!s || sqs_keep_shape(st, s, e) < 0) return -1;
        if (number <= 0) {
            log_warn("a table of the chain is no longer captured", KV_STR("table", s->name));
            continue;
        }
        s->oid = number;
        struct stream_table *t = sqs_find_table(st, number);
        if (!t && !(t = sqs_add_table(st, number, e))) return -1;
        t->told = s;
    }
    return 0;
}

int sq_stream_open(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **out,
                   struct err *e) {
    struct stream *st = mem_alloc(sizeof *st, e);
    bool there;
    *out = NULL;
    if (!st) return -1;
    st->s = s;
    if (sq_open(s->dsn, 0, &st->db, e) < 0 || sq_capture_is(st->db, &there, e) < 0) goto fail;
    if (!there) {
        err_set(e, CODE_SLOT_MISSING, "the SQLite source '%s' has no change log (table sluice_log)", s->path);
        err_hint(e, "begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
        goto fail;
    }
    if (sq_place_of(from, &st->at, e) < 0 || sq_log_has(st->db, &st->at, &there, e) < 0 || sq_capture_load(st->db, &st->cap, e) < 0 ||
        take_known(st, known, nknown, e) < 0 || sq_prepare(st->db, embed_sql("sqlite/log_end"), &st->end_st, e) < 0 ||
        sq_prepare(st->db, "PRAGMA main.schema_version", &st->version_st, e) < 0 ||
        sq_prepare(st->db, "PRAGMA main.data_version", &st->data_version_st, e) < 0)
        goto fail;
    *out = st;
    return 0;
fail:
    sq_stream_close(st);
    return -1;
}

void sq_stream_close(struct stream *st) {
    if (!st) return;
    for (size_t i = 0; i < st->nt; i++)
        sqs_table_reset(&st->t[i]);
    sqlite3_finalize(st->end_st);
    sqlite3_finalize(st->version_st);
    sqlite3_finalize(st->data_version_st);
    sq_rollback(st->db);
    sq_close(st->db);
    for (size_t i = 0; i < st->nkept; i++)
        shape_free(st->kept[i]);
    sq_capture_free(&st->cap);
    mem_free(st->kept);
    mem_free(st->t);
    mem_free(st);
}

/* ---- the contract's functions ---------------------------------------------------------------------------------------------------- */

static int data_version(struct stream *st, int64_t *v, struct err *e) {
    int got = sq_step(st->data_version_st, e);
    *v = got > 0 ? sqlite3_column_int64(st->data_version_st, 0) : 0;
    sqlite3_reset(st->data_version_st);
    return got < 0 ? -1 : 0;
}

int sq_stream_next(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e) {
    int64_t until = clock_mono_us() + wait_us, pause = POLL_MIN_US, version;
    int r = 0;
    b->ends_at_commit = false;
    if (st->phase == PHASE_BROKEN)
        return err_set_class(e, ERR_RETRY, CODE_SERVER, "the stream of '%s' failed before; open it anew", st->s->path);
    while (st->phase == PHASE_IDLE) {
        if (data_version(st, &version, e) < 0) goto broken;
        if (version != st->data_version || st->data_version == 0) {
            if ((r = sqs_begin_tick(st, e)) < 0) goto broken;
            if (r > 0) break;
            st->data_version = version; /* read before the tick: a change in between is seen next time */
        }
        int64_t left = until - clock_mono_us();
        if (left <= 0) return sq_pos_of(&st->at, seen, e);
        if (stop_wait(pause < left ? pause : left)) return sq_pos_of(&st->at, seen, e);
        if ((pause *= 2) > POLL_MAX_US) pause = POLL_MAX_US;
    }
    if (sqs_go_on(st, b, max_bytes, seen, e) == 0) {
        if (st->phase != PHASE_IDLE) return sq_pos_of(&st->at, seen, e);
        return 0;
    }
broken:
    for (size_t i = 0; i < st->nt; i++)
        sqs_table_reset(&st->t[i]);
    sq_rollback(st->db);
    st->touch_keys = 0;                                    /* its making may have been rolled back */
    if (st->phase != PHASE_IDLE) st->phase = PHASE_BROKEN; /* a part was delivered: only a new stream can tell it again */
    return -1;
}

int sq_stream_ack(struct stream *st, const struct pos *p, struct err *e) {
    struct sq_place to;
    sqlite3_stmt *q = NULL;
    int rc = 0;
    struct err busy = {0};
    if (sq_place_of(p, &to, e) < 0) return -1;
    if (st->phase != PHASE_IDLE) return 0; /* inside a read transaction: next time */
    if (to.id > st->at.id) return err_set(e, CODE_INTERNAL, "position %s was acknowledged before it was delivered", p->token);
    if (sq_prepare(st->db, embed_sql("sqlite/log_forget"), &q, e) < 0) return -1;
    sqlite3_bind_int64(q, 1, to.id); /* the row itself stays: its nonce proves the file */
    sqlite3_bind_int64(q, 2, ACK_ROWS);
    /* not synced: what a power failure brings back is forgotten again later */
    if (sq_exec(st->db, "PRAGMA main.synchronous=NORMAL", e) < 0) {
        sqlite3_finalize(q);
        return -1;
    }
    sqlite3_busy_timeout(st->db, 0);
    do {
        if ((rc = sq_run(q, &busy)) < 0) {
            if (busy.class != ERR_RETRY) *e = busy;
            else rc = 0; /* the application writes: forgetting can wait */
            break;
        }
        if (FAULT("sqlite.ack", e) < 0) {
            rc = -1;
            break;
        }
    } while (sqlite3_changes(st->db) == ACK_ROWS);
    sqlite3_busy_timeout(st->db, SQ_BUSY_MS);
    sqlite3_finalize(q);
    if (sq_exec(st->db, "PRAGMA main.synchronous=FULL", rc < 0 ? &busy : e) < 0) rc = -1;
    return rc;
}

int sq_stream_sequences(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e) {
    return sq_stream_sequences_of(st->db, &st->cap, a, o, n, e);
}

int sq_stream_uncaptured(struct stream *st, struct arena *a, const char ***lines, size_t *n, struct err *e) {
    sqlite3_stmt *q = NULL;
    size_t cap = 0;
    int got;
    *lines = NULL;
    *n = 0;
    if (sq_prepare(st->db, embed_sql("sqlite/source_tables"), &q, e) < 0) return -1;
    while ((got = sq_step(q, e)) > 0) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        bool captured = !table_filter_match(&st->s->filter, SQ_NS, name);
        for (size_t i = 0; i < st->cap.n && !captured; i++)
            captured = strcasecmp(st->cap.v[i].shape->name, name) == 0;
        if (captured) continue;
        if (*n == cap) {
            const char **more = arena_alloc(a, (cap = cap ? cap * 2 : 16) * sizeof *more, e);
            if (!more) {
                got = -1;
                break;
            }
            if (*n) memcpy(more, *lines, *n * sizeof *more);
            *lines = more;
        }
        if (!((*lines)[*n] =
                  arena_printf(a, e, SQ_NS ".%s: not captured yet, or bigger than --keyless-max-bytes without a usable key", name))) {
            got = -1;
            break;
        }
        ++*n;
    }
    sqlite3_finalize(q);
    return got;
}
