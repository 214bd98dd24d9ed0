/* Taking a full: what is found, who may go on, who is refused. */
#include <pthread.h>

#include "tests/unit/chain/fixture.h"

static struct store *st;

static void refused(int rc, enum err_code code, const char *name) {
    ok(rc < 0 && fx_err.code == code, "%s: %s %s | %s", name, err_code_name(fx_err.code), fx_err.msg, fx_err.hint);
    err_clear(E);
}
static void fresh_place(void) {
    if (st) {
        store_close(st);
        fx_remove();
    }
    st = fx_store();
}

static void steps(void) {
    struct full_opts o = fx_opts();
    enum full_found found;
    struct full *f, *g;
    struct catalog *cat = fx_catalog(2), *three = fx_catalog(3);
    struct pos anchor = fx_pos(100), later = fx_pos(150), before = fx_pos(99), a;
    const struct catalog *known;
    struct chain *c;
    char lineage[CHAIN_LINEAGE];
    fresh_place();
    o.slot_name = "s1";
    ok(full_probe(st, &o, &found, &f, E) == 0 && found == FULL_FRESH && f == NULL, "nothing there");
    ok(fx_list(st, "")->n == 0, "and a probe writes nothing");
    ok(full_intend(st, &o, &f, E) == 0, "intent");
    c = fx_open(st);
    ok(c && chain_info(c)->nlinks == 0 && !chain_info(c)->full_complete, "an intent is no chain yet");
    struct link_opts lo = {.since = NULL};
    struct link *l;
    refused(link_begin(c, &lo, &l, E), CODE_CHAIN_INCOMPLETE, "a link on it");
    struct full_reader *r;
    refused(full_reader_open(c, NULL, &r, E), CODE_CHAIN_INCOMPLETE, "reading it");
    struct verify_report v;
    refused(chain_verify(c, false, &v, E), CODE_CHAIN_INCOMPLETE, "verifying it");
    chain_close(c);
    ok(full_probe(st, &o, &found, &g, E) == 0 && found == FULL_INTENT && g, "another run finds the intent");
    ok(full_start(g, &anchor, cat, E) == 0, "and starts: %s", fx_err.msg);
    refused(full_start(f, &later, three, E), CODE_CHAIN_CONFLICT, "the first one, only thought dead, is refused");
    full_close(f);
    ok(full_probe(st, &o, &found, &f, E) == 0 && found == FULL_RESUME, "now it is to be resumed: %s", fx_err.msg);
    full_anchor(f, &a, &known);
    ok(strcmp(a.token, "100") == 0 && known->ntables == 2, "with the first anchor");
    refused(full_match(f, three, E), CODE_SHAPE_CHANGED, "a table more");
    struct catalog *one = fx_catalog(1);
    refused(full_match(f, one, E), CODE_SHAPE_CHANGED, "a table less");
    catalog_free(one);
    ok(full_match(f, cat, E) == 0 && cat->tables[1]->table == 2, "the same tables");
    struct full_table *ft;
    refused(full_table_begin(f, cat->tables[0], &before, ROWS_VALUES, &ft, E), CODE_INTERNAL, "a snapshot before the anchor");
    refused(full_table_begin(f, three->tables[2], &anchor, ROWS_VALUES, &ft, E), CODE_SHAPE_CHANGED, "rows of an unknown table");
    ok(fx_fill(f, cat->tables[1], &later, 10, 2) == 0 && full_table_done(f, 2) && !full_table_done(f, 1), "table 2, at a later snapshot");
    refused(full_end(f, NULL, 0, NULL, E), CODE_CHAIN_INCOMPLETE, "an end without table 1");
    full_close(f);
    ok(fx_fill(g, cat->tables[0], &anchor, 10, 2) == 0 && fx_fill(g, cat->tables[1], &anchor, 10, 2) == 0, "the other run goes on too");
    ok(full_probe(st, &o, &found, &f, E) == 0 && full_table_done(f, 1) && full_table_done(f, 2), "both done now");
    struct object seq = {.kind = OBJECT_SEQUENCE, .ns = "main", .name = "s", .value = 42, .is_called = true};
    char id[CHAIN_ID];
    ok(full_end(f, &seq, 1, id, E) == 0, "end: %s", fx_err.msg);
    refused(full_end(g, NULL, 0, NULL, E), CODE_CHAIN_CONFLICT, "the other run's end");
    full_close(g);
    memcpy(lineage, full_lineage(f), CHAIN_LINEAGE);
    full_close(f);
    refused(full_probe(st, &o, &found, &f, E), CODE_CHAIN_EXISTS, "a full over a chain");
    is_int(found, FULL_COMPLETE, "found complete");
    c = fx_open(st);
    is_str(chain_info(c)->tip.id, id, "id of the full");
    is_str(chain_info(c)->slot_name, "s1", "slot");
    ok(full_reader_open(c, chain_info(c)->segment, &r, E) == 0, "reads: %s", fx_err.msg);
    const struct full_table_info *t;
    const struct object *seqs;
    size_t ns;
    is_int(full_reader_tables(r, &t), 2, "tables");
    ok(t[0].rows == 10 && t[1].rows == 10 && strcmp(t[0].snapshot.token, "100") == 0, "rows and snapshot");
    full_reader_sequences(r, &seqs, &ns);
    ok(ns == 1 && seqs[0].value == 42 && strcmp(seqs[0].name, "s") == 0, "sequences");
    full_reader_close(r);
    o.force_overwrite = true;
    ok(full_probe(st, &o, &found, &f, E) == 0 && found == FULL_COMPLETE && f == NULL, "with --force-overwrite: there is something");
    ok(full_intend(st, &o, &f, E) == 0 && strcmp(full_lineage(f), lineage) != 0, "a new lineage takes the place");
    refused(fx_link(c, 1, 1, 160, COMPRESSION_NONE), CODE_CHAIN_CONFLICT, "a link for the replaced chain");
    chain_close(c);
    ok(full_start(f, &anchor, cat, E) == 0 && fx_fill(f, cat->tables[0], &anchor, 1, 1) == 0 &&
           fx_fill(f, cat->tables[1], &anchor, 0, 1) == 0 && full_end(f, NULL, 0, NULL, E) == 0,
       "and is complete: %s", fx_err.msg);
    full_close(f);
    c = fx_open(st);
    struct gc_report gr;
    ok(chain_gc(c, 3600000000, false, NULL, NULL, &gr, E) == 0 && gr.objects == 0 && gr.kept > 0, "gc leaves what is young");
    size_t there = fx_list(st, "")->n;
    ok(chain_gc(c, -1000000, true, NULL, NULL, &gr, E) == 0 && gr.objects > 5 && fx_list(st, "")->n == there, "counts %d of the old chain",
       (int)gr.objects);
    fx_put(st, "README.txt", "mine", 4);
    fx_put(st, "tmp/0123456789abcdef", "left", 4);
    fx_put(st, "shapes/notes.json", "mine", 4);
    ok(chain_gc(c, -1000000, false, NULL, NULL, &gr, E) == 0 && gr.objects > 6, "and removes them: %s", fx_err.msg);
    ok(chain_verify(c, true, &v, E) == 0, "nothing of the new one: %s", fx_err.msg);
    ok(fx_list(st, "README")->n == 1 && fx_list(st, "shapes/notes")->n == 1 && fx_list(st, "tmp/")->n == 0,
       "nor what is not ours; leftovers go");
    chain_close(c);
    catalog_free(cat);
    catalog_free(three);
}

