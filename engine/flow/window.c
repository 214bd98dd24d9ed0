/* DESIGN. What a window promises, whatever the mode:
 * 1. Executing its runs in order leaves every table as executing the changes one by one would.
 * 2. A run never holds two changes of which the second depends on the first: within a run each identity (for keyless tables: each image that
 *    an earlier change of the run produced) occurs once, so a set-based statement sees what a loop would have seen.
 * 3. Composed tables: insert+update = insert; update+update merges column by column, unchanged staying unchanged; insert+delete = nothing;
 *    update+delete = delete; delete+insert = the full row. Deletes go first, then updates grouped by their mask, then upserts.
 * 4. Ordered tables (no key, another unique key, a key not compared by bytes, a key-changing update in this window): runs of the same kind and
 *    mask in source order. Tables do not wait for each other unless foreign keys are enforced in our sessions.
 * 5. A truncate is a fence between what is before and behind it. Sequences go last; only the newest value of each counts.
 * 6. Rows are replaced only where it is certain which changes concern the same row (rowkey_certain), and, where foreign keys are enforced, only in tables
 *    that no other refers to: their deletes go before everything else of the segment, their inserts behind it.
 * Nothing is allocated per row but from one arena that is reset with each window. */
#include "engine/flow/window.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/arena.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/flow/rowkey.h"

struct slot { /* of a hash table: what the composition knows of one identity */
    uint64_t hash;
    struct change *net;   /* the composed change; NULL: insert+delete, nothing left */
    struct change *first; /* any change with this identity, for comparing */
    bool existed;         /* the target has a row of this identity before the window */
};
struct group { /* one table within one segment (between two fences) */
    struct flow_table *t;
    struct target_table *bound;
    bool ordered;
    bool replace;         /* WINDOW_REPLACED for this table */
    struct run inserts;   /* replace: the rows to put back */
    struct slot *slots; size_t cap, used; /* open addressing; the order of first touch is kept in `order` */
    uint32_t *order;
    struct open_run *open; /* ordered: the run being filled */
    struct group *next;
};
struct open_run {
    struct run run;
    size_t cap;
    struct rowkey_set seen;  /* identities (or produced images) in it */
    struct open_run *next;
};
struct window {
    struct tables *ts;
    const struct window_share *share; /* NULL: everything */
    bool fk_enforced;
    struct arena *arena;
    enum window_mode mode;
    struct run *runs; size_t nruns, cap;
    struct group *groups;      /* of the current segment, in order of first touch */
    struct group **by_number; size_t nnumber;
    struct open_run *last;     /* fk_enforced: the run filled last, of any table */
    struct open_run *ordered_head, **ordered_tail; /* runs of ordered tables in order of their beginning */
    struct change **sequences; size_t nsequences, sequences_cap;
    uint64_t rows;
};

struct window *window_new(struct tables *ts, bool fk_enforced, struct err *e) {
    struct window *w = mem_alloc(sizeof *w, e);
    if (!w) return NULL;
    w->ts = ts;
    w->fk_enforced = fk_enforced;
    if (!(w->arena = arena_new(MiB(1), e))) {
        mem_free(w);
        return NULL;
    }
    return w;
}

void window_free(struct window *w) {
    if (!w) return;
    arena_free(w->arena);
    mem_free(w->runs);
    mem_free(w->by_number);
    mem_free(w->sequences);
    mem_free(w);
}

uint64_t window_rows(const struct window *w) {
    return w->rows;
}

void window_share(struct window *w, const struct window_share *s) {
    w->share = s;
}

static bool is_ours(const struct window *w, size_t i) {
    const struct window_share *s = w->share;
    if (!s || !s->lane_of) return true;
    return s->lane_of[i] == s->lane || (s->leader && s->lane_of[i] == SHARE_LEADER);
}

static int bound_of(struct window *w, struct flow_table *t, struct target_table **tt, struct err *e) {
    if (w->share) {
        *tt = t->number < w->share->nbound ? w->share->bound[t->number] : NULL;
        return *tt ? 0 : err_set(e, CODE_INTERNAL, "table '%s.%s' is not bound for this lane", t->ns, t->name);
    }
    if (tables_bind(w->ts, t, e) < 0) return -1;
    *tt = t->bound;
    return 0;
}

