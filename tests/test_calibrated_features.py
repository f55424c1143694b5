"""CalibratedClassifier with local calibrators: features read for them, and carried along."""

import pickle

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import CalibratedClassifier, NeSCalMLP, TabularEncoder
from skcal.calibration import TemperatureScaling, VQDirichletCalibration


def local(**parameters):
    """Return a calibrator that stays local whatever the rows are."""
    return VQDirichletCalibration(
        **{"n_slots": 2, "n_codewords": 2, "fallback": False, "random_state": 0, **parameters}
    )


def mlp(**parameters):
    return NeSCalMLP(hidden_sizes=(8,), max_epochs=2, random_state=0, **parameters)


def table(n=300, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0).astype(int)
    return X, y + (k > 2) * (X[:, 2] > 0.5)


def require_proba(model, X, k=2):
    proba = model.predict_proba(X)
    n = X.shape[0]
    assert proba.shape == (n, k)
    assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    assert ((proba > 0) & (proba < 1)).all()
    assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    return proba


class Spy(TransformerMixin, BaseEstimator):
    """Remember which rows each clone was fitted on."""

    rows: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.rows.append(np.asarray(X))
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return np.asarray(X) - self.mean_


@pytest.fixture
def spy():
    Spy.rows.clear()
    return Spy()


def squares(X):
    return np.asarray(X) ** 2


# --- What is read ------------------------------------------------------------------------------


def test_auto_is_the_embedding_of_a_network():
    X, y = table()
    model = CalibratedClassifier(mlp(), local(), cv=0.2).fit(X, y)
    (pair,) = model.calibrated_classifiers_
    assert pair.reader.kind == "embedding"
    assert pair.calibrator.n_columns_ == 8
    logits, embedding = pair.estimator.predict_logits(X), pair.estimator.embed(X)
    expected = pair.calibrator.predict_proba(logits, features=embedding)
    assert_array_equal(require_proba(model, X), expected)


def test_auto_is_the_input_of_other_classifiers():
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), cv=0.2, random_state=0).fit(X, y)
    (pair,) = model.calibrated_classifiers_
    assert pair.reader.kind == "input"
    assert isinstance(pair.reader.how, TabularEncoder)
    Z = pair.reader.how.transform(X)
    assert Z.dtype == np.float64
    expected = pair.calibrator.predict_proba(pair.estimator.decision_function(X), features=Z)
    assert_array_equal(require_proba(model, X), expected)


def test_the_input_of_a_network_on_request():
    X, y = table()
    model = CalibratedClassifier(mlp(), local(), cv=0.2, features="input").fit(X, y)
    (pair,) = model.calibrated_classifiers_
    assert pair.calibrator.n_columns_ == pair.reader.how.transform(X).shape[1] == 4
    require_proba(model, X)


def test_a_function_of_the_table():
    X, y = table(k=3)
    model = CalibratedClassifier(
        LogisticRegression(), local(), cv=StratifiedKFold(3), features=squares
    ).fit(X, y)
    total = 0
    for pair in model.calibrated_classifiers_:
        assert pair.reader.kind == "function"
        scores = pair.estimator.decision_function(X)
        total = total + pair.calibrator.predict_proba(scores, features=X**2)
    assert_allclose(require_proba(model, X, 3), total / 3, atol=1e-14)


def test_features_of_the_calibration_rows_teach_the_map():
    X, y = table()
    train, test = np.arange(0, 200), np.arange(200, 300)
    model = CalibratedClassifier(
        LogisticRegression(), local(), cv=[(train, test)], features=squares
    ).fit(X, y)
    raw = LogisticRegression().fit(X[train], y[train])
    expected = (
        local(input="logits")
        .fit(raw.decision_function(X[test]), y[test], features=X[test] ** 2)
        .predict_proba(raw.decision_function(X), features=X**2)
    )
    assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_transformer_is_cloned_and_fitted_on_the_rows_that_train_the_model(spy, n_jobs):
    X, y = table()
    splits = list(StratifiedKFold(3).split(X, y))
    model = CalibratedClassifier(
        LogisticRegression(), local(), cv=splits, features=spy, n_jobs=n_jobs
    )
    with joblib.parallel_config(backend="threading"):
        model.fit(X, y)
    for (train, _), pair in zip(splits, model.calibrated_classifiers_, strict=True):
        assert pair.reader.how is not spy
        assert_allclose(pair.reader.how.mean_, X[train].mean(axis=0), atol=1e-14)
    assert not hasattr(spy, "mean_")
    if n_jobs is None:
        assert [len(rows) for rows in spy.rows] == [len(train) for train, _ in splits]
        for rows, (train, _) in zip(spy.rows, splits, strict=True):
            assert_array_equal(rows, X[train])
    require_proba(model, X)


