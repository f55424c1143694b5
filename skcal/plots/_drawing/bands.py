"""Bands from the top of an axes down, each with text on its left and room for a point."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from skcal._validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Share of the axes' width that the texts may take, and where the points begin.
_TEXT, _POINTS = 0.52, 0.56
_FONT, _LEAST_FONT = 9.0, 3.0
# In heights of the font: what is around the texts of a band, and between both.
_MARGIN, _GAP = 0.9, 0.3
# Lines do not end before or after these.
_JOINED = ("=", "≠", "<", "≤", "≥")


def scale_right_of_texts(ax: Axes, low: float, high: float) -> None:
    """Let the x axis show [low, high] right of the texts, in percent."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    ax.set_xlim(low - (high - low) * _POINTS / (1 - _POINTS), high)
    ticks = np.asarray(MaxNLocator(nbins=5).tick_values(low, high))
    ax.xaxis.set_major_locator(FixedLocator(ticks[(ticks >= low) & (ticks <= high)].tolist()))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:+.3g} %" if x else "0"))
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.spines["bottom"].set_bounds(low, high)
    ax.set_yticks([])


def label_below(ax: Axes, label: str) -> None:
    """Label the x axis from its right end on, where there is room to the left."""
    text = ax.set_xlabel(label, horizontalalignment="right", x=1.0, parse_math=False)
    _break(text, label, float(text.get_fontsize()), _box(ax).width)


def draw_bands(
    ax: Axes, bands: list[tuple[str, str]], *, may_grow: bool
) -> tuple[list[Text], FloatArray]:
    """Write a heading and details into each band; return the texts and the bands' centres.

    The y axis counts points, 72 to the inch. Texts are broken to fit their column. Where the
    figure may grow it gets the height they need, otherwise letters become as small as they
    must.
    """
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "top"}
    # A dollar in a column's name is no formula.
    texts = [
        ax.text(0.008, 0.0, "", parse_math=False, color=color, weight=weight, **place)
        for _ in bands
        for color, weight in (("0.0", "bold"), ("0.3", "normal"))
    ]
    wholes = [part for band in bands for part in band]
    box = _box(ax)
    figure: Any = ax.figure.figure  # of a subfigure, the figure around it
    inch = figure.dpi / 72
    font = _FONT
    while True:
        tall = np.reshape(
            [
                _break(text, whole, font, box.width * _TEXT) / inch
                for text, whole in zip(texts, wholes, strict=True)
            ],
            (-1, 2),
        )
        heights = tall.sum(axis=1) + (_MARGIN + _GAP) * font
        lacking = heights.sum() - box.height / inch
        if may_grow or lacking <= 0 or font <= _LEAST_FONT:
            break
        font = max(_LEAST_FONT, font - 0.5)
    if may_grow:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + lacking / 72)
    bottoms = heights.cumsum()
    tops = bottoms - heights
    ax.set_ylim(float(bottoms[-1]), 0.0)
    begins = tops + _MARGIN * font / 2
    for number, (heading, details) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        heading.set_y(float(begins[number]))
        details.set_y(float(begins[number] + tall[number, 0] + _GAP * font))
        if number % 2 == 0:
            ax.axhspan(tops[number], bottoms[number], color="0.95", linewidth=0, zorder=0)
    return texts, (tops + bottoms) / 2


def _box(ax: Axes) -> Any:
    """Return the place of an axes in pixels, as the figure's layout decides it."""
    figure: Any = ax.figure.figure
    figure.draw_without_rendering()
    return ax.get_window_extent()


def _break(text: Text, whole: str, font: float, width: float) -> float:
    """Break a text so that it is not wider than so many pixels; return its height in pixels."""
    blank = "\N{NO-BREAK SPACE}"
    for sign in _JOINED:
        whole = whole.replace(f" {sign} ", blank + sign + blank)
    whole = whole.replace(" %", blank + "%")
    text.set(text=whole, fontsize=font)
    found = text.get_window_extent()
    letters = len(whole)
    while found.width > width and letters > 1:
        letters = max(1, min(letters - 1, int(letters * width / found.width)))
        text.set_text("\n".join(fill(line, letters) for line in whole.split("\n")))
        found = text.get_window_extent()
    return float(found.height)
