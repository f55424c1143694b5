"""Rows held out of training: folds, calibration, base rates, groups and the order of time."""

import copy
import io
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight
from skorch.callbacks import Callback
from torch import nn

from skcal import CalibratedClassifier, NeSCalClassifier, NeSCalMLP
from skcal.calibration import StructuredMatrixScaling, TemperatureScaling
from skcal.neural import Dropout, NetClassifier


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


N = 150


def table(n=N, seed=0):
    """Rows whose last number tells their position, and labels of three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = np.arange(n) / 64  # exact in float32
    proba = softmax(2 * X[:, :2] @ np.array([[1.0, -1.0, 0.3], [0.2, 0.7, -0.9]]), axis=1)
    return X, np.array([rng.choice(3, p=row) for row in proba])


X, Y = table()
FAST = {"max_epochs": 3, "batch_size": 32, "lr": 0.02, "random_state": 0}


class Net(nn.Module):
    """A user's module, with dropout that prediction has to switch off."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_inputs, 6), nn.Tanh(), Dropout(0.5))
        self.head = nn.Linear(6, n_classes)

    def forward(self, X):
        return self.head(self.body(X))


def mlp(**params):
    return NeSCalMLP(**FAST | {"hidden_sizes": (8,), "n_members": 2, "smoothing": 0} | params)


def net(**params):
    return NetClassifier(Net, **FAST | params)


def positions(rows):
    return (rows.X[:, 3].double().numpy() * 64).astype(int)


def answer(network, rows):
    """Return a network's probabilities of encoded rows, by hand."""
    with torch.no_grad():
        return softmax(network.eval()(torch.as_tensor(rows)).double().numpy(), axis=1)


class Watch(Callback):
    """Keeps which rows each training trains on, and which it holds out."""

    def __init__(self):
        self.trained_, self.held_out_ = [], []

    def on_train_begin(self, net, X=None, **kwargs):
        self.trained_.append(positions(X))
        self.held_out_.append(None if X.valid is None else positions(X.valid))


class Keep(BaseEstimator):
    """A calibrator that changes nothing, and remembers what it was fitted on."""

    fitted_on = []  # noqa: RUF012

    def fit(self, scores, y, sample_weight=None, classes=None):
        type(self).fitted_on.append((scores, y, sample_weight, classes))
        return self

    def predict_proba(self, scores):
        return scores


@pytest.fixture
def seen():
    Keep.fitted_on.clear()
    return Keep.fitted_on


# --- Folds --------------------------------------------------------------------------------


def test_every_row_is_held_out_of_one_fold():
    watch = Watch()
    net(n_folds=3, callbacks=[watch]).fit(X, Y)
    assert sorted(np.concatenate(watch.held_out_)) == list(range(N))
    for trained, held_out in zip(watch.trained_, watch.held_out_, strict=True):
        assert sorted(np.concatenate([trained, held_out])) == list(range(N))
        assert np.bincount(Y[held_out]) == pytest.approx(np.bincount(Y) / 3, abs=1)


def test_the_answer_is_the_mean_probability_of_the_folds():
    model = mlp(n_folds=3).fit(X, Y)
    rows = model.encoder_.transform(X)
    by_fold = [answer(network, rows) for network in model.module_.networks]
    assert len(by_fold) == 3
    assert model.predict_proba(X) == pytest.approx(np.mean(by_fold, axis=0), abs=1e-6)
    assert np.abs(by_fold[0] - by_fold[1]).max() > 0.01
    assert (model.predict(X) == np.mean(by_fold, axis=0).argmax(axis=1)).all()
    assert model.embed(X).shape == (N, 3 * 8)


def test_each_fold_is_stopped_on_its_own_rows():
    watch = Watch()
    model = net(n_folds=3, max_epochs=12, lr=0.3, callbacks=[watch]).fit(X, Y)
    assert len(model.fold_histories_) == 3
    assert model.fold_histories_[-1].to_list() == model.history_.to_list()
    assert model.n_iter_ == len(model.history_)
    for network, rows, history in zip(
        model.module_.networks, watch.held_out_, model.fold_histories_, strict=True
    ):
        loss = log_loss(Y[rows], answer(network, X[rows].astype(np.float32)))
        assert loss == pytest.approx(min(history[:, "valid_loss"]), abs=1e-5)


