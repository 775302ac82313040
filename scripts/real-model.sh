#!/usr/bin/env bash
# A real model, however small, behind a server that nobody here wrote: it is discovered, streams real tokens, is
# cancelled, and talks for longer than its window of 4096 tokens, which ends in compactions.
#
#   scripts/real-model.sh URL        URL of an OpenAI-compatible server on this machine, such as http://127.0.0.1:18111/v1
#
# FLUZO names another binary than target/release/fluzo.
set -euo pipefail

root=$(dirname "$(cd "$(dirname "$0")" && pwd)")
url=${1:?usage: scripts/real-model.sh URL}
fluzo=$(realpath "${FLUZO:-${CARGO_TARGET_DIR:-$root/target}/release/fluzo}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder PI_CODING_AGENT_DIR=$folder/agent
mkdir -p "$PI_CODING_AGENT_DIR" "$folder/work"
cd "$folder/work"
failed=0

check() { # name, then a command
  local name=$1
  shift
  if "$@"; then echo "ok   $name"; else
    echo "FAIL $name"
    failed=1
  fi
}

"$fluzo" pi discover "$url" >"$folder/discovered"
cat "$folder/discovered"
python3 - "$folder" "$url" <<'PY'
import json, re, sys
folder, url = sys.argv[1:]
text = open(f"{folder}/discovered").read()
model = re.search(r'"id": *"([^"]+)"', text).group(1)
def provider(window, longest):
    models = [{"id": model, "contextWindow": window, "maxTokens": longest}]
    return {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": models, "compat": {"maxTokensField": "max_tokens"}}
providers = {"real": provider(4096, 512), "brief": provider(4096, 64)}
json.dump({"providers": providers}, open(f"{folder}/agent/models.json", "w"))
# A compaction by hand finds something to summarise after two turns.
json.dump({"compaction": {"keepRecentTokens": 300}}, open(f"{folder}/agent/settings.json", "w"))
open(f"{folder}/model", "w").write(model)
PY
model=$(cat "$folder/model")
ask=(pi --provider real --model "$model" --no-tools --system-prompt "You are a storyteller." --mode json)

"$fluzo" "${ask[@]}" "Tell me a short story about the sea." </dev/null >"$folder/events"
deltas=$(grep -c '"type":"text_delta"' "$folder/events" || true)
check "discovered: $model" test -n "$model"
check "streams: $deltas pieces of text" test "$deltas" -gt 3
echo "     tokens as the server reports them: $(grep -o '"usage":{"input":[0-9]*,"output":[0-9]*' "$folder/events" | tail -1)"

"$fluzo" "${ask[@]}" "Tell me a very long story about the sea, with many chapters." </dev/null >"$folder/cancelled" &
pid=$!
for _ in $(seq 600); do
  grep -q '"type":"text_delta"' "$folder/cancelled" && break
  sleep 0.1
done
kill -INT "$pid"
code=0
wait "$pid" || code=$?
check "is cancelled while it streams: exit $code" test "$code" -eq 130
check "keeps what had come, marked as aborted" grep -q '"stopReason":"aborted"' "$folder/cancelled"

python3 "$root/scripts/real-model/long.py" "$fluzo" "$model" || failed=1
exit "$failed"
