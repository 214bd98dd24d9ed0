/* What a service manager wants to hear (the protocol of sd_notify over NOTIFY_SOCKET, spoken by hand): ready, status, stopping, and that this process
 * is alive. Without that variable every call does nothing. Any thread; nothing here ever fails or waits for longer than a second. */
#ifndef SLUICE_FLOW_NOTIFY_H
#define SLUICE_FLOW_NOTIFY_H

#include <stdbool.h>

/* Read the environment and say READY. Again is fine. */
void notify_begin(void);
/* The line that `systemctl status` shows; the same text twice in a row is sent once. */
void notify_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void notify_stopping(void);
/* Work goes on. Cheap: call it wherever a loop comes round; it is sent at most four times in the watchdog's span. */
void notify_alive(void);
/* Around work whose length nobody can foretell and that no loop of ours sees (an index on a large table): the watchdog waits a day meanwhile. Nests. */
void notify_long(bool on);

#endif
