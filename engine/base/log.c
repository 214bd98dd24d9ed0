/* DESIGN: the log.
 *  1. One line is one write(2), so lines of threads and processes never mix; within a process a lock also covers a partial write.
 *  2. A line takes no memory from the heap: it works when there is none left. A value that does not fit is cut and marked with "…".
 *  3. A line is valid UTF-8 without control characters whatever it is given; a JSON line is always one whole object.
 *  4. A status line is the last one on the terminal; whoever writes takes it away first and puts it back behind. */
#include "engine/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"

#define LINE_BYTES 32768
#define VALUE_BYTES 4096 /* of a value, before escaping */

static enum log_format format = LOG_TEXT;
static enum log_level max_level = LOG_INFO;
static char stream[256];
static char status[256]; /* shown now; empty when none is */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct line {
    size_t n;
    char p[LINE_BYTES];
};

/* Everything but closing braces keeps this much free, so that a full line can still be ended. */
#define RESERVE 16

static bool add(struct line *l, const char *s, size_t n) {
    if (n > LINE_BYTES - RESERVE - l->n) return false;
    memcpy(l->p + l->n, s, n);
    l->n += n;
    return true;
}

static bool adds(struct line *l, const char *s) { return add(l, s, strlen(s)); }

static void end_line(struct line *l, const char *closing) {
    size_t n = strlen(closing);
    memcpy(l->p + l->n, closing, n);
    l->n += n;
}

/* One character of a value as JSON or quoted text; out holds at most 6 bytes. Malformed bytes become U+FFFD. */
static size_t escape(const char *s, size_t n, bool json, char out[8], size_t *taken) {
    size_t k = text_utf8_char(s, n);
    unsigned char c = (unsigned char)*s;
    *taken = k ? k : 1;
    if (!k) {
        memcpy(out, "\xef\xbf\xbd", 3);
        return 3;
    }
    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    }
    if (c < 0x20 || c == 0x7f) {
        const char *shorts = "\n\r\t", *at = strchr(shorts, c);
        if (c && at) {
            out[0] = '\\';
            out[1] = "nrt"[at - shorts];
            return 2;
        }
        return (size_t)snprintf(out, 8, json ? "\\u%04x" : "\\x%02x", c);
    }
    /* C1 controls steer terminals as well */
    if (k == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0) return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)(unsigned char)s[1]);
    memcpy(out, s, k);
    return k;
}

/* Adds s escaped, cut at VALUE_BYTES or where the line is full. */
static void add_escaped(struct line *l, const char *s, bool json) {
    size_t n = strlen(s), done = 0;
    while (done < n) {
        char out[8];
        size_t taken, k = escape(s + done, n - done, json, out, &taken);
        if (done + taken > VALUE_BYTES || k + 8 > LINE_BYTES - RESERVE - l->n) {
            add(l, "…", 3);
            return;
        }
        add(l, out, k);
        done += taken;
    }
}

/* A text message stands unquoted; quotes and backslashes in it are nothing special. */
static void add_message(struct line *l, const char *s, const char *newline) {
    size_t n = strlen(s), done = 0;
    while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == ' ')) n--; /* servers end their messages with a newline */
    while (done < n) {
        char out[8];
        size_t taken, k;
        if (s[done] == '"' || s[done] == '\\') {
            out[0] = s[done];
            taken = k = 1;
        } else if (s[done] == '\n' && newline) {
            taken = 1;
            k = strlen(newline);
            memcpy(out, newline, k);
        } else {
            k = escape(s + done, n - done, false, out, &taken);
        }
        if (done + taken > VALUE_BYTES || k + 8 > LINE_BYTES - RESERVE - l->n) {
            add(l, "…", 3);
            return;
        }
        add(l, out, k);
        done += taken;
    }
}

static bool plain(const char *s) {
    if (!*s) return false;
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || *s == '"' || *s == '=' || *s == '\\' || (unsigned char)*s >= 0x7f) return false;
    return true;
}

static bool room_for_pair(const struct line *l, const char *key) { return strlen(key) + 64 <= LINE_BYTES - RESERVE - l->n; }

