"""Gradient boosting from given scores by LightGBM, whose trees become plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.calibration._local.tree_boosting import LONGEST_STEP, Options
from skcal.calibration._local.trees import Trees


class LightGBMBooster:
    """The rounds of :class:`TreeBooster` by LightGBM: of three classes or more, a tree for each.

    Parameters
    ----------
    features : ndarray of shape (n_columns, n_samples)
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    n_classes : int
    options : Options

    Raises
    ------
    ImportError
        If LightGBM is not installed; the error names the extra.
    """

    def __init__(
        self,
        features: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        n_classes: int,
        options: Options,
    ) -> None:
        try:
            import lightgbm
        except ImportError as error:
            raise ImportError(
                "estimator='lightgbm' needs LightGBM; install it with "
                "pip install 'skcal[boosting]', or take estimator='vector_trees'."
            ) from error
        self._lightgbm = lightgbm
        self.codes, self.weights, self.options = codes, weights, options
        self.parameters: dict[str, Any] = {
            **({"objective": "binary"} if n_classes == 2 else {"objective": "multiclass"}),
            **({} if n_classes == 2 else {"num_class": n_classes}),
            "learning_rate": options.learning_rate,
            "num_leaves": options.max_leaf_nodes,
            "min_data_in_leaf": options.min_samples_leaf,
            "lambda_l2": options.l2_regularization,
            "max_delta_step": LONGEST_STEP,
            "seed": options.seed,
            # The same trees in every fit.
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "verbosity": -1,
        }

    def boost(self, columns: FloatArray, scores: FloatArray) -> Trees:
        """Return trees to be added to scores (n, K), given all columns, the logits' last."""
        binary = scores.shape[1] == 2
        start = scores[:, 1] - scores[:, 0] if binary else scores.ravel(order="F")
        rows = self._lightgbm.Dataset(
            columns.T, self.codes, weight=self.weights, init_score=start, params=self.parameters
        )
        booster = self._lightgbm.train(self.parameters, rows, self.options.n_trees)
        return read_trees(booster.dump_model()["tree_info"], binary=binary)


def read_trees(tree_info: list[dict[str, Any]], *, binary: bool) -> Trees:
    """Return LightGBM's trees, as its ``dump_model`` tells them.

    Its splits too come in order, and its lower part keeps the number of the leaf. The margin
    of two classes is shared between them.
    """
    n_splits, splits, values = [], [], []
    for info in tree_info:
        found: dict[int, tuple[int, float, int]] = {}
        leaves: dict[int, float] = {}
        _walk(info["tree_structure"], found, leaves)
        n_splits.append(len(found))
        splits += [found[split] for split in range(len(found))]
        values += [leaves[leaf] for leaf in range(len(leaves))]
    column, threshold, leaf = zip(*splits, strict=True) if splits else ((), (), ())
    value = np.array(values)[:, None]
    return Trees(
        np.array(n_splits),
        np.array(column, dtype=np.intp),
        np.array(threshold, dtype=np.float64),
        np.array(leaf, dtype=np.intp),
        value * np.array([-0.5, 0.5]) if binary else value,
    )


def _walk(
    node: dict[str, Any], splits: dict[int, tuple[int, float, int]], leaves: dict[int, float]
) -> int:
    """Note down splits and leaves, and return the leaf that the node was before it was split."""
    if "leaf_value" in node:
        leaf = node.get("leaf_index", 0)  # a tree that is a leaf has no number for it
        leaves[leaf] = node["leaf_value"]
        return leaf
    first = _walk(node["left_child"], splits, leaves)
    _walk(node["right_child"], splits, leaves)
    splits[node["split_index"]] = node["split_feature"], node["threshold"], first
    return first
