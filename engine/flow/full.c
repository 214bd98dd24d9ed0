/* The producer's first step: a full. DESIGN.
 * 1. Durable before anything on the source: the intent (so an anchor left by a killed run can be told from a stranger's). Durable before the first
 *    row: the anchor's position and the tables. A killed full goes on with the first anchor, never with a second.
 * 2. Each table is read from one snapshot and says at which position; a table half read under a lost snapshot is read again whole.
 * 3. Sequences are read behind the last row: none is behind a value that a row holds.
 * 4. Several tables are copied at once where the source's snapshots can be shared: one reader and one table per thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"
#include "engine/flow/mirror.h"

#define AUTO_PARALLELISM 4
#define DEFAULT_SLOT "sluice_slot"

struct copy { /* shared by the readers, under lock */
    pthread_mutex_t lock;
    struct job *j;
    struct full *full;
    struct snapshot *snap;
    struct pos snap_pos;
    const struct catalog *catalog; size_t next;
    uint64_t tables, rows, raw, stored;
    struct err first;
    bool failed, stopped;
};

static bool copy_over(struct copy *c) {
    pthread_mutex_lock(&c->lock);
    bool over = c->failed || c->stopped;
    pthread_mutex_unlock(&c->lock);
    return over;
}

/* hop 1/8 of a full: the source's blocks go to the chain's frames as they are. */
static int copy_table(struct copy *c, struct reader *r, const struct shape *t, struct err *e) {
    const struct source_ops *src = c->j->source_driver->source;
    struct full_table *ft = NULL;
    enum rows_encoding enc;
    uint64_t rows, raw, stored;
    if (src->reader_table(r, t, &enc, e) < 0) return -1;
    if (full_table_begin(c->full, t, &c->snap_pos, enc, &ft, e) < 0) return -1;
    for (;;) {
        const char *p;
        size_t n;
        if (copy_over(c)) {
            full_table_abort(ft);
            return 0;
        }
        if (src->reader_next(r, &p, &n, &rows, e) < 0) goto bad;
        if (n == 0) break;
        if (full_table_put(ft, p, n, rows, e) < 0) goto bad;
        progress_add(&c->j->progress, 0, rows, n);
        if (FAULT("full.in_table", e) < 0) goto bad;
    }
    if (FAULT("full.before_table_end", e) < 0) goto bad;
    if (full_table_end(ft, &rows, &raw, &stored, e) < 0) return -1;
    if (FAULT("full.after_table_end", e) < 0) return -1;
    progress_add(&c->j->progress, 1, 0, 0);
    pthread_mutex_lock(&c->lock);
    c->tables++;
    c->rows += rows;
    c->raw += raw;
    c->stored += stored;
    pthread_mutex_unlock(&c->lock);
    return 0;
bad:
    full_table_abort(ft);
    return err_wrap(e, "table '%s.%s'", t->ns, t->name);
}

