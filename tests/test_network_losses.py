"""Every loss in the estimators: names, weights, warm-ups, mixtures, and what stops training."""

import pickle
import sys
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import FunctionTransformer
from skorch.callbacks import Callback
from torch import nn

from skcal import MultiHeadMLP, NeSCalClassifier, NeSCalMLP
from skcal.neural import MultiHeadClassifier, NetClassifier, TabularNet
from skcal.neural.losses import (
    DCA,
    LOSS_NAMES,
    MDCA,
    MMCE,
    BrierLoss,
    CrossEntropy,
    DualFocalLoss,
    FocalLoss,
    LabelRelaxationLoss,
    LogitMargin,
    Loss,
    Mix,
    MixupLoss,
    MultiHeadLoss,
    PenalizedLoss,
    Penalty,
    SampleDependentFocalLoss,
    SoftAvUC,
    SoftECE,
)


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


X, Y = table(96)
X_VAL, Y_VAL = table(60, seed=7)
FAST = {"max_epochs": 3, "batch_size": 32, "lr": 0.02, "random_state": 0}
# As in the common tests: where a weight of two can be the same as a row repeated.
EXACT = {"early_stopping": False, "batch_size": -1, "dtype": "float64"}

KINDS = {
    "NetClassifier": (NetClassifier, {"module__hidden_sizes": (8,)}),
    "NeSCalClassifier": (NeSCalClassifier, {"module__hidden_sizes": (8,), "warmup": 1}),
    "NeSCalMLP": (NeSCalMLP, {"hidden_sizes": (8,), "n_members": 2, "warmup": 1}),
    "MultiHeadMLP": (MultiHeadMLP, {"hidden_sizes": (8,), "n_heads": 2}),
}
SMOOTHED = [kind for kind in KINDS if kind != "NetClassifier"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_loss = pytest.mark.parametrize("name", LOSS_NAMES)
# One of each sort: of the rows, of the batch, of mixed rows.
SORTS = ("focal", "mmce", "mixup")


def every(kinds=tuple(KINDS), names=LOSS_NAMES):
    """Run a test for all pairs; slow ones repeat for other estimators what others have shown."""
    pairs = [(kind, name) for kind in kinds for name in names]
    shown = ("NetClassifier", "NeSCalMLP")
    return pytest.mark.parametrize(
        ("kind", "name"),
        [
            pytest.param(*p, marks=() if p[0] in shown or p[1] in SORTS else pytest.mark.slow)
            for p in pairs
        ],
    )


def build(kind, loss, args=(), **params):
    """Return an estimator with a loss and its arguments, under the name that it has there."""
    cls, own = KINDS[kind]
    prefix = cls._loss_parameter
    named = {prefix: loss} | {f"{prefix}__{key}": value for key, value in dict(args).items()}
    return cls(**FAST | own | named | params)


def exact(kind, loss, args=(), **params):
    dropout = "dropout" if KINDS[kind][0]._loss_parameter == "loss" else "module__dropout"
    return build(kind, loss, args, **EXACT | {dropout: 0.0} | params)


def weights_of(model):
    return [p.detach().clone() for p in model.module_.parameters()]


def same_weights(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def same_fit(ours, theirs, data=(X, Y)):
    """Tell whether two estimators are trained to the same network, bit for bit."""
    return same_weights(weights_of(ours.fit(*data)), weights_of(theirs.fit(*data)))


class Watch(Callback):
    """Keeps the module as it was before the first step, and the weights after each epoch."""

    def __init__(self):
        self.epochs = []

    def on_epoch_begin(self, net, **kwargs):
        if not self.epochs:
            self.start = pickle.loads(pickle.dumps(net.module_))

    def on_epoch_end(self, net, **kwargs):
        self.epochs.append(weights_of(net))

    def logits(self, rows, *, training):
        """Return what the untrained module says of encoded rows."""
        with torch.no_grad():
            return self.start.train(training)(rows).double().numpy()


# --- All of them train --------------------------------------------------------------------


@every()
def test_every_loss_trains(kind, name):
    model = build(kind, name, max_epochs=12).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    proba = model.predict_proba(X_VAL)
    assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    prior = np.tile(np.bincount(Y) / len(Y), (len(Y_VAL), 1))
    assert log_loss(Y_VAL, proba) < log_loss(Y_VAL, prior) - 0.05
    # Training is stopped by the log-loss of the validation rows, whatever is trained on.
    losses = model.history_[:, "valid_loss"]
    assert model.best_epoch_ == 1 + np.argmin(losses)
    assert min(losses) == pytest.approx(log_loss(Y_VAL, proba), abs=1e-5)


def test_validation_is_weighted_whatever_the_loss():
    weight = 1.0 + 3 * (Y_VAL == 1)
    given = {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight_val": weight}
    for name in ("brier", "soft_ece", "mixup"):
        model = build("NeSCalMLP", name).fit(X, Y, **given)
        expected = log_loss(Y_VAL, model.predict_proba(X_VAL), sample_weight=weight)
        assert min(model.history_[:, "valid_loss"]) == pytest.approx(expected, abs=1e-5)


# What a name stands for, written out.
CLASSES = {
    "cross_entropy": (CrossEntropy, {}),
    "label_smoothing": (CrossEntropy, {"label_smoothing": 0.05}),
    "focal": (FocalLoss, {}),
    "flsd": (SampleDependentFocalLoss, {}),
    "dual_focal": (DualFocalLoss, {}),
    "brier": (BrierLoss, {}),
    "label_relaxation": (LabelRelaxationLoss, {}),
    "mixup": (MixupLoss, {}),
    "mmce": (PenalizedLoss, {"penalty": MMCE()}),
    "mdca": (PenalizedLoss, {"penalty": MDCA()}),
    "dca": (PenalizedLoss, {"penalty": DCA()}),
    "soft_avuc": (PenalizedLoss, {"penalty": SoftAvUC()}),
    "soft_ece": (PenalizedLoss, {"penalty": SoftECE()}),
    "mbls": (PenalizedLoss, {"penalty": LogitMargin()}),
}


@every()
def test_a_name_a_class_and_an_instance_are_the_same(kind, name):
    cls, args = CLASSES[name]
    mine = cls(**args)
    before = {key: value for key, value in vars(mine).items() if key.isidentifier()}
    named = build(kind, name).fit(X, Y)
    for other in (build(kind, cls, args), build(kind, mine)):
        assert same_fit(named, other)
    assert {key: vars(mine)[key] for key in before} == before  # a copy of it was trained with
    if name not in ("cross_entropy", "mbls"):  # within whose margin the logits still are
        assert not same_fit(named, build(kind, "cross_entropy"))


def test_torchs_own_losses_are_rows_too():
    ours = build("NeSCalMLP", "label_smoothing")
    for theirs in (
        build("NeSCalMLP", nn.CrossEntropyLoss, {"label_smoothing": 0.05}),
        build("NeSCalMLP", nn.CrossEntropyLoss(label_smoothing=0.05)),
    ):
        assert same_fit(ours, theirs)


@pytest.mark.parametrize("net", ["float32", "float64"])
@pytest.mark.parametrize("own", [torch.float32, torch.float64])
def test_a_loss_follows_the_precision_of_the_network(net, own):
    # NumPy's numbers have double precision.
    factors = torch.tensor([0.5, 4.0, 1.0], dtype=own)
    loss, watch = nn.CrossEntropyLoss(weight=factors), Watch()
    model = exact("NetClassifier", loss, callbacks=[watch], dtype=net, max_epochs=1).fit(X, Y)
    assert loss.weight.dtype == own  # a copy of it was trained with
    logits = watch.logits(torch.from_numpy(model._encode(X, reset=False)), training=True)
    terms = -factors.numpy()[Y] * log_softmax(logits, axis=1)[np.arange(96), Y]
    assert model.history_[0, "criterion"] == pytest.approx(terms.mean(), rel=1e-5)
    assert model.predict_proba(X).dtype == net


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of the compiler
@pytest.mark.parametrize("kind", ["NeSCalMLP", "MultiHeadMLP"])
@pytest.mark.parametrize("name", SORTS)
def test_the_loss_of_a_compiled_network_is_the_same(kind, name):
    compiled = build(kind, name, compile=True, compile__backend="eager")
    assert same_fit(build(kind, name), compiled)


ARGUMENTS = {
    "label_smoothing": {"label_smoothing": [0.01, 0.3]},
    "focal": {"gamma": [0.5, 4.0]},
    "flsd": {"gamma": [1.0, 5.0]},
    "dual_focal": {"gamma": [1.0, 6.0]},
    "label_relaxation": {"alpha": [0.01, 0.4]},
    "mixup": {"alpha": [0.1, 2.0]},
    "mmce": {"variant": ["plain", "official"]},
    "mdca": {"base": ["focal", "brier"]},
    "dca": {"penalty_weight": [0.5, 20.0]},
    "soft_avuc": {"threshold": [0.2, 0.8]},
    "soft_ece": {"n_bins": [2, 30]},
    "mbls": {"margin": [0.0, 1.0]},
}


@every(names=ARGUMENTS)
def test_arguments_reach_the_loss_in_every_way(kind, name):
    [(argument, (low, high))] = ARGUMENTS[name].items()
    full = f"{KINDS[kind][0]._loss_parameter}__{argument}"
    expected = weights_of(build(kind, name, {argument: high}).fit(X, Y))
    model = build(kind, name, {argument: low})
    assert not same_weights(weights_of(model.fit(X, Y)), expected)
    model.set_params(**{full: high})
    assert model.get_params()[full] == high
    for copy in (model, clone(model), pickle.loads(pickle.dumps(model))):
        assert same_weights(weights_of(copy.fit(X, Y)), expected)
    if name not in SORTS:
        return
    search = GridSearchCV(build(kind, name), {full: [low, high]}, cv=2, scoring="neg_log_loss")
    found = search.fit(X, Y)
    scores = found.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    assert same_fit(build(kind, name, {argument: found.best_params_[full]}), found.best_estimator_)


def test_a_search_goes_over_losses_and_leaves_those_it_was_given():
    mine = FocalLoss(2.0)
    grid = {"loss": ["brier", mine, FocalLoss]}
    scores = GridSearchCV(build("NeSCalMLP", "mmce"), grid, cv=2).fit(X, Y)
    assert len(set(scores.cv_results_["mean_test_score"])) > 1
    assert mine.gamma == 2.0


# --- What is refused ----------------------------------------------------------------------


class Counts(nn.Module):
    """Counts how often it is run."""

    n_runs = 0

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.head = nn.Linear(n_inputs, n_classes)

    def forward(self, X):
        type(self).n_runs += 1
        return self.head(X)


def scalar(logits, target):
    return logits.sum()


@pytest.mark.parametrize(
    ("loss", "args", "words"),
    [
        ("fokal", {}, "Did you mean 'focal'"),
        ("focal", {"gama": 1.0}, "'gama'.*Did you mean 'gamma'"),
        ("mmce", {"wieght": 1.0}, r"no parameter 'wieght'.*bandwidth"),
        ("mmce", {"penalty": MDCA()}, "no parameter 'penalty'"),
        ("mbls", {"margin": -1.0}, "margin must be at least 0"),
        (FocalLoss(), {"gamma": 1.0}, "as an instance.*'gamma'"),
        (FocalLoss, {"gama": 1.0}, "unexpected keyword argument 'gama'"),
        (MMCE, {}, r"a penalty.*PenalizedLoss\(MMCE\(\)\)"),
        (MMCE(), {}, r"a penalty.*PenalizedLoss\(MMCE\(\)\)"),
        (nn.NLLLoss, {}, "log-probabilities.*CrossEntropyLoss"),
        (MultiHeadLoss([[1.0, 2.0], [2.0, 1.0]]), {}, "MultiHeadClassifier"),
        (MultiHeadLoss, {}, "MultiHeadClassifier"),
        (3, {}, "must be a name .*'focal'"),
        (scalar, {}, "a name or a torch loss"),
    ],
)
@every_kind
def test_wrong_losses_are_refused_before_training(kind, loss, args, words):
    model = build(kind, loss, args)
    on_module = "module__hidden_sizes" in model.get_params()
    if on_module:
        del model.module__hidden_sizes
        model._params_to_validate.discard("module__hidden_sizes")
        model.set_params(module=Counts)
        Counts.n_runs = 0
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(X, Y)
    assert Counts.n_runs == 0 or not on_module
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("copied", [lambda model: model, clone])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NeSCalMLP(criterion="focal"), "calls its criterion loss"),
        (lambda: NeSCalMLP(criterion=FocalLoss()), "calls its criterion loss"),
        (lambda: NeSCalMLP(criterion__gamma=1), "calls its criterion loss"),
        (lambda: NeSCalMLP(module=Counts), "train another module with NeSCalClassifier"),
        (lambda: MultiHeadMLP(criterion="focal"), "calls its criterion loss"),
        (lambda: MultiHeadMLP(n_members=4), "DeepEnsembleClassifier"),
        (lambda: NetClassifier(loss="focal"), "Did you mean 'criterion'"),
        (lambda: NetClassifier(loss__gamma=1), "Did you mean 'criterion__gamma'"),
        (lambda: NeSCalMLP(loss="focal", loss_gamma=1), "Did you mean 'loss__gamma'"),
    ],
)
def test_the_loss_under_another_name_is_refused(make, words, copied):
    # A search trains clones: what they forget would be ignored.
    with pytest.raises(ValueError, match=words):
        copied(make()).fit(X, Y)


