/* A folder as an object store: conditions, order, names, refusals. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/unit/chain/fixture.h"

static struct store *st;
static char etag[STORE_ETAG];
static enum store_put_result r;

static int put(const char *path, const char *text, bool absent, const char *match) {
    return st->ops->put(st, path, text, strlen(text), absent, match, &r, etag, E);
}
static const char *get(const char *path) {
    static struct buf b;
    char tag[STORE_ETAG];
    bool found, same;
    buf_free(&b);
    b = BUF_INIT(MiB(1));
    if (st->ops->get(st, path, MiB(1), NULL, &b, tag, &found, &same, E) < 0) return "error";
    return found ? b.n ? buf_str(&b, E) : "" : NULL;
}

static void conditions(void) {
    struct buf b = BUF_INIT(100);
    char first[STORE_ETAG], now[STORE_ETAG];
    bool found, same;
    ok(get("a/b/c") == NULL, "absent");
    ok(put("a/b/c", "one", true, NULL) == 0 && r == STORE_PUT_OK, "if absent: %s", fx_err.msg);
    ok(put("a/b/c", "two", true, NULL) == 0 && r == STORE_PUT_EXISTS, "is there now");
    is_str(get("a/b/c"), "one", "and untouched");
    ok(put("a/b/c", "two", false, "0000") == 0 && r == STORE_PUT_CONFLICT, "if match, with another etag");
    ok(put("new", "two", false, "0000") == 0 && r == STORE_PUT_CONFLICT && get("new") == NULL, "if match, of what is absent");
    ok(st->ops->get(st, "a/b/c", 100, NULL, &b, first, &found, &same, E) == 0 && found && !same && b.n == 3, "get");
    ok(put("a/b/c", "three", false, first) == 0 && r == STORE_PUT_OK && strcmp(etag, first) != 0, "if match");
    ok(put("a/b/c", "four", false, first) == 0 && r == STORE_PUT_CONFLICT, "only once");
    buf_reset(&b);
    ok(st->ops->get(st, "a/b/c", 100, etag, &b, now, &found, &same, E) == 0, "get unless");
    buf_reset(&b);
    ok(st->ops->get(st, "a/b/c", 100, "x", &b, now, &found, &same, E) == 0 && !same && b.n == 5, "changed: a body");
    buf_reset(&b);
    ok(st->ops->get(st, "a/b/c", 100, now, &b, now, &found, &same, E) == 0 && same && b.n == 0, "the same: none");
    ok(st->ops->get(st, "a/b/c", 4, NULL, &b, now, &found, &same, E) < 0 && fx_err.code == CODE_LIMIT, "over the limit");
    err_clear(E);
    ok(put("a/b/c", "over", false, NULL) == 0 && r == STORE_PUT_OK && strcmp(get("a/b/c"), "over") == 0, "unconditional");
    ok(put("empty", "", true, NULL) == 0 && strcmp(get("empty"), "") == 0, "empty object");
    ok(fx_list(st, "tmp/")->n == 0, "no leftovers");
    buf_free(&b);
}

static void names(void) {
    static const char *const bad[] = {"../x", "a/../x", "/x", "a//b", "a/", "", ".", "a/./b", "a b", "a\nb", "a%2e", "ä", "a:b", "a\\b"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(bad); i++) {
        ok(put(bad[i], "x", false, NULL) < 0, "'%s' is refused", i == 9 ? "a\\nb" : bad[i]);
        err_clear(E);
    }
    struct store *s;
    static const char *const urls[] = {"s3://b/x",      "file://host/x", "file://relative", "nothing",
                                       "file:///x?y=1", "file:///x%zz",  "file:///x%00"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(urls); i++) {
        ok(store_open(urls[i], &s, E) < 0 && err_exit_code(E) == 2, "%s: %s | %s", urls[i], fx_err.msg, fx_err.hint);
        err_clear(E);
    }
    ok(store_open("file:///tmp/a%20b/", &s, E) == 0 && strcmp(s->url, "file:///tmp/a b") == 0, "escapes of URLs");
    store_close(s);
    ok(store_open_dir("/tmp/100%", &s, E) == 0 && strcmp(s->url, "file:///tmp/100%") == 0, "but not of folders");
    store_close(s);
    ok(store_open_dir("/dev/null", &s, E) < 0, "no folder: %s", fx_err.msg);
    err_clear(E);
}

static void lists(void) {
    put("l/b", "", false, NULL);
    put("l/a.b", "", false, NULL);
    put("l/a/c/d", "", false, NULL);
    put("l/a/b", "", false, NULL);
    put("l/a-b/x", "", false, NULL);
    put("l/a0", "", false, NULL);
    struct fx_paths *p = fx_list(st, "l/");
    bool sorted = p->n == 6;
    for (size_t i = 1; i < p->n; i++)
        sorted = sorted && strcmp(p->v[i - 1], p->v[i]) < 0;
    ok(sorted, "whole paths in byte order");
    is_int(fx_list(st, "l/a")->n, 5, "by prefix");
    is_int(fx_list(st, "l/a/")->n, 2, "below a folder");
    is_int(fx_list(st, "zz/")->n, 0, "nothing");
    ok(st->ops->del(st, "l/a/c/d", E) == 0 && st->ops->del(st, "l/a/c/d", E) == 0, "delete, twice");
    char path[300];
    snprintf(path, sizeof path, "%s/l/a/c", fx_dir);
    ok(access(path, F_OK) < 0, "its empty folder went too");
    is_int(fx_list(st, "l/a/")->n, 1, "its neighbour did not");
}

static void objects(void) {
    struct store_object *o;
    uint64_t size;
    bool found;
    char b[10];
    put("obj", "0123456789", false, NULL);
    ok(st->ops->read_open(st, "obj", &o, &size, &found, E) == 0 && found && size == 10, "open");
    put("obj", "replaced", false, NULL);
    ok(st->ops->read_at(o, 3, b, 4, E) == 0 && memcmp(b, "3456", 4) == 0, "an open object stays what it was");
    ok(st->ops->read_at(o, 8, b, 4, E) < 0, "not past its end");
    err_clear(E);
    st->ops->read_close(o);
    ok(st->ops->read_open(st, "nothing", &o, &size, &found, E) == 0 && !found, "absent");
}

/* Many processes replace one object by if-match: every success counts once. */
static void counters(void) {
    enum { PROCESSES = 4, EACH = 25 };
    int status, bad = 0;
    put("n", "0", false, NULL);
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            for (int done = 0; done < EACH;) {
                struct buf b = BUF_INIT(100);
                char tag[STORE_ETAG], text[20];
                bool found, same;
                uint64_t v = 0;
                if (st->ops->get(st, "n", 100, NULL, &b, tag, &found, &same, E) < 0) _exit(1);
                text_u64(buf_str(&b, E), &v);
                snprintf(text, sizeof text, "%d", (int)v + 1);
                if (put("n", text, false, tag) < 0) _exit(2);
                done += r == STORE_PUT_OK;
                buf_free(&b);
            }
            int mine = 0;
            char path[32];
            for (int i = 0; i < 10; i++) {
                snprintf(path, sizeof path, "once/%d", i);
                if (put(path, "x", true, NULL) < 0) _exit(3);
                mine += r == STORE_PUT_OK;
            }
            _exit(10 + mine);
        }
    int won = 0;
    for (int k = 0; k < PROCESSES; k++) {
        wait(&status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < 10) bad++;
        else won += WEXITSTATUS(status) - 10;
    }
    is_int(bad, 0, "no failure");
    is_str(get("n"), "100", "every if-match counted once");
    is_int(won, 10, "every if-absent was won once");
}

