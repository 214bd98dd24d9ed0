/* DESIGN: migrations make the control DB, and nothing else does.
 *  1. All pending migrations, the machines' rows and their checks are one transaction: a crash leaves the old version whole.
 *  2. A migration holds every byte of the lock file, so no entity is owned by anybody while tables are rebuilt.
 *  3. A released migration never changes: migrations/checksums holds the digest of each, verified before the first runs.
 *  4. Tables are rebuilt (rename, create, copy, drop), not altered: ALTER loses the comments that make `.schema` the manual.
 *  5. States and edges come from sql/machine/: their guards are taken down for the load and put back word for word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/control/room.h"

int migration_list(struct migration *list, size_t cap, size_t *n, struct err *e) {
    *n = 0;
    for (size_t i = 0; i < embed_count; i++) {
        const char *name = embed_all[i].name;
        size_t len = strlen(name);
        if (strncmp(name, "migrations/", 11) != 0 || len < 4 || strcmp(name + len - 4, ".sql") != 0) continue;
        if (*n == cap) return err_set(e, CODE_INTERNAL, "more than %zu migrations", cap);
        list[*n] = (struct migration){(int)strtol(name + 11, NULL, 10), name, embed_all[i].text};
        if (list[*n].version != (int)*n + 1) return err_set(e, CODE_INTERNAL, "migration '%s' is out of order", name);
        ++*n;
    }
    return *n ? 0 : err_set(e, CODE_INTERNAL, "no migration was compiled in");
}

int migration_latest(void) {
    struct migration list[64];
    size_t n = 0;
    struct err e = {0};
    return migration_list(list, MEM_ARRAY_LEN(list), &n, &e) < 0 ? 0 : (int)n;
}

int migration_checksums(struct err *e) {
    struct migration list[64];
    size_t n = 0, lines = 0;
    const struct embed *sums = embed_find("migrations/checksums");
    if (!sums) return err_set(e, CODE_INTERNAL, "migrations/checksums was not compiled in");
    if (migration_list(list, MEM_ARRAY_LEN(list), &n, e) < 0) return -1;
    for (const char *p = sums->text; *p; p = strchr(p, '\n') + 1)
        lines++;
    for (size_t i = 0; i < n; i++) {
        char want[256], hex[65];
        if (sha256_hex(list[i].sql, strlen(list[i].sql), hex, e) < 0) return -1;
        snprintf(want, sizeof want, "%s  %s\n", hex, list[i].name + strlen("migrations/"));
        if (!strstr(sums->text, want))
            return err_set(e, CODE_INTERNAL, "'%s' is not the text that migrations/checksums tells of", list[i].name);
    }
    return lines == n ? 0 : err_set(e, CODE_INTERNAL, "migrations/checksums has %zu lines for %zu migrations", lines, n);
}

/* meta's one number, or 0 while there is no such row. */
static int meta_int(struct control *c, const char *sql, int *v, struct err *e) {
    int64_t x;
    if (db_int(c, sql, &x, e) < 0) return -1;
    *v = (int)x;
    return 0;
}

int control_version(struct control *c, int *version, int *min_reader, int *min_writer, struct err *e) {
    int64_t objects, meta;
    *version = *min_reader = *min_writer = 0;
    if (db_int(c, embed_sql("control/objects"), &objects, e) < 0) return -1;
    if (objects == 0) return 0;
    if (db_int(c, embed_sql("control/objects_ours"), &meta, e) < 0) return -1;
    if (meta == 3) {
        if (meta_int(c, embed_sql("control/meta_version"), version, e) < 0 ||
            meta_int(c, embed_sql("control/meta_min_reader"), min_reader, e) < 0 ||
            meta_int(c, embed_sql("control/meta_min_writer"), min_writer, e) < 0)
            return -1;
        if (*version > 0) return 0;
    }
    err_set(e, CODE_CONTROL, "'%s' is a SQLite database, but not a control DB", c->path);
    return err_hint(e, "name another file with --control; an empty or missing one is made into a control DB");
}

