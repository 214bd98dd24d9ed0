/* Writing and parsing of the documents below the catalogue. The parsers check what one document can tell alone; how documents fit each
 * other is checked by who follows the reference (chain.c, full_read.c, link_read.c). */
#include "engine/chain/manifest.h"

#include <string.h>

#include "engine/base/mem.h"

static const char *const object_kinds[] = {
    [OBJECT_SCHEMA] = "schema", [OBJECT_TYPE] = "type", [OBJECT_SEQUENCE] = "sequence", [OBJECT_COLLATION] = "collation"};
static const char *const encodings[] = {[0] = "", [ROWS_VALUES] = "values", [ROWS_COPY_TEXT] = "copy-text"};

/* ---- chunks ---- */

int chunk_list_add(struct chunk_list *l, const struct chunk_ref *c, struct err *e) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        struct chunk_ref *more = mem_resize(l->v, cap * sizeof *more, e);
        if (more == NULL) return -1;
        l->v = more;
        l->cap = cap;
    }
    l->v[l->n++] = *c;
    return 0;
}

void chunk_list_free(struct chunk_list *l) {
    mem_free(l->v);
    memset(l, 0, sizeof *l);
}

static void write_chunks(struct jw *j, const struct chunk_list *l) {
    jw_key(j, "chunks");
    jw_arr(j);
    for (size_t i = 0; i < l->n; i++) {
        jw_obj(j);
        jw_kv_str(j, "digest", l->v[i].digest);
        jw_kv_uint(j, "bytes", l->v[i].bytes);
        jw_kv_uint(j, "records", l->v[i].records);
        jw_kv_uint(j, "raw", l->v[i].raw);
        jw_kv_uint(j, "first", l->v[i].first);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

/* Consecutive from `first`; *records and *raw are the sums. */
static int read_chunks(const json_t *o, struct chunk_list *l, uint64_t first, uint64_t *records, uint64_t *raw, uint64_t *bytes,
                       const char *what, struct err *e) {
    json_t *a, *x;
    size_t i;
    *records = *raw = *bytes = 0;
    if (doc_get_array(o, "chunks", &a, what, e) < 0) return -1;
    json_array_foreach(a, i, x) {
        struct chunk_ref c = {0};
        if (doc_get_hex(x, "digest", c.digest, DIGEST_HEX - 1, what, e) < 0 || doc_get_u64(x, "bytes", &c.bytes, what, e) < 0 ||
            doc_get_u64(x, "records", &c.records, what, e) < 0 || doc_get_u64(x, "raw", &c.raw, what, e) < 0 ||
            doc_get_u64(x, "first", &c.first, what, e) < 0)
            return -1;
        if (c.records == 0 || c.first != first + *records)
            return doc_bad(e, what, "chunk %zu of its list does not follow the one before it", i);
        *records += c.records;
        *raw += c.raw;
        *bytes += c.bytes;
        if (chunk_list_add(l, &c, e) < 0) return -1;
    }
    return 0;
}

/* ---- objects ---- */

static void write_objects(struct jw *j, const char *key, const struct object *x, size_t n) {
    jw_key(j, key);
    jw_arr(j);
    for (size_t i = 0; i < n; i++) {
        jw_obj(j);
        jw_kv_str(j, "kind", object_kinds[x[i].kind]);
        jw_kv_str(j, "ns", x[i].ns);
        jw_kv_str(j, "name", x[i].name);
        jw_kv_str(j, "sql", x[i].sql);
        jw_kv_str(j, "owned_by", x[i].owned_by);
        jw_kv_int(j, "value", x[i].value);
        jw_kv_bool(j, "called", x[i].is_called);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

static int opt_copy(const json_t *o, const char *k, const char **out, struct arena *a, struct err *e) {
    const char *s = json_opt_str(o, k);
    *out = NULL;
    if (s == NULL) return 0;
    return (*out = arena_copy(a, s, strlen(s), e)) ? 0 : -1;
}

static int read_objects(const json_t *o, const char *key, struct object **out, size_t *n, struct arena *a, const char *what,
                        struct err *e) {
    json_t *list, *x;
    size_t i, k;
    if (doc_get_array(o, key, &list, what, e) < 0) return -1;
    *n = json_array_size(list);
    if (*n == 0) return 0;
    if ((*out = arena_zalloc(a, *n * sizeof **out, e)) == NULL) return -1;
    json_array_foreach(list, i, x) {
        struct object *b = &(*out)[i];
        const char *kind = json_opt_str(x, "kind");
        for (k = 0; k < MEM_ARRAY_LEN(object_kinds) && (kind == NULL || strcmp(kind, object_kinds[k]) != 0); k++)
            ;
        if (k == MEM_ARRAY_LEN(object_kinds)) return doc_bad(e, what, "object %zu is of an unknown kind", i);
        b->kind = (enum object_kind)k;
        if (opt_copy(x, "ns", &b->ns, a, e) < 0 || opt_copy(x, "name", &b->name, a, e) < 0 || opt_copy(x, "sql", &b->sql, a, e) < 0 ||
            opt_copy(x, "owned_by", &b->owned_by, a, e) < 0)
            return -1;
        b->value = json_integer_value(json_object_get(x, "value"));
        b->is_called = json_is_true(json_object_get(x, "called"));
    }
    return 0;
}

/* ---- opening ---- */

void opening_free(struct opening *o) {
    registry_free(&o->tables);
    arena_free(o->arena);
    memset(o, 0, sizeof *o);
}

int opening_format(const struct opening *o, struct buf *b, struct err *e) {
    struct jw j;
    doc_begin(&j, b, false, e);
    jw_kv_str(&j, "lineage", o->lineage);
    jw_kv_str(&j, "segment", o->segment);
    jw_kv_str(&j, "parent", o->parent);
    jw_key(&j, "source");
    jw_obj(&j);
    jw_kv_str(&j, "engine", o->engine);
    jw_kv_str(&j, "identity", o->identity);
    jw_kv_str(&j, "slot", o->slot[0] ? o->slot : NULL);
    jw_obj_end(&j);
    jw_kv_bool(&j, "extendable", o->extendable);
    jw_kv_int(&j, "time_us", o->time_us);
    doc_kv_pos(&j, "anchor", &o->anchor);
    registry_write(&o->tables, &j);
    write_objects(&j, "objects", o->objects, o->nobjects);
    jw_key(&j, "warnings");
    jw_arr(&j);
    for (size_t i = 0; i < o->nwarnings; i++)
        jw_str(&j, o->warnings[i]);
    jw_arr_end(&j);
    return doc_end(&j, e);
}

int opening_parse(const char *p, size_t n, const char *what, struct opening *o, struct err *e) {
    json_t *doc = NULL, *src, *list, *x;
    size_t i;
    uint64_t t;
    int rc = -1;
    memset(o, 0, sizeof *o);
    if (doc_parse(p, n, what, &doc, e) < 0) return -1;
    if ((o->arena = arena_new(KiB(4), e)) == NULL) goto out;
    src = json_object_get(doc, "source");
    if (doc_get_hex(doc, "lineage", o->lineage, CHAIN_LINEAGE - 1, what, e) < 0 ||
        doc_get_hex(doc, "segment", o->segment, CHAIN_SEG - 1, what, e) < 0 ||
        doc_get_text(doc, "parent", o->parent, sizeof o->parent, what, e) < 0 ||
        doc_get_text(src, "engine", o->engine, sizeof o->engine, what, e) < 0 ||
        doc_get_text(src, "identity", o->identity, sizeof o->identity, what, e) < 0 || doc_get_u64(doc, "time_us", &t, what, e) < 0)
        goto out;
    if (json_opt_str(src, "slot") && doc_get_text(src, "slot", o->slot, sizeof o->slot, what, e) < 0) goto out;
    o->time_us = (int64_t)t;
    o->extendable = json_is_true(json_object_get(doc, "extendable"));
    if (doc_get_pos(doc, "anchor", &o->anchor, what, e) < 0 || registry_read(&o->tables, doc, what, e) < 0 ||
        read_objects(doc, "objects", &o->objects, &o->nobjects, o->arena, what, e) < 0 ||
        doc_get_array(doc, "warnings", &list, what, e) < 0)
        goto out;
    if (!pos_is_set(&o->anchor)) {
        doc_bad(e, what, "it has no anchor");
        goto out;
    }
    o->nwarnings = json_array_size(list);
    if (o->nwarnings && (o->warnings = arena_zalloc(o->arena, o->nwarnings * sizeof *o->warnings, e)) == NULL) goto out;
    json_array_foreach(list, i, x) {
        const char *s = json_string_value(x);
        if (s == NULL) {
            doc_bad(e, what, "a warning is no text");
            goto out;
        }
        if ((o->warnings[i] = arena_copy(o->arena, s, strlen(s), e)) == NULL) goto out;
    }
    rc = 0;
out:
    json_decref(doc);
    if (rc < 0) opening_free(o);
    return rc;
}

/* ---- done ---- */

void done_free(struct done *d) {
    chunk_list_free(&d->chunks);
    memset(d, 0, sizeof *d);
}

int done_format(const struct done *d, enum compression c, struct buf *b, struct err *e) {
    struct jw j;
    doc_begin(&j, b, c == COMPRESSION_ZSTD, e);
    jw_kv_str(&j, "lineage", d->lineage);
    jw_kv_str(&j, "segment", d->segment);
    jw_kv_uint(&j, "table", d->table);
    jw_kv_str(&j, "attempt", d->attempt);
    jw_kv_str(&j, "shape", d->shape);
    doc_kv_pos(&j, "snapshot", &d->snapshot);
    jw_kv_str(&j, "encoding", encodings[d->encoding]);
    jw_kv_uint(&j, "rows", d->rows);
    jw_kv_uint(&j, "raw_bytes", d->raw_bytes);
    jw_kv_uint(&j, "stored_bytes", d->stored_bytes);
    write_chunks(&j, &d->chunks);
    return doc_end(&j, e);
}

int done_parse(const char *p, size_t n, const char *what, struct done *d, struct err *e) {
    json_t *o = NULL;
    char enc[16];
    uint64_t table, records, raw, bytes;
    int rc = -1;
    memset(d, 0, sizeof *d);
    if (doc_parse(p, n, what, &o, e) < 0) return -1;
    if (doc_get_hex(o, "lineage", d->lineage, CHAIN_LINEAGE - 1, what, e) < 0 ||
        doc_get_hex(o, "segment", d->segment, CHAIN_SEG - 1, what, e) < 0 || doc_get_u64(o, "table", &table, what, e) < 0 ||
        doc_get_hex(o, "attempt", d->attempt, CHAIN_ATTEMPT - 1, what, e) < 0 ||
        doc_get_hex(o, "shape", d->shape, DIGEST_HEX - 1, what, e) < 0 || doc_get_pos(o, "snapshot", &d->snapshot, what, e) < 0 ||
        doc_get_text(o, "encoding", enc, sizeof enc, what, e) < 0 || doc_get_u64(o, "rows", &d->rows, what, e) < 0 ||
        doc_get_u64(o, "raw_bytes", &d->raw_bytes, what, e) < 0 || doc_get_u64(o, "stored_bytes", &d->stored_bytes, what, e) < 0 ||
        read_chunks(o, &d->chunks, 0, &records, &raw, &bytes, what, e) < 0)
        goto out;
    d->table = (uint32_t)table;
    for (size_t k = 1; k < MEM_ARRAY_LEN(encodings); k++)
        if (strcmp(enc, encodings[k]) == 0) d->encoding = (enum rows_encoding)k;
    if (d->encoding == 0 || table == 0 || table > UINT32_MAX || !pos_is_set(&d->snapshot)) {
        doc_bad(e, what, "its table, snapshot or encoding is malformed");
        goto out;
    }
    if (records != d->rows || raw != d->raw_bytes || bytes != d->stored_bytes) {
        doc_bad(e, what, "its chunks do not add up to its sums");
        goto out;
    }
    rc = 0;
out:
    json_decref(o);
    if (rc < 0) done_free(d);
    return rc;
}

/* ---- full ---- */

void full_doc_free(struct full_doc *f) {
    arena_free(f->arena);
    memset(f, 0, sizeof *f);
}

int full_doc_format(const struct full_doc *f, struct buf *b, struct err *e) {
    struct jw j;
    doc_begin(&j, b, false, e);
    jw_kv_str(&j, "lineage", f->lineage);
    jw_kv_str(&j, "segment", f->segment);
    jw_kv_str(&j, "opening", f->opening);
    jw_kv_int(&j, "time_us", f->time_us);
    jw_key(&j, "tables");
    jw_arr(&j);
    for (size_t i = 0; i < f->ntables; i++) {
        jw_obj(&j);
        jw_kv_uint(&j, "table", f->tables[i].table);
        jw_kv_str(&j, "attempt", f->tables[i].attempt);
        jw_kv_str(&j, "digest", f->tables[i].digest);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    write_objects(&j, "sequences", f->sequences, f->nsequences);
    return doc_end(&j, e);
}

int full_doc_parse(const char *p, size_t n, const char *what, struct full_doc *f, struct err *e) {
    json_t *o = NULL, *list, *x;
    size_t i;
    uint64_t t;
    int rc = -1;
    memset(f, 0, sizeof *f);
    if (doc_parse(p, n, what, &o, e) < 0) return -1;
    if ((f->arena = arena_new(KiB(4), e)) == NULL) goto out;
    if (doc_get_hex(o, "lineage", f->lineage, CHAIN_LINEAGE - 1, what, e) < 0 ||
        doc_get_hex(o, "segment", f->segment, CHAIN_SEG - 1, what, e) < 0 ||
        doc_get_hex(o, "opening", f->opening, CHAIN_ID - 1, what, e) < 0 || doc_get_u64(o, "time_us", &t, what, e) < 0 ||
        doc_get_array(o, "tables", &list, what, e) < 0)
        goto out;
    f->time_us = (int64_t)t;
    f->ntables = json_array_size(list);
    if (f->ntables && (f->tables = arena_zalloc(f->arena, f->ntables * sizeof *f->tables, e)) == NULL) goto out;
    json_array_foreach(list, i, x) {
        if (doc_get_u64(x, "table", &t, what, e) < 0 || doc_get_hex(x, "attempt", f->tables[i].attempt, CHAIN_ATTEMPT - 1, what, e) < 0 ||
            doc_get_hex(x, "digest", f->tables[i].digest, DIGEST_HEX - 1, what, e) < 0)
            goto out;
        f->tables[i].table = (uint32_t)t;
        if (t == 0 || t > UINT32_MAX || (i && t <= f->tables[i - 1].table)) {
            doc_bad(e, what, "its tables are not in order");
            goto out;
        }
    }
    if (read_objects(o, "sequences", &f->sequences, &f->nsequences, f->arena, what, e) < 0) goto out;
    rc = 0;
out:
    json_decref(o);
    if (rc < 0) full_doc_free(f);
    return rc;
}

/* ---- link ---- */

int manifest_init(struct manifest *m, struct err *e) {
    memset(m, 0, sizeof *m);
    return (m->arena = arena_new(KiB(4), e)) ? 0 : -1;
}

void manifest_free(struct manifest *m) {
    registry_free(&m->tables);
    mem_free(m->changes);
    chunk_list_free(&m->chunks);
    arena_free(m->arena);
    memset(m, 0, sizeof *m);
}

int manifest_add_change(struct manifest *m, const struct shape_change *c, struct err *e) {
    struct shape_change x = *c;
    if ((x.ns = arena_copy(m->arena, c->ns, strlen(c->ns), e)) == NULL ||
        (x.name = arena_copy(m->arena, c->name, strlen(c->name), e)) == NULL)
        return -1;
    if (m->nchanges == m->changes_cap) {
        size_t cap = m->changes_cap ? m->changes_cap * 2 : 8;
        struct shape_change *more = mem_resize(m->changes, cap * sizeof *more, e);
        if (more == NULL) return -1;
        m->changes = more;
        m->changes_cap = cap;
    }
    m->changes[m->nchanges++] = x;
    return 0;
}

int manifest_format(const struct manifest *m, struct buf *b, struct err *e) {
    struct jw j;
    doc_begin(&j, b, m->compression == COMPRESSION_ZSTD && m->chunks.n > 0, e);
    jw_kv_str(&j, "lineage", m->lineage);
    jw_kv_str(&j, "segment", m->segment);
    jw_kv_uint(&j, "n", m->n);
    jw_kv_str(&j, "attempt", m->attempt);
    jw_kv_str(&j, "parent", m->parent);
    jw_kv_int(&j, "time_us", m->time_us);
    doc_kv_pos(&j, "start", &m->start);
    doc_kv_pos(&j, "end", &m->end);
    jw_kv_uint(&j, "start_seq", m->start_seq);
    jw_kv_uint(&j, "end_seq", m->end_seq);
    registry_write(&m->tables, &j);
    jw_key(&j, "changes");
    jw_arr(&j);
    for (size_t i = 0; i < m->nchanges; i++) {
        const struct shape_change *c = &m->changes[i];
        jw_obj(&j);
        jw_kv_uint(&j, "seq", c->seq);
        jw_kv_uint(&j, "table", c->table);
        jw_kv_int(&j, "oid", c->oid);
        jw_kv_str(&j, "ns", c->ns);
        jw_kv_str(&j, "name", c->name);
        jw_kv_str(&j, "before", c->before);
        jw_kv_str(&j, "after", c->after);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    write_chunks(&j, &m->chunks);
    jw_kv_uint(&j, "records", m->records);
    jw_kv_uint(&j, "row_changes", m->row_changes);
    jw_kv_uint(&j, "raw_bytes", m->raw_bytes);
    doc_kv_pos(&j, "last_commit", &m->last_commit);
    return doc_end(&j, e);
}

static int read_changes(const json_t *o, struct manifest *m, const char *what, struct err *e) {
    json_t *a, *x;
    size_t i;
    uint64_t table;
    if (doc_get_array(o, "changes", &a, what, e) < 0) return -1;
    json_array_foreach(a, i, x) {
        struct shape_change c = {.ns = json_opt_str(x, "ns"), .name = json_opt_str(x, "name")};
        if (doc_get_u64(x, "seq", &c.seq, what, e) < 0 || doc_get_u64(x, "table", &table, what, e) < 0 ||
            doc_get_text(x, "before", c.before, DIGEST_HEX, what, e) < 0 || doc_get_text(x, "after", c.after, DIGEST_HEX, what, e) < 0)
            return -1;
        c.table = (uint32_t)table;
        c.oid = json_integer_value(json_object_get(x, "oid"));
        if (c.ns == NULL || c.name == NULL || table == 0 || table > UINT32_MAX ||
            (c.before[0] && !chain_is_hex(c.before, DIGEST_HEX - 1)) || (c.after[0] && !chain_is_hex(c.after, DIGEST_HEX - 1)) ||
            (!c.before[0] && !c.after[0]) || c.seq <= m->start_seq || c.seq > m->end_seq || (i && c.seq <= m->changes[i - 1].seq))
            return doc_bad(e, what, "shape change %zu of its list is malformed", i);
        if (manifest_add_change(m, &c, e) < 0) return -1;
    }
    return 0;
}

int manifest_parse(const char *p, size_t n, const char *what, struct manifest *m, struct err *e) {
    json_t *o = NULL;
    uint64_t t, records, raw, bytes;
    int rc = -1;
    memset(m, 0, sizeof *m);
    if (doc_parse(p, n, what, &o, e) < 0) return -1;
    if (manifest_init(m, e) < 0) goto out;
    if (doc_get_hex(o, "lineage", m->lineage, CHAIN_LINEAGE - 1, what, e) < 0 ||
        doc_get_hex(o, "segment", m->segment, CHAIN_SEG - 1, what, e) < 0 || doc_get_u64(o, "n", &m->n, what, e) < 0 ||
        doc_get_hex(o, "attempt", m->attempt, CHAIN_ATTEMPT - 1, what, e) < 0 ||
        doc_get_hex(o, "parent", m->parent, CHAIN_ID - 1, what, e) < 0 || doc_get_u64(o, "time_us", &t, what, e) < 0 ||
        doc_get_pos(o, "start", &m->start, what, e) < 0 || doc_get_pos(o, "end", &m->end, what, e) < 0 ||
        doc_get_u64(o, "start_seq", &m->start_seq, what, e) < 0 || doc_get_u64(o, "end_seq", &m->end_seq, what, e) < 0 ||
        registry_read(&m->tables, o, what, e) < 0 || read_changes(o, m, what, e) < 0 ||
        read_chunks(o, &m->chunks, m->start_seq + 1, &records, &raw, &bytes, what, e) < 0 ||
        doc_get_u64(o, "records", &m->records, what, e) < 0 || doc_get_u64(o, "row_changes", &m->row_changes, what, e) < 0 ||
        doc_get_u64(o, "raw_bytes", &m->raw_bytes, what, e) < 0 || doc_get_pos(o, "last_commit", &m->last_commit, what, e) < 0)
        goto out;
    m->time_us = (int64_t)t;
    if (!pos_is_set(&m->start) || !pos_is_set(&m->end)) {
        doc_bad(e, what, "it has no start or no end");
        goto out;
    }
    if (records != m->records || raw != m->raw_bytes || m->end_seq - m->start_seq != m->records || m->end_seq < m->start_seq) {
        doc_bad(e, what, "its chunks do not add up to its sums");
        goto out;
    }
    rc = 0;
out:
    json_decref(o);
    if (rc < 0) manifest_free(m);
    return rc;
}
