"""CalibratedClassifier: one hold-out, pooling, validation folds, signs of a leak, intervals."""

import pickle
import warnings
from typing import ClassVar

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit, softmax
from scipy.stats import gmean
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.datasets import make_classification as make_table
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from skcal import CalibratedClassifier, NeSCalMLP, TemperatureScaling
from skcal.calibration import BaseCalibrator, IdentityCalibration

pooled = pytest.mark.parametrize("pooling", ["proba", "logit"])


def make(n, k=3, seed=0):
    return make_table(
        n, 8, n_informative=5, n_classes=k, flip_y=0.1, random_state=seed, class_sep=0.7
    )


X, y = make(600)
X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]
numbers = np.arange(400)
numbered = np.column_stack([X_train, numbers])


class Spy(ClassifierMixin, BaseEstimator):
    """A naive Bayes that writes down the numbers (last column) of the rows it is given."""

    trained: ClassVar[list] = []
    scored: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Spy.trained.append(X[:, -1].astype(int))
        self.model_ = GaussianNB().fit(X[:, :-1], y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        Spy.scored.append(X[:, -1].astype(int))
        return self.model_.predict_proba(X[:, :-1])


@pytest.fixture(autouse=True)
def forget():
    Spy.trained.clear()
    Spy.scored.clear()


# --- One hold-out ------------------------------------------------------------------------------


def test_a_share_is_held_out_once_and_the_map_belongs_to_the_model():
    model = CalibratedClassifier(Spy(), cv=0.2, random_state=0).fit(numbered, y_train)
    (train,), (held,) = Spy.trained, Spy.scored
    assert_array_equal(np.sort(np.r_[train, held]), numbers)
    assert_allclose(np.bincount(y_train[held]), 0.2 * np.bincount(y_train), atol=1)
    assert len(held) == pytest.approx(80, abs=1)
    base = GaussianNB().fit(X_train[train], y_train[train])
    by_hand = TemperatureScaling().fit(base.predict_proba(X_train[held]), y_train[held])
    (pair,) = model.calibrated_classifiers_
    assert pair.calibrator.temperature_ == by_hand.temperature_
    assert model.pooling_temperature_ == 1.0
    expected = by_hand.predict_proba(base.predict_proba(X_test))
    shown = np.column_stack([X_test, np.zeros(200)])
    assert_array_equal(model.predict_proba(shown), expected)
    single = clone(model).set_params(ensemble=False).fit(numbered, y_train)
    assert_array_equal(single.predict_proba(shown), expected)  # as the docs say: no meaning


def test_the_hold_out_is_drawn_by_random_state_alone():
    def held(seed):
        Spy.scored.clear()
        CalibratedClassifier(Spy(), cv=0.3, random_state=seed).fit(numbered, y_train)
        return Spy.scored[0]

    assert_array_equal(held(1), held(1))
    assert set(held(1)) != set(held(2))
    assert len(held(None)) == 120
    assert_array_equal(held(np.random.RandomState(1)), held(1))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_every_class_keeps_a_training_row(share):
    rare = np.repeat(["a", "b", "c", "d"], [250, 147, 2, 1])
    for seed in range(10):
        Spy.trained.clear()
        model = CalibratedClassifier(Spy(), cv=share, random_state=seed).fit(numbered, rare)
        assert set(rare[Spy.trained[0]]) == {"a", "b", "c", "d"}
        assert_array_equal(model.classes_, ["a", "b", "c", "d"])
        proba = model.predict_proba(numbered)
        assert proba.shape == (400, 4)
        assert_allclose(proba.sum(axis=1), 1)


def test_a_rare_class_is_held_out_as_often_as_its_share_says():
    rare = np.repeat(["a", "b", "c"], [200, 198, 2])
    times = 0
    for seed in range(40):
        Spy.scored.clear()
        CalibratedClassifier(Spy(), cv=0.2, random_state=seed).fit(numbered, rare)
        times += "c" in rare[Spy.scored[0]]
    assert 7 <= times <= 25  # 2 rows at 0.2: 16 of 40, plus or minus three deviations


def test_groups_are_held_out_whole():
    groups = numbers % 20
    model = CalibratedClassifier(Spy(), cv=0.2, random_state=3)
    model.fit(numbered, y_train, groups=groups)
    (train,), (held,) = Spy.trained, Spy.scored
    assert len(set(groups[held])) == 4
    assert not set(groups[train]) & set(groups[held])
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).fit(numbered, y_train, groups=groups)
    shown = np.column_stack([X_test, np.zeros(200)])
    assert_array_equal(routed.predict_proba(shown), model.predict_proba(shown))
    draws = set()
    for seed in range(5):
        Spy.scored.clear()
        model.set_params(random_state=seed).fit(numbered, y_train, groups=groups)
        draws.add(tuple(Spy.scored[0]))
    assert len(draws) > 1


