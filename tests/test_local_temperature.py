"""Local temperature scaling: the network, its gradient, and what the method is right about."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from skcal.calibration import BaseCalibrator, LocalTemperatureScaling, TemperatureScaling
from skcal.calibration._local import temperature_network
from skcal.calibration._local.temperature_network import TemperatureNetwork

SPREAD = 3.2, 0.6  # the temperatures of the toy, told apart by the sign of feature 0


def toy(n, rng, W):
    """Return features, logits, true logits and labels."""
    Z = rng.normal(size=(n, 16))
    true = Z @ W
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return Z, true * np.where(Z[:, 0] > 0, *SPREAD)[:, None], true, y


@pytest.fixture(scope="module")
def local_error():
    """Return rows to fit and new rows."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(16, 4)) * 0.6
    return toy(3000, rng, W), toy(6000, rng, W)


@pytest.fixture(scope="module")
def fitted(local_error):
    (Z, logits, _, y), _ = local_error
    return make().fit(logits, y, features=Z)


def make(**params):
    return LocalTemperatureScaling(**{"input": "logits", "random_state": 0} | params)


def log_loss(y, proba):
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def draw(n=300, k=3, d=4, seed=0):
    """Return logits, labels and features, of which the first tells the temperature."""
    rng = np.random.default_rng(seed)
    logits, Z = 2 * rng.normal(size=(n, k)), rng.normal(size=(n, d))
    true = logits * np.where(Z[:, :1] > 0, 0.3, 1.2)
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return logits, y.clip(max=k - 1), Z


def fit(logits, y, Z, weights=None, **params):
    return make(**params).fit(logits, y, weights, features=Z, classes=np.arange(logits.shape[1]))


# --- What the method is right about ------------------------------------------------------------


def test_two_temperatures_are_found(local_error, fitted):
    (_, logits, _, y), (new_Z, new_logits, true, new_y) = local_error
    single = TemperatureScaling(input="logits").fit(logits, y)
    before = log_loss(new_y, single.predict_proba(new_logits))
    after = log_loss(new_y, fitted.predict_proba(new_logits, features=new_Z))
    best = log_loss(new_y, softmax(true, axis=1))
    assert before == pytest.approx(0.898, abs=1e-3)
    assert best == pytest.approx(0.756, abs=1e-3)
    # 0.774: of the 0.142 that can be gained, 87 percent; one map per codeword gets to 0.773.
    assert after < 0.78
    assert fitted.is_local_
    found = np.log(fitted.temperatures(new_logits, new_Z))
    clear = np.abs(new_Z[:, 0]) > 0.5  # a smooth function cannot jump
    for temperature, side in zip(SPREAD, (new_Z[:, 0] > 0, new_Z[:, 0] <= 0), strict=True):
        assert np.median(found[side & clear]) == pytest.approx(np.log(temperature), abs=0.25)


@pytest.mark.parametrize("reads", ["both", "features", "logits"])
@pytest.mark.parametrize("hidden", [(), (16,), (5, 5)])
def test_each_way_beats_one_temperature(local_error, reads, hidden):
    (Z, logits, _, y), (new_Z, new_logits, _, new_y) = local_error
    local = make(reads=reads, hidden=hidden).fit(logits, y, features=Z)
    assert local.is_local_
    assert log_loss(new_y, local.predict_proba(new_logits, features=new_Z)) < 0.83


@pytest.mark.parametrize("k", [2, 3, 12, 100])
def test_the_best_class_is_kept(k):
    logits, y, Z = draw(400, k)
    local = fit(logits, y, Z, alpha=3.0, fallback=False)
    assert np.ptp(local.temperatures(logits, Z)) > 0.5
    more, _, more_Z = draw(5000, k, seed=1)
    proba = local.predict_proba(more, features=5 * more_Z)
    assert_array_equal(proba.argmax(axis=1), more.argmax(axis=1))
    # Not only the first: all classes keep their order.
    assert (np.diff(np.take_along_axis(proba, more.argsort(axis=1), axis=1)) >= 0).all()


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("hidden", [(), (16,)])
def test_a_strong_ridge_is_temperature_scaling(early_stopping, hidden):
    logits, y, Z = draw()
    local = fit(
        logits, y, Z, alpha=1e12, fallback=False, early_stopping=early_stopping, hidden=hidden
    )
    single = TemperatureScaling(input="logits").fit(logits, y)
    assert local.is_local_
    assert local.temperature_ == single.temperature_
    assert_allclose(local.temperatures(logits, Z), single.temperature_, rtol=1e-6)
    assert_allclose(
        local.predict_proba(logits, features=Z), single.predict_proba(logits), rtol=1e-6
    )


