"""Agreement with other libraries where they are right.

Numbers were computed once with probmetrics 1.3.0, betacal 1.1.0 and venn-abers 1.5.4 on the
tables of this file. Where such a library is installed, it is asked again.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from skcal.calibration import (
    BetaCalibration,
    EnsembleTemperatureScaling,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VennAbersCalibration,
)


def four_classes(n, seed):
    """Return over-confident, shifted and mixed probabilities, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    mixing = np.eye(4) + 0.2 * np.eye(4)[[1, 2, 3, 0]]
    return softmax(2 * z @ mixing + [0.5, 0, 0, -0.5], axis=1), y


def two_classes(n, seed):
    """Return probabilities that are beta distributed within either class, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.where(y == 1, rng.beta(3, 1, n), rng.beta(1, 2, n)), y


@pytest.fixture(scope="module")
def test_rows():
    return four_classes(3, seed=1)[0]


@pytest.fixture(scope="module")
def probabilities():
    return np.array([0.001, 0.05, 0.3, 0.5, 0.8, 0.97, 0.9999])


# --- probmetrics ---------------------------------------------------------------------------

STRUCTURED = {
    ("matrix", 60): [
        [0.280241, 0.438003, 0.260059, 0.021696],
        [0.556727, 0.174552, 0.061522, 0.207199],
        [0.307189, 0.186864, 0.197714, 0.308233],
    ],
    ("matrix", 3000): [
        [0.236541, 0.499428, 0.236681, 0.02735],
        [0.443603, 0.222701, 0.048786, 0.284911],
        [0.26062, 0.240475, 0.162836, 0.336068],
    ],
    ("vector", 60): [
        [0.148826, 0.499024, 0.331473, 0.020677],
        [0.584587, 0.183869, 0.063258, 0.168286],
        [0.337361, 0.184643, 0.193286, 0.28471],
    ],
    ("vector", 3000): [
        [0.142617, 0.549465, 0.279943, 0.027975],
        [0.473884, 0.254413, 0.04707, 0.224633],
        [0.279937, 0.235294, 0.155677, 0.329093],
    ],
}


@pytest.mark.parametrize(("structure", "n"), list(STRUCTURED))
def test_structured_scaling_is_that_of_its_authors(structure, n, test_rows):
    scaling = StructuredMatrixScaling(structure=structure).fit(*four_classes(n, seed=0))
    # Their solver stops early: its penalised loss is above ours.
    assert_allclose(
        scaling.predict_proba(test_rows), STRUCTURED[structure, n], atol=1e-4 if n == 60 else 1e-3
    )


@pytest.mark.parametrize(("method", "structure"), [("sms", "matrix"), ("svs", "vector")])
def test_structured_scaling_agrees_with_an_installed_probmetrics(method, structure, test_rows):
    calibrators = pytest.importorskip("probmetrics.calibrators", exc_type=ImportError)
    P, y = four_classes(500, seed=5)
    theirs = calibrators.get_calibrator(method).fit(P, y).predict_proba(test_rows)
    ours = StructuredMatrixScaling(structure=structure).fit(P, y).predict_proba(test_rows)
    assert_allclose(ours, theirs, atol=2e-3)


def test_temperature_is_that_of_probmetrics(test_rows):
    scaling = TemperatureScaling(shrinkage=0).fit(*four_classes(3000, seed=0))
    expected = [
        [0.195257, 0.507479, 0.280812, 0.016452],
        [0.559523, 0.242012, 0.048533, 0.149932],
        [0.359052, 0.238574, 0.157044, 0.245329],
    ]
    assert_allclose(scaling.predict_proba(test_rows), expected, atol=2e-6)


def test_ensemble_temperature_is_that_of_probmetrics(test_rows):
    # ETSCalibrator(loss="ce"): T = 2.00741, here drawn to 1 as by ten rows.
    scaling = EnsembleTemperatureScaling().fit(*four_classes(3000, seed=0))
    assert scaling.temperature_ == pytest.approx(2.0074, abs=5e-3)
    assert_allclose(scaling.weights_, [0.968, 0.027, 0.005], atol=3e-3)
    expected = [
        [0.193018, 0.510994, 0.278748, 0.01724],
        [0.564124, 0.239506, 0.048432, 0.147938],
        [0.361654, 0.237867, 0.155748, 0.244731],
    ]
    assert_allclose(scaling.predict_proba(test_rows), expected, atol=2e-4)


def test_quadratic_scaling_is_that_of_probmetrics(probabilities):
    scaling = QuadraticScaling(shrinkage=0).fit(*two_classes(20_000, seed=0))
    expected = [1e-6, 0.00499, 0.166451, 0.423611, 0.831138, 0.98055, 0.999059]
    # Theirs has labels of 0 and 1, ours targets that are smoothed by one row.
    assert_allclose(scaling.predict_proba(probabilities)[:, 1], expected, atol=2e-4)


# --- betacal -------------------------------------------------------------------------------

BETA = {
    "abm": [0.000003, 0.004782, 0.165212, 0.427278, 0.828829, 0.981523, 0.99996],
    "am": [0.000037, 0.010388, 0.171604, 0.408694, 0.832306, 0.989788, 0.999997],
    "ab": [0.0, 0.003292, 0.197515, 0.5, 0.84687, 0.969694, 0.99944],
}


@pytest.mark.parametrize("parameters", list(BETA))
def test_beta_is_that_of_its_authors(parameters, probabilities):
    beta = BetaCalibration(parameters=parameters, shrinkage=0)
    beta.fit(*two_classes(20_000, seed=0))
    # Theirs has labels of 0 and 1, ours targets that are smoothed by one row.
    assert_allclose(beta.predict_proba(probabilities)[:, 1], BETA[parameters], atol=5e-4)


@pytest.mark.parametrize("parameters", list(BETA))
def test_beta_agrees_with_an_installed_betacal(parameters, probabilities):
    betacal = pytest.importorskip("betacal", exc_type=ImportError)
    p, y = two_classes(5000, seed=3)
    with warnings.catch_warnings():  # it changes the filters of the process
        theirs = betacal.BetaCalibration(parameters).fit(p, y).predict(probabilities)
    beta = BetaCalibration(parameters=parameters, shrinkage=0).fit(p, y)
    assert_allclose(beta.predict_proba(probabilities)[:, 1], theirs, atol=2e-3)


# --- venn-abers ----------------------------------------------------------------------------


def test_venn_abers_interval_is_that_of_venn_abers(probabilities):
    p, y = two_classes(300, seed=2)
    venn_abers = VennAbersCalibration().fit(p.round(2).clip(0.01, 0.99), y)
    expected = [
        [0.0, 0.022222],
        [0.0, 0.027027],
        [0.166667, 0.222222],
        [0.448276, 0.482759],
        [0.827586, 0.857143],
        [0.961538, 1.0],
        [0.971429, 1.0],
    ]
    assert_allclose(venn_abers.predict_interval(probabilities)[:, 1], expected, atol=1e-6)
    single = [0.021739, 0.026316, 0.210526, 0.466667, 0.832536, 0.962963, 0.972222]
    assert_allclose(venn_abers.predict_proba(probabilities)[:, 1], single, atol=1e-6)


def test_venn_abers_agrees_with_an_installed_venn_abers():
    with np.errstate():  # its import changes numpy's error state
        module = pytest.importorskip("venn_abers", exc_type=ImportError)
        p, y = two_classes(700, seed=4)
        new, _ = two_classes(300, seed=6)
        theirs = module.VennAbers()
        theirs.fit(np.column_stack([1 - p, p]), y)
        expected = theirs.predict_proba(np.column_stack([1 - new, new]))[1]
    ours = VennAbersCalibration().fit(p, y)
    assert_allclose(ours.predict_interval(new)[:, 1], expected, atol=1e-10)


# --- scikit-learn --------------------------------------------------------------------------


class Margins(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose rows are its decision function."""

    def __init__(self, n_classes=2):
        self.n_classes = n_classes

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0] if self.n_classes == 2 else X

    def predict(self, X):
        return X.argmax(axis=1)

    @property
    def classes_(self):
        return np.arange(self.n_classes)

    def __sklearn_is_fitted__(self):
        return True


