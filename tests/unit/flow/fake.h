/* A target in memory that dies where a test says, and a source with a log of its own: what the applier and a rebuild stand between. */
#ifndef SLUICE_TESTS_FLOW_FAKE_H
#define SLUICE_TESTS_FLOW_FAKE_H

#include <pthread.h>

#include "engine/flow/apply.h"
#include "engine/flow/rebuild.h"
#include "tests/unit/chain/fixture.h"

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

#define FK_COLS 4
#define FK_ROWS 1500
#define FK_TABLES 6
#define FK_NULL "\001"
struct frow { char v[FK_COLS][16]; };
struct ftable { char ns[24], name[24]; int ncols, key; int64_t ids[FK_COLS]; int n; struct frow rows[FK_ROWS]; bool there; int finished; };
struct fdb { struct ftable t[FK_TABLES]; };

static void fdb_copy(struct fdb *to, const struct fdb *from) {
    for (int i = 0; i < FK_TABLES; i++) {
        size_t head = offsetof(struct ftable, rows);
        memcpy(&to->t[i], &from->t[i], head);
        memcpy(to->t[i].rows, from->t[i].rows, (size_t)from->t[i].n * sizeof(struct frow));
        to->t[i].there = from->t[i].there;
        to->t[i].finished = from->t[i].finished;
    }
}
static struct ftable *fdb_find(struct fdb *d, const char *name) {
    for (int i = 0; i < FK_TABLES; i++)
        if (d->t[i].there && strcmp(d->t[i].name, name) == 0) return &d->t[i];
    return NULL;
}
static void ftable_shape(struct ftable *t, const struct shape *s, const char *ns, const char *name) {
    struct frow *rows = t->rows;
    for (int r = 0; r < t->n; r++) {
        struct frow was = rows[r];
        for (int c = 0; c < s->ncols; c++) {
            snprintf(rows[r].v[c], sizeof rows[r].v[c], FK_NULL);
            for (int o = 0; o < t->ncols; o++)
                if (t->ids[o] == s->cols[c].id) memcpy(rows[r].v[c], was.v[o], sizeof was.v[o]);
        }
    }
    snprintf(t->ns, sizeof t->ns, "%s", ns);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->ncols = s->ncols;
    t->key = s->identity;
    for (int c = 0; c < s->ncols; c++) t->ids[c] = s->cols[c].id;
    t->there = true;
}
static struct ftable *fdb_add(struct fdb *d, const struct shape *s, const char *ns, const char *name) {
    for (int i = 0; i < FK_TABLES; i++) {
        if (d->t[i].there) continue;
        d->t[i].n = d->t[i].finished = 0;
        ftable_shape(&d->t[i], s, ns, name);
        return &d->t[i];
    }
    return NULL;
}
static int ftable_at(const struct ftable *t, const struct frow *r, bool full) {
    for (int i = 0; i < t->n; i++) {
        bool same = true;
        for (int c = 0; c < (full ? t->ncols : 1) && same; c++) same = strcmp(t->rows[i].v[c], r->v[c]) == 0;
        if (same) return i;
    }
    return -1;
}
static int by_frow(const void *a, const void *b) { return memcmp(a, b, sizeof(struct frow)); }
__attribute__((unused)) static bool fdb_same(struct fdb *a, struct fdb *b, char *why, size_t n) {
    for (int i = 0; i < FK_TABLES; i++) {
        struct ftable *x = &b->t[i], *t = x->there ? fdb_find(a, x->name) : NULL;
        if (!x->there) continue;
        if (!t || t->n != x->n || t->ncols != x->ncols) return snprintf(why, n, "table %s: %d rows instead of %d", x->name, t ? t->n : -1, x->n), false;
        for (int r = 0; r < x->n; r++) /* what stands behind a text must not count */
            for (int c = 0; c < FK_COLS; c++) {
                char clean[16] = "";
                if (c < x->ncols) snprintf(clean, sizeof clean, "%s", x->rows[r].v[c]);
                memcpy(x->rows[r].v[c], clean, 16);
                memset(clean, 0, 16);
                if (c < x->ncols) snprintf(clean, sizeof clean, "%s", t->rows[r].v[c]);
                memcpy(t->rows[r].v[c], clean, 16);
            }
        qsort(t->rows, (size_t)t->n, sizeof(struct frow), by_frow);
        qsort(x->rows, (size_t)x->n, sizeof(struct frow), by_frow);
        for (int r = 0; r < x->n; r++)
            if (memcmp(&t->rows[r], &x->rows[r], sizeof(struct frow)) != 0)
                return snprintf(why, n, "table %s: '%s,%s,%s' instead of '%s,%s,%s'", x->name, t->rows[r].v[0], t->rows[r].v[1], t->rows[r].v[2], x->rows[r].v[0], x->rows[r].v[1], x->rows[r].v[2]), false;
    }
    return true;
}

