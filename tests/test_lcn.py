"""Local calibration networks: frequencies, distance, training, and what they are right about."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import jensenshannon, pdist
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from skcal.calibration import BaseCalibrator, LocalCalibrationNetwork, TemperatureScaling
from skcal.calibration._local.calibration_network import (
    CalibrationNetwork,
    js_distance,
    kernel_frequencies,
    train_calibration_network,
    typical_distance,
)

# What makes a fit cheap where its answer does not matter.
CHEAP = {"max_epochs": 3, "hidden_units": 8}


def toy(n, rng, W):
    """Return features, logits, true logits and labels; the sign of feature 0 decides."""
    Z = rng.normal(size=(n, 16))
    true = Z @ W
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return Z, true * np.where(Z[:, 0] > 0, 3.2, 0.6)[:, None], true, y


@pytest.fixture(scope="module")
def local_error():
    """Return rows to fit and new rows, of two temperatures."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(16, 4)) * 0.6
    return toy(3000, rng, W), toy(6000, rng, W)


def make(**params):
    return LocalCalibrationNetwork(**{"input": "logits", "random_state": 0} | params)


def fit(logits, y, Z, weights=None, **params):
    return make(**params).fit(logits, y, weights, features=Z, classes=np.arange(logits.shape[1]))


def log_loss(y, proba):
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def draw(n=200, k=3, d=4, seed=0):
    """Return logits, labels and features; where the first is positive, class 0 is more likely.

    The features tell nothing of the logits.
    """
    rng = np.random.default_rng(seed)
    logits, Z = 2 * rng.normal(size=(n, k)), rng.normal(size=(n, d))
    true = logits + 2.0 * (Z[:, :1] > 0) * (np.arange(k) == 0)
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return logits, y.clip(max=k - 1), Z


def tensor(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


# --- Frequencies around rows -------------------------------------------------------------------


def frequencies_in_loops(places, one_hot, weights, bandwidth):
    """Nadaraya and Watson's estimate of each row by all others."""
    found = np.zeros_like(one_hot, dtype=float)
    for i, here in enumerate(places):
        total = 0.0
        for j, there in enumerate(places):
            if i != j:
                kernel = weights[j] * np.exp(-sum((here - there) ** 2) / (2 * bandwidth**2))
                found[i] += kernel * one_hot[j]
                total += kernel
        found[i] /= total
    return found


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 10.0])
def test_frequencies_are_those_of_all_other_rows(bandwidth):
    rng = np.random.default_rng(0)
    places, one_hot = rng.normal(size=(30, 3)), np.eye(4)[rng.integers(4, size=30)]
    weights = rng.uniform(0.5, 3, size=30)
    found = kernel_frequencies(tensor(places), tensor(one_hot), tensor(weights), bandwidth)
    slow = frequencies_in_loops(places, one_hot, weights, bandwidth)
    assert_allclose(found.numpy(), slow, rtol=1e-10)


def test_a_wide_kernel_gives_the_shares_of_the_classes():
    rng = np.random.default_rng(0)
    places, one_hot = rng.normal(size=(30, 3)), np.eye(4)[rng.integers(4, size=30)]
    found = kernel_frequencies(tensor(places), tensor(one_hot), torch.ones(30).double(), 1e9)
    assert_allclose(found.numpy(), (one_hot.sum(axis=0) - one_hot) / 29, rtol=1e-10, atol=1e-15)


def test_a_row_that_is_far_from_all_has_the_nearest_one_around():
    places = tensor([[0.0], [1.0], [1e3]])
    found = kernel_frequencies(places, tensor(np.eye(3)), torch.ones(3).double(), 0.1)
    assert_allclose(found[2].numpy(), [0, 1, 0], atol=1e-12)


def test_others_of_weight_two_count_twice():
    rng = np.random.default_rng(0)
    places, one_hot = rng.normal(size=(20, 2)), np.eye(3)[rng.integers(3, size=20)]
    weights = np.r_[1, rng.integers(1, 4, size=19)]
    rows = np.repeat(np.arange(20), weights)
    weighted = kernel_frequencies(tensor(places), tensor(one_hot), tensor(weights), 1.0)
    repeated = kernel_frequencies(
        tensor(places[rows]), tensor(one_hot[rows]), torch.ones(len(rows)).double(), 1.0
    )
    assert_allclose(weighted[0].numpy(), repeated[0].numpy(), rtol=1e-10)


