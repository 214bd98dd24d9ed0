/* Capture: triggers that log keys into a source's own file.
 *
 * DESIGN
 * 1. A trigger of ours names key and unique columns only, writes only our log, and cannot raise: the log's columns are untyped and without
 * constraints. So any DDL of the application on other columns succeeds, and so does every write that would succeed without us.
 * 2. What was there is noted BEFORE a statement's effect, what is new AFTER it, so whatever other triggers do in between, and in which
 * order they fire, the first note of a key tells whether its row existed; a later NEW behind another note leaves that open.
 * 3. A row that REPLACE is about to displace on any unique key is noted by the BEFORE trigger, compared as the index compares, with the
 * default that SQLite puts in place of a NULL. (With recursive_triggers off nothing else would tell.) What may be noted too much does no
 * harm: the log says only which keys to look at.
 * 4. A table without a usable identity, or with a unique key that is partial, on an expression, a generated column or a foreign collation,
 * has triggers that name no column: they mark the table to be copied whole. A primary key that may be NULL is watched: the first NULL is
 * noted, and the table's shape is then looked at again.
 * 5. Ids only grow: the newest row is never deleted, so no id is given out twice. Every row has a random nonce; the one at a consumer's
 * position proves that the file is still the one it read.
 *
 * What no trigger can see, and so the application must not do to captured tables: write with triggers switched off on its connection
 * (SQLITE_DBCONFIG_ENABLE_TRIGGER), through sqlite3_blob_write, or with writable_schema. Two DDLs can fail for it until the next tick has
 * rearmed: dropping a column whose unique index it has just dropped, and writes to a table renamed under PRAGMA legacy_alter_table=ON
 * (which leaves the old name in triggers). */
#include "drivers/sqlite/capture.h"

#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/ddl.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

bool sq_copied_whole(const struct shape *s) {
    if (s->identity < 0) return true;
    for (uint16_t i = 0; i < s->nkeys; i++) {
        const struct key *k = &s->keys[i];
        if (k->kind != KEY_PRIMARY && k->kind != KEY_UNIQUE) continue;
        if (k->partial || k->expression) return true;
        for (uint16_t c = 0; c < k->ncols; c++)
            if (k->equality[c] == EQ_NONDET) return true;
    }
    return false;
}

/* ---- trigger texts --------------------------------------------------------------------------------------------------------- */

static const char *collation(enum equality q) {
    return q == EQ_NOCASE ? "NOCASE" : q == EQ_RTRIM ? "RTRIM" : "BINARY";
}

static int column(struct buf *b, const char *row, const struct shape *s, uint16_t c, struct err *e) {
    return buf_adds(b, row, e) < 0 || buf_addc(b, '.', e) < 0 || text_ident(b, s->cols[c].name, e) < 0 ? -1 : 0;
}

/* "INSERT INTO sluice_log(t, op, k1, k2) SELECT 7, 'u', OLD."a", OLD."b"" */
static int note(struct buf *b, const struct shape *s, int64_t n, char op, const char *row, struct err *e) {
    const struct key *k = &s->keys[s->identity];
    if (buf_adds(b, "  INSERT INTO sluice_log(t, op", e) < 0) return -1;
    for (int i = 1; i <= k->ncols; i++)
        if (buf_addf(b, e, ", k%d", i) < 0) return -1;
    if (buf_addf(b, e, ") SELECT %lld, '%c'", (long long)n, op) < 0) return -1;
    for (uint16_t i = 0; i < k->ncols; i++)
        if (buf_adds(b, ", ", e) < 0 || column(b, row, s, k->cols[i], e) < 0) return -1;
    return 0;
}

