"""Bins of numbers, for their piecewise-linear embeddings."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

# A leaf of a tree holds at least this share of the rows.
_LEAF_SHARE = 0.005
_LEAST_GAIN = 1e-4
# Sums of weights in single precision: what is nearer to a share than this has reached it.
_SLACK = 1e-6
# Edges are shares of the rows; this many show them.
_MOST_ROWS = 100_000


def bin_edges(
    numbers: NDArray[np.floating],
    weights: NDArray[np.floating],
    n_bins: int,
    codes: NDArray[np.int64] | None = None,
) -> list[Tensor]:
    """Return the sorted distinct edges of each column's bins.

    Parameters
    ----------
    numbers : ndarray of shape (n, d)
        No missing cells.
    weights : ndarray of shape (n,)
        A row of weight two counts as two rows.
    n_bins : int
        Most bins per column.
    codes : ndarray of shape (n,), optional
        Class codes: bins are then the leaves of a decision tree on the column alone. Without
        them, a value that many rows share (a zero that means "none") is an edge of its own,
        and the other edges cut the other rows into equal shares.

    Returns
    -------
    list of d Tensors
        Of the type of ``numbers``; from the least to the greatest value, and a single edge for
        a column of one value.
    """
    if (weights == 0).any():
        numbers, codes = numbers[weights > 0], None if codes is None else codes[weights > 0]
        weights = weights[weights > 0]
    lowest, highest = numbers.min(axis=0), numbers.max(axis=0)
    if len(numbers) > _MOST_ROWS:
        # Rows at random, always the same: every k-th row would miss what repeats with the file.
        chosen = np.random.default_rng(0).choice(len(numbers), _MOST_ROWS, replace=False)
        numbers, weights = numbers[chosen], weights[chosen]
        codes = None if codes is None else codes[chosen]
    edges = []
    for column, low, high in zip(numbers.T, lowest, highest, strict=True):
        inner = (
            _shares(column, weights, n_bins)
            if codes is None
            else _thresholds(column, codes, weights, n_bins)
        )
        all_edges = np.concatenate([[low], inner, [high]]).astype(numbers.dtype)
        edges.append(torch.from_numpy(np.unique(all_edges)))
    return edges


def _shares(
    column: NDArray[np.floating], weights: NDArray[np.floating], n_bins: int
) -> NDArray[np.floating]:
    """Return at most n_bins - 1 edges: the heavy values, and quantiles of the light ones.

    Plain quantiles fall on a heavy value again and again, and leave hardly an edge to the rest,
    where it may matter most: nine in ten people have no capital gains.
    """
    values, place = np.unique(column, return_inverse=True)
    mass = np.bincount(place, weights=weights)
    is_heavy = np.zeros(len(values), dtype=bool)
    n_left = n_bins
    while n_left > 1:
        new = ~is_heavy & (mass > mass[~is_heavy].sum() / n_left * (1 + _SLACK))
        # A heavy value takes a bin, and leaves one that the light ones share.
        new[np.flatnonzero(new)[n_left - 1 :]] = False
        if not new.any():
            break
        is_heavy |= new
        n_left = n_bins - int(is_heavy.sum())
    reached = np.cumsum(np.where(is_heavy, 0.0, mass))
    shares = np.arange(1, n_left) / n_left * reached[-1]
    # The slack is for sums that should equal a share, and round below it.
    light = np.searchsorted(reached, shares * (1 - _SLACK), side="left")
    return np.concatenate([values[is_heavy], values[light] if reached[-1] > 0 else values[:0]])


def _thresholds(
    column: NDArray[np.floating],
    codes: NDArray[np.int64],
    weights: NDArray[np.floating],
    n_bins: int,
) -> NDArray[np.float64]:
    tree = DecisionTreeClassifier(
        max_leaf_nodes=n_bins,
        min_weight_fraction_leaf=_LEAF_SHARE,
        min_impurity_decrease=_LEAST_GAIN,
        random_state=0,
    )
    split = tree.fit(column[:, None], codes, sample_weight=weights).tree_
    return split.threshold[split.children_left != split.children_right]
