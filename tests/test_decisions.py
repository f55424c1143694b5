"""Decisions by expected cost: hand-made examples, brute force, and what goes wrong."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcal import CalibratedClassifier, CostSensitiveClassifier
from skcal.metrics import decision_curve, mean_cost


class Says(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its probabilities."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.weights_ = sample_weight
        return self

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)


def decider(cost_matrix=None, *, y=(0, 1), **params):
    """Return a fitted classifier that weighs the probabilities it is given."""
    y = np.asarray(y)
    X = np.full((len(y), len(np.unique(y))), 1 / len(np.unique(y)))
    return CostSensitiveClassifier(Says(), cost_matrix, **params).fit(X, y)


def two(p):
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


X, y = make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)
NAMES = np.array(["ash", "birch", "cedar"])


# --- Which action ------------------------------------------------------------------------


@pytest.mark.parametrize(("alarm", "miss"), [(1, 1), (1, 4), (3, 1), (1, 99)])
def test_two_classes_have_elkans_threshold(alarm, miss):
    # Elkan (2001), with correct decisions free: p* = c10 / (c10 + c01).
    threshold = alarm / (alarm + miss)
    model = decider([[0, alarm], [miss, 0]])
    p = np.linspace(0, 1, 1001)
    away = np.abs(p - threshold) > 1e-9
    assert_array_equal(model.predict(two(p))[away], (p > threshold)[away])


def test_elkans_threshold_with_all_four_costs():
    # p* = (c10 - c00) / (c10 - c00 + c01 - c11), here (3 - 1) / (3 - 1 + 7 - 2) = 2 / 7.
    model = decider([[1, 3], [7, 2]])
    assert model.predict(two([2 / 7 - 1e-6, 2 / 7 + 1e-6])).tolist() == [0, 1]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_referring_follows_chows_rule(n_classes):
    # Chow (1970): refer where the greatest probability is below 1 - refer_cost.
    model = decider(y=np.arange(n_classes), refer_cost=0.3)
    proba = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.5), 500)
    expected = np.where(proba.max(axis=1) < 0.7, -1, proba.argmax(axis=1))
    assert_array_equal(model.predict(proba), expected)
    assert 0 < (expected == -1).mean() < 1


def test_an_example_by_hand():
    costs = {
        "bad": {"approve": 10, "review": 2, "reject": 0},
        "good": {"approve": -1, "review": 0.5, "reject": 1},
    }
    model = decider(costs, y=["good", "bad"])
    proba = [[0.01, 0.99], [0.3, 0.7], [0.9, 0.1]]  # bad, good
    assert_allclose(
        model.expected_cost(proba), [[-0.89, 0.515, 0.99], [2.3, 0.95, 0.7], [8.9, 1.85, 0.1]]
    )
    assert model.predict(proba).tolist() == ["approve", "reject", "reject"]
    cheap = {truth: row | {"review": row["review"] / 2} for truth, row in costs.items()}
    assert decider(cheap, y=["good", "bad"]).predict(proba).tolist()[1] == "review"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_brute_force(data):
    n_classes, n_actions = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(n_classes, n_actions)).round(data.draw(st.integers(0, 3)))
    proba = rng.dirichlet(np.ones(n_classes), 8)
    actions = [f"action {j}" for j in range(n_actions)]
    model = decider(costs, y=np.arange(n_classes), actions=actions, refer_cost=0.1)
    wide = np.column_stack([costs, np.full(n_classes, 0.1)])
    slow = [[sum(p * c for p, c in zip(row, col, strict=True)) for col in wide.T] for row in proba]
    assert_allclose(model.expected_cost(proba), slow, atol=1e-12)
    for row, chosen in zip(slow, model.predict(proba), strict=True):
        column = [*actions, "refer"].index(chosen)
        assert row[column] <= min(row) + 1e-12
        assert not any(cost < row[column] - 1e-9 for cost in row[:column])


def test_nothing_changes_with_the_unit_and_with_costs_that_no_action_avoids():
    rng = np.random.default_rng(0)
    costs, proba = rng.random((3, 4)), rng.dirichlet(np.ones(3), 200)
    actions = list("abcd")
    chosen = decider(costs, y=[0, 1, 2], actions=actions).predict(proba)
    for same in (100 * costs, costs + np.array([[5], [-2], [0]])):
        assert_array_equal(decider(same, y=[0, 1, 2], actions=actions).predict(proba), chosen)


def test_ties_go_to_the_first_action_whatever_rounding_says():
    # At these thresholds both actions cost the same, up to the last bit of the arithmetic.
    for alarm, miss in itertools.product([1, 3, 0.1, 1e6], [1, 7, 0.3, 1e-3]):
        threshold = alarm / (alarm + miss)
        model = decider([[0, alarm], [miss, 0]])
        assert model.predict(two([threshold])).tolist() == [0], (alarm, miss)
    assert decider(np.ones((2, 3)), actions=list("zya")).predict(two([0.3])).tolist() == ["z"]


def test_no_costs_are_errors():
    model = CostSensitiveClassifier(GaussianNB()).fit(X, y)
    assert_array_equal(model.predict(X), model.estimator_.predict(X))
    assert_array_equal(model.cost_matrix_, 1 - np.eye(3))


# --- Spellings of the costs -----------------------------------------------------------------

MATRIX = np.array([[0.0, 2, 5], [1, 0, 3], [4, 9, 0]])


@pytest.mark.parametrize(
    "spelling",
    [
        MATRIX.tolist(),
        {n: dict(zip(NAMES, row, strict=True)) for n, row in zip(NAMES, MATRIX, strict=True)},
        {
            n: dict(zip(NAMES[::-1], row[::-1], strict=True))
            for n, row in reversed(list(zip(NAMES, MATRIX, strict=True)))
        },
        pd.DataFrame(MATRIX, NAMES, NAMES),
        pd.DataFrame(MATRIX, NAMES, NAMES).iloc[[2, 0, 1], [1, 2, 0]],
        lambda X: np.broadcast_to(MATRIX, (len(X), 3, 3)),
    ],
    ids=["list", "dict", "dict turned", "frame", "frame turned", "function"],
)
def test_all_spellings_mean_the_same(spelling):
    model = CostSensitiveClassifier(GaussianNB(), spelling).fit(X, NAMES[y])
    proba = GaussianNB().fit(X, y).predict_proba(X)
    assert_array_equal(model.predict(X), NAMES[(proba @ MATRIX).argmin(axis=1)])
    assert model.actions_.tolist() == NAMES.tolist()
    assert model.score(X, NAMES[y]) == pytest.approx(
        -MATRIX[y, (proba @ MATRIX).argmin(axis=1)].mean()
    )


def test_rows_of_absent_classes_are_left_out():
    costs = pd.DataFrame(MATRIX, NAMES, NAMES)
    some = y < 2
    model = CostSensitiveClassifier(GaussianNB(), costs).fit(X[some], NAMES[y[some]])
    assert model.cost_matrix_.shape == (2, 3)
    assert model.actions_.tolist() == NAMES.tolist()


def test_costs_may_differ_from_row_to_row():
    # The amount is in the data. A missed fraud costs the amount, an inquiry 10.
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"amount": rng.exponential(200, 300), "odd": rng.normal(size=300)})
    fraud = rng.random(300) < 1 / (1 + np.exp(2 - frame["odd"]))

    def costs(X):
        out = np.zeros((len(X), 2, 2))
        out[:, 0, 1] = out[:, 1, 1] = 10.0
        out[:, 1, 0] = X["amount"]
        return out

    model = CostSensitiveClassifier(LogisticRegression(), costs, actions=["pass", "inquire"])
    model.fit(frame, fraud)
    p = model.predict_proba(frame)[:, 1]
    expected = np.where(p * frame["amount"] > 10, "inquire", "pass")
    assert_array_equal(model.predict(frame), expected)
    assert model.cost_matrix_ is None
    paid = np.where(expected == "inquire", 10, np.where(fraud, frame["amount"], 0))
    assert model.score(frame, fraud) == pytest.approx(-paid.mean())
    realised = mean_cost(fraud, expected, costs(frame), actions=["pass", "inquire"])
    assert realised == pytest.approx(paid.mean())
    model.set_params(refer_cost=1.0).fit(frame, fraud)
    assert (model.predict(frame) == "refer").any()


# --- Referring --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "label", "predicted", "decided"),
    [
        ([0, 1], None, -1, "refer"),
        ([0, 1], 9, 9, "refer"),
        ([0.0, 1.0], None, -1.0, "refer"),
        (["no", "yes"], None, "refer", "refer"),
        (["no", "yes"], "ask someone", "ask someone", "ask someone"),
    ],
)
def test_label_of_referring(classes, label, predicted, decided):
    model = decider(y=classes, refer_cost=0.2, refer_label=label)
    proba = two([0.1, 0.5, 0.9])
    assert model.predict(proba).tolist() == [classes[0], predicted, classes[1]]
    assert model.predict(proba).dtype.kind == np.asarray(classes).dtype.kind
    assert model.decide(proba).tolist() == [classes[0], decided, classes[1]]
    assert model.actions_.tolist() == [*classes, decided]
    assert_allclose(model.expected_cost(proba)[:, -1], 0.2)


def test_objects_stay_objects():
    labels = np.array(["no", "yes"], dtype=object)
    model = decider(y=labels, refer_cost=0.2)
    assert model.predict(two([0.5])).dtype == object
    assert model.predict(two([0.5])).tolist() == ["refer"]


@pytest.mark.parametrize(
    ("classes", "label", "words"),
    [
        ([0, 1], "refer", "refer_label must be a whole number"),
        ([0, 1], 0.5, "refer_label must be a whole number"),
        (["no", "yes"], -1, "refer_label must be a string"),
        (["no", "yes"], "no", "'no' is one of them"),
        ([-1, 1], None, "-1 is one of them"),
        ([False, True], None, "no third truth value"),
        ([0, 1], True, "1.*is one of them|no third truth value"),
    ],
)
def test_unfit_labels_of_referring(classes, label, words):
    with pytest.raises(ValueError, match=words):
        decider(y=classes, refer_cost=0.2, refer_label=label)


def test_a_label_without_a_cost():
    with pytest.raises(ValueError, match="needs a refer_cost"):
        decider(refer_label=-1)


# --- Errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ([[0, 1]], "one row per class, 2 in the order of.*got shape \\(1, 2\\)"),
        ([0, 1], "got shape \\(2,\\)"),
        (np.zeros((3, 2, 2)), "costs of 3 rows; the data has 2"),
        (np.zeros((2, 0)), "got shape \\(2, 0\\)"),
        ([[0, 1], [np.nan, 0]], "action 'no' under class 'yes' is nan"),
        ([[0, np.inf], [1, 0]], "very high cost"),
        ([[0, "dear"], [1, 0]], "one number for each class"),
        ([[0, 1], [1]], "one number for each class"),
        ([[0, 1, 2], [1, 0, 2]], "3 columns for 2 classes; name the action"),
        ({"no": {"no": 0, "yes": 1}}, "no row for class 'yes'"),
        ({"no": {"no": 0, "yes": 1}, "yes": {"no": 0}}, "same actions; class 'yes' has"),
        ({"no": [0, 1], "yes": [1, 0]}, "dict of dicts"),
        ({"no": {"a": 0, "b": "x"}, "yes": {"a": 0, "b": 1}}, "one number for each class"),
        (pd.DataFrame([[0, 1], [1, 0]]), "no row for class 'no'"),
        (pd.DataFrame([[0, 1]] * 2, ["no", "no"]), "twice"),
        (lambda X: np.zeros((2, 2)), "cost_matrix\\(X\\) must return"),
        (lambda X: np.zeros((len(X), 3, 2)), "one row per class"),
    ],
)
def test_unfit_costs(costs, words):
    with pytest.raises(ValueError, match=words):
        decider(costs, y=["no", "yes"])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"actions": ["a"]}, "2 columns but 1 actions"),
        ({"actions": ["a", "a"]}, "must be distinct"),
        ({"actions": ["a", 1]}, "one kind"),
        ({"refer_cost": np.nan}, "refer_cost"),
        ({"refer_cost": np.inf}, "refer_cost"),
        ({"refer_cost": "dear"}, "refer_cost"),
        ({"cost_matrix": 3}, "cost_matrix"),
        ({"cost_matrix": {0: {"a": 1}, 1: {"a": 0}}, "actions": ["a"]}, "names its actions"),
    ],
)
def test_unfit_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        decider(**params)


def test_unsuitable_estimators():
    with pytest.raises(TypeError, match=r"LinearSVC has no predict_proba.*CalibratedClassifier"):
        CostSensitiveClassifier(LinearSVC()).fit(X, y)
    CostSensitiveClassifier(CalibratedClassifier(LinearSVC())).fit(X, y)
    with pytest.raises(ValueError, match="LinearRegression is not a classifier"):
        CostSensitiveClassifier(LinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match="must sum to 1"):
        decider().predict([[0.5, 0.4]])


def test_a_failed_fit_leaves_it_unfitted_and_comes_early():
    class Slow(Says):
        def fit(self, X, y):
            raise AssertionError("trained in vain")

    model = decider()
    model.set_params(estimator=Slow(), cost_matrix=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="one row per class"):
        model.fit(two([0.5, 0.5]), [0, 1])
    with pytest.raises(NotFittedError):
        model.predict(two([0.5]))


def test_score_knows_its_classes():
    model = decider(y=["no", "yes"])
    assert model.score(two([0.9]), ["no"]) == -1
    with pytest.raises(ValueError, match="'maybe' is not among the classes"):
        model.score(two([0.9]), ["maybe"])


# --- Among scikit-learn's tools ----------------------------------------------------------------


def test_frozen_estimators_stay_as_they_are():
    fitted = GaussianNB().fit(X[:200], y[:200])
    model = CostSensitiveClassifier(FrozenEstimator(fitted), MATRIX).fit(X[200:203], [0, 0, 0])
    assert_array_equal(model.predict_proba(X), fitted.predict_proba(X))
    assert model.classes_.tolist() == [0, 1, 2]
    unfrozen = CostSensitiveClassifier(fitted, MATRIX).fit(X[200:], y[200:])
    assert np.abs(unfrozen.predict_proba(X) - fitted.predict_proba(X)).max() > 1e-3


def test_a_fitted_estimator_of_other_classes_is_fitted_anew():
    fitted = GaussianNB().fit(X, y % 2)
    assert CostSensitiveClassifier(fitted, MATRIX).fit(X, y).classes_.tolist() == [0, 1, 2]


def test_search_and_pipeline():
    costs = pd.DataFrame(MATRIX, NAMES, NAMES)
    model = CostSensitiveClassifier(make_pipeline(StandardScaler(), LogisticRegression()), costs)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model),
        {"costsensitiveclassifier__estimator__logisticregression__C": [1e-4, 1.0]},
        cv=3,
    ).fit(X, NAMES[y])
    by_scorer = GridSearchCV(
        search.estimator,
        search.param_grid,
        cv=3,
        scoring=make_scorer(mean_cost, greater_is_better=False, cost_matrix=costs),
    ).fit(X, NAMES[y])
    scores = search.cv_results_["mean_test_score"]
    assert_allclose(scores, by_scorer.cv_results_["mean_test_score"])
    assert scores[1] > scores[0]
    assert (scores < 0).all()
    assert search.best_score_ == max(scores)


def test_clone_and_pickle():
    costs = {"a": {"a": 0, "b": 1}, "b": {"a": 3, "b": 0}}
    model = decider(costs, y=["a", "b"], refer_cost=0.4)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decide(two([0.1, 0.5])), model.decide(two([0.1, 0.5])))
    twin = clone(model)
    assert twin.get_params()["cost_matrix"] == costs
    assert not hasattr(twin, "classes_")


def test_given_costs_are_left_alone():
    costs = MATRIX.copy()
    model = CostSensitiveClassifier(GaussianNB(), costs, refer_cost=1.0).fit(X, y)
    model.predict(X)
    assert model.cost_matrix is costs
    assert_array_equal(costs, MATRIX)


def test_names_of_columns_come_and_go():
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    model = CostSensitiveClassifier(GaussianNB()).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("uvwxyz")
    assert model.n_features_in_ == 6
    assert not hasattr(model.fit(X, y), "feature_names_in_")


def test_weights_reach_the_estimator():
    weights = np.arange(len(y)) % 3 + 0.5
    model = CostSensitiveClassifier(GaussianNB()).fit(X, y, sample_weight=weights)
    expected = GaussianNB().fit(X, y, sample_weight=weights)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X))
    errors = model.predict(X) != y
    assert model.score(X, y, weights) == pytest.approx(-np.average(errors, weights=weights))


def test_metadata_is_routed():
    weights = np.arange(len(y)) % 3 + 0.5
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            CostSensitiveClassifier(GaussianNB()).fit(X, y, sample_weight=weights)
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = CostSensitiveClassifier(inner).set_score_request(sample_weight=True)
        routed = clone(model).fit(X, y, sample_weight=weights)
        scores = cross_val_score(model, X, y, cv=3, params={"sample_weight": weights})
        deaf = CostSensitiveClassifier(GaussianNB().set_fit_request(sample_weight=False))
        with pytest.raises(TypeError, match="not routed to any object"):
            deaf.fit(X, y, sample_weight=weights)
    direct = CostSensitiveClassifier(GaussianNB()).fit(X, y, sample_weight=weights)
    assert_allclose(routed.predict_proba(X), direct.predict_proba(X))
    plain = cross_val_score(CostSensitiveClassifier(GaussianNB()), X, y, cv=3)
    assert np.abs(scores - plain).max() > 1e-6


def test_decisions_cost_less_with_calibrated_probabilities():
    # Naive Bayes on repeated columns is far too sure; its ranking is not the trouble.
    X2, y2 = make_classification(3000, 5, n_informative=3, flip_y=0.2, random_state=1)
    wide = np.hstack([X2] * 5)
    costs = [[0, 1], [8, 0]]

    def cost(model):
        model = CostSensitiveClassifier(model, costs).fit(wide[:1500], y2[:1500])
        return -model.score(wide[1500:], y2[1500:])

    assert cost(CalibratedClassifier(GaussianNB(), "isotonic")) < 0.9 * cost(GaussianNB())


# --- Beside the metrics --------------------------------------------------------------------------


def test_mean_cost_of_what_a_model_decides():
    model = CostSensitiveClassifier(RandomForestClassifier(20, random_state=0), MATRIX)
    model.set_params(refer_cost=0.5).fit(X[:200], y[:200])
    score = -model.score(X[200:], y[200:])
    predicted, decided = model.predict(X[200:]), model.decide(X[200:])
    assert mean_cost(y[200:], predicted, MATRIX, refer_cost=0.5) == pytest.approx(score)
    assert mean_cost(
        y[200:], decided, MATRIX, refer_cost=0.5, refer_label="refer"
    ) == pytest.approx(score)


def test_classifier_and_curve_agree():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < p).astype(int)
    costs = [[0, 1], [4, 0]]
    curve = decision_curve(y, p, cost_matrix=costs)
    assert -decider(costs).score(two(p), y) == pytest.approx(curve.realised_at_optimum)
    expected = decider(costs).expected_cost(two(p)).min(axis=1).mean()
    assert expected == pytest.approx(curve.promised_at_optimum)
