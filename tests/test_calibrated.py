"""CalibratedClassifier: folds, frozen models, weights, containers, and hand-made equals."""

import pickle
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skcal import CalibratedClassifier, NeSCalMLP, TemperatureScaling
from skcal.calibration import (
    BaseCalibrator,
    IsotonicCalibration,
    PlattScaling,
    make_calibrator,
)

both_modes = pytest.mark.parametrize("ensemble", [True, False])


def make(n, k=3, seed=0):
    return make_classification(
        n, 8, n_informative=5, n_classes=k, flip_y=0.1, random_state=seed, class_sep=0.7
    )


X, y = make(600)
X_test, y_test = X[400:], y[400:]
X_train, y_train = X[:400], y[:400]


def check_simplex(proba, n, k):
    assert proba.shape == (n, k)
    assert proba.dtype == np.float64
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()
    assert_allclose(proba.sum(axis=1), 1, atol=1e-9)


# --- Spies and stand-ins -----------------------------------------------------------------------


class Spy(ClassifierMixin, BaseEstimator):
    """A logistic regression that writes down what it is given."""

    seen: ClassVar[list] = []

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y, sample_weight=None):
        Spy.seen.append(("fit", X, sample_weight))
        self.model_ = LogisticRegression(C=self.C).fit(self._numbers(X), y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        Spy.seen.append(("predict_proba", X, None))
        return self.model_.predict_proba(self._numbers(X))

    def predict(self, X):
        raise AssertionError("predict is not needed")

    @staticmethod
    def _numbers(X):
        return X.select_dtypes("number").to_numpy() if isinstance(X, pd.DataFrame) else X


@pytest.fixture
def seen():
    Spy.seen.clear()
    yield Spy.seen
    Spy.seen.clear()


class Backwards(ClassifierMixin, BaseEstimator):
    """A classifier whose classes_ are not sorted."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_[::-1]
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)[:, ::-1]


class Shrug:
    """Someone else's calibrator, not even a scikit-learn estimator: half way to uniform."""

    def __init__(self):
        self.weights = None

    def fit(self, scores, y, sample_weight=None, *, classes=None):
        assert_allclose(np.sum(scores, axis=1), 1, atol=1e-9)
        assert np.shape(scores)[1] == len(classes)
        self.weights = sample_weight
        self.classes_ = classes
        return self

    def predict_proba(self, scores):
        return (np.asarray(scores) + 1 / np.shape(scores)[1]) / 2


class Fade(BaseCalibrator):
    """A user's own map on the package's base class."""

    def __init__(self, *, share=0.5, input="proba", eps="auto"):
        super().__init__(input=input, eps=eps)
        self.share = share

    def _fit(self, log_proba, codes, weights):
        self.rows_ = len(codes)

    def _transform(self, log_proba):
        return self.share * log_proba


# --- Both modes by hand ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
def test_ensemble_is_the_mean_of_one_pair_per_fold(name):
    parts = []
    for train, test in StratifiedKFold(5).split(X_train, y_train):
        model = LogisticRegression().fit(X_train[train], y_train[train])
        calibrator = make_calibrator(name).set_params(input="logits")
        calibrator.fit(model.decision_function(X_train[test]), y_train[test])
        parts.append(calibrator.predict_proba(model.decision_function(X_test)))
    calibrated = CalibratedClassifier(LogisticRegression(), name).fit(X_train, y_train)
    assert_allclose(calibrated.predict_proba(X_test), np.mean(parts, axis=0), atol=1e-12)
    assert len(calibrated.calibrated_classifiers_) == 5
    explicit = CalibratedClassifier(LogisticRegression(), name, ensemble=True)
    explicit.fit(X_train, y_train)
    assert_array_equal(explicit.predict_proba(X_test), calibrated.predict_proba(X_test))


def test_single_model_is_calibrated_on_out_of_fold_logits():
    scores = cross_val_predict(
        LogisticRegression(), X_train, y_train, cv=StratifiedKFold(4), method="decision_function"
    )
    by_hand = TemperatureScaling(input="logits").fit(log_softmax(scores, axis=1), y_train)
    calibrated = CalibratedClassifier(LogisticRegression(), cv=4, ensemble=False)
    calibrated.fit(X_train, y_train)
    (pair,) = calibrated.calibrated_classifiers_
    assert pair.calibrator.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)
    model = LogisticRegression().fit(X_train, y_train)
    assert_allclose(
        calibrated.predict_proba(X_test),
        by_hand.predict_proba(model.decision_function(X_test)),
        atol=1e-9,
    )


def test_single_model_is_calibrated_on_out_of_fold_probabilities():
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)  # has zeros
    proba = cross_val_predict(tree, X_train, y_train, cv=StratifiedKFold(5), method="predict_proba")
    by_hand = TemperatureScaling().fit(proba, y_train)
    calibrated = CalibratedClassifier(tree, ensemble=False).fit(X_train, y_train)
    raw = clone(tree).fit(X_train, y_train).predict_proba(X_test)
    assert_allclose(calibrated.predict_proba(X_test), by_hand.predict_proba(raw), atol=1e-12)


@both_modes
@pytest.mark.parametrize("k", [2, 3])
def test_same_as_scikit_learn_on_a_well_behaved_case(ensemble, k):
    X, y = make(1000, k)
    ours = CalibratedClassifier(
        LogisticRegression(), TemperatureScaling(shrinkage=0), ensemble=ensemble
    ).fit(X[:700], y[:700])
    theirs = CalibratedClassifierCV(
        LogisticRegression(), method="temperature", ensemble=ensemble
    ).fit(X[:700], y[:700])
    assert_allclose(ours.predict_proba(X[700:]), theirs.predict_proba(X[700:]), atol=5e-3)


