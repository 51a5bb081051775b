"""Run the directed sequences of `test_core_golden` as plain functions, to see whether they notice a changed machine."""

from __future__ import annotations

import itertools

import test_core_golden as sequences


def _cases():
    for name, function in vars(sequences).items():
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
        names = [
            [word.strip() for word in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
            for mark in marks
        ]
        values = [
            [value if len(words) > 1 else (value,) for value in mark.args[1]]
            for words, mark in zip(names, marks, strict=True)
        ]
        for chosen in itertools.product(*values):
            arguments = {
                word: value
                for words, given in zip(names, chosen, strict=True)
                for word, value in zip(words, given, strict=True)
            }
            yield name, function, arguments


def first_failure() -> str:
    """Give the name of the first sequence that fails on the machines that run now, or an empty string."""
    for name, function, arguments in _cases():
        try:
            function(**arguments)
        except Exception:  # noqa: BLE001  whatever fails, it noticed
            return name
        except BaseException as odd:  # pytest's own failures are no Exceptions
            if type(odd).__module__.startswith("_pytest"):
                return name
            raise
    return ""
