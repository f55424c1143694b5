"""Platt scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.calibration._fitting.logistic import fit_logistic
from skcal.calibration._one_vs_rest.base import ShrunkMap, smoothed_targets


class PlattScaling(ShrunkMap):
    r"""Fit a logistic curve to the log-odds.

    .. math:: q = \sigma(a s + b), \qquad s = \ln \frac{p}{1-p},

    for the second of two classes; with more classes one curve per class against the rest,
    divided by their sum. The log-loss is minimised against Platt's smoothed targets
    :math:`(n_+ + 1)/(n_+ + 2)` and :math:`1/(n_- + 2)`, which keep it finite on separable
    rows. Working on log-odds, it contains the identity (a = 1, b = 0).

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
    coef_ : ndarray of shape (n_maps,)
        Slope :math:`a` of each curve: one for two classes, one per class otherwise. 1 for
        a class without rows.
    intercept_ : ndarray of shape (n_maps,)
        Intercept :math:`b`.
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
    TemperatureScaling : One parameter, and the safer choice with more than two classes.
    QuadraticScaling : Adds a curvature.
    BetaCalibration : Different slopes for low and for high probabilities.

    Notes
    -----
    The shrinkage is this package's choice; the paper has none.

    References
    ----------
    J. Platt, "Probabilistic outputs for support vector machines and comparisons to
    regularized likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(size=2000)
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-(0.5 * odds - 1)))
    >>> platt = PlattScaling(input="logits").fit(odds, y)
    >>> platt.coef_.round(1), platt.intercept_.round(1)
    (array([0.5]), array([-1.]))
    """

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        loss = super()._fit(log_proba, codes, weights)
        lines = np.array([[1.0, 0.0] if learned is None else learned for learned in self.maps_])
        self.coef_, self.intercept_ = lines.T
        return loss

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        columns = np.vstack([log_odds, np.ones_like(log_odds)])
        line, n_iter, converged = fit_logistic(
            columns, smoothed_targets(hit, weights), weights, np.array([1.0, 0.0])
        )
        self.n_iter_ = max(self.n_iter_, n_iter)
        self.converged_ &= converged
        return line, line @ columns

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        slope, intercept = learned
        return slope * log_odds + intercept

    def _n_parameters(self, learned: Any) -> int:
        return 2
