/* DESIGN: what cannot be prevented is noticed.
 *  1. Each open makes the schema anew in memory from the migrations and compares text by text: our tables, indexes, views and triggers,
 *     and the rows that only migrations write (meta, marker, state, transition).
 *  2. An operator's own tables, views and indexes are welcome. A trigger on a table of ours, or a unique index (it could make a history
 *     row fail), is not.
 *  3. control_check goes further: every seal (an open: the last 256), every reference, every entity against its history, the file's own
 *     integrity. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/control/room.h"

int finding_add(struct buf *findings, size_t *n, struct err *e, const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    ++*n;
    return buf_addf(findings, e, "%s\n", line);
}

static int prepare(struct control *c, const char *sql, sqlite3_stmt **s, struct err *e) {
    int rc = sqlite3_prepare_v2(c->db, sql, -1, s, NULL);
    return rc == SQLITE_OK ? 0 : db_fail(c, rc, e, "cannot read the schema");
}

static int bind(struct control *c, sqlite3_stmt *s, const char *name, const char *v, struct err *e) {
    int rc = sqlite3_bind_text(s, sqlite3_bind_parameter_index(s, name), v, -1, SQLITE_STATIC);
    return rc == SQLITE_OK ? 0 : db_fail(c, rc, e, "cannot bind '%s'", name);
}

/* Each object that the migrations make: there, and with the same text. */
static int check_ours(struct control *c, struct control *want, struct buf *findings, size_t *n, struct err *e) {
    sqlite3_stmt *w = NULL, *h = NULL;
    int rc = -1, src;
    if (prepare(want, embed_sql("control/schema_made"), &w, e) < 0 || prepare(c, embed_sql("control/schema_object"), &h, e) < 0) goto out;
    while ((src = sqlite3_step(w)) == SQLITE_ROW) {
        const char *type = stmt_str(w, 0), *name = stmt_str(w, 1);
        if (bind(c, h, ":type", type, e) < 0 || bind(c, h, ":name", name, e) < 0) goto out;
        int hrc = sqlite3_step(h);
        if (hrc == SQLITE_DONE) {
            if (finding_add(findings, n, e, "%s '%s' is missing", type, name) < 0) goto out;
        } else if (hrc != SQLITE_ROW) {
            db_fail(c, hrc, e, "cannot read the schema");
            goto out;
        } else if (strcmp(stmt_str(h, 0), stmt_str(w, 2)) != 0) {
            if (finding_add(findings, n, e, "%s '%s' was altered", type, name) < 0) goto out;
        }
        sqlite3_reset(h);
    }
    rc = src == SQLITE_DONE ? 0 : db_fail(want, src, e, "cannot read the scratch DB");
out:
    sqlite3_finalize(w);
    sqlite3_finalize(h);
    return rc;
}

/* Triggers and unique indexes on ours that the migrations do not make. */
static int check_extra(struct control *c, struct control *want, struct buf *findings, size_t *n, struct err *e) {
    sqlite3_stmt *h = NULL, *w = NULL;
    int rc = -1, src;
    if (prepare(c, embed_sql("control/schema_suspects"), &h, e) < 0 || prepare(want, embed_sql("control/schema_extra"), &w, e) < 0)
        goto out;
    while ((src = sqlite3_step(h)) == SQLITE_ROW) {
        if (bind(want, w, ":name", stmt_str(h, 1), e) < 0 || bind(want, w, ":on_table", stmt_str(h, 2), e) < 0) goto out;
        int wrc = sqlite3_step(w);
        if (wrc != SQLITE_ROW) {
            db_fail(want, wrc, e, "cannot read the scratch DB");
            goto out;
        }
        bool extra = sqlite3_column_int(w, 0) != 0;
        sqlite3_reset(w);
        if (extra && finding_add(findings, n, e, "%s '%s' on '%s' is not one of ours", stmt_str(h, 0), stmt_str(h, 1), stmt_str(h, 2)) < 0)
            goto out;
    }
    rc = src == SQLITE_DONE ? 0 : db_fail(c, src, e, "cannot read the schema");
out:
    sqlite3_finalize(h);
    sqlite3_finalize(w);
    return rc;
}

static bool same_row(sqlite3_stmt *a, sqlite3_stmt *b) {
    for (int i = 0; i < sqlite3_column_count(a); i++)
        if (sqlite3_column_type(a, i) != sqlite3_column_type(b, i) || strcmp(stmt_str(a, i), stmt_str(b, i)) != 0) return false;
    return true;
}

