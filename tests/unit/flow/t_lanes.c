/* law: whatever the number of lanes, wherever the target dies, and however many lanes the next life has, the resumed target equals the
 * source: tables without a key exactly, every row once. A target in memory whose lanes commit one by one. */
#include <time.h>

#include "engine/flow/apply.h"
#include "engine/flow/route.h"
#include "tests/unit/flow/fake.h"

static struct store *st;
static uint64_t ends[16];
static int nends;

/* ---- a target with several lanes --------------------------------------------------------------------------------------- */

struct lrow {
    uint64_t seq, route_epoch, epoch;
    bool there;
};
static struct { /* durable but for the counters; under fk.lock */
    struct lrow v[ROUTE_LANES_MAX];
    struct target_route route;
    bool have_route;
    int commits[ROUTE_LANES_MAX], routings, strange, together;
    int victims;                   /* so many transactions are chosen as a deadlock's victim */
    const struct shape *on_target; /* if given: what table "a" has there */
    bool hold, held;
    pthread_cond_t moved; /* the first share of lane 1 waits while `hold` */
} ml = {.moved = PTHREAD_COND_INITIALIZER};

static void ml_reset(void) {
    mem_free(ml.route.rules);
    memset(&ml.v, 0, sizeof ml.v);
    memset(&ml.route, 0, sizeof ml.route);
    memset(&ml.commits, 0, sizeof ml.commits);
    ml.have_route = ml.hold = ml.held = false;
    ml.routings = ml.strange = ml.together = ml.victims = 0;
    ml.on_target = NULL;
}
static uint64_t ml_bound(bool high) {
    uint64_t m = ml.v[0].seq;
    for (int i = 1; i < ROUTE_LANES_MAX; i++)
        if (ml.v[i].there && (high ? ml.v[i].seq > m : ml.v[i].seq < m)) m = ml.v[i].seq;
    return m;
}
static bool ml_apart(void) {
    return ml.v[0].there && ml_bound(false) != ml_bound(true);
}

static int ml_marks_read(struct target *t, const char *id, uint64_t *seq, size_t *n, struct err *e) {
    (void)t, (void)id;
    size_t k = 0;
    if (fk.dead) return fk_dies(false, e);
    for (; k < ROUTE_LANES_MAX && ml.v[k].there; k++) {
        if (k >= *n) return err_set(e, CODE_INTERNAL, "no room");
        seq[k] = ml.v[k].seq;
    }
    *n = k;
    return 0;
}
static int ml_takeover(struct target *t, struct target_state *s, struct err *e) {
    if (fk_takeover(t, s, e) < 0) return -1;
    for (int i = 0; i < ROUTE_LANES_MAX; i++)
        ml.v[i].epoch = fk.state.epoch;
    return 0;
}
static int ml_route_read(struct target *t, const char *id, struct target_route *r, bool *found, struct err *e) {
    (void)t, (void)id;
    memset(r, 0, sizeof *r);
    *found = ml.have_route;
    if (fk.dead) return fk_dies(false, e);
    if (!ml.have_route) return 0;
    *r = ml.route;
    for (int i = 0; i < ROUTE_LANES_MAX; i++)
        r->strangers += ml.v[i].there && ml.v[i].route_epoch != r->route_epoch;
    return (r->rules = mem_strdup(ml.route.rules, e)) ? 0 : -1;
}
static int ml_route_write(struct target *t, const struct target_state *s, const struct target_route *r, struct err *e) {
    (void)t;
    if (fk_dies(false, e) < 0) return -1;
    if (fk.state.epoch != s->epoch) return err_set(e, CODE_FENCED, "fenced");
    for (int i = 0; i < ROUTE_LANES_MAX; i++)
        if (ml.v[i].there && ml.v[i].seq != r->seq) return err_set(e, CODE_MARK_MISMATCH, "lane %d stands elsewhere", i);
    mem_free(ml.route.rules);
    ml.route = *r;
    ml.have_route = r->lanes > 1;
    ml.route.rules = ml.have_route ? mem_strdup(r->rules, e) : NULL;
    for (unsigned i = 0; i < ROUTE_LANES_MAX; i++)
        ml.v[i] = (struct lrow){.seq = r->seq, .route_epoch = ml.have_route ? r->route_epoch : 0, .epoch = s->epoch, .there = i < r->lanes};
    ml.routings++;
    return fk_dies(true, e);
}
static int ml_lane_open(struct target *t, const struct target_state *s, unsigned n, struct lane **l, struct err *e) {
    (void)t;
    if (fk.dead) return fk_dies(false, e);
    if (!ml.v[n].there) ml.v[n] = (struct lrow){.seq = s->seq, .epoch = s->epoch, .there = true};
    if (!(*l = mem_alloc(sizeof **l, e))) return -1;
    (*l)->n = (int)n;
    return 0;
}
static void ml_lane_close(struct lane *l) {
    mem_free(l);
}