def in_sklearn(method, margins, y, new):
    """Return what CalibratedClassifierCV makes of margins of a frozen classifier."""
    n_classes = 2 if margins.shape[1] == 1 else margins.shape[1]
    model = FrozenEstimator(Margins(n_classes))
    wrapper = CalibratedClassifierCV(model, method=method, ensemble=False).fit(margins, y)
    return wrapper.predict_proba(new)


def test_temperature_is_that_of_scikit_learn(test_rows):
    P, y = four_classes(400, seed=0)
    expected = in_sklearn("temperature", np.log(P), y, np.log(test_rows))
    scaling = TemperatureScaling(shrinkage=0).fit(P, y)
    assert_allclose(scaling.predict_proba(test_rows), expected, atol=1e-8)


def test_sigmoid_is_that_of_scikit_learn_on_logits(probabilities):
    p, y = two_classes(400, seed=0)
    expected = in_sklearn("sigmoid", logit(p)[:, None], y, logit(probabilities)[:, None])
    scaling = PlattScaling(shrinkage=0).fit(p, y)
    assert_allclose(scaling.predict_proba(probabilities), expected, atol=1e-5)


def test_sigmoid_of_several_classes_is_that_of_scikit_learn_on_log_odds(test_rows):
    P, y = four_classes(400, seed=0)
    expected = in_sklearn("sigmoid", logit(P), y, logit(test_rows))
    scaling = PlattScaling(shrinkage=0).fit(P, y)
    assert_allclose(scaling.predict_proba(test_rows), expected, atol=1e-5)


def test_isotonic_is_that_of_scikit_learn_on_smoothed_labels(probabilities):
    p, y = two_classes(400, seed=0)
    hits, misses = (y == 1).sum(), (y == 0).sum()
    targets = np.where(y == 1, (hits + 1) / (hits + 2), 1 / (misses + 2))
    curve = IsotonicRegression(out_of_bounds="clip").fit(logit(p), targets)
    ours = IsotonicCalibration(shrinkage=0).fit(p, y).predict_proba(probabilities)
    assert_allclose(ours[:, 1], curve.predict(logit(probabilities)), atol=1e-8)


def test_isotonic_of_several_classes_is_that_of_scikit_learn(test_rows):
    P, y = four_classes(50_000, seed=0)
    expected = in_sklearn("isotonic", logit(P), y, logit(test_rows))
    ours = IsotonicCalibration(shrinkage=0).fit(P, y).predict_proba(test_rows)
    # It has labels of 0 and 1, ours targets that are smoothed by one row.
    assert_allclose(ours, expected, atol=1e-3)
