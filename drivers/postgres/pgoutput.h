/* The messages of pgoutput, decoded without a connection. Source: PostgreSQL manual, "Logical Replication Message Formats". */
#ifndef SLUICE_DRIVERS_POSTGRES_PGOUTPUT_H
#define SLUICE_DRIVERS_POSTGRES_PGOUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/value.h"

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in microseconds since 1970 */

struct pgo_col {
    const char *name;
    uint32_t type;
    int32_t typmod;
    bool key;          /* part of the replica identity */
};

struct pgo_msg {
    char tag;          /* B C R I U D T; 0: one that says nothing to us (origin, type, logical message) */
    uint64_t lsn;      /* B, C: start of the commit record */
    uint64_t end_lsn;  /* C: its end */
    int64_t time_us;   /* B, C: commit time, microseconds since 1970 */
    uint32_t xid;      /* B */
    uint32_t relid;    /* R I U D */
    const char *ns, *name; char replident; uint16_t ncols; struct pgo_col *cols;  /* R */
    char old_kind;     /* U, D: 'K' key columns, 'O' the whole old row, 0 none */
    uint16_t nold, nnew;
    struct value *old_row, *new_row;                                              /* I U D: one for each column of the Relation message */
    uint32_t nrels; uint32_t *rels; bool cascade, restart;                        /* T */
};

/* Decode one message of n bytes, protocol 1 or 2 without streaming. Arrays live in a; texts point into the message.
 * Errors: ERR_RETRY (CODE_SERVER) when the bytes are not such a message, ERR_BUG on a tag that was not asked for. */
int pgoutput_decode(const char *p, size_t n, struct arena *a, struct pgo_msg *m, struct err *e);

#endif
