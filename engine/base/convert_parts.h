/* Between the convert_*.c files only. */
#ifndef SLUICE_BASE_CONVERT_PARTS_H
#define SLUICE_BASE_CONVERT_PARTS_H

#include <stddef.h>

#include "engine/base/err.h"
#include "engine/base/shape.h"

/* Up to 32 bytes of a value for a message; everything but printable ASCII is shown as ?. Returns out. */
const char *convert_excerpt(const char *p, size_t n, char out[40]);

#define CONVERT_TIME_MAX 64
/* Read a date, time, timetz, timestamp or timestamptz in any spelling that convert.h names, and write it canonically (terminated). */
int convert_time(const struct column *to, const char *p, size_t n, char out[CONVERT_TIME_MAX], size_t *out_n, struct err *e);

#endif
