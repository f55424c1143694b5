"""What the neural estimators promise, beyond scikit-learn's own checks."""

import contextlib
import copy
import gc
import io
import math
import os
import pickle
import subprocess
import sys
import time
import types
from itertools import combinations
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.validation import check_is_fitted
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, LRScheduler
from torch import nn
from torch.optim.lr_scheduler import StepLR

from skcal import NeighborhoodSmoothing, NeSCalClassifier, NeSCalMLP
from skcal.neural import MLP, Dropout, NetClassifier, _honest_net, nescal
from skcal.neural._embedding import embed_rows
from skcal.neural._rows import Batches, Rows
from skcal.neural._splits import hold_out


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(n, seed=0, n_classes=3):
    """Rows of four numbers, and labels drawn from a linear model of two of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    slopes = np.random.default_rng(1).normal(size=(2, n_classes))
    proba = softmax(2 * X[:, :2] @ slopes, axis=1)
    return X, np.array([rng.choice(n_classes, p=row) for row in proba])


X, Y = table(120)
X_VAL, Y_VAL = table(60, seed=7)
LONG = {"max_epochs": 40, "lr": 0.3}
FAST = {"hidden_sizes": (8,), "max_epochs": 5, "batch_size": 32, "lr": 0.01, "random_state": 0}
PLAIN = {"n_members": 1, "num_embedding": None, "ema_decay": 0.0}
ALL_ROWS = PLAIN | {
    "early_stopping": False,
    "dropout": 0.0,
    "batch_size": -1,
    "dtype": "float64",
}


def mlp(**params):
    return NeSCalMLP(**FAST | params)


def same_weights(a, b):
    ours, theirs = a.module_.state_dict(), b.module_.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


class Net(nn.Module):
    """A module that asks for its sizes."""

    def __init__(self, n_inputs, n_classes, width=6):
        super().__init__()
        self.head = nn.Linear(width, n_classes)  # defined before the layer that runs before it
        self.body = nn.Sequential(nn.Linear(n_inputs, width), nn.ReLU())
        self.idle = nn.Linear(2, 2)

    def features(self, X):
        return 2 * self.body(X)

    def forward(self, X):
        return self.head(self.body(X))


def net(module=Net, **params):
    params = {k: v for k, v in FAST.items() if k != "hidden_sizes"} | params
    return NeSCalClassifier(module, **params)


@pytest.fixture
def graphs(monkeypatch):
    """Record the embeddings and the logits from which graphs are built."""
    calls, update = [], NeighborhoodSmoothing.update_graph

    def spy(self, embeddings, logits=None):
        calls.append((embeddings, logits))
        return update(self, embeddings, logits)

    monkeypatch.setattr(NeighborhoodSmoothing, "update_graph", spy)
    return calls


# --- Plain training, and the controls ---------------------------------------------------


@pytest.mark.parametrize(
    "params", [{"smoothing": 0}, {"warmup": 1.0}, {"warmup": 5}, {"smoothing": 0.0, "refit": True}]
)
def test_without_smoothing_it_is_cross_entropy_bit_for_bit(params):
    shared = {k: v for k, v in FAST.items() if k != "hidden_sizes"} | {"module__hidden_sizes": (8,)}
    refit = params.get("refit", False)
    plain = NetClassifier(**shared, refit=refit).fit(X, Y)
    smoothed = NeSCalClassifier(**shared | params).fit(X, Y)
    assert same_weights(smoothed, plain)
    assert smoothed.history_[:, "train_loss"] == plain.history_[:, "train_loss"]
    assert smoothed.graph_homophily_ is None
    assert not same_weights(NeSCalClassifier(**shared, refit=refit).fit(X, Y), plain)


def test_control_graphs_train_other_networks():
    fitted = [
        mlp(graph=graph, warmup=10, max_epochs=20, early_stopping=False).fit(X, Y)
        for graph in ("knn", "random", "permuted", "self")
    ]
    for a, b in combinations(fitted, 2):
        assert not same_weights(a, b)
    shares = [model.graph_homophily_.share for model in fitted]
    chance = fitted[0].graph_homophily_.chance
    assert shares[0] > chance + 0.07
    assert shares[1:3] == pytest.approx([chance, chance], abs=0.06)
    assert shares[3] == 1


def test_published_form():
    params = NeSCalMLP.published().get_params(deep=False)
    form = {"target": "each", "cache_decay": 0.0, "refresh": None, "graph": "knn"}
    form |= {"smoothing": 1.0, "warmup": 0.2, "schedule": "constant", "embedding": "penultimate"}
    assert params == NeSCalMLP().get_params(deep=False) | form
    overridden = NeSCalMLP.published(target="mean", lr=0.5).get_params(deep=False)
    assert overridden == params | {"target": "mean", "lr": 0.5}
    published = NeSCalClassifier.published(Net, module__width=3)
    assert isinstance(published, NeSCalClassifier)
    assert published.module is Net
    assert published.target == "each"


# --- Every parameter does something -----------------------------------------------------


def probabilities(model):
    return model.fit(X, Y).predict_proba(X).tolist()


def fitted_twice(model):
    return model.fit(X, Y).fit(X, Y).n_iter_


def printed(model):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        model.fit(X, Y)
    return out.getvalue()


def device_or_refusal(model):
    try:
        return next(model.fit(X, Y).module_.parameters()).device.type
    except ValueError:
        return "refused"


def compiled(model):
    with mock.patch("torch.compile", side_effect=lambda module, **_: module) as compiler:
        model.fit(X, Y)
    return compiler.called


def arguments_of_load(model):
    model.fit(X, Y)
    saved = io.BytesIO()
    model.save_params(f_params=saved)
    with mock.patch("torch.load", wraps=torch.load) as load:
        model.load_params(f_params=io.BytesIO(saved.getvalue()))
    return load.call_args.kwargs


class OrderedBatches(Batches):
    """Batches in the order of the rows, whatever is asked for."""

    made = 0

    def __init__(self, dataset, batch_size, shuffle=False, generator=None):
        type(self).made += 1
        super().__init__(dataset, batch_size)


def ordered_batches(model):
    OrderedBatches.made = 0
    model.fit(X, Y)
    return OrderedBatches.made


def squash(logits):
    return torch.sigmoid(logits) / torch.sigmoid(logits).sum(dim=1, keepdim=True)


def jobs_of_folds(model):
    with mock.patch.object(_honest_net, "Parallel", wraps=_honest_net.Parallel) as made:
        model.fit(X, Y)
    return made.call_args


# name: (two values, other parameters, what is observed of the model before its fit)
EFFECTS = [
    ("preset", ("default", "fast"), {}, probabilities),
    ("preset", ("default", "strong"), {}, probabilities),
    ("n_members", (1, 2), {}, probabilities),
    ("n_members", ("auto", 2), {}, probabilities),
    ("num_embedding", (None, "piecewise"), {}, probabilities),
    ("num_embedding", ("piecewise", "piecewise-tree"), {}, probabilities),
    ("num_embedding", ("piecewise", "periodic"), {}, probabilities),
    ("n_bins", (3, 12), {}, probabilities),
    ("d_embedding", (2, 8), {}, probabilities),
    ("weight_decay", (0.0, 1.0), {}, probabilities),
    ("lr_schedule", ("constant", "cosine"), {}, probabilities),
    (
        "lr_schedule",
        ("constant", "plateau"),
        LONG,
        lambda m: m.fit(X, Y).history_[-1].get("event_lr", m.lr),
    ),
    ("ema_decay", (0.0, 0.5), {}, probabilities),
    ("ema_decay", (0.1, 0.05), {}, probabilities),
    ("max_grad_norm", (None, 0.01), {}, probabilities),
    (
        "stopping_score",
        ("log_loss", "scaled_log_loss"),
        PLAIN | {"max_epochs": 40, "lr": 0.03, "dropout": 0.0, "hidden_sizes": (32,)},
        lambda m: m.fit(X, Y).best_epoch_,
    ),
    ("validation_split", ("stratified", "last"), {}, probabilities),
    ("n_folds", (1, 2), {}, probabilities),
    ("n_folds", (2, 3), {}, probabilities),
    ("calibrate", (False, True), {}, probabilities),
    ("calibrate", (True, "vector"), {}, probabilities),
    ("calibrate", ("preset", False), {"preset": "strong"}, probabilities),
    ("prior_correction", (False, True), {"class_weight": "balanced"}, probabilities),
    ("hidden_sizes", ((8,), (8, 8)), {}, probabilities),
    ("hidden_sizes", ((8,), ()), {}, probabilities),
    ("dropout", (0.0, 0.5), {}, probabilities),
    ("smoothing", (0.0, 1.0), {}, probabilities),
    ("smoothing", (1.0, 10.0), {}, probabilities),
    ("n_neighbors", (2, 20), {}, probabilities),
    ("warmup", (0.2, 0.6), {}, probabilities),
    ("warmup", (0, 2), {}, probabilities),
    ("warmup", (1, 1.0), {}, probabilities),  # one epoch, and all of them
    ("schedule", ("constant", "cosine"), {}, probabilities),
    ("target", ("mean", "each"), {}, probabilities),
    ("cache_decay", (0.0, 0.9), {}, probabilities),
    ("refresh", (None, 1), {}, probabilities),
    ("refresh", ("auto", None), {"max_epochs": 8}, probabilities),
    ("graph", ("knn", "random"), {}, probabilities),
    ("graph", ("knn", "permuted"), {}, probabilities),
    ("embedding", ("penultimate", "input"), {}, probabilities),
    ("embedding", ("penultimate", "logits"), {}, probabilities),
    ("reduction", (None, "pca"), {"n_components": 2}, probabilities),
    ("n_components", (1, 4), {"reduction": "pca"}, probabilities),
    ("keep_graph", (False, True), {}, lambda m: hasattr(m.fit(X, Y), "neighborhood_")),
    ("honest_folds", (0, 2), {}, lambda m: m.fit(X, Y).honest_losses_),
    ("honest_folds", (2, 3), {}, lambda m: m.fit(X, Y).honest_losses_),
    ("honest_weight", (0.5, 2.0), {"honest_folds": 2}, lambda m: m.fit(X, Y).honest_losses_),
    ("n_jobs", (None, 1), {"honest_folds": 2}, jobs_of_folds),
    ("loss", ("cross_entropy", nn.MultiMarginLoss), {}, probabilities),
    ("loss", ("cross_entropy", "focal"), {}, probabilities),
    ("loss__gamma", (1.0, 2.0), {"loss": "focal"}, probabilities),
    (
        "loss",
        (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.2)),
        {},
        probabilities,
    ),
    ("loss__label_smoothing", (0.0, 0.2), {}, probabilities),
    ("optimizer", (torch.optim.AdamW, torch.optim.SGD), {}, probabilities),
    ("optimizer__weight_decay", (0.0, 1.0), {}, probabilities),
    ("lr", (0.01, 0.02), {}, probabilities),
    ("max_epochs", (2, 4), {}, lambda m: m.fit(X, Y).n_iter_),
    ("batch_size", (16, -1), {}, probabilities),
    ("early_stopping", (True, False), {}, probabilities),
    ("early_stopping", (True, False), LONG, lambda m: m.fit(X, Y).n_iter_),
    ("validation_fraction", (0.15, 0.4), {}, probabilities),
    ("n_iter_no_change", (1, 4), LONG, lambda m: m.fit(X, Y).n_iter_),
    ("refit", (False, True), {}, probabilities),
    ("encoder", ("auto", MinMaxScaler()), {}, probabilities),
    ("class_weight", (None, "balanced"), {}, probabilities),
    ("class_weight", ("balanced", {0: 5.0}), {}, probabilities),
    ("dtype", ("float32", "float64"), {}, lambda m: m.fit(X, Y).predict_proba(X).dtype),
    ("random_state", (0, 1), {}, probabilities),
    ("callbacks", (None, [LRScheduler(StepLR, step_size=1)]), {}, probabilities),
    ("warm_start", (False, True), {}, fitted_twice),
    ("verbose", (0, 1), {}, printed),
    ("device", ("cpu", "cuda"), {}, device_or_refusal),
    ("iterator_train", (Batches, OrderedBatches), {}, probabilities),
    ("iterator_valid", (Batches, OrderedBatches), {}, ordered_batches),
    ("predict_nonlinearity", ("auto", squash), {}, probabilities),
    ("compile", (False, True), {}, compiled),
    ("torch_load_kwargs", (None, {"weights_only": False}), {}, arguments_of_load),
]


@pytest.mark.parametrize(
    ("name", "values", "others", "observe"),
    EFFECTS,
    ids=[f"{name}-{i}" for i, (name, *_) in enumerate(EFFECTS)],
)
def test_every_parameter_changes_something(name, values, others, observe):
    first, second = (observe(mlp(**others | {name: value})) for value in values)
    assert first != second
    assert observe(mlp(**others | {name: values[0]})) == first


def test_no_parameter_is_left_out_above():
    names = {name for name, *_ in EFFECTS if "__" not in name}
    assert names == set(NeSCalMLP().get_params(deep=False))


@pytest.mark.parametrize(
    "params",
    [
        {"smoothing": -1.0},
        {"n_neighbors": 0},
        {"warmup": 1.5},
        {"warmup": -1},
        {"schedule": "linear"},
        {"target": "median"},
        {"cache_decay": 1.0},
        {"refresh": 0},
        {"graph": "ring"},
        {"reduction": "tsne"},
        {"n_components": 0},
        {"hidden_sizes": 8},
        {"hidden_sizes": (8, 0)},
        {"hidden_sizes": (2.5,)},
        {"dropout": 1.0},
        {"lr": 0.0},
        {"max_epochs": 0},
        {"batch_size": 0},
        {"validation_fraction": 1.0},
        {"n_iter_no_change": 0},
        {"encoder": None},
        {"dtype": "float16"},
        {"predict_nonlinearity": "softmax"},
    ],
    ids=lambda params: next(iter(params)),
)
def test_wrong_values_are_refused_by_name(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        mlp(**params).fit(X, Y)


@pytest.mark.parametrize("name", ["smothing", "module__widht", "optimizer__widht", "train_split"])
def test_misspelt_and_withdrawn_parameters_are_refused(name):
    with pytest.raises((TypeError, ValueError), match=name.split("__")[-1]):
        mlp(**{name: 1}).fit(X, Y)


# --- What training records --------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", ["mean", "each"])
def test_history_holds_the_losses_of_an_independent_computation(target, weighted):
    weight = np.random.default_rng(3).uniform(0.2, 3, size=len(Y)) if weighted else None
    params = ALL_ROWS | {"warmup": 1, "smoothing": 2.0, "n_neighbors": 5, "target": target}
    # The second epoch sees the network as the first one left it, in a single batch.
    before = mlp(max_epochs=1, **params).fit(X, Y, sample_weight=weight)
    model = mlp(max_epochs=2, **params).fit(X, Y, sample_weight=weight)

    proba = before.predict_proba(X)
    search = NearestNeighbors(n_neighbors=5, metric="cosine").fit(before.embed(X))
    neighbors = search.kneighbors(return_distance=False)
    targets = proba[neighbors] if target == "each" else proba[neighbors].mean(1, keepdims=True)
    divergence = [
        np.mean([jensenshannon(p, q) ** 2 for q in qs])
        for p, qs in zip(proba, targets, strict=True)
    ]
    first, second = model.history_
    assert second["criterion"] == pytest.approx(log_loss(Y, proba, sample_weight=weight), abs=1e-12)
    assert second["penalty"] == pytest.approx(np.average(divergence, weights=weight), abs=1e-12)
    assert second["penalty"] > 1e-4
    assert second["train_loss"] == pytest.approx(
        second["criterion"] + 2 * second["penalty"], abs=1e-12
    )
    assert second["smoothing"] == 2.0
    assert math.isnan(first["penalty"])
    assert first["smoothing"] == 0.0
    assert first["train_loss"] == first["criterion"]

    assert model.graph_homophily_.share == pytest.approx((Y[neighbors] == Y[:, None]).mean())
    n_k = np.bincount(Y)
    chance = (n_k * (n_k - 1)).sum() / (len(Y) * (len(Y) - 1))
    assert model.graph_homophily_.chance == pytest.approx(chance)


def test_epoch_means_weigh_the_rows_and_not_the_batches():
    # No step changes anything, so each epoch's mean is that of the untrained network.
    params = PLAIN | {"early_stopping": False, "dropout": 0.0, "smoothing": 0}
    params |= {"lr": 1e-30, "max_epochs": 1}
    weight = np.random.default_rng(0).uniform(0.1, 5, size=len(Y))
    model = mlp(batch_size=50, dtype="float64", **params).fit(X, Y, sample_weight=weight)
    expected = log_loss(Y, model.predict_proba(X), sample_weight=weight)
    assert model.history_[0, "criterion"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_early_stopping_restores_the_epoch_of_the_lowest_log_loss(weighted):
    weight = np.linspace(0.1, 3, len(Y_VAL)) if weighted else None
    model = mlp(max_epochs=80, lr=0.1, n_iter_no_change=3)
    model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, sample_weight_val=weight)
    losses = model.history_[:, "valid_loss"]
    assert model.n_iter_ == len(losses) < 80
    assert model.best_epoch_ == np.argmin(losses) + 1 == model.n_iter_ - 3
    proba = model.predict_proba(X_VAL)
    expected = log_loss(Y_VAL, proba, sample_weight=weight)
    assert losses[model.best_epoch_ - 1] == pytest.approx(expected, abs=1e-5)
    assert losses[-1] > expected + 1e-4
    if not weighted:
        hits = accuracy_score(Y_VAL, proba.argmax(axis=1))
        assert model.history_[model.best_epoch_ - 1, "valid_acc"] == pytest.approx(hits)


@pytest.mark.parametrize("params", [{"loss__label_smoothing": 0.3}, {"loss": nn.MultiMarginLoss}])
def test_validation_measures_the_log_loss_whatever_the_criterion(params):
    model = mlp(**params).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    best = model.history_[model.best_epoch_ - 1, "valid_loss"]
    assert best == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)


def test_best_epoch_is_the_last_when_nothing_is_restored():
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    model = mlp(max_epochs=30, lr=0.1, early_stopping=False).fit(X, Y, **given)
    losses = model.history_[:, "valid_loss"]
    assert np.argmin(losses) < 29
    assert model.best_epoch_ == model.n_iter_ == 30
    assert losses[-1] == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)
    assert mlp(early_stopping=False).fit(X, Y).best_epoch_ == 5


def test_best_epoch_after_a_warm_start_belongs_to_the_present_weights():
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    model = mlp(warm_start=True, max_epochs=20, lr=0.1, n_iter_no_change=2).fit(X, Y, **given)
    n_first = model.n_iter_
    model.fit(X[:40], Y[:40][::-1], **given)  # nonsense: the second round is worse than the first
    assert model.best_epoch_ > n_first
    best = model.history_[model.best_epoch_ - 1, "valid_loss"]
    assert best == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)


def test_refit_trains_on_all_rows_for_the_best_number_of_epochs():
    params = {"max_epochs": 30, "lr": 0.03, "warmup": 2, "n_iter_no_change": 3}
    stopped = mlp(**params).fit(X, Y)
    assert 2 < stopped.best_epoch_ < 27
    refitted = mlp(**params, refit=True).fit(X, Y)
    assert refitted.n_iter_ == refitted.best_epoch_ == stopped.best_epoch_
    whole = mlp(**params | {"max_epochs": stopped.best_epoch_}, early_stopping=False).fit(X, Y)
    assert same_weights(refitted, whole)
    assert not same_weights(refitted, stopped)


def test_rows_given_for_validation_are_never_trained_on(graphs):
    mlp().fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert {len(embeddings) for embeddings, _ in graphs} == {len(X)}
    with pytest.raises(ValueError, match="never trained on"):
        mlp(refit=True).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)


@pytest.mark.parametrize("batch_size", [16, 128])
@pytest.mark.parametrize("how", ["sample_weight", "class_weight"])
def test_a_rare_class_of_great_weight_keeps_it_in_small_batches(batch_size, how):
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(4000, 3)), np.zeros(4000, dtype=int)
    y[:40] = 1
    rng.shuffle(y)
    net = NeSCalMLP(
        smoothing=0,
        dropout=0.0,
        hidden_sizes=(4,),
        early_stopping=False,
        max_epochs=12,
        batch_size=batch_size,
        random_state=0,
        class_weight={1: 99} if how == "class_weight" else None,
    )
    weight = np.where(y == 1, 99.0, 1.0) if how == "sample_weight" else None
    assert net.fit(noise, y, weight).predict_proba(noise)[:, 1].mean() == pytest.approx(
        0.5, abs=0.1
    )


class BatchNormNet(nn.Module):
    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_inputs, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, n_classes)

    def forward(self, X):
        return self.head(self.body(X))


def test_a_last_batch_of_one_row_trains_batch_normalisation():
    rows = np.resize(X, (33, X.shape[1]))
    model = NeSCalClassifier(BatchNormNet, batch_size=16, max_epochs=2, early_stopping=False)
    assert model.fit(rows, np.arange(33) % 3).predict_proba(rows).shape == (33, 3)
    batches = list(
        Batches(Rows(rows), 16, shuffle=True, generator=torch.Generator().manual_seed(0))
    )
    assert [len(y) for _, y in batches] == [16, 17]
    seen = torch.cat([batch["index"] for batch, _ in batches])
    assert sorted(seen.tolist()) == list(range(33))


def test_parameters_set_after_fit_wait_for_the_next_fit():
    model = NeSCalClassifier(BatchNormNet, max_epochs=3, random_state=0).fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(module=None, dtype="float64", criterion__label_smoothing=0.1)
    assert np.array_equal(model.predict_proba(X), before)
    assert model.fit(X, Y).predict_proba(X).dtype == np.float64


def test_embed_is_right_while_other_threads_use_the_same_network():
    model = mlp().fit(X, Y)
    tables = [np.repeat(X[i : i + 1], 3000, axis=0) for i in range(4)]
    alone = [model.embed(table) for table in tables]
    together = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(model.embed)(table) for table in tables * 4
    )
    for i, embedding in enumerate(together):
        np.testing.assert_allclose(embedding, alone[i % 4], atol=1e-6)


def test_a_function_of_ones_own_from_logits_to_probabilities_leaves_no_logits():
    model = mlp(predict_nonlinearity=_tempered).fit(X, Y)
    assert not hasattr(model, "predict_logits")
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-6)


def _tempered(logits):
    return (logits / 2).softmax(dim=-1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"X_val": X_VAL}, "X_val and y_val together"),
        ({"y_val": Y_VAL}, "X_val and y_val together"),
        ({"X_val": X_VAL, "y_val": Y_VAL + 1}, r"Label 3 is not among the classes \[0, 1, 2\]"),
        ({"X_val": X_VAL[:9], "y_val": Y_VAL}, "inconsistent numbers of samples"),
        ({"X_val": X_VAL[:, :3], "y_val": Y_VAL}, "3 features"),
    ],
)
def test_validation_rows_that_cannot_be_used_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        mlp().fit(X, Y, **given)


# --- Graphs: when, on what, and for how long --------------------------------------------


@pytest.mark.parametrize(
    ("refresh", "n_graphs"), [(None, 1), (1, 10), (2, 5), (3, 4), ("auto", 2), (100, 1)]
)
def test_graphs_are_refreshed_as_asked(graphs, refresh, n_graphs):
    mlp(max_epochs=11, warmup=1, early_stopping=False, refresh=refresh).fit(X, Y)
    assert len(graphs) == n_graphs


def test_automatic_refreshes_are_rarer_on_more_rows(graphs, monkeypatch):
    monkeypatch.setattr(nescal, "_ROWS_PER_EPOCH_BETWEEN_GRAPHS", 15)  # 120 rows: every 8 epochs
    mlp(max_epochs=18, warmup=1, early_stopping=False).fit(X, Y)
    assert len(graphs) == 3


def test_the_graph_sees_training_rows_only(graphs):
    mlp(validation_fraction=0.25).fit(X, Y)
    assert {len(embeddings) for embeddings, _ in graphs} == {90}
    assert {len(logits) for _, logits in graphs} == {90}


@pytest.mark.parametrize(("warmup", "n"), [(0, 0), (3, 3), (0.3, 3), (0.0, 0), (0.25, 2), (1, 1)])
def test_warmup_and_cosine_schedule_follow_their_formula(warmup, n):
    model = mlp(
        max_epochs=10, warmup=warmup, schedule="cosine", smoothing=4.0, early_stopping=False
    ).fit(X, Y)
    expected = [0.0] * n
    expected += [2.0 * (1 + math.cos(math.pi * (e - n) / (10 - n))) for e in range(n, 10)]
    assert model.history_[:, "smoothing"] == pytest.approx(expected, abs=1e-12)
    assert expected[n] == 4.0
    assert [math.isnan(penalty) for penalty in model.history_[:, "penalty"]] == [
        e < n for e in range(10)
    ]


def reachable(root):
    """Yield every object that an estimator holds, itself or by way of others."""
    seen, stack = set(), [root]
    skipped = type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, skipped):
            continue
        seen.add(id(thing))
        yield thing
        stack += gc.get_referents(thing)


def tensors_by_row(model, n_rows):
    tensors = [
        thing
        for thing in reachable(pickle.loads(pickle.dumps(model)))
        if isinstance(thing, torch.Tensor | np.ndarray)
    ]
    assert tensors
    return [t for t in tensors if n_rows in tuple(t.shape)]


@pytest.mark.parametrize("target", ["mean", "each"])
def test_a_fitted_estimator_holds_no_rows(target):
    model = mlp(early_stopping=False, target=target).fit(X, Y)
    assert not hasattr(model, "neighborhood_")
    assert not tensors_by_row(model, len(X))
    small = mlp(early_stopping=False, target=target).fit(X[:60], Y[:60])
    assert abs(len(pickle.dumps(model)) - len(pickle.dumps(small))) < 1_000


def test_random_graphs_follow_the_seed():
    graphs = [
        mlp(graph="random", keep_graph=True, random_state=seed).fit(X, Y).neighborhood_.neighbors_
        for seed in (0, 0, 1)
    ]
    assert torch.equal(graphs[0], graphs[1])
    assert not torch.equal(graphs[0], graphs[2])


def test_keep_graph_keeps_it_until_the_next_fit():
    model = mlp(early_stopping=False, keep_graph=True).fit(X, Y)
    assert model.neighborhood_.neighbors_.shape == (len(X), 10)
    assert model.neighborhood_.log_proba_.shape == (len(X), 3)
    assert tensors_by_row(model, len(X))
    share, chance = model.neighborhood_.homophily(torch.as_tensor(Y))
    assert model.graph_homophily_ == (share, chance)
    assert not hasattr(model.set_params(keep_graph=False).fit(X, Y), "neighborhood_")


def test_prediction_costs_one_pass_of_the_module(monkeypatch):
    model = mlp(keep_graph=True).fit(X, Y)

    def forbidden(*args, **kwargs):
        raise AssertionError("prediction touched the smoothing")

    monkeypatch.setattr(NeighborhoodSmoothing, "penalty", forbidden)
    monkeypatch.setattr(NeighborhoodSmoothing, "update_graph", forbidden)
    passes = []
    layers = [part for part in model.module_.modules() if not list(part.children())]
    for part in (model.module_, *layers):
        part.register_forward_hook(lambda part, *_: passes.append(part))
    proba = model.predict_proba(X)
    assert model.module_ in passes
    assert len(passes) == len(set(passes)) > 5  # nothing runs twice
    encoded = torch.from_numpy(model.encoder_.transform(X))
    with torch.no_grad():
        assert np.array_equal(proba, model.module_(encoded).softmax(dim=1).numpy())
    assert not any(isinstance(part, nn.Dropout) for part in layers)


# --- Modules of one's own ---------------------------------------------------------------


class Sizeless(nn.Linear):
    """A module that knows its sizes."""

    def __init__(self):
        super().__init__(4, 3)


class InputsOnly(nn.Linear):
    """A module that asks for one of its two sizes."""

    def __init__(self, n_inputs):
        super().__init__(n_inputs, 3)


@pytest.mark.parametrize("module", [Net, Sizeless, InputsOnly, nn.Linear(4, 3), None])
def test_modules_are_given_the_sizes_they_ask_for(module):
    model = net(module).fit(X, Y)
    assert model.predict_proba(X).shape == (120, 3)
    assert isinstance(model.module_, MLP if module is None else nn.Module)
    assert is_classifier(model)


def test_given_sizes_win():
    class Wide(nn.Linear):
        def __init__(self, n_inputs, n_classes):
            super().__init__(4, n_classes)
            self.n_inputs = n_inputs

    assert net(Wide, module__n_inputs=99).fit(X, Y).module_.n_inputs == 99


def test_an_instance_is_copied_and_never_trained():
    module = Net(4, 3)
    kept = copy.deepcopy(module.state_dict())
    model = net(module).fit(X, Y)
    assert model.module is module
    assert model.module_ is not module
    assert all(torch.equal(kept[k], v) for k, v in module.state_dict().items())
    assert not torch.equal(model.module_.head.weight, module.head.weight)
    assert same_weights(net(module).fit(X, Y), model)  # the next one starts where it started


def test_grid_search_reaches_module_optimizer_and_callbacks():
    grid = {
        "module__width": [3, 5],
        "optimizer__weight_decay": [0.0, 0.5],
        "callbacks__early_stopping__patience": [1, 2],
        "smoothing": [0.0, 3.0],
    }
    search = GridSearchCV(net(max_epochs=2), grid, cv=2, scoring="neg_log_loss", n_jobs=1)
    search.fit(X, Y)
    scores = search.cv_results_["mean_test_score"].reshape(2, 2, 2, 2)  # in order of the names
    assert np.isfinite(scores).all()
    best = search.best_estimator_
    assert best.module_.body[0].out_features == search.best_params_["module__width"]
    patience = dict(best.callbacks_)["early_stopping"].patience
    assert patience == search.best_params_["callbacks__early_stopping__patience"]
    assert len(np.unique(scores.round(9))) == 8  # patience alone cannot matter in two epochs


class Softmax(Net):
    def forward(self, X):
        return super().forward(X).softmax(dim=1)


class SoftmaxInEval(Net):
    def forward(self, X):
        logits = super().forward(X)
        return logits if self.training else logits.softmax(dim=1)


class OneColumn(Net):
    def forward(self, X):
        return super().forward(X)[:, :1]


class Flat(Net):
    def forward(self, X):
        return super().forward(X)[:, 0]


class Pair(Net):
    def forward(self, X):
        return super().forward(X), X


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Softmax, "Remove its softmax layer"),
        (SoftmaxInEval, "Remove its softmax layer"),
        (OneColumn, r"logits of shape \(32, 3\), one column per class; got \(32, 1\)"),
        (Flat, r"got \(32,\)"),
        (Pair, "got tuple"),
    ],
)
def test_modules_that_do_not_return_logits_are_refused(module, words, smoothing):
    model = net(module, smoothing=smoothing)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize("criterion", [nn.NLLLoss, nn.NLLLoss()])
def test_a_criterion_on_log_probabilities_is_refused(criterion):
    with pytest.raises(ValueError, match="NLLLoss expects log-probabilities"):
        mlp(loss=criterion).fit(X, Y)


def test_a_criterion_that_takes_its_own_mean_is_refused():
    class Mean(nn.Module):
        def __init__(self, reduction):
            super().__init__()

        def forward(self, logits, y):
            return nn.functional.cross_entropy(logits, y)

    with pytest.raises(ValueError, match=r"one loss per row, shape \(32,\); got \(\)"):
        mlp(loss=Mean).fit(X, Y)


def test_a_criterion_instance_counts_as_it_was_made_and_is_not_changed():
    criterion = nn.CrossEntropyLoss(label_smoothing=0.2)
    model = mlp(loss=criterion).fit(X, Y)
    assert criterion.reduction == "mean"
    assert same_weights(model, mlp(loss__label_smoothing=0.2).fit(X, Y))


@pytest.mark.parametrize("option", ["fused", "foreach", "differentiable"])
def test_optimizers_take_their_own_options(option):
    plain = mlp(optimizer__fused=False).fit(X, Y).predict_proba(X)
    other = mlp(**{f"optimizer__{option}": option != "differentiable"}).fit(X, Y)
    assert other.predict_proba(X) == pytest.approx(plain, abs=1e-4)


# --- Embeddings -------------------------------------------------------------------------


def test_embeddings_are_read_where_they_are_named():
    module, rows = Net(4, 3), torch.from_numpy(X).float()
    module.train()
    with torch.no_grad():
        body, logits = module.body(rows), module(rows)
    expected = {
        "penultimate": body,  # of the last linear layer that runs, not the last one defined
        "body": body,
        "body.0": module.body[0](rows),
        "features": 2 * body,
        "input": rows,
        "logits": logits,
    }
    for name, value in expected.items():
        embeddings, found = embed_rows(module, rows, name)
        torch.testing.assert_close(embeddings, value, rtol=0, atol=0)
        torch.testing.assert_close(found, logits, rtol=0, atol=0)
    assert module.training
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


@pytest.mark.parametrize("embedding", ["penultimate", "body", "features", "input", "logits"])
def test_graphs_are_built_from_the_embedding_named(graphs, embedding):
    model = net(embedding=embedding, max_epochs=1, warmup=0, early_stopping=False, lr=1e-30)
    model.fit(X, Y)
    expected, _ = embed_rows(model.module_, torch.from_numpy(X).float(), embedding)
    torch.testing.assert_close(graphs[0][0], expected)
    if embedding not in ("input", "logits"):
        assert model.embed(X) == pytest.approx(expected.numpy(), abs=1e-6)


def test_many_rows_are_embedded_in_parts():
    module, rows = Net(4, 3), torch.randn(9_000, 4, generator=torch.Generator().manual_seed(0))
    for name in ("penultimate", "body", "features", "input", "logits"):
        embeddings, _ = embed_rows(module, rows, name)
        whole, _ = embed_rows(module, rows[8_500:], name)
        torch.testing.assert_close(embeddings[8_500:], whole)


class CountsSteps(Net):
    steps = 0

    def forward(self, X):
        type(self).steps += self.training
        return super().forward(X)


class Convolution(nn.Conv1d):
    def __init__(self, n_inputs, n_classes):
        super().__init__(1, n_classes, n_inputs)

    def forward(self, X):
        return super().forward(X.unsqueeze(1))[:, :, 0]


class Recurrent(nn.Module):
    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.rnn = nn.RNN(n_inputs, 5, batch_first=True)
        self.head = nn.Linear(5, n_classes)

    def forward(self, X):
        return self.head(self.rnn(X.unsqueeze(1))[0][:, -1])


@pytest.mark.parametrize(
    ("module", "embedding", "words"),
    [
        (CountsSteps, "bodi", r"'bodi' is neither .* of CountsSteps; its submodules are .*'body'"),
        (CountsSteps, "", "''"),
        (CountsSteps, "idle", "CountsSteps does not run it"),
        (Convolution, "penultimate", "Convolution has no linear layer"),
        (Recurrent, "rnn", "it is a tuple, not a tensor"),
    ],
)
def test_embeddings_that_cannot_be_read_are_refused_before_training(module, embedding, words):
    CountsSteps.steps = 0
    model = net(module, embedding=embedding, warmup=3)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    assert CountsSteps.steps == 0
    net(module, embedding=embedding, smoothing=0).fit(X, Y)  # where nothing is compared


# --- Failures ---------------------------------------------------------------------------


class Explodes(Net):
    def forward(self, X):
        return super().forward(X) * math.inf


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
@pytest.mark.parametrize("params", [{"lr": 1e9}, {"module": Explodes}])
def test_training_that_diverges_leaves_the_estimator_unfitted(params, smoothing):
    model = net(**params, smoothing=smoothing, warmup=0)
    with pytest.raises(ValueError, match=r"loss became (nan|inf) in epoch \d; .* learning rate"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_a_failed_fit_takes_an_earlier_network_with_it():
    model = mlp().fit(X, Y)
    model.set_params(lr=1e9)
    with pytest.raises(ValueError, match="learning rate"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    assert not [name for name in ("module_", "classes_", "history_") if name in vars(model)]
    assert same_weights(model.set_params(lr=0.01).fit(X, Y), mlp().fit(X, Y))


def test_a_torch_dataset_is_refused_with_a_way_out():
    rows = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    with pytest.raises(TypeError, match=r"not a torch Dataset.*np\.stack"):
        mlp().fit(rows)
    with pytest.raises(TypeError, match="torch Dataset"):
        mlp().fit(rows, None)
    model = mlp().fit(np.stack([x for x, _ in rows]), [label for _, label in rows])
    assert same_weights(model, mlp().fit(X, Y))


def test_missing_labels_are_named():
    with pytest.raises(ValueError, match="requires y to be passed"):
        mlp().fit(X, None)


@pytest.mark.parametrize("y", [np.zeros(120, int), np.array(["only"] * 120)])
def test_a_single_class_is_refused(y):
    with pytest.raises(ValueError, match="at least two classes; the data holds one class only"):
        mlp().fit(X, y)
    with pytest.raises(ValueError, match="one class only once rows of weight zero"):
        mlp().fit(X, np.append(y[1:], y.dtype.type(1)), sample_weight=[1.0] * 119 + [0.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_cells_that_are_not_finite(bad):
    spoilt = X.copy()
    spoilt[3, 1] = bad
    if np.isnan(bad):  # the default encoder flags missing cells
        assert np.isfinite(mlp().fit(spoilt, Y).predict_proba(spoilt)).all()
    else:
        with pytest.raises(ValueError, match="infinity"):
            mlp().fit(spoilt, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        net().fit(spoilt, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        net().fit(X, Y).predict_proba(spoilt)


def test_text_for_a_module_of_ones_own_names_the_encoder():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down")})
    with pytest.raises(ValueError, match=r"encoder=TabularEncoder\(\)"):
        net().fit(frame, Y)


# --- Few rows, rare classes, labels -----------------------------------------------------


@pytest.mark.parametrize("y", [[0, 1], [0, 1, 2]])
def test_too_few_rows_to_hold_any_out(y):
    n = len(y)
    with pytest.raises(ValueError, match=r"Holding 1 of the . samples out .* too few to train on"):
        mlp().fit(X[:n], y)
    proba = mlp(early_stopping=False).fit(X[:n], y).predict_proba(X)
    assert proba.sum(axis=1) == pytest.approx(1)


def test_a_class_of_one_row_stays_in_training_and_keeps_its_column():
    y = np.repeat([0, 1, 2], [25, 24, 1])
    for seed in range(5):
        model = mlp(random_state=seed).fit(X[:50], y)
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.predict_proba(X).shape == (120, 3)
        assert 2 in hold_out(Rows(X[:50], y), 0.15, seed).y


@pytest.mark.parametrize("n_per_class", [1, 2, 3, 7])
@pytest.mark.parametrize("fraction", [0.05, 0.15, 0.5, 0.7])
def test_every_class_keeps_a_row_in_training(n_per_class, fraction):
    y = np.append(np.arange(25).repeat(n_per_class), [0] * 75)
    X_index = np.arange(len(y), dtype=np.float64)[:, None]
    for seed in range(5):
        rows = hold_out(Rows(X_index, y), fraction, seed)
        assert set(rows.y.tolist()) == set(range(25))
        kept, held_out = rows.X[:, 0].tolist(), rows.valid.X[:, 0].tolist()
        assert sorted(kept + held_out) == list(range(len(y)))
        n_valid = math.ceil(fraction * len(y))
        assert n_valid - 25 <= len(held_out) <= n_valid
        assert (y[np.array(kept, int)] == rows.y.numpy()).all()
        assert (y[np.array(held_out, int)] == rows.valid.y.numpy()).all()


def test_held_out_rows_are_stratified():
    y = np.repeat([0, 1], [900, 100])
    valid = hold_out(Rows(np.zeros((1_000, 1)), y), 0.2, 0).valid
    assert np.bincount(valid.y).tolist() == [180, 20]


def test_batches_cover_the_rows_once():
    rows = Rows(np.arange(10.0)[:, None], np.arange(10))
    for shuffle in (False, True):
        batches = Batches(rows, 4, shuffle=shuffle, generator=torch.Generator().manual_seed(0))
        for _ in range(2):
            seen = [y for _, y in batches]
            assert [len(y) for y in seen] == [4, 4, 2]
            assert sorted(torch.cat(seen).tolist()) == list(range(10))
        assert len(batches) == 3


def test_a_batch_larger_than_the_data():
    assert mlp(batch_size=256).fit(X[:20], Y[:20]).predict_proba(X).shape == (120, 3)


@pytest.mark.parametrize("early_stopping", [True, False])
def test_more_classes_than_rows_in_a_batch(early_stopping):
    y = np.arange(50).repeat(6)
    rng = np.random.default_rng(0)
    proba = (
        mlp(batch_size=16, max_epochs=2, early_stopping=early_stopping)
        .fit(rng.normal(size=(300, 4)), y)
        .predict_proba(X)
    )
    assert proba.shape == (120, 50)
    assert np.isfinite(proba).all()
    assert proba.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    "names",
    [
        np.array([10, 20, 30]),
        np.array([-7, -1, 3]),
        np.array(["cat", "dog", "eel"]),
        np.array(["cat", "dog", "eel"], dtype=object),
        np.array([0.0, 1.0, 5.0]),
    ],
    ids=["tens", "negative", "text", "objects", "floats"],
)
def test_labels_of_any_kind_come_back(names):
    model = mlp().fit(X, names[Y])
    assert same_weights(model, mlp().fit(X, Y))
    assert model.classes_.tolist() == names.tolist()
    predicted = model.predict(X)
    assert predicted.dtype == model.classes_.dtype
    assert (predicted == names[model.predict_proba(X).argmax(axis=1)]).all()
    assert model.score(X, names[Y]) == accuracy_score(names[Y], predicted)
    assert len(set(predicted.tolist())) > 1


def test_boolean_and_categorical_labels():
    yes = Y > 0
    model = mlp().fit(X, yes)
    assert model.predict(X).dtype == bool
    assert same_weights(model, mlp().fit(X, yes.astype(int)))
    levels = pd.Series(pd.Categorical(np.array(["lo", "hi"])[yes.astype(int)], ["lo", "hi", "un"]))
    model = mlp().fit(X, levels)
    assert model.classes_.tolist() == ["hi", "lo"]
    assert model.predict_proba(X).shape == (120, 2)


# --- Weights ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*hold levels that fit did not see:UserWarning")
def test_rows_of_weight_zero_are_as_good_as_removed():
    numbers = X.copy()
    numbers[:6] *= 100
    frame = pd.DataFrame(numbers, columns=list("abcd"))
    frame["e"] = np.where(np.arange(120) < 6, "seen here only", np.where(X[:, 2] > 0, "u", "v"))
    frame.loc[:2, "a"] = np.nan
    weight = np.random.default_rng(0).uniform(0.5, 2, size=120)
    weight[:6] = 0
    for data, params in (
        (numbers, {}),
        (numbers, {"encoder": MinMaxScaler()}),
        (frame, {}),
    ):
        model = mlp(**params).fit(data, Y, sample_weight=weight)
        removed = mlp(**params).fit(data[6:], Y[6:], sample_weight=weight[6:])
        assert same_weights(model, removed)
        assert model.n_inputs_ == removed.n_inputs_


def test_a_weight_of_two_is_a_repeated_row():
    n_times = np.random.default_rng(0).integers(1, 4, size=120)
    params = ALL_ROWS | {"smoothing": 0, "max_epochs": 20}
    weighted = mlp(**params).fit(X, Y, sample_weight=n_times)
    repeated = mlp(**params).fit(X.repeat(n_times, axis=0), Y.repeat(n_times))
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X), abs=1e-9)
    plain = mlp(**params).fit(X, Y).predict_proba(X)
    assert np.abs(weighted.predict_proba(X) - plain).max() > 1e-3


def test_equal_weights_change_nothing():
    expected = mlp(**ALL_ROWS).fit(X, Y).predict_proba(X)
    assert mlp(**ALL_ROWS).fit(X, Y, sample_weight=np.full(120, 7.0)).predict_proba(
        X
    ) == pytest.approx(expected, abs=1e-9)


def test_a_class_without_weight_keeps_its_column():
    model = mlp(lr=0.05, max_epochs=40).fit(X, Y, sample_weight=(Y != 1).astype(float))
    proba = model.predict_proba(X)
    assert proba.shape == (120, 3)
    assert proba[:, 1].mean() < 0.05


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.full(120, -1.0), "[Nn]egative"),
        (np.zeros(120), "zero"),
        (np.ones(7), "sample_weight"),
        (np.full(120, np.nan), "NaN"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        mlp().fit(X, Y, sample_weight=weight)


def test_class_weights_multiply_the_row_weights():
    factors = {0: 0.5, 1: 3.0, 2: 1.0}
    model = mlp(class_weight=factors, **ALL_ROWS).fit(X, Y)
    by_row = mlp(**ALL_ROWS).fit(X, Y, sample_weight=np.array([factors[k] for k in Y]))
    # The scaler sees row weights and not class weights; take it out of the comparison.
    assert not same_weights(model, by_row)
    model, by_row = (
        NetClassifier(Sizeless, class_weight=w, early_stopping=False, random_state=0).fit(
            X, Y, sample_weight=s
        )
        for w, s in ((factors, None), (None, [factors[k] for k in Y]))
    )
    assert same_weights(model, by_row)


def test_balanced_weights_come_from_the_training_rows():
    few = slice(0, 8)
    y_val = np.zeros(8, int)  # the validation rows lack two classes
    model = mlp(class_weight="balanced").fit(X, Y, X_val=X_VAL[few], y_val=y_val)
    best = model.history_[model.best_epoch_ - 1, "valid_loss"]
    expected = log_loss(y_val, model.predict_proba(X_VAL[few]), labels=[0, 1, 2])
    assert best == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="needs the whole data at once"):
        mlp(class_weight="balanced").partial_fit(X, Y)


# --- partial_fit and warm start ---------------------------------------------------------


def test_partial_fit_takes_one_epoch_at_a_time(graphs):
    model = mlp(warmup=2)
    model.partial_fit(X[:40], Y[:40] % 2, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (120, 3)
    for n, n_graphs in ((50, 0), (70, 1), (30, 2)):  # the third call is past the warm-up
        before = copy.deepcopy(model)
        model.partial_fit(X[:n], Y[:n])
        assert not same_weights(model, before)
        assert len(graphs) == n_graphs
    assert [len(embeddings) for embeddings, _ in graphs] == [70, 30]
    assert model.n_iter_ == len(model.history_) == 4
    assert model.history_[:, "smoothing"] == [0.0, 0.0, 0.3, 0.3]


def test_partial_fit_starts_as_fit_does_and_draws_anew_in_each_call():
    params = {"early_stopping": False, "max_epochs": 1}
    assert same_weights(mlp(**params).partial_fit(X, Y), mlp(**params).fit(X, Y))
    shuffles = []

    class Spy(Batches):
        def __iter__(self):
            for batch in super().__iter__():
                shuffles.append(batch[0]["index"].tolist())
                yield batch

    model = mlp(iterator_train=Spy, batch_size=-1)
    model.partial_fit(X, Y).partial_fit(X, Y)
    assert len(shuffles) == 2
    assert shuffles[0] != shuffles[1]


@pytest.mark.parametrize(
    ("data", "labels", "words"),
    [
        (X, Y + 5, r"Label 7 is not among|Label 5 is not among|Label 6 is not among"),
        (X[:, :3], Y, "3 features"),
        (X * np.inf, Y, "infinity|NaN"),
        (X, Y[:5], "inconsistent"),
    ],
)
def test_a_refused_batch_leaves_the_network_as_it_was(data, labels, words):
    model = mlp().partial_fit(X, Y)
    before = copy.deepcopy(model)
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        model.partial_fit(data, labels)
    assert same_weights(model, before)
    assert same_weights(model.partial_fit(X, Y), before.partial_fit(X, Y))


def test_partial_fit_that_diverges_leaves_the_estimator_unfitted():
    model = mlp().partial_fit(X, Y).set_params(lr=1e30)
    with pytest.raises(ValueError, match="learning rate"):  # noqa: PT012
        for _ in range(5):
            model.partial_fit(X, Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_warm_start_goes_on_from_the_present_weights():
    model = mlp(warm_start=True, early_stopping=False).fit(X, Y)
    before = copy.deepcopy(model)
    model.set_params(lr=1e-30).fit(X, Y)
    assert model.n_iter_ == 10
    assert model.predict_proba(X) == pytest.approx(before.predict_proba(X), abs=1e-3)
    cold = mlp(early_stopping=False).fit(X, Y).fit(X, Y)
    assert cold.n_iter_ == 5
    assert same_weights(cold, before)
    with pytest.raises(ValueError, match="the estimator knows; refit it"):
        model.fit(X, np.where(Y == 2, 9, Y))


# --- Prediction -------------------------------------------------------------------------


def test_one_row_is_predicted_as_among_others():
    model = mlp().fit(X, Y)
    proba = model.predict_proba(X)
    single = np.vstack([model.predict_proba(row[None]) for row in X])
    assert single == pytest.approx(proba, abs=1e-6)
    assert np.array_equal(model.predict_proba(X), proba)  # dropout is off
    assert proba.sum(axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_are_float64_and_their_softmax_the_probabilities(dtype):
    model = mlp(dtype=dtype).fit(X, Y)
    logits, proba = model.predict_logits(X), model.predict_proba(X)
    assert logits.dtype == np.float64
    assert logits.shape == (120, 3)
    assert proba.dtype == dtype
    assert {p.dtype for p in model.module_.parameters()} == {getattr(torch, dtype)}
    tolerance = 1e-6 if dtype == "float32" else 1e-15
    assert softmax(logits, axis=1) == pytest.approx(proba, abs=tolerance)


def test_embed_gives_the_penultimate_layer():
    model = mlp(**PLAIN).fit(X, Y)
    embeddings = model.embed(X)
    assert embeddings.shape == (120, 8)
    head = model.module_.head
    logits = torch.from_numpy(embeddings) @ head.weight.T + head.bias
    assert logits.detach().numpy() == pytest.approx(model.predict_logits(X), abs=1e-5)


def test_a_trimmed_network_predicts_the_same():
    model = mlp().fit(X, Y)
    proba, size = model.predict_proba(X), len(pickle.dumps(model))
    model.trim_for_prediction()
    assert np.array_equal(model.predict_proba(X), proba)
    assert (model.predict(X) == model.classes_[proba.argmax(axis=1)]).all()
    assert len(pickle.dumps(model)) < size
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), proba)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_predict_and_train_the_same(copier):
    model = mlp().fit(X, Y)
    again = copier(model)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert same_weights(again.partial_fit(X, Y), model.partial_fit(X, Y))


def test_saved_parameters_can_be_loaded(tmp_path):
    model = mlp().fit(X, Y)
    model.save_params(f_params=tmp_path / "params.pt")
    other = mlp(random_state=1).fit(X, Y)
    other.load_params(f_params=tmp_path / "params.pt")
    assert np.array_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_a_pickle_predicts_in_another_process(tmp_path):
    model = mlp().fit(X, Y)
    joblib.dump((model, X, model.predict_proba(X)), tmp_path / "model.joblib")
    code = (
        "import joblib, numpy as np, sys; m, X, p = joblib.load(sys.argv[1]); "
        "sys.exit(int(not np.allclose(m.predict_proba(X), p, atol=1e-6)))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "model.joblib")]
    assert subprocess.run(command, env=environment, check=False).returncode == 0


# --- Callbacks --------------------------------------------------------------------------


def test_scores_of_skorch_callbacks_know_the_labels():
    names = np.array(["cat", "dog", "eel"])
    model = mlp(
        callbacks=[
            EpochScoring("neg_log_loss", lower_is_better=False, name="score"),
            EpochScoring("accuracy", lower_is_better=False, name="hits", use_caching=False),
        ],
        max_epochs=60,
        lr=0.1,
        n_iter_no_change=2,
    ).fit(X, names[Y], X_val=X_VAL, y_val=names[Y_VAL])
    assert model.n_iter_ < 60
    history = model.history_  # stopped early, and still no epoch lacks its scores
    scores = history[:, ("score", "valid_loss", "hits", "valid_acc")]
    assert len(scores) == model.n_iter_
    for score, loss, hits, accuracy in scores:
        assert -score == pytest.approx(loss, abs=1e-6)
        assert hits == pytest.approx(accuracy, abs=1e-6)
    assert max(history[:, "hits"]) > 0.4


def test_learning_rates_are_scheduled():
    model = mlp(callbacks=[LRScheduler(StepLR, step_size=1, gamma=0.5)], early_stopping=False)
    model.fit(X, Y)
    assert model.history_[:, "event_lr"] == pytest.approx([0.01 * 0.5**e for e in range(5)])
    assert model.optimizer_.param_groups[0]["lr"] == pytest.approx(0.01 * 0.5**5)


def test_early_stopping_of_ones_own():
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    own = EarlyStopping(monitor="valid_loss", patience=2, load_best=True)
    params = {"max_epochs": 60, "lr": 0.1}
    model = mlp(callbacks=[own], early_stopping=False, **params).fit(X, Y, **given)
    theirs = mlp(n_iter_no_change=2, **params).fit(X, Y, **given)
    assert abs(model.n_iter_ - theirs.n_iter_) <= 1  # skorch's threshold differs a little
    best = model.history_[model.best_epoch_ - 1, "valid_loss"]
    assert best == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)
    watch_training = EarlyStopping(monitor="train_loss", patience=1, threshold=0.9)
    assert mlp(callbacks=[watch_training], early_stopping=False).fit(X, Y).n_iter_ < 5


@pytest.mark.parametrize(
    "callback",
    [
        EarlyStopping(patience=1),
        LRScheduler("ReduceLROnPlateau", monitor="valid_loss"),
    ],
    ids=["EarlyStopping", "LRScheduler"],
)
def test_callbacks_that_watch_validation_rows_need_some(callback):
    with pytest.raises(ValueError, match="watches the validation rows, but there are none"):
        mlp(callbacks=[callback], early_stopping=False).fit(X, Y)
    mlp(callbacks=[callback], refit=True).fit(X, Y)
    mlp(callbacks=[callback]).fit(X, Y).partial_fit(X, Y)


def test_checkpoints_keep_the_best_epoch(tmp_path):
    checkpoint = Checkpoint(dirname=tmp_path, load_best=True)
    params = {"max_epochs": 30, "lr": 0.1, "n_iter_no_change": 30}
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    model = mlp(callbacks=[checkpoint], early_stopping=False, **params).fit(X, Y, **given)
    assert same_weights(model, mlp(**params).fit(X, Y, **given))
    losses, best = model.history_[:, "valid_loss"], model.history_[:, "valid_loss_best"]
    assert best == [loss < min(losses[:e], default=np.inf) for e, loss in enumerate(losses)]


def test_clones_share_no_state_with_callbacks():
    model = mlp(callbacks=[("rate", LRScheduler(StepLR, step_size=1))], refresh=2).fit(X, Y)
    copies = [clone(model), clone(model)]
    for other in copies:
        with pytest.raises(NotFittedError):
            check_is_fitted(other)
        ours, theirs = model.get_params(deep=False), other.get_params(deep=False)
        assert {k: v for k, v in theirs.items() if k != "callbacks"} == {
            k: v for k, v in ours.items() if k != "callbacks"
        }
        assert other.callbacks[0][1] is not model.callbacks[0][1]
    assert copies[0].callbacks[0][1] is not copies[1].callbacks[0][1]
    assert same_weights(copies[0].fit(X, Y), model)


class StopAfter:
    """A callback of scikit-learn that ends training after some epochs."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs
        self.seen = []

    def setup(self, estimator, context):
        self.seen.append("setup")

    def teardown(self, estimator, context):
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X, y):
        assert len(X) == len(y) == 120

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.seen.append(context.task_name)
        fitted_estimator.predict_proba(X)
        return self.seen.count("epoch") >= self.n_epochs


