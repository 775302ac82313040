#!/usr/bin/env bash
# Sessions of Fluzo open in the reference agent and the other way round: 200 turns are made by each, then both read each file.
#
#   scripts/exchange-sessions.sh REFERENCE-COMMAND [SESSION-FILE ...]
#
# REFERENCE-COMMAND is the command line of pi 0.78.1, split at spaces. SESSION-FILEs are read by both besides. Needs Python 3 and
# loopback only: the model is a scripted server inside the script. FLUZO names another binary than target/release/fluzo.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
reference=${1:?usage: scripts/exchange-sessions.sh REFERENCE-COMMAND [SESSION-FILE ...]}
shift
fluzo=${FLUZO:-${CARGO_TARGET_DIR:-$root/target}/release/fluzo}
fluzo=$(realpath "$fluzo")
export PYTHONDONTWRITEBYTECODE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/exchange-sessions/exchange.py" "$fluzo pi" "$reference" "$folder" "$@"
