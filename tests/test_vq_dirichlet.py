"""Regions composed of codewords: the quantiser, both maps, and what they are right about."""

import json
import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad, minimize
from scipy.special import gammaln, log_softmax, softmax
from scipy.stats import dirichlet as dirichlet_distribution
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skcal.calibration import (
    BaseCalibrator,
    TemperatureScaling,
    VectorScaling,
    VQDirichletCalibration,
)
from skcal.calibration._local import additive as additive_module
from skcal.calibration._local.additive import Additive, fit_additive
from skcal.calibration._local.indexed_dirichlet import IndexedDirichlet
from skcal.calibration._local.quantized_head import held_out_log_proba
from skcal.calibration._local.quantizer import fit_quantizer


def toy(n, rng, W, temperatures):
    """Return features, logits, true logits and labels; the sign of feature 0 decides."""
    Z = rng.normal(size=(n, 16))
    true = Z @ W
    proba = softmax(true, axis=1)
    y = (proba.cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return Z, true * np.where(Z[:, 0] > 0, *temperatures)[:, None], true, y


@pytest.fixture(scope="module")
def local_error():
    """Return rows to fit and new rows, of two temperatures: 3.2 and 0.6."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(16, 4)) * 0.6
    return toy(3000, rng, W, (3.2, 0.6)), toy(6000, rng, W, (3.2, 0.6))


def log_loss(y, proba):
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def draw(n=300, k=3, d=5, seed=0):
    """Return logits, labels and features without any relation."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    cumulated = softmax(logits / 1.7, axis=1).cumsum(axis=1)
    y = (cumulated < rng.uniform(size=n)[:, None]).sum(axis=1).clip(max=k - 1)
    y[:k] = np.arange(k)
    return logits, y, rng.normal(size=(n, d))


def fit(logits, y, Z, sample_weight=None, **parameters):
    parameters = {
        "n_slots": 2,
        "n_codewords": 2,
        "fallback": False,
        "random_state": 0,
        "input": "logits",
        **parameters,
    }
    return VQDirichletCalibration(**parameters).fit(logits, y, sample_weight, features=Z)


def scaled(logits, y):
    """Return temperature-scaled log-probabilities, by another class of the package."""
    scaling = TemperatureScaling(input="logits").fit(logits, y)
    return log_softmax(logits / scaling.temperature_, axis=1)


# --- The quantiser -----------------------------------------------------------------------------


def naive_codes(Z, quantizer):
    """Return codes by a loop over rows, slots and codewords, from the definition."""
    found = np.empty((len(Z), len(quantizer.slots)), dtype=int)
    for row, slot in product(range(len(Z)), range(len(quantizer.slots))):
        columns = quantizer.slots[slot]
        part = (Z[row, columns] - quantizer.mean[columns]) / quantizer.scale[columns]
        distances = []
        for codeword in quantizer.codebooks[slot]:
            longer = np.zeros(len(codeword))  # shorter slots end in zeros
            longer[: len(part)] = part
            distances.append(((longer - codeword) ** 2).sum())
        found[row, slot] = int(np.argmin(distances))
    return found


@pytest.mark.parametrize("codebook", ["per_slot", "shared"])
@pytest.mark.parametrize("n_slots", [1, 2, 3, 7])
def test_codes_are_those_of_the_nearest_codeword(codebook, n_slots):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 7)) * rng.uniform(0.1, 50, size=7) + 10 * rng.normal(size=7)
    quantizer = fit_quantizer(
        Z, np.ones(200), n_slots=n_slots, n_codewords=4, codebook=codebook, seed=0
    )
    assert_array_equal(np.concatenate(quantizer.slots), np.arange(7))
    sizes = [len(columns) for columns in quantizer.slots]
    assert max(sizes) - min(sizes) <= 1
    codes = quantizer.codes(Z)
    assert_array_equal(codes, naive_codes(Z, quantizer))
    assert {len(book) for book in quantizer.codebooks} == {4}
    vectors = quantizer.vectors(codes)
    row = np.concatenate(
        [book[code] for book, code in zip(quantizer.codebooks, codes[11], strict=True)]
    )
    assert_array_equal(vectors[11], row)


