"""The folds of a calibrated classifier: how they are split, fitted and scored."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupShuffleSplit, check_cv
from sklearn.utils import Bunch, _safe_indexing, check_random_state
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
from skcal.calibrated._early_stopping import fit_with_validation
from skcal.calibrated._scores import Scores, known_classes, read_scores
from skcal.calibration import BaseCalibrator, make_calibrator

Split = tuple[Any, Any]

_FOLDS = 5


# -- splits ----------------------------------------------------------------------------------


def is_share(cv: Any) -> bool:
    """Tell whether ``cv`` is the share of one hold-out."""
    return isinstance(cv, Real) and not isinstance(cv, Integral)


def check_number(cv: Any) -> None:
    """Refuse numbers that are neither of folds nor a share."""
    if (is_share(cv) and not 0 < cv < 1) or (isinstance(cv, Integral) and cv < 2):
        raise ValueError(
            f"cv={cv!r} is neither a number of folds (a whole number, 2 or more) nor the share of "
            "rows held out once (between 0 and 1, both excluded). Use cv=5 or cv=0.2."
        )


def make_splits(
    cv: Any, X: Any, y: NDArray[Any], split_params: dict[str, Any], random_state: Any
) -> list[Split]:
    """Return (train, test) row numbers, having checked that each test part can be scored."""
    if is_share(cv):
        splits = [_hold_out(cv, X, y, split_params.get("groups"), random_state)]
    else:
        parts = _splitter(cv, y).split(X, y, **split_params)
        n = len(y)
        splits = [(_row_numbers(train, n), _row_numbers(test, n)) for train, test in parts]
    if not splits:
        raise ValueError(f"cv={cv!r} makes no split, so that there is nothing to calibrate on.")
    for fold, (train, test) in enumerate(splits, start=1):
        if len(np.intersect1d(train, test)):
            raise ValueError(
                f"Fold {fold} calibrates on rows that it also trains on; use a splitter whose "
                "training and test parts have no row in common."
            )
        unknown = np.setdiff1d(y[test], y[train])
        if len(unknown):
            raise ValueError(
                f"Class {unknown.tolist()[0]!r} is not in the training part of fold {fold}, so "
                "the model of that fold cannot score it. Use a stratified or shuffled splitter."
            )
        if len(np.unique(y[train])) < 2:
            raise ValueError(
                f"The training part of fold {fold} holds one class, {y[train][:1].tolist()[0]!r}, "
                "of which no classifier can be made. Use a stratified or shuffled splitter."
            )
    never = np.setdiff1d(y, y[np.concatenate([train for train, _ in splits])])
    if len(never):
        raise ValueError(
            f"Class {never.tolist()[0]!r} is in no training part, so that no model would know it. "
            "Use a stratified or shuffled splitter."
        )
    return splits


def _row_numbers(part: Any, n: int) -> NDArray[Any]:
    """Return row numbers, which some splitters give as a mask."""
    rows = np.asarray(part)
    if rows.dtype.kind == "b":
        return np.flatnonzero(rows)
    if len(rows) and not 0 <= rows.min() <= rows.max() < n:
        outside = rows.min() if rows.min() < 0 else rows.max()
        raise ValueError(
            f"cv gives the row number {outside}; with {n} rows they run from 0 to {n - 1}."
        )
    return rows


def _splitter(cv: Any, y: NDArray[Any]) -> Any:
    if hasattr(cv, "__next__"):
        raise ValueError(
            "cv is a generator, which can be read only once; pass the splitter itself, or "
            "cv=list(splitter.split(X, y))."
        )
    classes, counts = np.unique(y, return_counts=True)
    rarest = f"class {classes.tolist()[int(counts.argmin())]!r} has {counts.min()}"
    if cv is None and counts.min() < 2:
        raise ValueError(
            "Calibrating by cross-validation needs at least 2 samples of each class, but "
            f"{rarest}. Merge or remove the rare class, or hold rows out once (cv=0.2), which "
            "keeps a lone row for training."
        )
    if isinstance(cv, Integral) and counts.min() < cv:
        raise ValueError(
            f"{cv}-fold cross-validation needs at least {cv} samples of each class, "
            f"but {rarest}. Use a smaller cv, or merge or remove the rare class."
        )
    folds = min(_FOLDS, int(counts.min())) if cv is None else cv
    return check_cv(folds, y, classifier=True)


def _hold_out(share: float, X: Any, y: NDArray[Any], groups: Any, random_state: Any) -> Split:
    """Return one split that holds out a share of each class, or of the groups."""
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=share, random_state=random_state)
        return next(splitter.split(X, y, groups))
    rng = check_random_state(random_state)
    classes, codes = np.unique(y, return_inverse=True)
    order = rng.permutation(len(y))
    order = order[np.argsort(codes[order], kind="stable")]
    # Every (1 / share)-th row of the shuffled classes, from a random start: each class, and
    # the whole, is within one row of its share.
    steps = np.floor(np.arange(len(y) + 1) * share + rng.uniform())
    held = np.diff(steps) > 0
    # A model must know every class: one row of each stays in training.
    first = np.searchsorted(codes[order], np.arange(len(classes)))
    all_held = np.bincount(codes[order][~held], minlength=len(classes)) == 0
    held[first[all_held]] = False
    if not held.any():
        raise ValueError(
            f"cv={share!r} of {len(y)} rows holds out none to calibrate on. Use a greater share."
        )
    return np.sort(order[~held]), np.sort(order[held])


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
    return calibrator.fit(as_input(calibrator, scores), y, weights, classes=classes)


def gives_intervals(model: Any) -> bool:
    """Tell whether the calibrator has ``predict_interval``."""
    try:
        return hasattr(make_calibrator(model.calibrator), "predict_interval")
    except (TypeError, ValueError):  # no calibrator: ``fit`` says so
        return False


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
    scores = read_scores(estimator, _safe_indexing(X, test), model.response)
    held_out = None if weights is None else weights[test]
    calibrator = fit_calibrator(template, scores, y[test], held_out, known_classes(estimator))
    return Bunch(estimator=estimator, calibrator=calibrator, source=scores.source), scores


def score_held_out(
    model: Any,
    X: Any,
    y: Any,
    split: Split,
    fit_params: dict[str, Any],
    classes: NDArray[Any],
) -> Scores:
    """Return probabilities or log-probabilities of the held-out rows, over all classes."""
    train, test = split
    estimator = fit_estimator(model.estimator, X, y, train, fit_params)
    scores = read_scores(estimator, _safe_indexing(X, test), model.response)
    values, unknown = (
        (as_log(scores), np.log(TINY))
        if scores.kind == "logits"
        else (check_scores(scores.values, input="proba"), 0.0)
    )
    full = np.full((len(test), len(classes)), unknown)
    full[:, encode_labels(known_classes(estimator), classes)] = values
    return Scores(full, scores.kind, scores.source)


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
    rows, scores = rows[order], Scores(values[order], kind, held_out[0].source)
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
    held_out = Parallel(n_jobs=model.n_jobs)(
        delayed(score_held_out)(model, X, y, split, fit_params, classes) for split in splits
    )
    calibrator = _fit_stacked(template, splits, held_out, y, weights, classes)
    final = fit_estimator(model.estimator, X, y, np.arange(len(y)), fit_params)
    return Bunch(estimator=final, calibrator=calibrator, source=held_out[0].source)
