"""Scores in rising order, equal ones as one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcal._validation import FloatArray, IntArray


class Distinct(NamedTuple):
    """The distinct values of a column, and where its rows went."""

    x: FloatArray
    """The m distinct values, in rising order."""
    weight: FloatArray
    """The sum of the weights at each."""
    mean: FloatArray
    """The weighted mean of the targets at each."""
    order: IntArray
    """The n rows in the order of their values."""
    sizes: IntArray | None
    """How many rows each value has; None for one each."""

    def to_rows(self, values: FloatArray) -> FloatArray:
        """Return (n,) what belongs to the distinct values (m,), row by row."""
        rows = np.empty(len(self.order))
        rows[self.order] = values if self.sizes is None else np.repeat(values, self.sizes)
        return rows


def merge_ties(x: FloatArray, targets: FloatArray, weights: FloatArray) -> Distinct:
    """Return the distinct values of x (n,), with the targets and weights at each."""
    order = np.argsort(x)
    x, targets, weights = x[order], targets[order], weights[order]
    new = np.r_[True, x[1:] > x[:-1]]
    if new.all():
        return Distinct(x, weights, targets, order, None)
    first = np.flatnonzero(new)
    weight = np.add.reduceat(weights, first)
    mean = np.add.reduceat(weights * targets, first) / weight
    return Distinct(x[first], weight, mean, order, np.diff(np.r_[first, len(x)]))
