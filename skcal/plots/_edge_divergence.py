"""How far the confidences of neighbours are apart, against how far they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from skcal.plots._drawing.axes import empty_axes
from skcal.plots._drawing.style import STYLES, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure, SubFigure

# More points than that only make the picture heavy.
_MOST_POINTS = 20_000


class EdgeDivergenceDisplay:
    r"""Difference of the confidences at both ends of each edge, against its limit.

    Predictions p and q differ in no class, and so in no confidence, by more than
    :math:`\sqrt{2 JSD(p, q)}`: no point lies above the line. Points far below it are edges over
    which predictions differ in other classes than the most probable one.

    Parameters
    ----------
    divergence : array-like of shape (n_edges,)
        Jensen-Shannon divergence of the predictions at both ends, in nats.
    difference : array-like of shape (n_edges,)
        Absolute difference of their largest probabilities.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the points.
    figure_ : matplotlib Figure
        Figure that holds them.
    points_ : matplotlib PathCollection
        The edges; of more than 20,000 every n-th, in the order of their limits.

    See Also
    --------
    skcal.diagnostics.NeSCalDiagnostics : Computes them of a fitted network.

    Examples
    --------
    >>> from skcal.plots import EdgeDivergenceDisplay
    >>> display = EdgeDivergenceDisplay([0.001, 0.02], [0.03, 0.1]).plot()
    >>> display.ax_.get_ylabel()
    'Difference of confidences'
    """

    def __init__(self, divergence: ArrayLike, difference: ArrayLike) -> None:
        self.divergence = np.asarray(divergence, dtype=float)
        self.difference = np.asarray(difference, dtype=float)
        if self.divergence.ndim != 1 or self.divergence.shape != self.difference.shape:
            raise ValueError(
                "divergence and difference must be arrays of one number for each edge; got shapes "
                f"{self.divergence.shape} and {self.difference.shape}."
            )

    def plot(self, ax: Axes | None = None) -> EdgeDivergenceDisplay:
        """Draw the edges and the line that none can pass.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; empty. By default a new figure.

        Returns
        -------
        EdgeDivergenceDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is something on `ax` already.
        """
        ax = empty_axes(ax, 5.5, 4.5, "which the points would hide")
        limit = np.sqrt(2 * np.maximum(self.divergence, 0))
        order = np.argsort(limit, kind="stable")
        order = order[:: -(-len(order) // _MOST_POINTS) or 1]
        self.points_: PathCollection = ax.scatter(
            limit[order],
            self.difference[order],
            s=6,
            alpha=0.25,
            linewidths=0,
            color=STYLES[0]["color"],
            label="Edges",
        )
        top = float(limit.max(initial=0)) or 1.0
        draw_reference(ax, [0, top], [0, top], "Limit")
        ax.set_xlabel(r"$\sqrt{2\,\mathrm{JSD}}$ of the predictions")
        ax.set_ylabel("Difference of confidences")
        ax.set_xlim(0, 1.03 * top)
        ax.set_ylim(0, 1.03 * top)
        for handle in ax.legend(loc="upper left").legend_handles:
            if handle is not None:
                handle.set_alpha(1)
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self
