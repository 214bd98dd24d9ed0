#include "engine/flow/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define O(field) offsetof(struct options, field)
const struct option option_all[] = {
    {"include-table", OPTION_LIST, O(include_table), true, "GLOB", "only these tables (table or schema.table, * and ? match)", 0},
    {"exclude-table", OPTION_LIST, O(exclude_table), true, "GLOB", "all tables but these", 0},
    {"chain-slot", OPTION_BOOL, O(chain_slot), true, NULL, "anchor the chain so that incrementals can follow", 0},
    {"slot-name", OPTION_STR, O(slot_name), true, "NAME", "name of the anchor on the source (default sluice_slot)", 0},
    {"publish-all", OPTION_BOOL, O(publish_all), true, NULL, "publish FOR ALL TABLES: later tables too, even those whose updates then fail for want of an identity", 0},
    {"allow-blocking", OPTION_BOOL, O(allow_blocking), true, NULL, "read a SQLite source that is not in WAL mode (its writers wait meanwhile)", 0},
    {"keyless-max-bytes", OPTION_BYTES, O(keyless_max_bytes), true, "BYTES", "largest table without a key that may be logged whole (64MiB)", 0},
    {"table-parallelism", OPTION_U64, O(table_parallelism), true, "N", "tables copied at once (4)", 64},
    {"chunk-size", OPTION_U64, O(chunk_size), true, "ROWS", "rows per chunk at most (0 = by bytes alone)", 0},
    {"compression", OPTION_STR, O(compression), true, "none|zstd", "of chunks (zstd)", 0},
    {"force-overwrite", OPTION_BOOL, O(force_overwrite), false, NULL, "replace the chain that is there", 0},
    {"since", OPTION_STR, O(since), false, "ID|TIME", "the parent must be this link; of history: nothing older than this time", 0},
    {"window", OPTION_DURATION, O(window_us), true, "DUR", "longest time that one incremental reads (5m)", 0},
    {"max-changes", OPTION_U64, O(max_changes), true, "N", "close at the next commit after so many row changes (0 = no limit)", 0},
    {"rollover-window", OPTION_DURATION, O(rollover_us), true, "DUR", "how often a continuous producer adds a link (5m)", 0},
    {"rollover-max-changes", OPTION_U64, O(max_changes), true, "N", "or after so many row changes", 0},
    {"rollover-max-bytes", OPTION_BYTES, O(rollover_max_bytes), true, "BYTES", "or after so many bytes of records (64MiB)", 0},
    {"include-empty", OPTION_BOOL, O(include_empty), true, NULL, "add links without changes too", 0},
    {"rollover-hook", OPTION_STR, O(rollover_hook), true, "CMD", "run after each link, with SLUICE_LINK_ID and others in its environment; 30 s at most", 0},
    {"retain-rotate-at-chain-length", OPTION_U64, O(rotate_length), true, "N", "begin a new full beside the links after so many of them (0 = never)", 0},
    {"retain-rotate-at", OPTION_DURATION, O(rotate_age_us), true, "DUR", "or when the last one is so old", 0},
    {"map-schema", OPTION_LIST, O(map_schema), true, "A=B", "tables of schema A go to schema B", 0},
    {"control-schema", OPTION_STR, O(control_schema), true, "NAME", "where sluice's own tables stand on the target", 0},
    {"to-id", OPTION_STR, O(to_id), false, "ID", "restore up to this link (default: the last)", 0},
    {"to-position", OPTION_STR, O(to_position), false, "POS", "restore up to this position of the source, a transaction that ends there included", 0},
    {"to-time", OPTION_STR, O(to_time), false, "TIME", "restore up to the first commit later than this (2026-01-31T12:00:00Z)", 0},
    {"at-chain-id", OPTION_STR, O(at_chain_id), true, "ID|restore", "the target already stands at this link", 0},
    {"poll-interval", OPTION_DURATION, O(poll_us), true, "DUR", "how often to look for new links (30s)", 0},
    {"until", OPTION_STR, O(until), false, "TIME|POS|idle", "end at this point of the source's log; of run: idle, go on until there is nothing left to do", 0},
    {"apply-delay", OPTION_DURATION, O(apply_delay_us), true, "DUR", "leave what committed less than this ago for later: time to notice a mistake", 0},
    {"apply-concurrency", OPTION_U64, O(apply_concurrency), true, "W", "lanes that apply at once (4; 1 = one after the other, at most 64)", 64},
    {"reset-target-data", OPTION_BOOL, O(reset), true, NULL, "drop the target's tables and rebuild them from the chain", 0},
    {"yes", OPTION_BOOL, O(yes), true, NULL, "do not ask", 0},
    {"policy", OPTION_STR, O(policy), true, "FILE", "a Lua policy of your own (see lua/policy.lua)", 0},
    {"lineage", OPTION_STR, O(lineage), true, NULL, NULL, 0},
    {"once", OPTION_BOOL, O(once), false, NULL, "one look at the chain, then end", 0},
    {"dry-run", OPTION_BOOL, O(dry_run), false, NULL, "say what would be done, change nothing", 0},
};
const size_t option_count = MEM_ARRAY_LEN(option_all);

