/* DESIGN: reading a link.
 *   1. Manifest, parent and seam are checked when it is opened, each chunk as a whole before its first record, each frame's CRC before
 *      its first record.
 *   2. Seqs come from counting, and every count (frame, chunk, link) has to agree with what is recorded one level up; at the end so
 *      have the last commit and the end.
 *   3. Starting inside: shape changes up to there come from the manifest, and each frame's index says which shapes it takes for
 *      granted.
 * */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/chain/chunk.h"
#include "engine/chain/handle.h"
#include "engine/chain/record.h"

struct link_reader {
    struct chain *c;
    struct manifest m;
    struct registry now;
    struct chunk_name name;
    struct record_shapes shapes;
    uint64_t from_seq;  /* records up to here are passed over */
    uint64_t seq;       /* of the last record looked at */
    size_t next_change; /* of the manifest's shape changes */
    size_t k, frame;    /* next to open */
    struct chunk_reader *chunk;
    const char *p;
    size_t n; /* what is left of the frame */
    struct pos last_commit;
    bool saw_commit, skipped, done;
    char path[CHAIN_PATH]; /* the manifest's, for messages */
};

void link_reader_close(struct link_reader *r) {
    if (r == NULL) return;
    chunk_reader_close(r->chunk);
    manifest_free(&r->m);
    registry_free(&r->now);
    mem_free(r);
}

static int in_force(void *arg, uint32_t table, const struct shape **s, struct err *e) {
    struct link_reader *r = arg;
    struct registry_table *t = registry_get(&r->now, table);
    if (t == NULL)
        return err_set(e, CODE_CHUNK_CORRUPT, "record %llu is of table %u, which is not in force", (unsigned long long)r->seq, table);
    if (t->shape == NULL && chain_shape(r->c, t->digest, table, t->oid, &t->shape, e) < 0) return -1;
    *s = t->shape;
    return 0;
}

static int shape_change(void *arg, uint32_t table, int64_t oid, const unsigned char *before, const unsigned char *after,
                        const struct shape **old, const struct shape **now, struct err *e) {
    struct link_reader *r = arg;
    const struct shape_change *x = r->next_change < r->m.nchanges ? &r->m.changes[r->next_change] : NULL;
    char hex[2][DIGEST_HEX] = {"", ""};
    if (before) text_hex(before, 32, hex[0]);
    if (after) text_hex(after, 32, hex[1]);
    if (x == NULL || x->seq != r->seq || x->table != table || x->oid != oid || strcmp(x->before, hex[0]) != 0 ||
        strcmp(x->after, hex[1]) != 0)
        return err_set(e, CODE_CHUNK_CORRUPT, "record %llu is a shape change that the manifest does not list", (unsigned long long)r->seq);
    if (before && in_force(r, table, old, e) < 0) return -1;
    if (registry_apply(&r->now, x, r->path, e) < 0) return -1;
    r->next_change++;
    return after ? in_force(r, table, now, e) : 0;
}

int link_reader_open(struct chain *c, uint64_t n, uint64_t from_seq, struct link_reader **out, struct err *e) {
    struct link_reader *r;
    struct link_info li;
    *out = NULL;
    if (chain_link(c, n, &li, e) < 0) return -1;
    if ((r = mem_alloc(sizeof *r, e)) == NULL) return -1;
    r->c = c;
    r->from_seq = from_seq;
    if (li.opening) { /* holds no records; its document is looked at all the same */
        struct opening o;
        if (chain_opening(c, n, &o, e) < 0) goto fail;
        r->m.end = o.anchor;
        opening_free(&o);
        r->done = true;
        *out = r;
        return 0;
    }
    if (chain_manifest(c, n, &r->m, e) < 0 || registry_copy(&r->m.tables, &r->now, e) < 0) goto fail;
    path_link(r->path, r->m.segment, n, r->m.attempt);
    r->seq = r->m.start_seq;
    r->name = (struct chunk_name){CHUNK_CHANGES, 0, r->m.lineage, r->m.segment, r->m.attempt, n};
    r->shapes = (struct record_shapes){r, c->lin.engine, in_force, shape_change};
    *out = r;
    return 0;
fail:
    link_reader_close(r);
    return -1;
}

/* Shape changes with a seq up to `seq`, for a start inside. */
static int catch_up(struct link_reader *r, uint64_t seq, struct err *e) {
    for (; r->next_change < r->m.nchanges && r->m.changes[r->next_change].seq <= seq; r->next_change++)
        if (registry_apply(&r->now, &r->m.changes[r->next_change], r->path, e) < 0) return -1;
    return 0;
}

/* The index says which shapes the frame takes for granted. */
static int frame_check(struct link_reader *r, const struct chunk_frame *f, struct err *e) {
    struct rd rd = {f->tables, f->tables + f->ntables * 42};
    static const char none[32];
    for (uint64_t i = 0; i < f->ntables; i++) {
        const struct registry_table *t;
        const char *digest;
        uint64_t table;
        if (rd_varint(&rd, &table) < 0 || rd_bytes(&rd, 32, &digest) < 0)
            return chunk_bad(e, chunk_reader_path(r->chunk), "has a damaged index");
        t = table <= UINT32_MAX ? registry_get(&r->now, (uint32_t)table) : NULL;
        if (memcmp(digest, t ? (const char *)t->raw : none, 32) != 0)
            return chunk_bad(e, chunk_reader_path(r->chunk),
                             "takes another shape of table %llu for granted than the manifest says is in force", (unsigned long long)table);
    }
    return 0;
}

