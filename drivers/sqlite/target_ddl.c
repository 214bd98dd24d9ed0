/* Tables and indexes on the target.
 *
 * DESIGN
 * 1. A SQLite source's table is made by its own CREATE TABLE text, so WITHOUT ROWID, STRICT, checks, collations and foreign keys are the
 *    source's. That text is one statement and begins with CREATE TABLE, whoever wrote the chain.
 * 2. Of another engine's table come columns, NOT NULL, literal defaults, primary key and foreign keys here, unique keys and indexes after
 *    the rows. What cannot be said in SQLite without changing its meaning is left out and named in a warning; nothing left out changes
 *    what is stored.
 * 3. Each function commits as a whole. An index that is there with the same definition stays; another one under its name is refused. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define DDL_MAX MiB(4)

/* ---- texts ---- */

/* The end of the name at p: "a", [a], `a` or a bare word. */
static const char *name_end(const char *p) {
    char q = *p == '[' ? ']' : *p;
    if (*p != '"' && *p != '`' && *p != '[' && *p != '\'') {
        while (isalnum((unsigned char)*p) || *p == '_' || *p == '$' || (unsigned char)*p >= 128)
            p++;
        return p;
    }
    for (p++; *p; p++)
        if (*p == q && (q == ']' || *++p != q)) return q == ']' ? p + 1 : p;
    return p;
}

static const char *word(const char *p, const char *w) {
    size_t n = strlen(w);
    while (isspace((unsigned char)*p))
        p++;
    if (strncasecmp(p, w, n) != 0 || isalnum((unsigned char)p[n]) || p[n] == '_') return NULL;
    for (p += n; isspace((unsigned char)*p);)
        p++;
    return p;
}

static int foreign_text(const char *sql, struct err *e) {
    err_set(e, CODE_MANIFEST_INVALID, "not a definition as SQLite keeps it: '%.100s'", sql);
    return err_hint(e, "verify the chain with `sluice backup verify`");
}

/* A kept CREATE TABLE text under another name. */
static int own_table(const struct shape *src, const char *name, struct buf *b, struct err *e) {
    const char *p = src->create_sql ? word(src->create_sql, "CREATE") : NULL;
    if (!p || !(p = word(p, "TABLE"))) return foreign_text(src->create_sql ? src->create_sql : "", e);
    if (strcmp(name, src->name) != 0)
        for (uint16_t i = 0; i < src->nkeys; i++)
            if (src->keys[i].kind == KEY_FOREIGN && sqt_name_same(src->keys[i].ref_table, src->name)) {
                err_set(e, CODE_CONFIG, "table '%s' refers to itself and cannot be made under the other name '%s'", src->name, name);
                return err_hint(e, "restore it under its own name");
            }
    if (buf_adds(b, "CREATE TABLE main.", e) < 0) return -1;
    if (strcmp(name, src->name) == 0) return buf_adds(b, p, e); /* to the letter */
    return text_ident(b, name, e) < 0 ? -1 : buf_adds(b, name_end(p), e);
}

/* A kept CREATE INDEX text, on a table that may have another name. */
static int own_index(const struct shape *src, const struct key *k, const char *name, struct buf *b, struct err *e) {
    const char *p = word(k->def, "CREATE"), *u = p ? word(p, "UNIQUE") : NULL, *on;
    if (u) p = u;
    if (!p || !(p = word(p, "INDEX"))) return foreign_text(k->def, e);
    on = word(name_end(p), "ON");
    if (!on) return foreign_text(k->def, e);
    if (buf_adds(b, u ? "CREATE UNIQUE INDEX main." : "CREATE INDEX main.", e) < 0) return -1;
    if (strcmp(name, src->name) == 0) return buf_adds(b, p, e);
    if (buf_add(b, p, (size_t)(name_end(p) - p), e) < 0 || buf_adds(b, " ON ", e) < 0 || text_ident(b, name, e) < 0) return -1;
    return buf_adds(b, name_end(on), e);
}

static void left_out(bool warn, const struct shape *src, const char *what, const char *which) {
    char label[160];
    if (warn)
        log_warn("left out on the SQLite target", KV_STR("table", shape_label(src, label)), KV_STR("what", what), KV_STR("name", which));
}

