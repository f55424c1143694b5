"""Kernel calibration: against plain loops, in its limits, and on rows with a planted error."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from skcal.calibration import BaseCalibrator, KernelCalibration, TemperatureScaling
from skcal.calibration._local import kernel_sums as kernel_sums_module
from skcal.calibration._local.kernel_vote import Vote, lowest, search_vote
from skcal.calibration._local.projection import (
    Projection,
    neighbour_loss,
    principal_components,
    train_projection,
)

PLAIN = {"projection": None, "base": "kernel", "fallback": False, "with_scores": False}
SHORT = {"n_steps": 20, "n_components": 4, "fallback": False}


def draw(n=60, n_classes=3, n_columns=2, seed=0):
    """Return probabilities, labels that follow them, features and whole weights."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes))
    y = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    y = y.clip(max=n_classes - 1)
    y[: min(n, n_classes)] = np.arange(n_classes)[:n]
    # Columns on unlike scales, as in a table.
    Z = rng.normal(size=(n, n_columns)) * 10.0 ** np.arange(n_columns) + 3.0
    return softmax(logits, axis=1), y, Z, rng.integers(1, 4, size=n).astype(float)


def standard(Z, w, rows):
    mean = np.average(Z, axis=0, weights=w)
    return (rows - mean) / np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=w))


def slow_vote(points, y, w, query, h, n_classes, proba=None, left_out=None):
    """Return the votes of all rows, and what was to be expected, by plain loops."""
    votes, expected = np.zeros(n_classes), np.zeros(n_classes)
    for j in range(len(points)):
        counted = w[j] - 1 if j == left_out else w[j]
        k = np.exp(-np.mean([(a - b) ** 2 for a, b in zip(query, points[j], strict=True)]) / h)
        votes[y[j]] += counted * k
        if proba is not None:
            expected += counted * k * proba[j]
    return votes, expected


def log_loss(y, proba):
    return -np.log(proba[np.arange(len(y)), y]).mean()


def local_rows(n, seed, temperatures=(3.2, 0.6), n_columns=8):
    """Return logits whose temperature goes by the sign of the first column."""
    rng = np.random.default_rng(seed)
    W = 0.8 * np.random.default_rng(9).normal(size=(n_columns, 3))
    Z = rng.normal(size=(n, n_columns))
    true = Z @ W
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    return true * np.where(Z[:, :1] > 0, *temperatures), y, Z


