/* The catalogue of a PostgreSQL source: which tables a chain carries, what they need, and what is left out.
 *
 * DESIGN
 * 1. Refused is what would lose rows silently: row security that hides some, and, for a chain, a table whose updates could not be logged.
 * 2. What cannot be carried but loses no row of a carried table is a warning, by kind and name.
 * 3. A partitioned table is carried as DDL; its leaves carry the rows. */
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

enum { T_OID, T_NS, T_NAME, T_KIND, T_PERSISTENCE, T_REPLIDENT, T_PARTITION, T_RLS, T_SELECTABLE, T_USABLE, T_OWNED, T_OWNER, T_EXTENSION,
       T_POLICIES, T_TRIGGERS, T_RULES, T_GRANTS, T_ROOT_NS, T_ROOT_NAME };
enum { S_OID, S_NS, S_NAME, S_OWNER_NS, S_OWNER_TABLE, S_OWNER_COLUMN, S_CAPTURED, S_IDENTITY, S_SQL, S_SELECTABLE, S_PLAIN };

int pg_oid_list(struct buf *b, const int64_t *oids, size_t n, struct err *e) {
    if (buf_addc(b, '{', e) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        if (buf_addf(b, e, "%s%lld", i > 0 ? "," : "", (long long)oids[i]) < 0) return -1;
    return buf_addc(b, '}', e);
}

const char *replica_identity_fault(const struct shape *s, char replident) {
    if (replident == 'f') return NULL;
    if (replident == 'n') return "its replica identity is NOTHING";
    if (s->identity < 0) {
        if (replident == 'i') return "the index of its replica identity is gone";
        return s->primary >= 0 ? "its primary key is deferrable" : "it has no primary key";
    }
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++)
        if (s->cols[k->cols[i]].generated != NULL) return "its key holds a generated column, which the log does not carry";
    return NULL;
}

static int chain_facts(const struct pg_facts *f, struct catalog *c, struct err *e) {
    if (strcmp(f->wal_level, "logical") != 0) {
        err_set(e, CODE_WAL_LEVEL, "the source's wal_level is '%s', and a chain needs 'logical'", f->wal_level);
        return err_hint(e, "ALTER SYSTEM SET wal_level = logical, then restart the server");
    }
    if (f->recovery) {
        err_set_class(e, ERR_REFUSE, CODE_SERVER, "the source is a standby, and a chain needs a publication of its own");
        return err_hint(e, "give the DSN of the primary");
    }
    if (!f->replication && !f->superuser) {
        err_set(e, CODE_PRIVILEGE, "role '%s' may not open replication connections", f->role);
        return err_hint(e, "ALTER ROLE \"%s\" REPLICATION", f->role);
    }
    if (f->slot_there) return 0;
    if (!f->can_create && !f->superuser && !f->publication_there) {
        err_set(e, CODE_PRIVILEGE, "role '%s' may not create a publication in database '%s'", f->role, f->db);
        return err_hint(e, "GRANT CREATE ON DATABASE \"%s\" TO \"%s\"", f->db, f->role);
    }
    if (f->slots_free < 1 || f->senders_free < 1) {
        err_set(e, CODE_HEADROOM, "all %s of the source are in use", f->slots_free < 1 ? "replication slots" : "WAL senders");
        err_hint(e, "drop an unused slot (SELECT pg_drop_replication_slot(…)), or raise %s and restart the server",
                 f->slots_free < 1 ? "max_replication_slots" : "max_wal_senders");
        return err_mark(e, MARKER_CDC_REPLICATION_HEADROOM, MARKER_NONE);
    }
    if (f->slots_free < 2 || f->senders_free < 2)
        return catalog_warn(
            c, e, "only one replication slot or WAL sender is free: a full that has to be resumed needs another one for its snapshot");
    return 0;
}

struct picked { int64_t oid; char replident, kind; };

static int refuse_privilege(const PGresult *r, int row, const char *role, struct err *e) {
    const char *ns = pg_text(r, row, T_NS), *name = pg_text(r, row, T_NAME);
    if (!pg_bool(r, row, T_USABLE)) {
        err_set(e, CODE_PRIVILEGE, "role '%s' may not use schema '%s' of table '%s.%s'", role, ns, ns, name);
        return err_hint(e, "GRANT USAGE ON SCHEMA \"%s\" TO \"%s\", or leave the table out with --exclude-table '%s.%s'", ns, role, ns,
                        name);
    }
    err_set(e, CODE_PRIVILEGE, "role '%s' may not read table '%s.%s'", role, ns, name);
    return err_hint(e, "GRANT SELECT ON \"%s\".\"%s\" TO \"%s\", or leave it out with --exclude-table '%s.%s'", ns, name, role, ns, name);
}