/* The guards of state and transition, as text, so that they can be put back. */
static int machine_load(struct control *c, struct err *e) {
    struct buf drop = BUF_INIT(MiB(1)), create = BUF_INIT(MiB(1));
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->db, embed_sql("control/machine_guards"), -1, &s, NULL), out = -1;
    if (rc != SQLITE_OK) {
        db_fail(c, rc, e, "cannot read the guards");
        goto out;
    }
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        if (buf_addf(&drop, e, "DROP TRIGGER %s;", stmt_str(s, 0)) < 0 || buf_addf(&create, e, "%s;\n", stmt_str(s, 1)) < 0) goto out;
    if (rc != SQLITE_DONE) {
        db_fail(c, rc, e, "cannot read the guards");
        goto out;
    }
    sqlite3_finalize(s);
    s = NULL;
    if (drop.n && db_exec(c, buf_str(&drop, e), e) < 0) goto out;
    if (db_exec(c, "DELETE FROM transition; DELETE FROM state;", e) < 0) goto out;
    for (size_t i = 0; i < embed_count; i++)
        if (strncmp(embed_all[i].name, "machine/", 8) == 0 && db_exec(c, embed_all[i].text, e) < 0) {
            err_wrap(e, "machine '%s'", embed_all[i].name + 8);
            goto out;
        }
    if (create.n && db_exec(c, buf_str(&create, e), e) < 0) goto out;
    int64_t lost;
    if (db_int(c, embed_sql("control/entities_stateless"), &lost, e) < 0) goto out;
    if (lost) {
        err_set(e, CODE_INTERNAL, "%lld entities stand in a state that their machine no longer has", (long long)lost);
        goto out;
    }
    out = 0;
out:
    sqlite3_finalize(s);
    buf_free(&drop);
    buf_free(&create);
    return out;
}

/* Run those after `from` up to `to`, inside the caller's transaction. */
static int run_list(struct control *c, const struct migration *list, size_t n, int from, int to, struct err *e) {
    for (size_t i = 0; i < n; i++) {
        if (list[i].version <= from || list[i].version > to) continue;
        if (db_exec(c, list[i].sql, e) < 0) return err_wrap(e, "migration '%s'", list[i].name);
        if (FAULT("control.migration", e) < 0) return -1;
    }
    if (machine_load(c, e) < 0) return -1;
    sqlite3_stmt *s = stmt_get(c, "control/check_foreign_keys", e); /* of ours: an operator's own tables are his */
    int bad = s ? stmt_step(c, s, e) : -1;
    if (bad > 0) err_set(e, CODE_CONTROL, "'%s' cannot be migrated: %s", c->path, stmt_str(s, 0));
    if (bad > 0) stmt_end(s);
    if (bad != 0) return -1;
    int version, r, w;
    if (control_version(c, &version, &r, &w, e) < 0) return -1;
    return version == to ? 0 : err_set(e, CODE_INTERNAL, "migrations say version %d, not %d", version, to);
}

