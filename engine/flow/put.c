#include "engine/flow/put.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"

#define TRIES 4 /* of a lane that the server chose as a deadlock's victim */

static int put_once(struct window *w, enum window_mode mode, const struct db_driver *driver, struct lane *lane, struct change *changes,
                    size_t n, const struct mark *m, struct put_stats *s, struct err *e) {
    const struct run *runs;
    size_t nruns;
    struct apply_result r = {0};
    if (window_compose(w, mode, changes, n, &runs, &nruns, e) < 0) return -1;
    for (int i = 0;; i++) {
        if (driver->target->lane_apply(lane, runs, nruns, m, &r, e) == 0) break;
        /* A deadlock's victim was rolled back whole. A connection that broke fails again at once. */
        if (!m->route_epoch || i == TRIES || e->class != ERR_RETRY || e->code != CODE_SERVER) return -1;
        log_info("a lane's transaction is tried again", KV_U64("up_to_seq", m->seq), KV_STR("was", e->msg));
        err_clear(e);
    }
    s->rows += r.rows;
    s->missing += r.missing;
    s->changes += window_rows(w);
    if (r.missing) log_warn("changes matched no row of the target", KV_U64("rows", r.missing), KV_U64("up_to_seq", m->seq));
    return 0;
}

int window_put(struct window *w, const struct db_driver *driver, struct lane *lane, struct change *changes, size_t n, const struct mark *m,
               struct put_stats *s, struct err *e) {
    static const enum window_mode modes[] = {WINDOW_COMPOSED, WINDOW_SINGLE, WINDOW_REPLACED};
    for (size_t i = 0; i < MEM_ARRAY_LEN(modes); i++) {
        if (put_once(w, modes[i], driver, lane, changes, n, m, s, e) == 0) {
            if (modes[i] == WINDOW_SINGLE) s->replayed_ordered++;
            if (modes[i] == WINDOW_REPLACED) s->replayed_replaced++;
            return 0;
        }
        if (e->code != CODE_UNIQUE_CONFLICT) return -1;
        if (e->marker == MARKER_NONE) err_mark(e, MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW, MARKER_NONE);
        log_debug("unique conflict: window is replayed", KV_STR("mode", i == 0 ? "source order" : "replaced rows"), KV_STR("was", e->msg));
    }
    return -1;
}
