"""The nearest rows: how far they are, and what each of them counts."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from skcal._rows import FloatArray


def nearest_distances(
    references: FloatArray,
    n_neighbors: int,
    *,
    queries: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the distances of rows to their nearest references, and the share of each.

    Parameters
    ----------
    references : ndarray of shape (n_references, d)
        More than ``n_neighbors`` of them, or as many where there are queries.
    n_neighbors : int
    queries : ndarray of shape (n, d), optional
        By default the references; a row is then left out of its own neighbours, by its number
        and not by its value.
    weights : ndarray of shape (n_references,), optional
        A weight of two is a row repeated, one of whose copies may be a neighbour of the other.
        Neighbours end with ``n_neighbors`` rows, or with the weight of as many.

    Returns
    -------
    distances, shares : ndarray of shape (n, n_neighbors or one more)
        The Euclidean distances in rising order; shares sum to one in each row.
    """
    search = NearestNeighbors(n_neighbors=int(n_neighbors)).fit(references)
    distances, places = search.kneighbors(queries)
    if weights is None:
        return distances, np.full(distances.shape, 1.0 / n_neighbors)
    mass = weights[places]
    if queries is None:  # what else a row of a large weight stands for lies where it lies
        distances = np.hstack([np.zeros((len(distances), 1)), distances])
        mass = np.hstack([np.maximum(weights - 1.0, 0.0)[:, None], mass])
    before = mass.cumsum(axis=1) - mass
    counted = np.clip(n_neighbors - before, 0.0, mass)
    return distances, counted / counted.sum(axis=1, keepdims=True)
