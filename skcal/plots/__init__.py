"""Pictures of predicted probabilities; matplotlib is loaded when one is drawn."""

from skcal.plots._classwise import ClasswiseReliabilityDisplay
from skcal.plots._fitted_curve import FittedReliabilityCurve
from skcal.plots._reliability import ReliabilityDisplay

__all__ = ["ClasswiseReliabilityDisplay", "FittedReliabilityCurve", "ReliabilityDisplay"]