def test_one_fold_is_none():
    model = net(n_folds=1).fit(X, Y)
    assert model.fold_histories_ == []
    assert isinstance(model.module_, Net)


def test_folds_keep_groups_together():
    watch, groups = Watch(), np.arange(N) // 5
    net(n_folds=3, callbacks=[watch]).fit(X, Y, groups=groups.astype(str))
    for trained, held_out in zip(watch.trained_, watch.held_out_, strict=True):
        assert not set(groups[trained]) & set(groups[held_out])
    assert sorted(np.concatenate(watch.held_out_)) == list(range(N))


@pytest.mark.parametrize(
    ("params", "fit_params", "words"),
    [
        ({"refit": True}, {}, "refit=True"),
        ({}, {"X_val": X[:30], "y_val": Y[:30]}, "X_val and y_val"),
        ({"warm_start": True}, {}, "warm_start=True"),
        ({"early_stopping": False}, {}, "early_stopping=False"),
        ({"validation_split": "last"}, {}, "validation_split='last'"),
        ({"preset": "strong", "n_folds": "auto", "refit": True}, {}, "n_folds=5.*refit=True"),
        ({"predict_nonlinearity": torch.sigmoid}, {}, "n_folds=2 .*predict_nonlinearity"),
    ],
)
def test_what_does_not_go_with_folds(params, fit_params, words):
    with pytest.raises(ValueError, match=words):
        mlp(**{"n_folds": 2} | params).fit(X, Y, **fit_params)


def test_training_does_not_go_on_with_folds():
    model = mlp(n_folds=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"partial_fit goes on with one network.*n_folds=1"):
        model.partial_fit(X, Y)
    assert model.predict_proba(X).shape == (N, 3)  # nothing is lost
    with pytest.raises(ValueError, match="warm_start=True goes on with one network"):
        model.set_params(n_folds=1, warm_start=True).fit(X, Y)


@pytest.mark.parametrize("copier", [pickle, copy, joblib], ids=lambda m: m.__name__)
def test_copies_of_folds_answer_the_same(copier):
    model = mlp(n_folds=2, calibrate=True, class_weight="balanced", prior_correction=True)
    model.fit(X, Y)
    if copier is copy:
        copied = copy.deepcopy(model)
    else:
        file = io.BytesIO()
        copier.dump(model, file)
        file.seek(0)
        copied = copier.load(file)
    assert (copied.predict_proba(X) == model.predict_proba(X)).all()
    assert (copied.embed(X) == model.embed(X)).all()
    again = clone(model)
    assert not hasattr(again, "module_")
    assert (again.fit(X, Y).predict_proba(X) == model.predict_proba(X)).all()


def test_saved_parameters_of_folds_can_be_loaded():
    model, other = (mlp(n_folds=2, random_state=seed).fit(X, Y) for seed in (0, 1))
    assert (other.predict_proba(X) != model.predict_proba(X)).any()
    file = io.BytesIO()
    model.save_params(f_params=file)
    file.seek(0)
    other.load_params(f_params=file)
    assert (other.predict_proba(X) == model.predict_proba(X)).all()


def test_the_same_seed_gives_the_same_bits_in_threads():
    def fit(seed):
        params = {"n_folds": 2, "calibrate": "sms", "smoothing": 1.0, "random_state": seed}
        return mlp(**params).fit(X, Y).predict_proba(X)

    expected = [fit(seed) for seed in (0, 1)]
    assert (expected[0] != expected[1]).any()
    with ThreadPoolExecutor(4) as pool:
        for seed, proba in zip((0, 1, 0, 1), pool.map(fit, (0, 1, 0, 1)), strict=True):
            assert (proba == expected[seed]).all()


def test_rows_of_weight_zero_are_in_no_fold():
    weight = np.where(np.arange(N) < 20, 0.0, 1.0 + Y)
    model = net(n_folds=2, calibrate=True).fit(X, Y, sample_weight=weight)
    removed = net(n_folds=2, calibrate=True).fit(X[20:], Y[20:], sample_weight=weight[20:])
    assert (model.predict_proba(X) == removed.predict_proba(X)).all()


