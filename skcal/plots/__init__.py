"""Pictures of predicted probabilities; matplotlib is loaded when one is drawn.

Everything public is imported from here. A display is one file: ``from_estimator`` and
``from_predictions`` find what it shows, ``plot`` draws it. Each part imports only from the parts
above it:

- ``_data``: what displays show: curves, maps and projections, without matplotlib
- ``_drawing``: how they look: styles, axes, panels below them; curves and simplexes
- ``_reliability``: observed frequency against predicted probability
- ``_classwise``: the same for each class, in a grid
- ``_confidence``: the largest probabilities of right and wrong predictions
- ``_local_calibration``: where in the space of the features probabilities are off
- ``_region_calibration``: the same region by region, in words
- ``_decomposition``: calibration and refinement of proper scores
- ``_decision_curve``: costs and benefits over the threshold of a decision
- ``_risk_coverage``: the loss of the rows that are decided, over their share
- ``_calibration_map``: what a fitted calibrator makes of probabilities
- ``_edge_divergence``: confidences of neighbours against what bounds them
- ``_history``: the training of a network, epoch by epoch
"""

from skcal.plots._calibration_map import CalibrationMapDisplay
from skcal.plots._classwise import ClasswiseReliabilityDisplay
from skcal.plots._confidence import ConfidenceHistogramDisplay
from skcal.plots._data.fitted_curve import FittedReliabilityCurve
from skcal.plots._data.region_errors import CalibrationRegion
from skcal.plots._decision_curve import DecisionCurveDisplay
from skcal.plots._decomposition import ScoreDecompositionDisplay
from skcal.plots._edge_divergence import EdgeDivergenceDisplay
from skcal.plots._history import TrainingHistoryDisplay
from skcal.plots._local_calibration import LocalCalibrationDisplay
from skcal.plots._region_calibration import RegionCalibrationDisplay
from skcal.plots._reliability import ReliabilityDisplay
from skcal.plots._risk_coverage import RiskCoverageDisplay

__all__ = [
    "CalibrationMapDisplay",
    "CalibrationRegion",
    "ClasswiseReliabilityDisplay",
    "ConfidenceHistogramDisplay",
    "DecisionCurveDisplay",
    "EdgeDivergenceDisplay",
    "FittedReliabilityCurve",
    "LocalCalibrationDisplay",
    "RegionCalibrationDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "ScoreDecompositionDisplay",
    "TrainingHistoryDisplay",
]
