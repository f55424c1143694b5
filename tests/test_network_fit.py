"""How networks are trained: averages of weights, decay, learning rates, and when to stop."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.metrics import log_loss
from skorch.callbacks import Callback
from torch import nn

from skcal import NeSCalMLP
from skcal.calibration import TemperatureScaling
from skcal.neural import NetClassifier


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
X_VAL, Y_VAL = table(60, seed=7)
FAST = {"max_epochs": 4, "batch_size": 32, "lr": 0.02, "random_state": 0}


def mlp(**params):
    return NeSCalMLP(**FAST | {"hidden_sizes": (8,), "n_members": 2, "smoothing": 0} | params)


class Net(nn.Module):
    """A user's module without randomness."""

    def __init__(self, n_inputs=4, n_classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_inputs, 6), nn.Tanh())
        self.head = nn.Linear(6, n_classes)

    def forward(self, X):
        return self.head(self.body(X))


def net(**params):
    return NetClassifier(Net, **FAST | params)


def weights_of(model):
    return [p.detach().clone() for p in model.module_.parameters()]


def same_weights(ours, theirs, atol=1e-6):
    return all(torch.allclose(a, b, atol=atol) for a, b in zip(ours, theirs, strict=True))


def averages(start, steps, decay):
    """Return the moving average after each step, by the formula of the documentation."""
    average, after = [w.double() for w in start], []
    for t, weights in enumerate(steps, start=1):
        keep = min(decay, (1 + t) / (10 + t))
        average = [
            keep * a + (1 - keep) * w.double() for a, w in zip(average, weights, strict=True)
        ]
        after.append([a.to(w.dtype) for a, w in zip(average, weights, strict=True)])
    return after


class Watch(Callback):
    """Keeps the weights at the start of each training, after each step and each epoch."""

    def __init__(self):
        self.runs = []

    def on_train_begin(self, net, **kwargs):
        self.runs.append({"start": weights_of(net), "steps": [], "epochs": [], "rates": []})

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.runs[-1]["steps"].append(weights_of(net))
            self.runs[-1]["rates"].append(net.optimizer_.param_groups[0]["lr"])

    def on_epoch_end(self, net, **kwargs):
        run = self.runs[-1]
        run["epochs"].append((len(run["steps"]), weights_of(net)))


def check_epochs(run, decay):
    """Check that every epoch ended with the averages; return those of the epochs."""
    expected = averages(run["start"], run["steps"], decay)
    for n_steps, weights in run["epochs"]:
        assert same_weights(weights, expected[n_steps - 1])
    return [expected[n_steps - 1] for n_steps, _ in run["epochs"]]


# --- Averages of weights ------------------------------------------------------------------


def plain_loop(module, X, y, *, n_epochs, batch_size, lr, decay, weight_decay):
    """Train as the documentation says, with nothing but torch."""
    optimizer = torch.optim.AdamW(
        [
            {"params": [module.body[0].weight, module.head.weight], "weight_decay": weight_decay},
            {"params": [module.body[0].bias, module.head.bias], "weight_decay": 0.0},
        ],
        lr=lr,
    )
    start = [p.detach().clone() for p in module.parameters()]
    steps = []
    for _ in range(n_epochs):
        for first in range(0, len(X), batch_size):
            rows = slice(first, first + batch_size)
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
            optimizer.step()
            steps.append([p.detach().clone() for p in module.parameters()])
    return averages(start, steps, decay)[-1] if decay else steps[-1]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_a_plain_loop_gives_the_same_weights(decay):
    torch.manual_seed(3)
    module = Net().double()
    params = {"lr": 0.05, "weight_decay": 0.3, "batch_size": 32}
    model = NetClassifier(
        copy.deepcopy(module),
        **params,
        max_epochs=25,
        ema_decay=decay,
        early_stopping=False,
        dtype="float64",
        iterator_train__shuffle=False,
        random_state=0,
    ).fit(X, Y)
    rows, codes = torch.from_numpy(X), torch.from_numpy(Y)
    expected = plain_loop(module, rows, codes, **params, n_epochs=25, decay=decay)
    assert same_weights(weights_of(model), expected, atol=1e-9)


