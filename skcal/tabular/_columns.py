"""What a column of a pandas frame is, and its cells as numbers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = Literal["number", "category", "date", "duration"]

# What pandas calls the cells of a column of Python objects.
_KINDS_OF_CELLS: dict[str, Kind] = {
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "period": "date",
    "timedelta": "duration",
    "timedelta64": "duration",
}


def is_plain(dtype: Any) -> bool:
    """Return whether a column of this type holds numbers or booleans in a numpy array."""
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def kind_of(column: Any, name: Any) -> Kind:
    """Return what a pandas column holds; text, categories and booleans are categories.

    Raises
    ------
    TypeError
        If it holds complex numbers or times of day.
    """
    import pandas as pd
    from pandas.api import types

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return "category"
    if isinstance(dtype, pd.PeriodDtype):
        return "date"
    cells = ""
    if types.is_object_dtype(dtype) or isinstance(dtype, pd.ArrowDtype):
        # A column of objects is what its cells are.
        cells = types.infer_dtype(column, skipna=True)
    if types.is_complex_dtype(dtype) or cells == "complex":
        raise TypeError(f"Column {name!r} holds complex numbers, which are not supported.")
    if cells == "time":
        raise TypeError(
            f"Column {name!r} holds times of day; turn them into numbers (hours) or into dates "
            "first."
        )
    if dtype.kind == "M":
        return "date"
    if dtype.kind == "m":
        return "duration"
    if types.is_object_dtype(dtype):
        return _KINDS_OF_CELLS.get(cells, "category")
    is_number = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    return "number" if is_number else "category"


def read_numbers(column: Any, name: Any) -> NDArray[np.float64]:
    """Return a pandas column as float64, NaN where a cell is missing.

    Raises
    ------
    ValueError
        If a cell cannot be read as a number.
    """
    if is_plain(column.dtype):
        return column.to_numpy(dtype=np.float64)
    refuse_time(column, name, "numbers")
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} held numbers when fitted and now holds text such as "
            f"{_first_text(column)!r}. Turn it into numbers (pandas.to_numeric)."
        ) from error


def refuse_time(column: Any, name: Any, fitted: str) -> None:
    """Raise a TypeError if a column holds dates or durations, and held something else."""
    kind = kind_of(column, name)
    if kind in ("date", "duration"):
        raise TypeError(
            f"Column {name!r} holds dates or durations ({column.dtype}) and held {fitted} when "
            f"fitted. Turn it into {fitted} first."
        )


def holds_numbers(column: Any) -> bool:
    """Return whether a column that is a category by its type can be read as numbers."""
    import pandas as pd
    from pandas.api import types

    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    cells = types.infer_dtype(values, skipna=True)
    return cells == "boolean" or _KINDS_OF_CELLS.get(cells) == "number" or not len(values.dropna())


def _first_text(column: Any) -> Any:
    """Return the first cell that is not a number."""
    import pandas as pd

    wrong = column.notna() & pd.to_numeric(column, errors="coerce").isna()
    return column[wrong].iloc[0] if wrong.any() else column.iloc[0]


def chosen_columns(
    categorical_features: ArrayLike, names: list[Any] | None, n_features: int
) -> NDArray[np.bool_]:
    """Return which columns a user calls categories, by names, positions or a mask.

    Raises
    ------
    ValueError
        If a name or a position is not one of the table's.
    """
    chosen = np.asarray(categorical_features)
    if chosen.dtype.kind == "O":
        chosen = np.array(chosen.tolist())
    mask = np.zeros(n_features, dtype=bool)
    if chosen.size == 0:
        return mask
    if chosen.ndim != 1 or chosen.dtype.kind not in "biuUO":
        raise ValueError(
            "categorical_features must be 'from_dtype', or a list of column names, of positions "
            f"or of booleans; got {categorical_features!r}."
        )
    if chosen.dtype.kind == "b":
        if len(chosen) != n_features:
            raise ValueError(
                f"categorical_features is a mask of {len(chosen)} booleans, and the table has "
                f"{n_features} columns."
            )
        return chosen
    if chosen.dtype.kind in "iu":
        wrong = chosen[(chosen < 0) | (chosen >= n_features)]
        if len(wrong):
            raise ValueError(
                f"categorical_features holds the position {wrong[0]}, and the table has the "
                f"columns 0 to {n_features - 1}."
            )
        mask[chosen] = True
        return mask
    if names is None:
        raise ValueError(
            "categorical_features holds names, but an array has none; give positions, or pass a "
            "DataFrame."
        )
    wanted = set(chosen.tolist())
    unknown = sorted(wanted - set(names))
    if unknown:
        raise ValueError(
            f"categorical_features holds {unknown[0]!r}, which is not a column of the table: "
            f"{names}."
        )
    return np.array([name in wanted for name in names])
