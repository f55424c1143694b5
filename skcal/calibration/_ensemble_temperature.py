"""Ensemble temperature scaling."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._temperature import find_temperature

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
        if self.weights_[:2].sum() < _LEAST:
            self.weights_ = np.array([0.0, _LEAST, 1 - _LEAST])
        self.converged_ = inside and converged

    def _advice(self) -> str:
        return (
            f"the best temperature is {self.temperature_:.6g} or beyond, as of scores that tell "
            "nothing about the labels; look at the order of the columns"
        )

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
    set to zero if the gradient there agrees, and taken up again where it asks for it.
    """
    # A row counts by the ratios of its parts only.
    parts = np.exp(log_parts - log_parts.max(axis=0))
    share = weights / weights.sum()
    mixture = np.full(3, 1 / 3)  # where no row is impossible
    loss, ratio = _mixed(mixture, parts, share)
    for n_iter in range(1, _MAX_ITER + 1):
        free = mixture > 0
        gradient = ratio @ share  # of the mean log-likelihood; 1 at the optimum where free
        step = _newton_step(ratio, share, gradient, free)
        if float(gradient @ step) < 1e-12:
            worst = int(np.argmax(np.where(free, -np.inf, gradient)))
            if free.all() or gradient[worst] <= 1 + 1e-9:
                last = mixture + step  # which squares the error
                return (last if last.min() >= 0 else mixture), n_iter, True
            free[worst] = True
            step = _newton_step(ratio, share, gradient, free)
        falling = step < 0
        ratios = -mixture[falling] / step[falling]
        size = 1.0
        if ratios.min(initial=1.0) < 1:
            size = float(ratios.min())
            there = mixture + size * step
            there[np.flatnonzero(falling)[ratios == size]] = 0.0
            new, ratio = _mixed(there, parts, share)
            if new <= loss and (ratio[there == 0] @ share <= 1).all():
                mixture, loss = there / there.sum(), new
                continue
            size *= 0.9  # a part that will be needed is not lost on the way
        while True:
            there = mixture + size * step
            new, ratio = _mixed(there, parts, share)
            if new <= loss + 1e-15 or size < 1e-12:
                break
            size /= 2
        mixture, loss = there / there.sum(), new
    return mixture, n_iter, False


def _mixed(mixture: FloatArray, parts: FloatArray, share: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean log-loss of a mixture, and each part's ratio to it."""
    total = np.maximum(mixture @ parts, 1e-300)
    return -float(share @ np.log(total)), parts / total


def _newton_step(
    ratio: FloatArray, share: FloatArray, gradient: FloatArray, free: NDArray[np.bool_]
) -> FloatArray:
    """Return the Newton step of the log-likelihood that keeps the sum of the free weights."""
    step = np.zeros(len(free))
    size = int(free.sum())
    if size > 1:
        used = ratio[free]
        # A whisker of ridge: two parts that are equal can share their weight in any way.
        hessian = (used * share) @ used.T + 1e-12 * np.eye(size)
        system = np.ones((size + 1, size + 1))
        system[:size, :size], system[size, size] = hessian, 0.0
        step[free] = np.linalg.solve(system, np.r_[gradient[free], 0.0])[:size]
    return step
