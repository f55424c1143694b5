"""Choosing on some rows and measuring on others: which rows go where, and what is said of it."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from optuna.distributions import FloatDistribution
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skcal import CalibratedClassifier, NeSCalMLP
from skcal.metrics import get_scorer, log_loss
from skcal.tuning import OptunaSearch, tune_and_confirm

X, Y = make_classification(400, n_informative=6, n_classes=3, random_state=0)
BRIER = "neg_brier_score"
FLAT = {"C": [1e-3, 1.0]}


class Noted(ClassifierMixin, BaseEstimator):
    """Notes the rows and the seed of each fit; the first column is the row's number."""

    fits: ClassVar[list] = []

    def __init__(self, says=0.5, random_state=None):
        self.says = says
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        rows = np.asarray(X)[:, 0].astype(int)
        Noted.fits.append((self.says, self.random_state, rows, sample_weight))
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        Noted.fits[-1][2].setflags(write=False)
        return np.tile([1 - self.says, self.says], (len(X), 1))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.fixture(autouse=True)
def no_fits():
    Noted.fits.clear()


def numbered(n=200):
    rows = np.column_stack([np.arange(n), np.zeros(n)])
    return rows, np.tile([0, 1, 1, 1, 1], n // 5)


def grid(**params):
    return GridSearchCV(Noted(), {"says": [0.5, 0.7]}, scoring=get_scorer("neg_log_loss"), **params)


def test_rows_of_the_test_are_in_no_fit_and_those_of_the_calibrator_in_its_own_alone():
    rows, y = numbered()
    told = tune_and_confirm(grid(), rows, y, calibrator="temperature")
    test, calibration = set(told.test_rows), set(told.calibration_rows)
    assert len(test) == 40
    assert len(calibration) == 30
    assert not test & calibration
    for _, _, fitted, _ in Noted.fits:
        assert not (test | calibration) & set(fitted)
    # Two settings on three seeds; both that is chosen and what was given on five; the last.
    assert len(Noted.fits) == 2 * 3 + 2 * 5 + 1
    assert {len(fitted) for _, _, fitted, _ in Noted.fits[:-1]} == {97}  # 75 % of 130
    assert set(Noted.fits[-1][2]) == set(range(200)) - test - calibration
    assert told.notes == ["Calibrated on 30 rows that no trial saw."]


def test_confirmed_fits_have_seeds_and_splits_of_their_own():
    rows, y = numbered()
    tune_and_confirm(grid(), rows, y, search_seeds=[0, 1], confirmation_seeds=[7, 8, 9])
    searched = {tuple(fitted) for _, _, fitted, _ in Noted.fits[:4]}
    confirmed = [(says, seed, tuple(fitted)) for says, seed, fitted, _ in Noted.fits[4:-1]]
    assert len(searched) == 2
    assert not searched & {fitted for _, _, fitted in confirmed}
    assert [says for says, *_ in confirmed] == [0.7] * 3 + [0.5] * 3
    seeds = [seed for _, seed, _ in confirmed]
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds)) == 3
    # What is compared on a seed was fitted on the same rows.
    assert [fitted for *_, fitted in confirmed[:3]] == [fitted for *_, fitted in confirmed[3:]]


def test_scores_are_those_of_the_test_rows():
    rows, y = numbered()
    told = tune_and_confirm(grid(), rows, y, scoring=[BRIER])
    proba = np.tile([0.3, 0.7], (40, 1))
    expected = -log_loss(y[told.test_rows], proba)
    assert_allclose(told.scores["tuned_score"], expected)
    assert told.confirmed_score == pytest.approx(expected)
    given = -log_loss(y[told.test_rows], np.full((40, 2), 0.5))
    assert_allclose(told.scores["given_score"], given)
    assert set(told.scores) == {
        "seed",
        *(
            f"{which}_{name}"
            for which in ("tuned", "given")
            for name in ("score", "neg_brier_score")
        ),
    }
    assert told.search_score == told.search.best_score_
    assert told.optimism == pytest.approx(told.search_score - expected)
    assert pd.DataFrame(told.scores).shape == (5, 5)


def test_optimism_is_that_of_the_choice_and_positive_where_there_is_nothing_to_choose():
    # Labels are noise: whatever looks better than the base rate was lucky.
    optimism = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 2)), rng.integers(0, 2, 120)
        space = {"C": FloatDistribution(1e-3, 1e3, log=True)}
        model = make_pipeline(StandardScaler(), LogisticRegression())
        space = {f"logisticregression__{name}": values for name, values in space.items()}
        search = OptunaSearch(model, space, n_trials=10, random_state=0, scoring="accuracy")
        told = tune_and_confirm(search, X, y, search_seeds=[0], random_state=seed)
        optimism.append(told.optimism)
    assert np.mean(optimism) > 0.02


