#include "engine/base/queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/mem.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t room, filled;
    size_t cap, head, n;
    bool closed;
    void *items[];
};

struct queue *queue_new(size_t capacity, struct err *e) {
    if (capacity == 0) capacity = 1;
    if (capacity > (SIZE_MAX - sizeof(struct queue)) / sizeof(void *)) {
        err_set(e, CODE_NO_MEMORY, "cannot get memory for a queue of %zu", capacity);
        return NULL;
    }
    struct queue *q = mem_alloc(sizeof *q + capacity * sizeof(void *), e);
    if (!q) return NULL;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->room, NULL);
    pthread_cond_init(&q->filled, NULL);
    q->cap = capacity;
    return q;
}

int queue_put(struct queue *q, void *item) {
    int rc = -1;
    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->n == q->cap) pthread_cond_wait(&q->room, &q->lock);
    if (!q->closed) {
        q->items[(q->head + q->n++) % q->cap] = item;
        pthread_cond_signal(&q->filled);
        rc = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

int queue_get(struct queue *q, void **item) {
    int rc = -1;
    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->n == 0) pthread_cond_wait(&q->filled, &q->lock);
    if (q->n) {
        *item = q->items[q->head];
        q->head = (q->head + 1) % q->cap;
        q->n--;
        pthread_cond_signal(&q->room);
        rc = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

void queue_close(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->room);
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

void queue_free(struct queue *q) {
    if (!q) return;
    pthread_cond_destroy(&q->room);
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
}