/* A NULL given for a NOT NULL column becomes its default under OR REPLACE, and only then is the row compared. */
static int new_value(struct buf *b, const struct shape *s, uint16_t c, bool *unknown, struct arena *a, struct err *e) {
    const struct column *col = &s->cols[c];
    const char *expr = NULL;
    if (!col->not_null || !col->default_sql) return column(b, "NEW", s, c, e);
    if (sq_ddl_constant(col->default_sql, a, &expr, e) < 0) return -1;
    if (!expr) {
        *unknown = true;
        return column(b, "NEW", s, c, e);
    }
    if (buf_adds(b, "coalesce(", e) < 0 || column(b, "NEW", s, c, e) < 0) return -1;
    return buf_adds(b, ", ", e) < 0 || buf_adds(b, expr, e) < 0 || buf_addc(b, ')', e) < 0 ? -1 : 0;
}

/* Rows that this statement's row would conflict with on key k. On updates only when the key's columns change. */
static int note_displaced(struct buf *b, const struct shape *s, int64_t n, const struct key *k, bool update, struct arena *a,
                          struct err *e) {
    bool unknown = false;
    if (note(b, s, n, SQ_OP_DISPLACED, "d", e) < 0 || buf_adds(b, " FROM ", e) < 0 || text_ident(b, s->name, e) < 0 ||
        buf_adds(b, " AS d WHERE ", e) < 0)
        return -1;
    for (uint16_t i = 0; update && i < k->ncols; i++) {
        if (buf_adds(b, i ? " OR " : "(", e) < 0 || column(b, "NEW", s, k->cols[i], e) < 0 ||
            buf_addf(b, e, " COLLATE %s IS NOT ", collation(k->equality[i])) < 0 || column(b, "OLD", s, k->cols[i], e) < 0)
            return -1;
    }
    if (update && buf_adds(b, ") AND ", e) < 0) return -1;
    for (uint16_t i = 0; i < k->ncols; i++) {
        if ((i && buf_adds(b, " AND ", e) < 0) || column(b, "d", s, k->cols[i], e) < 0 ||
            buf_addf(b, e, " COLLATE %s = ", collation(k->equality[i])) < 0 || new_value(b, s, k->cols[i], &unknown, a, e) < 0)
            return -1;
    }
    if (buf_adds(b, ";\n", e) < 0) return -1;
    for (uint16_t i = 0; unknown && i < k->ncols; i++) { /* the default cannot be foreseen: look at everything */
        const struct column *c = &s->cols[k->cols[i]];
        if (!c->not_null || !c->default_sql) continue;
        if (buf_addf(b, e, "  INSERT INTO sluice_log(t, op) SELECT %lld, '%c' WHERE ", (long long)n, SQ_OP_DIRTY) < 0 ||
            column(b, "NEW", s, k->cols[i], e) < 0 || buf_adds(b, " IS NULL;\n", e) < 0)
            return -1;
    }
    return 0;
}

static int note_all_displaced(struct buf *b, const struct shape *s, int64_t n, bool update, struct err *e) {
    struct arena *a = arena_new(1024, e);
    int rc = a ? 0 : -1;
    for (uint16_t i = 0; rc == 0 && i < s->nkeys; i++)
        if (s->keys[i].kind == KEY_PRIMARY || s->keys[i].kind == KEY_UNIQUE) rc = note_displaced(b, s, n, &s->keys[i], update, a, e);
    arena_free(a);
    return rc;
}

/* The key's bytes changed, not only in a way that its collation sees. */
static int key_moved(struct buf *b, const struct shape *s, struct err *e) {
    const struct key *k = &s->keys[s->identity];
    if (buf_adds(b, " WHEN ", e) < 0) return -1;
    for (uint16_t i = 0; i < k->ncols; i++) {
        if ((i && buf_adds(b, " OR ", e) < 0) || column(b, "NEW", s, k->cols[i], e) < 0 || buf_adds(b, " COLLATE BINARY IS NOT ", e) < 0 ||
            column(b, "OLD", s, k->cols[i], e) < 0 || buf_adds(b, " OR typeof(", e) < 0 || column(b, "NEW", s, k->cols[i], e) < 0 ||
            buf_adds(b, ") <> typeof(", e) < 0 || column(b, "OLD", s, k->cols[i], e) < 0 || buf_addc(b, ')', e) < 0)
            return -1;
    }
    return 0;
}

