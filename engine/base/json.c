/* DESIGN
 *
 * 1. The writer cannot produce malformed text: a value in an object needs a key, ends match their beginnings, strings are valid UTF-8
 *    and escaped. A misuse or a failure sticks and is told once by jw_end.
 * 2. What it writes depends on the calls alone (no spaces, one way to escape), so bytes can be hashed.
 * 3. Readers refuse duplicate keys and say which key of which document is wrong. */
#include "engine/base/json.h"

#include <string.h>

#include "engine/base/text.h"

#define DEPTH_MAX 63

void jw_begin(struct jw *j, struct buf *b, struct err *e) {
    memset(j, 0, sizeof *j);
    j->b = b;
    j->e = e;
}

static void jw_fail(struct jw *j, const char *why) {
    if (!j->failed) err_set(j->e, CODE_INTERNAL, "json writer: %s", why);
    j->failed = 1;
}

static void put(struct jw *j, const char *p, size_t n) {
    if (!j->failed && buf_add(j->b, p, n, j->e) < 0) j->failed = 1;
}

static void separate(struct jw *j) {
    uint64_t bit = 1ull << j->depth;
    if (j->comma & bit) put(j, ",", 1);
    j->comma |= bit;
}

/* Everything that may stand before a value; false when no value may stand here. */
static bool value_ok(struct jw *j) {
    if (j->failed) return false;
    if (j->after_key) {
        j->after_key = 0;
        return true;
    }
    if (j->depth > 0 && (j->obj & 1ull << j->depth)) return jw_fail(j, "a value without a key"), false;
    if (j->depth == 0 && (j->comma & 1)) return jw_fail(j, "a second value at the top"), false;
    separate(j);
    return !j->failed;
}

static void open_level(struct jw *j, const char *mark, bool obj) {
    if (!value_ok(j)) return;
    if (j->depth == DEPTH_MAX) {
        jw_fail(j, "nested too deeply");
        return;
    }
    j->depth++;
    uint64_t bit = 1ull << j->depth;
    j->comma &= ~bit;
    j->obj = obj ? j->obj | bit : j->obj & ~bit;
    put(j, mark, 1);
}

static void close_level(struct jw *j, const char *mark, bool obj) {
    if (j->failed) return;
    if (j->depth == 0 || j->after_key || obj != ((j->obj & 1ull << j->depth) != 0)) {
        jw_fail(j, "an end without its beginning");
        return;
    }
    j->depth--;
    put(j, mark, 1);
}

void jw_obj(struct jw *j) {
    open_level(j, "{", true);
}

void jw_obj_end(struct jw *j) {
    close_level(j, "}", true);
}

void jw_arr(struct jw *j) {
    open_level(j, "[", false);
}

void jw_arr_end(struct jw *j) {
    close_level(j, "]", false);
}

