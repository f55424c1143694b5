"""Networks with several heads: groups, weights, averages, disagreement, and modules of users."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, EarlyStopping
from torch import nn

from skcal import CalibratedClassifier, DeepEnsembleClassifier, MultiHeadMLP, NeSCalMLP
from skcal.neural import MultiHeadClassifier, NeSCalClassifier
from skcal.neural._fold_ensemble import FoldEnsemble
from skcal.neural._heads import Heads
from skcal.neural._inherit import with_parameters_of
from skcal.neural.losses import partition_weights


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(n, n_classes=3, seed=0):
    """Rows of four numbers, and labels drawn from a linear model of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    proba = softmax(1.5 * X @ rng.normal(size=(4, n_classes)), axis=1)
    y = np.array([rng.choice(n_classes, p=row) for row in proba])
    y[:n_classes] = np.arange(n_classes)
    return X, y


X, Y = table(96)
WEIGHT = 1.0 + np.arange(96) % 4
FAST = {"max_epochs": 3, "batch_size": 32, "lr": 0.02, "random_state": 0, "n_heads": 2}
EXACT = {"early_stopping": False, "batch_size": -1, "dtype": "float64", "max_epochs": 1}


class Net(nn.Module):
    """A module of a user, without randomness."""

    def __init__(self, n_inputs, n_classes, bias=True):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_inputs, 6), nn.Tanh())
        self.head = nn.Linear(6, n_classes, bias=bias)

    def forward(self, X):
        return self.head(self.body(X))


def net(module=Net, **params):
    return MultiHeadClassifier(module, **FAST | params)


def mlp(**params):
    return MultiHeadMLP(**FAST | {"hidden_sizes": (8,)} | params)


both = pytest.mark.parametrize("make", [net, mlp])


class Start(Callback):
    """Keeps the module as it was before the first step."""

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == 1:
            self.module = pickle.loads(pickle.dumps(net.module_))

    def heads(self, model, X=X):
        """Return the logits (n, n_heads, n_classes) of the untrained heads."""
        rows = torch.from_numpy(model._encode(X, reset=False))
        with torch.no_grad():
            return self.module.train()(rows).double().numpy()


# --- Classes and heads --------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "n_heads"), [(2, 2), (3, 2), (5, 2), (7, 4), (6, 3), (9, 1)])
@pytest.mark.parametrize("head_weight", [None, 3.0])
def test_classes_are_shared_out_evenly(n_classes, n_heads, head_weight):
    data, codes = table(80, n_classes)
    labels = np.array([f"class {code}" for code in range(n_classes)])
    model = net(n_heads=n_heads, head_weight=head_weight, max_epochs=1).fit(data, labels[codes])
    groups = model.class_groups_
    assert len(groups) == n_heads
    assert sorted(np.concatenate(groups).tolist()) == labels.tolist()
    sizes = [len(group) for group in groups]
    assert max(sizes) - min(sizes) <= 1
    strong = n_heads if head_weight is None else head_weight
    for group, row in zip(groups, model.class_weights_, strict=True):
        assert_array_equal(row, np.where(np.isin(labels, group), strong, 1 / strong))


@both
def test_the_seed_deals_the_classes(make):
    data, codes = table(80, 8)
    fitted = [make(random_state=seed, max_epochs=1).fit(data, codes) for seed in (0, 0, 1)]
    weights = [model.class_weights_ for model in fitted]
    assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
    # Heads of the folds lean alike, or their averages would mix.
    folds = make(n_folds=2, max_epochs=1).fit(data, codes)
    assert_array_equal(folds.class_weights_, weights[0])


@pytest.mark.parametrize(("n_classes", "n_heads"), [(2, 2), (3, 3), (4, 4), (7, 4)])
@both
def test_automatic_heads_are_four_or_one_for_each_class(make, n_classes, n_heads):
    data, codes = table(60, n_classes)
    model = make(n_heads="auto", max_epochs=1).fit(data, codes)
    assert model.class_weights_.shape == (n_heads, n_classes)
    assert model.predict_proba(data, per_head=True).shape == (60, n_heads, n_classes)


