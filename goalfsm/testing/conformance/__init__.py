"""The conformance kit: it judges any server by what its provider saw and what it said of its messages.

Three doors, one set of laws: `AdapterConformance` for an adapter, `SystemUnderTest` with `ServerConformance` or
`examine` for a server in process, and `goalfsm conform -- COMMAND` for a server in any language.
"""

from goalfsm.testing.conformance._case import Case, Move, load_cases, save_case
from goalfsm.testing.conformance._examination import EXIT, Examination, examine
from goalfsm.testing.conformance._generate import generate, shrink
from goalfsm.testing.conformance._judging import Judged, Verdict
from goalfsm.testing.conformance._provider import Pipe, Provider
from goalfsm.testing.conformance._runner import run_case
from goalfsm.testing.conformance._target import Bounds, InProcessTarget
from goalfsm.testing.conformance.adapter import AdapterConformance, AdapterStage
from goalfsm.testing.conformance.door_blackbox import BlackBoxTarget
from goalfsm.testing.conformance.door_inprocess import SystemUnderTest
from goalfsm.testing.conformance.laws import LAWS, Law
from goalfsm.testing.conformance.scenarios import CASES, cases
from goalfsm.testing.conformance.server import Counterexample, ServerConformance

__all__ = [
    "CASES",
    "EXIT",
    "LAWS",
    "AdapterConformance",
    "AdapterStage",
    "BlackBoxTarget",
    "Bounds",
    "Case",
    "Counterexample",
    "Examination",
    "InProcessTarget",
    "Judged",
    "Law",
    "Move",
    "Pipe",
    "Provider",
    "ServerConformance",
    "SystemUnderTest",
    "Verdict",
    "cases",
    "examine",
    "generate",
    "load_cases",
    "run_case",
    "save_case",
    "shrink",
]
