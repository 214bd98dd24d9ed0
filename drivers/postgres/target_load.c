/* Bulk load: COPY on a connection of its own, one transaction a chunk, its mark in the same transaction.
 *
 * DESIGN
 * 1. Every chunk's transaction holds the state row in its epoch; a takeover waits for it, and a loader of an older epoch is refused.
 * 2. Rows go out in pieces of at least 64 KiB, never one by one.
 * 3. Text that came from another PostgreSQL goes in as it came, with the columns named. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"

#define PIECE KiB(64)

struct loader {
    PGconn *c;
    char *stream_id, *hold_sql, *mark_sql, *read_sql;
    uint64_t epoch;
    bool replica, copying;
    struct target_table *tt;
    struct buf out;
    struct value *row;      /* stored columns of one row */
    uint16_t row_cap;
    struct arena *arena;
};

void tg_loader_close(struct loader *l) {
    if (l == NULL) return;
    pg_close(&l->c);    /* the server rolls back what was not committed */
    mem_free(l->stream_id);
    mem_free(l->hold_sql);
    mem_free(l->mark_sql);
    mem_free(l->read_sql);
    mem_free(l->row);
    buf_free(&l->out);
    arena_free(l->arena);
    mem_free(l);
}

int tg_loader_open(struct target *t, const struct target_state *st, struct loader **out, struct err *e) {
    struct loader *l = mem_alloc(sizeof *l, e);
    *out = NULL;
    if (l == NULL) return -1;
    l->out = BUF_INIT((size_t)1 << 31);
    l->epoch = st->epoch;
    if ((l->stream_id = mem_strdup(st->stream_id, e)) == NULL || (l->hold_sql = tg_sql("target_epoch_hold", t->ctl, NULL, NULL, e)) == NULL ||
        (l->mark_sql = tg_sql("target_copy_mark", t->ctl, NULL, NULL, e)) == NULL ||
        (l->read_sql = tg_sql("target_copy_read", t->ctl, NULL, NULL, e)) == NULL || (l->arena = arena_new(KiB(64), e)) == NULL ||
        tg_connect_writer(t->dsn, &l->c, &l->replica, e) < 0) {
        tg_loader_close(l);
        return -1;
    }
    *out = l;
    return 0;
}

bool tg_loader_raw(struct loader *l, const struct target_table *tt, enum rows_encoding enc) {
    (void)l;
    return enc == ROWS_COPY_TEXT && tt->raw;
}

int tg_loader_done(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e) {
    char no[24];
    const char *p[2] = {l->stream_id, tg_u64(no, table)};
    PGresult *r;
    *chunks = 0;
    *whole = false;
    if (pg_query(l->c, l->read_sql, 2, p, "read what was loaded", &r, e) < 0) return -1;
    if (PQntuples(r) == 1) {
        *chunks = (uint64_t)pg_i64(r, 0, 0);
        *whole = pg_bool(r, 0, 1);
    }
    PQclear(r);
    return 0;
}

static int hold(struct loader *l, struct err *e) {
    char epoch[24];
    const char *p[2] = {l->stream_id, tg_u64(epoch, l->epoch)};
    long n = 0;
    if (tg_count(l->c, l->hold_sql, 2, p, "hold the stream's epoch", &n, e) < 0) return -1;
    if (n == 1) return 0;
    err_set(e, CODE_FENCED, "another process took stream '%s' over: epoch %s is no longer in force", l->stream_id, epoch);
    return err_hint(e, "see which host runs this stream (sluice_cdc_state on the target), and stop one of them");
}

int tg_loader_begin(struct loader *l, struct target_table *tt, struct err *e) {
    if (PQstatus(l->c) != CONNECTION_OK) return err_set(e, CODE_UNREACHABLE, "the loader's connection is closed");
    tg_rollback(l->c);
    l->tt = tt;
    l->copying = false;
    buf_reset(&l->out);
    if (tt->nstored > l->row_cap) {
        struct value *v = mem_resize(l->row, tt->nstored * sizeof *v, e);
        if (v == NULL) return -1;
        l->row = v;
        l->row_cap = tt->nstored;
    }
    if (tg_begin(l->c, e) < 0 || hold(l, e) < 0) goto bad;
    if (l->replica && tt->deferrable && pg_do(l->c, "SET LOCAL session_replication_role = origin", NULL, e) < 0) goto bad;
    if (tt->deferrable && pg_do(l->c, "SET CONSTRAINTS ALL DEFERRED", NULL, e) < 0) goto bad;
    PGresult *r = PQexec(l->c, tt->copy_sql);
    l->copying = PQresultStatus(r) == PGRES_COPY_IN;
    if (!l->copying) tg_row_err(e, l->c, r, tt->label);
    PQclear(r);
    if (l->copying) return 0;
bad:
    tg_rollback(l->c);
    return -1;
}

