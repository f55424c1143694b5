"""What all local calibrators share: features beside scores, and the temperature behind them."""

import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from skcal.calibration import (
    AutoCalibration,
    KernelCalibration,
    LocalCalibrationNetwork,
    LocalCalibrator,
    LocalTemperatureScaling,
    MultiCalibration,
    OneVsRestCalibration,
    ProximityCalibration,
    TemperatureScaling,
    VQDirichletCalibration,
)
from skcal.calibration._local import base
from skcal.testing import calibrator_checks, check_calibrator


class SignShift(LocalCalibrator):
    """A user's own local map: shift the classes by what each sign of the first column lacks."""

    def _fit_local(self, log_proba, codes, weights, features):
        k = log_proba.shape[1]
        self.shifts_ = np.zeros((2, k))
        for sign in (0, 1):
            inside = (features[:, 0] > 0) == sign
            share = np.bincount(codes[inside], weights[inside], minlength=k) + 1
            said = weights[inside] @ np.exp(log_proba[inside]) + 1
            self.shifts_[sign] = np.log(share / said)

    def _transform_local(self, log_proba, features):
        return log_proba + self.shifts_[(features[:, 0] > 0).astype(int)]


class Recorder(SignShift):
    """The same, which tells what it was given."""

    seen: list = []  # noqa: RUF012

    def _fit_local(self, log_proba, codes, weights, features):
        self.seen.append((log_proba, codes, weights, features))
        super()._fit_local(log_proba, codes, weights, features)


def draw(n=300, k=3, seed=0, *, local=False):
    """Return probabilities, labels and features; with a local error the sign of one shifts."""
    rng = np.random.default_rng(seed)
    logits, Z = 1.5 * rng.normal(size=(n, k)), rng.normal(size=(n, 2))
    true = logits + local * 2.0 * (Z[:, :1] > 0) * (np.arange(k) == 0)
    y = (softmax(true, axis=1).cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    return softmax(logits, axis=1), y.clip(max=k - 1), Z


def vq(**parameters):
    return VQDirichletCalibration(
        **{"n_slots": 2, "n_codewords": 2, "random_state": 0, **parameters}
    )


@pytest.fixture(params=[SignShift, vq], ids=["own", "vq"])
def make(request):
    return request.param


# --- Features ----------------------------------------------------------------------------------


def test_features_are_asked_for(make):
    proba, y, Z = draw()
    words = r"needs to know where each row lies: pass features=.*CalibratedClassifier"
    with pytest.raises(ValueError, match=words):
        make().fit(proba, y)
    fitted = make().fit(proba, y, features=Z)
    for method in (fitted.predict_proba, fitted.predict):
        with pytest.raises(ValueError, match=words):
            method(proba)


def replaced(Z, value):
    Z = Z.copy()
    Z[17, 1] = value
    return Z


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda Z: Z[:-1], r"there are 299 rows of features and 300 of scores"),
        (lambda Z: replaced(Z, np.nan), "TabularEncoder makes such columns.*contains NaN"),
        (lambda Z: replaced(Z, np.inf), "finite numbers.*contains infinity"),
        (lambda Z: Z[:, 0], r"shape \(n_samples, n_columns\).*got 1D array"),
        (lambda Z: Z[:, :, None], r"dim 3"),
        (lambda Z: Z[:, :0], r"0 feature"),
        (lambda Z: np.full(Z.shape, "a"), "TabularEncoder .* of texts.*convert"),
        (lambda Z: pd.DataFrame({"a": ["x"] * len(Z)}), "TabularEncoder .* of texts.*convert"),
    ],
)
def test_features_are_refused_in_plain_words(make, spoil, words):
    proba, y, Z = draw()
    with pytest.raises(ValueError, match=rf"(?s){words}"):
        make().fit(proba, y, features=spoil(Z))
    fitted = make().fit(proba, y, features=Z)
    with pytest.raises(ValueError, match=rf"(?s){words}|fitted on 2 columns"):
        fitted.predict_proba(proba, features=spoil(Z))


def test_sparse_features_are_refused(make):
    proba, y, Z = draw()
    with pytest.raises(TypeError, match="toarray"):
        make().fit(proba, y, features=sparse.csr_matrix(Z))


@pytest.mark.parametrize("columns", [1, 3])
def test_the_number_of_feature_columns_is_enforced(make, columns):
    proba, y, Z = draw()
    fitted = make().fit(proba, y, features=Z)
    assert fitted.n_columns_ == 2
    other = np.ones((300, columns))
    with pytest.raises(ValueError, match=f"fitted on 2 columns of features; these have {columns}"):
        fitted.predict_proba(proba, features=other)
    if isinstance(fitted, VQDirichletCalibration):
        with pytest.raises(ValueError, match=f"these have {columns}"):
            fitted.transform(other)