static int ml_mark_one(unsigned lane, const struct mark *m, struct err *e) {
    struct lrow *v = &ml.v[lane];
    if (!v->there || v->epoch != m->epoch) return err_set(e, CODE_FENCED, "fenced");
    if (v->seq > m->seq) return err_set(e, CODE_MARK_MISMATCH, "lane %u goes back", lane);
    if (m->route_epoch != (ml.have_route ? ml.route.route_epoch : 0))
        ml.strange++, note("lane %u: routing %llu", lane, (unsigned long long)m->route_epoch);
    v->seq = m->seq;
    v->route_epoch = m->route_epoch;
    return 0;
}
/* All or nothing; lanes never stand at more than two places. */
static int ml_marks(struct lane *l, const struct mark *m, struct err *e) {
    struct lrow keep[ROUTE_LANES_MAX];
    memcpy(keep, ml.v, sizeof keep);
    if (ml_mark_one((unsigned)l->n, m, e) < 0) return -1;
    for (unsigned i = 0; i < m->nalso; i++)
        if (m->also[i] == (unsigned)l->n || (i && m->also[i] <= m->also[i - 1]) || ml_mark_one(m->also[i], m, e) < 0) {
            memcpy(ml.v, keep, sizeof keep);
            return e->code ? -1 : err_set(e, CODE_INTERNAL, "lanes that move along are not in order");
        }
    uint64_t low = ml_bound(false), high = ml_bound(true);
    for (int i = 0; i < ROUTE_LANES_MAX; i++)
        if (ml.v[i].there && ml.v[i].seq != low && ml.v[i].seq != high)
            ml.strange++, note("three places: %llu", (unsigned long long)ml.v[i].seq);
    if (m->link_id) {
        if (low != high) ml.strange++, note("the state row moves while lanes stand apart");
        snprintf(fk.state.link_id, sizeof fk.state.link_id, "%s", m->link_id);
        fk.state.seq = m->state_seq;
    }
    ml.commits[l->n]++;
    ml.together += m->nalso > 0;
    return 0;
}
static int ml_apply(struct lane *l, const struct run *runs, size_t n, const struct mark *m, struct apply_result *res, struct err *e) {
    int rc = -1;
    memset(res, 0, sizeof *res);
    pthread_mutex_lock(&fk.lock);
    while (ml.hold && l->n == 1) {
        ml.held = true;
        pthread_cond_broadcast(&ml.moved);
        pthread_cond_wait(&ml.moved, &fk.lock);
    }
    if (fk_dies(false, e) < 0) goto out;
    if (ml.victims > 0 && n > 0) {
        ml.victims--;
        err_set_class(e, ERR_RETRY, CODE_SERVER, "deadlock detected");
        goto out;
    }
    if (fk.conflicts > 0 && n > 0) {
        fk.conflicts--;
        err_set(e, CODE_UNIQUE_CONFLICT, "a value is there already");
        goto out;
    }
    fdb_copy(&fk.undo, &fk.db);
    for (size_t i = 0; i < n; i++)
        if (fk_run(&runs[i], res, e) < 0) {
            fdb_copy(&fk.db, &fk.undo);
            goto out;
        }
    if (ml_marks(l, m, e) < 0) {
        fdb_copy(&fk.db, &fk.undo);
        goto out;
    }
    fk.missing += res->missing;
    rc = fk_dies(true, e);
out:
    pthread_cond_broadcast(&ml.moved);
    pthread_mutex_unlock(&fk.lock);
    return rc;
}
static int ml_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name,
                    const char *ns, const char *name, const struct mark *m, struct err *e) {
    (void)old_ns;
    int rc = -1;
    pthread_mutex_lock(&fk.lock);
    if (fk_dies(false, e) < 0) goto out;
    struct ftable *t = fdb_find(&fk.db, old_name);
    if (before ? !t || t->ncols != before->ncols : t != NULL) {
        err_set(e, CODE_SHAPE_CHANGED, "table '%s' cannot follow", old_name);
        goto out;
    }
    if (ml_marks(l, m, e) < 0) goto out;
    if (ml_apart()) ml.strange++, note("a shape changes while lanes stand apart");
    if (before) ftable_shape(t, after, ns, name);
    else fdb_add(&fk.db, after, ns, name);
    rc = fk_dies(true, e);
out:
    pthread_mutex_unlock(&fk.lock);
    return rc;
}
static int ml_table_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e) {
    (void)t, (void)ns;
    *s = NULL;
    if (fk.dead) return fk_dies(false, e);
    struct ftable *f = fdb_find(&fk.db, name);
    if (f && ml.on_target && strcmp(name, "a") == 0) return (*s = shape_copy(ml.on_target, e)) ? 0 : -1;
    for (int i = 0; f && i < src.nshapes; i++)
        if (src.shapes[i]->ncols == f->ncols && (src.shapes[i]->identity < 0) == (f->key < 0))
            return (*s = shape_copy(src.shapes[i], e)) ? 0 : -1;
    return 0;
}

