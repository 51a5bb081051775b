"""A provider in this process: the scripted app-server behind the same wire code as the real one.

The server outlives its connections: `Simulated.server` keeps its disk, so that a test can kill the process, connect
again and look at what was lost. With a fake clock everything that happens is deterministic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from goalfsm._adapter import Clock, Connection, Sink
from goalfsm._clock import SystemClock
from goalfsm._errors import TransportClosed
from goalfsm._values import Policy
from goalfsm.adapters._rpc import RpcConnection
from goalfsm.adapters._scripted.faults import Fault, Scenario
from goalfsm.adapters._scripted.script import (
    Script,
    Step,
    TurnPlan,
    approval,
    block_goal,
    budget_limit,
    client_clear,
    client_goal,
    client_steer,
    complete_goal,
    end,
    exit_process,
    fail,
    gate,
    goal_status,
    notify,
    raw,
    repeat,
    retrying,
    say,
    stray_answer,
    tool,
    turn,
    usage,
    usage_limit,
    wait,
)
from goalfsm.adapters._server import Received, ScriptedServer

__all__ = [
    "Fault",
    "Received",
    "Scenario",
    "Script",
    "ScriptedServer",
    "Simulated",
    "Step",
    "TurnPlan",
    "approval",
    "block_goal",
    "budget_limit",
    "client_clear",
    "client_goal",
    "client_steer",
    "complete_goal",
    "end",
    "exit_process",
    "fail",
    "gate",
    "goal_status",
    "notify",
    "raw",
    "repeat",
    "retrying",
    "say",
    "stray_answer",
    "tool",
    "turn",
    "usage",
    "usage_limit",
    "wait",
]


@attrs.define(eq=False)
class _Waiter:
    method: str
    client_id: str
    n: int
    event: asyncio.Event


class Simulated:
    """Implements `goalfsm._adapter.Adapter` with a scripted server in this process.

    Connecting again starts a new process on the same disk; a process that still runs is killed first.

    Args:
        script: what the server and its model do.
        faults: what goes wrong.
        clock: where the server's time and the engine's comes from; the machine's if None, and then every run has ids
            of its own.
        speed: how many seconds of the script pass in one second of the clock.
        home: a directory for the threads' own records; without one they have none.

    Attributes:
        server: the scripted server; it stays the same over all connections.
        clock: where the engine should take its time from.
    """

    name = "simulated"

    def __init__(
        self,
        script: Script | None = None,
        faults: Sequence[Fault] = (),
        *,
        clock: Clock | None = None,
        speed: float = 1.0,
        home: str | Path | None = None,
    ) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be positive, not {speed!r}")
        self.clock: Clock = clock or SystemClock()
        self.speed = speed
        self._began = self.clock.monotonic()
        self._pipe: _Pipe | None = None
        self._waiters: list[_Waiter] = []
        self.server = ScriptedServer(script, faults, epoch=self.clock.wall(), home=str(home or ""))
        self.server.exited = 0
        if clock is None:
            # Ids of their own for every run, as a real provider's are: a journal outlives this server's disk, and a
            # message id that an earlier run's thread has used would be taken for that message submitted again.
            self.server.disk.counts["id"] = int(self.clock.wall() * 1000)

    async def connect(self, sink: Sink, policy: Policy) -> Connection:
        """Start a process on the server's disk and complete the handshake.

        Raises:
            TransportClosed: the process ended before.
        """
        if self._pipe is not None:
            self.kill()
            await self._pipe.ended()
        self.server.spawn(self.now())
        pipe = self._pipe = _Pipe(self)
        connection = RpcConnection(pipe, sink, policy)
        pipe.begin(connection)
        try:
            await connection.handshake()
        except BaseException:
            await connection.aclose(0)
            raise
        return connection

    # -- what a test does --------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Give the server's time."""
        return (self.clock.monotonic() - self._began) * self.speed

    def release(self, gate: str) -> None:
        """Open a gate of the script or of a fault, for good."""
        self.server.release(gate, self.now())
        self._kick()

    def push(self, message: Mapping[str, Any] | bytes) -> None:
        """Let the server write any message, as it is."""
        self.server.push(message, self.now())
        self._kick()

    def kill(self, code: int = -9, *, unread: bool = True) -> None:
        """End the server's process: memory is lost, the goal stays as it is on disk (facts 8).

        Args:
            code: its exit code.
            unread: whether the client still reads what was written before.
        """
        self.server.exit(code)
        if not unread:
            self.server.outgoing()
        self._kick()

    async def received(self, method: str, n: int = 1, *, client_id: str = "") -> None:
        """Return once the server has read the n-th request of `method` (with that client id)."""
        waiter = _Waiter(method, client_id, n, asyncio.Event())
        self._waiters.append(waiter)
        self.wake_waiters()
        await waiter.event.wait()

    def _kick(self) -> None:
        if self._pipe is not None:
            self._pipe.kick()

    # -- for the pipe ------------------------------------------------------------------------------------------------

    def wake_waiters(self) -> None:
        """Wake whoever waits for a request that has been read."""
        still = []
        for waiter in self._waiters:
            if self.server.requests(waiter.method, waiter.client_id) >= waiter.n:
                waiter.event.set()
            else:
                still.append(waiter)
        self._waiters = still

    def pending_seconds(self) -> float | None:
        """Give the time on the clock until the server has something to do; None if nothing is due."""
        due = self.server.next_wakeup()
        return None if due is None else max(due - self.now(), 0.0) / self.speed


