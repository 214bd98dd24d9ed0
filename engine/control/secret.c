/* DESIGN: passwords at rest.
 *  1. A password of an endpoint is sealed with AES-256-GCM under the key in `<control>.key`, bound to the endpoint's name and the
 *     parameter; the DSN keeps *** in its place. `${VAR}` and `file:PATH` are not secrets and stay.
 *  2. The key file (32 bytes, mode 0600) appears whole or not at all, never replaces another, and is not made while sealed secrets exist:
 *     they would be lost silently.
 *  3. A password that somebody wrote in clear is sealed by the next open; secure_delete overwrites it in the file, a checkpoint in the
 *     log.
 *  4. Nothing here is ever logged; memory that held a password is wiped. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/control/dsn.h"
#include "engine/control/room.h"

#define KEY_BYTES 32
#define NONCE_BYTES 12
#define TAG_BYTES 16

static int key_read(const char *path, unsigned char key[KEY_BYTES], bool *there, struct err *e) {
    struct stat st;
    unsigned char extra;
    *there = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    if (fd < 0 && errno == ENOENT) return 0;
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_set(e, CODE_SECRET, "cannot read the key file '%s': %s", path, strerror(errno));
        goto out;
    }
    if (st.st_mode & 077) {
        err_set(e, CODE_SECRET, "the key file '%s' can be read by others (mode %03o)", path, (unsigned)(st.st_mode & 0777));
        err_hint(e, "chmod 600 '%s'", path);
        goto out;
    }
    if (read(fd, key, KEY_BYTES) != KEY_BYTES || read(fd, &extra, 1) != 0) {
        err_set(e, CODE_SECRET, "the key file '%s' is damaged: it must hold %d bytes", path, KEY_BYTES);
        err_hint(e, "put a copy of it back");
        goto out;
    }
    *there = true;
    rc = 0;
out:
    if (fd >= 0) close(fd);
    return rc;
}

static int sync_folder(const char *path, struct err *e) {
    char dir[4096];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0) {
        err_set(e, CODE_IO, "cannot sync the folder of '%s': %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    close(fd);
    return 0;
}

/* Whole under another name, then linked: link never replaces. */
static int key_make(const char *path, unsigned char key[KEY_BYTES], struct err *e) {
    char hex[17];
    char *tmp = NULL;
    int fd = -1, rc = -1;
    if (random_bytes(key, KEY_BYTES, e) < 0 || random_hex16(hex, e) < 0 || !(tmp = mem_printf(e, "%s.%s", path, hex))) return -1;
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key, KEY_BYTES) != KEY_BYTES || fsync(fd) < 0) {
        err_set(e, CODE_IO, "cannot write the key file '%s': %s", tmp, strerror(errno));
        goto out;
    }
    if (FAULT("control.key", e) < 0) goto out;
    if (link(tmp, path) < 0 && errno != EEXIST) {
        err_set(e, CODE_IO, "cannot make the key file '%s': %s", path, strerror(errno));
        goto out;
    }
    rc = sync_folder(path, e);
out:
    if (fd >= 0) close(fd);
    unlink(tmp);
    mem_free(tmp);
    if (rc == 0) { /* ours, or that of somebody who was faster */
        bool there;
        rc = key_read(path, key, &there, e);
        if (rc == 0 && !there) rc = err_set(e, CODE_SECRET, "the key file '%s' vanished", path);
    }
    return rc;
}

static int key_get(struct control *c, bool make, unsigned char key[KEY_BYTES], struct err *e) {
    char *path = mem_printf(e, "%s.key", c->path);
    bool there = false;
    int64_t sealed = 0;
    int rc = -1;
    if (!path || key_read(path, key, &there, e) < 0) goto out;
    if (!there) {
        if (db_int(c, embed_sql("control/secrets"), &sealed, e) < 0) goto out;
        if (sealed || !make) {
            err_set(e, CODE_SECRET, "the key file '%s' is missing, and secrets are sealed with it", path);
            err_hint(e, "put a copy of it back, or delete the rows of the table secret and give the DSNs anew");
            goto out;
        }
        if (key_make(path, key, e) < 0) goto out;
    }
    rc = 0;
out:
    mem_free(path);
    return rc;
}

