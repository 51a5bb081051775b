"""Where goalfsm logs: the host's structlog if it configured one, else the standard library's logger `goalfsm`.

A library prints nothing by itself. Records carry thread (`thread_id` in standard ones), operation, follow_up, turn and
attempt, never message text.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

__all__ = ["get_logger", "shows_debug"]


def get_logger() -> Any:
    """Give the logger of this moment's configuration."""
    import structlog  # noqa: PLC0415  it loads much; only who opens an engine pays for it

    if structlog.is_configured():
        return structlog.get_logger("goalfsm")
    target = logging.getLogger("goalfsm")
    if not target.handlers:
        target.addHandler(logging.NullHandler())
    logger = structlog.wrap_logger(
        target,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _spare_names, structlog.stdlib.render_to_log_kwargs],
    )
    # Bound now: a proxy would bind anew whenever it is asked anything.
    return logger.bind()


def shows_debug(log: Any) -> bool:
    """Whether the logger would show a debug record now; True where it cannot tell. Most steps have no reader."""
    asked = getattr(log, "isEnabledFor", None) or getattr(log, "is_enabled_for", None)
    return asked is None or bool(asked(logging.DEBUG))


def _spare_names(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # A standard record refuses extra fields under its own names, and `thread` is the operating system's there.
    if "thread" in fields:
        fields["thread_id"] = fields.pop("thread")
    return fields
