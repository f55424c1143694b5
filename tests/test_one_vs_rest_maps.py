"""Beta, quadratic and centred isotonic curves, and how far curves are drawn to temperature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import betaln, expit, logit, softmax
from scipy.stats import norm

from skcal.calibration import (
    BetaCalibration,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
)

SHRUNK = [PlattScaling, QuadraticScaling, BetaCalibration, IsotonicCalibration]


def draw_beta(n, hits, misses, *, share=0.5, seed=0):
    """Draw probabilities that are beta distributed within either class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return np.where(y == 1, rng.beta(*hits, n), rng.beta(*misses, n)), y


def draw_classes(n, k, *, seed=0, temperature=1.0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    true = softmax(logits / temperature, axis=1)
    return logits, (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)


def platt_targets(hit, weights):
    positive, negative = weights[hit == 1].sum(), weights[hit == 0].sum()
    return np.where(hit == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))


def each_score_with_both_labels(p):
    """Return rows in the shares that the scores say, so many that no prior counts."""
    return np.r_[p, p], np.repeat([1, 0], len(p)), 1e9 * np.r_[p, 1 - p]


# --- Beta calibration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "misses", "share"),
    [((4, 1), (2, 3), 0.5), ((3, 2), (1, 2.5), 0.2), ((2, 2), (1.5, 4), 0.7)],
)
def test_beta_finds_the_ratio_of_two_beta_densities(hits, misses, share):
    p, y = draw_beta(300_000, hits, misses, share=share)
    fitted = BetaCalibration(shrinkage=0).fit(p, y)
    a, b = hits[0] - misses[0], misses[1] - hits[1]
    c = betaln(*misses) - betaln(*hits) + logit(share)
    assert_allclose(fitted.coef_[0], [a, b], atol=0.1)
    assert fitted.intercept_[0] == pytest.approx(c, abs=0.1)
    grid = np.linspace(0.01, 0.99, 50)
    true = expit(a * np.log(grid) - b * np.log1p(-grid) + c)
    assert_allclose(fitted.predict_proba(grid)[:, 1], true, atol=0.01)


@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_beta_contains_the_identity(parameters):
    p, y, weights = each_score_with_both_labels(np.linspace(0.03, 0.97, 41))
    fitted = BetaCalibration(parameters=parameters, shrinkage=0).fit(p, y, weights)
    assert_allclose(np.r_[fitted.coef_[0], fitted.intercept_], [1, 1, 0], atol=1e-6)


@pytest.mark.parametrize("parameters", ["abm", "ab"])
def test_beta_equals_another_optimiser(parameters):
    p, y = draw_beta(400, (3, 1), (1.2, 1.5))
    weights = np.random.default_rng(1).exponential(size=400)
    targets = platt_targets(y, weights)

    def shift(theta):
        # With "ab", m is 1/2 in the paper's c = b ln(1 - m) - a ln m.
        return theta[2] if parameters == "abm" else (theta[0] - theta[1]) * np.log(2)

    def loss(theta):
        q = expit(theta[0] * np.log(p) - theta[1] * np.log1p(-p) + shift(theta))
        return -np.average(targets * np.log(q) + (1 - targets) * np.log1p(-q), weights=weights)

    free = 3 if parameters == "abm" else 2
    best = minimize(
        loss, np.ones(free), bounds=[(0, None)] * 2 + [(None, None)] * (free - 2), tol=1e-12
    ).x
    fitted = BetaCalibration(parameters=parameters, shrinkage=0).fit(p, y, weights)
    assert_allclose(fitted.coef_[0], best[:2], atol=1e-3)
    assert fitted.intercept_[0] == pytest.approx(shift(best), abs=1e-3)
    assert loss(np.r_[fitted.coef_[0], fitted.intercept_][:free]) <= loss(best) + 1e-10