static struct target_ops ml_ops;
static struct db_driver ml_driver;
static void ml_make(void) {
    ml_ops = fk_ops;
    ml_ops.marks_read = ml_marks_read;
    ml_ops.takeover = ml_takeover;
    ml_ops.route_read = ml_route_read;
    ml_ops.route_write = ml_route_write;
    ml_ops.lane_open = ml_lane_open;
    ml_ops.lane_close = ml_lane_close;
    ml_ops.lane_apply = ml_apply;
    ml_ops.table_alter = ml_alter;
    ml_ops.table_shape = ml_table_shape;
    ml_driver = fk_driver;
    ml_driver.target = &ml_ops;
}

/* ---- one life of a consumer -------------------------------------------------------------------------------------------- */

struct consumer_of {
    struct chain *chain;
    struct tables tables;
    struct target_state state;
    struct applier *a;
};
static const struct table_filter all;

static void stop_consuming(struct consumer_of *k) {
    applier_close(k->a);
    tables_free(&k->tables);
    chain_close(k->chain);
    memset(k, 0, sizeof *k);
}
static int begin_consuming(struct consumer_of *k, unsigned lanes, struct err *e) {
    struct link_info at;
    bool found;
    memset(k, 0, sizeof *k);
    if (chain_open(st, &k->chain, &found, e) < 0 || fk_state_read(NULL, "s", &k->state, &found, e) < 0) return -1;
    if (ml_takeover(NULL, &k->state, e) < 0 || tables_init(&k->tables, &ml_driver, NULL, &all, NULL, 0, e) < 0) return -1;
    struct applier_opts o = {.driver = &ml_driver,
                             .target = (struct target *)k,
                             .state = &k->state,
                             .chain = k->chain,
                             .tables = &k->tables,
                             .window_bytes = 4096,
                             .lanes = lanes,
                             .alone_rows = 1};
    if (applier_open(&o, &k->a, e) < 0 || chain_find(k->chain, k->state.link_id, &at, e) < 0) return -1;
    return tables_at(&k->tables, k->chain, at.n + 1, applier_seq(k->a), e);
}
static int consume(struct consumer_of *k, unsigned lanes, struct err *e) {
    struct link_info at;
    bool stopped;
    if (begin_consuming(k, lanes, e) < 0 || chain_find(k->chain, k->state.link_id, &at, e) < 0) return -1;
    for (uint64_t n = at.n + 1; n < chain_info(k->chain)->nlinks; n++)
        if (applier_link(k->a, n, &stopped, e) < 0) return -1;
    return 0;
}
static void start_target(void) {
    struct link_info first;
    struct chain *c = fx_open(st);
    fk_reset();
    ml_reset();
    chain_link(c, 0, &first, E);
    snprintf(fk.state.stream_id, sizeof fk.state.stream_id, "s");
    snprintf(fk.state.link_id, sizeof fk.state.link_id, "%s", first.id);
    snprintf(fk.state.lineage, sizeof fk.state.lineage, "%s", chain_info(c)->lineage);
    fk.state.seq = first.end_seq;
    fk.have_state = true;
    for (int i = 0; i < 2; i++)
        fdb_add(&fk.db, src.shapes[i], "public", src.shapes[i]->name);
    chain_close(c);
}
static bool equals(const char *what) {
    static struct fdb want;
    char why[200] = "";
    fdb_copy(&want, &src.now);
    bool same = fdb_same(&fk.db, &want, why, sizeof why);
    if (!same) note("%s: %s", what, why);
    if (fk.missing) note("%s: %llu changes met no row", what, (unsigned long long)fk.missing);
    if (ml.strange) note("%s: %d strange marks", what, ml.strange);
    return same && !fk.missing && !ml.strange;
}