static int key_cols(const struct shape *src, const struct key *k, bool collate, struct buf *b, struct err *e) {
    for (uint16_t i = 0; i < k->ncols; i++) {
        enum equality q = sqt_key_equality(src, k, i);
        if (buf_adds(b, i ? ", " : "(", e) < 0 || text_ident(b, src->cols[k->cols[i]].name, e) < 0) return -1;
        if (collate && (q == EQ_NOCASE || q == EQ_RTRIM) && buf_addf(b, e, " COLLATE %s", sqt_collation(q)) < 0) return -1;
    }
    return buf_addc(b, ')', e);
}

int sqt_column_sql(const struct shape *src, const struct column *c, bool warn, struct buf *b, struct err *e) {
    char type[48], label[160];
    bool plain = false;
    if (sqt_declared(c, type) < 0)
        return err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s', column '%s': type '%s' cannot be carried to SQLite", shape_label(src, label),
                       c->name, c->native);
    if (text_ident(b, c->name, e) < 0 || buf_addf(b, e, " %s", type) < 0 || (c->not_null && buf_adds(b, " NOT NULL", e) < 0)) return -1;
    if (c->type == LT_TEXT && (c->equality == EQ_NOCASE || c->equality == EQ_RTRIM) &&
        buf_addf(b, e, " COLLATE %s", sqt_collation(c->equality)) < 0)
        return -1;
    if (!c->default_sql) return 0;
    size_t n = b->n;
    if (buf_adds(b, " DEFAULT ", e) < 0 || sqt_default(c, b, &plain, e) < 0) return -1;
    if (plain) return 0;
    b->n = n;
    bool rowid = src->primary >= 0 && src->keys[src->primary].ncols == 1 && &src->cols[src->keys[src->primary].cols[0]] == c &&
                 sqt_conv(src, c) == CONV_INT;
    left_out(warn && !rowid, src, "default", c->name); /* INTEGER PRIMARY KEY counts on by itself */
    return 0;
}

static int foreign_key(const struct shape *src, const struct key *k, bool warn, struct buf *b, struct err *e) {
    if (strcmp(k->ref_ns, src->ns) != 0) {
        left_out(warn, src, "foreign key into another namespace", k->name);
        return 0;
    }
    if (buf_adds(b, ",\n  CONSTRAINT ", e) < 0 || text_ident(b, k->name, e) < 0 || buf_adds(b, " FOREIGN KEY", e) < 0 ||
        key_cols(src, k, false, b, e) < 0 || buf_adds(b, " REFERENCES ", e) < 0 || text_ident(b, k->ref_table, e) < 0)
        return -1;
    for (uint16_t i = 0; i < k->nref; i++)
        if (buf_adds(b, i ? ", " : "(", e) < 0 || text_ident(b, k->ref_cols[i], e) < 0) return -1;
    if ((k->nref && buf_addc(b, ')', e) < 0) || (k->on_delete && buf_addf(b, e, " ON DELETE %s", k->on_delete) < 0) ||
        (k->on_update && buf_addf(b, e, " ON UPDATE %s", k->on_update) < 0))
        return -1;
    return k->deferrable ? buf_addf(b, e, " DEFERRABLE%s", k->initially_deferred ? " INITIALLY DEFERRED" : "") : 0;
}

int sqt_create_sql(const struct shape *src, const char *name, bool warn, struct buf *b, struct err *e) {
    if (sqt_is_own(src)) return own_table(src, name, b, e);
    if (buf_adds(b, "CREATE TABLE main.", e) < 0 || text_ident(b, name, e) < 0) return -1;
    for (uint16_t i = 0; i < src->ncols; i++)
        if (buf_adds(b, i ? ",\n  " : "(\n  ", e) < 0 || sqt_column_sql(src, &src->cols[i], warn, b, e) < 0) return -1;
    if (src->primary >= 0 && (buf_adds(b, ",\n  PRIMARY KEY", e) < 0 || key_cols(src, &src->keys[src->primary], true, b, e) < 0)) return -1;
    for (uint16_t i = 0; i < src->nkeys; i++) {
        const struct key *k = &src->keys[i];
        if (k->kind == KEY_FOREIGN && foreign_key(src, k, warn, b, e) < 0) return -1;
        if (k->kind == KEY_CHECK) left_out(warn, src, "check constraint", k->name);
        if (k->kind == KEY_EXCLUDE) left_out(warn, src, "exclusion constraint", k->name);
    }
    return buf_adds(b, "\n)", e);
}