def test_the_averages_of_the_best_epoch_are_kept():
    watch = Watch()
    model = mlp(
        ema_decay=0.8, max_epochs=30, lr=0.1, smoothing=1.0, n_iter_no_change=4, callbacks=[watch]
    ).fit(X, Y)
    kept = check_epochs(watch.runs[0], 0.8)
    assert model.best_epoch_ < model.n_iter_  # or nothing would have to be restored
    assert same_weights(weights_of(model), kept[model.best_epoch_ - 1])
    raw = watch.runs[0]["steps"][watch.runs[0]["epochs"][model.best_epoch_ - 1][0] - 1]
    assert not same_weights(weights_of(model), raw, atol=1e-3)


def test_validation_is_of_the_averages():
    model = net(ema_decay=0.9, max_epochs=6).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    best = model.history_[model.best_epoch_ - 1, "valid_loss"]
    assert best == pytest.approx(log_loss(Y_VAL, model.predict_proba(X_VAL)), abs=1e-5)


def test_refit_averages_anew():
    watch = Watch()
    model = mlp(ema_decay=0.8, refit=True, callbacks=[watch]).fit(X, Y)
    first, second = watch.runs
    check_epochs(first, 0.8)
    assert same_weights(weights_of(model), check_epochs(second, 0.8)[-1])
    assert len(second["epochs"]) == model.best_epoch_
    assert same_weights(first["start"], second["start"])


@pytest.mark.parametrize("how", ["warm start", "partial_fit"])
def test_training_goes_on_from_the_averages(how):
    watch = Watch()
    model = net(ema_decay=0.8, callbacks=[watch], early_stopping=False, warm_start=True)
    train = model.fit if how == "warm start" else model.partial_fit
    between = weights_of(train(X, Y))
    train(X, Y)
    first, second = watch.runs
    assert same_weights(between, check_epochs(first, 0.8)[-1])
    assert same_weights(between, second["start"], atol=0)
    assert same_weights(weights_of(model), check_epochs(second, 0.8)[-1])


class Interrupt(Callback):
    """Stops as Ctrl-C does, in the middle of an epoch."""

    def on_batch_end(self, net, training=False, **kwargs):
        if training and len(net.history) == 2 and len(net.history[-1, "batches"]) == 2:
            raise KeyboardInterrupt


def test_an_interrupted_epoch_leaves_the_averages():
    watch = Watch()
    callbacks = [("watch", watch), ("interrupt", Interrupt())]
    model = net(ema_decay=0.9, early_stopping=False, callbacks=callbacks).fit(X, Y)
    run = watch.runs[0]
    assert 4 < len(run["steps"]) < 8
    # The step that is interrupted is not averaged any more.
    expected = averages(run["start"], run["steps"][:-1], 0.9)[-1]
    assert same_weights(weights_of(model), expected)
    assert not same_weights(weights_of(model), run["steps"][-1], atol=1e-3)


def test_nothing_of_the_average_is_left_after_fit():
    sizes = []
    for decay in (0.0, 0.9):
        model = net(ema_decay=decay, early_stopping=False).fit(X, Y)
        sizes.append(len(pickle.dumps(model)))
        assert not hasattr(model, "_average")
    assert abs(sizes[1] - sizes[0]) < 64
    model.set_params(lr=1e9)
    with pytest.raises(ValueError, match="learning rate"):
        model.fit(X, Y)
    assert not hasattr(model, "_average")


def test_batch_statistics_are_not_averaged():
    norm = nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Linear(4, 3))
    params = {"early_stopping": False, "batch_size": -1, "max_epochs": 3, "random_state": 0}
    model = NetClassifier(norm, ema_decay=0.9, **params).fit(X, Y)
    mean = np.zeros(4)
    for _ in range(3):
        mean = 0.9 * mean + 0.1 * X.mean(axis=0)  # torch's momentum
    assert model.module_[0].running_mean.numpy() == pytest.approx(mean, abs=1e-6)


# --- Weight decay -------------------------------------------------------------------------


def groups_by_name(model):
    """Return the group of the optimizer for each name of a weight, each in one group only."""
    names = {id(p): name for name, p in model.module_.named_parameters()}
    groups = [(names[id(p)], g) for g in model.optimizer_.param_groups for p in g["params"]]
    assert sorted(name for name, _ in groups) == sorted(names.values())
    return dict(groups)


