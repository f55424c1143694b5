"""Venn-Abers calibration against its definition: put the row in, fit, read off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from skcal.calibration import VennAbersCalibration
from skcal.calibration._one_vs_rest.venn_abers import _upper


def by_definition(x, hit, weights, score, label):
    """Return the isotonic fit's value at a score that was added with a label and weight 1."""
    fit = IsotonicRegression().fit(
        np.r_[x, score], np.r_[hit, label], sample_weight=np.r_[weights, 1.0]
    )
    return fit.predict([score])[0]


def upper_by_definition(counts, hits, places=None):
    """Return p1 at each of some distinct scores, given weights and weights of hits."""
    x = np.arange(len(counts), dtype=float)
    places = x if places is None else places
    return np.array([by_definition(x, hits / counts, counts, k, 1.0) for k in places])


def draw_binary(n, *, seed=0, bend=1.0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p**bend).astype(int)
    y[:2] = 0, 1
    return p, y


# --- The hull against the definition -----------------------------------------------------------


def outcomes(pattern, n, rng):
    """Return 0/1 outcomes of some kind, in the order of the scores."""
    runs = np.repeat(rng.integers(0, 2, n), rng.integers(1, 9, n))[:n]
    return {
        "random": rng.integers(0, 2, n),
        "rare hits": (rng.random(n) < 0.1).astype(int),
        "rising": (rng.random(n) < np.linspace(0, 1, n)).astype(int),
        "falling": (rng.random(n) < np.linspace(1, 0, n)).astype(int),
        "runs": runs,
        "hits": np.ones(n, dtype=int),
        "misses": np.zeros(n, dtype=int),
        "sorted": np.sort(runs),
        "reversed": np.sort(runs)[::-1],
        "alternating": np.arange(n) % 2,
    }[pattern]


PATTERNS = (
    "random",
    "rare hits",
    "rising",
    "falling",
    "runs",
    "hits",
    "misses",
    "sorted",
    "reversed",
    "alternating",
)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("weighted", ["ones", "ties", "weights"])
def test_the_hull_gives_what_the_definition_says(pattern, weighted):
    # Lengths on both sides of the number of scores that are looked at in one go, 16.
    for seed, n in enumerate([1, 2, 3, 5, 9, 16, 17, 33, 60]):
        rng = np.random.default_rng(seed)
        hits = outcomes(pattern, n, rng).astype(float)
        if weighted == "ones":
            counts = np.ones(n)
        elif weighted == "ties":
            counts = rng.integers(1, 6, n).astype(float)
            hits = np.minimum(hits * counts, rng.integers(0, 6, n))
        else:
            counts = rng.exponential(size=n) ** 2 + 1e-3
            hits = hits * counts
        assert_allclose(
            _upper(counts, hits), upper_by_definition(counts, hits), rtol=1e-9, err_msg=f"n={n}"
        )


