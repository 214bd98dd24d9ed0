/* Schemas, types, sequences and tables on the target. What is there already and is the same stays; what differs is refused, never changed. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

static int exists(PGconn *c, const char *sql, const char *ns, const char *name, char *got, size_t got_n, bool *found, struct err *e) {
    const char *p[2] = {ns, name};
    return pg_scalar(c, sql, name != NULL ? 2 : 1, p, "read the target's catalogue", got, got_n, found, e);
}

int tg_schema_ensure(PGconn *c, const char *ns, struct err *e) {
    char got[8];
    bool found;
    struct buf b = BUF_INIT(KiB(1));
    int rc = -1;
    if (tg_name_check("schema's", ns, e) < 0 || exists(c, embed_sql("postgres/target_schema_present"), ns, NULL, got, sizeof got, &found, e) < 0) return -1;
    if (found) return 0;
    if (buf_adds(&b, "CREATE SCHEMA ", e) < 0 || text_ident(&b, ns, e) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL) goto out;
    rc = pg_do(c, sql, NULL, e);
    if (rc < 0) {
        err_wrap(e, "cannot create schema '%s'", ns);
        if (e->code == CODE_PRIVILEGE) err_hint(e, "GRANT CREATE ON DATABASE … TO %s, or create the schema and GRANT CREATE, USAGE ON SCHEMA %s TO it", PQuser(c), ns);
    }
out:
    buf_free(&b);
    return rc;
}

static int differs(const struct object *o, const char *what, struct err *e) {
    err_set(e, CODE_TARGET_NOT_EMPTY, "%s '%s.%s' on the target is not what the source has", what, o->ns, o->name);
    return err_hint(e, "drop it on the target, or make it the same: %s", o->sql);
}

/* Types keep their namespace: columns and defaults name it. */
static int type_ensure(PGconn *c, const struct object *o, struct err *e) {
    const char *p[2] = {o->ns, o->name};
    PGresult *r;
    if (tg_name_check("type's", o->name, e) < 0) return -1;
    if (o->sql == NULL || *o->sql == 0) return 0;
    if (pg_query(c, embed_sql("postgres/target_type_def"), 2, p, "read the target's types", &r, e) < 0) return -1;
    bool found = PQntuples(r) > 0, extension = strncmp(o->sql, "CREATE EXTENSION", 16) == 0;
    bool same = found && (extension || pg_null(r, 0, 0) || strcmp(pg_text(r, 0, 0), o->sql) == 0);
    PQclear(r);
    if (found) return same ? 0 : differs(o, "type", e);
    if (tg_schema_ensure(c, o->ns, e) < 0) return -1;
    if (pg_do(c, o->sql, NULL, e) == 0) return 0;
    return err_wrap(e, "cannot create type '%s.%s'", o->ns, o->name);
}

static int collation_ensure(PGconn *c, const struct object *o, struct err *e) {
    char got[8];
    bool found;
    if (exists(c, embed_sql("postgres/target_collation_present"), o->ns, o->name, got, sizeof got, &found, e) < 0) return -1;
    if (found && (got[0] == 'f') != (strstr(o->sql, "DETERMINISTIC = false") != NULL)) return differs(o, "collation", e);
    if (found) return 0;
    if (tg_schema_ensure(c, o->ns, e) < 0) return -1;
    if (pg_do(c, o->sql, NULL, e) == 0) return 0;
    return err_wrap(e, "cannot create collation '%s.%s'", o->ns, o->name);
}

/* Where the options begin behind CREATE SEQUENCE ns.name: at the first " AS " outside quotes. */
static const char *sequence_options(const char *sql) {
    bool in = false;
    for (const char *p = sql; *p != 0; p++) {
        if (*p == '"') in = !in;
        if (!in && strncmp(p, " AS ", 4) == 0) return p;
    }
    return NULL;
}