@pytest.mark.parametrize("cv", [0, 0.0, 1, 1.0, 1.5, -0.2, True, np.float32(2), np.nan])
def test_a_number_that_is_no_share_and_no_number_of_folds(cv):
    with pytest.raises(ValueError, match=r"cv=.* neither a number of folds .*Use cv=5 or cv=0\.2"):
        CalibratedClassifier(GaussianNB(), cv=cv).fit(X_train, y_train)


def test_a_share_of_too_few_rows():
    model = CalibratedClassifier(GaussianNB(), cv=1e-9, random_state=0)
    with pytest.raises(ValueError, match="of 6 rows holds out none to calibrate on"):
        model.fit(X[:6], [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("container", [list, sparse.csr_matrix])
def test_other_containers_can_be_held_out_too(container):
    expected = CalibratedClassifier(LogisticRegression(), cv=0.25, random_state=0)
    expected.fit(X_train, y_train)
    model = clone(expected).fit(
        X_train.tolist() if container is list else container(X_train), y_train.tolist()
    )
    assert_allclose(model.predict_proba(X_test), expected.predict_proba(X_test), atol=1e-3)


def test_weights_reach_both_parts_of_a_hold_out():
    weights = np.random.default_rng(0).integers(0, 3, 400).astype(float)
    model = CalibratedClassifier(Spy(), TemperatureScaling(shrinkage=0), cv=0.3, random_state=0)
    model.fit(numbered, y_train, sample_weight=weights)
    (train,), (held,) = Spy.trained, Spy.scored
    base = GaussianNB().fit(X_train[train], y_train[train], weights[train])
    repeated = np.repeat(held, weights[held].astype(int))
    by_hand = TemperatureScaling(shrinkage=0).fit(
        base.predict_proba(X_train[repeated]), y_train[repeated]
    )
    fitted = model.calibrated_classifiers_[0].calibrator
    assert fitted.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)


# --- Pooling -----------------------------------------------------------------------------------


def parts_by_hand(pairs, X, scores=lambda model, X: model.predict_proba(X)):
    return np.array([p.calibrator.predict_proba(scores(p.estimator, X)) for p in pairs])


def test_logits_are_averaged_or_probabilities_are():
    model = CalibratedClassifier(GaussianNB(), cv=4).fit(X_train, y_train)
    parts = parts_by_hand(model.calibrated_classifiers_, X_test)
    assert_allclose(model.predict_proba(X_test), parts.mean(axis=0), atol=1e-14)
    model.set_params(pooling="logit").fit(X_train, y_train)
    geometric = gmean(parts, axis=0)
    geometric /= geometric.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X_test), geometric, rtol=1e-10)
    assert model.pooling_temperature_ == 1.0
    assert np.abs(geometric - parts.mean(axis=0)).max() > 0.001


@pooled
def test_a_single_pair_is_not_changed_by_pooling(pooling):
    frozen = FrozenEstimator(GaussianNB().fit(X_train, y_train))
    model = CalibratedClassifier(frozen, IdentityCalibration(), pooling=pooling)
    model.fit(X_test, y_test)
    assert_allclose(model.predict_proba(X_test), frozen.predict_proba(X_test), rtol=1e-9)


@pooled
def test_a_class_that_one_model_does_not_know_is_pooled_over_the_others(pooling):
    narrow, wide = np.flatnonzero(y_train != 2), numbers
    cv = [(narrow[:150], narrow[150:]), (wide[200:], wide[:200]), (wide[:100], wide[200:220])]
    model = CalibratedClassifier(GaussianNB(), IdentityCalibration(), cv=cv[:2], pooling=pooling)
    model.fit(X_train, y_train)
    assert model.pooling_temperature_ == 1.0  # no row is held out twice
    first, second = (
        GaussianNB().fit(X_train[train], y_train[train]).predict_proba(X_test)
        for train, _ in cv[:2]
    )
    if pooling == "proba":
        expected = (np.column_stack([first, np.zeros(200)]) + second) / 2
    else:
        expected = np.column_stack([np.sqrt(first * second[:, :2]), second[:, 2]])
        expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X_test), expected, atol=1e-12)


