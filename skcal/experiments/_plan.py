"""Which cells a benchmark has, in which order, and about how long they take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from skcal._options import find_name
from skcal.experiments._cell import Cell, Job
from skcal.experiments._config import Config, Data, Method
from skcal.experiments._data import load_table, tables_of
from skcal.experiments._methods import BASE, make_calibrator_of, make_estimator, recipe_of

Key = tuple[Any, ...]


class Plan(NamedTuple):
    """The cells of a benchmark.

    Attributes
    ----------
    config : Config
    tables : list of Data
    folder : path or None
        The data folder.
    """

    config: Config
    tables: list[Data]
    folder: str | os.PathLike[str] | None

    def waves(self) -> list[list[Cell]]:
        """Return the cells in waves; each needs only what the waves before it have found."""
        tuned = [m for m in self.config.methods if self._is_tuned(m)]
        return [
            self._tune([m for m in tuned if _is_base(m)]),
            self._tune([m for m in tuned if not _is_base(m)]),
            [
                Cell("fit", data.label, method.name, regime.name, seed)
                for data in self.tables
                for regime in self.config.regimes
                for method in self.config.methods
                for seed in regime.seeds or self.config.seeds
            ],
        ]

    def job(self, cell: Cell, found: Mapping[Key, dict[str, Any]]) -> Job:
        """Return a cell with what was chosen for it by cells before it."""
        method = _named(self.config.methods, cell.method)
        network = self._chosen(BASE, cell, found) if recipe_of(method).is_network else {}
        if cell.kind == "tune":
            chosen = {} if _is_base(method) else network
        else:
            chosen = self._chosen(recipe_of(method).tuned_as or cell.method, cell, found) or network
        return Job(
            cell,
            self.config,
            next(data for data in self.tables if data.label == cell.data),
            method,
            _named(self.config.regimes, cell.regime),
            chosen,
            self.folder,
        )

    def check(self) -> None:
        """Build every estimator and calibrator once, before hours are spent.

        Raises
        ------
        ValueError, TypeError, ImportError
            If one cannot be built.
        """
        for method in self.config.methods:
            if not method.predictions:
                model = make_estimator(method, self.config, self.config.regimes[0], {}, seed=0)
                if recipe_of(method).is_network:
                    # Networks take any name until they are fitted.
                    known = signature(type(getattr(model, "estimator", model))).parameters
                    for name in (n for n in method.params if "__" not in n):
                        find_name(name, known, f"params of {method.name}")
        for calibrator in self.config.calibrators:
            make_calibrator_of(calibrator)

    def minutes(self, n_jobs: int = 1) -> float:
        """Return about how long all cells take, by the sizes of the tables; a rough guess."""
        rows = {one.label: len(load_table(one, 0, self.folder).y) for one in self.tables}
        epochs = {one.name: one.epochs or _EPOCHS for one in self.config.regimes}
        seconds = 0.0
        for cell in (cell for wave in self.waves() for cell in wave):
            method = _named(self.config.methods, cell.method)
            fit = _cost(method) * _SECONDS_PER_ROW * rows[cell.data] * epochs[cell.regime]
            if cell.kind == "tune":
                seconds += fit * self._n_settings(method) * len(self.config.search_seeds)
            else:
                seconds += fit + _SECONDS_PER_CALIBRATOR * len(self.config.calibrators)
        return seconds / 60 / n_jobs

    def n_fits(self) -> int:
        """Return how many models are trained."""
        n_seeds = len(self.config.search_seeds)
        waves = self.waves()
        tuning = sum(
            self._n_settings(_named(self.config.methods, cell.method)) * n_seeds
            for wave in waves[:2]
            for cell in wave
        )
        return tuning + len(waves[2])

    def _tune(self, methods: Iterable[Method]) -> list[Cell]:
        return [
            Cell("tune", data.label, method.name, regime.name)
            for data in self.tables
            for regime in self.config.regimes
            for method in methods
        ]

    def _is_tuned(self, method: Method) -> bool:
        if method.estimator or method.predictions:
            return False
        recipe = recipe_of(method)
        return self._n_settings(method) > 0 and not recipe.tuned_as

    def _n_settings(self, method: Method) -> int:
        tuning = self.config.tuning
        if _is_base(method):
            return tuning.network_trials + tuning.method_trials
        recipe = recipe_of(method)
        if not recipe.own:
            return 0
        return tuning.method_trials + (0 if recipe.is_network else tuning.network_trials)

    def _chosen(
        self, method: str, cell: Cell, found: Mapping[Key, dict[str, Any]]
    ) -> dict[str, Any]:
        """Return what a tuning cell of the same table and regime has chosen, or nothing."""
        names = [m.name for m in self.config.methods if method in (m.name, m.method)]
        for name in names:
            key = tuple(Cell("tune", cell.data, name, cell.regime).key.items())
            if key in found:
                if "error" in found[key]:
                    raise RuntimeError(f"The tuning of {name} on {cell.data} failed.")
                return dict(found[key]["chosen"])
        return {}


# On one thread of a small machine: a network of 2 x 256 at batches of 256, forth and back.
_SECONDS_PER_ROW = 1.5e-5
# Until early stopping, patience included.
_EPOCHS = 40
_SECONDS_PER_CALIBRATOR = 1.0


def _cost(method: Method) -> float:
    """Return how many times the training of a plain network a fit costs, roughly."""
    recipe = recipe_of(method)
    strong = 4.0 if (method.method or method.name) == "nescal_strong" else 1.0
    return recipe.n_networks * strong * (1.3 if recipe.is_network else 1.0)


def _is_base(method: Method) -> bool:
    return (method.method or method.name) == BASE and not method.estimator


def _named(things: Iterable[Any], name: str) -> Any:
    return next(thing for thing in things if thing.name == name)


def make_plan(config: Config, folder: str | os.PathLike[str] | None = None) -> Plan:
    """Return the plan of a configuration, checked as far as that goes without training.

    Parameters
    ----------
    config : Config
    folder : path, optional
        The data folder; ``SKCAL_DATA`` by default.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError, TypeError, ImportError
        If a table, a method or a calibrator is not there, or cannot be built.
    """
    plan = Plan(config, tables_of(config, folder), folder)
    plan.check()
    return plan
