/* DESIGN: finding the secrets of a DSN.
 *  1. Three forms, as the redaction of logs knows them: scheme://user:password@host/db?key=value, key=value pairs with quotes, and
 *     user:password@rest.
 *  2. When in doubt more is taken for secret: a password that holds an unescaped @, / or : is still found whole.
 *  3. What is not a secret is never touched: sealing and resolving replace exactly these spans. */
#include "engine/control/dsn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <fcntl.h>
#include <errno.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/control/control.h"

#define DSN_MAX KiB(64)

bool dsn_is_sealed(const char *p, size_t len) {
    return len == strlen(DSN_SEALED) && memcmp(p, DSN_SEALED, len) == 0;
}

static bool is_variable(const char *p, size_t len) {
    if (len < 4 || memcmp(p, "${", 2) != 0 || p[len - 1] != '}') return false;
    for (size_t i = 2; i < len - 1; i++) {
        bool letter = (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || p[i] == '_';
        if (!letter && !(i > 2 && p[i] >= '0' && p[i] <= '9')) return false;
    }
    return true;
}

static bool is_file(const char *p, size_t len) {
    return len > 5 && memcmp(p, "file:", 5) == 0;
}

bool dsn_is_reference(const char *p, size_t len) {
    return is_variable(p, len) || is_file(p, len);
}

static bool key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}
static bool blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool key_is_secret(const char *p, size_t n, char out[40]) {
    static const char *const words[] = {"password", "passwd", "passphrase", "secret", "token"};
    size_t k = 0;
    for (size_t i = 0; i < n && k < 30; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '%' && i + 2 < n && text_unhex(p + i + 1, 2, &c) == 0) i += 2;
        out[k++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    out[k] = 0;
    for (size_t i = 0; i < MEM_ARRAY_LEN(words); i++)
        if (strstr(out, words[i])) return true;
    return strcmp(out, "pwd") == 0 || strcmp(out, "pass") == 0;
}

static int add(struct dsn_secret *v, size_t *n, const char *param, const char *dsn, const char *at, const char *end, bool url, bool quoted,
               struct err *e) {
    if (at == end) return 0; /* an empty password is no secret */
    if (*n == DSN_SECRETS) return err_set(e, CODE_DSN, "a DSN has more than %d secrets", DSN_SECRETS);
    struct dsn_secret *s = &v[*n];
    size_t same = 0, len = strlen(param);
    for (size_t i = 0; i < *n; i++)
        if (strncmp(v[i].param, param, len) == 0 && (v[i].param[len] == 0 || v[i].param[len] == '#')) same++;
    if (same) snprintf(s->param, sizeof s->param, "%.30s#%zu", param, same + 1);
    else snprintf(s->param, sizeof s->param, "%.30s", param);
    s->at = (size_t)(at - dsn);
    s->len = (size_t)(end - at);
    s->url = url;
    s->quoted = quoted;
    ++*n;
    return 0;
}

/* p: behind ://, or the begin of user:password@rest. */
static int scan_url(const char *dsn, const char *p, struct dsn_secret *v, size_t *n, struct err *e) {
    const char *end = p + strcspn(p, "/?#"), *at = NULL, *colon;
    for (const char *s = p; s < end; s++)
        if (*s == '@') at = s;
    if (!at && (colon = memchr(p, ':', (size_t)(end - p))) && strspn(colon + 1, "0123456789") != (size_t)(end - colon - 1))
        at = strrchr(end, '@'); /* not a port: a password with a slash in it */
    if (at) {
        if ((colon = memchr(p, ':', (size_t)(at - p))) && add(v, n, "password", dsn, colon + 1, at, true, false, e) < 0) return -1;
        p = at;
    }
    p = strchr(p, '?');
    while (p && *p) {
        const char *k = p + 1, *stop = k + strcspn(k, "&"), *eq = memchr(k, '=', (size_t)(stop - k));
        char key[40];
        if (eq && key_is_secret(k, (size_t)(eq - k), key) && add(v, n, key, dsn, eq + 1, stop, true, false, e) < 0) return -1;
        p = stop;
    }
    return 0;
}

static const char *scheme_end(const char *p) {
    const char *s = p;
    while ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '+' || *s == '-' || *s == '.')
        s++;
    return s > p && strncmp(s, "://", 3) == 0 ? s + 3 : NULL;
}

static int scan_pairs(const char *dsn, const char *p, struct dsn_secret *v, size_t *n, struct err *e) {
    while (*p) {
        while (blank(*p))
            p++;
        const char *k = p, *kend;
        while (key_char(*p))
            p++;
        kend = p;
        while (blank(*p))
            p++;
        if (*p != '=' || kend == k) return 0; /* not a pair: the driver will say so */
        p++;
        while (blank(*p))
            p++;
        bool quoted = *p == '\'';
        const char *val = quoted ? ++p : p;
        while (*p && (quoted ? *p != '\'' : !blank(*p)))
            p += *p == '\\' && p[1] ? 2 : 1;
        char key[40];
        if (key_is_secret(k, (size_t)(kend - k), key)) {
            if (add(v, n, key, dsn, val, p, false, quoted, e) < 0) return -1;
        } else {
            const char *url = scheme_end(val);
            if (url && url < p && strcspn(url, " '") >= (size_t)(p - url) && scan_url(dsn, url, v, n, e) < 0) return -1;
        }
        if (quoted && *p) p++;
    }
    return 0;
}

