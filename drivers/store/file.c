/* A folder as an object store.
 *
 * DESIGN
 *   1. An object is never seen half written: bytes go to tmp/<random>, are synced, and appear under their name by link(2) (if absent)
 *      or rename(2); then the name's folder is synced, and every folder that had to be made, in its parent. Only then does a put
 *      return.
 *   2. If-absent is link(2)'s EEXIST. If-match compares the SHA-256 of the present bytes under an exclusive flock of <root>/.lock;
 *      every replacing put takes that lock, so nothing moves between look and rename. The lock is the kernel's: a dead holder holds
 *      nothing.
 *   3. A path is checked before any use: relative, of [A-Za-z0-9._/-], without empty, `.` or `..` parts.
 *   4. Reading writes nothing and takes no lock: a read-only folder serves readers.
 *   5. What a killed put leaves lies in tmp/ and nowhere else. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/store.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

struct file_store {
    struct store base;
    char root[PATH_MAX]; /* absolute, without a trailing slash but for "/" */
};
struct store_object {
    int fd;
    uint64_t size;
    char path[PATH_MAX];
};

static int io_error(struct err *e, int errnum, const char *doing, const char *path) {
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        err_set(e, CODE_DISK_FULL, "cannot %s '%s': %s", doing, path, strerror(errnum));
        return err_hint(e, "free space there, then run the same command again");
    case EACCES:
    case EPERM:
    case EROFS:
        err_set(e, CODE_PRIVILEGE, "cannot %s '%s': %s", doing, path, strerror(errnum));
        return err_hint(e, "give this user access to the folder");
    case ENOMEM: return err_set(e, CODE_NO_MEMORY, "cannot %s '%s': %s", doing, path, strerror(errnum));
    case ENAMETOOLONG:
    case ENOTDIR:
    case ELOOP: return err_set(e, CODE_CONFIG, "cannot %s '%s': %s", doing, path, strerror(errnum));
    default: return err_set(e, CODE_IO, "cannot %s '%s': %s", doing, path, strerror(errnum));
    }
}

static bool path_fits(const char *path) {
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
        for (size_t i = 0; i < n; i++)
            if (!isalnum((unsigned char)p[i]) && p[i] != '.' && p[i] != '_' && p[i] != '-') return false;
        if (p[n] == '\0') return true;
        p += n + 1;
    }
}

static int full_path(const struct file_store *s, const char *path, char out[PATH_MAX], struct err *e) {
    if (!path_fits(path)) return err_set(e, CODE_INTERNAL, "'%.200s' is no object name", path);
    if (snprintf(out, PATH_MAX, "%s/%s", s->root[1] ? s->root : "", path) >= PATH_MAX) return io_error(e, ENAMETOOLONG, "use", path);
    return 0;
}

/* ---- open ---- */

static int url_path(const char *url, char *out, size_t cap, struct err *e) {
    const char *p = url + strlen("file://");
    size_t n = 0;
    if (strncmp(p, "localhost/", 10) == 0) p += 9;
    if (*p != '/') {
        err_set(e, CODE_USAGE, "'%.200s' does not name an absolute folder", url);
        return err_hint(e, "write file:///absolute/folder");
    }
    for (; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '?' || c == '#') return err_set(e, CODE_USAGE, "'%.200s' has a query or fragment, which a folder has not", url);
        if (c == '%' && (text_unhex(p + 1, strnlen(p + 1, 2) == 2 ? 2 : 1, &c) < 0 || c == '\0'))
            return err_set(e, CODE_USAGE, "'%.200s' has a malformed %% escape", url);
        if (*p == '%') p += 2;
        if (n + 1 >= cap) return err_set(e, CODE_USAGE, "the folder's name is too long");
        out[n++] = (char)c;
    }
    while (n > 1 && out[n - 1] == '/')
        n--;
    out[n] = '\0';
    return 0;
}

static int file_open(const char *url, struct store **out, struct err *e) {
    struct stat sb;
    struct file_store *s = mem_alloc(sizeof *s, e);
    *out = NULL;
    if (s == NULL) return -1;
    s->base.ops = &store_file_ops;
    if (url_path(url, s->root, sizeof s->root, e) < 0) goto fail;
    snprintf(s->base.url, sizeof s->base.url, "file://%.1000s", s->root);
    if (stat(s->root, &sb) == 0 && !S_ISDIR(sb.st_mode)) {
        err_set(e, CODE_USAGE, "'%s' is no folder", s->root);
        goto fail;
    }
    *out = &s->base;
    return 0;
fail:
    mem_free(s);
    return -1;
}

static void file_close(struct store *s) {
    mem_free(s);
}

/* ---- read ---- */

