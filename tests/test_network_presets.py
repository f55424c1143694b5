"""Presets, automatic sizes and devices, fits that fail, and odd tables."""

import copy
import io
import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted
from skorch.callbacks import Callback, EarlyStopping
from skorch.exceptions import DeviceWarning
from torch import nn

from skcal import CalibratedClassifier, NeSCalMLP
from skcal.neural import NetClassifier, TabularNet
from skcal.neural._fold_ensemble import FoldEnsemble


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(n, seed=0):
    """Rows of four numbers, and labels of three classes drawn from two of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    proba = softmax(2 * X[:, :2] @ np.array([[1.0, -1.0, 0.3], [0.2, 0.7, -0.9]]), axis=1)
    return X, np.array([rng.choice(3, p=row) for row in proba])


X, Y = table(120)
FAST = {"hidden_sizes": (8,), "n_members": 2, "max_epochs": 3, "batch_size": 32, "lr": 0.02}


def mlp(**params):
    return NeSCalMLP(**FAST | {"smoothing": 0, "random_state": 0} | params)


# --- Presets ------------------------------------------------------------------------------


def settled(model):
    """Return what a fitted estimator was trained with, read off its parts."""
    folds = model.module_.networks if isinstance(model.module_, FoldEnsemble) else [model.module_]
    [patience] = [c.patience for _, c in model.callbacks_ if isinstance(c, EarlyStopping)]
    layers = [part for name, part in folds[0].body.named_children() if hasattr(part, "weight")]
    return {
        "n_members": folds[0].n_members,
        "hidden_sizes": tuple(layer.weight.shape[0] for layer in layers),
        "piecewise": "numbers.linear0.weight" in dict(folds[0].named_parameters()),
        "lr": model.optimizer_.param_groups[0]["lr"],
        "n_iter_no_change": patience,
        "n_folds": len(folds),
        "calibrate": type(model.calibrator_).__name__,
    }


COMMON = {"piecewise": True, "n_iter_no_change": 12}
PRESETS = {
    "default": {
        "n_members": 8,
        "hidden_sizes": (128, 128),
        "lr": 4e-3,
        "n_folds": 1,
        "calibrate": "NoneType",
    },
    "fast": {
        "n_members": 1,
        "hidden_sizes": (256, 256),
        "lr": 1e-3,
        "n_folds": 1,
        "calibrate": "NoneType",
    },
    "strong": {
        "n_members": 8,
        "hidden_sizes": (128, 128),
        "lr": 4e-3,
        "n_folds": 5,
        "calibrate": "TemperatureScaling",
    },
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_what_is_documented(preset):
    model = NeSCalMLP(preset=preset, max_epochs=1, random_state=0).fit(X, Y)
    assert settled(model) == PRESETS[preset] | COMMON
    # The table in the notes says the same.
    columns = dict(zip(PRESETS, (1, 2, 3), strict=True))
    for name, value in PRESETS[preset].items():
        row = re.search(rf"^ +{name}  +(\S.*)$", NeSCalMLP.__doc__, re.MULTILINE)
        cell = re.split(r" {2,}", f"{name}  {row[1].strip()}")[columns[preset]]
        if name == "calibrate":
            assert (cell == "True") == (value == "TemperatureScaling")
        elif name == "lr":
            assert float(cell) == value
        else:
            assert cell == str(value)


def test_parameters_given_win_over_the_preset():
    given = {"n_members": 3, "hidden_sizes": (4,), "lr": 0.5, "n_iter_no_change": 2, "n_folds": 2}
    model = NeSCalMLP(preset="strong", num_embedding=None, calibrate=False, max_epochs=1, **given)
    expected = given | {"piecewise": False, "calibrate": "NoneType"}
    assert settled(model.set_params(random_state=0).fit(X, Y)) == expected


def test_presets_stay_in_the_parameters():
    model = NeSCalMLP(preset="fast", max_epochs=1, random_state=0).fit(X, Y)
    assert repr(model) == "NeSCalMLP(max_epochs=1, preset='fast', random_state=0)"
    params = model.get_params()
    assert all(params[name] == "auto" for name in ("lr", "n_members", "n_folds", "batch_size"))
    again = clone(model).set_params(preset="default").fit(X, Y)
    assert settled(again) == PRESETS["default"] | COMMON
    assert settled(again.set_params(preset="fast").fit(X, Y)) == PRESETS["fast"] | COMMON


def test_unknown_presets_are_refused():
    with pytest.raises(ValueError, match=r"'preset' parameter .*'strong'"):
        NeSCalMLP(preset="stronger").fit(X, Y)


# By hand: the power of two nearest to n / 48 in its logarithm, 20,000,000 / n epochs.
SIZES = [
    (100, 128, 200),
    (8_600, 128, 200),  # 179.2 is below 128 times the root of two
    (8_800, 256, 200),
    (24_000, 512, 200),
    (60_000, 1_024, 200),
    (100_000, 1_024, 200),
    (400_000, 1_024, 50),
    (5_000_000, 1_024, 10),
]


@pytest.mark.parametrize(("n", "batch_size", "max_epochs"), SIZES)
def test_batches_and_epochs_follow_the_number_of_rows(n, batch_size, max_epochs):
    model = NeSCalMLP()
    model.classes_inferred_ = np.arange(2)
    model._settle(range(n))
    assert (model._value("batch_size"), model._value("max_epochs")) == (batch_size, max_epochs)
    model.set_params(batch_size=7, max_epochs=9)
    assert (model._value("batch_size"), model._value("max_epochs")) == (7, 9)


def test_automatic_sizes_are_trained_with():
    data, y = table(9_000)
    model = NeSCalMLP(**FAST | {"batch_size": "auto", "max_epochs": 1}, random_state=0).fit(data, y)
    assert model.history_[0, "train_batch_count"] == math.ceil(7_650 / 256)
    small = mlp(max_epochs="auto", n_iter_no_change=300, lr=1e-30, lr_schedule="cosine")
    assert small.fit(X[:40], Y[:40]).n_iter_ == 200
    assert small.history_[100, "event_lr"] == pytest.approx(0.5e-30)  # half of the way


@pytest.mark.parametrize("sizes", [np.array([8, 4]), [8, 4], (np.int64(8), 4)])
def test_hidden_sizes_of_any_kind(sizes):
    model = mlp(hidden_sizes=sizes).fit(X, Y)
    assert (model.predict_proba(X) == mlp(hidden_sizes=(8, 4)).fit(X, Y).predict_proba(X)).all()


@pytest.mark.parametrize("sizes", [(True,), (8.0,), (0,), np.array([8, 0])])
def test_hidden_sizes_that_are_none(sizes):
    with pytest.raises(ValueError, match="hidden_sizes must hold whole numbers"):
        mlp(hidden_sizes=sizes).fit(X, Y)


# --- Devices ------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is cuda here")
def test_an_automatic_device_is_the_cpu_where_there_is_no_other():
    model = mlp(device="auto").fit(X, Y)
    assert {p.device.type for p in model.module_.parameters()} == {"cpu"}
    assert model.device == "cpu"
    file = io.BytesIO()
    pickle.dump(model, file)
    copies = (clone(model), copy.deepcopy(model), pickle.loads(file.getvalue()), model)
    for each in copies:
        assert each.get_params()["device"] == "auto"
        assert "device='auto'" in repr(each)
        assert each.device == "cpu"
    expected = mlp().fit(X, Y).predict_proba(X)
    for each in copies[1:]:
        assert (each.predict_proba(X) == expected).all()
    assert mlp().set_params(device="auto").get_params()["device"] == "auto"
    assert model.set_params(device="cpu").get_params()["device"] == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="nothing is missing here")
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_pickle_of_another_device_loads_here(device, monkeypatch):
    model = mlp().fit(X, Y)
    expected = model.predict_proba(X)
    model.set_params(device=device)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        pickled = pickle.dumps(model)
    if device == "auto":
        loaded = pickle.loads(pickled)
        assert loaded.get_params()["device"] == "auto"
    else:
        # A device that was asked for by name is missed.
        with pytest.warns(DeviceWarning, match=r"not available|no CUDA devices"):
            loaded = pickle.loads(pickled)
    assert str(loaded.device) == "cpu"
    assert (loaded.predict_proba(X) == expected).all()


# --- Fits that fail -----------------------------------------------------------------------


class Fails(BaseEstimator):
    """A calibrator that cannot be fitted."""

    error = RuntimeError

    def fit(self, scores, y, sample_weight=None, classes=None):
        raise self.error("no calibration")

    def predict_proba(self, scores):
        return scores


class Interrupted(Fails):
    """A calibrator whose fit the user cannot wait for."""

    error = KeyboardInterrupt


class SecondFold(Callback):
    """Fails when the second network is trained."""

    def on_train_begin(self, net, **kwargs):
        if len(net.fold_histories_) == 1:
            raise RuntimeError("second fold")


FAILURES = {
    "label": ({}, {"X_val": X, "y_val": Y + 5}, ValueError),
    "columns": ({}, {"X_val": X[:, :3], "y_val": Y}, ValueError),
    "half": ({}, {"X_val": X}, ValueError),
    "diverges": ({"lr": 1e9}, {}, ValueError),
    "diverges in a fold": ({"lr": 1e9, "n_folds": 2}, {}, ValueError),
    "diverges before": ({"lr": 1e9, "calibrate": True, "ema_decay": 0.9}, {}, ValueError),
    "second fold": ({"n_folds": 3, "callbacks": [SecondFold()]}, {}, RuntimeError),
    "calibrator": ({"calibrate": Fails()}, {}, RuntimeError),
    "calibrator of folds": ({"calibrate": Fails(), "n_folds": 2}, {}, RuntimeError),
    "interrupt": ({"calibrate": Interrupted()}, {}, KeyboardInterrupt),
}


@pytest.mark.parametrize(("params", "fit_params", "error"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("before", [False, True])
def test_a_fit_that_fails_leaves_no_model(params, fit_params, error, before):
    model = mlp(smoothing=1.0, warmup=0)
    if before:  # an earlier network goes with it
        model.set_params(n_folds=2, calibrate=True).fit(X, Y)
        model.set_params(n_folds="auto", calibrate="preset")
    model.set_params(**params)
    with pytest.raises(error):
        model.fit(X, Y, **fit_params)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    left = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert left <= {"prefixes_", "cuda_dependent_attributes_", "init_context_"}
    assert not any(hasattr(model, name) for name in ("_average", "_smoother"))
    again = {"lr": 0.02, "n_folds": "auto", "calibrate": "preset", "ema_decay": 0.99}
    model.set_params(**again, callbacks=None).fit(X, Y)
    expected = mlp(smoothing=1.0, warmup=0).fit(X, Y)
    assert (model.predict_proba(X) == expected.predict_proba(X)).all()


# --- Odd tables ---------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"n_folds": 2, "calibrate": "sms"}, {"calibrate": True}])
def test_more_classes_than_a_batch_has_rows(params):
    y = np.arange(150).repeat(6)
    data = np.random.default_rng(0).normal(size=(900, 4))
    model = mlp(max_epochs=2, batch_size=64, **params)
    if "calibrate" in params and "n_folds" not in params:
        model.set_params(stopping_score="scaled_log_loss")
    proba = model.fit(data, y).predict_proba(data)
    assert proba.shape == (900, 150)
    assert np.isfinite(proba).all()
    assert proba.sum(axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("calibrate", [True, "sms", "isotonic", "dirichlet"])
@pytest.mark.parametrize("n_folds", [1, 2])
def test_a_class_that_is_never_held_out(calibrate, n_folds):
    y = np.where(np.arange(120) == 7, 3, Y)
    model = mlp(calibrate=calibrate, n_folds=n_folds).fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (120, 4)
    assert np.isfinite(proba).all()
    assert proba.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_batch_larger_than_a_fold():
    params = {"n_folds": 2, "calibrate": True, "batch_size": 256, "ema_decay": 0.9}
    assert mlp(**params).fit(X[:20], Y[:20]).predict_proba(X).shape == (120, 3)


def test_duplicates_fold_and_calibrate():
    few, y = X[:12], np.arange(12) % 3
    data, labels = np.tile(few, (20, 1)), np.tile(y, 20)
    params = {"n_folds": 3, "calibrate": True, "smoothing": 1.0, "n_neighbors": 5, "max_epochs": 30}
    assert (mlp(**params).fit(data, labels).predict(few) == y).all()


def test_a_class_without_weight_keeps_its_column_through_folds_and_calibration():
    weight = (Y != 1).astype(float)
    for params in ({"n_folds": 2}, {"n_folds": 2, "calibrate": True}, {"calibrate": True}):
        model = mlp(lr=0.05, max_epochs=30, **params).fit(X, Y, sample_weight=weight)
        proba = model.predict_proba(X)
        assert proba.shape == (120, 3)
        assert proba[:, 1].mean() < 0.1
    with pytest.raises(ValueError, match="zero"):
        mlp(n_folds=2).fit(X, Y, sample_weight=np.zeros(120))
    with pytest.raises(ValueError, match="egative"):
        mlp(calibrate=True).fit(X, Y, sample_weight=-np.ones(120))


def test_weights_of_a_frozen_network_go_to_the_calibrator_alone():
    weight = 1 + Y
    frozen = FrozenEstimator(mlp().fit(X, Y))
    weighted = CalibratedClassifier(frozen, "sigmoid").fit(X, Y, sample_weight=weight)
    repeated = CalibratedClassifier(frozen, "sigmoid").fit(X.repeat(weight, 0), Y.repeat(weight))
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X), abs=1e-6)
    plain = CalibratedClassifier(frozen, "sigmoid").fit(X, Y).predict_proba(X)
    assert np.abs(weighted.predict_proba(X) - plain).max() > 0.01


def test_a_frame_goes_through_the_wrapper_to_the_embeddings():
    levels = np.array(["x", "y", "z"])[Y]
    frame = pd.DataFrame({"a": X[:, 0], "level": pd.Categorical(levels), "few": X[:, 1] > 0})
    model = CalibratedClassifier(mlp(n_folds=2, calibrate=True, max_epochs=20), cv=2).fit(frame, Y)
    inner = model.calibrated_classifiers_[0].estimator
    assert inner.feature_names_in_.tolist() == ["a", "level", "few"]
    assert isinstance(inner.module_.networks[0], TabularNet)
    assert model.score(frame, Y) > 0.95
    again = model.predict_proba(frame.astype({"level": object}))
    assert (again == model.predict_proba(frame)).all()


def test_one_row_is_answered_as_among_others():
    model = mlp(n_folds=2, calibrate=True, class_weight="balanced", prior_correction=True)
    proba = model.fit(X, Y).predict_proba(X)
    one_by_one = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(5)])
    assert one_by_one == pytest.approx(proba[:5], abs=1e-6)


class Gained(nn.Module):
    """A linear map with a factor."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.head = nn.Linear(n_inputs, n_classes)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, X):
        return self.gain * self.head(X)


def test_a_linear_module_folds_and_embeds():
    params = {"n_folds": 2, "calibrate": True, "ema_decay": 0.5, "max_epochs": 3}
    model = NetClassifier(Gained, **params, random_state=0).fit(X, Y)
    assert model.embed(X) == pytest.approx(np.hstack([X, X]), abs=1e-6)
    assert {g["weight_decay"] for g in model.optimizer_.param_groups} == {0.01, 0.0}


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "params", "members", "width"),
    [
        (5_000, 11, {}, 4, 256),
        (5_000, 10, {}, 8, 128),
        (4_999, 11, {}, 8, 128),
        (5_000, 11, {"n_members": 2, "hidden_sizes": (8,)}, 2, 8),
        (5_000, 11, {"preset": "fast"}, 1, 256),
    ],
)
def test_many_classes_on_many_rows_get_fewer_and_wider_members(
    n_rows, n_classes, params, members, width
):
    rows = np.random.default_rng(0).normal(size=(n_rows, 2))
    model = NeSCalMLP(max_epochs=1, random_state=0, **params)
    model.fit(rows, np.arange(n_rows) % n_classes)
    assert model.module_.n_members == members
    assert model.embed(rows[:2]).shape == (2, width)
