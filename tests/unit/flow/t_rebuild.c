/* law: wherever each table's rows were read and wherever the rebuild is killed, the target ends as the source stood at the pinned link. */
#include "engine/flow/brokerplace.h"
#include "engine/flow/rebuild.h"
#include "tests/unit/flow/fake.h"

static struct store *st;
static uint64_t ends[8];
static int nends;
static struct job job;

/* A chain of links that end at ends[]; the rows of a and b were read at at[0] and at[1]. `links` of them now. */
static void chain_with(uint64_t at_a, uint64_t at_b, int links) {
    const uint64_t at[] = {at_a, at_b};
    uint64_t from = 100;
    st = fx_store();
    if (src_full(st, at) < 0) { printf("Bail out! full: %s\n", fx_err.msg); exit(1); }
    struct chain *c = fx_open(st);
    for (int i = 0; i < links; from = ends[i++])
        if (src_link(c, from, ends[i]) < 0) { printf("Bail out! link: %s\n", fx_err.msg); exit(1); }
    chain_close(c);
    memset(&job, 0, sizeof job);
    job.target_driver = &fk_driver;
    job.store = st;
}
static void grow(int link) {
    struct chain *c = fx_open(st);
    if (src_link(c, ends[link - 1], ends[link]) < 0) { printf("Bail out! link: %s\n", fx_err.msg); exit(1); }
    chain_close(c);
}
static void no_chain(void) {
    store_close(st);
    fx_remove();
}

/* One process's life of a restore or a reset: to link `n`, 0 = the tip; an unfinished one goes on to what it pinned. */
static int rebuild(uint64_t n, bool drop, uint64_t *stood_at, struct err *e) {
    struct target_state s = {0}, was = {0};
    struct rebuild r = {.job = &job, .state = &s, .target = (struct target *)&s, .window_bytes = 2048};
    bool found, stopped = false, resuming;
    int rc = -1;
    if (chain_open(st, &r.chain, &found, e) < 0 || fk_state_read(NULL, "r", &was, &found, e) < 0) goto out;
    if (n ? chain_link(r.chain, n, &r.to, e) < 0 : broker_pin(r.chain, found ? &was : NULL, &r.to, e) < 0) goto out;
    if (found && strcmp(was.phase, drop ? "tailing" : "restored") == 0 && strcmp(was.link_id, r.to.id) == 0) { /* killed behind its last word */
        rc = 0;
        goto out;
    }
    resuming = found && strcmp(was.phase, "restoring") == 0;
    if (resuming) rebuild_began_with(&was, r.segment);
    if (rebuild_plan(&r, drop || resuming, e) < 0) goto out;
    snprintf(s.stream_id, sizeof s.stream_id, "r");
    if (rebuild_begin(&r, drop, e) < 0 || rebuild_run(&r, drop ? "tailing" : "restored", &stopped, e) < 0) goto out;
    if (stood_at) *stood_at = r.to.n;
    rc = stopped ? -1 : 0;
out:
    rebuild_free(&r);
    chain_close(r.chain);
    return rc;
}

static bool equals(uint64_t n, const char *what) {
    static struct fdb want;
    char why[200] = "";
    src_at(ends[n - 1], &want);
    bool same = fdb_same(&fk.db, &want, why, sizeof why);
    for (int i = 0; i < FK_TABLES && same; i++) {
        struct ftable *t = want.t[i].there ? fdb_find(&fk.db, want.t[i].name) : NULL;
        if (t && t->finished != 7) same = false, snprintf(why, sizeof why, "table %s has keys of stages %d", t->name, t->finished);
    }
    if (!same) note("%s: %s", what, why);
    if (fk.missing) note("%s: %llu changes met no row", what, (unsigned long long)fk.missing);
    return same && !fk.missing;
}