@pytest.mark.parametrize("k", [2, 4])
def test_beta_with_equal_slopes_is_platt_scaling(k):
    logits, y = draw_classes(400, k, temperature=2.0)
    beta = BetaCalibration(parameters="am", shrinkage=0, input="logits").fit(logits, y)
    platt = PlattScaling(shrinkage=0, input="logits").fit(logits, y)
    assert_array_equal(beta.coef_[:, 0], beta.coef_[:, 1])
    assert_allclose(beta.coef_[:, 0], platt.coef_, rtol=1e-6)
    assert_allclose(beta.predict_proba(logits), platt.predict_proba(logits), atol=1e-8)


@pytest.mark.parametrize(("parameters", "share"), [("abm", 0.3), ("am", 0.3), ("ab", 0.5)])
def test_beta_never_turns_a_score_round(parameters, share):
    # The curve of "ab" crosses a half: with slopes of zero it says a half.
    p, y = draw_beta(2000, (1, 3), (3, 1), share=0.3)
    fitted = BetaCalibration(parameters=parameters, shrinkage=0).fit(p, y)
    assert_array_equal(fitted.coef_, [[0, 0]])
    if parameters != "ab":
        share = platt_targets(y, np.ones(2000)).mean()
    assert_allclose(fitted.predict_proba(p)[:, 1], share, atol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["abm", "am", "ab"]))
@settings(max_examples=40, deadline=None)
def test_beta_rises(seed, parameters):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 50))
    p, y = rng.beta(0.5, 0.5, n).clip(1e-6, 1 - 1e-6), rng.integers(0, 2, n)
    fitted = BetaCalibration(parameters=parameters, shrinkage=0).fit(p, y, classes=[0, 1])
    assert (fitted.coef_ >= 0).all()
    assert (np.diff(fitted.predict_proba(np.linspace(0, 1, 99))[:, 1]) >= -1e-12).all()


# --- Quadratic scaling -------------------------------------------------------------------------


def test_quadratic_finds_the_ratio_of_two_normal_densities():
    rng = np.random.default_rng(0)
    y = (rng.random(200_000) < 0.4).astype(int)
    odds = np.where(y == 1, rng.normal(1.0, 0.8, y.size), rng.normal(-0.5, 1.5, y.size))
    fitted = QuadraticScaling(shrinkage=0, input="logits").fit(odds, y)
    grid = np.linspace(-2, 2, 9)
    true = logit(0.4) + norm.logpdf(grid, 1.0, 0.8) - norm.logpdf(grid, -0.5, 1.5)
    assert_allclose(fitted.predict_proba(grid)[:, 1], expit(true), atol=0.01)
    by_hand = np.polynomial.polynomial.polyfit(grid, true, 2)  # a parabola, exactly
    assert_allclose(fitted.coef_[0], by_hand, atol=0.05)


def test_quadratic_equals_another_optimiser_and_contains_platt_scaling():
    odds = np.random.default_rng(0).normal(size=300)
    y = (np.random.default_rng(1).random(300) < expit(odds - 0.5 * odds**2)).astype(int)
    targets = platt_targets(y, np.ones(300))

    def loss(theta):
        z = theta @ np.vstack([np.ones(300), odds, odds**2])
        return np.mean(np.logaddexp(0, z) - targets * z)

    best = minimize(loss, np.zeros(3), method="BFGS", tol=1e-10)
    fitted = QuadraticScaling(shrinkage=0, input="logits").fit(odds, y)
    assert_allclose(fitted.coef_[0], best.x, atol=1e-4)
    p, y, weights = each_score_with_both_labels(np.linspace(0.05, 0.95, 19))
    same = QuadraticScaling(shrinkage=0).fit(p, y, weights)
    assert_allclose(same.coef_, [[0, 1, 0]], atol=1e-6)


# --- Centred isotonic --------------------------------------------------------------------------


