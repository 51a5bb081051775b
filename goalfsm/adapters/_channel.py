"""One JSON-RPC channel: whole messages out at once, messages in handed on in exactly the order read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio
import msgspec

from goalfsm._adapter import Sink
from goalfsm._errors import ProviderRefused, TransportClosed
from goalfsm.adapters._wire import (
    Answered,
    Facts,
    GoalSeen,
    Heard,
    Mapper,
    Noted,
    Odd,
    Pending,
    PendingKind,
    RpcError,
    ServerRequest,
)

__all__ = ["Channel", "Transport"]

_SHOWN = 200


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


class _Waiter:
    """One awaited answer."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.answer: Answered | None = None
        self.closed = ""

    def resolve(self, answer: Answered) -> None:
        self.answer = answer
        self.event.set()

    def abandon(self, reason: str) -> None:
        self.closed = reason
        self.event.set()


class Channel:
    """Requests and answers over a transport.

    Args:
        transport: carries lines.
        sink: gets everything heard, before an awaited answer goes on.
        asked: gets the requests of the server.
    """

    def __init__(self, transport: Transport, sink: Sink, asked: Callable[[ServerRequest], None]) -> None:
        self._transport = transport
        self._sink = sink
        self._asked = asked
        self._mapper = Mapper()
        self._decode = msgspec.json.Decoder().decode
        self._encode = msgspec.json.Encoder().encode
        self._last_id = 0
        self._waiters: set[_Waiter] = set()
        self.ended: str | None = None
        self.over = anyio.Event()

    def feed(self, line: bytes) -> None:
        """Take one incoming line; never raises."""
        if self.ended is not None:
            return
        try:
            msg = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if line.strip():
                self._sink.odd("", "malformed", f"not JSON: {line[:_SHOWN]!r}")
            return
        sink = self._sink
        for heard in self._mapper.heard(msg):
            if type(heard) is Noted:
                sink.notify(heard.thread_id, heard.notification)
            elif type(heard) is Facts:
                sink.facts(heard.thread_id, *heard.events)
            else:
                self._rare(heard)

    def _rare(self, heard: Heard) -> None:
        match heard:
            case GoalSeen():
                self._sink.goal(heard.thread_id, heard.view)
            case Odd():
                self._sink.odd(heard.thread_id, heard.kind, heard.detail)
            case Answered():
                heard.pending.waiter(heard)
            case ServerRequest():
                self._asked(heard)
            case _:
                raise AssertionError(heard)

    def end(self, reason: str) -> bool:
        """Let everything awaited raise; False if it had ended before."""
        if self.ended is not None:
            return False
        self.ended = reason
        self.over.set()
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.abandon(reason)
        return True

    def write(self, msg: Mapping[str, Any]) -> None:
        """Write one message now.

        Raises:
            TransportClosed: no byte of it was or will be written.
            ProviderRefused: it cannot be put into JSON, so nothing was written either.
        """
        if self.ended is not None:
            raise TransportClosed(self.ended)
        try:
            line = self._encode(msg) + b"\n"
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise ProviderRefused(0, f"nothing was sent, it is no JSON: {problem}") from problem
        self._transport.write(line)

    def request(self, method: str, params: Mapping[str, Any], pending: Pending) -> None:
        """Write a request now; its answer will mean `pending`. Raises as `write` does."""
        self._last_id += 1
        request_id = self._last_id
        self._mapper.asked(request_id, pending)
        try:
            self.write({"id": request_id, "method": method, "params": params})
        except (TransportClosed, ProviderRefused):
            self._mapper.forget(request_id)
            raise

    async def ask(self, method: str, params: Mapping[str, Any], kind: PendingKind = "other") -> dict[str, Any]:
        """Write a request and wait for its answer, whose facts have reached the sink by then.

        Raises:
            ProviderRefused: the provider's error.
            TransportClosed: no answer can come any more.
        """
        waiter = _Waiter()
        self.request(method, params, Pending(kind, params.get("threadId", ""), waiter=waiter.resolve))
        self._waiters.add(waiter)
        try:
            await waiter.event.wait()
        finally:
            self._waiters.discard(waiter)
        if waiter.answer is None:
            raise TransportClosed(waiter.closed)
        error, result = waiter.answer.error, waiter.answer.result
        if error is None and not isinstance(result, dict):
            error = RpcError(0, f"{method}: the answer is not an object")
        if error is not None:
            raise ProviderRefused(error.code, error.message)
        answer: dict[str, Any] = result
        return answer
