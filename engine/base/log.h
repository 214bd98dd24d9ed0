/* The log: one line a message on stderr, text or JSON; messages are stable, variables are keys.
 * Secrets never reach it: a DSN is printed through text_dsn_redact only. */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

enum kv_type { KV_END_T, KV_STR_T, KV_U64_T, KV_I64_T };
struct kv { const char *key; enum kv_type type; const char *s; uint64_t u; };
#define KV_STR(k, v) ((struct kv){(k), KV_STR_T, (v), 0})
#define KV_U64(k, v) ((struct kv){(k), KV_U64_T, NULL, (uint64_t)(v)})
#define KV_I64(k, v) ((struct kv){(k), KV_I64_T, NULL, (uint64_t)(int64_t)(v)})

void log_setup(enum log_format f, enum log_level max);
void log_stream(const char *stream_id);   /* added to every line as stream_id= ; NULL for none; copied */
void log_line(enum log_level l, const char *msg, const struct kv *kv, size_t nkv);
#define LOG_KV_(...) (const struct kv[]){__VA_ARGS__}, sizeof((const struct kv[]){__VA_ARGS__}) / sizeof(struct kv)
#define log_error(msg, ...) log_line(LOG_ERROR, (msg), LOG_KV_(__VA_ARGS__))
#define log_warn(msg, ...) log_line(LOG_WARN, (msg), LOG_KV_(__VA_ARGS__))
#define log_info(msg, ...) log_line(LOG_INFO, (msg), LOG_KV_(__VA_ARGS__))
#define log_debug(msg, ...) log_line(LOG_DEBUG, (msg), LOG_KV_(__VA_ARGS__))
#define log_note(level, msg) log_line((level), (msg), NULL, 0)
/* A line that is redrawn in its place below the log, on a terminal only: other lines scroll past above it. NULL or "" takes it away, and so does
 * log_err. Where there is no terminal (or a JSON log, or a level below info) it does nothing: say it with plain lines there. */
bool log_on_terminal(void);
void log_status(const char *text);
/* The top of every command: prints `error: …` and `hint: …` (text) or one JSON object, with code, marker and stream_id. */
void log_err(const struct err *e);

#endif
