"""What scikit-learn's users rely on and its own checks do not look at.

Labels, seeds, processes, tables, odd sizes, weights and routing, and the meta-estimators, for
every classifier of the package alike.
"""

import copy
import io
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
from inspect import signature

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from _public import public_estimators
from numpy.testing import assert_allclose, assert_array_equal
from optuna.distributions import CategoricalDistribution
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from skorch.callbacks import LRScheduler

from skcal import (
    CalibratedClassifier,
    CostSensitiveClassifier,
    DeepEnsembleClassifier,
    MultiHeadMLP,
    NeSCalClassifier,
    NeSCalMLP,
    TabularEncoder,
)
from skcal.calibration import BaseCalibrator
from skcal.datasets import make_calibration_data
from skcal.neural import Dropout, MultiHeadClassifier, NetClassifier
from skcal.tuning import OptunaSearch

FAST = {"max_epochs": 8, "lr": 0.02, "random_state": 0}


class Net(torch.nn.Module):
    """A module of a user: it names its sizes and has dropout of its own."""

    def __init__(self, n_inputs, n_classes, width=16, dropout=0.2):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(n_inputs, width), torch.nn.ReLU(), Dropout(dropout)
        )
        self.head = torch.nn.Linear(width, n_classes)

    def forward(self, X):
        return self.head(self.body(X))


def on_tables(classifier):
    return make_pipeline(TabularEncoder(dtype="float64"), classifier)


# Every kind of classifier, for tables with categories and missing cells.
CLASSIFIERS = {
    "NeSCalMLP": NeSCalMLP(**FAST),
    "NeSCalClassifier": NeSCalClassifier(**FAST),
    "module": NeSCalClassifier(Net, encoder=TabularEncoder(), **FAST | {"max_epochs": 30}),
    "NetClassifier": NetClassifier(**FAST),
    "MultiHeadMLP": MultiHeadMLP(**FAST),
    "MultiHeadClassifier": MultiHeadClassifier(**FAST),
    "temperature": CalibratedClassifier(on_tables(LogisticRegression())),
    "sigmoid": CalibratedClassifier(on_tables(LogisticRegression()), "sigmoid", cv=3),
    "isotonic": CalibratedClassifier(on_tables(LogisticRegression()), "isotonic", ensemble=False),
    "calibrated net": CalibratedClassifier(NeSCalMLP(**FAST), cv=2),
    "deep ensemble": DeepEnsembleClassifier(
        NeSCalMLP(preset="fast", hidden_sizes=(64, 64), **FAST), n_members=2, random_state=0
    ),
    "search": OptunaSearch(
        CalibratedClassifier(on_tables(LogisticRegression()), cv=3),
        {"calibrator": CategoricalDistribution(["temperature", "sigmoid"])},
        n_trials=2,
        scoring="accuracy",
        cv=3,
        random_state=0,
    ),
}


def of_kind(kind):
    return {name: model for name, model in CLASSIFIERS.items() if isinstance(model, kind)}


NETS = of_kind(NetClassifier)
CALIBRATED = of_kind(CalibratedClassifier)


def each(models):
    """Run a test with a fresh copy of each of some models."""
    return pytest.mark.parametrize(
        "model", [pytest.param(name, id=name) for name in models], indirect=True
    )


@pytest.fixture
def model(request):
    return clone(CLASSIFIERS[request.param])


def blobs(n=90, n_classes=3, seed=0):
    """Return rows of well separated classes, and their codes in turn."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.normal(scale=0.5, size=(n, max(4, n_classes)))
    X[np.arange(n), codes] += 4
    return X, codes


def mixed(n=90, seed=0):
    """Return a table with every kind of column, and labels that it tells."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    table = pd.DataFrame(
        {
            "number": codes + rng.normal(scale=0.2, size=n),
            "count": rng.integers(0, 5, n),
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "level": pd.Categorical.from_codes(codes, ["u", "v", "w"]),
            "text": np.where(rng.random(n) < 0.2, None, rng.choice(["p", "q"], n)),
            "flag": rng.random(n) < 0.5,
        }
    )
    return table, np.array(["low", "mid", "top"])[codes]


def check_proba(proba, n, n_classes):
    """Check that rows are probabilities."""
    assert proba.shape == (n, n_classes)
    assert proba.dtype in (np.float32, np.float64)
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()
    assert (proba <= 1).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-6)


def test_every_public_classifier_is_here():
    expected = {
        cls
        for cls in public_estimators()
        if issubclass(cls, ClassifierMixin) and not issubclass(cls, BaseCalibrator)
    }
    # Its score is a cost, and its estimator's weights are its estimator's matter.
    expected -= {CostSensitiveClassifier}
    # A search is a classifier if what it tunes is one.
    expected |= {OptunaSearch}
    assert {type(model) for model in CLASSIFIERS.values()} == expected


# --- Labels -----------------------------------------------------------------------------

LABELS = {
    "strings": np.array(["rot", "blau", "gelb"]),
    "objects": np.array(["rot", "blau", "gelb"], dtype=object),
    "bools": np.array([True, False]),
    "negative": np.array([-1, 1]),
    "tens": np.array([30, 10, 20]),
    "int8": np.array([-128, 127, 0], dtype=np.int8),
    "whole floats": np.array([2.0, 0.0, -1.0]),
    "large": np.array([2**62, 2**62 + 1]),
}


