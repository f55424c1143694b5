"""Dirichlet calibration."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._all_classes.affine_scaling import structured_penalties
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.affine import apply_affine, fit_affine
from skcal.calibration._fitting.folds import deal_folds, held_out_losses
from skcal.calibration._fitting.temperature import find_temperature


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
    reg_lambda : float, "auto" or list of these, default="auto"
        :math:`\lambda`. "auto" draws W to the matrix of temperature scaling, I/T, instead of
        to zero or the identity: by :math:`T^2 K(K-1)/n` for each entry off the diagonal, and
        by :math:`T^2 K/n` on it ("l2" there too by the former), with n the sum of the weights.
        From a list, the value is chosen by cross-validated log-loss.
    reg_mu : float, "auto" or list of these, default="auto"
        :math:`\mu`. "auto" is :math:`K/n`. From a list, the value is chosen too.
    cv : int, default=5
        Folds for the choice, at most as many as rows.
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
    reg_lambda_, reg_mu_ : float or "auto"
        The values in use.
    cv_results_ : dict
        After a choice: arrays "reg_lambda", "reg_mu" and "mean_log_loss" in nats.
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
        "reg_lambda": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), list],
        "reg_mu": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), list],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        penalty: str = "odir",
        reg_lambda: Any = "auto",
        reg_mu: Any = "auto",
        cv: int = 5,
        max_iter: int = 1_000,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.penalty = penalty
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu
        self.cv = cv
        self.max_iter = max_iter

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        if isinstance(self.reg_lambda, list) or isinstance(self.reg_mu, list):
            self._choose(log_proba, codes, weights)
        else:
            self.reg_lambda_, self.reg_mu_ = self.reg_lambda, self.reg_mu
            self.__dict__.pop("cv_results_", None)  # of an earlier fit
        n_classes, n = log_proba.shape[1], float(weights.sum())
        diagonal = self.penalty == "diagonal"
        start = np.ones(n_classes) if diagonal else np.eye(n_classes)
        toward = np.zeros_like(start) if self.penalty == "l2" else start
        if self.reg_lambda_ == "auto":
            # Relative to 1/T, which is the size of the entries: a free diagonal has no optimum
            # on separable rows, and one drawn to 1 is far off for T = 10.
            temperature = find_temperature(log_proba, codes, weights)[0]
            start = toward = start / temperature
            penalties = structured_penalties(n_classes, n, "vector" if diagonal else "matrix")[1]
            if self.penalty == "l2":
                penalties = np.full_like(penalties, penalties.max())
            penalties = penalties * temperature**2
        else:
            penalties = np.full_like(start, self.reg_lambda_)
            if self.penalty == "odir":
                penalties[np.diag_indices(n_classes)] = 0.0
        fitted = fit_affine(
            log_proba,
            codes,
            weights,
            start=start,
            toward=toward,
            coef_penalty=penalties,
            intercept_penalty=n_classes / n if self.reg_mu_ == "auto" else self.reg_mu_,
            max_iter=self.max_iter,
        )
        self.coef_ = np.diag(fitted.coef) if diagonal else fitted.coef
        self.intercept_ = fitted.intercept
        self.canonical_coef_ = self.coef_ - self.coef_.min(axis=0)
        uniform = np.full(n_classes, -np.log(n_classes))
        self.canonical_proba_ = softmax(self.coef_ @ uniform + self.intercept_)
        self.n_iter_, self.converged_ = fitted.n_iter, fitted.converged

    def _choose(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        """Set the strengths by cross-validation, the first of equally good ones."""
        listed = [
            value if isinstance(value, list) else [value]
            for value in (self.reg_lambda, self.reg_mu)
        ]
        pairs = list(product(*listed))
        if not pairs:
            raise ValueError("A list of strengths is empty; give one value at least.")
        folds = deal_folds(log_proba, codes, min(self.cv, len(codes)))
        losses = []
        for reg_lambda, reg_mu in pairs:
            one = clone(self).set_params(reg_lambda=reg_lambda, reg_mu=reg_mu)
            losses.append(held_out_losses(one, log_proba, codes, weights, folds) @ weights)
        means = np.array(losses) / weights.sum()
        self.reg_lambda_, self.reg_mu_ = pairs[int(means.argmin())]
        values = zip(("reg_lambda", "reg_mu"), zip(*pairs, strict=True), strict=True)
        self.cv_results_ = {
            name: np.array(column, dtype=object if "auto" in column else np.float64)
            for name, column in values
        }
        self.cv_results_["mean_log_loss"] = means

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return apply_affine(log_proba, self.coef_, self.intercept_)