static int sequence_ensure(PGconn *c, const struct object *o, const char *ns, struct err *e) {
    struct buf b = BUF_INIT(KiB(8));
    char def[600], kind[8];
    bool found = false, there = false;
    int rc = -1;
    if (o->sql == NULL || *o->sql == 0) return 0; /* an identity column brings its own */
    const char *opts = sequence_options(o->sql);
    if (opts == NULL) return 0;
    if (tg_name_check("sequence's", o->name, e) < 0 || exists(c, embed_sql("postgres/target_sequence_def"), ns, o->name, def, sizeof def, &found, e) < 0) return -1;
    if (found) return strcmp(def, opts) == 0 ? 0 : differs(o, "sequence", e);
    if (exists(c, embed_sql("postgres/target_relation_kind"), ns, o->name, kind, sizeof kind, &there, e) < 0) return -1;
    if (there) return err_set(e, CODE_NAME_COLLISION, "the sequence '%s.%s' cannot be made: another relation has its name on the target", ns, o->name);
    if (tg_schema_ensure(c, ns, e) < 0 || buf_adds(&b, "CREATE SEQUENCE ", e) < 0 || pg_qualified(&b, ns, o->name, e) < 0 || buf_adds(&b, opts, e) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL) goto out;
    rc = pg_do(c, sql, NULL, e) < 0 ? err_wrap(e, "cannot create sequence '%s.%s'", ns, o->name) : 0;
out:
    buf_free(&b);
    return rc;
}

int tg_objects_create(struct target *t, const struct catalog *c, const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e) {
    bool native = false;
    for (size_t i = 0; i < c->ntables; i++) {
        native |= tg_native(c->tables[i]);
        const char *ns = map_ns != NULL ? map_ns(arg, c->tables[i]->ns) : c->tables[i]->ns;
        if (tg_schema_ensure(t->c, ns, e) < 0) return -1;
    }
    for (size_t i = 0; native && i < c->nobjects; i++) {
        const struct object *o = &c->objects[i];
        const char *ns = map_ns != NULL && o->ns != NULL ? map_ns(arg, o->ns) : o->ns;
        int rc = 0;
        switch (o->kind) {
        case OBJECT_SCHEMA: rc = tg_schema_ensure(t->c, map_ns != NULL ? map_ns(arg, o->name) : o->name, e); break;
        case OBJECT_TYPE: rc = type_ensure(t->c, o, e); break;
        case OBJECT_COLLATION: rc = collation_ensure(t->c, o, e); break;
        case OBJECT_SEQUENCE: rc = sequence_ensure(t->c, o, ns, e); break;
        }
        if (rc < 0) return -1;
    }
    return 0;
}

/* ---- tables ---------------------------------------------------------------------------------------------------------- */

/* One identifier at p, quoted or not: its end, and whether it equals name. */
const char *tg_skip_ident(const char *p, const char *name, bool *same) {
    const char *n = name;
    *same = true;
    if (*p != '"') {
        for (; *p != 0 && strchr(".,) (", *p) == NULL; p++) *same = *same && *n == *p && *n++ != 0;
        *same = *same && *n == 0;
        return p;
    }
    for (p++; *p != 0; p++) {
        if (*p == '"' && *++p != '"') break;
        *same = *same && *n == *p && *n++ != 0;
    }
    *same = *same && *n == 0;
    return p;
}

/* "ns.table" lists in options, with the table's own namespace exchanged. */
int tg_options_text(struct buf *b, const struct shape *src, const char *p, const char *ns, struct err *e) {
    bool same;
    for (;;) {
        const char *end = tg_skip_ident(p, src->ns, &same);
        if (*end != '.') return buf_adds(b, p, e);
        if ((same ? text_ident(b, ns, e) : buf_add(b, p, (size_t)(end - p), e)) < 0) return -1;
        bool ignored;
        const char *next = tg_skip_ident(end + 1, "", &ignored);
        if (buf_add(b, end, (size_t)(next - end), e) < 0) return -1;
        p = next;
        if (strncmp(p, ", ", 2) != 0) return buf_adds(b, p, e);
        if (buf_adds(b, ", ", e) < 0) return -1;
        p += 2;
    }
}

