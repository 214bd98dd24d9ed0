#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "tests/tap.h"

static char got[4 * 1024 * 1024];
static int real_stderr, catch_fd;

static void catch_begin(void) {
    real_stderr = dup(STDERR_FILENO);
    catch_fd = memfd_create("stderr", MFD_CLOEXEC);
    dup2(catch_fd, STDERR_FILENO);
}

static size_t catch_end(void) {
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    ssize_t n = pread(catch_fd, got, sizeof got - 1, 0);
    close(catch_fd);
    got[n < 0 ? 0 : n] = 0;
    return n < 0 ? 0 : (size_t)n;
}

/* The line without its time, which is checked for form. */
static const char *after_time(void) {
    static const char form[] = "0000-00-00T00:00:00.000Z ";
    for (size_t i = 0; form[i]; i++)
        if (form[i] == '0' ? got[i] < '0' || got[i] > '9' : got[i] != form[i]) return got;
    return got + sizeof form - 1;
}

static void text_lines(void) {
    log_setup(LOG_TEXT, LOG_INFO);
    catch_begin();
    log_warn("lag grows", KV_STR("stream", "s1"), KV_U64("bytes", UINT64_MAX), KV_I64("delta", -5));
    catch_end();
    is_str(after_time(), "warn lag grows stream=s1 bytes=18446744073709551615 delta=-5\n", "a text line");
    catch_begin();
    log_info("x", KV_STR("a", "two words"), KV_STR("b", ""), KV_STR("c", "q\"\\\n\x1b="), KV_STR("d", NULL), KV_STR("e", "ä\xff"));
    catch_end();
    is_str(after_time(), "info x a=\"two words\" b=\"\" c=\"q\\\"\\\\\\n\\x1b=\" d=null e=\"ä\xef\xbf\xbd\"\n", "values are quoted where they must be");
    catch_begin();
    log_debug("not shown");
    is_int(catch_end(), 0, "below the level nothing is written");
    catch_begin();
    log_note(LOG_ERROR, "two\nlines \x1b[31m \"quoted\"\n");
    catch_end();
    is_str(after_time(), "error two\\nlines \\x1b[31m \"quoted\"\n", "a message stays on one line and steers no terminal");
    log_stream("app 1");
    catch_begin();
    log_info("x", KV_U64("n", 1));
    catch_end();
    is_str(after_time(), "info x stream_id=\"app 1\" n=1\n", "the stream is on every line");
    log_stream(NULL);
}

static const char *str(json_t *o, const char *k) {
    const char *s = json_string_value(json_object_get(o, k));
    return s ? s : "(none)";
}

static void json_lines(void) {
    log_setup(LOG_JSON, LOG_DEBUG);
    log_stream("s");
    catch_begin();
    log_debug("m \"q\" \\ \n\t\x01 ä", KV_STR("bad", "a\xffz\xe2\x82"), KV_U64("u", 5), KV_I64("i", -5), KV_STR("nul", NULL), KV_STR("k\"ey", "v"));
    size_t n = catch_end();
    ok(n && got[n - 1] == '\n' && !memchr(got, '\n', n - 1), "one line");
    json_t *o = json_loads(got, JSON_REJECT_DUPLICATES, NULL);
    ok(o != NULL, "which is JSON");
    is_str(str(o, "msg"), "m \"q\" \\ \n\t\x01 ä", "the message survives");
    is_str(str(o, "level"), "debug", "the level");
    is_str(str(o, "stream_id"), "s", "the stream");
    is_str(str(o, "bad"), "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd", "malformed bytes are replaced");
    is_str(str(o, "k\"ey"), "v", "keys are escaped");
    ok(json_integer_value(json_object_get(o, "u")) == 5 && json_integer_value(json_object_get(o, "i")) == -5, "numbers are numbers");
    ok(json_is_null(json_object_get(o, "nul")), "NULL is null");
    is_int(strlen(str(o, "time")), 24, "a time in milliseconds");
    json_decref(o);
    log_stream(NULL);
}

