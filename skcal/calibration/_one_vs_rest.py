"""One-dimensional maps, one per class against the rest."""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator


class OneVsRestMap(BaseCalibrator):
    """Base of maps of one probability: the second class of two, or each class against the rest.

    A map implements ``_fit_column(log_odds, hit, weights)``, which returns what it learned,
    and ``_map_column(learned, log_odds)``, which returns calibrated log-odds. With more than
    two classes the calibrated probabilities are divided by their sum. A class without a
    single row, or with all of them, keeps its own probability.
    """

    @abstractmethod
    def _fit_column(self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray) -> Any:
        """Learn from log-odds (n,), 0/1 outcomes (n,) and weights (n,)."""

    @abstractmethod
    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        """Return calibrated log-odds (n,)."""

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        odds = log_odds(log_proba)
        self.maps_ = []
        for column in _mapped(odds):
            hit = (codes == column).astype(np.float64)
            self.maps_.append(
                self._fit_column(odds[:, column], hit, weights)
                if 0 < hit.sum() < len(hit)
                else None
            )

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        odds = log_odds(log_proba)
        calibrated = np.column_stack(
            [
                odds[:, column] if learned is None else self._map_column(learned, odds[:, column])
                for learned, column in zip(self.maps_, _mapped(odds), strict=True)
            ]
        )
        if odds.shape[1] == 2:
            calibrated = np.hstack([-calibrated, calibrated])
        return log_expit(calibrated)


def _mapped(odds: FloatArray) -> list[int]:
    """Return the columns that have a map of their own: the second of two, or all."""
    return [1] if odds.shape[1] == 2 else list(range(odds.shape[1]))


def log_odds(log_proba: FloatArray) -> FloatArray:
    """Return ln(p / (1 - p)) of each column, exact where p is near 0 or 1."""
    rows, top = np.arange(len(log_proba)), log_proba.argmax(axis=1)
    # Only the largest probability can be so near 1 that 1 - p loses digits.
    rest = log_proba.copy()
    rest[rows, top] = -np.inf
    others = np.log1p(-np.exp(rest))
    others[rows, top] = logsumexp(rest, axis=1)
    return log_proba - others


def smoothed_targets(hit: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Platt's targets: outcomes pulled off 0 and 1 by one row of each kind."""
    positive = weights @ hit
    negative = weights.sum() - positive
    return np.where(hit > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
