"""Resampling of rows or groups by counts, and intervals from the resamples: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from skcal._validation import FloatArray, IntArray

# Numbers in a block of resamples: 16 megabytes.
_BLOCK = 1 << 21
# Jackknife blocks: enough for the skewness that the acceleration needs.
_JACKKNIFE = 100
# A metric that is further than this from the middle of its resamples, in standard deviations,
# is more biased than BCa can mend: its interval would collapse.
_TOO_BIASED = 1.0


@dataclass(frozen=True, eq=False)
class Units:
    """What is drawn: rows, or groups of rows that stay together."""

    of_row: IntArray
    """The unit (n,) of each row."""
    stratum: IntArray
    """The stratum (n_units,) of each unit, 0, 1, ... without gaps."""

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.stratum)

    def total(self, rows: FloatArray) -> FloatArray:
        """Return the sum (n_units,) of rows (n,) over each unit."""
        sums = np.bincount(self.of_row, rows, minlength=self.n)
        return sums.astype(np.float64, copy=False)


def make_rng(random_state: Any) -> Generator:
    """Return a generator of its own; None draws fresh entropy."""
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def blocks(n_resamples: int, width: int) -> Iterator[int]:
    """Yield numbers of resamples that fit into memory, until all are done."""
    step = max(_BLOCK // width, 1)
    for done in range(0, n_resamples, step):
        yield min(step, n_resamples - done)


def resample_counts(units: Units, n_resamples: int, rng: Generator) -> Iterator[FloatArray]:
    """Yield blocks (b, n_units) of how often each unit was drawn from its own stratum."""
    order = np.argsort(units.stratum, kind="stable")
    size = np.bincount(units.stratum)
    spread = size[units.stratum[order]]
    first = (np.cumsum(size) - size)[units.stratum[order]]
    for b in blocks(n_resamples, units.n):
        drawn = order[first + (rng.random((b, units.n)) * spread).astype(np.intp)]
        flat = (drawn + units.n * np.arange(b)[:, None]).ravel()
        counts = np.bincount(flat, minlength=b * units.n)
        yield counts.reshape(b, units.n).astype(np.float64)


def jackknife_counts(units: Units) -> FloatArray:
    """Return counts (n_blocks, n_units) that leave out one block of units each."""
    n_blocks = min(units.n, _JACKKNIFE)
    place = np.empty(units.n, dtype=np.intp)
    # Dealt out stratum by stratum, so that no block takes more than its share of one.
    place[np.argsort(units.stratum, kind="stable")] = np.arange(units.n) % n_blocks
    return (place != np.arange(n_blocks)[:, None]).astype(np.float64)


def bootstrap_interval(
    value: float,
    resampled: FloatArray,
    jackknife: Callable[[], FloatArray],
    level: float,
) -> tuple[float, float, str]:
    """Return the ends of an interval, and its kind: "bca", or "basic" for a biased metric.

    ``jackknife`` returns the metric's values without one block of units each.
    """
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    n = len(resampled)
    below = np.mean(resampled < value) + np.mean(resampled == value) / 2
    bias = ndtri(np.clip(below, 0.5 / n, 1 - 0.5 / n))
    if abs(bias) > _TOO_BIASED:
        upper, lower = 2 * value - np.quantile(resampled, tails)
        return float(lower), float(upper), "basic"
    left_out = jackknife()
    influence = left_out.mean() - left_out
    acceleration = skewness(influence) / 6
    z = bias + ndtri(tails)
    lower, upper = np.quantile(resampled, ndtr(bias + z / (1 - acceleration * z)))
    return float(lower), float(upper), "bca"


def skewness(centred: FloatArray) -> float:
    """Return ``sum x^3 / (sum x^2)^1.5``: a mean's own skewness, not that of its rows."""
    squares = float(centred @ centred)
    return float((centred**3).sum() / squares**1.5) if squares > 0 else 0.0
