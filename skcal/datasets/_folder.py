"""Tables from a folder of CSV files, with the splits that comparisons share."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skcal.datasets._splits import cap_rows, split_rest, split_rows

_FOLDER_VARIABLE = "SKCAL_DATA"
_TARGET = "target"
_PROTOCOLS = ("random", "official", "time")
_DESCRIBED = ("file", "sha256", "categorical", "auxiliary")
# A class of fewer rows cannot be in each of the four parts.
_FEWEST_ROWS = 10


def load_dataset(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    protocol: str = "random",
    seed: int = 0,
    cap: int | None = None,
    drop: str | Iterable[str] = (),
) -> Bunch:
    """Read one table of a data folder, cut into training, validation, calibration and test rows.

    The folder holds ``manifest.json`` and one gzipped CSV file per table. Under ``datasets``
    the manifest names for each table its ``file``, ``sha256``, ``categorical`` and
    ``auxiliary`` columns, and ``official_train_rows`` where the donor set a test part aside.
    The label is the column ``target``; an empty field is a missing cell, and nothing else is.

    Parameters
    ----------
    name : str
        Name of a table in the manifest.
    folder : path, optional
        The data folder; the environment variable ``SKCAL_DATA`` by default.
    protocol : {"random", "official", "time"}, default="random"
        Where the test rows come from: a stratified fifth of all rows, the donor's test part,
        or the last fifth of the file, for tables whose rows are in the order of time. With
        the last, a class may be in the test rows only.
    seed : int, default=0
        Seed of the splits.
    cap : int, optional
        Most rows to keep, drawn stratified by class before anything else and always the same,
        whatever ``seed`` is. They stay in the order of the file. Not for
        ``protocol="official"``.
    drop : str or iterable of str, default=()
        Columns to leave out.

    Returns
    -------
    Bunch
        With these entries:

        data : DataFrame of shape (n_samples, n_features)
            float64 columns, and unordered ``category`` columns; NaN where missing.
        target : ndarray of shape (n_samples,), str
            Class labels.
        train, val, cal, test : ndarray of int
            Row positions. 60, 10, 10 and 20 % of the rows with ``protocol="random"``; 75,
            12.5 and 12.5 % of what is not a test row otherwise.
        categorical_features : list of str
            Names of the categorical columns.
        groups : ndarray of shape (n_samples,) or None
            The first auxiliary column, which ties rows together; the splits do not keep a
            group in one part. Auxiliary columns are never features.
        dropped_classes : list of str
            Classes of fewer than 10 rows (after the cap), whose rows are left out.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or the table's file is missing.
    ValueError
        If the table, its protocol or a column is not known, the seed or the cap is no number
        of use, the file is not the one that the manifest describes, a label is missing, or
        fewer than two classes have ten rows.

    Examples
    --------
    >>> from skcal.datasets import load_dataset
    >>> table = load_dataset("adult", "data", cap=20_000, seed=12)  # doctest: +SKIP
    >>> table.data.iloc[table.train].shape  # doctest: +SKIP
    (12000, 14)
    """
    if protocol not in _PROTOCOLS:
        raise ValueError(f"protocol must be 'random', 'official' or 'time'; got {protocol!r}.")
    if not _is_whole(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1; got {seed!r}.")
    if cap is not None and (protocol == "official" or not _is_whole(cap) or cap < 1):
        raise ValueError(
            "cap must be a number of rows of at least 1, and None with protocol='official'; got "
            f"cap={cap!r}, protocol={protocol!r}."
        )
    root, about = _look_up(name, folder)
    n_official: int = about.get("official_train_rows") or 0
    if protocol == "official" and not n_official:
        raise ValueError(f"{name} has no official test part; use protocol='random'.")
    frame = _read(root / about["file"], about)
    target = frame.pop(_TARGET).to_numpy(dtype=str)
    groups = frame[about["auxiliary"][0]].to_numpy() if about["auxiliary"] else None
    frame = frame.drop(columns=about["auxiliary"])
    unwanted = [drop] if isinstance(drop, str) else list(drop)
    unknown = [column for column in unwanted if column not in frame]
    if unknown:
        raise ValueError(f"{name} has no column {unknown[0]!r}; it has {frame.columns.tolist()}.")
    frame = frame.drop(columns=unwanted)

    kept = np.arange(len(frame)) if cap is None else cap_rows(target, cap)
    labels, counts = np.unique(target[kept], return_counts=True)
    dropped = labels[counts < _FEWEST_ROWS]
    kept = kept[~np.isin(target[kept], dropped)]
    y = target[kept]
    if len(labels) - len(dropped) < 2:
        raise ValueError(
            f"{name} has fewer than two classes of at least {_FEWEST_ROWS} rows"
            + ("." if cap is None else f" with cap={cap}; raise it.")
        )
    if protocol == "random":
        rest, test = split_rows(np.arange(len(kept)), y, 0.2, seed)
    else:
        n_rest = int(0.8 * len(kept)) if protocol == "time" else n_official
        in_rest = np.arange(len(kept)) < n_rest if protocol == "time" else kept < n_rest
        rest, test = np.flatnonzero(in_rest), np.flatnonzero(~in_rest)
    train, val, cal = split_rest(rest, y, seed)
    return Bunch(
        data=frame.iloc[kept].reset_index(drop=True),
        target=y,
        train=train,
        val=val,
        cal=cal,
        test=test,
        categorical_features=[c for c in frame.columns if c in about["categorical"]],
        groups=None if groups is None else groups[kept],
        dropped_classes=dropped.tolist(),
    )


def _look_up(name: str, folder: str | os.PathLike[str] | None) -> tuple[Path, dict[str, Any]]:
    folder = os.environ.get(_FOLDER_VARIABLE) if folder is None else folder
    if not folder:  # a variable set to nothing is not the working directory
        raise FileNotFoundError(
            f"No data folder: pass folder=..., or set the environment variable {_FOLDER_VARIABLE}."
        )
    manifest = Path(folder) / "manifest.json"
    if not manifest.is_file():
        raise FileNotFoundError(f"{manifest} does not exist; a data folder holds it.")
    tables = json.loads(manifest.read_text(encoding="utf-8")).get("datasets", {})
    if name not in tables:
        raise ValueError(f"The folder has no table {name!r}; it has {sorted(tables)}.")
    absent = [key for key in _DESCRIBED if key not in tables[name]]
    if absent:
        raise ValueError(f"{manifest} gives no {absent[0]!r} for {name}; add it.")
    return Path(folder), tables[name]


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def _read(path: Path, about: dict[str, Any]) -> Any:
    import pandas as pd

    if hashlib.sha256(path.read_bytes()).hexdigest() != about["sha256"]:
        raise ValueError(f"{path} is not the file that the manifest describes; fetch it anew.")
    named = [*about["categorical"], *about["auxiliary"], _TARGET]
    # "NA" and "None" are levels in some tables: only an empty field is missing.
    frame = pd.read_csv(
        path,
        dtype=dict.fromkeys([*about["categorical"], _TARGET], str),
        keep_default_na=False,
        na_values=[""],
    )
    absent = [column for column in named if column not in frame]
    if absent:
        raise ValueError(f"{path} has no column {absent[0]!r}; it has {frame.columns.tolist()}.")
    if frame[_TARGET].isna().any():
        row = int(np.argmax(frame[_TARGET].isna()))
        raise ValueError(f"{path} has no label in row {row} (from 0); leave such rows out of it.")
    kinds = {
        column: "category" if column in about["categorical"] else "float64"
        for column in frame.columns
        if column not in (_TARGET, *about["auxiliary"])
    }
    return frame.astype(kinds)
