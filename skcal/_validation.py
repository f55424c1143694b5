"""One door for scores, labels and weights.

Every metric, calibrator and display takes its input through these functions, so that a
mistake meets the same words everywhere and the mathematics behind the door sees clean
float64 arrays only.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from skcal._rows import FloatArray, IntArray, log_softmax

Input = Literal["proba", "logits"]

# The smallest normal numbers: of float64, for logarithms and for what is returned, and of
# float32, for what is learned from.
TINY = float(np.finfo(np.float64).tiny)
_LEAST = float(np.finfo(np.float32).tiny)
# Beyond it squares and products overflow.
_LARGEST_LOGIT = 1e30

# How far a row may be from 1 before it is refused: what rounding alone can do in each type.
_SUM_TOLERANCE = {2: 1e-2, 4: 1e-3, 8: 1e-6}


def _as_matrix(scores: ArrayLike, name: str) -> NDArray[np.floating]:
    """Return finite floating scores as ``(n,)`` or ``(n, K)``, in their own precision."""
    if hasattr(scores, "toarray") and not isinstance(scores, np.ndarray):
        raise TypeError(f"{name} is sparse; pass {name}.toarray() instead.")
    if hasattr(scores, "detach"):  # a torch tensor, perhaps part of a graph or on a device
        scores = scores.detach().cpu()
    try:
        array = np.asarray(scores)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        if array.dtype.kind in "US" or any(isinstance(value, str) for value in array.flat[:1]):
            raise TypeError("text, as predict returns; use predict_proba")
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be real numbers in an array of shape (n,) or (n, K) ({error})."
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have shape (n,) or (n, K), one column per class; got {array.shape}."
        )
    if array.shape[0] == 0 or array.size == 0:
        raise ValueError(f"{name} has no rows or no columns (shape {array.shape}).")
    # Sums depend on the order in memory, and results should not.
    array = np.ascontiguousarray(array)
    # A sum that is finite needs no look at each value; one that is not may only be too large.
    if not np.isfinite(array.sum(dtype=np.float64)) and not np.isfinite(array).all():
        finite = np.isfinite(array)
        row = int(np.argmin(finite if array.ndim == 1 else finite.all(axis=1)))
        kind = "NaN" if np.isnan(array[row]).any() else "infinity"
        raise ValueError(
            f"{name} holds {kind} in row {row}; every score must be a finite number. "
            "Look at what the model returns for that row."
        )
    return array


def check_proba(y_proba: ArrayLike, *, name: str = "y_proba") -> FloatArray:
    """Return probabilities as a float64 matrix whose rows sum to one.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Probabilities. A single column is the probability of the second class.
    name : str, default="y_proba"
        What to call the argument in error messages.

    Returns
    -------
    ndarray of shape (n_samples, n_classes), float64
        Rows within rounding of one (1e-6, 1e-3 or 1e-2 for 64, 32 and 16 bit input) are
        rescaled to sum to exactly one.

    Raises
    ------
    ValueError
        If a value is not finite or outside [0, 1], or a row does not sum to one.
    """
    raw = _as_matrix(y_proba, name)
    tolerance = _SUM_TOLERANCE[raw.dtype.itemsize]
    proba = raw.astype(np.float64, copy=False)
    least = proba.min()
    if least < -tolerance or proba.max() > 1 + tolerance:
        outside = (proba < -tolerance) | (proba > 1 + tolerance)
        row = int(np.argmax(outside if proba.ndim == 1 else outside.any(axis=1)))
        raise ValueError(
            f"{name} must be probabilities in [0, 1]; row {row} is {raw[row]}. "
            + (
                "If these are logits, say so (input='logits') or apply softmax first."
                if name == "scores"
                else "If these are logits, apply softmax first; divide percentages by 100."
            )
        )
    if proba.ndim == 1:
        proba = np.clip(proba, 0.0, 1.0)
        return np.column_stack([1.0 - proba, proba])
    if least < 0:
        proba = np.maximum(proba, 0.0)
    total = proba @ np.ones(proba.shape[1])
    wrong = np.abs(total - 1.0) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"Each row of {name} must sum to 1; row {row} sums to {total[row]:.6g}. "
            "Divide by the row sums if the scores are meant to be normalised."
        )
    return proba / total[:, None]


def check_scores(scores: ArrayLike, *, input: Input) -> FloatArray:
    """Return scores of a declared kind as a float64 matrix with one column per class.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Probabilities or logits. A single column belongs to the second class: its
        probability, or its log-odds.
    input : {"proba", "logits"}
        What the scores are. It is never guessed from their values.

    Returns
    -------
    ndarray of shape (n_samples, n_classes), float64
        Probabilities whose rows sum to one, or logits.

    Raises
    ------
    ValueError
        If the scores do not fit the declared kind.
    """
    if input == "proba":
        return check_proba(scores, name="scores")
    if input != "logits":
        raise ValueError(f"input must be 'proba' or 'logits'; got {input!r}.")
    logits = _as_matrix(scores, "scores").astype(np.float64, copy=False)
    if max(-logits.min(), logits.max()) > _LARGEST_LOGIT:
        row = int(np.abs(logits).reshape(len(logits), -1).max(axis=1).argmax())
        raise ValueError(
            f"Logits must lie within ±{_LARGEST_LOGIT:g}; row {row} is {logits[row]}. Divide all "
            "scores by one number."
        )
    return logits if logits.ndim == 2 else np.column_stack([np.zeros_like(logits), logits])


def log_probabilities(scores: FloatArray, *, input: Input, eps: float = TINY) -> FloatArray:
    """Return the logarithms in nats of what :func:`check_scores` returned.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), float64
    input : {"proba", "logits"}
    eps : float
        Probabilities below this are raised to it. Logits are taken as they are.

    Returns
    -------
    ndarray of shape (n_samples, n_classes), float64
        Each row's exponentials sum to one.
    """
    if input == "logits":
        return log_softmax(scores)
    floored = np.maximum(scores, eps)
    log_proba = np.log(floored, out=floored)
    # Rows that lie above the floor sum to one already.
    return log_softmax(log_proba) if scores.min() < eps else log_proba


def zero_probability(proba: FloatArray) -> float:
    """Return what an exact zero among these probabilities may stand for.

    A zero says "less than I can tell": a vote of 100 trees tells hundredths apart. It stands
    for half of the smallest positive probability. Without zeros, and where they come from
    underflow, it stands for the smallest normal float32, 1.2e-38: smaller ones are not
    evidence that can be calibrated, and a few of them would outweigh all other rows.
    """
    if proba.min() > 0:
        return _LEAST
    return max(float(proba.min(where=proba > 0, initial=1.0)) / 2, _LEAST)


def check_labels(y: ArrayLike, *, name: str = "y") -> NDArray[Any]:
    """Return class labels as a one-dimensional array.

    Raises
    ------
    ValueError
        If labels are missing, continuous, of mixed kinds or not one-dimensional.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {labels.shape}.")
    if labels.dtype.kind == "O":
        labels = _from_objects(labels, name)
    if labels.dtype.kind == "f":
        _refuse_missing(~np.isfinite(labels), name)
    if labels.dtype.kind not in "biufOUS" or (
        labels.dtype.kind == "f" and (labels != np.floor(labels)).any()
    ):
        raise ValueError(
            f"Unknown label type: {name} must hold classes (strings, booleans or whole numbers), "
            f"not {'fractions' if labels.dtype.kind == 'f' else labels.dtype}."
        )
    return labels


