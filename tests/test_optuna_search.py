"""The search: against scikit-learn's on a grid, and what it does with failures and storages."""

import os
import signal
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from typing import ClassVar

import joblib
import numpy as np
import optuna
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import GridSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.callback import ProgressBar
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import CalibratedClassifier
from skcal.calibration import StructuredMatrixScaling
from skcal.metrics import get_scorer
from skcal.tuning import OptunaSearch

C = {"C": FloatDistribution(1e-3, 1e3, log=True)}


def table(n=200, k=2, seed=0):
    return make_classification(n, n_informative=6, n_classes=k, random_state=seed)


def search(estimator=None, space=None, **params):
    settings = {"n_trials": 8, "cv": 3, "random_state": 0} | params
    return OptunaSearch(
        estimator or LogisticRegression(), C if space is None else space, **settings
    )


class Dummy(ClassifierMixin, BaseEstimator):
    """Says the same of every row, notes each fit, and fails if it is told to."""

    fits: ClassVar[list] = []

    def __init__(self, says=0.5, fails=False, interrupts=False):
        self.says = says
        self.fails = fails
        self.interrupts = interrupts

    def fit(self, X, y, sample_weight=None):
        Dummy.fits.append((self.says, sample_weight))
        if self.fails:
            raise ArithmeticError("told to fail")
        if self.interrupts:
            raise KeyboardInterrupt
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.says, self.says], (len(X), 1))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.fixture(autouse=True)
def no_fits():
    Dummy.fits.clear()


class InOrder(RandomSampler):
    """Goes through some values, trial by trial."""

    def __init__(self, values):
        super().__init__(seed=0)
        self.values = values

    def sample_independent(self, study, trial, param_name, param_distribution):
        return self.values[trial.number]


def in_order(name, values, **params):
    """Return a search whose trials have these values of a parameter of Dummy."""
    space = {name: CategoricalDistribution(sorted(set(values)))}
    return search(Dummy(), space, n_trials=len(values), sampler=InOrder(values), **params)


# --- One of scikit-learn's searches ------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_on_a_grid_it_finds_what_scikit_learns_search_finds(n_jobs):
    X, y = table(k=3)
    grid = {"C": [0.01, 0.1, 1.0, 10.0], "fit_intercept": [True, False]}
    space = {name: CategoricalDistribution(values) for name, values in grid.items()}
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    found = search(
        space=space,
        n_trials=8,
        sampler=GridSampler(grid, seed=0),
        pruner=NopPruner(),
        cv=cv,
        n_jobs=n_jobs,
        return_train_score=True,
    ).fit(X, y)
    plain = GridSearchCV(
        LogisticRegression(), grid, scoring="neg_log_loss", cv=cv, return_train_score=True
    ).fit(X, y)
    assert found.best_params_ == plain.best_params_
    assert found.best_score_ == pytest.approx(plain.best_score_, abs=1e-12)
    assert_array_equal(found.predict_proba(X), plain.predict_proba(X))
    here, there = found.cv_results_, plain.cv_results_
    order = [here["params"].index(params) for params in there["params"]]
    for name in there:
        if name.startswith(("split", "mean_t", "std_t", "rank")):
            assert_allclose(np.asarray(here[name])[order], there[name], atol=1e-12)
        else:
            assert name in here
    assert set(here) - set(there) == {"trial", "state"}
    assert set(here["state"]) == {"COMPLETE"}
    assert found.study_.best_params == found.best_params_
    assert found.n_splits_ == 4


def test_it_is_a_classifier_and_clones():
    one = search(random_state=3, study_name="s")
    assert is_classifier(one)
    assert clone(one).get_params(deep=False).keys() == one.get_params(deep=False).keys()
    assert clone(one).random_state == 3
    X, y = table()
    answer = cross_val_predict(search(n_trials=2), X, y, cv=2, method="predict_proba")
    assert_allclose(answer.sum(axis=1), 1)


