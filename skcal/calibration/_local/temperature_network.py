"""A temperature for each row, from a small network: trained on the log-loss by L-BFGS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray

# No temperature is further than this from the global one, in ln T: rows that are almost flat
# or almost certain would lose the order of their classes to rounding.
_FURTHEST = float(np.log(100.0))
# Rows per step through the layers, whose values stay in the processor's cache.
_BLOCK = 2048
# Least gain of an iteration, in nats per row.
_LEAST_GAIN = 1e-6


class TemperatureNetwork(NamedTuple):
    r"""Logarithms of temperatures: tanh units, and one output within :math:`\pm\ln 100`.

    Of the last layer's value h it is :math:`g = B \tanh(h / B)` with :math:`B = \ln 100`.

    Fields
    ------
    coefs : sequence of ndarray of shape (inputs of the layer, outputs of the layer)
    intercepts : sequence of ndarray of shape (outputs of the layer,)
    """

    coefs: Sequence[FloatArray]
    intercepts: Sequence[FloatArray]

    def log_temperatures(self, inputs: FloatArray) -> FloatArray:
        """Return ln T (n,) of rows, above that of the global temperature."""
        return self._values(inputs)[-1][:, 0]

    def loss_and_slopes(
        self, log_proba: FloatArray, codes: IntArray, shares: FloatArray, inputs: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the weighted sum of log-losses, and its slopes by all parameters, flat.

        Parameters
        ----------
        log_proba : ndarray of shape (n_samples, n_classes)
            At the global temperature.
        codes : ndarray of shape (n_samples,)
        shares : ndarray of shape (n_samples,)
            Weights of the rows.
        inputs : ndarray of shape (n_samples, n_inputs)
        """
        values = self._values(inputs)
        scores = log_proba * np.exp(-values[-1])
        answer = log_softmax(scores)
        rows = np.arange(len(codes))
        loss = -float(shares @ answer[rows, codes])
        error = np.exp(answer)
        error[rows, codes] -= 1.0
        back = -(shares * np.einsum("nk,nk->n", error, scores))[:, None]
        back *= 1.0 - (values[-1] / _FURTHEST) ** 2
        slopes = []
        for layer in reversed(range(len(self.coefs))):
            slopes.append(back.sum(axis=0))
            slopes.append((values[layer].T @ back).ravel())
            if layer:
                back = (back @ self.coefs[layer].T) * (1.0 - values[layer] ** 2)
        return loss, np.concatenate(slopes[::-1])

    def _values(self, inputs: FloatArray) -> list[FloatArray]:
        """Return what goes into each layer, and what comes out of the last."""
        values = [inputs]
        last = len(self.coefs) - 1
        for layer, (coef, intercept) in enumerate(zip(self.coefs, self.intercepts, strict=True)):
            value = values[-1] @ coef + intercept
            bound = _FURTHEST if layer == last else 1.0
            values.append(bound * np.tanh(value / bound))
        return values


def fit_temperature_network(
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    inputs: FloatArray,
    *,
    hidden: Sequence[int],
    alpha: float,
    max_iter: int,
    early_stopping: bool,
    validation_fraction: float,
    patience: int,
    seed: int,
) -> tuple[TemperatureNetwork, int, bool]:
    """Return the network of least penalised log-loss that L-BFGS finds.

    The penalty is ``alpha`` times the sum of squares of what keeps the network from being zero
    (all coefficients, and the last intercept), divided by the sum of the weights. The last
    layer starts at zero, and so all rows at the global temperature.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        At the global temperature.
    codes : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,)
    inputs : ndarray of shape (n_samples, n_inputs)
        Of zero mean and unit scale.
    hidden : sequence of int
        Units of the hidden layers.
    alpha, max_iter, early_stopping, validation_fraction, patience
        As of the calibrator.
    seed : int
        Of the start, and of the rows held out.

    Returns
    -------
    TemperatureNetwork, iterations, whether an optimum was reached
    """
    random = np.random.default_rng(seed)
    sizes = [inputs.shape[1], *hidden, 1]
    shapes = list(pairwise(sizes))
    start, penalized = [], []
    for layer, (width, units) in enumerate(shapes):
        last = layer == len(hidden)
        size = 0.0 if last else 1.0 / np.sqrt(width)
        start += [size * random.normal(size=width * units), np.zeros(units)]
        penalized += [np.ones(width * units), np.full(units, float(last))]
    flat = np.concatenate(start)
    n, n_valid = len(codes), 0
    order = np.arange(n)
    if early_stopping and n > 1:
        order = random.permutation(n)
        n_valid = min(n - 1, max(1, round(validation_fraction * n)))
    valid, train = np.sort(order[:n_valid]), np.sort(order[n_valid:])
    total = weights[train].sum()
    penalty = alpha / total * np.concatenate(penalized)
    logs, own, shares, read = log_proba[train], codes[train], weights[train] / total, inputs[train]
    blocks = [slice(first, first + _BLOCK) for first in range(0, len(train), _BLOCK)]

    def network(flat: FloatArray) -> TemperatureNetwork:
        coefs, intercepts, place = [], [], 0
        for width, units in shapes:
            coefs.append(flat[place : place + width * units].reshape(width, units))
            place += width * units
            intercepts.append(flat[place : place + units])
            place += units
        return TemperatureNetwork(coefs, intercepts)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        here, loss, slope = network(flat), float(penalty @ flat**2), 2.0 * penalty * flat
        for block in blocks:
            more, along = here.loss_and_slopes(logs[block], own[block], shares[block], read[block])
            loss += more
            slope += along
        return loss, slope

    def valid_loss(flat: FloatArray) -> float:
        factor = np.exp(-network(flat).log_temperatures(inputs[valid]))
        answer = log_softmax(log_proba[valid] * factor[:, None])
        return -float(weights[valid] @ answer[np.arange(n_valid), codes[valid]])

    best, kept, since = (valid_loss(flat) if n_valid else np.inf), flat, 0

    def watch(flat: FloatArray) -> None:
        nonlocal best, kept, since
        loss = valid_loss(flat)
        if loss < best:
            best, kept, since = loss, flat.copy(), 0
        else:
            since += 1
            if since >= patience:
                raise StopIteration

    found = minimize(
        objective,
        flat,
        jac=True,
        method="L-BFGS-B",
        callback=watch if n_valid else None,
        options={"maxiter": max_iter, "ftol": _LEAST_GAIN, "gtol": 1e-7},
    )
    if n_valid:
        return network(kept), int(found.nit), True
    # Line searches that end at the precision of the loss have reached an optimum.
    done = bool(found.success or np.abs(found.jac).max() < 1e-5)
    return network(found.x), int(found.nit), done
