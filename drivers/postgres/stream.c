/* The log of a PostgreSQL source: a walsender's messages become batches of changes.
 *
 * DESIGN
 * 1. The server is told only what was acknowledged: every status message carries `acked`, which starts at the durable position the stream
 *    was opened with and moves by stream_ack alone.
 * 2. A status message goes out at least every FEEDBACK_US while the caller calls, and on every entry when one is due. We ask the server
 *    for a wal_sender_timeout of 120 s, so a caller may be away for up to 100 s between two calls; after that the server may drop the
 *    connection (ERR_RETRY: nothing is lost).
 * 3. A transaction is ours when its commit record begins at or after `from`; a commit's position is its end.
 * 4. `seen` moves to a keepalive's position only between transactions, when every message before it was delivered: it is never past an
 *    undelivered commit.
 * 5. A table's shape may change without a row behind it, and then no message tells. A survey of all shapes, read at a known end of the
 *    log, is compared with those in force where the log passes that end: every change committed before it was delivered, so what differs
 *    changed without rows.
 * 6. One copy of each message, into the batch's arena; values point into it. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/relation.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"

#define FEEDBACK_US (10 * INT64_C(1000000))
#define ASK_US (200 * INT64_C(1000))             /* between two questions for the server's position */
#define SILENCE_US (300 * INT64_C(1000000))      /* without any byte, though we ask: the connection is dead */
#define STOP_US (20 * INT64_C(1000))
#define CLOSE_US (2 * INT64_C(1000000))

struct stream {
    struct source *s;
    PGconn *c;
    struct rels rels;
    struct survey survey;
    uint64_t from, acked, told, seen;
    bool in_txn, skip_txn, any_in_txn;
    uint64_t txn_lsn;
    int64_t fed_us, asked_us, heard_us;
    bool reply_due;
    const struct shape **checked; size_t nchecked; /* shapes when tables were last looked at for having been written anew */
};

/* ---- the connection -------------------------------------------------------------------------------------------------- */

static void put64(char *p, uint64_t v) {
    for (int i = 7; i >= 0; i--, v >>= 8) p[i] = (char)(v & 0xff);
}
static uint64_t be64(const char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | (unsigned char)p[i];
    return v;
}

static int stream_lost(struct stream *st, const PGresult *r, struct err *e) {
    pg_err(e, st->c, r, "cannot read the log of slot '%s'", st->s->o.slot_name);
    const char *state = pg_sqlstate(r);
    if (strcmp(state, "58P01") == 0 || strcmp(state, "55000") == 0) {
        e->class = ERR_REFUSE;
        e->code = CODE_SLOT_LOST;
        return err_hint(e, "take a new full with --chain-slot");
    }
    if (strcmp(state, "55006") == 0) {
        e->class = ERR_RETRY;
        e->code = CODE_SLOT_ACTIVE;
        return err_hint(e, "stop the other consumer of the slot");
    }
    if (strcmp(state, "42704") == 0) {
        e->class = ERR_REFUSE;
        e->code = CODE_PUBLICATION;
        return err_hint(e, "slot and publication must stay for the chain's life: take a new full with --chain-slot");
    }
    return -1;
}

static int feed(struct stream *st, bool ask, struct err *e) {
    char m[34];
    m[0] = 'r';
    put64(m + 1, st->acked);
    put64(m + 9, st->acked);
    put64(m + 17, st->acked);
    put64(m + 25, (uint64_t)(clock_wall_us() - PG_EPOCH_US));
    m[33] = ask ? 1 : 0;
    if (PQputCopyData(st->c, m, sizeof m) != 1 || PQflush(st->c) < 0) return stream_lost(st, NULL, e);
    st->fed_us = clock_mono_us();
    if (ask) st->asked_us = st->fed_us;
    st->told = st->acked;
    st->reply_due = false;
    return 0;
}

static int feed_due(struct stream *st, struct err *e) {
    int64_t since = clock_mono_us() - st->fed_us;
    if (st->reply_due || since >= FEEDBACK_US || (st->told != st->acked && since >= INT64_C(1000000)))
        return feed(st, since >= FEEDBACK_US, e);
    return 0;
}