/* ---- the target -------------------------------------------------------------------------------------------------------------- */

struct fcopy { uint64_t chunks; bool whole; };
static struct fake { /* `db`, `state`, `lane_seq`, `copies` are what is durable */
    struct fdb db, undo;
    struct target_state state; bool have_state;
    uint64_t lane_seq; bool have_lane;
    struct fcopy copies[64];
    pthread_mutex_t lock;
    int step, die_at; bool after, dead;    /* the step-th durable write fails before or behind it, and everything behind that */
    int conflicts;                         /* so many windows meet a unique conflict first */
    bool fk;
    uint64_t marks[4000]; int nmarks;
    uint64_t missing;
} fk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int fk_dies(bool after, struct err *e) {
    if (!after) fk.step++;
    if (fk.step == fk.die_at && fk.after == after) fk.dead = true;
    return fk.dead ? err_set_class(e, ERR_RETRY, CODE_SERVER, "killed at write %d", fk.step) : 0;
}
static void fk_live(void) { fk.dead = false; fk.die_at = 0; }
static void fk_reset(void) {
    for (int i = 0; i < FK_TABLES; i++) fk.db.t[i].there = false, fk.db.t[i].n = 0;
    memset(&fk.state, 0, sizeof fk.state);
    memset(fk.copies, 0, sizeof fk.copies);
    fk.have_state = fk.have_lane = fk.dead = fk.after = false;
    fk.lane_seq = fk.missing = 0;
    fk.step = fk.die_at = fk.conflicts = fk.nmarks = 0;
}

struct target_table { const struct shape *s; char name[24]; };
struct lane { int n; };
struct loader { struct target_table *tt; struct frow *rows; int n, cap; };

