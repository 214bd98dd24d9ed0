/* Named failure points. Between any two durable writes stands FAULT("room.name"); a test sets SLUICE_FAULT to make it act.
 *
 *   SLUICE_FAULT=NAME[:N][=kill|err|stop|sleepMS]    the N-th time NAME is reached (default 1): kill -9 ourselves (default), or fail with CODE_IO
 *                                                    (retry class), or SIGSTOP ourselves, or sleep
 *   SLUICE_FAULT_LIST=FILE                           append the name of every point reached, once each (how `make crash` finds them)
 * Without either variable a point costs one load. */
#ifndef SLUICE_BASE_FAULT_H
#define SLUICE_BASE_FAULT_H

#include "engine/base/err.h"

extern int fault_on; /* set by fault_setup when a variable is there */
void fault_setup(void);
int fault_hit(const char *name, struct err *e); /* 0, or -1 with *e */
#define FAULT(name, e) (__builtin_expect(fault_on, 0) ? fault_hit((name), (e)) : 0)

#endif
