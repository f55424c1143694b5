"""Any binary calibrator, one per class against the rest."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcal._validation import TINY, FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._one_vs_rest.isotonic import IsotonicCalibration
from skcal.calibration._one_vs_rest.log_odds import LogOdds, log_proba_of, mapped_columns


class OneVsRestCalibration(BaseCalibrator):
    r"""Calibrate each class against the rest by a map for two classes.

    A copy of ``calibrator`` is fitted to each class's probability and to whether a row is of
    that class, and the K calibrated probabilities :math:`q_k` are put on the simplex. With two
    classes there is one copy, for the second. A class without a single row, or with all of
    them, keeps its own probability.

    Parameters
    ----------
    calibrator : calibrator, default=None
        A map for two classes; None is :class:`IsotonicCalibration`. One of this package is
        given log-odds, any other object with ``fit(p, y, sample_weight)`` and
        ``predict_proba(p)`` the probability of the class, of shape (n_samples,).
    normalize : {"sum", "softmax"}, default="sum"
        "sum" divides by :math:`\sum_k q_k`; "softmax" takes the log-odds of the
        :math:`q_k` for logits, so that the odds are divided by their sum.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    calibrators_ : list of calibrator or None
        One for two classes, one per class otherwise; None for a class without rows.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Most iterations of the copies.
    converged_ : bool
        Whether all copies reached their optimum.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    IsotonicCalibration, PlattScaling, BetaCalibration : Do this by themselves.

    Notes
    -----
    That the shrinkage of each copy is set by its own class alone, and not by all classes
    together, is the difference to a map that takes more than two classes by itself.

    References
    ----------
    B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass
    probability estimates", KDD 2002.

    Examples
    --------
    >>> from skcal.calibration import HistogramBinning, OneVsRestCalibration
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # over-confident
    >>> calibrator = OneVsRestCalibration(HistogramBinning(n_bins=10)).fit(sharp, y)
    >>> len(calibrator.calibrators_)
    3
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "calibrator": [HasMethods(["fit", "predict_proba"]), None],
        "normalize": [StrOptions({"sum", "softmax"})],
    }

    def __init__(
        self,
        calibrator: Any = None,
        *,
        normalize: str = "sum",
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.calibrator = calibrator
        self.normalize = normalize

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        template = IsotonicCalibration() if self.calibrator is None else self.calibrator
        odds = LogOdds(log_proba)
        self.calibrators_: list[Any] = []
        for column in mapped_columns(log_proba):
            hit = (codes == column).astype(np.intp)
            if not 0 < hit.sum() < len(hit):
                self.calibrators_.append(None)
                continue
            one = clone(template, safe=False)
            values = odds.column(column)
            if isinstance(one, BaseCalibrator):
                one.set_params(input="logits")._validate_params()
                one._learn(
                    _two_columns(values), hit, weights, classes=np.array([0, 1]), eps=self.eps_
                )
                self.n_iter_ = max(self.n_iter_, one.n_iter_)
                self.converged_ &= one.converged_
            else:
                one.fit(expit(values), hit, weights)
            self.calibrators_.append(one)

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        odds = LogOdds(log_proba)
        columns = mapped_columns(log_proba)
        calibrated = np.empty((len(columns), len(log_proba)))
        for row, (one, column) in enumerate(zip(self.calibrators_, columns, strict=True)):
            calibrated[row] = odds.column(column)
            if isinstance(one, BaseCalibrator):
                answer = one._transform(_two_columns(calibrated[row]))
                calibrated[row] = answer[:, 1] - answer[:, 0]
            elif one is not None:
                hit = np.asarray(one.predict_proba(expit(calibrated[row])))[:, 1]
                calibrated[row] = logit(np.clip(hit, TINY, 1 - 1e-16))
        if self.normalize == "softmax" and len(columns) > 1:
            return calibrated.T
        return log_proba_of(calibrated)


def _two_columns(log_odds: FloatArray) -> FloatArray:
    """Return log-probabilities (n, 2) of the rest and of the class."""
    return np.column_stack([log_expit(-log_odds), log_expit(log_odds)])
