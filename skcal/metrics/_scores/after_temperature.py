"""The log loss that is left after a temperature, without the flattery of fitting it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray, log_probabilities, zero_probability
from skcal.calibration._folds import deal_folds
from skcal.calibration._temperature import find_temperature

_N_FOLDS = 5
# A temperature beyond these says no more than that there is no signal, or no noise.
_BOUNDS = (0.01, 100.0)


def losses_after_temperature(
    codes: IntArray, proba: FloatArray, weights: FloatArray
) -> tuple[FloatArray, float]:
    """Return each row's log loss after the temperature of the other folds, and that of all.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Columns of the true classes.
    proba : ndarray of shape (n, K)
    weights : ndarray of shape (n,)
        All above zero.

    Returns
    -------
    losses : ndarray of shape (n,)
        In nats.
    temperature : float
        The best one on all rows, between 0.01 and 100.
    """
    log_proba = log_probabilities(proba, input="proba", eps=zero_probability(proba))
    # As many rows as there are, whatever the scale of the weights: the shrinkage is in rows.
    counts = weights * (len(weights) / weights.sum())

    def temperature(rows: NDArray[np.bool_]) -> float:
        if not rows.any():
            return 1.0
        return find_temperature(log_proba[rows], codes[rows], counts[rows], bounds=_BOUNDS)[0]

    folds = deal_folds(log_proba, codes, min(_N_FOLDS, len(codes)))
    losses = np.empty(len(codes))
    for fold in np.unique(folds):
        out = folds == fold
        answer = log_softmax(log_proba[out] / temperature(~out))
        losses[out] = -answer[np.arange(len(answer)), codes[out]]
    return losses, temperature(np.ones(len(codes), dtype=bool))
