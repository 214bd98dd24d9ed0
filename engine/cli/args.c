#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/cli/cli.h"

static const struct flag *flag_find(const char *name, size_t *row) {
    for (size_t i = 0; i < flag_count; i++)
        if (strcmp(flag_all[i].name, name) == 0) {
            *row = i;
            return &flag_all[i];
        }
    return NULL;
}

const char *arg(const struct args *a, const char *flag) {
    size_t row;
    return flag_find(flag, &row) ? a->value[row] : NULL;
}

bool arg_is(const struct args *a, const char *flag) {
    return arg(a, flag) != NULL;
}

/* The longest path that the first words spell. */
static const struct command *command_match(int argc, char **argv, int *used) {
    const struct command *best = NULL;
    *used = 0;
    for (size_t i = 0; i < command_count; i++) {
        const char *p = command_all[i].path;
        int n = 0;
        while (*p && n < argc) {
            size_t len = strcspn(p, " ");
            if (strlen(argv[n]) != len || strncmp(argv[n], p, len) != 0) break;
            p += len + (p[len] == ' ');
            n++;
        }
        if (!*p && n > *used) {
            best = &command_all[i];
            *used = n;
        }
    }
    return best;
}

static bool takes(const struct command *c, const char *name) {
    for (const char *const *f = c->flags; *f; f++)
        if (strcmp(*f, name) == 0) return true;
    return false;
}

static int usage(struct err *e, const struct command *c) {
    return err_hint(e, "see `sluice help%s%s`", c ? " " : "", c ? c->path : "");
}

static int take_flag(struct args *a, const char *name, const char *value, bool *used_value, struct err *e) {
    size_t row = 0;
    const struct flag *f = flag_find(name, &row);
    const struct option *o = option_find(name);
    *used_value = false;
    if (!takes(a->command, name) || (!f && !o)) {
        err_set(e, CODE_USAGE, "`sluice %s` has no flag '--%s'", a->command->path, name);
        return usage(e, a->command);
    }
    /* `--since` of history is a time of its own; everywhere else an option of the engine. */
    if (o) {
        *used_value = o->type != OPTION_BOOL;
        if (*used_value && !value) {
            err_set(e, CODE_USAGE, "--%s needs a value", name);
            return usage(e, a->command);
        }
        if (o->type != OPTION_LIST && options_given(&a->options, name)) return err_set(e, CODE_USAGE, "--%s is given twice", name);
        return options_set(&a->options, name, *used_value ? value : NULL, e);
    }
    *used_value = f->metavar != NULL;
    if (*used_value && (!value || !*value)) {
        err_set(e, CODE_USAGE, "--%s needs a value", name);
        return usage(e, a->command);
    }
    if (a->value[row]) return err_set(e, CODE_USAGE, "--%s is given twice", name);
    a->value[row] = *used_value ? arena_copy(a->options.arena, value, strlen(value), e) : "";
    return a->value[row] ? 0 : -1;
}

/* A DSN may hold a password, and argv is there for every user of the machine to read. */
static void scrub(char *s) {
    for (; *s; s++) *s = 'x';
}

static bool secretive(const char *name) {
    return strcmp(name, "source") == 0 || strcmp(name, "target") == 0 || strcmp(name, "encryption-passphrase") == 0;
}

static int take_word(struct args *a, int argc, char **argv, int *i, struct err *e) {
    char name[64];
    char *word = argv[*i], *eq = strchr(word, '=');
    size_t len = eq ? (size_t)(eq - word - 2) : strlen(word) - 2;
    bool used, apart;
    if (len == 0 || len >= sizeof name) return err_set(e, CODE_USAGE, "'%.40s' is no flag", word);
    memcpy(name, word + 2, len);
    name[len] = 0;
    apart = !eq && *i + 1 < argc;
    char *value = eq ? eq + 1 : apart ? argv[*i + 1] : NULL;
    if (take_flag(a, name, value, &used, e) < 0) return -1;
    if (eq && !used) return err_set(e, CODE_USAGE, "--%s takes no value", name);
    if (used && value && secretive(name)) scrub(value);
    if (used && apart) (*i)++;
    return 0;
}

