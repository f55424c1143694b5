"""Scales of numbers, learned from weighted rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.preprocessing import StandardScaler

FloatArray = NDArray[np.float64]

SCALINGS = ("robust", "standard", "quantile")
# No row of fewer than 1e12 lies this many standard deviations from the mean of its table. A
# row that does can only come later, and must not overflow in a network.
_FARTHEST = 1e6
# Squares of numbers beyond 1e154 overflow, and below 1e-162 vanish. Columns whose largest
# number is beyond two to this power, or below its inverse, are brought to about one first.
_UNUSUAL = 300
# Sums of weights that should be equal differ by rounding. Less than one row in 1e10.
_TIE = 1e-10
# What a column is remembered by, with scaling="quantile".
_MOST_KNOTS = 1000
# As in scikit-learn's QuantileTransformer: normal scores stay within 5.2.
_LEAST_SHARE = 1e-7


@dataclass
class NumberScaler:
    """What ``fit`` learned of the numeric columns.

    Attributes
    ----------
    scaling : {"robust", "standard", "quantile"}
    exponent : ndarray of shape (n_columns,), int
        Columns are divided by two to this power first, which costs no digit.
    center, spread : ndarray of shape (n_columns,)
        Scaled numbers are ``(x - center) / spread``. The spread of a silent column is
        infinite, so that all of its numbers become zeros.
    knots : list of (values, shares)
        With "quantile": values in ascending order, and which share of the rows lies below.
    """

    scaling: str
    exponent: NDArray[np.intp]
    center: FloatArray
    spread: FloatArray
    knots: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    @classmethod
    def fit(cls, numbers: FloatArray, weights: FloatArray | None, scaling: str) -> Self:
        """Learn from a matrix with NaN for missing cells, and from positive weights.

        Only the proportions of the weights matter; the largest should be about one.
        """
        n_columns = numbers.shape[1]
        exponent = np.frexp(np.nanmax(np.abs(numbers), axis=0, initial=0.0))[1].astype(np.intp)
        exponent[np.abs(exponent) <= _UNUSUAL] = 0
        scaler = cls(scaling, exponent, np.zeros(n_columns), np.full(n_columns, np.inf))
        numbers = scaler._near_one(numbers)
        varies = np.zeros(n_columns, dtype=bool)
        for j, column in enumerate(numbers.T):
            present = ~np.isnan(column)
            ordered, below = _ascending(
                column[present], None if weights is None else weights[present]
            )
            # A column of one value teaches nothing: another value later must not say anything.
            # Nor does a column without a single number.
            varies[j] = len(ordered) > 0 and ordered[0] < ordered[-1]
            if scaling == "quantile":
                scaler.knots.append(_knots(ordered, below) if varies[j] else _SILENT)
            elif scaling == "robust" and varies[j]:
                scaler.center[j], scaler.spread[j] = _median_and_spread(ordered, below)
        if scaling == "standard" and varies.any():
            known = StandardScaler().fit(numbers[:, varies], sample_weight=weights)
            scaler.center[varies], scaler.spread[varies] = known.mean_, known.scale_
        scaler.exponent[~varies] = 0
        return scaler

    def transform(self, numbers: FloatArray) -> FloatArray:
        """Scale a matrix of finite numbers; NaN stays NaN."""
        with np.errstate(over="ignore"):
            numbers = self._near_one(numbers)
            if self.scaling == "quantile":
                return _normal_scores(numbers, self.knots)
            scaled = (numbers - self.center) / self.spread
        np.clip(scaled, -_FARTHEST, _FARTHEST, out=scaled)
        if self.scaling == "robust":
            scaled /= np.sqrt(1.0 + (scaled / 3.0) ** 2)
        return scaled

    def _near_one(self, numbers: FloatArray) -> FloatArray:
        return np.ldexp(numbers, -self.exponent) if self.exponent.any() else numbers


def weighted_quantiles(
    values: FloatArray, shares: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    r"""Return quantiles, in which a weight of two counts a value twice.

    The smallest value with at least the share :math:`q` of all weight at or below it, or the
    midpoint between it and the next one when that share is :math:`q` itself: numpy's
    ``method="averaged_inverted_cdf"``. Unlike numpy's default it depends on the proportions
    of the weights alone.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Without NaN; at least one.
    shares : ndarray of shape (m,)
        Between 0 and 1.
    weights : ndarray of shape (n,), optional
        Positive.

    Returns
    -------
    ndarray of shape (m,)
    """
    return _quantiles(*_ascending(values, weights), shares)


def _ascending(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return values in ascending order, and the weight of each and all before it."""
    if weights is None:
        return np.sort(values), np.arange(1.0, len(values) + 1.0)
    order = np.argsort(values, kind="stable")
    return values[order], np.cumsum(weights[order])


def _quantiles(ordered: FloatArray, below: FloatArray, shares: FloatArray) -> FloatArray:
    target, tie = shares * below[-1], _TIE * below[-1]
    low = ordered[np.searchsorted(below, target - tie)]
    next_one = np.searchsorted(below, target + tie, side="right")
    high = ordered[np.minimum(next_one, len(ordered) - 1)]
    return high - 0.5 * (high - low)


def _median_and_spread(ordered: FloatArray, below: FloatArray) -> tuple[float, float]:
    """Return the median, and the interquartile range or else half of the whole range."""
    first, median, third = _quantiles(ordered, below, np.array([0.25, 0.5, 0.75]))
    spread = third - first
    return median, spread if spread > 0 else (ordered[-1] - ordered[0]) / 2.0


def _knots(ordered: FloatArray, below: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return distinct values, and the share of weight below each plus half of its own."""
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    values, upper = ordered[last], below[last]
    shares = (upper + np.append(0.0, upper[:-1])) / 2.0 / below[-1]
    if len(values) > _MOST_KNOTS:
        levels = np.linspace(shares[0], shares[-1], _MOST_KNOTS)
        kept = np.unique(np.searchsorted(shares, levels - _TIE))
        values, shares = values[kept], shares[kept]
    return values, np.clip(shares, _LEAST_SHARE, 1.0 - _LEAST_SHARE)


_SILENT = (np.zeros(1), np.full(1, 0.5))


def _normal_scores(numbers: FloatArray, knots: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    shares = np.empty_like(numbers)
    for j, (values, known) in enumerate(knots):
        # Between two knots that all but touch, interpolation overflows.
        shares[:, j] = np.clip(np.interp(numbers[:, j], values, known), known[0], known[-1])
    return ndtri(shares)
