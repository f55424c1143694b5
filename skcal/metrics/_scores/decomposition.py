"""What a proper score is made of: calibration, refinement, and the uncertainty of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcal._options import find_name
from skcal._validation import FloatArray, check_predictions
from skcal.metrics._bins import Strategy
from skcal.metrics._scores.recalibrated import bin_means, cross_recalibrate, isotonic_rates
from skcal.metrics._scores.rows import brier_scores, log_losses
from skcal.metrics._scores.skill import base_rate

Method = Literal["recalibration", "binned", "isotonic"]
_METHODS = ("recalibration", "binned", "isotonic")
_ROW_SCORES = {"log_loss": log_losses, "brier": brier_scores}


@dataclass(frozen=True)
class ScoreDecomposition:
    """A proper score and its parts, all in the unit of the score.

    ``score = calibration_loss + refinement_loss`` and ``refinement_loss = uncertainty -
    resolution``, up to rounding.

    Attributes
    ----------
    score : float
        The mean score of the probabilities.
    calibration_loss : float
        What recalibration saves. It may be a little below zero for "recalibration", which
        learns on some rows and scores others.
    refinement_loss : float
        The score after recalibration: what is left to a better classifier.
    uncertainty : float
        The score of the base rate, the same for every model on these rows.
    resolution : float
        What the recalibrated probabilities save against the base rate.
    within_bins : float
        The part of `calibration_loss` that comes from the spread of the probabilities within
        their bins; zero for methods other than "binned".
    score_name : {"log_loss", "brier"}
        Which score.
    method : {"recalibration", "binned", "isotonic"}
        How the recalibrated probabilities were found.
    """

    score: float
    calibration_loss: float
    refinement_loss: float
    uncertainty: float
    resolution: float
    within_bins: float
    score_name: str
    method: Method


def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Literal["log_loss", "brier"] = "log_loss",
    method: Method = "recalibration",
    calibrator: Any = "auto",
    cv: int = 5,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ScoreDecomposition:
    r"""Split a proper score into what recalibration mends and what it leaves.

    With :math:`S` the mean score of probabilities :math:`p`, of recalibrated ones :math:`g(p)`
    and of the base rate :math:`\bar y`,

    .. math:: S(p) = \underbrace{S(p) - S(g(p))}_{\text{calibration}}
        + \underbrace{S(g(p))}_{\text{refinement}},
        \qquad S(g(p)) = \underbrace{S(\bar y)}_{\text{uncertainty}}
        - \underbrace{S(\bar y) - S(g(p))}_{\text{resolution}} .

    In the population the best :math:`g(p)` is the frequency of the classes among rows with
    the same :math:`p` [1]_. The methods differ in how they estimate it.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    score : {"log_loss", "brier"}, default="log_loss"
        The score, in nats or in squared probability, as :func:`log_loss` and
        :func:`brier_score_loss` define it.
    method : {"recalibration", "binned", "isotonic"}, default="recalibration"
        How :math:`g` is found.

        - "recalibration" [2]_: a calibrator, fitted on all folds but one and scored on that
          one. For any number of classes.
        - "binned" [3]_: the frequency of each bin. Two classes, or the Brier score, whose
          columns are binned one by one.
        - "isotonic" (CORP) [4]_: the best increasing function on these rows. Two classes, or
          the Brier score, whose columns are fitted one by one.
    calibrator : str or calibrator, default="auto"
        For "recalibration": a name of :func:`~skcal.calibration.make_calibrator` or a
        calibrator that reads probabilities. Calibrators are fitted to the log-loss whatever
        the `score`.
    cv : int, default=5
        For "recalibration": number of folds, at most as many as rows. Rows are dealt out in
        turn, so that the answer does not depend on chance.
    n_bins : int, default=15
        For "binned": number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        For "binned": bins of equal width on [0, 1], or of about equal weight.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights; their scale has no effect. For "binned" and "isotonic" a whole
        number counts as that many repetitions of the row.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    ScoreDecomposition

    Raises
    ------
    ValueError
        If `method` cannot split the log-loss of more than two classes, if an option is
        unknown, or if labels and probabilities do not fit together.

    See Also
    --------
    skill_score : Resolution less calibration loss, over uncertainty.
    skcal.calibration.AutoCalibration : The default calibrator.

    Notes
    -----
    On calibrated rows "recalibration" is near zero and often slightly below: what overfitting
    there is makes the calibration loss smaller, and miscalibration that the calibrator cannot
    mend counts as refinement. "isotonic" and "binned" are fitted to the rows they score, which
    biases their calibration loss upwards; coarse bins lose refinement, which biases that of
    "binned" downwards. Mean of 20 tables of two classes, log-loss in nats:

    ==========================  ======  ======  ======  ========
    data, rows                  truth   "auto"  binned  isotonic
    ==========================  ======  ======  ======  ========
    calibrated, 500             0       -0.000  0.010   0.027
    calibrated, 2000            0       -0.000  0.000   0.012
    logits times 1.5, 500       0.022   0.018   0.026   0.050
    logits times 1.5, 2000      0.022   0.021   0.014   0.033
    logits moved by 1, 2000     0.062   0.064   0.061   0.077
    ==========================  ======  ======  ======  ========

    With "binned", ``calibration_loss - within_bins`` is the divergence between each bin's
    mean probability and its frequency, the reliability term of Murphy: exact where all
    probabilities in a bin are equal, and then `within_bins` is zero. For the Brier score
    `within_bins` is the within-bin variance less twice the within-bin covariance [5]_.

    References
    ----------
    .. [1] J. Bröcker, "Reliability, Sufficiency, and the Decomposition of Proper Scores",
       Quarterly Journal of the Royal Meteorological Society, 2009.
    .. [2] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Rethinking Early Stopping:
       Refine, Then Calibrate", 2025.
    .. [3] A. H. Murphy, "A New Vector Partition of the Probability Score", Journal of
       Applied Meteorology, 1973.
    .. [4] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable Reliability Diagrams for
       Probabilistic Classifiers", PNAS, 2021.
    .. [5] D. B. Stephenson, C. A. S. Coelho and I. T. Jolliffe, "Two Extra Components in the
       Brier Score Decomposition", Weather and Forecasting, 2008.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.metrics import score_decomposition
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    >>> for proba in p, sharp:
    ...     parts = score_decomposition(y, proba)
    ...     print(f"{parts.score:.3f} = {parts.calibration_loss:.3f} + {parts.refinement_loss:.3f}")
    0.585 = 0.000 + 0.585
    0.688 = 0.103 + 0.585
    """
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    row_scores = _ROW_SCORES[find_name(score, _ROW_SCORES, "score")]
    find_name(method, _METHODS, "method")
    n_classes = proba.shape[1]
    if method != "recalibration" and score == "log_loss" and n_classes > 2:
        raise ValueError(
            f"method={method!r} splits the log-loss of two classes only, but there are "
            f"{n_classes} columns; use method='recalibration' or score='brier'."
        )
    keep = weights > 0  # A row of weight zero is a row that is not there.
    codes, proba, weights = codes[keep], proba[keep], weights[keep]

    def mean(forecast: FloatArray) -> float:
        return float(np.average(row_scores(codes, forecast), weights=weights))

    total, within = mean(proba), 0.0
    if method == "recalibration":
        refinement = mean(cross_recalibrate(calibrator, proba, codes, weights, cv))
    else:
        # Columns fitted one by one need not sum to one; the Brier score does not ask them to.
        # Those of two classes do, since what is a fit of one is a fit of the other.
        events = np.eye(n_classes)[codes]
        columns = [(proba[:, k], events[:, k], weights) for k in range(n_classes)]
        if n_classes == 2:
            columns = columns[1:]
        if method == "isotonic":
            refinement = mean(_all_columns([isotonic_rates(*column) for column in columns]))
        else:
            pairs = [bin_means(*column, n_bins, strategy) for column in columns]
            within = total - mean(_all_columns([means for means, _ in pairs]))
            refinement = mean(_all_columns([rates for _, rates in pairs]))
    uncertainty = mean(np.broadcast_to(base_rate(codes, weights, n_classes), proba.shape))
    return ScoreDecomposition(
        score=total,
        calibration_loss=total - refinement,
        refinement_loss=refinement,
        uncertainty=uncertainty,
        resolution=uncertainty - refinement,
        within_bins=within,
        score_name=score,
        method=method,
    )


def _all_columns(columns: list[FloatArray]) -> FloatArray:
    """Return columns as a matrix; a single one is that of the second of two classes."""
    return np.column_stack([1 - columns[0], columns[0]] if len(columns) == 1 else columns)
