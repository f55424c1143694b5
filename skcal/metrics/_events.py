"""Which predicted probability is held against which event."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skcal._validation import FloatArray, IntArray

Kind = Literal["top-label", "class-wise", "positive"]
KINDS = ("top-label", "class-wise", "positive")


def check_kind(kind: str, n_classes: int) -> None:
    """Refuse an unknown kind, and the positive class of anything but two classes."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
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


def find_column(classes: NDArray[Any], class_label: Any) -> int:
    """Return the column of a class."""
    names = classes.tolist()
    if class_label not in names:
        raise ValueError(f"class_label must be one of the classes {names}; got {class_label!r}.")
    return names.index(class_label)
