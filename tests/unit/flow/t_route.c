/* Which lane takes a change, and what the recorded rules say. */
#include "engine/flow/route.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static struct err err;
#define E (&err)

static struct value text(const char *s) { return s ? (struct value){s, (uint32_t)strlen(s), VALUE_TEXT} : VALUE_OF_NULL; }

/* ---- the hash: frozen ------------------------------------------------------------------------------------------------- */

static void vectors(void) {
    static const uint16_t cols[] = {0, 1};
    static const struct { const char *a, *b; uint16_t n; uint64_t h; } v[] = {
        {"1", NULL, 1, UINT64_C(H1)}, {"42", NULL, 1, UINT64_C(H2)}, {"", NULL, 1, UINT64_C(H3)}, {"a", "bc", 2, UINT64_C(H4)},
        {"ab", "c", 2, UINT64_C(H5)}, {"550e8400-e29b-41d4-a716-446655440000", NULL, 1, UINT64_C(H6)}, {NULL, NULL, 1, UINT64_C(H7)},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        struct value r[2] = {text(v[i].a), text(v[i].b)};
        is_hex(route_hash(r, NULL, cols, v[i].n), v[i].h, "hash of ('%s'%s%s)", v[i].a ? v[i].a : "NULL", v[i].n > 1 ? ", " : "", v[i].n > 1 ? v[i].b : "");
    }
}
