/* Where a broker stands on a chain, and everything that can be wrong about it. */
#ifndef SLUICE_FLOW_BROKERPLACE_H
#define SLUICE_FLOW_BROKERPLACE_H

#include "engine/flow/flow.h"
#include "engine/flow/rebuild.h"

/* The link whose end the state stands at. Distinct refusals: foreign or re-rooted lineage, pruned, forked, hole. */
int broker_place(struct chain *c, const struct target_state *st, struct link_info *at, struct err *e);
/* --at-chain-id: the operator's word, checked against what a restore or an earlier run left, and written as the stream's row. */
int broker_adopt(struct job *j, struct chain *chain, struct target *target, struct target_state *st, bool have_row, struct err *e);
bool broker_adopting(const struct target_state *st); /* an adoption that was killed half way; the same command finishes it */
/* CODE_STREAM_UNKNOWN with both ways past it. Returns -1. */
int broker_refuse_unknown(const char *stream_id, struct err *e);
/* CODE_STREAM_INCOMPLETE for a row that an unfinished reset left. */
int broker_check_finished(const struct target_state *st, struct err *e);
/* The same stream-id on one chain with another target: refused. */
int broker_check_consumer(struct store *st, const char *stream_id, const char *target_identity, struct err *e);
/* The link a reset goes to: the one an unfinished reset pinned, else the tip. */
int broker_pin(struct chain *c, const struct target_state *was, struct link_info *to, struct err *e);
/* Ask for the word `reset` unless --yes; no terminal and no --yes: CODE_CONFIRM. */
int broker_confirm_reset(struct job *j, struct rebuild *r, struct err *e);
/* The target's tables against the chain's shapes in force: RESUME-SCHEMA-DIVERGENCE, SOURCE-UNIQUE-KEY-ABSENT, COLUMN-ORDER-CHANGED, KEY-COLLATION-MERGE. */
int broker_check_tables(struct job *j, struct target *t, struct tables *ts, const char *source_identity, struct err *e);

#endif
