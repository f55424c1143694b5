"""How far the members of an ensemble are from saying the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from skcal._rows import FloatArray, row_blocks

# The exponential of anything below is 0 in float64, and so is all that comes of it; but zero
# times a finite number is a number.
_NEVER = -1e4


def disagreement(log_proba: NDArray[Any]) -> FloatArray:
    r"""Return the disagreement of several probability vectors, row by row, in nats.

    It is the entropy of the mean probability less the mean entropy of the members,

    .. math:: D = H(\bar p) - \frac1M \sum_m H(p_m), \quad \bar p = \frac1M \sum_m p_m,

    the Jensen-Shannon divergence of the members with equal weights [1]_: the mutual
    information of the label and the number of the member [2]_. It is 0 where all members say
    the same, and ln M where each is sure of another class.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_members, n_classes)
        Logarithms of probabilities, up to a constant per member and row: logits will do.
        -inf is a probability of zero.

    Returns
    -------
    ndarray of shape (n_samples,), float64
        In [0, ln M].

    Notes
    -----
    Entropies that are nearly equal leave little but rounding when they are subtracted. With
    :math:`r_{mk} = p_{mk} / \bar p_k`, whose mean over the members is 1, the same number is

    .. math:: D = \frac1M \sum_{mk} \bar p_k \, (r_{mk} \ln r_{mk} - r_{mk} + 1),

    a sum without a negative term.

    References
    ----------
    .. [1] J. Lin, "Divergence Measures Based on the Shannon Entropy", IEEE Transactions on
       Information Theory, 1991.
    .. [2] N. Houlsby, F. Huszár, Z. Ghahramani and M. Lengyel, "Bayesian Active Learning for
       Classification and Preference Learning", arXiv:1112.5745, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.neural._disagreement import disagreement
    >>> same = [[0.9, 0.1], [0.9, 0.1]]
    >>> opposite = [[1.0, 0.0], [0.0, 1.0]]
    >>> with np.errstate(divide="ignore"):
    ...     print(disagreement(np.log([same, opposite])).round(4))
    [0.     0.6931]
    """
    n_rows, n_members, n_classes = log_proba.shape
    found = np.empty(n_rows)
    for rows in row_blocks((n_rows, n_members * n_classes)):
        part = np.asarray(log_proba[rows], dtype=np.float64)
        part = np.maximum(log_softmax(part, axis=2), _NEVER)
        log_mean = logsumexp(part, axis=1) - np.log(n_members)
        log_ratio = part - log_mean[:, None]
        terms = np.exp(log_ratio) * log_ratio - np.expm1(log_ratio)
        found[rows] = (np.exp(log_mean) * terms.mean(axis=1)).sum(axis=1)
    return np.clip(found, 0.0, np.log(n_members))