/* Go through the server's tables; what stays is picked. */
static int pick(struct source *s, const struct pg_facts *f, bool for_chain, struct catalog *c, const PGresult *r, struct picked *out,
                size_t *n, struct err *e) {
    for (int i = 0; i < PQntuples(r); i++) {
        const char *ns = pg_text(r, i, T_NS), *name = pg_text(r, i, T_NAME);
        if (!source_wants(s, ns, name, pg_text(r, i, T_ROOT_NS), pg_text(r, i, T_ROOT_NAME))) continue;
        if (!pg_null(r, i, T_EXTENSION)) {
            if (catalog_warn(c, e, "table '%s.%s' belongs to extension '%s' and is left out", ns, name, pg_text(r, i, T_EXTENSION)) < 0)
                return -1;
            continue;
        }
        if (pg_text(r, i, T_PERSISTENCE)[0] == 'u') {
            if (for_chain) {
                if (catalog_warn(c, e, "table '%s.%s' is unlogged: its changes are in no log, so it is left out", ns, name) < 0) return -1;
                continue;
            }
            if (catalog_warn(c, e, "table '%s.%s' is unlogged here and will be logged where it is restored", ns, name) < 0) return -1;
        }
        bool rows = pg_text(r, i, T_KIND)[0] == 'r';
        if (rows && (!pg_bool(r, i, T_USABLE) || !pg_bool(r, i, T_SELECTABLE))) return refuse_privilege(r, i, f->role, e);
        if (rows && pg_bool(r, i, T_RLS)) {
            err_set(e, CODE_ROW_SECURITY, "row-level security would hide rows of table '%s.%s' from role '%s'", ns, name, f->role);
            return err_hint(e, "ALTER ROLE \"%s\" BYPASSRLS, or leave the table out with --exclude-table '%s.%s'", f->role, ns, name);
        }
        if (for_chain && !f->slot_there && !f->publication_there && !f->superuser && !s->o.publish_all && !pg_bool(r, i, T_OWNED)) {
            err_set(e, CODE_PRIVILEGE, "role '%s' may not publish table '%s.%s': only its owner '%s' may", f->role, ns, name,
                    pg_text(r, i, T_OWNER));
            return err_hint(e, "GRANT \"%s\" TO \"%s\", or leave the table out with --exclude-table '%s.%s'", pg_text(r, i, T_OWNER),
                            f->role, ns, name);
        }
        out[(*n)++] = (struct picked){pg_i64(r, i, T_OID), pg_text(r, i, T_REPLIDENT)[0], pg_text(r, i, T_KIND)[0]};
    }
    return 0;
}

static int check_identities(struct shape *const *shapes, const struct picked *p, size_t n, struct err *e) {
    struct buf names = BUF_INIT(MiB(1));
    const char *first = NULL;
    char label[160];
    size_t bad = 0;
    int rc = -1;
    for (size_t i = 0; i < n; i++) {
        const char *why = shapes[i] != NULL && p[i].kind == 'r' ? replica_identity_fault(shapes[i], p[i].replident) : NULL;
        if (why == NULL) continue;
        if (bad++ == 0) first = why;
        if (bad <= 5 && buf_addf(&names, e, "%s'%s'", bad > 1 ? ", " : "", shape_label(shapes[i], label)) < 0) goto out;
    }
    if (bad == 0) {
        rc = 0;
        goto out;
    }
    const char *list = buf_str(&names, e);
    if (list == NULL) goto out;
    if (bad == 1)
        err_set(e, CODE_REPLICA_IDENTITY,
                "table %s has no usable replica identity: %s; publishing it would make the application's own updates and deletes fail",
                list, first);
    else
        err_set(
            e, CODE_REPLICA_IDENTITY,
            "%zu tables have no usable replica identity: %s%s; publishing them would make the application's own updates and deletes fail",
            bad, list, bad > 5 ? ", …" : "");
    err_hint(e, "ALTER TABLE … REPLICA IDENTITY FULL (or USING INDEX, or add a primary key), or leave it out with --exclude-table");
out:
    buf_free(&names);
    return rc;
}

