"""Intervals for a metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from skcal.metrics._intervals.analytic import share_interval
from skcal.metrics._intervals.estimate import (
    Method,
    MetricInterval,
    check_sample,
    estimate_interval,
)
from skcal.metrics._scores.by_name import Metric, find_metric
from skcal.metrics._scores.rows import hits


def metric_interval(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
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
    """Return a metric with an interval for its value on all rows there could have been.

    Parameters
    ----------
    metric : {"log_loss", "brier", "rps", "accuracy", "ece"} or callable
        The metric. A function is called as ``metric(y_true, y_proba, sample_weight=...,
        labels=...)``, as those of this module are; one more argument of them is given with
        :func:`functools.partial`.
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    confidence_level : float, default=0.95
        Level of the interval, strictly between 0 and 1.
    method : {"auto", "analytic", "bootstrap"}, default="auto"
        How the interval is found.

        - "analytic": from the spread and the skewness of the rows' own scores (Student's
          interval after Hall's transformation [1]_; Wilson's for the accuracy). For metrics
          that are means over rows: the log-loss, the Brier and the ranked probability score
          and the accuracy.
        - "bootstrap": rows are drawn with replacement `n_resamples` times; the interval is
          the bias-corrected and accelerated one (BCa [2]_). Where the metric is so biased
          that the value is more than a standard deviation from the middle of its resamples,
          it is the basic one, which mirrors the resamples at the value. The border is our
          choice.
        - "auto": "analytic" where it can be.
    n_resamples : int, default=1000
        For "bootstrap": how often rows are drawn.
    stratify : bool, default=False
        Whether to take the frequencies of the classes as fixed by design, as in a sample with
        a chosen number of rows of each class. Only then: where the frequencies came about by
        chance, these intervals are too short (see Notes).
    groups : array-like of shape (n_samples,), optional
        Rows of the same group (a patient, a day) are not independent; whole groups are drawn.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A row is one observation, whatever its weight.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.
    random_state : int, RandomState or None, default=None
        Decides the resamples. None draws fresh entropy.

    Returns
    -------
    MetricInterval

    Raises
    ------
    ValueError
        If "analytic" is asked for a metric that is no mean over rows, if there is only one
        row or group, if the metric is not finite in some resample, if an option is unknown,
        or if labels and probabilities do not fit together.

    See Also
    --------
    metric_difference : For two models on the same rows.
    resampling_test : Whether a calibration error is more than chance.

    Notes
    -----
    The model is taken as it is: the interval is about other rows, not about another training.

    Resamples are weights, so the metric must take whole weights as repetitions.

    Measured by ``benchmarks/intervals.py``, intervals at 95 % held the truth in this share of
    2,000 tables:

    ==============================  ==========  ===========  ========
    metric, classes, rows           "analytic"  "bootstrap"  stratify
    ==============================  ==========  ===========  ========
    log-loss, 2, 200                95.5 %      93.5 %       94.7 %
    log-loss, 4, 500                95.6 %      95.0 %       95.0 %
    log-loss, 2 as 9 : 1, 300       95.8 %      92.9 %       88.1 %
    Brier score, 2, 200             95.5 %      94.2 %       95.2 %
    Brier score, 2 as 9 : 1, 300    97.0 %      94.2 %       88.6 %
    accuracy, 2 as 9 : 1, 300       96.7 %      94.6 %       89.7 %
    ==============================  ==========  ===========  ========

    Stratified intervals are too short where a rare class has the larger losses. "bootstrap"
    held the skill of 300 rows in 96 % of 300 tables and an area under the ROC curve of 0.93
    in 93 % of 500.

    A calibration error with bins is biased upwards, and drawing rows again biases it once
    more. The interval corrects for that bias as far as the resamples show it, and is about
    the value with the same bins and very many rows. The ECE of 1,000 rows of two classes was
    held in 92 % where the logits had been multiplied by 2, in 93 % for 1.5, in 81 % for 1.2
    and in 66 % for 1, perfect calibration, where the interval lies too high. Ask
    :func:`resampling_test` whether there is any miscalibration at all. The squared error
    without bias (``norm="l2"``, ``debias=True``, ``squared=True``) was held in 99 % for 1.2
    and 1.5: that interval is longer than need be.

    References
    ----------
    .. [1] P. Hall, "On the Removal of Skewness by Transformation", Journal of the Royal
       Statistical Society B, 1992.
    .. [2] B. Efron, "Better Bootstrap Confidence Intervals", Journal of the American
       Statistical Association, 1987.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import metric_interval
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> found = metric_interval("log_loss", y, p)
    >>> print(f"{found.value:.3f} [{found.lower:.3f}, {found.upper:.3f}] {found.method}")
    0.585 [0.556, 0.615] analytic
    """
    chosen = find_metric(metric)
    data = check_sample(y_true, [y_proba], sample_weight, labels, groups, stratify)
    found = estimate_interval(chosen, data, confidence_level, method, n_resamples, random_state)
    if chosen.rows is hits and found.method == "analytic":
        lower, upper = share_interval(
            found.value, found.standard_error, data.weights, data.units, confidence_level
        )
        return replace(found, lower=lower, upper=upper)
    return found
