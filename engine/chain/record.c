/* DESIGN: one record.
 *   1. Encoding appends to the frame's buffer and allocates nothing of its own; a record that fails leaves the buffer as it was.
 *   2. Decoding checks every length, that the body ends where the record ends, and that images have as many columns as the shape in
 *      force.
 *   3. The body is copied into the batch's arena once; values point into that copy. */
#include "engine/chain/record.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/base/value.h"

static int put_token(struct buf *b, const struct pos *p, struct err *e) {
    const char *t = p ? p->token : "";
    return buf_lenstr(b, t, strlen(t), e);
}

static int put_image(struct buf *b, const struct change *c, const struct value *v, struct err *e) {
    if (v == NULL || c->shape == NULL) return err_set(e, CODE_INTERNAL, "a change has no image or no shape");
    return row_encode(b, v, c->shape->ncols, e);
}

static int put_digest(struct buf *b, const struct shape *s, struct err *e) {
    unsigned char raw[32];
    if (s == NULL) return buf_lenstr(b, "", 0, e);
    if (text_unhex(s->digest, 64, raw) < 0) return err_set(e, CODE_INTERNAL, "a shape has no digest");
    return buf_lenstr(b, raw, 32, e);
}

static int body(struct buf *b, const struct change *c, uint32_t table, const uint32_t *tables, struct err *e) {
    if (buf_u8(b, c->op, e) < 0) return -1;
    switch (c->op) {
    case CHANGE_INSERT: return buf_varint(b, table, e) < 0 ? -1 : put_image(b, c, c->after, e);
    case CHANGE_UPDATE:
        if (buf_varint(b, table, e) < 0 || buf_u8(b, c->before_image, e) < 0) return -1;
        if (c->before_image > IMAGE_FULL) return err_set(e, CODE_INTERNAL, "a change has an unknown kind of image");
        if (c->before_image != IMAGE_NONE && put_image(b, c, c->before, e) < 0) return -1;
        return put_image(b, c, c->after, e);
    case CHANGE_DELETE:
        if (buf_varint(b, table, e) < 0 || buf_u8(b, c->before_image, e) < 0) return -1;
        if (c->before_image != IMAGE_KEY && c->before_image != IMAGE_FULL) return err_set(e, CODE_INTERNAL, "a delete has no image");
        return put_image(b, c, c->before, e);
    case CHANGE_TRUNCATE:
        if (c->ntables == 0) return err_set(e, CODE_INTERNAL, "a truncate names no table");
        if (buf_varint(b, c->flags, e) < 0 || buf_varint(b, c->ntables, e) < 0) return -1;
        for (uint32_t i = 0; i < c->ntables; i++)
            if (buf_varint(b, tables[i], e) < 0) return -1;
        return 0;
    case CHANGE_COMMIT:
    case CHANGE_HEARTBEAT: return buf_u64(b, (uint64_t)c->time_us, e) < 0 ? -1 : put_token(b, c->pos, e);
    case CHANGE_SHAPE:
        if (buf_varint(b, table, e) < 0 || buf_u64(b, (uint64_t)(c->shape ? c->shape->oid : c->old_shape ? c->old_shape->oid : 0), e) < 0)
            return -1;
        return put_digest(b, c->old_shape, e) < 0 ? -1 : put_digest(b, c->shape, e);
    case CHANGE_SEQUENCE:
        if (c->seq_ns == NULL || c->seq_name == NULL) return err_set(e, CODE_INTERNAL, "a sequence has no name");
        if (buf_lenstr(b, c->seq_ns, strlen(c->seq_ns), e) < 0 || buf_lenstr(b, c->seq_name, strlen(c->seq_name), e) < 0 ||
            buf_u64(b, (uint64_t)c->seq_value, e) < 0)
            return -1;
        return buf_u8(b, c->seq_called ? 1 : 0, e);
    case CHANGE_BACKFILL_BEGIN:
    case CHANGE_BACKFILL_END: return buf_varint(b, table, e) < 0 ? -1 : put_token(b, c->pos, e);
    case CHANGE_BACKFILL_ROWS:
        return buf_varint(b, table, e) < 0 || buf_varint(b, c->nrows, e) < 0 ? -1 : buf_lenstr(b, c->rows, c->rows_len, e);
    default: return err_set(e, CODE_INTERNAL, "a change has the unknown operation %u", c->op);
    }
}

