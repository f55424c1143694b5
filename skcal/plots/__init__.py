"""Pictures of predicted probabilities; matplotlib is loaded when one is drawn."""

from skcal.plots._reliability import ReliabilityDisplay

__all__ = ["ReliabilityDisplay"]