def test_no_probability_is_lost_in_a_geometric_mean():
    class Zeros(BaseEstimator):  # someone else's map, which knows no doubt
        def fit(self, scores, y, sample_weight=None, *, classes=None):
            return self

        def predict_proba(self, scores):
            return np.eye(scores.shape[1])[scores.argmax(axis=1)]

    model = CalibratedClassifier(GaussianNB(), Zeros(), cv=3, pooling="logit")
    proba = model.fit(X_train, y_train).predict_proba(X_test)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1)


# --- The temperature of the pool ---------------------------------------------------------------


class Noisy(ClassifierMixin, BaseEstimator):
    """Knows the truth (the column is the log-odds) up to a normal error of its own.

    Each model errs by the same standard deviation, independently of the others; the map
    that corrects it is the same for all.
    """

    seeds: ClassVar[np.random.Generator]

    def __init__(self, sd=1.5):
        self.sd = sd

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seed_ = int(Noisy.seeds.integers(2**31))
        return self

    def decision_function(self, X):
        rng = np.random.default_rng([self.seed_, int(1e6 * abs(X[0, 0]))])
        return X[:, 0] + self.sd * rng.standard_normal(len(X))


def true_table(n, seed):
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0, 2, n)
    return log_odds[:, None], (rng.random(n) < expit(log_odds)).astype(int)


@pooled
@pytest.mark.parametrize("repeats", [2, 4])
def test_repeats_measure_and_undo_what_pooling_does_to_confidence(pooling, repeats):
    Noisy.seeds = np.random.default_rng(0)
    X, y = true_table(6000, 0)
    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    model = CalibratedClassifier(Noisy(), cv=cv, pooling=pooling).fit(X, y)
    X_new, y_new = true_table(40_000, 1)
    proba = model.predict_proba(X_new)
    logits = np.log(proba[:, 1] / proba[:, 0])
    left = TemperatureScaling(input="logits", shrinkage=0).fit(logits, y_new).temperature_
    before = model.pooling_temperature_ * left  # of the pool without correction
    assert before < 0.8
    assert left == pytest.approx(1, abs=0.1)
    plain = CalibratedClassifier(Noisy(), pooling=pooling).fit(X, y)
    assert plain.pooling_temperature_ == 1.0


def pool_temperature_by_hand(X, y, splits, new_scores):
    """Return the documented temperature, with maps of the next fold: slow and separate."""
    models = [GaussianNB().fit(X[train], y[train]) for train, _ in splits]
    maps = [
        TemperatureScaling().fit(model.predict_proba(X[test]), y[test])
        for model, (_, test) in zip(models, splits, strict=True)
    ]
    n_models, per_row = len(splits), [[] for _ in y]
    for j, (_, test) in enumerate(splits):
        apart = [
            k % n_models
            for k in range(j + 1, j + n_models)
            if not set(splits[k % n_models][1]) & set(test)
        ]
        other = apart[0] if apart else j
        for row in test:
            answer = maps[other].predict_proba(models[j].predict_proba(X[row : row + 1]))
            per_row[row].append(answer[0])
    rows = [i for i, answers in enumerate(per_row) if len(answers) > 1]
    means = np.array([np.mean(per_row[i], axis=0) for i in rows])
    fitted = TemperatureScaling().fit(means, y[rows]).temperature_
    inverse = np.mean([1 - 1 / len(per_row[i]) for i in rows])
    pool = np.mean(
        [c.predict_proba(m.predict_proba(new_scores)) for c, m in zip(maps, models, strict=True)],
        axis=0,
    )
    temperature = fitted ** ((1 - 1 / n_models) / inverse)
    return temperature, softmax(np.log(pool) / temperature, axis=1)


@pytest.mark.parametrize(
    "cv",
    [
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(5, test_size=0.3, random_state=0),  # rows held out never, once or often
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_the_temperature_of_the_pool_by_hand(cv):
    splits = list(cv.split(X_train, y_train))
    expected, proba = pool_temperature_by_hand(X_train, y_train, splits, X_test)
    model = CalibratedClassifier(GaussianNB(), cv=cv).fit(X_train, y_train)
    assert model.pooling_temperature_ == pytest.approx(expected, rel=1e-6)
    assert model.pooling_temperature_ != 1
    assert_allclose(model.predict_proba(X_test), proba, atol=1e-7)


@pytest.mark.parametrize(
    ("cv", "ensemble"),
    [
        (5, True),
        (0.2, True),
        (TimeSeriesSplit(4), True),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0), False),
    ],
)
def test_where_no_row_is_held_out_twice_or_nothing_is_pooled(cv, ensemble):
    model = CalibratedClassifier(GaussianNB(), cv=cv, ensemble=ensemble).fit(X_train, y_train)
    assert model.pooling_temperature_ == 1.0