/* The COPY ends in error: what the server says of it comes with its end. */
static int copy_failed(struct loader *l, struct err *e) {
    struct err mine = *e;
    if (l->copying && PQputCopyEnd(l->c, "given up") == 1) {
        PGresult *r;
        bool first = true;
        while ((r = PQgetResult(l->c)) != NULL) {
            if (first && PQresultStatus(r) == PGRES_FATAL_ERROR && !pg_sqlstate_is(r, "57014")) {
                tg_row_err(&mine, l->c, r, l->tt->label);
                first = false;
            }
            PQclear(r);
        }
    }
    l->copying = false;
    tg_rollback(l->c);
    *e = mine;
    return -1;
}

static int put(struct loader *l, const char *p, size_t n, struct err *e) {
    while (n > 0) {
        int part = n > (size_t)MiB(256) ? (int)MiB(256) : (int)n;
        if (PQputCopyData(l->c, p, part) != 1) {
            pg_err(e, l->c, NULL, "table '%s'", l->tt->label);
            return copy_failed(l, e);
        }
        p += part;
        n -= (size_t)part;
    }
    return 0;
}

static int flush(struct loader *l, struct err *e) {
    if (l->out.n == 0) return 0;
    int rc = put(l, l->out.p, l->out.n, e);
    buf_reset(&l->out);
    return rc;
}

int tg_loader_raw_put(struct loader *l, const char *p, size_t n, struct err *e) {
    if (flush(l, e) < 0) return -1;
    return put(l, p, n, e);
}

int tg_loader_rows(struct loader *l, const struct value *rows, size_t nrows, struct err *e) {
    const struct target_table *tt = l->tt;
    uint16_t ncols = tt->src->ncols;
    arena_reset(l->arena);
    for (size_t i = 0; i < nrows; i++, rows += ncols) {
        uint16_t n = 0;
        for (uint16_t c = 0; c < ncols; c++) {
            if (!tt->cols[c].stored) continue;
            if (tg_value(tt, c, &rows[c], rows, l->arena, &l->row[n], e) < 0) return copy_failed(l, e);
            if (l->row[n].kind == VALUE_UNCHANGED) {
                err_set(e, CODE_INTERNAL, "table '%s', column '%s': a copied row does not hold its value", tt->label, tt->src->cols[c].name);
                return copy_failed(l, e);
            }
            if (l->row[n].kind == VALUE_TEXT && l->row[n].len > 0 && memchr(l->row[n].p, 0, l->row[n].len) != NULL) {
                err_set(e, CODE_VALUE_UNREPRESENTABLE, "table '%s', column '%s': a text holds a NUL character, which PostgreSQL cannot store", tt->label,
                        tt->src->cols[c].name);
                return copy_failed(l, e);
            }
            n++;
        }
        if (copytext_encode(&l->out, l->row, n, e) < 0) return copy_failed(l, e);
        if (l->out.n >= PIECE && flush(l, e) < 0) return -1;
        if (arena_bytes(l->arena) > MiB(4)) arena_reset(l->arena);
    }
    return 0;
}

int tg_loader_commit(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e) {
    char no[24], count[24], epoch[24];
    const char *p[5] = {l->stream_id, tg_u64(no, table), tg_u64(count, chunks), whole ? "t" : "f", tg_u64(epoch, l->epoch)};
    long n = 0;
    int rc = 0;
    if (!l->copying) return err_set(e, CODE_INTERNAL, "a chunk ends that was not begun");
    if (flush(l, e) < 0) return -1;
    if (PQputCopyEnd(l->c, NULL) != 1) {
        pg_err(e, l->c, NULL, "table '%s'", l->tt->label);
        return copy_failed(l, e);
    }
    l->copying = false;
    for (PGresult *r; (r = PQgetResult(l->c)) != NULL; PQclear(r))
        if (rc == 0 && PQresultStatus(r) != PGRES_COMMAND_OK) rc = tg_row_err(e, l->c, r, l->tt->label);
    if (rc == 0) rc = tg_count(l->c, l->mark_sql, 5, p, "mark the chunk as loaded", &n, e);
    if (rc == 0 && n != 1) {
        rc = err_set(e, CODE_MARK_MISMATCH, "table '%s': more chunks than %llu are marked as loaded", l->tt->label, (unsigned long long)chunks);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    }
    if (rc == 0) rc = FAULT("postgres.load_before_commit", e);
    if (rc == 0) {
        PGresult *r = PQexec(l->c, "COMMIT");
        if (PQresultStatus(r) != PGRES_COMMAND_OK) rc = tg_row_err(e, l->c, r, l->tt->label);
        else if (strcmp(PQcmdStatus(r), "COMMIT") != 0) rc = err_set(e, CODE_INTERNAL, "the target rolled back what should have been committed");
        if (rc < 0 && strncmp(pg_sqlstate(r), "23", 2) == 0) err_mark(e, MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT, MARKER_NONE);
        PQclear(r);
    }
    if (rc < 0) tg_rollback(l->c);
    return rc < 0 ? -1 : FAULT("postgres.load_after_commit", e);
}
