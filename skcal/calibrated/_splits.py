"""Which rows train a model and which calibrate it."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, check_cv
from sklearn.utils import check_random_state

Split = tuple[Any, Any]

_FOLDS = 5


def is_share(cv: Any) -> bool:
    """Tell whether ``cv`` is the share of one hold-out."""
    return isinstance(cv, Real) and not isinstance(cv, Integral)


def check_cv_number(cv: Any) -> None:
    """Refuse numbers that are neither of folds nor a share."""
    if (is_share(cv) and not 0 < cv < 1) or (isinstance(cv, Integral) and cv < 2):
        raise ValueError(
            f"cv={cv!r} is neither a number of folds (a whole number, 2 or more) nor the share of "
            "rows held out once (between 0 and 1, both excluded). Use cv=5 or cv=0.2."
        )


def make_splits(
    cv: Any, X: Any, y: NDArray[Any], split_params: dict[str, Any], random_state: Any
) -> list[Split]:
    """Return (train, test) row numbers, having checked that each test part can be scored."""
    if is_share(cv):
        splits = [_hold_out(cv, X, y, split_params.get("groups"), random_state)]
    else:
        parts = _splitter(cv, y).split(X, y, **split_params)
        n = len(y)
        splits = [(_row_numbers(train, n), _row_numbers(test, n)) for train, test in parts]
    if not splits:
        raise ValueError(f"cv={cv!r} makes no split, so that there is nothing to calibrate on.")
    for fold, (train, test) in enumerate(splits, start=1):
        if len(np.intersect1d(train, test)):
            raise ValueError(
                f"Fold {fold} calibrates on rows that it also trains on; use a splitter whose "
                "training and test parts have no row in common."
            )
        unknown = np.setdiff1d(y[test], y[train])
        if len(unknown):
            raise ValueError(
                f"Class {unknown.tolist()[0]!r} is not in the training part of fold {fold}, so "
                "the model of that fold cannot score it. Use a stratified or shuffled splitter."
            )
        if len(np.unique(y[train])) < 2:
            raise ValueError(
                f"The training part of fold {fold} holds one class, {y[train][:1].tolist()[0]!r}, "
                "of which no classifier can be made. Use a stratified or shuffled splitter."
            )
    never = np.setdiff1d(y, y[np.concatenate([train for train, _ in splits])])
    if len(never):
        raise ValueError(
            f"Class {never.tolist()[0]!r} is in no training part, so that no model would know it. "
            "Use a stratified or shuffled splitter."
        )
    return splits


def _row_numbers(part: Any, n: int) -> NDArray[Any]:
    """Return row numbers, which some splitters give as a mask."""
    rows = np.asarray(part)
    if rows.dtype.kind == "b":
        return np.flatnonzero(rows)
    if len(rows) and not 0 <= rows.min() <= rows.max() < n:
        outside = rows.min() if rows.min() < 0 else rows.max()
        raise ValueError(
            f"cv gives the row number {outside}; with {n} rows they run from 0 to {n - 1}."
        )
    return rows


def _splitter(cv: Any, y: NDArray[Any]) -> Any:
    if hasattr(cv, "__next__"):
        raise ValueError(
            "cv is a generator, which can be read only once; pass the splitter itself, or "
            "cv=list(splitter.split(X, y))."
        )
    classes, counts = np.unique(y, return_counts=True)
    rarest = f"class {classes.tolist()[int(counts.argmin())]!r} has {counts.min()}"
    if cv is None and counts.min() < 2:
        raise ValueError(
            "Calibrating by cross-validation needs at least 2 samples of each class, but "
            f"{rarest}. Merge or remove the rare class, or hold rows out once (cv=0.2), which "
            "keeps a lone row for training."
        )
    if isinstance(cv, Integral) and counts.min() < cv:
        raise ValueError(
            f"{cv}-fold cross-validation needs at least {cv} samples of each class, "
            f"but {rarest}. Use a smaller cv, or merge or remove the rare class."
        )
    folds = min(_FOLDS, int(counts.min())) if cv is None else cv
    return check_cv(folds, y, classifier=True)


def _hold_out(share: float, X: Any, y: NDArray[Any], groups: Any, random_state: Any) -> Split:
    """Return one split that holds out a share of each class, or of the groups."""
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=share, random_state=random_state)
        return next(splitter.split(X, y, groups))
    rng = check_random_state(random_state)
    classes, codes = np.unique(y, return_inverse=True)
    order = rng.permutation(len(y))
    order = order[np.argsort(codes[order], kind="stable")]
    # Every (1 / share)-th row of the shuffled classes, from a random start: each class, and
    # the whole, is within one row of its share.
    steps = np.floor(np.arange(len(y) + 1) * share + rng.uniform())
    held = np.diff(steps) > 0
    # A model must know every class: one row of each stays in training.
    first = np.searchsorted(codes[order], np.arange(len(classes)))
    all_held = np.bincount(codes[order][~held], minlength=len(classes)) == 0
    held[first[all_held]] = False
    if not held.any():
        raise ValueError(
            f"cv={share!r} of {len(y)} rows holds out none to calibrate on. Use a greater share."
        )
    return np.sort(order[~held]), np.sort(order[held])
