/* The chain's format 1: constants, names and identities. Private to engine/chain; the public face is chain.h.
 *
 * DESIGN. What stands in the store, precisely enough to write another reader.
 *
 * OBJECTS. Names are relative paths of [A-Za-z0-9._/-]; table names never stand in them. SEG and ATTEMPT are 16 hex digits (64 random
 * bits), LINEAGE is 32 (128 random bits); TABLE, N and K are decimal without leading zeros; DIGEST is the SHA-256 of the object's bytes
 * in 64 hex digits. Hex is lower case.
 *   lineage.json                          the catalogue: the only object that is ever replaced, by conditional put; at most 64 KiB
 *   pages/DIGEST.json                     older entries of the catalogue
 *   shapes/DIGEST.json                    table shapes, one line of JSON each (engine/base/shape.h)
 *   seg-SEG/full.start.json               a segment's opening: anchor, tables
 *   seg-SEG/rows/TABLE/ATTEMPT-K.chunk    rows of the full, K from 0
 *   seg-SEG/done/TABLE-ATTEMPT.json       a table's rows are complete, and which chunks they are
 *   seg-SEG/full.json                     the full is complete, and which done objects it consists of
 *   seg-SEG/log/N-ATTEMPT/K.chunk         changes of link N, K from 0
 *   seg-SEG/links/N-ATTEMPT.json          manifest of link N
 *   stop/…  consumers/…                   requests and heartbeats (chain.h): no part of the log, neither checked nor chained
 *   tmp/…                                 a folder's unfinished writes
 * Every object but lineage.json is put only if absent, or is named by the digest of its bytes.
 *
 * DOCUMENTS are one JSON object in UTF-8 and a newline. All but shapes begin with "format":1 and "needs":[feature…] and have as their last
 * member "crc32c": 8 hex digits of the CRC32C of all bytes before the comma in front of that member. A reader refuses a format or a need
 * that it does not know before it looks at anything else. Features of today: "zstd" (chunks are compressed). Members that a reader does
 * not know are ignored: what may not be ignored is a need. A position is {"engine":…,"token":…} or null. Times are microseconds UTC,
 * only for people.
 *
 * IDENTITY. A link's id is the first 40 hex digits of SHA-256(parent's id as 40 hex digits, then the manifest's stored bytes). An
 * opening's id is the same over its parent (the tip's 40 digits; for the first segment the lineage id's 32) and the bytes of
 * full.start.json. Ids stand in the catalogue, never in what they are computed from. A manifest names its parent, which must be the
 * catalogue's entry before it.
 *
 * CATALOGUE, lineage.json:
 *   lineage; source {engine, identity, slot or null}; extendable; tip (position of the end); covered_to (position
 *       or null); covered_us (when)
 *   replaced: up to 16 ids of lineages that stood here before, newest first; absent when there is none
 *   segments [{id, first, state, full}]: first is the number of its opening; state "starting" (intent alone, no opening yet), "filling"
 *       (opened) or "complete" (full is the DIGEST of full.json). A filling segment with another behind it is given up: its links count,
 *       its full never will
 *   pages [{digest, level, first, count, end_seq}]: count entries from number first on are below that page
 *   links [{n, attempt, id, end_seq, time_us, bytes}]: at most 128
 * Entries are in order of n without holes: those under pages, then links. An entry's records have the seqs from the end_seq before it (0
 * for the first) plus 1 to its own end_seq. An opening has attempt "" and no records. A page of level 0 has level, first, start_seq (the
 * end_seq before it) and links[] of the same form; one of a higher level has pages[] of lower ones in place of links. When links is full,
 * its 128 go into a page; when there are more than 256 pages, the older 128 of a level go into one of the next.
 *
 * OPENING, full.start.json: lineage, segment, parent, source, extendable, time_us, anchor; next_table, tables [{table, oid, ns, name,
 * shape}]; objects [{kind, ns, name, sql, owned_by, value, called}]; warnings [text].
 * DONE: lineage, segment, table, attempt, shape, snapshot (position), encoding ("values" or "copy-text"), rows, raw_bytes, stored_bytes,
 * chunks [{digest, bytes, records, raw, first}]: first is the ordinal, from 0, of its first row.
 * FULL, full.json: lineage, segment, opening (id), time_us, tables [{table, attempt, digest}] by number, digest being that of the done
 * object; sequences [] like objects.
 *
 * MANIFEST of a link: lineage, segment, n, attempt, parent, time_us, start, end, start_seq, end_seq; next_table and tables[]: all that are
 * in force at the start; changes [{seq, table, oid, ns, name, before, after}]: its shape records (before "" for a new table, after ""
 * for a dropped one); chunks [{digest, bytes, records, raw, first}]: first is a seq; records, row_changes, raw_bytes; last_commit
 * (position of the last commit record, or null). Table numbers are given once per lineage and never again: next_table is the first free.
 *
 * CHUNK. Little-endian. varint is LEB128.
 *   header, 64 bytes: "SLCHUNK1"; u8 kind (1 rows, 2 changes); u8 compression (0 none, 1 zstd); u8 encoding (rows: 1 values, 2 copy-text;
 *       changes: 0); u8 0; lineage (16 bytes); segment (8); attempt (8); u64 table (rows) or link number (changes); u64 K; u32 CRC32C of
 *       the 60 bytes before
 *   frames, each: u32 stored length (never 0), u32 raw length, u32 records, u32 CRC32C of those 12 bytes and the stored ones; then the
 *       stored bytes: the raw ones, or one zstd frame of them. Raw bytes are whole records (or rows), at most 1 MiB; a larger record
 *       stands alone in its frame
 *   index, per frame: varints offset of its header, stored length, raw length, records, first (seq of its first record; rows: ordinal of
 *       its first row), number of tables; for each table whose records are in it varint table and 32 bytes digest of the shape in force
 *       at the frame's start (zeros: none); varint commits and, if there are any, u64 time of the first and u64 time of the last
 *   trailer, 32 bytes: u64 offset of the index, u32 its length, u32 its CRC32C, u32 frames, u32 CRC32C of the 20 bytes before, "SLCEND01"
 * A chunk is closed at the first frame that takes it to 16 MiB or more. Readers check length and digest of the whole object before they use
 * any of it, then read the same open object.
 *
 * RECORD, in a changes frame: u32 length of what follows; u8 op; then
 *   1 insert          varint table, row
 *   2 update          varint table, u8 image of before (0 none, 1 key, 2 full), row before unless 0, row after
 *   3 delete          varint table, u8 image, row before
 *   4 truncate        varint flags, varint number of tables, varint table each
 *   5 commit          u64 time, position
 *   6 shape           varint table, u64 oid, string before, string after (32 bytes of digest, or empty)
 *   7 sequence        string ns, string name, u64 value, u8 called
 *   8 backfill begin  varint table, position
 *   9 backfill rows   varint table, varint number of rows, string rows
 *   10 backfill end   varint table, position
 *   11 heartbeat      u64 time, position
 * A string is varint length and bytes; a position is the string of its token (empty: none), its engine the source's; a row is as in
 * value.h. Records carry no number: seqs are consecutive from the chunk's first.
 *
 * INVARIANTS
 *   1. Nothing is visible before the catalogue names it, and what it names is durable.
 *   2. No byte of a chunk reaches a consumer before the whole object's digest, the frame's CRC and the record's seq were checked.
 *   3. A link's parent is the tip when the catalogue is put, by If-Match; a lost answer is told from a lost race by reading again.
 *   4. The shape of every row record is the one in force for its table at that seq, on writing and on reading.
 *   5. Writers keep one frame and one chunk in memory, readers one frame. */
