"""What every calibrator must do, whatever it fits; new ones are found by themselves."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

import skcal.calibration
from skcal.calibration import BaseCalibrator, IdentityCalibration

CALIBRATORS = [
    found
    for found in (getattr(skcal.calibration, name) for name in skcal.calibration.__all__)
    if isinstance(found, type)
    and issubclass(found, BaseCalibrator)
    and not inspect.isabstract(found)
]
LEARNING = [found for found in CALIBRATORS if found is not IdentityCalibration]
# Maps that treat all classes alike: renaming the columns renames the answer.
SYMMETRIC = CALIBRATORS


def draw(n, k, *, seed=0, temperature=1.0, spread=2.0):
    """Draw logits, and labels for which logits / temperature are the true logits."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    true = softmax(logits / temperature, axis=1)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    y[:k] = np.arange(k)  # every class has a row
    return logits, y


def check_simplex(proba, n, k):
    assert proba.shape == (n, k)
    assert proba.dtype == np.float64
    assert np.isfinite(proba).all()
    assert (proba > 0).all()
    assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


def test_calibrators_are_found():
    assert {found.__name__ for found in CALIBRATORS} >= {
        "TemperatureScaling",
        "PlattScaling",
        "IsotonicCalibration",
    }


@pytest.fixture(params=CALIBRATORS, ids=lambda found: found.__name__)
def calibrator_class(request):
    return request.param


@pytest.fixture(params=LEARNING, ids=lambda found: found.__name__)
def learning_class(request):
    return request.param


# --- What it is for ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_overconfident_scores_are_mended(learning_class, k):
    logits, y = draw(5000, k, temperature=3.0)
    fresh, fresh_y = draw(5000, k, temperature=3.0, seed=1)
    calibrated = learning_class(input="logits").fit(logits, y).predict_proba(fresh)
    best = log_loss(fresh_y, softmax(fresh / 3, axis=1))
    assert log_loss(fresh_y, calibrated) < best + 0.02
    assert log_loss(fresh_y, softmax(fresh, axis=1)) > best + 0.15


@pytest.mark.parametrize("k", [2, 3])
def test_calibrated_scores_stay_nearly_as_they_are(calibrator_class, k):
    logits, y = draw(20_000, k)
    fresh, fresh_y = draw(5000, k, seed=1)
    before = softmax(fresh, axis=1)
    after = calibrator_class(input="logits").fit(logits, y).predict_proba(fresh)
    assert np.abs(after - before).mean() < 0.015
    assert log_loss(fresh_y, after) < log_loss(fresh_y, before) + 0.005


# --- Shapes, classes and sizes ---------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 26, 150])
def test_rows_are_probabilities(calibrator_class, k):
    logits, y = draw(600, k)
    calibrator = calibrator_class(input="logits").fit(logits, y)
    check_simplex(calibrator.predict_proba(logits[:50]), 50, k)


