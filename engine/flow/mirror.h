/* The control DB's cache of a chain's catalogue, for operators and reports. Best effort: nothing waits for it. */
#ifndef SLUICE_FLOW_MIRROR_H
#define SLUICE_FLOW_MIRROR_H

#include "engine/flow/flow.h"

/* The chain in brief and its links from `from_n` on, 256 at most (earlier ones were mirrored when they were made; `control rebuild` reads all). */
void mirror_chain(struct job *j, struct chain *c, uint64_t from_n);

#endif
