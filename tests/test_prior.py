"""Correction for another base rate: the rule of Bayes by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax

from skcal.calibration import PriorCorrection


def draw(n, priors, *, seed=0):
    """Draw labels by their shares, a score that says something, and the true probabilities.

    Within class k the score is normal around 2k, so that the rule of Bayes gives the
    probabilities for any shares.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice(len(priors), n, p=priors)
    x = 2 * y + rng.normal(size=n)
    return x, y


def bayes(x, priors):
    return softmax(np.log(priors) - (x[:, None] - 2 * np.arange(len(priors))) ** 2 / 2, axis=1)


# --- Given shares ------------------------------------------------------------------------------


def test_new_shares_by_hand():
    fitted = PriorCorrection(target_prior=[0.9, 0.1], source_prior=[0.5, 0.5])
    fitted.fit([[0.5, 0.5]], [0], classes=[0, 1])
    assert_allclose(fitted.predict_proba([[0.5, 0.5]]), [[0.9, 0.1]], rtol=1e-12)
    # 0.2 * 1.8 against 0.8 * 0.2.
    assert_allclose(fitted.predict_proba([[0.2, 0.8]]), [[0.36 / 0.52, 0.16 / 0.52]], rtol=1e-12)
    # The ratios 1.8 and 0.2 have a geometric mean of 0.6.
    assert_allclose(fitted.factors_, [3, 1 / 3], rtol=1e-12)


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_undersampling_is_undone(share):
    # A tenth of the negatives was kept: b s / (b s - s + 1).
    kept = 0.1
    source = share / (share + kept * (1 - share))
    fitted = PriorCorrection(
        target_prior=[1 - share, share], source_prior=[1 - source, source]
    ).fit([0.5, 0.5], [0, 1])
    s = np.array([0.5, 0.01, 0.9])
    answer = fitted.predict_proba(s)[:, 1]
    assert_allclose(answer, kept * s / (kept * s - s + 1), rtol=1e-12)
    assert answer[0] == pytest.approx(0.0909, abs=5e-5)


def test_shares_change_and_densities_do_not():
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    x, y = draw(2000, source)
    fitted = PriorCorrection(target_prior=target, source_prior=source).fit(bayes(x, source), y)
    assert_allclose(fitted.predict_proba(bayes(x, source)), bayes(x, target), rtol=1e-9)


def test_the_source_is_what_the_labels_say():
    x, y = draw(500, [0.5, 0.3, 0.2])
    weights = np.random.default_rng(1).exponential(size=500)
    shares = np.bincount(y, weights) / weights.sum()
    target = [0.2, 0.2, 0.6]
    proba = bayes(x, [0.5, 0.3, 0.2])
    own = PriorCorrection(target_prior=target).fit(proba, y, weights)
    given = PriorCorrection(target_prior=target, source_prior=shares).fit(proba, y, weights)
    assert_allclose(own.factors_, given.factors_, rtol=1e-12)


def test_there_and_back_is_the_identity():
    source, target = [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]
    x, y = draw(300, source)
    proba = bayes(x, source)
    there = PriorCorrection(target_prior=target, source_prior=source).fit(proba, y)
    back = PriorCorrection(target_prior=source, source_prior=target).fit(proba, y)
    assert_allclose(back.predict_proba(there.predict_proba(proba)), proba, rtol=1e-9)
    same = PriorCorrection(target_prior=source, source_prior=source).fit(proba, y)
    assert_allclose(same.predict_proba(proba), proba, rtol=1e-9)


@pytest.mark.parametrize(
    "labels", [["yes", "no", "maybe"], [7, -1, 3]], ids=["strings", "integers"]
)
def test_shares_go_by_the_order_of_the_classes_and_dicts_by_name(labels):
    x, y = draw(300, [0.5, 0.3, 0.2])
    proba = bayes(x, [0.5, 0.3, 0.2])
    target = [0.2, 0.2, 0.6]
    y, classes = np.array(labels)[y], labels  # in an order that is not the sorted one
    by_order = PriorCorrection(target).fit(proba, y, classes=classes)
    named = dict(sorted(zip(labels, target, strict=True), key=str))
    by_name = PriorCorrection(named).fit(proba, y, classes=classes)
    both = PriorCorrection(named, source_prior=dict(zip(labels, [0.5, 0.3, 0.2], strict=True)))
    assert_allclose(by_order.predict_proba(proba), by_name.predict_proba(proba), rtol=1e-12)
    assert_allclose(
        both.fit(proba, y, classes=classes).predict_proba(proba), bayes(x, target), rtol=1e-9
    )
    # Without classes the columns are in sorted order, and so are the shares.
    order = np.argsort(classes)
    sorted_ones = PriorCorrection(np.array(target)[order]).fit(proba[:, order], y)
    assert_allclose(
        sorted_ones.predict_proba(proba[:, order]), by_order.predict_proba(proba)[:, order]
    )