# --- The formulas -----------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.05, 0.7, 20.0])
def test_equals_nadaraya_watson_by_hand(h):
    p, y, Z, w = draw()
    new_p, _, new, _ = draw(15, seed=1)
    model = KernelCalibration(bandwidth=h, prior=0, **PLAIN).fit(p, y, w, features=Z)
    points = standard(Z, w, Z)
    expected = [slow_vote(points, y, w, row, h, 3)[0] for row in standard(Z, w, new)]
    expected /= np.sum(expected, axis=1, keepdims=True)
    # From far off the kernel of a wrong class may underflow, and is zero.
    assert_allclose(model.predict_proba(new_p, features=new), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("with_scores", [False, True])
@pytest.mark.parametrize("base", ["kernel", "model"])
def test_prior_and_scores_equal_plain_loops(base, with_scores):
    p, y, Z, w = draw()
    new_p, _, new, _ = draw(15, seed=1)
    options = {**PLAIN, "base": base, "with_scores": with_scores}
    model = KernelCalibration(bandwidth=0.4, prior=2.5, **options).fit(p, y, w, features=Z)
    scale = TemperatureScaling().fit(p, y, w)
    q, new_q = scale.predict_proba(p), scale.predict_proba(new_p)
    if with_scores:
        logs, new_logs = np.log(q), np.log(new_q)
        Z = np.hstack([Z, logs - logs.mean(axis=1, keepdims=True)])
        new = np.hstack([new, new_logs - new_logs.mean(axis=1, keepdims=True)])
    points = standard(Z, w, Z)
    answers = []
    for row, own in zip(standard(Z, w, new), new_q, strict=True):
        votes, expected = slow_vote(points, y, w, row, 0.4, 3, q)
        if base == "kernel":
            rates = np.bincount(y, w) + 1
            answer = votes + 2.5 * rates / rates.sum()
        else:
            rates = np.average(q, axis=0, weights=w)
            answer = own * (votes + 2.5 * rates) / (expected + 2.5 * rates)
        answers.append(answer / answer.sum())
    features = new[:, :2]
    assert_allclose(model.predict_proba(new_p, features=features), answers, rtol=1e-7)


def test_wide_kernels_give_the_shares_of_the_classes():
    p, y, Z, w = draw()
    model = KernelCalibration(bandwidth=1e9, prior=0, **PLAIN).fit(p, y, w, features=Z)
    shares = np.bincount(y, w) / w.sum()
    assert_allclose(model.predict_proba(p, features=Z), np.tile(shares, (60, 1)), rtol=1e-6)


@pytest.mark.parametrize("h", [1e-6, 1e-9])
def test_narrow_kernels_give_the_nearest_row(h):
    p, y, Z, w = draw()
    new_p, _, new, _ = draw(200, seed=1)
    model = KernelCalibration(bandwidth=h, prior=0, **PLAIN).fit(p, y, w, features=Z)
    nearest = KNeighborsClassifier(1).fit(standard(Z, w, Z), y).predict(standard(Z, w, new))
    proba = model.predict_proba(new_p, features=new)
    assert_array_equal(proba.argmax(axis=1), nearest)
    assert np.median(proba.max(axis=1)) > 1 - 1e-9


def test_large_priors_give_the_temperature_or_the_base_rates():
    p, y, Z, w = draw()
    options = {**PLAIN, "bandwidth": 0.3, "prior": 1e12}
    model = KernelCalibration(**{**options, "base": "model"}).fit(p, y, w, features=Z)
    scaled = TemperatureScaling().fit(p, y, w).predict_proba(p)
    assert_allclose(model.predict_proba(p, features=Z), scaled, rtol=1e-8)
    votes = KernelCalibration(**options).fit(p, y, w, features=Z).predict_proba(p, features=Z)
    rates = np.bincount(y, w) + 1
    assert_allclose(votes, np.tile(rates / rates.sum(), (60, 1)), rtol=1e-8)


def test_far_rows_get_what_is_left_where_no_kernel_reaches():
    p, y, Z, _ = draw()
    far, own = [[1e12, -1e12], [1e300, 1e300]], p[:2]
    options = {**PLAIN, "bandwidth": 0.3}
    model = KernelCalibration(prior=1.0, **{**options, "base": "model"}).fit(p, y, features=Z)
    scaled = TemperatureScaling().fit(p, y).predict_proba(own)
    assert_allclose(model.predict_proba(own, features=far), scaled, rtol=1e-10)
    rates = (np.bincount(y) + 1) / 63
    votes = KernelCalibration(prior=1.0, **options).fit(p, y, features=Z)
    assert_allclose(votes.predict_proba(own, features=far), [rates, rates], rtol=1e-10)
    plain = KernelCalibration(prior=0.0, **options).fit(p, y, features=Z)
    points = standard(Z, np.ones(60), Z)
    last = y[np.argmin(((points - [1e4, 1e4]) ** 2).sum(axis=1))]  # no row is further than that
    assert plain.predict_proba(own, features=far)[1, last] > 0.99


def test_order_of_classes_does_not_matter():
    p, y, Z, w = draw()
    order = [2, 0, 1]
    options = {**PLAIN, "base": "model", "with_scores": True}
    one = KernelCalibration(**options).fit(p, y, w, features=Z)
    other = KernelCalibration(**options).fit(p[:, order], y, w, features=Z, classes=order)
    assert_allclose(
        other.predict_proba(p[:, order], features=Z),
        one.predict_proba(p, features=Z)[:, order],
        rtol=1e-6,
    )


def test_blocks_of_rows_change_nothing(monkeypatch):
    p, y, Z, w = draw()
    whole = KernelCalibration(**PLAIN).fit(p, y, w, features=Z)
    monkeypatch.setattr(kernel_sums_module, "_BLOCK", 130)  # two queries at a time
    parts = KernelCalibration(**PLAIN).fit(p, y, w, features=Z)
    assert parts.bandwidth_ == pytest.approx(whole.bandwidth_)
    assert_allclose(parts.predict_proba(p, features=Z), whole.predict_proba(p, features=Z))


# --- Leaving rows out -------------------------------------------------------------------


def slow_left_out(points, y, w, h, a, n_classes):
    """Return the log-loss of rows whose own vote is left out, by plain loops."""
    rates = np.bincount(y, w, minlength=n_classes) + 1
    rates = rates / rates.sum()
    losses = []
    for i in range(len(points)):
        votes, _ = slow_vote(points, y, w, points[i], h, n_classes, left_out=i)
        answer = votes + a * rates
        losses.append(-np.log(answer[y[i]] / answer.sum()))
    return np.average(losses, weights=w)


def test_bandwidth_and_prior_are_where_the_curve_is_lowest():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 2))
    y = (rng.random(40) < 1 / (1 + np.exp(-4 * Z[:, 0]))).astype(int)
    p, w = np.full((40, 2), 0.5), np.ones(40)
    model = KernelCalibration(**PLAIN).fit(p, y, features=Z)
    points = standard(Z, w, Z)
    found = slow_left_out(points, y, w, model.bandwidth_, model.prior_, 2)
    priors = 10.0 ** np.arange(-2, 3.5, 0.5)
    around = [model.bandwidth_ * f for f in (0.97, 1.03)]
    curve = [slow_left_out(points, y, w, h, a, 2) for h in around for a in priors]
    curve += [slow_left_out(points, y, w, h, a, 2) for h in (0.02, 0.1, 0.5, 3) for a in priors]
    assert found <= min(curve) + 1e-5
    # There is a best one: the curve rises to both sides.
    assert slow_left_out(points, y, w, 0.02, model.prior_, 2) > found + 0.05
    assert slow_left_out(points, y, w, 50.0, model.prior_, 2) > found + 0.05


