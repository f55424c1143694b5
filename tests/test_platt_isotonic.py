"""Platt scaling and isotonic calibration against scikit-learn and against hand-made fits."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.svm import LinearSVC

from skcal import CalibratedClassifier
from skcal.calibration import IsotonicCalibration, PlattScaling


def draw_binary(n, *, seed=0, slope=1.0, intercept=0.0, spread=2.0):
    """Draw log-odds, and labels whose true log-odds are slope * log-odds + intercept."""
    rng = np.random.default_rng(seed)
    odds = spread * rng.normal(size=n)
    y = (rng.random(n) < expit(slope * odds + intercept)).astype(int)
    y[:2] = 0, 1
    return odds, y


def draw_classes(n, k, *, seed=0, temperature=1.0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    true = softmax(logits / temperature, axis=1)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    y[:k] = np.arange(k)
    return logits, y


def platt_targets(y, weights):
    """Platt's smoothed targets, written down anew."""
    positive, negative = weights[y == 1].sum(), weights[y == 0].sum()
    return np.where(y == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))


def platt_loss(line, odds, targets, weights):
    q = expit(line[0] * odds + line[1])
    return -np.average(targets * np.log(q) + (1 - targets) * np.log1p(-q), weights=weights)


# --- Platt scaling -----------------------------------------------------------------------------


