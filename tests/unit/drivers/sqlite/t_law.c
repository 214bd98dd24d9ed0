/* law: for any workload of an application that does not know of us, with ticks, acknowledgements and crashes of ours anywhere in between,
 * what the stream tells, applied in order to the anchor's snapshot, is the source. Replay with SEED=n; ROUNDS=n. */
#include <time.h>

#include "tests/unit/drivers/sqlite/feed.h"

static uint64_t state;
static unsigned rnd(unsigned n) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 2685821657736338717ull) >> 33) % n;
}

static const char *value(void) {
    static const char *const v[] = {"1",    "2",   "3",   "4",     "'a'", "'A'",  "'b'",   "'B'", "'c'",
                                    "null", "1.5", "2.0", "x'61'", "'1'", "'a '", "9e999", "''",  "7"};
    return v[rnd(sizeof v / sizeof v[0])];
}
static const char *conflict(void) {
    static const char *const v[] = {"", "", " or replace", " or replace", " or ignore", " or fail", " or abort", " or rollback"};
    return v[rnd(sizeof v / sizeof v[0])];
}

static const char schema[] =
    "create table t1(id integer primary key, k text unique, v int, w);"
    "create table t2(a text collate nocase, b, v int not null default 3 unique, primary key(a,b)) without rowid;"
    "create table t3(a, b);"
    "create table t4(k not null unique, v text not null default 'b' unique, w);"
    "create table t5(id integer primary key, p int references t1(id) on delete cascade on update cascade, q int references t1(id) on "
    "delete set null);"
    "create table t6(k text primary key, v int, g as (v+1));"
    "create table t7(a int not null, b real not null, v, primary key(b,a));"
    "create table t8(k text primary key, v int); create table t9(a, b int, c, primary key(a,b));"
    "create table lg(n integer primary key autoincrement, x);"
    "create trigger u1 after insert on t1 begin insert into lg(x) values(new.k); end;"
    "create trigger u2 after update on t1 when new.v=2 begin delete from t1 where id=new.id+1; end;"
    "create trigger u3 before delete on t4 begin insert or replace into t3 values(old.k, 'gone'); end;"
    "create trigger u4 after insert on t4 when new.w=1 begin update t4 set w=2 where k=new.k; end;"
    "create trigger u5 after delete on t1 when old.v=3 begin insert or ignore into t1 values(old.id, old.k, 1, 'back'); end;"
    "insert into t1 values(1,'a',1,1),(2,'b',2,2),(3,'c',3,3);"
    "insert into t2 values('a',1,1),('b',2,2);"
    "insert into t3 values(1,1),(1,1);"
    "insert into t4 values(1,'a',1),('1','c',2);"
    "insert into t5 values(1,1,2),(2,2,3);"
    "insert into t6(k,v) values('x',1),(null,2);"
    "insert into t7 values(1,1,1),(1,2.5,2)";

static const char *const late_trigger[] = {
    /* made after ours, so they fire before them */
    "create trigger if not exists z1 after insert on t1 when new.w=7 begin delete from t1 where id=new.id; end",
    "create trigger if not exists z2 after insert on t1 when new.w=1 begin update t1 set w='z' where id=new.id; end",
    "create trigger if not exists z3 before insert on t4 begin insert or ignore into t1(k,v) values(new.k, 2); end",
    "create trigger if not exists z4 after delete on t4 when old.w=3 begin insert or ignore into t4 values(old.k, old.v, 'again'); end",
    "create trigger if not exists z5 before update on t7 begin delete from t7 where v=new.v and a<>old.a; end",
    "drop trigger if exists z1",
    "drop trigger if exists z2",
    "drop trigger if exists z4",
};