def test_named_columns_keep_their_order(make):
    proba, y, Z = draw()
    frame = pd.DataFrame(Z, columns=["north", "east"])
    fitted = make(fallback=False).fit(proba, y, features=frame)
    expected = fitted.predict_proba(proba, features=Z)  # an array has no names to compare
    assert_array_equal(fitted.predict_proba(proba, features=frame), expected)
    back = type(fitted).from_dict(json.loads(json.dumps(fitted.to_dict())))
    for one in (fitted, back):
        for other in (frame[["east", "north"]], frame.rename(columns={"north": "south"})):
            with pytest.raises(ValueError, match="column 0 is 'north'; in these it is"):
                one.predict_proba(proba, features=other)
    fitted.fit(proba, y, features=Z)  # which knows of no names any more
    fitted.predict_proba(proba, features=frame[["east", "north"]])
    fitted.fit(proba, y, features=pd.DataFrame(Z))  # numbers are no names
    fitted.predict_proba(proba, features=frame)


def test_features_too_large_to_square_are_refused(make):
    proba, y, Z = draw()
    with pytest.raises(ValueError, match=r"at most 1e\+150.*column 1 holds 1e\+300"):
        make().fit(proba, y, features=replaced(Z, -1e300))
    fitted = make(fallback=False).fit(proba, y, features=replaced(Z, 1e150))
    assert np.isfinite(fitted.predict_proba(proba, features=replaced(Z, 1e300))).all()
    fitted = make(fallback=False).fit(proba, y, features=Z / 1e5)
    near, far = (fitted.predict_proba(proba, features=replaced(Z, v)) for v in (1e9, 1e307))
    assert_array_equal(near, far)


def test_containers_of_features(make):
    proba, y, Z = draw(local=True)
    expected = make().fit(proba, y, features=Z)
    assert expected.is_local_
    answer = expected.predict_proba(proba, features=Z)
    containers = [
        Z.tolist(),
        pd.DataFrame(Z, index=range(300, 0, -1), columns=["a", "b"]),
        np.asfortranarray(Z),
    ]
    torch = pytest.importorskip("torch")
    containers += [torch.tensor(Z), torch.tensor(Z, requires_grad=True)]
    for features in containers:
        fitted = make().fit(proba, y, features=features)
        assert_array_equal(fitted.predict_proba(proba, features=features), answer)
        assert_array_equal(fitted.predict(proba, features=features), answer.argmax(axis=1))


def test_features_are_left_alone(make):
    proba, y, Z = draw(local=True)
    kept = Z.copy()
    Z.flags.writeable = False
    make().fit(proba, y, features=Z).predict_proba(proba, features=Z)
    assert_array_equal(Z, kept)


def test_rows_of_weight_zero_are_dropped_with_their_features(make):
    proba, y, Z = draw(local=True)
    weights = np.r_[np.ones(200), np.zeros(100)]
    some = slice(0, 200)
    expected = make().fit(proba[some], y[some], features=Z[some])
    strange = np.vstack([Z[some], 1e6 * Z[200:]])
    fitted = make().fit(proba, y, weights, features=strange)
    for name, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(fitted, name), value)
    assert_array_equal(
        fitted.predict_proba(proba, features=Z), expected.predict_proba(proba, features=Z)
    )


def test_a_map_is_given_scaled_rows_in_the_order_of_their_features():
    proba, y, Z = draw()
    Recorder.seen.clear()
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    fitted = Recorder(fallback=False).fit(proba, y, weights, features=Z)
    ((log_proba, codes, w, features),) = Recorder.seen
    scaling = TemperatureScaling().fit(proba, y, weights)
    assert fitted.temperature_ == pytest.approx(scaling.temperature_, rel=1e-12)
    assert_allclose(np.exp(log_proba), scaling.predict_proba(proba), rtol=1e-9)
    assert_array_equal(codes, y)
    assert_array_equal(w, weights)
    assert_array_equal(features, Z)


def test_scores_are_refused_as_elsewhere(make):
    proba, y, Z = draw()
    with pytest.raises(ValueError, match="no rows or no columns"):
        make().fit(proba[:0], y, features=Z)
    with pytest.raises(ValueError, match="must sum to 1; row 0"):
        make().fit(proba / 2, y, features=Z)
    with pytest.raises(ValueError, match="inconsistent"):
        make().fit(proba, y[1:], features=Z)
    for copy in (make(), clone(make().fit(proba, y, features=Z))):
        for method in (copy.predict_proba, copy.predict):
            with pytest.raises(NotFittedError):
                method(proba, features=Z)