static const char *fk_ns(struct target *t) { (void)t; return "public"; }
static int fk_ensure(struct target *t, struct err *e) { (void)t; return fk.dead ? fk_dies(false, e) : 0; }
static int fk_state_read(struct target *t, const char *id, struct target_state *st, bool *found, struct err *e) {
    (void)t;
    if (fk.dead) return fk_dies(false, e);
    if ((*found = fk.have_state && strcmp(fk.state.stream_id, id) == 0)) *st = fk.state;
    return 0;
}
static int fk_state_write(struct target *t, struct target_state *st, struct err *e) {
    (void)t;
    if (fk_dies(false, e) < 0) return -1;
    if (fk.have_state && fk.state.epoch != st->epoch) return err_set(e, CODE_FENCED, "fenced");
    fk.state = *st;
    fk.have_state = true;
    return fk_dies(true, e);
}
static int fk_takeover(struct target *t, struct target_state *st, struct err *e) {
    (void)t;
    if (fk_dies(false, e) < 0) return -1;
    fk.state.epoch++;
    *st = fk.state;
    return fk_dies(true, e);
}
static int fk_marks_read(struct target *t, const char *id, uint64_t *seq, size_t *n, struct err *e) {
    (void)t, (void)id;
    if (fk.dead) return fk_dies(false, e);
    *n = fk.have_lane;
    if (fk.have_lane) *seq = fk.lane_seq;
    return 0;
}
static int fk_marks_clear(struct target *t, const struct target_state *st, struct err *e) {
    (void)t;
    if (fk_dies(false, e) < 0) return -1;
    if (fk.state.epoch != st->epoch) return err_set(e, CODE_FENCED, "fenced");
    fk.have_lane = false;
    memset(fk.copies, 0, sizeof fk.copies);
    return fk_dies(true, e);
}
static int fk_table_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e) {
    (void)t, (void)ns;
    *s = NULL;
    if (fk.dead) return fk_dies(false, e);
    return !fdb_find(&fk.db, name) || (*s = shape_new(e)) ? 0 : -1;
}
static int fk_has_rows(struct target *t, const char *ns, const char *name, bool *any, struct err *e) {
    (void)t, (void)ns, (void)e;
    struct ftable *f = fdb_find(&fk.db, name);
    *any = f && f->n;
    return 0;
}
static int fk_compatible(struct target *t, const struct shape *a, const struct shape *b, struct err *e) { (void)t, (void)a, (void)b, (void)e; return 0; }
static int fk_objects(struct target *t, const struct catalog *c, const char *(*map)(void *, const char *), void *arg, struct err *e) {
    (void)t, (void)c, (void)map, (void)arg;
    return fk.dead ? fk_dies(false, e) : 0;
}
static int fk_create(struct target *t, const struct shape *s, const char *ns, const char *name, struct err *e) {
    (void)t;
    if (fk_dies(false, e) < 0) return -1;
    if (fdb_find(&fk.db, name)) return err_set(e, CODE_TARGET_NOT_EMPTY, "table '%s' is there", name);
    fdb_add(&fk.db, s, ns, name);
    return fk_dies(true, e);
}
static int fk_finish(struct target *t, const struct shape *s, const char *ns, const char *name, int stage, const char *(*map)(void *, const char *), void *arg, struct err *e) {
    (void)t, (void)s, (void)ns, (void)map, (void)arg;
    struct ftable *f = fdb_find(&fk.db, name);
    if (fk_dies(false, e) < 0) return -1;
    if (!f) return err_set(e, CODE_SHAPE_CHANGED, "no table '%s' to finish", name);
    f->finished |= 1 << stage;
    return fk_dies(true, e);
}
static int fk_drop(struct target *t, const char *ns, const char *name, struct err *e) {
    (void)t, (void)ns;
    if (fk_dies(false, e) < 0) return -1;
    struct ftable *f = fdb_find(&fk.db, name);
    if (f) f->there = false, f->n = 0;
    return fk_dies(true, e);
}
static int fk_sequence(struct target *t, const struct object *o, const char *ns, struct err *e) { (void)t, (void)o, (void)ns, (void)e; return 0; }
static int fk_bind(struct target *t, const struct shape *s, const char *ns, const char *name, struct target_table **tt, struct err *e) {
    (void)t, (void)ns;
    struct ftable *f = fdb_find(&fk.db, name);
    if (!f || f->ncols != s->ncols) return err_set(e, CODE_SHAPE_CHANGED, "table '%s' has %d columns, its rows %u", name, f ? f->ncols : -1, s->ncols);
    if (!(*tt = mem_alloc(sizeof **tt, e))) return -1;
    (*tt)->s = s;
    snprintf((*tt)->name, sizeof (*tt)->name, "%s", name);
    return 0;
}
static void fk_unbind(struct target_table *tt) { mem_free(tt); }

static int fk_mark(const struct mark *m, struct err *e) {
    if (m->epoch != fk.state.epoch) return err_set(e, CODE_FENCED, "fenced");
    if (fk.have_lane && m->seq < fk.lane_seq) return err_set(e, CODE_INTERNAL, "the mark goes back from %llu to %llu", (unsigned long long)fk.lane_seq, (unsigned long long)m->seq);
    fk.lane_seq = m->seq;
    fk.have_lane = true;
    if (fk.nmarks < 4000) fk.marks[fk.nmarks++] = m->seq;
    if (!m->link_id) return 0;
    snprintf(fk.state.link_id, sizeof fk.state.link_id, "%s", m->link_id);
    fk.state.seq = m->state_seq;
    return 0;
}
static int fk_lane_open(struct target *t, const struct target_state *st, unsigned n, struct lane **l, struct err *e) {
    (void)t, (void)n;
    static struct lane one;
    if (fk.dead) return fk_dies(false, e);
    if (!fk.have_lane) fk.lane_seq = st->seq, fk.have_lane = true;
    *l = &one;
    return 0;
}
static int fk_enforced(struct lane *l, bool *yes, struct err *e) { (void)l, (void)e; *yes = fk.fk; return 0; }
static void fk_lane_close(struct lane *l) { (void)l; }

