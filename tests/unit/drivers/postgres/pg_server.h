/* A scratch database on the server of SLUICE_TEST_PG for one test program. */
#ifndef SLUICE_TESTS_PG_SERVER_H
#define SLUICE_TESTS_PG_SERVER_H

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PGconn *pgs_admin, *pgs_db;
static char pgs_name[64], pgs_dsn[1024];

/* The DSN of SLUICE_TEST_PG with another database and, unless NULL, user and password. */
__attribute__((unused)) static void pgs_make_dsn(char out[1024], const char *db, const char *user, const char *password) {
    PQconninfoOption *o = PQconninfoParse(getenv("SLUICE_TEST_PG"), NULL);
    size_t n = 0;
    for (PQconninfoOption *k = o; k != NULL && k->keyword != NULL; k++) {
        const char *v = strcmp(k->keyword, "dbname") == 0 ? db : user != NULL && strcmp(k->keyword, "user") == 0 ? user
                        : user != NULL && strcmp(k->keyword, "password") == 0 ? password : k->val;
        if (v != NULL) n += (size_t)snprintf(out + n, 1024 - n, "%s%s='%s'", n > 0 ? " " : "", k->keyword, v);
    }
    PQconninfoFree(o);
}

static int pgs_run(PGconn *c, const char *sql) {
    PGresult *r = PQexec(c, sql);
    int good = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    if (!good) printf("# %s\n# in: %s\n", PQerrorMessage(c), sql);
    PQclear(r);
    return good;
}
#define sql(text) pgs_run(pgs_db, (text))

/* First field of the first row, in a buffer that the next call reuses. */
__attribute__((unused)) static const char *sql_one(const char *text) {
    static char out[4096];
    PGresult *r = PQexec(pgs_db, text);
    snprintf(out, sizeof out, "%s", PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    return out;
}

/* 0 when there is no server to test on: the program prints its skip and ends. */
static int pgs_start(void) {
    const char *dsn = getenv("SLUICE_TEST_PG");
    char text[256];
    if (dsn == NULL || *dsn == 0) {
        printf("1..0 # SKIP SLUICE_TEST_PG is not set\n");
        return 0;
    }
    pgs_admin = PQconnectdb(dsn);
    if (PQstatus(pgs_admin) == CONNECTION_OK) /* of runs that died */
        pgs_run(pgs_admin, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database LIKE 'sluice\\_t\\_%'");
    snprintf(pgs_name, sizeof pgs_name, "sluice_t_%d", (int)getpid());
    snprintf(text, sizeof text, "CREATE DATABASE %s", pgs_name);
    if (PQstatus(pgs_admin) != CONNECTION_OK || !pgs_run(pgs_admin, text)) {
        printf("Bail out! no database: %s\n", PQerrorMessage(pgs_admin));
        exit(1);
    }
    pgs_make_dsn(pgs_dsn, pgs_name, NULL, NULL);
    pgs_db = PQconnectdb(pgs_dsn);
    PQclear(PQexec(pgs_db, "SET client_min_messages = warning"));
    return 1;
}

static void pgs_stop(void) {
    char text[256];
    snprintf(text, sizeof text, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '%s' AND NOT active", pgs_name);
    pgs_run(pgs_admin, text);
    PQfinish(pgs_db);
    snprintf(text, sizeof text, "DROP DATABASE %s%s", pgs_name, PQserverVersion(pgs_admin) >= 130000 ? " WITH (FORCE)" : "");
    pgs_run(pgs_admin, text);
    PQfinish(pgs_admin);
}

#endif
