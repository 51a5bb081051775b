"""What the spec commands read: a machine by name or file, guards by module, events by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import click
import msgspec

from goalfsm import events
from goalfsm._builtin import builtin_names, builtin_spec, spec_path
from goalfsm._check import guard_table
from goalfsm._errors import UnknownName, did_you_mean
from goalfsm._ir import ZERO, Guard, Spec
from goalfsm._spec import load_spec
from goalfsm.cli import Failure

__all__ = ["Happening", "find_spec", "happenings", "load_function", "load_guards", "open_spec"]

_PYTHON = {"str": str, "int": int, "bool": bool}


def find_spec(word: str) -> Path:
    """Give the file that a person means: a built-in machine's name, or a path.

    Raises:
        click.BadParameter: neither; the message says which name is close.
    """
    if word in builtin_names():
        path = spec_path(word)
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    if "\0" in word or not Path(word).exists():
        known = ", ".join(builtin_names())
        raise click.BadParameter(
            f"{word!r} is neither a file nor a built-in machine ({known}){did_you_mean(word, builtin_names())}"
        )
    return Path(word)


def load_guards(word: str | None) -> dict[str, Guard] | None:
    """Import guards: `package.module` (its `GUARDS`, or else its public functions) or `package.module:MAPPING`.

    Raises:
        click.BadParameter: the module cannot be imported, or holds no such thing.
    """
    if word is None:
        return None
    module_name, _, attribute = word.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a person's own module lies where they stand, as with `python -m`
    try:
        found: Any = import_module(module_name)
        if attribute:
            found = getattr(found, attribute)
    except Exception as error:  # a person's module may raise anything while it is imported
        message = f"{word!r} cannot be imported: {type(error).__name__}: {error}"
        raise click.BadParameter(message, param_hint="--guards") from error
    if attribute and not isinstance(found, Mapping):
        raise click.BadParameter(f"{word!r} is no mapping of names to guards", param_hint="--guards")
    return guard_table(found)


def load_function(word: str | None, hint: str) -> Any:
    """Import a function: `package.module:function`; None stays None.

    Raises:
        click.BadParameter: the module cannot be imported, or holds no such function.
    """
    if word is None:
        return None
    module_name, _, name = word.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as for guards
    try:
        found = getattr(import_module(module_name), name)
    except Exception as error:  # a person's module may raise anything while it is imported
        message = f"{word!r} cannot be imported: {type(error).__name__}: {error}"
        raise click.BadParameter(message, param_hint=hint) from error
    if not callable(found):
        raise click.BadParameter(f"{word!r} cannot be called", param_hint=hint)
    return found


def open_spec(word: str, guards: Mapping[str, Guard] | None) -> Spec:
    """Load the machine a person means, with their guards, or with ours if it is one of ours."""
    if guards is None and word in builtin_names():
        return builtin_spec(word)
    return load_spec(find_spec(word), guards)


@attrs.frozen
class Happening:
    """One line of an events file: the event, and the answers of the guards it is asked with (None: ask them)."""

    line: int
    event: events.Event
    guards: Mapping[str, bool] | None


def happenings(spec: Spec, file: BinaryIO, where: str, *, typed: bool) -> Iterator[Happening]:
    """Read events, one JSON object per line; blank lines are skipped.

    Args:
        spec: the machine that declares them.
        file: the open file.
        where: what messages call it.
        typed: the machine is built in: fields left out are zero, and fields that only people read are allowed.

    Raises:
        Failure: a line cannot be read (exit 2), or names something that the spec does not have (exit 1).
    """
    for number, raw in enumerate(file, start=1):
        text = raw.removeprefix(b"\xef\xbb\xbf").strip()
        if text:
            yield _happening(spec, text, f"{where}:{number}", number, typed=typed)


def _happening(spec: Spec, text: bytes, where: str, number: int, *, typed: bool) -> Happening:
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failure(f"{where}: not JSON: {error}", 2) from error
    if not isinstance(record, dict):
        raise Failure(f'{where}: an event is an object such as {{"name": "stop"}}', 2)
    name = record.pop("name", None)
    answers = record.pop("guards", None)
    if not isinstance(name, str):
        raise Failure(f'{where}: "name" must be the name of an event', 2)
    if name not in spec.events:
        raise Failure(str(UnknownName("event", name, f"{where}: {spec.machine}", spec.events)))
    if answers is not None:
        _check_answers(spec, answers, where)
    fields = _fields(spec, name, record, where, typed=typed)
    return Happening(number, events.Event(name, **fields), answers)


def _check_answers(spec: Spec, answers: Any, where: str) -> None:
    if not isinstance(answers, dict) or not all(isinstance(answer, bool) for answer in answers.values()):
        raise Failure(f'{where}: "guards" must be an object of true and false by guard', 2)
    for guard in answers:
        if guard not in spec.guard_names:
            raise Failure(str(UnknownName("guard", guard, f"{where}: {spec.machine}", spec.guard_names)))


def _fields(spec: Spec, name: str, given: dict[str, Any], where: str, *, typed: bool) -> dict[str, Any]:
    declared = spec.events[name].fields
    only_read = {field.name for field in attrs.fields(events.named(name))} - set(declared) if typed else set()
    for field, value in given.items():
        if field in only_read:
            continue
        if field not in declared:
            raise Failure(str(UnknownName("field", field, f"{where}: event {name!r}", declared)))
        kind = _PYTHON[declared[field]]
        if type(value) is not kind:
            raise Failure(f"{where}: event {name!r}: field {field!r} must be {declared[field]}, not {value!r}")
    return {**({field: ZERO[kind] for field, kind in declared.items()} if typed else {}), **given}