#ifndef SLUICE_CHAIN_FORMAT_H
#define SLUICE_CHAIN_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/pos.h"
#include "engine/base/shape.h"
#include "engine/chain/chain.h"

#define FORMAT_VERSION 1
#define FORMAT_MAX_RECORD ((size_t)256 << 20) /* --max-record-bytes: one constant for writer and reader */
#define FORMAT_LINEAGE_MAX ((size_t)64 << 10)
#define FORMAT_DOC_MAX ((size_t)256 << 20) /* full.start.json, done and manifests grow with tables and chunks */
#define CHAIN_PATH 256
#define CHAIN_SEG 17
#define CHAIN_ATTEMPT 17
#define DIGEST_HEX 65

/* What tests turn: random bits, the clock and the sizes that make objects split. Readers depend on none of the sizes. */
struct chain_hooks {
    int (*random)(void *p, size_t n, struct err *e);
    int64_t (*now_us)(void);
    size_t frame_raw, chunk_stored;
    size_t page_links, page_refs;
    int64_t torn_wait_us; /* the first wait for a catalogue that is half there; doubled twice */
};
extern struct chain_hooks chain_hooks;

int chain_random_hex(char *out, size_t bytes, struct err *e); /* 2*bytes digits and a terminator */
bool chain_is_hex(const char *s, size_t digits);              /* exactly that many lower-case digits */