def test_a_seed_is_a_study():
    X, y = table()
    same, again, other = (search(random_state=s).fit(X, y).cv_results_ for s in (0, 0, 1))
    assert same["params"] == again["params"]
    assert_array_equal(same["mean_test_score"], again["mean_test_score"])
    assert same["params"] != other["params"]


def test_a_seed_is_a_study_however_many_folds_are_fitted_at_once():
    X, y = table()
    one, two = (search(pruner=NopPruner(), n_jobs=n).fit(X, y).cv_results_ for n in (1, 2))
    assert one["params"] == two["params"]
    assert_array_equal(one["mean_test_score"], two["mean_test_score"])


def test_global_generators_are_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    search(n_trials=3).fit(*table())
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_it_prints_nothing(capfd):
    search(n_trials=3).fit(*table())
    assert capfd.readouterr() == ("", "")


def test_the_sampler_of_the_user_is_not_changed():
    X, y = table()
    sampler = RandomSampler(seed=4)
    first, second = (search(sampler=sampler).fit(X, y).cv_results_["params"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_nested_parameters_are_reached(n_jobs):
    X, y = table(k=3)
    model = make_pipeline(
        StandardScaler(),
        CalibratedClassifier(LogisticRegression(), StructuredMatrixScaling(), cv=2),
    )
    space = {
        "calibratedclassifier__estimator__C": FloatDistribution(0.01, 1, log=True),
        "calibratedclassifier__calibrator__reg": FloatDistribution(0.1, 10, log=True),
        "calibratedclassifier__cv": IntDistribution(2, 3),
    }
    found = search(model, space, n_trials=3, n_jobs=n_jobs).fit(X, y)
    inner = found.best_estimator_[-1]
    assert found.best_params_["calibratedclassifier__estimator__C"] == inner.estimator.C
    assert inner.calibrator.reg == found.best_params_["calibratedclassifier__calibrator__reg"]
    assert len(inner.calibrated_classifiers_) == found.best_params_["calibratedclassifier__cv"]


class TakesAnything(LogisticRegression):
    """Has parameters that it does not list, as boosting libraries have."""

    def set_params(self, **params):
        self.more = params.pop("more", None)
        return super().set_params(**params)


def test_an_estimator_may_take_more_than_it_lists():
    space = {"more": IntDistribution(1, 9)}
    in_steps = make_pipeline(TakesAnything())
    for model, prefix in ((TakesAnything(), ""), (in_steps, "takesanything__")):
        named = {prefix + name: values for name, values in space.items()}
        found = search(model, named, n_trials=2).fit(*table())
        last = found.best_estimator_[-1] if prefix else found.best_estimator_
        assert last.more == found.best_params_[f"{prefix}more"]


def test_names_below_one_of_the_space_are_known_once_it_is_set():
    model = CalibratedClassifier(LogisticRegression(), "temperature", cv=2)
    with warnings.catch_warnings():
        # Optuna keeps no estimators in a database.
        warnings.filterwarnings("ignore", "Choices for a categorical", UserWarning)
        maps = CategoricalDistribution([StructuredMatrixScaling()])
        space = {"calibrator": maps, "calibrator__reg": FloatDistribution(0.1, 10, log=True)}
        found = search(model, space, n_trials=2).fit(*table())
    reg = found.best_params_["calibrator__reg"]
    assert found.best_estimator_.calibrator.reg == reg


def test_a_space_may_be_a_function():
    def suggest(trial):
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return {"estimator": LogisticRegression(C=trial.suggest_float("C", 0.1, 1))}
        return {"estimator": Dummy(says=trial.suggest_float("says", 0.4, 0.6))}

    X, y = table()
    found = search(CalibratedClassifier(LogisticRegression(), cv=2), suggest).fit(X, y)
    assert {type(p["estimator"]) for p in found.cv_results_["params"]} == {
        LogisticRegression,
        Dummy,
    }
    assert isinstance(found.best_estimator_.estimator, LogisticRegression)
    assert found.study_.best_params["C"] == found.best_estimator_.estimator.C


def test_a_function_may_look_at_the_number_of_its_trial():
    def suggest(trial):
        return {"C": trial.suggest_float("odd" if trial.number % 2 else "even", 0.1, 1)}

    found = search(space=suggest, n_trials=4, pruner=NopPruner()).fit(*table())
    drawn = [[*trial.params.values()] for trial in found.study_.trials]
    assert [[*params.values()] for params in found.cv_results_["params"]] == drawn


def test_a_space_that_answers_otherwise_each_time_is_asked_once():
    generator = np.random.default_rng(0)
    drawn = []

    def suggest(trial):
        drawn.append(generator.uniform(0.1, 10))
        return {"C": drawn[-1]}

    found = search(space=suggest, n_trials=4).fit(*table())
    assert [params["C"] for params in found.cv_results_["params"]] == drawn


def test_names_of_scores():
    X, y = table(k=3)
    for name in ("neg_log_loss_after_temperature", "accuracy"):
        found = search(scoring=name, n_trials=2, pruner=NopPruner()).fit(X, y)
        scorer = get_scorer(name) if name.startswith("neg") else name
        grid = {"C": [found.best_params_["C"]]}
        plain = GridSearchCV(LogisticRegression(), grid, scoring=scorer, cv=3).fit(X, y)
        assert found.best_score_ == pytest.approx(plain.best_score_, abs=1e-12)


def test_routed_metadata_reach_whom_they_are_for():
    X, y = table(60)
    seen = []

    def score(y_true, proba, sample_weight=None):
        seen.append(sample_weight)
        return 0.0

    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(score, response_method="predict_proba")
        scorer.set_score_request(sample_weight=True)
        model = Dummy().set_fit_request(sample_weight=False)
        search(model, {"says": FloatDistribution(0, 1)}, scoring=scorer, n_trials=2).fit(
            X, y, sample_weight=np.arange(60.0)
        )
    assert [weights for _, weights in Dummy.fits] == [None] * 7
    assert sorted(np.concatenate(seen[:3])) == list(range(60))


class Tasks:
    """A callback of scikit-learn that notes each task that begins and ends."""

    def __init__(self):
        self.begun, self.ended, self.most = [], [], {}

    def setup(self, estimator, context):
        self.begun.append("setup")

    def teardown(self, estimator, context):
        self.ended.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)
        self.most[context.task_name] = context.max_subtasks

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)


