/* Columns of a source as PostgreSQL DDL: types, collations, defaults. What this driver read itself is taken over as it stands; what another
 * engine's driver read is put into the type that holds all its values. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/convert.h"
#include "engine/base/log.h"
#include "engine/base/text.h"

bool tg_native(const struct shape *src) { return src->engine != NULL && strcmp(src->engine, "postgres") == 0; }

bool tg_in_key(const struct shape *s, uint16_t col) {
    for (uint16_t k = 0; k < s->nkeys; k++) {
        if (s->keys[k].kind != KEY_PRIMARY && s->keys[k].kind != KEY_UNIQUE && s->keys[k].kind != KEY_FOREIGN) continue;
        for (uint16_t i = 0; i < s->keys[k].ncols; i++)
            if (s->keys[k].cols[i] == col) return true;
    }
    return false;
}

static bool is_char(const char *native) { return strncmp(native, "character(", 10) == 0 || strcmp(native, "character") == 0 || strcmp(native, "bpchar") == 0; }

int tg_fit(const struct shape *src, const struct column *from, const struct column *to) {
    if (tg_native(src)) {
        if (from->native != NULL && to->native != NULL && strcmp(from->native, to->native) == 0) return CONVERT_ALWAYS;
        /* a padded type would add blanks */
        if (to->native != NULL && is_char(to->native) && (from->native == NULL || !is_char(from->native))) return CONVERT_NEVER;
    } else if (from->type == LT_NATIVE) return CONVERT_NEVER;
    return (int)convert_fit(from, to);
}

int tg_type_text(struct buf *b, const struct shape *src, uint16_t col, struct err *e) {
    const struct column *c = &src->cols[col];
    char type[64];
    if (tg_native(src)) {
        if (buf_adds(b, c->native, e) < 0) return -1;
        return c->collation != NULL ? buf_addf(b, e, " COLLATE %s", c->collation) : 0;
    }
    /* Where a declared precision binds nobody, a value may have more digits than it says. */
    const char *t = c->type == LT_NATIVE ? NULL : pg_type_for(c->type, -1, -1, c->length, type);
    if (t == NULL) {
        err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s.%s', column '%s': type '%s' has no counterpart in PostgreSQL", src->ns, src->name, c->name,
                c->native != NULL && *c->native != 0 ? c->native : "(none)");
        return err_hint(e, "leave the table out with --exclude-table, or give the column a type on the source");
    }
    if (buf_adds(b, t, e) < 0) return -1;
    return strcmp(t, "text") == 0 && tg_in_key(src, col) ? buf_adds(b, " COLLATE pg_catalog.\"C\"", e) : 0;
}

/* ---- defaults -------------------------------------------------------------------------------------------------------- */

/* A number, a string, true, false or NULL at *p; moves *p behind it. */
static bool literal(const char **p) {
    const char *s = *p;
    if (*s == '\'' || (*s == 'E' && s[1] == '\'')) {
        bool esc = *s == 'E';
        s += esc ? 2 : 1;
        for (;; s++) {
            if (*s == 0) return false;
            if (esc && *s == '\\' && s[1] != 0) s++;
            else if (*s == '\'') {
                if (s[1] != '\'') break;
                s++;
            }
        }
        *p = s + 1;
        return true;
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const words[] = {"true", "false", "NULL"};
        size_t n = strlen(words[i]);
        if (strncasecmp(s, words[i], n) == 0 && !isalnum((unsigned char)s[n]) && s[n] != '_' && s[n] != '(') {
            *p = s + n;
            return true;
        }
    }
    if (*s == '-' || *s == '+') s++;
    size_t n = strspn(s, "0123456789.");
    if (n == 0) return false;
    s += n;
    if (*s == 'e' || *s == 'E') s += 1 + strspn(s + 1, "+-0123456789");
    *p = s;
    return true;
}

bool tg_constant_default(const char *sql) {
    const char *p = sql;
    int depth = 0;
    while (*p == '(' || *p == ' ') depth += *p++ == '(';
    if (!literal(&p)) return false;
    for (;;) {
        while (*p == ' ') p++;
        if (*p != ')' || depth == 0) break;
        depth--;
        p++;
    }
    if (*p == 0) return depth == 0;
    if (depth != 0 || strncmp(p, "::", 2) != 0) return false;
    for (p += 2; *p != 0; p++) /* one cast: a type's name */
        if (*p == '"') {
            do p++;
            while (*p != 0 && *p != '"');
            if (*p == 0) return false;
        } else if (!isalnum((unsigned char)*p) && strchr("_ .,()[]", *p) == NULL) return false;
    return true;
}

/* nextval('ns.seq'::regclass) with the table's own namespace exchanged. Other expressions as they stand. */
static int default_text(struct buf *b, const struct shape *src, const char *sql, const char *ns, struct err *e) {
    const char *head = "nextval('";
    size_t hn = strlen(head);
    if (strcmp(src->ns, ns) == 0 || strncmp(sql, head, hn) != 0) return buf_adds(b, sql, e);
    const char *p = sql + hn, *end = p;
    if (*p == '"') {
        for (end = p + 1; *end != 0 && !(*end == '"' && end[1] != '"'); end++)
            if (*end == '"') end++;
        if (*end == '"') end++;
    } else end = p + strcspn(p, ".'");
    if (*end != '.') return buf_adds(b, sql, e);
    size_t n = (size_t)(end - p);
    bool same = *p == '"' ? strlen(src->ns) + 2 == n && strncmp(p + 1, src->ns, n - 2) == 0 : strlen(src->ns) == n && strncmp(p, src->ns, n) == 0;
    if (!same) return buf_adds(b, sql, e);
    if (buf_adds(b, head, e) < 0 || text_ident(b, ns, e) < 0) return -1;
    return buf_adds(b, end, e);
}

int tg_column_ddl(struct buf *b, const struct shape *src, uint16_t col, const char *ns, struct err *e) {
    const struct column *c = &src->cols[col];
    bool native = tg_native(src);
    if (text_ident(b, c->name, e) < 0 || buf_addc(b, ' ', e) < 0 || tg_type_text(b, src, col, e) < 0) return -1;
    if (c->generated != NULL) {
        if (buf_addf(b, e, " GENERATED ALWAYS AS (%s)%s", c->generated, c->generated_stored ? " STORED" : "") < 0) return -1;
    } else if (c->ident == IDENT_ALWAYS || c->ident == IDENT_BY_DEFAULT || (!native && c->ident == IDENT_AUTO && c->type == LT_INT64)) {
        if (buf_addf(b, e, " GENERATED %s AS IDENTITY", c->ident == IDENT_ALWAYS ? "ALWAYS" : "BY DEFAULT") < 0) return -1;
    } else if (c->default_sql != NULL && native) {
        if (buf_adds(b, " DEFAULT ", e) < 0 || default_text(b, src, c->default_sql, ns, e) < 0) return -1;
    } else if (c->default_sql != NULL && tg_constant_default(c->default_sql) && strstr(c->default_sql, "::") == NULL && c->default_sql[0] != 'E' &&
               (c->type == LT_TEXT) == (c->default_sql[0] == '\'') && c->type != LT_BYTES && c->type != LT_BOOL) {
        if (buf_addf(b, e, " DEFAULT %s", c->default_sql) < 0) return -1;
    } else if (c->default_sql != NULL)
        log_warn("a column's default is not carried over", KV_STR("table", src->name), KV_STR("column", c->name), KV_STR("default", c->default_sql));
    return c->not_null ? buf_adds(b, " NOT NULL", e) : 0;
}
