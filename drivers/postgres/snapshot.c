/* Snapshots of a PostgreSQL source and the readers that copy tables from them.
 *
 * DESIGN
 * 1. The first snapshot is the one that the slot exports: a transaction is in it exactly if its commit lies at or below the slot's
 *    consistent point. A later one comes from a temporary slot and has the same property.
 * 2. The connection that exported it stays open and idle: any command on it would end the snapshot.
 * 3. A table that was rewritten or emptied after the snapshot looks empty in it. The reader locks the table, then compares its file in the
 *    snapshot with the one it has now: such a copy is refused, not taken for an empty table.
 * 4. Rows go from COPY to the caller as they come: whole lines, coalesced to BLOCK_BYTES. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/base/text.h"

#define BLOCK_BYTES KiB(128)

struct snapshot {
    PGconn *holder;
    char *dsn;
    char name[128];
};

struct reader {
    PGconn *c;
    struct buf block;
    bool copying;
    uint64_t rows;
    char table[160];
};

static struct snapshot *snapshot_new(struct source *s, struct err *e) {
    struct snapshot *n = mem_alloc(sizeof *n, e);
    if (n != NULL && (n->dsn = mem_strdup(s->o.dsn, e)) == NULL) {
        mem_free(n);
        n = NULL;
    }
    return n;
}

void source_snapshot_close(struct snapshot *n) {
    if (n == NULL) return;
    pg_close(&n->holder);
    mem_free(n->dsn);
    mem_free(n);
}

int source_anchor(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e) {
    *snap = NULL;
    if (source_anchor_absent(s, e) < 0) return -1;
    struct snapshot *n = snapshot_new(s, e);
    if (n == NULL) return -1;
    if (pg_connect(s->o.dsn, PG_REPLICATION, &n->holder, e) < 0 || publication_create(s, c, e) < 0 ||
        FAULT("postgres.anchor_publication", e) < 0 || slot_create(n->holder, s->o.slot_name, false, p, n->name, e) < 0 ||
        FAULT("postgres.anchor_slot", e) < 0) {
        source_snapshot_close(n);
        return -1;
    }
    *snap = n;
    return 0;
}

int source_snapshot(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e) {
    struct pg_facts f;
    (void)c;
    *snap = NULL;
    if (source_facts(s, &f, e) < 0) return -1;
    struct snapshot *n = snapshot_new(s, e);
    if (n == NULL) return -1;
    bool chain = s->o.slot_name != NULL && f.slot_there;
    bool exact = strcmp(f.wal_level, "logical") == 0 && !f.recovery && (f.replication || f.superuser) &&
                 (chain || (f.slots_free > 0 && f.senders_free > 0));
    if (chain && !exact) {
        err_set(e, CODE_PRIVILEGE, "role '%s' may not make the temporary slot from which a later snapshot gets its exact position", f.role);
        err_hint(e, "ALTER ROLE \"%s\" REPLICATION", f.role);
        goto fail;
    }
    if (exact) {
        char name[64], id[17];
        if (random_hex16(id, e) < 0) goto fail;
        snprintf(name, sizeof name, "sluice_tmp_%s", id);
        if (pg_connect(s->o.dsn, PG_REPLICATION, &n->holder, e) < 0 || slot_create(n->holder, name, true, p, n->name, e) < 0) goto fail;
    } else {
        char lsn[32];
        if (pg_connect(s->o.dsn, PG_SQL, &n->holder, e) < 0 ||
            pg_do(n->holder, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "begin a snapshot", e) < 0 ||
            pg_scalar(n->holder, "SELECT pg_catalog.pg_export_snapshot()", 0, NULL, "export a snapshot", n->name, sizeof n->name, NULL, e) <
                0 ||
            pg_scalar(n->holder, embed_sql("postgres/source_end"), 0, NULL, "read the log's end", lsn, sizeof lsn, NULL, e) < 0 ||
            pos_set(p, "postgres", lsn, e) < 0)
            goto fail;
    }
    *snap = n;
    return 0;
fail:
    source_snapshot_close(n);
    return -1;
}

/* ---- readers --------------------------------------------------------------------------------------------------------- */

void source_reader_close(struct reader *r) {
    if (r == NULL) return;
    pg_close(&r->c);
    buf_free(&r->block);
    mem_free(r);
}