@pytest.mark.parametrize("refit", [True, False])
def test_callbacks_of_scikit_learn_see_each_fold(refit):
    tasks = Tasks()
    model = search(n_trials=4, pruner=NopPruner(), refit=refit).set_callbacks(tasks)
    model.fit(*table())
    folds = ["candidate-split-evaluation"] * 12
    last = ["refit-with-best-params"] * refit
    assert tasks.begun == ["setup", "fit", "search", *folds, *last]
    assert tasks.ended == [*folds, "search", *last, "fit", "teardown"]
    assert tasks.most["search"] == 12


def test_callbacks_see_the_folds_that_are_left_out_neither_begin_nor_end():
    tasks = Tasks()
    says = [0.5, 0.5, 0.5, 0.5, 0.5, 0.99]
    in_order("says", says, cv=4).set_callbacks(tasks).fit(*table(120))
    assert tasks.begun.count("candidate-split-evaluation") == 5 * 4 + 1
    assert sorted(tasks.begun[1:]) == sorted(tasks.ended[:-1])


def test_a_failed_fold_ends_for_callbacks_too():
    tasks = Tasks()
    model = in_order("fails", [False, True], cv=2).set_callbacks(tasks)
    with pytest.warns(FitFailedWarning):
        model.fit(*table(60))
    # The second fold of the trial that failed is left out.
    assert tasks.ended.count("candidate-split-evaluation") == 2 + 1
    assert sorted(tasks.begun[1:]) == sorted(tasks.ended[:-1])


