"""Cross-validation of calibrators, on clean arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from skcal._rows import log_softmax
from skcal._validation import TINY, FloatArray, IntArray


def deal_folds(log_proba: FloatArray, codes: IntArray, n_folds: int) -> IntArray:
    """Return the fold (n,) of each row, whatever the order of the rows and of the classes.

    Each fold has its share of every class. Rows are sorted by the log-probability of their
    class and then shuffled by a fixed seed. Dealt out in sorted order they would put the same
    scores into every fold, and what is noise to a curve would not be new to it in the fold
    that is left out.
    """
    # Rows that tie are told apart by their other values, in whatever order these stand.
    others = np.sort(log_proba, axis=1) @ np.random.default_rng(1).random(log_proba.shape[1])
    order = np.lexsort((others, log_proba[np.arange(len(codes)), codes]))
    order = order[np.random.default_rng(0).permutation(len(order))]
    # Class by class, in the order in which they now appear.
    _, first, place = np.unique(codes[order], return_index=True, return_inverse=True)
    order = order[np.argsort(first[place], kind="stable")]
    folds = np.empty(len(codes), dtype=np.intp)
    folds[order] = np.arange(len(codes)) % n_folds
    return folds


def held_out_losses(
    calibrator: Any,
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    folds: IntArray,
) -> FloatArray:
    """Return the log-loss (n,) in nats of each row, by a map fitted on the other folds.

    Without a second fold there is no such map, and the losses are zero.
    """
    calibrator._validate_params()
    if (folds == folds[0]).all():
        return np.zeros(len(codes))
    classes = np.arange(log_proba.shape[1])
    losses = np.empty(len(codes))
    for fold in np.unique(folds):
        out, rest = folds == fold, folds != fold
        fitted = clone(calibrator).set_params(input="logits")
        fitted._learn(log_proba[rest], codes[rest], weights[rest], classes=classes, eps=TINY)
        answer = log_softmax(fitted._transform(log_proba[out]))
        losses[out] = -answer[np.arange(len(answer)), codes[out]]
    return losses
