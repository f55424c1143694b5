"""Proximity calibration: golden numbers, plain loops, and rows whose error goes by proximity."""

import json
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone

from skcal._neighbors import nearest_distances
from skcal.calibration import BaseCalibrator, ProximityCalibration, TemperatureScaling
from skcal.calibration._local.confidence_maps import fit_bin_shift, fit_density_ratio
from skcal.calibration._local.proximity import with_confidence
from skcal.metrics import proximity_informed_calibration_error

METHODS = ["density_ratio", "bin_mean_shift"]


def draw(n=80, n_classes=3, n_columns=2, seed=0):
    """Return probabilities, labels that follow them, features and whole weights."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes))
    y = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    y = y.clip(max=n_classes - 1)
    y[: min(n, n_classes)] = np.arange(n_classes)[:n]
    Z = rng.normal(size=(n, n_columns)) * 10.0 ** np.arange(n_columns) + 3.0
    return softmax(logits, axis=1), y, Z, rng.integers(1, 4, size=n).astype(float)


def lonely_rows(n, seed, hot=3.0, cold=0.8):
    """Return logits that are too large where rows are few, and too small where they are many."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4)) * np.exp(0.7 * rng.normal(size=(n, 1)))
    true = 2 * rng.normal(size=(n, 3))
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    return true * np.where(np.linalg.norm(Z, axis=1) > 2.5, hot, cold)[:, None], y, Z


def log_loss(y, proba):
    return -np.log(proba[np.arange(len(y)), y]).mean()


def golden():
    # The figures that they give belong to this generator, and to this order of draws.
    rs = np.random.RandomState(0)
    prox = rs.beta(2, 2, 800)
    conf = 0.5 + 0.5 * rs.beta(3, 1.5, 800)
    correct = rs.uniform(size=800) < np.clip(conf - 0.35 * (1 - prox), 0, 1)
    return np.column_stack([conf, prox]), correct


# --- Neighbours -------------------------------------------------------------------------


def slow_nearest(references, query, k, weights, itself=None):
    """Return the distances to the k nearest rows, those of weight two being there twice."""
    found = []
    for j, row in enumerate(references):
        copies = int(weights[j]) - (j == itself)
        found += [math.dist(row, query)] * copies
    return sorted(found)[:k]


@pytest.mark.parametrize("n_columns", [2, 20])  # by a tree, and by all distances
@pytest.mark.parametrize("k", [1, 7])
def test_neighbours_equal_plain_loops(k, n_columns):
    _, _, Z, w = draw(50, n_columns=n_columns)
    Z = Z / 10.0 ** np.arange(n_columns)
    Z[10] = Z[3]  # a row and its copy are neighbours
    queries = np.random.default_rng(1).normal(size=(20, n_columns))
    for weights in (np.ones(50), w):
        given = {} if weights is not w else {"weights": w}
        d, share = nearest_distances(Z, k, queries=queries, **given)
        expected = [np.mean(slow_nearest(Z, q, k, weights)) for q in queries]
        assert_allclose((d * share).sum(axis=1), expected, rtol=1e-10)
        d, share = nearest_distances(Z, k, **given)
        expected = [np.mean(slow_nearest(Z, q, k, weights, i)) for i, q in enumerate(Z)]
        assert_allclose((d * share).sum(axis=1), expected, rtol=1e-7, atol=1e-7)
        assert_allclose(share.sum(axis=1), 1.0)


def test_neighbours_of_small_weights_share_what_there_is():
    d, share = nearest_distances(
        np.array([[0.0], [1.0], [3.0]]), 2, queries=np.zeros((1, 1)), weights=np.full(3, 0.25)
    )
    assert_allclose(d, [[0.0, 1.0]])
    assert_allclose(share, [[0.5, 0.5]])


@pytest.mark.parametrize("form", ["exp_mean", "mean_exp_sq"])
@pytest.mark.parametrize("normalize", ["columns", "rows", None])
def test_proximities_equal_plain_loops(form, normalize):
    p, y, Z, w = draw(60)
    if normalize is None:
        Z /= [1, 10]
    options = {"n_neighbors": 4, "proximity": form, "normalize": normalize, "fallback": False}
    model = ProximityCalibration(**options).fit(p, y, w, features=Z)
    new = Z[:10] + 0.1

    def coordinates(rows):
        if normalize == "columns":
            mean = np.average(Z, axis=0, weights=w)
            return (rows - mean) / np.sqrt(2 * np.average((Z - mean) ** 2, axis=0, weights=w))
        if normalize == "rows":
            return np.array([row / math.hypot(*row) for row in rows])
        return rows

    def proximity(d):
        if form == "exp_mean":
            return math.exp(-sum(d) / 4)
        return sum(math.exp(-(v**2)) for v in d) / 4

    rows = coordinates(Z)
    expected = [proximity(slow_nearest(rows, q, 4, w)) for q in coordinates(new)]
    assert_allclose(model.proximities(new), expected, rtol=1e-7)
    # In fit each row is left out of its own neighbours.
    expected = [proximity(slow_nearest(rows, q, 4, w, i)) for i, q in enumerate(rows)]
    found = np.sort(np.concatenate([model.right_points_, model.wrong_points_])[:, 1])
    assert_allclose(found, np.sort(expected), rtol=1e-6)


