"""Scaling-binning."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit
from sklearn.utils._param_validation import Interval

from skcal._validation import FloatArray, Input
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.logistic import fit_logistic
from skcal.calibration._fitting.sorted_scores import find_bins, merge_ties, quantile_bins
from skcal.calibration._one_vs_rest.base import OneVsRestMap, smoothed_targets


class ScalingBinning(OneVsRestMap):
    r"""Fit a logistic curve, and replace its values by their mean in each bin.

    The curve is that of :class:`PlattScaling`, for the second of two classes; with more
    classes one per class against the rest, divided by their sum. Bins are of equal weight.
    Unlike the share of hits in a bin, the mean of a curve has little variance; and unlike the
    calibration error of a curve, that of finitely many values can be measured.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    maps_ : list of ndarray of shape (2, n_bins), or None
        Lower edges and calibrated values of the bins, both in log-odds: one for two classes,
        one per class otherwise; None for a class without rows, which keeps its probability.
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
    HistogramBinning : Averages the outcomes.

    Notes
    -----
    The paper fits the curve, sets the bins and averages on three separate parts of the rows;
    here, as in its authors' code, all rows serve for all three. Rows of one bin are told
    apart no more: the log-loss can rise, on the rows of ``fit`` too.

    References
    ----------
    A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(size=5000)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-2 * odds))
    >>> binning = ScalingBinning(n_bins=3, input="logits").fit(odds, y)
    >>> binning.predict_proba([-1.0, 0.0, 1.0])[:, 1].round(1)
    array([0.1, 0.5, 0.9])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "n_bins": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, n_bins: int = 15, input: Input = "proba", eps: Any = "auto") -> None:
        super().__init__(input=input, eps=eps)
        self.n_bins = n_bins

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        columns = np.vstack([log_odds, np.ones_like(log_odds)])
        line, n_iter, converged = fit_logistic(
            columns, smoothed_targets(hit, weights), weights, np.array([1.0, 0.0])
        )
        self.n_iter_ = max(self.n_iter_, n_iter)
        self.converged_ &= converged
        ties = merge_ties(log_odds, hit, weights)
        x, counts = ties.x, ties.weight
        edges, first = quantile_bins(x, counts, self.n_bins)
        totals = np.add.reduceat(counts, first)
        scaled = line[0] * x + line[1]
        means = np.add.reduceat(counts * expit(scaled), first) / totals
        learned = np.vstack([edges, logit(np.clip(means, 1e-300, 1 - 1e-16))])
        return learned, ties.to_rows(self._map_column(learned, x))

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        edges, values = learned
        return values[find_bins(edges, log_odds)]
