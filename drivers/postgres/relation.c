/* What a Relation message means.
 *
 * DESIGN
 * The message names the columns a table had when the rows behind it were written. It has no column numbers, and the catalogue shows the
 * table as it is now, perhaps several changes later.
 * 1. The message equals the catalogue (names, types, key): the catalogue's shape is in force, unless a column was dropped and its name
 *    given to another since the shape we hold: then the rows may be of either column, and the stream stops.
 * 2. It equals the shape we hold: the rows were written before whatever changed; nothing is announced yet.
 * 3. It equals the first columns of the catalogue, and no column was dropped since the shape we hold: columns are only ever appended with
 *    rising numbers, so it was in between, and its shape is the catalogue's without the later columns.
 * 4. Anything else is refused. Nothing is guessed.
 * 5. A partition that the chain does not know is taken when the catalogue proves that it was made as one, so that its first row is in the
 *    log; one that was attached brought rows that are not: refused. Another unknown table is taken with FOR ALL TABLES, else left to the
 *    report. */
#include "drivers/postgres/relation.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/embed.h"
#include "engine/base/mem.h"

/* ---- the set --------------------------------------------------------------------------------------------------------- */

static uint32_t mixed(uint32_t oid) { return oid * UINT32_C(2654435761); }

struct rel *rels_find(const struct rels *t, uint32_t oid) {
    if (t->nslots == 0) return NULL;
    for (size_t i = mixed(oid) & (t->nslots - 1);; i = (i + 1) & (t->nslots - 1)) {
        if (t->slots[i] == 0) return NULL;
        if (t->v[t->slots[i] - 1].oid == oid) return &t->v[t->slots[i] - 1];
    }
}

static void slot_in(struct rels *t, uint32_t oid, uint32_t index) {
    size_t i = mixed(oid) & (t->nslots - 1);
    while (t->slots[i] != 0) i = (i + 1) & (t->nslots - 1);
    t->slots[i] = index + 1;
}

static struct rel *rels_add(struct rels *t, uint32_t oid, struct err *e) {
    if (t->n == t->cap) {
        size_t cap = t->cap > 0 ? t->cap * 2 : 32;
        struct rel *v = mem_resize(t->v, cap * sizeof *v, e);
        if (v == NULL) return NULL;
        t->v = v;
        uint32_t *slots = mem_alloc(cap * 2 * sizeof *slots, e);
        if (slots == NULL) return NULL;
        mem_free(t->slots);
        t->slots = slots;
        t->nslots = cap * 2;
        t->cap = cap;
        for (size_t i = 0; i < t->n; i++) slot_in(t, t->v[i].oid, (uint32_t)i);
    }
    t->v[t->n] = (struct rel){.oid = oid};
    slot_in(t, oid, (uint32_t)t->n);
    return &t->v[t->n++];
}

/* Takes s, on failure too. */
static int own_shape(struct rels *t, struct shape *s, struct err *e) {
    if (t->nshapes == t->cap_shapes) {
        size_t cap = t->cap_shapes > 0 ? t->cap_shapes * 2 : 32;
        const struct shape **v = mem_resize(t->shapes, cap * sizeof(struct shape *), e);
        if (v == NULL) {
            shape_free(s);
            return -1;
        }
        t->shapes = v;
        t->cap_shapes = cap;
    }
    t->shapes[t->nshapes++] = s;
    return 0;
}

void rels_free(struct rels *t) {
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->v[i].map);
        mem_free(t->v[i].key);
    }
    for (size_t i = 0; i < t->nshapes; i++) shape_free((struct shape *)t->shapes[i]);
    mem_free(t->v);
    mem_free(t->slots);
    mem_free(t->shapes);
    memset(t, 0, sizeof *t);
}

int rels_init(struct rels *t, struct source *s, struct shape *const *known, size_t n, struct err *e) {
    memset(t, 0, sizeof *t);
    t->s = s;
    for (size_t i = 0; i < n; i++) {
        struct shape *copy = shape_copy(known[i], e);
        if (copy == NULL || own_shape(t, copy, e) < 0) return -1;
        struct rel *r = rels_add(t, (uint32_t)copy->oid, e);
        if (r == NULL) return -1;
        r->shape = copy;
        r->known = true;
    }
    return 0;
}

/* ---- deciding -------------------------------------------------------------------------------------------------------- */

