"""Checks of sample weights, which count rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal.testing._tools import (
    draw_proba,
    fit,
    refused,
    require_close,
    require_equal,
    require_simplex,
)


def check_weights_equal_repetition(calibrator: Any) -> None:
    """Weights of two are rows given twice, and weights of zero rows left out."""
    for k in (2, 3):
        proba, y = draw_proba(300, k, temperature=2.0)
        repeats = np.random.default_rng(3).integers(0, 4, 300)
        repeats[:k] = 1
        weighted = fit(calibrator, proba, y, repeats).predict_proba(proba)
        rows, labels = np.repeat(proba, repeats, axis=0), np.repeat(y, repeats)
        repeated = fit(calibrator, rows, labels).predict_proba(proba)
        what = f"weights and repeated rows give different answers ({k} classes)"
        require_close(weighted, repeated, what, atol=1e-7)


def check_weight_zero_equals_absence(calibrator: Any) -> None:
    """Rows of weight zero change nothing, whatever they say; exact zeros among them."""
    for k in (2, 3):
        proba, y = draw_proba(300, k)
        all_rows, all_y = np.vstack([proba, np.eye(k)]), np.r_[y, np.roll(np.arange(k), 1)]
        weights = np.r_[np.ones(300), np.zeros(k)]
        with_them = fit(calibrator, all_rows, all_y, weights).predict_proba(proba)
        without = fit(calibrator, proba, y).predict_proba(proba)
        require_equal(with_them, without, "rows of weight zero change the answer")


def check_class_without_weight(calibrator: Any) -> None:
    """Classes whose rows all have weight zero keep their columns."""
    proba, y = draw_proba(300, 3)
    fitted = fit(calibrator, proba, y, (y != 1).astype(float))
    require_simplex(fitted.predict_proba(proba), 300, 3)
    require_equal(fitted.classes_, [0, 1, 2], "classes_ lacks the class without weight")


def check_containers_of_weights(calibrator: Any) -> None:
    """Weights may be a list, a Series of any index, integers or float32."""
    import pandas as pd

    proba, y = draw_proba(300, 3)
    repeats = np.random.default_rng(3).integers(1, 4, 300)
    expected = fit(calibrator, proba, y, repeats.astype(float)).predict_proba(proba)
    index = np.random.default_rng(0).permutation(300)
    for name, weights in {
        "a list": repeats.tolist(),
        "integers": repeats,
        "float32": repeats.astype(np.float32),
        "a Series": pd.Series(repeats, index=index),
    }.items():
        answer = fit(calibrator, proba, y, weights).predict_proba(proba)
        require_equal(answer, expected, f"weights as {name} change the answer")


def check_senseless_weights_are_refused(calibrator: Any) -> None:
    """Negative, missing and infinite weights, none above zero and too few are refused."""
    proba, y = draw_proba(50, 3)
    for value, words in ((-1.0, (r"\b4\b",)), (np.nan, ("NaN",)), (np.inf, ("inf",))):
        weights = np.ones(50)
        weights[4] = value
        with refused(f"a weight of {value}", *words):
            fit(calibrator, proba, y, weights)
    with refused("weights of zero only"):
        fit(calibrator, proba, y, np.zeros(50))
    with refused("49 weights for 50 rows"):
        fit(calibrator, proba, y, np.ones(49))
