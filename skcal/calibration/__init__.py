"""Post-hoc calibration: maps from a classifier's scores to calibrated probabilities.

Needs numpy, scipy and scikit-learn only.
"""

from skcal.calibration._base import BaseCalibrator
from skcal.calibration._dirichlet import DirichletCalibration
from skcal.calibration._identity import IdentityCalibration
from skcal.calibration._isotonic import IsotonicCalibration
from skcal.calibration._matrix import MatrixScaling
from skcal.calibration._platt import PlattScaling
from skcal.calibration._registry import CALIBRATOR_NAMES, make_calibrator
from skcal.calibration._structured import StructuredMatrixScaling
from skcal.calibration._temperature import TemperatureScaling
from skcal.calibration._vector import VectorScaling

__all__ = [
    "CALIBRATOR_NAMES",
    "BaseCalibrator",
    "DirichletCalibration",
    "IdentityCalibration",
    "IsotonicCalibration",
    "MatrixScaling",
    "PlattScaling",
    "StructuredMatrixScaling",
    "TemperatureScaling",
    "VectorScaling",
    "make_calibrator",
]
