"""Each inequality of Neighborhood Smoothing, with both of its sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import laplacian

from skcal._validation import FloatArray, IntArray
from skcal.diagnostics._divergences import LN2, Divergences, divergences, jsd, least_jsd


class Inequality(NamedTuple):
    """A statement "left <= right", measured.

    Attributes
    ----------
    name : str
    statement : str
    left, right : ndarray
        Both sides, one number for each pair, row or set that the statement is about.
    tolerance : float
        By how much rounding may break it.
    """

    name: str
    statement: str
    left: FloatArray
    right: FloatArray
    tolerance: float

    @property
    def slack(self) -> float:
        """Return the least of right minus left; negative if the statement is broken."""
        return float(np.min(self.right - self.left)) if self.left.size else np.inf

    @property
    def n_violations(self) -> int:
        """Return how often left is above right, by more than the tolerance."""
        return int(np.sum(self.left > self.right + self.tolerance))


def of_pairs(d: Divergences, tolerance: float) -> list[Inequality]:
    """Return what holds for any two predictions: N1 to N7."""
    finite = np.isfinite(d.spread)
    sides = [
        ("N1", "TV² ≤ 2 JSD", d.tv**2, 2 * d.jsd),
        ("N1'", "ln 2 − h((1 + TV)/2) ≤ JSD", least_jsd(np.minimum(d.tv, 1)), d.jsd),
        ("N2", "JSD ≤ TV ln 2", d.jsd, d.tv * LN2),
        ("N3a", "|conf − conf'| ≤ largest |p − q|", d.confidence, d.sup),
        ("N3b", "largest |p − q| ≤ TV", d.sup, d.tv),
        ("N4a", "‖p − q‖² ≤ 2 TV²", d.squared, 2 * d.tv**2),
        ("N4b", "2 TV² ≤ 4 JSD", 2 * d.tv**2, 4 * d.jsd),
        ("N5a", "Σ(p − q)²/m / 8 ≤ JSD", d.chi / 8, d.jsd),
        ("N5b", "JSD ≤ ln 2 / 4 · Σ(p − q)²/m", d.jsd, LN2 / 4 * d.chi),
        ("N6a", "ln 2 · H² ≤ JSD", LN2 * d.hellinger, d.jsd),
        ("N6b", "JSD ≤ H²", d.jsd, d.hellinger),
        ("N7a", "TV ≤ R/4", d.tv[finite], d.spread[finite] / 4),
        ("N7b", "H² ≤ R²/32", d.hellinger[finite], d.spread[finite] ** 2 / 32),
    ]
    return [Inequality(*one, tolerance) for one in sides]


def of_last_layer(
    spread: FloatArray, weight: FloatArray, distance: FloatArray, tolerance: float
) -> Inequality:
    """Return N7 through a linear last layer: the logits differ by no more than it lets them.

    Parameters
    ----------
    spread : ndarray of shape (n_pairs,)
    weight : ndarray of shape (n_classes, d)
    distance : ndarray of shape (n_pairs,)
        Of the embeddings.
    """
    steepest = max(float(np.linalg.norm(weight - row, axis=1).max()) for row in weight)
    right = steepest * distance
    # The network's single precision is in both sides.
    scale = 1e-4 * (1 + float(np.max(right, initial=0)))
    return Inequality("N7c", "R ≤ max ‖w − w'‖ ‖h − h'‖", spread, right, max(tolerance, scale))


def of_neighborhoods(
    log_p: FloatArray,
    neighbors: IntArray,
    pair_jsd: FloatArray,
    codes: IntArray,
    tolerance: float,
) -> list[Inequality]:
    """Return what holds for a row and its neighbours: N8, C4 and the limit of the confidence.

    Parameters
    ----------
    log_p : ndarray of shape (n, n_classes)
    neighbors : ndarray of shape (n, k)
    pair_jsd : ndarray of shape (n, k)
    codes : ndarray of shape (n,)
        Columns of the labels.
    """
    p = np.exp(log_p)
    near = p[neighbors]
    mean = near.mean(axis=1)
    with np.errstate(divide="ignore"):
        to_mean = jsd(log_p, np.log(mean))
    each = pair_jsd.mean(axis=1)
    limit = np.sqrt(2 * each)
    predicted = p.argmax(axis=1)
    confidence, near_confidence = p.max(axis=1), near.max(axis=2).mean(axis=1)
    accuracy = (codes[neighbors] == predicted[:, None]).mean(axis=1)
    frequency = np.eye(p.shape[1])[codes[neighbors]].mean(axis=1)
    change = np.abs(confidence[:, None] - near.max(axis=2))

    def tv(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.abs(a - b).sum(axis=1) / 2

    one = np.ones(1)
    gap, own_gap = np.abs(near_confidence - accuracy), np.abs(confidence - accuracy)
    # C4 of the predicted class: its mean probability among the neighbours.
    same = near[np.arange(len(p)), :, predicted].mean(axis=1)
    sides = [
        ("N8", "JSD to the mean ≤ mean JSD", to_mean, each),
        (
            "L1",
            "mean |conf − conf'| ≤ mean √(2 JSD)",
            one * change.mean(),
            one * np.sqrt(2 * pair_jsd).mean(),
        ),
        (
            "L2",
            "mean √(2 JSD) ≤ √(2 mean JSD)",
            one * np.sqrt(2 * pair_jsd).mean(),
            one * np.sqrt(2 * pair_jsd.mean()),
        ),
        (
            "C4a",
            "|conf − local accuracy| ≤ |local conf − local accuracy| + √(2 JSD)",
            own_gap,
            gap + limit,
        ),
        (
            "C4b",
            "the same for the class that is predicted",
            own_gap,
            np.abs(same - accuracy) + limit,
        ),
        (
            "C4c",
            "TV(p, local labels) ≤ TV(local p, local labels) + √(2 JSD)",
            tv(p, frequency),
            tv(mean, frequency) + limit,
        ),
        (
            "C4d",
            "C4a on average",
            one * own_gap.mean(),
            one * (gap.mean() + np.sqrt(2 * pair_jsd.mean())),
        ),
    ]
    return [Inequality(*one_, tolerance) for one_ in sides]


def of_laplacian(
    log_p: FloatArray, neighbors: IntArray, pair_jsd: FloatArray, tolerance: float
) -> list[Inequality]:
    """Return the sandwich of the graph's Laplacian, over its directed edges.

    With R the roots of the probabilities and L the Laplacian of A + A',
    ln 2 tr(R'LR)/2 <= sum of JSD <= tr(R'LR)/2.
    """
    n, k = neighbors.shape
    rows = np.repeat(np.arange(n), k)
    edges = csr_array((np.ones(n * k), (rows, neighbors.ravel())), shape=(n, n))
    roots = np.exp(log_p / 2)
    half_trace = float(np.sum(roots * (laplacian(edges + edges.T) @ roots))) / 2
    total, trace = np.array([pair_jsd.sum()]), np.array([half_trace])
    scaled = tolerance * max(1.0, half_trace)
    return [
        Inequality("G1", "ln 2 tr(R'LR)/2 ≤ Σ JSD", LN2 * trace, total, scaled),
        Inequality("G2", "Σ JSD ≤ tr(R'LR)/2", total, trace, scaled),
    ]


def of_true_probabilities(
    log_p: FloatArray,
    neighbors: IntArray,
    pair_jsd: FloatArray,
    eta: FloatArray,
    step: float,
    tolerance: float,
) -> tuple[list[Inequality], FloatArray]:
    """Return what holds where the true probabilities are known, C1 to C3 and C5, and who gains.

    Parameters
    ----------
    eta : ndarray of shape (n, n_classes)
        The true probabilities.
    step : float
        How far C3 moves a prediction towards the mean of its neighbours'.

    Returns
    -------
    inequalities : list of Inequality
    gains : ndarray of shape (n,)
        What a step towards the neighbours takes off the squared error of each row.
    """
    p = np.exp(log_p)
    error = np.abs(p - eta).sum(axis=1) / 2
    near_eta = np.abs(eta[:, None] - eta[neighbors]).sum(axis=2) / 2
    limit = np.sqrt(2 * pair_jsd)
    mean = p[neighbors].mean(axis=1)
    toward = mean - p
    before = ((p - eta) ** 2).sum(axis=1)
    gains = before - ((p + step * toward - eta) ** 2).sum(axis=1)
    margin = ((eta - p) * toward).sum(axis=1) - step / 2 * (toward**2).sum(axis=1)
    # The gain is 2 s times the margin: one is positive if and only if the other is.
    predicted = p.argmax(axis=1)
    confidence, right = p.max(axis=1), eta[np.arange(len(p)), predicted]
    bins = np.minimum((confidence * 15).astype(int), 14)
    in_bins = np.bincount(bins, confidence - right, minlength=15) / len(p)
    one = np.ones(1)
    gap = np.abs(confidence - right)
    sides = [
        (
            "C1",
            "|e − e'| ≤ √(2 JSD) + TV(η, η')",
            np.abs(error[:, None] - error[neighbors]),
            limit + near_eta,
        ),
        (
            "C2",
            "TV(η, η') − √(2 JSD) ≤ e + e'",
            near_eta - limit,
            error[:, None] + error[neighbors],
        ),
        (
            "C3",
            "a step helps if and only if ⟨η − p, p̄ − p⟩ > s/2 ‖p̄ − p‖²",
            np.abs(gains - 2 * step * margin),
            np.zeros(len(p)),
        ),
        (
            "C5a",
            "binned calibration error ≤ mean |conf − P(right)|",
            one * np.abs(in_bins).sum(),
            one * gap.mean(),
        ),
        ("C5b", "mean |conf − P(right)| ≤ mean e", one * gap.mean(), one * error.mean()),
    ]
    return [Inequality(*one_, tolerance) for one_ in sides], gains


def edges_of(log_p: FloatArray, neighbors: IntArray) -> Divergences:
    """Return the divergences over all edges, arrays of shape (n, k)."""
    found = [divergences(log_p, log_p[neighbors[:, place]]) for place in range(neighbors.shape[1])]
    return Divergences(*(np.stack(columns, axis=1) for columns in zip(*found, strict=True)))
