"""Snapshots at rest: a restart from one knows exactly what a restart from all the records would know (decisions 21, 22)."""

from __future__ import annotations

import math
from copy import deepcopy

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import goalfsm
from goalfsm import GoalfsmError, IllegalCommand, Policy
from goalfsm._errors import JournalError, StaleOwner
from goalfsm._fold import CoreFolding, decode_record, delta_of
from goalfsm._guards import FINAL_FOLLOW_UP
from goalfsm._journal import MemoryJournal, Stored
from goalfsm._snapshot import Rebuilding, encode_snapshot
from goalfsm._sqlite import SqliteJournal
from goalfsm._values import Timeouts
from goalfsm._verify import first_difference
from goalfsm.adapters.simulated import Fault, Script, Simulated, complete_goal, gate, say, turn, wait
from goalfsm.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

EVERY = 5


class Keeping(MemoryJournal):
    """Compacts whatever a snapshot stands for, and keeps a copy of every record for the test."""

    def __init__(self):
        super().__init__()
        self.all = {}
        self.stored = {}
        self.snapshots = 0

    async def append(self, thread_id, epoch, seq, record):
        await super().append(thread_id, epoch, seq, record)
        self.all.setdefault(thread_id, []).append(record)
        self.stored.setdefault(thread_id, []).append(Stored(seq, epoch, record))

    async def snapshot(self, thread_id, epoch, seq, data, *, compact=False):
        await super().snapshot(thread_id, epoch, seq, data, compact=True)
        self.snapshots += 1


async def whole(journal):
    """A journal in memory with every record and no snapshot, as if none had ever been taken."""
    copy = MemoryJournal()
    await copy.start()
    for thread_id, records in journal.all.items():
        epoch = await copy.claim(thread_id, "somebody", expected=0)
        for seq, record in enumerate(records, 1):
            await copy.append(thread_id, epoch, seq, record)
    return copy


def rebuilt(snapshot, records):
    """All that a restart knows of a thread."""
    rebuilding = Rebuilding()
    if snapshot is not None:
        rebuilding.add_snapshot(snapshot)
    for record in records:
        rebuilding.add_record(record)
    core = rebuilding.core(epoch=0)
    messages = rebuilding.messages(core)
    return core, [known(message) for message in messages.values()]


def known(message):
    return {field: getattr(message, field) for field in message.__slots__}


def views(thread):
    """What a person sees of every message, in order."""
    return [
        (m.id, m.state, m.evidence, m.reason, m.position, m.text, m.meta, m.outcome, m._message.expires_at)
        for m in thread.follow_ups(all=True)
    ]


def script():
    return Script(
        turns=(*(turn(say(f"pass {n}"), wait(0.5), say("more")) for n in range(4)), turn(complete_goal(), say("done")))
    )


class Play:
    """A host that does one thing after the other on one thread, on a clock of its own; it may die and come again."""

    def __init__(self, faults=()):
        self.clock = FakeClock()
        self.provider = Simulated(script(), faults, clock=self.clock)
        self.journal = Keeping()
        self.policy = Policy(on_exit="leave", timeouts=Timeouts(answer=1.0, read_back=1.0, quiet=0.1, lease=0.05))
        self.engine = None
        self.thread = None
        self.count = 0

    async def begin(self):
        self.engine = goalfsm.open(self.provider, journal=self.journal, policy=self.policy)
        await self.engine.__aenter__()
        self.thread = (
            await self.done(self.engine.start_thread())
            if self.thread is None
            else await self.done(self.engine.resume_thread(self.thread.id))
        )

    async def end(self):
        await self.engine.__aexit__(None, None, None)

    async def done(self, work):
        """Let time pass until something is done; a refusal is an answer like any other."""
        answer = []

        async def run():
            try:
                answer.append(await work)
            except (GoalfsmError, ValueError) as error:
                answer.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await self.clock.run_until(lambda: bool(answer))
        return answer[0]

    async def act(self, what, which, value):
        messages = self.thread.follow_ups(all=True)
        message = messages[which % len(messages)] if messages else None
        if what == "submit":
            self.count += 1
            options = {"when": ("auto", "queue", "steer")[value % 3], "meta": {"n": self.count}}
            if value % 4 == 3:
                options["expires_in"] = 0.5 + value
            await self.done(self.thread.submit(f"text {self.count}", id=f"m{self.count}", **options))
        elif what == "goal":
            await self.done(self.thread.start_goal(f"goal {value}"))
        elif what == "stop":
            await self.done(self.thread.stop())
        elif what == "wait":
            await self.clock.advance(0.3 * (value + 1))
        elif what == "restart":
            await self.end()
            await self.begin()
        elif message is not None:
            command = {
                "hold": lambda: message.hold(f"reason {value}"),
                "release": message.release,
                "withdraw": message.withdraw,
                "edit": lambda: message.edit(f"better {value}"),
                "move": lambda: message.move(value),
                "resolve": lambda: message.resolve(("delivered", "resend", "discard")[value % 3]),
                "again": lambda: self.thread.submit(message.text, id=message.id),
            }[what]
            await self.done(command())


