"""Tables made harder: damaged test rows, wrong labels, fewer rows, a class that is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SEVERITIES = (1, 2, 3, 4, 5)
# By severity: standard deviations of noise, and shares of cells or columns.
_DEVIATIONS = (0.1, 0.25, 0.5, 1.0, 2.0)
_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6)
# What a column is multiplied by if its unit is another one.
_UNIT = 10.0


def corrupt(
    X: pd.DataFrame, reference: pd.DataFrame, kind: str, severity: int, seed: int
) -> pd.DataFrame:
    """Return damaged rows.

    Parameters
    ----------
    X : DataFrame
    reference : DataFrame
        Training rows, which say how columns spread and what levels they have.
    kind : {"noise", "missing", "units", "swapped"}
        Gaussian noise on numbers, in standard deviations of their column; cells that are missing;
        number columns in another unit, ten times as large; categories swapped for others.
    severity : int
        From 1 to 5.
    seed : int

    Returns
    -------
    DataFrame
        A copy.
    """
    rng = np.random.default_rng([seed, severity, sorted(CORRUPTIONS).index(kind)])
    return CORRUPTIONS[kind](X.copy(), reference, severity - 1, rng)


def _numbers(X: pd.DataFrame) -> list[Any]:
    return [name for name in X if pd.api.types.is_numeric_dtype(X[name])]


def _noise(
    X: pd.DataFrame, reference: pd.DataFrame, level: int, rng: np.random.Generator
) -> pd.DataFrame:
    for name in _numbers(X):
        spread = float(reference[name].std()) or 0.0
        noise = rng.normal(scale=_DEVIATIONS[level], size=len(X))
        X[name] = X[name].astype(float) + np.nan_to_num(spread) * noise
    return X


def _missing(
    X: pd.DataFrame, reference: pd.DataFrame, level: int, rng: np.random.Generator
) -> pd.DataFrame:
    return X.mask(rng.random(X.shape) < _SHARES[level])


def _units(
    X: pd.DataFrame, reference: pd.DataFrame, level: int, rng: np.random.Generator
) -> pd.DataFrame:
    names = _numbers(X)
    n_changed = int(np.ceil(_SHARES[level] * len(names)))
    for place in rng.permutation(len(names))[:n_changed]:
        X[names[place]] = X[names[place]].astype(float) * _UNIT
    return X


def _swapped(
    X: pd.DataFrame, reference: pd.DataFrame, level: int, rng: np.random.Generator
) -> pd.DataFrame:
    for name in (name for name in X if name not in _numbers(X)):
        levels = np.asarray(reference[name].dropna().unique(), dtype=object)
        if len(levels) < 2:
            continue
        values = X[name].astype(object).to_numpy(copy=True)
        known = {value: place for place, value in enumerate(levels)}
        place = np.array([known.get(value, 0) for value in values])
        # Another level: from 1 to all but one places further.
        other = levels[(place + rng.integers(1, len(levels), len(values))) % len(levels)]
        swap = (rng.random(len(values)) < _SHARES[level]) & ~pd.isna(values)
        values[swap] = other[swap]
        X[name] = pd.Categorical(values)
    return X


CORRUPTIONS: dict[str, Callable[..., pd.DataFrame]] = {
    "noise": _noise,
    "missing": _missing,
    "units": _units,
    "swapped": _swapped,
}


def wrong_labels(y: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    """Return labels of which a share is replaced by another class, drawn evenly."""
    classes, codes = np.unique(y, return_inverse=True)
    rng = np.random.default_rng([seed, 17])
    wrong = rng.random(len(y)) < share
    other = (codes + rng.integers(1, len(classes), len(y))) % len(classes)
    return classes[np.where(wrong, other, codes)]


def separation(known: NDArray[np.floating], unknown: NDArray[np.floating]) -> dict[str, float]:
    """Return how well predictions tell rows of an unknown class from others.

    Parameters
    ----------
    known, unknown : ndarray of shape (n, n_classes)
        Probabilities of rows of the known classes and of another.

    Returns
    -------
    dict
        Areas under the ROC curve, by "confidence" (unknown rows should have less) and by
        "entropy" (more); 0.5 is chance.
    """
    from sklearn.metrics import roc_auc_score

    both = np.concatenate([known, unknown]).astype(float)
    is_unknown = np.repeat([0, 1], [len(known), len(unknown)])
    entropy = -np.where(both > 0, both * np.log(np.maximum(both, 1e-300)), 0).sum(axis=1)
    return {
        "confidence": float(roc_auc_score(is_unknown, -both.max(axis=1))),
        "entropy": float(roc_auc_score(is_unknown, entropy)),
    }
