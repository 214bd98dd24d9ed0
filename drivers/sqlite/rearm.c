/* Keeping capture true when the application changes the schema.
 *
 * DESIGN
 * 1. One write transaction compares the schema with what capture knows, makes triggers anew, and marks in the log every table whose rows
 * may have changed unseen. The mark is a row of the log, so whoever reads from before it copies the table, also after a crash.
 * 2. A table is followed through renames by its triggers, which SQLite moves with it. A table that lost one (dropped, made anew, tampered
 * with) is copied whole; so is one whose new shape does not follow from the old one beyond doubt: columns left out            followed
 *      columns behind the others   followed when they are NULL everywhere or generated; copied when they have a default
 *      one name for another at the same place, same definition, not the last column    a rename, followed
 *      (the last one may be a column dropped and another added: copied)
 *      the same columns, but another CREATE TABLE text    copied: a column may have been dropped and added again
 *      a new unique key            copied: REPLACE may have displaced rows by it before the triggers knew it
 *      another identity            copied: the log's keys mean other rows now
 *      a new AFTER trigger of the application    copied, and ours made anew, so that they fire first: it may have kept ours from firing
 * 3. Column numbers are never used twice within a table, nor table numbers within a file. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/capture.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

/* ---- does one shape follow from another? ----------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_definition(const struct column *a, const struct column *b) {
    return strcasecmp(a->native, b->native) == 0 && same_text(a->collation, b->collation) && same_text(a->default_sql, b->default_sql) &&
           same_text(a->generated, b->generated) && a->not_null == b->not_null && a->generated_stored == b->generated_stored &&
           a->ident == b->ident;
}

static bool null_everywhere(const struct column *c) {
    return c->generated || !c->default_sql || strcasecmp(c->default_sql, "NULL") == 0;
}

static bool same_key(const struct shape *sa, const struct key *a, const struct shape *sb, const struct key *b) {
    if (a->ncols != b->ncols || a->partial != b->partial || a->expression != b->expression) return false;
    for (uint16_t i = 0; i < a->ncols; i++)
        if (sa->cols[a->cols[i]].id != sb->cols[b->cols[i]].id || a->equality[i] != b->equality[i]) return false;
    return true;
}

static bool unique(const struct key *k) {
    return k->kind == KEY_PRIMARY || k->kind == KEY_UNIQUE;
}

static bool keys_follow(const struct shape *before, const struct shape *now) {
    if (before->without_rowid != now->without_rowid || before->strict != now->strict) return false;
    if ((before->identity < 0) != (now->identity < 0)) return false;
    if (now->identity >= 0 && !same_key(before, &before->keys[before->identity], now, &now->keys[now->identity])) return false;
    if (sq_copied_whole(before)) return true; /* every change marks the whole table anyway */
    for (uint16_t i = 0; i < now->nkeys; i++) {
        bool known = !unique(&now->keys[i]);
        for (uint16_t k = 0; k < before->nkeys && !known; k++)
            known = unique(&before->keys[k]) && same_key(before, &before->keys[k], now, &now->keys[i]);
        if (!known) return false;
    }
    return true;
}

/* Columns that keep their name keep their number. Returns false when their order or a definition is another. */
static bool match_by_name(const struct shape *before, struct column *cols, uint16_t n, bool *used) {
    bool fine = true;
    int last = -1;
    for (uint16_t i = 0; i < n; i++) {
        int at = shape_col(before, cols[i].name);
        cols[i].id = 0;
        if (at < 0) continue;
        cols[i].id = before->cols[at].id;
        used[at] = true;
        if (at < last || !same_definition(&before->cols[at], &cols[i])) fine = false;
        last = at;
    }
    return fine;
}

