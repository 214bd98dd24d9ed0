/* law: for any kill point k, what a chain holds after resume(kill(work, k)) is what it holds after work, once. */
#include <signal.h>

#include "engine/base/arena.h"
#include "tests/unit/chain/fixture.h"

static struct store *st;

/* A full of two tables, whatever stands there: what `sluice backup full` does. 0 done. */
static int take_full(void) {
    struct full_opts o = fx_opts();
    enum full_found found;
    struct full *f = NULL;
    struct catalog *cat = fx_catalog(2);
    struct pos anchor = fx_pos(100), first;
    const struct catalog *known;
    char id[CHAIN_ID];
    int rc = -1;
    if (full_probe(st, &o, &found, &f, E) < 0) {
        rc = found == FULL_COMPLETE && fx_err.code == CODE_CHAIN_EXISTS ? 0 : -1;
        goto out;
    }
    if (found == FULL_FRESH && full_intend(st, &o, &f, E) < 0) goto out;
    if (found != FULL_RESUME && full_start(f, &anchor, cat, E) < 0) goto out;
    full_anchor(f, &first, &known);
    if (found == FULL_RESUME && full_match(f, cat, E) < 0) goto out;
    if (strcmp(first.token, "100") != 0 || known->ntables != 2) {
        err_set(E, CODE_INTERNAL, "anchor %s", first.token);
        goto out;
    }
    struct pos snap = found == FULL_RESUME ? fx_pos(105) : anchor;
    for (size_t i = 0; i < 2; i++)
        if (!full_table_done(f, cat->tables[i]->table) && fx_fill(f, cat->tables[i], &snap, 40, 3) < 0) goto out;
    rc = full_end(f, NULL, 0, id, E);
out:
    full_close(f);
    catalog_free(cat);
    return rc;
}

/* A link of three transactions and a new table, up to 120: what `sluice backup incremental` does. Nothing when it is there. */
static int take_link(void) {
    struct chain *c = fx_open(st);
    struct link_opts o = {.compression = COMPRESSION_ZSTD};
    struct link *l = NULL;
    struct shape *const *s, *fresh = fx_shape("fresh", 1);
    size_t n;
    struct pos end = fx_pos(120);
    int rc = -1;
    if (c == NULL) goto out;
    if (strcmp(chain_info(c)->tip_pos.token, "120") == 0) {
        rc = 0;
        goto out;
    }
    if (chain_shapes_at(c, chain_info(c)->nlinks, &s, &n, E) < 0 || link_begin(c, &o, &l, E) < 0) goto out;
    struct change made = {.op = CHANGE_SHAPE, .shape = fresh};
    if (fx_txn(l, s[0], 1000, 30, 110) < 0 || link_put(l, &made, E) < 0 || fx_txn(l, fresh, 2000, 30, 115) < 0 ||
        fx_txn(l, s[1], 3000, 30, 120) < 0)
        goto out;
    struct link *whole = l;
    l = NULL;
    rc = link_end(whole, &end, NULL, E);
out:
    link_abort(l);
    shape_free(fresh);
    chain_close(c);
    return rc;
}

static int cover(void) {
    struct chain *c = fx_open(st);
    struct pos p = fx_pos(500);
    int rc = c ? chain_cover(c, &p, E) : -1;
    chain_close(c);
    return rc;
}

