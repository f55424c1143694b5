"""What the labels of the rows around say: a vote, and its bandwidth by leaving rows out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray
from skcal.calibration._local.kernel_sums import KernelSums, kernel_sums

# Rows that the search for a bandwidth leaves out one by one; more hardly move it.
_MOST_LEFT_OUT = 1_000
# Bandwidths looked at first, in mean squared distances, then where the search ends, in ln h.
_BANDWIDTHS = np.geomspace(0.003, 30.0, 9)
_TOLERANCE = 0.02
_PRIORS = 10.0 ** np.arange(-2.0, 3.5, 0.5)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# What a vanished vote still counts, so that no logarithm is infinite.
_LEAST, _LARGEST_EXPONENT = 1e-250, 600.0


class Vote(NamedTuple):
    r"""Rows whose labels vote on the class of a row, as of their distance.

    .. math:: q_k \propto \sum_j w_j K_j [y_j = k] + a \pi_k

    or, where the rows have probabilities, which say how many votes were to be expected,

    .. math:: q_k \propto p_k \, \frac{\sum_j w_j K_j [y_j = k] + a \pi_k}
              {\sum_j w_j K_j p_{jk} + a \pi_k} .

    Fields
    ------
    points : ndarray of shape (n_points, d)
    codes, weights : ndarray of shape (n_points,)
    rates : ndarray of shape (n_classes,)
        The :math:`\pi`.
    proba : ndarray of shape (n_points, n_classes), optional
        The :math:`p_j`.
    """

    points: FloatArray
    codes: IntArray
    weights: FloatArray
    rates: FloatArray
    proba: FloatArray | None

    def sums(
        self,
        queries: FloatArray,
        bandwidth: float,
        own: IntArray | None = None,
    ) -> KernelSums:
        """Return the votes, and what was to be expected; without the queries' own with `own`."""
        terms = np.zeros((len(self.codes), len(self.rates)))
        terms[np.arange(len(terms)), self.codes] = self.weights
        if self.proba is not None:
            terms = np.hstack([terms, self.weights[:, None] * self.proba])
        unit = np.sqrt(bandwidth * self.points.shape[1])
        left = None
        if own is not None:  # a row of weight two is two rows, of which one is left out
            left = own, np.maximum(self.weights[own] - 1.0, 0.0) / self.weights[own]
        return kernel_sums(queries / unit, self.points / unit, terms, left)

    def scores(self, found: KernelSums, prior: float, log_proba: FloatArray) -> FloatArray:
        """Return log-probabilities (n, K), up to a constant per row."""
        weight = prior * np.exp(np.minimum(found.nearest, _LARGEST_EXPONENT))
        added = np.maximum(weight, _LEAST)[:, None] * self.rates
        n_classes = len(self.rates)
        scores = np.log(found.sums[:, :n_classes] + added)
        if self.proba is None:
            return scores
        return log_proba + scores - np.log(found.sums[:, n_classes:] + added)


def search_vote(
    vote: Vote,
    log_proba: FloatArray,
    *,
    bandwidth: float | None,
    prior: float | None,
    seed: int,
) -> tuple[float, float]:
    """Return the bandwidth and the prior of least log-loss of rows left out one by one.

    What is given stays as it is.

    Parameters
    ----------
    vote : Vote
    log_proba : ndarray of shape (n_points, n_classes)
        Of the vote's own rows.
    bandwidth, prior : float or None
    seed : int
        Of which rows are left out, where there are many.
    """
    own = np.arange(len(vote.codes))
    if len(own) > _MOST_LEFT_OUT:
        draw = np.random.default_rng(seed)
        own = np.sort(draw.choice(own, _MOST_LEFT_OUT, replace=False))
    shares = vote.weights[own] / vote.weights[own].sum()
    rows, codes = np.arange(len(own)), vote.codes[own]
    priors = _PRIORS if prior is None else np.array([prior])

    def losses(log_h: float) -> FloatArray:
        found = vote.sums(vote.points[own], float(np.exp(log_h)), own)
        answers = (log_softmax(vote.scores(found, a, log_proba[own])) for a in priors)
        return np.array([-float(shares @ answer[rows, codes]) for answer in answers])

    if bandwidth is None:
        centred = vote.points - np.average(vote.points, axis=0, weights=vote.weights)
        spread = 2.0 * float(np.average((centred**2).mean(axis=1), weights=vote.weights))
        grid = np.log(_BANDWIDTHS * (spread if spread > 0 else 1.0))
        bandwidth = float(np.exp(lowest(lambda log_h: float(losses(log_h).min()), grid)))
    if prior is None:
        prior = float(priors[losses(float(np.log(bandwidth))).argmin()])
    return bandwidth, prior


def lowest(curve: Callable[[float], float], grid: FloatArray) -> float:
    """Return where a curve is lowest: of a grid, then by golden section beside the best of it."""
    best = int(np.argmin([curve(float(x)) for x in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = curve(left), curve(right)
    while high - low > _TOLERANCE:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = curve(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = curve(right)
    return left if at_left <= at_right else right
