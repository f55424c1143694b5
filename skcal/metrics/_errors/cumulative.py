"""Calibration errors from cumulative differences: no bins, no kernel, nothing to choose."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._bins import rank_order
from skcal.metrics._events import Kind, mean_error

Statistic = Literal["range", "max"]


def cumulative_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    statistic: Statistic = "range",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the range of the cumulative differences (ECCE-R), or the largest (ECCE-MAD).

    With the rows in the order of their probability, and :math:`C_0 = 0`,

    .. math:: C_k = \frac{1}{W} \sum_{i \le k} w_i (e_i - c_i), \qquad
        \text{ECCE-R} = \max_k C_k - \min_k C_k, \qquad
        \text{ECCE-MAD} = \max_k |C_k| .

    The slope of C over an interval of probabilities is the gap there. The range is therefore
    the largest total residual of any interval: :math:`\max_{a,b} |C_b - C_a|`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability :math:`c_i` is held against which event :math:`e_i`: the largest
        of the row, each column (the mean over columns), or the second class of two (the
        paper's).
    statistic : {"range", "max"}, default="range"
        The range, Kuiper's statistic; or the largest absolute value, Kolmogorov and
        Smirnov's.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1], in units of probability: the share of rows, among all, by which some
        interval's events exceed or miss what was predicted.

    Raises
    ------
    ValueError
        If an option is unknown, if `kind` is "positive" and there are not two classes, or if
        labels and probabilities do not fit together.

    See Also
    --------
    ks_calibration_error : "max" under the name it has elsewhere.
    binned_cumulative_calibration_error : The other quantity that is called ECCE.

    Notes
    -----
    Cumulative sums are read where the probability changes only, so that the order of rows
    with equal probability does not matter. At most as large as the binned "l1" error with a
    bin for each probability.

    On finite data it is above the truth: for a perfectly calibrated model it is about
    :math:`1.6\,\sigma` ("range") or :math:`1.25\,\sigma` ("max") with
    :math:`\sigma^2 = \sum_i c_i (1 - c_i) / n^2`. Over many data sets (kind "positive",
    probabilities uniform on [0, 1]) the means are 0.020 and 0.016 with 1,000 rows, 0.0064 and
    0.0050 with 10,000.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of
       Calibration for Probabilistic Predictions", Journal of Machine Learning Research, 2022.

    Examples
    --------
    Too high below, too low above: the differences fall and come back.

    >>> from skcal.metrics import cumulative_calibration_error
    >>> y_true, y_proba = [0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8]
    >>> round(cumulative_calibration_error(y_true, y_proba, kind="positive"), 4)
    0.15
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    if statistic not in ("range", "max"):
        raise ValueError(f"statistic must be 'range' or 'max'; got {statistic!r}.")
    share = weights / weights.sum()

    def error(confidence: FloatArray, event: FloatArray) -> float:
        _, sums = cumulative_differences(confidence, share * (event - confidence))
        high, low = max(sums.max(), 0.0), min(sums.min(), 0.0)
        return float(high - low if statistic == "range" else max(high, -low))

    return mean_error(error, kind, codes, proba)


def ks_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the Kolmogorov-Smirnov calibration error.

    With the rows in the order of their probability,

    .. math:: \mathrm{KS} = \max_k \left|\frac{1}{W} \sum_{i \le k} w_i (e_i - c_i)\right| ,

    which is :func:`cumulative_calibration_error` with ``statistic="max"`` (ECCE-MAD).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability :math:`c_i` is held against which event :math:`e_i`: the largest
        of the row (the paper's), each column (the mean over columns), or the second class
        of two.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1], in units of probability.

    Raises
    ------
    ValueError
        If `kind` is unknown, or is "positive" and there are not two classes, or if labels and
        probabilities do not fit together.

    See Also
    --------
    cumulative_calibration_error : The same, and the range.

    Notes
    -----
    On finite data it is above the truth: its mean over many data sets of a perfectly
    calibrated model (kind "positive", probabilities uniform on [0, 1]) is 0.016 with 1,000
    rows and 0.0050 with 10,000. Rows with equal probability count together, in any order.

    References
    ----------
    .. [1] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of Neural Networks using Splines", ICLR, 2021.

    Examples
    --------
    >>> from skcal.metrics import ks_calibration_error
    >>> round(ks_calibration_error([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8], kind="positive"), 4)
    0.15
    """
    return cumulative_calibration_error(
        y_true,
        y_proba,
        kind=kind,
        statistic="max",
        sample_weight=sample_weight,
        labels=labels,
    )


def cumulative_differences(
    confidence: FloatArray, residual: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct probabilities, and the sum of the residuals up to and with each.

    The order of equal probabilities is arbitrary, so sums stop behind them only.
    """
    rounded, order = rank_order(confidence)
    last = np.append(rounded[1:] > rounded[:-1], True)
    return rounded[last], np.cumsum(residual[order])[last]