ACTS = (
    "submit",
    "submit",
    "goal",
    "stop",
    "wait",
    "wait",
    "restart",
    "hold",
    "release",
    "withdraw",
    "edit",
    "move",
    "resolve",
    "again",
)
HISTORIES = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5), st.integers(0, 7)), min_size=4, max_size=14)
FAULTS = st.lists(
    st.sampled_from([Fault.request("turn/steer", "mute"), Fault.echo("drop"), Fault.request("turn/start", "mute")]),
    max_size=2,
    unique_by=repr,
)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=HISTORIES, faults=FAULTS, every=st.integers(1, 7))
def test_after_any_history_a_restart_from_a_snapshot_knows_what_one_from_all_records_knows(history, faults, every):
    async def play():
        host = Play(faults)
        await host.begin()
        for act in history:
            await host.act(*act)
            await host.clock.settle()
            await compare(host)
        await host.end()
        await host.journal.start()
        await compare(host)
        await compare_engines(host)
        # And the rules, asked again, agree with every step (decisions 21).
        assert [first_difference(None, stored) for stored in host.journal.stored.values()] == [None]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goalfsm._thread.SNAPSHOT_EVERY", every)
        anyio.run(play)


async def compare(host):
    for thread_id, records in host.journal.all.items():
        loaded = await host.journal.load(thread_id)
        assert loaded.last_seq == len(records)
        after = rebuilt(loaded.snapshot, [stored.record for stored in loaded.records])
        assert after == rebuilt(None, records)


async def compare_engines(host):
    """The same through the surface: what two engines recover, one of each journal."""
    seen = []
    for journal in (host.journal, await whole(host.journal)):
        async with goalfsm.open(Simulated(clock=host.clock), journal=journal) as engine:
            found = await engine.recover()
            seen.append((found, [views(thread) for thread in engine.threads()]))
    assert seen[0] == seen[1]


# -- one long thread, step by step -------------------------------------------------------------------------------------


@pytest.fixture
def every(monkeypatch):
    monkeypatch.setattr("goalfsm._thread.SNAPSHOT_EVERY", EVERY)


async def busy_thread(host, messages=12):
    await host.begin()
    for n in range(1, messages + 1):
        message = await host.thread.submit(f"text {n}", id=f"m{n}", meta={"n": n})
        if n == messages:
            # Behind one that is on its way, it still waits when it is held.
            await (await host.thread.submit("later", id="last", when="queue", expires_in=3600)).hold("until asked")
        await host.done(message.settled())
        await host.clock.advance(3)  # its turn ends
    return host.thread


async def test_the_engine_takes_a_snapshot_when_nothing_is_in_flight_and_a_restart_reads_few_records(every):
    host = Play()
    thread = await busy_thread(host)
    await host.clock.settle()
    loaded = await host.journal.load(thread.id)
    assert host.journal.snapshots >= 3
    assert len(loaded.records) < EVERY < loaded.snapshot_seq
    await host.end()


async def test_no_snapshot_is_taken_while_an_operation_lives(every):
    host = Play()
    host.provider = Simulated(Script(turns=(turn(gate("never")),)), clock=host.clock)
    await host.begin()
    await host.done(host.thread.start_goal("go on"))
    message = await host.thread.submit("later", when="queue")
    for n in range(3 * EVERY):
        await message.edit(f"text {n}")
    await host.clock.settle()
    assert host.journal.snapshots == 0
    await host.end()


async def test_after_compaction_each_fate_and_its_evidence_is_still_known_and_an_id_is_taken_for_ever(every):
    host = Play()
    before = views(await busy_thread(host))
    await host.clock.settle()
    await host.end()
    await host.begin()
    assert [view for view in views(host.thread) if view[0] != "last"] == [view for view in before if view[0] != "last"]
    assert (await host.journal.load(host.thread.id)).snapshot_seq > 1
    again = await host.done(host.thread.submit("text 3", id="m3"))
    assert (again.state, again.meta) == ("delivered", {"n": 3})
    assert again.evidence.startswith("echo of item")
    assert isinstance(await host.done(host.thread.submit("another", id="m3")), IllegalCommand)
    assert host.provider.server.writes("m3") == 1
    await host.end()