# --- Calibration in fit -------------------------------------------------------------------


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("kind", [net, mlp])
def test_the_calibrator_sees_the_rows_held_out(kind, early_stopping, seen):
    watch = Watch() if kind is net else None
    params = {"early_stopping": early_stopping, "max_epochs": 15, "lr": 0.2}
    model = kind(calibrate=Keep(), callbacks=[watch] if watch else None, **params).fit(X, Y)
    [(scores, y, weight, classes)] = seen
    assert len(scores) == 23  # 15 % of 150, rounded up
    assert classes.tolist() == [0, 1, 2]
    assert weight == pytest.approx(1)
    if early_stopping:
        assert model.best_epoch_ < model.n_iter_  # weights had to be restored
    if watch is not None:
        [rows], [trained] = watch.held_out_, watch.trained_
        assert sorted([*rows, *trained]) == list(range(N))
        assert (y == Y[rows]).all()
        assert scores == pytest.approx(model.predict_proba(X[rows]), abs=1e-6)
        assert scores == pytest.approx(answer(model.module_, X[rows].astype(np.float32)), abs=1e-6)


def test_validation_rows_of_ones_own_calibrate(seen):
    X_val, y_val = table(40, seed=3)
    weight = 1.0 + np.arange(40) % 4
    model = net(calibrate=Keep()).fit(X, Y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    [(scores, y, weights, _)] = seen
    assert scores == pytest.approx(model.predict_proba(X_val), abs=1e-6)
    assert (y == y_val).all()
    assert weights == pytest.approx(weight / weight.mean(), rel=1e-6)


def test_with_folds_every_row_calibrates_out_of_fold(seen):
    watch = Watch()
    model = net(n_folds=3, calibrate=Keep(), callbacks=[watch]).fit(X, Y)
    [(scores, y, _, _)] = seen
    rows = np.concatenate(watch.held_out_)
    assert (y == Y[rows]).all()
    expected = [
        answer(network, X[part].astype(np.float32))
        for network, part in zip(model.module_.networks, watch.held_out_, strict=True)
    ]
    assert scores == pytest.approx(np.concatenate(expected), abs=1e-6)


def test_the_map_of_the_first_network_serves_the_refitted_one(seen):
    first = net().fit(X, Y)
    watch = Watch()
    model = net(refit=True, calibrate=Keep(), callbacks=[watch]).fit(X, Y)
    [(scores, _, _, _)] = seen
    assert scores == pytest.approx(first.predict_proba(X[watch.held_out_[0]]), abs=1e-6)
    assert len(watch.trained_[1]) == N
    assert watch.held_out_[1] is None
    refitted = net(refit=True).fit(X, Y).predict_proba(X)
    assert model.predict_proba(X) == pytest.approx(refitted, abs=1e-6)
    assert np.abs(refitted - first.predict_proba(X)).max() > 0.01


@pytest.mark.parametrize("n_folds", [1, 2])
def test_temperatures_are_those_of_the_calibrator_alone(n_folds):
    watch = Watch()
    params = {"n_folds": n_folds, "max_epochs": 8, "lr": 0.2}
    weight = 1.0 + Y
    model = net(calibrate=True, callbacks=[watch], class_weight="balanced", **params)
    model.fit(X, Y, sample_weight=weight)
    networks = model.module_.networks if n_folds > 1 else [model.module_]
    logits = np.concatenate(
        [
            network(torch.from_numpy(X[rows].astype(np.float32))).detach().double().numpy()
            for network, rows in zip(networks, watch.held_out_, strict=True)
        ]
    )
    balance = compute_class_weight("balanced", classes=np.arange(3), y=Y, sample_weight=weight)
    logits -= np.log(balance)  # class weights are divided out first
    rows = np.concatenate(watch.held_out_)
    counts = weight[rows] / weight[rows].mean()  # of the rows as they came
    expected = TemperatureScaling(input="logits").fit(logits, Y[rows], counts)
    assert model.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-4)
    raw = clone(model).set_params(calibrate=False, prior_correction=True)
    raw.fit(X, Y, sample_weight=weight)
    z = raw.predict_logits(X) / model.calibrator_.temperature_
    assert model.predict_proba(X) == pytest.approx(softmax(z, axis=1), abs=1e-6)


