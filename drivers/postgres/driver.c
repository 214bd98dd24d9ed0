/* PostgreSQL as a driver: what the registry sees. */
#include "drivers/postgres/pg.h"
#include "drivers/postgres/target.h"

const struct db_driver postgres_driver = {
    .name = "postgres",
    .caps = CAP_SLOT | CAP_CONCURRENT_READERS | CAP_CONCURRENT_WRITERS | CAP_DDL_IN_TXN | CAP_SEQUENCES,
    .default_ns = "public",
    .source = &postgres_source_ops,
    .target = &postgres_target_ops,
    .dsn_check = pg_dsn_check,
};
