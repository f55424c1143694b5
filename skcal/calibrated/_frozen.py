"""A frozen model: its calibration, and signs that it knows its calibration rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from skcal._rows import mean_log_loss
from skcal._validation import FloatArray, encode_labels
from skcal.calibrated._features import make_reader
from skcal.calibrated._folds import as_log, fit_calibrator, read_rows
from skcal.calibrated._scores import Scores, known_classes

# Fewer calibration rows may well be without error.
_ROWS = 30
# Below this mean log-loss a frozen model is suspected of knowing its calibration rows.
_LOSS = 0.01
# So is one without any error, if its own probabilities give that a chance below 1e-9. At 1e-6,
# held-out rows of small tables with easy classes give false alarms.
_SURPRISE = -np.log(1e-9)


def fit_frozen(
    estimator: Any,
    template: Any,
    X: Any,
    y: NDArray[Any],
    weights: FloatArray | None,
    response: str,
    features: Any,
) -> Bunch:
    """Return a fitted model and the map for these rows, all of which calibrate."""
    check_is_fitted(estimator)
    known = known_classes(estimator)
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(
            f"The calibration rows hold class {unknown.tolist()[0]!r}, which the fitted "
            f"estimator does not know (its classes are {known.tolist()}). Remove those rows, "
            "or train the estimator with the class."
        )
    reader = make_reader(features, template, estimator, X)
    scores = read_rows(estimator, X, response, reader)
    calibrator = fit_calibrator(template, scores, y, weights, known)
    # Margins of a classifier without probabilities tell nothing of its certainty.
    if scores.source != "decision_function" or hasattr(estimator, "predict_proba"):
        doubt = _doubt(scores, encode_labels(y, known), weights)
        if doubt:
            warnings.warn(
                f"The frozen estimator predicts its {len(y)} calibration rows {doubt}. If it was "
                "trained on them, nothing is calibrated: use rows that it has not seen.",
                UserWarning,
                stacklevel=3,
            )
    return Bunch(estimator=estimator, calibrator=calibrator, source=scores.source, reader=reader)


def _doubt(scores: Scores, codes: NDArray[np.intp], weights: FloatArray | None) -> str | None:
    """Return why these rows look like training rows, if they do."""
    log_proba = as_log(scores)
    counted = np.ones(len(codes)) if weights is None else weights
    rows = counted > 0
    if rows.sum() < _ROWS:
        return None
    loss = mean_log_loss(log_proba, codes, counted)
    if loss < _LOSS:
        return f"almost without error (log-loss {loss:.2g})"
    # The chance of no error is the product of the greatest probabilities, if they are true.
    surprise = -log_proba[rows].max(axis=1).sum()
    if surprise > _SURPRISE and (log_proba.argmax(axis=1) == codes)[rows].all():
        return f"without a single error, while it expects {_expected_errors(log_proba[rows]):.0f}"
    return None


def _expected_errors(log_proba: FloatArray) -> float:
    return float((1 - np.exp(log_proba.max(axis=1))).sum())