static void huge_values(void) {
    static char big[100000];
    struct kv kv[40];
    memset(big, 1, sizeof big - 1); /* every byte takes six in JSON */
    for (int i = 0; i < 40; i++) kv[i] = KV_STR("key", big);
    for (int json = 0; json < 2; json++) {
        log_setup(json ? LOG_JSON : LOG_TEXT, LOG_INFO);
        mem_fail_after(0);
        catch_begin();
        log_line(LOG_INFO, big, kv, 40);
        size_t n = catch_end();
        mem_fail_after(-1);
        ok(n > 10000 && n <= 32768 && got[n - 1] == '\n' && !memchr(got, '\n', n - 1), "a line of bounded length, %zu bytes, without any memory", n);
        ok(text_utf8_valid(got, n), "in whole characters");
        if (json) {
            json_t *o = json_loads(got, 0, NULL);
            ok(o != NULL, "still JSON");
            json_decref(o);
        }
    }
}

static void errors(void) {
    struct err e = {0};
    log_setup(LOG_TEXT, LOG_ERROR);
    err_set(&e, CODE_CHAIN_HOLE, "cannot go on: a hole behind '%s'\nDETAIL: more\n", "x");
    err_hint(&e, "rebuild with `--reset-target-data`");
    catch_begin();
    log_err(&e);
    catch_end();
    is_str(got, "error: cannot go on: a hole behind 'x'\n  DETAIL: more\n  code=SLUICE-E-CHAIN-HOLE\nhint: rebuild with `--reset-target-data`\n", "an error for people");
    e.hint[0] = 0;
    catch_begin();
    log_err(&e);
    catch_end();
    ok(strstr(got, "\nhint: rebuild with --reset-target-data\n") != NULL, "without a hint the code's remedy stands there");
    err_mark(&e, MARKER_SLOT_ACKED_PAST_TARGET_POSITION, MARKER_NONE);
    log_stream("app");
    catch_begin();
    log_err(&e);
    catch_end();
    ok(strstr(got, "\n  code=SLUICE-E-CHAIN-HOLE marker=SLOT-ACKED-PAST-TARGET-POSITION stream_id=app\n") != NULL, "code, marker and stream");
    ok(strstr(got, marker_remedy(MARKER_SLOT_ACKED_PAST_TARGET_POSITION)) != NULL, "the marker's remedy is nearer than the code's");

    log_setup(LOG_JSON, LOG_ERROR);
    catch_begin();
    log_err(&e);
    catch_end();
    json_t *o = json_loads(got, JSON_REJECT_DUPLICATES, NULL);
    is_str(str(o, "msg"), "cannot go on: a hole behind 'x'\nDETAIL: more\n", "JSON: the message");
    is_str(str(o, "code"), "SLUICE-E-CHAIN-HOLE", "the code");
    is_str(str(o, "class"), "refuse", "the class");
    is_str(str(o, "marker"), "SLOT-ACKED-PAST-TARGET-POSITION", "the marker");
    is_str(str(o, "stream_id"), "app", "the stream");
    ok(strcmp(str(o, "hint"), "(none)") != 0, "a hint");
    json_decref(o);
    log_stream(NULL);

    err_clear(&e);
    catch_begin();
    log_err(&e);
    catch_end();
    o = json_loads(got, 0, NULL);
    is_str(str(o, "marker"), "INTERNAL", "a failure that nobody filled is an internal error");
    json_decref(o);
    errno = ENOENT;
    catch_begin();
    errno = ENOENT;
    log_error("x", KV_U64("n", 1));
    is_int(errno, ENOENT, "errno is left alone");
    catch_end();
}

static void *writer(void *arg) {
    for (int i = 0; i < 500; i++) log_info("from a thread", KV_STR("who", arg), KV_U64("i", i));
    return NULL;
}

static void threads_do_not_mix(void) {
    pthread_t t[4];
    char name[4][16];
    int lines = 0, bad = 0;
    log_setup(LOG_JSON, LOG_INFO);
    catch_begin();
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_APPEND);
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], "t%d", i);
        pthread_create(&t[i], NULL, writer, name[i]);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    catch_end();
    for (char *p = got, *nl; (nl = strchr(p, '\n')); p = nl + 1, lines++) {
        json_t *o = json_loadb(p, (size_t)(nl - p), 0, NULL);
        bad += o == NULL;
        json_decref(o);
    }
    is_int(lines, 2000, "a line for each call");
    is_int(bad, 0, "every one whole");
}

int main(void) {
    text_lines();
    json_lines();
    huge_values();
    errors();
    threads_do_not_mix();
    return done_testing();
}