def test_the_report_says_what_was_measured():
    told = tune_and_confirm(GridSearchCV(LogisticRegression(), FLAT, scoring="neg_log_loss"), X, Y)
    text = str(told)
    assert "Chosen on seeds 0, 1, 2 by neg_log_loss: C=1" in text
    assert "Confirmed on seeds 12, 13, 14, 15, 16 and 80 test rows:" in text
    scores = told.scores["tuned_neg_log_loss"]
    half = stats.t.ppf(0.975, 4) * stats.sem(scores)
    assert f"{scores.mean():.4f} ± {half:.4f}" in text
    assert f"an optimism of {told.optimism:+.4f}" in text
    assert "neg_log_loss_after_temperature" in text
    assert told.notes == []
    assert repr(told) == text
    one = str(
        tune_and_confirm(
            GridSearchCV(LogisticRegression(), FLAT, scoring="neg_log_loss"),
            X,
            Y,
            confirmation_seeds=[3],
        )
    )
    assert "nan" not in one


def test_an_estimator_among_the_chosen_takes_a_line():
    steps = [StandardScaler(), LogisticRegression(C=0.123456789, max_iter=12345, solver="saga")]
    model = Pipeline([("model", LogisticRegression())])
    search = GridSearchCV(model, {"model": [make_pipeline(*steps)]}, scoring="neg_log_loss")
    text = str(tune_and_confirm(search, X, Y, search_seeds=[0], confirmation_seeds=[1]))
    first, second, *_ = text.splitlines()
    assert "max_iter=12345" in first
    assert second.startswith("Confirmed on seeds 1")


@pytest.mark.parametrize(
    ("model", "itself"),
    [
        (LogisticRegression(), False),
        (CalibratedClassifier(LogisticRegression(), cv=2), True),
        (make_pipeline(CalibratedClassifier(LogisticRegression(), cv=2)), True),
        (SVC(), False),
        (SVC(probability=True), True),
        (NeSCalMLP(preset="fast", max_epochs=1), False),
        (NeSCalMLP(preset="fast", max_epochs=1, calibrate=True), True),
        (NeSCalMLP(preset="strong", n_members=1, max_epochs=1, n_folds=2), True),
        (NeSCalMLP(preset="strong", n_members=1, max_epochs=1, n_folds=2, calibrate=False), False),
    ],
)
@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_what_calibrates_itself_on_rows_that_chose_is_told(model, itself):
    name = next(n for n in model.get_params() if n.endswith(("C", "lr")))
    search = GridSearchCV(model, {name: [0.01]}, scoring="accuracy")
    told = tune_and_confirm(
        search, X, Y, search_seeds=[0], confirmation_seeds=[1], scoring="accuracy"
    )
    assert any("took part in choosing" in note for note in told.notes) is itself


def test_what_was_fitted_before_is_told():
    model = CalibratedClassifier(FrozenEstimator(LogisticRegression().fit(X, Y)))
    search = GridSearchCV(model, {"calibrator": ["temperature", "vector"]}, scoring="neg_log_loss")
    told = tune_and_confirm(search, X, Y, search_seeds=[0], confirmation_seeds=[1])
    assert any("was fitted before" in note for note in told.notes)


def test_a_calibrator_is_behind_what_is_returned_and_scored():
    search = GridSearchCV(LogisticRegression(), FLAT, scoring=get_scorer("neg_log_loss"))
    told = tune_and_confirm(search, X, Y, calibrator="isotonic")
    assert isinstance(told.estimator, CalibratedClassifier)
    assert told.estimator.predict_proba(X[:3]).shape == (3, 3)
    assert told.confirmed_score != pytest.approx(told.scores["tuned_score"].mean())
    assert "before calibration: an optimism" in str(told)


def test_groups_stay_together():
    rows, y = numbered()
    groups = np.repeat(np.arange(40), 5)
    told = tune_and_confirm(grid(), rows, y, groups=groups, calibrator="temperature")
    parts = [set(groups[told.test_rows]), set(groups[told.calibration_rows])]
    assert not parts[0] & parts[1]
    for _, _, fitted, _ in Noted.fits:
        assert not set(groups[fitted]) & (parts[0] | parts[1])
    validation = set(range(40)) - parts[0] - parts[1] - set(groups[Noted.fits[0][2]])
    assert len(validation) == 7


