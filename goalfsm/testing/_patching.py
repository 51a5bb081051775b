"""Put another function in the place of one, wherever a module has imported it, for as long as a block runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["replaced"]


@contextmanager
def replaced(function: Callable[..., Any], other: Callable[..., Any]) -> Iterator[None]:
    """Let every module that has `function` under its own name see `other`; the block's end undoes it."""
    name = function.__name__
    _swap(name, function, other)
    try:
        yield
    finally:
        _swap(name, other, function)


def _swap(name: str, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if isinstance(names, dict) and names.get(name) is old:
            names[name] = new