@pytest.mark.parametrize("n", [10, 100, 100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_any_number_of_rows(learning_class, n):
    logits, y = draw(n, 3, temperature=1.5)
    calibrator = learning_class(input="logits").fit(logits, y)
    check_simplex(calibrator.predict_proba(logits), n, 3)
    assert calibrator.loss_ < calibrator.baseline_loss_


def test_many_classes_cost_time_in_proportion(calibrator_class):
    # 200 x 20,000 values: quadratic cost in the classes would take half a minute.
    logits, y = draw(20_000, 200)
    calibrator = calibrator_class(input="logits").fit(logits, y)
    check_simplex(calibrator.predict_proba(logits), 20_000, 200)


def test_a_class_without_rows_has_a_column_if_classes_are_named(calibrator_class):
    logits, y = draw(300, 3)
    logits, y = logits[y != 1], y[y != 1]
    with pytest.raises(ValueError, match=r"2 classes but there are 3 score columns.*classes="):
        calibrator_class(input="logits").fit(logits, y)
    calibrator = calibrator_class(input="logits").fit(logits, y, classes=[0, 1, 2])
    assert_array_equal(calibrator.classes_, [0, 1, 2])
    check_simplex(calibrator.predict_proba(logits), len(y), 3)


@pytest.mark.parametrize("only", [0, 1])
def test_rows_of_a_single_class(calibrator_class, only):
    logits, _ = draw(50, 2)
    logits[:, only] += 2  # which the scores expect
    calibrator = calibrator_class(input="logits").fit(logits, [only] * 50, classes=[0, 1])
    check_simplex(calibrator.predict_proba(logits), 50, 2)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["cat", "dog", "eel"]),
        np.array(["cat", "dog", "eel"], dtype=object),
        np.array([-7, 0, 3]),
        np.array([10, 20, 30]),
        np.array([0, 1, 10**9]),
        np.array([1.0, 2.0, 5.0]),
    ],
    ids=["str", "object", "negative", "tens", "sparse", "whole floats"],
)
def test_labels_of_any_kind(calibrator_class, names):
    logits, codes = draw(300, 3)
    expected = calibrator_class(input="logits").fit(logits, codes).predict_proba(logits)
    calibrator = calibrator_class(input="logits").fit(logits, names[codes])
    assert_array_equal(calibrator.classes_, names)
    assert_array_equal(calibrator.predict_proba(logits), expected)
    assert_array_equal(calibrator.predict(logits), names[expected.argmax(axis=1)])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda codes: codes.astype(bool),
        lambda codes: codes.tolist(),
        lambda codes: codes[:, None],
        lambda codes: pd.Series(codes, dtype="Int64"),
        lambda codes: pd.Series(codes.astype(bool), dtype="boolean"),
        lambda codes: pd.Categorical.from_codes(codes, ["a", "b"]),
        lambda codes: pd.Series(pd.Categorical.from_codes(codes, ["a", "b", "unused"])),
        lambda codes: pd.Series(codes, index=np.random.default_rng(0).permutation(len(codes))),
        lambda codes: torch.tensor(codes),
    ],
    ids=[
        "bool",
        "list",
        "column",
        "Int64",
        "boolean",
        "Categorical",
        "unused level",
        "shuffled index",
        "tensor",
    ],
)
def test_containers_of_labels(calibrator_class, wrap):
    logits, codes = draw(300, 2)
    expected = calibrator_class(input="logits").fit(logits, codes)
    calibrator = calibrator_class(input="logits").fit(logits, wrap(codes))
    assert len(calibrator.classes_) == 2
    assert_array_equal(calibrator.predict_proba(logits), expected.predict_proba(logits))


def test_columns_may_be_in_any_declared_order(calibrator_class):
    logits, codes = draw(300, 3)
    names = np.array(["lo", "mid", "hi"])  # not sorted
    calibrator = calibrator_class(input="logits").fit(logits, names[codes], classes=names)
    assert_array_equal(calibrator.classes_, names)
    expected = calibrator_class(input="logits").fit(logits, codes).predict_proba(logits)
    assert_array_equal(calibrator.predict_proba(logits), expected)
    assert_array_equal(calibrator.predict(logits), names[expected.argmax(axis=1)])


@pytest.mark.parametrize("found", SYMMETRIC, ids=lambda found: found.__name__)
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("saturated", [False, True])
def test_permuting_the_classes_permutes_the_answer(found, k, saturated):
    logits, y = draw(400, k, spread=40.0 if saturated else 2.0, temperature=20.0)
    proba = softmax(logits, axis=1)
    order = np.random.default_rng(1).permutation(k) if k > 2 else np.array([1, 0])
    before = found().fit(proba, y).predict_proba(proba)
    after = found().fit(proba[:, order], y, classes=order).predict_proba(proba[:, order])
    assert_allclose(after, before[:, order], rtol=1e-6, atol=1e-9)


# --- Spellings of the same scores --------------------------------------------------------------


def test_three_spellings_of_two_class_probabilities_agree(calibrator_class):
    logits, y = draw(300, 2)
    p = softmax(logits, axis=1)[:, 1]
    spellings = [p, p[:, None], np.column_stack([1 - p, p])]
    for fitted in spellings:
        calibrator = calibrator_class().fit(fitted, y)
        assert calibrator.n_features_in_ == 2
        answers = [calibrator.predict_proba(scores) for scores in spellings]
        assert_allclose(answers[0], calibrator_class().fit(p, y).predict_proba(p), atol=1e-12)
        assert_allclose(answers[1], answers[0], atol=1e-12)
        assert_allclose(answers[2], answers[0], atol=1e-12)
    # A single column is the second class: more of it means more of that class.
    assert np.corrcoef(answers[0][:, 1], p)[0, 1] > 0.8


def test_three_spellings_of_two_class_logits_agree(calibrator_class):
    logits, y = draw(300, 2)
    odds = logits[:, 1] - logits[:, 0]
    spellings = [odds, odds[:, None], np.column_stack([-odds / 2, odds / 2]), logits]
    answers = [
        calibrator_class(input="logits").fit(scores, y).predict_proba(scores)
        for scores in spellings
    ]
    for answer in answers[1:]:
        assert_allclose(answer, answers[0], atol=1e-12)


