"""The inequalities of Neighborhood Smoothing: sides by independent reckoning, and never broken."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist, jensenshannon
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skcal import DeepEnsembleClassifier, MultiHeadMLP, NeSCalClassifier, NeSCalMLP
from skcal.datasets import make_calibration_data
from skcal.diagnostics import Inequality, NeSCalDiagnostics
from skcal.diagnostics._divergences import divergences, jsd, least_jsd
from skcal.diagnostics._inequalities import of_laplacian, of_pairs
from skcal.plots import EdgeDivergenceDisplay

X, Y, ETA = make_calibration_data(500, n_classes=3, random_state=0)


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def logs(*rows):
    with np.errstate(divide="ignore"):
        return np.log(np.array(rows, dtype=float))


# --- Divergences --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ((0.5, 0.5), (0.9, 0.1), 0.10174922507919676),
        ((0.7, 0.2, 0.1), (0.1, 0.3, 0.6), 0.23064548790411),
        ((1.0, 0.0), (0.0, 1.0), np.log(2)),
        ((0.3, 0.7, 0.0), (0.3, 0.7, 0.0), 0.0),
    ],
)
def test_divergences_have_known_values(p, q, expected):
    d = divergences(logs(p), logs(q))
    assert d.jsd[0] == pytest.approx(expected, abs=1e-14)
    assert d.jsd[0] == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-12)
    p, q = np.array(p), np.array(q)
    assert d.tv[0] == pytest.approx(0.5 * np.abs(p - q).sum())
    assert d.hellinger[0] == pytest.approx(1 - np.sqrt(p * q).sum(), abs=1e-12)
    assert d.sup[0] == pytest.approx(np.abs(p - q).max())
    assert d.squared[0] == pytest.approx(((p - q) ** 2).sum())
    assert d.confidence[0] == pytest.approx(abs(p.max() - q.max()))


def test_the_second_order_constant_is_an_eighth():
    p, direction = np.array([0.5, 0.3, 0.2]), np.array([1, -0.4, -0.6])
    expected = {0.1: 0.12539, 0.01: 0.12500308, 0.001: 0.12500003}
    for size, ratio in expected.items():
        d = divergences(logs(p), logs(p + size * direction))
        assert d.jsd[0] / d.chi[0] == pytest.approx(ratio, abs=6e-6 if size == 0.1 else 1e-7)


def test_the_least_divergence_is_that_of_two_mirrored_predictions():
    for tv in (0.0, 0.1, 0.5, 0.9, 1.0):
        p = (1 + tv) / 2
        assert least_jsd(np.array([tv]))[0] == pytest.approx(
            jsd(logs([p, 1 - p]), logs([1 - p, p]))[0], abs=1e-12
        )


def test_the_range_of_logits_needs_no_normalisation():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 5, 4))
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    difference = z[0] - z[1]
    assert_allclose(divergences(*log_p).spread, difference.max(-1) - difference.min(-1))
    assert divergences(logs([1, 0, 0]), logs([0.5, 0.5, 0])).spread[0] == np.inf
    assert divergences(logs([0.4, 0.6, 0]), logs([0.5, 0.5, 0])).spread[0] < np.inf


# --- Inequalities -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(
    st.integers(2, 8),
    st.sampled_from([0.02, 0.3, 1.0, 50.0]),
    st.sampled_from([1.0, 1e-3, 1e-8]),
    st.integers(0, 10_000),
)
def test_no_pair_of_predictions_breaks_one(n_classes, concentration, mixed, seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(n_classes, concentration), size=(2, 50))
    q = (1 - mixed) * p + mixed * q
    with np.errstate(divide="ignore"):
        found = of_pairs(divergences(np.log(p), np.log(q)), 1e-12)
    assert {one.name: one.n_violations for one in found if one.n_violations} == {}


def test_a_broken_one_is_counted():
    one = Inequality("A", "a ≤ b", np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.9, 5.0]), 1e-9)
    assert one.n_violations == 1
    assert one.slack == pytest.approx(-0.1)
    assert one._replace(tolerance=0.2).n_violations == 0


def test_sides_of_neighbourhoods_by_hand():
    rng = np.random.default_rng(1)
    Z, P = rng.normal(size=(30, 3)), rng.dirichlet([1, 1, 1], 30)
    y, eta = rng.integers(0, 3, 30), rng.dirichlet([2, 1, 1], 30)
    found = NeSCalDiagnostics.from_predictions(
        y, Z, proba=P, true_proba=eta, n_neighbors=4, step=0.3
    )
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    similarity = unit @ unit.T - 3 * np.eye(30)
    totals = dict.fromkeys(("C4a", "C4c", "N8", "C1", "C2"), 0)
    for i in range(30):
        near = np.argsort(-similarity[i])[:4]
        assert set(found.neighbors[i]) == set(near)
        J = np.array([jensenshannon(P[i], P[j]) ** 2 for j in near])
        order = [list(found.neighbors[i]).index(j) for j in near]
        assert found.edges.jsd[i][order] == pytest.approx(J)
        conf, near_conf = P[i].max(), P[near].max(axis=1).mean()
        accuracy = np.mean(y[near] == P[i].argmax())
        one = found.inequalities["C4a"]
        assert one.left[i] == pytest.approx(abs(conf - accuracy))
        assert one.right[i] == pytest.approx(abs(near_conf - accuracy) + np.sqrt(2 * J.mean()))
        labels = np.bincount(y[near], minlength=3) / 4
        one = found.inequalities["C4c"]
        assert one.left[i] == pytest.approx(np.abs(P[i] - labels).sum() / 2)
        mean = P[near].mean(axis=0)
        expected = np.abs(mean - labels).sum() / 2 + np.sqrt(2 * J.mean())
        assert one.right[i] == pytest.approx(expected)
        one = found.inequalities["N8"]
        assert one.left[i] == pytest.approx(jensenshannon(P[i], mean) ** 2)
        error = np.abs(P - eta).sum(axis=1) / 2
        apart = np.abs(eta[i] - eta[near]).sum(axis=1) / 2
        one = found.inequalities["C1"]
        assert one.left[i][order] == pytest.approx(np.abs(error[i] - error[near]))
        assert one.right[i][order] == pytest.approx(np.sqrt(2 * J) + apart)
        assert found.inequalities["C2"].right[i][order] == pytest.approx(error[i] + error[near])
        moved = P[i] + 0.3 * (mean - P[i])
        gain = ((P[i] - eta[i]) ** 2).sum() - ((moved - eta[i]) ** 2).sum()
        assert found.gains[i] == pytest.approx(gain)
        totals = {name: totals[name] + found.inequalities[name].left[i].sum() for name in totals}
    for name, total in totals.items():
        assert found.inequalities[name].left.sum() == pytest.approx(total)
    same = np.mean([y[j] == y[i] for i in range(30) for j in found.neighbors[i]])
    assert found.homophily == pytest.approx(same)
    assert found.n_violations == 0
    assert found.forced == np.mean(found.inequalities["C2"].left > 0)


def test_the_laplacian_is_that_of_the_directed_edges():
    rng = np.random.default_rng(2)
    log_p = np.log(rng.dirichlet([1, 1, 1, 1], 20))
    neighbors = np.stack([rng.permutation(np.delete(np.arange(20), i))[:3] for i in range(20)])
    pair_jsd = jsd(log_p[:, None], log_p[neighbors])
    low, high = of_laplacian(log_p, neighbors, pair_jsd, 1e-12)
    W = np.zeros((20, 20))
    for i in range(20):
        W[i, neighbors[i]] += 1
    W += W.T
    R = np.exp(log_p / 2)
    trace = 0.5 * (W * cdist(R, R, "sqeuclidean")).sum()
    assert high.right[0] == pytest.approx(trace / 2)
    assert low.left[0] == pytest.approx(np.log(2) * trace / 2)
    assert low.right[0] == high.left[0] == pytest.approx(pair_jsd.sum())
    assert low.n_violations == high.n_violations == 0


def test_smoothing_helps_where_neighbours_are_alike_and_cannot_across_a_border():
    rng = np.random.default_rng(3)
    where = rng.uniform(-1, 1, 400)
    flat = np.tile([0.7, 0.3], (400, 1))
    noisy = flat + rng.normal(scale=0.1, size=400)[:, None] * [1, -1]
    Z = np.column_stack([where, np.ones(400)])
    helped = NeSCalDiagnostics.from_predictions(
        rng.integers(0, 2, 400), Z, proba=noisy, true_proba=flat, step=1.0
    )
    assert helped.gains.mean() > 0
    assert helped.forced == 0
    steep = np.where(where[:, None] > 0, [0.99, 0.01], [0.01, 0.99])
    border = np.abs(where) < 0.1
    smooth = np.where(border[:, None], [0.5, 0.5], steep)
    forced = NeSCalDiagnostics.from_predictions(
        rng.integers(0, 2, 400), Z, proba=smooth, true_proba=steep, n_neighbors=20
    )
    c2 = forced.inequalities["C2"]
    assert forced.forced > 0
    # One end is off by half of what is forced at least; there both are.
    assert np.all(c2.right[c2.left > 0.5] >= 0.5)


# --- Networks -----------------------------------------------------------------------------------

QUICK = {"max_epochs": 6, "random_state": 0}


@pytest.mark.parametrize(
    "model",
    [
        NeSCalClassifier(warmup=1, **QUICK),
        NeSCalClassifier(smoothing=0, **QUICK),
        NeSCalClassifier(warmup=1, graph="random", smoothing=30, **QUICK),
        NeSCalClassifier(warmup=1, dtype="float64", **QUICK),
        NeSCalMLP(warmup=1, **QUICK),
        NeSCalMLP(preset="fast", calibrate=True, **QUICK),
        NeSCalMLP(preset="fast", honest_folds=2, **QUICK),
        NeSCalMLP(preset="fast", n_folds=2, loss="focal", **QUICK),
        MultiHeadMLP(smoothing=1, warmup=1, **QUICK),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_network_breaks_an_inequality(model):
    model.fit(X[:300], Y[:300])
    for rows in (slice(0, 300), slice(300, 500)):
        found = NeSCalDiagnostics.from_estimator(model, X[rows], Y[rows], true_proba=ETA[rows])
        broken = {k: v.slack for k, v in found.inequalities.items() if v.n_violations}
        assert broken == {}
        assert found.n_violations == 0


def test_the_last_layer_is_used_where_it_is_linear():
    plain = NeSCalClassifier(**QUICK).fit(X, Y)
    found = NeSCalDiagnostics.from_estimator(plain, X, Y)
    one = found.inequalities["N7c"]
    W = [p for p in plain.module_.parameters() if p.ndim == 2][-1].detach().double().numpy()
    steepest = cdist(W, W).max()
    h = plain.embed(X).astype(float)
    expected = steepest * np.linalg.norm(h[:, None] - h[found.neighbors], axis=2)
    assert_allclose(one.right, expected)
    many = NeSCalMLP(**QUICK).fit(X, Y)
    assert "N7c" not in NeSCalDiagnostics.from_estimator(many, X, Y).inequalities


def test_smoothing_lowers_the_divergence_of_neighbours():
    plain, smooth = (
        NeSCalClassifier(
            smoothing=s, warmup=1, early_stopping=False, max_epochs=25, random_state=0
        ).fit(X[:300], Y[:300])
        for s in (0, 10)
    )
    rough, even = (NeSCalDiagnostics.from_estimator(m, X[:300], Y[:300]) for m in (plain, smooth))
    assert even.edges.jsd.mean() < 0.85 * rough.edges.jsd.mean()
    assert even.edges.confidence.mean() < rough.edges.confidence.mean()


def test_many_rows_are_drawn_from():
    model = NeSCalClassifier(**QUICK).fit(X, Y)
    one, two = (
        NeSCalDiagnostics.from_estimator(model, X, Y, max_rows=80, random_state=s) for s in (0, 0)
    )
    assert one.log_proba.shape == (80, 3)
    assert_allclose(one.log_proba, two.log_proba)


def test_text_labels_and_frames():
    labels = np.array(["low", "mid", "top"])[Y]
    model = NeSCalMLP(preset="fast", **QUICK).fit(X, labels)
    found = NeSCalDiagnostics.from_estimator(model, X, labels)
    plain = NeSCalDiagnostics.from_estimator(NeSCalMLP(preset="fast", **QUICK).fit(X, Y), X, Y)
    assert found.homophily == plain.homophily


# --- Words and picture --------------------------------------------------------------------------


def test_the_summary_has_every_inequality():
    model = NeSCalClassifier(**QUICK).fit(X, Y)
    found = NeSCalDiagnostics.from_estimator(model, X, Y, true_proba=ETA)
    text = str(found)
    assert repr(found) == text
    assert text.startswith("500 rows, 10 neighbours each")
    for name, one in found.inequalities.items():
        assert f"\n{name:4} {one.statement}" in text
        assert f"0 of {one.left.size}" in text
    assert "true probabilities force an error" in text
    assert "true" not in str(NeSCalDiagnostics.from_estimator(model, X, Y))


def test_the_picture_shows_each_edge_below_its_limit():
    model = NeSCalClassifier(**QUICK).fit(X, Y)
    found = NeSCalDiagnostics.from_estimator(model, X, Y)
    display = found.plot()
    points = display.points_.get_offsets()
    assert len(points) == 5000
    assert np.all(points[:, 1] <= points[:, 0] + 1e-9)
    assert_allclose(np.sort(points[:, 0]), np.sort(np.sqrt(2 * found.edges.jsd.ravel())))
    assert display.ax_.get_xlabel() == r"$\sqrt{2\,\mathrm{JSD}}$ of the predictions"
    with pytest.raises(ValueError, match="show something already"):
        found.plot(display.ax_)
    figure, ax = plt.subplots()
    assert found.plot(ax).figure_ is figure


def test_a_picture_of_many_edges_has_fewer_points():
    rng = np.random.default_rng(0)
    divergence = rng.random(90_001)
    display = EdgeDivergenceDisplay(divergence, divergence / 2).plot()
    points = display.points_.get_offsets()
    assert 15_000 < len(points) <= 20_000
    assert points[:, 0].min() == pytest.approx(np.sqrt(2 * divergence.min()))


def test_a_picture_of_nothing():
    display = EdgeDivergenceDisplay([], []).plot()
    assert len(display.points_.get_offsets()) == 0
    with pytest.raises(ValueError, match="one number for each edge"):
        EdgeDivergenceDisplay([1.0], [1.0, 2.0])


# --- Wrong input --------------------------------------------------------------------------------


def test_wrong_input_is_told():
    model = NeSCalClassifier(**QUICK)
    with pytest.raises(NotFittedError):
        NeSCalDiagnostics.from_estimator(model, X, Y)
    model.fit(X, Y)
    for other in (LogisticRegression(), DeepEnsembleClassifier()):
        with pytest.raises(TypeError, match="has no embeddings"):
            NeSCalDiagnostics.from_estimator(other, X, Y)
    with pytest.raises(ValueError, match="label 7, which has no column"):
        NeSCalDiagnostics.from_estimator(model, X, np.where(Y == 0, 7, Y))
    with pytest.raises(ValueError, match="true_proba must have the shape"):
        NeSCalDiagnostics.from_estimator(model, X, Y, true_proba=ETA[:, :2])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        NeSCalDiagnostics.from_estimator(model, X, Y[:-1])
    with pytest.raises(ValueError, match="max_rows"):
        NeSCalDiagnostics.from_estimator(model, X, Y, max_rows=1)
    with pytest.raises(ValueError, match="n_neighbors"):
        NeSCalDiagnostics.from_estimator(model, X, Y, n_neighbors=0)
    with pytest.raises(ValueError, match="one of logits and proba"):
        NeSCalDiagnostics.from_predictions(Y, X)
    with pytest.raises(ValueError, match="two rows"):
        NeSCalDiagnostics.from_predictions([0], [[1.0]], proba=[[0.5, 0.5]], classes=[0, 1])