def test_the_progress_bar_of_scikit_learn(capsys):
    pytest.importorskip("rich")
    search(n_trials=3).set_callbacks(ProgressBar()).fit(*table())
    assert "OptunaSearch" in capsys.readouterr().out


# --- Pruning -----------------------------------------------------------------------------------


def test_the_later_folds_of_a_hopeless_trial_are_left_out():
    X, y = table(120)
    says = [0.5, 0.5, 0.5, 0.5, 0.5, 0.99, 0.5]
    found = in_order("says", says, cv=4).fit(X, y)
    assert list(found.cv_results_["state"]) == ["COMPLETE"] * 5 + ["PRUNED"] + ["COMPLETE"]
    counts = [sum(one == said for one, _ in Dummy.fits) for said in (0.5, 0.99)]
    assert counts == [6 * 4 + 1, 1]  # one fit is the last, on all rows
    assert np.isfinite(found.cv_results_["split0_test_score"][5])
    assert np.isnan(found.cv_results_["split1_test_score"][5])
    assert found.cv_results_["rank_test_score"][5] == 7
    assert found.best_params_ == {"says": 0.5}


def test_a_rule_chooses_among_complete_trials():
    says = [0.52, 0.5, 0.5, 0.5, 0.5, 0.99, 0.5, 0.5]
    seen = []

    def simplest(results):
        # As in scikit-learn's guide: the first that is not worse than the best less a deviation.
        seen.append(results)
        best = np.argmax(results["mean_test_score"])
        enough = results["mean_test_score"][best] - results["std_test_score"][best] - 0.1
        return int(np.flatnonzero(results["mean_test_score"] >= enough)[-1])

    found = in_order("says", says, cv=4, refit=simplest).fit(*table(120))
    assert list(np.flatnonzero(found.cv_results_["state"] == "PRUNED")) == [5]
    assert found.best_index_ == 7
    assert found.best_params_ == {"says": 0.5}
    assert found.best_score_ == found.study_.trials[7].value
    (results,) = seen
    assert results.keys() == found.cv_results_.keys()
    assert {len(column) for column in results.values()} == {7}
    assert [one["says"] for one in results["params"]] == says[:5] + says[6:]
    with pytest.raises(IndexError, match="out of range"):
        in_order("says", says, cv=4, refit=lambda results: 7).fit(*table(120))


class ByFold(BaseEstimator):
    """Scores as it is told, fold by fold: what it says, and how easy the fold is."""

    def __init__(self, says=0.5, easy=()):
        self.says = says
        self.easy = easy

    def fit(self, X, y):
        return self

    def score(self, X, y):
        return self.says + self.easy[int(X[0, 0])]


class Asked(BasePruner):
    """Keeps what it is asked about, and gives up when it is told to."""

    def __init__(self, gives_up=lambda values: False):
        self.gives_up = gives_up

    def prune(self, study, trial):
        ASKED.append((trial.number, dict(trial.intermediate_values)))
        return self.gives_up(trial.intermediate_values)

    def __deepcopy__(self, memo):
        return self


ASKED: list = []


@pytest.fixture(autouse=True)
def nobody_asked():
    ASKED.clear()


def test_a_pruner_is_told_the_mean_of_the_folds_so_far():
    found = search(n_trials=2, pruner=Asked()).fit(*table())
    results = found.cv_results_
    means = [
        np.mean([results[f"split{fold}_test_score"][trial] for fold in range(n_folds)])
        for trial in range(2)
        for n_folds in (1, 2, 3)
    ]
    assert [value for _, values in ASKED for value in values.values()] == pytest.approx(means)
    assert [len(values) for _, values in ASKED] == [1] * 6
    assert found.study_.trials[0].value == pytest.approx(means[2])


