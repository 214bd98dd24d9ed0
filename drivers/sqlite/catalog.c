/* Reading shapes from a SQLite schema.
 *
 * DESIGN
 * 1. Everything comes from PRAGMAs; CREATE TABLE texts are read only for the expressions of generated columns.
 * 2. A row is identified by the PRIMARY KEY when none of its columns can be NULL, else by the first full unique index of NOT NULL columns,
 * else by a PRIMARY KEY that holds no NULL now, else by nothing: SQLite lets a primary key that is no rowid alias hold NULLs, several of
 * them, and rowids are renumbered by VACUUM. (Capture watches for the first NULL and then asks again.)
 * 3. Rowid aliases have no index; their key is made up here. Names of keys that SQLite does not keep follow the usual form,
 * table_column_key.
 * 4. Equality: text under the collation of the index; a column without numeric or text affinity holds 1 and 1.0 side by side, equal to
 * SQLite. */
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/ddl.h"
#include "drivers/sqlite/sqlite.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

struct reading {
    sqlite3 *db;
    struct shape *s;
    struct column *cols;
    struct key *keys;
    uint16_t nkeys, cap_keys;
    sqlite3_stmt *st;
    uint16_t *pk; /* ordinals of the primary key's columns in order */
    uint16_t npk;
};

static const char *text_of(struct reading *r, int i, struct err *e) {
    const char *p = (const char *)sqlite3_column_text(r->st, i);
    return arena_copy(r->s->arena, p ? p : "", p ? strlen(p) : 0, e);
}

static int ask(struct reading *r, const char *block, const char *name, struct err *e) {
    if (sq_prepare(r->db, embed_sql(block), &r->st, e) < 0) return -1;
    sqlite3_bind_text(r->st, 1, name, -1, SQLITE_TRANSIENT);
    return 0;
}

static enum equality equality_of(const char *coll) {
    if (!coll || strcasecmp(coll, "BINARY") == 0) return EQ_BYTES;
    if (strcasecmp(coll, "NOCASE") == 0) return EQ_NOCASE;
    if (strcasecmp(coll, "RTRIM") == 0) return EQ_RTRIM;
    return EQ_NONDET;
}

static enum equality column_equality(const struct shape *s, const struct column *c, const char *coll) {
    enum sq_affinity aff = sq_affinity(c->native, s->strict);
    enum equality q = equality_of(coll);
    if (aff == SQ_AFF_TEXT || q == EQ_NONDET) return q;
    if (aff == SQ_AFF_BLOB) return q == EQ_BYTES ? EQ_NUMERIC : q;
    return s->strict && q != EQ_NONDET ? EQ_BYTES : q; /* a numeric column may hold text, unless the table is strict */
}

static int read_columns(struct reading *r, struct err *e) {
    struct shape *s = r->s;
    int n = 0, got;
    if (ask(r, "sqlite/source_columns", s->name, e) < 0) return -1;
    while ((got = sq_step(r->st, e)) > 0)
        n++;
    if (got < 0) return -1;
    if (n > UINT16_MAX) return err_set(e, CODE_LIMIT, "table '%s' has %d columns", s->name, n);
    sqlite3_reset(r->st);
    r->cols = arena_zalloc(s->arena, (size_t)(n + 1) * sizeof *r->cols, e);
    r->pk = arena_zalloc(s->arena, (size_t)(n + 1) * sizeof *r->pk, e);
    if (!r->cols || !r->pk) return -1;
    s->cols = r->cols;
    while ((got = sq_step(r->st, e)) > 0) {
        int hidden = sqlite3_column_int(r->st, 5), pk = sqlite3_column_int(r->st, 4);
        if (hidden == 1) continue;
        struct column *c = &r->cols[s->ncols];
        if (!(c->name = text_of(r, 0, e)) || !(c->native = text_of(r, 1, e))) return -1;
        sq_logical_type(c->native, s->strict, c);
        c->not_null = sqlite3_column_int(r->st, 2) != 0;
        if (sqlite3_column_type(r->st, 3) != SQLITE_NULL && !(c->default_sql = text_of(r, 3, e))) return -1;
        if (hidden == 2 || hidden == 3) {
            c->generated_stored = hidden == 3;
            if (!(c->generated = sq_ddl_generated(s->create_sql, c->name, s->arena, e))) return -1;
        }
        const char *coll = NULL;
        int autoinc = 0;
        int rc = sqlite3_table_column_metadata(r->db, SQ_NS, s->name, c->name, NULL, &coll, NULL, NULL, &autoinc);
        if (rc != SQLITE_OK) return sq_err(r->db, rc, e, "cannot read column '%s' of '%s'", c->name, s->name);
        if (coll && strcasecmp(coll, "BINARY") != 0 && !(c->collation = arena_copy(s->arena, coll, strlen(coll), e))) return -1;
        c->equality = column_equality(s, c, coll);
        if (autoinc) c->ident = IDENT_AUTO;
        if (pk > 0 && pk <= n) {
            r->pk[pk - 1] = s->ncols;
            r->npk++;
            if (s->without_rowid) c->not_null = true;
        }
        c->id = ++s->ncols;
    }
    return got;
}

