/* PostgreSQL's types as logical types. A type is known by its oid (built-in ones never change theirs), never by looking at values. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/pg.h"
#include "engine/base/mem.h"

enum { T_NUMERIC = 1700, T_BPCHAR = 1042, T_VARCHAR = 1043, T_BIT = 1560, T_VARBIT = 1562, T_TIME = 1083, T_TIMETZ = 1266, T_TS = 1114,
       T_TSTZ = 1184, T_INTERVAL = 1186 };

static const struct { int64_t oid; enum ltype type; enum equality equality; } builtins[] = {
    {16, LT_BOOL, EQ_BYTES}, {17, LT_BYTES, EQ_BYTES}, {20, LT_INT64, EQ_BYTES}, {21, LT_INT16, EQ_BYTES}, {23, LT_INT32, EQ_BYTES},
    {25, LT_TEXT, EQ_BYTES}, {114, LT_JSON, EQ_NUMERIC}, {700, LT_FLOAT4, EQ_NUMERIC}, {701, LT_FLOAT8, EQ_NUMERIC},
    {T_BPCHAR, LT_TEXT, EQ_RTRIM}, {T_VARCHAR, LT_TEXT, EQ_BYTES}, {1082, LT_DATE, EQ_BYTES}, {T_TIME, LT_TIME, EQ_BYTES},
    {T_TS, LT_TIMESTAMP, EQ_BYTES}, {T_TSTZ, LT_TIMESTAMPTZ, EQ_BYTES}, {T_INTERVAL, LT_INTERVAL, EQ_NUMERIC},
    {T_TIMETZ, LT_TIMETZ, EQ_BYTES}, {T_BIT, LT_BIT, EQ_BYTES}, {T_VARBIT, LT_BIT, EQ_BYTES}, {T_NUMERIC, LT_NUMERIC, EQ_NUMERIC},
    {2950, LT_UUID, EQ_BYTES}, {3802, LT_JSONB, EQ_NUMERIC}, {869, LT_INET, EQ_BYTES}, {650, LT_INET, EQ_BYTES},
    /* known to PostgreSQL alone, but each value has one text: char, name, oid, xid, cid, tid, money, macaddr, macaddr8, pg_lsn, xid8 */
    {18, LT_NATIVE, EQ_BYTES}, {19, LT_NATIVE, EQ_BYTES}, {26, LT_NATIVE, EQ_BYTES}, {28, LT_NATIVE, EQ_BYTES}, {29, LT_NATIVE, EQ_BYTES},
    {27, LT_NATIVE, EQ_BYTES}, {790, LT_NATIVE, EQ_BYTES}, {829, LT_NATIVE, EQ_BYTES}, {774, LT_NATIVE, EQ_BYTES},
    {3220, LT_NATIVE, EQ_BYTES}, {5069, LT_NATIVE, EQ_BYTES},
};

enum ltype pg_ltype(const struct pg_type *t) {
    if (t->typtype == 'e') return LT_ENUM;
    if (t->builtin && t->typtype == 'b')
        for (size_t i = 0; i < MEM_ARRAY_LEN(builtins); i++)
            if (builtins[i].oid == t->oid) return builtins[i].type;
    return LT_NATIVE;
}

enum equality pg_equality(const struct pg_type *t, int32_t typmod) {
    if (t->typtype == 'e') return EQ_BYTES;
    if (t->oid == T_NUMERIC && typmod >= 4) return EQ_BYTES; /* a fixed scale: one text for each value */
    if (t->oid == T_BPCHAR && typmod >= 5) return EQ_BYTES;  /* always padded to its length */
    if (t->builtin && t->typtype == 'b')
        for (size_t i = 0; i < MEM_ARRAY_LEN(builtins); i++)
            if (builtins[i].oid == t->oid) return builtins[i].equality;
    if (strcmp(t->name, "citext") == 0) return EQ_NOCASE;
    return EQ_NUMERIC; /* ranges, composites, types of extensions: equal values may have different texts */
}

void pg_typmod(int64_t oid, int32_t typmod, int32_t *precision, int32_t *scale, int32_t *length) {
    *precision = *scale = *length = -1;
    if (typmod < 0) return;
    switch (oid) {
    case T_NUMERIC:
        *precision = (int32_t)(((uint32_t)(typmod - 4) >> 16) & 0xffff);
        *scale = ((int32_t)((uint32_t)(typmod - 4) & 0x7ff) ^ 1024) - 1024; /* eleven bits with a sign */
        break;
    case T_BPCHAR: case T_VARCHAR: *length = typmod - 4; break;
    case T_BIT: case T_VARBIT: *length = typmod; break;
    case T_TIME: case T_TIMETZ: case T_TS: case T_TSTZ: *precision = typmod; break;
    case T_INTERVAL: if ((typmod & 0xffff) != 0xffff) *precision = typmod & 0xffff; break;
    default: break;
    }
}

const char *pg_type_for(enum ltype t, int32_t precision, int32_t scale, int32_t length, char out[64]) {
    const char *plain = NULL;
    switch (t) {
    case LT_BOOL: plain = "boolean"; break;
    case LT_INT16: plain = "smallint"; break;
    case LT_INT32: case LT_UINT16: plain = "integer"; break;
    case LT_INT64: case LT_UINT32: plain = "bigint"; break;
    case LT_UINT64: plain = "numeric(20,0)"; break;
    case LT_NUMERIC:
        if (precision > 0 && precision <= 1000) snprintf(out, 64, "numeric(%d,%d)", (int)precision, scale > 0 ? (int)scale : 0);
        else snprintf(out, 64, "numeric");
        return out;
    case LT_FLOAT4: plain = "real"; break;
    case LT_FLOAT8: plain = "double precision"; break;
    case LT_TEXT: plain = "text"; break;
    case LT_BYTES: plain = "bytea"; break;
    case LT_DATE: plain = "date"; break;
    case LT_TIME: plain = "time"; break;
    case LT_TIMETZ: plain = "time with time zone"; break;
    case LT_TIMESTAMP: plain = "timestamp"; break;
    case LT_TIMESTAMPTZ: plain = "timestamp with time zone"; break;
    case LT_INTERVAL: plain = "interval"; break;
    case LT_UUID: plain = "uuid"; break;
    case LT_JSON: plain = "json"; break;
    case LT_JSONB: plain = "jsonb"; break;
    case LT_INET: plain = "inet"; break;
    case LT_BIT:
        if (length > 0) snprintf(out, 64, "bit varying(%d)", (int)length);
        else snprintf(out, 64, "bit varying");
        return out;
    case LT_ENUM: case LT_SET: plain = "text"; break;
    case LT_ARRAY: case LT_GEOMETRY: case LT_NATIVE: return NULL;
    }
    if (plain == NULL) return NULL;
    snprintf(out, 64, "%s", plain);
    return out;
}
