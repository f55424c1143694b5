"""Venn-Abers calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from skcal._validation import FloatArray
from skcal.calibration._fitting.sorted_scores import merge_ties
from skcal.calibration._one_vs_rest.base import OneVsRestMap
from skcal.calibration._one_vs_rest.log_odds import LogOdds, mapped_columns

# How many scores are looked at in one go: few after a change, more while nothing changes.
_NEAR, _FAR = 16, 65_536


class VennAbersCalibration(OneVsRestMap):
    r"""Calibrate with two isotonic curves per row: one for each label the row may have.

    For a score s of the second of two classes, :math:`p_0` is the value at s of the isotonic
    fit to the calibration rows and (s, 0), and :math:`p_1` that to these rows and (s, 1).
    One of them is calibrated whatever the distribution of the rows, as long as they are
    exchangeable; the two span an interval, and

    .. math:: q = \frac{p_1}{1 - p_0 + p_1}

    is the single probability with the least regret in log-loss. With more classes, one
    predictor per class against the rest, and the probabilities are divided by their sum.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    maps_ : list of ndarray of shape (3, n_points), or None
        Distinct log-odds of the calibration rows, and :math:`p_0` and :math:`p_1` there:
        one for two classes, one per class otherwise; None for a class without rows, which
        keeps its probability.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        1.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    IsotonicCalibration : One curve.
    skcal.CalibratedClassifier : With folds and ``pooling="logit"``, cross Venn-Abers
        prediction: the odds of the folds are averaged geometrically, as in the paper.

    Notes
    -----
    This is the inductive form. Both curves are computed for all scores at once, in
    O(n log n): the sort, and then one pass over the convex hull of the cumulative outcomes,
    as in the paper.

    References
    ----------
    V. Vovk, I. Petej and V. Fedorova, "Large-scale probabilistic predictors with and without
    guarantees of validity", NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import VennAbersCalibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p**2  # over-confident in the second class
    >>> venn_abers = VennAbersCalibration().fit(p, y)
    >>> venn_abers.predict_proba([0.8])[:, 1].round(1)
    array([0.7])
    >>> venn_abers.predict_interval([0.8])[:, 1].round(2)
    array([[0.7 , 0.75]])
    """

    def predict_interval(self, scores: Any) -> FloatArray:
        """Return the interval of each class's probability.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
            Lower and upper end: :math:`p_0` and :math:`p_1`. With more than two classes they
            are those of each class against the rest, widened to hold its probability after
            the division by the sum. They say how much one label more would change, and are no
            confidence interval. A class without rows in ``fit`` has its own probability for
            both ends.
        """
        log_proba = self._checked(scores)
        odds = LogOdds(log_proba)
        ends = []
        for learned, column in zip(self.maps_, mapped_columns(log_proba), strict=True):
            values = odds.column(column)
            ends.append([expit(values)] * 2 if learned is None else _ends(learned, values))
        if log_proba.shape[1] == 2:
            low, high = ends[0]
            ends = [[1 - high, 1 - low], [low, high]]
        low, high = np.array(ends).transpose(1, 2, 0)
        proba = self.predict_proba(scores)
        return np.stack([np.minimum(low, proba), np.maximum(high, proba)], axis=2)

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        # A weight that vanishes in the sum of all would not move the hull.
        heavy = weights > 1e-12 * weights.sum()
        ties = merge_ties(log_odds[heavy], hit[heavy], weights[heavy])
        counts, hits = ties.weight, ties.weight * ties.mean
        p1 = _upper(counts, hits)
        # Read from the right, with the labels exchanged, p0 is what p1 is from the left.
        p0 = 1 - _upper(counts[::-1], (counts - hits)[::-1])[::-1]
        learned = np.vstack([ties.x, p0, p1])
        if heavy.all():
            return learned, ties.to_rows(np.log(p1) - np.log(1 - p0))
        return learned, self._map_column(learned, log_odds)

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        p0, p1 = _ends(learned, log_odds)
        return np.log(p1) - np.log(1 - p0)


def _ends(learned: FloatArray, log_odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return p0 and p1 of any scores, which between two calibration rows are those beside."""
    x, p0, p1 = learned
    below = np.searchsorted(x, log_odds, side="right")
    above = np.searchsorted(x, log_odds, side="left")
    return np.r_[0.0, p0][below], np.r_[p1, 1.0][above]


