/* A target: its connection, the sessions that write, what all its files share, and the table of operations. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target.h"
#include "drivers/postgres/target_priv.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

/* ---- SQL texts ------------------------------------------------------------------------------------------------------- */

static int replace(struct buf *b, const char *key, const char *value, struct err *e) {
    struct buf out = BUF_INIT(MiB(4));
    const char *p = buf_str(b, e);
    size_t kn = strlen(key);
    int rc = -1;
    if (p == NULL) return -1;
    for (const char *hit; (hit = strstr(p, key)) != NULL; p = hit + kn)
        if (buf_add(&out, p, (size_t)(hit - p), e) < 0 || buf_adds(&out, value, e) < 0) goto out;
    if (buf_adds(&out, p, e) < 0) goto out;
    buf_reset(b);
    rc = buf_add(b, out.p, out.n, e);
out:
    buf_free(&out);
    return rc;
}

char *tg_sql(const char *name, const char *ctl, const char *key, const char *value, struct err *e) {
    struct buf b = BUF_INIT(MiB(4)), lit = BUF_INIT(KiB(8));
    char full[96], *r = NULL;
    snprintf(full, sizeof full, "postgres/%s", name);
    if (buf_adds(&b, embed_sql(full), e) < 0) goto out;
    if (ctl != NULL) {
        /* inside a literal the schema's quoted name is text */
        if (text_literal(&lit, ctl, strlen(ctl), e) < 0) goto out;
        const char *l = buf_str(&lit, e);
        if (l == NULL || replace(&b, "'{ctl}'", l, e) < 0 || replace(&b, "{ctl}", ctl, e) < 0) goto out;
    }
    if (key != NULL && replace(&b, key, value, e) < 0) goto out;
    r = buf_take(&b, NULL, e);
out:
    buf_free(&lit);
    buf_free(&b);
    return r;
}

const char *tg_u64(char out[24], uint64_t v) {
    snprintf(out, 24, "%llu", (unsigned long long)v);
    return out;
}

/* ---- transactions ---------------------------------------------------------------------------------------------------- */

int tg_begin(PGconn *c, struct err *e) { return pg_do(c, "BEGIN; SET LOCAL synchronous_commit = on", "begin a transaction on the target", e); }

int tg_commit(PGconn *c, struct err *e) {
    PGresult *r = PQexec(c, "COMMIT");
    int rc = 0;
    if (PQresultStatus(r) != PGRES_COMMAND_OK) rc = pg_err(e, c, r, "cannot commit on the target");
    else if (strcmp(PQcmdStatus(r), "COMMIT") != 0) rc = err_set(e, CODE_INTERNAL, "the target rolled back what should have been committed");
    PQclear(r);
    return rc;
}

void tg_rollback(PGconn *c) {
    if (c != NULL && PQstatus(c) == CONNECTION_OK && PQtransactionStatus(c) != PQTRANS_IDLE) PQclear(PQexec(c, "ROLLBACK"));
}

int tg_count(PGconn *c, const char *sql, int n, const char *const *params, const char *what, long *affected, struct err *e) {
    PGresult *r;
    if (sql == NULL || pg_query(c, sql, n, params, what, &r, e) < 0) return -1;
    uint64_t v = 0;
    if (PQresultStatus(r) == PGRES_TUPLES_OK) v = (uint64_t)PQntuples(r);
    else if (*PQcmdTuples(r) != 0) text_u64(PQcmdTuples(r), &v);
    *affected = (long)v;
    PQclear(r);
    return 0;
}

