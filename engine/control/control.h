/* The control DB: one SQLite file that operators query, audit and configure with SQL. DESIGN stands in open.c.
 *
 * A struct control belongs to one thread. No network call happens while a transaction of it is open. */
#ifndef SLUICE_CONTROL_CONTROL_H
#define SLUICE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

struct control;

struct control_opts {
    const char *path;        /* NULL: SLUICE_CONTROL, else the default place (created 0700) */
    int64_t wait_us;         /* --control-wait; 0 = 60 s */
    const char *actor;       /* who moves things: "cli:backup full", "run", … ; the user's name is added */
    bool inspect;            /* read-only, and opens a tampered file: for control_check, control_backup, control_export */
};
/* Open, create, migrate. Refuses: tampered, newer, broken last seal, network file system. CODE_CONTROL_LOCKED after wait_us. */
int control_open(const struct control_opts *o, struct control **c, struct err *e);
void control_close(struct control *c);
const char *control_path(const struct control *c);

/* ---- endpoints, settings ---------------------------------------------------------------------------------------------- */

enum endpoint_role { ENDPOINT_SOURCE, ENDPOINT_TARGET, ENDPOINT_STORE };
/* Insert or update an endpoint by name. A password in the DSN is sealed with <control>.key; `${VAR}` and `file:PATH` are kept and resolved at use. */
int endpoint_put(struct control *c, const char *name, enum endpoint_role role, const char *driver, const char *dsn, struct err *e);
/* The DSN with its secrets resolved; caller frees with mem_free. */
int endpoint_dsn(struct control *c, const char *name, char **driver, char **dsn, struct err *e);
/* The table setting as one JSON object of texts; caller frees with mem_free. */
int settings_json(struct control *c, char **json, struct err *e);
/* Resolve `${VAR}` and `file:PATH` in a DSN given on the command line. */
int secret_resolve(const char *dsn, char **out, struct err *e);

/* ---- entities --------------------------------------------------------------------------------------------------------- */

struct entity {
    int64_t id;
    char kind[16];          /* producer, broker, task */
    char name[256];
    char state[32];
    int64_t token;
    char *config;           /* JSON object: the options of the kind, in the flags' names; mem_alloc'd */
    char *checkpoint;       /* JSON object or NULL: what the step left */
    char source[128], target[128], store[128]; /* endpoint names, empty when none */
};
void entity_free(struct entity *en); /* the strings in it */
/* By kind and name. *found false when absent. */
int entity_find(struct control *c, const char *kind, const char *name, struct entity *en, bool *found, struct err *e);
/* The newest entity of the kind whose store endpoint has this DSN. */
int entity_by_store(struct control *c, const char *kind, const char *store_dsn, char name[256], bool *found, struct err *e);
/* Insert in the kind's initial state, or update config and endpoints of the one that is there (recorded in history as `configured`). */
int entity_put(struct control *c, struct entity *en, struct err *e);

/* Owning: an OFD write lock on byte `id` of <control>.lock. CODE_BUSY (exit 75) names pid and start of the holder. */
int entity_own(struct control *c, struct entity *en, struct err *e);
void entity_disown(struct control *c, struct entity *en);
int entity_owner_check(struct control *c, struct err *e); /* the lock file is still the one we locked; once per tick */

/* Advance: one transaction WHERE token = mine AND state = seen; history written by trigger; *moved false when someone else moved it (en is read
 * again). detail is JSON or NULL; checkpoint NULL keeps what is there. */
int entity_advance(struct control *c, struct entity *en, const char *event, const char *detail, const char *checkpoint, const struct err *why,
                   bool *moved, struct err *e);
/* The step function's name for the entity's state ("" for a state without one), and whether `event` leaves it. */
int machine_step(struct control *c, const char *kind, const char *state, char step[64], bool *tailing, struct err *e);
bool machine_has_event(struct control *c, const char *kind, const char *state, const char *event);
/* Both ways at start: every step named in SQL is in `names` and the other way round. */
int machine_check(struct control *c, const char *const *names, size_t n, struct err *e);
int machine_print(struct control *c, const char *kind /* NULL: all */, bool dot, struct buf *out, struct err *e);

/* ---- what only the control DB knows ------------------------------------------------------------------------------------ */

/* Mirrors: best effort, at most once a second by the caller, synchronous=NORMAL; a locked DB is not an error. */
struct mirror {
    const char *link_id, *pos;
    uint64_t seq;
    uint64_t lag_links, lag_bytes; int64_t lag_us; /* -1 = unknown */
    uint64_t rows;
};
void position_mirror(struct control *c, const struct entity *en, const struct mirror *m);
/* JSON object; chain: source_engine, source_identity, slot_name, extendable, segment, full_complete, nlinks, tip_id, tip_seq, tip_pos, tip_time_us,
 * covered_pos; "segments": [{segment, first_n, full_complete}], "links": [{n, id, segment, attempt, start_seq, end_seq, bytes, time_us, opening}].
 * All optional; links and segments given are added to those that are there. Another lineage at the same store takes the place of the old one. */
void chain_mirror(struct control *c, const char *store_endpoint, const char *lineage, const char *json_segments_links);

/* Every entity, oldest first; fn returns non-zero to stop. */
int entity_each(struct control *c, int (*fn)(void *arg, const struct entity *en), void *arg, struct err *e);

int request_add(struct control *c, const char *kind, const char *name, const char *verb /* stop */, struct err *e);
/* The oldest open request for the entity made after `since_id`; *id 0 when none. Best effort on a locked DB. */
int request_next(struct control *c, const struct entity *en, int64_t since_id, int64_t *id, char verb[32], struct err *e);
int request_last_id(struct control *c, int64_t *id, struct err *e);
int request_done(struct control *c, int64_t id, const char *result, struct err *e);
int refusal_record(struct control *c, const struct entity *en, const struct err *why, struct err *e);
int refusal_clear(struct control *c, const struct entity *en, struct err *e);

/* ---- reports, operators -------------------------------------------------------------------------------------------------- */

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV };
struct bind { const char *name; const char *text; int64_t i; bool is_int, is_null; }; /* name with its colon */
/* Run a named block and print its rows on stdout. */
int report_run(struct control *c, const char *sql_name, const struct bind *b, size_t nb, enum report_format f, struct err *e);
/* The same, and in the same snapshot: how many rows it has, and for how many of them `where` (of its columns) holds. */
int report_judge(struct control *c, const char *sql_name, const struct bind *b, size_t nb, enum report_format f, const char *where, int64_t *rows,
                 int64_t *hits, struct err *e);
int report_sql(struct control *c, const char *sql, enum report_format f, struct err *e); /* an operator's own query */
int control_check(struct control *c, struct buf *findings, size_t *nfindings, struct err *e); /* all seals, triggers, foreign keys, edges */
int control_backup(struct control *c, const char *to_path, struct err *e);
int control_export(struct control *c, struct err *e); /* history with seals as JSON lines on stdout */

#endif
