"""The ranked probability score, for classes that have an order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import check_predictions
from skcal.metrics._scores.rows import ranked_scores


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