@each(CLASSIFIERS)
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_predict_returns_labels(model, labels):
    X, codes = blobs(n_classes=len(labels))
    y = labels[codes]
    model.fit(X, y)
    assert_array_equal(model.classes_, sorted(labels.tolist()))
    check_proba(model.predict_proba(X), len(X), len(labels))
    predicted = model.predict(X)
    assert predicted.dtype.kind == y.dtype.kind
    assert set(predicted.tolist()) <= set(labels.tolist())
    assert (predicted == y).mean() > 0.95
    columns = model.predict_proba(X).argmax(axis=1)
    assert_array_equal(model.classes_[columns], predicted)
    assert model.score(X, y) == (predicted == y).mean()


@each(CLASSIFIERS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: pd.Series(y, index=range(100, 100 + len(y))),
        lambda y: pd.Series(pd.Categorical(y, ["mid", "top", "low", "never"], ordered=True)),
        lambda y: pd.Series(y, dtype="string"),
        lambda y: pd.Series(y, dtype="category"),
        lambda y: y.tolist(),
    ],
    ids=["Series", "ordered with unused level", "string", "category", "list"],
)
def test_containers_of_labels(model, wrap):
    X, y = mixed()
    model.fit(X, wrap(y))
    # The order of classes_ is that of the sorted labels, whatever order the levels have.
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert (model.predict(X) == y).mean() > 0.95


@each(CLASSIFIERS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.linspace(0, 1, 90), "[Uu]nknown label type"),
        (np.where(np.arange(90) % 2, 1.0, np.nan), "NaN"),
        (np.zeros((90, 2)), r"(1d|multilabel|shape)"),
        (np.zeros(90), "class"),
        (None, "requires y"),
        (np.arange(89) % 2, "inconsistent numbers of samples"),
    ],
    ids=["fractions", "missing", "two columns", "one class", "none", "other length"],
)
def test_bad_labels(model, y, message):
    X, _ = blobs()
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)


@each(CLASSIFIERS)
def test_a_failed_fit_leaves_no_model(model):
    X, y = blobs()
    model.fit(X, y)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(90))
    with pytest.raises(NotFittedError):
        model.predict(X)


# --- Copies -----------------------------------------------------------------------------


@each(CLASSIFIERS)
def test_clone_gives_the_same_numbers(model):
    X, y = mixed()
    fitted = model.fit(X, y)
    again = clone(fitted)
    with pytest.raises(NotFittedError):
        again.predict(X)
    assert_array_equal(again.fit(X, y).predict_proba(X), fitted.predict_proba(X))


def named_parameters(cls):
    """Return the parameters with a default in the constructors of a class and its bases."""
    return {
        name: parameter.default
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("skcal.") and "__init__" in vars(base)
        for name, parameter in signature(base.__init__).parameters.items()
        if parameter.default is not parameter.empty
    }


def unusual(name, value):
    """Return another value of the kind of a parameter, which only fit would refuse."""
    if name == "device":
        return "cpu:0"  # copying asks torch
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return "unusual"


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        (NeSCalMLP(), {"optimizer__weight_decay": 0.5, "iterator_train__shuffle": False}),
        (NeSCalClassifier(Net), {"module__width": 3, "criterion__label_smoothing": 0.1}),
        (NetClassifier(Net), {"module__width": 3, "optimizer__betas": (0.5, 0.9)}),
        (MultiHeadMLP(), {"loss__gamma": 1.0}),
        (MultiHeadClassifier(Net), {"module__width": 3, "criterion__label_smoothing": 0.1}),
        (CalibratedClassifier(NeSCalMLP()), {}),
        (DeepEnsembleClassifier(), {}),
        (TabularEncoder(), {}),
    ],
    ids=lambda given: None if isinstance(given, dict) else type(given).__name__,
)
def test_clone_keeps_every_parameter(model, extra):
    changed = {
        name: unusual(name, value)
        for name, value in named_parameters(type(model)).items()
        if name not in ("module", "callbacks") and name in signature(type(model)).parameters
    } | extra
    by_init = type(model)(**model.get_params(deep=False) | changed)
    by_set = clone(model).set_params(**changed)
    for original in (by_init, by_set):
        for copied in (clone(original), clone(clone(original)), copy.deepcopy(original)):
            params = copied.get_params(deep=False)
            assert {name: params[name] for name in changed} == changed


@pytest.mark.parametrize("cls", sorted({type(net) for net in NETS.values()}, key=str))
def test_defaults_hold_nothing_that_cannot_be_pickled(cls):
    model = cls()
    again = pickle.loads(pickle.dumps(model)).get_params(deep=False)
    assert again == model.get_params(deep=False)
    for name, value in model.get_params().items():
        assert "<lambda>" not in repr(value), name
        assert "<locals>" not in repr(value), name


@pytest.mark.parametrize("cls", sorted(public_estimators(), key=str), ids=lambda cls: cls.__name__)
def test_repr_shows_what_was_changed(cls):
    wraps = cls in (CalibratedClassifier, CostSensitiveClassifier, OptunaSearch)
    given = {"estimator": LogisticRegression()} if wraps else {}
    given |= {"space": {}} if cls is OptunaSearch else {}
    model = cls(**given)
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    assert repr(model) == f"{cls.__name__}({shown})"
    assert cls.__name__ in model._repr_html_()


# --- Seeds ------------------------------------------------------------------------------


