"""The physical turns of a scripted app-server: how they begin, take messages, end and follow on (facts 4, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from goalfsm.adapters._scripted import shapes
from goalfsm.adapters._scripted.play import Player
from goalfsm.adapters._scripted.records import Goal, Live, Message, Running, Thread, TurnRecord

if TYPE_CHECKING:
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["Turns"]


class Turns:
    """Runs the turns of all loaded threads of one server.

    Attributes:
        live: the loaded threads, by id.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.live: dict[str, Live] = {}
        self.player = Player(server, self)

    # -- threads -----------------------------------------------------------------------------------------------------

    def load(self, thread: Thread) -> Live:
        """Load a thread into memory; that makes everything on its disk readable again (facts 6)."""
        live = self.live[thread.id] = Live(thread)
        for turn in thread.turns:
            turn.unreadable.clear()
        return live

    def die(self) -> None:
        """Lose the memory: messages not yet shown are gone, running turns are cut."""
        for live in self.live.values():
            if live.running:
                _close(live.running)
                live.running.record.status = "interrupted"
                live.running = None
        self.live.clear()

    def status(self, thread: Thread) -> dict[str, Any]:
        """Give a thread's status."""
        live = self.live.get(thread.id)
        if live is None:
            return {"type": "notLoaded"}
        if live.running and live.running.told:
            return {"type": "active", "activeFlags": []}
        return {"type": "systemError" if live.failed else "idle"}

    # -- notifications -----------------------------------------------------------------------------------------------

    def tell(self, live: Live, method: str, params: Mapping[str, Any]) -> None:
        """Tell something about turns or items, which only a subscribed client hears (facts 8)."""
        if live.subscribed:
            self.server.tell(method, {"threadId": live.thread.id, **params}, live.thread.id)

    def tell_status(self, live: Live, word: str) -> None:
        """Tell the thread's status."""
        status = {"type": word, "activeFlags": []} if word == "active" else {"type": word}
        params = {"threadId": live.thread.id, "status": status}
        self.server.tell("thread/status/changed", params, live.thread.id)

    def tell_goal(self, thread: Thread, turn_id: str | None) -> None:
        """Tell the goal; without a turn id a client or a resume caused it (facts 2)."""
        if thread.goal is None:
            return
        thread.goal.tokens_told = thread.goal.tokens_used
        params = {"threadId": thread.id, "turnId": turn_id, "goal": shapes.goal_json(thread.id, thread.goal)}
        self.server.tell("thread/goal/updated", params, thread.id)

    def change_goal(self, thread: Thread, objective: str | None, status: str | None, budget: int | None) -> Goal:
        """Write the goal to disk; a new objective keeps the budget and is active unless told else (facts 1)."""
        now = int(self.server.wall)
        goal = thread.goal
        if goal is None or (objective is not None and goal.objective != objective):
            kept = goal.token_budget if goal else None
            goal = thread.goal = Goal(objective or "", "active", kept, now, now)
        goal.updated_at = now
        goal.token_budget = budget or goal.token_budget
        goal.status = status or ("active" if objective is not None else goal.status)
        if goal.status == "active" and goal.token_budget is not None and goal.tokens_used >= goal.token_budget:
            goal.status = "budgetLimited"
        return goal

    # -- beginning ---------------------------------------------------------------------------------------------------

    def goal_changed(self, thread: Thread) -> None:
        """Let a goal that a client changed begin or call off its next turn."""
        live = self.live.get(thread.id)
        if live is None:
            return
        if thread.goal and thread.goal.status == "active":
            live.suspended = False
            if live.coming is None:
                self.schedule(live, self.server.script.start)
        elif live.coming:
            live.coming.cancel()
            live.coming = None

    def schedule(self, live: Live, delay: float) -> None:
        """Let an active goal begin its next turn, told after `delay` seconds; the turn exists a little earlier."""
        goal = live.thread.goal
        if self.live.get(live.thread.id) is not live:
            return
        if live.running or live.suspended or goal is None or goal.status != "active":
            return
        _, plan = live.thread.next_plan(self.server.script, "goal")
        delay = delay if plan.delay is None else plan.delay
        untold = min(self.server.script.told_after, delay)
        live.coming = self.server.agenda.wait(
            lambda: self._continue(live, untold), seconds=delay - untold, gate=plan.start_gate
        )

    def _continue(self, live: Live, untold: float) -> None:
        live.coming = None
        if live.running is None:
            self._begin(live, "goal", untold)

    def start(self, live: Live, message: Message) -> Running:
        """Take a turn/start: it joins a turn that exists, and begins an ordinary one if there is none (facts 5)."""
        if live.running is None:
            if live.coming:
                live.coming.cancel()
                live.coming = None
            self._begin(live, "user", self.server.script.told_after)
        assert live.running is not None  # noqa: S101  _begin made it
        self.accept(live, live.running, message)
        return live.running

    def _begin(self, live: Live, kind: Literal["goal", "user"], untold: float) -> None:
        number, plan = live.thread.next_plan(self.server.script, kind)
        if number >= 0:
            live.thread.used.append(number)
        record = TurnRecord(self.server.new_id())
        running = live.running = Running(record, kind, plan, self.server.agenda.now)
        live.interrupted = ""
        # A moment of its own, also where the delay is nothing: the answer that started the turn comes first.
        running.waiting = self.server.agenda.wait(
            lambda: self._tell_started(live, running), seconds=max(untold, 1e-6), gate=plan.told_gate
        )

    def _tell_started(self, live: Live, running: Running) -> None:
        running.told = True
        running.began = self.server.agenda.now
        running.record.started_at = int(self.server.wall)
        live.failed = False
        live.thread.turns.append(running.record)
        self.tell_status(live, "active")
        self.tell(live, "turn/started", {"turn": shapes.turn_json(running.record, "notLoaded")})
        for message in tuple(running.pending):
            self._carry(live, running, message)
        if live.running is running:
            self.player.play(live, running)

    # -- messages ----------------------------------------------------------------------------------------------------

    def accept(self, live: Live, running: Running, message: Message) -> None:
        """Put a message into memory; the model is shown it a little later, or never (facts 5)."""
        self.server.count("echo", message.client_id or "")
        message.fault = self.server.fault("echo", "", message.client_id or "")
        running.pending.append(message)
        if running.told:
            self._carry(live, running, message)

    def _carry(self, live: Live, running: Running, message: Message) -> None:
        fault = message.fault
        held = fault is not None and fault.action == "delay"
        waits = running.in_tool or not self.server.script.instant_interrupt
        if waits and not held and running.play is not None:
            return
        seconds = fault.seconds if fault and held else self.server.script.echo
        gate = fault.gate if fault and held else ""
        after = fault.after if fault and held else ""
        message.entry = self.server.agenda.wait(
            lambda: self.player.take(live, running, message), seconds=max(seconds, 1e-6), gate=gate, after=after
        )

    # -- ending ------------------------------------------------------------------------------------------------------

    def interrupt(self, live: Live, running: Running) -> None:
        """Cut a turn: its messages in memory are lost, the goal stays active and starts nothing (facts 4, 5)."""
        if not running.told:
            running.record.started_at = int(self.server.wall)
            running.told = True
            live.thread.turns.append(running.record)
            self.tell_status(live, "active")
            self.tell(live, "turn/started", {"turn": shapes.turn_json(running.record, "notLoaded")})
        live.interrupted = running.id
        self.end(live, running, "interrupted")

    def end(
        self,
        live: Live,
        running: Running,
        status: Literal["completed", "interrupted", "failed"],
        error: Mapping[str, Any] | None = None,
    ) -> None:
        """End a turn and tell it: the goal first, then the status, then the turn (facts 4)."""
        if live.running is not running:
            return
        _close(running)
        record = running.record
        record.status = status
        record.error = error
        record.completed_at = int(self.server.wall)
        record.duration_ms = round((self.server.agenda.now - running.began) * 1000)
        live.running = None
        live.suspended = status == "interrupted" or (live.suspended and status != "completed")
        goal = live.thread.goal
        if status == "completed" and goal and goal.status == "active" and goal.tokens_told != goal.tokens_used:
            self.tell_goal(live.thread, running.id)
        live.failed = status == "failed"
        if not live.failed:
            self.tell_status(live, "idle")
        view = ("summary", [running.last_message]) if running.last_message else ("notLoaded", [])
        self.tell(live, "turn/completed", {"turn": shapes.turn_json(record, *view)})
        stuck, live.stuck = live.stuck, []
        for request in stuck:
            self.server.answer(request, {})
        self.schedule(live, self.server.script.gap)

    def answered(self, request_id: Any) -> bool:
        """Give the client's decision to the turn that asked for it; False if none did."""
        for live in self.live.values():
            if live.running and live.running.asked is not None and live.running.asked == request_id:
                live.running.asked = None
                self.player.resume(live, live.running)
                return True
        return False


def _close(running: Running) -> None:
    if running.waiting:
        running.waiting.cancel()
    for message in running.pending:
        if message.entry:
            message.entry.cancel()
    running.pending.clear()
    play, running.play = running.play, None
    # A step that ends its own turn is still on the stack; its generator ends by itself.
    if play is not None and not running.playing:
        play.close()
