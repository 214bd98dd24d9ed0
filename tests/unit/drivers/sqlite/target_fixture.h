/* What the tests of the SQLite target share: a scratch folder, a target, shapes and values. */
#ifndef SLUICE_TESTS_TARGET_FIXTURE_H
#define SLUICE_TESTS_TARGET_FIXTURE_H

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/sqlite/sqlite.h"
#include "drivers/sqlite/target.h"
#include "engine/base/arena.h"
#include "tests/tap.h"

static char fx_dir[64], fx_dsn[128], fx_source[128];
static struct arena *fx_arena;
static const struct target_ops *T = &sqlite_target_ops;

__attribute__((unused)) static void fx_remove(void) {
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", fx_dir);
    if (fx_dir[0] && system(cmd) != 0) perror("rm");
    arena_free(fx_arena);
}

__attribute__((unused)) static void fx_setup(void) {
    snprintf(fx_dir, sizeof fx_dir, "/tmp/sluice_target_XXXXXX");
    if (!mkdtemp(fx_dir)) abort();
    snprintf(fx_dsn, sizeof fx_dsn, "%s/target.db", fx_dir);
    snprintf(fx_source, sizeof fx_source, "%s/source.db", fx_dir);
    fx_arena = arena_new(1 << 16, &(struct err){0});
    atexit(fx_remove);
}