static int note_null_key(struct buf *b, const struct shape *s, int64_t n, struct err *e) {
    const struct key *k = &s->keys[s->identity];
    if (buf_addf(b, e, "  INSERT INTO sluice_log(t, op) SELECT %lld, '%c' WHERE ", (long long)n, SQ_OP_NULL_KEY) < 0) return -1;
    for (uint16_t i = 0; i < k->ncols; i++)
        if ((i && buf_adds(b, " OR ", e) < 0) || column(b, "NEW", s, k->cols[i], e) < 0 || buf_adds(b, " IS NULL", e) < 0) return -1;
    return buf_adds(b, ";\n", e);
}

static int body(struct buf *b, const struct shape *s, int64_t n, char when, char on, struct err *e) {
    if (sq_copied_whole(s)) return buf_addf(b, e, "  INSERT INTO sluice_log(t, op) VALUES(%lld, '%c');\n", (long long)n, SQ_OP_DIRTY);
    int rc = 0;
    if (when == 'b') {
        if (on == 'u' && (rc = note(b, s, n, SQ_OP_UPDATE, "OLD", e)) == 0) rc = buf_adds(b, ";\n", e);
        if (on == 'd' && (rc = note(b, s, n, SQ_OP_DELETE, "OLD", e)) == 0) rc = buf_adds(b, ";\n", e);
        if (rc == 0 && on != 'd') rc = note_all_displaced(b, s, n, on == 'u', e);
        return rc;
    }
    if ((rc = note(b, s, n, SQ_OP_NEW, "NEW", e)) == 0) rc = buf_adds(b, ";\n", e);
    return rc == 0 && sq_identity_may_be_null(s) ? note_null_key(b, s, n, e) : rc;
}

int sq_triggers_make(struct sq_triggers *t, const struct shape *s, int64_t n, struct err *e) {
    static const char *const keyed[] = {"bi", "ai", "bu", "au", "bd"}, *const whole[] = {"ai", "au", "ad"};
    bool dirty = sq_copied_whole(s);
    *t = (struct sq_triggers){.text = BUF_INIT(MiB(16)), .n = dirty ? 3 : 5};
    for (int i = 0; i < t->n; i++) {
        const char *kind = dirty ? whole[i] : keyed[i];
        struct sq_trigger *g = &t->v[i];
        snprintf(g->name, sizeof g->name, "sluice_%lld_%s", (long long)n, kind);
        g->at = t->text.n;
        if (buf_addf(&t->text, e, "CREATE TRIGGER \"%s\" %s %s ON ", g->name, *kind == 'b' ? "BEFORE" : "AFTER",
                     kind[1] == 'i'   ? "INSERT"
                     : kind[1] == 'u' ? "UPDATE"
                                      : "DELETE") < 0 ||
            text_ident(&t->text, s->name, e) < 0 || (!dirty && strcmp(kind, "au") == 0 && key_moved(&t->text, s, e) < 0) ||
            buf_adds(&t->text, " BEGIN\n", e) < 0 || body(&t->text, s, n, kind[0], kind[1], e) < 0 || buf_adds(&t->text, "END", e) < 0)
            goto fail;
        g->n = t->text.n - g->at;
        if (buf_addc(&t->text, ';', e) < 0) goto fail;
    }
    return buf_str(&t->text, e) ? 0 : -1;
fail:
    buf_free(&t->text);
    return -1;
}

int sq_triggers_create(sqlite3 *db, const struct sq_triggers *t, struct err *e) {
    return sq_exec(db, t->text.p, e); /* terminated by sq_triggers_make */
}

int sq_triggers_drop(sqlite3 *db, int64_t n, struct err *e) {
    static const char *const kinds[] = {"bi", "ai", "bu", "au", "bd", "ad"};
    char sql[96];
    for (size_t i = 0; i < MEM_ARRAY_LEN(kinds); i++) {
        snprintf(sql, sizeof sql, "DROP TRIGGER IF EXISTS main.\"sluice_%lld_%s\"", (long long)n, kinds[i]);
        if (sq_exec(db, sql, e) < 0) return -1;
    }
    return 0;
}

