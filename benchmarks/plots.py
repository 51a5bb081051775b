"""The plots of docs/benchmarks.md. matplotlib is a dependency of the `bench` extra only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.kernel import Kernel
from benchmarks.memory import Memory
from benchmarks.report import Section
from benchmarks.scale import Scale
from benchmarks.stream import Stream

OURS, THEIRS, FLOOR = "#2a7f62", "#9aa5b1", "#d08c34"


def draw(folder: Path, sections: Mapping[str, Section]) -> list[Path]:
    """Write one SVG per section that has a plot; give the files."""
    import matplotlib as mpl  # noqa: PLC0415  an extra

    mpl.use("svg")
    # No random ids and no date: the same figures give the same file.
    mpl.rcParams.update({"svg.hashsalt": "goalfsm", "svg.fonttype": "none", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, section in sections.items():
        match section:
            case Kernel():
                figure = _bars("kernel step, times the hand-written table (log)", section.times_floor, log=True)
            case Memory():
                figure = _bars("bytes a live machine (log)", section.found, log=True)
            case Stream():
                figure = _bars("µs of CPU a notification", section.us, log=False)
            case Scale():
                figure = _line("ns an event", section.ns)
            case _:
                continue
        path = folder / f"{name}.svg"
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        drawn.append(path)
    return drawn


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(7, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _colour(name: str) -> str:
    return OURS if name.startswith("goalfsm") else FLOOR if name.startswith("attrs") else THEIRS


def _bars(title: str, found: Mapping[str, float], *, log: bool) -> Any:
    figure, axes = _figure(0.5 + 0.28 * len(found))
    ordered = sorted(found.items(), key=lambda item: -item[1])
    bars = axes.barh(
        [name for name, _ in ordered], [value for _, value in ordered], color=[_colour(n) for n, _ in ordered]
    )
    axes.bar_label(bars, [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for _, value in ordered], padding=3)
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_title(title, loc="left")
    return figure


def _line(title: str, found: Mapping[str, float]) -> Any:
    figure, axes = _figure(2.4)
    axes.plot([int(size) for size in found], list(found.values()), marker="o", color=OURS)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("live cores")
    axes.set_title(title, loc="left")
    return figure
