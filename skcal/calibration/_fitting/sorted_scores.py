"""Scores in rising order: equal ones as one, and bins of them."""

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


def quantile_bins(x: FloatArray, counts: FloatArray, n_bins: int) -> tuple[FloatArray, IntArray]:
    """Return the lower edges of bins of about equal weight, and where among x (m,) they begin.

    A value belongs to the bin in which the middle of its weight lies.
    """
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    bins = np.minimum((middle * n_bins).astype(np.intp), n_bins - 1)
    first = np.flatnonzero(np.r_[True, np.diff(bins) > 0])
    return np.r_[x[0], (x[first[1:] - 1] + x[first[1:]]) / 2], first


def find_bins(edges: FloatArray, values: FloatArray) -> IntArray:
    """Return the bin of each value, given the bins' lower edges; below the first is in it."""
    return np.maximum(np.searchsorted(edges, values, side="right") - 1, 0)