/* What may follow the words that were typed. */
static int half_verb(int argc, char **argv, struct err *e) {
    char typed[64], more[300] = "";
    bool two = argc > 2 && argv[2][0] != '-';
    snprintf(typed, sizeof typed, "%s%s%s", argv[1], two ? " " : "", two ? argv[2] : "");
    size_t len = strlen(typed), n = 0;
    for (size_t i = 0; i < command_count && n < sizeof more; i++)
        if (strncmp(command_all[i].path, typed, len) == 0 && command_all[i].path[len] == ' ')
            n += (size_t)snprintf(more + n, sizeof more - n, "%s%s", n ? ", " : "", command_all[i].path + len + 1);
    return n ? err_hint(e, "`sluice %s` goes on with: %s; see `sluice help`", typed, more) : usage(e, NULL);
}

int args_parse(struct args *a, int argc, char **argv, struct err *e) {
    int used;
    memset(a, 0, sizeof *a);
    if (options_init(&a->options, e) < 0) return -1;
    if (argc < 2) {
        err_set(e, CODE_USAGE, "no verb");
        return usage(e, NULL);
    }
    static char help[] = "help", version[] = "version";
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) argv[1] = help;
    if (strcmp(argv[1], "--version") == 0) argv[1] = version;
    if (!(a->command = command_match(argc - 1, argv + 1, &used))) {
        err_set(e, CODE_USAGE, "unknown verb '%s%s%s'", argv[1], argc > 2 && argv[2][0] != '-' ? " " : "", argc > 2 && argv[2][0] != '-' ? argv[2] : "");
        return half_verb(argc, argv, e);
    }
    for (int i = 1 + used; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_help(a->command->path, 0);
            a->command = NULL;
            return 0;
        }
        if (strcmp(argv[i], "-y") == 0) {
            bool none;
            if (take_flag(a, "yes", NULL, &none, e) < 0) return -1;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            if (take_word(a, argc, argv, &i, e) < 0) return -1;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            err_set(e, CODE_USAGE, "'%s' is no flag", argv[i]);
            return usage(e, a->command);
        } else if (a->npos == a->command->max_args) {
            err_set(e, CODE_USAGE, "`sluice %s` does not take '%s'", a->command->path, argv[i]);
            return usage(e, a->command);
        } else if (!(a->pos[a->npos++] = arena_copy(a->options.arena, argv[i], strlen(argv[i]), e))) {
            return -1;
        }
    }
    a->options.flags = a->options.set;
    if (a->npos < a->command->min_args) {
        err_set(e, CODE_USAGE, "`sluice %s` needs %s", a->command->path, a->command->args);
        return usage(e, a->command);
    }
    return 0;
}

void args_free(struct args *a) {
    options_free(&a->options);
}

void cli_flag_about(const char *name, const char **metavar, const char **help) {
    size_t row;
    const struct flag *fl = flag_find(name, &row);
    const struct option *o = option_find(name);
    *metavar = fl ? fl->metavar : o ? o->metavar : NULL;
    *help = fl ? fl->help : o && o->help ? o->help : "";
}

static void help_flag(FILE *f, const char *name) {
    char left[64];
    const char *metavar, *help;
    cli_flag_about(name, &metavar, &help);
    snprintf(left, sizeof left, "--%s%s%s", name, metavar ? " " : "", metavar ? metavar : "");
    const char *drivers = strstr(help, CLI_DRIVERS);
    char known[128];
    db_driver_names(known);
    if (drivers) fprintf(f, "  %-33s %.*s%s%s\n", left, (int)(drivers - help), help, known, drivers + strlen(CLI_DRIVERS));
    else fprintf(f, "  %-33s %s\n", left, help);
}

void cli_help(const char *path, int to_stderr) {
    FILE *f = to_stderr ? stderr : stdout;
    if (!path) {
        fprintf(f, "sluice moves rows between databases through a log.\n\nusage: sluice VERB [flags]\n\n");
        for (size_t i = 0; i < command_count; i++) fprintf(f, "  %-24s %s\n", command_all[i].path, command_all[i].summary);
        fprintf(f, "\n`sluice help VERB` shows a verb's flags.\nExit codes: 0 done; 1 failed, may be tried again; 2 usage or configuration; 3 refused, an operator must act; "
                   "75 busy; 130 interrupted twice.\n");
        return;
    }
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_all[i];
        if (strcmp(c->path, path) != 0) continue;
        fprintf(f, "usage: sluice %s%s%s [flags]\n\n%s\n\n", c->path, c->args ? " " : "", c->args ? c->args : "", c->summary);
        for (const char *const *fl = c->flags; *fl; fl++) help_flag(f, *fl);
    }
}
