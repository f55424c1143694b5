"""Pictures of predicted probabilities; matplotlib is loaded when one is drawn."""

from skcal.plots._classwise import ClasswiseReliabilityDisplay
from skcal.plots._decision_curve import DecisionCurveDisplay
from skcal.plots._fitted_curve import FittedReliabilityCurve
from skcal.plots._reliability import ReliabilityDisplay
from skcal.plots._risk_coverage import RiskCoverageDisplay

__all__ = [
    "ClasswiseReliabilityDisplay",
    "DecisionCurveDisplay",
    "FittedReliabilityCurve",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