int record_encode(struct buf *b, const struct change *c, uint32_t table, const uint32_t *tables, struct err *e) {
    size_t at = b->n, n;
    if (buf_u32(b, 0, e) < 0) return -1;
    if (body(b, c, table, tables, e) < 0) {
        b->n = at;
        return -1;
    }
    n = b->n - at - 4;
    for (int i = 0; i < 4; i++)
        b->p[at + (size_t)i] = (char)(n >> (8 * i));
    return 0;
}

/* ---- decoding ---- */

size_t record_length(const char *p, size_t n) {
    struct rd r = RD(p, n);
    uint32_t len;
    if (rd_u32(&r, &len) < 0 || len == 0 || len > RD_LEFT(&r)) return 0;
    return (size_t)len + 4;
}

uint8_t record_op(const char *p) {
    return (uint8_t)p[4];
}

static int bad(struct err *e, const struct change *c) {
    return err_set(e, CODE_CHUNK_CORRUPT, "record %llu is malformed", (unsigned long long)c->seq);
}

static int get_table(struct rd *r, struct change *c, const struct record_shapes *s, struct err *e) {
    uint64_t t;
    if (rd_varint(r, &t) < 0 || t == 0 || t > UINT32_MAX) return bad(e, c);
    c->table = (uint32_t)t;
    return s->in_force(s->arg, c->table, &c->shape, e);
}

static int get_image(struct rd *r, struct arena *a, const struct change *c, const struct value **v, struct err *e) {
    struct value *got;
    uint16_t n;
    if (row_decode(r, a, &got, &n, e) < 0) return err_wrap(e, "record %llu", (unsigned long long)c->seq);
    if (n != c->shape->ncols)
        return err_set(e, CODE_CHUNK_CORRUPT, "record %llu has %u columns, table %u has %u", (unsigned long long)c->seq, n, c->table,
                       c->shape->ncols);
    *v = got;
    return 0;
}

static int get_pos(struct rd *r, struct arena *a, const struct record_shapes *s, struct change *c, struct err *e) {
    const char *p;
    size_t n, ne = strlen(s->engine);
    if (rd_lenstr(r, &p, &n) < 0 || n >= sizeof c->pos->token || ne >= sizeof c->pos->engine || (n && memchr(p, '\0', n))) return bad(e, c);
    if (n == 0) return 0;
    if ((c->pos = arena_alloc(a, sizeof *c->pos, e)) == NULL) return -1;
    memcpy(c->pos->engine, s->engine, ne + 1);
    memcpy(c->pos->token, p, n);
    c->pos->token[n] = '\0';
    return 0;
}

static int get_shape(struct rd *r, const struct record_shapes *s, struct change *c, struct err *e) {
    uint64_t t, oid;
    const char *before, *after;
    size_t nb, na;
    if (rd_varint(r, &t) < 0 || t == 0 || t > UINT32_MAX || rd_u64(r, &oid) < 0 || rd_lenstr(r, &before, &nb) < 0 ||
        rd_lenstr(r, &after, &na) < 0 || (nb != 0 && nb != 32) || (na != 0 && na != 32) || nb + na == 0)
        return bad(e, c);
    c->table = (uint32_t)t;
    return s->change(s->arg, c->table, (int64_t)oid, nb ? (const unsigned char *)before : NULL, na ? (const unsigned char *)after : NULL,
                     &c->old_shape, &c->shape, e);
}

static int get_name(struct rd *r, struct arena *a, const char **out, struct change *c, struct err *e) {
    const char *p;
    size_t n;
    if (rd_lenstr(r, &p, &n) < 0) return bad(e, c);
    return (*out = arena_copy(a, p, n, e)) ? 0 : -1;
}

