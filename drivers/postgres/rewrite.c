/* Tables that ALTER TABLE wrote anew.
 *
 * DESIGN
 * ALTER COLUMN … TYPE … USING may give every old row another value, and none of that is in the log; the shape may even stay the same. What is left of
 * it: the column's catalogue row and the table's rows were written by one transaction, and the table has another file than it was made with.
 * 1. A table that shows this, with a transaction younger than the oldest catalogue that the slot keeps, is refused: a plain widening cannot be told from
 *    a conversion. Retypes that write nothing (varchar to text, a larger numeric) leave no such rows and pass.
 * 2. Where no row of that transaction is left, every row was logged since, and nothing is hidden.
 * 3. A column that the chain does not know yet counts only where old rows were filled with a computed value: what a constant default gave them is in
 *    the catalogue, and added.c's.
 * 4. A change of a known column, and rows, in one transaction of a table that was written anew
 *    once before (VACUUM FULL, TRUNCATE) looks the same and is refused too: rather that than a guess. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/buf.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

static bool knows(const struct shape *s, int64_t attnum) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (s->cols[i].id == attnum) return true;
    return false;
}

/* Is a row of that transaction there? */
static int holds_rows_of(PGconn *c, const char *ns, const char *table, const char *xid, bool *yes, struct err *e) {
    struct buf b = BUF_INIT(KiB(4));
    char found[8] = "";
    const char *p[1] = {xid}, *sql;
    int rc = -1;
    if (buf_adds(&b, "SELECT EXISTS (SELECT FROM ONLY ", e) < 0 || text_ident(&b, ns, e) < 0 || buf_addc(&b, '.', e) < 0 || text_ident(&b, table, e) < 0 ||
        buf_adds(&b, " WHERE xmin = $1::pg_catalog.xid)", e) < 0 || (sql = buf_str(&b, e)) == NULL)
        goto out;
    if (pg_scalar(c, sql, 1, p, "look for rows that were written anew", found, sizeof found, NULL, e) < 0) goto out;
    *yes = found[0] == 't';
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

static const struct shape *known_table(struct shape *const *known, size_t n, int64_t oid) {
    for (size_t i = 0; i < n; i++)
        if (known[i]->oid == oid) return known[i];
    return NULL;
}

int rewrite_check(struct source *s, struct shape *const *known, size_t nknown, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    int64_t *oids = mem_alloc((nknown + 1) * sizeof *oids, e);
    PGresult *r = NULL;
    int rc = -1;
    enum { OID, NS, NAME, ATTNUM, XID, COLUMN, FILLED };
    for (size_t i = 0; oids != NULL && i < nknown; i++) oids[i] = known[i]->oid;
    if (oids == NULL || pg_oid_list(&list, oids, nknown, e) < 0) goto out;
    const char *p[2] = {s->o.slot_name, buf_str(&list, e)};
    if (p[1] == NULL || pg_query(s->c, embed_sql("postgres/tables_rewritten"), 2, p, "look for tables that were written anew", &r, e) < 0) goto out;
    for (int i = 0; i < PQntuples(r); i++) {
        const struct shape *t = known_table(known, nknown, pg_i64(r, i, OID));
        bool yes, known_col = t != NULL && knows(t, pg_i64(r, i, ATTNUM));
        if (t == NULL || (!known_col && !pg_bool(r, i, FILLED))) continue;
        if (holds_rows_of(s->c, pg_text(r, i, NS), pg_text(r, i, NAME), pg_text(r, i, XID), &yes, e) < 0) goto out;
        if (!yes) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' was written anew when its column '%s' was %s: the log does not say what its old rows hold now", t->ns,
                t->name, pg_text(r, i, COLUMN), known_col ? "altered" : "added");
        err_mark(e, MARKER_SCHEMA_CHANGE_REFUSED, MARKER_NONE);
        err_hint(e, "take a new full: `sluice backup full --chain-slot --force-overwrite`; its consumers rebuild with --reset-target-data");
        goto out;
    }
    rc = 0;
out:
    PQclear(r);
    buf_free(&list);
    mem_free(oids);
    return rc;
}
