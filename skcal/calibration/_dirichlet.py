"""Dirichlet calibration."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._affine import apply_affine, fit_affine
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._temperature import find_temperature


class DirichletCalibration(BaseCalibrator):
    r"""Map log-probabilities by a penalised matrix and an intercept.

    .. math:: q = \mathrm{softmax}(W \ln p + b),

    which is the posterior when the probabilities of each class follow a Dirichlet
    distribution. The mean log-loss is minimised with a penalty:

    - ``penalty="odir"``: :math:`\lambda \sum_{i \ne j} W_{ij}^2 + \mu \lVert b \rVert^2`; the
      diagonal is free,
    - ``penalty="l2"``: :math:`\lambda \lVert W \rVert^2 + \mu \lVert b \rVert^2`,
    - ``penalty="diagonal"``: W is diagonal, with
      :math:`\lambda \lVert \mathrm{diag} W - 1 \rVert^2 + \mu \lVert b \rVert^2`.

    Parameters
    ----------
    penalty : {"odir", "l2", "diagonal"}, default="odir"
        What is penalised.
    reg_lambda : float or "auto", default="auto"
        :math:`\lambda`. "auto" is :math:`K(K-1)/n` for a matrix and :math:`K/n` for a
        diagonal, with n the sum of the weights: more for more parameters, less for more
        rows. With "odir" it also draws the diagonal to that of temperature scaling, by
        :math:`K/n`.
    reg_mu : float or "auto", default="auto"
        :math:`\mu`. "auto" is :math:`K/n`.
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
    coef_ : ndarray of shape (n_classes, n_classes)
        W.
    intercept_ : ndarray of shape (n_classes,)
        b.
    canonical_coef_ : ndarray of shape (n_classes, n_classes)
        W less the smallest entry of each column: the unique form with entries of at least
        zero and a zero in each column.
    canonical_proba_ : ndarray of shape (n_classes,)
        What the uniform distribution is mapped to; :math:`q \propto c \exp(A \ln(K p))` with
        the two canonical parameters.
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
    TemperatureScaling : One parameter.

    Notes
    -----
    A fixed penalty is wrong by orders of magnitude for some number of rows and classes. That
    "auto" grows with the number of parameters and falls with the rows follows structured
    matrix scaling; for this map it is this package's choice. The published search is over
    fixed grids by cross-validation.

    References
    ----------
    M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach, "Beyond
    temperature scaling: Obtaining well-calibrated multi-class probabilities with Dirichlet
    calibration", NeurIPS 2019.

    Examples
    --------
    >>> from skcal.calibration import DirichletCalibration
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # over-confident
    >>> calibrator = DirichletCalibration().fit(sharp, y)
    >>> calibrator.loss_ < calibrator.baseline_loss_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "penalty": [StrOptions({"odir", "l2", "diagonal"})],
        "reg_lambda": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "reg_mu": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        penalty: str = "odir",
        reg_lambda: Any = "auto",
        reg_mu: Any = "auto",
        max_iter: int = 1_000,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.penalty = penalty
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu
        self.max_iter = max_iter

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        n_classes, n = log_proba.shape[1], float(weights.sum())
        diagonal = self.penalty == "diagonal"
        auto = n_classes * (1 if diagonal else n_classes - 1) / n
        reg_lambda = auto if self.reg_lambda == "auto" else self.reg_lambda
        start = np.ones(n_classes) if diagonal else np.eye(n_classes)
        penalties = np.full_like(start, reg_lambda)
        if self.penalty == "odir":
            penalties[np.diag_indices(n_classes)] = 0.0
            if self.reg_lambda == "auto":
                # A free diagonal has no optimum on separable rows.
                start = start / find_temperature(log_proba, codes, weights)[0]
                penalties[np.diag_indices(n_classes)] = n_classes / n
        fitted = fit_affine(
            log_proba,
            codes,
            weights,
            start=start,
            toward=np.zeros_like(start) if self.penalty == "l2" else start,
            coef_penalty=penalties,
            intercept_penalty=n_classes / n if self.reg_mu == "auto" else self.reg_mu,
            max_iter=self.max_iter,
        )
        self.coef_ = np.diag(fitted.coef) if diagonal else fitted.coef
        self.intercept_ = fitted.intercept
        self.canonical_coef_ = self.coef_ - self.coef_.min(axis=0)
        uniform = np.full(n_classes, -np.log(n_classes))
        self.canonical_proba_ = softmax(self.coef_ @ uniform + self.intercept_)
        self.n_iter_, self.converged_ = fitted.n_iter, fitted.converged

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return apply_affine(log_proba, self.coef_, self.intercept_)
