/* Schema on the target: made from shapes, finished after rows, checked against, altered. */
#include "engine/base/convert.h"
#include "tests/unit/drivers/postgres/target_kit.h"

static const char *map_ns(void *arg, const char *ns) {
    (void)arg;
    return strcmp(ns, kit_src) == 0 ? kit_ns : ns;
}

/* The shapes of two tables say the same, but for their namespaces. */
static void same_table(const char *name, const char *claim) {
    struct shape *a = kit_shape(kit_src, name), *b = kit_shape(kit_ns, name);
    int diff = a->ncols != b->ncols || a->nkeys != b->nkeys;
    for (uint16_t i = 0; !diff && i < a->ncols; i++) {
        const struct column *x = &a->cols[i], *y = &b->cols[i];
        diff |= strcmp(x->name, y->name) != 0 || strcmp(x->native, y->native) != 0 || x->not_null != y->not_null || x->ident != y->ident ||
                (x->generated == NULL) != (y->generated == NULL) || (x->default_sql == NULL) != (y->default_sql == NULL) || (x->collation == NULL) != (y->collation == NULL) ||
                (x->default_sql != NULL && strstr(x->default_sql, "nextval") == NULL && strcmp(x->default_sql, y->default_sql) != 0);
        if (diff) note("column %s: %s %s / %s %s", x->name, x->native, x->default_sql ? x->default_sql : "", y->native, y->default_sql ? y->default_sql : "");
    }
    for (uint16_t i = 0; !diff && i < a->nkeys; i++) {
        bool found = false;
        for (uint16_t k = 0; k < b->nkeys && !found; k++) found = strcmp(a->keys[i].name, b->keys[k].name) == 0 && tg_key_same(a, &a->keys[i], b, &b->keys[k], map_ns, NULL);
        if (!found) note("key %s is not the same", a->keys[i].name);
        diff |= !found;
    }
    diff |= a->full_image != b->full_image || (a->identity < 0) != (b->identity < 0) ||
            (a->identity >= 0 && strcmp(a->keys[a->identity].name, b->keys[b->identity].name) != 0);
    ok(!diff, "%s", claim);
    shape_free(a);
    shape_free(b);
}