def test_the_length_of_rows_does_not_matter_however_large_or_small():
    p, y, Z, w = draw(60)
    model = ProximityCalibration(normalize="rows", fallback=False).fit(p, y, w, features=Z)
    expected = model.proximities(Z)
    assert np.ptp(expected) > 0.01
    for exponent in (-600, 600):  # squares of which are 0 and infinite
        assert_array_equal(model.proximities(np.ldexp(Z, exponent)), expected)
    assert np.isfinite(model.proximities(np.zeros((1, 2)))).all()  # of no direction


# --- Maps of the confidence -------------------------------------------------------------


def test_density_ratio_gives_the_golden_numbers():
    points, correct = golden()
    ratio = fit_density_ratio(points, correct, np.ones(800))
    found = ratio.confidence(points, 0.0)
    assert_allclose(found[:3], [0.820871, 0.827789, 0.464323], atol=5e-7)
    assert_allclose(ratio.right.bandwidth, [0.034726, 0.080625], atol=5e-7)
    assert np.mean((points[:, 0] - correct) ** 2) == pytest.approx(0.230198, abs=5e-7)
    assert np.mean((found - correct) ** 2) == pytest.approx(0.195678, abs=5e-7)


def slow_mass(points, weights, query):
    total, mean = sum(weights), np.average(points, axis=0, weights=weights)
    spread = np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights))
    h = 1.06 * spread * total ** (-1 / 6)
    mass = 0.0
    for point, weight in zip(points, weights, strict=True):
        u = [(q - v) / s for q, v, s in zip(query, point, h, strict=True)]
        mass += weight * math.exp(-(u[0] ** 2 + u[1] ** 2) / 2) / (2 * math.pi * h[0] * h[1])
    return mass, 1 / (2 * math.pi * h[0] * h[1])


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_density_ratio_equals_plain_loops(prior):
    points, correct = golden()
    points, correct = points[:60], correct[:60]
    w = np.random.default_rng(0).uniform(0.5, 3, size=60)
    expected = []
    for query in points[:20]:
        right, peak = slow_mass(points[correct], w[correct], query)
        wrong, _ = slow_mass(points[~correct], w[~correct], query)
        added = prior * peak
        expected.append((right + added * query[0]) / (right + wrong + added))
    found = fit_density_ratio(points, correct, w).confidence(points[:20], prior)
    assert_allclose(found, expected, rtol=1e-10)


def test_where_there_was_no_row_the_confidence_stays():
    points, correct = golden()
    ratio = fit_density_ratio(points, correct, np.ones(800))
    far = np.array([[0.7, 40.0], [0.4, -40.0]])
    assert_allclose(ratio.confidence(far, 1.0), far[:, 0])
    assert_array_equal(ratio.confidence(far, 0.0), [0.0, 0.0])  # the published floor


def test_axis_without_spread():
    # All proximities equal: the ratio is that of the confidence alone.
    points, correct = golden()
    flat = np.column_stack([points[:, 0], np.full(800, 0.3)])
    found = fit_density_ratio(flat, correct, np.ones(800)).confidence(flat[:5], 0.0)
    h = [1.06 * points[rows, 0].std() * rows.sum() ** (-1 / 6) for rows in (correct, ~correct)]
    for value, c in zip(found, points[:5, 0], strict=True):
        right, wrong = (
            sum(np.exp(-(((c - v) / s) ** 2) / 2) / s for v in points[rows, 0])
            for rows, s in zip((correct, ~correct), h, strict=True)
        )
        assert value == pytest.approx(right / (right + wrong), rel=1e-9)


