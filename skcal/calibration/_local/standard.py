"""Columns on one scale."""

from __future__ import annotations

import numpy as np

from skcal._validation import FloatArray

# In standard deviations: what is further off than this is far from all rows in any case, and
# squares of it would overflow.
_FURTHEST = 1e4


def column_scale(features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and standard deviation of each column; 1 for constant ones."""
    mean = np.average(features, axis=0, weights=weights)
    scale = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weights))
    scale[~(scale > 1e-12 * np.maximum(1.0, np.abs(mean)))] = 1.0
    return mean, scale


def standardized(features: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return columns with their mean taken off, in units of their scale."""
    with np.errstate(over="ignore"):  # infinitely far is cut off, too
        return np.clip((features - mean) / scale, -_FURTHEST, _FURTHEST)