static bool in_key(const struct shape *s, uint16_t c) { return s->full_image || (s->identity >= 0 && shape_in_identity(s, c)); }

/* Next column at or after c that the log carries; ncols at the end. */
static uint16_t carried(const struct shape *s, uint16_t c) {
    while (c < s->ncols && s->cols[c].generated != NULL) c++;
    return c;
}

static bool same_name(const struct pgo_msg *m, const struct shape *s) { return strcmp(m->ns, s->ns) == 0 && strcmp(m->name, s->name) == 0; }

static bool equals_known(const struct announce_view *v) {
    const struct shape *s = v->known;
    uint16_t c = 0, i = 0;
    if (s == NULL || !same_name(v->m, s) || (v->m->replident == 'f') != s->full_image) return false;
    for (c = carried(s, 0); c < s->ncols && i < v->m->ncols; c = carried(s, (uint16_t)(c + 1)), i++)
        if (strcmp(v->m->cols[i].name, s->cols[c].name) != 0 || strcmp(v->natives[i], s->cols[c].native) != 0 ||
            v->m->cols[i].key != in_key(s, c))
            return false;
    return c == s->ncols && i == v->m->ncols;
}

static const struct pg_col *side_of(const struct pg_cols *cols, int64_t attnum) {
    for (size_t i = 0; i < cols->n; i++)
        if (cols->v[i].attnum == attnum) return &cols->v[i];
    return NULL;
}

/* Do the message's columns equal the catalogue's first ones? *head: how many of the catalogue's (generated ones between counted). */
static bool equals_head(const struct announce_view *v, uint16_t *head) {
    const struct shape *s = v->now;
    uint16_t c = carried(s, 0);
    *head = 0;
    if (!same_name(v->m, s) || v->m->replident != v->cols->replident) return false;
    for (uint16_t i = 0; i < v->m->ncols; i++, c = carried(s, (uint16_t)(c + 1))) {
        if (c == s->ncols) return false;
        const struct pg_col *side = side_of(v->cols, s->cols[c].id);
        if (side == NULL || strcmp(v->m->cols[i].name, s->cols[c].name) != 0 || v->m->cols[i].type != (uint32_t)side->type_oid ||
            v->m->cols[i].typmod != side->typmod || v->m->cols[i].key != in_key(s, c)) return false;
        *head = (uint16_t)(c + 1);
    }
    if (carried(s, *head) == s->ncols) *head = s->ncols;
    return true;
}

/* The number above which every column is new since the known shape. */
static int64_t newest(const struct shape *s) {
    int64_t max = 0;
    for (uint16_t c = 0; c < s->ncols; c++)
        if (s->cols[c].id > max) max = s->cols[c].id;
    return max;
}

static bool dropped_since(const struct announce_view *v) {
    for (size_t i = 0; i < v->cols->n; i++) {
        if (!v->cols->v[i].dropped || v->cols->v[i].ancient) continue;
        if (v->cols->v[i].attnum > newest(v->known)) return true;
        for (uint16_t c = 0; c < v->known->ncols; c++)
            if (v->known->cols[c].id == v->cols->v[i].attnum) return true;
    }
    return false;
}

/* Was a column dropped and something that can be taken for it put in its place? */
static bool replaced_since(const struct announce_view *v) {
    const struct shape *k = v->known, *s = v->now;
    for (uint16_t c = 0; c < k->ncols; c++) { /* the same name, another column, and the old one gone */
        int n = shape_col(s, k->cols[c].name);
        const struct pg_col *old = side_of(v->cols, k->cols[c].id);
        if (n >= 0 && s->cols[n].id != k->cols[c].id && (old == NULL || old->dropped)) return true;
    }
    for (size_t i = 0; i < v->cols->n; i++) { /* one that came and went, and one that came later */
        if (!v->cols->v[i].dropped || v->cols->v[i].ancient || v->cols->v[i].attnum <= newest(k)) continue;
        for (size_t l = i + 1; l < v->cols->n; l++)
            if (!v->cols->v[l].dropped) return true;
    }
    return false;
}

