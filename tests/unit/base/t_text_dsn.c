#include "engine/base/text.h"
#include "tests/tap.h"

static const struct { const char *dsn, *shown; } exact[] = {
    {"postgres://u:SECRET@h:5432/db", "postgres://u:***@h:5432/db"},
    {"postgres://u@h/db", "postgres://u@h/db"},
    {"postgres://h:5432/db?sslmode=require", "postgres://h:5432/db?sslmode=require"},
    {"postgres://u:@h/db", "postgres://u:***@h/db"},
    {"postgres://:SECRET@h/db", "postgres://:***@h/db"},
    {"postgres://u:SECRET@[::1]:5432/db", "postgres://u:***@[::1]:5432/db"},
    {"postgres://[::1]:5432/db", "postgres://[::1]:5432/db"},
    {"postgres://u:SEC@RET@h/db", "postgres://u:***@h/db"},
    {"postgres://u:SEC/RET@h/db", "postgres://u:***@h/db"},
    {"postgres://u:SEC?RET#SECRET@h/db", "postgres://u:***@h/db"},
    {"postgres://u:SEC:RET@h/db", "postgres://u:***@h/db"},
    {"postgres://u%40t:SEC%40RET@h1:1,h2:2/db", "postgres://u%40t:***@h1:1,h2:2/db"},
    {"postgres://h/db?user=u&password=SECRET&sslmode=require", "postgres://h/db?user=u&password=***&sslmode=require"},
    {"postgres://h/db?PassWord=SECRET", "postgres://h/db?PassWord=***"},
    {"postgres://h/db?%70assword=SECRET&x=1", "postgres://h/db?%70assword=***&x=1"},
    {"postgres://h/db?sslpassword=SECRET&password=SECRET", "postgres://h/db?sslpassword=***&password=***"},
    {"postgres://h/db?password=SEC&RET&x=1", "postgres://h/db?password=***&x=1"},
    {"postgres://h/db?password=", "postgres://h/db?password=***"},
    {"postgres:///db?host=/tmp&password=SECRET", "postgres:///db?host=/tmp&password=***"},
    {"postgres:///db?password=SEC@RET&host=x:1", "postgres:///db?password=***&host=x:1"},
    {"mysql://root:SECRET@127.0.0.1/app", "mysql://root:***@127.0.0.1/app"},
    {"host=h password=SECRET dbname=d", "host=h password=*** dbname=d"},
    {"host=h PASSWORD = SECRET  dbname = d", "host=h PASSWORD = ***  dbname = d"},
    {"password\t=\n'SEC RET' host=h", "password\t=\n*** host=h"},
    {"password='SEC\\'RET x=SECRET' host=h", "password=*** host=h"},
    {"password='SEC\\\\' host=h", "password=*** host=h"},
    {"password=SEC\\ RET host=h", "password=*** host=h"},
    {"password='SECRET host=h", "password=***"},
    {"password='SECRET\\", "password=***"},
    {"password= host=h", "password= ***"},
    {"host='a b' sslpassword=SECRET", "host='a b' sslpassword=***"},
    {"host=h password=SEC RET user=u", "host=h password=*** ***"},
    {"host=h password SECRET", "host=h ***"},
    {"dbname=postgres://u:SECRET@h/db?password=SECRET user=x", "dbname=postgres://u:***@h/db?password=*** user=x"},
    {"dbname='postgres://u:SECRET@h/db' user=x", "dbname='postgres://u:***@h/db' user=x"},
    {"user=u passfile=/x pwd=SECRET", "user=u passfile=/x pwd=***"},
    {"root:SECRET@tcp(127.0.0.1:3306)/app", "root:***@tcp(127.0.0.1:3306)/app"},
    {"/var/lib/app.db", "/var/lib/app.db"},
    {"app.db", "app.db"},
    {"/tmp/my db:1@2.sqlite", "/tmp/my db:1@2.sqlite"},
    {"file:app.db?mode=ro", "file:app.db?mode=ro"},
    {"sqlite:///tmp/a:b@c.db", "sqlite:///tmp/a:b@c.db"},
    {"${DSN}", "${DSN}"},
    {"", ""},
};

/* Whatever else is shown: no part of the secret is, at any length of the output. */
static void never_leaks(void) {
    int leaks = 0, unterminated = 0;
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        for (size_t cap = 1; cap < 100; cap++) {
            char out[128];
            memset(out, 'S', sizeof out);
            text_dsn_redact(exact[i].dsn, out, cap);
            if (!memchr(out, 0, cap)) unterminated++;
            else if (strstr(out, "SEC") || strstr(out, "RET") || strncmp(out, exact[i].shown, strlen(out)) != 0) leaks++;
        }
    }
    is_int(leaks, 0, "a short buffer cuts but does not leak");
    is_int(unterminated, 0, "and is terminated");
    char c = 'x';
    text_dsn_redact("password=SECRET", &c, 0);
    ok(c == 'x', "a buffer of no bytes is left alone");
}

int main(void) {
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        char out[256];
        text_dsn_redact(exact[i].dsn, out, sizeof out);
        is_str(out, exact[i].shown, "redacted as expected");
    }
    never_leaks();
    return done_testing();
}
