/* Policy in Lua: whether and when an entity is tried again. Pure functions in a sandbox; DESIGN in host.c. */
#ifndef SLUICE_LUA_POLICY_H
#define SLUICE_LUA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct policy;
/* path NULL: the built-in lua/policy.lua. A file that does not load is CODE_POLICY. One policy belongs to one thread. */
int policy_open(const char *path, struct policy **p, struct err *e);
void policy_close(struct policy *p);

struct policy_ask {
    const char *kind, *name;      /* entity */
    const char *verb;             /* the step that failed */
    uint64_t attempt;             /* consecutive failures, 1-based */
    int64_t since_progress_us;    /* since the entity last made progress */
    const struct err *why;
};
struct policy_answer { bool again; int64_t wait_us; bool fell_back; };
/* Never fails: a policy that errs, loops or answers nonsense is logged and the built-in default answers (fell_back). */
void policy_retry(struct policy *p, const struct policy_ask *a, struct policy_answer *out);

#endif
