"""What tests of calibration return, and which probabilities they look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcal._validation import FloatArray, IntArray
from skcal.metrics._events import check_kind, one_class, top_label

OneTest = Callable[[FloatArray, FloatArray, FloatArray], tuple[float, float, dict[str, Any]]]


@dataclass(frozen=True)
class CalibrationTest:
    """A test of the hypothesis that each row's label was drawn from its probabilities.

    Attributes
    ----------
    name : str
        The test.
    statistic : float
        What was observed; the test says which values speak against the hypothesis.
    p_value : float
        Probability, under the hypothesis, of a statistic at least as extreme.
    detail : dict
        What the test has to say besides, as its degrees of freedom.
    """

    name: str
    statistic: float
    p_value: float
    detail: dict[str, Any] = field(default_factory=dict)


def run_test(
    name: str,
    kind: str,
    codes: IntArray,
    proba: FloatArray,
    weights: FloatArray,
    classes: NDArray[Any],
    one: OneTest,
) -> CalibrationTest:
    """Apply a test of confidences against events to the kind of probability asked for.

    ``one(confidence, event, weights)`` returns a statistic, its p-value and details.
    """
    check_kind(kind, len(classes))
    keep = weights > 0  # A row of weight zero is a row that is not there.
    codes, proba, weights = codes[keep], proba[keep], weights[keep]
    if kind == "top-label":
        statistic, p_value, detail = one(*top_label(codes, proba), weights)
        return CalibrationTest(name, statistic, p_value, {"kind": kind, **detail})
    if len(classes) == 2:  # The first column says what the second one says.
        statistic, p_value, detail = one(*one_class(codes, proba, 1), weights)
        return CalibrationTest(name, statistic, p_value, {"kind": kind, **detail})
    each = [one(*one_class(codes, proba, k), weights) for k in range(len(classes))]
    p_values = np.array([p_value for _, p_value, _ in each])
    worst = int(p_values.argmin())
    statistic, p_value, detail = each[worst]
    detail = {
        "kind": kind,
        "class_label": classes.tolist()[worst],
        "p_values": p_values,
        **detail,
    }
    return CalibrationTest(name, statistic, min(1.0, len(classes) * p_value), detail)