/* ---- looking ---- */

int sqt_table_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e) {
    *s = NULL;
    if (sqt_check_ns(ns, e) < 0) return -1;
    if (sq_begin(t->db, false, e) < 0) return -1;
    int rc = sq_table_shape(t->db, SQ_NS, name, s, e);
    sq_rollback(t->db);
    return rc;
}

int sqt_table_has_rows(struct target *t, const char *ns, const char *name, bool *any, struct err *e) {
    struct buf b = BUF_INIT(KiB(8));
    const char *sql;
    struct shape *there = NULL;
    int64_t n = 0;
    int rc = -1;
    *any = false;
    if (sqt_table_shape(t, ns, name, &there, e) < 0) return -1;
    if (!there) return 0;
    shape_free(there);
    if (buf_adds(&b, "SELECT EXISTS(SELECT 1 FROM main.", e) == 0 && text_ident(&b, name, e) == 0 && buf_addc(&b, ')', e) == 0 &&
        (sql = buf_str(&b, e)))
        rc = sq_int(t->db, sql, &n, e);
    *any = n != 0;
    buf_free(&b);
    return rc;
}

/* What stands in the schema under this name. type is empty when nothing does. */
static int object_there(sqlite3 *db, const char *name, char type[16], struct buf *table, struct buf *sql, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    type[0] = '\0';
    buf_reset(table);
    buf_reset(sql);
    if (sqt_named(db, "sqlite/target_object_kind", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":name", name, e) < 0 ? -1 : sqt_step(s, &row, e);
    if (rc == 0 && row) {
        const char *q = (const char *)sqlite3_column_text(s, 2);
        snprintf(type, 16, "%s", (const char *)sqlite3_column_text(s, 0));
        rc = buf_adds(table, (const char *)sqlite3_column_text(s, 1), e) < 0 || buf_adds(sql, q ? q : "", e) < 0 ? -1 : 0;
    }
    sqlite3_finalize(s);
    return rc;
}

/* ---- making ---- */

int sqt_objects_create(struct target *t, const struct catalog *c, const char *(*map_ns)(void *arg, const char *ns), void *arg,
                       struct err *e) {
    (void)t;
    (void)c;
    (void)map_ns;
    (void)arg;
    (void)e;
    return 0; /* SQLite has neither types nor sequences beside tables: an AUTOINCREMENT counter comes with its table */
}

static int run_one(sqlite3 *db, struct buf *b, struct err *e) {
    sqlite3_stmt *s = NULL;
    const char *sql = buf_str(b, e);
    if (!sql || sqt_prepare(db, sql, &s, e) < 0) return -1;
    int rc = sqt_done(s, e);
    sqlite3_finalize(s);
    return rc;
}

int sqt_create_in(sqlite3 *db, const struct shape *src, const char *name, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX), table = BUF_INIT(KiB(64)), sql = BUF_INIT(DDL_MAX);
    struct shape *made = NULL;
    char type[16];
    int rc = -1;
    if (object_there(db, name, type, &table, &sql, e) < 0) goto out;
    if (type[0]) {
        err_set(e, CODE_TARGET_NOT_EMPTY, "the target has a %s '%s' already", type, name);
        err_hint(e, "drop it, choose another target, or use --reset-target-data");
        goto out;
    }
    if (sqt_create_sql(src, name, true, &b, e) < 0 || run_one(db, &b, e) < 0 || sq_table_shape(db, SQ_NS, name, &made, e) < 0) goto out;
    if (!made) {
        foreign_text(src->create_sql ? src->create_sql : name, e);
        goto out;
    }
    rc = 0;
out:
    shape_free(made);
    buf_free(&b);
    buf_free(&table);
    buf_free(&sql);
    return rc;
}