def _upper(counts: FloatArray, hits: FloatArray) -> FloatArray:
    r"""Return p1 at each of n distinct scores in rising order.

    With :math:`P_k` the cumulative (weight, hits) of the first k scores, p1 at the k-th is
    the slope, where it passes from the left set to the right one, of the lower convex hull of
    :math:`\{P_i - (1, 1): i < k\}` and :math:`\{P_j: j \ge k\}`. The hull is walked as
    a stack of corners; between two changes of its first edge, scores are treated as arrays.
    """
    n = len(counts)
    x = np.r_[0.0, np.cumsum(counts)]
    y = np.r_[0.0, np.cumsum(hits)]
    corners = _hull(np.r_[-1.0, x], np.r_[-1.0, y])[::-1]  # the leftmost is the last
    upper = np.empty(n)
    k, reach = 0, _NEAR
    while k < n:
        (x0, y0), (x1, y1) = corners[-1], corners[-2]
        slope = (y1 - y0) / (x1 - x0)
        stop = min(k + reach, n)
        # The left set gains the points P - (1, 1), one with each score.
        dx, dy = x[k + 1 : stop + 1] - 1 - x0, y[k + 1 : stop + 1] - 1 - y0
        below = dy < slope * dx
        first = int(below.argmax())
        if not below[first]:
            upper[k:stop] = slope
            k, reach = stop, min(2 * reach, _FAR)
            continue
        # The score that brought the new corner still has the old slope.
        k += first + 1
        upper[k - first - 1 : k] = slope
        corners.pop()
        k = _slide(x, y, corners, upper, k)
        reach = _NEAR
    return upper


def _slide(
    x: FloatArray, y: FloatArray, corners: list[tuple[float, float]], upper: FloatArray, k: int
) -> int:
    """Put the point of score k - 1 on the stack, and those after it that replace it at once.

    This happens along a run of misses: each score has the slope from its own point to the same
    corner. Return the next score to treat.
    """
    top = (x[k] - 1, y[k] - 1)
    while len(corners) > 1 and _slope(top, corners[-1]) >= _slope(corners[-1], corners[-2]):
        corners.pop()
    x1, y1 = corners[-1]
    limit = _slope(corners[-1], corners[-2]) if len(corners) > 1 else np.inf
    reach = _NEAR
    while True:
        stop = min(k + reach, len(upper))
        # Slopes from the points of scores k - 1 to stop - 1.
        with np.errstate(divide="ignore", invalid="ignore"):  # beyond the corner
            slopes = (y1 - y[k : stop + 1] + 1) / (x1 - x[k : stop + 1] + 1)
        goes_on = (slopes[1:] > slopes[:-1]) & (slopes[1:] < limit)
        length = len(goes_on) if goes_on.all() else int(goes_on.argmin())
        upper[k : k + length] = slopes[:length]
        k += length
        if length < stop - k + length or stop == len(upper):
            corners.append((x[k] - 1, y[k] - 1))
            return k
        reach = min(2 * reach, _FAR)


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def _hull(x: FloatArray, y: FloatArray) -> list[tuple[float, float]]:
    """Return the corners of the lower convex hull of points in rising order of x."""
    widths = np.diff(x)
    slopes = isotonic_regression(np.diff(y) / widths, sample_weight=widths)
    corner = np.r_[True, np.diff(slopes) > 0, True]
    return list(zip(x[corner].tolist(), y[corner].tolist(), strict=True))
