"""Skill: how much of a reference's score a model saves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcal._validation import FloatArray, IntArray, check_predictions, check_proba
from skcal.metrics._scores.by_name import PROPER_NAMES, Metric, find_metric


def skill_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Metric = "log_loss",
    reference: str | ArrayLike = "base_rate",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the share of a reference's score that the probabilities save.

    .. math:: 1 - \frac{S(y, p)}{S(y, p_{\mathrm{ref}})}

    With the base rate as the reference this is the D² of a proper score, as R² is for the
    squared error [1]_, [2]_.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    score : {"log_loss", "brier", "rps"} or callable, default="log_loss"
        The score: small is good, zero is perfect. A function is called as ``score(y_true,
        y_proba, sample_weight=..., labels=...)``.
    reference : "base_rate" or array-like, default="base_rate"
        What to compare with: the weighted frequencies of the classes in `y_true` for every
        row, given probabilities of shape (n_classes,) for every row, or another model's
        probabilities of shape (n_samples, n_classes).
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. A whole number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    float
        Skill without a unit, at most 1: 1 is perfect, 0 no better than the reference,
        negative worse.

    Raises
    ------
    ValueError
        If the reference is perfect, as the base rate is where `y_true` holds one class, if
        the score is unknown, or if labels and probabilities do not fit together.

    See Also
    --------
    score_decomposition : What a score is made of.

    Notes
    -----
    The base rate is taken from the rows at hand and therefore fits them a little better than
    a rate known beforehand: against the true rate the skill is biased downwards by about
    (K - 1) / 2n nats over the reference's score for the log loss. Give the training rows'
    rate as the `reference` to avoid that.

    "log_loss" and "brier" with the base rate agree with scikit-learn's ``d2_log_loss_score``
    and ``d2_brier_score``.

    References
    ----------
    .. [1] A. H. Murphy, "Skill Scores Based on the Mean Square Error and Their Relationships
       to the Correlation Coefficient", Monthly Weather Review, 1988.
    .. [2] T. Hastie, R. Tibshirani and M. Wainwright, "Statistical Learning with Sparsity",
       2015 (equation 3.11).

    Examples
    --------
    >>> from skcal.metrics import skill_score
    >>> y_true, y_proba = [0, 1, 1, 0], [0.1, 0.8, 0.6, 0.4]
    >>> round(skill_score(y_true, y_proba, score="brier"), 4)
    0.63
    >>> round(skill_score(y_true, y_proba, score="brier", reference=[0.8, 0.2]), 4)
    0.7279
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    metric = find_metric(score, PROPER_NAMES, argument="score")
    base = _reference_proba(reference, codes, proba, weights)
    worst = metric(codes, base, weights, classes)
    # The base rate of one class scores rounding error, not always zero.
    if worst <= len(codes) * np.finfo(np.float64).eps:
        seen = classes[np.unique(codes[weights > 0])].tolist()
        raise ValueError(
            f"The reference scores {worst:.3g}, which leaves nothing to save"
            + (f": y_true holds one class only, {seen[0]!r}." if len(seen) == 1 else ".")
            + " Give the probabilities to compare with as reference=..."
        )
    return 1 - metric(codes, proba, weights, classes) / worst


def _reference_proba(
    reference: Any, codes: IntArray, proba: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return the probabilities (n, K) of the reference."""
    n, n_classes = proba.shape
    if isinstance(reference, str):
        if reference != "base_rate":
            raise ValueError(f"reference must be 'base_rate' or probabilities; got {reference!r}.")
        return np.broadcast_to(base_rate(codes, weights, n_classes), proba.shape)
    given: NDArray[Any] = np.asarray(reference)
    if given.shape not in ((n_classes,), (n, n_classes)):
        raise ValueError(
            f"reference must be 'base_rate' or probabilities of shape ({n_classes},) or "
            f"({n}, {n_classes}); got shape {given.shape}."
        )
    rows = given[None] if given.ndim == 1 else given
    return np.broadcast_to(check_proba(rows, name="reference"), proba.shape)


def base_rate(codes: IntArray, weights: FloatArray, n_classes: int) -> FloatArray:
    """Return the weighted frequency (K,) of each class."""
    rate = np.bincount(codes, weights, minlength=n_classes)
    return rate / rate.sum()