static void text_str(struct line *l, const char *key, const char *s) {
    if (!room_for_pair(l, key)) return;
    add(l, " ", 1);
    adds(l, key);
    add(l, "=", 1);
    if (!s) {
        adds(l, "null");
    } else if (plain(s)) {
        add_escaped(l, s, false);
    } else {
        add(l, "\"", 1);
        add_escaped(l, s, false);
        add(l, "\"", 1);
    }
}

static void json_str(struct line *l, const char *key, const char *s) {
    if (!room_for_pair(l, key)) return;
    adds(l, l->n > 1 ? ",\"" : "\"");
    add_escaped(l, key, true);
    adds(l, "\":");
    if (!s) {
        adds(l, "null");
        return;
    }
    add(l, "\"", 1);
    add_escaped(l, s, true);
    add(l, "\"", 1);
}

static void add_number(struct line *l, const struct kv *kv) {
    char t[24];
    if (kv->type == KV_I64_T) snprintf(t, sizeof t, "%lld", (long long)(int64_t)kv->u);
    else snprintf(t, sizeof t, "%llu", (unsigned long long)kv->u);
    adds(l, t);
}

static void add_pair(struct line *l, enum log_format f, const struct kv *kv) {
    if (kv->type == KV_STR_T) {
        if (f == LOG_JSON) json_str(l, kv->key, kv->s);
        else text_str(l, kv->key, kv->s);
        return;
    }
    if (kv->type == KV_END_T || !room_for_pair(l, kv->key)) return;
    if (f == LOG_JSON) {
        adds(l, l->n > 1 ? ",\"" : "\"");
        add_escaped(l, kv->key, true);
        adds(l, "\":");
    } else {
        add(l, " ", 1);
        adds(l, kv->key);
        add(l, "=", 1);
    }
    add_number(l, kv);
}

static const char *level_name(enum log_level l) {
    switch (l) {
    case LOG_ERROR: return "error";
    case LOG_WARN: return "warn";
    case LOG_INFO: return "info";
    case LOG_DEBUG: return "debug";
    }
    return "error";
}

/* Milliseconds are enough for people: 2026-01-31T12:00:00.000Z */
static void time_text(char out[32]) {
    clock_iso(clock_wall_us(), out);
    size_t n = strlen(out);
    if (n == 27) memcpy(out + 23, "Z", 2);
}

static void write_line(const struct line *l) {
    size_t done = 0;
    while (done < l->n) {
        ssize_t n = write(STDERR_FILENO, l->p + done, l->n - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd fd = {STDERR_FILENO, POLLOUT, 0};
            poll(&fd, 1, 1000);
        } else if (errno != EINTR) {
            return; /* there is nowhere to complain */
        }
    }
}

/* ---- the status line; all under the lock ---- */

#define ERASE "\r\033[K"