def test_weights_of_the_pool_are_repetition():
    repeats = np.random.default_rng(0).integers(1, 3, 400)
    rows = np.repeat(numbers, repeats)
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    splits = list(cv.split(X_train, y_train))
    wide = [
        (np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test)))
        for train, test in splits
    ]
    weighted = CalibratedClassifier(LogisticRegression(tol=1e-10, max_iter=1000), cv=splits)
    repeated = clone(weighted).set_params(cv=wide)
    weighted.fit(X_train, y_train, sample_weight=repeats)
    repeated.fit(X_train[rows], y_train[rows], sample_weight=np.ones(len(rows)))
    assert weighted.pooling_temperature_ == pytest.approx(repeated.pooling_temperature_, rel=1e-5)


# --- The held-out fold as validation data --------------------------------------------------------


class Stopper(ClassifierMixin, BaseEstimator):
    """A naive Bayes that writes down its validation rows, given in one of two spellings."""

    given: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None, sample_weight_val=None):
        Stopper.given.append((X, X_val, y_val, sample_weight_val))
        return self._train(X, y, sample_weight)

    def _train(self, X, y, sample_weight):
        self.model_ = GaussianNB().fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class EvalStopper(Stopper):
    def fit(self, X, y, sample_weight=None, eval_set=None, eval_sample_weight=None):
        ((X_val, y_val),) = eval_set
        weights = None if eval_sample_weight is None else eval_sample_weight[0]
        Stopper.given.append((X, X_val, y_val, weights))
        return self._train(X, y, sample_weight)


class EvalStopperOfAnotherHouse(EvalStopper):
    def fit(self, X, y, sample_weight=None, eval_set=None, sample_weight_eval_set=None):
        return super().fit(X, y, sample_weight, eval_set, sample_weight_eval_set)


@pytest.fixture
def given():
    Stopper.given.clear()
    yield Stopper.given
    Stopper.given.clear()


announced = pytest.warns(UserWarning, match="same rows stop the training and fit the calibrator")
stoppers = pytest.mark.parametrize(
    "stopper",
    [Stopper(), EvalStopper(), EvalStopperOfAnotherHouse()],
    ids=lambda stopper: type(stopper).__name__,
)


