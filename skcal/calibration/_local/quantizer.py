"""Product quantisation: features cut into slots, each slot told by its nearest codeword."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from skcal._validation import FloatArray, IntArray
from skcal.calibration._local.standard import column_scale, standardized

Codebook = Literal["per_slot", "shared"]

# Rows that k-means sees at most; more hardly move its centres.
_MOST_ROWS = 20_000
_STARTS = 3
# Of standard deviations. k-means cannot tell rows that differ by less than the square root of
# float64's precision, and warns that it found fewer codewords than rows that differ.
_DECIMALS = 5
# Distances held at once.
_BLOCK = 1 << 22


class Quantizer(NamedTuple):
    """Slots of standardised columns, and the codewords of each.

    Fields
    ------
    mean, scale : ndarray of shape (n_features,)
        What standardises a column; constant columns have a scale of 1.
    slots : list of ndarray
        Columns of each slot.
    codebooks : list of ndarray of shape (n_codewords, columns of the slot)
    """

    mean: FloatArray
    scale: FloatArray
    slots: list[IntArray]
    codebooks: list[FloatArray]

    def codes(self, features: FloatArray) -> IntArray:
        """Return the nearest codeword (n, n_slots) of each row in each slot."""
        found = np.empty((len(features), len(self.slots)), dtype=np.intp)
        for slot, (columns, codebook) in enumerate(zip(self.slots, self.codebooks, strict=True)):
            lengths = 0.5 * (codebook**2).sum(axis=1)
            step = max(1, _BLOCK // len(codebook))
            for start in range(0, len(features), step):
                part = features[start : start + step, columns]
                part = standardized(part, self.mean[columns], self.scale[columns])
                part = _padded(part, codebook.shape[1])
                found[start : start + step, slot] = (lengths - part @ codebook.T).argmin(axis=1)
        return found

    def vectors(self, codes: IntArray) -> FloatArray:
        """Return the codewords (n, columns of all slots) of rows, one slot after the other."""
        return np.hstack([book[slot] for book, slot in zip(self.codebooks, codes.T, strict=True)])


def fit_quantizer(
    features: FloatArray,
    weights: FloatArray,
    *,
    n_slots: int,
    n_codewords: int,
    codebook: Codebook,
    seed: int,
) -> Quantizer:
    """Return slots of neighbouring columns, and their codewords by k-means.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
    n_slots : int
        Between 1 and the number of columns; slots differ by one column at most.
    n_codewords : int
        Of each slot; fewer where a slot has fewer different rows.
    codebook : {"per_slot", "shared"}
        A codebook for each slot, or one for all, in which shorter slots end in zeros.
    seed : int

    Returns
    -------
    Quantizer
    """
    mean, scale = column_scale(features, weights)
    slots = np.array_split(np.arange(features.shape[1]), n_slots)
    if len(features) > _MOST_ROWS:
        rows = np.random.default_rng(seed).choice(len(features), _MOST_ROWS, replace=False)
        features, weights = features[rows], weights[rows]
    standard = standardized(features, mean, scale).round(_DECIMALS)
    if codebook == "per_slot":
        books = [_codewords(standard[:, columns], weights, n_codewords, seed) for columns in slots]
    else:
        width = max(map(len, slots))
        stacked = np.concatenate([_padded(standard[:, columns], width) for columns in slots])
        book = _codewords(stacked, np.tile(weights, n_slots), n_codewords, seed)
        books = [book] * n_slots
    return Quantizer(mean, scale, slots, books)


def _codewords(rows: FloatArray, weights: FloatArray, n_codewords: int, seed: int) -> FloatArray:
    different = len(np.unique(rows, axis=0))
    means = KMeans(min(n_codewords, different), n_init=_STARTS, random_state=seed)
    return means.fit(rows, sample_weight=weights).cluster_centers_


def _padded(rows: FloatArray, width: int) -> FloatArray:
    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows
