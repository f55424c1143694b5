"""The expected calibration error, with its definition in the open."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, IntArray, check_predictions
from skcal.metrics._bins import (
    BinStatistics,
    assign_bins,
    bin_edges,
    bin_statistics,
    sweep_edges,
)
from skcal.metrics._events import KINDS, check_kind, comparisons, top_label

ErrorKind = Literal["top-label", "class-wise", "positive", "marginal"]
ErrorStrategy = Literal["uniform", "quantile", "sweep"]
Norm = Literal["l1", "l2", "max"]

# How many bins where the user does not say: fixed, and at most in a sweep.
_BINS = 15
_MOST_BINS = 1000
# A bin whose effective number of rows exceeds one by less has no variance to speak of.
_ONE_ROW = 1e-9


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: ErrorKind = "top-label",
    n_bins: int | None = None,
    strategy: ErrorStrategy = "uniform",
    norm: Norm = "l1",
    debias: bool = False,
    squared: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the binned calibration error, in probability.

    Rows are put into bins :math:`B_b` by their predicted probability :math:`c_i`, and each
    bin's mean probability is compared with the frequency of the event :math:`e_i`:

    .. math:: \mathrm{ECE} = \sum_b \frac{W_b}{W} |\bar c_b - \bar e_b|,
        \qquad \bar c_b = \frac{1}{W_b}\sum_{i \in B_b} w_i c_i,
        \quad \bar e_b = \frac{1}{W_b}\sum_{i \in B_b} w_i e_i,
        \quad W_b = \sum_{i \in B_b} w_i .

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive", "marginal"}, default="top-label"
        Which probability is held against which event. They are different quantities, also
        for two classes.

        - "top-label" [2]_: the largest probability of the row, against whether that class
          is the true one (the first column wins a tie).
        - "class-wise" [4]_: the probability of class k against whether k is the true one;
          the error of each class by itself, then the mean over all columns.
        - "positive" [1]_: two classes only; the probability of the second class, against
          whether it is the true one.
        - "marginal" [5]_: the bins of all classes in one norm, each class with weight 1/K:
          for "l2" the root of the classes' mean squared error, which is at least the
          class-wise mean of roots; for "max" the worst bin of any class; for "l1" the same
          as "class-wise".
    n_bins : int, default=None
        Number of bins; None means 15. With "sweep" the largest number tried; None means
        1000 (our choice: the paper goes on to the number of rows).
    strategy : {"uniform", "quantile", "sweep"}, default="uniform"
        Bins of equal width on [0, 1]; of about equal weight [3]_; or as many of equal weight
        as keep the event rates from falling [6]_: the number grows from one and stops before
        the first at which some bin's rate is below that of the bin to its left. For the
        kinds of many classes, "quantile" and "sweep" cut each column anew. Equal
        probabilities always share a bin, so that ties may leave fewer bins.
    norm : {"l1", "l2", "max"}, default="l1"
        What becomes of the gaps :math:`|\bar c_b - \bar e_b|`: their weighted mean, the root
        of their weighted mean square (RMS calibration error), or the largest (MCE). All are
        in units of probability, and "l1" <= "l2" <= "max".
    debias : bool, default=False
        Subtract from each squared gap the variance of the bin's frequency,
        :math:`\bar e_b (1 - \bar e_b) / (m_b - 1)` [5]_, with :math:`m_b` the bin's effective
        number of rows :math:`(\sum w)^2 / \sum w^2`. A bin with a single row, whose variance
        is unknown, counts as zero. Only for "l2": the absolute and the largest gap have no
        such correction; and not with "sweep", whose bins depend on the labels.
    squared : bool, default=False
        Return the square of "l2", in squared probability. With `debias` it may be negative;
        the root is taken of its positive part.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row; only
        in `debias` it does not: a heavy row is still one observation.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1], in units of probability (0.02 is two percentage points). With
        `squared` in squared probability; with `debias` as well it may be negative.

    Raises
    ------
    ValueError
        If `kind` is "positive" and there are not two classes, if an option is unknown or
        does not go with another, or if labels and probabilities do not fit together.

    See Also
    --------
    reliability_curve : The bins themselves.
    smooth_calibration_error : Without bins.
    squared_kernel_calibration_error : Of the whole vector of probabilities.
    log_loss : A proper score, to be reported beside any calibration error.

    Notes
    -----
    Never report this number alone. It is not a proper score: predicting the class
    frequencies for every row scores zero. Against the error without bins, averaging within
    a bin can only hide miscalibration [5]_. Values are comparable only for the same options
    and about the same number of rows.

    **Bias.** On finite data it lies above the truth, since within a bin even a perfectly
    calibrated model's frequency scatters about the mean probability; more bins and fewer
    rows make that worse. Means over 2,000 data sets of 1,000 rows, and 500 of 10,000, from a
    perfectly calibrated model (kind "positive", probabilities uniform on [0, 1], 15 bins):

    =========================  ==========  ===========
    options                    1,000 rows  10,000 rows
    =========================  ==========  ===========
    "l1", "uniform"            0.038       0.012
    "l1", "quantile"           0.038       0.012
    "l1", "sweep"              0.029       0.013
    "l2"                       0.049       0.016
    "l2", debias               0.012       0.004
    "max"                      0.110       0.034
    "l2", squared              2.5e-3      2.5e-4
    "l2", squared, debias      -2e-5       -5e-7
    =========================  ==========  ===========

    The truth is 0. Only the last line is right on average; its standard error is 2e-5 and
    4e-6. The debiased root is not: what is negative becomes 0, what is positive stays.

    The subtracted variance also holds the spread of the probabilities within a bin, and is a
    little too large where bins are wide: the squared, debiased error then averages
    :math:`-\sum_b \mathrm{Var}_b(c) / n` instead of zero, which is 0.2 % of the correction for
    the 15 bins above, but a third of it for a single bin.

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
    .. [6] R. Roelofs, N. Cain, J. Shlens and M. C. Mozer, "Mitigating Bias in Calibration
       Error Estimation", AISTATS, 2022.

    Examples
    --------
    The same predictions, two different questions:

    >>> from skcal.metrics import expected_calibration_error
    >>> y_true, y_proba = [0, 0], [0.3, 0.7]
    >>> round(expected_calibration_error(y_true, y_proba, kind="positive", n_bins=2), 4)
    0.5
    >>> round(expected_calibration_error(y_true, y_proba, kind="top-label", n_bins=2), 4)
    0.2

    An estimate that is right on average, and therefore negative at times:

    >>> y_true, y_proba = [0, 1, 0, 1], [0.4, 0.4, 0.6, 0.6]
    >>> options = {"kind": "positive", "norm": "l2", "squared": True}
    >>> round(expected_calibration_error(y_true, y_proba, **options), 4)
    0.01
    >>> round(expected_calibration_error(y_true, y_proba, debias=True, **options), 4)
    -0.24
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    check_kind(kind, proba.shape[1], (*KINDS, "marginal"))
    _check_options(strategy, norm, debias, squared)

    def bins(confidence: FloatArray, event: FloatArray) -> BinStatistics:
        if strategy == "sweep":
            edges = sweep_edges(
                confidence, event, weights, _MOST_BINS if n_bins is None else n_bins
            )
        else:
            edges = bin_edges(confidence, weights, _BINS if n_bins is None else n_bins, strategy)
        return bin_statistics(confidence, event, weights, edges)

    classes = [
        _squared_gaps(bins(*pair), debias=debias) for pair in comparisons(kind, codes, proba)
    ]
    if kind == "marginal":
        share, gap = (np.concatenate(part) for part in zip(*classes, strict=True))
        classes = [(share / len(classes), gap)]
    return float(np.mean([_take_norm(*pair, norm, squared=squared) for pair in classes]))


def binned_confidence(proba: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return predicted columns (n,), their probabilities (n,) and bins (n, n_bins) as 0 or 1.

    They are for the default error of many sets of labels or weights: bins of equal width
    depend on neither, so that the error of each set is a product with this matrix.
    """
    predicted = proba.argmax(axis=1)
    confidence, _ = top_label(predicted, proba)
    edges = bin_edges(confidence, np.ones(len(proba)), _BINS, "uniform")
    return predicted, confidence, np.eye(_BINS)[assign_bins(confidence, edges)]


