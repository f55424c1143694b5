"""Post-hoc calibration: maps from a classifier's scores to calibrated probabilities.

Needs numpy, scipy and scikit-learn only.
"""

from skcal.calibration._auto import AutoCalibration
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._beta import BetaCalibration
from skcal.calibration._dirichlet import DirichletCalibration
from skcal.calibration._ensemble_temperature import EnsembleTemperatureScaling
from skcal.calibration._histogram import HistogramBinning
from skcal.calibration._identity import IdentityCalibration
from skcal.calibration._isotonic import IsotonicCalibration
from skcal.calibration._matrix import MatrixScaling
from skcal.calibration._one_vs_rest_calibration import OneVsRestCalibration
from skcal.calibration._platt import PlattScaling
from skcal.calibration._prior import PriorCorrection
from skcal.calibration._quadratic import QuadraticScaling
from skcal.calibration._registry import CALIBRATOR_NAMES, make_calibrator
from skcal.calibration._scaling_binning import ScalingBinning
from skcal.calibration._structured import StructuredMatrixScaling
from skcal.calibration._temperature import TemperatureScaling
from skcal.calibration._vector import VectorScaling
from skcal.calibration._venn_abers import VennAbersCalibration

__all__ = [
    "CALIBRATOR_NAMES",
    "AutoCalibration",
    "BaseCalibrator",
    "BetaCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "IdentityCalibration",
    "IsotonicCalibration",
    "MatrixScaling",
    "OneVsRestCalibration",
    "PlattScaling",
    "PriorCorrection",
    "QuadraticScaling",
    "ScalingBinning",
    "StructuredMatrixScaling",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbersCalibration",
    "make_calibrator",
]
