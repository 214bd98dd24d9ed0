/* DESIGN: owning an entity is a lock that the kernel holds.
 *  1. One file `<control>.lock`, byte `id` of it an open-file-description write lock: gone when the owner's process is gone, never by the
 *     clock. Byte 0 is taken while a new control DB is set up; a migration takes all bytes.
 *  2. The file is never unlinked by us; somebody who replaces it is noticed: the path must name the inode that we locked.
 *  3. Locks and WAL's shared memory do not reach across hosts, so a network file system is refused before anything is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/control/room.h"

bool fs_is_network(long magic) {
    static const unsigned magics[] = {
        0x6969,     /* NFS */
        0x517B,     /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x564C,     /* NCP */
        0x5346414F, /* AFS */
        0x6B414653, /* kAFS */
        0x73757245, /* Coda */
        0x00C36400, /* Ceph */
        0x0BD00BD0, /* Lustre */
        0x47504653, /* GPFS */
        0x7461636F, /* OCFS2 */
        0x01161970, /* GFS2 */
        0x19830326, /* BeeGFS */
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(magics); i++)
        if ((unsigned)magic == magics[i]) return true;
    return false;
}

/* FUSE says nothing about what is behind it; the mount table names the kind. */
static bool fuse_is_network(const char *dir) {
    struct stat st;
    if (stat(dir, &st) < 0) return false;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f) return false;
    char line[4096], want[32];
    bool found = false;
    snprintf(want, sizeof want, " %u:%u ", (unsigned)(st.st_dev >> 8 & 0xfff),
             (unsigned)((st.st_dev & 0xff) | (st.st_dev >> 12 & 0xfff00)));
    static const char *const kinds[] = {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone",
                                        "fuse.ceph",  "fuse.gcsfuse",   "fuse.davfs"};
    while (!found && fgets(line, sizeof line, f)) {
        if (!strstr(line, want)) continue;
        for (size_t i = 0; i < MEM_ARRAY_LEN(kinds); i++)
            if (strstr(line, kinds[i])) found = true;
    }
    fclose(f);
    return found;
}

int fs_check(const char *dir, struct err *e) {
    struct statfs fs;
    if (statfs(dir, &fs) < 0) return err_set(e, CODE_IO, "cannot examine the folder '%s': %s", dir, strerror(errno));
    bool fuse = (unsigned)fs.f_type == 0x65735546;
    if (!fs_is_network((long)fs.f_type) && !(fuse && fuse_is_network(dir))) return 0;
    err_set(e, CODE_CONTROL_NETFS, "the control DB's folder '%s' lies on a network file system", dir);
    return err_hint(e, "locks do not hold there: name a file on a local disk with --control");
}

int lock_open(struct control *c, struct err *e) {
    struct stat st;
    if (c->lock_fd >= 0) return 0;
    int fd = open(c->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return err_set(e, CODE_IO, "cannot open the lock file '%s': %s", c->lock_path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        err_set(e, CODE_IO, "cannot examine the lock file '%s': %s", c->lock_path, strerror(errno));
        close(fd);
        return -1;
    }
    c->lock_fd = fd;
    c->lock_dev = st.st_dev;
    c->lock_ino = st.st_ino;
    return 0;
}

void lock_close(struct control *c) {
    if (c->lock_fd >= 0) close(c->lock_fd);
    c->lock_fd = -1;
}

int lock_try(struct control *c, int64_t start, int64_t len, bool *got, struct err *e) {
    *got = false;
    if (lock_open(c, e) < 0) return -1;
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    if (fcntl(c->lock_fd, F_OFD_SETLK, &l) == 0) {
        *got = true;
        return 0;
    }
    if (errno == EAGAIN || errno == EACCES) return 0;
    return err_set(e, CODE_IO, "cannot lock '%s': %s", c->lock_path, strerror(errno));
}

void lock_drop(struct control *c, int64_t start, int64_t len) {
    struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    if (c->lock_fd >= 0) fcntl(c->lock_fd, F_OFD_SETLK, &l);
}

int lock_same_file(struct control *c, struct err *e) {
    struct stat st;
    if (c->lock_fd < 0) return 0;
    if (stat(c->lock_path, &st) == 0 && st.st_dev == c->lock_dev && st.st_ino == c->lock_ino) return 0;
    err_set(e, CODE_FENCED, "the lock file '%s' was removed or replaced while this process held it", c->lock_path);
    return err_hint(e, "nobody may remove it while sluice runs: see which other process runs the same entity, then start this again");
}

int entity_owner_check(struct control *c, struct err *e) {
    return lock_same_file(c, e);
}
