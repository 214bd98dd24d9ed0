/* A table made anew under its new shape, its rows moved over, inside the caller's transaction.
 *
 * DESIGN
 * 1. The old table steps aside under another name, so that the new one is made by the source's text to the letter; then it goes. Renames
 *    run in legacy mode: views, triggers and foreign keys of other tables that speak of the name mean the new table afterwards.
 * 2. A value that the new column would store as another one refuses the change, and so does a row it forbids.
 * 3. The AUTOINCREMENT counter goes on; indexes and triggers that were there and are not the source's are made again. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_diff.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define DDL_MAX MiB(4)
#define ASIDE "sluice_aside"

struct extra {
    char *name, *sql;
    bool trigger;
};
struct extras {
    struct extra *v;
    size_t n;
};

static void extras_free(struct extras *x) {
    for (size_t i = 0; i < x->n; i++) {
        mem_free(x->v[i].name);
        mem_free(x->v[i].sql);
    }
    mem_free(x->v);
}

static bool of_source(const struct shape *s, const char *index) {
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (sqt_name_same(s->keys[i].name, index)) return true;
    return false;
}

/* The table's triggers, and the indexes that the source does not know. */
static int extras_read(sqlite3 *db, const struct shape_diff *d, const char *name, struct extras *x, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    int rc = -1;
    if (sqt_named(db, "sqlite/target_table_extras", &s, e) < 0 || sqt_bind_str(s, ":name", name, e) < 0) goto out;
    while ((rc = sqt_step(s, &row, e)) == 0 && row) {
        const char *n = (const char *)sqlite3_column_text(s, 1);
        bool trigger = strcmp((const char *)sqlite3_column_text(s, 0), "trigger") == 0;
        if (!trigger && (of_source(d->after, n) || of_source(d->before, n))) continue;
        struct extra *v = mem_resize(x->v, (x->n + 1) * sizeof *v, e);
        if (!v) {
            rc = -1;
            break;
        }
        x->v = v;
        v[x->n] = (struct extra){mem_strdup(n, e), mem_strdup((const char *)sqlite3_column_text(s, 2), e), trigger};
        x->n++;
        if (!v[x->n - 1].name || !v[x->n - 1].sql) {
            rc = -1;
            break;
        }
    }
out:
    sqlite3_finalize(s);
    return rc;
}

static int extras_make(sqlite3 *db, const struct extras *x, const char *name, struct err *e) {
    for (size_t i = 0; i < x->n; i++)
        if (sq_exec(db, x->v[i].sql, e) < 0)
            return err_wrap(e, "%s '%s' of table '%s' does not fit the table's new shape", x->v[i].trigger ? "trigger" : "index",
                            x->v[i].name, name);
    return 0;
}

/* A condition on old values of a column that its new affinity would change; NULL when there is none. */
static const char *changed_if(enum sq_affinity was, enum sq_affinity is) {
    if (was == is) return NULL;
    switch (is) {
    case SQ_AFF_TEXT: return "typeof(%s) = 'real'";
    case SQ_AFF_INTEGER:
    case SQ_AFF_NUMERIC:
        if (was == SQ_AFF_INTEGER || was == SQ_AFF_NUMERIC) return NULL;
        return "typeof(%s) IN ('text', 'real')";
    case SQ_AFF_REAL: return "typeof(%s) IN ('text', 'integer')";
    case SQ_AFF_BLOB: return NULL;
    }
    return NULL;
}

/* Invariant 2, of a SQLite source; another engine's conversions were decided before. */
static int keeps_values(sqlite3 *db, const struct shape_diff *d, const struct shape *old, const char *name, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX), col = BUF_INIT(KiB(64));
    int64_t any = 0;
    int rc = 0;
    for (uint16_t i = 0; rc == 0 && sqt_is_own(d->after) && i < d->after->ncols; i++) {
        const struct column *a = &d->after->cols[i];
        if (d->from[i] < 0 || a->generated) continue;
        const char *was = d->before->cols[d->from[i]].name, *sql, *quoted, *cond;
        int at = sqt_col(old, was);
        if (at < 0) continue;
        cond = changed_if(sq_affinity(old->cols[at].native, old->strict), sq_affinity(a->native, d->after->strict));
        if (!cond) continue;
        buf_reset(&b);
        buf_reset(&col);
        rc = -1;
        if (text_ident(&col, was, e) < 0 || !(quoted = buf_str(&col, e)) || buf_adds(&b, "SELECT EXISTS(SELECT 1 FROM main.", e) < 0 ||
            text_ident(&b, name, e) < 0 || buf_adds(&b, " WHERE ", e) < 0)
            break;
        const char *hole = strstr(cond, "%s");
        if (buf_add(&b, cond, (size_t)(hole - cond), e) < 0 || buf_adds(&b, quoted, e) < 0 || buf_adds(&b, hole + 2, e) < 0 ||
            buf_addc(&b, ')', e) < 0 || !(sql = buf_str(&b, e)))
            break;
        rc = sq_int(db, sql, &any, e);
        if (rc == 0 && any) {
            err_set(e, CODE_SHAPE_CHANGED, "column '%s' of table '%s' became '%s', which would change values that are there", a->name, name,
                    a->native);
            rc = sqt_shape_refused(d->after, e);
        }
    }
    buf_free(&b);
    buf_free(&col);
    return rc;
}

