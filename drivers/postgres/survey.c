/* A survey: the shapes of all published tables, and an end of the log by which every change of a shape that it shows was committed.
 *
 * DESIGN
 * 1. The shapes are read first, then the place up to which the log was filled; the end is given only once the log is flushed past that
 *    place. So every DDL that the survey shows lies before the end, also one of a session that does not wait for its commit.
 * 2. Where the log does not get there in WAIT_US, there is an end and no survey: nothing is claimed. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"

#define WAIT_US (1 * INT64_C(1000000))

void survey_free(struct survey *v) {
    for (size_t i = 0; i < v->n; i++) shape_free(v->v[i]);
    mem_free(v->v);
    *v = (struct survey){0};
}

static int read_shapes(struct source *s, struct survey *v, struct err *e) {
    const char *p[1] = {s->o.slot_name};
    PGresult *r;
    int64_t *oids = NULL;
    int rc = -1;
    if (pg_query(s->c, embed_sql("postgres/survey_oids"), 1, p, "list the published tables", &r, e) < 0) return -1;
    size_t n = (size_t)PQntuples(r);
    if ((oids = mem_alloc((n + 1) * sizeof *oids, e)) == NULL || (v->v = mem_alloc((n + 1) * sizeof(struct shape *), e)) == NULL) goto out;
    for (size_t i = 0; i < n; i++) oids[i] = pg_i64(r, (int)i, 0);
    if (pg_table_shapes(s->c, oids, n, v->v, e) < 0) goto out;
    v->n = n;
    rc = 0;
out:
    PQclear(r);
    mem_free(oids);
    return rc;
}

int survey_take(struct source *s, char end[32], struct err *e) {
    struct pg_facts f;
    char inserted[32] = "";
    const char *p[1] = {NULL};
    PGresult *r;
    survey_free(&s->survey);
    if (s->o.slot_name == NULL) return pg_scalar(s->c, embed_sql("postgres/source_end"), 0, NULL, "read the log's end", end, 32, NULL, e);
    if (source_facts(s, &f, e) < 0) return -1;
    if (f.recovery || !f.publication_there)
        return pg_scalar(s->c, embed_sql("postgres/source_end"), 0, NULL, "read the log's end", end, 32, NULL, e);
    if (read_shapes(s, &s->survey, e) < 0) goto fail;
    for (int64_t until = clock_mono_us() + WAIT_US;;) {
        if (pg_query(s->c, embed_sql("postgres/survey_ends"), 1, p, "read the log's end", &r, e) < 0) goto fail;
        bool past = pg_bool(r, 0, 1);
        snprintf(end, 32, "%s", pg_text(r, 0, 2));
        if (p[0] == NULL) snprintf(inserted, sizeof inserted, "%s", pg_text(r, 0, 0));
        PQclear(r);
        if (past) {
            if (!pos_lsn_parse(end, &s->survey.lsn)) break;
            return 0;
        }
        if (p[0] != NULL && (clock_mono_us() >= until || stop_wait(10 * 1000))) break;
        p[0] = inserted;
    }
    survey_free(&s->survey);
    return 0;
fail:
    survey_free(&s->survey);
    return -1;
}
