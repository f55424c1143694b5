"""How calibration maps are drawn: curves, or arrows on the simplex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcal._validation import FloatArray
from skcal.plots._data.calibration_map import lattice
from skcal.plots._drawing.style import draw_reference, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D
    from matplotlib.quiver import Quiver

# Marks the curves of maps on an axes, which number those that come after them.
_CURVE = "skcal calibration map"
# Up to so many classes have a curve each; of more, so many are named.
_FEW, _NAMED = 6, 3
# Curves that differ by less than this share of probability are one.
_APART = 0.005
_RANGE = "Lowest to highest class"
_HEIGHT = np.sqrt(3) / 2
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, _HEIGHT]])


class MapArtists(NamedTuple):
    """What was drawn."""

    lines: list[Line2D]
    band: PolyCollection | None
    arrows: Quiver | None


def draw_curves(
    ax: Axes,
    x: FloatArray,
    after: FloatArray,
    class_labels: NDArray[Any],
    name: str,
    line_kwargs: dict[str, Any],
    *,
    interval: FloatArray | None,
    members: FloatArray | None,
    ref_line: bool,
) -> MapArtists:
    """Draw one curve, one for each of a few classes, or the median and range of many."""
    classes = class_labels.tolist()
    whose = f"of class {classes[1]!r}" if len(classes) == 2 else "of a class"
    xlabel = f"Probability {whose} before calibration"
    if ax.has_data() and ax.get_xlabel() != xlabel:
        raise ValueError(
            f"These axes show {ax.get_xlabel() or 'something'!r}; curves over {xlabel!r} would "
            "be misread there. Draw them on axes of their own."
        )
    if ref_line:
        draw_reference(ax, [0, 1], [0, 1], "No calibration")
    lines: list[Line2D] = []

    def draw(y: FloatArray, label: str, **own: Any) -> Line2D:
        number = sum(line.get_gid() == _CURVE for line in ax.lines)
        style = {"label": label, "gid": _CURVE, "markevery": 0.12, **own}
        line = ax.plot(x, y, **line_style(number, line_kwargs, **style))[0]
        lines.append(line)
        return line

    def shade(low: FloatArray, high: FloatArray, line: Line2D, label: str | None) -> Any:
        return ax.fill_between(
            x, low, high, facecolor=(line.get_color(), 0.2), edgecolor="none", label=label
        )

    band = None
    if len(after) <= _FEW:
        for row, curve in enumerate(after):
            label = name if len(after) == 1 else f"{name}: {classes[row]!s}"
            line = draw(curve, label)
            if interval is not None:
                low, high = interval[row].T
                band = shade(low, high, line, _once(ax, "Interval"))
            for member in () if members is None else members[:, row]:
                ax.plot(x, member, color=line.get_color(), alpha=0.4, linewidth=0.7)
    else:
        middle = np.median(after, axis=0)
        line = draw(middle, f"{name}: median of {len(after)} classes")
        band = shade(after.min(axis=0), after.max(axis=0), line, _once(ax, _RANGE))
        distance = np.abs(after - middle).mean(axis=1)
        for row in np.argsort(-distance, kind="stable")[:_NAMED]:
            if distance[row] > _APART:
                draw(after[row], f"{name}: {classes[row]!s}", linewidth=1.0, markersize=4)
    ax.set(
        xlabel=xlabel,
        ylabel=f"Probability {whose} after calibration",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    ax.legend(loc="best", fontsize="small", framealpha=0.9)
    return MapArtists(lines, band, None)


def _once(ax: Axes, label: str) -> str | None:
    """Return a label that is not yet in the legend; the same shade means the same."""
    return None if label in ax.get_legend_handles_labels()[1] else label


def draw_simplex(
    ax: Axes,
    before: FloatArray,
    after: FloatArray,
    classes: NDArray[Any],
    name: str | None,
    arrow_kwargs: dict[str, Any],
) -> MapArtists:
    """Draw arrows from where predictions were to where they go, over the distance."""
    from matplotlib.ticker import MaxNLocator

    moved = np.abs(after - before).sum(axis=1) / 2
    start, end = before @ _CORNERS, after @ _CORNERS
    # A map that moves nothing has one white field, not rounding blown up.
    levels = MaxNLocator(nbins=7).tick_values(0.0, max(float(moved.max()), 0.01))
    colors = ax.tricontourf(start[:, 0], start[:, 1], moved, levels=levels, cmap="Blues")
    # Half of the colours' range keeps the arrows visible on the darkest.
    colors.set_clim(0, 1.8 * levels[-1])
    bar = ax.figure.colorbar(colors, ax=ax, shrink=0.75)
    bar.set_label("Probability moved between classes")
    _, has_arrow = lattice()
    style = {"color": "0.0", "width": 0.005, "headwidth": 4, "headlength": 5, **arrow_kwargs}
    arrows = ax.quiver(
        *start[has_arrow].T,
        *(end - start)[has_arrow].T,
        angles="xy",
        scale_units="xy",
        scale=1,
        zorder=3,
        **style,
    )
    ax.plot(*_CORNERS[[0, 1, 2, 0]].T, color="0.0", linewidth=1.0)
    # From here each class is the most probable one of those beside it.
    for middle in (_CORNERS + np.roll(_CORNERS, 1, axis=0)) / 2:
        ax.plot(*np.array([_CORNERS.mean(axis=0), middle]).T, color="0.4", ls=":", lw=1.0)
    for corner, label, side in zip(_CORNERS, classes, ("top", "top", "bottom"), strict=True):
        gap = -0.03 if side == "top" else 0.03
        ax.text(corner[0], corner[1] + gap, str(label), ha="center", va=side)
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.1, _HEIGHT + 0.1), aspect="equal")
    ax.set_axis_off()
    if name is not None:
        ax.set_title(name)
    return MapArtists([], None, arrows)