static int get_truncate(struct rd *r, struct arena *a, const struct record_shapes *s, struct change *c, struct err *e) {
    uint64_t flags, n, t;
    const struct shape **v;
    if (rd_varint(r, &flags) < 0 || flags > UINT32_MAX || rd_varint(r, &n) < 0 || n == 0 || n > RD_LEFT(r)) return bad(e, c);
    if ((v = arena_alloc(a, n * sizeof *v, e)) == NULL) return -1;
    for (uint64_t i = 0; i < n; i++) {
        if (rd_varint(r, &t) < 0 || t == 0 || t > UINT32_MAX) return bad(e, c);
        if (s->in_force(s->arg, (uint32_t)t, &v[i], e) < 0) return -1;
        if (i == 0) c->table = (uint32_t)t;
    }
    c->flags = (uint32_t)flags;
    c->tables = v;
    c->ntables = (uint32_t)n;
    c->shape = v[0];
    return 0;
}

int record_decode(const char *p, size_t n, struct arena *a, const struct record_shapes *s, struct change *c, struct err *e) {
    const char *body_bytes = p + 4;
    struct rd r;
    uint64_t u;
    uint8_t op = record_op(p), image;
    size_t len;
    int rc = 0;
    bool keeps = op == CHANGE_INSERT || op == CHANGE_UPDATE || op == CHANGE_DELETE || op == CHANGE_BACKFILL_ROWS;
    if (keeps) { /* values point into the batch's own copy */
        char *own = arena_alloc(a, n - 4, e);
        if (own == NULL) return -1;
        memcpy(own, body_bytes, n - 4);
        body_bytes = own;
    }
    r = RD(body_bytes + 1, n - 5);
    c->op = op;
    switch (op) {
    case CHANGE_INSERT:
        if (get_table(&r, c, s, e) < 0 || get_image(&r, a, c, &c->after, e) < 0) return -1;
        break;
    case CHANGE_UPDATE:
    case CHANGE_DELETE:
        if (get_table(&r, c, s, e) < 0) return -1;
        if (rd_u8(&r, &image) < 0 || image > IMAGE_FULL || (op == CHANGE_DELETE && image == IMAGE_NONE)) return bad(e, c);
        c->before_image = image;
        if (image != IMAGE_NONE && get_image(&r, a, c, &c->before, e) < 0) return -1;
        if (op == CHANGE_UPDATE && get_image(&r, a, c, &c->after, e) < 0) return -1;
        break;
    case CHANGE_TRUNCATE: rc = get_truncate(&r, a, s, c, e); break;
    case CHANGE_COMMIT:
    case CHANGE_HEARTBEAT:
        if (rd_u64(&r, &u) < 0) return bad(e, c);
        c->time_us = (int64_t)u;
        rc = get_pos(&r, a, s, c, e);
        break;
    case CHANGE_SHAPE: rc = get_shape(&r, s, c, e); break;
    case CHANGE_SEQUENCE:
        if (get_name(&r, a, &c->seq_ns, c, e) < 0 || get_name(&r, a, &c->seq_name, c, e) < 0) return -1;
        if (rd_u64(&r, &u) < 0 || rd_u8(&r, &c->seq_called) < 0 || c->seq_called > 1) return bad(e, c);
        c->seq_value = (int64_t)u;
        break;
    case CHANGE_BACKFILL_BEGIN:
    case CHANGE_BACKFILL_END:
        if (get_table(&r, c, s, e) < 0) return -1;
        rc = get_pos(&r, a, s, c, e);
        break;
    case CHANGE_BACKFILL_ROWS:
        if (get_table(&r, c, s, e) < 0) return -1;
        if (rd_varint(&r, &u) < 0 || u > UINT32_MAX || rd_lenstr(&r, &c->rows, &len) < 0) return bad(e, c);
        c->nrows = (uint32_t)u;
        c->rows_len = len;
        break;
    default: return err_set(e, CODE_FORMAT_UNSUPPORTED, "record %llu is of the unknown kind %u", (unsigned long long)c->seq, op);
    }
    if (rc < 0) return -1;
    return RD_LEFT(&r) == 0 ? 0 : bad(e, c);
}