@stoppers
def test_the_held_out_fold_and_its_weights_are_validation_data(stopper, given):
    weights = np.random.default_rng(0).random(400) + 0.5
    with announced as caught:
        CalibratedClassifier(stopper, cv=4, validation_fold=True).fit(
            X_train, y_train, sample_weight=weights
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    for (_, X_val, y_val, used), (_, test) in zip(
        given, StratifiedKFold(4).split(X_train, y_train), strict=True
    ):
        assert_array_equal(X_val, X_train[test])
        assert_array_equal(y_val, y_train[test])
        assert_array_equal(used, weights[test])
    given.clear()
    with announced:
        CalibratedClassifier(stopper, cv=0.25, validation_fold=True, random_state=0).fit(
            X_train, y_train
        )
    ((trained, held, _, used),) = given
    assert len(trained) + len(held) == 400
    assert used is None


@stoppers
@pytest.mark.parametrize("memory", [False, True])
def test_in_a_pipeline_validation_rows_are_transformed_as_the_training_rows_are(
    stopper, memory, given, tmp_path
):
    weights = np.random.default_rng(0).random(400) + 0.5
    steps = [StandardScaler(), FunctionTransformer(), stopper]
    pipeline = make_pipeline(*steps, memory=str(tmp_path) if memory else None)
    name = type(stopper).__name__.lower()
    with announced:
        model = CalibratedClassifier(pipeline, cv=3, validation_fold=True).fit(
            X_train, y_train, **{f"{name}__sample_weight": weights}
        )
    splits = StratifiedKFold(3).split(X_train, y_train)
    for (Z, X_val, _, used), (train, test) in zip(given, splits, strict=True):
        scaler = StandardScaler().fit(X_train[train])
        assert_allclose(Z, scaler.transform(X_train[train]))
        assert_allclose(X_val, scaler.transform(X_train[test]))
        assert_array_equal(used, weights[test])
    plain = make_pipeline(StandardScaler(), GaussianNB())
    expected = CalibratedClassifier(plain, cv=3).fit(
        X_train, y_train, gaussiannb__sample_weight=weights
    )
    assert_allclose(model.predict_proba(X_test), expected.predict_proba(X_test), rtol=1e-9)
    with announced:  # a pipeline in a pipeline, and one of a single step
        CalibratedClassifier(
            make_pipeline(StandardScaler(), make_pipeline(stopper)), cv=3, validation_fold=True
        ).fit(X_train, y_train)
    assert_array_equal(given[-1][1], given[2][1])


def test_with_routing_the_pipeline_must_be_told_to_transform(given):
    with sklearn.config_context(enable_metadata_routing=True):
        stopper = Stopper().set_fit_request(X_val=True, y_val=True)
        model = CalibratedClassifier(
            make_pipeline(StandardScaler(), stopper), cv=3, validation_fold=True
        )
        with pytest.raises(ValueError, match=r"transform_input=\['X_val'\]"):
            model.fit(X_train, y_train)
        model.set_params(estimator__transform_input=["X_val"])
        with announced:
            model.fit(X_train, y_train)
    train, test = next(StratifiedKFold(3).split(X_train, y_train))
    scaler = StandardScaler().fit(X_train[train])
    assert_allclose(given[0][1], scaler.transform(X_train[test]))


def test_real_estimators_stop_on_the_fold():
    boosting = HistGradientBoostingClassifier(
        max_iter=300, learning_rate=0.3, early_stopping=True, n_iter_no_change=3, random_state=0
    )
    with announced:
        model = CalibratedClassifier(boosting, cv=2, validation_fold=True).fit(X_train, y_train)
    (train, test), _ = StratifiedKFold(2).split(X_train, y_train)
    by_hand = clone(boosting).fit(
        X_train[train], y_train[train], X_val=X_train[test], y_val=y_train[test]
    )
    fitted = model.calibrated_classifiers_[0].estimator
    assert fitted.n_iter_ == by_hand.n_iter_ < 100
    assert_array_equal(fitted.predict_proba(X_test), by_hand.predict_proba(X_test))
    net = NeSCalMLP(smoothing=0, hidden_sizes=(8,), max_epochs=4, random_state=0)
    with announced:
        pair = (
            CalibratedClassifier(net, cv=2, validation_fold=True)
            .fit(X_train, y_train)
            .calibrated_classifiers_[0]
        )
    alone = clone(net).fit(X_train[train], y_train[train], X_val=X_train[test], y_val=y_train[test])
    assert pair.estimator.history[:, "valid_loss"] == alone.history[:, "valid_loss"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CalibratedClassifier(GaussianNB()), r"X_val= and y_val=, or eval_set=.*GaussianNB takes"),
        (
            CalibratedClassifier(make_pipeline(StandardScaler(), GaussianNB())),
            r"eval_set=.*GaussianNB takes neither",
        ),
        (CalibratedClassifier(GridSearchCV(Stopper(), {})), "GridSearchCV takes neither"),
        (CalibratedClassifier(Stopper(), ensemble=False), "ensemble=False trains another one"),
        (CalibratedClassifier(FrozenEstimator(Stopper())), "frozen estimator is not trained"),
        (CalibratedClassifier(Stopper(), cv="prefit"), "frozen estimator is not trained"),
    ],
)
def test_a_validation_fold_that_cannot_be(model, message):
    with pytest.raises(ValueError, match=message):
        model.set_params(validation_fold=True).fit(X_train, y_train)


def test_validation_rows_of_ones_own_are_not_overwritten():
    model = CalibratedClassifier(Stopper(), validation_fold=True)
    with announced, pytest.raises(ValueError, match="passes X_val to fit, and so do you"):
        model.fit(X_train, y_train, X_val=X_test, y_val=y_test)


# --- Signs of calibrating on training rows -----------------------------------------------------


def warns_of_training_rows(model, X, y, sample_weight=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CalibratedClassifier(FrozenEstimator(model)).fit(X, y, sample_weight)
    return any("trained on them" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("load", "models", "seeds"),
    [
        # The hardest of 20 halvings: no error on 89 rows, of which the forest is far from sure.
        (
            load_wine,
            [ExtraTreesClassifier(), RandomForestClassifier(min_samples_leaf=3)],
            [2, 10, 12, 16],
        ),
        (load_iris, [RandomForestClassifier(25), KNeighborsClassifier()], range(10)),
        (load_breast_cancer, [RandomForestClassifier(25), KNeighborsClassifier()], range(10)),
        (load_digits, [ExtraTreesClassifier(25), KNeighborsClassifier()], range(5)),
    ],
)
def test_held_out_rows_are_not_taken_for_training_rows(load, models, seeds):
    X, y = load(return_X_y=True)
    for seed in seeds:
        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y, test_size=0.5, stratify=y, random_state=seed
        )
        for model in models:
            if "random_state" in model.get_params():
                model.set_params(random_state=seed)
            assert not warns_of_training_rows(model.fit(X_fit, y_fit), X_held, y_held)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_forest_on_its_own_rows_is_recognised(k, seed):
    X, y = make(250, k, seed)
    forest = RandomForestClassifier(random_state=seed).fit(X, y)
    assert forest.score(X, y) == 1
    assert log_loss(y, forest.predict_proba(X)) > 0.05  # its loss alone does not tell
    assert warns_of_training_rows(forest, X, y)
    flawed = y.copy()
    flawed[0] = (y[0] + 1) % k
    assert not warns_of_training_rows(forest, X, flawed)
    # A row of weight zero is a row that is not there.
    assert warns_of_training_rows(forest, X, flawed, np.arange(250) > 0)
    assert not warns_of_training_rows(forest, X[:29], y[:29])


