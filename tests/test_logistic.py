"""The small logistic regressions behind the one-dimensional maps, against scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

import skcal.calibration._fitting.logistic as logistic
from skcal.calibration._fitting.logistic import fit_logistic


def mean_loss(theta, columns, targets, weights):
    z = theta @ columns
    return np.average(np.logaddexp(0, z) - targets * z, weights=weights)


def gradient(theta, columns, targets, weights):
    return columns @ ((expit(theta @ columns) - targets) * weights / weights.sum())


def draw_problem(seed, *, d=None, n=None):
    """Draw correlated regressors with a constant, soft targets and weights."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4)) if d is None else d
    n = int(rng.integers(4, 60)) if n is None else n
    columns = np.vstack([rng.normal(size=(d, n)) + rng.normal(size=n), np.ones(n)])
    targets = np.where(rng.random(n) < 0.5, 1 - 1 / (n + 2), 1 / (n + 2))
    return columns, targets, rng.exponential(size=n) + 0.01


@given(st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_the_free_optimum(seed):
    columns, targets, weights = draw_problem(seed)
    theta, n_iter, converged = fit_logistic(columns, targets, weights, np.ones(len(columns)))
    best = minimize(
        mean_loss,
        np.zeros(len(columns)),
        (columns, targets, weights),
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert converged
    assert n_iter < 40
    assert_allclose(gradient(theta, columns, targets, weights), 0, atol=1e-7)
    assert mean_loss(theta, columns, targets, weights) <= best.fun + 1e-10
    assert_allclose(theta, best.x, rtol=1e-3, atol=1e-3)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=120, deadline=None)
def test_the_optimum_without_negative_slopes(seed, d):
    columns, targets, weights = draw_problem(seed, d=d)
    theta, _, converged = fit_logistic(columns, targets, weights, np.ones(d + 1), non_negative=d)
    best = minimize(
        mean_loss,
        np.zeros(d + 1),
        (columns, targets, weights),
        jac=gradient,
        method="L-BFGS-B",
        bounds=[(0, None)] * d + [(None, None)],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000},
    )
    assert converged
    assert (theta[:d] >= 0).all()
    assert mean_loss(theta, columns, targets, weights) <= best.fun + 1e-9
    # The conditions of Karush, Kuhn and Tucker: no slope would rather rise from zero.
    slope = gradient(theta, columns, targets, weights)
    assert_allclose(slope[theta != 0], 0, atol=1e-6)
    assert (slope[:d] >= -1e-6).all()


def test_the_sign_of_what_is_not_constrained_is_free():
    columns, targets, weights = draw_problem(0, d=1, n=200)
    columns[0] = np.where(targets > 0.5, -1.0, 1.0) + 0.1 * columns[0]
    free = fit_logistic(columns, targets, weights, np.ones(2))[0]
    bound = fit_logistic(columns, targets, weights, np.ones(2), non_negative=1)[0]
    assert free[0] < 0
    assert bound[0] == 0
    assert expit(bound[1]) == pytest.approx(np.average(targets, weights=weights), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_the_scale_of_a_regressor_does_not_matter(scale):
    columns, targets, weights = draw_problem(1, d=2, n=50)
    theta = fit_logistic(columns, targets, weights, np.array([1.0, 1.0, 0.0]))[0]
    factors = np.array([scale, 1.0, 1.0])
    scaled, _, converged = fit_logistic(
        columns * factors[:, None], targets, weights, np.array([1.0, 1.0, 0.0])
    )
    assert converged
    assert_allclose(scaled * factors, theta, rtol=1e-5)


def test_regressors_that_say_nothing():
    targets, weights = np.array([0.2, 0.9, 0.9]), np.array([1.0, 2.0, 1.0])
    # A zero has any slope, and two that are equal share one, whichever comes first.
    for first in (np.zeros(3), np.ones(3), np.full(3, 40.0)):
        for columns in (np.vstack([first, np.ones(3)]), np.vstack([np.ones(3), first])):
            theta, _, converged = fit_logistic(columns, targets, weights, np.array([1.0, 0.0]))
            assert converged
            assert_allclose(expit(theta @ columns), 0.725, rtol=1e-6)


def test_a_regressor_that_is_a_sum_of_others():
    columns, targets, weights = draw_problem(3, d=2, n=40)
    theta = fit_logistic(columns, targets, weights, np.ones(3))[0]
    more = np.vstack([columns[0], 2 * columns[0], columns[1:], columns[0] - columns[1]])
    again, _, converged = fit_logistic(more, targets, weights, np.ones(5))
    assert converged
    assert_allclose(again @ more, theta @ columns, atol=1e-6)


@pytest.mark.parametrize("spread", [1e-3, 1e-6])
def test_scores_that_hardly_vary(spread):
    rng = np.random.default_rng(0)
    x, targets = rng.normal(size=200), np.where(rng.random(200) < 0.4, 0.99, 0.01)
    weights = np.ones(200)
    slope, intercept = fit_logistic(
        np.vstack([x, np.ones(200)]), targets, weights, np.array([1.0, 0.0])
    )[0]
    near, _, converged = fit_logistic(
        np.vstack([30 + spread * x, np.ones(200)]), targets, weights, np.array([1.0, 0.0])
    )
    assert converged
    assert near[0] * spread == pytest.approx(slope, rel=1e-4)
    assert near[0] * 30 + near[1] == pytest.approx(intercept, rel=1e-4)


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_many_rows_start_from_a_share_of_them_and_end_at_the_same_optimum(order, monkeypatch):
    rng = np.random.default_rng(0)
    n = 30_000
    odds = 3 * rng.normal(size=n)
    odds = np.sort(odds) if order == "sorted" else odds
    hit = rng.random(n) < expit(0.4 * odds - 2)
    targets, weights = np.where(hit, 0.9999, 0.0001), rng.exponential(size=n)
    columns = np.vstack([odds, np.ones(n)])
    start = np.array([1.0, 0.0])
    passes = []
    newton = logistic._newton
    monkeypatch.setattr(
        logistic, "_newton", lambda *given: passes.append(given[0].shape) or newton(*given)
    )
    warm = fit_logistic(columns, targets, weights, start)[0]
    monkeypatch.setattr(logistic, "_MANY_ROWS", n)
    cold = fit_logistic(columns, targets, weights, start)[0]
    assert [shape[1] for shape in passes] == [30_000 // 7 + 1, n, n]
    assert_allclose(warm, cold, rtol=1e-7)
    assert_allclose(gradient(warm, columns, targets, weights), 0, atol=1e-9)


def test_a_share_of_the_rows_without_weight_is_no_start():
    rng = np.random.default_rng(0)
    columns = np.vstack([rng.normal(size=30_000), np.ones(30_000)])
    targets = np.where(rng.random(30_000) < expit(columns[0]), 0.99, 0.01)
    weights = np.ones(30_000)
    weights[::7] = 0.0  # every row that it would be taken from
    theta, _, converged = fit_logistic(columns, targets, weights, np.array([1.0, 0.0]))
    assert converged
    assert_allclose(gradient(theta, columns, targets, weights), 0, atol=1e-9)
