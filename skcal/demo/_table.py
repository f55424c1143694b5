"""Read a user's CSV, and say what is wrong with it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

# Splits into train, calibration and test, and folds within, need this many of each class.
MIN_ROWS_PER_CLASS = 10
# More distinct numbers than this are hardly classes.
_MOST_NUMERIC_CLASSES = 30
# A text column with this many levels, most of them rare, is an identifier or free text.
_MANY_LEVELS = 100
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class TableError(ValueError):
    """A table that cannot be used, with the reason and the way out."""


def read_table(
    path: str | Path, target: str, *, max_rows: int | None = None
) -> tuple[Any, Any, list[str]]:
    r"""Read a CSV file and take the label column out of it.

    Parameters
    ----------
    path : str or Path
        A CSV file with a header row; it may be compressed.
    target : str
        Name of the label column.
    max_rows : int, optional
        Take a stratified sample of a larger table.

    Returns
    -------
    X : DataFrame of shape (n_samples, n_features)
    y : Series of shape (n_samples,)
        Labels as text.
    notes : list of str
        What was left out, and why.

    Raises
    ------
    TableError
        If the file cannot be read, the column is missing, or the labels are not classes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from skcal.demo import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("age,label\n" + "31,yes\n52,no\n" * 20)
    >>> X, y, notes = read_table(path, "label")
    >>> X.shape, sorted(set(y)), notes
    ((40, 1), ['no', 'yes'], [])
    """
    table = _read_csv(Path(path))
    if table.shape[1] == 1 and (mark := _other_separator(str(table.columns[0]))):
        raise TableError(
            f"{path} has one column only, {table.columns[0]!r}: its cells seem to be separated by "
            f"{mark}, not by commas. Save it with commas."
        )
    if target not in table.columns:
        near = get_close_matches(target, [str(name) for name in table.columns], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TableError(
            f"{path} has no column {target!r}.{hint} Its columns are: "
            f"{', '.join(str(name) for name in table.columns)}."
        )
    if table.shape[1] == 1:
        raise TableError(
            f"{path} holds only the column {target!r}; there is nothing to learn from."
        )
    notes = []
    missing = table[target].isna()
    if missing.any():
        notes.append(f"{int(missing.sum())} rows without a label are left out.")
        table = table[~missing]
    if len(table) == 0:
        raise TableError(f"{path} has no row with a label in {target!r}.")
    y = table.pop(target)
    _check_classes(y, target)
    if max_rows is not None and len(table) > max_rows:
        from sklearn.model_selection import train_test_split

        notes.append(f"A stratified sample of {max_rows} of the {len(table)} rows is used.")
        table, _, y, _ = train_test_split(table, y, train_size=max_rows, stratify=y, random_state=0)
        _check_counts(y, f"{target!r}, in a sample of {max_rows} rows,")
    X = table
    for name in list(X.columns):
        levels = X[name].nunique()
        is_text = not np.issubdtype(np.asarray(X[name].iloc[:0]).dtype, np.number)
        if X[name].isna().all():
            reason = "it is empty"
        elif not is_text and np.isinf(X[name].to_numpy(dtype=float, na_value=np.nan)).any():
            reason = "it holds infinity"
        elif is_text and levels > _MANY_LEVELS and levels > 0.3 * len(X):
            reason = f"it holds {levels} different texts in {len(X)} rows"
        else:
            continue
        notes.append(f"Column {name!r} is left out: {reason}.")
        X = X.drop(columns=name)
    if X.shape[1] == 0:
        raise TableError(f"{path} has no usable column beside {target!r}. " + " ".join(notes))
    return X, y.astype(str), notes


def _read_csv(path: Path) -> Any:
    import pandas as pd
    from pandas.errors import EmptyDataError, ParserError

    if not path.is_file():
        raise TableError(f"There is no file {path}.")
    try:
        table = pd.read_csv(path)
    except EmptyDataError as error:
        raise TableError(f"{path} is empty; it needs a header row and rows of data.") from error
    except (ParserError, UnicodeDecodeError, OSError, EOFError) as error:
        raise TableError(
            f"{path} could not be read as a CSV file: {error}. Save it as UTF-8."
        ) from error
    if len(table) == 0:
        raise TableError(f"{path} has a header but no rows.")
    return table


def _other_separator(header: str) -> str | None:
    """Return the name of what separates the cells, when it is not a comma."""
    return next((name for mark, name in _SEPARATORS.items() if mark in header), None)


def _check_classes(y: Any, target: str) -> None:
    counts = y.value_counts()
    if len(counts) < 2:
        raise TableError(
            f"Column {target!r} holds one class only ({counts.index[0]!r}); there is nothing "
            "to tell apart."
        )
    values = np.asarray(y)
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise TableError(
            f"Column {target!r} holds fractions such as {values[values != np.floor(values)][0]:g}: "
            "it looks like a regression target, and skcal is for classes. Cut it into classes "
            "first (for instance with pandas.qcut)."
        )
    if values.dtype.kind in "iuf" and len(counts) > _MOST_NUMERIC_CLASSES:
        raise TableError(
            f"Column {target!r} holds {len(counts)} different numbers: it looks like a regression "
            "target, and skcal is for classes. Cut it into classes first (for instance with "
            "pandas.qcut), or write the classes as text."
        )
    _check_counts(y, repr(target))


def _check_counts(y: Any, where: str) -> None:
    counts = y.value_counts()
    if counts.iloc[-1] < MIN_ROWS_PER_CLASS:
        raise TableError(
            f"Class {counts.index[-1]!r} of column {where} has {counts.iloc[-1]} row(s); each "
            f"class needs at least {MIN_ROWS_PER_CLASS} to be split into training, calibration and "
            "test rows. Merge rare classes or remove them."
        )
