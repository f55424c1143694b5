"""What a benchmark is told: a checked JSON file."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
except ImportError as error:
    raise ImportError(
        "Benchmarks need pydantic, which is not installed: pip install 'skcal[bench]'."
    ) from error

# Where a table can come from: the key that an entry of ``data`` is told apart by.
SOURCES = ("suite", "table", "bundled", "sklearn", "csv", "openml")


class ConfigError(ValueError):
    """A configuration that cannot be run; says where, and what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Strict):
    """A table, or a suite of them; exactly one of the first six keys.

    Attributes
    ----------
    suite, table : str
        Of the data folder's manifest.
    bundled : "credit"
    sklearn : str
        One of scikit-learn's own: "breast_cancer", "digits", "iris" or "wine".
    csv : str
        Path of a file with a header row; ``target`` names its label column.
    openml : int
        Number of a data set, fetched over the network.
    target : str
    name : str
        How it is called in the results; its own name by default.
    cap : int
        Most rows, drawn stratified by class and always the same.
    protocol : "random", "official", "time" or "group"
        Of tables of the data folder: rows at random; the donor's test part; the last fifth; or
        whole groups, such as patients.
    label_noise : float
        Share of the training labels that are replaced by another class.
    train_rows : int
        Most rows to train on.
    unseen_class : str
        A class that no row of has been trained on: its rows are kept for the question whether
        predictions tell them from others.
    """

    suite: str | None = None
    table: str | None = None
    bundled: Literal["credit"] | None = None
    sklearn: Literal["breast_cancer", "digits", "iris", "wine"] | None = None
    csv: str | None = None
    openml: int | None = None
    target: str | None = None
    name: str | None = None
    cap: int | None = Field(default=None, ge=100)
    protocol: Literal["random", "official", "time", "group"] = "random"
    label_noise: float = Field(default=0.0, ge=0, lt=1)
    train_rows: int | None = Field(default=None, ge=10)
    unseen_class: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        given = [key for key in SOURCES if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(SOURCES)}; got {given or 'none'}")
        if (self.csv is None) != (self.target is None):
            raise ValueError("csv and target go together")
        if self.protocol != "random" and self.table is None and self.suite is None:
            raise ValueError("protocol is of tables of the data folder")
        return self

    @property
    def label(self) -> str:
        """Return the name in the results."""
        if self.name is not None:
            return self.name
        if self.csv is not None:
            return Path(self.csv).stem
        own = self.suite or self.table or self.bundled or self.sklearn
        return own or f"openml-{self.openml}"


class Method(_Strict):
    """A training method.

    Attributes
    ----------
    name : str
        How it is called in the results.
    method : str
        One of the known ones; ``name`` by default.
    estimator : str
        Instead of it, an import path of a classifier of your own, such as "package.module:Class".
    params : dict
        Set on the estimator.
    predictions : str
        Instead of an estimator, a path of ready predictions: an ``.npz`` file for each table and
        seed, with ``{data}`` and ``{seed}`` in the path, which holds ``cal`` and ``test``, the
        probabilities of these rows, and ``classes``.
    """

    name: str
    method: str | None = None
    estimator: str | None = None
    params: dict[str, Any] = {}
    predictions: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Method:
        given = [key for key in ("method", "estimator", "predictions") if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"give one of method, estimator and predictions; got {given}")
        return self


class Calibrator(_Strict):
    """A calibrator.

    Attributes
    ----------
    name : str
        How it is called in the results.
    calibrator : str
        A name that make_calibrator knows; ``name`` by default.
    estimator : str
        Instead of it, an import path of a calibrator of your own, "package.module:Class".
    params : dict
        Set on it.
    """

    name: str
    calibrator: str | None = None
    estimator: str | None = None
    params: dict[str, Any] = {}


class Tuning(_Strict):
    """How parameters are chosen: on search seeds, as often for each method.

    Attributes
    ----------
    network_trials : int
        Trials of cross-entropy over what all networks share: learning rate, dropout, decay.
    method_trials : int
        Trials of each method over its own parameters, at the network that was chosen;
        cross-entropy has as many more trials of its network.
    scoring : str
        What they are chosen by, on the rows held out by each search seed.
    """

    network_trials: int = Field(default=0, ge=0)
    method_trials: int = Field(default=0, ge=0)
    scoring: str = "neg_log_loss_after_temperature"


class Regime(_Strict):
    """When training stops.

    Attributes
    ----------
    name : str
    epochs : int
        A fixed number of epochs, whose last weights are kept; the log-loss of validation rows
        stops the training without it.
    seeds : list of int
        Those of the configuration by default.
    """

    name: str
    epochs: int | None = Field(default=None, ge=1)
    seeds: tuple[int, ...] | None = None