static void positions(void) {
    const uint64_t at[][2] = {{100, 100}, {100, 140}, {130, 100}, {100, 145}, {155, 120}, {160, 160}, {100, 170}, {165, 230}, {100, big_to}, {220, big_to}, {100, big_to - 1}};
    for (size_t i = 0; i < MEM_ARRAY_LEN(at); i++) {
        int good = 0, refused = 0, wrong = 0;
        chain_with(at[i][0], at[i][1], nends);
        for (uint64_t n = 1; n <= (uint64_t)nends; n++) {
            struct err e = {0};
            char what[64];
            bool early = ends[n - 1] < at[i][0] || ends[n - 1] < at[i][1];
            snprintf(what, sizeof what, "rows at %llu and %llu, to link %llu", (unsigned long long)at[i][0], (unsigned long long)at[i][1], (unsigned long long)n);
            fk_reset();
            int rc = rebuild(n, false, NULL, &e);
            if (early) {
                refused += rc < 0 && e.code == CODE_CHAIN_INCOMPLETE && !fk.have_state && fk.step == 0;
                wrong += !(rc < 0 && e.code == CODE_CHAIN_INCOMPLETE);
            } else if (rc == 0 && equals(n, what)) good++;
            else wrong++, note("%s: %s", what, e.msg);
        }
        ok(wrong == 0 && good + refused == nends, "rows of two tables read at %llu and %llu: right at %d links, refused before anything changes at %d", (unsigned long long)at[i][0],
           (unsigned long long)at[i][1], good, refused);
        no_chain();
    }
}

static void killed(bool drop, uint64_t at_a, uint64_t at_b) {
    int bad = 0, tries = 0, steps = 0;
    struct err e = {0};
    chain_with(at_a, at_b, nends);
    for (int at = 0; at == 0 || at <= steps; at++)
        for (int after = 0; after < 2 && !bad; after++) {
            char what[80];
            fk_reset();
            if (drop) { /* a target that follows another chain, with rows of its own */
                for (int i = 0; i < 2; i++) {
                    struct ftable *t = fdb_add(&fk.db, src.shapes[i], "public", src.shapes[i]->name);
                    for (int k = 0; k < 5; k++) t->rows[t->n++] = src_row("7", "stale");
                }
                snprintf(fk.state.stream_id, sizeof fk.state.stream_id, "r");
                snprintf(fk.state.phase, sizeof fk.state.phase, "tailing");
                snprintf(fk.state.link_id, sizeof fk.state.link_id, "%040d", 7);
                fk.have_state = fk.have_lane = true;
                fk.lane_seq = 99999;
                fk.copies[1] = (struct fcopy){3, true};
            }
            snprintf(what, sizeof what, "%s killed %s write %d", drop ? "reset" : "restore", after ? "behind" : "before", at);
            fk.die_at = at;
            fk.after = after;
            err_clear(&e);
            int rc = rebuild(0, drop, NULL, &e);
            if (at == 0) {
                if (rc < 0 || !equals((uint64_t)nends, "undisturbed")) bad++, note("undisturbed: %s", e.msg);
                steps = fk.step;
                break;
            }
            tries++;
            if (rc == 0 || !fk.dead) bad++, note("%s: it lived", what);
            fk_live();
            err_clear(&e);
            if (rebuild(0, drop, NULL, &e) < 0 || !equals((uint64_t)nends, what)) bad++, note("%s: %s", what, e.msg);
            else if (strcmp(fk.state.phase, drop ? "tailing" : "restored") != 0) bad++, note("%s: phase %s", what, fk.state.phase);
        }
    ok(bad == 0 && tries > 60, "%s, rows at %llu and %llu: %d kills, each finished by the same command", drop ? "reset" : "restore", (unsigned long long)at_a, (unsigned long long)at_b, tries);
    int lives = 0, rc;
    fk_reset();
    do {
        fk_live();
        fk.die_at = fk.step + 12 + lives % 5; /* enough for the keys, which each life makes sure of, and a window or chunk or two */
        fk.after = lives % 2;
        err_clear(&e);
        rc = rebuild(0, drop, NULL, &e);
    } while (rc < 0 && fk.dead && ++lives < 1000);
    ok(rc == 0 && lives > 3 && equals((uint64_t)nends, "again and again"), "killed %d times in a row%s%s", lives, rc < 0 ? ": " : "", e.msg);
    no_chain();
}

static void chain_grows(void) {
    int bad = 0, pinned = 0;
    for (int at = 5; at < 60 && !bad; at += 9) {
        struct err e = {0};
        uint64_t stood = 0;
        chain_with(100, 140, 2);
        fk_reset();
        fk.die_at = at;
        if (rebuild(0, false, NULL, &e) == 0) {
            no_chain();
            break;
        }
        fk_live();
        grow(2);
        grow(3);
        err_clear(&e);
        char what[64];
        snprintf(what, sizeof what, "killed before write %d, then the chain grew", at);
        if (rebuild(0, false, &stood, &e) < 0 || stood != 2 || !equals(2, what)) bad++, note("%s: at link %llu: %s", what, (unsigned long long)stood, e.msg);
        pinned++;
        no_chain();
    }
    ok(bad == 0 && pinned > 4, "an unfinished rebuild ends at the link that it pinned, though the chain grew (%d kills)", pinned);
}

