/* Frozen bytes of format 1. A difference here means that chains written before can no longer be read: change the format's number, not this
 * file. */
#include "engine/chain/chunk.h"
#include "engine/chain/record.h"
#include "tests/unit/chain/fixture.h"

#include <zstd.h>

static char *hex_of(const struct buf *b) {
    char *h = malloc(b->n * 2 + 1);
    text_hex(b->p, b->n, h);
    return h;
}

static void same_hex(const struct buf *b, const char *want, const char *name) {
    char *h = hex_of(b);
    is_str(h, want, "%s", name);
    free(h);
}

static void records(void) {
    struct shape *s = fx_shape("t1", 0), *s2 = fx_shape("t1", 1);
    const struct value row[] = {{"1", 1, VALUE_TEXT}, {"one", 3, VALUE_TEXT}}, key[] = {{"1", 1, VALUE_TEXT}, {NULL, 0, VALUE_UNCHANGED}};
    struct pos p = fx_pos(110);
    const uint32_t both[] = {1, 300};
    const struct {
        struct change c;
        uint32_t table;
        const char *hex, *name;
    } v[] = {
        {{.op = CHANGE_INSERT, .shape = s, .after = row},
         1,
         "09000000"
         "01"
         "01"
         "02"
         "0a31"
         "1a6f6e65",
         "insert"},
        {{.op = CHANGE_UPDATE, .shape = s, .after = row},
         1,
         "0a000000"
         "02"
         "01"
         "00"
         "02"
         "0a31"
         "1a6f6e65",
         "update without a before image"},
        {{.op = CHANGE_UPDATE, .before_image = IMAGE_KEY, .shape = s, .before = key, .after = row},
         1,
         "0e000000"
         "02"
         "01"
         "01"
         "02"
         "0a31"
         "01"
         "02"
         "0a31"
         "1a6f6e65",
         "update with its key"},
        {{.op = CHANGE_DELETE, .before_image = IMAGE_KEY, .shape = s, .before = key},
         300,
         "08000000"
         "03"
         "ac02"
         "01"
         "02"
         "0a31"
         "01",
         "delete"},
        {{.op = CHANGE_TRUNCATE, .flags = TRUNCATE_CASCADE, .ntables = 2},
         1,
         "06000000"
         "04"
         "01"
         "02"
         "01"
         "ac02",
         "truncate"},
        {{.op = CHANGE_COMMIT, .time_us = 1, .pos = &p},
         0,
         "0d000000"
         "05"
         "0100000000000000"
         "03313130",
         "commit"},
        {{.op = CHANGE_SEQUENCE, .seq_ns = "a", .seq_name = "bc", .seq_value = -2, .seq_called = 1},
         0,
         "0f000000"
         "07"
         "0161"
         "026263"
         "feffffffffffffff"
         "01",
         "sequence"},
        {{.op = CHANGE_BACKFILL_BEGIN, .shape = s, .pos = &p},
         1,
         "06000000"
         "08"
         "01"
         "03313130",
         "backfill begin"},
        {{.op = CHANGE_BACKFILL_ROWS, .shape = s, .rows = "xyz", .rows_len = 3, .nrows = 2},
         1,
         "07000000"
         "09"
         "01"
         "02"
         "0378797a",
         "backfill rows"},
        {{.op = CHANGE_BACKFILL_END, .shape = s},
         1,
         "03000000"
         "0a"
         "01"
         "00",
         "backfill end"},
        {{.op = CHANGE_HEARTBEAT, .time_us = 256},
         0,
         "0a000000"
         "0b"
         "0001000000000000"
         "00",
         "heartbeat"},
    };
    struct buf b = BUF_INIT(MiB(1));
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        buf_reset(&b);
        ok(record_encode(&b, &v[i].c, v[i].table, both, E) == 0, "%s: %s", v[i].name, fx_err.msg);
        same_hex(&b, v[i].hex, v[i].name);
    }
    char want[512];
    snprintf(want, sizeof want,
             "4c000000"
             "06"
             "07"
             "0900000000000000"
             "20%s"
             "20%s",
             s->digest, s2->digest);
    s2->oid = 9;
    buf_reset(&b);
    struct change c = {.op = CHANGE_SHAPE, .shape = s2, .old_shape = s};
    ok(record_encode(&b, &c, 7, NULL, E) == 0, "shape");
    same_hex(&b, want, "shape");
    buf_free(&b);
    shape_free(s);
    shape_free(s2);
}

