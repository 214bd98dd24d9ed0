/* State, takeover, fencing, marks and bulk load on a real server. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/drivers/postgres/target_kit.h"

static void state_is_kept_and_fenced(void) {
    struct err e = {0};
    struct target_state st = kit_st, got;
    bool found = false;
    snprintf(st.link_id, sizeof st.link_id, "%s", "aabbccddeeff00112233445566778899aabbccdd");
    st.seq = 77;
    snprintf(st.detail, sizeof st.detail, "{\"at\":1}");
    ok(ops->state_write(kit_t, &st, &e) == 0, "the row is updated in its epoch");
    ok(ops->state_read(kit_t, "s1", &got, &found, &e) == 0 && found, "and read back");
    ok(got.seq == 77 && strcmp(got.link_id, st.link_id) == 0 && strcmp(got.detail, st.detail) == 0 && got.epoch == 1 && got.format == 1, "with everything in it");
    ok(got.updated_us > 0 && got.updated_us == st.updated_us, "and its time");
    st.epoch = 0;
    ok(ops->state_write(kit_t, &st, &e) == -1 && e.code == CODE_FENCED && e.class == ERR_REFUSE, "an older epoch is refused");
    err_clear(&e);
    ok(ops->stop_request(kit_t, "s1", 1790000000123456, &e) == 0 && ops->state_read(kit_t, "s1", &got, &found, &e) == 0 && got.stop_requested_us == 1790000000123456,
       "a stop request keeps its microseconds");
    st = got;
    ok(ops->state_write(kit_t, &st, &e) == 0 && ops->state_read(kit_t, "s1", &got, &found, &e) == 0 && got.stop_requested_us != 0, "and writing the state leaves it");
    ok(ops->stop_request(kit_t, "s1", 0, &e) == 0 && ops->state_read(kit_t, "s1", &got, &found, &e) == 0 && got.stop_requested_us == 0, "until it is cleared");
    ok(ops->stop_request(kit_t, "nobody", 1, &e) == -1 && e.code == CODE_STREAM_UNKNOWN, "a stop for an unknown stream is refused");
    err_clear(&e);
    ok(ops->state_read(kit_t, "S1", &got, &found, &e) == 0 && !found, "stream ids are compared bytewise");
    struct target_state *all;
    size_t n;
    ok(ops->state_list(kit_t, kit_a, &all, &n, &e) == 0 && n == 1 && strcmp(all[0].stream_id, "s1") == 0, "and all streams are listed");
    struct target_opts o = {.dsn = kit_dsn, .control_schema = "tc_nowhere", .stream_id = NULL};
    struct target *t = NULL;
    ok(ops->open(&o, &t, &e) == 0 && ops->state_read(t, "s1", &got, &found, &e) == 0 && !found, "without control tables there is no state");
    n = 4;
    uint64_t lanes[4];
    ok(ops->state_list(t, kit_a, &all, &n, &e) == 0 && n == 0, "and no stream");
    n = 4;
    ok(ops->marks_read(t, "s1", lanes, &n, &e) == 0 && n == 0, "and no mark");
    ops->close(t);
    char id[128];
    ok(ops->identity(kit_t, id, &e) == 0 && strncmp(id, "postgres:", 9) == 0 && strlen(id) > 20, "the target knows who it is");
    is_str(ops->default_ns(kit_t), "public", "the DSN's default namespace");
    char dsn[600];
    snprintf(dsn, sizeof dsn, "%s%soptions=-csearch_path%%3D%s", kit_dsn, strchr(kit_dsn, '?') ? "&" : "?", kit_ns);
    if (strstr(kit_dsn, "://") == NULL) snprintf(dsn, sizeof dsn, "%s options='-csearch_path=%s'", kit_dsn, kit_ns);
    o = (struct target_opts){.dsn = dsn, .control_schema = NULL, .stream_id = NULL};
    ok(ops->open(&o, &t, &e) == 0 && strcmp(ops->default_ns(t), kit_ns) == 0, "a search_path in the DSN decides it");
    ops->close(t);
}

static void a_look_changes_nothing(void) {
    struct err e = {0};
    struct target *t = NULL;
    struct target_opts o = {.dsn = kit_dsn, .control_schema = "tc_looked", .look = true};
    struct target_state got;
    bool found = true;
    ok(ops->open(&o, &t, &e) == 0 && ops->state_read(t, "s1", &got, &found, &e) == 0 && !found, "a dry run reads: %s", e.msg);
    ok(ops->control_ensure(t, &e) == -1, "and cannot write: %s", e.msg);
    is_str(kit_rows("SELECT count(*) FROM pg_namespace WHERE nspname = 'tc_looked'"), "0", "nothing was made");
    ops->close(t);
}

static void a_newer_format_is_refused(void) {
    struct err e = {0};
    kit_do("UPDATE %s.sluice_cdc_meta SET format = 2", kit_ctl);
    ok(ops->control_ensure(kit_t, &e) == -1 && e.code == CODE_FORMAT_UNSUPPORTED, "control tables of a newer sluice are refused");
    kit_do("UPDATE %s.sluice_cdc_meta SET format = 1", kit_ctl);
    kit_do("DROP TABLE %s.sluice_cdc_route", kit_ctl);
    err_clear(&e);
    ok(ops->control_ensure(kit_t, &e) == 0, "what is missing is made");
    is_str(kit_rows("SELECT count(*) FROM %s.sluice_cdc_route", kit_ctl), "0", "and there");
}

static void takeover_fences_lanes_and_loaders(void) {
    struct err e = {0};
    struct lane *l = NULL;
    struct loader *ld = NULL;
    struct shape *s;
    struct target_table *tt = NULL;
    struct apply_result r;
    kit_do("CREATE TABLE %s.f(id int primary key, v text)", kit_ns);
    s = kit_shape(kit_ns, "f");
    ok(ops->bind(kit_t, s, kit_ns, "f", &tt, &e) == 0, "bound: %s", e.msg);
    ok(ops->lane_open(kit_t, &kit_st, 0, &l, &e) == 0, "lane: %s", e.msg);
    ok(ops->loader_open(kit_t, &kit_st, &ld, &e) == 0, "loader: %s", e.msg);
    struct change *c[1] = {kit_change(s, CHANGE_INSERT, IMAGE_NONE, NULL, ROW("1", "a"))};
    ok(kit_apply1(l, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == 0 && r.rows == 1, "the lane applies: %s", e.msg);
    uint64_t lanes[4];
    size_t n = 4;
    ok(ops->marks_read(kit_t, "s1", lanes, &n, &e) == 0 && n == 1 && lanes[0] == kit_seq, "its mark moved with the row");

    /* another process holds the stream politely */
    struct target_opts o = {.dsn = kit_dsn, .control_schema = kit_ctl, .stream_id = "s1"};
    struct target *t2 = NULL;
    struct target_state st2 = kit_st;
    ok(ops->open(&o, &t2, &e) == 0, "a second process");
    ok(ops->takeover(t2, &st2, &e) == -1 && e.code == CODE_FENCED && strstr(e.hint, "pg_terminate_backend(") != NULL, "is told who runs the stream: %s", e.msg);
    err_clear(&e);
    kit_do("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1936487780");
    ok(ops->takeover(t2, &st2, &e) == 0 && st2.epoch == kit_st.epoch + 1, "and takes over when that one is gone: %s", e.msg);
    c[0] = kit_change(s, CHANGE_INSERT, IMAGE_NONE, NULL, ROW("2", "b"));
    ok(kit_apply1(l, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_FENCED, "the old lane is fenced: %s", e.msg);
    ok(ops->loader_begin(ld, tt, &e) == -1 && e.code == CODE_FENCED, "and the old loader");
    is_str(kit_rows("SELECT * FROM %s.f ORDER BY 1", kit_ns), "1|a", "nothing of theirs came in");
    struct lane *l2 = NULL;
    ok(ops->lane_open(t2, &kit_st, 0, &l2, &e) == -1 && e.code == CODE_FENCED, "nor can a lane be opened in the old epoch");
    err_clear(&e);
    ok(ops->marks_clear(t2, &kit_st, &e) == -1 && e.code == CODE_FENCED, "nor marks be cleared");
    err_clear(&e);
    ok(ops->lane_open(t2, &st2, 0, &l2, &e) == 0, "the new epoch opens its lane");
    struct mark m = {.epoch = st2.epoch, .seq = 0};
    struct run none = {.kind = RUN_UPSERT, .table = tt};
    ok(ops->lane_apply(l2, &none, 1, &m, &r, &e) == -1 && e.code == CODE_MARK_MISMATCH && e.marker == MARKER_APPLY_MARK_MISMATCH, "a mark never goes back: %s", e.msg);
    err_clear(&e);
    kit_seq++;
    m = (struct mark){.epoch = st2.epoch, .seq = kit_seq, .link_id = "ffffffffffffffffffffffffffffffffffffffff", .state_seq = kit_seq};
    ok(ops->lane_apply(l2, &none, 1, &m, &r, &e) == 0, "a window that ends a link: %s", e.msg);
    bool found;
    ok(ops->state_read(t2, "s1", &st2, &found, &e) == 0 && st2.seq == kit_seq && st2.link_id[0] == 'f', "moves the state row in the same transaction");
    ok(ops->marks_clear(t2, &st2, &e) == 0, "marks are cleared in the epoch");
    n = 4;
    ok(ops->marks_read(t2, "s1", lanes, &n, &e) == 0 && n == 0, "and are gone");
    ops->lane_close(l);
    ops->lane_close(l2);
    ops->loader_close(ld);
    ops->unbind(tt);
    shape_free(s);
    ops->close(kit_t);
    kit_t = t2;
    kit_st = st2;
}

