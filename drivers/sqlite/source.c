/* A SQLite file as a source: what it is, what is in it, where its log stands.
 *
 * DESIGN
 * 1. Only anchor, unanchor, rearming, a later snapshot's mark and acknowledging write into the file, each in a short transaction of its own.
 * 2. Identity: made from the host, the file's real path and its inode, and kept in the file from the anchor on; so it stays the same
 * through the anchor, and moves with the file afterwards. That two copies of one file are told apart is the nonces' work (check).
 * 3. A table's number in the capture is its oid in shapes. Before the anchor the catalogue gives the numbers that the anchor will use. */
#include "drivers/sqlite/source.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

static void source_close(struct source *s) {
    if (!s) return;
    sq_close(s->db);
    mem_free(s->dsn);
    mem_free(s);
}

static int source_open(const struct source_opts *o, struct source **out, struct err *e) {
    struct source *s = mem_alloc(sizeof *s, e);
    *out = NULL;
    if (!s) return -1;
    if (!(s->dsn = mem_strdup(o->dsn ? o->dsn : "", e)) || sq_dsn_path(s->dsn, &s->path, e) < 0 || sq_open(s->dsn, 0, &s->db, e) < 0) {
        source_close(s);
        return -1;
    }
    s->allow_blocking = o->allow_blocking;
    s->keyless_max = o->keyless_max_bytes ? o->keyless_max_bytes : SQ_KEYLESS_MAX;
    s->filter = o->filter;
    *out = s;
    return 0;
}

