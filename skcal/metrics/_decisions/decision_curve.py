"""Cost or net benefit over the threshold of a decision between two actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._decisions.cost_matrix import check_costs

# A probability this close to a threshold reaches it: 0.1 + 0.2 is not 0.3 in its last bit.
_REACH = 1e-12


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Mean cost, or net benefit, of acting where the probability reaches a threshold.

    Attributes
    ----------
    threshold : ndarray of shape (n_thresholds,), float64
        Probabilities of `class_label` from which on the row is acted on.
    realised : ndarray of shape (n_thresholds,), float64
        What the labels say: mean cost per row, or net benefit.
    promised : ndarray of shape (n_thresholds,), float64
        The same as the probabilities expect it. It is `realised` in expectation if they are
        calibrated.
    act_on_all, act_on_none : ndarray of shape (n_thresholds,), float64
        What the labels say of treating all rows alike.
    kind : {"cost", "net benefit"}
        What the curve is of. Costs are to be low, benefits high.
    class_label : object
        The class whose probability is held against the threshold.
    optimal_threshold : float or None
        The threshold that costs least if probabilities are calibrated. None for net
        benefits, whose threshold stands for the costs itself.
    realised_at_optimum, promised_at_optimum : float or None
        The mean costs at that threshold.
    """

    threshold: FloatArray
    realised: FloatArray
    promised: FloatArray
    act_on_all: FloatArray
    act_on_none: FloatArray
    kind: Literal["cost", "net benefit"]
    class_label: Any
    optimal_threshold: float | None = None
    realised_at_optimum: float | None = None
    promised_at_optimum: float | None = None


class _Shares(NamedTuple):
    """Shares of the weight in each cell of the confusion matrix."""

    true_positive: FloatArray
    false_positive: FloatArray
    false_negative: FloatArray
    true_negative: FloatArray


