"""Runs Fluzo against third-party model servers and says what held. Called by scripts/third-party.sh."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DIR = pathlib.Path(os.environ["DIR"])
FLUZO = os.environ["FLUZO"]

# Dialect, the server's base URL below its root.
DIALECTS = [
    ("openai-completions", "/v1"),
    ("openai-responses", "/v1"),
    ("anthropic-messages", "/anthropic"),
    ("google-generative-ai", "/gemini/v1beta"),
]

failures = []


def check(name, holds, detail=""):
    print(f"{'ok  ' if holds else 'FAIL'} {name}" + ("" if holds else f"\n     {detail}"), flush=True)
    if not holds:
        failures.append(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def http(url, body=None, raw=False):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    return text if raw else json.loads(text or "null")


def wait_for(port, process, name, seconds=90):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"{name} ended with {process.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"{name} does not listen on port {port}")


class Workspace:
    """A home and a folder of their own, with one model for each dialect at `root`."""

    def __init__(self, root, dialects=DIALECTS, model="test-model"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fluzo-third-party-"))
        agent = self.folder / "agent"
        agent.mkdir()
        providers = {
            api: {
                "baseUrl": root + base,
                "api": api,
                "apiKey": "test-key",
                "models": [{"id": model, "contextWindow": 100000, "maxTokens": 4096, "input": ["text", "image"]}],
            }
            for api, base in dialects
        }
        (agent / "models.json").write_text(json.dumps({"providers": providers}))
        (agent / "settings.json").write_text(json.dumps({"retry": {"baseDelayMs": 50}}))
        self.work = self.folder / "work"
        self.work.mkdir()
        self.model = model

    def run(self, api, prompt):
        """Exit code and the events of one prompt in JSON mode."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PI_CODING_AGENT_DIR": str(self.folder / "agent"),
        }
        command = [FLUZO, "pi", "--mode", "json", "--provider", api, "--model", self.model, prompt]
        done = subprocess.run(command, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        if not events:
            print(f"     {done.stderr.strip()}")
        return done.returncode, events

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def answers(events):
    """The assistant messages that ended."""
    ends = (event["message"] for event in events if event["type"] == "message_end")
    return [message for message in ends if message["role"] == "assistant"]


def text_of(message):
    return "".join(block.get("text", "") for block in message["content"] if block["type"] == "text")


def results(events):
    ends = (event["message"] for event in events if event["type"] == "message_end")
    return [message for message in ends if message["role"] == "toolResult"]


def why(code, events):
    errors = [message.get("errorMessage") for message in answers(events)]
    return f"exit {code}, errors {errors}, {len(results(events))} results"


def llmock():
    port = free_port()
    command = [str(DIR / "venv/bin/llmock"), "serve", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    try:
        wait_for(port, server, "llmock")
        for dialect in DIALECTS:
            llmock_dialect(root, dialect)
        verdict = http(root + "/_llmock/verdict?format=text", raw=True)
        print(verdict.strip())
        check("llmock's verdict", "PASS" in verdict and "FAIL" not in verdict, verdict)
    finally:
        server.terminate()
        server.wait()


def call(name, index):
    return {"name": "bash", "arguments": {"command": f"echo {name}-{index} >> calls.txt"}}


def llmock_dialect(root, dialect):
    api = dialect[0]

    def play(name, behaviors):
        space = Workspace(root, [dialect])
        http(root + "/_llmock/scenario", {"behaviors": behaviors})
        code, events = space.run(api, f"{name} for {api}")
        log = space.work / "calls.txt"
        ran = log.read_text().split() if log.exists() else []
        space.remove()
        return code, events, ran

    reply = {"type": "reply", "text": "all is well"}

    code, events, _ = play("text", [reply])
    check(f"{api}: text", code == 0 and answers(events) and text_of(answers(events)[-1]) == "all is well", why(code, events))
    usage = answers(events)[-1]["usage"] if answers(events) else {}
    check(f"{api}: usage is counted", usage.get("input", 0) > 0 and usage.get("output", 0) > 0, str(usage))

    code, events, ran = play("one call", [{"type": "reply", "tool_calls": [call("one", 1)]}, reply])
    check(f"{api}: one call", code == 0 and ran == ["one-1"] and text_of(answers(events)[-1]) == "all is well", f"{why(code, events)}, ran {ran}")

    code, events, ran = play("two calls", [{"type": "reply", "tool_calls": [call("two", 1), call("two", 2)]}, reply])
    check(f"{api}: two calls in one answer", code == 0 and sorted(ran) == ["two-1", "two-2"], f"{why(code, events)}, ran {ran}")

    began = time.monotonic()
    code, events, _ = play("wait", [{"type": "fail", "status": 429, "retry_after": 1}, reply])
    waited = time.monotonic() - began
    check(f"{api}: 429 with Retry-After is waited for", code == 0 and waited >= 1 and len(answers(events)) == 2, f"{why(code, events)}, {waited:.2f} s")

    # Gemini sends a call whole, in the last chunk: there the cut comes before it.
    whole = "google" in api
    said = {"text": "let me see"} if whole else {}
    chunks = {"openai-completions": 3, "openai-responses": 5, "anthropic-messages": 4}.get(api, 1)
    cut = [
        {"type": "reply", "tool_calls": [call("cut", 1)], **said},
        {"type": "stream_fault", "kind": "truncate", "after_chunks": chunks},
        reply,
    ]
    code, events, ran = play("cut", cut)
    pieces = [block.get("rawArguments") for message in answers(events) for block in message["content"] if block["type"] == "toolCall"]
    inside = whole or any(pieces)
    name = "cut off before a call" if whole else "a call cut off in its arguments"
    check(f"{api}: {name}: nothing runs, and it is asked again", code == 0 and ran == [] and inside and text_of(answers(events)[-1]) == "all is well", f"{why(code, events)}, ran {ran}, pieces {pieces}")


def aimock():
    """Three dialects, and Gemini with a finish reason outside the API."""
    fixtures = DIR / "aimock-fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": [
        {"match": {"userMessage": "say hello", "hasToolResult": False}, "response": {"content": "hello there"}},
        {"match": {"userMessage": "call it", "hasToolResult": False}, "response": {"toolCalls": [{"name": "bash", "arguments": json.dumps({"command": "echo called > calls.txt"})}]}},
        {"match": {"userMessage": "call it", "hasToolResult": True}, "response": {"content": "called"}},
        {"match": {"userMessage": "odd end"}, "response": {"content": "half an answer", "finishReason": "MODEL_WENT_FISHING"}},
    ]}))
    port = free_port()
    command = [str(DIR / "npm/node_modules/.bin/llmock"), "-p", str(port), "-f", str(fixtures), "--strict", "--log-level", "warn"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    try:
        wait_for(port, server, "aimock")
        for api, base in [("openai-completions", "/v1"), ("openai-responses", "/v1"), ("anthropic-messages", ""), ("google-generative-ai", "/v1beta")]:
            space = Workspace(root, [(api, base)])
            code, events = space.run(api, "say hello")
            check(f"aimock, {api}: text", code == 0 and text_of(answers(events)[-1]) == "hello there", why(code, events))
            code, events = space.run(api, "call it")
            check(f"aimock, {api}: a call", code == 0 and (space.work / "calls.txt").exists() and text_of(answers(events)[-1]) == "called", why(code, events))
            if api == "google-generative-ai":
                code, events = space.run(api, "odd end")
                last = answers(events)[-1]
                check(f"aimock, {api}: a finish reason outside the API is an error that names it", code != 0 and "MODEL_WENT_FISHING" in (last.get("errorMessage") or ""), why(code, events))
            space.remove()
    finally:
        server.terminate()
        server.wait()


def litellm():
    """A proxy that translates all four dialects, in front of llmock."""
    inner, port = free_port(), free_port()
    mock = subprocess.Popen([str(DIR / "venv/bin/llmock"), "serve", "--port", str(inner), "--log-level", "warning"], stdout=subprocess.DEVNULL)
    config = DIR / "litellm.yaml"
    config.write_text(json.dumps({
        "model_list": [{"model_name": "test-model", "litellm_params": {"model": "openai/test-model", "api_base": f"http://127.0.0.1:{inner}/v1", "api_key": "x"}}],
        "general_settings": {"master_key": "test-key"},
    }))
    proxy = subprocess.Popen([str(DIR / "litellm/bin/litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    try:
        wait_for(inner, mock, "llmock")
        wait_for(port, proxy, "litellm", 180)
        for api, base in [("openai-completions", "/v1"), ("openai-responses", "/v1"), ("anthropic-messages", ""), ("google-generative-ai", "/v1beta")]:
            space = Workspace(root, [(api, base)])
            http(f"http://127.0.0.1:{inner}/_llmock/scenario", {"behaviors": [{"type": "reply", "tool_calls": [call("proxy", 1)]}, {"type": "reply", "text": "all is well"}]})
            code, events = space.run(api, "through the proxy")
            ran = (space.work / "calls.txt").exists()
            check(f"litellm, {api}: a call through the proxy", code == 0 and ran and text_of(answers(events)[-1]) == "all is well", why(code, events))
            space.remove()
    finally:
        for process in (proxy, mock):
            process.terminate()
            process.wait()


def main():
    for name in sys.argv[1:]:
        print(f"# {name}", flush=True)
        {"llmock": llmock, "aimock": aimock, "litellm": litellm}[name]()
    print(f"{len(failures)} failed" if failures else "all held")
    sys.exit(1 if failures else 0)


main()
