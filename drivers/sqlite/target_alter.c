/* Following a shape change of the source.
 *
 * DESIGN
 * 1. The change and its mark commit together, so a restart finds the table as the next record expects it.
 * 2. Rows stay. ALTER TABLE where that says the same thing, else the table is made anew from the shape and its rows are moved over inside
 *    the transaction; a row that the new table cannot hold, or would hold as another value, refuses the change.
 * 3. A SQLite source's table ends under the source's own text: ALTER's outcome is compared with it, and made anew when it reads otherwise.
 * 4. A new column's value in rows that are there must be the source's: NULL, or a literal default. What computes is refused, as the
 *    source's results are not in its log.
 * 5. Indexes and triggers that the target's owner added stay; sluice never drops what the source did not have. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_diff.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define DDL_MAX MiB(4)

/* ALTER TABLE main."t" <tail>. */
static int alter(sqlite3 *db, const char *name, struct err *e, const char *verb, const char *a, const char *to) {
    struct buf b = BUF_INIT(DDL_MAX);
    const char *sql;
    int rc = -1;
    if (buf_adds(&b, "ALTER TABLE main.", e) < 0 || text_ident(&b, name, e) < 0 || buf_addf(&b, e, " %s ", verb) < 0) goto out;
    if (a && text_ident(&b, a, e) < 0) goto out;
    if (to && ((a && buf_adds(&b, " TO ", e) < 0) || text_ident(&b, to, e) < 0)) goto out;
    if ((sql = buf_str(&b, e))) rc = sq_exec(db, sql, e);
out:
    buf_free(&b);
    return rc;
}

static int drop_index(sqlite3 *db, const char *name, const char *index, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX);
    sqlite3_stmt *s = NULL;
    const char *sql;
    bool row = false, ours = false;
    int rc = -1;
    if (sqt_named(db, "sqlite/target_object_kind", &s, e) < 0 || sqt_bind_str(s, ":name", index, e) < 0 || sqt_step(s, &row, e) < 0)
        goto out;
    ours = row && strcmp((const char *)sqlite3_column_text(s, 0), "index") == 0 &&
           sqt_name_same((const char *)sqlite3_column_text(s, 1), name);
    sqlite3_reset(s);
    rc = 0;
    if (!ours) goto out;
    rc = -1;
    if (buf_adds(&b, "DROP INDEX main.", e) == 0 && text_ident(&b, index, e) == 0 && (sql = buf_str(&b, e))) rc = sq_exec(db, sql, e);
out:
    sqlite3_finalize(s);
    buf_free(&b);
    return rc;
}

static const struct key *key_named(const struct shape *s, const char *name) {
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (strcmp(s->keys[i].name, name) == 0 && (s->keys[i].kind == KEY_UNIQUE || s->keys[i].kind == KEY_INDEX)) return &s->keys[i];
    return NULL;
}

/* Is the index still what it was? By columns; own texts too, but for a renamed column they differ and the index is simply made again. */
static bool same_index(const struct shape_diff *d, const struct key *b, const struct key *a) {
    if (!a || a->kind != b->kind || a->ncols != b->ncols || a->partial != b->partial || a->expression != b->expression) return false;
    for (uint16_t i = 0; i < a->ncols; i++)
        if (d->from[a->cols[i]] != b->cols[i]) return false;
    return !sqt_is_own(d->after) || sqt_same_text(a->def, b->def);
}

/* Indexes that the source dropped or changed go first: a column in an index cannot be dropped. */
static int drop_indexes(sqlite3 *db, const struct shape_diff *d, const char *name, struct err *e) {
    for (uint16_t i = 0; i < d->before->nkeys; i++) {
        const struct key *k = &d->before->keys[i];
        if ((k->kind != KEY_UNIQUE && k->kind != KEY_INDEX) || (sqt_is_own(d->before) && k->constraint)) continue;
        if (!same_index(d, k, key_named(d->after, k->name)) && drop_index(db, name, k->name, e) < 0) return -1;
    }
    return 0;
}

