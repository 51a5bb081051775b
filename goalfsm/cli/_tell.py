"""How `run` tells what happens: lines for people on stderr, or one JSON object per event on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from goalfsm._handles import FollowUpHandle
from goalfsm._values import Outcome, Result, StreamEvent
from goalfsm.cli import printable
from goalfsm.cli._render import count, data_console, fates_table, first_words, labelled, numbered, style_of, told
from goalfsm.cli._screen import Screen

__all__ = ["JsonTeller", "Teller", "fate_record", "print_fates", "status_line"]

Fates = list[tuple[FollowUpHandle, Outcome]]

_NOT_NEWS = {"queued", "admitted", "accepted", "delivering"}


class Teller:
    """Tells people."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def started(self, objective: str, thread_id: str, journal: str) -> None:
        """A goal is about to start on a thread."""
        self.screen.line(labelled("goal", printable(" ".join(objective.split()))))
        self.screen.line(labelled("thread", printable(thread_id), "dim"))
        if journal:
            self.screen.line(labelled("journal", printable(journal), "dim"))

    def turn(self, number: int, turn_id: str) -> None:
        """A physical turn began."""
        del turn_id
        self.screen.end_all_speech()
        self.screen.line(labelled(f"turn {number}"))

    def heard(self, event: StreamEvent) -> None:
        """The provider said something."""
        params = event.params
        item = params.get("item")
        if event.method == "item/agentMessage/delta":
            self.screen.speech(str(params.get("itemId")), str(params.get("delta", "")))
        elif event.method == "item/completed" and isinstance(item, Mapping) and item.get("type") == "agentMessage":
            self.screen.end_of_speech(str(item.get("id")), str(item.get("text", "")))
        elif event.method == "item/started" and isinstance(item, Mapping) and item.get("type") == "agentMessage":
            # A message that a steer has cut never gets an end of its own.
            self.screen.end_all_speech()
        elif event.method == "item/started" and isinstance(item, Mapping) and item.get("type") == "commandExecution":
            self.screen.line(labelled("", Text(f"$ {first_words(str(item.get('command', '')), 100)}", style="dim")))
        elif event.method == "error" and isinstance(params.get("error"), Mapping):
            self.note("error", str(params["error"].get("message", "")), "red")

    def typed(self, message_id: str, text: str) -> None:
        """A person's message is about to be kept."""
        self.screen.line(labelled(message_id, Text(f'"{first_words(text, 160)}"', style="italic")))

    def changed(self, message: FollowUpHandle, turns: Mapping[str, int]) -> None:
        """A message is in another state."""
        if message.state not in _NOT_NEWS:
            self.where(message, turns)

    def where(self, message: FollowUpHandle, turns: Mapping[str, int]) -> None:
        """Say where a message is."""
        self.screen.line(told(message.id, message.state, message.evidence, message.reason, turns))

    def note(self, label: str, text: str, style: str = "") -> None:
        """Something that concerns the person who typed."""
        self.screen.line(labelled(label, Text(printable(text), style=style)))

    def ended(self, record: Mapping[str, Any], result: Result | None, fates: Fates, turns: Mapping[str, int]) -> None:
        """Everything is over: the result and the fates, on stdout."""
        self.screen.stop()
        console = data_console()
        goal = record["goal"]
        took = f"in {result.duration_ms / 1000:.1f} s" if result is not None and result.duration_ms is not None else ""
        tokens = count(result.usage.total.total_tokens, "token") if result is not None and result.usage else ""
        facts = ", ".join(filter(None, (took, count(goal["turns"], "turn") if goal["turns"] else "", tokens)))
        console.print()
        status, reached = goal["status"], goal["goal_status"]
        if status == "completed" and reached != "complete":
            # The turns ended well, but the goal was given up, or ran out of its budget.
            status = reached.replace("_", " ")
        console.print(Text.assemble((status, f"bold {style_of(status)}"), f"  {facts}"))
        if goal["error"]:
            console.print(Text(printable(goal["error"]), style="red"))
        if goal["final_response"]:
            lines = goal["final_response"].splitlines()
            console.print(Text("\n".join(printable(line.expandtabs(4)) for line in lines)))
        if fates:
            print_fates(fates, turns)


class JsonTeller(Teller):
    """Tells programs, one line of JSON per event; what only a person needs goes to stderr."""

    def _print(self, event: str, **fields: Any) -> None:
        click.echo(msgspec.json.encode({"event": event, **fields}))

    def started(self, objective: str, thread_id: str, journal: str) -> None:
        """A goal is about to start on a thread."""
        self._print("started", thread_id=thread_id, objective=objective, journal=journal or None)

    def turn(self, number: int, turn_id: str) -> None:
        """A physical turn began."""
        self._print("turn", number=number, physical_turn_id=turn_id)

    def heard(self, event: StreamEvent) -> None:
        """The provider said something; the follow-ups' own events are told by `changed`."""
        if event.source == "provider":
            self._print(event.method, params=event.params, physical_turn_id=event.physical_turn_id)

    def typed(self, message_id: str, text: str) -> None:
        """A person's message is about to be kept."""
        self._print("typed", id=message_id, text=text)

    def changed(self, message: FollowUpHandle, turns: Mapping[str, int]) -> None:
        """A message is in another state."""
        del turns
        self._print(f"follow_up/{message.state}", **fate_record(message.outcome))

    def where(self, message: FollowUpHandle, turns: Mapping[str, int]) -> None:
        """Its state has been told."""

    def note(self, label: str, text: str, style: str = "") -> None:
        """Something that concerns the person who typed."""
        del style
        click.echo(f"{label}: {printable(text)}", err=True)

    def ended(self, record: Mapping[str, Any], result: Result | None, fates: Fates, turns: Mapping[str, int]) -> None:
        """Everything is over."""
        del result, fates, turns
        self._print("result", **record)


def fate_record(outcome: Outcome) -> dict[str, str | None]:
    """Give a fate as `--json` prints it; what is not known is null."""
    known = {
        "id": outcome.id,
        "state": outcome.state,
        "turn_id": outcome.turn_id,
        "physical_turn_id": outcome.physical_turn_id,
        "evidence": outcome.evidence,
        "reason": outcome.reason,
    }
    return {name: value or None for name, value in known.items()}


def print_fates(fates: Fates, turns: Mapping[str, int], seen: Mapping[str, int] | None = None) -> None:
    """Print the table of fates on stdout; `seen`, where it is known, says how often the agent was shown each."""
    heads = ["message", "fate", "turn", *(["seen"] if seen is not None else []), "evidence", "reason"]
    rows = [
        [
            f"{message.id} {first_words(message.text)}",
            outcome.state,
            str(turns.get(outcome.physical_turn_id, "-")),
            *([f"{seen[message.id]} x"] if seen is not None else []),
            numbered(outcome.evidence, turns),
            numbered(outcome.reason, turns),
        ]
        for message, outcome in fates
    ]
    data_console().print(fates_table(heads, rows, 1, whole=len(heads) - 2))


def status_line(parts: list[str], typed: str | None, width: int) -> RenderableType:
    """Make the redrawn lines: where the goal stands, and the line that is being typed."""
    grid = Table.grid()
    grid.add_row(Text(" | ".join(filter(None, parts)), style="dim", no_wrap=True, overflow="ellipsis"))
    if typed is not None:
        grid.add_row(Text.assemble(("> ", "bold"), typed[-max(width - 4, 1) :], (" ", "reverse"), no_wrap=True))
    return grid
