/* PostgreSQL as a target: what driver.c registers. */
#ifndef SLUICE_DRIVERS_POSTGRES_TARGET_H
#define SLUICE_DRIVERS_POSTGRES_TARGET_H

#include "drivers/db.h"

extern const struct target_ops postgres_target_ops; /* target_open.c */

#endif
