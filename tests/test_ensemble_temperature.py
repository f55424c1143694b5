"""Ensemble temperature scaling: the weights, against other optimisers and planted mixtures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcal.calibration import EnsembleTemperatureScaling, TemperatureScaling
from skcal.calibration._all_classes.ensemble_temperature import _mixture_weights


def mixture_loss(mixture, log_parts, weights):
    with np.errstate(divide="ignore"):
        return -np.average(np.log(np.exp(log_parts).T @ mixture), weights=weights)


def by_slsqp(log_parts, weights):
    """Return the least mean log-loss of a mixture, from several starts."""
    starts = [np.full(3, 1 / 3), *(0.1 / 3 + 0.9 * np.eye(3))]
    return min(
        minimize(
            mixture_loss,
            start,
            (log_parts, weights),
            method="SLSQP",
            bounds=[(1e-15, 1)] * 3,
            constraints={"type": "eq", "fun": lambda mixture: mixture.sum() - 1},
            options={"ftol": 1e-13, "maxiter": 300},
        ).fun
        for start in starts
    )


def draw(n, k, *, seed=0, temperature=1.0, uniform=0.0, spread=1.5):
    """Return logits, and labels of which a share is drawn from all classes alike."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    true = (1 - uniform) * softmax(logits / temperature, axis=1) + uniform / k
    return logits, (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)


# --- The weights -------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=60, deadline=None)
def test_weights_reach_the_optimum_of_another_optimiser(seed, size):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 50))
    log_parts = -size * np.abs(rng.normal(size=(3, n)))
    log_parts[2] = -1.0
    weights = rng.exponential(size=n) + 1e-3
    mixture, n_iter, converged = _mixture_weights(log_parts, weights)
    assert converged
    assert n_iter < 50
    assert mixture.min() >= 0
    assert mixture.sum() == pytest.approx(1, abs=1e-9)
    assert mixture_loss(mixture, log_parts, weights) <= by_slsqp(log_parts, weights) + 1e-8


def test_weights_are_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    steps = np.arange(101) / 100
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    for _ in range(20):
        log_parts = -np.abs(rng.normal(size=(3, 12)))
        losses = -np.log(np.maximum(grid, 0) @ np.exp(log_parts)).mean(axis=1)
        mixture = _mixture_weights(log_parts, np.ones(12))[0]
        loss = mixture_loss(mixture, log_parts, np.ones(12))
        assert loss <= losses.min() + 1e-12
        assert loss >= losses.min() - 1e-3  # the grid is as fine as that
        # Unless the optimum is flat, it is also where the grid has it.
        near = grid[losses <= losses.min() + 1e-4]
        assert (near.min(axis=0) - 0.05 <= mixture).all()
        assert (mixture <= near.max(axis=0) + 0.05).all()


@given(st.integers(0, 10**6), st.sampled_from([30.0, 1e3, 1e5]))
@settings(max_examples=60, deadline=None)
def test_rows_that_only_one_part_allows(seed, size):
    # Where the others underflow, a step to the edge would cost an infinite loss. At the
    # optimum no part's gradient is above 1, and that of a part in use is 1.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    log_parts = -size * np.abs(rng.normal(size=(3, n)))
    log_parts[2] = -1.0
    weights = rng.exponential(size=n) + 1e-3
    mixture, _, converged = _mixture_weights(log_parts, weights)
    parts = np.exp(log_parts - log_parts.max(axis=0))
    gradient = (parts / (mixture @ parts)) @ weights / weights.sum()
    assert converged
    assert gradient.max() < 1 + 1e-5
    assert_allclose(gradient[mixture > 1e-3], 1, atol=1e-5)


def test_equal_parts():
    # At T = 1 the first two are the same; any split of their share will do.
    log_parts = np.log([[0.9, 0.2, 0.7], [0.9, 0.2, 0.7], [0.5, 0.5, 0.5]])
    mixture, _, converged = _mixture_weights(log_parts, np.ones(3))
    best = minimize(
        lambda share: -np.log(share * np.array([0.9, 0.2, 0.7]) + (1 - share) / 2).mean(),
        [0.5],
        bounds=[(0, 1)],
    ).x[0]
    assert converged
    assert mixture[:2].sum() == pytest.approx(best, abs=1e-4)


