"""What a server must keep, judged by what the provider saw and what the server said of it.

Each law names the rules it rests on (rules.md E, the properties P) and the evidence it looks at. It gives `Broken` for
each way in which it was broken, or says why it could not be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import attrs

from goalfsm.testing.conformance._history import Entry
from goalfsm.testing.conformance._scene import READS, ROUTES, Command, Message, Scene, Write

__all__ = ["LAWS", "Broken", "Law", "NotJudged"]


class NotJudged(Exception):
    """A law does not apply here; the message says why. Not a pass."""


@attrs.frozen
class Broken:
    """How a law was broken.

    Args:
        kind: the sort of defect, in a word or two; histories are shortened as long as it stays the same.
        how: one sentence.
        entries: the places in the history that show it.
    """

    kind: str
    how: str
    entries: tuple[int, ...] = ()


Judge = Callable[[Scene], Iterator[Broken]]


@attrs.frozen
class Law:
    """One law.

    Args:
        id: its id, for reports and regression files.
        says: what must hold.
        rests_on: the rules and properties behind it.
        looks_at: the evidence.
        judge: gives how it was broken.
    """

    id: str
    says: str
    rests_on: str
    looks_at: str
    judge: Judge = attrs.field(repr=False)


LAWS: Final[dict[str, Law]] = {}
"""Every law by its id, in order."""


def _law(law_id: str, says: str, *, rests_on: str, looks_at: str) -> Callable[[Judge], Judge]:
    def register(judge: Judge) -> Judge:
        LAWS[law_id] = Law(law_id, says, rests_on, looks_at, judge)
        return judge

    return register


def _taken(scene: Scene) -> list[Message]:
    messages = [message for message in scene.messages.values() if message.taken]
    if not messages:
        raise NotJudged("no message was taken over")
    return messages


# -- what becomes of a message ----------------------------------------------------------------------------------------


@_law(
    "L1",
    "a message is shown to the model at most once, over all routes",
    rests_on="E1, P3",
    looks_at="messages shown to the model; requests that carried them",
)
def _once(scene: Scene) -> Iterator[Broken]:
    if not any(message.writes for message in scene.messages.values()):
        raise NotJudged("no message was sent")
    for message in scene.messages.values():
        writes = [write for write in message.writes if not write.refused]
        if len(message.shown) > 1 and len(writes) > 1:
            routes = " and ".join(f"{write.entry.word} (#{write.entry.n})" for write in writes)
            how = f"{message.id} was shown {len(message.shown)} times, by {routes}"
            yield Broken("doubled", how, _places(*(w.entry for w in writes), *message.shown))


@_law(
    "L2",
    "a message that was taken over ends delivered, returned, or stated uncertain",
    rests_on="E2, P2, P12, P13",
    looks_at="messages shown to the model; the server's last word on each message",
)
def _not_lost(scene: Scene) -> Iterator[Broken]:
    taken = _taken(scene)
    if not scene.whole:
        raise NotJudged("the case did not come to its end")
    if "fates" not in scene.offers and _disturbed(scene):
        raise NotJudged("the server tells no fates, and after a stop, a crash or a dead provider the wire does not say")
    for message in taken:
        if message.shown:
            continue
        lost = _lost(scene, message)
        if lost:
            places = _places(*(write.entry for write in message.writes), message.command.asked)
            yield Broken("stuck" if "still called" in lost else "lost", f"{message.id} {lost}", places)


def _lost(scene: Scene, message: Message) -> str:
    if scene.final is None:
        return "was taken over and never shown to the model"
    fate = scene.final.get(message.id)
    state = fate.state if fate else "unknown"
    if state in ("returned", "uncertain", "discarded", "held"):
        return ""
    if state == "delivered":
        return "is called delivered, and the model was never shown it: lost without a word"
    if state == "unknown":
        return "was taken over; at the end it was not shown and the server knows nothing of it"
    return (
        f"is still called {fate.raw if fate else state} at the end, although nothing runs: nobody will ever hear of it"
    )


@_law(
    "L3",
    "a fate says the truth: delivered means shown, returned means never shown; an ok alone is not delivery",
    rests_on="E3, E5, P8",
    looks_at="fates that the server stated; messages shown to the model before and after",
)
def _true_fates(scene: Scene) -> Iterator[Broken]:
    if not scene.snapshots:
        raise NotJudged("the server tells no fates")
    last = scene.final or {}
    for message in scene.messages.values():
        fate = last.get(message.id)
        if message.command.refused and message.shown and (fate is None or fate.state not in ("uncertain", "delivered")):
            how = f"the submission of {message.id} was refused, and the model was shown it"
            yield Broken("refused yet shown", how, _places(message.command.answered, *message.shown))
    for place, fates in scene.snapshots:
        final = place == scene.snapshots[-1][0] and scene.whole
        for message in scene.messages.values():
            fate = fates.get(message.id)
            shown = [entry.n for entry in message.shown if entry.n < place]
            if fate is None:
                continue
            if fate.state == "delivered" and not shown:
                yield Broken(
                    "delivered too early", f"{message.id} was called delivered before the model was shown it", (place,)
                )
            # What the server cannot have heard of is not held against it: the echo may have been kept from it.
            elif final and fate.state in ("returned", "held", "waiting", "discarded") and shown:
                how = f"{message.id} is called {fate.raw or fate.state}, and the model was shown it"
                yield Broken("shown yet denied", how, (*shown, place))


@_law(
    "L4",
    "a message goes to the turn it was meant for: none to a turn known to be over, none barges into a goal's turn",
    rests_on="E12, E13",
    looks_at="turn/steer and its expectedTurnId; turns told as started and ended before it; where messages were shown",
)
def _exact_turn(scene: Scene) -> Iterator[Broken]:
    for message in _taken(scene):
        for write in message.writes:
            if write.entry.word == "turn/steer":
                yield from _stale_steer(scene, message, write)
        for shown in message.shown:
            turn = scene.turns.get(shown.turn)
            barged = turn is not None and any(0 < turn.started < write.entry.n for write in message.writes)
            if message.when == "queue" and turn is not None and turn.kind == "goal" and barged:
                how = f"{message.id} was to have a turn of its own, and went into a running turn of the goal"
                yield Broken("barged in", how, _places(*(write.entry for write in message.writes), shown))


def _stale_steer(scene: Scene, message: Message, write: Write) -> Iterator[Broken]:
    entry = write.entry
    turn = scene.turns.get(entry.turn)
    if turn is None:
        how = f"{message.id} was steered to {entry.turn or 'no turn'}, which the provider never named"
        yield Broken("wrong turn", how, (entry.n,))
    elif turn.ended and turn.ended < entry.n and entry.at - scene.at(turn.ended) >= scene.slack:
        how = f"{message.id} was steered to a turn that was over, and the server had been told"
        yield Broken("wrong turn", how, (turn.ended, entry.n))


# -- stop -------------------------------------------------------------------------------------------------------------


@_law(
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


# -- order and repetition ---------------------------------------------------------------------------------------------


@_law(
    "L6",
    "messages keep their order",
    rests_on="E6, P4",
    looks_at="the order of submission; the order in which the model was shown them",
)
def _order(scene: Scene) -> Iterator[Broken]:
    judged = False
    for when in ("auto", "steer", "queue"):
        shown = [m for m in scene.messages.values() if m.when == when and m.taken and m.shown]
        for earlier, later in pairwise(shown):
            if earlier.command.answered > later.command.asked:
                continue
            judged = True
            if earlier.shown[0].n > later.shown[0].n:
                places = (later.shown[0].n, earlier.shown[0].n)
                yield Broken("overtaken", f"{later.id} overtook {earlier.id}, which was submitted before it", places)
    if not judged:
        raise NotJudged("no two messages of one kind were shown, one submitted after the other was taken over")


@_law(
    "L7",
    "an uncertain message is never sent again by itself",
    rests_on="E3, E4, P9",
    looks_at="requests that carry the same message; refusals and read-backs between them",
)
def _not_resent(scene: Scene) -> Iterator[Broken]:
    if not any(message.writes for message in scene.messages.values()):
        raise NotJudged("nothing was sent")
    for message in scene.messages.values():
        for first, second in pairwise(message.writes):
            if not _proven_absent(scene, message, first, second.entry.n):
                how = f"{message.id} was sent again though nothing proved that it had not arrived"
                yield Broken("sent again", how, _places(first.entry, second.entry))


def _proven_absent(scene: Scene, message: Message, write: Write, before: int) -> bool:
    if write.refused and write.answer is not None and write.answer.n < before:
        return True
    if any(entry.n < before for entry in message.shown):
        return False
    turn = scene.turns.get(write.turn)
    over = [place for place in (turn.ended, turn.gone) if place] if turn else []
    over += [entry.n for entry in scene.of("ended", after=write.entry.n, before=before)]
    if not over:
        return False
    return any(_shows_history(entry) for entry in scene.of("told", after=min(over), before=before))


def _shows_history(answer: Entry) -> bool:
    """Whether an answer shows the thread's history: a read, or a resume with its turns."""
    method = answer.word.removeprefix("answer ")
    if answer.error:
        return False
    params = answer.detail.get("params", {})
    if method == "thread/resume":
        return not params.get("excludeTurns")
    return method in READS and (method != "thread/read" or bool(params.get("includeTurns")))


