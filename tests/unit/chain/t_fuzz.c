/* Bytes that lie behind checksums that fit: decoders refuse or accept them, but never read outside, hang or crash. FUZZ_ROUNDS and
 * FUZZ_SEED set more. */
#include <fcntl.h>

#include "engine/chain/chunk.h"
#include "engine/chain/lineage.h"
#include "engine/chain/record.h"
#include "tests/unit/chain/fixture.h"

static uint64_t seed, rounds;
static uint64_t next(uint64_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return below ? seed % below : 0;
}

static void mutate(char *p, size_t *n, size_t cap) {
    static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX};
    for (uint64_t times = 1 + next(4); times > 0 && *n > 0; times--) {
        size_t at = next(*n);
        uint64_t v = edges[next(9)];
        switch (next(6)) {
        case 0: p[at] = (char)(p[at] ^ 1 << next(8)); break;
        case 1: p[at] = (char)next(256); break;
        case 2: memcpy(p + at, &v, *n - at < 8 ? *n - at : 8); break;
        case 3: *n = at; break;
        case 4:
            if (*n + 16 < cap) {
                memmove(p + at + 8, p + at, *n - at);
                *n += 8;
            }
            break;
        default: {
            size_t from = next(*n), len = next(*n - (from > at ? from : at));
            memmove(p + at, p + from, len);
        }
        }
    }
}

static void seal32(char *p, size_t n, size_t at) {
    uint32_t c = crc32c(0, p, n);
    memcpy(p + at, &c, 4);
}

/* ---- records ---- */

static struct shape *shape;
static int in_force(void *arg, uint32_t table, const struct shape **s, struct err *e) {
    (void)arg;
    if (table != 1) return err_set(e, CODE_CHUNK_CORRUPT, "table %u", table);
    *s = shape;
    return 0;
}
static int change(void *arg, uint32_t t, int64_t oid, const unsigned char *b, const unsigned char *a, const struct shape **o,
                  const struct shape **n, struct err *e) {
    (void)arg, (void)t, (void)oid, (void)b, (void)a, (void)e;
    *o = *n = shape;
    return 0;
}
static const struct record_shapes shapes = {NULL, "sqlite", in_force, change};

static uint64_t read_record(const char *p, size_t n, struct arena *a) {
    struct err e = {0};
    uint64_t sum = 0;
    size_t len = record_length(p, n);
    struct change c = {.seq = 1};
    if (len == 0 || record_decode(p, len, a, &shapes, &c, &e) < 0) return 0;
    for (int k = 0; k < 2; k++) {
        const struct value *v = k ? c.before : c.after;
        for (unsigned i = 0; v && i < shape->ncols; i++)
            for (uint32_t b = 0; v[i].p && b < v[i].len; b++)
                sum += (unsigned char)v[i].p[b];
    }
    for (size_t b = 0; b < c.rows_len; b++)
        sum += (unsigned char)c.rows[b];
    if (c.pos) sum += strlen(c.pos->token);
    return sum + 1;
}

static void records(void) {
    const struct value row[] = {{"1", 1, VALUE_TEXT}, {"one", 3, VALUE_TEXT}};
    struct pos p = fx_pos(110);
    const uint32_t tables[] = {1, 1};
    struct change v[] = {{.op = CHANGE_INSERT, .shape = shape, .after = row},
                         {.op = CHANGE_UPDATE, .before_image = IMAGE_FULL, .shape = shape, .before = row, .after = row},
                         {.op = CHANGE_DELETE, .before_image = IMAGE_KEY, .shape = shape, .before = row},
                         {.op = CHANGE_TRUNCATE, .ntables = 2},
                         {.op = CHANGE_COMMIT, .pos = &p},
                         {.op = CHANGE_SHAPE, .shape = shape, .old_shape = shape},
                         {.op = CHANGE_SEQUENCE, .seq_ns = "a", .seq_name = "b"},
                         {.op = CHANGE_BACKFILL_ROWS, .shape = shape, .rows = "xyz", .rows_len = 3, .nrows = 1}};
    struct buf b = BUF_INIT(MiB(1));
    struct arena *a = arena_new(KiB(64), E);
    uint64_t accepted = 0, whole = 0;
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        buf_reset(&b);
        record_encode(&b, &v[i], 1, tables, E);
        whole += read_record(b.p, b.n, a) > 0;
        for (uint64_t k = 0; k < rounds; k++) {
            char *own = malloc(b.n + 64); /* its own block, so that a sanitizer sees its end */
            size_t n = b.n;
            memcpy(own, b.p, n);
            mutate(own, &n, b.n + 64);
            char *tight = malloc(n ? n : 1);
            memcpy(tight, own, n);
            accepted += read_record(tight, n, a) > 0;
            free(tight);
            free(own);
            arena_reset(a);
        }
    }
    is_int(whole, MEM_ARRAY_LEN(v), "records are read as written");
    ok(accepted < rounds * MEM_ARRAY_LEN(v), "mutated ones never harm: %llu of %llu could be read", (unsigned long long)accepted,
       (unsigned long long)(rounds * MEM_ARRAY_LEN(v)));
    arena_free(a);
    buf_free(&b);
}

