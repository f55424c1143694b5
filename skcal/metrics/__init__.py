"""How far predicted probabilities can be trusted: proper scores, binned errors and curves."""

from skcal.metrics._curve import ReliabilityCurve, reliability_curve
from skcal.metrics._ece import expected_calibration_error
from skcal.metrics._local import local_calibration_error
from skcal.metrics._proper import brier_score_loss, log_loss
from skcal.metrics._proximity import proximity_informed_calibration_error

__all__ = [
    "ReliabilityCurve",
    "brier_score_loss",
    "expected_calibration_error",
    "local_calibration_error",
    "log_loss",
    "proximity_informed_calibration_error",
    "reliability_curve",
]
