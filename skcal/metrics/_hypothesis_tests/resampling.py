"""A test by labels drawn from the probabilities themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skcal._options import check_whole
from skcal._validation import FloatArray, IntArray, check_predictions
from skcal.metrics._errors.binned import binned_confidence, expected_calibration_error
from skcal.metrics._hypothesis_tests.result import CalibrationTest
from skcal.metrics._intervals.bootstrap import blocks, make_rng
from skcal.metrics._scores.by_name import Metric, NamedMetric, find_metric

# Metrics of equal labels may differ in the last digits, and count as equal.
_ROUNDING = 1e-12


def resampling_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    metric: Metric = "ece",
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    random_state: Any = None,
) -> CalibrationTest:
    r"""Test calibration by a metric of labels drawn from the probabilities.

    If the probabilities are calibrated, the true labels are one more draw from them. The
    p-value is the rank of their metric among those of the draws [1]_, [2]_,

    .. math:: p = \frac{1 + \#\{b : M(y^{(b)}, p) \ge M(y, p)\}}{1 + B},
        \qquad y^{(b)}_i \sim p_i ,

    which holds for any metric, whatever its bias, and for any number of rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    metric : {"ece", "log_loss", "brier", "rps", "accuracy"} or callable, default="ece"
        What is large for miscalibration. "ece" is :func:`expected_calibration_error` as it
        is by default. A function is called as ``metric(y_true, y_proba, sample_weight=...,
        labels=...)``, as those of this module are; one more argument of them is given with
        :func:`functools.partial`. A log-loss or Brier score is large for over-confidence
        only.
    n_resamples : int, default=1000
        Number B of draws.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A row is one observation whatever its weight; rows that were
        really seen several times have to be repeated.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.
    random_state : int, RandomState or None, default=None
        Decides the draws. None draws fresh entropy.

    Returns
    -------
    CalibrationTest
        The statistic is the metric. `detail` holds its "null_mean" over the draws, which is
        its bias on calibrated rows, and "null_95", the value that 5 % of the draws exceed;
        "n_resamples" and the name of the "metric".

    Raises
    ------
    ValueError
        If the metric is unknown or not finite for some draw, if `n_resamples` is less than 1,
        or if labels and probabilities do not fit together.

    See Also
    --------
    metric_interval : How large the metric is, rather than whether there is any error.

    Notes
    -----
    The level is exact up to ties: on calibrated rows a p-value of at most 5 % has a
    probability of at most 5 %.

    Share of tables on which the test rejects at the 5 % level, by
    ``benchmarks/calibration_tests.py``. The logits of calibrated rows were multiplied by the
    factor; 2,000 tables for the factor 1, 500 for the others, 200 draws each:

    ================  ========  ====  =====
    data              factor 1  1.2   1.5
    ================  ========  ====  =====
    K = 2, 500 rows   5.2 %     24 %  87 %
    K = 2, 2000 rows  6.0 %     78 %  100 %
    K = 4, 500 rows   5.0 %     40 %  98 %
    K = 4, 2000 rows  5.3 %     95 %  100 %
    ================  ========  ====  =====

    Over 12 kinds of calibrated tables, with uneven classes and probabilities near 0 and 1 among
    them, the share was 4.7 to 6.0 %.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability Diagrams",
       Weather and Forecasting, 2007.
    .. [2] J. Vaicenavicius, D. Widmann, C. Andersson, F. Lindsten, J. Roll and T. B. Schön,
       "Evaluating Model Calibration in Classification", AISTATS, 2019.

    Examples
    --------
    The same rows, calibrated and sharpened. The first error is what chance makes of none:

    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import resampling_test
    >>> _, y, p = make_calibration_data(1000, n_classes=3, random_state=0)
    >>> sharp = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    >>> for proba in p, sharp:
    ...     found = resampling_test(y, proba, random_state=0)
    ...     bias = found.detail["null_mean"]
    ...     print(f"{found.statistic:.3f}, by chance {bias:.3f}: p = {found.p_value:.3f}")
    0.040, by chance 0.031: p = 0.131
    0.074, by chance 0.027: p = 0.001
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    check_whole(n_resamples, "n_resamples", hint="A test at the 5 % level wants 1000.")
    chosen = find_metric(metric)
    keep = weights > 0  # A row of weight zero is a row that is not there.
    codes, proba, weights = codes[keep], proba[keep], weights[keep]
    values = _metric_of_labels(chosen, proba, weights, classes)
    observed = float(values(codes[None])[0])
    rng = make_rng(random_state)
    null = np.concatenate(
        [values(draw_labels(proba, b, rng)) for b in blocks(int(n_resamples), len(codes))]
    )
    if not np.isfinite([observed, *null]).all():
        raise ValueError(
            f"{chosen.name} is not finite for some of the labels drawn, perhaps for lack of a "
            "class; use a metric that is always defined."
        )
    at_least = np.count_nonzero(null >= observed - _ROUNDING)
    detail = {
        "metric": chosen.name,
        "n_resamples": len(null),
        "null_mean": float(null.mean()),
        "null_95": float(np.quantile(null, 0.95)),
    }
    return CalibrationTest("Resampling", observed, (1 + at_least) / (1 + len(null)), detail)


def draw_labels(proba: FloatArray, n_resamples: int, rng: Generator) -> IntArray:
    """Return class codes (n_resamples, n), each drawn from its row of probabilities."""
    uniform = rng.random((n_resamples, len(proba)))
    codes = np.zeros(uniform.shape, dtype=np.intp)
    for reached in np.cumsum(proba[:, :-1], axis=1).T:
        codes += uniform >= reached
    return codes


def _metric_of_labels(
    metric: NamedMetric, proba: FloatArray, weights: FloatArray, classes: NDArray[Any]
) -> Callable[[IntArray], FloatArray]:
    """Return a function from codes (b, n) to the metric's values (b,)."""
    n, n_classes = proba.shape
    if metric.rows is not None:
        scores = np.column_stack(
            [metric.rows(np.full(n, k, dtype=np.intp), proba) for k in range(n_classes)]
        )
        scores *= weights[:, None] / weights.sum()
        return lambda codes: scores[np.arange(n), codes].sum(axis=1)
    if metric.function is expected_calibration_error:
        predicted, confidence, bins = binned_confidence(proba)
        shares = bins * (weights / weights.sum())[:, None]
        expected = confidence @ shares
        return lambda codes: np.abs((codes == predicted) @ shares - expected).sum(axis=1)
    return lambda codes: np.array([metric(row, proba, weights, classes) for row in codes])