@each(CLASSIFIERS)
def test_the_process_wide_generators_are_left_alone(model):
    X, y = mixed()

    def states():
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002
        return random.getstate(), kind, keys.tolist(), rest, torch.get_rng_state().tolist()

    before = states()
    model.fit(X, y).predict_proba(X)
    assert states() == before


@each(NETS)
def test_the_process_wide_generators_do_not_matter(model):
    X, y = mixed()
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    first = model.fit(X, y).predict_proba(X)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    assert_array_equal(clone(model).fit(X, y).predict_proba(X), first)


@each(NETS)
def test_seeds(model):
    X, y = mixed()

    def fit(seed):
        return clone(model).set_params(random_state=seed).fit(X, y).predict_proba(X)

    assert_array_equal(fit(3), fit(3))
    assert not np.array_equal(fit(3), fit(4))
    assert not np.array_equal(fit(None), fit(None))
    model.set_params(random_state=np.random.RandomState(3))
    copied = clone(model).fit(X, y).predict_proba(X)  # clone copies the state
    first, second = model.fit(X, y).predict_proba(X), model.fit(X, y).predict_proba(X)
    assert_array_equal(first, copied)
    assert not np.array_equal(first, second)


def fit_predict(model, X, y):
    return model.fit(X, y).predict_proba(X)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_fits_at_the_same_time_give_the_same_bits(backend):
    X, y = mixed()
    # Different lengths of training, so that the threads meet at different places.
    models = [
        clone(CLASSIFIERS[name]).set_params(random_state=seed, max_epochs=10 + 5 * seed)
        for seed in range(2)
        for name in ("NeSCalMLP", "module", "NetClassifier")
    ] + [clone(CLASSIFIERS["calibrated net"]), clone(CLASSIFIERS["deep ensemble"])]
    one_by_one = [fit_predict(clone(model), X, y) for model in models]
    with joblib.parallel_config(backend, n_jobs=2):
        together = joblib.Parallel()(joblib.delayed(fit_predict)(m, X, y) for m in models)
    for one, other in zip(one_by_one, together, strict=True):
        assert_array_equal(one, other)