class _Pipe:
    """Carries lines between one connection and the server, as a process's pipes do."""

    def __init__(self, simulated: Simulated) -> None:
        self._simulated = simulated
        self._lines: list[bytes] = []
        self._kicked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = ""

    def begin(self, connection: RpcConnection) -> None:
        """Begin to carry, until the process ends."""
        self._task = asyncio.get_running_loop().create_task(self._carry(connection))

    def kick(self) -> None:
        """Look at the server again."""
        self._kicked.set()

    async def ended(self) -> None:
        """Return once the process has ended and the connection knows it."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def write(self, line: bytes) -> None:
        """Put a line into the pipe; the server reads it a moment later.

        Raises:
            TransportClosed: the process has ended; no byte was written.
        """
        if self._closed or self._simulated.server.exited is not None:
            raise TransportClosed(self._closed or "the simulated server has ended")
        self._lines.append(line)
        self.kick()

    async def drain(self) -> None:
        """Return once everything written is in the pipe, which is at once."""

    async def aclose(self, timeout: float) -> None:
        """Close the pipe; the process ends, as a real one does when its stdin is closed (facts 8)."""
        del timeout
        if not self._closed:
            self._simulated.server.exit(0)
            self.kick()
        task = self._task
        if task is not None and task is not asyncio.current_task():
            await asyncio.wait([task])

    async def _carry(self, connection: RpcConnection) -> None:
        server = self._simulated.server
        while True:
            self._kicked.clear()
            lines, self._lines = self._lines, []
            for line in lines:
                server.receive_line(line, self._simulated.now())
            server.wake(self._simulated.now())
            self._simulated.wake_waiters()
            self._write_records()
            for line in server.outgoing_lines():
                connection.feed(line)
            if server.exited is not None:
                self._closed = f"the simulated server ended with code {server.exited}"
                connection.closed(self._closed)
                return
            await self._idle()

    def _write_records(self) -> None:
        for path, line in self._simulated.server.rollout():
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as record:
                record.write(line)

    async def _idle(self) -> None:
        if self._kicked.is_set():
            # Others may want to run between two rounds, as they would between two reads of a pipe.
            await asyncio.sleep(0)
            return
        seconds = self._simulated.pending_seconds()
        if seconds is None:
            await self._kicked.wait()
            return
        timer = asyncio.create_task(self._alarm(seconds))
        try:
            await self._kicked.wait()
        finally:
            timer.cancel()

    async def _alarm(self, seconds: float) -> None:
        await self._simulated.clock.sleep(seconds)
        self.kick()