int source_stream_open(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **out,
                       struct err *e) {
    char sql[512], at[32];
    uint64_t confirmed;
    *out = NULL;
    struct stream *st = mem_alloc(sizeof *st, e);
    if (st == NULL) return -1;
    st->s = s;
    if (!pos_lsn_parse(from->token, &st->from)) {
        err_set(e, CODE_INTERNAL, "'%s' is no position of PostgreSQL", from->token);
        goto fail;
    }
    if (rels_init(&st->rels, s, known, nknown, e) < 0 || publication_check(s, known, nknown, e) < 0 ||
        rewrite_check(s, known, nknown, e) < 0 ||
        slot_confirmed(s, &confirmed, e) < 0 || pg_connect(s->o.dsn, PG_REPLICATION, &st->c, e) < 0)
        goto fail;
    if ((st->checked = mem_alloc((nknown + 1) * sizeof *st->checked, e)) == NULL) goto fail;
    for (size_t i = 0; i < nknown; i++) st->checked[i] = known[i];
    st->nchecked = nknown;
    st->seen = st->from;
    st->acked = st->told = confirmed > st->from ? confirmed : st->from; /* never tell the server less than it has */
    pos_lsn_format(st->from, at);
    snprintf(sql, sizeof sql, "START_REPLICATION SLOT \"%s\" LOGICAL %s (proto_version '%s', publication_names '\"%s\"')", s->o.slot_name,
             at, pg_version(st->c) >= 140000 ? "2" : "1", s->o.slot_name);
    PGresult *r = PQexec(st->c, sql);
    if (PQresultStatus(r) != PGRES_COPY_BOTH) {
        stream_lost(st, r, e);
        if (pg_sqlstate_is(r, "42704")) e->code = CODE_SLOT_MISSING;
        PQclear(r);
        goto fail;
    }
    PQclear(r);
    st->heard_us = clock_mono_us();
    if (feed(st, true, e) < 0) goto fail;
    *out = st;
    return 0;
fail:
    source_stream_close(st);
    return -1;
}

/* Leave in order, so that the slot is free and knows what was acknowledged when we are back; but not longer than CLOSE_US. */
static void leave(struct stream *st) {
    struct err ignored = {0};
    int64_t end = clock_mono_us() + CLOSE_US;
    char *p;
    if (PQstatus(st->c) != CONNECTION_OK || feed(st, false, &ignored) < 0 || PQputCopyEnd(st->c, NULL) != 1 || PQflush(st->c) < 0) return;
    for (;;) {
        int n = PQgetCopyData(st->c, &p, 1);
        if (n > 0) PQfreemem(p);
        else if (n < 0) break;
        else {
            int64_t left = end - clock_mono_us();
            struct pollfd fd = {PQsocket(st->c), POLLIN, 0};
            if (left <= 0 || poll(&fd, 1, (int)(left / 1000) + 1) <= 0 || PQconsumeInput(st->c) == 0) return;
        }
        if (clock_mono_us() >= end) return;
    }
    PGresult *r;
    while (PQstatus(st->c) == CONNECTION_OK && (r = PQgetResult(st->c)) != NULL) {
        bool more = PQresultStatus(r) == PGRES_COPY_OUT || PQresultStatus(r) == PGRES_COPY_BOTH;
        PQclear(r);
        if (more) break;
    }
}

void source_stream_close(struct stream *st) {
    if (st == NULL) return;
    if (st->c != NULL) leave(st);
    pg_close(&st->c);
    rels_free(&st->rels);
    mem_free(st->checked);
    survey_free(&st->survey);
    mem_free(st);
}

int source_stream_ack(struct stream *st, const struct pos *p, struct err *e) {
    uint64_t lsn;
    if (!pos_lsn_parse(p->token, &lsn)) return err_set(e, CODE_INTERNAL, "'%s' is no position of PostgreSQL", p->token);
    if (lsn > st->acked) st->acked = lsn;
    return feed_due(st, e);
}

/* ---- changes --------------------------------------------------------------------------------------------------------- */