int tg_table_create_on(PGconn *c, const struct shape *src, const char *ns, const char *name, struct err *e) {
    struct buf b = BUF_INIT(MiB(4));
    int rc = -1;
    bool first = true;
    const char *options = tg_native(src) ? src->options : NULL;
    if (tg_name_check("table's", name, e) < 0 || tg_schema_ensure(c, ns, e) < 0) return -1;
    if (buf_adds(&b, "CREATE TABLE ", e) < 0 || pg_qualified(&b, ns, name, e) < 0) goto out;
    const char *bound = NULL; /* of a partition: behind PARTITION OF ns.parent */
    if (options != NULL && strncmp(options, "PARTITION OF ", 13) == 0) {
        bool ignored;
        if (buf_adds(&b, " PARTITION OF ", e) < 0) goto out;
        const char *dot = tg_skip_ident(options + 13, "", &ignored);
        bound = *dot == '.' ? tg_skip_ident(dot + 1, "", &ignored) : dot;
        char *head = mem_strndup(options + 13, (size_t)(bound - options - 13), e);
        int h = head == NULL ? -1 : tg_options_text(&b, src, head, ns, e);
        mem_free(head);
        if (h < 0) goto out;
    }
    if (buf_adds(&b, " (", e) < 0) goto out;
    for (uint16_t col = 0; col < src->ncols; col++) {
        const struct column *sc = &src->cols[col];
        if (sc->generated != NULL && !tg_native(src)) {
            log_warn("a generated column of another engine is not carried over", KV_STR("table", src->name), KV_STR("column", sc->name));
            continue;
        }
        if (bound != NULL) { /* a partition has its parent's columns; only what may differ is said */
            if (!sc->not_null && (sc->default_sql == NULL || sc->generated != NULL)) continue;
            if (buf_adds(&b, first ? "" : ", ", e) < 0 || text_ident(&b, sc->name, e) < 0) goto out;
            if (sc->default_sql != NULL && sc->generated == NULL && buf_addf(&b, e, " DEFAULT %s", sc->default_sql) < 0) goto out;
            if (sc->not_null && buf_adds(&b, " NOT NULL", e) < 0) goto out;
        } else if (buf_adds(&b, first ? "" : ", ", e) < 0 || tg_column_ddl(&b, src, col, ns, e) < 0) goto out;
        first = false;
    }
    if (bound != NULL && first) b.n -= 2; /* no list at all */
    else if (buf_addc(&b, ')', e) < 0) goto out;
    if (bound != NULL && buf_adds(&b, bound, e) < 0) goto out;
    if (bound == NULL && options != NULL && strncmp(options, "INHERITS (", 10) == 0) {
        if (buf_adds(&b, " INHERITS (", e) < 0 || tg_options_text(&b, src, options + 10, ns, e) < 0) goto out;
    } else if (bound == NULL && options != NULL && buf_addf(&b, e, " %s", options) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL) goto out;
    PGresult *r = PQexec(c, sql);
    rc = 0;
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        rc = pg_err(e, c, r, "cannot create table '%s.%s'", ns, name);
        if (pg_sqlstate_is(r, "42P07")) {
            rc = err_set(e, CODE_TARGET_NOT_EMPTY, "cannot create table '%s.%s': the target has a relation of that name", ns, name);
            err_hint(e, "drop it, choose another target, or use --reset-target-data");
        } else if (e->code == CODE_PRIVILEGE) err_hint(e, "GRANT CREATE, USAGE ON SCHEMA %s TO %s", ns, PQuser(c));
    }
    PQclear(r);
out:
    buf_free(&b);
    return rc;
}

int tg_table_create(struct target *t, const struct shape *src, const char *ns, const char *name, struct err *e) {
    return tg_table_create_on(t->c, src, ns, name, e);
}

/* For every row (ns, name[, third]) of a query: one ALTER TABLE. */
static int alter_each(PGconn *c, const char *query, const char *ns, const char *name, const char *verb, bool third, struct err *e) {
    const char *p[2] = {ns, name};
    struct buf b = BUF_INIT(KiB(8));
    PGresult *r;
    int rc = -1;
    if (pg_query(c, embed_sql(query), 2, p, "see what hangs on the table", &r, e) < 0) return -1;
    for (int i = 0; i < PQntuples(r); i++) {
        buf_reset(&b);
        if (buf_adds(&b, "ALTER TABLE ", e) < 0 || pg_qualified(&b, pg_text(r, i, 0), pg_text(r, i, 1), e) < 0 || buf_adds(&b, verb, e) < 0) goto out;
        if ((third ? text_ident(&b, pg_text(r, i, 2), e) : pg_qualified(&b, ns, name, e)) < 0) goto out;
        const char *sql = buf_str(&b, e);
        if (sql == NULL || pg_do(c, sql, NULL, e) < 0) goto out;
    }
    rc = 0;
out:
    PQclear(r);
    buf_free(&b);
    return rc;
}