def test_weights_follow_their_rows():
    rows, y = numbered()
    weights = np.arange(200.0)
    tune_and_confirm(grid(), rows, y, sample_weight=weights)
    for _, _, fitted, weight in Noted.fits:
        assert_array_equal(weight, weights[fitted])


def test_weights_that_are_for_the_score_alone_are_in_no_fit():
    rows, y = numbered()
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        search = grid().set_params(scoring=scorer)
        search.estimator.set_fit_request(sample_weight=False)
        tune_and_confirm(search, rows, y, sample_weight=np.ones(200))
        assert [weight for *_, weight in Noted.fits] == [None] * 17
        search.estimator.set_fit_request(sample_weight=True)
        tune_and_confirm(search, rows, y, sample_weight=np.ones(200))
    assert all(len(weight) == len(fitted) for *_, fitted, weight in Noted.fits[17:])


def test_the_search_that_was_given_is_left_as_it_is():
    search = OptunaSearch(
        LogisticRegression(), {"C": FloatDistribution(0.1, 1)}, n_trials=2, random_state=0
    )
    before = search.get_params()
    told = tune_and_confirm(search, X, Y)
    assert search.get_params() == before
    assert not hasattr(search, "study_")
    assert len(told.search.study_.trials) == 2
    again = tune_and_confirm(search, X, Y, n_jobs=2)
    assert str(again) == str(told)


def test_a_study_of_other_rows_is_not_continued(tmp_path):
    kept = {"storage": tmp_path / "study.log", "study_name": "one"}
    space = {"C": FloatDistribution(0.1, 1)}
    search = OptunaSearch(LogisticRegression(), space, n_trials=2, cv=3, random_state=0, **kept)
    search.fit(X, Y)  # on the rows of the test, too
    with pytest.raises(ValueError, match="take another study_name"):
        tune_and_confirm(search, X, Y)
    search.set_params(study_name="two")
    told = tune_and_confirm(search, X, Y)
    assert str(tune_and_confirm(search, X, Y)) == str(told)
    with pytest.raises(ValueError, match="take another study_name"):
        tune_and_confirm(search, X, Y, random_state=1)


def test_tables_and_text_labels():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.array(["a", "b", "c"])[Y]
    search = GridSearchCV(LogisticRegression(), FLAT, scoring="neg_log_loss")
    told = tune_and_confirm(search, frame, labels, calibrator="vector")
    plain = tune_and_confirm(clone(search), X, Y, calibrator="vector")
    for name, values in plain.scores.items():
        assert_allclose(told.scores[name], values)
    assert set(told.estimator.predict(frame)) <= {"a", "b", "c"}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"search_seeds": [0, 12]}, "Seed 12 is among search_seeds and confirmation_seeds"),
        ({"search_seeds": []}, "need at least one seed each"),
        ({"search_seeds": [1, 1]}, "search_seeds must be different ones"),
        ({"confirmation_seeds": [3, 4, 3]}, "confirmation_seeds must be different ones"),
        ({"test_size": 0}, "test_size must be strictly between 0 and 1"),
        ({"validation_size": 1.5}, "validation_size must be strictly between"),
        (
            {"calibrator": "temperature", "test_size": 0.5, "calibration_size": 0.5},
            r"calibration_size / \(1 - test_size\) must be strictly between",
        ),
        ({"scoring": ["nothing"]}, "'nothing'"),
        ({"scoring": "nothing"}, "'nothing'"),
        ({"y": None}, "requires y to be passed"),
        ({"y": np.repeat(["often", "once"], [199, 1])}, "least populated .*'once'"),
        ({"calibrator": "nothing"}, "nothing"),
    ],
)
def test_wrong_input_is_told_before_the_search(params, words):
    rows, y = numbered()
    with pytest.raises(ValueError, match=words):
        tune_and_confirm(grid(), rows, **{"y": y} | params)
    assert not Noted.fits


@pytest.mark.parametrize("scoring", [["accuracy"], {"a": "accuracy"}])
def test_a_search_of_several_scores_is_refused(scoring):
    rows, y = numbered()
    several = GridSearchCV(Noted(), {"says": [0.5, 0.7]}, scoring=scoring, refit="a")
    with pytest.raises(ValueError, match="must have one score"):
        tune_and_confirm(several, rows, y)
    with pytest.raises(TypeError, match=r"must be an OptunaSearch.*; got Noted\(\)"):
        tune_and_confirm(Noted(), rows, y)
    assert not Noted.fits
