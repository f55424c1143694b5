"""The paired difference of two models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from skcal.metrics._intervals.analytic import share_difference_interval
from skcal.metrics._intervals.estimate import (
    Method,
    MetricInterval,
    check_sample,
    estimate_interval,
)
from skcal.metrics._scores.by_name import Metric, find_metric
from skcal.metrics._scores.rows import hits


def metric_difference(
    metric: Metric,
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    confidence_level: float = 0.95,
    method: Method = "auto",
    n_resamples: int = 1000,
    stratify: bool = False,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    random_state: Any = None,
) -> MetricInterval:
    """Return the difference of two models' metrics on the same rows, with its interval.

    The difference is ``metric(a) - metric(b)``: of a loss, a negative one speaks for a. The
    rows are paired, so what both models find hard cancels out: the interval is that of the
    differences, and mostly much shorter than those of the two metrics let one think.

    Parameters
    ----------
    metric : {"log_loss", "brier", "rps", "accuracy", "ece"} or callable
        The metric. A function is called as ``metric(y_true, y_proba, sample_weight=...,
        labels=...)``.
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba_a, y_proba_b : array-like of shape (n_samples, n_classes), (n_samples,) or \
            (n_samples, 1)
        Predicted probabilities of the two models; a single column is the probability of the
        second class.
    confidence_level : float, default=0.95
        Level of the interval, strictly between 0 and 1.
    method : {"auto", "analytic", "bootstrap"}, default="auto"
        How the interval is found; see :func:`metric_interval`. "analytic" is that of Agresti
        and Min [1]_ for the accuracy.
    n_resamples : int, default=1000
        For "bootstrap": how often rows are drawn.
    stratify : bool, default=False
        Whether to take the frequencies of the classes as fixed by design.
    groups : array-like of shape (n_samples,), optional
        Rows of the same group are not independent; whole groups are drawn.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A row is one observation, whatever its weight.
    labels : array-like of shape (n_classes,), optional
        The class of each column, in column order. Needed only where `y_true` does not show
        every class and its labels are not column numbers.
    random_state : int, RandomState or None, default=None
        Decides the resamples. None draws fresh entropy.

    Returns
    -------
    MetricInterval

    Raises
    ------
    ValueError
        If the two models have different numbers of columns, and as for
        :func:`metric_interval`.

    See Also
    --------
    metric_interval : For one model.

    Notes
    -----
    An interval without zero is a two-sided test at one minus its level that the two models
    score alike. It is about these two fitted models, not about two ways of training.

    The bias of a calibration error does not cancel: it is largest for the model that is
    calibrated best. With one calibrated model of the two, intervals at 95 % for the
    difference of two ECEs held the truth in 65 to 78 % of 300 tables. Compare models by a proper
    score, or by :func:`expected_calibration_error` with ``norm="l2"``, ``debias=True`` and
    ``squared=True``: 99 %, longer than need be.

    "analytic" intervals for the difference of two log-losses, Brier scores or accuracies held
    the truth in 94 to 97 % of 2,000 tables, for 300 and 500 rows, two and four classes, and
    classes as 9 : 1; "bootstrap" for accuracies that seldom differ in only 88 %
    (``benchmarks/intervals.py``).

    References
    ----------
    .. [1] A. Agresti and Y. Min, "Simple Improved Confidence Intervals for Comparing Matched
       Proportions", Statistics in Medicine, 2005.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import metric_difference
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    >>> found = metric_difference("log_loss", y, sharp, p)
    >>> print(f"{found.value:.4f} [{found.lower:.4f}, {found.upper:.4f}]")
    0.0297 [0.0173, 0.0436]
    """
    chosen = find_metric(metric)
    data = check_sample(y_true, [y_proba_a, y_proba_b], sample_weight, labels, groups, stratify)
    found = estimate_interval(chosen, data, confidence_level, method, n_resamples, random_state)
    if chosen.rows is hits and found.method == "analytic":
        lower, upper = share_difference_interval(
            data.rows(chosen),
            found.value,
            found.standard_error,
            data.weights,
            data.units,
            confidence_level,
        )
        return replace(found, lower=lower, upper=upper)
    return found
