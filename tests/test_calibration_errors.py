"""Calibration errors beyond the plain one: by hand, by slow definitions, by other libraries."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skcal.metrics import (
    adaptive_calibration_error,
    binned_cumulative_calibration_error,
    cumulative_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    maximum_mean_calibration_error,
    reliability_curve,
    smooth_calibration_error,
    squared_kernel_calibration_error,
)

ERRORS = {
    "l2": partial(expected_calibration_error, norm="l2"),
    "sweep": partial(expected_calibration_error, strategy="sweep"),
    "sweep-l2": partial(expected_calibration_error, strategy="sweep", norm="l2"),
    "squared": partial(expected_calibration_error, norm="l2", squared=True),
    "maximum": maximum_calibration_error,
    "adaptive": adaptive_calibration_error,
    "smooth": smooth_calibration_error,
    "mmce": maximum_mean_calibration_error,
    "mmce-squared": partial(maximum_mean_calibration_error, squared=True),
    "ks": ks_calibration_error,
    "range": cumulative_calibration_error,
    "binned-cumulative": binned_cumulative_calibration_error,
}
# Right on average, and therefore negative at times: not for rows that are copies.
UNBIASED = {
    "l2-debiased": partial(expected_calibration_error, norm="l2", squared=True, debias=True),
    "mmce-debiased": partial(maximum_mean_calibration_error, squared=True, debias=True),
}
KINDS = ("top-label", "class-wise", "positive")
every_error = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
every_kind = pytest.mark.parametrize("kind", KINDS)
UNITS = 20  # probabilities in the properties are whole multiples of 1/20


def made_up(n, n_classes):
    """Labels from a model, and its logits doubled: the data that other libraries saw."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, n_classes))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    doubled = np.exp(2 * logits)
    return y, doubled / doubled.sum(axis=1, keepdims=True)


def calibrated(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p).astype(int), p


@st.composite
def predictions(draw, n_classes=None, min_weight=0):
    """Labels, rows of whole units that sum to UNITS, and whole weights."""
    k = n_classes or draw(st.integers(2, 4))
    n = draw(st.integers(2, 20))
    cuts = st.lists(st.integers(0, UNITS), min_size=k - 1, max_size=k - 1).map(sorted)
    units = np.array([np.diff([0, *draw(cuts), UNITS]) for _ in range(n)])
    y = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    weight = st.lists(st.integers(min_weight, 3), min_size=n, max_size=n)
    return y, units, np.array(draw(weight.filter(lambda w: np.count_nonzero(w) > 1)))


def allowed(kind, k):
    return kind if k == 2 or kind != "positive" else "top-label"


# --- By hand -----------------------------------------------------------------------------

# Two bins: 0.1 and 0.3 with one event of two (gap 0.3), and 0.9 twice with one event (gap
# 0.4); the third row counts twice.
Y, P, W = [0, 1, 1, 0], [0.1, 0.3, 0.9, 0.9], [1, 1, 2, 1]


def test_norms_by_hand():
    error = partial(expected_calibration_error, Y, P, kind="positive", n_bins=2)
    assert error() == pytest.approx((0.3 + 0.4) / 2)
    assert error(norm="l2") == pytest.approx(np.sqrt((0.09 + 0.16) / 2))
    assert error(norm="l2", squared=True) == pytest.approx((0.09 + 0.16) / 2)
    assert error(norm="max") == pytest.approx(0.4)
    assert maximum_calibration_error(Y, P, kind="positive", n_bins=2) == pytest.approx(0.4)
    # Weights: the upper bin has three fifths, a rate of 2/3 and a gap of 7/30.
    weighted = error(norm="l2", squared=True, sample_weight=W)
    assert weighted == pytest.approx(0.4 * 0.09 + 0.6 * (7 / 30) ** 2)


