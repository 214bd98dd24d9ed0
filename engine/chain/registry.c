#include "engine/chain/registry.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"

#define TABLES_MAX 1000000u /* what a damaged document may make us allocate */

int registry_init(struct registry *r, struct err *e) {
    memset(r, 0, sizeof *r);
    r->next = 1;
    return (r->arena = arena_new(KiB(4), e)) ? 0 : -1;
}

void registry_free(struct registry *r) {
    mem_free(r->v);
    mem_free(r->slot);
    arena_free(r->arena);
    memset(r, 0, sizeof *r);
}

struct registry_table *registry_get(const struct registry *r, uint32_t table) {
    return table < r->nslots && r->slot[table] ? &r->v[r->slot[table] - 1] : NULL;
}

struct registry_table *registry_find(const struct registry *r, int64_t oid, const char *ns, const char *name) {
    for (size_t i = 0; i < r->n; i++) {
        struct registry_table *t = &r->v[i];
        if (oid && t->oid ? t->oid == oid : strcmp(t->name, name) == 0 && strcmp(t->ns, ns) == 0) return t;
    }
    return NULL;
}

static int slots_for(struct registry *r, uint32_t table, struct err *e) {
    size_t want = r->nslots ? r->nslots : 16;
    if (table < r->nslots) return 0;
    if (table >= TABLES_MAX) return err_set(e, CODE_LIMIT, "table number %u is over %u", table, TABLES_MAX);
    while (want <= table)
        want *= 2;
    uint32_t *more = mem_resize(r->slot, want * sizeof *more, e);
    if (more == NULL) return -1;
    memset(more + r->nslots, 0, (want - r->nslots) * sizeof *more);
    r->slot = more;
    r->nslots = want;
    return 0;
}

int registry_set(struct registry *r, uint32_t table, int64_t oid, const char *ns, const char *name, const char *digest, struct err *e) {
    struct registry_table *t = registry_get(r, table);
    if (table == 0) return err_set(e, CODE_INTERNAL, "a table has no number");
    if (digest[0] == '\0') {
        if (t == NULL) return 0;
        size_t at = (size_t)(t - r->v);
        r->slot[table] = 0;
        if (at != --r->n) { /* order is of no meaning */
            r->v[at] = r->v[r->n];
            r->slot[r->v[at].table] = (uint32_t)at + 1;
        }
        return 0;
    }
    if (t == NULL) {
        if (slots_for(r, table, e) < 0) return -1;
        if (r->n == r->cap) {
            size_t cap = r->cap ? r->cap * 2 : 16;
            struct registry_table *more = mem_resize(r->v, cap * sizeof *more, e);
            if (more == NULL) return -1;
            r->v = more;
            r->cap = cap;
        }
        t = &r->v[r->n];
        memset(t, 0, sizeof *t);
        t->table = table;
    }
    if (t->ns == NULL || strcmp(t->ns, ns) != 0 || strcmp(t->name, name) != 0) {
        const char *ns2 = arena_copy(r->arena, ns, strlen(ns), e), *name2 = ns2 ? arena_copy(r->arena, name, strlen(name), e) : NULL;
        if (name2 == NULL) return -1;
        t->ns = ns2;
        t->name = name2;
    }
    if (strlen(digest) != DIGEST_HEX - 1 || text_unhex(digest, DIGEST_HEX - 1, t->raw) < 0)
        return err_set(e, CODE_INTERNAL, "'%.80s' is no digest", digest);
    if (strcmp(t->digest, digest) != 0) t->shape = NULL;
    memcpy(t->digest, digest, DIGEST_HEX);
    t->oid = oid;
    if (r->slot[table] == 0) r->slot[table] = (uint32_t)++r->n;
    if (table >= r->next) r->next = table + 1;
    return 0;
}

int registry_copy(const struct registry *from, struct registry *to, struct err *e) {
    if (registry_init(to, e) < 0) return -1;
    for (size_t i = 0; i < from->n; i++) {
        const struct registry_table *t = &from->v[i];
        if (registry_set(to, t->table, t->oid, t->ns, t->name, t->digest, e) < 0) {
            registry_free(to);
            return -1;
        }
        registry_get(to, t->table)->shape = t->shape;
    }
    to->next = from->next;
    return 0;
}

void registry_write(const struct registry *r, struct jw *j) {
    jw_kv_uint(j, "next_table", r->next);
    jw_key(j, "tables");
    jw_arr(j);
    for (uint32_t number = 1; number < r->next; number++) { /* in order of number, whatever the order in v */
        const struct registry_table *t = registry_get(r, number);
        if (t == NULL) continue;
        jw_obj(j);
        jw_kv_uint(j, "table", t->table);
        jw_kv_int(j, "oid", t->oid);
        jw_kv_str(j, "ns", t->ns);
        jw_kv_str(j, "name", t->name);
        jw_kv_str(j, "shape", t->digest);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

int registry_read(struct registry *r, const json_t *o, const char *what, struct err *e) {
    json_t *a, *x;
    size_t i;
    uint64_t next, table;
    if (registry_init(r, e) < 0) return -1;
    if (doc_get_u64(o, "next_table", &next, what, e) < 0 || doc_get_array(o, "tables", &a, what, e) < 0) return -1;
    if (next == 0 || next > TABLES_MAX) return doc_bad(e, what, "'next_table' is out of range");
    json_array_foreach(a, i, x) {
        char digest[DIGEST_HEX];
        const char *ns = json_opt_str(x, "ns"), *name = json_opt_str(x, "name");
        json_int_t oid = json_integer_value(json_object_get(x, "oid"));
        if (doc_get_u64(x, "table", &table, what, e) < 0 || doc_get_hex(x, "shape", digest, DIGEST_HEX - 1, what, e) < 0) return -1;
        if (ns == NULL || name == NULL || table == 0 || table >= next || registry_get(r, (uint32_t)table))
            return doc_bad(e, what, "table %zu of its list is malformed", i);
        if (registry_set(r, (uint32_t)table, oid, ns, name, digest, e) < 0) return -1;
    }
    r->next = (uint32_t)next;
    return 0;
}