class MeanOfBatch(nn.Module):
    """A criterion that takes its own mean, and knows no reduction."""

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits, target)


class AsksForReduction(MeanOfBatch):
    """The same, that must be told one and does not heed it."""

    def __init__(self, reduction):
        super().__init__()


class OneNumber(MeanOfBatch):
    """The same, as a vector of one number."""

    def forward(self, logits, target):
        return super().forward(logits, target).reshape(1)


@every_kind
@pytest.mark.parametrize("criterion", [MeanOfBatch, AsksForReduction, OneNumber()])
def test_a_criterion_that_takes_its_own_mean_is_told_what_to_be(kind, criterion):
    model = build(kind, criterion)
    words = "one loss per row" if kind == "MultiHeadMLP" else r"one loss per row.*losses\.Penalty"
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_label_relaxation_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "label_relaxation", None)
    for kind in KINDS:
        with pytest.raises(ImportError, match=r"skcal\[relaxation\]"):
            build(kind, "label_relaxation").fit(X, Y)


# --- Diverging ----------------------------------------------------------------------------


class TurnsNaN(nn.Module):
    """Returns NaN in training from its third epoch of three batches on."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.head = nn.Linear(n_inputs, n_classes)
        self.n_steps = 0

    def forward(self, X):
        self.n_steps += self.training
        return self.head(X / 0 * 0 if self.n_steps > 6 else X)


@pytest.mark.parametrize("cls", [NetClassifier, NeSCalClassifier, MultiHeadClassifier])
@every_loss
def test_logits_that_are_not_numbers_stop_training(cls, name):
    params = FAST | {"max_epochs": 6, "early_stopping": False}
    extra = {"smoothing": 0} if cls is NeSCalClassifier else {}  # which runs the module more often
    model = cls(TurnsNaN, criterion=name, **params | extra)
    with pytest.raises(ValueError, match="loss became nan in epoch 3; try a smaller learning rate"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    assert not hasattr(model, "module_")


@every()
def test_an_absurd_learning_rate_stops_training(kind, name):
    model = build(kind, name, lr=1e30)
    with pytest.raises(ValueError, match=r"loss became \S+ in epoch \d; .*lr=1e\+30"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)


# --- Weights ------------------------------------------------------------------------------

COUNTS = np.arange(96) // 3 % 4
# A row that does not count, with numbers that would be seen.
X_COUNTED = np.where((COUNTS == 0)[:, None], 1e3, X)
REPEATED = np.repeat(np.arange(96), COUNTS)
# Mixtures depend on how many rows there are.
REPEATABLE = [name for name in LOSS_NAMES if name != "mixup"]


@every(names=REPEATABLE)
def test_integer_weights_are_repeated_rows(kind, name):
    model = exact(kind, name, max_epochs=5, **({} if kind == "NetClassifier" else {"smoothing": 0}))
    weighted = model.fit(X_COUNTED, Y, sample_weight=COUNTS).predict_proba(X)
    repeated = clone(model).fit(X[REPEATED], Y[REPEATED]).predict_proba(X)
    assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)
    assert np.abs(weighted - clone(model).fit(X, Y).predict_proba(X)).max() > 0.01


@pytest.mark.parametrize("variant", ["plain", "weighted"])
def test_weights_are_repetition_in_the_forms_of_mmce_that_say_so(variant):
    model = exact("NetClassifier", "mmce", {"variant": variant, "penalty_weight": 5.0})
    weighted = model.fit(X, Y, sample_weight=COUNTS).predict_proba(X)
    repeated = clone(model).fit(X[REPEATED], Y[REPEATED]).predict_proba(X)
    assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)


@every()
def test_rows_of_weight_zero_leave_no_trace(kind, name):
    counted = COUNTS > 0
    model = build(kind, name, {}, early_stopping=False)
    without = model.fit(X[counted], Y[counted], sample_weight=COUNTS[counted]).predict_proba(X)
    assert_array_equal(model.fit(X_COUNTED, Y, sample_weight=COUNTS).predict_proba(X), without)


@every(names=(*LOSS_NAMES, "official mmce"))
def test_weights_have_no_unit_and_class_weights_multiply_them(kind, name):
    args = {}
    if name == "official mmce":
        name, args = "mmce", {"variant": "official"}
    factors = np.array([0.5, 4.0, 1.0])
    by_class = dict(enumerate(factors.tolist()))
    # An encoder that counts no rows: class weights are for the training alone.
    params = {"encoder": FunctionTransformer()}
    model = exact(kind, name, args, class_weight=by_class, **params)
    one = model.fit(X, Y, sample_weight=1.0 + COUNTS).predict_proba(X)
    weight = 7e3 * (1 + COUNTS) * factors[Y]
    other = exact(kind, name, args, **params).fit(X, Y, sample_weight=weight)
    assert_allclose(one, other.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert np.abs(one - other.fit(X, Y).predict_proba(X)).max() > 0.01


# --- What is recorded ---------------------------------------------------------------------

BATCH_PENALTIES = ("mmce", "mdca", "dca", "soft_avuc", "soft_ece")


@every(kinds=SMOOTHED)
def test_smoothing_adds_to_any_loss(kind, name):
    # A smoothing that never begins is the loss alone.
    alone = build(kind, name, smoothing=0)
    assert same_fit(alone, build(kind, name, smoothing=2.5, warmup=3))
    if kind == "NeSCalClassifier":
        assert same_fit(alone, build("NetClassifier", name))
    model = build(kind, name, smoothing=2.5, warmup=1, dtype="float64").fit(X, Y)
    assert not same_weights(weights_of(alone), [w.float() for w in weights_of(model)])
    for epoch in model.history_:
        parts = epoch["criterion"] + epoch.get("criterion_penalty", 0.0)
        if epoch["smoothing"]:
            parts += 2.5 * epoch["penalty"]
            assert epoch["penalty"] > 0
        assert epoch["train_loss"] == pytest.approx(parts, rel=1e-12)
        assert ("criterion_penalty" in epoch) == (name in BATCH_PENALTIES)
    assert [epoch["smoothing"] for epoch in model.history_] == [0.0, 2.5, 2.5]


def mmce(confidence, hits, weight):
    gaps = weight * (hits - confidence)
    kernel = np.exp(-np.abs(confidence[:, None] - confidence) / 0.4)
    return np.sqrt(gaps @ kernel @ gaps)


def dca(confidence, hits, weight):
    return abs(weight @ (confidence - hits))


@pytest.mark.parametrize("kind", ["NetClassifier", "NeSCalMLP", "MultiHeadMLP"])
@pytest.mark.parametrize(("name", "formula", "factor"), [("mmce", mmce, 2.0), ("dca", dca, 2.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_penalties_are_of_the_mean_of_members(kind, name, formula, factor, weighted):
    watch = Watch()
    weight = 1.0 + COUNTS if weighted else np.ones(96)
    model = exact(kind, name, {}, max_epochs=1, callbacks=[watch])
    model.fit(X, Y, sample_weight=weight if weighted else None)
    rows = torch.from_numpy(model._encode(X, reset=False))
    share = weight / weight.sum()
    logits = watch.logits(rows, training=True)
    log_proba = log_softmax(logits, axis=-1)
    if logits.ndim == 3:
        each = -log_proba[np.arange(96), :, Y]
        assert np.ptp(each, axis=1).max() > 1e-3  # members that differ
        log_proba = logsumexp(log_proba, axis=1) - np.log(2)
    proba = np.exp(log_proba)
    assert_allclose(proba, softmax(watch.logits(rows, training=False), axis=1), rtol=1e-9)
    confidence, hits = proba.max(axis=1), (proba.argmax(axis=1) == Y).astype(float)
    recorded = model.history_[0]
    expected = factor * formula(confidence, hits, share)
    assert recorded["criterion_penalty"] == pytest.approx(expected, rel=1e-9)
    if kind == "NeSCalMLP":
        assert recorded["criterion"] == pytest.approx(share @ each.mean(axis=1), rel=1e-9)
    elif kind == "NetClassifier":
        alone = -share @ log_proba[np.arange(96), Y]
        assert recorded["criterion"] == pytest.approx(alone, rel=1e-9)


@every(names=(*BATCH_PENALTIES, "mbls"))
def test_a_warm_up_is_plain_cross_entropy(kind, name):
    args = {"warmup_epochs": 2, "penalty_weight": 1.0} | ({"margin": 0} if name == "mbls" else {})
    ours, plain = Watch(), Watch()
    params = {"early_stopping": False, "max_epochs": 4}
    model = build(kind, name, args, callbacks=[ours], **params).fit(X, Y)
    build(kind, "cross_entropy", callbacks=[plain], **params).fit(X, Y)
    same = [same_weights(a, b) for a, b in zip(ours.epochs, plain.epochs, strict=True)]
    assert same == [True, True, False, False]
    if name != "mbls":
        penalties = model.history_[:, "criterion_penalty"]
        assert penalties[:2] == [0.0, 0.0]
        assert min(penalties[2:]) > 0


class Sizes(Penalty):
    """A penalty of a user's own: one per batch, whatever it holds."""

    seen: list[int]

    def penalty(self, logits, target, sample_weight):
        type(self).seen.append(len(logits))
        return 1.0 + 0.0 * logits.sum()