/* ---- claims ------------------------------------------------------------------------------------------------------------ */

static int steps;
static void any_number_of_lanes(void) {
    static const unsigned numbers[] = {1, 2, 3, 4, 7, 16, 64, 0};
    for (size_t i = 0; i < MEM_ARRAY_LEN(numbers); i++) {
        struct consumer_of k;
        struct err e = {0};
        start_target();
        int rc = consume(&k, numbers[i], &e);
        ok(rc == 0 && equals("undisturbed"), "%u lanes: the target equals the source%s%s", numbers[i], rc < 0 ? ": " : "",
           rc < 0 ? e.msg : "");
        if (rc < 0) return stop_consuming(&k);
        uint64_t tip = chain_info(k.chain)->tip.end_seq;
        unsigned there = 0;
        for (int n = 0; n < ROUTE_LANES_MAX; n++)
            there += ml.v[n].there;
        ok(fk.state.seq == tip && strcmp(fk.state.link_id, chain_info(k.chain)->tip.id) == 0 && applier_seq(k.a) == tip &&
               ml_bound(false) == tip && !ml_apart(),
           "the state row and every mark stand at the tip");
        is_int(there, numbers[i] ? numbers[i] : 4, "there are so many marks");
        const struct applier_stats *s = applier_stats(k.a);
        if (numbers[i] == 4) {
            ok(s->shared > 10 && ml.together > 5, "windows were applied together (%llu), others by one lane for all (%d)",
               (unsigned long long)s->shared, ml.together);
            ok(ml.commits[0] && ml.commits[1] && ml.commits[2] && ml.commits[3], "by all of them (%d, %d, %d, %d commits)", ml.commits[0],
               ml.commits[1], ml.commits[2], ml.commits[3]);
            ok(ml.routings > 3, "and routed anew where shapes changed (%d times)", ml.routings);
            steps = fk.step;
        }
        if (numbers[i] == 1) ok(s->shared == 0 && !ml.have_route && ml.routings == 0, "one lane needs no routing");
        stop_consuming(&k);
    }
}