def centred(x, targets, weights):
    """Pool adjacent violators one block at a time; return the blocks' centres and means."""
    blocks = []
    for value in np.unique(x):
        here = x == value
        w = weights[here].sum()
        blocks.append([value, w, (weights[here] * targets[here]).sum() / w])
        while len(blocks) > 1 and blocks[-2][2] >= blocks[-1][2] - 1e-12:
            (x0, w0, y0), (x1, w1, y1) = blocks[-2:]
            w = w0 + w1
            blocks[-2:] = [[(x0 * w0 + x1 * w1) / w, w, (y0 * w0 + y1 * w1) / w]]
    return np.array(blocks)[:, [0, 2]].T


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ties", [False, True])
def test_centred_isotonic_is_drawn_through_the_centres_of_its_blocks(seed, ties):
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=80).round(1 if ties else 9)
    y = (rng.random(80) < expit(2 * odds)).astype(int)
    weights = rng.exponential(size=80)
    centres, values = centred(odds, platt_targets(y, weights), weights)
    fitted = IsotonicCalibration(centered=True, shrinkage=0, input="logits").fit(odds, y, weights)
    assert_allclose(fitted.maps_[0], [centres, values], rtol=1e-9)
    grid = np.linspace(-4, 4, 101)
    assert_allclose(fitted.predict_proba(grid)[:, 1], np.interp(grid, centres, values), atol=1e-8)


def test_centred_isotonic_rises_between_its_ends_where_steps_do_not():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    y = (rng.random(400) < expit(odds)).astype(int)
    plain = IsotonicCalibration(shrinkage=0, input="logits").fit(odds, y)
    bent = IsotonicCalibration(centered=True, shrinkage=0, input="logits").fit(odds, y)
    first, last = bent.maps_[0][0][[0, -1]]
    grid = np.linspace(first, last, 200)
    assert (np.diff(bent.predict_proba(grid)[:, 1]) > 1e-6).all()
    assert (np.diff(plain.predict_proba(grid)[:, 1]) < 1e-6).mean() > 0.5


@pytest.mark.parametrize("centered", [False, True])
def test_isotonic_weights_are_repetition(centered):
    rng = np.random.default_rng(0)
    p = rng.random(60).round(2).clip(0.01, 0.99)
    y, weights = rng.integers(0, 2, 60), rng.integers(1, 5, 60)
    grid = np.linspace(0.01, 0.99, 50)
    weighted = IsotonicCalibration(centered=centered).fit(p, y, weights)
    repeated = IsotonicCalibration(centered=centered).fit(
        np.repeat(p, weights), np.repeat(y, weights)
    )
    assert_allclose(weighted.predict_proba(grid), repeated.predict_proba(grid), atol=1e-9)
    assert weighted.shrinkage_ == pytest.approx(repeated.shrinkage_)


# --- Shrinkage ---------------------------------------------------------------------------------


@pytest.fixture(params=SHRUNK, ids=lambda found: found.__name__)
def found(request):
    return request.param


@pytest.mark.parametrize("k", [2, 4])
def test_the_answer_is_a_geometric_mean_with_temperature_scaling(found, k):
    logits, y = draw_classes(300, k, temperature=2.0)
    curves, half, tempered = (
        found(shrinkage=share, input="logits").fit(logits, y).predict_proba(logits)
        for share in (0, 0.5, 1)
    )
    temperature = TemperatureScaling(input="logits").fit(logits, y).predict_proba(logits)
    assert_allclose(tempered, temperature, rtol=1e-7)
    mean = np.sqrt(curves * temperature)
    assert_allclose(half, mean / mean.sum(axis=1, keepdims=True), rtol=1e-7)
    assert np.abs(curves - temperature).max() > 1e-3


