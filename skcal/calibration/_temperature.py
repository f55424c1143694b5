"""Temperature scaling."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import root_scalar
from sklearn.utils._param_validation import Interval

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator


class TemperatureScaling(BaseCalibrator):
    r"""Divide all logits by one number, the temperature.

    .. math:: q = \mathrm{softmax}(z / T), \qquad
              T = \arg\min_T \sum_i w_i \big[ -\ln q_{i y_i} \big]
              + s \cdot \overline{KL}(p \,\|\, q).

    T > 1 softens predictions, T < 1 sharpens them; the ranking of the classes within a row,
    and so accuracy, never changes. The objective is convex in 1/T, so that T is the root of
    its derivative, found by bracketing.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    shrinkage : float, default=10.0
        Strength :math:`s` of the pull towards T = 1, in rows: as if that many further rows
        had been seen whose labels were drawn from the model's own probabilities. It bounds T
        on few or error-free rows and fades as 1/n. 0 is plain maximum likelihood.
    bounds : (float, float), default=(1e-7, 1e7)
        Range of T.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    temperature_ : float
        T.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Evaluations of the derivative.
    converged_ : bool
        False when the optimum lies outside ``bounds``; T is then the nearer bound.
    loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after calibration.
    baseline_loss_ : float
        The same before calibration. ``loss_`` is never greater.

    See Also
    --------
    CalibratedClassifier : Calibrates a classifier, taking care of held-out rows.

    Notes
    -----
    The pull towards T = 1 is the mean Kullback-Leibler divergence of the uncalibrated from
    the calibrated rows, which is zero at T = 1: this is why calibration cannot be worse than
    none on its own rows. It is this package's choice; other libraries mix the calibrated
    probabilities with uniform ones instead, which also serves against infinite log-loss.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal import TemperatureScaling
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]] * 25)
    >>> y = ["no", "no", "yes", "yes"] * 25
    >>> scaling = TemperatureScaling(input="logits").fit(logits, y)
    >>> round(scaling.temperature_, 2)
    3.29
    >>> scaling.predict_proba(logits[:1]).round(2)
    array([[0.77, 0.23]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "bounds": [tuple, list],
    }

    def __init__(
        self,
        *,
        input: Input = "proba",
        shrinkage: float = 10.0,
        bounds: tuple[float, float] = (1e-7, 1e7),
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.shrinkage = shrinkage
        self.bounds = bounds

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        if len(self.bounds) != 2 or not 0 < self.bounds[0] <= self.bounds[1] < np.inf:
            raise ValueError(f"bounds must be two positive numbers (low, high); got {self.bounds}.")
        self.temperature_, self.n_iter_, self.converged_ = find_temperature(
            log_proba, codes, weights, shrinkage=self.shrinkage, bounds=self.bounds
        )

    def _advice(self) -> str:
        return (
            f"the best temperature lies outside bounds={self.bounds}, and {self.temperature_:.6g} "
            "is used"
        )

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return log_proba / self.temperature_


def find_temperature(
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    shrinkage: float = 10.0,
    bounds: tuple[float, float] = (1e-7, 1e7),
) -> tuple[float, int, bool]:
    """Return the best temperature, the evaluations, and whether it lies inside the bounds.

    Parameters and objective are those of :class:`TemperatureScaling`, on clean arrays.
    """
    derivative = _derivative(log_proba, codes, weights, shrinkage)
    log_t, n_iter, inside = _root(derivative, float(np.log(bounds[0])), float(np.log(bounds[1])))
    return float(np.exp(log_t)), n_iter, inside


def _derivative(
    log_proba: FloatArray, codes: IntArray, weights: FloatArray, shrinkage: float
) -> Any:
    """Return the derivative of the objective with respect to 1/T, as a function of ln T."""
    # The targets are the labels, plus the model's own probabilities at the given strength.
    scores = log_proba - log_proba.max(axis=1, keepdims=True)
    own = np.exp(log_proba)
    pull = shrinkage * weights / weights.sum()
    wanted = weights @ scores[np.arange(len(codes)), codes] + pull @ np.einsum(
        "ij,ij->i", own, scores
    )
    total = weights + pull

    powers = np.empty_like(scores)

    def derivative(log_t: float) -> float:
        # Scores are at most zero, so no power overflows, and each row has one that is 1.
        np.exp(np.multiply(scores, np.exp(-log_t), out=powers), out=powers)
        expected = np.einsum("ij,ij->i", powers, scores) / powers.sum(axis=1)
        return float(total @ expected - wanted)

    return derivative


def _root(derivative: Any, low: float, high: float) -> tuple[float, int, bool]:
    """Return the root of a function falling in ln T, the evaluations, and if it was inside.

    The derivative with respect to 1/T rises with 1/T, so it falls with ln T.
    """
    start = min(max(0.0, low), high)
    at_start = derivative(start)
    n_iter = 1
    # Scores that are equal within each row tell nothing about T.
    if at_start == 0.0:
        return start, n_iter, start == 0.0
    bound = high if at_start > 0 else low
    step, near = np.sign(bound - start) * 0.5, start
    while near != bound:
        far = near + step
        far = bound if abs(far - start) >= abs(bound - start) else far
        value = derivative(far)
        n_iter += 1
        if value == 0.0:
            return far, n_iter, True
        if np.sign(value) != np.sign(at_start):
            result = root_scalar(derivative, bracket=(near, far), method="brentq", xtol=1e-12)
            return float(result.root), n_iter + result.function_calls, True
        near, step = far, 2 * step
    return bound, n_iter, False
