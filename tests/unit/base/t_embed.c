#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static char dir[] = "/tmp/embed-XXXXXX";
static char root[2048];

static void put(const char *path, const char *text) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    FILE *f = fopen(full, "w");
    if (!f) {
        ok(0, "cannot write %s", full);
        return;
    }
    fputs(text, f);
    fclose(f);
}

/* What the awk makes of these files; NULL when it fails. */
static const char *generate(const char *files) {
    static char out[200000];
    char cmd[8192];
    snprintf(cmd, sizeof cmd, "cd %s && LC_ALL=C awk -f '%s/engine/base/embed.awk' %s </dev/null 2>err", dir, root, files);
    FILE *p = popen(cmd, "r");
    size_t n = fread(out, 1, sizeof out - 1, p);
    out[n] = 0;
    int status = pclose(p);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : NULL;
}

static bool holds(const char *out, const char *part) { return out && strstr(out, part) != NULL; }

static void blocks(void) {
    put("sql/control/b.sql", "-- a file's own words\n"
                             "--| name: second\n--| in: a INTEGER, b TEXT   out: c INTEGER\n-- gone\nSELECT 'it--s', \"--\" -- gone too\n"
                             "  /* gone */ FROM t; /*! kept */\n\n/* gone\n gone */ SELECT 2; \n"
                             "--| name: third\n--| out: x TEXT\nSELECT 'two\n\n  -- lines';\n");
    put("sql/control/a.sql", "--| name: first\n--| in: a INTEGER\n--| in: b TEXT\nSELECT \"q\\\" ?? \t;\n");
    put("migrations/0001_x.sql", "-- stays\nCREATE TABLE t(a /* stays */);\n");
    put("migrations/checksums", "abc  0001\n");
    put("lua/p.lua", "return '--'\n");
    const char *out = generate("sql/control/b.sql sql/control/a.sql migrations/0001_x.sql migrations/checksums lua/p.lua");
    ok(out != NULL, "well-formed files");
    ok(holds(out, "{\"control/second\", \"a INTEGER, b TEXT\", \"c INTEGER\",\n        \"SELECT 'it--s', \\\"--\\\"\\n\"\n        \"   FROM t; /*! kept */\\n\"\n        \" SELECT 2;\\n\"}"),
       "comments go, quotes and executed comments stay");
    ok(holds(out, "{\"control/third\", \"\", \"x TEXT\",\n        \"SELECT 'two\\n\"\n        \"\\n\"\n        \"  -- lines';\\n\"}"), "a text over lines is left as it is");
    ok(holds(out, "{\"control/first\", \"a INTEGER, b TEXT\", \"\",\n        \"SELECT \\\"q\\\\\\\" \\?\\? \\t;\\n\"}"), "escaping, and inputs on two lines");
    ok(holds(out, "\"-- stays\\n\"\n        \"CREATE TABLE t(a /* stays */);\\n\"}"), "migrations stand whole");
    ok(holds(out, "{\"lua/p.lua\", \"\", \"\",\n        \"return '--'\\n\"}") && holds(out, "{\"migrations/checksums\""), "other files under their paths");
    const char *f = out ? strstr(out, "control/first") : NULL, *s = out ? strstr(out, "control/second") : NULL, *l = out ? strstr(out, "lua/p") : NULL;
    ok(f && s && l && f < s && s < l, "sorted by name");
    ok(holds(out, "embed_count = 6;"), "counted");
    out = generate("");
    ok(holds(out, "embed_count = 0;"), "no files at all, and it does not wait for input");
}

static void malformed(void) {
    static const struct { const char *text, *why; } bad[] = {
        {"SELECT 1;\n", "text before the first name"},
        {"--| name: a b\nSELECT 1;\n", "a blank in a name"},
        {"--| name: a\nSELECT 1;\n--| name: a\nSELECT 2;\n", "a name twice"},
        {"--| name: a\n-- nothing\n", "an empty block"},
        {"--| name: a\nSELECT 'x;\n", "an open quote"},
        {"--| name: a\nSELECT /* x;\n", "an open comment"},
        {"--| name: a\n--| inn: b TEXT\nSELECT 1;\n", "an unknown line"},
        {"--| in: b TEXT\n", "inputs of no block"},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(bad); i++) {
        put("sql/control/x.sql", bad[i].text);
        ok(generate("sql/control/x.sql") == NULL, "%s fails the build", bad[i].why);
    }
}

static void a_long_text_compiles(void) {
    char *text = malloc(70000), cmd[8192];
    size_t n = 0;
    for (int i = 0; n < 64 * 1024; i++) n += (size_t)snprintf(text + n, 70000 - n, "local v%d = \"\\\\ ?? %%\" -- ä\n", i);
    put("lua/long.lua", text);
    const char *out = generate("lua/long.lua");
    ok(out != NULL, "64 KiB");
    put("long.c", out ? out : "#error");
    snprintf(cmd, sizeof cmd, "cd %s && printf '#include <stdio.h>\\n#include \"engine/base/embed.h\"\\nint main(void){fputs(embed_all[0].text,stdout);return 0;}\\n' >main.c && "
             "cc -std=gnu11 -Wall -Werror -I'%s' long.c main.c -o long && ./long | cmp - lua/long.lua", dir, root);
    is_int(system(cmd), 0, "compiles without a warning to the very bytes");
    free(text);
}

static void what_is_built_in(void) {
    size_t unsorted = 0, lost = 0, empty = 0;
    for (size_t i = 0; i < embed_count; i++) {
        if (i && strcmp(embed_all[i - 1].name, embed_all[i].name) >= 0) unsorted++;
        if (embed_find(embed_all[i].name) != &embed_all[i]) lost++;
        else if (embed_sql(embed_all[i].name) != embed_all[i].text) lost++;
        if (!embed_all[i].in || !embed_all[i].out || !embed_all[i].text) empty++;
    }
    is_int(unsorted, 0, "the %zu built-in texts are sorted", embed_count);
    is_int(lost, 0, "each is found");
    is_int(empty, 0, "none has a NULL");
    ok(embed_find("") == NULL && embed_find("control/no-such-block") == NULL && embed_find("zzzz") == NULL, "an unknown name is NULL");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        fclose(stderr);
        embed_sql("control/no-such-block");
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "embed_sql aborts on it");
}

int main(void) {
    char cmd[128];
    if (!getcwd(root, sizeof root) || !mkdtemp(dir)) return 1;
    snprintf(cmd, sizeof cmd, "mkdir -p %s/sql/control %s/migrations %s/lua", dir, dir, dir);
    if (system(cmd) != 0) return 1;
    blocks();
    malformed();
    a_long_text_compiles();
    what_is_built_in();
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ok(system(cmd) == 0, "cleaned up");
    return done_testing();
}