N_PARAMETERS = {
    PlattScaling: lambda fitted: 2,
    QuadraticScaling: lambda fitted: 3,
    BetaCalibration: lambda fitted: 3,
    IsotonicCalibration: lambda fitted: len(np.unique(fitted[1].round(9))),
}


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_share_is_parameters_over_twice_the_gain(found, k, weighted):
    rng = np.random.default_rng(0)
    logits, y = draw_classes(1500, k)
    logits[:, 0] += 1.0  # which a temperature cannot mend
    weights = rng.exponential(size=1500) if weighted else np.ones(1500)
    curves = found(shrinkage=0, input="logits").fit(logits, y, weights)
    tempered = TemperatureScaling(input="logits").fit(logits, y, weights)
    rows = np.arange(1500)
    gain = weights @ (
        np.log(curves.predict_proba(logits)[rows, y])
        - np.log(tempered.predict_proba(logits)[rows, y])
    )
    extra = sum(N_PARAMETERS[found](one) for one in curves.maps_) - 1
    fitted = found(input="logits").fit(logits, y, weights)
    assert 0 < fitted.shrinkage_ < 1
    noise = extra + np.sqrt(2 * extra)
    assert fitted.shrinkage_ == pytest.approx(noise / (2 * gain), rel=1e-6)


# A few rows may be ranked so wrongly that no temperature is high enough.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from(["auto", 0.3]),
    st.sampled_from(SHRUNK),
)
@settings(max_examples=150, deadline=None)
def test_own_rows_are_never_worse_than_by_temperature(seed, temperature, shrinkage, found):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 80)), int(rng.integers(2, 6))
    logits, y = draw_classes(n, k, seed=seed, temperature=temperature)
    weights = rng.exponential(size=n) + 0.5
    fitted = found(shrinkage=shrinkage, input="logits").fit(
        logits, y, weights, classes=np.arange(k)
    )
    tempered = TemperatureScaling(input="logits").fit(logits, y, weights, classes=np.arange(k))
    assert 0 <= fitted.shrinkage_ <= 1
    if shrinkage == "auto":
        assert fitted.loss_ <= tempered.loss_ + 1e-8
        assert fitted.loss_ <= fitted.baseline_loss_ + 1e-8


@pytest.mark.parametrize("p", [[0.5], [0.9999], [0.99, 0.98], [0.4, 0.6, 0.7]])
def test_rows_of_one_class_leave_temperature_scaling(found, p):
    # No curve can be fitted, and so nothing is there to be drawn from.
    fitted = found().fit(p, np.ones(len(p)), classes=[0, 1])
    tempered = TemperatureScaling().fit(p, np.ones(len(p)), classes=[0, 1])
    assert fitted.shrinkage_ == 1
    assert_allclose(fitted.predict_proba([0.1, 0.5, 0.9]), tempered.predict_proba([0.1, 0.5, 0.9]))


@pytest.mark.parametrize("p", [0.5, 0.2])
def test_scores_that_are_all_equal_get_the_share_of_hits(found, p):
    y = np.repeat([0, 1], [700, 300])
    fitted = found(shrinkage=0).fit(np.full(1000, p), y)
    share = platt_targets(y, np.ones(1000)).mean()
    assert_allclose(fitted.predict_proba([p])[0, 1], share, atol=1e-6)


def test_calibrated_rows_of_many_classes_are_hardly_harmed(found):
    harm = {"auto": [], 0: []}
    for seed in range(10):
        logits, y = draw_classes(5400, 10, seed=seed)
        rows = np.arange(5000)
        before = -np.log(softmax(logits[400:], axis=1)[rows, y[400:]]).mean()
        for shrinkage, losses in harm.items():
            fitted = found(shrinkage=shrinkage, input="logits")
            fitted.fit(logits[:400], y[:400], classes=np.arange(10))
            after = fitted.predict_proba(logits[400:])
            losses.append(-np.log(after[rows, y[400:]]).mean() - before)
    # Steps follow noise more than their number says.
    assert np.mean(harm["auto"]) < 0.005
    assert np.mean(harm["auto"]) < 0.25 * np.mean(harm[0])


def test_shrinkage_fades_where_curves_are_needed(found):
    shares = []
    for n in (300, 3000, 30_000):
        p, y = draw_beta(n, (4, 1), (2, 3), share=0.3)
        shares.append(found().fit(p, y).shrinkage_)
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.02