static int read_open(struct store *st, const char *path, struct store_object **o, uint64_t *size, bool *found, struct err *e) {
    const struct file_store *s = (const struct file_store *)st;
    struct stat sb;
    *o = NULL;
    *found = false;
    struct store_object *x = mem_alloc(sizeof *x, e);
    if (x == NULL) return -1;
    x->fd = -1;
    if (full_path(s, path, x->path, e) < 0) goto fail;
    x->fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (x->fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        mem_free(x);
        return 0;
    }
    if (x->fd < 0) {
        io_error(e, errno, "open", x->path);
        goto fail;
    }
    if (fstat(x->fd, &sb) < 0) {
        io_error(e, errno, "look at", x->path);
        goto fail;
    }
    if (!S_ISREG(sb.st_mode)) {
        err_set(e, CODE_IO, "'%s' is no plain file", x->path);
        goto fail;
    }
    x->size = *size = (uint64_t)sb.st_size;
    *found = true;
    *o = x;
    return 0;
fail:
    if (x->fd >= 0) close(x->fd);
    mem_free(x);
    return -1;
}

static int read_at(struct store_object *o, uint64_t offset, void *p, size_t n, struct err *e) {
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(o->fd, (char *)p + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_error(e, errno, "read", o->path);
        if (got == 0) return err_set(e, CODE_IO, "'%s' became shorter while it was read", o->path);
        done += (size_t)got;
    }
    return 0;
}

static void read_close(struct store_object *o) {
    if (o == NULL) return;
    close(o->fd);
    mem_free(o);
}

static int get(struct store *st, const char *path, size_t max, const char *unless, struct buf *out, char etag[STORE_ETAG], bool *found,
               bool *same, struct err *e) {
    struct store_object *o = NULL;
    struct buf b = BUF_INIT(max);
    char sum[65];
    uint64_t size;
    int rc = -1;
    if (same) *same = false;
    if (read_open(st, path, &o, &size, found, e) < 0) return -1;
    if (!*found) return 0;
    if (size > max) {
        err_set(e, CODE_LIMIT, "'%s' has %llu bytes, at most %zu are read", o->path, (unsigned long long)size, max);
        goto out;
    }
    if (buf_reserve(&b, (size_t)size, e) < 0 || (size > 0 && read_at(o, 0, b.p, (size_t)size, e) < 0)) goto out;
    b.n = (size_t)size;
    if (sha256_hex(b.p ? b.p : "", b.n, sum, e) < 0) goto out;
    if (etag) snprintf(etag, STORE_ETAG, "%s", sum);
    if (unless && same && strcmp(unless, sum) == 0) {
        *same = true;
        rc = 0;
        goto out;
    }
    rc = buf_add(out, b.p, b.n, e);
out:
    buf_free(&b);
    read_close(o);
    return rc;
}

/* ---- write ---- */

static int sync_dir(const char *dir, struct err *e) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error(e, errno, "open", dir);
    int bad = fsync(fd) < 0 && errno != EINVAL ? errno : 0; /* EINVAL: this file system has no such thing */
    close(fd);
    return bad ? io_error(e, bad, "sync", dir) : 0;
}

/* The folder that holds `path`. */
static void parent_of(const char *path, char out[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t n = slash && slash != path ? (size_t)(slash - path) : 1;
    memcpy(out, path, n);
    out[n] = '\0';
}

/* Make dir and what is missing above it; each new name is synced in its parent. */
#define TRIES 5 /* a delete takes empty folders along, perhaps the one just made */
static int make_dirs(const char *dir, struct err *e) {
    char up[PATH_MAX];
    struct stat sb;
    if (stat(dir, &sb) == 0) return S_ISDIR(sb.st_mode) ? 0 : io_error(e, ENOTDIR, "use", dir);
    if (errno != ENOENT) return io_error(e, errno, "look at", dir);
    parent_of(dir, up);
    if (make_dirs(up, e) < 0) return -1;
    if (mkdir(dir, 0777) < 0 && errno != EEXIST) return io_error(e, errno, "make folder", dir);
    return sync_dir(up, e); /* also when another process made it: it may not have come to its sync */
}

static int write_tmp(const struct file_store *s, const void *p, size_t n, char tmp[PATH_MAX], struct err *e) {
    char name[17], rel[32], dir[PATH_MAX];
    int fd = -1;
    if (random_hex16(name, e) < 0) return -1;
    snprintf(rel, sizeof rel, "tmp/%s", name);
    if (full_path(s, rel, tmp, e) < 0) return -1;
    parent_of(tmp, dir);
    for (int try = 0; try < TRIES && fd < 0; try++) {
        if (make_dirs(dir, e) < 0) return -1;
        fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != ENOENT) break;
    }
    if (fd < 0) return io_error(e, errno, "create", tmp);
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)p + done, n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            io_error(e, put < 0 ? errno : ENOSPC, "write", tmp);
            goto fail;
        }
        done += (size_t)put;
    }
    if (fsync(fd) < 0) {
        io_error(e, errno, "sync", tmp);
        goto fail;
    }
    if (close(fd) < 0) {
        fd = -1;
        io_error(e, errno, "close", tmp);
        goto fail;
    }
    return 0;
