"""Choosing on some rows, and measuring on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble._base import _set_random_states
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import indexable
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _num_samples

from skcal._options import check_share
from skcal._progress import interruptible
from skcal._repeats import mean_and_half_width
from skcal.calibrated import CalibratedClassifier
from skcal.calibration import make_calibrator
from skcal.tuning._scoring import scorer_for

Rows = NDArray[np.intp]


@dataclass(repr=False)
class Confirmation:
    """What :func:`tune_and_confirm` found.

    Shown or printed, it is a report.

    Attributes
    ----------
    search : search
        The fitted search.
    best_params : dict
        What it chose.
    search_seeds : list of int
    search_score : float
        The score of the best parameters where they were chosen.
    scores : dict of arrays
        By name, an entry for each confirmation seed: "seed", and the scores on the test rows
        "tuned_<scoring>" and "given_<scoring>", with the chosen parameters and with those that
        the estimator came with.
    confirmed_score : float
        The same score on the test rows, the mean over confirmation seeds; before ``calibrator``.
    optimism : float
        ``search_score`` minus ``confirmed_score``: how much better the parameters looked where
        they were chosen. The luck of the test rows is in it, too: on few of them it may be of
        either sign.
    estimator : estimator
        With the chosen parameters, fitted on all rows but the test rows (and calibrated).
    test_rows, calibration_rows : ndarray of int
        Positions of the rows that the search did not see.
    scoring : str
        What the parameters were chosen by.
    notes : list of str
        What else a reader should know, such as which rows calibrate.
    """

    search: Any
    best_params: dict[str, Any]
    search_score: float
    confirmed_score: float
    search_seeds: list[int]
    scores: dict[str, NDArray[Any]]
    estimator: Any
    test_rows: Rows
    calibration_rows: Rows
    scoring: str
    notes: list[str] = field(default_factory=list)

    @property
    def optimism(self) -> float:
        """Return how much better the parameters looked where they were chosen."""
        return self.search_score - self.confirmed_score

    def __str__(self) -> str:
        """Return a report in plain text."""
        seeds = self.scores["seed"]
        names = [name.removeprefix("tuned_") for name in self.scores if name.startswith("tuned_")]
        width = max(map(len, names))
        params = ", ".join(f"{name}={_short(value)}" for name, value in self.best_params.items())
        lines = [
            f"Chosen on seeds {_listed(self.search_seeds)} by {self.scoring}: {params}",
            f"Confirmed on seeds {_listed(seeds)} and {len(self.test_rows)} test rows:",
            "",
            f"{'':{width}}  {'tuned':>17}  {'as given':>17}  {'difference':>18}  better on",
        ]
        for name in names:
            tuned, given = self.scores[f"tuned_{name}"], self.scores[f"given_{name}"]
            lines.append(
                f"{name:{width}}  {_plus_minus(tuned):>17}  {_plus_minus(given):>17}  "
                f"{_plus_minus(tuned - given, '+'):>18}  "
                f"{np.sum(tuned > given)} of {len(seeds)}"
            )
        before = " before calibration" if len(self.calibration_rows) else ""
        lines += [
            "",
            f"The search's own score is {self.search_score:.4f}, confirmed "
            f"{self.confirmed_score:.4f}{before}: an optimism of {self.optimism:+.4f}.",
            "Greater scores are better; ± is a 95 % interval over seeds, at the same test rows.",
            *self.notes,
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return the same: what a notebook shows."""
        return str(self)