/* A tuple as a row of the shape. key_only: columns outside the identity were not sent. */
static int to_row(const struct rel *r, struct value *tuple, uint16_t n, bool key_only, struct arena *a, const struct value **out,
                  struct err *e) {
    const struct shape *s = r->shape;
    if (n != r->nmsg)
        return err_set_class(e, ERR_RETRY, CODE_SERVER, "a row of '%s.%s' has %u columns, and %u were announced", s->ns, s->name,
                             (unsigned)n, (unsigned)r->nmsg);
    struct value *row = tuple;
    if (r->map != NULL) {
        if ((row = arena_alloc(a, (s->ncols + 1u) * sizeof *row, e)) == NULL) return -1;
        for (uint16_t c = 0; c < s->ncols; c++) row[c] = (struct value){NULL, 0, VALUE_UNCHANGED};
        for (uint16_t i = 0; i < n; i++) row[r->map[i]] = tuple[i];
    }
    if (key_only)
        for (uint16_t c = 0; c < s->ncols; c++)
            if (!r->key[c]) row[c] = (struct value){NULL, 0, VALUE_UNCHANGED};
    *out = row;
    return 0;
}

static int take_rel(struct stream *st, uint32_t oid, struct rel **r, struct err *e) {
    *r = rels_find(&st->rels, oid);
    if (*r != NULL && (*r)->announced) return 0;
    return err_set_class(e, ERR_RETRY, CODE_SERVER, "the log holds a row of table %u, which was not announced", oid);
}

static int on_row(struct stream *st, const struct pgo_msg *m, struct batch *b, struct err *e) {
    struct rel *r;
    if (take_rel(st, m->relid, &r, e) < 0) return -1;
    if (!r->known) return 0;
    struct change c = {.op = m->tag == 'I' ? CHANGE_INSERT : m->tag == 'U' ? CHANGE_UPDATE : CHANGE_DELETE,
                       .shape = r->shape, .table = r->shape->table};
    if (m->new_row != NULL && to_row(r, m->new_row, m->nnew, false, b->arena, &c.after, e) < 0) return -1;
    if (m->old_row != NULL) {
        c.before_image = m->old_kind == 'O' ? IMAGE_FULL : IMAGE_KEY;
        if (to_row(r, m->old_row, m->nold, m->old_kind == 'K', b->arena, &c.before, e) < 0) return -1;
    }
    struct change *slot = batch_add(b, e);
    if (slot == NULL) return -1;
    *slot = c;
    b->ends_at_commit = false;
    st->any_in_txn = true;
    return 0;
}

static int on_truncate(struct stream *st, const struct pgo_msg *m, struct batch *b, struct err *e) {
    const struct shape **tables = arena_alloc(b->arena, (m->nrels + 1u) * sizeof(struct shape *), e);
    uint32_t n = 0;
    struct rel *r;
    if (tables == NULL) return -1;
    for (uint32_t i = 0; i < m->nrels; i++) {
        if (take_rel(st, m->rels[i], &r, e) < 0) return -1;
        if (r->known) tables[n++] = r->shape;
    }
    if (n == 0) return 0;
    struct change *c = batch_add(b, e);
    if (c == NULL) return -1;
    c->op = CHANGE_TRUNCATE;
    c->shape = tables[0];
    c->table = tables[0]->table;
    c->tables = tables;
    c->ntables = n;
    c->flags = (m->cascade ? TRUNCATE_CASCADE : 0) | (m->restart ? TRUNCATE_RESTART_IDENTITY : 0);
    b->ends_at_commit = false;
    st->any_in_txn = true;
    return 0;
}

static void set_pos(struct pos *p, uint64_t lsn) {
    memcpy(p->engine, "postgres", sizeof "postgres");
    pos_lsn_format(lsn, p->token);
}

static int add_commit(uint64_t lsn, int64_t time_us, struct batch *b, struct err *e) {
    struct change *c = batch_add(b, e);
    if (c == NULL || (c->pos = arena_alloc(b->arena, sizeof *c->pos, e)) == NULL) return -1;
    c->op = CHANGE_COMMIT;
    c->time_us = time_us;
    set_pos(c->pos, lsn);
    b->ends_at_commit = true;
    return 0;
}

/* The newest survey is the one that counts; a shape that a message set before it was read may be older than what it shows. */
static void take_survey(struct stream *st) {
    if (st->s->survey.v == NULL) return;
    survey_free(&st->survey);
    st->survey = st->s->survey;
    st->s->survey = (struct survey){0};
    for (size_t i = 0; i < st->rels.n; i++) st->rels.v[i].at_now = false;
}