fail:
    if (fd >= 0) close(fd);
    unlink(tmp);
    return -1;
}

static int lock_root(const struct file_store *s, int *fd, struct err *e) {
    char path[PATH_MAX];
    if (make_dirs(s->root, e) < 0 || full_path(s, ".lock", path, e) < 0) return -1;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0 && errno == EACCES) *fd = open(path, O_RDONLY | O_CLOEXEC); /* another user made it: a lock needs no more */
    if (*fd < 0) return io_error(e, errno, "open", path);
    while (flock(*fd, LOCK_EX) < 0)
        if (errno != EINTR) return io_error(e, errno, "lock", path);
    return 0;
}

/* link(2); where a file system has no hard links, a rename that never replaces. *exists when the name is taken. */
static int appear(const char *tmp, const char *path, const char *dir, bool *exists, struct err *e) {
    *exists = false;
    for (int try = 0; try < TRIES; try++) {
        if (make_dirs(dir, e) < 0) return -1;
        if (link(tmp, path) == 0) return 0;
        if ((errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP || errno == EMLINK) &&
            renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno == EEXIST) {
            *exists = true;
            return 0;
        }
        if (errno != ENOENT) break;
    }
    return io_error(e, errno, "create", path);
}

static int replace(const char *tmp, const char *path, const char *dir, struct err *e) {
    for (int try = 0; try < TRIES; try++) {
        if (make_dirs(dir, e) < 0) return -1;
        if (rename(tmp, path) == 0) return 0;
        if (errno != ENOENT) break;
    }
    return io_error(e, errno, "replace", path);
}

static int put(struct store *st, const char *path, const void *p, size_t n, bool if_absent, const char *if_match, enum store_put_result *r,
               char etag[STORE_ETAG], struct err *e) {
    const struct file_store *s = (const struct file_store *)st;
    char full[PATH_MAX], dir[PATH_MAX], tmp[PATH_MAX] = "", now[STORE_ETAG];
    struct buf nothing = BUF_INIT(0);
    bool found, same, exists;
    int lock = -1, rc = -1;
    *r = STORE_PUT_OK;
    if (full_path(s, path, full, e) < 0) return -1;
    parent_of(full, dir);
    if (if_absent && access(full, F_OK) == 0) { /* spares the write; link(2) decides */
        *r = STORE_PUT_EXISTS;
        return sync_dir(dir, e); /* whoever made it may not have come to its sync */
    }
    if (write_tmp(s, p, n, tmp, e) < 0) {
        tmp[0] = '\0';
        goto out;
    }
    if (FAULT("store.tmp_written", e) < 0) goto out;
    if (if_absent) {
        if (appear(tmp, full, dir, &exists, e) < 0) goto out;
        if (exists) {
            *r = STORE_PUT_EXISTS;
            rc = sync_dir(dir, e);
            goto out;
        }
    } else {
        if (lock_root(s, &lock, e) < 0) goto out;
        if (if_match) {
            if (get(st, path, SIZE_MAX / 2, if_match, &nothing, now, &found, &same, e) < 0) {
                if (e->code != CODE_LIMIT) goto out; /* other bytes than ours: they do not go into an empty buffer */
                err_clear(e);
                found = same = false;
            }
            if (!found || !same) {
                *r = STORE_PUT_CONFLICT;
                rc = 0;
                goto out;
            }
        }
        if (replace(tmp, full, dir, e) < 0) goto out;
        tmp[0] = '\0';
    }
    if (FAULT("store.renamed", e) < 0) goto out;
    if (sync_dir(dir, e) < 0) goto out;
    if (etag) {
        char sum[65];
        if (sha256_hex(p, n, sum, e) < 0) goto out;
        snprintf(etag, STORE_ETAG, "%s", sum);
    }
    rc = 0;
out:
    if (lock >= 0) close(lock);
    if (tmp[0]) unlink(tmp);
    buf_free(&nothing);
    return rc;
}

/* ---- list, delete ---- */