static void other_jobs(void) {
    struct full_opts o = fx_opts(), other = fx_opts();
    enum full_found found;
    struct full *f, *g;
    struct catalog *cat = fx_catalog(1);
    struct pos anchor = fx_pos(100);
    fresh_place();
    ok(full_intend(st, &o, &f, E) == 0 && full_start(f, &anchor, cat, E) == 0, "begun");
    other.source_identity = "sqlite:other";
    refused(full_probe(st, &other, &found, &g, E), CODE_SOURCE_CHANGED, "resumed with another source");
    other = fx_opts();
    other.slot_name = "s2";
    refused(full_probe(st, &other, &found, &g, E), CODE_CHAIN_EXISTS, "resumed with another slot");
    refused(full_intend(st, &o, &g, E), CODE_CHAIN_CONFLICT, "begun beside it");
    full_close(f);
    fresh_place();
    ok(full_intend(st, &o, &f, E) == 0, "one begins");
    refused(full_probe(st, &other, &found, &g, E), CODE_CHAIN_EXISTS, "its intent, with another slot");
    full_close(f);
    fresh_place();
    o.extendable = false;
    ok(full_intend(st, &o, &f, E) == 0 && full_start(f, &anchor, cat, E) == 0 && fx_fill(f, cat->tables[0], &anchor, 5, 5) == 0 &&
           full_end(f, NULL, 0, NULL, E) == 0,
       "a full without an anchor");
    full_close(f);
    struct chain *c = fx_open(st);
    refused(fx_link(c, 1, 1, 110, COMPRESSION_NONE), CODE_CHAIN_UNEXTENDABLE, "a link on it");
    chain_close(c);
    fx_put(st, "lineage.json", "{\"format\":1", 11);
    chain_hooks.torn_wait_us = 0;
    refused(full_probe(st, &o, &found, &f, E), CODE_MANIFEST_INVALID, "a damaged catalogue");
    o.force_overwrite = true;
    ok(full_probe(st, &o, &found, &f, E) == 0 && found == FULL_COMPLETE && full_intend(st, &o, &f, E) == 0, "is replaced when asked: %s",
       fx_err.msg);
    full_close(f);
    catalog_free(cat);
}

