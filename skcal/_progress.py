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


class _Interrupted(BaseException):
    """Ctrl-C while someone was told of an epoch.

    A network takes the KeyboardInterrupt of a callback for its wish to stop training.
    """


@contextmanager
def heard_by(on_epoch: OnEpoch) -> Iterator[None]:
    """Tell ``on_epoch`` of each epoch below: its number, from 1, and its validation loss.

    What it raises ends the training. Ctrl-C does more than that: it comes out of here.
    """
    token = _LISTENER.set(on_epoch)
    try:
        yield
    except _Interrupted as error:
        raise KeyboardInterrupt from error
    finally:
        _LISTENER.reset(token)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end all that is below, and not the training of one network."""
    with heard_by(_LISTENER.get() or ignore):
        yield


def ignore(epoch: int, loss: float) -> None:
    """Let an epoch pass."""


def is_heard() -> bool:
    """Return whether someone listens."""
    return _LISTENER.get() is not None


def report_epoch(epoch: int, loss: float) -> None:
    """Tell who listens, if anyone does."""
    on_epoch = _LISTENER.get()
    if on_epoch is not None:
        try:
            on_epoch(epoch, loss)
        except KeyboardInterrupt as error:
            raise _Interrupted from error
