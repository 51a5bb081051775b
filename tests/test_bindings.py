"""Names in the built-in specs and the Python classes that carry them are the same names, with the same fields."""

from __future__ import annotations

import attrs
import pytest

from goalfsm import effects, events
from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._guards import GUARDS

MACHINES = builtin_names()
# Events that the composition handles itself; no machine has a row for them (composition 3).
COMPOSITION_ONLY = {"submit", "move", "resend", "observed_send", "reconciled"}
# Work that no single row asks for: it follows from the step as a whole (composition 3).
COMPOSITION_EFFECTS = {"reconcile"}
TYPES = {"str": str, "int": int, "bool": bool}


def declared_events():
    return {name: decl for machine in MACHINES for name, decl in builtin_spec(machine).events.items()}


def test_every_event_of_a_spec_has_a_class_and_every_class_a_spec():
    declared = set(declared_events())
    assert declared - set(events.names()) == set(), "a spec declares an event that goalfsm.events lacks"
    assert set(events.names()) - declared - COMPOSITION_ONLY == set(), "no spec declares this event"


def test_every_effect_that_leaves_the_core_has_a_class_and_every_class_a_spec():
    names = {name for machine in MACHINES for name in builtin_spec(machine).effects}
    outward = {name for name in names if not name.startswith(("tell_", "raise_"))}
    assert outward - set(effects.names()) == set(), "a spec declares an effect that goalfsm.effects lacks"
    assert set(effects.names()) - outward - COMPOSITION_EFFECTS == set(), "no spec declares this effect"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_declared_field_is_an_attribute_of_its_class_with_the_declared_type(machine):
    for name, decl in builtin_spec(machine).events.items():
        fields = attrs.fields_dict(attrs.resolve_types(events.named(name)))
        assert {field: TYPES[kind] for field, kind in decl.fields.items()} == {
            field: fields[field].type for field in decl.fields
        }, name


@pytest.mark.parametrize("machine", MACHINES)
def test_one_event_means_the_same_to_every_machine_that_knows_it(machine):
    for name, decl in builtin_spec(machine).events.items():
        others = [builtin_spec(other).events.get(name) for other in MACHINES]
        assert {other.origin for other in others if other} == {decl.origin}, name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_typed_snapshot_has_every_field_with_its_type(machine):
    spec = builtin_spec(machine)
    fresh = spec.snapshot()
    assert {field: type(getattr(fresh, field)) for field in spec.data} == {
        field: TYPES[kind] for field, kind in spec.data.items()
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_every_guard_that_a_spec_names_is_bound(machine):
    spec = builtin_spec(machine)
    assert set(spec.guard_names) == set(spec.guards)


def test_every_guard_is_named_by_a_spec():
    assert set(GUARDS) == {name for machine in MACHINES for name in builtin_spec(machine).guard_names}
