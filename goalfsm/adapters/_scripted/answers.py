"""How requests are answered, or not: every request fault is played here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goalfsm.adapters._scripted.outbox import GARBAGE
from goalfsm.adapters._scripted.requests import Refusal, Request

if TYPE_CHECKING:
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["Answers"]


class Answers:
    """Processes and answers the requests of one server."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server

    def take(self, request: Request) -> None:
        """Process a request that has come, now or later or never."""
        server, fault = self._server, request.fault
        match fault.action if fault else "":
            case "drop":
                return
            case "exit_before" if fault:
                server.exit(fault.code if fault.code >= 0 else 1)
            case "hold" if fault:
                server.agenda.wait(
                    lambda: self._process(request), seconds=fault.seconds, gate=fault.gate, after=fault.after
                )
            case "refuse" if fault:
                server.outbox.write({"error": {"code": fault.code, "message": fault.message}, "id": request.id})
            case "deaf":
                self._process(request)
                server.deaf = True
            case _:
                self._process(request)

    def _process(self, request: Request) -> None:
        try:
            self._server.methods.handle(request)
        except Refusal as refusal:
            error = {"code": refusal.code, "message": str(refusal)}
            self._reply(request, {"error": error, "id": request.id})

    def answer(self, request: Request, result: Mapping[str, Any]) -> None:
        """Answer a request, unless its fault wants otherwise."""
        self._reply(request, {"id": request.id, "result": result})

    def _reply(self, request: Request, body: dict[str, Any]) -> None:
        server, fault = self._server, request.fault
        write = server.outbox.write
        match fault.action if fault else "":
            case "mute":
                return
            case "delay" | "after" if fault:
                server.agenda.wait(lambda: write(body), seconds=fault.seconds, gate=fault.gate, after=fault.after)
            case "lie" if fault:
                write({"error": {"code": fault.code, "message": fault.message}, "id": request.id})
            case "twice":
                write(body)
                write(dict(body))
            case "garble":
                write(GARBAGE)
            case "exit_after" if fault:
                server.exit(fault.code if fault.code >= 0 else 1)
            case "exit_answered" if fault:
                write(body)
                server.exit(fault.code if fault.code >= 0 else 1)
            case _:
                write(body)
