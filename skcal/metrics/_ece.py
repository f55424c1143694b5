"""The expected calibration error, with its definition in the open."""

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._bins import Strategy, bin_edges, bin_statistics, binned_error
from skcal.metrics._events import Kind, check_kind, one_class, top_label


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the binned L1 calibration error, in probability.

    Rows are put into bins :math:`B_b` by their predicted probability :math:`c_i`, and each
    bin's mean probability is compared with the frequency of the event :math:`e_i`:

    .. math:: \mathrm{ECE} = \sum_b \frac{W_b}{W}
        \left|\frac{1}{W_b}\sum_{i \in B_b} w_i c_i
        - \frac{1}{W_b}\sum_{i \in B_b} w_i e_i\right|,
        \qquad W_b = \sum_{i \in B_b} w_i .

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability is held against which event. They are different quantities, also
        for two classes.

        - "top-label" [2]_: the largest probability of the row, against whether that class
          is the true one (the first column wins a tie).
        - "class-wise" [4]_: the probability of class k against whether k is the true one,
          averaged over all columns with equal weight.
        - "positive" [1]_: two classes only; the probability of the second class, against
          whether it is the true one.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or of about equal weight [3]_ (for "class-wise", in
        each column anew). Equal probabilities always share a bin, so that ties may leave
        fewer "quantile" bins.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1], in units of probability (0.02 is two percentage points).

    Raises
    ------
    ValueError
        If `kind` is "positive" and there are not two classes, if an option is unknown, or if
        labels and probabilities do not fit together.

    See Also
    --------
    reliability_curve : The bins themselves.
    log_loss : A proper score, to be reported beside any calibration error.

    Notes
    -----
    Never report this number alone. It is not a proper score: predicting the class
    frequencies for every row scores zero. It is biased upwards on finite data, since
    within a bin even a perfectly calibrated model's frequency scatters about the mean
    probability; more bins and fewer rows make that worse. Against the error without bins,
    on the other hand, averaging within a bin can only hide miscalibration [5]_. Values are
    comparable only for the same `kind`, `n_bins`, `strategy` and about the same number of
    rows.

    Bins are closed on the right and the first one on both sides: 0 falls into the first bin
    and 1 into the last. Probabilities that agree to 12 decimals count as equal.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI, 2015.
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML, 2017.
    .. [3] J. Nixon, M. Dusenberry, L. Zhang, G. Jerfel and D. Tran, "Measuring Calibration
       in Deep Learning", CVPR Workshops, 2019.
    .. [4] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
       Dirichlet calibration", NeurIPS, 2019.
    .. [5] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration", NeurIPS, 2019.

    Examples
    --------
    The same predictions, two different questions:

    >>> from skcal.metrics import expected_calibration_error
    >>> y_true, y_proba = [0, 0], [0.3, 0.7]
    >>> round(expected_calibration_error(y_true, y_proba, kind="positive", n_bins=2), 4)
    0.5
    >>> round(expected_calibration_error(y_true, y_proba, kind="top-label", n_bins=2), 4)
    0.2
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    n_classes = proba.shape[1]
    check_kind(kind, n_classes)

    def error(confidence: FloatArray, event: FloatArray) -> float:
        edges = bin_edges(confidence, weights, n_bins, strategy)
        bins = bin_statistics(confidence, event, weights, edges)
        return binned_error(bins.weight, bins.mean_confidence, bins.event_rate)

    if kind == "top-label":
        return error(*top_label(codes, proba))
    if kind == "positive":
        return error(*one_class(codes, proba, 1))
    return float(np.mean([error(*one_class(codes, proba, k)) for k in range(n_classes)]))
