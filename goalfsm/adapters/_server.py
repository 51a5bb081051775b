"""A scripted app-server without I/O: messages and time go in, messages and the next due time come out.

It behaves like the real one as far as it was measured (facts 3 to 9) and breaks where a `Fault` says so. It reads no
clock and draws no random number: the same inputs give the same outputs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from goalfsm.adapters._scripted.agenda import Agenda
from goalfsm.adapters._scripted.answers import Answers
from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.methods import Methods
from goalfsm.adapters._scripted.outbox import Outbox
from goalfsm.adapters._scripted.records import Disk, Thread
from goalfsm.adapters._scripted.requests import Request
from goalfsm.adapters._scripted.script import Script
from goalfsm.adapters._scripted.turns import Turns

__all__ = ["Received", "ScriptedServer"]

_EPOCH = 1_800_000_000.0
"""Unix seconds at which a simulated server's time begins."""


@attrs.frozen
class Received:
    """One line that the server read.

    Args:
        method: the method word; empty for an answer and for a line that is no JSON object.
        params: its payload.
        id: the request's id, None for a notification.
        client_id: its `clientUserMessageId`, if any.
        at: the time of the server.
        n: how many of this method it had read, this one included.
        raw: the line, where it was no JSON object.
    """

    method: str
    params: Mapping[str, Any] = attrs.field(factory=dict)
    id: int | str | None = None
    client_id: str = ""
    at: float = 0.0
    n: int = 0
    raw: str = ""


