"""An examination as text for a terminal, as JSON, as JUnit XML and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree as ET

import attrs
import msgspec

from goalfsm.testing.conformance._examination import EXIT, Examination, Failure
from goalfsm.testing.conformance._judging import Judged
from goalfsm.testing.conformance._story import case_words, diagram, story
from goalfsm.testing.conformance.laws import LAWS

__all__ = ["as_json", "as_junit", "as_markdown", "as_text", "failure_text"]

_WORDS: Final = ("kept", "broken", "undetermined", "not judged")
_OUTCOMES: Final = {
    "pass": "pass: every law that could be judged was kept",
    "violated": "violated",
    "undetermined": "undetermined: not everything could be judged, which is no pass",
}


def _marked(failure: Failure) -> tuple[int, ...]:
    return tuple(place for verdict in failure.judged.broken for broken in verdict.broken for place in broken.entries)


def failure_text(failure: Failure) -> str:
    """Give a broken law with its shortest history, as a sequence of events."""
    law = LAWS[failure.law]
    lines = [
        f"{law.id}: {law.says}",
        f"  broken ({failure.kind}): {failure.how}",
        f"  rests on {law.rests_on}; looks at {law.looks_at}",
        f"  found in {', '.join(failure.found_in)}",
        "  the shortest case found:",
        *(f"    {line}" for line in case_words(failure.judged.case)),
        "  what was seen:",
        *(f"  {line}" for line in story(failure.judged.history, _marked(failure))),
    ]
    return "\n".join(lines)


def as_text(examination: Examination) -> str:
    """Give the report for a terminal."""
    lines = []
    for failure in examination.failures:
        lines += [failure_text(failure), ""]
    for law in LAWS.values():
        counts = examination.law_words(law.id)
        if counts:
            figures = ", ".join(f"{counts[word]} {word}" for word in _WORDS if word in counts)
            lines.append(f"{law.id:4} {figures}  ({law.says})")
            if why := examination.why_not_judged(law.id):
                lines.append(f"     not judged: {why}")
    open_ends = [one for one in examination.judged if one.word == "undetermined"]
    lines += ["", *(f"undetermined: {one.case.name}: {one.problem}" for one in open_ends)]
    seed = f", seed {examination.seed}" if examination.seed else ""
    lines.append(
        f"{examination.server}: {_OUTCOMES[examination.outcome]} "
        f"({len(examination.judged)} cases{seed}, {examination.seconds:.1f} s)"
    )
    return "\n".join(lines) + "\n"


def as_json(examination: Examination) -> bytes:
    """Give the report as JSON; the moves of a failure are those of its regression file."""
    value = {
        "server": examination.server,
        "outcome": examination.outcome,
        "exit": EXIT[examination.outcome],
        "seed": examination.seed,
        "seconds": round(examination.seconds, 3),
        "laws": [
            {
                "id": law.id,
                "says": law.says,
                "rests_on": law.rests_on,
                "looks_at": law.looks_at,
                "verdicts": examination.law_words(law.id),
                "not_judged": examination.why_not_judged(law.id),
            }
            for law in LAWS.values()
            if examination.law_words(law.id)
        ],
        "cases": [_case_json(judged) for judged in examination.judged],
        "failures": [_failure_json(failure) for failure in examination.failures],
    }
    return msgspec.json.encode(value)


def _case_json(judged: Judged) -> dict[str, Any]:
    return {
        "name": judged.case.name,
        "verdict": judged.word,
        "problem": judged.problem,
        "laws": {verdict.law: {"verdict": verdict.word, "why": verdict.why} for verdict in judged.verdicts},
    }


def _failure_json(failure: Failure) -> dict[str, Any]:
    case = failure.judged.case
    return {
        "law": failure.law,
        "kind": failure.kind,
        "how": failure.how,
        "found_in": list(failure.found_in),
        "moves": [attrs.asdict(move) for move in case.moves],
        "script": case.script,
        "faults": case.faults,
        "history": story(failure.judged.history, _marked(failure)),
        "evidence": list(_marked(failure)),
        "diagram": diagram(failure.judged.history, _marked(failure)),
    }


def as_junit(examination: Examination) -> bytes:
    """Give the report as JUnit XML: a test case per case and law; what was not judged is skipped, never passed."""
    verdicts = [(judged, verdict) for judged in examination.judged for verdict in judged.verdicts]
    words = [verdict.word for _, verdict in verdicts]
    suite = ET.Element(
        "testsuite",
        name=f"goalfsm conform: {examination.server}",
        tests=str(len(words)),
        failures=str(words.count("broken")),
        errors=str(words.count("undetermined")),
        skipped=str(words.count("not judged")),
        time=f"{examination.seconds:.3f}",
    )
    shortest: dict[str, list[str]] = {}
    for one in examination.failures:
        shortest.setdefault(one.law, []).append(failure_text(one))
    for judged, verdict in verdicts:
        case = ET.SubElement(suite, "testcase", classname=_plain(judged.case.name), name=verdict.law)
        if verdict.word == "broken":
            failure = ET.SubElement(case, "failure", message=_plain(verdict.why))
            failure.text = _plain("\n\n".join(shortest.get(verdict.law, [])))
        elif verdict.word == "undetermined":
            ET.SubElement(case, "error", message=_plain(verdict.why))
        elif verdict.word == "not judged":
            ET.SubElement(case, "skipped", message=_plain(verdict.why))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _plain(text: str) -> str:
    # XML has no way to write most control signs, not even escaped.
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text)


def as_markdown(examination: Examination) -> str:
    """Give the report as Markdown, each failure with a sequence diagram."""
    return "\n".join(_markdown(examination)) + "\n"


def _markdown(examination: Examination) -> Iterator[str]:
    yield f"# Conformance of `{examination.server}`"
    yield ""
    seed = f", seed `{examination.seed}`" if examination.seed else ""
    yield f"**{_OUTCOMES[examination.outcome]}** ({len(examination.judged)} cases{seed})"
    yield ""
    yield "| law | says | " + " | ".join(_WORDS) + " |"
    yield "|---|---|" + "---|" * len(_WORDS)
    for law in LAWS.values():
        counts = examination.law_words(law.id)
        if counts:
            figures = " | ".join(str(counts.get(word, "")) for word in _WORDS)
            yield f"| {law.id} | {law.says} | {figures} |"
    for failure in examination.failures:
        yield from _failure_markdown(failure)
    open_ends = [one for one in examination.judged if one.word == "undetermined"]
    if open_ends:
        yield "\n## Undetermined\n"
        for judged in open_ends:
            yield f"- `{judged.case.name}`: {judged.problem}"


def _failure_markdown(failure: Failure) -> Iterator[str]:
    law = LAWS[failure.law]
    yield f"\n## {law.id}, {failure.kind}: {law.says}\n"
    yield f"Broken: {failure.how}. Rests on {law.rests_on}; looks at {law.looks_at}."
    yield f"Found in {', '.join(f'`{name}`' for name in failure.found_in)}.\n"
    yield "```text"
    yield from case_words(failure.judged.case)
    yield "```\n"
    yield "```mermaid"
    yield diagram(failure.judged.history, _marked(failure)).rstrip()
    yield "```"
