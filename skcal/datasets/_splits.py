"""Training, validation, calibration and test rows, as comparisons share them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split


def cap_rows(target: NDArray[Any], cap: int) -> NDArray[np.intp]:
    """Return sorted positions of at most ``cap`` rows, stratified where classes allow it."""
    rows = np.arange(len(target))
    if len(target) <= cap:
        return rows
    return np.sort(split_rows(rows, target, len(target) - cap, 0)[0])


def split_rows(
    rows: NDArray[np.intp], y: NDArray[Any], share: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return both parts in order; ``share`` of the second is a share, or a number of rows."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    single = counts == 1
    if single.any() and not single.all():
        # A class of one row cannot be split; it goes along with the smallest other one.
        codes = np.where(single[codes], np.where(single, len(y), counts).argmin(), codes)
    n_second = share if share >= 1 else np.ceil(share * len(y))
    too_few = min(n_second, len(y) - n_second) < len(np.unique(codes))
    first, second = train_test_split(
        rows,
        test_size=share,
        random_state=seed,
        stratify=None if single.all() or too_few else codes,
    )
    return np.sort(first), np.sort(second)


def split_rest(
    rest: NDArray[np.intp], y: NDArray[Any], seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return training, validation and calibration rows: 75, 12.5 and 12.5 % of some rows."""
    rest, cal = split_rows(rest, y[rest], 0.125, seed)
    train, val = split_rows(rest, y[rest], 1 / 7, seed)
    return train, val, cal