static const char *copy_cell(struct arena *a, const PGresult *r, int row, int col, struct err *e) {
    return arena_copy(a, PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col), e);
}

static int add_object(struct catalog *c, enum object_kind kind, const char *ns, const char *name, const char *sql, struct err *e) {
    struct object *o = catalog_add_object(c, e);
    if (o == NULL) return -1;
    o->kind = kind;
    o->ns = arena_copy(c->arena, ns, strlen(ns), e);
    o->name = arena_copy(c->arena, name, strlen(name), e);
    o->sql = arena_copy(c->arena, sql, strlen(sql), e);
    return o->ns != NULL && o->name != NULL && o->sql != NULL ? 0 : -1;
}

static int add_schema(struct catalog *c, const char *ns, struct err *e) {
    for (size_t i = 0; i < c->nobjects; i++)
        if (c->objects[i].kind == OBJECT_SCHEMA && strcmp(c->objects[i].name, ns) == 0) return 0;
    struct buf b = BUF_INIT(KiB(4));
    int rc = -1;
    if (buf_adds(&b, "CREATE SCHEMA IF NOT EXISTS ", e) == 0 && text_ident(&b, ns, e) == 0) {
        const char *sql = buf_str(&b, e);
        if (sql != NULL) rc = add_object(c, OBJECT_SCHEMA, ns, ns, sql, e);
    }
    buf_free(&b);
    return rc;
}

static int add_schemas(struct catalog *c, const PGresult *r, int col, struct err *e) {
    for (int i = 0; i < PQntuples(r); i++)
        if (add_schema(c, pg_text(r, i, col), e) < 0) return -1;
    return 0;
}

/* Values of many sequences in few statements. Rows: oid, last value, called. */
static int read_values(PGconn *c, const PGresult *list, const int *rows, size_t n, struct object *o, struct err *e) {
    struct buf q = BUF_INIT(MiB(1));
    int rc = -1;
    for (size_t at = 0; at < n; at += 100) {
        buf_reset(&q);
        for (size_t i = at; i < n && i < at + 100; i++) {
            if (buf_addf(&q, e, "%sSELECT %zu AS at, s.last_value, s.is_called FROM ", i > at ? " UNION ALL " : "", i) < 0 ||
                pg_qualified(&q, pg_text(list, rows[i], S_NS), pg_text(list, rows[i], S_NAME), e) < 0 || buf_adds(&q, " s", e) < 0)
                goto out;
        }
        PGresult *v;
        const char *sql = buf_str(&q, e);
        if (sql == NULL || pg_query(c, sql, 0, NULL, "read the sequences' values", &v, e) < 0) goto out;
        for (int i = 0; i < PQntuples(v); i++) {
            size_t k = (size_t)pg_i64(v, i, 0);
            o[k].value = pg_i64(v, i, 1);
            o[k].is_called = pg_bool(v, i, 2);
        }
        PQclear(v);
    }
    rc = 0;
out:
    buf_free(&q);
    return rc;
}

