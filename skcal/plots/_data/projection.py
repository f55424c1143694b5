"""Two coordinates of each row, and averages over the rows around a point."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA

from skcal._validation import FloatArray
from skcal.plots._data.inputs import Event

# Cells along each side of the picture.
_CELLS = 160
# The picture leaves out this share of the rows at each end of a coordinate.
_OUTSIDE = 0.005
# The kernel is cut off at so many widths.
_REACH = 4.0


def project(X: Any, projection: Any, n_rows: int) -> tuple[FloatArray, tuple[str, str]]:
    """Return coordinates (n_rows, 2) and their names."""
    if isinstance(projection, str):
        if projection != "pca":
            raise ValueError(
                "projection must be 'pca', a transformer or an array of two coordinates per row; "
                f"got {projection!r}."
            )
        return _principal(X, n_rows)
    if hasattr(projection, "fit_transform"):
        points = np.asarray(projection.fit_transform(X))
        name = type(projection).__name__
        points = points[:, :2] if points.ndim == 2 else points
    else:
        points, name = np.asarray(projection), "Coordinate"
    points = _numbers(points, "projection")
    if points.shape != (n_rows, 2):
        raise ValueError(
            f"The projection must give two coordinates for each of the {n_rows} rows; it has "
            f"shape {points.shape}."
        )
    return points, (f"{name} 1", f"{name} 2")


def _principal(X: Any, n_rows: int) -> tuple[FloatArray, tuple[str, str]]:
    """Return the first two principal components of standardised features."""
    features = _numbers(X, "X")
    if features.ndim != 2 or len(features) != n_rows or features.shape[1] < 2 or n_rows < 2:
        raise ValueError(
            "projection='pca' needs two or more features and rows, and as many rows as there are "
            f"labels, {n_rows}; X has shape {features.shape}."
        )
    spread = features.std(axis=0)
    pca = PCA(2)
    points = pca.fit_transform((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1))
    shares = [f"({100 * share:.0f} %)" for share in np.nan_to_num(pca.explained_variance_ratio_)]
    first, second = (
        f"{order} principal component {share}"
        for order, share in zip(("First", "Second"), shares, strict=True)
    )
    return points, (first, second)


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    """Return finite float64 numbers."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers ({error}). Turn categories into numbers first, for instance "
            "with skcal.TabularEncoder, or give coordinates as projection=..."
        ) from error
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} holds NaN or infinity. Fill missing values first, for instance with "
            "skcal.TabularEncoder, or give coordinates as projection=..."
        )
    return numbers


class LocalError(NamedTuple):
    """A grid's coordinates, and arrays (n_y, n_x) of what is found there."""

    x: FloatArray
    y: FloatArray
    error: FloatArray
    noise: FloatArray
    rows: FloatArray


def smooth_error(points: FloatArray, event: Event, bandwidth: float, min_rows: float) -> LocalError:
    """Return probability minus outcome around each point, its standard error, and the rows.

    The standard error is that of a calibrated model with the same probabilities. Rows are
    counted into cells, and the cells smoothed, which takes as long for a million rows as for a
    thousand.
    """
    counted = event.weights > 0
    points, weights, p = points[counted], event.weights[counted], event.confidence[counted]
    excess = p - event.happened[counted]
    weights = weights / weights.max()
    effective = weights.sum() ** 2 / (weights @ weights)
    width = bandwidth * _spread(points) * effective ** (-1 / 6)
    low, high = np.quantile(points, [_OUTSIDE, 1 - _OUTSIDE], axis=0)
    low, high = low - 2 * width, high + 2 * width
    cell = (high - low) / _CELLS
    sigma = width / cell  # in cells
    # Rows beyond the frame count inside as far as the kernel reaches.
    margin = np.ceil(_REACH * sigma).astype(int) + 1
    edges = [
        start + size * np.arange(-more, _CELLS + more + 1)
        for start, size, more in zip(low, cell, margin, strict=True)
    ]

    def smoothed(values: FloatArray, narrower: float = 1.0) -> FloatArray:
        cells = np.histogram2d(points[:, 0], points[:, 1], bins=edges, weights=values)[0]
        # The reach is the same for narrow kernels.
        spread = gaussian_filter(
            cells, sigma / narrower, mode="constant", truncate=_REACH * narrower
        )
        return spread[margin[0] : -margin[0], margin[1] : -margin[1]].T

    mass = smoothed(weights)
    # The square of a Gaussian of area one is one narrower by the root of two, times this.
    height, root = 1 / (4 * np.pi * sigma.prod()), np.sqrt(2)
    squares = height * smoothed(weights**2, root)
    known = (mass > 0) & (squares > 0)
    rows = np.divide(mass**2, squares, out=np.zeros_like(mass), where=known)
    enough = known & (rows >= min_rows)
    if not enough.any():
        raise ValueError(
            f"No point of the projection has min_rows={min_rows:g} rows around it; the most is "
            f"{rows.max():.1f}. Lower min_rows, raise bandwidth, or use more rows."
        )
    divisor = np.where(enough, mass, np.nan)
    variance = height * smoothed(weights**2 * p * (1 - p), root)
    x, y = (start + size * (np.arange(_CELLS) + 0.5) for start, size in zip(low, cell, strict=True))
    return LocalError(x, y, smoothed(weights * excess) / divisor, np.sqrt(variance) / divisor, rows)


def _spread(points: FloatArray) -> FloatArray:
    """Return the spread (2,) of each coordinate, which a few far rows do not blow up."""
    deviation = points.std(axis=0)
    lower, upper = np.quantile(points, [0.25, 0.75], axis=0)
    quartile = (upper - lower) / 1.349
    spread = np.where(quartile > 0, np.minimum(quartile, deviation), deviation)
    if not (spread > 0).all():
        raise ValueError("A coordinate of the projection is the same for all rows; give another.")
    return spread