@pytest.mark.parametrize("easy", [(0, 0, 0), (1, 0, 0), (0, 1, 0)])
def test_a_trial_is_compared_on_the_folds_that_it_was_fitted_on(easy):
    # The means so far fall after an easy fold. The best of them would say nothing of the rest.
    X, y = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0), np.tile([0, 1], 30)
    values = [0.5, 0.51, 0.52, 0.53, 0.54, 0.1, 0.9]
    found = in_order(
        "says", values, refit=False, cv=KFold(3), scoring=lambda model, X, y: model.score(X, y)
    )
    found.set_params(estimator=ByFold(easy=easy)).fit(X, y)
    assert list(found.cv_results_["state"]) == ["COMPLETE"] * 5 + ["PRUNED", "COMPLETE"]
    assert np.isnan(found.cv_results_["split1_test_score"][5])


# --- Failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_trial_whose_folds_all_fail_does_not_end_the_study(n_jobs):
    model = in_order("fails", [False, True, False, True], n_jobs=n_jobs)
    with pytest.warns(FitFailedWarning, match="told to fail"):
        found = model.fit(*table(60))
    assert list(found.cv_results_["state"]) == ["COMPLETE", "FAIL", "COMPLETE", "FAIL"]
    assert_array_equal(np.isnan(found.cv_results_["mean_test_score"]), [False, True, False, True])
    assert found.best_params_ == {"fails": False}


@pytest.mark.parametrize(
    ("says", "error"), [(lambda trial: 1 / 0, ZeroDivisionError), (lambda trial: None, TypeError)]
)
def test_a_space_that_fails_leaves_no_trial_running(says, error):
    model = search(space=says)
    with pytest.raises(error):
        model.fit(*table(60))
    assert [trial.state.name for trial in model.study_.trials] == ["FAIL"]


def test_errors_can_be_raised_at_once():
    model = in_order("fails", [False, True, False], error_score="raise")
    with pytest.raises(ArithmeticError, match="told to fail"):
        model.fit(*table(60))
    assert [trial.state.name for trial in model.study_.trials] == ["COMPLETE", "FAIL"]
    assert not hasattr(model, "cv_results_")


def test_without_a_trial_that_ends_the_last_error_is_raised():
    with pytest.raises(ArithmeticError, match="told to fail") as caught:
        search(Dummy(), {"fails": CategoricalDistribution([True])}, n_trials=3).fit(*table(60))
    assert caught.value.__notes__ == ["None of 3 trials came to an end with a finite score."]


def test_scores_that_are_not_finite_fail_a_trial():
    def score(estimator, X, y):
        return np.nan if estimator.says > 0.5 else -np.inf if estimator.says == 0.5 else 1.0

    found = in_order("says", [0.4, 0.5, 0.6], scoring=score).fit(*table(60))
    assert list(found.cv_results_["state"]) == ["COMPLETE", "FAIL", "FAIL"]
    with pytest.raises(ValueError, match=r"None of 2 trials came to an end .* Look at scoring"):
        in_order("says", [0.8, 0.9], scoring=score).fit(*table(60))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_several_scores_are_refused(n_jobs):
    model = search(scoring=several_scores, n_jobs=n_jobs)
    with pytest.raises(TypeError, match=r"scoring must return one number; got {'a': 1.0}"):
        model.fit(*table(60))
    assert [trial.state.name for trial in model.study_.trials] == ["FAIL"]


def several_scores(estimator, X, y):
    return {"a": 1.0}


def test_a_class_that_folds_lack_has_a_finite_log_loss():
    X, y = make_classification(300, random_state=0)
    y[:2] = 2
    with warnings.catch_warnings():
        # Two rows of a class for five folds, which is what is tested.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        found = search(n_trials=3, cv=5).fit(X, y)
    assert set(found.cv_results_["state"]) == {"COMPLETE"}
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert_array_equal(found.classes_, [0, 1, 2])


