/* The publication of a chain: which tables the log carries.
 *
 * DESIGN
 * 1. It is made before the slot: what decodes the log looks the publication up as it was at each record.
 * 2. It lists tables: each leaf, and each partitioned table so that partitions made later are in the log from their first row. FOR ALL
 *    TABLES only when that was asked for.
 * 3. One that is there already is used as it is when it publishes just that, and never replaced: it may be a stranger's. What a run of ours
 *    left is taken down with its slot before.
 * 4. The tables are locked against DDL while it is made, and their shapes compared with the catalogue's in the same transaction: what was
 *    checked is what is published.
 * 5. What was altered and altered back leaves a hole in the log that nothing else shows: rows of the publication that are not older than
 *    the oldest catalogue which the slot keeps are a refusal. So that this never meets the ones we made, the slot is made only when every
 *    transaction as old as they are is over (it would wait for them anyway). */
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/base/text.h"

#define SAY_US (10 * INT64_C(1000000))

static bool is_parent(const struct shape *t) { return t->options != NULL && strstr(t->options, "PARTITION BY ") != NULL; }

static int create_text(struct source *s, const struct catalog *c, struct buf *b, struct err *e) {
    if (buf_adds(b, "CREATE PUBLICATION ", e) < 0 || text_ident(b, s->o.slot_name, e) < 0) return -1;
    if (s->o.publish_all) {
        if (buf_adds(b, " FOR ALL TABLES", e) < 0) return -1;
    } else {
        for (size_t i = 0; i < c->ntables; i++) {
            const struct shape *t = c->tables[i];
            if (buf_adds(b, i == 0 ? " FOR TABLE " : ", ", e) < 0 || (!is_parent(t) && buf_adds(b, "ONLY ", e) < 0) ||
                pg_qualified(b, t->ns, t->name, e) < 0)
                return -1;
        }
    }
    return buf_adds(b, " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = false)", e);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Is the publication that is there the one we would make? An operator may have made it for a role that may not. */
static int same_there(struct source *s, const struct catalog *c, const int64_t *oids, bool *there, bool *same, struct err *e) {
    struct buf want = BUF_INIT(MiB(64));
    PGresult *r = NULL;
    const char *p[1] = {s->o.slot_name};
    int rc = -1;
    if (pg_query(s->c, embed_sql("postgres/publication_row"), 1, p, "read the publication", &r, e) < 0) goto out;
    *there = PQntuples(r) == 1;
    *same = false;
    if (*there) {
        for (size_t i = 0; i < c->ntables; i++)
            if (buf_addf(&want, e, "%s%lld", i > 0 ? "," : "", (long long)oids[i]) < 0) goto out;
        const char *list = buf_str(&want, e);
        if (list == NULL) goto out;
        *same = pg_bool(r, 0, 1) && !pg_bool(r, 0, 2) && !pg_bool(r, 0, 4) && pg_bool(r, 0, 0) == s->o.publish_all &&
                (s->o.publish_all || strcmp(list, pg_text(r, 0, 3)) == 0);
    }
    rc = 0;
out:
    PQclear(r);
    buf_free(&want);
    return rc;
}

static int lock_tables(struct source *s, const struct catalog *c, struct err *e) {
    struct buf b = BUF_INIT(MiB(64));
    int rc = -1;
    for (size_t i = 0; i < c->ntables; i++) {
        if (is_parent(c->tables[i])) continue;
        if (buf_adds(&b, b.n == 0 ? "LOCK TABLE ONLY " : ", ONLY ", e) < 0 || pg_qualified(&b, c->tables[i]->ns, c->tables[i]->name, e) < 0)
            goto out;
    }
    if (b.n == 0) {
        rc = 0;
        goto out;
    }
    /* The weakest lock that needs nothing but SELECT still keeps ALTER TABLE … that rewrites or retypes out. */
    if (buf_adds(&b, " IN ACCESS SHARE MODE", e) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql != NULL) rc = pg_do(s->c, sql, "lock the tables against changes of their shape", e);
out:
    buf_free(&b);
    return rc;
}

static int compare(struct source *s, const struct catalog *c, struct err *e) {
    struct shape **now = mem_alloc((c->ntables + 1) * sizeof(struct shape *), e);
    int64_t *oids = mem_alloc((c->ntables + 1) * sizeof *oids, e);
    int rc = -1;
    char label[160];
    if (now == NULL || oids == NULL) goto out;
    for (size_t i = 0; i < c->ntables; i++) oids[i] = c->tables[i]->oid;
    if (pg_table_shapes(s->c, oids, c->ntables, now, e) < 0) goto out;
    rc = 0;
    for (size_t i = 0; i < c->ntables && rc == 0; i++)
        if (now[i] == NULL || strcmp(now[i]->digest, c->tables[i]->digest) != 0) {
            rc = err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "table '%s' changed its shape while the chain was being set up",
                               shape_label(c->tables[i], label));
            err_hint(e, "run the same command again");
        }
    for (size_t i = 0; i < c->ntables; i++) shape_free(now[i]);
out:
    mem_free(now);
    mem_free(oids);
    return rc;
}

