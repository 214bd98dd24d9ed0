/* JSON: a writer into a buf that cannot produce malformed text, and thin readers over jansson. */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

#include <jansson.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct json_out {
    struct buf *b;
    struct err *e;
    int failed;    /* sticky: check once at the end with json_end */
    int depth;
    uint64_t comma; /* bit per depth: an element was written */
    int after_key;
};
void json_begin(struct json_out *j, struct buf *b, struct err *e);
void json_obj(struct json_out *j);      /* { */
void json_obj_end(struct json_out *j);
void json_arr(struct json_out *j);      /* [ */
void json_arr_end(struct json_out *j);
void json_key(struct json_out *j, const char *k);
void json_str(struct json_out *j, const char *s);              /* NULL writes null */
void json_strn(struct json_out *j, const char *s, size_t n);   /* invalid UTF-8 fails */
void json_int(struct json_out *j, int64_t v);
void json_uint(struct json_out *j, uint64_t v);
void json_bool(struct json_out *j, int v);
void json_null(struct json_out *j);
void json_raw(struct json_out *j, const char *p, size_t n);    /* trusted JSON, verbatim */
/* key and value in one call */
void json_kv_str(struct json_out *j, const char *k, const char *s);
void json_kv_int(struct json_out *j, const char *k, int64_t v);
void json_kv_uint(struct json_out *j, const char *k, uint64_t v);
void json_kv_bool(struct json_out *j, const char *k, int v);
int json_end(struct json_out *j);       /* 0, or -1 if any call failed */

/* Readers. `what` names the document in errors (CODE_MANIFEST_INVALID). */
json_t *json_parse(const char *p, size_t n, const char *what, struct err *e);  /* duplicate keys refused */
int json_get_str(const json_t *o, const char *k, const char **s, const char *what, struct err *e);
int json_get_i64(const json_t *o, const char *k, int64_t *v, const char *what, struct err *e);
int json_get_u64(const json_t *o, const char *k, uint64_t *v, const char *what, struct err *e);
int json_get_bool(const json_t *o, const char *k, bool *v, const char *what, struct err *e);
const char *json_opt_str(const json_t *o, const char *k); /* NULL when absent or null */

#endif