static bool fk_row(const struct shape *s, const struct value *v, const uint8_t *mask, struct frow *r) {
    for (int c = 0; c < s->ncols; c++) {
        if ((mask && !mask[c]) || v[c].kind == VALUE_UNCHANGED) continue;
        if (v[c].kind == VALUE_NULL) snprintf(r->v[c], sizeof r->v[c], FK_NULL);
        else if (v[c].len >= sizeof r->v[c]) return false;
        else memset(r->v[c], 0, sizeof r->v[c]), memcpy(r->v[c], v[c].p, v[c].len);
    }
    return true;
}
static int fk_run(const struct run *r, struct apply_result *res, struct err *e) {
    if (r->kind == RUN_SEQUENCE) return 0;
    if (r->kind == RUN_TRUNCATE) {
        for (uint32_t i = 0; i < r->ntables; i++) fdb_find(&fk.db, r->tables[i]->name)->n = 0;
        return 0;
    }
    struct ftable *t = fdb_find(&fk.db, r->table->name);
    const struct shape *s = r->table->s;
    bool full = r->kind == RUN_UPDATE_FULL || r->kind == RUN_DELETE_FULL, ins = r->kind == RUN_INSERT || r->kind == RUN_UPSERT;
    for (size_t i = 0; i < r->n; i++) {
        const struct change *c = r->changes[i];
        struct frow id = {0}, new = {0};
        if (!fk_row(s, ins || (!c->before) ? c->after : c->before, NULL, &id)) return err_set(e, CODE_INTERNAL, "too long");
        int at = r->kind == RUN_INSERT ? -1 : ftable_at(t, &id, full);
        res->rows++;
        if (r->kind == RUN_DELETE || r->kind == RUN_DELETE_FULL) {
            if (at < 0) res->missing++;
            else t->rows[at] = t->rows[--t->n];
            continue;
        }
        if (at < 0 && !ins) { res->missing++; continue; }
        if (at >= 0) new = t->rows[at];
        if (!fk_row(s, c->after, r->mask, &new)) return err_set(e, CODE_INTERNAL, "too long");
        if (at < 0 && t->n == FK_ROWS) return err_set(e, CODE_INTERNAL, "too many rows");
        t->rows[at < 0 ? t->n++ : at] = new;
    }
    return 0;
}
static int fk_apply(struct lane *l, const struct run *runs, size_t n, const struct mark *m, struct apply_result *res, struct err *e) {
    (void)l;
    memset(res, 0, sizeof *res);
    if (fk_dies(false, e) < 0) return -1;
    if (fk.conflicts > 0 && n > 0) return fk.conflicts--, err_set(e, CODE_UNIQUE_CONFLICT, "a value is there already");
    fdb_copy(&fk.undo, &fk.db);
    for (size_t i = 0; i < n; i++)
        if (fk_run(&runs[i], res, e) < 0) return fdb_copy(&fk.db, &fk.undo), -1;
    if (fk_mark(m, e) < 0) return fdb_copy(&fk.db, &fk.undo), -1;
    fk.missing += res->missing;
    return fk_dies(true, e);
}
static int fk_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name, const char *ns, const char *name,
                    const struct mark *m, struct err *e) {
    (void)l, (void)old_ns;
    if (fk_dies(false, e) < 0) return -1;
    struct ftable *t = fdb_find(&fk.db, old_name);
    if (before ? !t || t->ncols != before->ncols : t != NULL) return err_set(e, CODE_SHAPE_CHANGED, "table '%s' cannot follow", old_name);
    if (before) ftable_shape(t, after, ns, name);
    else fdb_add(&fk.db, after, ns, name);
    if (fk_mark(m, e) < 0) return -1;
    return fk_dies(true, e);
}

