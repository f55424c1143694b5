"""From a checked table to one matrix of numbers and a list of category columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcal.tabular._categories import Cells
from skcal.tabular._columns import (
    Kind,
    chosen_columns,
    holds_numbers,
    is_plain,
    kind_of,
    read_numbers,
    refuse_time,
)
from skcal.tabular._dates import PARTS, date_parts, parse_dates, read_clock, read_seconds
from skcal.tabular._frames import refuse_infinity

FloatArray = NDArray[np.float64]


@dataclass
class Reader:
    """What ``fit`` decided about each column of a table.

    Attributes
    ----------
    kinds : list of {"number", "category", "date", "duration"}
        One per column.
    widths : list of int
        How many numbers each column becomes; 0 for a category.
    is_frame : bool
        Whether the table was a DataFrame.
    by_type : bool
        Whether columns are categories by their type, rather than because the user said so.
    zones : dict
        Time zones of dates (None where they have none), by position.
    """

    kinds: list[Kind]
    widths: list[int]
    is_frame: bool
    by_type: bool
    zones: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Any, categorical_features: ArrayLike | None) -> Self:
        """Decide what the columns of a checked table are."""
        is_frame = not isinstance(table, np.ndarray)
        by_type = isinstance(categorical_features, str) and categorical_features == "from_dtype"
        names = table.columns.tolist() if is_frame else None
        chosen = np.zeros(table.shape[1], dtype=bool)
        if not by_type and categorical_features is not None:
            chosen = chosen_columns(categorical_features, names, len(chosen))
        kinds: list[Kind] = ["category" if is_one else "number" for is_one in chosen]
        columns = table.items() if is_frame else ()
        for j, (name, column) in enumerate(columns):
            if not chosen[j]:
                kinds[j] = _kind(column, name, by_type=by_type)
        widths = [{"category": 0, "date": len(PARTS)}.get(kind, 1) for kind in kinds]
        return cls(kinds, widths, is_frame, by_type)

    @property
    def numeric(self) -> list[tuple[int, str]]:
        """Column, and part of a date or nothing, that each number comes from."""
        return [
            (j, part)
            for j, (kind, width) in enumerate(zip(self.kinds, self.widths, strict=True))
            for part in (PARTS if kind == "date" else ("",))[:width]
        ]

    def read(self, table: Any) -> tuple[FloatArray, list[Cells]]:
        """Return numbers with NaN for missing, and the categories in the order of the columns."""
        if isinstance(table, np.ndarray):
            return self._read_array(table)
        if set(self.kinds) == {"number"} and all(map(is_plain, table.dtypes)):
            # As below, in a fraction of the time.
            numbers = table.to_numpy(dtype=np.float64)
            refuse_infinity(numbers, table.columns)
            return numbers, []
        numbers = np.empty((len(table), sum(self.widths)))
        cells = []
        start = 0
        for j, ((name, column), kind) in enumerate(zip(table.items(), self.kinds, strict=True)):
            if kind == "category":
                cells.append(self._read_category(column, name))
                continue
            end = start + self.widths[j]
            if kind == "number":
                numbers[:, start] = read_numbers(column, name)
            elif kind == "duration":
                numbers[:, start] = read_seconds(column, name)
            else:
                dates = parse_dates(column, name)
                # Only fit meets a column whose time zone is not known.
                clock = read_clock(dates, self.zones.setdefault(j, dates.dt.tz), name)
                numbers[:, start:end] = date_parts(clock)[:, : end - start]
            start = end
        if np.isinf(numbers).any():
            refuse_infinity(numbers, [table.columns[j] for j, _ in self.numeric])
        return numbers, cells

    def _read_array(self, table: FloatArray) -> tuple[FloatArray, list[Cells]]:
        if self.is_frame and set(self.kinds) != {"number"}:
            raise ValueError(
                "The encoder was fitted on a DataFrame with categories or dates; pass a DataFrame "
                "with the same columns instead of an array."
            )
        if "category" not in self.kinds:
            return table, []
        is_category = np.array(self.kinds) == "category"
        cells = [Cells.read(column, j) for j, column in enumerate(table.T) if is_category[j]]
        return table[:, ~is_category], cells

    def _read_category(self, column: Any, name: Any) -> Cells:
        # Whoever calls dates categories means their text.
        if self.by_type and not is_plain(column.dtype):
            refuse_time(column, name, "categories")
        return Cells.read(column, name)

    def drop_midnights(self, numbers: FloatArray) -> FloatArray:
        """Leave out, here and from now on, the hours of dates that have no time of day."""
        kept = np.ones(numbers.shape[1], dtype=bool)
        for k, (j, part) in enumerate(self.numeric):
            if part == "hour" and not np.nan_to_num(numbers[:, k]).any():
                kept[k] = False
                self.widths[j] -= 1
        return numbers if kept.all() else numbers[:, kept]


def _kind(column: Any, name: Any, *, by_type: bool) -> Kind:
    kind = kind_of(column, name)
    if kind != "category" or by_type:
        return kind
    if not holds_numbers(column):
        raise ValueError(
            f"Column {name!r} holds text, but categorical_features does not name it. Add it, leave "
            "the column out of the table, or turn it into numbers."
        )
    return "number"
