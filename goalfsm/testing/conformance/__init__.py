"""The conformance kit: it judges any server, by what the provider saw and what the server said."""

from goalfsm.testing.conformance._provider import Provider
from goalfsm.testing.conformance.door_inprocess import SystemUnderTest

__all__ = ["Provider", "SystemUnderTest"]
