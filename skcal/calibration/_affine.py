"""Affine maps of logits, fitted by penalised maximum likelihood."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._temperature import find_temperature


class Affine(NamedTuple):
    """A fitted map ``softmax(coef @ x + intercept)``.

    ``coef`` is a matrix (K, K), or a vector (K,) when each class is only rescaled.
    """

    coef: FloatArray
    intercept: FloatArray
    n_iter: int
    converged: bool


def apply_affine(x: FloatArray, coef: FloatArray, intercept: FloatArray) -> FloatArray:
    """Return the logits (n, K) of the map on rows x (n, K)."""
    return (x * coef if coef.ndim == 1 else x @ coef.T) + intercept


def fit_affine(
    x: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    start: FloatArray,
    toward: FloatArray,
    coef_penalty: FloatArray | float,
    intercept_penalty: float,
    fit_coef: bool = True,
    fit_intercept: bool = True,
    max_iter: int = 1_000,
) -> Affine:
    r"""Minimise the mean log-loss plus quadratic penalties.

    .. math:: \frac{1}{\sum w} \sum_i w_i \big[-\ln \mathrm{softmax}(C x_i + b)_{y_i}\big]
              + \sum_{jk} P_{jk} (C - C_0)_{jk}^2 + \mu \lVert b \rVert^2

    The problem is convex and the gradient has a closed form; it is solved by L-BFGS.

    Parameters
    ----------
    x : ndarray of shape (n, K)
        Log-probabilities.
    codes, weights : ndarray of shape (n,)
    start : ndarray of shape (K, K) or (K,)
        First value of C; its shape says whether C is a matrix or a diagonal.
    toward : ndarray of the same shape
        :math:`C_0`.
    coef_penalty : float or ndarray of the same shape
        :math:`P`.
    intercept_penalty : float
        :math:`\mu`.
    fit_coef, fit_intercept : bool, default=True
    max_iter : int, default=1000

    Returns
    -------
    Affine
    """
    n, n_classes = x.shape
    share = weights / weights.sum()
    rows = np.arange(n)
    shape, size = start.shape, start.size
    # log-probabilities run to -87: in units of their spread the problem is well conditioned.
    unit = max(float(np.sqrt(share @ (x - x.mean(axis=1, keepdims=True)) ** 2).mean()), 1e-12)
    x = x / unit

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        coef, intercept = theta[:size].reshape(shape), theta[size:]
        logits = apply_affine(x, coef, intercept if fit_intercept else np.zeros(n_classes))
        logits -= logits.max(axis=1, keepdims=True)
        picked = logits[rows, codes]
        proba = np.exp(logits, out=logits)
        total = proba.sum(axis=1)
        loss = share @ (np.log(total) - picked)
        # Residuals p - y, weighted; from here on logits are not needed.
        proba *= (share / total)[:, None]
        proba[rows, codes] -= share
        gradient = (proba * x).sum(axis=0) if len(shape) == 1 else proba.T @ x
        away = coef / unit - toward
        loss += (coef_penalty * away**2).sum()
        gradient = gradient + 2 * coef_penalty * away / unit
        bias = proba.sum(axis=0) + 2 * intercept_penalty * intercept
        loss += intercept_penalty * (intercept**2).sum()
        return float(loss), np.concatenate([fit_coef * gradient.ravel(), fit_intercept * bias])

    theta = np.concatenate([(start * unit).ravel(), np.zeros(n_classes)])
    result = minimize(
        objective,
        theta,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "ftol": 1e-13, "gtol": 1e-8},
    )
    return Affine(
        result.x[:size].reshape(shape) / unit,
        result.x[size:],
        int(result.nit),
        bool(result.success),
    )


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
            self._features(log_proba),
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

    def _features(self, log_proba: FloatArray) -> FloatArray:
        """Return what the matrix is applied to: logits whose rows have mean zero."""
        return (log_proba - log_proba.mean(axis=1, keepdims=True)) / self.temperature_

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return apply_affine(self._features(log_proba), self.coef_, self.intercept_)
