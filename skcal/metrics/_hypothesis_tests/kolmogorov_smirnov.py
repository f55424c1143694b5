"""The test of Kolmogorov and Smirnov's kind: cumulative differences without bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._errors.cumulative import cumulative_differences
from skcal.metrics._events import Kind
from skcal.metrics._hypothesis_tests.result import CalibrationTest, run_test


def ks_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> CalibrationTest:
    r"""Test calibration by cumulative differences, without bins.

    Rows are ordered by their probability :math:`c_i`, and the differences to the event
    :math:`e_i` are summed up,

    .. math:: D = \frac{\max_j \left|\sum_{i \le j} w_i (e_i - c_i)\right|}
        {\sqrt{\sum_i w_i^2 c_i (1 - c_i)}} .

    If the events are drawn from the probabilities, the sums are a martingale whose variance
    grows by :math:`w_i^2 c_i (1 - c_i)` with each row. Measured on that clock it is nearly a
    Brownian motion B on [0, 1], and D nearly :math:`\sup |B(t)|` [1]_, [2]_, with

    .. math:: P(\sup |B| > x) = 4 \sum_{k \ge 0} (-1)^k \, \Phi(-(2k + 1) x) .

    The motion is free at its end: no bridge, as for the classical statistic of Kolmogorov
    and Smirnov, since the number of events is not given.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability is held against which event.

        - "top-label": the largest probability of the row, against whether that class is the
          true one.
        - "class-wise": each column by itself; the p-value is the least one times the number
          of classes (Bonferroni). For two classes the same as "positive".
        - "positive": two classes only; the probability of the second class.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A row is one observation whatever its weight; rows that were
        really seen several times have to be repeated.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    CalibrationTest
        The statistic is D, large for miscalibration; values above 2.24 have p < 0.05.
        `detail` holds "difference", the largest mean cumulative difference in units of
        probability, and "confidence", the probability up to which it was summed; for
        "class-wise" also "p_values" of all classes, without correction, and the
        "class_label" of the least.

    Raises
    ------
    ValueError
        If `kind` is unknown, if it is "positive" and there are not two classes, or if labels
        and probabilities do not fit together.

    See Also
    --------
    ks_calibration_error : The largest cumulative difference as an error.
    hosmer_lemeshow_test : With bins.

    Notes
    -----
    The test sees errors of the same sign over a range of probabilities. Rows with equal
    probabilities are summed before the sum is looked at, since their order is arbitrary; few
    distinct probabilities make the test reject a little less often than its level.

    Share of tables on which the test rejects at the 5 % level, by
    ``benchmarks/calibration_tests.py``. The logits of calibrated rows were multiplied by the
    factor; 2,000 tables for the factor 1, 500 for the others:

    ================  ========  ====  =====
    data              factor 1  1.2   1.5
    ================  ========  ====  =====
    K = 2, 500 rows   5.3 %     27 %  88 %
    K = 2, 2000 rows  4.4 %     85 %  100 %
    K = 4, 500 rows   5.2 %     55 %  100 %
    K = 4, 2000 rows  4.4 %     98 %  100 %
    ================  ========  ====  =====

    Over 12 kinds of calibrated tables, with uneven classes and probabilities near 0 and 1 among
    them, the share was 3.5 to 5.5 %, for "class-wise" 4.1 to 5.0 %.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of
       Calibration for Probabilistic Predictions", Journal of Machine Learning Research, 2022.
    .. [2] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of Neural Networks using Splines", ICLR, 2021.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import ks_test
    >>> _, y, p = make_calibration_data(1000, n_classes=3, random_state=0)
    >>> sharp = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    >>> for proba in p, sharp:
    ...     found = ks_test(y, proba)
    ...     print(f"D = {found.statistic:.2f}, p = {found.p_value:.2g}")
    D = 0.80, p = 0.81
    D = 6.18, p = 1.2e-09
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    return run_test("Kolmogorov-Smirnov", kind, codes, proba, weights, classes, _largest_sum)


def _largest_sum(
    confidence: FloatArray, event: FloatArray, weights: FloatArray
) -> tuple[float, float, dict[str, Any]]:
    """Return the statistic, its p-value and where the sum is largest."""
    values, sums = cumulative_differences(confidence, weights * (event - confidence))
    place = int(np.abs(sums).argmax())
    largest = abs(float(sums[place]))
    spread = float(np.sqrt(weights**2 @ (confidence * (1 - confidence))))
    # Without spread all rows were certain: either as they said, or impossible.
    statistic = largest / spread if spread > 0 else np.inf if largest else 0.0
    detail = {"difference": largest / weights.sum(), "confidence": float(values[place])}
    return statistic, brownian_tail(statistic), detail


def brownian_tail(x: float) -> float:
    """Return the probability that a Brownian motion on [0, 1] leaves [-x, x]."""
    odd = 2 * np.arange(20) + 1
    signs = np.where(np.arange(20) % 2, -1.0, 1.0)
    if x > 1:  # By reflections: no digits are lost however small the answer.
        return float(4 * signs @ ndtr(-odd * x))
    if x <= 0:
        return 1.0
    return 1 - float(4 / np.pi * (signs / odd) @ np.exp(-((odd * np.pi / x) ** 2) / 8))