def test_labels_come_back_and_columns_follow_classes():
    names = np.array(["zebra", "ant", "mole"])
    codes = CalibratedClassifier(GaussianNB()).fit(X_train, y_train)
    named = CalibratedClassifier(GaussianNB()).fit(X_train, names[y_train])
    assert_array_equal(named.classes_, ["ant", "mole", "zebra"])
    columns = [1, 2, 0]  # of ant, mole and zebra among the codes
    assert_allclose(named.predict_proba(X_test), codes.predict_proba(X_test)[:, columns], atol=1e-9)
    assert_array_equal(named.predict(X_test), names[codes.predict(X_test)])
    assert named.score(X_test, names[y_test]) > 0.6


def test_not_fitted():
    with pytest.raises(NotFittedError):
        CalibratedClassifier(GaussianNB()).predict_proba(X)
    with pytest.raises(NotFittedError):
        CalibratedClassifier(GaussianNB()).predict(X)


# --- What is read from the classifier ----------------------------------------------------------


@pytest.mark.parametrize(
    "base",
    [
        RandomForestClassifier(40, random_state=0),
        RandomForestClassifier(40, min_samples_leaf=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=20, random_state=0),
        GaussianNB(),
        LinearSVC(),
        SVC(),
        RidgeClassifier(),
        KNeighborsClassifier(),
        OneVsOneClassifier(LinearSVC()),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda base: type(base).__name__,
)
@both_modes
def test_any_classifier_is_calibrated(base, ensemble):
    calibrated = CalibratedClassifier(base, cv=3, ensemble=ensemble).fit(X_train, y_train)
    proba = calibrated.predict_proba(X_test)
    check_simplex(proba, 200, 3)
    loss = log_loss(y_test, proba)
    assert loss < 0.95  # knowing nothing is ln 3 = 1.10
    if hasattr(base, "predict_proba"):
        raw = clone(base).fit(X_train, y_train).predict_proba(X_test)
        assert loss < log_loss(y_test, raw) + 0.03


@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
@both_modes
def test_zeros_of_a_forest_do_not_ruin_it(name, ensemble):
    # Held-out rows whose class got no vote at all are few, and must not outweigh the rest.
    forest = RandomForestClassifier(25, random_state=0)
    raw = clone(forest).fit(X_train, y_train).predict_proba(X_test)
    calibrated = CalibratedClassifier(forest, name, ensemble=ensemble).fit(X_train, y_train)
    loss = log_loss(y_test, calibrated.predict_proba(X_test))
    floored = np.maximum(raw, 0.5 / 25)
    assert loss < log_loss(y_test, floored / floored.sum(axis=1, keepdims=True)) + 0.05


def test_response_names_what_is_read(seen):
    binary = make(400, 2)
    answers = [
        CalibratedClassifier(LogisticRegression(), response=response)
        .fit(*binary)
        .predict_proba(binary[0])
        for response in ("auto", "decision_function", "predict_proba")
    ]
    assert_allclose(answers[1], answers[0], atol=1e-12)
    assert_allclose(answers[2], answers[0], atol=1e-6)
    kinds = [
        CalibratedClassifier(LogisticRegression(), response=response)
        .fit(X, y)
        .calibrated_classifiers_[0]
        .calibrator.input
        for response in ("auto", "predict_proba")
    ]
    assert kinds == ["logits", "proba"]


@pytest.mark.parametrize(
    ("base", "response", "message"),
    [
        (GaussianNB(), "logits", "GaussianNB has no predict_logits"),
        (GaussianNB(), "decision_function", "GaussianNB has no decision_function"),
        (LinearSVC(), "predict_proba", "LinearSVC has no predict_proba"),
        (LinearSVC(), "proba", "'response' parameter"),
    ],
)
def test_response_that_is_not_there(base, response, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(base, response=response).fit(X, y)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda base, X, y: base,
        lambda base, X, y: make_pipeline(StandardScaler(), base),
        lambda base, X, y: GridSearchCV(base, {"C": [0.1, 1.0]}, cv=2),
        lambda base, X, y: FrozenEstimator(base.fit(X, y)),
    ],
    ids=["bare", "pipeline", "search", "frozen"],
)
@pytest.mark.parametrize("k", [3, 4])
def test_margins_of_pairs_are_not_taken_for_margins_of_classes(wrap, k):
    # Three classes have three pairs: the number of columns does not tell.
    X, y = make(400, k)
    base = wrap(SVC(decision_function_shape="ovo"), X, y)
    with pytest.raises(ValueError, match=r"not have one column.*decision_function_shape='ovr'"):
        CalibratedClassifier(base, cv=3).fit(X, y)


def test_pairs_of_two_classes_are_one_margin():
    X, y = make(300, 2)
    ovo = CalibratedClassifier(SVC(decision_function_shape="ovo")).fit(X, y)
    ovr = CalibratedClassifier(SVC(decision_function_shape="ovr")).fit(X, y)
    assert_array_equal(ovo.predict_proba(X), ovr.predict_proba(X))


@pytest.fixture(scope="module")
def network():
    net = NeSCalMLP(hidden_sizes=(16,), max_epochs=5, n_neighbors=3, random_state=0)
    return net.fit(X_train.astype(np.float32), y_train)