/* Names of indexes are one space: the source has this one on this table now, so another table of the target has it no longer, or is one
 * that the source dropped and the target keeps. */
static int free_index_names(sqlite3 *db, const struct shape *after, const char *name, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    int rc = 0;
    if (!sqt_is_own(after)) return 0;
    if (sqt_named(db, "sqlite/target_object_kind", &s, e) < 0) return -1;
    for (uint16_t i = 0; rc == 0 && i < after->nkeys; i++) {
        const struct key *k = &after->keys[i];
        if ((k->kind != KEY_UNIQUE && k->kind != KEY_INDEX) || k->constraint) continue;
        if (sqt_bind_str(s, ":name", k->name, e) < 0 || sqt_step(s, &row, e) < 0) {
            rc = -1;
            break;
        }
        if (row && strcmp((const char *)sqlite3_column_text(s, 0), "index") == 0 &&
            !sqt_name_same((const char *)sqlite3_column_text(s, 1), name)) {
            char *other = mem_strdup((const char *)sqlite3_column_text(s, 1), e);
            sqlite3_reset(s);
            if (!other) rc = -1;
            else log_warn("an index moved to another table", KV_STR("index", k->name), KV_STR("from", other), KV_STR("to", name));
            if (rc == 0) rc = drop_index(db, other, k->name, e);
            mem_free(other);
        }
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc;
}

static int rename_columns(sqlite3 *db, const struct shape_diff *d, const char *name, struct err *e) {
    char tmp[40];
    for (int pass = 0; pass < 2; pass++)
        for (uint16_t i = 0; i < d->after->ncols; i++) {
            if (d->from[i] < 0) continue;
            const char *was = d->before->cols[d->from[i]].name, *is = d->after->cols[i].name;
            if (strcmp(was, is) == 0) continue;
            snprintf(tmp, sizeof tmp, "sluice_renamed_%u", i); /* out of the way first: names may move along a chain */
            if (d->nrenamed == 1 && pass == 0) continue;
            if (alter(db, name, e, "RENAME COLUMN", d->nrenamed == 1 ? was : pass ? tmp : was, d->nrenamed == 1 || pass ? is : tmp) < 0)
                return -1;
        }
    return 0;
}

/* ---- texts of a SQLite source's columns ---- */

/* Behind the token at p; quotes and comments are one. */
static const char *skip(const char *p) {
    char q = *p == '[' ? ']' : *p;
    if (*p == '\'' || *p == '"' || *p == '`' || *p == '[') {
        for (p++; *p; p++)
            if (*p == q && (q == ']' || p[1] != q)) return p + 1;
            else if (*p == q) p++;
        return p;
    }
    if (p[0] == '-' && p[1] == '-') return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? end + 2 : p + strlen(p);
    }
    return p + 1;
}

/* The text of the n-th definition (from 0) inside CREATE TABLE's parentheses. */
static bool definition(const char *sql, uint16_t n, const char **from, size_t *len) {
    const char *p = sql;
    int depth = 0;
    while (*p && *p != '(')
        p = skip(p);
    if (!*p) return false;
    for (*from = ++p; *p; p = skip(p)) {
        if (*p == '(') depth++;
        if ((*p == ',' || *p == ')') && depth == 0) {
            if (n == 0) break;
            if (*p == ')') return false;
            n--;
            *from = p + 1;
        }
        if (*p == ')') depth--;
    }
    *len = (size_t)(p - *from);
    return *p && n == 0;
}

/* ---- ALTER TABLE ---- */

static int refuse_computed(const struct shape_diff *d, const struct column *c, struct err *e) {
    char label[160];
    err_set(e, CODE_SHAPE_CHANGED,
            "new column '%s' of table '%s' has the default '%s': what it gave the rows that were there is not in the log", c->name,
            shape_label(d->after, label), c->default_sql ? c->default_sql : "an identity");
    return sqt_shape_refused(d->after, e);
}