enum announced announce_decide(const struct announce_view *v, uint16_t *head, const char **why) {
    *head = 0;
    *why = NULL;
    bool begins = v->now != NULL && equals_head(v, head);
    if (begins && *head == v->now->ncols) {
        if (v->known == NULL || strcmp(v->known->digest, v->now->digest) == 0) return ANNOUNCED_NOW;
        if (!replaced_since(v)) return ANNOUNCED_NOW;
        *why = "a column was dropped and another took its name, and the log does not say which of the two its rows hold";
        return ANNOUNCED_UNKNOWN;
    }
    if (equals_known(v)) return ANNOUNCED_SAME;
    if (begins && v->known != NULL && *head > 0 && !dropped_since(v) && v->now->cols[*head - 1].id >= newest(v->known))
        return ANNOUNCED_BETWEEN;
    *why = v->now == NULL ? "it was dropped since, and its last columns were others than those the chain holds"
                          : "it changed more than once since, and the columns its rows were written with are neither those of the chain "
                            "nor those it has now";
    return ANNOUNCED_UNKNOWN;
}

/* ---- reading the catalogue ------------------------------------------------------------------------------------------- */

static int type_names(PGconn *c, const struct pgo_msg *m, PGresult **r, struct err *e) {
    struct buf oids = BUF_INIT(MiB(1)), mods = BUF_INIT(MiB(1));
    int rc = -1;
    if (buf_addc(&oids, '{', e) < 0 || buf_addc(&mods, '{', e) < 0) goto out;
    for (uint16_t i = 0; i < m->ncols; i++)
        if (buf_addf(&oids, e, "%s%u", i > 0 ? "," : "", m->cols[i].type) < 0 ||
            buf_addf(&mods, e, "%s%d", i > 0 ? "," : "", (int)m->cols[i].typmod) < 0)
            goto out;
    if (buf_addc(&oids, '}', e) < 0 || buf_addc(&mods, '}', e) < 0) goto out;
    const char *p[2] = {buf_str(&oids, e), buf_str(&mods, e)};
    if (p[0] == NULL || p[1] == NULL || pg_query(c, embed_sql("postgres/type_names"), 2, p, "read type names", r, e) < 0) goto out;
    rc = PQntuples(*r) == m->ncols ? 0 : err_set(e, CODE_INTERNAL, "%d type names for %u columns", PQntuples(*r), (unsigned)m->ncols);
out:
    buf_free(&oids);
    buf_free(&mods);
    return rc;
}

/* The catalogue's connection is idle for long: one that died is opened anew, once. */
static int catalogue(struct source *s, uint32_t oid, struct shape **now, struct pg_cols *cols, struct err *e) {
    if (PQstatus(s->c) == CONNECTION_OK && pg_table_shape_cols(s->c, oid, now, cols, e) == 0) return 0;
    if (PQstatus(s->c) == CONNECTION_OK) return -1;
    pg_close(&s->c);
    if (pg_connect(s->o.dsn, PG_SQL, &s->c, e) < 0) return -1;
    return pg_table_shape_cols(s->c, oid, now, cols, e);
}

/* Which dropped columns went before anything that can still come? Those that were gone when an earlier message of this stream was looked
 * at, once the log has passed the end it had then; and those that are older than all the slot keeps. */
static int mark_ancient(struct source *s, struct rel *rel, uint64_t commit_lsn, struct pg_cols *cols, struct err *e) {
    char text[32], lsn[32];
    const char *p[2] = {text, s->o.slot_name};
    PGresult *r;
    int64_t last = 0;
    for (size_t i = 0; i < cols->n; i++)
        if (cols->v[i].dropped) last = cols->v[i].attnum;
    if (last == 0) return 0;
    bool passed = rel->dropped_lsn != 0 && commit_lsn > rel->dropped_lsn;
    for (size_t i = 0; passed && i < cols->n; i++)
        if (cols->v[i].dropped && cols->v[i].attnum <= rel->dropped_upto) cols->v[i].ancient = true;
    if (passed || rel->dropped_lsn == 0) {
        if (pg_scalar(s->c, embed_sql("postgres/source_end"), 0, NULL, "read the log's end", lsn, sizeof lsn, NULL, e) < 0) return -1;
        if (!pos_lsn_parse(lsn, &rel->dropped_lsn)) rel->dropped_lsn = 0;
        rel->dropped_upto = last;
    }
    snprintf(text, sizeof text, "%u", rel->oid);
    if (pg_query(s->c, embed_sql("postgres/columns_dropped_before"), 2, p, "read when columns were dropped", &r, e) < 0) return -1;
    for (int k = 0; k < PQntuples(r); k++)
        for (size_t i = 0; i < cols->n; i++)
            if (cols->v[i].attnum == pg_i64(r, k, 0)) cols->v[i].ancient = true;
    PQclear(r);
    return 0;
}