static int move_rows(sqlite3 *db, const struct shape_diff *d, const struct shape *old, const char *name, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX);
    const char *sql;
    int rc = -1, n = 0;
    if (buf_adds(&b, "INSERT OR ABORT INTO main.", e) < 0 || text_ident(&b, name, e) < 0) goto out;
    for (int part = 0; part < 2; part++) {
        n = 0;
        for (uint16_t i = 0; i < d->after->ncols; i++) {
            if (d->from[i] < 0 || d->after->cols[i].generated) continue;
            const struct column *was = &d->before->cols[d->from[i]];
            if (sqt_col(old, was->name) < 0) continue; /* the target never had it */
            if (buf_adds(&b, n++ ? ", " : part ? ") SELECT " : "(", e) < 0) goto out;
            if (part == 0) {
                if (text_ident(&b, d->after->cols[i].name, e) < 0) goto out;
            } else if (d->expr[i].n ? buf_add(&b, d->expr[i].p, d->expr[i].n, e) < 0 : text_ident(&b, was->name, e) < 0) {
                goto out;
            }
        }
        if (n == 0) { /* no column stays: nothing to move, and rows would be lost */
            int64_t any = 0;
            rc = sq_int(db, "SELECT EXISTS(SELECT 1 FROM main." ASIDE ")", &any, e);
            if (rc == 0 && any) {
                err_set(e, CODE_SHAPE_CHANGED, "no column of table '%s' stays", name);
                rc = sqt_shape_refused(d->after, e);
            }
            goto out;
        }
    }
    if (buf_adds(&b, " FROM main." ASIDE, e) == 0 && (sql = buf_str(&b, e))) rc = sq_exec(db, sql, e);
    if (rc < 0 && (e->code == CODE_CONSTRAINT || e->code == CODE_UNIQUE_CONFLICT)) {
        e->code = CODE_SHAPE_CHANGED;
        err_wrap(e, "rows of table '%s' do not fit its new shape", name);
        sqt_shape_refused(d->after, e);
    }
out:
    buf_free(&b);
    return rc;
}

static int counter(sqlite3 *db, const char *name, int64_t *seq, struct err *e) {
    int64_t there = 0;
    sqlite3_stmt *s = NULL;
    bool row = false;
    *seq = -1;
    if (sqt_count(db, "sqlite/target_sequence_there", &there, e) < 0) return -1;
    if (!there) return 0;
    if (sqt_named(db, "sqlite/target_sequence_read", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":name", name, e) < 0 ? -1 : sqt_step(s, &row, e);
    if (rc == 0 && row) *seq = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc;
}

static int step_aside(sqlite3 *db, const char *name, struct err *e) {
    struct buf b = BUF_INIT(KiB(64));
    const char *sql;
    int rc = -1;
    if (buf_adds(&b, "ALTER TABLE main.", e) == 0 && text_ident(&b, name, e) == 0 && buf_adds(&b, " RENAME TO " ASIDE, e) == 0 &&
        (sql = buf_str(&b, e)))
        rc = sq_exec(db, sql, e);
    buf_free(&b);
    return rc;
}

int sqt_rebuild(sqlite3 *db, const struct shape_diff *d, const char *name, struct err *e) {
    struct extras x = {0};
    struct shape *old = NULL;
    int64_t seq;
    int rc = -1;
    sqlite3_db_config(db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1, NULL);
    if (sq_table_shape(db, SQ_NS, name, &old, e) < 0 || !old || extras_read(db, d, name, &x, e) < 0 || counter(db, name, &seq, e) < 0 ||
        keeps_values(db, d, old, name, e) < 0)
        goto out;
    if (step_aside(db, name, e) < 0 || sqt_create_in(db, d->after, name, e) < 0 || move_rows(db, d, old, name, e) < 0 ||
        sq_exec(db, "DROP TABLE main." ASIDE, e) < 0)
        goto out;
    if (seq >= 0 && sqt_sequence_forward(db, name, seq, e) < 0) goto out;
    if (extras_make(db, &x, name, e) < 0) {
        sqt_shape_refused(d->after, e);
        goto out;
    }
    log_info("table made anew under its new shape", KV_STR("table", name));
    rc = 0;
out:
    sqlite3_db_config(db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 0, NULL);
    shape_free(old);
    extras_free(&x);
    return rc;
}