def test_codes_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100, 4))
    quantizer = fit_quantizer(
        Z, np.ones(100), n_slots=2, n_codewords=3, codebook="per_slot", seed=0
    )
    whole = quantizer.codes(Z)
    monkeypatch.setattr("skcal.calibration._local.quantizer._BLOCK", 21)
    assert_array_equal(quantizer.codes(Z), whole)


def test_clusters_that_are_there_are_found():
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, size=(300, 2))
    centres = np.array([[-10.0, 0], [0, 10], [10, 0]])
    Z = np.hstack([centres[which[:, 0]], 5 * centres[which[:, 1]]]) + rng.normal(size=(300, 4))
    for codebook in ("per_slot", "shared"):
        quantizer = fit_quantizer(
            Z, np.ones(300), n_slots=2, n_codewords=3, codebook=codebook, seed=0
        )
        codes = quantizer.codes(Z)
        for slot in (0, 1):
            pairs = np.unique(np.column_stack([codes[:, slot], which[:, slot]]), axis=0)
            assert len(pairs) == 3


def test_a_shared_codebook_is_one_for_all_slots():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 5))
    quantizer = fit_quantizer(Z, np.ones(200), n_slots=2, n_codewords=4, codebook="shared", seed=0)
    assert_array_equal(quantizer.codebooks[0], quantizer.codebooks[1])
    assert quantizer.codebooks[0].shape == (4, 3)
    assert np.isfinite(fit(*draw(200), n_slots=2, codebook="shared").loss_)


def test_weights_of_the_quantizer_are_repeated_rows():
    rng = np.random.default_rng(0)
    Z, repeats = rng.normal(size=(300, 3)) ** 3, rng.integers(0, 4, 300)
    kept = repeats > 0
    given = {"n_slots": 3, "n_codewords": 1, "codebook": "per_slot", "seed": 0}
    weighted = fit_quantizer(Z[kept], repeats[kept].astype(float), **given)
    rows = np.repeat(Z, repeats, axis=0)
    repeated = fit_quantizer(rows, np.ones(len(rows)), **given)
    assert_allclose(weighted.mean, rows.mean(axis=0), rtol=1e-12)
    assert_allclose(weighted.scale, rows.std(axis=0), rtol=1e-12)
    # A single codeword is the mean of the rows, which is zero.
    for one, other in zip(weighted.codebooks, repeated.codebooks, strict=True):
        assert_allclose(one, 0, atol=1e-5)
        assert_allclose(other, 0, atol=1e-5)


def test_columns_and_rows_without_differences():
    logits, y, Z = draw(200)
    Z[:, 1] = 7.0
    Z[:, 2] = 0.1 * 3 + 1e-17 * Z[:, 3]  # constant but for rounding
    for codebook in ("per_slot", "shared"):
        calibrator = fit(logits, y, Z, n_slots=5, n_codewords=4, codebook=codebook)
        assert calibrator.feature_scale_[1] == 1.0
        assert np.isfinite(calibrator.predict_proba(logits, features=10 * Z)).all()
    constant = fit(logits, y, np.full((200, 5), 0.1), n_codewords=8)
    assert_array_equal(constant.transform(Z), np.zeros((200, 2)))
    assert_allclose(constant.usage_.sum(axis=1), 1)