class ScriptedServer:
    """One app-server with its disk; processes come and go on it (`spawn`, `exit`).

    Args:
        script: what it and its model do.
        faults: what goes wrong.
        epoch: unix seconds at time 0.
        home: where the paths of thread records point to; empty for none.
        disk: what an earlier process left.

    Attributes:
        disk: what survives: threads, counts, everything the model was shown.
        received: every line read, in order, over all processes of this object.
        exited: the exit code of the process that has ended, None while one runs.
        deaf: it reads no further line.
    """

    def __init__(
        self,
        script: Script | None = None,
        faults: Sequence[Fault] = (),
        *,
        epoch: float = _EPOCH,
        home: str = "",
        disk: Disk | None = None,
    ) -> None:
        self.script = script or Script()
        self.faults = tuple(faults)
        self.home = home
        self.disk = disk or Disk()
        self.received: list[Received] = []
        self.exited: int | None = None
        self.deaf = False
        self.ignores: frozenset[str] = frozenset()
        self.agenda = Agenda()
        self.outbox = Outbox(self)
        self.answers = Answers(self)
        self.turns = Turns(self)
        self.methods = Methods(self)
        self._epoch = epoch
        self._rollout: list[tuple[str, bytes]] = []
        self._asked = 0

    # -- the process -------------------------------------------------------------------------------------------------

    def spawn(self, now: float) -> None:
        """Begin a new process on this disk; nothing is loaded and nothing runs before thread/resume (facts 8)."""
        self.agenda.run(now)
        if self.exited is None:
            self.exit(-9)
        self.outbox.clear()
        self.exited = None
        self.deaf = False
        self.methods.initialized = False
        self.count("spawn")
        actions = {fault.action for fault in self.faults if fault.on == "spawn" and self._hits(fault, "spawn")}
        self.ignores = frozenset(actions & {"ignore_eof", "ignore_term"})
        if "exit" in actions:
            self.exit(1)

    def exit(self, code: int = 0) -> None:
        """End the process: memory is lost, nothing is told, the goal stays as it is on disk (facts 8)."""
        if self.exited is not None:
            return
        self.exited = code
        self.turns.die()
        self.agenda.clear()

    # -- in and out --------------------------------------------------------------------------------------------------

    def receive(self, message: Mapping[str, Any], now: float) -> None:
        """Take one message of the client."""
        self.agenda.run(now)
        if self.exited is not None or self.deaf:
            return
        method = message.get("method")
        if not isinstance(method, str):
            self._answered(message)
            return
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        client_id = params.get("clientUserMessageId")
        client_id = client_id if isinstance(client_id, str) else ""
        n = self.count(f"request {method}", client_id)
        request_id = message.get("id")
        self.received.append(Received(method, params, request_id, client_id, self.agenda.now, n))
        if "id" not in message:
            self.methods.notified(method)
            return
        self.answers.take(Request(request_id, method, params, self.fault("request", method, client_id)))

    def receive_line(self, line: bytes, now: float) -> None:
        """Take one line; a line that is no JSON object gets no answer (facts 3)."""
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            message = None
        if isinstance(message, dict):
            self.receive(message, now)
            return
        self.agenda.run(now)
        if self.exited is None and not self.deaf:
            self.received.append(Received("", at=self.agenda.now, raw=line.decode(errors="replace")))

    def outgoing(self) -> list[dict[str, Any] | bytes]:
        """Give everything written since the last call, in wire order; bytes are lines to write as they are."""
        return self.outbox.take()

    def outgoing_lines(self) -> list[bytes]:
        """Give the same as lines that end in a newline."""
        return [part if isinstance(part, bytes) else msgspec.json.encode(part) + b"\n" for part in self.outgoing()]

    def rollout(self) -> list[tuple[str, bytes]]:
        """Give lines to append to the threads' records, with their paths; write them before `outgoing`."""
        lines, self._rollout = self._rollout, []
        return lines

    def next_wakeup(self) -> float | None:
        """Give the time at which `wake` has something to do, None if only a message or a gate can change anything."""
        return self.agenda.next_wakeup()

    def wake(self, now: float) -> None:
        """Do everything that is due by `now`."""
        self.agenda.run(now)

    def release(self, gate: str, now: float) -> None:
        """Open a gate, for good."""
        self.agenda.run(now)
        self.agenda.release(gate)

    def push(self, message: Mapping[str, Any] | bytes, now: float) -> None:
        """Write any message, as it is."""
        self.agenda.run(now)
        self.outbox.write(message if isinstance(message, bytes) else dict(message))

    # -- what a test asks --------------------------------------------------------------------------------------------

    def requests(self, method: str, client_id: str = "") -> int:
        """Count the requests of `method` read, in all processes, with that client id if one is given."""
        return self.disk.counts.get(_key(f"request {method}", client_id), 0)

    def writes(self, client_id: str) -> int:
        """Count how often a message with this client id was read, by any route."""
        return sum(self.requests(method, client_id) for method in ("turn/steer", "turn/start"))

    def shown(self, text: str) -> int:
        """Count how often the scripted model was shown a user message with exactly this text."""
        return sum(entry["text"] == text for entry in self.disk.shown)

    # -- for its parts -----------------------------------------------------------------------------------------------

    @property
    def wall(self) -> float:
        """Unix seconds."""
        return self._epoch + self.agenda.now

    def count(self, what: str, client_id: str = "") -> int:
        """Count one more of `what`; give the number of all."""
        counts = self.disk.counts
        if client_id:
            counts[_key(what, client_id)] = counts.get(_key(what, client_id), 0) + 1
        counts[what] = counts.get(what, 0) + 1
        return counts[what]

    def new_id(self) -> str:
        """Give an id that looks like a real one and was never used."""
        return f"01a20000-0000-7000-8000-{self.count('id'):012x}"

    def fault(self, on: str, method: str = "", client_id: str = "") -> Fault | None:
        """Give the fault of what was just counted, if there is one."""
        for fault in self.faults:
            if fault.on == on and fault.method == method and fault.client_id in ("", client_id):
                what = f"{on} {method}".strip()
                if self._hits(fault, _key(what, fault.client_id)):
                    return fault
        return None

    def _hits(self, fault: Fault, key: str) -> bool:
        return fault.n in (0, self.disk.counts.get(key, 0))

    def record(self, thread: Thread, line: Mapping[str, Any]) -> None:
        """Append a line to the thread's own record."""
        if thread.path:
            self._rollout.append((thread.path, msgspec.json.encode(line) + b"\n"))

    def stamp(self) -> str:
        """Give the time as the record's lines have it."""
        moment = dt.datetime.fromtimestamp(self.wall, dt.UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def answer(self, request: Request, result: Mapping[str, Any]) -> None:
        """Answer a request, unless its fault wants otherwise."""
        self.answers.answer(request, result)

    def tell(self, method: str, params: Mapping[str, Any], thread_id: str = "") -> None:
        """Send a notification, unless the client opted out of it or its fault wants otherwise."""
        self.outbox.tell(method, params, thread_id)

    def ask(self, method: str, params: Mapping[str, Any]) -> int:
        """Ask the client for a decision; the ids count from 0, as the real server's do, beside the client's own."""
        request_id, self._asked = self._asked, self._asked + 1
        self.outbox.write({"id": request_id, "method": method, "params": dict(params)})
        return request_id

    def _answered(self, message: Mapping[str, Any]) -> None:
        self.received.append(Received("", {k: v for k, v in message.items() if k != "id"}, message.get("id")))
        request_id = message.get("id")
        if self.turns.answered(request_id):
            body = {key: message[key] for key in ("result", "error") if key in message}
            self.disk.decisions.append({"id": request_id, **body})


def _key(what: str, client_id: str) -> str:
    return f"{what} {client_id}" if client_id else what
