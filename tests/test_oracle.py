"""Kernel and `transitions` are two readings of one file: driven by the same events, they agree at every step."""

from __future__ import annotations

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._check import static_problems
from goalfsm._errors import GoalfsmError
from goalfsm._kernel import step
from goalfsm._read import read_text
from goalfsm._spec import _snapshot_type, load_spec
from goalfsm.events import Event
from goalfsm.interop import to_transitions

VALUES = {"str": st.sampled_from(["", "a", "b"]), "int": st.integers(0, 2), "bool": st.booleans()}


def answered(spec):
    """Guards that give the answers which stand in the context, so the data decides what happens, not the domain."""

    def answer(name):
        return lambda _snapshot, _event, context: context[name]

    return spec.bind({name: answer(name) for name in spec.guard_names})


def happenings(spec):
    def of(name):
        fields = st.fixed_dictionaries({field: VALUES[kind] for field, kind in spec.events[name].fields.items()})
        answers = st.fixed_dictionaries({guard: st.booleans() for guard in spec.guard_names})
        return st.tuples(st.just(name), fields, answers)

    listed = sorted({name for row in spec.rows for name in row.events})
    return st.lists(st.sampled_from(listed).flatmap(of), max_size=25)


def agree(spec, events):
    snapshot = spec.snapshot()
    model = to_transitions(spec).model
    for name, fields, answers in events:
        model.context = answers
        taken = model.trigger(name, **fields)
        made = step(spec, snapshot, Event(name, **fields), answers)
        snapshot = made.snapshot
        assert (model.verdict, model.effects, model.why) == (made.verdict, made.effects, made.why)
        assert taken is (made.row is not None)
        assert {"state": model.state, **model.data} == msgspec.structs.asdict(snapshot)


@pytest.mark.parametrize("machine", builtin_names())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_built_in_machine_moves_the_same_way_in_both(machine, data):
    spec = answered(builtin_spec(machine))
    start = data.draw(st.sampled_from(sorted(spec.states)))
    spec = attrs.evolve(spec, initial=start)  # from any state, also those that are rarely reached
    agree(spec, data.draw(happenings(spec)))


STATES, EVENTS, GUARDS, FIELDS = ["a", "b", "c"], ["go", "tick", "news"], [None, "g", "h"], ["x", "y", "z"]
TYPES = {"x": "str", "y": "int", "z": "bool"}


@st.composite
def small_specs(draw):
    """A text of a spec without problems of shape; rows that are dead or missing are part of the fun."""
    origins = {event: draw(st.sampled_from(["command", "provider", "host", "clock", "internal"])) for event in EVENTS}
    policies = {origin: draw(st.sampled_from(["reject", "anomaly", "ignore"])) for origin in set(origins.values())}
    lines = ["[transitions]"]
    for kind in ("rows", "ignore"):
        lines.append(f"{kind} = [")
        for _ in range(draw(st.integers(1, 7))):
            sources = draw(st.one_of(st.just(["*"]), st.lists(st.sampled_from(STATES), min_size=1, unique=True)))
            events = draw(st.lists(st.sampled_from(EVENTS), min_size=1, unique=True))
            row = f"from = {sources}, event = {events}, why = 'w'"
            guard = draw(st.sampled_from(GUARDS))
            row += f", if = '{guard}'" if guard else ""
            if kind == "rows":
                uses = {field: draw(st.sampled_from(["save", "set", "clear", ""])) for field in FIELDS}
                literal = {"x": "'lit'", "y": "7", "z": "true"}
                row += f", to = '{draw(st.sampled_from(STATES))}'" if draw(st.booleans()) else ""
                row += f", save = {[field for field in FIELDS if uses[field] == 'save']}"
                row += ", set = { " + ", ".join(f"{f} = {literal[f]}" for f in FIELDS if uses[f] == "set") + " }"
                row += f", clear = {[field for field in FIELDS if uses[field] == 'clear']}"
                row += f", do = {draw(st.lists(st.sampled_from(['ring', 'blink']), max_size=2))}"
            lines.append("  { " + row + " },")
        if kind == "rows":  # every field is written somewhere, so that any may be cleared
            lines.append("  { from = ['*'], event = ['go'], if = 'h', save = ['x', 'y', 'z'], why = 'w' },")
        lines.append("]")
    clears = {state: draw(st.lists(st.sampled_from(FIELDS), unique=True)) for state in STATES}
    head = ["machine = 'small'", "initial = 'a'", "[unlisted]"]
    head += [f"{origin} = '{policy}'" for origin, policy in policies.items()]
    head += ["[states]", *(f"{state} = {{ clear = {clear} }}" for state, clear in clears.items()), "[events]"]
    fields = "{ " + ", ".join(f"{field} = '{kind}'" for field, kind in TYPES.items()) + " }"
    head += [f"{event} = {{ origin = '{origin}', fields = {fields} }}" for event, origin in origins.items()]
    head += ["[effects]", "ring = 'r'", "blink = 'b'"]
    return "\n".join([*head, *lines])


