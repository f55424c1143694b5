"""How far predicted probabilities can be trusted: proper scores, binned errors and curves."""

from skcal.metrics._binned_cumulative import binned_cumulative_calibration_error
from skcal.metrics._calibration_test import CalibrationTest
from skcal.metrics._cumulative import cumulative_calibration_error, ks_calibration_error
from skcal.metrics._curve import ReliabilityCurve, reliability_curve
from skcal.metrics._decision_curve import DecisionCurve, decision_curve
from skcal.metrics._decomposition import ScoreDecomposition, score_decomposition
from skcal.metrics._difference import metric_difference
from skcal.metrics._ece import expected_calibration_error
from skcal.metrics._estimate import MetricInterval
from skcal.metrics._groups import GroupCalibration, group_calibration_error
from skcal.metrics._hosmer_lemeshow import hosmer_lemeshow_test
from skcal.metrics._interval import metric_interval
from skcal.metrics._ks_test import ks_test
from skcal.metrics._local import local_calibration_error
from skcal.metrics._mean_cost import mean_cost
from skcal.metrics._mmce import maximum_mean_calibration_error
from skcal.metrics._multicalibration import SegmentCalibration, multicalibration_error
from skcal.metrics._named_errors import adaptive_calibration_error, maximum_calibration_error
from skcal.metrics._proper import brier_score_loss, log_loss
from skcal.metrics._proximity import proximity_informed_calibration_error
from skcal.metrics._ranked import ranked_probability_score
from skcal.metrics._report import calibration_report
from skcal.metrics._report_object import CalibrationReport
from skcal.metrics._resampling_test import resampling_test
from skcal.metrics._risk_coverage import RiskCoverageCurve, risk_coverage_curve
from skcal.metrics._scorers import get_scorer, get_scorer_names
from skcal.metrics._skce import squared_kernel_calibration_error
from skcal.metrics._skill import skill_score
from skcal.metrics._smooth import smooth_calibration_error
from skcal.metrics._spiegelhalter import spiegelhalter_test

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
