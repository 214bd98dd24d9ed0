/* JSON: a writer into a buf that cannot produce malformed text, and thin readers over jansson. */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

#include <jansson.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct jw {
    struct buf *b;
    struct err *e;
    int failed;    /* sticky: check once at the end with jw_end */
    int depth;
    uint64_t comma; /* bit per depth: an element was written */
    int after_key;
    uint64_t obj;  /* bit per depth: an object, so a value needs a key */
};
void jw_begin(struct jw *j, struct buf *b, struct err *e);
void jw_obj(struct jw *j);      /* { */
void jw_obj_end(struct jw *j);
void jw_arr(struct jw *j);      /* [ */
void jw_arr_end(struct jw *j);
void jw_key(struct jw *j, const char *k);
void jw_str(struct jw *j, const char *s);              /* NULL writes null */
void jw_strn(struct jw *j, const char *s, size_t n);   /* invalid UTF-8 fails */
void jw_int(struct jw *j, int64_t v);
void jw_uint(struct jw *j, uint64_t v);
void jw_bool(struct jw *j, int v);
void jw_null(struct jw *j);
void jw_raw(struct jw *j, const char *p, size_t n);    /* trusted JSON, verbatim */
/* key and value in one call */
void jw_kv_str(struct jw *j, const char *k, const char *s);
void jw_kv_int(struct jw *j, const char *k, int64_t v);
void jw_kv_uint(struct jw *j, const char *k, uint64_t v);
void jw_kv_bool(struct jw *j, const char *k, int v);
int jw_end(struct jw *j);       /* 0, or -1 if any call failed */

/* Readers. `what` names the document in errors (CODE_MANIFEST_INVALID). */
json_t *json_parse(const char *p, size_t n, const char *what, struct err *e);  /* duplicate keys refused */
int json_get_str(const json_t *o, const char *k, const char **s, const char *what, struct err *e);
int json_get_i64(const json_t *o, const char *k, int64_t *v, const char *what, struct err *e);
int json_get_u64(const json_t *o, const char *k, uint64_t *v, const char *what, struct err *e);
int json_get_bool(const json_t *o, const char *k, bool *v, const char *what, struct err *e);
const char *json_opt_str(const json_t *o, const char *k); /* NULL when absent or null */

#endif
