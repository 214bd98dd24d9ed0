/* Writers of links: numbering, shapes, conflicts, limits; readers of what they wrote. */
#include "tests/unit/chain/fixture.h"

static struct store *st;

static void refused(int rc, enum err_code code, const char *name) {
    ok(rc < 0 && fx_err.code == code, "%s: %s %s | %s", name, err_code_name(fx_err.code), fx_err.msg, fx_err.hint);
    err_clear(E);
}

/* Shape changes: numbers, in force, renames, drops, and what a reader gets. */
static void shapes(void) {
    struct chain *c = fx_open(st);
    struct link_opts o = {.compression = COMPRESSION_ZSTD};
    struct link *l;
    struct shape *const *s;
    size_t n;
    struct shape *wide = fx_shape("t1", 2), *fresh = fx_shape("fresh", 0), *renamed = fx_shape("renamed", 2);
    struct pos end = fx_pos(200);
    ok(chain_shapes_at(c, 1, &s, &n, E) == 0 && n == 2, "two tables");
    ok(s[0]->table == 1 && s[1]->table == 2, "numbered");
    ok(link_begin(c, &o, &l, E) == 0, "begin: %s", fx_err.msg);
    ok(fx_txn(l, s[0], 1, 2, 110) == 0, "rows: %s", fx_err.msg);
    struct value v[4] = {{"1", 1, VALUE_TEXT}, {"a", 1, VALUE_TEXT}, {"b", 1, VALUE_TEXT}, {NULL, 0, VALUE_NULL}};
    struct change early = {.op = CHANGE_INSERT, .table = 1, .shape = wide, .after = v};
    refused(link_put(l, &early, E), CODE_INTERNAL, "a row in a shape that is not in force yet");
    is_int(link_records(l), 3, "and nothing of it is counted");
    struct change alter = {.op = CHANGE_SHAPE, .table = 1, .shape = wide, .old_shape = s[0]};
    ok(link_put(l, &alter, E) == 0 && alter.table == 1, "alter: %s", fx_err.msg);
    ok(link_put(l, &early, E) == 0, "now it is: %s", fx_err.msg);
    struct change stale = {.op = CHANGE_INSERT, .table = 1, .shape = s[0], .after = v};
    refused(link_put(l, &stale, E), CODE_INTERNAL, "and the old one no more");
    struct change made = {.op = CHANGE_SHAPE, .shape = fresh};
    ok(link_put(l, &made, E) == 0, "new table: %s", fx_err.msg);
    is_int(made.table, 3, "gets the next number");
    struct change into = {.op = CHANGE_INSERT, .shape = fresh, .after = v};
    ok(link_put(l, &into, E) == 0 && into.table == 3, "its rows find it by name");
    refused(link_put(l, &made, E), CODE_SHAPE_CHANGED, "but not twice");
    made.table = 0;
    refused(link_put(l, &made, E), CODE_SHAPE_CHANGED, "nor another of that name");
    wide->table = 1;
    struct change rename = {.op = CHANGE_SHAPE, .shape = renamed, .old_shape = wide};
    ok(link_put(l, &rename, E) == 0 && rename.table == 1, "a rename keeps the number: %s", fx_err.msg);
    const struct shape *both[] = {renamed, fresh};
    struct change cut = {.op = CHANGE_TRUNCATE, .tables = both, .ntables = 2, .flags = TRUNCATE_CASCADE};
    ok(link_put(l, &cut, E) == 0 && cut.table == 1, "truncate: %s", fx_err.msg);
    struct change drop = {.op = CHANGE_SHAPE, .old_shape = fresh};
    ok(link_put(l, &drop, E) == 0 && drop.table == 3, "drop: %s", fx_err.msg);
    refused(link_put(l, &into, E), CODE_INTERNAL, "no rows after it");
    struct change again = {.op = CHANGE_SHAPE, .shape = fresh};
    ok(link_put(l, &again, E) == 0 && again.table == 4, "made again: number 4, never 3 again");
    struct change seq = {.op = CHANGE_SEQUENCE, .seq_ns = "main", .seq_name = "s", .seq_value = -7, .seq_called = 1};
    ok(link_put(l, &seq, E) == 0, "sequence");
    struct pos p = fx_pos(199);
    struct change commit = {.op = CHANGE_COMMIT, .pos = &p, .time_us = 5};
    ok(link_put(l, &commit, E) == 0, "commit");
    ok(link_end(l, &end, NULL, E) == 0, "end: %s", fx_err.msg);
    ok(chain_shapes_at(c, 2, &s, &n, E) == 0 && n == 3, "three tables at the end");
    ok(strcmp(s[0]->name, "renamed") == 0 && s[0]->table == 1 && s[2]->table == 4, "renamed and numbered");
    ok(chain_shapes_at(c, 1, &s, &n, E) == 0 && n == 2 && strcmp(s[0]->name, "t1") == 0, "as they were at its start");

    struct link_reader *r;
    struct batch b;
    batch_init(&b, KiB(64), E);
    ok(link_reader_open(c, 1, 0, &r, E) == 0 && link_reader_next(r, &b, MiB(1), E) == 0, "read: %s", fx_err.msg);
    const uint8_t ops[] = {CHANGE_INSERT, CHANGE_INSERT,   CHANGE_COMMIT, CHANGE_SHAPE, CHANGE_INSERT,   CHANGE_SHAPE, CHANGE_INSERT,
                           CHANGE_SHAPE,  CHANGE_TRUNCATE, CHANGE_SHAPE,  CHANGE_SHAPE, CHANGE_SEQUENCE, CHANGE_COMMIT};
    is_int(b.n, sizeof ops, "all records");
    bool good = b.n == sizeof ops;
    for (size_t i = 0; good && i < b.n; i++)
        good = b.v[i].op == ops[i] && b.v[i].seq == i + 1;
    ok(good, "in order, numbered from 1");
    ok(b.ends_at_commit, "ends at a commit");
    ok(b.v[3].old_shape->ncols == 2 && b.v[3].shape->ncols == 4 && b.v[4].shape == b.v[3].shape,
       "shape before and after, and the row's is the new one");
    ok(b.v[4].after[3].kind == VALUE_NULL && b.v[4].after[2].len == 1, "values");
    ok(b.v[8].ntables == 2 && b.v[8].flags == TRUNCATE_CASCADE && strcmp(b.v[8].tables[0]->name, "renamed") == 0, "truncate");
    ok(b.v[9].shape == NULL && b.v[9].table == 3, "drop");
    ok(strcmp(b.v[11].seq_name, "s") == 0 && b.v[11].seq_value == -7, "sequence");
    is_str(b.v[12].pos->token, "199", "commit's position");
    link_reader_close(r);
    for (uint64_t from = 1; from < 13; from++) {
        batch_reset(&b);
        if (link_reader_open(c, 1, from, &r, E) < 0 || link_reader_next(r, &b, MiB(1), E) < 0) {
            ok(0, "from %d: %s", (int)from, fx_err.msg);
            continue;
        }
        bool right = b.n == 13 - from && b.v[0].seq == from + 1;
        for (size_t i = 0; right && i < b.n; i++)
            right = b.v[i].op == ops[from + i];
        ok(right && (from > 4 || b.v[4 - from].shape->ncols == 4), "from %d with the shapes of there", (int)from);
        link_reader_close(r);
    }
    batch_free(&b);
    struct verify_report rep;
    ok(chain_verify(c, true, &rep, E) == 0, "verify: %s", fx_err.msg);
    shape_free(wide);
    shape_free(fresh);
    shape_free(renamed);
    chain_close(c);
}

