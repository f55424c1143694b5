"""Pictures of a run, as PNG files in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcal.experiments._analysis import Change, Ranks, pooled_curve

_BLUE, _ORANGE, _GREY = "#1f77b4", "#d95f02", "#666666"
_N_BINS = 15
# Bins of a smaller share of the rows are left out of a curve: they show noise.
_FEWEST_SHARE = 0.01


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: a report must not disturb a user's figures or backend.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def draw_changes(changes: Mapping[str, Change], reference: str) -> bytes:
    """Draw each table's change of the log-loss, method by method, with the medians."""
    figure = _figure(8, 0.9 + 0.36 * len(changes))
    axes = figure.subplots()
    widest = [np.abs(one.by_table["change"]).quantile(0.9) for one in changes.values()]
    limit = float(np.clip(1.5 * np.nanmax(widest), 1, 30))
    for place, one in enumerate(changes.values()):
        values = one.by_table["change"].to_numpy()
        shown = np.clip(values, -limit, limit)
        outside = np.abs(values) > limit
        height = np.full(len(values), float(place))
        axes.scatter(shown[~outside], height[~outside], s=22, color=_BLUE, alpha=0.6, linewidths=0)
        for sign, marker in ((-1, "<"), (1, ">")):
            at = outside & (np.sign(values) == sign)
            axes.scatter(shown[at], height[at], s=26, color=_BLUE, alpha=0.6, marker=marker)
        axes.plot([one.median] * 2, [place - 0.33, place + 0.33], color=_ORANGE, linewidth=2.5)
    axes.axvline(0, color=_GREY, linewidth=1)
    axes.set_yticks(range(len(changes)), list(changes))
    axes.invert_yaxis()
    axes.set_xlim(-1.06 * limit, 1.06 * limit)
    axes.set_xlabel(f"log-loss against {reference}, % (a point is a table, the bar their median)")
    axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def draw_ranks(found: Ranks) -> bytes:
    """Draw a critical-difference diagram: average ranks, and bars over what is not told apart."""
    k = len(found.methods)
    half = (k + 1) // 2
    bars = _bars(found.average, found.critical_difference)
    figure = _figure(8.5, 1.3 + 0.24 * half + 0.12 * len(bars))
    axes = figure.subplots()
    first = 0.5 + 0.3 * len(bars)
    low, high = 1.0, float(k)
    axes.hlines(0, low, high, color="black", linewidth=1.2)
    for rank in range(1, k + 1):
        axes.vlines(rank, -0.15, 0, color="black", linewidth=1)
        axes.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=8)
    margin = 0.04 * (high - low)
    for place, (name, rank) in enumerate(zip(found.methods, found.average, strict=True)):
        left = place < half
        depth = first + 0.55 * (place if left else k - 1 - place)
        end = low - margin if left else high + margin
        axes.plot([rank, rank, end], [0, depth, depth], color=_GREY, linewidth=0.9)
        axes.text(
            end,
            depth,
            f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
        )
    for number, (start, stop) in enumerate(bars):
        height = 0.3 + 0.3 * number
        axes.hlines(height, start - 0.05, stop + 0.05, color=_BLUE, linewidth=4)
    if np.isfinite(found.critical_difference):
        stop = min(high, low + found.critical_difference)
        axes.hlines(-0.9, low, stop, color=_ORANGE, linewidth=2)
        told = f"critical difference {found.critical_difference:.2f}"
        axes.text((low + stop) / 2, -1.0, told, ha="center", va="bottom", fontsize=8)
    axes.set_ylim(first + 0.55 * half, -1.7)
    axes.set_xlim(low - 0.3 * (high - low), high + 0.3 * (high - low))
    axes.set_axis_off()
    return _png(figure)


def _bars(average: NDArray[np.float64], difference: float) -> list[tuple[float, float]]:
    """Return first and last rank of each longest run of methods that are not told apart."""
    bars: list[tuple[float, float]] = []
    for start in average:
        within = average[(average >= start) & (average - start < difference)]
        if len(within) > 1 and not any(a <= start and within[-1] <= b for a, b in bars):
            bars.append((float(start), float(within[-1])))
    return bars


def draw_costs(points: pd.DataFrame, reference: str) -> bytes:
    """Draw the median change of the log-loss against what a fit costs, both to a reference.

    Parameters
    ----------
    points : DataFrame
        A row for each method, with "cost" and "change".
    """
    figure = _figure(7, 4.6)
    axes = figure.subplots()
    axes.scatter(points["cost"], points["change"], color=_BLUE, s=30)
    for name, point in points.iterrows():
        axes.annotate(
            str(name), (point["cost"], point["change"]), (5, 3), textcoords="offset points", size=8
        )
    axes.axhline(0, color=_GREY, linewidth=0.8)
    axes.set_xscale("log")
    for axis in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        axis("{x:g}")
    axes.set_xlabel(f"CPU time of a fit, times that of {reference} (geometric mean over tables)")
    axes.set_ylabel(f"median change of the log-loss, %, against {reference}")
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def draw_reliability(frame: pd.DataFrame, methods: Sequence[str]) -> bytes:
    """Draw a grid of reliability curves: a small picture for each table, a line for each method."""
    tables = list(dict.fromkeys(frame["data"]))
    columns = min(4, len(tables))
    n_rows = -(-len(tables) // columns)
    figure = _figure(2.5 * columns, 2.5 * n_rows + 0.4)
    grid = figure.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    colors = [_GREY, _BLUE, _ORANGE, "#7570b3"]
    for axes, name in zip(grid, tables, strict=False):
        axes.plot([0, 1], [0, 1], color="black", linewidth=0.6, linestyle=":")
        for method, color in zip(methods, colors, strict=False):
            some = frame[(frame["data"] == name) & (frame["method"] == method)]
            if len(some):
                x, y, share = pooled_curve(some["curve"].tolist(), _N_BINS)
                full = share > _FEWEST_SHARE
                axes.plot(
                    x[full],
                    y[full],
                    color=color,
                    marker="o",
                    markersize=2.5,
                    linewidth=1,
                    label=method,
                )
        axes.set_title(name, fontsize=9)
        axes.set_aspect("equal")
    for axes in grid[len(tables) :]:
        axes.set_axis_off()
    figure.supxlabel("confidence", fontsize=9)
    figure.supylabel("accuracy", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return _png(figure)
