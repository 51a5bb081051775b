"""A codex app-server connection over any transport of JSON lines: requests out, facts and answers in, in wire order.

SHAPE ONLY (the body follows); the constructor, `Transport`, `handshake`, `feed` and `closed` stay as they are here.
"""

from __future__ import annotations

from typing import Protocol

from goalfsm._adapter import Sink
from goalfsm._values import Policy

__all__ = ["RpcConnection", "Transport"]


class Transport(Protocol):
    """Carries whole lines to the server; what comes back goes into `RpcConnection.feed`, line by line."""

    def write(self, line: bytes) -> None:
        """Write `line` (it ends in a newline) now, as far as the pipe takes it, and the rest in the background.

        Raises:
            TransportClosed: provably no byte of this line was or will be written.
        """
        ...

    async def drain(self) -> None:
        """Return once everything written so far has left this process, or the transport is closed. Never raises."""
        ...

    async def aclose(self, timeout: float) -> None:
        """End the other side within `timeout` seconds and free everything. Idempotent.

        It may call `connection.closed(reason)`; the connection reports only the first reason.
        """
        ...


class RpcConnection:
    """Implements `goalfsm._adapter.Connection`.

    Use: `connection = RpcConnection(transport, sink, policy)`; let the transport feed it; `await connection.handshake()`.
    All calls are made on the event loop's thread.

    Args:
        transport: carries lines.
        sink: gets everything heard.
        policy: timeouts (start bounds the handshake).
        cwd: default working directory of `start_thread`.
        client: name told to the server.
        version: version told to the server.
    """

    def __init__(
        self,
        transport: Transport,
        sink: Sink,
        policy: Policy,
        *,
        cwd: str | None = None,
        client: str = "goalfsm",
        version: str = "0",
    ) -> None: ...

    async def handshake(self) -> None:
        """initialize + initialized; raises TransportClosed with the reason if the server ends before."""

    def feed(self, line: bytes) -> None:
        """Take one incoming line (with or without its newline); never raises."""

    def closed(self, reason: str) -> None:
        """The transport ended: `sink.lost(reason)`, once; everything awaited raises TransportClosed. Never raises."""
