"""Tests of calibration: by hand, by exact enumeration, and by how often they reject."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import stats

from skcal.datasets import make_calibration_data
from skcal.metrics import (
    CalibrationTest,
    brier_score_loss,
    expected_calibration_error,
    hosmer_lemeshow_test,
    ks_test,
    log_loss,
    resampling_test,
    spiegelhalter_test,
)
from skcal.metrics._hypothesis_tests.kolmogorov_smirnov import brownian_tail
from skcal.metrics._hypothesis_tests.resampling import draw_labels

resampled = partial(resampling_test, n_resamples=100, random_state=0)
TESTS = {
    "Spiegelhalter": spiegelhalter_test,
    "Hosmer-Lemeshow": hosmer_lemeshow_test,
    "Kolmogorov-Smirnov": ks_test,
    "Resampling": resampled,
}


def draw(pool, n, seed):
    """Return rows of a pool of probabilities and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = pool[rng.integers(len(pool), size=n)]
    return (rng.random(n)[:, None] >= np.cumsum(p[:, :-1], axis=1)).sum(axis=1), p


def sharpened(p, power):
    return p**power / (p**power).sum(axis=1, keepdims=True)


# --- Spiegelhalter ------------------------------------------------------------------------


def test_spiegelhalter_by_hand():
    # sum (y - p)(1 - 2p) over the root of sum (1 - 2p)^2 p (1 - p)
    y, p = np.array([1, 0, 1]), np.array([0.8, 0.3, 0.4])
    z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    found = spiegelhalter_test(y, p)
    assert found.statistic == pytest.approx(z)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert found.detail["brier_score"] == pytest.approx(2 * brier_score_loss(y, p))
    assert found.detail["expected"] == pytest.approx((2 * p * (1 - p)).mean())


def test_spiegelhalter_of_three_classes_by_enumeration():
    """Mean and variance of the Brier score over all labels that three rows could have."""
    proba = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.6, 0.4, 0.0]])
    weights = np.array([1.0, 2.0, 0.5])
    scores, chance = [], []
    for labels in product(range(3), repeat=3):
        chance.append(np.prod(proba[np.arange(3), labels]))
        scores.append(brier_score_loss(labels, proba, sample_weight=weights, labels=range(3)))
    mean = np.dot(chance, scores)
    deviation = np.sqrt(np.dot(chance, (np.array(scores) - mean) ** 2))
    y = [1, 2, 0]
    found = spiegelhalter_test(y, proba, sample_weight=weights)
    observed = brier_score_loss(y, proba, sample_weight=weights)
    assert found.statistic == pytest.approx((observed - mean) / deviation)
    assert found.detail["expected"] == pytest.approx(mean)


def test_spiegelhalter_has_two_sides():
    """Under-confidence has a large negative Z, and its p-value is tiny, not 1."""
    p = np.tile([0.25, 0.75], 500)
    y = np.tile([0, 1, 0, 1, 0, 1, 0, 1, 0, 0], 100)  # 1 in 0 % and 80 % of the rows
    found = spiegelhalter_test(y, p)
    # (0.25 * 0.5 * 500 + 0.25 * 0.5 * 400 - 0.75 * 0.5 * 100) over sqrt(1000 * 0.25 * 0.1875)
    assert found.statistic == pytest.approx(-(62.5 + 50 - 37.5) / np.sqrt(46.875))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(10.954451150103322), rel=1e-9)
    turned = spiegelhalter_test(1 - y, p)
    assert turned.statistic > 0
    # A standard normal beyond 8.4 on both sides.
    assert 2 * stats.norm.sf(8.4) == pytest.approx(4.5e-17, rel=0.02)


def test_rows_of_equal_probabilities_say_nothing():
    found = spiegelhalter_test([0, 1, 2, 2], np.full((4, 3), 1 / 3))
    assert (found.statistic, found.p_value) == (0, 1)


# --- Hosmer and Lemeshow ------------------------------------------------------------------


