"""Maps of the confidence, given the proximity: by two densities, and by bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcal._validation import FloatArray
from skcal.calibration._local.kernel_sums import kernel_sums

# Silverman's constant, and the least bandwidth in standard deviations of all rows.
_SILVERMAN, _NARROWEST = 1.06, 0.01
_FLOOR = 1e-10


class Density(NamedTuple):
    r"""A density over confidence and proximity, by a product of two Gaussian kernels.

    .. math:: f(u) = \frac{1}{W} \sum_j w_j \prod_{d=1}^{2} \frac{1}{h_d \sqrt{2 \pi}}
              \exp\left(-\frac{(u_d - v_{jd})^2}{2 h_d^2}\right)

    Fields
    ------
    points : ndarray of shape (n_points, 2)
    weights : ndarray of shape (n_points,)
    bandwidth : ndarray of shape (2,)
    """

    points: FloatArray
    weights: FloatArray
    bandwidth: FloatArray

    def mass(self, queries: FloatArray) -> FloatArray:
        """Return the density (n,) times the sum of the weights."""
        if not len(self.points):
            return np.zeros(len(queries))
        unit = np.sqrt(2.0) * self.bandwidth
        sums, nearest = kernel_sums(queries / unit, self.points / unit, self.weights[:, None])
        return self.peak * sums[:, 0] * np.exp(-nearest)

    @property
    def peak(self) -> float:
        """What a row adds to the mass where it lies."""
        return 1.0 / float(2.0 * np.pi * np.prod(self.bandwidth))


def fit_density(points: FloatArray, weights: FloatArray, spread: FloatArray) -> Density:
    r"""Return the density of rows, with the bandwidths :math:`1.06\, s_d\, W^{-1/6}`.

    Parameters
    ----------
    points : ndarray of shape (n_points, 2)
        Confidence and proximity.
    weights : ndarray of shape (n_points,)
    spread : ndarray of shape (2,)
        Standard deviations of all rows; bandwidths are at least a hundredth of them, and 1
        where they are 0.
    """
    least = np.where(spread > 0, _NARROWEST * spread, 1.0)
    if not len(points):
        return Density(points, weights, least)
    mean = np.average(points, axis=0, weights=weights)
    own = np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights))
    rule = _SILVERMAN * own * weights.sum() ** (-1.0 / 6.0)
    return Density(points, weights, np.maximum(rule, least))


class DensityRatio(NamedTuple):
    r"""The share of right rows among those with the same confidence and proximity.

    .. math:: c' = \frac{n_1 f_1 + a g\, c}{n_1 f_1 + n_0 f_0 + a g}

    with the densities of the right and the wrong rows, and a prior of a rows that lie where the
    row lies and have its confidence; g is what one row adds to the first density.

    Fields
    ------
    right, wrong : Density
    """

    right: Density
    wrong: Density

    def confidence(self, points: FloatArray, prior: float) -> FloatArray:
        """Return the calibrated confidence (n,) of rows (confidence, proximity)."""
        added = prior * self.right.peak
        right, wrong = self.right.mass(points), self.wrong.mass(points)
        floor = _FLOOR * max(float(self.right.weights.sum()), 1.0)
        return (right + added * points[:, 0]) / np.maximum(right + wrong + added, floor)


def fit_density_ratio(
    points: FloatArray, correct: NDArray[np.bool_], weights: FloatArray
) -> DensityRatio:
    """Return the densities of right and wrong rows.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Confidence and proximity.
    correct : ndarray of shape (n_samples,), bool
    weights : ndarray of shape (n_samples,)
    """
    mean = np.average(points, axis=0, weights=weights)
    spread = np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights))
    spread[spread < 1e-12] = 0.0
    right, wrong = (
        fit_density(points[rows], weights[rows], spread) for rows in (correct, ~correct)
    )
    return DensityRatio(right, wrong)


class BinShift(NamedTuple):
    r"""Differences of accuracy and mean confidence, in bins of both.

    .. math:: c' = c + s\, \frac{W_b}{W_b + a}\, (\bar{e}_b - \bar{c}_b)

    Fields
    ------
    proximity_edges : ndarray of shape (n_proximity_bins - 1,)
        Inner edges; a row on an edge lies below it.
    confidence_edges : ndarray of shape (n_proximity_bins, n_bins - 1)
        Those of the bins of each bin of proximity.
    gap : ndarray of shape (n_proximity_bins, n_bins)
        Accuracy minus mean confidence; 0 in empty bins.
    mass : ndarray of shape (n_proximity_bins, n_bins)
        The :math:`W_b`.
    """

    proximity_edges: FloatArray
    confidence_edges: FloatArray
    gap: FloatArray
    mass: FloatArray

    def confidence(self, points: FloatArray, prior: float, shift: float) -> FloatArray:
        """Return the shifted confidence (n,) of rows (confidence, proximity), in [0, 1]."""
        confidence, proximity = points.T
        m = np.searchsorted(self.proximity_edges, proximity)
        b = (confidence[:, None] > self.confidence_edges[m]).sum(axis=1)
        certain = self.mass / np.maximum(self.mass + prior, np.finfo(np.float64).tiny)
        return np.clip(confidence + shift * (certain * self.gap)[m, b], 0.0, 1.0)


def fit_bin_shift(
    points: FloatArray,
    correct: NDArray[np.bool_],
    weights: FloatArray,
    *,
    n_proximity_bins: int,
    n_bins: int,
) -> BinShift:
    """Return what accuracy and confidence differ by, in bins of about equal weight.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Confidence and proximity.
    correct : ndarray of shape (n_samples,), bool
    weights : ndarray of shape (n_samples,)
    n_proximity_bins : int
    n_bins : int
        Bins of the confidence in each bin of the proximity.
    """
    confidence, proximity = points.T
    proximity_edges = _inner_edges(proximity, weights, n_proximity_bins)
    m = np.searchsorted(proximity_edges, proximity)
    confidence_edges = np.array(
        [
            _inner_edges(confidence[m == region], weights[m == region], n_bins)
            for region in range(n_proximity_bins)
        ]
    ).reshape(n_proximity_bins, n_bins - 1)
    b = (confidence[:, None] > confidence_edges[m]).sum(axis=1)
    place, size = m * n_bins + b, n_proximity_bins * n_bins
    mass, gap = (
        np.bincount(place, part, minlength=size).astype(np.float64)
        for part in (weights, weights * (correct - confidence))
    )
    gap /= np.where(mass > 0, mass, 1.0)
    shape = n_proximity_bins, n_bins
    return BinShift(proximity_edges, confidence_edges, gap.reshape(shape), mass.reshape(shape))


def _inner_edges(values: FloatArray, weights: FloatArray, n_bins: int) -> FloatArray:
    """Return the values (n_bins - 1,) up to which lies each further share of the weight."""
    if not len(values):
        return np.ones(n_bins - 1)
    order = np.argsort(values, kind="stable")
    below = weights[order].cumsum()
    # Whole shares of whole weights shall not be missed by rounding.
    wanted = np.arange(1, n_bins) / n_bins * below[-1] * (1.0 - 1e-12)
    return values[order][np.searchsorted(below, wanted)]
