"""The description of a driver: how a server in any language is started and asked; a small TOML or JSON file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from goalfsm.testing.conformance._door import CannotJudge, check_offers
from goalfsm.testing.conformance._target import Bounds

__all__ = ["Call", "Description", "NotADescription", "read_description"]


class NotADescription(CannotJudge):
    """A driver description is wrong; the message names the key."""


@attrs.frozen
class Call:
    """One HTTP request for one command.

    Args:
        path: path and query; `{id}`, `{text}`, `{when}` and `{objective}` are filled in.
        method: the HTTP method.
        body: the JSON body; the same words are filled in wherever they stand in a string.
        messages: in the answer to `fates`, where the messages are, as a dotted path; empty for the whole answer. It is
            a list of objects, or an object from id to object or word.
        id: the key of a message's id in a list.
        state: the key of its state, as a dotted path.
    """

    path: str
    method: str = "POST"
    body: Any = None
    messages: str = ""
    id: str = "id"
    state: str = "state"


@attrs.frozen
class Description:
    """How to ask one server.

    Args:
        transport: `jsonl`: a JSON object a line on its stdin and stdout; `http`: requests to a port on loopback.
        offers: what it can be asked; for `jsonl` its own first line may say so instead.
        fates: its own words for a fate, and what they mean.
        env: further environment variables; `{app_server}`, `{home}` and `{port}` are filled in.
        ready: for `http`, the path of a GET that answers 2xx once it is ready.
        commands: for `http`, one request per command.
        start_seconds: how long it may take to start.
        command_seconds: how long it may take to answer a command.
        answer_seconds: after which it has given up on an answer of the provider.
        settle_seconds: within which every message has a fate, once nothing else happens.
    """

    transport: Literal["jsonl", "http"] = "jsonl"
    offers: tuple[str, ...] = ()
    fates: Mapping[str, str] = attrs.field(factory=dict)
    env: Mapping[str, str] = attrs.field(factory=dict)
    ready: str = "/"
    commands: Mapping[str, Call] = attrs.field(factory=dict)
    start_seconds: float = 30.0
    command_seconds: float = 20.0
    answer_seconds: float = 13.0
    settle_seconds: float = 12.0

    @property
    def bounds(self) -> Bounds:
        """Give the kit's bounds for this server."""
        return Bounds(
            start=self.start_seconds,
            command=self.command_seconds,
            answer=self.answer_seconds,
            settle=self.settle_seconds,
            real=self.start_seconds + 2 * self.command_seconds + self.answer_seconds + 2 * self.settle_seconds,
        )


def read_description(path: Path | None) -> Description:
    """Read a description; without a path, the default: JSON lines, and the server says what it offers.

    Raises:
        NotADescription: the file is wrong; the message names the key.
        OSError: it cannot be read.
    """
    if path is None:
        return Description()
    text = path.read_text(encoding="utf-8")
    try:
        value = msgspec.json.decode(text) if path.suffix == ".json" else tomllib.loads(text)
        described = msgspec.convert(value, Description, strict=True)
    except (msgspec.DecodeError, msgspec.ValidationError, tomllib.TOMLDecodeError) as problem:
        raise NotADescription(f"{path}: {problem}") from problem
    unknown = sorted(set(value) - {field.name for field in attrs.fields(Description)})
    if unknown:
        raise NotADescription(f"{path}: unknown key {unknown[0]!r}")
    if described.transport == "http" and not described.commands:
        raise NotADescription(f"{path}: transport 'http' needs [commands]")
    offers = described.offers or tuple(sorted({*described.commands}))
    if offers:
        check_offers(offers)
    return attrs.evolve(described, offers=offers)