static void statement(char out[512]) {
    const char *c = conflict();
    switch (rnd(34)) {
    case 0:
    case 1:
    case 2: snprintf(out, 512, "insert%s into t1(id,k,v,w) values(%u,%s,%s,%s)", c, rnd(8), value(), value(), value()); break;
    case 3: snprintf(out, 512, "insert%s into t1(k,v) select k||'x', v from t1 where id<%u", c, rnd(6)); break;
    case 4:
    case 5: snprintf(out, 512, "update%s t1 set k=%s, v=%s where id=%u", c, value(), value(), rnd(8)); break;
    case 6: snprintf(out, 512, "update%s t1 set id=id+%u where v=%s", c, rnd(3), value()); break;
    case 7: snprintf(out, 512, "delete from t1 where id=%u or v is %s", rnd(8), value()); break;
    case 8:
        snprintf(
            out, 512,
            "insert into t1(id,k,v) values(%u,%s,%s) on conflict(id) do update set k=excluded.k, v=5 on conflict(k) do update set id=%u",
            rnd(8), value(), value(), rnd(9));
        break;
    case 9:
    case 10: snprintf(out, 512, "insert%s into t2 values(%s,%s,%s)", c, value(), value(), value()); break;
    case 11: snprintf(out, 512, "update%s t2 set a=%s where v=%s", c, value(), value()); break;
    case 12: snprintf(out, 512, "update%s t2 set v=%s, b=%s where a=%s", c, value(), value(), value()); break;
    case 13: snprintf(out, 512, "delete from t2 where a=%s", value()); break;
    case 14: snprintf(out, 512, "insert into t3 values(%s,%s)", value(), value()); break;
    case 15: snprintf(out, 512, "delete from t3 where a=%s", value()); break;
    case 16:
    case 17: snprintf(out, 512, "insert%s into t4 values(%s,%s,%s)", c, value(), value(), value()); break;
    case 18: snprintf(out, 512, "update%s t4 set k=%s, v=%s where w=%s", c, value(), value(), value()); break;
    case 19: snprintf(out, 512, "delete from t4 where k=%s", value()); break;
    case 20: snprintf(out, 512, "insert%s into t5 values(%u,%u,%u)", c, rnd(6), rnd(8), rnd(8)); break;
    case 21: snprintf(out, 512, "delete from t5 where id=%u", rnd(6)); break;
    case 22: snprintf(out, 512, "insert%s into t6(k,v) values(%s,%s)", c, value(), value()); break;
    case 23: snprintf(out, 512, "delete from t6 where k is %s", value()); break;
    case 24:
    case 25: snprintf(out, 512, "insert%s into t7 values(%u,%u.%u,%s)", c, rnd(3), rnd(3), rnd(2) * 5, value()); break;
    case 26: snprintf(out, 512, "update%s t7 set b=b+%u, a=%u where v=%s", c, rnd(2), rnd(3), value()); break;
    case 27: snprintf(out, 512, "delete from t%u", 1 + rnd(9)); break;
    case 30: snprintf(out, 512, "insert%s into t8 values(%s,%s)", c, rnd(8) ? "abs(random()%4)" : "null", value()); break;
    case 31: snprintf(out, 512, "delete from t8 where k%s", rnd(2) ? " is null" : "=2"); break;
    case 32: snprintf(out, 512, "insert%s into t9 values(%s,%u,%s)", c, rnd(6) ? "1" : value(), rnd(5), value()); break;
    case 33: snprintf(out, 512, "update%s t9 set b=%u where b=%u", c, rnd(5), rnd(5)); break;
    case 28: snprintf(out, 512, "replace into t%u select * from t%u limit 1", 3 + rnd(2), 3 + rnd(2)); break;
    default: snprintf(out, 512, "insert or replace into t1 select id, %s, v, w from t1 where id<%u", value(), rnd(8)); break;
    }
}

