"""Vector scaling."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input
from skcal.calibration._all_classes.affine_scaling import AffineScaling, structured_penalties
from skcal.calibration._base import BaseCalibrator


class VectorScaling(AffineScaling):
    r"""Scale and shift each class's logit.

    .. math:: q = \mathrm{softmax}(v \odot z / T + b),

    where z are logits centred to mean zero in each row, and T is the temperature that
    :class:`TemperatureScaling` finds. The mean log-loss is minimised with the penalty
    :math:`s\,(\lVert v - 1 \rVert^2 + \lVert b \rVert^2)`, which draws it to the temperature.

    Parameters
    ----------
    reg : float or "auto", default="auto"
        :math:`s`. "auto" is K/n, with n the sum of the weights; 0 is maximum likelihood.
    fit_intercept : bool, default=True
        Whether to shift.
    max_iter : int, default=1000
        Most iterations of L-BFGS.
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
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix with v on its diagonal.
    intercept_ : ndarray of shape (n_classes,)
        b.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Iterations of L-BFGS.
    converged_ : bool
        Whether it reached its tolerance.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration, without
        penalties.

    See Also
    --------
    StructuredMatrixScaling : The same penalties, for a matrix too.

    Notes
    -----
    The paper has no penalty. Centring the logits and the penalty are this package's choice:
    without it the map is worse than none on a few rows per class.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import VectorScaling
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(5000, n_classes=3, random_state=0)
    >>> biased = p * [1.0, 1.0, 4.0]
    >>> biased /= biased.sum(axis=1, keepdims=True)
    >>> scaling = VectorScaling().fit(biased, y)
    >>> shift = scaling.intercept_[0] - scaling.intercept_[2]
    >>> bool(abs(shift - np.log(4)) < 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "reg": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        reg: Any = "auto",
        fit_intercept: bool = True,
        max_iter: int = 1_000,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.reg = reg
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter

    def _penalties(self, n_classes: int, n: float) -> tuple[FloatArray, FloatArray, float]:
        start, entries, intercept = structured_penalties(n_classes, n, "vector")
        if self.reg == "auto":
            return start, entries, intercept
        return start, 0 * entries + self.reg, self.reg
