/* The default policy's decisions, an operator's file, and that there is always an answer. */
#include "engine/lua/policy.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static struct policy_answer ask(struct policy *p, enum err_class class, enum marker m, uint64_t attempt, const char *name) {
    struct err why = {.class = class, .code = class == ERR_REFUSE ? CODE_HEADROOM : CODE_SERVER, .marker = m};
    struct policy_ask a = {.kind = "broker", .name = name, .verb = "tail", .attempt = attempt, .since_progress_us = 1500000, .why = &why};
    struct policy_answer out;
    policy_retry(p, &a, &out);
    return out;
}

static bool within(struct policy_answer a, double from, double to) {
    return a.again && a.wait_us >= (int64_t)(from * 1e6) && a.wait_us <= (int64_t)(to * 1e6);
}

static void the_default_decides(struct policy *p) {
    double full = 1;
    for (uint64_t n = 1; n <= 7; n++, full = full * 2 > 30 ? 30 : full * 2)
        ok(within(ask(p, ERR_RETRY, MARKER_NONE, n, "a"), full / 2, full), "retry, attempt %d: half to all of %g s", (int)n, full);
    ok(within(ask(p, ERR_RETRY, MARKER_NONE, 1000000, "a"), 15, 30), "retry goes on for ever, at most 30 s apart");
    ok(within(ask(p, ERR_BUG, MARKER_INTERNAL, 3, "a"), 2, 4), "a bug is restarted with backoff");
    ok(!ask(p, ERR_CONFIG, MARKER_NONE, 1, "a").again, "a wrong configuration is not tried again");
    ok(!ask(p, ERR_BUSY, MARKER_NONE, 1, "a").again, "what another process owns is not tried again");
    ok(!ask(p, ERR_REFUSE, MARKER_NONE, 1, "a").again, "a refusal without a marker parks");
    ok(!ask(p, ERR_REFUSE, MARKER_APPLY_MARK_MISMATCH, 1, "a").again, "a refusal that no restart clears parks at once");
    ok(within(ask(p, ERR_REFUSE, MARKER_CDC_REPLICATION_HEADROOM, 1, "a"), 0.5, 1), "one that a restart may clear is tried");
    ok(ask(p, ERR_REFUSE, MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT, 8, "a").again, "eight times");
    ok(!ask(p, ERR_REFUSE, MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT, 9, "a").again, "and not nine times");
    ok(!ask(p, ERR_REFUSE, MARKER_CDC_REPLICATION_HEADROOM, 9, "a").fell_back, "the built-in answer is no fallback");
    is_int(ask(p, ERR_RETRY, MARKER_NONE, 5, "a").wait_us, ask(p, ERR_RETRY, MARKER_NONE, 5, "a").wait_us,
           "the same history gives the same wait");
    int64_t first = ask(p, ERR_RETRY, MARKER_NONE, 5, "leg-0").wait_us;
    int others = 0;
    for (int i = 1; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "leg-%d", i);
        others += ask(p, ERR_RETRY, MARKER_NONE, 5, name).wait_us != first;
    }
    ok(others >= 45, "fifty legs do not come back together");
}

static const char *file(const char *code) {
    static char path[] = "/tmp/sluice-t_policy-XXXXXX";
    static bool made;
    if (!made) close(mkstemp(path)), made = true;
    FILE *f = fopen(path, "w");
    fputs(code, f);
    fclose(f);
    return path;
}

static struct policy_answer own(const char *code) {
    struct policy *p = NULL;
    struct err e = {0};
    if (policy_open(file(code), &p, &e) < 0) return (struct policy_answer){true, -1, false};
    struct policy_answer a = ask(p, ERR_RETRY, MARKER_NONE, 1, "a");
    policy_close(p);
    return a;
}

static void a_file_decides(void) {
    struct policy_answer a = own("function retry(a) return 7 end");
    ok(a.again && a.wait_us == 7000000 && !a.fell_back, "a file's answer counts");
    a = own("function retry(a) return 0 end");
    ok(a.again && a.wait_us == 0 && !a.fell_back, "at once");
    a = own("function retry(a) end");
    ok(!a.again && !a.fell_back, "nil parks");
    a = own("function retry(a) return false end");
    ok(!a.again && !a.fell_back, "false parks");
    a = own("function retry(a) return a.kind == 'broker' and a.name == 'a' and a.verb == 'tail' and a.attempt == 1 and a.since_progress == "
            "1.5 and a.class == 'retry' "
            "and a.code == 'SLUICE-E-SERVER' and a.marker == '' and a.sub == '' and a.restartable == false and a.random >= 0 and a.random "
            "< 1 and a.message == nil and 3 or nil end");
    ok(a.again && a.wait_us == 3000000, "the ask holds what it should");
}

