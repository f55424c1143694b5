"""Reliability curves without bins: the fits, their bands, and how they are drawn."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from scipy.stats import binom, norm

from skcal.metrics import log_loss, smooth_calibration_error
from skcal.plots import FittedReliabilityCurve, ReliabilityDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def over_confident():
    rng = np.random.default_rng(0)
    logit = rng.normal(size=400) * 1.5
    y = rng.random(400) < 1 / (1 + np.exp(-logit))
    return y.astype(int), np.round(1 / (1 + np.exp(-2 * logit)), 2)


def draw(y, p, method, **options):
    options = {"n_resamples": 50, "random_state": 0, "method": method, **options}
    return ReliabilityDisplay.from_predictions(y, p, **options)


def slow_isotonic(scores, rates, weights):
    """Return the isotonic fit by the formula of largest smallest means."""
    n = len(scores)
    means = np.full((n, n), np.nan)
    for a in range(n):
        for b in range(a, n):
            means[a, b] = np.average(rates[a : b + 1], weights=weights[a : b + 1])
    return np.array([max(means[a, i:].min() for a in range(i + 1)) for i in range(n)])


def merged(p, y, weights):
    scores = np.unique(p)
    mass = np.array([weights[p == s].sum() for s in scores])
    rates = np.array([np.average(y[p == s], weights=weights[p == s]) for s in scores])
    return scores, rates, mass


def slow_smooth(p, y, weights, at, width):
    """Return t plus the kernel regression of y - p, with mirror images at 0 and 1."""
    kernel = sum(
        norm.pdf(at[:, None], image, width)
        for image in [p + 2 * k for k in range(-2, 3)] + [2 * k - p for k in range(-2, 3)]
    )
    return at + kernel @ (weights * (y - p)) / (kernel @ weights)


# --- The curves --------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_curve_is_the_best_rising_one(over_confident, weighted):
    y, p = over_confident
    rng = np.random.default_rng(1)
    weights = rng.random(len(y)) * 3 if weighted else np.ones(len(y))
    display = draw(y, p, "isotonic", sample_weight=weights)
    scores, rates, mass = merged(p, y, weights)
    fitted = slow_isotonic(scores, rates, mass)
    x, drawn = display.line_.get_data()
    np.testing.assert_allclose(np.interp(scores, x, drawn), fitted, atol=1e-9)
    assert set(np.round(x, 2)) <= set(scores)
    assert display.ece == pytest.approx(np.average(np.abs(fitted - scores), weights=mass))
    assert display.nll == log_loss(y, p, sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_curve_is_the_kernel_regression(over_confident, weighted):
    y, p = over_confident
    rng = np.random.default_rng(1)
    weights = rng.random(len(y)) * 3 if weighted else np.ones(len(y))
    curve = draw(y, p, "smooth", sample_weight=weights).curve
    expected = slow_smooth(p, y, weights, curve.predicted, curve.bandwidth)
    np.testing.assert_allclose(curve.event_rate, np.clip(expected, 0, 1), atol=1e-3)
    assert (curve.predicted[0], curve.predicted[-1]) == (p.min(), p.max())


def test_error_of_the_smooth_curve_is_the_metric_and_its_distance_to_the_diagonal(over_confident):
    y, p = over_confident
    curve = draw(y, p, "smooth").curve
    metric = smooth_calibration_error(y, p, kind="positive")
    assert curve.error == pytest.approx(metric, abs=1e-12)
    assert curve.bandwidth == curve.error
    at = (np.arange(1000) + 0.5) / 1000
    kernel = sum(
        norm.pdf(at[:, None], image, curve.bandwidth)
        for image in [p + 2 * k for k in range(-2, 3)] + [2 * k - p for k in range(-2, 3)]
    )
    density = kernel.mean(axis=1)
    rate = slow_smooth(p, y, np.ones(len(y)), at, curve.bandwidth)
    assert np.average(np.abs(rate - at), weights=density) == pytest.approx(metric, abs=1e-3)


@pytest.mark.parametrize("method", ["isotonic", "smooth"])
def test_weights_are_repetitions_in_the_curve_and_zero_is_no_row(over_confident, method):
    y, p = over_confident
    times = np.arange(len(y)) % 3
    one = draw(y, p, method, sample_weight=times).curve
    two = draw(np.repeat(y, times), np.repeat(p, times), method).curve
    np.testing.assert_allclose(one.predicted, two.predicted, atol=1e-12)
    np.testing.assert_allclose(one.event_rate, two.event_rate, atol=1e-9)
    assert one.error == pytest.approx(two.error, abs=1e-9)
    assert one.count.sum() == (times > 0).sum()


@pytest.mark.parametrize("method", ["isotonic", "smooth"])
def test_order_of_rows_does_not_matter(over_confident, method):
    y, p = over_confident
    turned = np.random.default_rng(2).permutation(len(y))
    one, two = draw(y, p, method).curve, draw(y[turned], p[turned], method).curve
    np.testing.assert_allclose(one.event_rate, two.event_rate, atol=1e-12)


def test_smooth_curve_breaks_where_nothing_was_predicted():
    p = np.r_[np.linspace(0.05, 0.06, 500), np.linspace(0.94, 0.95, 500)]
    y = np.tile([0] * 19 + [1], 50)
    y[500:] = 1 - y[500:]
    curve = draw(y, p, "smooth").curve
    middle = np.abs(curve.predicted - 0.5) < 0.2
    assert np.isnan(curve.event_rate[middle]).all()
    assert np.isnan(curve.lower[middle]).all()
    assert np.isfinite(curve.event_rate[[0, -1]]).all()


# --- The band ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["isotonic", "smooth"])
def test_band_of_a_single_probability_is_binomial(method):
    y, p = np.arange(100) % 2, np.full(100, 0.3)
    curve = draw(y, p, method, n_resamples=1000, confidence_level=0.9).curve
    lower, upper = binom.ppf([0.05, 0.95], 100, 0.3) / 100
    np.testing.assert_allclose(curve.lower, lower, atol=0.0201)
    np.testing.assert_allclose(curve.upper, upper, atol=0.0201)


@pytest.mark.parametrize("method", ["isotonic", "smooth"])
def test_calibrated_models_stay_in_the_band_and_others_leave_it(method):
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(25):
        p = rng.random(300)
        curve = draw(rng.random(300) < p, p, method, n_resamples=100, random_state=rng.integers(99))
        curve = curve.curve
        fitted = np.interp(curve.band_at, curve.predicted, curve.event_rate)
        inside.append((curve.lower <= fitted) & (fitted <= curve.upper))
        plt.close("all")
    # 95 per cent asked for; 25 x 201 points, of which few are independent.
    assert 0.88 < np.mean(inside) < 0.99
    p = rng.random(3000)
    wrong = draw(rng.random(3000) < p**2, p, method).curve
    fitted = np.interp(wrong.band_at, wrong.predicted, wrong.event_rate)
    assert np.mean((wrong.lower <= fitted) & (fitted <= wrong.upper)) < 0.3


def test_the_seed_decides_and_the_global_generator_is_left_alone(over_confident):
    y, p = over_confident
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, three = (draw(y, p, "isotonic", random_state=s).curve for s in (1, 1, None))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(one.upper, two.upper)
    assert (one.upper != three.upper).any()


# --- The drawing -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["isotonic", "smooth"])
def test_artists_show_the_numbers(over_confident, method):
    y, p = over_confident
    display = draw(y, p, method, n_bins=4, name="A")
    curve = display.curve
    assert isinstance(curve, FittedReliabilityCurve)
    assert (curve.method, curve.kind, curve.class_label) == (method, "positive", 1)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.event_rate)
    drawn = display.band_.get_paths()[0].vertices
    assert drawn[:, 1].max() == pytest.approx(curve.upper.max())
    assert display.errorbar_ is None
    counts, edges, _ = display.bars_.get_data()
    assert edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    first, *rest = [((low < p) & (p <= low + 0.25)).sum() for low in edges[:-1]]
    assert counts.tolist() == [first + (p == 0).sum(), *rest]
    assert f"A\nNLL {display.nll:.3f}, ECE {curve.error:.3f}" in [
        text.get_text() for text in display.ax_.get_legend().get_texts()
    ]


def test_binned_and_fitted_curves_lie_over_each_other(over_confident):
    y, p = over_confident
    one = draw(y, p, "binned")
    assert one.band_ is None
    two, three = (draw(y, p, method, ax=one.ax_) for method in ("isotonic", "smooth"))
    assert two.ax_histogram_ is three.ax_histogram_ is one.ax_histogram_
    assert len({each.line_.get_marker() for each in (one, two, three)}) == 3
    labels = [line.get_label() for line in one.ax_.lines]
    assert labels.count("Perfectly calibrated") == 1
    # Filled only where nothing lies beneath.
    assert draw(y, p, "smooth").band_.get_facecolor()[0, 3] > 0
    assert len(two.band_.get_facecolor()) == 0 or two.band_.get_facecolor()[0, 3] == 0


def test_line_options_reach_the_band(over_confident):
    display = draw(*over_confident, "smooth", color="#123456", markevery=7)
    np.testing.assert_allclose(display.band_.get_facecolor()[0, :3], to_rgba("#123456")[:3])
    assert display.line_.get_markevery() == 7


def test_counts_go_by_logarithm_where_they_differ_much():
    p = np.r_[np.full(2000, 0.01), np.full(3, 0.95)]
    y = np.r_[np.zeros(2000, int), np.ones(3, int)]
    few = draw(y[-20:], p[-20:], "binned")
    assert few.ax_histogram_.get_yscale() == "linear"
    many = draw(y, p, "binned")
    assert many.ax_histogram_.get_yscale() == "symlog"
    assert many.ax_histogram_.get_ylabel() == "Count (log)"
    assert many.ax_histogram_.get_ylim() == (0, 3000)
    assert many.ax_histogram_.get_yticks().tolist() == [1, 100]
    # A display that would be linear by itself joins in, and is not cut off.
    again = draw(np.tile(y[:2000], 5), np.full(10000, 0.01), "binned", labels=[0, 1], ax=many.ax_)
    assert again.ax_histogram_.get_ylim() == (0, 15000)
    many.figure_.draw_without_rendering()


@pytest.mark.parametrize("method", ["binned", "isotonic", "smooth"])
def test_many_classes_and_degenerate_rows(method):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(150, 0.1), 300)
    y = (rng.random((300, 1)) > proba.cumsum(axis=1)).sum(axis=1).clip(0, 149)
    display = draw(y, proba, method, labels=np.arange(150))
    display.figure_.draw_without_rendering()
    for y, p in (([0, 0], [0.0, 0.0]), ([1], [1.0]), ([0, 1], [1.0, 0.0])):
        draw(y, p, method, labels=[0, 1]).figure_.draw_without_rendering()


def test_unknown_options(over_confident):
    with pytest.raises(ValueError, match="'binned', 'isotonic' or 'smooth'; got 'corp'"):
        draw(*over_confident, "corp")
    for wrong in (1, 2.5, True):
        with pytest.raises(ValueError, match="n_resamples must be a whole number"):
            draw(*over_confident, "smooth", n_resamples=wrong)
    with pytest.raises(ValueError, match="confidence_level must be strictly"):
        draw(*over_confident, "isotonic", confidence_level=1)
    with pytest.raises(ValueError, match="name it with class_label"):
        draw(*over_confident, "isotonic", kind="class-wise")
    with pytest.raises(ValueError, match="belongs to kind='class-wise'"):
        draw(*over_confident, "isotonic", kind="positive", class_label=1)
    assert not plt.get_fignums()
