"""Where rows are neighbours: columns as they are, principal components, or learned for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcal._validation import FloatArray, IntArray

Kind = Literal["skip_elu", "linear", "pca"]

# Adam's, and the standard deviation of the start of the part that is not linear.
_FIRST, _SECOND, _TINY_STEP = 0.9, 0.999, 1e-8
_START = 0.01


class Projection(NamedTuple):
    r"""From standardised columns to the points between which distances are taken.

    .. math:: t = x A, \qquad u = t + \mathrm{ELU}(t)\, B

    Fields
    ------
    matrix : ndarray of shape (n_columns, n_components), optional
        :math:`A`; None is the identity.
    skip : ndarray of shape (n_components, n_components), optional
        :math:`B`; None is zero.
    """

    matrix: FloatArray | None
    skip: FloatArray | None

    def points(self, columns: FloatArray) -> FloatArray:
        """Return the points (n, n_components) of rows."""
        if self.matrix is None:
            return columns
        linear = columns @ self.matrix
        return linear if self.skip is None else linear + _elu(linear) @ self.skip


def principal_components(columns: FloatArray, weights: FloatArray, n_components: int) -> Projection:
    """Return the directions of largest variance; the points are not divided by it."""
    centred = columns - np.average(columns, axis=0, weights=weights)
    covariance = (centred * (weights / weights.sum())[:, None]).T @ centred
    _, vectors = np.linalg.eigh(covariance)
    return Projection(np.ascontiguousarray(vectors[:, ::-1][:, :n_components]), None)


def train_projection(
    kind: Literal["skip_elu", "linear"],
    columns: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    n_components: int,
    n_steps: int,
    lr: float,
    batch_size: int,
    background_per_class: int,
    seed: int,
) -> Projection:
    """Train a projection by Adam, so that the rows around a row tell its class.

    Each step takes some rows, and some rows of every class among which to look for their
    neighbours, themselves left out. Those stand for all rows of their class.

    Parameters
    ----------
    kind : {"skip_elu", "linear"}
    columns : ndarray of shape (n_samples, n_columns)
        Standardised.
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    n_components, n_steps, lr, batch_size, background_per_class
        As of the calibrator.
    seed : int
        Of the start and of the steps.

    Returns
    -------
    Projection
    """
    random = np.random.default_rng(seed)
    n, width = columns.shape
    parameters = [random.normal(size=(width, n_components)) / np.sqrt(width)]
    if kind == "skip_elu":
        parameters.append(_START * random.normal(size=(n_components, n_components)))
    if n > 1:
        order = np.argsort(codes, kind="stable")
        _, first, count = np.unique(codes[order], return_index=True, return_counts=True)
        moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        for step in range(n_steps):
            queries = random.choice(n, min(batch_size, n), replace=False)
            place = first + np.floor(random.random((background_per_class, len(first))) * count)
            others = order[place.astype(np.intp)].ravel()
            stands_for = np.tile(count / background_per_class, background_per_class)
            log_mass = np.log(weights[others] * stands_for)
            _, slopes = neighbour_loss(
                parameters,
                columns[queries],
                columns[others],
                np.where(queries[:, None] == others, -np.inf, log_mass),
                codes[queries][:, None] == codes[others],
                weights[queries],
            )
            # Half of the steps at full length, then shorter and shorter ones.
            length = lr * min(1.0, 2.0 * (1.0 - step / n_steps))
            for parameter, slope, (mean, square) in zip(parameters, slopes, moments, strict=True):
                mean += (1.0 - _FIRST) * (slope - mean)
                square += (1.0 - _SECOND) * (slope**2 - square)
                along = mean / (1.0 - _FIRST ** (step + 1))
                spread = np.sqrt(square / (1.0 - _SECOND ** (step + 1)))
                parameter -= length * along / (spread + _TINY_STEP)
    return Projection(parameters[0], parameters[1] if kind == "skip_elu" else None)


def neighbour_loss(
    parameters: Sequence[FloatArray],
    queries: FloatArray,
    others: FloatArray,
    log_mass: FloatArray,
    same: NDArray[np.bool_],
    weights: FloatArray,
) -> tuple[float, list[FloatArray]]:
    r"""Return the log-loss of queries among others, and its derivatives by the parameters.

    .. math:: L = -\sum_i w_i \ln \frac{\sum_{j: y_j = y_i} m_{ij} k_{ij}}
              {\sum_j m_{ij} k_{ij}} \Big/ \sum_i w_i, \qquad
              k_{ij} = e^{-\overline{(u_i - u_j)^2}}

    Parameters
    ----------
    parameters : sequence of one or two ndarray
        Those of a projection.
    queries, others : ndarray of shape (n_queries, n_columns) and (n_others, n_columns)
    log_mass : ndarray of shape (n_queries, n_others)
        The logarithms of :math:`m_{ij}`.
    same : ndarray of shape (n_queries, n_others)
        Whether the classes agree. A query without such a partner does not count.
    weights : ndarray of shape (n_queries,)
    """
    columns = np.concatenate([queries, others])
    linear = columns @ parameters[0]
    bent = _elu(linear) if len(parameters) > 1 else None
    points = linear if bent is None else linear + bent @ parameters[1]
    u, v = points[: len(queries)], points[len(queries) :]
    width = points.shape[1]
    squares = (u**2).sum(axis=1)[:, None] + (v**2).sum(axis=1) - 2.0 * u @ v.T
    exponent = log_mass - squares / width
    top = exponent.max(axis=1, keepdims=True)
    kernel = np.exp(exponent - np.where(np.isneginf(top), 0.0, top))
    total = kernel.sum(axis=1)
    right = (kernel * same).sum(axis=1)
    known = right > 0
    shares = np.where(known, weights, 0.0)
    shares = shares / max(float(shares.sum()), np.finfo(np.float64).tiny)
    right, total = np.where(known, right, 1.0), np.where(known, total, 1.0)
    loss = -float(shares @ np.log(right / total))
    # By the exponents, by the points, and by what made the points.
    error = kernel * (1.0 / total[:, None] - same / right[:, None]) * shares[:, None]
    by_u = error.sum(axis=1)[:, None] * u - error @ v
    by_v = error.sum(axis=0)[:, None] * v - error.T @ u
    back = np.concatenate([by_u, by_v]) * (-2.0 / width)
    if bent is None:
        return loss, [columns.T @ back]
    by_skip = bent.T @ back
    back = back + (back @ parameters[1].T) * np.where(linear > 0, 1.0, bent + 1.0)
    return loss, [columns.T @ back, by_skip]


def _elu(x: FloatArray) -> FloatArray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))