int sqt_table_create(struct target *t, const struct shape *src, const char *ns, const char *name, struct err *e) {
    char label[160];
    if (sqt_check_ns(ns, e) < 0 || sq_begin(t->db, true, e) < 0) return -1;
    if (sqt_create_in(t->db, src, name, e) < 0 || FAULT("sqlite.create_before_commit", e) < 0) {
        sq_rollback(t->db);
        return err_wrap(e, "cannot make table '%s'", shape_label(src, label));
    }
    return sq_commit(t->db, e);
}

/* An index of another engine's table: on plain columns, or not at all. */
static int other_index(const struct shape *src, const struct key *k, const char *index, const char *name, struct buf *b, struct err *e) {
    if (buf_adds(b, k->kind == KEY_INDEX ? "CREATE INDEX main." : "CREATE UNIQUE INDEX main.", e) < 0 || text_ident(b, index, e) < 0 ||
        buf_adds(b, " ON ", e) < 0 || text_ident(b, name, e) < 0)
        return -1;
    return key_cols(src, k, true, b, e);
}

/* The next token of *p: its bytes without identifier quotes; `text` when it is a literal in single quotes. */
static bool token(const char **p, const char **at, size_t *n, char *quote) {
    const char *s = *p;
    for (;;) {
        while (isspace((unsigned char)*s))
            s++;
        if (s[0] == '-' && s[1] == '-') s += strcspn(s, "\n");
        else if (s[0] == '/' && s[1] == '*') s = strstr(s + 2, "*/") ? strstr(s + 2, "*/") + 2 : s + strlen(s);
        else break;
    }
    *at = s;
    *quote = 0;
    if (!*s) return false;
    if (strchr("\"`['", *s)) {
        *quote = *s;
        *p = name_end(s);
        *at = s + 1;
        *n = (size_t)(*p - s) - 2;
        return *p - s >= 2;
    }
    const char *end = name_end(s);
    *p = end > s ? end : s + 1;
    *n = (size_t)(*p - s);
    return true;
}

bool sqt_same_text(const char *a, const char *b) {
    for (;;) {
        const char *x, *y;
        size_t n, m;
        char q, r;
        bool more = token(&a, &x, &n, &q), also = token(&b, &y, &m, &r);
        if (!more || !also) return more == also;
        if (n != m || (q == '\'') != (r == '\'')) return false;
        if (q && q == r ? memcmp(x, y, n) != 0 : strncasecmp(x, y, n) != 0) return false;
    }
}

/* A kept text as it reads without the namespace that ours carries. */
static bool same_index(const char *kept, const char *ours) {
    struct buf b = BUF_INIT(DDL_MAX);
    const char *dot = strstr(ours, " main."), *text;
    struct err ignored = {0};
    bool same = false;
    if (dot && buf_add(&b, ours, (size_t)(dot - ours) + 1, &ignored) == 0 && buf_adds(&b, dot + 6, &ignored) == 0 &&
        (text = buf_str(&b, &ignored)))
        same = sqt_same_text(kept, text);
    buf_free(&b);
    return same;
}

static int make_index(sqlite3 *db, const struct shape *src, const struct key *k, const char *name, struct err *e) {
    struct buf b = BUF_INIT(DDL_MAX), table = BUF_INIT(KiB(64)), sql = BUF_INIT(DDL_MAX), other = BUF_INIT(KiB(64));
    char type[16];
    const char *index = k->name, *kept, *ours;
    int rc = -1;
    if (object_there(db, index, type, &table, &sql, e) < 0) goto out;
    if (type[0] && !sqt_is_own(src) && (strcmp(type, "index") != 0 || !buf_str(&table, e) || !sqt_name_same(table.p, name))) {
        /* another table of another namespace had the name first: index names are one space here */
        if (buf_addf(&other, e, "%s_%s", name, k->name) < 0 || !(index = buf_str(&other, e)) ||
            object_there(db, index, type, &table, &sql, e) < 0)
            goto out;
    }
    if ((sqt_is_own(src) ? own_index(src, k, name, &b, e) : other_index(src, k, index, name, &b, e)) < 0) goto out;
    if (type[0]) {
        if (!(kept = buf_str(&sql, e)) || !(ours = buf_str(&b, e))) goto out;
        if (strcmp(type, "index") == 0 && same_index(kept, ours)) {
            rc = 0;
            goto out;
        }
        err_set(e, CODE_TARGET_NOT_EMPTY, "the target has another %s under the name '%s' of an index of table '%s'", type, index, name);
        err_hint(e, "drop or rename it, then run the same command again");
        goto out;
    }
    rc = run_one(db, &b, e);
    if (rc < 0) err_wrap(e, "index '%s' of table '%s'", index, name);
out:
    buf_free(&b);
    buf_free(&table);
    buf_free(&sql);
    buf_free(&other);
    return rc;
}