@pytest.mark.parametrize("frozen", [True, False])
def test_logits_of_a_network_are_read_through_a_pipeline(network, monkeypatch, frozen):
    def refuse(self, X):
        raise AssertionError("probabilities were asked for")

    pipeline = make_pipeline(StandardScaler(), FunctionTransformer(), clone(network))
    X32 = X_train.astype(np.float32)
    base = FrozenEstimator(pipeline.fit(X32, y_train)) if frozen else pipeline
    monkeypatch.setattr(NeSCalMLP, "predict_proba", refuse)
    calibrated = CalibratedClassifier(base, cv=2).fit(X32, y_train)
    check_simplex(calibrated.predict_proba(X_test.astype(np.float32)), 200, 3)
    if frozen:
        logits = pipeline[-1].predict_logits(pipeline[:-1].transform(X32))
        by_hand = TemperatureScaling(input="logits").fit(logits, y_train)
        assert calibrated.calibrated_classifiers_[0].calibrator.temperature_ == by_hand.temperature_


def test_logits_of_a_tuned_network_are_read_through_the_search(network, monkeypatch):
    search = GridSearchCV(clone(network), {"lr": [1e-2]}, cv=2).fit(X_train, y_train)
    asked = []
    original = NeSCalMLP.predict_logits
    monkeypatch.setattr(
        NeSCalMLP, "predict_logits", lambda self, X: asked.append(1) or original(self, X)
    )
    CalibratedClassifier(FrozenEstimator(search)).fit(X_test, y_test)
    assert asked == [1]


def test_only_classifiers_are_calibrated():
    with pytest.raises(ValueError, match="LinearRegression is not a classifier"):
        CalibratedClassifier(LinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match="LinearRegression is not a classifier"):
        CalibratedClassifier(FrozenEstimator(LinearRegression().fit(X, y))).fit(X, y)


@both_modes
def test_classes_that_are_not_sorted_keep_their_columns(ensemble):
    plain = CalibratedClassifier(LogisticRegression(), ensemble=ensemble, response="predict_proba")
    backwards = CalibratedClassifier(Backwards(), ensemble=ensemble).fit(X_train, y_train)
    assert_allclose(
        backwards.predict_proba(X_test),
        plain.fit(X_train, y_train).predict_proba(X_test),
        atol=1e-9,
    )


def test_frozen_classes_that_are_not_sorted_are_sorted():
    frozen = FrozenEstimator(Backwards().fit(X_train, y_train))
    calibrated = CalibratedClassifier(frozen).fit(X_test, y_test)
    assert_array_equal(calibrated.classes_, [0, 1, 2])
    assert calibrated.score(X_test, y_test) > 0.6
    assert log_loss(y_test, calibrated.predict_proba(X_test)) < 0.95


@both_modes
def test_a_model_that_returns_nan_is_refused(ensemble):
    class Broken(LogisticRegression):
        def decision_function(self, X):
            return np.full((len(X), 3), np.nan)

    with pytest.raises(ValueError, match=r"NaN in row 0.*Look at what the model returns"):
        CalibratedClassifier(Broken(), ensemble=ensemble).fit(X, y)


# --- Calibrators -------------------------------------------------------------------------------


def test_calibrators_by_name():
    assert type(make_calibrator("temperature")) is TemperatureScaling
    assert type(make_calibrator("sigmoid")) is PlattScaling
    assert type(make_calibrator("isotonic")) is IsotonicCalibration


def test_a_misspelt_calibrator_is_answered_with_the_right_one():
    with pytest.raises(ValueError, match=r"'temprature'.*Did you mean 'temperature'"):
        CalibratedClassifier(GaussianNB(), "temprature").fit(X, y)
    with pytest.raises(ValueError, match=r"names are \['.*'isotonic'.*'temperature'.*\]\.$"):
        CalibratedClassifier(GaussianNB(), "nothing of the kind").fit(X, y)


def test_a_calibrator_must_be_an_instance():
    with pytest.raises(TypeError, match="an instance with fit and predict_proba; got <class"):
        CalibratedClassifier(GaussianNB(), TemperatureScaling).fit(X, y)
    with pytest.raises(ValueError, match="'calibrator' parameter"):
        CalibratedClassifier(GaussianNB(), 3).fit(X, y)
    with pytest.raises(TypeError, match="name or an instance"):
        make_calibrator(GaussianNB)


def test_an_instance_is_used_with_its_parameters_and_left_alone():
    scaling = TemperatureScaling(shrinkage=1e9)
    base = GaussianNB()
    calibrated = CalibratedClassifier(base, scaling).fit(X_train, y_train)
    for pair in calibrated.calibrated_classifiers_:
        assert pair.calibrator.temperature_ == pytest.approx(1, abs=1e-3)
    assert vars(scaling) == vars(TemperatureScaling(shrinkage=1e9))
    assert vars(base) == vars(GaussianNB())


@both_modes
@pytest.mark.parametrize("base", [GaussianNB(), LogisticRegression(), LinearSVC()])
def test_someone_elses_calibrator_gets_probabilities(base, ensemble):
    X2, y2 = make(300, 2)
    for data in ((X_train, y_train), (X2, y2)):
        shrug = Shrug()
        calibrated = CalibratedClassifier(base, shrug, ensemble=ensemble).fit(*data)
        proba = calibrated.predict_proba(data[0])
        k = len(calibrated.classes_)
        check_simplex(proba, len(data[0]), k)
        assert proba.min() >= 0.5 / k
        assert calibrated.score(*data) > 0.6
        assert not hasattr(shrug, "classes_")


@both_modes
def test_a_users_own_map_is_told_the_kind_of_score(ensemble):
    for base, kind in ((GaussianNB(), "proba"), (LogisticRegression(), "logits")):
        calibrated = CalibratedClassifier(base, Fade(share=0.0), ensemble=ensemble)
        calibrated.fit(X_train, y_train)
        assert_allclose(calibrated.predict_proba(X_test), 1 / 3)
        for pair in calibrated.calibrated_classifiers_:
            assert pair.calibrator.input == kind
            assert pair.calibrator.loss_ == pytest.approx(np.log(3))
            assert pair.calibrator.rows_ == (80 if ensemble else 400)


