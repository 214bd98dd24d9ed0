/* The statements of runs: one set-based statement a run, its rows as arrays.
 *
 * DESIGN
 * 1. Values arrive as text (or integers, bytes) and are cast to the column's type without its modifier, so that the assignment to the column applies
 *    the modifier's own check: a too long text is an error there, where an explicit cast would cut it.
 * 2. Keys are compared with the key type's own operator, so the index is used.
 * 3. A table without an identity is matched by its whole row as text. Rows alike are numbered on both sides and paired by number: each change takes
 *    exactly one row, and the k-th of several equal changes takes the k-th of the equal rows.
 * 4. An identity column GENERATED ALWAYS cannot be updated. Statements leave it out and divide by zero where its value would have changed; the lane
 *    then opens the column for the transaction (`toggle`). */
#include <stdio.h>
#include <string.h>

#include <stdarg.h>
#include "drivers/postgres/target_priv.h"
#include "engine/base/mem.h"

static bool wanted(const struct target_table *tt, const uint8_t *mask, uint16_t c) {
    return tt->cols[c].stored && (mask == NULL || mask[c] != 0);
}

struct writer {
    struct buf *b;
    struct err *e;
    const struct target_table *tt;
    struct param *p;
    size_t n;
    int failed;
};
static void put(struct writer *w, const char *s) {
    if (!w->failed && buf_adds(w->b, s, w->e) < 0) w->failed = 1;
}
__attribute__((format(printf, 2, 3))) static void putf(struct writer *w, const char *fmt, ...) {
    if (w->failed) return;
    char tmp[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(tmp, sizeof tmp, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof tmp) w->failed = err_set(w->e, CODE_INTERNAL, "a statement's piece is too long");
    else if (buf_add(w->b, tmp, (size_t)n, w->e) < 0) w->failed = 1;
}
static size_t param(struct writer *w, uint16_t col, enum param_from from, enum wire wire) {
    w->p[w->n] = (struct param){col, from, wire};
    return w->n++;
}

/* unnest($1::text[], …) [WITH ORDINALITY] AS u(c0, …[, i]) over the params so far */
static void unnest(struct writer *w, bool ordinality) {
    put(w, "unnest(");
    for (size_t i = 0; i < w->n; i++) putf(w, "%s$%zu::%s[]", i > 0 ? ", " : "", i + 1, wire_name[w->p[i].wire]);
    put(w, ordinality ? ") WITH ORDINALITY AS u(" : ") AS u(");
    for (size_t i = 0; i < w->n; i++) putf(w, "%sc%zu", i > 0 ? ", " : "", i);
    put(w, ordinality ? ", i)" : ")");
}
static void cast(struct writer *w, size_t i, const char *from) {
    const struct target_column *tc = &w->tt->cols[w->p[i].col];
    if (tc->input != NULL && w->p[i].wire == WIRE_TEXT) /* strict functions: NULL stays NULL */
        putf(w, "CAST(%s(pg_catalog.textout(%s.c%zu)%s) AS %s)", tc->input, from, i, tc->input_args, tc->cast);
    else putf(w, "CAST(%s.c%zu AS %s)", from, i, tc->cast);
}

/* Some assignment that changes nothing, when an update has nothing to set but its matches must be counted. */
static const char *idle_column(const struct target_table *tt) {
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (tt->cols[c].stored && !tt->cols[c].always) return tt->cols[c].ident;
    return NULL;
}

static void insert_into(struct writer *w, const uint8_t *mask) {
    const struct target_table *tt = w->tt;
    bool first = true, always = false;
    putf(w, "INSERT INTO %s AS t (", tt->name);
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!wanted(tt, mask, c)) continue;
        putf(w, "%s%s", first ? "" : ", ", tt->cols[c].ident);
        always |= tt->cols[c].always;
        first = false;
        param(w, c, PARAM_AFTER, tt->cols[c].wire);
    }
    put(w, always ? ") OVERRIDING SYSTEM VALUE SELECT " : ") SELECT ");
    for (size_t i = 0; i < w->n; i++) {
        put(w, i > 0 ? ", " : "");
        cast(w, i, "u");
    }
    put(w, " FROM ");
    unnest(w, false);
}