static void chunk(struct store *st) {
    const struct chunk_name name = {CHUNK_CHANGES, 0, "000102030405060708090a0b0c0d0e0f", "1011121314151617", "18191a1b1c1d1e1f", 5};
    struct chunk_writer w;
    struct buf b;
    unsigned char digest[32];
    memset(digest, 0xab, sizeof digest);
    ok(chunk_writer_init(&w, st, &name, COMPRESSION_NONE, 0, 42, E) == 0, "writer");
    buf_add(&w.raw, "\x02\x00\x00\x00\x01\x01", 6, E);
    chunk_fit(&w, 0, E);
    chunk_note_table(&w, 1, digest, E);
    chunk_added(&w, 1, E);
    buf_add(&w.raw, "\x01\x00\x00\x00\x05", 5, E);
    chunk_fit(&w, 6, E);
    chunk_note_commit(&w, 7);
    chunk_added(&w, 1, E);
    ok(chunk_writer_end(&w, E) == 0, "stored: %s", fx_err.msg);
    ok(fx_get(st, "seg-1011121314151617/log/5-18191a1b1c1d1e1f/0.chunk", &b) == 0, "where the format says");
    same_hex(&b,
             "534c4348554e4b31"
             "02000000"
             "000102030405060708090a0b0c0d0e0f"
             "1011121314151617"
             "18191a1b1c1d1e1f"
             "0500000000000000"
             "0000000000000000"
             "5d3955b9"
             "0b000000"
             "0b000000"
             "02000000"
             "bb853b02"
             "020000000101"
             "0100000005"
             "40"
             "0b"
             "0b"
             "02"
             "2a"
             "01"
             "01"
             "abababababababababababababababababababababababababababababababab"
             "01"
             "0700000000000000"
             "0700000000000000"
             "5b00000000000000"
             "38000000"
             "43276d8d"
             "01000000"
             "8bfc3f91"
             "534c43454e443031",
             "a chunk of two records from seq 42, uncompressed");
    is_str(w.done.v[0].digest, "fbeaf974467e04ef006e69c3f8386e3394aa7fe0110deaaf7c31faa7e84d7ace", "its digest");
    is_int(w.done.v[0].first, 42, "first seq");
    is_int(w.done.v[0].records, 2, "records");
    buf_free(&b);
    chunk_writer_free(&w);
}

static void ids(void) {
    char id[CHAIN_ID];
    ok(link_id("000102030405060708090a0b0c0d0e0f", "{\"format\":1}\n", 13, id, E) == 0, "opening");
    is_str(id, "4485a8298875296279d901e103ae9065e80f6c91", "an opening's id from lineage id and bytes");
    char next[CHAIN_ID];
    ok(link_id(id, "{\"format\":1}\n", 13, next, E) == 0, "link");
    is_str(next, "5536b6f8ea17d4dc55ae60774083f37b4173ec8b", "a link's id from its parent's and its bytes");
}