class Stress(_Strict):
    """Damage that is done to the test rows.

    Attributes
    ----------
    kind : "noise", "missing", "units" or "swapped"
        Noise on numbers, missing cells, columns in another unit, swapped categories.
    severities : list of int
        From 1 to 5.
    """

    kind: Literal["noise", "missing", "units", "swapped"]
    severities: tuple[Literal[1, 2, 3, 4, 5], ...] = (1, 2, 3, 4, 5)


class Config(_Strict):
    """A benchmark.

    Parameters
    ----------
    name : str
    data : list of Data, or of names of tables in the data folder
    methods : list of Method, or of names of known ones
    calibrators : list of Calibrator, or of names
        "none" is the answers as they are.
    seeds : list of int
        Of the splits and fits that are reported.
    search_seeds : list of int
        Of those that choose parameters; none of the others.
    tuning : Tuning
    regimes : list of Regime, or "early_stopped"
    network : dict
        Parameters of NeSCalMLP that all networks share.
    cap : int
        Most rows of each table that does not say otherwise.
    stress : list of Stress, or of kinds
        Damage under which each fit is measured once more.
    """

    name: str
    data: tuple[Data, ...] = Field(min_length=1)
    methods: tuple[Method, ...] = Field(min_length=1)
    calibrators: tuple[Calibrator, ...] = (
        Calibrator(name="none"),
        Calibrator(name="temperature"),
    )
    seeds: tuple[int, ...] = Field(min_length=1)
    search_seeds: tuple[int, ...] = ()
    tuning: Tuning = Tuning()
    regimes: tuple[Regime, ...] = Field(default=(Regime(name="early_stopped"),), min_length=1)
    network: dict[str, Any] = {"preset": "fast"}
    cap: int | None = Field(default=None, ge=100)
    stress: tuple[Stress, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:
        """Let a name stand for an entry that has no more to say."""
        if not isinstance(given, dict):
            return given
        short = {"data": "table", "methods": "name", "calibrators": "name", "regimes": "name"}
        short |= {"stress": "kind"}
        return given | {
            key: [{name: one} if isinstance(one, str) else one for one in given[key]]
            for key, name in short.items()
            if isinstance(given.get(key), list)
        }

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        for key in ("methods", "calibrators", "regimes"):
            names = [one.name for one in getattr(self, key)]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key} has {twice[0]!r} twice; give one another name")
        both = sorted(set(self.seeds) & set(self.search_seeds))
        if both:
            raise ValueError(f"seed {both[0]} is among seeds and search_seeds")
        tunes = self.tuning.network_trials or self.tuning.method_trials
        if tunes and not self.search_seeds:
            raise ValueError("tuning needs search_seeds")
        return self


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read a benchmark's JSON file.

    Parameters
    ----------
    path : path

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If the file is not there or no JSON, or a key or value is not right; the error names each,
        and the nearest right key.
    """
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON file: {error}") from error
    return check_config(given)


def check_config(given: Any) -> Config:
    """Return the configuration that a dictionary describes.

    Parameters
    ----------
    given : dict
        What is in a JSON file.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If a key or value is not right; the error names each, and the nearest right key.

    Examples
    --------
    >>> from skcal.experiments import check_config
    >>> told = {"name": "s", "data": [{"sklearn": "iris"}], "methods": ["focal"], "seeds": [12]}
    >>> check_config(told).seeds
    (12,)
    >>> check_config(told | {"sede": [13]})
    Traceback (most recent call last):
        ...
    skcal.experiments._config.ConfigError: sede: there is no key 'sede'; did you mean 'seeds'?
    """
    try:
        return Config.model_validate(given)
    except ValidationError as error:
        raise ConfigError("\n".join(_told(one) for one in error.errors())) from None


_PARTS: dict[str, type[_Strict]] = {
    "data": Data,
    "methods": Method,
    "calibrators": Calibrator,
    "regimes": Regime,
    "tuning": Tuning,
    "stress": Stress,
}


def _told(error: Any) -> str:
    """Return one fault of pydantic's as a line that says where it is and what would be right."""
    place = ".".join(str(part) for part in error["loc"]) or "the configuration"
    if error["type"] != "extra_forbidden":
        message = error["msg"].removeprefix("Value error, ")
        return f"{place}: {message} (got {_shown(error['input'])})."
    *above, key = error["loc"]
    known = (_PARTS[above[0]] if above else Config).model_fields
    near = get_close_matches(str(key), known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}."
    return f"{place}: there is no key {key!r}; {hint}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
