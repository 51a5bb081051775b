"""Diagrams and tables of machines and histories, as text: Mermaid, DOT, Markdown (decisions 25).

They are drawn from the spec and from nothing else, so they cannot drift from what the kernel runs. Every row shows with
its guard and its effects, in tables with its why too. Only `image` needs a program that is not ours.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._history import journal_moments, observed_moments, read_journal
from goalfsm._ir import Row, Spec
from goalfsm._picture import legend, overview
from goalfsm._render_dot import dot as _dot
from goalfsm._render_mermaid import mermaid as _mermaid
from goalfsm._render_table import table as _table
from goalfsm._sequence import sequence

__all__ = [
    "ImageKind",
    "dot",
    "image",
    "journal_sequence",
    "legend",
    "mermaid",
    "overview",
    "table",
    "traffic_sequence",
]

ImageKind = Literal["svg", "png"]

_SECONDS = 60


def mermaid(spec: Spec, *, highlight: str = "", ignored: bool = False, taken: Collection[Row] | None = None) -> str:
    """Draw a machine as a Mermaid state diagram; rows that stay stand in the box of their state.

    Args:
        spec: the machine.
        highlight: a state to be painted in a signal colour.
        ignored: draw the ignore rows too; tables always list them.
        taken: the rows that a run took (`goalfsm.testing.coverage`); the others are marked.

    Raises:
        UnknownName: there is no such state to highlight.
    """
    return _mermaid(spec, highlight=_known(spec, highlight), ignored=ignored, taken=taken)


def dot(spec: Spec, *, highlight: str = "", ignored: bool = False, taken: Collection[Row] | None = None) -> str:
    """Draw a machine in Graphviz's DOT language; arguments and errors as for `mermaid`."""
    return _dot(spec, highlight=_known(spec, highlight), ignored=ignored, taken=taken)


def table(spec: Spec, *, highlight: str = "") -> str:
    """Write a machine as Markdown tables, with every why and every ignore row; errors as for `mermaid`."""
    return _table(spec, highlight=_known(spec, highlight))


def image(spec: Spec, kind: ImageKind, *, highlight: str = "", ignored: bool = False) -> bytes:
    """Draw a machine with Graphviz, which has to be installed.

    Raises:
        GoalfsmError: there is no `dot` program, or it failed; the message says what to do.
        UnknownName: there is no such state to highlight.
    """
    text = dot(spec, highlight=highlight, ignored=ignored)
    program = shutil.which("dot")
    if program is None:
        raise GoalfsmError(
            f"{kind} needs Graphviz: its program 'dot' is not on the PATH. Install it (for example `apt install "
            "graphviz` or `brew install graphviz`), or take the format mermaid, dot or table, which need nothing"
        )
    try:
        done = subprocess.run(  # noqa: S603  the program that the person installed; the graph goes in by stdin
            [program, f"-T{kind}"], input=text.encode(), capture_output=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise GoalfsmError(f"{program} did not finish within {_SECONDS} s; it was ended") from None
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()
        raise GoalfsmError(f"{program} failed with exit code {done.returncode}: {words}")
    return done.stdout


def journal_sequence(path: str | Path, thread: str | None = None, *, text: bool = False) -> str:
    """Draw the history of a journal file as a Mermaid sequence diagram of host, goalfsm and provider.

    Args:
        path: the journal; it is only read.
        thread: one thread's id; None draws them all, one after the other.
        text: show what messages say, too.

    Raises:
        JournalError: it is no journal, or cannot be read.
        UnknownName: it holds no such thread.
    """
    return sequence(journal_moments(read_journal(path, thread)), text=text)


def traffic_sequence(recording: Iterable[str | bytes], *, text: bool = False) -> str:
    """Draw recorded traffic, as `replay` understands it, as a Mermaid sequence diagram.

    Args:
        recording: its lines.
        text: show what messages say, too.

    Raises:
        NotATrace: it is not a readable recording.
    """
    return sequence(observed_moments(recording)[1], text=text)


def _known(spec: Spec, state: str) -> str:
    if state and state not in spec.states:
        raise UnknownName("state", state, spec.machine, spec.states)
    return state