static void order(void) {
    struct chain *c = fx_open(st);
    struct link_opts o = {.since = NULL};
    struct link *l;
    struct pos p;
    struct change commit = {.op = CHANGE_COMMIT, .pos = &p};
    ok(link_begin(c, &o, &l, E) == 0, "begin");
    p = fx_pos(150);
    refused(link_put(l, &commit, E), CODE_INTERNAL, "a transaction from before the link's start");
    p = fx_pos(250);
    ok(link_put(l, &commit, E) == 0, "later is fine");
    p = fx_pos(240);
    refused(link_put(l, &commit, E), CODE_INTERNAL, "but not backwards");
    struct pos end = fx_pos(245);
    refused(link_end(l, &end, NULL, E), CODE_INTERNAL, "an end before its last transaction");
    ok(link_begin(c, &o, &l, E) == 0, "begin");
    end = fx_pos(199);
    refused(link_end(l, &end, NULL, E), CODE_INTERNAL, "an end before its start");
    o.since = "0123456789";
    refused(link_begin(c, &o, &l, E), CODE_ID_UNKNOWN, "--since of no link");
    struct link_info li;
    chain_link(c, 0, &li, E);
    o.since = li.id;
    refused(link_begin(c, &o, &l, E), CODE_CHAIN_CONFLICT, "--since of an older link");
    chain_close(c);
}

static void conflict(void) {
    struct chain *a = fx_open(st), *b = fx_open(st);
    struct link_opts o = {.since = NULL};
    struct link *l;
    struct shape *const *s;
    size_t n;
    struct pos end = fx_pos(310);
    uint64_t before = chain_info(a)->nlinks;
    ok(link_begin(a, &o, &l, E) == 0 && chain_shapes_at(a, before, &s, &n, E) == 0 && fx_txn(l, s[1], 1, 1, 305) == 0, "one begins: %s",
       fx_err.msg);
    ok(fx_link(b, 1, 1, 300, COMPRESSION_NONE) == 0, "another is faster");
    refused(link_end(l, &end, NULL, E), CODE_CHAIN_CONFLICT, "the first is refused");
    ok(chain_info(a)->nlinks == before + 1 && strcmp(chain_info(a)->tip.id, chain_info(b)->tip.id) == 0, "and sees the other's link");
    struct pos cov = fx_pos(400);
    ok(chain_cover(b, &cov, E) == 0, "covered meanwhile");
    ok(fx_link(a, 2, 1, 410, COMPRESSION_NONE) == 0, "is no conflict: %s", fx_err.msg);
    cov = fx_pos(500);
    refused(chain_cover(b, &cov, E), CODE_CHAIN_CONFLICT, "but covering for a tip that is not ours any more");
    chain_close(a);
    chain_close(b);
}