static int emit(struct window *w, const struct run *r, struct err *e) {
    if (r->n == 0) return 0;
    if (w->nruns == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 32;
        struct run *v = mem_resize(w->runs, cap * sizeof *v, e);
        if (!v) return -1;
        w->runs = v;
        w->cap = cap;
    }
    w->runs[w->nruns++] = *r;
    return 0;
}

/* ---- grouping ---- */

/* Does a table of the source refer to this one? Names by the laxest rule: a false yes costs a refusal. */
static bool is_referenced(const struct window *w, const struct flow_table *t) {
    for (size_t i = 0; i < w->ts->n; i++) {
        const struct flow_table *o = w->ts->v[i];
        if (!o || o->dropped) continue;
        for (uint16_t k = 0; k < o->shape->nkeys; k++) {
            const struct key *f = &o->shape->keys[k];
            if (f->kind == KEY_FOREIGN && f->ref_table && strcasecmp(f->ref_table, t->shape->name) == 0 && (!f->ref_ns || strcasecmp(f->ref_ns, t->shape->ns) == 0))
                return true;
        }
    }
    return false;
}

static int group_of(struct window *w, struct flow_table *t, struct group **out, struct err *e) {
    if (t->number >= w->nnumber) {
        size_t n = (size_t)t->number + 64;
        struct group **v = mem_resize(w->by_number, n * sizeof *v, e);
        if (!v) return -1;
        memset(v + w->nnumber, 0, (n - w->nnumber) * sizeof *v);
        w->by_number = v;
        w->nnumber = n;
    }
    if ((*out = w->by_number[t->number])) return 0;
    struct target_table *tt;
    if (bound_of(w, t, &tt, e) < 0) return -1;
    struct group *g = arena_zalloc(w->arena, sizeof *g, e);
    if (!g) return -1;
    g->t = t;
    g->bound = tt;
    bool other_unique = t->ordered && !t->keyless;
    g->replace = w->mode == WINDOW_REPLACED && other_unique && !rowkey_unknowable(t->shape) && !(w->fk_enforced && is_referenced(w, t));
    g->ordered = !g->replace && (t->ordered || w->fk_enforced || w->mode == WINDOW_SINGLE);
    struct group **tail = &w->groups;
    while (*tail) tail = &(*tail)->next;
    *tail = g;
    *out = w->by_number[t->number] = g;
    return 0;
}

/* The values that identify a change's row: before it, and after it. */
static const struct value *id_before(const struct change *c) {
    return c->before ? c->before : c->after;
}

static bool moves(const struct flow_table *t, const struct change *c) {
    return c->op == CHANGE_UPDATE && c->before && !rowkey_equal(t->shape, c->before, c->after);
}

static int table_grow(struct window *w, struct group *g, struct err *e) {
    size_t cap = g->cap ? g->cap * 2 : 64;
    struct slot *s = arena_zalloc(w->arena, cap * sizeof *s, e);
    uint32_t *order = arena_alloc(w->arena, cap * sizeof *order, e);
    if (!s || !order) return -1;
    for (size_t i = 0; i < g->used; i++) {
        struct slot *from = &g->slots[g->order[i]];
        size_t at = from->hash & (cap - 1);
        while (s[at].first) at = (at + 1) & (cap - 1);
        s[at] = *from;
        order[i] = (uint32_t)at;
    }
    g->slots = s;
    g->order = order;
    g->cap = cap;
    return 0;
}

/* Invariant 6. */
static int check_certain(const struct shape *sh, const struct value *a, const struct value *b, struct err *e) {
    if (rowkey_certain(sh, a, b)) return 0;
    err_set(e, CODE_UNIQUE_CONFLICT, "values of a unique key moved between rows of table '%s.%s', and the log does not tell for certain which rows are the same",
            sh->ns, sh->name);
    err_mark(e, MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW, MARKER_NONE);
    return err_hint(e, "rebuild the target with --reset-target-data");
}

static int slot_of(struct window *w, struct group *g, const struct value *id, struct change *c, struct slot **out, struct err *e) {
    if ((g->used + 1) * 2 > g->cap && table_grow(w, g, e) < 0) return -1;
    uint64_t h = rowkey_hash(g->t->shape, id);
    size_t at = h & (g->cap - 1);
    for (; g->slots[at].first; at = (at + 1) & (g->cap - 1)) {
        struct slot *s = &g->slots[at];
        if (s->hash == h && rowkey_equal(g->t->shape, s->first->op == CHANGE_INSERT ? s->first->after : id_before(s->first), id)) {
            *out = s;
            return g->replace ? check_certain(g->t->shape, s->first->op == CHANGE_INSERT ? s->first->after : id_before(s->first), id, e) : 0;
        }
    }
    struct slot *s = &g->slots[at];
    s->hash = h;
    s->first = c;
    s->existed = c->op != CHANGE_INSERT;
    g->order[g->used++] = (uint32_t)at;
    *out = s;
    return 0;
}