@pytest.mark.parametrize("spread", [1.0, 1e-8, 1e-14])
def test_fewer_different_rows_than_codewords_are_no_reason_to_warn(spread):
    rng = np.random.default_rng(0)
    logits, y, _ = draw(300)
    Z = rng.integers(0, 2, size=(300, 4)) + (spread < 1) * spread * rng.normal(size=(300, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrator = fit(logits, y, Z, n_slots=4, n_codewords=5)
        fit(logits, y, Z, n_slots=4, n_codewords=5, codebook="shared")
    assert calibrator.usage_.shape == (4, 5)
    assert_allclose(calibrator.usage_[:, 2:], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near_one = 1 - 10.0 ** -rng.uniform(0, 17, size=(300, 4))
        fit(logits, y, near_one, n_slots=4, n_codewords=5)


def test_more_slots_than_columns_are_refused():
    logits, y, Z = draw()
    with pytest.raises(ValueError, match=r"n_slots=6 is more than there are columns .* 5"):
        fit(logits, y, Z, n_slots=6)
    automatic = fit(logits, y, Z[:, :2], n_slots="auto", n_codewords="auto")
    assert automatic.settings_["n_slots"] <= 2


def test_transform_usage_and_slots():
    logits, y, Z = draw()
    weights = np.random.default_rng(1).uniform(0.5, 2, 300)
    calibrator = fit(logits, y, Z, weights, n_slots=3, n_codewords=4)
    codes = calibrator.transform(Z)
    assert codes.shape == (300, 3)
    for slot, code in product(range(3), range(4)):
        share = weights[codes[:, slot] == code].sum() / weights.sum()
        assert calibrator.usage_[slot, code] == pytest.approx(share, abs=1e-12)
    assert [len(columns) for columns in calibrator.slots_] == [2, 2, 1]
    fallen = fit(logits, y, Z, fallback=True)
    assert not fallen.is_local_
    assert fallen.transform(Z).shape == (300, 0)


# --- The additive map --------------------------------------------------------------------------


def naive_loss(flat, log_proba, y, weights, codes, shape, width, penalties):
    """Return the penalised mean log-loss by loops, from the formula."""
    n_slots, n_codewords, _ = shape
    split = n_slots * n_codewords * width
    t, c = flat[:split].reshape(n_slots, n_codewords, width), flat[split:].reshape(shape)
    total = 0.0
    for row in range(len(y)):
        factor = 1 + sum(t[s, codes[row, s]] for s in range(n_slots))
        shift = sum(c[s, codes[row, s]] for s in range(n_slots))
        total -= weights[row] * log_softmax(factor * log_proba[row] + shift)[y[row]]
    ridge = penalties[0] * (t**2).sum() + penalties[1] * (c**2).sum()
    return (total + ridge) / weights.sum()


def captured_objective(monkeypatch, *args, **kwargs):
    """Return the objective that is handed to the optimiser, and its start."""
    seen = {}

    def catch(objective, start, **options):
        seen.update(objective=objective, start=start)
        return minimize(objective, start, **options)

    monkeypatch.setattr(additive_module, "minimize", catch)
    fit_additive(*args, **kwargs)
    return seen["objective"], seen["start"]


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_objective_of_the_additive_map_and_its_slope(monkeypatch, diagonal):
    logits, y, _ = draw(40)
    rng = np.random.default_rng(0)
    log_proba, weights = log_softmax(logits, axis=1), rng.uniform(0.1, 3, 40)
    codes = rng.integers(0, 2, size=(40, 3))
    objective, start = captured_objective(
        monkeypatch,
        *(log_proba, y, weights, codes, 2),
        **{"diagonal": diagonal, "reg_scale": 3.0, "reg_bias": 0.7, "max_iter": 5},
    )
    width = 3 if diagonal else 1
    assert_array_equal(start, np.zeros(3 * 2 * (width + 3)))
    for _ in range(3):
        flat = rng.normal(size=len(start))
        expected = naive_loss(flat, log_proba, y, weights, codes, (3, 2, 3), width, (3.0, 0.7))
        assert objective(flat)[0] == pytest.approx(expected, rel=1e-12)
        slope = check_grad(lambda x: objective(x)[0], lambda x: objective(x)[1], flat)
        assert slope < 1e-5
        other = rng.normal(size=len(start))
        middle = objective((flat + other) / 2)[0]
        assert middle <= (objective(flat)[0] + objective(other)[0]) / 2  # convex


@pytest.mark.parametrize("diagonal", [False, True])
def test_any_start_leads_to_the_same_additive_map(monkeypatch, diagonal):
    logits, y, _ = draw(200)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(200, 2))
    args = log_softmax(logits, axis=1), y, np.ones(200), codes, 3
    kwargs = {"diagonal": diagonal, "reg_scale": 1.0, "reg_bias": 1.0, "max_iter": 500}
    objective, start = captured_objective(monkeypatch, *args, **kwargs)
    found, _, done = fit_additive(*args, **kwargs)
    assert done
    flat = np.concatenate([found.scales.ravel(), found.biases.ravel()])
    for _ in range(2):
        far = minimize(objective, 3 * rng.normal(size=len(start)), jac=True, method="BFGS")
        assert_allclose(flat, far.x, atol=2e-4)
        assert objective(flat)[0] < far.fun + 1e-9


def test_scores_of_the_additive_map_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    log_proba, codes = log_softmax(rng.normal(size=(20, 3)), axis=1), rng.integers(0, 2, (20, 4))
    for width in (1, 3):
        t, c = rng.normal(size=(4, 2, width)), rng.normal(size=(4, 2, 3))
        scores = Additive(t, c).scores(log_proba, codes)
        for row in range(20):
            factor = 1 + sum(t[s, codes[row, s]] for s in range(4))
            shift = sum(c[s, codes[row, s]] for s in range(4))
            assert_allclose(scores[row], factor * log_proba[row] + shift, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", ["scalar", "diagonal"])
def test_a_huge_ridge_is_temperature_scaling(scale):
    logits, y, Z = draw()
    expected = TemperatureScaling(input="logits").fit(logits, y)
    calibrator = fit(logits, y, Z, scale=scale, reg_scale=1e12, reg_bias=1e12)
    assert calibrator.is_local_
    assert calibrator.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    answer = calibrator.predict_proba(logits, features=Z)
    assert_allclose(answer, expected.predict_proba(logits), atol=1e-8)


@pytest.mark.parametrize("k", [2, 4])
def test_a_single_codeword_without_ridge_is_temperature_then_vector_scaling(k):
    logits, y, Z = draw(500, k)
    one = {"n_slots": 1, "n_codewords": 1, "scale": "diagonal", "reg_scale": 0, "reg_bias": 0}
    calibrator = fit(logits, y, Z, **one)
    log_proba = scaled(logits, y)

    def loss(flat):  # vector scaling, by an optimiser that is told no slope
        scores = flat[:k] * log_proba + np.append(flat[k:], 0)
        return log_loss(y, softmax(scores, axis=1))

    best = minimize(loss, np.append(np.ones(k), np.zeros(k - 1)), method="BFGS")
    assert calibrator.loss_ == pytest.approx(best.fun, abs=1e-7)
    assert_allclose(1 + calibrator.scales_[0, 0], best.x[:k], atol=1e-3)
    if k == 2:
        # The package's own, of centred logits, has one slope for the margin: a special case.
        vector = VectorScaling(reg=0, input="logits").fit(logits, y)
        assert calibrator.loss_ <= vector.loss_ + 1e-6


def test_a_single_codeword_with_one_factor_is_found_by_another_optimiser():
    logits, y, Z = draw(500, 4)
    calibrator = fit(logits, y, Z, n_slots=1, n_codewords=1, reg_scale=0, reg_bias=0)

    def loss(flat):
        return log_loss(y, softmax(flat[0] * logits + np.append(flat[1:], 0), axis=1))

    best = minimize(loss, [1.0, 0, 0, 0], method="BFGS")
    assert calibrator.loss_ == pytest.approx(best.fun, abs=1e-7)
    factor = (1 + calibrator.scales_[0, 0, 0]) / calibrator.temperature_
    assert factor == pytest.approx(best.x[0], abs=1e-4)


@pytest.mark.parametrize("scale", ["scalar", "diagonal"])
@pytest.mark.parametrize("n", [5, 40, 300])
def test_on_its_own_rows_the_additive_map_is_no_worse_than_the_temperature(scale, n):
    for seed in range(3):
        logits, y, Z = draw(n, seed=seed)
        one = TemperatureScaling(input="logits").fit(logits, y).loss_
        local = fit(logits, y, Z, scale=scale, n_slots=3, n_codewords=2)
        assert local.loss_ <= one + 1e-9
        reported = log_loss(y, local.predict_proba(logits, features=Z))
        assert local.loss_ == pytest.approx(reported, abs=1e-12)


def test_combinations_of_codewords_without_a_row_are_answered():
    logits, y, Z = draw(400, d=2)
    Z[:, 1] = Z[:, 0]  # both slots say the same, so that two of four regions have no row
    for way in ({}, {"scale": "diagonal"}, {"parameterization": "dirichlet", "max_epochs": 3}):
        calibrator = fit(logits, y, Z, **way)
        crossed = Z * [1, -1]
        regions = {tuple(row) for row in calibrator.transform(Z)}
        unseen = ~np.array([tuple(row) in regions for row in calibrator.transform(crossed)])
        assert unseen.sum() > 300
        answer = calibrator.predict_proba(logits, features=crossed)
        assert np.isfinite(answer).all()
        assert_allclose(answer.sum(axis=1), 1, atol=1e-12)
        assert (answer > 0).all()


def test_weights_are_repeated_rows():
    logits, y, Z = draw(300)
    repeats = np.random.default_rng(3).integers(0, 4, 300)
    repeats[:3] = 1
    for scale in ("scalar", "diagonal"):
        weighted = fit(logits, y, Z, repeats, scale=scale)
        rows = [np.repeat(part, repeats, axis=0) for part in (logits, y, Z)]
        repeated = fit(*rows, scale=scale)
        assert_allclose(
            weighted.predict_proba(logits, features=Z),
            repeated.predict_proba(logits, features=Z),
            atol=1e-6,
        )


def test_temperatures_of_the_regions(local_error):
    (Z, logits, _, y), (fresh, fresh_logits, _, _) = local_error
    calibrator = fit(logits, y, Z, n_slots=16, reg_bias=1e9)
    regions = calibrator.regions(fresh)
    assert regions.n_rows.sum() == 6000
    assert (np.diff(regions.n_rows) <= 0).all()
    assert regions.codes.shape == (len(regions.n_rows), 16)
    codes = calibrator.transform(fresh)
    for place in (0, 5, 100):
        inside = (codes == regions.codes[place]).all(axis=1)
        assert inside.sum() == regions.n_rows[place]
        answer = calibrator.predict_proba(fresh_logits[inside], features=fresh[inside])
        expected = softmax(fresh_logits[inside] / regions.temperature[place], axis=1)
        assert_allclose(answer, expected, atol=1e-6)  # the shifts are nearly none
    # Where feature 0 is positive logits are 3.2 times too large, elsewhere 0.6 times.
    high = calibrator.slots_[0][0] == 0 and calibrator.codebooks_[0][:, 0].argmax()
    sign = regions.codes[:, 0] == high
    assert np.median(regions.temperature[sign]) == pytest.approx(3.2, rel=0.15)
    assert np.median(regions.temperature[~sign]) == pytest.approx(0.6, rel=0.25)


def test_a_region_of_reversed_order_has_no_temperature():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 1))
    logits = rng.normal(size=(600, 3))
    truth = logits * np.where(Z > 0, 3.0, -1.0)
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    calibrator = fit(logits, y, Z, n_slots=1, n_codewords=2, reg_scale=1e-6, fallback=False)
    regions = calibrator.regions(Z)
    high = calibrator.transform([[1.0]])[0, 0]
    assert (np.isnan(regions.temperature) == (regions.codes[:, 0] != high)).all()
    assert (regions.temperature[regions.codes[:, 0] == high] > 0).all()


def test_regions_of_other_maps():
    logits, y, Z = draw()
    diagonal = fit(logits, y, Z, scale="diagonal").regions(Z)
    assert diagonal.temperature.shape == (len(diagonal.n_rows), 3)
    fallen = fit(logits, y, Z, fallback=True)
    assert not fallen.is_local_
    everywhere = fallen.regions(Z)
    assert_array_equal(everywhere.n_rows, [300])
    assert_array_equal(everywhere.temperature, [fallen.temperature_])
    with pytest.raises(ValueError, match="no temperatures; transform gives the regions"):
        fit(logits, y, Z, parameterization="dirichlet", max_epochs=1).regions(Z)


# --- The Dirichlet map -------------------------------------------------------------------------


def dirichlet_tables(seed=0, n_vectors=6, k=3):
    rng = np.random.default_rng(seed)
    prior = log_softmax(rng.normal(size=k))
    return rng.normal(size=(n_vectors, k)), rng.normal(size=(n_vectors, k)), prior


def concentrations(left, right, places):
    """Return softplus of the sum of outer products, of one row."""
    total = sum(np.outer(left[place], right[place]) for place in places)
    return np.log1p(np.exp(total)) + 1e-8


def test_the_consistent_form_is_the_posterior_of_dirichlet_densities():
    left, right, prior = dirichlet_tables()
    rng = np.random.default_rng(1)
    proba = rng.dirichlet([2, 1, 1], 50)
    places = rng.integers(0, 6, size=(50, 4))
    scores = IndexedDirichlet(left, right, prior, False).scores(np.log(proba), places)
    for row in range(50):
        alpha = concentrations(left, right, places[row]) + np.eye(3)
        logs = [prior[j] + dirichlet_distribution.logpdf(proba[row], alpha[:, j]) for j in range(3)]
        assert_allclose(softmax(scores[row]), softmax(logs), atol=1e-9)


def test_the_published_form_is_that_of_the_formula_and_differs():
    left, right, prior = dirichlet_tables()
    rng = np.random.default_rng(1)
    log_proba = np.log(rng.dirichlet([2, 1, 1], 200))
    places = rng.integers(0, 6, size=(200, 4))
    published = IndexedDirichlet(left, right, prior, True).scores(log_proba, places)
    for row in range(200):
        alpha = concentrations(left, right, places[row])
        for j in range(3):
            log_beta = gammaln(alpha[:, j]).sum() - gammaln(alpha[:, j].sum())
            score = prior[j] - log_beta
            for i in range(3):
                score += (alpha[i, j] - 1 + (i == j)) * log_proba[row, i]
            assert published[row, j] == pytest.approx(score, rel=1e-10, abs=1e-10)
    consistent = IndexedDirichlet(left, right, prior, False).scores(log_proba, places)
    gap = np.abs(softmax(published, axis=1) - softmax(consistent, axis=1)).max()
    assert gap > 0.05  # random tables are told apart


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("codebook", ["per_slot", "shared"])
def test_the_dirichlet_map_begins_at_the_identity(published, codebook):
    logits, y, Z = draw()
    # A step this small does not move it.
    calibrator = fit(
        *(logits, y, Z),
        **{"parameterization": "dirichlet", "published": published, "codebook": codebook},
        **{"lr": 1e-12, "max_epochs": 1},
    )
    expected = TemperatureScaling(input="logits").fit(logits, y).predict_proba(logits)
    assert_allclose(calibrator.predict_proba(logits, features=Z), expected, atol=1e-5)
    assert_allclose(np.exp(calibrator.log_prior_), 1 / 3, atol=1e-9)


def test_slots_may_change_places_if_they_share_a_codebook():
    left, right, prior = dirichlet_tables()
    rng = np.random.default_rng(1)
    log_proba, places = np.log(rng.dirichlet([2, 1, 1], 50)), rng.integers(0, 6, size=(50, 4))
    for published in (False, True):
        table = IndexedDirichlet(left, right, prior, published)
        expected = table.scores(log_proba, places)
        assert_allclose(table.scores(log_proba, places[:, [2, 0, 3, 1]]), expected, rtol=1e-12)
    logits, y, Z = draw(d=6)
    calibrator = fit(
        *(logits, y, Z),
        **{"n_slots": 3, "n_codewords": 4, "codebook": "shared", "lr": 0.05, "max_epochs": 5},
        parameterization="dirichlet",
    )
    assert calibrator.left_.shape == (4, 3)
    # Neighbours of two columns change places, in the units of the features.
    blocks = [2, 3, 4, 5, 0, 1]
    standard = (Z - calibrator.feature_mean_) / calibrator.feature_scale_
    moved = standard[:, blocks] * calibrator.feature_scale_ + calibrator.feature_mean_
    before = calibrator.predict_proba(logits, features=Z)
    assert_allclose(calibrator.predict_proba(logits, features=moved), before, atol=1e-9)
    own = fit(
        *(logits, y, Z),
        **{"n_slots": 3, "n_codewords": 4, "lr": 0.05, "max_epochs": 2},
        parameterization="dirichlet",
    )
    assert own.left_.shape == (12, 3)


def test_slots_of_their_own_codebooks_have_their_own_vectors():
    logits, y, Z = draw()
    calibrator = fit(
        *(logits, y, Z),
        **{"n_slots": 2, "n_codewords": 3, "parameterization": "dirichlet", "max_epochs": 2},
        lr=0.05,
    )
    codes = calibrator.transform(Z)
    log_proba = log_softmax(logits / calibrator.temperature_, axis=1)
    table = IndexedDirichlet(calibrator.left_, calibrator.right_, calibrator.log_prior_, False)
    expected = softmax(table.scores(log_proba, codes + np.array([0, 3])), axis=1)
    assert_allclose(calibrator.predict_proba(logits, features=Z), expected, atol=1e-12)


def test_training_keeps_the_epoch_that_is_best_on_held_out_rows():
    logits, y, Z = draw(400)
    # Steps too large make every epoch worse than the start, which is kept.
    wild = fit(
        *(logits, y, Z),
        **{"parameterization": "dirichlet", "lr": 30.0, "max_epochs": 20, "n_iter_no_change": 3},
    )
    expected = TemperatureScaling(input="logits").fit(logits, y).predict_proba(logits)
    assert wild.n_iter_ <= 4
    assert_allclose(wild.predict_proba(logits, features=Z), expected, atol=1e-5)


def test_training_learns_from_the_rows(local_error):
    (Z, logits, _, y), _ = local_error
    some = slice(0, 1500)
    before = TemperatureScaling(input="logits").fit(logits[some], y[some]).loss_
    for published in (False, True):
        trained = fit(
            *(logits[some], y[some], Z[some]),
            **{"n_slots": 16, "parameterization": "dirichlet", "published": published},
            **{"lr": 5e-3, "max_epochs": 20, "batch_size": 64},
        )
        assert trained.loss_ < before - 0.08


def test_training_leaves_torchs_generator_alone():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    fit(*draw(60), parameterization="dirichlet", max_epochs=2)
    assert torch.equal(torch.get_rng_state(), before)


# --- The head in the classifier's place --------------------------------------------------------


def test_the_head_takes_the_place_of_the_scores():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 2))
    y = (Z[:, 0] > 0).astype(int)
    told, senseless = np.column_stack([-Z[:, 0], Z[:, 0]]), rng.normal(size=(1000, 2))
    for logits in (told, senseless):
        calibrator = fit(logits, y, Z, base="quantized_head", n_slots=2, n_codewords=4)
        answer = calibrator.predict_proba(logits, features=Z)
        assert (answer.argmax(axis=1) == y).mean() > 0.85
        # Scores play no part, but for the temperature that the map starts from.
        assert_array_equal(calibrator.predict_proba(told[::-1], features=Z), answer)
    scores = (
        calibrator.head_coef_[:, 1] @ calibrator._quantizer().vectors(calibrator.transform(Z)).T
    )
    assert np.corrcoef(scores, Z[:, 0])[0, 1] > 0.8


