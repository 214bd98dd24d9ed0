/* Errors: filled once where they happen, given context going up, logged at the top only.
 *
 * Every function that can fail returns 0 or -1 (or NULL) and fills `struct err`. A zeroed struct err means "no error".
 * The class says what the engine may do; the code names the kind of problem (its remedy stands in codes.def and is printed by
 * `sluice errors`); the marker, where there is one, decides by its row in the control DB's `marker` table whether a restart may
 * clear it. Nothing ever searches the message text. */
#ifndef SLUICE_BASE_ERR_H
#define SLUICE_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum err_class {
    ERR_NONE,   /* no error */
    ERR_RETRY,  /* back off and try again: exit 1 */
    ERR_REFUSE, /* an operator must act: exit 3, or 1 where the marker is restartable */
    ERR_CONFIG, /* tell the user: exit 2 */
    ERR_BUSY,   /* owned by another process on this control DB: exit 75 */
    ERR_BUG     /* a broken invariant of ours, marker INTERNAL: exit 1 */
};

/* CODE_x, from codes.def: X(ident, class, "SLUICE-E-…", "what it means", "what to do") */
enum err_code {
    CODE_NONE,
#define X(id, cls, name, meaning, remedy) CODE_##id,
#include "engine/base/codes.def"
#undef X
    CODE_COUNT
};

/* MARKER_x, from markers.def: X(ident, "NAME", restartable, "parent or empty", "what it means", "remedy") */
enum marker {
    MARKER_NONE,
#define X(id, name, restartable, parent, meaning, remedy) MARKER_##id,
#include "engine/base/markers.def"
#undef X
    MARKER_COUNT
};

struct err {
    enum err_class class;
    enum err_code code;
    enum marker marker; /* the identity a supervisor decides by */
    enum marker sub;    /* a marker that arrives inside another (KEY-COLLATION-GUARD-UNSUPPORTED) */
    char msg[1536];     /* lower case, problem first, subject quoted */
    char hint[768];     /* names the next command; empty when there is nothing to do */
};

/* Fill *e (class from the code's row) and return -1. A later err_set overwrites: call it once, where the failure happens. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with another class than the code's usual one (a server's SQLSTATE decides). */
int err_set_class(struct err *e, enum err_class cls, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int err_mark(struct err *e, enum marker m, enum marker sub);                                         /* returns -1 */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));             /* returns -1 */
/* Put context in front: "context: message". Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);
/* 0 for no error, else 1, 2, 3 or 75 as the design says. */
int err_exit_code(const struct err *e);

const char *err_class_name(enum err_class c);       /* "retry", "refuse", "config", "busy", "bug" */
const char *err_code_name(enum err_code c);         /* "SLUICE-E-…", "" for CODE_NONE */
const char *err_code_meaning(enum err_code c);
const char *err_code_remedy(enum err_code c);
enum err_class err_code_class(enum err_code c);
const char *marker_name(enum marker m);             /* "APPLY-MARK-MISMATCH", "" for MARKER_NONE */
const char *marker_meaning(enum marker m);
const char *marker_remedy(enum marker m);
const char *marker_parent(enum marker m);           /* the marker it arrives inside of, "" if it stands alone */
bool marker_restartable(enum marker m);
enum marker marker_find(const char *name);          /* MARKER_NONE if unknown */

#endif
