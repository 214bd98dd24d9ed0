/* law: for any kill of the target's writes, before or behind one, the resumed target equals the source, tables without a key exactly. */
#include "engine/flow/apply.h"
#include "tests/unit/flow/fake.h"

static struct store *st;
static uint64_t ends[8];
static int nends;

struct consumer_of { struct chain *chain; struct tables tables; struct target_state state; struct applier *a; };
static const struct table_filter all;

static void stop_consuming(struct consumer_of *k) {
    applier_close(k->a);
    tables_free(&k->tables);
    chain_close(k->chain);
    memset(k, 0, sizeof *k);
}
static int begin_consuming(struct consumer_of *k, struct err *e) {
    struct link_info at;
    bool found;
    memset(k, 0, sizeof *k);
    if (chain_open(st, &k->chain, &found, e) < 0 || fk_state_read(NULL, "s", &k->state, &found, e) < 0) return -1;
    if (fk_takeover(NULL, &k->state, e) < 0 || tables_init(&k->tables, &fk_driver, NULL, &all, NULL, 0, e) < 0) return -1;
    struct applier_opts o = {.driver = &fk_driver, .target = (struct target *)k, .state = &k->state, .chain = k->chain, .tables = &k->tables, .window_bytes = 4096};
    if (applier_open(&o, &k->a, e) < 0 || chain_find(k->chain, k->state.link_id, &at, e) < 0) return -1;
    return tables_at(&k->tables, k->chain, at.n + 1, applier_seq(k->a), e);
}
/* From what the target says to the chain's tip; one process's life. */
static int consume(struct consumer_of *k, struct err *e) {
    struct link_info at;
    bool stopped;
    if (begin_consuming(k, e) < 0 || chain_find(k->chain, k->state.link_id, &at, e) < 0) return -1;
    for (uint64_t n = at.n + 1; n < chain_info(k->chain)->nlinks; n++)
        if (applier_link(k->a, n, &stopped, e) < 0) return -1;
    return 0;
}
static void start_target(void) {
    struct link_info first;
    struct chain *c = fx_open(st);
    fk_reset();
    chain_link(c, 0, &first, E);
    snprintf(fk.state.stream_id, sizeof fk.state.stream_id, "s");
    snprintf(fk.state.link_id, sizeof fk.state.link_id, "%s", first.id);
    snprintf(fk.state.lineage, sizeof fk.state.lineage, "%s", chain_info(c)->lineage);
    fk.state.seq = first.end_seq;
    fk.have_state = true;
    for (int i = 0; i < 2; i++) fdb_add(&fk.db, src.shapes[i], "public", src.shapes[i]->name);
    chain_close(c);
}
static bool equals(const char *what) {
    static struct fdb want;
    char why[200] = "";
    fdb_copy(&want, &src.now);
    bool same = fdb_same(&fk.db, &want, why, sizeof why);
    if (!same) note("%s: %s", what, why);
    if (fk.missing) note("%s: %llu changes met no row", what, (unsigned long long)fk.missing);
    return same && !fk.missing;
}

static int steps;
static void undisturbed(void) {
    struct consumer_of k;
    struct err e = {0};
    start_target();
    int rc = consume(&k, &e);
    ok(rc == 0 && equals("undisturbed"), "the whole chain is applied%s%s", rc < 0 ? ": " : "", rc < 0 ? e.msg : "");
    if (rc < 0) return stop_consuming(&k);
    const struct applier_stats *s = applier_stats(k.a);
    ok(s->windows > 10 && s->split_transactions > 0 && s->links == (uint64_t)nends, "in many windows; one transaction in parts (%llu windows)", (unsigned long long)s->windows);
    is_int(fk.state.seq, chain_info(k.chain)->tip.end_seq, "the state row stands at the tip's seq");
    is_str(fk.state.link_id, chain_info(k.chain)->tip.id, "and at its id");
    steps = fk.step;
    stop_consuming(&k);
    ok(consume(&k, &e) == 0 && fk.step <= steps + 1, "a second run finds nothing to do");
    stop_consuming(&k);
}

/* Invariant 3: marks lie at commits, at shape changes, or inside the one large transaction. */
static void windows_end_at_commits(void) {
    struct chain *c = fx_open(st);
    struct batch b = {0};
    struct link_reader *r;
    static uint64_t good[8000];
    int n = 0, strange = 0, marks = fk.nmarks;
    uint64_t pos = 100, prev = 0;
    if (batch_init(&b, KiB(64), E) < 0) return;
    for (uint64_t k = 1; k < chain_info(c)->nlinks; k++) {
        if (link_reader_open(c, k, 0, &r, E) < 0) return;
        for (;;) {
            batch_reset(&b);
            if (link_reader_next(r, &b, KiB(64), E) < 0 || !b.n) break;
            for (size_t i = 0; i < b.n; i++) {
                bool big = pos == big_from; /* the transaction under way is the large one */
                if (b.v[i].op == CHANGE_SHAPE) good[n++] = b.v[i].seq - 1, good[n++] = b.v[i].seq;
                else if (b.v[i].op == CHANGE_COMMIT) good[n++] = b.v[i].seq, pos += 10;
                else if (big) good[n++] = b.v[i].seq;
            }
        }
        link_reader_close(r);
    }
    for (int i = 0; i < marks; i++) {
        bool found = false;
        for (int k = 0; k < n && !found; k++) found = good[k] == fk.marks[i];
        strange += !found;
        if (fk.marks[i] < prev) strange++;
        prev = fk.marks[i];
    }
    ok(marks > 10 && strange == 0, "each of %d marks stands at a commit, at a shape change, or inside the large transaction", marks);
    batch_free(&b);
    chain_close(c);
}

