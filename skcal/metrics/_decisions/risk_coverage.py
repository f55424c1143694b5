"""Risk over coverage: what is left of the losses when only the surest rows are decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._decisions.cost_matrix import (
    cheapest,
    check_costs,
    expected_costs,
    realised_costs,
)

# Confidences that agree to this many decimals, as shares of the greatest, count as equal.
_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve:
    """Mean loss of the rows that are kept, for each confidence that may be asked for.

    Attributes
    ----------
    coverage : ndarray of shape (n_thresholds,), float64
        Share of the weight that is kept, rising to 1. One entry per distinct confidence.
    risk : ndarray of shape (n_thresholds,), float64
        Weighted mean loss of the rows kept, in the unit of the losses.
    threshold : ndarray of shape (n_thresholds,), float64
        Rows at least this confident are kept; falling.
    area : float
        Area under the curve (AURC), in the unit of the losses.
    oracle_area : float
        The least area that any order of the same losses has.
    """

    coverage: FloatArray
    risk: FloatArray
    threshold: FloatArray
    area: float
    oracle_area: float

    @property
    def excess_area(self) -> float:
        """What the order of the rows costs: the area less that of the oracle (E-AURC)."""
        return self.area - self.oracle_area

    def risk_at(self, coverage: ArrayLike) -> FloatArray:
        """Return the risk at any coverage, also between two thresholds.

        There, rows of equal confidence are kept at random, and the risk is its expectation.

        Parameters
        ----------
        coverage : array-like
            Shares in [0, 1]. At 0 stands the risk of the most confident rows.

        Returns
        -------
        ndarray of the same shape, float64

        Raises
        ------
        ValueError
            If a coverage is outside [0, 1].
        """
        share = np.asarray(coverage, dtype=np.float64)
        if not ((share >= 0) & (share <= 1)).all():
            raise ValueError(f"coverage must be within [0, 1]; got {coverage!r}.")
        lost = np.interp(share, np.r_[0.0, self.coverage], np.r_[0.0, self.coverage * self.risk])
        none = share == 0
        return np.where(none, self.risk[0], lost / np.where(none, 1.0, share))


def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    cost_matrix: Any = None,
    loss: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> RiskCoverageCurve:
    r"""Return the mean loss of the rows kept over the share that is kept.

    Rows are kept in order of confidence. With :math:`m(v)` the loss at position
    :math:`v \in [0, 1]` of that order, risk and area are

    .. math:: R(c) = \frac{1}{c} \int_0^c m(v)\, dv, \qquad
        \mathrm{AURC} = \int_0^1 R(c)\, dc = \int_0^1 -\ln(v)\, m(v)\, dv.

    Rows of equal confidence share their mean loss: the expectation over their random order.
    So the order of the rows has no influence. The oracle keeps rows in the order of their
    losses; its area, with the share :math:`e` of errors, is :math:`e + (1-e) \ln(1-e)` [2]_.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    cost_matrix : array-like, dict or DataFrame, default=None
        As in :func:`mean_cost`. Each row takes the action of least expected cost; its loss is
        what that costs, and its confidence the expected cost, negated. None is the error of
        the most probable class, with its probability as confidence.
    loss : array-like of shape (n_samples,), optional
        Any other loss of each row.
    confidence : array-like of shape (n_samples,), optional
        Any other order: rows with the greatest values are kept first.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    RiskCoverageCurve

    Raises
    ------
    ValueError
        If `loss` and `cost_matrix` are both given, a value is not finite, or labels,
        probabilities and costs do not fit together.

    See Also
    --------
    skcal.plots.RiskCoverageDisplay : The drawing.

    Notes
    -----
    Risk and both areas are in the unit of the loss. With the error as loss they lie in
    [0, 1]; an order at random has the error rate as its area. The curve judges the order
    alone: no map that keeps the order of the confidences, such as temperature scaling of two
    classes, changes it. The area mixes the order with the model's errors, and the excess
    with how many errors there are to find: compare models by the risk at a coverage, too.

    The literature often takes the mean of R over the n rows [2]_ in the place of the
    integral. The two differ by the order of ln(n)/n, and only the integral is the same when
    every row is repeated.

    Calibration makes neither area zero. With calibrated probabilities of two classes, uniform
    on [0, 1], the area is 0.125 and the excess 0.091 with a million rows; with 100 rows we
    measured means of 0.128 and 0.092, and standard deviations of 0.036 and 0.027.

    References
    ----------
    .. [1] C. K. Chow, "On Optimum Recognition Error and Reject Tradeoff", IEEE Transactions
       on Information Theory, 1970.
    .. [2] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep
       Neural Classifiers", ICLR, 2019.

    Examples
    --------
    >>> from skcal.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([1, 0, 1, 0], [0.9, 0.2, 0.7, 0.6])
    >>> curve.coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> curve.risk
    array([0.  , 0.  , 0.  , 0.25])
    >>> curve.excess_area
    0.0
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    if loss is not None and cost_matrix is not None:
        raise ValueError("Give loss or cost_matrix, not both: each says what a row loses.")
    values = check_costs(cost_matrix, classes, n_rows=len(proba)).values
    expected = expected_costs(proba, values)
    chosen = cheapest(expected, values)
    if loss is None:
        lost = realised_costs(codes, chosen, values)
    else:
        lost = _per_row(loss, "loss", len(proba))
    if confidence is not None:
        sure = _per_row(confidence, "confidence", len(proba))
    elif cost_matrix is None:
        sure = proba.max(axis=1)
    else:
        sure = -expected[np.arange(len(proba)), chosen]
    return _curve(lost, sure, weights)


def _per_row(values: ArrayLike, name: str, n_rows: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_rows,) or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must hold one finite number for each of the {n_rows} rows; got shape "
            f"{array.shape}{'' if np.isfinite(array).all() else ' with NaN or infinity'}."
        )
    return array


def _curve(loss: FloatArray, confidence: FloatArray, weights: FloatArray) -> RiskCoverageCurve:
    coverage, lost, threshold = _keep_in_order(loss, confidence, weights)
    oracle_coverage, oracle_lost, _ = _keep_in_order(loss, -loss, weights)
    return RiskCoverageCurve(
        coverage=coverage,
        risk=lost / coverage,
        threshold=threshold,
        area=_area(coverage, lost),
        oracle_area=_area(oracle_coverage, oracle_lost),
    )


def _keep_in_order(
    loss: FloatArray, confidence: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the share kept, what it loses per row in all, and the least confidence in it."""
    counted = weights > 0
    loss, confidence, weights = loss[counted], confidence[counted], weights[counted]
    scale = np.abs(confidence).max() or 1.0
    _, group = np.unique(np.round(-confidence / scale, _DECIMALS), return_inverse=True)
    kept = np.cumsum(np.bincount(group, weights))
    lost = np.cumsum(np.bincount(group, weights * loss))
    threshold = np.full(len(kept), np.inf)
    np.minimum.at(threshold, group, confidence)
    return kept / kept[-1], lost / kept[-1], threshold


def _area(coverage: FloatArray, lost: FloatArray) -> float:
    r"""Return the integral of -ln(v) m(v), where m is constant between coverages."""
    edges = np.r_[0.0, coverage]
    antiderivative = edges - xlogy(edges, edges)
    width, step = np.diff(edges), np.diff(np.r_[0.0, lost])
    # A weight too small to change the sum has no width.
    mean_loss = np.divide(step, width, out=np.zeros_like(step), where=width > 0)
    return float(mean_loss @ np.diff(antiderivative))