static struct key *add_key(struct reading *r, struct err *e) {
    if (r->nkeys == r->cap_keys) {
        uint16_t cap = (uint16_t)(r->cap_keys ? r->cap_keys * 2 : 8);
        struct key *more = arena_zalloc(r->s->arena, cap * sizeof *more, e);
        if (!more) return NULL;
        if (r->nkeys) memcpy(more, r->keys, r->nkeys * sizeof *more);
        r->keys = more;
        r->cap_keys = cap;
    }
    return &r->keys[r->nkeys++];
}

/* "PRIMARY KEY (a, b)", "UNIQUE (a)"; for a foreign key the columns only. */
static const char *constraint_def(struct reading *r, const char *words, const struct key *k, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    const char *out = NULL;
    int rc = buf_adds(&b, words, e);
    for (uint16_t i = 0; rc == 0 && i < k->ncols; i++) {
        if ((rc = buf_adds(&b, i ? ", " : " (", e)) == 0) rc = text_ident(&b, r->s->cols[k->cols[i]].name, e);
    }
    if (rc == 0 && buf_adds(&b, ")", e) == 0) out = arena_copy(r->s->arena, b.p, b.n, e);
    buf_free(&b);
    return out;
}

/* table_a_b_key; table_pkey for the primary key. */
static const char *constraint_name(struct reading *r, const struct key *k, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    const char *out = NULL;
    int rc = buf_adds(&b, r->s->name, e);
    if (rc == 0 && k->kind == KEY_PRIMARY) rc = buf_adds(&b, "_pkey", e);
    for (uint16_t i = 0; rc == 0 && k->kind != KEY_PRIMARY && i < k->ncols; i++)
        if ((rc = buf_addc(&b, '_', e)) == 0) rc = buf_adds(&b, r->s->cols[k->cols[i]].name, e);
    if (rc == 0 && k->kind != KEY_PRIMARY) rc = buf_adds(&b, "_key", e);
    if (rc == 0) out = arena_copy(r->s->arena, b.p, b.n, e);
    buf_free(&b);
    return out;
}

/* The columns of one index. An expression, or the rowid itself, is no column. */
static int index_columns(struct reading *r, struct key *k, const char *index, struct err *e) {
    struct shape *s = r->s;
    sqlite3_stmt *outer = r->st;
    uint16_t *cols = arena_zalloc(s->arena, (size_t)(s->ncols + 1) * sizeof *cols, e);
    enum equality *eq = arena_zalloc(s->arena, (size_t)(s->ncols + 1) * sizeof *eq, e);
    int got = -1;
    r->st = NULL;
    if (!cols || !eq || ask(r, "sqlite/source_index_columns", index, e) < 0) goto out;
    while ((got = sq_step(r->st, e)) > 0) {
        int cid = sqlite3_column_int(r->st, 0);
        if (cid < 0 || cid >= s->ncols) {
            k->expression = true;
            continue;
        }
        if (k->ncols > s->ncols - 1) {
            k->expression = true;
            continue;
        } /* a column named twice under two collations */
        eq[k->ncols] = column_equality(s, &s->cols[cid], (const char *)sqlite3_column_text(r->st, 1));
        cols[k->ncols++] = (uint16_t)cid;
    }
    k->cols = cols;
    k->equality = eq;
out:
    sqlite3_finalize(r->st);
    r->st = outer;
    return got < 0 ? -1 : 0;
}

