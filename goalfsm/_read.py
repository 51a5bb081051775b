"""TOML text to a spec: every mistake of shape becomes a problem with a line, and reading goes on."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from goalfsm._draft import Draft, show
from goalfsm._ir import EffectDecl, EventDecl, Problem, Row, Spec, State
from goalfsm._lines import locate
from goalfsm._pictured import read_picture

__all__ = ["read", "read_text"]

ORIGINS = ("command", "provider", "host", "clock", "internal")
KINDS = ("wait", "call", "final")
POLICIES = ("reject", "anomaly", "ignore")
TYPES = ("str", "int", "bool")
_TOP = ("schema", "machine", "doc", "initial", "unlisted", "states", "events", "effects", "transitions", "picture")
_ROW = ("from", "event", "to", "if", "clear", "save", "set", "do", "why")
_IGNORE = ("from", "event", "if", "why")
LINE_LIMIT = 10_000
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")


def read(path: str | Path) -> tuple[Draft, Spec | None]:
    """Read a spec file.

    Returns:
        The draft with all problems of shape, and the spec as far as it could be read (None: not at all).
    """
    shown = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        problem = Problem("GF100", shown, 1, f"cannot be read: {error.strerror or error}")
        return Draft(shown, problems=[problem]), None
    except UnicodeDecodeError as error:
        problem = Problem("GF100", shown, 1, f"is not UTF-8 text: {error.reason} at byte {error.start}")
        return Draft(shown, problems=[problem]), None
    except ValueError as error:  # a path with a zero byte
        return Draft(shown, problems=[Problem("GF100", shown, 1, f"cannot be read: {error}")]), None
    return read_text(text, shown)


def read_text(text: str, path: str) -> tuple[Draft, Spec | None]:
    """Read the text of a spec; `path` is what problems name."""
    for at, row in enumerate(text.splitlines(), 1):
        if len(row) > LINE_LIMIT:
            words = f"is no spec: a line of {len(row):,} characters, where {LINE_LIMIT:,} are enough for any row"
            return Draft(path, text, problems=[Problem("GF100", path, at, words)]), None
    try:
        values = tomllib.loads(text)
        draft = Draft(path, text, locate(text))
    except RecursionError:
        return Draft(path, text, problems=[Problem("GF100", path, 1, "is not TOML: nested too deeply")]), None
    except ValueError as error:  # not only TOMLDecodeError: a number may have too many digits for Python
        found = _AT_LINE.search(str(error))
        end = text.count("\n") + 1
        line = int(found.group(1) or end) if found else 1
        problem = Problem("GF100", path, line, f"is not TOML: {_AT_LINE.sub('', str(error))}")
        return Draft(path, text, problems=[problem]), None
    return draft, _spec(draft, values)


def _spec(draft: Draft, values: dict[str, Any]) -> Spec:
    draft.keys("spec", values, _TOP)
    if values.get("schema", 1) != 1:
        draft.report("GF103", f"schema must be 1, not {values['schema']!r}", "schema")
    machine = draft.take("spec", values, "machine", str)
    if machine is None and "machine" not in values:
        draft.report("GF102", "spec: key 'machine' is missing: the machine's name")
    elif machine is not None:
        draft.identifier("machine", machine, "machine")
    initial = draft.take("spec", values, "initial", str)
    states = _states(draft, values)
    events = _events(draft, values)
    effects = _effects(draft, values)
    return Spec(
        machine=machine or "machine",
        initial=initial or "",
        unlisted=_unlisted(draft, values),
        states=states,
        events=events,
        effects=effects,
        rows=_rows(draft, values, tuple(states)),
        data={},
        path=draft.path,
        digest=hashlib.sha256(draft.text.encode()).hexdigest()[:12],
        picture=read_picture(draft, values),
    )


def _unlisted(draft: Draft, values: dict[str, Any]) -> dict[str, str]:
    unlisted = dict.fromkeys(ORIGINS, "anomaly") | {"command": "reject"}
    for origin, policy in (draft.take("spec", values, "unlisted", dict) or {}).items():
        if not draft.word("unlisted: the origin", origin, ORIGINS, "unlisted", origin):
            continue
        word = draft.take("unlisted", {origin: policy}, origin, str, "unlisted")
        if word is not None and draft.word(f"unlisted: {origin}", word, POLICIES, "unlisted", origin):
            unlisted[origin] = word
    return unlisted


def _section(draft: Draft, values: dict[str, Any], name: str, what: str) -> Iterable[tuple[str, dict[str, Any]]]:
    for key, body in (draft.take("spec", values, name, dict) or {}).items():
        draft.identifier(what, key, name, key)
        if isinstance(body, dict):
            yield key, body
        else:
            draft.report("GF102", f"{what} {key!r} must be a table, not {show(body)}", name, key)
            yield key, {}


def _states(draft: Draft, values: dict[str, Any]) -> dict[str, State]:
    states = {}
    for name, body in _section(draft, values, "states", "state"):
        what, at = f"state {name!r}", ("states", name)
        draft.keys(what, body, ("kind", "doc", "clear"), *at)
        kind: Literal["wait", "call", "final"] = "wait"
        word = draft.take(what, body, "kind", str, *at)
        if word is not None and draft.word(f"{what}: kind", word, KINDS, *at, "kind"):
            kind = word
        doc = draft.take(what, body, "doc", str, *at) or ""
        clear = draft.names(what, body, "clear", *at) or ()
        states[name] = State(name, kind, doc, clear, draft.line(*at))
    if "states" not in values:
        draft.report("GF102", "spec: table 'states' is missing")
    return states


def _events(draft: Draft, values: dict[str, Any]) -> dict[str, EventDecl]:
    events = {}
    for name, body in _section(draft, values, "events", "event"):
        what, at = f"event {name!r}", ("events", name)
        draft.keys(what, body, ("origin", "fields", "doc"), *at)
        origin = draft.take(what, body, "origin", str, *at)
        if "origin" not in body:
            draft.report("GF102", f"{what}: key 'origin' is missing: one of {', '.join(ORIGINS)}", *at)
        elif origin is not None and not draft.word(f"{what}: origin", origin, ORIGINS, *at, "origin"):
            origin = None
        fields = {}
        for field, kind in (draft.take(what, body, "fields", dict, *at) or {}).items():
            draft.identifier(f"{what}: field", field, *at, "fields", field)
            if field in ("name", "state", "fields"):
                draft.report("GF123", f"{what}: field {field!r} has a reserved name", *at, "fields", field)
            shown = kind if isinstance(kind, str) else show(kind)
            known = draft.word(f"{what}: type of field {field!r}", shown, TYPES, *at, "fields", field)
            fields[field] = shown if known else "str"
        doc = draft.take(what, body, "doc", str, *at) or ""
        events[name] = EventDecl(name, origin or "command", fields, doc, draft.line(*at))
    if "events" not in values:
        draft.report("GF102", "spec: table 'events' is missing")
    return events


def _effects(draft: Draft, values: dict[str, Any]) -> dict[str, EffectDecl]:
    effects = {}
    for name, doc in (draft.take("spec", values, "effects", dict) or {}).items():
        draft.identifier("effect", name, "effects", name)
        if not isinstance(doc, str):
            text = f"effect {name!r} must be a string that says what it does, not {show(doc)}"
            draft.report("GF102", text, "effects", name)
            doc = ""  # noqa: PLW2901  reading goes on with an empty text
        effects[name] = EffectDecl(name, doc, draft.line("effects", name))
    return effects


def _rows(draft: Draft, values: dict[str, Any], states: tuple[str, ...]) -> tuple[Row, ...]:
    transitions = draft.take("spec", values, "transitions", dict) or {}
    if "transitions" not in values:
        draft.report("GF102", "spec: table 'transitions' is missing")
    draft.keys("transitions", transitions, ("rows", "ignore"), "transitions")
    rows: list[Row] = []
    kinds: tuple[tuple[str, Literal["row", "ignore"]], ...] = (("rows", "row"), ("ignore", "ignore"))
    for key, kind in kinds:
        for index, body in enumerate(draft.take("transitions", transitions, key, list, "transitions") or []):
            before = len(draft.problems)
            row = _row(draft, body, kind, index, states)
            if row is not None:
                rows.append(row)
            draft.broken_rows |= len(draft.problems) > before
    return tuple(rows)


def _row(draft: Draft, body: Any, kind: Literal["row", "ignore"], index: int, states: tuple[str, ...]) -> Row | None:
    what, at = f"{kind} {index + 1}", ("transitions", "rows" if kind == "row" else "ignore", index)
    if not isinstance(body, dict):
        draft.report("GF102", f"{what} must be a table, not {show(body)}", *at)
        return None
    draft.keys(what, body, _ROW if kind == "row" else _IGNORE, *at)
    for key in ("from", "event"):
        if body.get(key, []) == []:
            draft.report("GF102", f"{what}: {key!r} is missing or empty: a list of names", *at)
    sources, events = draft.names(what, body, "from", *at), draft.names(what, body, "event", *at)
    save, clear, do = (draft.names(what, body, key, *at) or () for key in ("save", "clear", "do"))
    literals = {}
    for field, value in (draft.take(what, body, "set", dict, *at) or {}).items():
        if isinstance(value, (str, bool, int)):
            literals[field] = value
        else:
            text = f"{what}: set {field!r} must be a string, a whole number or true/false, not {show(value)}"
            draft.report("GF102", text, *at, "set", field)
    texts = {key: draft.take(what, body, key, str, *at) for key in ("to", "if", "why")}
    if not sources or not events:
        return None
    everywhere = "*" in sources
    sources = tuple(dict.fromkeys([*states, *(name for name in sources if name != "*")])) if everywhere else sources
    return Row(
        kind, index, sources, events, texts["to"], texts["if"], save, literals, clear, do,
        (texts["why"] or "").strip(), draft.line(*at), everywhere,
    )  # fmt: skip
