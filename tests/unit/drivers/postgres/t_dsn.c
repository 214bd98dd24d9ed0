/* DSNs: both forms, what is refused, and that no part of a password is ever shown. */
#include <string.h>

#include "drivers/postgres/pg.h"
#include "tests/tap.h"

static void good(const char *dsn) {
    struct err e = {0};
    ok(pg_dsn_check(dsn, &e) == 0, "taken: %s", dsn);
}

static void bad(const char *dsn, const char *secret) {
    struct err e = {0};
    ok(pg_dsn_check(dsn, &e) == -1 && e.code == CODE_DSN && e.class == ERR_CONFIG && e.hint[0] != 0, "refused: %s", dsn);
    if (secret != NULL) ok(strstr(e.msg, secret) == NULL && strstr(e.hint, secret) == NULL, "and '%s' is not shown", secret);
}

int main(void) {
    good("postgresql://app:pw@db.example:5432/shop?sslmode=verify-full");
    good("postgres://app@db.example/shop");
    good("postgresql:///shop?host=/var/run/postgresql");
    good("host=127.0.0.1 port=5432 user=app password='a b=c' dbname=shop sslmode=require");
    good("host=a,b port=5432,5433 dbname=shop");
    good("postgresql://app:p%40ss%2Fword@db.example/shop");
    bad("", NULL);
    bad("shop", NULL);
    bad("mysql://app:topsecret@db/shop", "topsecret");
    bad("postgresql://app:top@secret@db/shop", "secret");
    bad("postgresql://app:top/secret@db/shop", "secret");
    bad("host=db password=top secret dbname=shop", "secret");
    bad("host=db nonsense=1", NULL);
    bad("postgresql://db/shop?sslmod=require", NULL);
    bad("postgresql://app:1234/geheim@db/shop", "geheim");
    bad("host=db port=abc", NULL);
    struct err e = {0};
    PGconn *c;
    ok(pg_connect("host=127.0.0.1 port=1 user=app password=topsecret dbname=shop", PG_SQL, &c, &e) == -1 && e.class == ERR_RETRY &&
           e.code == CODE_UNREACHABLE,
       "a server that is not there may come back");
    ok(strstr(e.msg, "topsecret") == NULL, "and the password is not shown: %s", e.msg);
    return done_testing();
}
