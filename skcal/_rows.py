"""Softmax and its kin over the rows of large matrices.

The scores of a million rows are walked in blocks that stay in the processor's cache, and sums
over a row are products with a vector of ones: short inner loops are slow in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Values in a block: a quarter of a megabyte.
_BLOCK = 1 << 15
# The same where a block is handed on to functions that loop over columns.
_LARGE_BLOCK = 1 << 20


def row_blocks(shape: tuple[int, ...], *, large: bool = False) -> Iterator[slice]:
    """Yield slices of rows of a matrix of this shape, from the first to the last."""
    n, width = shape
    step = max((_LARGE_BLOCK if large else _BLOCK) // width, 16)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def row_max(x: FloatArray) -> FloatArray:
    """Return the largest value (n,) of each row."""
    return reduce(np.maximum, x.T) if x.shape[1] <= 16 else x.max(axis=1)


def log_softmax(x: FloatArray) -> FloatArray:
    """Return x (n, K) less the logarithm of the sum of each row's exponentials."""
    out = np.empty_like(x)
    ones = np.ones(x.shape[1])
    for rows in row_blocks(x.shape):
        part = np.subtract(x[rows], row_max(x[rows])[:, None], out=out[rows])
        part -= np.log(np.exp(part) @ ones)[:, None]
    return out


def softmax(x: FloatArray, least: float) -> FloatArray:
    """Return each row's exponentials divided by their sum, none of them below ``least``."""
    out = np.empty_like(x)
    ones = np.ones(x.shape[1])
    for rows in row_blocks(x.shape):
        part = np.subtract(x[rows], row_max(x[rows])[:, None], out=out[rows])
        np.exp(part, out=part)
        part /= (part @ ones)[:, None]
        if part.min() < least:
            np.maximum(part, least, out=part)
            part /= (part @ ones)[:, None]
    return out


def log_sigmoid(z: FloatArray) -> FloatArray:
    """Return ln(1 / (1 + exp(-z))), of any shape."""
    # A tail below 1e-16 is lost, for a logarithm that is several times faster than log1p.
    return np.minimum(z, 0.0) - np.log(1.0 + np.exp(-np.abs(z)))


def mean_log_loss(scores: FloatArray, codes: IntArray, weights: FloatArray) -> float:
    """Return the weighted mean log-loss in nats of unnormalised log-probabilities (n, K)."""
    width = scores.shape[1]
    if width == 2:  # one margin
        margin = scores[:, 1] - scores[:, 0]
        loss = -log_sigmoid(np.where(codes == 1, margin, -margin))
        return float(weights @ loss / weights.sum())
    total, ones = 0.0, np.ones(width)
    for rows in row_blocks(scores.shape):
        part, top = scores[rows], row_max(scores[rows])
        log_sum = np.log(np.exp(part - top[:, None]) @ ones) + top
        total += float(weights[rows] @ (log_sum - part[np.arange(len(part)), codes[rows]]))
    return total / float(weights.sum())


def mean_log_loss_of(
    transform: Callable[[FloatArray], FloatArray],
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
) -> float:
    """Return the same of what a map makes of log-probabilities, without keeping all of it."""
    total = 0.0
    for rows in row_blocks(log_proba.shape, large=True):
        part = weights[rows]
        total += part.sum() * mean_log_loss(transform(log_proba[rows]), codes[rows], part)
    return float(total / weights.sum())
