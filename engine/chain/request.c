/* Stop requests and consumers' heartbeats: small objects beside the log. A stop carries a nonce, so that a run can tell a new one from
 * what was there when it began; a stream's name stands in hex, since names of objects know few characters (long ones by digest: a file
 * name has an end). */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/chain/format.h"

#define SMALL KiB(16)

static int stream_path(char out[CHAIN_PATH], const char *dir, const char *stream, struct err *e) {
    char hex[2 * 100 + 1], digest[DIGEST_HEX];
    size_t n = strlen(stream);
    if (n == 0) return err_set(e, CODE_USAGE, "a stream-id is empty");
    if (n <= 100) {
        text_hex(stream, n, hex);
        snprintf(out, CHAIN_PATH, "%s/%s.json", dir, hex);
        return 0;
    }
    if (sha256_hex(stream, n, digest, e) < 0) return -1;
    snprintf(out, CHAIN_PATH, "%s/x%s.json", dir, digest); /* x is no hex digit */
    return 0;
}

static int stop_path(char out[CHAIN_PATH], const char *which, struct err *e) {
    if (which && strcmp(which, CHAIN_STOP_PRODUCER) != 0) return stream_path(out, "stop", which, e);
    snprintf(out, CHAIN_PATH, "stop/%s.json", which ? "producer" : "consumers");
    return 0;
}

static int put_small(struct store *st, const char *path, const struct buf *b, struct err *e) {
    enum store_put_result r;
    if (st->ops->put(st, path, b->p, b->n, false, NULL, &r, NULL, e) < 0) return err_wrap(e, "writing '%s'", path);
    return 0;
}

int chain_stop_put(struct store *st, const char *which, struct err *e) {
    struct buf b = BUF_INIT(SMALL);
    struct jw j;
    char path[CHAIN_PATH], nonce[33];
    int rc = -1;
    if (stop_path(path, which, e) < 0 || chain_random_hex(nonce, 16, e) < 0) goto out;
    jw_begin(&j, &b, e);
    jw_obj(&j);
    jw_kv_str(&j, "nonce", nonce);
    jw_kv_int(&j, "at", chain_hooks.now_us());
    jw_obj_end(&j);
    if (jw_end(&j) < 0 || buf_addc(&b, '\n', e) < 0) goto out;
    rc = put_small(st, path, &b, e);
out:
    buf_free(&b);
    return rc;
}

static int get_small(struct store *st, const char *path, json_t **o, struct err *e) {
    struct buf b = BUF_INIT(SMALL);
    bool found, same;
    char etag[STORE_ETAG];
    int rc = -1;
    *o = NULL;
    if (st->ops->get(st, path, SMALL, NULL, &b, etag, &found, &same, e) < 0) {
        err_wrap(e, "reading '%s'", path);
        goto out;
    }
    if (found && (*o = json_parse(b.p ? b.p : "", b.n, path, e)) == NULL) goto out;
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

int chain_stop_nonce(struct store *st, const char *which, char nonce[33], struct err *e) {
    char path[CHAIN_PATH];
    json_t *o;
    const char *s;
    nonce[0] = '\0';
    if (stop_path(path, which, e) < 0 || get_small(st, path, &o, e) < 0) return -1;
    s = o ? json_opt_str(o, "nonce") : NULL;
    if (s) snprintf(nonce, 33, "%s", s);
    json_decref(o);
    return 0;
}

int chain_consumer_put(struct store *st, const struct consumer *c, struct err *e) {
    struct buf b = BUF_INIT(SMALL);
    struct jw j;
    char path[CHAIN_PATH];
    int rc = -1;
    if (stream_path(path, "consumers", c->stream_id, e) < 0) goto out;
    jw_begin(&j, &b, e);
    jw_obj(&j);
    jw_kv_str(&j, "stream_id", c->stream_id);
    jw_kv_str(&j, "target", c->target);
    jw_kv_str(&j, "link_id", c->link_id);
    jw_kv_uint(&j, "seq", c->seq);
    jw_kv_int(&j, "seen_us", c->seen_us);
    jw_kv_int(&j, "stopped_us", c->stopped_us);
    jw_kv_str(&j, "host", c->host);
    jw_kv_int(&j, "pid", c->pid);
    jw_obj_end(&j);
    if (jw_end(&j) < 0 || buf_addc(&b, '\n', e) < 0) goto out;
    rc = put_small(st, path, &b, e);
out:
    buf_free(&b);
    return rc;
}

struct gather {
    struct store *st;
    struct arena *a;
    struct consumer **v;
    size_t n, cap;
    struct err *e;
    bool failed;
};

static void text_of(const json_t *o, const char *k, char *out, size_t cap) {
    const char *s = json_opt_str(o, k);
    snprintf(out, cap, "%s", s ? s : "");
}

static int gather_one(void *arg, const char *path, uint64_t size, int64_t mtime_us) {
    struct gather *g = arg;
    struct err ignored = {0};
    json_t *o;
    (void)size, (void)mtime_us;
    if (get_small(g->st, path, &o, &ignored) < 0 || o == NULL) return 0; /* a heartbeat that cannot be read is no heartbeat */
    struct consumer *c = arena_zalloc(g->a, sizeof *c, g->e);
    if (c && g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 8;
        struct consumer **more = arena_alloc(g->a, cap * sizeof *more, g->e);
        if (more == NULL) c = NULL;
        else {
            if (g->n) memcpy(more, g->v, g->n * sizeof *more);
            g->v = more;
            g->cap = cap;
        }
    }
    g->failed = c == NULL;
    if (c) {
        text_of(o, "stream_id", c->stream_id, sizeof c->stream_id);
        text_of(o, "target", c->target, sizeof c->target);
        text_of(o, "link_id", c->link_id, sizeof c->link_id);
        text_of(o, "host", c->host, sizeof c->host);
        c->seq = (uint64_t)json_integer_value(json_object_get(o, "seq"));
        c->seen_us = json_integer_value(json_object_get(o, "seen_us"));
        c->stopped_us = json_integer_value(json_object_get(o, "stopped_us"));
        c->pid = json_integer_value(json_object_get(o, "pid"));
        if (c->stream_id[0]) g->v[g->n++] = c;
    }
    json_decref(o);
    return g->failed;
}

int chain_consumers(struct store *st, struct arena *a, struct consumer **out, size_t *n, struct err *e) {
    struct gather g = {.st = st, .a = a, .e = e};
    *out = NULL;
    *n = 0;
    if (st->ops->list(st, "consumers/", gather_one, &g, e) < 0 || g.failed) return -1;
    if (g.n == 0) return 0;
    if ((*out = arena_alloc(a, g.n * sizeof **out, e)) == NULL) return -1;
    for (size_t i = 0; i < g.n; i++)
        (*out)[i] = *g.v[i];
    *n = g.n;
    return 0;
}
