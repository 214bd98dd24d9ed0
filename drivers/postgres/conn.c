/* Connections, queries and the classification of PostgreSQL's errors.
 *
 * DESIGN
 * 1. Every connection pins what would change text or end a wait; nothing depends on what the role, the database or the server sets.
 * 2. A server's error is classified by its SQLSTATE in one table; its text is only shown. A connection that broke is ERR_RETRY.
 * 3. A password never leaves this file: what libpq says about a failed connection is scrubbed of it. */
#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/base/text.h"

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *state; /* five characters, or two for a whole SQLSTATE class; the first match wins */
    enum err_class class;
    enum err_code code;
} pg_states[] = {
    {"08P01", ERR_REFUSE, CODE_SERVER},      {"08", ERR_RETRY, CODE_UNREACHABLE},
    {"0A", ERR_REFUSE, CODE_SERVER},         {"22", ERR_REFUSE, CODE_VALUE_UNREPRESENTABLE},
    {"23505", ERR_REFUSE, CODE_UNIQUE_CONFLICT}, {"23P01", ERR_REFUSE, CODE_UNIQUE_CONFLICT},
    {"2B", ERR_REFUSE, CODE_SERVER},         {"23", ERR_REFUSE, CODE_CONSTRAINT},     {"25P03", ERR_RETRY, CODE_UNREACHABLE},
    {"25006", ERR_REFUSE, CODE_SERVER},      {"28", ERR_REFUSE, CODE_PRIVILEGE},
    {"3D000", ERR_CONFIG, CODE_DSN},         {"40", ERR_RETRY, CODE_SERVER},
    {"42501", ERR_REFUSE, CODE_PRIVILEGE},   {"42601", ERR_BUG, CODE_INTERNAL},
    {"42", ERR_REFUSE, CODE_SERVER},         {"53100", ERR_RETRY, CODE_DISK_FULL},
    {"53400", ERR_REFUSE, CODE_HEADROOM},    {"53", ERR_RETRY, CODE_SERVER},
    {"54", ERR_REFUSE, CODE_LIMIT},          {"55P03", ERR_RETRY, CODE_SERVER},
    {"55006", ERR_RETRY, CODE_SERVER},       {"55", ERR_REFUSE, CODE_SERVER},
    {"57014", ERR_RETRY, CODE_SERVER},       {"57P", ERR_RETRY, CODE_UNREACHABLE},
    {"58", ERR_RETRY, CODE_SERVER},          {"72", ERR_RETRY, CODE_SERVER},
    {"F0", ERR_REFUSE, CODE_SERVER},         {"P0", ERR_REFUSE, CODE_SERVER},
    {"XX", ERR_REFUSE, CODE_SERVER},
};

static void classify(const char *state, enum err_class *cls, enum err_code *code) {
    for (size_t i = 0; i < MEM_ARRAY_LEN(pg_states); i++)
        if (strncmp(state, pg_states[i].state, strlen(pg_states[i].state)) == 0) {
            *cls = pg_states[i].class;
            *code = pg_states[i].code;
            return;
        }
    *cls = ERR_RETRY;
    *code = CODE_SERVER;
}

const char *pg_sqlstate(const PGresult *r) {
    const char *s = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    return s != NULL ? s : "";
}

bool pg_sqlstate_is(const PGresult *r, const char *state) { return strcmp(pg_sqlstate(r), state) == 0; }

static size_t trimmed(const char *s) {
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1])) n--;
    return n;
}

