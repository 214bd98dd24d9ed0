/* Names, identities and the frame of every document: see DESIGN in format.h. */
#include "engine/chain/format.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

struct chain_hooks chain_hooks = {
    .random = random_bytes,
    .now_us = clock_wall_us,
    .frame_raw = (size_t)1 << 20,
    .chunk_stored = (size_t)16 << 20,
    .page_links = 128,
    .page_refs = 256,
    .torn_wait_us = 50000,
};

int chain_random_hex(char *out, size_t bytes, struct err *e) {
    unsigned char raw[32];
    if (bytes > sizeof raw) return err_set(e, CODE_INTERNAL, "too many random bytes asked");
    if (chain_hooks.random(raw, bytes, e) < 0) return -1;
    text_hex(raw, bytes, out);
    return 0;
}

bool chain_is_hex(const char *s, size_t digits) {
    size_t i = 0;
    for (; s[i] != '\0'; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f'))) return false;
    return i == digits;
}

void path_lineage(char out[CHAIN_PATH]) {
    snprintf(out, CHAIN_PATH, "lineage.json");
}
void path_page(char out[CHAIN_PATH], const char *digest) {
    snprintf(out, CHAIN_PATH, "pages/%s.json", digest);
}
void path_shape(char out[CHAIN_PATH], const char *digest) {
    snprintf(out, CHAIN_PATH, "shapes/%s.json", digest);
}
void path_full_start(char out[CHAIN_PATH], const char *seg) {
    snprintf(out, CHAIN_PATH, "seg-%s/full.start.json", seg);
}
void path_full(char out[CHAIN_PATH], const char *seg) {
    snprintf(out, CHAIN_PATH, "seg-%s/full.json", seg);
}
void path_done(char out[CHAIN_PATH], const char *seg, uint32_t table, const char *attempt) {
    snprintf(out, CHAIN_PATH, "seg-%s/done/%u-%s.json", seg, table, attempt);
}
void path_rows(char out[CHAIN_PATH], const char *seg, uint32_t table, const char *attempt, uint64_t k) {
    snprintf(out, CHAIN_PATH, "seg-%s/rows/%u/%s-%llu.chunk", seg, table, attempt, (unsigned long long)k);
}
void path_link(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt) {
    snprintf(out, CHAIN_PATH, "seg-%s/links/%llu-%s.json", seg, (unsigned long long)n, attempt);
}
void path_log_dir(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt) {
    snprintf(out, CHAIN_PATH, "seg-%s/log/%llu-%s/", seg, (unsigned long long)n, attempt);
}
void path_log(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt, uint64_t k) {
    snprintf(out, CHAIN_PATH, "seg-%s/log/%llu-%s/%llu.chunk", seg, (unsigned long long)n, attempt, (unsigned long long)k);
}

int link_id(const char *parent, const void *doc, size_t n, char id[CHAIN_ID], struct err *e) {
    unsigned char sum[32];
    char hex[65];
    int rc = -1;
    struct sha256 *h = sha256_new(e);
    if (h == NULL) return -1;
    if (sha256_add(h, parent, strlen(parent), e) < 0 || sha256_add(h, doc, n, e) < 0 || sha256_end(h, sum, e) < 0) goto out;
    text_hex(sum, 32, hex);
    memcpy(id, hex, CHAIN_ID - 1);
    id[CHAIN_ID - 1] = '\0';
    rc = 0;
out:
    sha256_free(h);
    return rc;
}

/* ---- documents ---- */

void doc_begin(struct jw *j, struct buf *b, bool zstd, struct err *e) {
    jw_begin(j, b, e);
    jw_obj(j);
    jw_kv_int(j, "format", FORMAT_VERSION);
    jw_key(j, "needs");
    jw_arr(j);
    if (zstd) jw_str(j, "zstd");
    jw_arr_end(j);
}

#define SEAL_HEAD ",\"crc32c\":\""
#define SEAL_LEN (sizeof SEAL_HEAD - 1 + 8 + 3)

int doc_end(struct jw *j, struct err *e) {
    struct buf *b = j->b;
    jw_obj_end(j);
    if (jw_end(j) < 0) return -1;
    if (b->n == 0 || b->p[b->n - 1] != '}') return err_set(e, CODE_INTERNAL, "a document does not end in a brace");
    b->n--;
    return buf_addf(b, e, SEAL_HEAD "%08x\"}\n", crc32c(0, b->p, b->n));
}

static const char *known_needs[] = {"zstd"};

static int needs_check(const json_t *o, const char *what, struct err *e) {
    int64_t format;
    json_t *needs, *need;
    size_t i, k;
    if (json_get_i64(o, "format", &format, what, e) < 0) return -1;
    if (format != FORMAT_VERSION) {
        err_set(e, CODE_FORMAT_UNSUPPORTED, "'%s' has format %lld, this sluice reads format %d", what, (long long)format, FORMAT_VERSION);
        return err_hint(e, "use the sluice that wrote it, or a newer one");
    }
    if (doc_get_array(o, "needs", &needs, what, e) < 0) return -1;
    json_array_foreach(needs, i, need) {
        const char *s = json_string_value(need);
        if (s == NULL) return doc_bad(e, what, "a need is not a text");
        for (k = 0; k < MEM_ARRAY_LEN(known_needs) && strcmp(known_needs[k], s) != 0; k++)
            ;
        if (k < MEM_ARRAY_LEN(known_needs)) continue;
        err_set(e, CODE_FORMAT_UNSUPPORTED, "'%s' needs the feature '%.60s', which this sluice does not know", what, s);
        return err_hint(e, "use the sluice that wrote it, or a newer one");
    }
    return 0;
}

int doc_bad(struct err *e, const char *what, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(e, CODE_MANIFEST_INVALID, "'%s' is damaged: %s", what, text);
    return err_hint(e, "restore '%s' from another copy of the store, or take a new full with `sluice backup full --force-overwrite`", what);
}

int doc_parse(const char *p, size_t n, const char *what, json_t **o, struct err *e) {
    char seal[SEAL_LEN + 1];
    struct err why = {0};
    *o = json_parse(p, n, what, &why);
    if (*o == NULL) {
        if (why.code != CODE_MANIFEST_INVALID) {
            *e = why;
            return -1;
        }
        return doc_bad(e, what, "%.400s", why.msg);
    }
    if (!json_is_object(*o)) {
        doc_bad(e, what, "it is no object");
        goto bad;
    }
    if (needs_check(*o, what, e) < 0) {
        if (e->code == CODE_MANIFEST_INVALID && e->hint[0] == '\0') doc_bad(e, what, "it has no format or no needs");
        goto bad;
    }
    if (n < SEAL_LEN) {
        doc_bad(e, what, "it is cut");
        goto bad;
    }
    snprintf(seal, sizeof seal, SEAL_HEAD "%08x\"}\n", crc32c(0, p, n - SEAL_LEN));
    if (memcmp(seal, p + n - SEAL_LEN, SEAL_LEN) != 0) {
        doc_bad(e, what, "its checksum does not fit its bytes");
        goto bad;
    }
    return 0;
bad:
    json_decref(*o);
    *o = NULL;
    return -1;
}

void doc_kv_pos(struct jw *j, const char *k, const struct pos *p) {
    jw_key(j, k);
    if (p == NULL || !pos_is_set(p)) {
        jw_null(j);
        return;
    }
    jw_obj(j);
    jw_kv_str(j, "engine", p->engine);
    jw_kv_str(j, "token", p->token);
    jw_obj_end(j);
}

int doc_get_pos(const json_t *o, const char *k, struct pos *p, const char *what, struct err *e) {
    const json_t *v = json_object_get(o, k);
    const char *engine, *token;
    struct err why = {0};
    memset(p, 0, sizeof *p);
    if (v == NULL) return doc_bad(e, what, "'%s' is missing", k);
    if (json_is_null(v)) return 0;
    engine = json_string_value(json_object_get(v, "engine"));
    token = json_string_value(json_object_get(v, "token"));
    if (engine == NULL || token == NULL || strlen(engine) >= sizeof p->engine || strlen(token) >= sizeof p->token)
        return doc_bad(e, what, "'%s' is no position", k);
    if (pos_set(p, engine, token, &why) < 0) return doc_bad(e, what, "'%s': %.300s", k, why.msg);
    return 0;
}

int doc_get_text(const json_t *o, const char *k, char *out, size_t cap, const char *what, struct err *e) {
    const json_t *v = json_object_get(o, k);
    const char *s = json_string_value(v);
    if (s == NULL) return doc_bad(e, what, "'%s' is missing or no text", k);
    if (strlen(s) >= cap) return doc_bad(e, what, "'%s' is too long", k);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

int doc_get_hex(const json_t *o, const char *k, char *out, size_t digits, const char *what, struct err *e) {
    if (doc_get_text(o, k, out, digits + 1, what, e) < 0) return -1;
    if (!chain_is_hex(out, digits)) return doc_bad(e, what, "'%s' is not %zu hex digits", k, digits);
    return 0;
}

int doc_get_u64(const json_t *o, const char *k, uint64_t *v, const char *what, struct err *e) {
    if (json_get_u64(o, k, v, what, e) < 0) return doc_bad(e, what, "'%s' is missing or no number", k);
    return 0;
}

int doc_get_array(const json_t *o, const char *k, json_t **a, const char *what, struct err *e) {
    *a = json_object_get(o, k);
    if (!json_is_array(*a)) return doc_bad(e, what, "'%s' is missing or no list", k);
    return 0;
}

int doc_expect(const json_t *o, const char *k, const char *want, const char *what, struct err *e) {
    const char *s = json_string_value(json_object_get(o, k));
    if (s == NULL) return doc_bad(e, what, "'%s' is missing or no text", k);
    if (strcmp(s, want) != 0) return doc_bad(e, what, "'%s' is '%.80s', expected '%.80s': it belongs elsewhere", k, s, want);
    return 0;
}

int doc_load(struct store *st, const char *path, struct buf *b, struct err *e) {
    char etag[STORE_ETAG];
    bool found, same;
    buf_reset(b);
    if (st->ops->get(st, path, FORMAT_DOC_MAX, NULL, b, etag, &found, &same, e) < 0) return err_wrap(e, "reading '%s'", path);
    if (found) return 0;
    err_set(e, CODE_MANIFEST_INVALID, "'%s' is missing from the chain at '%s'", path, st->url);
    return err_hint(e, "restore '%s' from another copy of the store, or take a new full with `sluice backup full --force-overwrite`", path);
}

int doc_put_new(struct store *st, const char *path, const struct buf *b, struct err *e) {
    enum store_put_result r;
    char etag[STORE_ETAG];
    struct buf there = BUF_INIT(FORMAT_DOC_MAX);
    int rc = -1;
    if (st->ops->put(st, path, b->p, b->n, true, NULL, &r, etag, e) < 0) {
        err_wrap(e, "writing '%s'", path);
        goto out;
    }
    if (r == STORE_PUT_OK) {
        rc = 0;
        goto out;
    }
    if (doc_load(st, path, &there, e) < 0) goto out;
    if (there.n == b->n && memcmp(there.p, b->p, b->n) == 0) {
        rc = 0;
        goto out;
    }
    err_set(e, CODE_CHAIN_CONFLICT, "'%s' was written by another process", path);
    err_hint(e, "see who else writes the chain at '%s'; nothing of this run is in it", st->url);
out:
    buf_free(&there);
    return rc;
}

int doc_put_digest(struct store *st, const char *path, const struct buf *b, struct err *e) {
    enum store_put_result r;
    if (st->ops->put(st, path, b->p, b->n, false, NULL, &r, NULL, e) < 0) return err_wrap(e, "writing '%s'", path);
    return 0;
}

int doc_put_shape(struct store *st, const struct shape *s, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], digest[DIGEST_HEX], label[160];
    int rc = -1;
    if (shape_to_json(s, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0) goto out;
    if (strcmp(digest, s->digest) != 0) {
        err_set(e, CODE_INTERNAL, "the shape of '%s' does not have the digest it names", shape_label(s, label));
        goto out;
    }
    path_shape(path, digest);
    rc = doc_put_digest(st, path, &b, e);
out:
    buf_free(&b);
    return rc;
}
