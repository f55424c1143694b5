"""Affine maps of all classes' logits, fitted by penalised maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skcal._rows import row_blocks
from skcal._validation import TINY, FloatArray, IntArray

# Directions that are flat, as a shift of all logits is, are taken to curve by this share.
_RIDGE = 1e-12
# How many rows a first answer needs, at least and for each coefficient.
_FEW_ROWS, _ROWS_PER_VALUE = 4_000, 40


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

    The problem is convex and the gradient has a closed form; it is solved by L-BFGS, after a
    change of variables that evens out the curvature.

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
    # One class after the other: rows are short, and loops over them slow.
    columns = np.ascontiguousarray(x.T)
    first = Affine(start, np.zeros(n_classes), 0, True)
    few = max(_FEW_ROWS, _ROWS_PER_VALUE * start.size)
    if n > 5 * few and (some := weights[:: n // few]).any():
        # The answer of a share of the rows is a good start.
        first = fit_affine(
            x[:: n // few],
            codes[:: n // few],
            some,
            start=start,
            toward=toward,
            coef_penalty=coef_penalty,
            intercept_penalty=intercept_penalty,
            fit_coef=fit_coef,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
        )

    def objective(coef: FloatArray, intercept: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss, gradient, bias = _log_loss(columns, codes, share, coef, intercept)
        away = coef - toward
        loss += float((coef_penalty * away**2).sum()) + intercept_penalty * float(
            intercept @ intercept
        )
        gradient += 2 * coef_penalty * away
        bias += 2 * intercept_penalty * intercept
        return loss, gradient, bias

    if start.ndim == 1:
        free = np.array([fit_coef, fit_intercept], dtype=np.float64)
        change = _per_class(columns, share, first, coef_penalty, intercept_penalty, free)
    else:
        change = _by_factors(columns, share, first, coef_penalty, intercept_penalty)

    def changed(z: FloatArray) -> tuple[float, FloatArray]:
        coef, intercept = change.forward(z)
        loss, gradient, bias = objective(first.coef + coef, first.intercept + intercept)
        return loss, change.gradient(gradient, bias)

    result = minimize(
        changed,
        np.zeros(start.size + n_classes),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "ftol": 1e-10,
            "gtol": 1e-6,
            "maxcor": 20,
        },
    )
    coef, intercept = change.forward(result.x)
    return Affine(
        first.coef + coef, first.intercept + intercept, int(result.nit), bool(result.success)
    )


def _log_loss(
    columns: FloatArray, codes: IntArray, share: FloatArray, coef: FloatArray, intercept: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the mean log-loss and its gradients, block by block, of inputs (K, n)."""
    loss, gradient, bias = 0.0, np.zeros_like(coef), np.zeros_like(intercept)
    for rows in row_blocks(columns.shape[::-1]):
        part, true, weight = columns[:, rows], codes[rows], share[rows]
        index = np.arange(len(true))
        logits, top = _logits(part, coef, intercept)
        picked = logits[true, index]
        proba, total = _exponentials(logits, top)
        loss += float(weight @ (np.log(total) + top - picked))
        # Residuals p - y, weighted; from here on logits are not needed.
        proba *= weight / total
        proba[true, index] -= weight
        gradient += np.einsum("ji,ji->j", proba, part) if coef.ndim == 1 else proba @ part.T
        bias += proba.sum(axis=1)
    return loss, gradient, bias


def _logits(
    part: FloatArray, coef: FloatArray, intercept: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return logits (K, m) of inputs (K, m), and the largest of each row (m,)."""
    logits = coef[:, None] * part if coef.ndim == 1 else coef @ part
    logits += intercept[:, None]
    return logits, logits.max(axis=0)


def _exponentials(logits: FloatArray, top: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return exponentials of logits less the largest, in their place, and their sums."""
    logits -= top
    np.exp(logits, out=logits)
    return logits, logits.sum(axis=0)


class _Change(NamedTuple):
    """A linear change of variables after which the curvature is about the identity.

    Log-probabilities run to -87 and classes differ in frequency: without it L-BFGS needs
    several times the iterations.
    """

    forward: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    gradient: Callable[[FloatArray, FloatArray], FloatArray]


def _per_class(
    columns: FloatArray,
    share: FloatArray,
    at: Affine,
    coef_penalty: FloatArray | float,
    intercept_penalty: float,
    free: FloatArray,
) -> _Change:
    """Return the change for a diagonal: each class's scale and shift by their own curvature."""
    n_classes = len(at.intercept)
    curvature = np.zeros((n_classes, 2, 2))
    for rows in row_blocks(columns.shape[::-1]):
        part = columns[:, rows]
        proba, total = _exponentials(*_logits(part, at.coef, at.intercept))
        proba /= total
        spread = proba * (1 - proba) * share[rows]
        mixed = np.einsum("ji,ji->j", spread, part)
        curvature[:, 0, 0] += np.einsum("ji,ji,ji->j", spread, part, part)
        curvature[:, 0, 1] += mixed
        curvature[:, 1, 0] += mixed
        curvature[:, 1, 1] += spread.sum(axis=1)
    curvature[:, 0, 0] += 2 * coef_penalty
    curvature[:, 1, 1] += 2 * intercept_penalty
    curvature *= np.outer(free, free)
    curvature += np.diag(1 - free)
    size = np.trace(curvature, axis1=1, axis2=2)
    curvature += (_RIDGE * size + TINY)[:, None, None] * np.eye(2)
    root = np.linalg.inv(np.linalg.cholesky(curvature)).transpose(0, 2, 1) * free[:, None]

    def forward(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        moved = np.einsum("kij,jk->ik", root, z.reshape(2, n_classes))
        return moved[0], moved[1]

    def gradient(coef: FloatArray, intercept: FloatArray) -> FloatArray:
        return np.einsum("kij,ik->jk", root, np.vstack([coef, intercept])).ravel()

    return _Change(forward, gradient)


def _by_factors(
    columns: FloatArray,
    share: FloatArray,
    at: Affine,
    coef_penalty: FloatArray | float,
    intercept_penalty: float,
) -> _Change:
    """Return the change for a matrix, by the Kronecker factors of the curvature.

    The curvature of the log-loss is the mean of a product of two matrices, one of the
    probabilities and one of the inputs; the product of the two means stands for it.
    """
    n_classes = len(at.intercept)
    inner, outer = np.zeros((n_classes + 1, n_classes + 1)), np.zeros((n_classes, n_classes))
    for rows in row_blocks(columns.shape[::-1]):
        part, weight = columns[:, rows], share[rows]
        inputs = np.vstack([part, np.ones((1, part.shape[1]))])
        inner += (inputs * weight) @ inputs.T
        proba, total = _exponentials(*_logits(part, at.coef, at.intercept))
        proba /= total
        outer += np.diag(proba @ weight) - (proba * weight) @ proba.T
    inner_values, inner_axes = np.linalg.eigh(inner)
    outer_values, outer_axes = np.linalg.eigh(outer)
    curvature = np.outer(np.maximum(outer_values, 0), np.maximum(inner_values, 0))
    curvature += 2 * float(np.median(np.append(coef_penalty, intercept_penalty)))
    scale = 1 / np.sqrt(curvature + _RIDGE * curvature.max() + TINY)

    def forward(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        moved = outer_axes @ (scale * z.reshape(scale.shape)) @ inner_axes.T
        return moved[:, :-1], moved[:, -1]

    def gradient(coef: FloatArray, intercept: FloatArray) -> FloatArray:
        both = np.column_stack([coef, intercept])
        return (scale * (outer_axes.T @ both @ inner_axes)).ravel()

    return _Change(forward, gradient)
