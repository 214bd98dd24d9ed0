/* Progress of long work: counters that any thread may raise. On a terminal one line is redrawn in its place; elsewhere a line of the log every few
 * seconds (tables, rows, MB/s, ETA). */
#ifndef SLUICE_FLOW_PROGRESS_H
#define SLUICE_FLOW_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    const char *what;                 /* "full", "load" */
    _Atomic uint64_t tables, rows, bytes;
    uint64_t tables_total, rows_total, bytes_total; /* 0 = unknown */
    int64_t began_us;
    _Atomic int64_t next_us;
    bool live;                        /* redrawn on a terminal */
};
void progress_begin(struct progress *p, const char *what, uint64_t tables_total, uint64_t rows_total, uint64_t bytes_total);
void progress_add(struct progress *p, uint64_t tables, uint64_t rows, uint64_t bytes); /* p may be NULL */
void progress_end(struct progress *p);
/* "load: 3/12 tables, 4500 rows, 1.2 of 9.6 MB (12%), 3.4 MB/s, 3s to go"; cut at n. us: since it began. */
void progress_text(const struct progress *p, int64_t us, char *out, size_t n);

#endif
