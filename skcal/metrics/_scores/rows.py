"""The scores of single rows, for whatever needs more of a score than its mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skcal._validation import FloatArray, IntArray

RowScore = Callable[[IntArray, FloatArray], FloatArray]

# Where scikit-learn's log_loss clips float64 probabilities.
_EPS = float(np.finfo(np.float64).eps)


def true_class(codes: IntArray, proba: FloatArray) -> FloatArray:
    """Return the probability (n,) of each row's true class."""
    return proba[np.arange(len(codes)), codes]


def log_losses(codes: IntArray, proba: FloatArray) -> FloatArray:
    """Return the negative log-probability of each true class, in nats."""
    return -np.log(np.clip(true_class(codes, proba), _EPS, 1 - _EPS))


def brier_scores(codes: IntArray, proba: FloatArray) -> FloatArray:
    """Return each row's squared distance: of one column for two classes, else of all."""
    if proba.shape[1] == 2:
        return (1 - true_class(codes, proba)) ** 2
    return np.square(proba).sum(axis=1) - 2 * true_class(codes, proba) + 1


def ranked_scores(codes: IntArray, proba: FloatArray) -> FloatArray:
    """Return each row's squared distance of the cumulative probabilities, summed."""
    below = np.cumsum(proba[:, :-1], axis=1)
    happened = codes[:, None] <= np.arange(proba.shape[1] - 1)
    return np.square(below - happened).sum(axis=1)


def hits(codes: IntArray, proba: FloatArray) -> FloatArray:
    """Return 1 where the most probable class is the true one, else 0."""
    return (proba.argmax(axis=1) == codes).astype(np.float64)