static int cipher(bool seal, const unsigned char key[KEY_BYTES], const unsigned char nonce[NONCE_BYTES], const char *endpoint,
                  const char *param, const unsigned char *in, size_t n, unsigned char *out, unsigned char tag[TAG_BYTES]) {
    EVP_CIPHER_CTX *x = EVP_CIPHER_CTX_new();
    int len = 0, ok = x && EVP_CipherInit_ex(x, EVP_aes_256_gcm(), NULL, key, nonce, seal) == 1 &&
                      EVP_CipherUpdate(x, NULL, &len, (const unsigned char *)endpoint, (int)strlen(endpoint) + 1) == 1 &&
                      EVP_CipherUpdate(x, NULL, &len, (const unsigned char *)param, (int)strlen(param) + 1) == 1 &&
                      EVP_CipherUpdate(x, out, &len, in, (int)n) == 1 && (size_t)len == n;
    if (ok && !seal) ok = EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1;
    if (ok) ok = EVP_CipherFinal_ex(x, out + n, &len) == 1;
    if (ok && seal) ok = EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1;
    EVP_CIPHER_CTX_free(x);
    return ok ? 0 : -1;
}

static int secret_put(struct control *c, const unsigned char key[KEY_BYTES], const char *endpoint, const char *param, const char *p,
                      size_t n, struct err *e) {
    unsigned char nonce[NONCE_BYTES];
    unsigned char *sealed = NULL;
    sqlite3_stmt *s;
    int rc = -1;
    if (random_bytes(nonce, sizeof nonce, e) < 0 || !(sealed = mem_alloc(n + TAG_BYTES, e))) goto out;
    if (cipher(true, key, nonce, endpoint, param, (const unsigned char *)p, n, sealed, sealed + n) < 0) {
        err_set(e, CODE_SECRET, "the password of endpoint '%s' cannot be sealed", endpoint);
        goto out;
    }
    if (!(s = stmt_get(c, "control/secret_put", e))) goto out;
    stmt_text(c, s, ":endpoint", endpoint);
    stmt_text(c, s, ":param", param);
    stmt_blob(c, s, ":nonce", nonce, sizeof nonce);
    stmt_blob(c, s, ":sealed", sealed, n + TAG_BYTES);
    rc = stmt_run(c, s, e);
out:
    mem_free(sealed);
    return rc;
}

/* Caller wipes and frees. */
static int secret_get(struct control *c, const unsigned char key[KEY_BYTES], const char *endpoint, const char *param, char **out,
                      struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/secret_get", e);
    int rc = -1;
    *out = NULL;
    if (!s) return -1;
    stmt_text(c, s, ":endpoint", endpoint);
    stmt_text(c, s, ":param", param);
    int more = stmt_step(c, s, e);
    if (more < 0) return -1;
    if (more == 0) {
        err_set(e, CODE_SECRET, "the %s of endpoint '%s' is *** and no secret is sealed for it", param, endpoint);
        return err_hint(e, "give the DSN anew, with its password, `${VAR}` or `file:PATH`");
    }
    const unsigned char *nonce = sqlite3_column_blob(s, 0), *sealed = sqlite3_column_blob(s, 1);
    int nn = sqlite3_column_bytes(s, 0), sn = sqlite3_column_bytes(s, 1);
    if (nn != NONCE_BYTES || sn < TAG_BYTES) {
        err_set(e, CODE_SECRET, "the sealed %s of endpoint '%s' is damaged", param, endpoint);
        goto out;
    }
    size_t n = (size_t)sn - TAG_BYTES;
    unsigned char tag[TAG_BYTES];
    memcpy(tag, sealed + n, TAG_BYTES);
    if (!(*out = mem_alloc(n + 1, e))) goto out;
    if (cipher(false, key, nonce, endpoint, param, sealed, n, (unsigned char *)*out, tag) < 0) {
        err_set(e, CODE_SECRET, "the %s of endpoint '%s' cannot be unsealed: '%s.key' is another key, or its row was altered", param,
                endpoint, c->path);
        err_hint(e, "put the right key file back, or give the DSN anew");
        explicit_bzero(*out, n);
        mem_free(*out);
        *out = NULL;
        goto out;
    }
    rc = 0;
out:
    stmt_end(s);
    return rc;
}