def test_hosmer_lemeshow_by_hand():
    p = np.repeat([0.2, 0.5, 0.6], 40)
    y = np.concatenate([np.arange(40) < events for events in (10, 25, 20)]).astype(int)
    # (10 - 8)^2 / 6.4 + (25 - 20)^2 / 10 + (20 - 24)^2 / 9.6
    found = hosmer_lemeshow_test(y, p, kind="positive")
    assert found.statistic == pytest.approx(4 / 6.4 + 25 / 10 + 16 / 9.6)
    assert found.detail == {"kind": "positive", "df": 3, "n_bins": 3}
    assert found.p_value == pytest.approx(stats.chi2(3).sf(found.statistic))
    fitted = hosmer_lemeshow_test(y, p, kind="positive", fitted=True)
    assert fitted.detail["df"] == 1
    assert fitted.p_value == pytest.approx(stats.chi2(1).sf(found.statistic))


def test_bins_that_expect_too_little_are_merged():
    # 0.02 * 40 and 0.1 * 40 events are less than 5 together; 0.95 leaves 2 non-events.
    p = np.repeat([0.02, 0.1, 0.4, 0.6, 0.95], 40)
    y = np.random.default_rng(0).integers(0, 2, 200)
    found = hosmer_lemeshow_test(y, p, kind="positive")
    assert found.detail["n_bins"] == 2
    gap, variance = y - p, p * (1 - p)
    by_hand = gap[:120].sum() ** 2 / variance[:120].sum()
    by_hand += gap[120:].sum() ** 2 / variance[120:].sum()
    assert found.statistic == pytest.approx(by_hand)
    plain = hosmer_lemeshow_test(y, p, kind="positive", min_expected=0)
    assert plain.detail["n_bins"] == 5
    sums = gap.reshape(5, 40).sum(axis=1) ** 2 / variance.reshape(5, 40).sum(axis=1)
    assert plain.statistic == pytest.approx(sums.sum())


# --- Kolmogorov and Smirnov ---------------------------------------------------------------


def test_ks_by_hand():
    y, p = np.array([0, 0, 1, 1]), np.array([0.2, 0.4, 0.6, 0.9])
    # Sums -0.2, -0.6, -0.2, -0.1; variance 0.16 + 0.24 + 0.24 + 0.09
    found = ks_test(y, p, kind="positive")
    assert found.statistic == pytest.approx(0.6 / np.sqrt(0.73))
    assert found.detail["difference"] == pytest.approx(0.15)
    assert found.detail["confidence"] == pytest.approx(0.4)
    # The order of rows, and of equal probabilities, has no say.
    order = [2, 0, 3, 1]
    assert ks_test(y[order], p[order], kind="positive") == found
    tied = ks_test([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], kind="positive")
    assert (tied.statistic, tied.p_value) == (0, 1)


def test_tail_of_the_brownian_motion():
    """Known quantiles of sup |B|, both series where they meet, and a simulation."""
    for x, p in ((1.9600, 0.1), (2.2414, 0.05), (2.8070, 0.01)):
        assert brownian_tail(x) == pytest.approx(p, rel=1e-3)
    assert brownian_tail(1 - 1e-12) == pytest.approx(brownian_tail(1 + 1e-12), abs=1e-11)
    assert brownian_tail(0.2) == pytest.approx(1, abs=1e-12)
    assert brownian_tail(0.0) == 1
    assert brownian_tail(np.inf) == 0
    assert brownian_tail(9.0) == pytest.approx(4 * stats.norm.sf(9.0), rel=1e-12)
    steps = np.random.default_rng(0).choice([-1.0, 1.0], (4000, 2500)) / 50
    sup = np.abs(np.cumsum(steps, axis=1)).max(axis=1)
    for x in (0.8, 1.2, 1.8):
        assert (sup > x).mean() == pytest.approx(brownian_tail(x), abs=0.03)


# --- Resampling ---------------------------------------------------------------------------


