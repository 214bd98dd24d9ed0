/* The consumer's view of a chain's tables: by lineage number, with the shape in force, the target's name and the bound target table. */
#ifndef SLUICE_FLOW_TABLES_H
#define SLUICE_FLOW_TABLES_H

#include "drivers/db.h"
#include "engine/base/change.h"

struct flow_table {
    uint32_t number;
    const struct shape *shape;       /* in force; borrowed from the chain handle */
    char *ns, *name;                 /* on the target */
    bool wanted;                     /* the consumer's filter lets it through */
    bool dropped;                    /* the source dropped it */
    struct target_table *bound;      /* NULL until the first row needs it */
    /* How its changes are composed (window.c): */
    bool ordered;                    /* another unique key, no key, or a key not compared by bytes: source order is kept */
    bool keyless;                    /* no identity: matched by full image */
    uint64_t skip_seq;               /* records at or below it are in the rows of the full that was loaded */
};

struct tables {
    const struct db_driver *driver;
    struct target *target;
    const struct table_filter *filter;
    const char *const *map_ns; size_t nmap_ns; /* pairs */
    const char *source_ns;           /* the source's default namespace, mapped to the target's default */
    struct flow_table **v; size_t n; /* index = number; NULL where there is none */
};

int tables_init(struct tables *ts, const struct db_driver *driver, struct target *target, const struct table_filter *filter,
                const char *const *map_ns, size_t nmap_ns, struct err *e);
void tables_free(struct tables *ts);
/* Add, or give a table its next shape (which unbinds it). */
int tables_put(struct tables *ts, const struct shape *s, struct flow_table **out, struct err *e);
struct flow_table *tables_get(const struct tables *ts, uint32_t number); /* NULL if unknown */
int tables_bind(struct tables *ts, struct flow_table *t, struct err *e);
/* The namespace on the target; borrowed. */
const char *tables_ns(const struct tables *ts, const char *source_ns);
/* tables_ns as the driver's callback wants it (arg is the struct tables). */
const char *tables_ns_cb(void *arg, const char *source_ns);
/* A rename took a table into the consumer's scope, or out of it: CODE_SHAPE_CHANGED, INCLUDE-TABLE-SCOPE-DRIFT. */
int tables_refuse_drift(const struct shape *before, const struct shape *after, bool into, struct err *e);
/* Two tables that would become one on the target: CODE_NAME_COLLISION, both named. */
int tables_collisions(const struct tables *ts, struct err *e);

#endif
