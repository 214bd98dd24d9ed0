/* A bounded queue between two threads: the only thing they share. */
#ifndef SLUICE_BASE_QUEUE_H
#define SLUICE_BASE_QUEUE_H

#include <stddef.h>

#include "engine/base/err.h"

struct queue;
struct queue *queue_new(size_t capacity, struct err *e);
int queue_put(struct queue *q, void *item);  /* waits for room; -1 once closed */
int queue_get(struct queue *q, void **item); /* waits; -1 once closed and empty */
void queue_close(struct queue *q);           /* wakes both sides; what is in it can still be got */
void queue_free(struct queue *q);

#endif
