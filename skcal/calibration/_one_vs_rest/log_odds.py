"""From the log-probabilities of all classes to log-odds of each, and back."""

from __future__ import annotations

import numpy as np

from skcal._rows import log_sigmoid
from skcal._validation import FloatArray


class LogOdds:
    """ln(p / (1 - p)) of each column, exact where p is near 0 or 1.

    Parameters
    ----------
    log_proba : ndarray of shape (n, K)
        Each row's exponentials sum to one.
    """

    def __init__(self, log_proba: FloatArray) -> None:
        n_classes = log_proba.shape[1]
        self._columns = log_proba.T if n_classes == 2 else np.ascontiguousarray(log_proba.T)
        if n_classes == 2:
            return
        # Only the largest probability can be so near 1 that 1 - p loses digits: the sum of
        # the others is taken for it, and 1 - p for all else.
        self._top = log_proba.argmax(axis=1)
        rest = np.zeros(len(log_proba))
        for column, values in enumerate(self._columns):
            rest += np.exp(values) * (self._top != column)
        self._log_rest = np.log(np.maximum(rest, np.finfo(np.float64).tiny))

    def column(self, column: int) -> FloatArray:
        """Return the log-odds (n,) of one class."""
        values = self._columns[column]
        if len(self._columns) == 2:
            return values - self._columns[1 - column]
        is_top = self._top == column
        with np.errstate(divide="ignore"):
            others = np.log1p(-np.exp(np.minimum(values, 0.0)))
        return values - np.where(is_top, self._log_rest, others)


def log_proba_of(calibrated: FloatArray) -> FloatArray:
    """Return unnormalised log-probabilities (n, K) of log-odds (K, n), of two classes (1, n)."""
    if len(calibrated) == 1:
        return np.vstack([np.zeros_like(calibrated), calibrated]).T
    return log_sigmoid(calibrated).T


def mapped_columns(log_proba: FloatArray) -> list[int]:
    """Return the columns that have a map of their own: the second of two, or all."""
    return [1] if log_proba.shape[1] == 2 else list(range(log_proba.shape[1]))
