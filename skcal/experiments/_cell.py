"""One cell of a benchmark: a method on a table, tuned, or fitted and measured."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from skcal.calibrated import CalibratedClassifier
from skcal.experiments._config import Config, Data, Method, Regime
from skcal.experiments._data import Table, load_table
from skcal.experiments._methods import (
    candidates,
    make_calibrator_of,
    make_estimator,
    recipe_of,
)
from skcal.experiments._stress import corrupt, separation
from skcal.metrics import (
    brier_score_loss,
    expected_calibration_error,
    get_scorer,
    get_scorer_names,
    log_loss,
    reliability_curve,
)

# Bins of the reliability curves that are kept for pictures.
_N_BINS = 15


class Cell(NamedTuple):
    """What is computed at once.

    Attributes
    ----------
    kind : "tune" or "fit"
    data, method, regime : str
        By name.
    seed : int or None
        Of a fit.
    """

    kind: str
    data: str
    method: str
    regime: str
    seed: int | None = None

    @property
    def key(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Job(NamedTuple):
    """A cell, with all that is needed to compute it anywhere."""

    cell: Cell
    config: Config
    data: Data
    method: Method
    regime: Regime
    chosen: Mapping[str, Any]
    folder: str | os.PathLike[str] | None

    def run(self) -> dict[str, Any]:
        """Compute the cell on one thread, and return its row; of a failure, its traceback."""
        from traceback import format_exc

        start, cpu = time.perf_counter(), time.process_time()
        try:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _tune(self) if self.cell.kind == "tune" else _fit(self)
        except Exception:
            found = {"error": format_exc()}
        seconds = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        return {"cell": self.cell.key, **found, **seconds}


def _tune(job: Job) -> dict[str, Any]:
    """Choose among settings by their mean score over the search seeds."""
    config = job.config
    settings = candidates(job.method, config, job.regime, job.chosen)
    if len(settings) == 1:
        return {"chosen": settings[0], "trials": []}
    tables = [load_table(job.data, seed, job.folder) for seed in config.search_seeds]
    splits = [(table.train, np.concatenate([table.val, table.cal])) for table in tables]
    scoring = config.tuning.scoring
    search = GridSearchCV(
        make_estimator(job.method, config, job.regime, {}, seed=0),
        [{name: [value] for name, value in one.items()} or {} for one in settings],
        scoring=get_scorer(scoring) if scoring in get_scorer_names() else scoring,
        cv=splits,
        refit=False,
    ).fit(tables[0].X, tables[0].y)
    results = search.cv_results_
    scores = results["mean_test_score"]
    if not np.isfinite(scores).any():
        raise ValueError("No setting had a finite score on all search seeds.")
    trials = [
        {
            "params": params,
            "scores": [_finite(results[f"split{k}_test_score"][i]) for k in range(len(splits))],
        }
        for i, params in enumerate(results["params"])
    ]
    return {"chosen": results["params"][int(np.nanargmax(scores))], "trials": trials}


def _fit(job: Job) -> dict[str, Any]:
    """Fit a method, and measure it with each calibrator behind it."""
    assert job.cell.seed is not None
    table = load_table(job.data, job.cell.seed, job.folder)
    if job.method.predictions:
        return {"chosen": {}, "results": _measure_ready(job, table)}
    model = make_estimator(job.method, job.config, job.regime, job.chosen, job.cell.seed)
    start = time.process_time()
    if recipe_of(job.method).is_network and recipe_of(job.method).n_networks == 1:
        X_val, y_val = table.take("val")
        model.fit(*table.take("train"), X_val=X_val, y_val=y_val)
    else:
        model.fit(*table.take("train", "val"))
    fit_seconds = time.process_time() - start
    X_cal, y_cal = table.take("cal")
    X_test, y_test = table.take("test")
    start = time.process_time()
    model.predict_proba(X_test)
    predict_seconds = time.process_time() - start
    results: dict[str, Any] = {}
    hard: dict[str, Any] = {}
    damaged = {
        f"{stress.kind}-{severity}": corrupt(
            X_test, table.take("train")[0], stress.kind, severity, job.cell.seed
        )
        for stress in job.config.stress
        for severity in stress.severities
    }
    for calibrator in job.config.calibrators:
        made = make_calibrator_of(calibrator)
        answers = model
        start = time.process_time()
        if made is not None:
            if "random_state" in made.get_params():
                made.set_params(random_state=job.cell.seed)
            answers = CalibratedClassifier(FrozenEstimator(model), made).fit(X_cal, y_cal)
        seconds = time.process_time() - start
        proba = answers.predict_proba(X_test)
        results[calibrator.name] = {
            **measure(y_test, proba, answers.classes_),
            "seconds": seconds,
        }
        if table.X_unseen is not None:
            unseen = answers.predict_proba(table.X_unseen)
            results[calibrator.name]["unseen"] = separation(proba, unseen)
        for name, X in damaged.items():
            found = measure(y_test, answers.predict_proba(X), answers.classes_)
            found.pop("curve")
            hard.setdefault(name, {})[calibrator.name] = found
    return {
        **({"stress": hard} if hard else {}),
        "chosen": dict(job.chosen),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "n_train": len(table.train),
        "n_test": len(table.test),
        "n_epochs": getattr(model, "n_iter_", None) and int(np.max(model.n_iter_)),
        "results": results,
    }


def _measure_ready(job: Job, table: Table) -> dict[str, Any]:
    """Measure probabilities that another program has left in a file."""
    path = str(job.method.predictions).format(data=job.cell.data, seed=job.cell.seed)
    with np.load(path) as file:
        cal, test, classes = file["cal"], file["test"], file["classes"].astype(str)
    y_cal, y_test = table.y[table.cal], table.y[table.test]
    for name, proba, y in (("cal", cal, y_cal), ("test", test, y_test)):
        if proba.shape != (len(y), len(classes)):
            raise ValueError(
                f"{path}: {name} must have shape {(len(y), len(classes))}, a row for each of the "
                f"table's and a column for each class; got {proba.shape}."
            )
    codes = np.searchsorted(classes, y_cal)
    results = {}
    for calibrator in job.config.calibrators:
        made = make_calibrator_of(calibrator)
        proba, start = test, time.process_time()
        if made is not None:
            made.fit(cal, codes, classes=np.arange(len(classes)))
            proba = made.predict_proba(test)
        seconds = time.process_time() - start
        results[calibrator.name] = {**measure(y_test, proba, classes), "seconds": seconds}
    return results


def measure(y: NDArray[Any], proba: NDArray[np.floating], classes: NDArray[Any]) -> dict[str, Any]:
    """Return the scores of some answers, and their reliability curve."""
    proba = np.asarray(proba, dtype=float)
    hits = classes[proba.argmax(axis=1)] == y
    curve = reliability_curve(y, proba, labels=classes, n_bins=_N_BINS)
    full = curve.count > 0
    return {
        "nll": float(log_loss(y, proba, labels=classes)),
        "brier": float(brier_score_loss(y, proba, labels=classes)),
        "ece": float(expected_calibration_error(y, proba, labels=classes)),
        "classwise_ece": float(
            expected_calibration_error(y, proba, labels=classes, kind="class-wise")
        ),
        "accuracy": float(hits.mean()),
        "curve": [
            [round(float(v), 4) for v in values[full]]
            for values in (curve.mean_predicted, curve.event_rate, curve.weight)
        ],
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
