/* Whatever happens to an object, it is noticed, by its name, and never a crash. */
#include <fcntl.h>

#include "tests/unit/chain/fixture.h"

static struct store *st;

static void write_raw(const char *path, const void *p, size_t n) { /* in place and without sync: thousands of times */
    char full[512];
    snprintf(full, sizeof full, "%s/%s", fx_dir, path);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n) {
        printf("Bail out! cannot write %s\n", full);
        exit(1);
    }
    close(fd);
}

/* 0 when verify passes, else the code. */
static enum err_code look(void) {
    struct chain *c;
    struct verify_report r;
    bool found;
    enum err_code code = CODE_NONE;
    err_clear(E);
    if (chain_open(st, &c, &found, E) < 0) return fx_err.code;
    if (!found) return CODE_CHAIN_MISSING;
    if (chain_verify(c, true, &r, E) < 0) code = fx_err.code;
    chain_close(c);
    return code;
}

static bool coded(enum err_code c) {
    return c == CODE_CHUNK_CORRUPT || c == CODE_MANIFEST_INVALID || c == CODE_FORMAT_UNSUPPORTED;
}

static void every_byte(const char *path) {
    struct buf b;
    uint64_t missed = 0, unnamed = 0, cuts = 0;
    char *p;
    if (fx_get(st, path, &b) < 0) {
        ok(0, "%s is there", path);
        return;
    }
    p = malloc(b.n);
    for (size_t i = 0; i < b.n; i++)
        for (unsigned bit = i % 3; bit < 8; bit += 5) {
            memcpy(p, b.p, b.n);
            p[i] = (char)(p[i] ^ 1u << bit);
            write_raw(path, p, b.n);
            enum err_code c = look();
            if (!coded(c)) {
                if (missed++ == 0) note("%s byte %zu bit %u: %s %s", path, i, bit, err_code_name(c), fx_err.msg);
            } else if ((!strstr(fx_err.msg, path) && !strstr(fx_err.msg, strrchr(path, '/') ? strrchr(path, '/') + 1 : path)) ||
                       !fx_err.hint[0]) {
                if (unnamed++ == 0) note("%s byte %zu: %s | %s", path, i, fx_err.msg, fx_err.hint);
            }
        }
    for (size_t n = 0; n<b.n; n += b.n - n> 64 && n > 64 ? 3 : 1) {
        write_raw(path, b.p, n);
        if (!coded(look())) {
            if (cuts++ == 0) note("%s cut to %zu: %s", path, n, fx_err.msg);
        }
    }
    write_raw(path, b.p, b.n);
    is_int(missed, 0, "a flipped bit of %s is noticed", path);
    is_int(unnamed, 0, "and the object named, with a hint");
    is_int(cuts, 0, "and every cut");
    is_int(look(), CODE_NONE, "%s put right", path);
    free(p);
    buf_free(&b);
}

static void missing(const char *path) {
    struct buf b;
    if (fx_get(st, path, &b) < 0) {
        ok(0, "%s is there", path);
        return;
    }
    st->ops->del(st, path, E);
    enum err_code c = look();
    ok(strcmp(path, "lineage.json") == 0 ? c == CODE_CHAIN_MISSING : coded(c), "%s missing: %s", path, fx_err.msg);
    ok(c == CODE_CHAIN_MISSING || strstr(fx_err.msg, path), "and named");
    fx_put(st, path, b.p, b.n);
    buf_free(&b);
}

static void swapped(const char *a, const char *b, const char *name) {
    struct buf x, y;
    if (fx_get(st, a, &x) < 0 || fx_get(st, b, &y) < 0) {
        ok(0, "objects to swap");
        return;
    }
    write_raw(a, y.p, y.n);
    write_raw(b, x.p, x.n);
    ok(coded(look()), "%s: %s", name, fx_err.msg);
    write_raw(a, x.p, x.n);
    write_raw(b, y.p, y.n);
    is_int(look(), CODE_NONE, "swapped back");
    buf_free(&x);
    buf_free(&y);
}

static void edited(const char *path, const char *from, const char *to, enum err_code want, const char *name) {
    struct buf b, n = BUF_INIT(MiB(1));
    if (fx_get(st, path, &b) < 0) {
        ok(0, "%s is there", path);
        return;
    }
    const char *text = buf_str(&b, E), *at = strstr(text, from);
    ok(at != NULL, "%s holds %s", path, from);
    if (at) {
        buf_add(&n, text, (size_t)(at - text), E);
        buf_adds(&n, to, E);
        buf_adds(&n, at + strlen(from), E);
        write_raw(path, n.p, n.n);
        is_int(look(), want, "%s", name);
        note("%s | %s", fx_err.msg, fx_err.hint);
        write_raw(path, b.p, b.n);
    }
    buf_free(&b);
    buf_free(&n);
}

int main(void) {
    static struct fx_paths all;
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1); /* thousands of small writes */
    st = fx_store();
    chain_hooks.torn_wait_us = 0;
    chain_hooks.random = fx_random;
    ok(fx_full(st, 2, 3, COMPRESSION_NONE) == 0, "full: %s", fx_err.msg);
    struct chain *c = fx_open(st);
    ok(fx_link(c, 10, 2, 110, COMPRESSION_ZSTD) == 0 && fx_link(c, 20, 2, 120, COMPRESSION_NONE) == 0 &&
           fx_link(c, 30, 2, 130, COMPRESSION_NONE) == 0,
       "links: %s", fx_err.msg);
    struct link_info l2, l3;
    chain_link(c, 2, &l2, E);
    chain_link(c, 3, &l3, E);
    chain_close(c);
    is_int(look(), CODE_NONE, "whole");
    all = *fx_list(st, "");
    for (size_t i = 0; i < all.n; i++)
        every_byte(all.v[i]);
    for (size_t i = 0; i < all.n; i++)
        missing(all.v[i]);
    char a[CHAIN_PATH], b[CHAIN_PATH];
    path_log(a, l2.segment, 2, l2.attempt, 0);
    path_log(b, l3.segment, 3, l3.attempt, 0);
    swapped(a, b, "chunks of two links");
    path_link(a, l2.segment, 2, l2.attempt);
    path_link(b, l3.segment, 3, l3.attempt);
    swapped(a, b, "manifests of two links");
    edited(b, "\"needs\":[]", "\"needs\":[\"tea\"]", CODE_FORMAT_UNSUPPORTED, "a need of a manifest that is not known");
    edited("lineage.json", "\"needs\":[]", "\"needs\":[\"tea\"]", CODE_FORMAT_UNSUPPORTED, "a need of the catalogue that is not known");
    edited("lineage.json", "\"format\":1", "\"format\":2", CODE_FORMAT_UNSUPPORTED, "a newer format");
    char rows[2][CHAIN_PATH];
    size_t n = 0;
    for (size_t i = 0; i < all.n && n < 2; i++)
        if (strstr(all.v[i], "/rows/")) snprintf(rows[n++], CHAIN_PATH, "%s", all.v[i]);
    swapped(rows[0], rows[1], "chunks of two tables");
    store_close(st);
    fx_remove();
    return done_testing();
}
