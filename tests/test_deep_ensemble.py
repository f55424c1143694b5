"""Deep ensembles: averages, disagreement, seeds, and what can be a member."""

import pickle
from decimal import Decimal, localcontext

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from skcal import CalibratedClassifier, DeepEnsembleClassifier, NeSCalMLP
from skcal.datasets import make_calibration_data
from skcal.neural._disagreement import disagreement

X, y, _ = make_calibration_data(200, n_classes=3, random_state=0)
NAMES = np.array(["ash", "birch", "cedar"])
NET = NeSCalMLP(preset="fast", hidden_sizes=(16,), smoothing=0, max_epochs=3, lr=0.02)


class Guesses(ClassifierMixin, BaseEstimator):
    """A linear classifier whose coefficients are drawn, and which remembers what it was given."""

    def __init__(self, random_state=None, scale=1.0):
        self.random_state = random_state
        self.scale = scale

    def fit(self, X, y, sample_weight=None, groups=None):
        X = np.asarray(X)
        self.classes_ = np.unique(y)
        self.given_ = {"X": X, "y": y, "sample_weight": sample_weight, "groups": groups}
        rng = np.random.default_rng(self.random_state)
        self.coef_ = self.scale * rng.normal(size=(X.shape[1], len(self.classes_)))
        return self

    def predict_proba(self, X):
        return softmax(np.asarray(X) @ self.coef_, axis=1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Logits(Guesses):
    """The same, with exact logits."""

    def predict_logits(self, X):
        return np.asarray(X) @ self.coef_


class SometimesLogits(Logits):
    """The same, as a search that may end with either."""

    predict_logits = available_if(lambda self: self.random_state % 2)(Logits.predict_logits)


class TakesNoWeights(Guesses):
    """The same, for rows that all count once."""

    def fit(self, X, y):
        return super().fit(X, y)


class Forgets(Guesses):
    """The same, but with a class of its own choice missing."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        self.classes_ = np.delete(self.classes_, self.random_state % 3)
        return self


def ensemble(estimator=None, **params):
    """Return an ensemble of three guesses, or of other members."""
    estimator = Guesses() if estimator is None else estimator
    return DeepEnsembleClassifier(estimator, **{"n_members": 3, "random_state": 0} | params)


def probas(model, X=X):
    """Return what the members say by themselves, (n, M, K)."""
    return np.stack([member.predict_proba(X) for member in model.estimators_], axis=1)


# --- The number of disagreement -------------------------------------------------------------


def slowly(log_proba):
    """Return the same of one row by its definition, in 80 decimal places."""
    with localcontext() as context:
        context.prec, context.Emin = 80, -(10**6)
        rows = [[Decimal(value).exp() for value in member] for member in log_proba.tolist()]
        rows = [[value / sum(row) for value in row] for row in rows]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]

        def nats(row):
            return -sum(value * value.ln() for value in row if value)

        return float(nats(mean) - sum(nats(row) for row in rows) / len(rows))


def three_members(scale, seed=0):
    return np.random.default_rng(seed).normal(scale=scale, size=(20, 3, 4))


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1000.0])
def test_disagreement_is_the_definition(scale):
    logits = three_members(scale)
    expected = [slowly(row) for row in logits]
    assert_allclose(disagreement(logits), expected, rtol=1e-10)
    assert_allclose(disagreement(log_softmax(logits, axis=2)), expected, rtol=1e-10)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
def test_a_small_disagreement_keeps_its_digits(step):
    # Entropies near ln 3 would be subtracted: at a step of 1e-9 nothing would be left.
    row = log_softmax(np.array([[0.0, 0.1, 0.2], [step, 0.1, 0.2], [0.0, 0.1, 0.2 - step]]), axis=1)
    assert_allclose(disagreement(row[None]), slowly(row), rtol=1e-5)
    assert slowly(row) < 1.1 * step**2


def test_disagreement_of_members_that_are_sure():
    with np.errstate(divide="ignore"):
        same = np.log([[1.0, 0, 0, 0]] * 4)
        apart = np.log(np.eye(4))
        two_and_two = np.log([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
        # One is sure, the others unsure between the same two: H(5/8, 3/8) - 3/4 ln 2.
        doubt = np.log([[1.0, 0, 0, 0]] + [[0.5, 0.5, 0, 0]] * 3)
    found = disagreement(np.stack([same, apart, two_and_two, doubt]))
    expected = [0, np.log(4), np.log(2), entropy([5, 3]) - 0.75 * np.log(2)]
    assert_allclose(found, expected, rtol=1e-14, atol=0)
    assert found[0] == 0
    huge = np.where(np.isinf(apart), -1e300, 0.0)
    assert_allclose(disagreement(huge[None]), np.log(4), rtol=1e-14)


def test_one_member_agrees_with_itself():
    assert_array_equal(disagreement(three_members(5.0)[:, :1]), 0)


@given(st.integers(0, 10**6), st.sampled_from([1e-8, 0.1, 3, 50, 1e4]), st.integers(2, 7))
@settings(max_examples=60, deadline=None)
def test_disagreement_keeps_its_bounds(seed, scale, n_members):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=(5, n_members, 4))
    logits[rng.random(logits.shape) < 0.2] = -np.inf
    logits[:, :, 0] = 0
    found = disagreement(logits)
    assert (found >= 0).all()
    assert (found <= np.log(n_members)).all()
    assert_allclose(disagreement(logits[:, ::-1]), found, rtol=1e-6, atol=1e-300)
    assert_allclose(disagreement(logits[:, :, ::-1]), found, rtol=1e-6, atol=1e-300)
    assert_allclose(disagreement(np.tile(logits, (1, 2, 1))), found, rtol=1e-6, atol=1e-300)


def test_disagreement_of_many_rows_is_that_of_each():
    logits = np.random.default_rng(0).normal(size=(9000, 3, 4))
    assert disagreement(logits[:0]).shape == (0,)
    assert_allclose(disagreement(logits)[::1000], [slowly(row) for row in logits[::1000]])


# --- Averages -----------------------------------------------------------------------------


@pytest.mark.parametrize("member", [Guesses(), Logits(), NET], ids=lambda member: repr(member)[:6])
def test_averages(member):
    arithmetic = ensemble(member).fit(X, NAMES[y])
    geometric = ensemble(member, averaging="logit").fit(X, NAMES[y])
    members = probas(arithmetic)
    assert_array_equal(probas(geometric), members)
    expected = members.astype(float).mean(axis=1)
    tolerance = {"rtol": 1e-5, "atol": 1e-7}  # members that are networks round to float32
    assert_allclose(arithmetic.predict_proba(X), expected, **tolerance)
    assert_array_equal(arithmetic.predict(X), NAMES[arithmetic.predict_proba(X).argmax(axis=1)])
    product = members.astype(float).prod(axis=1) ** (1 / 3)
    product /= product.sum(axis=1, keepdims=True)
    assert_allclose(geometric.predict_proba(X), product, **tolerance)
    for model in (arithmetic, geometric):
        alone = model.predict_proba(X, per_member=True)
        assert alone.shape == (200, 3, 3)
        assert_allclose(alone, members, **tolerance)
        assert_allclose(softmax(model.predict_logits(X), axis=1), model.predict_proba(X))
        assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=0, atol=1e-14)
        assert model.predict_proba(X).dtype == model.predict_logits(X).dtype == np.float64
        assert_allclose(model.predict_proba(X[7:8]), model.predict_proba(X)[7:8], rtol=1e-6)
        difference = entropy(expected, axis=1) - entropy(members, axis=2).mean(axis=1)
        assert_allclose(model.disagreement(X), difference, atol=1e-6)
        assert model.score(X, NAMES[y]) == (model.predict(X) == NAMES[y]).mean()
    assert np.abs(arithmetic.predict_proba(X) - geometric.predict_proba(X)).max() > 1e-3
    assert arithmetic.disagreement(X).max() > 1e-3


def test_the_average_is_no_worse_than_the_mean_member():
    for averaging in ("proba", "logit"):
        model = ensemble(Guesses(scale=3.0), averaging=averaging).fit(X, y)
        losses = [log_loss(y, member.predict_proba(X)) for member in model.estimators_]
        assert log_loss(y, model.predict_proba(X)) < np.mean(losses)


def test_logits_are_exact_where_probabilities_have_no_digits_left():
    rows = np.array([[1.0]])
    model = ensemble(Logits(), n_members=2).fit([[0.0], [1.0]], [0, 1])
    for member, margin in zip(model.estimators_, (1000.0, 2000.0), strict=True):
        member.coef_ = np.array([[5.0, 5.0 + margin]])
    # ln of the mean of e^-1000 and e^-2000, and the mean of -1000 and -2000.
    assert_allclose(model.predict_logits(rows), [[-1000 - np.log(2), 0]], rtol=1e-15)
    model._averaging = "logit"
    assert_allclose(model.predict_logits(rows), [[-1500, 0]], rtol=1e-15)


def test_a_probability_of_zero_leaves_finite_logits():
    tree = DecisionTreeClassifier(max_features=1)
    for averaging in ("proba", "logit"):
        model = ensemble(tree, averaging=averaging).fit(X[:100], y[:100])
        assert np.isin(probas(model, X[100:]), (0, 1)).all()
        logits = model.predict_logits(X[100:])
        assert np.isfinite(logits).all()
        assert model.disagreement(X[100:]).max() > 0.6
    # The geometric mean of 1, 1 and (nearly) 0 is more than that of 1, 0 and 0.
    votes = probas(model, X[100:]).mean(axis=1)
    won = votes.max(axis=1) > 0.5
    assert_array_equal(logits[won].argmax(axis=1), votes[won].argmax(axis=1))


def test_margins_are_read_only_where_they_are_logits():
    two = y > 0
    for loss, source in (("log_loss", "decision_function"), ("modified_huber", "predict_proba")):
        model = ensemble(SGDClassifier(loss=loss)).fit(X, two)
        assert model._sources == [source] * 3
        assert_allclose(model.predict_proba(X), probas(model).mean(axis=1), atol=1e-12)


def test_members_of_different_kinds():
    model = ensemble(SometimesLogits(), n_members=6).fit(X, y)
    assert set(model._sources) == {"predict_logits", "predict_proba"}
    assert_allclose(model.predict_proba(X, per_member=True), probas(model), rtol=1e-10)


def test_averaging_set_after_fit_waits_for_the_next_fit():
    model = ensemble().fit(X, y)
    before = model.predict_proba(X)
    assert_array_equal(model.set_params(averaging="logit").predict_proba(X), before)
    assert np.abs(model.fit(X, y).predict_proba(X) - before).max() > 1e-3


# --- Seeds --------------------------------------------------------------------------------


def seeds(model):
    return [member.random_state for member in model.estimators_]


def test_members_are_trained_on_all_rows_with_seeds_of_their_own():
    member = clone(NET).set_params(random_state=7)
    model = ensemble(member).fit(X, y)
    assert len(set(seeds(model))) == 3
    for one in model.estimators_:
        assert_array_equal(clone(one).fit(X, y).predict_proba(X), one.predict_proba(X))
    assert member.random_state == 7
    assert not hasattr(member, "classes_")


def test_random_state():
    def fit(**params):
        return ensemble(**params).fit(X, y)

    assert seeds(fit()) == seeds(fit())
    assert seeds(fit(n_members=2)) == seeds(fit())[:2]
    assert not set(seeds(fit())) & set(seeds(fit(random_state=1)))
    assert not set(seeds(fit(random_state=None))) & set(seeds(fit(random_state=None)))
    assert seeds(fit(random_state=np.random.RandomState(0))) == seeds(fit())


def test_every_part_of_a_pipeline_gets_a_seed():
    pipeline = make_pipeline(QuantileTransformer(n_quantiles=10), Guesses())
    model = ensemble(CalibratedClassifier(pipeline, cv=0.3)).fit(X, y)
    found = [
        member.get_params()[name]
        for member in model.estimators_
        for name in (
            "random_state",
            "estimator__guesses__random_state",
            "estimator__quantiletransformer__random_state",
        )
    ]
    assert len(set(found)) == 9
    assert all(isinstance(seed, int) for seed in found)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_jobs_do_not_matter(backend):
    one = ensemble(NET).fit(X, y)
    with joblib.parallel_config(backend):
        two = ensemble(NET, n_jobs=2).fit(X, y)
    assert seeds(one) == seeds(two)
    assert_array_equal(probas(one), probas(two))
    assert_array_equal(one.predict_logits(X), two.predict_logits(X))


def test_the_default_is_a_plain_network():
    model = DeepEnsembleClassifier(n_members=1, random_state=0).fit(X, y)
    (member,) = model.estimators_
    expected = NeSCalMLP(preset="fast", smoothing=0, random_state=member.random_state)
    assert member.get_params(deep=False) == expected.get_params(deep=False)
    assert model.estimator is None
    assert_allclose(model.predict_proba(X), member.predict_proba(X), atol=1e-6)
    assert_array_equal(model.disagreement(X), 0)


# --- What can be a member -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "error", "message"),
    [
        (KNeighborsClassifier(), ValueError, "KNeighborsClassifier has no random_state"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), ValueError, "any part of it"),
        (LinearRegression(), ValueError, "LinearRegression is not a classifier"),
        (LinearSVC(), TypeError, "LinearSVC has no predict_proba"),
        (FrozenEstimator(Guesses().fit(X, y)), ValueError, "A frozen Guesses is not trained"),
        (Forgets(), ValueError, r"different classes, \['.*and"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseEstimator) else "",
)
def test_what_cannot_be_a_member(member, error, message):
    model = ensemble().fit(X, y)
    model.set_params(estimator=member)
    with pytest.raises(error, match=message):
        model.fit(X, NAMES[y])
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    with pytest.raises(NotFittedError):
        model.disagreement(X)


@pytest.mark.parametrize(
    "params",
    [
        {"estimator": "net"},
        {"n_members": 0},
        {"n_members": 2.0},
        {"averaging": "votes"},
        {"n_jobs": "all"},
    ],
)
def test_parameters_out_of_bounds(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        ensemble(**params).fit(X, y)


def test_a_single_member_needs_no_seed():
    model = ensemble(KNeighborsClassifier(), n_members=1).fit(X, y)
    expected = KNeighborsClassifier().fit(X, y).predict_proba(X)
    assert_allclose(model.predict_proba(X), expected, atol=1e-15)


def test_members_that_make_no_use_of_their_seed_are_warned_of():
    with pytest.warns(UserWarning, match="All 3 members give the same.*LogisticRegr") as caught:
        ensemble(LogisticRegression()).fit(X, y)
    assert caught[0].filename == __file__
    ensemble(LogisticRegression(), n_members=1).fit(X, y)
    # Trees know their training rows by heart, and differ on others.
    trees = ensemble(DecisionTreeClassifier(max_features=1)).fit(X[:100], y[:100])
    assert trees.disagreement(X[:100]).max() < 1e-300
    assert trees.disagreement(X[100:]).max() > 0.1


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="holds one class, 'ash'"):
        ensemble().fit(X, NAMES[0 * y])


def test_what_the_member_tells_of_its_columns():
    model = ensemble(NET).fit(pd.DataFrame(X, columns=list("abcdefghij")), y)
    assert model.feature_names_in_.tolist() == list("abcdefghij")
    model.fit(X, y)
    assert model.n_features_in_ == X.shape[1]
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model.set_params(estimator=Guesses()).fit(X, y), "n_features_in_")


def test_missing_cells_and_sparse_tables_are_the_members_matter():
    trees = ensemble(HistGradientBoostingClassifier(max_iter=2, max_features=0.3))
    logistic = ensemble(LogisticRegression(solver="saga", max_iter=3, tol=1.0))
    for model in (trees, logistic, DeepEnsembleClassifier()):
        inner = get_tags(model._member()).input_tags
        assert get_tags(model).input_tags.allow_nan == inner.allow_nan
        assert get_tags(model).input_tags.sparse == inner.sparse
    assert get_tags(trees).input_tags.allow_nan
    assert get_tags(logistic).input_tags.sparse
    holes = np.where(np.arange(200)[:, None] % 7 == 0, np.nan, X)
    assert np.isfinite(trees.fit(holes, y).predict_proba(holes)).all()
    model = ensemble(DecisionTreeClassifier(max_depth=3, max_features=1))
    dense = clone(model).fit(X, y).predict_proba(X)
    for kind in (sparse.csr_array, sparse.coo_array):
        found = model.fit(kind(X), y).predict_proba(sparse.csr_array(X))
        assert_allclose(found, dense, rtol=1e-6)


# --- Weights and other parameters of fit --------------------------------------------------

WEIGHT = np.where(y == 2, 5.0, 1.0)


def test_what_fit_is_given_reaches_every_member():
    model = ensemble().fit(X, NAMES[y], WEIGHT, groups=y)
    for member in model.estimators_:
        assert_array_equal(member.given_["X"], X)
        assert_array_equal(member.given_["y"], NAMES[y])
        assert_array_equal(member.given_["sample_weight"], WEIGHT)
        assert_array_equal(member.given_["groups"], y)
    (member,) = ensemble(n_members=1).fit(X, y).estimators_
    assert member.given_["sample_weight"] is None


def test_networks_learn_from_weights():
    model = ensemble(NET).fit(X, y, sample_weight=WEIGHT)
    one = model.estimators_[0]
    expected = clone(one).fit(X, y, sample_weight=WEIGHT).predict_proba(X)
    assert_array_equal(one.predict_proba(X), expected)
    plain = clone(model).fit(X, y)
    assert model.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean() + 0.1


def test_weights_are_never_ignored():
    with pytest.raises(ValueError, match="TakesNoWeights takes no sample_weight"):
        ensemble(TakesNoWeights()).fit(X, y, sample_weight=WEIGHT)
    pipeline = Pipeline([("scale", StandardScaler()), ("last", Guesses())])
    with pytest.raises(ValueError, match="stepname__parameter"):
        ensemble(pipeline).fit(X, y, sample_weight=WEIGHT)
    with pytest.raises(TypeError, match="unknown"):
        ensemble().fit(X, y, unknown=1)
    with pytest.raises(ValueError, match="negative"):
        ensemble().fit(X, y, sample_weight=-WEIGHT)
    model = ensemble(pipeline).fit(X, y, last__sample_weight=WEIGHT)
    assert_array_equal(model.estimators_[2][-1].given_["sample_weight"], WEIGHT)
    search = GridSearchCV(Guesses(), {"scale": [1.0]}, cv=2)
    model = ensemble(search).fit(X, y, sample_weight=WEIGHT)
    given = model.estimators_[2].best_estimator_.given_
    assert_array_equal(given["sample_weight"], WEIGHT)


def test_weights_are_routed():
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            ensemble().fit(X, y, sample_weight=WEIGHT)
        asks = ensemble(Guesses().set_fit_request(sample_weight=True, groups="who"))
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = Pipeline([("scale", scaler), ("model", asks)])
        pipeline.fit(X, y, sample_weight=WEIGHT, who=y)
        for member in pipeline[-1].estimators_:
            assert_array_equal(member.given_["sample_weight"], WEIGHT)
            assert_array_equal(member.given_["groups"], y)
        refuses = ensemble(Guesses().set_fit_request(sample_weight=False))
        with pytest.raises(TypeError, match="not routed to any object"):
            refuses.fit(X, y, sample_weight=WEIGHT)


# --- Around and inside --------------------------------------------------------------------


def test_copies():
    model = ensemble(NET).fit(X, y)
    expected = model.predict_logits(X)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_logits(X), expected)
    again = clone(model)
    with pytest.raises(NotFittedError):
        again.predict(X)
    assert_array_equal(again.fit(X, y).predict_logits(X), expected)


def test_a_search_over_the_members_parameters():
    grid = {"estimator__lr": [1e-6, 0.05], "n_members": [1, 2]}
    search = GridSearchCV(ensemble(NET), grid, cv=2, scoring="neg_log_loss").fit(X, NAMES[y])
    assert search.best_params_["estimator__lr"] == 0.05
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    assert len(search.best_estimator_.estimators_) == search.best_params_["n_members"]
    assert set(search.predict(X)) <= set(NAMES)


def test_calibration_reads_exact_logits():
    model = ensemble(NET)
    crossed = CalibratedClassifier(model, cv=2).fit(X, NAMES[y])
    assert [pair.source for pair in crossed.calibrated_classifiers_] == ["predict_logits"] * 2
    for pair in crossed.calibrated_classifiers_:
        assert len(pair.estimator.estimators_) == 3
    model.fit(X[:100], NAMES[y[:100]])
    frozen = CalibratedClassifier(FrozenEstimator(model)).fit(X[100:], NAMES[y[100:]])
    (pair,) = frozen.calibrated_classifiers_
    assert pair.source == "predict_logits"
    temperature = pair.calibrator.temperature_
    assert abs(np.log(temperature)) > 0.01
    expected = softmax(np.log(model.predict_proba(X)) / temperature, axis=1)
    assert_allclose(frozen.predict_proba(X), expected, rtol=1e-6)


def test_pipelines_inside_and_outside():
    inside = ensemble(make_pipeline(StandardScaler(), NET)).fit(X, y)
    # Exact logits of the last step, of which probabilities keep seven digits.
    assert inside._sources == ["predict_logits"] * 3
    assert_allclose(inside.predict_proba(X), probas(inside).mean(axis=1), atol=1e-6)
    outside = make_pipeline(StandardScaler(), ensemble(NET)).fit(X, y)
    assert_allclose(outside.predict_proba(X), inside.predict_proba(X), rtol=1e-6)
    calibrated = CalibratedClassifier(outside, cv=2).fit(X, y)
    assert calibrated.calibrated_classifiers_[0].source == "predict_logits"
    proba = cross_val_predict(outside, X, y, cv=2, method="predict_proba")
    assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize(
    "member",
    [
        make_pipeline(StandardScaler(), CalibratedClassifier(NET, cv=2)),
        clone(NET).set_params(calibrate=True),
        ensemble(NET, n_members=2),
        GridSearchCV(NET, {"lr": [0.01, 0.02]}, cv=2),
    ],
    ids=["pipeline with calibration", "calibrated net", "ensemble", "search"],
)
def test_members_with_something_inside(member):
    model = ensemble(member, n_members=2).fit(X, NAMES[y])
    assert_allclose(model.predict_proba(X), probas(model).mean(axis=1), atol=1e-6)
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.disagreement(X).min() > 0
    assert_array_equal(clone(model).fit(X, NAMES[y]).predict_proba(X), model.predict_proba(X))
