/* Rotation of a running producer's chain: when the open segment is long or old enough, the next one opens, and its full is written beside the links. */
#ifndef SLUICE_FLOW_ROTATE_H
#define SLUICE_FLOW_ROTATE_H

#include "engine/flow/flow.h"

/* At a link's end, nothing half written: take note of what the copy beside us came to, go on with one that was left unfinished, and open the next
 * segment when it is due. c and s are the producer's own. Only what the catalogue or the source's connection has against it is an error; a full that
 * fails, or a rotation that cannot be now, is logged and leaves the chain as it is. The copy itself belongs to the job and ends with it. */
int rotation_boundary(struct job *j, struct chain *c, struct source *s, struct err *e);

#endif
