"""The columns of a table as its readers know them, and what is typical of some of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skcal._validation import FloatArray, IntArray
from skcal.tabular import check_table
from skcal.tabular._reader import Reader

# A column whose typical value is less far away than this says nothing of the rows.
_LEAST_DISTANCE = 0.1
MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n_samples,)
        float64 with NaN for missing, or the positions of levels.
    levels : list of str or None
        The levels of a category, the last one for missing cells; None for numbers.
    is_date : bool
        Whether the numbers are days since 1970-01-01.
    """

    name: str
    values: NDArray[Any]
    levels: list[str] | None = None
    is_date: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are missing."""
        if self.levels is None:
            return np.isnan(self.values)
        return self.values == len(self.levels) - 1

    def take(self, rows: IntArray) -> Column:
        """Return the column of some rows."""
        return replace(self, values=self.values[rows])

    def show(self, number: float) -> str:
        """Return a number of this column as text: all of it, or its day."""
        if self.is_date:
            unit = "D" if number == round(number) else "m"
            minutes = np.timedelta64(round(number * 24 * 60), "m")
            return str((np.datetime64("1970-01-01") + minutes).astype(f"datetime64[{unit}]"))
        return f"{number:,.12g}"


class _Table(BaseEstimator):
    """What the door of tables keeps the names of columns on."""


def read_columns(X: Any, n_rows: int) -> list[Column]:
    """Return the columns of a table, in order; a date becomes a column for each of its parts.

    Raises
    ------
    ValueError
        If there is not one row for each prediction, or a number is infinite.
    TypeError
        If a column holds what is neither number, category nor date.
    """
    table = check_table(_Table(), X, reset=True)
    if len(table) != n_rows:
        raise ValueError(
            f"X must have one row for each prediction: {n_rows} rows; got {len(table)}."
        )
    is_array = isinstance(table, np.ndarray)
    names = [f"Column {j}" if is_array else str(table.columns[j]) for j in range(table.shape[1])]
    reader = Reader.fit(table, "from_dtype")
    numbers, cells = reader.read(table)
    numbers = reader.drop_midnights(numbers)
    found: list[tuple[int, Column]] = []
    for (j, part), values in zip(reader.numeric, numbers.T, strict=True):
        told = {"": "", "days": ""}.get(part, f" ({part})")
        if reader.kinds[j] == "duration":
            told = " (seconds)"
        found.append((j, Column(names[j] + told, values, is_date=part == "days")))
    categories = [j for j, kind in enumerate(reader.kinds) if kind == "category"]
    for j, column in zip(categories, cells, strict=True):
        positions = np.where(column.positions < 0, len(column.texts), column.positions)
        found.append((j, Column(names[j], positions, [*column.texts, MISSING])))
    return [column for _, column in sorted(found, key=lambda pair: pair[0])]


def typical_values(
    columns: list[Column], rows: IntArray, weights: FloatArray, told: set[int], most: int
) -> tuple[str, ...]:
    """Return what is typical of some rows, beside all rows, for the columns that differ most.

    Columns that are ``told`` already come last.
    """
    found = []
    for j, column in enumerate(columns):
        far, text = _typical(column, rows, weights)
        if far >= _LEAST_DISTANCE:
            found.append((j in told, -far, j, text))
    return tuple(text for *_, text in sorted(found)[:most])


def _typical(column: Column, rows: IntArray, weights: FloatArray) -> tuple[float, str]:
    """Return how far the typical value of some rows is from that of all, in [0, 1], and both.

    The distance is twice the share of all rows between both medians, or the difference of the
    two shares of the most frequent level.
    """
    inside = column.take(rows)
    if column.levels is not None:
        n_levels = len(column.levels)
        here = _shares(inside.values, weights[rows], n_levels)
        level = int(here.argmax())
        share, of_all = here[level], _shares(column.values, weights, n_levels)[level]
        return abs(share - of_all), _frequent(
            f"{column.name} = {column.levels[level]}", share, of_all
        )
    share = float(np.average(inside.missing, weights=weights[rows]))
    of_all = float(np.average(column.missing, weights=weights))
    if share > 0.5:
        return abs(share - of_all), _frequent(f"{column.name} {MISSING}", share, of_all)
    middle = _median(inside.values, weights[rows])
    known = ~column.missing
    values, weights = column.values[known], weights[known]
    everywhere = _median(values, weights)
    below = np.average((values < middle) + 0.5 * (values == middle), weights=weights)
    text = f"{column.name} {_short(column, middle)} (all rows {_short(column, everywhere)})"
    return (0.0 if middle == everywhere else abs(2 * float(below) - 1)), text


def _shares(positions: NDArray[Any], weights: FloatArray, n_levels: int) -> FloatArray:
    return np.bincount(positions, weights, minlength=n_levels) / weights.sum()


def _frequent(what: str, share: float, of_all: float) -> str:
    return f"{what} in {100 * share:.0f} % (all rows {100 * of_all:.0f} %)"


def _median(values: FloatArray, weights: FloatArray) -> float:
    """Return the least value at which half of the weight is reached, missing cells apart."""
    order = np.argsort(values)  # NaN comes last
    order = order[: len(values) - int(np.isnan(values).sum())]
    reached = np.cumsum(weights[order])
    # Rounding of sums must not move the median by a row.
    place = np.searchsorted(reached, reached[-1] * (0.5 - 1e-12))
    return float(values[order[place]])


def _short(column: Column, number: float) -> str:
    """Return a number of a column with about four digits, or its day."""
    if number == 0 or column.is_date:
        return column.show(np.floor(number))
    return column.show(round(number, max(0, 3 - int(np.floor(np.log10(abs(number)))))))
