"""How reliability curves are drawn: bins with intervals, or a fit with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcal.metrics import ReliabilityCurve
from skcal.metrics._events import Kind
from skcal.plots._data.fitted_curve import FittedReliabilityCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D


def axis_labels(kind: Kind, class_label: Any) -> tuple[str, str]:
    """Return labels for predicted probability and observed frequency, which name the event."""
    if kind == "top-label":
        return "Confidence in the predicted class", "Accuracy of the predicted class"
    of = f"({'positive class' if kind == 'positive' else 'class'}: {class_label!r})"
    return f"Predicted probability {of}", f"Observed frequency {of}"


def draw_binned(
    ax: Axes, curve: ReliabilityCurve, style: dict[str, Any]
) -> tuple[Line2D, ErrorbarContainer]:
    """Draw the frequency of each bin and its interval."""
    # NaN of the empty bins breaks the line there: nothing was observed between.
    line = ax.plot(curve.mean_predicted, curve.event_rate, **style)[0]
    filled = curve.count > 0
    reach = np.stack([curve.event_rate - curve.lower, curve.upper - curve.event_rate])
    errorbar = ax.errorbar(
        curve.mean_predicted[filled],
        curve.event_rate[filled],
        yerr=reach[:, filled],
        fmt="none",
        ecolor=line.get_color(),
        elinewidth=1.0,
        capsize=2.5,
        zorder=line.get_zorder() - 0.1,
    )
    return line, errorbar


def draw_fitted(
    ax: Axes, curve: FittedReliabilityCurve, style: dict[str, Any], *, first: bool
) -> tuple[Line2D, PolyCollection]:
    """Draw a fitted curve and the band in which that of a calibrated model lies."""
    # Marks at equal distances: there may be thousands of points, or two.
    line = ax.plot(curve.predicted, curve.event_rate, **{"markevery": 0.12, **style})[0]
    color = line.get_color()
    # As with the counts, only the first is filled, and the others are outlines.
    band = ax.fill_between(
        curve.band_at,
        curve.lower,
        curve.upper,
        facecolor=(color, 0.15) if first else "none",
        edgecolor=(color, 0.6),
        linestyle=line.get_linestyle(),
        linewidth=0.7,
        zorder=line.get_zorder() - 0.2,
    )
    return line, band