/* Several threads write tables of one full and read chunks of one reader. */
struct worker {
    struct full *f;
    struct full_reader *r;
    struct catalog *cat;
    size_t from, step;
    int bad;
    uint64_t rows;
};

static void *write_some(void *arg) {
    struct worker *w = arg;
    struct pos anchor = fx_pos(100);
    struct err e = {0};
    for (size_t i = w->from; i < w->cat->ntables; i += w->step) {
        struct full_table *ft;
        struct buf b = BUF_INIT(MiB(1));
        if (full_table_begin(w->f, w->cat->tables[i], &anchor, ROWS_VALUES, &ft, &e) < 0) {
            w->bad++;
            continue;
        }
        for (uint64_t id = 1; id <= 200; id++) {
            buf_reset(&b);
            fx_row(&b, id, "some text", 2);
            if (full_table_put(ft, b.p, b.n, 1, &e) < 0) w->bad++;
        }
        w->bad += full_table_end(ft, NULL, NULL, NULL, &e) < 0;
        buf_free(&b);
    }
    return NULL;
}

static void *read_some(void *arg) {
    struct worker *w = arg;
    const struct full_table_info *t;
    struct err e = {0};
    for (size_t n = full_reader_tables(w->r, &t), i = 0; i < n; i++)
        for (uint64_t k = w->from; k < t[i].chunks; k += w->step) {
            struct chunk_rows *cr;
            const char *p;
            size_t len;
            uint64_t rows;
            if (full_reader_chunk(w->r, t[i].table, k, &cr, &e) < 0) {
                w->bad++;
                continue;
            }
            while (chunk_rows_next(cr, &p, &len, &rows, &e) == 0 && len > 0)
                w->rows += rows;
            chunk_rows_close(cr);
        }
    return NULL;
}

static void threads(void) {
    enum { N = 4 };
    struct full_opts o = fx_opts();
    struct worker w[N];
    pthread_t th[N];
    struct pos anchor = fx_pos(100);
    struct full *f;
    struct catalog *cat = fx_catalog(8);
    int bad = 0;
    uint64_t rows = 0;
    fresh_place();
    chain_hooks.frame_raw = 200;
    chain_hooks.chunk_stored = 1000;
    o.compression = COMPRESSION_ZSTD;
    ok(full_intend(st, &o, &f, E) == 0 && full_start(f, &anchor, cat, E) == 0, "eight tables: %s", fx_err.msg);
    for (size_t i = 0; i < N; i++) {
        w[i] = (struct worker){.f = f, .cat = cat, .from = i, .step = N};
        pthread_create(&th[i], NULL, write_some, &w[i]);
    }
    for (size_t i = 0; i < N; i++)
        pthread_join(th[i], NULL), bad += w[i].bad;
    ok(bad == 0 && full_end(f, NULL, 0, NULL, E) == 0, "written by four threads: %s", fx_err.msg);
    full_close(f);
    struct chain *c = fx_open(st);
    struct full_reader *r;
    ok(full_reader_open(c, NULL, &r, E) == 0, "open: %s", fx_err.msg);
    for (size_t i = 0; i < N; i++) {
        w[i] = (struct worker){.r = r, .from = i, .step = N};
        pthread_create(&th[i], NULL, read_some, &w[i]);
    }
    for (size_t i = 0; i < N; i++)
        pthread_join(th[i], NULL), bad += w[i].bad, rows += w[i].rows;
    ok(bad == 0 && rows == 8 * 200, "and read by four: %d rows", (int)rows);
    full_reader_close(r);
    chain_close(c);
    catalog_free(cat);
}

int main(void) {
    steps();
    other_jobs();
    threads();
    store_close(st);
    fx_remove();
    return done_testing();
}
