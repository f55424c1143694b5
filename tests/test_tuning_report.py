"""The report of a search: its numbers against an independent reckoning, and its pictures."""

import builtins
import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from skcal.neural import NetClassifier
from skcal.tuning import OptunaSearch, SearchReport

X, Y = make_classification(300, n_informative=6, random_state=0)
SPACE = {
    "C": FloatDistribution(1e-3, 1e3, log=True),
    "fit_intercept": CategoricalDistribution([True, False]),
}


@pytest.fixture(scope="module")
def search():
    return OptunaSearch(LogisticRegression(), SPACE, n_trials=15, random_state=0).fit(X, Y)


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def test_trials_are_in_order_with_their_intervals(search):
    report = SearchReport(search, n_best=4)
    best = sorted(
        (t for t in search.study_.trials if t.state.name == "COMPLETE"), key=lambda t: -t.value
    )[:4]
    assert list(report.trials["trial"]) == [trial.number for trial in best]
    first = np.array(best[0].user_attrs["scores"]["test_scores"])
    quantile = stats.t.ppf(0.975, 4)
    for place, trial in enumerate(best):
        scores = np.array(trial.user_attrs["scores"]["test_scores"])
        assert report.trials["score"][place] == pytest.approx(trial.value)
        # Five folds: test rows are a quarter of the training rows.
        half = quantile * np.std(scores, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
        assert report.trials["high"][place] - trial.value == pytest.approx(half)
        half = quantile * np.std(scores - first, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
        low = np.mean(scores - first) - half
        assert report.trials["difference_low"][place] == pytest.approx(low)
        assert report.trials["C"][place] == trial.params["C"]


def test_the_text_has_what_the_table_has(search):
    report = SearchReport(search, n_best=3)
    lines = str(report).splitlines()
    states = [trial.state.name for trial in search.study_.trials]
    assert lines[0].startswith(f"15 trials: {states.count('COMPLETE')} complete")
    assert "neg_log_loss, mean of 5 folds with 95 % interval" in lines[1]
    assert len(lines) == 3 + 3 + 1
    assert re.search(rf"^ +{report.trials['trial'][0]} +-0\.\d{{4}} +\[-", lines[3])
    assert "C" in lines[2]
    assert max(map(len, lines)) < 120


def test_a_notebook_shows_the_text(search):
    assert repr(SearchReport(search)) == str(SearchReport(search))


def test_a_single_split_has_no_interval():
    split = [(np.arange(200), np.arange(200, 300))]
    one = OptunaSearch(LogisticRegression(), SPACE, n_trials=2, cv=split, random_state=0).fit(X, Y)
    assert "nan" not in str(SearchReport(one))


def test_parameters_of_a_function_may_differ():
    def suggest(trial):
        if trial.suggest_categorical("kind", [0, 1]):
            return {"C": trial.suggest_float("C", 0.1, 1)}
        return {"fit_intercept": False}

    one = OptunaSearch(LogisticRegression(), suggest, n_trials=6, random_state=0).fit(X, Y)
    report = SearchReport(one)
    assert {"C", "fit_intercept"} <= set(report.trials)
    assert str(report)


def test_a_parameter_may_be_a_tuple_or_an_estimator():
    def suggest(trial):
        width = trial.suggest_categorical("width", [2, 3])
        scale = make_pipeline(StandardScaler(with_mean=False), QuantileTransformer(n_quantiles=99))
        return {"scale": scale, "net__hidden_layer_sizes": (width, width)}

    model = Pipeline([("scale", None), ("net", MLPClassifier(max_iter=2, random_state=0))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = OptunaSearch(model, suggest, n_trials=2, cv=2, random_state=0).fit(X, Y)
    report = SearchReport(found)
    for name, kind in {"scale": Pipeline, "net__hidden_layer_sizes": tuple}.items():
        assert report.trials[name].shape == (2,)
        assert all(isinstance(value, kind) for value in report.trials[name])
    assert len(str(report).splitlines()) == 3 + 2 + 1


def test_a_parameter_may_have_the_name_of_a_column():
    class Named(LogisticRegression):
        def __init__(self, C=1.0, low=0):
            super().__init__(C=C)
            self.low = low

    space = {"low": IntDistribution(5, 9)}
    report = SearchReport(OptunaSearch(Named(), space, n_trials=2, random_state=0).fit(X, Y))
    assert np.all(report.trials["low"] < report.trials["score"])
    assert np.all(report.trials["param_low"] >= 5)
    assert "param_low" in str(report)


@pytest.mark.parametrize("kind", ["history", "importance", "parallel"])
def test_pictures_are_those_of_optuna(search, kind):
    before = dict(mpl.rcParams)
    axes = SearchReport(search).plot(kind)
    assert dict(mpl.rcParams) == before
    figure = axes.figure
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert "neg_log_loss" in " ".join(texts)
    if kind == "history":
        (points,) = [c for c in axes.collections if len(c.get_offsets())]
        values = {t.value for t in search.study_.trials if t.state.name == "COMPLETE"}
        assert set(points.get_offsets()[:, 1]) == values
    else:
        assert "C" in texts


@pytest.mark.parametrize("kind", ["history", "importance", "parallel", "epochs"])
def test_pictures_of_plotly(search, kind):
    plotly = pytest.importorskip("plotly")
    figure = SearchReport(search).plot(kind, backend="plotly")
    assert isinstance(figure, plotly.graph_objects.Figure)


def test_epochs_of_networks_are_drawn(tmp_path):
    space = {"lr": FloatDistribution(1e-3, 1e-2, log=True)}
    net = NetClassifier(max_epochs=3, random_state=0)
    found = OptunaSearch(net, space, n_trials=2, cv=2, random_state=0).fit(X, Y)
    axes = SearchReport(found).plot("epochs")
    drawn = [line.get_ydata().tolist() for line in axes.lines]
    assert drawn == [[*t.intermediate_values.values()] for t in found.study_.trials]
    names = [path.name for path in SearchReport(found).write(tmp_path / "new" / "folder")]
    assert names == ["report.txt", "history.png", "importance.png", "parallel.png", "epochs.png"]


def test_the_report_is_written(search, tmp_path):
    written = SearchReport(search).write(tmp_path)
    assert [path.name for path in written] == [
        "report.txt",
        "history.png",
        "importance.png",
        "parallel.png",
    ]
    assert written[0].read_text(encoding="utf-8") == f"{SearchReport(search)}\n"
    for path in written[1:]:
        assert plt.imread(path).std() > 0.01
    assert not plt.get_fignums()


def test_a_single_trial_has_no_importance(tmp_path):
    one = OptunaSearch(LogisticRegression(), SPACE, n_trials=1, random_state=0).fit(X, Y)
    report = SearchReport(one)
    with pytest.raises(ValueError, match="at least two complete trials"):
        report.plot("importance")
    assert [path.name for path in report.write(tmp_path)] == ["report.txt", "history.png"]


def test_wrong_input_is_told(search):
    with pytest.raises(NotFittedError):
        SearchReport(OptunaSearch(LogisticRegression(), SPACE))
    with pytest.raises(TypeError, match="must be an OptunaSearch; got GridSearchCV"):
        SearchReport(GridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(X, Y))
    with pytest.raises(ValueError, match="n_best"):
        SearchReport(search, n_best=0)
    with pytest.raises(ValueError, match="confidence_level"):
        SearchReport(search, confidence_level=95)
    with pytest.raises(ValueError, match=r"kind must be one of .* Did you mean 'history'"):
        SearchReport(search).plot("histori")
    with pytest.raises(ValueError, match="backend must be one of"):
        SearchReport(search).plot("history", backend="bokeh")


def test_without_plotly_the_extra_is_named(search, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "plotly":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'skcal\[plotly\]'"):
        SearchReport(search).plot("history", backend="plotly")


def test_logging_of_optuna_is_left_as_it_was(search):
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
