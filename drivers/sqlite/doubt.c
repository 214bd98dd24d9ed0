/* Changes of a schema that leave no trace in it: a column dropped and added again as it was, its values gone, no trigger fired; a unique index
 * made and dropped again, rows displaced by it meanwhile.
 *
 * DESIGN
 * 1. Each DDL statement raises schema_version by one (so does VACUUM). What the schema shows to have changed since the last look explains
 * some of that, counted low; two or more unexplained steps leave room for such a pair.
 * 2. Only the last of the columns that stayed can have gone and come back: ADD COLUMN appends. If a row that nobody touched since holds
 * anything but the column's default in it, it did not. Else the table is copied. So doubt costs a copy, never a row.
 * 3. Only a write displaces: with such room every table that was written since is copied (rearm.c). */
#include "drivers/sqlite/capture.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#include "drivers/sqlite/ddl.h"

int sq_schema_remember(sqlite3 *db, struct err *e) {
    return sq_exec(db, embed_sql("sqlite/schema_remember"), e);
}

int sq_schema_unexplained(sqlite3 *db, int64_t version_before, int64_t *steps, struct err *e) {
    int64_t now, explained;
    if (sq_int(db, "PRAGMA main.schema_version", &now, e) < 0 || sq_int(db, embed_sql("sqlite/schema_explained"), &explained, e) < 0)
        return -1;
    *steps = now - version_before - explained;
    return 0;
}

static bool in_primary(const struct shape *s, uint16_t c) {
    for (uint16_t i = 0; s->primary >= 0 && i < s->keys[s->primary].ncols; i++)
        if (s->keys[s->primary].cols[i] == c) return true;
    return false;
}

static const struct column *suspect(const struct shape *before, const struct shape *now) {
    for (uint16_t i = now->ncols; i-- > 0;)
        for (uint16_t k = 0; k < before->ncols; k++)
            if (before->cols[k].id == now->cols[i].id) return now->cols[i].generated || in_primary(now, i) ? NULL : &now->cols[i];
    return NULL;
}

/* Up to 20 rows with another value than the default, of them one that the log does not name since `after`. */
static int witness_sql(struct buf *b, const struct shape *s, const struct column *c, const char *dflt, int64_t n, int64_t after,
                       struct err *e) {
    if (buf_adds(b, "SELECT EXISTS (SELECT 1 FROM (SELECT * FROM main.", e) < 0 || text_ident(b, s->name, e) < 0 ||
        buf_adds(b, " WHERE ", e) < 0 || text_ident(b, c->name, e) < 0 ||
        buf_addf(b, e, " IS NOT %s LIMIT 20) AS r WHERE NOT EXISTS (SELECT 1 FROM main.sluice_log AS g WHERE g.id > %lld AND g.t = %lld",
                 dflt, (long long)after, (long long)n) < 0)
        return -1;
    const struct key *k = s->identity >= 0 && !sq_copied_whole(s) ? &s->keys[s->identity] : NULL;
    for (uint16_t i = 0; k && i < k->ncols; i++)
        if (buf_addf(b, e, " AND g.k%d IS r.", i + 1) < 0 || text_ident(b, s->cols[k->cols[i]].name, e) < 0) return -1;
    if (buf_adds(b, ")) OR NOT EXISTS (SELECT 1 FROM main.", e) < 0 || text_ident(b, s->name, e) < 0) return -1;
    return buf_adds(b, ")", e) < 0 || !buf_str(b, e) ? -1 : 0;
}

int sq_may_have_lost_values(sqlite3 *db, const struct shape *before, const struct shape *now, int64_t n, int64_t after, bool *yes,
                            struct err *e) {
    const struct column *c = suspect(before, now);
    const char *dflt = "NULL";
    struct buf b = BUF_INIT(MiB(1));
    struct arena *a = NULL;
    int64_t fine = 0;
    int rc = -1;
    *yes = false;
    if (!c || (c->not_null && !c->default_sql)) return 0; /* ADD COLUMN would not take it */
    if (!(a = arena_new(1024, e))) return -1;
    if (c->default_sql) {
        if (sq_ddl_constant(c->default_sql, a, &dflt, e) < 0) goto out;
        if (!dflt) { /* ADD COLUMN takes constants only */
            rc = 0;
            goto out;
        }
    }
    if (witness_sql(&b, now, c, dflt, n, after, e) < 0 || sq_int(db, b.p, &fine, e) < 0) goto out;
    *yes = !fine;
    rc = 0;
out:
    buf_free(&b);
    arena_free(a);
    return rc;
}