static void upsert(struct writer *w, const uint8_t *mask) {
    const struct target_table *tt = w->tt;
    bool first = true;
    insert_into(w, mask);
    put(w, " ON CONFLICT (");
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!tt->cols[c].key) continue;
        putf(w, "%s%s", first ? "" : ", ", tt->cols[c].ident);
        first = false;
    }
    put(w, ") DO ");
    bool set = false;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        const struct target_column *tc = &tt->cols[c];
        if (!wanted(tt, mask, c) || (tc->always && !tt->toggle)) continue;
        if (tc->key && (tc->always || tc->to->equality == EQ_BYTES)) continue; /* equal is identical */
        putf(w, "%s%s = excluded.%s", set ? ", " : "UPDATE SET ", tc->ident, tc->ident);
        set = true;
    }
    if (!set) put(w, "NOTHING");
    for (uint16_t c = 0; set && c < tt->src->ncols; c++)
        if (tt->cols[c].always && !tt->cols[c].key && !tt->toggle && wanted(tt, mask, c)) {
            putf(w, " WHERE 1 / (CASE WHEN t.%s IS DISTINCT FROM excluded.%s THEN 0 ELSE 1 END) = 1", tt->cols[c].ident, tt->cols[c].ident);
            break;
        }
}

static void key_match(struct writer *w, size_t nkeys) {
    for (size_t i = 0; i < nkeys; i++) {
        const struct target_column *tc = &w->tt->cols[w->p[i].col];
        putf(w, "%st.%s %s ", i > 0 ? " AND " : "", tc->ident, tc->equals);
        cast(w, i, "u");
    }
}

static void counted_end(struct writer *w) { put(w, " RETURNING u.i) SELECT pg_catalog.count(*), pg_catalog.count(DISTINCT i) FROM w"); }

static void update(struct writer *w, const struct stmt_shape *s, const uint8_t *mask) {
    const struct target_table *tt = w->tt;
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (tt->cols[c].key) param(w, c, PARAM_KEY, tt->cols[c].wire);
    size_t nkeys = w->n;
    putf(w, "%sUPDATE %s%s AS t SET ", s->counted ? "WITH w AS (" : "", tt->only, tt->name);
    bool set = false;
    size_t guard = SIZE_MAX;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        const struct target_column *tc = &tt->cols[c];
        if (!wanted(tt, mask, c) || (tc->key && !s->rekey)) continue;
        if (tc->key && tc->always && !tt->toggle) continue; /* the lane asks for toggle when such a key changes */
        size_t i = param(w, c, PARAM_AFTER, tc->wire);
        if (tc->always && !tt->toggle) {
            if (guard == SIZE_MAX) guard = i;
            continue;
        }
        putf(w, "%s%s = ", set ? ", " : "", tc->ident);
        cast(w, i, "u");
        set = true;
    }
    if (!set) {
        const char *idle = idle_column(tt);
        if (idle == NULL) {
            buf_reset(w->b);
            w->n = 0;
            return;
        }
        putf(w, "%s = t.%s", idle, idle);
    }
    put(w, " FROM ");
    unnest(w, s->counted);
    put(w, " WHERE ");
    key_match(w, nkeys);
    if (guard != SIZE_MAX) {
        putf(w, " AND 1 / (CASE WHEN t.%s IS DISTINCT FROM ", tt->cols[w->p[guard].col].ident);
        cast(w, guard, "u");
        put(w, " THEN 0 ELSE 1 END) = 1");
    }
    if (s->counted) counted_end(w);
}

static void delete_by_key(struct writer *w, const struct stmt_shape *s) {
    const struct target_table *tt = w->tt;
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (tt->cols[c].key) param(w, c, PARAM_KEY, tt->cols[c].wire);
    putf(w, "%sDELETE FROM %s%s AS t USING ", s->counted ? "WITH w AS (" : "", tt->only, tt->name);
    unnest(w, s->counted);
    put(w, " WHERE ");
    key_match(w, w->n);
    if (s->counted) counted_end(w);
}