/* Secrets of an endpoint that its DSN no longer asks for. */
static int drop_unused(struct control *c, const char *endpoint, const char *dsn, struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    size_t n = 0;
    if (dsn_secrets(dsn, v, &n, e) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        if (dsn_is_sealed(dsn + v[i].at, v[i].len)) return 0;
    sqlite3_stmt *s = stmt_get(c, "control/secret_drop", e);
    if (!s) return -1;
    stmt_text(c, s, ":endpoint", endpoint);
    return stmt_run(c, s, e);
}

/* Seal what is clear in the DSN; *shown is the DSN as it is stored. Inside a write transaction. */
static int seal_dsn(struct control *c, const char *endpoint, const char *dsn, struct buf *shown, size_t *sealed, struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    size_t n = 0, at = 0;
    unsigned char key[KEY_BYTES];
    bool have_key = false;
    int rc = -1;
    *sealed = 0;
    if (dsn_secrets(dsn, v, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        const char *p = dsn + v[i].at;
        if (dsn_is_reference(p, v[i].len) || dsn_is_sealed(p, v[i].len)) continue;
        if (!have_key && key_get(c, true, key, e) < 0) goto out;
        have_key = true;
        if (secret_put(c, key, endpoint, v[i].param, p, v[i].len, e) < 0) goto out;
        if (buf_add(shown, dsn + at, v[i].at - at, e) < 0 || buf_adds(shown, DSN_SEALED, e) < 0) goto out;
        at = v[i].at + v[i].len;
        ++*sealed;
    }
    rc = buf_adds(shown, dsn + at, e);
out:
    explicit_bzero(key, sizeof key);
    return rc;
}

static const char *const role_names[] = {"source", "target", "store"};

/* Does it stand there already, word for word and with nothing to seal? Then nothing is written: every verb names its endpoints. */
static int stands(struct control *c, const char *name, enum endpoint_role role, const char *driver, const char *dsn, bool *same,
                  struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    size_t n = 0;
    *same = false;
    if (dsn_secrets(dsn, v, &n, e) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        if (!dsn_is_reference(dsn + v[i].at, v[i].len)) return 0;
    sqlite3_stmt *s = stmt_get(c, "control/endpoint_stands", e);
    if (!s) return -1;
    stmt_text(c, s, ":name", name);
    stmt_text(c, s, ":role", role_names[role]);
    stmt_text(c, s, ":driver", driver);
    stmt_text(c, s, ":dsn", dsn);
    int rc = stmt_step(c, s, e);
    *same = rc > 0;
    if (rc > 0) stmt_end(s);
    return rc < 0 ? -1 : 0;
}

int endpoint_put(struct control *c, const char *name, enum endpoint_role role, const char *driver, const char *dsn, struct err *e) {
    struct buf shown = BUF_INIT(KiB(128));
    struct txn t;
    size_t sealed;
    sqlite3_stmt *s;
    int rc = -1;
    bool same;
    if (stands(c, name, role, driver, dsn, &same, e) < 0) return err_wrap(e, "endpoint '%s'", name);
    if (same) return 0;
    if (txn_begin(&t, c, TXN_WRITE, e) < 0) return -1;
    /* The row first: a secret refers to it. */
    if (!(s = stmt_get(c, "control/endpoint_role", e))) goto out;
    stmt_text(c, s, ":name", name);
    int there = stmt_step(c, s, e);
    if (there < 0) goto out;
    if (there && strcmp(stmt_str(s, 0), role_names[role]) != 0) {
        err_set(e, CODE_CONFIG, "endpoint '%s' is a %s, not a %s", name, stmt_str(s, 0), role_names[role]);
        err_hint(e, "give another --name");
        stmt_end(s);
        goto out;
    }
    stmt_end(s);
    if (!(s = stmt_get(c, there ? "control/endpoint_update" : "control/endpoint_insert", e))) goto out;
    stmt_text(c, s, ":name", name);
    if (!there) stmt_text(c, s, ":role", role_names[role]);
    stmt_text(c, s, ":driver", driver);
    stmt_text(c, s, ":dsn", DSN_SEALED);
    if (stmt_run(c, s, e) < 0 || drop_unused(c, name, dsn, e) < 0 || seal_dsn(c, name, dsn, &shown, &sealed, e) < 0) goto out;
    if (!(s = stmt_get(c, "control/endpoint_dsn", e))) goto out;
    stmt_text(c, s, ":name", name);
    stmt_text(c, s, ":dsn", buf_str(&shown, e));
    if (stmt_run(c, s, e) < 0) goto out;
    rc = 0;
out:
    buf_free(&shown);
    rc = txn_end(&t, rc, e);
    return rc < 0 ? err_wrap(e, "endpoint '%s'", name) : 0;
}

int endpoint_dsn(struct control *c, const char *name, char **driver, char **dsn, struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    struct buf b = BUF_INIT(KiB(256));
    unsigned char key[KEY_BYTES];
    size_t n = 0, at = 0;
    bool have_key = false;
    char *stored = NULL, *text = NULL;
    int rc = -1;
    *driver = *dsn = NULL;
    sqlite3_stmt *s = stmt_get(c, "control/endpoint_get", e);
    if (!s) goto out;
    stmt_text(c, s, ":name", name);
    int there = stmt_step(c, s, e);
    if (there < 0) goto out;
    if (!there) {
        err_set(e, CODE_NOT_FOUND, "there is no endpoint '%s'", name);
        err_hint(e, "see `sluice sql 'SELECT name, role, driver FROM endpoint'`");
        goto out;
    }
    *driver = mem_strdup(stmt_str(s, 0), e);
    stored = mem_strdup(stmt_str(s, 1), e);
    stmt_end(s);
    if (!*driver || !stored || dsn_secrets(stored, v, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        if (!dsn_is_sealed(stored + v[i].at, v[i].len)) continue;
        if (!have_key && key_get(c, false, key, e) < 0) goto out;
        have_key = true;
        if (secret_get(c, key, name, v[i].param, &text, e) < 0) goto out;
        if (buf_add(&b, stored + at, v[i].at - at, e) < 0 || buf_adds(&b, text, e) < 0) goto out;
        at = v[i].at + v[i].len;
        explicit_bzero(text, strlen(text));
        mem_free(text);
        text = NULL;
    }
    if (buf_adds(&b, stored + at, e) < 0 || !buf_str(&b, e)) goto out;
    rc = secret_resolve(buf_str(&b, e), dsn, e);
    if (rc < 0) err_wrap(e, "endpoint '%s'", name);
out:
    explicit_bzero(key, sizeof key);
    if (text) explicit_bzero(text, strlen(text));
    mem_free(text);
    mem_free(stored);
    if (b.p) explicit_bzero(b.p, b.n);
    buf_free(&b);
    if (rc < 0) {
        mem_free(*driver);
        *driver = NULL;
    }
    return rc;
}

/* The next endpoint with a password in clear: its name and DSN, or none. */
static int next_clear(struct control *c, char name[128], char **dsn, struct err *e) {
    struct dsn_secret v[DSN_SECRETS];
    size_t n;
    sqlite3_stmt *s = stmt_get(c, "control/endpoints", e);
    int more;
    *dsn = NULL;
    if (!s) return -1;
    while ((more = stmt_step(c, s, e)) > 0) {
        struct err ignored = {0}; /* a DSN that cannot be read is refused where it is used */
        const char *text = stmt_str(s, 1);
        if (dsn_secrets(text, v, &n, &ignored) < 0) continue;
        for (size_t i = 0; i < n; i++)
            if (!dsn_is_reference(text + v[i].at, v[i].len) && !dsn_is_sealed(text + v[i].at, v[i].len)) {
                snprintf(name, 128, "%s", stmt_str(s, 0));
                *dsn = mem_strdup(text, e);
                more = *dsn ? 0 : -1;
                goto out;
            }
    }
out:
    stmt_end(s);
    return more;
}

int secrets_seal_clear(struct control *c, struct err *e) {
    char name[128];
    char *dsn = NULL;
    bool any = false;
    for (;;) {
        struct buf shown = BUF_INIT(KiB(128));
        struct txn t;
        size_t sealed = 0;
        sqlite3_stmt *s;
        if (next_clear(c, name, &dsn, e) < 0) return -1;
        if (!dsn) break;
        int rc = txn_begin(&t, c, TXN_WRITE, e);
        if (rc == 0) {
            rc = seal_dsn(c, name, dsn, &shown, &sealed, e);
            if (rc == 0 && !(s = stmt_get(c, "control/endpoint_dsn_if", e))) rc = -1;
            if (rc == 0) {
                stmt_text(c, s, ":name", name);
                stmt_text(c, s, ":was", dsn);
                stmt_text(c, s, ":dsn", buf_str(&shown, e));
                rc = stmt_run(c, s, e);
            }
            rc = txn_end(&t, rc, e);
        }
        explicit_bzero(dsn, strlen(dsn));
        mem_free(dsn);
        buf_free(&shown);
        if (rc < 0) return err_wrap(e, "the password of endpoint '%s' stands in clear and cannot be sealed", name);
        log_info("password sealed", KV_STR("endpoint", name));
        any = true;
    }
    /* Out of the log as well; when a reader is in the way, a later checkpoint does it. */
    if (any) sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return 0;
}
