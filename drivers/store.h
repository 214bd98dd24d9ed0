/* The contract of an object store: where a chain lies. One handle may be used by several threads.
 *
 * Paths are relative, of [A-Za-z0-9._/-] only, never with `..`. A transient failure is ERR_RETRY. */
#ifndef SLUICE_DRIVERS_STORE_H
#define SLUICE_DRIVERS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

struct store;
struct store_object; /* an open object for reading; a folder's is one descriptor, so two reads see the same bytes */

#define STORE_ETAG 72 /* opaque version text of an object, terminated */

enum store_put_result { STORE_PUT_OK, STORE_PUT_EXISTS /* if-absent lost */, STORE_PUT_CONFLICT /* if-match lost */ };

struct store_ops {
    const char *scheme;
    int (*open)(const char *url, struct store **s, struct err *e);
    void (*close)(struct store *s);
    /* Whole object, at most max bytes. *found false when absent; etag may be NULL. With `unless` set to the etag we hold: *same true and no body. */
    int (*get)(struct store *s, const char *path, size_t max, const char *unless, struct buf *out, char etag[STORE_ETAG], bool *found,
               bool *same, struct err *e);
    /* Durable when it returns. if_absent, or if_match = the etag it must still have; both unset overwrites. */
    int (*put)(struct store *s, const char *path, const void *p, size_t n, bool if_absent, const char *if_match, enum store_put_result *r,
               char etag[STORE_ETAG], struct err *e);
    int (*read_open)(struct store *s, const char *path, struct store_object **o, uint64_t *size, bool *found, struct err *e);
    int (*read_at)(struct store_object *o, uint64_t offset, void *p, size_t n, struct err *e); /* exactly n bytes, or an error */
    void (*read_close)(struct store_object *o);
    /* Every path that begins with prefix, in byte order. fn returns non-zero to stop. */
    int (*list)(struct store *s, const char *prefix, int (*fn)(void *arg, const char *path, uint64_t size, int64_t mtime_us), void *arg,
                struct err *e);
    int (*del)(struct store *s, const char *path, struct err *e); /* absent is fine */
    bool (*writable)(struct store *s); /* a quick look, for a warning; a put decides */
};

struct store {
    const struct store_ops *ops;
    char url[1024]; /* for messages; without credentials */
};

extern const struct store_ops store_file_ops;
/* "file:///abs/dir" (or a plain folder through store_open_dir). CODE_USAGE lists the known schemes. */
int store_open(const char *url, struct store **s, struct err *e);
int store_open_dir(const char *dir, struct store **s, struct err *e);
void store_close(struct store *s);

#endif
