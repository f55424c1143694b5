"""Temperature scaling against golden values, independent optimisers and other libraries."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from skcal import CalibratedClassifier, NeSCalMLP, TemperatureScaling
from skcal.calibration._fitting.temperature import _derivatives_of_many, _derivatives_of_two


def draw(n, k, *, seed=0, temperature=1.0, spread=2.0):
    """Draw logits, and labels for which logits / temperature are the true logits."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    true = softmax(logits / temperature, axis=1)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    return logits, y


def fit(logits, y, weights=None, **params):
    scaling = TemperatureScaling(input="logits", **params)
    return scaling.fit(logits, y, weights, classes=np.arange(logits.shape[1]))


def objective(beta, logits, y, weights, shrinkage):
    """What is minimised, written down anew: the sum of w * NLL, plus s * r(ln T)."""
    q = softmax(beta * logits, axis=1)
    nll = -np.log(q[np.arange(len(y)), y])
    log_t = -np.log(beta)
    pull = 6 * np.log(1 + log_t**2 / 2) if log_t < 0 else np.log(1 + log_t**2 / 8)
    return np.sum(weights * nll) + shrinkage * pull


# --- Golden values -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy():
    rs = np.random.RandomState(0)
    n, k = 600, 4
    z = 1.5 * rs.normal(size=(n, k))
    true = softmax(z, axis=1)
    u = rs.uniform(size=n)
    y = (true.cumsum(1) < u[:, None]).sum(1)
    a = 2 * np.eye(k)
    a[0, 1], a[2, 3] = 0.6, -0.4
    proba = softmax(z @ a.T + [0.3, -0.2, 0, 0.1], axis=1)
    assert_allclose(proba[0], [0.293456, 0.002075, 0.003748, 0.700721], atol=1e-6)
    assert_array_equal(y[:10], [0, 0, 3, 1, 2, 2, 0, 3, 3, 0])
    return proba, y


def test_golden_values_of_maximum_likelihood(toy):
    proba, y = toy
    scaling = TemperatureScaling(shrinkage=0).fit(proba, y)
    assert 1 / scaling.temperature_ == pytest.approx(0.52574412, abs=1e-7)
    assert scaling.loss_ == pytest.approx(0.88821473, abs=1e-7)
    assert scaling.baseline_loss_ == pytest.approx(1.0301865, abs=1e-7)


def test_shrinkage_moves_the_golden_value_a_little_towards_one(toy):
    proba, y = toy
    plain = TemperatureScaling(shrinkage=0).fit(proba, y)
    scaling = TemperatureScaling().fit(proba, y)
    assert 1 < scaling.temperature_ < plain.temperature_
    assert scaling.loss_ == pytest.approx(0.88821473, abs=5e-4)


# --- The optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("shrinkage", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("true", [0.4, 2.5])
@pytest.mark.parametrize("k", [2, 5, 100])
def test_root_is_the_minimum_of_the_objective(k, true, shrinkage):
    logits, y = draw(400, k, temperature=true)
    weights = np.random.default_rng(1).exponential(size=400)
    best = minimize_scalar(
        lambda log_t: objective(np.exp(-log_t), logits, y, weights, shrinkage),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    scaling = fit(logits, y, weights, shrinkage=shrinkage)
    assert scaling.temperature_ == pytest.approx(np.exp(best.x), rel=1e-5)


@pytest.mark.parametrize(
    ("k", "derivatives_of"),
    [(2, _derivatives_of_two), (2, _derivatives_of_many), (4, _derivatives_of_many)],
)
def test_derivatives_are_those_of_the_log_loss_and_only_rise(k, derivatives_of):
    logits, y = draw(200, k, temperature=2.5)
    weights = np.random.default_rng(1).exponential(size=200)
    derivatives = derivatives_of(log_softmax(logits, axis=1), y, weights)
    inverses = np.exp(np.linspace(-3, 2, 11))
    for inverse in inverses:
        h = 1e-5 * inverse
        up, down = (objective(inverse + d, logits, y, weights, 0) for d in (h, -h))
        first, second = derivatives(inverse)
        assert first == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-4)
        up, down = (derivatives(inverse + d)[0] for d in (h, -h))
        assert second == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-4)
    assert (np.diff([derivatives(inverse)[0] for inverse in inverses]) > 0).all()