static void same_engine_schema(void) {
    struct err e = {0};
    kit_do("CREATE TYPE %s.mood AS ENUM ('a', 'b'); CREATE DOMAIN %s.pos AS int CHECK (VALUE > 0) NOT NULL", kit_src, kit_src);
    kit_do("CREATE TABLE %s.p(id serial primary key, t text COLLATE \"C\" NOT NULL DEFAULT 'x''y', n numeric(12,2), m %s.mood, d %s.pos, g int GENERATED ALWAYS AS (length(t)) STORED, "
           "i bigint GENERATED ALWAYS AS IDENTITY, CONSTRAINT p_n CHECK (n > 0), UNIQUE (t) DEFERRABLE INITIALLY DEFERRED, EXCLUDE USING btree (n WITH =))", kit_src, kit_src, kit_src);
    kit_do("CREATE INDEX p_low ON %s.p (lower(t)) WHERE n > 5; CREATE UNIQUE INDEX \"P q\" ON %s.p (m, d)", kit_src, kit_src);
    kit_do("CREATE TABLE %s.c(id int primary key, pid int REFERENCES %s.p ON DELETE CASCADE DEFERRABLE, \"we\"\"ird USING col\" int)", kit_src, kit_src);
    kit_do("CREATE TABLE %s.part(id int, k text, primary key (id, k)) PARTITION BY LIST (k); CREATE TABLE %s.part_a PARTITION OF %s.part FOR VALUES IN ('a'); "
           "CREATE INDEX part_k ON %s.part (k)", kit_src, kit_src, kit_src, kit_src);
    kit_do("CREATE TABLE %s.inh(x int) INHERITS (%s.c)", kit_src, kit_src);
    kit_do("ALTER TABLE %s.c REPLICA IDENTITY FULL; ALTER TABLE %s.p ALTER m SET NOT NULL, ALTER d SET NOT NULL; ALTER TABLE %s.p REPLICA IDENTITY USING INDEX \"P q\"", kit_src, kit_src, kit_src);
    kit_do("CREATE SEQUENCE %s.alone START 5 INCREMENT 5", kit_src);
    static const char *const names[] = {"p", "c", "part", "part_a", "inh"};
    struct catalog *cat = catalog_new(&e);
    for (size_t i = 0; i < 5; i++) catalog_add_table(cat, kit_shape(kit_src, names[i]), &e);
    struct object *o = catalog_add_object(cat, &e);
    *o = (struct object){.kind = OBJECT_SCHEMA, .ns = kit_src, .name = kit_src, .sql = "x"};
    o = catalog_add_object(cat, &e);
    *o = (struct object){.kind = OBJECT_TYPE, .ns = kit_src, .name = "mood", .sql = arena_printf(cat->arena, &e, "CREATE TYPE %s.mood AS ENUM ('a', 'b')", kit_src)};
    o = catalog_add_object(cat, &e);
    *o = (struct object){.kind = OBJECT_SEQUENCE, .ns = kit_src, .name = "p_id_seq", .value = 17, .is_called = true, .owned_by = arena_printf(cat->arena, &e, "%s.p.id", kit_src),
                         .sql = arena_printf(cat->arena, &e, "CREATE SEQUENCE %s.p_id_seq AS integer INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1 NO CYCLE", kit_src)};
    o = catalog_add_object(cat, &e);
    *o = (struct object){.kind = OBJECT_SEQUENCE, .ns = kit_src, .name = "p_i_seq", .sql = "", .value = 9, .is_called = true, .owned_by = arena_printf(cat->arena, &e, "%s.p.i", kit_src)};
    ok(ops->objects_create(kit_t, cat, map_ns, NULL, &e) == 0, "objects: %s", e.msg);
    ok(ops->objects_create(kit_t, cat, map_ns, NULL, &e) == 0, "once more: %s", e.msg);
    int bad = 0;
    for (size_t i = 0; i < cat->ntables; i++) {
        bad += ops->compatible(kit_t, cat->tables[i], NULL, &e) < 0;
        bad += ops->table_create(kit_t, cat->tables[i], kit_ns, names[i], &e) < 0;
    }
    ok(bad == 0, "tables: %s", e.msg);
    for (int stage = 0; stage < 3; stage++)
        for (size_t i = 0; i < cat->ntables; i++) bad += ops->table_finish(kit_t, cat->tables[i], kit_ns, names[i], stage, map_ns, NULL, &e) < 0;
    ok(bad == 0, "finished: %s", e.msg);
    for (int stage = 0; stage < 3; stage++)
        for (size_t i = cat->ntables; i-- > 0;) bad += ops->table_finish(kit_t, cat->tables[i], kit_ns, names[i], stage, map_ns, NULL, &e) < 0;
    ok(bad == 0, "and again: %s", e.msg);
    for (size_t i = 0; i < 5; i++) same_table(names[i], names[i]);
    for (size_t i = 0; i < cat->nobjects; i++)
        if (cat->objects[i].kind == OBJECT_SEQUENCE) bad += ops->sequence_set(kit_t, &cat->objects[i], kit_ns, &e) < 0;
    ok(bad == 0, "sequences: %s", e.msg);
    is_str(kit_rows("SELECT nextval(pg_get_serial_sequence('%s.p', 'id')), nextval(pg_get_serial_sequence('%s.p', 'i'))", kit_ns, kit_ns), "18|10", "owned and set");
    is_str(kit_rows("SELECT count(*) FROM pg_depend WHERE refobjid = '%s.p'::regclass AND objid = '%s.p_id_seq'::regclass", kit_ns, kit_ns), "1", "the serial belongs to its column");
    ok(ops->table_create(kit_t, cat->tables[0], kit_ns, "p", &e) == -1 && e.code == CODE_TARGET_NOT_EMPTY, "a table that is there is refused: %s", e.msg);
    err_clear(&e);
    cat->objects[1].sql = "CREATE TYPE x AS ENUM ('a')";
    ok(ops->objects_create(kit_t, cat, map_ns, NULL, &e) == -1 && e.code == CODE_TARGET_NOT_EMPTY, "a type that differs is refused: %s", e.msg);
    err_clear(&e);
    kit_do("CREATE VIEW %s.w AS SELECT id FROM %s.part", kit_ns, kit_ns);
    ok(ops->table_drop(kit_t, kit_ns, "part", &e) == -1 && e.class == ERR_REFUSE, "a view in the way is not taken along: %s", e.msg);
    err_clear(&e);
    kit_do("DROP VIEW %s.w", kit_ns);
    for (size_t i = 0; i < 5; i++) bad += ops->table_drop(kit_t, kit_ns, names[i], &e) < 0;
    ok(bad == 0, "parents are dropped before their children: %s", e.msg);
    ok(ops->table_drop(kit_t, kit_ns, "p", &e) == 0, "absent is fine");
    is_str(kit_rows("SELECT count(*) FROM pg_class WHERE relnamespace = '%s'::regnamespace AND relkind IN ('r', 'p')", kit_ns), "0", "all gone");
    catalog_free(cat);
}

