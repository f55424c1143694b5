"""Axes of displays: new ones, empty ones, and those that several curves share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_MEMORY = "_skcal_quantity"
_MARK = "skcal-curve"


def new_axes(width: float, height: float) -> Axes:
    """Return the only axes of a new figure whose labels find their room by themselves."""
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def empty_axes(ax: Axes | None, width: float, height: float, why: str) -> Axes:
    """Return the axes given, or new ones, for what must be alone there.

    Raises
    ------
    ValueError
        If they show something already; ``why`` that is in the way.
    """
    if ax is None:
        return new_axes(width, height)
    if ax.has_data():
        raise ValueError(
            f"These axes show something already, {why}. Draw it on axes of its own, or clear "
            "these with ax.clear()."
        )
    return ax


def join_axes(ax: Axes, quantity: str) -> int:
    """Return how many curves an axes shows already.

    Raises
    ------
    ValueError
        If they are of another quantity.
    """
    count = sum(line.get_gid() == _MARK for line in ax.lines)  # none after ax.clear()
    known = getattr(ax, _MEMORY, quantity)
    if count and known != quantity:
        raise ValueError(
            f"These axes show {known!r}; {quantity!r} would be misread there. Draw it on axes of "
            "its own."
        )
    setattr(ax, _MEMORY, quantity)
    return count


def mark_curve(line: Line2D) -> None:
    """Let a line count as a curve."""
    line.set_gid(_MARK)


def draw_legend(ax: Axes) -> None:
    """Draw the legend, curves first and what they are compared with last."""
    handles, _ = ax.get_legend_handles_labels()
    handles.sort(key=lambda handle: handle.get_gid() != _MARK)
    ax.legend(handles=handles, loc="best", fontsize="small", framealpha=0.9)