# --- The distance ------------------------------------------------------------------------------


def test_rows_that_agree_are_a_hundredth_apart():
    p = tensor(np.random.default_rng(0).dirichlet(np.ones(4), 50))
    assert_allclose(js_distance(p, p).numpy(), 0.01, rtol=1e-12)
    hot = tensor(np.eye(4))
    assert_allclose(js_distance(hot, hot).numpy(), 0.01, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_distance_is_that_of_each_class_against_the_rest(k):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(k), 20), rng.dirichlet(np.ones(k), 20)
    p[0], q[0] = np.eye(k)[0], np.eye(k)[1]  # bounded
    expected = [
        np.mean(
            [
                max(jensenshannon([a, 1 - a], [b, 1 - b]), 0.01)
                for a, b in zip(*np.clip([left, right], 1e-4, 1 - 1e-4), strict=True)
            ]
        )
        for left, right in zip(p, q, strict=True)
    ]
    assert_allclose(js_distance(tensor(p), tensor(q)).numpy(), expected, rtol=1e-9)
    assert_allclose(js_distance(tensor(q), tensor(p)).numpy(), expected, rtol=1e-9)
    # Of all classes at once it would be another: ln 2 has its root at .8326.
    assert expected[0] == pytest.approx(0.8326 * 2 / k + 0.01 * (k - 2) / k, abs=2e-3)


# --- The network -------------------------------------------------------------------------------


def network(rng, d=4, units=5, k=3, m=2, *, zero=False):
    size = 0.0 if zero else 1.0
    return CalibrationNetwork(
        rng.normal(size=(d, units)),
        rng.normal(size=units),
        size * rng.normal(size=(units, k)),
        np.ones(1) + size * rng.normal(size=1),
        size * rng.normal(size=k),
        size * rng.normal(size=(units, m)),
        np.ones(1) + size * rng.normal(size=1),
        size * rng.normal(size=m),
    )


def test_heads_of_zero_give_back_what_comes_in():
    rng = np.random.default_rng(0)
    net = network(rng, zero=True)
    columns, points = rng.normal(size=(20, 4)), rng.normal(size=(20, 2))
    log_proba = log_softmax(rng.normal(size=(20, 3)), axis=1)
    assert_array_equal(net.logits(columns, log_proba), log_proba)
    assert_array_equal(net.places(columns, points), points)


def test_it_starts_close_to_what_comes_in():
    logits, y, Z = draw()
    # Without a loss nothing moves, and no epoch is better than the start.
    start = fit(logits, y, Z, js_weight=0.0, ce_weight=0.0, fallback=False, n_iter_no_change=4)
    assert start.n_iter_ == 4
    single = TemperatureScaling(input="logits").fit(logits, y)
    proba = start.predict_proba(logits, features=Z)
    assert_allclose(proba, single.predict_proba(logits), atol=0.03)
    assert_array_equal(start.logit_scale_, [1.0])
    assert_array_equal(start.place_scale_, [1.0])
    assert 0.005 < start.hidden_coef_.std() < 0.015
    assert 0.005 < start.logit_coef_.std() < 0.015


def loss_in_loops(parameters, log_proba, y, weights, columns, points, bandwidth, ways):
    """Return the loss of a batch, without dropout, written down anew."""
    A, a, W, s, b, V, t, c = parameters
    r = np.maximum(columns @ A + a, 0)
    proba = softmax(r @ W + s * log_proba + b, axis=1)
    k = proba.shape[1]
    around = frequencies_in_loops(r @ V + t * points + c, np.eye(k)[y], weights, bandwidth)
    p, q = np.clip([proba, around], 1e-4, 1 - 1e-4)
    distance = np.zeros(len(y))
    for i in range(len(y)):
        for x, z in zip(p[i], q[i], strict=True):
            distance[i] += max(jensenshannon([x, 1 - x], [z, 1 - z]), 0.01) / k
    entropy = -np.log(np.maximum(around[np.arange(len(y)), y], 1e-6))
    return weights @ (ways[0] * distance + ways[1] * entropy) / weights.sum()


