"""Quadratic scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.calibration._fitting.logistic import fit_logistic
from skcal.calibration._one_vs_rest.base import ShrunkMap, smoothed_targets


class QuadraticScaling(ShrunkMap):
    r"""Fit a logistic curve to the log-odds and their square.

    .. math:: q = \sigma(a + b s + c s^2), \qquad s = \ln \frac{p}{1-p},

    for the second of two classes; with more classes one curve per class against the rest,
    divided by their sum. The log-loss is minimised against Platt's smoothed targets.

    Parameters
    ----------
    shrinkage : "auto" or float in [0, 1], default="auto"
        The share of temperature scaling in the answer, which is a geometric mean of both.
        "auto" sets it by how much the curves gain over temperature scaling on the rows of
        ``fit``, against what as many parameters gain from noise; 0 is the curves alone.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    coef_ : ndarray of shape (n_maps, 3)
        a, b and c of each curve: one for two classes, one per class otherwise.
    temperature_ : float
        The temperature it is drawn to.
    shrinkage_ : float
        The share in use.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Most iterations of the optimiser over the curves.
    converged_ : bool
        Whether the optimiser reached its tolerance for each curve.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    PlattScaling : Without the square, and so order-preserving.

    Notes
    -----
    Unless c is zero the curve turns at some score, and the ranking of rows beyond it is
    reversed. Scores far outside those of ``fit`` are not to be trusted.

    References
    ----------
    E. Berta et al., arXiv:2511.03685, where it is the map for two classes. The smoothed
    targets and the shrinkage are this package's choice.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import QuadraticScaling
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(size=5000)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-(odds - 0.5 * odds**2)))
    >>> QuadraticScaling(input="logits").fit(odds, y).coef_.round(1)
    array([[ 0. ,  1. , -0.5]])
    """

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        loss = super()._fit(log_proba, codes, weights)
        same = [0.0, 1.0, 0.0]
        self.coef_ = np.array([same if learned is None else learned for learned in self.maps_])
        return loss

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        columns = _powers(log_odds)
        curve, n_iter, converged = fit_logistic(
            columns, smoothed_targets(hit, weights), weights, np.array([0.0, 1.0, 0.0])
        )
        self.n_iter_ = max(self.n_iter_, n_iter)
        self.converged_ &= converged
        return curve, curve @ columns

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        return learned @ _powers(log_odds)

    def _n_parameters(self, learned: Any) -> int:
        return 3


def _powers(log_odds: FloatArray) -> FloatArray:
    return np.vstack([np.ones_like(log_odds), log_odds, log_odds**2])