static int map_columns(struct rel *r, const struct pgo_msg *m, struct err *e) {
    const struct shape *s = r->shape;
    uint16_t *map = mem_alloc((m->ncols + 1u) * sizeof *map, e);
    uint8_t *key = mem_alloc(s->ncols + 1u, e);
    if (map == NULL || key == NULL) {
        mem_free(map);
        mem_free(key);
        return -1;
    }
    uint16_t c = carried(s, 0);
    for (uint16_t i = 0; i < m->ncols; i++, c = carried(s, (uint16_t)(c + 1))) map[i] = c;
    for (uint16_t o = 0; o < s->ncols; o++) key[o] = in_key(s, o);
    mem_free(r->map);
    mem_free(r->key);
    r->map = map;
    r->key = key;
    r->nmsg = m->ncols;
    if (m->ncols == s->ncols) {
        mem_free(r->map);
        r->map = NULL;
    }
    return 0;
}

static int emit_shape(struct batch *b, const struct shape *before, const struct shape *after, struct err *e) {
    struct change *c = batch_add(b, e);
    if (c == NULL) return -1;
    c->op = CHANGE_SHAPE;
    c->old_shape = before;
    c->shape = after;
    c->table = after->table;
    b->ends_at_commit = false;
    return 0;
}

/* From one shape to the next, by way of one that fills added columns as the source did. */
static int emit_change(struct rels *t, struct batch *b, const struct shape *before, const struct shape *after, struct err *e) {
    struct shape *mid;
    if (added_between(t->s->c, before, after, &mid, e) < 0) return -1;
    if (mid == NULL) return emit_shape(b, before, after, e);
    mid->table = after->table;
    return own_shape(t, mid, e) < 0 || emit_shape(b, before, mid, e) < 0 ? -1 : emit_shape(b, mid, after, e);
}

static int refuse(const struct pgo_msg *m, const char *why, struct err *e) {
    err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' changed in a way that the log cannot order: %s", m->ns, m->name, why);
    err_hint(e, "take a new full with --chain-slot; extend the chain between changes of a table's columns");
    return err_mark(e, MARKER_SCHEMA_CHANGE_REFUSED, MARKER_AMBIGUOUS_SCHEMA_BOUNDARY);
}

/* A table that the chain does not hold: *take says whether it is carried from here on. */
static int consider_new(struct rels *t, const struct pgo_msg *m, const struct shape *now, bool *take, struct err *e) {
    char oid[32];
    const char *p[1] = {oid};
    PGresult *r;
    *take = false;
    if (now == NULL) return 0; /* gone already; what was there was never ours */
    snprintf(oid, sizeof oid, "%u", m->relid);
    if (pg_query(t->s->c, embed_sql("postgres/relation_birth"), 1, p, "read how a table was made", &r, e) < 0) return -1;
    int rc = 0;
    bool partition = PQntuples(r) == 1 && pg_bool(r, 0, 0), born = PQntuples(r) == 1 && pg_bool(r, 0, 1);
    bool wanted = PQntuples(r) == 1 && source_wants(t->s, m->ns, m->name, pg_text(r, 0, 2), pg_text(r, 0, 3));
    PQclear(r);
    for (size_t i = 0; wanted && i < t->n; i++) {
        const struct shape *k = t->v[i].shape;
        if (k == NULL || strcmp(k->ns, now->ns) != 0 || strcmp(k->name, now->name) != 0) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' is another table than the one the chain holds under that name", m->ns, m->name);
        err_hint(e, "take a new full with --chain-slot");
        return err_mark(e, MARKER_INCLUDE_TABLE_SCOPE_DRIFT, MARKER_TABLE_IDENTITY_CHANGED);
    }
    if (!wanted) return 0;
    if (partition && !born) {
        err_set(e, CODE_SHAPE_CHANGED,
                "table '%s.%s' became a partition of a captured table with rows of its own, which are not in the log", m->ns, m->name);
        err_hint(e, "take a new full with --chain-slot, or leave it out with --exclude-table '%s.%s'", m->ns, m->name);
        return err_mark(e, MARKER_INCLUDE_TABLE_SCOPE_DRIFT, MARKER_NONE);
    }
    *take = partition || t->s->o.publish_all;
    return rc;
}

