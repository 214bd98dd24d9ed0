/* Hashes: SHA-256 (OpenSSL), CRC32C (hardware where there is some), random bits. */
#ifndef SLUICE_BASE_HASH_H
#define SLUICE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct sha256;
struct sha256 *sha256_new(struct err *e);
int sha256_add(struct sha256 *h, const void *p, size_t n, struct err *e);
int sha256_end(struct sha256 *h, unsigned char out[32], struct err *e); /* and begins anew */
void sha256_free(struct sha256 *h);
int sha256_once(const void *p, size_t n, unsigned char out[32], struct err *e);
int sha256_hex(const void *p, size_t n, char out[65], struct err *e);

uint32_t crc32c(uint32_t crc, const void *p, size_t n);   /* begin with 0 */
uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n); /* the same by tables; crc32c uses it where the CPU lacks SSE4.2 */
int random_bytes(void *p, size_t n, struct err *e);
int random_hex16(char out[17], struct err *e);            /* 64 random bits */
uint64_t hash64(const void *p, size_t n, uint64_t seed);  /* fast, not cryptographic; for tables in memory only, never stored */

#endif
