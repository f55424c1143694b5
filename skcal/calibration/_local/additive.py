"""Region maps as sums of codeword factors: convex, and temperature scaling in the limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray


class Additive(NamedTuple):
    r"""What each codeword adds to the logits.

    .. math:: s_k = \Big(1 + \sum_s t_{s, v_s, k}\Big) \ln p_k + \sum_s c_{s, v_s, k}

    Fields
    ------
    scales : ndarray of shape (n_slots, n_codewords, 1 or n_classes)
        The factors :math:`t`: one for all classes, or one for each.
    biases : ndarray of shape (n_slots, n_codewords, n_classes)
        The shifts :math:`c`.
    """

    scales: FloatArray
    biases: FloatArray

    def scores(self, log_proba: FloatArray, codes: IntArray) -> FloatArray:
        """Return the scores (n, K) of rows, up to a constant per row."""
        slots = np.arange(codes.shape[1])
        factor, shift = np.ones((len(codes), self.scales.shape[2])), np.zeros_like(log_proba)
        for slot in slots:  # a row's factors of all slots at once would be n x S x K numbers
            factor += self.scales[slot, codes[:, slot]]
            shift += self.biases[slot, codes[:, slot]]
        return factor * log_proba + shift


def fit_additive(
    log_proba: FloatArray,
    targets: IntArray,
    weights: FloatArray,
    codes: IntArray,
    n_codewords: int,
    *,
    diagonal: bool,
    reg_scale: float,
    reg_bias: float,
    max_iter: int,
) -> tuple[Additive, int, bool]:
    """Return the factors and shifts of least penalised mean log-loss.

    The penalties are ``reg_scale`` and ``reg_bias`` times the sums of squares, divided by the
    sum of the weights: as many rows of a prior that nothing differs between regions.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        After temperature scaling.
    targets : ndarray of shape (n_samples,)
        Class codes.
    weights : ndarray of shape (n_samples,)
    codes : ndarray of shape (n_samples, n_slots)
    n_codewords : int
    diagonal : bool
        Whether each class has a factor of its own.
    reg_scale, reg_bias : float
    max_iter : int

    Returns
    -------
    Additive, iterations, whether the optimum was reached
    """
    (n, n_classes), n_slots = log_proba.shape, codes.shape[1]
    total = weights.sum()
    share = (weights / total)[:, None]
    places = (codes + n_codewords * np.arange(n_slots)).ravel()
    membership = csr_matrix(
        (np.ones(n * n_slots), places, n_slots * np.arange(n + 1)),
        shape=(n, n_slots * n_codewords),
    )
    back = membership.T.tocsr()
    width = n_classes if diagonal else 1
    n_scales = n_slots * n_codewords * width
    rows = np.arange(n)
    penalty = np.concatenate(
        [
            np.full(n_scales, reg_scale / total),
            np.full(n_slots * n_codewords * n_classes, reg_bias / total),
        ]
    )

    def parts(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        return flat[:n_scales].reshape(-1, width), flat[n_scales:].reshape(-1, n_classes)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        scales, biases = parts(flat)
        answer = log_softmax((1.0 + membership @ scales) * log_proba + membership @ biases)
        loss = -float(share[:, 0] @ answer[rows, targets])
        error = np.exp(answer)
        error[rows, targets] -= 1.0
        error *= share
        along = error * log_proba
        by_scale = along if diagonal else along.sum(axis=1, keepdims=True)
        slope = np.concatenate([(back @ by_scale).ravel(), (back @ error).ravel()])
        return loss + float(penalty @ flat**2), slope + 2.0 * penalty * flat

    found = minimize(
        objective,
        np.zeros(len(penalty)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e-7},
    )
    scales, biases = parts(found.x)
    shape = (n_slots, n_codewords, -1)
    # Line searches that end at the precision of the loss have reached the optimum.
    done = bool(found.success or np.abs(found.jac).max() < 1e-5)
    return Additive(scales.reshape(shape), biases.reshape(shape)), int(found.nit), done