def test_margins_are_not_taken_for_certainty():
    X, y = load_iris(return_X_y=True)
    margins = LinearSVC(C=1e-3).fit(X[:100], y[:100])  # no error, and tiny margins
    assert margins.score(X[:100], y[:100]) == 1
    assert not warns_of_training_rows(margins, X[:100], y[:100])


# --- Exact logits ------------------------------------------------------------------------------


class Booster(ClassifierMixin, BaseEstimator):
    """Probabilities in float32, as of LightGBM, XGBoost or CatBoost; logits on request."""

    def __init__(self, exact=True):
        self.exact = exact

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=1e3).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def margins(self, X):
        return 40 * self.model_.decision_function(X) * (1 if self.exact else 0.7)

    def proba(self, X):
        z = 40 * self.model_.decision_function(X)
        z = z if z.ndim == 2 else np.column_stack([np.zeros_like(z), z])
        return softmax(z, axis=1).astype(np.float32)

    def predict_proba(self, X):
        return self.proba(X)


class Light(Booster):
    def predict_proba(self, X, raw_score=False):
        return self.margins(X) if raw_score else self.proba(X)


class Extreme(Booster):
    def predict(self, X, output_margin=False):
        return self.margins(X) if output_margin else self.classes_[self.proba(X).argmax(axis=1)]


class Cat(Booster):
    def predict(self, X, prediction_type="Class"):
        assert prediction_type == "RawFormulaVal"
        return self.margins(X)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("booster", [Light, Extreme, Cat])
@pytest.mark.parametrize("response", ["auto", "logits"])
def test_raw_scores_are_taken_where_they_are_logits(booster, response, k):
    X, y = make(600, k)
    for wrap in (lambda b: b, lambda b: make_pipeline(FunctionTransformer(), b)):
        frozen = FrozenEstimator(wrap(booster()).fit(X[:300], y[:300]))
        model = CalibratedClassifier(frozen, response=response).fit(X[300:], y[300:])
        (pair,) = model.calibrated_classifiers_
        base = booster().fit(X[:300], y[:300])
        by_hand = TemperatureScaling(input="logits").fit(base.margins(X[300:]), y[300:])
        assert pair.calibrator.temperature_ == by_hand.temperature_
        assert_array_equal(
            model.predict_proba(X[300:]), by_hand.predict_proba(base.margins(X[300:]))
        )
    wrong = FrozenEstimator(booster(exact=False).fit(X[:300], y[:300]))
    model = CalibratedClassifier(wrong).fit(X[300:], y[300:])
    assert model.calibrated_classifiers_[0].calibrator.input == "proba"
    with pytest.raises(ValueError, match="has no predict_logits, nor margins whose softmax"):
        CalibratedClassifier(wrong, response="logits").fit(X[300:], y[300:])


def test_logits_are_margins_that_give_the_probabilities():
    exact = CalibratedClassifier(LogisticRegression(), response="logits").fit(X_train, y_train)
    assert {pair.source for pair in exact.calibrated_classifiers_} == {"decision_function"}
    auto = CalibratedClassifier(LogisticRegression()).fit(X_train, y_train)
    assert_array_equal(exact.predict_proba(X_test), auto.predict_proba(X_test))
    with pytest.raises(ValueError, match=r"LinearSVC are no logits.*response='decision_function'"):
        CalibratedClassifier(LinearSVC(), response="logits").fit(X_train, y_train)
    one_vs_rest = OneVsRestClassifier(LogisticRegression())
    with pytest.raises(ValueError, match="OneVsRestClassifier has no predict_logits, nor margins"):
        CalibratedClassifier(one_vs_rest, response="logits").fit(X_train, y_train)
    CalibratedClassifier(one_vs_rest).fit(X_train, y_train)