static void no_space(void) {
    char dir[300], url[320], *big;
    struct store *s;
    snprintf(dir, sizeof dir, "%s/small", fx_dir);
    if (mkdir(dir, 0700) < 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=64k") < 0) {
        note("skipped: a small file system cannot be mounted here");
        return;
    }
    big = calloc(1, 200000);
    snprintf(url, sizeof url, "file://%s", dir);
    ok(store_open(url, &s, E) == 0, "a small disk");
    ok(fx_put(s, "big", big, 200000) < 0 && fx_err.code == CODE_DISK_FULL && err_exit_code(E) == 1, "is full: %s | %s", fx_err.msg,
       fx_err.hint);
    err_clear(E);
    ok(fx_list(s, "")->n == 0 && fx_put(s, "small", "x", 1) == 0, "nothing is left of it, and what fits goes in: %s", fx_err.msg);
    store_close(s);
    umount(dir);
    free(big);
}

static void full_disk(void) {
    struct rlimit old, small = {100000, 100000};
    char *big = malloc(200000);
    struct err e = {0};
    int status;
    memset(big, 'x', 200000);
    if (fork() == 0) { /* a file size limit fails a write part way, as a full disk does */
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        small.rlim_max = old.rlim_max;
        setrlimit(RLIMIT_FSIZE, &small);
        _exit(st->ops->put(st, "big", big, 200000, true, NULL, &r, NULL, &e) < 0 && e.class == ERR_RETRY ? 0 : 1);
    }
    wait(&status);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a write that fails part way fails the put");
    ok(get("big") == NULL && fx_list(st, "tmp/")->n == 0, "and leaves nothing");
    free(big);
}

static void read_only(void) {
    char path[300];
    if (geteuid() == 0) { note("as root every folder can be written"); }
    snprintf(path, sizeof path, "%s/missing/deep", fx_dir);
    struct store *s;
    ok(store_open_dir(path, &s, E) == 0 && fx_list(s, "")->n == 0, "a folder that is not there is empty");
    ok(s->ops->writable(s), "and can be made");
    ok(fx_put(s, "x", "y", 1) == 0, "is made: %s", fx_err.msg);
    store_close(s);
    if (geteuid() != 0) {
        chmod(path, 0500);
        ok(store_open_dir(path, &s, E) == 0 && !s->ops->writable(s), "read-only is seen");
        ok(fx_put(s, "z", "y", 1) < 0 && fx_err.code == CODE_PRIVILEGE, "and refused: %s", fx_err.msg);
        ok(fx_list(s, "")->n == 1, "but read");
        store_close(s);
        chmod(path, 0700);
    }
}

int main(void) {
    st = fx_store();
    conditions();
    names();
    lists();
    objects();
    counters();
    full_disk();
    no_space();
    read_only();
    store_close(st);
    fx_remove();
    return done_testing();
}
