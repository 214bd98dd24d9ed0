/* The SQLite driver as a target. */
#ifndef SLUICE_DRIVERS_SQLITE_TARGET_H
#define SLUICE_DRIVERS_SQLITE_TARGET_H

#include "drivers/db.h"

extern const struct target_ops sqlite_target_ops;

#endif
