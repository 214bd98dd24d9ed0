/* A small reader of CREATE TABLE texts: tokens, nesting, nothing more.
 *
 * DESIGN
 * 1. It is asked only for what no PRAGMA tells, and every answer has a safe "do not know".
 * 2. Texts come from sqlite_schema, so SQLite parsed them before; what looks malformed is not understood, never guessed. */
#include "drivers/sqlite/ddl.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "engine/base/buf.h"
#include "engine/base/text.h"

struct token {
    const char *p;
    size_t n;
};

/* The token at *s: a word or number, a quoted name or text, one other character. False at the end. */
static bool next_token(const char **s, struct token *t) {
    const char *p = *s;
    for (;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (p[0] == '-' && p[1] == '-') {
            while (*p && *p != '\n')
                p++;
        } else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else {
            break;
        }
    }
    if (!*p) return false;
    t->p = p;
    if (*p == '\'' || *p == '"' || *p == '`' || *p == '[') {
        char close = *p == '[' ? ']' : *p;
        for (p++; *p; p++)
            if (*p == close && (close == ']' || p[1] != close)) break;
            else if (*p == close) p++;
        if (*p) p++;
    } else if (isalnum((unsigned char)*p) || *p == '_' || *p == '$' || (unsigned char)*p >= 128) {
        while (isalnum((unsigned char)*p) || *p == '_' || *p == '$' || (unsigned char)*p >= 128)
            p++;
    } else {
        p++;
    }
    t->n = (size_t)(p - t->p);
    *s = p;
    return true;
}

static bool word_is(const struct token *t, const char *w) {
    return t->n == strlen(w) && strncasecmp(t->p, w, t->n) == 0;
}

/* Does a token, quotes removed, name this column (ASCII case ignored)? */
static bool names(const struct token *t, const char *column) {
    char q = t->p[0];
    if (q != '"' && q != '`' && q != '[' && q != '\'') return t->n == strlen(column) && strncasecmp(t->p, column, t->n) == 0;
    const char *p = t->p + 1, *end = t->p + t->n - 1;
    for (; p < end; p++, column++) {
        if (!*column || tolower((unsigned char)*p) != tolower((unsigned char)*column)) return false;
        if (*p == q && q != '[') p++;
    }
    return *column == 0;
}

const char *sq_ddl_generated(const char *create_sql, const char *column, struct arena *a, struct err *e) {
    struct token t;
    int depth = 0;
    bool at_start = false, ours = false, after_as = false;
    const char *s = create_sql, *from = NULL;
    while (next_token(&s, &t)) {
        char c = t.n == 1 ? *t.p : 0;
        if (c == '(') {
            depth++;
            if (depth == 1) {
                at_start = true;
                continue;
            }
            if (depth == 2 && ours && after_as) from = t.p + 1;
        } else if (c == ')') {
            if (depth == 2 && from) {
                while (from < t.p && isspace((unsigned char)*from))
                    from++;
                size_t n = (size_t)(t.p - from);
                while (n > 0 && isspace((unsigned char)from[n - 1]))
                    n--;
                return arena_copy(a, from, n, e);
            }
            depth--;
        } else if (c == ',' && depth == 1) {
            at_start = true;
            ours = false;
            continue;
        } else if (at_start) {
            ours = names(&t, column);
        }
        if (depth == 1) after_as = word_is(&t, "AS");
        at_start = false;
    }
    return arena_copy(a, "", 0, e);
}

static bool is_number(const struct token *t) {
    return t->n > 0 && isdigit((unsigned char)t->p[0]);
}

/* "it ""is""" or a bare word as a text literal. */
static const char *as_literal(const struct token *t, struct arena *a, struct err *e) {
    struct buf plain = BUF_INIT((size_t)1 << 20), lit = BUF_INIT((size_t)3 << 20);
    char q = *t->p;
    bool quoted = q == '"' || q == '`' || q == '[';
    const char *p = quoted ? t->p + 1 : t->p, *end = quoted ? t->p + t->n - 1 : t->p + t->n, *out = NULL;
    int rc = 0;
    for (; p < end && rc == 0; p++) {
        rc = buf_addc(&plain, *p, e);
        if (quoted && q != '[' && *p == q) p++;
    }
    if (rc == 0) rc = text_literal(&lit, plain.p ? plain.p : "", plain.n, e);
    if (rc == 0) out = arena_copy(a, lit.p, lit.n, e);
    buf_free(&plain);
    buf_free(&lit);
    return out;
}

int sq_ddl_constant(const char *dflt, struct arena *a, const char **expr, struct err *e) {
    static const char *const words[] = {"NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"};
    *expr = NULL;
    size_t n = strlen(dflt);
    const char *s = dflt, *rest;
    struct token t, more;
    if (!next_token(&s, &t)) return 0;
    bool sign = t.n == 1 && (*t.p == '-' || *t.p == '+');
    if (sign && !next_token(&s, &t)) return 0;
    rest = s;
    bool alone = !next_token(&rest, &more);
    if (is_number(&t) || (t.n == 1 && *t.p == '.')) { /* 1, 1.5, .5, 1e3, 1e-3: everything up to the end must look like one number */
        for (const char *p = t.p; *p; p++)
            if (!isalnum((unsigned char)*p) && *p != '.' && !((*p == '-' || *p == '+') && p > t.p && (p[-1] == 'e' || p[-1] == 'E')) &&
                !isspace((unsigned char)*p))
                return 0;
        return (*expr = arena_copy(a, dflt, n, e)) ? 0 : -1;
    }
    if (sign) return 0;
    if ((*t.p == 'x' || *t.p == 'X') && t.n == 1 && !alone && *more.p == '\'') { /* x'00ff': two tokens to us */
        return next_token(&rest, &more) ? 0 : (*expr = arena_copy(a, dflt, n, e)) ? 0 : -1;
    }
    if (!alone) return 0;
    if (*t.p == '\'') return (*expr = arena_copy(a, dflt, n, e)) ? 0 : -1;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (word_is(&t, words[i])) return (*expr = arena_copy(a, words[i], strlen(words[i]), e)) ? 0 : -1;
    if (*t.p == '"' || *t.p == '`' || *t.p == '[' || isalpha((unsigned char)*t.p) || *t.p == '_')
        return (*expr = as_literal(&t, a, e)) ? 0 : -1;
    return 0;
}
