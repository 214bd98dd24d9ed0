/* For the tests of the PostgreSQL target: a scratch schema on a real server, changes made from texts. Skips when SLUICE_TEST_PG is not set. */
#ifndef SLUICE_TESTS_TARGET_KIT_H
#define SLUICE_TESTS_TARGET_KIT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/postgres/target.h"
#include "drivers/postgres/target_priv.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static const struct target_ops *const ops = &postgres_target_ops;
static const char *kit_dsn;
static PGconn *kit_c;       /* the test's own eyes and hands */
static struct target *kit_t;
static struct arena *kit_a;
static char kit_ns[64], kit_src[64], kit_ctl[64];
static struct target_state kit_st;

__attribute__((unused, format(printf, 1, 2))) static int kit_do(const char *fmt, ...) {
    char *sql = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&sql, fmt, ap) < 0) abort();
    va_end(ap);
    PGresult *r = PQexec(kit_c, sql);
    int good = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    if (!good) note("%s: %s", sql, PQresultErrorMessage(r));
    PQclear(r);
    free(sql);
    return good ? 0 : -1;
}

/* All rows of a query, fields parted by |, rows by a blank. */
__attribute__((unused, format(printf, 1, 2))) static const char *kit_rows(const char *fmt, ...) {
    static char out[4096];
    char *sql = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&sql, fmt, ap) < 0) abort();
    va_end(ap);
    PGresult *r = PQexec(kit_c, sql);
    size_t n = 0;
    out[0] = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK) snprintf(out, sizeof out, "error: %s", PQresultErrorMessage(r));
    for (int i = 0; i < PQntuples(r); i++)
        for (int k = 0; k < PQnfields(r); k++)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", k > 0 ? "|" : i > 0 ? " " : "", PQgetisnull(r, i, k) ? "NULL" : PQgetvalue(r, i, k));
    PQclear(r);
    free(sql);
    return out;
}