MATRICES = {"numbers.linear0.weight", "numbers.linear.weight", "body.1.weight", "head.weight"}
OTHERS = {
    "numbers.linear0.bias",
    "body.1.bias",
    "body.1.r",
    "body.1.s",
    "head.bias",
}
DECAYING = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop]


@pytest.mark.parametrize("optimizer", DECAYING)
def test_matrices_decay_and_nothing_else(optimizer):
    model = mlp(optimizer=optimizer, weight_decay=0.25, max_epochs=1).fit(X, Y)
    decays = {name: group["weight_decay"] for name, group in groups_by_name(model).items()}
    assert decays == dict.fromkeys(MATRICES, 0.25) | dict.fromkeys(OTHERS, 0.0)


@pytest.mark.parametrize("optimizer", [torch.optim.LBFGS, torch.optim.Rprop])
def test_optimizers_without_weight_decay(optimizer):
    model = net(optimizer=optimizer, lr=0.01, batch_size=-1, max_epochs=8).fit(X, Y)
    assert set(groups_by_name(model)) == {
        "body.0.weight",
        "body.0.bias",
        "head.weight",
        "head.bias",
    }
    assert log_loss(Y, model.predict_proba(X)) < math.log(3)
    losses = model.history_[:, "train_loss"]
    assert losses[-1] < losses[0]


def test_the_weight_decay_of_the_optimizer_wins():
    model = mlp(weight_decay=0.25, optimizer__weight_decay=0.5, max_epochs=1).fit(X, Y)
    decays = {name: group["weight_decay"] for name, group in groups_by_name(model).items()}
    assert decays == dict.fromkeys(MATRICES, 0.5) | dict.fromkeys(OTHERS, 0.0)
    model.set_params(optimizer__weight_decay=0.125)  # acts at once, on matrices again
    decays = {name: group["weight_decay"] for name, group in groups_by_name(model).items()}
    assert decays == dict.fromkeys(MATRICES, 0.125) | dict.fromkeys(OTHERS, 0.0)


def test_groups_of_ones_own_keep_their_options():
    own = [("head*", {"lr": 0.1, "weight_decay": 0.75}), ("body*", {"lr": 0.2})]
    model = mlp(weight_decay=0.25, optimizer__param_groups=own, max_epochs=1).fit(X, Y)
    groups = groups_by_name(model)
    expected = {name: (0.02, 0.25 if name in MATRICES else 0.0) for name in groups}
    expected |= {"head.weight": (0.1, 0.75), "head.bias": (0.1, 0.75)}
    expected |= {"body.1.weight": (0.2, 0.25)}
    expected |= {f"body.1.{name}": (0.2, 0.0) for name in ("bias", "r", "s")}
    assert {name: (g["lr"], g["weight_decay"]) for name, g in groups.items()} == expected


# --- Learning rates -----------------------------------------------------------------------


def test_cosine_goes_down_half_a_wave_in_every_fit():
    watch = Watch()
    params = {"max_epochs": 6, "warm_start": True, "early_stopping": False, "callbacks": [watch]}
    model = net(lr_schedule="cosine", **params).fit(X, Y).fit(X, Y)
    expected = [0.02 * (1 + math.cos(math.pi * epoch / 6)) / 2 for epoch in range(6)]
    assert model.history_[:, "event_lr"] == pytest.approx(2 * expected)
    model.set_params(lr=0.01).partial_fit(X, Y)
    assert model.history_[-1, "event_lr"] == pytest.approx(0.01)
    for run in watch.runs[:2]:
        assert run["rates"] == pytest.approx(np.repeat(expected, 4))  # four steps per epoch


def plateau(losses, lr, patience):
    """Return the learning rate of each epoch, by the rule of the documentation."""
    rates, best, n_bad = [], math.inf, 0
    for loss in losses:
        rates.append(lr)
        n_bad = 0 if loss < best else n_bad + 1
        best = min(best, loss)
        if n_bad == patience:
            lr, n_bad = 0.3 * lr, 0
    return rates