static void foreign_schema(void) {
    struct err e = {0};
    static const char *const n[] = {"b", "i", "nu", "f", "t", "by", "d", "ti", "ts", "u", "j"};
    static const enum ltype ty[] = {LT_BOOL, LT_INT64, LT_NUMERIC, LT_FLOAT8, LT_TEXT, LT_BYTES, LT_DATE, LT_TIME, LT_TIMESTAMP, LT_UUID, LT_JSON};
    struct shape *s = kit_foreign("fs", 11, n, ty, 2);
    ok(ops->compatible(kit_t, s, NULL, &e) == 0 && ops->table_create(kit_t, s, kit_ns, "fs", &e) == 0, "another engine's table: %s", e.msg);
    int bad = 0;
    for (int i = 0; i < 6; i++) bad += ops->table_finish(kit_t, s, kit_ns, "fs", i % 3, NULL, NULL, &e) < 0;
    ok(bad == 0, "finished twice: %s", e.msg);
    is_str(kit_rows("SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '%s.fs'::regclass AND attnum > 0", kit_ns),
           "boolean,bigint,numeric,double precision,text,bytea,date,time without time zone,timestamp without time zone,uuid,json", "its types");
    struct shape *d = kit_shape(kit_ns, "fs");
    ok(ops->compatible(kit_t, s, d, &e) == 0 && ops->keys_check(kit_t, s, d, &e) == 0, "which hold what they were made for: %s", e.msg);
    shape_free(d);
    shape_free(s);
    s = kit_foreign("fx", 2, (const char *const[]){"a", "z"}, (const enum ltype[]){LT_INT64, LT_NATIVE}, 1);
    ok(ops->compatible(kit_t, s, NULL, &e) == -1 && e.code == CODE_TYPE_UNSUPPORTED && strstr(e.msg, "main.fx") != NULL && strstr(e.msg, "'z'") != NULL,
       "a type without counterpart is named: %s", e.msg);
    shape_free(s);
    err_clear(&e);
    s = kit_foreign("a_name_of_a_table_that_is_quite_a_bit_longer_than_postgres_will_have_it", 1, (const char *const[]){"a"}, (const enum ltype[]){LT_INT64}, 1);
    ok(ops->compatible(kit_t, s, NULL, &e) == -1 && e.code == CODE_NAME_COLLISION, "a name that would be cut is refused: %s", e.msg);
    shape_free(s);
}

/* source DDL, target DDL -> what the checks say */
static void check(const char *src, const char *dst, bool keys, enum err_code code, enum marker m, enum marker sub, const char *claim) {
    struct err e = {0};
    kit_do("DROP TABLE IF EXISTS %s.ck; DROP TABLE IF EXISTS %s.ck; CREATE TABLE %s.ck(%s); CREATE TABLE %s.ck(%s)", kit_src, kit_ns, kit_src, src, kit_ns, dst);
    struct shape *s = kit_shape(kit_src, "ck"), *d = kit_shape(kit_ns, "ck");
    int rc = keys ? ops->keys_check(kit_t, s, d, &e) : ops->compatible(kit_t, s, d, &e);
    ok(code == CODE_NONE ? rc == 0 : rc == -1 && e.code == code && e.marker == m && e.sub == sub, "%s: %s", claim, e.msg);
    shape_free(s);
    shape_free(d);
}