def test_a_failed_fit_leaves_no_map_behind(make):
    proba, y, Z = draw()
    fitted = make().fit(proba, y, features=Z)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(proba, y, features=replaced(Z, np.nan))
    with pytest.raises(NotFittedError):
        fitted.predict_proba(proba, features=Z)


def test_a_second_fit_forgets_the_first(make):
    proba, y, Z = draw(local=True)
    other, other_y, other_Z = draw(400, 4, seed=1)
    twice = make().fit(proba, y, features=Z)
    assert twice.is_local_
    twice.fit(other, other_y, features=other_Z)
    once = make().fit(other, other_y, features=other_Z)
    assert not once.is_local_
    assert vars(twice).keys() == vars(once).keys()
    twice.set_params(fallback=False).fit(proba, y, features=Z)
    assert not hasattr(twice, "cv_results_")


def test_maps_of_scores_alone_have_no_features_to_give():
    proba, y, _ = draw()
    for calibrator in (AutoCalibration([vq()]), OneVsRestCalibration(vq())):
        with pytest.raises(TypeError, match="VQDirichletCalibration needs features beside"):
            calibrator.fit(proba, y)


# --- The fallback ------------------------------------------------------------------------------


def test_a_local_error_is_corrected_and_none_is_left_to_the_temperature():
    for local in (True, False):
        proba, y, Z = draw(2000, local=local)
        fresh, fresh_y, fresh_Z = draw(4000, seed=1, local=local)
        fitted = SignShift().fit(proba, y, features=Z)
        one = TemperatureScaling().fit(proba, y).predict_proba(fresh)
        answer = fitted.predict_proba(fresh, features=fresh_Z)
        rows = np.arange(4000), fresh_y
        assert fitted.is_local_ is local
        if local:
            assert np.log(answer[rows]).mean() > np.log(one[rows]).mean() + 0.02
            assert fitted.reason_.endswith(").")
            assert "below that of temperature scaling" in fitted.reason_
        else:
            assert_allclose(answer, one, rtol=1e-9)
            assert fitted.reason_.endswith("fell back on temperature scaling.")
            assert not hasattr(fitted, "shifts_")


@pytest.mark.parametrize(
    "calibrator",
    [
        VQDirichletCalibration(),
        VQDirichletCalibration(2, 2, base="quantized_head"),
        VQDirichletCalibration(2, 2, parameterization="dirichlet", max_epochs=5),
        LocalTemperatureScaling(),
        LocalCalibrationNetwork(max_epochs=10),
        KernelCalibration(n_steps=100),
        KernelCalibration(projection=None, base="kernel"),
        ProximityCalibration(),
        ProximityCalibration("bin_mean_shift"),
        MultiCalibration(max_rounds=5),
    ],
    ids=str,
)
@pytest.mark.parametrize("k", [2, 3])
def test_no_map_is_worse_than_the_temperature_where_no_region_is_off(calibrator, k):
    (proba, y, Z), (fresh, fresh_y, fresh_Z) = draw(600, k), draw(4000, k, seed=1)
    fitted = clone(calibrator).set_params(random_state=0).fit(proba, y, features=Z)
    one = TemperatureScaling().fit(proba, y).predict_proba(fresh)
    lost = log_loss(fresh_y, fitted.predict_proba(fresh, features=fresh_Z))
    assert lost < log_loss(fresh_y, one) + 0.005
    assert fitted.is_local_ or "fell back on temperature scaling" in fitted.reason_


class Constant(LocalCalibrator):
    """Shift class 0 by a number."""

    def __init__(
        self, shift=0.0, *, fallback=True, cv=3, random_state=None, input="proba", eps="auto"
    ):
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.shift = shift

    def _fit_local(self, log_proba, codes, weights, features):
        pass

    def _transform_local(self, log_proba, features):
        return log_proba + self.shift * (np.arange(log_proba.shape[1]) == 0)


def by_hand(proba, y, weights, shift, folds):
    """Return the mean gain and its standard error, from the definition."""
    gains = np.empty(len(y))
    for fold in np.unique(folds):
        out, rest = folds == fold, folds != fold
        scaling = TemperatureScaling().fit(proba[rest], y[rest], weights[rest])
        before = np.log(scaling.predict_proba(proba[out]))
        after = log_softmax(before + shift * np.array([1, 0, 0]), axis=1)
        gains[out] = (after - before)[np.arange(out.sum()), y[out]]
    mean = np.average(gains, weights=weights)
    variance = np.average((gains - mean) ** 2, weights=weights)
    return mean, np.sqrt(variance / weights.sum())


