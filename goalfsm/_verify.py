"""Replaying a journal through the rules: would this build have judged every step as the journal says (decisions 21)?

A restart never asks the rules again. This is for audit, and for a look before a deploy: it finds the first step that
the rules of now would take another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import attrs
import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._core import CoreStep, ThreadCore
from goalfsm._errors import GoalfsmError
from goalfsm._fold import CoreFolding, Record, decode_record, delta_of, spec_version
from goalfsm._journal_protocol import Stored
from goalfsm._snapshot import Rebuilding
from goalfsm._sqlite_reader import JournalReader

__all__ = ["Difference", "Verified", "first_difference", "verify_thread"]

_BLANK = ThreadCore()
_encode = msgspec.json.Encoder(order="deterministic").encode
# What a core takes from its process and not from the journal; a step counts as right under any of it.
_CONSTANTS = tuple(product((True, False), repeat=2))


@attrs.frozen
class Difference:
    """The first step that the rules judge in another way than the journal says.

    Args:
        seq: its number.
        event: the event's name.
        what: what differs: moves, effects, core, or the event itself.
        journal: what the journal has.
        rules: what the rules of this build give.
        spec: the version of the specs that judged it then.
    """

    seq: int
    event: str
    what: str
    journal: str
    rules: str
    spec: str

    @property
    def is_of_another_spec(self) -> bool:
        """Whether the step was judged by other specs than this build's, so that a difference may be meant."""
        return self.spec != spec_version()


@attrs.frozen
class Verified:
    """What verifying one thread gave: how many steps were asked, from which on, and the first difference if any."""

    steps: int
    first: int
    difference: Difference | None


def verify_thread(reader: JournalReader, thread_id: str) -> Verified:
    """Replay what a journal has of a thread; where steps are compacted away it begins at the snapshot."""
    records = reader.records(thread_id)
    loaded = reader.load(thread_id)
    snapshot = loaded.snapshot
    if records and records[0].seq == 1:
        snapshot = None
    elif records and records[0].seq <= loaded.snapshot_seq:
        # The snapshot is later than the oldest steps that are left; those before it have nothing to begin from.
        records = loaded.records
    difference = first_difference(snapshot, records)
    return Verified(len(records), records[0].seq if records else loaded.snapshot_seq + 1, difference)


def first_difference(snapshot: bytes | None, records: list[Stored]) -> Difference | None:
    """Give the first step that the rules judge differently, or None if they agree on all."""
    before, folding = _begin(snapshot)
    for stored in records:
        record = decode_record(stored.record)
        if "epoch" not in record.delta:
            folding.add({"epoch": stored.epoch})
            before = msgspec.structs.replace(before, epoch=stored.epoch)
        folding.add(record.delta)
        after = folding.core()
        difference = _judge(stored.seq, before, after, record)
        if difference is not None:
            return difference
        before = after
    return None


def _begin(snapshot: bytes | None) -> tuple[ThreadCore, CoreFolding]:
    folding = CoreFolding()
    if snapshot is None:
        return _BLANK, folding
    rebuilding = Rebuilding()
    rebuilding.add_snapshot(snapshot)
    core = rebuilding.core()
    folding.add(delta_of(_BLANK, core))
    return core, folding


def _judge(seq: int, before: ThreadCore, after: ThreadCore, record: Record) -> Difference | None:
    try:
        event = ev.decode(record.event)
    except (KeyError, msgspec.ValidationError) as error:
        words = f"this build cannot read it: {error}"
        return Difference(seq, str(record.event.get("name", "")), "event", str(record.event), words, record.spec)
    found: Difference | None = None
    for core in _starts(before):
        try:
            step = core.handle(event)
        except GoalfsmError as error:
            return Difference(seq, event.name, "event", str(record.event), str(error), record.spec)
        difference = _compare(seq, after, record, step)
        if difference is None:
            return None
        found = found or difference
    return found


def _starts(before: ThreadCore) -> Iterator[ThreadCore]:
    """Give the cores that a step may have begun from: a granted write is not journaled by itself (decisions 4)."""
    for echo, queue in _CONSTANTS:
        core = msgspec.structs.replace(before, echo=echo, queue_after_goal=queue)
        yield core
        for row in core.rows:
            if row.state == "delivering" and not row.written:
                yield core.handle(ev.BeginWrite(row.id, row.attempt, row.epoch, core.gen)).core


def _compare(seq: int, after: ThreadCore, record: Record, step: CoreStep) -> Difference | None:
    moves = [(move.machine, move.id, move.source, move.target, move.event) for move in step.moves]
    effects = [fx.encode(effect) for effect in step.effects]
    pairs = {
        "moves": (record.moves, moves),
        "effects": (record.effects, effects),
        "core": (_core(after), _core(msgspec.structs.replace(step.core, epoch=after.epoch))),
    }
    name = str(record.event.get("name", ""))
    for what, (journal, rules) in pairs.items():
        if _encode(journal) != _encode(rules):
            return Difference(seq, name, what, _encode(journal).decode(), _encode(rules).decode(), record.spec)
    return None


def _core(core: ThreadCore) -> dict[str, object]:
    return delta_of(_BLANK, msgspec.structs.replace(core, echo=True, queue_after_goal=True))
