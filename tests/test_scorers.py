"""Scorers in scikit-learn's searches, against the metrics they stand for."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal.calibration import TemperatureScaling
from skcal.metrics import (
    brier_score_loss,
    expected_calibration_error,
    get_scorer,
    get_scorer_names,
    log_loss,
    ranked_probability_score,
    score_decomposition,
    smooth_calibration_error,
)

NAMES = [
    "neg_brier_score",
    "neg_calibration_loss",
    "neg_classwise_ece",
    "neg_ece",
    "neg_log_loss",
    "neg_log_loss_after_temperature",
    "neg_rps",
    "neg_smooth_ece",
]


class Stub(ClassifierMixin, BaseEstimator):
    """Its probabilities are its input."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.array(self.classes)
        return self

    def predict_proba(self, X):
        p = np.asarray(X)
        return p if p.ndim == 2 else np.column_stack([1 - p, p])


def stub(classes):
    return Stub(classes).fit(None, None)


def rows(n=300, n_classes=3, seed=0, sharpness=2.0):
    """Probabilities that are too sure, and labels."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.ones(n_classes), size=n)
    y = (true.cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    proba = true**sharpness
    return proba / proba.sum(axis=1, keepdims=True), y


def test_names():
    assert get_scorer_names() == NAMES


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("neg_logloss", "neg_log_loss"), ("ece", "neg_ece"), ("brier_score", "neg_brier_score")],
)
def test_unknown_name(name, nearest):
    with pytest.raises(ValueError, match=f"got '{name}'. Did you mean '{nearest}'"):
        get_scorer(name)


def test_no_name_at_all():
    with pytest.raises(ValueError, match=r"name must be one of 'neg_brier_score', .*got None"):
        get_scorer(None)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [np.int64, str, "object"])
def test_scores_are_the_metrics_with_the_sign_turned(n_classes, kind):
    proba, codes = rows(n_classes=n_classes)
    classes = np.array(["b", "a", "c"][:n_classes] if kind is str else [10, 20, 30][:n_classes])
    if kind == "object":
        classes = np.array(["x", "y", "z"][:n_classes], dtype=object)
    # The order of the columns is that of classes_, sorted or not.
    y, weights = classes[codes], np.random.default_rng(1).uniform(size=len(codes))
    metrics = {
        "neg_brier_score": brier_score_loss(codes, proba, sample_weight=weights),
        "neg_classwise_ece": expected_calibration_error(
            codes, proba, kind="class-wise", sample_weight=weights
        ),
        "neg_ece": expected_calibration_error(codes, proba, sample_weight=weights),
        "neg_log_loss": log_loss(codes, proba, sample_weight=weights),
        "neg_rps": ranked_probability_score(codes, proba, sample_weight=weights),
        "neg_smooth_ece": smooth_calibration_error(codes, proba, sample_weight=weights),
    }
    for name, value in metrics.items():
        score = get_scorer(name)(stub(classes), proba, y, sample_weight=weights)
        assert type(score) is float
        assert score == pytest.approx(-value, abs=1e-12), name


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_loss_after_temperature(n_classes):
    # One temperature on all rows gives about what the held-out fifths give, a little too good.
    proba, y = rows(n=3000, n_classes=n_classes)
    score = -get_scorer("neg_log_loss_after_temperature")(stub(range(n_classes)), proba, y)
    all_rows = log_loss(y, TemperatureScaling(shrinkage=0).fit(proba, y).predict_proba(proba))
    assert all_rows < score < all_rows + 0.002
    saved = -get_scorer("neg_calibration_loss")(stub(range(n_classes)), proba, y)
    assert saved + score == pytest.approx(log_loss(y, proba))
    assert saved > 0.05
    # Sharpening or flattening all rows, which calibration undoes, changes next to nothing.
    flat, _ = rows(n=3000, n_classes=n_classes, sharpness=0.5)
    again = -get_scorer("neg_log_loss_after_temperature")(stub(range(n_classes)), flat, y)
    assert again == pytest.approx(score, abs=2e-3)


def test_the_temperature_does_not_flatter():
    # Labels without any signal: fitted and scored on the same rows, the loss is below what
    # the best temperature has on new rows, which is ln 2; in held-out fifths it is not.
    held_out, fitted = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, y = rng.uniform(0.3, 0.7, size=40), rng.integers(0, 2, 40)
        held_out.append(-get_scorer("neg_log_loss_after_temperature")(stub([0, 1]), p, y))
        best = TemperatureScaling().fit(p, y)
        fitted.append(log_loss(y, best.predict_proba(p)))
    assert np.mean(fitted) < np.log(2) < np.mean(held_out)


@pytest.mark.parametrize("name", NAMES)
def test_scores_do_not_depend_on_the_order_of_rows(name):
    proba, y = rows()
    order = np.random.default_rng(0).permutation(len(y))
    scorer = get_scorer(name)
    ordered = scorer(stub(range(3)), proba, y)
    assert scorer(stub(range(3)), proba[order], y[order]) == pytest.approx(ordered, abs=1e-12)
    assert scorer(stub(range(3)), proba, y) == ordered


@pytest.mark.parametrize("n_classes", [2, 4])
def test_temperatures_of_folds_are_those_of_the_calibrator(n_classes):
    # The decomposition fits calibrators, the scorer the temperature alone.
    proba, y = rows(n=200, n_classes=n_classes)
    weights = np.random.default_rng(0).uniform(size=200)
    parts = score_decomposition(y, proba, calibrator="temperature", sample_weight=weights)
    for name, value in (
        ("neg_log_loss_after_temperature", parts.refinement_loss),
        ("neg_calibration_loss", parts.calibration_loss),
    ):
        score = get_scorer(name)(stub(range(n_classes)), proba, y, sample_weight=weights)
        assert score == pytest.approx(-value, abs=1e-7)


def test_a_single_row_has_no_temperature():
    score = get_scorer("neg_log_loss_after_temperature")(stub([0, 1]), [0.8], [1])
    assert score == pytest.approx(np.log(0.8))


def test_rows_without_weight_are_not_there():
    proba, y = rows(n=100)
    weights = np.arange(100) % 3 > 0
    scorer = get_scorer("neg_log_loss_after_temperature")
    score = scorer(stub(range(3)), proba, y, sample_weight=weights)
    kept = weights.astype(bool)
    assert score == pytest.approx(scorer(stub(range(3)), proba[kept], y[kept]), abs=1e-12)


# --- Classes that are missing somewhere ------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_class_too_rare_for_every_fold(name):
    # Two rows of a class in five folds: three test folds lack it.
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [149, 149, 2])
    X = rng.normal(size=(300, 3)) + (y == "b")[:, None]
    model, folds = LogisticRegression(), StratifiedKFold(5, shuffle=True, random_state=0)
    with pytest.warns(UserWarning, match="least populated class"):
        scores = cross_val_score(model, X, y, cv=folds, scoring=get_scorer(name))
    assert np.isfinite(scores).all()


def test_the_score_of_such_a_fold_is_right():
    proba = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]])
    score = get_scorer("neg_log_loss")(stub(["a", "b", "c"]), proba, ["a", "b"])
    assert score == pytest.approx(np.log(0.7 * 0.6) / 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_no_training_row_had(name):
    proba, y = rows(n=40, n_classes=2)
    labels = np.array(["a", "c"])[y].astype(object)
    labels[:2] = "b"
    expected = np.insert(proba, 1, 0.0, axis=1)
    score = get_scorer(name)(stub(["a", "c"]), proba, labels)
    known = get_scorer(name)(stub(["a", "b", "c"]), expected, labels)
    assert score == pytest.approx(known, abs=1e-12)
    assert np.isfinite(score)


def test_the_cost_of_an_unknown_class():
    proba = np.array([[0.5, 0.5], [0.5, 0.5]])
    score = get_scorer("neg_log_loss")(stub([0, 1]), proba, [0, 2])
    assert score == pytest.approx((np.log(0.5) + np.log(2.2204e-16)) / 2, abs=1e-3)


def test_folds_in_the_order_of_the_classes():
    # The first training fold lacks the only class of its test fold; the others do not.
    X, y = np.zeros((12, 1)), np.repeat([0, 1], [4, 8])
    scorer = get_scorer("neg_brier_score")
    with pytest.warns(UserWarning, match=r"None of the labels, \[0\], is among the classes"):
        scores = cross_val_score(DummyClassifier(), X, y, cv=KFold(3), scoring=scorer)
    np.testing.assert_allclose(scores, [np.nan, -0.25, -0.25])


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_one_class(name):
    model = DummyClassifier().fit(np.zeros((4, 1)), [1, 1, 1, 1])
    right = get_scorer(name)(model, np.zeros((3, 1)), [1, 1, 1])
    if "temperature" in name or "calibration" in name:
        assert np.isfinite(right)  # a temperature does not believe that nothing else can happen
    else:
        assert right == pytest.approx(0, abs=1e-6)
    score = get_scorer(name)(model, np.zeros((3, 1)), [1, 1, 0])
    assert np.isfinite(score)
    if name == "neg_brier_score":
        assert score == pytest.approx(-1 / 3)


# --- In scikit-learn ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(n_samples=200, n_informative=4, random_state=0)
    return X, np.array(["no", "yes"])[y]


def test_grid_search_over_a_pipeline(data):
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [1e-3, 1.0]}
    scoring = {name: get_scorer(name) for name in NAMES}
    search = GridSearchCV(pipe, grid, scoring=scoring, refit="neg_log_loss", cv=3).fit(*data)
    for name in NAMES:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
    by_sklearn = GridSearchCV(pipe, grid, scoring="neg_log_loss", cv=3).fit(*data)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_neg_log_loss"], by_sklearn.cv_results_["mean_test_score"]
    )
    assert search.best_params_ == by_sklearn.best_params_
    assert search.score(*data) == pytest.approx(-log_loss(data[1], search.predict_proba(data[0])))


def test_beside_scikit_learns_own_scorers(data):
    # Those share one call of predict_proba, of which they keep a single column.
    scoring = {"theirs": "neg_log_loss", "ours": get_scorer("neg_log_loss"), "auc": "roc_auc"}
    scores = cross_validate(LogisticRegression(), *data, scoring=scoring, cv=3)
    np.testing.assert_allclose(scores["test_ours"], scores["test_theirs"])


def test_probabilities_too_small_for_one_minus_p():
    proba = np.array([[1e-12, 1.0], [0.5, 0.5]], dtype=np.float32)
    score = get_scorer("neg_log_loss")(stub([0, 1]), proba, [0, 1])
    assert score == pytest.approx((np.log(1e-12) + np.log(0.5)) / 2, rel=1e-5)


def test_weights_are_asked_for_and_routed(data):
    X, y = data
    weights = np.random.default_rng(0).uniform(size=len(y))
    unweighted = cross_val_score(LogisticRegression(), X, y, scoring=get_scorer("neg_log_loss"))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        model = LogisticRegression().set_fit_request(sample_weight=False)
        routed = cross_validate(
            model, X, y, scoring={"s": scorer}, params={"sample_weight": weights}
        )["test_s"]
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            get_scorer("neg_log_loss").set_score_request(n_bins=True)(
                clone(model).fit(X, y), X, y, nonsense=1
            )
    expected = []
    for train, test in StratifiedKFold(5).split(X, y):
        proba = LogisticRegression().fit(X[train], y[train]).predict_proba(X[test])
        expected.append(-log_loss(y[test], proba, sample_weight=weights[test]))
    np.testing.assert_allclose(routed, expected)
    assert not np.allclose(routed, unweighted)


@pytest.mark.parametrize("name", NAMES)
def test_scorers_are_copied_and_say_what_they_are(name, data):
    scorer = get_scorer(name)
    assert repr(scorer) == f"get_scorer('{name}')"
    model = LogisticRegression().fit(*data)
    score = scorer(model, *data)
    for copy in (
        pickle.loads(pickle.dumps(scorer)),
        deepcopy(scorer),
        check_scoring(model, scorer),
    ):
        assert copy(model, *data) == score


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (Ridge(), TypeError, "Ridge has no predict_proba; the scorer 'neg_ece' needs a fitted"),
        (Stub(), TypeError, "Stub has no classes_"),
        (stub([0, 1, 2]), ValueError, r"predict_proba\(X\) has 2 columns, but classes_ has the"),
        (stub([5, 6]), ValueError, r"None of the labels, \[0, 1\], is among the classes"),
        (stub(["a", "b"]), ValueError, "None of the labels"),
    ],
)
def test_mistakes(model, error, match):
    proba, y = rows(n=20, n_classes=2)
    with pytest.raises(error, match=match):
        get_scorer("neg_ece")(model, proba, y)