def _check_options(strategy: str, norm: str, debias: bool, squared: bool) -> None:
    if strategy not in ("uniform", "quantile", "sweep"):
        raise ValueError(f"strategy must be 'uniform', 'quantile' or 'sweep'; got {strategy!r}.")
    if norm not in ("l1", "l2", "max"):
        raise ValueError(f"norm must be 'l1', 'l2' or 'max'; got {norm!r}.")
    if norm != "l2" and (debias or squared):
        raise ValueError(
            f"{'debias' if debias else 'squared'}=True is defined for norm='l2' only; "
            f"got norm={norm!r}."
        )
    if debias and strategy == "sweep":
        raise ValueError(
            "debias=True needs bins that do not depend on the labels, which those of "
            "strategy='sweep' do; use 'uniform' or 'quantile'."
        )


def _squared_gaps(bins: BinStatistics, *, debias: bool) -> tuple[FloatArray, FloatArray]:
    """Return the share of the weight and the squared gap of each bin that is not empty."""
    filled = bins.weight > 0
    share = bins.weight[filled] / bins.weight.sum()
    rate = bins.event_rate[filled]
    gap = (bins.mean_confidence[filled] - rate) ** 2
    if debias:
        more = bins.effective_count[filled] - 1
        known = more > _ONE_ROW
        gap = np.where(known, gap - rate * (1 - rate) / np.where(known, more, 1.0), 0.0)
    return share, gap


def _take_norm(share: FloatArray, gap: FloatArray, norm: str, *, squared: bool) -> float:
    """Return the norm of gaps that are given squared."""
    if norm == "l1":
        return float(share @ np.sqrt(gap))
    if norm == "max":
        return float(np.sqrt(gap.max()))
    mean = float(share @ gap)
    return mean if squared else max(mean, 0.0) ** 0.5
