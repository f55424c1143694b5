"""Recalibrated probabilities, in the ways that split a proper score."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skcal._validation import FloatArray, IntArray, log_probabilities, zero_probability
from skcal.calibration import make_calibrator
from skcal.calibration._folds import deal_folds
from skcal.metrics._bins import assign_bins, bin_edges, bin_statistics
from skcal.metrics._checks import check_whole


def cross_recalibrate(
    calibrator: Any, proba: FloatArray, codes: IntArray, weights: FloatArray, cv: int
) -> FloatArray:
    """Return each row's probabilities (n, K) after a map that was fitted on the other folds."""
    n_folds = min(check_whole(cv, "cv", 2), len(codes))
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
    # Calibrators take weights for numbers of rows; the scale of a metric's weights is free.
    counts = weights * (len(weights) / weights.sum())
    log_proba = log_probabilities(proba, input="proba", eps=zero_probability(proba))
    folds = deal_folds(log_proba, codes, n_folds)
    columns = np.arange(proba.shape[1])
    answer = np.empty_like(proba)
    for fold in np.unique(folds):
        out, rest = folds == fold, folds != fold
        fitted = clone(template, safe=False).fit(
            proba[rest], codes[rest], counts[rest], classes=columns
        )
        answer[out] = fitted.predict_proba(proba[out])
    return answer


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
