"""What vector and matrix scaling share: the base class, and the published penalties."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.affine import apply_affine, fit_affine
from skcal.calibration._fitting.temperature import find_temperature


class AffineScaling(BaseCalibrator):
    """Base of vector and matrix scaling: a temperature, then an affine map drawn to identity.

    A map implements ``_penalties(n_classes, n)``, which returns the first value of the
    matrix (K, K) or diagonal (K,), the penalties of its entries and that of the intercept.
    """

    max_iter: int
    fit_intercept: bool = True

    @abstractmethod
    def _penalties(self, n_classes: int, n: float) -> tuple[FloatArray, FloatArray, float]:
        """Return start, penalties of the same shape, and the penalty of the intercept."""

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        n_classes, n = log_proba.shape[1], float(weights.sum())
        self.temperature_ = self._temperature(log_proba, codes, weights)
        start, coef_penalty, intercept_penalty = self._penalties(n_classes, n)
        fitted = fit_affine(
            self._matrix_input(log_proba),
            codes,
            weights,
            start=start,
            toward=start,
            coef_penalty=coef_penalty,
            intercept_penalty=intercept_penalty,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
        )
        self.coef_ = np.diag(fitted.coef) if fitted.coef.ndim == 1 else fitted.coef
        self.intercept_ = fitted.intercept
        self.n_iter_, self.converged_ = fitted.n_iter, fitted.converged

    def _temperature(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float:
        return find_temperature(log_proba, codes, weights)[0]

    def _matrix_input(self, log_proba: FloatArray) -> FloatArray:
        """Return what the matrix is applied to: logits whose rows have mean zero."""
        return (log_proba - log_proba.mean(axis=1, keepdims=True)) / self.temperature_

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return apply_affine(self._matrix_input(log_proba), self.coef_, self.intercept_)


def structured_penalties(
    n_classes: int,
    n: float,
    structure: str,
    *,
    reg: float = 1.0,
    rho: float = 1.0,
    tau: float = 1.0,
) -> tuple[FloatArray, FloatArray, float]:
    """Return the identity, the published penalties of its entries and of the intercept."""
    per_class = reg * n_classes**rho / n**tau
    if structure == "vector":
        return np.ones(n_classes), np.full(n_classes, per_class), per_class
    pairs = reg * (n_classes * (n_classes - 1)) ** rho / n**tau
    identity = np.eye(n_classes)
    return identity, np.where(identity > 0, per_class, pairs), per_class
