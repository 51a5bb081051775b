"""The care of a journal file: what other specs judged, whether the rules still agree, and compaction."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import attrs
import click
import msgspec

from goalfsm._compacting import compact_journal
from goalfsm._fold import spec_version
from goalfsm._guards import FINAL_FOLLOW_UP
from goalfsm._history import chosen, read_thread
from goalfsm._sqlite_reader import JournalReader
from goalfsm._verify import Verified, verify_thread
from goalfsm.cli import printable
from goalfsm.cli._render import count, data_console, is_terminal

__all__ = ["compact", "show_stale", "verify"]

_SHOWN = 400


def show_stale(reader: JournalReader, thread: str | None, *, as_json: bool, fail: bool) -> None:
    """List the threads whose newest step carries another spec version than this build (requirements 4.8)."""
    stale: list[tuple[str, str, int]] = []
    names = chosen(reader, thread)
    for name in names:
        history = read_thread(reader, name)
        if history.spec not in ("", spec_version()):
            still_open = sum(message.row.state not in FINAL_FOLLOW_UP for message in history.messages)
            stale.append((name, history.spec, still_open))
    if as_json:
        shown = [dict(zip(("id", "spec", "open"), one, strict=True)) for one in stale]
        click.echo(msgspec.json.encode({"spec": spec_version(), "stale": shown}).decode())
    else:
        _print(("thread", "specs", "open messages"), [(name, spec, str(number)) for name, spec, number in stale])
        words = f"{count(len(stale), 'thread')} of {len(names)} judged by other specs than {spec_version()}"
        click.echo(f"{words}; fates that are settled stay as they are", err=True)
    if stale and fail:
        raise click.exceptions.Exit(1)


def verify(reader: JournalReader, thread: str | None, *, as_json: bool) -> None:
    """Replay the events of every thread through the rules, and report the first difference of each (decisions 21)."""
    found = {name: verify_thread(reader, name) for name in chosen(reader, thread)}
    differing = {name: verified for name, verified in found.items() if verified.difference is not None}
    if as_json:
        shown = [{"id": name, **attrs.asdict(verified)} for name, verified in found.items()]
        click.echo(msgspec.json.encode({"spec": spec_version(), "threads": shown}).decode())
    else:
        _print(("thread", "step", "event", "differs", "journal", "rules"), map(_row, differing.items()))
        steps = sum(verified.steps for verified in found.values())
        words = f"{count(steps, 'step')} of {count(len(found), 'thread')}"
        others = sum(bool(v.difference and v.difference.is_of_another_spec) for v in differing.values())
        if not differing:
            click.echo(f"{words}: the rules agree with the journal", err=True)
        else:
            click.echo(f"{words}: the rules differ from the journal in {count(len(differing), 'thread')}", err=True)
            if others:
                click.echo(f"{others} of them at a step that other specs judged, where that may be meant", err=True)
    if differing:
        raise click.exceptions.Exit(1)


def _row(found: tuple[str, Verified]) -> tuple[str, ...]:
    name, verified = found
    difference = verified.difference
    assert difference is not None  # noqa: S101  only differing threads are shown
    return (
        name,
        str(difference.seq),
        difference.event,
        difference.what,
        difference.journal[:_SHOWN],
        difference.rules[:_SHOWN],
    )


def compact(reader: JournalReader, thread: str | None, *, as_json: bool) -> None:
    """Let threads at rest that nobody holds keep their fates and lose their steps, then give back the space."""
    import anyio  # noqa: PLC0415  only this mode needs an event loop

    names = chosen(reader, thread)
    # The view would keep the file from shrinking.
    reader.close()
    done = anyio.run(compact_journal, reader.path, names)
    dropped = sum(one.dropped for one in done.threads)
    if as_json:
        click.echo(msgspec.json.encode(done).decode())
        return
    rows = [
        (one.thread_id, "left", one.left)
        if one.left
        else (one.thread_id, "compacted", f"{count(one.dropped, 'step')} dropped, {_kept(one.fates, one.waiting)} kept")
        for one in done.threads
    ]
    _print(("thread", "", ""), rows)
    number = sum(not one.left for one in done.threads)
    words = f"{number} of {count(len(names), 'thread')} compacted: {count(dropped, 'step')} dropped"
    click.echo(f"{words}, {done.saved:,} bytes saved", err=True)
    if done.not_vacuumed:
        click.echo(f"the space is free in the file, but not given back: {printable(done.not_vacuumed)}", err=True)


def _kept(fates: int, waiting: int) -> str:
    words = count(fates, "fate")
    return f"{words} and {count(waiting, 'open message')}" if waiting else words


def _print(heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    shown = list(rows)
    if not is_terminal(sys.stdout):
        for row in shown:
            click.echo("\t".join(map(printable, row)))
    elif shown:
        from rich import box  # noqa: PLC0415  only a person at a terminal needs it
        from rich.table import Table  # noqa: PLC0415  as above
        from rich.text import Text  # noqa: PLC0415  as above

        table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in shown:
            table.add_row(*(Text(printable(cell)) for cell in row))
        data_console().print(table)
