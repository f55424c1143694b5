"""The binned mean of cumulative gaps that local-calibration papers call ECCE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._bins import Strategy, bin_edges, bin_statistics
from skcal.metrics._events import Kind, mean_error


def binned_cumulative_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "class-wise",
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the mean over bins of the absolute cumulative gap.

    .. math:: \frac{1}{B} \sum_{b=1}^{B} \left| \sum_{a \le b} \frac{W_a}{W}
        (\bar c_a - \bar e_a) \right|

    over the B bins that are not empty, from low to high probability, with the notation of
    :func:`expected_calibration_error`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="class-wise"
        Which probability :math:`c_i` is held against which event :math:`e_i`: the largest
        of the row, each column (the papers'; the mean over columns), or the second class of
        two.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of about equal weight.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1], in units of probability.

    Raises
    ------
    ValueError
        If an option is unknown, if `kind` is "positive" and there are not two classes, or if
        labels and probabilities do not fit together.

    See Also
    --------
    cumulative_calibration_error : The range or the maximum of cumulative differences, without
        bins, which is called ECCE as well.

    Notes
    -----
    Two things are called ECCE. This one averages over bins, so that a gap at low
    probabilities, which enters all later sums, counts for more than one at high ones; it is
    here to compare with papers on local calibration [1]_. The other one, of Arrieta-Ibarra et al.,
    is the range of a curve.

    On finite data it is above the truth: its mean over many data sets of a perfectly
    calibrated model of two classes (probabilities uniform on [0, 1]) is 0.007 with 1,000
    rows and 0.002 with 10,000.

    References
    ----------
    .. [1] C. Barbera, L. Perini, G. De Toni, A. Passerini and A. Pugnana, "Multiclass Local
       Calibration with the Jensen-Shannon Distance", arXiv:2510.26566, 2025.

    Examples
    --------
    >>> from skcal.metrics import binned_cumulative_calibration_error
    >>> y_true, y_proba = [0, 0, 0, 1], [0.1, 0.2, 0.7, 0.9]
    >>> options = {"kind": "positive", "n_bins": 2}
    >>> round(binned_cumulative_calibration_error(y_true, y_proba, **options), 4)
    0.15
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)

    def error(confidence: FloatArray, event: FloatArray) -> float:
        edges = bin_edges(confidence, weights, n_bins, strategy)
        bins = bin_statistics(confidence, event, weights, edges)
        filled = bins.weight > 0
        gap = bins.mean_confidence[filled] - bins.event_rate[filled]
        share = bins.weight[filled] / bins.weight.sum()
        return float(np.abs(np.cumsum(share * gap)).mean())

    return mean_error(error, kind, codes, proba)