def test_without_local_error_it_stays_with_temperature_scaling():
    lost, local_ones = [], 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(16, 3))
        (Z, _, true, y), (new_Z, _, new_true, new_y) = toy(600, rng, W), toy(4000, rng, W)
        local = make().fit(2 * true, y, features=Z)
        single = TemperatureScaling(input="logits").fit(2 * true, y)
        proba = local.predict_proba(2 * new_true, features=new_Z)
        lost.append(log_loss(new_y, proba) - log_loss(new_y, single.predict_proba(2 * new_true)))
        local_ones += local.is_local_
        if not local.is_local_:
            assert "fell back" in local.reason_
            found = local.temperatures(2 * new_true, new_Z)
            assert_array_equal(found, np.full(4000, single.temperature_))
    assert max(lost) < 0.005
    assert local_ones <= 1


def test_classes_may_come_in_any_order():
    logits, y, Z = draw()
    order = np.array([2, 0, 1])
    here = fit(logits, y, Z, fallback=False).predict_proba(logits, features=Z)
    there = make(fallback=False).fit(logits[:, order], y, features=Z, classes=order)
    assert_allclose(
        there.predict_proba(logits[:, order], features=Z), here[:, order], rtol=1e-6, atol=1e-12
    )


# --- The network -------------------------------------------------------------------------------


def temperature_of_row(local, logits, features):
    """Return a row's temperature, in loops and scalars, from the fitted attributes."""
    scaled = np.array(logits) / local.temperature_
    log_proba = scaled - np.log(np.sum(np.exp(scaled - scaled.max()))) - scaled.max()
    values = {
        "both": [*sorted(log_proba, reverse=True)[: local.n_top], *features],
        "logits": sorted(log_proba, reverse=True)[: local.n_top],
        "features": list(features),
    }[local.reads]
    values = [
        min(max((value - mean) / scale, -5.0), 5.0)
        for value, mean, scale in zip(values, local.input_mean_, local.input_scale_, strict=True)
    ]
    for layer, (coef, intercept) in enumerate(zip(local.coefs_, local.intercepts_, strict=True)):
        sums = [
            intercept[unit] + sum(value * coef[i][unit] for i, value in enumerate(values))
            for unit in range(len(intercept))
        ]
        last = layer == len(local.coefs_) - 1
        values = sums if last else [np.tanh(total) for total in sums]
    bound = np.log(100)
    return local.temperature_ * np.exp(bound * np.tanh(values[0] / bound))


@pytest.mark.parametrize("reads", ["both", "features", "logits"])
@pytest.mark.parametrize("hidden", [(), (3,), (4, 2)])
def test_temperatures_are_those_of_the_formula(reads, hidden):
    logits, y, Z = draw(200, 5)
    Z[0] = 1e9  # is as far as five standard deviations
    local = fit(logits, y, Z, reads=reads, hidden=hidden, n_top=3, alpha=3.0, fallback=False)
    found = local.temperatures(logits[:20], Z[:20])
    slow = [temperature_of_row(local, *row) for row in zip(logits[:20], Z[:20], strict=True)]
    assert_allclose(found, slow, rtol=1e-9)
    assert_allclose(
        local.predict_proba(logits[:20], features=Z[:20]),
        softmax(logits[:20] / np.array(slow)[:, None], axis=1),
        rtol=1e-9,
    )


