/* DESIGN
 *
 * 1. policy_retry always answers. What the operator's file gets wrong (an error, a limit, nonsense) is logged and the built-in policy
 * answers; should even that fail, a constant does: again in 5 s where a retry cannot hurt, else park.
 * 2. The policy decides by identity (class, code, marker, restartable); the message text is not shown to it.
 * 3. The random number in the ask depends on entity and attempt only: the same history gives the same waits, and legs that fell together
 *    do not rise together.
 * 4. Each ask gets a sandbox of its own, so nothing that a policy does in one call reaches the next; asks are rare, a sandbox takes
 *    a fraction of a millisecond. */
#include "engine/lua/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/embed.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/lua/host.h"

#define BUILT_IN "lua/policy.lua"
#define FILE_MAX KiB(256)
#define WAIT_MAX_S 86400.0
#define LAST_RESORT_US 5000000

struct source {
    const char *name, *text;
    size_t n;
};

struct policy {
    char *path; /* the operator's file and what it held when the policy was opened; NULL without one */
    struct buf text;
    struct source own, builtin;
};

static struct lua_host *host_with(const struct source *s, struct err *e) {
    struct lua_host *h = lua_host_open(NULL, e);
    if (!h) return NULL;
    if (lua_host_load(h, s->name, s->text, s->n, e) == 0) {
        if (lua_host_has(h, "retry")) return h;
        err_set(e, CODE_POLICY, "policy '%s' defines no function 'retry'", s->name);
        err_hint(e, "copy the default policy and edit it: it says what 'retry' is given and what it answers");
    }
    lua_host_close(h);
    return NULL;
}

static int loads(const struct source *s, struct err *e) {
    struct lua_host *h = host_with(s, e);
    lua_host_close(h);
    return h ? 0 : -1;
}

static int file_read(const char *path, struct buf *b, struct err *e) {
    struct stat st;
    int rc = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_set(e, CODE_POLICY, "cannot read policy '%s': %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        err_set(e, CODE_POLICY, "policy '%s' is not a file", path);
        goto out;
    }
    for (;;) {
        if (buf_reserve(b, KiB(4), e) < 0) goto out;
        ssize_t n = read(fd, b->p + b->n, KiB(4));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            err_set(e, CODE_POLICY, "cannot read policy '%s': %s", path, strerror(errno));
            goto out;
        }
        if (n == 0) break;
        b->n += (size_t)n;
    }
    rc = 0;
out:
    if (fd >= 0) close(fd);
    return rc;
}

int policy_open(const char *path, struct policy **out, struct err *e) {
    struct policy *p = mem_alloc(sizeof *p, e);
    int rc = -1;
    if (!p) return -1;
    p->text = BUF_INIT(FILE_MAX);
    const struct embed *text = embed_find(BUILT_IN);
    if (!text) {
        err_set(e, CODE_INTERNAL, "the built-in policy is not there");
        goto out;
    }
    p->builtin = (struct source){BUILT_IN, text->text, strlen(text->text)};
    if (loads(&p->builtin, e) < 0) goto out;
    if (path) {
        if (!(p->path = mem_strdup(path, e)) || file_read(path, &p->text, e) < 0) goto out;
        p->own = (struct source){p->path, p->text.n ? p->text.p : "", p->text.n};
        if (loads(&p->own, e) < 0) goto out;
    }
    *out = p;
    p = NULL;
    rc = 0;
out:
    policy_close(p);
    return rc;
}

void policy_close(struct policy *p) {
    if (!p) return;
    buf_free(&p->text);
    mem_free(p->path);
    mem_free(p);
}

static double jitter(const struct policy_ask *a) {
    const char *name = a->name ? a->name : "", *kind = a->kind ? a->kind : "";
    uint64_t h = hash64(name, strlen(name), hash64(kind, strlen(kind), a->attempt));
    return (double)(h >> 11) / 9007199254740992.0; /* 2^53 */
}

static int ask_source(const struct source *s, const struct policy_ask *a, struct policy_answer *out, struct err *e) {
    const struct err *w = a->why;
    const struct lua_field fields[] = {
        LUA_FIELD_STR("kind", a->kind),
        LUA_FIELD_STR("name", a->name),
        LUA_FIELD_STR("verb", a->verb),
        LUA_FIELD_NUM("attempt", a->attempt),
        LUA_FIELD_NUM("since_progress", (double)a->since_progress_us / 1e6),
        LUA_FIELD_STR("class", err_class_name(w->class)),
        LUA_FIELD_STR("code", err_code_name(w->code)),
        LUA_FIELD_STR("marker", marker_name(w->marker)),
        LUA_FIELD_STR("sub", marker_name(w->sub)),
        LUA_FIELD_BOOL("restartable", w->marker != MARKER_NONE && marker_restartable(w->marker)),
        LUA_FIELD_NUM("random", jitter(a)),
    };
    struct lua_result r;
    struct lua_host *h = host_with(s, e);
    int rc = h ? lua_host_call(h, "retry", fields, MEM_ARRAY_LEN(fields), &r, e) : -1;
    lua_host_close(h);
    if (rc < 0) return -1;
    if (r.kind == LUA_IS_NIL || (r.kind == LUA_IS_BOOL && !r.b)) return 0; /* *out is "no" already */
    if (r.kind != LUA_IS_NUMBER || !(r.n >= 0 && r.n <= WAIT_MAX_S))
        return err_set(e, CODE_POLICY, "'retry' answered neither nil nor seconds from 0 to %.0f", WAIT_MAX_S);
    out->again = true;
    out->wait_us = (int64_t)(r.n * 1e6);
    return 0;
}

void policy_retry(struct policy *p, const struct policy_ask *a, struct policy_answer *out) {
    struct err e = {0};
    *out = (struct policy_answer){false, 0, false};
    if (p->own.text) {
        if (ask_source(&p->own, a, out, &e) == 0) return;
        log_warn("the policy failed, the built-in one answers", KV_STR("kind", a->kind), KV_STR("name", a->name), KV_STR("why", e.msg));
        *out = (struct policy_answer){false, 0, true};
        err_clear(&e);
    }
    if (ask_source(&p->builtin, a, out, &e) == 0) return;
    log_error("the built-in policy failed, a constant answers", KV_STR("kind", a->kind), KV_STR("name", a->name), KV_STR("why", e.msg));
    bool harmless = a->why->class == ERR_RETRY || a->why->class == ERR_BUG;
    *out = (struct policy_answer){harmless, harmless ? LAST_RESORT_US : 0, true};
}
