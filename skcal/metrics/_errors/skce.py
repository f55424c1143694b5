"""The squared kernel calibration error of whole probability vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from skcal._options import check_positive, check_whole
from skcal._validation import FloatArray, IntArray, check_predictions

Distance = Literal["cityblock", "euclidean"]

# The median of the distances is taken over this many rows at most.
_MEDIAN_ROWS = 1000
# Above this many rows, pairs are taken within blocks, and not more of them than before.
_ALL_PAIRS = 10_000
# Kernel values held at a time: 32 MB.
_TILE = 1 << 22


def squared_kernel_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    distance: Distance = "cityblock",
    bandwidth: float | None = None,
    block_size: int | None = None,
    random_state: int | None = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return an unbiased estimate of the squared kernel calibration error (SKCE).

    .. math:: \mathrm{SKCE} = \frac{\sum_{i \ne j} w_i w_j\, k(p_i, p_j)\,
        (e_i - p_i)^\top (e_j - p_j)}{\sum_{i \ne j} w_i w_j}, \qquad
        k(p, q) = \exp(-\lVert p - q \rVert / \nu),

    where :math:`p_i` is the vector of probabilities and :math:`e_i` the unit vector of the
    true class. It asks for calibration in the strong sense: among the rows with the same
    vector, each class occurs as often as the vector says.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    distance : {"cityblock", "euclidean"}, default="cityblock"
        The norm in the kernel: the sum of absolute differences, twice the total variation
        distance of the paper, or the Euclidean one, which is faster for many classes.
    bandwidth : float, default=None
        The :math:`\nu` above. None takes the median distance between rows (of 1,000 rows
        spread over the data, whatever their order).
    block_size : int, default=None
        Take pairs only within blocks of this many rows, at random, and the mean over blocks
        (a last block that is not full is left out). None takes all pairs of up to 10,000
        rows, and beyond that blocks with as many pairs in total: 100 rows a block for a
        million. The number of rows, or more, asks for all pairs.
    random_state : int, default=0
        How rows fall into blocks.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. Rows without weight are left out. A heavy row is still one
        observation: it is not paired with itself.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Estimate in squared probability, at most 2. It may be negative, and must be: it is
        right on average.

    Raises
    ------
    TypeError
        If `bandwidth` is not a number.
    ValueError
        If an option is out of its range, if there are fewer than two rows with weight, or if
        labels and probabilities do not fit together.

    See Also
    --------
    maximum_mean_calibration_error : The same idea for the largest probability.

    Notes
    -----
    The mean over perfectly calibrated data is zero, for any number of rows, classes and
    weights, as the bandwidth does not look at the labels. The standard deviation over 2,000
    such data sets of two classes (probabilities uniform on [0, 1]) is 2.8e-4 with 1,000 rows.

    Values depend on the bandwidth: compare models with a fixed one, or on rows that give
    about the same. For two classes each residual counts in both columns.

    All pairs take of the order of n²K operations, and 100 MB. Blocks of B rows take nBK, are
    unbiased as well, and have a standard deviation larger by about :math:`\sqrt{n / B}`. With
    blocks, the order of the rows changes the value as another seed would; with all pairs it
    does not matter.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah, "Calibration Tests in Multi-class
       Classification: A Unifying Framework", NeurIPS, 2019.

    Examples
    --------
    >>> from skcal.metrics import squared_kernel_calibration_error
    >>> y_true, y_proba = [0, 0], [[0.7, 0.3], [0.3, 0.7]]
    >>> round(squared_kernel_calibration_error(y_true, y_proba, bandwidth=0.8), 4)
    0.1545
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    if distance not in ("cityblock", "euclidean"):
        raise ValueError(f"distance must be 'cityblock' or 'euclidean'; got {distance!r}.")
    if block_size is not None:
        check_whole(block_size, "block_size", 2, hint="None chooses one by the number of rows.")
    kept = weights > 0
    codes, proba, weights = codes[kept], proba[kept], weights[kept] / weights.max()
    n = len(proba)
    if n < 2:
        raise ValueError("The error compares different rows and needs two with weight; got one.")
    width = (
        median_distance(proba, distance)
        if bandwidth is None
        else check_positive(bandwidth, "bandwidth")
    )
    residual = -proba
    residual[np.arange(n), codes] += 1.0
    residual *= weights[:, None]

    pairs = 0.0
    total = 0.0
    for rows in _blocks(n, block_size, random_state):
        total += pair_sum(proba[rows] / width, residual[rows], distance)
        pairs += weights[rows].sum() ** 2 - weights[rows] @ weights[rows]
    return float(total / pairs)


def _blocks(n: int, block_size: int | None, random_state: int | None) -> Iterator[slice | IntArray]:
    """Yield the rows of each block."""
    if block_size is None:
        block_size = n if n <= _ALL_PAIRS else max(_ALL_PAIRS**2 // n, 2)
    if block_size >= n:
        yield slice(None)
        return
    # Rows are often sorted by class or time, and then neighbours' residuals go together.
    order = np.random.default_rng(random_state).permutation(n)
    yield from order[: n - n % block_size].reshape(-1, block_size)


def median_distance(proba: FloatArray, distance: Distance) -> float:
    """Return the median distance between rows; where it is zero the mean, or else one."""
    if len(proba) > _MEDIAN_ROWS:
        # Evenly spread along one direction, so that the order of the rows does not matter.
        direction = np.cos(np.arange(1, proba.shape[1] + 1))
        order = np.argsort(np.round(proba @ direction, 12), kind="stable")
        proba = proba[order[np.linspace(0, len(order) - 1, _MEDIAN_ROWS).astype(np.intp)]]
    between = pdist(proba, distance)
    return float(np.median(between)) or float(between.mean()) or 1.0


def pair_sum(scaled: FloatArray, residual: FloatArray, distance: Distance) -> float:
    """Return the sum over ordered pairs of different rows of residuals times kernel."""
    n = len(scaled)
    total = -float(np.vdot(residual, residual))
    step = max(_TILE // n, 1)
    for start in range(0, n, step):
        stop = min(start + step, n)
        # Each pair once: rows of this tile with themselves, and twice with those after it.
        kernel = _kernel(scaled[start:stop], scaled[start:], distance)
        kernel[:, stop - start :] *= 2.0
        total += float(np.vdot(residual[start:stop], kernel @ residual[start:]))
    return total


def _kernel(a: FloatArray, b: FloatArray, distance: Distance) -> FloatArray:
    """Return exp(-distance) of the rows of a (m, K) and b (n, K), shape (m, n)."""
    if distance == "cityblock":
        away = cdist(a, b, "cityblock")
    else:
        # A product of matrices, much faster than differences for many classes. Distances
        # below 1e-8 drown in rounding, and move the kernel by no more than that.
        squares = np.einsum("ij,ij->i", b, b)
        away = squares[: len(a), None] + squares - 2.0 * (a @ b.T)
        np.sqrt(np.maximum(away, 0.0, out=away), out=away)
    np.negative(away, out=away)
    return np.exp(away, out=away)