@pytest.mark.parametrize("sizes", [(3, 1), (3, 4, 1), (3, 4, 2, 1)])
def test_slopes_are_those_of_the_loss(sizes):
    rng = np.random.default_rng(0)
    shapes = list(pairwise(sizes))
    log_proba = log_softmax(rng.normal(size=(30, 4)), axis=1)
    codes, shares, inputs = rng.integers(4, size=30), rng.random(30), rng.normal(size=(30, 3))

    def network(flat):
        coefs, intercepts = [], []
        for width, units in shapes:
            coef, flat = flat[: width * units], flat[width * units :]
            coefs.append(coef.reshape(width, units))
            intercepts.append(flat[:units])
            flat = flat[units:]
        return TemperatureNetwork(coefs, intercepts)

    def loss(flat):
        return network(flat).loss_and_slopes(log_proba, codes, shares, inputs)[0]

    def slopes(flat):
        return network(flat).loss_and_slopes(log_proba, codes, shares, inputs)[1]

    start = rng.normal(size=sum(width * units + units for width, units in shapes))
    steps = 1e-5 * np.eye(len(start))
    numbers = [(loss(start + step) - loss(start - step)) / 2e-5 for step in steps]
    assert_allclose(slopes(start), numbers, rtol=1e-6, atol=1e-8)
    factor = np.exp(-network(start).log_temperatures(inputs))
    answer = softmax(log_proba * factor[:, None], axis=1)
    assert loss(start) == pytest.approx(-(shares * np.log(answer[np.arange(30), codes])).sum())


def test_a_linear_map_is_the_one_of_least_penalised_loss(monkeypatch):
    monkeypatch.setattr(temperature_network, "_LEAST_GAIN", 1e-12)
    logits, y, Z = draw(400)
    weights = np.random.default_rng(1).integers(1, 4, size=400).astype(float)
    params = {"hidden": (), "reads": "features", "alpha": 7.0, "fallback": False}
    local = fit(logits, y, Z, weights, early_stopping=False, **params)
    mean = np.average(Z, axis=0, weights=weights)
    scale = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=weights))
    inputs = np.column_stack([((Z - mean) / scale).clip(-5, 5), np.ones(400)])

    def temperatures(theta):
        bound = np.log(100)
        return local.temperature_ * np.exp(bound * np.tanh(inputs @ theta / bound))

    def objective(theta):
        answer = log_softmax(logits / temperatures(theta)[:, None], axis=1)
        return -weights @ answer[np.arange(400), y] + 7.0 * theta @ theta

    best = minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-6})
    assert np.abs(best.x).max() > 0.1
    assert_allclose(local.temperatures(logits, Z), temperatures(best.x), rtol=1e-4)


def test_blocks_are_parts_of_one_sum(monkeypatch):
    logits, y, Z = draw(200)
    params = {"early_stopping": False, "fallback": False, "max_iter": 10}
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        whole = fit(logits, y, Z, **params)
    monkeypatch.setattr(temperature_network, "_BLOCK", 7)
    with pytest.warns(ConvergenceWarning):
        parts = fit(logits, y, Z, **params)
    assert_allclose(parts.temperatures(logits, Z), whole.temperatures(logits, Z), rtol=1e-6)


def test_a_weight_of_two_is_a_row_repeated():
    logits, y, Z = draw(200)
    weights = np.random.default_rng(0).integers(0, 4, size=200)
    rows = np.repeat(np.arange(200), weights)
    params = {"early_stopping": False, "fallback": False, "hidden": ()}
    weighted = fit(logits, y, Z, weights, **params)
    repeated = fit(logits[rows], y[rows], Z[rows], **params)
    assert_allclose(weighted.temperatures(logits, Z), repeated.temperatures(logits, Z), rtol=1e-6)
    assert np.ptp(weighted.temperatures(logits, Z)) > 0.5


# --- Stopping, and strengths -------------------------------------------------------------------


