"""What the checks share: rows whose true probabilities are known, and plain assertions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone

from skcal.testing._local import of_scores_alone

FloatArray = NDArray[np.float64]


def draw(
    n: int, k: int, *, seed: int = 0, temperature: float = 1.0, spread: float = 2.0
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return logits, and labels for which logits / temperature are the true logits."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    true = softmax(logits / temperature, axis=1)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    y[:k] = np.arange(k)  # every class has a row
    return logits, y


def draw_proba(n: int, k: int, **how: Any) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the same with the probabilities that the logits say."""
    logits, y = draw(n, k, **how)
    return softmax(logits, axis=1), y


def fresh(calibrator: Any, kind: str = "proba") -> Any:
    """Return an unfitted copy for scores of a kind, without chance, that asks for scores only."""
    copy = of_scores_alone(clone(calibrator))
    parameters = copy.get_params(deep=False)
    if "random_state" in parameters and parameters["random_state"] is None:
        copy.set_params(random_state=0)
    if "input" in parameters:
        return copy.set_params(input=kind)
    if kind != "proba":
        raise SkipTest(f"{type(calibrator).__name__} has no parameter input: no logits")
    return copy


def fit(
    calibrator: Any,
    scores: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    kind: str = "proba",
    classes: ArrayLike | None = None,
) -> Any:
    """Return a fitted copy. What is not given is not passed on either."""
    given = {"sample_weight": sample_weight, "classes": classes}
    extra = {name: value for name, value in given.items() if value is not None}
    return fresh(calibrator, kind).fit(scores, y, **extra)


def log_loss(y: NDArray[Any], proba: FloatArray) -> float:
    """Return the mean log-loss in nats for labels that are column numbers, unclipped."""
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def require(condition: Any, message: str) -> None:
    """Raise an AssertionError; unlike the statement, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def require_close(actual: Any, expected: Any, what: str, *, atol: float, rtol: float = 0) -> None:
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=what)


def require_equal(actual: Any, expected: Any, what: str) -> None:
    np.testing.assert_array_equal(actual, expected, err_msg=what)


def require_simplex(proba: Any, n: int, k: int) -> None:
    """Require float64 rows inside the simplex: no zero, no one, sum 1 to rounding."""
    require(isinstance(proba, np.ndarray), f"predict_proba returns {type(proba)}, not an array")
    require(proba.shape == (n, k), f"predict_proba returns shape {proba.shape}, not {(n, k)}")
    require(proba.dtype == np.float64, f"predict_proba returns {proba.dtype}, not float64")
    require(np.isfinite(proba).all(), "predict_proba returns NaN or infinity")
    require((proba >= 0).all(), f"predict_proba returns {proba.min():g}, which is below 0")
    require((proba > 0).all(), "predict_proba returns exact zeros: a log-loss may be infinite")
    off = np.abs(proba.sum(axis=1) - 1).max()
    require(off < 1e-12, f"rows of predict_proba miss a sum of 1 by up to {off:.3g}")


@contextmanager
def refused(what: str, *words: str, error: type[Exception] = ValueError) -> Iterator[None]:
    """Require an error of a kind whose message holds some words (regular expressions)."""
    try:
        yield
    except error as raised:
        missing = [word for word in words if not re.search(word, str(raised))]
        require(not missing, f"{what}: the message lacks {missing}; it says: {raised}")
    except Exception as raised:
        raise AssertionError(
            f"{what} must be refused with {error.__name__}, not {type(raised).__name__}: {raised}"
        ) from raised
    else:
        raise AssertionError(f"{what} must be refused with {error.__name__}, and is accepted")


def torch_if_any() -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    return torch