/* Where the log passes the survey, what changed without rows is told; inside a transaction, or as one of its own that ends at `at`. */
static int on_survey(struct stream *st, uint64_t at, struct batch *b, struct err *e) {
    size_t before = b->n;
    if (st->survey.v == NULL || at < st->survey.lsn) return 0;
    int rc = rels_survey(&st->rels, &st->survey, b, e);
    survey_free(&st->survey);
    if (rc < 0 || b->n == before) return rc;
    st->any_in_txn = true;
    return st->in_txn ? 0 : add_commit(at, clock_wall_us(), b, e);
}

static int on_commit(struct stream *st, const struct pgo_msg *m, struct batch *b, struct err *e) {
    if (!st->in_txn) return err_set_class(e, ERR_RETRY, CODE_SERVER, "the log holds a commit without a begin");
    if (!st->skip_txn && on_survey(st, m->end_lsn, b, e) < 0) return -1;
    st->in_txn = false;
    if (m->end_lsn > st->seen) st->seen = m->end_lsn;
    if (!st->any_in_txn) return 0; /* nothing of it concerns us */
    return add_commit(m->end_lsn, m->time_us, b, e);
}

static int on_message(struct stream *st, const char *p, size_t n, struct batch *b, struct err *e) {
    struct pgo_msg m;
    char *copy = arena_alloc(b->arena, n + 1, e);
    if (copy == NULL) return -1;
    memcpy(copy, p, n);
    copy[n] = 0;
    if (pgoutput_decode(copy, n, b->arena, &m, e) < 0) return -1;
    if (!st->in_txn && (m.tag == 'I' || m.tag == 'U' || m.tag == 'D' || m.tag == 'T'))
        return err_set_class(e, ERR_RETRY, CODE_SERVER, "the log holds a change outside a transaction");
    size_t before = b->n;
    switch (m.tag) {
    case 'B':
        if (st->in_txn) return err_set_class(e, ERR_RETRY, CODE_SERVER, "the log holds a begin inside a transaction");
        st->in_txn = true;
        st->any_in_txn = false;
        st->skip_txn = m.lsn < st->from;
        st->txn_lsn = m.lsn;
        return st->skip_txn ? 0 : on_survey(st, m.lsn, b, e);
    case 'C': return on_commit(st, &m, b, e);
    case 'R':
        if (rels_announce(&st->rels, &m, st->txn_lsn, b, e) < 0) return -1;
        if (b->n > before) st->any_in_txn = true;
        return 0;
    case 'I': case 'U': case 'D': return st->skip_txn ? 0 : on_row(st, &m, b, e);
    case 'T': return st->skip_txn ? 0 : on_truncate(st, &m, b, e);
    default: return 0;
    }
}

/* One CopyData: a piece of the log or a keepalive. */
static int on_copy_data(struct stream *st, const char *p, size_t n, struct batch *b, struct err *e) {
    if (n >= 25 && p[0] == 'w') return on_message(st, p + 25, n - 25, b, e);
    if (n >= 18 && p[0] == 'k') {
        uint64_t end = be64(p + 1);
        if (!st->in_txn) {
            if (on_survey(st, end, b, e) < 0) return -1;
            if (end > st->seen) st->seen = end;
        }
        st->reply_due = st->reply_due || p[17] != 0;
        return 0;
    }
    return err_set_class(e, ERR_RETRY, CODE_SERVER, "the server sent %zu bytes of an unknown kind in its log", n);
}

static int ended(struct stream *st, struct err *e) {
    PGresult *r = PQgetResult(st->c);
    int rc;
    if (r != NULL && PQresultStatus(r) == PGRES_FATAL_ERROR) rc = stream_lost(st, r, e);
    else rc = err_set_class(e, ERR_RETRY, CODE_UNREACHABLE, "the server ended the log of slot '%s'", st->s->o.slot_name);
    PQclear(r);
    return rc;
}

