/* A chain from its full to its third link and back. */
#include "tests/unit/chain/fixture.h"

static void rows_back(struct chain *c, uint64_t rows, const char *name) {
    struct full_reader *r;
    const struct full_table_info *t;
    uint64_t seen = 0, id = 1;
    bool good = true;
    ok(full_reader_open(c, NULL, &r, E) == 0, "%s: the full opens: %s", name, fx_err.msg);
    is_int(full_reader_tables(r, &t), 2, "two tables");
    for (uint64_t k = 0; k < t[1].chunks; k++) {
        struct chunk_rows *cr;
        const char *p;
        size_t n;
        uint64_t got;
        struct arena *a = arena_new(KiB(64), E);
        if (full_reader_chunk(r, t[1].table, k, &cr, E) < 0) {
            ok(0, "chunk: %s", fx_err.msg);
            return;
        }
        while (chunk_rows_next(cr, &p, &n, &got, E) == 0 && n > 0) {
            struct rd rd = RD(p, n);
            for (uint64_t i = 0; i < got; i++, id++) {
                struct value *v;
                uint16_t cols;
                char want[32];
                snprintf(want, sizeof want, "t2 row %llu", (unsigned long long)id);
                good = good && row_decode(&rd, a, &v, &cols, E) == 0 && cols == 2 && v[1].len == strlen(want) &&
                       memcmp(v[1].p, want, v[1].len) == 0;
                arena_reset(a);
            }
            seen += got;
        }
        chunk_rows_close(cr);
        arena_free(a);
    }
    is_int(seen, rows, "all rows came");
    ok(good, "in order and unaltered");
    full_reader_close(r);
}

static uint64_t read_link(struct chain *c, uint64_t n, uint64_t from, size_t max, uint64_t *first, uint64_t *commits, unsigned *batches) {
    struct link_reader *r;
    struct batch b;
    uint64_t records = 0, next = 0;
    *first = *commits = 0;
    *batches = 0;
    if (link_reader_open(c, n, from, &r, E) < 0) {
        note("%s", fx_err.msg);
        return UINT64_MAX;
    }
    batch_init(&b, KiB(64), E);
    for (;;) {
        batch_reset(&b);
        if (link_reader_next(r, &b, max, E) < 0) {
            note("%s", fx_err.msg);
            records = UINT64_MAX;
            break;
        }
        if (b.n == 0) break;
        ++*batches;
        for (size_t i = 0; i < b.n; i++) {
            if (records++ == 0) *first = next = b.v[i].seq;
            if (b.v[i].seq != next++) records = 1u << 30;
            *commits += b.v[i].op == CHANGE_COMMIT;
        }
    }
    batch_free(&b);
    link_reader_close(r);
    return records;
}

static void happy(enum compression z, const char *name) {
    struct store *st = fx_store();
    struct chain *c;
    struct link_info li;
    struct verify_report v;
    struct link *l;
    struct link_opts lo = {.compression = z};
    struct shape *const *s;
    size_t ns;
    uint64_t first, commits;
    unsigned batches;
    note("%s", name);
    ok(fx_full(st, 2, 1000, z) == 0, "full: %s", fx_err.msg);
    c = fx_open(st);
    is_int(chain_info(c)->nlinks, 1, "the opening is link 0");
    ok(chain_info(c)->full_complete, "complete");
    is_str(chain_info(c)->tip_pos.token, "100", "ends at the anchor");
    rows_back(c, 1000, name);
    ok(fx_link(c, 2000, 10, 110, z) == 0, "link 1: %s", fx_err.msg);
    ok(link_begin(c, &lo, &l, E) == 0 && chain_shapes_at(c, chain_info(c)->nlinks, &s, &ns, E) == 0, "link 2: %s", fx_err.msg);
    for (uint64_t i = 0; i < 500; i++)
        if (fx_txn(l, s[i % 2], 3000 + i * 100, 50, 111 + i) < 0) {
            ok(0, "txn: %s", fx_err.msg);
            break;
        }
    is_int(link_records(l), 500 * 51, "records counted");
    is_int(link_row_changes(l), 500 * 50, "row changes counted");
    struct pos end = fx_pos(700);
    char id[CHAIN_ID];
    ok(link_end(l, &end, id, E) == 0, "link 2 ends: %s", fx_err.msg);
    is_str(chain_info(c)->tip.id, id, "and is the tip of the same handle");
    is_int(chain_info(c)->tip.start_seq, 11, "seqs go on");
    is_int(chain_info(c)->tip.end_seq, 11 + 500 * 51, "to the end");
    is_int(read_link(c, 1, 0, 1 << 20, &first, &commits, &batches), 11, "link 1 back");
    is_int(first, 1, "from seq 1");
    is_int(read_link(c, 2, 11, 4000, &first, &commits, &batches), 500 * 51, "link 2 back");
    is_int(batches, 500, "a transaction a time with the smallest batch");
    is_int(commits, 500, "all commits");
    bool every = true;
    for (uint64_t from = 12; from < 11 + 500 * 51; from += 997)
        every = every && read_link(c, 2, from, 1 << 16, &first, &commits, &batches) == 11 + 500 * 51 - from && first == from + 1;
    ok(every, "read from anywhere inside");
    is_int(read_link(c, 2, 11 + 500 * 51, 1 << 16, &first, &commits, &batches), 0, "nothing past the end");
    ok(chain_find(c, id, &li, E) == 0 && li.n == 2, "found by id");
    id[6] = '\0';
    ok(chain_find(c, id, &li, E) == 0 && li.n == 2, "and by a prefix");
    ok(chain_find(c, "zzzz", &li, E) < 0 && fx_err.code == CODE_ID_UNKNOWN, "no hex");
    err_clear(E);
    struct pos a, b2;
    ok(chain_link_span(c, 1, &a, &b2, E) == 0 && strcmp(a.token, "100") == 0 && strcmp(b2.token, "110") == 0, "span of link 1");
    ok(chain_verify(c, false, &v, E) == 0 && v.links == 3 && v.rows == 2000, "verify: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0 && v.records == 11 + 500 * 51, "verify deep: %s", fx_err.msg);
    struct pos cov = fx_pos(900);
    ok(chain_cover(c, &cov, E) == 0 && strcmp(chain_info(c)->covered.token, "900") == 0, "covered: %s", fx_err.msg);
    cov = fx_pos(800);
    ok(chain_cover(c, &cov, E) == 0 && strcmp(chain_info(c)->covered.token, "900") == 0, "and never back");
    bool changed;
    ok(chain_refresh(c, &changed, E) == 0 && !changed, "nothing new");
    ok(fx_link(c, 9000, 1, 901, z) == 0, "link 3 after cover: %s", fx_err.msg);
    struct chain *other = fx_open(st);
    is_int(chain_info(other)->nlinks, 4, "another handle sees all");
    chain_close(other);
    struct gc_report g;
    ok(chain_gc(c, 0, false, NULL, NULL, &g, E) == 0 && g.objects == 0, "nothing is garbage: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0, "and all is there: %s", fx_err.msg);
    chain_close(c);
    store_close(st);
    fx_remove();
}

int main(void) {
    happy(COMPRESSION_NONE, "plain");
    happy(COMPRESSION_ZSTD, "zstd");
    chain_hooks.frame_raw = 200;
    chain_hooks.chunk_stored = 5000;
    happy(COMPRESSION_ZSTD, "zstd, tiny frames and chunks");
    happy(COMPRESSION_NONE, "plain, tiny frames and chunks");
    return done_testing();
}
