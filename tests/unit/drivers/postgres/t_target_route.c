/* Routing of several lanes on the target: recorded where all stand together, with exactly the marks it needs; marks that move along with
 * another lane's. */
#include "engine/base/fault.h"
#include "tests/unit/drivers/postgres/target_kit.h"

static const char *all_lanes(void) {
    return kit_rows("SELECT string_agg(lane || ':' || seq || ':' || route_epoch, ' ' ORDER BY lane) FROM %s.sluice_cdc_lane", kit_ctl);
}
static int write_route(unsigned lanes, uint64_t epoch, uint64_t seq, const char *rules, struct err *e) {
    struct target_route r = {.route_epoch = epoch, .lanes = lanes, .hash_version = 1, .seq = seq, .rules = (char *)(uintptr_t)rules};
    err_clear(e);
    return ops->route_write(kit_t, &kit_st, &r, e);
}

static void a_routing_and_its_marks(void) {
    struct err e = {0};
    struct target_route r = {0};
    bool found = true;
    ok(ops->route_read(kit_t, "s1", &r, &found, &e) == 0 && !found, "no routing yet: %s", e.msg);
    ok(write_route(4, 1, 100, "{\"tables\":[]}", &e) == 0, "four lanes: %s", e.msg);
    is_str(all_lanes(), "0:100:1 1:100:1 2:100:1 3:100:1", "have their marks");
    ok(ops->route_read(kit_t, "s1", &r, &found, &e) == 0 && found && r.route_epoch == 1 && r.lanes == 4 && r.hash_version == 1 &&
           r.seq == 100 && r.strangers == 0,
       "it is read back");
    is_str(r.rules, "{\"tables\":[]}", "with its rules");
    mem_free(r.rules);
    ok(ops->route_read(kit_t, "other", &r, &found, &e) == 0 && !found, "another stream has none");
    ok(write_route(2, 2, 100, "x", &e) == 0, "two lanes in their place");
    is_str(all_lanes(), "0:100:2 1:100:2", "and the others' marks are gone");
    is_str(kit_rows("SELECT string_agg(route_epoch::text, ',') FROM %s.sluice_cdc_route", kit_ctl), "2", "with the old routing");
    kit_do("UPDATE %s.sluice_cdc_lane SET route_epoch = 1 WHERE lane = 1", kit_ctl);
    ok(ops->route_read(kit_t, "s1", &r, &found, &e) == 0 && r.strangers == 1, "a mark that was not written under it is seen");
    mem_free(r.rules);
    kit_do("UPDATE %s.sluice_cdc_lane SET seq = 90 WHERE lane = 1", kit_ctl);
    ok(write_route(3, 3, 100, "y", &e) == -1 && e.code == CODE_MARK_MISMATCH && e.marker == MARKER_APPLY_MARK_MISMATCH,
       "while lanes stand apart it cannot change: %s", e.msg);
    is_str(all_lanes(), "0:100:2 1:90:1", "and nothing did");
    kit_do("UPDATE %s.sluice_cdc_lane SET seq = 100, route_epoch = 2 WHERE lane = 1", kit_ctl);
    setenv("SLUICE_FAULT", "postgres.route_before_commit=err", 1);
    fault_setup();
    ok(write_route(3, 3, 100, "y", &e) == -1, "what fails before its commit");
    unsetenv("SLUICE_FAULT");
    fault_setup();
    is_str(all_lanes(), "0:100:2 1:100:2", "changes nothing");
    ok(write_route(1, 9, 100, NULL, &e) == 0, "one lane needs no routing: %s", e.msg);
    is_str(all_lanes(), "0:100:0", "only its mark");
    is_str(kit_rows("SELECT count(*) FROM %s.sluice_cdc_route", kit_ctl), "0", "and none is there");
    kit_st.epoch--;
    ok(write_route(4, 4, 100, "z", &e) == -1 && e.code == CODE_FENCED, "in an older epoch it is refused: %s", e.msg);
    kit_st.epoch++;
    is_str(all_lanes(), "0:100:0", "and nothing changed");
}

