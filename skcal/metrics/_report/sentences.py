"""What the numbers of a calibration report say, in sentences that hold at its level."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcal.metrics._report.rendering import ReportLine


def confidence_sentence(
    confidence: float,
    accuracy: float,
    gap: tuple[float, float, float],
    test: ReportLine,
    level: float,
) -> str:
    """Return whether the probabilities of the predicted classes are right, as far as one sees.

    The direction is claimed where the interval of the mean gap leaves out zero; that
    something is wrong, where the test says so.
    """
    mean, lower, upper = gap
    p_value = float(test.value or 0.0)
    means = f"says {_percent(confidence)} on average where {_percent(accuracy)} is right"
    interval = f"{_percent(level, 3)} interval"
    if lower > 0 or upper < 0:
        kind, excess = ("Over", "much") if lower > 0 else ("Under", "little")
        low, high = sorted([abs(lower), abs(upper)])
        return (
            f"{kind}-confident: {means}, {_points(abs(mean))} too {excess} ({interval} "
            f"{100 * low:.1f} to {_points(high)})."
        )
    widest = _points(max(-lower, upper))
    if p_value < 1 - level:
        return (
            f"Not calibrated ({_p_words(p_value)}), though neither over- nor under-confident on "
            f"average: {means}. Too high and too low cancel; a reliability diagram shows where."
        )
    return (
        f"No miscalibration found ({_p_words(p_value)}): {means}, and the {interval} of the "
        f"difference lies within ±{widest}. What is smaller, these rows cannot tell."
    )


def few_rows_sentence(n: int, wanted: int) -> str:
    """Return that there is nothing to be said."""
    return f"With {n} rows there is no verdict; hundreds tell something, {wanted} are the least."


def impossible_sentence(n: int, share: float) -> str:
    """Return what probabilities of zero for what happened cost, if there are any."""
    if not n:
        return ""
    rows = "1 row" if n == 1 else f"{n} rows"
    cost = -share * float(np.log(np.finfo(np.float64).eps))
    return (
        f"{rows} had a probability of zero for what happened, at the cost of {cost:.3g} nats of "
        "the log loss; any calibrator keeps probabilities off zero."
    )


def class_sentence(label: Any, predicted: float, observed: float) -> str:
    """Return that the mean probability of a class is wrong."""
    return (
        f"Class {label!r} is predicted {'more' if predicted > observed else 'less'} often than it "
        f"happens: {_percent(predicted)} on average, {_percent(observed)} observed."
    )


def temperature_sentence(temperature: ReportLine, saved: ReportLine) -> str:
    """Return what a temperature would do, where that is clearly something."""
    if saved.value is None or saved.lower is None or saved.upper is None or saved.lower <= 0:
        return ""
    return (
        f"A temperature of {temperature.value:.3g} would save {saved.value:.2g} nats of log loss "
        f"({saved.lower:.2g} to {saved.upper:.2g})."
    )


def _p_words(p_value: float) -> str:
    """Return a p-value in words."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _percent(share: float, digits: int | None = None) -> str:
    return f"{100 * share:.1f} %" if digits is None else f"{100 * share:.{digits}g} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
