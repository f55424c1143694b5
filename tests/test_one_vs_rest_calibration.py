"""Any binary calibrator, one per class: against the copies fitted by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression

from skcal.calibration import (
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    OneVsRestCalibration,
    PlattScaling,
    TemperatureScaling,
    VennAbersCalibration,
)

BINARY = [
    BetaCalibration(),
    HistogramBinning(n_bins=5),
    IsotonicCalibration(),
    PlattScaling(shrinkage=0),
    TemperatureScaling(),
    VennAbersCalibration(),
]


def draw(n, k, *, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=(n, k))
    true = softmax(logits / 2, axis=1)
    y = (true.cumsum(axis=1) < np.random.default_rng(seed + 1).random((n, 1))).sum(axis=1)
    return softmax(logits, axis=1), y.clip(max=k - 1)


@pytest.mark.parametrize("calibrator", BINARY, ids=repr)
@pytest.mark.parametrize("normalize", ["sum", "softmax"])
def test_each_class_has_a_copy_of_its_own(calibrator, normalize):
    proba, y = draw(300, 4)
    weights = np.random.default_rng(2).exponential(size=300)
    columns = [
        type(calibrator)(**calibrator.get_params())
        .fit(proba[:, k], (y == k).astype(int), weights)
        .predict_proba(proba[:, k])[:, 1]
        for k in range(4)
    ]
    by_hand = np.column_stack(columns)
    by_hand = by_hand if normalize == "sum" else by_hand / (1 - by_hand)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    fitted = OneVsRestCalibration(calibrator, normalize=normalize).fit(proba, y, weights)
    assert len(fitted.calibrators_) == 4
    assert_allclose(fitted.predict_proba(proba), by_hand, rtol=1e-6)


@pytest.mark.parametrize("normalize", ["sum", "softmax"])
def test_two_classes_have_one_copy(normalize):
    proba, y = draw(300, 2)
    alone = BetaCalibration().fit(proba, y)
    fitted = OneVsRestCalibration(BetaCalibration(), normalize=normalize).fit(proba, y)
    assert len(fitted.calibrators_) == 1
    assert_allclose(fitted.predict_proba(proba), alone.predict_proba(proba), rtol=1e-9)


def test_the_default_is_isotonic():
    proba, y = draw(300, 3)
    default, named = (
        OneVsRestCalibration(one).fit(proba, y).predict_proba(proba)
        for one in (None, IsotonicCalibration())
    )
    assert_allclose(default, named, rtol=1e-12)


class Foreign:
    """scikit-learn's isotonic regression with the methods of a binary calibrator."""

    def __init__(self):
        self.seen = []

    def fit(self, p, y, sample_weight):
        self.seen += [np.shape(p), sorted(set(y.tolist()))]
        self.regression = IsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight)
        return self

    def predict_proba(self, p):
        hit = self.regression.predict(p)
        return np.column_stack([1 - hit, hit])


@pytest.mark.parametrize("k", [2, 3])
def test_a_calibrator_of_another_library(k):
    proba, y = draw(300, k)
    weights = np.random.default_rng(2).exponential(size=300)
    columns = [
        IsotonicRegression().fit(proba[:, c], y == c, weights).predict(proba[:, c])
        for c in range(k)
    ]
    by_hand = np.column_stack(columns)
    inside = ((by_hand > 0) & (by_hand < 1)).all(axis=1)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    template = Foreign()
    fitted = OneVsRestCalibration(template).fit(proba, y, weights)
    answer = fitted.predict_proba(proba)
    assert_allclose(answer[inside], by_hand[inside], rtol=1e-6)
    assert (answer > 0).all()  # also where it says 0 or 1
    assert np.isfinite(fitted.loss_)
    assert template.seen == []  # copies are fitted
    for one in fitted.calibrators_:
        assert one.seen == [(300,), [0, 1]]


def test_a_class_without_rows_keeps_its_probability():
    proba, y = draw(300, 3)
    y = y % 2
    fitted = OneVsRestCalibration(PlattScaling(shrinkage=0)).fit(proba, y, classes=[0, 1, 2])
    assert fitted.calibrators_[2] is None
    lines = [fitted.calibrators_[k] for k in (0, 1)]
    columns = [
        expit(line.coef_[0] * logit(proba[:, k]) + line.intercept_[0])
        for k, line in enumerate(lines)
    ]
    by_hand = np.column_stack([*columns, proba[:, 2]])
    assert_allclose(
        fitted.predict_proba(proba), by_hand / by_hand.sum(axis=1, keepdims=True), rtol=1e-9
    )


def test_parameters_of_the_copies_are_checked():
    proba, y = draw(60, 3)
    with pytest.raises(ValueError, match="'strategy' parameter of HistogramBinning must be"):
        OneVsRestCalibration(HistogramBinning(strategy="width")).fit(proba, y)
    with pytest.raises(ValueError, match="'calibrator' parameter of OneVsRestCalibration must"):
        OneVsRestCalibration("isotonic").fit(proba, y)
    with pytest.raises(ValueError, match="'normalize' parameter"):
        OneVsRestCalibration(normalize="max").fit(proba, y)
