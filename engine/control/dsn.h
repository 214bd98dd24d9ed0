/* The secret parts of a DSN: where they stand, and their forms. Not for other rooms: secret_resolve is theirs. */
#ifndef SLUICE_CONTROL_DSN_H
#define SLUICE_CONTROL_DSN_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define DSN_SECRETS 8
#define DSN_SEALED "***" /* stands in the DSN for a password that is in the table secret */

struct dsn_secret {
    char param[40];   /* password, sslpassword, …; a second one of the same name is `password#2` */
    size_t at, len;   /* its text in the DSN, without quotes */
    bool url, quoted; /* percent-encoded; between '…' with backslashes */
};
/* In order of place. CODE_DSN when there are more than DSN_SECRETS. */
int dsn_secrets(const char *dsn, struct dsn_secret *v, size_t *n, struct err *e);
/* `${NAME}` or `file:PATH`: kept as it is, read at use. */
bool dsn_is_reference(const char *p, size_t len);
bool dsn_is_sealed(const char *p, size_t len);

#endif
