#include "engine/base/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"

struct sha256 {
    EVP_MD_CTX *ctx;
};

static int sha_failed(struct err *e) { return err_set(e, CODE_INTERNAL, "cannot compute a SHA-256 digest: OpenSSL refused"); }

struct sha256 *sha256_new(struct err *e) {
    struct sha256 *h = mem_alloc(sizeof *h, e);
    if (!h) return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx) {
        err_set(e, CODE_NO_MEMORY, "cannot get memory for a SHA-256 digest");
        goto fail;
    }
    if (EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        sha_failed(e);
        goto fail;
    }
    return h;
fail:
    sha256_free(h);
    return NULL;
}

int sha256_add(struct sha256 *h, const void *p, size_t n, struct err *e) {
    return n == 0 || EVP_DigestUpdate(h->ctx, p, n) == 1 ? 0 : sha_failed(e);
}

int sha256_end(struct sha256 *h, unsigned char out[32], struct err *e) {
    if (EVP_DigestFinal_ex(h->ctx, out, NULL) != 1 || EVP_DigestInit_ex(h->ctx, NULL, NULL) != 1) return sha_failed(e);
    return 0;
}

void sha256_free(struct sha256 *h) {
    if (!h) return;
    EVP_MD_CTX_free(h->ctx);
    mem_free(h);
}

int sha256_once(const void *p, size_t n, unsigned char out[32], struct err *e) {
    return EVP_Digest(n ? p : "", n, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : sha_failed(e);
}

int sha256_hex(const void *p, size_t n, char out[65], struct err *e) {
    unsigned char d[32];
    if (sha256_once(p, n, d, e) < 0) return -1;
    text_hex(d, sizeof d, out);
    return 0;
}

/* CRC32C, reflected polynomial 0x82F63B78. Tables: t[k][b] is byte b followed by k zero bytes, so eight bytes fold in one step. */
static uint32_t t[8][256];
static pthread_once_t t_once = PTHREAD_ONCE_INIT;

static void t_fill(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ UINT32_C(0x82F63B78) : c >> 1;
        t[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
}

uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n) {
    const unsigned char *s = p;
    pthread_once(&t_once, t_fill);
    crc = ~crc;
    for (; n >= 8; s += 8, n -= 8) {
        crc ^= (uint32_t)s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
        crc = t[7][crc & 255] ^ t[6][crc >> 8 & 255] ^ t[5][crc >> 16 & 255] ^ t[4][crc >> 24] ^ t[3][s[4]] ^ t[2][s[5]] ^ t[1][s[6]] ^ t[0][s[7]];
    }
    for (; n; s++, n--) crc = crc >> 8 ^ t[0][(crc ^ *s) & 255];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *p, size_t n) {
    const unsigned char *s = p;
    uint64_t c = (uint32_t)~crc;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        c = __builtin_ia32_crc32di(c, w);
    }
    uint32_t c32 = (uint32_t)c;
    for (; n; s++, n--) c32 = __builtin_ia32_crc32qi(c32, *s);
    return ~c32;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, p, n) : crc32c_portable(crc, p, n);
}
#else
uint32_t crc32c(uint32_t crc, const void *p, size_t n) { return crc32c_portable(crc, p, n); }
#endif

int random_bytes(void *p, size_t n, struct err *e) {
    for (unsigned char *s = p; n;) {
        ssize_t got = getrandom(s, n, 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            return err_set(e, CODE_IO, "cannot get random bytes: %s", strerror(errno));
        }
        s += got;
        n -= (size_t)got;
    }
    return 0;
}

int random_hex16(char out[17], struct err *e) {
    unsigned char r[8];
    if (random_bytes(r, sizeof r, e) < 0) return -1;
    text_hex(r, sizeof r, out);
    return 0;
}

/* Multiply to 128 bits and fold: every input bit reaches every output bit. */
static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t hash64(const void *p, size_t n, uint64_t seed) {
    /* odd, with about as many ones as zeros; any such numbers do */
    const uint64_t k1 = UINT64_C(0x9E3779B97F4A7C15), k2 = UINT64_C(0xD6E8FEB86659FD93), k3 = UINT64_C(0xA3B195354A39B70D);
    const unsigned char *s = p;
    uint64_t h = fold(seed ^ k1, (uint64_t)n ^ k2), a, b;
    for (; n > 16; s += 16, n -= 16) {
        memcpy(&a, s, 8);
        memcpy(&b, s + 8, 8);
        h = fold(a ^ h ^ k2, b ^ k3) ^ (h << 29 | h >> 35);
    }
    a = b = 0;
    if (n > 8) {
        memcpy(&a, s, 8);
        memcpy(&b, s + 8, n - 8);
    } else if (n) {
        memcpy(&a, s, n);
    }
    return fold(fold(a ^ h ^ k2, b ^ k3) ^ h, k1);
}