static int rowid_alias_key(struct reading *r, struct err *e) {
    struct key *k = add_key(r, e);
    enum equality *eq = arena_zalloc(r->s->arena, sizeof *eq, e);
    if (!k || !eq) return -1;
    r->cols[r->pk[0]].not_null = true;
    r->cols[r->pk[0]].equality = EQ_BYTES;
    *k = (struct key){.kind = KEY_PRIMARY, .ncols = 1, .cols = r->pk, .equality = eq, .constraint = true};
    return (k->name = constraint_name(r, k, e)) && (k->def = constraint_def(r, "PRIMARY KEY", k, e)) ? 0 : -1;
}

static int read_indexes(struct reading *r, struct err *e) {
    struct shape *s = r->s;
    int got, first = 1;
    if (ask(r, "sqlite/source_indexes", s->name, e) < 0) return -1;
    for (;; first = 0) {
        got = sq_step(r->st, e);
        if (got < 0) return -1;
        const char *origin = got ? (const char *)sqlite3_column_text(r->st, 2) : "";
        if (first && r->npk > 0 && strcmp(origin, "pk") != 0 && rowid_alias_key(r, e) < 0) return -1;
        if (!got) return 0;
        struct key *k = add_key(r, e);
        if (!k) return -1;
        bool unique = sqlite3_column_int(r->st, 1) != 0;
        k->kind = *origin == 'p' ? KEY_PRIMARY : unique ? KEY_UNIQUE : KEY_INDEX;
        k->constraint = *origin != 'c';
        k->partial = sqlite3_column_int(r->st, 3) != 0;
        const char *name = text_of(r, 0, e);
        if (!name || index_columns(r, k, name, e) < 0) return -1;
        for (uint16_t i = 0; i < k->ncols; i++)
            k->expression = k->expression || s->cols[k->cols[i]].generated != NULL;
        k->name = k->constraint ? constraint_name(r, k, e) : name;
        k->def = k->constraint ? constraint_def(r, *origin == 'p' ? "PRIMARY KEY" : "UNIQUE", k, e) : text_of(r, 4, e);
        if (!k->name || !k->def) return -1;
    }
}

static int read_foreign_keys(struct reading *r, struct err *e) {
    struct shape *s = r->s;
    struct key *k = NULL;
    int64_t id = -1;
    int got, n = 0;
    if (ask(r, "sqlite/source_foreign_keys", s->name, e) < 0) return -1;
    while ((got = sq_step(r->st, e)) > 0) {
        if (!k || sqlite3_column_int64(r->st, 0) != id) {
            id = sqlite3_column_int64(r->st, 0);
            if (!(k = add_key(r, e))) return -1;
            k->kind = KEY_FOREIGN;
            k->constraint = true;
            k->ref_ns = SQ_NS;
            uint16_t *cols = arena_zalloc(s->arena, (size_t)(s->ncols + 1) * sizeof *cols, e);
            const char **refs = arena_zalloc(s->arena, (size_t)(s->ncols + 1) * sizeof *refs, e);
            k->cols = cols;
            k->ref_cols = refs;
            if (!cols || !refs || !(k->ref_table = text_of(r, 1, e)) || !(k->on_update = text_of(r, 4, e)) ||
                !(k->on_delete = text_of(r, 5, e)) || !(k->name = arena_printf(s->arena, e, "%s_fkey%d", s->name, ++n)))
                return -1;
        }
        const char *from = (const char *)sqlite3_column_text(r->st, 2);
        int c = -1;
        for (uint16_t i = 0; from && c < 0 && i < s->ncols; i++)
            if (strcasecmp(s->cols[i].name, from) == 0) c = i;
        if (c < 0 || k->ncols >= s->ncols) continue;
        ((uint16_t *)(uintptr_t)k->cols)[k->ncols++] = (uint16_t)c;
        if (sqlite3_column_type(r->st, 3) == SQLITE_NULL) continue; /* the parent is absent: SQLite allows that */
        const char *ref = text_of(r, 3, e);
        if (!ref) return -1;
        ((const char **)(uintptr_t)k->ref_cols)[k->nref++] = ref;
    }
    return got;
}

