"""The requests that a scripted app-server knows: what they do, and the exact words of what it refuses (facts 1, 3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from goalfsm.adapters._scripted import shapes
from goalfsm.adapters._scripted.reads import Reads
from goalfsm.adapters._scripted.records import Live, Thread
from goalfsm.adapters._scripted.requests import Refusal, Request, goal_params, message_of, text_of

if TYPE_CHECKING:
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["Methods"]

OBJECTIVE_LIMIT = 4000
_EXPERIMENTAL = ("thread/queue/", "thread/timeline/")
_HEX = re.compile(r"[0-9a-fA-F-]*")


class Methods:
    """Handles requests for one server."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.initialized = False
        self.experimental = False
        self.opted_out: frozenset[str] = frozenset()
        self.reads = Reads(server)
        self._handlers: dict[str, Callable[[Request], None]] = {
            "thread/start": self._thread_start,
            "thread/resume": self._thread_resume,
            "thread/unsubscribe": self._thread_unsubscribe,
            "thread/goal/set": self._goal_set,
            "thread/goal/get": self._goal_get,
            "thread/goal/clear": self._goal_clear,
            "turn/start": self._turn_start,
            "turn/steer": self._turn_steer,
            "turn/interrupt": self._turn_interrupt,
            "thread/read": lambda request: self.reads.thread(request, self.thread(request)),
            "thread/turns/list": lambda request: self.reads.turns(request, self.thread(request)),
            "thread/items/list": self._items_list,
            "thread/loaded/list": self._loaded_list,
        }

    def notified(self, method: str) -> None:
        """Take a notification of the client."""
        if method == "initialized" and self.server.script.noise:
            self.server.tell("configWarning", {"summary": "scripted", "details": None})
            self.server.tell("remoteControl/status/changed", {"status": "disabled", "serverName": "scripted"})

    def handle(self, request: Request) -> None:
        """Do what the request asks and answer it.

        Raises:
            Refusal: it is refused.
        """
        if request.method == "initialize":
            self._initialize(request)
            return
        if not self.initialized:
            raise Refusal("Not initialized")
        handler = self._handlers.get(request.method)
        if handler is None:
            if request.method.startswith(_EXPERIMENTAL) and not self.experimental:
                raise Refusal(f"{request.method} requires experimentalApi capability")
            known = ", ".join(f"`{method}`" for method in ("initialize", *self._handlers))
            raise Refusal(f"Invalid request: unknown variant `{request.method}`, expected one of {known}")
        handler(request)

    def _initialize(self, request: Request) -> None:
        if self.initialized:
            raise Refusal("Already initialized")
        self.initialized = True
        capabilities = request.params.get("capabilities") or {}
        self.experimental = bool(capabilities.get("experimentalApi"))
        self.opted_out = frozenset(capabilities.get("optOutNotificationMethods") or ())
        client = (request.params.get("clientInfo") or {}).get("name", "client")
        agent = f"{client}/0.163.0 (scripted)"
        home = self.server.home
        answer = {"userAgent": agent, "codexHome": home, "platformFamily": "unix", "platformOs": "linux"}
        self.server.answer(request, answer)

    # -- finding a thread --------------------------------------------------------------------------------------------

    def thread(self, request: Request) -> Thread:
        """Give the thread that the request names.

        Raises:
            Refusal: there is no such thread, or the id is none.
        """
        thread_id = text_of(request, "threadId")
        bad = next((at for at, letter in enumerate(thread_id) if not _HEX.fullmatch(letter)), None)
        if bad is not None:
            raise Refusal(
                "invalid thread id: invalid character: expected an optional prefix of `urn:uuid:` "
                f"followed by [0-9a-fA-F-], found `{thread_id[bad]}` at {bad + 1}"
            )
        thread = self.server.disk.threads.get(thread_id)
        if thread is None:
            raise Refusal(f"thread not found: {thread_id}")
        return thread

    def live(self, request: Request) -> Live:
        """Give the thread that the request names, which must be loaded.

        Raises:
            Refusal: it is not.
        """
        thread = self.thread(request)
        live = self.server.turns.live.get(thread.id)
        if live is None:
            raise Refusal(f"thread not found: {thread.id}")
        return live

    # -- threads -----------------------------------------------------------------------------------------------------

    def _thread_start(self, request: Request) -> None:
        server = self.server
        params = request.params
        thread = Thread(
            id=server.new_id(),
            number=len(server.disk.threads),
            created_at=int(server.wall),
            cwd=params.get("cwd") or server.home or "/",
            ephemeral=bool(params.get("ephemeral")),
            legacy=params.get("historyMode") == "legacy",
        )
        if server.home and not thread.ephemeral:
            thread.path = f"{server.home}/sessions/rollout-{thread.id}.jsonl"
            meta = {"id": thread.id, "cwd": thread.cwd, "cli_version": "0.163.0"}
            server.record(thread, {"timestamp": server.stamp(), "type": "session_meta", "payload": meta})
        server.disk.threads[thread.id] = thread
        server.turns.load(thread)
        shown = shapes.thread_json(thread, {"type": "idle"}, thread.created_at, [])
        server.answer(request, shapes.session(shown))
        server.tell("thread/started", {"thread": shown}, thread.id)

    def _thread_resume(self, request: Request) -> None:
        server = self.server
        thread = self.thread(request)
        live = server.turns.live.get(thread.id)
        fresh = live is None
        if live is None:
            live = server.turns.load(thread)
            server.turns.tell_status(live, "idle")
        live.subscribed = True
        turns: list[dict[str, Any]] = []
        if not request.params.get("excludeTurns"):
            turns = self.reads.full_turns(thread)
            server.tell("deprecationNotice", {"summary": "Full-history hydration is deprecated.", "details": None})
        shown = shapes.thread_json(thread, server.turns.status(thread), int(server.wall), turns)
        server.answer(request, shapes.session(shown))
        if fresh and thread.goal:
            server.turns.tell_goal(thread, None)
            server.turns.schedule(live, server.script.start)

    def _thread_unsubscribe(self, request: Request) -> None:
        live = self.server.turns.live.get(self.thread(request).id)
        status = "unsubscribed" if live and live.subscribed else "notSubscribed"
        if live:
            live.subscribed = False
        self.server.answer(request, {"status": status})

    def _loaded_list(self, request: Request) -> None:
        self.server.answer(request, {"data": list(self.server.turns.live), "nextCursor": None})

    def _items_list(self, request: Request) -> None:
        thread = self.thread(request)
        if thread.legacy:
            raise Refusal("thread/items/list is not supported yet", -32601)
        self.reads.items(request, thread)

    # -- goals -------------------------------------------------------------------------------------------------------

    def _goal_thread(self, request: Request) -> Thread:
        if not self.server.script.goals:
            raise Refusal("goals feature is disabled")
        thread = self.thread(request)
        if thread.ephemeral:
            raise Refusal(f"ephemeral thread does not support goals: {thread.id}")
        return thread

    def _goal_get(self, request: Request) -> None:
        thread = self._goal_thread(request)
        self.server.answer(request, {"goal": thread.goal and shapes.goal_json(thread.id, thread.goal)})

    def _goal_clear(self, request: Request) -> None:
        thread = self._goal_thread(request)
        cleared = thread.goal is not None
        thread.goal = None
        self.server.answer(request, {"cleared": cleared})
        if cleared:
            self.server.turns.goal_changed(thread)
            self.server.tell("thread/goal/cleared", {"threadId": thread.id}, thread.id)

    def _goal_set(self, request: Request) -> None:
        objective, status, budget = goal_params(request.params)
        thread = self._goal_thread(request)
        if objective is not None:
            objective = objective.strip()
            if not objective:
                raise Refusal("goal objective must not be empty")
            if len(objective) > OBJECTIVE_LIMIT:
                raise Refusal(f"goal objective must be at most {OBJECTIVE_LIMIT} characters")
        if budget is not None and budget < 1:
            raise Refusal("goal budgets must be positive when provided")
        if objective is None and thread.goal is None:
            raise Refusal(f"cannot update goal for thread {thread.id}: no goal exists")
        goal = self.server.turns.change_goal(thread, objective, status, budget)
        self.server.answer(request, {"goal": shapes.goal_json(thread.id, goal)})
        self.server.turns.tell_goal(thread, None)
        self.server.turns.goal_changed(thread)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _turn_start(self, request: Request) -> None:
        live = self.live(request)
        turn = self.server.turns.start(live, message_of(request))
        record = attrs.evolve(turn.record, started_at=None)
        self.server.answer(request, {"turn": shapes.turn_json(record, "notLoaded")})

    def _turn_steer(self, request: Request) -> None:
        expected = text_of(request, "expectedTurnId")
        message = message_of(request)
        live = self.live(request)
        if not expected:
            raise Refusal("expectedTurnId must not be empty")
        if live.running is None:
            raise Refusal("no active turn to steer")
        if live.running.id != expected:
            raise Refusal(f"expected active turn id `{expected}` but found `{live.running.id}`")
        self.server.turns.accept(live, live.running, message)
        self.server.answer(request, {"turnId": expected})

    def _turn_interrupt(self, request: Request) -> None:
        live = self.live(request)
        turn_id = text_of(request, "turnId")
        if live.running is None and turn_id and live.interrupted:
            if turn_id != live.interrupted:
                raise Refusal(f"expected active turn id {turn_id} but found {live.interrupted}")
            # Observed every time: this one is answered only when the thread's next turn has ended (facts 9).
            live.stuck.append(request)
            return
        if live.running is None and turn_id:
            raise Refusal("no active turn to interrupt")
        if live.running and turn_id and turn_id != live.running.id:
            raise Refusal(f"expected active turn id {turn_id} but found {live.running.id}")
        self.server.answer(request, {})
        if live.running:
            self.server.turns.interrupt(live, live.running)
