"""Structured matrix scaling."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._rows import log_softmax
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._all_classes.affine_scaling import AffineScaling, structured_penalties
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.temperature import find_temperature


class StructuredMatrixScaling(AffineScaling):
    r"""Temperature scaling, then a matrix that is drawn towards the identity.

    .. math:: q = \mathrm{softmax}\big((I + D)\, x + b\big), \qquad
              x = \ln\big[(1-r)\, p_T + r/K\big], \quad r = \frac{1}{n+1},

    where :math:`p_T` are the temperature-scaled probabilities. The mean log-loss is minimised
    with the penalties

    .. math:: s\,\frac{K^\rho}{n^\tau} \big(\lVert b \rVert^2 + \lVert \mathrm{diag} D
              \rVert^2\big) + s\,\frac{(K(K-1))^\rho}{n^\tau}
              \lVert \mathrm{offdiag} D \rVert^2 ,

    so that few rows give temperature scaling, more give vector scaling, and many a full
    matrix. With ``structure="vector"`` D is diagonal.

    Parameters
    ----------
    structure : {"matrix", "vector"}, default="matrix"
        SMS or SVS of the paper.
    reg : float, default=1.0
        :math:`s`.
    rho : float, default=1.0
        How the penalties grow with the number of parameters.
    tau : float, default=1.0
        How they fall with the rows n, the sum of the weights.
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
        The temperature of the first step.
    coef_ : ndarray of shape (n_classes, n_classes)
        I + D.
    intercept_ : ndarray of shape (n_classes,)
        b.
    mixing_ : float
        r.
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
    DirichletCalibration : A matrix without the temperature first.

    Notes
    -----
    The defaults are the published ones; a search over the strengths was no better on other
    tables in the paper's own comparison.

    References
    ----------
    E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling for
    Multi-Class Calibration", arXiv:2511.03685.

    Examples
    --------
    >>> from skcal.calibration import StructuredMatrixScaling
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # over-confident
    >>> scaling = StructuredMatrixScaling().fit(sharp, y)
    >>> round(scaling.temperature_, 1)
    1.9
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "structure": [StrOptions({"matrix", "vector"})],
        "reg": [Interval(Real, 0, None, closed="left")],
        "rho": [Interval(Real, None, None, closed="neither")],
        "tau": [Interval(Real, None, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        structure: str = "matrix",
        reg: float = 1.0,
        rho: float = 1.0,
        tau: float = 1.0,
        max_iter: int = 1_000,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.structure = structure
        self.reg = reg
        self.rho = rho
        self.tau = tau
        self.max_iter = max_iter

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        self.mixing_ = 1 / (float(weights.sum()) + 1)
        super()._fit(log_proba, codes, weights)

    def _temperature(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float:
        return find_temperature(log_proba, codes, weights, shrinkage=0.0)[0]

    def _penalties(self, n_classes: int, n: float) -> tuple[FloatArray, FloatArray, float]:
        return structured_penalties(
            n_classes, n, self.structure, reg=self.reg, rho=self.rho, tau=self.tau
        )

    def _matrix_input(self, log_proba: FloatArray) -> FloatArray:
        """Return logarithms of temperature-scaled probabilities mixed with uniform ones."""
        n_classes = log_proba.shape[1]
        scaled = log_softmax(log_proba / self.temperature_)
        return np.logaddexp(
            scaled + np.log1p(-self.mixing_), np.log(self.mixing_) - np.log(n_classes)
        )