static void quoted(struct jw *j, const char *s, size_t n) {
    if (j->failed) return;
    if (!text_utf8_valid(s, n) || (n && memchr(s, 0, n))) {
        err_set(j->e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes is not valid UTF-8 and cannot stand in JSON", n);
        j->failed = 1;
        return;
    }
    put(j, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        put(j, s + from, i - from);
        from = i + 1;
        static const char letters[] = "btn\0fr"; /* 8 9 10 11 12 13 */
        char esc[7] = {'\\', (char)c, 0};
        size_t len = 2;
        if (c < 0x20) {
            if (c >= 8 && c <= 13 && letters[c - 8]) esc[1] = letters[c - 8];
            else len = (size_t)snprintf(esc, sizeof esc, "\\u%04x", c);
        }
        put(j, esc, len);
    }
    put(j, s + from, n - from);
    put(j, "\"", 1);
}

void jw_key(struct jw *j, const char *k) {
    if (j->failed) return;
    if (j->depth == 0 || j->after_key || !(j->obj & 1ull << j->depth)) {
        jw_fail(j, "a key outside an object");
        return;
    }
    separate(j);
    quoted(j, k, strlen(k));
    put(j, ":", 1);
    j->after_key = 1;
}

void jw_strn(struct jw *j, const char *s, size_t n) {
    if (value_ok(j)) quoted(j, s, n);
}

void jw_str(struct jw *j, const char *s) {
    if (s) jw_strn(j, s, strlen(s));
    else jw_null(j);
}

void jw_raw(struct jw *j, const char *p, size_t n) {
    if (value_ok(j)) put(j, p, n);
}

void jw_int(struct jw *j, int64_t v) {
    if (value_ok(j) && buf_addf(j->b, j->e, "%lld", (long long)v) < 0) j->failed = 1;
}

void jw_uint(struct jw *j, uint64_t v) {
    if (value_ok(j) && buf_addf(j->b, j->e, "%llu", (unsigned long long)v) < 0) j->failed = 1;
}

void jw_bool(struct jw *j, int v) {
    jw_raw(j, v ? "true" : "false", v ? 4 : 5);
}

void jw_null(struct jw *j) {
    jw_raw(j, "null", 4);
}

void jw_kv_str(struct jw *j, const char *k, const char *s) {
    jw_key(j, k);
    jw_str(j, s);
}

void jw_kv_int(struct jw *j, const char *k, int64_t v) {
    jw_key(j, k);
    jw_int(j, v);
}

void jw_kv_uint(struct jw *j, const char *k, uint64_t v) {
    jw_key(j, k);
    jw_uint(j, v);
}

void jw_kv_bool(struct jw *j, const char *k, int v) {
    jw_key(j, k);
    jw_bool(j, v);
}

int jw_end(struct jw *j) {
    if (!j->failed && (j->depth != 0 || j->after_key)) jw_fail(j, "ended inside a value");
    if (!j->failed && !(j->comma & 1)) jw_fail(j, "nothing was written");
    return j->failed ? -1 : 0;
}

/* ---- readers --------------------------------------------------------------------------------------------------------- */

json_t *json_parse(const char *p, size_t n, const char *what, struct err *e) {
    json_error_t at;
    json_t *o = json_loadb(n ? p : "", n, JSON_REJECT_DUPLICATES, &at);
    if (o) return o;
    if (json_error_code(&at) == json_error_out_of_memory) err_set(e, CODE_NO_MEMORY, "no memory for %s", what);
    else err_set(e, CODE_MANIFEST_INVALID, "%s is not valid JSON: %s at byte %d", what, at.text, at.position);
    return NULL;
}

static const json_t *member(const json_t *o, const char *k, const char *what, struct err *e) {
    const json_t *v = json_is_object(o) ? json_object_get(o, k) : NULL;
    if (!json_is_object(o)) err_set(e, CODE_MANIFEST_INVALID, "%s is not an object", what);
    else if (!v) err_set(e, CODE_MANIFEST_INVALID, "%s has no '%s'", what, k);
    return v;
}

static int wrong(const char *k, const char *kind, const char *what, struct err *e) {
    return err_set(e, CODE_MANIFEST_INVALID, "'%s' of %s is not %s", k, what, kind);
}

int json_get_str(const json_t *o, const char *k, const char **s, const char *what, struct err *e) {
    const json_t *v = member(o, k, what, e);
    if (!v) return -1;
    if (!json_is_string(v)) return wrong(k, "a text", what, e);
    *s = json_string_value(v);
    return 0;
}

int json_get_i64(const json_t *o, const char *k, int64_t *n, const char *what, struct err *e) {
    const json_t *v = member(o, k, what, e);
    if (!v) return -1;
    if (!json_is_integer(v)) return wrong(k, "a whole number", what, e);
    *n = json_integer_value(v);
    return 0;
}

int json_get_u64(const json_t *o, const char *k, uint64_t *n, const char *what, struct err *e) {
    int64_t i;
    if (json_get_i64(o, k, &i, what, e) < 0) return -1;
    if (i < 0) return wrong(k, "a whole number from 0 on", what, e);
    *n = (uint64_t)i;
    return 0;
}

int json_get_bool(const json_t *o, const char *k, bool *b, const char *what, struct err *e) {
    const json_t *v = member(o, k, what, e);
    if (!v) return -1;
    if (!json_is_boolean(v)) return wrong(k, "true or false", what, e);
    *b = json_is_true(v);
    return 0;
}

const char *json_opt_str(const json_t *o, const char *k) {
    return json_string_value(json_object_get(o, k));
}