int options_init(struct options *o, struct err *e) {
    memset(o, 0, sizeof *o);
    o->window_us = 300 * INT64_C(1000000);
    o->poll_us = 30 * INT64_C(1000000);
    o->rollover_us = 300 * INT64_C(1000000);
    o->rollover_max_bytes = MiB(64);
    return (o->arena = arena_new(KiB(4), e)) ? 0 : -1;
}

void options_free(struct options *o) {
    arena_free(o->arena);
    memset(o, 0, sizeof *o);
}

const struct option *option_find(const char *name) {
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_all[i].name, name) == 0) return &option_all[i];
    return NULL;
}

static bool is_set(const struct options *o, const struct option *op) {
    return o->set >> (op - option_all) & 1;
}

bool options_given(const struct options *o, const char *name) {
    const struct option *op = option_find(name);
    return op && is_set(o, op);
}

bool options_flagged(const struct options *o, const char *name) {
    const struct option *op = option_find(name);
    return op && (o->flags >> (op - option_all) & 1);
}

static int list_add(struct options *o, struct list *l, const char *s, size_t n, struct err *e) {
    const char **v = arena_alloc(o->arena, (l->n + 1) * sizeof *v, e);
    char *copy = arena_copy(o->arena, s, n, e);
    if (!v || !copy) return -1;
    if (l->n) memcpy(v, l->v, l->n * sizeof *v);
    v[l->n] = copy;
    l->v = v;
    l->n++;
    return 0;
}

static int set_value(struct options *o, const struct option *op, const char *value, struct err *e) {
    char *at = (char *)o + op->offset;
    switch (op->type) {
    case OPTION_BOOL:
        if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return err_set(e, CODE_USAGE, "--%s takes no value", op->name);
        *(bool *)at = !value || strcmp(value, "true") == 0;
        return 0;
    case OPTION_U64:
        if (!value || text_u64(value, (uint64_t *)at) < 0) return err_set(e, CODE_USAGE, "--%s takes a whole number, not '%s'", op->name, value ? value : "");
        if (op->max && *(uint64_t *)at > op->max) return err_set(e, CODE_USAGE, "--%s is at most %llu, not %s", op->name, (unsigned long long)op->max, value);
        return 0;
    case OPTION_BYTES:
        return value && text_bytes_parse(value, (uint64_t *)at, e) == 0 ? 0 : err_set(e, CODE_USAGE, "--%s takes a size such as 64MiB, not '%s'", op->name, value ? value : "");
    case OPTION_DURATION:
        if (!value || clock_duration_parse(value, (int64_t *)at, e) < 0)
            return err_set(e, CODE_USAGE, "--%s takes a duration such as 10s or 5m, not '%s'", op->name, value ? value : "");
        return 0;
    case OPTION_STR:
        if (!value || !*value) return err_set(e, CODE_USAGE, "--%s needs a value", op->name);
        return (*(const char **)at = arena_copy(o->arena, value, strlen(value), e)) ? 0 : -1;
    case OPTION_LIST:
        if (!value || !*value) return err_set(e, CODE_USAGE, "--%s needs a value", op->name);
        for (const char *s = value;;) {
            size_t n = strcspn(s, ",");
            if (n && list_add(o, (struct list *)(void *)at, s, n, e) < 0) return -1;
            if (!s[n]) return 0;
            s += n + 1;
        }
    }
    return err_set(e, CODE_INTERNAL, "option '%s' has no type", op->name);
}

int options_set(struct options *o, const char *name, const char *value, struct err *e) {
    const struct option *op = option_find(name);
    if (!op) return err_set(e, CODE_USAGE, "unknown option '--%s'", name);
    if (set_value(o, op, value, e) < 0) return -1;
    o->set |= UINT64_C(1) << (op - option_all);
    return 0;
}

