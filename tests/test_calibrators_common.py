"""What every calibrator must do, whatever it fits; new ones are found by themselves.

The checks are those of `skcal.testing`; here stand the exceptions, with their reasons, and
what concerns this package alone.
"""

import inspect
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import softmax

import skcal.calibration
from skcal.calibration import BaseCalibrator, LocalCalibrator
from skcal.testing import calibrator_checks
from skcal.testing._local import of_scores_alone
from skcal.testing._tools import draw, draw_proba, fit, log_loss, require_simplex

CALIBRATORS = [
    found
    for found in (getattr(skcal.calibration, name) for name in skcal.calibration.__all__)
    if isinstance(found, type)
    and issubclass(found, BaseCalibrator)
    and not inspect.isabstract(found)
]

# What makes the suite's many small fits cheap.
SETTINGS = {
    "KernelCalibration": {"projection": None, "max_rows": 300},
    "LocalCalibrationNetwork": {"hidden_units": 4, "n_components": 2, "max_epochs": 1},
    "LocalTemperatureScaling": {"hidden": (4,), "early_stopping": False},
    "MultiCalibration": {"n_rounds": 2, "n_trees": 2},
    "ProximityCalibration": {"max_rows": 2000},
    "VQDirichletCalibration": {"n_slots": 2, "n_codewords": 2},
}


def variants():
    """Return how each calibrator is made, by name; the local ones also without a fallback.

    Where they choose between a local map and the temperature, most checks meet the latter.
    """
    ways = {}
    for found in CALIBRATORS:
        settings = SETTINGS.get(found.__name__, {})
        ways[found.__name__] = partial(found, **settings)
        if issubclass(found, LocalCalibrator):
            ways[f"{found.__name__}, local"] = partial(found, **settings, fallback=False)
    return ways


VARIANTS = variants()
CHECKS = {check.__name__: check for check in calibrator_checks()}

# Checks that a calibrator fails, and why it may. One that passes after all is an error.
ONE_NUMBER = "a bin has one answer: 15 of them cannot be as fine as the scores"
KEPT = "without a fallback, a map of few rows is noisy; with it, it is not used here"
ONE_BIN = "a bin has one answer, and here holds rows of both classes"
FOLDS = "chooses by cross-validation, whose folds hold rows"
CHANCE = "trained on batches drawn from the rows, and stopped by some that are held out"
TIES = "chooses by cross-validation, whose folds are others where few digits make scores equal"
SHIFT = "learns the shares of the classes only, not how sure the scores may be"
EXPECTED_FAILURES = {
    "AutoCalibration": {
        "check_weights_equal_repetition": FOLDS,
    },
    "HistogramBinning": {
        "check_calibrated_scores_stay_as_they_are": ONE_NUMBER,
        "check_separable_rows_keep_their_class": ONE_BIN,
    },
    "IdentityCalibration": {
        "check_overconfident_scores_are_mended": "learns nothing",
        "check_logits_of_any_size": "learns nothing",
        "check_one_hot_rows": "learns nothing: of three classes, a one and two zeros say 1/2",
    },
    "KernelCalibration": {
        "check_weights_equal_repetition": FOLDS,
    },
    "KernelCalibration, local": {
        "check_weights_equal_repetition": "where the bandwidth is chosen, rows vote for copies",
        "check_calibrated_scores_stay_as_they_are": KEPT,
    },
    "LocalCalibrationNetwork": {
        "check_weights_equal_repetition": CHANCE,
        "check_permuted_classes": CHANCE,
    },
    "LocalCalibrationNetwork, local": {
        "check_weights_equal_repetition": CHANCE,
        "check_permuted_classes": CHANCE,
        "check_own_rows_are_not_made_worse": CHANCE,
    },
    "MultiCalibration": {
        "check_weights_equal_repetition": FOLDS,
        "check_float32_and_float16": TIES,
    },
    "ProximityCalibration, local": {
        "check_logits_of_any_size": KEPT,
        "check_own_rows_are_not_made_worse": KEPT,
        "check_calibrated_scores_stay_as_they_are": KEPT,
    },
    "PriorCorrection": {
        "check_overconfident_scores_are_mended": SHIFT,
        "check_logits_of_any_size": SHIFT,
        "check_one_hot_rows": SHIFT,
    },
    "ScalingBinning": {
        "check_calibrated_scores_stay_as_they_are": ONE_NUMBER,
        "check_separable_rows_keep_their_class": ONE_BIN,
        "check_own_rows_are_not_made_worse": "a bin's mean is the curve's, not the labels'",
    },
    "StructuredMatrixScaling": {
        "check_ranking_of_two_classes_is_kept": (
            "the published method: 40 separable rows have a temperature near 0, and all rows of "
            "a class are then mixed with the uniform to the same answer"
        ),
    },
    "VQDirichletCalibration": {
        "check_weights_equal_repetition": FOLDS,
    },
}

