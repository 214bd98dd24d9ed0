/* --rollover-hook: an operator's command after each link. A failure is a warning; the link is durable whatever it does. */
#ifndef SLUICE_FLOW_HOOK_H
#define SLUICE_FLOW_HOOK_H

#include "engine/flow/flow.h"

/* Runs `sh -c CMD` with SLUICE_LINK_ID, SLUICE_LINEAGE, SLUICE_PRODUCER, SLUICE_CHANGES, SLUICE_BYTES, SLUICE_END_POSITION; killed after 30 s. */
void rollover_hook(struct job *j);

#endif
