/* DESIGN.
 * 1. Two changes that depend on each other go to one lane. A table is parted by its key only where nothing but the key can join two of its
 * rows: one key on the source, compared by bytes, and on the target the same columns, NOT NULL, unique, compared by bytes, and no other
 * unique key. Every other table goes whole to the lane `number mod lanes`.
 * 2. Tables joined by foreign keys that are enforced in our sessions go together to one lane: the lowest number's. A table with a
 * deferrable key is written with its foreign keys on, whatever the session.
 * 3. The rules depend on nothing but what they were made from: the same source, target and number of lanes give the same text. The text is
 * recorded on the target before it is used, and a window that was cut short is replayed under the recorded text.
 * 4. Hash version 1, frozen: FNV-1a of 64 bits over each key column in the recorded order: its length as four bytes, lowest first, then its
 * bytes as the log has them; NULL is the length 0xffffffff. Then mixed: h ^= h >> 33, h *= 0xff51afd7ed558ccd, h ^= h >> 33, h *=
 * 0xc4ceb9fe1a85ec53, h ^= h >> 33. The lane is h mod lanes.
 *
 * Rules: {"tables":[{"table":1,"name":"public.a","hash":["id"]},{"table":2,"name":"public.b","lane":0,"why":"no key"}]} */
#include "engine/flow/route.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/mem.h"

/* ---- the hash -------------------------------------------------------------------------------------------------------- */

static uint64_t fnv(uint64_t h, const void *p, size_t n) {
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t route_hash(const struct value *v, const struct value *under, const uint16_t *cols, uint16_t ncols) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint16_t i = 0; i < ncols; i++) {
        const struct value *x = &v[cols[i]];
        if (x->kind == VALUE_UNCHANGED && under) x = &under[cols[i]];
        bool none = x->kind == VALUE_NULL || x->kind == VALUE_UNCHANGED;
        uint32_t len = none ? UINT32_MAX : x->len;
        unsigned char head[4] = {(unsigned char)len, (unsigned char)(len >> 8), (unsigned char)(len >> 16), (unsigned char)(len >> 24)};
        h = fnv(h, head, sizeof head);
        if (!none) h = fnv(h, x->p, x->len);
    }
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

unsigned route_lane(const struct route *r, const struct change *c, unsigned *before) {
    const struct route_rule *u = c->table < r->n ? &r->v[c->table] : NULL;
    unsigned lane = u && u->known ? u->lane : c->table % r->lanes;
    if (!u || !u->hashed) return *before = lane;
    const struct value *old = c->op == CHANGE_INSERT || !c->before ? c->after : c->before;
    *before = (unsigned)(route_hash(old, NULL, u->cols, u->ncols) % r->lanes);
    if (c->op != CHANGE_UPDATE || !c->before) return *before;
    return (unsigned)(route_hash(c->after, c->before, u->cols, u->ncols) % r->lanes);
}

void route_free(struct route *r) {
    for (size_t i = 0; i < r->n; i++)
        mem_free(r->v[i].cols);
    mem_free(r->v);
    mem_free(r->rules);
    memset(r, 0, sizeof *r);
}

/* ---- making ---------------------------------------------------------------------------------------------------------- */

struct seen { /* a wanted table while rules are made */
    struct flow_table *t;
    struct shape *dst; /* on the target; NULL when it is not there */
    size_t parent;     /* union of tables that enforced foreign keys join */
    bool joined, deferrable;
    const char *why; /* NULL: hashed */
};

static bool unique_kind(const struct key *k) {
    return k->kind == KEY_PRIMARY || k->kind == KEY_UNIQUE || k->kind == KEY_EXCLUDE;
}

static bool by_bytes(const struct shape *s, const struct key *k) {
    for (uint16_t i = 0; i < k->ncols; i++)
        if (s->cols[k->cols[i]].equality != EQ_BYTES || (k->equality && k->equality[i] != EQ_BYTES)) return false;
    return true;
}

static bool has_column(const struct shape *s, const struct key *k, const char *name) {
    for (uint16_t i = 0; i < k->ncols; i++)
        if (strcmp(s->cols[k->cols[i]].name, name) == 0) return true;
    return false;
}

/* Are the source key's columns all in the target's key? Rows of two lanes differ there, so that key cannot join them. */
static bool covers(const struct shape *src, const struct key *id, const struct shape *dst, const struct key *k) {
    for (uint16_t i = 0; i < id->ncols; i++)
        if (!has_column(dst, k, src->cols[id->cols[i]].name)) return false;
    return k->kind != KEY_EXCLUDE;
}

