#include "engine/flow/options.h"
#include "tests/tap.h"

static struct err e;

static struct options fresh(void) {
    struct options o;
    err_clear(&e);
    if (options_init(&o, &e) < 0) note("init: %s", e.msg);
    return o;
}

static void values(void) {
    struct options o = fresh();
    ok(o.window_us == 300000000 && o.poll_us == 30000000 && !options_given(&o, "window"), "defaults are there and count as not given");
    ok(options_set(&o, "window", "90s", &e) == 0 && o.window_us == 90000000 && options_given(&o, "window"), "a duration");
    ok(options_set(&o, "keyless-max-bytes", "2MiB", &e) == 0 && o.keyless_max_bytes == 2097152, "a size");
    ok(options_set(&o, "chunk-size", "12", &e) == 0 && o.chunk_size == 12, "a number");
    ok(options_set(&o, "chain-slot", NULL, &e) == 0 && o.chain_slot, "a flag");
    ok(options_set(&o, "include-table", "a,b.c", &e) == 0 && options_set(&o, "include-table", "d*", &e) == 0 && o.include_table.n == 3, "lists add up");
    is_str(o.include_table.v[1], "b.c", "commas part a list");
    is_str(o.include_table.v[2], "d*", "the second flag's value is kept too");
    static const struct { const char *name, *value; } bad[] = {{"window", "soon"}, {"window", NULL},  {"chunk-size", "-1"}, {"chunk-size", "12x"}, {"chunk-size", NULL},
                                                               {"chain-slot", "yes"}, {"slot-name", ""}, {"include-table", ""}, {"keyless-max-bytes", "much"},
                                                               {"keyless-max-bytes", NULL}, {"max-changes", "99999999999999999999999"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&e);
        ok(options_set(&o, bad[i].name, bad[i].value, &e) == -1 && err_exit_code(&e) == 2 && strstr(e.msg, bad[i].name), "--%s refuses '%s': %s", bad[i].name,
           bad[i].value ? bad[i].value : "nothing", e.msg);
    }
    err_clear(&e);
    ok(options_set(&o, "no-such", "1", &e) == -1 && e.code == CODE_USAGE && strstr(e.msg, "no-such"), "an unknown option is named");
    options_free(&o);
}

static void config(void) {
    struct options o = fresh();
    ok(options_set(&o, "window", "1s", &e) == 0, "a flag is given");
    ok(options_from_json(&o, "{\"window\":\"9s\",\"chain-slot\":true,\"max-changes\":5,\"exclude-table\":[\"a\",\"b\"],\"slot-name\":\"s1\",\"poll-interval\":null}", &e) == 0,
       "a config is read: %s", e.msg);
    ok(o.window_us == 1000000, "the command line wins over the config");
    ok(o.chain_slot && o.max_changes == 5 && o.exclude_table.n == 2 && strcmp(o.slot_name, "s1") == 0, "each type is read");
    ok(o.poll_us == 30000000 && !options_given(&o, "poll-interval"), "null is as if it were not there");
    struct buf b = BUF_INIT(4096);
    ok(options_to_json(&o, &b, &e) == 0, "it is written");
    struct options again = fresh();
    ok(options_from_json(&again, buf_str(&b, &e), &e) == 0 && again.window_us == o.window_us && again.exclude_table.n == 2 && again.max_changes == 5 && again.set == o.set,
       "and read back: %s", buf_str(&b, &e));
    options_free(&again);
    buf_free(&b);
    static const char *const bad[] = {"[]", "nonsense", "{\"windo\":\"9s\"}", "{\"force-overwrite\":true}", "{\"window\":true}", "{\"max-changes\":1.5}", "{\"max-changes\":-1}",
                                      "{\"max-changes\":\"many\"}", "{\"include-table\":[1]}", "{\"slot-name\":[\"x\"]}", "{\"slot-name\":{}}", "{\"chain-slot\":\"maybe\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct options x = fresh();
        ok(options_from_json(&x, bad[i], &e) == -1 && e.code == CODE_CONFIG && err_exit_code(&e) == 2, "config %s is refused: %s", bad[i], e.msg);
        options_free(&x);
    }
    options_free(&o);
}

static void the_table(void) {
    bool sound = option_count <= 64, twice = false;
    for (size_t i = 0; i < option_count; i++) {
        sound = sound && option_find(option_all[i].name) == &option_all[i] && option_all[i].offset < sizeof(struct options);
        for (size_t k = 0; k < i; k++) twice = twice || (option_all[i].offset == option_all[k].offset && option_all[i].type != option_all[k].type);
    }
    ok(sound && !twice, "each option is found by its name, shares a place only with its like, and has a bit in the mask");
}

static void defaults(void) {
    struct options o = fresh();
    ok(options_set(&o, "window", "1s", &e) == 0 && options_defaults(&o, "{\"window\":\"9s\",\"poll-interval\":\"7s\",\"chunk-size\":\"12\"}", &e) == 0,
       "defaults of the installation are read: %s", e.msg);
    ok(o.window_us == 1000000 && o.poll_us == 7000000 && o.chunk_size == 12, "for what was not given");
    ok(!options_given(&o, "poll-interval"), "and do not count as given");
    static const char *const bad[] = {"{\"reset-target-data\":\"true\"}", "{\"yes\":\"true\"}", "{\"include-table\":\"t\"}", "{\"nonsense\":\"1\"}", "{\"poll-interval\":\"soon\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&e);
        ok(options_defaults(&o, bad[i], &e) == -1 && e.code == CODE_CONFIG, "%s is refused: %s", bad[i], e.msg);
    }
    options_free(&o);
}

int main(void) {
    values();
    config();
    defaults();
    the_table();
    return done_testing();
}
