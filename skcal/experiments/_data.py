"""The tables of a benchmark, with their splits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcal.datasets import load_credit, load_dataset
from skcal.datasets._splits import cap_rows, split_rest, split_rows
from skcal.experiments._config import Config, ConfigError, Data
from skcal.experiments._stress import wrong_labels

# A class of fewer rows cannot be in each of the four parts.
_FEWEST_ROWS = 10


class Table(NamedTuple):
    """A table, and the positions of its rows in each part."""

    X: Any
    y: NDArray[Any]
    train: NDArray[np.intp]
    val: NDArray[np.intp]
    cal: NDArray[np.intp]
    test: NDArray[np.intp]
    X_unseen: Any = None

    def take(self, *parts: str) -> tuple[Any, NDArray[Any]]:
        """Return the rows of some parts."""
        rows = np.concatenate([getattr(self, part) for part in parts])
        return self.X.iloc[rows], self.y[rows]


def tables_of(config: Config, folder: str | os.PathLike[str] | None) -> list[Data]:
    """Return the tables of a configuration, one by one, with their caps.

    Raises
    ------
    ConfigError
        If a suite is not in the folder's manifest, or two tables have one name.
    """
    listed = [one for data in config.data for one in _members(data, folder)]
    tables = [one.model_copy(update={"cap": one.cap or config.cap}) for one in listed]
    names = [one.label for one in tables]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"data has {twice[0]!r} twice; give one another name.")
    return tables


def _members(data: Data, folder: str | os.PathLike[str] | None) -> Iterable[Data]:
    if data.suite is None:
        return [data]
    folder = os.environ.get("SKCAL_DATA") if folder is None else folder
    manifest = Path(folder or "") / "manifest.json"
    if not folder or not manifest.is_file():
        raise ConfigError(
            f"The suite {data.suite!r} is of a data folder: pass --data, or set SKCAL_DATA."
        )
    about = json.loads(manifest.read_text(encoding="utf-8"))
    suites = about.get("suites", {})
    if data.suite not in suites:
        raise ConfigError(f"The folder has no suite {data.suite!r}; it has {sorted(suites)}.")
    cap = data.cap or about.get("row_caps", {}).get(data.suite)
    return [
        data.model_copy(update={"suite": None, "table": name, "name": None, "cap": cap})
        for name in suites[data.suite]
        if name in about.get("datasets", {})
    ]


def load_table(data: Data, seed: int, folder: str | os.PathLike[str] | None) -> Table:
    """Read a table and split it by a seed: 60, 10, 10 and 20 % of its rows."""
    X, y, groups, parts = _rows_of(data, seed, folder)
    unseen = None
    if data.unseen_class is not None:
        is_unseen = y == data.unseen_class
        if not is_unseen.any() or len(np.unique(y)) < 3:
            raise ValueError(
                f"{data.label} needs three classes, and the unseen one among them; it has "
                f"{np.unique(y).tolist()}."
            )
        unseen = X[is_unseen]
        parts = None if parts is None else [part[~is_unseen[part]] for part in parts]
    if parts is None:
        kept = np.arange(len(y)) if unseen is None else np.flatnonzero(y != data.unseen_class)
        parts = _parts(kept, y, groups, seed)
    train, val, cal, test = parts
    if data.train_rows is not None and data.train_rows < len(train):
        train = split_rows(train, y[train], len(train) - data.train_rows, seed)[0]
    if data.label_noise:
        y = y.copy()
        y[train] = wrong_labels(y[train], data.label_noise, seed)
    return Table(X, y, train, val, cal, test, unseen)


def _rows_of(
    data: Data, seed: int, folder: str | os.PathLike[str] | None
) -> tuple[Any, NDArray[Any], NDArray[Any] | None, list[NDArray[np.intp]] | None]:
    """Return table, labels, groups to keep together, and the parts if the folder has them."""
    if data.table is not None:
        by_group = data.protocol == "group"
        protocol = "random" if by_group else data.protocol
        cap = None if protocol == "official" else data.cap
        found = load_dataset(data.table, folder, protocol=protocol, seed=seed, cap=cap)
        if by_group and found.groups is None:
            raise ValueError(f"{data.table} has no groups; use protocol='random'.")
        parts = [found.train, found.val, found.cal, found.test]
        return found.data, found.target, found.groups, None if by_group else parts
    X, y = _read(data)
    kept = np.arange(len(y)) if data.cap is None else cap_rows(y, data.cap)
    labels, counts = np.unique(y[kept], return_counts=True)
    kept = kept[np.isin(y[kept], labels[counts >= _FEWEST_ROWS])]
    X, y = X.iloc[kept].reset_index(drop=True), y[kept]
    if len(np.unique(y)) < 2:
        raise ValueError(f"{data.label} has fewer than two classes of {_FEWEST_ROWS} rows or more.")
    return X, y, None, None


def _parts(
    kept: NDArray[np.intp], y: NDArray[Any], groups: NDArray[Any] | None, seed: int
) -> list[NDArray[np.intp]]:
    """Return training, validation, calibration and test rows; whole groups if there are any."""
    if groups is None:
        rest, test = split_rows(kept, y[kept], 0.2, seed)
        return [*split_rest(rest, y, seed), test]
    names, owner = np.unique(groups[kept], return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    ends = np.cumsum([int(share * len(names)) for share in (0.6, 0.1, 0.1)])
    return [kept[np.isin(owner, some)] for some in np.split(shuffled, ends)]


def _read(data: Data) -> tuple[Any, NDArray[Any]]:
    if data.bundled is not None:
        X, y = load_credit(return_X_y=True)
        return X, np.asarray(y, dtype=str)
    if data.sklearn is not None:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{data.sklearn}")(as_frame=True, return_X_y=True)
        return X, y.to_numpy().astype(str)
    import pandas as pd

    if data.csv is not None:
        frame = pd.read_csv(data.csv)
        if data.target not in frame:
            raise ValueError(
                f"{data.csv} has no column {data.target!r}; it has {frame.columns.tolist()}."
            )
        X, y = frame.drop(columns=data.target), frame[data.target]
    else:
        from sklearn.datasets import fetch_openml

        found = fetch_openml(data_id=data.openml, as_frame=True)
        X, y = found.data, found.target
    known = ~pd.isna(y).to_numpy()
    X, y = X[known].reset_index(drop=True), np.asarray(y)[known].astype(str)
    texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    return X.astype(dict.fromkeys(texts, "category")), y
