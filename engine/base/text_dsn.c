/* DESIGN: a DSN without its password, for people.
 *  1. When in doubt it hides more: a DSN that no rule reads loses the rest of its text, never its secret.
 *  2. Nothing is copied out before it is known not to be secret, so a short buffer cuts but does not leak.
 *  3. Three forms: scheme://user:password@host/db?key=value, key=value pairs with quotes, and user:password@rest. */
#include <string.h>
#include <strings.h>

#include "engine/base/text.h"

struct out {
    char *p;
    size_t n, cap;
};

static void put(struct out *o, const char *s, size_t n) {
    for (size_t i = 0; i < n && o->n + 1 < o->cap; i++) o->p[o->n++] = s[i];
}

static void put_stars(struct out *o) { put(o, "***", 3); }

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

static bool holds(const char *s, size_t n, const char *word) {
    size_t k = strlen(word);
    for (size_t i = 0; i + k <= n; i++)
        if (strncasecmp(s + i, word, k) == 0) return true;
    return false;
}

/* password, sslpassword, and what other clients call the same; with a percent-encoded key decoded first. */
static bool key_is_secret(const char *s, size_t n) {
    char key[64];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '%' && i + 2 < n && text_unhex(s + i + 1, 2, &c) == 0) i += 2;
        if (k == sizeof key) return true; /* no key of ours is that long */
        key[k++] = (char)c;
    }
    static const char *const words[] = {"password", "passwd", "passphrase", "secret", "token"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (holds(key, k, words[i])) return true;
    return (k == 3 && strncasecmp(key, "pwd", 3) == 0) || (k == 4 && strncasecmp(key, "pass", 4) == 0);
}

/* ?key=value&…: p begins behind the question mark. */
static void put_query(struct out *o, const char *p, const char *end) {
    bool hiding = false;
    while (p < end) {
        const char *amp = memchr(p, '&', (size_t)(end - p)), *stop = amp ? amp : end;
        const char *eq = memchr(p, '=', (size_t)(stop - p));
        if (!eq && hiding) {
            /* a piece without a key behind a password is the rest of a password that holds '&' */
        } else if (eq && key_is_secret(p, (size_t)(eq - p))) {
            put(o, p, (size_t)(eq - p) + 1);
            put_stars(o);
            hiding = true;
        } else {
            put(o, p, (size_t)(stop - p));
            hiding = false;
        }
        if (!amp) return;
        p = amp + 1;
        if (!hiding || (memchr(p, '=', strcspn(p, "&")) && p < end)) put(o, "&", 1);
    }
}

/* The place of "://" behind a scheme, or NULL. */
static const char *scheme_end(const char *p, const char *end) {
    const char *s = p;
    while (s < end && (alnum(*s) || *s == '+' || *s == '.' || *s == '-')) s++;
    return s > p && end - s >= 3 && memcmp(s, "://", 3) == 0 ? s : NULL;
}

/* user:password@rest: from the first colon to the LAST at sign of all of it, since a password may hold any character unescaped. */
static const char *put_userinfo(struct out *o, const char *p, const char *end) {
    const char *at = NULL, *colon = NULL;
    for (const char *s = p; s < end; s++)
        if (*s == '@') at = s;
    if (at) colon = memchr(p, ':', (size_t)(at - p));
    if (!colon) return p;
    put(o, p, (size_t)(colon - p) + 1);
    put_stars(o);
    return at;
}

static void put_url(struct out *o, const char *p, const char *end) {
    const char *s = scheme_end(p, end);
    if (s) {
        put(o, p, (size_t)(s - p) + 3);
        p = s + 3;
    }
    if (p < end && *p != '/') p = put_userinfo(o, p, end);
    const char *q = memchr(p, '?', (size_t)(end - p));
    if (!q) {
        put(o, p, (size_t)(end - p));
        return;
    }
    put(o, p, (size_t)(q - p) + 1);
    put_query(o, q + 1, end);
}

/* The end of a key=value pair's value: quoted with '…' or up to a blank, a backslash takes the next character with it. */
static const char *value_end(const char *p) {
    bool quoted = *p == '\'';
    if (quoted) p++;
    for (; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
        } else if (quoted ? *p == '\'' : blank(*p)) {
            return quoted ? p + 1 : p;
        }
    }
    return p;
}

static const char *key_end(const char *p) {
    while (alnum(*p) || *p == '_' || *p == '-' || *p == '.') p++;
    return p;
}

static const char *skip_blanks(const char *p) {
    while (blank(*p)) p++;
    return p;
}

static bool is_pairs(const char *s) {
    const char *k = skip_blanks(s), *end = key_end(k);
    return end > k && *skip_blanks(end) == '=';
}

static void put_pairs(struct out *o, const char *p) {
    while (*p) {
        const char *k = skip_blanks(p);
        put(o, p, (size_t)(k - p));
        if (!*k) return;
        const char *kend = key_end(k), *eq = skip_blanks(kend);
        if (kend == k || *eq != '=') {
            put_stars(o); /* not a pair: perhaps the rest of a password with a blank in it */
            return;
        }
        const char *v = skip_blanks(eq + 1), *vend = value_end(v);
        put(o, k, (size_t)(v - k));
        const char *url = *v == '\'' ? v + 1 : v;
        if (key_is_secret(k, (size_t)(kend - k))) {
            put_stars(o);
        } else if (scheme_end(url, vend)) {
            put(o, v, (size_t)(url - v));
            put_url(o, url, vend); /* a whole URL as dbname */
        } else {
            put(o, v, (size_t)(vend - v));
        }
        p = vend;
    }
}

void text_dsn_redact(const char *dsn, char *out, size_t out_len) {
    struct out o = {out, 0, out_len};
    if (out_len == 0) return;
    if (!dsn) dsn = "";
    if (is_pairs(dsn)) put_pairs(&o, dsn);
    else put_url(&o, dsn, dsn + strlen(dsn));
    out[o.n] = 0;
}
