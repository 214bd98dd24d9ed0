/* DESIGN.
 * 1. Every change of a wanted table goes to exactly one lane, or is a barrier: a truncate, or an update whose row is in one lane and goes
 * to another.
 * 2. A barrier is never applied without its source transaction (or the part of it that is in the window): what it depends on may stand
 * there, the other half of an exchange of keys for one. */
#include "engine/flow/deal.h"

#include <string.h>

#include "engine/base/mem.h"

void deal_free(struct deal *d) {
    mem_free(d->lane_of);
    memset(d, 0, sizeof *d);
}

struct flow_table *deal_table(const struct tables *ts, uint32_t number, uint64_t seq) {
    struct flow_table *t = tables_get(ts, number);
    return t && t->wanted && seq > t->skip_seq ? t : NULL;
}

static int deal_row(struct deal *d, size_t i, const struct route *r, const struct tables *ts, const struct change *c, struct err *e) {
    unsigned from, to;
    if (!tables_get(ts, c->table))
        return err_set(e, CODE_INTERNAL, "record %llu names table %u, which no shape announced", (unsigned long long)c->seq, c->table);
    if (!deal_table(ts, c->table, c->seq)) return 0;
    d->rows++;
    to = route_lane(r, c, &from);
    d->lane_of[i] = from == to ? (uint8_t)to : DEAL_BARRIER;
    if (from != to) d->barrier = true;
    return 0;
}

int deal_window(struct deal *d, const struct route *r, const struct tables *ts, const struct change *changes, size_t n, struct err *e) {
    if (n > d->cap) {
        uint8_t *v = mem_resize(d->lane_of, n, e);
        if (!v) return -1;
        d->lane_of = v;
        d->cap = n;
    }
    d->n = n;
    d->rows = 0;
    d->barrier = false;
    for (size_t i = 0; i < n; i++) {
        const struct change *c = &changes[i];
        d->lane_of[i] = SHARE_NOBODY;
        switch (c->op) {
        case CHANGE_INSERT:
        case CHANGE_UPDATE:
        case CHANGE_DELETE:
            if (deal_row(d, i, r, ts, c, e) < 0) return -1;
            break;
        case CHANGE_TRUNCATE:
            for (uint32_t t = 0; t < c->ntables; t++)
                if (deal_table(ts, c->tables[t]->table, c->seq)) {
                    d->lane_of[i] = DEAL_BARRIER;
                    d->barrier = true;
                }
            break;
        case CHANGE_SEQUENCE: d->lane_of[i] = SHARE_LEADER; break;
        case CHANGE_COMMIT:
        case CHANGE_HEARTBEAT: break;
        default: return err_set(e, CODE_INTERNAL, "a window cannot hold a record of kind %u", c->op);
        }
    }
    return 0;
}

void deal_shares(const struct deal *d, size_t from, size_t to, bool *shares, unsigned lanes) {
    memset(shares, 0, lanes * sizeof *shares);
    for (size_t i = from; i < to; i++)
        if (d->lane_of[i] < lanes) shares[d->lane_of[i]] = true;
}

static size_t rows_in(const struct deal *d, size_t from, size_t to) {
    size_t rows = 0;
    for (size_t i = from; i < to; i++)
        rows += d->lane_of[i] < SHARE_LEADER || d->lane_of[i] == DEAL_BARRIER;
    return rows;
}

static size_t next_barrier(const struct deal *d, size_t at) {
    const uint8_t *p = at < d->n ? memchr(d->lane_of + at, DEAL_BARRIER, d->n - at) : NULL;
    return p ? (size_t)(p - d->lane_of) : d->n;
}

bool deal_span(const struct deal *d, const struct change *changes, size_t at, size_t gap, size_t *from, size_t *to) {
    size_t barrier = next_barrier(d, at);
    if (barrier == d->n) return false;
    for (*from = barrier; *from > at && changes[*from - 1].op != CHANGE_COMMIT; --*from) {}
    if (rows_in(d, at, *from) < gap) *from = at;
    for (;;) {
        for (*to = barrier + 1; *to < d->n && changes[*to - 1].op != CHANGE_COMMIT; ++*to) {}
        barrier = next_barrier(d, *to);
        if (barrier == d->n || rows_in(d, *to, barrier) >= gap) break;
    }
    if (barrier == d->n && rows_in(d, *to, d->n) < gap) *to = d->n;
    return true;
}