def slow_shift(points, correct, w, n_proximity_bins, n_bins, prior, shift):
    """Return shifted confidences by lists of rows; weights are whole, values are distinct."""

    def cut(rows, column, count):
        """Split rows, in the order of a column, where the weight passes each share."""
        order, total = sorted(rows, key=lambda i: points[i, column]), sum(w[i] for i in rows)
        parts, below = [[] for _ in range(count)], 0.0
        for i in order:
            # A row belongs to the part in which its weight begins, by whole numbers.
            parts[next(b for b in range(count) if below * count < (b + 1) * total)].append(i)
            below += w[i]
        return parts

    answer = np.empty(len(points))
    for region in cut(range(len(points)), 1, n_proximity_bins):
        for cell in cut(region, 0, n_bins):
            mass = sum(w[i] for i in cell)
            gap = sum(w[i] * (correct[i] - points[i, 0]) for i in cell) / mass if mass else 0.0
            for i in cell:
                moved = points[i, 0] + shift * mass / (mass + prior) * gap
                answer[i] = min(max(moved, 0.0), 1.0)
    return answer


@pytest.mark.parametrize(("prior", "shift"), [(0.0, 1.0), (3.0, 0.5)])
def test_bin_shift_equals_plain_loops(prior, shift):
    points, correct = golden()
    points, correct = points[:150], correct[:150]
    w = np.random.default_rng(0).integers(1, 4, size=150).astype(float)
    bins = fit_bin_shift(points, correct, w, n_proximity_bins=3, n_bins=4)
    expected = slow_shift(points, correct, w, 3, 4, prior, shift)
    assert_allclose(bins.confidence(points, prior, shift), expected, rtol=1e-10)
    assert bins.mass.sum() == pytest.approx(w.sum())


def test_bin_shift_gives_bins_their_accuracy():
    points, correct = golden()
    bins = fit_bin_shift(points, correct, np.ones(800), n_proximity_bins=4, n_bins=5)
    assert_allclose(bins.mass, np.full((4, 5), 40.0))
    found = bins.confidence(points, 0.0, 1.0)
    assert found.mean() == pytest.approx(correct.mean())
    assert_allclose(bins.confidence(points, 1e12, 1.0), points[:, 0], rtol=1e-9)


def test_other_classes_keep_their_proportions():
    proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7]])
    answer = softmax(with_confidence(np.log(proba), np.array([0.8, 0.1]), 1e-3), axis=1)
    assert_allclose(answer, [[0.8, 0.15, 0.05], [0.6, 0.3, 0.1]])


def test_confidences_that_no_number_can_hold():
    log_proba = np.array([[0.0, -1e9, -2e9], [0.0, -1e9, -1e9]])
    answer = with_confidence(log_proba, np.array([1.0, 0.75]), 1e-3)
    assert np.isfinite(answer).all()
    assert_allclose(softmax(answer, axis=1), [[1, 0, 0], [0.75, 0.125, 0.125]], atol=1e-12)


def test_nobody_gets_surer_than_the_rows_allow():
    proba = np.array([[0.6, 0.4], [1 - 1e-9, 1e-9], [0.6, 0.4]])
    answer = softmax(with_confidence(np.log(proba), np.array([1.0, 1.0, 0.0]), 0.01), axis=1)
    # Of the first the other class keeps 0.01; of the second the little that it had.
    assert answer[0, 1] == pytest.approx(0.01 / 1.01)
    assert answer[1, 1] == pytest.approx(1e-9)
    assert answer[2, 0] == pytest.approx(0.01 / 1.01)


# --- The calibrator ---------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_mends_an_error_that_goes_by_proximity(method):
    (logits, y, Z), (new, new_y, new_Z) = lonely_rows(3000, 0), lonely_rows(6000, 1)
    model = ProximityCalibration(method, input="logits", random_state=0).fit(logits, y, features=Z)
    assert model.is_local_
    proba = model.predict_proba(new, features=new_Z)
    scaled = TemperatureScaling(input="logits").fit(logits, y).predict_proba(new)
    assert log_loss(new_y, proba) < log_loss(new_y, scaled) - 0.03
    error = [
        proximity_informed_calibration_error(new_y, p, features=new_Z) for p in (scaled, proba)
    ]
    assert error[1] < 0.6 * error[0]


@pytest.mark.parametrize("method", METHODS)
def test_calibrated_scores_are_left_alone(method):
    (logits, y, Z), (new, new_y, new_Z) = lonely_rows(1500, 0, 1, 1), lonely_rows(4000, 1, 1, 1)
    model = ProximityCalibration(method, input="logits").fit(logits, y, features=Z)
    scaled = TemperatureScaling(input="logits").fit(logits, y).predict_proba(new)
    loss = log_loss(new_y, model.predict_proba(new, features=new_Z))
    assert loss < log_loss(new_y, scaled) + 0.005