# What goes wrong in some libraries, and the checks that show that it does not here.
PEER_FAULTS = {
    "string or shifted labels: an error, NaN, or values outside [0, 1]": ["check_kinds_of_labels"],
    "labels of a Series go by its index, whose row 0 is missing": ["check_containers_of_labels"],
    "tables are refused, or their index is read": ["check_containers_of_scores"],
    "a class absent at calibration: an index error, or a column lost": [
        "check_missing_class",
        "check_single_class",
    ],
    "weights are accepted and ignored, or differ from repetition": [
        "check_weights_equal_repetition",
        "check_weight_zero_equals_absence",
    ],
    "negative weights are accepted": ["check_senseless_weights_are_refused"],
    "a class whose weights are all zero is lost": ["check_class_without_weight"],
    "cannot be cloned, or a clone shares state": [
        "check_clone_is_unfitted",
        "check_parameters_can_be_set",
    ],
    "cannot be pickled": ["check_pickle_keeps_the_answers"],
    "float32 input: nothing is learned": ["check_float32_and_float16"],
    "float32 rows of many classes miss a sum of one": ["check_float32_rows_of_100_classes"],
    "NaN in, numbers out": ["check_scores_that_are_not_finite_are_refused"],
    "logits are read as probabilities without a word": [
        "check_logits_given_as_probabilities_are_refused"
    ],
    "rows that sum to 1.001, or float16 rows, are re-read as logits": [
        "check_rows_that_miss_one_are_refused",
        "check_rows_that_miss_one_by_rounding_are_rescaled",
        "check_scores_are_what_is_declared",
    ],
    "one such row changes all the others": ["check_one_row_off_leaves_the_others"],
    "two columns in, one column out": ["check_spellings_of_two_classes"],
    "exact zeros and ones: infinite log-loss": [
        "check_one_hot_rows",
        "check_separable_rows",
        "check_votes_with_zeros",
        "check_zeros_and_ones_unseen_in_fit",
    ],
    "rows of the answer do not sum to one": ["check_separable_rows", "check_numbers_of_classes"],
    "a dozen rows give NaN": ["check_numbers_of_rows"],
    "saturated scores: the temperature diverges, or turns negative": [
        "check_saturated_scores_do_not_diverge"
    ],
    "worse than no calibration on its own rows": ["check_own_rows_are_not_made_worse"],
    "ties undo the ranking": ["check_ranking_of_two_classes_is_kept"],
    "warnings, numpy errors or number types are switched for the whole process": [
        "check_process_is_left_alone"
    ],
}


def cases():
    """Return every pair of a calibrator and a check, failures that are expected marked."""
    pairs = []
    for variant, make in VARIANTS.items():
        for name, check in CHECKS.items():
            reason = EXPECTED_FAILURES.get(variant, {}).get(name)
            mark = pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)
            marks = [mark] if reason else []
            pairs.append(pytest.param(make, check, marks=marks, id=f"{variant}-{name}"))
    return pairs


@pytest.mark.filterwarnings("ignore:ProximityCalibration needs")  # without a fallback
@pytest.mark.parametrize(("make", "check"), cases())
def test_common_checks(make, check):
    check(make())


def test_the_tables_name_what_exists():
    names = {found.__name__ for found in CALIBRATORS}
    assert names >= {"TemperatureScaling", "PlattScaling", "IsotonicCalibration"}
    assert SETTINGS.keys() <= names
    assert EXPECTED_FAILURES.keys() <= VARIANTS.keys()
    for checks in [*EXPECTED_FAILURES.values(), *PEER_FAULTS.values()]:
        assert set(checks) <= CHECKS.keys()


@pytest.fixture(params=VARIANTS)
def calibrator_class(request):
    """Return a constructor; that of a local calibrator asks for scores only."""

    def make(**parameters):
        return of_scores_alone(VARIANTS[request.param](**parameters))

    make.__name__ = VARIANTS[request.param].func.__name__
    return make


# --- Size --------------------------------------------------------------------------------------

# The size of local ones is measured in benchmarks, on features that mean something.
GLOBAL = [name for name, make in VARIANTS.items() if not issubclass(make.func, LocalCalibrator)]


@pytest.mark.slow
@pytest.mark.parametrize("calibrator_class", GLOBAL, indirect=True)
def test_a_million_rows(calibrator_class):
    proba, y = draw_proba(1_000_000, 3, temperature=1.5)
    answer = calibrator_class().fit(proba, y).predict_proba(proba)
    require_simplex(answer, 1_000_000, 3)
    assert log_loss(y, answer) <= log_loss(y, proba) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("calibrator_class", GLOBAL, indirect=True)
def test_many_classes_cost_time_in_proportion(calibrator_class):
    # 200 x 20,000 values: per-row Python, or a table of rows x classes x classes, would not end.
    proba, y = draw_proba(20_000, 200)
    require_simplex(calibrator_class().fit(proba, y).predict_proba(proba), 20_000, 200)


# --- What zero stands for ----------------------------------------------------------------------


def test_eps_is_half_of_the_smallest_share(calibrator_class):
    rng = np.random.default_rng(0)
    proba, y = draw_proba(300, 3)
    votes = np.array([rng.multinomial(40, row) / 40 for row in proba])
    assert calibrator_class().fit(votes, y).eps_ == pytest.approx(1 / 80)