/* The next frame that holds anything past from_seq; *more false at the link's end. */
static int next_frame(struct link_reader *r, bool *more, struct err *e) {
    const struct chunk_frame *f;
    for (;;) {
        if (r->chunk && r->frame < chunk_reader_frames(r->chunk, &f)) {
            f += r->frame;
            if (f->first + f->records - 1 <= r->from_seq) {
                r->frame++;
                r->skipped = true;
                continue;
            }
            if (r->skipped && catch_up(r, f->first - 1, e) < 0) return -1;
            if (!r->skipped && f->first != r->seq + 1)
                return chunk_bad(e, chunk_reader_path(r->chunk), "does not go on where the one before it ends");
            r->skipped = false;
            r->seq = f->first - 1;
            if (frame_check(r, f, e) < 0 || chunk_reader_frame(r->chunk, r->frame++, &r->p, &r->n, e) < 0) return -1;
            *more = true;
            return 0;
        }
        chunk_reader_close(r->chunk);
        r->chunk = NULL;
        for (; r->k < r->m.chunks.n && r->m.chunks.v[r->k].first + r->m.chunks.v[r->k].records - 1 <= r->from_seq; r->k++)
            r->skipped = true;
        *more = false;
        if (r->k == r->m.chunks.n) return 0;
        if (chunk_reader_open(r->c->st, &r->name, r->k, &r->m.chunks.v[r->k], &r->chunk, e) < 0) return -1;
        r->k++;
        r->frame = 0;
    }
}

/* Everything was read: does the end agree with the manifest? */
static int end_check(struct link_reader *r, struct err *e) {
    if (r->skipped) { /* from_seq is at or past the end */
        r->seq = r->m.end_seq;
        if (catch_up(r, r->seq, e) < 0) return -1;
    }
    if (r->seq != r->m.end_seq)
        return doc_bad(e, r->path, "its chunks end at record %llu, it says %llu", (unsigned long long)r->seq,
                       (unsigned long long)r->m.end_seq);
    if (r->next_change != r->m.nchanges) return doc_bad(e, r->path, "it lists shape changes that its chunks do not hold");
    if (r->saw_commit ? pos_compare(&r->last_commit, &r->m.last_commit) != POS_EQUAL
                      : r->from_seq <= r->m.start_seq && pos_is_set(&r->m.last_commit))
        return doc_bad(e, r->path, "its last transaction is not the one it names: records are missing");
    r->done = true;
    return 0;
}

/* hop 5/8: records leave the chain, after everything that holds them was checked. */
int link_reader_next(struct link_reader *r, struct batch *b, size_t max_bytes, struct err *e) {
    size_t began = b->n, used0 = arena_bytes(b->arena);
    if (max_bytes == 0) max_bytes = 1;
    while (!r->done) {
        bool more;
        if (r->n == 0) {
            if (next_frame(r, &more, e) < 0) return -1;
            if (!more) {
                if (end_check(r, e) < 0) return -1;
                break;
            }
        }
        size_t len = record_length(r->p, r->n), used;
        if (len == 0)
            return chunk_bad(e, chunk_reader_path(r->chunk), "holds a record that is cut after record %llu", (unsigned long long)r->seq);
        uint8_t op = record_op(r->p);
        r->seq++;
        if (r->seq > r->m.end_seq) return doc_bad(e, r->path, "its chunks hold more records than it says");
        if (r->seq > r->from_seq || op == CHANGE_SHAPE) {
            struct change scratch = {0}, *c = r->seq > r->from_seq ? batch_add(b, e) : &scratch;
            if (c == NULL) return -1;
            c->seq = r->seq;
            if (record_decode(r->p, len, b->arena, &r->shapes, c, e) < 0) {
                if (e->code == CODE_CHUNK_CORRUPT) {
                    char why[512];
                    memcpy(why, e->msg, sizeof why - 1);
                    why[sizeof why - 1] = '\0';
                    chunk_bad(e, chunk_reader_path(r->chunk), "cannot be read: %s", why);
                }
                return -1;
            }
            if (op == CHANGE_COMMIT) {
                if (c->pos == NULL) return chunk_bad(e, chunk_reader_path(r->chunk), "holds a commit without a position");
                r->last_commit = *c->pos;
                r->saw_commit = true;
            }
        }
        r->p += len;
        r->n -= len;
        used = arena_bytes(b->arena) - used0 + (b->n - began) * sizeof(struct change);
        if (used >= max_bytes && b->n > began && (op == CHANGE_COMMIT || used / 4 >= max_bytes)) break;
    }
    b->ends_at_commit = b->n > 0 && b->v[b->n - 1].op == CHANGE_COMMIT;
    return 0;
}

void link_reader_end(const struct link_reader *r, struct pos *end) {
    *end = r->m.end;
}
