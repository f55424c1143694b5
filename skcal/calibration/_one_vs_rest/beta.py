"""Beta calibration."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skcal._rows import log_sigmoid
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._fitting.logistic import fit_logistic
from skcal.calibration._one_vs_rest.base import ShrunkMap, smoothed_targets


class BetaCalibration(ShrunkMap):
    r"""Fit the ratio of two beta densities.

    .. math:: \ln\frac{q}{1-q} = a \ln p - b \ln(1 - p) + c, \qquad a, b \ge 0,

    for the second of two classes; with more classes one curve per class against the rest,
    divided by their sum. It is the right map when p is beta distributed within either class,
    and unlike a logistic curve it contains the identity, a = b = 1 and c = 0, and bends low
    and high probabilities apart. The log-loss is minimised against Platt's smoothed targets.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        Which are free, with c = b ln(1 - m) - a ln m: all, so that c is free; a = b and m; or
        a and b with m = 1/2, where the curve then crosses 1/2.
    shrinkage : "auto" or float in [0, 1], default="auto"
        The share of temperature scaling in the answer, which is a geometric mean of both.
        "auto" sets it by how much the curves gain over temperature scaling on the rows of
        ``fit``, against what as many parameters gain from noise; 0 is the curves alone.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    coef_ : ndarray of shape (n_maps, 2)
        a and b of each curve: one for two classes, one per class otherwise.
    intercept_ : ndarray of shape (n_maps,)
        c.
    temperature_ : float
        The temperature it is drawn to.
    shrinkage_ : float
        The share in use.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Most iterations of the optimiser over the curves.
    converged_ : bool
        Whether the optimiser reached its tolerance for each curve.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    PlattScaling : a = b, of any sign.

    Notes
    -----
    The smoothed targets, which keep the curve finite on separable rows, and the shrinkage are
    this package's choice.

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach, "Beta calibration: a well-founded and easily
    implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import BetaCalibration
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200_000)
    >>> p = np.where(y == 1, rng.beta(3, 1, 200_000), rng.beta(1, 2, 200_000))
    >>> beta = BetaCalibration().fit(p, y)
    >>> beta.coef_.round(1), beta.intercept_.round(1)
    (array([[2., 1.]]), array([0.4]))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ShrunkMap._parameter_constraints,
        "parameters": [StrOptions({"abm", "am", "ab"})],
    }

    def __init__(
        self,
        *,
        parameters: str = "abm",
        shrinkage: Any = "auto",
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(shrinkage=shrinkage, input=input, eps=eps)
        self.parameters = parameters

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        loss = super()._fit(log_proba, codes, weights)
        same = [1.0, 1.0, 0.0]
        curves = np.array([same if learned is None else learned for learned in self.maps_])
        self.coef_, self.intercept_ = curves[:, :2], curves[:, 2]
        return loss

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        slopes = _slopes(log_odds)
        if self.parameters == "am":
            slopes = slopes.sum(axis=0, keepdims=True)
        elif self.parameters == "ab":  # ln(2 p) and -ln(2 (1 - p)): zero where m is
            slopes += np.array([[np.log(2)], [-np.log(2)]])
        n_slopes = len(slopes)
        constant = [] if self.parameters == "ab" else [np.ones_like(log_odds)]
        columns = np.vstack([slopes, *constant])
        curve, n_iter, converged = fit_logistic(
            columns,
            smoothed_targets(hit, weights),
            weights,
            np.r_[np.ones(n_slopes), np.zeros(len(constant))],
            non_negative=n_slopes,
        )
        self.n_iter_ = max(self.n_iter_, n_iter)
        self.converged_ &= converged
        a, b = (curve[0], curve[0]) if n_slopes == 1 else curve[:2]
        learned = np.array([a, b, curve[-1] if constant else (a - b) * np.log(2)])
        return learned, curve @ columns

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        return learned[:2] @ _slopes(log_odds) + learned[2]

    def _n_parameters(self, learned: Any) -> int:
        return len(self.parameters)


def _slopes(log_odds: FloatArray) -> FloatArray:
    """Return ln p and -ln(1 - p) in two rows."""
    hit = log_sigmoid(log_odds)
    return np.vstack([hit, log_odds - hit])  # ln p - ln(1 - p) is the log-odds
