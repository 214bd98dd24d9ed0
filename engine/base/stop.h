/* One process-wide stop: TERM and INT ask for a drain, a second one leaves at once with 130. Waits end early when it is asked. */
#ifndef SLUICE_BASE_STOP_H
#define SLUICE_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

void stop_install(void);           /* handlers for TERM, INT; PIPE ignored. Call once, before threads */
bool stop_asked(void);
void stop_ask(void);               /* from inside: the store's stop object, the target's row */
/* Wait at most us microseconds; true if a stop was asked meanwhile (returns at once then). */
bool stop_wait(int64_t us);
/* A descriptor that becomes readable when a stop is asked; for poll beside a socket. Never read from it. */
int stop_fd(void);

#endif