def test_ctrl_c_keeps_the_best_so_far():
    model = in_order("interrupts", [False, False, True, False])
    with pytest.warns(UserWarning, match="interrupted after 2 trials of 4"):
        model.fit(*table(60))
    assert model.interrupted_
    assert model.best_estimator_.predict(np.zeros((3, 20))).shape == (3,)
    assert [trial.state.name for trial in model.study_.trials] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert len(model.cv_results_["params"]) == 2
    with pytest.raises(KeyboardInterrupt):
        search(Dummy(interrupts=True), {"says": FloatDistribution(0, 1)}).fit(*table(60))


class CtrlC(RandomSampler):
    """Is interrupted once, when the third trial begins or ends."""

    def __init__(self, when):
        super().__init__(seed=0)
        self.when = when

    def sample_independent(self, study, trial, name, distribution):
        if trial.number == 2 and self.when == "begin":
            raise KeyboardInterrupt
        return super().sample_independent(study, trial, name, distribution)

    def after_trial(self, study, trial, state, values):
        if trial.number == 2 and self.when == "end":
            self.when = "never again"
            raise KeyboardInterrupt


@pytest.mark.parametrize(("when", "n_done"), [("begin", 2), ("end", 3)])
def test_ctrl_c_between_fits_keeps_what_was_fitted(when, n_done):
    model = search(sampler=CtrlC(when), n_trials=6)
    with pytest.warns(UserWarning, match=f"interrupted after {n_done} trials of 6"):
        model.fit(*table(60))
    assert list(model.cv_results_["state"]) == ["COMPLETE"] * n_done
    assert model.best_estimator_.predict(np.zeros((3, 20))).shape == (3,)


# --- Storages ----------------------------------------------------------------------------------


def storages(tmp_path):
    return {
        "sqlite": f"sqlite:///{tmp_path / 'study.db'}",
        "journal": str(tmp_path / "study.log"),
        "path": tmp_path / "study.path",
        "object": JournalStorage(JournalFileBackend(str(tmp_path / "study.object"))),
    }


@pytest.mark.parametrize("kind", ["sqlite", "journal", "path", "object"])
def test_a_study_goes_on_where_it_ended(tmp_path, kind):
    X, y = table()
    kept = {"storage": storages(tmp_path)[kind], "study_name": "one"}
    first = search(n_trials=3, **kept).fit(X, y)
    second = search(n_trials=7, **kept).fit(X, y)
    assert len(second.cv_results_["params"]) == 7
    assert second.cv_results_["params"][:3] == first.cv_results_["params"]
    assert_array_equal(
        second.cv_results_["split1_test_score"][:3], first.cv_results_["split1_test_score"]
    )
    # It does not draw again what it drew at its beginning.
    assert all(a != b for a, b in pairwise(second.cv_results_["params"][i]["C"] for i in (0, 3)))
    third = search(n_trials=7, **kept).fit(X, y)
    assert third.best_params_ == second.best_params_
    assert len(third.study_.trials) == 7


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_trials_of_before_may_lack_training_scores(tmp_path, kind):
    X, y = table()
    kept = {"storage": storages(tmp_path)[kind], "study_name": "one", "n_jobs": 2}
    search(n_trials=2, **kept).fit(X, y)
    found = search(n_trials=4, return_train_score=True, **kept).fit(X, y).cv_results_
    assert_array_equal(np.isnan(found["mean_train_score"]), [True, True, False, False])
    assert np.isfinite(found["mean_test_score"]).all()
    plain = search(n_trials=4, **kept).fit(X, y).cv_results_
    assert "mean_train_score" not in plain


