"""Cancelling a runner stops its work before the cancellation goes on (rules E22, E33; surface 9).

The clean-up runs in a task of the engine, so that neither a second cancellation nor a library that cancels tasks
natively can cut it short: a second cancel joins the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from goalfsm._errors import GoalfsmError

if TYPE_CHECKING:
    from goalfsm._engine import Engine

__all__ = ["cancel_on_cancel"]

T = TypeVar("T")


async def cancel_on_cancel(
    engine: Engine, wait: Callable[[], Awaitable[T]], clean_up: Callable[[], Awaitable[Any]]
) -> T:
    """Await `wait()`; if this task is cancelled meanwhile, finish `clean_up()` and let the cancellation go on."""
    try:
        return await wait()
    except anyio.get_cancelled_exc_class():
        if not engine.closed:
            await _finish(engine, clean_up)
        raise


async def _finish(engine: Engine, clean_up: Callable[[], Awaitable[Any]]) -> None:
    done = anyio.Event()

    async def task() -> None:
        try:
            await clean_up()
        except GoalfsmError as error:
            engine.odd("", "clean_up_failed", str(error))
        finally:
            done.set()

    engine.spawn(task)
    while not done.is_set():
        try:
            with anyio.CancelScope(shield=True):
                await done.wait()
        except anyio.get_cancelled_exc_class():
            continue
