"""How far the predictions at the two ends of an edge are apart, in every measure of the bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from skcal._validation import FloatArray

LN2 = float(np.log(2))


class Divergences(NamedTuple):
    """Of each pair of predictions p and q; arrays of one number for each pair.

    Attributes
    ----------
    jsd : Jensen-Shannon divergence, in nats
    tv : total variation, half of the l1 distance
    hellinger : squared Hellinger distance, 1 minus the sum of the roots of p q
    sup : largest difference of a class
    squared : squared Euclidean distance
    chi : sum over classes of (p - q)^2 / m, with m the mean of both
    spread : range over classes of the difference of the logits; inf where one is infinite
    confidence : difference of the largest probabilities
    """

    jsd: FloatArray
    tv: FloatArray
    hellinger: FloatArray
    sup: FloatArray
    squared: FloatArray
    chi: FloatArray
    spread: FloatArray
    confidence: FloatArray


def divergences(log_p: FloatArray, log_q: FloatArray) -> Divergences:
    """Compare predictions, pair by pair.

    Parameters
    ----------
    log_p, log_q : ndarray of shape (..., n_classes)
        Log-probabilities; minus infinity is a probability of zero.
    """
    p, q = np.exp(log_p), np.exp(log_q)
    d, m = p - q, (p + q) / 2
    safe = np.where(m > 0, m, 1.0)
    with np.errstate(invalid="ignore"):
        dz = np.where((p > 0) & (q > 0), log_p - log_q, np.where(m > 0, np.inf, 0.0))
        spread = np.where(np.isinf(dz).any(-1), np.inf, dz.max(-1) - dz.min(-1))
    return Divergences(
        jsd=jsd(log_p, log_q),
        tv=np.abs(d).sum(-1) / 2,
        hellinger=((np.sqrt(p) - np.sqrt(q)) ** 2).sum(-1) / 2,
        sup=np.abs(d).max(-1),
        squared=(d**2).sum(-1),
        chi=(d**2 / safe).sum(-1),
        spread=spread,
        confidence=np.abs(p.max(-1) - q.max(-1)),
    )


def jsd(log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """Return the Jensen-Shannon divergence in nats, never below zero."""
    log_m = np.logaddexp(log_p, log_q) - LN2
    p, q = np.exp(log_p), np.exp(log_q)
    with np.errstate(invalid="ignore"):
        own = np.where(p > 0, p * (log_p - log_m), 0).sum(-1)
        other = np.where(q > 0, q * (log_q - log_m), 0).sum(-1)
    return np.maximum((own + other) / 2, 0)


def least_jsd(tv: FloatArray) -> FloatArray:
    """Return the least Jensen-Shannon divergence at a total variation: ln 2 - h((1 + T)/2)."""
    up, down = (1 + tv) / 2, (1 - tv) / 2
    return np.maximum(LN2 + xlogy(up, up) + xlogy(down, down), 0)