static void killed_anywhere(void) {
    static const unsigned next[] = {4, 1, 2, 8, 4, 3};
    int bad = 0, tries = 0, apart = 0;
    for (int after = 0; after < 2; after++)
        for (int at = 1; at <= steps && !bad; at++) {
            struct consumer_of k;
            struct err e = {0};
            char what[80];
            unsigned then = next[(at + after) % 6];
            start_target();
            fk.die_at = at;
            fk.after = after;
            snprintf(what, sizeof what, "killed %s write %d, then %u lanes", after ? "behind" : "before", at, then);
            consume(&k, 4, &e);
            stop_consuming(&k);
            fk_live();
            apart += ml_apart();
            err_clear(&e);
            tries++;
            if (consume(&k, then, &e) < 0 || !equals(what)) bad++, note("%s: %s", what, e.msg);
            stop_consuming(&k);
        }
    ok(bad == 0 && apart > 10, "%d kills, %d of them with lanes apart: the resumed target equals the source", tries, apart);
}

static void killed_again_and_again(void) {
    struct consumer_of k;
    struct err e = {0};
    int lives = 0, apart = 0, rc;
    start_target();
    do {
        fk_live();
        fk.die_at = fk.step + 2 + lives % 5;
        fk.after = lives % 2;
        err_clear(&e);
        rc = consume(&k, 1 + (unsigned)lives * 7 % 6, &e);
        stop_consuming(&k);
        apart += ml_apart();
    } while (rc < 0 && fk.dead && ++lives < 2000);
    ok(rc == 0 && lives > 20 && apart > 5 && equals("again and again"),
       "killed %d times in a row, %d of them apart, another number of lanes each life: %s", lives, apart, e.msg);
}

static void conflicts_and_victims(void) {
    struct consumer_of k;
    struct err e = {0};
    start_target();
    fk.conflicts = 1;
    ok(consume(&k, 4, &e) == 0 && equals("one conflict") && applier_stats(k.a)->replayed_ordered == 1,
       "a conflict in one lane: it replays its share in source order %s", e.msg);
    stop_consuming(&k);
    start_target();
    ml.victims = 3;
    ok(consume(&k, 4, &e) == 0 && equals("victims"), "a deadlock's victim tries again: %s", e.msg);
    stop_consuming(&k);
    start_target();
    fk.conflicts = 40;
    ok(consume(&k, 4, &e) < 0 && e.code == CODE_UNIQUE_CONFLICT && e.marker == MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW &&
           err_exit_code(&e) == 3,
       "what stands is a refusal: %s", e.msg);
    stop_consuming(&k);
    fk.conflicts = 0;
    err_clear(&e);
    ok(consume(&k, 4, &e) == 0 && equals("after a refusal"), "once what stood in the way is gone, it goes on %s", e.msg);
    stop_consuming(&k);
    start_target();
    fk.fk = true;
    ok(consume(&k, 4, &e) == 0 && equals("foreign keys enforced"), "with foreign keys enforced");
    fk.fk = false;
    stop_consuming(&k);
}

/* Leave the target with lanes apart: kill behind the first commit of a window of several. */
static bool leave_apart(void) {
    for (int at = 3; at < steps; at++) {
        struct consumer_of k;
        struct err e = {0};
        start_target();
        fk.die_at = at;
        fk.after = true;
        consume(&k, 4, &e);
        stop_consuming(&k);
        fk_live();
        if (ml_apart() && fk.state.seq > 0) return true;
    }
    return false;
}

