/* DESIGN
 *
 * 1. One table says which tags are known and how their tokens are ordered; both forms in use are numbers behind a syntax.
 * 2. A token is kept in its canonical spelling, so equal positions have equal bytes.
 *    A change-log id may carry the nonce of its row, `ID-16HEX`: it proves which row was meant and gives no order. The same id with two
 *    nonces is no place in one log: unordered.
 * 3. Whatever the table does not join (another tag, a malformed token, no position) is unordered; nothing is guessed. */
#include "engine/base/pos.h"

#include <stdio.h>
#include <string.h>

static bool hex32(const char *s, size_t n, uint64_t *v) {
    if (n == 0 || n > 8) return false;
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return false;
        *v = *v << 4 | (uint64_t)d;
    }
    return true;
}

bool pos_lsn_parse(const char *token, uint64_t *lsn) {
    const char *slash = strchr(token, '/');
    uint64_t hi, lo;
    if (!slash || !hex32(token, (size_t)(slash - token), &hi) || !hex32(slash + 1, strlen(slash + 1), &lo)) return false;
    *lsn = hi << 32 | lo;
    return true;
}

void pos_lsn_format(uint64_t lsn, char out[32]) {
    snprintf(out, 32, "%X/%X", (unsigned)(lsn >> 32), (unsigned)lsn);
}

static bool id_parse(const char *token, uint64_t *v) {
    *v = 0;
    if (!*token || (token[0] == '0' && token[1] && token[1] != '-')) return false;
    for (const char *begin = token; *token; token++) {
        if (*token == '-') return token > begin && strlen(token + 1) == 16 && strspn(token + 1, "0123456789abcdef") == 16;
        if (*token < '0' || *token > '9') return false;
        uint64_t d = (uint64_t)(*token - '0');
        if (*v > ((uint64_t)INT64_MAX - d) / 10) return false;
        *v = *v * 10 + d;
    }
    return true;
}

static bool nonces_differ(const char *a, const char *b) {
    const char *x = strchr(a, '-'), *y = strchr(b, '-');
    return x && y && strcmp(x, y) != 0;
}

static const struct pos_form {
    const char *engine, *looks;
    bool (*parse)(const char *token, uint64_t *v);
    void (*format)(uint64_t v, char out[32]); /* NULL: parse takes the canonical spelling only */
} forms[] = {
    {"postgres", "16/B374D848", pos_lsn_parse, pos_lsn_format},
    {"sqlite", "a decimal number", id_parse, NULL},
};

static const struct pos_form *form_of(const char *engine) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(engine, forms[i].engine) == 0) return &forms[i];
    return NULL;
}

int pos_set(struct pos *p, const char *engine, const char *token, struct err *e) {
    const struct pos_form *f = form_of(engine);
    struct pos made = {0};
    uint64_t v;
    if (!f) return err_set(e, CODE_FORMAT_UNSUPPORTED, "positions of '%.32s' are unknown", engine);
    if (!f->parse(token, &v)) return err_set(e, CODE_MANIFEST_INVALID, "'%.64s' is not a %s position (%s)", token, engine, f->looks);
    snprintf(made.engine, sizeof made.engine, "%s", engine);
    if (f->format) f->format(v, made.token);
    else snprintf(made.token, sizeof made.token, "%s", token);
    *p = made;
    return 0;
}

bool pos_is_set(const struct pos *p) {
    return p->engine[0] != 0;
}

enum pos_order pos_compare(const struct pos *a, const struct pos *b) {
    uint64_t x, y;
    const struct pos_form *f;
    if (!pos_is_set(a) || !pos_is_set(b) || strcmp(a->engine, b->engine) != 0) return POS_UNORDERED;
    if (!(f = form_of(a->engine)) || !f->parse(a->token, &x) || !f->parse(b->token, &y)) return POS_UNORDERED;
    if (x == y && nonces_differ(a->token, b->token)) return POS_UNORDERED;
    return x < y ? POS_LESS : x > y ? POS_GREATER : POS_EQUAL;
}