void path_lineage(char out[CHAIN_PATH]);
void path_page(char out[CHAIN_PATH], const char *digest);
void path_shape(char out[CHAIN_PATH], const char *digest);
void path_full_start(char out[CHAIN_PATH], const char *seg);
void path_full(char out[CHAIN_PATH], const char *seg);
void path_done(char out[CHAIN_PATH], const char *seg, uint32_t table, const char *attempt);
void path_rows(char out[CHAIN_PATH], const char *seg, uint32_t table, const char *attempt, uint64_t k);
void path_link(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt);
void path_log(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt, uint64_t k);
void path_log_dir(char out[CHAIN_PATH], const char *seg, uint64_t n, const char *attempt); /* ends in a slash */

/* parent: 40 digits, or the lineage's 32. */
int link_id(const char *parent, const void *doc, size_t n, char id[CHAIN_ID], struct err *e);

/* ---- documents: doc_begin, members, doc_end; the stored bytes are then in b ---- */
void doc_begin(struct jw *j, struct buf *b, bool zstd, struct err *e);
int doc_end(struct jw *j, struct err *e);
/* Parse and check format, needs and crc; `what` is the object's path. *o is freed by the caller with json_decref. */
int doc_parse(const char *p, size_t n, const char *what, json_t **o, struct err *e);
void doc_kv_pos(struct jw *j, const char *k, const struct pos *p);
int doc_get_pos(const json_t *o, const char *k, struct pos *p, const char *what, struct err *e); /* null leaves it unset */
int doc_get_text(const json_t *o, const char *k, char *out, size_t cap, const char *what, struct err *e);
int doc_get_hex(const json_t *o, const char *k, char *out, size_t digits, const char *what, struct err *e); /* digits or empty -> refused */
int doc_get_u64(const json_t *o, const char *k, uint64_t *v, const char *what, struct err *e);
int doc_get_array(const json_t *o, const char *k, json_t **a, const char *what, struct err *e);
int doc_bad(struct err *e, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));                                                         /* CODE_MANIFEST_INVALID with hint */
int doc_expect(const json_t *o, const char *k, const char *want, const char *what, struct err *e); /* member must be this text */

/* The whole document at path; absent is CODE_MANIFEST_INVALID. */
int doc_load(struct store *st, const char *path, struct buf *b, struct err *e);
/* Put if absent. The same bytes being there already is success (a lost answer); others are CODE_CHAIN_CONFLICT. */
int doc_put_new(struct store *st, const char *path, const struct buf *b, struct err *e);
/* Put an object whose name is its digest: writing it again changes nothing, heals a damaged copy and makes it young for gc. */
int doc_put_digest(struct store *st, const char *path, const struct buf *b, struct err *e);
int doc_put_shape(struct store *st, const struct shape *s, struct err *e);

#endif
