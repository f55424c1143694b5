"""Proper scores, after the package's own check of the input."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics as _sklearn_metrics

from skcal._validation import check_predictions
from skcal.metrics._scores.rows import ranked_scores


def log_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the mean negative log-probability of the true class, in nats.

    .. math:: -\frac{1}{\sum_i w_i} \sum_i w_i \log p_{i, y_i}

    A strictly proper score: its expectation is smallest for the true probabilities, so it
    rewards calibration and discrimination together. Zero is perfect; always predicting
    :math:`1/K` scores :math:`\log K`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Mean log loss in nats.

    Raises
    ------
    ValueError
        If `y_proba` holds no probabilities, a row does not sum to one, or the class of a
        column cannot be told.

    Notes
    -----
    The value comes from :func:`sklearn.metrics.log_loss`, which clips the float64
    probabilities to ``[eps, 1 - eps]`` with ``eps = 2.2e-16``. A true class that was given
    a probability of exactly 0 therefore costs 36.04 nats, not infinity.

    Unlike scikit-learn's function, this one takes `labels` in the order of the columns,
    refuses rows that do not sum to one, and accepts a `y_true` that lacks a class.

    References
    ----------
    .. [1] I. J. Good, "Rational Decisions", Journal of the Royal Statistical Society B,
       1952.
    .. [2] T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and
       Estimation", Journal of the American Statistical Association, 2007.

    Examples
    --------
    >>> from skcal.metrics import log_loss
    >>> round(log_loss(["no", "yes", "yes"], [0.2, 0.7, 0.9]), 4)
    0.2284
    >>> round(log_loss([1], [0.5], labels=[0, 1]), 4)
    0.6931
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    columns = np.arange(proba.shape[1])
    return float(_sklearn_metrics.log_loss(codes, proba, sample_weight=weights, labels=columns))


def brier_score_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the mean squared distance between probabilities and what happened.

    For two classes this is the familiar score in [0, 1],

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i \left(p_{i1} - [y_i = 1]\right)^2,

    and for more than two classes the sum over the columns, in [0, 2],

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i \sum_k \left(p_{ik} - [y_i = k]\right)^2.

    The two conventions differ by a factor of two at K = 2; they are scikit-learn's
    (``scale_by_half="auto"``). Both are strictly proper scores.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Brier score in squared probability; 0 is perfect.

    Raises
    ------
    ValueError
        If `y_proba` holds no probabilities, a row does not sum to one, or the class of a
        column cannot be told.

    References
    ----------
    .. [1] G. W. Brier, "Verification of Forecasts Expressed in Terms of Probability",
       Monthly Weather Review, 1950.

    Examples
    --------
    >>> from skcal.metrics import brier_score_loss
    >>> round(brier_score_loss([1], [0.4], labels=[0, 1]), 4)
    0.36
    >>> round(brier_score_loss([0, 1, 2], [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.2, 0.2, 0.6]]), 4)
    0.1467
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    columns = np.arange(proba.shape[1])
    return float(
        _sklearn_metrics.brier_score_loss(
            codes, proba, sample_weight=weights, labels=columns, scale_by_half="auto"
        )
    )


def ranked_probability_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    normalize: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the mean squared distance between cumulative probabilities and what happened.

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i \sum_{k=1}^{K-1}
        \left(\sum_{j \le k} p_{ij} - [y_i \le k]\right)^2

    For classes with an order, as grades or sizes: probability on a class near the true one
    costs less than on one far away. It is a strictly proper score, and for two classes it is
    the Brier score.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities, the columns in the order of the classes; a single column is
        the probability of the second class.
    normalize : bool, default=False
        Whether to divide by K - 1, so that the score does not grow with the number of
        classes.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order: here also their order from
        least to most. Without it that order is the sorted one, alphabetical for strings.

    Returns
    -------
    float
        Score in squared probability, in [0, K - 1], or in [0, 1] where `normalize`; 0 is
        perfect.

    Raises
    ------
    ValueError
        If `y_proba` holds no probabilities, a row does not sum to one, or the class of a
        column cannot be told.

    See Also
    --------
    brier_score_loss : The same for classes without an order.

    Notes
    -----
    A mean over rows, and therefore without bias. On calibrated rows its expectation is
    :math:`\sum_k F_k (1 - F_k)` with :math:`F_k` the cumulative probabilities, not zero.

    Strings are sorted as strings: "high" comes before "low" and "medium". Name the columns
    with `labels` in such a case.

    References
    ----------
    .. [1] E. S. Epstein, "A Scoring System for Probability Forecasts of Ranked Categories",
       Journal of Applied Meteorology, 1969.
    .. [2] A. H. Murphy, "A Note on the Ranked Probability Score", Journal of Applied
       Meteorology, 1971.

    Examples
    --------
    Two forecasts that a log-loss cannot tell apart; the first misses by one class, the second
    by two:

    >>> from skcal.metrics import ranked_probability_score
    >>> order = ["low", "medium", "high"]
    >>> round(ranked_probability_score(["low"], [[0.4, 0.6, 0.0]], labels=order), 4)
    0.36
    >>> round(ranked_probability_score(["low"], [[0.4, 0.0, 0.6]], labels=order), 4)
    0.72
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    score = float(np.average(ranked_scores(codes, proba), weights=weights))
    return score / (proba.shape[1] - 1) if normalize else score