@both
def test_heads_of_equal_weights(make):
    model = make(weighting="none", n_heads=3).fit(X, Y)
    assert_array_equal(model.class_weights_, np.ones((3, 3)))
    assert [len(group) for group in model.class_groups_] == [0, 0, 0]
    assert model.disagreement(X).max() > 0  # they still start apart


def one_warning(fit):
    """Return the line and the words of the only warning of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return caught[0].lineno, str(caught[0].message)


@both
def test_heads_without_classes_are_warned_of_once(make):
    def line():
        return inspect.currentframe().f_back.f_lineno

    def fit(model):
        found.append(line())
        model.fit(X, Y)

    found = []
    few = {"n_heads": 5, "max_epochs": 2}
    outer = make_pipeline(StandardScaler(), make(**few))
    for model in (make(**few), make(n_folds=2, **few), make(refit=True, **few), outer):
        number, words = one_warning(lambda model=model: fit(model))
        assert "fewer classes (3) than heads (n_heads=5)" in words
        assert number == found[-1] + 1  # the line that called fit
    model = make(**few)
    assert one_warning(lambda: model.partial_fit(X, Y))[0] == line()
    model.partial_fit(X, Y)  # silently: it has been said
    assert_array_equal(np.sort(model.class_weights_.max(axis=1)), [1, 1, 5, 5, 5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(n_heads=3).fit(X, Y)
        make(n_heads="auto").fit(X, Y)


# --- The loss -----------------------------------------------------------------------------


def by_hand(heads, y, weight, class_weights, mean_loss):
    """Return the loss by its formula, head by head."""
    terms = []
    for head in range(heads.shape[1]):
        factor = weight * class_weights[head, y]
        own = -log_softmax(heads[:, head], axis=1)[np.arange(len(y)), y]
        terms.append(factor @ own / factor.sum())
    if mean_loss:
        together = -log_softmax(heads.mean(axis=1), axis=1)[np.arange(len(y)), y]
        terms.append(weight @ together / weight.sum())
    return np.mean(terms)


@both
@pytest.mark.parametrize("mean_loss", [True, False])
@pytest.mark.parametrize(
    "params",
    [{}, {"weighting": "none"}, {"head_weight": 5.0}, {"n_heads": 3}, {"n_heads": 1}],
    ids=["two", "equal", "weight", "three", "one"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_loss_is_that_of_the_formula(make, mean_loss, params, weighted):
    start = Start()
    if make is mlp:
        params = params | {"dropout": 0.0}
    model = make(mean_loss=mean_loss, callbacks=[start], **EXACT | params)
    weight = WEIGHT if weighted else np.ones(96)
    model.fit(X, Y, sample_weight=weight if weighted else None)
    heads = start.heads(model)
    assert heads.shape == (96, len(model.class_groups_), 3)
    expected = by_hand(heads, Y, weight, model.class_weights_, mean_loss)
    assert model.history_[0, "train_loss"] == pytest.approx(expected, rel=1e-12)
    assert model.history_[0, "criterion"] == pytest.approx(expected, rel=1e-12)


def test_the_loss_of_published_code():
    heads = np.array(
        [
            [[2, 0, -1], [1, 0.5, 0]],
            [[0, 1, 0], [0, 2, 0]],
            [[0.5, 0.5, 2], [0, 0, 1]],
            [[-1, 0, 1], [1, 0, 1]],
        ]
    )
    weights = np.array([[2, 0.5, 0.5], [0.5, 2, 2]])
    total = by_hand(heads, np.array([0, 1, 2, 1]), np.ones(4), weights, True)
    assert total == pytest.approx(0.6598680812, abs=1e-10)  # so that the formula above is theirs
    for averaging, expected in {
        "proba": [0.675138, 0.210696, 0.114167],
        "logit": [0.703314, 0.201503, 0.095183],
    }.items():
        average = Heads(1, 3, 2, averaging).average(torch.from_numpy(heads))
        assert_allclose(average.softmax(dim=1)[0], expected, atol=1e-6)


@both
def test_heads_take_the_losses_of_their_rows(make):
    key = "loss" if make is mlp else "criterion"
    start = Start()
    extra = {"dropout": 0.0} if make is mlp else {}
    model = make(callbacks=[start], **EXACT, **extra, **{key: "brier"}).fit(X, Y)
    heads = start.heads(model)
    rows = np.square(softmax(heads, axis=2) - np.eye(3)[Y][:, None]).sum(axis=2)
    together = np.square(softmax(heads.mean(axis=1), axis=1) - np.eye(3)[Y]).sum(axis=1).mean()
    own = [np.average(rows[:, h], weights=model.class_weights_[h, Y]) for h in range(2)]
    assert model.history_[0, "criterion"] == pytest.approx(np.mean([*own, together]), rel=1e-9)


# --- Where the heads are best -------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "n_heads"), [(2, 2), (5, 2), (7, 4), (4, 4)])
def test_averages_of_the_best_heads(n_classes, n_heads):
    eta = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.7), size=500)
    weights = partition_weights(n_classes, n_heads, random_state=0)
    heads = weights * eta[:, None]  # what each weighted cross-entropy asks for, up to its sum
    logits = torch.from_numpy(np.log(heads))

    def together(averaging):
        average = Heads(1, n_classes, n_heads, averaging).average(logits)
        return average.softmax(dim=1).numpy()

    assert_allclose(together("logit"), eta, rtol=0, atol=1e-12)
    assert np.abs(together("proba") - eta).max() > 0.05
    assert together("proba").max(axis=1).mean() < eta.max(axis=1).mean() - 0.01


def test_training_finds_them():
    # Five kinds of rows, whose labels have exactly the shares of eta.
    eta = np.random.default_rng(1).dirichlet(np.ones(4), size=5)
    kinds, labels = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    params = {"optimizer": torch.optim.LBFGS, "lr": 1.0, "mean_loss": False, "weight_decay": 0.0}
    exact = EXACT | {"max_epochs": 40, "optimizer__line_search_fn": "strong_wolfe"}
    model = net(nn.Sequential(nn.Linear(5, 4)), averaging="logit", **exact | params)
    model.fit(np.eye(5)[kinds], labels, sample_weight=eta.ravel())
    expected = model.class_weights_ * eta[:, None]
    expected /= expected.sum(axis=2, keepdims=True)
    assert_allclose(model.predict_proba(np.eye(5), per_head=True), expected, atol=1e-4)
    assert_allclose(model.predict_proba(np.eye(5)), eta, atol=1e-4)
    assert_allclose(model.disagreement(np.eye(5)), 0, atol=1e-6)


# --- Modules of users ---------------------------------------------------------------------


class Nested(nn.Module):
    """Two layers with an output per class, the last of them deep inside."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.gate = nn.Linear(n_inputs, n_classes)
        self.out = nn.ModuleDict({"final": nn.Linear(n_classes, n_classes)})

    def forward(self, X):
        return self.out["final"](torch.tanh(self.gate(X)))