@pytest.fixture
def seen(monkeypatch):
    """Return a list that gets the parameters and slopes of every step of Adam."""
    steps = []

    class Adam(torch.optim.Adam):
        def step(self):
            steps.append(
                [
                    (part.detach().double().numpy().copy(), part.grad.numpy())
                    for part in self.param_groups[0]["params"]
                ]
            )
            return super().step()

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    return steps


@pytest.mark.parametrize("ways", [(1.0, 0.0), (0.0, 1.0), (2.0, 0.5)])
def test_what_is_trained_is_the_loss(seen, ways):
    rng = np.random.default_rng(0)
    n, columns = 23, 30 * rng.normal(size=(23, 4))  # so that the start is not flat
    points, weights = rng.normal(size=(n, 2)), rng.uniform(0.5, 2, size=n)
    log_proba, y = log_softmax(rng.normal(size=(n, 3)), axis=1), rng.integers(3, size=n)
    train_calibration_network(
        log_proba,
        y,
        weights,
        columns,
        points,
        bandwidth=0.7,
        hidden_units=6,
        js_weight=ways[0],
        ce_weight=ways[1],
        dropout=0.0,
        lr=0.1,
        batch_size=512,
        max_epochs=5,
        patience=5,
        validation_fraction=0.1,
        seed=3,
    )
    # After some steps: the shifts of the logits, or what makes coordinates of hidden units.
    part = 4 if ways[0] else 5
    parameters, slope = [p for p, _ in seen[4]], seen[4][part][1]

    def slopes(rows):
        found = np.zeros_like(parameters[part])
        for place in np.ndindex(found.shape):
            values = []
            for sign in (1, -1):
                moved = [p.copy() for p in parameters]
                moved[part][place] += sign * 1e-5
                given = log_proba[rows], y[rows], weights[rows], columns[rows], points[rows]
                values.append(loss_in_loops(moved, *given, 0.7, ways))
            found[place] = (values[0] - values[1]) / 2e-5
        return found

    # The rows that are not held out, as drawn after the start.
    rng = np.random.default_rng(3)
    for shape in ((4, 6), (6, 3), (3,), (6, 2), (2,)):
        rng.normal(size=shape)
    rows = rng.permutation(n)[2:]
    assert np.abs(slope).max() > 1e-4
    assert_allclose(slope, slopes(rows), rtol=2e-3, atol=2e-6)


def test_answers_are_those_of_the_formula():
    logits, y, Z = draw()
    local = fit(logits, y, Z, fallback=False, n_components=2, max_epochs=20, lr=0.02)
    columns = ((Z - local.feature_mean_) / local.feature_scale_).clip(-5, 5)
    r = np.maximum(columns @ local.hidden_coef_ + local.hidden_intercept_, 0)
    log_proba = log_softmax(logits / local.temperature_, axis=1)
    answer = r @ local.logit_coef_ + local.logit_scale_ * log_proba + local.logit_intercept_
    assert_allclose(local.predict_proba(logits, features=Z), softmax(answer, axis=1), rtol=1e-9)
    places = r @ local.place_coef_ + local.place_intercept_
    places += local.place_scale_ * (columns @ local.components_)
    assert_allclose(local.transform(Z), places, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("k", "width", "places"), [(10, 1, 1), (11, 11, 4)])
def test_many_classes_have_scales_of_their_own(k, width, places):
    logits, y, Z = draw(100, k)
    local = fit(logits, y, Z, fallback=False, **CHEAP)
    assert local.logit_scale_.shape == (width,)
    assert local.place_scale_.shape == (places,)


# --- Coordinates and bandwidth -----------------------------------------------------------------


def test_coordinates_start_as_principal_components():
    logits, y, Z = draw(d=6)
    Z = Z @ np.random.default_rng(1).normal(size=(6, 6))
    local = fit(logits, y, Z, fallback=False, n_components=3, **CHEAP)
    columns = ((Z - Z.mean(axis=0)) / Z.std(axis=0)).clip(-5, 5)
    expected = PCA(3).fit(columns)
    signs = np.sign((local.components_ * expected.components_.T).sum(axis=0))
    assert_allclose(local.components_ * signs, expected.components_.T, atol=1e-8)
    median = np.median(pdist(expected.transform(columns)))
    for bandwidth, value in (("median", median), ("auto", median / 4), (2.5, 2.5)):
        found = fit(logits, y, Z, fallback=False, n_components=3, bandwidth=bandwidth, **CHEAP)
        assert found.bandwidth_ == pytest.approx(value, rel=1e-3)


