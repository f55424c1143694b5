"""The network of LCN, the frequencies around its coordinates, and how it is trained."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcal._validation import FloatArray, IntArray

# Bounds of the probabilities that are compared, and least divergence, whose root has no slope
# at zero: as published.
_EPS = 1e-4
# What a class without a row around stands for.
_LEAST = 1e-6
_START = 0.01
# Up to this many classes one number scales all logits, and one all coordinates.
_FEW_CLASSES = 10


class CalibrationNetwork(NamedTuple):
    r"""New logits and new coordinates of rows, from one hidden layer.

    .. math:: r = \mathrm{relu}(x A + a), \quad
              l' = r W + s \odot l + b, \quad u' = r V + t \odot u + c

    Fields
    ------
    hidden_coef, hidden_intercept : ndarray of shape (n_columns, n_units) and (n_units,)
        A and a.
    logit_coef, logit_scale, logit_intercept : ndarray
        W, s and b, of shape (n_units, n_classes), (1 or n_classes,) and (n_classes,).
    place_coef, place_scale, place_intercept : ndarray
        V, t and c, of shape (n_units, n_components), (1 or n_components,) and (n_components,).
    """

    hidden_coef: FloatArray
    hidden_intercept: FloatArray
    logit_coef: FloatArray
    logit_scale: FloatArray
    logit_intercept: FloatArray
    place_coef: FloatArray
    place_scale: FloatArray
    place_intercept: FloatArray

    def logits(self, columns: FloatArray, log_proba: FloatArray) -> FloatArray:
        """Return new logits (n, n_classes), given standardised columns."""
        found = self._hidden(columns) @ self.logit_coef + self.logit_intercept
        return found + self.logit_scale * log_proba

    def places(self, columns: FloatArray, points: FloatArray) -> FloatArray:
        """Return new coordinates (n, n_components), given columns and their components."""
        found = self._hidden(columns) @ self.place_coef + self.place_intercept
        return found + self.place_scale * points

    def _hidden(self, columns: FloatArray) -> FloatArray:
        return np.maximum(columns @ self.hidden_coef + self.hidden_intercept, 0.0)


def kernel_frequencies(places: Any, one_hot: Any, weights: Any, bandwidth: float) -> Any:
    r"""Return the class frequencies (n, K) around each row, without the row itself.

    .. math:: \theta_i = \frac{\sum_{j \ne i} w_j k_{ij} y_j}{\sum_{j \ne i} w_j k_{ij}}, \qquad
              k_{ij} = e^{-\|u_i - u_j\|^2 / (2 \sigma^2)}

    Parameters
    ----------
    places : tensor of shape (n, n_components)
        :math:`u`, two rows at least.
    one_hot : tensor of shape (n, K)
    weights : tensor of shape (n,)
        Positive.
    bandwidth : float
        :math:`\sigma`.
    """
    scaled = places / bandwidth
    lengths = (scaled**2).sum(dim=1)
    exponent = scaled @ scaled.T - 0.5 * lengths[:, None] - 0.5 * lengths + weights.log()
    # A softmax keeps the nearest row where all are far.
    return exponent.fill_diagonal_(-np.inf).softmax(dim=1) @ one_hot


def js_distance(p: Any, q: Any) -> Any:
    r"""Return the Jensen-Shannon distance (n,) of probabilities (n, K), class by class.

    The mean over classes of :math:`\sqrt{\max(\mathrm{JS}, 10^{-4})}`, where JS is that of the
    two coins :math:`(p_c, 1 - p_c)` and :math:`(q_c, 1 - q_c)`, within :math:`[10^{-4}, 1 -
    10^{-4}]`. Rows that agree are .01 apart.
    """
    p, q = p.clamp(_EPS, 1.0 - _EPS), q.clamp(_EPS, 1.0 - _EPS)
    middle = 0.5 * (p + q)
    divergence = 0.5 * (_relative(p, middle) + _relative(q, middle))
    return divergence.clamp_min(_EPS).sqrt().mean(dim=1)


def _relative(p: Any, q: Any) -> Any:
    return p * (p / q).log() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).log()


def typical_distance(points: FloatArray, weights: FloatArray, seed: int, most: int) -> float:
    """Return the weighted median distance between rows, of ``most`` rows at most.

    The mean of it where more than half of the pairs are at the same place, and 1 if all are.
    """
    if len(points) > most:
        rows = np.random.default_rng(seed).choice(len(points), most, replace=False)
        points, weights = points[rows], weights[rows]
    lengths = (points**2).sum(axis=1)
    first, second = np.triu_indices(len(points), 1)
    squares = (lengths[:, None] + lengths - 2.0 * points @ points.T)[first, second]
    distances = np.sqrt(np.maximum(squares, 0.0))
    # Rounding in the squares shows in the roots of those that are zero.
    distances[distances < 1e-6 * np.sqrt(lengths.max(initial=0.0))] = 0.0
    mass = weights[first] * weights[second]
    order = np.argsort(distances, kind="stable")
    total = np.cumsum(mass[order])
    if not len(total) or distances.max() == 0:
        return 1.0
    median = float(distances[order][np.searchsorted(total, 0.5 * total[-1])])
    return median or float(mass @ distances / total[-1])


def train_calibration_network(
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    columns: FloatArray,
    points: FloatArray,
    *,
    bandwidth: float,
    hidden_units: int,
    js_weight: float,
    ce_weight: float,
    dropout: float,
    lr: float,
    batch_size: int,
    max_epochs: int,
    patience: int,
    validation_fraction: float,
    seed: int,
) -> tuple[CalibrationNetwork, int]:
    """Train by Adam, stopped at the least Jensen-Shannon distance on rows held out.

    Rows are compared with those of their batch. Where there are fewer than two to train on,
    or to hold out, the network stays at its start, which is close to the identity.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        After temperature scaling.
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    columns : ndarray of shape (n_samples, n_columns)
        Standardised features.
    points : ndarray of shape (n_samples, n_components)
        Their principal components.
    bandwidth : float
        Of the kernel.
    hidden_units, js_weight, ce_weight, dropout, lr, batch_size, max_epochs, patience
        As of the calibrator.
    validation_fraction : float
    seed : int
        Of the start, of the rows held out, of the batches and of the dropout.

    Returns
    -------
    CalibrationNetwork, epochs trained
    """
    import torch  # the maps without training do without it

    random = np.random.default_rng(seed)
    (n, n_classes), n_components = log_proba.shape, points.shape[1]
    few = n_classes <= _FEW_CLASSES

    def noise(*shape: int) -> FloatArray:
        return _START * random.normal(size=shape)

    start = CalibrationNetwork(
        noise(columns.shape[1], hidden_units),
        np.zeros(hidden_units),
        noise(hidden_units, n_classes),
        np.ones(1 if few else n_classes),
        noise(n_classes),
        noise(hidden_units, n_components),
        np.ones(1 if few else n_components),
        noise(n_components),
    )
    order = random.permutation(n)
    n_valid = max(2, round(validation_fraction * n))
    valid, train = order[:n_valid], order[n_valid:]
    if len(train) < 2:
        return start, 0

    def tensor(values: FloatArray) -> Any:
        return torch.from_numpy(values).to(torch.float32)

    table, places, scores = tensor(columns), tensor(points), tensor(log_proba)
    mass, labels = tensor(weights / weights.mean()), torch.from_numpy(codes)
    eye = tensor(np.eye(n_classes))  # torch.eye would follow the process's defaults
    parameters = [tensor(part).requires_grad_() for part in start]
    optimizer = torch.optim.Adam(parameters, lr=lr)

    def losses(rows: Any, keep: Any = None) -> tuple[Any, Any, Any]:
        """Return the weights of rows, their distances, and cross-entropies of frequencies."""
        net = CalibrationNetwork(*parameters)
        hidden = (table[rows] @ net.hidden_coef + net.hidden_intercept).relu()
        if keep is not None:
            hidden = hidden * keep
        logits = hidden @ net.logit_coef + net.logit_scale * scores[rows] + net.logit_intercept
        here = hidden @ net.place_coef + net.place_scale * places[rows] + net.place_intercept
        around = kernel_frequencies(here, eye[labels[rows]], mass[rows], bandwidth)
        own = around.gather(1, labels[rows][:, None])[:, 0].clamp_min(_LEAST)
        return mass[rows], js_distance(logits.softmax(dim=1), around), -own.log()

    def valid_distance() -> float:
        total = 0.0
        with torch.no_grad():
            for rows in np.array_split(valid, _n_batches(len(valid), batch_size)):
                share, distance, _ = losses(torch.from_numpy(rows))
                total += float(share @ distance)
        return total

    best, best_epoch, epoch = valid_distance(), 0, 0
    kept = [part.detach().clone() for part in parameters]
    for epoch in range(1, max_epochs + 1):
        for rows in np.array_split(random.permutation(train), _n_batches(len(train), batch_size)):
            keep = None
            if dropout:
                drawn = random.random((len(rows), hidden_units), dtype=np.float32)
                keep = torch.from_numpy(drawn >= dropout).to(torch.float32) / (1.0 - dropout)
            optimizer.zero_grad()
            share, distance, entropy = losses(torch.from_numpy(rows), keep)
            (share @ (js_weight * distance + ce_weight * entropy) / share.sum()).backward()
            optimizer.step()
        distance = valid_distance()
        if distance < best:
            best, best_epoch = distance, epoch
            kept = [part.detach().clone() for part in parameters]
        elif epoch - best_epoch >= patience:
            break
    return CalibrationNetwork(*(part.numpy().astype(np.float64) for part in kept)), epoch


def _n_batches(n: int, batch_size: int) -> int:
    """Return how many batches of at least two rows there are."""
    return max(1, min(-(-n // batch_size), n // 2))
