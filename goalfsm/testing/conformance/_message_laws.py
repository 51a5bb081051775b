"""L1 to L4, L6, L7: what becomes of a message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from goalfsm.testing.conformance._law import Broken, NotJudged, law, places, proven_absent, taken_messages
from goalfsm.testing.conformance._scene import Message, Scene, Write

__all__: list[str] = []


@law(
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
            yield Broken("doubled", how, places(*(w.entry for w in writes), *message.shown))


@law(
    "L2",
    "a message that was taken over ends delivered, returned, or stated uncertain",
    rests_on="E2, P2, P12, P13",
    looks_at="messages shown to the model; the server's last word on each message",
)
def _not_lost(scene: Scene) -> Iterator[Broken]:
    taken = taken_messages(scene)
    if not scene.whole:
        raise NotJudged("the case did not come to its end")
    if "fates" not in scene.offers and _disturbed(scene):
        raise NotJudged("the server tells no fates, and after a stop, a crash or a dead provider the wire does not say")
    for message in taken:
        if message.shown:
            continue
        lost = _lost(scene, message)
        if lost:
            seen = places(*(write.entry for write in message.writes), message.command.asked)
            yield Broken("stuck" if "still called" in lost else "lost", f"{message.id} {lost}", seen)


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


@law(
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
            yield Broken("refused yet shown", how, places(message.command.answered, *message.shown))
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


@law(
    "L4",
    "a message goes to the turn it was meant for: none to a turn known to be over, none barges into a goal's turn",
    rests_on="E12, E13",
    looks_at="turn/steer and its expectedTurnId; turns told as started and ended before it; where messages were shown",
)
def _exact_turn(scene: Scene) -> Iterator[Broken]:
    for message in taken_messages(scene):
        for write in message.writes:
            if write.entry.word == "turn/steer":
                yield from _stale_steer(scene, message, write)
        for shown in message.shown:
            turn = scene.turns.get(shown.turn)
            barged = turn is not None and any(0 < turn.started < write.entry.n for write in message.writes)
            if message.when == "queue" and turn is not None and turn.kind == "goal" and barged:
                how = f"{message.id} was to have a turn of its own, and went into a running turn of the goal"
                yield Broken("barged in", how, places(*(write.entry for write in message.writes), shown))


def _stale_steer(scene: Scene, message: Message, write: Write) -> Iterator[Broken]:
    entry = write.entry
    turn = scene.turns.get(entry.turn)
    if turn is None:
        how = f"{message.id} was steered to {entry.turn or 'no turn'}, which the provider never named"
        yield Broken("wrong turn", how, (entry.n,))
    elif turn.ended and turn.ended < entry.n and entry.at - scene.at(turn.ended) >= scene.slack:
        how = f"{message.id} was steered to a turn that was over, and the server had been told"
        yield Broken("wrong turn", how, (turn.ended, entry.n))


def _disturbed(scene: Scene) -> bool:
    return any(e.kind in ("crash", "kill", "ended") for e in scene.entries) or any(
        command.word in ("stop", "cancel") for command in scene.commands
    )


@law(
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
                seen = (later.shown[0].n, earlier.shown[0].n)
                yield Broken("overtaken", f"{later.id} overtook {earlier.id}, which was submitted before it", seen)
    if not judged:
        raise NotJudged("no two messages of one kind were shown, one submitted after the other was taken over")


@law(
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
            if not proven_absent(scene, message, first, second.entry.n):
                how = f"{message.id} was sent again though nothing proved that it had not arrived"
                yield Broken("sent again", how, places(first.entry, second.entry))
