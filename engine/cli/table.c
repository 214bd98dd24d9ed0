/* Every verb and every flag. An option that is parsed and ignored would be a lie: what a store cannot use is refused by name (cli_store_url). */
#include <stddef.h>

#include "engine/base/mem.h"
#include "engine/cli/cli.h"

const struct flag flag_all[] = {
    {"control", "FILE", "the control DB (else SLUICE_CONTROL, else the state directory)"},
    {"control-wait", "DUR", "how long to wait for a locked control DB (60s)"},
    {"log-format", "text|json", "of the log on stderr"},
    {"log-level", "error|warn|info|debug", "how much of it (info)"},
    {"explain-sql", NULL, "print the SQL that the verb runs on the control DB, and do nothing"},
    {"format", "FORMAT", "of the result on stdout: json; csv too where it is a table"},
    {"name", "NAME", "of the producer (default: the first 12 digits of the lineage id)"},
    {"source-driver", "DRIVER", "one of: " CLI_DRIVERS},
    {"source", "DSN", "the source database, else SLUICE_SOURCE; a password may be ${VAR} or file:PATH"},
    {"target", "DSN|URL", "the target database, else SLUICE_TARGET; of a backup verb: the store's URL"},
    {"target-driver", "DRIVER", "one of: " CLI_DRIVERS},
    {"output-dir", "DIR", "the store, as a folder"},
    {"from", "URL", "the store to read"},
    {"from-dir", "DIR", "the store to read, as a folder"},
    {"backup-target", "URL", "the store to follow"},
    {"backup-dir", "DIR", "the store to follow, as a folder"},
    {"backup-endpoint", "URL", "endpoint of an S3-compatible store (not in this version: refused)"},
    {"backup-region", "REGION", "region of an S3-compatible store (not in this version: refused)"},
    {"backup-path-style", NULL, "path-style addressing of an S3-compatible store (not in this version: refused)"},
    {"encrypt", NULL, "seal the chain (not in this version: refused)"},
    {"encryption-passphrase", "TEXT", "key source of --encrypt"},
    {"encryption-passphrase-env", "VAR", "key source of --encrypt"},
    {"encryption-passphrase-file", "PATH", "key source of --encrypt"},
    {"encrypt-mode", "MODE", "mode of --encrypt"},
    {"stream-id", "ID", "names the broker and its row on the target"},
    {"wait", NULL, "wait until it has ended"},
    {"timeout", "DUR", "how long to wait (5m)"},
    {"depth", "hash|read", "hash: digests and links; read: parse every record too (hash)"},
    {"older-than", "DUR", "leave younger objects alone (1h)"},
    {"steps", "N", "at most so many steps (1)"},
    {"dot", NULL, "as a graph for dot(1)"},
    {"man", NULL, "print the man page"},
    {"completion", "bash", "print a completion script"},
    {"watch", "DUR", "again and again until interrupted; redrawn on a terminal"},
    {"max-lag-links", "N", "behind with more links than this (not looked at)"},
    {"max-lag-seconds", "N", "behind when the oldest link that is not applied is older (900)"},
    {"max-stale-seconds", "N", "stale when nothing was heard of it for longer (900)"},
};
const size_t flag_count = MEM_ARRAY_LEN(flag_all);

#define LOGGING "log-format", "log-level"
#define COMMON "control", "control-wait", LOGGING
#define STORE_X "backup-endpoint", "backup-region", "backup-path-style", "encrypt", "encryption-passphrase", "encryption-passphrase-env", "encryption-passphrase-file", "encrypt-mode"
#define STORE_W "target", "output-dir", STORE_X
#define STORE_R "from", "from-dir", "target", "output-dir", STORE_X
#define STORE_B "backup-target", "backup-dir", STORE_X
#define SOURCE "source-driver", "source", "allow-blocking", "keyless-max-bytes", "slot-name"

static const char *const f_full[] = {COMMON, "name", SOURCE, STORE_W, "chain-slot", "include-table", "exclude-table", "publish-all", "table-parallelism", "chunk-size",
                                     "compression", "force-overwrite", "dry-run", "format", NULL};
static const char *const f_incr[] = {COMMON, "name", SOURCE, STORE_W, "include-table", "exclude-table", "since", "window", "max-changes", "chunk-size", "compression", "dry-run", "format", NULL};
static const char *const f_stream[] = {COMMON, "name", SOURCE, STORE_W, "include-table", "exclude-table", "since", "rollover-window", "rollover-max-changes", "rollover-max-bytes", "include-empty", "rollover-hook",
                                       "retain-rotate-at-chain-length", "retain-rotate-at", "policy",
                                       "chunk-size", "compression", NULL};
