"""A spec file while it is read: its values, where they stand, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from keyword import iskeyword
from typing import Any

import attrs

from goalfsm._errors import did_you_mean
from goalfsm._ir import Problem

__all__ = ["Draft", "show"]

_NATURE = {"str": "a string", "int": "a whole number", "bool": "true or false", "dict": "a table", "list": "a list"}


@attrs.define
class Draft:
    """A file while it is read: its values, where they stand, and what is wrong with them."""

    path: str
    text: str = ""
    lines: Mapping[tuple[str | int, ...], int] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    broken_rows: bool = False

    def line(self, *where: str | int) -> int:
        """Give the line of a key path, or of the closest part of it that the file has."""
        while where:
            if where in self.lines:
                return self.lines[where]
            where = where[:-1]
        return 1

    def report(self, code: str, text: str, *where: str | int) -> None:
        """Note a problem at a key path."""
        self.problems.append(Problem(code, self.path, self.line(*where), text))

    def keys(self, what: str, table: Mapping[str, Any], known: Iterable[str], *where: str | int) -> None:
        """Report keys that mean nothing here."""
        known = tuple(known)
        for key in table:
            if key not in known:
                self.report("GF101", f"{what}: unknown key {key!r}{did_you_mean(key, known)}", *where, key)

    def take(self, what: str, table: Mapping[str, Any], key: str, kind: type, *where: str | int) -> Any:
        """Give a value of the expected type, or report it and give None; a missing key gives None."""
        if key not in table:
            return None
        value = table[key]
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.report("GF102", f"{what}: {key!r} must be {_NATURE[kind.__name__]}, not {show(value)}", *where, key)
        return None

    def names(self, what: str, table: Mapping[str, Any], key: str, *where: str | int) -> tuple[str, ...] | None:
        """Give a list of strings, or report it and give None; a missing key gives ()."""
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        shown = show(value)
        if isinstance(value, list):
            shown = f"a list with {show(next(item for item in value if not isinstance(item, str)))}"
        self.report("GF102", f"{what}: {key!r} must be a list of strings, not {shown}", *where, key)
        return None

    def word(self, what: str, value: str, known: Iterable[str], *where: str | int) -> bool:
        """Check that a word is one of a closed set."""
        known = tuple(known)
        if value in known:
            return True
        text = f"{what} must be one of {', '.join(known)}, not {value!r}{did_you_mean(value, known)}"
        self.report("GF103", text, *where)
        return False

    def identifier(self, what: str, name: str, *where: str | int) -> None:
        """Check that a name can be an attribute: fields, guards and triggers are reached by name."""
        if not name.isidentifier() or iskeyword(name):
            self.report("GF123", f"{what} {name!r} is not a plain name (letters, digits, underscores)", *where)


def show(value: Any) -> str:
    """Say what kind of TOML value this is, with short ones shown."""
    if isinstance(value, bool):
        return str(value).lower()
    nature = _NATURE.get(type(value).__name__, f"a {type(value).__name__}")
    return f"{nature} ({value!r})" if isinstance(value, (str, int)) else nature
