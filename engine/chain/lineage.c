/* DESIGN: the catalogue in memory and in the store.
 *   1. What lineage_parse accepts is whole: entries without holes, seqs that never go back, segments that begin at entries, an end that
 *      has a position.
 *   2. It stays under 64 KiB at any length: at most page_links entries and about page_refs references; the oldest go into pages, pages
 *      into pages.
 *   3. A page is durable before the catalogue that refers to it, and is known by the digest of its bytes. */
#include "engine/chain/lineage.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"

static const char *const state_names[] = {"starting", "filling", "complete"};

void lineage_free(struct lineage *l) {
    mem_free(l->segments);
    mem_free(l->pages);
    mem_free(l->links);
    memset(l, 0, sizeof *l);
}

void lineage_leaf_free(struct lineage_leaf *leaf) {
    mem_free(leaf->links);
    mem_free(leaf->pages);
    memset(leaf, 0, sizeof *leaf);
}

static int copy_array(void **to, const void *from, size_t n, size_t size, struct err *e) {
    *to = NULL;
    if (n == 0) return 0;
    if ((*to = mem_alloc(n * size, e)) == NULL) return -1;
    memcpy(*to, from, n * size);
    return 0;
}

int lineage_copy(const struct lineage *from, struct lineage *to, struct err *e) {
    *to = *from;
    to->segments = NULL;
    to->pages = NULL;
    to->links = NULL;
    if (copy_array((void **)&to->segments, from->segments, from->nsegments, sizeof *from->segments, e) < 0 ||
        copy_array((void **)&to->pages, from->pages, from->npages, sizeof *from->pages, e) < 0 ||
        copy_array((void **)&to->links, from->links, from->nlinks, sizeof *from->links, e) < 0) {
        lineage_free(to);
        return -1;
    }
    return 0;
}

uint64_t lineage_count(const struct lineage *l) {
    if (l->nlinks) return l->links[l->nlinks - 1].n + 1;
    return l->npages ? l->pages[l->npages - 1].first + l->pages[l->npages - 1].count : 0;
}

const struct lineage_link *lineage_tip(const struct lineage *l) {
    return l->nlinks ? &l->links[l->nlinks - 1] : NULL;
}

uint64_t lineage_inline_start(const struct lineage *l) {
    return l->npages ? l->pages[l->npages - 1].end_seq : 0;
}

int lineage_add_segment(struct lineage *l, const char *id, enum segment_state state, uint64_t first, struct err *e) {
    struct lineage_segment *s = mem_resize(l->segments, (l->nsegments + 1) * sizeof *s, e);
    if (s == NULL) return -1;
    l->segments = s;
    s += l->nsegments++;
    memset(s, 0, sizeof *s);
    memcpy(s->id, id, CHAIN_SEG - 1);
    s->state = state;
    s->first = first;
    return 0;
}

/* ---- text ---- */

