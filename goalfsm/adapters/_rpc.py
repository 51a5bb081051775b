"""A codex app-server connection over any transport of JSON lines: requests out, facts and answers in, in wire order.

It knows nothing of processes: `Codex` puts a child process under it, `Simulated` a scripted server in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs

from goalfsm import events as ev
from goalfsm._adapter import CallKind, Capabilities, Look, Outgoing, Sink, ThreadInfo
from goalfsm._errors import ProviderRefused, TransportClosed
from goalfsm._values import ApprovalRequest, GoalView, Policy
from goalfsm.adapters._channel import Channel, Transport
from goalfsm.adapters._history import seen_in
from goalfsm.adapters._looker import Looker
from goalfsm.adapters._methods import KNOWN_REQUESTS, approval_answer
from goalfsm.adapters._wire import Answered, Pending, PendingKind, ServerRequest, goal_view

__all__ = ["RpcConnection", "Transport"]

_NOBODY = "00000000-0000-7000-8000-000000000000"
_WIRE_STATUS = {"usage_limited": "usageLimited", "budget_limited": "budgetLimited"}
_METHOD_NOT_FOUND = -32601


class RpcConnection:
    """Implements `goalfsm._adapter.Connection`.

    Use: make it on a transport, let the transport feed it, then `await connection.handshake()`.
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
    ) -> None:
        self._transport = transport
        self._sink = sink
        self._policy = policy
        self._cwd = cwd
        self._client = {"name": client, "title": client, "version": version}
        self._channel = Channel(transport, sink, self._asked)
        self._looker = Looker(self._channel.ask, sink)
        self._tasks: set[asyncio.Task[None]] = set()
        self._capabilities = Capabilities()
        self._ready = False
        self._write_lock = anyio.Lock()
        self._close_lock = anyio.Lock()
        self._in_section = False
        self._goal_writes: dict[str, int] = {}

    # -- the transport's side -----------------------------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one incoming line (with or without its newline); never raises."""
        self._channel.feed(line)

    def closed(self, reason: str) -> None:
        """The transport ended: `sink.lost(reason)`, once; everything awaited raises TransportClosed. Never raises."""
        # Before the handshake nobody holds a connection yet: whoever connects gets the reason as an exception.
        if self._channel.end(reason) and self._ready:
            self._sink.lost(reason)

    async def handshake(self) -> None:
        """Say hello and read what the server can do.

        Raises:
            TransportClosed: the server ended or refused before that was done; nothing is reported to the sink then.
        """
        hello = {"clientInfo": self._client, "capabilities": {"experimentalApi": True}}
        try:
            answer = await self._ask("initialize", hello)
            self._channel.write({"method": "initialized"})
        except ProviderRefused as refused:
            raise TransportClosed(f"the server refused initialize: {refused.message}") from None
        except TransportClosed as closed:
            # Its input may be shut a moment before its end is seen, and only that says why it ended.
            with anyio.move_on_after(self._policy.timeouts.call):
                await self._channel.over.wait()
            raise TransportClosed(self._channel.ended or str(closed)) from None
        agent = answer.get("userAgent")
        self._capabilities = attrs.evolve(
            Capabilities(experimental=True), server=agent if isinstance(agent, str) else ""
        )
        with anyio.move_on_after(self._policy.timeouts.call):
            await self._probe()
        if self._channel.ended is not None:
            raise TransportClosed(self._channel.ended)
        self._ready = True

    async def _probe(self) -> None:
        # Reads about a thread that cannot exist: how they are refused says whether the server has them at all.
        goals = await self._has("thread/goal/get", "goals feature is disabled")
        read_back = await self._has("thread/turns/list", "is not supported")
        experimental = await self._has("thread/queue/list", "requires experimentalApi")
        self._capabilities = attrs.evolve(
            self._capabilities,
            goals=goals,
            pause=goals,
            read_back=read_back,
            experimental=experimental,
            durable_queue=experimental,
        )

    async def _has(self, method: str, refusal: str) -> bool:
        try:
            await self._ask(method, {"threadId": _NOBODY})
        except ProviderRefused as refused:
            unknown = "unknown variant" in refused.message or refused.code == _METHOD_NOT_FOUND
            return not unknown and refusal not in refused.message
        return True

    # -- requests -----------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """What the provider can do."""
        return self._capabilities

    def _request(self, method: str, params: Mapping[str, Any], pending: Pending) -> None:
        self._count(method, pending.thread_id)
        self._channel.request(method, params, pending)

    async def _ask(self, method: str, params: Mapping[str, Any], kind: PendingKind = "other") -> dict[str, Any]:
        self._count(method, params.get("threadId", ""))
        limit = self._policy.timeouts.start
        try:
            with anyio.fail_after(limit):
                return await self._channel.ask(method, params, kind)
        except TimeoutError:
            raise TransportClosed(f"the server did not answer {method} within {limit} s") from None

    def _count(self, method: str, thread_id: str) -> None:
        if method in ("thread/goal/set", "thread/goal/clear"):
            self._goal_writes[thread_id] = self._goal_writes.get(thread_id, 0) + 1

    async def start_thread(self, params: Mapping[str, Any]) -> ThreadInfo:
        """Begin a thread; `params` are passed through (surface 7)."""
        wanted = dict(params)
        if self._cwd is not None:
            wanted.setdefault("cwd", self._cwd)
        return self._info(await self._ask("thread/start", wanted))

    async def resume_thread(self, thread_id: str) -> ThreadInfo:
        """Load a thread on record; while another process still writes it the provider refuses (facts §3)."""
        answer = await self._ask("thread/resume", {"threadId": thread_id, "excludeTurns": True})
        info = self._info(answer)
        if info.running_turn or not _is_active(answer):
            return info
        newest = seen_in(
            await self._ask("thread/turns/list", {"threadId": thread_id, "limit": 1, "itemsView": "notLoaded"})
        )
        running = next((turn for turn, status in newest.statuses.items() if status == "inProgress"), "")
        return attrs.evolve(info, running_turn=running)

    def _info(self, answer: Mapping[str, Any]) -> ThreadInfo:
        thread = answer.get("thread")
        if not isinstance(thread, dict) or not isinstance(thread.get("id"), str):
            raise ProviderRefused(0, "the answer names no thread")
        path = thread.get("path")
        turns = seen_in(thread)
        info = ThreadInfo(
            id=thread["id"],
            ephemeral=thread.get("ephemeral") is True,
            running_turn=next((turn for turn, status in turns.statuses.items() if status == "inProgress"), ""),
            path=path if isinstance(path, str) else None,
            raw=thread,
        )
        self._looker.note_path(info.id, info.path)
        return info

    async def get_goal(self, thread_id: str) -> GoalView | None:
        """Read the goal; its fact reaches the sink first."""
        goal = (await self._ask("thread/goal/get", {"threadId": thread_id}, "get_goal")).get("goal")
        return goal_view(goal) if isinstance(goal, dict) else None

    async def set_goal(
        self,
        thread_id: str,
        *,
        objective: str | None = None,
        status: str | None = None,
        token_budget: int | None = None,
    ) -> GoalView:
        """Change the goal as asked; note that `paused` overwrites an end state such as `complete`."""
        params = _goal_params(thread_id, objective, status, token_budget)
        goal = (await self._ask("thread/goal/set", params, "set_goal")).get("goal")
        if not isinstance(goal, dict):
            raise ProviderRefused(0, "the answer holds no goal")
        return goal_view(goal)

    async def clear_goal(self, thread_id: str) -> bool:
        """Clear the goal; False if there was none."""
        return (await self._ask("thread/goal/clear", {"threadId": thread_id}, "clear_goal")).get("cleared") is True

    def call(
        self,
        thread_id: str,
        kind: CallKind,
        number: int,
        *,
        objective: str = "",
        token_budget: int | None = None,
        turn_id: str = "",
    ) -> None:
        """Make a numbered call of the operation; a pause reads the goal first and touches only one that may run."""
        pending = Pending(kind, thread_id, number, turn_id=turn_id)
        try:
            match kind:
                case "clear_goal":
                    self._request("thread/goal/clear", {"threadId": thread_id}, pending)
                case "set_goal":
                    params = _goal_params(thread_id, objective, "active", token_budget)
                    self._request("thread/goal/set", params, pending)
                case "interrupt_turn":
                    self._request("turn/interrupt", {"threadId": thread_id, "turnId": turn_id}, pending)
                case "pause_goal":
                    self._pause(thread_id, number)
        except (TransportClosed, ProviderRefused) as problem:
            self._not_called(thread_id, number, problem)

    def _not_called(self, thread_id: str, number: int, problem: TransportClosed | ProviderRefused) -> None:
        if not number:
            return
        if isinstance(problem, ProviderRefused):
            refused = ev.CallRefused(call=number, code=problem.code, message=problem.message)
            self._sink.facts(thread_id, refused)
        else:
            self._sink.facts(thread_id, ev.CallLost(call=number))

    def _pause(self, thread_id: str, number: int) -> None:
        writes = self._goal_writes.get(thread_id, 0)

        def go_on(_answer: Answered) -> None:
            # A goal set or cleared since then is not the one that was to be paused.
            if self._goal_writes.get(thread_id, 0) != writes:
                return
            try:
                params = {"threadId": thread_id, "status": "paused"}
                self._request("thread/goal/set", params, Pending("pause_goal", thread_id, number))
            except TransportClosed as problem:
                self._not_called(thread_id, number, problem)

        check = Pending("pause_check", thread_id, number, waiter=go_on)
        self._request("thread/goal/get", {"threadId": thread_id}, check)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the write lock with everything before it flushed (composition §7)."""
        async with self._write_lock:
            await self._transport.drain()
            self._in_section = True
            try:
                yield
            finally:
                self._in_section = False

    def send(self, thread_id: str, message: Outgoing) -> None:
        """Write the whole message now; its answer becomes send_ok, send_refused, send_moved or answer_lost.

        Raises:
            TransportClosed: provably no byte was written.
            RuntimeError: called outside `writing()`.
        """
        if not self._in_section:
            raise RuntimeError("send is only allowed inside `async with connection.writing()`")
        params: dict[str, Any] = {
            "threadId": thread_id,
            "input": [{"type": "text", "text": message.text}, *message.attachments],
            "clientUserMessageId": message.id,
        }
        if message.route == "steer":
            params["expectedTurnId"] = message.turn_id
        pending = Pending("send", thread_id, 0, message.id, message.attempt, message.route, message.turn_id)
        try:
            self._request(f"turn/{message.route}", params, pending)
        except ProviderRefused as never:
            refused = ev.SendRefused(id=message.id, attempt=message.attempt, code=never.code, message=never.message)
            self._sink.facts(thread_id, refused)

    # -- looking back -------------------------------------------------------------------------------------------------

    def position(self, thread_id: str) -> int | None:
        """Size of the provider's own record of the thread, in bytes, if it has one (decisions 1)."""
        return self._looker.position(thread_id)

    def look(self, thread_id: str, looks: Sequence[Look], timeout: float) -> None:
        """Read the history once for all of `looks`; each gets found (once per item), absent or read_failed."""
        if looks:
            self._spawn(self._looker.look(thread_id, list(looks), timeout))

    # -- requests of the server ---------------------------------------------------------------------------------------

    def _asked(self, request: ServerRequest) -> None:
        if request.method in KNOWN_REQUESTS:
            self._spawn(self._decide(request))
            return
        self._sink.odd(request.thread_id, "unknown_method", f"request {request.method[:200]!r}")
        self._respond(request, None)

    async def _decide(self, request: ServerRequest) -> None:
        wanted = ApprovalRequest(method=request.method, params=request.params, thread_id=request.thread_id)
        answer: object
        try:
            answer = await self._sink.approve(wanted)
        except Exception as problem:  # noqa: BLE001  a host callback may raise anything, the server must get an answer
            self._sink.odd(request.thread_id, "approval_failed", f"{request.method}: {problem!r}")
            answer = "decline"
        self._respond(request, answer)

    def _respond(self, request: ServerRequest, answer: object) -> None:
        # A plain word is translated here, since its shape differs by method; anything else is the host's whole answer.
        word = answer.get("decision") if isinstance(answer, Mapping) and len(answer) == 1 else answer
        if word in ("decline", "approve"):
            answer = approval_answer(request.method, request.params, str(word))
        if isinstance(answer, Mapping):
            reply: dict[str, Any] = {"id": request.request_id, "result": answer}
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": f"this client does not answer {request.method}"}
            reply = {"id": request.request_id, "error": error}
        try:
            self._channel.write(reply)
        except TransportClosed:
            return
        except ProviderRefused as problem:
            self._sink.odd(request.thread_id, "approval_failed", f"{request.method}: {problem.message}")
            self._respond(request, "decline" if answer is not None else None)

    # -- life ---------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # anyio has no task that outlives the call that starts it without a task group, and a group must be left by the
        # task that entered it; a connection is opened and closed by different tasks.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self, timeout: float) -> None:
        """End the provider within `timeout` seconds; idempotent, and a second caller waits for the first."""
        async with self._close_lock:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._transport.aclose(timeout)
            self.closed("closed by this side")


def _goal_params(thread_id: str, objective: str | None, status: str | None, token_budget: int | None) -> dict[str, Any]:
    params: dict[str, Any] = {"threadId": thread_id}
    if objective is not None:
        params["objective"] = objective
    if status is not None:
        params["status"] = _WIRE_STATUS.get(status, status)
    if token_budget is not None:
        params["tokenBudget"] = token_budget
    return params


def _is_active(answer: Mapping[str, Any]) -> bool:
    thread = answer.get("thread")
    status = thread.get("status") if isinstance(thread, dict) else None
    return isinstance(status, dict) and status.get("type") == "active"