/* ---- chunks ---- */

static void chunks(enum compression z) {
    struct store *st = fx_store();
    const struct chunk_name name = {CHUNK_CHANGES, 0, "000102030405060708090a0b0c0d0e0f", "1011121314151617", "18191a1b1c1d1e1f", 5};
    struct chunk_writer w;
    const struct value row[] = {{"1", 1, VALUE_TEXT}, {"one", 3, VALUE_TEXT}};
    struct change c = {.op = CHANGE_INSERT, .shape = shape, .after = row};
    char path[CHAIN_PATH], full[512];
    struct buf b;
    uint64_t opened = 0, sum = 0;
    struct arena *a = arena_new(KiB(64), E);
    chain_hooks.frame_raw = 40;
    chunk_writer_init(&w, st, &name, z, 0, 1, E);
    for (int i = 0; i < 9; i++) {
        size_t at = w.raw.n;
        record_encode(&w.raw, &c, 1, NULL, E);
        chunk_fit(&w, at, E);
        chunk_note_table(&w, 1, (const unsigned char *)"0123456789abcdef0123456789abcdef", E);
        chunk_note_commit(&w, i);
        chunk_added(&w, 1, E);
    }
    ok(chunk_writer_end(&w, E) == 0, "a chunk of %d frames", 5);
    chunk_path(&name, 0, path);
    snprintf(full, sizeof full, "%s/%s", fx_dir, path);
    fx_get(st, path, &b);
    char *own = malloc(b.n + 64);
    for (uint64_t k = 0; k < rounds; k++) {
        struct chunk_ref ref = w.done.v[0];
        size_t n = b.n;
        memcpy(own, b.p, n);
        if (next(3)) { /* one part alone, its checksum made to fit */
            uint64_t index_at;
            uint32_t stored;
            memcpy(&index_at, own + n - 32, 8);
            size_t inside = next(4), len = 8;
            if (inside == 0) {
                mutate(own + 8, &len, 8);
                seal32(own, 60, 60);
            } else if (inside == 1) {
                mutate(own + index_at + next(n - 32 - index_at - 8), &len, 8);
                seal32(own + index_at, n - 32 - index_at, n - 32 - index_at + 12);
            } else if (inside == 2) mutate(own + n - 32, &len, 8);
            else {
                memcpy(&stored, own + 64, 4);
                len = stored;
                mutate(own + 80, &len, len);
                uint32_t crc = crc32c(crc32c(0, own + 64, 12), own + 80, stored);
                memcpy(own + 76, &crc, 4);
            }
            seal32(own + n - 32, 20, 20);
        } else mutate(own, &n, b.n + 64);
        int fd = open(full, O_WRONLY | O_TRUNC);
        if (write(fd, own, n) != (ssize_t)n) exit(1);
        close(fd);
        ref.bytes = n;
        sha256_hex(own, n, ref.digest, E);
        struct chunk_reader *r;
        struct err e = {0};
        if (chunk_reader_open(st, &name, 0, &ref, &r, &e) < 0) continue;
        opened++;
        const struct chunk_frame *f;
        for (size_t i = 0, frames = chunk_reader_frames(r, &f); i < frames; i++) {
            const char *p;
            size_t len;
            if (chunk_reader_frame(r, i, &p, &len, &e) < 0) break;
            for (size_t step; len > 0 && (step = record_length(p, len)) > 0; p += step, len -= step)
                sum += read_record(p, len, a);
        }
        arena_reset(a);
        chunk_reader_close(r);
    }
    ok(opened <= rounds, "%llu of %llu mutated chunks could be opened", (unsigned long long)opened, (unsigned long long)rounds);
    note("%llu", (unsigned long long)sum);
    free(own);
    buf_free(&b);
    arena_free(a);
    chunk_writer_free(&w);
    store_close(st);
    fx_remove();
    chain_hooks.frame_raw = MiB(1);
}

