"""Isotonic calibration."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import logit
from sklearn.isotonic import isotonic_regression

from skcal._validation import FloatArray, Input
from skcal.calibration._fitting.sorted_scores import merge_ties
from skcal.calibration._one_vs_rest.base import ShrunkMap, smoothed_targets

# Steps rise by this much in log-odds, so that rows on one step keep the order of their scores.
_TILT = 1e-9


class IsotonicCalibration(ShrunkMap):
    r"""Fit a rising step curve to the probability of each class.

    The best non-decreasing map of the log-odds of the second of two classes, or of each
    class against the rest, divided by their sum; between two steps it is linear in the
    log-odds. Outcomes are replaced by Platt's smoothed targets :math:`(n_+ + 1)/(n_+ + 2)`
    and :math:`1/(n_- + 2)`: a plain isotonic fit says 0 and 1, and one wrong row then makes
    the log-loss infinite. Steps are tilted by 1e-9, so that ties do not undo the ranking.

    Parameters
    ----------
    centered : bool, default=False
        Whether each step is a point, at the mean log-odds of its rows, with straight lines
        between these points. The curve then rises everywhere between the first and the last.
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
    maps_ : list of ndarray of shape (2, n_points), or None
        Log-odds and probabilities of the curve's corners: one for two classes, one per class
        otherwise; None for a class without rows, which keeps its probability.
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
        1.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    TemperatureScaling : Safer on few rows and with many classes.
    VennAbersCalibration : Two isotonic curves per row, and an interval.

    Notes
    -----
    The curves are fitted apart, and with few rows per class they follow noise: a step curve
    is counted with as many parameters as it has steps, which is its number of degrees of
    freedom [3]_, and drawn to temperature scaling accordingly. The smoothing, the tilt and the
    shrinkage are this package's choice. Where every curve says its lowest value, the curves
    are close to uniform over the classes.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass
       probability estimates", KDD 2002.
    .. [2] A. Oron and N. Flournoy, "Centered Isotonic Regression: Point and Interval
       Estimation for Dose-Response Studies", Statistics in Biopharmaceutical Research, 2017.
    .. [3] M. Meyer and M. Woodroofe, "On the degrees of freedom in shape-restricted
       regression", Annals of Statistics, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import IsotonicCalibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p**2  # over-confident in the second class
    >>> isotonic = IsotonicCalibration().fit(p, y)
    >>> isotonic.predict_proba([0.8])[:, 1].round(1)
    array([0.6])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ShrunkMap._parameter_constraints,
        "centered": ["boolean"],
    }

    def __init__(
        self,
        *,
        centered: bool = False,
        shrinkage: Any = "auto",
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(shrinkage=shrinkage, input=input, eps=eps)
        self.centered = centered

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        ties = merge_ties(log_odds, smoothed_targets(hit, weights), weights)
        y = isotonic_regression(ties.mean, sample_weight=ties.weight, y_min=0.0, y_max=1.0)
        # Not a difference of rounding: steps are counted.
        first = np.flatnonzero(np.r_[True, np.diff(y) > 1e-10])
        if self.centered:
            sums = np.add.reduceat(ties.x * ties.weight, first)
            learned = np.vstack([sums / np.add.reduceat(ties.weight, first), y[first]])
        else:
            last = np.r_[first[1:] - 1, len(y) - 1]
            corners = np.unique(np.r_[first, last])
            learned = np.vstack([ties.x[corners], y[corners]])
        return learned, ties.to_rows(self._map_column(learned, ties.x))

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        steps = logit(np.clip(np.interp(log_odds, *learned), 1e-300, 1 - 1e-16))
        return steps + _TILT * np.arctan(log_odds)

    def _n_parameters(self, learned: Any) -> int:
        return 1 + int((np.diff(learned[1]) > 1e-10).sum())
