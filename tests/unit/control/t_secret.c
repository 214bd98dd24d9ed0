#include <fcntl.h>

#include "engine/control/dsn.h"
#include "tests/unit/control/help.h"

static void secrets_are_found(void) {
    static const struct {
        const char *dsn, *want;
    } cases[] = {
        {"postgres://u:pw@h/db", "password=pw"},
        {"postgres://u@h/db", ""},
        {"postgres://h:5432/db", ""},
        {"postgres://u:p@ss@h/db", "password=p@ss"},
        {"postgres://u:p/a@h/db", "password=p/a"},
        {"postgres://u:a:b@h/db", "password=a:b"},
        {"postgres://u:@h/db", ""},
        {"postgres://h/db?password=pw&x=1", "password=pw"},
        {"postgres://u:a@h/db?sslpassword=b&password=c", "password=a sslpassword=b password#2=c"},
        {"postgres://h/db?PASSWORD=pw", "password=pw"},
        {"postgres://h/db?pass%77ord=pw", "password=pw"},
        {"host=h password=pw dbname=d", "password=pw"},
        {"host=h password = 'p w\\'x' dbname=d", "password=p w\\'x"},
        {"host=h PassWord=p\\ w", "password=p\\ w"},
        {"password=''", ""},
        {"host=h dbname='postgres://u:pw@h/db'", "password=pw"},
        {"u:pw@tcp(h:3306)/db", "password=pw"},
        {"/data/app.db", ""},
        {"file:/data/a@b:c.db", ""},
        {"./x:y@z.db", ""},
        {"postgres://u:${PGPW}@h/db", "password=${PGPW}"},
        {"", ""},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(cases); i++) {
        struct dsn_secret v[DSN_SECRETS];
        struct err e = {0};
        size_t n = 0;
        struct buf got = BUF_INIT(4096);
        ok(dsn_secrets(cases[i].dsn, v, &n, &e) == 0, "%s is read", cases[i].dsn);
        for (size_t k = 0; k < n; k++)
            buf_addf(&got, &e, "%s%s=%.*s", k ? " " : "", v[k].param, (int)v[k].len, cases[i].dsn + v[k].at);
        is_str(buf_str(&got, &e), cases[i].want, cases[i].dsn);
        buf_free(&got);
    }
}

static void references_are_resolved(void) {
    char file[300], dsn[700], want[700];
    struct err e = {0};
    snprintf(file, sizeof file, "%.255s/pw", help_dir);
    FILE *f = fopen(file, "w");
    fputs("s3cr3t '@/\n", f);
    fclose(f);
    setenv("T_PW", "a'b\\c d@/%", 1);
    setenv("T_DSN", "postgres://whole@h/db", 1);
    unsetenv("T_NONE");
    struct {
        const char *dsn, *want;
    } cases[] = {
        {"postgres://u:${T_PW}@h/db", "postgres://u:a%27b%5Cc%20d%40%2F%25@h/db"},
        {"host=h password=${T_PW} dbname=d", "host=h password='a\\'b\\\\c d@/%' dbname=d"},
        {"host=h password='${T_PW}'", "host=h password='a\\'b\\\\c d@/%'"},
        {"postgres://u:plain@h/db", "postgres://u:plain@h/db"},
        {"${T_DSN}", "postgres://whole@h/db"},
        {"file:/data/app.db", "file:/data/app.db"},
        {"/data/${T_PW}.db", "/data/${T_PW}.db"},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(cases); i++) {
        char *out = NULL;
        ok(secret_resolve(cases[i].dsn, &out, &e) == 0, "%s: %s", cases[i].dsn, e.msg);
        is_str(out, cases[i].want, cases[i].dsn);
        mem_free(out);
    }
    char *out = NULL;
    snprintf(dsn, sizeof dsn, "host=h password=file:%s", file);
    ok(secret_resolve(dsn, &out, &e) == 0, "from a file: %s", e.msg);
    is_str(out, "host=h password='s3cr3t \\'@/'", "one line of it");
    mem_free(out);
    snprintf(dsn, sizeof dsn, "postgres://u:file:%s@h/db", file);
    snprintf(want, sizeof want, "postgres://u:s3cr3t%%20%%27%%40%%2F@h/db");
    ok(secret_resolve(dsn, &out, &e) == 0, "from a file, in a URL: %s", e.msg);
    is_str(out, want, "percent-encoded");
    mem_free(out);
    ok(secret_resolve("postgres://u:${T_NONE}@h/db", &out, &e) == -1 && e.code == CODE_SECRET && err_exit_code(&e) == 2,
       "a variable that is not set: %s", e.msg);
    ok(secret_resolve("password=file:/no/such", &out, &e) == -1 && e.code == CODE_SECRET, "a file that is not there: %s", e.msg);
}

/* Is the text anywhere in the control DB's files? */
static bool on_disk(const char *text) {
    char cmd[900];
    snprintf(cmd, sizeof cmd, "cat '%.255s'/* 2>/dev/null | grep -aqF '%s'", help_dir, text);
    return system(cmd) == 0;
}

