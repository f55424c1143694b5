"""Post-hoc calibration: maps from a classifier's scores to calibrated probabilities.

Needs numpy, scipy and scikit-learn only. Everything public is imported from here. A new map is
one file, and one line below. Each part imports only from the parts above it:

- ``_portable``: fitted maps as plain dictionaries
- ``_base``: what every map shares; its two methods are all that a map adds
- ``_fitting``: what maps are fitted with, and other rooms too: temperature, affine map, logistic
  curve, ties, folds
- ``_all_classes``: maps of all classes' scores at once: temperature, matrices, base rates
- ``_one_vs_rest``: maps of one probability, one per class against the rest: curves and bins
- ``_local``: maps that differ from region to region of some features
- ``_choice``: maps by name, and the one that cross-validation chooses among them
"""

from skcal.calibration._all_classes.dirichlet import DirichletCalibration
from skcal.calibration._all_classes.ensemble_temperature import EnsembleTemperatureScaling
from skcal.calibration._all_classes.identity import IdentityCalibration
from skcal.calibration._all_classes.matrix import MatrixScaling
from skcal.calibration._all_classes.prior import PriorCorrection
from skcal.calibration._all_classes.structured import StructuredMatrixScaling
from skcal.calibration._all_classes.temperature import TemperatureScaling
from skcal.calibration._all_classes.vector import VectorScaling
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._choice import (
    CALIBRATOR_NAMES,
    LOCAL_CALIBRATOR_NAMES,
    AutoCalibration,
    make_calibrator,
)
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.kernel import KernelCalibration
from skcal.calibration._local.lcn import LocalCalibrationNetwork
from skcal.calibration._local.local_temperature import LocalTemperatureScaling
from skcal.calibration._local.multicalibration import MultiCalibration
from skcal.calibration._local.proximity import ProximityCalibration
from skcal.calibration._local.vq_dirichlet import VQDirichletCalibration
from skcal.calibration._one_vs_rest.any_calibrator import OneVsRestCalibration
from skcal.calibration._one_vs_rest.beta import BetaCalibration
from skcal.calibration._one_vs_rest.histogram import HistogramBinning
from skcal.calibration._one_vs_rest.isotonic import IsotonicCalibration
from skcal.calibration._one_vs_rest.platt import PlattScaling
from skcal.calibration._one_vs_rest.quadratic import QuadraticScaling
from skcal.calibration._one_vs_rest.scaling_binning import ScalingBinning
from skcal.calibration._one_vs_rest.venn_abers import VennAbersCalibration

__all__ = [
    "CALIBRATOR_NAMES",
    "LOCAL_CALIBRATOR_NAMES",
    "AutoCalibration",
    "BaseCalibrator",
    "BetaCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "IdentityCalibration",
    "IsotonicCalibration",
    "KernelCalibration",
    "LocalCalibrationNetwork",
    "LocalCalibrator",
    "LocalTemperatureScaling",
    "MatrixScaling",
    "MultiCalibration",
    "OneVsRestCalibration",
    "PlattScaling",
    "PriorCorrection",
    "ProximityCalibration",
    "QuadraticScaling",
    "ScalingBinning",
    "StructuredMatrixScaling",
    "TemperatureScaling",
    "VQDirichletCalibration",
    "VectorScaling",
    "VennAbersCalibration",
    "make_calibrator",
]
