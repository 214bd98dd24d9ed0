#include <stdlib.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static void sha(void) {
    struct err e = {0};
    char hex[65], twice[65];
    unsigned char d[32], once[32];
    sha256_hex("abc", 3, hex, &e);
    is_str(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "SHA-256 of abc");
    sha256_hex(NULL, 0, hex, &e);
    is_str(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "SHA-256 of nothing");
    struct sha256 *h = sha256_new(&e);
    for (int round = 0; round < 2; round++) {
        ok(sha256_add(h, "a", 1, &e) == 0 && sha256_add(h, NULL, 0, &e) == 0 && sha256_add(h, "bc", 2, &e) == 0 && sha256_end(h, d, &e) == 0, "in pieces");
        sha256_once("abc", 3, once, &e);
        ok(memcmp(d, once, 32) == 0, "the same, and anew after the end (round %d)", round);
    }
    sha256_free(h);
    sha256_free(NULL);
    mem_fail_after(0);
    ok(sha256_new(&e) == NULL && e.code == CODE_NO_MEMORY, "no memory");
    random_hex16(hex, &e);
    random_hex16(twice, &e);
    ok(strlen(hex) == 16 && strspn(hex, "0123456789abcdef") == 16 && strcmp(hex, twice) != 0, "64 random bits as hex");
}

static void crc(void) {
    unsigned char zeros[32] = {0}, ones[32];
    static unsigned char data[5000];
    memset(ones, 0xff, sizeof ones);
    is_int(crc32c(0, "123456789", 9), 0xE3069283, "CRC32C check value");
    is_int(crc32c_portable(0, "123456789", 9), 0xE3069283, "the same by tables");
    is_int(crc32c(0, zeros, 32), 0x8A9136AA, "32 zero bytes");
    is_int(crc32c_portable(0, ones, 32), 0x62A8AB43, "32 bytes of 0xff");
    is_int(crc32c(0, NULL, 0), 0, "nothing");
    is_int(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xE3069283, "in pieces");
    srand(1);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)rand();
    int differ = 0;
    for (size_t at = 0; at < 20; at++)
        for (size_t n = 0; n < 300; n++) differ += crc32c(7, data + at, n) != crc32c_portable(7, data + at, n);
    is_int(differ, 0, "hardware and tables agree at every length and alignment");
    is_int(crc32c(0, data, sizeof data), crc32c_portable(0, data, sizeof data), "and on a long one");
}

static void fast(void) {
    static uint64_t seen[2000];
    unsigned char d[40] = {0};
    size_t n = 0;
    int twice = 0;
    /* every length, and every single bit of 40 bytes: no two may meet */
    for (size_t len = 0; len <= 40; len++) seen[n++] = hash64(d, len, 1);
    for (size_t bit = 0; bit < 320; bit++) {
        d[bit / 8] ^= (unsigned char)(1u << bit % 8);
        seen[n++] = hash64(d, 40, 1);
        d[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) twice += seen[i] == seen[k];
    is_int(twice, 0, "hash64 tells lengths and single bits apart");
    ok(hash64(d, 40, 1) != hash64(d, 40, 2), "and seeds");
    ok(hash64(d, 40, 1) == hash64(d, 40, 1), "and is a function");
    /* low bits serve as table slots: 4096 consecutive integers into 4096 slots leave about 1/e of them empty */
    static unsigned char used[4096];
    int slots = 0;
    for (uint64_t i = 0; i < 4096; i++) used[hash64(&i, 8, 0) & 4095] = 1;
    for (int i = 0; i < 4096; i++) slots += used[i];
    ok(slots > 2450 && slots < 2730, "consecutive integers spread over the slots (%d of 4096 used)", slots);
}

int main(void) {
    sha();
    crc();
    fast();
    return done_testing();
}