def tune_and_confirm(
    search: Any,
    X: Any,
    y: ArrayLike,
    *,
    search_seeds: Sequence[int] = (0, 1, 2),
    confirmation_seeds: Sequence[int] = (12, 13, 14, 15, 16),
    test_size: float = 0.2,
    validation_size: float = 0.25,
    calibrator: Any = None,
    calibration_size: float = 0.15,
    scoring: str | Sequence[str] = ("neg_log_loss", "neg_log_loss_after_temperature"),
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    **fit_params: Any,
) -> Confirmation:
    """Choose parameters on some seeds, and report on other seeds and on rows of their own.

    Test rows are put aside first, and calibration rows, if there is a ``calibrator``. The search
    scores each trial on one split of the others per search seed. The chosen parameters and those
    that the estimator came with are then fitted again for each confirmation seed, on a new split
    of the same size and with that seed in every ``random_state``, and scored on the test rows.

    Parameters
    ----------
    search : search
        :class:`OptunaSearch`, or one of scikit-learn's, unfitted, of one score; its ``cv`` and
        ``refit`` are set here.
    X : DataFrame or array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    search_seeds : sequence of int, default=(0, 1, 2)
        Each splits the rows once for the search.
    confirmation_seeds : sequence of int, default=(12, 13, 14, 15, 16)
        Each splits them anew and seeds the fits that are reported; none of the search's.
    test_size : float, default=0.2
        Share of the rows that the search does not see.
    validation_size : float, default=0.25
        Share of the rest on which a split's trials are scored.
    calibrator : str or calibrator, optional
        Learned for each confirmed fit, and for the last one, from the calibration rows.
    calibration_size : float, default=0.15
        Their share of the rows; no trial has seen them.
    scoring : str or sequence of str, default=("neg_log_loss", "neg_log_loss_after_temperature")
        What is reported beside the search's own score; greater is better.
    groups : array-like of shape (n_samples,), optional
        Rows that belong together stay on one side of each of these splits; what the estimator
        splits by itself does not know of it. Splits are stratified by class without it.
    n_jobs : int, optional
        Confirmed fits side by side.
    random_state : int, default=0
        Draws the test and calibration rows.
    **fit_params : dict
        Of the estimator's ``fit``; arrays of a number per row are split like the rows. The
        ``calibrator`` and the scores on test rows have no weights.

    Returns
    -------
    Confirmation
        Print it. ``estimator`` is fitted on all rows but the test rows.

    Raises
    ------
    TypeError
        If ``search`` is no search.
    ValueError
        If the search has several scores; if a seed is there twice, or there are none; if a share
        is not between 0 and 1, or the rows, or those of a class, are too few to be split.

    Notes
    -----
    The fits that are reported have as many training rows as those of the search; the last one,
    ``estimator``, has more. Successive halving may score its last parameters on fewer rows of each
    split; its optimism then tells little.

    A class needs two rows or more on the side that is split, except with ``groups``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skcal.tuning import tune_and_confirm
    >>> X, y = make_classification(300, random_state=0)
    >>> grid = GridSearchCV(LogisticRegression(), {"C": [0.01, 1]}, scoring="neg_log_loss")
    >>> print(tune_and_confirm(grid, X, y))
    Chosen on seeds 0, 1, 2 by neg_log_loss: C=1
    Confirmed on seeds 12, 13, 14, 15, 16 and 60 test rows:
    ...
    The search's own score is ..., confirmed ...: an optimism of ...
    ...
    """
    search_seeds, confirmation_seeds = _check_seeds(search_seeds, confirmation_seeds)
    _check_search(search)
    if y is None:
        raise ValueError("tune_and_confirm requires y to be passed, but the target y is None.")
    if isinstance(scoring, str):
        scoring = [scoring]
    for name, share in {
        "test_size": test_size,
        "validation_size": validation_size,
        "calibration_size": calibration_size,
    }.items():
        check_share(share, name)
    if calibrator is not None:
        calibrator = make_calibrator(calibrator)
    chosen_by = search.scoring if isinstance(search.scoring, str) else "score"
    scorers = {chosen_by: scorer_for(search.scoring, search.estimator)} | {
        name: scorer_for(name, search.estimator) for name in scoring
    }
    X, y, groups = indexable(X, y, groups)
    split = partial(
        _split, labels=np.asarray(y), groups=None if groups is None else np.asarray(groups)
    )
    rows, test = split(np.arange(_num_samples(X)), test_size, seed=random_state)
    calibration = np.empty(0, dtype=np.intp)
    if calibrator is not None:
        share = calibration_size / (1 - test_size)
        check_share(share, "calibration_size / (1 - test_size)")
        rows, calibration = split(rows, share, seed=random_state)

    of_fit = fit_params
    if _routing_enabled():  # some are for the scorer alone
        of_fit = search._get_routed_params_for_fit(fit_params).estimator.fit
    table = _Table(X, y, of_fit, calibrator, calibration)
    places = np.empty(_num_samples(X), dtype=np.intp)
    places[rows] = np.arange(len(rows))
    splits = [
        tuple(places[part] for part in split(rows, validation_size, seed=seed))
        for seed in search_seeds
    ]
    found = clone(search).set_params(cv=splits, refit=False)
    found.fit(*table.take(rows), **_check_method_params(X, fit_params, indices=rows))

    given = clone(search.estimator)
    tuned = clone(search.estimator).set_params(**clone(found.best_params_, safe=False))
    jobs = [(model, seed) for model in (tuned, given) for seed in confirmation_seeds]
    answers = Parallel(n_jobs=n_jobs)(
        delayed(table.confirm)(
            model, seed, split(rows, validation_size, seed=seed)[0], test, scorers
        )
        for model, seed in jobs
    )
    n_seeds = len(confirmation_seeds)
    of_both = {"tuned": answers[:n_seeds], "given": answers[n_seeds:]}
    scores = {"seed": np.array(confirmation_seeds)} | {
        f"{which}_{name}": np.array([answer[name] for _, answer in some])
        for name in scorers
        for which, some in of_both.items()
    }
    return Confirmation(
        search=found,
        best_params=found.best_params_,
        search_score=float(found.best_score_),
        confirmed_score=float(np.mean([raw for raw, _ in of_both["tuned"]])),
        search_seeds=search_seeds,
        scores=scores,
        estimator=table.calibrated(
            table.fitted(tuned, confirmation_seeds[0], rows), confirmation_seeds[0]
        ),
        test_rows=test,
        calibration_rows=calibration,
        scoring=chosen_by,
        notes=_notes(tuned, len(calibration)),
    )


