"""Where a calibration map is looked at, and what it says there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import TINY, FloatArray, check_proba
from skcal.calibrated._pooling import Pool

# Points on a side of the simplex. Every fifth of them, from the third on, has an arrow.
_SIDE = 61
_ARROW_STEP, _ARROW_START = 5, 2


def lines_to_corners(n_classes: int, n_points: int, base: FloatArray) -> FloatArray:
    """Return probabilities (n_columns, n_points, K) along the line to each class's corner.

    The class has 0 to 1, and the others share the rest in the proportions of ``base``. Two
    classes have one such line, that of the second.
    """
    grid = np.linspace(0.0, 1.0, n_points)
    columns = [1] if n_classes == 2 else list(range(n_classes))
    rest = np.tile(base, (len(columns), 1))
    rest[np.arange(len(columns)), columns] = 0.0
    rest /= rest.sum(axis=1, keepdims=True)
    proba = (1 - grid)[:, None] * rest[:, None, :]
    proba[np.arange(len(columns)), :, columns] = grid
    return proba


def lattice() -> tuple[FloatArray, FloatArray]:
    """Return points of three classes' simplex (n, 3), and which of them (n,) have arrows.

    They keep off the edges, where a probability would be zero and stand for a tiny one.
    """
    first, second = np.meshgrid(np.arange(_SIDE + 1), np.arange(_SIDE + 1), indexing="ij")
    inside = first + second <= _SIDE
    steps = np.stack([first[inside], second[inside], _SIDE - (first + second)[inside]], axis=1)
    has_arrow = (steps % _ARROW_STEP == _ARROW_START).all(axis=1)
    return (steps + 1 / 3) / (_SIDE + 1), has_arrow


def check_base(base: ArrayLike | None, n_classes: int) -> FloatArray:
    """Return positive proportions of the classes; equal ones when none are given."""
    if base is None:
        return np.full(n_classes, 1 / n_classes)
    checked = np.asarray(base, dtype=np.float64)
    if checked.shape == (n_classes,):
        checked = check_proba(checked[None, :], name="base")[0]
    if checked.shape != (n_classes,) or checked.min() <= 0:
        raise ValueError(
            f"base must hold a positive probability for each of the {n_classes} classes, for "
            f"instance their frequencies; got {base!r}."
        )
    return checked


def ask(calibrator: Any, proba: FloatArray, method: str = "predict_proba") -> FloatArray:
    """Return what a calibrator answers to probabilities (..., K), of the same shape in front."""
    flat = proba.reshape(-1, proba.shape[-1])
    # A map of logits is told the logarithms, which are logits of these very probabilities.
    reads_logits = getattr(calibrator, "input", "proba") == "logits"
    scores = np.log(np.maximum(flat, TINY)) if reads_logits else flat
    answer = np.asarray(getattr(calibrator, method)(scores), dtype=np.float64)
    return answer.reshape(proba.shape[:-1] + answer.shape[1:])


def pooled(members: FloatArray, pooling: Any, temperature: float) -> FloatArray:
    """Return how a classifier pools the answers (n_folds, ..., K) of its maps."""
    n_classes = members.shape[-1]
    flat = members.reshape(len(members), -1, n_classes)
    pool = Pool(flat.shape[1:], pooling)
    for member in flat:
        pool.add(member, slice(None), np.arange(n_classes))
    return pool.proba(temperature).reshape(members.shape[1:])