/* ARRAY[every stored column as text]: hashable, NULLs equal, compared bytewise. */
static void row_text(struct writer *w, size_t nimage) {
    put(w, "ARRAY[");
    if (nimage == 0) {
        bool first = true;
        for (uint16_t c = 0; c < w->tt->src->ncols; c++) {
            if (!w->tt->cols[c].stored) continue;
            putf(w, "%st.%s::text COLLATE pg_catalog.\"C\"", first ? "" : ", ", w->tt->cols[c].ident);
            first = false;
        }
    }
    for (size_t i = 0; i < nimage; i++) {
        put(w, i > 0 ? ", CAST(" : "CAST(");
        cast(w, i, "u");
        putf(w, " AS %s)::text COLLATE pg_catalog.\"C\"", w->tt->cols[w->p[i].col].native);
    }
    put(w, "]");
}

static void full(struct writer *w, const struct stmt_shape *s, const uint8_t *mask) {
    const struct target_table *tt = w->tt;
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (tt->cols[c].stored) param(w, c, PARAM_BEFORE, WIRE_TEXT);
    size_t nimage = w->n, nset = 0;
    bool update_kind = s->kind == STMT_UPDATE_FULL;
    for (uint16_t c = 0; update_kind && c < tt->src->ncols; c++)
        if (wanted(tt, mask, c) && (!tt->cols[c].always || tt->toggle)) {
            param(w, c, PARAM_AFTER, tt->cols[c].wire);
            nset++;
        }
    put(w, "WITH u AS MATERIALIZED (SELECT x.*, pg_catalog.row_number() OVER (PARTITION BY k ORDER BY i) AS n FROM (SELECT u.*, ");
    row_text(w, nimage);
    put(w, " AS k FROM ");
    unnest(w, true);
    put(w, ") x), m AS MATERIALIZED (SELECT o, c, k, pg_catalog.row_number() OVER (PARTITION BY k ORDER BY o, c) AS n FROM (SELECT t.tableoid AS o, "
           "t.ctid AS c, ");
    row_text(w, 0);
    putf(w, " AS k FROM %s%s AS t) y WHERE k IN (SELECT u.k FROM u)), j AS MATERIALIZED (SELECT u.*, m.o, m.c FROM u JOIN m ON m.k = u.k AND m.n = u.n) ",
         tt->only, tt->name);
    if (update_kind) {
        putf(w, "UPDATE %s%s AS t SET ", tt->only, tt->name);
        for (size_t i = nimage; i < w->n; i++) {
            putf(w, "%s%s = ", i > nimage ? ", " : "", tt->cols[w->p[i].col].ident);
            cast(w, i, "j");
        }
        const char *idle = idle_column(tt);
        if (nset == 0 && idle == NULL) {
            buf_reset(w->b);
            w->n = 0;
            return;
        }
        if (nset == 0) putf(w, "%s = t.%s", idle, idle);
        put(w, " FROM j");
    } else putf(w, "DELETE FROM %s%s AS t USING j", tt->only, tt->name);
    put(w, " WHERE t.ctid = j.c AND t.tableoid = j.o");
}

int tg_stmt_text(struct buf *b, const struct target_table *tt, const struct stmt_shape *s, const uint8_t *mask, struct param *p,
              size_t *nparams, struct err *e) {
    struct writer w = {.b = b, .e = e, .tt = tt, .p = p};
    buf_reset(b);
    switch (s->kind) {
    case STMT_UPSERT: upsert(&w, mask); break;
    case STMT_INSERT: insert_into(&w, mask); break;
    case STMT_UPDATE: update(&w, s, mask); break;
    case STMT_DELETE: delete_by_key(&w, s); break;
    case STMT_UPDATE_FULL: case STMT_DELETE_FULL: full(&w, s, mask); break;
    }
    *nparams = w.n;
    return w.failed ? -1 : 0;
}