def test_a_single_model_shares_one_transformer_of_all_rows(spy):
    X, y = table()
    splits = list(StratifiedKFold(3).split(X, y))
    model = CalibratedClassifier(
        LogisticRegression(), local(), cv=splits, ensemble=False, features=spy
    ).fit(X, y)
    assert len(spy.rows) == 1
    assert_array_equal(spy.rows[0], X)
    # The map learns from out-of-fold scores, each with the features of its own row.
    margins, Z = np.empty(300), X - X.mean(axis=0)
    for train, test in splits:
        margins[test] = LogisticRegression().fit(X[train], y[train]).decision_function(X[test])
    calibrator = local(input="logits").fit(margins, y, features=Z)
    final = LogisticRegression().fit(X, y).decision_function(X)
    assert_allclose(
        require_proba(model, X), calibrator.predict_proba(final, features=Z), atol=1e-12
    )


def test_a_frozen_model(spy):
    X, y = table()
    raw = LogisticRegression().fit(X[:150], y[:150])
    held = slice(150, 300)
    model = CalibratedClassifier(FrozenEstimator(raw), local(), features=spy)
    model.fit(X[held], y[held])
    assert_array_equal(spy.rows[0], X[held])
    margins, Z = raw.decision_function(X), X - X[held].mean(axis=0)
    calibrator = local(input="logits").fit(margins[held], y[held], features=Z[held])
    expected = calibrator.predict_proba(margins, features=Z)
    assert_allclose(require_proba(model, X), expected, atol=1e-12)
    network = mlp().fit(X[:150], y[:150])
    model = CalibratedClassifier(network, local(), cv="prefit").fit(X[held], y[held])
    assert model.calibrated_classifiers_[0].reader.kind == "embedding"
    require_proba(model, X)


# --- Ways of calibration -----------------------------------------------------------------------


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("k", [2, 3])
def test_gradient_boosting(ensemble, k):
    X, y = table(k=k)
    X[::7, 0] = np.nan  # which the encoder knows, as boosting does
    names = np.array(["no", "yes", "perhaps"])
    model = CalibratedClassifier(
        HistGradientBoostingClassifier(max_iter=10, random_state=0),
        local(),
        cv=3,
        ensemble=ensemble,
    ).fit(X, names[y])
    assert len(model.calibrated_classifiers_) == (3 if ensemble else 1)
    require_proba(model, X, k)


@pytest.mark.parametrize("ensemble", [True, False])
def test_networks_are_calibrated_in_folds(ensemble):
    X, y = table()
    model = CalibratedClassifier(mlp(), local(), cv=3, ensemble=ensemble).fit(X, y)
    kinds = [pair.reader.kind for pair in model.calibrated_classifiers_]
    # One map for several networks must not be told of their embeddings.
    assert kinds == (["embedding"] * 3 if ensemble else ["input"])
    require_proba(model, X)


def test_a_pipeline_that_ends_in_a_network():
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), mlp())
    model = CalibratedClassifier(pipeline, local(), cv=0.2).fit(10 + 5 * X, y)
    (pair,) = model.calibrated_classifiers_
    assert pair.reader.kind == "embedding"
    inside = pair.estimator[:-1].transform(10 + 5 * X)
    expected = pair.calibrator.predict_proba(
        pair.estimator[-1].predict_logits(inside), features=pair.estimator[-1].embed(inside)
    )
    assert_array_equal(require_proba(model, 10 + 5 * X), expected)
    whole = make_pipeline(StandardScaler(), CalibratedClassifier(mlp(), local(), cv=0.2))
    require_proba(whole.fit(X, y), X)


def test_a_network_of_several_folds_is_embedded_by_all_of_them():
    X, y = table()
    model = CalibratedClassifier(mlp(n_folds=2), local(), cv=0.2).fit(X, y)
    assert model.calibrated_classifiers_[0].calibrator.n_columns_ == 16
    require_proba(model, X)