def test_another_study_is_not_continued(tmp_path):
    X, y = table()
    kept = {"storage": storages(tmp_path)["sqlite"], "study_name": "one"}
    search(n_trials=1, **kept).fit(X, y)
    for changed in ({"cv": 4}, {"scoring": "accuracy"}):
        with pytest.raises(ValueError, match="take another study_name"):
            search(n_trials=2, **kept | changed).fit(X, y)
    with pytest.raises(ValueError, match="take another study_name"):
        search(n_trials=2, **kept).fit(X[:150], y[:150])
    with pytest.raises(ValueError, match="take another study_name"):
        search(n_trials=2, cv=StratifiedKFold(3, shuffle=True), **kept).fit(X, y)
    foreign = optuna.create_study(study_name="two", storage=kept["storage"])
    foreign.tell(foreign.ask(), 1.0)
    with pytest.raises(ValueError, match="not made by this search"):
        search(storage=kept["storage"], study_name="two").fit(X, y)


class StaysHere(optuna.storages.InMemoryStorage):
    """Cannot be sent to another process."""

    def __reduce__(self):
        raise TypeError("told to stay")


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_a_study_is_not_sent_to_where_folds_are_fitted(backend):
    storage = StaysHere()
    with joblib.parallel_config(backend, n_jobs=2):
        found = search(n_trials=2, storage=storage).fit(*table(60))
    assert found.storage is storage
    assert list(found.cv_results_["state"]) == ["COMPLETE"] * 2


def test_trials_of_another_space_are_refused_before_the_first_fit(tmp_path):
    X, y = table()
    kept = {"storage": tmp_path / "study.log", "study_name": "one"}
    search(n_trials=2, **kept).fit(X, y)
    other = search(space=lambda trial: {"C": trial.suggest_float("c", 0, 1)}, **kept)
    with pytest.raises(ValueError, match=r"Trial 0 .* was not drawn from this space"):
        other.fit(X, y)
    assert len(other.study_.trials) == 2


def test_the_lock_of_a_journal_in_another_folder_can_be_taken_over(tmp_path, monkeypatch):
    links = []

    def link(target, path):
        original(target, path)
        links.append(os.path.exists(path))

    original = os.symlink
    monkeypatch.setattr(os, "symlink", link)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    search(n_trials=1, storage=os.path.join("folder", "study.log")).fit(*table(60))
    assert links
    assert all(links)


@pytest.mark.parametrize(
    ("error", "n_tries"),
    [
        ("IntegrityError: UNIQUE constraint failed: alembic_version", 2),
        ("OperationalError: table studies already exists", 2),
        ("OperationalError: unable to open database file", 1),
    ],
)
def test_a_database_that_another_process_is_making_is_waited_for(
    tmp_path, monkeypatch, error, n_tries
):
    real, tries = optuna.storages.get_storage, []

    def busy(url):
        if isinstance(url, str):
            tries.append(url)
            if len(tries) == 1:
                raise RuntimeError(error)
        return real(url)

    monkeypatch.setattr(optuna.storages, "get_storage", busy)
    model = search(n_trials=1, storage=storages(tmp_path)["sqlite"], study_name="one")
    if n_tries == 1:
        with pytest.raises(RuntimeError, match="unable to open"):
            model.fit(*table(60))
    else:
        assert len(model.fit(*table(60)).study_.trials) == 1
    assert len(tries) == n_tries


SLOW_WORKER = """
import sys, time
import numpy as np
from optuna.distributions import FloatDistribution
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from skcal.tuning import OptunaSearch

class Slow(LogisticRegression):
    def fit(self, X, y):
        time.sleep({sleep})
        return super().fit(X, y)

X, y = make_classification(200, n_informative=6, random_state=0)
OptunaSearch(Slow(), {{"C": FloatDistribution(1e-3, 1e3, log=True)}}, n_trials={n}, cv=3,
             storage=sys.argv[1], study_name="one", random_state=int(sys.argv[2])).fit(X, y)
"""


def load(storage):
    if "://" not in storage:
        storage = JournalStorage(JournalFileBackend(storage))
    return optuna.load_study(study_name="one", storage=storage)