int pg_err(struct err *e, PGconn *c, const PGresult *r, const char *fmt, ...) {
    char ctx[512] = "";
    if (fmt != NULL) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(ctx, sizeof ctx, fmt, ap);
        va_end(ap);
    }
    const char *state = pg_sqlstate(r), *msg = r != NULL ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    bool broken = c != NULL && PQstatus(c) == CONNECTION_BAD;
    if (msg == NULL || *msg == 0)
        msg = r != NULL && *PQresultErrorMessage(r) != 0 ? PQresultErrorMessage(r) : c != NULL ? PQerrorMessage(c) : "";
    if (trimmed(msg) == 0) msg = broken ? "the connection to the server was lost" : "the server gave no reason";
    enum err_class cls = ERR_RETRY;
    enum err_code code = broken ? CODE_UNREACHABLE : CODE_SERVER;
    if (*state != 0) classify(state, &cls, &code);
    char tail[16] = "";
    if (*state != 0) snprintf(tail, sizeof tail, " (%.5s)", state);
    err_set_class(e, cls, code, "%s%s%.*s%s", ctx, *ctx != 0 ? ": " : "", (int)trimmed(msg), msg, tail);
    /* Details of these classes name objects and settings, never rows. */
    const char *detail = r != NULL ? PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL) : NULL,
               *hint = r != NULL ? PQresultErrorField(r, PG_DIAG_MESSAGE_HINT) : NULL;
    bool plain = strncmp(state, "42", 2) == 0 || strncmp(state, "55", 2) == 0 || strncmp(state, "53", 2) == 0 ||
                 strncmp(state, "0A", 2) == 0 || strncmp(state, "2BP", 3) == 0;
    if (plain && detail != NULL) err_hint(e, "%s%s%s", detail, hint != NULL ? " " : "", hint != NULL ? hint : "");
    else if (hint != NULL) err_hint(e, "%s", hint);
    return -1;
}

/* ---- connect --------------------------------------------------------------------------------------------------------- */

static void on_notice(void *arg, const PGresult *r) {
    (void)arg;
    const char *m = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (m != NULL) log_debug("server notice", KV_STR("text", m));
}

/* What libpq said of a failed attempt: scrubbed, on one line, with the SQLSTATE that verbose errors carry taken out. */
static void failure_text(const char *raw, const char *password, char *out, size_t out_n, char state[6]) {
    state[0] = 0;
    size_t o = 0, pwn = password != NULL ? strlen(password) : 0;
    for (const char *p = raw; *p != 0 && o + 4 < out_n;) {
        if (pwn > 0 && strncmp(p, password, pwn) == 0) {
            memcpy(out + o, "***", 3);
            o += 3;
            p += pwn;
            continue;
        }
        if (strncmp(p, "\nLOCATION:", 10) == 0) {
            p = strchr(p + 1, '\n');
            if (p == NULL) break;
            continue;
        }
        if (strncmp(p, ":  ", 3) == 0 && strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && p[8] == ':' && p[9] == ' ') {
            memcpy(state, p + 3, 5);
            state[5] = 0;
            out[o++] = ':';
            p += 9;
            continue;
        }
        out[o++] = *p == '\n' || *p == '\t' ? ' ' : *p;
        p++;
    }
    while (o > 0 && out[o - 1] == ' ') o--;
    out[o] = 0;
}

/* Drive the attempt to its end, a stop or the deadline. Returns what PQconnectPoll said last; *why is set when we gave up. */
static PostgresPollingStatusType drive(PGconn *c, int64_t timeout_us, const char **why) {
    PostgresPollingStatusType st = PGRES_POLLING_WRITING;
    int64_t end = clock_mono_us() + timeout_us;
    while (st != PGRES_POLLING_OK && st != PGRES_POLLING_FAILED) {
        struct pollfd fd[2] = {{PQsocket(c), st == PGRES_POLLING_READING ? POLLIN : POLLOUT, 0}, {stop_fd(), POLLIN, 0}};
        int64_t left = end - clock_mono_us();
        if (left <= 0) {
            *why = "the server did not answer in time";
            return PGRES_POLLING_FAILED;
        }
        if (poll(fd, fd[1].fd >= 0 ? 2 : 1, (int)(left / 1000) + 1) < 0 && stop_asked()) break;
        if (stop_asked() && fd[0].revents == 0) {
            *why = "stopped while connecting";
            return PGRES_POLLING_FAILED;
        }
        if (fd[0].revents != 0) st = PQconnectPoll(c);
    }
    return st;
}

static int pin(PGconn *c, enum pg_mode mode, struct err *e) {
    if (PQserverVersion(c) < PG_OLDEST) {
        err_set_class(e, ERR_REFUSE, CODE_SERVER, "the server is PostgreSQL %d.%d, and sluice knows 13 and later",
                      PQserverVersion(c) / 10000, PQserverVersion(c) % 10000);
        return err_hint(e, "upgrade the server");
    }
    PGresult *r = PQexec(c, embed_sql("postgres/session_pin"));
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK) rc = pg_err(e, c, r, "pin the session's settings");
    PQclear(r);
    if (rc < 0 || mode != PG_REPLICATION) return rc;
    r = PQexec(c, "IDENTIFY_SYSTEM");
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        if (pg_sqlstate_is(r, "42601")) {
            err_set(e, CODE_POOLER, "the endpoint dropped replication=database on its way: it is a connection pooler, not the server");
            rc = err_hint(e, "give the DSN of the server itself (its direct host and port), not of the pooler");
        } else rc = pg_err(e, c, r, "open a replication connection");
    }
    PQclear(r);
    return rc;
}