static void passwords_are_sealed(void) {
    struct err e;
    struct stat st;
    char key[320], hidden[400];
    char *driver = NULL, *dsn = NULL;
    snprintf(key, sizeof key, "%s.key", help_path);
    snprintf(hidden, sizeof hidden, "%s.hidden", key);
    struct control *c = help_open(&e);
    ok(endpoint_put(c, "plain", ENDPOINT_SOURCE, "sqlite", "/data/app.db", &e) == 0, "an endpoint without a secret: %s", e.msg);
    ok(access(key, F_OK) != 0, "needs no key");
    ok(endpoint_put(c, "pg", ENDPOINT_TARGET, "postgres", "postgres://u:hunter2xyz@h/db?sslpassword=t0psecret", &e) == 0,
       "one with two: %s", e.msg);
    ok(stat(key, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 32, "makes the key file, private");
    is_str(one("SELECT dsn FROM endpoint WHERE name = 'pg'"), "postgres://u:***@h/db?sslpassword=***", "the DSN shows neither");
    is_str(one("SELECT group_concat(param) FROM secret"), "password,sslpassword", "both are sealed");
    ok(endpoint_dsn(c, "pg", &driver, &dsn, &e) == 0, "read back: %s", e.msg);
    is_str(dsn, "postgres://u:hunter2xyz@h/db?sslpassword=t0psecret", "as it was");
    is_str(driver, "postgres", "with its driver");
    mem_free(driver);
    mem_free(dsn);
    ok(!shell("UPDATE endpoint SET dsn = replace(dsn, '@h/', '@newhost/') WHERE name = 'pg'"), "a shell moves it to another host");
    ok(endpoint_dsn(c, "pg", &driver, &dsn, &e) == 0, "read again: %s", e.msg);
    is_str(dsn, "postgres://u:hunter2xyz@newhost/db?sslpassword=t0psecret", "with the same secrets");
    mem_free(driver);
    mem_free(dsn);
    ok(endpoint_put(c, "pg", ENDPOINT_SOURCE, "postgres", "postgres://h/db", &e) == -1 && e.class == ERR_CONFIG,
       "another role is refused: %s", e.msg);
    err_clear(&e);
    ok(endpoint_dsn(c, "none", &driver, &dsn, &e) == -1 && e.code == CODE_NOT_FOUND, "an endpoint that is not there: %s", e.msg);
    ok(!shell("UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE param = 'sslpassword') WHERE param = 'password'"),
       "one sealed text in another's place");
    ok(endpoint_dsn(c, "pg", &driver, &dsn, &e) == -1 && e.code == CODE_SECRET && !strstr(e.msg, "t0psecret"), "is not accepted: %s",
       e.msg);
    ok(endpoint_put(c, "pg", ENDPOINT_TARGET, "postgres", "postgres://u:hunter2xyz@h/db", &e) == 0, "given anew: %s", e.msg);
    ok(rename(key, hidden) == 0 && endpoint_dsn(c, "pg", &driver, &dsn, &e) == -1 && e.code == CODE_SECRET, "without the key: %s", e.msg);
    ok(endpoint_put(c, "p2", ENDPOINT_TARGET, "postgres", "postgres://u:another@h/db", &e) == -1 && access(key, F_OK) != 0,
       "no new key is made while secrets are sealed with the old one: %s", e.msg);
    rename(hidden, key);
    chmod(key, 0644);
    ok(endpoint_dsn(c, "pg", &driver, &dsn, &e) == -1 && e.code == CODE_SECRET, "a key that others can read: %s", e.msg);
    chmod(key, 0600);
    ok(endpoint_put(c, "pg", ENDPOINT_TARGET, "postgres", "postgres://u:${PGPW}@h/db", &e) == 0, "a variable instead: %s", e.msg);
    is_str(one("SELECT dsn FROM endpoint WHERE name = 'pg'"), "postgres://u:${PGPW}@h/db", "is kept as it is");
    is_str(one("SELECT count(*) FROM secret WHERE endpoint = 'pg'"), "0", "and the old secrets are gone");
    setenv("PGPW", "from env", 1);
    ok(endpoint_dsn(c, "pg", &driver, &dsn, &e) == 0, "resolved at use: %s", e.msg);
    is_str(dsn, "postgres://u:from%20env@h/db", "percent-encoded");
    mem_free(driver);
    mem_free(dsn);
    control_close(c);
    ok(!on_disk("hunter2xyz") && !on_disk("t0psecret"), "no password is in any file");
    ok(!on_disk("from env"), "nor the variable's");
}

static void a_clear_password_is_sealed_by_the_next_open(void) {
    struct err e;
    char *driver = NULL, *dsn = NULL;
    ok(!shell(
           "INSERT INTO endpoint(name, role, driver, dsn) VALUES ('shellpg', 'target', 'postgres', 'host=h password=cl34rt3xt dbname=d')"),
       "written in clear");
    ok(on_disk("cl34rt3xt"), "it is on disk");
    struct control *c = help_open(&e);
    ok(c != NULL, "opened: %s", e.msg);
    is_str(one("SELECT dsn FROM endpoint WHERE name = 'shellpg'"), "host=h password=*** dbname=d", "the DSN shows it no more");
    ok(!on_disk("cl34rt3xt"), "nor does any file");
    ok(endpoint_dsn(c, "shellpg", &driver, &dsn, &e) == 0, "and it can be used: %s", e.msg);
    is_str(dsn, "host=h password=cl34rt3xt dbname=d", "as it was");
    mem_free(driver);
    mem_free(dsn);
    ok(!shell("INSERT INTO endpoint(name, role, driver, dsn) VALUES ('stars', 'target', 'postgres', 'host=h password=***')"),
       "a placeholder without a secret");
    ok(endpoint_dsn(c, "stars", &driver, &dsn, &e) == -1 && e.code == CODE_SECRET, "is refused at use: %s", e.msg);
    control_close(c);
}

int main(void) {
    help_begin();
    secrets_are_found();
    references_are_resolved();
    passwords_are_sealed();
    a_clear_password_is_sealed_by_the_next_open();
    help_end();
    return done_testing();
}
