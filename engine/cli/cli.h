/* The command line: one table of verbs and flags; parsing, help, completion and the man page come from it. */
#ifndef SLUICE_CLI_CLI_H
#define SLUICE_CLI_CLI_H

#include "engine/base/err.h"
#include "engine/control/control.h"
#include "engine/flow/flow.h"

#define CLI_DRIVERS "{drivers}" /* in a help text: the names of the registered drivers are put there */
#define CLI_VERSION "0.1"

struct flag { const char *name, *metavar, *help; }; /* metavar NULL: takes no value */

struct args;

struct command {
    const char *path;          /* "backup full" */
    const char *summary;
    const char *const *flags;  /* names, NULL-terminated; in option_all or in flag_all */
    const char *args;          /* of the positional arguments, NULL if it takes none */
    int min_args, max_args;
    const char *sql;           /* the named statement it is, for --explain-sql; NULL if it is more than one */
    int (*run)(struct args *a, struct err *e);
};
extern const struct command command_all[];
extern const size_t command_count;
extern const struct flag flag_all[];
extern const size_t flag_count;

struct args {
    const struct command *command;
    struct options options;         /* the engine's */
    const char *value[64];          /* by row of flag_all: NULL = not given; "" for a flag without value */
    const char *pos[8]; int npos;
    int exit_code;                  /* set by a verb whose codes mean something of their own (sync health); else 0 */
};
/* Fills a->command and everything else; strings are copied, argv is scrubbed where it may hold a secret. */
int args_parse(struct args *a, int argc, char **argv, struct err *e);
void args_free(struct args *a);
const char *arg(const struct args *a, const char *flag); /* NULL if not given */
bool arg_is(const struct args *a, const char *flag);

/* Shared by the verbs. */
int cli_control(struct args *a, struct control **c, struct err *e);       /* --control, --control-wait */
int cli_format(struct args *a, enum report_format *f, struct err *e);     /* --format table|json|csv */
int cli_json(struct args *a, bool *json, struct err *e);                  /* --format text|json */
int cli_duration(struct args *a, const char *flag, int64_t dflt_us, int64_t *us, struct err *e);
/* The store's URL from the pair of flags (both or neither is refused), made absolute. Caller frees. */
int cli_store_url(struct args *a, char **url, struct err *e);
int cli_dsn(struct args *a, const char *role /* "source", "target" */, const char *env, const char **driver, const char **dsn, struct err *e);
/* Put endpoints and the entity as the flags say, then open the job. name is the entity's. */
/* keep_config: what the entity was configured with stays and holds, under the flags of this run: an incremental follows the scope of
 * its full, and its --max-changes is not the next one's. */
struct cli_job { bool keep_config; const char *kind, *name, *store_url, *source_driver, *source_dsn, *target_driver, *target_dsn; };
int cli_job_open(struct args *a, struct control *c, const struct cli_job *cj, struct job **j, struct err *e);
/* The producer's name: --name, else the one on this control DB that writes this store, else the first 12 digits of the lineage. */
int cli_producer_name(struct args *a, struct control *c, const char *store_url, char name[256], struct err *e);
int cli_chain(const char *url, struct store **s, struct chain **c, struct err *e); /* CODE_CHAIN_MISSING */
/* A flag's metavar (NULL: it takes no value) and help, as help, completion and the man page show them. */
void cli_flag_about(const char *name, const char **metavar, const char **help);
void cli_help(const char *path /* NULL: all */, int to_stderr);
int cli_completion_bash(struct buf *b, struct err *e);
int cli_man(struct buf *b, struct err *e);
int cli_print(struct buf *b, struct err *e); /* stdout; a closed or full one is CODE_IO */

int cmd_backup_full(struct args *a, struct err *e);
int cmd_backup_incremental(struct args *a, struct err *e);
int cmd_stream_run(struct args *a, struct err *e);
int cmd_stream_stop(struct args *a, struct err *e);
int cmd_backup_list(struct args *a, struct err *e);
int cmd_backup_show(struct args *a, struct err *e);
int cmd_backup_verify(struct args *a, struct err *e);
int cmd_backup_gc(struct args *a, struct err *e);
int cmd_source_clean(struct args *a, struct err *e);
int cmd_restore(struct args *a, struct err *e);
int cmd_broker_run(struct args *a, struct err *e);
int cmd_broker_stop(struct args *a, struct err *e);
int cmd_sync_status(struct args *a, struct err *e);
int cmd_sync_health(struct args *a, struct err *e);
/* Print a report again and again until a signal: redrawn on a terminal, one below the other elsewhere. */
int cli_watch(struct control *c, const char *sql_name, enum report_format f, int64_t every_us, struct err *e);
int cmd_run(struct args *a, struct err *e);
int cmd_sql(struct args *a, struct err *e);
int cmd_machine(struct args *a, struct err *e);
int cmd_history(struct args *a, struct err *e);
int cmd_control_check(struct args *a, struct err *e);
int cmd_control_rebuild(struct args *a, struct err *e);
int cmd_control_backup(struct args *a, struct err *e);
int cmd_control_export(struct args *a, struct err *e);
int cmd_errors(struct args *a, struct err *e);
int cmd_help(struct args *a, struct err *e);
int cmd_version(struct args *a, struct err *e);

#endif
