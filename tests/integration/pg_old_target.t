#!/bin/bash
# Plain roles and the older server as target: the whole of pg_role.t with its target there.
. "$(dirname "$0")/../lib/lib.sh"
[ -n "${PG_OLD:-}" ] || skip_all "PG13BIN is not set"
PG_B=$PG_OLD exec bash "$(dirname "$0")/pg_role.t"