class _Table(NamedTuple):
    """A table, and what is done with parts of it."""

    X: Any
    y: Any
    fit_params: dict[str, Any]
    calibrator: Any
    calibration: Rows

    def take(self, rows: Rows) -> tuple[Any, Any]:
        return _safe_indexing(self.X, rows), _safe_indexing(self.y, rows)

    def params_of(self, rows: Rows) -> dict[str, Any]:
        params: dict[str, Any] = _check_method_params(self.X, self.fit_params, indices=rows)
        return params

    def fitted(self, model: Any, seed: int, rows: Rows) -> Any:
        """Return a copy, seeded and fitted on some rows."""
        model = clone(model)
        _set_random_states(model, seed)
        with interruptible():
            return model.fit(*self.take(rows), **self.params_of(rows))

    def calibrated(self, model: Any, seed: int) -> Any:
        """Return a fitted model with the calibrator behind it, if there is one."""
        if self.calibrator is None:
            return model
        calibrator = clone(self.calibrator)
        _set_random_states(calibrator, seed)
        calibrated = CalibratedClassifier(FrozenEstimator(model), calibrator)
        return calibrated.fit(*self.take(self.calibration))

    def confirm(
        self, model: Any, seed: int, train: Rows, test: Rows, scorers: dict[str, Any]
    ) -> tuple[float, dict[str, float]]:
        """Return the first score before calibration, and all of them after it."""
        raw = self.fitted(model, seed, train)
        answers = self.calibrated(raw, seed)
        rows = self.take(test)
        first = next(iter(scorers.values()))
        return float(first(raw, *rows)), {
            name: float(scorer(answers, *rows)) for name, scorer in scorers.items()
        }