@pytest.mark.parametrize("k", [2, 5])
def test_logits_and_their_softmax_agree(calibrator_class, k):
    logits, y = draw(400, k)
    from_logits = calibrator_class(input="logits").fit(logits, y).predict_proba(logits)
    proba = softmax(logits, axis=1)
    assert_allclose(calibrator_class().fit(proba, y).predict_proba(proba), from_logits, atol=1e-9)
    log_proba = log_softmax(logits, axis=1)
    as_log = calibrator_class(input="logits").fit(log_proba, y).predict_proba(log_proba)
    assert_allclose(as_log, from_logits, atol=1e-9)


def test_logits_between_0_and_1_are_not_taken_for_probabilities(calibrator_class):
    logits, y = draw(400, 3, temperature=0.1)
    small = softmax(logits, axis=1)  # could be either, and is said to be logits
    calibrator = calibrator_class(input="logits").fit(small, y)
    assert calibrator.baseline_loss_ == pytest.approx(log_loss(y, softmax(small, axis=1)))


@pytest.mark.parametrize(
    ("wrap", "tolerance"),
    [
        (lambda p: p.tolist(), 1e-12),
        (lambda p: pd.DataFrame(p, index=range(len(p), 0, -1)), 1e-12),
        (lambda p: torch.tensor(p), 1e-12),
        (lambda p: torch.tensor(p, requires_grad=True), 1e-12),
        (lambda p: np.asfortranarray(p), 1e-12),
        (lambda p: p.astype(np.longdouble), 1e-12),
        (lambda p: p.astype(np.float32), 1e-5),
        (lambda p: torch.tensor(p).float(), 1e-5),
        (lambda p: p.astype(np.float16), 5e-3),
    ],
    ids=[
        "list",
        "DataFrame",
        "tensor",
        "tensor with gradient",
        "fortran",
        "longdouble",
        "float32",
        "float32 tensor",
        "float16",
    ],
)
def test_containers_of_scores(calibrator_class, wrap, tolerance):
    logits, y = draw(400, 3)
    proba = softmax(logits, axis=1)
    expected = calibrator_class().fit(proba, y).predict_proba(proba)
    answer = calibrator_class().fit(wrap(proba), y).predict_proba(wrap(proba))
    check_simplex(answer, 400, 3)
    assert np.abs(answer - expected).mean() < tolerance


def test_one_row_is_answered_as_in_a_batch(calibrator_class):
    logits, y = draw(200, 3)
    proba = softmax(logits, axis=1)
    calibrator = calibrator_class().fit(proba, y)
    batch = calibrator.predict_proba(proba)
    for row in (0, 17):
        assert_allclose(calibrator.predict_proba(proba[row : row + 1])[0], batch[row], rtol=1e-12)


# --- Rows that are nearly, or not, probabilities -----------------------------------------------


def test_rows_that_miss_one_are_refused_in_float64(calibrator_class):
    logits, y = draw(50, 3)
    proba = softmax(logits, axis=1)
    off = proba.copy()
    off[7] *= 1.001
    with pytest.raises(ValueError, match=r"must sum to 1; row 7 sums to 1\.001"):
        calibrator_class().fit(off, y)
    calibrator = calibrator_class().fit(proba, y)
    with pytest.raises(ValueError, match=r"must sum to 1; row 7 sums to 1\.001"):
        calibrator.predict_proba(off)


@pytest.mark.parametrize(("dtype", "miss"), [(np.float32, 1e-4), (np.float16, 5e-3)])
def test_rows_that_miss_one_by_rounding_are_rescaled(calibrator_class, dtype, miss):
    logits, y = draw(300, 3)
    proba = softmax(logits, axis=1)
    off = (proba * (1 + miss)).astype(dtype)
    assert np.abs(off.sum(axis=1, dtype=np.float64) - 1).max() > miss / 2
    rescaled = off / off.sum(axis=1, keepdims=True, dtype=np.float64)
    expected = calibrator_class().fit(rescaled, y)
    calibrator = calibrator_class().fit(off, y)
    assert_allclose(calibrator.predict_proba(off), expected.predict_proba(rescaled), atol=1e-9)
    assert calibrator.baseline_loss_ == pytest.approx(log_loss(y, rescaled))


