/* Memory that runs out at any allocation of ours: an error, nothing half done, nothing lost; the next attempt goes through. Leaks show
 * under ASan. */
#include "tests/unit/drivers/sqlite/feed.h"

#define SCHEMA                                                                                                                             \
    "create table t(id integer primary key autoincrement, k text unique, v, g as (id+1)); create table w(a text, b real, primary "         \
    "key(a,b)) without rowid;"                                                                                                             \
    "create table n(x); create view vw as select 1; insert into t(k,v) values('a',1),('b',x'00'); insert into w values('q',1.5); insert "  \
    "into n values(1)"
#define CHANGES                                                                                                                            \
    "insert or replace into t(k,v) values('a',3.5); delete from w; alter table t add column z text default 'zz'; create table late(id "    \
    "int primary key, b references t(id)); "                                                                                               \
    "insert into late values(7,2); insert into n values('two'); update t set v='long text, long text' where k='b'"

/* Everything from opening to the anchor's snapshot read. */
static int begin(struct feed *f, struct err *e) {
    struct snapshot *snap = NULL;
    struct reader *r = NULL;
    struct source_opts o = {.dsn = f->path};
    enum rows_encoding enc;
    const char *p;
    char identity[128];
    size_t n;
    uint64_t rows;
    int rc = -1;
    if (ops()->open(&o, &f->s, e) < 0 || ops()->identity(f->s, identity, e) < 0 || ops()->catalog(f->s, true, &f->c, e) < 0 ||
        ops()->anchor(f->s, f->c, &f->at, &snap, e) < 0 || ops()->reader_open(snap, &r, e) < 0)
        goto out;
    for (size_t t = 0; t < f->c->ntables; t++) {
        if (ops()->reader_table(r, f->c->tables[t], &enc, e) < 0) goto out;
        do
            if (ops()->reader_next(r, &p, &n, &rows, e) < 0) goto out;
        while (n);
    }
    rc = 0;
out:
    ops()->reader_close(r);
    ops()->snapshot_close(snap);
    return rc;
}

static int follow(struct feed *f, struct err *e, size_t *told) {
    struct pos seen;
    struct arena *a = NULL;
    struct object *o;
    const char **lines;
    size_t n;
    int rc = -1;
    if (ops()->stream_open(f->s, &f->at, f->c->tables, f->c->ntables, &f->st, e) < 0) goto out;
    *told = 0;
    do {
        batch_reset(&f->b);
        if (ops()->stream_next(f->st, &f->b, 300, 0, &seen, e) < 0) goto out;
        *told += f->b.n;
    } while (f->b.n);
    if (!(a = arena_new(1024, e)) || ops()->stream_sequences(f->st, a, &o, &n, e) < 0 ||
        ops()->stream_uncaptured(f->st, a, &lines, &n, e) < 0)
        goto out;
    rc = 0;
out:
    arena_free(a);
    ops()->stream_close(f->st);
    f->st = NULL;
    return rc;
}

static void shut(struct feed *f) {
    ops()->close(f->s);
    catalog_free(f->c);
    f->s = NULL;
    f->c = NULL;
}

int main(void) {
    struct feed f = {0};
    struct err e = {0};
    long after = 0;
    size_t told = 0, want;
    bool retry = true, left = false;
    feed_file(&f, SCHEMA);
    if (batch_init(&f.b, 4096, &e) < 0) die("batch", &e);
    for (;; after++) {
        e = (struct err){0};
        mem_fail_after(after);
        int rc = begin(&f, &e);
        mem_fail_after(-1);
        if (rc == 0) break;
        retry = retry && e.class == ERR_RETRY && e.code == CODE_NO_MEMORY;
        struct err ignored = {0};
        if (f.s && ops()->unanchor(f.s, &ignored) < 0) left = true;
        shut(&f);
    }
    note("%ld allocations to the first snapshot", after);
    ok(after > 50 && retry, "each failing one is a memory error that may be tried again");
    ok(!left, "and nothing is left that a new attempt would meet");
    app(&f, CHANGES);
    for (after = 0;; after++) {
        e = (struct err){0};
        mem_fail_after(after);
        int rc = follow(&f, &e, &told);
        mem_fail_after(-1);
        if (rc == 0) break;
        retry = retry && e.class == ERR_RETRY && e.code == CODE_NO_MEMORY;
        if (!retry) {
            note("%s", e.msg);
            break;
        }
    }
    note("%ld allocations in a stream", after);
    ok(after > 50 && retry, "the same for a stream");
    if (follow(&f, &e, &want) < 0) die("follow", &e);
    is_int(told, want, "the attempt that went through told everything");
    is_int(want, 10, "a truncate, two shapes, a delete, five rows, a commit");
    shut(&f);
    feed_end(&f);
    return done_testing();
}
