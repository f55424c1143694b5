"""Metrics by name or as functions, for whatever evaluates a metric many times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcal._options import find_name
from skcal._validation import FloatArray, IntArray
from skcal.metrics._errors.binned import expected_calibration_error
from skcal.metrics._scores.proper import brier_score_loss, log_loss, ranked_probability_score
from skcal.metrics._scores.rows import RowScore, brier_scores, hits, log_losses, ranked_scores

Metric = str | Callable[..., float]

PROPER_NAMES = ("log_loss", "brier", "rps")
METRIC_NAMES = (*PROPER_NAMES, "accuracy", "ece")

# Functions and scorers have names, too.
_SAME = {
    "brier_score_loss": "brier",
    "ranked_probability_score": "rps",
    "expected_calibration_error": "ece",
    "neg_log_loss": "log_loss",
    "neg_brier_score": "brier",
    "neg_rps": "rps",
    "neg_ece": "ece",
}

_ROWS: dict[Any, RowScore] = {
    "log_loss": log_losses,
    "brier": brier_scores,
    "rps": ranked_scores,
    "accuracy": hits,
    log_loss: log_losses,
    brier_score_loss: brier_scores,
    ranked_probability_score: ranked_scores,
}


@dataclass(frozen=True)
class NamedMetric:
    """A metric that can be evaluated on checked arrays."""

    name: str
    rows: RowScore | None
    """The scores of single rows, where the metric is their weighted mean."""
    function: Callable[..., float] | None
    """The metric itself, where it is not."""

    def __call__(
        self, codes: IntArray, proba: FloatArray, weights: FloatArray, classes: NDArray[Any]
    ) -> float:
        """Return the metric's value."""
        if self.rows is not None:
            return float(np.average(self.rows(codes, proba), weights=weights))
        assert self.function is not None
        return float(self.function(classes[codes], proba, sample_weight=weights, labels=classes))


def find_metric(
    metric: Metric, names: Collection[str] = METRIC_NAMES, *, argument: str = "metric"
) -> NamedMetric:
    """Return a metric given by a name or as a function."""
    if callable(metric):
        # A partial or another object may be unhashable; then it is none of those known here.
        known = hasattr(metric, "__name__") and metric in _ROWS
        name = str(getattr(metric, "__name__", metric))
        return NamedMetric(name, _ROWS[metric], None) if known else NamedMetric(name, None, metric)
    metric = _SAME.get(metric, metric) if isinstance(metric, str) else metric
    name = find_name(metric, names, argument, "a function")
    if name == "ece":
        return NamedMetric(name, None, expected_calibration_error)
    return NamedMetric(name, _ROWS[name], None)