@pytest.mark.parametrize("base", [LinearSVC(C=0.01), LogisticRegression()], ids=["margins", "odds"])
def test_platt_equals_scikit_learn_on_decision_functions(base):
    X, y = make_classification(1500, 8, n_informative=4, flip_y=0.2, random_state=0)
    frozen = FrozenEstimator(base.fit(X[:500], y[:500]))
    ours = CalibratedClassifier(frozen, PlattScaling(shrinkage=0)).fit(X[500:], y[500:])
    theirs = CalibratedClassifierCV(frozen, method="sigmoid").fit(X[500:], y[500:])
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    # scikit-learn's line falls with the score: q = 1 / (1 + exp(a * s + b)).
    line = theirs.calibrated_classifiers_[0].calibrators[0]
    platt = ours.calibrated_classifiers_[0].calibrator
    assert platt.coef_[0] == pytest.approx(-line.a_, rel=1e-3)
    assert platt.intercept_[0] == pytest.approx(-line.b_, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_platt_equals_an_independent_optimiser(scale):
    odds, y = draw_binary(400, slope=0.5, intercept=-1)
    weights = np.random.default_rng(1).exponential(size=400)
    best = minimize(platt_loss, [0.0, 0.0], (odds, platt_targets(y, weights), weights), tol=1e-10).x
    platt = PlattScaling(shrinkage=0, input="logits").fit(scale * odds, y, weights)
    assert platt.coef_[0] * scale == pytest.approx(best[0], rel=1e-5)
    assert platt.intercept_[0] == pytest.approx(best[1], rel=1e-5)
    assert_allclose(
        platt.predict_proba(scale * odds)[:, 1], expit(best[0] * odds + best[1]), atol=1e-6
    )


@given(
    st.integers(0, 10**6),
    st.sampled_from([1e-4, 1.0, 30.0, 1e6]),
    st.sampled_from([0.0, 3.0, -50.0]),
    st.sampled_from([1.0, 2.0, 20.0]),
)
@settings(max_examples=80, deadline=None)
def test_platt_always_reaches_the_optimum(seed, scale, shift, tail):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    odds = np.sign(rng.normal(size=n)) * np.abs(rng.normal(size=n)) ** tail
    odds = scale * (odds / np.sqrt(np.mean(odds**2)) + shift)
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    platt = PlattScaling(shrinkage=0, input="logits").fit(odds, y)  # a warning would be an error
    # At the optimum the residuals are orthogonal to the scores and sum to zero.
    residual = platt.predict_proba(odds)[:, 1] - platt_targets(y, np.ones(n))
    unit = odds / np.sqrt(np.mean(odds**2))
    assert platt.converged_
    assert platt.n_iter_ < 40
    assert abs(np.mean(residual)) < 1e-6
    assert abs(np.mean(residual * unit)) < 1e-6


def test_platt_finds_the_true_line():
    odds, y = draw_binary(100_000, slope=0.5, intercept=-1)
    platt = PlattScaling(shrinkage=0, input="logits").fit(odds, y)
    assert_allclose([platt.coef_[0], platt.intercept_[0]], [0.5, -1], atol=0.03)


def test_platt_contains_the_identity():
    # Each score with both labels, in the shares that it says, and so many rows that the
    # smoothing of the targets is nothing.
    odds = np.linspace(-3, 3, 21)
    weights = 1e9 * np.r_[expit(odds), expit(-odds)]
    y = np.r_[np.ones(21), np.zeros(21)]
    platt = PlattScaling(shrinkage=0).fit(expit(np.r_[odds, odds]), y, weights)
    assert_allclose([platt.coef_[0], platt.intercept_[0]], [1, 0], atol=1e-6)


def test_platt_stays_finite_on_separable_rows():
    odds = np.r_[np.linspace(-4, -1, 30), np.linspace(1, 4, 30)]
    y = np.repeat([0, 1], 30)
    platt = PlattScaling(shrinkage=0, input="logits").fit(odds, y)
    assert 1 < platt.coef_[0] < 10
    assert platt.converged_
    # The nearest rows are right with about the smoothed share, 31 of 32.
    assert 0.8 < platt.predict_proba([1.0])[0, 1] < 0.999
    assert log_loss([0], platt.predict_proba([2.5]), labels=[0, 1]) < 15


def test_platt_turns_a_reversed_score_round():
    odds, y = draw_binary(2000)
    platt = PlattScaling(shrinkage=0, input="logits").fit(-odds, y)
    assert platt.coef_[0] == pytest.approx(-1, abs=0.15)


def test_platt_with_more_classes_is_one_curve_per_class():
    logits, y = draw_classes(500, 4, temperature=2.0)
    proba = softmax(logits, axis=1)
    weights = np.random.default_rng(1).exponential(size=500)
    columns, lines = [], []
    for column in range(4):
        odds, hit = logit(proba[:, column]), (y == column).astype(int)
        best = minimize(
            platt_loss, [0.0, 0.0], (odds, platt_targets(hit, weights), weights), tol=1e-10
        ).x
        lines.append(best)
        columns.append(expit(best[0] * odds + best[1]))
    by_hand = np.column_stack(columns)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    platt = PlattScaling(shrinkage=0).fit(proba, y, weights)
    assert_allclose(np.column_stack([platt.coef_, platt.intercept_]), lines, rtol=1e-4, atol=1e-5)
    assert_allclose(platt.predict_proba(proba), by_hand, atol=1e-6)


def test_a_class_without_rows_keeps_its_line():
    logits, y = draw_classes(300, 3)
    platt = PlattScaling(shrinkage=0, input="logits").fit(
        logits[y != 2], y[y != 2], classes=[0, 1, 2]
    )
    assert (platt.coef_[2], platt.intercept_[2]) == (1, 0)
    assert platt.coef_[0] != 1


def test_platt_uses_what_rounds_to_one():
    # 1 - 1e-30 is 1 in float64, but the other column still tells it from 1 - 1e-20.
    tails = np.array([1e-30, 1e-20, 1e-10, 1e-3])
    proba = np.column_stack([np.r_[tails, 1 - tails], np.r_[1 - tails, tails]])
    proba = np.vstack([proba, proba])
    y = np.r_[np.repeat([1, 0], 4), 0, 1, 1, 0, 1, 0, 0, 1]
    answer = PlattScaling(shrinkage=0).fit(proba, y).predict_proba(proba[:4])
    assert (np.diff(answer[:, 1]) < 0).all()


# --- Isotonic calibration ----------------------------------------------------------------------


def test_isotonic_equals_scikit_learn_with_smoothed_targets():
    odds, y = draw_binary(500, slope=0.5, intercept=-1)
    odds = odds.round(1)  # ties
    weights = np.random.default_rng(1).exponential(size=500)
    # On its own rows a curve depends on the order of the scores only: probabilities serve.
    by_hand = IsotonicRegression(out_of_bounds="clip").fit_transform(
        expit(odds), platt_targets(y, weights), sample_weight=weights
    )
    isotonic = IsotonicCalibration(shrinkage=0, input="logits").fit(odds, y, weights)
    assert_allclose(isotonic.predict_proba(odds)[:, 1], by_hand, atol=2e-9)


def test_isotonic_by_hand():
    # Targets: 1 -> 4/5, 0 -> 1/4. Pools: {0}, {1, 0}, {1, 1}, of which the middle is a mean.
    p = np.array([0.1, 0.2, 0.3, 0.7, 0.9])
    isotonic = IsotonicCalibration(shrinkage=0).fit(p, [0, 1, 0, 1, 1])
    middle = (4 / 5 + 1 / 4) / 2
    assert_allclose(
        isotonic.predict_proba(p)[:, 1], [1 / 4, middle, middle, 4 / 5, 4 / 5], atol=2e-9
    )
    # Beyond the rows it is flat; between two it is linear in the log-odds.
    assert_allclose(isotonic.predict_proba([0.001, 0.999])[:, 1], [1 / 4, 4 / 5], atol=2e-9)
    half_way = expit((logit(0.3) + logit(0.7)) / 2)
    assert_allclose(isotonic.predict_proba([half_way])[0, 1], (middle + 4 / 5) / 2, atol=2e-9)


def test_isotonic_with_more_classes_is_one_curve_per_class():
    logits, y = draw_classes(500, 4, temperature=2.0)
    proba = softmax(logits, axis=1)
    by_hand = np.column_stack(
        [
            IsotonicRegression(out_of_bounds="clip").fit_transform(
                proba[:, column], platt_targets((y == column).astype(int), np.ones(500))
            )
            for column in range(4)
        ]
    )
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    isotonic = IsotonicCalibration(shrinkage=0).fit(proba, y)
    assert_allclose(isotonic.predict_proba(proba), by_hand, atol=2e-9)
    assert len(isotonic.maps_) == 4


def test_isotonic_never_falls():
    odds, y = draw_binary(300)
    isotonic = IsotonicCalibration(shrinkage=0, input="logits").fit(odds, y)
    grid = isotonic.predict_proba(np.linspace(-12, 12, 500))[:, 1]
    assert (np.diff(grid) > 0).all()
    assert np.ptp(grid) > 0.5


def test_isotonic_corrects_any_rising_bend():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < p**3
    isotonic = IsotonicCalibration(shrinkage=0).fit(p, y)
    grid = np.linspace(0.05, 0.95, 19)
    assert np.abs(isotonic.predict_proba(grid)[:, 1] - grid**3).mean() < 0.015


def test_a_row_where_every_curve_is_at_its_lowest():
    # Three certain groups; in the corner every class is as unlikely as was ever seen.
    sure = softmax(20 * np.eye(3), axis=1)
    scores = np.repeat(sure, 50, axis=0)
    y = np.repeat([0, 1, 2], 50)
    isotonic = IsotonicCalibration(shrinkage=0).fit(scores, y)
    corner = isotonic.predict_proba(np.full((1, 3), 1 / 3))
    assert np.isfinite(corner).all()
    assert_allclose(corner, 1 / 3, atol=1e-8)  # documented: close to uniform
    # Where the curves tell nothing apart the scores still do.
    assert isotonic.predict(softmax([[0.0, 0.1, 0.2]], axis=1)) == 2
    assert_array_equal(isotonic.predict(sure), [0, 1, 2])


def test_isotonic_on_separable_rows_keeps_loss_finite_and_order():
    rng = np.random.default_rng(0)
    p = np.r_[rng.uniform(0, 0.45, 20), rng.uniform(0.55, 1, 20)]
    isotonic = IsotonicCalibration(shrinkage=0).fit(p, np.repeat([0, 1], 20))
    assert_allclose(isotonic.predict_proba(p)[:, 1], np.repeat([1 / 22, 21 / 22], 20), atol=2e-9)
    # Held-out rows of the same kind, one of them wrong.
    held_out = np.r_[rng.uniform(0, 0.45, 20), rng.uniform(0.55, 1, 20)]
    y = np.repeat([0, 1], 20)
    y[5] = 1
    answer = isotonic.predict_proba(held_out)
    own = -np.log(answer[np.arange(40), y])  # unclipped
    assert own.max() == pytest.approx(np.log(22), abs=0.1)
    assert roc_auc_score(y, answer[:, 1]) >= roc_auc_score(y, held_out) - 1e-12


def test_isotonic_keeps_the_order_of_overlapping_classes():
    odds, y = draw_binary(1000)
    fresh, fresh_y = draw_binary(1000, seed=1)
    answer = (
        IsotonicCalibration(shrinkage=0, input="logits").fit(odds, y).predict_proba(fresh)[:, 1]
    )
    assert roc_auc_score(fresh_y, answer) >= roc_auc_score(fresh_y, fresh) - 1e-12


def test_isotonic_tells_apart_what_rounds_to_one():
    # Log-odds of 40 and 50 are both a probability of 1 in float64.
    odds = np.repeat([-50.0, -40.0, 40.0, 50.0], 25)
    y = np.r_[np.zeros(25), np.arange(25) % 4 == 0, np.arange(25) % 4 > 0, np.ones(25)]
    answer = IsotonicCalibration(shrinkage=0, input="logits").fit(odds, y).predict_proba(odds)[:, 1]
    assert_allclose(
        answer.reshape(4, 25).mean(axis=1),
        [
            np.mean(platt_targets(y, np.ones(100))[group * 25 : group * 25 + 25])
            for group in range(4)
        ],
    )


def test_isotonic_ignores_the_size_of_logits():
    logits, y = draw_classes(400, 2)
    plain = IsotonicCalibration(shrinkage=0, input="logits").fit(logits, y).predict_proba(logits)
    large = (
        IsotonicCalibration(shrinkage=0, input="logits")
        .fit(1e4 * logits, y)
        .predict_proba(1e4 * logits)
    )
    assert_allclose(large, plain, atol=1e-9)


def test_neither_warns_on_plain_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            logits, y = draw_classes(60, 3, seed=seed)
            PlattScaling(shrinkage=0, input="logits").fit(logits, y).predict_proba(logits)
            IsotonicCalibration(shrinkage=0, input="logits").fit(logits, y).predict_proba(logits)
