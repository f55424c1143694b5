"""Histogram binning."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import TINY, FloatArray, Input
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.sorted_scores import find_bins, merge_ties, quantile_bins
from skcal.calibration._one_vs_rest.base import OneVsRestMap


class HistogramBinning(OneVsRestMap):
    r"""Replace each probability by the share of hits in its bin.

    For the second of two classes; with more classes one histogram per class against the
    rest, divided by their sum. The share is :math:`(h + \bar p)/(n + 1)`, with h hits among
    the n rows of the bin and :math:`\bar p` their mean probability: as if one more row had
    been seen, labelled by the model. It is never 0 or 1. An empty bin is joined to the one
    below it.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, equal scores in one bin; or of equal width in probability.
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
        1.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    ScalingBinning : Bins that average a fitted curve.
    IsotonicCalibration : Finds its bins by itself, in rising order.

    Notes
    -----
    Rows of one bin are told apart no more: the log-loss can rise, on the rows of ``fit`` too.
    The added row is this package's choice.

    References
    ----------
    B. Zadrozny and C. Elkan, "Obtaining calibrated probability estimates from decision trees
    and naive Bayesian classifiers", ICML 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import HistogramBinning
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p**2  # over-confident in the second class
    >>> binning = HistogramBinning(n_bins=5).fit(p, y)
    >>> binning.predict_proba([0.05, 0.15, 0.95])[:, 1].round(1)
    array([0. , 0. , 0.8])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "strategy": [StrOptions({"quantile", "uniform"})],
    }

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: str = "quantile",
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.n_bins = n_bins
        self.strategy = strategy

    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        ties = merge_ties(log_odds, hit, weights)
        x, counts, hits = ties.x, ties.weight, ties.mean
        if self.strategy == "quantile":
            edges, first = quantile_bins(x, counts, self.n_bins)
        else:
            inner = np.arange(1, self.n_bins) / self.n_bins
            bins, first = np.unique(
                np.searchsorted(logit(inner), x, side="right"), return_index=True
            )
            edges = np.r_[x[0], logit(inner)[bins[1:] - 1]]
        totals = np.add.reduceat(counts, first)
        parts = [
            np.add.reduceat(counts * share, first) + np.add.reduceat(counts * own, first) / totals
            for share, own in ((hits, expit(x)), (1 - hits, expit(-x)))
        ]
        hit, miss = np.log(np.maximum(parts, TINY))
        learned = np.vstack([edges, hit - miss])
        return learned, ties.to_rows(self._map_column(learned, x))

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        edges, values = learned
        return values[find_bins(edges, log_odds)]