static void nothing_is_kept(void) {
    struct policy *p = NULL;
    struct err e = {0};
    policy_open(file("calls = 0\nfunction retry(a) calls = calls + 1 return calls end"), &p, &e);
    ask(p, ERR_RETRY, MARKER_NONE, 1, "a");
    is_int(ask(p, ERR_RETRY, MARKER_NONE, 1, "a").wait_us, 1000000, "a policy has no memory of the ask before");
    policy_close(p);
}

static void nonsense_falls_back(void) {
    static const char *const nonsense[] = {"return 'soon'",
                                           "return -1",
                                           "return 0/0",
                                           "return 1/0",
                                           "return {}",
                                           "return true",
                                           "return 86401",
                                           "error('x')",
                                           "while true do end",
                                           "local t = {} while true do t[#t + 1] = t end",
                                           "return nothing.there",
                                           "return pcall(function() while true do end end) and 1",
                                           "return ('a'):rep(30):find(('a*'):rep(30) .. 'b')"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        char code[200];
        snprintf(code, sizeof code, "function retry(a) %s end", nonsense[i]);
        struct policy_answer a = own(code);
        ok(a.fell_back && within(a, 0.5, 1), "the default answers for: %s", nonsense[i]);
    }
}

static void bad_files_are_refused(void) {
    struct policy *p = NULL;
    struct err e = {0};
    static const char *const bad[] = {"",           "x = 1",  "retry = 5", "function retry(", "error('x')", "while true do end",
                                      "os.exit(0)", "\x1bLua"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&e);
        ok(policy_open(file(bad[i]), &p, &e) == -1 && e.code == CODE_POLICY && e.class == ERR_CONFIG && p == NULL, "refused: '%s': %s",
           bad[i], e.msg);
    }
    ok(policy_open("/nonexistent/policy.lua", &p, &e) == -1 && e.code == CODE_POLICY, "a file that is not there: %s", e.msg);
    ok(policy_open("/tmp", &p, &e) == -1 && e.code == CODE_POLICY, "a directory: %s", e.msg);
}

static void there_is_always_an_answer(void) {
    struct policy *p = NULL;
    struct err e = {0};
    int failed = 0, wrong = 0;
    for (long k = 0; k < 400; k++) {
        err_clear(&e);
        mem_fail_after(k);
        int rc = policy_open(NULL, &p, &e);
        mem_fail_after(-1);
        failed += rc < 0;
        wrong += rc < 0 && e.code != CODE_NO_MEMORY && e.code != CODE_POLICY;
        if (rc == 0) policy_close(p);
        p = NULL;
    }
    ok(failed > 0 && wrong == 0, "opening without memory is told (%d)", failed);
    policy_open(NULL, &p, &e);
    wrong = 0;
    for (long k = 0; k < 60; k++) {
        mem_fail_after(k);
        struct policy_answer a = ask(p, ERR_RETRY, MARKER_NONE, 1, "a");
        mem_fail_after(-1);
        wrong += !(within(a, 0.5, 1) || (a.fell_back && a.again && a.wait_us == 5000000));
    }
    is_int(wrong, 0, "asking without memory gives an answer all the same");
    policy_close(p);
}

static void the_example_works(void) {
    struct policy *p = NULL;
    struct err e = {0};
    if (access("lua/examples/patient.lua", R_OK) != 0) {
        note("not run from the tree's root: the example is not tested");
        return;
    }
    ok(policy_open("lua/examples/patient.lua", &p, &e) == 0, "the example loads: %s", e.msg);
    if (!p) return;
    struct policy_answer a = ask(p, ERR_RETRY, MARKER_NONE, 1, "a");
    ok(within(a, 0.375, 0.5) && !a.fell_back, "and answers");
    ok(!ask(p, ERR_REFUSE, MARKER_PRE_ALTER_REPLAY_WEDGE, 4, "a").again, "and parks");
    policy_close(p);
}

int main(void) {
    struct policy *p = NULL;
    struct err e = {0};
    log_setup(LOG_TEXT, LOG_ERROR);
    ok(policy_open(NULL, &p, &e) == 0, "the built-in policy opens: %s", e.msg);
    if (!p) return done_testing();
    the_default_decides(p);
    policy_close(p);
    a_file_decides();
    nothing_is_kept();
    nonsense_falls_back();
    bad_files_are_refused();
    there_is_always_an_answer();
    the_example_works();
    unlink(file(""));
    return done_testing();
}