# --- Folds -------------------------------------------------------------------------------------


@both_modes
def test_sorted_labels_without_shuffling_are_refused(ensemble):
    classifier = CalibratedClassifier(GaussianNB(), cv=KFold(3), ensemble=ensemble)
    with pytest.raises(ValueError, match=r"Class 0 is not in the training part of fold 1"):
        classifier.fit(X[:12], np.repeat([0, 1, 2], 4))


def test_a_rare_class_takes_fewer_folds_or_is_named():
    rare = np.repeat(["a", "b", "c"], [148, 149, 3])
    for cv in (5, np.int64(5)):
        with pytest.raises(ValueError, match=r"at least 5 samples.* class 'c' has 3"):
            CalibratedClassifier(GaussianNB(), cv=cv).fit(X[:300], rare)
    calibrated = CalibratedClassifier(GaussianNB()).fit(X[:300], rare)
    assert len(calibrated.calibrated_classifiers_) == 3
    check_simplex(calibrated.predict_proba(X), 600, 3)


def test_a_class_of_one_row_is_named():
    rare = np.repeat(["a", "b", "c"], [25, 24, 1])
    base = MLPClassifier(early_stopping=True, max_iter=5)
    with pytest.raises(ValueError, match="at least 2 samples of each class, but class 'c' has 1"):
        CalibratedClassifier(base).fit(X[:50], rare)


def test_a_single_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes; the data holds one class, 7"):
        CalibratedClassifier(GaussianNB()).fit(X, np.full(600, 7))


@both_modes
@pytest.mark.parametrize("base", [GaussianNB(), LogisticRegression()])
def test_a_fold_may_lack_a_class_in_both_parts(base, ensemble):
    known = np.flatnonzero(y_train != 2)
    everything = np.arange(400)
    cv = [(known[:150], known[150:]), (everything[200:], everything[:200])]
    calibrated = CalibratedClassifier(base, cv=cv, ensemble=ensemble).fit(X_train, y_train)
    proba = calibrated.predict_proba(X_test)
    check_simplex(proba, 200, 3)
    assert log_loss(y_test, proba) < 1.05
    if ensemble:
        narrow = calibrated.calibrated_classifiers_[0]
        assert_array_equal(narrow.estimator.classes_, [0, 1])
        alone = CalibratedClassifier(base, cv=cv[1:]).fit(X_train, y_train)
        assert_allclose(proba[:, 2], alone.predict_proba(X_test)[:, 2] / 2, atol=1e-12)
    else:
        assert (proba[y_test == 2, 2] > 0.3).mean() > 0.4


@both_modes
def test_time_series_split_scores_the_later_rows(ensemble):
    calibrated = CalibratedClassifier(GaussianNB(), cv=TimeSeriesSplit(4), ensemble=ensemble)
    calibrated.fit(X_train, y_train)
    check_simplex(calibrated.predict_proba(X_test), 200, 3)
    if not ensemble:
        parts = list(TimeSeriesSplit(4).split(X_train))
        scored = np.concatenate([test for _, test in parts])
        proba = np.concatenate(
            [
                GaussianNB().fit(X_train[train], y_train[train]).predict_proba(X_train[test])
                for train, test in parts
            ]
        )
        by_hand = TemperatureScaling().fit(proba, y_train[scored])
        fitted = calibrated.calibrated_classifiers_[0].calibrator
        assert fitted.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)


@both_modes
def test_repeated_splits_score_rows_several_times(ensemble):
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=4, random_state=0)
    calibrated = CalibratedClassifier(GaussianNB(), cv=cv, ensemble=ensemble)
    calibrated.fit(X_train, y_train)
    check_simplex(calibrated.predict_proba(X_test), 200, 3)
    assert len(calibrated.calibrated_classifiers_) == (12 if ensemble else 1)
    if not ensemble:
        # Each score is of a single model, as the final one is: 4 rows of weight 1/4.
        parts = [
            (GaussianNB().fit(X_train[train], y_train[train]).predict_proba(X_train[test]), test)
            for train, test in cv.split(X_train, y_train)
        ]
        scores, rows = (np.concatenate(values) for values in zip(*parts, strict=True))
        by_hand = TemperatureScaling(shrinkage=0).fit(scores, y_train[rows])
        calibrated.set_params(calibrator=TemperatureScaling(shrinkage=0)).fit(X_train, y_train)
        fitted = calibrated.calibrated_classifiers_[0].calibrator
        assert fitted.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)
        # A quarter each: the pull of ten rows stays one of ten rows in 400, not in 1600.
        calibrated.set_params(calibrator=Shrug()).fit(X_train, y_train)
        assert_allclose(
            calibrated.calibrated_classifiers_[0].calibrator.weights, np.full(1600, 0.25)
        )


@both_modes
def test_groups_are_kept_together_without_a_global_switch(seen, ensemble):
    groups = np.arange(400) % 10
    marked = np.column_stack([X_train, groups])
    calibrated = CalibratedClassifier(Spy(), cv=GroupKFold(5), ensemble=ensemble)
    calibrated.fit(marked, y_train, groups=groups)
    trained = [set(given[:, -1]) for what, given, _ in seen if what == "fit"]
    assert [len(group) for group in trained] == [8] * 5 + ([] if ensemble else [10])
    with pytest.raises(ValueError, match="groups"):
        CalibratedClassifier(Spy(), cv=GroupKFold(5)).fit(X_train, y_train)


