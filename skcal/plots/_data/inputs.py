"""What displays are given: classifiers with probabilities, and one event of predictions."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._events import Kind, check_kind, find_column, one_class, top_label

AnyKind = Kind | Literal["auto"]


class Event(NamedTuple):
    """One event of labelled predictions; arrays of shape (n_samples,)."""

    confidence: FloatArray
    happened: FloatArray
    weights: FloatArray
    kind: Kind
    class_label: Any


def predicted_by(estimator: Any, X: Any, what: str) -> tuple[Any, Any]:
    """Return a fitted classifier's probabilities and classes.

    Raises
    ------
    TypeError
        If the estimator has no ``predict_proba`` or no ``classes_``.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    """
    check_is_fitted(estimator)
    for needed in ("predict_proba", "classes_"):
        if not hasattr(estimator, needed):
            raise TypeError(
                f"{type(estimator).__name__} has no {needed}; {what} needs a classifier "
                "that gives probabilities."
            )
    return estimator.predict_proba(X), estimator.classes_


def read_event(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: AnyKind,
    class_label: Any,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> Event:
    """Return the probabilities of an event and whether it happened.

    "auto" is "class-wise" where a class is given, else "positive" for two classes and
    "top-label" for more.

    Raises
    ------
    ValueError
        If `class_label` and `kind` do not fit together, or labels and probabilities do not.
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    if kind == "auto":
        several: Kind = "positive" if proba.shape[1] == 2 else "top-label"
        kind = several if class_label is None else "class-wise"
    check_kind(kind, proba.shape[1])
    if (class_label is not None) != (kind == "class-wise"):
        raise ValueError(
            "kind='class-wise' is about one class: name it with class_label=..., one of "
            f"{classes.tolist()}."
            if class_label is None
            else f"class_label belongs to kind='class-wise'; got kind={kind!r}."
        )
    if kind == "top-label":
        return Event(*top_label(codes, proba), weights, kind, None)
    column = 1 if kind == "positive" else find_column(classes, class_label)
    return Event(*one_class(codes, proba, column), weights, kind, classes.tolist()[column])