static void ddl(char out[512]) {
    unsigned t = 1 + rnd(7), n = rnd(3);
    switch (rnd(16)) {
    case 0:
    case 1: snprintf(out, 512, "alter table t%u add column e%u%s", t, n, rnd(3) ? "" : " default 5"); break;
    case 2: snprintf(out, 512, "alter table t%u drop column e%u", t, n); break;
    case 3: snprintf(out, 512, "alter table t%u rename column e%u to f%u", t, n, n); break;
    case 4: snprintf(out, 512, "alter table t1 rename column %s", rnd(2) ? "k to kk" : "kk to k"); break;
    case 5: snprintf(out, 512, "alter table t%u rename to r%u", t, t); break;
    case 6: snprintf(out, 512, "alter table r%u rename to t%u", t, t); break;
    case 7: snprintf(out, 512, "create unique index i%u on t%u(%s)", n, t, t == 1 ? "w" : t == 3 ? "a" : "v"); break;
    case 8: snprintf(out, 512, "drop index i%u", n); break;
    case 9: snprintf(out, 512, "vacuum"); break;
    case 10: snprintf(out, 512, "create table n%u(k text not null primary key, v)", n); break;
    case 11: snprintf(out, 512, "insert or replace into n%u values(%s,%s)", n, value(), value()); break;
    case 12: snprintf(out, 512, "drop table n%u", n); break;
    case 13: snprintf(out, 512, "alter table t%u drop column e%u; alter table t%u add column e%u", t, n, t, n); break;
    case 14: snprintf(out, 512, "update t%u set e%u=%s", t, n, value()); break;
    default: snprintf(out, 512, "%s", late_trigger[rnd(sizeof late_trigger / sizeof late_trigger[0])]); break;
    }
}

static bool round_of(uint64_t seed, bool with_ddl) {
    struct feed f = {.max_bytes = seed % 3 ? 64 * 1024 : 200};
    char sql[512];
    bool fine = true;
    state = seed * 0x9E3779B97F4A7C15ull + 1;
    feed_begin(&f, schema);
    feed_save(&f);
    for (int step = 0; step < 150 && fine; step++) {
        unsigned what = rnd(100);
        if (what < 60) statement(sql);
        else if (what < 67 && with_ddl) ddl(sql);
        else if (what < 70) snprintf(sql, sizeof sql, "begin");
        else if (what < 76) snprintf(sql, sizeof sql, "commit");
        else if (what < 78) snprintf(sql, sizeof sql, "rollback");
        else if (what < 80) snprintf(sql, sizeof sql, "pragma recursive_triggers=%u", rnd(2));
        else if (what < 82) snprintf(sql, sizeof sql, "pragma foreign_keys=%u", rnd(2));
        else sql[0] = 0;
        if (sql[0]) {
            if (f.verbose) note("step %d: %s", step, sql);
            app_try(&f, sql);
            continue;
        }
        if (!sqlite3_get_autocommit(f.app)) continue;
        if (f.verbose) note("step %d: tick", step);
        feed_tick(&f);
        fine = feed_same(&f);
        if (what >= 96) {
            feed_save(&f);
            feed_ack(&f);
        } else if (what >= 94) feed_crash(&f);
    }
    if (!sqlite3_get_autocommit(f.app)) app(&f, "commit");
    feed_tick(&f);
    fine = fine && feed_same(&f);
    feed_end(&f);
    return fine;
}

int main(void) {
    const char *one = getenv("SEED"), *many = getenv("ROUNDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) * 1000;
    int rounds = one ? 1 : many ? (int)strtol(many, NULL, 10) : 40;
    for (int i = 0; i < rounds; i++)
        for (int with_ddl = 0; with_ddl < 2; with_ddl++) {
            bool fine = round_of(first + (uint64_t)i, with_ddl);
            if (!fine || i == rounds - 1)
                ok(fine, "what is told is what happened%s, seed %llu", with_ddl ? ", schema changes too" : "",
                   (unsigned long long)(first + (uint64_t)i));
            if (!fine) return done_testing();
        }
    return done_testing();
}