def test_one_row_off_does_not_change_the_others(calibrator_class):
    logits, y = draw(50, 3)
    proba = softmax(logits, axis=1).astype(np.float32)
    calibrator = calibrator_class().fit(proba, y)
    before = calibrator.predict_proba(proba)
    proba[7] *= np.float32(1.0005)
    after = calibrator.predict_proba(proba)
    assert_array_equal(np.delete(after, 7, axis=0), np.delete(before, 7, axis=0))
    assert_allclose(after[7], before[7], atol=1e-6)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
@pytest.mark.parametrize("kind", ["proba", "logits"])
def test_scores_that_are_not_finite_are_refused_by_row(calibrator_class, value, words, kind):
    logits, y = draw(50, 3)
    good = softmax(logits, axis=1)
    bad = good.copy()
    bad[31, 1] = value
    with pytest.raises(ValueError, match=rf"{words} in row 31"):
        calibrator_class(input=kind).fit(bad, y)
    calibrator = calibrator_class(input=kind).fit(good, y)
    with pytest.raises(ValueError, match=rf"{words} in row 31"):
        calibrator.predict_proba(bad)


@pytest.mark.parametrize("row", [[-0.2, 0.6, 0.6], [1.5, -0.3, -0.2], [3.0, 1.0, -4.0]])
def test_logits_given_as_probabilities_are_refused_by_row(calibrator_class, row):
    logits, y = draw(50, 3)
    proba = softmax(logits, axis=1)
    proba[3] = row
    with pytest.raises(ValueError, match=r"row 3 is .*input='logits'"):
        calibrator_class().fit(proba, y)


def test_sparse_scores_and_wrong_shapes_are_refused(calibrator_class):
    logits, y = draw(50, 3)
    calibrator = calibrator_class(input="logits")
    with pytest.raises(TypeError, match=r"sparse; pass scores\.toarray"):
        calibrator.fit(sparse.csr_matrix(logits), y)
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, K\).* got \(50, 3, 1\)"):
        calibrator.fit(logits[:, :, None], y)
    with pytest.raises(ValueError, match=r"no rows or no columns \(shape \(0, 3\)\)"):
        calibrator.fit(logits[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        calibrator.fit(logits, y[:-1])
    with pytest.raises(ValueError, match="must be real numbers"):
        calibrator.fit([["a", "b"], ["c", "d"]], [0, 1])


# --- Zeros and ones ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, int])
def test_one_hot_rows_of_which_a_fifth_are_wrong(learning_class, k, dtype):
    rng = np.random.default_rng(0)
    said = rng.integers(0, k, 500)
    y = np.where(rng.random(500) < 0.2, (said + rng.integers(1, k, 500)) % k, said)
    scores = np.eye(k, dtype=dtype)[said]
    proba = learning_class().fit(scores, y).predict_proba(scores)
    check_simplex(proba, 500, k)
    # The best possible: each row says how often it was right.
    right = (said == y).mean()
    best = -right * np.log(right) - (1 - right) * np.log((1 - right) / (k - 1))
    assert log_loss(y, proba) < min(0.75, best + 0.1)


def test_zeros_of_a_vote_do_not_ruin_the_fit(calibrator_class):
    # 40 votes: a share of zero says less than a fortieth, not 1e-308.
    def vote(seed):
        rng = np.random.default_rng(seed)
        logits, y = draw(3000, 3, seed=seed)
        return np.array([rng.multinomial(40, row) / 40 for row in softmax(logits, axis=1)]), y

    votes, y = vote(0)
    fresh, fresh_y = vote(1)
    assert (votes[np.arange(len(y)), y] == 0).sum() > 5
    calibrator = calibrator_class().fit(votes, y)
    assert calibrator.eps_ == pytest.approx(1 / 80)
    smoothed = (fresh + 1 / 80) / (1 + 3 / 80)
    assert log_loss(fresh_y, calibrator.predict_proba(fresh)) < log_loss(fresh_y, smoothed) + 0.02


def test_zeros_without_weight_say_nothing(calibrator_class):
    logits, y = draw(100, 2)
    proba = softmax(logits, axis=1)
    with_zeros = np.vstack([proba, np.eye(2)])
    weights = np.r_[np.ones(100), 0, 0]
    calibrator = calibrator_class().fit(with_zeros, np.r_[y, 0, 1], weights)
    assert calibrator.eps_ == calibrator_class().fit(proba, y).eps_ < 1e-30


def test_eps_is_what_zero_stands_for(calibrator_class):
    logits, y = draw(300, 2)
    p = softmax(logits, axis=1)[:, 1]
    calibrator = calibrator_class(eps=1e-3).fit(p, y)
    assert calibrator.eps_ == 1e-3
    zero, small, eps = calibrator.predict_proba([0.0, 1e-9, 1e-3])
    assert_allclose(zero, eps, rtol=2e-3)
    assert_allclose(small, zero, rtol=1e-9)


def test_separable_rows_never_make_the_log_loss_infinite(calibrator_class):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], 20))
    for scores in (np.eye(3)[y], softmax(12 * np.eye(3)[y] + rng.random((60, 3)), axis=1)):
        calibrator = calibrator_class().fit(scores, y)
        proba = calibrator.predict_proba(scores)
        check_simplex(proba, 60, 3)
        assert_array_equal(calibrator.predict(scores), y)
        # Held-out rows that are wrong, as they would be one day.
        assert np.isfinite(log_loss((y + 1) % 3, proba, labels=[0, 1, 2]))
        assert -np.log(proba.min()) < 30


