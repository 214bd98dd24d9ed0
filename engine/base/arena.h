/* A bump allocator for one batch: many small pieces, freed together. Not thread-safe. */
#ifndef SLUICE_BASE_ARENA_H
#define SLUICE_BASE_ARENA_H

#include <stddef.h>

#include "engine/base/err.h"

struct arena;

struct arena *arena_new(size_t block_bytes, struct err *e); /* NULL on error */
void *arena_alloc(struct arena *a, size_t n, struct err *e); /* 16-aligned, not zeroed; gone at arena_reset */
void *arena_zalloc(struct arena *a, size_t n, struct err *e);
char *arena_copy(struct arena *a, const void *p, size_t n, struct err *e); /* terminated copy */
char *arena_printf(struct arena *a, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
size_t arena_bytes(const struct arena *a);  /* handed out since the last reset */
size_t arena_held(const struct arena *a);   /* taken from the system, used or kept for later */
void arena_reset(struct arena *a);          /* keeps its blocks for the next batch, but gives back what a huge batch took */
void arena_free(struct arena *a);           /* NULL is fine */

#endif