int tg_row_err(struct err *e, PGconn *c, const PGresult *r, const char *label) {
    const char *state = pg_sqlstate(r);
    const char *con = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME), *det = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
    const char *tns = PQresultErrorField(r, PG_DIAG_SCHEMA_NAME), *tn = PQresultErrorField(r, PG_DIAG_TABLE_NAME);
    const char *col = PQresultErrorField(r, PG_DIAG_COLUMN_NAME);
    char where[300] = "";
    if (tns != NULL && tn != NULL) snprintf(where, sizeof where, "%s.%s", tns, tn);
    else if (label != NULL) snprintf(where, sizeof where, "%s", label);
    if (*where != 0) pg_err(e, c, r, "table '%s'", where);
    else pg_err(e, c, r, NULL);
    if (e->code == CODE_PRIVILEGE && *where != 0)
        err_hint(e, "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON %s TO \"%s\"; the README lists what a target's role needs", where, PQuser(c));
    if (strncmp(state, "23", 2) != 0) return -1;
    /* of these the detail holds the key alone; of a check or a missing value it would hold the row */
    bool key_only = strcmp(state, "23505") == 0 || strcmp(state, "23503") == 0 || strcmp(state, "23P01") == 0;
    size_t n = strlen(e->msg);
    if (con != NULL) n += (size_t)snprintf(e->msg + n, sizeof e->msg - n, ", constraint '%s'", con);
    else if (col != NULL) n += (size_t)snprintf(e->msg + n, sizeof e->msg - n, ", column '%s'", col);
    if (key_only && det != NULL && n < sizeof e->msg) snprintf(e->msg + n, sizeof e->msg - n, ": %.400s", det);
    return -1;
}

int tg_name_check(const char *kind, const char *name, struct err *e) {
    if (strlen(name) <= PG_NAME_MAX) return 0;
    err_set(e, CODE_NAME_COLLISION, "the %s name '%s' has %zu bytes, and PostgreSQL would cut it to %d", kind, name, strlen(name), PG_NAME_MAX);
    return err_hint(e, "rename it on the source, or leave the table out with --exclude-table");
}

/* ---- connections ----------------------------------------------------------------------------------------------------- */

/* A dead peer must not hold locks for hours: the server looks after its client. */
static void keep_alive(PGconn *c) {
    PQclear(PQexec(c, "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"));
    if (pg_version(c) >= 140000) PQclear(PQexec(c, "SET client_connection_check_interval = '10s'"));
}

int tg_connect_writer(const char *dsn, PGconn **c, bool *replica, struct err *e) {
    static int warned;
    if (pg_connect(dsn, PG_SQL, c, e) < 0) return -1;
    keep_alive(*c);
    PGresult *r = PQexec(*c, "SET session_replication_role = replica");
    *replica = PQresultStatus(r) == PGRES_COMMAND_OK;
    int rc = 0;
    if (!*replica && !pg_sqlstate_is(r, "42501")) rc = pg_err(e, *c, r, "cannot switch triggers off in this session");
    PQclear(r);
    if (rc == 0 && !*replica && __atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED) == 0) {
        char grant[200];
        if (pg_version(*c) < 150000) snprintf(grant, sizeof grant, "before PostgreSQL 15 only a superuser may");
        else snprintf(grant, sizeof grant, "GRANT SET ON PARAMETER session_replication_role TO \"%s\"", PQuser(*c));
        log_warn("the target's foreign keys and triggers stay on in our sessions: the role may not set session_replication_role", KV_STR("remedy", grant));
    }
    if (rc == 0) rc = pg_do(*c, "SET plan_cache_mode = force_generic_plan", "set up a writing session", e);
    if (rc < 0) pg_close(c);
    return rc;
}

static int find_default_ns(struct target *t, struct err *e) {
    PGresult *r = PQexec(t->c, embed_sql("postgres/target_default_ns"));
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK) rc = pg_err(e, t->c, r, "cannot find the target's default schema");
    else t->default_ns = mem_strdup(PQntuples(r) > 0 && !pg_null(r, 0, 0) ? pg_text(r, 0, 0) : "public", e);
    PQclear(r);
    tg_rollback(t->c);
    return rc < 0 || t->default_ns == NULL ? -1 : 0;
}

static void target_close(struct target *t) {
    if (t == NULL) return;
    pg_close(&t->c);
    mem_free(t->dsn);
    mem_free(t->default_ns);
    mem_free(t->ctl_ns);
    mem_free(t->ctl);
    mem_free(t->stream_id);
    mem_free(t->polite);
    mem_free(t);
}

