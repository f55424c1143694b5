"""Cross-validation of calibrators, on clean arrays."""

from typing import Any

import numpy as np
from sklearn.base import clone

from skcal._rows import log_softmax
from skcal._validation import TINY, FloatArray, IntArray


def deal_folds(log_proba: FloatArray, codes: IntArray, n_folds: int) -> IntArray:
    """Return the fold (n,) of each row, whatever the order of the rows.

    Each fold has its share of every class. Within a class rows are sorted by their
    log-probability and then shuffled by a fixed seed. Dealt out in sorted order they would
    put the same scores into every fold, and what is noise to a curve would not be new to it
    in the fold that is left out.
    """
    own = log_proba[np.arange(len(codes)), codes]
    order = np.lexsort((own, codes))
    order = order[np.random.default_rng(0).permutation(len(order))]
    order = order[np.argsort(codes[order], kind="stable")]
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
