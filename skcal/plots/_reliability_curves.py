"""How the two sorts of reliability curves are found and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcal.metrics import ReliabilityCurve, log_loss, reliability_curve
from skcal.metrics._bins import Strategy, binned_error
from skcal.plots._fitted_curve import FittedReliabilityCurve, Seed, fitted_curve
from skcal.plots._inputs import AnyKind, read_event

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D


Method = Literal["binned", "isotonic", "smooth"]


def find_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: AnyKind,
    class_label: Any,
    method: Method,
    n_bins: int,
    strategy: Strategy,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    confidence_level: float,
    n_resamples: int,
    random_state: Seed,
) -> tuple[ReliabilityCurve | FittedReliabilityCurve, float, float]:
    """Return the curve of one event, the log loss of all classes, and the curve's error."""
    if method not in ("binned", "isotonic", "smooth"):
        raise ValueError(f"method must be 'binned', 'isotonic' or 'smooth'; got {method!r}.")
    event = read_event(y_true, y_proba, kind, class_label, sample_weight, labels)
    curve: ReliabilityCurve | FittedReliabilityCurve
    if method == "binned":
        curve = reliability_curve(
            y_true,
            y_proba,
            kind=event.kind,
            class_label=class_label,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=labels,
            confidence_level=confidence_level,
        )
        error = binned_error(curve.weight, curve.mean_predicted, curve.event_rate)
    else:
        curve = fitted_curve(
            event,
            method,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        error = curve.error
    nll = log_loss(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return curve, nll, error


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