/* An older image under a newer one: what the newer left unchanged shows through. */
static int merge_images(struct window *w, const struct shape *sh, const struct value *older, const struct value **newer, struct err *e) {
    bool gaps = false;
    for (uint16_t i = 0; i < sh->ncols && !gaps; i++) gaps = (*newer)[i].kind == VALUE_UNCHANGED && older[i].kind != VALUE_UNCHANGED;
    if (!gaps) return 0;
    struct value *v = arena_alloc(w->arena, sh->ncols * sizeof *v, e);
    if (!v) return -1;
    for (uint16_t i = 0; i < sh->ncols; i++) v[i] = (*newer)[i].kind == VALUE_UNCHANGED ? older[i] : (*newer)[i];
    *newer = v;
    return 0;
}

static int clone(struct window *w, const struct change *c, struct change **out, struct err *e) {
    struct change *n = arena_alloc(w->arena, sizeof *n, e);
    if (!n) return -1;
    *n = *c;
    *out = n;
    return 0;
}

/* Invariant 3. */
static int compose(struct window *w, struct group *g, struct change *c, struct err *e) {
    struct slot *s;
    struct change *n;
    if (slot_of(w, g, c->op == CHANGE_INSERT ? c->after : id_before(c), c, &s, e) < 0) return -1;
    if (clone(w, c, &n, e) < 0) return -1;
    struct change *was = s->net;
    switch (c->op) {
    case CHANGE_INSERT:
        s->net = n;
        return 0;
    case CHANGE_UPDATE:
        if (was && was->op != CHANGE_DELETE) {
            if (merge_images(w, g->t->shape, was->after, &n->after, e) < 0) return -1;
            if (was->op == CHANGE_INSERT) {
                n->op = CHANGE_INSERT;
                n->before = NULL;
                n->before_image = IMAGE_NONE;
            } else if (was->before && !n->before) {
                n->before = was->before;
                n->before_image = was->before_image;
            }
        }
        s->net = n;
        return 0;
    default:
        if (s->existed) s->net = n;
        else s->net = NULL;
        return 0;
    }
}

/* ---- ordered runs ---- */

static enum run_kind kind_of(const struct window *w, const struct group *g, const struct change *c) {
    switch (c->op) {
    case CHANGE_INSERT: return g->t->keyless || w->mode == WINDOW_REPLACED ? RUN_INSERT : RUN_UPSERT;
    case CHANGE_UPDATE: return g->t->keyless ? RUN_UPDATE_FULL : RUN_UPDATE;
    default: return g->t->keyless ? RUN_DELETE_FULL : RUN_DELETE;
    }
}

/* Columns an update sets: those it knows. NULL when it knows all that are stored. */
static int mask_of(struct window *w, const struct shape *sh, const struct change *c, const uint8_t **mask, struct err *e) {
    bool all = true;
    for (uint16_t i = 0; i < sh->ncols; i++)
        if (c->after[i].kind == VALUE_UNCHANGED && !sh->cols[i].generated) all = false;
    *mask = NULL;
    if (all) return 0;
    uint8_t *m = arena_alloc(w->arena, sh->ncols, e);
    if (!m) return -1;
    for (uint16_t i = 0; i < sh->ncols; i++) m[i] = c->after[i].kind != VALUE_UNCHANGED;
    *mask = m;
    return 0;
}

static bool same_mask(const uint8_t *a, const uint8_t *b, uint16_t n) {
    return a == b || (a && b && memcmp(a, b, n) == 0);
}

static int run_push(struct window *w, struct run *r, size_t *cap, struct change *c, struct err *e) {
    if (r->n == *cap) {
        size_t n = *cap ? *cap * 2 : 16;
        struct change **v = arena_alloc(w->arena, n * sizeof *v, e);
        if (!v) return -1;
        if (r->n) memcpy(v, r->changes, r->n * sizeof *v);
        r->changes = v;
        *cap = n;
    }
    r->changes[r->n++] = c;
    return 0;
}

