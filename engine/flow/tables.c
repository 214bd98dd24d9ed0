/* DESIGN. A table of a chain keeps its number through renames; its name on the target follows the source's.
 * 1. The source's default namespace maps to the target's default; --map-schema pairs come first; others keep their name.
 * 2. Two tables that map to one name are refused before anything changes (case folding is the driver's to add).
 * 3. A table is composed per key only when its identity is compared by bytes and no other unique key can be in the way. */
#include "engine/flow/tables.h"

#include <string.h>
#include <strings.h>

#include "engine/base/mem.h"

int tables_init(struct tables *ts, const struct db_driver *driver, struct target *target, const struct table_filter *filter,
                const char *const *map_ns, size_t nmap_ns, struct err *e) {
    (void)e;
    memset(ts, 0, sizeof *ts);
    ts->driver = driver;
    ts->target = target;
    ts->filter = filter;
    ts->map_ns = map_ns;
    ts->nmap_ns = nmap_ns;
    return 0;
}

static void table_unbind(struct tables *ts, struct flow_table *t) {
    if (t->bound) ts->driver->target->unbind(t->bound);
    t->bound = NULL;
}

void tables_free(struct tables *ts) {
    for (size_t i = 0; i < ts->n; i++) {
        if (!ts->v[i]) continue;
        table_unbind(ts, ts->v[i]);
        mem_free(ts->v[i]->ns);
        mem_free(ts->v[i]->name);
        mem_free(ts->v[i]);
    }
    mem_free(ts->v);
    memset(ts, 0, sizeof *ts);
}

struct flow_table *tables_get(const struct tables *ts, uint32_t number) {
    return number < ts->n ? ts->v[number] : NULL;
}

/* The namespace that a source engine reads unqualified names in; the first table tells the engine. */
static const char *engine_default_ns(const char *engine) {
    const struct db_driver *d = db_driver_find(engine, &(struct err){0});
    return d && d->default_ns ? d->default_ns : "public";
}

const char *tables_ns(const struct tables *ts, const char *source_ns) {
    for (size_t i = 0; i + 1 < ts->nmap_ns; i += 2)
        if (strcmp(ts->map_ns[i], source_ns) == 0) return ts->map_ns[i + 1];
    if (ts->source_ns && strcmp(ts->source_ns, source_ns) == 0) return ts->driver->target->default_ns(ts->target);
    return source_ns;
}

const char *tables_ns_cb(void *arg, const char *source_ns) {
    return tables_ns(arg, source_ns);
}

static bool key_is_unique(const struct key *k) {
    return k->kind == KEY_PRIMARY || k->kind == KEY_UNIQUE || k->kind == KEY_EXCLUDE;
}

static void choose_composition(struct flow_table *t) {
    const struct shape *s = t->shape;
    t->keyless = s->identity < 0;
    t->ordered = t->keyless;
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (i != (uint16_t)s->identity && key_is_unique(&s->keys[i])) t->ordered = true;
    if (t->keyless) return;
    const struct key *id = &s->keys[s->identity];
    for (uint16_t i = 0; i < id->ncols; i++)
        if (s->cols[id->cols[i]].equality != EQ_BYTES || (id->equality && id->equality[i] != EQ_BYTES)) t->ordered = true;
}

int tables_put(struct tables *ts, const struct shape *s, struct flow_table **out, struct err *e) {
    if (s->table == 0) return err_set(e, CODE_INTERNAL, "table '%s.%s' has no number", s->ns, s->name);
    if (!ts->source_ns) ts->source_ns = engine_default_ns(s->engine);
    if (s->table >= ts->n) {
        size_t n = (size_t)s->table + 64;
        struct flow_table **v = mem_resize(ts->v, n * sizeof *v, e);
        if (!v) return -1;
        memset(v + ts->n, 0, (n - ts->n) * sizeof *v);
        ts->v = v;
        ts->n = n;
    }
    struct flow_table *t = ts->v[s->table];
    if (!t) {
        if (!(t = mem_alloc(sizeof *t, e))) return -1;
        ts->v[s->table] = t;
        t->number = s->table;
    }
    char *ns = mem_strdup(tables_ns(ts, s->ns), e), *name = mem_strdup(s->name, e);
    if (!ns || !name) {
        mem_free(ns);
        mem_free(name);
        return -1;
    }
    table_unbind(ts, t);
    mem_free(t->ns);
    mem_free(t->name);
    t->ns = ns;
    t->name = name;
    t->shape = s;
    t->dropped = false;
    t->wanted = table_filter_match(ts->filter, s->ns, s->name);
    choose_composition(t);
    if (out) *out = t;
    return 0;
}

int tables_bind(struct tables *ts, struct flow_table *t, struct err *e) {
    if (t->bound) return 0;
    return ts->driver->target->bind(ts->target, t->shape, t->ns, t->name, &t->bound, e);
}

int tables_refuse_drift(const struct shape *before, const struct shape *after, bool into, struct err *e) {
    err_set(e, CODE_SHAPE_CHANGED, into ? "table '%s.%s' was renamed into this scope as '%s.%s'; its earlier rows are not on the target"
                                        : "table '%s.%s' was renamed out of this scope as '%s.%s'; its later rows would be missing on the target",
            before->ns, before->name, after->ns, after->name);
    err_mark(e, MARKER_INCLUDE_TABLE_SCOPE_DRIFT, MARKER_NONE);
    return err_hint(e, "let the filter hold both names, or none");
}

int tables_collisions(const struct tables *ts, struct err *e) {
    bool fold = ts->driver->caps & CAP_FOLDS_NAMES;
    for (size_t i = 0; i < ts->n; i++) {
        if (!ts->v[i] || !ts->v[i]->wanted || ts->v[i]->dropped) continue;
        for (size_t k = i + 1; k < ts->n; k++) {
            const struct flow_table *a = ts->v[i], *b = ts->v[k];
            if (!b || !b->wanted || b->dropped) continue;
            bool same = fold ? strcasecmp(a->ns, b->ns) == 0 && strcasecmp(a->name, b->name) == 0
                             : strcmp(a->ns, b->ns) == 0 && strcmp(a->name, b->name) == 0;
            if (!same) continue;
            if (strcmp(a->shape->ns, b->shape->ns) == 0 && strcmp(a->shape->name, b->shape->name) == 0) {
                err_set(e, CODE_NAME_COLLISION, "a table of the source took the name '%s.%s' from another one that the chain holds, which cannot be followed",
                        b->shape->ns, b->shape->name);
                return err_hint(e, "take a new full with --chain-slot --force-overwrite and rebuild with --reset-target-data");
            }
            err_set(e, CODE_NAME_COLLISION, "tables '%s.%s' and '%s.%s' of the source would become one table '%s.%s' on the target",
                    a->shape->ns, a->shape->name, b->shape->ns, b->shape->name, a->ns, a->name);
            return err_hint(e, "leave one out with --exclude-table, or put one elsewhere with --map-schema %s=OTHER", b->shape->ns);
        }
    }
    return 0;
}
