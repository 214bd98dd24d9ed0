/* One consistent view of a SQLite file, and reading tables from it.
 *
 * DESIGN
 * 1. A snapshot is a connection of its own inside one read transaction. Its position is the end of the log as seen in that transaction, so
 * a change is in the snapshot exactly when its log row is.
 * 2. One reader at a time: SQLite has no way to share a view between connections without a special build.
 * 3. While a snapshot is open in WAL mode, writers go on and the WAL grows; in other modes they wait. It is closed as soon as the copy is
 * done. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/source.h"
#include "engine/base/text.h"

#define BLOCK_BYTES KiB(128)
#define BLOCK_MAX ((size_t)1 << 31)

struct snapshot {
    sqlite3 *db;
    bool in_use;
};

struct reader {
    struct snapshot *snap;
    sqlite3_stmt *st;
    const struct shape *t;
    struct buf block;
    struct arena *scratch;
    struct value *row;
};

void sq_snapshot_close(struct snapshot *snap) {
    if (!snap) return;
    sq_rollback(snap->db);
    sq_close(snap->db);
    mem_free(snap);
}

int sq_snapshot_open(struct source *s, struct pos *p, struct snapshot **out, struct err *e) {
    struct snapshot *snap = mem_alloc(sizeof *snap, e);
    struct sq_place at;
    bool there;
    *out = NULL;
    if (!snap) return -1;
    if (sq_open(s->dsn, 0, &snap->db, e) < 0 || sq_begin(snap->db, false, e) < 0 || sq_capture_is(snap->db, &there, e) < 0)
        goto fail; /* its first read begins the view */
    if (there ? sq_log_end(snap->db, &at, e) < 0 || sq_pos_of(&at, p, e) < 0 : pos_set(p, "sqlite", "0", e) < 0) goto fail;
    *out = snap;
    return 0;
fail:
    sq_snapshot_close(snap);
    return -1;
}

int sq_columns(struct buf *b, const struct shape *s, const char *alias, struct err *e) {
    int n = 0;
    for (uint16_t i = 0; i < s->ncols; i++) {
        if (s->cols[i].generated) continue;
        if ((n++ && buf_adds(b, ", ", e) < 0) || buf_adds(b, alias, e) < 0 || text_ident(b, s->cols[i].name, e) < 0) return -1;
    }
    return n ? 0 : buf_adds(b, "NULL", e);
}

int sq_reader_open(struct snapshot *snap, struct reader **out, struct err *e) {
    *out = NULL;
    if (snap->in_use) return err_set(e, CODE_INTERNAL, "a SQLite snapshot was asked for a second reader");
    struct reader *r = mem_alloc(sizeof *r, e);
    if (!r) return -1;
    r->snap = snap;
    r->block = BUF_INIT(BLOCK_MAX);
    if (!(r->scratch = arena_new(KiB(64), e))) {
        mem_free(r);
        return -1;
    }
    snap->in_use = true;
    *out = r;
    return 0;
}

void sq_reader_close(struct reader *r) {
    if (!r) return;
    sqlite3_finalize(r->st);
    buf_free(&r->block);
    arena_free(r->scratch);
    mem_free(r->row);
    r->snap->in_use = false;
    mem_free(r);
}

int sq_reader_table(struct reader *r, const struct shape *t, enum rows_encoding *enc, struct err *e) {
    struct buf sql = BUF_INIT(MiB(4));
    char label[160];
    int rc = -1;
    *enc = ROWS_VALUES;
    r->t = t;
    mem_free(r->row);
    if (!(r->row = mem_alloc((t->ncols + 1u) * sizeof *r->row, e)) || buf_adds(&sql, "SELECT ", e) < 0 || sq_columns(&sql, t, "", e) < 0 ||
        buf_adds(&sql, " FROM main.", e) < 0 || text_ident(&sql, t->name, e) < 0 || !buf_str(&sql, e))
        goto out;
    if (sq_prepare(r->snap->db, sql.p, &r->st, e) < 0) {
        if (e->code == CODE_SERVER && e->class == ERR_REFUSE) { /* no such table or column: the schema is not the catalogue's */
            char why[256];
            snprintf(why, sizeof why, "%.255s", sqlite3_errmsg(r->snap->db));
            err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "table '%s' changed since its shape was read: %s", shape_label(t, label), why);
            err_hint(e, "run it again; a copy that was begun before the change must be begun anew with --force-overwrite");
        }
        goto out;
    }
    rc = 0;
out:
    buf_free(&sql);
    return rc;
}

int sq_reader_next(struct reader *r, const char **p, size_t *n, uint64_t *rows, struct err *e) {
    char label[160];
    int got = 1;
    buf_reset(&r->block);
    arena_reset(r->scratch);
    *rows = 0;
    while (r->st && r->block.n < BLOCK_BYTES && (got = sq_step(r->st, e)) > 0) {
        int col = 0;
        for (uint16_t i = 0; i < r->t->ncols; i++) {
            if (r->t->cols[i].generated) {
                r->row[i] = (struct value){NULL, 0, VALUE_UNCHANGED};
                continue;
            }
            if (sq_value(r->st, col++, &r->t->cols[i], false, r->scratch, &r->row[i], e) < 0) {
                got = -1;
                break;
            }
        }
        if (got > 0 && row_encode(&r->block, r->row, r->t->ncols, e) < 0) got = -1;
        if (got < 0) break;
        ++*rows;
        if (arena_bytes(r->scratch) > MiB(1)) arena_reset(r->scratch);
    }
    if (got < 0) return err_wrap(e, "cannot read table '%s'", shape_label(r->t, label));
    if (got == 0 && r->st) { /* the statement would begin anew */
        sqlite3_finalize(r->st);
        r->st = NULL;
    }
    *p = r->block.p;
    *n = r->block.n;
    return 0;
}

int sq_reader_estimate(struct reader *r, const struct shape *t, int64_t *rows, int64_t *bytes, struct err *e) {
    struct buf sql = BUF_INIT(MiB(1));
    int rc = -1;
    *rows = *bytes = -1;
    if (t->without_rowid) return 0;
    for (uint16_t i = 0; i < t->ncols; i++)
        if (strcasecmp(t->cols[i].name, "_rowid_") == 0) return 0;
    if (buf_adds(&sql, "SELECT coalesce((SELECT max(_rowid_) FROM main.", e) == 0 && text_ident(&sql, t->name, e) == 0 &&
        buf_adds(&sql, ") - (SELECT min(_rowid_) FROM main.", e) == 0 && text_ident(&sql, t->name, e) == 0 &&
        buf_adds(&sql, ") + 1, 0)", e) == 0 && buf_str(&sql, e))
        rc = sq_int(r->snap->db, sql.p, rows, e);
    buf_free(&sql);
    return rc;
}
