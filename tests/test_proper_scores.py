"""Ranked scores and skill against numbers by hand and scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import d2_brier_score, d2_log_loss_score

from skcal.metrics import brier_score_loss, log_loss, ranked_probability_score, skill_score
from skcal.metrics._scores.by_name import find_metric

ORDER = ["low", "medium", "high"]


def table(n, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, k, n), rng.dirichlet(np.ones(k), n), rng.integers(0, 4, n)


def slow_ranked(y, proba, weights):
    total = 0.0
    for label, row, weight in zip(y, proba, weights, strict=True):
        for k in range(len(row) - 1):
            total += weight * (sum(row[: k + 1]) - (label <= k)) ** 2
    return total / sum(weights)


# --- Ranked probability score -------------------------------------------------------------


def test_far_misses_cost_more_than_near_ones():
    # Cumulative (0.4, 1.0) and (0.4, 0.4) against (1, 1).
    near = ranked_probability_score(["low"], [[0.4, 0.6, 0.0]], labels=ORDER)
    far = ranked_probability_score(["low"], [[0.4, 0.0, 0.6]], labels=ORDER)
    assert near == pytest.approx(0.36)
    assert far == pytest.approx(0.72)
    assert ranked_probability_score(
        ["low"], [[0, 0, 1]], labels=ORDER, normalize=True
    ) == pytest.approx(1)


def test_ranked_score_of_three_rows_by_hand():
    y, proba = [0, 1, 2], [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.2, 0.7]]
    # 0.25 + 0.04, 0.04 + 0.36, 0.01 + 0.09
    assert ranked_probability_score(y, proba) == pytest.approx((0.29 + 0.40 + 0.10) / 3)
    weighted = ranked_probability_score(y, proba, sample_weight=[1, 0, 3])
    assert weighted == pytest.approx((0.29 + 0.30) / 4)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_ranked_score_is_the_loop(k):
    y, proba, weights = table(50, k)
    found = ranked_probability_score(y, proba, sample_weight=weights, labels=range(k))
    assert found == pytest.approx(slow_ranked(y, proba, weights), abs=1e-13)
    normal = ranked_probability_score(
        y, proba, sample_weight=weights, labels=range(k), normalize=True
    )
    assert normal == pytest.approx(found / (k - 1), abs=1e-15)


def test_two_classes_are_the_brier_score():
    y, proba, weights = table(60, 2)
    assert ranked_probability_score(y, proba[:, 1], sample_weight=weights) == pytest.approx(
        brier_score_loss(y, proba, sample_weight=weights), abs=1e-15
    )


@settings(deadline=None, max_examples=30)
@given(truth=st.integers(0, 3), seed=st.integers(0, 100))
def test_ranked_score_is_proper(truth, seed):
    """The expected score under a distribution is least at that distribution."""
    p, q = np.random.default_rng(seed).dirichlet(np.ones(4), 2)

    def expected(forecast):
        each = [ranked_probability_score([k], [forecast], labels=range(4)) for k in range(4)]
        return p @ each

    assert expected(p) <= expected(q)
    assert expected(p) == pytest.approx(sum(f * (1 - f) for f in np.cumsum(p)[:-1]))


def test_labels_give_the_order():
    rows = [[0.4, 0.6, 0.0], [0.1, 0.1, 0.8]]
    named = ranked_probability_score(["low", "high"], rows, labels=ORDER)
    assert named == ranked_probability_score([0, 2], rows)


# --- Skill --------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_skill_is_scikit_learns(k, weighted):
    y, proba, weights = table(80, k)
    weights = weights if weighted else None
    for score, theirs in (("log_loss", d2_log_loss_score), ("brier", d2_brier_score)):
        expected = theirs(y, proba if k > 2 else proba[:, 1], sample_weight=weights)
        found = skill_score(y, proba, score=score, sample_weight=weights)
        assert found == pytest.approx(expected, abs=1e-12)


def test_skill_by_hand():
    y, p = [0, 1, 1, 0], [0.1, 0.8, 0.6, 0.4]
    # Brier (0.01 + 0.04 + 0.16 + 0.16) / 4 against 0.25, and against (0.04 + 0.64) / 2.
    assert skill_score(y, p, score="brier") == pytest.approx(1 - 0.0925 / 0.25)
    known = skill_score(y, p, score="brier", reference=[0.8, 0.2])
    assert known == pytest.approx(1 - 0.0925 / 0.34)
    assert skill_score(y, [0.2, 0.9, 0.9, 0.2], score="rps", reference=[[0.5, 0.5]] * 4) > 0.8


def test_skill_against_another_model():
    y, first, weights = table(80, 3)
    second = table(80, 3, seed=1)[1]
    expected = 1 - log_loss(y, first, sample_weight=weights) / log_loss(
        y, second, sample_weight=weights
    )
    for score in ("log_loss", log_loss):
        found = skill_score(y, first, score=score, reference=second, sample_weight=weights)
        assert found == pytest.approx(expected, abs=1e-14)
    assert skill_score(y, first, reference=first) == 0


def test_base_rate_has_no_skill():
    y, _, weights = table(80, 3)
    rate = np.bincount(y, weights) / weights.sum()
    for score in ("log_loss", "brier", "rps"):
        found = skill_score(y, np.tile(rate, (80, 1)), score=score, sample_weight=weights)
        assert found == pytest.approx(0, abs=1e-12)


def test_own_score_is_called_with_weights_and_labels():
    seen = []

    def score(y_true, y_proba, *, sample_weight, labels):
        seen.append((y_true.tolist(), labels.tolist(), sample_weight.tolist()))
        return float(np.average(1 - y_proba.max(axis=1), weights=sample_weight))

    found = skill_score(["a", "b"], [0.1, 0.8], score=score, sample_weight=[1, 3])
    assert found == pytest.approx(1 - (0.1 + 3 * 0.2) / 4 / 0.25)
    assert seen == [(["a", "b"], ["a", "b"], [1.0, 3.0])] * 2


def test_skill_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"y_true holds one class only, 'b'\. Give the prob"):
        skill_score(["b", "b"], [[0.1, 0.9], [0.2, 0.8]], labels=["a", "b"])
    with pytest.raises(ValueError, match=r"got 'logloss'\. Did you mean 'log_loss'\?"):
        skill_score([0, 1], [0.2, 0.8], score="logloss")
    with pytest.raises(ValueError, match="'base_rate' or probabilities; got 'prior'"):
        skill_score([0, 1], [0.2, 0.8], reference="prior")
    with pytest.raises(ValueError, match=r"shape \(2,\) or \(3, 2\); got shape \(3,\)"):
        skill_score([0, 1, 1], [0.2, 0.8, 0.7], reference=[0.2, 0.8, 0.7])
    with pytest.raises(ValueError, match="Each row of reference must sum to 1"):
        skill_score([0, 1], [0.2, 0.8], reference=[0.2, 0.7])
    # One class, but a reference that is not perfect.
    assert skill_score([1, 1], [0.9, 0.8], reference=[0.5, 0.5]) > 0.5


# --- Names --------------------------------------------------------------------------------


def test_names_stand_for_the_functions():
    y, proba, weights = table(60, 3)
    classes = np.arange(3)
    functions = {
        "log_loss": log_loss,
        "brier": brier_score_loss,
        "rps": ranked_probability_score,
    }
    for name, function in functions.items():
        expected = function(y, proba, sample_weight=weights)
        for given_as in (name, function):
            metric = find_metric(given_as)
            assert metric.rows is not None
            assert metric(y, proba, weights, classes) == pytest.approx(expected, abs=1e-13)
