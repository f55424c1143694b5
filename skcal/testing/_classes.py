"""Checks of numbers of rows and classes, and of labels of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal.testing._tools import (
    draw_proba,
    fit,
    refused,
    require_equal,
    require_simplex,
    torch_if_any,
)


def check_numbers_of_classes(calibrator: Any) -> None:
    """Rows are probabilities for 2, 3, 26 and 150 classes."""
    for k in (2, 3, 26, 150):
        proba, y = draw_proba(600, k)
        require_simplex(fit(calibrator, proba, y).predict_proba(proba[:50]), 50, k)


def check_numbers_of_rows(calibrator: Any) -> None:
    """Rows are probabilities after 10, 12, 100 and 100,000 of them."""
    for n in (10, 12, 100, 100_000):
        for k in (2, 3):
            proba, y = draw_proba(n, k, temperature=1.5)
            require_simplex(fit(calibrator, proba, y).predict_proba(proba), n, k)


def check_missing_class(calibrator: Any) -> None:
    """Keep the column of a class without rows if classes are named; else tell the way."""
    proba, y = draw_proba(300, 3)
    proba, y = proba[y != 1], y[y != 1]
    with refused("3 columns and 2 labels without classes=", "classes"):
        fit(calibrator, proba, y)
    fitted = fit(calibrator, proba, y, classes=[0, 1, 2])
    require_equal(fitted.classes_, [0, 1, 2], "classes_ lacks the class without a row")
    require_simplex(fitted.predict_proba(proba), len(y), 3)


def check_single_class(calibrator: Any) -> None:
    """Rows of one class only are enough if both are named."""
    for only in (0, 1):
        proba, _ = draw_proba(50, 2)
        proba[:, only] *= 7  # which the scores expect
        proba /= proba.sum(axis=1, keepdims=True)
        fitted = fit(calibrator, proba, [only] * 50, classes=[0, 1])
        require_simplex(fitted.predict_proba(proba), 50, 2)


def check_kinds_of_labels(calibrator: Any) -> None:
    """Labels may be strings, or numbers that are negative, sparse or shifted."""
    proba, codes = draw_proba(300, 3)
    expected = fit(calibrator, proba, codes).predict_proba(proba)
    for names in (
        np.array(["cat", "dog", "eel"]),
        np.array(["cat", "dog", "eel"], dtype=object),
        np.array([1, 2, 3]),
        np.array([-7, 0, 3]),
        np.array([10, 20, 30]),
        np.array([0, 1, 10**9]),
        np.array([1.0, 2.0, 5.0]),
    ):
        fitted = fit(calibrator, proba, names[codes])
        how = f"with labels {names.tolist()}"
        require_equal(fitted.classes_, names, f"classes_ {how}")
        require_equal(fitted.predict_proba(proba), expected, f"the answer {how} differs")
        _require_predictions(fitted, proba, names, expected, how)


def check_containers_of_labels(calibrator: Any) -> None:
    """Labels may be lists, booleans, columns, tensors and what pandas has, of any index."""
    import pandas as pd

    proba, codes = draw_proba(300, 2)
    expected = fit(calibrator, proba, codes).predict_proba(proba)
    index = np.random.default_rng(0).permutation(300) + 1
    letters = pd.Categorical.from_codes(codes, ["a", "b", "unused"])
    containers: dict[str, Any] = {
        "booleans": codes.astype(bool),
        "a list": codes.tolist(),
        "a column": codes[:, None],
        "Int64": pd.Series(codes, dtype="Int64"),
        "boolean": pd.Series(codes.astype(bool), dtype="boolean"),
        "a Categorical": pd.Categorical.from_codes(codes, ["a", "b"]),
        "a Series of categories, one unused": pd.Series(letters),
        "a Series with a shuffled index": pd.Series(codes, index=index),
    }
    torch = torch_if_any()
    if torch is not None:
        containers["a tensor"] = torch.tensor(codes)
    for name, labels in containers.items():
        fitted = fit(calibrator, proba, labels)
        require_equal(len(fitted.classes_), 2, f"number of classes for labels as {name}")
        require_equal(fitted.predict_proba(proba), expected, f"labels as {name} change the answer")


def check_declared_order_of_columns(calibrator: Any) -> None:
    """Columns are in the order of ``classes``, which need not be sorted."""
    proba, codes = draw_proba(300, 3)
    expected = fit(calibrator, proba, codes).predict_proba(proba)
    for names in (np.array(["lo", "mid", "hi"]), np.array([2, 0, 1])):
        fitted = fit(calibrator, proba, names[codes], classes=names)
        how = f"with columns {names.tolist()}"
        require_equal(fitted.classes_, names, f"classes_ {how}")
        require_equal(fitted.predict_proba(proba), expected, f"the answer {how} differs")
        _require_predictions(fitted, proba, names, expected, how)


def check_number_of_columns_is_enforced(calibrator: Any) -> None:
    """Scores of another number of columns than in ``fit`` are refused, with both numbers."""
    proba, y = draw_proba(100, 3)
    fitted = fit(calibrator, proba, y)
    for columns in (2, 4):
        with refused(f"{columns} columns after fit on 3", r"\b3\b", rf"\b{columns}\b"):
            fitted.predict_proba(np.full((5, columns), 1 / columns))


def check_labels_without_a_column_are_refused(calibrator: Any) -> None:
    """Labels that no column stands for, and other numbers of classes than columns, are refused."""
    proba, y = draw_proba(100, 3)
    with refused("a label that is not among classes", "3"):
        fit(calibrator, proba, np.where(y == 2, 3, y), classes=[0, 1, 2])
    for classes in ([0, 1], [0, 1, 2, 3]):
        with refused(f"classes={classes} for 3 columns"):
            fit(calibrator, proba, y % 2, classes=classes)
    with refused("a class named twice"):
        fit(calibrator, proba, y % 2, classes=[0, 1, 1])
    with refused("labels in fractions"):
        fit(calibrator, proba, y + 0.5)


def _require_predictions(fitted: Any, proba: Any, names: Any, expected: Any, how: str) -> None:
    if hasattr(fitted, "predict"):
        classes = names[expected.argmax(axis=1)]
        require_equal(fitted.predict(proba), classes, f"predict {how} is not the top class")
