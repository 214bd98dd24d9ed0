#include <sys/statfs.h>
#include <sys/vfs.h>
#include <time.h>

#include "engine/base/embed.h"
#include "tests/unit/control/help.h"

static long fake_magic;
/* In the place of libc's: what the file system is can be said here. */
int statfs(const char *path, struct statfs *fs) {
    (void)path;
    memset(fs, 0, sizeof *fs);
    fs->f_type = fake_magic ? fake_magic : 0xEF53;
    return 0;
}

static void a_new_file_is_private_and_complete(void) {
    struct err e;
    struct control *c = help_open(&e);
    ok(c != NULL, "opens: %s", e.msg);
    if (!c) return;
    struct stat st;
    ok(stat(help_path, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
    is_str(one("PRAGMA journal_mode"), "wal", "WAL");
    is_str(one("SELECT value FROM meta WHERE name='schema_version'"), "1", "version 1");
    is_str(one("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name IN ('endpoint','entity','state','transition','history',"
               "'history_seal','request','position','marker','refusal','chain','segment','link','setting','secret','meta')"),
           "16", "every table");
    is_str(one("SELECT count(*) FROM sqlite_schema WHERE type='view' AND name IN ('audit','lag','positions','refusals','chains','brokers',"
               "'producers')"),
           "7", "every view");
    is_str(one("SELECT group_concat(name) FROM pragma_table_list WHERE schema='main' AND type='table' AND NOT strict AND name NOT LIKE "
               "'sqlite%'"),
           "", "every table is STRICT");
    is_str(one("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite%' AND sql NOT LIKE '%--%'"), "0",
           "every table explains itself in .schema");
    struct buf f = BUF_INIT(65536);
    size_t n = 9;
    ok(control_check(c, &f, &n, &e) == 0 && n == 0, "check finds nothing: %s%.*s", e.msg, (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(c);
    int64_t t0 = 0;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    c = help_open(&e);
    clock_gettime(CLOCK_MONOTONIC, &b);
    t0 = (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
    note("second open took %lld us", (long long)t0);
    ok(c != NULL, "opens again: %s", e.msg);
    control_close(c);
}

static void every_statement_prepares(void) {
    struct err e = {0};
    struct control *c = help_open(&e);
    size_t seen = 0;
    for (size_t i = 0; c && i < embed_count; i++) {
        const struct embed *m = &embed_all[i];
        bool control = strncmp(m->name, "control/", 8) == 0, report = strncmp(m->name, "report/", 7) == 0,
             machine = strncmp(m->name, "machine/", 8) == 0;
        if (!control && !report && !machine) continue;
        seen++;
        const char *sql = m->text;
        while (sql && sql[strspn(sql, " \n")]) {
            sqlite3_stmt *s = NULL;
            int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, &sql);
            ok(rc == SQLITE_OK, "%s prepares: %s", m->name, rc == SQLITE_OK ? "" : sqlite3_errmsg(c->db));
            for (int k = 1; s && k <= sqlite3_bind_parameter_count(s); k++) {
                char want[64];
                const char *p = sqlite3_bind_parameter_name(s, k);
                snprintf(want, sizeof want, "%s ", p ? p + 1 : "?");
                ok(strstr(m->in, want) != NULL, "%s declares its input %s", m->name, p ? p : "?");
            }
            if (rc == SQLITE_OK && !machine) {
                int outs = m->out[0] ? 1 : 0;
                for (const char *p = m->out; *p; p++)
                    outs += *p == ',';
                is_int(s ? sqlite3_column_count(s) : 0, outs, m->name);
            }
            sqlite3_finalize(s);
            if (rc != SQLITE_OK) break;
        }
    }
    ok(seen > 50, "%zu statements were seen", seen);
    control_close(c);
}

static void places_that_do_not_fit_are_refused(void) {
    struct err e;
    struct control *c;
    help_file("foreign.db");
    shell("CREATE TABLE mine(a)");
    ok(!help_open(&e) && e.code == CODE_CONTROL, "another program's database: %s", e.msg);
    is_str(one("SELECT count(*) FROM sqlite_schema"), "1", "and nothing was written to it");
    help_file("text.db");
    FILE *f = fopen(help_path, "w");
    fputs("this is no database, but it is long enough to be read as one, surely, by anybody who looks at a header of 100 bytes", f);
    fclose(f);
    ok(!help_open(&e) && e.code == CODE_CONTROL, "a text file: %s", e.msg);
    help_file("no/such/control.db");
    fake_magic = 0;
    ok(!help_open(&e), "a folder that is not there: %s", e.msg);
    help_file("net.db");
    static const long nets[] = {0x6969, 0x517B, (long)0xFF534D42, (long)0xFE534D42, 0x00C36400, 0x0BD00BD0};
    for (size_t i = 0; i < MEM_ARRAY_LEN(nets); i++) {
        fake_magic = nets[i];
        ok(!help_open(&e) && e.code == CODE_CONTROL_NETFS && err_exit_code(&e) == 3, "network file system %lx: %s", nets[i], e.msg);
    }
    ok(access(help_path, F_OK) != 0, "nothing was made there");
    fake_magic = 0;
    help_file("empty.db");
    f = fopen(help_path, "w");
    fclose(f);
    ok((c = help_open(&e)) != NULL, "an empty file becomes a control DB: %s", e.msg);
    control_close(c);
    help_file("missing.db");
    ok(!help_inspect(&e) && e.code == CODE_NOT_FOUND && access(help_path, F_OK) != 0, "looking makes nothing: %s", e.msg);
}

static void the_place_follows_the_environment(void) {
    struct err e = {0};
    struct control *c = NULL;
    struct control_opts o = {.actor = "test"};
    char want[320];
    help_file("by-env.db");
    setenv("SLUICE_CONTROL", help_path, 1);
    ok(control_open(&o, &c, &e) == 0, "SLUICE_CONTROL: %s", e.msg);
    is_str(c ? control_path(c) : "", help_path, "the path it names");
    control_close(c);
    unsetenv("SLUICE_CONTROL");
    if (geteuid() == 0) {
        ok(1, "XDG_STATE_HOME # SKIP as root");
        return;
    }
    setenv("XDG_STATE_HOME", help_dir, 1);
    snprintf(want, sizeof want, "%.255s/sluice/control.db", help_dir);
    c = NULL;
    ok(control_open(&o, &c, &e) == 0, "XDG_STATE_HOME: %s", e.msg);
    is_str(c ? control_path(c) : "", want, "below it");
    control_close(c);
}

static void newer_files_are_refused(void) {
    struct err e;
    help_file("newer.db");
    control_close(help_open(&e));
    ok(!shell("DROP TRIGGER meta_update; UPDATE meta SET value = '99' WHERE name IN ('schema_version', 'min_writer')"), "made newer");
    ok(!help_open(&e) && e.code == CODE_CONTROL_NEWER && err_exit_code(&e) == 3, "a newer one: %s", e.msg);
}

static void many_processes_begin_together(void) {
    help_file("together.db");
    enum { N = 6 };
    pid_t pid[N];
    for (int i = 0; i < N; i++)
        if ((pid[i] = fork()) == 0) {
            struct err e;
            struct control *c = help_open(&e);
            if (!c) fprintf(stderr, "# %s\n", e.msg);
            _exit(c ? 0 : 1);
        }
    int bad = 0;
    for (int i = 0; i < N; i++) {
        int st;
        waitpid(pid[i], &st, 0);
        bad += st != 0;
    }
    is_int(bad, 0, "all of them open one new file");
    is_str(one("SELECT count(*) FROM meta"), "3", "and it was made once");
}

int main(void) {
    help_begin();
    a_new_file_is_private_and_complete();
    every_statement_prepares();
    places_that_do_not_fit_are_refused();
    the_place_follows_the_environment();
    newer_files_are_refused();
    many_processes_begin_together();
    help_end();
    return done_testing();
}
