"""Spiegelhalter's test, by the Brier score that the probabilities promise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skcal._validation import check_predictions
from skcal.metrics._hypothesis_tests.result import CalibrationTest
from skcal.metrics._scores.rows import true_class

# Probabilities that agree to this many decimals count as equal: a row of equal probabilities
# has no variance, and rounding must not give it one.
_SAME = 1e-12


def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> CalibrationTest:
    r"""Test calibration by the Brier score that calibrated probabilities would have.

    If labels are drawn from the probabilities, the Brier score of row i has the mean
    :math:`1 - \|p_i\|^2` and the variance
    :math:`4 \sum_k p_{ik} (p_{ik} - \|p_i\|^2)^2`. The statistic is the standardised sum [1]_,

    .. math:: Z = \frac{\sum_i w_i \left(\|p_i\|^2 - p_{i, y_i}\right)}
        {\sqrt{\sum_i w_i^2 \sum_k p_{ik} \left(p_{ik} - \|p_i\|^2\right)^2}},
        \qquad \|p\|^2 = \sum_k p_k^2,

    about standard normal for many rows. The form for more than two classes is that of the
    multiclass Brier score; for two it is Spiegelhalter's.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A row is one observation whatever its weight; rows that were
        really seen several times have to be repeated.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    CalibrationTest
        The statistic is Z: positive where the Brier score is worse than the probabilities
        promise (over-confidence), negative where it is better. The p-value is two-sided.
        `detail` holds the "brier_score", summed over all columns, and its "expected" value.

    Raises
    ------
    ValueError
        If labels and probabilities do not fit together.

    See Also
    --------
    resampling_test : The same question to a metric of one's own.

    Notes
    -----
    The test sees over- and under-confidence. It is blind where errors cancel in the mean, and
    to rows whose probabilities are all equal: such rows say nothing of their own certainty.
    Where all rows are such, Z is 0 and the p-value 1.

    Share of tables on which the test rejects at the 5 % level, by
    ``benchmarks/calibration_tests.py``. The logits of calibrated rows were multiplied by the
    factor; 2,000 tables for the factor 1, 500 for the others:

    ================  ========  =====  =====
    data              factor 1  1.2    1.5
    ================  ========  =====  =====
    K = 2, 500 rows   5.8 %     52 %   97 %
    K = 2, 2000 rows  5.0 %     98 %   100 %
    K = 4, 500 rows   4.8 %     81 %   100 %
    K = 4, 2000 rows  4.7 %     100 %  100 %
    ================  ========  =====  =====

    Over 12 kinds of calibrated tables, with uneven classes and probabilities near 0 and 1 among
    them, the share was 4.0 to 5.9 %.

    References
    ----------
    .. [1] D. J. Spiegelhalter, "Probabilistic Prediction in Patient Management and Clinical
       Trials", Statistics in Medicine, 1986.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import spiegelhalter_test
    >>> _, y, p = make_calibration_data(1000, n_classes=3, random_state=0)
    >>> sharp = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    >>> for proba in p, sharp:
    ...     found = spiegelhalter_test(y, proba)
    ...     print(f"Z = {found.statistic:.2f}, p = {found.p_value:.2g}")
    Z = -0.83, p = 0.41
    Z = 8.01, p = 1.1e-15
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    squares = np.square(proba).sum(axis=1)
    centred = proba - squares[:, None]
    centred[np.abs(centred) < _SAME] = 0.0
    gap = -true_class(codes, centred)
    variance = (proba * centred**2).sum(axis=1)
    deviation = float(weights @ gap)
    spread = float(np.sqrt(weights**2 @ variance))
    if spread > 0:
        z = deviation / spread
    else:  # Rows that were certain: either as they said, or impossible.
        z = float(np.copysign(np.inf, deviation)) if deviation else 0.0
    expected = float(np.average(1 - squares, weights=weights))
    observed = expected + 2 * deviation / float(weights.sum())
    detail = {"brier_score": observed, "expected": expected}
    return CalibrationTest("Spiegelhalter", z, 2 * float(ndtr(-abs(z))), detail)
