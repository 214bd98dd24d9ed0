/* A source table bound to a target table: names quoted, types looked up and conversions chosen once, so that nothing is decided per row. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/convert.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

static uint64_t next_serial;

static char *quoted(struct arena *a, const char *name, struct err *e) {
    struct buf b = BUF_INIT(KiB(1));
    char *r = text_ident(&b, name, e) < 0 ? NULL : arena_copy(a, b.p, b.n, e);
    buf_free(&b);
    return r;
}
static char *qualified(struct arena *a, const char *ns, const char *name, struct err *e) {
    struct buf b = BUF_INIT(KiB(1));
    char *r = pg_qualified(&b, ns, name, e) < 0 ? NULL : arena_copy(a, b.p, b.n, e);
    buf_free(&b);
    return r;
}

static enum wire wire_for(int64_t base_oid, enum ltype type) {
    switch (base_oid) {
    case 21: return WIRE_INT2;
    case 23: return WIRE_INT4;
    case 20: return WIRE_INT8;
    case 17: return WIRE_BYTEA;
    default: (void)type; return WIRE_TEXT;
    }
}

static int bind_columns(struct target *t, struct target_table *tt, const char *oid, struct err *e) {
    PGresult *r = NULL;
    int rc = -1;
    if (pg_query(t->c, embed_sql("postgres/target_bind_columns"), 1, &oid, "read the target's columns", &r, e) < 0) return -1;
    if ((tt->cols = arena_zalloc(tt->arena, (size_t)tt->src->ncols * sizeof *tt->cols + 1, e)) == NULL) goto out;
    tt->raw = tg_native(tt->src);
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        const struct column *sc = &tt->src->cols[c];
        struct target_column *tc = &tt->cols[c];
        if ((tc->ident = quoted(tt->arena, sc->name, e)) == NULL) goto out;
        if (sc->generated != NULL) continue;
        int row = 0, at = shape_col(tt->dst, sc->name);
        while (row < PQntuples(r) && strcmp(pg_text(r, row, 0), sc->name) != 0) row++;
        if (row == PQntuples(r) || at < 0 || *pg_text(r, row, 6) != 0) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s' on the target %s column '%s'", tt->label, at < 0 ? "has no" : "generates", sc->name);
            err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
            err_hint(e, "make the target's table match the source, then start again");
            goto out;
        }
        tc->stored = true;
        tc->to = &tt->dst->cols[at];
        tc->key = tt->src->identity >= 0 && shape_in_identity(tt->src, c);
        tc->always = *pg_text(r, row, 5) == 'a';
        tc->wire = wire_for(pg_i64(r, row, 3), tc->to->type);
        tc->cast = qualified(tt->arena, pg_text(r, row, 1), pg_text(r, row, 2), e);
        tc->native = arena_copy(tt->arena, pg_text(r, row, 4), strlen(pg_text(r, row, 4)), e);
        const char *eq = pg_null(r, row, 7) ? "OPERATOR(pg_catalog.=)" : pg_text(r, row, 7);
        tc->equals = arena_copy(tt->arena, eq, strlen(eq), e);
        if (tc->cast == NULL || tc->native == NULL || tc->equals == NULL) goto out;
        if (!pg_null(r, row, 8)) {
            tc->input = arena_copy(tt->arena, pg_text(r, row, 8), strlen(pg_text(r, row, 8)), e);
            tc->input_args = arena_copy(tt->arena, pg_text(r, row, 9), strlen(pg_text(r, row, 9)), e);
            if (tc->input == NULL || tc->input_args == NULL) goto out;
        }
        int fit = tg_fit(tt->src, sc, tc->to);
        if (fit == CONVERT_NEVER) {
            err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s', column '%s': the source's type '%s' cannot stand in '%s'", tt->label, sc->name,
                    sc->native != NULL ? sc->native : ltype_name(sc->type), tc->native);
            goto out;
        }
        tc->checked = fit == CONVERT_CHECKED || !tg_native(tt->src);
        tc->convert_flags = tg_in_key(tt->src, c) ? CONVERT_EXACT : 0;
        if (tc->checked) tt->raw = false;
        tt->nstored++;
        tt->nkey += tc->key;
    }
    if (tt->nstored == 0) {
        err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s' has no column that holds a value", tt->label);
        goto out;
    }
    rc = 0;
out:
    PQclear(r);
    return rc;
}

/* Which index makes the identity unique here? */
static int bind_unique(struct target *t, struct target_table *tt, const char *oid, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    const char *names[64];
    char got[8];
    bool found = false;
    int rc = -1;
    size_t n = 0;
    if (tt->nkey == 0 || tt->nkey > MEM_ARRAY_LEN(names)) return 0;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!tt->cols[c].key) continue;
        size_t at = n++;
        for (; at > 0 && strcmp(names[at - 1], tt->src->cols[c].name) > 0; at--) names[at] = names[at - 1];
        names[at] = tt->src->cols[c].name;
    }
    /* an array literal: each element in double quotes, with backslashes before quotes and backslashes */
    if (buf_addc(&b, '{', e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        if (buf_adds(&b, i > 0 ? ",\"" : "\"", e) < 0) goto out;
        for (const char *p = names[i]; *p != 0; p++)
            if (((*p == '"' || *p == '\\') && buf_addc(&b, '\\', e) < 0) || buf_addc(&b, *p, e) < 0) goto out;
        if (buf_addc(&b, '"', e) < 0) goto out;
    }
    if (buf_addc(&b, '}', e) < 0) goto out;
    const char *list = buf_str(&b, e), *p[2] = {oid, list};
    if (list == NULL || pg_scalar(t->c, embed_sql("postgres/target_bind_unique"), 2, p, "read the target's keys", got, sizeof got, &found, e) < 0) goto out;
    tt->unique = found;
    tt->arbiter = found && got[0] == 'f';
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

static int copy_statement(struct target_table *tt, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    int rc = -1;
    bool first = true;
    if (buf_addf(&b, e, "COPY %s (", tt->name) < 0) goto out;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!tt->cols[c].stored) continue;
        if (buf_adds(&b, first ? "" : ", ", e) < 0 || buf_adds(&b, tt->cols[c].ident, e) < 0) goto out;
        first = false;
    }
    if (buf_adds(&b, ") FROM STDIN", e) < 0) goto out;
    rc = (tt->copy_sql = arena_copy(tt->arena, b.p, b.n, e)) == NULL ? -1 : 0;
