"""Optuna's side of a search: the study, and what it is told of each trial."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from skcal.tuning._space import Space, import_optuna, parameters_of

# The study's own note of what it is about.
_ABOUT = "skcal"


def open_study(
    storage: Any,
    name: str | None,
    *,
    sampler: Any,
    pruner: Any,
    seed: int,
    about: Mapping[str, Any],
) -> Any:
    """Create the study, or continue the one of this name.

    Raises
    ------
    ValueError
        If the study that is there is about something else.
    """
    optuna = import_optuna()
    with _quiet():
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            sampler=sampler,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
    known = study.user_attrs.get(_ABOUT)
    if known is None and study.trials:
        raise ValueError(
            f"The storage has a study {name!r} that was not made by this search; take another "
            "study_name."
        )
    if known not in (None, dict(about)):
        raise ValueError(
            f"The storage has a study {name!r} of {known}, which is not the one of {dict(about)}; "
            "take another study_name, or go on with what it was begun with."
        )
    study.set_user_attr(_ABOUT, dict(about))
    if sampler is None:
        # A study that goes on shall not draw again what it drew at its beginning.
        mixed = np.random.SeedSequence([seed, len(study.trials)]).generate_state(1)[0]
        study.sampler = optuna.samplers.TPESampler(seed=int(mixed))
    return study


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the note of a new study from standard error."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def stoppable(study: Any) -> Iterator[list[bool]]:
    """Let samplers stop the study, as one that goes through a grid does at its end.

    ``Study.stop`` is for Optuna's own loop and raises outside of it. What is yielded is no longer
    empty once it was called.
    """
    stopped: list[bool] = []
    study.stop = lambda: stopped.append(True)
    try:
        yield stopped
    finally:
        del study.stop


def ask(study: Any, space: Space) -> Any:
    """Return a new trial; of a dictionary of distributions, with its values drawn."""
    return study.ask(None if callable(space) else dict(space))


def finished_trials(study: Any) -> list[Any]:
    """Return the trials that ended, well or not, in the order they began."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def hopeless(trial: Any, scores: list[float]) -> bool:
    """Report the mean of the scores so far, and return whether the trial is not worth more."""
    mean = float(np.mean(scores))
    if not np.isfinite(mean):
        return True
    trial.report(mean, step=len(scores) - 1)
    return bool(trial.should_prune())


def tell(study: Any, trial: Any, columns: Mapping[str, list[float]], n_fitted: int) -> None:
    """End a trial: failed with a score that is not finite, pruned with folds left out.

    The scores of its folds go to the storage before its state does, so that a trial that ended
    has them.
    """
    kept = {
        # JSON has no NaN.
        name: [value if np.isfinite(value) else None for value in values]
        for name, values in columns.items()
    }
    trial.set_user_attr("scores", kept)
    scores = columns["test_scores"]
    if not np.isfinite(scores[:n_fitted]).all():
        fail(study, trial)
    elif n_fitted < len(scores):
        study.tell(trial, state=import_optuna().trial.TrialState.PRUNED)
    else:
        study.tell(trial, float(np.mean(scores)))


def past_parameters(trial: Any, space: Space) -> dict[str, Any]:
    """Return the parameters of a trial of the past, for which a function is asked once more."""
    again = import_optuna().trial.FixedTrial(trial.params) if callable(space) else trial
    return parameters_of(again, space)


def scores_of(trial: Any, n_splits: int, names: Sequence[str]) -> list[dict[str, float]]:
    """Return scores and times of each fold of a trial of the past; NaN for what was not kept.

    Another process may have kept less, such as no training scores.
    """
    kept = trial.user_attrs["scores"]
    columns = {name: kept.get(name, [None] * n_splits) for name in names}
    return [
        {name: np.nan if v[fold] is None else v[fold] for name, v in columns.items()}
        for fold in range(n_splits)
    ]


def fail(study: Any, trial: Any) -> None:
    """End a trial as failed."""
    study.tell(trial, state=import_optuna().trial.TrialState.FAIL)