/* Two processes extend as fast as they can: every link that was told to be in the chain is in it. */
static void race(void) {
    enum { EACH = 20 };
    int status, failures = 0;
    struct chain *c = fx_open(st);
    uint64_t before = chain_info(c)->nlinks;
    pid_t pid[2];
    for (int k = 0; k < 2; k++)
        if ((pid[k] = fork()) == 0) {
            int done = 0;
            for (int tries = 0; done < EACH && tries < 2000; tries++) {
                struct chain *mine = fx_open(st);
                uint64_t at;
                text_u64(chain_info(mine)->tip_pos.token, &at);
                if (fx_link(mine, 1, 1, at + 10, COMPRESSION_NONE) == 0) done++;
                else if (fx_err.code != CODE_CHAIN_CONFLICT) {
                    fprintf(stderr, "# %s\n", fx_err.msg);
                    _exit(2);
                }
                chain_close(mine);
            }
            _exit(done == EACH ? 0 : 3);
        }
    for (int k = 0; k < 2; k++) {
        waitpid(pid[k], &status, 0);
        failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    is_int(failures, 0, "both got all their links in");
    chain_refresh(c, NULL, E);
    is_int(chain_info(c)->nlinks, before + 2 * EACH, "and each of them once");
    struct verify_report r;
    ok(chain_verify(c, true, &r, E) == 0, "without a fork: %s", fx_err.msg);
    chain_close(c);
}

static void huge(void) {
    struct chain *c = fx_open(st);
    struct link_opts o = {.compression = COMPRESSION_ZSTD};
    struct link *l;
    struct shape *const *s;
    size_t n, len = MiB(5);
    char *text = malloc(len);
    uint64_t at;
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + (i * 7 + i / 1000) % 26);
    struct value v[4] = {{"1", 1, VALUE_TEXT}, {text, (uint32_t)len, VALUE_TEXT}, {"x", 1, VALUE_TEXT}, {"y", 1, VALUE_TEXT}};
    text_u64(chain_info(c)->tip_pos.token, &at);
    ok(link_begin(c, &o, &l, E) == 0 && chain_shapes_at(c, chain_info(c)->nlinks, &s, &n, E) == 0, "begin");
    for (int i = 0; i < 4; i++) {
        struct change x = {.op = CHANGE_INSERT, .table = s[0]->table, .shape = s[0], .after = v};
        v[1].len = i % 2 ? 3 : (uint32_t)len;
        if (link_put(l, &x, E) < 0) ok(0, "put: %s", fx_err.msg);
    }
    struct pos end = fx_pos(at + 10);
    struct change commit = {.op = CHANGE_COMMIT, .pos = &end};
    ok(link_put(l, &commit, E) == 0 && link_end(l, &end, NULL, E) == 0, "records larger than a frame: %s", fx_err.msg);
    struct link_reader *r;
    struct batch b;
    batch_init(&b, KiB(64), E);
    unsigned calls = 0, rows = 0, cut = 0;
    bool good = true;
    ok(link_reader_open(c, chain_info(c)->tip.n, 0, &r, E) == 0, "open");
    for (;; calls++) {
        batch_reset(&b);
        if (link_reader_next(r, &b, KiB(1), E) < 0) {
            ok(0, "read: %s", fx_err.msg);
            break;
        }
        if (b.n == 0) break;
        cut += !b.ends_at_commit;
        for (size_t i = 0; i < b.n; i++)
            if (b.v[i].op == CHANGE_INSERT)
                good = good && b.v[i].after[1].len == (rows++ % 2 ? 3 : len) && memcmp(b.v[i].after[1].p, text, b.v[i].after[1].len) == 0;
    }
    ok(good && rows == 4, "come back whole");
    ok(calls >= 3 && cut >= 2, "and a transaction over the bound is cut inside: %u batches, %u without an end", calls, cut);
    link_reader_close(r);
    batch_free(&b);
    free(text);
    chain_close(c);
}

int main(void) {
    st = fx_store();
    ok(fx_full(st, 2, 3, COMPRESSION_NONE) == 0, "full: %s", fx_err.msg);
    shapes();
    order();
    conflict();
    race();
    huge();
    store_close(st);
    fx_remove();
    return done_testing();
}
