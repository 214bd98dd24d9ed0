#include "engine/flow/progress.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/flow/notify.h"

#define LINE_EVERY_US 5000000
#define REDRAW_EVERY_US 200000

static int64_t every(const struct progress *p) {
    return p->live ? REDRAW_EVERY_US : LINE_EVERY_US;
}

void progress_begin(struct progress *p, const char *what, uint64_t tables_total, uint64_t rows_total, uint64_t bytes_total) {
    if (!p) return;
    p->what = what;
    p->tables = p->rows = p->bytes = 0;
    p->tables_total = tables_total;
    p->rows_total = rows_total;
    p->bytes_total = bytes_total;
    p->began_us = clock_mono_us();
    p->live = log_on_terminal();
    p->next_us = p->began_us + every(p);
}

/* The share that is done, by bytes where they are known, else by rows; negative: unknown. */
static double share(const struct progress *p) {
    if (p->bytes_total) return (double)p->bytes / (double)p->bytes_total;
    if (p->rows_total) return (double)p->rows / (double)p->rows_total;
    return -1;
}

static double seconds(int64_t us) {
    return us > 0 ? (double)us / 1e6 : 1e-6;
}

/* Below a hundredth a guess would only jump about. */
static void eta(const struct progress *p, int64_t us, char *out, size_t n) {
    double done = share(p), s = seconds(us);
    if (done > 0.01 && done < 1) snprintf(out, n, "%.0fs", s / done - s);
    else snprintf(out, n, "%s", done >= 1 ? "0s" : "unknown");
}

void progress_text(const struct progress *p, int64_t us, char *out, size_t n) {
    char of[48] = "", percent[16] = "", left[32], to_go[48] = "";
    double done = share(p);
    if (p->bytes_total) snprintf(of, sizeof of, " of %.1f", (double)p->bytes_total / 1e6);
    if (done >= 0) snprintf(percent, sizeof percent, " (%.0f%%)", done > 1 ? 100 : done * 100);
    eta(p, us, left, sizeof left);
    if (done > 0.01) snprintf(to_go, sizeof to_go, ", %s to go", left);
    snprintf(out, n, "%s: %llu/%llu tables, %llu rows, %.1f%s MB%s, %.1f MB/s%s", p->what, (unsigned long long)p->tables, (unsigned long long)p->tables_total,
             (unsigned long long)p->rows, (double)p->bytes / 1e6, of, percent, (double)p->bytes / 1e6 / seconds(us), to_go);
}

static void say(struct progress *p, const char *msg, bool done) {
    char tables[64], rate[32], left[32];
    int64_t us = clock_mono_us() - p->began_us;
    snprintf(tables, sizeof tables, "%llu/%llu", (unsigned long long)p->tables, (unsigned long long)p->tables_total);
    snprintf(rate, sizeof rate, "%.1f", (double)p->bytes / 1e6 / seconds(us));
    if (done) snprintf(left, sizeof left, "0s");
    else eta(p, us, left, sizeof left);
    log_info(msg, KV_STR("work", p->what), KV_STR("tables", tables), KV_U64("rows", p->rows), KV_STR("mb_per_s", rate), KV_STR("eta", left));
}

static void redraw(struct progress *p) {
    char text[256];
    progress_text(p, clock_mono_us() - p->began_us, text, sizeof text);
    log_status(text);
}

void progress_add(struct progress *p, uint64_t tables, uint64_t rows, uint64_t bytes) {
    notify_alive();
    if (!p) return;
    atomic_fetch_add(&p->tables, tables);
    atomic_fetch_add(&p->rows, rows);
    atomic_fetch_add(&p->bytes, bytes);
    int64_t now = clock_mono_us(), due = atomic_load(&p->next_us);
    if (now < due || !atomic_compare_exchange_strong(&p->next_us, &due, now + every(p))) return;
    if (p->live) redraw(p);
    else say(p, "progress", false);
}

void progress_end(struct progress *p) {
    if (!p) return;
    if (p->live) log_status(NULL);
    say(p, "progress: done", true);
}