def test_booleans_as_names():
    fitted = PriorCorrection({True: 0.1, False: 0.9}).fit([0.4, 0.6], [False, True])
    assert_allclose(fitted.predict_proba([0.5]), [[0.9, 0.1]], rtol=1e-12)


def test_a_class_that_is_no_more():
    fitted = PriorCorrection([1.0, 0.0], source_prior=[0.5, 0.5]).fit([0.4, 0.6], [0, 1])
    answer = fitted.predict_proba([0.999])
    assert 0 < answer[0, 1] < 1e-300


# --- Learned factors ---------------------------------------------------------------------------


def test_learned_factors_make_the_mean_the_share_of_each_class():
    source, target = [0.5, 0.3, 0.2], np.array([0.1, 0.2, 0.7])
    x, y = draw(20_000, target)
    wrong = bayes(x, source)  # what a classifier trained elsewhere says
    fitted = PriorCorrection().fit(wrong, y)
    shares = np.bincount(y) / len(y)
    answer = fitted.predict_proba(wrong)
    assert np.abs(wrong.mean(axis=0) - shares).max() > 0.1
    assert_allclose(answer.mean(axis=0), shares, atol=1e-3)
    assert_allclose(answer, bayes(x, target), atol=0.04)
    ratio = target / source
    assert_allclose(fitted.factors_, ratio / np.exp(np.log(ratio).mean()), rtol=0.06)


def test_learned_factors_of_two_classes_are_an_intercept():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=50_000)
    y = (rng.random(50_000) < expit(odds - 1.5)).astype(int)
    fitted = PriorCorrection(input="logits").fit(odds, y)
    assert np.log(fitted.factors_[1] / fitted.factors_[0]) == pytest.approx(-1.5, abs=0.05)


def test_factors_of_a_class_without_rows_are_finite():
    x, y = draw(300, [0.6, 0.4])
    proba = np.column_stack([0.8 * bayes(x, [0.6, 0.4]), np.full(300, 0.2)])
    fitted = PriorCorrection().fit(proba, y, classes=[0, 1, 2])
    assert np.isfinite(fitted.factors_).all()
    assert fitted.factors_[2] < 0.3  # it is rarer than they say
    assert fitted.loss_ < fitted.baseline_loss_


def test_the_ranking_of_rows_is_kept():
    x, y = draw(500, [0.6, 0.4])
    proba = bayes(x, [0.6, 0.4])
    for fitted in (PriorCorrection().fit(proba, y), PriorCorrection([0.9, 0.1]).fit(proba, y)):
        answer = fitted.predict_proba(proba)
        assert (np.diff(answer[np.argsort(proba[:, 1]), 1]) >= 0).all()


# --- The words for mistakes --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["target_prior", "source_prior"])
@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ([0.5, 0.3, 0.2], r"must hold 2 shares that sum to 1, in the order \['a', 'b'\]"),
        ([1.5, -0.5], "must hold 2 shares that sum to 1"),
        ([0.5, 0.4], r"must hold 2 shares that sum to 1.* got \[0\.5, 0\.4\]"),
        ([50, 50], "must hold 2 shares that sum to 1"),
        ([np.nan, 1.0], "must hold 2 shares that sum to 1"),
        (["a", "b"], "must hold 2 shares that sum to 1"),
        ([[0.5, 0.5]], "must hold 2 shares that sum to 1"),
        ({"a": 0.5, "c": 0.5}, r"share of each class \['a', 'b'\]; it has \['a', 'c'\]"),
        ({"a": 1.0}, "share of each class"),
        ({"a": 0.5, "b": 0.4}, "must hold 2 shares that sum to 1"),
        (0.5, "parameter of PriorCorrection must be"),
    ],
)
def test_shares_that_are_none_are_refused(name, prior, words):
    given = {"target_prior": [0.5, 0.5], name: prior}
    with pytest.raises(ValueError, match=words) as error:
        PriorCorrection(**given).fit([0.3, 0.7], ["a", "b"])
    assert name in str(error.value)


def test_a_source_share_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"source share of class 'b' is zero.*source_prior"):
        PriorCorrection([0.5, 0.5]).fit([0.3, 0.7], ["a", "a"], classes=["a", "b"])
    with pytest.raises(ValueError, match="source share of class 'a' is zero"):
        PriorCorrection([0.5, 0.5], source_prior=[0, 1]).fit([0.3, 0.7], ["a", "b"])


def test_correcting_nothing_is_warned_of():
    # Trained on resampled rows, calibrated on others: the source is not in these labels.
    p, y = [0.6, 0.5, 0.4, 0.7], ["a", "a", "a", "b"]
    with pytest.warns(UserWarning, match="nothing is corrected.*source_prior"):
        PriorCorrection([0.75, 0.25]).fit(p, y)
    PriorCorrection([0.75, 0.25], source_prior=[0.5, 0.5]).fit(p, y)
