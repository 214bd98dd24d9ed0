/* Progress of long work: counters that any thread may raise, a line every few seconds (tables, rows, MB/s, ETA). */
#ifndef SLUICE_FLOW_PROGRESS_H
#define SLUICE_FLOW_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

struct progress {
    const char *what;                 /* "full", "restore" */
    _Atomic uint64_t tables, rows, bytes;
    uint64_t tables_total, rows_total, bytes_total; /* 0 = unknown */
    int64_t began_us;
    _Atomic int64_t next_us;
};
void progress_begin(struct progress *p, const char *what, uint64_t tables_total, uint64_t rows_total, uint64_t bytes_total);
void progress_add(struct progress *p, uint64_t tables, uint64_t rows, uint64_t bytes); /* p may be NULL */
void progress_end(struct progress *p);

#endif
