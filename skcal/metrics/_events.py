"""Which predicted probability is held against which event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skcal._validation import FloatArray, IntArray

Kind = Literal["top-label", "class-wise", "positive"]
KINDS = ("top-label", "class-wise", "positive")


def check_kind(kind: str, n_classes: int, kinds: tuple[str, ...] = KINDS) -> None:
    """Refuse an unknown kind, and the positive class of anything but two classes."""
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(map(repr, kinds))}; got {kind!r}.")
    if kind == "positive" and n_classes != 2:
        raise ValueError(
            f"kind='positive' needs exactly two classes, but there are {n_classes} columns; "
            "use kind='top-label' or kind='class-wise'."
        )


def top_label(codes: IntArray, proba: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest probability of each row, and whether its class is the true one.

    Where several classes share the largest probability, the first column is the prediction.
    """
    predicted = proba.argmax(axis=1)
    confidence = proba[np.arange(len(proba)), predicted]
    return confidence, (predicted == codes).astype(np.float64)


def one_class(codes: IntArray, proba: FloatArray, column: int) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of one class, and whether it is the true one."""
    return proba[:, column], (codes == column).astype(np.float64)


def comparisons(
    kind: str, codes: IntArray, proba: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the probabilities and events of a kind: one pair, or one for each class."""
    if kind == "top-label":
        yield top_label(codes, proba)
    elif kind == "positive":
        yield one_class(codes, proba, 1)
    else:
        # Columns of a row-major matrix are slow to walk, and each is walked many times.
        by_class = np.ascontiguousarray(proba.T).T
        for column in range(proba.shape[1]):
            yield one_class(codes, by_class, column)


def mean_error(
    error: Callable[[FloatArray, FloatArray], float],
    kind: str,
    codes: IntArray,
    proba: FloatArray,
) -> float:
    """Return the error of a kind, for "class-wise" its mean over the classes."""
    check_kind(kind, proba.shape[1])
    return float(np.mean([error(*pair) for pair in comparisons(kind, codes, proba)]))


def find_column(classes: NDArray[Any], class_label: Any) -> int:
    """Return the column of a class."""
    names = classes.tolist()
    if class_label not in names:
        raise ValueError(f"class_label must be one of the classes {names}; got {class_label!r}.")
    return names.index(class_label)


def wilson_interval(
    rate: FloatArray, n: FloatArray, confidence_level: float
) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's interval of an event's rate among n rows; NaN where the rate is NaN."""
    z = ndtri(0.5 + confidence_level / 2)
    # z^2 / n in empty bins would divide by zero; their NaN rate carries through either way.
    ratio = z**2 / np.where(n > 0, n, np.nan)
    centre = (rate + ratio / 2) / (1 + ratio)
    half = np.sqrt(ratio * (rate * (1 - rate) + ratio / 4)) / (1 + ratio)
    # Rounding must not push a bound past the rate it belongs to, nor out of [0, 1].
    return np.clip(centre - half, 0.0, rate), np.clip(centre + half, rate, 1.0)
