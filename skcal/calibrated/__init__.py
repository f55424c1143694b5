"""Any classifier with any calibrator, frozen or cross-fitted."""

from skcal.calibrated._classifier import CalibratedClassifier

__all__ = ["CalibratedClassifier"]
