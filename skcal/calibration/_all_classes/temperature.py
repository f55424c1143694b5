"""Temperature scaling."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.temperature import find_temperature


class TemperatureScaling(BaseCalibrator):
    r"""Divide all logits by one number, the temperature.

    .. math:: q = \mathrm{softmax}(z / T), \qquad
              T = \arg\min_T \sum_i w_i \big[ -\ln q_{i y_i} \big]
              + s\, r(\ln T), \qquad
              r(t) = \begin{cases} 6 \ln(1 + t^2/2) & t < 0 \\
                                   \ln(1 + t^2/8) & t \ge 0. \end{cases}

    T > 1 softens predictions, T < 1 sharpens them; the ranking of the classes within a row,
    and so accuracy, never changes. T is found by Newton's method on the derivative in
    ln T, inside a bracket: first the optimum of the log-loss, which is convex in 1/T, and from
    there the next one with the pull.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    shrinkage : float, default=1.0
        Strength :math:`s` of the pull towards T = 1. It is a few nats over all rows, fades as
        1/n, and bounds T on error-free rows. 0 is plain maximum likelihood.
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
        Evaluations of the derivatives.
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
    A sample without errors, as forty rows of a good model can be, asks for T = 0, which is
    fatal for the first error after it; a sample never asks for a T that is that much too
    great. So the pull is strong against sharpening (T = 0.5 costs 1.3 nats, T = 0.1 costs 7.8)
    and weak against softening (T = 2 costs 0.06, T = 10 costs 0.5). These are the logarithms of
    Student-like densities of ln T: T may be far from 1 if the rows insist. As the log-loss
    falls all the way from T = 1 to its optimum, it is never above that of no calibration on
    its own rows. The form is this package's choice; other libraries have none, or mix the
    calibrated probabilities with uniform ones.

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
    3.6
    >>> scaling.predict_proba(logits[:1]).round(2)
    array([[0.75, 0.25]])
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
        shrinkage: float = 1.0,
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
