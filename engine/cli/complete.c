/* The bash completion, from the table of commands. DESIGN.
 * 1. The script holds all it offers: completing a word starts no process and looks at no control DB.
 * 2. It reads the line as args_parse does: words that lead along a verb's path, flags and their values anywhere, then arguments. */
#include <ctype.h>
#include <string.h>

#include "engine/base/embed.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"

/* Where the line stands: in `path` (the verb so far), behind a flag that wants a value (`want`), or inside --flag=value (`pre`). The last two cases are
 * one to people and differ by COMP_WORDBREAKS. */
static const char script[] =
    "_sluice() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} path='' want='' pre='' verb word words i\n"
    "    local IFS=$' \\t\\n'\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ $word == = ]]; then continue; fi\n"
    "        if [[ -n $want ]]; then want=''; continue; fi\n"
    "        case $word in\n"
    "        --*=*) ;;\n"
    "        -*) [[ -n $(_sluice_value \"$word\") ]] && want=$word ;;\n"
    "        *) path=${path:+$path }$word ;;\n"
    "        esac\n"
    "    done\n"
    "    verb=$path\n"
    "    [[ $path == help || $path == 'help '* ]] && { verb=${path#help}; verb=${verb# }; }\n"
    "    if [[ $cur == = ]]; then cur=''; fi\n"
    "    if [[ -z $want && $cur == --*=* ]]; then want=${cur%%=*}; pre=$want=; cur=${cur#*=}; fi\n"
    "    if [[ -n $want ]]; then\n"
    "        words=$(_sluice_value \"$want\")\n"
    "        case $words in\n"
    "        FILE) compopt -o filenames 2>/dev/null; words=$(compgen -f -- \"$cur\") ;;\n"
    "        DIR) compopt -o filenames 2>/dev/null; words=$(compgen -d -- \"$cur\") ;;\n"
    "        '' | ANY) return ;;\n"
    "        *) words=$(compgen -W \"$words\" -- \"$cur\") ;;\n"
    "        esac\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        words=$(compgen -W \"$(_sluice_flags \"$path\")\" -- \"$cur\")\n"
    "    else\n"
    "        words=$(compgen -W \"$(_sluice_next \"$verb\")\" -- \"$cur\")\n"
    "    fi\n"
    "    while IFS= read -r word; do\n"
    "        [[ -n $word ]] && COMPREPLY+=(\"$pre$word\")\n"
    "    done <<<\"$words\"\n"
    "}\n"
    "complete -F _sluice sluice\n";

static bool begins(const char *s, const char *with, size_t n) {
    return strncmp(s, with, n) == 0;
}

/* The words that may stand behind the first n bytes of p, each once: of the commands that begin so. */
static int next_words(struct buf *b, const char *p, size_t n, struct err *e) {
    const char *last = "";
    size_t last_n = 0;
    for (size_t i = 0; i < command_count; i++) {
        const char *path = command_all[i].path;
        if (n && (!begins(path, p, n) || path[n] != ' ')) continue;
        const char *word = path + n + (n ? 1 : 0);
        size_t len = strcspn(word, " ");
        if (len == last_n && begins(word, last, len)) continue; /* commands of one beginning stand together in the table */
        if (buf_addf(b, e, "%s%.*s", last_n ? " " : "", (int)len, word) < 0) return -1;
        last = word;
        last_n = len;
    }
    return 0;
}

/* Kinds of entities: the machines that are compiled in. */
static int kinds(struct buf *b, struct err *e) {
    bool any = false;
    for (size_t i = 0; i < embed_count; i++) {
        if (!begins(embed_all[i].name, "machine/", 8)) continue;
        if (buf_addf(b, e, "%s%s", any ? " " : "", embed_all[i].name + 8) < 0) return -1;
        any = true;
    }
    return 0;
}

static bool beginning_seen(size_t row, size_t n) {
    for (size_t i = 0; i < row; i++)
        if (begins(command_all[i].path, command_all[row].path, n) && command_all[i].path[n] == ' ') return true;
    return false;
}