@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1e2, 1e5])
def test_scores_of_any_size(learning_class, scale):
    logits, y = draw(1000, 3)
    plain = learning_class(input="logits").fit(logits, y)
    calibrator = learning_class(input="logits").fit(scale * logits, y)
    check_simplex(calibrator.predict_proba(scale * logits), 1000, 3)
    check_simplex(calibrator.predict_proba(1e4 * scale * logits), 1000, 3)  # far outside
    assert calibrator.loss_ < plain.loss_ + 0.03


def test_scores_that_say_nothing(calibrator_class):
    y = np.repeat([0, 1, 2], 50)
    calibrator = calibrator_class(input="logits").fit(np.zeros((150, 3)), y)
    assert_allclose(calibrator.predict_proba(np.zeros((1, 3))), [[1 / 3] * 3], atol=0.01)
    check_simplex(calibrator.predict_proba([[1.0, 0.0, -1.0]]), 1, 3)


# --- Weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_weights_equal_repetition(learning_class, k):
    logits, y = draw(300, k, temperature=2.0)
    repeats = np.random.default_rng(3).integers(0, 4, 300)
    repeats[:k] = 1
    weighted = learning_class(input="logits").fit(logits, y, repeats)
    repeated = learning_class(input="logits").fit(
        np.repeat(logits, repeats, axis=0), np.repeat(y, repeats)
    )
    plain = learning_class(input="logits").fit(logits, y)
    answer = weighted.predict_proba(logits)
    assert_allclose(answer, repeated.predict_proba(logits), atol=1e-9)
    assert weighted.loss_ == pytest.approx(repeated.loss_, abs=1e-9)
    assert np.abs(answer - plain.predict_proba(logits)).max() > 1e-3


def test_weight_zero_equals_absence(calibrator_class):
    logits, y = draw(300, 3)
    wild = np.vstack([logits, 500 * np.eye(3)])
    weights = np.r_[np.ones(300), np.zeros(3)]
    with_wild = calibrator_class(input="logits").fit(wild, np.r_[y, 1, 2, 0], weights)
    without = calibrator_class(input="logits").fit(logits, y)
    assert_array_equal(with_wild.predict_proba(logits), without.predict_proba(logits))
    assert with_wild.baseline_loss_ == without.baseline_loss_


def test_a_class_without_weight_keeps_its_column(calibrator_class):
    logits, y = draw(300, 3)
    calibrator = calibrator_class(input="logits").fit(logits, y, (y != 1).astype(float))
    check_simplex(calibrator.predict_proba(logits), 300, 3)
    assert_array_equal(calibrator.classes_, [0, 1, 2])


def test_weights_that_make_no_sense_are_refused(calibrator_class):
    logits, y = draw(50, 3)
    calibrator = calibrator_class(input="logits")
    weights = np.ones(50)
    weights[4] = -1
    with pytest.raises(ValueError, match="must not be negative; row 4 has -1"):
        calibrator.fit(logits, y, weights)
    with pytest.raises(ValueError, match="at least one non-zero"):
        calibrator.fit(logits, y, np.zeros(50))
    weights[4] = np.nan
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        calibrator.fit(logits, y, weights)
    with pytest.raises(ValueError, match=r"sample_weight\.shape == \(49,\)"):
        calibrator.fit(logits, y, np.ones(49))