def lenient(text):
    """Load a text whose only faults are those of a random table: dead, unused or unreachable things."""
    draft, spec = read_text(text, "small.toml")
    assert draft.problems == []
    spec = static_problems(draft, spec, None)
    assert {problem.code for problem in draft.problems} <= {"GF107", "GF113", "GF114", "GF117", "GF118"}
    return answered(attrs.evolve(spec, snapshot_type=_snapshot_type(spec, None)))


@settings(max_examples=120, deadline=None)
@given(text=small_specs(), data=st.data())
def test_any_small_machine_moves_the_same_way_in_both(text, data):
    spec = lenient(text)
    agree(spec, data.draw(happenings(spec)))


TURNSTILE = """
machine = "turnstile"
initial = "locked"
[states]
locked = {}
open = {}
[events]
coin = { origin = "command", fields = { worth = "int" } }
push = { origin = "command" }
[effects]
turn = "Let one person through."
[transitions]
rows = [
  { from = ["locked"], event = ["coin"], to = "open", if = "enough", save = ["worth"], why = "paid" },
  { from = ["open"], event = ["push"], to = "locked", clear = ["worth"], do = ["turn"], why = "one coin, one person" },
]
ignore = [ { from = ["open"], event = ["coin"], why = "open already" } ]
"""


@pytest.fixture
def turnstile(tmp_path):
    path = tmp_path / "turnstile.toml"
    path.write_text(TURNSTILE, encoding="utf-8")
    return load_spec(path, {"enough": lambda _snapshot, event, _context: event.worth >= 2})


def test_a_user_of_transitions_reads_state_data_and_verdict_off_the_model(turnstile):
    model = to_transitions(turnstile).model
    assert not model.coin(worth=1)
    assert (model.state, model.verdict) == ("locked", "rejected")
    assert model.coin(worth=2)
    assert (model.state, model.worth, model.verdict, model.why) == ("open", 2, "moved", "paid")
    assert model.coin(worth=2)
    assert model.verdict == "ignored"
    assert model.push()
    assert (model.state, model.worth, model.effects) == ("locked", 0, ("turn",))
    assert not model.push()
    assert (model.verdict, model.effects, model.why) == ("rejected", (), "")


def test_a_guard_that_raises_and_a_missing_field_leave_the_model_as_it_was(turnstile):
    model = to_transitions(turnstile).model
    with pytest.raises(AttributeError, match="has no field 'worth'"):
        model.coin()
    assert (model.state, model.data, model.verdict) == ("locked", {"worth": 0}, "")


def test_an_unbound_guard_says_so(turnstile, tmp_path):
    model = to_transitions(load_spec(turnstile.path)).model
    with pytest.raises(GoalfsmError, match="turnstile: guard 'enough' is not bound"):
        model.coin(worth=3)


def test_the_graph_is_text_and_colours_the_state_it_is_in(turnstile):
    machine = to_transitions(turnstile, graph=True)
    machine.model.coin(worth=2)
    text = machine.model.get_graph().draw(None)
    assert "locked --> open: coin [enough]" in text
    assert "Class open s_active" in text


def test_an_event_that_transitions_needs_for_itself_is_refused_with_its_name(tmp_path):
    path = tmp_path / "clash.toml"
    path.write_text(TURNSTILE.replace("push", "trigger"), encoding="utf-8")
    with pytest.raises(GoalfsmError, match="transitions cannot have an event named 'trigger'"):
        to_transitions(load_spec(path))
