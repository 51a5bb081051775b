"""Playing a turn's plan, step by step: what the scripted model says and does, and what it is shown (facts 4, 5)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from goalfsm.adapters._scripted import shapes
from goalfsm.adapters._scripted.records import Live, Message, Pause, Running
from goalfsm.adapters._scripted.script import Step, say

if TYPE_CHECKING:
    from goalfsm.adapters._scripted.turns import Turns
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["Player"]

Play = Generator[Pause, None, None]


class Player:
    """Plays turn plans for one server."""

    def __init__(self, server: ScriptedServer, turns: Turns) -> None:
        self.server = server
        self.turns = turns
        self._steps: dict[str, Callable[[Live, Running, Step], Iterator[Pause]]] = {
            "say": self._say,
            "tool": self._tool,
            "wait": self._pause,
            "gate": self._pause,
            "approval": self._approval,
        }
        self._acts: dict[str, Callable[[Live, Running, Step], None]] = {
            "usage": self._spend,
            "goal": self._goal,
            "fail": self._fail,
            "retrying": self._retrying,
            "notify": self._notify,
            "raw": lambda _live, _running, step: self.server.push(step.text.encode() + b"\n", self.server.agenda.now),
            "repeat": lambda live, _running, step: self.server.outbox.retell(live.thread.id, step.word),
            "stray_answer": self._stray_answer,
            "exit": lambda _live, _running, step: self.server.exit(step.code),
            "end": self._end,
            "client_goal": self._client_goal,
            "client_clear": self._client_clear,
            "client_steer": self._client_steer,
        }

    # -- driving -----------------------------------------------------------------------------------------------------

    def play(self, live: Live, running: Running) -> None:
        """Begin the plan; an ordinary turn waits for its first message before the model is asked."""
        running.play = self._plan(live, running)
        self.resume(live, running)

    def resume(self, live: Live, running: Running) -> None:
        """Go on until the next pause, or to the turn's end."""
        if running.play is None or running.playing or live.running is not running:
            return
        if running.waiting:
            running.waiting.cancel()
        running.playing = True
        try:
            pause = next(running.play, None)
        finally:
            running.playing = False
        if pause is None:
            self.turns.end(live, running, "completed")
            return
        if pause.pending or pause.answer is not None:
            return
        running.waiting = self.server.agenda.wait(
            lambda: self.resume(live, running), seconds=max(pause.seconds, 1e-6), gate=pause.gate
        )

    def _plan(self, live: Live, running: Running) -> Play:
        if running.kind == "user":
            yield from self._drain(running)
        self._ask_model(live, running)
        for step in running.plan.steps:
            if step.kind in self._steps:
                yield from self._steps[step.kind](live, running, step)
            else:
                self._acts[step.kind](live, running, step)
            if live.running is not running or self.server.exited is not None:
                return
            if not self.server.script.instant_interrupt:
                self._take_all(live, running)
        # A message that was accepted while the turn was ending keeps it open for one more request (facts 5).
        while running.pending:
            self._take_all(live, running)
            yield from self._drain(running)
            yield from self._say(live, running, say(self.server.script.late_reply))

    def _drain(self, running: Running) -> Iterator[Pause]:
        while running.pending:
            running.draining = True
            yield Pause(pending=True)
        running.draining = False

    def _ask_model(self, live: Live, running: Running) -> None:
        goal = live.thread.goal
        objective = goal.objective if goal and goal.status == "active" else ""
        texts = [entry["text"] for entry in self.server.disk.shown if entry["thread"] == live.thread.id]
        asked = {"thread": live.thread.id, "turn": running.id, "objective": objective, "texts": texts}
        self.server.disk.model_requests.append(asked)

    # -- messages ----------------------------------------------------------------------------------------------------

    def _take_all(self, live: Live, running: Running) -> None:
        for message in tuple(running.pending):
            if message.fault is None or message.fault.action != "delay":
                self.take(live, running, message)

    def take(self, live: Live, running: Running, message: Message) -> None:
        """Show a message to the model, record it and tell it, in that order (facts 6)."""
        if live.running is not running or message not in running.pending:
            return
        action = message.fault.action if message.fault else ""
        if running.in_tool and action != "delay":
            return
        if message.entry:
            message.entry.cancel()
        if action == "lose":
            self._taken(live, running, message)
            return
        for _ in range(2 if action == "duplicate" else 1):
            self._show(live, running, message, action)
        running.open_item, cut = "", running.open_item
        self._taken(live, running, message)
        if live.running is running and running.play is not None and not running.in_tool:
            self._ask_model(live, running)
            if cut:
                self.resume(live, running)

    def _taken(self, live: Live, running: Running, message: Message) -> None:
        running.pending.remove(message)
        if running.draining and not running.pending:
            running.draining = False
            self.resume(live, running)

    def _show(self, live: Live, running: Running, message: Message, action: str) -> None:
        server = self.server
        shown = {"text": message.text, "client_id": message.client_id, "thread": live.thread.id, "turn": running.id}
        server.disk.shown.append(shown)
        server.record(live.thread, shapes.rollout_response(server.stamp(), running.id, message.content))
        item = shapes.user_message(server.new_id(), message.client_id, message.content)
        if action == "hole":
            gate = message.fault.gate if message.fault else ""
            server.agenda.wait(lambda: self._show_item(live, running, item, ""), gate=gate)
        else:
            self._show_item(live, running, item, action)

    def _show_item(self, live: Live, running: Running, item: dict[str, Any], action: str) -> None:
        server = self.server
        told = () if action == "drop" else ("item/started", "item/completed") * (2 if action == "repeat" else 1)
        for method in told[:1]:
            self._tell_item(live, running, method, item)
        server.record(live.thread, shapes.rollout_item(server.stamp(), live.thread.id, running.id, item))
        running.record.items.append(item)
        if action == "unprojected":
            running.record.unreadable.append(item["id"])
        for method in told[1:]:
            self._tell_item(live, running, method, item)

    def _tell_item(self, live: Live, running: Running, method: str, item: Mapping[str, Any]) -> None:
        moment = "startedAtMs" if method == "item/started" else "completedAtMs"
        params = {"item": dict(item), "turnId": running.id, moment: int(self.server.wall * 1000)}
        self.turns.tell(live, method, params)

    # -- steps that take time ----------------------------------------------------------------------------------------

    def _pause(self, _live: Live, _running: Running, step: Step) -> Iterator[Pause]:
        yield Pause(step.seconds, step.gate)

    def _say(self, live: Live, running: Running, step: Step) -> Iterator[Pause]:
        item_id = f"msg-{self.server.count('message')}"
        self._tell_item(live, running, "item/started", shapes.agent_message(item_id, "", step.word))
        self.turns.tell(live, "item/agentMessage/delta", {"turnId": running.id, "itemId": item_id, "delta": step.text})
        if step.seconds or step.gate:
            running.open_item = item_id
            yield Pause(step.seconds, step.gate)
            if running.open_item != item_id:
                return
            running.open_item = ""
        item = shapes.agent_message(item_id, step.text, step.word)
        running.record.items.append(item)
        running.last_message = item
        self._tell_item(live, running, "item/completed", item)
        self._spend(live, running, step)

    def _tool(self, live: Live, running: Running, step: Step) -> Iterator[Pause]:
        item_id = f"call-{self.server.count('call')}"
        cwd = live.thread.cwd
        running.in_tool = True
        self._tell_item(live, running, "item/started", shapes.command(item_id, step.text, cwd, None))
        self._spend(live, running, step)
        if step.seconds or step.gate:
            yield Pause(step.seconds, step.gate)
        item = shapes.command(item_id, step.text, cwd, str(step.params.get("output", "")))
        running.record.items.append(item)
        running.in_tool = False
        self._tell_item(live, running, "item/completed", item)
        self._take_all(live, running)
        self._ask_model(live, running)

    def _approval(self, live: Live, running: Running, step: Step) -> Iterator[Pause]:
        params = {"threadId": live.thread.id, "turnId": running.id, "itemId": f"call-{self.server.count('call')}"}
        running.asked = self.server.ask(step.word, {**params, **step.params})
        yield Pause(answer=running.asked)

    # -- steps that take none ----------------------------------------------------------------------------------------

    def _spend(self, live: Live, running: Running, step: Step, *, charge: bool = True) -> None:
        total = live.thread.tokens
        for place, figure in enumerate(step.tokens):
            total[place] += figure
        usage = shapes.token_usage(total, step.tokens)
        self.turns.tell(live, "thread/tokenUsage/updated", {"turnId": running.id, "tokenUsage": usage})
        if self.server.script.noise:
            self.server.tell("account/rateLimits/updated", {"rateLimits": {"limitId": "scripted"}})
        if charge:
            self._charge(live, running, step)

    def _charge(self, live: Live, running: Running, step: Step) -> None:
        goal = live.thread.goal
        if goal is None or goal.status != "active":
            return
        goal.tokens_used += step.tokens[0] + step.tokens[2]
        goal.updated_at = int(self.server.wall)
        if goal.token_budget is not None and goal.tokens_used >= goal.token_budget:
            goal.status = "budgetLimited"
            self.turns.tell_goal(live.thread, running.id)

    def _goal(self, live: Live, running: Running, step: Step) -> None:
        goal = live.thread.goal
        if goal is None or (goal.status != "active" and not step.text):
            return
        self._charge(live, running, step)
        if goal.status == "active" and goal.tokens_used != goal.tokens_told:
            self.turns.tell_goal(live.thread, running.id)
        goal.status = step.word
        goal.updated_at = int(self.server.wall)
        self.turns.tell_goal(live.thread, running.id)
        self._spend(live, running, step, charge=False)

    def _fail(self, live: Live, running: Running, step: Step) -> None:
        goal = live.thread.goal
        if goal and goal.status == "active":
            goal.status = step.word
            self.turns.tell_goal(live.thread, running.id)
        error = shapes.turn_error(step.text, step.params.get("info", "other"))
        live.failed = True
        self.turns.tell_status(live, "systemError")
        self.turns.tell(live, "error", {"error": error, "willRetry": False, "turnId": running.id})
        self.turns.end(live, running, "failed", error)

    def _retrying(self, live: Live, running: Running, step: Step) -> None:
        info = {"responseStreamDisconnected": {"httpStatusCode": None}}
        error = shapes.turn_error(step.text, info, "Connection failed")
        self.turns.tell(live, "error", {"error": error, "willRetry": True, "turnId": running.id})

    def _notify(self, live: Live, running: Running, step: Step) -> None:
        params = {"threadId": live.thread.id, "turnId": running.id, **step.params}
        self.server.tell(step.word, params, live.thread.id)

    def _stray_answer(self, _live: Live, _running: Running, step: Step) -> None:
        self.server.push({"id": step.code, "result": dict(step.params)}, self.server.agenda.now)

    def _end(self, live: Live, running: Running, step: Step) -> None:
        if step.word == "interrupted":
            live.interrupted = running.id
            self.turns.end(live, running, "interrupted")
        else:
            self.turns.end(live, running, "completed")

    def _client_goal(self, live: Live, _running: Running, step: Step) -> None:
        self.turns.change_goal(live.thread, step.text or None, step.word or None, None)
        self.turns.tell_goal(live.thread, None)
        self.turns.goal_changed(live.thread)

    def _client_clear(self, live: Live, _running: Running, _step: Step) -> None:
        live.thread.goal = None
        self.turns.goal_changed(live.thread)
        self.server.tell("thread/goal/cleared", {"threadId": live.thread.id}, live.thread.id)

    def _client_steer(self, live: Live, running: Running, step: Step) -> None:
        message = Message([{"type": "text", "text": step.text}], step.word or None)
        running.pending.append(message)
        self.take(live, running, message)