static struct target_table *tt;
static struct shape *shape;
static struct apply_result res;
static int put(struct lane *l, const char *id, uint64_t seq, const unsigned *also, unsigned nalso, const char *link, struct err *e) {
    struct change *c[1] = {kit_change(shape, CHANGE_INSERT, IMAGE_NONE, NULL, ROW(id, "v"))};
    struct run run = {.kind = RUN_UPSERT, .table = tt, .changes = c, .n = id ? 1 : 0};
    struct mark m = {.epoch = kit_st.epoch, .route_epoch = 1, .seq = seq, .link_id = link, .state_seq = seq, .also = also, .nalso = nalso};
    err_clear(e);
    return ops->lane_apply(l, &run, 1, &m, &res, e);
}

static void marks_move_along(void) {
    struct err e = {0};
    struct lane *l = NULL, *l2 = NULL;
    const unsigned others[] = {0, 1, 3}, first[] = {1};
    kit_do("CREATE TABLE %s.t(id int primary key, v text)", kit_ns);
    shape = kit_shape(kit_ns, "t");
    ok(ops->bind(kit_t, shape, kit_ns, "t", &tt, &e) == 0 && write_route(4, 1, 100, "r", &e) == 0, "four lanes: %s", e.msg);
    ok(ops->lane_open(kit_t, &kit_st, 2, &l, &e) == 0 && ops->lane_open(kit_t, &kit_st, 0, &l2, &e) == 0, "two of them open: %s", e.msg);
    is_str(all_lanes(), "0:100:1 1:100:1 2:100:1 3:100:1", "opening moves nothing");
    ok(put(l, "1", 110, others, 3, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee", &e) == 0, "lane 2 applies for all: %s", e.msg);
    is_str(all_lanes(), "0:110:1 1:110:1 2:110:1 3:110:1", "all marks move");
    is_str(kit_rows("SELECT link_id || ':' || seq FROM %s.sluice_cdc_state", kit_ctl), "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee:110",
           "with the state row");
    ok(put(l, "2", 120, NULL, 0, NULL, &e) == 0 && put(l2, "3", 120, first, 1, NULL, &e) == 0, "each its own share: %s", e.msg);
    is_str(all_lanes(), "0:120:1 1:120:1 2:120:1 3:110:1", "moves its own marks");
    kit_do("UPDATE %s.sluice_cdc_lane SET seq = 500 WHERE lane = 3", kit_ctl);
    ok(put(l, "4", 130, others, 3, NULL, &e) == -1 && e.code == CODE_MARK_MISMATCH && strstr(e.msg, "lane 3") != NULL,
       "a mark that is ahead: %s", e.msg);
    kit_do("DELETE FROM %s.sluice_cdc_lane WHERE lane = 3", kit_ctl);
    ok(put(l, "4", 130, others, 3, NULL, &e) == -1 && e.code == CODE_FENCED, "a mark that is gone: %s", e.msg);
    kit_do("UPDATE %s.sluice_cdc_lane SET epoch = epoch + 1 WHERE lane = 1", kit_ctl);
    ok(put(l2, "5", 130, first, 1, NULL, &e) == -1 && e.code == CODE_FENCED, "a mark of another epoch: %s", e.msg);
    is_str(kit_rows("SELECT string_agg(id::text, ',' ORDER BY id) FROM %s.t", kit_ns), "1,2,3", "no row came in with them");
    ok(put(l, NULL, 130, NULL, 0, NULL, &e) == 0, "its own mark still moves: %s", e.msg);
    ok(ops->marks_clear(kit_t, &kit_st, &e) == 0, "cleared: %s", e.msg);
    is_str(kit_rows("SELECT (SELECT count(*) FROM %s.sluice_cdc_lane) + (SELECT count(*) FROM %s.sluice_cdc_route)", kit_ctl, kit_ctl), "0",
           "marks and routing are gone");
    ops->lane_close(l);
    ops->lane_close(l2);
    ops->unbind(tt);
    shape_free(shape);
}

int main(void) {
    if (kit_open("route") < 0) return 0;
    a_routing_and_its_marks();
    marks_move_along();
    return kit_close();
}