/* Invariant 4, of another engine; of a SQLite source the rows are sent anew when a default is more than NULL. */
static int check_added(const struct shape_diff *d, struct err *e) {
    struct buf b = BUF_INIT(KiB(256));
    int rc = 0;
    for (uint16_t i = 0; rc == 0 && !sqt_is_own(d->after) && i < d->after->ncols; i++) {
        const struct column *c = &d->after->cols[i];
        bool plain = true;
        if (d->from[i] >= 0) continue;
        buf_reset(&b);
        if (c->default_sql) rc = sqt_default(c, &b, &plain, e);
        if (rc == 0 && (!plain || c->ident != IDENT_NONE)) rc = refuse_computed(d, c, e);
    }
    buf_free(&b);
    return rc;
}

static int add_column(sqlite3 *db, const struct shape_diff *d, uint16_t i, const char *name, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX);
    const char *from, *sql;
    size_t n;
    int rc = -1;
    if (buf_adds(&b, "ALTER TABLE main.", e) < 0 || text_ident(&b, name, e) < 0 || buf_adds(&b, " ADD COLUMN ", e) < 0) goto out;
    if (!sqt_is_own(d->after)) {
        if (sqt_column_sql(d->after, &d->after->cols[i], true, &b, e) < 0) goto out;
    } else if (!definition(d->after->create_sql, i, &from, &n)) {
        err_set(e, CODE_SHAPE_CHANGED, "cannot read column '%s' in '%.200s'", d->after->cols[i].name, d->after->create_sql);
        goto out;
    } else if (buf_add(&b, from, n, e) < 0) {
        goto out;
    }
    if ((sql = buf_str(&b, e))) rc = sq_exec(db, sql, e);
out:
    buf_free(&b);
    return rc;
}

static bool tail_only(const struct shape_diff *d) {
    bool added = false;
    int last = -1;
    for (uint16_t i = 0; i < d->after->ncols; i++) {
        if (d->from[i] >= 0 && (added || d->from[i] < last)) return false;
        if (d->from[i] >= 0) last = d->from[i];
        added = added || d->from[i] < 0;
    }
    return true;
}

/* Can ALTER TABLE say it? */
static bool alterable(const struct shape_diff *d) {
    if (d->redefined || d->relaxed || d->rekeyed || d->converts) return false;
    if (d->before->strict != d->after->strict || d->before->without_rowid != d->after->without_rowid) return false;
    return tail_only(d);
}

static int by_alter(sqlite3 *db, const struct shape_diff *d, const char *name, struct err *e) {
    for (uint16_t j = 0; j < d->before->ncols; j++)
        if (d->gone[j] && alter(db, name, e, "DROP COLUMN", d->before->cols[j].name, NULL) < 0) return -1;
    if (rename_columns(db, d, name, e) < 0) return -1;
    for (uint16_t i = 0; i < d->after->ncols; i++)
        if (d->from[i] < 0 && add_column(db, d, i, name, e) < 0) return -1;
    return 0;
}

/* Does the table read as it should now? `edited`: it was not the source's to the letter before, then fitting is enough. */
static int reads_right(sqlite3 *db, const struct shape_diff *d, const char *name, bool edited, bool *right, struct err *e) {
    struct shape *now = NULL;
    struct err why = {0};
    if (sq_table_shape(db, SQ_NS, name, &now, e) < 0) return -1;
    *right = now && sqt_compatible(NULL, d->after, now, &why) == 0;
    if (*right && sqt_is_own(d->after) && !edited) *right = sqt_same_text(now->create_sql, d->after->create_sql);
    shape_free(now);
    return 0;
}

/* ---- the whole change ---- */

static int keys_allow(sqlite3 *db, const struct shape *after, const char *name, struct err *e) {
    struct shape *now = NULL;
    int rc = sq_table_shape(db, SQ_NS, name, &now, e);
    if (rc == 0) rc = sqt_keys_check(NULL, after, now, e);
    shape_free(now);
    return rc;
}