def worker(storage, seed, n, sleep):
    code = SLOW_WORKER.format(n=n, sleep=sleep)
    return subprocess.Popen([sys.executable, "-c", code, storage, str(seed)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_killed_process_loses_no_finished_trial(tmp_path, kind):
    storage = storages(tmp_path)[kind]
    process = worker(storage, 0, n=500, sleep=0.05)
    try:
        deadline = time.monotonic() + 120
        n_done = 0
        while n_done < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
            try:
                study = load(storage)
            except Exception:  # not there yet
                continue
            n_done = sum(trial.state.is_finished() for trial in study.trials)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    study = load(storage)
    done = [trial for trial in study.trials if trial.state.is_finished()]
    assert len(done) >= 3
    end = worker(storage, 1, n=len(done) + 2, sleep=0)
    assert end.wait(120) == 0
    after = load(storage)
    ended = [trial for trial in after.trials if trial.state.is_finished()]
    assert len(ended) == len(done) + 2
    assert ended[: len(done)] == done


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_two_processes_share_a_study(tmp_path, kind):
    storage = storages(tmp_path)[kind]
    # The table of studies is made by the first to come.
    assert worker(storage, 9, n=1, sleep=0).wait(120) == 0
    processes = [worker(storage, seed, n=16, sleep=0.02) for seed in (0, 1)]
    assert [process.wait(120) for process in processes] == [0, 0]
    study = load(storage)
    states = [trial.state.name for trial in study.trials]
    assert 16 <= len(states) <= 17
    assert set(states) <= {"COMPLETE", "PRUNED"}
    drawn = [trial.params["C"] for trial in study.trials]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.slow
def test_memory_does_not_grow_with_trials():
    resource = pytest.importorskip("resource")
    X, y = table(100)
    model = search(n_trials=20).fit(X, y)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.set_params(n_trials=200).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100e3 * (1024 if sys.platform == "darwin" else 1)


# --- Wrong input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"space": {}}, ValueError, "nothing to tune"),
        ({"space": {"c": FloatDistribution(0, 1)}}, ValueError, "no parameter 'c'.*get_params"),
        ({"space": {"a__C": FloatDistribution(0, 1)}}, ValueError, "no parameter 'a__C'"),
        ({"space": {"C__a": FloatDistribution(0, 1)}}, ValueError, "no parameter 'C__a'"),
        (
            {
                "estimator": make_pipeline(LogisticRegression()),
                "space": {"logisticregression__c": FloatDistribution(0, 1)},
            },
            ValueError,
            "no parameter 'logisticregression__c'",
        ),
        ({"space": {"C": [0.1, 1.0]}}, TypeError, r"space\['C'\] must be an Optuna distribution"),
        ({"space": lambda trial: None}, TypeError, "must return a dictionary"),
        ({"space": "all"}, ValueError, "'space' parameter"),
        ({"n_trials": 0}, ValueError, "'n_trials' parameter"),
        ({"timeout": 0}, ValueError, "'timeout' parameter"),
        ({"scoring": ["accuracy"]}, ValueError, "'scoring' parameter"),
        ({"scoring": "nothing"}, ValueError, "scoring.*'nothing'"),
        ({"sampler": "tpe"}, ValueError, "'sampler' parameter"),
        ({"pruner": "median"}, ValueError, "'pruner' parameter"),
        ({"storage": 3}, ValueError, "'storage' parameter"),
    ],
)
def test_wrong_input_is_told_in_plain_words(params, error, words):
    with pytest.raises(error, match=words):
        search(**params).fit(*table(60))


def test_a_timeout_lets_one_trial_end():
    found = search(timeout=1e-9, n_trials=5).fit(*table(60))
    assert len(found.cv_results_["params"]) == 1


def test_without_optuna_the_extra_is_named():
    code = """
import sys
sys.modules["optuna"] = None
from sklearn.linear_model import LogisticRegression
from skcal.tuning import OptunaSearch
try:
    OptunaSearch(LogisticRegression(), lambda trial: {}).fit([[0], [1]], [0, 1])
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'skcal[tune]'" in said.stdout