int pg_connect(const char *dsn, enum pg_mode mode, PGconn **out, struct err *e) {
    const char *k[64], *v[64], *password = NULL, *host = NULL;
    int n = 0, rc = -1;
    long timeout_s = 0;
    PGconn *c = NULL;
    *out = NULL;
    if (pg_dsn_check(dsn, e) < 0) return -1;
    PQconninfoOption *o = PQconninfoParse(dsn, NULL);
    if (o == NULL) return err_set(e, CODE_DSN, "cannot read the PostgreSQL DSN");
    for (PQconninfoOption *i = o; i->keyword != NULL && n < 56; i++) {
        if (i->val == NULL || strcmp(i->keyword, "replication") == 0 || strcmp(i->keyword, "client_encoding") == 0 ||
            strcmp(i->keyword, "application_name") == 0 || strcmp(i->keyword, "fallback_application_name") == 0) continue;
        if (strcmp(i->keyword, "password") == 0) password = i->val;
        if (strcmp(i->keyword, "host") == 0) host = i->val;
        if (strcmp(i->keyword, "connect_timeout") == 0) timeout_s = strtol(i->val, NULL, 10);
        k[n] = i->keyword;
        v[n++] = i->val;
    }
    k[n] = "client_encoding", v[n++] = "UTF8";
    k[n] = "application_name", v[n++] = "sluice";
    if (mode == PG_REPLICATION) k[n] = "replication", v[n++] = "database";
    if (timeout_s <= 0) k[n] = "connect_timeout", v[n++] = "15";
    k[n] = v[n] = NULL;
    const char *why = NULL;
    if (host != NULL && strchr(host, ',') != NULL) { /* libpq's own loop gives each host its time */
        c = PQconnectdbParams(k, v, 0);
    } else {
        c = PQconnectStartParams(k, v, 0);
        if (c != NULL && PQstatus(c) != CONNECTION_BAD) {
            PQsetErrorVerbosity(c, PQERRORS_VERBOSE);
            drive(c, (timeout_s > 0 ? timeout_s : 15) * INT64_C(1000000), &why);
            PQsetErrorVerbosity(c, PQERRORS_DEFAULT);
        }
    }
    if (c == NULL) {
        err_set(e, CODE_NO_MEMORY, "no memory for a connection");
        goto out;
    }
    if (PQstatus(c) != CONNECTION_OK) {
        char text[900], state[6];
        failure_text(why != NULL ? why : PQerrorMessage(c), password, text, sizeof text, state);
        enum err_class cls = ERR_RETRY;
        enum err_code code = CODE_UNREACHABLE;
        if (*state != 0) classify(state, &cls, &code);
        if (PQconnectionNeedsPassword(c)) cls = ERR_REFUSE, code = CODE_PRIVILEGE;
        if (stop_asked() && why != NULL) cls = ERR_RETRY, code = CODE_INTERRUPTED;
        if (mode == PG_REPLICATION && strcmp(state, "08P01") == 0) cls = ERR_REFUSE, code = CODE_POOLER;
        err_set_class(e, cls, code, "cannot connect to PostgreSQL: %s%s%s%s", text, *state != 0 ? " (" : "", state, *state != 0 ? ")" : "");
        if (code == CODE_POOLER) err_hint(e, "give the DSN of the server itself (its direct host and port), not of a connection pooler");
        else if (mode == PG_REPLICATION && strcmp(state, "42501") == 0) err_hint(e, "ALTER ROLE … REPLICATION for the DSN's user");
        else if (code == CODE_PRIVILEGE) err_hint(e, "correct user and password in the DSN, or let the server's pg_hba.conf admit them");
        else if (code == CODE_UNREACHABLE) err_hint(e, "start the server or correct host and port in the DSN");
        goto out;
    }
    PQsetNoticeReceiver(c, on_notice, NULL);
    if (pin(c, mode, e) < 0) goto out;
    *out = c;
    c = NULL;
    rc = 0;
out:
    if (c != NULL) PQfinish(c);
    PQconninfoFree(o);
    return rc;
}