static void killed_anywhere(void) {
    int bad = 0, tries = 0, inside = 0;
    for (int after = 0; after < 2; after++)
        for (int at = 1; at <= steps && !bad; at++) {
            struct consumer_of k;
            struct err e = {0};
            char what[64];
            start_target();
            fk.die_at = at;
            fk.after = after;
            snprintf(what, sizeof what, "killed %s write %d", after ? "behind" : "before", at);
            bool died = consume(&k, &e) < 0 && fk.dead;
            stop_consuming(&k);
            fk_live();
            inside += fk.have_lane && fk.lane_seq > fk.state.seq;
            err_clear(&e);
            tries++;
            if (consume(&k, &e) < 0 || !died || !equals(what)) bad++, note("%s (%s): %s", what, died ? "died" : "lived", e.msg);
            stop_consuming(&k);
        }
    ok(bad == 0 && inside > 5, "%d kills, %d of them inside a link: the resumed target equals the source", tries, inside);
}

static void killed_again_and_again(void) {
    struct consumer_of k;
    struct err e = {0};
    int lives = 0, rc;
    start_target();
    do {
        fk_live();
        fk.die_at = fk.step + 3; /* takeover, a window, and the next one is lost or kept without a word */
        fk.after = lives % 2;
        err_clear(&e);
        rc = consume(&k, &e);
        stop_consuming(&k);
    } while (rc < 0 && fk.dead && ++lives < 1000);
    ok(rc == 0 && lives > 10 && equals("again and again"), "killed %d times in a row, a window or two each life", lives);
}

static void conflicts(void) {
    struct consumer_of k;
    struct err e = {0};
    start_target();
    fk.conflicts = 1;
    ok(consume(&k, &e) == 0 && equals("one conflict") && applier_stats(k.a)->replayed_ordered == 1, "after a unique conflict the window is replayed in source order");
    stop_consuming(&k);
    start_target();
    fk.conflicts = 2;
    ok(consume(&k, &e) == 0 && equals("two conflicts") && applier_stats(k.a)->replayed_replaced == 1, "after a second one its rows are replaced");
    stop_consuming(&k);
    start_target();
    fk.conflicts = 3;
    uint64_t began = fk.state.seq;
    ok(consume(&k, &e) < 0 && e.code == CODE_UNIQUE_CONFLICT && e.marker == MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW && err_exit_code(&e) == 3, "after a third it is a refusal: %s", e.msg);
    ok(fk.state.seq == began && applier_seq(k.a) == began, "and the target stands where it was");
    stop_consuming(&k);
    err_clear(&e);
    ok(consume(&k, &e) == 0 && equals("after a refusal"), "once what stood in the way is gone, it goes on");
    stop_consuming(&k);
    start_target();
    fk.fk = true;
    ok(consume(&k, &e) == 0 && equals("foreign keys enforced"), "in source order where foreign keys are enforced");
    fk.fk = false;
    stop_consuming(&k);
}

static void marks_that_do_not_fit(void) {
    struct consumer_of k;
    struct err e = {0};
    start_target();
    fk.have_lane = true;
    fk.lane_seq = 1000000;
    ok(begin_consuming(&k, &e) < 0 && e.code == CODE_MARK_MISMATCH && e.marker == MARKER_APPLY_MARK_MISMATCH, "a mark past the tip: %s", e.msg);
    stop_consuming(&k);
    start_target();
    ok(consume(&k, &e) == 0, "a target at the tip");
    stop_consuming(&k);
    fk.lane_seq = fk.state.seq - 1;
    err_clear(&e);
    ok(begin_consuming(&k, &e) < 0 && e.code == CODE_MARK_MISMATCH, "a mark before its state: %s", e.msg);
    stop_consuming(&k);
}

static void fenced(void) {
    struct consumer_of k, other;
    struct err e = {0};
    bool stopped;
    start_target();
    ok(begin_consuming(&k, &e) == 0 && begin_consuming(&other, &e) == 0, "a second consumer takes over");
    ok(applier_link(k.a, 1, &stopped, &e) < 0 && e.code == CODE_FENCED, "the first one's next window is fenced");
    err_clear(&e);
    ok(applier_link(other.a, 1, &stopped, &e) == 0, "the second one's goes through");
    stop_consuming(&k);
    stop_consuming(&other);
}

static void a_hole(void) {
    struct consumer_of k;
    struct err e = {0};
    bool stopped;
    start_target();
    ok(begin_consuming(&k, &e) == 0 && applier_link(k.a, 2, &stopped, &e) < 0 && e.code == CODE_CHAIN_HOLE, "a link that does not begin where the target stands: %s", e.msg);
    stop_consuming(&k);
}

int main(void) {
    const uint64_t at[] = {100, 100};
    uint64_t from = 100;
    st = fx_store();
    src_make();
    if (src_full(st, at) < 0) { printf("Bail out! full: %s\n", fx_err.msg); return 1; }
    struct chain *c = fx_open(st);
    ends[nends++] = 160;
    ends[nends++] = shape_at_pos + 20;
    ends[nends++] = new_at_pos;
    ends[nends++] = dropped_at_pos;
    ends[nends++] = src.pos;
    for (int i = 0; i < nends; from = ends[i++])
        if (src_link(c, from, ends[i]) < 0) { printf("Bail out! link: %s\n", fx_err.msg); return 1; }
    chain_close(c);
    undisturbed();
    windows_end_at_commits();
    killed_anywhere();
    killed_again_and_again();
    conflicts();
    marks_that_do_not_fit();
    fenced();
    a_hole();
    src_free();
    store_close(st);
    fx_remove();
    return done_testing();
}
