"""Rounds of boosting on features and the current logits, each followed by a temperature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcal._rows import log_softmax, mean_log_loss
from skcal._validation import FloatArray, IntArray
from skcal.calibration._fitting.temperature import find_temperature
from skcal.calibration._local.lightgbm_trees import LightGBMBooster
from skcal.calibration._local.tree_boosting import Options, TreeBooster
from skcal.calibration._local.trees import Trees

Estimator = Literal["vector_trees", "lightgbm"]
_BOOSTERS: dict[str, type[TreeBooster] | type[LightGBMBooster]] = {
    "vector_trees": TreeBooster,
    "lightgbm": LightGBMBooster,
}
# The factor of a round ends at 50, as published.
_TEMPERATURES = (0.02, 1e8)
# How often a step that raises the log-loss is halved before the rounds end.
_HALVINGS = 8
# Nats on held-out rows; separable rows would gain less and less for ever.
_LEAST_HELP = 1e-4


class Round(NamedTuple):
    """Trees that are added to the scores, and the factor by which the sum is rescaled."""

    trees: Trees
    scale: float

    def apply(self, scores: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the scores (n, K) after the round, given :func:`stack_columns` before it."""
        moved = scores.copy()
        self.trees.add_to(moved, columns)
        moved *= self.scale
        return moved


def stack_columns(features: FloatArray, n_classes: int) -> FloatArray:
    """Return features (n, d) as the first of d + K rows; the others await the logits."""
    columns = np.empty((features.shape[1] + n_classes, len(features)))
    columns[:-n_classes] = features.T
    return columns


def show_logits(columns: FloatArray, scores: FloatArray) -> None:
    """Write scores (n, K), less the mean of each row, into the last columns."""
    columns[-scores.shape[1] :] = (scores - scores.mean(axis=1, keepdims=True)).T


def boost_rounds(
    features: FloatArray,
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    estimator: Estimator,
    options: Options,
) -> Iterator[Round]:
    """Yield rounds until none lowers the log-loss of these rows.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_columns)
    log_proba : ndarray of shape (n_samples, n_classes)
        Where boosting begins.
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    estimator : {"vector_trees", "lightgbm"}
    options : Options

    Yields
    ------
    Round
    """
    n_classes = log_proba.shape[1]
    columns = stack_columns(features, n_classes)
    booster = _BOOSTERS[estimator](columns[:-n_classes], codes, weights, n_classes, options)
    scores, loss = log_proba, mean_log_loss(log_proba, codes, weights)
    while True:
        show_logits(columns, scores)
        trees = booster.boost(columns, scores)
        for _ in range(_HALVINGS):
            moved = Round(trees, 1.0).apply(scores, columns)
            # The pull towards a temperature of one bounds it on rows without an error.
            temperature = find_temperature(moved, codes, weights, bounds=_TEMPERATURES)[0]
            moved /= temperature
            after = mean_log_loss(moved, codes, weights)
            if after < loss:
                break
            trees = trees._replace(value=trees.value / 2)
        else:
            return
        scores, loss = moved, after
        yield Round(trees, 1.0 / temperature)


def held_out_gains(
    features: FloatArray,
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    folds: IntArray,
    *,
    estimator: Estimator,
    options: Options,
    max_rounds: int,
    patience: int,
) -> FloatArray:
    """Return how much log-loss (n_tried + 1, n) 0, 1, ... rounds take off, held out.

    Rounds are added in all folds at once, until the mean has hardly risen for ``patience`` + 1
    of them. Scores are temperature-scaled in each fold, as they are in a fit.
    """
    runs = [
        _Run(features, log_proba, codes, weights, folds == fold, estimator, options)
        for fold in np.unique(folds)
    ]
    gains, best, idle = [np.zeros(len(codes))], 0.0, 0
    while len(gains) <= max_rounds and idle <= patience:
        gain = np.empty(len(codes))
        for run in runs:
            gain[run.out] = run.go_on()
        gains.append(gain)
        mean = float(gain @ weights / weights.sum())
        best, idle = (mean, 0) if mean > best + _LEAST_HELP else (best, idle + 1)
    return np.array(gains)


class _Run:
    """The rounds without one fold, and what they make of its rows."""

    def __init__(
        self,
        features: FloatArray,
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        out: NDArray[np.bool_],
        estimator: Estimator,
        options: Options,
    ) -> None:
        rest = ~out
        temperature = find_temperature(log_proba[rest], codes[rest], weights[rest])[0]
        self.rounds = boost_rounds(
            features[rest],
            log_softmax(log_proba[rest] / temperature),
            codes[rest],
            weights[rest],
            estimator=estimator,
            options=options,
        )
        self.out = np.flatnonzero(out)
        self.own = np.arange(len(self.out)), codes[out]
        self.columns = stack_columns(features[out], log_proba.shape[1])
        self.scores = log_softmax(log_proba[out] / temperature)
        self.before = self.scores[self.own]

    def go_on(self) -> FloatArray:
        """Take the next round, if there is one, and return the gains so far."""
        step = next(self.rounds, None)
        if step is not None:
            show_logits(self.columns, self.scores)
            self.scores = step.apply(self.scores, self.columns)
        return log_softmax(self.scores)[self.own] - self.before