void pg_close(PGconn **c) {
    if (*c != NULL) PQfinish(*c);
    *c = NULL;
}

int pg_version(PGconn *c) { return PQserverVersion(c); }

/* ---- queries --------------------------------------------------------------------------------------------------------- */

int pg_do(PGconn *c, const char *sql, const char *what, struct err *e) {
    PGresult *r = PQexec(c, sql);
    ExecStatusType st = PQresultStatus(r);
    int rc = 0;
    if (st != PGRES_COMMAND_OK && st != PGRES_TUPLES_OK) rc = pg_err(e, c, r, what != NULL ? "cannot %s" : NULL, what);
    PQclear(r);
    return rc;
}

int pg_dof(PGconn *c, const char *what, struct err *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *sql = NULL;
    int n = vasprintf(&sql, fmt, ap);
    va_end(ap);
    if (n < 0) return err_set(e, CODE_NO_MEMORY, "no memory for a statement");
    int rc = pg_do(c, sql, what, e);
    free(sql);
    return rc;
}

int pg_exec_wait(PGconn *c, const char *sql, const char *what, const char *waiting, PGresult **out, struct err *e) {
    *out = NULL;
    if (PQsendQuery(c, sql) == 0) return pg_err(e, c, NULL, "cannot %s", what);
    int64_t said = clock_mono_us() + 5 * INT64_C(1000000);
    bool cancelled = false;
    while (PQisBusy(c)) {
        struct pollfd fd[2] = {{PQsocket(c), POLLIN, 0}, {stop_fd(), POLLIN, 0}};
        poll(fd, fd[1].fd >= 0 && !cancelled ? 2 : 1, 1000);
        if (fd[0].revents != 0 && PQconsumeInput(c) == 0) break;
        if (stop_asked() && !cancelled) {
            char ignored[256];
            PGcancel *k = PQgetCancel(c);
            if (k != NULL) PQcancel(k, ignored, sizeof ignored);
            PQfreeCancel(k);
            cancelled = true;
        }
        if (said != 0 && clock_mono_us() > said) {
            if (waiting != NULL) log_note(LOG_INFO, waiting);
            said = 0;
        }
    }
    PGresult *r = NULL, *next;
    int rc = 0;
    while ((next = PQgetResult(c)) != NULL) {
        PQclear(r);
        r = next;
        if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK && rc == 0)
            rc = cancelled ? err_set(e, CODE_INTERRUPTED, "stopped before it could %s", what) : pg_err(e, c, r, "cannot %s", what);
        if (PQstatus(c) == CONNECTION_BAD) break;
    }
    if (rc == 0 && r == NULL) rc = pg_err(e, c, NULL, "cannot %s", what);
    if (rc < 0) PQclear(r);
    else *out = r;
    return rc;
}

int pg_query(PGconn *c, const char *sql, int n, const char *const *params, const char *what, PGresult **out, struct err *e) {
    PGresult *r = PQexecParams(c, sql, n, NULL, params, NULL, NULL, 0);
    *out = NULL;
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
        pg_err(e, c, r, what != NULL ? "cannot %s" : NULL, what);
        PQclear(r);
        return -1;
    }
    *out = r;
    return 0;
}

int pg_scalar(PGconn *c, const char *sql, int n, const char *const *params, const char *what, char *out, size_t out_n, bool *found,
              struct err *e) {
    PGresult *r;
    if (pg_query(c, sql, n, params, what, &r, e) < 0) return -1;
    bool any = PQntuples(r) > 0 && PQnfields(r) > 0;
    snprintf(out, out_n, "%s", any ? PQgetvalue(r, 0, 0) : "");
    if (found != NULL) *found = any;
    PQclear(r);
    return 0;
}

bool pg_null(const PGresult *r, int row, int col) { return PQgetisnull(r, row, col) != 0; }
const char *pg_text(const PGresult *r, int row, int col) { return PQgetvalue(r, row, col); }
bool pg_bool(const PGresult *r, int row, int col) { return PQgetvalue(r, row, col)[0] == 't'; }
int64_t pg_i64(const PGresult *r, int row, int col) { return strtoll(PQgetvalue(r, row, col), NULL, 10); }

int pg_qualified(struct buf *b, const char *ns, const char *name, struct err *e) {
    if (text_ident(b, ns, e) < 0 || buf_addc(b, '.', e) < 0) return -1;
    return text_ident(b, name, e);
}
