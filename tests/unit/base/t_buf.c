#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static void refuses_growth_past_limit(void) {
    struct buf b = BUF_INIT(4);
    struct err e = {0};
    ok(buf_add(&b, "12345", 5, &e) == -1 && e.class == ERR_REFUSE && e.code == CODE_LIMIT, "5 bytes into a 4 byte buffer");
    is_int(b.n, 0, "nothing was added");
    ok(buf_add(&b, "1234", 4, &e) == 0, "4 bytes fit");
    is_str(buf_str(&b, &e), "1234", "a full buffer still has room for its terminator");
    ok(buf_addc(&b, 'x', &e) == -1 && b.n == 4, "not a byte more");
    ok(buf_addf(&b, &e, "%d", 5) == -1 && b.n == 4, "formatted neither");
    ok(buf_addf(&b, &e, "%s", "") == 0 && b.n == 4, "an empty text fits always");
    ok(buf_u16(&b, 1, &e) == -1 && b.n == 4, "an integer neither");
    ok(buf_reserve(&b, SIZE_MAX, &e) == -1, "a sum that overflows is refused");
    buf_free(&b);
    ok(b.p == NULL && b.n == 0, "freed to zero state");
    struct buf zero = {0};
    ok(buf_addc(&zero, 'x', &e) == -1, "a zeroed buffer takes nothing");
    buf_free(&zero);
}

static void lenstr_is_whole_or_absent(void) {
    struct buf b = BUF_INIT(4);
    struct err e = {0};
    ok(buf_lenstr(&b, "1234", 4, &e) == -1, "length and 4 bytes need 5");
    is_int(b.n, 0, "no length without its bytes");
    ok(buf_lenstr(&b, "123", 3, &e) == 0 && b.n == 4, "3 fit");
    buf_free(&b);
}

static void text_and_take(void) {
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    size_t n = 0;
    is_str(buf_str(&b, &e), "", "an empty buffer is the empty text");
    buf_adds(&b, "a", &e);
    buf_addc(&b, 'b', &e);
    for (int i = 0; i < 100; i++) buf_addf(&b, &e, "%03d", i);
    is_int(b.n, 302, "formatted across growth");
    ok(memcmp(b.p + 2, "000001002", 9) == 0 && memcmp(b.p + 299, "099", 3) == 0, "every piece is there");
    char *p = buf_take(&b, &n, &e);
    is_int(n, 302, "taken length");
    is_int(strlen(p), 302, "taken text is terminated");
    ok(b.p == NULL && b.n == 0 && b.cap == 0, "empty after take");
    mem_free(p);
    ok(buf_adds(&b, "again", &e) == 0, "and usable again");
    char *mem = b.p;
    buf_reset(&b);
    ok(b.n == 0 && b.p == mem, "reset keeps the memory");
    buf_free(&b);
}

static void integers_round_trip(void) {
    struct buf b = BUF_INIT(KiB(4));
    struct err e = {0};
    static const uint64_t v[] = {0, 1, 127, 128, 255, 16383, 16384, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX};
    static const unsigned char le[] = {0x12, 0x02, 0x01, 0x04, 0x03, 0x02, 0x01, 8, 7, 6, 5, 4, 3, 2, 1, 0xac, 0x02};
    buf_u8(&b, 0x12, &e);
    buf_u16(&b, 0x0102, &e);
    buf_u32(&b, 0x01020304, &e);
    buf_u64(&b, UINT64_C(0x0102030405060708), &e);
    buf_varint(&b, 300, &e);
    ok(b.n == sizeof le && memcmp(b.p, le, sizeof le) == 0, "little-endian and LEB128 bytes");
    struct rd r = RD(b.p, b.n);
    uint8_t a;
    uint16_t c;
    uint32_t d;
    uint64_t x;
    ok(rd_u8(&r, &a) == 0 && a == 0x12 && rd_u16(&r, &c) == 0 && c == 0x0102 && rd_u32(&r, &d) == 0 && d == 0x01020304, "read back");
    ok(rd_u64(&r, &x) == 0 && x == UINT64_C(0x0102030405060708) && rd_varint(&r, &x) == 0 && x == 300 && RD_LEFT(&r) == 0, "to the end");
    ok(rd_u8(&r, &a) == -1, "and not past it");
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        buf_reset(&b);
        buf_varint(&b, v[i], &e);
        r = RD(b.p, b.n);
        ok(rd_varint(&r, &x) == 0 && x == v[i] && RD_LEFT(&r) == 0, "varint %llu", (unsigned long long)v[i]);
        for (size_t cut = 0; cut < b.n; cut++) {
            r = RD(b.p, cut);
            if (rd_varint(&r, &x) == 0) ok(0, "varint %llu cut at %zu is malformed", (unsigned long long)v[i], cut);
        }
    }
    buf_free(&b);
}

