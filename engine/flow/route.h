/* Routing: which lane takes a change. DESIGN in route.c. */
#ifndef SLUICE_FLOW_ROUTE_H
#define SLUICE_FLOW_ROUTE_H

#include "drivers/db.h"
#include "engine/base/change.h"
#include "engine/flow/tables.h"

#define ROUTE_HASH_VERSION 1
#define ROUTE_LANES_MAX 64

struct route_rule {
    bool known, hashed;
    unsigned lane; /* not hashed: the whole table's */
    uint16_t ncols;
    uint16_t *cols; /* hashed: ordinals into the shape in force, in the recorded order */
};
struct route {
    unsigned lanes;
    struct route_rule *v;
    size_t n;    /* by table number */
    char *rules; /* as recorded on the target */
};

/* Rules from what source and target look like now. Reads the target's catalogue once per wanted table. */
int route_make(struct route *r, unsigned lanes, const struct tables *ts, bool fk_enforced, struct err *e);
/* Rules as an earlier run recorded them, for the tables and shapes in `ts`: APPLY-MARK-MISMATCH when they cannot be read. */
int route_parse(struct route *r, unsigned lanes, const char *rules, const struct tables *ts, struct err *e);
void route_free(struct route *r);

/* The lane of a row change, and in *before the lane that has the row until then (the same unless the key changed). */
unsigned route_lane(const struct route *r, const struct change *c, unsigned *before);

/* Hash version 1, see DESIGN. under: shows through where `v` is UNCHANGED; may be NULL. */
uint64_t route_hash(const struct value *v, const struct value *under, const uint16_t *cols, uint16_t ncols);

#endif