# -- goals and processes ----------------------------------------------------------------------------------------------


@_law(
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


@_law(
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
            yield Broken("doubled by a restart", how, _places(*(write.entry for write in message.writes)))


def _dispatched_blindly(scene: Scene, thread: str, begun: Entry) -> Iterator[Broken]:
    following = next((entry.n for entry in scene.of("spawned", after=begun.n)), 0)
    first = next((e for e in scene.of("read", *ROUTES, after=begun.n, before=following) if e.thread == thread), None)
    if first is None:
        return
    open_ones = [m.id for m in scene.messages.values() if _is_open(scene, m, begun.n)]
    looked = [
        entry
        for entry in scene.of("told", after=begun.n, before=first.n)
        if entry.thread == thread and _shows_history(entry)
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
    return any(not _proven_absent(scene, message, write, place) for write in written)


@_law(
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


@_law(
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


# -- words ------------------------------------------------------------------------------------------------------------


def _places(*entries: Entry | int) -> tuple[int, ...]:
    return tuple(sorted({entry if isinstance(entry, int) else entry.n for entry in entries}))


def _disturbed(scene: Scene) -> bool:
    return any(e.kind in ("crash", "kill", "ended") for e in scene.entries) or any(
        command.word in ("stop", "cancel") for command in scene.commands
    )
