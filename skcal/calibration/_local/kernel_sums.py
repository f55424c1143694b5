"""Sums over all points, each weighed by a Gaussian kernel of its distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcal._validation import FloatArray, IntArray

# Kernel values held at once: 16 MB.
_BLOCK = 1 << 21
# Below it exponentials and products would be subnormal, for which processors take ten times
# as long; of such a point nothing is seen.
_LEAST_EXPONENT = -600.0


class KernelSums(NamedTuple):
    r"""Sums relative to the largest kernel value of each row, so that none of them vanish.

    .. math:: \sum_j e^{-\|u_i - v_j\|^2}\, t_j = e^{-d_i}\, s_i

    Fields
    ------
    sums : ndarray of shape (n_queries, n_terms)
        The :math:`s_i`.
    nearest : ndarray of shape (n_queries,)
        The :math:`d_i`, the squared distance of the nearest point.
    """

    sums: FloatArray
    nearest: FloatArray


def kernel_sums(
    queries: FloatArray,
    points: FloatArray,
    terms: FloatArray,
    own: tuple[IntArray, FloatArray] | None = None,
) -> KernelSums:
    """Sum terms over points, in blocks of a few megabytes.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, d)
        In units of the bandwidth.
    points : ndarray of shape (n_points, d)
    terms : ndarray of shape (n_points, n_terms)
        Not negative.
    own : tuple of two ndarray of shape (n_queries,), optional
        The number of the point that is the query itself, and what share of that point still
        counts; with 0 it is left out.
    """
    centre = points.mean(axis=0)  # distances are differences of squares, small about the centre
    u, v = queries - centre, points - centre
    ones_u, ones_v = np.ones((len(u), 1)), np.ones((len(v), 1))
    # One matrix product then gives the exponents: 2 u v - |u|^2 - |v|^2.
    rows = np.hstack([2.0 * u, -np.einsum("ij,ij->i", u, u)[:, None], ones_u])
    columns = np.hstack([v, ones_v, -np.einsum("ij,ij->i", v, v)[:, None]]).T
    if own is not None:
        with np.errstate(divide="ignore"):
            log_left = np.log(own[1])
    sums, nearest = np.empty((len(u), terms.shape[1])), np.empty(len(u))
    step = max(1, _BLOCK // len(v))
    memory = np.empty((min(step, len(u)), len(v)))
    for start in range(0, len(u), step):
        block = slice(start, start + step)
        kernel = memory[: len(u[block])]
        np.matmul(rows[block], columns, out=kernel)
        np.minimum(kernel, 0.0, out=kernel)
        if own is not None:
            kernel[np.arange(len(kernel)), own[0][block]] = log_left[block]
        top = kernel.max(axis=1)
        top[np.isneginf(top)] = 0.0  # the only point was the query itself
        kernel -= top[:, None]
        np.maximum(kernel, _LEAST_EXPONENT, out=kernel)
        np.exp(kernel, out=kernel)
        sums[block], nearest[block] = kernel @ terms, -top
    return KernelSums(sums, nearest)