def test_what_was_read_in_fit_is_read_again(monkeypatch):
    model = CalibratedClassifier(Light(), cv=2).fit(X_train, y_train)
    expected = model.predict_proba(X_test)
    # A row on which margins and probabilities differ must not change the choice.
    monkeypatch.setattr(Light, "proba", lambda self, X: np.full((len(X), 3), 1 / 3))
    assert_array_equal(model.predict_proba(X_test), expected)


# --- Intervals ---------------------------------------------------------------------------------


class Bounds(BaseCalibrator):
    """Probabilities of two classes as a Venn-Abers map gives them, from made-up bounds."""

    def __init__(self, *, width=0.1, input="proba", eps="auto"):
        super().__init__(input=input, eps=eps)
        self.width = width

    def _fit(self, log_proba, codes, weights):
        self.share_ = self.width * (1 + codes.mean())

    def _transform(self, log_proba):
        low, high = self._ends(np.exp(log_proba[:, 1]))
        return np.log(np.column_stack([1 - low, high]))

    def _ends(self, p):
        return p * (1 - self.share_), p + (1 - p) * self.share_

    def predict_interval(self, scores):
        p = self._checked_proba(scores)
        low, high = self._ends(p)
        return np.stack([np.column_stack([1 - high, low]), np.column_stack([1 - low, high])], -1)

    @staticmethod
    def _checked_proba(scores):
        return softmax(np.log(np.asarray(scores)), axis=1)[:, 1]


def test_intervals_of_folds_are_merged_as_in_cross_venn_abers():
    X, y = make(400, 2)
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    base = CalibratedClassifier(GaussianNB(), Bounds(), cv=cv, pooling="logit")
    model = base.fit(X[:300], y[:300])
    bounds = model.predict_interval(X[300:])
    assert bounds.shape == (100, 2, 2)
    assert (bounds[..., 0] <= bounds[..., 1]).all()
    lows, highs = [], []
    for pair in model.calibrated_classifiers_:
        p = pair.estimator.predict_proba(X[300:])[:, 1]
        lows.append(p * (1 - pair.calibrator.share_))
        highs.append(p + (1 - p) * pair.calibrator.share_)
    low, high = gmean(1 - np.array(lows), axis=0), gmean(highs, axis=0)
    assert_allclose(bounds[:, 1, 0], 1 - low, rtol=1e-9)
    assert_allclose(bounds[:, 1, 1], high, rtol=1e-9)
    assert_allclose(bounds[:, 0], 1 - bounds[:, 1, ::-1], rtol=1e-9)
    # Vovk, Petej and Fedorova (2015), log-loss merging.
    assert_allclose(model.predict_proba(X[300:])[:, 1], high / (low + high), rtol=1e-9)


def test_intervals_exist_where_the_calibrator_gives_them():
    assert hasattr(CalibratedClassifier(GaussianNB(), Bounds()), "predict_interval")
    assert hasattr(CalibratedClassifier(GaussianNB(), "venn_abers"), "predict_interval")
    for calibrator in ("temperature", "no such name", GaussianNB):
        assert not hasattr(CalibratedClassifier(GaussianNB(), calibrator), "predict_interval")
    model = CalibratedClassifier(GaussianNB(), "venn_abers", cv=3, pooling="logit")
    bounds = model.fit(X_train, y_train).predict_interval(X_test)
    assert bounds.shape == (200, 3, 2)
    assert ((bounds >= 0) & (bounds <= 1)).all()
    assert (bounds[..., 0] <= bounds[..., 1]).all()
    one = CalibratedClassifier(GaussianNB(), "venn_abers", cv=0.3, random_state=0)
    ((pair),) = one.fit(X_train, y_train).calibrated_classifiers_
    alone = pair.calibrator.predict_interval(pair.estimator.predict_proba(X_test))
    assert_allclose(one.predict_interval(X_test), alone, atol=1e-12)


# --- In company --------------------------------------------------------------------------------

MODES = [
    CalibratedClassifier(LogisticRegression(), cv=0.3, random_state=0),
    CalibratedClassifier(LogisticRegression(), pooling="logit", cv=3),
    CalibratedClassifier(
        LogisticRegression(),
        cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
        pooling="logit",
    ),
]
modes = pytest.mark.parametrize("model", MODES, ids=["hold-out", "logit", "repeated"])


@modes
def test_pickles_and_clones_give_the_same_numbers(model):
    fitted = clone(model).fit(X_train, y_train)
    proba = fitted.predict_proba(X_test)
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X_test), proba)
    assert_array_equal(clone(fitted).fit(X_train, y_train).predict_proba(X_test), proba)
    assert_array_equal(fitted.fit(X_train, y_train).predict_proba(X_test), proba)
    two = clone(model).set_params(n_jobs=2).fit(X_train, y_train)
    assert_array_equal(two.predict_proba(X_test), proba)


