#include "engine/flow/stopper.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/chain/chain.h"
#include "engine/flow/notify.h"

#define NEAR_US 1000000
#define FAR_US 5000000

static const char *own_object(const struct stopper *s) {
    return s->stream_id ? s->stream_id : CHAIN_STOP_PRODUCER;
}

int stopper_begin(struct stopper *s, struct err *e) {
    s->why[0] = 0;
    if (s->control && request_last_id(s->control, &s->requests_since, e) < 0) return -1;
    if (s->store) {
        if (chain_stop_nonce(s->store, own_object(s), s->nonce_own, e) < 0) return -1;
        if (s->stream_id && chain_stop_nonce(s->store, NULL, s->nonce_all, e) < 0) return -1;
    }
    if (s->target) {
        struct target_state st = {0};
        bool found;
        if (s->driver->target->state_read(s->target, s->stream_id, &st, &found, e) < 0) return -1;
        s->target_seen_us = found ? st.stop_requested_us : 0;
        s->target_known = true;
    }
    s->next_near_us = s->next_far_us = 0;
    return 0;
}

static bool said(struct stopper *s, const char *why) {
    snprintf(s->why, sizeof s->why, "%s", why);
    log_info("stop asked", KV_STR("by", s->why));
    notify_stopping();
    return true;
}

void stopper_target(struct stopper *s, const struct db_driver *driver, struct target *target, int64_t seen_us) {
    s->driver = driver;
    s->target = target;
    if (!s->target_known) s->target_seen_us = seen_us;
    s->target_known = true;
}

/* Somebody moved the entity to another state with SQL: that is an order too. What cannot be read now is asked again. */
static bool moved_away(struct stopper *s) {
    struct err e = {0};
    struct entity now = {0};
    bool found = false;
    bool moved = entity_find(s->control, s->entity->kind, s->entity->name, &now, &found, &e) == 0 && found && strcmp(now.state, s->entity->state) != 0;
    entity_free(&now);
    return moved;
}

static bool look_near(struct stopper *s) {
    struct err e = {0};
    int64_t id = 0;
    char verb[32];
    if (!s->control || !s->entity) return false;
    if (moved_away(s)) return said(s, "its state in the control DB");
    if (request_next(s->control, s->entity, s->requests_since, &id, verb, &e) < 0 || id == 0) return false;
    s->requests_since = id;
    if (strcmp(verb, "stop") != 0) return false;
    request_done(s->control, id, "stopping", &e);
    return said(s, "control DB");
}

static bool look_far(struct stopper *s) {
    struct err e = {0};
    char nonce[33] = "";
    if (s->store) {
        if (chain_stop_nonce(s->store, own_object(s), nonce, &e) == 0 && nonce[0] && strcmp(nonce, s->nonce_own) != 0) return said(s, "store");
        if (s->stream_id && chain_stop_nonce(s->store, NULL, nonce, &e) == 0 && nonce[0] && strcmp(nonce, s->nonce_all) != 0)
            return said(s, "store");
    }
    if (s->target) {
        struct target_state st = {0};
        bool found;
        if (s->driver->target->state_read(s->target, s->stream_id, &st, &found, &e) == 0 && found && st.stop_requested_us != 0 &&
            st.stop_requested_us != s->target_seen_us)
            return said(s, "target");
    }
    return false;
}

bool stopper_asked(struct stopper *s) {
    notify_alive();
    if (s->why[0]) return true;
    if (stop_asked()) return said(s, "signal");
    int64_t now = clock_mono_us();
    if (now >= s->next_near_us) {
        s->next_near_us = now + NEAR_US;
        if (look_near(s)) return true;
    }
    if (now >= s->next_far_us) {
        s->next_far_us = now + FAR_US;
        if (look_far(s)) return true;
    }
    return false;
}

bool stopper_wait(struct stopper *s, int64_t us) {
    int64_t until = clock_mono_us() + us;
    for (;;) {
        if (stopper_asked(s)) return true;
        int64_t left = until - clock_mono_us();
        if (left <= 0) return false;
        stop_wait(left < NEAR_US ? left : NEAR_US);
    }
}

void stopper_say(struct stopper *s, const char *why) {
    if (!s->why[0]) said(s, why);
}
