"""Small logistic regressions: the curve of one probability."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np

from skcal._rows import row_blocks
from skcal._validation import FloatArray

_MAX_ITER = 100
# Above this many rows the optimiser starts from the answer of a share of them.
_MANY_ROWS, _FEW_ROWS = 20_000, 4_000
# Least eigenvalue of the correlations for which rounding does no harm.
_PARALLEL = 1e-6


def fit_logistic(
    columns: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    start: FloatArray,
    *,
    non_negative: int = 0,
) -> tuple[FloatArray, int, bool]:
    r"""Minimise the weighted logistic loss of ``sigmoid(theta @ columns)``.

    Parameters
    ----------
    columns : ndarray of shape (d, n)
        Regressors, a constant among them where an intercept is wanted.
    targets : ndarray of shape (n,)
        In (0, 1).
    weights : ndarray of shape (n,)
    start : ndarray of shape (d,)
        First value of theta.
    non_negative : int, default=0
        How many of the first coefficients must not be negative.

    Returns
    -------
    theta : ndarray of shape (d,)
    n_iter : int
    converged : bool
    """
    share = weights / weights.sum()
    # Of unit size, so that the coefficients are of one size whatever the scores' scale.
    scale = np.sqrt(columns**2 @ share)
    scale[scale == 0] = 1.0
    columns = columns / scale[:, None]
    start = start * scale
    largest = np.abs(start).max()
    if largest > 1:  # from where it is not saturated
        start = start / largest
    n = columns.shape[1]
    if n > _MANY_ROWS:
        some = slice(None, None, n // _FEW_ROWS)
        part = share[some].sum()
        if part > 0:
            start, _, _ = _solve(columns[:, some], targets[some], share[some] / part, start)
    theta, n_iter, converged = _solve(columns, targets, share, start)
    if (theta[:non_negative] < 0).any():
        theta, n_iter, converged = _on_faces(columns, targets, share, start, non_negative)
    return theta / scale, n_iter, converged


def _on_faces(
    columns: FloatArray,
    targets: FloatArray,
    share: FloatArray,
    start: FloatArray,
    non_negative: int,
) -> tuple[FloatArray, int, bool]:
    """Return the best of the fits in which some coefficients are zero and the rest allowed.

    The loss is convex, so that the constrained optimum is the free one of its face.
    """
    least, best = np.inf, (np.zeros(len(columns)), 1, True)
    sizes = range(1, non_negative + 1)
    for zero in chain.from_iterable(combinations(range(non_negative), size) for size in sizes):
        keep = [i for i in range(len(columns)) if i not in zero]
        theta = np.zeros(len(columns))
        n_iter, converged = 1, True
        if keep:
            theta[keep], n_iter, converged = _solve(columns[keep], targets, share, start[keep])
        if (theta[:non_negative] >= 0).all():  # all zero always is
            loss = _evaluate(columns, targets, share, theta)[0]
            if loss < least:
                least, best = loss, (theta, n_iter, converged)
    return best


def _solve(
    columns: FloatArray, targets: FloatArray, share: FloatArray, theta: FloatArray
) -> tuple[FloatArray, int, bool]:
    """Minimise over all theta, in an orthogonal basis where the columns are nearly parallel."""
    gram = (columns * share) @ columns.T
    if np.linalg.eigvalsh(gram)[0] > _PARALLEL:
        return _newton(columns, targets, share, theta)
    root = np.sqrt(share)
    basis, sizes, turn = np.linalg.svd((columns * root).T, full_matrices=False)
    told = sizes > 1e-13  # what else there is, of a zero or a repeated column, is noise
    basis, sizes, turn = basis[:, told], sizes[told], turn[told]
    start = sizes * (turn @ theta)
    theta, n_iter, converged = _newton((basis / root[:, None]).T, targets, share, start)
    return turn.T @ (theta / sizes), n_iter, converged


def _newton(
    columns: FloatArray, targets: FloatArray, share: FloatArray, theta: FloatArray
) -> tuple[FloatArray, int, bool]:
    """Newton's method with step halving: the loss is convex in a few parameters."""
    here, gradient, hessian = _evaluate(columns, targets, share, theta)
    for n_iter in range(1, _MAX_ITER + 1):
        # A whisker of ridge: scores that are all equal leave one direction flat.
        step = np.linalg.solve(hessian + 1e-14 * np.eye(len(theta)), gradient)
        gain = float(gradient @ step)
        if gain < 1e-12:  # The last step squares the error.
            return theta - step, n_iter, True
        size = 1.0
        while True:
            at = theta - size * step
            there, gradient, hessian = _evaluate(columns, targets, share, at)
            if there <= here - 1e-4 * size * gain or size < 1e-12:
                break
            size /= 2
        theta, here = at, there
    return theta, n_iter, False


def _evaluate(
    columns: FloatArray, targets: FloatArray, share: FloatArray, theta: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the mean logistic loss, its gradient and its Hessian, block by block."""
    loss, gradient, hessian = 0.0, np.zeros_like(theta), np.zeros((len(theta), len(theta)))
    for rows in row_blocks(columns.shape[::-1]):
        part, weight, target = columns[:, rows], share[rows], targets[rows]
        z = theta @ part
        small = np.exp(-np.abs(z))
        whole = 1 + small
        softplus = np.maximum(z, 0) + np.log(whole)
        loss += float(weight @ (softplus - target * z))
        proba = np.where(z >= 0, 1.0, small) / whole
        gradient += part @ (weight * (proba - target))
        hessian += (part * (weight * small / whole**2)) @ part.T
    return loss, gradient, hessian