/* Kill the work at the n-th reach of a point; true when it was reached. */
static bool killed_at(int (*work)(void), const char *point, unsigned n) {
    char spec[128];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(spec, sizeof spec, "%s:%u=kill", point, n);
        setenv("SLUICE_FAULT", spec, 1);
        fault_setup();
        _exit(work() == 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ok(0, "%s:%u: the work failed of itself", point, n);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* One text of everything a reader sees: rows of the full, records of the links. */
static void contents(struct buf *out) {
    struct chain *c = fx_open(st);
    struct full_reader *r;
    const struct full_table_info *t;
    struct verify_report v;
    buf_reset(out);
    if (c == NULL) return;
    if (chain_verify(c, true, &v, E) < 0) {
        buf_addf(out, E, "verify: %s", fx_err.msg);
        goto out;
    }
    if (full_reader_open(c, NULL, &r, E) < 0) {
        buf_addf(out, E, "full: %s", fx_err.msg);
        goto out;
    }
    for (size_t n = full_reader_tables(r, &t), i = 0; i < n; i++)
        for (uint64_t k = 0; k < t[i].chunks; k++) {
            struct chunk_rows *cr;
            const char *p;
            size_t len;
            uint64_t rows;
            if (full_reader_chunk(r, t[i].table, k, &cr, E) < 0) {
                buf_addf(out, E, "chunk: %s", fx_err.msg);
                continue;
            }
            while (chunk_rows_next(cr, &p, &len, &rows, E) == 0 && len > 0)
                buf_add(out, p, len, E);
            chunk_rows_close(cr);
        }
    full_reader_close(r);
    struct batch b;
    batch_init(&b, KiB(64), E);
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
                const struct change *x = &b.v[i];
                buf_addf(out, E, "%llu %u %u %s %s;", (unsigned long long)x->seq, x->op, x->table, x->shape ? x->shape->name : "",
                         x->pos ? x->pos->token : "");
                for (unsigned k = 0; x->after && k < x->shape->ncols; k++)
                    buf_add(out, x->after[k].p, x->after[k].len, E);
            }
        } while (b.n > 0);
        link_reader_close(lr);
    }
    buf_addf(out, E, "covered %s", chain_info(c)->covered.token);
    batch_free(&b);
out:
    chain_close(c);
}

static int everything(void) {
    return take_full() < 0 || take_link() < 0 || cover() < 0 ? -1 : 0;
}

static char points[256][64];
static unsigned reached[256];
static size_t npoints;

/* Which points the work comes by, by running it once with the list on. */
static void find_points(void) {
    char list[300], line[64];
    snprintf(list, sizeof list, "%s.points", fx_dir);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SLUICE_FAULT_LIST", list, 1);
        fault_setup();
        _exit(everything() == 0 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    FILE *f = fopen(list, "r");
    while (f && fgets(line, sizeof line, f) && npoints < 256) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(points[npoints++], 64, "%s", line);
    }
    if (f) fclose(f);
    unlink(list);
}

int main(void) {
    struct buf want = BUF_INIT(MiB(8)), got = BUF_INIT(MiB(8));
    struct gc_report g;
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    chain_hooks.frame_raw = 300;
    chain_hooks.chunk_stored = 900;
    st = fx_store();
    find_points();
    contents(&want);
    ok(npoints >= 12, "the work comes by %zu points", npoints);
    note("%zu bytes, ends %s", want.n, want.n > 60 ? buf_str(&want, E) + want.n - 60 : buf_str(&want, E));
    ok(want.n > 3000 && strstr(buf_str(&want, E), "covered 500"), "and makes a chain");
    for (size_t i = 0; i < npoints; i++) {
        for (unsigned n = 1; n < 200; n += n < 4 ? 1 : n / 2) {
            store_close(st);
            fx_remove();
            st = fx_store();
            if (!killed_at(everything, points[i], n)) break;
            reached[i] = n;
            err_clear(E);
            if (!ok(everything() == 0, "%s:%u resumed: %s", points[i], n, fx_err.msg)) continue;
            contents(&got);
            ok(got.n == want.n && memcmp(got.p, want.p, want.n) == 0, "%s:%u nothing lost, doubled or altered", points[i], n);
            struct chain *c = fx_open(st);
            ok(c && chain_gc(c, -1000000, false, NULL, NULL, &g, E) == 0, "gc: %s", fx_err.msg);
            struct gc_report again;
            ok(c && chain_gc(c, -1000000, true, NULL, NULL, &again, E) == 0 && again.objects == 0, "gc leaves no garbage");
            chain_close(c);
            contents(&got);
            ok(got.n == want.n && memcmp(got.p, want.p, want.n) == 0, "and gc of %llu objects took nothing of it",
               (unsigned long long)g.objects);
        }
        ok(reached[i] > 0, "killed at %s up to %u", points[i], reached[i]);
    }
    store_close(st);
    fx_remove();
    buf_free(&want);
    buf_free(&got);
    return done_testing();
}
