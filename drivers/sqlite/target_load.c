/* Bulk load: the rows of one chunk and its mark in one transaction, on a connection of the loader's own.
 *
 * DESIGN
 * 1. A chunk is there with its mark or not at all, so a killed load goes on at the chunk it was in and no row stands twice.
 * 2. Chunks of a table come in order; a mark that does not follow the one before it is refused.
 * 3. Each transaction looks at the stream's epoch first. Rows are bound to one prepared INSERT; nothing is allocated per row. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"

struct loader {
    char stream_id[256];
    uint64_t epoch;
    sqlite3 *db;
    sqlite3_stmt *done, *mark, *insert;
    struct target_table *tt; /* of `insert` */
    uint64_t tt_id;
};

int sqt_loader_open(struct target *t, const struct target_state *st, struct loader **out, struct err *e) {
    *out = NULL;
    struct loader *l = mem_alloc(sizeof *l, e);
    if (!l) return -1;
    snprintf(l->stream_id, sizeof l->stream_id, "%s", st->stream_id);
    l->epoch = st->epoch;
    if (sqt_connect(t->dsn, &l->db, e) < 0 || sqt_named(l->db, "sqlite/target_copy_read", &l->done, e) < 0 ||
        sqt_named(l->db, "sqlite/target_copy_mark", &l->mark, e) < 0) {
        sqt_loader_close(l);
        return -1;
    }
    *out = l;
    return 0;
}

void sqt_loader_close(struct loader *l) {
    if (!l) return;
    sqlite3_finalize(l->done);
    sqlite3_finalize(l->mark);
    sqlite3_finalize(l->insert);
    sq_rollback(l->db);
    sq_close(l->db);
    mem_free(l);
}

bool sqt_loader_raw(struct loader *l, const struct target_table *tt, enum rows_encoding enc) {
    (void)l;
    (void)tt;
    (void)enc;
    return false;
}

int sqt_loader_raw_put(struct loader *l, const char *p, size_t n, struct err *e) {
    (void)l;
    (void)p;
    (void)n;
    return err_set(e, CODE_INTERNAL, "a SQLite target takes no raw blocks");
}

int sqt_loader_done(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e) {
    bool row = false;
    *chunks = 0;
    *whole = false;
    if (sqt_bind_str(l->done, ":stream_id", l->stream_id, e) < 0 || sqt_bind_i64(l->done, ":tbl", table, e) < 0 ||
        sqt_step(l->done, &row, e) < 0)
        return -1;
    if (row) {
        *chunks = (uint64_t)sqlite3_column_int64(l->done, 0);
        *whole = sqlite3_column_int(l->done, 1) != 0;
    }
    sqlite3_reset(l->done);
    return 0;
}

static int prepare_insert(struct loader *l, struct target_table *tt, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    const char *sql;
    int rc = -1;
    if (l->insert && l->tt == tt && l->tt_id == tt->id) return 0;
    sqlite3_finalize(l->insert);
    l->insert = NULL;
    l->tt = tt;
    l->tt_id = tt->id;
    if (sqt_insert_sql(tt, false, &b, e) == 0 && (sql = buf_str(&b, e))) rc = sqt_prepare(l->db, sql, &l->insert, e);
    buf_free(&b);
    return rc;
}

int sqt_loader_begin(struct loader *l, struct target_table *tt, struct err *e) {
    sq_rollback(l->db); /* what a failed chunk left */
    if (prepare_insert(l, tt, e) < 0) return err_wrap(e, "table '%s'", tt->label);
    if (sq_begin(l->db, true, e) < 0) return -1;
    if (sqt_epoch_check(l->db, l->stream_id, l->epoch, false, e) == 0) return 0;
    sq_rollback(l->db);
    return -1;
}

int sqt_loader_rows(struct loader *l, const struct value *rows, size_t nrows, struct err *e) {
    struct target_table *tt = l->tt;
    uint16_t ncols = tt->src->ncols;
    for (size_t r = 0; r < nrows; r++, rows += ncols) {
        int at = 0;
        for (uint16_t c = 0; c < ncols; c++)
            if (tt->conv[c] != CONV_NONE && sqt_bind_value(tt, l->insert, ++at, c, &rows[c], 0, rows, e) < 0) return -1;
        if (sqlite3_step(l->insert) != SQLITE_DONE) {
            char key[300], doing[512];
            sqt_row_key(tt, rows, key, sizeof key);
            snprintf(doing, sizeof doing, "table '%s', row %s", tt->label, key);
            sqt_err(l->db, doing, e);
            sqlite3_reset(l->insert);
            return -1;
        }
        sqlite3_reset(l->insert);
    }
    return 0;
}

int sqt_loader_commit(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e) {
    uint64_t had;
    bool was_whole;
    if (sqt_loader_done(l, table, &had, &was_whole, e) < 0) goto fail;
    if (was_whole || chunks < had || chunks > had + 1) {
        err_set(e, CODE_MARK_MISMATCH, "table %u has %llu chunks%s, chunk %llu does not follow", table, (unsigned long long)had,
                was_whole ? ", the last included" : "", (unsigned long long)chunks);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        goto fail;
    }
    if (sqt_bind_str(l->mark, ":stream_id", l->stream_id, e) < 0 || sqt_bind_i64(l->mark, ":tbl", table, e) < 0 ||
        sqt_bind_i64(l->mark, ":chunks", (int64_t)chunks, e) < 0 || sqt_bind_i64(l->mark, ":whole", whole, e) < 0 ||
        sqt_bind_i64(l->mark, ":epoch", (int64_t)l->epoch, e) < 0 || sqt_done(l->mark, e) < 0 || FAULT("sqlite.chunk_before_commit", e) < 0)
        goto fail;
    if (sq_commit(l->db, e) < 0) return -1;
    return FAULT("sqlite.chunk_after_commit", e);
fail:
    sq_rollback(l->db);
    return -1;
}