static void refused(const char *claim) {
    struct consumer_of k;
    struct err e = {0};
    int rc = consume(&k, 4, &e);
    ok(rc < 0 && e.code == CODE_MARK_MISMATCH && e.marker == MARKER_APPLY_MARK_MISMATCH && err_exit_code(&e) == 3, "%s: %s", claim,
       rc < 0 ? e.msg : "taken");
    stop_consuming(&k);
}
static void marks_that_do_not_fit(void) {
    struct consumer_of k;
    struct err e = {0};
    ok(leave_apart(), "lanes that stand apart");
    ml.have_route = false;
    refused("marks without a routing");
    ml.have_route = true;
    ml.v[4] = ml.v[3];
    refused("a mark beyond the routing");
    ml.v[4].there = false;
    ml.v[3].there = false;
    refused("a mark too few");
    ml.v[3].there = true;
    ml.v[2].route_epoch++;
    refused("a mark of another routing");
    ml.v[2].route_epoch--;
    uint64_t was = ml.v[1].seq;
    ml.v[1].seq = 1000000;
    refused("a mark past the tip");
    ml.v[1].seq = fk.state.seq - 1;
    refused("a mark before the state row");
    ml.v[1].seq = was;
    char *rules = ml.route.rules;
    ml.route.rules = mem_strdup("{\"tables\":[{\"table\":1,\"lane\":9}]}", E);
    refused("a routing that cannot be");
    mem_free(ml.route.rules);
    ml.route.rules = rules;
    ml.route.hash_version = 2;
    ok(begin_consuming(&k, 4, &e) < 0 && e.code == CODE_FORMAT_UNSUPPORTED, "another hash: %s", e.msg);
    stop_consuming(&k);
    ml.route.hash_version = 1;
    err_clear(&e);
    ok(consume(&k, 4, &e) == 0 && equals("put right"), "with all put right it goes on");
    stop_consuming(&k);
    ok(begin_consuming(&k, 65, &e) < 0 && e.code == CODE_USAGE, "%s", e.msg);
    stop_consuming(&k);
}

/* The routing is read again at a start, but only where the lanes stand together. */
static void a_key_is_added(void) {
    struct consumer_of k;
    struct err e = {0};
    static const uint16_t first[] = {0}, second[] = {1};
    static const enum equality bytes[] = {EQ_BYTES};
    struct shape *s = shape_copy(src.shapes[0], E);
    struct key *keys = arena_zalloc(s->arena, 2 * sizeof *keys, E);
    keys[0] = (struct key){.name = "pk", .kind = KEY_PRIMARY, .ncols = 1, .cols = first, .equality = bytes};
    keys[1] = (struct key){.name = "u", .kind = KEY_UNIQUE, .ncols = 1, .cols = second, .equality = bytes};
    s->keys = keys;
    s->nkeys = 2;
    ok(leave_apart() && strstr(ml.route.rules, "\"name\":\"public.a\",\"hash\":[\"id\"]") != NULL,
       "table a is dealt by its key, and the lanes stand apart");
    uint64_t route = ml.route.route_epoch;
    ml.on_target = s;
    ok(begin_consuming(&k, 4, &e) == 0 && ml.route.route_epoch == route,
       "a unique index was added: the recorded routing stays until the window is done");
    stop_consuming(&k);
    ok(consume(&k, 4, &e) == 0 && equals("a key was added"), "then the routing changes, and the target equals the source: %s", e.msg);
    ok(ml.route.route_epoch > route, "under another number");
    stop_consuming(&k);
    start_target();
    ml.on_target = s;
    ok(begin_consuming(&k, 4, &e) == 0 && applier_link(k.a, 1, &(bool){false}, &e) == 0 &&
           strstr(ml.route.rules, "another unique key on the target") != NULL,
       "which says why");
    stop_consuming(&k);
    shape_free(s);
}

static void fenced(void) {
    struct consumer_of k, other;
    struct err e = {0};
    bool stopped;
    start_target();
    ok(begin_consuming(&k, 4, &e) == 0 && applier_link(k.a, 1, &stopped, &e) == 0 && begin_consuming(&other, 4, &e) == 0,
       "a second consumer takes over");
    ok(applier_link(k.a, 2, &stopped, &e) < 0 && e.code == CODE_FENCED, "every lane of the first one is fenced: %s", e.msg);
    err_clear(&e);
    ok(applier_link(other.a, 2, &stopped, &e) == 0, "the second one goes on");
    stop_consuming(&k);
    stop_consuming(&other);
    ok(consume(&k, 4, &e) == 0 && equals("fenced"), "and nothing was doubled");
    stop_consuming(&k);
}