/* ---- our tables ------------------------------------------------------------------------------------------------------------ */

int sq_capture_is(sqlite3 *db, bool *there, struct err *e) {
    int64_t n;
    if (sq_int(db, embed_sql("sqlite/capture_there"), &n, e) < 0) return -1;
    *there = n == 3;
    return 0;
}

int sq_meta_set_int(sqlite3 *db, const char *key, int64_t v, struct err *e) {
    sqlite3_stmt *st = NULL;
    int rc = sq_prepare(db, embed_sql("sqlite/capture_meta_set"), &st, e);
    if (rc == 0) {
        sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, v);
        rc = sq_run(st, e);
    }
    sqlite3_finalize(st);
    return rc;
}

static int meta_get(sqlite3 *db, const char *key, sqlite3_stmt **st, struct err *e) {
    *st = NULL;
    if (sq_prepare(db, embed_sql("sqlite/capture_meta_get"), st, e) < 0) return -1;
    sqlite3_bind_text(*st, 1, key, -1, SQLITE_STATIC);
    return sq_step(*st, e);
}

int sq_meta_int(sqlite3 *db, const char *key, int64_t *v, struct err *e) {
    sqlite3_stmt *st;
    int got = meta_get(db, key, &st, e);
    *v = got > 0 ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

int sq_meta_identity(sqlite3 *db, char out[128], struct err *e) {
    sqlite3_stmt *st;
    int got = meta_get(db, "identity", &st, e);
    out[0] = 0;
    if (got > 0) snprintf(out, 128, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

int sq_capture_create(sqlite3 *db, const char *identity, struct err *e) {
    sqlite3_stmt *st = NULL;
    if (sq_exec(db, embed_sql("sqlite/capture_create"), e) < 0 || sq_meta_set_int(db, "format", 1, e) < 0 ||
        sq_prepare(db, embed_sql("sqlite/capture_meta_set"), &st, e) < 0)
        return -1;
    sqlite3_bind_text(st, 1, "identity", -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, identity, -1, SQLITE_STATIC);
    int rc = sq_run(st, e);
    sqlite3_finalize(st);
    return rc;
}

int sq_capture_drop(sqlite3 *db, struct err *e) {
    struct buf drops = BUF_INIT(MiB(16));
    sqlite3_stmt *st = NULL;
    int rc = -1, got;
    if (sq_prepare(db, embed_sql("sqlite/capture_triggers"), &st, e) < 0) goto out;
    while ((got = sq_step(st, e)) > 0)
        if (buf_addf(&drops, e, "DROP TRIGGER main.\"%s\";", (const char *)sqlite3_column_text(st, 0)) < 0) goto out;
    if (got < 0) goto out;
    sqlite3_reset(st);
    if (buf_adds(&drops,
                 "DROP TABLE IF EXISTS main.sluice_log; DROP TABLE IF EXISTS main.sluice_capture; DROP TABLE IF EXISTS main.sluice_schema; "
                 "DROP TABLE IF EXISTS main.sluice_meta;",
                 e) < 0 ||
        !buf_str(&drops, e))
        goto out;
    rc = sq_exec(db, drops.p, e);
out:
    sqlite3_finalize(st);
    buf_free(&drops);
    return rc;
}

int sq_capture_keys(sqlite3 *db, int need, struct err *e) {
    int64_t have;
    char sql[64];
    if (sq_int(db, embed_sql("sqlite/capture_key_columns"), &have, e) < 0) return -1;
    for (int i = (int)have + 1; i <= need; i++) {
        snprintf(sql, sizeof sql, "ALTER TABLE main.sluice_log ADD COLUMN k%d", i);
        if (sq_exec(db, sql, e) < 0) return -1;
    }
    return 0;
}

int sq_capture_put(sqlite3 *db, int64_t n, const struct shape *s, int64_t next_column, struct err *e) {
    struct buf json = BUF_INIT(MiB(16));
    sqlite3_stmt *st = NULL;
    int rc = -1;
    if (shape_to_json(s, &json, e) < 0 || sq_prepare(db, embed_sql("sqlite/capture_put"), &st, e) < 0) goto out;
    sqlite3_bind_int64(st, 1, n);
    sqlite3_bind_text(st, 2, s->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, json.p, (int)json.n, SQLITE_STATIC);
    sqlite3_bind_int64(st, 4, next_column);
    rc = sq_run(st, e);
out:
    sqlite3_finalize(st);
    buf_free(&json);
    return rc;
}

int sq_capture_note(sqlite3 *db, int64_t n, char op, struct err *e) {
    sqlite3_stmt *st = NULL;
    int rc = sq_prepare(db, embed_sql("sqlite/capture_note"), &st, e);
    if (rc == 0) {
        sqlite3_bind_int64(st, 1, n);
        sqlite3_bind_text(st, 2, &op, 1, SQLITE_TRANSIENT);
        rc = sq_run(st, e);
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- places in the log ----------------------------------------------------------------------------------------------------- */

static void read_nonce(sqlite3_stmt *st, int col, char out[17]) {
    out[0] = 0;
    const void *p = sqlite3_column_blob(st, col);
    if (p && sqlite3_column_bytes(st, col) == 8) text_hex(p, 8, out);
}

int sq_log_end(sqlite3 *db, struct sq_place *p, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got = sq_prepare(db, embed_sql("sqlite/log_end"), &st, e);
    *p = (struct sq_place){0};
    if (got == 0 && (got = sq_step(st, e)) == 0) got = err_set(e, CODE_SLOT_LOST, "the change log of the SQLite source is empty");
    if (got > 0) {
        p->id = sqlite3_column_int64(st, 0);
        read_nonce(st, 1, p->nonce);
    }
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

int sq_place_of(const struct pos *p, struct sq_place *out, struct err *e) {
    char digits[24];
    const char *dash = strchr(p->token, '-');
    size_t n = dash ? (size_t)(dash - p->token) : strlen(p->token);
    *out = (struct sq_place){0};
    if (strcmp(p->engine, "sqlite") != 0 || n >= sizeof digits)
        return err_set(e, CODE_SOURCE_CHANGED, "'%s' is no position of a SQLite source", p->token);
    memcpy(digits, p->token, n);
    digits[n] = 0;
    if (text_i64(digits, &out->id) < 0) return err_set(e, CODE_SOURCE_CHANGED, "'%s' is no position of a SQLite source", p->token);
    if (dash) snprintf(out->nonce, sizeof out->nonce, "%s", dash + 1);
    return 0;
}

int sq_pos_of(const struct sq_place *p, struct pos *out, struct err *e) {
    char token[64];
    snprintf(token, sizeof token, "%lld%s%s", (long long)p->id, p->nonce[0] ? "-" : "", p->nonce);
    return pos_set(out, "sqlite", token, e);
}

int sq_log_has(sqlite3 *db, const struct sq_place *p, bool *there, struct err *e) {
    sqlite3_stmt *st = NULL;
    char nonce[17] = "";
    int got = sq_prepare(db, embed_sql("sqlite/log_row"), &st, e);
    if (got == 0) {
        sqlite3_bind_int64(st, 1, p->id);
        got = sq_step(st, e);
    }
    *there = got > 0;
    if (got > 0) read_nonce(st, 0, nonce);
    sqlite3_finalize(st);
    if (got > 0 && p->nonce[0] && strcmp(nonce, p->nonce) != 0) {
        err_set(e, CODE_SOURCE_CHANGED,
                "change %lld in the source's log is not the one that was read: the file was restored from an older copy, or replaced",
                (long long)p->id);
        return err_hint(e, "begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
    }
    return got < 0 ? -1 : 0;
}