static int fk_loader_open(struct target *t, const struct target_state *st, struct loader **l, struct err *e) {
    (void)t, (void)st;
    return (*l = mem_alloc(sizeof **l, e)) ? 0 : -1;
}
static bool fk_loader_raw(struct loader *l, const struct target_table *tt, enum rows_encoding enc) { (void)l, (void)tt, (void)enc; return false; }
static int fk_loader_done(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e) {
    (void)l, (void)e;
    pthread_mutex_lock(&fk.lock);
    *chunks = fk.copies[table].chunks;
    *whole = fk.copies[table].whole;
    pthread_mutex_unlock(&fk.lock);
    return 0;
}
static int fk_loader_begin(struct loader *l, struct target_table *tt, struct err *e) { (void)e; l->tt = tt; l->n = 0; return 0; }
static int fk_loader_rows(struct loader *l, const struct value *v, size_t n, struct err *e) {
    struct frow *rows = mem_resize(l->rows, ((size_t)l->n + n + 1) * sizeof *rows, e);
    if (!rows) return -1;
    l->rows = rows;
    for (size_t i = 0; i < n; i++) {
        memset(&rows[l->n], 0, sizeof *rows);
        if (!fk_row(l->tt->s, v + i * l->tt->s->ncols, NULL, &rows[l->n++])) return err_set(e, CODE_INTERNAL, "too long");
    }
    return 0;
}
static int fk_loader_commit(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e) {
    int rc = -1;
    pthread_mutex_lock(&fk.lock);
    if (fk_dies(false, e) < 0) goto out;
    struct ftable *t = fdb_find(&fk.db, l->tt->name);
    for (int i = 0; i < l->n; i++) t->rows[t->n++] = l->rows[i];
    l->n = 0;
    fk.copies[table] = (struct fcopy){chunks, whole};
    rc = fk_dies(true, e);
out:
    pthread_mutex_unlock(&fk.lock);
    return rc;
}
static void fk_loader_close(struct loader *l) {
    if (l) mem_free(l->rows);
    mem_free(l);
}

static const struct target_ops fk_ops = {
    .default_ns = fk_ns, .control_ensure = fk_ensure, .state_read = fk_state_read, .state_write = fk_state_write, .takeover = fk_takeover, .marks_read = fk_marks_read,
    .marks_clear = fk_marks_clear, .table_shape = fk_table_shape, .table_has_rows = fk_has_rows, .compatible = fk_compatible, .keys_check = fk_compatible,
    .objects_create = fk_objects, .table_create = fk_create, .table_finish = fk_finish, .table_drop = fk_drop, .sequence_set = fk_sequence, .table_alter = fk_alter,
    .bind = fk_bind, .unbind = fk_unbind, .loader_open = fk_loader_open, .loader_raw = fk_loader_raw, .loader_done = fk_loader_done, .loader_begin = fk_loader_begin,
    .loader_rows = fk_loader_rows, .loader_commit = fk_loader_commit, .loader_close = fk_loader_close, .lane_open = fk_lane_open, .lane_fk_enforced = fk_enforced,
    .lane_apply = fk_apply, .lane_close = fk_lane_close,
};
static const struct db_driver fk_driver = {.name = "fake", .default_ns = "public", .caps = CAP_CONCURRENT_WRITERS | CAP_DDL_IN_TXN, .target = &fk_ops};

/* ---- the source: a log made beforehand, so that tables can be read at any of its positions ------------------------------------- */

static struct shape *fk_shape(const char *name, bool key, int ncols, const char *last) {
    struct shape *s = shape_new(E);
    struct column *c = arena_zalloc(s->arena, (size_t)ncols * sizeof *c, E);
    static const char *const names[] = {"id", "v", "w", "x"};
    static const uint16_t first[] = {0};
    static const enum equality bytes[] = {EQ_BYTES};
    for (int i = 0; i < ncols; i++)
        c[i] = (struct column){.name = i == ncols - 1 && last ? last : names[i], .native = "TEXT", .type = LT_TEXT, .id = i + 1, .precision = -1, .scale = -1, .length = -1};
    if (key) {
        struct key *k = arena_zalloc(s->arena, sizeof *k, E);
        *k = (struct key){.name = "pk", .kind = KEY_PRIMARY, .ncols = 1, .cols = first, .equality = bytes};
        s->keys = k;
        s->nkeys = 1;
        s->identity = s->primary = 0;
    } else {
        s->identity = s->primary = -1;
        s->full_image = true;
    }
    s->engine = "sqlite";
    s->ns = "main";
    s->name = name;
    s->ncols = (uint16_t)ncols;
    s->cols = c;
    if (shape_finish(s, E) < 0) { printf("Bail out! %s\n", fx_err.msg); exit(1); }
    return s;
}

enum { SRC_COMMIT = 100, SRC_SHAPE };
struct sop { int op; const char *table; struct frow before, after; const struct shape *from, *to; uint64_t pos; }; /* `table`: its name before */
static struct source_log { struct sop v[4000]; int n; struct shape *shapes[16]; int nshapes; uint64_t pos; struct fdb now; } src;

