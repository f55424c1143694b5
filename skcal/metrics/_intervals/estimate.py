"""What intervals of one model and of two have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from skcal._options import check_level, check_whole, find_name
from skcal._validation import FloatArray, IntArray, check_labels, check_predictions
from skcal.metrics._errors.binned import binned_confidence, expected_calibration_error
from skcal.metrics._intervals.analytic import mean_interval
from skcal.metrics._intervals.bootstrap import (
    Units,
    bootstrap_interval,
    jackknife_counts,
    make_rng,
    resample_counts,
)
from skcal.metrics._scores.by_name import NamedMetric

Method = Literal["auto", "analytic", "bootstrap"]


@dataclass(frozen=True)
class MetricInterval:
    """A metric's value and its interval, in the unit of the metric.

    Attributes
    ----------
    value : float
        The metric on all rows, or the difference of two models'.
    lower, upper : float
        Ends of the interval.
    standard_error : float
        Standard error of `value`.
    confidence_level : float
        Level of the interval.
    method : {"analytic", "bca", "basic"}
        How the interval was found; the last two are bootstraps.
    name : str
        The metric.
    """

    value: float
    lower: float
    upper: float
    standard_error: float
    confidence_level: float
    method: str
    name: str

    def __str__(self) -> str:
        return (
            f"{self.name} {self.value:.4g} ({100 * self.confidence_level:g} % interval "
            f"{self.lower:.4g} to {self.upper:.4g}, {self.method})"
        )


@dataclass(frozen=True, eq=False)
class Sample:
    """Checked rows with a weight above zero, the same for all models."""

    codes: IntArray
    probas: list[FloatArray]
    weights: FloatArray
    classes: NDArray[Any]
    units: Units

    def evaluate(self, metric: NamedMetric, counts: FloatArray) -> float:
        """Return the metric, or the first less the second, with units counted this often."""
        weights = self.weights * counts[self.units.of_row]
        values = [metric(self.codes, proba, weights, self.classes) for proba in self.probas]
        return values[0] - sum(values[1:])

    def rows(self, metric: NamedMetric) -> FloatArray:
        """Return the scores of single rows whose mean is the metric, or the difference."""
        assert metric.rows is not None
        values = [metric.rows(self.codes, proba) for proba in self.probas]
        return values[0] - sum(values[1:])

    def gaps(self, proba: FloatArray) -> FloatArray:
        """Return each unit's part (n_units, n_bins) of the gaps of the default error."""
        predicted, confidence, bins = binned_confidence(proba)
        gap = self.weights * (confidence - (predicted == self.codes))
        return np.column_stack([self.units.total(gap * inside) for inside in bins.T])


def check_sample(
    y_true: ArrayLike,
    y_probas: list[ArrayLike],
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    groups: ArrayLike | None,
    stratify: bool,
) -> Sample:
    """Check what an interval is made from, for one model or two."""
    checked = [check_predictions(y_true, one, sample_weight, labels) for one in y_probas]
    codes, proba, weights, classes = checked[0]
    if checked[-1][1].shape != proba.shape:
        raise ValueError(
            f"The two models need the same columns; y_proba_a has {proba.shape[1]} and "
            f"y_proba_b has {checked[-1][1].shape[1]}."
        )
    keep = weights > 0  # A row of weight zero is a row that is not there.
    codes = codes[keep]
    stratum = np.zeros(len(codes), dtype=np.intp)
    of_row = np.arange(len(codes))
    if groups is not None:
        check_consistent_length(y_true, groups)
        if stratify:
            raise ValueError(
                "stratify=True fixes the classes' frequencies, and groups are drawn as a whole; "
                "give one of the two."
            )
        names, of_row = np.unique(check_labels(groups, name="groups")[keep], return_inverse=True)
        stratum = np.zeros(len(names), dtype=np.intp)
    elif stratify:
        stratum = np.unique(codes, return_inverse=True)[1]
    units = Units(of_row, stratum)
    if units.n < 2:
        raise ValueError(
            f"An interval needs at least two {'rows' if groups is None else 'groups'} with a "
            "weight above zero; there is only one."
        )
    return Sample(codes, [one[1][keep] for one in checked], weights[keep], classes, units)


def estimate_interval(
    metric: NamedMetric,
    data: Sample,
    confidence_level: float,
    method: str,
    n_resamples: int,
    random_state: Any,
) -> MetricInterval:
    """Return the interval of a metric, or of the difference of two models' metrics."""
    find_name(method, ("auto", "analytic", "bootstrap"), "method")
    check_level(confidence_level)
    check_whole(n_resamples, "n_resamples", 2, hint="An interval at 95 % wants 1000.")
    if method == "analytic" and metric.rows is None:
        raise ValueError(
            f"method='analytic' needs a mean over rows, and {metric.name} is not known as one; "
            "use method='bootstrap'."
        )
    if metric.rows is not None and method != "bootstrap":
        value, lower, upper, error = mean_interval(
            data.rows(metric), data.weights, data.units, confidence_level
        )
        return MetricInterval(value, lower, upper, error, confidence_level, "analytic", metric.name)
    value, resample = _resampler(metric, data)
    rng = make_rng(random_state)
    drawn = [resample(counts) for counts in resample_counts(data.units, int(n_resamples), rng)]
    values = np.concatenate(drawn)
    if not np.isfinite([value, *values]).all():
        raise ValueError(
            f"{metric.name} is not finite in {np.count_nonzero(~np.isfinite(values))} of "
            f"{n_resamples} resamples, perhaps for lack of a class. Use a metric that is always "
            "defined, or stratify=True, which keeps the frequencies of the classes."
        )
    lower, upper, kind = bootstrap_interval(
        value, values, lambda: resample(jackknife_counts(data.units)), confidence_level
    )
    error = float(values.std(ddof=1))
    return MetricInterval(value, lower, upper, error, confidence_level, kind, metric.name)


def _resampler(
    metric: NamedMetric, data: Sample
) -> tuple[float, Callable[[FloatArray], FloatArray]]:
    """Return the value, and a function from counts (b, n_units) to values (b,)."""
    weight = data.units.total(data.weights)
    if metric.rows is not None:
        losses = data.units.total(data.weights * data.rows(metric))
        return float(
            losses.sum() / weight.sum()
        ), lambda counts: (counts @ losses) / (counts @ weight)
    whole = data.evaluate(metric, np.ones(data.units.n))
    if metric.function is expected_calibration_error:
        gaps = [data.gaps(proba) for proba in data.probas]

        def errors(counts: FloatArray) -> FloatArray:
            each = [np.abs(counts @ gap).sum(axis=1) for gap in gaps]
            return (each[0] - sum(each[1:])) / (counts @ weight)

        return whole, errors
    return whole, lambda counts: np.array([data.evaluate(metric, row) for row in counts])
