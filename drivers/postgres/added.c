/* Columns that a table got: what the rows hold that were there before.
 *
 * DESIGN
 * The log does not say what ALTER TABLE … ADD COLUMN put into old rows, and the default that the catalogue shows now may have been set,
 * changed or dropped afterwards. Between the shape that was and the shape that is stands one more, whose default is what old rows hold; a
 * consumer that adds the column by the first and then moves to the second does what the source did.
 * 1. The catalogue keeps the value (attmissingval): that is it.
 * 2. It keeps none, and the table's file is the one it was made with: old rows hold NULL.
 * 3. It keeps none, and the file was written anew at some time: where no row holds NULL, the default as it is does no harm, since what
 *    differs from it was logged. Else rows hold NULL, unless the file may have been written anew after the column came (VACUUM FULL,
 *    CLUSTER), which forgets the value: refused.
 */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/relation.h"
#include "engine/base/buf.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

enum { A_ATTNUM, A_MISSING, A_PRISTINE, A_REWRITTEN };

/* Is the default, as the server writes it, certainly this value? */
static bool says(const char *sql, const char *value) {
    if (sql == NULL) return false;
    if (*sql != '\'') return strcmp(sql, value) == 0;
    size_t n = strlen(value);
    return strpbrk(value, "'\\") == NULL && strncmp(sql + 1, value, n) == 0 && sql[n + 1] == '\'' &&
           (sql[n + 2] == 0 || strncmp(sql + n + 2, "::", 2) == 0);
}

static const char *literal(struct arena *a, const struct column *c, const char *value, struct err *e) {
    struct buf b = BUF_INIT(MiB(256));
    const char *out = NULL, *s;
    if (c->type == LT_BOOL) return *value == 't' ? "true" : "false";
    if (c->type == LT_INT16 || c->type == LT_INT32 || c->type == LT_INT64) return arena_copy(a, value, strlen(value), e);
    if (buf_addc(&b, '\'', e) < 0) goto out;
    for (const char *p = value; *p != 0; p++)
        if ((*p == '\'' && buf_addc(&b, '\'', e) < 0) || buf_addc(&b, *p, e) < 0) goto out;
    if (buf_addf(&b, e, "'::%s", c->native) < 0 || (s = buf_str(&b, e)) == NULL) goto out;
    out = arena_copy(a, s, b.n, e);
out:
    buf_free(&b);
    return out;
}

static bool in_primary(const struct shape *s, uint16_t c) {
    for (uint16_t i = 0; s->primary >= 0 && i < s->keys[s->primary].ncols; i++)
        if (s->keys[s->primary].cols[i] == c) return true;
    return false;
}

static bool is_new(const struct shape *before, const struct shape *now, uint16_t c) {
    if (now->cols[c].generated != NULL || now->cols[c].ident != IDENT_NONE) return false;
    for (uint16_t i = 0; i < before->ncols; i++)
        if (before->cols[i].id == now->cols[c].id) return false;
    return true;
}

static int holds_null(PGconn *c, const struct shape *s, const char *column, bool *yes, struct err *e) {
    struct buf q = BUF_INIT(KiB(4));
    char got[8];
    int rc = -1;
    if (buf_adds(&q, "SELECT EXISTS (SELECT FROM ", e) < 0 || pg_qualified(&q, s->ns, s->name, e) < 0 || buf_adds(&q, " t WHERE t.", e) < 0 ||
        text_ident(&q, column, e) < 0 || buf_adds(&q, " IS NULL)", e) < 0) goto out;
    const char *sql = buf_str(&q, e);
    if (sql == NULL || pg_scalar(c, sql, 0, NULL, "look for rows without a value", got, sizeof got, NULL, e) < 0) goto out;
    *yes = *got == 't';
    rc = 0;
out:
    buf_free(&q);
    return rc;
}

/* What old rows hold in column i. *differs: the default says something else. */
static int filled(PGconn *c, const struct shape *now, uint16_t i, const PGresult *r, int row, bool *differs, const char **value, struct err *e) {
    const struct column *col = &now->cols[i];
    *value = NULL;
    *differs = false;
    if (!pg_null(r, row, A_MISSING)) {
        *value = pg_text(r, row, A_MISSING);
        *differs = !says(col->default_sql, *value);
        return 0;
    }
    if (col->default_sql == NULL || in_primary(now, i)) return 0;
    if (!pg_bool(r, row, A_PRISTINE)) {
        bool nulls;
        if (holds_null(c, now, col->name, &nulls, e) < 0) return -1;
        if (!nulls) return 0;
        if (pg_bool(r, row, A_REWRITTEN)) {
            err_set(e, CODE_SHAPE_CHANGED,
                    "table '%s.%s' got column '%s' and was written anew since, so that what its rows held in it before the log is not known", now->ns,
                    now->name, col->name);
            err_hint(e, "take a new full with --chain-slot; let an incremental come between ADD COLUMN and VACUUM FULL or CLUSTER");
            return err_mark(e, MARKER_SCHEMA_CHANGE_REFUSED, MARKER_AMBIGUOUS_SCHEMA_BOUNDARY);
        }
    }
    *differs = true;
    return 0;
}

int added_between(PGconn *c, const struct shape *before, const struct shape *now, struct shape **mid, struct err *e) {
    struct buf list = BUF_INIT(MiB(1));
    char oid[32];
    PGresult *r = NULL;
    int rc = -1;
    *mid = NULL;
    if (before == NULL) return 0;
    for (uint16_t i = 0; i < now->ncols; i++)
        if (is_new(before, now, i) && buf_addf(&list, e, "%c%lld", list.n > 0 ? ',' : '{', (long long)now->cols[i].id) < 0) goto out;
    if (list.n == 0) return 0;
    if (buf_addc(&list, '}', e) < 0) goto out;
    snprintf(oid, sizeof oid, "%lld", (long long)now->oid);
    const char *p[2] = {oid, buf_str(&list, e)};
    if (p[1] == NULL || pg_query(c, embed_sql("postgres/columns_added"), 2, p, "read what added columns hold", &r, e) < 0)
        goto out;
    for (int row = 0; row < PQntuples(r); row++)
        for (uint16_t i = 0; i < now->ncols; i++) {
            bool differs;
            const char *value;
            if (now->cols[i].id != pg_i64(r, row, A_ATTNUM) || !is_new(before, now, i)) continue;
            if (filled(c, now, i, r, row, &differs, &value, e) < 0) goto out;
            if (!differs) continue;
            if (*mid == NULL && (*mid = shape_copy(now, e)) == NULL) goto out;
            struct column *to = (struct column *)&(*mid)->cols[i];
            to->default_sql = NULL;
            if (value == NULL) to->not_null = false;
            else if ((to->default_sql = literal((*mid)->arena, to, value, e)) == NULL) goto out;
        }
    if (*mid != NULL && shape_finish(*mid, e) < 0) goto out;
    rc = 0;
out:
    if (rc < 0) {
        shape_free(*mid);
        *mid = NULL;
    }
    PQclear(r);
    buf_free(&list);
    return rc;
}