def test_stopping_early_makes_up_for_a_ridge_that_is_missing(local_error):
    (Z, logits, _, y), (new_Z, new_logits, _, new_y) = local_error
    losses = []
    for early_stopping in (True, False):
        local = make(alpha=0.0, early_stopping=early_stopping, fallback=False, max_iter=200)
        if early_stopping:
            local.fit(logits[:800], y[:800], features=Z[:800])
        else:
            with pytest.warns(ConvergenceWarning):
                local.fit(logits[:800], y[:800], features=Z[:800])
        losses.append(log_loss(new_y, local.predict_proba(new_logits, features=new_Z)))
    assert losses[0] < 0.9
    assert losses[0] < losses[1] - 0.3
    assert local.n_iter_ == 200


def test_it_stops_after_so_many_iterations_without_gain():
    # Labels that nothing tells: the start is the best on held-out rows, or next to it.
    rng = np.random.default_rng(0)
    logits, Z, y = rng.normal(size=(300, 3)), rng.normal(size=(300, 20)), rng.integers(3, size=300)
    counts = [
        fit(logits, y, Z, alpha=0.0, n_iter_no_change=patience, fallback=False).n_iter_
        for patience in (1, 5)
    ]
    assert counts[0] < counts[1] < 60


def test_the_strength_can_be_chosen(local_error):
    (Z, logits, _, y), _ = local_error
    local = make(alpha="auto", hidden=()).fit(logits[:600], y[:600], features=Z[:600])
    assert [way["alpha"] for way in local.cv_results_["settings"]] == [3, 10, 30, 100, 300]
    assert local.settings_ == local.cv_results_["settings"][local.cv_results_["gain"].argmax()]
    assert fit(*draw(), alpha=12.5).settings_ == {"alpha": 12.5}


# --- What it reads -----------------------------------------------------------------------------


def test_it_reads_what_it_is_told():
    logits, y, Z = draw(300, 12)
    rng = np.random.default_rng(1)
    other_Z, other_logits = rng.normal(size=Z.shape), rng.normal(size=logits.shape)
    scores = fit(logits, y, Z, reads="logits", n_top=4, fallback=False)
    assert_array_equal(scores.temperatures(logits, Z), scores.temperatures(logits, other_Z))
    assert len(scores.input_mean_) == 4
    # In falling order: which class is which does not matter.
    assert_allclose(
        scores.temperatures(logits, Z), scores.temperatures(logits[:, ::-1], Z), rtol=1e-9
    )
    places = fit(logits, y, Z, reads="features", fallback=False)
    assert_array_equal(places.temperatures(logits, Z), places.temperatures(other_logits, Z))
    assert len(places.input_mean_) == 4
    both = fit(logits, y, Z, fallback=False)
    assert len(both.input_mean_) == 10 + 4
    assert (both.temperatures(logits, Z) != both.temperatures(logits, other_Z)).all()
    assert (both.temperatures(logits, Z) != both.temperatures(other_logits, Z)).all()


def test_without_features_where_none_are_read():
    logits, y, Z = draw(200, 4)
    with_them = fit(logits, y, Z, reads="logits", fallback=False)
    local = make(reads="logits", fallback=False).fit(logits, y)
    proba = local.predict_proba(logits)
    assert (proba == with_them.predict_proba(logits, features=Z)).all()
    assert (proba == with_them.predict_proba(logits)).all()
    assert (local.temperatures(logits) == with_them.temperatures(logits, Z)).all()
    with pytest.raises(ValueError, match="pass features="):
        make(reads="both").fit(logits, y)


def test_probabilities_are_as_good_as_logits():
    logits, y, Z = draw()
    from_logits = fit(logits, y, Z, fallback=False)
    proba = softmax(logits, axis=1)
    from_proba = make(input="proba", fallback=False).fit(proba, y, features=Z)
    assert_allclose(
        from_proba.temperatures(proba, Z), from_logits.temperatures(logits, Z), rtol=1e-5
    )


def test_the_scale_of_features_does_not_matter():
    logits, y, Z = draw()
    scaled = Z * [1e-3, 1.0, 50.0, 1e6] + [0.0, 3.0, -2.0, 1e6]
    here = fit(logits, y, Z, fallback=False).temperatures(logits, Z)
    assert_allclose(
        fit(logits, y, scaled, fallback=False).temperatures(logits, scaled), here, rtol=1e-4
    )


