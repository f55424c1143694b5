"""Tables of any library: one door, through which come pandas frames and arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return a table as a pandas DataFrame, and anything without columns as a float64 array.

    Column names and numbers are checked, and recorded on ``estimator`` when ``reset``.

    Parameters
    ----------
    estimator : estimator
        Whose ``n_features_in_`` and ``feature_names_in_`` are set or compared.
    X : DataFrame of pandas, polars or another library that narwhals knows, or array-like
    reset : bool
        Whether this is ``fit``.

    Returns
    -------
    pandas.DataFrame or ndarray of shape (n_samples, n_features), float64
        NaN in an array is a missing cell.

    Raises
    ------
    ValueError
        If an array holds infinity, a table is empty or has two columns of one name, or the
        columns are not those of ``fit``.
    TypeError
        If the table is sparse, or not in memory.
    """
    if not is_frame(X):
        X = _as_pandas(X)
    if not is_frame(X):
        return _check_array(estimator, X, reset=reset)
    names = X.columns.tolist()
    fitted = None if reset else getattr(estimator, "_column_names", None)
    # The columns of fit need no second look; a single row is to be quick.
    if names != fitted:
        if not X.columns.is_unique:
            name = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"More than one column is named {name!r}; give each its own name.")
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        if fitted is not None:
            # scikit-learn compares names only when all of them are strings.
            raise ValueError(
                f"The columns are {names}, but {type(estimator).__name__} was fitted on "
                f"{fitted}, in that order."
            )
    if reset:
        estimator._column_names = names
    if len(X) == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
            f"{X.shape}) while a minimum of 1 is required by {type(estimator).__name__}."
        )
    return X


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a pandas DataFrame, without importing pandas."""
    # Its class is asked because the attributes themselves take time to build.
    return all(hasattr(type(X), name) for name in ("dtypes", "loc", "columns"))


def refuse_infinity(numbers: NDArray[np.float64], names: Iterable[Any]) -> None:
    """Raise a ValueError that names the first column with an infinite number."""
    infinite = np.isinf(numbers)
    if infinite.any():
        raise ValueError(
            "Input X contains infinity in column "
            f"{list(names)[int(np.argmax(infinite.any(axis=0)))]!r}; replace it by a finite "
            "number, or by NaN if it is missing."
        )


def _check_array(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray[np.float64]:
    if (
        not reset
        and type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.kind in "fiu"
        and len(X)
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    ):
        # What validate_data would return, in a tenth of its time.
        numbers = np.ascontiguousarray(X, dtype=np.float64)
    else:
        numbers = _read_array(estimator, X, reset=reset)
    refuse_infinity(numbers, range(numbers.shape[1]))
    if reset:
        estimator.__dict__.pop("_column_names", None)
    return numbers


def _read_array(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray[np.float64]:
    if getattr(getattr(X, "dtype", None), "kind", "") in ("M", "m"):
        raise TypeError(
            "An array of dates or durations has no unit in a matrix of numbers; pass a pandas "
            "DataFrame."
        )
    try:
        return validate_data(
            estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
        )
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"{error}: arrays and lists hold numbers only. Pass a pandas DataFrame for a table "
            "with text, and a row of one as frame.iloc[[0]]."
        ) from error


def _as_pandas(X: Any) -> Any:
    """Return the table of another library as a pandas DataFrame; what is no table, as it is."""
    if isinstance(X, np.ndarray | list | tuple) or not hasattr(type(X), "columns"):
        return X
    import narwhals.stable.v2 as nw
    import pandas as pd

    table = nw.from_native(X, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        raise TypeError(
            f"X is a {type(X).__module__.partition('.')[0]} {type(X).__name__}, whose rows are not "
            "in memory; pass X.collect(), or another DataFrame of its rows."
        )
    if not isinstance(table, nw.DataFrame):
        return X
    # Column by column: polars hands whole frames to pandas only where pyarrow is installed.
    return pd.DataFrame({name: _pandas_column(table[name], nw) for name in table.columns})


def _pandas_column(column: Any, nw: Any) -> Any:
    import pandas as pd

    dtype = column.dtype
    if dtype.is_numeric():
        return (column.cast(nw.Float64) if dtype == nw.Decimal else column).to_numpy()
    if dtype == nw.Datetime and dtype.time_zone is not None:
        universal = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        return pd.Series(universal).dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        return pd.Series(column.to_numpy())
    return pd.Series(column.to_list(), dtype=object)
