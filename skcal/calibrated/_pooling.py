"""The mean of calibrated models, and what it does to their confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.utils import Bunch

from skcal._validation import TINY, FloatArray, IntArray, encode_labels
from skcal.calibrated._folds import as_input
from skcal.calibrated._scores import Scores
from skcal.calibrated._splits import Split
from skcal.calibration._fitting.temperature import find_temperature


class Pool:
    """The mean of several models' probabilities, arithmetic or geometric, row by row.

    In a geometric mean a class counts with the models that know it; in an arithmetic one it
    has probability zero with the others.
    """

    def __init__(self, shape: tuple[int, int], pooling: str) -> None:
        self.geometric = pooling == "logit"
        self.total, self.counts = np.zeros(shape), np.zeros(shape)

    def add(self, proba: FloatArray, rows: IntArray | slice, columns: IntArray) -> None:
        """Add what one model says of some rows and some classes."""
        rows = np.arange(len(self.total))[rows]
        where = np.ix_(rows, columns)
        self.total[where] += np.log(np.maximum(proba, TINY)) if self.geometric else proba
        self.counts[where if self.geometric else rows] += 1

    def mean(self) -> FloatArray:
        """Return means of probabilities, or of their logarithms."""
        unknown = np.full(self.total.shape, np.log(TINY) if self.geometric else 0.0)
        return np.divide(self.total, self.counts, out=unknown, where=self.counts > 0)

    def log_proba(self) -> FloatArray:
        mean = self.mean() if self.geometric else np.log(np.maximum(self.mean(), TINY))
        return log_softmax(mean, axis=1)

    def proba(self, temperature: float) -> FloatArray:
        if not self.geometric and temperature == 1.0:
            return self.mean()
        return softmax(self.log_proba() / temperature, axis=1)


def find_pooling_temperature(
    pairs: list[Bunch],
    splits: list[Split],
    scores: list[Scores],
    y: NDArray[Any],
    weights: FloatArray | None,
    classes: NDArray[Any],
    pooling: str,
) -> float:
    r"""Return the temperature of the mean of all models, or 1.0 where it cannot be measured.

    The mean of M calibrated models is under-confident, since their errors cancel in part.
    Where a splitter holds a row out of r > 1 models, their mean on that row is as honest as
    a new row's, and the best temperature :math:`T_r` of such means is found as in
    :class:`~skcal.TemperatureScaling`. The variance that averaging removes goes with
    1 - 1/r, which gives all M models :math:`\ln T = \ln T_r (1 - 1/M) / (1 - 1/r)`, with the
    mean of 1 - 1/r over the rows (our choice).
    """
    counts = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    rows = np.flatnonzero(counts > 1)
    # The map of other rows, below, may read features in the space of another network.
    if len(rows) == 0 or any(part.features is not None for part in scores):
        return 1.0
    codes = encode_labels(y, classes)
    pool = Pool((len(y), len(classes)), pooling)
    for number, ((_, test), part) in enumerate(zip(splits, scores, strict=True)):
        calibrator = _map_of_other_rows(pairs, splits, number)
        columns = encode_labels(pairs[number].estimator.classes_, classes)
        pool.add(calibrator.predict_proba(as_input(calibrator, part)), test, columns)
    counted = np.ones(len(rows)) if weights is None else weights[rows]
    if not counted.any():
        return 1.0
    temperature, _, _ = find_temperature(pool.log_proba()[rows], codes[rows], counted)
    exponent = (1 - 1 / len(splits)) / (1 - np.average(1 / counts[rows], weights=counted))
    return float(temperature**exponent)


def _map_of_other_rows(pairs: list[Bunch], splits: list[Split], number: int) -> Any:
    """Return the map of the next fold that has no row in common with this one.

    A map looks better on its own rows than it is, which would hide what is measured.
    """
    known = pairs[number].estimator.classes_
    for step in range(1, len(splits)):
        other = (number + step) % len(splits)
        apart = len(np.intersect1d(splits[number][1], splits[other][1])) == 0
        if apart and np.array_equal(pairs[other].estimator.classes_, known):
            return pairs[other].calibrator
    return pairs[number].calibrator
