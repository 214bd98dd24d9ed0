/* DESIGN.
 * 1. Links never wait for a full: the segment opens in one conditional put between two links, and its rows are read by a thread with a connection, a
 *    snapshot and a catalogue of its own. The producer only looks, between links, whether that thread is done.
 * 2. A snapshot may be ahead of the chain's tip. Each table says where it was read; a restore skips its changes up to there, and needs the links up to the
 *    newest one. Until the full is complete, restores take an older segment.
 * 3. A table is copied in the shape that the opening says. The catalogue is read before and after the snapshot: equal to the opening both times, so it was
 *    so in between; what is altered later stands in the log behind the snapshot. Otherwise the segment stays a plain continuation.
 * 4. A copy that failed for a passing reason goes on, tables that are done stay done; one that cannot go on is left, and the next rotation begins anew. A
 *    producer that died goes on with the segment it finds filling.
 * 5. One copy at a time: no segment opens while one is being filled. */
#include "engine/flow/rotate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/flow/mirror.h"

#define AGAIN_MIN_US INT64_C(1000000)
#define AGAIN_MAX_US (60 * INT64_C(1000000))
#define STOP_WAIT_S 10

struct rotation { /* job.side */
    struct job *j;
    /* the copy; its thread owns what it opens, and writes `tables` to `err` before `over` */
    pthread_t thread;
    bool running;
    atomic_bool over, stop;
    char segment[17], slot[64], identity[128];
    uint64_t tables, rows, stored;
    int rc;
    struct err err;
    /* the producer's own */
    char seen[17];              /* the open segment, and when it was opened by the monotonic clock */
    int64_t opened_us;
    char given_up[17];          /* not filled any more in this run */
    int64_t again_us, wait_us;  /* not before; the wait doubles */
    bool said;                  /* why there is no rotation now was logged */
};

/* ---- the copy ---- */

static bool told_to_stop(struct rotation *r) {
    return atomic_load(&r->stop) || stop_asked();
}

static int copy_table(struct rotation *r, struct full *f, struct reader *rd, const struct shape *t, const struct pos *at, struct err *e) {
    const struct source_ops *src = r->j->source_driver->source;
    struct full_table *ft = NULL;
    enum rows_encoding enc;
    uint64_t rows, raw, stored;
    if (src->reader_table(rd, t, &enc, e) < 0 || full_table_begin(f, t, at, enc, &ft, e) < 0) return -1;
    for (;;) {
        const char *p;
        size_t n;
        if (told_to_stop(r)) {
            err_set(e, CODE_INTERRUPTED, "the copy was stopped");
            goto bad;
        }
        if (src->reader_next(rd, &p, &n, &rows, e) < 0) goto bad;
        if (n == 0) break;
        if (full_table_put(ft, p, n, rows, e) < 0 || FAULT("rotate.in_table", e) < 0) goto bad;
    }
    if (FAULT("rotate.before_table_end", e) < 0) goto bad;
    if (full_table_end(ft, &rows, &raw, &stored, e) < 0) return -1;
    r->tables++;
    r->rows += rows;
    r->stored += stored;
    return FAULT("rotate.after_table_end", e);
bad:
    full_table_abort(ft);
    return -1;
}

static const struct shape *find_in(const struct catalog *c, const struct shape *t) {
    for (size_t i = 0; i < c->ntables; i++)
        if (t->oid && c->tables[i]->oid ? t->oid == c->tables[i]->oid
                                        : strcmp(t->ns, c->tables[i]->ns) == 0 && strcmp(t->name, c->tables[i]->name) == 0)
            return c->tables[i];
    return NULL;
}

static bool same_object(const struct object *a, const struct object *b) {
    return a->kind == b->kind && strcmp(a->ns ? a->ns : "", b->ns ? b->ns : "") == 0 && strcmp(a->name ? a->name : "", b->name ? b->name : "") == 0 &&
           strcmp(a->sql ? a->sql : "", b->sql ? b->sql : "") == 0;
}