@pytest.mark.parametrize("k", [2, 3])
def test_many_rows_reach_the_optimum_of_them_all(k):
    # The search starts from a share of the rows; here these alone would mislead it.
    logits, y = draw(50_000, k, temperature=2.0)
    logits[::10] *= 5
    many = fit(logits, y, shrinkage=0)
    first = _derivatives_of_many(log_softmax(logits, axis=1), y, np.ones(50_000))(
        1 / many.temperature_
    )[0]
    assert abs(first) < 1e-4
    assert many.converged_


def test_sharpening_costs_more_than_softening():
    logits, y = draw(60, 3, temperature=0.5)
    plain, pulled = fit(logits, y, shrinkage=0), fit(logits, y)
    assert plain.temperature_ < pulled.temperature_ < 1
    logits, y = draw(60, 3, temperature=2.0)
    soft, softer = fit(logits, y), fit(logits, y, shrinkage=0)
    assert 1 < soft.temperature_ < softer.temperature_
    sharpened = np.log(pulled.temperature_ / plain.temperature_)
    assert sharpened > 3 * np.log(softer.temperature_ / soft.temperature_)


def test_shrinkage_fades_with_rows_and_rules_without_limit():
    logits, y = draw(5000, 3, temperature=3.0)
    gap = [
        abs(fit(logits[:n], y[:n]).temperature_ - fit(logits[:n], y[:n], shrinkage=0).temperature_)
        for n in (50, 500, 5000)
    ]
    assert gap[0] > 5 * gap[1] > 25 * gap[2]
    assert fit(logits, y, shrinkage=1e9).temperature_ == pytest.approx(1, abs=1e-3)


# Whole and half numbers: ties, constant rows and saturation come up often.
some_logits = hnp.arrays(
    float,
    st.tuples(st.integers(1, 12), st.integers(2, 4)),
    elements=st.integers(-40, 40).map(lambda value: value / 2),
)


@given(some_logits, st.data(), st.sampled_from([0.0, 1.0, 10.0]))
@settings(max_examples=150, deadline=None)
def test_never_worse_than_no_calibration_on_its_own_rows(logits, data, shrinkage):
    n, k = logits.shape
    y = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    weights = np.array(
        data.draw(st.lists(st.sampled_from([0, 1, 2, 7]), min_size=n, max_size=n)), dtype=float
    )
    weights[0] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scaling = fit(logits, y, weights, shrinkage=shrinkage)
    before = np.average(
        -log_softmax(logits, axis=1)[np.arange(n), y],
        weights=weights,
    )
    after = np.average(
        -np.log(scaling.predict_proba(logits)[np.arange(n), y]),
        weights=weights,
    )
    assert np.isfinite(scaling.temperature_)
    assert scaling.temperature_ > 0
    assert after <= before + 1e-9


def test_true_temperature_is_found():
    for true in (0.3, 1.0, 4.0):
        logits, y = draw(20_000, 5, temperature=true)
        assert fit(logits, y).temperature_ == pytest.approx(true, rel=0.03)


# --- Few rows, no errors, never right ----------------------------------------------------------


def test_forty_rows_without_an_error_do_not_run_away():
    logits, y = draw(4000, 3, spread=4.0)
    right = np.flatnonzero(logits.argmax(axis=1) == y)[:40]
    fresh, fresh_y = draw(4000, 3, spread=4.0, seed=1)
    raw = log_loss(fresh_y, softmax(fresh, axis=1))
    scaling = fit(logits[right], y[right])
    assert scaling.converged_
    assert 0.3 < scaling.temperature_ < 1
    assert log_loss(fresh_y, scaling.predict_proba(fresh)) < 2 * raw
    # Maximum likelihood says that the model is always right.
    plain = fit(logits[right], y[right], shrinkage=0)
    assert plain.temperature_ < 0.05
    assert log_loss(fresh_y, plain.predict_proba(fresh)) > 5 * raw


