/* Rows on the wire are frozen: the vectors here are the format. COPY text follows PostgreSQL's reader and writer. */
#include "engine/base/value.h"

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "tests/tap.h"

#define T(s) ((struct value){(s), (uint32_t)sizeof(s) - 1, VALUE_TEXT})
#define B(s) ((struct value){(s), (uint32_t)sizeof(s) - 1, VALUE_BYTES})
#define BIN(s) ((struct value){(s), (uint32_t)sizeof(s) - 1, VALUE_BINARY})
#define NUL VALUE_OF_NULL
#define UNCHANGED ((struct value){NULL, 0, VALUE_UNCHANGED})

static struct arena *arena;

static void encodes(const struct value *v, uint16_t n, const char *hex, const char *name) {
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    char got[4096] = "";
    if (row_encode(&b, v, n, &e) == 0) text_hex(b.p, b.n, got);
    is_str(got, hex, "%s", name);
    struct value *back;
    uint16_t m;
    struct rd r = RD(b.p, b.n);
    int rc = row_decode(&r, arena, &back, &m, &e);
    bool same = rc == 0 && m == n && RD_LEFT(&r) == 0;
    for (uint16_t i = 0; same && i < n; i++)
        same = value_equal(&back[i], &v[i]) && (v[i].p != NULL || back[i].p == NULL);
    ok(same, "%s: comes back", name);
    buf_free(&b);
}

static void rows_have_frozen_bytes(void) {
    encodes((struct value[]){T("abc"), NUL, UNCHANGED, T(""), B("\x00\xff"), BIN("i42")}, 6,
            "061a616263000102"
            "1300ff1c693432",
            "a row of every kind");
    encodes(NULL, 0, "00", "a row without columns");
    static char big[300];
    memset(big, 'x', sizeof big);
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    struct value v = {big, sizeof big, VALUE_TEXT};
    char got[32] = "";
    row_encode(&b, &v, 1, &e);
    text_hex(b.p, 5, got);
    is_str(got, "01e2127878", "300 bytes: the head takes two bytes, low seven bits first");
    is_int(b.n, 303, "and nothing else is added");
    buf_free(&b);
}

static void refused(const char *hex, const char *name) {
    unsigned char bytes[64];
    struct err e = {0};
    struct value *v;
    uint16_t n;
    text_unhex(hex, strlen(hex), bytes);
    struct rd r = RD(bytes, strlen(hex) / 2);
    ok(row_decode(&r, arena, &v, &n, &e) == -1 && e.code == CODE_CHUNK_CORRUPT, "%s", name);
}

static void bad_rows_are_refused(void) {
    refused("", "nothing at all");
    refused("02", "two columns claimed, none there");
    refused("ffff03", "65535 columns in no bytes");
    refused("80808008aa", "more columns than a row can have");
    refused("011a6162", "text cut by one byte");
    refused("0105", "a kind that does not exist");
    refused("01ffffffffffffffffff7f", "a length past all bytes");
    refused("0108", "a NULL of one byte");
    refused("010961", "an UNCHANGED with content");
    refused("0182", "a head that ends within");
    struct buf b = BUF_INIT(64);
    struct err e = {0};
    struct value v = {"x", 1, VALUE_NULL};
    ok(row_encode(&b, &v, 1, &e) == -1 && e.code == CODE_INTERNAL && b.n == 0, "a NULL with content is not written");
    struct buf small = BUF_INIT(3);
    struct value t = T("abc");
    err_clear(&e);
    ok(row_encode(&small, &t, 1, &e) == -1 && e.code == CODE_LIMIT && small.n == 0, "a row past the cap leaves the buffer as it was");
    buf_free(&b);
    buf_free(&small);
}

static void copy_is(const struct value *v, uint16_t n, const char *want, const char *name) {
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    copytext_encode(&b, v, n, &e);
    is_str(buf_str(&b, &e), want, "%s", name);
    buf_free(&b);
}