static void *copier(void *arg) {
    struct copy *c = arg;
    const struct source_ops *src = c->j->source_driver->source;
    struct reader *r = NULL;
    struct err e = {0};
    int rc = src->reader_open(c->snap, &r, &e);
    while (rc == 0 && !copy_over(c)) {
        const struct shape *t = NULL;
        pthread_mutex_lock(&c->lock);
        while (c->next < c->catalog->ntables && full_table_done(c->full, c->catalog->tables[c->next]->table))
            c->next++;
        if (c->next < c->catalog->ntables) t = c->catalog->tables[c->next++];
        pthread_mutex_unlock(&c->lock);
        if (!t) break;
        rc = copy_table(c, r, t, &e);
    }
    src->reader_close(r);
    if (rc < 0) {
        pthread_mutex_lock(&c->lock);
        if (!c->failed) c->first = e;
        c->failed = true;
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

static int copy_all(struct copy *c, struct err *e) {
    unsigned n = c->j->options.table_parallelism ? (unsigned)c->j->options.table_parallelism : AUTO_PARALLELISM, started = 0;
    if (!(c->j->source_driver->caps & CAP_CONCURRENT_READERS)) n = 1;
    if (n > c->catalog->ntables) n = c->catalog->ntables ? (unsigned)c->catalog->ntables : 1;
    pthread_t *threads = mem_alloc(n * sizeof *threads, e);
    if (!threads) return -1;
    progress_begin(&c->j->progress, "full", c->catalog->ntables, 0, 0);
    for (; started < n; started++)
        if (pthread_create(&threads[started], NULL, copier, c) != 0) break;
    if (started == 0) {
        mem_free(threads);
        return err_set(e, CODE_NO_MEMORY, "a thread cannot be started");
    }
    for (unsigned i = 0; i < started; i++) {
        struct timespec until;
        for (;;) {
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 1;
            if (pthread_timedjoin_np(threads[i], NULL, &until) == 0) break;
            if (stopper_asked(&c->j->stopper)) {
                pthread_mutex_lock(&c->lock);
                c->stopped = true;
                pthread_mutex_unlock(&c->lock);
            }
        }
    }
    mem_free(threads);
    if (c->failed) {
        *e = c->first;
        return -1;
    }
    if (c->stopped) {
        err_set(e, CODE_INTERRUPTED, "the full was stopped before all tables were copied");
        return err_hint(e, full_extendable(c->full) ? "run the same command again: tables that are complete stay"
                                                    : "run the same command again: it begins anew");
    }
    progress_end(&c->j->progress);
    return 0;
}

static void say_warnings(const struct catalog *c) {
    for (size_t i = 0; i < c->nwarnings; i++) log_warn("not carried", KV_STR("what", c->warnings[i]));
}

/* The tables of a resumed full, as they stood at its anchor, must still be what the source has: their rows are read now. */
static int same_tables(const struct catalog *was, const struct catalog *now, struct err *e) {
    for (size_t i = 0; i < was->ntables; i++) {
        const struct shape *a = was->tables[i], *b = NULL;
        for (size_t k = 0; k < now->ntables && !b; k++)
            if (strcmp(now->tables[k]->ns, a->ns) == 0 && strcmp(now->tables[k]->name, a->name) == 0) b = now->tables[k];
        if (b && strcmp(a->digest, b->digest) == 0 && a->oid == b->oid) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' was %s since this full began", a->ns, a->name, b ? "altered" : "dropped or renamed");
        err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
        return err_hint(e, "begin a new full with --force-overwrite");
    }
    return 0;
}

struct opened { struct source *s; struct catalog *catalog; struct snapshot *snap; struct full *full; };

/* Is the chain that --force-overwrite replaces anchored under this name? One under another name is left, and said. */
static int replaced_anchor(struct job *j, const char *slot, bool *ours, struct err *e) {
    struct chain *c = NULL;
    bool found;
    if (chain_open(j->store, &c, &found, e) < 0) {
        if (e->code != CODE_MANIFEST_INVALID && e->code != CODE_FORMAT_UNSUPPORTED) return -1;
        err_clear(e);
        return 0;
    }
    if (!found) return 0;
    const char *was = chain_info(c)->slot_name;
    if (strcmp(was, slot) == 0) *ours = true;
    else if (was[0]) log_warn("the replaced chain's anchor stays on the source and keeps its log; drop it when nothing needs it", KV_STR("slot", was));
    chain_close(c);
    return 0;
}

/* A new full: intent, anchor, start. */
static int begin_fresh(struct job *j, struct opened *o, const struct full_opts *fo, bool intent_there, struct pos *at, struct err *e) {
    const struct source_ops *src = j->source_driver->source;
    bool ours = intent_there, anchored = fo->extendable;
    /* An anchor of our name is taken down only when it is the replaced chain's or a killed run's of ours; any other is a stranger's. */
    if (anchored && fo->force_overwrite && replaced_anchor(j, fo->slot_name, &ours, e) < 0) return -1;
    if (anchored && !ours && src->anchor_absent(o->s, e) < 0) return -1;
    if (!intent_there && full_intend(j->store, fo, &o->full, e) < 0) return -1;
    if (FAULT("full.after_intent", e) < 0) return -1;
    if (anchored) {
        if (ours && src->unanchor(o->s, e) < 0) return -1;
        if (FAULT("full.before_anchor", e) < 0) return -1;
        if (src->anchor(o->s, o->catalog, at, &o->snap, e) < 0) return -1;
    } else if (src->snapshot(o->s, o->catalog, at, &o->snap, e) < 0) {
        return -1;
    }
    if (FAULT("full.after_anchor", e) < 0) return -1;
    if (full_start(o->full, at, o->catalog, e) < 0) return -1;
    return FAULT("full.after_start", e);
}

static int resume(struct job *j, struct opened *o, struct copy *c, struct err *e) {
    const struct source_ops *src = j->source_driver->source;
    const struct catalog *was;
    struct pos anchor;
    full_anchor(o->full, &anchor, &was);
    if (same_tables(was, o->catalog, e) < 0) return -1;
    if (full_extendable(o->full) && src->check(o->s, &anchor, &anchor, e) < 0) return err_wrap(e, "the unfinished full cannot go on");
    bool left = false;
    for (size_t i = 0; i < was->ntables; i++) left = left || !full_table_done(o->full, was->tables[i]->table);
    c->catalog = was;
    if (left && src->snapshot(o->s, was, &c->snap_pos, &o->snap, e) < 0) return -1;
    if (!left) return 1;
    if (pos_compare(&c->snap_pos, &anchor) == POS_LESS)
        return err_set(e, CODE_SOURCE_CHANGED, "the source stands at %s, before this full's anchor at %s", c->snap_pos.token, anchor.token);
    j->result.resumed = true;
    return 0;
}

static void opened_free(struct job *j, struct opened *o) {
    const struct source_ops *src = j->source_driver->source;
    if (o->snap) src->snapshot_close(o->snap);
    full_close(o->full);
    catalog_free(o->catalog);
    if (o->s) src->close(o->s);
}

static void mirror_new_chain(struct job *j) {
    struct chain *c = NULL;
    struct err e = {0};
    if (job_chain(j, &c, &e) == 0) mirror_chain(j, c, 0);
    chain_close(c);
}

/* The chain that full_probe found complete: did a run of this very entity make it, which was killed before it could say so here? */
static int finished_by_us(struct job *j, struct step_result *r, struct err *e) {
    struct chain *c = NULL;
    struct link_info first;
    struct err why = *e;
    int rc = -1;
    if (!j->options.lineage) return -1;
    if (job_chain(j, &c, e) < 0) goto out;
    const struct chain_info *ci = chain_info(c);
    if (strcmp(ci->lineage, j->options.lineage) != 0) {
        *e = why;
        goto out;
    }
    if (chain_link(c, 0, &first, e) < 0) goto out;
    err_clear(e);
    log_info("the full was complete already", KV_STR("lineage", ci->lineage));
    snprintf(j->result.id, sizeof j->result.id, "%s", first.id);
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", ci->lineage);
    j->result.resumed = true;
    r->event = ci->extendable ? "full_done" : "rooted";
    snprintf(r->detail, sizeof r->detail, "{\"id\":\"%s\"}", first.id);
    snprintf(r->said, sizeof r->said, "full %s was complete already", first.id);
    mirror_chain(j, c, 0);
    rc = 0;
out:
    chain_close(c);
    return rc;
}

int step_producer_full(struct job *j, struct step_result *r, struct err *e) {
    struct opened o = {0};
    struct copy c = {.lock = PTHREAD_MUTEX_INITIALIZER, .j = j};
    const struct source_ops *src = j->source_driver ? j->source_driver->source : NULL;
    struct full_opts fo = {0};
    enum full_found found;
    char identity[128];
    const char *slot = j->options.slot_name ? j->options.slot_name : DEFAULT_SLOT;
    int rc = -1;
    if (!src) return err_set(e, CODE_CONFIG, "producer '%s' names no source", j->entity.name);
    if (!j->store) return err_set(e, CODE_CONFIG, "producer '%s' names no store", j->entity.name);
    if (job_source(j, j->options.chain_slot ? slot : NULL, &o.s, e) < 0) goto out; /* without an anchor, another chain's slot is none of ours */
    if (src->catalog(o.s, j->options.chain_slot, &o.catalog, e) < 0) goto out;
    if (o.catalog->ntables == 0) {
        err_set(e, CODE_USAGE, "the source has no table that the filter lets through");
        goto out;
    }
    say_warnings(o.catalog);
    if (src->identity(o.s, identity, e) < 0) goto out;
    fo = (struct full_opts){.source_engine = j->source_driver->name, .source_identity = identity, .slot_name = j->options.chain_slot ? slot : NULL,
                            .lineage = j->options.lineage, .extendable = j->options.chain_slot, .force_overwrite = j->options.force_overwrite, .compression = job_compression(j),
                            .chunk_rows = j->options.chunk_size};
    if (full_probe(j->store, &fo, &found, &o.full, e) < 0) {
        if (e->code == CODE_CHAIN_EXISTS) rc = finished_by_us(j, r, e);
        goto out;
    }
    c.full = o.full;
    if (found == FULL_RESUME) {
        int done = resume(j, &o, &c, e);
        if (done < 0) goto out;
    } else {
        if (begin_fresh(j, &o, &fo, found == FULL_INTENT, &c.snap_pos, e) < 0) goto out;
        c.catalog = o.catalog;
    }
    c.full = o.full;
    c.snap = o.snap;
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", full_lineage(o.full));
    if (c.snap && copy_all(&c, e) < 0) goto out;
    if (src->sequences_again && src->sequences_again(o.s, o.catalog, e) < 0) goto out;
    if (FAULT("full.before_end", e) < 0) goto out;
    if (full_end(o.full, o.catalog->objects, o.catalog->nobjects, j->result.id, e) < 0) goto out;
    if (FAULT("full.after_end", e) < 0) goto out;
    j->result.tables = c.tables;
    j->result.rows = c.rows;
    j->result.raw_bytes = c.raw;
    j->result.stored_bytes = c.stored;
    j->result.committed = true;
    r->event = j->options.chain_slot ? "full_done" : "rooted";
    snprintf(r->detail, sizeof r->detail, "{\"id\":\"%s\",\"tables\":%llu,\"rows\":%llu}", j->result.id, (unsigned long long)c.tables, (unsigned long long)c.rows);
    snprintf(r->said, sizeof r->said, "full %s: %llu tables, %llu rows, %llu bytes stored", j->result.id, (unsigned long long)c.tables,
             (unsigned long long)c.rows, (unsigned long long)c.stored);
    rc = 0;
    mirror_new_chain(j);
out:
    opened_free(j, &o);
    return rc;
}

int full_dry_run(struct job *j, struct buf *out, struct err *e) {
    struct opened o = {0};
    const struct source_ops *src = j->source_driver->source;
    int rc = -1;
    const char *slot = j->options.slot_name ? j->options.slot_name : DEFAULT_SLOT;
    if (job_source(j, j->options.chain_slot ? slot : NULL, &o.s, e) < 0) goto out;
    if (src->catalog(o.s, j->options.chain_slot, &o.catalog, e) < 0) goto out;
    for (size_t i = 0; i < o.catalog->ntables; i++)
        if (buf_addf(out, e, "table %s.%s\n", o.catalog->tables[i]->ns, o.catalog->tables[i]->name) < 0) goto out;
    for (size_t i = 0; i < o.catalog->nwarnings; i++)
        if (buf_addf(out, e, "not carried: %s\n", o.catalog->warnings[i]) < 0) goto out;
    rc = buf_addf(out, e, "%zu tables would be copied; nothing was changed\n", o.catalog->ntables);
out:
    opened_free(j, &o);
    return rc;
}