def test_equals_its_parts():
    p, y, Z, w = draw()
    options = {"n_neighbors": 3, "prior": 0.5, "fallback": False}
    model = ProximityCalibration(**options).fit(p, y, w, features=Z)
    q = TemperatureScaling().fit(p, y, w).predict_proba(p)
    mean = np.average(Z, axis=0, weights=w)
    rows = (Z - mean) / np.sqrt(2 * np.average((Z - mean) ** 2, axis=0, weights=w))
    near = [np.exp(-np.mean(slow_nearest(rows, r, 3, w, i))) for i, r in enumerate(rows)]
    points, correct = np.column_stack([q.max(axis=1), near]), q.argmax(axis=1) == y
    new = np.column_stack([q.max(axis=1), model.proximities(Z)])[:12]
    top = q.argmax(axis=1)
    answer = model.predict_proba(p, features=Z)
    for i, query in enumerate(new):
        right, peak = slow_mass(points[correct], w[correct], query)
        wrong, _ = slow_mass(points[~correct], w[~correct], query)
        c = (right + 0.5 * peak * query[0]) / (right + wrong + 0.5 * peak)
        expected = q[i] * (1 - c) / (1 - query[0])
        expected[top[i]] = c
        assert_allclose(answer[i], expected, rtol=1e-6)


