/* The SQLite driver. */
#include "drivers/sqlite/source.h"
#include "drivers/sqlite/target.h"

const struct db_driver sqlite_driver = {
    .name = "sqlite",
    .default_ns = SQ_NS,
    .caps = CAP_DDL_IN_TXN | CAP_SEQUENCES | CAP_ALLOW_BLOCKING | CAP_FOLDS_NAMES,
    .source = &sqlite_source_ops,
    .target = &sqlite_target_ops,
    .dsn_check = sq_dsn_check,
};