/* Invariant 3: every table that is left, and every type it may need, as the opening has them. */
static int as_opened(const struct full *f, const struct catalog *was, const struct catalog *now, struct err *e) {
    for (size_t i = 0; i < was->ntables; i++) {
        const struct shape *t = was->tables[i], *n = find_in(now, t);
        if (full_table_done(f, t->table) || (n && strcmp(n->digest, t->digest) == 0)) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' was %s before it was copied", t->ns, t->name, n ? "altered" : "dropped or left out");
        return err_hint(e, "the next rotation begins anew");
    }
    for (size_t i = 0; i < now->nobjects; i++) {
        bool found = now->objects[i].kind == OBJECT_SEQUENCE;
        for (size_t k = 0; k < was->nobjects && !found; k++) found = same_object(&now->objects[i], &was->objects[k]);
        if (found) continue;
        err_set(e, CODE_SHAPE_CHANGED, "'%s' is new or was altered since the segment was opened", now->objects[i].name ? now->objects[i].name : "?");
        return err_hint(e, "the next rotation begins anew");
    }
    return 0;
}

static int open_source(struct rotation *r, struct source **s, struct err *e) {
    char identity[128];
    if (job_source(r->j, r->slot[0] ? r->slot : NULL, s, e) < 0) return -1;
    if (r->j->source_driver->source->identity(*s, identity, e) < 0) return -1;
    if (strcmp(identity, r->identity) == 0) return 0;
    return err_set(e, CODE_SOURCE_CHANGED, "the source is '%s', but the chain was taken from '%s'", identity, r->identity);
}

/* A snapshot that the tables which are left are known to have the opening's shapes in. *c is what was read behind it. */
static int take_snapshot(struct rotation *r, struct source *s, const struct full *f, const struct catalog *was, struct catalog **c, struct snapshot **snap,
                         struct pos *at, struct err *e) {
    const struct source_ops *src = r->j->source_driver->source;
    struct catalog *before = NULL;
    int rc = -1;
    if (src->catalog(s, true, &before, e) < 0 || as_opened(f, was, before, e) < 0) goto out;
    if (src->snapshot(s, before, at, snap, e) < 0 || FAULT("rotate.after_snapshot", e) < 0) goto out;
    if (src->catalog(s, true, c, e) < 0 || as_opened(f, was, *c, e) < 0) goto out;
    rc = 0;
out:
    catalog_free(before);
    return rc;
}

/* Where a snapshot is cheap and holds up the source's housekeeping (no server that makes slots for it), each table gets one of its own. */
static int copy_all(struct rotation *r, struct source *s, struct full *f, struct err *e) {
    const struct source_ops *src = r->j->source_driver->source;
    bool each = !(r->j->source_driver->caps & CAP_SLOT);
    struct catalog *c = NULL;
    struct snapshot *snap = NULL;
    struct reader *rd = NULL;
    const struct catalog *was;
    struct pos anchor, at;
    int rc = -1;
    full_anchor(f, &anchor, &was);
    if (src->catalog(s, true, &c, e) < 0) goto out; /* its sequences, when nothing is left to copy */
    for (size_t i = 0; i < was->ntables; i++) {
        const struct shape *t = was->tables[i];
        if (full_table_done(f, t->table)) continue;
        if (!snap) {
            catalog_free(c);
            c = NULL;
            if (take_snapshot(r, s, f, was, &c, &snap, &at, e) < 0 || src->reader_open(snap, &rd, e) < 0) goto out;
        }
        const struct shape *now = find_in(c, t);
        if (!now) {
            err_set(e, CODE_INTERNAL, "table '%s.%s' is not in the catalogue that was just compared", t->ns, t->name);
            goto out;
        }
        if (copy_table(r, f, rd, now, &at, e) < 0) {
            err_wrap(e, "table '%s.%s'", t->ns, t->name);
            goto out;
        }
        if (!each) continue;
        src->reader_close(rd);
        src->snapshot_close(snap);
        rd = NULL;
        snap = NULL;
    }
    if (FAULT("rotate.before_end", e) < 0) goto out;
    rc = full_end(f, c->objects, c->nobjects, NULL, e);
out:
    if (rd) src->reader_close(rd);
    if (snap) src->snapshot_close(snap);
    catalog_free(c);
    return rc;
}

