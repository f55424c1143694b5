"""The calibration report: what there is to know about a set of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import check_predictions
from skcal.metrics._events import top_label
from skcal.metrics._report.lines import (
    class_lines,
    error_lines,
    mean_gap,
    p_value_line,
    score_lines,
    temperature_lines,
    wrong_class,
)
from skcal.metrics._report.rendering import CalibrationReport, ReportLine
from skcal.metrics._report.sentences import (
    confidence_sentence,
    few_rows_sentence,
    impossible_sentence,
    temperature_sentence,
)
from skcal.metrics._scores.decomposition import score_decomposition

# With fewer rows a normal approximation says little, and no verdict is given.
_FEW_ROWS = 30


def calibration_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    n_bins: int = 15,
    calibrator: Any = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> CalibrationReport:
    """Return scores, errors, a test and plain sentences about probabilities, in one object.

    For probabilities what scikit-learn's ``classification_report`` is for labels. Nothing in
    it is left to chance: the same predictions give the same report.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities of rows the model was not trained or calibrated on; a single
        column is the probability of the second class.
    confidence_level : float, default=0.95
        Level of the intervals, and of what the sentences claim.
    n_bins : int, default=15
        Bins of equal width of the calibration errors.
    calibrator : str or calibrator, default="auto"
        What the calibration loss is measured with, as in :func:`score_decomposition`. "auto"
        compares several maps; "temperature" is much faster.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    CalibrationReport
        Print it, show it in a notebook, or take its ``to_dict()`` or ``to_frame()``.

    Raises
    ------
    ValueError
        If there are fewer than two rows, an option is out of range, or labels and
        probabilities do not fit together.

    See Also
    --------
    score_decomposition, metric_interval, ks_test, expected_calibration_error : The parts.
    skcal.plots.ReliabilityDisplay : The picture.

    Notes
    -----
    - The scores and their intervals are those of :func:`metric_interval`, the skills those of
      :func:`skill_score`, calibration and refinement loss (in nats) those of
      :func:`score_decomposition`.
    - The mean gap is the mean largest probability minus the accuracy. Its interval is
      Student's, with the standard error that was seen or the one that right probabilities
      have, whichever is larger.
    - Each calibration error stands beside its mean under right probabilities, an
      approximation that :func:`group_calibration_error` gives too.
    - The p-value is the smaller one of two :func:`ks_test`, "top-label" and "class-wise",
      times two. A large one is no proof of calibration.
    - What the temperature saves is measured in fifths that it was not fitted on.
    - Below 30 rows no verdict is given. Rows whose true class had a probability of zero are
      counted: each costs 36 nats, as in :func:`log_loss`.
    - "Over-confident" and "Under-confident" are said where the interval of the mean gap leaves
      out zero, "Not calibrated" where otherwise the p-value is below one minus the level. A
      class is named where its mean probability minus its frequency does the same at a level
      shared out among the classes. On right models (800 data sets each of 50 to 1,000 rows and
      2 to 10 classes) each of these was said in 2 to 5 of 100, any of them in 7 to 10.
    - 100,000 rows of three classes took 7 seconds on one core, 10 classes with
      ``calibrator="temperature"`` 1 second.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.metrics import calibration_report
    >>> y_true = np.repeat(["no", "yes", "no"], [82, 82, 36])
    >>> y_proba = np.repeat([0.1, 0.9], [82, 118])
    >>> report = calibration_report(y_true, y_proba)
    >>> print(report.sentences[0])
    Over-confident: says 90.0 % on average where 82.0 % is right, 8.0 points too much (95 %
    interval 2.6 to 13.4 points).
    >>> report.to_frame().loc[["log loss", "accuracy"], ["value", "lower", "upper"]].round(2)
              value  lower  upper
    name
    log loss   0.50   0.39   0.63
    accuracy   0.82    NaN    NaN
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    kept = weights > 0  # A row of weight zero is a row that is not there.
    if kept.sum() < 2:
        raise ValueError(
            "A report needs at least 2 rows with a weight above zero, and hundreds to say "
            f"anything; there is {kept.sum()}."
        )
    codes, proba, weights = codes[kept], proba[kept], weights[kept]
    rows = codes, proba, weights
    columns = np.arange(proba.shape[1])

    scores = score_lines(*rows, confidence_level)
    parts = score_decomposition(
        codes, proba, calibrator=calibrator, sample_weight=weights, labels=columns
    )
    confidence, accuracy = (float(np.average(x, weights=weights)) for x in top_label(codes, proba))
    gap = mean_gap(*top_label(codes, proba), weights, confidence_level)
    p_value = p_value_line(*rows)
    temperature, saved = temperature_lines(*rows, confidence_level)
    impossible = proba[np.arange(len(codes)), codes] <= np.finfo(np.float64).eps
    share = float(weights[impossible].sum() / weights.sum())
    if len(codes) < _FEW_ROWS:
        sentences = [few_rows_sentence(len(codes), _FEW_ROWS)]
    else:
        sentences = [
            confidence_sentence(confidence, accuracy, gap, p_value, confidence_level),
            wrong_class(*rows, classes, confidence_level),
            temperature_sentence(temperature, saved),
        ]
    sentences.append(impossible_sentence(int(impossible.sum()), share))
    return CalibrationReport(
        n_samples=len(codes),
        classes=classes.tolist(),
        confidence_level=float(confidence_level),
        sentences=[sentence for sentence in sentences if sentence],
        lines=[
            *scores,
            ReportLine(
                "calibration loss", parts.calibration_loss, note="nats that recalibration saves"
            ),
            ReportLine("refinement loss", parts.refinement_loss, note="nats left after it"),
            ReportLine("mean confidence", confidence, note="of the predicted classes"),
            ReportLine("accuracy", accuracy, note="how often they are right"),
            ReportLine("mean gap", *gap, note="confidence minus accuracy"),
            *error_lines(*rows, n_bins),
            p_value,
            temperature,
            saved,
        ],
        class_lines=class_lines(*rows, classes, n_bins, confidence_level),
    )
