"""Levels of a category: read from a column, remembered, and turned into codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.intp]

# Truth values as pandas, R and spreadsheets write them.
_SAME = (("True", "TRUE", "true", "1"), ("False", "FALSE", "false", "0"))
# A text column with more levels than this, and than half of the rows, says nothing of new rows.
_MANY_LEVELS = 50
# A column of as many rows without one known level is a mistake, not bad luck.
_ENOUGH_ROWS = 20
_FEW_CELLS = 8
# Sums of weights that should be equal differ by rounding.
_TIE = 1e-10
# What scikit-learn's OneHotEncoder calls the rare levels.
_RARE = "infrequent_sklearn"


@dataclass
class Cells:
    """A category column: its distinct levels as text, and which of them each cell is.

    Attributes
    ----------
    texts : list of str
        A text may stand twice, when levels of two types are written alike.
    positions : ndarray of shape (n,), int
        Into ``texts``; -1 where a cell is missing.
    """

    texts: list[str]
    positions: IntArray

    @classmethod
    def read(cls, column: Any, name: Any) -> Self:
        """Read a pandas column, or a float64 array with NaN for missing."""
        if isinstance(column, np.ndarray):
            return cls._of_values(column)
        import pandas as pd

        dtype = column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
            return cls._of_values(column.to_numpy())
        if isinstance(dtype, pd.CategoricalDtype):
            codes = column.array.codes
            used, positions = np.unique(codes, return_inverse=True)
            n_missing = int(used[0] == -1)
            levels = dtype.categories.take(used[n_missing:]).tolist()
            return cls(_as_texts(levels), positions - n_missing)
        # Objects of several types must be told apart one by one, and few cells are quicker so.
        is_mixed = isinstance(dtype, np.dtype) and pd.api.types.infer_dtype(column) != "string"
        if is_mixed or len(column) <= _FEW_CELLS:
            return cls._of_objects(column, name)
        positions, levels = pd.factorize(column)
        return cls(_as_texts(levels.tolist()), positions)

    @classmethod
    def _of_values(cls, values: NDArray[Any]) -> Self:
        levels, positions = np.unique(values, return_inverse=True)
        if levels.dtype.kind == "f" and np.isnan(levels[-1]):
            levels = levels[:-1]
            positions = np.where(positions == len(levels), -1, positions)
        return cls(_as_texts(levels.tolist()), positions)

    @classmethod
    def _of_objects(cls, column: Any, name: Any) -> Self:
        import pandas as pd

        values = column.to_numpy(dtype=object)
        present = ~pd.isna(values)
        values = values[present].tolist()
        # True equals 1 and 1.0 in Python, but they are not the same level.
        keys = [(type(value), value) for value in values]
        try:
            order = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        except TypeError as error:
            raise TypeError(
                f"Column {name!r} holds {type(values[0]).__name__} objects, which are neither "
                "numbers nor categories."
            ) from error
        positions = np.full(len(column), -1, dtype=np.intp)
        positions[present] = [order[key] for key in keys]
        return cls(_as_texts(value for _, value in order), positions)

    def __getitem__(self, rows: NDArray[np.bool_]) -> Cells:
        return Cells(self.texts, self.positions[rows])


@dataclass
class Category:
    """What ``fit`` learned of one category column.

    Attributes
    ----------
    levels : list of str
        Levels that stand for themselves, in the order of their text.
    has_missing : bool
        Whether missing cells are a level, after the others.
    has_rare : bool
        Whether rare levels were merged into one, which comes last.
    is_one_hot : bool
        Whether the column becomes one column per level, instead of one column of codes.
    codes : dict
        Code of each text that ``fit`` knows; 0 stands for none of the levels.
    missing_code, unseen_code : int
    """

    levels: list[str]
    has_missing: bool
    has_rare: bool
    is_one_hot: bool
    codes: dict[str, int]
    missing_code: int
    unseen_code: int

    @classmethod
    def fit(
        cls,
        cells: Cells,
        weights: NDArray[np.float64],
        *,
        least: float,
        max_one_hot: int | None,
        name: Any,
    ) -> Self:
        """Learn from cells of positive weight; levels of less weight than ``least`` are rare."""
        present = cells.positions >= 0
        sums = np.bincount(cells.positions[present], weights[present], minlength=len(cells.texts))
        weight_of: dict[str, float] = {}
        for text, weight in zip(cells.texts, sums.tolist(), strict=True):
            # Levels may have come with rows of no weight alone.
            if weight > 0:
                weight_of[text] = weight_of.get(text, 0.0) + weight
        levels = sorted(text for text, w in weight_of.items() if w >= least * (1 - _TIE))
        rare = sorted(weight_of.keys() - set(levels))
        _refuse_identifier(len(weight_of), len(weights), name, merged=bool(levels and rare))
        has_missing = not bool(present.all())
        n_columns = len(levels) + has_missing + bool(rare)
        is_one_hot = max_one_hot is None or n_columns <= max_one_hot
        codes = {text: code for code, text in enumerate(levels, 1)}
        missing_code = len(levels) + 1 if has_missing else 0
        # The network learns from rare levels what to do with one that it has never seen.
        unseen_code = n_columns if rare and is_one_hot else 0
        codes |= dict.fromkeys(rare, unseen_code)
        for group in _SAME:
            target = next((text for text in group if text in codes), None)
            if target is not None:
                codes |= {text: codes[target] for text in group if text not in codes}
        return cls(
            levels,
            has_missing,
            bool(rare),
            is_one_hot,
            codes,
            missing_code if has_missing else unseen_code,
            unseen_code,
        )

    @property
    def n_codes(self) -> int:
        """Number of codes, with 0: one more than the columns of a one-hot category."""
        return 1 + len(self.levels) + self.has_missing + (self.has_rare and self.is_one_hot)

    def encode(self, cells: Cells) -> IntArray:
        """Return the code of each cell."""
        codes = [self.codes.get(text, self.unseen_code) for text in cells.texts]
        # The position of a missing cell is -1, which is the last one.
        return np.array([*codes, self.missing_code])[cells.positions]

    def knows_all(self, cells: Cells) -> bool:
        """Return whether ``fit`` saw every level. A missing cell is never a surprise."""
        return all(text in self.codes for text in cells.texts)

    def count_unseen(self, cells: Cells) -> int:
        """Return how many cells hold a level that ``fit`` did not see."""
        unseen = [text not in self.codes for text in cells.texts]
        return int(np.array([*unseen, False])[cells.positions].sum())

    def knows_none(self, cells: Cells) -> bool:
        """Return whether not one of many cells is known, so that something must be wrong."""
        n_missing = int((cells.positions < 0).sum())
        n_known = len(cells.positions) - self.count_unseen(cells)
        n_known -= 0 if self.has_missing else n_missing
        return bool(self.codes) and n_known == 0 and len(cells.positions) >= _ENOUGH_ROWS

    def complaint(self, cells: Cells, name: Any) -> str:
        """Return what to say when no cell is known."""
        return (
            f"Column {name!r}: none of its levels was seen in fit. Expected such as "
            f"{self.levels[:3] or sorted(self.codes)[:3]}; came {sorted(cells.texts)[:3]}."
        )

    def names(self, name: str) -> list[str]:
        """Return the names of the encoded columns."""
        if not self.is_one_hot:
            return [name]
        last = ["nan"] * self.has_missing + [_RARE] * self.has_rare
        return [f"{name}_{level}" for level in [*self.levels, *last]]


def _as_texts(values: Iterable[Any]) -> list[str]:
    """Return levels as text, whole numbers without a point."""
    texts = []
    for value in values:
        number = float(value) if isinstance(value, Decimal | np.floating) else value
        is_whole = isinstance(number, float) and number.is_integer()
        texts.append(str(int(number)) if is_whole else str(number))
    return texts


def _refuse_identifier(n_levels: int, n_rows: int, name: Any, *, merged: bool) -> None:
    # Rows, not weights: whether a text comes again is told by the rows that were looked at.
    if n_levels > max(_MANY_LEVELS, 0.5 * n_rows) and not merged:
        raise ValueError(
            f"Column {name!r} holds {n_levels} different texts in {n_rows} rows, so most are never "
            "seen again: an identifier, a date, or numbers read as text? Leave it out, turn it "
            "into numbers (pandas.to_numeric) or dates (pandas.to_datetime), or merge its rare "
            "levels (min_frequency=2)."
        )
