/* What the files of the SQLite source share. */
#ifndef SLUICE_DRIVERS_SQLITE_SOURCE_H
#define SLUICE_DRIVERS_SQLITE_SOURCE_H

#include "drivers/sqlite/capture.h"
#include "engine/base/mem.h"

#define SQ_KEYLESS_MAX MiB(64)

struct source {
    sqlite3 *db;
    char *dsn;
    const char *path; /* in dsn */
    bool allow_blocking;
    uint64_t keyless_max;
    struct table_filter filter;
};

extern const struct source_ops sqlite_source_ops;

/* source.c */
int sq_source_wal(struct source *s, bool *wal, struct err *e);

int sq_stream_sequences_of(sqlite3 *db, const struct sq_capture *cap, struct arena *a, struct object **o, size_t *n, struct err *e);

/* snapshot.c */
int sq_snapshot_open(struct source *s, struct pos *p, struct snapshot **snap, struct err *e);
void sq_snapshot_close(struct snapshot *snap);
int sq_reader_open(struct snapshot *snap, struct reader **r, struct err *e);
int sq_reader_table(struct reader *r, const struct shape *t, enum rows_encoding *enc, struct err *e);
int sq_reader_next(struct reader *r, const char **p, size_t *n, uint64_t *rows, struct err *e);
int sq_reader_estimate(struct reader *r, const struct shape *t, int64_t *rows, int64_t *bytes, struct err *e);
void sq_reader_close(struct reader *r);
/* "t."a", t."b"" of the stored columns; *n of them. t: the alias, or "" */
int sq_columns(struct buf *b, const struct shape *s, const char *alias, struct err *e);

/* stream.c */
int sq_stream_open(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **st, struct err *e);
int sq_stream_next(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e);
int sq_stream_ack(struct stream *st, const struct pos *p, struct err *e);
int sq_stream_sequences(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e);
int sq_stream_uncaptured(struct stream *st, struct arena *a, const char ***lines, size_t *n, struct err *e);
void sq_stream_close(struct stream *st);

#endif
