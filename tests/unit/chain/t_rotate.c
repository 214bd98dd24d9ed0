/* law: a rotation changes nothing that a reader of the links sees, at any kill point; its full counts only when it is whole. */
#include <signal.h>

#include "engine/base/arena.h"
#include "tests/unit/chain/fixture.h"

static struct store *st;

static void fresh_chain(unsigned links) {
    st = fx_store();
    if (fx_full(st, 2, 10, COMPRESSION_NONE) < 0) {
        printf("Bail out! full: %s\n", fx_err.msg);
        exit(1);
    }
    struct chain *c = fx_open(st);
    for (unsigned i = 0; i < links; i++)
        if (fx_link(c, 1000 + i * 10, 3, 110 + i * 10, COMPRESSION_NONE) < 0) {
            printf("Bail out! link: %s\n", fx_err.msg);
            exit(1);
        }
    chain_close(c);
}
static void gone(void) {
    store_close(st);
    fx_remove();
}

/* Rows of both tables at `at`, as the fill of a rotation writes them. */
static int refill(const char *segment, uint64_t at, bool end) {
    struct full_opts o = fx_opts();
    struct full *f = NULL;
    struct catalog *cat = fx_catalog(2);
    struct pos snap = fx_pos(at);
    int rc = -1;
    if (full_refill(st, &o, segment, &f, E) < 0) goto out;
    for (size_t i = 0; i < cat->ntables; i++)
        if (!full_table_done(f, (uint32_t)i + 1) && fx_fill(f, cat->tables[i], &snap, 20, 3) < 0) goto out;
    rc = end ? full_end(f, NULL, 0, NULL, E) : 0;
out:
    full_close(f);
    catalog_free(cat);
    return rc;
}

static int rotate(struct chain *c, struct link_info *li) {
    struct catalog *cat = fx_catalog(2);
    int rc = chain_rotate(c, cat, li, E);
    catalog_free(cat);
    return rc;
}

