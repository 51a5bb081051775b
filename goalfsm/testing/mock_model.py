"""A model on loopback that says what a test tells it to, so that the real codex server can run without any network.

It speaks the part of the Responses stream that facts §10 lists. Replies are scripted in order, or computed from the
request; a `Hold` keeps a reply open until the test lets it go, so that a turn runs exactly as long as a test needs.
Everything here may be used from any thread.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, Self

import attrs

__all__ = [
    "Hold",
    "MockModel",
    "ModelRequest",
    "Reply",
    "block_goal",
    "complete_goal",
    "cut",
    "fail",
    "http_error",
    "say",
    "shell",
    "tool",
    "write_codex_home",
]

_GOAL_MARK = '<codex_internal_context source="goal">'
_DEAD_PROXY = "http://127.0.0.1:9"


class Hold:
    """Keeps a reply open: the reply stops there until `release`.

    Attributes:
        reached: set once a reply waits here.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let the reply go on; for good, also if it has not come here yet."""
        self._released.set()

    def wait(self) -> None:
        """Wait here (the model's side)."""
        self.reached.set()
        self._released.wait()


@attrs.frozen
class Reply:
    """What the model does with one request.

    Args:
        text: the message; None for none.
        tools: tool calls after the message: name and arguments.
        hold: waits after the first piece of the message (before the tool calls where there is no message).
        pieces: how many deltas the message is cut into.
        failure: a code: the reply ends in `response.failed` (with a `status`: the code of the HTTP error).
        words: the text of that failure, or of the HTTP error.
        status: an HTTP status instead of a stream.
        cut: the stream just ends after the message's last delta.
    """

    text: str | None = None
    tools: Sequence[tuple[str, Mapping[str, Any]]] = ()
    hold: Hold | None = None
    pieces: int = 2
    failure: str = ""
    words: str = ""
    status: int = 200
    cut: bool = False


def say(text: str, *, hold: Hold | None = None, pieces: int = 2) -> Reply:
    """Say something and end the reply; without more the turn ends with it."""
    return Reply(text=text, hold=hold, pieces=pieces)


def tool(name: str, arguments: Mapping[str, Any], *, text: str | None = None, hold: Hold | None = None) -> Reply:
    """Call a tool; the server answers it with one more request in the same turn."""
    return Reply(text=text, tools=((name, arguments),), hold=hold)


def complete_goal(text: str | None = None, *, hold: Hold | None = None) -> Reply:
    """Declare the goal done."""
    return tool("update_goal", {"status": "complete"}, text=text, hold=hold)


def block_goal(text: str | None = None, *, hold: Hold | None = None) -> Reply:
    """Give the goal up."""
    return tool("update_goal", {"status": "blocked"}, text=text, hold=hold)


def shell(command: str, *, escalated: bool = False, hold: Hold | None = None) -> Reply:
    """Run a command through the server's own tool; `escalated` asks to run it outside the sandbox."""
    arguments = {"cmd": command}
    if escalated:
        arguments |= {"sandbox_permissions": "require_escalated", "justification": "the test wants to be asked"}
    return tool("exec_command", arguments, hold=hold)


def fail(code: str = "server_error", words: str = "the mock model failed", *, text: str | None = None) -> Reply:
    """End the reply in `response.failed`."""
    return Reply(text=text, failure=code, words=words)


def http_error(status: int, words: str = "the mock model refused", *, code: str = "") -> Reply:
    """Answer with an HTTP error instead of a stream."""
    return Reply(status=status, words=words, failure=code)


def cut(text: str = "half a sen") -> Reply:
    """End the stream in the middle of a message."""
    return Reply(text=text, cut=True)


@attrs.frozen
class ModelRequest:
    """One request as the model saw it.

    Args:
        index: its number, from 0.
        body: the whole request.
        user_texts: every user text in it, in order, history included.
        answers_tool: whether its last input item is the result of a tool call.
    """

    index: int
    body: Mapping[str, Any] = attrs.field(repr=False)
    user_texts: Sequence[str] = ()
    answers_tool: bool = False

    def shows(self, text: str) -> int:
        """Count how often exactly this user text is in the request."""
        return sum(each == text for each in self.user_texts)

    @property
    def asks_goal(self) -> bool:
        """Whether the newest user text is the server's own, that puts the goal before the model."""
        return bool(self.user_texts) and self.user_texts[-1].startswith(_GOAL_MARK)


def _request(index: int, body: Mapping[str, Any]) -> ModelRequest:
    items = [item for item in body.get("input", ()) if isinstance(item, dict)]
    texts = [
        part["text"]
        for item in items
        if item.get("role") == "user"
        for part in item.get("content", ())
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    last = items[-1].get("type", "") if items else ""
    return ModelRequest(index, body, tuple(texts), last.endswith("_output"))


def _sane(request: ModelRequest) -> Reply:
    # A goal that nobody scripted must end, or the server would begin turns for ever; other messages must not end one.
    if request.asks_goal and not request.answers_tool:
        return complete_goal("on it")
    return say("all done")


class MockModel:
    """The model; use it as a context manager, or `start` and `stop`.

    Args:
        replies: the script, one reply per request.
        respond: computes the reply of a request once the script is used up; by default something is said, and a goal
            is declared complete.
    """

    def __init__(self, *replies: Reply, respond: Callable[[ModelRequest], Reply] = _sane) -> None:
        self._script = deque(replies)
        self._respond = respond
        self._requests: list[ModelRequest] = []
        self._holds: list[Hold] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._server = _Server(self)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._server.server_address[1])

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """Every request so far."""
        with self._changed:
            return tuple(self._requests)

    def start(self) -> Self:
        """Begin to listen."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Release every hold and close; idempotent."""
        with self._changed:
            self._stopped = True
            holds = tuple(self._holds)
            self._changed.notify_all()
        for hold in holds:
            hold.release()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def script(self, *replies: Reply) -> None:
        """Append replies."""
        with self._changed:
            self._script.extend(replies)

    def shown(self, text: str) -> int:
        """Count how often the model was shown exactly this user text: the most that one request held."""
        return max((request.shows(text) for request in self.requests), default=0)

    def wait_for_requests(self, count: int, timeout: float = 20.0) -> tuple[ModelRequest, ...]:
        """Wait until `count` requests have come.

        Raises:
            TimeoutError: they did not; says how many did.
        """
        end = monotonic() + timeout
        with self._changed:
            while len(self._requests) < count:
                left = end - monotonic()
                if left <= 0 or self._stopped:
                    raise TimeoutError(f"the model saw {len(self._requests)} requests, not {count}, in {timeout} s")
                self._changed.wait(left)
            return tuple(self._requests)

    def _take(self, body: Mapping[str, Any]) -> tuple[int, Reply]:
        with self._changed:
            request = _request(len(self._requests), body)
            reply = self._script.popleft() if self._script else self._respond(request)
            if reply.hold is not None:
                self._holds.append(reply.hold)
                if self._stopped:
                    reply.hold.release()
            self._requests.append(request)
            self._changed.notify_all()
            return request.index, reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A reply that a test still holds must not keep the test's process.
    block_on_close = False

    def __init__(self, model: MockModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a cut connection is what steering looks like from here."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's word
        """Say nothing: tests read `requests`."""

    def do_GET(self) -> None:
        self._whole(200, {"models": [], "data": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith("/responses"):
            self._whole(404, {"error": {"message": f"the mock model has no {self.path}"}})
            return
        index, reply = self.server.model._take(json.loads(raw))  # noqa: SLF001  both halves of one thing
        if reply.status != 200:  # noqa: PLR2004  HTTP's own number
            error = {"message": reply.words, "type": reply.failure or "mock", "code": reply.failure or None}
            self._whole(reply.status, {"error": error})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self._stream(index, reply)

    def _whole(self, status: int, body: Mapping[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _event(self, kind: str, **fields: Any) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())
        self.wfile.flush()

    def _stream(self, index: int, reply: Reply) -> None:
        response = {"id": f"resp-{index}"}
        self._event("response.created", response=response)
        if reply.text is not None:
            self._message(f"msg-{index}", reply)
        elif reply.hold is not None:
            reply.hold.wait()
        if reply.cut:
            return
        if reply.failure:
            error = {"code": reply.failure, "message": reply.words}
            self._event("response.failed", response={**response, "error": error})
            return
        for number, (name, arguments) in enumerate(reply.tools):
            item = {
                "type": "function_call",
                "id": f"fc-{index}-{number}",
                "call_id": f"call-{index}-{number}",
                "name": name,
                "arguments": json.dumps(arguments),
            }
            self._event("response.output_item.added", output_index=number + 1, item={**item, "arguments": ""})
            self._event("response.output_item.done", output_index=number + 1, item=item)
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        self._event("response.completed", response={**response, "usage": usage})

    def _message(self, item_id: str, reply: Reply) -> None:
        text = reply.text or ""
        item = {"type": "message", "role": "assistant", "id": item_id}
        self._event("response.output_item.added", output_index=0, item={**item, "content": []})
        size = max(1, -(-len(text) // max(1, reply.pieces)))
        for start in range(0, len(text), size):
            piece = text[start : start + size]
            self._event("response.output_text.delta", item_id=item_id, output_index=0, content_index=0, delta=piece)
            if start == 0 and reply.hold is not None:
                reply.hold.wait()
        if not reply.cut:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            self._event("response.output_item.done", output_index=0, item={**item, "content": content})


def write_codex_home(path: Path, port: int, *, goals: bool = True, **features: bool) -> dict[str, str]:
    """Write a codex home that knows only the mock model, and give the environment to run the server in (facts §10).

    Args:
        path: the home's folder; made if missing.
        port: the model's port.
        goals: the server's feature switch for goals.
        features: further feature switches, such as `instant_interrupt=False`.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    switches = {"goals": goals, "plugins": False, "apps": False, "remote_plugin": False, **features}
    lines = [
        'model = "mock-model"',
        'approval_policy = "never"',
        'sandbox_mode = "read-only"',
        'model_provider = "mock"',
        "",
        "[features]",
        *(f"{name} = {str(on).lower()}" for name, on in switches.items()),
        "",
        "[model_providers.mock]",
        'name = "mock"',
        f'base_url = "http://127.0.0.1:{port}/v1"',
        'wire_api = "responses"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
        "supports_websockets = false",
        "",
    ]
    (path / "config.toml").write_text("\n".join(lines))
    proxies = {name: _DEAD_PROXY for low in ("http_proxy", "https_proxy", "all_proxy") for name in (low, low.upper())}
    here = "127.0.0.1,localhost"
    return {
        "CODEX_HOME": str(path),
        "CODEX_APP_SERVER_DISABLE_MANAGED_CONFIG": "1",
        **proxies,
        "no_proxy": here,
        "NO_PROXY": here,
    }
