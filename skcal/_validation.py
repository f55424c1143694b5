"""One door for scores, labels and weights.

Every metric, calibrator and display takes its input through these functions, so that a
mistake meets the same words everywhere and the mathematics behind the door sees clean
float64 arrays only.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, log_softmax
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Input = Literal["proba", "logits"]

# How far a row may be from 1 before it is refused: what rounding alone can do in each type.
_SUM_TOLERANCE = {2: 1e-2, 4: 1e-3, 8: 1e-6}


def _as_matrix(scores: ArrayLike, name: str) -> NDArray[np.floating]:
    """Return finite floating scores as ``(n,)`` or ``(n, K)``, in their own precision."""
    if hasattr(scores, "toarray") and not isinstance(scores, np.ndarray):
        raise TypeError(f"{name} is sparse; pass {name}.toarray() instead.")
    try:
        array = np.asarray(scores)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers in an array of shape (n,) or (n, K).") from error
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have shape (n,) or (n, K), one column per class; got {array.shape}."
        )
    if array.shape[0] == 0 or array.size == 0:
        raise ValueError(f"{name} has no rows or no columns (shape {array.shape}).")
    finite = np.isfinite(array)
    if not finite.all():
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
    tolerance = _SUM_TOLERANCE.get(raw.dtype.itemsize, 1e-6)
    proba = raw.astype(np.float64)
    outside = (proba < -tolerance) | (proba > 1 + tolerance)
    if outside.any():
        row = int(np.argmax(outside if proba.ndim == 1 else outside.any(axis=1)))
        raise ValueError(
            f"{name} must be probabilities in [0, 1]; row {row} is {raw[row]}. "
            "If these are logits, say so (input='logits') or apply softmax first."
        )
    proba = np.clip(proba, 0.0, 1.0)
    if proba.ndim == 1:
        return np.column_stack([1.0 - proba, proba])
    total = proba.sum(axis=1)
    wrong = np.abs(total - 1.0) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"Each row of {name} must sum to 1; row {row} sums to {total[row]:.6g}. "
            "Divide by the row sums if the scores are meant to be normalised."
        )
    return proba / total[:, None]


def log_probabilities(
    scores: ArrayLike, *, input: Input, eps: float | Literal["auto"] = "auto"
) -> FloatArray:
    """Return scores of a declared kind as float64 log-probabilities.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Probabilities or logits. A single column belongs to the second class: its
        probability, or its log-odds.
    input : {"proba", "logits"}
        What the scores are. It is never guessed from their values.
    eps : float or "auto", default="auto"
        Smallest probability told apart from zero. "auto" is the smallest normal number of
        the input's own type (2.2e-308 in float64, 1.2e-38 in float32).

    Returns
    -------
    ndarray of shape (n_samples, n_classes), float64
        Log-probabilities in nats; each row's exponentials sum to one.

    Raises
    ------
    ValueError
        If the scores do not fit the declared kind.
    """
    if input == "logits":
        logits = _as_matrix(scores, "scores").astype(np.float64)
        if logits.ndim == 1:
            return np.column_stack([log_expit(-logits), log_expit(logits)])
        return log_softmax(logits, axis=1)
    if input != "proba":
        raise ValueError(f"input must be 'proba' or 'logits'; got {input!r}.")
    raw = _as_matrix(scores, "scores")
    proba = check_proba(raw, name="scores")
    if eps == "auto":
        eps = float(np.finfo(raw.dtype).tiny)
    elif not (isinstance(eps, int | float) and 0 < eps < 1):
        raise ValueError(f"eps must be 'auto' or a number between 0 and 1; got {eps!r}.")
    log_proba = np.log(np.maximum(proba, eps))
    return log_proba - np.logaddexp.reduce(log_proba, axis=1, keepdims=True)


def check_labels(y: ArrayLike, *, name: str = "y") -> NDArray[Any]:
    """Return class labels as a one-dimensional array.

    Raises
    ------
    ValueError
        If labels are missing, continuous or not one-dimensional.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {labels.shape}.")
    if labels.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in labels], dtype=bool)
    elif labels.dtype.kind == "f":
        missing = np.isnan(labels)
    else:
        missing = np.zeros(len(labels), dtype=bool)
    if missing.any():
        raise ValueError(f"{name} has a missing label in row {int(np.argmax(missing))}.")
    if labels.dtype.kind not in "biufOUS" or (
        labels.dtype.kind == "f" and (labels != np.floor(labels)).any()
    ):
        raise ValueError(
            f"Unknown label type: {name} must hold classes (strings, booleans or whole numbers), "
            f"not {'fractions' if labels.dtype.kind == 'f' else labels.dtype}."
        )
    return labels


def _is_missing(value: Any) -> bool:
    # None, NaN, NaT and pandas.NA: the last refuses to be compared.
    try:
        return value is None or bool(value != value)
    except TypeError:
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
        Whether integer labels within ``range(n_classes)`` may stand for the columns when
        some of them are absent.

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
        unknown = [label for label in found.tolist() if label not in set(given.tolist())]
        if unknown:
            raise ValueError(
                f"Label {unknown[0]!r} is not among the classes {given.tolist()}; the scores "
                "have no column for it. Remove those rows or train a model that knows the class."
            )
        return given
    if len(found) == n_classes:
        return found
    if columns_are_codes and found.dtype.kind in "iubf" and found[0] >= 0 and found[-1] < n_classes:
        return np.arange(n_classes)
    raise ValueError(
        f"The labels hold {len(found)} classes but there are {n_classes} score columns; "
        "name the class of each column (classes=... or labels=...)."
    )


def encode_labels(y: ArrayLike, classes: NDArray[Any]) -> IntArray:
    """Return the column number of each label; ``classes`` may be in any order."""
    labels = check_labels(y)
    order = np.argsort(classes, kind="stable")
    return order[np.searchsorted(classes[order], labels)].astype(np.intp)


def check_weights(sample_weight: ArrayLike | None, reference: ArrayLike) -> FloatArray:
    """Return non-negative float64 weights, one per row; ones when none are given.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or all of them are zero.
    """
    weights = _check_sample_weight(
        sample_weight, reference, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("All sample weights are zero; at least one row must count.")
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
    classes = resolve_classes(y_true, proba.shape[1], labels, columns_are_codes=True)
    return encode_labels(y_true, classes), proba, check_weights(sample_weight, proba), classes