# --- The calibrator ----------------------------------------------------------------------------


def test_the_answer_is_the_mixture():
    logits, y = draw(300, 4, temperature=2.0, uniform=0.1)
    fitted = EnsembleTemperatureScaling(input="logits").fit(logits, y)
    temperature = TemperatureScaling(input="logits").fit(logits, y).temperature_
    assert fitted.temperature_ == pytest.approx(temperature, rel=1e-9)
    w1, w2, w3 = fitted.weights_
    by_hand = w1 * softmax(logits / temperature, axis=1) + w2 * softmax(logits, axis=1) + w3 / 4
    assert_allclose(fitted.predict_proba(logits), by_hand, rtol=1e-9)
    assert fitted.loss_ == pytest.approx(-np.log(by_hand[np.arange(300), y]).mean(), rel=1e-12)


@pytest.mark.parametrize("uniform", [0.1, 0.3])
def test_a_planted_uniform_share_is_found(uniform):
    logits, y = draw(40_000, 5, uniform=uniform, spread=3.0)
    fitted = EnsembleTemperatureScaling(input="logits").fit(logits, y)
    assert fitted.weights_[2] == pytest.approx(uniform, abs=0.02)
    true = (1 - uniform) * softmax(logits, axis=1) + uniform / 5
    assert np.abs(fitted.predict_proba(logits) - true).mean() < 0.01


# A few rows may be ranked so wrongly that no temperature is high enough.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_own_rows_are_not_worse_than_by_temperature(seed, temperature, weighted):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 80)), int(rng.integers(2, 6))
    logits, y = draw(n, k, seed=seed, temperature=temperature, uniform=0.2)
    weights = rng.exponential(size=n) + 0.5 if weighted else None
    classes = np.arange(k)
    mixed, tempered = (
        one(input="logits").fit(logits, y, weights, classes=classes)
        for one in (EnsembleTemperatureScaling, TemperatureScaling)
    )
    assert mixed.loss_ <= tempered.loss_ + 1e-8
    assert mixed.loss_ <= mixed.baseline_loss_ + 1e-8
    # The ranking of the classes within a row is that of the scores.
    assert_array_equal(
        mixed.predict_proba(logits).argsort(axis=1, kind="stable"), logits.argsort(axis=1)
    )


def test_scores_that_only_mislead_keep_their_ranking():
    # Best of all would be the uniform probabilities, which rank nothing.
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 3))
    y = (-logits + rng.normal(size=(500, 3))).argmax(axis=1)
    fitted = EnsembleTemperatureScaling(input="logits").fit(logits, y)
    assert fitted.loss_ == pytest.approx(np.log(3), abs=1e-7)
    assert_array_equal(fitted.predict(logits), logits.argmax(axis=1))


def test_one_row_far_off():
    # Its tempered probability underflows to zero: the uniform part alone allows it.
    rng = np.random.default_rng(0)
    odds = np.r_[1.5 * rng.normal(size=20_000), 4000.0]
    y = np.r_[rng.random(20_000) < 1 / (1 + np.exp(-odds[:-1])), False].astype(int)
    fitted = EnsembleTemperatureScaling(input="logits").fit(odds, y)
    log_proba = log_softmax(np.column_stack([np.zeros_like(odds), odds]), axis=1)
    log_parts = np.array(
        [
            log_softmax(log_proba / fitted.temperature_, axis=1)[np.arange(len(y)), y],
            log_proba[np.arange(len(y)), y],
            np.full(len(y), -np.log(2)),
        ]
    )
    # At the optimum of a concave function in the weights no part's gradient is above 1.
    total = np.exp(log_parts).T @ fitted.weights_
    assert (np.exp(log_parts) / total).mean(axis=1).max() < 1 + 1e-6
    assert 0 < fitted.weights_[2] < 0.05