def test_true_is_temperature_scaling_and_instances_are_copied():
    ours = TemperatureScaling()
    fitted = [mlp(calibrate=c).fit(X, Y) for c in (True, "temperature", ours)]
    for model in fitted[1:]:
        assert (model.predict_proba(X) == fitted[0].predict_proba(X)).all()
    assert not hasattr(ours, "temperature_")
    assert ours.input == TemperatureScaling().input
    assert fitted[2].calibrator_ is not ours
    assert mlp().fit(X, Y).calibrator_ is None
    assert isinstance(mlp(calibrate="sms").fit(X, Y).calibrator_, StructuredMatrixScaling)


@pytest.mark.parametrize(
    ("calibrate", "error", "words"),
    [
        ("temprature", ValueError, "'calibrate' parameter .*'temperature'"),
        (None, ValueError, "'calibrate' parameter"),
        (TemperatureScaling, TypeError, "name or an instance"),
    ],
)
def test_what_is_no_calibrator(calibrate, error, words):
    model = mlp(calibrate=calibrate)
    with pytest.raises(error, match=words):
        model.fit(X, Y)
    assert not hasattr(model, "module_")


def test_a_nonlinearity_of_ones_own_would_not_be_calibrated():
    for params in ({"calibrate": True}, {"prior_correction": True}):
        model = net(predict_nonlinearity=torch.sigmoid, **params)
        with pytest.raises(ValueError, match="nonlinearity of your own"):
            model.fit(X, Y)
        with pytest.raises(ValueError, match="nonlinearity of your own"):
            model.partial_fit(X, Y)


@pytest.mark.parametrize("calibrate", [True, "sms", "isotonic"])
def test_weights_of_one_are_no_weights(calibrate):
    plain = net(calibrate=calibrate).fit(X, Y).predict_proba(X)
    ones = net(calibrate=calibrate).fit(X, Y, sample_weight=np.ones(N)).predict_proba(X)
    assert (ones == plain).all()
    some = net(calibrate=calibrate).fit(X, Y, sample_weight=1.0 + Y).predict_proba(X)
    small = net(calibrate=calibrate).fit(X, Y, sample_weight=1e-9 * (1.0 + Y)).predict_proba(X)
    assert small == pytest.approx(some, abs=1e-4)
    assert np.abs(some - plain).max() > 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_folds", [1, 2])
def test_probabilities_and_logits_agree(dtype, n_folds):
    for params in (
        {"calibrate": True},
        {"calibrate": "isotonic"},
        {"class_weight": {1: 9.0}, "prior_correction": True},
        {},
    ):
        model = mlp(dtype=dtype, n_folds=n_folds, **params).fit(X, Y)
        proba, logits = model.predict_proba(X), model.predict_logits(X)
        assert proba.dtype == dtype
        assert logits.dtype == np.float64
        assert np.isfinite(logits).all()
        assert softmax(logits, axis=1) == pytest.approx(proba, abs=1e-6)
        assert proba.sum(axis=1) == pytest.approx(1, abs=1e-6)


def test_calibration_is_dropped_when_training_goes_on():
    model = net(calibrate=True).fit(X, Y).partial_fit(X, Y)
    assert model.calibrator_ is None
    assert model.predict_proba(X) == pytest.approx(answer(model.module_, X.astype(np.float32)))


def test_a_calibrated_network_can_be_calibrated_again():
    for params in ({"calibrate": True}, {"n_folds": 2, "calibrate": True}):
        outer = CalibratedClassifier(mlp(**params), cv=2).fit(X, Y)
        assert outer.predict_proba(X).sum(axis=1) == pytest.approx(1, abs=1e-6)
        inner = outer.calibrated_classifiers_[0]
        assert inner.source == "predict_logits"
        logits = inner.estimator.predict_logits(X)
        expected = np.mean(
            [
                pair.calibrator.predict_proba(pair.estimator.predict_logits(X))
                for pair in outer.calibrated_classifiers_
            ],
            axis=0,
        )
        assert logits.shape == (N, 3)
        assert outer.predict_proba(X) == pytest.approx(expected, abs=1e-6)
    with (
        pytest.warns(UserWarning, match="validation_fold=True"),
        pytest.raises(ValueError, match=r"n_folds=2.*X_val and y_val"),
    ):
        CalibratedClassifier(mlp(n_folds=2), cv=2, validation_fold=True).fit(X, Y)