static atomic_int taken;
static struct target_state taken_st;
static void *take(void *arg) {
    struct err e = {0};
    taken = ops->takeover(arg, &taken_st, &e) == 0 ? 1 : -1;
    return NULL;
}

/* A lane's or loader's transaction that is in flight ends before a takeover does, and never after it. */
static void takeover_waits_for_what_is_in_flight(const char *claim, bool loader) {
    pthread_t th;
    struct lane *l = NULL;
    struct err e = {0};
    taken = 0;
    taken_st = kit_st;
    ok(ops->lane_open(kit_t, &kit_st, 0, &l, &e) == 0, "a lane's row: %s", e.msg);
    kit_do("BEGIN");
    if (loader) kit_do("SELECT 1 FROM %s.sluice_cdc_state FOR KEY SHARE", kit_ctl);
    else kit_do("UPDATE %s.sluice_cdc_lane SET seq = seq", kit_ctl);
    pthread_create(&th, NULL, take, kit_t);
    while (taken == 0 && strcmp(kit_rows("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND query LIKE '%%sluice_cdc%%'"), "0") == 0)
        kit_do("SELECT pg_stat_clear_snapshot()");
    ok(taken == 0, "%s: takeover waits", claim);
    kit_do("COMMIT");
    pthread_join(th, NULL);
    ok(taken == 1 && taken_st.epoch == kit_st.epoch + 1, "and goes on when it has ended");
    kit_st = taken_st;
    is_str(kit_rows("SELECT count(*) FROM %s.sluice_cdc_lane WHERE epoch <> %llu", kit_ctl, (unsigned long long)kit_st.epoch), "0", "every lane is in the new epoch");
    ops->lane_close(l);
}