static void checks(void) {
    const enum marker D = MARKER_RESUME_SCHEMA_DIVERGENCE, A = MARKER_SOURCE_UNIQUE_KEY_ABSENT, M = MARKER_KEY_COLLATION_MERGE, G = MARKER_KEY_COLLATION_GUARD_UNSUPPORTED;
    check("id int primary key, v text", "id int primary key, v text", false, CODE_NONE, 0, 0, "the same table fits");
    check("id int primary key, v varchar(5)", "v text, id bigint primary key", false, CODE_NONE, 0, 0, "wider types in another order fit");
    check("id int primary key, v text", "id int primary key, v varchar(5)", false, CODE_SHAPE_CHANGED, D, 0, "a narrower type");
    check("id int primary key, v numeric", "id int primary key, v numeric(10,2)", false, CODE_SHAPE_CHANGED, D, 0, "a scale that would round");
    check("id int primary key, v int", "id int primary key, v text", false, CODE_NONE, 0, 0, "a text holds an integer");
    check("id int primary key, v text", "id int primary key, v char(9)", false, CODE_SHAPE_CHANGED, D, 0, "blanks would be added");
    check("id int primary key, v text", "id int primary key", false, CODE_SHAPE_CHANGED, D, 0, "a missing column");
    check("id int primary key, v text", "id int primary key, v text generated always as ('x') stored", false, CODE_SHAPE_CHANGED, D, 0, "a generated column");
    check("id int primary key, v text", "id int primary key, v text not null", false, CODE_SHAPE_CHANGED, D, 0, "NOT NULL on the target alone");
    check("id int primary key", "id int primary key, x int not null", false, CODE_SHAPE_CHANGED, D, 0, "a column of its own without a default");
    check("id int primary key", "id int primary key, x int not null default 3, y text", false, CODE_NONE, 0, 0, "with one it fits");
    check("id int primary key, e text", "id int primary key, e text unique", true, CODE_TARGET_KEYS, A, 0, "a unique key the source lacks");
    check("id int primary key, e text unique", "id int primary key, e text, unique (e, id)", true, CODE_NONE, 0, 0, "a key that is implied");
    check("id int primary key, e text", "id int primary key, e text, exclude using btree (e with =)", true, CODE_TARGET_KEYS, A, 0, "an exclusion constraint too");
    check("id int primary key, e text, unique (e) deferrable", "id int primary key, e text, unique (e)", true, CODE_NONE, 0, 0, "deferrable or not is another matter");
    check("k text primary key", "k varchar(9) primary key", true, CODE_NONE, 0, 0, "text keys compare bytewise");
    kit_do("CREATE COLLATION %s.nd (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false)", kit_ns);
    char dst[200];
    snprintf(dst, sizeof dst, "k text collate %s.nd primary key", kit_ns);
    check("k text primary key", dst, true, CODE_TARGET_KEYS, M, G, "a nondeterministic collation would merge rows");
    check(dst, dst, true, CODE_NONE, 0, 0, "on both sides it is the same");
    check("k varchar(9) primary key", "k bpchar primary key", true, CODE_TARGET_KEYS, M, 0, "a type that ignores blanks would merge rows");
}

/* ---- alter ----------------------------------------------------------------------------------------------------------- */

static struct lane *lane;

/* Both sides start as `ddl` with `rows`; the source goes through `change`; the target follows. Result: the error's code. */
static enum err_code alter(const char *ddl, const char *rows, const char *change, struct err *e) {
    kit_do("DROP TABLE IF EXISTS %s.al; DROP TABLE IF EXISTS %s.al2; DROP TABLE IF EXISTS %s.al; DROP TABLE IF EXISTS %s.al2; CREATE TABLE %s.al(%s)", kit_src, kit_src, kit_ns, kit_ns, kit_src, ddl);
    struct shape *before = kit_shape(kit_src, "al"), *after;
    err_clear(e);
    ops->table_create(kit_t, before, kit_ns, "al", e);
    for (int i = 0; i < 3; i++) ops->table_finish(kit_t, before, kit_ns, "al", i, map_ns, NULL, e);
    if (e->class != ERR_NONE) note("setting up: %s", e->msg);
    if (*rows != 0) kit_do("INSERT INTO %s.al VALUES %s; INSERT INTO %s.al VALUES %s", kit_src, rows, kit_ns, rows);
    char *sql = mem_strdup(change, e), *p;
    while ((p = strstr(sql, "$T")) != NULL) { /* $T: the source's table */
        char *n = mem_printf(e, "%.*s%s.al%s", (int)(p - sql), sql, kit_src, p + 2);
        mem_free(sql);
        sql = n;
    }
    kit_do("%s", sql);
    mem_free(sql);
    const char *now = strcmp(kit_rows("SELECT count(*) FROM pg_class WHERE relname = 'al2' AND relnamespace = '%s'::regnamespace", kit_src), "1") == 0 ? "al2" : "al";
    after = kit_shape(kit_src, now);
    struct mark m = {.epoch = kit_st.epoch, .seq = ++kit_seq};
    err_clear(e);
    int rc = ops->table_alter(lane, before, after, kit_ns, "al", kit_ns, now, &m, e);
    if (rc < 0) kit_seq--;
    if (rc == 0) {
        char claim[200];
        snprintf(claim, sizeof claim, "  … the target is the source: %.150s", change);
        same_table(now, claim);
    }
    shape_free(before);
    shape_free(after);
    return rc == 0 ? CODE_NONE : e->code;
}
#define FOLLOWS(ddl, rows, change) ok(alter(ddl, rows, change, &e) == CODE_NONE, "followed: %s: %s", change, e.msg)
#define REFUSED(ddl, rows, change, m) ok(alter(ddl, rows, change, &e) == CODE_SHAPE_CHANGED && e.marker == (m), "refused: %s: %s", change, e.msg)