# --- Base rates ---------------------------------------------------------------------------


def rare(n=4000):
    rng = np.random.default_rng(1)
    y = (rng.permutation(n) < n // 50).astype(int)  # 2 % positives
    return rng.normal(size=(n, 3)) + y[:, None] * [1.5, 0.5, 0.0], y


@pytest.mark.parametrize(
    "params",
    [
        {"prior_correction": True},
        {"prior_correction": True, "calibrate": True},
        {"calibrate": "sigmoid"},
        {"prior_correction": True, "calibrate": True, "n_folds": 2},
    ],
    ids=["prior", "prior and temperature", "sigmoid", "folds"],
)
def test_balanced_weights_leave_the_base_rate(params):
    data, y = rare()
    model = mlp(class_weight="balanced", max_epochs=8, n_members=1, batch_size=256, **params)
    mean = model.fit(data, y).predict_proba(data)[:, 1].mean()
    assert mean == pytest.approx(0.02, abs=0.005)
    raw = mlp(class_weight="balanced", max_epochs=2, n_members=1, batch_size=256).fit(data, y)
    assert raw.predict_proba(data)[:, 1].mean() > 0.1


class Flat(nn.Module):
    """Says the same of every row: the logits given."""

    def __init__(self, logits):
        super().__init__()
        self.head = nn.Linear(1, len(logits), bias=False)
        self.logits = torch.tensor(logits)

    def forward(self, X):
        return self.logits + 0 * self.head(X[:, :1])


def test_even_odds_under_balanced_weights_are_the_base_rates():
    y = np.repeat([0, 1], [90, 10])
    params = {"class_weight": "balanced", "prior_correction": True, "early_stopping": False}
    model = NetClassifier(Flat([0.0, 0.0]), **params, random_state=0).fit(X[:100], y)
    assert model.predict_proba(X[:2]) == pytest.approx(np.array([[0.9, 0.1]] * 2), abs=1e-6)
    odds = NetClassifier(Flat([0.0, np.log(3.0)]), **params, random_state=0).fit(X[:100], y)
    # Three to one under weights of 1/1.8 and 5 is three to nine.
    assert odds.predict_proba(X[:2]) == pytest.approx(np.array([[0.75, 0.25]] * 2), abs=1e-6)


@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"]), np.array([4, 5, 6])])
@pytest.mark.parametrize("class_weight", ["balanced", "dict", "part"])
@pytest.mark.parametrize("n_folds", [1, 2])
def test_probabilities_are_divided_by_the_class_weights(labels, class_weight, n_folds):
    weight = 1.0 + np.arange(N) % 3
    names = labels.tolist()
    if class_weight == "balanced":
        counts = np.bincount(Y, weights=weight)
        factors = counts.sum() / (3 * counts)
    else:
        factors = np.array([0.5, 8.0, 1.0 if class_weight == "part" else 3.0])
        class_weight = dict(zip(names, factors.tolist(), strict=True))
        if factors[2] == 1:
            del class_weight[names[2]]  # classes that are not named count as they are
    model = net(class_weight=class_weight, n_folds=n_folds).fit(X, labels[Y], sample_weight=weight)
    weighted = model.predict_proba(X).astype(float)
    corrected = clone(model).set_params(prior_correction=True).fit(X, labels[Y], weight)
    expected = weighted / factors
    expected /= expected.sum(axis=1, keepdims=True)
    assert corrected.predict_proba(X) == pytest.approx(expected, abs=1e-6)
    assert np.abs(expected - weighted).max() > 0.02


def test_without_class_weights_there_is_nothing_to_correct():
    plain = net().fit(X, Y).predict_proba(X)
    assert net(prior_correction=True).fit(X, Y).predict_proba(X) == pytest.approx(plain, abs=1e-7)


def test_calibration_comes_after_the_correction(seen):
    params = {"class_weight": {1: 9.0}, "prior_correction": True}
    corrected = net(**params).fit(X, Y)
    watch = Watch()
    net(**params, calibrate=Keep(), callbacks=[watch]).fit(X, Y)
    [(scores, _, weights, _)] = seen
    assert scores == pytest.approx(corrected.predict_proba(X[watch.held_out_[0]]), abs=1e-6)
    assert weights == pytest.approx(1, rel=1e-5)


def test_batches_without_a_class_keep_the_correction():
    factors = {0: 1.0, 1: 9.0}
    model = net(class_weight=factors, prior_correction=True)
    model.partial_fit(X[Y < 2], Y[Y < 2], classes=[0, 1, 2]).partial_fit(X[Y != 1], Y[Y != 1])
    weighted = answer(model.module_, X.astype(np.float32))
    expected = weighted / [1.0, 9.0, 1.0]
    expected /= expected.sum(axis=1, keepdims=True)
    assert model.predict_proba(X) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("class_weight", "params", "words"),
    [
        ({0: 0.0, 1: 1.0, 2: 1.0}, {"prior_correction": True}, "that of 0 is 0"),
        ({0: 0.0, 1: 1.0, 2: 1.0}, {"calibrate": True}, "that of 0 is 0"),
        ({0: -1.0}, {}, "not negative"),
        ({0: np.nan}, {}, "finite"),
        ({0: np.inf}, {}, "finite"),
    ],
)
def test_class_weights_that_mean_nothing(class_weight, params, words):
    model = mlp(class_weight=class_weight, **params)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    assert not hasattr(model, "module_")