/* Wait for bytes, a stop, or until `until`. 1: bytes were read. 0: time is over or a stop was asked. */
static int wait_bytes(struct stream *st, int64_t until, struct err *e) {
    int64_t now = clock_mono_us(), due = st->fed_us + FEEDBACK_US, end = until < due ? until : due;
    struct pollfd fd[2] = {{PQsocket(st->c), POLLIN, 0}, {stop_fd(), POLLIN, 0}};
    if (poll(fd, fd[1].fd >= 0 && !stop_asked() ? 2 : 1, end > now ? (int)((end - now + 999) / 1000) : 0) < 0) return 0;
    if (fd[0].revents == 0) {
        if (clock_mono_us() - st->heard_us > SILENCE_US)
            return err_set_class(e, ERR_RETRY, CODE_UNREACHABLE, "the server has been silent for five minutes");
        return 0;
    }
    if (PQconsumeInput(st->c) == 0) return stream_lost(st, NULL, e);
    st->heard_us = clock_mono_us();
    return 1;
}

int source_stream_next(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e) {
    int64_t now = clock_mono_us(), end = now + (wait_us > 0 ? wait_us : 0);
    uint64_t seen_before = st->seen;
    size_t n_before = b->n;
    int rc = -1, looked = 0;
    take_survey(st);
    if (feed_due(st, e) < 0) goto out;
    while (arena_bytes(b->arena) < max_bytes) {
        char *p = NULL;
        int n = PQgetCopyData(st->c, &p, 1);
        if (n > 0) {
            rc = on_copy_data(st, p, (size_t)n, b, e);
            PQfreemem(p);
            if (rc < 0) goto out;
            rc = -1;
            looked = 0;
            if (st->reply_due && feed(st, false, e) < 0) goto out;
            continue;
        }
        if (n < 0) {
            ended(st, e);
            goto out;
        }
        int got = wait_bytes(st, 0, e); /* what the kernel has already */
        if (got < 0) goto out;
        if (got > 0 && looked++ < 1000) continue;
        if (b->n > n_before && !st->in_txn) break;      /* whole transactions, and nothing more now */
        if (stop_asked()) { /* the caller decides how to end; it must not spin until it can */
            if (wait_bytes(st, clock_mono_us() + STOP_US, e) < 0) goto out;
            break;
        }
        now = clock_mono_us();
        if (!st->in_txn) {
            if (st->seen > seen_before || now >= end) break;
            if (now - st->asked_us >= ASK_US && feed(st, true, e) < 0) goto out; /* where is the server? */
        }
        if (feed_due(st, e) < 0) goto out;
        if (wait_bytes(st, st->in_txn ? now + FEEDBACK_US : end, e) < 0) goto out;
    }
    rc = 0;
out:
    if (rc == 0 && seen != NULL) set_pos(seen, st->seen);
    return rc;
}

/* ---- beside the log -------------------------------------------------------------------------------------------------- */

static int known_oids(const struct stream *st, int64_t **oids, size_t *n, struct err *e) {
    *n = 0;
    if ((*oids = mem_alloc((st->rels.n + 1) * sizeof **oids, e)) == NULL) return -1;
    for (size_t i = 0; i < st->rels.n; i++)
        if (st->rels.v[i].known) (*oids)[(*n)++] = st->rels.v[i].oid;
    return 0;
}

/* Against the shapes of the last look: a column that came since is judged as a new one. */
static int check_rewrites(struct stream *st, struct err *e) {
    if (rewrite_check(st->s, (struct shape *const *)(uintptr_t)st->checked, st->nchecked, e) < 0) return -1;
    const struct shape **now = mem_alloc((st->rels.n + 1) * sizeof *now, e);
    size_t n = 0;
    if (now == NULL) return -1;
    for (size_t i = 0; i < st->rels.n; i++)
        if (st->rels.v[i].known && st->rels.v[i].shape != NULL) now[n++] = st->rels.v[i].shape;
    mem_free(st->checked);
    st->checked = now;
    st->nchecked = n;
    return 0;
}

int source_stream_sequences(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e) {
    int64_t *oids;
    size_t noids;
    /* Every link's end comes here: a table that was written anew meanwhile must not pass it. */
    if (check_rewrites(st, e) < 0 || known_oids(st, &oids, &noids, e) < 0) return -1;
    int rc = source_sequences(st->s, st->s->c, oids, noids, a, o, n, NULL, e);
    mem_free(oids);
    return rc;
}

struct lines { struct arena *a; const char **v; size_t n, cap; };

