"""Which rows are held out of training."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from skcal.neural._rows import Rows


def hold_out(rows: Rows, fraction: float, seed: int, *, split: str = "stratified") -> Rows:
    """Return training rows, with a share of the rows held out as ``valid``.

    Every class keeps a row in training.

    Parameters
    ----------
    rows : Rows
        With groups, whole groups are held out, as many as come close to the share.
    fraction : float
    seed : int
    split : {"stratified", "last"}
        At random, a share of every class (of groups, any at random); or the last rows, less
        those of groups that begin before them.

    Raises
    ------
    ValueError
        If too few rows would be left to train on, or none can be held out.
    """
    n_valid = int(np.ceil(fraction * len(rows)))
    codes = rows.y.numpy()
    if split == "last":
        is_valid = np.arange(len(rows)) >= len(rows) - n_valid
        if rows.groups is not None:
            is_valid &= ~np.isin(rows.groups, rows.groups[~is_valid])
        _check_last(codes, is_valid, n_valid)
    elif rows.groups is not None:
        is_valid = _some_groups(codes, rows.groups, n_valid, seed)
    else:
        is_valid = _some_rows(codes, n_valid, seed)
    return _cut(rows, is_valid)


def deal_out(rows: Rows, n_folds: int, seed: int) -> list[Rows]:
    """Return the rows ``n_folds`` times, each time with another fold held out as ``valid``.

    Folds are stratified by class, and keep groups together. A class of a single row, or of a
    single fold's groups, is never held out, nor are the groups it is in.

    Raises
    ------
    ValueError
        If there are fewer than two rows, or groups, per fold; if no class has a row for each
        fold; or if nothing can be held out in one of them.
    """
    codes = rows.y.numpy()
    n_units = len(rows) if rows.groups is None else len(np.unique(rows.groups))
    if n_units < 2 * n_folds:
        unit = "samples" if rows.groups is None else "groups"
        raise ValueError(f"n_folds={n_folds} needs at least {2 * n_folds} {unit}; got {n_units}.")
    if np.bincount(codes).max() < n_folds:
        raise ValueError(
            f"n_folds={n_folds} needs a class of at least {n_folds} samples; the largest has "
            f"{np.bincount(codes).max()}."
        )
    parts = []
    for is_valid in folds_of(rows, n_folds, seed):
        kept = np.isin(codes, np.setdiff1d(codes, codes[~is_valid]))
        if rows.groups is not None:
            kept = np.isin(rows.groups, rows.groups[kept])
        is_valid &= ~kept
        if not is_valid.any():
            raise ValueError(
                f"n_folds={n_folds} leaves a fold without rows that training can spare: all of "
                "them are in groups that hold every row of a class. Set n_folds=1, or merge or "
                "drop the classes of few groups."
            )
        parts.append(_cut(rows, is_valid))
    return parts


def folds_of(rows: Rows, n_folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return which rows are in each fold; stratified by class, groups in one piece."""
    codes = rows.y.numpy()
    folds = (StratifiedKFold if rows.groups is None else StratifiedGroupKFold)(
        n_folds, shuffle=True, random_state=seed
    )
    with warnings.catch_warnings():
        # A class of fewer rows than folds is held out in some of them only.
        warnings.simplefilter("ignore", UserWarning)
        pairs = list(folds.split(codes, codes, rows.groups))
    return [np.isin(np.arange(len(codes)), held_out) for _, held_out in pairs]


def _some_rows(codes: NDArray[np.int64], n_valid: int, seed: int) -> NDArray[np.bool_]:
    counts = np.bincount(codes)
    splittable = np.flatnonzero(counts[codes] > 1)
    if n_valid >= len(splittable):
        raise ValueError(
            f"Holding {n_valid} of the {len(codes)} samples out for early stopping or calibration "
            "leaves too few to train on; pass X_val and y_val, or set early_stopping=False and "
            "calibrate=False."
        )
    n_classes = len(np.unique(codes[splittable]))
    stratify = min(n_valid, len(splittable) - n_valid) >= n_classes
    splitter = (StratifiedShuffleSplit if stratify else ShuffleSplit)(
        1, test_size=n_valid, random_state=seed
    )
    _, held_out = next(splitter.split(splittable, codes[splittable]))
    is_valid = np.zeros(len(codes), dtype=bool)
    is_valid[splittable[held_out]] = True
    # A split that is not stratified may take a small class whole.
    for code in np.setdiff1d(codes, codes[~is_valid]):
        is_valid[np.argmax(codes == code)] = False
    return is_valid


def _some_groups(
    codes: NDArray[np.int64], groups: NDArray[np.generic], n_valid: int, seed: int
) -> NDArray[np.bool_]:
    """Hold out groups in random order, passing over those that training cannot spare.

    A group is taken if that brings the number of rows closer to ``n_valid``; if none does,
    the smallest that can be spared.
    """
    _, owner, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    left = np.bincount(codes)
    is_valid = np.zeros(len(codes), dtype=bool)
    n_taken = 0
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    smallest_first = shuffled[np.argsort(sizes[shuffled], kind="stable")]
    for order, any_size in ((shuffled, False), (smallest_first, True)):
        for group in order:
            if not any_size and sizes[group] >= 2 * (n_valid - n_taken):
                continue
            present, counts = np.unique(codes[members[group]], return_counts=True)
            if (left[present] <= counts).any():
                continue
            left[present] -= counts
            is_valid[members[group]] = True
            n_taken += sizes[group]
            if n_taken >= n_valid:
                break
        if n_taken:
            return is_valid
    raise ValueError(
        f"None of the {len(sizes)} group(s) can be held out for validation: each holds all rows "
        "of a class. Pass X_val and y_val, or set early_stopping=False and calibrate=False."
    )


def _check_last(codes: NDArray[np.int64], is_valid: NDArray[np.bool_], n_valid: int) -> None:
    missing = np.setdiff1d(codes, codes[~is_valid])
    if not is_valid.any():
        fault = "all belong to groups that begin before them"
    elif is_valid.all():
        fault = "are all rows"
    elif len(missing):
        fault = f"hold every row of {len(missing)} class(es), which training needs too"
    else:
        return
    raise ValueError(
        f"validation_split='last' holds out the last {n_valid} of {len(codes)} samples, but they "
        f"{fault}. Pass X_val and y_val, another validation_fraction, or set "
        "early_stopping=False and calibrate=False."
    )


def _cut(rows: Rows, is_valid: NDArray[np.bool_]) -> Rows:
    train = rows.take(np.flatnonzero(~is_valid))
    train.valid = rows.take(np.flatnonzero(is_valid))
    return train
