"""What decisions cost, risk over coverage, and curves over thresholds: against slow walks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skcal.metrics import decision_curve, mean_cost, risk_coverage_curve


def two(p):
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


# --- mean_cost ---------------------------------------------------------------------------------


def test_mean_cost_by_hand():
    # Truth "bad": lend 5. Truth "good": decline 1. Weights 1, 2, 3, 4.
    costs = {"bad": {"lend": 5, "decline": 0}, "good": {"lend": 0, "decline": 1}}
    taken = ["lend", "decline", "lend", "decline"]
    truth = ["bad", "good", "good", "bad"]
    assert mean_cost(truth, taken, costs, sample_weight=[1, 2, 3, 4]) == pytest.approx(0.7)
    table = [[5, 0], [0, 1]]
    assert mean_cost(truth, taken, table, actions=["lend", "decline"]) == pytest.approx(1.5)
    assert mean_cost([0, 1, 2, 2], [0, 2, 2, 1]) == 0.5
    assert mean_cost(["a"], ["a"], [[0, 1], [1, 0]], labels=["a", "b"]) == 0
    assert mean_cost(["b"], ["a"], [[0, 1], [3, 0]], labels=["a", "b"]) == 3
    assert mean_cost(["b"], ["a"], [[0, 1], [3, 0]], labels=["b", "a"]) == 1


@pytest.mark.parametrize(
    ("args", "params", "words"),
    [
        (([0, 1], [0, -1]), {}, "holds -1 in row 1"),
        (([0, 1], ["0", 1]), {}, "holds '0' in row 0"),
        (([0, 1], [[0], [1]]), {}, "one-dimensional"),
        (([0, 1], [0, 1, 1]), {}, "inconsistent numbers"),
        (([0, 0], [0, 1], [[0, 1], [1, 0]]), {}, "2 rows but y_true holds 1 classes"),
        (([0, 3], [0, 1]), {"labels": [0, 1]}, "class 3, which is not among"),
        (([0, 1], [0, 1], np.zeros((3, 2, 2))), {}, "costs of 3 rows; the data has 2"),
        (([0, 1], [0, 1]), {"sample_weight": [-1, 2]}, "must not be negative"),
        (([0, 1], [0, 1]), {"refer_cost": 1, "refer_label": 0}, "0 is one of them"),
    ],
)
def test_mean_cost_refuses(args, params, words):
    with pytest.raises(ValueError, match=words):
        mean_cost(*args, **params)


# --- risk_coverage_curve -----------------------------------------------------------------------


def slow_area(loss, confidence, weights, copies=400):
    """Return the mean of the risk over many copies of each row, ties shared evenly."""
    kept = lost = area = 0.0
    for level in sorted(set(confidence), reverse=True):
        rows = [i for i, c in enumerate(confidence) if c == level]
        mean = sum(weights[i] * loss[i] for i in rows) / sum(weights[i] for i in rows)
        for _ in range(int(sum(weights[i] for i in rows)) * copies):
            kept, lost = kept + 1, lost + mean
            area += lost / kept
    return area / kept


def sample(n=60, seed=0, decimals=2):
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(decimals)
    return (rng.random(n) < p).astype(int), p


@pytest.mark.parametrize("decimals", [1, 2, 6])
def test_area_is_the_limit_of_many_copies(decimals):
    y, p = sample(40, decimals=decimals)
    weights = np.arange(40) % 3 + 1
    curve = risk_coverage_curve(y, p, sample_weight=weights)
    wrong, sure = (y != (p > 0.5)).astype(float), np.maximum(p, 1 - p).round(9)
    assert curve.area == pytest.approx(slow_area(wrong, sure, weights), abs=2e-4)
    assert curve.oracle_area == pytest.approx(slow_area(wrong, -wrong, weights), abs=2e-4)


def test_ties_are_the_mean_over_all_their_orders():
    # Three rows of one confidence, one of them wrong, after a sure row that is right.
    p = np.array([0.9, 0.6, 0.6, 0.6])
    y = np.array([1, 0, 1, 1])
    at = (np.arange(400) + 0.5) / 400
    tied = risk_coverage_curve(y, p)
    orders = [
        risk_coverage_curve(y, p, confidence=[9, *order])
        for order in itertools.permutations([1, 2, 3])
    ]
    assert_allclose(tied.risk_at(at), np.mean([o.risk_at(at) for o in orders], axis=0))
    assert tied.area == pytest.approx(np.mean([o.area for o in orders]))
    assert tied.coverage.tolist() == [0.25, 1.0]
    assert tied.threshold.tolist() == [0.9, 0.6]


@pytest.mark.parametrize("seed", range(3))
def test_area_is_that_under_the_curve(seed):
    y, p = sample(seed=seed, decimals=1 + seed)
    curve = risk_coverage_curve(y, p)
    middle = (np.arange(200_000) + 0.5) / 200_000
    assert curve.area == pytest.approx(curve.risk_at(middle).mean(), abs=1e-5)
    assert_allclose(curve.risk_at(curve.coverage), curve.risk)
    assert curve.risk_at(0.0) == curve.risk[0]


@pytest.mark.parametrize("errors", [1, 13, 60])
def test_oracle_has_geifmans_area(errors):
    wrong = np.arange(60) < errors
    y = np.where(wrong, 0, 1)
    curve = risk_coverage_curve(y, np.linspace(0.6, 0.9, 60), labels=[0, 1])
    e = errors / 60
    expected = 1.0 if e == 1 else e + (1 - e) * np.log(1 - e)
    assert curve.oracle_area == pytest.approx(expected)
    assert curve.excess_area == pytest.approx(curve.area - expected)


def test_order_of_rows_and_repetition_do_not_matter():
    y, p = sample(80, decimals=1)
    weights = np.arange(80) % 4
    rng = np.random.default_rng(1)
    curve = risk_coverage_curve(y, p, sample_weight=weights)
    order = rng.permutation(80)
    turned = risk_coverage_curve(y[order], p[order], sample_weight=weights[order])
    rows = np.repeat(np.arange(80), weights)
    repeated = risk_coverage_curve(y[rows], p[rows])
    scaled = risk_coverage_curve(y, p, sample_weight=weights / 7)
    for other in (turned, repeated, scaled):
        assert other.area == pytest.approx(curve.area)
        assert other.oracle_area == pytest.approx(curve.oracle_area)
        assert_allclose(other.risk, curve.risk)
        assert_allclose(other.coverage, curve.coverage)


@pytest.mark.parametrize("least", [0, 1e-20])
def test_rows_without_weight_have_no_width(least):
    y, p = sample(40)
    p = 0.1 + 0.8 * p
    curve = risk_coverage_curve(y, p)
    more = risk_coverage_curve(
        [0, *y, 0, 1], [0.999, *p, 0.51, 0.5], sample_weight=[least, *np.ones(40), least, least]
    )
    assert more.area == pytest.approx(curve.area)
    assert more.oracle_area == pytest.approx(curve.oracle_area)
    assert np.isfinite(more.risk).all()
    assert more.risk_at(0.5) == pytest.approx(curve.risk_at(0.5))


def test_constant_confidence_has_the_error_rate_as_area():
    curve = risk_coverage_curve([0, 1, 1, 1], [0.7] * 4)
    assert curve.area == pytest.approx(0.25)
    assert curve.risk_at([0.0, 0.3, 1.0]) == pytest.approx([0.25] * 3)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), decimals=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_area_lies_between_the_best_and_the_worst_order(seed, n, decimals):
    rng = np.random.default_rng(seed)
    loss, sure = rng.exponential(size=n), rng.random(n).round(decimals)
    ask = {"y_true": [1] * n, "y_proba": [0.5] * n, "loss": loss}
    curve = risk_coverage_curve(**ask, confidence=sure)
    worst = risk_coverage_curve(**ask, confidence=loss)
    assert curve.oracle_area <= curve.area + 1e-12
    assert curve.area <= worst.area + 1e-12
    assert curve.risk[-1] == pytest.approx(loss.mean())


def test_costs_and_losses():
    y, p = sample(200)
    costs = np.array([[0, 1], [6, -1]])
    curve = risk_coverage_curve(y, p, cost_matrix=costs)
    expected = two(p) @ costs
    chosen = expected.argmin(axis=1)
    same = risk_coverage_curve(
        y, p, loss=costs[y, chosen], confidence=-expected[np.arange(200), chosen]
    )
    assert curve.area == pytest.approx(same.area)
    assert_allclose(curve.risk, same.risk)
    assert curve.risk[-1] == pytest.approx(mean_cost(y, chosen, costs))
    # The default is the cost of 1 for each error.
    plain = risk_coverage_curve(y, p)
    assert plain.area == pytest.approx(risk_coverage_curve(y, p, cost_matrix=1 - np.eye(2)).area)


def test_risk_coverage_refuses():
    y, p = [0, 1], [0.2, 0.7]
    with pytest.raises(ValueError, match="not both"):
        risk_coverage_curve(y, p, loss=[1, 2], cost_matrix=1 - np.eye(2))
    with pytest.raises(ValueError, match="loss must hold one finite number"):
        risk_coverage_curve(y, p, loss=[1])
    with pytest.raises(ValueError, match=r"confidence must hold one finite number.*NaN"):
        risk_coverage_curve(y, p, confidence=[1, np.nan])
    with pytest.raises(ValueError, match=r"within \[0, 1\]"):
        risk_coverage_curve(y, p).risk_at([0.5, 1.2])


# --- decision_curve ----------------------------------------------------------------------------


def slow_curve(y, p, t, w, costs):
    """Return the realised and the promised mean cost, row by row."""
    realised = promised = 0.0
    for truth, chance, weight in zip(y, p, w, strict=True):
        acted = int(chance >= t - 1e-13)
        realised += weight * costs[truth][acted]
        promised += weight * ((1 - chance) * costs[0][acted] + chance * costs[1][acted])
    return realised / sum(w), promised / sum(w)


@pytest.mark.parametrize("decimals", [1, 2, 6])
def test_costs_are_those_of_a_walk_over_the_rows(decimals):
    y, p = sample(80, decimals=decimals)
    w = np.arange(80) % 4
    costs = [[-1.0, 2.0], [5.0, 0.5]]
    curve = decision_curve(y, p, cost_matrix=costs, sample_weight=w)
    slow = np.array([slow_curve(y, p, t, w, costs) for t in curve.threshold])
    assert_allclose(curve.realised, slow[:, 0], atol=1e-12)
    assert_allclose(curve.promised, slow[:, 1], atol=1e-12)
    best = slow_curve(y, p, curve.optimal_threshold, w, costs)
    assert (curve.realised_at_optimum, curve.promised_at_optimum) == pytest.approx(best)
    assert curve.optimal_threshold == pytest.approx(3 / 7.5)
    assert_allclose(curve.act_on_all, slow[0, 0])
    assert_allclose(curve.act_on_none, slow_curve(y, p, 2, w, costs)[0])


def test_net_benefit_by_the_formula():
    y, p = sample(150)
    curve = decision_curve(y, p)
    assert curve.threshold[-1] == pytest.approx(0.99)
    for t, realised, everyone in zip(
        curve.threshold, curve.realised, curve.act_on_all, strict=True
    ):
        acted = p >= t - 1e-13
        tp, fp = np.mean(acted & (y == 1)), np.mean(acted & (y == 0))
        assert realised == pytest.approx(tp - fp * t / (1 - t))
        assert everyone == pytest.approx(y.mean() - (1 - y.mean()) * t / (1 - t))
    assert not curve.act_on_none.any()
    assert curve.optimal_threshold is None


def test_net_benefit_is_the_cost_of_its_threshold():
    # With costs t for a false alarm and 1 - t for a miss, t is the threshold of the costs.
    y, p = sample(150)
    for t in (0.1, 0.35, 0.8):
        benefit = decision_curve(y, p, thresholds=[t])
        cost = decision_curve(y, p, cost_matrix=[[0, t], [1 - t, 0]])
        assert cost.optimal_threshold == pytest.approx(t)
        assert benefit.realised[0] == pytest.approx(y.mean() - cost.realised_at_optimum / (1 - t))


def test_calibrated_probabilities_keep_their_promise_and_cost_least_at_the_threshold():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 200_000)
    y = (rng.random(len(p)) < p).astype(int)
    curve = decision_curve(y, p, cost_matrix=[[0, 1], [4, 0]])
    assert np.abs(curve.realised - curve.promised).max() < 0.01
    assert curve.threshold[curve.promised.argmin()] == pytest.approx(0.2)
    assert abs(curve.threshold[curve.realised.argmin()] - 0.2) < 0.05
    odds = (p / (1 - p)) ** 3  # too sure of itself
    sharp = decision_curve(y, odds / (1 + odds), cost_matrix=[[0, 1], [4, 0]])
    assert sharp.promised_at_optimum < 0.7 * sharp.realised_at_optimum
    assert sharp.realised_at_optimum > 1.05 * curve.realised_at_optimum


def test_named_costs_follow_the_classes():
    y, p = sample(100)
    names = np.array(["no", "yes"])[y]
    costs = {"yes": {"yes": 0, "no": 4}, "no": {"yes": 1, "no": 0}}
    one = decision_curve(names, p, cost_matrix=costs)
    two_ = decision_curve(y, p, cost_matrix=[[0, 1], [4, 0]])
    assert_array_equal(one.realised, two_.realised)
    assert one.class_label == "yes"
    turned = decision_curve(names, 1 - p, cost_matrix=costs, labels=["yes", "no"])
    assert turned.class_label == "no"
    assert turned.optimal_threshold == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"cost_matrix": [[0, 1, 2], [1, 0, 2]]}, "3 columns for 2 classes"),
        ({"cost_matrix": {k: {"a": 0, "b": 1, "c": 1} for k in (0, 1)}}, r"shape \(2, 2\)"),
        ({"cost_matrix": [[1, 0], [0, 1]]}, "may be swapped"),
        ({"cost_matrix": [[0, 1], [0, 1]]}, "cheaper one for both"),
        ({"cost_matrix": [[1, 1], [1, 1]]}, "cheaper one for both"),
        ({"thresholds": [0.1, 1.0]}, "below 1"),
        ({"thresholds": [-0.1]}, r"in \[0, 1\]"),
        ({"thresholds": [np.nan]}, r"in \[0, 1\]"),
        ({"thresholds": []}, r"in \[0, 1\]"),
        ({"thresholds": 0.3}, r"in \[0, 1\]"),
    ],
)
def test_decision_curve_refuses(params, words):
    with pytest.raises(ValueError, match=words):
        decision_curve([0, 1], [0.2, 0.7], **params)


def test_decision_curve_is_of_two_classes():
    with pytest.raises(ValueError, match="needs two classes; there are 3"):
        decision_curve([0, 1, 2], np.eye(3))
