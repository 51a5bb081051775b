"""L5, L8 to L11: stops, goals, processes, and whatever else a provider says."""

from __future__ import annotations

from collections.abc import Iterator

from goalfsm.testing.conformance._history import Entry
from goalfsm.testing.conformance._law import Broken, NotJudged, law, places, proven_absent, shows_history
from goalfsm.testing.conformance._scene import ROUTES, Command, Message, Scene

__all__: list[str] = []


@law(
    "L5",
    "stop dominates: nothing is sent and nothing goes on after it, and the goal is paused before its turn is cut",
    rests_on="E15, E31, P5, P6",
    looks_at="requests read after the stop; turns started after its answer; the goal's status then and at the end",
)
def _stop(scene: Scene) -> Iterator[Broken]:
    stops = [c for c in scene.commands if c.word in ("stop", "cancel") and c.answered and not c.refused]
    if not stops:
        raise NotJudged("nothing was stopped")
    for stop in stops:
        end = next((c.asked for c in scene.commands if c.word == "start_goal" and c.asked > stop.asked), 0)
        yield from _sent_after(scene, stop, end)
        yield from _runs_after(scene, stop, end)
        yield from _cut_before_paused(scene, stop)


def _begun(scene: Scene, stop: Command) -> int:
    """Where the stop became visible: its first own request, at the latest its answer."""
    for entry in scene.of("read", "turn/interrupt", "thread/goal/set", "thread/goal/clear", after=stop.asked):
        if entry.word != "thread/goal/set" or entry.detail["params"].get("status") == "paused":
            return min(entry.n, stop.answered)
    return stop.answered


def _sent_after(scene: Scene, stop: Command, end: int) -> Iterator[Broken]:
    begun = _begun(scene, stop)
    if stop.word == "stop":
        for message in scene.messages.values():
            if message.command.asked > stop.asked:
                continue
            for write in message.writes:
                if begun < write.entry.n and (not end or write.entry.n < end):
                    how = f"{message.id} was sent after the stop, by {write.entry.word}"
                    yield Broken("sent after stop", how, (begun, write.entry.n))
    for entry in scene.of("read", "thread/goal/set", after=begun, before=end):
        params = entry.detail["params"]
        if params.get("status") == "active" or ("status" not in params and params.get("objective")):
            yield Broken("goal revived", "the goal was set active after the stop", (begun, entry.n))


def _runs_after(scene: Scene, stop: Command, end: int) -> Iterator[Broken]:
    for turn in scene.turns.values():
        late = turn.started > stop.answered and scene.at(turn.started) - scene.at(stop.answered) > scene.slack
        if turn.kind == "goal" and late and (not end or turn.started < end):
            how = "a turn of the stopped goal began after the stop was answered"
            yield Broken("goal goes on", how, (stop.answered, turn.started))
    horizon = scene.at(stop.answered) + max(scene.slack, 0.05)
    for turn in scene.running(stop.answered):
        over = min((place for place in (turn.ended, turn.gone) if place), default=0)
        if scene.whole and (not over or scene.at(over) > horizon):
            yield Broken("not stopped", "the stop was answered while a turn ran on", (turn.started, stop.answered))
    if not end and scene.whole and scene.goal_status() == "active":
        how = "the stopped goal is still active at the end: it goes on with the next turn"
        yield Broken("goal goes on", how, (stop.answered,))


def _cut_before_paused(scene: Scene, stop: Command) -> Iterator[Broken]:
    cut = next(scene.of("read", "turn/interrupt", after=stop.asked, before=stop.answered), None)
    if cut is not None and scene.goal_status(before=cut.n) == "active":
        quiet = list(scene.of("read", "thread/goal/set", "thread/goal/clear", after=stop.asked, before=cut.n))
        if not quiet:
            how = "the turn was interrupted while its goal was active: the goal was not paused first"
            yield Broken("cut before paused", how, (cut.n,))


