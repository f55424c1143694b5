"""From mixed tables to the numbers a network reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from skcal._validation import check_weights

# No row of fewer than 1e12 lies this many standard deviations from the mean of its table. A
# row that does can only come later, and must not overflow in a network.
_FARTHEST = 1e6
# Truth values as pandas, R and spreadsheets write them.
_SAME = (("True", "TRUE", "true", "1"), ("False", "FALSE", "false", "0"))
# A text column with more levels than this, and than half of the rows, says nothing of new rows.
_MANY_LEVELS = 50
# A column of as many rows without one known level is a mistake, not bad luck.
_ENOUGH_ROWS = 20


class TabularEncoder(TransformerMixin, BaseEstimator):
    """Turn a mixed table into a matrix of scaled numbers and one-hot categories.

    Numbers are centred and scaled to unit variance. A missing number becomes the mean, with
    a flag column beside it when the column had missing cells in ``fit``. Categories (text,
    categorical and boolean columns of a DataFrame) become one column per level, a missing
    cell being a level of its own. A level that ``fit`` did not see becomes a row of zeros.
    What a column is, ``fit`` decides.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float32"
        Type of the matrix.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names seen in ``fit``, if all of them were strings.
    is_categorical_ : ndarray of shape (n_features_in_,), bool
        Which columns are read as categories.
    has_missing_ : ndarray of shape (n_numeric,), bool
        Which numeric columns had missing cells, and so carry a flag.

    Notes
    -----
    Categories are compared by their text: the category ``"1"`` of a text column and the
    integer 1 (or 1.0) of a numeric one are the same level, so that a column whose type
    changes between files keeps its meaning. In a column with levels True and False, 1 and 0
    stand for them, and the other way round. A column of Python objects that are all numbers
    is read as numbers.

    A number further from the mean than a million standard deviations is read as a million,
    and a column of one value in ``fit`` as zeros. A text column with more than 50 levels and
    more levels than half of the rows is refused: it is an identifier, or numbers and dates
    that were read as text.

    The target is never used.

    Examples
    --------
    >>> import pandas as pd
    >>> from skcal import TabularEncoder
    >>> table = pd.DataFrame({"age": [20.0, 40.0, None], "job": ["cook", "clerk", "cook"]})
    >>> encoder = TabularEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age_missing', 'job_clerk', 'job_cook']
    >>> encoder.transform(table)
    array([[-1.,  0.,  0.,  1.],
           [ 1.,  0.,  1.,  0.],
           [ 0.,  1.,  0.,  1.]], dtype=float32)
    """

    def __init__(self, *, dtype: str = "float32") -> None:
        self.dtype = dtype

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn scales and levels.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Arrays hold numbers; NaN is a missing cell. DataFrames may mix numbers, text,
            categories and booleans.
        y : ignored
            Present for the scikit-learn API.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows in means and variances. A row of weight zero teaches nothing,
            neither a level nor that a column has missing cells.

        Returns
        -------
        self
        """
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        table = check_table(self, X, reset=True)
        self.is_categorical_ = categorical_columns(table)
        numbers, levels = self._columns(table)
        weights = None
        if sample_weight is not None:
            weights = unit_weights(check_weights(sample_weight, numbers))
            counted = weights > 0
            numbers, levels, weights = numbers[counted], levels[counted], weights[counted]
        missing = np.isnan(numbers)
        self.has_missing_ = missing.any(axis=0)
        # A column without a single number has no mean: it is read as zeros throughout.
        self._is_silent = missing.all(axis=0)
        numbers = np.where(self._is_silent, 0.0, numbers)
        # A column of one value teaches nothing: another value later must not say anything.
        with np.errstate(invalid="ignore"):
            varies = np.nanmax(numbers, axis=0, initial=-np.inf) > np.nanmin(
                numbers, axis=0, initial=np.inf
            )
        self._is_silent = self._is_silent | ~varies
        numbers = np.where(self._is_silent, 0.0, numbers)
        # Squares of numbers beyond 1e154 overflow, and below 1e-162 vanish; dividing by a
        # power of two first costs no digit.
        self._exponent = np.frexp(np.nanmax(np.abs(numbers), axis=0, initial=0.0))[1]
        self._scaler = (
            StandardScaler().fit(np.ldexp(numbers, -self._exponent), sample_weight=weights)
            if numbers.shape[1]
            else None
        )
        self._refuse_identifiers(table, levels)
        self._one_hot = (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=self.dtype).fit(
                levels
            )
            if levels.shape[1]
            else None
        )
        return self

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The columns of ``fit``, in the same order.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            All finite, of type ``dtype``.
        """
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        categorical_columns(table)  # for its errors
        numbers, levels = self._columns(table)
        # Filled block by block: a table with many levels is large, and copies of it larger.
        sizes = [0, 0, 0]
        if self._scaler is not None:
            sizes[:2] = [numbers.shape[1], int(self.has_missing_.sum())]
        if self._one_hot is not None:
            sizes[2] = sum(len(known) for known in self._one_hot.categories_)
        encoded = np.empty((len(numbers), sum(sizes)), dtype=self.dtype)
        scaled_part, flag_part, level_part = np.split(encoded, np.cumsum(sizes)[:2], axis=1)
        if self._scaler is not None:
            missing = np.isnan(numbers)
            with np.errstate(over="ignore"):
                scaled = np.ldexp(np.where(self._is_silent, 0.0, numbers), -self._exponent)
                scaled = np.clip(self._scaler.transform(scaled), -_FARTHEST, _FARTHEST)
            scaled_part[:] = np.where(missing, 0.0, scaled)
            flag_part[:] = missing[:, self.has_missing_]
        if self._one_hot is not None:
            for position, known in enumerate(self._one_hot.categories_):
                _respell(levels[:, position], set(known))
            level_part[:] = self._one_hot.transform(levels)
            self._warn_of_unknown_columns(levels, level_part)
        return encoded

    def _refuse_identifiers(self, table: Any, levels: NDArray[Any]) -> None:
        for name, column in zip(_names(table)[self.is_categorical_], levels.T, strict=True):
            n_levels = len(set(column[column == column]))  # a missing cell does not equal itself
            if n_levels > max(_MANY_LEVELS, 0.5 * len(column)):
                raise ValueError(
                    f"Column {name!r} holds {n_levels} different texts in {len(column)} rows, so "
                    "most are never seen again: an identifier, a date, or numbers read as text? "
                    "Leave it out, or turn it into numbers (pandas.to_numeric)."
                )

    def _warn_of_unknown_columns(self, levels: NDArray[Any], encoded: NDArray[Any]) -> None:
        if len(levels) < _ENOUGH_ROWS:
            return
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        categories = self._one_hot.categories_ if self._one_hot is not None else []
        ends = np.cumsum([len(known) for known in categories])
        blocks = np.split(encoded, ends[:-1], axis=1)
        for position, name in enumerate(names[self.is_categorical_]):
            if blocks[position].any():
                continue
            # A missing cell does not equal itself.
            known, came = (
                {level for level in column if level == level}
                for column in (categories[position], levels[:, position])
            )
            if known and came:
                warnings.warn(
                    f"Column {name!r}: none of its levels was seen in fit. Expected such as "
                    f"{sorted(known)[:3]}; came {sorted(came)[:3]}.",
                    UserWarning,
                    stacklevel=3,
                )

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns; those of ``fit`` by default.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        numeric = names[~self.is_categorical_]
        flags = [f"{name}_missing" for name in numeric[self.has_missing_]]
        encoded = (
            self._one_hot.get_feature_names_out(names[self.is_categorical_]).tolist()
            if self._one_hot is not None
            else []
        )
        return np.array([*numeric, *flags, *encoded], dtype=object)

    def _columns(self, table: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return numeric columns with NaN for missing, and categories as text."""
        if isinstance(table, np.ndarray):
            if self.is_categorical_.any():
                raise ValueError(
                    f"{type(self).__name__} was fitted on a DataFrame with categories; pass a "
                    "DataFrame with the same columns instead of an array."
                )
            return table, np.empty((len(table), 0), dtype=object)
        levels = np.empty((len(table), int(self.is_categorical_.sum())), dtype=object)
        for position, name in enumerate(table.columns[self.is_categorical_]):
            levels[:, position] = _as_text(table[name])
        return _as_numbers(table.loc[:, ~self.is_categorical_]), levels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return a DataFrame as it is, and anything else as a float64 array.

    Column names and numbers are checked, and recorded on ``estimator`` when ``reset``.

    Raises
    ------
    ValueError
        If an array holds infinity, a DataFrame is empty or has two columns of one name, or
        the columns are not those of ``fit``.
    """
    if not is_frame(X):
        try:
            numbers = validate_data(
                estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
            )
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{error}: arrays and lists hold numbers only. Pass a pandas DataFrame for a table "
                "with text, and a row of one as frame.iloc[[0]]."
            ) from error
        _refuse_infinity(numbers, range(numbers.shape[1]))
        if reset:
            estimator.__dict__.pop("_column_names", None)
        return numbers
    if not X.columns.is_unique:
        name = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"More than one column is named {name!r}; give each its own name.")
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    names = X.columns.tolist()
    if reset:
        estimator._column_names = names
    elif names != getattr(estimator, "_column_names", names):
        # scikit-learn compares names only when all of them are strings.
        raise ValueError(
            f"The columns are {names}, but {type(estimator).__name__} was fitted on "
            f"{estimator._column_names}, in that order."
        )
    if len(X) == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
            f"{X.shape}) while a minimum of 1 is required by {type(estimator).__name__}."
        )
    return X


def unit_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights divided by a power of two, exactly, so that the largest is about one.

    Only for means, which do not depend on the unit: sums of very large weights overflow.
    """
    return np.ldexp(weights, -np.frexp(weights.max())[1])


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a pandas DataFrame, without importing pandas."""
    return hasattr(X, "dtypes") and hasattr(X, "loc") and hasattr(X, "columns")


def categorical_columns(X: Any) -> NDArray[np.bool_]:
    """Return which columns are read as categories: those that are not numbers, and booleans.

    Raises
    ------
    TypeError
        If a column holds dates, durations or complex numbers.
    """
    if not is_frame(X):
        return np.zeros(X.shape[1], dtype=bool)
    return np.array([_is_categorical(X[name]) for name in X.columns], dtype=bool)


def _is_categorical(column: Any) -> bool:
    from pandas.api import types

    dtype = column.dtype
    # A column of objects is what its cells are.
    cells = types.infer_dtype(column, skipna=True) if types.is_object_dtype(dtype) else ""
    if (
        types.is_datetime64_any_dtype(dtype)
        or types.is_timedelta64_dtype(dtype)
        or cells.startswith(("date", "time", "period"))
    ):
        raise TypeError(
            f"Column {column.name!r} holds dates or durations ({cells or dtype}); turn it into "
            "numbers (year, month, days since ...) first."
        )
    if types.is_complex_dtype(dtype) or cells == "complex":
        raise TypeError(f"Column {column.name!r} holds complex numbers, which are not supported.")
    if cells:
        return cells not in ("integer", "floating", "mixed-integer-float", "decimal")
    return not types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)


def _as_numbers(frame: Any) -> NDArray[np.float64]:
    numbers = np.empty(frame.shape, dtype=np.float64)
    for position, name in enumerate(frame.columns):
        try:
            numbers[:, position] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Column {name!r} held numbers when fitted and now holds text such as "
                f"{_first_text(frame[name])!r}. Turn it into numbers (pandas.to_numeric)."
            ) from error
    _refuse_infinity(numbers, frame.columns)
    return numbers


def _first_text(column: Any) -> Any:
    """Return the first cell that is not a number."""
    import pandas as pd

    wrong = column.notna() & pd.to_numeric(column, errors="coerce").isna()
    return column[wrong].iloc[0] if wrong.any() else column.iloc[0]


def _names(table: Any) -> NDArray[Any]:
    return np.array(table.columns if is_frame(table) else range(table.shape[1]), dtype=object)


def _as_text(column: Any) -> NDArray[Any]:
    """Return a category column as text, NaN where missing, whole numbers without a point."""
    present = column.notna().to_numpy()
    values = column.astype(object).to_numpy()[present].tolist()
    text = np.full(len(column), np.nan, dtype=object)
    try:
        # Levels are few: each distinct value is written once. True equals 1, but not here.
        distinct = {key: _level_text(key[1]) for key in {(type(value), value) for value in values}}
    except TypeError as error:
        raise TypeError(
            f"Column {column.name!r} holds {type(values[0]).__name__} objects, which are neither "
            "numbers nor categories."
        ) from error
    text[present] = [distinct[type(value), value] for value in values]
    return text


def _level_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _respell(levels: NDArray[Any], known: set[Any]) -> None:
    """Write truth values the way that ``fit`` saw them, in place."""
    for group in _SAME:
        target = next((spelling for spelling in group if spelling in known), None)
        for spelling in group:
            if target is not None and spelling not in known:
                levels[levels == spelling] = target


def _refuse_infinity(numbers: NDArray[np.float64], names: Iterable[Any]) -> None:
    infinite = np.isinf(numbers).any(axis=0)
    if infinite.any():
        raise ValueError(
            f"Input X contains infinity in column {list(names)[int(np.argmax(infinite))]!r}; "
            "replace it by a finite number, or by NaN if it is missing."
        )
