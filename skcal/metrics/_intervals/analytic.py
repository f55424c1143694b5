"""Intervals in closed form for weighted means over rows: pure functions."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from skcal._validation import FloatArray
from skcal.metrics._events import wilson_interval
from skcal.metrics._intervals.bootstrap import Units, skewness


def mean_interval(
    rows: FloatArray, weights: FloatArray, units: Units, level: float
) -> tuple[float, float, float, float]:
    """Return a weighted mean, the ends of its interval, and its standard error.

    Student's interval after Hall's (1992) transformation, which takes the skewness out of the
    t statistic: the losses of rows have a long tail, and the plain interval is too low.
    """
    mean = float(np.average(rows, weights=weights))
    influence = units.total(weights * (rows - mean)) / weights.sum()
    size = np.bincount(units.stratum)
    centred = influence - (np.bincount(units.stratum, influence) / size)[units.stratum]
    # A stratum of one unit tells nothing of its spread, and adds none.
    correction = size / np.maximum(size - 1, 1)
    error = float(np.sqrt(centred**2 @ correction[units.stratum]))
    freedom = max(units.n - len(size), 1)
    quantiles = student.ppf([0.5 + level / 2, 0.5 - level / 2], freedom)
    lower, upper = mean - error * _untransform(quantiles, skewness(centred))
    return mean, float(lower), float(upper), error


def _untransform(x: FloatArray, skew: float) -> FloatArray:
    """Return the inverse of Hall's cubic, of which the t statistic is nearly normal."""
    if abs(skew) < 1e-6:  # where the cubic root loses more digits than the skew is worth
        return x
    return (np.cbrt(1 + skew * (x - skew / 6)) - 1) * 3 / skew


def share_interval(
    share: float, error: float, weights: FloatArray, units: Units, level: float
) -> tuple[float, float]:
    """Return Wilson's interval for a share of rows, which has a width at 0 and 1 too."""
    n = _independent_rows(share * (1 - share), error, weights, units)
    lower, upper = wilson_interval(np.array(share), np.array(n), level)
    return float(lower), float(upper)


def share_difference_interval(
    rows: FloatArray,
    difference: float,
    error: float,
    weights: FloatArray,
    units: Units,
    level: float,
) -> tuple[float, float]:
    """Return the interval of Agresti and Min (2005) for the mean of rows of -1, 0 and 1.

    Half a row is added to each way in which two models can be right or wrong: often few rows
    tell two models apart, or none.
    """
    apart = float(np.average(np.abs(rows), weights=weights))
    n = _independent_rows(apart - difference**2, error, weights, units)
    one_way = n * difference
    centre = one_way / (n + 2)
    half = ndtri(0.5 + level / 2) * np.sqrt(n * apart + 1 - one_way**2 / (n + 2)) / (n + 2)
    return max(float(centre - half), -1.0), min(float(centre + half), 1.0)


def _independent_rows(variance: float, error: float, weights: FloatArray, units: Units) -> float:
    """Return how many rows of this variance have the mean's error; without one, by weight."""
    if error > 0:
        return variance / error**2
    total = units.total(weights)
    return float(total.sum() ** 2 / (total @ total))