/* Invariant 2 for keyless tables: would a change of this run meet an image that the run itself produces? */
static int fits(struct window *w, struct group *g, struct open_run *r, const struct change *c, bool *yes, struct err *e) {
    const struct shape *sh = g->t->shape;
    if (g->t->keyless) {
        *yes = true;
        if (c->op == CHANGE_UPDATE) {
            const struct value *produced = c->after; /* what it leaves unchanged is part of the image */
            *yes = !rowkey_set_has(&r->seen, sh, c->before, true);
            if (!*yes) return 0;
            if (merge_images(w, sh, c->before, &produced, e) < 0) return -1;
            return rowkey_set_add(&r->seen, sh, produced, true, e);
        }
        return 0;
    }
    const struct value *b = c->op == CHANGE_INSERT ? NULL : id_before(c), *a = c->op == CHANGE_DELETE ? NULL : c->after;
    *yes = !rowkey_unknowable(sh) && !(b && rowkey_set_has(&r->seen, sh, b, false)) && !(a && rowkey_set_has(&r->seen, sh, a, false));
    if (!*yes) return 0;
    if (b && rowkey_set_add(&r->seen, sh, b, false, e) < 0) return -1;
    if (a && a != b && (!b || !rowkey_equal(sh, a, b))) return rowkey_set_add(&r->seen, sh, a, false, e);
    return 0;
}

static int order(struct window *w, struct group *g, struct change *c, struct err *e) {
    enum run_kind kind = kind_of(w, g, c);
    const uint8_t *mask = NULL;
    bool goes = false;
    if (c->op == CHANGE_UPDATE && mask_of(w, g->t->shape, c, &mask, e) < 0) return -1;
    struct open_run *r = g->open;
    if (r && w->mode != WINDOW_SINGLE && (!w->fk_enforced || w->last == r) && r->run.kind == kind && same_mask(r->run.mask, mask, g->t->shape->ncols))
        if (fits(w, g, r, c, &goes, e) < 0) return -1;
    if (!goes) {
        if (!(r = arena_zalloc(w->arena, sizeof *r, e))) return -1;
        r->run.kind = kind;
        r->run.table = g->bound;
        r->run.mask = mask;
        rowkey_set_init(&r->seen, w->arena);
        *w->ordered_tail = r;
        w->ordered_tail = &r->next;
        g->open = r;
        if (fits(w, g, r, c, &goes, e) < 0) return -1;
    }
    w->last = r;
    return run_push(w, &r->run, &r->cap, c, e);
}

/* A composed table meets a key-changing update: what was composed so far goes out, the rest of the segment stays in order. */
static int emit_composed(struct window *w, struct group *g, struct err *e);
static int turn_ordered(struct window *w, struct group *g, struct err *e) {
    if (emit_composed(w, g, e) < 0) return -1;
    g->slots = NULL;
    g->order = NULL;
    g->cap = g->used = 0;
    g->ordered = true;
    return 0;
}

/* ---- emitting ---- */

static int run_of(struct window *w, struct group *g, enum run_kind kind, const uint8_t *mask, struct run *r) {
    (void)w;
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->table = g->bound;
    r->mask = mask;
    return 0;
}

static int emit_kind(struct window *w, struct group *g, enum run_kind kind, struct err *e) {
    struct run r;
    size_t cap = 0;
    run_of(w, g, kind, NULL, &r);
    for (size_t i = 0; i < g->used; i++) {
        struct slot *s = &g->slots[g->order[i]];
        if (!s->net) continue;
        if (kind == RUN_DELETE ? s->net->op != CHANGE_DELETE : s->net->op != CHANGE_INSERT) continue;
        if (run_push(w, &r, &cap, s->net, e) < 0) return -1;
    }
    return emit(w, &r, e);
}

struct masked { struct run run; size_t cap; struct masked *next; };

static int emit_updates(struct window *w, struct group *g, struct err *e) {
    struct masked *head = NULL, *m;
    for (size_t i = 0; i < g->used; i++) {
        struct slot *s = &g->slots[g->order[i]];
        const uint8_t *mask;
        if (!s->net || s->net->op != CHANGE_UPDATE) continue;
        if (mask_of(w, g->t->shape, s->net, &mask, e) < 0) return -1;
        for (m = head; m && !same_mask(m->run.mask, mask, g->t->shape->ncols); m = m->next) {}
        if (!m) {
            if (!(m = arena_zalloc(w->arena, sizeof *m, e))) return -1;
            run_of(w, g, RUN_UPDATE, mask, &m->run);
            m->next = head;
            head = m;
        }
        if (run_push(w, &m->run, &m->cap, s->net, e) < 0) return -1;
    }
    for (m = head; m; m = m->next)
        if (emit(w, &m->run, e) < 0) return -1;
    return 0;
}

