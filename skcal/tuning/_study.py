"""Optuna's side of a search: the study, and what it is told of each trial."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from skcal._progress import GivenUp
from skcal.tuning._optuna import import_optuna
from skcal.tuning._space import Space, parameters_of

# The study's own note of what it is about.
_ABOUT = "skcal"
# A step of Optuna's that no network comes to: pruners that wait for some epochs have waited.
_AFTER_EPOCHS = 1_000_000
# Epochs without a better loss, after which networks are compared: some learn slowly, but learn.
_PATIENCE = 3
# What a database says that is being made, and seconds between tries to open it.
_HALF_MADE = ("IntegrityError", "already exists", "no such table")
_PAUSES = (0.2, 0.5, 1.0, 2.0)


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
            storage=_opened(storage),
            study_name=name,
            sampler=sampler,
            pruner=pruner or _default_pruner(),
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


def _opened(storage: Any) -> Any:
    """Return the storage: a path is that of a journal, which needs no other package."""
    is_path = isinstance(storage, os.PathLike) or (
        isinstance(storage, str) and "://" not in storage
    )
    if isinstance(storage, str) and not is_path:
        return _connected(storage)
    if not is_path:
        return storage
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    # Its lock is a link to the path as it is given, which dangles from another folder: nobody
    # would take over the lock of a process that was killed.
    return JournalStorage(JournalFileBackend(os.path.abspath(storage)))


def _connected(url: str) -> Any:
    """Return the database, which another process may be making at the same time.

    Of two that make its tables at once, one fails; a moment later they are there.
    """
    get_storage = import_optuna().storages.get_storage
    for pause in _PAUSES:
        try:
            return get_storage(url)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if not any(
                sign in told for sign in ("IntegrityError", "already exists", "no such table")
            ):
                raise
            time.sleep(pause)
    return get_storage(url)


def _default_pruner() -> Any:
    """Give up the worse half, but no network that is still learning."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.pruners.PatientPruner(optuna.pruners.MedianPruner(), patience=_PATIENCE)


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


class FirstNetwork:
    """Reports each epoch of the first network that a trial trains, and gives the trial up.

    A calibrated classifier or an ensemble trains several, which begin at the first epoch again.

    Raises
    ------
    GivenUp
        When the pruner says so.
    """

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self._last = 0
        self._is_over = False

    def __call__(self, epoch: int, loss: float) -> None:
        """Hear of an epoch: its number, from 1, and the validation loss."""
        self._is_over |= epoch <= self._last
        if self._is_over:
            return
        self._last = epoch
        self._trial.report(-loss, step=epoch)
        if self._trial.should_prune():
            raise GivenUp


def hopeless(study: Any, pruner: Any, scores: list[float]) -> bool:
    """Ask the pruner whether a trial with these scores, of its first folds, is worth more.

    It is asked in a study of its own, in which each trial that was fitted on the same folds is
    complete and has reported its mean, and nothing else. So neither are easy folds compared with
    hard ones, nor folds with epochs, and the median is that of all trials: of those alone that
    were not given up, it would rise until nothing passed it.
    """
    mean = float(np.mean(scores))
    if not np.isfinite(mean):
        return True
    optuna = import_optuna()
    if isinstance(pruner, optuna.pruners.NopPruner):
        return False
    pruner = pruner or optuna.pruners.MedianPruner()
    states = optuna.trial.TrialState
    with _quiet():
        folds = optuna.create_study(
            study_name=study.study_name, direction="maximize", pruner=pruner
        )
    for past in finished_trials(study):
        earlier = past.user_attrs.get("scores", {}).get("test_scores", [])[: len(scores)]
        if earlier and None not in earlier:
            means = {_AFTER_EPOCHS: float(np.mean(earlier))}
            folds.add_trial(
                optuna.trial.create_trial(value=np.mean(earlier), intermediate_values=means)
            )
    reported = {_AFTER_EPOCHS: mean}
    folds.add_trial(optuna.trial.create_trial(state=states.RUNNING, intermediate_values=reported))
    return bool(pruner.prune(folds, folds.get_trials(deepcopy=False)[-1]))


def tell(study: Any, trial: Any, columns: Mapping[str, list[float]], n_fitted: int) -> None:
    """End a trial: failed with a score that is not finite, pruned with folds left out.

    The scores of its folds go to the storage before its state does, so that a trial that ended
    has them. Ctrl-C does not take away what was fitted.
    """
    try:
        _tell(study, trial, columns, n_fitted)
    except KeyboardInterrupt:
        if all(trial.number != one.number for one in finished_trials(study)):
            _tell(study, trial, columns, n_fitted)
        raise


def _tell(study: Any, trial: Any, columns: Mapping[str, list[float]], n_fitted: int) -> None:
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
    """Return the parameters of a trial of the past, for which a function is asked once more.

    Raises
    ------
    ValueError
        If the function fails, as one that asks for other values does.
    """
    if not callable(space):
        return parameters_of(trial, space)
    again = import_optuna().trial.FixedTrial(trial.params, number=trial.number)
    try:
        return parameters_of(again, space)
    except Exception as error:
        raise ValueError(
            f"Trial {trial.number} of the study, with {trial.params}, was not drawn from this "
            "space; take another study_name, or go on with the space that it was begun with."
        ) from error


def scored_trials(study: Any) -> list[Any]:
    """Return the finished trials that have scores: those whose parameters could be drawn."""
    return [trial for trial in finished_trials(study) if "scores" in trial.user_attrs]


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