static const char *const f_sstop[] = {LOGGING, STORE_W, NULL};
static const char *const f_read[] = {LOGGING, STORE_R, "format", NULL};
static const char *const f_verify[] = {LOGGING, STORE_R, "depth", "format", NULL};
static const char *const f_gc[] = {LOGGING, STORE_R, "older-than", "dry-run", "format", NULL};
static const char *const f_restore[] = {COMMON, "from", "from-dir", STORE_X, "target-driver", "target", "include-table", "exclude-table", "map-schema", "control-schema",
                                        "table-parallelism", "apply-concurrency", "to-id", "to-position", "to-time", "dry-run", "format", NULL};
static const char *const f_broker[] = {COMMON, STORE_B, "target-driver", "target", "stream-id", "poll-interval", "until", "apply-delay", "apply-concurrency", "reset-target-data", "at-chain-id", "yes",
                                       "once", "dry-run", "policy", "include-table", "exclude-table", "map-schema", "control-schema", "table-parallelism", NULL};
static const char *const f_bstop[] = {COMMON, STORE_B, "target-driver", "target", "control-schema", "stream-id", "wait", "timeout", NULL};
static const char *const f_run[] = {COMMON, "steps", "until", NULL};
static const char *const f_report[] = {COMMON, "format", NULL};
static const char *const f_status[] = {COMMON, "format", "watch", "explain-sql", NULL};
static const char *const f_health[] = {COMMON, "format", "max-lag-links", "max-lag-seconds", "max-stale-seconds", "explain-sql", NULL};
static const char *const f_history[] = {COMMON, "format", "since", "explain-sql", NULL};
static const char *const f_machine[] = {COMMON, "dot", NULL};
static const char *const f_plain[] = {COMMON, NULL};
static const char *const f_errors[] = {"format", NULL};
static const char *const f_help[] = {"man", "completion", NULL};
static const char *const f_none[] = {NULL};
static const char *const f_clean[] = {"log-format", "log-level", "source-driver", "source", "slot-name", "yes", NULL};

const struct command command_all[] = {
    {"backup full", "take a full, the root of a chain", f_full, NULL, 0, 0, NULL, cmd_backup_full},
    {"backup incremental", "add a link with what changed since", f_incr, NULL, 0, 0, NULL, cmd_backup_incremental},
    {"backup stream run", "keep a chain fed: a link per rollover, until stopped", f_stream, NULL, 0, 0, NULL, cmd_stream_run},
    {"backup stream stop", "ask the continuous producer of a chain to end", f_sstop, NULL, 0, 0, NULL, cmd_stream_stop},
    {"backup list", "the links of a chain", f_read, NULL, 0, 0, NULL, cmd_backup_list},
    {"backup show", "one link, or the whole chain in brief", f_read, "[ID]", 0, 1, NULL, cmd_backup_show},
    {"backup verify", "prove that a chain can be restored", f_verify, NULL, 0, 0, NULL, cmd_backup_verify},
    {"backup gc", "remove what no catalogue refers to", f_gc, NULL, 0, 0, NULL, cmd_backup_gc},
    {"source clean", "take down what anchors chains on a source, when no chain needs it", f_clean, NULL, 0, 0, NULL, cmd_source_clean},
    {"restore", "rebuild a chain's tables in an empty target", f_restore, NULL, 0, 0, NULL, cmd_restore},
    {"sync from-backup run", "replay a chain into a target, for as long as it runs", f_broker, NULL, 0, 0, NULL, cmd_broker_run},
    {"sync from-backup stop", "ask brokers of a chain to end", f_bstop, NULL, 0, 0, NULL, cmd_broker_stop},
    {"sync status", "where every broker and producer stands", f_status, NULL, 0, 0, "report/status", cmd_sync_status},
    {"sync health", "are brokers and producers well: 0 healthy, 1 behind, stale or refused, 2 could not tell", f_health, "[NAME]", 0, 1, "report/health", cmd_sync_health},
    {"run", "advance an entity by hand or from cron", f_run, "KIND NAME", 2, 2, NULL, cmd_run},
    {"sql", "ask the control DB", f_report, "[QUERY]", 0, 1, NULL, cmd_sql},
    {"machine", "states and edges of a kind", f_machine, "[KIND]", 0, 1, NULL, cmd_machine},
    {"history", "who moved what, when, why", f_history, "[NAME]", 0, 1, "report/history", cmd_history},
    {"control check", "prove that the control DB is what sluice made", f_plain, NULL, 0, 0, NULL, cmd_control_check},
    {"control rebuild", "read positions and chains again from targets and stores", f_plain, NULL, 0, 0, NULL, cmd_control_rebuild},
    {"control backup", "copy the control DB while it is in use", f_plain, "FILE", 1, 1, NULL, cmd_control_backup},
    {"control export", "history and seals as JSON lines, for auditors", f_plain, NULL, 0, 0, NULL, cmd_control_export},
    {"errors", "every error code and marker with its remedy", f_errors, "[CODE]", 0, 1, NULL, cmd_errors},
    {"help", "this list, or one verb", f_help, "[VERB…]", 0, 3, NULL, cmd_help},
    {"version", "the version", f_none, NULL, 0, 0, NULL, cmd_version},
};
const size_t command_count = MEM_ARRAY_LEN(command_all);
