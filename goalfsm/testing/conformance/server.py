"""A pytest class for somebody's server: every named case is a test, and so is every case drawn from a seed."""

from __future__ import annotations

from typing import Any, ClassVar

from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._examination import Failure, examine
from goalfsm.testing.conformance._generate import generate
from goalfsm.testing.conformance._target import InProcessTarget, Target
from goalfsm.testing.conformance.door_inprocess import SystemUnderTest
from goalfsm.testing.conformance.report import failure_text
from goalfsm.testing.conformance.scenarios import cases

__all__ = ["Counterexample", "ServerConformance"]


class Counterexample(AssertionError):
    """A server broke a law; printed as the shortest sequence of events, and saved as a regression file if wished.

    Attributes:
        failures: the broken laws.
    """

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        self.failures = failures
        super().__init__("\n\n".join(failure_text(failure) for failure in failures))


class ServerConformance:
    """Subclass it, and give a server; pytest does the rest.

        class TestMyServer(ServerConformance):
            def make_server(self):
                return MyServerUnderTest()

    Attributes:
        seed: what further cases are drawn from; printed with every failure.
        random_cases: how many are drawn.
        shrinking: most seconds to look for each shortest history.
    """

    seed: ClassVar[str] = "1"
    random_cases: ClassVar[int] = 20
    shrinking: ClassVar[float] = 10.0

    def make_server(self) -> SystemUnderTest:
        """Give a new server, for each case."""
        raise NotImplementedError

    @classmethod
    def _drawn(cls) -> list[Case]:
        # What the server offers is known only to an instance; nothing of a class that pytest collects is made early.
        offers = frozenset(cls().make_server().offers)
        return list(generate(cls.seed, cls.random_cases, offers))

    @classmethod
    def pytest_cases(cls) -> list[Case]:
        """Give the cases that become tests."""
        return [*cases(), *cls._drawn()]

    def test_conformance(self, goalfsm_case: Case, goalfsm_save: Any) -> None:
        """Judge one case; what the server does not offer is skipped as not judged, never passed."""
        import pytest  # noqa: PLC0415  whoever runs this has it

        target: Target = InProcessTarget(self.make_server)
        found = examine(target, [goalfsm_case], shrinking=self.shrinking, save=goalfsm_save)
        if found.failures:
            raise Counterexample(found.failures)
        [judged] = found.judged
        if judged.word == "undetermined":
            pytest.fail(f"undetermined: {judged.problem}", pytrace=False)
        if judged.word == "not judged":
            pytest.skip(f"not judged: {judged.problem}")