static bool terminal(void) {
    const char *term = getenv("TERM");
    return format == LOG_TEXT && max_level >= LOG_INFO && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* As much of it as one row of the terminal holds: a longer one would wrap, and could not be erased. */
static void status_draw(void) {
    struct line l = {0};
    struct winsize w = {0};
    size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80, width = 0;
    adds(&l, ERASE);
    for (size_t i = 0; status[i] && ++width < columns;) {
        size_t k = text_utf8_char(status + i, strlen(status + i));
        if (!k || (unsigned char)status[i] < 0x20 || status[i] == 0x7f) {
            add(&l, "?", 1);
            i += k ? k : 1;
            continue;
        }
        add(&l, status + i, k);
        i += k;
    }
    write_line(&l);
}

static void status_hide(void) {
    struct line l = {0};
    if (!*status) return;
    adds(&l, ERASE);
    write_line(&l);
}

bool log_on_terminal(void) {
    pthread_mutex_lock(&lock);
    bool yes = terminal();
    pthread_mutex_unlock(&lock);
    return yes;
}

void log_status(const char *text) {
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (text && *text && terminal()) {
        snprintf(status, sizeof status, "%s", text);
        status_draw();
    } else {
        status_hide();
        status[0] = 0;
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
}

void log_setup(enum log_format f, enum log_level max) {
    pthread_mutex_lock(&lock);
    format = f;
    max_level = max;
    pthread_mutex_unlock(&lock);
}

void log_stream(const char *stream_id) {
    pthread_mutex_lock(&lock);
    size_t n = stream_id ? strlen(stream_id) : 0;
    if (n >= sizeof stream) n = sizeof stream - 1;
    if (n) memcpy(stream, stream_id, n);
    stream[n] = 0;
    pthread_mutex_unlock(&lock);
}

void log_line(enum log_level level, const char *msg, const struct kv *kv, size_t nkv) {
    struct line l;
    char at[32];
    int saved = errno; /* a log line between a call and the look at its errno changes nothing */
    pthread_mutex_lock(&lock);
    if (level > max_level) goto out;
    l.n = 0;
    time_text(at);
    if (format == LOG_JSON) {
        add(&l, "{", 1);
        json_str(&l, "time", at);
        json_str(&l, "level", level_name(level));
        json_str(&l, "msg", msg);
        if (*stream) json_str(&l, "stream_id", stream);
    } else {
        adds(&l, at);
        add(&l, " ", 1);
        adds(&l, level_name(level));
        add(&l, " ", 1);
        add_message(&l, msg, NULL);
        if (*stream) text_str(&l, "stream_id", stream);
    }
    for (size_t i = 0; i < nkv; i++) add_pair(&l, format, &kv[i]);
    end_line(&l, format == LOG_JSON ? "}\n" : "\n");
    status_hide();
    write_line(&l);
    if (*status) status_draw();
out:
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* What to do: the error's own hint, else the marker's remedy (it knows more), else the code's. */
static const char *hint_of(const struct err *e) {
    if (e->hint[0]) return e->hint;
    if (*marker_remedy(e->sub)) return marker_remedy(e->sub);
    if (*marker_remedy(e->marker)) return marker_remedy(e->marker);
    return err_code_remedy(e->code);
}

void log_err(const struct err *e) {
    static const struct err nothing = {.class = ERR_BUG, .code = CODE_INTERNAL, .msg = "a failure without a message"};
    struct line l;
    char at[32];
    int saved = errno;
    if (e->class == ERR_NONE && e->code == CODE_NONE && !e->msg[0]) e = &nothing;
    const char *hint = hint_of(e);
    /* A broken invariant is INTERNAL even where nobody marked it. */
    enum marker m = e->marker == MARKER_NONE && e->class == ERR_BUG ? MARKER_INTERNAL : e->marker;
    l.n = 0;
    time_text(at);
    pthread_mutex_lock(&lock);
    if (format == LOG_JSON) {
        add(&l, "{", 1);
        json_str(&l, "time", at);
        json_str(&l, "level", "error");
        json_str(&l, "msg", e->msg);
        json_str(&l, "class", err_class_name(e->class));
        if (*err_code_name(e->code)) json_str(&l, "code", err_code_name(e->code));
        if (m) json_str(&l, "marker", marker_name(m));
        if (e->sub) json_str(&l, "sub", marker_name(e->sub));
        if (*stream) json_str(&l, "stream_id", stream);
        if (*hint) json_str(&l, "hint", hint);
        end_line(&l, "}\n");
    } else {
        adds(&l, "error: ");
        add_message(&l, e->msg, "\n  ");
        if (*err_code_name(e->code) || m || *stream) {
            adds(&l, "\n ");
            if (*err_code_name(e->code)) text_str(&l, "code", err_code_name(e->code));
            if (m) text_str(&l, "marker", marker_name(m));
            if (e->sub) text_str(&l, "sub", marker_name(e->sub));
            if (*stream) text_str(&l, "stream_id", stream);
        }
        if (*hint) {
            adds(&l, "\nhint: ");
            add_message(&l, hint, "\n  ");
        }
        end_line(&l, "\n");
    }
    status_hide();
    status[0] = 0;
    write_line(&l);
    pthread_mutex_unlock(&lock);
    errno = saved;
}
