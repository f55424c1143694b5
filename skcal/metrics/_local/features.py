"""The space in which rows are neighbours: checked coordinates and kernel means over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray

# Rows of a block of the kernel matrix: 8 MB, and large enough for fast matrix products.
_BLOCK = 1024


def check_features(
    features: ArrayLike, n_rows: int | None, *, name: str = "features"
) -> FloatArray:
    """Return coordinates as a finite float64 matrix (n_rows, d); any number of rows with None.

    Raises
    ------
    TypeError
        If they are sparse.
    ValueError
        If they are no numbers, not finite, or not one row for each prediction.
    """
    if hasattr(features, "toarray") and not isinstance(features, np.ndarray):
        raise TypeError(f"{name} are sparse; pass {name}.toarray(), or a few components of them.")
    try:
        array = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers, one row for each prediction ({error}). Encode categories "
            "first, for example with skcal.TabularEncoder."
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"{name} must have shape (n_samples, n_features), none of them 0; got {array.shape}."
        )
    if n_rows is not None and len(array) != n_rows:
        raise ValueError(
            f"{name} must have one row for each prediction: {n_rows} rows; got {len(array)}."
        )
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise ValueError(
            f"{name} hold NaN or infinity in row {row}; distances need finite numbers. Fill "
            "missing cells first, for example with skcal.TabularEncoder."
        )
    return array


def kernel_means(
    features: FloatArray, values: FloatArray, weights: FloatArray, bandwidth: float
) -> FloatArray:
    r"""Return the mean of all values around each row.

    .. math:: m_i = \frac{\sum_j w_j k_{ij} v_j}{\sum_j w_j k_{ij}}, \qquad
        k_{ij} = \exp\left(-\frac{\|u_i - u_j\|^2}{2 \gamma^2}\right)

    Parameters
    ----------
    features : ndarray of shape (n, d)
    values, weights : ndarray of shape (n,)
        The weights are positive.
    bandwidth : float
        :math:`\gamma`.

    Returns
    -------
    ndarray of shape (n,)
    """
    n = len(values)
    # Distances are differences of squares; those are small, and exact, about the centre.
    u = (features - features.mean(axis=0)) / bandwidth
    half = 0.5 * np.einsum("ij,ij->i", u, u)[:, None]
    ones = np.ones_like(half)
    # One matrix product then gives the exponents: u_i u_j - |u_i|^2 / 2 - |u_j|^2 / 2.
    left, right = np.hstack([u, -half, ones]), np.hstack([u, ones, -half])
    terms = np.column_stack([weights * values, weights])
    sums = np.zeros((n, 2))
    starts = range(0, n, _BLOCK)
    for a in starts:
        rows = slice(a, a + _BLOCK)
        for b in starts[a // _BLOCK :]:  # The kernel is symmetric: half of its blocks do.
            columns = slice(b, b + _BLOCK)
            kernel = left[rows] @ right[columns].T
            np.minimum(kernel, 0.0, out=kernel)
            if a == b:
                np.fill_diagonal(kernel, 0.0)  # Rounding must not part a row from itself.
            np.exp(kernel, out=kernel)
            sums[rows] += kernel @ terms[columns]
            if a != b:
                sums[columns] += kernel.T @ terms[rows]
    return sums[:, 0] / sums[:, 1]