/* The whole of a small chain, with random bits that count and a clock that stands. */
static void chain(void) {
    struct store *st = fx_store();
    struct buf b;
    chain_hooks.random = fx_random;
    chain_hooks.now_us = fx_now;
    fx_counter = 0;
    ok(fx_full(st, 1, 2, COMPRESSION_NONE) == 0, "full: %s", fx_err.msg);
    struct chain *c = fx_open(st);
    ok(fx_link(c, 10, 2, 110, COMPRESSION_NONE) == 0, "link: %s", fx_err.msg);
    is_str(chain_info(c)->lineage, "000102030405060708090a0b0c0d0e0f", "lineage id");
    is_str(chain_info(c)->segment, "1011121314151617", "segment id");
    struct link_info li;
    chain_link(c, 0, &li, E);
    is_str(li.id, "71680c9decdb6fedbcbb97d29ccac9c0cd12f5cd", "id of the opening");
    is_str(chain_info(c)->tip.id, "de285799914014950376b27cdfe06b06128cdb2e", "id of link 1");
    is_int(chain_info(c)->tip.start_seq, 0, "seq begins at 1");
    is_int(chain_info(c)->tip.end_seq, 3, "two inserts and a commit");
    const struct fx_paths *p = fx_list(st, "");
    const char *want[] = {"lineage.json",
                          "seg-1011121314151617/done/1-18191a1b1c1d1e1f.json",
                          "seg-1011121314151617/full.json",
                          "seg-1011121314151617/full.start.json",
                          "seg-1011121314151617/links/1-2021222324252627.json",
                          "seg-1011121314151617/log/1-2021222324252627/0.chunk",
                          "seg-1011121314151617/rows/1/18191a1b1c1d1e1f-0.chunk",
                          "shapes/ed2464714a18bd671ee2764a60045b9125c6307b0ffae8dabd289b46eae837b2.json"};
    is_int(p->n, MEM_ARRAY_LEN(want), "as many objects as there should be");
    for (size_t i = 0; i < MEM_ARRAY_LEN(want) && i < p->n; i++)
        is_str(p->v[i], want[i], "object %zu", i);
    ok(fx_get(st, "lineage.json", &b) == 0, "catalogue");
    is_str(buf_str(&b, E),
           "{\"format\":1,\"needs\":[],\"lineage\":\"000102030405060708090a0b0c0d0e0f\",\"source\":{\"engine\":\"sqlite\","
           "\"identity\":\"sqlite:test\",\"slot\":null},\"extendable\":true,\"segments\":[{\"id\":\"1011121314151617\",\"f"
           "irst\":0,\"state\":\"complete\",\"full\":\"5e54eef28869c24fc573946a8e42e391a11eac507bcbf2bfb379e3d678d48048\"}"
           "],\"pages\":[],\"links\":[{\"n\":0,\"attempt\":\"\",\"id\":\"71680c9decdb6fedbcbb97d29ccac9c0cd12f5cd\",\"end_"
           "seq\":0,\"time_us\":1764524308000000,\"bytes\":488},{\"n\":1,\"attempt\":\"2021222324252627\",\"id\":\"de28579"
           "9914014950376b27cdfe06b06128cdb2e\",\"end_seq\":3,\"time_us\":1764524308000000,\"bytes\":946}],\"tip\":{\"engi"
           "ne\":\"sqlite\",\"token\":\"110\"},\"covered_to\":null,\"crc32c\":\"7c9785d2\"}\n",
           "catalogue");
    buf_free(&b);
    ok(fx_get(st, want[4], &b) == 0, "manifest");
    is_str(buf_str(&b, E),
           "{\"format\":1,\"needs\":[],\"lineage\":\"000102030405060708090a0b0c0d0e0f\",\"segment\":\"1011121314151617\","
           "\"n\":1,\"attempt\":\"2021222324252627\",\"parent\":\"71680c9decdb6fedbcbb97d29ccac9c0cd12f5cd\",\"time_us\":1"
           "764524308000000,\"start\":{\"engine\":\"sqlite\",\"token\":\"100\"},\"end\":{\"engine\":\"sqlite\",\"token\":"
           "\"110\"},\"start_seq\":0,\"end_seq\":3,\"next_table\":2,\"tables\":[{\"table\":1,\"oid\":0,\"ns\":\"main\",\"n"
           "ame\":\"t1\",\"shape\":\"ed2464714a18bd671ee2764a60045b9125c6307b0ffae8dabd289b46eae837b2\"}],\"changes\":[],"
           "\"chunks\":[{\"digest\":\"efcf6eb4e1d42e8eb0b9042fa81096022560bba7c4dbc9bb1c1fc9536f2be617\",\"bytes\":225,\"r"
           "ecords\":3,\"raw\":57,\"first\":1}],\"records\":3,\"row_changes\":2,\"raw_bytes\":57,\"last_commit\":{\"engine"
           "\":\"sqlite\",\"token\":\"110\"},\"crc32c\":\"b7cb3c01\"}\n",
           "manifest");
    buf_free(&b);
    ok(fx_get(st, want[3], &b) == 0, "opening");
    is_str(buf_str(&b, E),
           "{\"format\":1,\"needs\":[],\"lineage\":\"000102030405060708090a0b0c0d0e0f\",\"segment\":\"1011121314151617\","
           "\"parent\":\"000102030405060708090a0b0c0d0e0f\",\"source\":{\"engine\":\"sqlite\",\"identity\":\"sqlite:test\""
           ",\"slot\":null},\"extendable\":true,\"time_us\":1764524308000000,\"anchor\":{\"engine\":\"sqlite\",\"token\":"
           "\"100\"},\"next_table\":2,\"tables\":[{\"table\":1,\"oid\":0,\"ns\":\"main\",\"name\":\"t1\",\"shape\":\"ed246"
           "4714a18bd671ee2764a60045b9125c6307b0ffae8dabd289b46eae837b2\"}],\"objects\":[],\"warnings\":[],\"crc32c\":\"57"
           "f08b35\"}\n",
           "opening");
    buf_free(&b);
    chain_close(c);
    store_close(st);
    fx_remove();
}

/* Compressed bytes are zstd's affair; that the frame is one zstd frame with its content size is ours. */
static void compressed(void) {
    struct store *st = fx_store();
    struct buf b;
    fx_counter = 0;
    ok(fx_full(st, 1, 50, COMPRESSION_ZSTD) == 0, "full: %s", fx_err.msg);
    ok(fx_get(st, "seg-1011121314151617/rows/1/18191a1b1c1d1e1f-0.chunk", &b) == 0, "rows");
    is_int((unsigned char)b.p[8], 1, "kind: rows");
    is_int((unsigned char)b.p[9], 1, "compression: zstd");
    is_int((unsigned char)b.p[10], 1, "encoding: values");
    uint32_t stored, raw;
    memcpy(&stored, b.p + 64, 4);
    memcpy(&raw, b.p + 68, 4);
    is_int(ZSTD_getFrameContentSize(b.p + 80, stored), raw, "content size");
    is_int(ZSTD_findFrameCompressedSize(b.p + 80, stored), stored, "one frame");
    buf_free(&b);
    store_close(st);
    fx_remove();
}

int main(void) {
    struct store *st = fx_store();
    records();
    chunk(st);
    ids();
    store_close(st);
    fx_remove();
    chain();
    compressed();
    return done_testing();
}
