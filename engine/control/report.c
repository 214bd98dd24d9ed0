/* DESIGN: rows for people and programs.
 *  1. A report is a named statement and its rows, printed on stdout: an aligned table, a JSON array of objects, or CSV (RFC 4180, with a
 *     header).
 *  2. Memory is bounded: a table's widths come from its first rows (up to 4 MiB of them), later rows are streamed.
 *  3. JSON and CSV carry values exactly; a table shows control characters escaped, so that a value cannot forge a row. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/embed.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/control/room.h"

#define COLUMNS 64
#define HELD_BYTES MiB(4)

static int put_out(struct buf *b, struct err *e) {
    if (b->n && fwrite(b->p, 1, b->n, stdout) != b->n) return err_set(e, CODE_IO, "cannot write to the standard output");
    buf_reset(b);
    return 0;
}

/* Columns that one code point takes on a terminal. */
static int width_of(unsigned cp) {
    if (cp == 0 || (cp >= 0x300 && cp <= 0x36f) || (cp >= 0x200b && cp <= 0x200f) || (cp >= 0xfe00 && cp <= 0xfe0f)) return 0;
    bool wide = (cp >= 0x1100 && cp <= 0x115f) || (cp >= 0x2e80 && cp <= 0xa4cf) || (cp >= 0xac00 && cp <= 0xd7a3) ||
                (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0xfe30 && cp <= 0xfe6f) || (cp >= 0xff00 && cp <= 0xff60) ||
                (cp >= 0xffe0 && cp <= 0xffe6) || (cp >= 0x1f300 && cp <= 0x1faff) || (cp >= 0x20000 && cp <= 0x3fffd);
    return wide ? 2 : 1;
}

static size_t display_width(const char *p, size_t n) {
    size_t w = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)p[i];
        size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        unsigned cp = len == 1 ? c : c & (0xffu >> (len + 1));
        for (size_t k = 1; k < len && i + k < n; k++)
            cp = cp << 6 | ((unsigned char)p[i + k] & 0x3f);
        w += (size_t)width_of(cp);
        i += len;
    }
    return w;
}

/* A value as a table cell: printable UTF-8. */
static int cell(struct buf *b, sqlite3_stmt *s, int i, struct err *e) {
    int type = sqlite3_column_type(s, i);
    if (type == SQLITE_NULL) return 0;
    const char *p = type == SQLITE_BLOB ? sqlite3_column_blob(s, i) : (const char *)sqlite3_column_text(s, i);
    size_t n = (size_t)sqlite3_column_bytes(s, i);
    if (!p && n) return err_set(e, CODE_NO_MEMORY, "no memory for a report's value");
    if (type == SQLITE_BLOB || !text_utf8_valid(p ? p : "", n)) {
        if (buf_adds(b, "x'", e) < 0) return -1;
        for (size_t k = 0; k < n; k++)
            if (buf_addf(b, e, "%02x", (unsigned char)p[k]) < 0) return -1;
        return buf_addc(b, '\'', e);
    }
    for (size_t k = 0; k < n; k++) {
        unsigned char c = (unsigned char)p[k];
        int rc = c == '\n'            ? buf_adds(b, "\\n", e)
                 : c == '\t'          ? buf_adds(b, "\\t", e)
                 : c < 32 || c == 127 ? buf_addf(b, e, "\\x%02x", c)
                                      : buf_addc(b, (char)c, e);
        if (rc < 0) return -1;
    }
    return 0;
}

static int pad(struct buf *b, const char *p, size_t n, size_t width, bool right, bool last, struct err *e) {
    size_t w = display_width(p, n), gap = w < width ? width - w : 0;
    if (right)
        for (; gap; gap--)
            if (buf_addc(b, ' ', e) < 0) return -1;
    if (buf_add(b, p, n, e) < 0) return -1;
    if (last) return buf_addc(b, '\n', e);
    for (gap += 2; gap; gap--)
        if (buf_addc(b, ' ', e) < 0) return -1;
    return 0;
}

/* Held rows are lenstr cells, ncols a row. */
static int print_held(struct buf *held, int ncols, const size_t *width, const bool *right, struct err *e) {
    struct buf out = BUF_INIT(HELD_BYTES);
    struct rd r = RD(held->p, held->n);
    int rc = -1;
    while (held->p && RD_LEFT(&r)) {
        for (int i = 0; i < ncols; i++) {
            const char *p;
            size_t n;
            if (rd_lenstr(&r, &p, &n) < 0) {
                err_set(e, CODE_INTERNAL, "a held report row cannot be read");
                goto out;
            }
            if (pad(&out, p, n, width[i], right[i], i == ncols - 1, e) < 0) goto out;
        }
        if (put_out(&out, e) < 0) goto out;
    }
    buf_reset(held);
    rc = 0;
out:
    buf_free(&out);
    return rc;
}

