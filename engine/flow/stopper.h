/* Who may end a run early: a signal, a request in the control DB, a stop object in the store, the target's row. */
#ifndef SLUICE_FLOW_STOPPER_H
#define SLUICE_FLOW_STOPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/db.h"
#include "drivers/store.h"
#include "engine/control/control.h"

struct stopper {
    struct control *control;            /* may be NULL */
    const struct entity *entity;
    struct store *store;                /* may be NULL */
    const char *stream_id;              /* consumers; NULL for a producer */
    const struct db_driver *driver; struct target *target; /* may be NULL */
    int64_t requests_since;             /* requests up to this id were there before the run */
    char nonce_own[33], nonce_all[33];  /* stop objects that were there before the run */
    int64_t target_seen_us;             /* the target row's request that was there before the run */
    bool target_known;                  /* the row was looked at: what comes after is new, through all reconnecting */
    int64_t next_near_us, next_far_us;  /* when to look again (monotonic) */
    char why[64];                       /* empty while nobody asked */
};
/* Remember what is there now: a leftover stop never ends a later run. */
int stopper_begin(struct stopper *s, struct err *e);
/* Look, at most once a second at what is near and once in 5 s at what is far. Never fails: what cannot be read is asked again later. */
bool stopper_asked(struct stopper *s);
/* Look at the target's row too, from now on; seen_us is what it says. Only at the first call of a run does that count as a leftover. */
void stopper_target(struct stopper *s, const struct db_driver *driver, struct target *target, int64_t seen_us);
/* End the run from inside, for a reason of its own. */
void stopper_say(struct stopper *s, const char *why);
/* Wait at most us, looking meanwhile. True if the run is to end. */
bool stopper_wait(struct stopper *s, int64_t us);

#endif
