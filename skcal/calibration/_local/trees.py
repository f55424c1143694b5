"""Small trees as plain arrays, whoever grew them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from skcal._validation import FloatArray, IntArray


class Trees(NamedTuple):
    """Trees in the order in which their leaves were split.

    Split s of a tree sends the rows of one leaf that lie above a threshold into leaf s + 1;
    the others stay. All begin in leaf 0.

    Fields
    ------
    n_splits : ndarray of shape (n_trees,)
        Of each tree, which has one leaf more.
    column, threshold, leaf : ndarray of shape (sum of n_splits,)
        Of each split, one tree after the other.
    value : ndarray of shape (sum of leaves, n_classes) or (sum of leaves, 1)
        What each leaf adds to the scores. A single value belongs to one class: the trees then
        take turns, class by class.
    """

    n_splits: IntArray
    column: IntArray
    threshold: FloatArray
    leaf: IntArray
    value: FloatArray

    def add_to(self, scores: FloatArray, columns: FloatArray) -> None:
        """Add what the trees say to scores (n, K), in place; of columns (n_columns, n)."""
        values = np.ascontiguousarray(self.value)
        n_classes, split, first = scores.shape[1], 0, 0
        for tree, n_splits in enumerate(self.n_splits.tolist()):
            place = np.zeros(len(scores), dtype=np.int16)
            for new in range(1, n_splits + 1):
                above = columns[self.column[split]] > self.threshold[split]
                above &= place == self.leaf[split]
                np.putmask(place, above, new)
                split += 1
            told = values[first : first + n_splits + 1]
            if told.shape[1] == n_classes:
                scores += told.take(place, axis=0)
            else:
                scores[:, tree % n_classes] += told[:, 0].take(place)
            first += n_splits + 1


def join_trees(parts: Sequence[Trees]) -> Trees:
    """Return all trees as one."""
    return Trees(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def part_trees(trees: Trees, n_trees: IntArray) -> Iterator[Trees]:
    """Yield that many of the trees, and then the next."""
    tree = split = leaf = 0
    for count in n_trees.tolist():
        sizes = trees.n_splits[tree : tree + count]
        splits = slice(split, split + int(sizes.sum()))
        leaves = slice(leaf, leaf + int(sizes.sum()) + count)
        yield Trees(
            sizes,
            trees.column[splits],
            trees.threshold[splits],
            trees.leaf[splits],
            trees.value[leaves],
        )
        tree, split, leaf = tree + count, splits.stop, leaves.stop