static bool can_identify(const struct shape *s, const struct key *k) {
    if ((k->kind != KEY_PRIMARY && k->kind != KEY_UNIQUE) || k->partial || k->expression || k->ncols == 0) return false;
    for (uint16_t i = 0; i < k->ncols; i++)
        if (!s->cols[k->cols[i]].not_null) return false;
    return true;
}

bool sq_identity_may_be_null(const struct shape *s) {
    return s->identity >= 0 && !can_identify(s, &s->keys[s->identity]);
}

/* Does a column of the key hold NULL in some row? Asked column by column: the first one is answered by the key's index. */
static int holds_null(struct reading *r, const struct key *k, bool *yes, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    int64_t found = 0;
    int rc = 0;
    for (uint16_t i = 0; rc == 0 && !found && i < k->ncols; i++) {
        const struct column *c = &r->s->cols[k->cols[i]];
        if (c->not_null) continue;
        buf_reset(&b);
        rc = -1;
        if (buf_adds(&b, "SELECT EXISTS (SELECT 1 FROM main.", e) == 0 && text_ident(&b, r->s->name, e) == 0 &&
            buf_adds(&b, " WHERE ", e) == 0 && text_ident(&b, c->name, e) == 0 && buf_adds(&b, " IS NULL)", e) == 0 && buf_str(&b, e))
            rc = sq_int(r->db, b.p, &found, e);
    }
    *yes = found != 0;
    buf_free(&b);
    return rc;
}

/* A primary key whose columns may be NULL, but are not. */
static int identify_for_now(struct reading *r, struct err *e) {
    struct shape *s = r->s;
    bool null = true;
    if (s->identity >= 0 || s->primary < 0) return 0;
    const struct key *k = &s->keys[s->primary];
    if (k->expression || k->ncols == 0) return 0;
    for (uint16_t i = 0; i < k->ncols; i++)
        if (k->equality[i] == EQ_NONDET) return 0; /* its index cannot be asked */
    if (holds_null(r, k, &null, e) < 0) return -1;
    if (!null) s->identity = s->primary;
    return 0;
}

static int read_shape(struct reading *r, struct err *e) {
    struct shape *s = r->s;
    s->engine = "sqlite";
    s->ns = SQ_NS;
    s->name = text_of(r, 0, e);
    s->create_sql = text_of(r, 1, e);
    s->without_rowid = sqlite3_column_int(r->st, 2) != 0;
    s->strict = sqlite3_column_int(r->st, 3) != 0;
    if (!s->name || !s->create_sql || read_columns(r, e) < 0 || read_indexes(r, e) < 0 || read_foreign_keys(r, e) < 0) return -1;
    s->keys = r->keys;
    s->nkeys = r->nkeys;
    for (int pass = 0; pass < 2; pass++) /* the primary key first, wherever it stands */
        for (uint16_t i = 0; i < s->nkeys && s->identity < 0; i++)
            if ((pass == 1 || s->keys[i].kind == KEY_PRIMARY) && can_identify(s, &s->keys[i])) s->identity = (int16_t)i;
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (s->keys[i].kind == KEY_PRIMARY) s->primary = (int16_t)i;
    if (identify_for_now(r, e) < 0) return -1;
    s->full_image = s->identity < 0;
    return shape_finish(s, e);
}

int sq_table_shape(sqlite3 *db, const char *ns, const char *name, struct shape **s, struct err *e) {
    struct reading r = {.db = db};
    int rc = -1, got;
    *s = NULL;
    if (strcasecmp(ns, SQ_NS) != 0) return 0;
    if (!(r.s = shape_new(e)) || ask(&r, "sqlite/source_table", name, e) < 0) goto out;
    got = sq_step(r.st, e);
    if (got == 0) rc = 0;
    if (got <= 0) goto out;
    if (read_shape(&r, e) < 0) {
        err_wrap(e, "cannot read table '%s'", name);
        goto out;
    }
    *s = r.s;
    r.s = NULL;
    rc = 0;
out:
    sqlite3_finalize(r.st);
    shape_free(r.s);
    return rc;
}
