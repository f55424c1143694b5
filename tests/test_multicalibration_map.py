"""Multicalibration by boosting: what it removes, what it leaves, and each step done slowly."""

import json
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from skcal.calibration import BaseCalibrator, MultiCalibration, TemperatureScaling
from skcal.calibration._local import multicalibration
from skcal.calibration._local.lightgbm_trees import read_trees
from skcal.calibration._local.tree_boosting import Options, TreeBooster, _quantile_edges
from skcal.metrics import log_loss, multicalibration_error

ESTIMATORS = ("vector_trees", "lightgbm")


def draw_labels(proba, rng):
    return (proba.cumsum(axis=1) < rng.random((len(proba), 1))).sum(axis=1)


def planted(n, n_classes, seed, bias=1.5):
    """Return features, scores, labels and the truth; class 0 is too rare in one of 12 segments."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.integers(4, size=n), rng.integers(3, size=n), rng.normal(size=n)])
    logits = 1.2 * rng.normal(size=(n, n_classes))
    true = logits.copy()
    true[(Z[:, 0] == 1) & (Z[:, 1] > 0), 0] += bias
    proba = softmax(true, axis=1)
    return Z, softmax(logits, axis=1), draw_labels(proba, rng), proba


def small(n, n_classes, seed=0):
    """Return features of few different values, logits, and labels of all classes."""
    rng = np.random.default_rng(seed)
    Z = rng.integers(6, size=(n, 2)).astype(float)
    logits = rng.normal(size=(n, n_classes))
    y = draw_labels(softmax(logits + (Z[:, [0]] > 2) * np.arange(n_classes), axis=1), rng)
    y[:n_classes] = np.arange(n_classes)
    return Z, logits, y


# --- Right if ---------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_planted_bias_of_a_segment_is_removed(estimator, n_classes):
    Z, P, y, _ = planted(4000, n_classes, seed=0)
    new_Z, new_P, new_y, truth = planted(8000, n_classes, seed=1)
    local = MultiCalibration(estimator, random_state=0).fit(P, y, features=Z)
    assert local.is_local_
    Q = local.predict_proba(new_P, features=new_Z)
    kind = "positive" if n_classes == 2 else "class-wise"
    before, after = (
        multicalibration_error(new_y, proba, segments=new_Z[:, :2].astype(int), kind=kind)
        for proba in (TemperatureScaling().fit(P, y).predict_proba(new_P), Q)
    )
    assert before.error > before.detectable  # else there would be nothing to see
    assert after.error < 0.4 * before.error
    least = log_loss(new_y, truth)
    assert log_loss(new_y, Q) - least < 0.4 * (log_loss(new_y, new_P) - least)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_scores_stay_as_they_are(estimator, n_classes):
    chosen = []
    for seed in range(4):
        Z, P, y, _ = planted(1500, n_classes, seed=seed, bias=0.0)
        local = MultiCalibration(estimator, random_state=0).fit(P, y, features=Z)
        chosen.append(local.settings_["n_rounds"] if local.is_local_ else 0)
        if not local.is_local_:
            assert "fell back on temperature scaling" in local.reason_
            expected = TemperatureScaling().fit(P, y).predict_proba(P)
            assert_allclose(local.predict_proba(P, features=Z), expected, rtol=1e-12)
    assert chosen.count(0) >= 3  # up to noise


def test_no_rounds_without_fallback():
    Z, P, y, _ = planted(1500, 2, seed=0, bias=0.0)
    local = MultiCalibration(fallback=False, random_state=0).fit(P, y, features=Z)
    assert local.settings_ == {"n_rounds": 0}
    assert not local.is_local_
    assert local.reason_.startswith("No round lowered the cross-validated log-loss")


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "bold",
    [{}, {"learning_rate": 1.0, "l2_regularization": 0.0, "min_samples_leaf": 1, "n_trees": 3}],
    ids=["default", "bold"],
)
def test_the_log_loss_of_the_training_rows_never_rises(estimator, n_classes, bold):
    Z, logits, y = small(150, n_classes)
    # Surely wrong here and there, where curvatures are about zero.
    logits[:20] *= 40
    losses = []
    for n_rounds in range(1, 6):
        local = MultiCalibration(
            estimator, n_rounds=n_rounds, fallback=False, input="logits", **bold
        )
        losses.append(local.fit(logits, y, features=Z).loss_)
    base = TemperatureScaling(input="logits").fit(logits, y).loss_
    assert (np.diff([base, *losses]) <= 0).all()
    assert losses[0] < base


# --- Step by step -----------------------------------------------------------------------


def slow_tree(columns, scores, y, weights, options):
    """Return what one tree adds to the scores, every split of every leaf being tried."""
    n, n_classes = scores.shape
    P = softmax(scores, axis=1)
    g, h = weights[:, None] * (P - np.eye(n_classes)[y]), weights[:, None] * P * (1 - P)

    def worth(rows):
        return sum(
            sum(g[i, k] for i in rows) ** 2
            / (sum(h[i, k] for i in rows) + options.l2_regularization)
            for k in range(n_classes)
        )

    leaves = [list(range(n))]
    while len(leaves) < options.max_leaf_nodes:
        best = (1e-9, None)
        for at, rows in enumerate(leaves):
            for column in columns:
                for value in sorted(set(column[rows])):
                    low = [i for i in rows if column[i] <= value]
                    high = [i for i in rows if column[i] > value]
                    if min(sum(weights[low]), sum(weights[high])) < options.min_samples_leaf:
                        continue
                    gain = worth(low) + worth(high) - worth(rows)
                    if gain > best[0] + 1e-12:
                        best = (gain, (at, low, high))
        if best[1] is None:
            break
        at, low, high = best[1]
        leaves[at] = low
        leaves.append(high)
    added = np.zeros_like(scores)
    for rows in leaves:
        for k in range(n_classes):
            step = -sum(g[i, k] for i in rows) / (
                sum(h[i, k] for i in rows) + options.l2_regularization
            )
            step *= (n_classes - 1) / n_classes
            added[rows, k] = options.learning_rate * min(max(step, -4), 4)
    return added


def slow_scale(scores, y, weights):
    """Return the factor of a round: least log-loss, pulled towards one as in a temperature."""

    def objective(log_scale):
        answer = log_softmax(np.exp(log_scale) * scores, axis=1)
        pull = (
            6 * np.log1p(log_scale**2 / 2) if log_scale > 0 else np.log1p(log_scale**2 / 8)
        )  # ln T has the other sign
        return -weights @ answer[np.arange(len(y)), y] + pull

    return float(
        np.exp(
            minimize_scalar(objective, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10}).x
        )
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rounds_against_a_slow_implementation(n_classes):
    Z, logits, y = small(36, n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=36)
    options = Options(2, 0.5, 4, 3, 0.7, 0)
    local = MultiCalibration(
        n_rounds=2,
        n_trees=2,
        learning_rate=0.5,
        max_leaf_nodes=4,
        min_samples_leaf=3,
        l2_regularization=0.7,
        fallback=False,
        input="logits",
    ).fit(logits, y, sample_weight=weights, features=Z)
    base = TemperatureScaling(input="logits").fit(logits, y, sample_weight=weights)
    scores = log_softmax(logits / base.temperature_, axis=1)
    scales = []
    for _ in range(2):
        columns = [*Z.T, *(scores - scores.mean(axis=1, keepdims=True)).T]
        moved = scores
        for _ in range(2):
            moved = moved + slow_tree(columns, moved, y, weights, options)
        scales.append(slow_scale(moved, y, weights))
        scores = scales[-1] * moved
    assert_allclose(local.scales_, scales, rtol=1e-6)
    assert_allclose(
        local.predict_proba(logits, features=Z), softmax(scores, axis=1), atol=1e-7, rtol=1e-6
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_round_of_lightgbm_by_lightgbm(n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    Z, P, y, _ = planted(800, n_classes, seed=3)
    local = MultiCalibration("lightgbm", n_rounds=1, fallback=False, random_state=0)
    local.fit(P, y, features=Z)
    F = log_softmax(np.log(P) / TemperatureScaling().fit(P, y).temperature_, axis=1)
    X = np.column_stack([Z, F - F.mean(axis=1, keepdims=True)])
    binary = n_classes == 2
    parameters = {
        "objective": "binary" if binary else "multiclass",
        "learning_rate": 0.1,
        "num_leaves": 8,
        "min_data_in_leaf": 20,
        "lambda_l2": 10.0,
        "max_delta_step": 4.0,
        "verbosity": -1,
        "num_threads": 1,
    }
    if not binary:
        parameters["num_class"] = n_classes
    start = F[:, 1] - F[:, 0] if binary else F.ravel(order="F")
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y, init_score=start), 10)
    raw = booster.predict(X, raw_score=True)
    moved = np.column_stack([F[:, 0], F[:, 1] + raw]) if binary else F + raw
    scale = slow_scale(moved, y, np.ones(len(y)))
    assert_allclose(local.scales_, [scale], rtol=1e-6)
    assert_allclose(local.predict_proba(P, features=Z), softmax(scale * moved, axis=1), atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_lightgbm_say_what_it_says(n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(500, 3)), rng.integers(3, size=(500, 2))])
    y = rng.integers(n_classes, size=500)
    binary = n_classes == 2
    parameters = {"objective": "binary"} if binary else {"objective": "multiclass", "num_class": 3}
    parameters |= {"num_leaves": 31, "min_data_in_leaf": 2, "verbosity": -1, "num_threads": 1}
    parameters["boost_from_average"] = False
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y), 20)
    trees = read_trees(booster.dump_model()["tree_info"], binary=binary)
    # Thresholds of some splits too, where ties would show. LightGBM reads 1e-35 as zero.
    ties = trees.threshold[np.abs(trees.threshold) > 1e-30]
    new = np.vstack([rng.normal(size=(300, 5)), np.resize(ties, (300, 5)), X])
    scores = np.zeros((len(new), n_classes))
    trees.add_to(scores, np.ascontiguousarray(new.T))
    told = scores[:, 1] - scores[:, 0] if binary else scores
    assert_allclose(told, booster.predict(new, raw_score=True), atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_leaf_of_surely_wrong_rows_takes_a_short_step(estimator):
    # All rows are said to be 1.3 % likely, and those 40 are certain: Newton's step is about 75.
    logits = np.tile([5.0, 0.0], (3000, 1))
    wrong = np.zeros((3000, 1))
    wrong[2960:] = 1.0
    local = MultiCalibration(
        estimator, n_rounds=1, n_trees=1, l2_regularization=0.0, fallback=False, input="logits"
    ).fit(logits, wrong[:, 0].astype(int), features=wrong)
    margin = np.diff(local.leaf_values_, axis=1)
    assert 0.3 < margin.max() <= 0.1 * 8


def test_logits_are_cut_where_a_class_is_probable():
    # One row in 20 is of class 0 or near it: of equal ranges, three would show where.
    rng = np.random.default_rng(0)
    logits = np.zeros((2000, 3))
    logits[:, 0] = np.where(np.arange(2000) < 100, rng.normal(size=2000), -12 + logits[:, 0])
    logits[:, 0] += 1e-3 * rng.normal(size=2000)
    columns = np.vstack([np.ones(2000), logits.T])
    booster = TreeBooster(
        columns[:1], np.zeros(2000, int), np.ones(2000), 3, Options(1, 0.1, 8, 20, 1.0, 0)
    )
    booster.boost(columns, logits)
    assert (booster.edges[1] > -6).sum() > 40


def test_new_rows_fall_into_the_leaves_of_equal_training_rows():
    Z, logits, y = small(200, 3)
    columns = np.vstack([Z.T, logits.T])
    booster = TreeBooster(columns[:2], y, np.ones(200), 3, Options(5, 0.3, 8, 5, 1.0, 0))
    trees = booster.boost(columns, logits)
    scores = logits.copy()
    trees.add_to(scores, columns)
    # Boosting on goes from where these trees end, as it would if they misplaced no row.
    longer = TreeBooster(columns[:2], y, np.ones(200), 3, Options(10, 0.3, 8, 5, 1.0, 0))
    more = longer.boost(columns, logits)
    twice = logits.copy()
    more.add_to(twice, columns)
    assert_array_equal(more.n_splits[:5], trees.n_splits)
    assert log_loss(y, softmax(twice, 1)) < log_loss(y, softmax(scores, 1))
    assert log_loss(y, softmax(scores, 1)) < log_loss(y, softmax(logits, 1))


def test_columns_are_cut_into_equal_weights():
    rng = np.random.default_rng(0)
    values, weights = rng.lognormal(size=5000), rng.uniform(size=5000)
    edges = _quantile_edges(values, weights)
    share = np.bincount(np.searchsorted(edges, values), weights) / weights.sum()
    assert len(share) == 64
    assert_allclose(share, 1 / 64, atol=5e-4)
    assert_array_equal(_quantile_edges(np.array([3.0, 1.0, 1.0, 2.0]), np.ones(4)), [1.5, 2.5])
    assert len(_quantile_edges(np.full(9, 7.0), np.ones(9))) == 0
    largest = np.finfo(float).max
    assert_array_equal(_quantile_edges(np.array([-largest, largest]), np.ones(2)), [0.0])


# --- Properties -------------------------------------------------------------------------


def test_only_the_order_of_the_features_counts():
    Z, logits, y = small(300, 3)
    fixed = MultiCalibration(n_rounds=2, fallback=False, input="logits")
    answers = [
        clone(fixed).fit(logits, y, features=kind).predict_proba(logits, features=kind)
        for kind in (Z, np.exp(3 * Z) - 1e6)
    ]
    assert_allclose(*answers, rtol=1e-9)


def test_weights_are_rows():
    Z, logits, y = small(200, 3)
    counts = np.random.default_rng(0).integers(0, 4, size=200)
    fixed = MultiCalibration(n_rounds=3, fallback=False, input="logits", min_samples_leaf=7)
    weighted = clone(fixed).fit(logits, y, sample_weight=counts, features=Z)
    again = np.repeat(np.arange(200), counts)
    repeated = clone(fixed).fit(logits[again], y[again], features=Z[again])
    assert_array_equal(weighted.split_columns_, repeated.split_columns_)
    assert_allclose(
        weighted.predict_proba(logits, features=Z),
        repeated.predict_proba(logits, features=Z),
        rtol=1e-6,
    )


def test_every_one_of_many_classes_is_heard():
    # Class k is too rare in its own segment: of 20 classes, splits heed a half at a time.
    rng = np.random.default_rng(0)
    n, n_classes = 1500, 20
    segment = rng.integers(n_classes, size=n)
    logits = np.zeros((n, n_classes))
    true = logits.copy()
    true[np.arange(n), segment] = 5.0
    y = draw_labels(softmax(true, axis=1), rng)
    Z = np.eye(n_classes)[segment]
    local = MultiCalibration(
        n_rounds=2, n_trees=30, fallback=False, input="logits", min_samples_leaf=20
    ).fit(logits + 0.1 * rng.normal(size=logits.shape), y, features=Z)
    Q = local.predict_proba(np.zeros((n_classes, n_classes)), features=np.eye(n_classes))
    assert_array_equal(Q.argmax(axis=1), np.arange(n_classes))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3, 100])
@pytest.mark.parametrize("n", [2, 20, 90])
def test_little_data_constant_columns_and_classes_without_rows(estimator, n_classes, n):
    rng = np.random.default_rng(n)
    P = softmax(2 * rng.normal(size=(n, n_classes)), axis=1)
    y = rng.integers(n_classes - 1, size=n)
    for Z in (np.ones((n, 2)), 1e300 * rng.normal(size=(n, 2))):
        for more in ({}, {"n_rounds": 2, "fallback": False}):
            local = MultiCalibration(estimator, max_rounds=2, random_state=0, **more)
            local.fit(P, y, features=Z, classes=np.arange(n_classes))
            Q = local.predict_proba(P, features=Z)
            assert_allclose(Q.sum(axis=1), 1.0)
            assert (Q > 0).all()
            assert local.loss_ <= local.baseline_loss_ + 1e-12
            if "fallback" in more:
                assert local.n_iter_ == 2


def test_a_single_row_has_no_rounds():
    for more in ({}, {"fallback": False}):
        local = MultiCalibration(**more).fit([[0.3, 0.7]], [1], features=[[1.0]], classes=[0, 1])
        assert not local.is_local_
        assert "single row" in local.reason_


def test_scores_that_cannot_be_bettered_end_the_rounds():
    logits = 2000.0 * np.eye(2)[[0, 1] * 30]
    local = MultiCalibration(n_rounds=4, fallback=False, input="logits", eps=1e-300)
    local.fit(logits, [0, 1] * 30, features=np.zeros((60, 1)))
    assert local.n_iter_ == 0
    assert_allclose(
        local.predict_proba(logits, features=np.zeros((60, 1))), np.eye(2)[[0, 1] * 30], atol=1e-9
    )
    again = MultiCalibration.from_dict(json.loads(json.dumps(local.to_dict())))
    assert_array_equal(
        again.predict_proba(logits, features=np.zeros((60, 1))),
        local.predict_proba(logits, features=np.zeros((60, 1))),
    )


# --- The number of rounds ---------------------------------------------------------------


def test_the_search_stops_when_a_round_helps_no_more():
    Z, P, y, _ = planted(2000, 2, seed=5)
    tried = {}
    for patience in (0, 2):
        local = MultiCalibration(patience=patience).fit(P, y, features=Z)
        gain = local.cv_results_["gain"]
        best = int(gain.argmax())
        assert gain[0] == 0.0
        assert local.settings_ == {"n_rounds": best}
        assert local.cv_results_["settings"] == [{"n_rounds": r} for r in range(len(gain))]
        assert len(gain) == best + patience + 2
        assert local.n_iter_ == best == len(local.scales_)
        tried[patience] = gain
    shared = len(tried[0])
    assert_allclose(tried[0], tried[2][:shared], rtol=1e-12)
    capped = MultiCalibration(max_rounds=2).fit(P, y, features=Z)
    assert_allclose(capped.cv_results_["gain"], tried[0][:3], rtol=1e-12)


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_held_out_gains_are_those_of_a_fit_on_the_other_folds(n_rounds):
    # By the shared code of local maps, which fits each number of rounds from the start.
    Z, P, y, _ = planted(900, 3, seed=6)
    auto = MultiCalibration(max_rounds=3, patience=9).fit(P, y, features=Z)
    fixed = MultiCalibration(n_rounds=n_rounds).fit(P, y, features=Z)
    assert_allclose(
        fixed.cv_results_["gain"][0], auto.cv_results_["gain"][n_rounds], rtol=1e-9, atol=1e-12
    )


def test_rounds_are_chosen_on_a_draw_of_many_rows(monkeypatch):
    monkeypatch.setattr(multicalibration, "_MOST_ROWS", 600)
    Z, P, y, _ = planted(2000, 2, seed=7)
    gains = [
        MultiCalibration(random_state=seed).fit(P, y, features=Z).cv_results_["gain"][1]
        for seed in (0, 0, 1)
    ]
    assert gains[0] == gains[1] != gains[2]


# --- Keeping it -------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_json_pickle_and_a_second_fit_give_the_same_answers(estimator, n_classes, monkeypatch):
    Z, P, y, _ = planted(800, n_classes, seed=8)
    local = MultiCalibration(estimator, n_rounds=2, fallback=False, random_state=0)
    expected = local.fit(P, y, features=Z).predict_proba(P, features=Z)
    refitted = clone(local).fit(P, y, features=Z)
    assert_array_equal(refitted.predict_proba(P, features=Z), expected)
    # Answers need no LightGBM.
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    written = json.loads(json.dumps(local.to_dict()))
    for again in (
        MultiCalibration.from_dict(written),
        BaseCalibrator.from_dict(written),
        pickle.loads(pickle.dumps(local)),
    ):
        assert_array_equal(again.predict_proba(P, features=Z), expected)
    assert MultiCalibration.from_dict(written).to_dict() == local.to_dict()


def test_lightgbm_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    Z, P, y, _ = planted(100, 2, seed=0)
    for more in ({}, {"n_rounds": 1, "fallback": False}):
        local = MultiCalibration("lightgbm", **more)
        with pytest.raises(ImportError, match=r"skcal\[boosting\].*vector_trees"):
            local.fit(P, y, features=Z)
        assert not hasattr(local, "loss_")
    MultiCalibration().fit(P, y, features=Z)


@pytest.mark.parametrize(
    "wrong",
    [
        {"estimator": "auto"},
        {"n_rounds": 0},
        {"n_rounds": "many"},
        {"max_rounds": 0},
        {"patience": -1},
        {"n_trees": 0},
        {"learning_rate": 0.0},
        {"learning_rate": 1.5},
        {"max_leaf_nodes": 1},
        {"min_samples_leaf": 0},
        {"l2_regularization": -1.0},
    ],
    ids=str,
)
def test_options_out_of_range(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MultiCalibration(**wrong).fit([[0.4, 0.6]] * 4, [0, 1, 0, 1], features=np.eye(4))


def test_features_are_needed():
    Z, P, y, _ = planted(100, 2, seed=0)
    with pytest.raises(ValueError, match="features"):
        MultiCalibration().fit(P, y)
    local = MultiCalibration().fit(P, y, features=Z)
    with pytest.raises(ValueError, match="3 columns of features; these have 2"):
        local.predict_proba(P, features=Z[:, :2])