async def test_a_message_expires_on_its_day_also_after_compaction(every):
    host = Play()
    thread = await busy_thread(host)
    last = thread.follow_ups()[-1]
    due = last._message.expires_at
    for n in range(2 * EVERY):
        await last.edit(f"later {n}")
    await host.clock.settle()
    assert (await host.journal.load(thread.id)).snapshot_seq > thread._runtime.seq - EVERY
    await host.end()
    await host.clock.advance(3600)
    await host.begin()
    [expired] = [m for m in host.thread.follow_ups(all=True) if m.id == "last"]
    await host.clock.settle()
    assert (expired.state, expired._message.expires_at) == ("expired", due)
    await host.end()


async def test_a_snapshot_under_a_later_owner_is_not_written(every):
    host = Play()
    thread = await busy_thread(host, messages=1)
    await host.journal.claim(thread.id, "another", expected=1)
    taken = host.journal.snapshots
    for n in range(EVERY):
        assert isinstance(await host.done(thread.submit(f"x {n}")), StaleOwner)
    assert host.journal.snapshots == taken
    await host.end()


async def test_a_snapshot_that_cannot_be_stored_is_told_and_the_thread_goes_on(every):
    host = Play()

    async def full(*_args, **_options):
        raise JournalError("no space left")

    host.journal.snapshot = full
    thread = await busy_thread(host)
    assert [view[1] for view in views(thread)].count("delivered") == 12
    assert any(odd.detail == "no space left" for odd in host.engine.anomalies())
    await host.end()


async def test_a_snapshot_survives_the_file(every, tmp_path):
    host = Play()
    host.clock.patience = 0.02
    host.journal = SqliteJournal(tmp_path / "goals.db")
    before = views(await busy_thread(host, messages=4))
    await host.clock.settle()
    await host.end()
    await host.begin()
    loaded = await host.journal.load(host.thread.id)
    assert loaded.snapshot_seq > 0
    assert [view[:4] for view in views(host.thread)] == [view[:4] for view in before]
    await host.end()


# -- old records under a new spec --------------------------------------------------------------------------------------


async def history():
    host = Play([Fault.request("turn/steer", "mute"), Fault.echo("drop")])
    await busy_thread(host, messages=3)
    await host.act("goal", 0, 0)
    await host.act("submit", 0, 0)
    await host.act("submit", 0, 4)
    await host.act("wait", 0, 7)
    await host.act("withdraw", 0, 0)
    await host.end()
    [records] = host.journal.all.values()
    return records


async def test_events_of_an_old_spec_never_change_a_settled_fate_under_a_new_one(monkeypatch):
    """Records are folded by what they say changed; the rules that are in force now are not asked (requirements 4.8)."""
    records = await history()
    before = rebuilt(None, records)

    def refuse(*_args, **_options):
        raise AssertionError("a rule was asked")

    monkeypatch.setattr("goalfsm._core.ThreadCore.handle", refuse)
    monkeypatch.setattr("goalfsm._fold.spec_version", lambda: "another")
    monkeypatch.setattr("goalfsm._snapshot.spec_version", lambda: "another")
    assert rebuilt(None, records) == before
    fates = {message["id"]: message["row"].state for message in before[1]}
    assert set(fates.values()) & FINAL_FOLLOW_UP
    # An event that the new spec does not even know is still one whose consequences are known.
    odd = [msgspec.json.encode({**msgspec.json.decode(record), "event": {"name": "of_old"}}) for record in records]
    assert rebuilt(None, odd) == before


async def test_a_field_that_a_later_version_added_stands_at_its_default():
    records = await history()
    core, _ = rebuilt(None, records)
    fields = decode_record(records[0]).delta
    assert set(fields) <= set(type(core).__struct_fields__)
    folding = CoreFolding()
    folding.add({})
    assert math.isclose(folding.core().gen, 0)


async def test_a_snapshot_of_a_rebuilt_thread_is_the_same_thread():
    """Compaction from outside rebuilds a thread and writes what it rebuilt."""
    records = await history()
    rebuilding = Rebuilding()
    for record in records:
        rebuilding.add_record(record)
    core = rebuilding.core()
    data = encode_snapshot(core, rebuilding.messages(core).values(), 0.0)
    assert rebuilt(data, []) == rebuilt(None, records)
    assert delta_of(deepcopy(core), core) == {}


def test_what_is_no_snapshot_is_one_error():
    with pytest.raises(JournalError, match="snapshot cannot be read"):
        Rebuilding().add_snapshot(b"{")