int source_sequences(struct source *s, PGconn *c, const int64_t *oids, size_t noids, struct arena *a, struct object **out, size_t *n,
                     struct catalog *warn, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    PGresult *r = NULL;
    int *rows = NULL, rc = -1;
    *out = NULL;
    *n = 0;
    if (pg_oid_list(&list, oids, noids, e) < 0) goto out;
    const char *p[1] = {buf_str(&list, e)};
    if (p[0] == NULL || pg_query(c, embed_sql("postgres/catalog_sequences"), 1, p, "read the sequences", &r, e) < 0) goto out;
    struct object *o = arena_zalloc(a, ((size_t)PQntuples(r) + 1) * sizeof *o, e);
    if (o == NULL || (rows = mem_alloc(((size_t)PQntuples(r) + 1) * sizeof *rows, e)) == NULL) goto out;
    for (int i = 0; i < PQntuples(r); i++) {
        bool owned = !pg_null(r, i, S_OWNER_TABLE), captured = pg_bool(r, i, S_CAPTURED);
        if (!captured && (owned || !table_filter_match(&s->o.filter, pg_text(r, i, S_NS), pg_text(r, i, S_NAME)))) continue;
        if (!pg_bool(r, i, S_SELECTABLE)) {
            if (captured) {
                err_set(e, CODE_PRIVILEGE, "role '%s' may not read sequence '%s.%s'", PQuser(c), pg_text(r, i, S_NS), pg_text(r, i, S_NAME));
                err_hint(e, "GRANT SELECT ON SEQUENCE \"%s\".\"%s\" TO \"%s\"", pg_text(r, i, S_NS), pg_text(r, i, S_NAME), PQuser(c));
                goto out;
            }
            if (warn != NULL &&
                catalog_warn(warn, e, "sequence '%s.%s' may not be read and is left out", pg_text(r, i, S_NS), pg_text(r, i, S_NAME)) < 0)
                goto out;
            continue;
        }
        struct object *q = &o[*n];
        q->kind = OBJECT_SEQUENCE;
        if ((q->ns = copy_cell(a, r, i, S_NS, e)) == NULL || (q->name = copy_cell(a, r, i, S_NAME, e)) == NULL) goto out;
        q->sql = pg_bool(r, i, S_IDENTITY) ? "" : copy_cell(a, r, i, S_SQL, e); /* its identity column makes it */
        if (q->sql == NULL) goto out;
        if (pg_bool(r, i, S_IDENTITY) && !pg_bool(r, i, S_PLAIN) && warn != NULL &&
            catalog_warn(warn, e,
                         "the options of identity '%s.%s.%s' (start, increment, bounds, cache or cycle) are not carried: only its value",
                         pg_text(r, i, S_OWNER_NS), pg_text(r, i, S_OWNER_TABLE), pg_text(r, i, S_OWNER_COLUMN)) < 0)
            goto out;
        if (owned && (q->owned_by = arena_printf(a, e, "%s.%s.%s", pg_text(r, i, S_OWNER_NS), pg_text(r, i, S_OWNER_TABLE),
                                                 pg_text(r, i, S_OWNER_COLUMN))) == NULL)
            goto out;
        rows[(*n)++] = i;
    }
    if (read_values(c, r, rows, *n, o, e) < 0) goto out;
    *out = o;
    rc = 0;
out:
    PQclear(r);
    mem_free(rows);
    buf_free(&list);
    return rc;
}

/* The catalogue is older than the snapshot: rows committed between may hold values that its sequences had not given out yet. */
int source_sequences_again(struct source *s, struct catalog *c, struct err *e) {
    struct object *now;
    size_t n, at = 0;
    int rc = -1;
    int64_t *oids = mem_alloc((c->ntables + 1) * sizeof *oids, e);
    if (oids == NULL) return -1;
    for (size_t i = 0; i < c->ntables; i++) oids[i] = c->tables[i]->oid;
    if (source_sequences(s, s->c, oids, c->ntables, c->arena, &now, &n, NULL, e) < 0) goto out;
    for (size_t i = 0; i < c->nobjects; i++) {
        struct object *o = &c->objects[i];
        if (o->kind != OBJECT_SEQUENCE) continue;
        for (size_t k = 0; k < n; k++, at++) { /* both lists are in the same order */
            const struct object *q = &now[at % n];
            if (strcmp(q->ns, o->ns) != 0 || strcmp(q->name, o->name) != 0) continue;
            o->value = q->value;
            o->is_called = q->is_called;
            break;
        }
    }
    rc = 0;
out:
    mem_free(oids);
    return rc;
}