int dsn_secrets(const char *dsn, struct dsn_secret *v, size_t *n, struct err *e) {
    *n = 0;
    if (strlen(dsn) > DSN_MAX) return err_set(e, CODE_DSN, "a DSN is longer than 64 KiB");
    const char *url = scheme_end(dsn), *p = dsn;
    if (url) return scan_url(dsn, url, v, n, e);
    while (blank(*p))
        p++;
    while (key_char(*p))
        p++;
    while (blank(*p))
        p++;
    if (*p == '=') return scan_pairs(dsn, dsn, v, n, e);
    const char *at = strchr(dsn, '@'), *colon = strchr(dsn, ':');
    if (at && colon && colon < at && *dsn != '/' && *dsn != '.' && strncmp(dsn, "file:", 5) != 0) return scan_url(dsn, dsn, v, n, e);
    const char *q = strchr(dsn, '?');
    return q ? scan_url(dsn, q, v, n, e) : 0;
}

/* A secret's text in the form of its place. */
static int put_encoded(struct buf *b, const struct dsn_secret *s, const char *p, struct err *e) {
    if (s->url) {
        for (; *p; p++) {
            unsigned char c = (unsigned char)*p;
            bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c);
            if ((plain ? buf_addc(b, (char)c, e) : buf_addf(b, e, "%%%02X", c)) < 0) return -1;
        }
        return 0;
    }
    if (!s->quoted && buf_addc(b, '\'', e) < 0) return -1;
    for (; *p; p++)
        if (((*p == '\'' || *p == '\\') && buf_addc(b, '\\', e) < 0) || buf_addc(b, *p, e) < 0) return -1;
    return s->quoted ? 0 : buf_addc(b, '\'', e);
}

/* One line: a newline at the end is not part of a password. */
static int read_secret_file(const char *path, char **out, struct err *e) {
    char text[4097];
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    if (fd < 0) return err_set(e, CODE_SECRET, "cannot read the secret in '%s': %s", path, strerror(errno));
    for (ssize_t r; n < sizeof text && (r = read(fd, text + n, sizeof text - n)) != 0;) {
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) {
            err_set(e, CODE_SECRET, "cannot read the secret in '%s': %s", path, strerror(errno));
            goto out;
        }
        n += (size_t)r;
    }
    if (n == sizeof text) {
        err_set(e, CODE_SECRET, "the secret in '%s' is longer than 4096 bytes", path);
        goto out;
    }
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (n == 0) {
        err_set(e, CODE_SECRET, "the file '%s' holds no secret", path);
        goto out;
    }
    if (memchr(text, 0, n)) {
        err_set(e, CODE_SECRET, "the secret in '%s' holds a NUL byte", path);
        goto out;
    }
    rc = (*out = mem_strndup(text, n, e)) ? 0 : -1;
out:
    explicit_bzero(text, sizeof text);
    close(fd);
    return rc;
}

static int read_variable(const char *p, size_t len, char **out, struct err *e) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(len - 3), p + 2);
    const char *v = getenv(name);
    if (!v || !*v) {
        err_set(e, CODE_SECRET, "the variable '%s' is not set", name);
        return err_hint(e, "the DSN takes its secret from it: export %s", name);
    }
    return (*out = mem_strdup(v, e)) ? 0 : -1;
}

static void wipe_free(char *p) {
    if (p) explicit_bzero(p, strlen(p));
    mem_free(p);
}

int secret_resolve(const char *dsn, char **out, struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    struct buf b = BUF_INIT(DSN_MAX * 4);
    size_t n = 0, at = 0, len = strlen(dsn);
    char *text = NULL;
    int rc = -1;
    *out = NULL;
    if (is_variable(dsn, len)) return read_variable(dsn, len, out, e); /* the whole DSN from one variable */
    if (dsn_secrets(dsn, v, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        const char *p = dsn + v[i].at;
        if (!dsn_is_reference(p, v[i].len)) continue;
        if (is_variable(p, v[i].len)) {
            if (read_variable(p, v[i].len, &text, e) < 0) goto out;
        } else {
            char path[4096];
            snprintf(path, sizeof path, "%.*s", (int)(v[i].len - 5), p + 5);
            if (v[i].url) { /* a path inside a URL may be percent-encoded */
                char *w = path;
                for (char *r = path; *r; r++) {
                    unsigned char c = (unsigned char)*r;
                    if (c == '%' && text_unhex(r + 1, 2, &c) == 0 && c) r += 2;
                    *w++ = (char)c;
                }
                *w = 0;
            }
            if (read_secret_file(path, &text, e) < 0) goto out;
        }
        if (buf_add(&b, dsn + at, v[i].at - at, e) < 0 || put_encoded(&b, &v[i], text, e) < 0) goto out;
        at = v[i].at + v[i].len;
        wipe_free(text);
        text = NULL;
    }
    if (buf_adds(&b, dsn + at, e) < 0) goto out;
    rc = (*out = buf_take(&b, NULL, e)) ? 0 : -1;
out:
    wipe_free(text);
    if (b.p) explicit_bzero(b.p, b.n);
    buf_free(&b);
    return rc;
}