def test_rows_are_left_out_by_number():
    # Every row has a copy, and a copy of the left out row stays.
    p, y, Z, _ = draw(12)
    i = np.tile(np.arange(12), 2)
    points = standard(Z, np.ones(12), Z)[i]
    vote = Vote(points, y[i], np.ones(24), np.full(3, 1 / 3), p[i])
    found = vote.sums(points, 0.5, np.arange(24))
    actual = found.sums * np.exp(-found.nearest)[:, None]
    for r in range(24):
        expected = slow_vote(points, y[i], np.ones(24), points[r], 0.5, 3, p[i], left_out=r)
        assert_allclose(actual[r], np.concatenate(expected), rtol=1e-10)
    assert (found.nearest < 1e-12).all()


def test_parameters_that_are_given_stay():
    p, y, Z, w = draw()
    vote = Vote(Z, y, w, np.full(3, 1 / 3), None)
    assert search_vote(vote, np.log(p), bandwidth=0.3, prior=2.0, seed=0) == (0.3, 2.0)
    assert search_vote(vote, np.log(p), bandwidth=0.3, prior=None, seed=0)[0] == 0.3
    assert search_vote(vote, np.log(p), bandwidth=None, prior=2.0, seed=0)[1] == 2.0


@pytest.mark.parametrize(("at", "found"), [(0.37, 0.37), (-9.0, -1.0), (9.0, 1.0)])
def test_golden_section_finds_the_minimum(at, found):
    assert lowest(lambda x: (x - at) ** 2, np.linspace(-1, 1, 5)) == pytest.approx(found, abs=0.02)


