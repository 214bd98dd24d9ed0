/* A batch of changes: one growing array of records, everything they point to in one arena. */
#include "engine/base/change.h"

#include <string.h>

#include "engine/base/mem.h"

#define BATCH_FIRST 64
#define BATCH_KEPT 32768 /* records whose room an ordinary batch keeps over a reset; a huge transaction gives the rest back */

int batch_init(struct batch *b, size_t arena_block_bytes, struct err *e) {
    memset(b, 0, sizeof *b);
    return (b->arena = arena_new(arena_block_bytes, e)) ? 0 : -1;
}

struct change *batch_add(struct batch *b, struct err *e) {
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : BATCH_FIRST;
        struct change *v = mem_resize(b->v, cap * sizeof *v, e);
        if (!v) return NULL;
        b->v = v;
        b->cap = cap;
    }
    struct change *c = &b->v[b->n++];
    memset(c, 0, sizeof *c);
    return c;
}

void batch_reset(struct batch *b) {
    b->n = 0;
    b->ends_at_commit = false;
    if (b->cap > BATCH_KEPT) {
        mem_free(b->v);
        b->v = NULL;
        b->cap = 0;
    }
    if (b->arena) arena_reset(b->arena);
}

void batch_free(struct batch *b) {
    mem_free(b->v);
    arena_free(b->arena);
    memset(b, 0, sizeof *b);
}

size_t batch_rows(const struct batch *b) {
    size_t rows = 0;
    for (size_t i = 0; i < b->n; i++)
        rows += b->v[i].op == CHANGE_INSERT || b->v[i].op == CHANGE_UPDATE || b->v[i].op == CHANGE_DELETE;
    return rows;
}