static bool columns_follow(const struct shape *before, struct shape *now, struct column *cols, bool *used, int64_t *next) {
    bool follows = match_by_name(before, cols, now->ncols, used);
    uint16_t gone = 0, made = 0, tail = 0;
    for (uint16_t i = 0; i < before->ncols; i++)
        gone += !used[i];
    for (uint16_t i = 0; i < now->ncols; i++)
        made += cols[i].id == 0;
    for (uint16_t i = now->ncols; i > 0 && cols[i - 1].id == 0; i--)
        tail++;
    if (gone && made && before->ncols == now->ncols) { /* renamed in place? */
        bool renames = follows && gone == made && tail == 0;
        for (uint16_t i = 0; renames && i < now->ncols; i++)
            if (cols[i].id == 0 && (used[i] || !same_definition(&before->cols[i], &cols[i]))) renames = false;
        for (uint16_t i = 0; renames && i < now->ncols; i++)
            if (cols[i].id == 0) cols[i].id = before->cols[i].id;
        if (!renames) follows = false;
    } else if ((gone && made) || made != tail) {
        follows = false;
    }
    /* The same columns in another text: the last one may have been dropped and added again, its values gone. */
    if (!gone && !made && strcmp(before->name, now->name) == 0 && !same_text(before->create_sql, now->create_sql)) follows = false;
    for (uint16_t i = 0; i < now->ncols; i++)
        if (cols[i].id == 0) {
            cols[i].id = (*next)++;
            if (!null_everywhere(&cols[i])) follows = false;
        }
    return follows;
}

int sq_shape_follow(const struct shape *before, struct shape *now, int64_t *next_column, enum sq_verdict *v, struct err *e) {
    bool *used = mem_alloc(before->ncols + 1u, e);
    if (!used) return -1;
    struct column *cols = (struct column *)(uintptr_t)now->cols; /* our own, fresh from sq_table_shape */
    bool columns = columns_follow(before, now, cols, used, next_column), keys = keys_follow(before, now);
    mem_free(used);
    if (shape_finish(now, e) < 0) return -1;
    *v = !columns || !keys ? SQ_COPY : strcmp(before->digest, now->digest) == 0 ? SQ_SAME : SQ_FOLLOW;
    return 0;
}

/* ---- the list of captured tables -------------------------------------------------------------------------------------------- */

void sq_capture_free(struct sq_capture *c) {
    for (size_t i = 0; i < c->n; i++)
        shape_free(c->v[i].shape);
    mem_free(c->v);
    *c = (struct sq_capture){0};
}

static int add(struct sq_capture *c, int64_t n, struct shape *s, int64_t next_column, struct err *e) { /* takes s */
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 16;
        struct sq_captured *v = mem_resize(c->v, cap * sizeof *v, e);
        if (!v) {
            shape_free(s);
            return -1;
        }
        c->v = v;
        c->cap = cap;
    }
    s->oid = n;
    c->v[c->n++] = (struct sq_captured){.n = n, .next_column = next_column, .shape = s};
    return 0;
}

struct sq_captured *sq_capture_find(struct sq_capture *c, int64_t n) {
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].n == n) return &c->v[i];
    return NULL;
}

static struct sq_captured *find_name(struct sq_capture *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcasecmp(c->v[i].shape->name, name) == 0) return &c->v[i];
    return NULL;
}

int sq_capture_load(sqlite3 *db, struct sq_capture *c, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got;
    sq_capture_free(c);
    if (sq_meta_int(db, "schema_version", &c->schema_version, e) < 0 || sq_prepare(db, embed_sql("sqlite/capture_tables"), &st, e) < 0)
        return -1;
    while ((got = sq_step(st, e)) > 0) {
        const char *json = (const char *)sqlite3_column_text(st, 2);
        struct shape *s = shape_from_json(json ? json : "", (size_t)sqlite3_column_bytes(st, 2), e);
        if (!s || add(c, sqlite3_column_int64(st, 0), s, sqlite3_column_int64(st, 3), e) < 0) {
            got = err_wrap(e, "cannot read what capture knows of table %lld", (long long)sqlite3_column_int64(st, 0));
            break;
        }
    }
    sqlite3_finalize(st);
    if (got < 0) sq_capture_free(c);
    return got;
}