static void load_values(void) {
    struct err e = {0};
    struct loader *l = NULL;
    struct target_table *tt = NULL;
    uint64_t chunks = 9;
    bool whole = true;
    kit_do("CREATE TABLE %s.l(id bigint generated always as identity primary key, t text, b bytea, g int generated always as (length(t)) stored, j json, f bool)", kit_ns);
    struct shape *s = kit_shape(kit_ns, "l");
    ok(ops->bind(kit_t, s, kit_ns, "l", &tt, &e) == 0, "bound: %s", e.msg);
    ok(ops->loader_open(kit_t, &kit_st, &l, &e) == 0, "loader");
    ok(ops->loader_raw(l, tt, ROWS_COPY_TEXT) && !ops->loader_raw(l, tt, ROWS_VALUES), "COPY text of the same engine goes in as it is");
    ok(ops->loader_done(l, 5, &chunks, &whole, &e) == 0 && chunks == 0 && !whole, "nothing loaded yet");
    ok(ops->loader_begin(l, tt, &e) == 0, "begin: %s", e.msg);
    struct value *v = kit_values(6, ROW("7", "tab\there\\and\nline", "\\xdeadbeef", "~", "{\"a\": 1}", "t"));
    ok(ops->loader_rows(l, v, 1, &e) == 0, "rows: %s", e.msg);
    v[0] = (struct value){"8", 1, VALUE_TEXT};
    v[1].kind = VALUE_NULL;
    v[2] = (struct value){"\0\1", 2, VALUE_BYTES};
    ok(ops->loader_rows(l, v, 1, &e) == 0 && ops->loader_commit(l, 5, 1, false, &e) == 0, "commit: %s", e.msg);
    is_str(kit_rows("SELECT id, quote_nullable(t), b, g, j, f FROM %s.l ORDER BY 1", kit_ns),
           "7|E'tab\there\\\\and\nline'|\\xdeadbeef|17|{\"a\": 1}|t 8|NULL|\\x0001|NULL|{\"a\": 1}|t", "every value as it was, generated ones computed");
    ok(ops->loader_done(l, 5, &chunks, &whole, &e) == 0 && chunks == 1 && !whole, "the chunk is marked");
    ok(ops->loader_begin(l, tt, &e) == 0 && ops->loader_raw_put(l, "9\ta\\tb\t\\N\t\\N\tf\n", 15, &e) == 0, "raw: %s", e.msg);
    ok(ops->loader_commit(l, 5, 2, true, &e) == 0, "commit: %s", e.msg);
    is_str(kit_rows("SELECT id, t FROM %s.l WHERE id = 9", kit_ns), "9|a\tb", "raw rows in");
    /* a duplicate: refused by name, nothing kept, usable after */
    ok(ops->loader_begin(l, tt, &e) == 0 && ops->loader_raw_put(l, "9\tx\t\\N\t\\N\tf\n", 12, &e) == 0 && ops->loader_commit(l, 5, 3, true, &e) == -1 &&
           e.code == CODE_UNIQUE_CONFLICT && strstr(e.msg, "l_pkey") != NULL, "a double key: %s", e.msg);
    err_clear(&e);
    ok(ops->loader_done(l, 5, &chunks, &whole, &e) == 0 && chunks == 2 && whole, "the marks stayed");
    v[1] = (struct value){"a\0b", 3, VALUE_TEXT};
    ok(ops->loader_begin(l, tt, &e) == 0 && ops->loader_rows(l, v, 1, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && strstr(e.msg, "column 't'") != NULL,
       "a NUL in a text is refused: %s", e.msg);
    err_clear(&e);
    /* a kill in the middle of a chunk */
    v[1] = (struct value){"x", 1, VALUE_TEXT};
    v[0] = (struct value){"100", 3, VALUE_TEXT};
    ok(ops->loader_begin(l, tt, &e) == 0 && ops->loader_rows(l, v, 1, &e) == 0, "another chunk begins: %s", e.msg);
    ops->loader_close(l);
    is_str(kit_rows("SELECT count(*) FROM %s.l", kit_ns), "3", "what was not committed is not there");
    bool any = false;
    ok(ops->table_has_rows(kit_t, kit_ns, "l", &any, &e) == 0 && any, "the table has rows");
    ops->unbind(tt);
    shape_free(s);
}

int main(void) {
    if (kit_open("state") < 0) return 0;
    state_is_kept_and_fenced();
    a_look_changes_nothing();
    a_newer_format_is_refused();
    takeover_fences_lanes_and_loaders();
    takeover_waits_for_what_is_in_flight("a lane", false);
    takeover_waits_for_what_is_in_flight("a loader", true);
    load_values();
    return kit_close();
}