static int print_head(sqlite3_stmt *s, int ncols, const size_t *width, const bool *right, struct err *e) {
    struct buf out = BUF_INIT(HELD_BYTES);
    int rc = 0;
    for (int i = 0; rc == 0 && i < ncols; i++) {
        const char *name = sqlite3_column_name(s, i);
        rc = pad(&out, name, strlen(name), width[i], right[i], i == ncols - 1, e);
    }
    for (int i = 0; rc == 0 && i < ncols; i++) {
        for (size_t k = 0; rc == 0 && k < width[i]; k++)
            rc = buf_addc(&out, '-', e);
        if (rc == 0) rc = buf_adds(&out, i == ncols - 1 ? "\n" : "  ", e);
    }
    if (rc == 0) rc = put_out(&out, e);
    buf_free(&out);
    return rc;
}

static int table(struct control *c, sqlite3_stmt *s, int ncols, struct err *e) {
    struct buf held = BUF_INIT(HELD_BYTES * 2), one = BUF_INIT(HELD_BYTES);
    size_t width[COLUMNS];
    bool right[COLUMNS], streaming = false;
    int rc = -1, more = SQLITE_DONE;
    for (int i = 0; i < ncols; i++) {
        width[i] = strlen(sqlite3_column_name(s, i));
        right[i] = true;
    }
    bool any = false;
    while ((more = sqlite3_step(s)) == SQLITE_ROW) {
        any = true;
        for (int i = 0; i < ncols; i++) {
            int type = sqlite3_column_type(s, i);
            if (cell(&one, s, i, e) < 0 || buf_lenstr(&held, one.p ? one.p : "", one.n, e) < 0) goto out;
            if (!streaming) {
                size_t w = display_width(one.p ? one.p : "", one.n);
                if (w > width[i]) width[i] = w;
                if (type == SQLITE_TEXT || type == SQLITE_BLOB) right[i] = false;
            }
            buf_reset(&one);
        }
        if (!streaming && held.n > HELD_BYTES) {
            streaming = true;
            if (print_head(s, ncols, width, right, e) < 0) goto out;
        }
        if (streaming && print_held(&held, ncols, width, right, e) < 0) goto out;
    }
    if (more != SQLITE_DONE) {
        db_fail(c, more, e, "the query failed");
        goto out;
    }
    if (!any)
        for (int i = 0; i < ncols; i++)
            right[i] = false;
    if (!streaming && (print_head(s, ncols, width, right, e) < 0 || print_held(&held, ncols, width, right, e) < 0)) goto out;
    rc = 0;
out:
    buf_free(&held);
    buf_free(&one);
    return rc;
}

static int json_value(struct jw *j, sqlite3_stmt *s, int i, struct err *e) {
    struct buf b = BUF_INIT(MiB(64));
    const char *p;
    char num[40];
    size_t n = (size_t)sqlite3_column_bytes(s, i);
    int rc = 0;
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_NULL: jw_null(j); break;
    case SQLITE_INTEGER: jw_int(j, sqlite3_column_int64(s, i)); break;
    case SQLITE_FLOAT:
        snprintf(num, sizeof num, "%.17g", sqlite3_column_double(s, i));
        if (strpbrk(num, "in")) jw_str(j, num); /* inf has no JSON number */
        else jw_raw(j, num, strlen(num));
        break;
    case SQLITE_TEXT:
        p = (const char *)sqlite3_column_text(s, i);
        if (p && text_utf8_valid(p, n)) {
            jw_strn(j, p, n);
            break;
        }
        /* fall through */
    default:
        p = sqlite3_column_blob(s, i);
        for (size_t k = 0; rc == 0 && k < n; k++)
            rc = buf_addf(&b, e, "%02x", (unsigned char)p[k]);
        if (rc == 0) jw_strn(j, b.p ? b.p : "", b.n);
        break;
    }
    buf_free(&b);
    return rc;
}

