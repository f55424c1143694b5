"""Intervals: by hand, by scipy's bootstrap, and by how often they hold the truth."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from skcal.datasets import make_calibration_data
from skcal.metrics import (
    MetricInterval,
    brier_score_loss,
    expected_calibration_error,
    log_loss,
    metric_difference,
    metric_interval,
    ranked_probability_score,
    skill_score,
)
from skcal.metrics._intervals.analytic import _untransform
from skcal.metrics._intervals.bootstrap import Units, resample_counts, skewness


def sharpened(p, power=1.5, shift=0.0):
    raised = p**power * np.exp(np.linspace(0, shift, p.shape[1]))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def data():
    _, y, p = make_calibration_data(300, n_classes=3, random_state=0)
    return y, p, np.random.default_rng(0).uniform(0.5, 2, 300)


# --- In closed form -----------------------------------------------------------------------


def test_interval_of_a_mean_by_hand():
    """Losses 0.04, 0.04, 0.04 and 0.64 by the formulas of Student and Hall."""
    found = metric_interval("brier", [1, 1, 1, 0], [0.8, 0.8, 0.8, 0.8])
    losses = np.array([0.04, 0.04, 0.04, 0.64])
    error = losses.std(ddof=1) / 2
    assert found.value == pytest.approx(0.19)
    assert found.standard_error == pytest.approx(error)
    skew = ((losses - 0.19) ** 3).mean() / losses.std() ** 3 / 2  # of the mean of four

    def hall(t):  # Hall (1992): t + a t^2 + a^2 t^3 / 3 + skew / 6 with a = skew / 3
        return t + skew / 3 * t**2 + skew**2 / 27 * t**3 + skew / 6

    quantile = stats.t(3).ppf(0.975)
    assert hall((0.19 - found.lower) / error) == pytest.approx(quantile)
    assert hall((0.19 - found.upper) / error) == pytest.approx(-quantile)
    assert (found.method, found.name, found.confidence_level) == ("analytic", "brier", 0.95)


def test_without_skewness_it_is_students():
    x = np.array([-3.0, 0.5, 2.0])
    np.testing.assert_allclose(_untransform(x, 0.0), x)
    np.testing.assert_allclose(_untransform(x, 2e-6), x, atol=1e-5)
    assert skewness(np.array([-1.0, 1.0])) == 0
    # Two losses are symmetric.
    found = metric_interval("log_loss", [1, 1], [0.5, 0.9], labels=[0, 1])
    losses = -np.log([0.5, 0.9])
    expected = stats.t.interval(0.95, 1, losses.mean(), abs(losses[0] - losses[1]) / 2)
    np.testing.assert_allclose([found.lower, found.upper], expected)


def test_accuracy_has_wilsons_interval():
    y, p = [1] * 18 + [0] * 2, [0.9] * 20
    found = metric_interval("accuracy", y, p)
    # Wilson's ends are the shares from which 0.9 is z standard deviations away. The standard
    # error has n - 1 below, so that it stands for 19 of the 20 rows.
    for end in (found.lower, found.upper):
        distance = (0.9 - end) ** 2 / (end * (1 - end) / 19)
        assert distance == pytest.approx(stats.norm.ppf(0.975) ** 2)
    perfect = metric_interval("accuracy", [1] * 20, p, labels=[0, 1])
    exact = stats.binomtest(20, 20).proportion_ci(0.95, method="wilson")
    assert (perfect.value, perfect.upper) == (1, 1)
    assert perfect.lower == pytest.approx(exact.low)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("log_loss", log_loss),
        ("brier", brier_score_loss),
        ("rps", ranked_probability_score),
        ("ece", expected_calibration_error),
    ],
)
@pytest.mark.parametrize("method", ["auto", "bootstrap"])
def test_value_is_the_metric_and_names_are_functions(data, name, function, method):
    y, p, weights = data
    choice = {
        "sample_weight": weights,
        "method": method,
        "n_resamples": 50,
        "random_state": 0,
    }
    named = metric_interval(name, y, p, **choice)
    given = metric_interval(function, y, p, **choice)
    assert named.value == pytest.approx(function(y, p, sample_weight=weights), abs=1e-13)
    assert (given.value, given.lower, given.upper) == (named.value, named.lower, named.upper)
    assert named.lower < named.value < named.upper or name == "ece"
    assert isinstance(named, MetricInterval)


# --- Bootstrap ----------------------------------------------------------------------------


def test_bootstrap_is_scipys(data):
    """The same BCa interval and standard error as scipy, up to the draws."""
    y, p, _ = data
    losses = -np.log(p[np.arange(300), y])
    theirs = stats.bootstrap(
        (losses,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(0)
    )
    found = metric_interval(
        "log_loss", y, p, method="bootstrap", n_resamples=20_000, random_state=0
    )
    assert found.method == "bca"
    error = theirs.standard_error
    assert found.standard_error == pytest.approx(error, rel=0.03)
    assert found.lower == pytest.approx(theirs.confidence_interval.low, abs=0.06 * error)
    assert found.upper == pytest.approx(theirs.confidence_interval.high, abs=0.06 * error)


@pytest.mark.parametrize(
    "more",
    [{}, {"stratify": True}, {"groups": np.arange(300) // 5}],
    ids=["rows", "strata", "groups"],
)
@pytest.mark.parametrize("metric", [log_loss, expected_calibration_error])
def test_all_in_one_go_and_one_by_one_agree(data, metric, more):
    """A function that the package does not know is evaluated on each resample."""
    y, p, weights = data

    def own(y_true, y_proba, *, sample_weight, labels):
        return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels)

    choice = {
        "sample_weight": weights,
        "method": "bootstrap",
        "n_resamples": 60,
        "random_state": 1,
        **more,
    }
    known = metric_interval(metric, y, p, **choice)
    unknown = metric_interval(own, y, p, **choice)
    pair = metric_difference(metric, y, p, p**0 / 3, **choice)
    each = metric_difference(own, y, p, p**0 / 3, **choice)
    for part in ("value", "lower", "upper", "standard_error"):
        assert getattr(unknown, part) == pytest.approx(getattr(known, part), abs=1e-12)
        assert getattr(each, part) == pytest.approx(getattr(pair, part), abs=1e-12)


def test_analytic_and_bootstrap_have_the_same_spread(data):
    y, p, weights = data
    groups = np.arange(300) // 5
    for choice in ({}, {"stratify": True}, {"groups": groups}, {"sample_weight": weights}):
        known = metric_interval("log_loss", y, p, **choice)
        drawn = metric_interval(
            "log_loss", y, p, method="bootstrap", n_resamples=5000, random_state=0, **choice
        )
        assert drawn.standard_error == pytest.approx(known.standard_error, rel=0.05)


def test_biased_metric_has_the_basic_interval():
    _, y, p = make_calibration_data(500, random_state=0)
    ece = metric_interval("ece", y, p, random_state=0, n_resamples=200)
    assert ece.method == "basic"
    # Mirrored at the value: the resamples lie above it, the interval below.
    assert (ece.lower + ece.upper) / 2 < ece.value


def test_resamples_keep_strata_and_count_units():
    stratum = np.array([1, 0, 1, 2, 2, 2])
    units = Units(np.arange(6), stratum)
    counts = np.concatenate(list(resample_counts(units, 4000, np.random.default_rng(0))))
    assert counts.shape == (4000, 6)
    for s, size in enumerate([1, 2, 3]):
        assert (counts[:, stratum == s].sum(axis=1) == size).all()
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(counts[:, 3:].var(axis=0), 2 / 3, atol=0.05)


def test_random_state_decides(data):
    y, p, _ = data
    state = np.random.get_state()[1].copy()  # noqa: NPY002

    def run(seed):
        return metric_interval("ece", y, p, n_resamples=30, random_state=seed)

    assert run(0) == run(0)
    assert run(np.random.RandomState(3)) == run(np.random.RandomState(3))
    assert run(0) != run(1)
    assert run(None) != run(None)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_bias_and_skewness_are_corrected_as_in_scipy():
    """The standard deviation of 12 losses: biased downwards, and not a mean."""
    _, y, p = make_calibration_data(12, n_classes=3, random_state=4)
    losses = -np.log(p[np.arange(12), y])

    def spread(y_true, y_proba, *, sample_weight, labels):
        mean = np.average(losses, weights=sample_weight)
        return float(np.sqrt(np.average((losses - mean) ** 2, weights=sample_weight)))

    theirs = stats.bootstrap(
        (losses,), np.std, n_resamples=20_000, method="BCa", rng=np.random.default_rng(0)
    )
    found = metric_interval(spread, y, p, n_resamples=20_000, random_state=0, labels=range(3))
    assert found.value == pytest.approx(losses.std())
    assert found.method == "bca"
    error = theirs.standard_error
    assert found.lower == pytest.approx(theirs.confidence_interval.low, abs=0.15 * error)
    assert found.upper == pytest.approx(theirs.confidence_interval.high, abs=0.15 * error)


# --- Groups, weights, levels --------------------------------------------------------------


def test_copies_of_rows_in_groups_change_nothing(data):
    """Each row four times, as one group: the same interval as the rows alone."""
    y, p, _ = data
    alone = metric_interval("log_loss", y, p)
    four = metric_interval(
        "log_loss", np.repeat(y, 4), np.repeat(p, 4, axis=0), groups=np.repeat(np.arange(300), 4)
    )
    assert four.lower == pytest.approx(alone.lower)
    assert four.upper == pytest.approx(alone.upper)
    naive = metric_interval("log_loss", np.repeat(y, 4), np.repeat(p, 4, axis=0))
    assert naive.standard_error < 0.51 * alone.standard_error


@pytest.mark.parametrize("method", ["analytic", "bootstrap"])
def test_weight_zero_is_absent_and_scale_does_not_matter(data, method):
    y, p, weights = data
    weights = np.where(np.arange(300) % 3, weights, 0.0)
    keep = weights > 0
    choice = {"method": method, "n_resamples": 100, "random_state": 0}
    groups = np.arange(300) // 2
    for more in ({}, {"groups": groups}):
        zero = metric_interval("brier", y, p, sample_weight=weights * 7, **choice, **more)
        kept = {name: values[keep] for name, values in more.items()}
        gone = metric_interval(
            "brier", y[keep], p[keep], sample_weight=weights[keep], **choice, **kept
        )
        assert zero.lower == pytest.approx(gone.lower)
        assert zero.upper == pytest.approx(gone.upper)


def test_higher_levels_are_wider(data):
    y, p, _ = data
    for method in ("analytic", "bootstrap"):
        widths = [
            found.upper - found.lower
            for level in (0.5, 0.9, 0.99)
            for found in [
                metric_interval(
                    "brier", y, p, confidence_level=level, method=method, random_state=0
                )
            ]
        ]
        assert widths == sorted(widths)


def test_names_of_classes_reach_the_metric():
    seen = set()

    def rate(y_true, y_proba, *, sample_weight, labels):
        seen.add(tuple(labels.tolist()))
        return float(np.average(y_true == "yes", weights=sample_weight))

    y = np.array(["no", "yes"] * 20)
    found = metric_interval(rate, y, np.full(40, 0.5), random_state=0, n_resamples=200)
    assert found.value == 0.5
    assert found.name == "rate"
    assert found.standard_error == pytest.approx(0.5 / np.sqrt(40), rel=0.15)
    assert seen == {("no", "yes")}


# --- Differences --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["log_loss", "brier", "accuracy", "ece"])
def test_difference_is_of_the_values_and_turns_with_the_models(data, metric):
    y, p, weights = data
    q = sharpened(p, shift=0.5)
    choice = {"sample_weight": weights, "random_state": 0, "n_resamples": 100}
    ab = metric_difference(metric, y, p, q, **choice)
    ba = metric_difference(metric, y, q, p, **choice)
    values = [metric_interval(metric, y, one, **choice).value for one in (p, q)]
    assert ab.value == pytest.approx(values[0] - values[1], abs=1e-13)
    assert ba.value == pytest.approx(-ab.value, abs=1e-13)
    if metric != "ece":
        np.testing.assert_allclose([ba.lower, ba.upper], [-ab.upper, -ab.lower], atol=1e-13)


def test_difference_is_paired(data):
    y, p, _ = data
    q = sharpened(p, 1.05)
    losses = -np.log(np.column_stack([p[np.arange(300), y], q[np.arange(300), y]]))
    found = metric_difference("log_loss", y, p, q)
    assert found.standard_error == pytest.approx(
        (losses[:, 0] - losses[:, 1]).std(ddof=1) / np.sqrt(300)
    )
    assert found.standard_error < 0.2 * metric_interval("log_loss", y, p).standard_error
    drawn = metric_difference(
        "log_loss", y, p, q, method="bootstrap", n_resamples=4000, random_state=0
    )
    assert drawn.standard_error == pytest.approx(found.standard_error, rel=0.05)


def test_a_model_does_not_differ_from_itself(data):
    y, p, _ = data
    for metric in ("log_loss", "ece"):
        same = metric_difference(metric, y, p, p, random_state=0, n_resamples=20)
        assert (same.value, same.lower, same.upper, same.standard_error) == (0, 0, 0, 0)
    # Models that agree on 300 rows may differ on others: half a row each way, of 302.
    same = metric_difference("accuracy", y, p, p)
    assert (same.value, same.standard_error) == (0, 0)
    assert same.upper == pytest.approx(stats.norm.ppf(0.975) / 302)
    assert same.lower == -same.upper


def test_difference_of_accuracies_by_hand():
    """Agresti and Min (2005): 9 rows for a, 2 for b, half a row added to each cell."""
    y = np.ones(40, dtype=int)
    a, b = np.full(40, 0.9), np.full(40, 0.9)
    b[:9], a[9:11] = 0.1, 0.1
    found = metric_difference("accuracy", y, a, b, labels=[0, 1])
    assert found.value == pytest.approx(7 / 40)
    # The standard error has n - 1 below, so that it stands for 39 rows of the 40.
    n, gained, lost = 39, 9 * 39 / 40, 2 * 39 / 40
    change = (gained - lost) / (n + 2)
    error = np.sqrt((gained + lost + 1) - (gained - lost) ** 2 / (n + 2)) / (n + 2)
    half = stats.norm.ppf(0.975) * error
    assert found.lower == pytest.approx(change - half)
    assert found.upper == pytest.approx(change + half)


# --- Errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "logloss"}, r"'ece' or a function; got 'logloss'\. Did you mean 'log_loss'"),
        ({"method": "percentile"}, "method must be one of 'auto', 'analytic', 'bootstrap'"),
        ({"metric": "ece", "method": "analytic"}, "needs a mean over rows, and ece is not"),
        ({"n_resamples": 0}, "n_resamples must be a whole number of at least 2; got 0"),
        ({"n_resamples": 10.5}, "n_resamples must be a whole number"),
        ({"confidence_level": 95}, "strictly between 0 and 1; got 95"),
        ({"groups": np.arange(300), "stratify": True}, "give one of the two"),
        ({"groups": np.zeros(300)}, "at least two groups with a weight above zero"),
        ({"sample_weight": np.arange(300) == 4}, "at least two rows with a weight above zero"),
    ],
)
def test_wrong_options_are_named(data, wrong, message):
    y, p, _ = data
    metric = wrong.pop("metric", "log_loss")
    with pytest.raises(ValueError, match=message):
        metric_interval(metric, y, p, **wrong)
    with pytest.raises(ValueError, match=message):
        metric_difference(metric, y, p, p, **wrong)


def test_models_need_the_same_columns():
    with pytest.raises(ValueError, match="y_proba_a has 2 and y_proba_b has 3"):
        metric_difference("brier", [0, 1, 1], [[0.5, 0.5]] * 3, [[0.2, 0.3, 0.5]] * 3, labels=None)


def test_metric_that_is_not_always_defined():
    def rate_of_ones(y_true, y_proba, *, sample_weight, labels):
        ones = sample_weight @ (y_true == 1)
        return sample_weight @ ((y_true == 1) * y_proba[:, 1]) / ones if ones else np.nan

    y, p = np.arange(30) == 3, np.linspace(0.1, 0.9, 30)
    with pytest.raises(ValueError, match=r"rate_of_ones is not finite in \d+ of 100 resamples"):
        metric_interval(rate_of_ones, y, p, n_resamples=100, random_state=0)
    kept = metric_interval(rate_of_ones, y, p, n_resamples=100, random_state=0, stratify=True)
    assert kept.value == pytest.approx(p[3])


# --- Coverage -----------------------------------------------------------------------------


def coverage(interval_of, truth, pool, n, repeats, seed=0):
    rng = np.random.default_rng(seed)
    inside = 0
    for repeat in range(repeats):
        found = interval_of(rng.integers(pool, size=n), repeat)
        inside += found.lower <= truth <= found.upper
    return inside / repeats


def test_analytic_interval_holds_the_truth():
    _, y, p = make_calibration_data(100_000, class_weights=[0.85, 0.15], random_state=1)
    truth = log_loss(y, p)
    share = coverage(lambda i, _: metric_interval("log_loss", y[i], p[i]), truth, 100_000, 300, 400)
    assert 0.92 < share < 0.98  # three standard deviations of the simulation


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", ["analytic", "bootstrap"])
@pytest.mark.parametrize("metric", ["log_loss", "brier", "rps", "accuracy"])
def test_coverage_of_means(metric, method, n_classes):
    _, y, p = make_calibration_data(200_000, n_classes=n_classes, random_state=1)
    q = sharpened(p, shift=0.5)
    choice = {"method": method, "labels": range(n_classes), "n_resamples": 500}
    one = metric_interval(metric, y, q, labels=range(n_classes)).value
    share = coverage(
        lambda i, r: metric_interval(metric, y[i], q[i], random_state=r, **choice),
        one,
        200_000,
        500,
        2000,
    )
    assert share == pytest.approx(0.95, abs=0.02)
    both = metric_difference(metric, y, q, p, labels=range(n_classes)).value
    share = coverage(
        lambda i, r: metric_difference(metric, y[i], q[i], p[i], random_state=r, **choice),
        both,
        200_000,
        500,
        2000,
    )
    assert share == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_coverage_of_other_functions():
    """Skill at the level; the debiased square, whose bootstrap is too wide, above it."""
    _, y, p = make_calibration_data(200_000, random_state=1)
    q = sharpened(p)
    squared = partial(expected_calibration_error, norm="l2", debias=True, squared=True)
    share = {}
    for metric in (partial(skill_score, score="brier"), squared):
        share[metric] = coverage(
            lambda i, r, m=metric: metric_interval(m, y[i], q[i], n_resamples=300, random_state=r),
            metric(y, q),
            200_000,
            1000,
            600,
        )
    skill, above = share.values()
    assert skill == pytest.approx(0.95, abs=0.027)  # three standard deviations of chance
    assert above > 0.93


@pytest.mark.slow
def test_stratified_intervals_are_too_short_where_the_mix_is_chance():
    """The reason for the default."""
    _, y, p = make_calibration_data(200_000, class_weights=[0.9, 0.1], random_state=1)
    share = {
        stratify: coverage(
            lambda i, _, s=stratify: metric_interval("log_loss", y[i], p[i], stratify=s),
            log_loss(y, p),
            200_000,
            300,
            2000,
        )
        for stratify in (False, True)
    }
    assert share[False] > 0.93
    assert share[True] < 0.91