static int settle(struct source *s, struct err *e) {
    const char *p[1] = {s->o.slot_name};
    char got[8];
    int64_t said = clock_mono_us();
    for (;;) {
        if (pg_scalar(s->c, embed_sql("postgres/publication_settled"), 1, p, "look for older transactions", got, sizeof got, NULL, e) < 0) return -1;
        if (*got == 't') return 0;
        if (stop_wait(20 * 1000)) return err_set(e, CODE_INTERRUPTED, "stopped while waiting for older transactions on the source");
        if (clock_mono_us() - said < SAY_US) continue;
        said = clock_mono_us();
        log_info("the slot waits until every transaction that was open on the source has ended", KV_STR("slot", s->o.slot_name));
    }
}

int publication_create(struct source *s, const struct catalog *c, struct err *e) {
    struct buf b = BUF_INIT(MiB(64));
    bool there = false, same = false;
    int rc = -1;
    int64_t *oids = mem_alloc((c->ntables + 1) * sizeof *oids, e);
    if (oids == NULL) return -1;
    for (size_t i = 0; i < c->ntables; i++) oids[i] = c->tables[i]->oid;
    qsort(oids, c->ntables, sizeof *oids, by_value);
    if (pg_do(s->c, "BEGIN", "create the publication", e) < 0) goto out;
    if (same_there(s, c, oids, &there, &same, e) < 0) goto end;
    if (there && !same) {
        err_set(e, CODE_PUBLICATION_EXISTS, "publication '%s' exists already, and publishes something else than this chain's tables", s->o.slot_name);
        err_hint(e, "choose another --slot-name, or, when nothing needs it: DROP PUBLICATION \"%s\"", s->o.slot_name);
        goto end;
    }
    if (!same) {
        if (create_text(s, c, &b, e) < 0) goto end;
        const char *sql = buf_str(&b, e);
        if (sql == NULL) goto end;
        if (pg_do(s->c, sql, "create the publication", e) < 0) {
            if (e->code == CODE_PRIVILEGE)
                err_hint(e, s->o.publish_all
                                ? "FOR ALL TABLES needs a superuser"
                                : "the role must own the tables and have CREATE on the database: GRANT CREATE ON DATABASE … TO …");
            goto end;
        }
    }
    if (lock_tables(s, c, e) < 0 || compare(s, c, e) < 0) goto end;
    rc = 0;
end:
    if (rc == 0) rc = pg_do(s->c, "COMMIT", "create the publication", e);
    if (rc < 0 && PQstatus(s->c) == CONNECTION_OK) PQclear(PQexec(s->c, "ROLLBACK"));
    if (rc == 0) rc = settle(s, e);
out:
    mem_free(oids);
    buf_free(&b);
    return rc;
}

int publication_drop(struct source *s, struct err *e) {
    struct buf b = BUF_INIT(KiB(4));
    const char *p[1] = {s->o.slot_name};
    char ours[8];
    bool there;
    int rc = -1;
    if (pg_scalar(s->c, embed_sql("postgres/publication_owned"), 1, p, "read the publication", ours, sizeof ours, &there, e) < 0) return -1;
    if (!there) return 0;
    if (ours[0] != 't') { /* made by its tables' owner for us: the next anchor uses it again, or says why not */
        log_info("the publication belongs to another role and stays", KV_STR("publication", s->o.slot_name));
        return 0;
    }
    if (buf_adds(&b, "DROP PUBLICATION IF EXISTS ", e) == 0 && text_ident(&b, s->o.slot_name, e) == 0) {
        const char *sql = buf_str(&b, e);
        if (sql != NULL) rc = pg_do(s->c, sql, "drop the publication", e);
    }
    buf_free(&b);
    return rc;
}

