"""The metrics against numbers that come from elsewhere: by hand, by exact fractions, by scipy."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from skcal.metrics import (
    ReliabilityCurve,
    brier_score_loss,
    expected_calibration_error,
    log_loss,
    reliability_curve,
)
from skcal.metrics._bins import assign_bins, bin_edges

KINDS = ("top-label", "class-wise", "positive")
STRATEGIES = ("uniform", "quantile")
UNITS = 20  # probabilities in the exact tests are whole multiples of 1/20


# --- An independent implementation: plain loops over exact fractions --------------------


def exact_bins(pairs, weights, n_bins, strategy):
    """Group (confidence, event) pairs; the probabilities are Fractions."""
    if strategy == "uniform":
        inner = [Fraction(b, n_bins) for b in range(1, n_bins)]
    else:
        total, inner = sum(weights), []
        for b in range(1, n_bins):
            reached = 0
            for value in sorted({c for c, _ in pairs}):
                reached += sum(w for (c, _), w in zip(pairs, weights, strict=True) if c == value)
                if reached * n_bins >= b * total:
                    inner.append(value)
                    break
    groups = {}
    for (confidence, event), weight in zip(pairs, weights, strict=True):
        place = sum(confidence > edge for edge in inner)
        groups.setdefault(place, []).append((confidence, event, weight))
    return groups


def exact_error(pairs, weights, n_bins, strategy):
    error = Fraction(0)
    for rows in exact_bins(pairs, weights, n_bins, strategy).values():
        error += abs(sum(w * (c - e) for c, e, w in rows))
    return error / sum(weights)


def exact_ece(y, units, weights, kind, n_bins, strategy):
    def column(k):
        return [
            (Fraction(row[k], UNITS), int(label == k)) for row, label in zip(units, y, strict=True)
        ]

    if kind == "positive":
        return exact_error(column(1), weights, n_bins, strategy)
    if kind == "class-wise":
        n_classes = len(units[0])
        errors = [exact_error(column(k), weights, n_bins, strategy) for k in range(n_classes)]
        return sum(errors) / n_classes
    pairs = []
    for row, label in zip(units, y, strict=True):
        predicted = row.index(max(row))
        pairs.append((Fraction(row[predicted], UNITS), int(predicted == label)))
    return exact_error(pairs, weights, n_bins, strategy)


@st.composite
def predictions(draw, n_classes=None, min_weight=0):
    """Labels, rows of whole units that sum to UNITS, and whole weights."""
    k = n_classes or draw(st.integers(2, 4))
    n = draw(st.integers(1, 20))
    cuts = st.lists(st.integers(0, UNITS), min_size=k - 1, max_size=k - 1).map(sorted)
    units = [np.diff([0, *draw(cuts), UNITS]).tolist() for _ in range(n)]
    y = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    weight = st.lists(st.integers(min_weight, 3), min_size=n, max_size=n).filter(any)
    return y, units, draw(weight)


def options(kind, k):
    """A kind that the number of classes allows."""
    return kind if k == 2 or kind != "positive" else "top-label"


# --- Known cases -------------------------------------------------------------------------


def test_confidence_of_one_is_in_the_last_bin():
    y, p = [1, 0], [0.95, 1.0]
    ece = expected_calibration_error(y, p, kind="positive", n_bins=10)
    assert ece == pytest.approx(0.475, abs=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_always_sure_and_always_wrong(strategy):
    wrong = [[1.0, 0.0, 0.0]] * 4
    assert expected_calibration_error([1, 2, 1, 2], wrong, labels=[0, 1, 2], strategy=strategy) == 1


def test_probability_of_zero_is_in_the_first_bin():
    y, p = [0, 0, 1, 1, 1], [1.0, 1.0, 1.0, 1.0, 0.0]
    ece = expected_calibration_error(y, p, kind="positive", n_bins=2)
    assert ece == pytest.approx(0.6, abs=1e-12)


@pytest.mark.parametrize("n_bins", [1, 2, 5, 15, 40, 100])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_predictions_share_one_bin(strategy, n_bins):
    y, p = [0, 1] * 20, [0.9] * 40
    for kind in KINDS:
        ece = expected_calibration_error(y, p, kind=kind, n_bins=n_bins, strategy=strategy)
        assert ece == pytest.approx(0.4, abs=1e-12)
    curve = reliability_curve(y, p, kind="positive", n_bins=n_bins, strategy=strategy)
    assert curve.count.max() == 40


def test_ties_are_not_split_whatever_the_order_of_rows():
    p = np.array([0.3] * 30 + [0.7] * 10)
    y = np.array([0, 1] * 20)
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(40)
        curve = reliability_curve(
            y[order], p[order], kind="positive", n_bins=5, strategy="quantile"
        )
        assert curve.count.tolist() == [30, 10]
        ece = expected_calibration_error(
            y[order], p[order], kind="positive", n_bins=5, strategy="quantile"
        )
        assert ece == pytest.approx(0.20, abs=1e-12)


def test_class_absent_from_y_true():
    y, proba = [0, 0], [[0.9, 0.1], [0.8, 0.2]]
    assert expected_calibration_error(y, proba) == pytest.approx(0.15, abs=1e-12)
    assert log_loss(y, proba) == pytest.approx(0.1643, abs=5e-5)
    assert log_loss(["a", "a"], proba, labels=["a", "b"]) == pytest.approx(0.1643, abs=5e-5)
    assert brier_score_loss(y, proba) == pytest.approx((0.01 + 0.04) / 2, abs=1e-12)
    with pytest.raises(ValueError, match="name the class of each column"):
        log_loss(["a", "a"], proba)


def test_two_binary_errors_named_apart():
    y, p = np.array([0, 0]), np.array([0.3, 0.7])
    for spelling in (p, p[:, None], np.column_stack([1 - p, p])):
        positive = expected_calibration_error(y, spelling, kind="positive", n_bins=2)
        top = expected_calibration_error(y, spelling, kind="top-label", n_bins=2)
        assert positive == pytest.approx(0.5, abs=1e-12)
        assert top == pytest.approx(0.2, abs=1e-12)


def test_one_class_in_y_true_for_both_proper_scores():
    assert brier_score_loss([1, 1, 1], [1.0, 1.0, 1.0]) == 0
    assert brier_score_loss([1], [0.4], labels=[0, 1]) == pytest.approx(0.36, abs=1e-12)
    assert log_loss([1], [0.5], labels=[0, 1]) == pytest.approx(np.log(2), abs=1e-12)


@pytest.mark.parametrize("metric", [log_loss, brier_score_loss, expected_calibration_error])
def test_labels_that_may_be_shifted_by_one_are_not_guessed(metric):
    proba = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.85, 0.1, 0.05]]
    with pytest.raises(ValueError, match="name the class of each column"):
        metric([1, 2, 1], proba)
    assert metric([1, 2, 1], proba, labels=[1, 2, 3]) == metric([0, 1, 0], proba)
    with pytest.raises(ValueError, match="name the class of each column"):
        metric([1, 1], [[0.9, 0.1], [0.8, 0.2]])


@pytest.mark.parametrize(
    "metric", [log_loss, brier_score_loss, expected_calibration_error, reliability_curve]
)
def test_rows_that_do_not_sum_to_one_are_refused(metric):
    with pytest.raises(ValueError, match=r"must sum to 1; row 0 sums to 0\.5"):
        metric([0, 1], [[0.2, 0.3], [0.6, 0.4]])


def test_empty_bins_are_kept_and_say_so():
    curve = reliability_curve([1, 0, 0], [0.9, 0.8, 0.2], kind="positive", n_bins=3)
    assert curve.count.tolist() == [1, 0, 2]
    assert curve.weight.tolist() == [1, 0, 2]
    for values in (curve.mean_predicted, curve.event_rate, curve.lower, curve.upper):
        assert np.isnan(values).tolist() == [False, True, False]
    np.testing.assert_allclose(curve.mean_predicted[[0, 2]], [0.2, 0.85])
    np.testing.assert_allclose(curve.event_rate[[0, 2]], [0.0, 0.5])
    np.testing.assert_allclose(curve.edges, [0, 1 / 3, 2 / 3, 1])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(data=predictions(n_classes=2), n_bins=st.integers(1, 8))
def test_whole_weights_are_repetitions(kind, strategy, data, n_bins):
    y, units, weights = data
    proba = np.array(units) / UNITS
    repeated = np.repeat(y, weights), np.repeat(proba, weights, axis=0)
    settings_ = {"n_bins": n_bins, "strategy": strategy, "kind": kind, "labels": [0, 1]}
    weighted = expected_calibration_error(y, proba, sample_weight=weights, **settings_)
    assert weighted == pytest.approx(expected_calibration_error(*repeated, **settings_), abs=1e-12)

    settings_["class_label"] = 1 if kind == "class-wise" else None
    one = reliability_curve(y, proba, sample_weight=weights, **settings_)
    two = reliability_curve(*repeated, **settings_)
    for field in ("edges", "mean_predicted", "event_rate", "weight"):
        np.testing.assert_allclose(getattr(one, field), getattr(two, field), atol=1e-12)
    assert one.count.sum() == np.count_nonzero(weights)


def test_strings_and_the_positive_class():
    y, p = ["no", "yes", "yes"], [0.1, 0.8, 0.6]
    curve = reliability_curve(y, p, kind="positive", n_bins=2)
    assert curve.class_label == "yes"
    assert curve.event_rate.tolist() == [0, 1]
    # The order of the columns decides, not the alphabet.
    turned = reliability_curve(y, p, kind="positive", n_bins=2, labels=["yes", "no"])
    assert turned.class_label == "no"
    assert turned.event_rate.tolist() == [1, 0]


# --- Against the exact implementation ----------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(data=predictions(), n_bins=st.integers(1, 20))
def test_error_equals_exact_fractions(kind, strategy, data, n_bins):
    y, units, weights = data
    k = len(units[0])
    kind = options(kind, k)
    exact = exact_ece(y, units, weights, kind, n_bins, strategy)
    found = expected_calibration_error(
        y,
        np.array(units) / UNITS,
        kind=kind,
        n_bins=n_bins,
        strategy=strategy,
        sample_weight=weights,
        labels=range(k),
    )
    assert found == pytest.approx(float(exact), abs=1e-12)
    assert 0 <= found <= 1 + 1e-12


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=30)
@given(data=predictions(), n_bins=st.integers(1, 20), label=st.integers(0, 1))
def test_curve_equals_exact_fractions(strategy, data, n_bins, label):
    y, units, weights = data
    k = len(units[0])
    curve = reliability_curve(
        y,
        np.array(units) / UNITS,
        kind="class-wise",
        class_label=label,
        n_bins=n_bins,
        strategy=strategy,
        sample_weight=weights,
        labels=range(k),
    )
    kept = [i for i, w in enumerate(weights) if w]
    pairs = [(Fraction(units[i][label], UNITS), int(y[i] == label)) for i in kept]
    groups = exact_bins(pairs, [weights[i] for i in kept], n_bins, strategy)
    rows = [groups[place] for place in sorted(groups)]
    filled = curve.count > 0
    assert strategy == "uniform" or filled.all()
    assert curve.count[filled].tolist() == [len(row) for row in rows]
    assert curve.weight[filled].tolist() == [sum(w for *_, w in row) for row in rows]
    mean = [float(sum(c * w for c, _, w in row) / sum(w for *_, w in row)) for row in rows]
    rate = [sum(e * w for _, e, w in row) / sum(w for *_, w in row) for row in rows]
    np.testing.assert_allclose(curve.mean_predicted[filled], mean, atol=1e-12)
    np.testing.assert_allclose(curve.event_rate[filled], rate, atol=1e-12)


def test_error_is_the_weighted_gap_of_the_curve():
    rng = np.random.default_rng(0)
    p, w = rng.uniform(size=500), rng.uniform(size=500)
    y = rng.uniform(size=500) < p**2
    for strategy in STRATEGIES:
        choice = {"kind": "positive", "strategy": strategy, "sample_weight": w}
        curve = reliability_curve(y, p, **choice)
        gap = np.abs(curve.mean_predicted - curve.event_rate)
        by_hand = np.nansum(gap * curve.weight) / curve.weight.sum()
        assert expected_calibration_error(y, p, **choice) == pytest.approx(by_hand, abs=1e-12)


# --- Properties --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(data=predictions(), n_bins=st.integers(1, 20), seed=st.integers(0, 1000))
def test_order_of_rows_and_scale_of_weights_do_not_matter(kind, strategy, data, n_bins, seed):
    y, units, weights = (np.array(part) for part in data)
    k = units.shape[1]
    choice = {
        "kind": options(kind, k),
        "n_bins": n_bins,
        "strategy": strategy,
        "labels": range(k),
    }
    plain = expected_calibration_error(y, units / UNITS, sample_weight=weights, **choice)
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = expected_calibration_error(
        y[order], units[order] / UNITS, sample_weight=weights[order] * 0.1, **choice
    )
    assert shuffled == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(data=predictions(n_classes=2), n_bins=st.integers(1, 20))
def test_three_spellings_of_two_classes_agree(kind, strategy, data, n_bins):
    y, units, _ = data
    first, second = np.array(units).T / UNITS
    # 1 - 0.7 is not 0.3: the last bit must not move a row across an edge.
    spellings = (
        second,
        second[:, None],
        np.column_stack([first, second]),
        np.column_stack([1 - second, second]),
        np.column_stack([first, 1 - first]),
    )
    choice = {"labels": [0, 1]}
    binned = {"kind": kind, "n_bins": n_bins, "strategy": strategy, **choice}
    for numbers in (
        [expected_calibration_error(y, p, **binned) for p in spellings],
        [brier_score_loss(y, p, **choice) for p in spellings],
    ):
        np.testing.assert_allclose(numbers, numbers[0], atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    y=st.lists(st.booleans(), min_size=5, max_size=5),
    p=st.lists(st.floats(0.01, 0.99), min_size=5, max_size=5),
)
def test_three_spellings_agree_in_log_loss(y, p):
    p = np.array(p)
    losses = [
        log_loss(y, spelling, labels=[False, True])
        for spelling in (p, p[:, None], np.column_stack([1 - p, p]))
    ]
    np.testing.assert_allclose(losses, losses[0], atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["top-label", "class-wise"])
def test_names_and_order_of_classes_do_not_matter(kind, strategy):
    rng = np.random.default_rng(3)
    proba = rng.dirichlet([1, 1, 1, 1], size=200)
    y = rng.integers(0, 4, size=200)
    names = np.array(["delta", "alpha", "charlie", "bravo"])
    order = [2, 0, 3, 1]
    for metric in (
        log_loss,
        brier_score_loss,
        lambda *a, **k: expected_calibration_error(*a, kind=kind, strategy=strategy, **k),
    ):
        plain = metric(y, proba)
        assert metric(names[y], proba, labels=names) == pytest.approx(plain, abs=1e-12)
        moved = metric(names[y], proba[:, order], labels=names[order])
        assert moved == pytest.approx(plain, abs=1e-12)


def test_positive_class_only_depends_on_the_pair():
    rng = np.random.default_rng(4)
    p = rng.uniform(size=100)
    y = (rng.uniform(size=100) < p).astype(int)
    plain = expected_calibration_error(y, p, kind="positive")
    named = np.array(["z", "a"])[y]
    assert expected_calibration_error(named, p, kind="positive", labels=["z", "a"]) == plain


def test_well_calibrated_predictions_have_a_small_error_and_a_positive_bias():
    rng = np.random.default_rng(5)
    errors = []
    for n in (200, 20_000):
        p = rng.uniform(size=n)
        y = rng.uniform(size=n) < p
        errors.append(expected_calibration_error(y, p, kind="positive"))
    assert errors[0] > errors[1] > 0
    assert errors[1] < 0.01


# --- Bins --------------------------------------------------------------------------------


def test_bins_are_closed_on_the_right():
    edges = bin_edges(np.array([0.5]), np.ones(1), 10, "uniform")
    values = np.array([0.0, 0.1, 0.1 + 1e-9, 0.3, 1 - 0.7, 0.3 + 1e-9, 0.9, 1.0])
    assert assign_bins(values, edges).tolist() == [0, 0, 1, 2, 2, 3, 8, 9]


def test_quantile_bins_hold_about_equal_weight():
    rng = np.random.default_rng(6)
    p, w = rng.beta(0.5, 3, size=5000), rng.uniform(0.2, 1, size=5000)
    y = np.arange(5000) % 2
    curve = reliability_curve(
        y, p, kind="positive", n_bins=20, strategy="quantile", sample_weight=w
    )
    assert len(curve.count) == 20
    # A bin exceeds its share by one row at most, and so does what it takes from the next.
    np.testing.assert_allclose(curve.weight, w.sum() / 20, atol=1.0)
    assert curve.count.sum() == 5000


@pytest.mark.parametrize("scale", [0.1, 0.7, 1 / 3])
def test_rounding_of_weights_moves_no_quantile_edge(scale):
    confidence, weights = np.linspace(0, 1, 60), np.ones(60)
    for n_bins in range(1, 61):
        plain = bin_edges(confidence, weights, n_bins, "quantile")
        scaled = bin_edges(confidence, weights * scale, n_bins, "quantile")
        np.testing.assert_array_equal(scaled, plain)


def test_rows_without_weight_are_as_if_absent():
    y, p = [0, 1, 1, 0], [0.2, 0.6, 0.9, 1.0]
    for strategy in STRATEGIES:
        choice = {"kind": "positive", "n_bins": 3, "strategy": strategy}
        with_row = reliability_curve(y, p, sample_weight=[1, 1, 1, 0], **choice)
        without = reliability_curve(y[:3], p[:3], **choice)
        for field in ("edges", "count", "weight", "mean_predicted", "event_rate", "lower", "upper"):
            np.testing.assert_array_equal(getattr(with_row, field), getattr(without, field))


def test_tiny_and_huge_weights():
    y, p = [0, 1, 1, 0], [0.2, 0.6, 0.9, 0.9]
    plain = reliability_curve(y, p, kind="positive", n_bins=3)
    for scale in (1e-200, 1e200):
        scaled = reliability_curve(y, p, kind="positive", n_bins=3, sample_weight=[scale] * 4)
        np.testing.assert_allclose(scaled.lower, plain.lower)
        np.testing.assert_allclose(scaled.event_rate, plain.event_rate)


# --- The intervals -----------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (20, 1000)])
def test_wilson_interval_equals_scipy(hits, n, level):
    y = np.arange(n) < hits
    curve = reliability_curve(
        y, np.full(n, 0.3), kind="positive", n_bins=1, labels=[0, 1], confidence_level=level
    )
    expected = binomtest(hits, n).proportion_ci(level, method="wilson")
    assert curve.lower[0] == pytest.approx(expected.low, abs=1e-12)
    assert curve.upper[0] == pytest.approx(expected.high, abs=1e-12)
    assert curve.lower[0] <= curve.event_rate[0] <= curve.upper[0]


def test_interval_uses_the_effective_number_of_rows():
    # Weights 3, 1: (3 + 1)^2 / (9 + 1) = 1.6 rows.
    curve = reliability_curve([1, 0], [0.5, 0.5], kind="positive", n_bins=1, sample_weight=[3, 1])
    z, m, rate = 1.959963984540054, 1.6, 0.75
    centre = (rate + z**2 / (2 * m)) / (1 + z**2 / m)
    half = z / (1 + z**2 / m) * np.sqrt(rate * (1 - rate) / m + z**2 / (4 * m**2))
    assert curve.lower[0] == pytest.approx(centre - half, abs=1e-12)
    assert curve.upper[0] == pytest.approx(centre + half, abs=1e-12)


# --- Proper scores by hand ---------------------------------------------------------------


def test_log_loss_by_hand():
    rng = np.random.default_rng(7)
    proba = rng.dirichlet([1, 2, 3], size=50)
    y, w = rng.integers(0, 3, size=50), rng.uniform(size=50)
    of_truth = np.array([proba[i, y[i]] for i in range(50)])
    assert log_loss(y, proba) == pytest.approx(-np.log(of_truth).mean(), abs=1e-12)
    weighted = -(w * np.log(of_truth)).sum() / w.sum()
    assert log_loss(y, proba, sample_weight=w) == pytest.approx(weighted, abs=1e-12)


def test_log_loss_of_an_impossible_truth_is_large_and_finite():
    assert log_loss([0, 1], [[1.0, 0.0], [1.0, 0.0]]) == pytest.approx(36.0436534 / 2, abs=1e-6)


def test_brier_score_by_hand():
    proba = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.2, 0.2, 0.6]]
    rows = [0.04 + 0.01 + 0.01, 0.04 + 0.09 + 0.01, 0.04 + 0.04 + 0.16]
    assert brier_score_loss([0, 1, 2], proba) == pytest.approx(sum(rows) / 3, abs=1e-12)
    weighted = (2 * rows[0] + rows[2]) / 3
    found = brier_score_loss([0, 1, 2], proba, sample_weight=[2, 0, 1])
    assert found == pytest.approx(weighted, abs=1e-12)
    assert brier_score_loss([1, 2, 0], np.eye(3)) == 2
    assert brier_score_loss([1, 0], np.eye(2)) == 1


def test_scores_are_python_floats():
    for metric in (log_loss, brier_score_loss, expected_calibration_error):
        assert type(metric([0, 1], np.array([0.1, 0.8], dtype=np.float32))) is float


# --- Mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "binary"}, "kind must be one of 'top-label', 'class-wise', 'positive'"),
        ({"strategy": "equal"}, "strategy must be .*'quantile'.*; got 'equal'"),
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1; got 0"),
        ({"n_bins": 2.5}, "n_bins must be a whole number"),
        ({"n_bins": True}, "n_bins must be a whole number"),
    ],
)
def test_unknown_options_are_named(wrong, message):
    for metric in (expected_calibration_error, reliability_curve):
        with pytest.raises(ValueError, match=message):
            metric([0, 1], [0.2, 0.7], **wrong)


def test_positive_class_needs_two_classes():
    proba = np.full((3, 3), 1 / 3)
    for metric in (expected_calibration_error, reliability_curve):
        with pytest.raises(ValueError, match="exactly two classes, but there are 3 columns"):
            metric([0, 1, 2], proba, kind="positive")


def test_class_label_and_kind_belong_together():
    y, proba = ["a", "b", "c"], np.full((3, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"name it with class_label=.*\['a', 'b', 'c'\]"):
        reliability_curve(y, proba, kind="class-wise")
    with pytest.raises(ValueError, match=r"one of the classes .*; got 'd'"):
        reliability_curve(y, proba, kind="class-wise", class_label="d")
    with pytest.raises(ValueError, match="class_label belongs to kind='class-wise'"):
        reliability_curve(y, proba, kind="top-label", class_label="a")
    assert reliability_curve(y, proba, kind="class-wise", class_label="b").class_label == "b"


@pytest.mark.parametrize("level", [0, 1, 95, -0.5])
def test_confidence_level_is_a_share(level):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        reliability_curve([0, 1], [0.2, 0.7], confidence_level=level)


def test_curve_cannot_be_changed():
    curve = reliability_curve([0, 1], [0.2, 0.7])
    assert isinstance(curve, ReliabilityCurve)
    with pytest.raises(AttributeError):
        curve.kind = "positive"


def test_import_loads_neither_torch_nor_matplotlib():
    # scikit-learn itself loads pandas where it is installed.
    code = (
        "import sys, skcal.metrics, skcal.plots; "
        "print({'torch', 'matplotlib'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
