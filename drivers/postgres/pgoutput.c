/* pgoutput's messages.
 *
 * DESIGN
 * 1. Nothing is read past the message's end, and no count or length is believed before it was compared with the bytes that are left.
 * 2. A value is a pointer into the message and a length: nothing is copied or allocated for it.
 * 3. Bytes behind a message's end are an error: the two sides would not mean the same. */
#include "drivers/postgres/pgoutput.h"

#include <string.h>

struct in { const unsigned char *p, *end; bool bad; };

static uint64_t get(struct in *i, unsigned bytes) {
    uint64_t v = 0;
    if ((size_t)(i->end - i->p) < bytes) {
        i->bad = true;
        i->p = i->end;
        return 0;
    }
    while (bytes-- > 0) v = v << 8 | *i->p++;
    return v;
}
static uint8_t get8(struct in *i) { return (uint8_t)get(i, 1); }
static uint16_t get16(struct in *i) { return (uint16_t)get(i, 2); }
static uint32_t get32(struct in *i) { return (uint32_t)get(i, 4); }
static uint64_t get64(struct in *i) { return get(i, 8); }

static const char *get_str(struct in *i) {
    const unsigned char *z = memchr(i->p, 0, (size_t)(i->end - i->p));
    if (z == NULL) {
        i->bad = true;
        i->p = i->end;
        return "";
    }
    const char *s = (const char *)i->p;
    i->p = z + 1;
    return s;
}

static int get_tuple(struct in *i, struct arena *a, struct value **out, uint16_t *n, struct err *e) {
    *n = get16(i);
    *out = NULL;
    if (i->bad || (size_t)(i->end - i->p) < *n) { /* a column takes a byte at least */
        i->bad = true;
        return 0;
    }
    struct value *v = arena_alloc(a, (*n + 1u) * sizeof *v, e);
    if (v == NULL) return -1;
    for (uint16_t c = 0; c < *n; c++) {
        uint8_t kind = get8(i);
        v[c] = VALUE_OF_NULL;
        if (kind == 'n') continue;
        if (kind == 'u') {
            v[c].kind = VALUE_UNCHANGED;
            continue;
        }
        uint32_t len = get32(i);
        if (kind != 't' || i->bad || len > INT32_MAX || (size_t)(i->end - i->p) < len) {
            i->bad = true;
            return 0;
        }
        v[c] = (struct value){(const char *)i->p, len, VALUE_TEXT};
        i->p += len;
    }
    *out = v;
    return 0;
}

static int get_relation(struct in *i, struct arena *a, struct pgo_msg *m, struct err *e) {
    m->relid = get32(i);
    m->ns = get_str(i);
    if (*m->ns == 0) m->ns = "pg_catalog";
    m->name = get_str(i);
    m->replident = (char)get8(i);
    m->ncols = get16(i);
    if (i->bad || (size_t)(i->end - i->p) < (size_t)m->ncols * 10) {
        i->bad = true;
        return 0;
    }
    if ((m->cols = arena_alloc(a, (m->ncols + 1u) * sizeof *m->cols, e)) == NULL) return -1;
    for (uint16_t c = 0; c < m->ncols; c++) {
        m->cols[c].key = (get8(i) & 1) != 0;
        m->cols[c].name = get_str(i);
        m->cols[c].type = get32(i);
        m->cols[c].typmod = (int32_t)get32(i);
    }
    return 0;
}

static int get_row(struct in *i, struct arena *a, struct pgo_msg *m, struct err *e) {
    m->relid = get32(i);
    uint8_t part = get8(i);
    if ((part == 'K' || part == 'O') && m->tag != 'I') {
        m->old_kind = (char)part;
        if (get_tuple(i, a, &m->old_row, &m->nold, e) < 0) return -1;
        if (m->tag == 'D') return 0;
        part = get8(i);
    }
    if (part != 'N' || m->tag == 'D') {
        i->bad = true;
        return 0;
    }
    return get_tuple(i, a, &m->new_row, &m->nnew, e);
}

static int get_truncate(struct in *i, struct arena *a, struct pgo_msg *m, struct err *e) {
    m->nrels = get32(i);
    uint8_t flags = get8(i);
    m->cascade = (flags & 1) != 0;
    m->restart = (flags & 2) != 0;
    if (i->bad || m->nrels > (size_t)(i->end - i->p) / 4) {
        i->bad = true;
        return 0;
    }
    if ((m->rels = arena_alloc(a, (m->nrels + 1u) * sizeof *m->rels, e)) == NULL) return -1;
    for (uint32_t r = 0; r < m->nrels; r++) m->rels[r] = get32(i);
    return 0;
}

/* hop 1/8: one message of the server's log becomes a row, a boundary or a shape's announcement, in place */
int pgoutput_decode(const char *p, size_t n, struct arena *a, struct pgo_msg *m, struct err *e) {
    struct in i = {(const unsigned char *)p, (const unsigned char *)p + n, false};
    memset(m, 0, sizeof *m);
    m->tag = (char)get8(&i);
    int rc = 0;
    switch (m->tag) {
    case 'B':
        m->lsn = get64(&i);
        m->time_us = (int64_t)get64(&i) + PG_EPOCH_US;
        m->xid = get32(&i);
        break;
    case 'C':
        if (get8(&i) != 0) i.bad = true;
        m->lsn = get64(&i);
        m->end_lsn = get64(&i);
        m->time_us = (int64_t)get64(&i) + PG_EPOCH_US;
        break;
    case 'R': rc = get_relation(&i, a, m, e); break;
    case 'I': case 'U': case 'D': rc = get_row(&i, a, m, e); break;
    case 'T': rc = get_truncate(&i, a, m, e); break;
    case 'O':
        get64(&i);
        get_str(&i);
        m->tag = 0;
        break;
    case 'Y':
        get32(&i);
        get_str(&i);
        get_str(&i);
        m->tag = 0;
        break;
    case 'M': {
        get8(&i);
        get64(&i);
        get_str(&i);
        uint32_t len = get32(&i);
        if (!i.bad && (size_t)(i.end - i.p) == len) i.p = i.end;
        else i.bad = true;
        m->tag = 0;
        break;
    }
    default:
        if (n > 0)
            return err_set(e, CODE_INTERNAL, "the server sent a log message of type 0x%02x, which was not asked for", (unsigned char)p[0]);
        i.bad = true;
    }
    if (rc < 0) return -1;
    if (i.bad || i.p != i.end)
        return err_set_class(e, ERR_RETRY, CODE_SERVER, "a log message of type '%c' and %zu bytes cannot be read", n > 0 ? p[0] : '?', n);
    return 0;
}