@law(
    "L8",
    "a goal is one logical turn: one start, one end, one id, whatever the number of physical turns",
    rests_on="E13, E29, P7",
    looks_at="goals set at the provider; the logical turns that the server published",
)
def _one_lifecycle(scene: Scene) -> Iterator[Broken]:
    wanted = [c for c in scene.commands if c.word == "start_goal" and c.answered and not c.refused]
    if not wanted:
        raise NotJudged("no goal was started")
    sets = [
        entry
        for entry in scene.of("told", "answer thread/goal/set")
        if not entry.error and entry.detail["params"].get("objective")
    ]
    if len(sets) > len(wanted):
        how = f"{len(wanted)} goal(s) were started, and the provider was given {len(sets)}"
        yield Broken("goal set again", how, tuple(entry.n for entry in sets))
    if scene.lifecycle is None or any(entry.kind in ("crash", "kill", "ended") for entry in scene.entries):
        return
    started = [turn for kind, turn in scene.lifecycle if kind == "started"]
    completed = [turn for kind, turn in scene.lifecycle if kind == "completed"]
    if len(started) != len(set(started)) or len(started) > len(wanted):
        yield Broken(
            "lifecycle", f"{len(wanted)} goal(s) were published as {len(started)} starts: {', '.join(started)}"
        )
    if set(completed) - set(started) or len(completed) != len(set(completed)):
        yield Broken(
            "lifecycle", f"ends do not fit starts: started {', '.join(started)}; completed {', '.join(completed)}"
        )
    if scene.whole and not scene.running(len(scene.entries) + 1) and scene.goal_status() != "active":
        for turn in [turn for turn in started if turn not in completed]:
            yield Broken("lifecycle", f"the goal is over, and its logical turn {turn} was never completed")


@law(
    "L9",
    "after a restart the thread is reconciled before anything is sent, and nothing is sent twice",
    rests_on="E39, P10",
    looks_at="the first requests to each new process of the provider; messages sent to more than one process",
)
def _reconciled(scene: Scene) -> Iterator[Broken]:
    spawned = list(scene.of("spawned"))[1:]
    if not spawned:
        raise NotJudged("no process of the provider was started anew")
    for begun in spawned:
        known = {turn.thread for turn in scene.turns.values() if turn.started and turn.started < begun.n}
        for thread in known:
            yield from _dispatched_blindly(scene, thread, begun)
    for message in scene.messages.values():
        processes = {write.process for write in message.writes if not write.refused}
        if len(processes) > 1 and len(message.shown) > 1:
            how = f"{message.id} was sent to {len(processes)} processes and shown {len(message.shown)} times"
            yield Broken("doubled by a restart", how, places(*(write.entry for write in message.writes)))


def _dispatched_blindly(scene: Scene, thread: str, begun: Entry) -> Iterator[Broken]:
    following = next((entry.n for entry in scene.of("spawned", after=begun.n)), 0)
    first = next((e for e in scene.of("read", *ROUTES, after=begun.n, before=following) if e.thread == thread), None)
    if first is None:
        return
    open_ones = [m.id for m in scene.messages.values() if _is_open(scene, m, begun.n)]
    looked = [
        entry
        for entry in scene.of("told", after=begun.n, before=first.n)
        if entry.thread == thread and shows_history(entry)
    ]
    if open_ones and not looked:
        names = ", ".join(open_ones)
        how = f"{names} may have arrived before the crash, and something was sent before the history was read"
        yield Broken("not reconciled", how, (begun.n, first.n))


def _is_open(scene: Scene, message: Message, place: int) -> bool:
    """Whether nothing told before a place decides a message that had been written."""
    if any(echo.n < place for echo in message.echoed):
        return False
    written = [write for write in message.writes if write.entry.n < place]
    return any(not proven_absent(scene, message, write, place) for write in written)


@law(
    "L10",
    "a question of the provider is never answered by a queued message",
    rests_on="P17",
    looks_at="requests for approval; their answers; messages submitted in between",
)
def _approvals(scene: Scene) -> Iterator[Broken]:
    questions = {e.ask: e for e in scene.of("told") if e.ask.startswith("p") and "equestApproval" in e.word}
    if not questions:
        raise NotJudged("the provider asked nothing")
    for answer in scene.of("read", "answer"):
        question = questions.get(answer.ask)
        if question is None:
            continue
        said = repr(answer.detail.get("result"))
        between = [m for m in scene.messages.values() if question.n < m.command.asked < answer.n]
        if "[[" in said:
            yield Broken(
                "answered by text", "a message's text went out as the answer to an approval", (question.n, answer.n)
            )
        elif between and any(word in said for word in ("accept", "approve")):
            how = f"an approval was given when {between[0].id} came, and nobody had approved"
            yield Broken("answered by text", how, (question.n, between[0].command.asked, answer.n))


@law(
    "L11",
    "whatever the provider says, the server goes on serving",
    rests_on="P15, P18",
    looks_at="whether the server still answers",
)
def _alive(scene: Scene) -> Iterator[Broken]:
    if not any(entry.kind == "answered" for entry in scene.entries):
        raise NotJudged("the server answered nothing")
    if scene.died:
        yield Broken("died", scene.died, (len(scene.entries),))
