/* A target as a role that is no superuser: what it needs, and what changes when it may not switch foreign keys off. */
#include "tests/unit/drivers/postgres/target_kit.h"

/* kit_dsn with another user. */
static char *dsn_of(const char *user, const char *password) {
    struct err e = {0};
    struct buf b = BUF_INIT(8192);
    PQconninfoOption *o = PQconninfo(kit_c);
    for (PQconninfoOption *k = o; k->keyword != NULL; k++) {
        const char *v = strcmp(k->keyword, "user") == 0 ? user : strcmp(k->keyword, "password") == 0 ? password : k->val;
        if (v == NULL || *v == 0 || strcmp(k->keyword, "replication") == 0) continue;
        buf_addf(&b, &e, "%s='%s' ", k->keyword, v);
    }
    PQconninfoFree(o);
    return buf_take(&b, NULL, &e);
}

static void works(const char *dsn, bool may_switch) {
    struct err e = {0};
    struct target *t = NULL;
    struct target_state st = kit_st;
    struct lane *l = NULL;
    struct loader *ld = NULL;
    struct target_table *tt = NULL, *ct = NULL;
    struct apply_result r;
    bool fk = false;
    char id[128];
    kit_do("DROP TABLE IF EXISTS %s.kid, %s.par; DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s; GRANT USAGE, CREATE ON SCHEMA %s TO sluice_tt", kit_ns, kit_ns, kit_ctl,
           kit_ctl, kit_ctl);
    kit_do("CREATE TABLE %s.par(id int primary key, u int unique deferrable initially deferred); CREATE TABLE %s.kid(id int primary key, pid int references %s.par)", kit_src, kit_src, kit_src);
    struct target_opts o = {.dsn = dsn, .control_schema = kit_ctl, .stream_id = "s1"};
    ok(ops->open(&o, &t, &e) == 0 && ops->control_ensure(t, &e) == 0 && ops->identity(t, id, &e) == 0, "control tables: %s", e.msg);
    st.epoch = 0;
    ok(ops->state_write(t, &st, &e) == 0 && ops->takeover(t, &st, &e) == 0, "taken over: %s", e.msg);
    struct shape *p = kit_shape(kit_src, "par"), *c = kit_shape(kit_src, "kid");
    int bad = ops->table_create(t, p, kit_ns, "par", &e) < 0 || ops->table_create(t, c, kit_ns, "kid", &e) < 0;
    for (int i = 0; i < 3 && !bad; i++) bad = ops->table_finish(t, p, kit_ns, "par", i, NULL, NULL, &e) < 0 || ops->table_finish(t, c, kit_ns, "kid", i, NULL, NULL, &e) < 0;
    ok(!bad, "tables: %s", e.msg);
    ok(ops->bind(t, p, kit_ns, "par", &tt, &e) == 0 && ops->bind(t, c, kit_ns, "kid", &ct, &e) == 0, "bound: %s", e.msg);
    ok(ops->loader_open(t, &st, &ld, &e) == 0 && ops->loader_begin(ld, tt, &e) == 0 && ops->loader_raw_put(ld, "1\t1\n2\t2\n", 8, &e) == 0 &&
           ops->loader_commit(ld, 1, 1, true, &e) == 0, "loaded: %s", e.msg);
    ok(ops->lane_open(t, &st, 0, &l, &e) == 0 && ops->lane_fk_enforced(l, &fk, &e) == 0 && fk == !may_switch, "foreign keys are %s", may_switch ? "off" : "enforced");
    struct mark m = {.epoch = st.epoch, .seq = 1};
    struct change *kid[1] = {kit_change(c, CHANGE_INSERT, IMAGE_NONE, NULL, ROW("1", "99"))}, *par[1] = {kit_change(p, CHANGE_INSERT, IMAGE_NONE, NULL, ROW("99", "99"))};
    struct run runs[2] = {{.kind = RUN_UPSERT, .table = ct, .changes = kid, .n = 1}, {.kind = RUN_UPSERT, .table = tt, .changes = par, .n = 1}};
    int rc = ops->lane_apply(l, runs, 2, &m, &r, &e);
    if (may_switch) ok(rc == 0, "a child may come first: %s", e.msg);
    else ok(rc == -1 && e.code == CODE_CONSTRAINT && strstr(e.msg, "kid_pid_fkey") != NULL, "a child without parent is refused: %s", e.msg);
    err_clear(&e);
    m.seq = 2;
    struct run ordered[2] = {runs[1], runs[0]};
    ok(ops->lane_apply(l, ordered, 2, &m, &r, &e) == 0, "parent first passes: %s", e.msg);
    struct change *a[1] = {kit_change(p, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "2"))}, *b[1] = {kit_change(p, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("2", "1"))};
    struct run swap[2] = {{.kind = RUN_UPDATE, .table = tt, .changes = a, .n = 1}, {.kind = RUN_UPDATE, .table = tt, .changes = b, .n = 1}};
    m.seq = 3;
    ok(ops->lane_apply(l, swap, 1, &m, &r, &e) == -1 && e.marker == MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT, "half a swap is refused at commit: %s", e.msg);
    err_clear(&e);
    ok(ops->lane_apply(l, swap, 2, &m, &r, &e) == 0, "the whole passes: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.par ORDER BY 1", kit_ns), "1|2 2|1 99|99", "as printed");
    ops->lane_close(l);
    ops->loader_close(ld);
    ops->unbind(tt);
    ops->unbind(ct);
    shape_free(p);
    shape_free(c);
    ops->close(t);
    kit_do("DROP TABLE %s.kid, %s.par", kit_src, kit_src);
}

int main(void) {
    struct err e = {0};
    struct target *t = NULL;
    if (kit_open("plain") < 0) return 0;
    kit_do("DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'sluice_tt') THEN CREATE ROLE sluice_tt LOGIN PASSWORD 'plain'; END IF; END $$");
    char *dsn = dsn_of("sluice_tt", "plain");
    struct target_opts o = {.dsn = dsn, .control_schema = kit_ctl, .stream_id = "s1"};
    ops->close(kit_t);
    kit_do("DROP SCHEMA %s CASCADE; CREATE SCHEMA %s", kit_ctl, kit_ctl);
    ok(ops->open(&o, &t, &e) == 0 && ops->control_ensure(t, &e) == -1 && e.code == CODE_PRIVILEGE && strstr(e.hint, "GRANT CREATE") != NULL && strstr(e.hint, "sluice_tt") != NULL,
       "without a right to the schema the GRANT is named: %s; %s", e.msg, e.hint);
    ops->close(t);
    kit_do("GRANT USAGE, CREATE ON SCHEMA %s TO sluice_tt; GRANT USAGE ON SCHEMA %s TO sluice_tt", kit_ns, kit_src);
    works(dsn, false);
    if (pg_version(kit_c) >= 150000) {
        kit_do("GRANT SET ON PARAMETER session_replication_role TO sluice_tt");
        works(dsn, true);
        kit_do("REVOKE SET ON PARAMETER session_replication_role FROM sluice_tt");
    }
    kit_do("DROP OWNED BY sluice_tt; DROP ROLE sluice_tt");
    mem_free(dsn);
    kit_t = NULL;
    return kit_close();
}
