"""From mixed tables to the numbers a network reads."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data


class TabularEncoder(TransformerMixin, BaseEstimator):
    """Turn a mixed table into a matrix of scaled numbers and one-hot categories.

    Numbers are centred and scaled to unit variance. A missing number becomes the mean, with
    a flag column beside it when the column had missing cells in ``fit``. Categories (text,
    categorical and boolean columns of a DataFrame) become one column per level, a missing
    cell being a level of its own. A level that ``fit`` did not see becomes a row of zeros.

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
    changes between files keeps its meaning. The target is never used.

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
            Weights of the rows in means and variances.

        Returns
        -------
        self
        """
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        table = check_table(self, X, reset=True)
        self.is_categorical_ = categorical_columns(table)
        numbers, levels = self._columns(table)
        missing = np.isnan(numbers)
        self.has_missing_ = missing.any(axis=0)
        # A column without a single number has no mean: it is read as zeros throughout.
        self._is_empty = missing.all(axis=0)
        self._scaler = (
            StandardScaler().fit(
                np.where(self._is_empty, 0.0, numbers), sample_weight=sample_weight
            )
            if numbers.shape[1]
            else None
        )
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
        numbers, levels = self._columns(table)
        parts = []
        if self._scaler is not None:
            missing = np.isnan(numbers)
            scaled = self._scaler.transform(np.where(self._is_empty, 0.0, numbers))
            parts += [np.where(missing, 0.0, scaled), missing[:, self.has_missing_]]
        if self._one_hot is not None:
            parts.append(self._one_hot.transform(levels))
        return np.ascontiguousarray(np.hstack(parts), dtype=self.dtype)

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
        numeric = table.loc[:, ~self.is_categorical_]
        levels = np.empty((len(table), int(self.is_categorical_.sum())), dtype=object)
        for position, name in enumerate(table.columns[self.is_categorical_]):
            levels[:, position] = _as_text(table[name])
        return _as_numbers(numeric), levels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return ``X`` as a float64 array, or as a DataFrame when it holds categories.

    Column names and numbers are checked, and recorded on ``estimator`` when ``reset``.

    Raises
    ------
    ValueError
        If a number is infinite, or the columns are not those of ``fit``.
    """
    mixed = is_frame(X) and (categorical_columns(X).any() or not _knows_only_numbers(estimator))
    if mixed:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        if len(X) == 0 or X.shape[1] == 0:
            raise ValueError(
                f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
                f"{X.shape}) while a minimum of 1 is required by {type(estimator).__name__}."
            )
        return X
    numbers = validate_data(
        estimator, X, dtype=np.float64, order="C", ensure_all_finite="allow-nan", reset=reset
    )
    _refuse_infinity(numbers)
    return numbers


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
    from pandas.api import types

    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
            raise TypeError(
                f"Column {name!r} holds dates or durations ({dtype}); turn it into numbers "
                "(year, month, days since ...) before fitting."
            )
        if types.is_complex_dtype(dtype):
            raise TypeError(f"Column {name!r} holds complex numbers, which are not supported.")
    return np.array(
        [not types.is_numeric_dtype(t) or types.is_bool_dtype(t) for t in X.dtypes], dtype=bool
    )


def _knows_only_numbers(estimator: BaseEstimator) -> bool:
    """Return whether nothing seen in ``fit`` says that a column holds categories."""
    encoder = getattr(estimator, "encoder_", estimator)
    return not getattr(encoder, "is_categorical_", np.zeros(1, dtype=bool)).any()


def _as_numbers(frame: Any) -> NDArray[np.float64]:
    numbers = np.empty(frame.shape, dtype=np.float64)
    for position, name in enumerate(frame.columns):
        try:
            numbers[:, position] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Column {name!r} held numbers when fitted and now holds {frame[name].dtype} "
                "values that are not numbers."
            ) from error
    _refuse_infinity(numbers)
    return numbers


def _as_text(column: Any) -> NDArray[Any]:
    """Return a category column as text, NaN where missing, whole numbers without a point."""
    missing = column.isna().to_numpy()
    values = column.astype(object).to_numpy(copy=True)
    text = np.full(len(values), np.nan, dtype=object)
    # Levels are few: each distinct value is written once.
    distinct = {value: _level_text(value) for value in set(values[~missing].tolist())}
    text[~missing] = [distinct[value] for value in values[~missing].tolist()]
    return text


def _level_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _refuse_infinity(numbers: NDArray[np.float64]) -> None:
    infinite = np.isinf(numbers).any(axis=0)
    if infinite.any():
        raise ValueError(
            f"Input X contains infinity in column {int(np.argmax(infinite))}; replace it by a "
            "finite number, or by NaN if it is missing."
        )
