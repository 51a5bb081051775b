"""Where things stand in a TOML text: tomllib gives values without lines, and a problem without a line helps nobody.

The scanner trusts that tomllib has accepted the text, so it only follows the grammar and never judges it.
"""

from __future__ import annotations

import re

__all__ = ["locate"]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_ESCAPE = re.compile(r"\\(.)")

Path = tuple[str | int, ...]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}
        self._seen = 0
        self._line = 1

    def _here(self) -> int:
        # Positions only grow, so lines are counted once over the whole text.
        self._line += self.text.count("\n", self._seen, self.at)
        self._seen = self.at
        return self._line

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _note(self, path: Path) -> None:
        self.lines.setdefault(path, self._here())

    def _key(self, base: Path) -> Path:
        path = base
        while True:
            self._skip(_SPACE)
            if self._peek() in ("'", '"'):
                raw = next(filter(None, (self._skip(pattern) for pattern in _STRINGS[2:])), "")
                part = raw[1:-1] if raw[:1] == "'" else _ESCAPE.sub(r"\1", raw[1:-1])
            else:
                part = self._skip(_BARE_KEY)
            path = (*path, part)
            self._note(path)
            self._skip(_SPACE)
            if self._peek() != ".":
                return path
            self.at += 1

    def _pair(self, base: Path) -> None:
        path = self._key(base)
        self.at += 1
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._peek()
        if opening in ("'", '"'):
            any(self._skip(pattern) for pattern in _STRINGS)
        elif opening == "[":
            self._sequence(path, "]")
        elif opening == "{":
            self._sequence(path, "}")
        else:
            self._skip(_SCALAR)

    def _sequence(self, path: Path, closing: str) -> None:
        self.at += 1
        index = 0
        while self._skip(_BLANK) is not None and self.at < len(self.text) and self._peek() != closing:
            if closing == "}":
                self._pair(path)
            else:
                self._note((*path, index))
                self._value((*path, index))
                index += 1
            self._skip(_BLANK)
            if self._peek() == ",":
                self.at += 1
        self.at += 1

    def _header(self) -> Path:
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        path = self._key(())
        self.at += 2 if double else 1
        if not double:
            return path
        index = self.counts.get(path, 0)
        self.counts[path] = index + 1
        path = (*path, index)
        self._note(path)
        return path

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return self.lines
            before = self.at
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
            if self.at == before:  # never loop on a text that tomllib would not have accepted
                self.at += 1


def locate(text: str) -> dict[Path, int]:
    """Map every key path of a valid TOML text to its line; array elements are counted from 0.

    A row is found under `("transitions", "rows", 3)`, both for `rows = [...]` and for `[[transitions.rows]]`.
    """
    return _Scanner(text).scan()