int tg_table_drop(struct target *t, const char *ns, const char *name, struct err *e) {
    struct buf b = BUF_INIT(KiB(1));
    int rc = -1;
    /* not CASCADE: that would take views along */
    if (tg_begin(t->c, e) < 0 || alter_each(t->c, "postgres/target_fk_children", ns, name, " DROP CONSTRAINT ", true, e) < 0 ||
        alter_each(t->c, "postgres/target_heirs", ns, name, " NO INHERIT ", false, e) < 0)
        goto out;
    if (buf_adds(&b, "DROP TABLE IF EXISTS ", e) < 0 || pg_qualified(&b, ns, name, e) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL) goto out;
    PGresult *r = PQexec(t->c, sql);
    if (pg_sqlstate_is(r, "2BP01")) { /* waiting would not help */
        const char *what = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
        err_set(e, CODE_TARGET_NOT_EMPTY, "other objects of the target depend on it: %.300s", what != NULL ? what : "see its catalogue");
        err_hint(e, "drop those objects first (they are not sluice's), then run it again");
    } else if (PQresultStatus(r) != PGRES_COMMAND_OK) pg_err(e, t->c, r, NULL);
    else rc = tg_commit(t->c, e);
    PQclear(r);
out:
    if (rc < 0) err_wrap(e, "cannot drop table '%s.%s'", ns, name);
    tg_rollback(t->c);
    buf_free(&b);
    return rc;
}

/* ---- sequences ------------------------------------------------------------------------------------------------------- */