@each(CLASSIFIERS)
def test_predicting_in_threads(model):
    X, y = mixed()
    model.fit(X, y)
    expected = model.predict_proba(X)
    answers = [None] * 4

    def ask(position):
        for _ in range(5):
            answers[position] = model.predict_proba(X)

    threads = [threading.Thread(target=ask, args=(position,)) for position in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        assert_array_equal(answer, expected)


# --- Files and processes ------------------------------------------------------------------


def saved_with_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


def test_a_fresh_process_with_one_thread_predicts_the_same(tmp_path):
    X, y = mixed()
    X.to_pickle(tmp_path / "X.pickle")
    expected = {}
    names = ("NeSCalMLP", "NeSCalClassifier", "NetClassifier", "temperature", "isotonic")
    for name in (*names, "deep ensemble"):
        fitted = clone(CLASSIFIERS[name]).fit(X, y)
        expected[name] = fitted.predict_proba(X)
        (tmp_path / f"{name}-pickle").write_bytes(pickle.dumps(fitted))
        (tmp_path / f"{name}-joblib").write_bytes(saved_with_joblib(fitted))
        (tmp_path / f"{name}-cloudpickle").write_bytes(cloudpickle.dumps(fitted))
    code = """
import pathlib, sys
import joblib, numpy, pandas
folder = pathlib.Path(sys.argv[1])
X = pandas.read_pickle(folder / "X.pickle")
for path in sorted(folder.glob("*-*")):
    model = joblib.load(path) if path.name.endswith("joblib") else pandas.read_pickle(path)
    numpy.save(folder / f"{path.name}.npy", model.predict_proba(X))
    assert set(model.predict(X)) == {"low", "mid", "top"}
import torch
assert torch.get_num_threads() == 1
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    results = sorted(tmp_path.glob("*.npy"))
    assert len(results) == 3 * len(expected)
    for path in results:
        name = path.name.rpartition("-")[0]
        assert_allclose(np.load(path), expected[name], rtol=1e-6, atol=1e-7, err_msg=path.name)


@each(CLASSIFIERS)
def test_pickle_and_deepcopy(model):
    X, y = mixed()
    model.fit(X, y)
    expected = model.predict_proba(X)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(copied.predict_proba(X), expected)
        assert_array_equal(copied.fit(X, y).predict_proba(X), expected)
    # Neither training rows nor graph nor cache is carried along.
    assert len(pickle.dumps(model)) < 2**20


def test_a_module_of_a_notebook_travels_with_the_estimator():
    class Local(Net):
        pass

    X, y = blobs()
    model = NeSCalClassifier(Local, **FAST).fit(X, y)
    again = pickle.loads(cloudpickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@each(NETS)
def test_parameters_set_after_fit_act_in_the_next_fit(model):
    X, y = blobs()
    before = model.fit(X, y).predict_proba(X)
    loss = "loss" if "loss" in model.get_params(deep=False) else "criterion"
    changes = [
        {"lr": 0.05},
        {"optimizer": torch.optim.SGD},
        {"optimizer__weight_decay": 0.5},
        {"iterator_train": torch.utils.data.DataLoader},
        {"iterator_valid": torch.utils.data.DataLoader},
        {loss: torch.nn.MultiMarginLoss},
        {"callbacks": [("schedule", LRScheduler("StepLR", step_size=1, gamma=0.9))]},
        {"callbacks__schedule__gamma": 0.5},
    ]
    if "module" in model.get_params(deep=False):
        changes += [{"module": Net}, {"module__width": 8}]
    for change in changes:
        model.set_params(**change)
        assert_array_equal(model.predict_proba(X), before, err_msg=str(change))
        params = model.get_params()
        assert {name: params[name] for name in change} == change
    fresh = clone(model).fit(X, y).predict_proba(X)
    assert_array_equal(model.fit(X, y).predict_proba(X), fresh)
    assert np.abs(fresh - before).max() > 1e-3


# --- Tables -----------------------------------------------------------------------------


@each(CLASSIFIERS)
def test_mixed_table(model):
    X, y = mixed()
    before = X.copy(deep=True)
    model.fit(X, y)
    check_proba(model.predict_proba(X), len(X), 3)
    assert (model.predict(X) == y).mean() > 0.95
    assert model.n_features_in_ == 6
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    pd.testing.assert_frame_equal(X, before)
    # Rows keep no memory of each other, nor of their index.
    shuffled = X.sample(frac=1, random_state=0)
    assert_allclose(
        model.predict_proba(shuffled),
        model.predict_proba(X)[shuffled.index],
        rtol=1e-4,
        atol=1e-6,
    )
    assert_allclose(model.predict_proba(X.iloc[[5]]), model.predict_proba(X)[[5]], atol=1e-6)


@each(CLASSIFIERS)
def test_other_columns_are_refused(model):
    X, y = mixed()
    model.fit(X, y)
    for other in (
        X[X.columns[::-1]],
        X.rename(columns={"gap": "hole"}),
        X.drop(columns="gap"),
        X.assign(more=1),
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict_proba(other)


# A whole column of new levels may be warned of; here the answer is looked at.
NEW_LEVELS = "ignore:.*hold levels that fit did not see:UserWarning"


@pytest.mark.filterwarnings(NEW_LEVELS)
@each(CLASSIFIERS)
def test_new_and_missing_cells_are_answered(model):
    X, y = mixed()
    model.fit(X, y)
    for change in (
        {"level": pd.Categorical(["new"] * 90)},
        {"level": None},
        {"text": "new"},
        {"text": None},
        {"flag": None},
        {"gap": np.nan},
        {"number": np.nan},
        {"count": pd.array([None] * 90, dtype="Int64")},
        {"level": np.nan, "text": np.nan, "number": np.nan, "flag": np.nan, "gap": np.nan},
    ):
        new = X.assign(**change)
        proba = model.predict_proba(new)
        check_proba(proba, len(X), 3)
        one = model.predict_proba(new.iloc[[7]])
        assert_allclose(one, proba[[7]], rtol=1e-4, atol=1e-6, err_msg=str(change))


@each(CLASSIFIERS)
def test_types_of_columns_may_change(model):
    X, y = mixed()
    # Levels that look like numbers, as they come from one file and then from another.
    X["level"] = (X["level"].cat.codes + 1).astype(str)
    model.fit(X, y)
    expected = model.predict_proba(X)
    for change in (
        {"level": X["level"].astype(int)},
        {"level": X["level"].astype(float)},
        {"level": X["level"].astype("category")},
        {"level": X["level"].astype(int).astype("category")},
        {"level": X["level"].astype("Int64")},
        {"text": X["text"].astype("string")},
        {"text": X["text"].astype("category")},
        {"text": X["text"].astype(object)},
        {"flag": X["flag"].astype("boolean")},
        {"flag": X["flag"].astype(int)},
        {"count": X["count"].astype("Int64")},
        {"count": X["count"].astype(float)},
        {"count": X["count"].astype("int8")},
        {"gap": X["gap"].astype("Float64")},
        {"gap": X["gap"].astype(object)},
    ):
        assert_allclose(model.predict_proba(X.assign(**change)), expected, err_msg=str(change))


@each(CLASSIFIERS)
def test_nullable_types_are_those_of_numpy(model):
    X, y = mixed()
    nullable = X.convert_dtypes()
    types = {str(dtype) for dtype in nullable.dtypes}
    assert types >= {"Int64", "Float64", "boolean"}
    expected = clone(model).fit(X, y).predict_proba(X)
    assert_array_equal(model.fit(nullable, y).predict_proba(nullable), expected)
    nullable.loc[[0, 5], ["flag", "count"]] = pd.NA
    check_proba(clone(model).fit(nullable, y).predict_proba(nullable), len(X), 3)


@each(CLASSIFIERS)
@pytest.mark.parametrize("columns", [["level"], ["level", "text", "flag"], ["number"]], ids=str)
def test_columns_of_one_kind(model, columns):
    X, y = mixed()
    model.fit(X[columns], y)
    assert (model.predict(X[columns]) == y).mean() > 0.95


@pytest.mark.filterwarnings(NEW_LEVELS)
@each(CLASSIFIERS)
def test_columns_that_tell_nothing(model):
    X, y = mixed()
    X = X.assign(nothing=np.nan, none=None, same=3, one="x")
    model.fit(X, y)
    assert (model.predict(X) == y).mean() > 0.95
    check_proba(model.predict_proba(X.assign(nothing=1.0, none="x", same=1e30, one="y")), 90, 3)


@each(CLASSIFIERS)
def test_a_number_column_that_turned_to_text_is_named(model):
    X, y = mixed()
    model.fit(X, y)
    with pytest.raises(ValueError, match="Column 'count' held numbers when fitted and now holds"):
        model.predict(X.assign(count="many"))


@each(CLASSIFIERS)
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_infinity_is_refused(model, container):
    X, y = blobs()
    fitted = clone(model).fit(container(X), y)
    for infinity in (np.inf, -np.inf):
        bad = X.copy()
        bad[3, 1] = infinity
        for use in (lambda bad: model.fit(bad, y), fitted.predict_proba):
            with pytest.raises(ValueError, match="infinity in column 1"):
                use(container(bad))


@each(CLASSIFIERS)
def test_sparse_tables_are_refused_with_the_way_out(model):
    X, y = blobs()
    with pytest.raises(TypeError, match="toarray"):
        model.fit(sparse.csr_array(X), y)


def test_sparse_tables_pass_through_calibration():
    X, y = blobs()
    model = CalibratedClassifier(LogisticRegression())
    dense = clone(model).fit(X, y).predict_proba(X)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        assert_allclose(model.fit(kind(X), y).predict_proba(kind(X)), dense, rtol=1e-6)


@each(CLASSIFIERS)
def test_global_pandas_output(model):
    X, y = mixed()
    expected = clone(model).fit(X, y).predict_proba(X)
    with config_context(transform_output="pandas"):
        found = model.fit(X, y).predict_proba(X)
    assert isinstance(found, np.ndarray)
    assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("columns", [["number", "level"], ["number", "count"]], ids=str)
def test_an_encoder_that_knows_columns_by_name(columns):
    X, y = mixed()
    encoder = ColumnTransformer(
        [("first", StandardScaler(), ["number"]), ("second", OneHotEncoder(), [columns[1]])],
        sparse_threshold=1.0,
    )
    model = NeSCalMLP(encoder=encoder, **FAST).fit(X[columns], y)
    assert (model.predict(X[columns]) == y).mean() > 0.95
    assert sparse.issparse(model.encoder_.transform(X[columns]))


def test_an_encoder_set_after_fit_waits_for_the_next_fit():
    X, y = blobs()
    X = 100 + 10 * X
    model = NetClassifier(**FAST).fit(X, y)
    encoded = model.predict_proba(X)
    assert_array_equal(model.set_params(encoder=None).predict_proba(X), encoded)
    raw = model.fit(X, y).predict_proba(X)
    assert not hasattr(model, "encoder_")
    assert_array_equal(raw, NetClassifier(encoder=None, **FAST).fit(X, y).predict_proba(X))
    assert_array_equal(model.set_params(encoder="auto").predict_proba(X), raw)
    assert_array_equal(model.fit(X, y).predict_proba(X), encoded)


def test_a_module_reads_arrays_that_may_not_be_written():
    X, y = blobs()
    expected = NeSCalClassifier(Net, **FAST).fit(X, y).predict_proba(X)
    X = X.astype(np.float32)
    X.flags.writeable = False
    for table in (X, pd.DataFrame(X)):
        model = NeSCalClassifier(Net, **FAST).fit(table, y)
        assert_array_equal(model.predict_proba(table), expected)


def test_a_frame_reaches_the_calibrated_classifier_untouched():
    X, y = mixed()
    model = CalibratedClassifier(
        HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
    )
    X = X.drop(columns="text")  # pandas' strings are no categories to scikit-learn
    model.fit(X, y)
    inner = model.calibrated_classifiers_[0].estimator
    assert inner.is_categorical_.tolist() == [False, False, False, True, False]
    assert (model.predict(X) == y).mean() > 0.95


# --- Numbers ----------------------------------------------------------------------------


@each(CLASSIFIERS)
def test_rows_far_from_the_training_rows(model):
    X, y = blobs()
    model.fit(X, y)
    for scale in (1e-300, 1e-30, 1e30, 1e300):
        check_proba(model.predict_proba(X * scale), len(X), 3)


@each(CLASSIFIERS)
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_unit_of_a_column_does_not_matter(model, scale):
    X, y = blobs()
    expected = clone(model).fit(X, y).predict_proba(X)
    assert_allclose(model.fit(X * scale, y).predict_proba(X * scale), expected, atol=1e-3)


def test_many_classes_sum_to_one():
    X, y = blobs(n=600, n_classes=100)
    for model in (NeSCalMLP(**FAST), CalibratedClassifier(NeSCalMLP(**FAST), cv=2)):
        proba = model.fit(X, y).predict_proba(X)
        check_proba(proba, 600, 100)
        assert np.isfinite(log_loss(y, proba))  # and does not warn of the sums


class OneHot(ClassifierMixin, BaseEstimator):
    """Sure of the class in the first column, which is wrong in a fifth of the rows."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.eye(len(self.classes_))[X[:, 0].astype(int)]


@pytest.mark.parametrize("calibrator", ["temperature", "sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_the_log_loss_after_calibration_is_finite(calibrator, ensemble):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    shown = np.where(rng.random(300) < 0.2, (y + 1) % 3, y)[:, None]
    model = CalibratedClassifier(OneHot(), calibrator, ensemble=ensemble).fit(shown, y)
    proba = model.predict_proba(shown)
    assert (proba > 0).all()
    # The best that can be said is 0.8 for the shown class: 0.8 ln 0.8 + 0.2 ln 0.2 / ... = 0.64.
    assert -np.log(proba[np.arange(300), y]).mean() < 0.75
    separable = CalibratedClassifier(DecisionTreeClassifier(), calibrator, ensemble=ensemble)
    assert (separable.fit(*blobs()).predict_proba(blobs(seed=1)[0]) > 0).all()


# --- Sizes ------------------------------------------------------------------------------


@each(NETS)
def test_as_many_rows_as_classes(model):
    X, y = blobs(n=4, n_classes=4)
    with pytest.raises(ValueError, match=r"too few to train on.*set early_stopping=False"):
        clone(model).fit(X, y)
    model.set_params(early_stopping=False, max_epochs=60).fit(X, y)
    check_proba(model.predict_proba(X), 4, 4)
    assert model.score(X, y) == 1


@each(NETS)
def test_two_rows(model):
    X, y = blobs(n=2, n_classes=2)
    model.set_params(early_stopping=False).fit(X, y)
    check_proba(model.predict_proba(X), 2, 2)


@each(NETS)
def test_a_class_of_one_row_stays_in_training(model):
    X, y = blobs(n=50, n_classes=2)
    y[7] = 2
    model.fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    check_proba(model.predict_proba(X), 50, 3)


@each(NETS)
def test_duplicates_of_every_row(model):
    X, y = blobs(n=12)
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    if hasattr(model, "n_neighbors"):
        model.set_params(n_neighbors=5)
    assert model.fit(X, y).score(X, y) > 0.95


@each(NETS)
def test_folds_that_lack_a_class(model):
    X, y = blobs(n=45)
    rows = np.argsort(y, kind="stable")
    scores = cross_val_score(model, X[rows], y[rows], cv=KFold(3))
    assert_array_equal(scores, 0)  # each fold holds only the class that its model never saw
    model.fit(X[y > 0], y[y > 0])
    assert model.classes_.tolist() == [1, 2]
    check_proba(model.predict_proba(X), 45, 2)


@each(CALIBRATED)
def test_folds_that_lack_a_class_cannot_calibrate(model):
    X, y = blobs(n=45)
    rows = np.argsort(y, kind="stable")
    model.set_params(cv=KFold(3))
    with pytest.raises(ValueError, match="Class 0 is not in the training part of fold 1"):
        model.fit(X[rows], y[rows])


@each(CALIBRATED)
def test_a_class_rarer_than_the_folds(model):
    X, y = blobs(n=60)
    y[y == 2] = 0
    y[:2] = 2
    with pytest.raises(ValueError, match="class 2 has 2"):
        clone(model).set_params(cv=5).fit(X, y)
    assert model.set_params(cv=None).fit(X, y).predict_proba(X).shape == (60, 3)
    assert model.set_params(ensemble=True).fit(X, y).calibrated_classifiers_.__len__() == 2


# --- Weights ------------------------------------------------------------------------------


@each(CLASSIFIERS)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(90), "non-zero|zero"),
        (np.where(np.arange(90) == 4, -1.0, 1.0), "negative"),
        (np.where(np.arange(90) == 4, np.nan, 1.0), "NaN"),
        (np.ones(89), r"sample_weight.shape == \(89,\)"),
        (np.ones((90, 2)), "1D|dimension"),
    ],
    ids=["zero", "negative", "nan", "length", "matrix"],
)
def test_bad_weights(model, weight, message):
    X, y = blobs()
    with pytest.raises(ValueError, match=message):
        weighted_fit(model, X, y, weight)


