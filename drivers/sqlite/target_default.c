/* Another engine's DEFAULT as a literal here, when it is one.
 *
 * DESIGN
 * 1. Only a plain literal, perhaps under one cast, is taken: a number, a quoted text, true, false, NULL. Whatever computes is not.
 * 2. The literal becomes what a value of that column looks like here, so that rows which got the default on the source compare equal. What
 *    the column's type would spell otherwise (numeric(10,2) DEFAULT 0 holds 0.00) is spelled so, or not taken. */
#include <ctype.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/convert.h"
#include "engine/base/text.h"

#define LITERAL_MAX KiB(64)
#include "engine/base/mem.h"

static const char *blanks(const char *p) {
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* The end of the text must be one cast to a type, or nothing. */
static bool one_cast(const char *p) {
    p = blanks(p);
    if (!*p) return true;
    if (p[0] != ':' || p[1] != ':') return false;
    for (p += 2; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr(" _\".(),", *p)) return false;
    return true;
}

/* A number behind an optional sign, perhaps in parentheses. */
static bool take_number(const char *p, struct buf *lit, struct err *e, int *rc) {
    int parens = 0;
    while (*p == '(')
        p = blanks(p + 1), parens++;
    if (*p == '-') {
        *rc = buf_addc(lit, '-', e);
        p = blanks(p + 1);
    }
    const char *from = p;
    while (isdigit((unsigned char)*p))
        p++;
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p);)
            p++;
    if (p == from || !isdigit((unsigned char)*from)) return false;
    if (*rc == 0) *rc = buf_add(lit, from, (size_t)(p - from), e);
    for (; parens; parens--) {
        p = blanks(p);
        if (*p++ != ')') return false;
    }
    return one_cast(p);
}

static bool take_quoted(const char *p, struct buf *lit, struct err *e, int *rc) {
    for (p++; *p; p++) {
        if (*p == '\'' && *++p != '\'') return one_cast(p);
        if (*rc == 0) *rc = buf_addc(lit, *p, e);
    }
    return false;
}

/* numeric(p,s): as many digits behind the point as the column prints. */
static int pad_scale(const struct column *c, struct buf *lit, struct err *e) {
    if (c->type != LT_NUMERIC || c->precision <= 0 || c->scale <= 0 || lit->n == 0 || !isdigit((unsigned char)lit->p[lit->n - 1])) return 0;
    const char *dot = memchr(lit->p, '.', lit->n);
    int have = dot ? (int)(lit->p + lit->n - dot) - 1 : 0;
    if (!dot && buf_addc(lit, '.', e) < 0) return -1;
    for (; have < c->scale; have++)
        if (buf_addc(lit, '0', e) < 0) return -1;
    return 0;
}

static int spell(const struct column *c, struct buf *lit, struct buf *out, bool *plain, struct err *e) {
    struct err ignored = {0};
    if (pad_scale(c, lit, e) < 0) return -1;
    if (c->native && (strncmp(c->native, "char", 4) == 0 || strncmp(c->native, "bpchar", 6) == 0) &&
        strncmp(c->native, "character varying", 17) != 0)
        return 0;
    if (convert_check(c, lit->p ? lit->p : "", lit->n, &ignored) < 0) return 0;
    *plain = true;
    switch (c->type) {
    case LT_BOOL: return buf_addc(out, lit->n == 1 && *lit->p == 't' ? '1' : '0', e);
    case LT_INT16:
    case LT_INT32:
    case LT_INT64:
    case LT_UINT16:
    case LT_UINT32: return buf_add(out, lit->p, lit->n, e);
    case LT_FLOAT4:
    case LT_FLOAT8:
        for (size_t i = 0; i < lit->n; i++)
            if (isalpha((unsigned char)lit->p[i]) && lit->p[i] != 'e') { /* NaN, Infinity */
                *plain = false;
                return 0;
            }
        if (lit->n && lit->p[0] == '-' && lit->n == 2 && lit->p[1] == '0') *plain = false;
        return buf_add(out, lit->p, lit->n, e);
    case LT_BYTES:
        if (buf_adds(out, "x'", e) < 0 || buf_add(out, lit->p + 2, lit->n - 2, e) < 0) return -1;
        return buf_addc(out, '\'', e);
    default: return text_literal(out, lit->p ? lit->p : "", lit->n, e);
    }
}

int sqt_default(const struct column *c, struct buf *out, bool *plain, struct err *e) {
    struct buf lit = BUF_INIT(LITERAL_MAX);
    const char *p = blanks(c->default_sql);
    int rc = 0;
    bool taken = false;
    *plain = false;
    if (strncasecmp(p, "NULL", 4) == 0 && one_cast(p + 4)) {
        *plain = true;
        return buf_adds(out, "NULL", e);
    }
    if (strncasecmp(p, "true", 4) == 0 && one_cast(p + 4)) taken = true, rc = buf_addc(&lit, 't', e);
    else if (strncasecmp(p, "false", 5) == 0 && one_cast(p + 5)) taken = true, rc = buf_addc(&lit, 'f', e);
    else if (*p == '\'') taken = take_quoted(p, &lit, e, &rc);
    else taken = take_number(p, &lit, e, &rc);
    if (rc == 0 && taken) rc = spell(c, &lit, out, plain, e);
    buf_free(&lit);
    return rc;
}