class Backwards(nn.Module):
    """Its output layer is defined before another of the same width."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.head = nn.Linear(n_classes, n_classes)
        self.gate = nn.Linear(n_inputs, n_classes)

    def forward(self, X):
        return self.head(torch.tanh(self.gate(X)))


@pytest.mark.parametrize(
    ("module", "params", "path"),
    [
        (Net, {}, "head"),
        (Net, {"head": "head"}, "head"),
        (Net, {"module__bias": False}, "head"),
        (Nested, {}, "out.final"),
        (Nested, {"head": "out.final"}, "out.final"),
        (Backwards, {"head": "head"}, "head"),
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), {}, "2"),
    ],
)
def test_the_output_layer_becomes_heads(module, params, path):
    model = net(module, max_epochs=15, **params).fit(X, Y)
    parts = dict(model.module_.named_modules())
    assert [name for name, part in parts.items() if isinstance(part, Heads)] == [path]
    linear = parts[path].linear
    assert linear.weight.shape == (6, parts[path].linear.in_features)
    assert (linear.bias is None) == ("module__bias" in params)
    assert log_loss(Y, model.predict_proba(X)) < log_loss(Y, np.tile(np.bincount(Y) / 96, (96, 1)))
    # An instance is copied: that of the caller keeps its layer.
    if isinstance(module, nn.Module):
        assert not any(isinstance(part, Heads) for part in module.modules())


class Scaled(Net):
    def forward(self, X):
        return 2 * super().forward(X)


class LogSoftmax(Net):
    def forward(self, X):
        return super().forward(X).log_softmax(dim=-1)


class Unused(Net):
    """Defines a layer that it never runs."""

    def __init__(self, n_inputs, n_classes):
        super().__init__(n_inputs, n_classes)
        self.spare = nn.Linear(6, n_classes)


class Wide(nn.Module):
    """Has no layer with an output per class."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_inputs, n_classes))

    def forward(self, X):
        return X @ self.weight


