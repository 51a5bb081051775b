"""What a scripted app-server writes: notifications with their faults, and everything else as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goalfsm.adapters._scripted.faults import Fault

if TYPE_CHECKING:
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["GARBAGE", "Outbox"]

GARBAGE = b'{"method":"turn/sta\n'
"""A line as a torn write leaves it."""


class Outbox:
    """Collects one server's output in wire order; a dead process writes nothing."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._out: list[dict[str, Any] | bytes] = []
        self._last: dict[tuple[str, str], dict[str, Any]] = {}
        self._overtaken: list[dict[str, Any]] = []

    def take(self) -> list[dict[str, Any] | bytes]:
        """Give everything written since the last call."""
        out, self._out = self._out, []
        return out

    def clear(self) -> None:
        """Forget what a dead process left unwritten."""
        self._out.clear()
        self._overtaken.clear()

    def write(self, message: dict[str, Any] | bytes) -> None:
        """Write a message, or a line as it is."""
        if self._server.exited is None:
            self._out.append(message)

    def tell(self, method: str, params: Mapping[str, Any], thread_id: str) -> None:
        """Send a notification, unless the client opted out of it or its fault wants otherwise."""
        server = self._server
        if method in server.methods.opted_out:
            return
        message = {"method": method, "params": dict(params), "emittedAtMs": int(server.wall * 1000)}
        server.count(f"notification {method}")
        self._last[thread_id, method] = message
        fault = server.fault("notification", method)
        if fault is None:
            self._send(message)
        else:
            self._send_faulty(message, fault)

    def retell(self, thread_id: str, method: str) -> None:
        """Send the thread's last notification of `method` once more."""
        if message := self._last.get((thread_id, method)):
            self._send(message)

    def _send(self, message: dict[str, Any]) -> None:
        self.write(message)
        overtaken, self._overtaken = self._overtaken, []
        for late in overtaken:
            self.write(late)
        for sent in (message, *overtaken):
            self._server.agenda.told(sent["method"])

    def _send_faulty(self, message: dict[str, Any], fault: Fault) -> None:
        server = self._server
        match fault.action:
            case "repeat":
                self._send(message)
                self._send(message)
            case "delay":
                server.agenda.wait(
                    lambda: self._send(message), seconds=fault.seconds, gate=fault.gate, after=fault.after
                )
            case "swap":
                self._overtaken.append(message)
            case "garble":
                self.write(GARBAGE)
            case "word":
                goal = {**message["params"].get("goal", {}), "status": fault.message}
                self._send({**message, "params": {**message["params"], "goal": goal}})
            case "exit":
                self._send(message)
                server.exit(fault.code if fault.code >= 0 else 1)