static int line_add(struct lines *l, const char *text, struct err *e) {
    if (text == NULL) return -1;
    if (l->n == l->cap) {
        size_t cap = l->cap > 0 ? l->cap * 2 : 16;
        const char **v = arena_alloc(l->a, cap * sizeof(char *), e);
        if (v == NULL) return -1;
        if (l->n > 0) memcpy(v, l->v, l->n * sizeof(char *));
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = text;
    return 0;
}

static bool oid_in(const PGresult *r, int64_t oid, int *row) {
    for (*row = 0; *row < PQntuples(r); ++*row)
        if (pg_i64(r, *row, 0) == oid) return true;
    return false;
}

int source_stream_uncaptured(struct stream *st, struct arena *a, const char ***out, size_t *n, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    struct lines l = {.a = a};
    PGresult *tables = NULL, *published = NULL, *gone = NULL, *blind = NULL;
    int64_t *oids = NULL;
    size_t noids;
    char label[160];
    int rc = -1, row;
    if (known_oids(st, &oids, &noids, e) < 0 || pg_oid_list(&list, oids, noids, e) < 0) goto out;
    const char *slot[1] = {st->s->o.slot_name}, *known[1] = {buf_str(&list, e)};
    if (known[0] == NULL || pg_query(st->s->c, embed_sql("postgres/catalog_tables"), 0, NULL, "list the tables", &tables, e) < 0 ||
        pg_query(st->s->c, embed_sql("postgres/published_tables"), 1, slot, "list the published tables", &published, e) < 0 ||
        pg_query(st->s->c, embed_sql("postgres/gone_tables"), 1, known, "look for dropped tables", &gone, e) < 0 ||
        pg_query(st->s->c, embed_sql("postgres/unidentified_tables"), 1, slot, "look at the replica identities", &blind, e) < 0) goto out;
    enum { OID, NS, NAME, KIND, PERSISTENCE, EXTENSION = 12, ROOT_NS = 17, ROOT_NAME };
    for (int i = 0; i < PQntuples(tables); i++) {
        const char *ns = pg_text(tables, i, NS), *name = pg_text(tables, i, NAME);
        struct rel *r = rels_find(&st->rels, (uint32_t)pg_i64(tables, i, OID));
        if ((r != NULL && r->known) || pg_text(tables, i, KIND)[0] != 'r' || pg_text(tables, i, PERSISTENCE)[0] != 'p' ||
            !pg_null(tables, i, EXTENSION) || !source_wants(st->s, ns, name, pg_text(tables, i, ROOT_NS), pg_text(tables, i, ROOT_NAME)))
            continue;
        if (!oid_in(published, pg_i64(tables, i, OID), &row)) {
            if (line_add(&l, arena_printf(a, e, "%s.%s: not in the publication, so its rows are not in the chain", ns, name), e) < 0)
                goto out;
        } else if (r != NULL) {
            if (line_add(&l, arena_printf(a, e, "%s.%s: published, but the chain does not hold its earlier rows", ns, name), e) < 0)
                goto out;
        } else if (pg_i64(published, row, 4) > 0) {
            if (line_add(
                    &l,
                    arena_printf(a, e, "%s.%s: published, and none of its rows has come: those from before are not in the chain", ns, name),
                    e) < 0)
                goto out;
        }
    }
    for (size_t i = 0; i < st->rels.n; i++) {
        const struct rel *r = &st->rels.v[i];
        if (r->known && oid_in(gone, r->oid, &row) &&
            line_add(&l, arena_printf(a, e, "%s: dropped on the source; the chain goes on holding its rows", shape_label(r->shape, label)),
                     e) < 0)
            goto out;
    }
    for (int i = 0; i < PQntuples(blind); i++)
        if (line_add(&l,
                     arena_printf(a, e, "%s.%s: lost its replica identity, so the application's updates and deletes fail",
                                  pg_text(blind, i, 0), pg_text(blind, i, 1)),
                     e) < 0)
            goto out;
    *out = l.v;
    *n = l.n;
    rc = 0;
out:
    PQclear(blind);
    PQclear(tables);
    PQclear(published);
    PQclear(gone);
    mem_free(oids);
    buf_free(&list);
    return rc;
}
