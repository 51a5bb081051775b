"""What a replay found: the fate of every message, and what nobody expected (design 4, decisions 28)."""

from __future__ import annotations

from typing import Any, Final

import attrs

__all__ = ["AlarmSeen", "AnomalySeen", "Fate", "Report", "ThreadReport"]

RETURNED: Final = frozenset({"requeued", "discarded", "expired"})


@attrs.frozen
class Fate:
    """One entry per client id and thread (surface 31).

    Args:
        id: its client id, or `line:N` of the send if it had none.
        state: the state of the follow-up machine.
        turn_id: the provider's turn that took it, if known.
        evidence: what was seen and where; empty where nothing was.
        reason: a sentence for people.
    """

    id: str
    state: str
    turn_id: str = ""
    evidence: str = ""
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether it was delivered, or provably not."""
        return self.state == "delivered" or self.state in RETURNED

    @property
    def is_open(self) -> bool:
        """Whether the recording ended before its fate was decided."""
        return not self.is_proven and self.state != "uncertain"


@attrs.frozen
class AnomalySeen:
    """A fact without a row in the state it met (anomaly), or whose rows have guards and none of them holds (stale)."""

    line: int
    machine: str
    state: str
    event: str
    verdict: str


@attrs.frozen
class AlarmSeen:
    """A message shown twice (`doubled`), or evidence against a proof; once per message and item (decisions 2)."""

    line: int
    id: str
    kind: str


@attrs.frozen
class ThreadReport:
    """What became of one provider thread.

    Args:
        id: the provider's thread id; empty for messages that named none.
        goal: the goal's state.
        operation: state of the last operation; empty if there was none.
        follow_ups: the messages, in the order of their first send.
        anomalies: what nobody expected.
        alarms: messages that were delivered twice or against a proof.
    """

    id: str
    goal: str
    operation: str = ""
    follow_ups: tuple[Fate, ...] = ()
    anomalies: tuple[AnomalySeen, ...] = ()
    alarms: tuple[AlarmSeen, ...] = ()


@attrs.frozen
class Report:
    """What a replay found.

    Args:
        threads: the threads, in the order they were met.
        warnings: what is odd about the recording itself; none of it changes a fate.
    """

    threads: tuple[ThreadReport, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def fates(self) -> tuple[Fate, ...]:
        """Every message of every thread."""
        return tuple(fate for thread in self.threads for fate in thread.follow_ups)

    @property
    def is_clean(self) -> bool:
        """Whether every message has a proven fate, once, and nothing unexpected was met (surface 32)."""
        return all(fate.is_proven for fate in self.fates) and not any(
            thread.anomalies or thread.alarms for thread in self.threads
        )

    def as_json(self) -> dict[str, Any]:
        """Give the values that `replay --json` prints; what is not known is null."""
        return {"threads": [_thread(thread) for thread in self.threads]}


def _thread(thread: ThreadReport) -> dict[str, Any]:
    return {
        "id": thread.id,
        "goal": thread.goal,
        "operation": thread.operation or None,
        "follow_ups": [{key: value or None for key, value in attrs.asdict(fate).items()} for fate in thread.follow_ups],
        "anomalies": [attrs.asdict(anomaly) for anomaly in thread.anomalies],
        "alarms": [attrs.asdict(alarm) for alarm in thread.alarms],
    }
