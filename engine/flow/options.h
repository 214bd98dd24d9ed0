/* Options of the work that entities do: one table serves the command line (--slot-name), an entity's config in the control DB ("slot-name") and
 * the code. */
#ifndef SLUICE_FLOW_OPTIONS_H
#define SLUICE_FLOW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

struct list { const char **v; size_t n; };

struct options {
    /* producer */
    struct list include_table, exclude_table;
    bool chain_slot, publish_all, allow_blocking, force_overwrite;
    const char *slot_name, *compression, *since;
    uint64_t table_parallelism, chunk_size, keyless_max_bytes, max_changes;
    int64_t window_us;
    bool continuous, include_empty;  /* backup stream run */
    int64_t rollover_us;
    uint64_t rollover_max_bytes;
    const char *rollover_hook;
    uint64_t rotate_length;          /* links of a segment; 0 = no limit */
    int64_t rotate_age_us;
    /* restore, broker */
    struct list map_schema;         /* "A=B" each */
    const char *control_schema, *to_id, *to_position, *to_time, *at_chain_id;
    int64_t poll_us, apply_delay_us;
    const char *until;
    uint64_t apply_concurrency;
    bool reset, yes, once;
    bool dry_run;
    struct arena *arena;            /* owns the strings */
    const char *policy;             /* a Lua file in the place of lua/policy.lua */
    const char *lineage;            /* a fresh chain gets this id, so that its producer can be named before it exists */
    uint64_t set;                   /* bit per row of the table: given by somebody */
    uint64_t flags;                 /* of those, given on the command line of this run */
};
enum option_type { OPTION_BOOL, OPTION_U64, OPTION_BYTES, OPTION_DURATION, OPTION_STR, OPTION_LIST };

struct option {
    const char *name;       /* without dashes */
    enum option_type type;
    size_t offset;
    bool kept;              /* stands in the entity's config; the others belong to one run */
    const char *metavar, *help;
    uint64_t max;           /* of a number; 0: none */
};
extern const struct option option_all[];
extern const size_t option_count;

int options_init(struct options *o, struct err *e);
void options_free(struct options *o);
const struct option *option_find(const char *name);
bool options_given(const struct options *o, const char *name);
bool options_flagged(const struct options *o, const char *name);
/* value NULL for a flag without one. Lists add up; commas part them. CODE_USAGE names the flag. */
int options_set(struct options *o, const char *name, const char *value, struct err *e);
/* A config object of the control DB. Unknown keys and wrong types are CODE_CONFIG. What was set before stays (the command line wins). */
int options_from_json(struct options *o, const char *json, struct err *e);
/* Defaults of the installation, in the same form, for what is not set; they do not count as given. Only amounts and intervals may have one, never what
 * decides which rows go where: CODE_CONFIG names the others. */
int options_defaults(struct options *o, const char *json, struct err *e);
/* The kept options that were given, as one object. */
int options_to_json(const struct options *o, struct buf *b, struct err *e);

#endif
