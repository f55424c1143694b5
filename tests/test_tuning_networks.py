"""What a search hears of networks: their epochs, and Ctrl-C, however deep they are."""

import warnings

import numpy as np
import optuna
import pytest
from numpy.testing import assert_array_equal
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import RandomSampler
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from skorch.callbacks import Callback

from skcal import CalibratedClassifier, DeepEnsembleClassifier
from skcal.metrics import get_scorer
from skcal.neural import NeSCalClassifier, NetClassifier
from skcal.tuning import OptunaSearch, tune_and_confirm

X, Y = make_classification(240, n_informative=6, n_classes=3, random_state=0)
LR = {"lr": FloatDistribution(1e-3, 1e-2, log=True)}


def net(**params):
    return NetClassifier(**{"max_epochs": 6, "random_state": 0} | params)


def search(estimator, space=None, **params):
    settings = {"n_trials": 2, "cv": 3, "random_state": 0, "pruner": NopPruner()} | params
    return OptunaSearch(estimator, space or LR, **settings)


class GiveUpAt(BasePruner):
    """Gives a trial up at an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def prune(self, study, trial):
        return trial.last_step == self.epoch


class Epochs(Callback):
    """Notes the networks and epochs that are trained."""

    def __init__(self, notes):
        self.notes = notes

    def on_train_begin(self, net, **kwargs):
        self.notes.append(0)

    def on_epoch_end(self, net, **kwargs):
        self.notes[-1] += 1

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self


def test_epochs_of_the_first_fold_are_reported():
    found = search(net()).fit(X, Y)
    train, _ = next(StratifiedKFold(3).split(X, Y))
    for trial in found.study_.trials:
        history = net(**trial.params).fit(X[train], Y[train]).history_
        losses = {epoch + 1: -loss for epoch, loss in enumerate(history[:, "valid_loss"])}
        assert trial.intermediate_values == losses
    assert set(found.cv_results_["state"]) == {"COMPLETE"}


def test_what_stops_a_network_is_what_is_reported():
    found = search(net(stopping_score="scaled_log_loss"), n_trials=1).fit(X, Y)
    train, _ = next(StratifiedKFold(3).split(X, Y))
    history = net(stopping_score="scaled_log_loss", **found.best_params_).fit(X[train], Y[train])
    losses = [-loss for loss in history.history_[:, "valid_scaled_loss"]]
    assert [*found.study_.trials[0].intermediate_values.values()] == losses


def test_a_network_without_validation_rows_reports_nothing():
    found = search(net(early_stopping=False), n_trials=1).fit(X, Y)
    assert found.study_.trials[0].intermediate_values == {}


def test_a_search_changes_nothing_of_a_fit():
    found = search(net(), n_trials=1).fit(X, Y)
    plain = GridSearchCV(
        net(), {"lr": [found.best_params_["lr"]]}, scoring=get_scorer("neg_log_loss"), cv=3
    ).fit(X, Y)
    assert found.best_score_ == plain.best_score_
    assert_array_equal(found.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize(
    "model",
    [
        lambda one: one,
        lambda one: CalibratedClassifier(one, cv=3),
        lambda one: DeepEnsembleClassifier(one, n_members=2),
        lambda one: GridSearchCV(one, {"weight_decay": [0.0, 0.1]}, cv=2),
        lambda one: one.set_params(n_folds=2),
    ],
    ids=["network", "calibrated", "ensemble", "searched", "folds"],
)
def test_a_hopeless_network_is_given_up_at_once_however_deep_it_is(model):
    notes = []
    one = model(net(callbacks=[Epochs(notes)]))
    name = "lr" if "lr" in one.get_params() else "estimator__lr"
    found = search(one, {name: LR["lr"]}, pruner=GiveUpAt(3), n_trials=1, refit=False)
    with pytest.raises(ValueError, match="None of 1 trials"):
        found.fit(X, Y)
    # The callback does not see the end of the epoch.
    assert notes == [2]
    (trial,) = found.study_.trials
    assert trial.state.name == "PRUNED"
    assert list(trial.intermediate_values) == [1, 2, 3]


def test_a_trial_that_was_given_up_in_its_first_fold_is_in_the_results():
    # Learning rates in order; the last one learns nothing, and is given up by the median.
    rates = [0.01, 0.01, 0.01, 0.01, 0.01, 1e-7]

    class InOrder(RandomSampler):
        def sample_independent(self, study, trial, param_name, param_distribution):
            return rates[trial.number]

    median = optuna.pruners.MedianPruner(n_warmup_steps=2)
    space = {"lr": CategoricalDistribution([0.01, 1e-7])}
    found = search(net(), space, pruner=median, sampler=InOrder(seed=0), n_trials=6).fit(X, Y)
    results = found.cv_results_
    assert list(results["state"]) == ["COMPLETE"] * 5 + ["PRUNED"]
    assert all(np.isnan(results[f"split{fold}_test_score"][5]) for fold in range(3))
    assert list(found.study_.trials[5].intermediate_values) == [1, 2]
    assert found.best_params_ == {"lr": 0.01}
    assert found.best_estimator_.predict_proba(X).shape == (240, 3)


def test_by_default_no_network_is_given_up_while_it_learns():
    class Falls(RandomSampler):
        def sample_independent(self, study, trial, param_name, param_distribution):
            return 2e-3 if trial.number < 5 else 1e-4

    slow = net(max_epochs=10, weight_decay=0.0)
    found = search(slow, sampler=Falls(seed=0), pruner=None, n_trials=6, cv=2).fit(X, Y)
    losses = [-v for v in found.study_.trials[5].intermediate_values.values()]
    assert len(losses) == 10
    assert np.all(np.diff(losses) < 0)
    others = [-t.intermediate_values[10] for t in found.study_.trials[:5]]
    assert losses[-1] > max(others)


def test_only_the_first_network_of_a_trial_is_heard():
    model = CalibratedClassifier(net(), cv=3)
    found = search(model, {"estimator__lr": LR["lr"]}, n_trials=1).fit(X, Y)
    assert list(found.study_.trials[0].intermediate_values) == [1, 2, 3, 4, 5, 6]


def test_models_without_epochs_share_a_study_with_networks():
    def suggest(trial):
        kind = trial.suggest_categorical("kind", ["net", "linear"])
        return {"estimator": net() if kind == "net" else LogisticRegression()}

    model = CalibratedClassifier(LogisticRegression(), cv=2)
    found = search(model, suggest, n_trials=8, pruner=None).fit(X, Y)
    for trial in found.study_.trials:
        assert bool(trial.intermediate_values) is (trial.params["kind"] == "net")


class PressCtrlC(Callback):
    """Raises what Ctrl-C raises, in the middle of the n-th epoch that is trained in all."""

    def __init__(self, at, where="on_batch_begin"):
        self.at = at
        self.where = where
        self.n_epochs = 0

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def on_epoch_begin(self, net, **kwargs):
        self.n_epochs += 1

    def on_batch_begin(self, net, **kwargs):
        if self.n_epochs == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("deep", [False, True])
def test_ctrl_c_while_a_network_trains_ends_the_search(deep):
    one = net(callbacks=[PressCtrlC(6 * 3 * 2 * (2 if deep else 1) + 8)])
    model = CalibratedClassifier(one, cv=2) if deep else one
    space = {"estimator__lr": LR["lr"]} if deep else LR
    with pytest.warns(UserWarning, match="interrupted after 2 trials of 5"):
        found = search(model, space, n_trials=5).fit(X, Y)
    assert found.interrupted_
    states = [trial.state.name for trial in found.study_.trials]
    assert states == ["COMPLETE", "COMPLETE", "FAIL"]
    assert found.best_estimator_.predict_proba(X).shape == (240, 3)


def test_ctrl_c_while_a_graph_is_built_ends_the_search(monkeypatch):
    built = []

    def build(self, rows):
        built.append(len(rows))
        if len(built) == 5:
            raise KeyboardInterrupt
        return original(self, rows)

    original = NeSCalClassifier._update_graph
    monkeypatch.setattr(NeSCalClassifier, "_update_graph", build)
    model = NeSCalClassifier(max_epochs=4, warmup=1, random_state=0)
    with pytest.warns(UserWarning, match="interrupted after 1 trials of 4"):
        found = search(model, n_trials=4).fit(X, Y)
    assert found.interrupted_


def test_ctrl_c_in_a_fit_alone_keeps_what_was_trained():
    model = net(callbacks=[PressCtrlC(3)]).fit(X, Y)
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict_proba(X)).all()


class CtrlCWhenAsked(BasePruner):
    """Is interrupted when it is asked about an epoch of a trial."""

    def prune(self, study, trial):
        if trial.number == 1 and trial.last_step == 3:
            raise KeyboardInterrupt
        return False


def test_ctrl_c_while_an_epoch_is_reported_ends_the_search():
    # With a database that takes longer than the epoch.
    with pytest.warns(UserWarning, match="interrupted after 1 trials of 4"):
        found = search(net(), n_trials=4, pruner=CtrlCWhenAsked()).fit(X, Y)
    assert [trial.state.name for trial in found.study_.trials] == ["COMPLETE", "FAIL"]


def test_ctrl_c_in_a_search_below_ends_the_one_above():
    # The outer search fits six networks per fold, the inner one two per trial.
    one = net(callbacks=[PressCtrlC(6 * (2 * 5 + 3) + 2)])
    inner = search(one, cv=2)
    space = {"estimator__weight_decay": FloatDistribution(0, 0.1)}
    with pytest.warns(UserWarning, match="interrupted after 1 trials of 5"):
        found = search(inner, space, cv=2, n_trials=5).fit(X, Y)
    assert [trial.state.name for trial in found.study_.trials] == ["COMPLETE", "FAIL"]


@pytest.mark.parametrize("deep", [False, True])
def test_ctrl_c_in_the_last_fit_leaves_no_network_that_is_half_trained(deep):
    one = net(callbacks=[PressCtrlC(6 * 2 * 3 * (2 if deep else 1) + 2)])
    model = CalibratedClassifier(one, cv=2) if deep else one
    model = search(model, {"estimator__lr": LR["lr"]} if deep else LR)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "best_estimator_")
    assert len(model.cv_results_["params"]) == 2


def test_ctrl_c_in_a_confirmation_reports_no_network_that_is_half_trained():
    one = net(callbacks=[PressCtrlC(6 * (2 + 3) + 2)])
    with pytest.raises(KeyboardInterrupt):
        tune_and_confirm(search(one), X, Y, search_seeds=[0], confirmation_seeds=[1, 2])


class StopAt(Callback):
    """Stops a network as callbacks of skorch do."""

    def __init__(self, where):
        self.where = where

    def on_batch_end(self, net, training=False, **kwargs):
        if self.where == "batch" and training and len(net.history) == 3:
            raise KeyboardInterrupt

    def on_epoch_end(self, net, **kwargs):
        if self.where == "epoch" and len(net.history) == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["batch", "epoch"])
def test_a_callback_that_stops_a_network_does_not_stop_the_search(where):
    found = search(net(callbacks=[StopAt(where)])).fit(X, Y)
    assert not found.interrupted_
    assert list(found.cv_results_["state"]) == ["COMPLETE"] * 2
    assert found.best_estimator_.n_iter_ == 3


def test_nobody_listens_after_a_search():
    search(net(), n_trials=1).fit(X, Y)
    model = clone(net(callbacks=[PressCtrlC(2)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X, Y).n_iter_ == 2


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_seed_is_a_study_of_networks(n_jobs):
    one, two = (search(net(), n_jobs=n, n_trials=3).fit(X, Y).cv_results_ for n in (1, n_jobs))
    assert one["params"] == two["params"]
    assert_array_equal(one["mean_test_score"], two["mean_test_score"])