def test_debiased_square_by_hand():
    error = partial(
        expected_calibration_error, Y, P, kind="positive", n_bins=2, norm="l2", debias=True
    )
    # Both bins have a rate of 1/2 among two rows: the variance is 1/4.
    assert error(squared=True) == pytest.approx((0.09 + 0.16) / 2 - 0.25)
    assert error() == 0
    # Weights 2 and 1 are worth 9/5 rows: (2/3)(1/3) / (4/5) = 5/18.
    upper = (7 / 30) ** 2 - 5 / 18
    assert error(squared=True, sample_weight=W) == pytest.approx(0.4 * (0.09 - 0.25) + 0.6 * upper)
    # A row alone in its bin has no variance, and no vote.
    assert expected_calibration_error(
        [0, 1, 1], [0.1, 0.3, 0.9], kind="positive", n_bins=2, norm="l2", debias=True, squared=True
    ) == pytest.approx(2 / 3 * (0.09 - 0.25))


def test_marginal_pools_what_class_wise_averages():
    y, proba = [0, 0], [[0.5, 0.4, 0.1], [0.5, 0.4, 0.1]]
    error = partial(expected_calibration_error, y, proba, n_bins=4, labels=[0, 1, 2])
    gaps = np.array([0.5, 0.4, 0.1])
    for kind in ("class-wise", "marginal"):
        assert error(kind=kind) == pytest.approx(gaps.mean())
    assert error(kind="class-wise", norm="l2") == pytest.approx(gaps.mean())
    assert error(kind="marginal", norm="l2") == pytest.approx(np.sqrt((gaps**2).mean()))
    assert error(kind="class-wise", norm="max") == pytest.approx(gaps.mean())
    assert error(kind="marginal", norm="max") == pytest.approx(0.5)
    for squared in ("class-wise", "marginal"):
        found = error(kind=squared, norm="l2", squared=True)
        assert found == pytest.approx((gaps**2).mean())


def test_adaptive_error_by_hand():
    y, p = [0, 0, 0, 1], [0.1, 0.2, 0.7, 0.9]
    # Two bins of two rows for each class: gaps 0.15 and 0.3 in both.
    assert adaptive_calibration_error(y, p, n_bins=2) == pytest.approx(0.225)
    y, proba = made_up(600, 4)
    same = expected_calibration_error(y, proba, kind="class-wise", strategy="quantile")
    assert adaptive_calibration_error(y, proba) == same