int rels_announce(struct rels *t, const struct pgo_msg *m, uint64_t commit_lsn, struct batch *b, struct err *e) {
    struct rel *r = rels_find(t, m->relid);
    struct shape *now = NULL;
    struct pg_cols cols = {0};
    PGresult *types = NULL;
    const char **natives = NULL;
    bool take = r != NULL && r->known;
    uint16_t head;
    const char *why;
    int rc = -1;
    if (r == NULL && (r = rels_add(t, m->relid, e)) == NULL) return -1;
    if (r->announced && !r->known) return 0; /* skipped: decided once */
    if (catalogue(t->s, m->relid, &now, &cols, e) < 0) goto out;
    if (!take && consider_new(t, m, now, &take, e) < 0) goto out;
    if (!take) {
        r->announced = true;
        rc = 0;
        goto out;
    }
    if (type_names(t->s->c, m, &types, e) < 0 || (natives = mem_alloc((m->ncols + 1u) * sizeof(char *), e)) == NULL) goto out;
    for (uint16_t i = 0; i < m->ncols; i++) natives[i] = pg_text(types, i, 0);
    if (mark_ancient(t->s, r, commit_lsn, &cols, e) < 0) goto out;
    struct announce_view v = {m, natives, r->shape, now, &cols};
    enum announced what = announce_decide(&v, &head, &why);
    switch (what) {
    case ANNOUNCED_UNKNOWN: refuse(m, why, e); goto out;
    case ANNOUNCED_SAME: break;
    case ANNOUNCED_BETWEEN: {
        struct shape *cut = pg_shape_head(now, head, e);
        if (cut == NULL) goto out;
        shape_free(now);
        now = cut;
    } /* fall through */
    case ANNOUNCED_NOW:
        if (r->shape != NULL && strcmp(r->shape->digest, now->digest) == 0) break;
        now->table = r->shape != NULL ? r->shape->table : 0;
        const struct shape *before = r->shape, *after = now;
        now = NULL;
        if (own_shape(t, (struct shape *)after, e) < 0 || emit_change(t, b, before, after, e) < 0) goto out;
        r->shape = after;
        r->known = true;
    }
    if (map_columns(r, m, e) < 0) goto out;
    r->announced = true;
    r->at_now = what == ANNOUNCED_NOW;
    rc = 0;
out:
    shape_free(now);
    mem_free(cols.v);
    PQclear(types);
    mem_free(natives);
    return rc;
}

/* ---- surveys --------------------------------------------------------------------------------------------------------- */

/* Are rows of both read alike? Otherwise the server announces the table anew before its next row. */
static bool read_alike(const struct shape *a, const struct shape *b) {
    if (a->ncols != b->ncols || a->full_image != b->full_image) return false;
    for (uint16_t c = 0; c < a->ncols; c++)
        if (a->cols[c].id != b->cols[c].id || strcmp(a->cols[c].name, b->cols[c].name) != 0 ||
            strcmp(a->cols[c].native, b->cols[c].native) != 0 || (a->cols[c].generated != NULL) != (b->cols[c].generated != NULL) ||
            in_key(a, c) != in_key(b, c))
            return false;
    return true;
}

static bool is_partition(const struct shape *s) { return s->options != NULL && strncmp(s->options, "PARTITION OF ", 13) == 0; }

int rels_survey(struct rels *t, struct survey *v, struct batch *b, struct err *e) {
    for (int detached = 1; detached >= 0; detached--) /* what leaves a parent makes room for what joins it */
        for (size_t i = 0; i < v->n; i++) {
            struct shape *now = v->v[i];
            struct rel *r = now != NULL ? rels_find(t, (uint32_t)now->oid) : NULL;
            if (r == NULL || !r->known || r->at_now || strcmp(r->shape->digest, now->digest) == 0) continue;
            if (detached != (is_partition(r->shape) && !is_partition(now))) continue;
            const struct shape *before = r->shape;
            now->table = before->table;
            v->v[i] = NULL;
            if (own_shape(t, now, e) < 0 || emit_change(t, b, before, now, e) < 0) return -1;
            r->shape = now;
            if (!read_alike(before, now)) r->announced = false;
        }
    return 0;
}
