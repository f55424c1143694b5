"""The best temperature, on clean arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skcal._rows import row_blocks, row_max
from skcal._validation import FloatArray, IntArray

_MAX_ITER = 200
_LONGEST_STEP = 2.0  # in ln T: far from the optimum the objective is no parabola
_PATIENCE = 15
# Above this many rows the search starts from the answer of a share of them.
_MANY_ROWS, _FEW_ROWS = 20_000, 4_000


def find_temperature(
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    shrinkage: float = 1.0,
    bounds: tuple[float, float] = (1e-7, 1e7),
) -> tuple[float, int, bool]:
    """Return the best temperature, the evaluations, and whether it lies inside the bounds.

    Parameters and objective are those of :class:`TemperatureScaling`, on clean arrays.
    """
    low, high = -float(np.log(bounds[1])), -float(np.log(bounds[0]))
    of = _derivatives_of_two if log_proba.shape[1] == 2 else _derivatives_of_many
    derivatives = of(log_proba, codes, weights)
    start, n_iter = 0.0, 0
    some = slice(None, None, len(codes) // _FEW_ROWS)
    if len(codes) > _MANY_ROWS and weights[some].any():
        # The answer of a share of the rows is a good start.
        temperature, n_iter, _ = find_temperature(
            log_proba[some], codes[some], weights[some], shrinkage=0.0, bounds=bounds
        )
        start = -float(np.log(temperature))
    if shrinkage > 0:
        # From T = 1 the pull would hide an optimum that is far off, as of tiny logits.
        start, more, _ = _root(derivatives, start, low, high, 0.0)
        n_iter += more
    log_inverse, more, inside = _root(derivatives, start, low, high, shrinkage)
    return float(np.exp(-log_inverse)), n_iter + more, inside


# Two derivatives of the log-loss with respect to 1/T, as a function of 1/T.
_Derivatives = Callable[[float], tuple[float, float]]


def _root(
    derivatives: _Derivatives, start: float, low: float, high: float, shrinkage: float
) -> tuple[float, int, bool]:
    """Return the root in ln(1/T), the evaluations, and whether it is inside the bounds.

    Newton's method inside a bracket.
    """
    bounds = low, high
    at_high = at_low = False  # whether the ends of the bracket have been looked at
    here = min(max(start, low), high)
    for n_iter in range(1, _MAX_ITER + 1):
        inverse = np.exp(here)
        first, second = derivatives(inverse)
        pull, bend = _pull(here)
        slope = inverse * first + shrinkage * pull
        # Scores that are equal within each row tell nothing about T.
        if slope == 0.0:
            return here, n_iter, n_iter > 1 or here == start
        if here == bounds[0 if slope > 0 else 1]:
            return here, n_iter, False
        if slope > 0:
            high, at_high = here, True
        else:
            low, at_low = here, True
        curvature = inverse * (second * inverse + first) + shrinkage * bend
        closed = at_low and at_high
        if curvature > 0 and (closed or n_iter < _PATIENCE):
            step = -slope / curvature
        else:  # far off, where the derivative fades like an exponential and steps are tiny
            step = -_LONGEST_STEP * np.sign(slope)
        there = here + min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
        if there >= high:
            there = (here + high) / 2 if at_high else high
        elif there <= low:
            there = (here + low) / 2 if at_low else low
        if abs(there - here) < 1e-9:  # The next step would be about its square.
            return there, n_iter, True
        here = there
    return here, n_iter, False


def _pull(log_inverse: float) -> tuple[float, float]:
    """Return two derivatives of r with respect to ln(1/T)."""
    strength, width = (6.0, 2.0) if log_inverse > 0 else (1.0, 8.0)
    whole = width + log_inverse**2
    slope = 2 * strength * log_inverse / whole
    return slope, 2 * strength * (width - log_inverse**2) / whole**2


def _derivatives_of_two(
    log_proba: FloatArray, codes: IntArray, weights: FloatArray
) -> _Derivatives:
    """Return the derivatives for two classes, which have one score: the margin of the first."""
    margin = log_proba[:, 0] - log_proba[:, 1]
    moved = weights * margin
    wanted = float(moved @ (codes == 0))

    def derivatives(inverse: float) -> tuple[float, float]:
        first = second = 0.0
        for rows in row_blocks((len(margin), 1)):
            part, size = margin[rows], moved[rows]
            small = np.exp(-np.abs(inverse * part))
            whole = 1 + small
            first += float(size @ (np.where(part >= 0, 1.0, small) / whole))
            second += float((size * part) @ (small / whole**2))
        return first - wanted, second

    return derivatives


def _derivatives_of_many(
    log_proba: FloatArray, codes: IntArray, weights: FloatArray
) -> _Derivatives:
    """Return the derivatives for any number of classes, block by block."""
    shape, ones = log_proba.shape, np.ones(log_proba.shape[1])
    top = np.empty(len(codes))
    for rows in row_blocks(shape):
        top[rows] = row_max(log_proba[rows])
    wanted = float(weights @ (log_proba[np.arange(len(codes)), codes] - top))

    def derivatives(inverse: float) -> tuple[float, float]:
        first = second = 0.0
        for rows in row_blocks(shape):
            # Scores are at most zero, so no power overflows, and each row has one that is 1.
            scores = log_proba[rows] - top[rows, None]
            powers = np.exp(inverse * scores)
            sums = powers @ ones
            powers *= scores
            mean = (powers @ ones) / sums
            powers *= scores
            first += float(weights[rows] @ mean)
            second += float(weights[rows] @ ((powers @ ones) / sums - mean**2))
        return first - wanted, second

    return derivatives