static int emit_composed(struct window *w, struct group *g, struct err *e) {
    if (emit_kind(w, g, RUN_DELETE, e) < 0) return -1;
    if (emit_updates(w, g, e) < 0) return -1;
    return emit_kind(w, g, RUN_UPSERT, e);
}

/* WINDOW_REPLACED: every row that existed goes now, and every row that is to be there comes from its full image at the segment's end. */
static int emit_replaced(struct window *w, struct group *g, struct err *e) {
    struct run del, ins;
    size_t del_cap = 0, ins_cap = 0;
    const struct shape *sh = g->t->shape;
    run_of(w, g, RUN_DELETE, NULL, &del);
    run_of(w, g, RUN_INSERT, NULL, &ins);
    for (size_t i = 0; i < g->used; i++) {
        struct slot *s = &g->slots[g->order[i]];
        struct change *d;
        if (s->existed) {
            if (clone(w, s->first, &d, e) < 0) return -1;
            d->op = CHANGE_DELETE;
            d->before = id_before(s->first);
            d->before_image = IMAGE_KEY;
            if (run_push(w, &del, &del_cap, d, e) < 0) return -1;
        }
        if (!s->net || s->net->op == CHANGE_DELETE) continue;
        for (uint16_t c = 0; c < sh->ncols; c++)
            if (s->net->after[c].kind == VALUE_UNCHANGED && !sh->cols[c].generated) {
                err_set(e, CODE_UNIQUE_CONFLICT, "values of a unique key moved between rows of table '%s.%s', and column '%s' of one of them is not in the log",
                        sh->ns, sh->name, sh->cols[c].name);
                err_mark(e, MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW, MARKER_NONE);
                return err_hint(e, "give the table REPLICA IDENTITY FULL on the source, then rebuild with --reset-target-data");
            }
        if (clone(w, s->net, &d, e) < 0) return -1;
        d->op = CHANGE_INSERT;
        if (run_push(w, &ins, &ins_cap, d, e) < 0) return -1;
    }
    g->inserts = ins;
    return emit(w, &del, e);
}

/* A fence: everything so far becomes runs. */
static int close_segment(struct window *w, struct err *e) {
    for (struct group *g = w->groups; g; g = g->next) {
        w->by_number[g->t->number] = NULL;
        if (g->ordered) continue;
        if ((g->replace ? emit_replaced(w, g, e) : emit_composed(w, g, e)) < 0) return -1;
    }
    for (struct open_run *r = w->ordered_head; r; r = r->next)
        if (emit(w, &r->run, e) < 0) return -1;
    for (struct group *g = w->groups; g; g = g->next)
        if (g->replace && emit(w, &g->inserts, e) < 0) return -1;
    w->groups = NULL;
    w->last = w->ordered_head = NULL;
    w->ordered_tail = &w->ordered_head;
    return 0;
}

/* ---- one change at a time ---- */

static int take_row(struct window *w, struct change *c, struct err *e) {
    struct flow_table *t = tables_get(w->ts, c->table);
    struct group *g;
    if (!t) return err_set(e, CODE_INTERNAL, "record %llu names table %u, which no shape announced", (unsigned long long)c->seq, c->table);
    if (!t->wanted || c->seq <= t->skip_seq) return 0;
    if (t->dropped) return err_set(e, CODE_INTERNAL, "record %llu is of table '%s.%s' after it was dropped", (unsigned long long)c->seq, t->ns, t->name);
    if (group_of(w, t, &g, e) < 0) return -1;
    w->rows++;
    if (g->ordered) return order(w, g, c, e);
    if (moves(t, c)) {
        if (!g->replace) {
            if (turn_ordered(w, g, e) < 0) return -1;
            return order(w, g, c, e);
        }
        /* as a delete of the old identity and an insert of the new one, which keeps what it leaves unchanged */
        struct change *d, *i;
        struct slot *s;
        if (clone(w, c, &d, e) < 0 || clone(w, c, &i, e) < 0 || slot_of(w, g, c->before, c, &s, e) < 0) return -1;
        if (s->net && s->net->op != CHANGE_DELETE && merge_images(w, t->shape, s->net->after, &i->after, e) < 0) return -1;
        if (c->before_image == IMAGE_FULL && merge_images(w, t->shape, c->before, &i->after, e) < 0) return -1;
        d->op = CHANGE_DELETE;
        i->op = CHANGE_INSERT;
        i->before = NULL;
        i->before_image = IMAGE_NONE;
        if (compose(w, g, d, e) < 0) return -1;
        return compose(w, g, i, e);
    }
    struct change *known = c;
    if (g->replace && c->op == CHANGE_UPDATE && c->before_image == IMAGE_FULL) {
        if (clone(w, c, &known, e) < 0 || merge_images(w, t->shape, c->before, &known->after, e) < 0) return -1;
    }
    return compose(w, g, known, e);
}