@pytest.mark.parametrize("ensemble", [True, False])
def test_repeated_folds(ensemble):
    X, y = table()
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), local(), cv=splitter, ensemble=ensemble)
    model.fit(X, y)
    assert model.pooling_temperature_ == 1.0
    require_proba(model, X)


def test_weights_of_zero_equal_absence_with_a_frozen_model():
    X, y = table()
    raw = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    X, y = X[100:], y[100:]
    weights = np.r_[np.ones(150), np.zeros(50)]
    with_them = CalibratedClassifier(raw, local(), features=squares).fit(X, y, weights)
    without = CalibratedClassifier(raw, local(), features=squares).fit(X[:150], y[:150])
    assert_array_equal(with_them.predict_proba(X), without.predict_proba(X))


def test_a_local_error_is_found_through_the_wrapper():
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.normal(size=(n, 6))
        margin = np.where(X[:, 5] > 0, 4.0, 0.3) * X[:, :5].sum(axis=1)
        return X, (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(int)

    X, y = draw(4000)
    fresh, fresh_y = draw(4000)
    losses = {}
    for calibrator in ("temperature", VQDirichletCalibration(6, 2, random_state=0)):
        model = CalibratedClassifier(LogisticRegression(), calibrator, cv=0.5, random_state=0)
        model.fit(X, y)
        losses[str(calibrator)] = log_loss(fresh_y, model.predict_proba(fresh))
    before, after = losses.values()
    assert model.calibrated_classifiers_[0].calibrator.is_local_
    assert after < before - 0.04


# --- Tables of all kinds -----------------------------------------------------------------------


@pytest.mark.parametrize("features", ["auto", "input"])
def test_frames_with_categories_and_missing_values(features):
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["city"] = pd.Categorical(np.where(X[:, 3] > 0, "Oslo", "Bern"))
    frame["text"] = np.where(y == 1, "x", "y")
    frame.loc[5:20, "city"] = np.nan
    frame.loc[30:50, "b"] = np.nan
    for base in (mlp(), make_pipeline(TabularEncoder(), LogisticRegression())):
        model = CalibratedClassifier(base, local(), cv=0.2, features=features).fit(frame, y)
        require_proba(model, frame)
        with pytest.warns(UserWarning, match="'city': none of its levels was seen"):
            require_proba(model, frame.assign(city="Rome"))


def test_frames_stay_frames_for_functions_and_transformers(spy):
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))

    def two_columns(X):
        assert isinstance(X, pd.DataFrame)
        return X[["a", "d"]]

    model = CalibratedClassifier(LogisticRegression(), local(), cv=3, features=two_columns)
    require_proba(model.fit(frame, y), frame)
    assert model.calibrated_classifiers_[0].calibrator.n_columns_ == 2
    model.set_params(features=PCA(3)).fit(frame, y)
    assert model.calibrated_classifiers_[0].calibrator.n_columns_ == 3


def test_sparse_rows_need_to_be_told_how_to_be_read():
    X, y = table()
    rows = sparse.csr_matrix(X * (X > 0))
    with pytest.raises(ValueError, match=r"a transformer, such as TruncatedSVD.*Sparse data"):
        CalibratedClassifier(LogisticRegression(), local(), cv=3).fit(rows, y)
    for features in (TruncatedSVD(2, random_state=0), lambda rows: rows[:, :3]):
        model = CalibratedClassifier(LogisticRegression(), local(), cv=3, features=features)
        require_proba(model.fit(rows, y), rows)
    # A function that returns sparse features gives those of the dense ones.
    dense = model.set_params(features=lambda rows: rows[:, :3].toarray()).fit(rows, y)
    again = clone(model).set_params(features=lambda rows: rows[:, :3]).fit(rows, y)
    assert_array_equal(again.predict_proba(rows), dense.predict_proba(rows))


def test_texts():
    y = np.arange(200) % 2
    texts = [f"word{i % 3} {'good' if (i % 2) ^ (i % 9 == 0) else 'bad'}" for i in range(200)]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    with pytest.raises(ValueError, match="a function of X as features"):
        CalibratedClassifier(pipeline, local(), cv=3).fit(texts, y)
    model = CalibratedClassifier(pipeline, local(), cv=3, features=TfidfVectorizer())
    proba = model.fit(texts, y).predict_proba(texts)
    assert_allclose(proba.sum(axis=1), 1)


