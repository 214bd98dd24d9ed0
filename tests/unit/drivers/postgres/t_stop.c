/* A stop ends the long wait for a slot, and leaves nothing behind. Needs SLUICE_TEST_PG. */
#include <pthread.h>

#include "drivers/postgres/pg.h"
#include "engine/base/clock.h"
#include "engine/base/stop.h"
#include "tests/tap.h"
#include "tests/unit/drivers/postgres/pg_server.h"

/* Ask for the stop once the server is at work on the slot. */
static void *asker(void *arg) {
    PGconn *c = PQconnectdb(pgs_dsn);
    for (int64_t end = clock_mono_us() + 20 * INT64_C(1000000); clock_mono_us() < end;) {
        PGresult *r = PQexec(c, "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'stop_slot' AND active");
        bool there = PQntuples(r) == 1;
        PQclear(r);
        if (there) break;
    }
    stop_ask();
    PQfinish(c);
    return arg;
}

int main(void) {
    const struct source_ops *P = &postgres_source_ops;
    struct source_opts o = {.slot_name = "stop_slot"};
    struct source *s = NULL;
    struct catalog *c = NULL;
    struct snapshot *snap = NULL;
    struct pos p;
    struct err e = {0};
    pthread_t t;
    if (!pgs_start()) return 0;
    stop_install();
    sql("CREATE TABLE t(id int PRIMARY KEY)");
    o.dsn = pgs_dsn;
    PGconn *other = PQconnectdb(pgs_dsn);
    pgs_run(other, "BEGIN; SELECT txid_current()"); /* the slot waits for its end */
    ok(P->open(&o, &s, &e) == 0 && P->catalog(s, true, &c, &e) == 0, "the source is open");
    pthread_create(&t, NULL, asker, NULL);
    int rc = P->anchor(s, c, &p, &snap, &e);
    pthread_join(t, NULL);
    ok(rc == -1 && e.code == CODE_INTERRUPTED && snap == NULL, "a stop ends the wait: %s", e.msg);
    pgs_run(other, "ROLLBACK");
    PQfinish(other);
    bool gone = false;
    for (int64_t end = clock_mono_us() + 20 * INT64_C(1000000); !gone && clock_mono_us() < end;)
        gone = strcmp(sql_one("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'stop_slot'"), "0") == 0;
    ok(gone, "and no slot stays");
    catalog_free(c);
    P->close(s);
    pgs_stop();
    return done_testing();
}