int sqt_indexes_in(sqlite3 *db, const struct shape *src, const char *name, bool unique, bool plain, struct err *e) {
    for (uint16_t i = 0; i < src->nkeys; i++) {
        const struct key *k = &src->keys[i];
        if (k->kind == KEY_INDEX ? !plain : (k->kind != KEY_UNIQUE || !unique)) continue;
        if (sqt_is_own(src) && k->constraint) continue; /* stands in CREATE TABLE */
        if (!sqt_is_own(src) && (k->partial || k->expression || k->ncols == 0)) {
            left_out(true, src, "partial or expression index", k->name);
            continue;
        }
        if (make_index(db, src, k, name, e) < 0) return -1;
    }
    return 0;
}

int sqt_table_finish(struct target *t, const struct shape *src, const char *ns, const char *name, int stage,
                     const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e) {
    (void)map_ns;
    (void)arg;
    if (sqt_check_ns(ns, e) < 0) return -1;
    if (stage > 1) return 0; /* foreign keys stand in CREATE TABLE */
    if (sq_begin(t->db, true, e) < 0) return -1;
    if (sqt_indexes_in(t->db, src, name, stage == 0, stage == 1, e) < 0 || FAULT("sqlite.finish_before_commit", e) < 0) {
        sq_rollback(t->db);
        return -1;
    }
    return sq_commit(t->db, e);
}

int sqt_table_drop(struct target *t, const char *ns, const char *name, struct err *e) {
    struct buf b = BUF_INIT(KiB(8));
    int rc = -1;
    if (sqt_check_ns(ns, e) < 0) return -1;
    if (buf_adds(&b, "DROP TABLE IF EXISTS main.", e) == 0 && text_ident(&b, name, e) == 0) rc = run_one(t->db, &b, e);
    buf_free(&b);
    return rc < 0 ? err_wrap(e, "cannot drop table '%s'", name) : FAULT("sqlite.after_drop", e);
}

/* ---- AUTOINCREMENT counters ---- */

static int sequence_run(sqlite3 *db, const char *block, const char *name, const int64_t *value, int64_t *out, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    if (sqt_named(db, block, &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":name", name, e) < 0 || (value && sqt_bind_i64(s, ":value", *value, e) < 0) ? -1 : sqt_step(s, &row, e);
    if (out) *out = row ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return rc;
}

int sqt_sequence_forward(sqlite3 *db, const char *name, int64_t value, struct err *e) {
    int64_t there = 0;
    if (sqt_count(db, "sqlite/target_sequence_there", &there, e) < 0) return -1;
    if (!there) return 0;
    if (sequence_run(db, "sqlite/target_sequence_table", name, NULL, &there, e) < 0) return -1;
    if (!there) return 0;
    if (sequence_run(db, "sqlite/target_sequence_forward", name, &value, NULL, e) < 0) return -1;
    return sqlite3_changes(db) ? 0 : sequence_run(db, "sqlite/target_sequence_insert", name, &value, NULL, e);
}

int sqt_sequence_set(struct target *t, const struct object *o, const char *ns, struct err *e) {
    (void)ns;
    if (sq_begin(t->db, true, e) < 0) return -1;
    if (sqt_sequence_forward(t->db, o->name, o->value, e) < 0) {
        sq_rollback(t->db);
        return -1;
    }
    return sq_commit(t->db, e);
}