static void src_put(struct sop o) {
    struct ftable *t = o.table ? fdb_find(&src.now, o.table) : NULL;
    int at;
    src.v[src.n++] = o;
    switch (o.op) {
    case CHANGE_INSERT: t->rows[t->n++] = o.after; break;
    case CHANGE_UPDATE: if ((at = ftable_at(t, &o.before, t->key < 0)) >= 0) t->rows[at] = o.after; break;
    case CHANGE_DELETE: if ((at = ftable_at(t, &o.before, t->key < 0)) >= 0) t->rows[at] = t->rows[--t->n]; break;
    case CHANGE_TRUNCATE: t->n = 0; break;
    case SRC_SHAPE:
        if (!o.to) t->there = false, t->n = 0;
        else if (!o.from) fdb_add(&src.now, o.to, "public", o.to->name);
        else ftable_shape(t, o.to, "public", o.to->name);
        break;
    default: break;
    }
}
static struct frow src_row(const char *id, const char *v) {
    struct frow r = {0};
    snprintf(r.v[0], 16, "%s", id);
    snprintf(r.v[1], 16, "%s", v);
    for (int c = 2; c < FK_COLS; c++) snprintf(r.v[c], 16, FK_NULL);
    return r;
}
static void src_insert(const char *t, int id, const char *v) {
    char s[16];
    snprintf(s, sizeof s, "%d", id);
    src_put((struct sop){.op = CHANGE_INSERT, .table = t, .after = src_row(s, v)});
}
static void src_update(const char *t, int row, const char *v) {
    struct ftable *f = fdb_find(&src.now, t);
    if (!f->n) return;
    struct frow was = f->rows[row % f->n], now = was;
    memset(now.v[1], 0, 16);
    snprintf(now.v[1], 16, "%s", v);
    if (f->ncols > 2 && row % 2) snprintf(now.v[2], 16, "%s", v);
    src_put((struct sop){.op = CHANGE_UPDATE, .table = t, .before = was, .after = now});
}
static void src_delete(const char *t, int row) {
    struct ftable *f = fdb_find(&src.now, t);
    if (f->n) src_put((struct sop){.op = CHANGE_DELETE, .table = t, .before = f->rows[row % f->n]});
}
static void src_commit(void) { src_put((struct sop){.op = SRC_COMMIT, .pos = src.pos += 10}); }
static struct shape *src_keep(struct shape *s) { return src.shapes[src.nshapes++] = s; }

/* Tables as they stood at a position. */
static void src_at(uint64_t pos, struct fdb *out) {
    static struct source_log keep;
    keep = src;
    for (int i = 0; i < FK_TABLES; i++) src.now.t[i].there = false, src.now.t[i].n = 0;
    for (int i = 0; i < 2; i++) fdb_add(&src.now, src.shapes[i], "public", src.shapes[i]->name);
    src.n = 0;
    int last = 0;
    for (int i = 0; i < keep.n; i++)
        if (keep.v[i].op == SRC_COMMIT && keep.v[i].pos <= pos) last = i + 1;
    for (int i = 0; i < last; i++) src_put(keep.v[i]);
    fdb_copy(out, &src.now);
    src = keep;
}

static const struct value *src_values(struct arena *a, const struct shape *s, const struct frow *r) {
    struct value *v = arena_zalloc(a, s->ncols * sizeof *v, E);
    for (int c = 0; c < s->ncols; c++)
        v[c] = strcmp(r->v[c], FK_NULL) == 0 ? VALUE_OF_NULL : (struct value){r->v[c], (uint32_t)strlen(r->v[c]), VALUE_TEXT};
    return v;
}