@modes
def test_inside_and_around_pipelines_searches_thresholds_and_stacks(model):
    inside = clone(model).set_params(estimator=make_pipeline(StandardScaler(), GaussianNB()))
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), inside),
        {
            "calibratedclassifier__calibrator": ["temperature", TemperatureScaling(), "isotonic"],
            "calibratedclassifier__pooling": ["proba", "logit"],
            "calibratedclassifier__estimator__gaussiannb__var_smoothing": [1e-9, 1e3],
        },
        scoring="neg_log_loss",
        cv=2,
        error_score="raise",
    ).fit(X_train, y_train)
    assert search.best_params_["calibratedclassifier__estimator__gaussiannb__var_smoothing"] < 1
    assert log_loss(y_test, search.predict_proba(X_test)) < 0.95
    nested = GridSearchCV(
        clone(model).set_params(calibrator=TemperatureScaling()),
        {"calibrator__shrinkage": [0.0, 1e9], "estimator__C": [1e-6, 1.0]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X_train, y_train)
    assert nested.best_params_["estimator__C"] == 1
    X2, y2 = make(400, 2)
    tuned = TunedThresholdClassifierCV(model, cv=2, scoring="f1").fit(X2, y2)
    assert tuned.score(X2, y2) > 0.6
    stack = StackingClassifier([("a", model), ("b", GaussianNB())], cv=2).fit(X_train, y_train)
    assert log_loss(y_test, stack.predict_proba(X_test)) < 0.95


def test_the_default_pool_is_under_confident_and_logits_halve_it():
    X, y = make_table(
        9000, 20, n_informative=8, n_classes=4, flip_y=0.05, class_sep=1.0, random_state=1
    )
    gaps = []
    for pooling in ("proba", "logit"):
        forest = RandomForestClassifier(40, random_state=0)
        model = CalibratedClassifier(forest, pooling=pooling).fit(X[:1500], y[:1500])
        proba = model.predict_proba(X[1500:])
        gaps.append(proba.max(axis=1).mean() - (proba.argmax(axis=1) == y[1500:]).mean())
    assert gaps[0] < gaps[1] - 0.01 < 0


def test_a_named_calibrator_takes_part_in_a_search():
    X, y = make_classification(200, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), "platt", cv=3)
    search = GridSearchCV(model, {"calibrator__shrinkage": [0.0, 1.0]}, cv=2).fit(X, y)
    assert type(search.best_estimator_.calibrator).__name__ == "PlattScaling"
    assert model.calibrator == "platt"
    assert model.set_params(cv=4).calibrator == "platt"


def test_the_interval_of_folds_holds_their_probability():
    X, y = make_classification(400, flip_y=0.3, random_state=0)
    for pooling in ("proba", "logit"):
        model = CalibratedClassifier(GaussianNB(), "venn_abers", pooling=pooling).fit(X, y)
        interval, proba = model.predict_interval(X), model.predict_proba(X)
        assert (interval[..., 0] <= proba + 1e-12).all()
        assert (proba <= interval[..., 1] + 1e-12).all()


def test_a_frozen_model_takes_no_fit_parameters():
    X, y = make_classification(200, flip_y=0.3, random_state=0)
    frozen = FrozenEstimator(GaussianNB().fit(X[:100], y[:100]))
    with pytest.raises(TypeError, match=r"frozen estimator is not fitted.*'sample_weigth'"):
        CalibratedClassifier(frozen).fit(X[100:], y[100:], sample_weigth=np.ones(100))


def test_groups_are_not_dropped_when_routed():
    X, y = make_classification(200, random_state=0)
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match="takes no account of groups"),
    ):
        CalibratedClassifier(GaussianNB(), cv=3).fit(X, y, groups=np.arange(200) // 4)


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ([(np.arange(100), np.arange(-50, 0))], "row number -50; with 200 rows"),
        ([(np.arange(100), [200])], "row number 200; with 200 rows"),
        ([([0, 1], [2, 3])], "holds one class"),
        ([(np.r_[0:60, 100:160], np.r_[60:80])], "in no training part"),
    ],
)
def test_splits_that_cannot_be_are_refused(splits, words):
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.repeat([0, 1, 2], [100, 90, 10])
    with pytest.raises(ValueError, match=words):
        CalibratedClassifier(GaussianNB(), cv=splits).fit(X, y)


def test_a_failed_fit_leaves_no_model():
    X, y = make_classification(200, random_state=0)
    model = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    with pytest.raises(ValueError, match="cv=-1"):
        model.set_params(cv=-1).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
