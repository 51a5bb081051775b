"""One step of one machine: what a row does, what an event without a row means, and that failure changes nothing."""

from __future__ import annotations

import pytest

from goalfsm._builtin import builtin_spec
from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._kernel import Step, Verdict, enabled, step, table
from goalfsm._spec import Snapshot, load_spec
from goalfsm.events import Event, GoalActive, GoalPaused, TransportLost

DOOR = """
machine = "door"
initial = "shut"
unlisted = { clock = "ignore" }
[states]
shut = { clear = ["by"] }
open = {}
ajar = {}
[events]
push = { origin = "command", fields = { by = "str", force = "int" } }
kick = { origin = "command", fields = { force = "int" } }
wind = { origin = "host", fields = { force = "int" } }
noon = { origin = "clock" }
[effects]
creak = "Make a noise."
bang = "Make a louder noise."
[transitions]
rows = [
  { from = ["shut"], event = ["push"], to = "open", if = "strong", save = ["by", "force"], do = ["creak", "bang"], why = "forced" },
  { from = ["shut"], event = ["push"], to = "ajar", if = "gentle", save = ["by"], set = { soft = true }, do = ["creak"], why = "pushed" },
  { from = ["open", "ajar"], event = ["push", "wind"], to = "shut", if = "strong", clear = ["soft"], save = ["force"], do = ["bang"], why = "slammed" },
  { from = ["open"], event = ["kick"], save = ["force"], why = "only recorded" },
  { from = ["ajar"], event = ["noon"], to = "open", why = "somebody comes at noon" },
]
ignore = [ { from = ["ajar"], event = ["wind"], if = "gentle", why = "a breeze" } ]
"""
GUARDS = {
    "strong": lambda _snapshot, event, _context: event.force > 5,
    "gentle": lambda _snapshot, event, context: 0 < event.force <= 5 and context != "locked",
}


@pytest.fixture
def door(tmp_path):
    path = tmp_path / "door.toml"
    path.write_text(DOOR, encoding="utf-8")
    return load_spec(path, GUARDS)


def test_the_first_row_whose_guard_holds_wins_and_saves_sets_and_orders_its_effects(door):
    made = step(door, door.snapshot(), Event("push", by="ann", force=9))
    assert made.snapshot == door.snapshot("open", by="ann", force=9)
    assert (made.verdict, made.effects, made.why) == (Verdict.MOVED, ("creak", "bang"), "forced")
    made = step(door, door.snapshot(), Event("push", by="bob", force=2))
    assert made.snapshot == door.snapshot("ajar", by="bob", soft=True)


def test_entering_a_state_and_a_row_each_empty_their_fields_before_anything_is_saved(door):
    before = door.snapshot("ajar", by="bob", soft=True)
    assert step(door, before, Event("wind", force=7)).snapshot == door.snapshot("shut", force=7)


def test_a_row_without_a_target_stays_but_counts_as_moved(door):
    before = door.snapshot("open", by="ann")
    made = step(door, before, Event("kick", force=3))
    assert (made.snapshot, made.verdict) == (door.snapshot("open", by="ann", force=3), Verdict.MOVED)


@pytest.mark.parametrize(
    ("state", "event", "verdict"),
    [
        ("ajar", Event("wind", force=3), Verdict.IGNORED),  # an ignore row
        ("ajar", Event("wind", force=0), Verdict.STALE),  # rows exist, no guard holds
        ("shut", Event("push", force=0), Verdict.REJECTED),  # the same for a command
        ("shut", Event("kick", force=9), Verdict.REJECTED),  # no row: a command
        ("shut", Event("wind", force=9), Verdict.ANOMALY),  # no row: a fact
        ("shut", Event("noon"), Verdict.IGNORED),  # no row: the file says what its origin means
    ],
)
def test_an_event_that_does_not_move_gives_the_same_object_no_effects_and_its_verdict(door, state, event, verdict):
    before = door.snapshot(state, by="ann")
    made = step(door, before, event)
    assert made.snapshot is before
    assert (made.verdict, made.effects) == (verdict, ())


def test_guards_see_the_context(door):
    made = step(door, door.snapshot(), Event("push", by="bob", force=2), "locked")
    assert made.verdict is Verdict.REJECTED


