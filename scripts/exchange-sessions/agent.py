"""An agent driven over its RPC mode, in a home, an agent folder and a project of its own."""
import json, os, pathlib, shutil, subprocess, tempfile, threading

# What the commands of the RPC mode of pi 0.78.1 do not reach; loaded into the reference only.
EXTENSION = """
export default function (pi) {
  pi.registerCommand("set-label", { handler: async (text) => { const [id, label] = text.split(" "); pi.setLabel(id, label || undefined); } });
  pi.registerCommand("go-to", { handler: async (text, ctx) => {
    const [id, how] = text.split(" ");
    await ctx.navigateTree(id, { summarize: how === "summary" });
  } });
}
"""


class Place:
    """Folders and environment of one agent."""

    def __init__(self, root, name, url, project):
        self.base = pathlib.Path(root) / name
        self.agent = self.base / "agent"
        self.agent.mkdir(parents=True)
        (self.base / "home").mkdir()
        self.project = project
        models = [{"id": "plain", "name": "Plain", "contextWindow": 200000, "maxTokens": 4096,
                   "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 1}},
                  {"id": "thinker", "name": "Thinker", "reasoning": True, "contextWindow": 200000, "maxTokens": 8192}]
        provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "sk-scripted", "models": models}
        (self.agent / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
        settings = {"defaultProvider": "scripted", "defaultModel": "plain", "defaultThinkingLevel": "off",
                    "compaction": {"keepRecentTokens": 400}}
        (self.agent / "settings.json").write_text(json.dumps(settings))
        (self.base / "commands.ts").write_text(EXTENSION)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.base / "home"), "TMPDIR": tempfile.gettempdir(),
                            "PI_CODING_AGENT_DIR": str(self.agent), "PI_OFFLINE": "1", "PI_TELEMETRY": "0",
                            "PI_SKIP_VERSION_CHECK": "1", "TERM": "dumb", "TZ": "UTC"}


class Agent:
    """`kind` is `fluzo` or `reference`, `command` its command line."""

    def __init__(self, kind, command, place, arguments=()):
        self.kind, self.place = kind, place
        extra = ["-e", str(place.base / "commands.ts")] if kind == "reference" else []
        self.process = subprocess.Popen(command.split() + ["--mode", "rpc", *extra, *arguments], cwd=place.project,
                                        env=place.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def lines(self):
        for line in self.process.stdout:
            yield json.loads(line)
        raise SystemExit(f"{self.kind} ended: {''.join(self.errors)}")

    def send(self, command):
        self.process.stdin.write(json.dumps(command, ensure_ascii=False) + "\n")
        self.process.stdin.flush()

    def line(self, kind):
        """The answer to a command without fields, as text: its JSON may be too deep to be read here."""
        self.send({"type": kind})
        return next(line for line in self.process.stdout if f'"command":"{kind}"' in line[:200])

    def ask(self, kind, **fields):
        """The data of the answer; an error ends the script."""
        self.send({"type": kind, **fields})
        for line in self.lines():
            if line["type"] == "response" and line["command"] == kind:
                if not line["success"]:
                    raise SystemExit(f"{self.kind}: {kind} {fields}: {line['error']}")
                return line.get("data")

    def prompt(self, text, runs=True):
        self.send({"type": "prompt", "message": text})
        end = "agent_end" if runs else "response"
        for line in self.lines():
            if line["type"] == "response" and not line["success"]:
                raise SystemExit(f"{self.kind}: {line['error']}")
            if line["type"] == "extension_error":
                raise SystemExit(f"{self.kind}: {line}")
            if line["type"] == end:
                return line

    def label(self, entry, label):
        if self.kind == "fluzo":
            self.ask("set_label", entryId=entry, label=label)
        else:
            self.prompt(f"/set-label {entry} {label}", runs=False)

    def go_to(self, entry, summary):
        if self.kind == "fluzo":
            self.ask("navigate_tree", entryId=entry, summarize=summary)
        else:
            self.prompt(f"/go-to {entry} {'summary' if summary else ''}", runs=False)

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        code = self.process.wait()
        self.reader.join()
        return code, "".join(self.errors)


def copy(file, place, name):
    """A copy of a session for one reader, who may change it."""
    target = place.base / name
    shutil.copy(file, target)
    return target
