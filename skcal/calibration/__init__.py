"""Post-hoc calibration: maps from a classifier's scores to calibrated probabilities.

Needs numpy, scipy and scikit-learn only.
"""

from skcal.calibration._base import BaseCalibrator
from skcal.calibration._isotonic import IsotonicCalibration
from skcal.calibration._platt import PlattScaling
from skcal.calibration._registry import CALIBRATOR_NAMES, make_calibrator
from skcal.calibration._temperature import TemperatureScaling

__all__ = [
    "CALIBRATOR_NAMES",
    "BaseCalibrator",
    "IsotonicCalibration",
    "PlattScaling",
    "TemperatureScaling",
    "make_calibrator",
]