static void filters(void) {
    static const char *const only_a[] = {"a*"}, *const no_b[] = {"b"}, *const nothing[] = {"zzz"}, *const narrow[] = {"a"};
    struct err e = {0};
    static struct fdb want;
    char why[200] = "";
    chain_with(100, 140, nends);
    job.filter = (struct table_filter){.include = only_a, .ninclude = 1};
    fk_reset();
    src_at(ends[nends - 1], &want);
    fdb_find(&want, "b")->there = false;
    fdb_find(&want, "c")->there = false;
    ok(rebuild(0, false, NULL, &e) == 0 && fdb_same(&fk.db, &want, why, sizeof why) && !fdb_find(&fk.db, "b") && !fdb_find(&fk.db, "c"), "only what the filter lets through: %s%s", why, e.msg);
    job.filter = (struct table_filter){.exclude = no_b, .nexclude = 1};
    fk_reset();
    src_at(ends[nends - 1], &want);
    fdb_find(&want, "b")->there = false;
    ok(rebuild(0, false, NULL, &e) == 0 && fdb_same(&fk.db, &want, why, sizeof why) && !fdb_find(&fk.db, "b") && fdb_find(&fk.db, "c"), "all but one: %s%s", why, e.msg);
    job.filter = (struct table_filter){.include = nothing, .ninclude = 1};
    fk_reset();
    ok(rebuild(0, false, NULL, &e) < 0 && err_exit_code(&e) == 2 && !fk.have_state, "a filter that leaves nothing: %s", e.msg);
    err_clear(&e);
    job.filter = (struct table_filter){.include = narrow, .ninclude = 1};
    fk_reset();
    ok(rebuild(0, false, NULL, &e) < 0 && e.marker == MARKER_INCLUDE_TABLE_SCOPE_DRIFT && fk.step == 0, "a table that is renamed out of the scope is refused before anything changes: %s", e.msg);
    no_chain();
}

/* A table that is not wanted may have been read as late as it likes. */
static void late_but_unwanted(void) {
    static const char *const no_b[] = {"b"};
    struct err e = {0};
    static struct fdb want;
    char why[200] = "";
    chain_with(100, big_to, nends);
    job.filter = (struct table_filter){.exclude = no_b, .nexclude = 1};
    fk_reset();
    src_at(ends[0], &want);
    fdb_find(&want, "b")->there = false;
    ok(rebuild(1, false, NULL, &e) == 0 && fdb_same(&fk.db, &want, why, sizeof why), "a late snapshot of a table that is left out refuses nothing: %s%s", why, e.msg);
    no_chain();
}

static void refusals(void) {
    struct err e = {0};
    chain_with(100, 100, nends);
    fk_reset();
    struct ftable *t = fdb_add(&fk.db, src.shapes[1], "public", "b");
    t->rows[t->n++] = src_row("1", "mine");
    ok(rebuild(0, false, NULL, &e) < 0 && e.code == CODE_TARGET_NOT_EMPTY && fk.step == 0 && t->n == 1, "a table with rows is refused before anything changes: %s", e.msg);
    err_clear(&e);
    t->n = 0;
    ok(rebuild(0, false, NULL, &e) == 0 && equals((uint64_t)nends, "empty table"), "an empty one of the same shape is taken");
    fk_reset();
    t = fdb_add(&fk.db, src.shapes[1], "public", "c");
    t->rows[t->n++] = src_row("1", "mine");
    err_clear(&e);
    ok(rebuild(0, false, NULL, &e) < 0 && e.code == CODE_TARGET_NOT_EMPTY && fk.step == 0, "so is one that only a link brings: %s", e.msg);
    no_chain();
}

/* ---- a chain that rotated behind its first link ---- */

static void rotated_with(const uint64_t *at, char segment[17]) {
    chain_with(100, 140, 1);
    struct chain *c = fx_open(st);
    if (src_rotate(c, segment) < 0) { printf("Bail out! rotation: %s\n", fx_err.msg); exit(1); }
    for (int i = 1; i < nends; i++)
        if (src_link(c, ends[i - 1], ends[i]) < 0) { printf("Bail out! link: %s\n", fx_err.msg); exit(1); }
    chain_close(c);
    if (at && src_refill(st, segment, at) < 0) { printf("Bail out! full: %s\n", fx_err.msg); exit(1); }
}

