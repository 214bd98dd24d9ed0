/* What changed between two shapes of one table. */
#ifndef SLUICE_DRIVERS_SQLITE_TARGET_DIFF_H
#define SLUICE_DRIVERS_SQLITE_TARGET_DIFF_H

#include "drivers/sqlite/target_impl.h"

struct shape_diff {
    const struct shape *before, *after;
    bool by_id; /* columns were told apart by their ids; else by name */
    int *from;  /* per column after: its ordinal before, -1 when it is new */
    bool *gone; /* per column before */
    uint16_t nadded, ngone, nrenamed;
    bool redefined;   /* a column that stays has another definition than its name */
    bool relaxed;     /* another engine's column may be NULL now and could not before */
    bool rekeyed;     /* the primary key stands on other columns */
    struct buf *expr; /* per column after: how its old value becomes the new one, in terms of its old name; empty when it stays as it is */
    bool converts;    /* some expr is not empty */
};

/* Refuses what no rule decides: SCHEMA-CHANGE-REFUSED, COLUMN-ORDER-CHANGED. */
int sqt_diff(const struct shape *before, const struct shape *after, struct shape_diff *d, struct err *e);
void sqt_diff_free(struct shape_diff *d);
int sqt_shape_refused(const struct shape *s, struct err *e); /* marker and hint behind an err_set; -1 */

/* target_rebuild.c: the table made anew with its rows, in the caller's transaction. */
int sqt_rebuild(sqlite3 *db, const struct shape_diff *d, const char *name, struct err *e);

#endif
