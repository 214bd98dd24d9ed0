/* DESIGN: errors carry their identity (class, code, marker) beside their text, never inside it.
 *  1. A text that does not fit is cut at a whole character; the problem comes first, so the cut loses context only.
 *  2. Arguments may point into the err being filled: the new text is made aside.
 *  3. A NULL err is allowed everywhere: the caller is not interested. */
#include "engine/base/err.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum err_class class;
    const char *name, *meaning, *remedy;
} codes[CODE_COUNT] = {
    [CODE_NONE] = {ERR_NONE, "", "", ""},
#define X(id, cls, name, meaning, remedy) [CODE_##id] = {cls, name, meaning, remedy},
#include "engine/base/codes.def"
#undef X
};

static const struct {
    const char *name;
    bool restartable;
    const char *parent, *meaning, *remedy;
} markers[MARKER_COUNT] = {
    [MARKER_NONE] = {"", false, "", "", ""},
#define X(id, name, restartable, parent, meaning, remedy) [MARKER_##id] = {name, restartable, parent, meaning, remedy},
#include "engine/base/markers.def"
#undef X
};

/* Cut a half character that a full buffer left at its end. */
static void trim_partial(char *s, size_t cap) {
    size_t n = strlen(s), i = n;
    if (n + 1 < cap) return;
    while (i > 0 && ((unsigned char)s[i - 1] & 0xc0) == 0x80) i--;
    if (i == 0) return;
    unsigned char lead = (unsigned char)s[i - 1];
    size_t want = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (n - (i - 1) < want) s[i - 1] = 0;
}

__attribute__((format(printf, 3, 0))) static void format_into(char *out, size_t cap, const char *fmt, va_list ap) {
    if (vsnprintf(out, cap, fmt, ap) < 0) out[0] = 0;
    trim_partial(out, cap);
}

__attribute__((format(printf, 4, 0)))
static int set_v(struct err *e, enum err_class cls, enum err_code code, const char *fmt, va_list ap) {
    char msg[sizeof e->msg];
    if (!e) return -1;
    format_into(msg, sizeof msg, fmt, ap);
    e->class = cls;
    e->code = code;
    e->marker = e->sub = MARKER_NONE;
    e->hint[0] = 0;
    memcpy(e->msg, msg, strlen(msg) + 1);
    return -1;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_v(e, err_code_class(code), code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_set_class(struct err *e, enum err_class cls, enum err_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_v(e, cls, code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_mark(struct err *e, enum marker m, enum marker sub) {
    if (!e) return -1;
    e->marker = m;
    e->sub = sub;
    return -1;
}

int err_hint(struct err *e, const char *fmt, ...) {
    char hint[sizeof e->hint];
    va_list ap;
    if (!e) return -1;
    va_start(ap, fmt);
    format_into(hint, sizeof hint, fmt, ap);
    va_end(ap);
    memcpy(e->hint, hint, strlen(hint) + 1);
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...) {
    char msg[sizeof e->msg];
    va_list ap;
    if (!e) return -1;
    va_start(ap, fmt);
    format_into(msg, sizeof msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(msg), old = strlen(e->msg);
    /* The message is worth more than its context: keep at least half of the room for it. */
    size_t room = sizeof msg - 1 - 2, keep = old < room / 2 ? old : room / 2;
    if (n > room - keep) {
        n = room - keep;
        while (n > 0 && ((unsigned char)msg[n] & 0xc0) == 0x80) n--;
    }
    memcpy(msg + n, ": ", 2);
    n += 2;
    if (old > sizeof msg - 1 - n) old = sizeof msg - 1 - n;
    memcpy(msg + n, e->msg, old);
    msg[n + old] = 0;
    trim_partial(msg, sizeof msg);
    memcpy(e->msg, msg, strlen(msg) + 1);
    return -1;
}

void err_clear(struct err *e) {
    if (!e) return;
    e->class = ERR_NONE;
    e->code = CODE_NONE;
    e->marker = e->sub = MARKER_NONE;
    e->msg[0] = e->hint[0] = 0;
}

int err_exit_code(const struct err *e) {
    switch (e->class) {
    case ERR_NONE: return 0;
    case ERR_RETRY: return 1;
    case ERR_REFUSE: return e->marker != MARKER_NONE && marker_restartable(e->marker) ? 1 : 3;
    case ERR_CONFIG: return 2;
    case ERR_BUSY: return 75;
    case ERR_BUG: return 1;
    }
    return 1;
}

const char *err_class_name(enum err_class c) {
    switch (c) {
    case ERR_NONE: return "none";
    case ERR_RETRY: return "retry";
    case ERR_REFUSE: return "refuse";
    case ERR_CONFIG: return "config";
    case ERR_BUSY: return "busy";
    case ERR_BUG: return "bug";
    }
    return "bug";
}

static bool code_known(enum err_code c) { return (unsigned)c < CODE_COUNT; }
static bool marker_known(enum marker m) { return (unsigned)m < MARKER_COUNT; }

const char *err_code_name(enum err_code c) { return code_known(c) ? codes[c].name : ""; }
const char *err_code_meaning(enum err_code c) { return code_known(c) ? codes[c].meaning : ""; }
const char *err_code_remedy(enum err_code c) { return code_known(c) ? codes[c].remedy : ""; }
/* A failure without a code is still a failure, and ours. */
enum err_class err_code_class(enum err_code c) { return code_known(c) && c != CODE_NONE ? codes[c].class : ERR_BUG; }

const char *marker_name(enum marker m) { return marker_known(m) ? markers[m].name : ""; }
const char *marker_meaning(enum marker m) { return marker_known(m) ? markers[m].meaning : ""; }
const char *marker_remedy(enum marker m) { return marker_known(m) ? markers[m].remedy : ""; }
const char *marker_parent(enum marker m) { return marker_known(m) ? markers[m].parent : ""; }
bool marker_restartable(enum marker m) { return marker_known(m) && markers[m].restartable; }

enum marker marker_find(const char *name) {
    if (!name || !*name) return MARKER_NONE;
    for (unsigned m = MARKER_NONE + 1; m < MARKER_COUNT; m++)
        if (strcmp(markers[m].name, name) == 0) return (enum marker)m;
    return MARKER_NONE;
}