def test_typical_distance_is_a_median_over_pairs():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(31, 3)), rng.integers(1, 5, size=31)
    assert typical_distance(points, np.ones(31), 0, 100) == pytest.approx(np.median(pdist(points)))
    # Pairs of different rows, as often as their weights say.
    repeated = [
        distance
        for i in range(31)
        for j in range(i)
        for distance in [np.linalg.norm(points[i] - points[j])] * (weights[i] * weights[j])
    ]
    found = typical_distance(points, weights.astype(float), 0, 100)
    assert found == pytest.approx(np.sort(repeated)[(len(repeated) - 1) // 2])


def test_typical_distance_of_rows_at_one_place():
    same = np.full((20, 2), 1e3) + 1e-11 * np.arange(40).reshape(20, 2)
    assert typical_distance(same, np.ones(20), 0, 100) == 1.0
    assert typical_distance(np.ones((1, 2)), np.ones(1), 0, 100) == 1.0
    # More than half of the pairs: the mean takes its place.
    points = np.r_[np.zeros((18, 2)), [[3.0, 4.0]]]
    assert typical_distance(points, np.ones(19), 0, 100) == pytest.approx(5 * 18 / (19 * 9))


def test_typical_distance_of_some_rows_is_about_that_of_all():
    points = np.random.default_rng(0).normal(size=(3000, 2))
    some, all_of_them = (typical_distance(points, np.ones(3000), 0, most) for most in (500, 3000))
    assert some != all_of_them
    assert some == pytest.approx(all_of_them, rel=0.05)


# --- What the method is right about ------------------------------------------------------------


def test_local_error_is_mended(local_error):
    (Z, logits, _, y), (new_Z, new_logits, true, new_y) = local_error
    single = TemperatureScaling(input="logits").fit(logits, y)
    before = log_loss(new_y, single.predict_proba(new_logits))
    best = log_loss(new_y, softmax(true, axis=1))
    assert before == pytest.approx(0.898, abs=1e-3)
    assert best == pytest.approx(0.756, abs=1e-3)
    local = make(fallback=False).fit(logits, y, features=Z)
    # 0.805: 65 percent of what can be gained.
    assert log_loss(new_y, local.predict_proba(new_logits, features=new_Z)) < 0.83


def test_a_shift_of_classes_is_mended_with_a_reason():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(16, 4)) * 0.6
    (Z, _, true, y), (new_Z, _, new_true, new_y) = toy(1500, rng, W), toy(4000, rng, W)
    logits, new = (
        1.5 * u + 3.0 * (x[:, :1] > 0) * np.array([1, -1, 0, 0])
        for u, x in ((true, Z), (new_true, new_Z))
    )
    local = fit(logits, y, Z, batch_size=128)
    single = TemperatureScaling(input="logits").fit(logits, y)
    assert local.is_local_
    assert "below that of temperature scaling" in local.reason_
    after = log_loss(new_y, local.predict_proba(new, features=new_Z))
    assert after < log_loss(new_y, single.predict_proba(new)) - 0.05


def test_without_local_error_it_stays_with_temperature_scaling():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z, logits = rng.normal(size=(400, 5)), 2 * rng.normal(size=(400, 3))
        cumulated = softmax(logits / 2, axis=1).cumsum(axis=1)
        y = (cumulated < rng.uniform(size=400)[:, None]).sum(axis=1)
        local = fit(logits, y, Z, max_epochs=30)
        single = TemperatureScaling(input="logits").fit(logits, y)
        assert not local.is_local_
        assert "fell back" in local.reason_
        assert_allclose(
            local.predict_proba(logits, features=Z), single.predict_proba(logits), rtol=1e-12
        )
        assert local.transform(Z).shape == (400, 0)


# --- Corners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("k", [2, 3, 100])
def test_a_few_rows(n, k):
    logits, y, Z = draw(n, k)
    for fallback in (True, False):
        local = fit(logits, y, Z, fallback=fallback, batch_size=2, **CHEAP)
        proba = local.predict_proba(logits, features=Z)
        assert_allclose(proba.sum(axis=1), 1)
        assert (proba > 0).all()


def test_batches_have_a_neighbour_for_each_row():
    # 51 rows to train on, by two: no batch may be of one, whose frequencies would be NaN.
    logits, y, Z = draw(60)
    local = fit(logits, y, Z, fallback=False, batch_size=2, max_epochs=5)
    assert local.place_scale_[0] != 1.0


def test_hidden_units_are_left_out(seen):
    # Of three rows to train on, a unit that is dropped from all of them has no slope.
    logits, y, Z = draw(5)
    silent = []
    for dropout in (0.0, 0.9):
        seen.clear()
        fit(logits, y, Z, fallback=False, dropout=dropout, max_epochs=1)
        silent.append((seen[0][1][1] == 0).mean())
    assert silent[0] < 0.3
    assert 0.55 < silent[1] < 1.0


def test_weights_count():
    logits, y, Z = draw(400)
    weights = np.where(y == 0, 20.0, 1.0)
    plain = fit(logits, y, Z, fallback=False, max_epochs=20, lr=0.02)
    heavy = fit(logits, y, Z, weights, fallback=False, max_epochs=20, lr=0.02)
    before, after = (m.predict_proba(logits, features=Z)[:, 0].mean() for m in (plain, heavy))
    assert after > before + 0.2


def test_columns_that_say_nothing_and_extreme_rows():
    logits, y, Z = draw()
    flat = fit(logits, y, np.full((200, 2), 7.5), fallback=False, **CHEAP)
    assert flat.bandwidth_ == 0.25
    assert np.isfinite(flat.predict_proba(logits, features=np.full((200, 2), 8.5))).all()
    Z[0] = 1e12
    local = fit(logits, y, Z, fallback=False, **CHEAP)
    proba = local.predict_proba(1e4 * logits, features=1e9 * Z)
    assert (proba > 0).all()
    assert_allclose(proba.sum(axis=1), 1)


def test_seeds_and_threads_and_global_state():
    logits, y, Z = draw()
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    states = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    first = fit(logits, y, Z, fallback=False, **CHEAP)
    assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[1])
    answer = first.predict_proba(logits, features=Z)
    with ThreadPoolExecutor(4) as pool:
        others = list(pool.map(lambda _: fit(logits, y, Z, fallback=False, **CHEAP), range(4)))
    torch.set_default_dtype(torch.float64)
    try:
        others.append(fit(logits, y, Z, fallback=False, **CHEAP))
    finally:
        torch.set_default_dtype(torch.float32)
    for other in others:
        assert_array_equal(other.predict_proba(logits, features=Z), answer)
    another = fit(logits, y, Z, fallback=False, random_state=1, **CHEAP)
    assert not np.array_equal(another.predict_proba(logits, features=Z), answer)


