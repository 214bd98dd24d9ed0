/* What writer and reader of a full share. Private to engine/chain. */
#ifndef SLUICE_CHAIN_FULL_H
#define SLUICE_CHAIN_FULL_H

#include "engine/chain/handle.h"

/* The opening's tables, objects and warnings as a catalogue of its own, shapes read from the store. */
int opening_catalog(struct store *st, const struct opening *o, struct catalog **c, struct err *e);
/* done/….json of a table, with the digest of its bytes; checked against the opening. */
int done_load(struct store *st, const struct opening *o, uint32_t table, const char *attempt, struct done *d, char digest[DIGEST_HEX],
              struct err *e);
int full_doc_load(struct store *st, const char *segment, struct full_doc *f, char digest[DIGEST_HEX], struct err *e);

#endif