static void write_links(struct jw *j, const struct lineage_link *x, size_t n) {
    jw_key(j, "links");
    jw_arr(j);
    for (size_t i = 0; i < n; i++) {
        jw_obj(j);
        jw_kv_uint(j, "n", x[i].n);
        jw_kv_str(j, "attempt", x[i].attempt);
        jw_kv_str(j, "id", x[i].id);
        jw_kv_uint(j, "end_seq", x[i].end_seq);
        jw_kv_int(j, "time_us", x[i].time_us);
        jw_kv_uint(j, "bytes", x[i].bytes);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

static void write_pages(struct jw *j, const struct lineage_page *x, size_t n) {
    jw_key(j, "pages");
    jw_arr(j);
    for (size_t i = 0; i < n; i++) {
        jw_obj(j);
        jw_kv_str(j, "digest", x[i].digest);
        jw_kv_uint(j, "level", x[i].level);
        jw_kv_uint(j, "first", x[i].first);
        jw_kv_uint(j, "count", x[i].count);
        jw_kv_uint(j, "end_seq", x[i].end_seq);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

int lineage_format(const struct lineage *l, struct buf *b, struct err *e) {
    struct jw j;
    doc_begin(&j, b, false, e);
    jw_kv_str(&j, "lineage", l->id);
    jw_key(&j, "source");
    jw_obj(&j);
    jw_kv_str(&j, "engine", l->engine);
    jw_kv_str(&j, "identity", l->identity);
    jw_kv_str(&j, "slot", l->slot[0] ? l->slot : NULL);
    jw_obj_end(&j);
    jw_kv_bool(&j, "extendable", l->extendable);
    jw_key(&j, "segments");
    jw_arr(&j);
    for (size_t i = 0; i < l->nsegments; i++) {
        const struct lineage_segment *s = &l->segments[i];
        jw_obj(&j);
        jw_kv_str(&j, "id", s->id);
        jw_kv_uint(&j, "first", s->first);
        jw_kv_str(&j, "state", state_names[s->state]);
        jw_kv_str(&j, "full", s->state == SEGMENT_COMPLETE ? s->full : NULL);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    write_pages(&j, l->pages, l->npages);
    write_links(&j, l->links, l->nlinks);
    doc_kv_pos(&j, "tip", &l->tip);
    doc_kv_pos(&j, "covered_to", &l->covered);
    if (l->covered_us) jw_kv_int(&j, "covered_us", l->covered_us);
    if (l->nreplaced) {
        jw_key(&j, "replaced");
        jw_arr(&j);
        for (size_t i = 0; i < l->nreplaced; i++)
            jw_str(&j, l->replaced[i]);
        jw_arr_end(&j);
    }
    if (doc_end(&j, e) < 0) return -1;
    if (b->n > FORMAT_LINEAGE_MAX) return err_set(e, CODE_LIMIT, "the catalogue would have %zu bytes, over %zu", b->n, FORMAT_LINEAGE_MAX);
    return 0;
}

static int read_links(const json_t *o, struct lineage_link **out, size_t *n, uint64_t next, uint64_t end_seq, const char *what,
                      struct err *e) {
    json_t *a, *x;
    size_t i;
    uint64_t v;
    if (doc_get_array(o, "links", &a, what, e) < 0) return -1;
    *n = json_array_size(a);
    if (*n && (*out = mem_alloc(*n * sizeof **out, e)) == NULL) return -1;
    json_array_foreach(a, i, x) {
        struct lineage_link *l = &(*out)[i];
        if (doc_get_u64(x, "n", &l->n, what, e) < 0 || doc_get_u64(x, "end_seq", &l->end_seq, what, e) < 0 ||
            doc_get_u64(x, "time_us", &v, what, e) < 0 || doc_get_u64(x, "bytes", &l->bytes, what, e) < 0 ||
            doc_get_hex(x, "id", l->id, CHAIN_ID - 1, what, e) < 0 ||
            doc_get_text(x, "attempt", l->attempt, sizeof l->attempt, what, e) < 0)
            return -1;
        l->time_us = (int64_t)v;
        if (l->attempt[0] && !chain_is_hex(l->attempt, CHAIN_ATTEMPT - 1)) return doc_bad(e, what, "entry %zu has a malformed attempt", i);
        if (l->n != next || l->end_seq < end_seq || (l->attempt[0] == '\0' && l->end_seq != end_seq))
            return doc_bad(e, what, "entry %llu does not follow the one before it", (unsigned long long)l->n);
        next++;
        end_seq = l->end_seq;
    }
    return 0;
}

static int read_pages(const json_t *o, struct lineage_page **out, size_t *n, uint64_t *next, const char *what, struct err *e) {
    json_t *a, *x;
    size_t i;
    uint64_t seq = 0;
    if (doc_get_array(o, "pages", &a, what, e) < 0) return -1;
    *n = json_array_size(a);
    if (*n && (*out = mem_alloc(*n * sizeof **out, e)) == NULL) return -1;
    json_array_foreach(a, i, x) {
        struct lineage_page *p = &(*out)[i];
        if (doc_get_hex(x, "digest", p->digest, DIGEST_HEX - 1, what, e) < 0 || doc_get_u64(x, "level", &p->level, what, e) < 0 ||
            doc_get_u64(x, "first", &p->first, what, e) < 0 || doc_get_u64(x, "count", &p->count, what, e) < 0 ||
            doc_get_u64(x, "end_seq", &p->end_seq, what, e) < 0)
            return -1;
        if ((i || *next) && p->first != *next) return doc_bad(e, what, "page %zu does not follow the one before it", i);
        if (p->count == 0 || p->end_seq < seq || p->level > 8) return doc_bad(e, what, "page %zu is malformed", i);
        *next = p->first + p->count;
        seq = p->end_seq;
    }
    return 0;
}

static int read_segments(const json_t *o, struct lineage *l, const char *what, struct err *e) {
    json_t *a, *x;
    size_t i;
    if (doc_get_array(o, "segments", &a, what, e) < 0) return -1;
    json_array_foreach(a, i, x) {
        char id[CHAIN_SEG], state[16];
        uint64_t first, k;
        if (doc_get_hex(x, "id", id, CHAIN_SEG - 1, what, e) < 0 || doc_get_u64(x, "first", &first, what, e) < 0 ||
            doc_get_text(x, "state", state, sizeof state, what, e) < 0)
            return -1;
        for (k = 0; k < MEM_ARRAY_LEN(state_names) && strcmp(state, state_names[k]) != 0; k++)
            ;
        if (k == MEM_ARRAY_LEN(state_names)) return doc_bad(e, what, "segment '%s' has the unknown state '%s'", id, state);
        if (lineage_add_segment(l, id, (enum segment_state)k, first, e) < 0) return -1;
        if (k == SEGMENT_COMPLETE && doc_get_hex(x, "full", l->segments[i].full, DIGEST_HEX - 1, what, e) < 0) return -1;
        if (i && first <= l->segments[i - 1].first) return doc_bad(e, what, "segment '%s' does not follow the one before it", id);
    }
    if (l->nsegments == 0) return doc_bad(e, what, "it has no segment");
    return 0;
}

static int read_replaced(const json_t *o, struct lineage *l, const char *what, struct err *e) {
    json_t *a = json_object_get(o, "replaced"), *x;
    size_t i;
    if (json_object_get(o, "covered_us") && json_get_i64(o, "covered_us", &l->covered_us, what, e) < 0) return -1;
    if (!a) return 0;
    if (!json_is_array(a) || json_array_size(a) > LINEAGE_REPLACED) return doc_bad(e, what, "its list of replaced lineages is malformed");
    json_array_foreach(a, i, x) {
        const char *s = json_string_value(x);
        if (!s || strlen(s) != CHAIN_LINEAGE - 1 || !chain_is_hex(s, CHAIN_LINEAGE - 1))
            return doc_bad(e, what, "replaced lineage %zu is malformed", i);
        memcpy(l->replaced[l->nreplaced++], s, CHAIN_LINEAGE);
    }
    return 0;
}

int lineage_parse(const char *p, size_t n, struct lineage *l, struct err *e) {
    const char *what = "lineage.json", *slot;
    json_t *o = NULL, *src;
    uint64_t next = 0;
    int rc = -1;
    memset(l, 0, sizeof *l);
    if (doc_parse(p, n, what, &o, e) < 0) return -1;
    src = json_object_get(o, "source");
    if (doc_get_hex(o, "lineage", l->id, CHAIN_LINEAGE - 1, what, e) < 0 ||
        doc_get_text(src, "engine", l->engine, sizeof l->engine, what, e) < 0 ||
        doc_get_text(src, "identity", l->identity, sizeof l->identity, what, e) < 0 ||
        json_get_bool(o, "extendable", &l->extendable, what, e) < 0)
        goto out;
    slot = json_opt_str(src, "slot");
    if (slot && doc_get_text(src, "slot", l->slot, sizeof l->slot, what, e) < 0) goto out;
    if (read_segments(o, l, what, e) < 0 || read_pages(o, &l->pages, &l->npages, &next, what, e) < 0) goto out;
    if (!l->npages && json_array_size(json_object_get(o, "links")) &&
        json_get_u64(json_array_get(json_object_get(o, "links"), 0), "n", &next, what, e) < 0)
        goto out; /* the first entry may be any: earlier ones can have been pruned */
    if (read_links(o, &l->links, &l->nlinks, next, lineage_inline_start(l), what, e) < 0) goto out;
    if (doc_get_pos(o, "tip", &l->tip, what, e) < 0 || doc_get_pos(o, "covered_to", &l->covered, what, e) < 0 ||
        read_replaced(o, l, what, e) < 0)
        goto out;
    if (l->segments[l->nsegments - 1].state == SEGMENT_STARTING ? l->nsegments == 1 && l->nlinks : l->nlinks == 0) {
        doc_bad(e, what, "its entries do not fit its segments");
        goto out;
    }
    if (l->nlinks && (!pos_is_set(&l->tip) || l->segments[l->nsegments - 1].first > l->links[l->nlinks - 1].n)) {
        doc_bad(e, what, "its end does not fit its entries");
        goto out;
    }
    rc = 0;
out:
    json_decref(o);
    if (rc < 0) lineage_free(l);
    return rc;
}

/* ---- store ---- */

int lineage_get(struct store *st, const char *unless, struct lineage *l, char etag[STORE_ETAG], bool *found, bool *same, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_LINEAGE_MAX);
    char path[CHAIN_PATH], got[STORE_ETAG] = "";
    int rc = -1;
    path_lineage(path);
    memset(l, 0, sizeof *l);
    *same = false;
    for (int try = 0;; try++) {
        buf_reset(&b);
        err_clear(e);
        if (st->ops->get(st, path, FORMAT_LINEAGE_MAX, unless && unless[0] ? unless : NULL, &b, got, found, same, e) < 0) {
            if (e->code == CODE_LIMIT) doc_bad(e, path, "it is over %zu bytes", FORMAT_LINEAGE_MAX);
            err_wrap(e, "reading the catalogue at '%s'", st->url);
            goto out;
        }
        if (!*found || *same) break;
        if (lineage_parse(b.p ? b.p : "", b.n, l, e) == 0) break;
        /* a file system without atomic replacement may show half of it; a wait of 350 ms in all tells that from damage */
        if (e->code != CODE_MANIFEST_INVALID || try == 3 || stop_wait(chain_hooks.torn_wait_us << try)) goto out;
    }
    if (etag) memcpy(etag, got, STORE_ETAG);
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

int lineage_put(struct store *st, const struct lineage *l, const char *if_match, bool *won, char etag[STORE_ETAG], struct err *e) {
    struct buf b = BUF_INIT(FORMAT_LINEAGE_MAX * 2);
    char path[CHAIN_PATH], got[STORE_ETAG];
    enum store_put_result r;
    int rc = -1;
    path_lineage(path);
    if (lineage_format(l, &b, e) < 0) goto out;
    if (st->ops->put(st, path, b.p, b.n, if_match == NULL, if_match, &r, got, e) < 0) {
        err_wrap(e, "writing the catalogue at '%s'", st->url);
        goto out;
    }
    *won = r == STORE_PUT_OK;
    if (*won && etag) memcpy(etag, got, STORE_ETAG);
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

/* ---- pages ---- */

static int page_put(struct store *st, const struct lineage_leaf *leaf, uint64_t level, struct lineage_page *ref, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH];
    struct jw j;
    int rc = -1;
    doc_begin(&j, &b, false, e);
    jw_kv_uint(&j, "level", level);
    jw_kv_uint(&j, "first", leaf->first);
    jw_kv_uint(&j, "start_seq", leaf->start_seq);
    if (level == 0) write_links(&j, leaf->links, leaf->nlinks);
    else write_pages(&j, leaf->pages, leaf->npages);
    if (doc_end(&j, e) < 0 || sha256_hex(b.p, b.n, ref->digest, e) < 0) goto out;
    path_page(path, ref->digest);
    rc = doc_put_digest(st, path, &b, e);
out:
    buf_free(&b);
    return rc;
}

int lineage_leaf_load(struct store *st, const struct lineage_page *ref, struct lineage_leaf *leaf, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], digest[DIGEST_HEX];
    json_t *o = NULL;
    uint64_t level, next, end_seq;
    int rc = -1;
    memset(leaf, 0, sizeof *leaf);
    path_page(path, ref->digest);
    if (doc_load(st, path, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0) goto out;
    if (strcmp(digest, ref->digest) != 0) {
        doc_bad(e, path, "its digest is %.16s…", digest);
        goto out;
    }
    if (doc_parse(b.p, b.n, path, &o, e) < 0 || doc_get_u64(o, "level", &level, path, e) < 0 ||
        doc_get_u64(o, "first", &leaf->first, path, e) < 0 || doc_get_u64(o, "start_seq", &leaf->start_seq, path, e) < 0)
        goto out;
    next = leaf->first;
    if (level == 0) {
        if (read_links(o, &leaf->links, &leaf->nlinks, next, leaf->start_seq, path, e) < 0) goto out;
        next += leaf->nlinks;
        end_seq = leaf->nlinks ? leaf->links[leaf->nlinks - 1].end_seq : 0;
    } else {
        if (read_pages(o, &leaf->pages, &leaf->npages, &next, path, e) < 0) goto out;
        end_seq = leaf->npages ? leaf->pages[leaf->npages - 1].end_seq : 0;
        for (size_t i = 0; i < leaf->npages; i++)
            if (leaf->pages[i].level >= level) {
                doc_bad(e, path, "a page refers upwards");
                goto out;
            }
    }
    if (level != ref->level || leaf->first != ref->first || next - leaf->first != ref->count || end_seq != ref->end_seq) {
        doc_bad(e, path, "it is not the page that the catalogue names");
        goto out;
    }
    rc = 0;
out:
    json_decref(o);
    buf_free(&b);
    if (rc < 0) lineage_leaf_free(leaf);
    return rc;
}

/* Replace refs [at, at+n) of one level by one ref to a page that holds them. */
static int fold(struct store *st, struct lineage *l, size_t at, size_t n, struct err *e) {
    struct lineage_leaf leaf = {
        .first = l->pages[at].first, .start_seq = at ? l->pages[at - 1].end_seq : 0, .pages = l->pages + at, .npages = n};
    struct lineage_page ref = {.level = l->pages[at].level + 1, .first = leaf.first, .end_seq = l->pages[at + n - 1].end_seq};
    for (size_t i = 0; i < n; i++)
        ref.count += l->pages[at + i].count;
    if (page_put(st, &leaf, ref.level, &ref, e) < 0) return -1;
    l->pages[at] = ref;
    memmove(l->pages + at + 1, l->pages + at + n, (l->npages - at - n) * sizeof *l->pages);
    l->npages -= n - 1;
    return 0;
}

static int page_out(struct store *st, struct lineage *l, struct err *e) {
    size_t n = chain_hooks.page_links;
    struct lineage_leaf leaf = {.first = l->links[0].n, .start_seq = lineage_inline_start(l), .links = l->links, .nlinks = n};
    struct lineage_page ref = {.level = 0, .first = leaf.first, .count = n, .end_seq = l->links[n - 1].end_seq}, *more;
    if (page_put(st, &leaf, 0, &ref, e) < 0) return -1;
    if ((more = mem_resize(l->pages, (l->npages + 1) * sizeof *more, e)) == NULL) return -1;
    l->pages = more;
    l->pages[l->npages++] = ref;
    memmove(l->links, l->links + n, (l->nlinks - n) * sizeof *l->links);
    l->nlinks -= n;
    for (size_t half = chain_hooks.page_refs / 2; l->npages > chain_hooks.page_refs;) {
        size_t at = 0, run = 0; /* levels only fall from left to right: fold the newest level that has half a list */
        for (size_t i = l->npages; i-- > 0;) {
            run = i + 1 < l->npages && l->pages[i].level == l->pages[i + 1].level ? run + 1 : 1;
            at = i;
            if (run >= half && (i == 0 || l->pages[i - 1].level != l->pages[i].level)) break;
        }
        if (run < half) break; /* cannot be with fewer levels than there are refs; the byte limit would tell */
        if (fold(st, l, at, half, e) < 0) return -1;
    }
    return 0;
}

int lineage_append(struct store *st, struct lineage *l, const struct lineage_link *x, const struct pos *tip, struct err *e) {
    struct lineage_link *more = mem_resize(l->links, (l->nlinks + 1) * sizeof *more, e);
    if (more == NULL) return -1;
    l->links = more;
    l->links[l->nlinks++] = *x;
    l->tip = *tip;
    return l->nlinks > chain_hooks.page_links ? page_out(st, l, e) : 0;
}