int source_reader_open(struct snapshot *snap, struct reader **out, struct err *e) {
    *out = NULL;
    struct reader *r = mem_alloc(sizeof *r, e);
    if (r == NULL) return -1;
    r->block = BUF_INIT(SIZE_MAX / 4);
    if (pg_connect(snap->dsn, PG_SQL, &r->c, e) < 0 ||
        pg_do(r->c, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "begin to read", e) < 0)
        goto fail;
    struct buf b = BUF_INIT(KiB(1));
    int rc = -1;
    if (buf_adds(&b, "SET TRANSACTION SNAPSHOT ", e) == 0 && text_literal(&b, snap->name, strlen(snap->name), e) == 0) {
        const char *sql = buf_str(&b, e);
        if (sql != NULL) rc = pg_do(r->c, sql, "join the snapshot", e);
    }
    buf_free(&b);
    if (rc < 0) {
        if (e->code == CODE_VALUE_UNREPRESENTABLE || e->code == CODE_SERVER)
            e->class = ERR_RETRY, e->code = CODE_SERVER; /* it is gone: take another */
        goto fail;
    }
    *out = r;
    return 0;
fail:
    source_reader_close(r);
    return -1;
}

/* Lock the table, then be sure that the snapshot sees its rows and that they have the shape that was announced. */
static int table_check(struct reader *r, const struct shape *t, struct err *e) {
    struct buf b = BUF_INIT(KiB(4));
    struct shape *now = NULL;
    char oid[32], moved[8];
    bool found;
    int rc = -1;
    snprintf(oid, sizeof oid, "%lld", (long long)t->oid);
    const char *p[1] = {oid};
    if (buf_adds(&b, "LOCK TABLE ONLY ", e) < 0 || pg_qualified(&b, t->ns, t->name, e) < 0 || buf_adds(&b, " IN ACCESS SHARE MODE", e) < 0)
        goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL || pg_do(r->c, sql, "lock the table", e) < 0) goto out;
    if (pg_scalar(r->c, embed_sql("postgres/relation_filenode"), 1, p, "look at the table's file", moved, sizeof moved, &found, e) < 0)
        goto out;
    if (!found || moved[0] == 't') {
        err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "%s after the snapshot was taken, so the snapshot cannot show its rows",
                      found ? "it was rewritten or emptied" : "it was made");
        err_hint(e, "run the same command again: it takes a later snapshot for this table");
        goto out;
    }
    if (pg_table_shape_oid(r->c, t->oid, &now, e) < 0) goto out;
    bool same = now != NULL && now->ncols == t->ncols;
    for (uint16_t i = 0; same && i < t->ncols; i++) {
        const struct column *a = &t->cols[i], *n = &now->cols[i];
        same = a->id == n->id && strcmp(a->name, n->name) == 0 && strcmp(a->native, n->native) == 0 &&
               (a->generated != NULL) == (n->generated != NULL);
    }
    if (!same) {
        err_set(e, CODE_SHAPE_CHANGED, "its columns changed between the catalogue and the snapshot");
        err_hint(e, "take the full anew");
        goto out;
    }
    rc = 0;
out:
    shape_free(now);
    buf_free(&b);
    return rc;
}

static int copy_text(struct buf *b, const struct shape *t, struct err *e) {
    size_t n = 0;
    for (uint16_t i = 0; i < t->ncols; i++) n += t->cols[i].generated == NULL;
    if (buf_adds(b, "COPY ", e) < 0) return -1;
    if (n == 0) { /* rows without columns are rows too */
        if (buf_adds(b, "(SELECT FROM ONLY ", e) < 0 || pg_qualified(b, t->ns, t->name, e) < 0) return -1;
        return buf_adds(b, ") TO STDOUT", e);
    }
    if (pg_qualified(b, t->ns, t->name, e) < 0) return -1; /* COPY of a table leaves its children out, as ONLY does */
    n = 0;
    for (uint16_t i = 0; i < t->ncols; i++)
        if (t->cols[i].generated == NULL && (buf_adds(b, n++ == 0 ? " (" : ", ", e) < 0 || text_ident(b, t->cols[i].name, e) < 0))
            return -1;
    return buf_adds(b, ") TO STDOUT", e);
}

