/* DSNs of PostgreSQL: postgresql://… and key=value, as libpq reads them.
 *
 * DESIGN
 * 1. libpq decides what a DSN means; we only look at its parts to refuse what it would misread.
 * 2. libpq's own parse messages quote pieces of the text, and a password with an unescaped '@', '/', ':' or blank ends up in such a piece
 *    (a host, a port, an option name). So no such message is shown, and a DSN whose parts show that this happened is refused. */
#include <string.h>

#include "drivers/postgres/pg.h"
#include "engine/base/text.h"

static bool is_url(const char *dsn) { return strncmp(dsn, "postgresql://", 13) == 0 || strncmp(dsn, "postgres://", 11) == 0; }

static int refuse(struct err *e, const char *why) {
    err_set(e, CODE_DSN, "cannot read the PostgreSQL DSN: %s", why);
    return err_hint(
        e, "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full or 'host=HOST port=PORT user=USER password=PASSWORD "
           "dbname=DATABASE'; percent-encode @ : / ? # %% and blanks in a URL's password, quote blanks in the other form");
}

int pg_dsn_check(const char *dsn, struct err *e) {
    if (dsn == NULL || *dsn == 0) return refuse(e, "it is empty");
    const char *scheme = strstr(dsn, "://");
    if (scheme != NULL && !is_url(dsn) && strchr(dsn, '=') == NULL)
        return refuse(e, "the URL does not begin with postgresql:// or postgres://");
    if (!is_url(dsn) && strchr(dsn, '=') == NULL) return refuse(e, "it is neither a URL nor made of key=value pairs");
    char *msg = NULL;
    PQconninfoOption *o = PQconninfoParse(dsn, &msg);
    if (msg != NULL) PQfreemem(msg);
    if (o == NULL) return refuse(e, "it has an unknown key or a character that must be escaped");
    const char *why = NULL;
    for (PQconninfoOption *k = o; k->keyword != NULL; k++) {
        if (k->val == NULL) continue;
        if (strcmp(k->keyword, "port") == 0 && strspn(k->val, "0123456789,") != strlen(k->val))
            why = "the port is no number (a ':' or '/' in the password must be percent-encoded)";
        if (strcmp(k->keyword, "host") == 0 && strchr(k->val, '@') != NULL && k->val[0] != '@' && k->val[0] != '/')
            why = "the host holds an '@' (an '@' in the password must be percent-encoded)";
        if (strcmp(k->keyword, "dbname") == 0 && is_url(dsn) && strchr(k->val, '@') != NULL)
            why = "the database holds an '@' (a '/' in the password must be percent-encoded)";
        if (strcmp(k->keyword, "dbname") == 0 && (strchr(k->val, '=') != NULL || strstr(k->val, "://") != NULL))
            why = "the database name is itself a DSN";
    }
    PQconninfoFree(o);
    return why != NULL ? refuse(e, why) : 0;
}