static bool all_not_null(const struct shape *s, const struct key *k) {
    for (uint16_t i = 0; i < k->ncols; i++)
        if (k->kind != KEY_PRIMARY && !s->cols[k->cols[i]].not_null) return false;
    return true;
}

/* Invariant 1. */
static const char *why_whole(const struct flow_table *t, const struct shape *dst) {
    const struct shape *src = t->shape;
    bool found = false;
    if (t->keyless) return "no key";
    const struct key *id = &src->keys[src->identity];
    if (!by_bytes(src, id)) return "the key is not compared by bytes";
    if (t->ordered) return "another unique key on the source";
    if (!dst) return "not on the target";
    for (uint16_t i = 0; i < dst->nkeys; i++) {
        const struct key *k = &dst->keys[i];
        if (!unique_kind(k)) continue;
        if (!covers(src, id, dst, k)) return "another unique key on the target";
        if (!by_bytes(dst, k)) return "the target's key is not compared by bytes";
        if (k->ncols == id->ncols && !k->partial && !k->expression && all_not_null(dst, k)) found = true;
    }
    return found ? NULL : "the target lacks the key";
}

static size_t top(struct seen *v, size_t i) {
    while (v[i].parent != i)
        i = v[i].parent = v[v[i].parent].parent;
    return i;
}

/* Invariant 2. Tables are in order of their number, so the lowest index is the lowest number. */
static void join(struct seen *v, size_t n, bool fk_enforced) {
    for (size_t i = 0; i < n; i++) {
        for (uint16_t k = 0; v[i].dst && k < v[i].dst->nkeys; k++) {
            const struct key *f = &v[i].dst->keys[k];
            if (f->kind != KEY_FOREIGN || !f->ref_table) continue;
            for (size_t o = 0; o < n; o++) {
                if (strcmp(v[o].t->name, f->ref_table) != 0 || strcmp(v[o].t->ns, f->ref_ns ? f->ref_ns : v[i].t->ns) != 0) continue;
                if (!fk_enforced && !v[i].deferrable && !v[o].deferrable) continue;
                size_t a = top(v, i), b = top(v, o);
                if (a < b) v[b].parent = a;
                else v[a].parent = b;
                v[i].joined = v[o].joined = true;
            }
        }
    }
}

static int rule_room(struct route *r, size_t number, struct err *e) {
    if (number < r->n) return 0;
    size_t n = number + 16;
    struct route_rule *v = mem_resize(r->v, n * sizeof *v, e);
    if (!v) return -1;
    memset(v + r->n, 0, (n - r->n) * sizeof *v);
    r->v = v;
    r->n = n;
    return 0;
}

static int rule_of(struct route *r, struct seen *v, size_t i, struct jw *j, struct err *e) {
    const struct shape *src = v[i].t->shape;
    struct route_rule *u = &r->v[v[i].t->number];
    char label[300];
    size_t head = top(v, i);
    const char *why = v[i].joined ? "foreign keys" : v[i].why;
    u->known = true;
    u->hashed = !why;
    u->lane = v[head].t->number % r->lanes;
    snprintf(label, sizeof label, "%.140s.%.140s", v[i].t->ns, v[i].t->name);
    jw_obj(j);
    jw_kv_uint(j, "table", v[i].t->number);
    jw_kv_str(j, "name", label);
    if (why) {
        jw_kv_uint(j, "lane", u->lane);
        jw_kv_str(j, "why", why);
    } else {
        const struct key *id = &src->keys[src->identity];
        if (!(u->cols = mem_alloc((size_t)id->ncols * sizeof *u->cols + 1, e))) return -1;
        u->ncols = id->ncols;
        jw_key(j, "hash");
        jw_arr(j);
        for (uint16_t c = 0; c < id->ncols; c++) {
            u->cols[c] = id->cols[c];
            jw_str(j, src->cols[id->cols[c]].name);
        }
        jw_arr_end(j);
    }
    jw_obj_end(j);
    return 0;
}

static int look(struct seen *s, const struct tables *ts, struct err *e) {
    if (ts->driver->target->table_shape(ts->target, s->t->ns, s->t->name, &s->dst, e) < 0) return -1;
    s->why = why_whole(s->t, s->dst);
    for (uint16_t k = 0; s->dst && k < s->dst->nkeys; k++)
        if (unique_kind(&s->dst->keys[k]) && s->dst->keys[k].deferrable) s->deferrable = true;
    return 0;
}