def test_labels_are_drawn_from_the_probabilities():
    proba = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    codes = draw_labels(proba, 40_000, np.random.default_rng(0))
    shares = np.array([np.bincount(column, minlength=3) for column in codes.T]) / 40_000
    np.testing.assert_allclose(shares, proba, atol=0.01)
    assert (shares[1:] == proba[1:]).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_known_metrics_are_those_of_the_functions(n_classes, weighted):
    """What is computed for all draws at once is what a function says for each."""
    _, y, p = make_calibration_data(200, n_classes=n_classes, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 200) if weighted else None
    choice = {"sample_weight": weights, "n_resamples": 50, "random_state": 1}
    functions = {
        "ece": expected_calibration_error,
        "log_loss": log_loss,
        "brier": brier_score_loss,
    }
    for name, function in functions.items():
        known = resampling_test(y, p, metric=name, **choice)

        def unknown(y_true, y_proba, *, sample_weight, labels, function=function):
            return function(y_true, y_proba, sample_weight=sample_weight, labels=labels)

        single = resampling_test(y, p, metric=unknown, **choice)
        assert known.statistic == pytest.approx(function(y, p, sample_weight=weights), abs=1e-13)
        assert single.statistic == pytest.approx(known.statistic, abs=1e-13)
        assert single.p_value == known.p_value
        for part in ("null_mean", "null_95"):
            assert single.detail[part] == pytest.approx(known.detail[part], abs=1e-12)


def test_p_value_is_the_rank():
    """One row at 0.9: a true class of 1 has the smaller error, one of 0 the larger."""
    usual = resampling_test([1], [0.9], labels=[0, 1], n_resamples=999, random_state=0)
    assert usual.p_value == 1
    rare = resampling_test([0], [0.9], labels=[0, 1], n_resamples=9999, random_state=0)
    assert rare.p_value == pytest.approx(0.1, abs=0.01)
    assert rare.detail["null_mean"] == pytest.approx(0.9 * 0.1 + 0.1 * 0.9, abs=0.01)
    never = resampling_test([0], [1.0], labels=[0, 1], n_resamples=19, random_state=0)
    assert never.p_value == pytest.approx(1 / 20)


def test_random_state_decides():
    _, y, p = make_calibration_data(100, random_state=0)
    first, again, other = (resampling_test(y, p, random_state=s) for s in (0, 0, 1))
    assert first == again
    assert first.detail["null_mean"] != other.detail["null_mean"]


# --- All tests ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTS)
def test_answer_is_a_record(name):
    _, y, p = make_calibration_data(200, n_classes=3, random_state=0)
    found = TESTS[name](y, p)
    assert isinstance(found, CalibrationTest)
    assert found.name == name
    assert 0 < found.p_value <= 1
    assert isinstance(found.statistic, float)
    assert isinstance(found.p_value, float)
    with pytest.raises(AttributeError):
        found.p_value = 1


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_strong_miscalibration_is_seen(name, n_classes):
    _, y, p = make_calibration_data(2000, n_classes=n_classes, random_state=0)
    assert TESTS[name](y, sharpened(p, 2)).p_value < 0.01
    assert TESTS[name](y, sharpened(p, 0.5)).p_value < 0.01


@pytest.mark.parametrize("name", TESTS)
def test_certain_rows(name):
    test = TESTS[name]
    right = test([0, 1, 1], [0.0, 1.0, 1.0])
    assert right.p_value == 1
    assert right.statistic == 0
    wrong = test([0, 1, 0], [0.0, 1.0, 1.0])
    assert wrong.p_value == (1 / 101 if name == "Resampling" else 0)
    if name != "Resampling":
        assert wrong.statistic == np.inf


@pytest.mark.parametrize("name", TESTS)
def test_weights(name):
    """Absent at zero, free in scale, and one observation each, however heavy."""
    test = TESTS[name]
    _, y, p = make_calibration_data(300, n_classes=3, random_state=0)
    weights = np.where(np.arange(300) % 3, 1.0, 0.0)
    keep = weights > 0
    zero = test(y, p, sample_weight=7 * weights)
    gone = test(y[keep], p[keep])
    assert zero.statistic == pytest.approx(gone.statistic)
    assert zero.p_value == pytest.approx(gone.p_value)
    repeated = test(np.repeat(y, 4), np.repeat(p, 4, axis=0))
    assert test(y, p, sample_weight=np.full(300, 4)).p_value == pytest.approx(test(y, p).p_value)
    if name != "Resampling":
        assert abs(repeated.statistic) > abs(test(y, p).statistic)


