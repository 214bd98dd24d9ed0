#!/bin/bash
# The same chain from an older server (PG13BIN names its programs): the whole of pg_chain.t with its source there.
. "$(dirname "$0")/../lib/lib.sh"
[ -n "${PG_OLD:-}" ] || skip_all "PG13BIN is not set"
PG_FROM=$PG_OLD exec bash "$(dirname "$0")/pg_chain.t"