@pytest.mark.parametrize("k", [2, 3])
def test_the_map_learns_from_heads_that_have_not_seen_its_rows(k):
    _, y, Z = draw(200, k)
    weights = np.random.default_rng(0).uniform(0.5, 2, 200)
    folds = np.arange(200) % 4
    answer = np.exp(held_out_log_proba(Z, y, weights, folds, k))
    for fold in range(4):
        rest = folds != fold
        head = LogisticRegression(max_iter=1000).fit(Z[rest], y[rest], weights[rest])
        assert_allclose(answer[~rest], head.predict_proba(Z[~rest]), atol=1e-9)


def test_the_head_knows_classes_without_rows():
    logits, y, Z = draw(200, k=4)
    keep = y < 2
    way = {"n_slots": 2, "n_codewords": 2, "base": "quantized_head", "fallback": False}
    calibrator = VQDirichletCalibration(**way, random_state=0, input="logits").fit(
        logits[keep], y[keep], features=Z[keep], classes=range(4)
    )
    answer = calibrator.predict_proba(logits, features=Z)
    assert answer[:, 2:].max() < 1e-3
    assert_allclose(answer.sum(axis=1), 1)


# --- Local errors, and none --------------------------------------------------------------------


@pytest.mark.parametrize(
    "way",
    [
        {"n_slots": 16, "n_codewords": 2},
        {"n_slots": "auto", "n_codewords": "auto"},
        {"n_slots": 16, "n_codewords": 2, "scale": "diagonal"},
        {"n_slots": 16, "n_codewords": 2, "codebook": "shared"},
    ],
)
def test_two_temperatures_are_found(local_error, way):
    (Z, logits, _, y), (fresh, fresh_logits, true, fresh_y) = local_error
    scaling = TemperatureScaling(input="logits").fit(logits, y)
    assert log_loss(fresh_y, scaling.predict_proba(fresh_logits)) == pytest.approx(0.898, abs=2e-3)
    assert log_loss(fresh_y, softmax(true, axis=1)) == pytest.approx(0.756, abs=2e-3)
    calibrator = fit(logits, y, Z, fallback=True, **way)
    assert calibrator.is_local_
    assert calibrator.reason_.endswith(").")
    assert log_loss(fresh_y, calibrator.predict_proba(fresh_logits, features=fresh)) <= 0.80


