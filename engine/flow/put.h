/* One lane's part of a window, applied. */
#ifndef SLUICE_FLOW_PUT_H
#define SLUICE_FLOW_PUT_H

#include "drivers/db.h"
#include "engine/flow/window.h"

struct put_stats {
    uint64_t changes, rows, missing, replayed_ordered, replayed_replaced;
};
/* Apply changes with one lane: composed; after a unique conflict in source order; then with the rows involved replaced. What still stands
 * is a refusal, and the target stands at the last mark. Adds to *s. */
int window_put(struct window *w, const struct db_driver *driver, struct lane *lane, struct change *changes, size_t n, const struct mark *m,
               struct put_stats *s, struct err *e);

#endif
