#include "engine/flow/progress.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"

#define EVERY_US 5000000

void progress_begin(struct progress *p, const char *what, uint64_t tables_total, uint64_t rows_total, uint64_t bytes_total) {
    if (!p) return;
    p->what = what;
    p->tables = p->rows = p->bytes = 0;
    p->tables_total = tables_total;
    p->rows_total = rows_total;
    p->bytes_total = bytes_total;
    p->began_us = clock_mono_us();
    p->next_us = p->began_us + EVERY_US;
}

static void say(struct progress *p, const char *msg) {
    char tables[64], rate[32], eta[32];
    int64_t us = clock_mono_us() - p->began_us;
    double s = us > 0 ? (double)us / 1e6 : 1e-6, mb = (double)p->bytes / 1e6;
    snprintf(tables, sizeof tables, "%llu/%llu", (unsigned long long)p->tables, (unsigned long long)p->tables_total);
    snprintf(rate, sizeof rate, "%.1f", mb / s);
    double done = p->bytes_total ? (double)p->bytes / (double)p->bytes_total : 0;
    if (done > 0.01 && done < 1) snprintf(eta, sizeof eta, "%.0fs", s / done - s);
    else snprintf(eta, sizeof eta, "%s", done >= 1 ? "0s" : "unknown");
    log_info(msg, KV_STR("work", p->what), KV_STR("tables", tables), KV_U64("rows", p->rows), KV_STR("mb_per_s", rate), KV_STR("eta", eta));
}

void progress_add(struct progress *p, uint64_t tables, uint64_t rows, uint64_t bytes) {
    if (!p) return;
    atomic_fetch_add(&p->tables, tables);
    atomic_fetch_add(&p->rows, rows);
    atomic_fetch_add(&p->bytes, bytes);
    int64_t now = clock_mono_us(), due = atomic_load(&p->next_us);
    if (now >= due && atomic_compare_exchange_strong(&p->next_us, &due, now + EVERY_US)) say(p, "progress");
}

void progress_end(struct progress *p) {
    if (p) say(p, "progress: done");
}
