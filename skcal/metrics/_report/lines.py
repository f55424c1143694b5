"""The numbers of a calibration report, each with its interval or its measure of chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from skcal._validation import FloatArray, IntArray
from skcal.metrics._bins import binned_and_chance_error
from skcal.metrics._events import Kind, comparisons, one_class, wilson_interval
from skcal.metrics._hypothesis_tests.kolmogorov_smirnov import ks_test
from skcal.metrics._intervals.one_model import metric_interval
from skcal.metrics._report.rendering import ClassLine, ReportLine
from skcal.metrics._report.sentences import class_sentence
from skcal.metrics._scores.recalibrated import losses_after_temperature
from skcal.metrics._scores.rows import brier_scores, log_losses
from skcal.metrics._scores.skill import base_rate


def score_lines(
    codes: IntArray, proba: FloatArray, weights: FloatArray, level: float
) -> list[ReportLine]:
    """Return the proper scores and what they save against the base rate."""
    rate = base_rate(codes, weights, proba.shape[1])
    lines = []
    for metric, name, rows, unit in (
        ("log_loss", "log loss", log_losses, "nats"),
        ("brier", "Brier score", brier_scores, "squared probability"),
    ):
        columns = np.arange(proba.shape[1])
        found = metric_interval(
            metric,
            codes,
            proba,
            confidence_level=level,
            method="analytic",
            sample_weight=weights,
            labels=columns,
        )
        worst = float(np.average(rows(codes, np.broadcast_to(rate, proba.shape)), weights=weights))
        # Of one class alone there is nothing to save, up to rounding.
        skill = 1 - found.value / worst if worst > 1e-12 else None
        lines += [
            ReportLine(
                name, found.value, found.lower, found.upper, f"{unit}; base rate {worst:.4f}"
            ),
            ReportLine(f"skill, {name}", skill, note="share of the base rate's that is saved"),
        ]
    return lines


def error_lines(
    codes: IntArray, proba: FloatArray, weights: FloatArray, n_bins: int
) -> list[ReportLine]:
    """Return the calibration errors, beside what a right model would have."""
    kinds: tuple[Kind, ...] = ("top-label", "class-wise")
    lines = []
    for kind in kinds:
        pairs = comparisons(kind, codes, proba)
        found = [binned_and_chance_error(c, e, weights, n_bins, "uniform") for c, e in pairs]
        error, chance = np.mean(found, axis=0).tolist()
        lines.append(
            ReportLine(f"ECE, {kind}", error, note=f"{chance:.4f} by chance if calibrated")
        )
    return lines


def p_value_line(codes: IntArray, proba: FloatArray, weights: FloatArray) -> ReportLine:
    """Return the p-value of two tests: one sees over-confidence, the other wrong rates."""
    kinds: tuple[Kind, ...] = ("top-label", "class-wise")
    columns = np.arange(proba.shape[1])
    found = [
        ks_test(codes, proba, kind=kind, sample_weight=weights, labels=columns).p_value
        for kind in kinds
    ]
    note = ", ".join(f"{kind} {p:.3f}" for kind, p in zip(kinds, found, strict=True))
    return ReportLine("p-value", min(1.0, 2 * min(found)), note=f"KS tests: {note}")


def mean_gap(
    confidence: FloatArray, event: FloatArray, weights: FloatArray, level: float
) -> tuple[float, float, float]:
    """Return the mean of confidence minus event, and its interval.

    The standard error is the larger of the one seen and the one that right probabilities
    have: ten sure predictions that all came true are no proof of too little confidence.
    """
    total = weights.sum()
    residual = confidence - event
    mean = float(weights @ residual / total)
    n = len(weights)
    seen = weights**2 @ (residual - mean) ** 2 * n / max(n - 1, 1)
    expected = weights**2 @ (confidence * (1 - confidence))
    half = _quantile(n, level) * float(np.sqrt(max(seen, expected)) / total)
    return mean, mean - half, mean + half


def _quantile(n: int, level: float) -> float:
    """Return Student's quantile of a two-sided interval of n rows."""
    return float(stdtrit(max(n - 1, 1), 0.5 + level / 2))


def temperature_lines(
    codes: IntArray, proba: FloatArray, weights: FloatArray, level: float
) -> list[ReportLine]:
    """Return the best temperature, and what one saves on rows it was not fitted on."""
    losses, temperature = losses_after_temperature(codes, proba, weights)
    saved = log_losses(codes, proba) - losses
    mean = float(np.average(saved, weights=weights))
    n = len(weights)
    spread = np.sqrt(weights**2 @ (saved - mean) ** 2 * n / max(n - 1, 1)) / weights.sum()
    half = _quantile(n, level) * float(spread)
    return [
        ReportLine("best temperature", temperature, note="above 1: softer"),
        ReportLine("saved by temperature", mean, mean - half, mean + half, "nats, cross-fitted"),
    ]


def class_lines(
    codes: IntArray,
    proba: FloatArray,
    weights: FloatArray,
    classes: NDArray[Any],
    n_bins: int,
    level: float,
) -> list[ClassLine]:
    """Return mean probability, frequency and calibration error of each class."""
    effective = weights.sum() ** 2 / (weights @ weights)
    lines = []
    for k, (confidence, event) in enumerate(comparisons("class-wise", codes, proba)):
        rate = float(np.average(event, weights=weights))
        lower, upper = wilson_interval(np.array(rate), np.array(effective), level)
        error, chance = binned_and_chance_error(confidence, event, weights, n_bins, "uniform")
        lines.append(
            ClassLine(
                class_label=classes.tolist()[k],
                count=int((codes == k).sum()),
                mean_predicted=float(np.average(confidence, weights=weights)),
                event_rate=rate,
                lower=float(lower),
                upper=float(upper),
                ece=error,
                chance_ece=chance,
            )
        )
    return lines


def wrong_class(
    codes: IntArray, proba: FloatArray, weights: FloatArray, classes: NDArray[Any], level: float
) -> str:
    """Return a sentence about the class whose rate is most clearly wrong, if there is one."""
    # Shared out among the classes, so that all of them together keep the level. Two columns
    # are one question, and the second class its usual subject.
    n_classes = proba.shape[1]
    looked_at = [1] if n_classes == 2 else range(n_classes)
    each = 1 - (1 - level) / len(looked_at)
    worst, sentence = 1.0, ""
    for k in looked_at:
        confidence, event = one_class(codes, proba, k)
        gap, lower, upper = mean_gap(confidence, event, weights, each)
        half = (upper - lower) / 2
        if abs(gap) > worst * half:
            worst = abs(gap) / half
            means = [float(np.average(x, weights=weights)) for x in (confidence, event)]
            sentence = class_sentence(classes.tolist()[k], *means)
    return sentence
