#!/usr/bin/env bash
# Drives the release binary through every dialect against model servers that nobody here wrote, on loopback only.
#
#   scripts/third-party.sh [DIR] [llmock|aimock|litellm ...]
#
# Installs the pinned servers into DIR (default: a folder in the cache of the user) on first use, then runs the checks in a network
# namespace that has only loopback, where the machine allows one. Without names: llmock and aimock. litellm is 750 MB.
# FLUZO names another binary than target/release/fluzo.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/fluzo-third-party}
shift || true
servers=("$@")
[ ${#servers[@]} -gt 0 ] || servers=(llmock aimock)
mkdir -p "$dir"

python=$dir/venv/bin/python
[ -x "$python" ] || python3 -m venv "$dir/venv"

for server in "${servers[@]}"; do
  case $server in
    llmock) [ -x "$dir/venv/bin/llmock" ] || "$dir/venv/bin/pip" install -q llmock==0.2.2 ;;
    aimock) [ -x "$dir/npm/node_modules/.bin/llmock" ] ||
      npm install --silent --no-audit --no-fund --prefix "$dir/npm" @copilotkit/aimock@1.43.0 ;;
    litellm) [ -x "$dir/litellm/bin/litellm" ] || {
      python3 -m venv "$dir/litellm"
      "$dir/litellm/bin/pip" install -q 'litellm[proxy]==1.108.7'
    } ;;
    *) echo "unknown server $server: llmock, aimock or litellm" >&2; exit 2 ;;
  esac
done

fluzo=${FLUZO:-}
if [ -z "$fluzo" ]; then
  (cd "$root" && cargo build --release --locked -p fluzo-cli)
  fluzo=${CARGO_TARGET_DIR:-$root/target}/release/fluzo
fi

# Only loopback: whatever a server or Fluzo tries besides, nothing leaves the machine.
isolate=()
if unshare --net true 2>/dev/null; then
  isolate=(unshare --net)
elif unshare --user --map-root-user --net true 2>/dev/null; then
  isolate=(unshare --user --map-root-user --net)
else
  echo "note: no network namespace on this machine, the checks run without one" >&2
fi
export DIR=$dir FLUZO=$fluzo
exec "${isolate[@]}" bash -c 'ip link set lo up 2>/dev/null || true; exec "$0" "$@"' "$python" "$here/third-party/check.py" "${servers[@]}"