static int follow(sqlite3 *db, const struct shape *before, const struct shape *after, const char *old_name, const char *name,
                  struct err *e) {
    struct shape_diff d = {0};
    struct shape *was = NULL;
    bool right = false, edited = false;
    int rc = -1;
    if (sqt_diff(before, after, &d, e) < 0 || check_added(&d, e) < 0 || sq_table_shape(db, SQ_NS, old_name, &was, e) < 0) goto out;
    if (!was) {
        err_set(e, CODE_SHAPE_CHANGED, "the target has no table '%s' whose shape could follow the source", old_name);
        err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
        err_hint(e, "rebuild with --reset-target-data");
        goto out;
    }
    edited = sqt_is_own(before) && !sqt_same_text(was->create_sql, before->create_sql);
    if (!sqt_name_same(old_name, name) && alter(db, old_name, e, "RENAME TO", NULL, name) < 0) goto out;
    if (drop_indexes(db, &d, name, e) < 0 || reads_right(db, &d, name, false, &right, e) < 0) goto out;
    /* another engine's table that fits already was changed by hand, unless it only looks so */
    if (!right || (!sqt_is_own(after) && (d.redefined || d.rekeyed || (d.nadded && d.ngone)))) {
        right = false;
        if (alterable(&d)) {
            struct err why = {0};
            if (sq_exec(db, "SAVEPOINT shape", e) < 0) goto out;
            if (by_alter(db, &d, name, &why) == 0 && reads_right(db, &d, name, edited, &right, e) < 0) goto out;
            if (sq_exec(db, right ? "RELEASE shape" : "ROLLBACK TO shape; RELEASE shape", e) < 0) goto out;
            if (!right) log_debug("ALTER TABLE does not say it, the table is made anew", KV_STR("table", name), KV_STR("why", why.msg));
        }
        if (!right && (sqt_rebuild(db, &d, name, e) < 0 || reads_right(db, &d, name, false, &right, e) < 0)) goto out;
    }
    if (!right) {
        err_set(e, CODE_SHAPE_CHANGED, "table '%s' does not read as the source's after the change", name);
        sqt_shape_refused(after, e);
        goto out;
    }
    if (free_index_names(db, after, name, e) < 0) goto out;
    rc = sqt_indexes_in(db, after, name, true, true, e);
    if (rc == 0) rc = keys_allow(db, after, name, e);
    if (rc < 0 && (e->code == CODE_UNIQUE_CONFLICT || e->code == CODE_CONSTRAINT)) {
        e->code = CODE_SHAPE_CHANGED;
        sqt_shape_refused(after, e);
    }
out:
    shape_free(was);
    sqt_diff_free(&d);
    return rc;
}

static int create(sqlite3 *db, const struct shape *after, const char *name, struct err *e) {
    if (sqt_create_in(db, after, name, e) < 0) {
        if (e->code == CODE_TARGET_NOT_EMPTY) sqt_shape_refused(after, e);
        return -1;
    }
    if (free_index_names(db, after, name, e) < 0) return -1;
    return sqt_indexes_in(db, after, name, true, true, e);
}

int sqt_table_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name,
                    const char *ns, const char *name, const struct mark *m, struct err *e) {
    if (sqt_check_ns(ns, e) < 0 || (before && sqt_check_ns(old_ns, e) < 0) || sqt_compatible(l->t, after, NULL, e) < 0 ||
        sqt_keys_check(l->t, after, NULL, e) < 0)
        return -1;
    sqt_lane_forget(l);
    if (sqt_lane_begin(l, m, true, e) < 0) return -1;
    if ((before ? follow(l->db, before, after, old_name, name, e) : create(l->db, after, name, e)) < 0 ||
        FAULT("sqlite.alter_before_mark", e) < 0) {
        sq_rollback(l->db);
        return -1;
    }
    return sqt_lane_end(l, m, e);
}