def test_a_generator_is_refused_and_a_list_can_be_used_again():
    splits = list(StratifiedKFold(3).split(X_train, y_train))
    with pytest.raises(ValueError, match=r"generator.*only once.*list"):
        CalibratedClassifier(GaussianNB(), cv=(split for split in splits)).fit(X_train, y_train)
    with pytest.raises(ValueError, match="generator"):
        CalibratedClassifier(GaussianNB(), cv=StratifiedKFold(3).split(X_train, y_train)).fit(
            X_train, y_train
        )
    classifier = CalibratedClassifier(GaussianNB(), cv=splits)
    first = classifier.fit(X_train, y_train).predict_proba(X_test)
    assert_array_equal(classifier.fit(X_train, y_train).predict_proba(X_test), first)
    assert_array_equal(clone(classifier).fit(X_train, y_train).predict_proba(X_test), first)
    by_splitter = CalibratedClassifier(GaussianNB(), cv=StratifiedKFold(3)).fit(X_train, y_train)
    assert_array_equal(by_splitter.predict_proba(X_test), first)


def test_splits_may_be_masks_but_not_missing():
    splits = list(StratifiedKFold(3).split(X_train, y_train))
    masks = [tuple(np.isin(np.arange(400), part) for part in split) for split in splits]
    expected = CalibratedClassifier(GaussianNB(), cv=splits).fit(X_train, y_train)
    masked = CalibratedClassifier(GaussianNB(), cv=masks).fit(X_train, y_train)
    assert_array_equal(masked.predict_proba(X_test), expected.predict_proba(X_test))
    with pytest.raises(ValueError, match="makes no split"):
        CalibratedClassifier(GaussianNB(), cv=[]).fit(X_train, y_train)


@both_modes
def test_jobs_do_not_change_the_numbers(ensemble):
    one = CalibratedClassifier(LogisticRegression(), cv=3, ensemble=ensemble)
    two = clone(one).set_params(n_jobs=2)
    assert_array_equal(
        two.fit(X_train, y_train).predict_proba(X_test),
        one.fit(X_train, y_train).predict_proba(X_test),
    )


# --- Frozen models -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["prefit", "frozen"])
@both_modes
def test_a_fitted_model_is_asked_once_and_never_refitted(seen, way, ensemble):
    model = Spy().fit(X_train, y_train)
    seen.clear()
    classifier = (
        CalibratedClassifier(model, cv="prefit", ensemble=ensemble)
        if way == "prefit"
        else CalibratedClassifier(FrozenEstimator(model), ensemble=ensemble)
    )
    classifier.fit(X_test, y_test)
    assert [what for what, _, _ in seen] == ["predict_proba"]
    assert seen[0][1] is X_test
    by_hand = TemperatureScaling().fit(model.predict_proba(X_test), y_test)
    (pair,) = classifier.calibrated_classifiers_
    assert pair.calibrator.temperature_ == by_hand.temperature_
    assert_array_equal(classifier.classes_, [0, 1, 2])


@pytest.mark.parametrize(
    "classifier",
    [
        CalibratedClassifier(GaussianNB(), cv="prefit"),
        CalibratedClassifier(FrozenEstimator(GaussianNB())),
    ],
)
def test_a_frozen_model_must_be_fitted(classifier):
    with pytest.raises(NotFittedError):
        classifier.fit(X, y)


def test_calibration_rows_of_a_class_the_model_does_not_know():
    known = y_train < 2
    frozen = FrozenEstimator(GaussianNB().fit(X_train[known], y_train[known]))
    with pytest.raises(
        ValueError, match=r"hold class 2, which the fitted estimator does not know .*\[0, 1\]"
    ):
        CalibratedClassifier(frozen).fit(X_test, y_test)


def test_calibration_rows_may_lack_a_class_that_the_model_knows():
    frozen = FrozenEstimator(GaussianNB().fit(X_train, y_train))
    held_out = y_test < 2
    calibrated = CalibratedClassifier(frozen).fit(X_test[held_out], y_test[held_out])
    assert_array_equal(calibrated.classes_, [0, 1, 2])
    check_simplex(calibrated.predict_proba(X_test), 200, 3)


@pytest.mark.parametrize("calibrator", ["temperature", "isotonic", Shrug()])
def test_calibrating_on_training_rows_is_warned_of(calibrator):
    tree = FrozenEstimator(DecisionTreeClassifier(random_state=0).fit(X_train, y_train))
    with pytest.warns(UserWarning, match="400 calibration rows almost without error") as caught:
        CalibratedClassifier(tree, calibrator).fit(X_train, y_train)
    assert caught[0].filename == __file__  # points at the call
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CalibratedClassifier(tree, calibrator).fit(X_test, y_test)
        # Few rows may well be without error.
        CalibratedClassifier(tree, calibrator).fit(X_train[:29], y_train[:29])


# --- Weights -----------------------------------------------------------------------------------


@both_modes
def test_weights_reach_the_model_and_the_calibrator(seen, ensemble):
    weights = np.random.default_rng(0).random(400)
    calibrated = CalibratedClassifier(Spy(), Shrug(), cv=4, ensemble=ensemble)
    calibrated.fit(X_train, y_train, sample_weight=weights)
    splits = list(StratifiedKFold(4).split(X_train, y_train))
    trained = [given for what, _, given in seen if what == "fit"]
    for given, (train, _) in zip(trained, splits, strict=False):
        assert_array_equal(given, weights[train])
    assert len(trained) == (4 if ensemble else 5)
    used = [pair.calibrator.weights for pair in calibrated.calibrated_classifiers_]
    expected = [weights[test] for _, test in splits] if ensemble else [weights]
    for given, wanted in zip(used, expected, strict=True):
        assert_array_equal(given, wanted)