/* The sequence as text for regclass: by its name, else the one of the table's identity column. Empty: there is none. */
static int sequence_find(PGconn *c, const char *ns, const char *name, const char *owner_table, const char *owner_column, char out[300], struct err *e) {
    struct buf b = BUF_INIT(KiB(4));
    char kind[8], col[80] = "";
    bool found;
    int rc = -1;
    out[0] = 0;
    if (owner_table == NULL) {
        if (exists(c, embed_sql("postgres/target_relation_kind"), ns, name, kind, sizeof kind, &found, e) < 0) return -1;
        if (found && kind[0] == 'S') {
            if (pg_qualified(&b, ns, name, e) < 0) goto out;
            const char *s = buf_str(&b, e);
            if (s == NULL) goto out;
            snprintf(out, 300, "%s", s);
            rc = 0;
            goto out;
        }
        owner_table = name;
    }
    if (owner_column == NULL) {
        if (exists(c, embed_sql("postgres/target_identity_column"), ns, owner_table, col, sizeof col, &found, e) < 0) goto out;
        owner_column = found ? col : NULL;
    } else if (exists(c, embed_sql("postgres/target_relation_kind"), ns, owner_table, kind, sizeof kind, &found, e) < 0) goto out;
    else if (!found) owner_column = NULL;
    if (owner_column != NULL) {
        if (pg_qualified(&b, ns, owner_table, e) < 0) goto out;
        const char *p[2] = {buf_str(&b, e), owner_column};
        if (p[0] == NULL || pg_scalar(c, embed_sql("postgres/target_sequence_of"), 2, p, "find a column's sequence", out, 300, NULL, e) < 0) goto out;
    }
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

/* The statement that moves a sequence forward, and its first parameter; *sql stays NULL when the target has no such sequence. */
static int forward_sql(PGconn *c, const char *ns, const char *default_ns, const char *name, char seq[300], char **sql, struct err *e) {
    *sql = NULL;
    if (sequence_find(c, ns, name, NULL, NULL, seq, e) < 0) return -1;
    if (*seq == 0 && strcmp(ns, default_ns) != 0 && sequence_find(c, default_ns, name, NULL, NULL, seq, e) < 0) return -1;
    if (*seq == 0) {
        log_info("a sequence of the source is not on the target", KV_STR("schema", ns), KV_STR("sequence", name));
        return 0;
    }
    return (*sql = tg_sql("target_sequence_forward", NULL, "{seq}", seq, e)) != NULL ? 0 : -1;
}

int tg_sequence_forward(PGconn *c, const char *ns, const char *default_ns, const char *name, int64_t value, bool called, struct err *e) {
    char seq[300], v[32], *sql;
    if (forward_sql(c, ns, default_ns, name, seq, &sql, e) < 0) return -1;
    if (sql == NULL) return 0;
    snprintf(v, sizeof v, "%lld", (long long)value);
    const char *p[3] = {seq, v, called ? "t" : "f"};
    long n;
    int rc = tg_count(c, sql, 3, p, NULL, &n, e);
    mem_free(sql);
    if (rc < 0 && e->code == CODE_PRIVILEGE) err_hint(e, "GRANT SELECT, UPDATE ON SEQUENCE %s TO \"%s\"", seq, PQuser(c));
    return rc < 0 ? err_wrap(e, "cannot move sequence %s forward", seq) : 0;
}

int tg_sequence_later(PGconn *c, const char *ns, const char *default_ns, const char *name, struct buf *b, struct err *e) {
    char seq[300], *sql;
    if (forward_sql(c, ns, default_ns, name, seq, &sql, e) < 0) return -1;
    int rc = buf_adds(b, sql != NULL ? sql : "", e) < 0 || buf_addc(b, 0, e) < 0 || buf_adds(b, seq, e) < 0 || buf_addc(b, 0, e) < 0 ? -1 : 0;
    mem_free(sql);
    return rc;
}

/* "ns.table.column", each as it is named; false when dots in names make that ambiguous. */
static bool split_owner(const char *owned_by, char table[80], char column[80]) {
    const char *a = strchr(owned_by, '.'), *b = a != NULL ? strchr(a + 1, '.') : NULL;
    if (b == NULL || strchr(b + 1, '.') != NULL || (size_t)(b - a - 1) >= 80 || strlen(b + 1) >= 80) return false;
    memcpy(table, a + 1, (size_t)(b - a - 1));
    table[b - a - 1] = 0;
    snprintf(column, 80, "%s", b + 1);
    return true;
}

int tg_sequence_set(struct target *t, const struct object *o, const char *ns, struct err *e) {
    char seq[300], v[32], table[80], column[80], kind[8];
    struct buf b = BUF_INIT(KiB(4));
    bool found = false, owned = o->owned_by != NULL && split_owner(o->owned_by, table, column);
    int rc = -1;
    if (sequence_find(t->c, ns, o->name, NULL, NULL, seq, e) < 0) return -1;
    if (*seq == 0 && owned && sequence_find(t->c, ns, o->name, table, column, seq, e) < 0) return -1;
    if (*seq == 0) {
        log_info("a sequence of the source is not on the target", KV_STR("schema", ns), KV_STR("sequence", o->name));
        return 0;
    }
    snprintf(v, sizeof v, "%lld", (long long)o->value);
    const char *p[3] = {seq, v, o->is_called ? "t" : "f"};
    long n;
    if (tg_count(t->c, embed_sql("postgres/target_sequence_set"), 3, p, NULL, &n, e) < 0) {
        err_wrap(e, "cannot set sequence %s", seq);
        goto out;
    }
    if (owned && o->sql != NULL && *o->sql != 0 && exists(t->c, embed_sql("postgres/target_relation_kind"), ns, table, kind, sizeof kind, &found, e) == 0 && found) {
        if (buf_addf(&b, e, "ALTER SEQUENCE %s OWNED BY ", seq) < 0 || pg_qualified(&b, ns, table, e) < 0 || buf_addc(&b, '.', e) < 0 || text_ident(&b, column, e) < 0)
            goto out;
        const char *sql = buf_str(&b, e);
        if (sql == NULL || pg_do(t->c, sql, NULL, e) < 0) {
            if (e->code == CODE_NO_MEMORY) goto out;
            log_warn("a sequence could not be given its owner", KV_STR("sequence", seq), KV_STR("reason", e->msg));
            err_clear(e);
        }
    }
    rc = 0;
out:
    buf_free(&b);
    return rc;
}
