"""Pictures of predicted probabilities; matplotlib is loaded when one is drawn."""

from skcal.plots._calibration_map import CalibrationMapDisplay
from skcal.plots._classwise import ClasswiseReliabilityDisplay
from skcal.plots._confidence import ConfidenceHistogramDisplay
from skcal.plots._decision_curve import DecisionCurveDisplay
from skcal.plots._decomposition import ScoreDecompositionDisplay
from skcal.plots._fitted_curve import FittedReliabilityCurve
from skcal.plots._history import TrainingHistoryDisplay
from skcal.plots._local_calibration import LocalCalibrationDisplay
from skcal.plots._reliability import ReliabilityDisplay
from skcal.plots._risk_coverage import RiskCoverageDisplay

__all__ = [
    "CalibrationMapDisplay",
    "ClasswiseReliabilityDisplay",
    "ConfidenceHistogramDisplay",
    "DecisionCurveDisplay",
    "FittedReliabilityCurve",
    "LocalCalibrationDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "ScoreDecompositionDisplay",
    "TrainingHistoryDisplay",
]