def _check_search(search: Any) -> None:
    if not all(hasattr(search, name) for name in ("estimator", "scoring", "cv", "refit")):
        raise TypeError(
            "search must be an OptunaSearch, or one of scikit-learn's, such as GridSearchCV; got "
            f"{search!r}."
        )
    if not (search.scoring is None or isinstance(search.scoring, str) or callable(search.scoring)):
        raise ValueError(
            f"The search must have one score, by which it chooses; got scoring={search.scoring!r}. "
            "What else is to be reported goes to scoring=... of tune_and_confirm."
        )


def _check_seeds(
    search_seeds: Sequence[int], confirmation_seeds: Sequence[int]
) -> tuple[list[int], list[int]]:
    first, second = list(search_seeds), list(confirmation_seeds)
    if not first or not second:
        raise ValueError("search_seeds and confirmation_seeds need at least one seed each.")
    for name, seeds in {"search_seeds": first, "confirmation_seeds": second}.items():
        if len(set(seeds)) < len(seeds):
            raise ValueError(
                f"{name} must be different ones: the same seed gives the same score; got {seeds}."
            )
    both = sorted(set(first) & set(second))
    if both:
        raise ValueError(
            f"Seed {both[0]} is among search_seeds and confirmation_seeds; what was chosen on a "
            "seed cannot be confirmed on it."
        )
    return first, second


def _split(
    rows: Rows, size: float, *, seed: int, labels: NDArray[Any], groups: NDArray[Any] | None
) -> tuple[Rows, Rows]:
    """Return two parts of some rows, the second of this share of them."""
    kind = StratifiedShuffleSplit if groups is None else GroupShuffleSplit
    splitter = kind(1, test_size=size, random_state=seed)
    within = None if groups is None else groups[rows]
    first, second = next(splitter.split(rows, labels[rows], within))
    return rows[np.sort(first)], rows[np.sort(second)]


def _notes(model: Any, n_calibration: int) -> list[str]:
    notes = []
    parts = [model, *model.get_params(deep=True).values()]
    if n_calibration:
        notes.append(f"Calibrated on {n_calibration} rows that no trial saw.")
    if any(isinstance(part, FrozenEstimator) for part in parts):
        notes.append(
            "A part of the estimator was fitted before: on which rows, test rows among them or "
            "not, is not known here."
        )
    if _calibrates_itself(parts):
        notes.append(
            "The estimator calibrates itself on rows of its own training part, which took part "
            "in choosing the parameters; the test rows did not."
        )
    return notes


def _calibrates_itself(parts: list[Any]) -> bool:
    return any(
        isinstance(part, CalibratedClassifier | CalibratedClassifierCV)
        or _has_own_map(part.get_params(deep=False))
        for part in parts
        if hasattr(part, "get_params") and not isinstance(part, type)
    )


def _has_own_map(params: dict[str, Any]) -> bool:
    """Return whether a network is told to calibrate, by itself or by its preset.

    Or a support vector machine of scikit-learn, whose ``probability`` is such a map.
    """
    if params.get("probability") is True:
        return True
    calibrate = params.get("calibrate", False)
    if isinstance(calibrate, str) and calibrate == "preset":
        return bool(params["preset"] == "strong")
    return calibrate is not False


def _plus_minus(values: NDArray[np.float64], sign: str = "") -> str:
    mean, half = mean_and_half_width(values)
    return f"{mean:{sign}.4f} ± {half:.4f}" if np.isfinite(half) else f"{mean:{sign}.4f}"


def _listed(seeds: Sequence[int] | NDArray[Any]) -> str:
    return ", ".join(str(seed) for seed in seeds)


def _short(value: Any) -> str:
    """Return a value in a line, as the text of an estimator may have several."""
    return f"{value:.4g}" if isinstance(value, float) else " ".join(repr(value).split())
