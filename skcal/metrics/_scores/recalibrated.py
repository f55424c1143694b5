"""Recalibrated probabilities: across folds, which does not flatter, or on the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skcal._options import check_whole
from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray, log_probabilities, zero_probability
from skcal.calibration import make_calibrator
from skcal.calibration._fitting.folds import deal_folds
from skcal.calibration._fitting.temperature import find_temperature
from skcal.metrics._bins import assign_bins, bin_edges, bin_statistics

_N_FOLDS = 5
# A temperature beyond these says no more than that there is no signal, or no noise.
_BOUNDS = (0.01, 100.0)


def cross_recalibrate(
    calibrator: Any, proba: FloatArray, codes: IntArray, weights: FloatArray, cv: int
) -> FloatArray:
    """Return each row's probabilities (n, K) after a map that was fitted on the other folds."""
    n_folds = check_whole(cv, "cv", 2)
    if len(codes) < 2:
        raise ValueError(
            "method='recalibration' fits on some rows and scores others, but there is only one; "
            "give more rows."
        )
    template = make_calibrator(calibrator)
    if getattr(template, "input", "proba") != "proba":
        raise ValueError(
            f"The calibrator reads {template.input}, but y_proba are probabilities; give one "
            "with input='proba'."
        )
    _, folds, counts = _dealt(codes, proba, weights, n_folds)
    columns = np.arange(proba.shape[1])
    answer = np.empty_like(proba)
    for fold in np.unique(folds):
        out, rest = folds == fold, folds != fold
        fitted = clone(template, safe=False).fit(
            proba[rest], codes[rest], counts[rest], classes=columns
        )
        answer[out] = fitted.predict_proba(proba[out])
    return answer


def losses_after_temperature(
    codes: IntArray, proba: FloatArray, weights: FloatArray
) -> tuple[FloatArray, float]:
    """Return each row's log loss after the temperature of the other folds, and that of all.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Columns of the true classes.
    proba : ndarray of shape (n, K)
    weights : ndarray of shape (n,)
        All above zero.

    Returns
    -------
    losses : ndarray of shape (n,)
        In nats.
    temperature : float
        The best one on all rows, between 0.01 and 100.
    """
    log_proba, folds, counts = _dealt(codes, proba, weights, _N_FOLDS)

    def temperature(rows: NDArray[np.bool_]) -> float:
        if not rows.any():
            return 1.0
        return find_temperature(log_proba[rows], codes[rows], counts[rows], bounds=_BOUNDS)[0]

    losses = np.empty(len(codes))
    for fold in np.unique(folds):
        out = folds == fold
        answer = log_softmax(log_proba[out] / temperature(~out))
        losses[out] = -answer[np.arange(len(answer)), codes[out]]
    return losses, temperature(np.ones(len(codes), dtype=bool))


def _dealt(
    codes: IntArray, proba: FloatArray, weights: FloatArray, n_folds: int
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the log-probabilities (n, K), and the fold (n,) and the count (n,) of each row."""
    log_proba = log_probabilities(proba, input="proba", eps=zero_probability(proba))
    # Calibrators take weights for numbers of rows; the scale of a metric's weights is free.
    counts = weights * (len(weights) / weights.sum())
    return log_proba, deal_folds(log_proba, codes, min(n_folds, len(codes))), counts


def isotonic_rates(p: FloatArray, event: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the increasing function (n,) of p that is closest to the events."""
    return IsotonicRegression(y_min=0, y_max=1).fit_transform(p, event, sample_weight=weights)


def bin_means(
    p: FloatArray, event: FloatArray, weights: FloatArray, n_bins: int, strategy: str
) -> tuple[FloatArray, FloatArray]:
    """Return the mean (n,) of p and the frequency (n,) of the event in each row's bin."""
    edges = bin_edges(p, weights, n_bins, strategy)
    bins = bin_statistics(p, event, weights, edges)
    index = assign_bins(p, edges)
    return bins.mean_confidence[index], bins.event_rate[index]
