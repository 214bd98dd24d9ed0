/* Which column of another engine is what here.
 *
 * DESIGN
 * 1. Every value comes back exactly: the declared type's affinity never converts what we store. Decimals, dates, times, uuids and JSON are
 *    text under names with TEXT affinity ("DECIMAL_TEXT(12,2)"), which a later reading of this file as a source maps back.
 * 2. bool is INTEGER 0 or 1 in a column declared BOOLEAN; integers are INTEGER; floats are REAL, so NaN and -0 have no place and are
 *    refused one by one.
 * 3. Of a SQLite source every value keeps its storage class; the same declared type has the same affinity, under which it is a fixed point.
 */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"

bool sqt_is_own(const struct shape *src) {
    return strcmp(src->engine, "sqlite") == 0;
}

enum sqt_conv sqt_conv(const struct shape *src, const struct column *c) {
    if (c->generated) return CONV_NONE;
    if (sqt_is_own(src)) return CONV_EXACT;
    switch (c->type) {
    case LT_BOOL: return CONV_BOOL;
    case LT_INT16:
    case LT_INT32:
    case LT_INT64:
    case LT_UINT16:
    case LT_UINT32: return CONV_INT;
    case LT_FLOAT4:
    case LT_FLOAT8: return CONV_REAL;
    case LT_BYTES: return CONV_BLOB;
    default: return CONV_TEXT;
    }
}

int sqt_declared(const struct column *c, char out[48]) {
    switch (c->type) {
    case LT_BOOL: snprintf(out, 48, "BOOLEAN"); return 0;
    case LT_INT16:
    case LT_INT32:
    case LT_INT64:
    case LT_UINT16:
    case LT_UINT32: snprintf(out, 48, "INTEGER"); return 0;
    case LT_UINT64:
    case LT_NUMERIC:
        if (c->precision > 0 && c->scale >= 0) snprintf(out, 48, "DECIMAL_TEXT(%d,%d)", c->precision, c->scale);
        else snprintf(out, 48, "DECIMAL_TEXT");
        return 0;
    case LT_FLOAT4:
    case LT_FLOAT8: snprintf(out, 48, "REAL"); return 0;
    case LT_TEXT: snprintf(out, 48, "TEXT"); return 0;
    case LT_BYTES: snprintf(out, 48, "BLOB"); return 0;
    case LT_DATE: snprintf(out, 48, "DATE_TEXT"); return 0;
    case LT_TIME: snprintf(out, 48, "TIME_TEXT"); return 0;
    case LT_TIMESTAMP: snprintf(out, 48, "TIMESTAMP_TEXT"); return 0;
    case LT_TIMESTAMPTZ: snprintf(out, 48, "TIMESTAMPTZ_TEXT"); return 0;
    case LT_UUID: snprintf(out, 48, "UUID_TEXT"); return 0;
    case LT_JSON: snprintf(out, 48, "JSON_TEXT"); return 0;
    case LT_JSONB: snprintf(out, 48, "JSONB_TEXT"); return 0;
    default: return -1;
    }
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool sqt_name_same(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

int sqt_col(const struct shape *s, const char *name) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (sqt_name_same(s->cols[i].name, name)) return i;
    return -1;
}

const char *sqt_collation(enum equality q) {
    return q == EQ_NOCASE ? "NOCASE" : q == EQ_RTRIM ? "RTRIM" : "BINARY";
}

enum equality sqt_key_equality(const struct shape *s, const struct key *k, uint16_t i) {
    const struct column *c = &s->cols[k->cols[i]];
    if (!sqt_is_own(s) && c->type != LT_TEXT) return c->type == LT_NUMERIC ? EQ_NUMERIC : EQ_BYTES; /* no collation has a say in them */
    return k->equality ? k->equality[i] : c->equality;
}

int sqt_check_ns(const char *ns, struct err *e) {
    if (!ns || strcmp(ns, "main") == 0) return 0;
    err_set(e, CODE_CONFIG, "a SQLite target has no namespace '%s', only 'main'", ns);
    return err_hint(e, "map it with --map-schema %s=main, or leave its tables out with --exclude-table '%s.*'", ns, ns);
}
