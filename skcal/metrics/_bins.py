"""Binning of probabilities: pure functions shared by the errors and the curve.

Bins are closed on the right, ``(lower, upper]``, and the first one on both sides, as in Guo
et al. (2017) and scikit-learn: 0 falls into the first bin and 1 into the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skcal._options import check_whole
from skcal._validation import FloatArray, IntArray

Strategy = Literal["uniform", "quantile"]

# Probabilities that agree to this many decimals count as equal when bins are made. 1 - 0.7
# and 0.3 differ in the last bit, and that bit must not move a row to another bin.
_DECIMALS = 12
# The same for shares of the total weight: cumulative sums of non-integer weights round.
_SHARE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class BinStatistics:
    """What each bin holds; arrays of shape (n_bins,)."""

    weight: FloatArray
    """Sum of the weights."""
    count: IntArray
    """Number of rows with a weight above zero."""
    mean_confidence: FloatArray
    """Weighted mean probability; NaN in an empty bin."""
    event_rate: FloatArray
    """Weighted frequency of the event; NaN in an empty bin."""
    effective_count: FloatArray
    """``(sum w)^2 / sum w^2``: the rows that equal weights would need; 0 in an empty bin."""


def bin_edges(
    confidence: FloatArray, weights: FloatArray, n_bins: int, strategy: str
) -> FloatArray:
    """Return increasing edges from 0 to 1.

    ``"uniform"`` gives `n_bins` bins of equal width. ``"quantile"`` gives bins of about equal
    weight whose inner edges are observed probabilities, the smallest at which the share of
    the weight reaches 1/n_bins, 2/n_bins, ... Rows that tie share a bin, so ties may leave
    fewer than `n_bins` bins, none of them empty.
    """
    n_bins = check_whole(n_bins, "n_bins")
    if strategy == "uniform":
        return np.linspace(0.0, 1.0, n_bins + 1)
    if strategy != "quantile":
        raise ValueError(f"strategy must be 'uniform' or 'quantile'; got {strategy!r}.")
    values, _, weight = _in_order(confidence, weights)
    # Of rows that tie, it does not matter which one reaches the share.
    return _closed(values[_places(weight, n_bins)], values[-1])


def sweep_edges(
    confidence: FloatArray, event: FloatArray, weights: FloatArray, most: int
) -> FloatArray:
    """Return the edges of the largest number of equal-mass bins whose rates do not fall.

    The number grows from one and the sweep ends before the first number, at most `most`,
    at which some bin's event rate lies below the one to its left. Edges are those of
    ``"quantile"``.
    """
    values, order, weight = _in_order(confidence, weights)
    last = np.append(values[1:] > values[:-1], True)
    # Rows whose weight drowns in that of all before have no rate.
    last[last] = np.diff(weight[last], prepend=0.0) > 0
    happened = np.cumsum((weights * event)[order])[last]
    values, weight = values[last], weight[last]
    most = check_whole(most, "n_bins")

    def rates_rise(inner: IntArray) -> bool:
        ends = np.append(inner, len(values) - 1)
        rates = np.diff(happened[ends], prepend=0.0) / np.diff(weight[ends], prepend=0.0)
        return bool((np.diff(rates) > -_SHARE_TOLERANCE).all())

    finest = np.arange(len(values) - 1)
    if rates_rise(finest):
        # Then those of any bins do, and enough bins separate all probabilities.
        enough = np.diff(weight, prepend=0.0).min() * most >= weight[-1]
        best = finest if enough else _places(weight, most)
    else:
        best = finest[:0]
        for n_bins in range(2, most + 1):
            inner = np.unique(_places(weight, n_bins))
            inner = inner[inner < len(finest)]
            if not rates_rise(inner):
                break
            best = inner
    return _closed(values[best], values[-1])


def rank_order(confidence: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the probabilities in increasing order, equal ones made equal, and their rows."""
    rounded = np.round(confidence, _DECIMALS)
    order = np.argsort(rounded)
    return rounded[order], order


def _in_order(
    confidence: FloatArray, weights: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the rows with weight in increasing order, and the weight up to each of them."""
    values, order = rank_order(confidence)
    counted = weights[order] > 0
    values, order = values[counted], order[counted]
    return values, order, np.cumsum(weights[order])


def _places(weight: FloatArray, n_bins: int) -> IntArray:
    """Return where a growing weight reaches the shares 1/n_bins, 2/n_bins, ... of its last."""
    wanted = np.arange(1, n_bins) / n_bins - _SHARE_TOLERANCE
    return np.searchsorted(weight, wanted * weight[-1])


def _closed(inner: FloatArray, largest: float) -> FloatArray:
    """Return inner edges between 0 and 1."""
    inner = np.unique(inner)
    # An edge at the largest value would leave an empty bin above it.
    return np.concatenate([[0.0], inner[inner < largest], [1.0]])


def assign_bins(confidence: FloatArray, edges: FloatArray) -> IntArray:
    """Return the bin of each probability."""
    inner = np.round(edges[1:-1], _DECIMALS)
    return np.searchsorted(inner, np.round(confidence, _DECIMALS), side="left")


def bin_statistics(
    confidence: FloatArray, event: FloatArray, weights: FloatArray, edges: FloatArray
) -> BinStatistics:
    """Return what each bin holds."""
    n_bins = len(edges) - 1
    index = assign_bins(confidence, edges)

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(index, values, minlength=n_bins).astype(np.float64, copy=False)

    weight = total(weights)
    filled = weight > 0
    divisor = np.where(filled, weight, np.nan)
    # Squares of shares within a bin neither overflow nor vanish, whatever the weights' scale.
    share = weights / np.where(filled, weight, 1.0)[index]
    squares = total(share**2)
    return BinStatistics(
        weight=weight,
        count=total((weights > 0).astype(np.float64)).astype(np.intp),
        mean_confidence=total(weights * confidence) / divisor,
        event_rate=total(weights * event) / divisor,
        effective_count=np.divide(1.0, squares, out=np.zeros(n_bins), where=filled),
    )


def binned_error(weight: FloatArray, confidence: FloatArray, rate: FloatArray) -> float:
    """Return the weighted mean of ``|confidence - rate|`` over the bins that are not empty."""
    filled = weight > 0
    gap = np.abs(confidence[filled] - rate[filled])
    return float(np.average(gap, weights=weight[filled]))


def binned_and_chance_error(
    confidence: FloatArray, event: FloatArray, weights: FloatArray, n_bins: int, strategy: str
) -> tuple[float, float]:
    """Return the binned error, and about its mean if the probabilities were right."""
    edges = bin_edges(confidence, weights, n_bins, strategy)
    bins = bin_statistics(confidence, event, weights, edges)
    index = assign_bins(confidence, edges)
    spread = weights * confidence * (1 - confidence)
    normal = np.sqrt(2 / np.pi * np.bincount(index, weights * spread, minlength=len(bins.count)))
    bound = np.bincount(index, 2 * spread, minlength=len(bins.count))
    chance = np.where(bins.count > 1, np.minimum(normal, bound), bound).sum() / weights.sum()
    return binned_error(bins.weight, bins.mean_confidence, bins.event_rate), float(chance)