def test_what_is_left_at_auto_is_chosen_by_held_out_gain(local_error):
    (Z, logits, _, y), _ = local_error
    calibrator = fit(logits[:800], y[:800], Z[:800], n_slots="auto", n_codewords=2)
    results = calibrator.cv_results_
    assert [one["n_slots"] for one in results["settings"]] == [1, 4, 8, 16]
    assert {one["n_codewords"] for one in results["settings"]} == {2}
    assert calibrator.settings_ == results["settings"][results["gain"].argmax()]
    assert calibrator.usage_.shape == (calibrator.settings_["n_slots"], 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_without_a_local_error_it_falls_back_and_says_so(seed):
    logits, y, Z = draw(1000, d=16, seed=seed)
    fresh_logits, fresh_y, fresh = draw(4000, d=16, seed=seed + 10)
    calibrator = fit(logits, y, Z, n_slots="auto", n_codewords="auto", fallback=True)
    scaling = TemperatureScaling(input="logits").fit(logits, y)
    assert not calibrator.is_local_
    assert "fell back on temperature scaling" in calibrator.reason_
    answer = calibrator.predict_proba(fresh_logits, features=fresh)
    assert_allclose(answer, scaling.predict_proba(fresh_logits), atol=1e-10)
    # Without the fallback it costs little more than the temperature where it is least needed.
    kept = fit(logits, y, Z, n_slots=16)
    lost = log_loss(fresh_y, kept.predict_proba(fresh_logits, features=fresh))
    assert lost < log_loss(fresh_y, answer) + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("k", [2, 4])
def test_without_a_local_error_the_choice_among_eight_costs_next_to_nothing(n, k):
    # The best of eight held-out gains is above zero by chance alone.
    fallen = 0
    for seed in range(12):
        logits, y, Z = draw(n, k, d=16, seed=seed)
        fresh_logits, fresh_y, fresh = draw(4000, k, d=16, seed=seed + 100)
        calibrator = fit(logits, y, Z, n_slots="auto", n_codewords="auto", fallback=True)
        scaling = TemperatureScaling(input="logits").fit(logits, y)
        lost = log_loss(fresh_y, calibrator.predict_proba(fresh_logits, features=fresh))
        assert lost < log_loss(fresh_y, scaling.predict_proba(fresh_logits)) + 0.005
        fallen += not calibrator.is_local_
    assert fallen >= 10


# --- Files -------------------------------------------------------------------------------------


WAYS = [
    {},
    {"scale": "diagonal", "n_slots": "auto", "n_codewords": 3},
    {"codebook": "shared", "n_slots": 3},
    {"base": "quantized_head"},
    {"parameterization": "dirichlet", "max_epochs": 2, "published": True},
    {"fallback": True},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_copies_answer_alike(way):
    logits, y, Z = draw()
    names = np.array(["a", "b", "c"])
    calibrator = fit(logits, names[y], Z, **way)
    expected = calibrator.predict_proba(logits, features=Z)
    codes = calibrator.transform(Z)
    text = json.dumps(calibrator.to_dict())
    copies = [
        BaseCalibrator.from_dict(json.loads(text)),
        VQDirichletCalibration.from_dict(json.loads(text)),
        pickle.loads(pickle.dumps(calibrator)),
        clone(calibrator).fit(logits, names[y], features=Z),
    ]
    for copy in copies:
        assert_array_equal(copy.predict_proba(logits, features=Z), expected)
        assert_array_equal(copy.predict(logits, features=Z), names[expected.argmax(axis=1)])
        assert_array_equal(copy.transform(Z), codes)
        assert copy.settings_ == calibrator.settings_
        assert copy.get_params() == calibrator.get_params()
    assert json.dumps(copies[0].to_dict()) == text
    assert not hasattr(clone(calibrator), "loss_")
