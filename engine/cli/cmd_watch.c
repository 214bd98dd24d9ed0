/* A report again and again: sync status --watch. */
#include <stdio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/stop.h"
#include "engine/cli/cli.h"

#define HOME_AND_CLEAR "\033[H\033[2J"

int cli_watch(struct control *c, const char *sql_name, enum report_format f, int64_t every_us, struct err *e) {
    static char room[64 * 1024];
    bool terminal = isatty(STDOUT_FILENO) == 1;
    char at[32];
    /* A picture goes out in one piece, so that no half of it is seen. */
    setvbuf(stdout, room, _IOFBF, sizeof room);
    do {
        clock_iso(clock_wall_us(), at);
        if (terminal) printf(HOME_AND_CLEAR "%.19sZ, every %.1f s; interrupt to end\n\n", at, (double)every_us / 1e6);
        else if (f == REPORT_TABLE) printf("%.19sZ\n", at);
        if (report_run(c, sql_name, NULL, 0, f, e) < 0) return -1;
    } while (!stop_wait(every_us));
    return 0;
}