/* Schemas, collations, extensions, types, sequences: in the order in which a restore makes them. */
static int read_objects(struct source *s, struct catalog *c, const int64_t *oids, size_t n, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    PGresult *types = NULL, *colls = NULL;
    struct object *seqs;
    size_t nseqs;
    int rc = -1;
    if (pg_oid_list(&list, oids, n, e) < 0) goto out;
    const char *p[1] = {buf_str(&list, e)};
    if (p[0] == NULL || pg_query(s->c, embed_sql("postgres/catalog_types"), 1, p, "read the types", &types, e) < 0 ||
        pg_query(s->c, embed_sql("postgres/catalog_collations"), 1, p, "read the collations", &colls, e) < 0 ||
        source_sequences(s, s->c, oids, n, c->arena, &seqs, &nseqs, c, e) < 0) goto out;
    for (size_t i = 0; i < c->ntables; i++)
        if (add_schema(c, c->tables[i]->ns, e) < 0) goto out;
    if (add_schemas(c, types, 0, e) < 0 || add_schemas(c, colls, 0, e) < 0) goto out;
    for (size_t i = 0; i < nseqs; i++)
        if (add_schema(c, seqs[i].ns, e) < 0) goto out;
    for (int i = 0; i < PQntuples(colls); i++)
        if (add_object(c, OBJECT_COLLATION, pg_text(colls, i, 0), pg_text(colls, i, 1), pg_text(colls, i, 2), e) < 0) goto out;
    for (int i = 0; i < PQntuples(types); i++)
        if (add_object(c, OBJECT_TYPE, pg_text(types, i, 0), pg_text(types, i, 1), pg_text(types, i, pg_null(types, i, 3) ? 2 : 3), e) < 0)
            goto out;
    for (size_t i = 0; i < nseqs; i++) {
        struct object *o = catalog_add_object(c, e);
        if (o == NULL) goto out;
        *o = seqs[i];
    }
    rc = 0;
out:
    PQclear(types);
    PQclear(colls);
    buf_free(&list);
    return rc;
}

static int read_left_out(struct source *s, struct catalog *c, struct err *e) {
    PGresult *r;
    const char *p[1] = {s->o.slot_name};
    if (pg_query(s->c, embed_sql("postgres/catalog_left_out"), 1, p, "read what will not be carried", &r, e) < 0) return -1;
    int rc = 0;
    for (int i = 0; i < PQntuples(r) && rc == 0; i++)
        rc = catalog_warn(c, e, "%s %s will not be carried%s%s%s", pg_text(r, i, 1), pg_text(r, i, 0), *pg_text(r, i, 2) != 0 ? ": " : "",
                          pg_text(r, i, 2), pg_i64(r, i, 1) > 5 && *pg_text(r, i, 2) != 0 ? ", …" : "");
    PQclear(r);
    return rc;
}

int source_catalog(struct source *s, bool for_chain, struct catalog **out, struct err *e) {
    struct pg_facts f;
    struct catalog *c = NULL;
    PGresult *r = NULL;
    struct picked *picked = NULL;
    struct shape **shapes = NULL;
    int64_t *oids = NULL;
    size_t n = 0;
    int rc = -1;
    *out = NULL;
    if (pg_do(s->c, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "read the catalogue", e) < 0) return -1;
    if (source_facts(s, &f, e) < 0 || (c = catalog_new(e)) == NULL) goto out;
    if (for_chain && chain_facts(&f, c, e) < 0) goto out;
    if (pg_query(s->c, embed_sql("postgres/catalog_tables"), 0, NULL, "list the tables", &r, e) < 0) goto out;
    size_t all = (size_t)PQntuples(r);
    if ((picked = mem_alloc((all + 1) * sizeof *picked, e)) == NULL ||
        (shapes = mem_alloc((all + 1) * sizeof(struct shape *), e)) == NULL || (oids = mem_alloc((all + 1) * sizeof *oids, e)) == NULL)
        goto out;
    if (pick(s, &f, for_chain, c, r, picked, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) oids[i] = picked[i].oid;
    if (pg_table_shapes(s->c, oids, n, shapes, e) < 0) goto out;
    if (for_chain && check_identities(shapes, picked, n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        struct shape *t = shapes[i];
        shapes[i] = NULL;
        if (t != NULL && catalog_add_table(c, t, e) < 0) goto out;
    }
    if (read_objects(s, c, oids, n, e) < 0 || read_left_out(s, c, e) < 0) goto out;
    if (strcmp(f.encoding, "SQL_ASCII") == 0 &&
        catalog_warn(
            c, e, "the database's encoding is SQL_ASCII: texts are carried as the bytes they are, and another database may refuse them") <
            0)
        goto out;
    *out = c;
    c = NULL;
    rc = 0;
out:
    for (size_t i = 0; shapes != NULL && i < n; i++) shape_free(shapes[i]);
    mem_free(shapes);
    mem_free(picked);
    mem_free(oids);
    PQclear(r);
    catalog_free(c);
    if (PQstatus(s->c) == CONNECTION_OK) PQclear(PQexec(s->c, rc == 0 ? "COMMIT" : "ROLLBACK"));
    return rc;
}
