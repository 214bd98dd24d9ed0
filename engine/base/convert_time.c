/* DESIGN
 *
 * Dates and times as text. Read in any of the spellings that convert.h names, checked against the calendar and PostgreSQL's range, written
 * in one canonical way; what was canonical comes out as it went in.
 * 1. Nothing is rounded: a digit behind the column's precision that is not zero refuses.
 * 2. The calendar is the proleptic Gregorian one; years before 1 are written with BC and there is no year 0.
 * 3. A zone is never invented: a timestamp with an offset is not a timestamp, and a timestamptz without one is refused. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/convert_parts.h"

#define JULIAN_EPOCH 2440588           /* Julian day of 1970-01-01 */
#define DATE_END_JULIAN 2147483494     /* 5874898-01-01 */
#define TIMESTAMP_END_JULIAN 109203528 /* 294277-01-01 */

struct moment {
    int64_t year; /* astronomical: 0 is 1 BC */
    int month, day, hour, minute, second;
    int32_t us;
    bool has_time, has_zone;
    int32_t zone; /* seconds east of UTC */
};

struct in {
    const char *p, *end;
};

/* min to max digits; -1 when there are fewer. */
static int number(struct in *s, int min, int max, int64_t *v) {
    int k = 0;
    *v = 0;
    for (; k < max && s->p < s->end && *s->p >= '0' && *s->p <= '9'; k++)
        *v = *v * 10 + (*s->p++ - '0');
    return k < min ? -1 : 0;
}

static bool take(struct in *s, char c) {
    if (s->p >= s->end || *s->p != c) return false;
    s->p++;
    return true;
}

static int two(struct in *s, int max, int *v) {
    int64_t n;
    if (number(s, 2, 2, &n) < 0 || n > max) return -1;
    *v = (int)n;
    return 0;
}

static int month_days(int64_t y, int m) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return m == 2 && ((y % 4 == 0 && y % 100 != 0) || y % 400 == 0) ? 29 : days[m - 1];
}

/* Days since 1970-01-01 and back; eras of 400 years that begin in March. */
static int64_t days_of(int64_t y, int m, int d) {
    if (m <= 2) y--;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void date_of(int64_t days, struct moment *t) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    t->day = (int)(doy - (153 * mp + 2) / 5 + 1);
    t->month = (int)(mp < 10 ? mp + 3 : mp - 9);
    t->year = yoe + era * 400 + (t->month <= 2);
}

static const char *read_date(struct in *s, struct moment *t) {
    if (number(s, 4, 7, &t->year) < 0 || !take(s, '-')) return "is not written YYYY-MM-DD";
    if (two(s, 99, &t->month) < 0 || !take(s, '-') || two(s, 99, &t->day) < 0) return "is not written YYYY-MM-DD";
    return NULL;
}

/* Behind everything else: " BC" turns the year round; only then is the day known to exist. */
static const char *date_end(struct in *s, struct moment *t) {
    if (t->year == 0) return "names the year 0, which does not exist";
    if (s->end - s->p == 3 && memcmp(s->p, " BC", 3) == 0) {
        s->p += 3;
        t->year = 1 - t->year;
    }
    if (t->month < 1 || t->month > 12 || t->day < 1 || t->day > month_days(t->year, t->month)) return "names a day that does not exist";
    return NULL;
}

static const char *read_time(struct in *s, struct moment *t, int precision, bool midnight) {
    t->has_time = true;
    if (two(s, 24, &t->hour) < 0 || !take(s, ':') || two(s, 59, &t->minute) < 0) return "is not written HH:MM:SS";
    if (!take(s, ':')) goto done;
    if (two(s, 59, &t->second) < 0) return "is not written HH:MM:SS";
    if (take(s, '.')) {
        int k = 0;
        int32_t unit = 100000;
        for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; k++, s->p++) {
            if (*s->p != '0' && k >= precision) return "has more fraction digits than the column";
            if (k < 6) t->us += (*s->p - '0') * unit;
            unit /= 10;
        }
        if (k == 0) return "has no digit behind its point";
    }
done:
    if (t->hour == 24 && (!midnight || t->minute || t->second || t->us)) return "is later than the end of a day";
    return NULL;
}

static const char *read_zone(struct in *s, struct moment *t) {
    int h = 0, m = 0, sec = 0;
    t->has_zone = true;
    if (take(s, 'Z') || take(s, 'z')) return NULL;
    bool west = take(s, '-');
    if (!west && !take(s, '+')) return "has no offset from UTC";
    if (two(s, 15, &h) < 0) return "has an offset that is not [+-]HH:MM";
    bool colon = take(s, ':');
    if ((colon || (s->p < s->end && *s->p >= '0' && *s->p <= '9')) && two(s, 59, &m) < 0) return "has an offset that is not [+-]HH:MM";
    if (colon && take(s, ':') && two(s, 59, &sec) < 0) return "has an offset that is not [+-]HH:MM";
    t->zone = (h * 60 + m) * 60 + sec;
    if (west) t->zone = -t->zone;
    return NULL;
}