# --- Corners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("k", [2, 3, 100])
def test_a_few_rows(n, k, early_stopping):
    logits, y, Z = draw(n, k)
    for fallback in (True, False):
        local = fit(logits, y, Z, fallback=fallback, early_stopping=early_stopping)
        proba = local.predict_proba(logits, features=Z)
        assert_allclose(proba.sum(axis=1), 1)
        assert_array_equal(proba.argmax(axis=1), logits.argmax(axis=1))
        assert local.loss_ <= local.baseline_loss_ + 1e-9


def test_columns_that_say_nothing():
    logits, y, _ = draw()
    Z = np.full((300, 2), 7.5)
    local = fit(logits, y, Z, reads="features", fallback=False)
    found = local.temperatures(logits, Z)
    assert np.ptp(found) == 0
    assert found[0] == pytest.approx(local.temperature_, rel=0.05)
    # A constant that moves later says nothing either: no row told what it means.
    assert np.isfinite(local.predict_proba(logits, features=Z + 1)).all()


def test_extreme_rows_keep_their_class():
    logits, y, Z = draw()
    local = fit(logits, y, Z, alpha=0.1, fallback=False, early_stopping=False, hidden=())
    far = 1e15 * np.random.default_rng(0).normal(size=Z.shape)
    large = 1e4 * logits
    temperatures = local.temperatures(large, far)
    assert (temperatures <= 100 * local.temperature_ * (1 + 1e-12)).all()
    assert (temperatures >= local.temperature_ / 100 * (1 - 1e-12)).all()
    proba = local.predict_proba(large, features=far)
    assert_array_equal(proba.argmax(axis=1), large.argmax(axis=1))
    assert (proba > 0).all()


def test_seeds_and_threads_and_global_generators():
    logits, y, Z = draw()
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = fit(logits, y, Z, fallback=False)
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    answer = first.predict_proba(logits, features=Z)
    with ThreadPoolExecutor(4) as pool:
        others = pool.map(lambda _: fit(logits, y, Z, fallback=False), range(4))
    for other in others:
        assert_array_equal(other.predict_proba(logits, features=Z), answer)
    another = fit(logits, y, Z, fallback=False, random_state=1)
    assert not np.array_equal(another.predict_proba(logits, features=Z), answer)


@pytest.mark.parametrize(
    "params",
    [{"hidden": ()}, {"hidden": (1,)}, {"hidden": (4, 4)}, {"hidden": (14, 14)}, {"alpha": 1e9}],
)
def test_written_down_and_read_back(params):
    logits, y, Z = draw(300, 12)
    local = fit(logits, y, Z, fallback=False, **params)
    answer = local.predict_proba(logits, features=Z)
    written = json.loads(json.dumps(local.to_dict()))
    for other in (BaseCalibrator.from_dict(written), pickle.loads(pickle.dumps(local))):
        assert_array_equal(other.predict_proba(logits, features=Z), answer)
        assert_array_equal(other.temperatures(logits, Z), local.temperatures(logits, Z))
        assert other.get_params() == local.get_params()
    fresh = clone(local)
    assert fresh.get_params() == local.get_params()
    with pytest.raises(NotFittedError):
        fresh.temperatures(logits, Z)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden": (0,)}, "number of units of each hidden layer"),
        ({"hidden": (2.5,)}, "number of units of each hidden layer"),
        ({"hidden": 16}, "'hidden' parameter"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"reads": "embedding"}, "'reads' parameter"),
        ({"n_top": 0}, "'n_top' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
    ],
)
def test_senseless_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        fit(*draw(), **params)


def test_rows_of_temperatures_must_agree(fitted):
    logits, _, Z = draw(10, 4, 16)
    with pytest.raises(ValueError, match="one row of features for each row of scores"):
        fitted.temperatures(logits, Z[:9])
    with pytest.raises(ValueError, match="fitted on 16 columns of features; these have 15"):
        fitted.temperatures(logits, Z[:, 1:])
    with pytest.raises(ValueError, match="needs to know where each row lies"):
        fitted.temperatures(logits, None)
