"""One-dimensional maps, one per class against the rest."""

from abc import abstractmethod
from typing import Any

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator, mean_log_loss


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
        n_classes = log_proba.shape[1]
        columns = [1] if n_classes == 2 else range(n_classes)
        self.maps_ = []
        for column in columns:
            hit = (codes == column).astype(np.float64)
            learned = (
                self._fit_column(log_odds(log_proba, column), hit, weights)
                if 0 < hit.sum() < len(hit)
                else None
            )
            self.maps_.append(learned)
        self.baseline_loss_ = mean_log_loss(log_proba, codes, weights)
        self.loss_ = mean_log_loss(self._transform(log_proba), codes, weights)

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        if log_proba.shape[1] == 2:
            calibrated = self._column(self.maps_[0], log_odds(log_proba, 1))
            # -ln(1 + exp(x)), without overflow.
            return np.column_stack([-np.logaddexp(0, calibrated), -np.logaddexp(0, -calibrated)])
        return np.column_stack(
            [
                -np.logaddexp(0, -self._column(learned, log_odds(log_proba, column)))
                for column, learned in enumerate(self.maps_)
            ]
        )

    def _column(self, learned: Any, odds: FloatArray) -> FloatArray:
        return odds if learned is None else self._map_column(learned, odds)


def log_odds(log_proba: FloatArray, column: int) -> FloatArray:
    """Return ln(p / (1 - p)) of one column, exact where p is near 0 or 1."""
    others = np.delete(log_proba, column, axis=1)
    return log_proba[:, column] - np.logaddexp.reduce(others, axis=1)


def smoothed_targets(hit: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Platt's targets: outcomes pulled off 0 and 1 by one row of each kind."""
    positive = weights @ hit
    negative = weights.sum() - positive
    return np.where(hit > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