# --- Manners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_what_fit_reports(learning_class, weighted):
    logits, y = draw(500, 3, temperature=2.0)
    proba = softmax(logits, axis=1)
    weights = np.random.default_rng(0).random(500) if weighted else None
    calibrator = learning_class()
    assert calibrator.fit(proba, y, weights) is calibrator
    after = log_loss(y, calibrator.predict_proba(proba), sample_weight=weights)
    assert calibrator.loss_ == pytest.approx(after, abs=1e-12)
    before = log_loss(y, proba, sample_weight=weights)
    assert calibrator.baseline_loss_ == pytest.approx(before, abs=1e-12)
    assert calibrator.loss_ < calibrator.baseline_loss_ - 0.1
    assert calibrator.converged_ is True
    assert isinstance(calibrator.n_iter_, int)
    assert calibrator.n_iter_ >= 1
    assert calibrator.n_features_in_ == 3
    assert_array_equal(calibrator.classes_, [0, 1, 2])


def test_clone_is_unfitted_and_has_the_same_parameters(calibrator_class):
    logits, y = draw(100, 3)
    calibrator = calibrator_class(input="logits", eps=1e-5).fit(logits, y)
    copy = clone(calibrator)
    assert copy.get_params() == calibrator.get_params()
    assert copy.get_params()["eps"] == 1e-5
    with pytest.raises(NotFittedError):
        copy.predict_proba(logits)
    with pytest.raises(NotFittedError):
        copy.predict(logits)
    assert_array_equal(copy.fit(logits, y).predict_proba(logits), calibrator.predict_proba(logits))


def test_pickle_keeps_the_answers(calibrator_class):
    logits, y = draw(100, 3)
    calibrator = calibrator_class(input="logits").fit(logits, y)
    copy = pickle.loads(pickle.dumps(calibrator))
    assert_array_equal(copy.predict_proba(logits), calibrator.predict_proba(logits))


def test_parameters_are_set_and_checked(calibrator_class):
    logits, y = draw(100, 3)
    calibrator = calibrator_class().set_params(input="logits")
    check_simplex(calibrator.fit(logits, y).predict_proba(logits), 100, 3)
    with pytest.raises(ValueError, match=r"'input' parameter of .* must be"):
        calibrator_class(input="scores").fit(logits, y)
    for eps in (0.0, 1.0, "small"):
        with pytest.raises(ValueError, match=r"'eps' parameter of .* must be"):
            calibrator_class(eps=eps).fit(logits, y)


def test_a_second_fit_forgets_the_first(calibrator_class):
    logits, y = draw(100, 3)
    other, other_y = draw(80, 2, seed=1)
    calibrator = calibrator_class(input="logits").fit(logits, y).fit(other, other_y)
    fresh = calibrator_class(input="logits").fit(other, other_y)
    assert_array_equal(calibrator.predict_proba(other), fresh.predict_proba(other))
    assert set(vars(calibrator)) == set(vars(fresh))


@pytest.mark.parametrize("columns", [2, 4])
def test_the_number_of_columns_is_enforced(calibrator_class, columns):
    logits, y = draw(100, 3)
    calibrator = calibrator_class(input="logits").fit(logits, y)
    message = f"{calibrator_class.__name__} was fitted on 3 score columns; these scores have"
    with pytest.raises(ValueError, match=message):
        calibrator.predict_proba(np.zeros((5, columns)))


def test_inputs_and_the_process_are_left_as_they_were(calibrator_class):
    logits, y = draw(200, 3)
    proba = np.vstack([softmax(logits, axis=1), np.eye(3)])
    y = np.r_[y, 1, 2, 0]
    weights = np.ones(len(y))
    kept = [array.copy() for array in (proba, y, weights)]
    for array in (proba, y, weights):
        array.flags.writeable = False
    filters, errors = list(warnings.filters), np.geterr()
    numpy_state = np.random.get_state()  # noqa: NPY002
    torch_state, threads = torch.get_rng_state(), torch.get_num_threads()
    calibrator_class().fit(proba, y, weights).predict_proba(proba)
    assert warnings.filters == filters
    assert np.geterr() == errors
    for before, after in zip(numpy_state, np.random.get_state(), strict=True):  # noqa: NPY002
        assert_array_equal(after, before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert torch.get_num_threads() == threads
    for array, before in zip((proba, y, weights), kept, strict=True):
        assert_array_equal(array, before)


def test_weights_that_sum_to_one_warn_that_they_count_rows():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    y = rng.random(400) < 1 / (1 + np.exp(-odds))
    with pytest.warns(UserWarning, match="these sum to 1 for 400 rows"):
        skcal.calibration.TemperatureScaling(input="logits").fit(odds, y, np.full(400, 1 / 400))
