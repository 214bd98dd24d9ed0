/* DESIGN: a bump allocator for one batch.
 *  1. A piece stands where it was handed out until arena_reset or arena_free: blocks never move.
 *  2. A piece larger than a block gets a block of its own, which arena_reset gives back.
 *  3. After a reset at most KEEP_BYTES (or one block, if that is larger) stay allocated, whatever the batch before took. */
#include "engine/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"

#define ALIGN 16
#define MIN_BLOCK 1024
#define KEEP_BYTES MiB(16)

struct block {
    struct block *next;
    size_t size, used; /* of the bytes behind this header */
    _Alignas(ALIGN) char p[];
};

struct arena {
    struct block *blocks; /* the first is being filled */
    struct block *spare;  /* empty ones of the usual size */
    size_t block_bytes, handed_out;
};

static struct block *block_new(size_t size, struct err *e) {
    if (size > SIZE_MAX - sizeof(struct block)) {
        err_set(e, CODE_NO_MEMORY, "cannot get %zu bytes of memory", size);
        return NULL;
    }
    /* resize, not alloc: an arena's bytes are not promised to be zero, and clearing them would cost more than using them */
    struct block *b = mem_resize(NULL, sizeof *b + size, e);
    if (!b) return NULL;
    b->next = NULL;
    b->size = size;
    b->used = 0;
    return b;
}

static void blocks_free(struct block *b) {
    while (b) {
        struct block *next = b->next;
        mem_free(b);
        b = next;
    }
}

struct arena *arena_new(size_t block_bytes, struct err *e) {
    struct arena *a = mem_alloc(sizeof *a, e);
    if (!a) return NULL;
    a->block_bytes = block_bytes < MIN_BLOCK ? MIN_BLOCK : block_bytes;
    return a;
}

void *arena_alloc(struct arena *a, size_t n, struct err *e) {
    struct block *b = a->blocks;
    if (n > SIZE_MAX - ALIGN) {
        err_set(e, CODE_NO_MEMORY, "cannot get %zu bytes of memory", n);
        return NULL;
    }
    size_t need = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (!b || b->size - b->used < need) {
        if (need > a->block_bytes) {
            struct block *own = block_new(need, e);
            if (!own) return NULL;
            own->used = need;
            a->handed_out += n;
            /* behind the first, which may still have room */
            if (b) {
                own->next = b->next;
                b->next = own;
            } else {
                a->blocks = own;
            }
            return own->p;
        }
        if (a->spare) {
            b = a->spare;
            a->spare = b->next;
        } else {
            b = block_new(a->block_bytes, e);
            if (!b) return NULL;
        }
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = b->p + b->used;
    b->used += need;
    a->handed_out += n;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n, struct err *e) {
    void *p = arena_alloc(a, n, e);
    if (p) memset(p, 0, n);
    return p;
}

char *arena_copy(struct arena *a, const void *p, size_t n, struct err *e) {
    if (n == SIZE_MAX) {
        err_set(e, CODE_NO_MEMORY, "cannot get %zu bytes of memory", n);
        return NULL;
    }
    char *c = arena_alloc(a, n + 1, e);
    if (!c) return NULL;
    if (n) memcpy(c, p, n);
    c[n] = 0;
    return c;
}

char *arena_printf(struct arena *a, struct err *e, const char *fmt, ...) {
    va_list ap, again;
    char *p = NULL;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        err_set(e, CODE_INTERNAL, "cannot format '%s'", fmt);
        goto out;
    }
    p = arena_alloc(a, (size_t)n + 1, e);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
out:
    va_end(again);
    va_end(ap);
    return p;
}

size_t arena_bytes(const struct arena *a) { return a->handed_out; }

size_t arena_held(const struct arena *a) {
    size_t n = 0;
    for (const struct block *b = a->blocks; b; b = b->next) n += b->size;
    for (const struct block *b = a->spare; b; b = b->next) n += b->size;
    return n;
}

/* Under AddressSanitizer every block goes back, so that a pointer kept past the reset is caught. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_BLOCKS 0
#else
#define KEEPS_BLOCKS 1
#endif
#else
#define KEEPS_BLOCKS 1
#endif

void arena_reset(struct arena *a) {
    struct block *b = a->blocks, *next;
    size_t kept = 0;
    for (const struct block *s = a->spare; s; s = s->next) kept += s->size;
    a->blocks = NULL;
    a->handed_out = 0;
    for (; b; b = next) {
        next = b->next;
        bool usual = KEEPS_BLOCKS && b->size == a->block_bytes;
        if (usual && (kept == 0 || (kept < KEEP_BYTES && b->size <= KEEP_BYTES - kept))) {
            b->used = 0;
            b->next = a->spare;
            a->spare = b;
            kept += b->size;
        } else {
            mem_free(b);
        }
    }
}

void arena_free(struct arena *a) {
    if (!a) return;
    blocks_free(a->blocks);
    blocks_free(a->spare);
    mem_free(a);
}