/* A table that was dropped and made anew is another table: its rows are in no log of ours, and the old ones would stay on the target. */
static int check_remade(struct source *s, struct shape *const *known, size_t n, const char *oids, struct err *e) {
    struct buf names = BUF_INIT(MiB(64)), q = BUF_INIT(KiB(4));
    char found[300];
    bool any = false;
    int rc = -1;
    if (buf_addc(&names, '{', e) < 0) goto out;
    for (size_t i = 0; i < n; i++) { /* an array's element: in quotes, with quotes and backslashes escaped */
        buf_reset(&q);
        if (pg_qualified(&q, known[i]->ns, known[i]->name, e) < 0 || buf_adds(&names, i > 0 ? ",\"" : "\"", e) < 0) goto out;
        for (size_t k = 0; k < q.n; k++)
            if (((q.p[k] == '"' || q.p[k] == '\\') && buf_addc(&names, '\\', e) < 0) || buf_addc(&names, q.p[k], e) < 0) goto out;
        if (buf_addc(&names, '"', e) < 0) goto out;
    }
    if (buf_addc(&names, '}', e) < 0) goto out;
    const char *p[2] = {oids, buf_str(&names, e)};
    if (p[1] == NULL ||
        pg_scalar(s->c, embed_sql("postgres/remade_table"), 2, p, "look for tables made anew", found, sizeof found, &any, e) < 0)
        goto out;
    if (any) {
        err_set(e, CODE_SHAPE_CHANGED,
                "table %s was dropped and made anew: it is another table than the one the chain holds, and its rows are not in the log",
                found);
        err_hint(e, "take a new full with --chain-slot");
        err_mark(e, MARKER_INCLUDE_TABLE_SCOPE_DRIFT, MARKER_TABLE_IDENTITY_CHANGED);
        goto out;
    }
    rc = 0;
out:
    buf_free(&names);
    buf_free(&q);
    return rc;
}

int publication_check(struct source *s, struct shape *const *known, size_t n, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    PGresult *r = NULL;
    int rc = -1;
    int64_t *oids = mem_alloc((n + 1) * sizeof *oids, e);
    if (oids == NULL) return -1;
    for (size_t i = 0; i < n; i++) oids[i] = known[i]->oid;
    if (pg_oid_list(&list, oids, n, e) < 0) goto out;
    const char *p[2] = {s->o.slot_name, buf_str(&list, e)};
    if (p[1] == NULL || pg_query(s->c, embed_sql("postgres/publication_row"), 1, p, "read the publication", &r, e) < 0) goto out;
    if (PQntuples(r) == 0) {
        err_set(e, CODE_PUBLICATION, "publication '%s' does not exist, so the log of this chain cannot be read", s->o.slot_name);
        goto out;
    }
    if (!pg_bool(r, 0, 1) || pg_bool(r, 0, 2) || pg_bool(r, 0, 4)) {
        err_set(e, CODE_PUBLICATION, "publication '%s' was altered: it %s", s->o.slot_name,
                !pg_bool(r, 0, 1) ? "no longer publishes all of insert, update, delete and truncate"
                : pg_bool(r, 0, 2) ? "publishes partitions as their parent" : "has a row filter or a column list");
        goto out;
    }
    PQclear(r);
    r = NULL;
    if (pg_query(s->c, embed_sql("postgres/publication_missing"), 2, p, "read the publication", &r, e) < 0) goto out;
    if (PQntuples(r) > 0) {
        err_set(e, CODE_PUBLICATION, "table '%s.%s' is no longer in publication '%s': its changes since are not in the log",
                pg_text(r, 0, 0), pg_text(r, 0, 1), s->o.slot_name);
        goto out;
    }
    char altered[8];
    if (pg_scalar(s->c, embed_sql("postgres/publication_altered"), 2, p, "read the publication", altered, sizeof altered, NULL, e) < 0) goto out;
    if (*altered == 't') {
        err_set(e, CODE_PUBLICATION, "publication '%s' was altered or made anew since the chain's end: changes may be missing from the log",
                s->o.slot_name);
        err_hint(e, "leave the publication as it is; take a new full with --chain-slot");
        goto out;
    }
    rc = check_remade(s, known, n, p[1], e);
out:
    PQclear(r);
    mem_free(oids);
    buf_free(&list);
    return rc;
}