def test_ten_rows():
    logits, y = draw(10, 3)
    scaling = fit(logits, y)
    assert 0.2 < scaling.temperature_ < 5
    assert scaling.loss_ <= scaling.baseline_loss_


def test_a_model_that_is_never_right_is_made_uniform():
    logits, _ = draw(500, 3)
    scaling = fit(logits, logits.argmin(axis=1))
    assert scaling.converged_
    assert scaling.temperature_ > 100
    assert_allclose(scaling.predict_proba(logits), 1 / 3, atol=0.01)
    with pytest.warns(ConvergenceWarning, match="best temperature lies outside bounds"):
        scaling = fit(logits, logits.argmin(axis=1), shrinkage=0)
    assert scaling.temperature_ == pytest.approx(1e7)
    assert scaling.converged_ is False
    assert_allclose(scaling.predict_proba(logits), 1 / 3, atol=1e-5)
    assert scaling.loss_ == pytest.approx(np.log(3), abs=1e-5)


# --- Sizes and bounds --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 10, 1e5])
def test_temperature_goes_with_the_size_of_the_scores(scale):
    logits, y = draw(500, 3)
    plain = fit(logits, y, shrinkage=0)
    scaled = fit(scale * logits, y, shrinkage=0)
    assert scaled.temperature_ == pytest.approx(scale * plain.temperature_, rel=1e-8)
    assert_allclose(scaled.predict_proba(scale * logits), plain.predict_proba(logits), atol=1e-9)


@pytest.mark.parametrize("value", [0.0, -3.5, 1e5])
def test_scores_that_are_equal_in_each_row_leave_the_temperature_at_one(value):
    scaling = fit(np.full((30, 3), value), np.repeat([0, 1, 2], 10))
    assert scaling.temperature_ == 1
    assert scaling.converged_ is True
    assert_allclose(scaling.predict_proba([[value] * 3]), [[1 / 3] * 3])


def test_a_constant_added_to_a_row_changes_nothing():
    logits, y = draw(300, 3, temperature=2.0)
    shifted = logits + 100 * np.random.default_rng(1).normal(size=(300, 1))
    assert fit(shifted, y).temperature_ == pytest.approx(fit(logits, y).temperature_, rel=1e-9)


@pytest.mark.parametrize(
    ("true", "bounds", "expected"), [(4.0, (0.5, 2.0), 2.0), (0.2, [0.5, 2.0], 0.5)]
)
def test_bounds_hold(true, bounds, expected):
    logits, y = draw(500, 3, temperature=true)
    with pytest.warns(
        ConvergenceWarning, match=re.escape(f"bounds={bounds}, and {expected:g} is used")
    ):
        scaling = fit(logits, y, bounds=bounds)
    assert scaling.temperature_ == pytest.approx(expected, rel=1e-12)
    assert scaling.converged_ is False
    assert scaling.loss_ < scaling.baseline_loss_


def test_bounds_that_hold_the_optimum_do_not_matter():
    logits, y = draw(500, 3, temperature=4.0)
    scaling = fit(logits, y, bounds=(2, 8))
    assert scaling.converged_ is True
    assert scaling.temperature_ == pytest.approx(fit(logits, y).temperature_, rel=1e-10)


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1), (-1, 1), (1, np.inf), (1,), (1, 2, 3)])
def test_bounds_that_make_no_sense_are_refused(bounds):
    logits, y = draw(50, 3)
    with pytest.raises(ValueError, match="bounds must be two positive numbers"):
        fit(logits, y, bounds=bounds)