def weighted_fit(model, X, y, weight):
    """Fit with weights, without the warning that a pipeline takes none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Pipeline takes no sample_weight", UserWarning)
        return model.fit(X, y, sample_weight=weight)


@each(CLASSIFIERS)
def test_weights_of_one_are_no_weights(model):
    X, y = mixed()
    weighted = weighted_fit(clone(model), X, y, np.ones(90)).predict_proba(X)
    assert_array_equal(weighted, model.fit(X, y).predict_proba(X))


@each(NETS)
@pytest.mark.parametrize("scale", [1e-300, 1e-45, 1e39, 1e300])
def test_the_unit_of_weights_does_not_matter(model, scale):
    X, y = mixed()
    weight = pd.Series(1.0 + np.arange(90) % 3, index=range(5, 95))
    expected = clone(model).fit(X, y, sample_weight=weight).predict_proba(X)
    scaled = model.fit(X, y, sample_weight=weight * scale).predict_proba(X)
    assert_allclose(scaled, expected, atol=1e-3)


def test_weights_of_a_frozen_model_go_to_the_calibrator_alone():
    X, y, _ = make_calibration_data(400, random_state=0)
    weight = np.where(y == 1, 3.0, 1.0)
    rows = np.repeat(np.arange(400), weight.astype(int))
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    for name in ("temperature", "sigmoid", "isotonic"):
        weighted = CalibratedClassifier(frozen, name).fit(X, y, sample_weight=weight)
        repeated = CalibratedClassifier(frozen, name).fit(X[rows], y[rows])
        plain = CalibratedClassifier(frozen, name).fit(X, y)
        expected = repeated.predict_proba(X)
        assert_allclose(weighted.predict_proba(X), expected, rtol=1e-6)
        assert np.abs(plain.predict_proba(X) - expected).max() > 1e-3


def test_a_model_that_takes_no_weights_is_named():
    X, y, _ = make_calibration_data(400, random_state=0)
    weight = np.where(y == 1, 3.0, 1.0)
    model = CalibratedClassifier(KNeighborsClassifier(), "sigmoid")
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight") as caught:
        model.fit(X, y, sample_weight=weight)
    assert caught[0].filename == __file__
    shift = (
        model.predict_proba(X)[:, 1].mean() - clone(model).fit(X, y).predict_proba(X)[:, 1].mean()
    )
    assert shift > 0.1


@pytest.mark.slow
def test_calibration_repairs_balanced_class_weights():
    X, y, _ = make_calibration_data(4000, class_weights=[0.98, 0.02], random_state=0)
    model = NeSCalMLP(class_weight="balanced", smoothing=0, **FAST)
    raw = clone(model).fit(X, y).predict_proba(X)[:, 1].mean()
    calibrated = CalibratedClassifier(model, "sigmoid", cv=3).fit(X, y)
    assert raw > 2 * y.mean()
    assert abs(calibrated.predict_proba(X)[:, 1].mean() - y.mean()) < 0.005


# --- Routing of metadata --------------------------------------------------------------------


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def weights_for(y):
    return np.where(y == np.unique(y)[-1], 5.0, 1.0)


@each(CLASSIFIERS)
@pytest.mark.usefixtures("routing")
def test_fit_without_weights_under_routing(model):
    X, y = mixed()
    assert model.fit(X, y).score(X, y) > 0.95


@each(NETS)
@pytest.mark.usefixtures("routing")
def test_weights_reach_fit_and_score_through_a_search_in_a_pipeline(model):
    X, y, _ = make_calibration_data(120, n_classes=3, random_state=0)
    weight = weights_for(y)
    net = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = Pipeline([("scale", scaler), ("net", net)])
    search = GridSearchCV(pipeline, {"net__lr": [0.01, 0.02]}, cv=StratifiedKFold(2))
    search.fit(X, y, sample_weight=weight)
    scaled = StandardScaler().fit_transform(X)
    best = clone(model).set_params(lr=search.best_params_["net__lr"])
    expected = clone(best).fit(scaled, y, sample_weight=weight).predict_proba(scaled)
    assert_allclose(search.predict_proba(X), expected, rtol=1e-5)
    assert np.abs(expected - best.fit(scaled, y).predict_proba(scaled)).max() > 0.05
    # The score of a split, with the weights in both parts.
    train, test = next(StratifiedKFold(2).split(X, y))
    fold = clone(pipeline).set_params(net__lr=0.01)
    fold.fit(X[train], y[train], sample_weight=weight[train])
    hits = fold.predict(X[test]) == y[test]
    assert_allclose(
        search.cv_results_["split0_test_score"][0], np.average(hits, weights=weight[test])
    )


@each(NETS)
@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asked_for_are_refused(model):
    X, y = blobs()
    weight = weights_for(y)
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(model, {"lr": [0.01]}, cv=2)
    for outer in (pipeline, search, CalibratedClassifier(model, cv=2)):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            outer.fit(X, y, sample_weight=weight)
    # Given to the net itself they need no routing.
    model.fit(X, y, sample_weight=weight)


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_through_calibration():
    X, y, _ = make_calibration_data(300, random_state=0)
    weight = weights_for(y)
    inner = LogisticRegression().set_fit_request(sample_weight=True)
    routed = CalibratedClassifier(inner).fit(X, y, sample_weight=weight).predict_proba(X)
    with config_context(enable_metadata_routing=False):
        model = CalibratedClassifier(LogisticRegression())
        direct = model.fit(X, y, sample_weight=weight).predict_proba(X)
    assert_allclose(routed, direct)
    plain = model.fit(X, y).predict_proba(X)
    assert routed[:, 1].mean() > plain[:, 1].mean() + 0.1
    outer = CalibratedClassifier(inner).set_fit_request(sample_weight=True)
    pipeline = make_pipeline(TabularEncoder().set_fit_request(sample_weight=False), outer)
    pipeline.fit(X, y, sample_weight=weight)
    assert pipeline.predict_proba(X)[:, 1].mean() > plain[:, 1].mean() + 0.1


@pytest.mark.parametrize("switch", [True, False])
def test_groups_reach_the_splitter(switch):
    X, y = blobs()
    groups = np.arange(90) // 15
    with config_context(enable_metadata_routing=switch):
        cv = GroupKFold(3)
        model = CalibratedClassifier(LogisticRegression(), cv=cv)
        model.fit(X, y, groups=groups)
    assert len(model.calibrated_classifiers_) == 3


# --- Silence ------------------------------------------------------------------------------


@each(CLASSIFIERS)
def test_nothing_is_printed(model, capfd):
    X, y = mixed()
    model.fit(X, y).predict(X)
    model.score(X, y)
    assert capfd.readouterr() == ("", "")


# --- Other estimators around ----------------------------------------------------------------


@each(CLASSIFIERS)
def test_is_a_classifier_in_a_pipeline(model):
    X, y = blobs()
    pipeline = make_pipeline(StandardScaler(), model)
    assert is_classifier(model)
    assert is_classifier(pipeline)
    assert_array_equal(pipeline.fit(X, y).classes_, [0, 1, 2])
    # The folds are stratified because it is one: unshuffled folds of sorted labels are hopeless.
    rows = np.argsort(y, kind="stable")
    assert cross_val_score(pipeline, X[rows], y[rows], cv=3).min() > 0.9
    proba = cross_val_predict(model, X[rows], y[rows], cv=3, method="predict_proba")
    check_proba(proba, 90, 3)


@each(CLASSIFIERS)
def test_voting_and_stacking(model):
    X, y = mixed()
    other = on_tables(LogisticRegression())
    voting = VotingClassifier([("a", model), ("b", other)], voting="soft").fit(X, y)
    expected = clone(model).fit(X, y).predict_proba(X) + clone(other).fit(X, y).predict_proba(X)
    assert_allclose(voting.predict_proba(X), expected / 2, rtol=1e-5)
    stacking = StackingClassifier([("a", model), ("b", other)], LogisticRegression(), cv=2)
    assert stacking.fit(X, y).score(X, y) > 0.95
    assert stacking.classes_.tolist() == ["low", "mid", "top"]


@each(CLASSIFIERS)
def test_search_with_strings(model):
    X, y = mixed()
    name, values = {
        CalibratedClassifier: ("cv", [2, 3]),
        DeepEnsembleClassifier: ("estimator__lr", [1e-6, 0.02]),
        OptunaSearch: ("cv", [3, 4]),
    }.get(type(model), ("lr", [1e-6, 0.02]))
    search = GridSearchCV(model, {name: values}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    if name != "cv":
        assert search.best_params_ == {name: 0.02}
    assert search.score(X, y) > -0.7
    assert set(search.predict(X)) == {"low", "mid", "top"}


@pytest.mark.slow
def test_search_in_two_processes():
    X, y = mixed()
    grid = {"net__lr": [0.01, 0.02], "net__optimizer__weight_decay": [0.0, 0.1]}
    pipeline = Pipeline([("net", NeSCalMLP(**FAST))])
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss")
    one = clone(search).set_params(n_jobs=1).fit(X, y)
    two = clone(search).set_params(n_jobs=2).fit(X, y)
    for name in ("split0_test_score", "split1_test_score"):
        assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    assert len(set(one.cv_results_["mean_test_score"])) == 4


@pytest.mark.slow
def test_search_over_the_parts_of_a_calibrated_network():
    X, y, _ = make_calibration_data(200, random_state=0)
    model = CalibratedClassifier(NeSCalMLP(**FAST), cv=2)
    grid = {
        "estimator__smoothing": [0.0, 3.0],
        "estimator__optimizer__weight_decay": [0.0, 10.0],
        "calibrator": ["temperature", "identity"],
    }
    search = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) == 8
    untouched = NeSCalMLP().smoothing
    assert model.get_params()["estimator__smoothing"] == untouched  # the search took copies
    with pytest.raises(NotFittedError):
        model.predict(X)


# Bagging draws rows by weights, which a pipeline in a calibrated classifier does not see.
@pytest.mark.filterwarnings("ignore:Pipeline takes no sample_weight:UserWarning")
@each(CLASSIFIERS)
def test_bagging(model):
    X, y = blobs()
    labels = np.array(["a", "b", "c"])[y]
    bagging = BaggingClassifier(model, n_estimators=2, random_state=0).fit(X, labels)
    assert bagging.score(X, labels) > 0.95


@each(NETS)
def test_boosting_and_one_vs_rest(model):
    X, y = blobs()
    labels = np.array(["a", "b", "c"])[y]
    for outer in (AdaBoostClassifier(model, n_estimators=2), OneVsRestClassifier(model)):
        assert outer.fit(X, labels).score(X, labels) > 0.95


def test_a_tuned_threshold_around_calibration():
    rng = np.random.default_rng(0)
    rare = rng.random(2000) < 0.03
    X = rng.normal(size=(2000, 3))
    X[rare] += 1.2
    y = np.where(rare, "yes", "no")
    for inner in (LogisticRegression(), NeSCalMLP(smoothing=0, **FAST)):
        model = CalibratedClassifier(inner, cv=2)
        tuned = TunedThresholdClassifierCV(model, scoring="balanced_accuracy", cv=2, random_state=0)
        tuned.fit(X, y)
        assert set(tuned.predict(X)) == {"no", "yes"}
        assert 0.005 < tuned.best_threshold_ < 0.2
        assert balanced_accuracy_score(y, tuned.predict(X)) > 0.8
        # At 0.5 nearly all rows are "no".
        assert balanced_accuracy_score(y, model.fit(X, y).predict(X)) < 0.75


@each(CLASSIFIERS)
def test_permutation_importance(model):
    X, y = mixed()
    X = X[["number", "count"]]
    model.fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0, scoring="neg_log_loss")
    assert found.importances_mean[0] > 10 * abs(found.importances_mean[1])


@each(NETS)
def test_partial_dependence(model):
    X, y = blobs(n_classes=2)
    model.fit(X, y)
    found = partial_dependence(model, X, [1], grid_resolution=5)
    assert (np.diff(found["average"][0]) > 0).all()


@each(NETS)
def test_frozen(model):
    X, y = blobs()
    X_new, y_new = blobs(seed=1)
    model.fit(X, y)
    frozen = FrozenEstimator(model)
    expected = model.predict_proba(X_new)
    assert_array_equal(frozen.fit(X_new, y_new).predict_proba(X_new), expected)
    noisy = np.where(np.arange(90) < 18, (y_new + 1) % 3, y_new)  # not one that it predicts well
    calibrated = CalibratedClassifier(frozen).fit(X_new, noisy)
    assert calibrated.calibrated_classifiers_[0].calibrator.temperature_ > 1
    assert_array_equal(model.predict_proba(X_new), expected)


@each(NETS)
def test_calibration_of_scikit_learn(model):
    X, y = blobs()
    calibrated = CalibratedClassifierCV(model, method="temperature", cv=2).fit(X, y)
    check_proba(calibrated.predict_proba(X), 90, 3)
    assert calibrated.score(X, y) > 0.9
