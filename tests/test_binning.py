"""Histogram binning and scaling-binning on examples worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit, softmax

from skcal.calibration import HistogramBinning, PlattScaling, ScalingBinning

BINNINGS = [HistogramBinning, ScalingBinning]


def share(hits, rows, mean):
    """Return the share of hits with one more row, labelled by the model."""
    return (hits + mean) / (rows + 1)


def second(calibrator, scores):
    return calibrator.predict_proba(scores)[:, 1]


# --- Histogram binning by hand -----------------------------------------------------------------


def test_bins_of_equal_weight_by_hand():
    p = [0.1, 0.2, 0.4, 0.6, 0.7, 0.9]
    y = [0, 1, 0, 1, 1, 1]
    fitted = HistogramBinning(n_bins=3).fit(p, y)
    values = [share(1, 2, 0.15), share(1, 2, 0.5), share(2, 2, 0.8)]
    assert_allclose(second(fitted, p), np.repeat(values, 2), rtol=1e-12)
    # Between two bins the border is half-way in log-odds; beyond the rows is in the last bin.
    border = expit((logit(0.2) + logit(0.4)) / 2)
    scores = [0.0, 0.001, border - 1e-6, border + 1e-6, 0.999, 1.0]
    assert_allclose(second(fitted, scores), np.array(values)[[0, 0, 0, 1, 2, 2]], rtol=1e-12)


def test_bins_of_equal_width_by_hand():
    # Of four bins the third is empty, and scores there fall to the one below.
    p = [0.05, 0.2, 0.3, 0.4, 0.8, 0.9, 0.95]
    y = [0, 0, 1, 0, 1, 1, 0]
    fitted = HistogramBinning(n_bins=4, strategy="uniform").fit(p, y)
    values = [share(0, 2, 0.125), share(1, 2, 0.35), share(2, 3, 2.65 / 3)]
    assert_allclose(second(fitted, p), np.repeat(values, [2, 2, 3]), rtol=1e-12)
    scores = [0.24, 0.26, 0.49, 0.51, 0.74, 0.76]
    assert_allclose(second(fitted, scores), np.array(values)[[0, 1, 1, 1, 1, 2]], rtol=1e-12)


def test_a_score_on_a_border_is_in_the_bin_above():
    odds, y = np.array([-1.0, 0.0, 0.0, 1.0]), [0, 1, 1, 0]
    fitted = HistogramBinning(n_bins=2, strategy="uniform", input="logits").fit(odds, y)
    above = share(2, 3, (0.5 + 0.5 + expit(1)) / 3)
    assert_allclose(second(fitted, odds), [share(0, 1, expit(-1)), *[above] * 3], rtol=1e-12)


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_one_bin_is_the_base_rate(strategy):
    p = np.array([0.1, 0.3, 0.5, 0.7])
    fitted = HistogramBinning(n_bins=1, strategy=strategy).fit(p, [0, 1, 0, 0])
    assert_allclose(second(fitted, [0.0, 0.4, 1.0]), share(1, 4, 0.4), rtol=1e-12)


def test_weights_by_hand():
    # Of a total of eight, the first row has three, and the middles are 1.5, 4, 6 and 7.5.
    p, y, weights = [0.1, 0.2, 0.4, 0.6], [0, 1, 1, 0], [3, 2, 2, 1]
    fitted = HistogramBinning(n_bins=2).fit(p, y, weights)
    low, high = share(0, 3, 0.1), share(4, 5, (0.4 + 0.8 + 0.6) / 5)
    assert_allclose(second(fitted, p), [low, high, high, high], rtol=1e-12)


def test_more_classes_are_divided_by_their_sum():
    proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2]])
    fitted = HistogramBinning(n_bins=1).fit(proba, [0, 1, 2, 0])
    by_hand = share(np.array([2, 1, 1]), 4, proba.mean(axis=0))
    assert_allclose(fitted.predict_proba(proba), np.tile(by_hand / by_hand.sum(), (4, 1)))


# --- Scaling-binning ---------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_scaling_binning_is_the_mean_of_a_curve(weighted):
    rng = np.random.default_rng(0)
    odds = np.sort(rng.normal(size=90))
    y = (rng.random(90) < expit(2 * odds)).astype(int)
    weights = rng.exponential(size=90) if weighted else np.ones(90)
    curve = second(PlattScaling(shrinkage=0, input="logits").fit(odds, y, weights), odds)
    middle = (np.cumsum(weights) - weights / 2) / weights.sum()
    bins = (6 * middle).astype(int)
    means = [np.average(curve[bins == one], weights=weights[bins == one]) for one in range(6)]
    fitted = ScalingBinning(n_bins=6, input="logits").fit(odds, y, weights)
    assert_allclose(second(fitted, odds), np.array(means)[bins], rtol=1e-9)


def test_as_many_bins_as_scores_leave_the_curve():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=40)
    y = (rng.random(40) < expit(odds)).astype(int)
    curve = PlattScaling(shrinkage=0, input="logits").fit(odds, y)
    fitted = ScalingBinning(n_bins=40, input="logits").fit(odds, y)
    assert_allclose(second(fitted, odds), second(curve, odds), rtol=1e-9)


def test_the_mean_of_a_curve_varies_less_than_a_share():
    rng = np.random.default_rng(0)
    grid = np.linspace(-1, 1, 5)
    answers = {found: [] for found in BINNINGS}
    for _ in range(100):
        odds = rng.normal(size=300)
        y = (rng.random(300) < expit(odds)).astype(int)
        for found, kept in answers.items():
            kept.append(second(found(n_bins=15, input="logits").fit(odds, y), grid))
    spread = {found: np.std(kept, axis=0).mean() for found, kept in answers.items()}
    assert spread[ScalingBinning] < 0.6 * spread[HistogramBinning]


# --- Both --------------------------------------------------------------------------------------


def makers():
    return [
        pytest.param(lambda n: HistogramBinning(n_bins=n), id="histogram"),
        pytest.param(lambda n: HistogramBinning(n_bins=n, strategy="uniform"), id="uniform"),
        pytest.param(lambda n: ScalingBinning(n_bins=n), id="scaling"),
    ]


@pytest.mark.parametrize("make", makers())
@given(seed=st.integers(0, 10**6), n_bins=st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_bins_whatever_the_rows(make, seed, n_bins):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    p = rng.integers(0, 11, n) / 10  # many ties, also at the borders of bins of equal width
    y, weights = rng.integers(0, 2, n), rng.integers(1, 4, n)
    fitted = make(n_bins).fit(p, y, weights, classes=[0, 1])
    answer = second(fitted, p)
    # Equal scores have one value, and there are no more values than bins.
    if len(np.unique(y)) > 1:
        assert len(np.unique(answer)) <= n_bins
        assert len(fitted.maps_[0][0]) <= n_bins
    assert (answer > 0).all()
    assert (answer < 1).all()
    # The order of the rows decides nothing; a weight is a repetition.
    order = rng.permutation(n)
    shuffled = make(n_bins).fit(p[order], y[order], weights[order], classes=[0, 1])
    repeated = make(n_bins).fit(np.repeat(p, weights), np.repeat(y, weights), classes=[0, 1])
    grid = np.linspace(0, 1, 41)
    assert_allclose(shuffled.predict_proba(grid), fitted.predict_proba(grid), rtol=1e-12)
    assert_allclose(repeated.predict_proba(grid), fitted.predict_proba(grid), rtol=1e-9)


@pytest.mark.parametrize("found", BINNINGS)
def test_bins_of_equal_weight_hold_about_as_many_rows(found):
    p = np.random.default_rng(0).random(1003)
    y = (np.random.default_rng(1).random(1003) < p).astype(int)
    edges = found(n_bins=10).fit(p, y).maps_[0][0]
    held = np.bincount(np.searchsorted(edges, logit(p), side="right") - 1)
    assert len(held) == 10
    assert held.min() >= 100
    assert held.max() <= 101


@pytest.mark.parametrize("make", makers())
def test_a_bent_curve_is_mended(make):
    rng = np.random.default_rng(0)
    p = rng.random(40_000)
    # Of a logistic curve, which scaling-binning fits, a slope is enough.
    true = expit(0.5 * logit(p) - 1)
    y = (rng.random(40_000) < true).astype(int)
    fitted = make(20).fit(p, y)
    # Within a bin the truth varies, by about a twentieth of its range.
    assert np.abs(second(fitted, p) - true).mean() < 0.03
    assert np.abs(second(fitted, p) - true).mean() < 0.3 * np.abs(p - true).mean()


@pytest.mark.parametrize("make", makers())
def test_saturated_scores(make):
    odds = np.r_[np.linspace(-800, -50, 60), np.linspace(50, 800, 60)]
    y = np.repeat([0, 1], 60)
    answer = make(6).set_params(input="logits").fit(odds, y).predict_proba(odds)
    assert np.isfinite(np.log(answer)).all()
    assert_array_equal(answer.argmax(axis=1), y)


@pytest.mark.parametrize("make", makers())
def test_a_class_without_rows_keeps_its_probability(make):
    proba = softmax(np.random.default_rng(0).normal(size=(90, 3)), axis=1)
    fitted = make(5).fit(proba, np.arange(90) % 2, classes=[0, 1, 2])
    assert fitted.maps_[2] is None
    # The others have their bins, as if each were one of two classes.
    binned = [make(5).fit(proba[:, k], np.arange(90) % 2 == k) for k in (0, 1)]
    columns = [second(one, proba[:, k]) for k, one in enumerate(binned)]
    by_hand = np.column_stack([*columns, proba[:, 2]])
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    assert_allclose(fitted.predict_proba(proba), by_hand, rtol=1e-9)


def test_what_is_refused():
    for found in BINNINGS:
        with pytest.raises(ValueError, match="'n_bins' parameter"):
            found(n_bins=0).fit([0.2, 0.8], [0, 1])
    with pytest.raises(ValueError, match="'strategy' parameter"):
        HistogramBinning(strategy="width").fit([0.2, 0.8], [0, 1])