static void *copier(void *arg) {
    struct rotation *r = arg;
    struct source *s = NULL;
    struct full *f = NULL;
    struct full_opts fo = {.compression = job_compression(r->j), .chunk_rows = r->j->options.chunk_size};
    r->rc = -1;
    if (full_refill(r->j->store, &fo, r->segment, &f, &r->err) == 0 && open_source(r, &s, &r->err) == 0) r->rc = copy_all(r, s, f, &r->err);
    full_close(f);
    if (s) r->j->source_driver->source->close(s);
    atomic_store(&r->over, true);
    return NULL;
}

static void start(struct rotation *r, const struct chain_info *ci) {
    snprintf(r->segment, sizeof r->segment, "%s", ci->segment);
    snprintf(r->slot, sizeof r->slot, "%s", ci->slot_name);
    snprintf(r->identity, sizeof r->identity, "%s", ci->source_identity);
    r->tables = r->rows = r->stored = 0;
    err_clear(&r->err);
    atomic_store(&r->over, false);
    r->running = pthread_create(&r->thread, NULL, copier, r) == 0;
    if (!r->running) log_warn("the full of the open segment is not written now: a thread cannot be started", KV_STR("segment", r->segment));
}

static void wait_longer(struct rotation *r) {
    r->wait_us = r->wait_us ? r->wait_us * 2 : AGAIN_MIN_US;
    if (r->wait_us > AGAIN_MAX_US) r->wait_us = AGAIN_MAX_US;
    r->again_us = clock_mono_us() + r->wait_us;
}

static void at_once(struct rotation *r) {
    r->wait_us = r->again_us = 0;
    r->said = false;
}

/* ---- between links ---- */

/* The copy is over: what did it come to? *survey: the source holds a shape that the chain does not tell by itself. */
static int settle(struct rotation *r, struct chain *c, bool *survey, struct err *e) {
    pthread_join(r->thread, NULL);
    r->running = false;
    if (chain_refresh(c, NULL, e) < 0) return -1;
    if (r->rc == 0) {
        at_once(r);
        log_info("the full of the open segment is complete", KV_STR("segment", r->segment), KV_U64("tables", r->tables), KV_U64("rows", r->rows),
                 KV_U64("bytes", r->stored));
        mirror_chain(r->j, c, chain_info(c)->segment_first);
        return FAULT("rotate.after_complete", e);
    }
    *survey = r->err.code == CODE_SHAPE_CHANGED;
    if (r->err.class == ERR_RETRY || r->err.code == CODE_INTERRUPTED) {
        if (r->tables) at_once(r); /* it came further */
        wait_longer(r);
        log_warn("the full of the open segment failed; it will go on", KV_STR("segment", r->segment), KV_U64("wait_ms", r->wait_us / 1000),
                 KV_STR("code", err_code_name(r->err.code)), KV_STR("err", r->err.msg));
        return 0;
    }
    snprintf(r->given_up, sizeof r->given_up, "%s", r->segment);
    log_warn("the full of the open segment is given up: its links go on, and restores take an older full until the next rotation",
             KV_STR("segment", r->segment), KV_STR("code", err_code_name(r->err.code)), KV_STR("err", r->err.msg));
    return 0;
}

static void look_at_age(struct rotation *r, struct chain *c) {
    const struct chain_info *ci = chain_info(c);
    struct link_info first;
    if (strcmp(r->seen, ci->segment) == 0) return;
    if (chain_link(c, ci->segment_first, &first, &(struct err){0}) < 0) return;
    int64_t age = clock_wall_us() - first.time_us;
    r->opened_us = clock_mono_us() - (age > 0 ? age : 0);
    snprintf(r->seen, sizeof r->seen, "%s", ci->segment);
}

