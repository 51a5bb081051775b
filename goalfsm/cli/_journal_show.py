"""What `goalfsm journal` shows of a history: tables, JSON, a diagram, or line by line while it grows."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from goalfsm._history import (
    JournalStep,
    ThreadHistory,
    chosen,
    journal_moments,
    journal_step,
    read_thread,
    step_moment,
)
from goalfsm._message import Message
from goalfsm._sequence import Moment, moment_words, sequence
from goalfsm._sqlite_reader import JournalReader
from goalfsm.cli import printable
from goalfsm.cli._chart import print_chart
from goalfsm.cli._render import count, data_console, is_terminal, style_of

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["follow", "show"]

_HEADS = ("step", "time", "event", "changes", "evidence")
_LOOK_EVERY = 0.25


def show(reader: JournalReader, thread: str | None, *, kind: str, as_json: bool, text: bool) -> None:
    """Print the whole history."""
    names = chosen(reader, thread)
    if kind == "mermaid":
        print_chart(sequence(journal_moments({name: read_thread(reader, name) for name in names}), text=text))
        return
    if as_json:
        shown = [_thread_json(name, read_thread(reader, name), text=text) for name in names]
        click.echo(msgspec.json.encode({"threads": shown}).decode())
        return
    steps = 0
    for name in names:
        history = read_thread(reader, name)
        steps += len(history.steps)
        _print(name, history, text=text)
    click.echo(f"{count(len(names), 'thread')}, {count(steps, 'step')}", err=True)


def follow(reader: JournalReader, thread: str | None, *, as_json: bool, text: bool) -> None:
    """Print the history in the order in which the file got it, and go on with what comes; Ctrl-C ends it."""
    since = 0
    chosen(reader, thread)
    with suppress(KeyboardInterrupt):
        while True:
            changes = reader.changes(since)
            for change in changes:
                since = change.id
                if thread in (None, change.thread_id):
                    _tell(change.thread_id, journal_step(change.stored), as_json=as_json, text=text)
            if not changes:
                sys.stdout.flush()
                time.sleep(_LOOK_EVERY)


def _tell(name: str, step: JournalStep, *, as_json: bool, text: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"thread": name, **_step_json(step, text=text)}).decode())
        return
    moment = step_moment(name, step)
    if not is_terminal(sys.stdout):
        _print_plain(name, [(str(step.seq), _time(step), *_cells(moment, text=text))])
        return
    from rich.text import Text  # noqa: PLC0415  only a person at a terminal needs it

    event, changes, evidence = _cells(moment, text=text)
    words = [Text(printable(part)) for part in (name, str(step.seq), _time(step)[11:23], event)]
    words[0].stylize("dim")
    words[3].stylize("bold")
    line = Text(" ").join([*words, _coloured(moment, changes)])
    if evidence:
        line.append(f"  {printable(evidence)}", style="dim")
    data_console().print(line, soft_wrap=True)


def _thread_json(name: str, history: ThreadHistory, *, text: bool) -> dict[str, Any]:
    return {
        "id": name,
        "spec": history.spec,
        "compacted": history.before,
        "messages": [_message_json(message, text=text) for message in history.messages],
        "steps": [_step_json(step, text=text) for step in history.steps],
    }


def _message_json(message: Message, *, text: bool) -> dict[str, Any]:
    shown = {
        "id": message.id,
        "state": message.row.state,
        "evidence": message.evidence,
        "reason": message.reason,
        "turn": message.row.turn_id,
    }
    return shown | ({"content": message.content.record()} if text else {})


def _step_json(step: JournalStep, *, text: bool) -> dict[str, Any]:
    record = step.record
    shown: dict[str, Any] = {
        "seq": step.seq,
        "epoch": step.epoch,
        "at": record.at,
        "spec": record.spec,
        "event": record.event,
        "moves": [dict(zip(("machine", "id", "from", "to", "event"), move, strict=True)) for move in record.moves],
        "effects": record.effects,
        "odd": [dict(zip(("machine", "id", "state", "event", "verdict"), odd, strict=True)) for odd in record.odd],
        "told": record.told,
    }
    return shown | ({"messages": record.messages} if text else {})


def _print(name: str, history: ThreadHistory, *, text: bool) -> None:
    rows = list(_rows(name, history, text=text))
    if not is_terminal(sys.stdout):
        _print_plain(name, [cells for cells, _ in rows])
        return
    from rich import box  # noqa: PLC0415  only a person at a terminal needs it
    from rich.table import Table  # noqa: PLC0415  as above
    from rich.text import Text  # noqa: PLC0415  as above

    table = Table(*_HEADS, box=box.SIMPLE_HEAD, pad_edge=False, title=Text(printable(f"thread {name}")))
    for (seq, at, event, changes, evidence), moment in rows:
        plain = [Text(printable(cell)) for cell in (seq, at, event)]
        table.add_row(*plain, _coloured(moment, changes), Text(printable(evidence)))
    data_console().print(table)


def _print_plain(name: str, rows: Sequence[tuple[str, ...]]) -> None:
    for row in rows:
        click.echo("\t".join(map(printable, (name, *row))).rstrip("\t"))


def _coloured(moment: Moment, words: str) -> Text:
    """Give the changes in the colours of the fates that they lead to; what was not expected in red."""
    from rich.text import Text  # noqa: PLC0415  only a person at a terminal needs it

    styles = [style_of(change.target) if change.machine == "follow_up" else "" for change in moment.changes]
    styles += ["bold red"] * len(moment.odd)
    parts = words.split("; ") if words else []
    if len(parts) != len(styles):  # a text with the separator in it
        return Text(printable(words))
    joined = Text("; ").join(Text(printable(part), style=style) for part, style in zip(parts, styles, strict=True))
    return joined if parts else Text("")


def _rows(name: str, history: ThreadHistory, *, text: bool) -> Iterator[tuple[tuple[str, str, str, str, str], Moment]]:
    moments = journal_moments({name: history})
    if history.before:
        kept = next(moments)
        yield (f"1-{history.before}", "", *_cells(kept, text=text)), kept
    for step, moment in zip(history.steps, moments, strict=True):
        yield (str(step.seq), _time(step), *_cells(moment, text=text)), moment


def _time(step: JournalStep) -> str:
    return datetime.fromtimestamp(step.record.at, UTC).isoformat(timespec="milliseconds")


def _cells(moment: Moment, *, text: bool) -> tuple[str, str, str]:
    event, changes = moment_words(moment)
    said = [f"{key}: {words}" for key, words in moment.texts.items()] if text else []
    odd = [f"not expected: {words}" for words in moment.odd]
    evidence = [change.evidence for change in moment.changes if change.evidence]
    return event, "; ".join([*changes, *odd, *said]), "; ".join(evidence)
