"""exchange.py FLUZO REFERENCE FOLDER [SESSION-FILE ...]: each agent makes a session, both read it; see ../exchange-sessions.sh"""
import collections, json, pathlib, sys

from agent import Agent, Place, copy
from model import Model

TURNS = 200
failed = 0


def check(name, holds, detail=""):
    global failed
    print(("ok   " if holds else "FAIL ") + name + (f": {detail}" if detail and not holds else ""), flush=True)
    failed += not holds


def entries(file):
    return [json.loads(line) for line in pathlib.Path(file).read_text("utf-8").split("\n") if line.strip()]


def users(file):
    return [e["id"] for e in entries(file) if e.get("message", {}).get("role") == "user"]


def holes(file):
    """Entries whose parent is missing. A fork of pi 0.78.1 leaves out labels without joining their neighbours: it has such an entry for
    each label on its path, and pi then forgets what came before. Fluzo joins the chain over the hole and says so."""
    all_entries = entries(file)[1:]
    ids = {entry["id"] for entry in all_entries}
    return [entry for entry in all_entries if entry["parentId"] and entry["parentId"] not in ids]


def make(agent):
    """200 turns with everything that a session can hold; returns the files, a fork is one of its own."""
    files = []
    for turn in range(1, TURNS + 1):
        if turn % 20 == 0:
            agent.ask("set_model", provider="scripted", modelId="thinker" if turn % 40 else "plain")
        if turn % 25 == 0:
            agent.ask("set_thinking_level", level=["low", "high", "off"][turn // 25 % 3])
        if turn % 15 == 0:
            hidden = {"excludeFromContext": True} if turn % 30 == 0 else {}
            agent.ask("bash", command=f"echo shell {turn}; exit {turn % 2}", **hidden)
        if turn in (10, 110):
            agent.ask("set_session_name", name=f"named at {turn} – ü")
        if turn in (60, 140, 190):
            agent.ask("compact", **({"customInstructions": "files"} if turn == 140 else {}))
        agent.prompt(f"turn {turn}" + (" TOOL" if turn % 3 == 0 else ""))
        file = agent.ask("get_state")["sessionFile"]
        if turn in (30, 120, 170):
            agent.label(users(file)[-1], f"label-{turn}")
        if turn in (80, 160):
            agent.go_to(users(file)[-5], summary=turn == 160)
        if turn == 100:
            agent.label(users(file)[-2], "before-fork")
            files.append(file)
            agent.ask("fork", entryId=agent.ask("get_fork_messages")["messages"][-1]["entryId"])
    files.append(agent.ask("get_state")["sessionFile"])
    agent.end()
    return files


def state(agent):
    data = agent.ask("get_state")
    shown = {key: data.get(key) for key in ("sessionId", "sessionName", "thinkingLevel", "messageCount")}
    return shown | {"model": data["model"]["id"]}


def stats(agent):
    data = agent.ask("get_session_stats")
    return {key: data[key] for key in ("userMessages", "assistantMessages", "toolCalls", "toolResults", "tokens", "cost")}


def counted(messages):
    """The same from messages: Fluzo counts all of the session, the reference what is in the context."""
    responses = [m for m in messages if m["role"] == "assistant"]
    usages = [m["usage"] for m in responses]
    tokens = {key: sum(usage[key] for usage in usages) for key in ("input", "output", "cacheRead", "cacheWrite")}
    return {"userMessages": sum(m["role"] == "user" for m in messages), "assistantMessages": len(responses),
            "toolCalls": sum(part["type"] == "toolCall" for m in responses for part in m["content"]),
            "toolResults": sum(m["role"] == "toolResult" for m in messages),
            "tokens": tokens | {"total": sum(tokens.values())}, "cost": sum(usage["cost"]["total"] for usage in usages)}


def read(kind, command, place, file, model):
    """What an agent says about a session, and what it sends next."""
    own = copy(file, place, f"read-{len(list(place.base.iterdir()))}.jsonl")
    before = own.read_bytes()
    agent = Agent(kind, command, place, ["--session", str(own)])
    found = {"state": state(agent), "messages": agent.ask("get_messages")["messages"], "stats": stats(agent),
             "fork messages": agent.ask("get_fork_messages")["messages"]}
    if kind == "fluzo":
        count = agent.line("get_tree").count('"children":[')
        check(f"{kind}: the tree has every entry", count == len(entries(own)) - 1, f"{count} of {len(entries(own)) - 1}")
    agent.prompt("and now?")
    sent = model.requests[-1]
    found["request"] = [m for m in sent["messages"] if m["role"] not in ("system", "developer")]
    found["model asked"] = sent["model"]
    code, errors = agent.end()
    # A model of a given session is none of those here; that this is told is right.
    errors = "\n".join(line for line in errors.split("\n") if "Could not restore model" not in line)
    expected = "names an entry that is not there" if kind == "fluzo" and holes(file) else ""
    warned = expected in errors if expected else not errors.strip()
    check(f"{kind}: ends well and warns of " + ("the hole alone" if expected else "nothing"), code == 0 and warned, f"{code} {errors}")
    check(f"{kind}: what was in the file is untouched", own.read_bytes().startswith(before))
    found["file"] = own
    return found


def difference(a, b, path=""):
    """The first places where two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            if key not in a or key not in b:
                yield f"{path}.{key}: {'missing' if key not in a else short(a[key])} against {'missing' if key not in b else short(b[key])}"
            else:
                yield from difference(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{path}: {len(a)} against {len(b)} items"
        for index, pair in enumerate(zip(a, b)):
            yield from difference(*pair, f"{path}[{index}]")
    elif isinstance(a, float) and isinstance(b, float) and path.endswith(".cost"):
        # A sum depends on the order of its terms.
        if abs(a - b) > 1e-9:
            yield f"{path}: {a} against {b}"
    elif a != b or isinstance(a, bool) != isinstance(b, bool):
        yield f"{path}: {short(a)} against {short(b)}"


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else text[:120] + "…"


def agree(name, a, b):
    found = list(difference(a, b))
    check(name, not found, f"{len(found)} differences\n       " + "\n       ".join(found[:8]))


def compare(name, file, agents, model):
    kinds = collections.Counter(e.get("message", {}).get("role") or e["type"] for e in entries(file))
    print(f"-- {name}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    fluzo, reference = (read(*agent, file, model) for agent in agents)
    all_messages = [e["message"] for e in entries(file) if e["type"] == "message"]
    for part in ("state", "messages", "fork messages", "request", "model asked"):
        agree(f"both agree: {part}", fluzo[part], reference[part])
    agree("fluzo: stats of the whole session", fluzo["stats"], counted(all_messages))
    agree("reference: stats of its context", counted(fluzo["messages"]), reference["stats"])
    return fluzo, reference


def main():
    fluzo, reference, folder, *given = sys.argv[1:]
    model = Model()
    project = pathlib.Path(folder) / "project"
    project.mkdir()
    places = {kind: Place(folder, kind, model.url, project) for kind in ("fluzo", "reference")}
    agents = [("fluzo", fluzo, places["fluzo"]), ("reference", reference, places["reference"])]
    for kind, command, place in agents:
        print(f"== {TURNS} turns of {kind}", flush=True)
        made = make(Agent(kind, command, place))
        for number, file in enumerate(made):
            after = compare(f"session {number + 1} of {kind}", file, agents, model)
            for by, one in zip(("fluzo", "reference"), after):
                compare(f"the same after a turn of {by}", one["file"], agents, model)
    for file in given:
        # The folder that it was made in is not here.
        lines = pathlib.Path(file).read_text("utf-8").split("\n", 1)
        header = json.loads(lines[0]) | {"cwd": str(project)}
        here = pathlib.Path(folder) / "given.jsonl"
        here.write_text(json.dumps(header, separators=(",", ":")) + "\n" + lines[1], "utf-8")
        compare(pathlib.Path(file).name, here, agents, model)
    print("all checks held" if not failed else f"{failed} checks failed")
    sys.exit(bool(failed))


main()