@given(
    st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1)), min_size=1, max_size=40),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_the_hull_gives_what_the_definition_says_of_any_rows(rows, whole):
    counts = np.array([count for count, _ in rows], dtype=float)
    hits = counts * np.array([share for _, share in rows])
    hits = hits.round() if whole else hits
    assert_allclose(_upper(counts, hits), upper_by_definition(counts, hits), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_hull_of_many_rows(pattern):
    n, rng = 5000, np.random.default_rng(0)
    hits = outcomes(pattern, n, rng).astype(float)
    places = np.unique(np.r_[0, 1, n - 2, n - 1, rng.integers(0, n, 25)])
    assert_allclose(
        _upper(np.ones(n), hits)[places],
        upper_by_definition(np.ones(n), hits, places.astype(float)),
        rtol=1e-7,
    )


@pytest.mark.parametrize("pattern", ["alternating", "sorted", "reversed", "hits", "misses", "runs"])
def test_two_hundred_thousand_rows_of_any_pattern_end(pattern):
    # Work that grew with the square of the rows would take hours.
    n = 200_000
    hits = outcomes(pattern, n, np.random.default_rng(0)).astype(float)
    upper = _upper(np.ones(n), hits)
    assert (np.diff(upper) >= -1e-12).all()
    assert upper.min() > 0
    assert upper.max() <= 1 + 1e-12


# --- The calibrator ----------------------------------------------------------------------------


@pytest.mark.parametrize("bend", [1.0, -1.0, 4.0])
def test_probabilities_and_intervals_of_two_classes(bend):
    p, y = draw_binary(80, bend=abs(bend))
    p = p.round(1).clip(0.05, 0.95)  # ties
    if bend < 0:  # scores that rank the rows the wrong way
        p = 1 - p
    weights = np.random.default_rng(1).exponential(size=80) + 0.1
    # At the rows' own scores, between them, below and above.
    scores = np.r_[np.unique(p), 0.01, 0.99, np.linspace(0.06, 0.94, 9)]
    p0, p1 = (
        np.array([by_definition(p, y, weights, score, label) for score in scores])
        for label in (0.0, 1.0)
    )
    fitted = VennAbersCalibration().fit(p, y, weights)
    interval = fitted.predict_interval(scores)
    assert interval.shape == (len(scores), 2, 2)
    assert_allclose(interval[:, 1], np.column_stack([p0, p1]), atol=1e-9)
    assert_allclose(interval[:, 0], np.column_stack([1 - p1, 1 - p0]), atol=1e-9)
    answer = fitted.predict_proba(scores)
    assert_allclose(answer[:, 1], p1 / (1 - p0 + p1), atol=1e-9)
    assert (interval[:, :, 0] <= answer + 1e-12).all()
    assert (answer <= interval[:, :, 1] + 1e-12).all()


def test_by_hand():
    # A miss at 0.3 and a hit at 0.7; one more row at 0.5 is put between them.
    fitted = VennAbersCalibration().fit([0.3, 0.7], [0, 1])
    assert_allclose(fitted.predict_interval([0.5])[0, 1], [0, 1], atol=1e-15)
    assert_allclose(fitted.predict_proba([0.5])[0], [0.5, 0.5])
    # With the miss itself: two rows at 0.3, of which one or none is a hit.
    assert_allclose(fitted.predict_interval([0.3])[0, 1], [0, 0.5], atol=1e-15)
    assert_allclose(fitted.predict_proba([0.3])[0, 1], 0.5 / 1.5)


def test_more_classes_are_one_against_the_rest():
    rng = np.random.default_rng(0)
    proba = softmax(1.5 * rng.normal(size=(60, 3)), axis=1)
    y = (proba.cumsum(axis=1) < rng.random((60, 1))).sum(axis=1).clip(max=2)
    fitted = VennAbersCalibration().fit(proba, y)
    some = proba[::4]
    ends = np.array(
        [
            [
                [
                    by_definition(proba[:, column], y == column, np.ones(60), score, label)
                    for label in (0.0, 1.0)
                ]
                for score in some[:, column]
            ]
            for column in range(3)
        ]
    ).transpose(1, 0, 2)
    merged = ends[:, :, 1] / (1 - ends[:, :, 0] + ends[:, :, 1])
    merged /= merged.sum(axis=1, keepdims=True)
    assert_allclose(fitted.predict_proba(some), merged, atol=1e-9)
    # The division by the sum may take a probability out of its interval, which then follows.
    low, high = np.minimum(ends[:, :, 0], merged), np.maximum(ends[:, :, 1], merged)
    assert (low < ends[:, :, 0]).any()
    assert_allclose(fitted.predict_interval(some), np.stack([low, high], axis=2), atol=1e-9)


def test_a_class_without_rows_keeps_its_own_probability():
    rng = np.random.default_rng(0)
    proba = softmax(rng.normal(size=(90, 3)), axis=1)
    fitted = VennAbersCalibration().fit(proba, np.arange(90) % 2, classes=[0, 1, 2])
    ends = np.sort([proba[:, 2], fitted.predict_proba(proba)[:, 2]], axis=0)
    assert_allclose(fitted.predict_interval(proba)[:, 2], ends.T, rtol=1e-9)
    only = VennAbersCalibration().fit([0.2, 0.6], [1, 1], classes=[0, 1])
    assert_allclose(only.predict_interval([0.3])[0], [[0.7, 0.7], [0.3, 0.3]])


def test_weights_are_repetition():
    p, y = draw_binary(60)
    weights = np.random.default_rng(1).integers(1, 4, 60)
    weighted = VennAbersCalibration().fit(p, y, weights)
    repeated = VennAbersCalibration().fit(np.repeat(p, weights), np.repeat(y, weights))
    grid = np.linspace(0.01, 0.99, 50)
    assert_allclose(weighted.predict_interval(grid), repeated.predict_interval(grid), atol=1e-12)


def test_the_order_of_rows_does_not_matter():
    p, y = draw_binary(300)
    p = p.round(2).clip(0.01, 0.99)
    order = np.random.default_rng(1).permutation(300)
    first = VennAbersCalibration().fit(p, y).predict_interval(p)
    assert_array_equal(VennAbersCalibration().fit(p[order], y[order]).predict_interval(p), first)


def test_more_rows_narrow_the_interval():
    grid = np.linspace(0.05, 0.95, 30)
    widths = []
    for n in (50, 500, 5000, 50_000):
        low, high = VennAbersCalibration().fit(*draw_binary(n)).predict_interval(grid)[:, 1].T
        widths.append((high - low).mean())
    assert (np.diff(widths) < 0).all()
    assert widths[-1] < 0.1 * widths[0]


def test_one_of_the_two_probabilities_is_calibrated():
    # The promise: for rows with label 1 take p1, for the others p0; where this selected
    # probability is about v, a share of about v has label 1.
    selected, labels = [], []
    for seed in range(300):
        p, y = draw_binary(60, seed=seed, bend=3.0)
        ends = VennAbersCalibration().fit(p[:40], y[:40]).predict_interval(p[40:])[:, 1]
        selected.append(np.where(y[40:] == 1, ends[:, 1], ends[:, 0]))
        labels.append(y[40:])
    selected, labels = np.concatenate(selected), np.concatenate(labels)
    group = np.minimum((selected * 5).astype(int), 4)
    for one in range(5):
        inside = group == one
        error = 4 * np.sqrt(0.25 / inside.sum())
        assert abs(selected[inside].mean() - labels[inside].mean()) < error


def test_saturated_scores_leave_no_infinite_loss():
    odds = np.r_[np.linspace(-500, -100, 50), np.linspace(100, 500, 50)]
    y = np.repeat([0, 1], 50)
    fitted = VennAbersCalibration(input="logits").fit(odds, y)
    answer = fitted.predict_proba(odds)
    # 50 rows of a kind, and one more: (0 + 1) / 51 at most.
    assert_allclose(fitted.predict_interval([-500.0])[0, 1], [0, 1 / 51], atol=1e-12)
    assert_allclose(answer[0, 1], (1 / 51) / (1 + 1 / 51), rtol=1e-9)
    assert fitted.predict_proba([-1e6])[0, 1] == pytest.approx(expit(np.log(1 / 51)), rel=1e-9)


def test_intervals_hold_the_probabilities_of_several_classes():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(300, 4))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = VennAbersCalibration(input="logits").fit(logits, y)
    interval, proba = fitted.predict_interval(logits), fitted.predict_proba(logits)
    assert (interval[..., 0] <= proba).all()
    assert (proba <= interval[..., 1]).all()


def test_weights_that_fade_away():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=6000)
    y = rng.random(6000) < expit(odds)
    weights = 0.99 ** np.arange(6000)[::-1]
    fitted = VennAbersCalibration(input="logits").fit(odds, y, weights)
    recent = VennAbersCalibration(input="logits").fit(odds[3500:], y[3500:], weights[3500:])
    assert_allclose(fitted.predict_proba(odds), recent.predict_proba(odds), atol=1e-6)
