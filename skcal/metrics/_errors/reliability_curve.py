"""The reliability curve: what the bins of a calibration error hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from skcal._options import check_level
from skcal._validation import FloatArray, IntArray, check_predictions
from skcal.metrics._bins import Strategy, bin_edges, bin_statistics
from skcal.metrics._events import (
    Kind,
    check_kind,
    find_column,
    one_class,
    top_label,
    wilson_interval,
)


# Arrays have no single truth value, so a generated __eq__ would only raise.
@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Predicted probability and observed frequency, bin by bin.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,), float64
        Bin edges from 0 to 1. Bins are closed on the right, the first one on both sides.
    mean_predicted : ndarray of shape (n_bins,), float64
        Weighted mean probability of each bin; NaN in an empty bin.
    event_rate : ndarray of shape (n_bins,), float64
        Weighted frequency of the event in each bin; NaN in an empty bin.
    count : ndarray of shape (n_bins,), int
        Number of rows with a weight above zero; 0 in an empty bin.
    weight : ndarray of shape (n_bins,), float64
        Sum of the weights; equal to `count` where no weights were given.
    lower, upper : ndarray of shape (n_bins,), float64
        Wilson score interval of the event's frequency; NaN in an empty bin.
    kind : {"top-label", "class-wise", "positive"}
        Which probability is held against which event.
    class_label : object
        The class that is the event; None for "top-label".
    """

    edges: FloatArray
    mean_predicted: FloatArray
    event_rate: FloatArray
    count: IntArray
    weight: FloatArray
    lower: FloatArray
    upper: FloatArray
    kind: Kind
    class_label: Any = None


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    class_label: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> ReliabilityCurve:
    r"""Return the mean probability and the observed frequency of each bin.

    Each frequency :math:`\hat e` comes with its Wilson score interval [2]_

    .. math:: \frac{1}{1 + z^2/m} \left(\hat e + \frac{z^2}{2m}
        \pm z \sqrt{\frac{\hat e (1 - \hat e)}{m} + \frac{z^2}{4m^2}}\right)

    with :math:`z` the normal quantile of `confidence_level` and :math:`m` the bin's
    effective number of rows :math:`(\sum w)^2 / \sum w^2`, the number of rows where all
    weights are equal.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability is held against which event.

        - "top-label" [1]_: the largest probability of the row, against whether that class
          is the true one (the first column wins a tie).
        - "class-wise": the probability of `class_label`, against whether it is the true
          class. One curve shows one class.
        - "positive": two classes only; the probability of the second class, against
          whether it is the true one.
    class_label : object, optional
        The class to look at; needed for kind "class-wise", and for it only.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or of about equal weight. Equal probabilities always
        share a bin, so that ties may leave fewer "quantile" bins.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. In `mean_predicted`, `event_rate` and `weight`, a whole number
        counts as that many repetitions of the row. In `count` and the intervals it does
        not: a heavy row is still one observation.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.
    confidence_level : float, default=0.95
        Level of the intervals, strictly between 0 and 1.

    Returns
    -------
    ReliabilityCurve
        Arrays over the bins, empty bins included (count 0 and NaN).

    Raises
    ------
    ValueError
        If `class_label` and `kind` do not fit together, if `kind` is "positive" and there
        are not two classes, if an option is unknown, or if labels and probabilities do not
        fit together.

    See Also
    --------
    expected_calibration_error : The distance between the two columns, in one number.
    skcal.plots.ReliabilityDisplay : The drawing.

    Notes
    -----
    An interval covers the sampling of the rows in its own bin, at its own level; it is not
    a band for the whole curve. A bin whose interval reaches its `mean_predicted` gives no
    evidence of miscalibration.

    Probabilities that agree to 12 decimals count as equal when bins are made.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML, 2017.
    .. [2] E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
       Inference", Journal of the American Statistical Association, 1927.

    Examples
    --------
    >>> from skcal.metrics import reliability_curve
    >>> curve = reliability_curve([1, 0, 0], [0.9, 0.8, 0.2], kind="positive", n_bins=3)
    >>> curve.count
    array([1, 0, 2])
    >>> curve.mean_predicted
    array([0.2 ,  nan, 0.85])
    >>> curve.event_rate
    array([0. , nan, 0.5])
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    check_kind(kind, proba.shape[1])
    if (class_label is not None) != (kind == "class-wise"):
        raise ValueError(
            "kind='class-wise' draws the curve of one class: name it with class_label=..., one "
            f"of {classes.tolist()}."
            if class_label is None
            else f"class_label belongs to kind='class-wise'; got kind={kind!r}."
        )
    check_level(confidence_level)
    if kind == "top-label":
        confidence, event = top_label(codes, proba)
    else:
        column = 1 if kind == "positive" else find_column(classes, class_label)
        class_label = classes.tolist()[column]
        confidence, event = one_class(codes, proba, column)
    edges = bin_edges(confidence, weights, n_bins, strategy)
    bins = bin_statistics(confidence, event, weights, edges)
    lower, upper = wilson_interval(bins.event_rate, bins.effective_count, confidence_level)
    return ReliabilityCurve(
        edges=edges,
        mean_predicted=bins.mean_confidence,
        event_rate=bins.event_rate,
        count=bins.count,
        weight=bins.weight,
        lower=lower,
        upper=upper,
        kind=kind,
        class_label=class_label,
    )