out:
    buf_free(&b);
    return rc;
}

void tg_unbind(struct target_table *tt) {
    if (tt == NULL) return;
    shape_free(tt->dst);
    arena_free(tt->arena);
    mem_free(tt);
}

int tg_bind(struct target *t, const struct shape *src, const char *ns, const char *name, struct target_table **out, struct err *e) {
    const char *p[2] = {ns, name};
    char oid[24];
    PGresult *r = NULL;
    int rc = -1;
    *out = NULL;
    struct target_table *tt = mem_alloc(sizeof *tt, e);
    if (tt == NULL || (tt->arena = arena_new(KiB(4), e)) == NULL) goto out;
    tt->src = src;
    tt->serial = __atomic_add_fetch(&next_serial, 1, __ATOMIC_RELAXED);
    if ((tt->label = arena_printf(tt->arena, e, "%s.%s", ns, name)) == NULL || (tt->name = qualified(tt->arena, ns, name, e)) == NULL) goto out;
    if (pg_query(t->c, embed_sql("postgres/target_bind_table"), 2, p, "look for the target's table", &r, e) < 0) goto out;
    if (pg_table_shape(t->c, ns, name, &tt->dst, e) < 0) goto out;
    if (PQntuples(r) == 0 || tt->dst == NULL) {
        err_set(e, CODE_SHAPE_CHANGED, "the target has no table '%s'", tt->label);
        err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
        err_hint(e, "create it as the source has it, or rebuild with --reset-target-data");
        goto out;
    }
    snprintf(oid, sizeof oid, "%s", pg_text(r, 0, 0));
    /* a partitioned table's rows are in its leaves; an inheritance parent's own rows are its own */
    if ((tt->only = arena_copy(tt->arena, *pg_text(r, 0, 1) == 'p' ? "" : "ONLY ", *pg_text(r, 0, 1) == 'p' ? 0 : 5, e)) == NULL) goto out;
    tt->deferrable = pg_bool(r, 0, 2);
    if (tt->deferrable && pg_bool(r, 0, 3)) {
        err_set(e, CODE_TARGET_KEYS, "table '%s' on the target has a deferrable key and triggers of its own: checking the one would fire the other", tt->label);
        err_hint(e, "ALTER TABLE %s DISABLE TRIGGER USER on the target, or make its key NOT DEFERRABLE", tt->name);
        goto out;
    }
    if (bind_columns(t, tt, oid, e) < 0 || bind_unique(t, tt, oid, e) < 0 || copy_statement(tt, e) < 0) goto out;
    *out = tt;
    tt = NULL;
    rc = 0;
out:
    PQclear(r);
    tg_unbind(tt);
    return rc;
}

/* "table 'x', key (a=1, b=2), column 'c'": keys only, cut; never another column's content. */
static int value_err(const struct target_table *tt, uint16_t col, const struct value *row, struct err *e) {
    char key[320] = "";
    size_t n = 0;
    for (uint16_t c = 0; row != NULL && c < tt->src->ncols && n + 80 < sizeof key; c++) {
        if (!tt->cols[c].key || (row[c].kind != VALUE_TEXT && row[c].kind != VALUE_BINARY)) continue;
        const char *p = row[c].p;
        size_t len = row[c].len;
        if (row[c].kind == VALUE_BINARY && len > 0) p++, len--;
        if (len > 60) len = 60;
        if (!text_utf8_valid(p, len) || memchr(p, 0, len) != NULL) continue;
        int w = snprintf(key + n, sizeof key - n, "%s%.40s=%.*s", n == 0 ? ", key (" : ", ", tt->src->cols[c].name, (int)len, p);
        if (w < 0 || (size_t)w >= sizeof key - n) break;
        n += (size_t)w;
    }
    return err_wrap(e, "table '%s'%s%s, column '%s'", tt->label, key, n > 0 ? ")" : "", tt->src->cols[col].name);
}

int tg_value(const struct target_table *tt, uint16_t col, const struct value *in, const struct value *key_row, struct arena *a,
             struct value *out, struct err *e) {
    const struct target_column *tc = &tt->cols[col];
    if (!tc->checked) {
        *out = *in;
        return 0;
    }
    if (convert_value(in, tc->to, tc->convert_flags, a, out, e) < 0) return value_err(tt, col, key_row, e);
    return 0;
}
