/* Pages: the catalogue stays small at any length, and every link is found again. */
#include "engine/chain/lineage.h"
#include "tests/unit/chain/fixture.h"

static void long_chain(struct store *st) {
    struct chain *c = fx_open(st);
    struct link_info li, by_id;
    struct verify_report v;
    struct gc_report g;
    enum { LINKS = 150 };
    chain_hooks.page_links = 4;
    chain_hooks.page_refs = 6;
    bool good = true;
    size_t most = 0;
    for (uint64_t i = 1; i <= LINKS && good; i++) {
        struct buf b;
        good = fx_link(c, i, 1, 100 + i, COMPRESSION_NONE) == 0;
        fx_get(st, "lineage.json", &b);
        if (b.n > most) most = b.n;
        buf_free(&b);
    }
    ok(good, "150 links: %s", fx_err.msg);
    ok(most < 3500, "the catalogue never had more than %zu bytes", most);
    is_int(chain_info(c)->nlinks, LINKS + 1, "all counted");
    struct chain *other = fx_open(st);
    uint64_t seq = 0;
    for (uint64_t n = 0; n <= LINKS && good; n++) {
        good = chain_link(other, n, &li, E) == 0 && li.n == n && li.start_seq == seq && li.opening == (n == 0) &&
               chain_find(other, li.id, &by_id, E) == 0 && by_id.n == n;
        seq = li.end_seq;
    }
    ok(good && seq == 2 * LINKS, "each by number and by id, with its seqs: %s", fx_err.msg);
    ok(chain_link(other, 3, &li, E) == 0 && chain_link(other, 140, &li, E) == 0 && chain_link(other, 3, &li, E) == 0 && li.n == 3,
       "to and fro");
    ok(chain_link(other, LINKS + 1, &li, E) < 0 && fx_err.code == CODE_ID_UNKNOWN, "not beyond the end");
    err_clear(E);
    ok(chain_verify(other, true, &v, E) == 0 && v.links == LINKS + 1 && v.records == 2 * LINKS, "verify: %s", fx_err.msg);
    size_t pages = fx_list(st, "pages/")->n;
    ok(chain_gc(other, -1000000, false, NULL, NULL, &g, E) == 0 && chain_verify(other, true, &v, E) == 0,
       "gc keeps all that is referred to: %s", fx_err.msg);
    note("%zu pages, %llu removed", pages, (unsigned long long)g.objects);
    /* a page that is damaged or gone */
    struct fx_paths *p = fx_list(st, "pages/");
    char path[CHAIN_PATH];
    unsigned noticed = 0, n = 0;
    snprintf(path, sizeof path, "%s", p->v[0]);
    struct buf b;
    fx_get(st, path, &b);
    for (size_t i = 0; i < b.n; i += 41, n++) {
        b.p[i] = (char)(b.p[i] ^ 4);
        fx_put(st, path, b.p, b.n);
        b.p[i] = (char)(b.p[i] ^ 4);
        struct chain *fresh = fx_open(st);
        noticed += chain_verify(fresh, false, &v, E) < 0 && fx_err.code == CODE_MANIFEST_INVALID && strstr(fx_err.msg, path);
        chain_close(fresh);
    }
    is_int(noticed, n, "a damaged page is noticed by name");
    err_clear(E);
    buf_free(&b);
    chain_close(c);
    chain_close(other);
}

/* At its real sizes: 128 entries and 256 pages fit into 64 KiB with the longest numbers. */
static void at_most(struct store *st) {
    struct lineage l = {0};
    struct buf b = BUF_INIT(MiB(1));
    struct pos tip = fx_pos(INT64_MAX);
    const char *id = "0123456789abcdef0123456789abcdef01234567";
    chain_hooks.page_links = 128;
    chain_hooks.page_refs = 256;
    memcpy(l.id, "0123456789abcdef0123456789abcdef", CHAIN_LINEAGE);
    snprintf(l.engine, sizeof l.engine, "sqlite");
    memset(l.identity, 'i', sizeof l.identity - 1);
    memset(l.slot, 's', sizeof l.slot - 1);
    lineage_add_segment(&l, "0123456789abcdef", SEGMENT_COMPLETE, 0, E);
    memset(l.segments[0].full, 'a', DIGEST_HEX - 1);
    l.covered = tip;
    l.covered_us = INT64_MAX;
    for (l.nreplaced = 0; l.nreplaced < LINEAGE_REPLACED; l.nreplaced++)
        memcpy(l.replaced[l.nreplaced], l.id, CHAIN_LINEAGE);
    l.npages = 256;
    l.pages = mem_alloc(l.npages * sizeof *l.pages, E);
    uint64_t n = 1000000000000000;
    for (size_t i = 0; i < l.npages; i++) {
        memset(l.pages[i].digest, 'b', DIGEST_HEX - 1);
        l.pages[i] = (struct lineage_page){.level = 1, .first = n, .count = 128, .end_seq = INT64_MAX};
        memset(l.pages[i].digest, 'b', DIGEST_HEX - 1);
        n += 128;
    }
    for (size_t i = 0; i < 128; i++) {
        struct lineage_link x = {
            .n = n++, .attempt = "0123456789abcdef", .end_seq = INT64_MAX, .time_us = 1764524308000000, .bytes = 1ull << 50};
        memcpy(x.id, id, CHAIN_ID);
        if (lineage_append(st, &l, &x, &tip, E) < 0) ok(0, "append: %s", fx_err.msg);
    }
    ok(lineage_format(&l, &b, E) == 0, "%zu bytes: %s", b.n, fx_err.msg);
    struct lineage back;
    ok(lineage_parse(b.p, b.n, &back, E) == 0 && back.npages == 256 && back.nlinks == 128, "and is read back: %s", fx_err.msg);
    struct lineage_link x = {.n = n, .attempt = "0123456789abcdef", .end_seq = INT64_MAX, .time_us = 1};
    memcpy(x.id, id, CHAIN_ID);
    ok(lineage_append(st, &back, &x, &tip, E) == 0, "one more: %s", fx_err.msg);
    ok(back.nlinks == 1 && back.npages == 130, "the list goes into a page, half the pages into a page of pages: %zu", back.npages);
    is_int(lineage_count(&back), n + 1, "none lost");
    lineage_free(&back);
    lineage_free(&l);
    buf_free(&b);
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    struct store *st = fx_store();
    ok(fx_full(st, 1, 3, COMPRESSION_NONE) == 0, "full: %s", fx_err.msg);
    long_chain(st);
    at_most(st);
    store_close(st);
    fx_remove();
    return done_testing();
}