static int bigger_than(sqlite3 *db, const struct shape *s, uint64_t max, bool *yes, struct err *e) {
    struct buf sql = BUF_INIT(MiB(4));
    sqlite3_stmt *st = NULL;
    uint64_t bytes = 0;
    int64_t pages = 0, size = 0;
    int rc = -1, got = 0;
    *yes = false;
    if (sq_int(db, "PRAGMA main.page_count", &pages, e) < 0 || sq_int(db, "PRAGMA main.page_size", &size, e) < 0) return -1;
    if ((uint64_t)pages * (uint64_t)size <= max) return 0; /* the whole file is no bigger */
    if (buf_adds(&sql, "SELECT * FROM main.", e) < 0 || text_ident(&sql, s->name, e) < 0 || !buf_str(&sql, e) ||
        sq_prepare(db, sql.p, &st, e) < 0)
        goto out;
    int n = sqlite3_column_count(st);
    while (bytes <= max && (got = sq_step(st, e)) > 0)
        for (int i = 0; i < n; i++) {
            int type = sqlite3_column_type(st, i);
            bytes += 2 + (uint64_t)(type == SQLITE_TEXT || type == SQLITE_BLOB ? sqlite3_column_bytes(st, i) : 8);
        }
    *yes = bytes > max;
    rc = got < 0 ? -1 : 0;
out:
    sqlite3_finalize(st);
    buf_free(&sql);
    return rc;
}

int sq_keyless_check(sqlite3 *db, const struct shape *s, uint64_t max, struct err *e) {
    bool big;
    char label[160];
    if (!sq_copied_whole(s)) return 0;
    if (bigger_than(db, s, max, &big, e) < 0) return -1;
    if (!big) return 0;
    err_set(e, CODE_KEYLESS_TOO_BIG, "table '%s' %s, so each change copies it whole, and it is bigger than %llu bytes",
            shape_label(s, label),
            s->identity >= 0  ? "has a unique index that is partial or on an expression"
            : s->primary >= 0 ? "has NULLs in its primary key"
                              : "has no key",
            (unsigned long long)max);
    return err_hint(e, "give it a key without NULLs, leave it out with --exclude-table '%s', or raise --keyless-max-bytes", s->name);
}

/* ---- rearming --------------------------------------------------------------------------------------------------------------- */

struct rearm {
    sqlite3 *db;
    const struct table_filter *filter;
    uint64_t keyless_max;
    struct sq_capture old, now;
    int64_t next_n;
    bool doubt;        /* the schema changed more often than it shows */
    int64_t looked_at; /* the log's end when capture was last made true */
};

/* The table that carries the triggers of n: its name in `on`; *whole when all of them are there with these texts (texts NULL: any). */
static int triggers_look(sqlite3 *db, int64_t n, const struct sq_triggers *want, struct buf *on, bool *all, bool *as_made, struct err *e) {
    sqlite3_stmt *st = NULL;
    char prefix[40];
    int got, found = 0, equal = 0;
    snprintf(prefix, sizeof prefix, "sluice_%lld_", (long long)n);
    buf_reset(on);
    if (sq_prepare(db, embed_sql("sqlite/capture_triggers"), &st, e) < 0) return -1;
    while ((got = sq_step(st, e)) > 0) {
        const char *name = (const char *)sqlite3_column_text(st, 0), *sql = (const char *)sqlite3_column_text(st, 2);
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        for (int i = 0; i < want->n; i++)
            if (strcmp(name, want->v[i].name) == 0) {
                found++;
                equal += sql && strlen(sql) == want->v[i].n && memcmp(sql, want->text.p + want->v[i].at, want->v[i].n) == 0;
            }
        buf_reset(on);
        if (buf_adds(on, (const char *)sqlite3_column_text(st, 1), e) < 0 || !buf_str(on, e)) {
            got = -1;
            break;
        }
    }
    sqlite3_finalize(st);
    *all = found == want->n;
    *as_made = equal == want->n;
    return got;
}

/* Does an AFTER trigger of the application fire before ours of number n? Then RAISE(IGNORE) or OR FAIL in it may have left rows unnoted. */
static int outrun(sqlite3 *db, int64_t n, const char *name, bool *yes, struct err *e) {
    sqlite3_stmt *st = NULL;
    char ours[48];
    snprintf(ours, sizeof ours, "sluice_%lld_a[iud]", (long long)n);
    int got = sq_prepare(db, embed_sql("sqlite/capture_outrun"), &st, e);
    if (got == 0) {
        sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, ours, -1, SQLITE_STATIC);
        got = sq_step(st, e);
    }
    *yes = got > 0 && sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

