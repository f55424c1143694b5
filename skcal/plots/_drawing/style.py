"""Looks that all displays share: readable in greyscale and by colour-blind people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers tell apart. The first three differ in
# lightness too; marker and dash say the same in greyscale.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    {"color": "#000000", "marker": "^", "linestyle": "-."},
    {"color": "#CC79A7", "marker": "D", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    {"color": "#009E73", "marker": "v", "linestyle": (0, (5, 1))},
    {"color": "#D55E00", "marker": "P", "linestyle": (0, (1, 1))},
)
# For two parts of a whole, which differ in lightness, and from the black lines over them.
DARKER, LIGHTER = "#E69F00", "#A9D3EC"
REFERENCE: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 1.2}


def line_style(number: int, given: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Return the looks of the number-th line on an axes; what the caller gave has its way."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    base = {**STYLES[number % len(STYLES)], "linewidth": 1.5, "markersize": 5, **own}
    return {**base, **normalize_kwargs(given, Line2D)}


def draw_reference(ax: Axes, x: Any, y: Any, label: str) -> None:
    """Draw a line to compare with, once per axes."""
    if label not in ax.get_legend_handles_labels()[1]:
        ax.plot(x, y, label=label, **REFERENCE)


def log_scale(ax: Axes) -> None:
    """Put the y axis on a logarithmic scale with plain numbers, which spans few decades."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
