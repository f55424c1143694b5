"""Regions of rows, and how far probabilities are off in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils import check_random_state

from skcal._validation import FloatArray, IntArray
from skcal.plots._data.inputs import Event
from skcal.plots._data.table import Column, read_columns, typical_values
from skcal.plots._data.tree_regions import grow_regions

# So many columns are named beside a region.
_MOST_TYPICAL = 3


# Arrays have no single truth value, so a generated __eq__ would only raise.
@dataclass(frozen=True, eq=False)
class CalibrationRegion:
    """A region of rows, and how far probabilities are off there.

    Attributes
    ----------
    description : str
        Which rows: conditions on columns, or the name of a given region.
    error : float
        `predicted` minus `observed`; above zero where probabilities are too high.
    low, high : float
        Ends of the interval of `error`.
    predicted : float
        Mean probability, by weight.
    observed : float
        Frequency of the event, by weight.
    count : int
        Number of rows that the error is measured on.
    share : float
        Their share of the weight of all measured rows.
    typical : tuple of str
        The columns that differ most from all rows: the median of a number, the most frequent
        level of a category, and the same for all rows.
    rows : ndarray of shape (count,), int
        Positions of the measured rows in the table.
    """

    description: str
    error: float
    low: float
    high: float
    predicted: float
    observed: float
    count: int
    share: float
    typical: tuple[str, ...]
    rows: IntArray

    @property
    def is_off(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def find_regions(
    X: Any,
    event: Event,
    how: Any,
    *,
    n_regions: int,
    max_depth: int,
    min_rows: int,
    confidence_level: float,
    random_state: Any,
) -> tuple[list[CalibrationRegion], CalibrationRegion]:
    """Return at most so many regions, the worst first, and all measured rows as one.

    Raises
    ------
    TypeError
        If ``how`` has no ``fit_predict``, or a column cannot be read.
    ValueError
        If there are too few rows, or the table or ``how`` do not fit them.
    """
    n_rows = len(event.weights)
    columns = read_columns(X, n_rows)
    counted = np.flatnonzero(event.weights > 0)
    if isinstance(how, str):
        if how != "tree":
            raise ValueError(
                "regions must be 'tree', a clusterer with fit_predict, or an array with the region "
                f"of each row; got {how!r}."
            )
        if len(counted) < 4 * min_rows:
            raise ValueError(
                f"regions='tree' needs 4 * min_rows = {4 * min_rows} rows with a weight above "
                f"zero: two regions of min_rows={min_rows} in each half; got {len(counted)}. Lower "
                "min_rows, or use more rows."
            )
        rng = check_random_state(random_state)
        order = rng.permutation(counted)
        grown, counted = np.sort(order[::2]), np.sort(order[1::2])
        found = grow_regions(
            [column.take(grown) for column in columns],
            (event.confidence - event.happened)[grown],
            event.weights[grown],
            n_regions=n_regions,
            max_depth=max_depth,
            min_rows=min_rows,
            rng=rng,
        )
        named = [(r.describe(columns), r.holds(columns), set(r.conditions)) for r in found]
    else:
        named = [(name, mask, set()) for name, mask in _given(how, X, n_rows, counted, min_rows)]
    measured = [column.take(counted) for column in columns]
    here = event._replace(
        confidence=event.confidence[counted],
        happened=event.happened[counted],
        weights=event.weights[counted],
    )
    z = float(ndtri(0.5 + confidence_level / 2))
    regions = [
        _measure(name, np.flatnonzero(mask[counted]), measured, told, here, counted, z)
        for name, mask, told in named
        if mask[counted].any()
    ]
    regions.sort(key=lambda region: -abs(region.error))
    everything = np.arange(len(counted))
    overall = _measure("All rows", everything, measured, set(), here, counted, z)
    return regions[:n_regions], overall


def _given(
    how: Any, X: Any, n_rows: int, counted: IntArray, min_rows: int
) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the names and masks of the regions of a clusterer or an array."""
    if isinstance(how, type) or not (hasattr(how, "fit_predict") or np.ndim(how) == 1):
        raise TypeError(
            "regions must be 'tree', a clusterer with fit_predict, or an array with the region of "
            f"each row; got {how!r}."
        )
    is_clusterer = hasattr(how, "fit_predict")
    labels = np.asarray(how.fit_predict(X) if is_clusterer else how)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"regions must hold one value for each of the {n_rows} rows; its shape is "
            f"{labels.shape}."
        )
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    sizes = np.bincount(codes[counted], minlength=len(names))
    if sizes.max() < min_rows:
        raise ValueError(
            f"No region has min_rows={min_rows} rows with a weight above zero; the largest has "
            f"{sizes.max()}. Lower min_rows, or join regions."
        )
    title = "Cluster " if is_clusterer else f"{getattr(how, 'name', None) or 'Region'} = "
    return [
        (title + str(name), codes == code)
        for code, name in enumerate(names)
        if sizes[code] >= min_rows
    ]


def _measure(
    name: str,
    rows: IntArray,
    columns: list[Column],
    told: set[int],
    event: Event,
    positions: IntArray,
    z: float,
) -> CalibrationRegion:
    """Return the error of some of the measured rows, with its interval."""
    p, happened, weights = (
        part[rows] for part in (event.confidence, event.happened, event.weights)
    )
    share = weights / weights.sum()
    predicted, observed = min(float(share @ p), 1.0), min(float(share @ happened), 1.0)
    error = predicted - observed
    half = z * _standard_error(p, happened, share, error)
    return CalibrationRegion(
        description=name,
        error=error,
        # The frequency stays between 0 and 1.
        low=min(max(error - half, predicted - 1), error),
        high=max(min(error + half, predicted), error),
        predicted=predicted,
        observed=observed,
        count=len(rows),
        share=float(weights.sum() / event.weights.sum()),
        typical=typical_values(columns, rows, event.weights, told, _MOST_TYPICAL),
        rows=positions[rows],
    )


def _standard_error(p: FloatArray, happened: FloatArray, share: FloatArray, error: float) -> float:
    """Return the standard error of a mean difference of probabilities and events.

    The spread of the differences alone would be zero where no rare event happens to be among
    the rows; what the probabilities expect alone, where they are sure of themselves and wrong.
    """
    squares = share**2
    rows = 1 / squares.sum()
    expected = squares @ (p * (1 - p))
    found = squares @ (p - happened - error) ** 2
    one_event = (rows + 1) / (rows + 2) ** 2 / rows
    return float(np.sqrt(max(expected, found, one_event)))