def test_sweep_stops_before_rates_fall():
    p = np.linspace(0.05, 0.95, 10)
    y = np.array([0, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    # Two bins: 1/5, 4/5. Three bins of 4, 3 and 3: 1/4, 1/3, 1. Four bins of 3, 2, 3, 2:
    # 0, 1/2, 2/3, 1. Five bins of two: 0, 1/2, 1/2, 1/2, 1. Six of 2, 2, 1, ...: 0, 1/2, 0.
    sweep = partial(expected_calibration_error, y, p, kind="positive", strategy="sweep")
    five = np.abs(p.reshape(5, 2).mean(axis=1) - [0, 0.5, 0.5, 0.5, 1]).mean()
    assert sweep() == pytest.approx(five)
    three = np.array([4 * 0.2 - 1, 3 * 0.55 - 1, 3 * 0.85 - 3])
    assert sweep(n_bins=3) == pytest.approx(np.abs(three).sum() / 10)


def test_sweep_of_rates_that_never_fall_separates_all():
    p, y = np.array([0.1, 0.1, 0.4, 0.8]), [0, 0, 1, 1]
    for weight in ([1, 1, 1, 1], [1, 1, 1e-6, 100], [1, 1, 1e-20, 1]):
        share = np.array(weight) / np.sum(weight)
        found = expected_calibration_error(
            y, p, kind="positive", strategy="sweep", n_bins=10**9, sample_weight=weight
        )
        assert found == pytest.approx(share @ [0.1, 0.1, 0.6, 0.2])


def test_mmce_by_hand():
    error = partial(maximum_mean_calibration_error, [0, 0], [0.3, 0.7], kind="positive")
    between = 0.3 * 0.7 * np.exp(-1)
    assert error(squared=True) == pytest.approx((0.09 + 0.49 + 2 * between) / 4)
    assert error() == pytest.approx(np.sqrt((0.09 + 0.49 + 2 * between) / 4))
    assert error(squared=True, debias=True) == pytest.approx(between)


def test_skce_by_hand():
    y, proba = [0, 1], [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]]
    product = 0.3 * -0.2 + -0.2 * 0.5 + -0.1 * -0.3
    error = partial(squared_kernel_calibration_error, y, proba, labels=[0, 1, 2])
    assert error(bandwidth=0.5) == pytest.approx(product * np.exp(-1.0 / 0.5))
    euclidean = np.sqrt(0.25 + 0.09 + 0.04)
    found = error(bandwidth=0.5, distance="euclidean")
    assert found == pytest.approx(product * np.exp(-euclidean / 0.5))
    # The only distance is the median one.
    assert error() == pytest.approx(product * np.exp(-1))
    assert error(sample_weight=[5, 0.1]) == pytest.approx(product * np.exp(-1))


def test_cumulative_errors_by_hand():
    # Residuals -.2 -.4 .4 .2 of four rows: the sums are -.05 -.15 -.05 0.
    y, p = [0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8]
    assert cumulative_calibration_error(y, p, kind="positive") == pytest.approx(0.15)
    # Residuals .8 -.4 -.6 .2: the sums are .2 .1 -.05 0.
    y = [1, 0, 0, 1]
    assert cumulative_calibration_error(y, p, kind="positive") == pytest.approx(0.25)
    found = cumulative_calibration_error(y, p, kind="positive", statistic="max")
    assert found == pytest.approx(0.2)
    assert ks_calibration_error(y, p, kind="positive") == pytest.approx(0.2)


def test_binned_cumulative_error_by_hand():
    # Of three bins the middle one is empty: sums -.2 and -.2 + .25 over four rows each.
    y, p = [1, 0, 0, 1], [0.2, 0.4, 0.8, 0.9]
    found = binned_cumulative_calibration_error(y, p, kind="positive", n_bins=4)
    # Bins: (.2) 1, (.4) 0, (.8 .9) 1 of 2 -> cumulative gaps -.2, -.1, .075 after weights.
    assert found == pytest.approx((0.2 + 0.1 + 0.075) / 3)


# --- Known cases -------------------------------------------------------------------------


@every_error
def test_always_sure_and_always_wrong(error):
    assert error([1, 1], [[1.0, 0.0], [1.0, 0.0]], labels=[0, 1]) == pytest.approx(1)


@every_error
def test_always_sure_and_always_right(error):
    assert error([0, 1, 1], [1.0, 0.0, 0.0], labels=[1, 0]) == 0


def test_confidence_of_one_and_of_zero():
    y, p = [1, 0], [0.95, 1.0]
    assert maximum_calibration_error(y, p, kind="positive", n_bins=10) == pytest.approx(0.475)
    y, p = [0, 0, 1, 1, 1], [1.0, 1.0, 1.0, 1.0, 0.0]
    error = partial(expected_calibration_error, y, p, kind="positive", n_bins=2)
    assert error(norm="max") == pytest.approx(1.0)
    assert error(norm="l2", squared=True) == pytest.approx(0.2 * 1 + 0.8 * 0.25)


@every_error
@every_kind
def test_equal_predictions_make_one_gap(error, kind):
    found = error([0, 1] * 20, [0.9] * 40, kind=kind)
    assert found == pytest.approx(0.16 if "squared" in str(error) else 0.4)


@every_error
def test_a_class_absent_from_y_true(error):
    y, proba = [0, 0], [[0.9, 0.1], [0.9, 0.1]]
    expected = 0.01 if "squared" in str(error) else 0.1
    assert error(y, proba, kind="top-label") == pytest.approx(expected)
    named = error(["a", "a"], proba, labels=["a", "b"], kind="top-label")
    assert named == pytest.approx(expected)


# --- Other libraries ---------------------------------------------------------------------


def test_numbers_of_other_libraries_three_classes():
    y, proba = made_up(3000, 3)
    error = partial(expected_calibration_error, y, proba)
    # torchmetrics 1.9.0 in float32, n_bins=15.
    assert error() == pytest.approx(0.1500280350446701, abs=1e-6)
    assert error(norm="l2") == pytest.approx(0.15548552572727203, abs=1e-6)
    assert error(norm="max") == pytest.approx(0.19446313381195068, abs=1e-6)
    # netcal 1.4.0: MCE(15), MMCE().
    assert maximum_calibration_error(y, proba) == pytest.approx(0.19446286504101162, abs=1e-12)
    found = maximum_mean_calibration_error(y, proba)
    assert found == pytest.approx(0.12348151165074976, abs=1e-12)
    # uncertainty-calibration 0.1.4: plugin_ce and unbiased_square_ce of get_equal_bins(15)
    # for the top label, get_calibration_error for all classes.
    l2 = {"norm": "l2", "strategy": "quantile"}
    assert error(**l2) == pytest.approx(0.15534573288311895, abs=1e-12)
    found = error(**l2, debias=True, squared=True)
    assert found == pytest.approx(0.02302869538495985, abs=1e-12)
    found = error(**l2, kind="marginal")
    assert found == pytest.approx(0.11372026963302075, abs=1e-12)
    found = error(**l2, kind="marginal", debias=True)
    assert found == pytest.approx(0.10986499712155953, abs=1e-12)
    # The sweep of google-research/caltrain, em_ece_sweep, which stops at 10 bins.
    sweep = partial(error, strategy="sweep")
    assert sweep() == pytest.approx(0.15002800834518817, abs=1e-12)
    assert sweep(norm="l2") == pytest.approx(0.15368962527636745, abs=1e-12)
    # relplot 1.0.3 smECE: its width is a multiple of 1/1024.
    assert smooth_calibration_error(y, proba) == pytest.approx(0.15014665095951, rel=2e-3)


def test_numbers_of_other_libraries_two_classes():
    y, proba = made_up(3000, 2)
    positive = {"kind": "positive"}
    # probmetrics 1.3.0 in float32: KuiperCalibrationMetric, KolmogorovSmirnovCalibrationMetric.
    found = cumulative_calibration_error(y, proba, **positive)
    assert found == pytest.approx(0.05289016664028168, abs=1e-6)
    found = ks_calibration_error(y, proba, **positive)
    assert found == pytest.approx(0.04987896978855133, abs=1e-6)
    # relplot 1.0.3, and the sweep of google-research/caltrain, which stops at 15 bins.
    found = smooth_calibration_error(y, proba, **positive)
    assert found == pytest.approx(0.09808901874790475, rel=5e-3)
    sweep = partial(expected_calibration_error, y, proba, strategy="sweep", **positive)
    assert sweep() == pytest.approx(0.10051873653129008, abs=1e-12)
    assert sweep(norm="l2") == pytest.approx(0.10934892864210809, abs=1e-12)


def test_numbers_of_the_local_calibration_papers():
    # Their code on these 600 rows: ECE .078175, MCE .283831, ECCE .026411, class-wise.
    rng = np.random.RandomState(0)
    features, weights = rng.normal(size=(600, 5)), rng.normal(size=(5, 3))
    truth, said = (np.exp(sharp * features @ weights) for sharp in (1, 2))
    truth /= truth.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < rng.uniform(size=600)[:, None]).sum(axis=1)
    proba = said / said.sum(axis=1, keepdims=True)
    error = expected_calibration_error(y, proba, kind="class-wise")
    assert error == pytest.approx(0.078175, abs=1e-6)
    largest = maximum_calibration_error(y, proba, kind="class-wise")
    assert largest == pytest.approx(0.283831, abs=1e-6)
    cumulative = binned_cumulative_calibration_error(y, proba)
    assert cumulative == pytest.approx(0.026411, abs=1e-6)


