"""Ensemble temperature scaling."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.temperature import find_temperature

_MAX_ITER = 200
# What is kept of the given probabilities where the uniform ones alone would be best: so little
# that only the ranking is.
_LEAST = 1e-9


class EnsembleTemperatureScaling(BaseCalibrator):
    r"""Mix the temperature-scaled, the given and the uniform probabilities.

    .. math:: q = w_1\, p_T + w_2\, p + w_3 / K,

    with T the temperature that :class:`TemperatureScaling` finds and weights on the simplex
    that minimise the log-loss given T, a convex problem. The ranking of the classes within a
    row never changes.

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
    temperature_ : float
        T.
    weights_ : ndarray of shape (3,)
        The weights of the temperature-scaled, the given and the uniform probabilities.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Newton steps for the weights.
    converged_ : bool
        Whether they reached the optimum.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    TemperatureScaling : The first part alone.

    Notes
    -----
    The paper fits T and the weights one after the other, as is done here. That T is drawn to
    1 as in :class:`TemperatureScaling`, and that a billionth of the given probabilities is
    kept where the uniform ones alone would be best, are this package's choice.

    References
    ----------
    J. Zhang, B. Kailkhura and T. Y.-J. Han, "Mix-n-Match: Ensemble and Compositional Methods
    for Uncertainty Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import EnsembleTemperatureScaling
    >>> from skcal.datasets import make_calibration_data
    >>> X, y, p = make_calibration_data(5000, n_classes=3, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> wrong = rng.random(5000) < 0.2  # one label in five is replaced
    >>> y = np.where(wrong, rng.integers(0, 3, 5000), y)
    >>> EnsembleTemperatureScaling().fit(p, y).weights_[2].round(1)
    np.float64(0.2)
    """

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        self.temperature_ = find_temperature(log_proba, codes, weights)[0]
        rows = np.arange(len(codes))
        parts = [part[rows, codes] for part in self._parts(log_proba)]
        self.weights_, self.n_iter_, self.converged_ = _mixture_weights(np.array(parts), weights)
        if self.weights_[:2].sum() < _LEAST:
            self.weights_ = np.array([0.0, _LEAST, 1 - _LEAST])

    def _advice(self) -> str:
        return "look at the scores for extreme values"

    def _parts(self, log_proba: FloatArray) -> list[FloatArray]:
        """Return the three log-probabilities to be mixed."""
        uniform = np.full_like(log_proba, -np.log(log_proba.shape[1]))
        return [log_softmax(log_proba / self.temperature_), log_proba, uniform]

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        parts = zip(self.weights_, self._parts(log_proba), strict=True)
        return reduce(np.logaddexp, [np.log(weight) + part for weight, part in parts if weight])


def _mixture_weights(log_parts: FloatArray, weights: FloatArray) -> tuple[FloatArray, int, bool]:
    """Return the weights on the simplex with the least log-loss, the steps, and if enough.

    Newton's method with step halving; each step goes to where on the simplex the quadratic
    approximation is best, so that weights of zero come and go as they should.
    """
    # A row counts by the ratios of its parts only.
    parts = np.exp(log_parts - log_parts.max(axis=0))
    share = weights / weights.sum()
    mixture = np.full(3, 1 / 3)  # where no row is impossible
    mixed = mixture @ parts
    for n_iter in range(1, _MAX_ITER + 1):
        ratio = parts / mixed
        gradient = ratio @ share  # of the mean log-likelihood
        best = _best_on_simplex(gradient, (ratio * share) @ ratio.T)
        step = best - mixture
        gain = float(gradient @ step)
        if gain < 1e-12:  # The last step squares the error.
            return best, n_iter, True
        loss, size = share @ np.log(mixed), 1.0
        while size > 1e-12:
            mixed = (mixture + size * step) @ parts
            # At the optimum the gradient is at most 1, so that each row has its share at least.
            if (mixed > 0.1 * share).all() and (share @ np.log(mixed) >= loss + 1e-4 * size * gain):
                break
            size /= 2
        mixture = mixture + size * step
        mixed = mixture @ parts
    return mixture, n_iter, False


def _best_on_simplex(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """Return the weights m with the largest 2 gradient @ m - m @ hessian @ m / 2.

    This is the log-likelihood's approximation by a parabola, less a constant: the given
    Hessian (its negative) times the present weights is the gradient. A concave function is
    largest on some face of the simplex where no other condition binds.
    """
    size = len(gradient)
    # A whisker of ridge: two parts that are equal can share their weight in any way.
    hessian = hessian + 1e-12 * np.eye(size)
    most, best = -np.inf, np.zeros(size)
    for used in product([False, True], repeat=size):
        face = np.flatnonzero(used)
        if not len(face):
            continue
        system = np.ones((len(face) + 1, len(face) + 1))
        system[:-1, :-1], system[-1, -1] = hessian[np.ix_(face, face)], 0.0
        weights = np.zeros(size)
        weights[face] = np.linalg.solve(system, np.r_[2 * gradient[face], 1.0])[:-1]
        value = float(2 * gradient @ weights - weights @ hessian @ weights / 2)
        if weights.min() >= 0 and value > most:
            most, best = value, weights
    return best
