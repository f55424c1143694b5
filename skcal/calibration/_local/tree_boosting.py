"""Gradient boosting from given scores, by trees whose leaves hold a value for every class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from skcal._rows import softmax
from skcal._validation import TINY, FloatArray, IntArray
from skcal.calibration._local.trees import Trees, join_trees

# Ranges into which a column is cut.
_N_BINS = 64
# A leaf where every row is surely wrong has a slope and hardly a curvature.
LONGEST_STEP = 4.0

# Sums looked at together, so that they stay in the processor's cache.
_BLOCK = 1 << 16
_NOTHING = np.empty(0)
_NO_SPLIT = -np.inf, 0, 0
# In nats; less is rounding.
_LEAST_GAIN = 1e-9
# Classes whose sums a tree's splits heed; the others take their turn.
_CLASSES_AT_ONCE = 16


class Options(NamedTuple):
    """What one round of boosting is asked for; see :class:`MultiCalibration`."""

    n_trees: int
    learning_rate: float
    max_leaf_nodes: int
    min_samples_leaf: int
    l2_regularization: float
    seed: int


class TreeBooster:
    r"""Boosting by Newton steps on the log-loss of all classes at once.

    A tree is grown best leaf first on histograms of the slopes :math:`g_k = w (p_k - [y = k])`
    and curvatures :math:`h_k = w p_k (1 - p_k)`: a split is worth

    .. math:: \sum_k \frac{G_{Lk}^2}{H_{Lk} + \lambda} + \frac{G_{Rk}^2}{H_{Rk} + \lambda}
              - \frac{G_k^2}{H_k + \lambda},

    and a leaf adds :math:`-\frac{K - 1}{K} \frac{G_k}{H_k + \lambda}` times the learning rate,
    which for two classes is Newton's step of their margin. One tree for all classes costs a
    fraction of one for each; of more than 16 classes, splits heed a part, which changes from
    tree to tree, and leaves all of them. Nothing is drawn.

    Parameters
    ----------
    features : ndarray of shape (n_columns, n_samples)
        Columns that stay what they are from round to round.
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    n_classes : int
    options : Options
    """

    def __init__(
        self,
        features: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        n_classes: int,
        options: Options,
    ) -> None:
        self.codes, self.weights, self.options = codes, weights, options
        n_columns, n = features.shape[0] + n_classes, features.shape[1]
        self.edges: list[FloatArray] = []
        self.bins = np.empty((n, n_columns), dtype=np.int32)
        for column, values in enumerate(features):
            self._cut(column, values, weights)
        # A row's ones stand in its bins; as many in each row, so that only their places change.
        self.ones = np.ones(n * n_columns)
        self.starts = np.arange(0, n * n_columns + 1, n_columns)

    def boost(self, columns: FloatArray, scores: FloatArray) -> Trees:
        """Return trees to be added to scores (n, K), given all columns, the logits' last."""
        n, n_classes = scores.shape
        n_features = len(columns) - n_classes
        del self.edges[n_features:]
        # Logits are cut where they matter: of many classes, most rows hardly belong to one.
        proba = softmax(scores, TINY)
        for column, share in enumerate(proba.T, start=n_features):
            self._cut(column, columns[column], self.weights * (share * (1.0 - share) + 1e-3))
        # Places never go back: the columns' ranges follow each other.
        table = csr_matrix(
            (self.ones, self.bins.ravel(), self.starts), shape=(n, len(columns) * _N_BINS)
        )
        scores, grown = scores.copy(), []
        rows, weights = np.arange(n), self.weights[:, None]
        # Of many classes, each tree's splits heed some, and the next tree's the others.
        turns = -(-n_classes // _CLASSES_AT_ONCE)
        for tree in range(self.options.n_trees):
            proba = softmax(scores, TINY)
            curvature = weights * proba * (1.0 - proba)
            proba[rows, self.codes] -= 1.0
            slope = weights * proba
            some = slice(tree % turns, None, turns)
            channels = np.hstack([slope[:, some], curvature[:, some], weights])
            splits, members = self._grow(columns, table, channels)
            value = self._leaf_values(slope, curvature, members)
            for leaf, inside in enumerate(members):
                scores[inside] += value[leaf]
            grown.append(Trees(np.array([len(members) - 1]), *splits, value))
        return join_trees(grown)

    def _leaf_values(
        self, slope: FloatArray, curvature: FloatArray, members: list[IntArray]
    ) -> FloatArray:
        n_classes = slope.shape[1]
        slopes = np.array([slope[rows].sum(axis=0) for rows in members])
        curvatures = np.array([curvature[rows].sum(axis=0) for rows in members])
        step = -slopes / (curvatures + self.options.l2_regularization + TINY)
        step *= (n_classes - 1) / n_classes
        return self.options.learning_rate * np.clip(step, -LONGEST_STEP, LONGEST_STEP)

    def _cut(self, column: int, values: FloatArray, weights: FloatArray) -> None:
        """Cut a column into ranges of about equal weight."""
        edges = _quantile_edges(values, weights)
        self.edges.append(edges)
        self.bins[:, column] = np.searchsorted(edges, values) + column * _N_BINS

    def _grow(
        self, columns: FloatArray, table: csr_matrix, channels: FloatArray
    ) -> tuple[tuple[IntArray, FloatArray, IntArray], list[IntArray]]:
        """Return columns, thresholds and leaves of the splits, and the rows of each leaf."""
        most = self.options.max_leaf_nodes
        members, total = [np.arange(len(channels))], channels.sum(axis=0)
        histograms = [table.T @ channels if self._is_large(total) else _NOTHING]
        best = [self._best_split(histograms[0], total)]
        column, threshold, parent = [], [], []
        while len(members) < most:
            leaf = max(range(len(best)), key=lambda one: best[one][0])
            gain, split, edge = best[leaf]
            if gain <= _LEAST_GAIN:
                break
            column.append(split)
            threshold.append(float(self.edges[split][edge]))
            parent.append(leaf)
            rows, new = members[leaf], len(members)
            above = columns[split, rows] > threshold[-1]
            members[leaf] = rows[~above]
            members.append(rows[above])
            if len(members) == most:
                break  # leaves that stay leaves need no histogram
            parts = {one: channels[members[one]] for one in (leaf, new)}
            totals = {one: part.sum(axis=0) for one, part in parts.items()}
            histograms.append(_NOTHING)
            best.append(_NO_SPLIT)
            if any(self._is_large(total) for total in totals.values()):
                # Of the smaller part; the other's is what is left.
                small, large = sorted(parts, key=lambda one: len(members[one]))
                part = table[members[small]].T @ parts[small]
                histograms[large] = histograms[leaf] - part
                histograms[small] = part
            for one in parts:
                best[one] = self._best_split(histograms[one], totals[one])
        splits = (
            np.array(column, dtype=np.intp),
            np.array(threshold, dtype=np.float64),
            np.array(parent, dtype=np.intp),
        )
        return splits, members

    def _is_large(self, total: FloatArray) -> bool:
        return bool(total[-1] >= 2 * (1 - 1e-9) * self.options.min_samples_leaf)

    def _best_split(self, histogram: FloatArray, total: FloatArray) -> tuple[float, int, int]:
        """Return the gain, the column and the edge."""
        if not self._is_large(total):
            return _NO_SPLIT
        n_classes, penalty = len(total) // 2, self.options.l2_regularization + TINY
        least = (1 - 1e-9) * self.options.min_samples_leaf  # sums come with rounding
        found = _NO_SPLIT
        histogram = histogram.reshape(-1, _N_BINS, len(total))
        step = max(1, _BLOCK // (_N_BINS * len(total)))
        for start in range(0, len(histogram), step):
            below = histogram[start : start + step, :-1].cumsum(axis=1)
            weight = below[..., -1]
            enough = (weight >= least) & (total[-1] - weight >= least)
            if not enough.any():
                continue
            gains = _worth(below, n_classes, penalty)
            gains += _worth(total - below, n_classes, penalty)
            gains[~enough] = -np.inf
            column, edge = divmod(int(gains.argmax()), _N_BINS - 1)
            gain = float(gains[column, edge]) - float(_worth(total, n_classes, penalty))
            if gain > found[0]:
                found = gain, start + column, edge
        return found


def _worth(sums: FloatArray, n_classes: int, penalty: float) -> FloatArray:
    """Return the squared slopes by the curvatures, of all classes, of sums (..., 2 K + 1)."""
    # Curvatures that subtraction left below zero are zero.
    curvature = np.maximum(sums[..., n_classes:-1], 0.0)
    curvature += penalty
    ratio = np.square(sums[..., :n_classes])
    ratio /= curvature
    return ratio @ np.ones(n_classes)


def _quantile_edges(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return at most 63 thresholds, halfway between values, with equal weight in between."""
    order = np.argsort(values, kind="stable")
    ordered, reached = values[order], weights[order].cumsum()
    ends = np.flatnonzero(ordered[1:] > ordered[:-1])
    if len(ends) >= _N_BINS:
        wanted = reached[-1] * np.arange(1, _N_BINS) / _N_BINS
        near = np.searchsorted(reached[ends], wanted * (1 - 1e-12))
        ends = ends[np.unique(near[near < len(ends)])]
    # A half of each, as sums of large values may overflow.
    return ordered[ends] / 2 + ordered[ends + 1] / 2
