"""Which of many classes are worth a panel."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skcal._options import check_whole
from skcal._validation import FloatArray, IntArray
from skcal.metrics._bins import bin_edges, bin_statistics, binned_error
from skcal.metrics._events import one_class

Order = Literal["error", "count"]

ORDERS = {"error": "largest calibration error", "count": "most rows"}


def class_errors(
    codes: IntArray, proba: FloatArray, weights: FloatArray, n_bins: int, strategy: Any
) -> FloatArray:
    """Return the calibration error (K,) of each class against the rest.

    Their mean is :func:`skcal.metrics.expected_calibration_error` of kind "class-wise".
    """

    def error(column: int) -> float:
        confidence, event = one_class(codes, proba, column)
        edges = bin_edges(confidence, weights, n_bins, strategy)
        bins = bin_statistics(confidence, event, weights, edges)
        return binned_error(bins.weight, bins.mean_confidence, bins.event_rate)

    return np.array([error(column) for column in range(proba.shape[1])])


def choose_classes(
    codes: IntArray, weights: FloatArray, errors: FloatArray, max_classes: int, order: str
) -> list[int]:
    """Return the columns to show: all, or those that lead in the order asked for."""
    check_whole(max_classes, "max_classes")
    if order not in ORDERS:
        raise ValueError(f"order must be 'error' or 'count'; got {order!r}.")
    n_classes = len(errors)
    if n_classes <= max_classes:
        return list(range(n_classes))
    rank = errors
    if order == "count":
        rank = np.bincount(codes[weights > 0], minlength=n_classes).astype(np.float64)
    return np.argsort(-rank, kind="stable")[:max_classes].tolist()
