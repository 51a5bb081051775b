"""Recorded traffic of a real app-server, made longer: the notifications of one goal run, from its set to its end.

`traffic.jsonl` holds what the server sent in a run of four turns. A longer run repeats the turns before the last one,
each with a turn id and item ids of its own, which is what a longer goal is on the wire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).with_name("traffic.jsonl")


class Traffic:
    """Wire lines.

    Attributes:
        answers: results by method, as recorded.
        lines: the notifications after the goal was set, in order, one JSON text each.
        thread: the thread's id.
    """

    def __init__(self, turns: int, recording: Path = RECORDING) -> None:
        messages = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()]
        self.answers: dict[str, Any] = {m["answers"]: m["result"] for m in messages if "answers" in m}
        self.thread: str = self.answers["thread/start"]["thread"]["id"]
        self.lines = _longer([m for m in messages if "answers" not in m], turns)


def _longer(messages: list[dict[str, Any]], turns: int) -> list[str]:
    ends = [at for at, message in enumerate(messages) if message["method"] == "turn/completed"]
    first, last = ends[0] + 1, ends[-2] + 1
    head, middle, tail = messages[:first], messages[first:last], messages[last:]
    texts = [json.dumps(message, separators=(",", ":")) for message in middle]
    ids = {message["params"]["turn"]["id"] for message in middle if message["method"] == "turn/started"}
    items = {message["params"]["item"]["id"] for message in middle if message["method"] == "item/started"}
    lines = [json.dumps(message, separators=(",", ":")) for message in head]
    for lap in range(max(1, round(turns / len(ids)))):
        for text in texts:
            for old in ids:
                # Same length: the last part of an id counts the lap.
                text = text.replace(old, f"{old[:-6]}{lap:06d}")  # noqa: PLW2901  a text is renamed id by id
            for old in items:
                text = text.replace(f'"{old}"', f'"{old}-{lap}"')  # noqa: PLW2901  as above
            lines.append(text)
    return lines + [json.dumps(message, separators=(",", ":")) for message in tail]
