"""The strong mode: honest targets against a slow reckoning, and the choice between two networks."""

import pickle

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification
from skorch.callbacks import Callback
from torch import nn
from torch.nn.functional import kl_div

from skcal import CalibratedClassifier, MultiHeadMLP, NeSCalClassifier, NeSCalMLP
from skcal.neural import _honest_net
from skcal.neural._honest import FoldAnswers, HonestTargets
from skcal.neural._rows import Rows
from skcal.neural._splits import folds_of

X, Y = make_classification(
    300, n_informative=5, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0
)


def mlp(**params):
    defaults = {
        "n_members": 1,
        "num_embedding": None,
        "hidden_sizes": (16,),
        "max_epochs": 12,
        "n_iter_no_change": 5,
        "random_state": 0,
    }
    return NeSCalMLP(**defaults | params)


def weights_of(model):
    return [value.clone() for value in model.module_.state_dict().values()]


def same_weights(a, b):
    return all(torch.equal(u, v) for u, v in zip(weights_of(a), weights_of(b), strict=True))


def answers(n=40, n_classes=3, seed=0):
    """Return rows in two folds of different size, with what networks say of them."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(n_classes, (n,), generator=g)
    weight = torch.rand(n, generator=g) + 0.5
    order = torch.randperm(n, generator=g)
    folds = [
        FoldAnswers(
            rows,
            torch.randn(len(rows), 4, generator=g),
            torch.randn(len(rows), n_classes, generator=g).log_softmax(1),
        )
        for rows in (order[: n // 3], order[n // 3 :])
    ]
    return folds, y, weight


# --- Targets ------------------------------------------------------------------------------------


def test_targets_equal_a_slow_loop():
    folds, y, weight = answers()
    found = HonestTargets(folds, y, weight, n_neighbors=5, seed=0)
    for fold in folds:
        Z = fold.embeddings / fold.embeddings.norm(dim=1, keepdim=True)
        for place, row in enumerate(fold.rows.tolist()):
            similarity = (Z @ Z[place]).tolist()
            similarity[place] = -2
            near = sorted(range(len(Z)), key=lambda j, s=similarity: -s[j])[:5]
            assert set(found.neighbors_[row].tolist()) == {fold.rows[j].item() for j in near}
            total = sum(weight[fold.rows[j]].item() for j in near)
            expected = np.zeros(3)
            for j in near:
                label = fold.rows[j]
                expected[y[label]] += 0.5 * weight[label].item() / total
            predicted = [fold.log_proba[j].exp().numpy() for j in [place, *near]]
            expected += 0.5 * np.mean(predicted, axis=0)
            assert found.proba_[row].numpy() == pytest.approx(expected, abs=1e-6)


def test_the_target_of_a_row_does_not_know_its_label():
    folds, y, weight = answers()
    before = HonestTargets(folds, y, weight, n_neighbors=5, seed=0)
    for row in range(40):
        other = y.clone()
        other[row] = (y[row] + 1) % 3
        after = HonestTargets(folds, other, weight, n_neighbors=5, seed=0)
        assert torch.equal(after.proba_[row], before.proba_[row])
        moved = (after.proba_ != before.proba_).any(1)
        assert set(moved.nonzero().flatten().tolist()) <= set(
            (before.neighbors_ == row).any(1).nonzero().flatten().tolist()
        )


def test_neighbours_are_of_the_same_fold():
    folds, y, weight = answers()
    found = HonestTargets(folds, y, weight, n_neighbors=5, seed=0)
    fold_of = torch.empty(40, dtype=torch.int64)
    for number, fold in enumerate(folds):
        fold_of[fold.rows] = number
    assert torch.equal(fold_of[found.neighbors_], fold_of.unsqueeze(1).expand(-1, 5))


def test_more_neighbours_than_a_fold_has_are_all_of_it():
    folds, y, weight = answers(n=12)
    found = HonestTargets(folds, y, weight, n_neighbors=10, seed=0)
    assert torch.allclose(found.proba_.sum(1), torch.ones(12))
    few = folds[0].rows.tolist()
    assert set(found.neighbors_[few[0]].tolist()) == set(few[1:])
    assert 0 <= found.homophily(y)[0] <= 1


def test_the_penalty_is_the_divergence_to_the_targets():
    folds, y, weight = answers()
    targets = HonestTargets(folds, y, weight, n_neighbors=5, seed=0)
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(1)).double()
    index, weight = torch.tensor([3, 1, 8, 39, 0, 7, 20]), weight[:7].double()
    logits.requires_grad_()
    found = targets.penalty(logits, index, weight=weight)
    each = kl_div(logits.log_softmax(1), targets.proba_[index].double(), reduction="none").sum(1)
    expected = (each * weight).mean()
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    found.backward()
    p, t = logits.softmax(1), targets.proba_[index]
    gradient = (weight / 7).unsqueeze(1) * (p - t)
    assert torch.allclose(logits.grad, gradient.detach(), atol=1e-6)
    at_targets = targets.penalty(targets.proba_[index].log().double(), index, weight=weight)
    assert abs(at_targets.item()) < 1e-6


def test_a_target_of_no_chance_is_finite():
    rows = torch.arange(6)
    certain = torch.tensor([[0.0, -200.0]] * 6)
    targets = HonestTargets(
        [FoldAnswers(rows, torch.eye(6), certain)],
        torch.zeros(6, dtype=torch.int64),
        torch.ones(6),
        n_neighbors=2,
        seed=0,
    )
    logits = torch.tensor([[300.0, -300.0]] * 6, requires_grad=True)
    value = targets.penalty(logits, rows, weight=torch.ones(6))
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-6)
    assert torch.isfinite(logits.grad).all()


# --- The choice ---------------------------------------------------------------------------------


@pytest.fixture
def rigged(monkeypatch):
    """Return a function that makes one of the two networks the better one."""

    def rig(winner):
        real = _honest_net.HonestNet._best_valid_loss

        def loss(self):
            number = len(seen)
            seen.append(real(self))
            return seen[-1] - 10 * (number == ("smoothed", "honest").index(winner))

        seen: list = []
        monkeypatch.setattr(_honest_net.HonestNet, "_best_valid_loss", loss)

    return rig


def test_the_first_network_is_the_one_without_the_strong_mode(rigged):
    rigged("smoothed")
    plain, strong = mlp().fit(X, Y), mlp(honest_folds=2).fit(X, Y)
    assert same_weights(plain, strong)
    assert plain.history_[:, "valid_loss"] == strong.history_[:, "valid_loss"]
    assert plain.honest_losses_ is None
    assert_array_equal(plain.predict_proba(X), strong.predict_proba(X))


def test_the_other_network_is_kept_with_all_that_belongs_to_it(rigged):
    rigged("honest")
    plain, strong = mlp().fit(X, Y), mlp(honest_folds=2, keep_graph=True).fit(X, Y)
    assert not same_weights(plain, strong)
    assert strong.n_iter_ == len(strong.history_)
    best = strong.history_[strong.best_epoch_ - 1, "valid_loss"]
    assert best == min(strong.history_[:, "valid_loss"])
    assert strong.honest_losses_["honest"] == pytest.approx(best - 10)
    assert isinstance(strong.neighborhood_, HonestTargets)
    assert set(strong.history_[:, "smoothing"]) == {1.0}
    assert np.isfinite(strong.history_[:, "penalty"]).all()
    assert strong.graph_homophily_.share > strong.graph_homophily_.chance


def test_the_lower_validation_loss_decides():
    kept = []
    for seed in range(6):
        model = mlp(honest_folds=2, random_state=seed).fit(X, Y)
        losses = model.honest_losses_
        plain = mlp(random_state=seed).fit(X, Y)
        assert losses["smoothed"] == min(plain.history_[:, "valid_loss"])
        best = min(model.history_[:, "valid_loss"])
        assert best == min(losses.values())
        kept.append(losses["honest"] < losses["smoothed"])
        assert same_weights(model, plain) is not kept[-1]
    assert True in kept


def test_a_network_of_a_fold_has_not_seen_it():
    seen = []

    class Watched(NeSCalClassifier):
        def _train(self, rows, **params):
            seen.append((self.honest_folds, len(rows), rows.X.clone(), rows.valid.X.clone()))
            super()._train(rows, **params)

    Watched(honest_folds=3, max_epochs=2, random_state=0).fit(X, Y)
    assert [one[:2] for one in seen] == [(3, 255), (0, 170), (0, 170), (0, 170)]
    everything = seen[0][2]
    for _, _, part, valid in seen[1:]:
        assert torch.equal(valid, seen[0][3])
        in_part = (everything.unsqueeze(1) == part.unsqueeze(0)).all(2).any(1)
        assert in_part.sum() == 170


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_seed_is_a_network_however_folds_are_trained(n_jobs, backend):
    one = mlp(honest_folds=2).fit(X, Y)
    with joblib.parallel_config(backend):
        two = mlp(honest_folds=2, n_jobs=n_jobs).fit(X, Y)
    assert one.honest_losses_ == two.honest_losses_
    assert same_weights(one, two)
    assert mlp(honest_folds=2, random_state=1).fit(X, Y).honest_losses_ != one.honest_losses_


def test_nothing_of_it_is_left(rigged):
    rigged("honest")
    strong = mlp(honest_folds=2).fit(X, Y)
    left = [value for value in vars(strong).values() if isinstance(value, HonestTargets | Rows)]
    assert left == []
    assert len(pickle.dumps(strong)) < 1.2 * len(pickle.dumps(mlp().fit(X, Y)))
    copy = pickle.loads(pickle.dumps(strong))
    assert_array_equal(copy.predict_proba(X), strong.predict_proba(X))


class Notes(Callback):
    def __init__(self):
        self.trained = 0

    def on_train_begin(self, net, **kwargs):
        self.trained += 1


def test_callbacks_see_both_networks_and_not_those_of_folds():
    notes = Notes()
    mlp(honest_folds=4, callbacks=[notes]).fit(X, Y)
    assert notes.trained == 2


class Module(nn.Module):
    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_inputs, 8), nn.ReLU(), nn.Linear(8, n_classes))

    def forward(self, X):
        return self.layers(X)


@pytest.mark.parametrize(
    "model",
    [
        NeSCalClassifier(Module, max_epochs=4, honest_folds=2, random_state=0),
        NeSCalMLP(max_epochs=3, honest_folds=2, random_state=0),
        MultiHeadMLP(max_epochs=3, honest_folds=2, random_state=0),
        mlp(max_epochs=3, honest_folds=2, calibrate=True),
        mlp(max_epochs=3, honest_folds=2, n_folds=2),
        mlp(max_epochs=3, honest_folds=2, loss="mixup"),
        mlp(max_epochs=3, honest_folds=2, loss="mmce", smoothing=0),
        mlp(max_epochs=3, honest_folds=2, dtype="float64", class_weight="balanced"),
        CalibratedClassifier(mlp(max_epochs=3, honest_folds=2), cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_it_goes_with_everything(model):
    proba = model.fit(X, Y).predict_proba(X)
    assert np.isfinite(proba).all()
    assert proba.sum(1) == pytest.approx(1, abs=1e-5)


def test_groups_stay_in_a_fold():
    groups = np.repeat(np.arange(60), 5)
    rows = Rows(X.astype(np.float32), Y, groups=groups)
    for is_held_out in folds_of(rows, 3, 0):
        assert not set(groups[is_held_out]) & set(groups[~is_held_out])
    mlp(honest_folds=2, max_epochs=2).fit(X, Y, groups=groups)


def test_a_class_of_a_single_row_is_answered():
    y = Y.copy()
    y[0] = 7
    model = mlp(honest_folds=3, max_epochs=2).fit(X, y)
    assert model.predict_proba(X).shape == (300, 4)


def test_weights_of_two_are_rows_twice_in_the_frequencies():
    folds, y, _ = answers(n=20)
    heavy = torch.where(torch.arange(20) == 4, 2.0, 1.0)
    one = HonestTargets(folds, y, heavy, n_neighbors=4, seed=0)
    for row in (one.neighbors_ == 4).any(1).nonzero().flatten():
        near = one.neighbors_[row]
        counts = np.bincount(
            np.repeat(y[near].numpy(), heavy[near].numpy().astype(int)), minlength=3
        )
        fold = next(fold for fold in folds if row in fold.rows)
        places = [(fold.rows == j).nonzero().item() for j in [row, *near]]
        predicted = fold.log_proba[places].exp().mean(0).numpy()
        expected = 0.5 * counts / counts.sum() + 0.5 * predicted
        assert one.proba_[row].numpy() == pytest.approx(expected, abs=1e-6)


# --- Wrong input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"honest_folds": 1}, "'honest_folds' parameter"),
        ({"honest_folds": -2}, "'honest_folds' parameter"),
        ({"honest_weight": 0}, "'honest_weight' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"honest_folds": 2, "early_stopping": False}, "leaves no validation rows"),
        ({"honest_folds": 2, "refit": True}, "does not go with refit=True"),
        ({"honest_folds": 2, "warm_start": True}, "warm_start=True goes on with one network"),
        ({"honest_folds": 2, "embedding": "nowhere"}, "embedding='nowhere'"),
    ],
)
def test_what_does_not_go_together_is_told(params, words):
    with pytest.raises(ValueError, match=words):
        mlp(**params).fit(X, Y)


def test_partial_fit_needs_all_rows():
    with pytest.raises(ValueError, match="partial_fit goes on with one network, but honest_folds"):
        mlp(honest_folds=2).partial_fit(X, Y)


def test_validation_rows_of_the_user_choose_after_a_fixed_number_of_epochs():
    model = mlp(honest_folds=2, early_stopping=False, max_epochs=4)
    model.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:])
    assert model.n_iter_ == model.best_epoch_ == 4
    last = model.history_[-1, "valid_loss"]
    assert last == min(model.honest_losses_.values())