/* Was a row of table n written since `after`? */
static int wrote(sqlite3 *db, int64_t n, int64_t after, bool *yes, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got = sq_prepare(db, embed_sql("sqlite/log_wrote"), &st, e);
    if (got == 0) {
        sqlite3_bind_int64(st, 1, n);
        sqlite3_bind_int64(st, 2, after);
        got = sq_step(st, e);
    }
    *yes = got > 0 && sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return got < 0 ? -1 : 0;
}

/* Table number n is now the table `name`. lost: its triggers were not all there as made. before NULL: a new table. */
static int take(struct rearm *r, int64_t n, const char *name, const struct sq_captured *before, bool lost, bool edited, struct err *e) {
    struct shape *s = NULL;
    struct sq_triggers t = {0};
    enum sq_verdict v = SQ_COPY;
    int64_t next;
    char label[160];
    int rc = -1;
    if (sq_table_shape(r->db, SQ_NS, name, &s, e) < 0) return -1;
    if (!s) return 0;
    next = s->ncols + 1;
    if (before) {
        next = before->next_column;
        if (sq_shape_follow(before->shape, s, &next, &v, e) < 0) goto out;
        bool lost_values = false, late = false, written = false;
        if (outrun(r->db, n, name, &late, e) < 0) goto out;
        if (lost || late || (edited && v == SQ_SAME)) v = SQ_COPY;
        if (r->doubt && v != SQ_COPY && sq_may_have_lost_values(r->db, before->shape, s, n, r->looked_at, &lost_values, e) < 0) goto out;
        /* REPLACE may have displaced rows by a unique index that came and went */
        if (r->doubt && v != SQ_COPY && wrote(r->db, n, r->looked_at, &written, e) < 0) goto out;
        if (lost_values || written) v = SQ_COPY;
    }
    if (v == SQ_SAME && !edited) {
        rc = add(&r->now, n, s, next, e);
        s = NULL;
        goto out;
    }
    if ((!before || !sq_copied_whole(before->shape)) && sq_keyless_check(r->db, s, r->keyless_max, e) < 0) {
        if (before || e->code != CODE_KEYLESS_TOO_BIG) goto out;
        log_warn("a new table is not captured", KV_STR("table", shape_label(s, label)),
                 KV_STR("why", e->msg)); /* stream_uncaptured reports it; the others go on */
        err_clear(e);
        rc = 0;
        goto out;
    }
    if (sq_triggers_drop(r->db, n, e) < 0 || sq_triggers_make(&t, s, n, e) < 0 ||
        (s->identity >= 0 && sq_capture_keys(r->db, s->keys[s->identity].ncols, e) < 0) || sq_triggers_create(r->db, &t, e) < 0 ||
        sq_capture_put(r->db, n, s, next, e) < 0 || sq_capture_note(r->db, n, v == SQ_COPY ? SQ_OP_DIRTY : 'S', e) < 0)
        goto out;
    log_info("capture follows the schema", KV_STR("table", shape_label(s, label)),
             KV_STR("how", !before        ? "new"
                           : v == SQ_COPY ? "copied"
                                          : "followed"));
    rc = add(&r->now, n, s, next, e);
    s = NULL;
out:
    buf_free(&t.text);
    shape_free(s);
    return rc < 0 ? err_wrap(e, "cannot capture table '%s'", name) : 0;
}

static int forget(struct rearm *r, const struct sq_captured *c, struct err *e) {
    sqlite3_stmt *st = NULL;
    log_warn("a captured table is gone from the source; targets keep their copy until the name is needed", KV_STR("table", c->shape->name));
    int rc = sq_triggers_drop(r->db, c->n, e);
    if (rc == 0 && (rc = sq_prepare(r->db, embed_sql("sqlite/capture_remove"), &st, e)) == 0) {
        sqlite3_bind_int64(st, 1, c->n);
        rc = sq_run(st, e);
    }
    sqlite3_finalize(st);
    return rc < 0 ? -1 : sq_capture_note(r->db, c->n, 'S', e); /* so that a tick tells it */
}