# --- Copies, searches --------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["auto", "input", PCA(2), squares], ids=str)
def test_clone_and_pickle(features):
    X, y = table()
    model = CalibratedClassifier(mlp(), local(), cv=0.2, features=features, random_state=0)
    model.fit(X, y)
    expected = model.predict_proba(X)
    copy = clone(model)
    assert not hasattr(copy, "classes_")
    assert type(copy.features) is type(features)
    assert_array_equal(copy.fit(X, y).predict_proba(X), expected)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected)


def test_cloudpickle_keeps_a_function_that_no_module_holds():
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), cv=3, features=lambda X: X[:, :2])
    expected = model.fit(X, y).predict_proba(X)
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    assert_array_equal(copy.predict_proba(X), expected)


def test_a_search_tunes_slots_and_features():
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), cv=3)
    grid = {"calibrator__n_slots": [1, 2], "features": ["input", PCA(2), squares]}
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=2, error_score="raise")
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    fitted = best.calibrated_classifiers_[0].calibrator
    assert fitted.settings_["n_slots"] == search.best_params_["calibrator__n_slots"]
    nested = search.estimator.set_params(features=PCA(3)).set_params(features__n_components=1)
    assert nested.features.n_components == 1


def test_scores_of_cross_validation():
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), cv=3)
    scores = cross_val_score(model, X, y, scoring="neg_log_loss", cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert (scores > -0.69).all()


def test_the_template_is_left_alone(spy):
    X, y = table()
    calibrator = local()
    CalibratedClassifier(LogisticRegression(), calibrator, cv=3, features=spy).fit(X, y)
    assert not hasattr(calibrator, "classes_")
    assert calibrator.input == "proba"


# --- Refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["input", "embedding", PCA(2), squares], ids=str)
@pytest.mark.parametrize("calibrator", ["isotonic", TemperatureScaling()], ids=str)
def test_features_that_nobody_reads_are_refused(features, calibrator):
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), calibrator, features=features)
    with pytest.raises(ValueError, match=r"is for local calibrators; .* reads scores only"):
        model.fit(X, y)


def test_embeddings_of_several_networks_are_refused_for_one_map():
    X, y = table()
    model = CalibratedClassifier(mlp(), local(), ensemble=False, features="embedding")
    with pytest.raises(ValueError, match=r"embeddings of several networks.*Use ensemble=True"):
        model.fit(X, y)
    require_proba(model.set_params(cv=0.2).fit(X, y), X)  # a single network
    frozen = FrozenEstimator(mlp().fit(X, y))
    require_proba(model.set_params(estimator=frozen, cv=None).fit(X, y), X)


@pytest.mark.parametrize("cv", [0.2, 3])
def test_a_classifier_without_an_embedding_is_named(cv):
    X, y = table()
    for base in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        model = CalibratedClassifier(base, local(), cv=cv, features="embedding")
        with pytest.raises(ValueError, match=r"has no embed\(X\).*use features='input'"):
            model.fit(X, y)


@pytest.mark.parametrize("features", ["inputs", 3, np.ones((300, 2)), None], ids=str)
def test_features_that_are_none(features):
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), features=features)
    with pytest.raises(ValueError, match="'features' parameter of CalibratedClassifier must be"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda X: X[:-1], "one row of features for each row of scores; there are 99 .* and 100"),
        (lambda X: None, "the function that was given as features returned None"),
        (lambda X: X * np.nan, "TabularEncoder makes.*NaN"),
        (lambda X: X.astype(str) + "a", "TabularEncoder makes.*convert"),
        (lambda X: X[:, 0], "1D array"),
    ],
)
def test_functions_that_return_no_features(function, words):
    X, y = table()
    model = CalibratedClassifier(LogisticRegression(), local(), cv=3, features=function)
    with pytest.raises(ValueError, match=rf"(?s){words}"):
        model.fit(X, y)


@pytest.mark.parametrize("name", ["NeSCalMLP", "MultiHeadMLP"])
def test_networks_refuse_to_calibrate_themselves_locally(name):
    import skcal

    X, y = table()
    network = getattr(skcal, name)(calibrate=local(), max_epochs=1)
    words = rf"features of the rows.*CalibratedClassifier\({name}\(...\), VQDirichlet"
    with pytest.raises(ValueError, match=words):
        network.fit(X, y)
    assert not hasattr(network, "module_")