def _from_objects(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return labels of pandas' nullable and categorical types as numbers, or as they are."""
    _refuse_missing(np.array([is_missing(value) for value in labels], dtype=bool), name)
    kinds = {str if isinstance(value, str) else type(value) for value in labels}
    if kinds == {str}:
        return labels
    if all(issubclass(kind, bool | np.bool_ | Real) for kind in kinds):
        return np.array(labels.tolist())
    raise ValueError(
        f"Unknown label type: {name} must hold classes of one kind (strings, booleans or whole "
        f"numbers); it holds {', '.join(sorted(kind.__name__ for kind in kinds))}."
    )


def _refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    if missing.any():
        raise ValueError(
            f"{name} has a missing or infinite label in row {int(np.argmax(missing))}; "
            "remove such rows."
        )


def is_missing(value: Any) -> bool:
    # None, NaN, NaT and pandas.NA: the last refuses to be compared.
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def resolve_classes(
    y: ArrayLike,
    n_classes: int,
    classes: ArrayLike | None = None,
    *,
    columns_are_codes: bool = False,
) -> NDArray[Any]:
    """Return the class of each score column.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    n_classes : int
        Number of score columns.
    classes : array-like of shape (n_classes,), optional
        The classes in column order. Without it they are the sorted labels, provided that
        there are as many as columns.
    columns_are_codes : bool, default=False
        Whether integer labels within ``range(n_classes)``, a 0 among them, may stand for
        the columns when some of them are absent.

    Raises
    ------
    ValueError
        If the classes cannot be told for sure.
    """
    found = np.unique(check_labels(y))
    if classes is not None:
        given = check_labels(classes, name="classes")
        if len(given) != n_classes:
            raise ValueError(
                f"There are {n_classes} score columns but {len(given)} classes were given."
            )
        if len(np.unique(given)) != len(given):
            raise ValueError(f"The classes must be distinct; got {given.tolist()}.")
        known = set(given.tolist())
        unknown = [label for label in found.tolist() if label not in known]
        if unknown:
            raise ValueError(
                f"Label {unknown[0]!r} is not among the classes {given.tolist()}; the scores "
                "have no column for it. Remove those rows or train a model that knows the class."
            )
        return given
    if len(found) == n_classes:
        return found
    # Labels that start at 1 would fit the columns too, shifted by one: only a 0 settles it.
    is_code = found.dtype.kind == "b" or (found.dtype.kind in "iuf" and found[0] == 0)
    if columns_are_codes and is_code and found[-1] < n_classes:
        return np.arange(n_classes)
    raise ValueError(
        f"The labels hold {len(found)} classes but there are {n_classes} score columns; "
        "name the class of each column (classes=... or labels=...)."
    )


def check_column_order(scores: Any, classes: NDArray[Any]) -> None:
    """Refuse a table whose columns are named after the classes, in another order.

    Raises
    ------
    ValueError
    """
    names = [str(name) for name in getattr(scores, "columns", ())]
    wanted = [str(label) for label in classes.tolist()]
    if names != wanted and sorted(names) == sorted(wanted):
        raise ValueError(
            f"The columns of the scores are named {names}, but stand for the classes {wanted}, in "
            "this order. Reorder the columns, or name the class of each (classes=... or "
            "labels=...)."
        )


def encode_labels(y: ArrayLike, classes: NDArray[Any]) -> IntArray:
    """Return the column number of each label; ``classes`` may be in any order."""
    labels = check_labels(y)
    if labels.dtype.kind in "iu" and classes.dtype.kind in "iu":
        # Of mixed signs they would be compared as floats, which large numbers share.
        labels = labels.astype(classes.dtype)
    order = np.argsort(classes, kind="stable")
    return order[np.searchsorted(classes[order], labels)].astype(np.intp)


def check_weights(sample_weight: ArrayLike | None, reference: ArrayLike) -> FloatArray:
    """Return non-negative float64 weights, one per row; ones when none are given.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or all of them are zero.
    """
    weights = _check_sample_weight(sample_weight, reference, dtype=np.float64)
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(
            f"sample_weight must not be negative; row {row} has {weights[row]:g}. A weight of 0 "
            "leaves a row out."
        )
    return weights


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> tuple[IntArray, FloatArray, FloatArray, NDArray[Any]]:
    """Check what a metric is given.

    Returns
    -------
    codes : ndarray of shape (n_samples,)
        Column number of the true class.
    proba : ndarray of shape (n_samples, n_classes), float64
    weights : ndarray of shape (n_samples,), float64
    classes : ndarray of shape (n_classes,)
    """
    proba = check_proba(y_proba)
    check_consistent_length(y_true, proba)
    if labels is None and np.ndim(y_proba) == 1 and set(np.unique(y_true).tolist()) == {1}:
        labels = [0, 1]  # the probability of the positive class, which is 1 as everywhere
    classes = resolve_classes(y_true, proba.shape[1], labels, columns_are_codes=True)
    check_column_order(y_proba, classes)
    return encode_labels(y_true, classes), proba, check_weights(sample_weight, proba), classes
