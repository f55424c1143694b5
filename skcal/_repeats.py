"""Intervals for means over repeated splits and seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def mean_and_half_width(
    values: Sequence[float] | NDArray[np.float64],
    test_to_train: float = 0.0,
    confidence_level: float = 0.95,
) -> tuple[float, float]:
    """Return a mean and the half-width of its Student interval; NaN for a single value.

    Scores of splits of one table are not independent, as their training rows overlap.
    ``test_to_train``, the ratio of their sizes, widens the interval for it as proposed by
    C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning, 2003;
    0 is the plain interval.
    """
    n = len(values)
    if n < 2:
        return float(np.mean(values)), float("nan")
    spread = np.std(values, ddof=1) * np.sqrt(1 / n + test_to_train)
    quantile = stats.t.ppf((1 + confidence_level) / 2, n - 1)
    return float(np.mean(values)), float(quantile * spread)