@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
def test_weights_with_a_frozen_model_equal_repetition(name):
    frozen = FrozenEstimator(KNeighborsClassifier().fit(X_train, y_train))  # takes no weights
    repeats = np.random.default_rng(0).integers(0, 4, 200)
    weighted = CalibratedClassifier(frozen, name).fit(X_test, y_test, sample_weight=repeats)
    repeated = CalibratedClassifier(frozen, name).fit(
        np.repeat(X_test, repeats, axis=0), np.repeat(y_test, repeats)
    )
    assert_allclose(weighted.predict_proba(X_test), repeated.predict_proba(X_test), atol=1e-9)
    plain = CalibratedClassifier(frozen, name).fit(X_test, y_test)
    assert np.abs(weighted.predict_proba(X_test) - plain.predict_proba(X_test)).max() > 1e-4


def test_a_model_that_takes_no_weights_is_named_and_the_calibrator_is_still_weighted():
    weights = np.random.default_rng(0).random(400)
    classifier = CalibratedClassifier(KNeighborsClassifier(), Shrug(), cv=4)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight") as caught:
        classifier.fit(X_train, y_train, sample_weight=weights)
    assert caught[0].filename == __file__
    _, test = next(StratifiedKFold(4).split(X_train, y_train))
    assert_array_equal(classifier.calibrated_classifiers_[0].calibrator.weights, weights[test])