@pytest.mark.parametrize("projection", [None, "pca"])
@pytest.mark.parametrize("base", ["kernel", "model"])
def test_weights_are_repetitions(projection, base):
    p, y, Z, w = draw()
    options = {**PLAIN, "projection": projection, "base": base, "with_scores": True}
    weighted = KernelCalibration(**options).fit(p, y, w, features=Z)
    i = np.repeat(np.arange(60), w.astype(int))
    repeated = KernelCalibration(**options).fit(p[i], y[i], features=Z[i])
    assert repeated.bandwidth_ == pytest.approx(weighted.bandwidth_, rel=1e-4)
    assert_allclose(
        repeated.predict_proba(p, features=Z), weighted.predict_proba(p, features=Z), rtol=1e-3
    )


# --- Projections ------------------------------------------------------------------------


def slow_neighbour_loss(parameters, queries, others, log_mass, same, weights):
    def point(row):
        t = row @ parameters[0]
        if len(parameters) == 1:
            return t
        return t + np.array([v if v > 0 else np.exp(v) - 1 for v in t]) @ parameters[1]

    losses, counted = 0.0, 0.0
    for i, query in enumerate(queries):
        kernel = [
            np.exp(log_mass[i, j] - np.mean((point(query) - point(other)) ** 2))
            for j, other in enumerate(others)
        ]
        right = sum(k for k, agree in zip(kernel, same[i], strict=True) if agree)
        if right > 0:
            losses -= weights[i] * np.log(right / sum(kernel))
            counted += weights[i]
    return losses / counted


@pytest.mark.parametrize("n_parameters", [1, 2])
def test_training_loss_and_its_derivatives(n_parameters):
    rng = np.random.default_rng(0)
    parameters = [rng.normal(size=(3, 4)), 0.3 * rng.normal(size=(4, 4))][:n_parameters]
    queries, others = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    log_mass = rng.normal(size=(5, 7))
    log_mass[0, 2] = -np.inf  # itself
    same = rng.random((5, 7)) < 0.4
    same[4] = False  # without a partner
    rest = queries, others, log_mass, same, np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    loss, slopes = neighbour_loss(parameters, *rest)
    assert loss == pytest.approx(slow_neighbour_loss(parameters, *rest), rel=1e-12)
    for part, slope in enumerate(slopes):
        for place in np.ndindex(slope.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [p.copy() for p in parameters]
                moved[part][place] += step
                ends.append(slow_neighbour_loss(moved, *rest))
            assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("projection", ["linear", "skip_elu"])
def test_training_finds_the_columns_that_matter(projection):
    rng = np.random.default_rng(0)

    def rows(n):
        Z = rng.normal(size=(n, 20))
        return Z, (rng.random(n) < 1 / (1 + np.exp(-3 * Z[:, 0]))).astype(int)

    (Z, y), (new, new_y) = rows(600), rows(2000)
    p, new_p = np.full((600, 2), 0.5), np.full((2000, 2), 0.5)
    loss = {}
    for kind in (None, projection):
        options = {**PLAIN, "projection": kind, "n_components": 4, "n_steps": 200}
        model = KernelCalibration(random_state=0, **options).fit(p, y, features=Z)
        loss[kind] = log_loss(new_y, model.predict_proba(new_p, features=new))
    assert loss[projection] < loss[None] - 0.1
    assert abs(model.matrix_[0]).sum() > 2 * abs(model.matrix_[1:]).sum(axis=1).max()


def test_skip_is_what_the_formula_says():
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(6, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    t = x @ a
    elu = np.where(t > 0, t, np.exp(t) - 1)
    assert_allclose(Projection(a, b).points(x), t + elu @ b)
    assert_allclose(Projection(a, None).points(x), t)
    assert Projection(None, None).points(x) is x


def test_pca_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    w = rng.integers(1, 3, size=50)
    found = principal_components(x, w.astype(float), 2).points(x)
    expected = PCA(2).fit(np.repeat(x, w, axis=0)).transform(x)
    signs = np.sign((found * expected).sum(axis=0))
    assert_allclose(found - np.average(found, axis=0, weights=w), signs * expected, atol=1e-10)


def test_training_needs_partners():
    # Two rows of two classes: no row has another of its class to be near to.
    options = {"n_components": 2, "lr": 0.1, "batch_size": 4, "background_per_class": 3}
    columns, codes = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1])
    results = [
        train_projection("linear", columns, codes, np.ones(2), n_steps=n, seed=0, **options)
        for n in (0, 5)
    ]
    assert_array_equal(results[0].matrix, results[1].matrix)


