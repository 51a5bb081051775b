"""The `[picture]` table of a spec file: how its overview is drawn, checked so that it cannot drift from the rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from goalfsm._draft import Draft, show
from goalfsm._errors import did_you_mean
from goalfsm._ir import Hint, Picture, Spec

__all__ = ["picture_problems", "read_picture"]


def read_picture(draft: Draft, values: dict[str, Any]) -> Picture | None:
    """Read the picture of a spec, None where the file has none; mistakes of shape go to the draft."""
    body = draft.take("spec", values, "picture", dict)
    if body is None:
        return None
    draft.keys("picture", body, ("path", "together", "notes", "arrows"), "picture")
    groups = draft.take("picture", body, "together", list, "picture") or []
    boxes = (draft.names("picture: together", {"together": box}, "together", "picture", "together") for box in groups)
    hints = []
    for index, arrow in enumerate(draft.take("picture", body, "arrows", list, "picture") or []):
        what, at = f"picture: arrow {index + 1}", ("picture", "arrows", index)
        if not isinstance(arrow, dict):
            draft.report("GF102", f"{what} must be a table, not {show(arrow)}", *at)
            continue
        draft.keys(what, arrow, ("from", "to", "say"), *at)
        sources = draft.names(what, arrow, "from", *at)
        to = draft.take(what, arrow, "to", str, *at)
        say = draft.take(what, arrow, "say", str, *at) or ""
        if sources and to:
            hints.append(Hint(sources, to, say))
        elif "from" not in arrow or "to" not in arrow:
            draft.report("GF102", f"{what}: it goes 'from' a list of states 'to' a state", *at)
    notes = {
        state: draft.take("picture: notes", {state: note}, state, str, "picture", "notes") or ""
        for state, note in (draft.take("picture", body, "notes", dict, "picture") or {}).items()
    }
    path = draft.names("picture", body, "path", "picture") or ()
    return Picture(path, tuple(box for box in boxes if box), notes, tuple(hints))


def picture_problems(draft: Draft, spec: Spec, picture: Picture) -> None:
    """Check that the overview picture shows nothing that the rows do not have."""

    def known(names: Iterable[str], *where: str | int) -> None:
        for name in names:
            if name not in spec.states:
                text = f"picture: unknown state {name!r}{did_you_mean(name, spec.states)}"
                draft.report("GF105", text, "picture", *where)

    def drawn(source: str, target: str, what: str, *where: str | int) -> None:
        if {source, target} <= set(spec.states) and not any(
            source in row.sources and row.to == target for row in spec.rows
        ):
            draft.report("GF124", f"picture: {what}: no row goes from {source!r} to {target!r}", "picture", *where)

    known(picture.path, "path")
    for source, target in pairwise(picture.path):
        drawn(source, target, "path", "path")
    for index, box in enumerate(picture.together):
        known(box, "together", index)
    known(picture.notes, "notes")
    for index, hint in enumerate(picture.arrows):
        known((*hint.sources, hint.to), "arrows", index)
        for source in hint.sources:
            drawn(source, hint.to, f"arrow {index + 1}", "arrows", index)
