/* Declared types and stored values.
 *
 * DESIGN
 * 1. A declared type decides the logical type; SQLite's affinity decides what the file may hold. They are told apart here, nowhere else.
 * 2. TEXT is used only when the value is exactly the canonical text of the logical type and an affinity on the way back cannot change its
 * storage class; BYTES only for a blob in a bytes column. Everything else is BINARY: class byte, then text or bytes. So nothing is guessed
 * and nothing lost.
 * 3. Integers are printed from int64; reals by the shortest digits that read back as the same double. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/sqlite.h"
#include "engine/base/convert.h"
#include "engine/base/text.h"

static bool has(const char *declared, const char *word) {
    return strcasestr(declared, word) != NULL;
}

enum sq_affinity sq_affinity(const char *declared, bool strict) {
    if (!declared || !*declared) return SQ_AFF_BLOB;
    if (strict && strcasecmp(declared, "ANY") == 0) return SQ_AFF_BLOB;
    if (has(declared, "INT")) return SQ_AFF_INTEGER;
    if (has(declared, "CHAR") || has(declared, "CLOB") || has(declared, "TEXT")) return SQ_AFF_TEXT;
    if (has(declared, "BLOB")) return SQ_AFF_BLOB;
    if (has(declared, "REAL") || has(declared, "FLOA") || has(declared, "DOUB")) return SQ_AFF_REAL;
    return SQ_AFF_NUMERIC;
}

/* The first word of the type, upper case, without a trailing _TEXT (a way to give a type TEXT affinity). */
static void base_word(const char *declared, char out[32]) {
    size_t n = 0;
    while (declared[n] && declared[n] != '(' && !isspace((unsigned char)declared[n]) && n < 31) {
        out[n] = (char)toupper((unsigned char)declared[n]);
        n++;
    }
    out[n] = 0;
    if (n > 5 && strcmp(out + n - 5, "_TEXT") == 0) out[n - 5] = 0;
}

static void numbers_in_parens(const char *declared, int32_t *a, int32_t *b) {
    const char *p = strchr(declared, '(');
    int x, y, n = p ? sscanf(p, "(%d ,%d", &x, &y) : 0;
    if (n >= 1 && x > 0) *a = x;
    if (n == 2 && y >= 0) *b = y;
}

void sq_logical_type(const char *declared, bool strict, struct column *c) {
    static const struct {
        const char *word;
        enum ltype type;
    } words[] = {
        {"BOOL", LT_BOOL},
        {"BOOLEAN", LT_BOOL},
        {"DATE", LT_DATE},
        {"TIME", LT_TIME},
        {"DATETIME", LT_TIMESTAMP},
        {"TIMESTAMP", LT_TIMESTAMP},
        {"TIMESTAMPTZ", LT_TIMESTAMPTZ},
        {"UUID", LT_UUID},
        {"JSON", LT_JSON},
        {"JSONB", LT_JSON},
        {"STRING", LT_TEXT},
        {"NUMERIC", LT_NUMERIC},
        {"DECIMAL", LT_NUMERIC},
        {"DEC", LT_NUMERIC},
    };
    c->precision = c->scale = c->length = -1;
    enum sq_affinity aff = sq_affinity(declared, strict);
    if (!declared || !*declared || (strict && strcasecmp(declared, "ANY") == 0)) {
        c->type = LT_NATIVE;
        return;
    }
    char word[32];
    base_word(declared, word);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            c->type = words[i].type;
            if (c->type == LT_TIMESTAMP && has(declared, "with time zone") && !has(declared, "without")) c->type = LT_TIMESTAMPTZ;
            if (c->type == LT_NUMERIC) numbers_in_parens(declared, &c->precision, &c->scale);
            return;
        }
    switch (aff) {
    case SQ_AFF_INTEGER: c->type = LT_INT64; break;
    case SQ_AFF_TEXT: c->type = LT_TEXT; break; /* varchar(n) limits nothing in SQLite: no length */
    case SQ_AFF_BLOB: c->type = LT_BYTES; break;
    case SQ_AFF_REAL: c->type = LT_FLOAT8; break;
    case SQ_AFF_NUMERIC: c->type = LT_NUMERIC; break;
    }
}

int sq_real_text(double r, char out[40]) {
    if (isinf(r)) return snprintf(out, 40, r > 0 ? "Infinity" : "-Infinity");
    for (int digits = 15; digits <= 17; digits++) {
        int n = snprintf(out, 40, "%.*g", digits, r);
        if (digits == 17 || strtod(out, NULL) == r) return n;
    }
    return 0;
}