static void opens_filling_and_completes_beside(void) {
    struct link_info li, tip;
    struct pos start, end;
    struct verify_report v;
    struct full_reader *fr;
    const struct full_table_info *t;
    struct shape *const *s;
    size_t n;
    fresh_chain(2);
    struct chain *c = fx_open(st), *other = fx_open(st);
    tip = chain_info(c)->tip;
    ok(rotate(c, &li) == 0, "a segment opens: %s", fx_err.msg);
    ok(li.opening && li.n == 3 && li.end_seq == tip.end_seq && li.start_seq == tip.end_seq && !li.full_complete, "as an entry without records");
    is_str(chain_info(c)->segment, li.segment, "it is the open one");
    ok(!chain_info(c)->full_complete && chain_info(c)->restorable && chain_info(c)->segment_first == 3 && chain_info(c)->nsegments == 2, "filling");
    ok(chain_link_span(c, 3, &start, &end, E) == 0 && strcmp(start.token, "120") == 0 && strcmp(end.token, "120") == 0, "at the tip's position");
    ok(chain_shapes_at(c, 3, &s, &n, E) == 0 && n == 2 && s[0]->table == 1 && s[1]->table == 2, "tables keep their numbers");
    ok(fx_link(c, 2000, 3, 130, COMPRESSION_NONE) == 0, "links go on at once: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0 && v.links == 5, "verify takes it: %s", fx_err.msg);
    ok(full_reader_open(c, NULL, &fr, E) == 0, "the older full is the one to read");
    n = full_reader_tables(fr, &t);
    ok(n == 2 && t[0].rows == 10, "of 10 rows");
    full_reader_close(fr);
    ok(full_reader_open(c, li.segment, &fr, E) < 0 && fx_err.code == CODE_CHAIN_INCOMPLETE, "the new one is refused by name");
    err_clear(E);
    ok(refill(li.segment, 135, false) == 0, "its tables are written: %s", fx_err.msg);
    struct chain *third = fx_open(st);
    ok(!chain_info(third)->full_complete, "still filling");
    chain_close(third);
    struct link *l;
    struct link_opts lo = {.compression = COMPRESSION_NONE};
    ok(link_begin(c, &lo, &l, E) == 0, "a link is being written");
    ok(refill(li.segment, 999, true) == 0, "while the full ends, of tables that were done before: %s", fx_err.msg);
    struct pos at = fx_pos(140);
    ok(chain_shapes_at(c, chain_info(c)->nlinks, &s, &n, E) == 0 && fx_txn(l, s[0], 3000, 2, 140) == 0 && link_end(l, &at, NULL, E) == 0,
       "the link is none the wiser: %s", fx_err.msg);
    ok(chain_info(c)->full_complete && chain_info(c)->nlinks == 6, "complete");
    ok(chain_refresh(other, NULL, E) == 0 && chain_info(other)->full_complete, "for everybody");
    ok(full_reader_open(c, NULL, &fr, E) == 0, "and the newest full is the one to read");
    n = full_reader_tables(fr, &t);
    ok(n == 2 && t[0].rows == 20 && strcmp(t[0].snapshot.token, "135") == 0, "read at 135, ahead of the opening");
    full_reader_close(fr);
    ok(chain_verify(c, true, &v, E) == 0 && v.rows == 60, "verify reads both fulls: %s", fx_err.msg);
    ok(full_refill(st, &(struct full_opts){0}, li.segment, &(struct full *){NULL}, E) < 0 && fx_err.code == CODE_CHAIN_CONFLICT, "it is not filled again");
    err_clear(E);
    chain_close(c);
    chain_close(other);
    gone();
}

static void given_up_when_another_follows(void) {
    struct link_info a, b;
    struct full_opts o = fx_opts();
    struct full *f;
    struct gc_report g;
    struct verify_report v;
    struct catalog *cat = fx_catalog(2);
    struct pos snap = fx_pos(125);
    fresh_chain(2);
    struct chain *c = fx_open(st);
    ok(rotate(c, &a) == 0 && full_refill(st, &o, a.segment, &f, E) == 0, "one is being filled");
    ok(fx_fill(f, cat->tables[0], &snap, 5, 2) == 0 && fx_fill(f, cat->tables[1], &snap, 5, 2) == 0, "all its tables are there: %s", fx_err.msg);
    ok(chain_gc(c, -1000000, true, NULL, NULL, &g, E) == 0 && g.objects == 0, "gc leaves what is being filled");
    ok(fx_link(c, 2000, 3, 130, COMPRESSION_NONE) == 0 && rotate(c, &b) == 0, "another segment opens behind it");
    ok(full_end(f, NULL, 0, NULL, E) < 0 && fx_err.code == CODE_CHAIN_CONFLICT, "the first one's full does not count any more");
    err_clear(E);
    full_close(f);
    ok(full_refill(st, &o, a.segment, &f, E) < 0 && fx_err.code == CODE_CHAIN_CONFLICT, "nor is it gone on with");
    err_clear(E);
    ok(chain_gc(c, -1000000, false, NULL, NULL, &g, E) == 0 && g.objects >= 4, "gc removes its rows: %s", fx_err.msg);
    ok(refill(b.segment, 140, true) == 0 && chain_refresh(c, NULL, E) == 0 && chain_info(c)->full_complete, "the second one's does: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0 && v.rows == 60, "first and last full: %s", fx_err.msg);
    chain_close(c);
    catalog_free(cat);
    gone();
}

static void refuses(void) {
    struct link_info li;
    struct catalog *one = fx_catalog(1), *cat = catalog_new(E);
    fresh_chain(1);
    struct chain *c = fx_open(st), *late = fx_open(st);
    size_t before = fx_list(st, "")->n;
    ok(chain_rotate(c, one, &li, E) < 0 && fx_err.code == CODE_SHAPE_CHANGED && strstr(fx_err.msg, "t2"), "a table that is gone: %s", fx_err.msg);
    err_clear(E);
    if (catalog_add_table(cat, fx_shape("t1", 0), E) < 0 || catalog_add_table(cat, fx_shape("t2", 1), E) < 0) exit(1);
    ok(chain_rotate(c, cat, &li, E) < 0 && fx_err.code == CODE_SHAPE_CHANGED, "a table in another shape: %s", fx_err.msg);
    err_clear(E);
    ok(fx_list(st, "")->n == before, "and nothing was written");
    ok(fx_link(c, 5000, 1, 200, COMPRESSION_NONE) == 0, "another writer was faster");
    ok(rotate(late, &li) < 0 && fx_err.code == CODE_CHAIN_CONFLICT, "whoever is late opens nothing: %s", fx_err.msg);
    err_clear(E);
    chain_close(late);
    chain_close(c);
    c = fx_open(st);
    struct full_opts o = fx_opts();
    struct full *f;
    struct pos snap = fx_pos(210), early = fx_pos(150);
    struct full_table *ft;
    ok(rotate(c, &li) == 0 && full_refill(st, &o, li.segment, &f, E) == 0, "opened");
    ok(full_table_begin(f, cat->tables[1], &snap, ROWS_VALUES, &ft, E) < 0 && fx_err.code == CODE_SHAPE_CHANGED, "rows in another shape than the opening's");
    err_clear(E);
    ok(full_table_begin(f, cat->tables[0], &early, ROWS_VALUES, &ft, E) < 0, "rows from before the opening");
    err_clear(E);
    ok(full_end(f, NULL, 0, NULL, E) < 0 && fx_err.code == CODE_CHAIN_INCOMPLETE, "an end without all tables");
    err_clear(E);
    full_close(f);
    chain_close(c);
    catalog_free(one);
    catalog_free(cat);
    gone();
}

/* Many segments, over pages: numbers, ids, seqs and shapes are found across all of them, and the catalogue has room for the most there can be. */
static void many(void) {
    struct link_info li;
    struct verify_report v;
    struct shape *const *s;
    size_t n;
    uint64_t seq = 0;
    bool good = true, kinds = true;
    chain_hooks.page_links = 4;
    fresh_chain(1);
    struct chain *c = fx_open(st);
    unsigned opened = 1;
    for (unsigned i = 0; i < CHAIN_SEGMENTS_MAX + 4 && good; i++) {
        if (rotate(c, &li) == 0) {
            opened++;
            if (i % 2) good = refill(li.segment, 125 + i * 10, true) == 0 && chain_refresh(c, NULL, E) == 0;
        } else {
            good = fx_err.code == CODE_LIMIT && opened == CHAIN_SEGMENTS_MAX;
            err_clear(E);
        }
        good = good && fx_link(c, 9000 + i, 1, 130 + i * 10, COMPRESSION_NONE) == 0;
    }
    ok(good && opened == CHAIN_SEGMENTS_MAX, "%u segments: %s", opened, fx_err.msg);
    for (uint64_t k = 0; k < chain_info(c)->nlinks && good; k++) {
        struct link_info by_id;
        good = chain_link(c, k, &li, E) == 0 && li.start_seq == seq && chain_find(c, li.id, &by_id, E) == 0 && by_id.n == k &&
               chain_shapes_at(c, k, &s, &n, E) == 0 && n == 2;
        kinds = kinds && (!li.opening || li.end_seq == seq);
        seq = li.end_seq;
    }
    ok(good && kinds, "every entry is found, each begins where the last ended: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0 && v.links == chain_info(c)->nlinks, "verify: %s", fx_err.msg);
    struct buf b;
    ok(fx_get(st, "lineage.json", &b) == 0 && b.n < FORMAT_LINEAGE_MAX / 2, "the catalogue has %zu bytes", b.n);
    buf_free(&b);
    chain_close(c);
    gone();
    chain_hooks.page_links = 128;
}

/* ---- kills ---- */

/* What a producer does at a start and between links: go on with a filling segment; else, at 3 links, rotate; then a link. */
static int produce(void) {
    for (uint64_t at = 140; at <= 180; at += 10) {
        struct chain *c = fx_open(st);
        struct link_info li;
        char token[16];
        int rc = -1;
        snprintf(token, sizeof token, "%llu", (unsigned long long)at);
        if (c == NULL) return -1;
        const struct chain_info *ci = chain_info(c);
        struct pos end = fx_pos(at);
        if (!ci->full_complete && refill(ci->segment, strtoull(ci->tip_pos.token, NULL, 10) + 5, true) < 0) goto out;
        if (chain_refresh(c, NULL, E) < 0) goto out;
        if (pos_compare(&ci->tip_pos, &end) != POS_LESS) rc = 0;
        else {
            if (ci->full_complete && ci->nlinks - 1 - ci->segment_first >= 3 && rotate(c, &li) < 0) goto out;
            rc = fx_link(c, at * 10, 3, at, COMPRESSION_NONE);
        }
    out:
        chain_close(c);
        if (rc < 0) return -1;
    }
    struct chain *c = fx_open(st);
    int rc = c && (chain_info(c)->full_complete || refill(chain_info(c)->segment, 185, true) == 0) ? 0 : -1;
    chain_close(c);
    return rc;
}

/* All records that a reader sees who walks over the seams. */
static void records(struct buf *out) {
    struct chain *c = fx_open(st);
    struct batch b;
    buf_reset(out);
    if (c == NULL || batch_init(&b, KiB(64), E) < 0) return;
    for (uint64_t n = 0; n < chain_info(c)->nlinks; n++) {
        struct link_reader *lr;
        if (link_reader_open(c, n, 0, &lr, E) < 0) {
            buf_addf(out, E, "link: %s", fx_err.msg);
            continue;
        }
        do {
            batch_reset(&b);
            if (link_reader_next(lr, &b, KiB(4), E) < 0) {
                buf_addf(out, E, "link: %s", fx_err.msg);
                break;
            }
            for (size_t i = 0; i < b.n; i++) {
                buf_addf(out, E, "%llu %u %u %s;", (unsigned long long)b.v[i].seq, b.v[i].op, b.v[i].table, b.v[i].pos ? b.v[i].pos->token : "");
                for (unsigned k = 0; b.v[i].after && k < b.v[i].shape->ncols; k++) buf_add(out, b.v[i].after[k].p, b.v[i].after[k].len, E);
            }
        } while (b.n > 0);
        link_reader_close(lr);
    }
    batch_free(&b);
    chain_close(c);
}

static bool killed_at(const char *point, unsigned n) {
    char spec[128];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(spec, sizeof spec, "%s:%u=kill", point, n);
        setenv("SLUICE_FAULT", spec, 1);
        fault_setup();
        _exit(produce() == 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void kills(void) {
    static const char *const points[] = {"chain.rotate_start_put", "chain.rotate_append", "chain.rotate_catalogued", "chain.rows_put", "chain.done_put",
                                         "chain.full_put", "chain.full_catalogued", "chain.link_manifest", "chain.link_append", "chain.link_catalogued"};
    struct buf want = BUF_INIT(MiB(8)), got = BUF_INIT(MiB(8));
    struct verify_report v;
    struct gc_report g;
    fresh_chain(3);
    ok(produce() == 0, "the work: %s", fx_err.msg);
    records(&want);
    ok(want.n > 500 && !strstr(buf_str(&want, E), "link:"), "makes %zu bytes of records", want.n);
    gone();
    for (size_t i = 0; i < MEM_ARRAY_LEN(points); i++)
        for (unsigned n = 1; n < 8; n++) {
            fresh_chain(3);
            bool killed = killed_at(points[i], n);
            if (!killed && n == 1) ok(0, "%s is never reached", points[i]);
            if (!killed) {
                gone();
                break;
            }
            err_clear(E);
            ok(produce() == 0, "%s:%u resumed: %s", points[i], n, fx_err.msg);
            records(&got);
            ok(got.n == want.n && memcmp(got.p, want.p, want.n) == 0, "%s:%u the same records", points[i], n);
            struct chain *c = fx_open(st);
            ok(c && chain_info(c)->full_complete && chain_verify(c, true, &v, E) == 0, "%s:%u whole: %s", points[i], n, fx_err.msg);
            ok(c && chain_gc(c, -1000000, false, NULL, NULL, &g, E) == 0 && chain_verify(c, true, &v, E) == 0, "%s:%u gc takes nothing of it: %s", points[i], n,
               fx_err.msg);
            chain_close(c);
            gone();
        }
    buf_free(&want);
    buf_free(&got);
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    opens_filling_and_completes_beside();
    given_up_when_another_follows();
    refuses();
    many();
    kills();
    return done_testing();
}