static void readers_stop_at_the_end(void) {
    static const unsigned char over[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    static const unsigned char eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    static const unsigned char longer[] = {5, 'a', 'b'};
    static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'a'};
    struct rd r;
    uint64_t x;
    uint16_t c;
    uint32_t d;
    const char *p;
    size_t n;
    r = RD(over, sizeof over);
    ok(rd_varint(&r, &x) == -1, "a varint above 64 bits is malformed");
    r = RD(eleven, sizeof eleven);
    ok(rd_varint(&r, &x) == -1, "a varint of 11 bytes is malformed");
    r = RD(longer, sizeof longer);
    ok(rd_lenstr(&r, &p, &n) == -1, "a length past the end");
    r = RD(huge, sizeof huge);
    ok(rd_lenstr(&r, &p, &n) == -1, "a length of 2^64-1");
    r = RD(longer, 1);
    ok(rd_u16(&r, &c) == -1, "half a u16");
    r = RD(longer, 3);
    ok(rd_u32(&r, &d) == -1 && rd_u64(&r, &x) == -1, "three bytes are no u32 and no u64");
    r = RD(longer, 3);
    ok(rd_bytes(&r, 3, &p) == 0 && p == (const char *)longer && rd_bytes(&r, 0, &p) == 0 && rd_bytes(&r, 1, &p) == -1, "bytes up to the end");
    r = RD(longer, 0);
    ok(rd_varint(&r, &x) == -1, "nothing to read");
}

/* One build of everything; with the n-th allocation failing it must say so and leave the buffer whole. */
static int build(struct buf *b, struct err *e) {
    char big[5000];
    memset(big, 'z', sizeof big);
    if (buf_adds(b, "begin", e) < 0 || buf_add(b, big, sizeof big, e) < 0 || buf_addf(b, e, "%.*s", 4999, big) < 0) return -1;
    if (buf_lenstr(b, big, sizeof big, e) < 0) return -1;
    for (int i = 0; i < 20000; i++)
        if (buf_u64(b, (uint64_t)i, e) < 0) return -1;
    return buf_str(b, e) ? 0 : -1;
}

static void allocation_failures(void) {
    long n = 0;
    for (;; n++) {
        struct buf b = BUF_INIT(MiB(1));
        struct err e = {0};
        mem_fail_after(n);
        int rc = build(&b, &e);
        mem_fail_after(-1);
        if (rc == 0) {
            is_int(b.n, 5 + 5000 + 4999 + 5002 + 160000, "the sweep ends in success");
            buf_free(&b);
            break;
        }
        size_t used = b.n;
        if (e.code != CODE_NO_MEMORY || (used >= 5 && memcmp(b.p, "begin", 5) != 0)) ok(0, "failure %ld is reported and harmless", n);
        ok(buf_addc(&b, 'x', &e) == 0 && b.n == used + 1, "the buffer works on after failure %ld", n);
        buf_free(&b);
    }
    ok(n >= 4, "%ld allocations failed one after the other", n);
}

int main(void) {
    refuses_growth_past_limit();
    lenstr_is_whole_or_absent();
    text_and_take();
    integers_round_trip();
    readers_stop_at_the_end();
    allocation_failures();
    return done_testing();
}
