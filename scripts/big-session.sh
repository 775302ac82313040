#!/usr/bin/env bash
# Measures a session of 2 GB: makes one, lists its folder, starts beside it, opens it and goes on with it, then deletes it.
#
#   scripts/big-session.sh [MEGABYTES]
#
# Needs python3 and twice the size in free space below ${TMPDIR:-/tmp}. The model is a stand-in on loopback. FLUZO names another
# binary than target/release/fluzo. Prints wall time, processor time and the most memory of each step.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
megabytes=${1:-2000}
target=${CARGO_TARGET_DIR:-$root/target}

work=$(mktemp -d "${TMPDIR:-/tmp}/fluzo-big-session.XXXXXX")
trap 'rm -rf "$work"' EXIT
free=$(df --output=avail -m "$work" | tail -1)
if [ "$free" -lt $((megabytes * 2)) ]; then
  echo "$((megabytes * 2)) MB of free space are needed in $work, there are $free" >&2
  exit 1
fi

fluzo=${FLUZO:-$target/release/fluzo}
[ -n "${FLUZO:-}" ] || (cd "$root" && cargo build --release --locked -p fluzo-cli)
(cd "$root" && cargo build --release --locked -p fluzo-session --example list)

exec_list=$target/release/examples/list
python3 "$root/scripts/big-session/measure.py" "$work" "$megabytes" "$fluzo" "$exec_list"
