/* The writer cannot be made to write malformed text; the readers name what is wrong. */
#include "engine/base/json.h"

#include "engine/base/mem.h"
#include "tests/tap.h"

static struct buf b = BUF_INIT(MiB(1));
static struct err e;

static const char *text(void) {
    return buf_str(&b, &e);
}

static struct jw begin(void) {
    struct jw j;
    buf_reset(&b);
    err_clear(&e);
    jw_begin(&j, &b, &e);
    return j;
}

static void writes_json(void) {
    struct jw j = begin();
    jw_obj(&j);
    jw_kv_str(&j, "s", "x");
    jw_kv_str(&j, "none", NULL);
    jw_kv_int(&j, "i", INT64_MIN);
    jw_kv_uint(&j, "u", UINT64_MAX);
    jw_kv_bool(&j, "b", 1);
    jw_key(&j, "a");
    jw_arr(&j);
    jw_int(&j, 1);
    jw_bool(&j, 0);
    jw_null(&j);
    jw_arr(&j);
    jw_arr_end(&j);
    jw_obj(&j);
    jw_obj_end(&j);
    jw_raw(&j, "[2]", 3);
    jw_arr_end(&j);
    jw_kv_int(&j, "z", 0);
    jw_obj_end(&j);
    is_int(jw_end(&j), 0, "a document of everything");
    is_str(text(),
           "{\"s\":\"x\",\"none\":null,\"i\":-9223372036854775808,\"u\":18446744073709551615,\"b\":true,\"a\":[1,false,null,[],{},[2]],"
           "\"z\":0}",
           "its bytes");
    j = begin();
    jw_strn(&j, "\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xf0\x9f\x90\x98", 17);
    is_int(jw_end(&j), 0, "a text alone is a document");
    is_str(text(), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xf0\x9f\x90\x98\"", "escapes; other characters stand as they are");
    j = begin();
    jw_obj(&j);
    jw_kv_str(&j, "a\"b", "");
    jw_obj_end(&j);
    jw_end(&j);
    is_str(text(), "{\"a\\\"b\":\"\"}", "keys are escaped too");
}

#define MISUSE(name, ...)                                                                                                                  \
    do {                                                                                                                                   \
        struct jw j = begin();                                                                                                             \
        __VA_ARGS__;                                                                                                                       \
        ok(jw_end(&j) == -1 && e.code == CODE_INTERNAL, name);                                                                             \
    } while (0)

static void misuse_sticks(void) {
    MISUSE("a value without a key", jw_obj(&j); jw_int(&j, 1); jw_obj_end(&j));
    MISUSE("a key in an array", jw_arr(&j); jw_key(&j, "k"); jw_int(&j, 1); jw_arr_end(&j));
    MISUSE("a key at the top", jw_key(&j, "k"));
    MISUSE("two keys", jw_obj(&j); jw_key(&j, "a"); jw_key(&j, "b"));
    MISUSE("an object ended as an array", jw_obj(&j); jw_arr_end(&j));
    MISUSE("an end too many", jw_arr(&j); jw_arr_end(&j); jw_arr_end(&j));
    MISUSE("not ended", jw_arr(&j));
    MISUSE("a key without its value", jw_obj(&j); jw_key(&j, "k"); jw_obj_end(&j));
    MISUSE("two documents", jw_int(&j, 1); jw_int(&j, 2));
    MISUSE("nothing", (void)0);
    MISUSE("nested too deeply", for (int i = 0; i < 70; i++) jw_arr(&j); for (int i = 0; i < 70; i++) jw_arr_end(&j));
    struct jw j = begin();
    jw_str(&j, "\xff");
    ok(jw_end(&j) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "invalid UTF-8 fails");
    j = begin();
    jw_strn(&j, "a\0b", 3);
    ok(jw_end(&j) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "a NUL character fails");
    struct buf tiny = BUF_INIT(5);
    err_clear(&e);
    jw_begin(&j, &tiny, &e);
    jw_arr(&j);
    jw_str(&j, "too long");
    jw_arr_end(&j);
    ok(jw_end(&j) == -1 && e.code == CODE_LIMIT, "the buffer's cap");
    buf_free(&tiny);
}

static void readers_name_the_key(void) {
    const char *doc = "{\"s\":\"x\",\"n\":-5,\"b\":true,\"z\":null}", *s = NULL;
    int64_t i = 0;
    uint64_t u = 0;
    bool yes = false;
    err_clear(&e);
    json_t *o = json_parse(doc, strlen(doc), "a test", &e);
    ok(o && json_get_str(o, "s", &s, "a test", &e) == 0 && strcmp(s, "x") == 0, "a text");
    ok(json_get_i64(o, "n", &i, "a test", &e) == 0 && i == -5, "a number");
    ok(json_get_bool(o, "b", &yes, "a test", &e) == 0 && yes, "a bool");
    ok(json_get_u64(o, "n", &u, "a test", &e) == -1 && strstr(e.msg, "'n' of a test"), "a negative number is not unsigned: %s", e.msg);
    ok(json_get_str(o, "b", &s, "a test", &e) == -1 && e.code == CODE_MANIFEST_INVALID, "another type is refused");
    ok(json_get_str(o, "q", &s, "a test", &e) == -1 && strstr(e.msg, "no 'q'"), "a missing key is named: %s", e.msg);
    ok(json_opt_str(o, "q") == NULL && json_opt_str(o, "z") == NULL && strcmp(json_opt_str(o, "s"), "x") == 0, "optional texts");
    json_decref(o);
    static const char *const bad[] = {
        "", "{", "{}x", "{\"a\":1,\"a\":2}", "nope", "{\"a\":\"\\u0000\"}", "[1,]", "{\"a\":99999999999999999999}"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        err_clear(&e);
        ok(json_parse(bad[k], strlen(bad[k]), "a test", &e) == NULL && e.code == CODE_MANIFEST_INVALID, "refused: '%s'", bad[k]);
    }
}

static void failing_memory_is_told(void) {
    int failed = 0;
    for (long k = 0; k < 4; k++) {
        struct buf fresh = BUF_INIT(MiB(1));
        struct jw j;
        err_clear(&e);
        jw_begin(&j, &fresh, &e);
        mem_fail_after(k);
        jw_arr(&j);
        for (int i = 0; i < 30; i++)
            jw_str(&j, "some text");
        jw_arr_end(&j);
        mem_fail_after(-1);
        int rc = jw_end(&j);
        failed += rc < 0;
        ok(rc == 0 || e.code == CODE_NO_MEMORY, "allocation %ld fails", k);
        buf_free(&fresh);
    }
    ok(failed >= 2, "the sweep met allocations");
}

int main(void) {
    writes_json();
    misuse_sticks();
    readers_name_the_key();
    failing_memory_is_told();
    buf_free(&b);
    return done_testing();
}