static void alters(void) {
    struct err e = {0};
    const enum marker R = MARKER_SCHEMA_CHANGE_REFUSED;
    ok(ops->lane_open(kit_t, &kit_st, 0, &lane, &e) == 0, "a lane: %s", e.msg);
    const char *t = "id int primary key, v text, w int", *two = "(1, 'a', 5), (2, 'b', 6)";
    FOLLOWS(t, two, "ALTER TABLE $T ADD c text NOT NULL DEFAULT 'UNKNOWN'");
    is_str(kit_rows("SELECT * FROM %s.al ORDER BY 1", kit_ns), "1|a|5|UNKNOWN 2|b|6|UNKNOWN", "old rows have the constant");
    is_str(kit_rows("SELECT seq FROM %s.sluice_cdc_lane", kit_ctl), tg_u64((char[24]){0}, kit_seq), "and the mark was committed with it");
    FOLLOWS(t, two, "ALTER TABLE $T ADD c timestamp DEFAULT '2020-01-01', ADD d numeric(5,2) DEFAULT 0, ADD e int[] DEFAULT '{}', ADD f bool DEFAULT false");
    FOLLOWS(t, two, "ALTER TABLE $T ADD g int GENERATED ALWAYS AS (w * 2) STORED");
    is_str(kit_rows("SELECT g FROM %s.al ORDER BY 1", kit_ns), "10 12", "a generated column is computed");
    FOLLOWS(t, two, "ALTER TABLE $T DROP v, ADD z int");
    FOLLOWS(t, two, "ALTER TABLE $T RENAME v TO \"V 2\"");
    is_str(kit_rows("SELECT \"V 2\" FROM %s.al ORDER BY 1", kit_ns), "a b", "a rename keeps its values");
    FOLLOWS(t, two, "ALTER TABLE $T RENAME id TO key; ALTER TABLE $T RENAME v TO id");
    is_str(kit_rows("SELECT key, id FROM %s.al ORDER BY 1", kit_ns), "1|a 2|b", "names may move on");
    FOLLOWS(t, two, "ALTER TABLE $T RENAME TO al2");
    FOLLOWS(t, two, "ALTER TABLE $T ALTER w TYPE bigint, ALTER w SET DEFAULT 7, ALTER v SET NOT NULL, ALTER v TYPE varchar");
    FOLLOWS(t, two, "ALTER TABLE $T ALTER w TYPE numeric");
    FOLLOWS("id int primary key, v varchar(3) NOT NULL DEFAULT 'x', w int", two, "ALTER TABLE $T ALTER v TYPE text, ALTER v DROP NOT NULL, ALTER v DROP DEFAULT");
    FOLLOWS(t, two, "CREATE INDEX al_v ON $T (v); CREATE UNIQUE INDEX al_w ON $T (w) WHERE w > 0; ALTER TABLE $T ADD CHECK (w > 0)");
    FOLLOWS("id int primary key, v text UNIQUE, w int CHECK (w > 0)", two, "ALTER TABLE $T DROP CONSTRAINT al_v_key, DROP CONSTRAINT al_w_check, ADD UNIQUE (w)");
    FOLLOWS(t, two, "ALTER TABLE $T DROP CONSTRAINT al_pkey, ADD PRIMARY KEY (w)");
    FOLLOWS(t, two, "ALTER TABLE $T REPLICA IDENTITY FULL");
    FOLLOWS(t, "", "ALTER TABLE $T ADD r float8 DEFAULT random(), ADD i int GENERATED ALWAYS AS IDENTITY");
    REFUSED(t, two, "ALTER TABLE $T ADD r float8 DEFAULT random()", R);
    is_str(kit_rows("SELECT * FROM %s.al ORDER BY 1", kit_ns), "1|a|5 2|b|6", "and nothing was changed");
    REFUSED(t, two, "ALTER TABLE $T ADD r timestamptz DEFAULT now()", R);
    REFUSED(t, two, "ALTER TABLE $T ADD r serial", R);
    REFUSED(t, two, "ALTER TABLE $T ADD r bigint GENERATED ALWAYS AS IDENTITY", R);
    REFUSED(t, two, "ALTER TABLE $T ALTER v TYPE varchar(1)", R);
    REFUSED(t, two, "ALTER TABLE $T ALTER w TYPE text USING w || 'x', ALTER v TYPE int USING 1", R);
    REFUSED(t, two, "ALTER TABLE $T ALTER v TYPE text COLLATE \"C\"", R);
    REFUSED("k text primary key", "('a')", "ALTER TABLE $T ALTER k TYPE text COLLATE \"C\"", R);
    ok(e.sub == MARKER_KEY_COLLATION_CHANGED, "a key's collation is named as such");
    REFUSED(t, two, "ALTER TABLE $T RENAME id TO x; ALTER TABLE $T RENAME w TO id; ALTER TABLE $T RENAME x TO w", MARKER_COLUMN_ORDER_CHANGED);
    REFUSED(t, two, "DROP TABLE $T; CREATE TABLE $T(id int primary key, v text, w int)", R);
    kit_do("ALTER TABLE %s.al ADD foo int", kit_ns);
    kit_do("DROP TABLE IF EXISTS %s.al, %s.al", kit_src, kit_ns);
    /* the target lost its footing: what the server says arrives as a refusal */
    kit_do("CREATE TABLE %s.al(id int primary key, v int)", kit_src);
    struct shape *s = kit_shape(kit_src, "al"), *d;
    kit_do("ALTER TABLE %s.al ADD c int", kit_src);
    d = kit_shape(kit_src, "al");
    struct mark m = {.epoch = kit_st.epoch, .seq = ++kit_seq};
    err_clear(&e);
    ok(ops->table_alter(lane, s, d, kit_ns, "al", kit_ns, "al", &m, &e) == -1 && e.marker == R, "a table that is not there: %s", e.msg);
    err_clear(&e);
    ok(ops->table_alter(lane, NULL, d, kit_ns, "new", kit_ns, "new", &m, &e) == 0, "a new table: %s", e.msg);
    is_str(kit_rows("SELECT count(*) FROM pg_constraint WHERE conrelid = '%s.new'::regclass AND contype = 'p'", kit_ns), "1", "with its key");
    m.seq = ++kit_seq;
    ok(ops->table_alter(lane, NULL, d, kit_ns, "new", kit_ns, "new", &m, &e) == -1 && e.marker == R, "is refused where one is: %s", e.msg);
    m.epoch = 0;
    ok(ops->table_alter(lane, NULL, d, kit_ns, "new2", kit_ns, "new2", &m, &e) == -1 && e.code == CODE_FENCED, "an older epoch changes nothing: %s", e.msg);
    shape_free(s);
    shape_free(d);
    ops->lane_close(lane);
}

static void constant_defaults(void) {
    static const char *const yes[] = {"3", "-1.5", "'-1'::integer", "'UNKNOWN'::text", "'x''y'::character varying(10)", "true", "NULL::character varying", "(0)::numeric",
                                      "'{}'::integer[]", "'a'::public.\"Mood x\"", "E'a\\'b'::text", "1e10", "'2020-01-01 00:00:00'::timestamp without time zone"};
    static const char *const no[] = {"now()", "random()", "nextval('a'::regclass)", "('now'::text)::timestamp without time zone", "CURRENT_TIMESTAMP", "true AND f()", "1 + 1",
                                     "'a'::text || f()", "ARRAY[1]", "'a", "", "falsehood", "'x'::text::regclass", "(1"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(yes); i++) ok(tg_constant_default(yes[i]), "constant: %s", yes[i]);
    for (size_t i = 0; i < MEM_ARRAY_LEN(no); i++) ok(!tg_constant_default(no[i]), "not constant: %s", no[i]);
}

int main(void) {
    if (kit_open("schema") < 0) return 0;
    constant_defaults();
    same_engine_schema();
    foreign_schema();
    checks();
    alters();
    return kit_close();
}