/* Is this text what a value of the type looks like in canonical form? Then any engine may take it as it is. */
static bool canonical(const struct column *c, const char *p, size_t n) {
    struct err ignored = {0};
    switch (c->type) {
    case LT_TEXT: return text_utf8_valid(p, n);
    case LT_JSON: return convert_json_valid(p, n, false, NULL) == 0 && text_utf8_valid(p, n);
    case LT_DATE:
    case LT_TIME:
    case LT_TIMESTAMP:
    case LT_TIMESTAMPTZ:
    case LT_UUID: {
        /* the check of the target's side is asked, so that both sides mean the same by it; special words stay as they were stored */
        if (n == 0 || !isxdigit((unsigned char)p[0]) || memchr(p, 'B', n)) return false;
        struct column plain = {.type = c->type, .precision = -1, .scale = -1, .length = -1};
        return convert_check(&plain, p, n, &ignored) == 0;
    }
    case LT_NUMERIC: { /* only a column of TEXT affinity holds such a text: elsewhere it would have become a number */
        if (sq_affinity(c->native, false) != SQ_AFF_TEXT || n == 0 || n > 1000 || (!isdigit((unsigned char)p[0]) && p[0] != '-'))
            return false;
        struct column plain = {.type = LT_NUMERIC, .precision = -1, .scale = -1, .length = -1};
        return convert_check(&plain, p, n, &ignored) == 0;
    }
    default: return false;
    }
}

static int keep(struct arena *a, const char *p, size_t n, bool copy, uint8_t kind, struct value *v, struct err *e) {
    v->kind = kind;
    v->len = (uint32_t)n;
    v->p = p ? p : "";
    if (!copy || n == 0) return n == 0 ? (v->p = "", 0) : 0;
    char *q = arena_alloc(a, n, e);
    if (!q) return -1;
    memcpy(q, p, n);
    v->p = q;
    return 0;
}

/* BINARY: the class byte in front. Always in the arena. */
static int tagged(struct arena *a, char class, const char *p, size_t n, struct value *v, struct err *e) {
    char *q = arena_alloc(a, n + 1, e);
    if (!q) return -1;
    q[0] = class;
    if (n) memcpy(q + 1, p, n);
    *v = (struct value){q, (uint32_t)(n + 1), VALUE_BINARY};
    return 0;
}

static int integer(const struct column *c, int64_t i, struct arena *a, struct value *v, struct err *e) {
    if (c->type == LT_BOOL && (i == 0 || i == 1)) {
        *v = (struct value){i ? "t" : "f", 1, VALUE_TEXT};
        return 0;
    }
    char buf[24], *digits = buf + sizeof buf;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do
        *--digits = (char)('0' + u % 10);
    while (u /= 10);
    if (i < 0) *--digits = '-';
    size_t n = (size_t)(buf + sizeof buf - digits);
    bool natural = c->type == LT_INT64 || (c->type == LT_NUMERIC && sq_affinity(c->native, false) == SQ_AFF_NUMERIC);
    return natural ? keep(a, digits, n, true, VALUE_TEXT, v, e) : tagged(a, 'i', digits, n, v, e);
}

static int real(const struct column *c, double r, struct arena *a, struct value *v, struct err *e) {
    char digits[40];
    int n = sq_real_text(r, digits);
    return c->type == LT_FLOAT8 ? keep(a, digits, (size_t)n, true, VALUE_TEXT, v, e) : tagged(a, 'r', digits, (size_t)n, v, e);
}

int sq_value(sqlite3_stmt *st, int i, const struct column *c, bool copy, struct arena *a, struct value *v, struct err *e) {
    switch (sqlite3_column_type(st, i)) {
    case SQLITE_NULL: *v = VALUE_OF_NULL; return 0;
    case SQLITE_INTEGER: return integer(c, sqlite3_column_int64(st, i), a, v, e);
    case SQLITE_FLOAT: return real(c, sqlite3_column_double(st, i), a, v, e);
    case SQLITE_TEXT: {
        const char *p = (const char *)sqlite3_column_text(st, i); /* first the text, then its length: the text may be converted */
        size_t n = (size_t)sqlite3_column_bytes(st, i);
        if (!p) return err_set(e, CODE_NO_MEMORY, "no memory for a text of %zu bytes", n);
        return canonical(c, p, n) ? keep(a, p, n, copy, VALUE_TEXT, v, e) : tagged(a, 't', p, n, v, e);
    }
    default: {
        const char *p = sqlite3_column_blob(st, i);
        size_t n = (size_t)sqlite3_column_bytes(st, i);
        if (!p && n) return err_set(e, CODE_NO_MEMORY, "no memory for a blob of %zu bytes", n);
        return c->type == LT_BYTES ? keep(a, p, n, copy, VALUE_BYTES, v, e) : tagged(a, 'b', p, n, v, e);
    }
    }
}
