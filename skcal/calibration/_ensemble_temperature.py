"""Ensemble temperature scaling."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, logsumexp

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._temperature import find_temperature

_MAX_ITER = 200


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
    1 as in :class:`TemperatureScaling` is this package's choice.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints
    }

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        self.temperature_, _, inside = find_temperature(log_proba, codes, weights)
        rows = np.arange(len(codes))
        parts = [part[rows, codes] for part in self._parts(log_proba)]
        self.weights_, self.n_iter_, converged = _mixture_weights(np.array(parts), weights)
        self.converged_ = inside and converged

    def _parts(self, log_proba: FloatArray) -> list[FloatArray]:
        """Return the three log-probabilities to be mixed."""
        uniform = np.full_like(log_proba, -np.log(log_proba.shape[1]))
        return [log_softmax(log_proba / self.temperature_, axis=1), log_proba, uniform]

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        used = self.weights_ > 0
        parts = np.array(
            [part for part, use in zip(self._parts(log_proba), used, strict=True) if use]
        )
        return logsumexp(parts + np.log(self.weights_[used])[:, None, None], axis=0)


def _mixture_weights(log_parts: FloatArray, weights: FloatArray) -> tuple[FloatArray, int, bool]:
    """Return the weights on the simplex with the least log-loss, the steps, and if enough.

    Newton's method on the weights that are not zero; one that a step would make negative is
    set to zero, and taken up again where the gradient asks for it.
    """
    # A row counts by the ratios of its parts only.
    parts = np.exp(log_parts - log_parts.max(axis=0))
    share = weights / weights.sum()
    mixture = np.array([1.0, 0.0, 0.0])
    free = mixture > 0
    loss = -float(share @ np.log(mixture @ parts))
    for n_iter in range(1, _MAX_ITER + 1):
        ratio = parts / (mixture @ parts)
        gradient = ratio @ share  # of the mean log-likelihood; 1 at the optimum where free
        worst = int(np.argmax(np.where(free, -np.inf, gradient)))
        index = np.flatnonzero(free)
        step = np.zeros(3)
        step[index] = _newton_step(ratio[index], share, gradient[index])
        if float(gradient @ step) < 1e-12:
            if free.all() or gradient[worst] <= 1 + 1e-9:
                last = mixture + step  # which squares the error
                return (last if last.min() >= 0 else mixture), n_iter, True
            free[worst] = True
            step[worst] = 0.0
            index = np.flatnonzero(free)
            step[index] = _newton_step(ratio[index], share, gradient[index])
        falling = step < 0
        limit = np.min(-mixture[falling] / step[falling], initial=1.0)
        size = limit
        while True:
            there = np.maximum(mixture + size * step, 0.0)
            new = -float(share @ np.log(np.maximum(there @ parts, 1e-300)))
            if new <= loss + 1e-15 or size < 1e-12:
                break
            size /= 2
        if size == limit < 1:
            there[falling & (mixture + limit * step <= 1e-15)] = 0.0
        mixture, loss = there / there.sum(), new
        free = mixture > 0
    return mixture, n_iter, False


def _newton_step(ratio: FloatArray, share: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the Newton step of the log-likelihood that keeps the sum of the weights."""
    size = len(gradient)
    if size == 1:
        return np.zeros(1)
    # A whisker of ridge: two parts that are equal can share their weight in any way.
    hessian = (ratio * share) @ ratio.T + 1e-12 * np.eye(size)
    system = np.block([[hessian, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.r_[gradient, 0.0])[:size]