@both_modes
def test_zero_weight_equals_absence(ensemble):
    weights = np.ones(400)
    weights[::7] = 0
    kept = weights > 0
    splits = list(StratifiedKFold(3).split(X_train[kept], y_train[kept]))
    numbers = np.flatnonzero(kept)
    parts = np.array_split(np.flatnonzero(~kept), 3)
    wide = [
        (np.r_[numbers[train], np.concatenate(parts[:i] + parts[i + 1 :])], np.r_[numbers[test], p])
        for i, ((train, test), p) in enumerate(zip(splits, parts, strict=True))
    ]
    base = GaussianNB()
    with_zeros = CalibratedClassifier(base, cv=wide, ensemble=ensemble)
    without = CalibratedClassifier(base, cv=splits, ensemble=ensemble)
    # GaussianNB's variance floor looks at all rows, so it is not quite the same model.
    assert_allclose(
        with_zeros.fit(X_train, y_train, weights).predict_proba(X_test),
        without.fit(X_train[kept], y_train[kept], np.ones(kept.sum())).predict_proba(X_test),
        atol=1e-6,
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_weights_that_make_no_sense_are_refused(frozen):
    base = FrozenEstimator(GaussianNB().fit(X, y)) if frozen else GaussianNB()
    weights = np.ones(400)
    weights[3] = -1
    with pytest.raises(ValueError, match="must not be negative; row 3 has -1"):
        CalibratedClassifier(base).fit(X_train, y_train, weights)
    with pytest.raises(ValueError, match="at least one non-zero"):
        CalibratedClassifier(base).fit(X_train, y_train, np.zeros(400))


@pytest.mark.parametrize("name", ["sigmoid", "isotonic"])
def test_balanced_class_weights_are_undone(name):
    rng = np.random.default_rng(0)
    y = (rng.random(8000) < 0.02).astype(int)
    X = rng.normal(size=(8000, 3)) + 1.2 * y[:, None]
    base = LogisticRegression(class_weight="balanced")
    raw = base.fit(X[:4000], y[:4000]).predict_proba(X[4000:])[:, 1].mean()
    calibrated = CalibratedClassifier(base, name).fit(X[:4000], y[:4000])
    mean = calibrated.predict_proba(X[4000:])[:, 1].mean()
    assert raw > 0.1
    assert mean == pytest.approx(y[:4000].mean(), abs=0.005)


def test_rare_positives_are_found_by_a_tuned_threshold():
    rng = np.random.default_rng(0)
    rare = rng.random(2000) < 0.03
    X = rng.normal(size=(2000, 2)) + 2.5 * rare[:, None]
    y = np.where(rare, "sick", "well")
    tuned = TunedThresholdClassifierCV(
        CalibratedClassifier(LogisticRegression()),
        scoring="balanced_accuracy",
        cv=3,
    ).fit(X[:1000], y[:1000])
    # classes_[1] is "well": its threshold lies far above the usual half.
    assert tuned.best_threshold_ > 0.7
    assert balanced_accuracy_score(y[1000:], tuned.predict(X[1000:])) > 0.8


# --- Labels and containers ---------------------------------------------------------------------


def test_ordered_categories_are_sorted_by_name_and_unused_ones_left_out():
    names = ["lo", "mid", "hi"]
    categories = pd.Categorical.from_codes(y_train, [*names, "never"], ordered=True)
    plain = CalibratedClassifier(GaussianNB()).fit(X_train, np.array(names)[y_train])
    for labels in (categories, pd.Series(categories)):
        calibrated = CalibratedClassifier(GaussianNB()).fit(X_train, labels)
        assert_array_equal(calibrated.classes_, ["hi", "lo", "mid"])
        assert_array_equal(calibrated.predict_proba(X_test), plain.predict_proba(X_test))
        assert set(calibrated.predict(X_test)) <= set(names)


def test_labels_with_a_shuffled_index_stay_with_their_rows():
    index = np.random.default_rng(0).permutation(400)
    frame, labels = pd.DataFrame(X_train, index=index), pd.Series(y_train, index=index)
    plain = CalibratedClassifier(GaussianNB()).fit(X_train, y_train)
    frame.columns = [f"x{i}" for i in range(8)]
    shuffled = CalibratedClassifier(GaussianNB()).fit(frame, labels)
    tested = pd.DataFrame(X_test, columns=frame.columns)
    assert_allclose(shuffled.predict_proba(tested), plain.predict_proba(X_test), atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.linspace(0, 1, 600), "Unknown label type: continuous"),
        (np.where(y == 0, np.nan, y), "NaN"),
        (np.column_stack([y, y]), "1d array"),
        (None, "requires y"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(GaussianNB()).fit(X, labels)


@pytest.fixture
def mixed():
    frame = pd.DataFrame(X_train, columns=[f"x{i}" for i in range(8)])
    frame["kind"] = pd.Categorical(np.where(X_train[:, 0] > 0, "up", "down"))
    return frame


@both_modes
def test_a_frame_is_handed_on_untouched(seen, mixed, ensemble):
    before = mixed.copy()
    calibrated = CalibratedClassifier(Spy(), cv=2, ensemble=ensemble).fit(mixed, y_train)
    calibrated.predict_proba(mixed)
    assert len(seen) >= 6
    for _, given, _ in seen:
        assert isinstance(given, pd.DataFrame)
        assert list(given.dtypes) == list(mixed.dtypes)
        pd.testing.assert_frame_equal(given, mixed.loc[given.index])
    assert seen[-1][1] is mixed
    pd.testing.assert_frame_equal(mixed, before)


@pytest.mark.parametrize(
    "base",
    [
        HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"),
        make_pipeline(
            make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"),
            LogisticRegression(max_iter=1000),
        ),
    ],
    ids=["boosting", "pipeline"],
)
def test_categories_reach_the_models_that_know_them(base, mixed):
    calibrated = CalibratedClassifier(base, cv=2).fit(mixed, y_train)
    check_simplex(calibrated.predict_proba(mixed), 400, 3)
    assert_array_equal(calibrated.feature_names_in_, mixed.columns)
    assert calibrated.n_features_in_ == 9
    with pytest.raises(ValueError, match="columns are missing"):
        calibrated.predict_proba(mixed.rename(columns={"x0": "other"}))


def test_number_of_columns_is_that_of_the_model():
    calibrated = CalibratedClassifier(GaussianNB()).fit(X_train, y_train)
    assert calibrated.n_features_in_ == 8
    assert not hasattr(calibrated, "feature_names_in_")
    with pytest.raises(ValueError, match="expecting 8 features"):
        calibrated.predict_proba(X_test[:, :7])


def test_a_second_fit_forgets_the_first(mixed):
    frame = mixed.drop(columns="kind")
    calibrated = CalibratedClassifier(GaussianNB()).fit(frame, y_train)
    assert_array_equal(calibrated.feature_names_in_, frame.columns)
    calibrated.set_params(cv=2).fit(X_train[:, :5], y_train < 1)
    fresh = CalibratedClassifier(GaussianNB(), cv=2).fit(X_train[:, :5], y_train < 1)
    assert set(vars(calibrated)) == set(vars(fresh))
    assert_array_equal(calibrated.predict_proba(X_test[:, :5]), fresh.predict_proba(X_test[:, :5]))


@both_modes
def test_text_goes_to_a_pipeline_as_a_plain_list(ensemble):
    rng = np.random.default_rng(0)
    words = {"spam": ["buy", "now", "cheap", "you"], "ham": ["see", "you", "now", "home"]}
    labels = rng.choice(list(words), 120)
    texts = [" ".join(rng.choice(words[label], 3)) for label in labels]
    text_model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    calibrated = CalibratedClassifier(text_model, cv=3, ensemble=ensemble).fit(texts, labels)
    assert calibrated.score(texts, labels) > 0.8
    assert_array_equal(calibrated.predict(["buy cheap", "see home"]), ["spam", "ham"])
    frozen = FrozenEstimator(text_model.fit(texts, labels))
    assert CalibratedClassifier(frozen).fit(texts, labels).score(texts, labels) > 0.8


@both_modes
def test_sparse_rows_give_the_numbers_of_dense_ones(ensemble):
    dense = CalibratedClassifier(LogisticRegression(), "isotonic", ensemble=ensemble)
    thin = clone(dense)
    expected = dense.fit(X_train, y_train).predict_proba(X_test)
    thin.fit(sparse.csr_matrix(X_train), y_train)
    answer = thin.predict_proba(sparse.csr_matrix(X_test))
    assert np.abs(answer - expected).mean() < 1e-3  # the solver meets other rounding


def test_pandas_output_changes_nothing():
    calibrated = CalibratedClassifier(make_pipeline(StandardScaler(), GaussianNB()), "isotonic")
    expected = calibrated.fit(X_train, y_train).predict_proba(X_test)
    with sklearn.config_context(transform_output="pandas"):
        answer = clone(calibrated).fit(X_train, y_train).predict_proba(X_test)
    assert isinstance(answer, np.ndarray)
    assert_allclose(answer, expected, atol=1e-12)


def test_a_single_row():
    calibrated = CalibratedClassifier(GaussianNB()).fit(X_train, y_train)
    assert_allclose(
        calibrated.predict_proba(X_test[:1]), calibrated.predict_proba(X_test)[:1], rtol=1e-9
    )


# --- Copies and company ------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [True, False])
def test_pickle_keeps_the_answers(frozen):
    base = FrozenEstimator(GaussianNB().fit(X, y)) if frozen else GaussianNB()
    calibrated = CalibratedClassifier(base, "isotonic").fit(X_train, y_train)
    copy = pickle.loads(pickle.dumps(calibrated))
    assert_array_equal(copy.predict_proba(X_test), calibrated.predict_proba(X_test))


def test_clone_of_a_frozen_one_keeps_the_model():
    frozen = FrozenEstimator(GaussianNB().fit(X_train, y_train))
    calibrated = clone(CalibratedClassifier(frozen)).fit(X_test, y_test)
    assert calibrated.calibrated_classifiers_[0].estimator.estimator is frozen.estimator


def test_a_search_tunes_the_model_and_the_calibrator():
    classifier = CalibratedClassifier(Spy(), TemperatureScaling(), cv=2)
    assert {"estimator__C", "calibrator__shrinkage", "calibrator__bounds"} <= set(
        classifier.get_params()
    )
    search = GridSearchCV(
        classifier,
        {"estimator__C": [1e-6, 1.0], "calibrator__shrinkage": [0.0, 1e9]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X_train, y_train)
    scores = -search.cv_results_["mean_test_score"]
    assert len(set(scores.round(6))) == 4  # every candidate is a model of its own
    assert search.best_params_["estimator__C"] == 1
    best = search.best_estimator_.calibrated_classifiers_[0]
    assert best.estimator.C == 1
    assert best.calibrator.shrinkage == search.best_params_["calibrator__shrinkage"]


def test_a_search_tunes_the_kind_of_calibrator():
    kinds = ["temperature", "identity", Fade()]
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), cv=2),
        {"calibrator": kinds, "ensemble": [True, False]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X_train, y_train)
    scores = search.cv_results_["mean_test_score"].reshape(3, 2).round(9)
    assert (scores[:, 0] != scores[:, 1]).all()  # every candidate is a model of its own
    assert len(set(scores[:, 0])) == 3
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipelines_inside_and_around():
    inside = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), cv=3)
    around = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression(), cv=3))
    for model in (inside, around):
        check_simplex(model.fit(X_train, y_train).predict_proba(X_test), 200, 3)
    assert_allclose(inside.predict_proba(X_test), around.predict_proba(X_test), atol=0.02)
    search = GridSearchCV(inside, {"estimator__logisticregression__C": [1e-5, 1.0]}, cv=2)
    assert search.fit(X_train, y_train).best_params_["estimator__logisticregression__C"] == 1