/* Log entries (from, to] by position into one link. */
static int src_link(struct chain *c, uint64_t from, uint64_t to) {
    struct link_opts o = {.compression = COMPRESSION_NONE, .chunk_records = 150};
    struct link *l;
    struct shape *const *in_force;
    size_t n;
    const struct shape *cur[16] = {0};
    struct pos p = fx_pos(to);
    uint64_t at = 0;
    int i = 0;
    if (chain_shapes_at(c, chain_info(c)->nlinks, &in_force, &n, E) < 0 || link_begin(c, &o, &l, E) < 0) return -1;
    for (size_t k = 0; k < n; k++) cur[k] = in_force[k];
    struct arena *a = arena_new(KiB(64), E);
    for (; i < src.n; i++) { /* skip to behind `from` */
        if (src.v[i].op == SRC_COMMIT) at = src.v[i].pos;
        if (at > from) break;
        if (src.v[i].op == SRC_COMMIT && at == from) { i++; break; }
    }
    if (from <= 100) i = 0;
    for (at = from; i < src.n && at < to; i++) {
        struct sop *s = &src.v[i];
        struct pos cp;
        struct change ch = {0};
        const struct shape **sh = NULL;
        for (int k = 0; k < 16 && s->table && !sh; k++)
            if (cur[k] && strcmp(cur[k]->name, s->table) == 0) sh = &cur[k];
        switch (s->op) {
        case SRC_COMMIT:
            at = s->pos;
            cp = fx_pos(at);
            ch = (struct change){.op = CHANGE_COMMIT, .pos = &cp, .time_us = (int64_t)at};
            break;
        case SRC_SHAPE:
            ch = (struct change){.op = CHANGE_SHAPE, .shape = s->to, .old_shape = sh ? *sh : NULL, .table = sh ? (*sh)->table : 0};
            break;
        case CHANGE_TRUNCATE: ch = (struct change){.op = CHANGE_TRUNCATE, .tables = sh, .ntables = 1}; break;
        default:
            ch = (struct change){.op = (uint8_t)s->op, .shape = *sh, .table = (*sh)->table};
            if (s->op != CHANGE_DELETE) ch.after = src_values(a, *sh, &s->after);
            if (s->op == CHANGE_DELETE || (s->op == CHANGE_UPDATE && ((*sh)->identity < 0 || strcmp(s->before.v[0], s->after.v[0]) != 0))) {
                ch.before = src_values(a, *sh, &s->before);
                ch.before_image = IMAGE_FULL;
            }
        }
        if (link_put(l, &ch, E) < 0) { link_abort(l); arena_free(a); return -1; }
        if (s->op == SRC_SHAPE) {
            if (!s->to) {
                *sh = NULL;
                continue;
            }
            ((struct shape *)(uintptr_t)s->to)->table = ch.table;
            for (int k = 0; k < 16 && !sh; k++)
                if (!cur[k]) sh = &cur[k];
            *sh = s->to;
        }
    }
    arena_free(a);
    return link_end(l, &p, NULL, E);
}

/* Rows of a and b as they stood at at[0] and at[1]. */
static int src_rows(struct full *f, const struct catalog *cat, const uint64_t *at) {
    static struct fdb then;
    for (int i = 0; i < 2; i++) {
        struct full_table *ft;
        struct pos snap = fx_pos(at[i]);
        struct buf b = BUF_INIT(MiB(1));
        const struct shape *s = cat->tables[i];
        struct arena *a = arena_new(KiB(16), E);
        src_at(at[i], &then);
        struct ftable *t = fdb_find(&then, s->name);
        int rc = full_table_begin(f, s, &snap, ROWS_VALUES, &ft, E);
        for (int r = 0; rc == 0 && r < t->n; r++) {
            buf_reset(&b);
            rc = row_encode(&b, src_values(a, s, &t->rows[r]), s->ncols, E) < 0 || full_table_put(ft, b.p, b.n, 1, E) < 0 ? -1 : 0;
        }
        buf_free(&b);
        arena_free(a);
        if (rc < 0 || full_table_end(ft, NULL, NULL, NULL, E) < 0) return -1;
    }
    return 0;
}

/* The next segment at the chain's tip, where a and b still have their first shapes. */
__attribute__((unused)) static int src_rotate(struct chain *c, char segment[17]) {
    struct catalog *cat = catalog_new(E);
    struct link_info li = {0};
    int rc = -1;
    for (int i = 0; i < 2; i++)
        if (catalog_add_table(cat, shape_copy(src.shapes[i], E), E) < 0) goto out;
    rc = chain_rotate(c, cat, &li, E);
    snprintf(segment, 17, "%s", li.segment);
out:
    catalog_free(cat);
    return rc;
}
__attribute__((unused)) static int src_refill(struct store *st, const char *segment, const uint64_t *at) {
    struct full_opts o = fx_opts();
    struct full *f = NULL;
    struct pos anchor;
    const struct catalog *cat;
    o.chunk_rows = 7;
    if (full_refill(st, &o, segment, &f, E) < 0) return -1;
    full_anchor(f, &anchor, &cat);
    int rc = src_rows(f, cat, at) < 0 ? -1 : full_end(f, NULL, 0, NULL, E);
    full_close(f);
    return rc;
}

