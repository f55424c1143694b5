"""Bins of numbers, for their piecewise-linear embeddings."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

# A leaf of a tree holds at least this many rows, or a fiftieth of them if that is less.
_LEAF_ROWS = 64
_LEAF_SHARE = 50
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
        Class codes: bins are then the leaves of a decision tree on the column alone, else
        they hold equal shares of the rows.

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
            _quantiles(column, weights, n_bins)
            if codes is None
            else _thresholds(column, codes, weights, n_bins)
        )
        all_edges = np.concatenate([[low], inner, [high]]).astype(numbers.dtype)
        edges.append(torch.from_numpy(np.unique(all_edges)))
    return edges


def _quantiles(
    column: NDArray[np.floating], weights: NDArray[np.floating], n_bins: int
) -> NDArray[np.floating]:
    """Return the values below which lie 1/n_bins, 2/n_bins, ... of the weight."""
    order = np.argsort(column, kind="stable")
    reached = np.cumsum(weights[order], dtype=np.float64)
    shares = np.arange(1, n_bins) / n_bins * reached[-1]
    # The slack is for sums that should equal a share, and round below it.
    return column[order][np.searchsorted(reached, shares * (1 - _SLACK), side="left")]


def _thresholds(
    column: NDArray[np.floating],
    codes: NDArray[np.int64],
    weights: NDArray[np.floating],
    n_bins: int,
) -> NDArray[np.float64]:
    tree = DecisionTreeClassifier(
        max_leaf_nodes=n_bins,
        min_weight_fraction_leaf=min(_LEAF_ROWS / weights.sum(), 1 / _LEAF_SHARE),
        min_impurity_decrease=_LEAST_GAIN,
        random_state=0,
    )
    split = tree.fit(column[:, None], codes, sample_weight=weights).tree_
    return split.threshold[split.children_left != split.children_right]