/* The newest full that was read by then, whatever the point; the opening itself is a point too. */
static void rotated(void) {
    const uint64_t at[][2] = {{160, 160}, {170, 200}, {160, big_to}, {big_to, 180}, {big_to - 1, big_to - 1}};
    for (size_t i = 0; i < MEM_ARRAY_LEN(at); i++) {
        char segment[17], used[17];
        int good = 0, newest = 0;
        rotated_with(at[i], segment);
        for (int n = 1; n <= nends + 1; n++) {
            struct err e = {0};
            char what[80];
            int end = n <= 2 ? 0 : n - 2;
            bool is_new = n >= 2 && ends[end] >= at[i][0] && ends[end] >= at[i][1];
            snprintf(what, sizeof what, "second full read at %llu and %llu, to entry %d", (unsigned long long)at[i][0], (unsigned long long)at[i][1], n);
            fk_reset();
            int rc = rebuild((uint64_t)n, false, NULL, &e);
            rebuild_began_with(&fk.state, used);
            bool right = (strcmp(used, segment) == 0) == is_new;
            if (!right) note("%s: the wrong full", what);
            if (rc == 0 && right && equals((uint64_t)end + 1, what)) good++;
            else note("%s: %s", what, e.msg);
            newest += is_new;
        }
        ok(good == nends + 1 && newest >= 4 && newest <= nends, "a second full read at %llu and %llu: right at %d points, %d of them by it", (unsigned long long)at[i][0],
           (unsigned long long)at[i][1], good, newest);
        no_chain();
    }
}

/* Killed while the second full was being filled: the rows on the target are the first one's, so it is the one to go on with. */
static void completes_between(bool drop) {
    const uint64_t at[] = {170, big_to};
    int bad = 0, kills = 0;
    for (int die = 3; die < 70 && !bad; die += 4) {
        struct err e = {0};
        char segment[17], used[17], what[64];
        rotated_with(NULL, segment);
        fk_reset();
        fk.die_at = die;
        bool lived = rebuild(0, drop, NULL, &e) == 0;
        fk_live();
        if (src_refill(st, segment, at) < 0) bad++, note("refill: %s", fx_err.msg);
        snprintf(what, sizeof what, "killed before write %d, then the second full was whole", die);
        bool loading = strcmp(fk.state.phase, "restoring") == 0;
        err_clear(&e);
        if (rebuild(0, drop, NULL, &e) < 0 || !equals((uint64_t)nends, what)) bad++, note("%s: %s", what, e.msg);
        rebuild_began_with(&fk.state, used);
        if (loading && strcmp(used, segment) == 0) bad++, note("%s: another full than it began with", what);
        kills += !lived && loading;
        no_chain();
    }
    ok(bad == 0 && kills > 8, "%s goes on with the full that it began with (%d kills)", drop ? "a reset" : "a restore", kills);
}

/* The row was deleted by hand, its marks were not: rows that the marks speak of are gone with the tables. */
static void orphaned_marks(void) {
    struct err e = {0};
    int bad = 0;
    chain_with(100, 140, nends);
    for (int at = 0; at < 12; at++) {
        fk_reset();
        fk.have_lane = true;
        fk.lane_seq = 100;
        fk.copies[1] = fk.copies[2] = (struct fcopy){1, true};
        fk.die_at = at;
        fk.after = at % 2;
        err_clear(&e);
        rebuild(0, false, NULL, &e);
        fk_live();
        err_clear(&e);
        if (rebuild(0, false, NULL, &e) < 0 || !equals((uint64_t)nends, "orphaned marks")) bad++, note("killed at %d: %s", at, e.msg);
    }
    ok(bad == 0, "marks whose row is gone are not believed");
    no_chain();
}

int main(void) {
    src_make();
    ends[nends++] = 160;
    ends[nends++] = shape_at_pos + 20;
    ends[nends++] = new_at_pos;
    ends[nends++] = dropped_at_pos;
    ends[nends++] = src.pos;
    positions();
    killed(false, 100, 140);
    killed(true, 100, big_to);
    chain_grows();
    filters();
    late_but_unwanted();
    refusals();
    orphaned_marks();
    rotated();
    completes_between(false);
    completes_between(true);
    src_free();
    return done_testing();
}
