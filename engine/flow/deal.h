/* Dealing a window's changes to lanes, by the routing in force. */
#ifndef SLUICE_FLOW_DEAL_H
#define SLUICE_FLOW_DEAL_H

#include "engine/flow/route.h"
#include "engine/flow/tables.h"
#include "engine/flow/window.h"

struct deal {
    uint8_t *lane_of;
    size_t cap;     /* per change: a lane, DEAL_BARRIER, SHARE_LEADER or SHARE_NOBODY */
    size_t n, rows; /* row changes that anybody takes */
    bool barrier;   /* one stands among them */
};
#define DEAL_BARRIER 254 /* concerns several lanes: a truncate, a row that moves from lane to lane */

int deal_window(struct deal *d, const struct route *r, const struct tables *ts, const struct change *changes, size_t n, struct err *e);
void deal_free(struct deal *d);
/* Which lanes have a part of changes [from, to)? shares has room for r->lanes and is cleared first. */
void deal_shares(const struct deal *d, size_t from, size_t to, bool *shares, unsigned lanes);
/* From change `at` on, the next span [*from, *to) that must be applied alone: whole transactions with a barrier, one after the other where
 * fewer than `gap` rows lie between. False: none. */
bool deal_span(const struct deal *d, const struct change *changes, size_t at, size_t gap, size_t *from, size_t *to);
/* The table of a record, if the consumer wants the record. */
struct flow_table *deal_table(const struct tables *ts, uint32_t number, uint64_t seq);

#endif