static int from_member(struct options *o, const struct option *op, const json_t *v, struct err *e) {
    char number[32];
    if (json_is_array(v) && op->type == OPTION_LIST) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            const char *s = json_string_value(json_array_get(v, i));
            if (!s || set_value(o, op, s, e) < 0) return -1;
        }
        return 0;
    }
    if (json_is_boolean(v)) return set_value(o, op, json_is_true(v) ? "true" : "false", e);
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        return set_value(o, op, number, e);
    }
    if (json_is_string(v)) return set_value(o, op, json_string_value(v), e);
    return err_set(e, CODE_CONFIG, "wrong type");
}

int options_from_json(struct options *o, const char *json, struct err *e) {
    const char *key;
    json_t *v, *root = json_parse(json, strlen(json), "config", e);
    int rc = -1;
    if (!root || !json_is_object(root)) {
        err_set(e, CODE_CONFIG, "the entity's config is not a JSON object");
        err_hint(e, "see `sluice sql \"select name, config from entity\"`");
        goto out;
    }
    json_object_foreach(root, key, v) {
        const struct option *op = option_find(key);
        if (!op || !op->kept) {
            err_set(e, CODE_CONFIG, "the entity's config has an unknown key '%s'", key);
            err_hint(e, "keys are the flags' names without dashes: see `sluice help`");
            goto out;
        }
        if (is_set(o, op) || json_is_null(v)) continue;
        if (from_member(o, op, v, e) < 0) {
            struct err inner = *e;
            err_set(e, CODE_CONFIG, "the entity's config has a wrong value for '%s': %s", key, inner.msg);
            err_hint(e, "see `sluice sql \"select kind, name, config from entity\"` and the flag --%s in `sluice help`", key);
            goto out;
        }
        o->set |= UINT64_C(1) << (op - option_all);
    }
    rc = 0;
out:
    if (root) json_decref(root);
    return rc;
}

static bool may_have_default(const struct option *op) {
    static const char *const names[] = {"keyless-max-bytes", "table-parallelism", "chunk-size", "compression", "window", "rollover-window", "rollover-max-bytes",
                                        "poll-interval", "apply-delay", "apply-concurrency", "policy"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(names); i++)
        if (strcmp(names[i], op->name) == 0) return true;
    return false;
}

int options_defaults(struct options *o, const char *json, struct err *e) {
    const char *key;
    json_t *v, *root = json_parse(json, strlen(json), "setting", e);
    int rc = -1;
    if (!root) return -1;
    json_object_foreach(root, key, v) {
        const struct option *op = option_find(key);
        if (!op || !may_have_default(op)) {
            err_set(e, CODE_CONFIG, "'%s' in the table setting is nothing that can have a default", key);
            err_hint(e, "take it out: sluice sql \"delete from setting where name = '%s'\"", key);
            goto out;
        }
        if (is_set(o, op)) continue;
        if (from_member(o, op, v, e) < 0) {
            struct err inner = *e;
            err_set(e, CODE_CONFIG, "the table setting has a wrong value for '%s': %s", key, inner.msg);
            err_hint(e, "correct it: sluice sql \"update setting set value = … where name = '%s'\"", key);
            goto out;
        }
    }
    rc = 0;
out:
    json_decref(root);
    return rc;
}

int options_to_json(const struct options *o, struct buf *b, struct err *e) {
    struct jw j;
    jw_begin(&j, b, e);
    jw_obj(&j);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *op = &option_all[i];
        const char *at = (const char *)o + op->offset;
        if (!op->kept || !is_set(o, op)) continue;
        switch (op->type) {
        case OPTION_BOOL: jw_kv_bool(&j, op->name, *(const bool *)at); break;
        case OPTION_U64:
        case OPTION_BYTES: jw_kv_uint(&j, op->name, *(const uint64_t *)at); break;
        case OPTION_DURATION: {
            char text[32];
            snprintf(text, sizeof text, "%lldms", (long long)(*(const int64_t *)at / 1000));
            jw_kv_str(&j, op->name, text);
            break;
        }
        case OPTION_STR: jw_kv_str(&j, op->name, *(const char *const *)at); break;
        case OPTION_LIST: {
            const struct list *l = (const void *)at;
            jw_key(&j, op->name);
            jw_arr(&j);
            for (size_t k = 0; k < l->n; k++) jw_str(&j, l->v[k]);
            jw_arr_end(&j);
        }
        }
    }
    jw_obj_end(&j);
    return jw_end(&j);
}