# --- What it is for ---------------------------------------------------------------------


def test_mends_a_local_error_and_leaves_calibrated_scores_alone():
    options = {"n_steps": 200, "input": "logits", "random_state": 0}
    (logits, y, Z), (new, new_y, new_Z) = local_rows(1500, 0), local_rows(4000, 1)
    model = KernelCalibration(**options).fit(logits, y, features=Z)
    scaled = TemperatureScaling(input="logits").fit(logits, y).predict_proba(new)
    gain = log_loss(new_y, scaled) - log_loss(new_y, model.predict_proba(new, features=new_Z))
    assert model.is_local_
    assert model.settings_ == {"base": "kernel"}
    assert gain > 0.05
    calibrated = local_rows(1500, 0, (1, 1)), local_rows(4000, 1, (1, 1))
    (logits, y, Z), (new, new_y, new_Z) = calibrated
    model = KernelCalibration(**options).fit(logits, y, features=Z)
    scaled = TemperatureScaling(input="logits").fit(logits, y).predict_proba(new)
    loss = log_loss(new_y, model.predict_proba(new, features=new_Z))
    assert loss < log_loss(new_y, scaled) + 0.005


def test_corrects_the_model_where_features_do_not_tell_the_class():
    rng = np.random.default_rng(0)
    true = 2 * rng.normal(size=(1200, 3))
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.random((1200, 1))).sum(axis=1).clip(max=2)
    Z = rng.normal(size=(1200, 2))
    logits = true * np.where(Z[:, :1] > 0, 3.0, 0.6)
    model = KernelCalibration(n_steps=200, input="logits", random_state=0).fit(
        logits, y, features=Z
    )
    assert model.settings_ == {"base": "model"}
    assert model.is_local_
    assert dict(zip(["model", "kernel"], model.cv_results_["gain"], strict=True))["model"] > 0.02


# --- Manners ----------------------------------------------------------------------------


@pytest.mark.parametrize("projection", ["skip_elu", "linear", "pca", None])
@pytest.mark.parametrize("base", ["kernel", "model"])
@pytest.mark.parametrize(("n", "n_classes"), [(2, 2), (3, 3), (5, 2), (20, 4), (7, 100)])
def test_few_rows(projection, base, n, n_classes):
    p, y, Z, _ = draw(n, n_classes)
    Z[:, 1] = 5.0  # constant
    options = {**SHORT, "projection": projection, "base": base}
    given = {"features": Z, "classes": range(n_classes)}
    for fallback in (False, True):
        model = KernelCalibration(**{**options, "fallback": fallback}, random_state=0)
        proba = model.fit(p, y, **given).predict_proba(p, features=Z)
        assert_allclose(proba.sum(axis=1), 1.0)
        assert (proba > 0).all()


@pytest.mark.parametrize("base", ["kernel", "model"])
@pytest.mark.parametrize("prior", [0.0, "cv"])
def test_one_row_and_equal_rows(base, prior):
    options = {**SHORT, "base": base, "prior": prior, "random_state": 0}
    for n in (1, 6):
        p, Z = np.full((n, 2), 0.5), np.ones((n, 3))
        y = np.arange(n) % 2
        model = KernelCalibration(**options).fit(p, y, features=Z, classes=[0, 1])
        assert np.isfinite(np.log(model.predict_proba(p, features=Z))).all()


