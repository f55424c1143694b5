"""The folds of a calibrated classifier: how models and maps are fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from skcal._validation import (
    TINY,
    FloatArray,
    Input,
    check_scores,
    encode_labels,
    log_probabilities,
)
from skcal.calibrated._features import FeatureReader, make_reader
from skcal.calibrated._scores import Scores, known_classes, read_scores
from skcal.calibrated._splits import Split
from skcal.calibrated._validation_fold import fit_with_validation
from skcal.calibration import BaseCalibrator

# -- one fold --------------------------------------------------------------------------------


def fit_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    rows: Any,
    fit_params: dict[str, Any],
    validation_rows: Any = None,
) -> Any:
    """Fit a copy of an estimator on some rows, perhaps with others that tell it when to stop."""
    estimator = clone(estimator)
    params = _check_method_params(X, fit_params, indices=rows)
    X_rows, y_rows = _safe_indexing(X, rows), _safe_indexing(y, rows)
    if validation_rows is None:
        return estimator.fit(X_rows, y_rows, **params)
    validation = Bunch(
        X=_safe_indexing(X, validation_rows),
        y=_safe_indexing(y, validation_rows),
        params=_check_method_params(X, fit_params, indices=validation_rows),
    )
    return fit_with_validation(estimator, X_rows, y_rows, params, validation)


def fit_calibrator(
    template: Any, scores: Scores, y: Any, weights: FloatArray | None, classes: NDArray[Any]
) -> Any:
    """Fit a copy of a calibrator on scores, one column for each of ``classes``."""
    calibrator = clone(template, safe=False)
    if isinstance(calibrator, BaseCalibrator):
        calibrator.set_params(input=scores.kind)
    places = {} if scores.features is None else {"features": scores.features}
    return calibrator.fit(as_input(calibrator, scores), y, weights, classes=classes, **places)


def answer(calibrator: Any, scores: Scores, method: str = "predict_proba") -> FloatArray:
    """Return what a fitted calibrator makes of scores."""
    places = {} if scores.features is None else {"features": scores.features}
    return getattr(calibrator, method)(as_input(calibrator, scores), **places)


def read_rows(estimator: Any, X: Any, response: str, reader: FeatureReader | None = None) -> Scores:
    """Return an estimator's scores for some rows, and the features that go with them."""
    scores = read_scores(estimator, X, response)
    return scores if reader is None else scores._replace(features=reader.read(estimator, X))


def as_log(scores: Scores) -> FloatArray:
    return log_probabilities(check_scores(scores.values, input=scores.kind), input=scores.kind)


def as_input(calibrator: Any, scores: Scores) -> Any:
    """Return scores of the kind that a calibrator reads; someone else's reads probabilities."""
    wanted = calibrator.input if isinstance(calibrator, BaseCalibrator) else "proba"
    if wanted == scores.kind:
        return scores.values
    return np.exp(as_log(scores)) if wanted == "proba" else as_log(scores)


def fit_pair(
    model: Any,
    template: Any,
    X: Any,
    y: Any,
    split: Split,
    weights: FloatArray | None,
    fit_params: dict[str, Any],
) -> tuple[Bunch, Scores]:
    """Return a model, the map for its held-out rows, and its scores of these rows.

    Like the rest below, it takes the parameters of a ``CalibratedClassifier`` from ``model``.
    """
    train, test = split
    validation_rows = test if model.validation_fold else None
    estimator = fit_estimator(model.estimator, X, y, train, fit_params, validation_rows)
    reader = make_reader(model.features, template, estimator, _safe_indexing(X, train))
    scores = read_rows(estimator, _safe_indexing(X, test), model.response, reader)
    held_out = None if weights is None else weights[test]
    calibrator = fit_calibrator(template, scores, y[test], held_out, known_classes(estimator))
    pair = Bunch(estimator=estimator, calibrator=calibrator, source=scores.source, reader=reader)
    return pair, scores


def score_held_out(
    model: Any,
    X: Any,
    y: Any,
    split: Split,
    fit_params: dict[str, Any],
    classes: NDArray[Any],
    reader: FeatureReader | None,
) -> Scores:
    """Return probabilities or log-probabilities of the held-out rows, over all classes."""
    train, test = split
    estimator = fit_estimator(model.estimator, X, y, train, fit_params)
    scores = read_rows(estimator, _safe_indexing(X, test), model.response, reader)
    values, unknown = (
        (as_log(scores), np.log(TINY))
        if scores.kind == "logits"
        else (check_scores(scores.values, input="proba"), 0.0)
    )
    full = np.full((len(test), len(classes)), unknown)
    full[:, encode_labels(known_classes(estimator), classes)] = values
    return scores._replace(values=full)


def _fit_stacked(
    template: Any,
    splits: list[Split],
    held_out: list[Scores],
    y: NDArray[Any],
    weights: FloatArray | None,
    classes: NDArray[Any],
) -> Any:
    """Fit one calibrator on all held-out scores.

    A splitter need not score every row (time series), nor only once (repeated folds). The r
    scores of a row are r rows of weight 1/r. Their average would be that of r models, which
    is less over-confident than the single model that is calibrated here.
    """
    kind: Input = "logits" if all(part.kind == "logits" for part in held_out) else "proba"
    values = np.concatenate(
        [
            part.values if part.kind == kind else np.exp(part.values)  # log-probabilities
            for part in held_out
        ]
    )
    rows = np.concatenate([test for _, test in splits])
    order = np.argsort(rows, kind="stable")
    features = [part.features for part in held_out if part.features is not None]
    rows, scores = (
        rows[order],
        Scores(
            values[order],
            kind,
            held_out[0].source,
            np.concatenate(features)[order] if features else None,
        ),
    )
    counts = np.bincount(rows, minlength=len(y))
    if counts.max() == 1:
        return fit_calibrator(
            template, scores, y[rows], None if weights is None else weights[rows], classes
        )
    shares = (1.0 if weights is None else weights[rows]) / counts[rows]
    return fit_calibrator(template, scores, y[rows], shares, classes)


# -- all folds -------------------------------------------------------------------------------


def fit_folds(
    model: Any,
    template: Any,
    X: Any,
    y: NDArray[Any],
    splits: list[Split],
    weights: FloatArray | None,
    fit_params: dict[str, Any],
) -> tuple[list[Bunch], list[Scores]]:
    """Return a model and a map per fold, and the models' scores of their held-out rows."""
    fitted = Parallel(n_jobs=model.n_jobs)(
        delayed(fit_pair)(model, template, X, y, split, weights, fit_params) for split in splits
    )
    pairs, scores = zip(*fitted, strict=True)
    return list(pairs), list(scores)


def fit_single(
    model: Any,
    template: Any,
    X: Any,
    y: NDArray[Any],
    splits: list[Split],
    weights: FloatArray | None,
    fit_params: dict[str, Any],
    classes: NDArray[Any],
) -> Bunch:
    """Return a model of all rows, and one map for the held-out scores of the folds' models."""
    # One map for several models, which must see the rows in one space.
    reader = make_reader(model.features, template, model.estimator, X, stacked=True)
    held_out = Parallel(n_jobs=model.n_jobs)(
        delayed(score_held_out)(model, X, y, split, fit_params, classes, reader) for split in splits
    )
    calibrator = _fit_stacked(template, splits, held_out, y, weights, classes)
    final = fit_estimator(model.estimator, X, y, np.arange(len(y)), fit_params)
    return Bunch(estimator=final, calibrator=calibrator, source=held_out[0].source, reader=reader)
