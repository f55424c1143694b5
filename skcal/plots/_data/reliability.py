"""The reliability curve of one event, and its figures."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from skcal.metrics import ReliabilityCurve, log_loss, reliability_curve
from skcal.metrics._bins import Strategy, binned_error
from skcal.plots._data.fitted_curve import FittedReliabilityCurve, Seed, fitted_curve
from skcal.plots._data.inputs import AnyKind, read_event

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
