"""What was measured: as one JSON object, as tables for a terminal, and as the page docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from benchmarks.cores import Cores
from benchmarks.imports import Imports
from benchmarks.journal import Journaled
from benchmarks.kernel import Kernel
from benchmarks.measure import Budget
from benchmarks.memory import Memory
from benchmarks.scale import Scale
from benchmarks.stream import Stream

Section = Kernel | Memory | Cores | Scale | Stream | Journaled | Imports
PACKAGES = ("attrs", "msgspec", "transitions", "automat", "sismic", "python-statemachine", "xstate-statemachine",
            "openai-codex")  # fmt: skip
Rows = list[tuple[str, ...]]


@attrs.frozen
class Table:
    """A table: what it is about, its columns, its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


def environment() -> dict[str, str]:
    """Where it ran, without anything that names the machine."""
    found = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def budgets(sections: Iterable[Section]) -> list[Budget]:
    return [budget for section in sections for budget in section.budgets()]


# -- JSON -------------------------------------------------------------------------------------------------------------


def as_json(sections: Mapping[str, Section]) -> dict[str, Any]:
    """One object: figures by section, what the budgets make of them, and where it ran."""
    out: dict[str, Any] = {}
    for section in sections.values():
        out |= _figures(section)
    told = [{**attrs.asdict(budget), "met": budget.met} for budget in budgets(sections.values())]
    return _rounded({**out, "budgets": told, "environment": environment()})


def _figures(section: Section) -> dict[str, Any]:  # noqa: PLR0911  one per section
    match section:
        case Kernel():
            counts = {
                name: {"calls": section.calls[name], "bytecodes": section.bytecodes[name]} for name in section.calls
            }
            return {"kernel": section.times_floor, "kernel_ns": section.ns, "kernel_counts": counts}
        case Memory():
            return {"memory_bytes": section.found}
        case Cores():
            return {"core": attrs.asdict(section)}
        case Scale():
            return {"scale": section.ns, "scale_bytes": section.rss}
        case Stream():
            ratios = {"burst": section.ratio, "paced": section.paced_ratio}
            return {"stream_cpu": section.us, "stream_cpu_paced": section.paced, "stream_ratio": ratios}
        case Journaled():
            return {"journal": {**section.per_second, "single_ratio": section.single, "grouped_ratio": section.grouped}}
        case Imports():
            return {"import_ms": section.ms["goalfsm"], "imports": section.ms, "import_foreign": list(section.loaded)}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


# -- tables -----------------------------------------------------------------------------------------------------------


def tables(section: Section) -> list[Table]:  # noqa: PLR0911  one per section
    match section:
        case Kernel():
            return [_kernel(section)]
        case Memory():
            ordered = sorted(section.found.items(), key=lambda item: item[1])
            return [
                Table("Live machine", ("machine", "bytes each"), [(name, f"{size:,.0f}") for name, size in ordered])
            ]
        case Cores():
            row = (
                f"{section.us:.1f}",
                f"{section.times_floor:.1f}",
                f"{section.calls:.0f}",
                f"{section.bytecodes:,.0f}",
            )
            columns = ("µs an event", "in hand-written steps", "Python calls", "bytecodes")
            return [Table("Whole core", columns, [row])]
        case Scale():
            rows = [(f"{int(size):,}", f"{ns:,.0f}", f"{section.rss[size]:,.0f}") for size, ns in section.ns.items()]
            return [Table("Live cores", ("cores", "ns an event", "growth of the process, bytes a core"), rows)]
        case Stream():
            return [_stream(section)]
        case Journaled():
            rows = [(name, f"{found:,.0f}") for name, found in section.per_second.items()]
            rows += [("single ratio", f"{section.single:.2f}"), ("grouped ratio", f"{section.grouped:.2f}")]
            return [Table("Journal", ("what", "commits a second"), rows)]
        case Imports():
            return [Table("Import", ("what", "ms"), [(name, f"{ms:.0f}") for name, ms in section.ms.items()])]


def _kernel(found: Kernel) -> Table:
    rows = [
        (
            name,
            f"{found.times_floor[name]:.2f}",
            f"{found.against[name]:.1f}" if name in found.against else "",
            f"{found.ns[name]:,.0f}",
            f"{found.calls[name]:.0f}",
            f"{found.bytecodes[name]:,.0f}",
        )
        for name in sorted(found.ns, key=lambda name: found.times_floor[name])
    ]
    return Table("Kernel step", ("what", "x floor", "x goalfsm", "ns", "Python calls", "bytecodes"), rows)


def _stream(found: Stream) -> Table:
    rows = [
        (name, f"{us:.1f}", f"{found.paced[name]:.0f}" if name in found.paced else "") for name, us in found.us.items()
    ]
    if found.ratio is not None and found.paced_ratio is not None:
        rows.append(("goalfsm / openai_codex", f"{found.ratio:.2f}", f"{found.paced_ratio:.2f}"))
    return Table("One notification", ("what", "µs CPU, burst", "µs CPU, each alone"), rows)


def budget_table(found: Sequence[Budget]) -> Table:
    rows = []
    for budget in found:
        limit = f"{'≥' if budget.least else '≤'} {budget.limit:,g}"
        rows.append((budget.what, f"{budget.found:,.2f}", limit, "met" if budget.met else "MISSED"))
    return Table("Budgets", ("what", "found", "budget", ""), rows)


def markdown(table: Table) -> str:
    head = f"| {' | '.join(table.columns)} |\n|{'---|' * len(table.columns)}"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in table.rows)])


# -- the page ---------------------------------------------------------------------------------------------------------


def page(template: Path, sections: Mapping[str, Section]) -> str:
    """Fill the template's `{{ section }}` marks; a section that was not measured says so."""
    text = template.read_text(encoding="utf-8")
    filled = {name: "\n\n".join(markdown(table) for table in tables(section)) for name, section in sections.items()}
    filled["budgets"] = markdown(budget_table(budgets(sections.values())))
    filled["environment"] = ", ".join(
        value if name in ("python", "system") else f"{name} {value}" for name, value in environment().items()
    )
    for name, value in filled.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    return text