static void copy_text_is_escaped(void) {
    copy_is((struct value[]){T("a"), NUL, T("")}, 3, "a\t\\N\t\n", "text, NULL, empty");
    copy_is((struct value[]){T("\b\f\n\r\t\v\\")}, 1, "\\b\\f\\n\\r\\t\\v\\\\\n", "every escape");
    copy_is((struct value[]){T("plain text that is long\twith one tab and more behind it\\")}, 1,
            "plain text that is long\\twith one tab and more behind it\\\\\n", "runs between escapes");
    copy_is((struct value[]){T("\x01\x1b\x7f\xc3\xa9")}, 1, "\x01\x1b\x7f\xc3\xa9\n", "other bytes stand for themselves");
    copy_is((struct value[]){T("\\N")}, 1, "\\\\N\n", "a text \\N is not NULL");
    copy_is((struct value[]){B("\x00\xff\x10")}, 1, "\\\\x00ff10\n", "bytes as hex with a doubled backslash");
    struct buf b = BUF_INIT(64);
    struct err e = {0};
    ok(copytext_encode(&b, &(struct value){"a\0b", 3, VALUE_TEXT}, 1, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE,
       "a NUL character is refused");
    err_clear(&e);
    ok(copytext_encode(&b, &UNCHANGED, 1, &e) == -1 && e.code == CODE_INTERNAL, "UNCHANGED cannot be copied");
    buf_free(&b);
}

/* fields parted by '|', NULL as <null> */
static const char *decoded(const char *line, size_t len, uint16_t n, struct err *e) {
    static char out[512];
    struct value v[16];
    size_t at = 0;
    out[0] = 0;
    if (copytext_decode(line, len, arena, v, n, e) < 0) return err_code_name(e->code);
    for (uint16_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s", i ? "|" : "", v[i].kind == VALUE_NULL ? 6 : (int)v[i].len,
                               v[i].kind == VALUE_NULL ? "<null>" : v[i].p);
    return out;
}
#define DECODES(line, n, want, name)                                                                                                       \
    do {                                                                                                                                   \
        struct err e_ = {0};                                                                                                               \
        is_str(decoded((line), sizeof(line) - 1, (n), &e_), (want), name);                                                                 \
    } while (0)

static void copy_text_is_read(void) {
    DECODES("a\tb", 2, "a|b", "two fields");
    DECODES("", 1, "", "an empty line is one empty field");
    DECODES("\t\t", 3, "||", "three empty fields");
    DECODES("\\N\ta\t\\N", 3, "<null>|a|<null>", "NULL");
    DECODES("\\Nx", 1, "Nx", "\\N with more behind it is not NULL");
    DECODES("x\\N", 1, "xN", "\\N with more before it is not NULL");
    DECODES("\\b\\f\\n\\r\\t\\v\\\\", 1, "\b\f\n\r\t\v\\", "letters");
    DECODES("a\\\tb\tc", 2, "a\tb|c", "a backslash before a tab makes it data");
    DECODES("\\101\\60\\7x\\1019", 1,
            "A0\ax"
            "A9",
            "octal of one to three digits");
    DECODES("\\x41\\x4g\\xzz", 1, "A\x04gxzz", "hex of one or two digits, none is an x");
    DECODES("\\q\\.", 1, "q.", "any other character stands for itself");
    DECODES("first\tse\\\\cond\tth\\tird\tplain", 4, "first|se\\cond|th\tird|plain", "escapes in the middle of a line");
    DECODES("a", 2, "SLUICE-E-CHUNK-CORRUPT", "too few fields");
    DECODES("a\tb\tc", 2, "SLUICE-E-CHUNK-CORRUPT", "too many fields");
    DECODES("a\\n\tb", 1, "SLUICE-E-CHUNK-CORRUPT", "too many fields behind an escape");
    DECODES("a\\", 1, "SLUICE-E-CHUNK-CORRUPT", "a lone backslash at the end");
    DECODES("a\\0b", 1, "SLUICE-E-CHUNK-CORRUPT", "an escaped NUL");
    DECODES("", 0, "", "no columns, nothing there");
    DECODES("x", 0, "SLUICE-E-CHUNK-CORRUPT", "no columns, something there");
}

/* law: decode(encode(row)) = row, for every byte but NUL at every place of a word */
static void every_byte_survives(void) {
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    int good = 0;
    for (int c = 1; c < 256; c++)
        for (int at = 0; at < 17; at++) {
            char text[18], fill = (char)('a' + at);
            memset(text, fill, sizeof text);
            text[at] = (char)c;
            struct value v[2] = {{text, 17, VALUE_TEXT}, {text, (uint32_t)at, VALUE_TEXT}}, back[2];
            buf_reset(&b);
            good += copytext_encode(&b, v, 2, &e) == 0 && b.p[b.n - 1] == '\n' && memchr(b.p, '\n', b.n) == b.p + b.n - 1 &&
                    copytext_decode(b.p, b.n - 1, arena, back, 2, &e) == 0 && value_equal(&v[0], &back[0]) && value_equal(&v[1], &back[1]);
        }
    is_int(good, 255 * 17, "each byte at each place");
    buf_free(&b);
}

static void failing_memory_is_told(void) {
    struct value v[2] = {T("some\ttext"), B("bytes")};
    for (long k = 0; k < 2; k++) {
        struct buf b = BUF_INIT(MiB(1));
        struct err e = {0};
        mem_fail_after(k);
        int rc = copytext_encode(&b, v, 2, &e);
        mem_fail_after(-1);
        ok(rc == 0 || e.code == CODE_NO_MEMORY, "copytext_encode: allocation %ld fails", k);
        err_clear(&e);
        buf_reset(&b);
        ok(copytext_encode(&b, v, 2, &e) == 0, "and it works afterwards");
        buf_free(&b);
    }
    struct err e = {0};
    struct buf b = BUF_INIT(MiB(1));
    mem_fail_after(0);
    ok(row_encode(&b, v, 2, &e) == -1 && e.code == CODE_NO_MEMORY, "row_encode: no memory");
    mem_fail_after(-1);
    buf_free(&b);
    struct arena *a = arena_new(KiB(1), &e);
    static unsigned char wide[2 + 5000] = {0x88, 0x27}; /* 5000 NULLs: the array needs a block of its own */
    struct value *out;
    uint16_t n;
    struct rd r = RD(wide, sizeof wide);
    err_clear(&e);
    mem_fail_after(0);
    ok(row_decode(&r, a, &out, &n, &e) == -1 && e.code == CODE_NO_MEMORY, "row_decode: no memory");
    mem_fail_after(-1);
    r = RD(wide, sizeof wide);
    ok(row_decode(&r, a, &out, &n, &e) == 0 && n == 5000, "and it works afterwards");
    arena_free(a);
}

int main(void) {
    struct err e = {0};
    arena = arena_new(KiB(64), &e);
    rows_have_frozen_bytes();
    bad_rows_are_refused();
    copy_text_is_escaped();
    copy_text_is_read();
    every_byte_survives();
    failing_memory_is_told();
    ok(!value_equal(&(struct value){"", 0, VALUE_TEXT}, &(struct value){"", 0, VALUE_BYTES}), "kinds differ, values differ");
    ok(!value_equal(&NUL, &UNCHANGED), "UNCHANGED is not NULL");
    arena_free(arena);
    return done_testing();
}