@pytest.mark.parametrize("shift", [-0.5, -0.02, 0.02, 0.1, 0.3, 0.6])
def test_the_rule_is_one_standard_error(shift):
    proba, y, Z = draw(1000, seed=3)
    # Class 0 is somewhat rarer in the scores than in the labels.
    proba = proba * [0.8, 1, 1] / (proba @ [0.8, 1, 1])[:, None]
    weights = np.random.default_rng(0).uniform(0.5, 2, 1000)
    fitted = Constant(shift).fit(proba, y, weights, features=Z)
    folds = base.deal_folds(np.log(proba), y, 3)
    mean, error = by_hand(proba, y, weights, shift, folds)
    assert fitted.cv_results_["gain"][0] == pytest.approx(mean, abs=1e-9)
    assert fitted.is_local_ is bool(mean > error)
    words = f"{abs(mean):.4f} nats {'below' if mean > 0 else 'above'} .*error {error:.4f}"
    assert re.search(words, fitted.reason_)


class Constants(Constant):
    """The best of several shifts."""

    def _candidates(self, features, n_classes):
        return [{"shift": self.shift * part} for part in (1.0, 0.9, 0.8, 0.7)]

    def _transform_local(self, log_proba, features):
        return log_proba + self.settings_["shift"] * (np.arange(log_proba.shape[1]) == 0)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_four_needs_more_than_one_standard_error(seed):
    proba, y, Z = draw(1000, seed=seed)
    # Class 0 is somewhat rarer in the scores than in the labels.
    proba = proba * [0.8, 1, 1] / (proba @ [0.8, 1, 1])[:, None]
    weights = np.ones(1000)
    fitted = Constants(0.2).fit(proba, y, weights, features=Z)
    folds = base.deal_folds(np.log(proba), y, 3)
    gains = [by_hand(proba, y, weights, 0.2 * part, folds) for part in (1.0, 0.9, 0.8, 0.7)]
    mean, error = max(gains)
    # A quarter of the chance that one standard error leaves to a single setting.
    assert fitted.is_local_ is bool(mean > 1.7543 * error)


def test_the_threshold_of_several_settings():
    assert base.clear_gain(0.5, 1) == pytest.approx(0.5)
    chance = [1 - NormalDist().cdf(base.clear_gain(1.0, n)) for n in (1, 2, 8)]
    assert chance == pytest.approx([0.158655, 0.158655 / 2, 0.158655 / 8], abs=1e-6)


def test_without_a_choice_nothing_is_compared():
    proba, y, Z = draw()
    fitted = SignShift(fallback=False).fit(proba, y, features=Z)
    assert fitted.is_local_
    assert "not compared" in fitted.reason_
    assert fitted.settings_ == {}
    assert not hasattr(fitted, "cv_results_")


@pytest.mark.parametrize("fallback", [True, False])
def test_many_rows_are_compared_by_a_sample(monkeypatch, fallback):
    monkeypatch.setattr(base, "_MOST_ROWS", 200)
    proba, y, Z = draw(1000, local=True)
    Recorder.seen.clear()
    Recorder(fallback=True, random_state=0).fit(proba, y, features=Z)
    sizes = [len(codes) for _, codes, _, _ in Recorder.seen]
    assert len(sizes) == 4
    assert sum(sizes[:3]) == 2 * 200  # each row in two of three fits
    assert sizes[3] == 1000
    drawn = np.unique(np.concatenate([features for *_, features in Recorder.seen[:3]]), axis=0)
    assert len(drawn) == 200
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in Z}
    calibrator = vq(n_codewords="auto", fallback=fallback).fit(proba, y, features=Z)
    assert len(calibrator.cv_results_["gain"]) == len(calibrator.cv_results_["settings"]) > 1


def test_the_limit_is_what_the_documentation_says():
    assert base._MOST_ROWS == 20_000
    assert "20,000" in LocalCalibrator.__doc__


# --- Chance ------------------------------------------------------------------------------------


def test_a_seed_repeats_the_map():
    proba, y, Z = draw(local=True)
    answers = [
        vq(n_codewords=5, random_state=seed, fallback=False)
        .fit(proba, y, features=Z)
        .predict_proba(proba, features=Z)
        for seed in (0, 0, 1, np.random.RandomState(0))
    ]
    assert_array_equal(answers[1], answers[0])
    assert_array_equal(answers[3], answers[0])
    assert (answers[2] != answers[0]).any()


