"""What a search hears of training below it, however deep, and how it ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

OnEpoch: TypeAlias = Callable[[int, float], None]

# Of this thread alone: what trains in threads and processes of its own is not heard.
_LISTENER: ContextVar[OnEpoch | None] = ContextVar("skcal_on_epoch", default=None)


class GivenUp(BaseException):
    """Ends a fit that is not worth going on with.

    No error of the fit: what handles errors below, such as a search inside of the search, shall
    let it through.
    """


@contextmanager
def heard_by(on_epoch: OnEpoch) -> Iterator[None]:
    """Tell ``on_epoch`` of each epoch below: its number, from 1, and its validation loss.

    What it raises ends the training.
    """
    token = _LISTENER.set(on_epoch)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def is_heard() -> bool:
    """Return whether someone listens."""
    return _LISTENER.get() is not None


def report_epoch(epoch: int, loss: float) -> None:
    """Tell who listens, if anyone does."""
    on_epoch = _LISTENER.get()
    if on_epoch is not None:
        on_epoch(epoch, loss)
