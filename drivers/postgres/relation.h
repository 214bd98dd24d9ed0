/* The tables of a stream: what each looks like now, and what a Relation message makes of it. */
#ifndef SLUICE_DRIVERS_POSTGRES_RELATION_H
#define SLUICE_DRIVERS_POSTGRES_RELATION_H

#include "drivers/postgres/pgoutput.h"
#include "drivers/postgres/source.h"
#include "engine/base/change.h"

struct rel {
    uint32_t oid;
    const struct shape *shape;  /* in force; NULL while the table is skipped */
    bool announced;             /* a Relation message came in this stream */
    bool known;                 /* stood in the chain when the stream was opened, or was added to it since */
    bool at_now;                /* its shape was the catalogue's when its last message was looked at: newer than the survey */
    uint16_t nmsg;              /* columns of its tuples */
    uint16_t *map;              /* tuple column -> ordinal in shape; NULL when they are the same */
    uint8_t *key;               /* per ordinal: part of the identity that the server sends */
    int64_t dropped_upto;       /* columns up to this number that the catalogue showed as dropped … */
    uint64_t dropped_lsn;       /* … when the log ended here: rows of transactions behind it never saw them */
};

struct rels {
    struct source *s;
    struct rel *v; size_t n, cap;
    uint32_t *slots; size_t nslots;      /* open addressing: index + 1 into v */
    const struct shape **shapes; size_t nshapes, cap_shapes; /* owned: all that were ever in force */
};

int rels_init(struct rels *t, struct source *s, struct shape *const *known, size_t n, struct err *e);
void rels_free(struct rels *t);
struct rel *rels_find(const struct rels *t, uint32_t oid); /* NULL when it was never announced or known */

/* hop 1/8, the part that decides what a table looks like. Appends CHANGE_SHAPE to b when the shape that was in force is no longer.
 * commit_lsn: the commit record of the transaction that the message stands in. */
int rels_announce(struct rels *t, const struct pgo_msg *m, uint64_t commit_lsn, struct batch *b, struct err *e);

/* The log has passed a survey: every table whose shape in force is older than the survey's changed without a row behind it. Appends
 * CHANGE_SHAPE for each; takes the survey's shapes. */
int rels_survey(struct rels *t, struct survey *v, struct batch *b, struct err *e);

/* added.c: a shape between the two, when old rows hold something else in an added column than its default says; else *mid is NULL. */
int added_between(PGconn *c, const struct shape *before, const struct shape *now, struct shape **mid, struct err *e);

/* What a Relation message can be in the light of the shape in force and the catalogue as it is now. */
enum announced { ANNOUNCED_SAME, ANNOUNCED_NOW, ANNOUNCED_BETWEEN /* the first *head columns of the catalogue's */, ANNOUNCED_UNKNOWN };
struct announce_view {
    const struct pgo_msg *m;
    const char *const *natives;          /* type text per message column */
    const struct shape *known;           /* in force; may be NULL */
    const struct shape *now;             /* catalogue; NULL: the table is gone */
    const struct pg_cols *cols;          /* catalogue's columns, dropped ones too */
};
/* Pure. *why says what is ambiguous. */
enum announced announce_decide(const struct announce_view *v, uint16_t *head, const char **why);

#endif
