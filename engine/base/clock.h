/* Time. Wall clock is for people and records only; nothing expires by it. Waits use the monotonic clock. */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>

#include "engine/base/err.h"

int64_t clock_wall_us(void);       /* microseconds UTC since 1970 */
int64_t clock_mono_us(void);
void clock_iso(int64_t wall_us, char out[32]);                  /* 2026-01-31T12:00:00.000000Z */
/* "10s", "5m", "1h30m", "250ms", "0" -> microseconds. CODE_USAGE names the text. */
int clock_duration_parse(const char *text, int64_t *us, struct err *e);

#endif