class Lazy(nn.Module):
    """Learns how many inputs its layers have from the first rows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(3))

    def forward(self, X):
        return self.layers(X)


@pytest.mark.parametrize(
    ("module", "params", "words"),
    [
        (Lazy, {}, "has none. Give it one as its output layer"),
        (Net, {"head": "haed"}, r"none of the name 'haed'.*Those it has are \['head'\]"),
        (Net, {"head": "body"}, "none of the name 'body'"),
        (Net, {"head": "body.0"}, "none of the name 'body.0'"),
        (Nested, {"head": "final"}, r"\['gate', 'out.final'\]"),
        (Nested, {"head": "gate"}, "does not return what its layer of heads returns"),
        (Backwards, {}, "does not return what its layer of heads returns.*head=\\.\\.\\."),
        (Scaled, {}, "does not return what its layer of heads returns"),
        (LogSoftmax, {}, "does not return what its layer of heads returns"),
        (Unused, {}, "does not return what its layer of heads returns"),
        (Wide, {}, "has none. Give it one as its output layer"),
        (nn.Linear(4, 3), {}, "has none. Give it one as its output layer"),
    ],
)
def test_modules_whose_output_layer_is_not_found_are_refused(module, params, words):
    model = net(module, **params)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    if module is Unused:
        net(module, head="head").fit(X, Y)


class LooksBack(Net):
    """Runs another layer after its heads, on something else."""

    def __init__(self, n_inputs, n_classes):
        super().__init__(n_inputs, n_classes)
        self.inputs_again = nn.Linear(6, n_inputs)

    def forward(self, X):
        hidden = self.body(X)
        logits = self.head(hidden)
        self.inputs_again(hidden**2)
        return logits


@pytest.mark.parametrize("averaging", ["proba", "logit"])
def test_heads_are_read_whatever_runs_after_them(averaging):
    model = net(LooksBack, head="head", averaging=averaging).fit(X, Y)
    each = model.predict_proba(X, per_head=True)
    if averaging == "proba":
        assert_allclose(each.mean(axis=1), model.predict_proba(X), atol=1e-6)
    else:
        together = softmax(np.log(each).mean(axis=1), axis=1)
        assert_allclose(together, model.predict_proba(X), atol=1e-6)


# --- Averages, heads and what comes after -------------------------------------------------


@both
@pytest.mark.parametrize("averaging", ["proba", "logit"])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_heads_answer_by_their_average(make, averaging, n_heads):
    model = make(averaging=averaging, n_heads=n_heads, dtype="float64").fit(X, Y)
    each = model.predict_proba(X, per_head=True)
    assert_allclose(each.sum(axis=2), 1)
    expected = {
        "proba": each.mean(axis=1),
        "logit": softmax(np.log(each).mean(axis=1), axis=1),
    }[averaging]
    proba = model.predict_proba(X)
    assert_allclose(proba, expected, rtol=1e-9)
    assert_allclose(softmax(model.predict_logits(X), axis=1), expected, rtol=1e-9)
    assert_array_equal(model.predict(X), expected.argmax(axis=1))
    # Validation, and hence early stopping, is of the average.
    model.fit(X, Y, X_val=X, y_val=Y)
    best = min(model.history_[:, "valid_loss"])
    assert best == pytest.approx(log_loss(Y, model.predict_proba(X)), rel=1e-9)
    if n_heads == 1:
        assert_array_equal(model.disagreement(X), 0)
        assert_allclose(model.predict_proba(X, per_head=True)[:, 0], model.predict_proba(X))


def test_heads_lean_towards_their_classes():
    data, codes = table(300, 4)
    model = net(max_epochs=40, lr=0.05).fit(data, codes)
    each = model.predict_proba(data, per_head=True).mean(axis=0)
    for group, other in zip(model.class_groups_, model.class_groups_[::-1], strict=True):
        head = [own is group for own in model.class_groups_].index(True)
        assert each[head, group].sum() > each[1 - head, group].sum() + 0.2
        assert each[head, other].sum() < each[1 - head, other].sum() - 0.2


@both
def test_per_head_is_taken_back_to_the_base_rates_too(make):
    factors = {0: 0.5, 1: 6.0, 2: 1.0}
    weighted = make(class_weight=factors, dtype="float64").fit(X, Y)
    model = clone(weighted).set_params(prior_correction=True).fit(X, Y)
    expected = weighted.predict_proba(X, per_head=True) / [*factors.values()]
    expected /= expected.sum(axis=2, keepdims=True)
    assert_allclose(model.predict_proba(X, per_head=True), expected, rtol=1e-9)
    # What shifts all heads alike changes the disagreement, but not by the weights of heads.
    assert model.disagreement(X).max() < np.log(2)


@both
def test_folds(make):
    model = make(n_folds=3, dtype="float64").fit(X, Y)
    assert isinstance(model.module_, FoldEnsemble)
    each = []
    for network in model.module_.networks:
        alone = pickle.loads(pickle.dumps(model))
        alone.module_ = network
        each.append(alone.predict_proba(X, per_head=True))
    assert_allclose(model.predict_proba(X, per_head=True), np.mean(each, axis=0), rtol=1e-9)
    assert_allclose(model.predict_proba(X), np.mean(each, axis=(0, 2)), rtol=1e-9)
    unleaned = np.concatenate([p / model.class_weights_ for p in each], axis=1)
    unleaned /= unleaned.sum(axis=2, keepdims=True)
    mean = unleaned.mean(axis=1)
    expected = entropy(mean, axis=1) - entropy(unleaned, axis=2).mean(axis=1)
    assert_allclose(model.disagreement(X), expected, rtol=1e-6, atol=1e-12)
    assert model.disagreement(X).max() <= np.log(6)
    assert model.embed(X).shape == (96, 3 * (6 if make is net else 8))


@both
def test_calibration_is_of_the_average(make):
    raw = make(dtype="float64").fit(X, Y)
    model = make(calibrate=True, dtype="float64").fit(X, Y)
    assert_allclose(
        model.predict_proba(X, per_head=True), raw.predict_proba(X, per_head=True), rtol=1e-9
    )
    assert_allclose(model.disagreement(X), raw.disagreement(X))
    scaled = softmax(raw.predict_logits(X) / model.calibrator_.temperature_, axis=1)
    assert_allclose(model.predict_proba(X), scaled, rtol=1e-9)


@pytest.mark.parametrize("calibrator", ["temperature", "vector", "isotonic"])
@both
def test_calibrated_classifiers_of_it(make, calibrator):
    model = CalibratedClassifier(make(), calibrator, cv=2).fit(X, Y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-6)
    assert model.calibrated_classifiers_[0].source == "predict_logits"


def test_a_deep_ensemble_of_it():
    model = DeepEnsembleClassifier(mlp(), n_members=2, random_state=0).fit(X, Y)
    members = [member.predict_proba(X) for member in model.estimators_]
    assert_allclose(model.predict_proba(X), np.mean(members, axis=0), atol=1e-6)
    assert not np.allclose(*members)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of the compiler
@both
def test_heads_of_a_compiled_network(make):
    model = make().fit(X, Y)
    compiled = make(compile=True, compile__backend="eager").fit(X, Y)
    for method in ("predict_proba", "disagreement"):
        assert_array_equal(getattr(compiled, method)(X), getattr(model, method)(X))
    each = compiled.predict_proba(X, per_head=True)
    assert_array_equal(each, model.predict_proba(X, per_head=True))


@both
def test_copies_answer_the_same(make):
    model = make().fit(X, Y)
    for copied in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, Y)):
        assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
        assert_array_equal(
            copied.predict_proba(X, per_head=True), model.predict_proba(X, per_head=True)
        )
        assert_array_equal(copied.disagreement(X), model.disagreement(X))
    with pytest.raises(NotFittedError):
        clone(model).disagreement(X)
    with pytest.raises(NotFittedError):
        clone(model).predict_proba(X, per_head=True)


@both
def test_parameters_are_searched(make):
    grid = {"n_heads": [1, 2], "averaging": ["proba", "logit"], "head_weight": [None, 8.0]}
    search = GridSearchCV(make(), grid, cv=2, scoring="neg_log_loss").fit(X, Y)
    assert len({*search.cv_results_["mean_test_score"].round(9)}) > 4


@both
def test_training_goes_on_with_the_same_heads(make):
    model = make(warm_start=True).fit(X, Y)
    before = model.class_weights_
    model.set_params(n_heads=3).fit(X, Y)
    assert len(model.history_) == 6
    assert_array_equal(model.class_weights_, before)
    model = make()
    model.partial_fit(X[Y < 2], Y[Y < 2], classes=[0, 1, 2]).partial_fit(X, Y)
    assert model.class_weights_.shape == (2, 3)
    assert model.predict_proba(X, per_head=True).shape == (96, 2, 3)


def test_embed_is_what_the_heads_read():
    model = net().fit(X, Y)
    with torch.no_grad():
        hidden = model.module_.body(torch.from_numpy(X.astype(np.float32))).numpy()
    assert_allclose(model.embed(X), hidden, atol=1e-6)


@both
@pytest.mark.parametrize("averaging", ["proba", "logit"])
def test_smoothing_is_of_the_average(make, averaging):
    start = Start()
    extra = {"dropout": 0.0} if make is mlp else {}
    params = {"smoothing": 2.0, "warmup": 0, "averaging": averaging, "callbacks": [start]}
    model = make(**EXACT, **params, **extra).fit(X, Y)
    heads = start.heads(model)
    proba = {
        "proba": softmax(heads, axis=2).mean(axis=1),
        "logit": softmax(heads.mean(axis=1), axis=1),
    }[averaging]
    rows = torch.from_numpy(model._encode(X, reset=False))
    with torch.no_grad():
        body = start.module.eval().body
        rows = start.module.embed_columns(rows) if make is mlp else rows
        hidden = body(rows).numpy()
    unit = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
    nearest = NearestNeighbors(n_neighbors=10).fit(unit).kneighbors(return_distance=False)
    expected = np.mean(jensenshannon(proba, proba[nearest].mean(axis=1), axis=1) ** 2)
    epoch = model.history_[0]
    assert epoch["penalty"] == pytest.approx(expected, rel=1e-6)
    assert epoch["train_loss"] == pytest.approx(epoch["criterion"] + 2 * expected, rel=1e-6)


# --- Disagreement -------------------------------------------------------------------------


def by_definition(proba):
    """Return the entropy of the mean less the mean of the entropies, (n,), from (n, H, K)."""
    return entropy(proba.mean(axis=1), axis=1) - entropy(proba, axis=2).mean(axis=1)


def test_disagreement_is_of_what_is_left_without_the_weights():
    data, codes = table(200, 5)
    model = net(nn.Sequential(nn.Linear(4, 5)), n_heads=3, **EXACT).fit(data, codes)
    linear = model.module_[0].linear
    slopes = np.random.default_rng(0).normal(size=(5, 4))
    lean = np.log(model.class_weights_)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.tile(slopes, (3, 1))))
        linear.bias.copy_(torch.from_numpy(lean.ravel()))
    # All heads have learned the same, and say it with their weights.
    each = model.predict_proba(data, per_head=True)
    assert np.ptp(each, axis=1).max() > 0.3
    assert_allclose(model.disagreement(data), 0, rtol=0, atol=1e-12)
    # Averaged by logits they are right, by probabilities less sure.
    eta = softmax(data @ slopes.T, axis=1)
    assert model.predict_proba(data).max(axis=1).mean() < eta.max(axis=1).mean()
    model.module_[0].averaging = "logit"
    sums = lean.sum(axis=0)
    assert np.ptp(sums) < 1e-12  # each class is strong in one head
    assert_allclose(model.predict_proba(data), eta, atol=1e-12)
    # One head learns something else.
    with torch.no_grad():
        linear.weight[:5].mul_(3.0)
    logits = np.stack([3 * data @ slopes.T, *[data @ slopes.T] * 2], axis=1)
    expected = by_definition(softmax(logits, axis=2))
    assert_allclose(model.disagreement(data), expected, rtol=1e-9, atol=1e-12)
    assert expected.max() > 0.05


@both
@pytest.mark.parametrize("n_heads", [2, 3])
def test_disagreement_is_between_nothing_and_everything(make, n_heads):
    model = make(n_heads=n_heads, max_epochs=20, lr=0.3).fit(X, Y)
    far = 50 * np.random.default_rng(0).normal(size=(200, 4))
    for rows in (X, far):
        found = model.disagreement(rows)
        assert found.shape == (len(rows),)
        assert found.dtype == np.float64
        assert found.min() >= 0
        assert found.max() <= np.log(n_heads)
    assert found.max() > 0.1


# --- Parameters and presets ---------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"n_heads": 0},
        {"n_heads": "four"},
        {"n_heads": 2.0},
        {"weighting": "balanced"},
        {"head_weight": 0.0},
        {"mean_loss": "yes"},
        {"averaging": "mean"},
    ],
)
@both
def test_wrong_values_are_refused_by_name(make, params):
    [name] = params
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        make(**params).fit(X, Y)


@pytest.mark.parametrize("value", [1, 8])
def test_it_has_no_members(value):
    with pytest.raises(ValueError, match=r"no n_members.*NeSCalMLP.*DeepEnsembleClassifier"):
        mlp(n_members=value).fit(X, Y)
    with pytest.raises(ValueError, match="Invalid parameter 'n_members'"):
        mlp().set_params(n_members=value)
    assert "n_members" not in mlp().get_params()


@pytest.mark.parametrize("preset", ["default", "fast", "strong"])
def test_presets(preset):
    model = MultiHeadMLP(preset=preset, max_epochs=1, random_state=0).fit(X, Y)
    folds = model.module_.networks if preset == "strong" else [model.module_]
    assert len(folds) == (5 if preset == "strong" else 1)
    for network in folds:
        assert network.n_members == 1
        sizes = [p.out_features for p in network.body if isinstance(p, nn.Linear)]
        assert sizes == [256, 256]
        assert network.head.n_heads == 3
    assert model.optimizer_.param_groups[0]["lr"] == 1e-3
    assert (model.calibrator_ is not None) == (preset == "strong")
    [patience] = [c.patience for _, c in model.callbacks_ if isinstance(c, EarlyStopping)]
    assert patience == 12
    given = MultiHeadMLP(preset=preset, hidden_sizes=(4,), lr=0.5, max_epochs=1, n_folds=1)
    given.fit(X, Y)
    assert given.module_.head.linear.in_features == 4
    assert given.optimizer_.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("cls", "parent", "missing"),
    [(MultiHeadClassifier, NeSCalClassifier, set()), (MultiHeadMLP, NeSCalMLP, {"n_members"})],
)
def test_inherited_parameters_are_shown(cls, parent, missing):
    ours, theirs = inspect.signature(cls).parameters, inspect.signature(parent).parameters
    own = {"n_heads", "weighting", "head_weight", "mean_loss", "averaging"}
    own |= {"head"} if cls is MultiHeadClassifier else set()
    assert {*ours} == ({*theirs} | own) - missing
    assert ours["smoothing"].default == 0.0
    for name in {*ours} - own - {"smoothing"}:
        assert ours[name] == theirs[name]
    given = {k: v.default for k, v in ours.items() if v.kind != inspect.Parameter.VAR_KEYWORD}
    assert cls().get_params(deep=False) == given
    assert repr(cls(n_heads=3, lr=0.1)) == f"{cls.__name__}(lr=0.1, n_heads=3)"
    assert repr(cls()) == f"{cls.__name__}()"
    # Each parameter is documented once, its own words before those of the base.
    section = cls.__doc__.split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]
    names = [
        name
        for line in section.splitlines()
        if line and not line.startswith(" ")
        for name in line.partition(" : ")[0].split(", ")
    ]
    assert sorted(names) == sorted({*ours} - {"kwargs"} | {"**kwargs"})
    assert "Weight of Neighborhood Smoothing, of the heads' average." in section
    attributes = cls.__doc__.split("Attributes\n----------\n")[1].split("\nSee Also\n")[0]
    assert attributes.count("module_ : ") == 1
    for name in ("class_weights_", "class_groups_", "history_", "calibrator_", "best_epoch_"):
        assert attributes.count(f"\n{name} : ") + attributes.startswith(f"{name} : ") == 1
    headings = ["Parameters", "Attributes", "See Also", "Notes", "References", "Examples"]
    places = [cls.__doc__.index(f"\n{heading}\n---") for heading in headings]
    assert places == sorted(places)


def test_parameters_of_a_base_are_merged():
    class Base:
        """Do it.

        Parameters
        ----------
        first : int
            Of the base.
        a, b : int, default=1
            Two at once.
        left_out : int, default=2
            Not below.
        **kwargs
            More.

        Attributes
        ----------
        x_ : int
            Of the base.
        y_ : int
            Of both.
        """

        def __init__(self, first, *, a=1, b=1, left_out=2, **kwargs): ...

    @with_parameters_of(Base, without={"left_out"})
    class Below(Base):
        """Do it better.

        More words: a : sign.

        Parameters
        ----------
        first : int
            Of its own.
        c : int, default=3
            New.
        **kwargs
            Those of Base.

        Attributes
        ----------
        y_ : int
            Of its own.

        Examples
        --------
        None.
        """

        def __init__(self, first, *, c=3, **kwargs): ...

    assert str(inspect.signature(Below)) == "(first, *, c=3, a=1, b=1, **kwargs)"
    assert inspect.cleandoc(Below.__doc__) == inspect.cleandoc(
        """Do it better.

        More words: a : sign.

        Parameters
        ----------
        first : int
            Of its own.
        c : int, default=3
            New.
        a, b : int, default=1
            Two at once.
        **kwargs
            More.

        Attributes
        ----------
        x_ : int
            Of the base.
        y_ : int
            Of its own.

        Examples
        --------
        None.
        """
    )
    assert Base.__doc__.count("left_out") == 1