@pytest.mark.parametrize("name", ["Hosmer-Lemeshow", "Kolmogorov-Smirnov"])
def test_kinds(name):
    test = TESTS[name]
    _, y, p = make_calibration_data(500, n_classes=3, random_state=0)
    names = np.array(["a", "b", "c"])
    whole = test(names[y], p, kind="class-wise")
    each = [test(y == k, p[:, k], kind="positive") for k in range(3)]
    np.testing.assert_allclose(whole.detail["p_values"], [one.p_value for one in each])
    worst = int(np.argmin([one.p_value for one in each]))
    assert whole.p_value == pytest.approx(min(1, 3 * each[worst].p_value))
    assert whole.statistic == pytest.approx(each[worst].statistic)
    assert whole.detail["class_label"] == names[worst]
    top = test(y, p)
    confidence = test(p.argmax(axis=1) == y, p.max(axis=1), kind="positive")
    assert top.statistic == pytest.approx(confidence.statistic)
    # Two columns that say the same are one test.
    two = test(y == 1, p[:, 1], kind="class-wise")
    assert two.p_value == each[1].p_value
    with pytest.raises(ValueError, match="exactly two classes, but there are 3 columns"):
        test(y, p, kind="positive")
    with pytest.raises(ValueError, match="kind must be one of"):
        test(y, p, kind="toplabel")


def test_errors():
    y, p = [0, 1, 1, 0], [0.2, 0.8, 0.6, 0.3]
    with pytest.raises(ValueError, match="n_resamples must be a whole number of at least 1; got 0"):
        resampling_test(y, p, n_resamples=0)
    with pytest.raises(ValueError, match=r"got 'ecee'\. Did you mean 'ece'\?"):
        resampling_test(y, p, metric="ecee")
    with pytest.raises(ValueError, match="leaves -1 degrees of freedom of 1 bins; use more rows"):
        hosmer_lemeshow_test(y, p, fitted=True)
    with pytest.raises(ValueError, match="min_expected must not be negative; got -1"):
        hosmer_lemeshow_test(y, p, min_expected=-1)
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1"):
        hosmer_lemeshow_test(y, p, n_bins=0)

    def never(y_true, y_proba, *, sample_weight, labels):
        return np.nan

    with pytest.raises(ValueError, match="never is not finite for some of the labels drawn"):
        resampling_test(y, p, metric=never)
    # One class in y_true is no error: it may be what the probabilities promise.
    assert spiegelhalter_test([1, 1], [0.9, 0.8], labels=[0, 1]).p_value > 0.3


# --- Level and power ----------------------------------------------------------------------


def rejected(tests, pool, n, repeats, power=1.0, seed=0):
    count = dict.fromkeys(tests, 0)
    for repeat in range(repeats):
        y, p = draw(pool, n, [seed, repeat])
        for name, test in tests.items():
            found = test(y, sharpened(p, power), labels=range(pool.shape[1]))
            count[name] += found.p_value <= 0.05
    return {name: times / repeats for name, times in count.items()}


LEVEL = {
    "spiegelhalter": spiegelhalter_test,
    "hosmer_lemeshow": hosmer_lemeshow_test,
    "ks": ks_test,
    "hosmer_lemeshow, class-wise": partial(hosmer_lemeshow_test, kind="class-wise"),
    "ks, class-wise": partial(ks_test, kind="class-wise"),
    "resampling": partial(resampling_test, n_resamples=199, random_state=0),
}


def test_level_in_short():
    *_, pool = make_calibration_data(50_000, n_classes=3, random_state=1)
    for name, share in rejected(LEVEL, pool, 400, 400).items():
        assert 0.015 < share < 0.085, name  # more than three standard deviations of chance


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_level(n_classes, n):
    *_, pool = make_calibration_data(100_000, n_classes=n_classes, random_state=1)
    for name, share in rejected(LEVEL, pool, n, 2000, seed=1).items():
        assert 0.03 < share < 0.07, name


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_power(n_classes):
    *_, pool = make_calibration_data(100_000, n_classes=n_classes, random_state=1)
    for name, share in rejected(LEVEL, pool, 2000, 100, power=1.5).items():
        assert share > 0.8, name
