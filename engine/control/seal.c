/* DESIGN: seals make a change of sealed history visible.
 *  1. A seal is SHA-256 over the hex text of the seal before it ("" for the first) and then, for each history row since, in order of id,
 *     each column in order of the table: `n,` for NULL, `i<decimal>,` for an integer, `t<bytes>:<text>,` for a text. Anybody can compute
 *     it again.
 *  2. Seals are written in the same transaction as the rows, by the engine only; rows that a shell wrote are sealed by the engine's next
 *     write.
 *  3. Rows after the last seal are protected by triggers alone. Somebody who rewrites rows and seals together is not shown. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/control/room.h"

static int hash_column(struct sha256 *h, sqlite3_stmt *s, int i, struct err *e) {
    char head[32];
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_NULL: return sha256_add(h, "n,", 2, e);
    case SQLITE_INTEGER:
        snprintf(head, sizeof head, "i%" PRId64 ",", (int64_t)sqlite3_column_int64(s, i));
        return sha256_add(h, head, strlen(head), e);
    default: break;
    }
    const unsigned char *p = sqlite3_column_text(s, i);
    int n = sqlite3_column_bytes(s, i);
    if (!p) return err_set(e, CODE_NO_MEMORY, "no memory to read history");
    snprintf(head, sizeof head, "t%d:", n);
    if (sha256_add(h, head, strlen(head), e) < 0 || sha256_add(h, p, (size_t)n, e) < 0) return -1;
    return sha256_add(h, ",", 1, e);
}

/* The seal over rows (after, upto] that follows `prev`. */
static int seal_compute(struct control *c, const char *prev, int64_t after, int64_t upto, char hex[65], int64_t *last, int64_t *rows,
                        struct err *e) {
    struct sha256 *h = NULL;
    unsigned char out[32];
    int rc = -1, more;
    sqlite3_stmt *s = stmt_get(c, "control/history_span", e);
    *rows = 0;
    *last = after;
    if (!s || !(h = sha256_new(e)) || sha256_add(h, prev, strlen(prev), e) < 0) goto out;
    stmt_int(c, s, ":after", after);
    stmt_int(c, s, ":upto", upto);
    while ((more = stmt_step(c, s, e)) > 0) {
        *last = sqlite3_column_int64(s, 0);
        ++*rows;
        for (int i = 0; i < sqlite3_column_count(s); i++)
            if (hash_column(h, s, i, e) < 0) goto out;
    }
    if (more < 0 || sha256_end(h, out, e) < 0) goto out;
    text_hex(out, sizeof out, hex);
    rc = 0;
out:
    stmt_end(s);
    sha256_free(h);
    return rc;
}

int seal_append(struct control *c, struct err *e) {
    char prev[65] = "", hex[65];
    int64_t after = 0, last, rows;
    sqlite3_stmt *s = stmt_get(c, "control/seal_last", e);
    if (!s) return -1;
    int rc = stmt_step(c, s, e);
    if (rc < 0) return -1;
    if (rc > 0) {
        after = sqlite3_column_int64(s, 1);
        snprintf(prev, sizeof prev, "%s", stmt_str(s, 2));
        bool any = sqlite3_column_int64(s, 3) > after;
        stmt_end(s);
        if (!any) return 0;
    }
    if (seal_compute(c, prev, after, INT64_MAX, hex, &last, &rows, e) < 0) return -1;
    if (rows == 0) return 0;
    if (!(s = stmt_get(c, "control/seal_insert", e))) return -1;
    stmt_int(c, s, ":upto", last);
    stmt_int(c, s, ":rows", rows);
    stmt_text(c, s, ":sha256", hex);
    return stmt_run(c, s, e);
}

int seal_verify(struct control *c, int64_t last_seals, struct buf *findings, size_t *n, struct err *e) {
    char prev[65] = "", hex[65];
    int64_t after = 0, last, rows;
    int rc = -1, more;
    sqlite3_stmt *s = stmt_get(c, "control/seals", e);
    if (!s) return -1;
    stmt_int(c, s, ":last", last_seals < INT64_MAX ? last_seals + 1 : INT64_MAX);
    while ((more = stmt_step(c, s, e)) > 0) {
        int64_t id = sqlite3_column_int64(s, 0), upto = sqlite3_column_int64(s, 1), sealed_rows = sqlite3_column_int64(s, 2);
        const char *sealed = stmt_str(s, 3);
        if (prev[0] || sqlite3_column_int(s, 4)) { /* else it only gives its text to the next */
            if (seal_compute(c, prev, after, upto, hex, &last, &rows, e) < 0) goto out;
            if ((strcmp(hex, sealed) != 0 || rows != sealed_rows || last != upto) &&
                finding_add(findings, n, e, "seal %" PRId64 " is broken: history rows %" PRId64 " to %" PRId64 " are not what was sealed",
                            id, after + 1, upto) < 0)
                goto out;
        }
        snprintf(prev, sizeof prev, "%s", sealed);
        after = upto;
    }
    rc = more;
out:
    stmt_end(s);
    return rc;
}