@pytest.mark.parametrize("shrinkage", [-1, np.nan, "much"])
def test_shrinkage_that_makes_no_sense_is_refused(shrinkage):
    logits, y = draw(50, 3)
    with pytest.raises(ValueError, match="'shrinkage' parameter"):
        fit(logits, y, shrinkage=shrinkage)


def test_a_thousand_classes():
    logits, y = draw(3000, 1000, temperature=2.0, spread=6.0)
    scaling = fit(logits, y)
    assert scaling.temperature_ == pytest.approx(2.0, rel=0.1)
    assert scaling.loss_ < scaling.baseline_loss_


@pytest.mark.parametrize("true", [0.3, 5.0])
def test_decisions_and_ranking_never_change(true):
    logits, y = draw(500, 6, temperature=true)
    scaling = fit(logits, y)
    proba = scaling.predict_proba(logits)
    assert_array_equal(proba.argsort(axis=1), logits.argsort(axis=1))
    assert_array_equal(scaling.predict(logits), logits.argmax(axis=1))


# --- Against scikit-learn, and on real models --------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_same_as_scikit_learn_where_its_fit_is_sound(k):
    X, y = make_classification(1500, 10, n_informative=6, n_classes=k, flip_y=0.2, random_state=0)
    model = LogisticRegression().fit(X[:300], y[:300])
    model.coef_ *= 4  # over-confident
    frozen = FrozenEstimator(model)
    ours = CalibratedClassifier(frozen, TemperatureScaling(shrinkage=0)).fit(X[300:], y[300:])
    theirs = CalibratedClassifierCV(frozen, method="temperature").fit(X[300:], y[300:])
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    raw = log_loss(y[300:], model.predict_proba(X[300:]))
    assert log_loss(y[300:], ours.predict_proba(X[300:])) < raw - 0.1


def test_saturated_naive_bayes_is_mended():
    # A single row with a probability of 1e-300 for the truth must not decide alone.
    X, y = load_digits(return_X_y=True)
    model = GaussianNB().fit(X[:700], y[:700])
    held_out, test = model.predict_proba(X[700:1200]), model.predict_proba(X[1200:])
    assert (held_out == 0).mean() > 0.1
    scaling = TemperatureScaling().fit(held_out, y[700:1200])
    assert 5 < scaling.temperature_ < 50
    assert log_loss(y[1200:], test) > 2
    assert log_loss(y[1200:], scaling.predict_proba(test)) < 0.9


def test_network_with_dropout_is_calibrated_as_it_predicts():
    X, y = make_classification(700, 8, n_informative=6, n_classes=3, random_state=0)
    X = X.astype(np.float32)
    net = NeSCalMLP(hidden_sizes=(32,), dropout=0.5, max_epochs=15, random_state=0)
    frozen = FrozenEstimator(net.fit(X[:400], y[:400]))
    first = CalibratedClassifier(frozen).fit(X[400:], y[400:])
    second = CalibratedClassifier(frozen).fit(X[400:], y[400:])
    temperatures = [
        fitted.calibrated_classifiers_[0].calibrator.temperature_ for fitted in (first, second)
    ]
    assert temperatures[0] == temperatures[1]
    assert 0.2 < temperatures[0] < 10
    assert_array_equal(first.predict_proba(X), first.predict_proba(X))
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_many_rows_of_tiny_logits_in_any_order():
    # Every sixth row, which the share of the rows consists of, is wrong.
    rng = np.random.default_rng(0)
    logits = 3e-5 * rng.normal(size=(24_000, 2))
    y = (1e5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    y = np.where(np.arange(24_000) % 6 == 0, 1 - logits.argmax(axis=1), y)
    shuffled = rng.permutation(24_000)
    found = fit(logits, y).temperature_
    assert found == pytest.approx(fit(logits[shuffled], y[shuffled]).temperature_, rel=1e-6)
    assert found == pytest.approx(3.37e-5, rel=0.01)
