"""The maximum mean calibration error: the largest correlation with a smooth witness."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray, check_predictions
from skcal.metrics._events import Kind, mean_error

# The bandwidth of the paper's kernel.
_BANDWIDTH = 0.4


def maximum_mean_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    debias: bool = False,
    squared: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the kernel calibration error of single probabilities (MMCE).

    .. math:: \mathrm{MMCE}^2 = \frac{1}{W^2} \sum_{i,j} w_i w_j (e_i - c_i)(e_j - c_j)
        \exp\left(-\frac{|c_i - c_j|}{0.4}\right)

    It is the largest mean of :math:`(e_i - c_i) f(c_i)` over the functions of norm one in
    the kernel's space: zero only if no smooth function of the probability tells the sign of
    the residual.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability :math:`c_i` is held against which event :math:`e_i`: the largest
        of the row (the paper's), each column (the mean over columns), or the second class
        of two.
    debias : bool, default=False
        Leave out the pairs of a row with itself, and divide by
        :math:`W^2 - \sum_i w_i^2`: then the square is right on average.
    squared : bool, default=False
        Return the square. With `debias` it may be negative; the root is taken of its
        positive part.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row; only
        in `debias` it does not: a heavy row is still one observation.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Error in [0, 1]. It bounds the mean residual from above, in units of probability; a
        gap at some probabilities only counts for less than its size.

    Raises
    ------
    ValueError
        If `kind` is unknown, or is "positive" and there are not two classes, if `debias`
        meets fewer than two rows with weight, or if labels and probabilities do not fit
        together.

    See Also
    --------
    squared_kernel_calibration_error : The same idea for the whole vector of probabilities.

    Notes
    -----
    Without `debias` the value is above the truth on finite data. Over many data sets of a
    perfectly calibrated model (kind "positive", probabilities uniform on [0, 1]) its mean is
    0.012 with 1,000 rows and 0.0037 with 10,000; the squared, debiased one averages
    zero.

    The sum over all pairs is exact and takes a sort: for a Laplacian kernel, what the rows
    below c add up to decays by the same factor for all of them.

    netcal's ``MMCE`` is the same number. The authors' training code leaves out the root, and
    their weighted form is a different quantity.

    References
    ----------
    .. [1] A. Kumar, S. Sarawagi and U. Jain, "Trainable Calibration Measures for Neural
       Networks from Kernel Mean Embeddings", ICML, 2018.

    Examples
    --------
    >>> from skcal.metrics import maximum_mean_calibration_error
    >>> round(maximum_mean_calibration_error([0, 0], [0.3, 0.7], kind="positive"), 4)
    0.4285
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    share = weights / weights.sum()
    of_itself = float(share @ share)
    if debias and np.count_nonzero(share) < 2:
        raise ValueError(
            "debias=True compares different rows and needs two with a weight above zero."
        )

    def error(confidence: FloatArray, event: FloatArray) -> float:
        residual = share * (event - confidence)
        value = _kernel_sum(confidence, residual)
        if debias:
            value = (value - float(residual @ residual)) / (1.0 - of_itself)
        return value if squared else max(value, 0.0) ** 0.5

    return mean_error(error, kind, codes, proba)


def _kernel_sum(confidence: FloatArray, residual: FloatArray) -> float:
    """Return the sum over all pairs of residual times residual times kernel."""
    order = np.argsort(confidence)
    residual = residual[order]
    # Probabilities lie within 2.5 bandwidths of each other: the factor is at most 12.2.
    growth = np.exp(confidence[order] / _BANDWIDTH)
    below = np.cumsum(residual * growth)
    # Each pair once from above, twice in the sum; the last term of `below` is the row itself.
    return float(2 * np.sum(residual / growth * below) - residual @ residual)