static int add_next(struct buf *b, struct err *e) {
    if (buf_adds(b, "_sluice_next() {\n    case $1 in\n    '') echo '", e) < 0 || next_words(b, "", 0, e) < 0 || buf_adds(b, "' ;;\n", e) < 0) return -1;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_all[i];
        for (const char *at = strchr(c->path, ' '); at; at = strchr(at + 1, ' ')) {
            size_t n = (size_t)(at - c->path);
            if (beginning_seen(i, n)) continue;
            if (buf_addf(b, e, "    '%.*s') echo '", (int)n, c->path) < 0 || next_words(b, c->path, n, e) < 0 || buf_adds(b, "' ;;\n", e) < 0) return -1;
        }
        if (!c->args || (!strstr(c->args, "KIND"))) continue;
        if (buf_addf(b, e, "    '%s') echo '", c->path) < 0 || kinds(b, e) < 0 || buf_adds(b, "' ;;\n", e) < 0) return -1;
    }
    return buf_adds(b, "    esac\n}\n", e);
}

static int add_flags(struct buf *b, struct err *e) {
    if (buf_adds(b, "_sluice_flags() {\n    case $1 in\n", e) < 0) return -1;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_all[i];
        /* Behind the path there may stand arguments. */
        if (buf_addf(b, e, "    '%s'%s) echo '--help", c->path, c->max_args ? "*" : "") < 0) return -1;
        for (const char *const *f = c->flags; *f; f++)
            if (buf_addf(b, e, " --%s", *f) < 0) return -1;
        if (buf_adds(b, "' ;;\n", e) < 0) return -1;
    }
    return buf_adds(b, "    *) echo --help ;;\n    esac\n}\n", e);
}

/* What can be said of a value from its metavar: files, folders, the words among its alternatives; ANY otherwise. */
static int add_value(struct buf *b, const char *metavar, struct err *e) {
    char drivers[128];
    bool any = false;
    if (strcmp(metavar, "FILE") == 0 || strcmp(metavar, "PATH") == 0) return buf_adds(b, "FILE", e);
    if (strcmp(metavar, "DIR") == 0) return buf_adds(b, "DIR", e);
    if (strcmp(metavar, "FORMAT") == 0) return buf_adds(b, "table json csv text", e);
    if (strcmp(metavar, "DRIVER") == 0) {
        db_driver_names(drivers);
        for (char *p = drivers; *p; p++)
            if (*p != ',' && buf_addc(b, *p, e) < 0) return -1;
        return 0;
    }
    for (const char *w = metavar; *w;) {
        size_t n = strcspn(w, "|");
        if (islower((unsigned char)*w)) {
            if (buf_addf(b, e, "%s%.*s", any ? " " : "", (int)n, w) < 0) return -1;
            any = true;
        }
        w += n + (w[n] == '|');
    }
    return any ? 0 : buf_adds(b, "ANY", e);
}

static int add_values(struct buf *b, struct err *e) {
    if (buf_adds(b, "_sluice_value() {\n    case $1 in\n", e) < 0) return -1;
    for (size_t i = 0; i < flag_count + option_count; i++) {
        const char *name = i < flag_count ? flag_all[i].name : option_all[i - flag_count].name, *metavar, *help;
        cli_flag_about(name, &metavar, &help);
        if (!metavar) continue;
        if (buf_addf(b, e, "    --%s) echo '", name) < 0 || add_value(b, metavar, e) < 0 || buf_adds(b, "' ;;\n", e) < 0) return -1;
    }
    return buf_adds(b, "    esac\n}\n", e);
}

int cli_completion_bash(struct buf *b, struct err *e) {
    if (buf_adds(b, "# bash completion for sluice, made by `sluice help --completion bash`\n", e) < 0) return -1;
    if (add_next(b, e) < 0 || add_flags(b, e) < 0 || add_values(b, e) < 0) return -1;
    return buf_adds(b, script, e);
}
