# ruff: noqa: S101  these are a test's assertions; whoever subclasses it runs them under pytest
"""The door for adapters: a pytest class that judges somebody's adapter by what it tells the engine, and when.

    from goalfsm.testing.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        def make_adapter(self, stage):
            return MyAdapter(program=stage.binary)

An adapter of a provider that does not speak the app-server's protocol overrides `make_stage` too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from goalfsm import events as ev
from goalfsm._adapter import Adapter, Connection, Look, Notification, Outgoing
from goalfsm._errors import TransportClosed
from goalfsm._values import Policy, Timeouts
from goalfsm.testing.conformance._stage import LIMIT, AdapterStage, DoubleStage, Heard, Situation, name_of

__all__ = ["AdapterConformance", "AdapterStage", "Heard", "Situation"]

_PAUSE = 7
_SET = 3


class AdapterConformance:
    """Subclass it, and give an adapter; pytest does the rest. Each test is one law of the contract in `_adapter`.

    Attributes:
        policy: given to the adapter.
        steers: whether the provider can take a message into a running turn.
    """

    policy: ClassVar[Policy] = Policy(timeouts=Timeouts(call=3.0, start=10.0))
    steers: ClassVar[bool] = True

    def make_adapter(self, stage: AdapterStage) -> Adapter:
        """Give a new adapter on this provider."""
        raise NotImplementedError

    def make_stage(self, home: Path, situation: Situation) -> AdapterStage:
        """Give a provider in a situation; the default is the double of the app-server."""
        return DoubleStage(home, situation)

    # -- the laws -----------------------------------------------------------------------------------------------------

    def test_a01_connecting_ends_and_closing_twice_is_no_error(self, tmp_path: Path) -> None:
        """A connection opens within its deadline; closing is idempotent and reports at most one loss."""

        async def judge(_stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            assert connection.capabilities is not None
            await connection.aclose(4.0)
            await connection.aclose(4.0)
            assert len(heard.losses) <= 1, f"one end was reported {len(heard.losses)} times"

        self._run(tmp_path, "held turn", judge)

    def test_a02_a_provider_that_does_not_start_is_a_closed_transport(self, tmp_path: Path) -> None:
        """Whoever connects gets `TransportClosed` with a reason, and nothing of it reaches the sink."""
        heard = Heard()

        async def connect() -> None:
            stage = self.make_stage(tmp_path, "dies at once")
            try:
                with anyio.fail_after(LIMIT):
                    connection = await self.make_adapter(stage).connect(heard, self.policy)
                await connection.aclose(1.0)
            except TransportClosed as closed:
                reasons.append(str(closed))
            finally:
                stage.close()

        reasons: list[str] = []
        anyio.run(connect)
        assert reasons, "connect() returned although the provider had ended"
        assert reasons[0], "the error does not say why"
        assert not heard.losses, "a connection that never was cannot be lost"

    def test_a03_facts_come_in_wire_order_and_before_their_notifications(self, tmp_path: Path) -> None:
        """The goal is active before its turn runs; the goal is over before its last turn is."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            await self._held_turn(connection, heard)
            await stage.let_go()
            await heard.until(lambda: heard.of(ev.TurnCompleted), "the turn's end")
            names = [type(h).__name__ for h in heard.all if isinstance(h, ev.TypedEvent)]
            order = [names.index(name) for name in ("GoalActive", "TurnStarted", "GoalCompleted", "TurnCompleted")]
            assert order == sorted(order), f"facts out of order: {names}"
            starts = [name_of(h) for h in heard.all if isinstance(h, ev.TurnStarted | Notification)]
            first = next(i for i, h in enumerate(heard.all) if isinstance(h, Notification) and h.kind == "turn_started")
            assert any(isinstance(h, ev.TurnStarted) for h in heard.all[:first]), f"a notification came first: {starts}"

        self._run(tmp_path, "held turn", judge)

    def test_a04_a_message_gets_one_answer_and_its_echo_says_where(self, tmp_path: Path) -> None:
        """Each send is answered once, with its own id and attempt; the echo names the turn that took it."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            thread, running = await self._held_turn(connection, heard)
            await self._send(connection, thread, Outgoing("m1", 5, "steer", running, "hello"))
            await heard.until(lambda: heard.of(ev.Echo, id="m1"), "the echo")
            await heard.until(lambda: self._answers(heard, "m1"), "the answer")
            await stage.let_go()
            await heard.until(lambda: heard.of(ev.TurnCompleted), "the turn's end")
            answers = self._answers(heard, "m1")
            assert [(type(a).__name__, a.attempt) for a in answers] == [("SendOk", 5)]
            assert {echo.turn_id for echo in heard.of(ev.Echo, id="m1")} == {running}
            assert stage.shown("hello") == 1

        self._run(tmp_path, "held turn", judge, needs_steer=True)

    def test_a05_a_refusal_keeps_the_providers_words_and_never_echoes(self, tmp_path: Path) -> None:
        """A steer to a turn that is not the running one is refused, with words, and shown to nobody."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            thread, _ = await self._held_turn(connection, heard)
            other = "01a20000-0000-7000-8000-00000000ffff"
            await self._send(connection, thread, Outgoing("m1", 2, "steer", other, "hello"))
            await heard.until(lambda: self._answers(heard, "m1"), "the answer")
            [answer] = self._answers(heard, "m1")
            assert isinstance(answer, ev.SendRefused | ev.SendMoved)
            assert answer.message, "the refusal has no words"
            await stage.let_go()
            await heard.until(lambda: heard.of(ev.TurnCompleted), "the turn's end")
            assert not heard.of(ev.Echo, id="m1")
            assert stage.shown("hello") == 0

        self._run(tmp_path, "held turn", judge, needs_steer=True)

    def test_a06_looking_back_finds_what_was_shown_and_only_that(self, tmp_path: Path) -> None:
        """After a turn's end a shown message is found, one that was never sent is absent, each with its own fences."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            thread, running = await self._held_turn(connection, heard)
            await self._send(connection, thread, Outgoing("m1", 1, "steer", running, "hello"))
            await heard.until(lambda: heard.of(ev.Echo, id="m1"), "the echo")
            await stage.let_go()
            await heard.until(lambda: heard.of(ev.TurnCompleted), "the turn's end")
            if not connection.capabilities.read_back:
                return
            looks = [Look("m1", 1, running, 4, text="hello"), Look("m2", 9, running, 4, text="never sent")]
            connection.look(thread, looks, 5.0)
            await heard.until(lambda: heard.of(ev.Found, id="m1") and heard.of(ev.Absent, id="m2"), "found and absent")
            [absent] = heard.of(ev.Absent, id="m2")
            assert (absent.attempt, absent.gen) == (9, 4)
            assert not heard.of(ev.Absent, id="m1")

        self._run(tmp_path, "held turn", judge, needs_steer=True)

    def test_a07_a_call_is_answered_under_its_own_number(self, tmp_path: Path) -> None:
        """A pause is answered as a pause, with the number that it was made under, and the goal is told as paused."""

        async def judge(_stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            if not connection.capabilities.pause:
                return
            thread, _ = await self._held_turn(connection, heard)
            connection.call(thread, "pause_goal", _PAUSE)
            await heard.until(lambda: heard.of(ev.PauseOk, call=_PAUSE), "the answer to the pause")
            await heard.until(lambda: heard.of(ev.GoalPaused), "the goal being told as paused")

        self._run(tmp_path, "held turn", judge)

    def test_a08_a_dead_provider_is_reported_once_and_takes_nothing_more(self, tmp_path: Path) -> None:
        """`lost` is called once; afterwards nothing is heard, and a send raises, which proves that no byte went out."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            thread, running = await self._held_turn(connection, heard)
            await stage.kill()
            await heard.until(lambda: heard.losses, "the loss")
            try:
                await self._send(connection, thread, Outgoing("m1", 1, "steer", running, "hello"))
            except TransportClosed:
                pass
            else:
                raise AssertionError("a send to a dead provider did not raise TransportClosed")
            await connection.aclose(4.0)
            assert len(heard.losses) == 1, f"one loss was reported {len(heard.losses)} times"
            late = [name_of(h) for h in heard.after_loss if not isinstance(h, tuple)]
            assert not late, f"heard after the loss: {late}"

        self._run(tmp_path, "held turn", judge)

    def test_a09_what_is_no_protocol_is_odd_and_never_fatal(self, tmp_path: Path) -> None:
        """Torn lines, lists and methods that are no words are reported as odd; what follows is heard."""

        async def judge(stage: AdapterStage, connection: Connection, heard: Heard) -> None:
            await self._held_turn(connection, heard)
            await stage.let_go()
            await heard.until(lambda: heard.of(ev.TurnCompleted), "the turn's end after the odd lines")
            assert not heard.losses
            assert heard.of(tuple), "nothing was reported as odd"

        self._run(tmp_path, "odd lines", judge)

    # -- what they share ----------------------------------------------------------------------------------------------

    def _run(
        self,
        home: Path,
        situation: Situation,
        judge: Callable[[AdapterStage, Connection, Heard], Awaitable[None]],
        *,
        needs_steer: bool = False,
    ) -> None:
        if needs_steer and not self.steers:
            import pytest  # noqa: PLC0415  whoever runs this has it

            pytest.skip("not judged: this provider takes no message into a running turn")

        async def started() -> None:
            async with self._connected(home, situation) as (stage, connection, heard):
                await judge(stage, connection, heard)

        anyio.run(started)

    @asynccontextmanager
    async def _connected(
        self, home: Path, situation: Situation
    ) -> AsyncIterator[tuple[AdapterStage, Connection, Heard]]:
        stage = self.make_stage(home, situation)
        heard = Heard()
        try:
            with anyio.fail_after(LIMIT):
                connection = await self.make_adapter(stage).connect(heard, self.policy)
                try:
                    yield stage, connection, heard
                finally:
                    with anyio.CancelScope(shield=True), contextlib.suppress(asyncio.TimeoutError):
                        await connection.aclose(4.0)
        finally:
            stage.close()

    async def _held_turn(self, connection: Connection, heard: Heard) -> tuple[str, str]:
        """Start a thread and a goal; give the thread and the turn, once it runs."""
        info = await connection.start_thread({})
        connection.call(info.id, "set_goal", _SET, objective="make the tests green")
        await heard.until(lambda: heard.of(ev.TurnStarted), "the goal's first turn")
        [started] = heard.of(ev.TurnStarted)
        assert heard.of(ev.SetOk, call=_SET), "the answer to the goal being set did not come before its turn"
        return info.id, str(started.turn_id)

    @staticmethod
    async def _send(connection: Connection, thread: str, message: Outgoing) -> None:
        async with connection.writing():
            connection.send(thread, message)

    @staticmethod
    def _answers(heard: Heard, message_id: str) -> list[Any]:
        return heard.of(ev.SendOk, ev.SendRefused, ev.SendMoved, ev.AnswerLost, id=message_id)