def test_zeros_without_weight_say_nothing(calibrator_class):
    proba, y = draw_proba(100, 2)
    with_zeros = np.vstack([proba, np.eye(2)])
    weights = np.r_[np.ones(100), 0, 0]
    calibrator = calibrator_class().fit(with_zeros, np.r_[y, 0, 1], weights)
    assert calibrator.eps_ == calibrator_class().fit(proba, y).eps_ < 1e-30


def test_eps_is_what_zero_stands_for(calibrator_class):
    proba, y = draw_proba(300, 2)
    calibrator = calibrator_class(eps=1e-3).fit(proba[:, 1], y)
    assert calibrator.eps_ == 1e-3
    zero, small = calibrator.predict_proba([0.0, 1e-12])
    assert_allclose(small, zero, rtol=1e-9)


def test_a_given_eps_is_put_in_the_place_of_zero():
    proba, y = draw_proba(300, 2)
    identity = skcal.calibration.IdentityCalibration(eps=1e-3).fit(proba, y)
    assert_allclose(identity.predict_proba([0.0]), [[1 / 1.001, 1e-3 / 1.001]], rtol=1e-12)


# --- The words for mistakes --------------------------------------------------------------------


def test_parameters_are_checked(calibrator_class):
    proba, y = draw_proba(100, 3)
    with pytest.raises(ValueError, match=r"'input' parameter of .* must be"):
        calibrator_class(input="scores").fit(proba, y)
    for eps in (0.0, 1.0, "small"):
        with pytest.raises(ValueError, match=r"'eps' parameter of .* must be"):
            calibrator_class(eps=eps).fit(proba, y)


def with_row(row, values):
    proba, _ = draw_proba(50, 3)
    proba[row] = values
    return proba


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        (with_row(7, [0.5, 0.3, 0.201]), ValueError, r"must sum to 1; row 7 sums to 1\.001"),
        (with_row(31, [0.5, np.nan, 0.5]), ValueError, "NaN in row 31"),
        (with_row(31, [0.5, -np.inf, 0.5]), ValueError, "infinity in row 31"),
        (with_row(3, [3.0, 1.0, -4.0]), ValueError, r"row 3 is .*input='logits'"),
        (with_row(3, 0.5)[:, :, None], ValueError, r"\(n, K\).* got \(50, 3, 1\)"),
        (with_row(3, 0.5)[:0], ValueError, r"no rows or no columns \(shape \(0, 3\)\)"),
        (with_row(3, 0.5)[:-1] / 2, ValueError, r"row 0 sums to 0\.5"),
        (sparse.csr_matrix(np.eye(3)), TypeError, r"sparse; pass scores\.toarray"),
        ([["a", "b"]] * 50, ValueError, "must be real numbers"),
    ],
)
def test_scores_are_refused_in_plain_words(calibrator_class, scores, error, words):
    proba, y = draw_proba(50, 3)
    with pytest.raises(error, match=words):
        calibrator_class().fit(scores, y)
    calibrator = calibrator_class().fit(proba, y)
    with pytest.raises(error, match=words):
        calibrator.predict_proba(scores)


def test_labels_and_weights_are_refused_in_plain_words(calibrator_class):
    proba, y = draw_proba(50, 3)
    with pytest.raises(ValueError, match=r"2 classes but there are 3 score columns.*classes="):
        calibrator_class().fit(proba, y % 2)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        calibrator_class().fit(proba, y[:-1])
    weights = np.ones(50)
    weights[4] = -1
    with pytest.raises(ValueError, match="must not be negative; row 4 has -1"):
        calibrator_class().fit(proba, y, weights)
    with pytest.raises(ValueError, match="at least one non-zero"):
        calibrator_class().fit(proba, y, np.zeros(50))
    with pytest.raises(ValueError, match=r"sample_weight\.shape == \(49,\)"):
        calibrator_class().fit(proba, y, np.ones(49))


@pytest.mark.parametrize("columns", [2, 4])
def test_the_number_of_columns_is_enforced(calibrator_class, columns):
    calibrator = fit(calibrator_class(), *draw(100, 3), kind="logits")
    message = f"{calibrator_class.__name__} was fitted on 3 score columns; these scores have"
    with pytest.raises(ValueError, match=message):
        calibrator.predict_proba(np.zeros((5, columns)))


def test_weights_that_sum_to_one_warn_that_they_count_rows():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    y = rng.random(400) < 1 / (1 + np.exp(-odds))
    with pytest.warns(UserWarning, match="these sum to 1 for 400 rows"):
        skcal.calibration.TemperatureScaling(input="logits").fit(odds, y, np.full(400, 1 / 400))


# --- The suite's own tools ---------------------------------------------------------------------


def test_drawn_labels_follow_their_probabilities():
    logits, y = draw(200_000, 3, temperature=2.0)
    true = softmax(logits / 2, axis=1)
    assert_allclose(true.mean(axis=0), np.bincount(y) / 200_000, atol=0.004)
    sure = true.max(axis=1) > 0.9
    hit = true[sure].argmax(axis=1) == y[sure]
    assert hit.mean() == pytest.approx(true[sure].max(axis=1).mean(), abs=0.012)