@every_kind
@pytest.mark.parametrize(("smallest", "share"), [(16, 0.8), (8, 1.0), (33, 0.0)])
def test_small_batches_have_no_penalty(kind, smallest, share):
    Sizes.seen = []
    loss = PenalizedLoss(Sizes(), 3.0, min_batch_size=smallest)
    model = build(kind, loss, early_stopping=False).fit(X[:40], Y[:40])  # of 32 and of 8 rows
    assert Sizes.seen == [size for _ in range(3) for size in (32, 8) if size >= smallest]
    for epoch in model.history_:
        assert epoch["criterion_penalty"] == pytest.approx(3.0 * share, abs=1e-6)


# --- Mixup --------------------------------------------------------------------------------


@every_kind
def test_mixtures_follow_the_seed_in_threads_too(kind):
    def train(seed):
        model = build(kind, "mixup", {"alpha": 1.0}, random_state=seed)
        found[seed] = weights_of(model.fit(X, Y))

    found, alone = {}, {}
    for seed in (0, 1):
        train(seed)
    alone, found = found, {}
    threads = [threading.Thread(target=train, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same_weights(found[seed], alone[seed]) for seed in (0, 1))
    # The seed of the loss itself gives way to that of the estimator.
    args = {"alpha": 1.0, "random_state": 5}
    assert same_weights(weights_of(build(kind, "mixup", args).fit(X, Y)), alone[0])


class Draws(MixupLoss):
    """Keeps what it draws."""

    drawn: list[Mix]

    def draw(self, n_rows):
        type(self).drawn.append(super().draw(n_rows))
        return type(self).drawn[-1]


def test_another_seed_mixes_otherwise():
    found = []
    for seed in (0, 1):
        Draws.drawn = []
        build("NetClassifier", Draws, random_state=seed, early_stopping=False).fit(X, Y)
        assert len(Draws.drawn) == 9
        shares = [mix.share for mix in Draws.drawn]
        assert len({*shares}) == 9  # one for each batch
        assert all(sorted(mix.partner.tolist()) == list(range(32)) for mix in Draws.drawn)
        found.append(shares)
    assert found[0] != found[1]


@every_kind
def test_without_mixing_it_is_the_base(kind):
    for base in ("cross_entropy", "focal"):
        args = {"alpha": 0, "base": base}
        assert same_fit(build(kind, "mixup", args), build(kind, base))


@pytest.mark.parametrize("kind", ["NetClassifier", "NeSCalClassifier"])
@pytest.mark.parametrize("base", ["cross_entropy", "brier"])
def test_mixtures_by_their_formula(kind, base):
    watch, Draws.drawn = Watch(), []
    weight = 1.0 + COUNTS
    extra = {"smoothing": 2.0, "warmup": 0} if kind == "NeSCalClassifier" else {}
    model = exact(kind, Draws, {"alpha": 2.0, "base": base}, callbacks=[watch], **extra)
    model.set_params(max_epochs=1).fit(X, Y, sample_weight=weight)
    rows = torch.from_numpy(model._encode(X, reset=False))
    # The one batch of all rows is shuffled: what was drawn is of its order.
    order = torch.randperm(96, generator=torch.Generator().manual_seed(model._seed + 1)).numpy()
    [mix] = Draws.drawn
    partner = order[mix.partner.numpy()]
    mixed = mix.share * rows[order] + (1 - mix.share) * rows[partner]
    proba = softmax(watch.logits(mixed, training=True), axis=1)

    def loss(labels):
        if base == "brier":
            return np.square(proba - np.eye(3)[labels]).sum(axis=1)
        return -np.log(proba[np.arange(96), labels])

    w = weight / weight.mean()
    terms = mix.share * w[order] * loss(Y[order]) + (1 - mix.share) * w[partner] * loss(Y[partner])
    assert model.history_[0, "criterion"] == pytest.approx(terms.mean(), rel=1e-9)
    if kind == "NetClassifier":
        return
    # Neighbours are those of the rows themselves, and so is what is pulled towards them.
    own = softmax(watch.logits(rows, training=False), axis=1)
    with torch.no_grad():
        hidden = watch.start.body(rows).numpy()
    unit = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
    nearest = NearestNeighbors(n_neighbors=10).fit(unit).kneighbors(return_distance=False)
    divergence = jensenshannon(own, own[nearest].mean(axis=1), axis=1) ** 2
    assert model.history_[0, "penalty"] == pytest.approx((w * divergence).mean(), rel=1e-6)


@pytest.mark.parametrize("kind", ["NeSCalMLP", "MultiHeadMLP"])
def test_codes_of_categories_are_never_mixed(kind, monkeypatch):
    read, given = [], []
    embed, classify = TabularNet.embed_columns, TabularNet.classify

    def spy_embed(self, rows):
        embedded = embed(self, rows)
        if self.training:
            read.append((rows, embedded.detach()))
        return embedded

    def spy_classify(self, embedded):
        if self.training:
            given.append(embedded.detach())
        return classify(self, embedded)

    monkeypatch.setattr(TabularNet, "embed_columns", spy_embed)
    monkeypatch.setattr(TabularNet, "classify", spy_classify)
    rng = np.random.default_rng(0)
    towns = rng.permutation(np.repeat(np.arange(70), 6))  # more levels than are one-hot encoded
    data = pd.DataFrame({"town": [f"t{town}" for town in towns], "x": rng.normal(size=420)})
    Draws.drawn = []
    args = {"alpha": 1.0}
    build(kind, Draws, args, early_stopping=False, smoothing=0).fit(data, towns % 3)
    assert len(torch.cat([rows[:, -1] for rows, _ in read]).unique()) == 70
    assert len(read) == len(given) == len(Draws.drawn) == 3 * 14
    for (rows, embedded), mixed, mix in zip(read, given, Draws.drawn, strict=True):
        assert (rows[:, -1] == rows[:, -1].round()).all()
        expected = mix.share * embedded + (1 - mix.share) * embedded[mix.partner]
        assert torch.equal(mixed, expected)


# --- Losses of one's own ------------------------------------------------------------------


class Square(Loss):
    """A user's own loss of the rows."""

    def __init__(self, power=2.0):
        super().__init__()
        self.power = power

    def rows(self, logits, target):
        missing = 1 - logits.softmax(dim=1).gather(1, target.unsqueeze(1)).squeeze(1)
        return missing**self.power


class Norm(Penalty):
    """A user's own penalty of the batch: the mean square of the logits."""

    default_weight = 0.5

    def penalty(self, logits, target, sample_weight):
        return sample_weight @ logits.square().mean(dim=1) / sample_weight.sum()


@every_kind
def test_losses_of_ones_own(kind):
    model = build(kind, Square, {"power": 3.0}, max_epochs=10).fit(X, Y)
    assert log_loss(Y, model.predict_proba(X)) < np.log(3) - 0.05
    assert same_fit(model, build(kind, Square(3.0), max_epochs=10))
    assert not same_fit(model, build(kind, Square, max_epochs=10))
    model = build(kind, PenalizedLoss(Norm(), base=Square()), max_epochs=10).fit(X, Y)
    assert model.history_[-1, "criterion_penalty"] > 0


def test_a_penalty_of_ones_own_is_recorded_times_its_weight():
    watch = Watch()
    loss = PenalizedLoss(Norm(), base=Square())
    model = exact("NetClassifier", loss, max_epochs=1, callbacks=[watch]).fit(X, Y)
    rows = torch.from_numpy(model._encode(X, reset=False))
    logits = watch.logits(rows, training=True)
    missing = 1 - softmax(logits, axis=1)[np.arange(96), Y]
    recorded = model.history_[0]
    assert recorded["criterion"] == pytest.approx(np.square(missing).mean(), rel=1e-9)
    assert recorded["criterion_penalty"] == pytest.approx(0.5 * np.square(logits).mean(), rel=1e-9)


# --- Other ways to train ------------------------------------------------------------------

WARM = {"warmup_epochs": 2}


@every_kind
def test_a_warm_up_goes_over_calls_of_partial_fit(kind):
    model = build(kind, "mmce", WARM)
    for _ in range(4):
        model.partial_fit(X, Y)
    penalties = model.history_[:, "criterion_penalty"]
    assert penalties[:2] == [0.0, 0.0]
    assert min(penalties[2:]) > 0
    # One epoch is one call.
    model = build(kind, "mmce", WARM, early_stopping=False, warm_start=True, max_epochs=2)
    penalties = model.fit(X, Y).fit(X, Y).history_[:, "criterion_penalty"]
    assert [value > 0 for value in penalties] == [False, False, True, True]


@every_kind
def test_folds_and_a_refit_warm_up_anew(kind):
    model = build(kind, "dca", WARM, n_folds=2, max_epochs=4).fit(X, Y)
    for history in model.fold_histories_:
        assert [value > 0 for value in history[:, "criterion_penalty"]] == [False] * 2 + [True] * 2
    model = build(kind, "dca", WARM, refit=True, max_epochs=6, lr=0.005).fit(X, Y)
    values = model.history_[:, "criterion_penalty"]
    assert len(values) == model.best_epoch_ > 2
    assert [value > 0 for value in values] == [epoch >= 2 for epoch in range(len(values))]


@pytest.mark.parametrize("kind", ["NeSCalMLP", "MultiHeadMLP"])
@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize(
    "params",
    [
        {"calibrate": True},
        {"n_folds": 2, "calibrate": True},
        {"refit": True, "calibrate": "sigmoid"},
        {"n_folds": 2, "class_weight": "balanced", "prior_correction": True},
        {"ema_decay": 0.9, "lr_schedule": "cosine", "max_grad_norm": 1.0},
    ],
    ids=["calibrate", "folds", "refit", "prior", "schedule"],
)
def test_losses_go_with_everything_else(kind, name, params):
    model = build(kind, name, **params).fit(X, Y)
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert_allclose(softmax(model.predict_logits(X), axis=1), proba, atol=1e-6)
    assert (model.calibrator_ is None) == ("calibrate" not in params)
    assert same_fit(model, clone(model))


@every()
def test_copies_of_a_fitted_estimator_answer_and_train_the_same(kind, name):
    model = build(kind, name).fit(X, Y)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
    assert same_weights(weights_of(copied.partial_fit(X, Y)), weights_of(model.partial_fit(X, Y)))