int source_reader_table(struct reader *r, const struct shape *t, enum rows_encoding *enc, struct err *e) {
    struct buf b = BUF_INIT(MiB(1));
    int rc = -1;
    *enc = ROWS_COPY_TEXT;
    shape_label(t, r->table);
    r->rows = 0;
    r->copying = false;
    if (t->options != NULL && strstr(t->options, "PARTITION BY ") != NULL) return 0; /* its leaves hold the rows */
    if (table_check(r, t, e) < 0 || copy_text(&b, t, e) < 0) goto out;
    const char *sql = buf_str(&b, e);
    if (sql == NULL) goto out;
    PGresult *q = PQexec(r->c, sql);
    if (PQresultStatus(q) != PGRES_COPY_OUT) pg_err(e, r->c, q, "cannot copy");
    else r->copying = true, rc = 0;
    PQclear(q);
out:
    buf_free(&b);
    return rc < 0 ? err_wrap(e, "table '%s'", r->table) : 0;
}

/* The next line of the COPY: its length, -1 at its end, -2 on error. Waits, but not longer than until a stop is asked. */
static int next_line(struct reader *r, char **line, struct err *e) {
    for (;;) {
        int n = PQgetCopyData(r->c, line, 1);
        if (n != 0) {
            if (n == -2) pg_err(e, r->c, NULL, "cannot copy");
            return n;
        }
        struct pollfd fd[2] = {{PQsocket(r->c), POLLIN, 0}, {stop_fd(), POLLIN, 0}};
        poll(fd, fd[1].fd >= 0 ? 2 : 1, 1000);
        if (stop_asked() && fd[0].revents == 0) {
            err_set(e, CODE_INTERRUPTED, "stopped while copying");
            return -2;
        }
        if (fd[0].revents != 0 && PQconsumeInput(r->c) == 0) {
            pg_err(e, r->c, NULL, "cannot copy");
            return -2;
        }
    }
}

static int copy_end(struct reader *r, struct err *e) {
    PGresult *q;
    int rc = 0;
    char *end;
    r->copying = false;
    while ((q = PQgetResult(r->c)) != NULL) {
        if (PQresultStatus(q) != PGRES_COMMAND_OK && rc == 0) rc = pg_err(e, r->c, q, "cannot copy");
        else if (rc == 0 && strtoull(PQcmdTuples(q), &end, 10) != r->rows)
            rc = err_set_class(e, ERR_RETRY, CODE_SERVER, "the server says that it sent %s rows, and %llu came", PQcmdTuples(q),
                               (unsigned long long)r->rows);
        PQclear(q);
    }
    return rc;
}

/* hop 1/8: the server's COPY lines become a block of whole rows, as they came */
int source_reader_next(struct reader *r, const char **p, size_t *n, uint64_t *rows, struct err *e) {
    *p = NULL;
    *n = 0;
    *rows = 0;
    buf_reset(&r->block);
    while (r->copying && r->block.n < BLOCK_BYTES) {
        char *line = NULL;
        int len = next_line(r, &line, e);
        if (len == -2) return err_wrap(e, "table '%s'", r->table);
        if (len == -1) {
            if (copy_end(r, e) < 0) return err_wrap(e, "table '%s'", r->table);
            break;
        }
        int rc = buf_add(&r->block, line, (size_t)len, e);
        PQfreemem(line);
        if (rc < 0) return err_wrap(e, "table '%s'", r->table);
        r->rows++;
        ++*rows;
    }
    *p = r->block.p;
    *n = r->block.n;
    return 0;
}

int source_reader_estimate(struct reader *r, const struct shape *t, int64_t *rows, int64_t *bytes, struct err *e) {
    PGresult *q;
    char oid[32];
    const char *p[1] = {oid};
    *rows = *bytes = -1;
    snprintf(oid, sizeof oid, "%lld", (long long)t->oid);
    if (pg_query(r->c, embed_sql("postgres/relation_estimate"), 1, p, "estimate the table", &q, e) < 0) return -1;
    if (PQntuples(q) == 1) {
        *rows = pg_i64(q, 0, 0);
        *bytes = pg_i64(q, 0, 1);
    }
    PQclear(q);
    return 0;
}
