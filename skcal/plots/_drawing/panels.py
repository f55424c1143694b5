"""A panel below a diagram, of counts or others, shared by all displays on the same axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcal._validation import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch

# Under this name an axes remembers its panel and what the diagram is about. Shared axes would
# not do to find the panel again: in subplots(sharex=True) all of them share.
_MEMORY = "_skcal_count_panel"
_HEIGHTS = (4, 1)
_GAP = 0.06
# Where the fullest bin holds this many times as many rows as the emptiest, counts go by
# logarithm: the few rows would not be seen.
_WIDE = 100


def count_panel(ax: Axes, xlabel: str) -> Axes:
    """Return the panel of counts of an axes, cut off its lower end on the first call.

    Raises
    ------
    ValueError
        If the axes already shows a diagram with another x label.
    """
    from matplotlib.ticker import MaxNLocator

    known: tuple[Axes, str] | None = getattr(ax, _MEMORY, None)
    if known is None or known[0] not in ax.figure.axes:
        panel = cut_panel(ax)
    elif not ax.has_data():  # cleared by the user: start afresh
        panel = known[0]
        panel.clear()
    elif known[1] == xlabel:
        return known[0]
    else:
        raise ValueError(
            f"These axes show a diagram of {known[1]!r}; one of {xlabel!r} would be misread "
            "there. Draw it on axes of its own."
        )
    panel.set(xlabel=xlabel, ylabel="Count")
    panel.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    ax.tick_params(labelbottom=False)
    setattr(ax, _MEMORY, (panel, xlabel))
    return panel


def cut_panel(ax: Axes) -> Axes:
    """Shrink an axes and return a new one in the place that became free below it."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    place = ax.get_subplotspec()
    if place is not None:
        # The constrained layout takes the gap in heights of the figure, others in those of axes.
        is_constrained = isinstance(ax.figure.get_layout_engine(), ConstrainedLayoutEngine)
        share = len(place.rowspan) / place.get_gridspec().nrows if is_constrained else 1.0
        # A grid inside the cell, unlike a divider, is understood by every layout engine.
        grid = place.subgridspec(2, 1, height_ratios=_HEIGHTS, hspace=_GAP * share)
        ax.set_subplotspec(grid[0])
        return ax.figure.add_subplot(grid[1], sharex=ax)
    left, bottom, width, height = ax.get_position(original=True).bounds
    unit = height / (sum(_HEIGHTS) * (1 + _GAP / 2))
    above = height - _HEIGHTS[0] * unit
    ax.set_position((left, bottom + above, width, height - above))
    return ax.figure.add_axes((left, bottom, width, _HEIGHTS[1] * unit), sharex=ax)


def draw_counts(panel: Axes, count: IntArray, edges: FloatArray, line: Line2D) -> StepPatch:
    """Draw the outline of the counts in the looks of a line, and fill it if it is the first."""
    color, first = line.get_color(), not panel.patches
    # Only the first is filled and parted, or several would hide each other.
    bars = panel.stairs(
        count,
        edges,
        baseline=0,
        fill=True,
        facecolor=(color, 0.15) if first else "none",
        edgecolor=color,
        linestyle=line.get_linestyle(),
        linewidth=1.2,
    )
    if first:
        between = np.minimum(count[1:], count[:-1])
        panel.vlines(edges[1:-1], 0, between, colors=[color], linewidth=0.5)
    held = count[count > 0]
    if held.max() > _WIDE * held.min() or panel.get_yscale() != "linear":
        _count_by_logarithm(panel)
    return bars


def _count_by_logarithm(panel: Axes) -> None:
    """Put the counts, of all displays on the panel, on a scale that shows few rows too."""
    panel.set_yscale("symlog", linthresh=1, linscale=0.3)  # knows zero, unlike "log"
    top = float(panel.dataLim.y1)
    decades = 10.0 ** np.arange(np.floor(np.log10(top)) + 1)
    panel.set_yticks(decades[:: -(-len(decades) // 3)])
    panel.set(ylim=(0, 1.5 * top), ylabel="Count (log)")
