/* A control DB in a folder of its own, and raw SQL beside it as a shell would run it. */
#ifndef SLUICE_TESTS_CONTROL_HELP_H
#define SLUICE_TESTS_CONTROL_HELP_H

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/control/control.h"
#include "engine/control/room.h"
#include "tests/tap.h"

static char help_dir[256], help_path[300];

__attribute__((unused)) static void help_begin(void) {
    snprintf(help_dir, sizeof help_dir, "%s/sluice-control-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(help_dir)) {
        perror("mkdtemp");
        exit(1);
    }
    snprintf(help_path, sizeof help_path, "%s/control.db", help_dir);
}

/* Another file in the same folder from now on. */
__attribute__((unused)) static void help_file(const char *name) {
    snprintf(help_path, sizeof help_path, "%.255s/%.40s", help_dir, name);
}

__attribute__((unused)) static void help_end(void) {
    char cmd[400];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", help_dir);
    if (system(cmd) != 0) note("left behind: %s", help_dir);
}

__attribute__((unused)) static struct control *help_open(struct err *e) {
    struct control *c = NULL;
    struct control_opts o = {.path = help_path, .actor = "test", .wait_us = 5000000};
    err_clear(e);
    control_open(&o, &c, e);
    return c;
}

__attribute__((unused)) static struct control *help_inspect(struct err *e) {
    struct control *c = NULL;
    struct control_opts o = {.path = help_path, .actor = "test", .inspect = true};
    err_clear(e);
    control_open(&o, &c, e);
    return c;
}

/* As the plain shell: foreign keys and recursive triggers off, none of our functions. NULL on success, else the message (static). */
__attribute__((unused)) static const char *shell(const char *sql) {
    static char msg[512];
    sqlite3 *db = NULL;
    char *err = NULL;
    sqlite3_open(help_path, &db);
    sqlite3_busy_timeout(db, 2000);
    int rc = sqlite3_exec(db, sql, NULL, NULL, &err);
    snprintf(msg, sizeof msg, "%s", err ? err : "");
    sqlite3_free(err);
    sqlite3_close(db);
    return rc == SQLITE_OK ? NULL : msg;
}

/* First column of the first row as text (static), "" when there is none. */
__attribute__((unused)) static const char *one(const char *sql) {
    static char text[4][4096];
    static int at;
    char *out = text[at++ & 3];
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    out[0] = 0;
    sqlite3_open(help_path, &db);
    sqlite3_busy_timeout(db, 2000);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK) snprintf(out, 4096, "error: %s", sqlite3_errmsg(db));
    else if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0)) snprintf(out, 4096, "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    sqlite3_close(db);
    return out;
}

__attribute__((unused)) static void put_broker(struct control *c, const char *name, struct entity *en) {
    struct err e = {0};
    memset(en, 0, sizeof *en);
    snprintf(en->kind, sizeof en->kind, "broker");
    snprintf(en->name, sizeof en->name, "%s", name);
    ok(entity_put(c, en, &e) == 0, "broker '%s' is put: %s", name, e.msg);
}

#endif
