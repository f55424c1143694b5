"""The members of an ensemble: what can be one, its seeds, and whether they matter."""

from __future__ import annotations

import warnings
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from skcal.calibrated._scores import known_classes, name_of, read_scores

# What a seed may be, to all of numpy, torch and scikit-learn.
_SEEDS = np.iinfo(np.int32).max


# -- before training -------------------------------------------------------------------------


def check_member(member: Any, n_members: int) -> None:
    """Refuse what cannot be a member, before a long training."""
    if isinstance(member, FrozenEstimator):
        raise ValueError(
            f"A frozen {name_of(member)} is not trained again, so that all members would be the "
            "same. Pass the estimator itself."
        )
    if not is_classifier(member):
        raise ValueError(f"{name_of(member)} is not a classifier; only those are averaged.")
    if not hasattr(member, "predict_proba"):
        raise TypeError(
            f"{name_of(member)} has no predict_proba. CalibratedClassifier makes probabilities of "
            "its scores; wrap it in one."
        )
    if n_members > 1 and not _names_of_seeds(member):
        raise ValueError(
            f"{name_of(member)} has no random_state, nor has any part of it, so that its "
            f"{n_members} copies would all be the same. Use it alone, or give its copies "
            "different rows (sklearn.ensemble.BaggingClassifier)."
        )


def check_takes_weights(member: Any) -> None:
    """Refuse weights that nothing would use."""
    # Searches and pipelines take anything, and say themselves what they cannot hand on.
    kinds = {parameter.kind for parameter in signature(member.fit).parameters.values()}
    if not has_fit_parameter(member, "sample_weight") and Parameter.VAR_KEYWORD not in kinds:
        raise ValueError(
            f"{name_of(member)} takes no sample_weight, and an ensemble has no other use for "
            "weights. Leave them out, or use a member that takes them."
        )


def _names_of_seeds(estimator: Any) -> list[str]:
    return sorted(
        name
        for name in estimator.get_params(deep=True)
        if name == "random_state" or name.endswith("__random_state")
    )


def seeded(estimator: Any, rng: np.random.RandomState) -> Any:
    """Return a copy of an estimator with fresh seeds everywhere."""
    copied = clone(estimator)
    seeds = {name: int(rng.randint(_SEEDS)) for name in _names_of_seeds(copied)}
    return copied.set_params(**seeds)


def fit_member(member: Any, X: Any, y: NDArray[Any], params: dict[str, Any]) -> Any:
    """Return the fitted member: the one that was given, or its copy in another process."""
    return member.fit(X, y, **params)


# -- after training --------------------------------------------------------------------------


def check_classes(members: list[Any]) -> None:
    """Refuse members whose probabilities are not about the same classes."""
    first, *others = [known_classes(member) for member in members]
    for other in others:
        if not np.array_equal(other, first):
            raise ValueError(
                "The members were given the same rows and know different classes, "
                f"{first.tolist()} and {other.tolist()}, so that they cannot be averaged. See how "
                f"{name_of(members[0])} chooses its training rows."
            )


def source_of(member: Any, X: Any) -> str:
    """Return what to read of the members: exact logits if there are any."""
    try:
        return read_scores(member, X, "logits").source
    except ValueError:  # there are none
        return "predict_proba"


def warn_of_copies(members: list[Any], X: Any) -> None:
    """Warn of members that have a seed and make no use of it.

    Probabilities that are all 0 or 1 tell nothing: trees that know their training rows by
    heart may differ on others. Nor can it be an error, since a map with a few steps makes
    equal probabilities of different scores.
    """
    if len(members) == 1:
        return
    first = np.asarray(members[0].predict_proba(X))
    if np.isin(first, (0, 1)).all():
        return
    if all(np.array_equal(first, other.predict_proba(X)) for other in members[1:]):
        warnings.warn(
            f"All {len(members)} members give the same probabilities on {len(first)} training "
            f"rows: {name_of(members[0])} seems to make no use of its random_state, and the "
            "ensemble is no better than one member.",
            UserWarning,
            stacklevel=3,
        )