/* A new, empty target file. */
__attribute__((unused)) static struct target *fx_target(void) {
    struct err e = {0};
    struct target *t = NULL;
    char f[160];
    const char *tail[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(f, sizeof f, "%s%s", fx_dsn, tail[i]);
        unlink(f);
    }
    struct target_opts o = {.dsn = fx_dsn, .stream_id = "app"};
    if (T->open(&o, &t, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return t;
}

/* A plain connection, as an application or an operator has one. */
__attribute__((unused)) static void fx_sql_in(const char *file, const char *sql) {
    sqlite3 *db = NULL;
    char *msg = NULL;
    if (sqlite3_open(file, &db) != SQLITE_OK) abort();
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK) {
        printf("Bail out! '%s': %s\n", sql, msg);
        exit(1);
    }
    sqlite3_close(db);
}

__attribute__((unused)) static void fx_sql(const char *sql) {
    fx_sql_in(fx_dsn, sql);
}

/* Rows as the shell prints them: fields by |, rows by blanks; NULL as ~. Of the target. */
__attribute__((unused)) static const char *fx_rows_in(const char *file, const char *sql) {
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    char *out = arena_zalloc(fx_arena, 8192, &(struct err){0});
    size_t n = 0;
    if (sqlite3_open(file, &db) != SQLITE_OK || sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK) {
        snprintf(out, 8192, "error: %s", sqlite3_errmsg(db));
        sqlite3_close(db);
        return out;
    }
    while (sqlite3_step(s) == SQLITE_ROW) {
        if (n) n += (size_t)snprintf(out + n, 8192 - n, " ");
        for (int i = 0; i < sqlite3_column_count(s) && n < 8000; i++) {
            const char *p = (const char *)sqlite3_column_text(s, i);
            n += (size_t)snprintf(out + n, 8192 - n, "%s%.1000s", i ? "|" : "", p ? p : "~");
        }
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return out;
}

__attribute__((unused)) static const char *fx_rows(const char *sql) {
    return fx_rows_in(fx_dsn, sql);
}

/* The shape of a table of a SQLite source made of this SQL (a fresh file). With ids[] its columns get those ids. */
__attribute__((unused)) static struct shape *fx_source_shape(const char *sql, const char *name, const int64_t *ids) {
    struct err e = {0};
    sqlite3 *db = NULL;
    struct shape *s = NULL;
    unlink(fx_source);
    fx_sql_in(fx_source, sql);
    if (sq_open(fx_source, 0, &db, &e) < 0 || sq_table_shape(db, "main", name, &s, &e) < 0 || !s) {
        printf("Bail out! no shape '%s': %s\n", name, e.msg);
        exit(1);
    }
    sq_close(db);
    for (uint16_t i = 0; ids && i < s->ncols; i++)
        ((struct column *)(uintptr_t)s->cols)[i].id = ids[i];
    if (ids) shape_finish(s, &e);
    return s;
}

/* All rows of a table of the source file as values of its shape, in the arena. */
__attribute__((unused)) static struct value *fx_source_rows(const struct shape *s, size_t *nrows) {
    struct err e = {0};
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    char sql[256];
    struct value *v = arena_zalloc(fx_arena, 1000 * s->ncols * sizeof *v, &e);
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", s->name);
    if (sq_open(fx_source, 0, &db, &e) < 0 || sq_prepare(db, sql, &st, &e) < 0) abort();
    for (*nrows = 0; sq_step(st, &e) == 1; ++*nrows)
        for (uint16_t i = 0; i < s->ncols; i++) {
            if (s->cols[i].generated) v[*nrows * s->ncols + i] = (struct value){NULL, 0, VALUE_UNCHANGED};
            else if (sq_value(st, i, &s->cols[i], true, fx_arena, &v[*nrows * s->ncols + i], &e) < 0) abort();
        }
    sqlite3_finalize(st);
    sq_close(db);
    return v;
}

/* ---- shapes of another engine ---- */

struct fx_col {
    const char *name, *native;
    enum ltype type;
    bool not_null;
    const char *default_sql;
    int64_t id;
    enum equality eq;
    int32_t precision, scale;
};

/* pk: how many of the first columns make the primary key; -1: no key. Extra unique key on column `uniq` when it is not -1. */
__attribute__((unused)) static struct shape *fx_pg_shape(const char *name, const struct fx_col *c, uint16_t n, int pk, int uniq) {
    struct err e = {0};
    struct shape *s = shape_new(&e);
    struct column *cols = arena_zalloc(s->arena, n * sizeof *cols, &e);
    struct key *keys = arena_zalloc(s->arena, 2 * sizeof *keys, &e);
    uint16_t *ords = arena_zalloc(s->arena, (n + 1) * sizeof *ords, &e), *u = arena_zalloc(s->arena, sizeof *u, &e);
    enum equality *eq = arena_zalloc(s->arena, (n + 1) * sizeof *eq, &e), *ueq = arena_zalloc(s->arena, sizeof *ueq, &e);
    s->engine = "postgres";
    s->ns = "public";
    s->name = arena_printf(s->arena, &e, "%s", name);
    for (uint16_t i = 0; i < n; i++) {
        cols[i] = (struct column){.name = c[i].name,
                                  .native = c[i].native,
                                  .type = c[i].type,
                                  .not_null = c[i].not_null,
                                  .default_sql = c[i].default_sql,
                                  .id = c[i].id,
                                  .precision = c[i].precision ? c[i].precision : -1,
                                  .scale = c[i].precision ? c[i].scale : -1,
                                  .length = -1,
                                  .equality = c[i].eq};
        ords[i] = i;
        eq[i] = c[i].eq;
    }
    s->cols = cols;
    s->ncols = n;
    s->keys = keys;
    s->identity = s->primary = -1;
    if (pk > 0) {
        keys[s->nkeys++] = (struct key){.name = arena_printf(s->arena, &e, "%s_pkey", name),
                                        .kind = KEY_PRIMARY,
                                        .ncols = (uint16_t)pk,
                                        .cols = ords,
                                        .equality = eq,
                                        .constraint = true};
        s->identity = s->primary = 0;
    } else {
        s->full_image = true;
    }
    if (uniq >= 0) {
        u[0] = (uint16_t)uniq;
        ueq[0] = c[uniq].eq;
        keys[s->nkeys++] = (struct key){.name = arena_printf(s->arena, &e, "%s_%s_key", name, c[uniq].name),
                                        .kind = KEY_UNIQUE,
                                        .ncols = 1,
                                        .cols = u,
                                        .equality = ueq,
                                        .constraint = true};
    }
    if (shape_finish(s, &e) < 0) abort();
    return s;
}

/* "1", "x", NULL, "~u" (unchanged) … as TEXT values, in the arena. */
__attribute__((unused)) static struct value *fx_vals(size_t n, const char *const *texts) {
    struct value *v = arena_zalloc(fx_arena, n * sizeof *v, &(struct err){0});
    for (size_t i = 0; i < n; i++) {
        if (!texts[i]) v[i] = VALUE_OF_NULL;
        else if (strcmp(texts[i], "~u") == 0) v[i] = (struct value){NULL, 0, VALUE_UNCHANGED};
        else v[i] = (struct value){texts[i], (uint32_t)strlen(texts[i]), VALUE_TEXT};
    }
    return v;
}
#define VALS(...) fx_vals(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

__attribute__((unused)) static struct change *fx_change(enum change_op op, const struct shape *s, const struct value *before,
                                                        const struct value *after) {
    struct change *c = arena_zalloc(fx_arena, sizeof *c, &(struct err){0});
    c->op = op;
    c->shape = s;
    c->before = before;
    c->after = after;
    c->before_image = before ? IMAGE_FULL : IMAGE_NONE;
    return c;
}

/* A stream that may write: control tables and a state row. */
__attribute__((unused)) static struct target_state fx_state(struct target *t) {
    struct err e = {0};
    struct target_state st = {.epoch = 1, .format = 1};
    snprintf(st.stream_id, sizeof st.stream_id, "app");
    snprintf(st.phase, sizeof st.phase, "tailing");
    if (T->control_ensure(t, &e) < 0 || T->state_write(t, &st, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return st;
}

/* Create, load these rows, finish. */
__attribute__((unused)) static int fx_load(struct target *t, const struct target_state *st, const struct shape *s, const struct value *rows,
                                           size_t n, struct err *e) {
    struct target_table *tt = NULL;
    struct loader *l = NULL;
    int rc = -1;
    if (T->table_create(t, s, "main", s->name, e) < 0 || T->bind(t, s, "main", s->name, &tt, e) < 0 || T->loader_open(t, st, &l, e) < 0 ||
        T->loader_begin(l, tt, e) < 0 || T->loader_rows(l, rows, n, e) < 0 || T->loader_commit(l, s->table ? s->table : 1, 1, true, e) < 0)
        goto out;
    rc = 0;
    for (int stage = 0; rc == 0 && stage < 3; stage++)
        rc = T->table_finish(t, s, "main", s->name, stage, NULL, NULL, e);
out:
    T->loader_close(l);
    T->unbind(tt);
    return rc;
}

#endif