def test_a_seed_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    vq().fit(*draw()[:2], features=draw()[2])
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_threads_do_not_disturb_each_other(make):
    proba, y, Z = draw(local=True)

    def work(_):
        return make().fit(proba, y, features=Z).predict_proba(proba, features=Z)

    expected = work(0)
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(work, range(12)):
            assert_array_equal(answer, expected)


# --- Few rows, and labels of all kinds ---------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "way",
    [
        {},
        {"fallback": False},
        {"parameterization": "dirichlet", "max_epochs": 2},
        {"parameterization": "dirichlet", "max_epochs": 2, "fallback": False},
        {"base": "quantized_head"},
        {"base": "quantized_head", "fallback": False},
        {"n_slots": "auto", "n_codewords": "auto"},
        {"n_slots": "auto", "n_codewords": "auto", "fallback": False},
    ],
    ids=str,
)
def test_a_handful_of_rows(n, way):
    proba, y, Z = draw(20)
    calibrator = vq().set_params(**way)
    calibrator.fit(proba[:n], y[:n], features=Z[:n], classes=[0, 1, 2])
    answer = calibrator.predict_proba(proba, features=Z)
    assert np.isfinite(answer).all()
    assert (answer > 0).all()
    assert_allclose(answer.sum(axis=1), 1, atol=1e-12)
    if n == 1 and calibrator.fallback:
        assert not calibrator.is_local_


@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_own_map_of_a_handful_of_rows(n):
    proba, y, Z = draw(20)
    for fallback in (True, False):
        fitted = SignShift(fallback=fallback).fit(
            proba[:n], y[:n], features=Z[:n], classes=[0, 1, 2]
        )
        assert np.isfinite(fitted.predict_proba(proba, features=Z)).all()


@pytest.mark.parametrize(
    "names", [["x", "y", "z"], [-7, 0, 3], [1.0, 2.0, 10.0], [True, False]], ids=str
)
def test_labels_of_any_kind(make, names):
    proba, codes, Z = draw(k=len(names), local=True)
    names = np.sort(names)
    fitted = make().fit(proba, names[codes], features=Z)
    plain = make().fit(proba, codes, features=Z)
    assert_array_equal(fitted.classes_, names)
    answer = fitted.predict_proba(proba, features=Z)
    assert_array_equal(answer, plain.predict_proba(proba, features=Z))
    assert_array_equal(fitted.predict(proba, features=Z), names[answer.argmax(axis=1)])


def test_a_single_column_of_scores(make):
    proba, y, Z = draw(k=2, local=True)
    expected = make().fit(proba, y, features=Z).predict_proba(proba, features=Z)
    fitted = make().fit(proba[:, 1], y, features=Z)
    assert_allclose(fitted.predict_proba(proba[:, 1], features=Z), expected, atol=1e-9)


def test_classes_without_rows_keep_their_columns(make):
    proba, y, Z = draw()
    keep = y != 1
    fitted = make(fallback=False).fit(proba[keep], y[keep], features=Z[keep], classes=[0, 1, 2])
    answer = fitted.predict_proba(proba, features=Z)
    assert_array_equal(fitted.classes_, [0, 1, 2])
    assert (answer > 0).all()
    assert_allclose(answer.sum(axis=1), 1, atol=1e-12)


# --- A map of one's own ------------------------------------------------------------------------


def test_a_users_own_subclass_passes_the_suite():
    results = check_calibrator(SignShift(fallback=False))
    assert {result["status"] for result in results} == {"passed"}


class Favours(SignShift):
    def _transform_local(self, log_proba, features):
        return super()._transform_local(log_proba, features) + np.eye(log_proba.shape[1])[0]


class Relative(SignShift):
    def _transform_local(self, log_proba, features):
        return super()._transform_local(log_proba, features - features.mean(axis=0))


@pytest.mark.parametrize(
    ("faulty", "name"),
    [
        (Favours, "check_permuted_classes"),
        (Relative, "check_answers_do_not_depend_on_the_batch"),
    ],
)
def test_the_suite_catches_faults_of_local_maps(faulty, name):
    check = {check.__name__: check for check in calibrator_checks()}[name]
    check(SignShift(fallback=False))
    with pytest.raises(AssertionError):
        check(faulty(fallback=False))


def test_pickles_and_json_of_an_own_map():
    proba, y, Z = draw(local=True)
    fitted = SignShift().fit(proba, y, features=Z)
    expected = fitted.predict_proba(proba, features=Z)
    for copy in (
        pickle.loads(pickle.dumps(fitted)),
        SignShift.from_dict(fitted.to_dict()),
    ):
        assert type(copy) is SignShift
        assert_array_equal(copy.predict_proba(proba, features=Z), expected)
