"""long.py FLUZO MODEL: a conversation longer than the window, over RPC: compacted by threshold and by hand.

The environment names the agent folder; its models.json has the provider `brief`, which answers in 64 tokens. What a server does with
a request that does not fit is not tried: the one of llama-cpp-python ends its stream without a word, which says nothing about the size."""
import collections, json, subprocess, sys, threading, time

fluzo, model = sys.argv[1:]
failed = 0
STORY = "The keeper of the lighthouse wrote down what the sea had brought that day, and the wind that had carried it to the rocks. "


def check(name, holds, detail=""):
    global failed
    print(("ok   " if holds else "FAIL ") + name + (f": {detail}" if detail and not holds else ""), flush=True)
    failed += not holds


class Agent:
    def __init__(self, provider, *arguments):
        command = [fluzo, "pi", "--mode", "rpc", "--provider", provider, "--model", model, "--no-tools",
                   "--system-prompt", "You answer in one sentence.", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def until(self, is_last):
        seen = []
        for line in self.process.stdout:
            seen.append(json.loads(line))
            if is_last(seen[-1]):
                return seen
        raise SystemExit("the program ended: " + "".join(self.errors))

    def send(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def ask(self, kind, **fields):
        self.send(type=kind, **fields)
        seen = self.until(lambda line: line["type"] == "response" and line["command"] == kind)
        return seen[-1], seen

    def prompt(self, text):
        """All events of the prompt; what follows its run is over when the state says so."""
        self.send(type="prompt", message=text)
        seen = self.until(lambda line: line["type"] == "agent_end")
        while True:
            answer, more = self.ask("get_state")
            seen += more
            if not answer["data"]["isStreaming"] and not answer["data"]["isCompacting"]:
                return seen
            time.sleep(0.2)

    def tokens(self):
        return self.ask("get_session_stats")[0]["data"]["contextUsage"]["tokens"]

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def compactions(seen):
    return [line for line in seen if line["type"] == "compaction_end"]


def answered(seen):
    runs = [line for line in seen if line["type"] == "agent_end"]
    last = runs[-1]["messages"][-1]
    return last["role"] == "assistant" and last["stopReason"] in ("stop", "length"), last.get("errorMessage", "")


def told(what, seen, agent):
    for end in compactions(seen):
        result = end.get("result") or {}
        print(f"     {what}: {end['reason']}, {result.get('tokensBefore')} tokens before, "
              f"{len(result.get('summary', ''))} characters of summary, error {end.get('errorMessage')}")


def by_threshold_and_by_hand():
    agent, began, turns = Agent("brief"), time.monotonic(), 0
    found = collections.Counter()
    while found["threshold"] < 2 and turns < 40:
        turns += 1
        seen = agent.prompt(f"Day {turns}. " + STORY * 12 + "What did the keeper do?")
        told(f"turn {turns}", seen, agent)
        found.update(end["reason"] for end in compactions(seen) if end.get("result"))
        good, error = answered(seen)
        if not good:
            check(f"turn {turns} is answered", False, error)
            break
    check(f"a long conversation is compacted as it fills the window: {turns} turns, {found['threshold']} compactions, "
          f"{time.monotonic() - began:.0f} s", found["threshold"] == 2)
    for day in ("again", "once more"):
        told("further turn", agent.prompt(f"Day {day}. " + STORY * 6), agent)
    answer, seen = agent.ask("compact", customInstructions="the weather")
    told("by hand", seen, agent)
    check("is compacted by hand", answer["success"], answer.get("error", ""))
    good, error = answered(agent.prompt("And what now?"))
    check("goes on after it", good, error)
    check("ends well", agent.end() == 0)


by_threshold_and_by_hand()
sys.exit(bool(failed))
