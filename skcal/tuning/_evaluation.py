"""One trial over the folds, fold by fold or side by side."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from traceback import format_exception
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score
from sklearn.utils.parallel import Parallel, delayed

from skcal._progress import GivenUp, OnEpoch, heard_by, ignore

Outcome = dict[str, Any]

# What is kept of each fold, beside the error that it may have ended in.
KEPT = ("test_scores", "train_scores", "fit_time", "score_time")


class Folds(NamedTuple):
    """What the fits of a search have in common.

    Attributes
    ----------
    estimator : estimator
    X, y : array-like
    splits : list of (train, test)
    error_score : "raise" or float
        The score of a fold whose fit or scoring fails.
    options : dict
        Scorer, weights and the like, for scikit-learn's ``_fit_and_score``.
    """

    estimator: Any
    X: Any
    y: Any
    splits: list[tuple[Any, Any]]
    error_score: Any
    options: dict[str, Any]

    def one_by_one(
        self,
        parameters: dict[str, Any],
        contexts: Sequence[Any],
        on_epoch: OnEpoch,
        stop: Callable[[list[float]], bool],
    ) -> list[Outcome]:
        """Fit fold by fold, and leave out the rest as soon as the trial is given up.

        Parameters
        ----------
        parameters : dict
        contexts : sequence
            scikit-learn's callback context of each fold.
        on_epoch : callable
            Told of the epochs of networks in the first fold; raises GivenUp to stop.
        stop : callable
            Told the test scores so far, returns whether to stop.

        Returns
        -------
        list of dict
            The outcome of each fold that was fitted.
        """
        outcomes: list[Outcome] = []
        for fold, context in enumerate(contexts):
            # Someone listens in the other folds, too: Ctrl-C then ends the search, not a network.
            with suppress(GivenUp), heard_by(on_epoch if fold == 0 else ignore):
                outcomes.append(self._fit(parameters, fold, context))
            if not outcomes or stop([one["test_scores"] for one in outcomes]):
                break
        return outcomes

    def side_by_side(
        self, parameters: dict[str, Any], contexts: Sequence[Any], parallel: Parallel
    ) -> list[Outcome]:
        """Fit all folds at once, in what ``parallel`` has."""
        outcomes: list[Outcome] = parallel(
            delayed(self._fit)(parameters, fold, context) for fold, context in enumerate(contexts)
        )
        return outcomes

    def _fit(self, parameters: dict[str, Any], fold: int, context: Any) -> Outcome:
        train, test = self.splits[fold]
        try:
            outcome: Outcome = _fit_and_score(
                clone(self.estimator),
                self.X,
                self.y,
                train=train,
                test=test,
                parameters=parameters,
                callback_ctx=context,
                error_score="raise",
                **self.options,
            )
        except Exception as error:
            if self.error_score == "raise":
                raise
            outcome = {"test_scores": self.error_score, "fit_time": 0.0, "score_time": 0.0}
            if self.options["return_train_score"]:
                outcome["train_scores"] = self.error_score
            return outcome | {"error": _portable(error)}
        if isinstance(outcome["test_scores"], dict):
            raise TypeError(f"scoring must return one number; got {outcome['test_scores']!r}.")
        return outcome | {"error": None}


def _portable(error: Exception) -> Exception:
    """Return the error, or one of its text if it cannot leave a process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(format_exception(error)))
    return error


def columns_of(outcomes: list[Outcome], n_splits: int) -> dict[str, list[float]]:
    """Return scores and times by name, one of each for a fold; NaN for a fold left out."""
    rest = [np.nan] * (n_splits - len(outcomes))
    return {
        name: [float(one[name]) for one in outcomes] + rest
        for name in KEPT
        if all(name in one for one in outcomes)
    }
