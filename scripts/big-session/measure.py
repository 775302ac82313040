"""measure.py WORK MEGABYTES FLUZO LIST: the steps of scripts/big-session.sh."""
import http.server, json, os, random, resource, subprocess, sys, threading, time

work, megabytes, fluzo, lister = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
agent, project = os.path.join(work, "agent"), os.path.join(work, "project")
folder = os.path.join(agent, "sessions", "--" + project.lstrip("/").replace("/", "-") + "--")
for path in (folder, project):
    os.makedirs(path)


class Model(http.server.BaseHTTPRequestHandler):
    """Answers every request of a chat with one word."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        delta = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m1"}
        first = {**delta, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}]}
        last = {**delta, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        for event in (first, last):
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


def session(path):
    """Turns of a message, a call, a long result and an answer; one line of 12 MB; a compaction 20 turns before the end."""
    rng, written, number, parent, kept = random.Random(7), 0, 0, None, None
    words = [" ".join(rng.choices(["fn", "let", "error", "path/to/file.rs", "12345", "\"quoted\"", "=>"], k=9_000)) for _ in range(16)]
    usage = {"input": 1000, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1010,
             "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}
    with open(path, "w") as out:
        def line(kind, **fields):
            nonlocal written, number, parent
            number += 1
            entry = {"type": kind, "id": "%08x" % number, "parentId": parent, "timestamp": "2026-12-01T08:37:28.123Z", **fields}
            written += out.write(json.dumps(entry) + "\n")
            parent = entry["id"]
            return parent

        def message(**fields):
            return line("message", message={**fields, "timestamp": 1_790_000_000_000 + number})

        def text(content):
            return [{"type": "text", "text": content}]

        def turn(result):
            asked = message(role="user", content=text("go on"))
            call = "call_%d" % number
            reply = {"role": "assistant", "api": "openai-completions", "provider": "fake", "model": "m1", "usage": usage}
            message(**reply, content=[{"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}}], stopReason="toolUse")
            message(role="toolResult", toolCallId=call, toolName="bash", content=text(result), isError=False)
            message(**reply, content=text("done"), stopReason="stop")
            return asked

        header = {"type": "session", "version": 3, "id": "01a230c2-0000-7000-8000-000000000001",
                  "timestamp": "2026-12-01T08:37:28.123Z", "cwd": project}
        written += out.write(json.dumps(header) + "\n")
        turn("x" * 12_000_000)
        while written < megabytes * 1_000_000:
            turn(rng.choice(words))
        kept = turn("short")
        line("compaction", summary="## Goal\nGo on.", firstKeptEntryId=kept, tokensBefore=150_000)
        for _ in range(20):
            turn("short")


def step(name, *command):
    environment = {"PATH": os.environ["PATH"], "HOME": work, "PI_CODING_AGENT_DIR": agent, "TMPDIR": work}
    began = time.monotonic()
    child = subprocess.Popen(command, cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    wall, cpu = (time.monotonic() - began) * 1000, (used.ru_utime + used.ru_stime) * 1000
    print(f"{name:32} {wall:8.0f} ms {cpu:8.0f} ms cpu {used.ru_maxrss // 1024:6} MB", flush=True)
    if status != 0:
        sys.exit(f"{name} failed: {said.decode(errors='replace')}")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
provider = {"baseUrl": f"http://127.0.0.1:{server.server_port}/v1", "api": "openai-completions", "apiKey": "none",
            "models": [{"id": "m1", "contextWindow": 200_000, "maxTokens": 4096}]}
with open(os.path.join(agent, "models.json"), "w") as out:
    json.dump({"providers": {"fake": provider}}, out)

# In a process of its own: what a child had before its program began counts as its memory.
maker = os.fork()
if maker == 0:
    session(os.path.join(folder, "2026-12-01T08-37-28-123Z_01a230c2-0000-7000-8000-000000000001.jsonl"))
    os._exit(0)
if os.waitpid(maker, 0)[1] != 0:
    sys.exit("the session could not be made")
size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"a session of {size / 1e6:.0f} MB; memory is never shown below {own} MB, which is this program's", flush=True)
step("list its folder", lister, folder)
step("start without a session", fluzo, "pi", "--no-session", "--model", "fake/m1", "-p", "hi")
step("open it and go on", fluzo, "pi", "--continue", "--model", "fake/m1", "-p", "hi")
step("open it and go on again", fluzo, "pi", "--continue", "--model", "fake/m1", "-p", "hi")
step("start another session beside it", fluzo, "pi", "--model", "fake/m1", "-p", "hi")