static int take_truncate(struct window *w, struct change *c, struct err *e) {
    struct change *t;
    if (clone(w, c, &t, e) < 0) return -1;
    const struct shape **keep = arena_alloc(w->arena, (c->ntables + 1) * sizeof *keep, e);
    struct target_table **bound = arena_alloc(w->arena, (c->ntables + 1) * sizeof *bound, e);
    if (!keep || !bound) return -1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->ntables; i++) {
        struct flow_table *ft = tables_get(w->ts, c->tables[i]->table);
        if (!ft || !ft->wanted || ft->dropped || c->seq <= ft->skip_seq) continue;
        if (bound_of(w, ft, &bound[n], e) < 0) return -1;
        keep[n++] = c->tables[i];
    }
    if (n == 0) return 0;
    if (close_segment(w, e) < 0) return -1;
    t->tables = keep;
    t->ntables = n;
    w->rows++;
    struct run r = {.kind = RUN_TRUNCATE};
    size_t cap = 0;
    if (run_push(w, &r, &cap, t, e) < 0) return -1;
    r.tables = bound;
    r.ntables = n;
    return emit(w, &r, e);
}

static int take_sequence(struct window *w, struct change *from, struct err *e) {
    struct change *c;
    if (clone(w, from, &c, e) < 0) return -1;
    c->seq_ns = tables_ns(w->ts, from->seq_ns);
    for (size_t i = 0; i < w->nsequences; i++)
        if (strcmp(w->sequences[i]->seq_ns, c->seq_ns) == 0 && strcmp(w->sequences[i]->seq_name, c->seq_name) == 0) {
            w->sequences[i] = c;
            return 0;
        }
    if (w->nsequences == w->sequences_cap) {
        size_t cap = w->sequences_cap ? w->sequences_cap * 2 : 16;
        struct change **v = mem_resize(w->sequences, cap * sizeof *v, e);
        if (!v) return -1;
        w->sequences = v;
        w->sequences_cap = cap;
    }
    w->sequences[w->nsequences++] = c;
    return 0;
}

int window_compose(struct window *w, enum window_mode mode, struct change *changes, size_t n, const struct run **runs, size_t *nruns,
                   struct err *e) {
    arena_reset(w->arena);
    w->mode = mode;
    w->nruns = w->nsequences = 0;
    w->rows = 0;
    w->groups = NULL;
    w->last = w->ordered_head = NULL;
    w->ordered_tail = &w->ordered_head;
    if (w->by_number) memset(w->by_number, 0, w->nnumber * sizeof *w->by_number);
    for (size_t i = 0; i < n; i++) {
        struct change *c = &changes[i];
        int rc = 0;
        if (!is_ours(w, i)) continue;
        switch (c->op) {
        case CHANGE_INSERT:
        case CHANGE_UPDATE:
        case CHANGE_DELETE: rc = take_row(w, c, e); break;
        case CHANGE_TRUNCATE: rc = take_truncate(w, c, e); break;
        case CHANGE_SEQUENCE: rc = take_sequence(w, c, e); break;
        case CHANGE_COMMIT:
        case CHANGE_HEARTBEAT: break;
        default: rc = err_set(e, CODE_INTERNAL, "a window cannot hold a record of kind %u", c->op);
        }
        if (rc < 0) return -1;
    }
    if (close_segment(w, e) < 0) return -1;
    struct run seq = {.kind = RUN_SEQUENCE, .changes = w->sequences, .n = w->nsequences};
    if (emit(w, &seq, e) < 0) return -1;
    *runs = w->runs;
    *nruns = w->nruns;
    return 0;
}
