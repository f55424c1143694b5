"""Optuna's samplers and pruners in a search that is one of scikit-learn's."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from copy import copy, deepcopy
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel
from sklearn.utils.validation import _check_method_params, _check_y

from skcal._progress import interruptible, is_heard
from skcal.tuning._evaluation import KEPT, Folds, Outcome, columns_of
from skcal.tuning._scoring import scorer_for
from skcal.tuning._space import Space, check_space, parameters_of
from skcal.tuning._study import (
    FirstNetwork,
    ask,
    fail,
    finished_trials,
    hopeless,
    open_study,
    past_parameters,
    scored_trials,
    scores_of,
    stoppable,
    tell,
)


class OptunaSearch(BaseSearchCV):
    """Search for the parameters of best cross-validated score, drawn by Optuna.

    A search as :class:`~sklearn.model_selection.RandomizedSearchCV` is one: the same attributes,
    metadata routing, callbacks and refit. But each trial learns from those before it, and
    what is hopeless is given up: a network while it trains, a trial after some of its folds.

    Parameters
    ----------
    estimator : estimator
        What is tuned; a pipeline or a calibrated classifier, too.
    space : "auto", dict of Optuna distributions, or callable, default="auto"
        What parameters are drawn from, by their names: ``"C"``, or ``"step__C"`` below a step of a
        pipeline. "auto" is what :func:`space_for` knows of skcal's estimators. A callable is
        given a trial, suggests values on it, and returns the parameters; it is called again for
        the trials of other processes, and of the past.
    n_trials : int, default=50
        Trials of the study in all, those counted that are in the storage already. Failed and
        pruned ones count.
    timeout : float, optional
        Seconds after which no further trial begins.
    scoring : str or callable, default="neg_log_loss"
        One score, greater is better: a name that :func:`skcal.metrics.get_scorer` knows, one that
        scikit-learn knows, or a scorer. "neg_log_loss_after_temperature" is for models that are
        calibrated afterwards.
    cv : int, splitter or iterable, optional
        As in scikit-learn; five folds by default. All trials are scored on the same folds.
    sampler : optuna.samplers.BaseSampler, optional
        Where parameters come from; a copy is used. The tree-structured Parzen estimator by
        default, seeded by ``random_state``.
    pruner : optuna.pruners.BasePruner, optional
        Asked after each epoch of the first network that a trial trains, told minus its validation
        log-loss; and after each fold, told the mean score so far, which is compared with that of
        all trials that were fitted on the same folds. Optuna's MedianPruner by default: from the
        sixth trial on, the worse half is given up, networks only when three epochs have brought
        no better loss. ``optuna.pruners.NopPruner()`` gives none up. With ``n_jobs`` other than 1
        the folds of a trial are fitted at once, and none is given up.
    storage : str, path or optuna.storages.BaseStorage, optional
        Where trials are kept: in memory by default; else the path of a file, which will be
        Optuna's journal; the URL of a database, such as ``"sqlite:///study.db"``; or a storage.
    study_name : str, optional
        The study in it. If it is there, it is continued.
    refit : bool or callable, default=True
        Fit the best parameters on all rows. A callable is given ``cv_results_`` of the complete
        trials alone, and returns the index of the best of them.
    n_jobs : int, optional
        Folds that are fitted side by side.
    random_state : int, RandomState instance or None, default=None
        Seeds the default sampler. The same seed is the same study, if no ``timeout`` ends it and
        nothing was in the storage; with another ``n_jobs``, too, if the pruner gives none up.
    error_score : "raise" or float, default=np.nan
        The score of a fold whose fit or scoring fails. A trial without a finite mean has failed;
        the study goes on.
    return_train_score : bool, default=False
        Whether ``cv_results_`` has training scores, too.
    verbose : int, default=0
        As in scikit-learn.

    Attributes
    ----------
    study_ : optuna.study.Study
    cv_results_ : dict of arrays
        As in scikit-learn, a row for each finished trial of the study; also ``"trial"``, its
        number, and ``"state"``: "COMPLETE", "PRUNED" or "FAIL". Scores of folds that were left
        out are NaN.
    best_index_, best_params_, best_score_ : int, dict, float
        Of the complete trial of best mean score.
    best_estimator_ : estimator
        Fitted with them on all rows, if ``refit``.
    interrupted_ : bool
        Whether Ctrl-C ended the search early.
    test_to_train_ : float
        Mean ratio of the test to the training rows of the folds; intervals depend on it.
    n_splits_, scorer_, refit_time_, classes_, n_features_in_, feature_names_in_, multimetric_
        As in scikit-learn.

    Raises
    ------
    ImportError
        In ``fit``, without Optuna.
    ValueError
        If the space names a parameter that the estimator does not have, or the study in the
        storage is another one, such as that of other folds. If no trial comes to an end, the last
        error of a fold is raised.

    Notes
    -----
    The score of the best trial is too good: it was chosen for it. Measure the chosen model on
    rows of their own.

    Several processes, each with a ``random_state`` of its own, may work on one study in one
    storage.

    References
    ----------
    T. Akiba, S. Sano, T. Yanase, T. Ohta and M. Koyama, "Optuna: A Next-generation
    Hyperparameter Optimization Framework", KDD, 2019.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skcal.tuning import OptunaSearch
    >>> X, y = make_classification(random_state=0)
    >>> space = {"C": FloatDistribution(1e-3, 1e3, log=True)}
    >>> search = OptunaSearch(LogisticRegression(), space, n_trials=8, random_state=0)
    >>> search.fit(X, y).best_params_["C"] < 1
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "space": [StrOptions({"auto"}), Mapping, callable],
        "n_trials": [Interval(Integral, 1, None, closed="left")],
        "timeout": [Interval(Real, 0, None, closed="neither"), None],
        "scoring": [str, callable],
        "cv": ["cv_object"],
        "sampler": [HasMethods(["sample_relative"]), None],
        "pruner": [HasMethods(["prune"]), None],
        "storage": [str, PathLike, HasMethods(["create_new_study"]), None],
        "study_name": [str, None],
        "refit": ["boolean", callable],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "error_score": [StrOptions({"raise"}), Real],
        "return_train_score": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any,
        space: Any = "auto",
        *,
        n_trials: int = 50,
        timeout: float | None = None,
        scoring: Any = "neg_log_loss",
        cv: Any = None,
        sampler: Any = None,
        pruner: Any = None,
        storage: Any = None,
        study_name: str | None = None,
        refit: Any = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.n_trials = n_trials
        self.timeout = timeout
        self.sampler = sampler
        self.pruner = pruner
        self.storage = storage
        self.study_name = study_name
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Run trials, and fit the best on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            Of the estimator's ``fit``, the scorer and the splitter, as in scikit-learn; arrays of
            a number per row are split like the rows.

        Returns
        -------
        self
        """
        # A fit that fails shall not leave the answers of the one before.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        space = check_space(self.space, self.estimator)
        scorer, _ = self._get_scorers()
        X, y = indexable(X, y)
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError("This OptunaSearch requires y to be passed, but the target y is None.")
        if y is not None:
            _check_y(y, multi_output=True, estimator=self)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        weights = params.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        root = self._init_callback_context(
            max_subtasks=1 + (self.refit is not False)
        ).call_on_fit_task_begin(estimator=self, X=X, y=y, metadata=metadata)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        # The same folds for all trials, of a splitter that draws them anew each time, too.
        splits = list(cv.split(X, y, **routed.splitter.split))
        # Whom callbacks take for the caller goes along to where folds are fitted, which have no
        # business with the study, and may not get at the storage.
        caller = copy(self).set_params(storage=None)
        options = {
            "scorer": scorer,
            "fit_params": routed.estimator.fit,
            "score_params": routed.scorer.score,
            "return_train_score": self.return_train_score,
            "return_times": True,
            "verbose": self.verbose,
            "caller": caller,
        }
        folds = Folds(clone(self.estimator), X, y, splits, self.error_score, options)
        pruner = deepcopy(self.pruner)
        self.study_ = open_study(
            self.storage,
            self.study_name,
            sampler=deepcopy(self.sampler),
            pruner=pruner,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            about={
                "estimator": type(self.estimator).__name__,
                "scoring": self.scoring if isinstance(self.scoring, str) else "callable",
                "n_splits": len(splits),
                "rows": _fingerprint(splits),
            },
        )
        search = root.subcontext(
            task_name="search",
            max_subtasks=self.n_trials * len(splits),
            sequential_subtasks=False,
        ).call_on_fit_task_begin(estimator=self)
        # Those of this process are not asked for again: a function may answer otherwise.
        parameters = {
            trial.number: past_parameters(trial, space) for trial in scored_trials(self.study_)
        }
        failures = self._run_trials(folds, space, pruner, search, parameters)
        search.call_on_fit_task_end(estimator=self)
        self._collect(len(splits), space, failures, parameters)
        self.n_splits_, self.multimetric_, self.scorer_ = len(splits), False, scorer
        self.test_to_train_ = float(np.mean([len(test) / len(train) for train, test in splits]))
        if self.refit:
            self._refit(X, y, routed.estimator.fit, root, metadata)
        root.call_on_fit_task_end(estimator=self, X=X, y=y, metadata=metadata)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` came to its end; ``study_`` is left of one that did not."""
        return hasattr(self, "best_params_")

    # -- trials --------------------------------------------------------------------------

    def _run_trials(
        self,
        folds: Folds,
        space: Space,
        pruner: Any,
        search: Any,
        parameters: dict[int, dict[str, Any]],
    ) -> list[Exception]:
        """Run trials until there are enough, and return the errors of fits that failed.

        The parameters of each trial are noted in ``parameters``, by its number.
        """
        end = np.inf if self.timeout is None else time.monotonic() + self.timeout
        failures: list[Exception] = []
        self.interrupted_ = False
        n_tasks = 0
        try:
            with Parallel(n_jobs=self.n_jobs) as parallel, stoppable(self.study_) as stopped:
                # A storage may hold trials enough already; else there is one, however short
                # the time.
                while (
                    not stopped
                    and len(finished_trials(self.study_)) < self.n_trials
                    and (n_tasks == 0 or time.monotonic() < end)
                ):
                    trial = ask(self.study_, space)
                    contexts = [
                        search.subcontext(
                            task_name="candidate-split-evaluation", task_id=n_tasks + fold
                        )
                        for fold in range(len(folds.splits))
                    ]
                    n_tasks += len(contexts)
                    try:
                        parameters[trial.number] = parameters_of(trial, space)
                        if effective_n_jobs(self.n_jobs) == 1:
                            outcomes = folds.one_by_one(
                                parameters[trial.number],
                                contexts,
                                on_epoch=FirstNetwork(trial),
                                stop=partial(hopeless, self.study_, pruner),
                            )
                        else:
                            outcomes = folds.side_by_side(
                                parameters[trial.number], contexts, parallel
                            )
                        columns = columns_of(outcomes, len(folds.splits))
                    except BaseException:
                        fail(self.study_, trial)
                        raise
                    failures += _errors(outcomes)
                    tell(self.study_, trial, columns, len(outcomes))
        except KeyboardInterrupt:
            if is_heard():
                raise  # it is meant for the search that this one is a part of
            self.interrupted_ = True
        return failures

    def _collect(
        self,
        n_splits: int,
        space: Space,
        failures: list[Exception],
        parameters: dict[int, dict[str, Any]],
    ) -> None:
        """Set ``cv_results_`` and what is best, from the trials in the study."""
        trials = scored_trials(self.study_)
        complete = np.array([trial.state.name == "COMPLETE" for trial in trials], dtype=bool)
        if not complete.any():
            if self.interrupted_:
                raise KeyboardInterrupt
            said = f"None of {len(trials)} trials came to an end with a finite score."
            if failures:
                failures[-1].add_note(said)
                raise failures[-1]
            raise ValueError(f"{said} Look at scoring, and at the labels of each fold.")
        if failures:
            warnings.warn(
                f"{len(failures)} folds failed, the last by {failures[-1]!r}; error_score='raise' "
                "stops at the first.",
                FitFailedWarning,
                stacklevel=4,
            )
        if self.interrupted_:
            warnings.warn(
                f"The search was interrupted after {len(trials)} trials of {self.n_trials}; the "
                "best so far is kept.",
                stacklevel=4,
            )
        names = [n for n in KEPT if n != "train_scores" or self.return_train_score]
        outcomes = [fold for trial in trials for fold in scores_of(trial, n_splits, names)]
        with warnings.catch_warnings():
            # That trials were given up is in the column "state".
            warnings.filterwarnings("ignore", "One or more of the", UserWarning)
            self.cv_results_ = self._format_results(
                [
                    parameters[trial.number]
                    if trial.number in parameters
                    else past_parameters(trial, space)
                    for trial in trials
                ],
                n_splits,
                outcomes,
                {
                    "trial": [trial.number for trial in trials],
                    "state": [trial.state.name for trial in trials],
                },
            )
        # Rules of scikit-learn's kind do not reckon with the NaN of trials that were given up.
        rows = np.flatnonzero(np.asarray(self.cv_results_["state"]) == "COMPLETE")
        of_complete = {
            name: [column[row] for row in rows] if isinstance(column, list) else column[rows]
            for name, column in self.cv_results_.items()
        }
        self.best_index_ = rows[self._select_best_index(self.refit, "score", of_complete)]
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = self.cv_results_["mean_test_score"][self.best_index_]

    def _refit(self, X: Any, y: Any, fit_params: Any, root: Any, metadata: Any) -> None:
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        context = root.subcontext(task_name="refit-with-best-params")
        with context.propagate_callback_context(best):
            context.call_on_fit_task_begin(estimator=self, X=X, y=y, metadata=metadata)
            start = time.time()
            with interruptible():
                best.fit(X, **fit_params) if y is None else best.fit(X, y, **fit_params)
            self.refit_time_ = time.time() - start
        self.best_estimator_ = best
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        context.call_on_fit_task_end(estimator=self, X=X, y=y, metadata=metadata)

    def _get_scorers(self) -> tuple[Any, str]:
        return scorer_for(self.scoring, self.estimator), "score"


def _fingerprint(splits: list[tuple[Any, Any]]) -> int:
    """Return a number of the folds, which is another one for others, as of other rows."""
    found = 0
    for split in splits:
        for part in split:
            found = crc32(np.asarray(part).astype("<i8").tobytes(), found)
    return found


def _errors(outcomes: list[Outcome]) -> list[Exception]:
    return [one["error"] for one in outcomes if one["error"] is not None]
