"""How far predicted probabilities can be trusted.

Everything public is imported from here. A new metric is one file, and one line below. Each part
imports only from the parts above it:

- ``_events``: which predicted probability is held against which event
- ``_bins``: bins of probabilities, and what they hold
- ``_errors``: calibration errors over all rows, with bins and without; the reliability curve
- ``_scores``: proper scores, their skill and decomposition; metrics and scorers by name
- ``_local``: calibration around each row, in sparse regions, in groups and in segments
- ``_intervals``: intervals for a metric and for the difference of two models
- ``_hypothesis_tests``: whether a miscalibration is more than chance
- ``_decisions``: what decisions cost, over thresholds and over coverage
- ``_report``: everything about a set of predictions, in numbers and sentences
"""

from skcal.metrics._decisions.decision_curve import DecisionCurve, decision_curve
from skcal.metrics._decisions.mean_cost import mean_cost
from skcal.metrics._decisions.risk_coverage import RiskCoverageCurve, risk_coverage_curve
from skcal.metrics._errors.binned import expected_calibration_error
from skcal.metrics._errors.binned_cumulative import binned_cumulative_calibration_error
from skcal.metrics._errors.binned_presets import (
    adaptive_calibration_error,
    maximum_calibration_error,
)
from skcal.metrics._errors.cumulative import cumulative_calibration_error, ks_calibration_error
from skcal.metrics._errors.mmce import maximum_mean_calibration_error
from skcal.metrics._errors.reliability_curve import ReliabilityCurve, reliability_curve
from skcal.metrics._errors.skce import squared_kernel_calibration_error
from skcal.metrics._errors.smooth import smooth_calibration_error
from skcal.metrics._hypothesis_tests.hosmer_lemeshow import hosmer_lemeshow_test
from skcal.metrics._hypothesis_tests.kolmogorov_smirnov import ks_test
from skcal.metrics._hypothesis_tests.resampling import resampling_test
from skcal.metrics._hypothesis_tests.result import CalibrationTest
from skcal.metrics._hypothesis_tests.spiegelhalter import spiegelhalter_test
from skcal.metrics._intervals.estimate import MetricInterval
from skcal.metrics._intervals.one_model import metric_interval
from skcal.metrics._intervals.two_models import metric_difference
from skcal.metrics._local.groups import GroupCalibration, group_calibration_error
from skcal.metrics._local.multicalibration import SegmentCalibration, multicalibration_error
from skcal.metrics._local.neighbourhoods import local_calibration_error
from skcal.metrics._local.proximity import proximity_informed_calibration_error
from skcal.metrics._report.calibration_report import calibration_report
from skcal.metrics._report.rendering import CalibrationReport
from skcal.metrics._scores.decomposition import ScoreDecomposition, score_decomposition
from skcal.metrics._scores.proper import brier_score_loss, log_loss, ranked_probability_score
from skcal.metrics._scores.scorers import get_scorer, get_scorer_names
from skcal.metrics._scores.skill import skill_score

__all__ = [
    "CalibrationReport",
    "CalibrationTest",
    "DecisionCurve",
    "GroupCalibration",
    "MetricInterval",
    "ReliabilityCurve",
    "RiskCoverageCurve",
    "ScoreDecomposition",
    "SegmentCalibration",
    "adaptive_calibration_error",
    "binned_cumulative_calibration_error",
    "brier_score_loss",
    "calibration_report",
    "cumulative_calibration_error",
    "decision_curve",
    "expected_calibration_error",
    "get_scorer",
    "get_scorer_names",
    "group_calibration_error",
    "hosmer_lemeshow_test",
    "ks_calibration_error",
    "ks_test",
    "local_calibration_error",
    "log_loss",
    "maximum_calibration_error",
    "maximum_mean_calibration_error",
    "mean_cost",
    "metric_difference",
    "metric_interval",
    "multicalibration_error",
    "proximity_informed_calibration_error",
    "ranked_probability_score",
    "reliability_curve",
    "resampling_test",
    "risk_coverage_curve",
    "score_decomposition",
    "skill_score",
    "smooth_calibration_error",
    "spiegelhalter_test",
    "squared_kernel_calibration_error",
]