def decision_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    cost_matrix: Any = None,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> DecisionCurve:
    r"""Return the mean cost, or the net benefit, of each threshold for two classes.

    Rows whose probability :math:`p` of the second class reaches the threshold :math:`t` are
    acted on. With TP, FP, FN and TN the shares of all rows, the mean cost is

    .. math:: C_{00} TN + C_{01} FP + C_{10} FN + C_{11} TP,

    where :math:`C_{ka}` is the cost of action a (1: acting) when the truth is class k. Its
    expectation is least [1]_ at

    .. math:: t^* = \frac{C_{01} - C_{00}}{C_{01} - C_{00} + C_{10} - C_{11}}.

    Without a cost matrix, the threshold itself says what a false alarm is worth, and the
    curve is of the net benefit [2]_ :math:`TP - FP \, t / (1 - t)`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array-like of shape (n_samples, 2), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    cost_matrix : array-like of shape (2, 2), dict or DataFrame, default=None
        As in :func:`mean_cost`: rows are truths; the second column, or the second class among
        the columns, is acting. None is the net benefit.
    thresholds : array-like of shape (n_thresholds,), optional
        By default 0, 0.01, ..., up to 1 for costs and up to 0.99 for net benefits.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (2,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show both and its labels are not column numbers.

    Returns
    -------
    DecisionCurve

    Raises
    ------
    ValueError
        If there are not two classes and two actions, acting does not pay better under the
        second class than under the first, or a threshold is out of range.

    See Also
    --------
    skcal.plots.DecisionCurveDisplay : The drawing.
    skcal.CostSensitiveClassifier : Decides by expected costs, with any number of classes.

    Notes
    -----
    Costs are in the unit of the matrix, net benefits in true positives per row: the best
    value is the share of the second class. At a threshold that is fixed beforehand, neither
    `realised` nor, for calibrated probabilities, the difference to `promised` has a bias. The
    least value over all thresholds is too good: it was picked on the same rows.

    A `promised` equal to `realised` at every threshold does not prove calibration, but a
    difference beyond chance disproves it.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI, 2001.
    .. [2] A. J. Vickers and E. B. Elkin, "Decision Curve Analysis: A Novel Method for
       Evaluating Prediction Models", Medical Decision Making, 2006.

    Examples
    --------
    >>> from skcal.metrics import decision_curve
    >>> y, p = [0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8]
    >>> curve = decision_curve(y, p, cost_matrix=[[0, 1], [4, 0]], thresholds=[0.2, 0.5])
    >>> curve.optimal_threshold
    0.2
    >>> curve.realised
    array([0.25, 1.  ])
    >>> curve.promised
    array([0.475, 0.85 ])
    >>> decision_curve(y, p, thresholds=[0.2, 0.5]).realised
    array([0.4375, 0.25  ])
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    if len(classes) != 2:
        raise ValueError(
            f"A decision curve has one threshold and needs two classes; there are {len(classes)}."
            " CostSensitiveClassifier decides between more."
        )
    order = np.argsort(proba[:, 1])
    p, share = proba[order, 1], weights[order] / weights.sum()
    happened = (codes[order] == 1).astype(np.float64)
    label = classes.tolist()[1]
    if cost_matrix is None:
        t = _check_thresholds(thresholds, np.arange(100) / 100)
        if (t == 1).any():
            raise ValueError("Net benefit needs thresholds below 1, where it weighs t / (1 - t).")
        odds = t / (1 - t)
        realised, promised = (_net_benefit(_shares(p, e, share, t), odds) for e in (happened, p))
        positives = float(share @ happened)
        all_rows = positives - (1 - positives) * odds
        return DecisionCurve(
            t, realised, promised, all_rows, np.zeros_like(t), "net benefit", label
        )
    t = _check_thresholds(thresholds, np.linspace(0.0, 1.0, 101))
    costs = _check_two_actions(check_costs(cost_matrix, classes, n_rows=len(p)).values)
    alarm, miss = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    optimum = alarm / (alarm + miss)
    at = np.r_[t, optimum, 0.0, 2.0]  # all rows are acted on at 0, none at 2
    realised, promised = (_mean_cost(_shares(p, e, share, at), costs) for e in (happened, p))
    return DecisionCurve(
        threshold=t,
        realised=realised[:-3],
        promised=promised[:-3],
        act_on_all=np.full_like(t, realised[-2]),
        act_on_none=np.full_like(t, realised[-1]),
        kind="cost",
        class_label=label,
        optimal_threshold=float(optimum),
        realised_at_optimum=float(realised[-3]),
        promised_at_optimum=float(promised[-3]),
    )


def _check_thresholds(thresholds: ArrayLike | None, default: FloatArray) -> FloatArray:
    if thresholds is None:
        return default
    t = np.asarray(thresholds, dtype=np.float64)
    if t.ndim != 1 or t.size == 0 or not ((t >= 0) & (t <= 1)).all():
        raise ValueError(
            f"thresholds must be a list of probabilities in [0, 1]; got {thresholds!r}."
        )
    return t


def _check_two_actions(costs: FloatArray) -> FloatArray:
    if costs.shape != (2, 2):
        raise ValueError(
            f"A decision curve needs a cost matrix of shape (2, 2); got {costs.shape}. "
            "CostSensitiveClassifier decides between more actions."
        )
    alarm, miss = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    if alarm < 0 or miss < 0 or alarm + miss == 0:
        raise ValueError(
            "Acting (the second column) must cost more than not acting under the first class, and "
            f"less under the second; got {costs.tolist()}. Rows are truths, columns actions; "
            "their order may be swapped, or one action is the cheaper one for both classes."
        )
    return costs


def _shares(p: FloatArray, event: FloatArray, share: FloatArray, t: FloatArray) -> _Shares:
    """Return the confusion at each threshold; p rises, and event is a label or a chance."""
    below = np.searchsorted(p, t - _REACH)
    missed = np.r_[0.0, np.cumsum(share * event)]
    spared = np.r_[0.0, np.cumsum(share * (1 - event))]
    return _Shares(
        true_positive=missed[-1] - missed[below],
        false_positive=spared[-1] - spared[below],
        false_negative=missed[below],
        true_negative=spared[below],
    )


def _mean_cost(shares: _Shares, costs: FloatArray) -> FloatArray:
    return (
        costs[0, 0] * shares.true_negative
        + costs[0, 1] * shares.false_positive
        + costs[1, 0] * shares.false_negative
        + costs[1, 1] * shares.true_positive
    )


def _net_benefit(shares: _Shares, odds: FloatArray) -> FloatArray:
    return shares.true_positive - shares.false_positive * odds
