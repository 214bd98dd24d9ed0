/* PostgreSQL as a source: the connection, which database it is, and the table of functions. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"

static void source_close(struct source *s) {
    if (s == NULL) return;
    pg_close(&s->c);
    survey_free(&s->survey);
    mem_free((char *)s->o.dsn);
    mem_free((char *)s->o.slot_name);
    mem_free(s);
}

static int slot_name_check(const char *name, struct err *e) {
    size_t n = strlen(name);
    if (n > 0 && n <= PG_NAME_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n) return 0;
    err_set(e, CODE_USAGE, "'%s' cannot be the name of a replication slot", name);
    return err_hint(e, "use at most %d lower-case letters, digits and underscores", PG_NAME_MAX);
}

static int source_open(const struct source_opts *o, struct source **out, struct err *e) {
    *out = NULL;
    if (o->slot_name != NULL && slot_name_check(o->slot_name, e) < 0) return -1;
    struct source *s = mem_alloc(sizeof *s, e);
    if (s == NULL) return -1;
    s->o = *o;
    s->o.dsn = s->o.slot_name = NULL;
    if ((s->o.dsn = mem_strdup(o->dsn, e)) == NULL || (o->slot_name != NULL && (s->o.slot_name = mem_strdup(o->slot_name, e)) == NULL) ||
        pg_connect(o->dsn, PG_SQL, &s->c, e) < 0) {
        source_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

static int source_identity(struct source *s, char out[128], struct err *e) {
    return pg_scalar(s->c, embed_sql("postgres/source_identity"), 0, NULL, "read the server's identity", out, 128, NULL, e);
}

static int source_end(struct source *s, struct pos *p, struct err *e) {
    char lsn[32];
    if (survey_take(s, lsn, e) < 0) return -1;
    return pos_set(p, "postgres", lsn, e);
}

int source_facts(struct source *s, struct pg_facts *f, struct err *e) {
    PGresult *r;
    const char *p[1] = {s->o.slot_name};
    memset(f, 0, sizeof *f);
    if (pg_query(s->c, embed_sql("postgres/source_facts"), 1, p, "read the server's settings", &r, e) < 0) return -1;
    if (PQntuples(r) == 1) {
        snprintf(f->wal_level, sizeof f->wal_level, "%s", pg_text(r, 0, 0));
        f->replication = pg_bool(r, 0, 1);
        f->superuser = pg_bool(r, 0, 2);
        f->can_create = pg_bool(r, 0, 3);
        snprintf(f->role, sizeof f->role, "%s", pg_text(r, 0, 4));
        snprintf(f->db, sizeof f->db, "%s", pg_text(r, 0, 5));
        f->slots_free = pg_i64(r, 0, 6);
        f->senders_free = pg_i64(r, 0, 7);
        f->slot_there = pg_bool(r, 0, 8);
        snprintf(f->encoding, sizeof f->encoding, "%s", pg_text(r, 0, 9));
        f->recovery = pg_bool(r, 0, 10);
        f->db_oid = pg_i64(r, 0, 11);
        f->publication_there = pg_bool(r, 0, 12);
    }
    int rc = PQntuples(r) == 1 ? 0 : err_set(e, CODE_INTERNAL, "the server's settings cannot be read");
    PQclear(r);
    return rc;
}

bool source_wants(const struct source *s, const char *ns, const char *name, const char *root_ns, const char *root_name) {
    const struct table_filter *f = &s->o.filter;
    if (table_filter_match(f, ns, name)) {
        struct table_filter out = {NULL, 0, f->exclude, f->nexclude};
        return root_name == NULL || *root_name == 0 || table_filter_match(&out, root_ns, root_name);
    }
    struct table_filter out = {NULL, 0, f->exclude, f->nexclude};
    return root_name != NULL && *root_name != 0 && table_filter_match(&out, ns, name) && table_filter_match(f, root_ns, root_name);
}

const struct source_ops postgres_source_ops = {
    .open = source_open,
    .close = source_close,
    .identity = source_identity,
    .catalog = source_catalog,
    .end = source_end,
    .anchor_absent = source_anchor_absent,
    .anchor = source_anchor,
    .unanchor = source_unanchor,
    .check = source_check,
    .snapshot = source_snapshot,
    .snapshot_close = source_snapshot_close,
    .reader_open = source_reader_open,
    .reader_table = source_reader_table,
    .reader_next = source_reader_next,
    .reader_estimate = source_reader_estimate,
    .reader_close = source_reader_close,
    .sequences_again = source_sequences_again,
    .stream_open = source_stream_open,
    .stream_next = source_stream_next,
    .stream_ack = source_stream_ack,
    .stream_sequences = source_stream_sequences,
    .stream_uncaptured = source_stream_uncaptured,
    .stream_close = source_stream_close,
};