static int json(struct control *c, sqlite3_stmt *s, int ncols, struct err *e) {
    struct buf b = BUF_INIT(MiB(256));
    struct jw j;
    int rc = -1, more;
    uint64_t rows = 0;
    if (buf_adds(&b, "[", e) < 0) goto out;
    while ((more = sqlite3_step(s)) == SQLITE_ROW) {
        if (buf_adds(&b, rows++ ? ",\n " : "", e) < 0) goto out;
        jw_begin(&j, &b, e);
        jw_obj(&j);
        for (int i = 0; i < ncols; i++) {
            jw_key(&j, sqlite3_column_name(s, i));
            if (json_value(&j, s, i, e) < 0) goto out;
        }
        jw_obj_end(&j);
        if (jw_end(&j) < 0 || put_out(&b, e) < 0) goto out;
    }
    if (more != SQLITE_DONE) {
        db_fail(c, more, e, "the query failed");
        goto out;
    }
    if (buf_adds(&b, "]\n", e) < 0) goto out;
    rc = put_out(&b, e);
out:
    buf_free(&b);
    return rc;
}

/* Quoted when it must be, and when it is empty text: an empty field is NULL. */
static int csv_field(struct buf *b, const char *p, size_t n, bool null, struct err *e) {
    if (null) return 0;
    bool quote = n == 0;
    for (size_t i = 0; i < n; i++)
        if (strchr(",\"\r\n", p[i]) && p[i]) quote = true;
    if (!quote) return buf_add(b, p, n, e);
    if (buf_addc(b, '"', e) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        if ((p[i] == '"' && buf_addc(b, '"', e) < 0) || buf_addc(b, p[i], e) < 0) return -1;
    return buf_addc(b, '"', e);
}

static int csv(struct control *c, sqlite3_stmt *s, int ncols, struct err *e) {
    struct buf b = BUF_INIT(MiB(256)), hex = BUF_INIT(MiB(128));
    int rc = -1, more;
    for (int i = 0; i < ncols; i++) {
        const char *name = sqlite3_column_name(s, i);
        if (csv_field(&b, name, strlen(name), false, e) < 0 || buf_adds(&b, i == ncols - 1 ? "\r\n" : ",", e) < 0) goto out;
    }
    if (put_out(&b, e) < 0) goto out;
    while ((more = sqlite3_step(s)) == SQLITE_ROW) {
        for (int i = 0; i < ncols; i++) {
            int type = sqlite3_column_type(s, i);
            const char *p = type == SQLITE_BLOB ? sqlite3_column_blob(s, i) : (const char *)sqlite3_column_text(s, i);
            size_t n = (size_t)sqlite3_column_bytes(s, i);
            if (type == SQLITE_BLOB) {
                buf_reset(&hex);
                for (size_t k = 0; k < n; k++)
                    if (buf_addf(&hex, e, "%02x", (unsigned char)p[k]) < 0) goto out;
                p = hex.p ? hex.p : "";
                n = hex.n;
            }
            if (csv_field(&b, p ? p : "", n, type == SQLITE_NULL, e) < 0 || buf_adds(&b, i == ncols - 1 ? "\r\n" : ",", e) < 0) goto out;
        }
        if (put_out(&b, e) < 0) goto out;
    }
    if (more != SQLITE_DONE) {
        db_fail(c, more, e, "the query failed");
        goto out;
    }
    rc = 0;
out:
    buf_free(&b);
    buf_free(&hex);
    return rc;
}

static int print_rows(struct control *c, sqlite3_stmt *s, enum report_format f, struct err *e) {
    int ncols = sqlite3_column_count(s);
    if (ncols > COLUMNS) return err_set(e, CODE_LIMIT, "a report has more than %d columns", COLUMNS);
    int rc = f == REPORT_JSON ? json(c, s, ncols, e) : f == REPORT_CSV ? csv(c, s, ncols, e) : table(c, s, ncols, e);
    if (fflush(stdout) != 0 && rc == 0) rc = err_set(e, CODE_IO, "cannot write to the standard output");
    return rc;
}

/* The statement with its parameters; NULL on error. */
static sqlite3_stmt *prepare_bound(struct control *c, const char *sql_name, const char *text, const struct bind *b, size_t nb, struct err *e) {
    sqlite3_stmt *s = NULL;
    int src = sqlite3_prepare_v2(c->db, text, -1, &s, NULL);
    if (src != SQLITE_OK) {
        db_fail(c, src, e, "cannot prepare '%s'", sql_name);
        goto bad;
    }
    for (size_t i = 0; i < nb; i++) {
        int at = sqlite3_bind_parameter_index(s, b[i].name);
        if (at == 0) {
            err_set(e, CODE_INTERNAL, "statement '%s' has no parameter '%s'", sql_name, b[i].name);
            goto bad;
        }
        src = b[i].is_null || (!b[i].is_int && !b[i].text) ? sqlite3_bind_null(s, at)
              : b[i].is_int                                ? sqlite3_bind_int64(s, at, b[i].i)
                                                           : sqlite3_bind_text(s, at, b[i].text, -1, SQLITE_TRANSIENT);
        if (src != SQLITE_OK) {
            db_fail(c, src, e, "cannot bind '%s'", b[i].name);
            goto bad;
        }
    }
    return s;
bad:
    sqlite3_finalize(s);
    return NULL;
}

int report_run(struct control *c, const char *sql_name, const struct bind *b, size_t nb, enum report_format f, struct err *e) {
    const struct embed *m = embed_find(sql_name);
    if (!m) return err_set(e, CODE_INTERNAL, "there is no statement '%s'", sql_name);
    sqlite3_stmt *s = prepare_bound(c, sql_name, m->text, b, nb, e);
    if (!s) return -1;
    int rc = print_rows(c, s, f, e);
    sqlite3_finalize(s);
    return rc;
}

/* The report's own text, counted instead of printed, so that the two cannot judge differently. */
static int count_rows(struct control *c, const char *sql_name, const struct embed *m, const struct bind *b, size_t nb, const char *where, int64_t *rows,
                      int64_t *hits, struct err *e) {
    struct buf sql = BUF_INIT(KiB(64));
    sqlite3_stmt *s = NULL;
    size_t n = strlen(m->text);
    int rc = -1, src;
    while (n && strchr("; \n", m->text[n - 1])) n--;
    if (buf_addf(&sql, e, "SELECT count(*), count(*) FILTER (WHERE %s) FROM (%.*s)", where, (int)n, m->text) < 0) goto out;
    const char *text = buf_str(&sql, e);
    if (!text || !(s = prepare_bound(c, sql_name, text, b, nb, e))) goto out;
    if ((src = sqlite3_step(s)) != SQLITE_ROW) {
        db_fail(c, src, e, "the query failed");
        goto out;
    }
    *rows = sqlite3_column_int64(s, 0);
    *hits = sqlite3_column_int64(s, 1);
    rc = 0;
out:
    sqlite3_finalize(s);
    buf_free(&sql);
    return rc;
}

int report_judge(struct control *c, const char *sql_name, const struct bind *b, size_t nb, enum report_format f, const char *where, int64_t *rows,
                 int64_t *hits, struct err *e) {
    const struct embed *m = embed_find(sql_name);
    struct txn t;
    if (!m) return err_set(e, CODE_INTERNAL, "there is no statement '%s'", sql_name);
    if (txn_begin(&t, c, TXN_READ, e) < 0) return -1;
    int rc = count_rows(c, sql_name, m, b, nb, where, rows, hits, e);
    if (rc == 0 && (*rows > 0 || f != REPORT_TABLE)) rc = report_run(c, sql_name, b, nb, f, e);
    return txn_end(&t, rc, e);
}

static bool only_blanks(const char *p) {
    return p[strspn(p, " \t\r\n;")] == 0;
}

/* An operator's own statements, one after the other; the guards bind them as they bind a shell. History they write is sealed at the end. */
int report_sql(struct control *c, const char *sql, enum report_format f, struct err *e) {
    int rc = -1;
    struct txn t;
    while (!only_blanks(sql)) {
        sqlite3_stmt *s = NULL;
        int src = sqlite3_prepare_v2(c->db, sql, -1, &s, &sql);
        if (src != SQLITE_OK) {
            db_fail(c, src, e, "the query cannot be run");
            if (e->code == CODE_CONTROL) err_set_class(e, ERR_CONFIG, CODE_USAGE, "the query cannot be run: %s", sqlite3_errmsg(c->db));
            goto out;
        }
        if (!s) continue; /* a comment */
        if (sqlite3_column_count(s) > 0) {
            rc = print_rows(c, s, f, e);
        } else {
            src = sqlite3_step(s);
            rc = src == SQLITE_DONE ? 0 : db_fail(c, src, e, "the query failed");
        }
        sqlite3_finalize(s);
        if (rc < 0) goto out;
        rc = -1;
    }
    rc = 0;
out:
    if (!sqlite3_get_autocommit(c->db)) {
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
        if (rc == 0) {
            rc = err_set(e, CODE_USAGE, "the query left a transaction open; it was rolled back");
            err_hint(e, "end it with COMMIT");
        }
    }
    int64_t unsealed = 0;
    if (rc == 0 && !c->inspect && db_int(c, embed_sql("control/unsealed"), &unsealed, e) == 0 && unsealed) {
        if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
        rc = txn_end(&t, 0, e);
    }
    return rc;
}
