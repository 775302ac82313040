"""A scripted model on loopback: an OpenAI Chat Completions server whose answer follows from the request alone."""
import contextlib, http.server, json, threading


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


class Model:
    """`requests` holds the bodies in the order of arrival."""

    def __init__(self):
        self.requests = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(body)
                data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in answer(body, len(model.requests)))
                data = (data + "data: [DONE]\n\n").encode()
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(data)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


def answer(body, number):
    """One bash call for a user message with TOOL in it, a summary where no tools are offered, else a short text."""
    def chunk(delta, finish=None):
        return {"id": f"r{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    messages = body["messages"]
    last = messages[-1]
    said = text_of(next((m["content"] for m in reversed(messages) if m["role"] == "user"), ""))
    yield chunk({"role": "assistant", "content": ""})
    if not body.get("tools"):
        yield chunk({"content": f"## Goal\nGo on.\n\n## Progress\n### Done\n- [x] up to request {number}"})
        finish = "stop"
    elif "TOOL" in said and last["role"] == "user":
        if body.get("reasoning_effort"):
            yield chunk({"reasoning_content": f"thought {number}"})
        call = {"index": 0, "id": f"call_{number}", "type": "function"}
        arguments = json.dumps({"command": f"seq {number} {number + 40}"})
        yield chunk({"tool_calls": [call | {"function": {"name": "bash", "arguments": arguments}}]})
        finish = "tool_calls"
    else:
        yield chunk({"content": f"answer {number} to: {said[:60]} é 🌍 \u2028"})
        finish = "stop"
    yield chunk({}, finish)
    size = len(json.dumps(messages)) // 4
    usage = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20,
             "prompt_tokens_details": {"cached_tokens": size // 2}}
    yield chunk({}) | {"choices": [], "usage": usage}