def test_callbacks_of_scikit_learn_see_epochs_and_can_stop_them():
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    stop = StopAfter(2)
    model = mlp().set_callbacks(stop).fit(X, Y, **given)
    assert stop.seen == ["setup", "epoch", "epoch", "fit", "teardown"]
    assert model.n_iter_ == 2
    # Every callback of skorch has seen the last epoch too: the best of the two is restored.
    losses = model.history_[:, "valid_loss"]
    assert losses[1] < losses[0]
    assert model.best_epoch_ == 2
    assert losses[1] == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)
    assert same_weights(model, mlp(max_epochs=2, warmup=1).fit(X, Y, **given))
    unaffected = mlp().set_callbacks(StopAfter(99)).fit(X, Y, **given)
    assert same_weights(unaffected, mlp().fit(X, Y, **given))


@pytest.mark.parametrize("weighted", [False, True])
def test_scoring_monitor_scores_each_epoch(weighted):
    weight = np.linspace(0.5, 2, 120) if weighted else None
    monitor = ScoringMonitor(scoring="neg_log_loss")
    params = {"early_stopping": False, "max_epochs": 3}
    model = mlp(**params).set_callbacks(monitor).fit(X, Y, sample_weight=weight)
    log = monitor.get_logs().data_as_pandas
    epochs = log[log["task_name"] == "epoch"]
    assert len(epochs) == 3
    final = -log_loss(Y, model.predict_proba(X), sample_weight=weight)
    assert epochs["neg_log_loss"].iloc[-1] == pytest.approx(final, abs=1e-6)
    assert epochs["neg_log_loss"].is_monotonic_increasing
    assert not tensors_by_row(mlp(**params).fit(X, Y), 120)


