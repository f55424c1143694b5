"""Which of many classes are worth a panel."""

from numbers import Integral
from typing import Any, Literal

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.metrics import expected_calibration_error

Order = Literal["error", "count"]

ORDERS = {"error": "largest calibration error", "count": "most rows"}


def choose_classes(
    codes: IntArray,
    proba: FloatArray,
    weights: FloatArray,
    max_classes: int,
    order: str,
    bins: dict[str, Any],
) -> list[int]:
    """Return the columns to show: all, or those that lead in the order asked for."""
    if not isinstance(max_classes, Integral) or isinstance(max_classes, bool) or max_classes < 1:
        raise ValueError(f"max_classes must be a whole number of at least 1; got {max_classes!r}.")
    if order not in ORDERS:
        raise ValueError(f"order must be 'error' or 'count'; got {order!r}.")
    n_classes = proba.shape[1]
    if n_classes <= max_classes:
        return list(range(n_classes))
    if order == "count":
        rank = np.bincount(codes[weights > 0], minlength=n_classes).astype(np.float64)
    else:
        rank = np.array([_error_of(codes, proba, weights, k, bins) for k in range(n_classes)])
    return np.argsort(-rank, kind="stable")[:max_classes].tolist()


def _error_of(
    codes: IntArray, proba: FloatArray, weights: FloatArray, column: int, bins: dict[str, Any]
) -> float:
    """Return the calibration error of one class against the rest."""
    is_class = codes == column
    return expected_calibration_error(
        is_class,
        proba[:, column],
        kind="positive",
        sample_weight=weights,
        labels=[False, True],
        **bins,
    )
