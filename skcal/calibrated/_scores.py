"""What can be calibrated of a classifier: its logits, margins or probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skcal._validation import FloatArray, Input, check_scores

Method = Callable[[Any], Any]

# Rows on which margins are compared with probabilities; spread, as labels may be sorted.
_COMPARED = 20
# How boosting libraries are asked for their logits, which their probabilities round: float32
# has no number between 1 - 6e-8 and 1.
_RAW_SCORES = (
    ("predict_proba", "raw_score", True),  # LightGBM
    ("predict", "output_margin", True),  # XGBoost
    ("predict", "prediction_type", "RawFormulaVal"),  # CatBoost
)


class Scores(NamedTuple):
    """What a classifier says of some rows, of which kind it is, and how it was asked.

    With features of the rows, if a local calibrator reads any.
    """

    values: Any
    kind: Input
    source: str
    features: FloatArray | None = None


def read_scores(estimator: Any, X: Any, response: str = "auto") -> Scores:
    """Return an estimator's scores for some rows, their kind and their source.

    Parameters
    ----------
    estimator : fitted classifier
    X : DataFrame or array-like of shape (n_samples, n_features)
    response : str, default="auto"
        "auto", "logits", "decision_function", "predict_proba", or the ``source`` of an
        earlier call, which settles the choice for further rows.

    Returns
    -------
    Scores(values, kind, source)
        Values of shape (n_samples, n_classes) or (n_samples,); kind is "logits" or "proba".

    Raises
    ------
    ValueError
        If the estimator has none of what is asked for.
    """
    n_classes = len(known_classes(estimator))
    logits = _predict_logits(estimator)
    if response in ("auto", "logits", "predict_logits") and logits is not None:
        return Scores(logits(X), "logits", "predict_logits")
    if response in ("auto", "logits", "raw_score"):
        raw = _raw_score(estimator)
        if raw is not None:
            values = raw(X)
            if response == "raw_score" or _are_logits(values, estimator, X):
                return Scores(values, "logits", "raw_score")
    asked = response in ("auto", "logits", "decision_function")
    if asked and hasattr(estimator, "decision_function"):
        if not (n_classes > 2 and _compares_pairs(estimator)):
            values = np.asarray(estimator.decision_function(X))
            if n_classes == (2 if values.ndim == 1 else values.shape[1]) and (
                response != "logits" or _are_logits(values, estimator, X)
            ):
                return Scores(values, "logits", "decision_function")
        if response == "decision_function" or not hasattr(estimator, "predict_proba"):
            raise ValueError(_no_margins(estimator, n_classes, response))
    if response in ("auto", "predict_proba") and hasattr(estimator, "predict_proba"):
        return Scores(estimator.predict_proba(X), "proba", "predict_proba")
    wanted = {
        "auto": "predict_logits, a decision_function with one column per class, or predict_proba",
        "logits": "predict_logits, nor margins whose softmax is its predict_proba",
    }.get(response, response)
    raise ValueError(f"{name_of(estimator)} has no {wanted}, so there is nothing to calibrate.")


def _no_margins(estimator: Any, n_classes: int, response: str) -> str:
    if response == "logits":
        return (
            f"The margins of {name_of(estimator)} are no logits: it has no predict_proba that is "
            "their softmax. Set response='decision_function' to calibrate them all the same."
        )
    return (
        f"The decision_function of {name_of(estimator)} does not have one column for each of the "
        f"{n_classes} classes. Set decision_function_shape='ovr' if the classifier has it, or use "
        "a classifier with predict_proba."
    )


def _are_logits(values: Any, estimator: Any, X: Any) -> bool:
    """Tell whether margins are exactly the logits of the estimator's probabilities."""
    if not hasattr(estimator, "predict_proba"):
        return False
    n_rows = _num_samples(X)
    rows = np.unique(np.linspace(0, n_rows - 1, _COMPARED).astype(int))
    proba = np.asarray(estimator.predict_proba(_safe_indexing(X, rows)))
    margins = check_scores(np.asarray(values)[rows], input="logits")
    # What rounding can do: to a small probability, and to what is left of a large one.
    rounding = 8 * np.finfo(proba.dtype).eps if proba.dtype.kind == "f" else 0.0
    return margins.shape == proba.shape and np.allclose(
        softmax(margins, axis=1), proba, rtol=1e-4, atol=rounding
    )


def _unwrap(estimator: Any) -> Any:
    """Return what a frozen estimator or a fitted search stands for."""
    while True:
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def name_of(estimator: Any) -> str:
    """Return the name of the classifier in question, for messages."""
    return type(_unwrap(estimator)).__name__


def _after_the_steps(estimator: Any, find: Callable[[Any], Method | None]) -> Method | None:
    """Return a method of the last estimator, also out of wrappers, which hide it."""
    estimator = _unwrap(estimator)
    if isinstance(estimator, Pipeline):
        last = _after_the_steps(estimator[-1], find)
        if last is None:
            return None
        return last if len(estimator) == 1 else lambda X: last(estimator[:-1].transform(X))
    return find(estimator)


def embedding_of(estimator: Any) -> Method | None:
    """Return the method that embeds rows, if the last estimator has one."""
    return _after_the_steps(estimator, lambda last: getattr(last, "embed", None))


def _predict_logits(estimator: Any) -> Method | None:
    return _after_the_steps(estimator, lambda last: getattr(last, "predict_logits", None))


def _raw_score(estimator: Any) -> Method | None:
    return _after_the_steps(estimator, _raw_score_of)


def _raw_score_of(estimator: Any) -> Method | None:
    for name, option, value in _RAW_SCORES:
        method = getattr(estimator, name, None)
        if callable(method) and option in signature(method).parameters:
            return partial(method, **{option: value})
    return None


def _compares_pairs(estimator: Any) -> bool:
    """Tell whether margins are of pairs of classes, of which three classes have three too."""
    estimator = _unwrap(estimator)
    if isinstance(estimator, Pipeline):
        return _compares_pairs(estimator[-1])
    return getattr(estimator, "decision_function_shape", "ovr") == "ovo"


def known_classes(estimator: Any) -> NDArray[Any]:
    classes = getattr(estimator, "classes_", None)
    if classes is None or not is_classifier(estimator):
        raise ValueError(
            f"{name_of(estimator)} is not a fitted classifier with classes_; only "
            "classifiers can be calibrated."
        )
    return np.asarray(classes)
