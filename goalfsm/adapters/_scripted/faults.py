"""What goes wrong on a scripted app-server, as plain data: faults by place and number, and a script with its faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import attrs
import msgspec

from goalfsm.adapters._scripted.script import Script

__all__ = ["Fault", "Scenario"]

RequestAction = Literal[
    "drop",
    "mute",
    "hold",
    "delay",
    "refuse",
    "lie",
    "after",
    "twice",
    "garble",
    "stale",
    "exit_before",
    "exit_after",
    "exit_answered",
    "deaf",
]
EchoAction = Literal["drop", "lose", "duplicate", "repeat", "delay", "hole", "unprojected"]
NotificationAction = Literal["drop", "repeat", "delay", "swap", "garble", "word", "exit"]
SpawnAction = Literal["exit", "ignore_eof", "ignore_term"]
_ACTIONS: Mapping[str, Any] = {
    "request": RequestAction,
    "echo": EchoAction,
    "notification": NotificationAction,
    "spawn": SpawnAction,
}


@attrs.frozen
class Fault:
    """One thing that goes wrong, once.

    On a **request** (the n-th of `method`, after its arrival was logged): `drop` forgets it; `mute` processes it and
    never answers; `hold` processes it only after `seconds`, `gate` or `after`; `delay` processes it now and answers
    after them; `refuse` answers `code` and `message` without processing it, `lie` after processing it; `after`
    answers right after the next notification of method `after`; `twice` answers twice; `garble` answers with a broken
    line; `stale` answers a read without the last message shown; `exit_before`, `exit_after` and `exit_answered` end
    the process before it is processed, before it is answered, and after; `deaf` reads no further line after it.

    On an **echo** (the n-th message that the model is shown, or the n-th of `client_id`): `drop` does not tell it;
    `lose` shows it to nobody; `duplicate` shows it twice, under two item ids; `repeat` tells the same item twice;
    `delay` holds it in memory; `hole` shows it to the model and writes only the record line without an id, the rest
    after `gate` (facts 6); `unprojected` makes it unreadable until a resume repairs that, if the process dies.

    On a **notification** (the n-th of `method`): `drop`, `repeat`, `delay` (others overtake it), `swap` (the next one
    overtakes it), `garble` (a broken line instead), `word` (the goal's status word becomes `message`), `exit` (the
    process ends right after it).

    On a **spawn** (the n-th connection): `exit` ends the process before its first answer, `ignore_eof` and
    `ignore_term` make it survive a closed stdin or a SIGTERM.

    Args:
        on: what it happens to.
        action: what happens.
        method: the method word; for a spawn unused.
        n: which one, from 1; 0 for every one.
        client_id: count only requests or echoes with this client id.
        seconds: time that it takes.
        gate: a gate that it waits for.
        after: a notification's method that it waits for.
        code: code of a refusal, or of an exit.
        message: words of a refusal, or a status word.
    """

    on: Literal["request", "echo", "notification", "spawn"]
    action: str
    method: str = ""
    n: int = 1
    client_id: str = ""
    seconds: float = 0.0
    gate: str = ""
    after: str = ""
    code: int = -32600
    message: str = ""

    def __attrs_post_init__(self) -> None:
        known = get_args(_ACTIONS[self.on])
        if self.action not in known:
            raise ValueError(f"fault on {self.on}: unknown action {self.action!r}; known: {', '.join(known)}")

    @classmethod
    def request(cls, method: str, action: RequestAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th request of `method`."""
        return cls("request", action, method, n, **details)

    @classmethod
    def echo(cls, action: EchoAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th message that the model is shown."""
        return cls("echo", action, "", n, **details)

    @classmethod
    def notification(cls, method: str, action: NotificationAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th notification of `method`."""
        return cls("notification", action, method, n, **details)

    @classmethod
    def spawn(cls, action: SpawnAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th process."""
        return cls("spawn", action, "", n, **details)


@attrs.frozen
class Scenario:
    """A script with its faults, as it travels to another process."""

    script: Script = attrs.field(factory=Script)
    faults: tuple[Fault, ...] = ()

    def encode(self) -> bytes:
        """Give the JSON text."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Scenario:
        """Read the JSON text.

        Raises:
            msgspec.ValidationError: it does not fit; the message names the path.
        """
        return msgspec.json.decode(data, type=cls)