/* A lane whose server stalls: the others finish their shares, and nobody begins the next window. */
static void *run_stalled(void *arg) {
    struct err e = {0};
    return consume(arg, 4, &e) == 0 ? arg : NULL;
}
static void stalled(void) {
    static struct consumer_of k;
    pthread_t t;
    void *done = NULL;
    start_target();
    ml.hold = true;
    if (pthread_create(&t, NULL, run_stalled, &k) != 0) return;
    pthread_mutex_lock(&fk.lock);
    while (!ml.held || !ml_apart())
        pthread_cond_wait(&ml.moved, &fk.lock);
    uint64_t high = ml_bound(true), low = ml.v[1].seq;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
    while (pthread_cond_timedwait(&ml.moved, &fk.lock, &until) == 0) {} /* whatever the others may do, they have done */
    ok(ml_bound(true) == high && ml_bound(false) == low && high > low, "a lane stalls at %llu: the others wait at %llu",
       (unsigned long long)low, (unsigned long long)high);
    ml.hold = false;
    pthread_cond_broadcast(&ml.moved);
    pthread_mutex_unlock(&fk.lock);
    pthread_join(t, &done);
    ok(done && equals("stalled"), "and all go on with it");
    stop_consuming(&k);
}

/* Rows that change their key, among others, and a table that is emptied, behind what the log has. */
static void more_log(struct chain *c) {
    uint64_t from = src.pos;
    for (int i = 0; i < 60; i++) {
        char id[16];
        struct ftable *f = fdb_find(&src.now, "a2");
        for (int n = 0; n < 12; n++)
            src_update("a2", i * 5 + n, "m");
        if (i % 20 == 7) {
            src_put((struct sop){.op = CHANGE_TRUNCATE, .table = "a2"});
            for (int n = 0; n < 90; n++)
                src_insert("a2", 20000 + i * 100 + n, "again");
        }
        for (int n = 0; n < 3; n++)
            src_insert("a2", 7000 + i * 10 + n, "n");
        if (i % 4 == 1) {
            int row = (i * 31) % f->n;
            src_update("a2", row, "there");
            struct frow was = f->rows[row], now = was;
            memset(now.v[0], 0, 16);
            snprintf(id, sizeof id, "%d", 90000 + i);
            memcpy(now.v[0], id, 16);
            src_put((struct sop){.op = CHANGE_UPDATE, .table = "a2", .before = was, .after = now});
            src_update("a2", row, "here");
            if (i % 8 == 1) src_update("a2", i, "moved");
        }
        src_commit();
    }
    if (src_link(c, from, src.pos) < 0) {
        printf("Bail out! link: %s\n", fx_err.msg);
        exit(1);
    }
}

int main(void) {
    const uint64_t at[] = {100, 100};
    uint64_t from = 100;
    st = fx_store();
    ml_make();
    src_make();
    if (src_full(st, at) < 0) {
        printf("Bail out! full: %s\n", fx_err.msg);
        return 1;
    }
    struct chain *c = fx_open(st);
    ends[nends++] = 160;
    ends[nends++] = shape_at_pos + 20;
    ends[nends++] = new_at_pos;
    ends[nends++] = src.pos;
    for (int i = 0; i < nends; from = ends[i++])
        if (src_link(c, from, ends[i]) < 0) {
            printf("Bail out! link: %s\n", fx_err.msg);
            return 1;
        }
    more_log(c);
    chain_close(c);
    any_number_of_lanes();
    killed_anywhere();
    killed_again_and_again();
    conflicts_and_victims();
    marks_that_do_not_fit();
    a_key_is_added();
    fenced();
    stalled();
    ml_reset();
    src_free();
    store_close(st);
    fx_remove();
    return done_testing();
}