/* A full whose tables are read at positions of their own; rows in chunks of a few. */
static int src_full(struct store *st, const uint64_t *at) {
    struct full_opts o = fx_opts();
    struct full *f = NULL;
    struct catalog *cat = catalog_new(E);
    struct pos anchor = fx_pos(100);
    int rc = -1;
    o.chunk_rows = 7;
    for (int i = 0; i < 2; i++)
        if (catalog_add_table(cat, shape_copy(src.shapes[i], E), E) < 0) goto out;
    if (full_intend(st, &o, &f, E) < 0 || full_start(f, &anchor, cat, E) < 0) goto out;
    if (src_rows(f, cat, at) < 0) goto out;
    rc = full_end(f, NULL, 0, NULL, E);
out:
    full_close(f);
    catalog_free(cat);
    return rc;
}

/* The log of these tests: small transactions, one far larger than a window, shape changes, duplicates without a key, truncate. Positions in tens. */
static uint64_t big_from, big_to, shape_at_pos, new_at_pos, dropped_at_pos;
static void src_make(void) {
    memset(&src, 0, sizeof src);
    src.pos = 100;
    src_keep(fk_shape("a", true, 2, NULL));
    src_keep(fk_shape("b", false, 2, NULL));
    for (int i = 0; i < 2; i++) fdb_add(&src.now, src.shapes[i], "public", src.shapes[i]->name);
    char v[16];
    for (int k = 0; k < 12; k++) {
        snprintf(v, sizeof v, "s%d", k);
        for (int i = 0; i < 3; i++) src_insert("a", k * 10 + i, v), src_insert("b", k % 4, "dup");
        src_update("a", k * 7, "upd");
        src_update("b", k, v);
        if (k % 3 == 2) src_delete("a", k), src_delete("b", k + 1);
        src_commit();
    }
    big_from = src.pos;
    for (int i = 0; i < 300; i++) {
        src_insert("a", 1000 + i, "big"), src_insert("b", i % 5, "big");
        if (i % 4 == 0) src_update("b", i, "moved");
        if (i % 5 == 0) src_delete("b", i * 3);
    }
    src_commit();
    big_to = src.pos;
    struct shape *wide = src_keep(fk_shape("a", true, 3, NULL));
    src_insert("a", 5000, "before"); /* in the middle of a transaction */
    src_put((struct sop){.op = SRC_SHAPE, .table = "a", .from = src.shapes[0], .to = wide});
    for (int i = 0; i < 20; i++) src_update("a", i * 3 + 1, "wide");
    src_commit();
    shape_at_pos = src.pos;
    for (int k = 0; k < 6; k++) src_update("a", k * 11, "after"), src_insert("b", k, "after"), src_commit();
    struct shape *c = src_keep(fk_shape("c", true, 2, NULL)), *renamed = src_keep(fk_shape("a2", true, 3, NULL));
    src_put((struct sop){.op = SRC_SHAPE, .table = "c", .to = c});
    for (int i = 0; i < 10; i++) src_insert("c", i, "new");
    src_commit();
    new_at_pos = src.pos;
    src_put((struct sop){.op = CHANGE_TRUNCATE, .table = "b"});
    for (int i = 0; i < 8; i++) src_insert("b", 1, "twin");
    src_commit();
    src_put((struct sop){.op = SRC_SHAPE, .table = "a", .from = wide, .to = renamed});
    src_update("a2", 3, "renamed");
    src_commit();
    src_put((struct sop){.op = SRC_SHAPE, .table = "c", .from = c});
    src_put((struct sop){.op = SRC_SHAPE, .table = "b", .from = src.shapes[1]});
    src_commit();
    dropped_at_pos = src.pos;
    struct shape *again = src_keep(fk_shape("c", false, 3, NULL)); /* another table of that name */
    src_put((struct sop){.op = SRC_SHAPE, .table = "c", .to = again});
    for (int i = 0; i < 6; i++) src_insert("c", 3, "again");
    src_commit();
    src_put((struct sop){.op = SRC_SHAPE, .table = "b", .to = src_keep(fk_shape("b", true, 3, NULL))});
    for (int i = 0; i < 6; i++) src_insert("b", i, "again");
    src_commit();
}
static void src_free(void) {
    for (int i = 0; i < src.nshapes; i++) shape_free(src.shapes[i]);
}

#endif