int migrate_scratch(const struct migration *list, size_t n, int version, struct control **out, struct err *e) {
    struct control *c = mem_alloc(sizeof *c, e);
    *out = NULL;
    if (!c) return -1;
    c->lock_fd = -1;
    c->mem = true;
    c->wait_us = 0;
    int rc = -1;
    if (!(c->path = mem_strdup(":memory:", e))) goto out;
    int src = sqlite3_open_v2(":memory:", &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (src != SQLITE_OK) {
        db_fail(c, src, e, "cannot open a scratch DB");
        goto out;
    }
    if (db_exec(c, "PRAGMA legacy_alter_table = ON; BEGIN", e) < 0 || run_list(c, list, n, 0, version, e) < 0 ||
        db_exec(c, "COMMIT", e) < 0)
        goto out;
    rc = 0;
out:
    if (rc < 0) control_close(c);
    else *out = c;
    return rc;
}

/* Who holds a byte of the lock file, for the message. */
static int name_holders(struct control *c, struct err *e) {
    struct buf who = BUF_INIT(1024);
    struct err ignored = {0};
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(c->db, embed_sql("control/entities_owned"), -1, &s, NULL) == SQLITE_OK)
        while (sqlite3_step(s) == SQLITE_ROW) {
            bool got = false;
            int64_t id = sqlite3_column_int64(s, 0);
            if (lock_try(c, id, 1, &got, &ignored) < 0) break;
            if (got) lock_drop(c, id, 1);
            else if (buf_addf(&who, &ignored, "%s%s '%s' (pid %lld)", who.n ? ", " : "", stmt_str(s, 1), stmt_str(s, 2),
                              (long long)sqlite3_column_int64(s, 3)) < 0)
                break;
        }
    sqlite3_finalize(s);
    const char *text = who.n ? buf_str(&who, &ignored) : NULL;
    int held = text != NULL;
    if (held) {
        err_set(e, CODE_BUSY, "the control DB '%s' must be migrated, and it is in use by %s", c->path, text);
        err_hint(e, "stop them, then run this again");
    }
    buf_free(&who);
    return held;
}

/* Every byte of the lock file: at once against running entities (they may run for weeks), patiently against another migration. */
static int lock_all(struct control *c, struct err *e) {
    int64_t until = clock_mono_us() + c->wait_us;
    for (;;) {
        bool got = false;
        if (lock_try(c, 0, 0, &got, e) < 0) return -1;
        if (got) return 0;
        if (name_holders(c, e)) return -1;
        if (clock_mono_us() >= until) {
            err_set(e, CODE_BUSY, "the control DB '%s' must be migrated, and another process holds '%s'", c->path, c->lock_path);
            return err_hint(e, "see which process has that file open, then run this again");
        }
        nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    }
}

int migrate(struct control *c, const struct migration *list, size_t n, struct err *e) {
    int version, r, w, latest = list[n - 1].version, rc = -1;
    bool locked = false, begun = false;
    struct buf found = BUF_INIT(KiB(64));
    size_t nfound = 0;
    if (migration_checksums(e) < 0 || lock_all(c, e) < 0) goto out;
    locked = true;
    /* Off outside of the transaction: tables are rebuilt while others refer to them; run_list checks all references at the end. */
    if (db_exec(c, "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON", e) < 0) goto out;
    int src = sqlite3_exec(c->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (src != SQLITE_OK) {
        db_fail(c, src, e, "cannot begin the migration");
        goto out;
    }
    begun = true;
    if (control_version(c, &version, &r, &w, e) < 0) goto out; /* again: somebody may have been faster */
    if (version < latest) {
        if (version > 0) {
            if (tamper_check(c, list, n, version, false, &found, &nfound, e) < 0) goto out;
            if (nfound) {
                err_set(e, CODE_CONTROL_TAMPERED, "the control DB '%s' is not migrated: %.*s", c->path, (int)strcspn(found.p, "\n"),
                        found.p);
                err_hint(e, "see `sluice control check`");
                goto out;
            }
        }
        if (run_list(c, list, n, version, latest, e) < 0) goto out;
        if (version > 0 && seal_append(c, e) < 0) goto out;
        if (FAULT("control.migrate", e) < 0) goto out;
    }
    src = sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL);
    if (src != SQLITE_OK) {
        db_fail(c, src, e, "cannot commit the migration");
        goto out;
    }
    begun = false;
    if (version > 0 && version < latest)
        log_info("control DB migrated", KV_STR("path", c->path), KV_U64("from", version), KV_U64("to", latest));
    rc = 0;
out:
    if (begun) sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(c->db, "PRAGMA foreign_keys = ON; PRAGMA legacy_alter_table = OFF", NULL, NULL, NULL);
    if (locked) lock_drop(c, 0, 0);
    buf_free(&found);
    return rc;
}
