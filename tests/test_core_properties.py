"""Random walks through cancel, stop and rollover with faults: the laws of `goalfsm.testing._laws` hold at every step."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from goalfsm.testing import ThreadLives

ThreadLives.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

test_cancel_stop_and_rollover_with_faults = ThreadLives.TestCase
