"""Two binned errors that go by names of their own."""

from __future__ import annotations

from numpy.typing import ArrayLike

from skcal.metrics._errors.binned import ErrorKind, ErrorStrategy, expected_calibration_error


def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: ErrorKind = "top-label",
    n_bins: int | None = None,
    strategy: ErrorStrategy = "uniform",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the largest gap between probability and frequency over the bins (MCE).

    .. math:: \mathrm{MCE} = \max_b |\bar c_b - \bar e_b|

    This is :func:`expected_calibration_error` with ``norm="max"``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive", "marginal"}, default="top-label"
        Which probability is held against which event; "class-wise" is the mean of the
        classes' largest gaps, "marginal" the largest gap of any class.
    n_bins : int, default=None
        Number of bins; None means 15, and at most 1000 with "sweep".
    strategy : {"uniform", "quantile", "sweep"}, default="uniform"
        How bins are made.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Largest gap in [0, 1], in units of probability.

    Raises
    ------
    ValueError
        If an option is unknown, or if labels and probabilities do not fit together.

    Notes
    -----
    The largest gap is often that of the bin with the fewest rows: a bin with a single row
    has a gap of the size of the probability or its complement. Its mean over many data sets
    of a perfectly calibrated model (kind "positive", probabilities uniform on [0, 1], 15
    bins) is 0.110 with 1,000 rows and 0.034 with 10,000. Equal-mass bins
    (``strategy="quantile"``) never hold few rows where probabilities are not tied.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI, 2015.

    Examples
    --------
    >>> from skcal.metrics import maximum_calibration_error
    >>> y_true, y_proba = [0, 0, 0, 1], [0.1, 0.2, 0.7, 0.9]
    >>> round(maximum_calibration_error(y_true, y_proba, kind="positive", n_bins=2), 4)
    0.3
    """
    return expected_calibration_error(
        y_true,
        y_proba,
        kind=kind,
        n_bins=n_bins,
        strategy=strategy,
        norm="max",
        sample_weight=sample_weight,
        labels=labels,
    )


def adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: ErrorKind = "class-wise",
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the class-wise error over bins of equal mass (ACE).

    .. math:: \mathrm{ACE} = \frac{1}{K} \sum_k \sum_b \frac{W_{bk}}{W}
        |\bar c_{bk} - \bar e_{bk}|

    This is :func:`expected_calibration_error` with ``kind="class-wise"`` and
    ``strategy="quantile"``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive", "marginal"}, default="class-wise"
        Which probability is held against which event.
    n_bins : int, default=15
        Number of bins for each class.
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
        If an option is unknown, or if labels and probabilities do not fit together.

    Notes
    -----
    The paper divides by the number of bins, which is the same where all bins weigh the same.
    Here bins count by their weight, since equal probabilities share a bin and may make some
    bins heavier. netcal's ``ACE`` is another thing, the *average* calibration error:
    equal-width bins of the largest probability, each counted once however few rows it holds.

    Over many data sets of a perfectly calibrated model of two classes (probabilities uniform
    on [0, 1]) its mean is 0.038 with 1,000 rows and 0.012 with 10,000.

    References
    ----------
    .. [1] J. Nixon, M. Dusenberry, L. Zhang, G. Jerfel and D. Tran, "Measuring Calibration
       in Deep Learning", CVPR Workshops, 2019.

    Examples
    --------
    >>> from skcal.metrics import adaptive_calibration_error
    >>> y_true, y_proba = [0, 0, 0, 1], [0.1, 0.2, 0.7, 0.9]
    >>> round(adaptive_calibration_error(y_true, y_proba, n_bins=2), 4)
    0.225
    """
    return expected_calibration_error(
        y_true,
        y_proba,
        kind=kind,
        n_bins=n_bins,
        strategy="quantile",
        sample_weight=sample_weight,
        labels=labels,
    )