@pytest.mark.parametrize(
    ("score", "column"),
    [("log_loss", "valid_loss"), ("scaled_log_loss", "valid_scaled_loss")],
)
@pytest.mark.parametrize("patience", [1, 4, 7])
def test_plateaus_lower_the_learning_rate(score, column, patience):
    params = {"lr_schedule": "plateau", "stopping_score": score, "n_iter_no_change": patience}
    model = net(**params, lr=0.3, max_epochs=25).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    rates, losses = model.history_[:, "event_lr"], model.history_[:, column]
    assert rates == pytest.approx(plateau(losses, 0.3, max(1, patience // 2)))
    if patience > 1:
        assert min(rates) < 0.1


def test_a_plateau_needs_rows_to_look_at():
    with pytest.raises(ValueError, match="'lr_schedule' watches the validation rows"):
        net(lr_schedule="plateau", early_stopping=False).fit(X, Y)
    with pytest.raises(ValueError, match=r"plateau.*held out.*refit=True.*'cosine'"):
        net(lr_schedule="plateau", refit=True).fit(X, Y)


class Gradients(Callback):
    """Keeps the gradient of each step as one vector."""

    def __init__(self):
        self.seen = []

    def on_grad_computed(self, net, named_parameters=(), **kwargs):
        self.seen.append(torch.cat([p.grad.flatten() for _, p in named_parameters]))


def test_long_gradients_are_shortened():
    free, bound = Gradients(), Gradients()
    net(callbacks=[free]).fit(X, Y)
    limit = float(np.median([g.norm() for g in free.seen]))
    net(callbacks=[bound], max_grad_norm=limit).fit(X, Y)
    norms = [float(g.norm()) for g in bound.seen]
    assert max(norms) <= limit * (1 + 1e-5)
    assert min(norms) < limit * 0.99  # shorter ones are left alone
    first = free.seen[0]
    assert torch.allclose(bound.seen[0], first * min(1.0, limit / float(first.norm())), atol=1e-6)


# --- When to stop -------------------------------------------------------------------------


class ValidationLogits(Callback):
    """Keeps the logits of the validation rows after each epoch."""

    def __init__(self):
        self.logits = []

    def on_epoch_end(self, net, dataset_valid=None, **kwargs):
        with torch.no_grad():
            self.logits.append(net.module_.eval()(dataset_valid.X).double().numpy())


@pytest.mark.parametrize("weight", [None, np.where(Y_VAL == 1, 5.0, 1.0)])
def test_scaled_log_loss_is_that_after_temperature_scaling(weight):
    watch = ValidationLogits()
    model = net(stopping_score="scaled_log_loss", lr=0.05, max_epochs=30, callbacks=[watch])
    model.set_params(random_state=2)
    model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, sample_weight_val=weight)
    recorded = model.history_[:, "valid_scaled_loss"]
    expected = []
    counts = None if weight is None else weight / weight.mean()  # 60 rows' worth
    for logits in watch.logits:
        scaling = TemperatureScaling(input="logits").fit(logits, Y_VAL, counts)
        proba = scaling.predict_proba(logits)
        expected.append(log_loss(Y_VAL, proba, sample_weight=weight))
    assert recorded == pytest.approx(expected, abs=1e-5)
    plain = [log_loss(Y_VAL, softmax(z, axis=1), sample_weight=weight) for z in watch.logits]
    assert model.history_[:, "valid_loss"] == pytest.approx(plain, abs=1e-5)
    assert model.best_epoch_ == np.argmin(recorded) + 1
    assert model.best_epoch_ != np.argmin(plain) + 1  # or the score would not matter here
    kept = softmax(watch.logits[model.best_epoch_ - 1], axis=1)
    assert model.predict_proba(X_VAL) == pytest.approx(kept, abs=1e-6)


def test_without_the_score_it_is_not_computed():
    assert "valid_scaled_loss" not in net().fit(X, Y).history_[-1]


def test_a_warm_start_holds_the_same_rows_out_and_goes_on_after_partial_fit():
    model = mlp(warm_start=True, random_state=None, max_epochs=1).fit(X, Y)
    seed = model._split_seed
    assert model.fit(X, Y)._split_seed == seed
    begun = mlp(warm_start=True, max_epochs=1).partial_fit(X, Y)
    assert begun.fit(X, Y).n_iter_ == 2
