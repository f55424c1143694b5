"""Local calibrators under checks that know of scores only: features are made of the scores."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, Input, check_scores, log_probabilities
from skcal.calibration import LocalCalibrator


def of_scores_alone(calibrator: Any) -> Any:
    """Return a local calibrator, fitted or not, as one that finds features by itself.

    All others are returned as they are.
    """
    if not isinstance(calibrator, LocalCalibrator) or hasattr(calibrator, "without_features"):
        return calibrator
    made = object.__new__(_class_of(type(calibrator)))
    made.__dict__.update(vars(calibrator))
    return made


@cache
def _class_of(kind: type[LocalCalibrator]) -> type[LocalCalibrator]:
    """Return a subclass that differs in this only: what is not told is made of the scores."""

    class OfScoresAlone(kind):  # type: ignore[valid-type, misc]
        def fit(
            self,
            scores: ArrayLike,
            y: ArrayLike,
            sample_weight: ArrayLike | None = None,
            *,
            features: ArrayLike | None = None,
            classes: ArrayLike | None = None,
        ) -> Self:
            places = _features_of(scores, self.input) if features is None else features
            return super().fit(scores, y, sample_weight, features=places, classes=classes)

        def predict_proba(
            self, scores: ArrayLike, *, features: ArrayLike | None = None
        ) -> FloatArray:
            places = _features_of(scores, self.input) if features is None else features
            return super().predict_proba(scores, features=places)

        def without_features(self) -> Any:
            plain = object.__new__(kind)
            plain.__dict__.update(vars(self))
            return plain

        # No module holds this class; what is pickled is the calibrator itself.
        def __reduce__(self) -> Any:
            return of_scores_alone, (self.without_features(),)

    OfScoresAlone.__name__, OfScoresAlone.__qualname__ = kind.__name__, kind.__qualname__
    return OfScoresAlone


def _features_of(scores: Any, kind: Input) -> FloatArray:
    """Return smooth functions (n, 3) of each row, in which no class is special.

    Of scores that will be refused, anything.
    """
    try:
        checked = check_scores(scores, input=kind)
    except (TypeError, ValueError):
        return np.zeros((1, 3))
    proba = checked if kind == "proba" else np.exp(log_probabilities(checked, input=kind))
    proba = np.sort(proba, axis=1)[:, ::-1]
    return np.column_stack([proba[:, 0], proba[:, 1], proba[:, 0] ** 2])