def test_class_without_rows_stays_possible():
    p, y, Z, _ = draw()
    y[y == 2] = 1
    for base in ("kernel", "model"):
        model = KernelCalibration(**{**PLAIN, "base": base}, prior=1.0)
        proba = model.fit(p, y, features=Z, classes=[0, 1, 2]).predict_proba(p, features=Z)
        assert (proba[:, 2] > 1e-6).all()
        assert proba[:, 2].mean() < 0.1


def test_most_rows_that_vote():
    p, y, Z, w = draw()
    options = {**PLAIN, "bandwidth": 0.5, "prior": 0, "max_rows": 20, "random_state": 0}
    model = KernelCalibration(**options).fit(p, y, w, features=Z)
    points = standard(Z, w, Z)
    kept = [int(np.abs(points - row).sum(axis=1).argmin()) for row in model.points_]
    assert len(set(kept)) == 20
    assert_array_equal(model.point_codes_, y[kept])
    expected = [slow_vote(points[kept], y[kept], w[kept], row, 0.5, 3)[0] for row in points]
    expected /= np.sum(expected, axis=1, keepdims=True)
    assert_allclose(model.predict_proba(p, features=Z), expected, rtol=1e-8)


@pytest.mark.parametrize("projection", ["skip_elu", "linear", "pca", None])
@pytest.mark.parametrize("base", ["kernel", "model"])
def test_same_seed_same_bits_also_on_paper(projection, base):
    p, y, Z, w = draw()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model = KernelCalibration(
        **{**SHORT, "projection": projection, "base": base}, max_rows=50, random_state=3
    ).fit(p, y, w, features=Z)
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    answer = model.predict_proba(p, features=Z)
    again = clone(model).fit(p, y, w, features=Z)
    read = BaseCalibrator.from_dict(json.loads(json.dumps(model.to_dict())))
    for other in (again, pickle.loads(pickle.dumps(model)), read):
        assert_array_equal(other.predict_proba(p, features=Z), answer)
    seeded = clone(model).set_params(random_state=4).fit(p, y, w, features=Z)
    assert (seeded.predict_proba(p, features=Z) != answer).any()


def test_rows_alone_have_the_same_answer():
    p, y, Z, _ = draw()
    model = KernelCalibration(**SHORT, random_state=0).fit(p, y, features=Z)
    whole = model.predict_proba(p, features=Z)
    alone = [model.predict_proba(p[i : i + 1], features=Z[i : i + 1])[0] for i in range(60)]
    assert_allclose(alone, whole, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"projection": "umap"},
        {"base": "votes"},
        {"bandwidth": 0},
        {"bandwidth": "auto"},
        {"prior": -1},
        {"n_components": 0},
        {"max_rows": 0},
        {"lr": 0},
        {"n_steps": -1},
    ],
)
def test_mistakes_in_parameters(options):
    p, y, Z, _ = draw()
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter"):
        KernelCalibration(**options).fit(p, y, features=Z)


def test_mistakes_with_features():
    p, y, Z, _ = draw()
    with pytest.raises(ValueError, match="pass features="):
        KernelCalibration().fit(p, y)
    model = KernelCalibration(**PLAIN).fit(p, y, features=Z)
    with pytest.raises(ValueError, match="fitted on 2 columns of features; these have 1"):
        model.predict_proba(p, features=Z[:, :1])


def test_logits_and_probabilities_are_the_same_scores():
    p, y, Z, _ = draw()
    by_proba = KernelCalibration(**PLAIN).fit(p, y, features=Z).predict_proba(p, features=Z)
    logits = log_softmax(np.log(p) + 3.0, axis=1)
    model = KernelCalibration(**PLAIN, input="logits").fit(logits, y, features=Z)
    assert_allclose(model.predict_proba(logits, features=Z), by_proba, rtol=1e-9)
