"""Any classifier with any calibrator, frozen or cross-fitted.

Each part imports only from the parts above it:

- ``_scores``: what can be calibrated of a classifier: logits, margins or probabilities
- ``_splits``: which rows train a model and which calibrate it
- ``_routing``: what the estimator's ``fit`` and the splitter are given
- ``_features``: where each row lies, for calibrators that differ from region to region
- ``_validation_fold``: calibration rows that also tell an estimator when to stop
- ``_folds``: models and maps of the folds; calibrators on scores of any kind
- ``_frozen``: a model that is fitted already, and signs that it knows its calibration rows
- ``_pooling``: the mean of the folds' answers, and what it does to their confidence
- ``_classifier``: the estimator
"""

from skcal.calibrated._classifier import CalibratedClassifier

__all__ = ["CalibratedClassifier"]
