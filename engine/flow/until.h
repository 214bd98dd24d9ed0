/* A point in the log: a source position, or a moment. Resolved to a commit record of a link, so that what applies it only compares seqs. */
#ifndef SLUICE_FLOW_UNTIL_H
#define SLUICE_FLOW_UNTIL_H

#include "engine/chain/chain.h"

struct until {
    struct pos pos;        /* not set: no such bound */
    int64_t time_us;       /* 0: no such bound; microseconds UTC */
};
bool until_is_set(const struct until *u);
/* `2026-01-31T12:00:00[.5][Z|+01:00]`, or a date. CODE_USAGE names the text. */
int until_time_parse(const char *text, int64_t *us, struct err *e);
/* In link n: *seq is the last commit in log order before the first one that is beyond the bound; with nothing beyond it, *seq is the link's end and *whole
 * is true. 0 records within the bound: *seq is the link's start. Only commits are looked at; by position alone a link that is wholly inside is not read. */
int until_cut(struct chain *c, uint64_t n, const struct until *u, uint64_t *seq, bool *whole, struct err *e);
/* The first link from from_n on that is not wholly within the bound, and the seq to stop at in it. All of them are: *n is the tip, *seq its end, *whole true. */
int until_find(struct chain *c, uint64_t from_n, const struct until *u, uint64_t *n, uint64_t *seq, bool *whole, struct err *e);

#endif