struct walk {
    const struct file_store *s;
    const char *prefix;
    int (*fn)(void *arg, const char *path, uint64_t size, int64_t mtime_us);
    void *arg;
    bool stopped;
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int walk_dir(struct walk *w, const char *rel, struct err *e);

/* One name of folder `rel`; names of folders end in a slash, which is what puts whole paths in byte order. */
static int walk_one(struct walk *w, const char *rel, const char *name, struct err *e) {
    char path[PATH_MAX], full[PATH_MAX];
    size_t n, np = strlen(w->prefix);
    struct stat sb;
    if (snprintf(path, sizeof path, "%s%s", rel, name) >= (int)sizeof path) return 0;
    n = strlen(path);
    if (strncmp(path, w->prefix, n < np ? n : np) != 0) return 0;
    if (path[n - 1] == '/') return walk_dir(w, path, e);
    if (n < np || !path_fits(path) || strcmp(path, ".lock") == 0) return 0;
    if (full_path(w->s, path, full, e) < 0) return -1;
    if (stat(full, &sb) < 0) return errno == ENOENT ? 0 : io_error(e, errno, "look at", full);
    w->stopped = w->fn(w->arg, path, (uint64_t)sb.st_size, (int64_t)sb.st_mtim.tv_sec * 1000000 + sb.st_mtim.tv_nsec / 1000) != 0;
    return 0;
}

static int walk_dir(struct walk *w, const char *rel, struct err *e) {
    char full[PATH_MAX], **names = NULL;
    size_t n = 0, cap = 0;
    struct dirent *d;
    int rc = -1;
    if (snprintf(full, sizeof full, "%s/%s", w->s->root[1] ? w->s->root : "", rel) >= (int)sizeof full) return 0;
    DIR *dir = opendir(full);
    if (dir == NULL) return errno == ENOENT || errno == ENOTDIR ? 0 : io_error(e, errno, "list", full);
    while ((errno = 0, d = readdir(dir)) != NULL) {
        bool folder = d->d_type == DT_DIR;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        if (d->d_type == DT_UNKNOWN || d->d_type == DT_LNK) {
            struct stat sb;
            if (fstatat(dirfd(dir), d->d_name, &sb, 0) < 0) continue;
            folder = S_ISDIR(sb.st_mode);
        }
        if (n == cap) {
            char **more = mem_resize(names, (cap = cap ? cap * 2 : 64) * sizeof *names, e);
            if (more == NULL) goto out;
            names = more;
        }
        if ((names[n] = mem_printf(e, "%s%s", d->d_name, folder ? "/" : "")) == NULL) goto out;
        n++;
    }
    if (errno) {
        io_error(e, errno, "list", full);
        goto out;
    }
    closedir(dir);
    dir = NULL;
    if (n) qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n && !w->stopped; i++)
        if (walk_one(w, rel, names[i], e) < 0) goto out;
    rc = 0;
out:
    if (dir) closedir(dir);
    for (size_t i = 0; i < n; i++)
        mem_free(names[i]);
    mem_free(names);
    return rc;
}

static int list(struct store *st, const char *prefix, int (*fn)(void *arg, const char *path, uint64_t size, int64_t mtime_us), void *arg,
                struct err *e) {
    struct walk w = {(const struct file_store *)st, prefix, fn, arg, false};
    char rel[PATH_MAX] = "";
    const char *slash = strrchr(prefix, '/');
    if (slash) { /* begin in the deepest folder that the prefix names */
        snprintf(rel, sizeof rel, "%.*s", (int)(slash - prefix), prefix);
        if (!path_fits(rel)) return err_set(e, CODE_INTERNAL, "'%.200s' is no prefix of object names", prefix);
        snprintf(rel, sizeof rel, "%.*s", (int)(slash - prefix + 1), prefix);
    }
    return walk_dir(&w, rel, e);
}

static int del(struct store *st, const char *path, struct err *e) {
    char full[PATH_MAX], dir[PATH_MAX];
    if (full_path((const struct file_store *)st, path, full, e) < 0) return -1;
    if (unlink(full) < 0 && errno != ENOENT && errno != ENOTDIR) return io_error(e, errno, "remove", full);
    for (parent_of(full, dir); strlen(dir) > strlen(((const struct file_store *)st)->root) && rmdir(dir) == 0;) { /* empty folders go too */
        char up[PATH_MAX];
        parent_of(dir, up);
        memcpy(dir, up, sizeof dir);
    }
    return 0;
}

static bool writable(struct store *st) {
    char dir[PATH_MAX], up[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", ((const struct file_store *)st)->root);
    while (access(dir, F_OK) < 0 && dir[1]) {
        parent_of(dir, up);
        memcpy(dir, up, sizeof dir);
    }
    return access(dir, W_OK | X_OK) == 0;
}

const struct store_ops store_file_ops = {
    .scheme = "file",
    .open = file_open,
    .close = file_close,
    .get = get,
    .put = put,
    .read_open = read_open,
    .read_at = read_at,
    .read_close = read_close,
    .list = list,
    .del = del,
    .writable = writable,
};
