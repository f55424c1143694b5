"""What can be calibrated of a classifier: its logits, margins or probabilities."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skcal._validation import Input


class Scores(NamedTuple):
    """What a classifier says of some rows, and of which kind it is."""

    values: Any
    kind: Input


def read_scores(estimator: Any, X: Any, response: str = "auto") -> Scores:
    """Return an estimator's scores for some rows, and their kind.

    Parameters
    ----------
    estimator : fitted classifier
    X : DataFrame or array-like of shape (n_samples, n_features)
    response : {"auto", "logits", "decision_function", "predict_proba"}, default="auto"

    Returns
    -------
    Scores(values, kind)
        Values of shape (n_samples, n_classes) or (n_samples,); kind is "logits" or "proba".

    Raises
    ------
    ValueError
        If the estimator has none of what is asked for.
    """
    n_classes = len(known_classes(estimator))
    logits = _predict_logits(estimator)
    if response in ("auto", "logits") and logits is not None:
        return Scores(logits(X), "logits")
    if response in ("auto", "decision_function") and hasattr(estimator, "decision_function"):
        if not (n_classes > 2 and _compares_pairs(estimator)):
            values = np.asarray(estimator.decision_function(X))
            if n_classes == (2 if values.ndim == 1 else values.shape[1]):
                return Scores(values, "logits")
        if response == "decision_function" or not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"The decision_function of {name_of(estimator)} does not have one column "
                f"for each of the {n_classes} classes. Set decision_function_shape='ovr' if the "
                "classifier has it, or use a classifier with predict_proba."
            )
    if response in ("auto", "predict_proba") and hasattr(estimator, "predict_proba"):
        return Scores(estimator.predict_proba(X), "proba")
    wanted = {
        "auto": "predict_logits, a decision_function with one column per class, or predict_proba",
        "logits": "predict_logits",
    }.get(response, response)
    raise ValueError(f"{name_of(estimator)} has no {wanted}, so there is nothing to calibrate.")


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


def _predict_logits(estimator: Any) -> Callable[[Any], Any] | None:
    """Return the method that gives logits, also out of wrappers, which hide it."""
    estimator = _unwrap(estimator)
    if isinstance(estimator, Pipeline):
        last = _predict_logits(estimator[-1])
        if last is None:
            return None
        return last if len(estimator) == 1 else lambda X: last(estimator[:-1].transform(X))
    return getattr(estimator, "predict_logits", None)


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
