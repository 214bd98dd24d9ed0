/* Memory that cannot be had at any point: an error of its code, nothing leaked (the sanitizer looks), and the same work succeeds
 * afterwards. */
#include "tests/unit/chain/fixture.h"

static struct store *st;

static int read_all(void) {
    struct chain *c;
    bool found;
    struct verify_report r;
    struct gc_report g;
    if (chain_open(st, &c, &found, E) < 0) return -1;
    int rc = chain_verify(c, true, &r, E) < 0 || chain_gc(c, 0, true, NULL, NULL, &g, E) < 0 ? -1 : 0;
    chain_close(c);
    return rc;
}
static int one_link(void) {
    struct chain *c;
    struct link *l;
    struct link_opts o = {.compression = COMPRESSION_ZSTD};
    struct shape *const *s;
    size_t n;
    bool found;
    struct value v[2] = {{"7", 1, VALUE_TEXT}, {"seven", 5, VALUE_TEXT}};
    struct pos end;
    uint64_t at;
    int rc = -1;
    if (chain_open(st, &c, &found, E) < 0) return -1;
    if (chain_shapes_at(c, chain_info(c)->nlinks, &s, &n, E) < 0 || link_begin(c, &o, &l, E) < 0) goto out;
    end = chain_info(c)->tip_pos;
    text_u64(end.token, &at);
    snprintf(end.token, sizeof end.token, "%llu", (unsigned long long)at + 10);
    struct change x = {.op = CHANGE_INSERT, .table = s[0]->table, .shape = s[0], .after = v}, y = {.op = CHANGE_COMMIT, .pos = &end};
    if (link_put(l, &x, E) < 0 || link_put(l, &y, E) < 0) link_abort(l);
    else rc = link_end(l, &end, NULL, E);
out:
    chain_close(c);
    return rc;
}
static int probe(void) {
    struct full_opts o = fx_opts();
    enum full_found found;
    struct full *f;
    int rc = full_probe(st, &o, &found, &f, E);
    full_close(f);
    return rc < 0 && fx_err.code == CODE_CHAIN_EXISTS ? 0 : rc;
}

static void starve(int (*work)(void), const char *name) {
    long n;
    bool coded = true;
    for (n = 0; n < 20000; n += n < 300 ? 1 : 7) {
        err_clear(E);
        mem_fail_after(n);
        int rc = work();
        mem_fail_after(-1);
        if (rc == 0) break;
        if (fx_err.code != CODE_NO_MEMORY && coded) {
            coded = false;
            note("%ld: %s %s", n, err_code_name(fx_err.code), fx_err.msg);
        }
    }
    ok(n > 5 && n < 20000, "%s needs %ld allocations", name, n);
    ok(coded, "and says so when one fails");
}

int main(void) {
    st = fx_store();
    ok(fx_full(st, 2, 5, COMPRESSION_ZSTD) == 0, "full: %s", fx_err.msg);
    starve(one_link, "a link");
    starve(read_all, "verify and gc");
    starve(probe, "a probe");
    ok(read_all() == 0, "all is well: %s", fx_err.msg);
    store_close(st);
    fx_remove();
    return done_testing();
}