/* ---- documents ---- */

static int parse_any(const char *path, const char *p, size_t n, struct err *e) {
    if (strcmp(path, "lineage.json") == 0) {
        struct lineage l;
        if (lineage_parse(p, n, &l, e) < 0) return -1;
        lineage_free(&l);
    } else if (strstr(path, "full.start.json")) {
        struct opening o;
        if (opening_parse(p, n, path, &o, e) < 0) return -1;
        opening_free(&o);
    } else if (strstr(path, "full.json")) {
        struct full_doc f;
        if (full_doc_parse(p, n, path, &f, e) < 0) return -1;
        full_doc_free(&f);
    } else if (strstr(path, "/done/")) {
        struct done d;
        if (done_parse(p, n, path, &d, e) < 0) return -1;
        done_free(&d);
    } else if (strstr(path, "/links/")) {
        struct manifest m;
        if (manifest_parse(p, n, path, &m, e) < 0) return -1;
        manifest_free(&m);
    } else return -2;
    return 0;
}

static void documents(void) {
    struct store *st = fx_store();
    static struct fx_paths all;
    uint64_t tried = 0, taken = 0;
    bool coded = true;
    fx_full(st, 2, 2, COMPRESSION_NONE);
    struct chain *c = fx_open(st);
    fx_link(c, 1, 1, 110, COMPRESSION_NONE);
    chain_close(c);
    all = *fx_list(st, "");
    for (size_t i = 0; i < all.n; i++) {
        struct buf b;
        struct err e = {0};
        fx_get(st, all.v[i], &b);
        if (parse_any(all.v[i], b.p, b.n, &e) == 0) {
            char *own = malloc(b.n + 128);
            for (uint64_t k = 0; k < rounds; k++, tried++) {
                size_t n = b.n - 22;
                memcpy(own, b.p, n);
                if (next(2)) { /* another value in place of one */
                    static const char *const values[] = {"null", "-1",     "0",   "9223372036854775807", "\"\"", "[]", "{}", "true",
                                                         "1.5",  "[null]", "[{}]"};
                    const char *v = values[next(11)];
                    size_t at = next(n), end;
                    while (at < n && own[at] != ':')
                        at++;
                    end = at < n ? ++at : at;
                    while (end < n && !strchr(",}]", own[end]))
                        end++;
                    if (at < n && n - (end - at) + strlen(v) < b.n + 64) {
                        memmove(own + at + strlen(v), own + end, n - end);
                        memcpy(own + at, v, strlen(v));
                        n = n - (end - at) + strlen(v);
                    }
                } else mutate(own, &n, b.n + 64);
                n += (size_t)snprintf(own + n, 32, ",\"crc32c\":\"%08x\"}\n", crc32c(0, own, n));
                err_clear(&e);
                if (parse_any(all.v[i], own, n, &e) == 0) taken++;
                else if (e.code != CODE_MANIFEST_INVALID && e.code != CODE_FORMAT_UNSUPPORTED && e.code != CODE_LIMIT) {
                    if (coded) note("%s: %s", err_code_name(e.code), e.msg);
                    coded = false;
                }
            }
            free(own);
        }
        buf_free(&b);
    }
    ok(coded, "mutated documents are refused by code");
    ok(taken < tried, "%llu of %llu were taken", (unsigned long long)taken, (unsigned long long)tried);
    store_close(st);
    fx_remove();
}

int main(void) {
    const char *r = getenv("FUZZ_ROUNDS"), *s = getenv("FUZZ_SEED");
    rounds = r ? strtoull(r, NULL, 10) : 2000;
    seed = s ? strtoull(s, NULL, 10) : 88172645463325252ull;
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    note("seed=%llu replay with FUZZ_SEED", (unsigned long long)seed);
    shape = fx_shape("t", 0);
    records();
    chunks(COMPRESSION_NONE);
    chunks(COMPRESSION_ZSTD);
    documents();
    shape_free(shape);
    return done_testing();
}