/* 0, or the number of the skipped plan's exit. */
__attribute__((unused)) static int kit_open(const char *name) {
    struct err e = {0};
    kit_dsn = getenv("SLUICE_TEST_PG");
    if (kit_dsn == NULL || *kit_dsn == 0) {
        printf("1..0 # SKIP SLUICE_TEST_PG is not set\n");
        return -1;
    }
    log_setup(LOG_TEXT, LOG_ERROR);
    snprintf(kit_ns, sizeof kit_ns, "tt_%s", name);
    snprintf(kit_src, sizeof kit_src, "ts_%s", name);
    snprintf(kit_ctl, sizeof kit_ctl, "tc_%s", name);
    kit_a = arena_new(KiB(64), &e);
    if (kit_a == NULL || pg_connect(kit_dsn, PG_SQL, &kit_c, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    PQclear(PQexec(kit_c, "SET client_min_messages = error"));
    kit_do("DROP SCHEMA IF EXISTS %s CASCADE; DROP SCHEMA IF EXISTS %s CASCADE; DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s; CREATE SCHEMA %s", kit_ns, kit_src,
           kit_ctl, kit_ns, kit_src);
    struct target_opts o = {.dsn = kit_dsn, .control_schema = kit_ctl, .stream_id = "s1"};
    if (ops->open(&o, &kit_t, &e) < 0 || ops->control_ensure(kit_t, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    snprintf(kit_st.stream_id, sizeof kit_st.stream_id, "s1");
    snprintf(kit_st.phase, sizeof kit_st.phase, "tailing");
    snprintf(kit_st.lineage, sizeof kit_st.lineage, "0123456789abcdef0123456789abcdef");
    kit_st.format = 1;
    if (ops->state_write(kit_t, &kit_st, &e) < 0 || ops->takeover(kit_t, &kit_st, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return 0;
}

__attribute__((unused)) static int kit_close(void) {
    ops->close(kit_t);
    kit_do("DROP SCHEMA IF EXISTS %s CASCADE; DROP SCHEMA IF EXISTS %s CASCADE; DROP SCHEMA IF EXISTS %s CASCADE", kit_ns, kit_src, kit_ctl);
    pg_close(&kit_c);
    arena_free(kit_a);
    return done_testing();
}

__attribute__((unused)) static struct shape *kit_shape(const char *ns, const char *name) {
    struct err e = {0};
    struct shape *s = NULL;
    if (pg_table_shape(kit_c, ns, name, &s, &e) < 0 || s == NULL) {
        note("no shape of %s.%s: %s", ns, name, e.msg);
        exit(1);
    }
    return s;
}

/* A shape of another engine, column by column: "name type[!]" with ! for NOT NULL; key: columns of the primary key. */
__attribute__((unused)) static struct shape *kit_foreign(const char *name, size_t n, const char *const *names, const enum ltype *types, size_t nkey) {
    struct err e = {0};
    struct shape *s = shape_new(&e);
    struct column *c = arena_zalloc(s->arena, n * sizeof *c, &e);
    struct key *k = arena_zalloc(s->arena, sizeof *k, &e);
    uint16_t *cols = arena_zalloc(s->arena, (nkey + 1) * sizeof *cols, &e);
    enum equality *eq = arena_zalloc(s->arena, (nkey + 1) * sizeof *eq, &e);
    for (size_t i = 0; i < n; i++)
        c[i] = (struct column){.name = names[i], .native = ltype_name(types[i]), .type = types[i], .precision = -1, .scale = -1, .length = -1,
                               .id = (int64_t)i + 1, .not_null = i < nkey};
    for (size_t i = 0; i < nkey; i++) cols[i] = (uint16_t)i;
    *k = (struct key){.name = "pk", .kind = KEY_PRIMARY, .ncols = (uint16_t)nkey, .cols = cols, .equality = eq, .constraint = true};
    s->engine = "sqlite";
    s->ns = "main";
    s->name = name;
    s->ncols = (uint16_t)n;
    s->cols = c;
    s->nkeys = nkey > 0;
    s->keys = k;
    s->identity = s->primary = nkey > 0 ? 0 : -1;
    if (shape_finish(s, &e) < 0) exit(1);
    return s;
}

/* n values from texts: NULL, "~" (unchanged) or a text. */
__attribute__((unused)) static struct value *kit_values(uint16_t n, const char *const *texts) {
    struct err e = {0};
    struct value *v = arena_zalloc(kit_a, n * sizeof *v, &e);
    for (uint16_t i = 0; i < n; i++) {
        if (texts[i] == NULL) continue;
        if (strcmp(texts[i], "~") == 0) v[i].kind = VALUE_UNCHANGED;
        else v[i] = (struct value){texts[i], (uint32_t)strlen(texts[i]), VALUE_TEXT};
    }
    return v;
}
#define ROW(...) ((const char *const[]){__VA_ARGS__})

__attribute__((unused)) static struct change *kit_change(const struct shape *s, enum change_op op, enum change_image image, const char *const *before,
                                                         const char *const *after) {
    struct err e = {0};
    struct change *c = arena_zalloc(kit_a, sizeof *c, &e);
    c->op = (uint8_t)op;
    c->shape = s;
    c->before_image = (uint8_t)image;
    if (before != NULL) c->before = kit_values(s->ncols, before);
    if (after != NULL) c->after = kit_values(s->ncols, after);
    return c;
}

static uint64_t kit_seq;
/* Apply runs with the next mark. */
__attribute__((unused)) static int kit_apply(struct lane *l, const struct run *runs, size_t n, struct apply_result *r, struct err *e) {
    struct mark m = {.epoch = kit_st.epoch, .seq = ++kit_seq};
    err_clear(e);
    int rc = ops->lane_apply(l, runs, n, &m, r, e);
    if (rc < 0) kit_seq--;
    return rc;
}
__attribute__((unused)) static int kit_apply1(struct lane *l, enum run_kind kind, struct target_table *tt, struct change **c, size_t n, const uint8_t *mask,
                                              struct apply_result *r, struct err *e) {
    struct run run = {.kind = kind, .table = tt, .changes = c, .n = n, .mask = mask};
    return kit_apply(l, &run, 1, r, e);
}

#endif