/* In UTC from here on. */
static void to_utc(struct moment *t) {
    int64_t sec = days_of(t->year, t->month, t->day) * 86400 + t->hour * 3600 + t->minute * 60 + t->second - t->zone;
    int64_t days = sec / 86400, rest = sec % 86400;
    if (rest < 0) rest += 86400, days--;
    date_of(days, t);
    t->hour = (int)(rest / 3600);
    t->minute = (int)(rest / 60 % 60);
    t->second = (int)(rest % 60);
    t->zone = 0;
}

static int write_fraction(char *out, size_t room, int32_t us) {
    if (!us) return 0;
    int n = snprintf(out, room, ".%06d", (int)us);
    while (out[n - 1] == '0')
        out[--n] = 0;
    return n;
}

static size_t write_moment(const struct moment *t, enum ltype type, char out[CONVERT_TIME_MAX]) {
    size_t n = 0;
    if (type != LT_TIME && type != LT_TIMETZ)
        n +=
            (size_t)snprintf(out, CONVERT_TIME_MAX, "%04lld-%02d-%02d", (long long)(t->year > 0 ? t->year : 1 - t->year), t->month, t->day);
    if (type == LT_TIMESTAMP || type == LT_TIMESTAMPTZ) out[n++] = ' ';
    if (type != LT_DATE) {
        n += (size_t)snprintf(out + n, CONVERT_TIME_MAX - n, "%02d:%02d:%02d", t->hour, t->minute, t->second);
        n += (size_t)write_fraction(out + n, CONVERT_TIME_MAX - n, t->us);
    }
    if (type == LT_TIMETZ || type == LT_TIMESTAMPTZ) {
        int32_t z = t->zone < 0 ? -t->zone : t->zone;
        n += (size_t)snprintf(out + n, CONVERT_TIME_MAX - n, "%c%02d", t->zone < 0 ? '-' : '+', (int)(z / 3600));
        if (z % 3600) n += (size_t)snprintf(out + n, CONVERT_TIME_MAX - n, ":%02d", (int)(z / 60 % 60));
        if (z % 60) n += (size_t)snprintf(out + n, CONVERT_TIME_MAX - n, ":%02d", (int)(z % 60));
    }
    if (type != LT_TIME && type != LT_TIMETZ && t->year <= 0) n += (size_t)snprintf(out + n, CONVERT_TIME_MAX - n, " BC");
    return n;
}

static const char *read_moment(struct in *s, enum ltype type, int precision, struct moment *t) {
    const char *why = NULL;
    bool dated = type == LT_DATE || type == LT_TIMESTAMP || type == LT_TIMESTAMPTZ;
    bool zoned = type == LT_TIMETZ || type == LT_TIMESTAMPTZ;
    if (dated && (why = read_date(s, t))) return why;
    if (type == LT_TIME || type == LT_TIMETZ) {
        if ((why = read_time(s, t, precision, true))) return why;
    } else if (type != LT_DATE && s->p < s->end && (*s->p == 'T' || *s->p == 't' || (*s->p == ' ' && s->end - s->p > 3))) {
        s->p++;
        if ((why = read_time(s, t, precision, false))) return why;
    }
    if (zoned && (why = read_zone(s, t))) return why;
    if (dated && (why = date_end(s, t))) return why;
    if (s->p != s->end)
        return type == LT_TIMESTAMP || type == LT_TIME ? "has something behind its end (an offset has no place there)"
                                                       : "has something behind its end";
    if (!dated) return NULL;
    if (zoned) to_utc(t);
    int64_t julian = days_of(t->year, t->month, t->day) + JULIAN_EPOCH;
    if (julian < 0 || julian >= (type == LT_DATE ? (int64_t)DATE_END_JULIAN : TIMESTAMP_END_JULIAN)) return "is out of range";
    return NULL;
}

int convert_time(const struct column *to, const char *p, size_t n, char out[CONVERT_TIME_MAX], size_t *out_n, struct err *e) {
    struct in s = {p, p + n};
    struct moment t = {0};
    char shown[40];
    bool dated = to->type == LT_DATE || to->type == LT_TIMESTAMP || to->type == LT_TIMESTAMPTZ;
    if (dated && ((n == 8 && memcmp(p, "infinity", 8) == 0) || (n == 9 && memcmp(p, "-infinity", 9) == 0))) {
        memcpy(out, p, n);
        out[n] = 0;
        *out_n = n;
        return 0;
    }
    const char *why = read_moment(&s, to->type, to->precision >= 0 && to->precision < 6 ? to->precision : 6, &t);
    if (why)
        return err_set(e, CODE_VALUE_UNREPRESENTABLE, "'%s' is not a %s: it %s", convert_excerpt(p, n, shown), ltype_name(to->type), why);
    *out_n = write_moment(&t, to->type, out);
    return 0;
}
