/* Connections to servers that misbehave, played by a few lines of protocol: a pooler, a silent one, one that breaks off. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/postgres/pg.h"
#include "engine/base/clock.h"
#include "tests/tap.h"

enum role { POOLER_STRIPS, POOLER_REFUSES, SILENT, BREAKS_OFF };

static void put(int fd, char tag, const char *p, size_t n) {
    unsigned char h[5] = {(unsigned char)tag, 0, 0, (unsigned char)((n + 4) >> 8), (unsigned char)((n + 4) & 255)};
    if (write(fd, h, 5) < 0 || (n > 0 && write(fd, p, n) < 0)) _exit(1);
}
#define PUT(fd, tag, text) put(fd, tag, text, sizeof(text) - 1)

static void serve(int listener, enum role role) {
    char in[8192];
    int fd = accept(listener, NULL, NULL);
    if (role == SILENT) {
        pause();
        _exit(0);
    }
    ssize_t n = read(fd, in, sizeof in);
    if (n == 8) { /* TLS? no */
        if (write(fd, "N", 1) < 0) _exit(1);
        n = read(fd, in, sizeof in);
    }
    if (role == BREAKS_OFF) _exit(0);
    if (role == POOLER_REFUSES) {
        PUT(fd, 'E', "SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: replication\0\0");
        _exit(0);
    }
    PUT(fd, 'R', "\0\0\0\0");
    PUT(fd, 'S', "server_version\00015.4\0");
    PUT(fd, 'Z', "I");
    while ((n = read(fd, in, sizeof in)) > 0 && in[0] == 'Q') {
        if (memmem(in, (size_t)n, "IDENTIFY_SYSTEM", 15) != NULL)
            PUT(fd, 'E', "SERROR\0VERROR\0C42601\0Msyntax error at or near \"IDENTIFY_SYSTEM\"\0\0");
        else {
            PUT(fd, 'T', "\0\1x\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0");
            PUT(fd, 'C', "SELECT 0\0");
        }
        PUT(fd, 'Z', "I");
    }
    _exit(0);
}

static int try_connect(enum role role, const char *more, struct err *e) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    char dsn[256];
    if (bind(l, (struct sockaddr *)&a, sizeof a) < 0 || listen(l, 4) < 0 || getsockname(l, (struct sockaddr *)&a, &len) < 0) return -2;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) serve(l, role);
    close(l);
    snprintf(dsn, sizeof dsn, "host=127.0.0.1 port=%d user=u password=topsecret dbname=d %s", ntohs(a.sin_port), more);
    PGconn *c = NULL;
    err_clear(e);
    int rc = pg_connect(dsn, PG_REPLICATION, &c, e);
    pg_close(&c);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return rc;
}

int main(void) {
    struct err e = {0};
    ok(try_connect(POOLER_STRIPS, "", &e) == -1 && e.code == CODE_POOLER && e.class == ERR_REFUSE && strstr(e.msg, "syntax error") == NULL,
       "a pooler that drops replication=database: %s", e.msg);
    ok(try_connect(POOLER_REFUSES, "", &e) == -1 && e.code == CODE_POOLER && e.hint[0] != 0, "one that refuses it: %s", e.msg);
    ok(try_connect(BREAKS_OFF, "", &e) == -1 && e.code == CODE_UNREACHABLE && e.class == ERR_RETRY && strstr(e.msg, "topsecret") == NULL,
       "a server that breaks off: %s", e.msg);
    int64_t t = clock_mono_us();
    ok(try_connect(SILENT, "connect_timeout=1", &e) == -1 && e.code == CODE_UNREACHABLE && clock_mono_us() - t < INT64_C(5000000),
       "a silent one is given up in time: %s", e.msg);
    return done_testing();
}