/* Tables whose triggers moved with them. Then tables of the old name without them. */
static int retake(struct rearm *r, struct err *e) {
    struct buf on = BUF_INIT(MiB(1));
    bool *done = mem_alloc(r->old.n + 1, e);
    int rc = done ? 0 : -1;
    for (int pass = 0; rc == 0 && pass < 2; pass++)
        for (size_t i = 0; rc == 0 && i < r->old.n; i++) {
            struct sq_captured *c = &r->old.v[i];
            struct sq_triggers want = {0};
            bool all = false, as_made = false;
            if (done[i]) continue;
            if ((rc = sq_triggers_make(&want, c->shape, c->n, e)) < 0 ||
                (rc = triggers_look(r->db, c->n, &want, &on, &all, &as_made, e)) < 0) {
                buf_free(&want.text);
                break;
            }
            buf_free(&want.text);
            if (pass == 0 && all) {
                /* renamed over a table that was captured under that name: the name's own number goes on, this one ends */
                struct sq_captured *there = find_name(&r->old, on.p);
                if (there && there != c) continue;
                rc = take(r, c->n, on.p, c, false, !as_made, e);
                done[i] = true;
            } else if (pass == 1) {
                struct sq_captured *heir = NULL;
                if (!find_name(&r->now, c->shape->name)) {
                    size_t had = r->now.n;
                    rc = take(r, c->n, c->shape->name, c, true, true, e);
                    if (rc == 0 && r->now.n > had) heir = &r->now.v[had];
                }
                if (rc == 0 && !heir) rc = forget(r, c, e);
                done[i] = true;
            }
        }
    mem_free(done);
    buf_free(&on);
    return rc;
}

static int take_new(struct rearm *r, struct err *e) {
    sqlite3_stmt *st = NULL;
    int got, rc = 0;
    if (sq_prepare(r->db, embed_sql("sqlite/source_tables"), &st, e) < 0) return -1;
    struct arena *a = arena_new(4096, e);
    const char **names = NULL;
    size_t n = 0;
    if (!a) rc = -1;
    while (rc == 0 && (got = sq_step(st, e)) != 0) { /* first the names: making triggers changes the schema */
        const char *name = got > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
        const char **more = name ? mem_resize(names, (n + 1) * sizeof *names, e) : NULL;
        if (!more) {
            rc = -1;
            break;
        }
        names = more;
        if (!(names[n] = arena_copy(a, name, strlen(name), e))) rc = -1;
        else n++;
    }
    sqlite3_finalize(st);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (find_name(&r->now, names[i]) || !table_filter_match(r->filter, SQ_NS, names[i])) continue;
        size_t had = r->now.n;
        rc = take(r, r->next_n, names[i], NULL, true, true, e);
        if (r->now.n > had) r->next_n++;
    }
    mem_free(names);
    arena_free(a);
    return rc;
}

int sq_rearm(sqlite3 *db, const struct table_filter *f, uint64_t keyless_max, struct sq_capture *c, struct err *e) {
    struct rearm r = {.db = db, .filter = f, .keyless_max = keyless_max};
    struct sq_place end;
    int64_t hidden;
    int rc = -1;
    if (sq_begin(db, true, e) < 0) return -1;
    if (sq_capture_load(db, &r.old, e) < 0 || sq_meta_int(db, "next_table", &r.next_n, e) < 0) goto out;
    if (r.next_n == 0) r.next_n = 1;
    if (sq_schema_unexplained(db, r.old.schema_version, &hidden, e) < 0 || sq_meta_int(db, "log_id", &r.looked_at, e) < 0) goto out;
    r.doubt = hidden >= 2 || hidden < 0;
    if (retake(&r, e) < 0 || take_new(&r, e) < 0) goto out;
    if (sq_int(db, "PRAGMA main.schema_version", &r.now.schema_version, e) < 0 ||
        sq_meta_set_int(db, "schema_version", r.now.schema_version, e) < 0 || sq_meta_set_int(db, "next_table", r.next_n, e) < 0 ||
        sq_schema_remember(db, e) < 0 || sq_log_end(db, &end, e) < 0 || sq_meta_set_int(db, "log_id", end.id, e) < 0)
        goto out;
    if (FAULT("sqlite.rearm", e) < 0 || sq_commit(db, e) < 0) goto out;
    sq_capture_free(c);
    *c = r.now;
    r.now = (struct sq_capture){0};
    rc = 0;
out:
    sq_rollback(db);
    sq_capture_free(&r.old);
    sq_capture_free(&r.now);
    return rc < 0 ? err_wrap(e, "cannot bring capture up to the source's schema") : 0;
}
