/* Memory that can fail on purpose. Every allocation of ours goes through here, so that a test can make the n-th one fail. */
#ifndef SLUICE_BASE_MEM_H
#define SLUICE_BASE_MEM_H

#include <stddef.h>

#include "engine/base/err.h"

void *mem_alloc(size_t n, struct err *e);              /* zeroed; NULL with CODE_NO_MEMORY */
void *mem_resize(void *p, size_t n, struct err *e);    /* p stays valid on failure */
char *mem_strdup(const char *s, struct err *e);
char *mem_strndup(const char *s, size_t n, struct err *e);
char *mem_printf(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mem_free(void *p);                                /* NULL is fine */

/* Tests: let the next `after` allocations of this thread succeed and fail the one behind them; negative turns it off. */
void mem_fail_after(long after);

#define MEM_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define KiB(n) ((size_t)(n) * 1024)
#define MiB(n) ((size_t)(n) * 1024 * 1024)

#endif