def test_other_ensembles_take_it_for_a_classifier():
    names = np.array(["a", "b", "c"])[y_train]
    classifier = CalibratedClassifier(GaussianNB(), cv=2)
    assert cross_val_score(classifier, X_train, names, cv=2).min() > 0.5
    members = [("one", classifier), ("two", LogisticRegression())]
    for company in (
        VotingClassifier(members, voting="soft"),
        StackingClassifier(members, cv=2),
        CalibratedClassifier(classifier, cv=2),
    ):
        assert company.fit(X_train, names).score(X_test, np.array(["a", "b", "c"])[y_test]) > 0.5


# --- Metadata routing --------------------------------------------------------------------------


def test_fit_params_go_to_the_model_with_their_rows():
    weights = np.random.default_rng(0).random(400)
    pipeline = make_pipeline(StandardScaler(), Spy())
    Spy.seen.clear()
    CalibratedClassifier(pipeline, cv=2).fit(X_train, y_train, spy__sample_weight=weights)
    given = [weight for what, _, weight in Spy.seen if what == "fit"]
    Spy.seen.clear()
    for used, (train, _) in zip(given, StratifiedKFold(2).split(X_train, y_train), strict=True):
        assert_array_equal(used, weights[train])


def test_routing_sends_weights_and_groups_where_they_are_asked_for(seen):
    weights, groups = np.random.default_rng(0).random(400), np.arange(400) % 8
    with sklearn.config_context(enable_metadata_routing=True):
        asked = CalibratedClassifier(
            Spy().set_fit_request(sample_weight=True), Shrug(), cv=GroupKFold(4)
        )
        asked.fit(X_train, y_train, sample_weight=weights, groups=groups)
        splits = list(GroupKFold(4).split(X_train, y_train, groups))
        given = [weight for what, _, weight in seen if what == "fit"]
        for used, (train, _) in zip(given, splits, strict=True):
            assert_array_equal(used, weights[train])
        used = [pair.calibrator.weights for pair in asked.calibrated_classifiers_]
        for weight, (_, test) in zip(used, splits, strict=True):
            assert_array_equal(weight, weights[test])
        seen.clear()
        declined = CalibratedClassifier(Spy().set_fit_request(sample_weight=False), Shrug())
        declined.fit(X_train, y_train, sample_weight=weights)
        assert all(weight is None for what, _, weight in seen if what == "fit")
        assert declined.calibrated_classifiers_[0].calibrator.weights is not None
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            CalibratedClassifier(Spy()).fit(X_train, y_train, sample_weight=weights)


def test_softmax_of_logits_is_what_someone_else_is_given():
    shrug = CalibratedClassifier(
        FrozenEstimator(LogisticRegression().fit(X_train, y_train)), Shrug()
    ).fit(X_test, y_test)
    model = LogisticRegression().fit(X_train, y_train)
    expected = (softmax(model.decision_function(X_test), axis=1) + 1 / 3) / 2
    assert_allclose(shrug.predict_proba(X_test), expected, atol=1e-9)


def test_folds_that_calibrate_on_their_training_rows_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    overlapping = [(np.arange(60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    with pytest.raises(ValueError, match="Fold 1 calibrates on rows that it also trains on"):
        CalibratedClassifier(LogisticRegression(), cv=overlapping).fit(X, y)
