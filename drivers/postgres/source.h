/* What the files of PostgreSQL as a source share. */
#ifndef SLUICE_DRIVERS_POSTGRES_SOURCE_H
#define SLUICE_DRIVERS_POSTGRES_SOURCE_H

#include "drivers/postgres/pg.h"

/* The published tables' shapes at one end of the log: see survey.c. */
struct survey { uint64_t lsn; struct shape **v; size_t n; };

struct source {
    struct source_opts o;  /* dsn and slot_name are ours, the filter borrowed */
    PGconn *c;
    struct survey survey;  /* of the last `end`, until a stream takes it */
};

struct pg_facts {
    char wal_level[16], role[128], db[128], encoding[32];
    bool replication, superuser, can_create, slot_there, publication_there, recovery;
    int64_t slots_free, senders_free, db_oid;
};
int source_facts(struct source *s, struct pg_facts *f, struct err *e);                  /* source.c */

/* Does the filter let the table through? A partition follows its root too: by its own name or the root's, and out when either is excluded.
 */
bool source_wants(const struct source *s, const char *ns, const char *name, const char *root_ns, const char *root_name);

/* survey.c */
int survey_take(struct source *s, char end[32], struct err *e); /* the log's end too */
void survey_free(struct survey *v);

/* catalog.c */
int source_catalog(struct source *s, bool for_chain, struct catalog **c, struct err *e);
/* Sequences of the tables (by oid) and those that stand alone and pass the filter, with values. */
int source_sequences(struct source *s, PGconn *c, const int64_t *oids, size_t noids, struct arena *a, struct object **o, size_t *n,
                     struct catalog *warn, struct err *e);
int source_sequences_again(struct source *s, struct catalog *c, struct err *e);
int pg_oid_list(struct buf *b, const int64_t *oids, size_t n, struct err *e);            /* {1,2,3} */
/* Why changes of this table could not be logged; NULL when its replica identity is usable. */
const char *replica_identity_fault(const struct shape *s, char replident);

/* publication.c */
int publication_create(struct source *s, const struct catalog *c, struct err *e);
int publication_drop(struct source *s, struct err *e);
/* Every table that is known and still there must be published whole: CODE_PUBLICATION. */
int publication_check(struct source *s, struct shape *const *known, size_t n, struct err *e);

/* slot.c */
int source_anchor_absent(struct source *s, struct err *e);
int source_unanchor(struct source *s, struct err *e);
int source_check(struct source *s, const struct pos *from, const struct pos *covered, struct err *e);
/* Create the slot on replication connection c, temporary or not, exporting its snapshot. */
int slot_create(PGconn *c, const char *name, bool temporary, struct pos *p, char snapshot[128], struct err *e);
int slot_confirmed(struct source *s, uint64_t *lsn, struct err *e);

/* snapshot.c */
int source_anchor(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e);
int source_snapshot(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e);
void source_snapshot_close(struct snapshot *snap);
int source_reader_open(struct snapshot *snap, struct reader **r, struct err *e);
int source_reader_table(struct reader *r, const struct shape *t, enum rows_encoding *enc, struct err *e);
int source_reader_next(struct reader *r, const char **p, size_t *n, uint64_t *rows, struct err *e);
int source_reader_estimate(struct reader *r, const struct shape *t, int64_t *rows, int64_t *bytes, struct err *e);
void source_reader_close(struct reader *r);

/* stream.c */
int source_stream_open(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **st,
                       struct err *e);
int source_stream_next(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e);
int source_stream_ack(struct stream *st, const struct pos *p, struct err *e);
int source_stream_sequences(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e);
int source_stream_uncaptured(struct stream *st, struct arena *a, const char ***lines, size_t *n, struct err *e);
void source_stream_close(struct stream *st);

/* conn.c: a statement that may wait long: ends early with CODE_INTERRUPTED when a stop is asked; says `waiting` in the log after five
 * seconds. */
int pg_exec_wait(PGconn *c, const char *sql, const char *what, const char *waiting, PGresult **r, struct err *e);

/* rewrite.c: refuses (SCHEMA-CHANGE-REFUSED) when ALTER TABLE wrote a known table anew since the slot was made: its old rows may hold anything. */
int rewrite_check(struct source *s, struct shape *const *known, size_t nknown, struct err *e);

#endif
