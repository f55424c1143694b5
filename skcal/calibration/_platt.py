"""Platt scaling."""

from typing import Any

import numpy as np
from scipy.special import expit

from skcal._validation import TINY, FloatArray, IntArray
from skcal.calibration._one_vs_rest import OneVsRestMap, smoothed_targets

_MAX_ITER = 100


class PlattScaling(OneVsRestMap):
    r"""Fit a logistic curve to the log-odds.

    .. math:: q = \sigma(a s + b), \qquad s = \ln \frac{p}{1-p},

    for the second of two classes; with more classes one curve per class against the rest,
    divided by their sum. The log-loss is minimised against Platt's smoothed targets
    :math:`(n_+ + 1)/(n_+ + 2)` and :math:`1/(n_- + 2)`, which keep it finite on separable
    rows. Working on log-odds, it contains the identity (a = 1, b = 0).

    Parameters
    ----------
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

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        super()._fit(log_proba, codes, weights)
        lines = [(1.0, 0.0) if learned is None else learned for learned in self.maps_]
        self.coef_, self.intercept_ = (np.array(part) for part in zip(*lines, strict=True))

    def _fit_column(self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray) -> Any:
        # Of unit size, so that slope and intercept are of one size whatever the scores' scale.
        share = weights / weights.sum()
        scale = max(float(np.sqrt(share @ log_odds**2)), TINY)
        # From the identity, or from the steepest line that is not saturated.
        start = np.array([min(scale, 1.0), 0.0])
        line, n_iter, converged = _minimise(
            log_odds / scale, smoothed_targets(hit, weights), share, start
        )
        self.n_iter_ = max(self.n_iter_, n_iter)
        self.converged_ &= converged
        return float(line[0] / scale), float(line[1])

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        slope, intercept = learned
        return slope * log_odds + intercept


def _minimise(
    x: FloatArray, targets: FloatArray, share: FloatArray, line: FloatArray
) -> tuple[FloatArray, int, bool]:
    """Return the best slope and intercept, the iterations, and if they were enough.

    Newton's method with step halving: the loss is convex in two parameters.
    """

    def loss(line: FloatArray) -> float:
        z = line[0] * x + line[1]
        return float(share @ (np.logaddexp(0, z) - targets * z))

    columns = np.vstack([x, np.ones_like(x)])
    here = loss(line)
    for n_iter in range(1, _MAX_ITER + 1):
        z = line[0] * x + line[1]
        proba = expit(z)
        gradient = columns @ (share * (proba - targets))
        hessian = (columns * (share * proba * expit(-z))) @ columns.T
        # A whisker of ridge: scores that are all equal leave one direction flat.
        step = np.linalg.solve(hessian + 1e-14 * np.eye(2), gradient)
        gain = float(gradient @ step)
        if gain < 1e-12:  # The last step squares the error.
            return line - step, n_iter, True
        size = 1.0
        while (there := loss(line - size * step)) > here - 1e-4 * size * gain and size > 1e-12:
            size /= 2
        line, here = line - size * step, there
    return line, n_iter, False
