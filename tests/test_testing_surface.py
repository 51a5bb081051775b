"""What users find in `goalfsm.testing` to test themselves with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from goalfsm import testing
from goalfsm._core import ThreadCore
from goalfsm._kernel import Verdict
from goalfsm.testing._laws import broken

FEW = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_that_is_offered_is_there(name):
    assert getattr(testing, name) is not None


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="no attribute 'exploer'"):
        _ = testing.exploer


@FEW
@given(testing.histories())
def test_every_history_keeps_the_laws_and_hangs_together(told):
    for happened in told:
        assert broken(happened) == []
        assert happened.step.core is happened.after.core


@FEW
@given(testing.cores(), testing.events())
def test_any_event_to_any_core_gives_a_verdict_and_a_rejection_changes_nothing(core, event):
    assert isinstance(core, ThreadCore)
    step = core.handle(event)
    assert step.verdict in Verdict
    assert step.rejected is None or step.core is core


@FEW
@given(testing.events(["stop"]))
def test_events_can_be_chosen_by_name(event):
    assert event.name == "stop"
