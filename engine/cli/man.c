/* The man page sluice(1), from the table of commands. Plain man(7) macros; whatever is not ASCII goes out as \[uXXXX], so that no tool has to guess. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"

static unsigned code_point(const char *s, size_t n) {
    unsigned char c = (unsigned char)*s;
    unsigned cp = n == 2 ? c & 0x1f : n == 3 ? c & 0x0f : c & 0x07;
    for (size_t i = 1; i < n; i++) cp = cp << 6 | ((unsigned char)s[i] & 0x3f);
    return cp;
}

/* Text as roff takes it literally: a dot or quote at a line's beginning is a request otherwise, a hyphen no minus. */
static int roff(struct buf *b, const char *s, struct err *e) {
    static const struct { char c; const char *as; } special[] = {{'\\', "\\(rs"}, {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
                                                                 {'"', "\\(dq"},  {'^', "\\(ha"}, {'~', "\\(ti"}};
    if (*s == '.' && buf_adds(b, "\\&", e) < 0) return -1;
    while (*s) {
        size_t n = text_utf8_char(s, strlen(s)), k = 0;
        /* Terminals of plain ASCII have no ellipsis. */
        if (n == 3 && memcmp(s, "…", 3) == 0) {
            if (buf_adds(b, "...", e) < 0) return -1;
            s += n;
            continue;
        }
        if (n > 1) {
            if (buf_addf(b, e, "\\[u%04X]", code_point(s, n)) < 0) return -1;
            s += n;
            continue;
        }
        while (k < MEM_ARRAY_LEN(special) && special[k].c != *s) k++;
        if ((k < MEM_ARRAY_LEN(special) ? buf_adds(b, special[k].as, e) : buf_addc(b, *s, e)) < 0) return -1;
        s++;
    }
    return 0;
}

/* Parts to the end, each as text but those of roff's own, which begin with a backslash. */
static int line(struct buf *b, struct err *e, const char *const *parts) {
    for (; *parts; parts++)
        if (((*parts)[0] == '\\' || (*parts)[0] == '.' ? buf_adds(b, *parts, e) : roff(b, *parts, e)) < 0) return -1;
    return buf_addc(b, '\n', e);
}
#define LINE(...) (line(b, e, (const char *const[]){__VA_ARGS__, NULL}) < 0)

static int commands(struct buf *b, struct err *e) {
    if (LINE(".SH COMMANDS")) return -1;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_all[i];
        if (LINE(".TP") || LINE("\\fBsluice ", c->path, "\\fR", c->args ? " " : "", c->args ? c->args : "", c->flags[0] ? " [flags]" : "")) return -1;
        if (LINE(c->summary) || (c->flags[0] && (LINE(".br") || buf_adds(b, "Flags:", e) < 0))) return -1;
        for (const char *const *f = c->flags; *f; f++)
            if (buf_adds(b, f == c->flags ? " " : ", ", e) < 0 || roff(b, "--", e) < 0 || roff(b, *f, e) < 0) return -1;
        if (c->flags[0] && buf_addc(b, '\n', e) < 0) return -1;
    }
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* CLI_DRIVERS in a help text is the list of them. */
static int help_text(struct buf *b, const char *help, struct err *e) {
    char known[128], head[256];
    const char *at = strstr(help, CLI_DRIVERS);
    if (!at) return roff(b, help, e);
    db_driver_names(known);
    snprintf(head, sizeof head, "%.*s%s%s", (int)(at - help), help, known, at + strlen(CLI_DRIVERS));
    return roff(b, head, e);
}

static int flags(struct buf *b, struct err *e) {
    size_t n = 0;
    const char **names = mem_alloc((flag_count + option_count) * sizeof *names, e);
    int rc = -1;
    if (!names) return -1;
    for (size_t i = 0; i < flag_count; i++) names[n++] = flag_all[i].name;
    for (size_t i = 0; i < option_count; i++)
        if (option_all[i].help) names[n++] = option_all[i].name;
    qsort(names, n, sizeof *names, by_text);
    if (LINE(".SH OPTIONS") || LINE("A value follows its flag, or stands behind an equals sign. Durations are 250ms, 10s, 5m, 1h30m; sizes 4096, 64MiB, 1G."))
        goto out;
    for (size_t i = 0; i < n; i++) {
        const char *metavar, *help;
        if (i && strcmp(names[i], names[i - 1]) == 0) continue;
        cli_flag_about(names[i], &metavar, &help);
        if (LINE(".TP") || LINE("\\fB\\-\\-", names[i], "\\fR", metavar ? "\\ \\fI" : "", metavar ? metavar : "", metavar ? "\\fR" : "")) goto out;
        if (help_text(b, help, e) < 0 || buf_addc(b, '\n', e) < 0) goto out;
    }
    rc = 0;
out:
    mem_free(names);
    return rc;
}

/* Rows of a term and its text. */
static int terms(struct buf *b, const char *title, const char *const (*rows)[2], size_t n, struct err *e) {
    if (LINE(".SH ", title)) return -1;
    for (size_t i = 0; i < n; i++)
        if (LINE(".TP") || LINE("\\fB", rows[i][0], "\\fR") || LINE(rows[i][1])) return -1;
    return 0;
}

int cli_man(struct buf *b, struct err *e) {
    static const char *const exits[][2] = {
        {"0", "done"},
        {"1", "failed, may be tried again; of sync health: something is behind, stale or refused"},
        {"2", "usage or configuration; of sync health: it could not be told"},
        {"3", "refused: an operator must act; see sluice errors"},
        {"75", "busy: another process owns it, or the control DB stayed locked"},
        {"130", "interrupted twice"},
    };
    static const char *const environment[][2] = {
        {"SLUICE_CONTROL", "the control DB, where --control is not given"},
        {"SLUICE_SOURCE", "the source's DSN, where --source is not given"},
        {"SLUICE_TARGET", "the target's DSN, where --target is not given"},
        {"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", "of a service manager: readiness, a status line and signs of life are sent there"},
    };
    static const char *const files[][2] = {
        {"/var/lib/sluice/control.db", "the control DB of root: one SQLite file that any shell may query"},
        {"~/.local/state/sluice/control.db", "that of everybody else"},
        {"control.db.key", "beside it: the key that seals its secrets; keep it apart from copies of the file"},
        {"control.db.lock", "beside it: who runs what; never remove it while sluice runs"},
    };
    static const char *const examples[][2] = {
        {"sluice backup full --source-driver DRIVER --source DSN --target file:///srv/chain --chain-slot", "roots a chain that incrementals can follow"},
        {"sluice backup incremental --source-driver DRIVER --source DSN --target file:///srv/chain", "adds what changed since; for cron"},
        {"sluice sync from-backup run --backup-target file:///srv/chain --target-driver DRIVER --target DSN --stream-id app --at-chain-id restore",
         "replays the chain into a target that sluice restore has brought up"},
        {"sluice sync health app --max-lag-links 10", "one exit code for a monitor"},
    };
    if (LINE(".\\\" made by `sluice help --man`") || LINE(".TH SLUICE 1 \"\" \"sluice " CLI_VERSION "\" \"User Commands\"") || LINE(".ad l") || LINE(".nh")) return -1;
    if (LINE(".SH NAME") || LINE("sluice ", "\\- ", "moves rows between databases through a log")) return -1;
    if (LINE(".SH SYNOPSIS") || LINE("\\fBsluice\\fR", " VERB [flags]")) return -1;
    if (LINE(".SH DESCRIPTION") ||
        LINE("A backup chain holds a full of a live database and links with what changed since; a broker replays it into another database for as long as it "
             "runs. All state of that work stands in one SQLite file, the control DB, which can be queried, audited and configured with SQL.") ||
        LINE(".PP") || LINE("Results are printed on standard output, the log on standard error."))
        return -1;
    if (commands(b, e) < 0 || flags(b, e) < 0) return -1;
    if (terms(b, "EXIT STATUS", exits, MEM_ARRAY_LEN(exits), e) < 0 || terms(b, "ENVIRONMENT", environment, MEM_ARRAY_LEN(environment), e) < 0) return -1;
    if (terms(b, "FILES", files, MEM_ARRAY_LEN(files), e) < 0 || terms(b, "EXAMPLES", examples, MEM_ARRAY_LEN(examples), e) < 0) return -1;
    return LINE(".SH SEE ALSO") || LINE("\\fBsqlite3\\fR(1), \\fBsystemd.service\\fR(5), \\fBcron\\fR(8)") ? -1 : 0;
}