static int target_open(const struct target_opts *o, struct target **out, struct err *e) {
    struct buf b = BUF_INIT(KiB(1));
    struct target *t = mem_alloc(sizeof *t, e);
    *out = NULL;
    if (t == NULL) return -1;
    if (pg_connect(o->dsn, PG_SQL, &t->c, e) < 0) goto fail;
    keep_alive(t->c);
    if (o->look && pg_do(t->c, "SET default_transaction_read_only = on", "look at the target", e) < 0) goto fail;
    if ((t->dsn = mem_strdup(o->dsn, e)) == NULL || find_default_ns(t, e) < 0) goto fail;
    const char *ctl = o->control_schema != NULL && *o->control_schema != 0 ? o->control_schema : t->default_ns;
    if (tg_name_check("control schema's", ctl, e) < 0) goto fail;
    if ((t->ctl_ns = mem_strdup(ctl, e)) == NULL || text_ident(&b, ctl, e) < 0 || (t->ctl = buf_take(&b, NULL, e)) == NULL) goto fail;
    if (o->stream_id != NULL && (t->stream_id = mem_strdup(o->stream_id, e)) == NULL) goto fail;
    *out = t;
    return 0;
fail:
    buf_free(&b);
    target_close(t);
    return -1;
}

static int target_identity(struct target *t, char out[128], struct err *e) {
    return pg_scalar(t->c, embed_sql("postgres/target_identity"), 0, NULL, "identify the target", out, 128, NULL, e);
}

/* The source's identity is ours with the timeline in the middle. Under another schema's name the source's own database may hold the copy. */
static int target_captured(struct target *t, const char *source_identity, const struct shape *src, const char *ns, const char *name, struct err *e) {
    char own[128];
    if (target_identity(t, own, e) < 0) return -1;
    const char *db = strrchr(own, ':'), *source_db = strrchr(source_identity, ':');
    if (db == NULL || source_db == NULL || strcmp(db, source_db) != 0 || strncmp(own, source_identity, (size_t)(db - own) + 1) != 0) return 0;
    if (strcmp(src->ns, ns) != 0 || strcmp(src->name, name) != 0) return 0;
    err_set(e, CODE_TARGET_CAPTURED, "table '%s.%s' of the target is the one that the chain was taken from", ns, name);
    return err_hint(e, "use another database as target, or another schema with --map-schema");
}

static const char *target_default_ns(struct target *t) { return t->default_ns; }

static int target_table_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e) {
    return pg_table_shape(t->c, ns, name, s, e);
}

static int target_has_rows(struct target *t, const char *ns, const char *name, bool *any, struct err *e) {
    struct buf b = BUF_INIT(KiB(1));
    char *sql = NULL, got[8];
    int rc = -1;
    if (pg_qualified(&b, ns, name, e) < 0) goto out;
    const char *q = buf_str(&b, e);
    if (q == NULL || (sql = tg_sql("target_has_rows", NULL, "{tbl}", q, e)) == NULL) goto out;
    if (pg_scalar(t->c, sql, 0, NULL, NULL, got, sizeof got, NULL, e) < 0) {
        err_wrap(e, "cannot see whether table '%s.%s' has rows", ns, name);
        goto out;
    }
    *any = got[0] == 't';
    rc = 0;
out:
    mem_free(sql);
    buf_free(&b);
    return rc;
}

const struct target_ops postgres_target_ops = {
    .open = target_open,
    .close = target_close,
    .identity = target_identity,
    .table_captured = target_captured,
    .default_ns = target_default_ns,
    .control_ensure = tg_control_ensure,
    .state_read = tg_state_read,
    .state_list = tg_state_list,
    .state_write = tg_state_write,
    .takeover = tg_takeover,
    .stop_request = tg_stop_request,
    .marks_read = tg_marks_read,
    .marks_clear = tg_marks_clear,
    .route_read = tg_route_read,
    .route_write = tg_route_write,
    .table_shape = target_table_shape,
    .table_has_rows = target_has_rows,
    .compatible = tg_compatible,
    .keys_check = tg_keys_check,
    .objects_create = tg_objects_create,
    .table_create = tg_table_create,
    .table_finish = tg_table_finish,
    .table_drop = tg_table_drop,
    .sequence_set = tg_sequence_set,
    .table_alter = tg_table_alter,
    .bind = tg_bind,
    .unbind = tg_unbind,
    .loader_open = tg_loader_open,
    .loader_raw = tg_loader_raw,
    .loader_done = tg_loader_done,
    .loader_begin = tg_loader_begin,
    .loader_raw_put = tg_loader_raw_put,
    .loader_rows = tg_loader_rows,
    .loader_commit = tg_loader_commit,
    .loader_close = tg_loader_close,
    .lane_open = tg_lane_open,
    .lane_fk_enforced = tg_lane_fk_enforced,
    .lane_apply = tg_lane_apply,
    .lane_close = tg_lane_close,
};