def test_a_guard_that_raises_is_heard_as_it_is(door):
    broken = door.bind({"strong": lambda _snapshot, _event, _context: {}["no"]})
    with pytest.raises(KeyError, match="no"):
        step(broken, broken.snapshot(), Event("push", by="ann", force=9))


def test_an_event_without_a_saved_field_names_field_and_row(door):
    with pytest.raises(
        GoalfsmError, match=r"door: event 'push' has no field 'by', which the row at .*door.toml:19 saves"
    ):
        step(door, door.snapshot(), Event("push", force=9))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda door: step(door, door.snapshot(), Event("pusch")), "door: unknown event 'pusch'; did you mean 'push'?"),
        (lambda door: step(door, Snapshot("opn"), Event("push")), "door: unknown state 'opn'; did you mean 'open'?"),
        (lambda door: door.snapshot("shutt"), "door: unknown state 'shutt'; did you mean 'shut'?"),
        (lambda door: door.snapshot(farce=1), "door: unknown field 'farce'; did you mean 'force'?"),
        (lambda door: table(door, "opn"), "door: unknown state 'opn'; did you mean 'open'?"),
    ],
)
def test_a_name_nobody_declared_is_answered_with_the_closest_one(door, call, text):
    with pytest.raises(UnknownName) as caught:
        call(door)
    assert str(caught.value) == text


def test_a_spec_without_guards_loads_and_only_a_step_that_asks_one_raises(door):
    bare = load_spec(door.path)
    assert step(bare, bare.snapshot("open"), Event("kick", force=1)).verdict is Verdict.MOVED
    with pytest.raises(GoalfsmError, match=r"door: guard 'strong' \(.*:19\) is not bound"):
        step(bare, bare.snapshot(), Event("push", by="ann", force=1))
    answered = bare.bind({"strong": lambda *_: True})
    assert step(answered, answered.snapshot(), Event("push", by="a", force=1)).snapshot.state == "open"


def test_the_table_lists_every_row_and_what_is_left_when_no_guard_holds(door):
    lines = [(line.event, str(line.verdict), line.guard, line.to) for line in table(door, "ajar")]
    assert lines == [
        ("push", "moved", "strong", "shut"),
        ("push", "rejected", "", ""),
        ("kick", "rejected", "", ""),
        ("wind", "moved", "strong", "shut"),
        ("wind", "ignored", "gentle", ""),
        ("wind", "stale", "", ""),
        ("noon", "moved", "", "open"),
    ]
    assert enabled(door, door.snapshot("ajar")) == ("push", "wind", "noon")


def test_snapshots_and_steps_are_frozen_values(door):
    made = step(door, door.snapshot(), Event("push", by="ann", force=9))
    with pytest.raises(AttributeError):
        made.snapshot.state = "shut"
    with pytest.raises(AttributeError):
        made.verdict = Verdict.STALE
    assert made == Step(door.snapshot("open", by="ann", force=9), ("creak", "bang"), Verdict.MOVED, made.row)


def test_a_snapshot_type_of_ones_own_needs_every_field(door):
    class Door(Snapshot, frozen=True):
        by: str = ""
        force: int = 0
        soft: bool = False
        owner: str = "me"

    assert load_spec(door.path, GUARDS, snapshot_type=Door).snapshot() == Door("shut")
    with pytest.raises(TypeError, match="Snapshot lacks data fields of door: by, force, soft"):
        load_spec(door.path, GUARDS, snapshot_type=Snapshot)


def test_the_digest_follows_the_text_and_not_the_place_or_the_line_ends(door, tmp_path):
    same, other = tmp_path / "same.toml", tmp_path / "other.toml"
    same.write_bytes(DOOR.replace("\n", "\r\n").encode())
    other.write_text(DOOR.replace("a breeze", "a draught"), encoding="utf-8")
    assert load_spec(same).digest == door.digest != load_spec(other).digest


def test_the_goal_machine_takes_typed_events():
    spec = builtin_spec("goal")
    active = step(spec, spec.snapshot(), GoalActive("ref-1")).snapshot
    assert (active.state, active.ref) == ("active", "ref-1")
    assert step(spec, active, GoalPaused("ref-1")).effects == ("tell_goal_ended",)
    lost = step(spec, active, TransportLost("closed")).snapshot
    assert (lost.state, lost.ref) == ("unknown", "ref-1")
    assert step(spec, lost, TransportLost()).snapshot is lost
