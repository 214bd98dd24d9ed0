#include "engine/base/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct embed *embed_find(const char *name) {
    size_t lo = 0, hi = embed_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(name, embed_all[mid].name);
        if (c == 0) return &embed_all[mid];
        if (c < 0) hi = mid;
        else lo = mid + 1;
    }
    return NULL;
}

const char *embed_sql(const char *name) {
    const struct embed *m = embed_find(name);
    if (!m) {
        fprintf(stderr, "error: no embedded text '%s'\n", name);
        abort();
    }
    return m->text;
}
