"""Scores by name."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import check_scoring

from skcal.metrics import get_scorer, get_scorer_names


def scorer_for(scoring: Any, estimator: Any) -> Any:
    """Return a scorer: skcal's where it has the name, else scikit-learn's, or the one given."""
    if isinstance(scoring, str) and scoring in get_scorer_names():
        return get_scorer(scoring)
    return check_scoring(estimator, scoring)