static int check_rows(struct control *c, struct control *want, struct buf *findings, size_t *n, struct err *e) {
    static const struct {
        const char *table, *name;
    } guarded[] = {
        {"meta", "control/rows_meta"},
        {"marker", "control/rows_marker"},
        {"state", "control/rows_state"},
        {"transition", "control/rows_transition"},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(guarded); i++) {
        sqlite3_stmt *a = NULL, *b = NULL;
        int ra = SQLITE_ERROR, rb = SQLITE_ERROR;
        bool same = true;
        if (prepare(c, embed_sql(guarded[i].name), &a, e) == 0 && prepare(want, embed_sql(guarded[i].name), &b, e) == 0) do {
                ra = sqlite3_step(a);
                rb = sqlite3_step(b);
                same = ra == rb && (ra != SQLITE_ROW || same_row(a, b));
            } while (same && ra == SQLITE_ROW);
        bool failed = (ra != SQLITE_ROW && ra != SQLITE_DONE) || (rb != SQLITE_ROW && rb != SQLITE_DONE);
        if (failed && e->class == ERR_NONE) db_fail(c, ra, e, "cannot read '%s'", guarded[i].table);
        sqlite3_finalize(a);
        sqlite3_finalize(b);
        if (failed) return -1;
        if (!same && finding_add(findings, n, e, "rows of table '%s' were changed", guarded[i].table) < 0) return -1;
    }
    return 0;
}

int tamper_check(struct control *c, const struct migration *list, size_t n, int version, bool rows, struct buf *findings, size_t *found,
                 struct err *e) {
    struct control *want = NULL;
    int rc = -1;
    if (migrate_scratch(list, n, version, &want, e) < 0) goto out;
    size_t before = *found;
    if (check_ours(c, want, findings, found, e) < 0 || check_extra(c, want, findings, found, e) < 0) goto out;
    /* A table that is gone or altered cannot be read as ours. */
    if (rows && *found == before && check_rows(c, want, findings, found, e) < 0) goto out;
    rc = 0;
out:
    control_close(want);
    return rc;
}

/* One finding per row of a query that gives one text. */
static int check_query(struct control *c, const char *name, struct buf *findings, size_t *n, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, name, e);
    int more;
    if (!s) return -1;
    while ((more = stmt_step(c, s, e)) > 0)
        if (finding_add(findings, n, e, "%s", stmt_str(s, 0)) < 0) {
            more = -1;
            break;
        }
    stmt_end(s);
    return more;
}

int control_check(struct control *c, struct buf *findings, size_t *nfindings, struct err *e) {
    static const char *const queries[] = {
        "control/check_integrity", "control/check_foreign_keys", "control/check_states", "control/check_recorded",
        "control/check_moves",     "control/check_edges",        "control/check_sealed",
    };
    struct migration list[64];
    size_t n = 0;
    int version, r, w, rc = -1;
    struct txn t;
    *nfindings = 0;
    if (migration_list(list, MEM_ARRAY_LEN(list), &n, e) < 0 || txn_begin(&t, c, TXN_READ, e) < 0) return -1;
    if (control_version(c, &version, &r, &w, e) < 0) goto out;
    if (version > (int)n) {
        err_set(e, CODE_CONTROL_NEWER, "the control DB '%s' was migrated by a newer sluice (version %d, this one knows %zu)", c->path,
                version, n);
        goto out;
    }
    if (tamper_check(c, list, n, version, version == (int)n, findings, nfindings, e) < 0) goto out;
    for (size_t i = 0; i < MEM_ARRAY_LEN(queries); i++) {
        struct err q = {0};
        if (check_query(c, queries[i], findings, nfindings, &q) == 0) continue;
        /* With an altered table a query of ours may not even prepare: that is a finding, not a failure. */
        if (q.code != CODE_CONTROL || finding_add(findings, nfindings, e, "%s: %s", queries[i] + strlen("control/"), q.msg) < 0) {
            if (e->class == ERR_NONE) *e = q;
            goto out;
        }
    }
    struct err q = {0};
    if (seal_verify(c, INT64_MAX, findings, nfindings, &q) < 0 &&
        (q.code != CODE_CONTROL || finding_add(findings, nfindings, e, "seals cannot be verified: %s", q.msg) < 0)) {
        if (e->class == ERR_NONE) *e = q;
        goto out;
    }
    rc = 0;
out:
    return txn_end(&t, rc, e);
}
