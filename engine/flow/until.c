/* DESIGN.
 * 1. A time stops before the first commit *in log order* that is later, whatever comes behind it: commit times need not grow along the log.
 * 2. A position includes the transaction that ends there. One that no order joins with the chain's source is refused.
 * 3. The resolution of a time is the source's: microseconds of the commit where the server records it, the moment of the tick where changes are read in
 *    ticks. A commit without a time is within every time bound. */
#include "engine/flow/until.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"

bool until_is_set(const struct until *u) {
    return pos_is_set(&u->pos) || u->time_us != 0;
}

static int zone(const char *p, int *minutes) {
    int h, m = 0, n = 0;
    *minutes = 0;
    if (!*p || strcmp(p, "Z") == 0) return 0;
    if ((*p != '+' && *p != '-') || sscanf(p + 1, "%2d%n", &h, &n) != 1 || n != 2) return -1;
    const char *rest = p + 3;
    if (*rest == ':') rest++;
    if (*rest && (sscanf(rest, "%2d%n", &m, &n) != 1 || n != 2 || rest[2])) return -1;
    if (h > 18 || m > 59) return -1;
    *minutes = (h * 60 + m) * (*p == '-' ? -1 : 1);
    return 0;
}

int until_time_parse(const char *text, int64_t *us, struct err *e) {
    struct tm tm = {0};
    const char *p = strptime(text, "%Y-%m-%d", &tm);
    int64_t frac = 0, unit = 100000;
    int minutes = 0;
    if (p && (*p == 'T' || *p == ' ')) {
        p = strptime(p + 1, "%H:%M:%S", &tm);
        if (p && *p == '.')
            for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10) frac += (*p - '0') * unit;
    }
    if (!p || zone(p, &minutes) < 0) {
        err_set(e, CODE_USAGE, "'%s' is no time", text);
        return err_hint(e, "write it as 2026-01-31T12:00:00Z; without a zone it is UTC");
    }
    *us = ((int64_t)timegm(&tm) - (int64_t)minutes * 60) * 1000000 + frac;
    return 0;
}

static int beyond(const struct until *u, const struct pos *pos, int64_t time_us, bool *yes, struct err *e) {
    *yes = u->time_us && time_us > u->time_us;
    if (*yes || !pos_is_set(&u->pos)) return 0;
    enum pos_order o = pos_compare(pos, &u->pos);
    if (o == POS_UNORDERED) return err_set(e, CODE_USAGE, "position '%s' is none of this chain's source; one of its own is '%s'", u->pos.token, pos->token);
    *yes = o == POS_GREATER;
    return 0;
}

static int scan(struct chain *c, const struct link_info *li, const struct until *u, uint64_t *seq, bool *whole, struct err *e) {
    struct link_reader *r = NULL;
    struct batch b = {0};
    int rc = -1;
    *seq = li->start_seq;
    *whole = false;
    if (batch_init(&b, KiB(256), e) < 0) return -1;
    if (link_reader_open(c, li->n, li->start_seq, &r, e) < 0) goto out;
    for (;;) {
        batch_reset(&b);
        if (link_reader_next(r, &b, MiB(1), e) < 0) goto out;
        if (!b.n) break;
        for (size_t i = 0; i < b.n; i++) {
            bool far;
            if (b.v[i].op != CHANGE_COMMIT) continue;
            if (beyond(u, b.v[i].pos, b.v[i].time_us, &far, e) < 0) goto out;
            if (far) {
                rc = 0;
                goto out;
            }
            *seq = b.v[i].seq;
        }
    }
    *seq = li->end_seq;
    *whole = true;
    rc = 0;
out:
    link_reader_close(r);
    batch_free(&b);
    return rc;
}

int until_cut(struct chain *c, uint64_t n, const struct until *u, uint64_t *seq, bool *whole, struct err *e) {
    struct link_info li;
    struct pos start, end;
    bool far;
    if (chain_link(c, n, &li, e) < 0) return -1;
    *seq = li.end_seq;
    *whole = true;
    if (li.opening || !until_is_set(u)) return 0;
    if (!u->time_us) {
        if (chain_link_span(c, n, &start, &end, e) < 0 || beyond(u, &end, 0, &far, e) < 0) return -1;
        if (!far) return 0;
    }
    return scan(c, &li, u, seq, whole, e);
}

int until_find(struct chain *c, uint64_t from_n, const struct until *u, uint64_t *n, uint64_t *seq, bool *whole, struct err *e) {
    uint64_t count = chain_info(c)->nlinks;
    for (*n = from_n; *n < count; (*n)++) {
        if (until_cut(c, *n, u, seq, whole, e) < 0) return -1;
        if (!*whole) return 0;
    }
    *n = count - 1;
    return 0;
}