/* Why the open segment is to end; NULL while it is not. One without links has nothing to end. */
static const char *due(struct rotation *r, struct chain *c) {
    const struct options *o = &r->j->options;
    const struct chain_info *ci = chain_info(c);
    uint64_t links = ci->nlinks - 1 - ci->segment_first;
    if (!o->rotate_length && !o->rotate_age_us) return NULL;
    look_at_age(r, c);
    if (links == 0 || clock_mono_us() < r->again_us) return NULL;
    if (o->rotate_length && links >= o->rotate_length) return "length";
    if (o->rotate_age_us && strcmp(r->seen, ci->segment) == 0 && clock_mono_us() - r->opened_us >= o->rotate_age_us) return "age";
    return NULL;
}

static int open_next(struct rotation *r, struct chain *c, struct source *s, const char *why, bool *survey, struct err *e) {
    struct catalog *cat = NULL;
    struct link_info opening;
    if (FAULT("rotate.before_open", e) < 0) return -1;
    if (r->j->source_driver->source->catalog(s, true, &cat, e) < 0 || chain_rotate(c, cat, &opening, e) < 0) {
        catalog_free(cat);
        if (e->class == ERR_RETRY || e->code == CODE_CHAIN_CONFLICT || e->code == CODE_INTERNAL) return -1;
        *survey = e->code == CODE_SHAPE_CHANGED;
        if (!r->said) log_warn("no new segment now; links go on in the open one", KV_STR("code", err_code_name(e->code)), KV_STR("err", e->msg));
        r->said = true;
        err_clear(e);
        wait_longer(r);
        return 0;
    }
    catalog_free(cat);
    at_once(r);
    log_info("a new segment was opened; its full is written beside the links", KV_STR("segment", opening.segment), KV_STR("id", opening.id),
             KV_STR("for", why));
    mirror_chain(r->j, c, opening.n);
    if (FAULT("rotate.after_open", e) < 0) return -1;
    start(r, chain_info(c));
    return 0;
}

static void last_word(struct rotation *r) {
    struct chain *c = NULL;
    struct err e = {0};
    log_info("the full of the open segment is complete", KV_STR("segment", r->segment), KV_U64("tables", r->tables), KV_U64("rows", r->rows),
             KV_U64("bytes", r->stored));
    if (job_chain(r->j, &c, &e) == 0) mirror_chain(r->j, c, chain_info(c)->segment_first);
    chain_close(c);
}

static void rotation_free(void *p) {
    struct rotation *r = p;
    struct timespec until;
    if (r->running) {
        atomic_store(&r->stop, true);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += STOP_WAIT_S;
        if (pthread_timedjoin_np(r->thread, NULL, &until) != 0) {
            stop_ask(); /* it waits for the server: everything in this process that waits is woken */
            pthread_join(r->thread, NULL);
        }
        if (r->rc < 0) log_info("the full of the open segment goes on at the next start", KV_STR("segment", r->segment), KV_STR("err", r->err.msg));
        else last_word(r);
    }
    mem_free(r);
}

int rotation_boundary(struct job *j, struct chain *c, struct source *s, struct err *e) {
    struct rotation *r = j->side;
    bool survey = false;
    struct pos end;
    if (!r) {
        if (!(r = mem_alloc(sizeof *r, e))) return -1;
        r->j = j;
        j->side = r;
        j->side_free = rotation_free;
    }
    if (r->running) {
        if (!atomic_load(&r->over)) return 0;
        if (settle(r, c, &survey, e) < 0) return -1;
    }
    const struct chain_info *ci = chain_info(c);
    bool unfinished = !ci->full_complete && ci->nsegments > 1 && strcmp(r->given_up, ci->segment) != 0;
    const char *why = survey || unfinished ? NULL : due(r, c);
    if (unfinished && clock_mono_us() >= r->again_us) {
        log_info("the full of the open segment goes on", KV_STR("segment", ci->segment));
        start(r, ci);
    }
    if (why && open_next(r, c, s, why, &survey, e) < 0) return -1;
    /* What was altered without a row behind it is told by the next links. */
    return survey ? j->source_driver->source->end(s, &end, e) : 0;
}