@pytest.mark.parametrize("k", [2, 12])
def test_written_down_and_read_back(k):
    logits, y, Z = draw(200, k)
    local = fit(logits, y, Z, fallback=False, **CHEAP)
    answer = local.predict_proba(logits, features=Z)
    written = json.loads(json.dumps(local.to_dict()))
    for other in (BaseCalibrator.from_dict(written), pickle.loads(pickle.dumps(local))):
        assert_array_equal(other.predict_proba(logits, features=Z), answer)
        assert_array_equal(other.transform(Z), local.transform(Z))
        assert other.get_params() == local.get_params()
    fresh = clone(local)
    assert fresh.get_params() == local.get_params()
    with pytest.raises(NotFittedError):
        fresh.transform(Z)


@pytest.mark.parametrize(
    "params",
    [
        {"bandwidth": 0.0},
        {"bandwidth": "mean"},
        {"dropout": 1.0},
        {"batch_size": 1},
        {"n_components": 0},
        {"js_weight": -1.0},
        {"validation_fraction": 0.0},
    ],
)
def test_senseless_parameters_are_refused(params):
    with pytest.raises(ValueError, match=f"'{next(iter(params))}' parameter"):
        fit(*draw(), **params)


def test_features_must_be_those_of_fit():
    logits, y, Z = draw()
    local = fit(logits, y, Z, fallback=False, **CHEAP)
    with pytest.raises(ValueError, match="fitted on 4 columns of features; these have 3"):
        local.transform(Z[:, 1:])
    with pytest.raises(ValueError, match="needs to know where each row lies"):
        local.predict_proba(logits)