def test_a_class_of_weight_zero_is_left_out():
    model = mlp(class_weight={0: 0.0}).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.predict_proba(X).shape == (N, 3)


# --- Order of time, and groups -----------------------------------------------------------


def test_the_last_rows_are_held_out():
    watch = Watch()
    net(validation_split="last", validation_fraction=0.2, callbacks=[watch]).fit(X, Y)
    assert watch.held_out_[0].tolist() == list(range(120, 150))
    assert sorted(watch.trained_[0]) == list(range(120))


def test_whole_groups_are_held_out():
    watch, groups = Watch(), np.random.default_rng(0).integers(0, 20, N)
    net(callbacks=[watch]).fit(X, Y, groups=groups)
    [held_out], [trained] = watch.held_out_, watch.trained_
    assert set(groups[held_out]) & set(groups[trained]) == set()
    assert len(held_out) == pytest.approx(0.15 * N, abs=8)
    last = Watch()
    net(validation_split="last", callbacks=[last]).fit(X, Y, groups=np.arange(N) // 10)
    # 23 rows are the last two groups, and three rows of one that begins before them.
    assert last.held_out_[0].tolist() == list(range(130, 150))
    with pytest.raises(ValueError, match="inconsistent"):
        net().fit(X, Y, groups=groups[:-1])


def test_groups_are_routed_through_searches_and_pipelines():
    groups = np.arange(N) // 5
    with config_context(enable_metadata_routing=True):
        model = net().set_fit_request(groups=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("net", model)])
        search = GridSearchCV(pipeline, {"net__lr": [0.02]}, cv=GroupKFold(2))
        search.fit(X, Y, groups=groups)
        pipeline.fit(X, Y, groups=groups)
    scaled = StandardScaler().fit_transform(X)
    direct = net().fit(scaled, Y, groups=groups).predict_proba(scaled)
    for outer in (search, pipeline):
        assert outer.predict_proba(X) == pytest.approx(direct, abs=1e-6)
    without = net().fit(scaled, Y).predict_proba(scaled)
    assert np.abs(without - direct).max() > 1e-3


def test_a_users_own_module_with_everything():
    params = {"n_folds": 2, "calibrate": "sms", "ema_decay": 0.9, "smoothing": 1.0}
    extra = {"class_weight": "balanced", "prior_correction": True, "lr_schedule": "plateau"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NeSCalClassifier(Net, **FAST | params | extra, max_grad_norm=1.0).fit(X, Y)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert log_loss(Y, model.predict_proba(X)) < log_loss(Y, np.tile(np.bincount(Y) / N, (N, 1)))
    assert all(isinstance(network, Net) for network in model.module_.networks)
    assert model.graph_homophily_.share > 0
    assert model.embed(X).shape == (N, 12)
