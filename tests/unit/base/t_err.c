#include "engine/base/err.h"
#include "tests/tap.h"

static void classes_and_exit_codes(void) {
    struct err e = {0};
    is_int(err_exit_code(&e), 0, "no error exits 0");
    is_int(err_set(&e, CODE_IO, "cannot read '%s'", "f"), -1, "err_set returns -1");
    is_str(e.msg, "cannot read 'f'", "message is formatted");
    is_int(e.class, ERR_RETRY, "class comes from the code");
    is_int(err_exit_code(&e), 1, "retry exits 1");
    err_set(&e, CODE_USAGE, "x");
    is_int(err_exit_code(&e), 2, "config exits 2");
    err_set(&e, CODE_CHAIN_HOLE, "x");
    is_int(err_exit_code(&e), 3, "refusal exits 3");
    err_mark(&e, MARKER_SLOT_ACKED_PAST_TARGET_POSITION, MARKER_NONE);
    is_int(err_exit_code(&e), 3, "a marker that needs an operator exits 3");
    err_mark(&e, MARKER_INTERNAL, MARKER_NONE);
    is_int(err_exit_code(&e), 1, "a marker that a restart may clear exits 1");
    err_set(&e, CODE_BUSY, "x");
    is_int(err_exit_code(&e), 75, "busy exits 75");
    err_set(&e, CODE_INTERNAL, "x");
    is_int(err_exit_code(&e), 1, "a bug exits 1");
    err_set_class(&e, ERR_REFUSE, CODE_SERVER, "x");
    is_int(e.class, ERR_REFUSE, "the caller's class wins over the code's");
    err_set(&e, CODE_NONE, "x");
    is_int(e.class, ERR_BUG, "a failure without a code is a bug, never 'no error'");
}

static void a_later_set_starts_anew(void) {
    struct err e = {0};
    err_set(&e, CODE_IO, "first");
    err_mark(&e, MARKER_INTERNAL, MARKER_INTERNAL);
    is_int(err_hint(&e, "try %d", 1), -1, "err_hint returns -1");
    is_str(e.hint, "try 1", "hint is formatted");
    err_set(&e, CODE_IO, "again: %s", e.msg);
    is_str(e.msg, "again: first", "arguments may point into the err itself");
    is_str(e.hint, "", "the old hint is gone");
    is_int(e.marker, MARKER_NONE, "the old marker is gone");
    err_clear(&e);
    is_int(e.class, ERR_NONE, "cleared");
    is_str(e.msg, "", "cleared message");
    is_int(err_set(NULL, CODE_IO, "x") + err_wrap(NULL, "x") + err_hint(NULL, "x") + err_mark(NULL, 0, 0), -4, "a NULL err is allowed");
}

static void wrapping(void) {
    struct err e = {0};
    char big[4000];
    err_set(&e, CODE_IO, "cannot read");
    err_hint(&e, "look");
    is_int(err_wrap(&e, "stream '%s'", "s"), -1, "err_wrap returns -1");
    is_str(e.msg, "stream 's': cannot read", "context stands in front");
    is_str(e.hint, "look", "the hint stays");
    is_int(e.code, CODE_IO, "the code stays");
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    err_wrap(&e, "%s", big);
    ok(strstr(e.msg, ": stream 's': cannot read") != NULL, "a huge context does not push the message out");
    ok(strlen(e.msg) < sizeof e.msg, "terminated");
    err_set(&e, CODE_IO, "%s", big);
    is_int(strlen(e.msg), sizeof e.msg - 1, "a huge message is cut");
    err_wrap(&e, "ctx");
    ok(strncmp(e.msg, "ctx: xxx", 8) == 0, "context in front of a full message");
    is_int(strlen(e.msg), sizeof e.msg - 1, "still cut at the end");
}

static void cut_at_whole_characters(void) {
    struct err e = {0};
    char big[4000];
    for (int shift = 0; shift < 3; shift++) {
        memset(big, 'x', (size_t)shift);
        for (size_t i = (size_t)shift; i + 3 < sizeof big; i += 3) memcpy(big + i, "€", 4);
        err_set(&e, CODE_IO, "%s", big);
        is_int((strlen(e.msg) - (size_t)shift) % 3, 0, "no half character at the cut, shift %d", shift);
        ok(strlen(e.msg) >= sizeof e.msg - 3, "and not more than it lost, shift %d", shift);
    }
}

static void the_registries_are_complete(void) {
    int bad = 0, twice = 0, parents = 0;
    for (int c = 1; c < CODE_COUNT; c++) {
        const char *n = err_code_name((enum err_code)c);
        if (strncmp(n, "SLUICE-E-", 9) != 0 || !*err_code_meaning((enum err_code)c) || !*err_code_remedy((enum err_code)c)) bad++;
        for (int d = 1; d < c; d++)
            if (strcmp(n, err_code_name((enum err_code)d)) == 0) twice++;
    }
    is_int(bad, 0, "every code has a name, a meaning and a remedy");
    is_int(twice, 0, "no code's name stands twice");
    bad = twice = 0;
    for (int m = 1; m < MARKER_COUNT; m++) {
        if (marker_find(marker_name((enum marker)m)) != (enum marker)m) twice++;
        if (!*marker_meaning((enum marker)m) || !*marker_remedy((enum marker)m)) bad++;
        const char *p = marker_parent((enum marker)m);
        if (*p && marker_find(p) == MARKER_NONE) parents++;
    }
    is_int(bad, 0, "every marker has a meaning and a remedy");
    is_int(twice, 0, "every marker is found by its name");
    is_int(parents, 0, "every marker's parent exists");
    is_int(marker_find("NOPE"), MARKER_NONE, "an unknown marker is none");
    is_int(marker_find(""), MARKER_NONE, "the empty name is none");
    is_str(err_code_name((enum err_code)9999), "", "an unknown code has no name");
}

int main(void) {
    classes_and_exit_codes();
    a_later_set_starts_anew();
    wrapping();
    cut_at_whole_characters();
    the_registries_are_complete();
    return done_testing();
}
