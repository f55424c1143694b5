"""Regions of a table in words: the leaves of a small tree, with round thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from skcal._validation import FloatArray
from skcal.plots._data.table import MISSING, Column

# Only so many levels of a category, the most frequent ones, are tried as regions.
_MOST_LEVELS = 30
# What a region must be worth, in times the Bayesian information criterion's penalty. With once,
# pure noise gave 1.7 regions on average, over 20 halves of 3,000 rows; with twice, none but one.
_WORTH = 2.0


@dataclass(frozen=True)
class Range:
    """A condition on a column of numbers: low <= value < high, and whether missing cells fit."""

    low: float = -inf
    high: float = inf
    missing: bool = True

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """Return which rows meet the condition."""
        values = column.values
        known = (values >= self.low) & (values < self.high)
        return known | column.missing if self.missing else known

    def describe(self, column: Column) -> str:
        """Return the condition in words."""
        name = column.name
        if self.low == inf:
            return f"{name} {MISSING}"
        if self.low == -inf and self.high == inf:
            return f"{name} known"
        if self.low == -inf:
            text = f"{name} < {column.show(self.high)}"
        elif self.high == inf:
            text = f"{name} ≥ {column.show(self.low)}"
        else:
            text = f"{column.show(self.low)} ≤ {name} < {column.show(self.high)}"
        return f"{text} (or {MISSING})" if self.missing and column.missing.any() else text


@dataclass(frozen=True)
class Levels:
    """A condition on a category: to be one level, or none of several."""

    chosen: int | None = None
    excluded: tuple[int, ...] = ()

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """Return which rows meet the condition."""
        if self.chosen is not None:
            return column.values == self.chosen
        return ~np.isin(column.values, self.excluded)

    def describe(self, column: Column) -> str:
        """Return the condition in words."""
        assert column.levels is not None
        name, absent = column.name, len(column.levels) - 1
        rest = np.setdiff1d(column.values, self.excluded).tolist()
        if self.chosen is not None:
            rest = [self.chosen]
        if len(rest) == 1:
            return (
                f"{name} {MISSING}" if rest[0] == absent else f"{name} = {column.levels[rest[0]]}"
            )
        if self.excluded == (absent,):
            return f"{name} known"
        levels = [column.levels[code] for code in self.excluded]
        if len(levels) == 1:
            return f"{name} ≠ {levels[0]}"
        return f"{name} neither {' nor '.join(levels)}"


class Region(NamedTuple):
    """Conditions by the column they are about."""

    conditions: dict[int, Range | Levels]

    def holds(self, columns: list[Column]) -> NDArray[np.bool_]:
        """Return which rows are in the region."""
        inside = np.ones(len(columns[0].values), dtype=bool)
        for j, condition in self.conditions.items():
            inside &= condition.holds(columns[j])
        return inside

    def describe(self, columns: list[Column]) -> str:
        """Return the region in words."""
        parts = [condition.describe(columns[j]) for j, condition in self.conditions.items()]
        return " and ".join(parts) or "All rows: no part stands out"


class _Feature(NamedTuple):
    """What the tree sees of a column: ranks of its numbers, or whether it is one level."""

    column: int
    values: FloatArray
    level: int | None
    steps: FloatArray  # the numbers by rank, and how many rows there are up to each
    reached: NDArray[np.int_]


def grow_regions(
    columns: list[Column],
    error: FloatArray,
    weights: FloatArray,
    *,
    n_regions: int,
    max_depth: int,
    min_rows: int,
    rng: RandomState,
) -> list[Region]:
    """Return regions that part all rows so that their mean errors differ.

    They are the leaves of a regression tree of the errors on the columns. Each split asks
    whether a number is below a threshold or a category is one level. The tree is pruned: with
    m rows, each further leaf must take off the sum of squares as much as ``2 log m`` rows add
    to it. What takes off less is mostly noise, and tears apart what belongs together.
    """
    features = [
        feature for j, column in enumerate(columns) for feature in _features(j, column, min_rows)
    ]
    if not features:
        return [Region({})]
    model = DecisionTreeRegressor(
        max_depth=max_depth,
        max_leaf_nodes=n_regions,
        min_samples_leaf=min_rows,
        random_state=rng,
    )
    matrix = np.column_stack([feature.values for feature in features])
    share = weights / weights.sum()
    spread = share @ (error - share @ error) ** 2
    model.set_params(ccp_alpha=_WORTH * np.log(len(error)) * spread * (share @ share))
    tree = model.fit(matrix, error, sample_weight=weights).tree_
    regions = []
    waiting: list[tuple[int, dict[int, Range | Levels]]] = [(0, {})]
    while waiting:
        node, path = waiting.pop()
        if tree.children_left[node] < 0:
            regions.append(Region(path))
            continue
        feature = features[tree.feature[node]]
        left, right = _split(
            feature,
            path.get(feature.column),
            float(tree.threshold[node]),
            bool(tree.missing_go_to_left[node]),
            min_rows,
        )
        waiting.append((int(tree.children_right[node]), {**path, feature.column: right}))
        waiting.append((int(tree.children_left[node]), {**path, feature.column: left}))
    return regions


def _features(j: int, column: Column, min_rows: int) -> list[_Feature]:
    """Return what a column can be split by."""
    if column.levels is None:
        known = ~column.missing
        # The tree reads 32 bits, in which ranks are exact and large numbers are not.
        steps, ranks = np.unique(column.values[known], return_inverse=True)
        values = np.full(len(known), np.nan)
        values[known] = ranks
        reached = np.bincount(ranks, minlength=1).cumsum()
        return [_Feature(j, values, None, steps, reached)] if len(steps) > 0 else []
    counts = np.bincount(column.values, minlength=len(column.levels))
    frequent = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
    most = len(column.values) - min_rows
    return [
        _Feature(j, (column.values == level) * 1.0, int(level), np.empty(0), counts[:0])
        for level in frequent
        if min_rows <= counts[level] <= most
    ]


def _split(
    feature: _Feature,
    known: Range | Levels | None,
    threshold: float,
    missing_left: bool,
    min_rows: int,
) -> tuple[Range | Levels, Range | Levels]:
    """Return the conditions of both sides of a split, with what is known from splits above."""
    if feature.level is not None:
        before = known if isinstance(known, Levels) else Levels()
        return (
            replace(before, excluded=(*before.excluded, feature.level)),
            replace(before, chosen=feature.level),
        )
    inside = known if isinstance(known, Range) else Range()
    below = int(np.floor(min(threshold, len(feature.steps) - 1)))
    # A few known cells on the side of the missing ones are chance.
    n_left = feature.reached[below]
    if (n_left if missing_left else feature.reached[-1] - n_left) < min_rows:
        sides = replace(inside, missing=False), Range(low=inf)
        return sides[::-1] if missing_left else sides
    cut = _round_between(float(feature.steps[below]), float(feature.steps[below + 1]))
    return (
        replace(inside, high=min(inside.high, cut), missing=inside.missing and missing_left),
        replace(inside, low=max(inside.low, cut), missing=inside.missing and not missing_left),
    )


def _round_between(low: float, high: float) -> float:
    """Return the number with the fewest digits in (low, high]: near the middle, or just at high."""
    for digits in range(-15, 18):
        top = round(high, digits)
        if top > high:
            top = round(high - 10.0**-digits, digits)
        for number in (round((low + high) / 2, digits), top):
            if low < number <= high:
                return number + 0.0  # no negative zero
    return high