int sq_source_wal(struct source *s, bool *wal, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got = sq_prepare(s->db, "PRAGMA main.journal_mode", &st, e);
    if (got == 0) got = sq_step(st, e);
    *wal = got > 0 && strcasecmp((const char *)sqlite3_column_text(st, 0), "wal") == 0;
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

static int require_wal(struct source *s, struct err *e) {
    bool wal;
    if (s->allow_blocking) return 0;
    if (sq_source_wal(s, &wal, e) < 0) return -1;
    if (wal) return 0;
    err_set(e, CODE_SOURCE_NOT_WAL, "the source '%s' is not in WAL mode: reading it would block the application's writes", s->path);
    return err_hint(e, "run `sqlite3 '%s' 'PRAGMA journal_mode=WAL'` once, or give --allow-blocking", s->path);
}

/* ---- identity -------------------------------------------------------------------------------------------------------------- */

int sq_identity_made(const char *path, char out[128], struct err *e) {
    char real[PATH_MAX], host[80] = "", text[PATH_MAX + 256], hex[65];
    struct stat st;
    FILE *f = fopen("/etc/machine-id", "r");
    if (f) {
        if (!fgets(host, sizeof host, f)) host[0] = 0;
        fclose(f);
    }
    if (!realpath(path, real) || stat(real, &st) < 0) return err_set(e, CODE_UNREACHABLE, "cannot find the database '%s'", path);
    int n = snprintf(text, sizeof text, "%s\n%s\n%llu:%llu", host, real, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    if (sha256_hex(text, (size_t)n, hex, e) < 0) return -1;
    snprintf(out, 128, "sqlite:%.32s", hex);
    return 0;
}

static int source_identity(struct source *s, char out[128], struct err *e) {
    bool there;
    if (sq_capture_is(s->db, &there, e) < 0) return -1;
    if (there && sq_meta_identity(s->db, out, e) < 0) return -1;
    return there && out[0] ? 0 : sq_identity_made(s->path, out, e);
}

/* ---- catalogue ------------------------------------------------------------------------------------------------------------- */

static int table_names(struct source *s, struct arena *a, const char ***names, size_t *n, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got, rc = -1;
    size_t cap = 0;
    *names = NULL;
    *n = 0;
    if (sq_prepare(s->db, embed_sql("sqlite/source_tables"), &st, e) < 0) return -1;
    while ((got = sq_step(st, e)) > 0) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        if (!table_filter_match(&s->filter, SQ_NS, name)) continue;
        if (*n == cap) {
            const char **more = arena_alloc(a, (cap = cap ? cap * 2 : 64) * sizeof *more, e);
            if (!more) goto out;
            if (*n) memcpy(more, *names, *n * sizeof *more);
            *names = more;
        }
        if (!((*names)[*n] = arena_copy(a, name, strlen(name), e))) goto out;
        ++*n;
    }
    rc = got;
out:
    sqlite3_finalize(st);
    return rc;
}

/* Numbers and column ids as the capture has them, or as an anchor would give them. */
static int number(struct sq_capture *cap, struct shape *t, int64_t *next_n, struct err *e) {
    for (size_t i = 0; i < cap->n; i++)
        if (strcasecmp(cap->v[i].shape->name, t->name) == 0) {
            int64_t next = cap->v[i].next_column;
            enum sq_verdict v;
            t->oid = cap->v[i].n;
            return sq_shape_follow(cap->v[i].shape, t, &next, &v, e);
        }
    t->oid = (*next_n)++;
    return 0;
}

static int catalog_tables(struct source *s, bool for_chain, struct catalog *c, struct err *e) {
    struct sq_capture cap = {0};
    const char **names;
    size_t n;
    int64_t next_n = 0;
    bool there;
    int rc = -1;
    if (sq_capture_is(s->db, &there, e) < 0) return -1;
    if (there && (sq_capture_load(s->db, &cap, e) < 0 || sq_meta_int(s->db, "next_table", &next_n, e) < 0)) return -1;
    if (next_n == 0) next_n = 1;
    if (table_names(s, c->arena, &names, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        struct shape *t;
        if (sq_table_shape(s->db, SQ_NS, names[i], &t, e) < 0) goto out;
        if (!t) continue;
        if (number(&cap, t, &next_n, e) < 0 || (for_chain && sq_keyless_check(s->db, t, s->keyless_max, e) < 0)) {
            shape_free(t);
            goto out;
        }
        if (catalog_add_table(c, t, e) < 0) goto out;
    }
    rc = 0;
out:
    sq_capture_free(&cap);
    return rc;
}

static const struct shape *catalog_find(const struct catalog *c, const char *name) {
    for (size_t i = 0; i < c->ntables; i++)
        if (strcasecmp(c->tables[i]->name, name) == 0) return c->tables[i];
    return NULL;
}

/* Current values of AUTOINCREMENT columns: objects named after their table. */
static int sequence_fill(struct object *o, struct arena *a, const struct shape *t, int64_t value, struct err *e) {
    const char *col = NULL;
    for (uint16_t i = 0; i < t->ncols && !col; i++)
        if (t->cols[i].ident == IDENT_AUTO) col = t->cols[i].name;
    *o = (struct object){.kind = OBJECT_SEQUENCE, .ns = SQ_NS, .value = value, .is_called = true};
    return (o->name = arena_copy(a, t->name, strlen(t->name), e)) &&
                   (o->owned_by = arena_printf(a, e, SQ_NS ".%s.%s", t->name, col ? col : ""))
               ? 0
               : -1;
}

static int sequences_prepare(sqlite3 *db, sqlite3_stmt **st, struct err *e) {
    int64_t any;
    *st = NULL;
    if (sq_int(db, embed_sql("sqlite/source_sequence_table"), &any, e) < 0) return -1;
    return any ? sq_prepare(db, embed_sql("sqlite/source_sequences"), st, e) : 0;
}

static int catalog_objects(struct source *s, struct catalog *c, struct err *e) {
    sqlite3_stmt *st;
    int got = sequences_prepare(s->db, &st, e);
    while (got == 0 && st && (got = sq_step(st, e)) > 0) {
        const struct shape *t = catalog_find(c, (const char *)sqlite3_column_text(st, 0));
        got = 0;
        if (!t) continue;
        struct object *o = catalog_add_object(c, e);
        if (!o || sequence_fill(o, c->arena, t, sqlite3_column_int64(st, 1), e) < 0) got = -1;
    }
    sqlite3_finalize(st);
    return got;
}

/* The catalogue is older than the snapshot: rows of the time between may hold values that the sequences had not given out yet. */
static int sequences_again(struct source *s, struct catalog *c, struct err *e) {
    sqlite3_stmt *st;
    int got = sequences_prepare(s->db, &st, e);
    while (got == 0 && st && (got = sq_step(st, e)) > 0) {
        const struct shape *t = catalog_find(c, (const char *)sqlite3_column_text(st, 0));
        struct object *o = NULL;
        got = 0;
        for (size_t i = 0; t && i < c->nobjects && !o; i++)
            if (c->objects[i].kind == OBJECT_SEQUENCE && strcmp(c->objects[i].name, t->name) == 0) o = &c->objects[i];
        if (t && !o && (!(o = catalog_add_object(c, e)) || sequence_fill(o, c->arena, t, 0, e) < 0)) got = -1; /* its first row came meanwhile */
        if (got == 0 && t) o->value = sqlite3_column_int64(st, 1);
    }
    sqlite3_finalize(st);
    return got;
}

static int catalog_warnings(struct source *s, bool for_chain, struct catalog *c, struct err *e) {
    sqlite3_stmt *st = NULL;
    bool wal;
    int got;
    if (sq_source_wal(s, &wal, e) < 0) return -1;
    if (!wal && catalog_warn(c, e, "the source is not in WAL mode: the application's writes wait while it is read") < 0) return -1;
    if (sq_prepare(s->db, embed_sql("sqlite/source_not_carried"), &st, e) < 0) return -1;
    while ((got = sq_step(st, e)) > 0) {
        const char *kind = (const char *)sqlite3_column_text(st, 0), *name = (const char *)sqlite3_column_text(st, 1);
        if (catalog_warn(c, e, "%s '%s' is not carried", kind, name) < 0) {
            got = -1;
            break;
        }
    }
    sqlite3_finalize(st);
    for (size_t i = 0; got == 0 && for_chain && i < c->ntables; i++) {
        char label[160];
        if (sq_copied_whole(c->tables[i]) &&
            catalog_warn(c, e, "table '%s' has no usable key: each change copies it whole", shape_label(c->tables[i], label)) < 0)
            got = -1;
    }
    return got;
}

/* Capture in the control DB would be tampering with it. A plain full of it is fine. */
static int not_control(struct source *s, struct err *e) {
    int64_t n;
    if (sq_int(s->db, embed_sql("sqlite/control_db"), &n, e) < 0) return -1;
    if (n < 5) return 0;
    err_set(e, CODE_CONFIG, "'%s' is a control DB of sluice: capture would be tampering with it", s->path);
    return err_hint(e, "copy it with `sluice control backup`, or take a plain full without --chain-slot");
}

static int source_catalog(struct source *s, bool for_chain, struct catalog **out, struct err *e) {
    struct catalog *c = NULL;
    *out = NULL;
    if (for_chain && (not_control(s, e) < 0 || require_wal(s, e) < 0)) return -1;
    if (sq_begin(s->db, false, e) < 0) return -1;
    if (!(c = catalog_new(e)) || catalog_tables(s, for_chain, c, e) < 0 || catalog_objects(s, c, e) < 0 ||
        catalog_warnings(s, for_chain, c, e) < 0) {
        sq_rollback(s->db);
        catalog_free(c);
        return -1;
    }
    sq_rollback(s->db);
    *out = c;
    return 0;
}

/* ---- the log's ends -------------------------------------------------------------------------------------------------------- */

static int source_end(struct source *s, struct pos *p, struct err *e) {
    struct sq_place at;
    bool there;
    if (sq_capture_is(s->db, &there, e) < 0) return -1;
    if (!there) return pos_set(p, "sqlite", "0", e);
    return sq_log_end(s->db, &at, e) < 0 ? -1 : sq_pos_of(&at, p, e);
}

static int source_anchor_absent(struct source *s, struct err *e) {
    int64_t n;
    if (sq_int(s->db, embed_sql("sqlite/capture_there"), &n, e) < 0) return -1;
    if (n == 0) return 0;
    err_set(e, CODE_SLOT_EXISTS, "the SQLite source '%s' is captured by a chain already (table sluice_log)", s->path);
    return err_hint(e, "extend that chain; if its store is lost, take the capture down with `sluice source clean`, then take the full");
}

static int anchor_table(struct source *s, const struct shape *t, int64_t n, struct err *e) {
    struct sq_triggers g = {0};
    struct shape *now;
    char label[160];
    int64_t next = 1;
    enum sq_verdict v = SQ_COPY;
    int rc = -1;
    if (sq_table_shape(s->db, SQ_NS, t->name, &now, e) < 0) return -1;
    for (uint16_t i = 0; i < t->ncols; i++)
        if (t->cols[i].id >= next) next = t->cols[i].id + 1;
    if (now && sq_shape_follow(t, now, &next, &v, e) < 0) goto out;
    if (v != SQ_SAME) {
        err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "table '%s' changed while the backup began", shape_label(t, label));
        err_hint(e, "run it again");
        goto out;
    }
    if (sq_keyless_check(s->db, now, s->keyless_max, e) < 0 || sq_triggers_make(&g, now, n, e) < 0 ||
        (now->identity >= 0 && sq_capture_keys(s->db, now->keys[now->identity].ncols, e) < 0) || sq_triggers_create(s->db, &g, e) < 0)
        goto out;
    rc = sq_capture_put(s->db, n, now, next, e);
out:
    buf_free(&g.text);
    shape_free(now);
    return rc;
}

static int anchor_make(struct source *s, const struct catalog *c, struct err *e) {
    char identity[128];
    int64_t version, next_n = 1;
    if (source_anchor_absent(s, e) < 0 || sq_identity_made(s->path, identity, e) < 0 || sq_capture_create(s->db, identity, e) < 0) return -1;
    for (size_t i = 0; i < c->ntables; i++) {
        int64_t n = c->tables[i]->oid > 0 ? c->tables[i]->oid : (int64_t)i + 1;
        if (anchor_table(s, c->tables[i], n, e) < 0) return -1;
        if (n >= next_n) next_n = n + 1;
    }
    if (sq_int(s->db, "PRAGMA main.schema_version", &version, e) < 0 || sq_meta_set_int(s->db, "schema_version", version, e) < 0) return -1;
    return sq_meta_set_int(s->db, "next_table", next_n, e) < 0 ? -1 : sq_schema_remember(s->db, e);
}

static int source_anchor(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e) {
    *snap = NULL;
    if (require_wal(s, e) < 0 || sq_begin(s->db, true, e) < 0) return -1;
    if (anchor_make(s, c, e) < 0 || FAULT("sqlite.anchor", e) < 0) {
        sq_rollback(s->db);
        return err_wrap(e, "cannot set up capture in '%s'", s->path);
    }
    if (sq_commit(s->db, e) < 0 || FAULT("sqlite.anchored", e) < 0) return -1;
    return sq_snapshot_open(s, p, snap, e);
}

static int source_unanchor(struct source *s, struct err *e) {
    int64_t n;
    if (sq_int(s->db, embed_sql("sqlite/capture_there"), &n, e) < 0) return -1;
    if (n == 0) return 0;
    if (sq_begin(s->db, true, e) < 0) return -1;
    if (sq_capture_drop(s->db, e) < 0 || FAULT("sqlite.unanchor", e) < 0) {
        sq_rollback(s->db);
        return -1;
    }
    return sq_commit(s->db, e);
}

static int source_check(struct source *s, const struct pos *from, const struct pos *covered, struct err *e) {
    struct sq_place at, cov = {0}, end;
    bool there;
    if (sq_capture_is(s->db, &there, e) < 0) return -1;
    if (!there) {
        err_set(e, CODE_SLOT_MISSING, "the SQLite source '%s' has no change log (table sluice_log)", s->path);
        return err_hint(e,
                        "it was removed, or the file was replaced; begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
    }
    if (require_wal(s, e) < 0 || sq_place_of(from, &at, e) < 0 || sq_log_end(s->db, &end, e) < 0 || sq_log_has(s->db, &at, &there, e) < 0)
        return -1;
    if (there) return 0;
    if (end.id < at.id) {
        err_set(e, CODE_SOURCE_CHANGED,
                "the change log of '%s' ends at %lld, before the chain's position %lld: the file was restored from an older copy", s->path,
                (long long)end.id, (long long)at.id);
        return err_hint(e, "begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
    }
    if (covered && pos_is_set(covered)) {
        if (sq_place_of(covered, &cov, e) < 0 || sq_log_has(s->db, &cov, &there, e) < 0) return -1;
        if (there && cov.id >= at.id) return 0;
    }
    err_set(e, CODE_SLOT_ADVANCED,
            "changes behind %s were deleted from the change log of '%s': it was acknowledged further than this chain", from->token,
            s->path);
    err_mark(e, MARKER_SLOT_ACKED_PAST_TARGET_POSITION, MARKER_NONE);
    return err_hint(
        e, "another copy of this chain was extended from the source; use that one, or take a new full with --chain-slot --force-overwrite");
}

#define SNAPSHOT_ANYWHERE INT64_MAX
#define SNAPSHOT_TRIES 5

/* *was: what stood there. */
static int mark_snapshot(struct source *s, int64_t id, int64_t *was, struct err *e) {
    if (sq_begin(s->db, true, e) < 0) return -1;
    if (sq_meta_int(s->db, "snapshot_id", was, e) < 0 || sq_meta_set_int(s->db, "snapshot_id", id, e) < 0) {
        sq_rollback(s->db);
        return -1;
    }
    return sq_commit(s->db, e);
}

/* A stream from before a snapshot tells downstream of rows that it may have by it: tick.c must know, in every view that is newer than the
 * snapshot's. So it is said to be anywhere before it is opened, and where it is afterwards; a killed copy leaves the first, which is only
 * slower. */
static int source_snapshot(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e) {
    struct sq_place at;
    int64_t was;
    bool there;
    (void)c;
    *snap = NULL;
    if (sq_capture_is(s->db, &there, e) < 0) return -1;
    if (!there) return sq_snapshot_open(s, p, snap, e);
    for (int tries = 0; tries < SNAPSHOT_TRIES; tries++) {
        if (mark_snapshot(s, SNAPSHOT_ANYWHERE, &was, e) < 0 || FAULT("sqlite.snapshot_marked", e) < 0 || sq_snapshot_open(s, p, snap, e) < 0)
            return -1;
        if (FAULT("sqlite.snapshot_opened", e) < 0 || sq_place_of(p, &at, e) < 0 || mark_snapshot(s, at.id, &was, e) < 0) {
            sq_snapshot_close(*snap);
            *snap = NULL;
            return -1;
        }
        if (was == SNAPSHOT_ANYWHERE) return 0;
        sq_snapshot_close(*snap); /* another copy said where its own is while ours was opened */
        *snap = NULL;
    }
    return err_set_class(e, ERR_RETRY, CODE_SERVER, "other copies of '%s' take snapshots all the time", s->path);
}

int sq_stream_sequences_of(sqlite3 *db, const struct sq_capture *cap, struct arena *a, struct object **o, size_t *n, struct err *e) {
    sqlite3_stmt *st;
    size_t cap_o = cap->n ? cap->n : 1;
    *n = 0;
    if (!(*o = arena_alloc(a, cap_o * sizeof **o, e))) return -1;
    int got = sequences_prepare(db, &st, e);
    while (got == 0 && st && (got = sq_step(st, e)) > 0) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        got = 0;
        for (size_t i = 0; i < cap->n && *n < cap_o; i++)
            if (strcasecmp(cap->v[i].shape->name, name) == 0 &&
                (got = sequence_fill(&(*o)[*n], a, cap->v[i].shape, sqlite3_column_int64(st, 1), e)) == 0)
                ++*n;
    }
    sqlite3_finalize(st);
    return got;
}

const struct source_ops sqlite_source_ops = {
    .open = source_open,
    .close = source_close,
    .identity = source_identity,
    .catalog = source_catalog,
    .end = source_end,
    .anchor = source_anchor,
    .anchor_absent = source_anchor_absent,
    .unanchor = source_unanchor,
    .check = source_check,
    .snapshot = source_snapshot,
    .snapshot_close = sq_snapshot_close,
    .reader_open = sq_reader_open,
    .reader_table = sq_reader_table,
    .reader_next = sq_reader_next,
    .reader_estimate = sq_reader_estimate,
    .reader_close = sq_reader_close,
    .sequences_again = sequences_again,
    .stream_open = sq_stream_open,
    .stream_next = sq_stream_next,
    .stream_ack = sq_stream_ack,
    .stream_sequences = sq_stream_sequences,
    .stream_uncaptured = sq_stream_uncaptured,
    .stream_close = sq_stream_close,
};