def test_bins_are_those_of_the_function():
    p, y, Z, w = draw()
    options = {"n_proximity_bins": 2, "n_bins": 3, "shift": 0.5, "prior": 2.0, "fallback": False}
    model = ProximityCalibration("bin_mean_shift", **options).fit(p, y, w, features=Z)
    assert model.gap_.shape == model.mass_.shape == (2, 3)
    q = TemperatureScaling().fit(p, y, w).predict_proba(p)
    near = model.proximities(Z)
    m = np.searchsorted(model.proximity_edges_, near)
    b = [np.searchsorted(model.confidence_edges_[k], c) for k, c in zip(m, q.max(1), strict=True)]
    moved = 0.5 * model.gap_[m, b] * model.mass_[m, b] / (model.mass_[m, b] + 2.0)
    answer = model.predict_proba(p, features=Z)
    assert_allclose(answer[np.arange(80), q.argmax(axis=1)], q.max(axis=1) + moved, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_large_priors_leave_the_temperature(method):
    p, y, Z, w = draw()
    model = ProximityCalibration(method, prior=1e14, fallback=False).fit(p, y, w, features=Z)
    scaled = TemperatureScaling().fit(p, y, w).predict_proba(p)
    assert_allclose(model.predict_proba(p, features=Z), scaled, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_repetitions(method):
    p, y, Z, w = draw()
    i = np.repeat(np.arange(80), w.astype(int))
    model = ProximityCalibration(method, fallback=False)
    weighted = clone(model).fit(p, y, w, features=Z).predict_proba(p, features=Z)
    repeated = clone(model).fit(p[i], y[i], features=Z[i]).predict_proba(p, features=Z)
    assert_allclose(repeated, weighted, rtol=1e-5)


@pytest.mark.parametrize(("kind", "place"), [("wrong", 1), ("right", 0)])
def test_too_few_rows_of_a_kind_warn_and_leave_the_temperature(kind, place):
    p, _, Z, _ = draw(n_classes=2)
    y = np.argsort(p, axis=1)[:, place]
    y[:4] = 1 - y[:4]
    model = ProximityCalibration(fallback=False)
    with pytest.warns(UserWarning, match=f"needs 5 {kind} rows, and there are 4") as caught:
        model.fit(p, y, features=Z)
    assert caught[0].filename == __file__
    assert not model.is_local_
    assert "there are 4" in model.reason_
    scaled = TemperatureScaling().fit(p, y)
    assert_allclose(model.predict_proba(p, features=Z), scaled.predict_proba(p))
    assert model.loss_ == pytest.approx(scaled.loss_)
    with pytest.raises(ValueError, match="no proximities: ProximityCalibration needs 5"):
        model.proximities(Z)
    silent = ProximityCalibration().fit(p, y, features=Z)
    assert silent.reason_ == model.reason_
    y[4] = 1 - y[4]
    assert clone(model).fit(p, y, features=Z).is_local_


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize(("n", "n_classes"), [(12, 2), (15, 4), (20, 100)])
@pytest.mark.filterwarnings("ignore:ProximityCalibration needs:UserWarning")
def test_few_rows(method, prior, n, n_classes):
    p, _, Z, _ = draw(n, n_classes)
    Z[:, 1] = 5.0  # constant
    y = p.argmax(axis=1)
    y[:6] = (y[:6] + 1) % n_classes
    for fallback in (False, True):
        model = ProximityCalibration(method, prior=prior, fallback=fallback, n_bins=3)
        model.fit(p, y, features=Z, classes=range(n_classes))
        proba = model.predict_proba(p, features=Z)
        assert_allclose(proba.sum(axis=1), 1.0)
        assert (proba > 0).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_rows(n):
    p, y, Z, _ = draw(n, 2)
    model = ProximityCalibration().fit(p, y, features=Z, classes=[0, 1])
    scaled = TemperatureScaling().fit(p, y, classes=[0, 1]).predict_proba(p)
    assert_allclose(model.predict_proba(p, features=Z), scaled)


@pytest.mark.parametrize("method", METHODS)
def test_one_heavy_row_of_each_kind(method):
    p, y = np.array([[0.8, 0.2], [0.7, 0.3]]), [0, 1]
    model = ProximityCalibration(method, fallback=False)
    model.fit(p, y, [9.0, 9.0], features=[[0.0], [1.0]])
    proba = model.predict_proba(p, features=[[0.0], [1.0]])
    assert np.isfinite(np.log(proba)).all()


@pytest.mark.parametrize("method", METHODS)
def test_equal_rows(method):
    p, y, _, _ = draw()
    model = ProximityCalibration(method, fallback=False).fit(p, y, features=np.ones((80, 2)))
    assert_array_equal(model.proximities(np.ones((3, 2))), 1.0)
    assert np.isfinite(np.log(model.predict_proba(p, features=np.ones((80, 2))))).all()


def test_most_rows_that_are_kept():
    p, y, Z, w = draw()
    options = {"max_rows": 50, "random_state": 0, "fallback": False}
    model = ProximityCalibration(**options).fit(p, y, w, features=Z)
    assert model.references_.shape == (50, 2)
    assert len(model.right_points_) + len(model.wrong_points_) == 50
    assert len(np.unique(model.references_, axis=0)) == 50
    other = ProximityCalibration(**{**options, "random_state": 1}).fit(p, y, w, features=Z)
    assert (other.references_ != model.references_).any()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalize", ["columns", "rows", None])
def test_same_seed_same_bits_also_on_paper(method, normalize):
    p, y, Z, w = draw()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model = ProximityCalibration(
        method, normalize=normalize, max_rows=60, random_state=3, fallback=False
    ).fit(p, y, w, features=Z)
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    answer = model.predict_proba(p, features=Z)
    again = clone(model).fit(p, y, w, features=Z)
    read = BaseCalibrator.from_dict(json.loads(json.dumps(model.to_dict())))
    for other in (again, pickle.loads(pickle.dumps(model)), read):
        assert_array_equal(other.predict_proba(p, features=Z), answer)


def test_one_bin_on_paper():
    p, y, Z, _ = draw()
    options = {"n_bins": 1, "n_proximity_bins": 1, "prior": 0.0, "fallback": False}
    model = ProximityCalibration("bin_mean_shift", **options).fit(p, y, features=Z)
    read = BaseCalibrator.from_dict(json.loads(json.dumps(model.to_dict())))
    answer = model.predict_proba(p, features=Z)
    assert_array_equal(read.predict_proba(p, features=Z), answer)
    q = TemperatureScaling().fit(p, y).predict_proba(p)
    moved = (q.argmax(axis=1) == y).mean() - q.max(axis=1).mean()
    top = answer[np.arange(80), q.argmax(axis=1)]
    assert_allclose(top, np.clip(q.max(axis=1) + moved, 0, 1 - 1 / 82), rtol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "density"},
        {"n_neighbors": 0},
        {"normalize": "length"},
        {"proximity": "mean"},
        {"prior": -1},
        {"shift": 0},
        {"shift": 1.5},
        {"n_bins": 0},
        {"n_proximity_bins": 0},
        {"max_rows": 0},
    ],
)
def test_mistakes_in_parameters(options):
    p, y, Z, _ = draw()
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter"):
        ProximityCalibration(**options).fit(p, y, features=Z)


def test_mistakes_with_features():
    p, y, Z, _ = draw()
    with pytest.raises(ValueError, match="pass features="):
        ProximityCalibration().fit(p, y)
    model = ProximityCalibration(fallback=False).fit(p, y, features=Z)
    for method in (model.proximities, lambda rows: model.predict_proba(p, features=rows)):
        with pytest.raises(ValueError, match="fitted on 2 columns of features; these have 1"):
            method(Z[:, :1])