int route_make(struct route *r, unsigned lanes, const struct tables *ts, bool fk_enforced, struct err *e) {
    struct buf b = BUF_INIT(MiB(16));
    struct seen *v = NULL;
    struct jw j;
    size_t n = 0;
    int rc = -1;
    memset(r, 0, sizeof *r);
    r->lanes = lanes;
    if (!(v = mem_alloc((ts->n + 1) * sizeof *v, e))) goto out;
    for (size_t i = 0; i < ts->n; i++) {
        struct flow_table *t = ts->v[i];
        if (!t || !t->wanted || t->dropped) continue;
        v[n] = (struct seen){.t = t, .parent = n};
        n++;
        if (rule_room(r, t->number, e) < 0 || look(&v[n - 1], ts, e) < 0) goto out;
    }
    join(v, n, fk_enforced);
    jw_begin(&j, &b, e);
    jw_obj(&j);
    jw_key(&j, "tables");
    jw_arr(&j);
    for (size_t i = 0; i < n; i++)
        if (rule_of(r, v, i, &j, e) < 0) goto out;
    jw_arr_end(&j);
    jw_obj_end(&j);
    if (jw_end(&j) < 0) goto out;
    const char *text = buf_str(&b, e);
    if (!text || !(r->rules = mem_strdup(text, e))) goto out;
    rc = 0;
out:
    for (size_t i = 0; v && i < n; i++)
        shape_free(v[i].dst);
    mem_free(v);
    buf_free(&b);
    if (rc < 0) route_free(r);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static int unreadable(struct err *e) {
    struct err inner = *e;
    err_set(e, CODE_MARK_MISMATCH, "the lanes' recorded routing cannot be used: %s", inner.msg);
    err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    return err_hint(e, "somebody changed sluice_cdc_route; rebuild with --reset-target-data");
}

static int parse_hash(struct route_rule *u, const json_t *cols, const struct shape *s, struct err *e) {
    size_t n = json_array_size(cols);
    if (n == 0 || n > s->ncols) return err_set(e, CODE_MANIFEST_INVALID, "table '%s.%s' is hashed by %zu columns", s->ns, s->name, n);
    if (!(u->cols = mem_alloc(n * sizeof *u->cols, e))) return -1;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(cols, i));
        int at = name ? shape_col(s, name) : -1;
        if (at < 0) return err_set(e, CODE_MANIFEST_INVALID, "table '%s.%s' has no column '%s'", s->ns, s->name, name ? name : "?");
        u->cols[i] = (uint16_t)at;
    }
    u->ncols = (uint16_t)n;
    u->hashed = true;
    return 0;
}

static int parse_rule(struct route *r, const json_t *o, const struct tables *ts, struct err *e) {
    uint64_t number, lane = 0;
    if (json_get_u64(o, "table", &number, "routing", e) < 0) return -1;
    struct flow_table *t = number <= UINT32_MAX ? tables_get(ts, (uint32_t)number) : NULL;
    const json_t *cols = json_object_get(o, "hash");
    if (!t) return 0; /* nothing of it can come before the shape that announces it, and that makes new rules */
    if (rule_room(r, number, e) < 0) return -1;
    struct route_rule *u = &r->v[number];
    if (u->known) return err_set(e, CODE_MANIFEST_INVALID, "table %llu stands there twice", (unsigned long long)number);
    if (json_is_array(cols)) {
        if (parse_hash(u, cols, t->shape, e) < 0) return -1;
    } else if (json_get_u64(o, "lane", &lane, "routing", e) < 0) return -1;
    if (lane >= r->lanes)
        return err_set(e, CODE_MANIFEST_INVALID, "table %llu goes to lane %llu of %u", (unsigned long long)number, (unsigned long long)lane,
                       r->lanes);
    u->lane = (unsigned)lane;
    u->known = true;
    return 0;
}

int route_parse(struct route *r, unsigned lanes, const char *rules, const struct tables *ts, struct err *e) {
    json_t *o = NULL;
    int rc = -1;
    memset(r, 0, sizeof *r);
    r->lanes = lanes;
    if (!(o = json_parse(rules, strlen(rules), "routing", e))) goto out;
    const json_t *list = json_object_get(o, "tables");
    if (!json_is_array(list)) {
        err_set(e, CODE_MANIFEST_INVALID, "it has no list of tables");
        goto out;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (parse_rule(r, json_array_get(list, i), ts, e) < 0) goto out;
    if (!(r->rules = mem_strdup(rules, e))) goto out;
    rc = 0;
out:
    if (o) json_decref(o);
    if (rc == 0) return 0;
    route_free(r);
    return e->class == ERR_RETRY ? -1 : unreadable(e);
}
