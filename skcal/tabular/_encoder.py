"""The transformer from mixed tables to matrices."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skcal._validation import check_weights
from skcal.tabular._categories import Category, Cells
from skcal.tabular._dates import PARTS
from skcal.tabular._frames import check_table
from skcal.tabular._numbers import SCALINGS, NumberScaler
from skcal.tabular._reader import Reader


class TabularEncoder(TransformerMixin, BaseEstimator):
    r"""Turn a mixed table into a matrix of scaled numbers, one-hot categories and codes.

    Numbers are centred and scaled. A missing number becomes the centre, with a flag column
    beside it when the column had missing cells in ``fit``. Categories (text, categorical and
    boolean columns of a DataFrame) become one column per level, a missing cell being a level
    of its own. Dates become numbers of the calendar, durations become seconds. What a column
    is, ``fit`` decides.

    Parameters
    ----------
    scaling : {"robust", "standard", "quantile"}, default="robust"
        How numbers are scaled. "robust" divides the distance from the median by the
        interquartile range (by half of the whole range if that is zero) and bends the result
        smoothly into (-3, 3), :math:`x / \sqrt{1 + (x / 3)^2}`, as RealMLP does. "standard"
        divides the distance from the mean by the standard deviation. "quantile" gives the
        normal score of the share of rows below a number, half of those equal to it included.
    categorical_features : "from_dtype" or list, default="from_dtype"
        Which columns are categories. "from_dtype" takes text, categorical and boolean columns
        of a DataFrame, and none of an array. A list of column names, of positions or of
        booleans (one per column) takes these, whatever their type, also in an array. Booleans
        that it leaves out are numbers then; text that it leaves out is an error. None takes no
        column.
    min_frequency : int or float, optional
        Levels of fewer rows than this, or than this share of the rows, become one level
        "infrequent" of their column, as in :class:`sklearn.preprocessing.OneHotEncoder`. Rows
        are counted by weight, so that the unit of the weights matters to a number of rows, and
        not to a share. Missing cells stay a level of their own.
    max_one_hot : int, optional
        Most columns of a one-hot category. A column with more levels (after rare ones are
        merged) becomes one column of whole numbers at the end of the matrix, for an embedding:
        1, 2, ... for the levels, 0 for infrequent and unseen ones. None makes every category
        one-hot.
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
    n_numeric_ : int
        Number of scaled numbers, which come first in the matrix: one for a column of numbers
        or durations, several for one of dates. Flags are not counted.
    has_missing_ : ndarray of shape (n_numeric_,), bool
        Which scaled numbers have a flag, because their column had missing cells. Only the
        first number of a date has one. The flags come after the numbers.
    one_hot_sizes_ : list of int
        Number of columns of each one-hot category. They come after the flags.
    cardinalities_ : list of int
        Number of different codes, with 0, of each column of codes. They come last.

    Notes
    -----
    Categories are compared by their text: the category ``"1"`` of a text column and the
    integer 1 (or 1.0) of a numeric one are the same level, so that a column whose type
    changes between files keeps its meaning. In a column with levels True and False, 1 and 0
    stand for them, and the other way round. A column of Python objects that are all numbers
    is read as numbers. Text is read as numbers, dates (ISO 8601) or durations where the
    column held these in ``fit``.

    A level that ``fit`` did not see becomes the infrequent one of its column, if there is one;
    a row of zeros or the code 0 otherwise. ``transform`` warns of such columns, and
    ``count_unseen`` counts the cells. A text column with more than 50 levels and more levels
    than half of the rows is refused: it is an identifier, or numbers and dates that were read
    as text.

    Columns of one value in ``fit`` are read as zeros. A number further from the centre than a
    million spreads is read as a million of them, and with "quantile" one beyond the ends of
    its column as the end.

    A column of dates becomes the days since 1970-01-01 (with the time of day as a fraction),
    the month, the day of the month, the day of the week (0 is Monday) and, if ``fit`` saw a
    time of day other than midnight, the hour; each by the clock of the column's time zone.

    Quantiles are weighted so that a weight of two counts a row twice (numpy's
    ``method="averaged_inverted_cdf"``). Nothing is drawn at random, and the target is never
    used.

    DataFrames of polars, tables of pyarrow, and others that narwhals knows are read as
    pandas' are.

    References
    ----------
    D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs
    and Boosted Trees on Tabular Data", NeurIPS 2024 (robust scaling).

    Examples
    --------
    >>> import pandas as pd
    >>> from skcal import TabularEncoder
    >>> table = pd.DataFrame({"age": [20.0, 40.0, None], "job": ["cook", "clerk", "cook"]})
    >>> encoder = TabularEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age_missing', 'job_clerk', 'job_cook']
    >>> encoder.transform(table).round(3)
    array([[-0.493,  0.   ,  0.   ,  1.   ],
           [ 0.493,  0.   ,  1.   ,  0.   ],
           [ 0.   ,  1.   ,  0.   ,  1.   ]], dtype=float32)
    """

    def __init__(
        self,
        *,
        scaling: str = "robust",
        categorical_features: ArrayLike | None = "from_dtype",
        min_frequency: float | None = None,
        max_one_hot: int | None = None,
        dtype: str = "float32",
    ) -> None:
        self.scaling = scaling
        self.categorical_features = categorical_features
        self.min_frequency = min_frequency
        self.max_one_hot = max_one_hot
        self.dtype = dtype

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn scales and levels.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Arrays hold numbers; NaN is a missing cell. DataFrames may mix numbers, text,
            categories, booleans, dates and durations.
        y : ignored
            Present for the scikit-learn API.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows. A weight of two counts a row twice. A row of weight zero
            teaches nothing, neither a level nor that a column has missing cells.

        Returns
        -------
        self
        """
        self._check_parameters()
        table = check_table(self, X, reset=True)
        self._reader = Reader.fit(table, self.categorical_features)
        numbers, cells = self._reader.read(table)
        weights, exponent = np.ones(len(numbers)), 0
        if sample_weight is not None:
            weights = check_weights(sample_weight, numbers)
            # Sums of very large weights overflow; a power of two costs no digit.
            exponent = int(np.frexp(weights.max())[1])
            weights = np.ldexp(weights, -exponent)
            counted = weights > 0
            numbers, weights = numbers[counted], weights[counted]
            cells = [column[counted] for column in cells]
        numbers = self._reader.drop_midnights(numbers)
        self._scaler = NumberScaler.fit(
            numbers, None if sample_weight is None else weights, self.scaling
        )
        self.is_categorical_ = np.array([kind == "category" for kind in self._reader.kinds])
        self._categories = [
            Category.fit(
                column,
                weights,
                least=self._least_weight(weights, exponent),
                max_one_hot=self.max_one_hot,
                name=name,
            )
            for name, column in zip(self._category_names(), cells, strict=True)
        ]
        self.n_numeric_ = numbers.shape[1]
        # The parts of a date are missing together: one flag is enough.
        is_first = np.array(
            [part in ("", PARTS[0]) for _, part in self._reader.numeric], dtype=bool
        )
        self.has_missing_ = np.isnan(numbers).any(axis=0) & is_first
        self.one_hot_sizes_ = [c.n_codes - 1 for c in self._categories if c.is_one_hot]
        self.cardinalities_ = [c.n_codes for c in self._categories if not c.is_one_hot]
        return self

    def _check_parameters(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {SCALINGS}; got {self.scaling!r}.")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        if self.max_one_hot is not None and not _is_whole(self.max_one_hot, 0):
            raise ValueError(
                "max_one_hot must be a whole number of at least 0, or None; got "
                f"{self.max_one_hot!r}."
            )
        least = self.min_frequency
        is_share = isinstance(least, Real) and not isinstance(least, Integral) and 0 < least < 1
        if least is not None and not is_share and not _is_whole(least, 1):
            raise ValueError(
                "min_frequency must be a whole number of rows (at least 1), a share of them "
                f"between 0 and 1, or None; got {least!r}."
            )

    def _least_weight(self, weights: NDArray[np.float64], exponent: int) -> float:
        """Return the weight of which a level needs no merging, in the unit of the weights."""
        if self.min_frequency is None:
            return 0.0
        if isinstance(self.min_frequency, Integral):
            return float(np.ldexp(float(self.min_frequency), -exponent))
        return self.min_frequency * float(weights.sum())

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The columns of ``fit``, in the same order.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            All finite, of type ``dtype``: ``n_numeric_`` scaled numbers, their flags, one-hot
            categories, and codes.

        Warns
        -----
        UserWarning
            If a category holds levels that ``fit`` did not see; once for all columns.
        """
        check_is_fitted(self)
        numbers, cells = self._reader.read(check_table(self, X, reset=False))
        n_flags = int(self.has_missing_.sum())
        sizes = [self.n_numeric_, n_flags, sum(self.one_hot_sizes_), len(self.cardinalities_)]
        # Filled block by block: a table with many levels is large, and copies of it larger.
        encoded = np.zeros((len(numbers), sum(sizes)), dtype=self.dtype)
        next_hot, next_code = sum(sizes[:2]), sum(sizes[:3])
        if self.n_numeric_:
            scaled = self._scaler.transform(numbers)
            missing = np.isnan(scaled)
            encoded[:, : self.n_numeric_] = np.where(missing, 0.0, scaled)
            encoded[:, self.n_numeric_ : next_hot] = missing[:, self.has_missing_]
        for category, column in zip(self._categories, cells, strict=True):
            codes = category.encode(column)
            if category.is_one_hot:
                rows = np.flatnonzero(codes)
                encoded[rows, next_hot - 1 + codes[rows]] = 1
                next_hot += category.n_codes - 1
            else:
                encoded[:, next_code] = codes
                next_code += 1
        self._warn_of_unseen(cells)
        return encoded

    def count_unseen(self, X: Any) -> dict[str, int]:
        """Count the cells whose level ``fit`` did not see.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The columns of ``fit``, in the same order.

        Returns
        -------
        dict of str to int
            One number for each category column, by its name ("x0", "x1", ... where columns
            had no names of text). Missing cells are not counted.
        """
        check_is_fitted(self)
        _, cells = self._reader.read(check_table(self, X, reset=False))
        names = _check_feature_names_in(self)[self.is_categorical_]
        return {
            str(name): category.count_unseen(column)
            for name, category, column in zip(names, self._categories, cells, strict=True)
        }

    def _warn_of_unseen(self, cells: list[Cells]) -> None:
        names, said = [], []
        for name, category, column in zip(
            self._category_names(), self._categories, cells, strict=True
        ):
            if category.knows_all(column):
                continue
            names.append(name)
            if category.knows_none(column):
                said.append(category.complaint(column, name))
        if names:
            # Its text depends on the columns, so that a server that meets new levels says it once.
            said.append(
                f"The columns {names} hold levels that fit did not see, encoded as infrequent or "
                "as no level; count_unseen counts them."
            )
            warnings.warn(" ".join(said), UserWarning, stacklevel=4)

    def _category_names(self) -> list[Any]:
        """Return the columns that are categories, as messages call them."""
        names = getattr(self, "_column_names", range(self.n_features_in_))
        return [name for name, is_one in zip(names, self.is_categorical_, strict=True) if is_one]

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
        numeric = self._reader.numeric
        numbers = [f"{names[j]}_{part}" if part else names[j] for j, part in numeric]
        flags = [
            f"{names[j]}_missing"
            for (j, _), flagged in zip(numeric, self.has_missing_, strict=True)
            if flagged
        ]
        one_hot: list[str] = []
        codes: list[str] = []
        for name, category in zip(names[self.is_categorical_], self._categories, strict=True):
            (one_hot if category.is_one_hot else codes).extend(category.names(name))
        return np.array(_distinct([*numbers, *flags, *one_hot, *codes]), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _distinct(names: list[str]) -> list[str]:
    """Give names that stand twice a number, such as that of the level "nan" and of no level."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        taken[candidate] = None
    return list(taken)