# --- Slow definitions --------------------------------------------------------------------


def exact_sweep(pairs, most):
    """Return the sweep's error in fractions, of (units, event, weight) with plain loops."""
    total = sum(w for *_, w in pairs)
    best = None
    for n_bins in range(1, most + 1):
        edges = []
        for b in range(1, n_bins):
            reached = 0
            for value in sorted({u for u, *_ in pairs}):
                reached += sum(w for u, _, w in pairs if u == value)
                if reached * n_bins >= b * total:
                    edges.append(value)
                    break
        bins = {}
        for units, event, weight in pairs:
            bins.setdefault(sum(units > edge for edge in edges), []).append((units, event, weight))
        rates = [
            Fraction(sum(e * w for _, e, w in bins[b]), sum(w for *_, w in bins[b]))
            for b in sorted(bins)
        ]
        if rates != sorted(rates):
            break
        best = bins
    gaps = [abs(sum(w * (Fraction(u, UNITS) - e) for u, e, w in rows)) for rows in best.values()]
    return float(sum(gaps) / total)


@settings(deadline=None, max_examples=60)
@given(data=predictions(n_classes=2), most=st.integers(1, 25))
def test_sweep_equals_exact_fractions(data, most):
    y, units, weights = data
    pairs = [(int(u), int(e), int(w)) for u, e, w in zip(units[:, 1], y, weights, strict=True) if w]
    found = expected_calibration_error(
        y,
        units / UNITS,
        kind="positive",
        strategy="sweep",
        n_bins=most,
        sample_weight=weights,
        labels=[0, 1],
    )
    assert found == pytest.approx(exact_sweep(pairs, most), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(data=predictions(), debias=st.booleans())
def test_mmce_equals_its_double_sum(data, debias):
    y, units, weights = data
    proba = units / UNITS
    residual = weights * ((proba.argmax(axis=1) == y) - proba.max(axis=1))
    apart = np.abs(proba.max(axis=1)[:, None] - proba.max(axis=1))
    pairs = np.outer(residual, residual) * np.exp(-apart / 0.4)
    counted = np.outer(weights, weights).astype(float)
    if debias:
        np.fill_diagonal(pairs, 0)
        np.fill_diagonal(counted, 0)
    found = maximum_mean_calibration_error(
        y,
        proba,
        debias=debias,
        squared=True,
        sample_weight=weights,
        labels=range(proba.shape[1]),
    )
    assert found == pytest.approx(pairs.sum() / counted.sum(), abs=1e-12)


@pytest.mark.parametrize(("distance", "order"), [("cityblock", 1), ("euclidean", 2)])
def test_skce_equals_its_double_sum(distance, order, monkeypatch):
    y, proba = made_up(53, 4)
    weights = np.random.default_rng(1).integers(0, 3, size=53)
    apart = np.linalg.norm(proba[:, None] - proba, ord=order, axis=2)
    residual = np.eye(4)[y] - proba
    both = np.outer(weights, weights) * (1 - np.eye(53))
    kept = apart[np.ix_(weights > 0, weights > 0)]
    median = np.median(kept[np.triu_indices(len(kept), 1)])
    # Several tiles, the last one smaller.
    monkeypatch.setattr("skcal.metrics._errors.skce._TILE", 7 * 53)
    for bandwidth in (None, 0.2):
        kernel = np.exp(-apart / (bandwidth or median))
        expected = (both * kernel * (residual @ residual.T)).sum() / both.sum()
        found = squared_kernel_calibration_error(
            y, proba, distance=distance, bandwidth=bandwidth, sample_weight=weights
        )
        assert found == pytest.approx(expected, abs=1e-9)


def smoothed_by_quadrature(confidence, residual, width, points=2000):
    """Return the integral with every image of every row within eight widths of [0, 1]."""
    t = (np.arange(points) + 0.5) / points
    total = np.zeros(points)
    for turn in range(-5, 6):
        for image in (2 * turn + confidence, 2 * turn - confidence):
            bell = np.exp(-0.5 * ((t[:, None] - image) / width) ** 2)
            total += bell @ residual / (width * np.sqrt(2 * np.pi))
    return np.abs(total).mean()


@pytest.mark.parametrize("truth", ["calibrated", "too high", "too low", "turned"])
def test_smooth_error_is_the_fixed_point(truth):
    rng = np.random.default_rng(3)
    p = np.r_[rng.beta(0.5, 0.5, size=150), 0.0, 1.0, 0.5]
    w = rng.uniform(size=len(p))
    rate = {"calibrated": p, "too high": p**3, "too low": p**0.2, "turned": 1 - p}[truth]
    y = (rng.uniform(size=len(p)) < rate).astype(int)
    found = smooth_calibration_error(y, p, kind="positive", sample_weight=w)
    exact = smoothed_by_quadrature(p, w * (y - p) / w.sum(), found)
    assert found == pytest.approx(exact, rel=1e-4)


def test_smooth_error_does_not_jump_where_bins_do():
    y, before, after = [0, 0, 1, 1], [0.3, 0.5, 0.5, 0.7], [0.3, 0.5, 0.5001, 0.7]
    binned = partial(expected_calibration_error, kind="positive", n_bins=2)
    smooth = partial(smooth_calibration_error, kind="positive")
    assert abs(binned(y, before) - binned(y, after)) > 0.1
    assert abs(smooth(y, before) - smooth(y, after)) < 1e-3


@settings(deadline=None, max_examples=30)
@given(data=predictions(n_classes=2, min_weight=1))
def test_range_is_the_largest_residual_of_an_interval(data):
    y, units, weights = data
    units = units[:, 1]
    largest = max(
        abs(
            sum(
                w * (e * UNITS - u)
                for u, e, w in zip(units, y, weights, strict=True)
                if a <= u <= b
            )
        )
        for a in range(UNITS + 1)
        for b in range(a, UNITS + 1)
    )
    found = cumulative_calibration_error(
        y, units / UNITS, kind="positive", sample_weight=weights, labels=[0, 1]
    )
    assert found == pytest.approx(largest / UNITS / weights.sum(), abs=1e-12)


# --- Properties --------------------------------------------------------------------------


@every_error
@every_kind
@settings(deadline=None, max_examples=15)
@given(data=predictions(), seed=st.integers(0, 1000))
def test_order_of_rows_and_scale_of_weights_do_not_matter(error, kind, data, seed):
    y, units, weights = data
    k = units.shape[1]
    error = partial(error, kind=allowed(kind, k), labels=range(k))
    plain = error(y, units / UNITS, sample_weight=weights)
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = error(y[order], units[order] / UNITS, sample_weight=weights[order] * 0.1)
    assert shuffled == pytest.approx(plain, abs=1e-9)
    assert 0 <= plain <= 1 + 1e-9


@every_error
@every_kind
@settings(deadline=None, max_examples=15)
@given(data=predictions(n_classes=2))
def test_whole_weights_are_repetitions(error, kind, data):
    y, units, weights = data
    error = partial(error, kind=kind, labels=[0, 1])
    weighted = error(y, units / UNITS, sample_weight=weights)
    repeated = error(np.repeat(y, weights), np.repeat(units, weights, axis=0) / UNITS)
    assert weighted == pytest.approx(repeated, abs=1e-9)


@every_error
@every_kind
@settings(deadline=None, max_examples=15)
@given(data=predictions(n_classes=2))
def test_three_spellings_of_two_classes_agree(error, kind, data):
    y, units, _ = data
    second = units[:, 1] / UNITS
    spellings = (
        second,
        second[:, None],
        units / UNITS,
        np.column_stack([1 - second, second]),
    )
    numbers = [error(y, p, kind=kind, labels=[0, 1]) for p in spellings]
    np.testing.assert_allclose(numbers, numbers[0], atol=1e-9)


@pytest.mark.parametrize("error", [*UNBIASED.values(), squared_kernel_calibration_error])
def test_unbiased_errors_ignore_order_scale_and_absent_rows(error):
    y, proba = made_up(200, 3)
    rng = np.random.default_rng(0)
    weights, order = rng.integers(0, 4, size=200), rng.permutation(200)
    plain = error(y, proba, sample_weight=weights)
    shuffled = error(y[order], proba[order], sample_weight=weights[order] * 1e-30)
    assert shuffled == pytest.approx(plain, abs=1e-12)
    kept = weights > 0
    assert error(y[kept], proba[kept], sample_weight=weights[kept]) == pytest.approx(plain)
    # A copy of every row would be evidence that is not there.
    doubled = error(np.tile(y, 2), np.tile(proba, (2, 1)), sample_weight=np.tile(weights, 2))
    assert doubled > plain + 1e-4


@every_error
@pytest.mark.parametrize("kind", ["top-label", "class-wise"])
def test_names_and_order_of_classes_do_not_matter(error, kind):
    y, proba = made_up(200, 4)
    names, order = np.array(["delta", "alpha", "charlie", "bravo"]), [2, 0, 3, 1]
    plain = error(y, proba, kind=kind)
    assert error(names[y], proba, labels=names, kind=kind) == pytest.approx(plain, abs=1e-12)
    moved = error(names[y], proba[:, order], labels=names[order], kind=kind)
    assert moved == pytest.approx(plain, abs=1e-12)


@every_error
@every_kind
def test_numbers_are_python_floats_in_their_order(error, kind):
    y, proba = made_up(200, 2)
    assert type(error(y, proba.astype(np.float32), kind=kind)) is float
    norms = [expected_calibration_error(y, proba, kind=kind, norm=n) for n in ("l1", "l2", "max")]
    assert norms == sorted(norms)
    assert ks_calibration_error(y, proba, kind=kind) <= cumulative_calibration_error(
        y, proba, kind=kind
    )


def test_debiased_error_is_the_clipped_root():
    y, proba = made_up(500, 3)
    for error in UNBIASED.values():
        square = error(y, proba)
        assert square > 0
        assert error(y, proba, squared=False) == pytest.approx(np.sqrt(square))


def test_bins_of_the_error_are_those_of_the_curve():
    y, proba = made_up(500, 2)
    for strategy in ("uniform", "quantile"):
        choice = {"kind": "positive", "strategy": strategy}
        curve = reliability_curve(y, proba, **choice)
        gap = np.abs(curve.mean_predicted - curve.event_rate)
        largest = maximum_calibration_error(y, proba, **choice)
        assert largest == pytest.approx(np.nanmax(gap), abs=1e-12)


# --- Bias at the truth -------------------------------------------------------------------


def is_centred(values, width=4.0):
    return abs(np.mean(values)) < width * np.std(values) / np.sqrt(len(values))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_unbiased_squares_of_a_calibrated_model_centre_on_zero(strategy):
    found = {"bins": [], "bins-plain": [], "mmce": [], "mmce-plain": [], "skce": [], "blocks": []}
    for seed in range(400):
        y, p = calibrated(100, seed)
        square = {"kind": "positive", "squared": True, "labels": [0, 1]}
        bins = partial(
            expected_calibration_error, y, p, n_bins=8, strategy=strategy, norm="l2", **square
        )
        mmce = partial(maximum_mean_calibration_error, y, p, **square)
        skce = partial(squared_kernel_calibration_error, y, p, labels=[0, 1])
        found["bins"].append(bins(debias=True))
        found["bins-plain"].append(bins())
        found["mmce"].append(mmce(debias=True))
        found["mmce-plain"].append(mmce())
        found["skce"].append(skce())
        found["blocks"].append(skce(block_size=10))
    for name, values in found.items():
        assert is_centred(values) != name.endswith("plain"), name
        assert (np.min(values) < 0) != name.endswith("plain"), name


@pytest.mark.slow
def test_unbiased_squares_centre_on_zero_with_classes_and_weights():
    found = {"bins": [], "mmce": [], "skce": []}
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        proba = rng.dirichlet([0.5, 1, 2], size=200)
        y = (proba.cumsum(axis=1) < rng.uniform(size=200)[:, None]).sum(axis=1)
        given_ = {"sample_weight": rng.exponential(size=200), "labels": [0, 1, 2]}
        for name, error in zip(("bins", "mmce"), UNBIASED.values(), strict=True):
            found[name].append(error(y, proba, kind="class-wise", **given_))
        found["skce"].append(squared_kernel_calibration_error(y, proba, **given_))
    for name, values in found.items():
        assert is_centred(values, 3.5), name


def test_blocks_estimate_the_same_as_all_pairs():
    y, proba = made_up(2000, 3)
    whole = squared_kernel_calibration_error(y, proba, bandwidth=0.5)
    parts = [
        squared_kernel_calibration_error(y, proba, bandwidth=0.5, block_size=37, random_state=seed)
        for seed in range(100)
    ]
    assert is_centred(np.array(parts) - whole)
    assert np.std(parts) > 0
    assert squared_kernel_calibration_error(y, proba, bandwidth=0.5, block_size=2000) == whole


def test_many_rows_are_taken_in_blocks(monkeypatch):
    y, proba = made_up(300, 3)
    whole = squared_kernel_calibration_error(y, proba)
    monkeypatch.setattr("skcal.metrics._errors.skce._ALL_PAIRS", 100)
    # As many pairs as 100 rows have: blocks of 33.
    found = squared_kernel_calibration_error(y, proba)
    assert found == squared_kernel_calibration_error(y, proba, block_size=33) != whole
    assert squared_kernel_calibration_error(y, proba, block_size=300) == whole


def test_bandwidth_of_many_rows_does_not_depend_on_their_order():
    from skcal.metrics._errors.skce import median_distance

    _, proba = made_up(5000, 3)
    order = np.random.default_rng(0).permutation(5000)
    width = median_distance(proba, "cityblock")
    assert median_distance(proba[order], "cityblock") == width
    apart = np.abs(proba[::3, None] - proba[None, ::3]).sum(axis=2)
    assert width == pytest.approx(np.median(apart), rel=0.05)
    # Where most rows are equal the median is zero, and where all are, every distance.
    proba = np.repeat([[0.5, 0.5], [0.9, 0.1]], [9, 1], axis=0)
    assert median_distance(proba, "cityblock") == pytest.approx(0.8 * 9 / 45)
    assert median_distance(proba[:5], "euclidean") == 1


# --- Mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "canonical"}, "kind must be one of .*'marginal'; got 'canonical'"),
        ({"norm": "L1"}, "norm must be 'l1', 'l2' or 'max'; got 'L1'"),
        ({"strategy": "monotone"}, "'uniform', 'quantile' or 'sweep'; got 'monotone'"),
        ({"debias": True}, "debias=True is defined for norm='l2' only; got norm='l1'"),
        ({"squared": True, "norm": "max"}, "squared=True is defined for norm='l2' only"),
        (
            {"debias": True, "norm": "l2", "strategy": "sweep"},
            "bins that do not depend on the labels",
        ),
        ({"n_bins": 0, "strategy": "sweep"}, "n_bins must be a whole number of at least 1"),
    ],
)
def test_options_that_do_not_go_together(wrong, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error([0, 1], [0.2, 0.7], **wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"distance": "l1"}, ValueError, "distance must be 'cityblock' or 'euclidean'; got 'l1'"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be positive"),
        ({"bandwidth": "median"}, TypeError, "bandwidth must be a number"),
        ({"block_size": 1}, ValueError, "block_size must be a whole number of at least 2"),
        ({"block_size": 2.5}, ValueError, "block_size must be a whole number"),
        ({"sample_weight": [0, 1]}, ValueError, "needs two with weight; got one"),
    ],
)
def test_mistakes_with_the_kernel_error(wrong, error, message):
    with pytest.raises(error, match=message):
        squared_kernel_calibration_error([0, 1], [0.2, 0.7], **wrong)


def test_mistakes_elsewhere():
    with pytest.raises(ValueError, match="statistic must be 'range' or 'max'; got 'mad'"):
        cumulative_calibration_error([0, 1], [0.2, 0.7], statistic="mad")
    with pytest.raises(ValueError, match="needs two with a weight above zero"):
        maximum_mean_calibration_error([0, 1], [0.2, 0.7], debias=True, sample_weight=[1, 0])
    for error in (*ERRORS.values(), *UNBIASED.values()):
        with pytest.raises(ValueError, match="exactly two classes, but there are 3 columns"):
            error([0, 1, 2], np.full((3, 3), 1 / 3), kind="positive")
        with pytest.raises(ValueError, match=r"must sum to 1; row 0 sums to 0\.5"):
            error([0, 1], [[0.2, 0.3], [0.6, 0.4]])