# --- Seeds, threads, silence ------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits_in_threads():
    params = [{"random_state": seed, "hidden_sizes": (8, 8)} for seed in range(4)] * 2

    def weights(p):
        return mlp(max_epochs=3, **p).fit(X, Y)

    sequential = [weights(p) for p in params]
    threaded = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(weights)(p) for p in params
    )
    for ours, theirs in zip(sequential, threaded, strict=True):
        assert same_weights(ours, theirs)
    assert not same_weights(sequential[0], sequential[1])


class SlowToBuild(Net):
    def __init__(self, n_inputs, n_classes):
        super().__init__(n_inputs, n_classes)
        time.sleep(0.02)  # time for another thread to draw from the process-wide generator
        nn.init.normal_(self.head.weight)


def test_threads_do_not_disturb_each_others_first_weights():
    def weights(seed):
        return net(SlowToBuild, max_epochs=1, random_state=seed).fit(X, Y)

    sequential = [weights(seed) for seed in range(4)]
    threaded = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(weights)(seed) for seed in range(4)
    )
    assert all(same_weights(a, b) for a, b in zip(sequential, threaded, strict=True))


def test_the_same_seed_gives_the_same_bits_with_two_torch_threads():
    one = mlp().fit(X, Y)
    torch.set_num_threads(2)
    assert same_weights(mlp().fit(X, Y), one)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_in_processes():
    here = [mlp(random_state=seed).fit(X, Y) for seed in range(2)]
    there = joblib.Parallel(n_jobs=2)(
        joblib.delayed(mlp(random_state=seed).fit)(X, Y) for seed in range(2)
    )
    assert all(same_weights(a, b) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize(
    "params", [{}, {"graph": "random"}, {"graph": "permuted", "reduction": "pca", "refit": True}]
)
def test_global_generators_are_left_alone(params):
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    model = mlp(n_components=2, **params).fit(X, Y)
    model.predict_proba(X)
    model.partial_fit(X, Y)
    net().fit(X, Y)
    assert np.array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


def test_the_global_generators_do_not_reach_a_seeded_fit():
    torch.manual_seed(1)
    first = mlp().fit(X, Y)
    torch.manual_seed(2)
    torch.rand(5)
    assert same_weights(mlp().fit(X, Y), first)
    assert same_weights(first, mlp(random_state=np.random.RandomState(0)).fit(X, Y))


def test_without_a_seed_fits_differ():
    np.random.seed(0)  # noqa: NPY002
    assert not same_weights(mlp(random_state=None).fit(X, Y), mlp(random_state=None).fit(X, Y))


def test_training_is_silent_unless_asked(capsys):
    mlp(max_epochs=40, lr=0.3, n_iter_no_change=1, refit=True).fit(X, Y).predict(X)
    assert capsys.readouterr() == ("", "")
    mlp(verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert not err
    lines = out.strip().splitlines()
    assert {"epoch", "criterion", "penalty", "smoothing", "valid_loss"} <= set(lines[0].split())
    assert len(lines) == 2 + 5  # a head, a rule and an epoch each


# --- Building blocks --------------------------------------------------------------------


def test_dropout_keeps_means_and_draws_from_its_own_generator():
    layer, ones = Dropout(0.3), torch.ones(100_000)
    layer.generator = torch.Generator().manual_seed(0)
    state = torch.get_rng_state()
    dropped = layer(ones)
    assert torch.equal(torch.get_rng_state(), state)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert not torch.equal(layer(ones), dropped)
    layer.generator.manual_seed(0)
    assert torch.equal(layer(ones), dropped)
    assert layer.eval()(ones) is ones
    assert repr(layer) == "Dropout(p=0.3)"


def test_mlp_has_the_layers_asked_for():
    module = MLP(5, 3, hidden_sizes=(7, 6), dropout=0.2)
    widths = [(p.in_features, p.out_features) for p in module.modules() if isinstance(p, nn.Linear)]
    assert widths == [(5, 7), (7, 6), (6, 3)]
    assert [p.p for p in module.modules() if isinstance(p, Dropout)] == [0.2, 0.2]
    assert not [p for p in MLP(5, 3, dropout=0).modules() if isinstance(p, Dropout)]


# --- Words for mistakes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"hidden_layer_sizes": (8,)},
            "has no parameter 'hidden_layer_sizes'. Did you mean 'hidden_",
        ),
        ({"alpha": 1}, "Did you mean 'weight_decay'"),
        ({"seed": 1}, "Did you mean 'random_state'"),
        ({"n_neighbours": 3}, "Did you mean 'n_neighbors'"),
        ({"qqq": 3}, "NeSCalMLP has no parameter 'qqq'. It has"),
    ],
)
def test_a_wrong_parameter_name_gets_the_right_one(wrong, words):
    with pytest.raises(ValueError, match=words):
        NeSCalMLP(**wrong).fit(X, Y)


def test_a_regression_target_is_told_from_classes():
    with pytest.raises(ValueError, match=r"y holds \d+ different values.*regression target"):
        mlp().fit(X, np.arange(len(X)))


def test_missing_labels_are_said_to_be_in_y():
    with pytest.raises(ValueError, match="y has missing labels"):
        mlp().fit(X, np.where(Y == 0, np.nan, Y.astype(float)))


def test_the_embedding_of_a_compiled_module_is_read_from_the_module_inside():
    net = MLP(4, 3, hidden_sizes=(5,), dropout=0.0)

    class Compiled(nn.Module):
        def __init__(self):
            super().__init__()
            self._orig_mod = net

        def forward(self, X):
            return self._orig_mod(X)

    rows = torch.randn(6, 4)
    embeddings, logits = embed_rows(Compiled(), rows, "penultimate")
    torch.testing.assert_close(logits, net.head(embeddings))
