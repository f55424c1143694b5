"""Reliability curves without bins: an isotonic or a kernel fit, and its consistency band."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from scipy.ndimage import gaussian_filter1d
from sklearn.isotonic import isotonic_regression
from sklearn.utils import check_random_state

from skcal._options import check_level, check_whole
from skcal._validation import FloatArray, IntArray
from skcal.metrics._bins import bin_edges, bin_statistics
from skcal.metrics._errors.smooth import fixed_point, residual_spectrum
from skcal.metrics._events import Kind
from skcal.plots._data.inputs import Event

Seed = int | RandomState | None

# Where the band is drawn, between the least and the largest probability.
_GRID = 201
# Decimals of the probabilities in the isotonic fits of the band: a picture shows no more, and
# a million rows become ten thousand.
_BAND_DECIMALS = 4
# The kernel works on this many cells of [0, 1].
_CELLS = 1000
# A narrower kernel would not reach the next cell.
_LEAST_BANDWIDTH = 0.5 / _CELLS
# Below this share of the rows near a point there is no fit: what is left there is rounding.
_LEAST_DENSITY = 1e-9


@dataclass(frozen=True, eq=False)
class FittedReliabilityCurve:
    """Observed frequency as a function of the predicted probability, fitted without bins.

    Attributes
    ----------
    predicted : ndarray of shape (n_points,), float64
        Predicted probabilities in rising order: the ends of the steps of an isotonic fit, or
        a fine grid from the least to the largest prediction.
    event_rate : ndarray of shape (n_points,), float64
        Fitted frequency of the event. NaN where a smooth fit has no rows near.
    band_at : ndarray of shape (n_band,), float64
        Where the band is given.
    lower, upper : ndarray of shape (n_band,), float64
        Ends of the consistency band: where the curve of a calibrated model with the same
        probabilities lies, at each point by itself with the level asked for.
    error : float
        Mean distance between curve and diagonal, in probability. For the isotonic fit the
        mean over the rows; for the smooth one
        :func:`skcal.metrics.smooth_calibration_error`.
    bandwidth : float
        Standard deviation of the kernel; NaN for the isotonic fit.
    edges : ndarray of shape (n_bins + 1,), float64
        Bin edges of the histogram of predictions.
    count : ndarray of shape (n_bins,), int
        Number of rows in each bin with a weight above zero.
    method : {"isotonic", "smooth"}
        What was fitted.
    kind : {"top-label", "class-wise", "positive"}
        Which probability is held against which event.
    class_label : object
        The class that is the event; None for "top-label".
    """

    predicted: FloatArray
    event_rate: FloatArray
    band_at: FloatArray
    lower: FloatArray
    upper: FloatArray
    error: float
    bandwidth: float
    edges: FloatArray
    count: IntArray
    method: Literal["isotonic", "smooth"]
    kind: Kind
    class_label: Any = None


def fitted_curve(
    event: Event,
    method: Literal["isotonic", "smooth"],
    *,
    n_bins: int,
    strategy: Any,
    confidence_level: float,
    n_resamples: int,
    random_state: Seed,
) -> FittedReliabilityCurve:
    """Return the curve, its band, and the histogram of the predictions."""
    check_level(confidence_level)
    check_whole(n_resamples, "n_resamples", 2)
    edges = bin_edges(event.confidence, event.weights, n_bins, strategy)
    counted = event.weights > 0
    p, happened, weights = (part[counted] for part in event[:3])
    rng = RandomState() if random_state is None else check_random_state(random_state)
    fit = _isotonic_fit if method == "isotonic" else _smooth_fit
    predicted, rate, error, bandwidth, refit, band_at = fit(p, happened, weights)
    fits = np.array(
        [refit((rng.random_sample(len(p)) < p).astype(np.float64)) for _ in range(n_resamples)]
    )
    tail = (1 - confidence_level) / 2
    lower, upper = np.quantile(fits, [tail, 1 - tail], axis=0)
    return FittedReliabilityCurve(
        predicted=predicted,
        event_rate=rate,
        band_at=band_at,
        lower=lower,
        upper=upper,
        error=error,
        bandwidth=bandwidth,
        edges=edges,
        count=bin_statistics(event.confidence, event.happened, event.weights, edges).count,
        method=method,
        kind=event.kind,
        class_label=event.class_label,
    )


# Points, fitted rates, mean distance to the diagonal, bandwidth, the fit of other outcomes of
# the same rows at the points of the band, and these points.
_Fit = tuple[FloatArray, FloatArray, float, float, Callable[[FloatArray], FloatArray], FloatArray]


def _isotonic_fit(p: FloatArray, happened: FloatArray, weights: FloatArray) -> _Fit:
    scores, rates, mass = _rising(p, weights)(happened)
    # A step is drawn by its two ends; between steps the line joins them.
    jump = np.diff(rates) > 0
    ends = np.r_[True, jump] | np.r_[jump, True]
    error = float(mass @ np.abs(rates - scores) / mass.sum())
    band_at = np.linspace(scores[0], scores[-1], _GRID)
    rough = _rising(np.round(p, _BAND_DECIMALS), weights)

    def refit(outcomes: FloatArray) -> FloatArray:
        at, fitted, _ = rough(outcomes)
        return np.interp(band_at, at, fitted)

    return scores[ends], rates[ends], error, np.nan, refit, band_at


def _rising(
    p: FloatArray, weights: FloatArray
) -> Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]:
    """Return the isotonic fit of outcomes on p: distinct scores, fitted rates and weights."""
    # Ties are one point, or the order of the rows would decide.
    _, first, inverse = np.unique(np.round(p, 12), return_index=True, return_inverse=True)
    mass = _sums(inverse, weights, len(first))

    def fit(outcomes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        rates = _sums(inverse, weights * outcomes, len(first)) / mass
        return p[first], isotonic_regression(rates, sample_weight=mass, y_min=0, y_max=1), mass

    return fit


def _smooth_fit(p: FloatArray, happened: FloatArray, weights: FloatArray) -> _Fit:
    share = weights / weights.sum()
    cell = np.minimum((p * _CELLS).astype(np.intp), _CELLS - 1)

    def excess(outcomes: FloatArray) -> FloatArray:
        return _sums(cell, share * (outcomes - p), _CELLS)

    error = fixed_point(residual_spectrum(p, share * (happened - p)))
    bandwidth = max(error, _LEAST_BANDWIDTH)
    density = _smoothed(_sums(cell, share, _CELLS), bandwidth)
    density[density < _LEAST_DENSITY] = np.nan
    centres = (np.arange(_CELLS) + 0.5) / _CELLS
    at = np.linspace(p.min(), p.max(), _GRID)

    def refit(outcomes: FloatArray) -> FloatArray:
        # The residual is smoothed, not the outcome: calibrated rows then lie on the diagonal
        # whatever the bandwidth and however uneven the scores.
        rates = centres + _smoothed(excess(outcomes), bandwidth) / density
        return np.clip(np.interp(at, centres, rates), 0.0, 1.0)

    return at, refit(happened), error, bandwidth, refit, at


def _smoothed(mass: FloatArray, bandwidth: float) -> FloatArray:
    """Spread each cell's mass by a Gaussian kernel that is reflected at 0 and 1."""
    return gaussian_filter1d(mass, bandwidth * _CELLS, mode="reflect", truncate=5.0)


def _sums(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    """Return the sum of the values at each index."""
    return np.bincount(index, values, minlength=length).astype(np.float64, copy=False)
