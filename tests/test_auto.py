"""The calibrator that cross-validation chooses, with folds and rule written down anew."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

from skcal.calibration import (
    CALIBRATOR_NAMES,
    LOCAL_CALIBRATOR_NAMES,
    AutoCalibration,
    BaseCalibrator,
    DirichletCalibration,
    IdentityCalibration,
    IsotonicCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
    make_calibrator,
)
from skcal.calibration._fitting.folds import deal_folds

DEFAULTS = {
    2: ["identity", "temperature", "sigmoid", "beta", "isotonic"],
    3: ["identity", "temperature", "svs", "sms", "isotonic"],
}


def draw(n, k, *, seed=0, spread=1.5):
    """Return true logits and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    true = softmax(logits, axis=1)
    return logits, (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)


def losses_by_hand(calibrator, logits, y, weights, folds):
    """Return each row's log-loss by the public methods, fitted on the other folds."""
    losses = np.empty(len(y))
    classes = np.arange(logits.shape[1])
    for fold in set(folds):
        rest, out = folds != fold, folds == fold
        one = clone(calibrator).set_params(input="logits")
        one.fit(logits[rest], y[rest], weights[rest], classes=classes)
        answer = one.predict_proba(logits[out])
        losses[out] = -np.log(answer[np.arange(out.sum()), y[out]])
    return losses


# --- Folds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k", "n_folds"), [(100, 2, 5), (103, 4, 5), (7, 3, 3), (5, 5, 5)])
def test_folds_share_classes_and_rows_evenly(n, k, n_folds):
    logits, y = draw(n, k)
    log_proba = log_softmax(logits, axis=1)
    folds = deal_folds(log_proba, y, n_folds)
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for label in range(k):
        held = np.bincount(folds[y == label], minlength=n_folds)
        assert held.max() - held.min() <= 1
    again = deal_folds(log_proba, y, n_folds)
    assert_array_equal(again, folds)


def test_folds_are_as_if_drawn():
    # Of neighbours in score as many are in one fold as chance would have it. If each fold
    # had the same scores, a curve through noise would be rewarded.
    logits, y = draw(5000, 2)
    log_proba = log_softmax(logits, axis=1)
    folds = deal_folds(log_proba, y, 5)
    for label in (0, 1):
        rows = np.flatnonzero(y == label)
        in_order = folds[rows[np.argsort(log_proba[rows, label])]]
        same = (in_order[1:] == in_order[:-1]).mean()
        assert same == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / len(rows)))


def test_folds_follow_rows_and_classes_in_any_order():
    logits, y = draw(60, 3)
    order = np.random.default_rng(1).permutation(60)
    folds = deal_folds(log_softmax(logits, axis=1), y, 5)
    shuffled = deal_folds(log_softmax(logits[order], axis=1), y[order], 5)
    assert_array_equal(shuffled, folds[order])
    renamed = deal_folds(log_softmax(logits[:, [1, 2, 0]], axis=1), (y + 2) % 3, 5)
    assert_array_equal(renamed, folds)


# --- The choice --------------------------------------------------------------------------------


def chosen(scores, y):
    fitted = AutoCalibration(input="logits").fit(scores, y)
    return fitted.cv_results_["calibrator"][fitted.best_index_]


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("n", [300, 3000])
def test_a_flexible_map_is_hardly_ever_chosen_without_need(n, k):
    calibrated = [chosen(*draw(n, k, seed=seed)) for seed in range(10)]
    assert calibrated.count("identity") >= 8
    sharp = []
    for seed in range(10):
        logits, y = draw(n, k, seed=seed)
        sharp.append(chosen(2 * logits, y))
    assert sharp.count("temperature") >= 7


def test_what_is_chosen_is_fitted():
    logits, y = draw(3000, 3)
    same = AutoCalibration(input="logits").fit(logits, y)
    assert isinstance(same.calibrator_, IdentityCalibration)
    assert_allclose(same.predict_proba(logits), softmax(logits, axis=1), rtol=1e-9)
    halved = AutoCalibration(input="logits").fit(2 * logits, y)
    assert isinstance(halved.calibrator_, TemperatureScaling)
    assert halved.calibrator_.temperature_ == pytest.approx(2, rel=0.15)


def test_mixed_logits_take_a_matrix():
    logits, y = draw(5000, 3)
    mixed = logits @ np.array([[1.0, 0.8, 0.0], [0.0, 1.0, 0.8], [0.0, 0.0, 1.0]]) + [0, 1, 0]
    fitted = AutoCalibration(input="logits").fit(mixed, y)
    assert isinstance(fitted.calibrator_, StructuredMatrixScaling)
    assert fitted.calibrator_.structure == "matrix"
    assert fitted.best_index_ == 3


def test_a_shifted_class_takes_a_vector():
    logits, y = draw(5000, 3)
    fitted = AutoCalibration(input="logits").fit(logits + np.array([0, 1.5, 0]), y)
    assert fitted.calibrator_.structure == "vector"


@pytest.mark.parametrize(
    ("bend", "name"),
    [
        (lambda p: expit(np.log(p / (1 - p)) - 1.5), "sigmoid"),
        (lambda p: p**3 / (p**3 + 0.5 * (1 - p) ** 0.3), "beta"),
        (lambda p: 0.15 + 0.7 * (p > 0.7), "isotonic"),
    ],
)
def test_a_curve_of_two_classes_takes_what_can_bend_so(bend, name):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 6000)
    fitted = AutoCalibration().fit(p, rng.random(6000) < bend(p))
    assert type(fitted.calibrator_) is type(make_calibrator(name))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_results_are_those_of_a_loop_by_hand(k, weighted):
    logits, y = draw(203, k)
    logits = 1.5 * logits + np.arange(k) * 0.3
    weights = np.random.default_rng(1).exponential(size=203) if weighted else np.ones(203)
    fitted = AutoCalibration(input="logits").fit(logits, y, weights)
    folds = deal_folds(log_softmax(logits, axis=1), y, 5)
    losses = np.array(
        [losses_by_hand(make_calibrator(name), logits, y, weights, folds) for name in DEFAULTS[k]]
    )
    means = np.average(losses, axis=1, weights=weights)
    best = means.argmin()
    paired = losses - losses[best]
    spread = np.average((paired - (means - means[best])[:, None]) ** 2, axis=1, weights=weights)
    errors = np.sqrt(spread / weights.sum())
    results = fitted.cv_results_
    assert results["calibrator"].tolist() == DEFAULTS[k]
    assert_allclose(results["mean_log_loss"], means, rtol=1e-6)
    assert_allclose(results["difference"], means - means[best], rtol=1e-5, atol=1e-9)
    assert_allclose(results["standard_error"], errors, rtol=1e-5, atol=1e-9)
    within = means - means[best] <= errors
    assert_array_equal(results["within_one_standard_error"], within)
    assert fitted.best_index_ == np.flatnonzero(within)[0]
    # The chosen one is then fitted on all rows.
    chosen = make_calibrator(DEFAULTS[k][fitted.best_index_]).set_params(input="logits")
    assert_allclose(
        fitted.predict_proba(logits),
        chosen.fit(logits, y, weights).predict_proba(logits),
        rtol=1e-9,
    )


class Stubborn(BaseCalibrator):
    """Gives the true label of a row a log-loss that is known; odds hold its number."""

    def __init__(self, losses=(), *, input="proba", eps="auto"):
        super().__init__(input=input, eps=eps)
        self.losses = losses

    def _fit(self, log_proba, codes, weights):
        pass

    def _transform(self, log_proba):
        row = np.rint(log_proba[:, 1] - log_proba[:, 0]).astype(int) - 1
        loss = np.asarray(self.losses)[row]
        return np.column_stack([np.log(-np.expm1(-loss)), -loss])


def chosen_among(*losses):
    """Return the choice among candidates with these losses of the rows, all of class 1."""
    n = len(losses[0])
    candidates = [Stubborn(list(one)) for one in losses]
    auto = AutoCalibration(candidates, cv=2, input="logits")
    return auto.fit(np.arange(1.0, n + 1), np.ones(n), classes=[0, 1])


def test_the_rule_by_hand():
    # Differences to the last of 0.2, 0.0, 0.2 and 0.0: a mean of 0.1, and a deviation of 0.1
    # which over the root of four rows is 0.05. Less than the difference.
    far = chosen_among([0.7, 0.5, 0.7, 0.5], [0.5] * 4)
    assert far.best_index_ == 1
    assert_allclose(far.cv_results_["mean_log_loss"], [0.6, 0.5], rtol=1e-9)
    assert_allclose(far.cv_results_["standard_error"], [0.05, 0], atol=1e-9)
    assert far.reason_.endswith("no simpler candidate is within a standard error of it.")
    # Differences of 0.4, -0.2, 0.0, 0.0: a mean of 0.05 and an error of sqrt(0.0475 / 4).
    near = chosen_among([0.9, 0.3, 0.5, 0.5], [0.5] * 4)
    assert near.best_index_ == 0
    assert_allclose(near.cv_results_["difference"], [0.05, 0], atol=1e-9)
    assert near.cv_results_["standard_error"][0] == pytest.approx(np.sqrt(0.0475 / 4))
    # The first in the list, and not the best but one.
    three = chosen_among(
        [0.9, 0.9, 0.9, 0.9], [0.9, 0.3, 0.5, 0.5], [0.9, 0.28, 0.5, 0.5], [0.5] * 4
    )
    assert three.best_index_ == 1
    assert_array_equal(three.cv_results_["within_one_standard_error"], [False, True, True, True])
    # What is above by as much for every row is worse, however little.
    always = chosen_among([0.501] * 4, [0.5] * 4)
    assert always.best_index_ == 1
    same = chosen_among([0.5] * 4, [0.5] * 4)
    assert same.best_index_ == 0


def test_the_reason_is_true():
    logits, y = draw(1000, 3)
    for scores in (logits, 2 * logits, logits + np.array([0, 2, 0])):
        fitted = AutoCalibration(input="logits").fit(scores, y)
        results = fitted.cv_results_
        names, means = results["calibrator"], results["mean_log_loss"]
        best, chosen = means.argmin(), fitted.best_index_
        start = f"{names[best]} has the least cross-validated log-loss, {means[best]:.4f} nats"
        assert fitted.reason_.startswith(start)
        if best != chosen:
            error = results["standard_error"][chosen]
            assert f"{names[chosen]} is simpler, and its {means[chosen]:.4f}" in fitted.reason_
            assert f"standard error ({error:.4f})" in fitted.reason_
            assert means[chosen] - means[best] <= error


def test_the_order_of_rows_does_not_matter():
    logits, y = draw(300, 3)
    first = AutoCalibration(input="logits").fit(2 * logits, y)
    order = np.random.default_rng(1).permutation(300)
    again = AutoCalibration(input="logits").fit(2 * logits[order], y[order])
    assert again.best_index_ == first.best_index_
    assert_allclose(
        again.cv_results_["mean_log_loss"], first.cv_results_["mean_log_loss"], rtol=1e-6
    )
    assert_allclose(again.predict_proba(logits), first.predict_proba(logits), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_few_rows(n):
    logits, y = draw(n, 3)
    fitted = AutoCalibration(input="logits").fit(logits, y, classes=[0, 1, 2])
    assert_allclose(fitted.predict_proba(logits).sum(axis=1), 1)
    if n == 1:  # which decides nothing
        assert fitted.best_index_ == 0


def test_a_class_with_a_single_row():
    logits, y = draw(100, 3)
    y = np.minimum(y, 1)
    y[17] = 2
    fitted = AutoCalibration(input="logits").fit(logits, y)
    assert np.isfinite(fitted.cv_results_["mean_log_loss"]).all()
    assert fitted.loss_ <= fitted.baseline_loss_


# --- Candidates --------------------------------------------------------------------------------


def test_names_and_instances():
    logits, y = draw(1000, 3)
    mine = TemperatureScaling(shrinkage=0, bounds=(0.5, 5.0))
    fitted = AutoCalibration(["identity", mine, "svs"], input="logits").fit(2 * logits, y)
    assert fitted.best_index_ == 1
    assert fitted.calibrator_.get_params() == {**mine.get_params(), "input": "logits"}
    assert not hasattr(mine, "temperature_")  # a copy is fitted
    assert fitted.cv_results_["calibrator"][1] == repr(mine)
    assert AutoCalibration(("temperature",), input="logits").fit(logits, y).best_index_ == 0


class Halved(BaseCalibrator):
    """A user's own map: all logits are halved."""

    def _fit(self, log_proba, codes, weights):
        self.factor_ = 0.5

    def _transform(self, log_proba):
        return log_proba * self.factor_


def test_a_map_of_the_users_own_can_win():
    logits, y = draw(2000, 3)
    candidates = ["identity", Halved(), "temperature"]
    fitted = AutoCalibration(candidates, input="logits").fit(2 * logits, y)
    assert isinstance(fitted.calibrator_, Halved)
    assert_allclose(fitted.predict_proba(2 * logits), softmax(logits, axis=1), rtol=1e-9)


@pytest.mark.parametrize("name", CALIBRATOR_NAMES)
def test_every_name_is_a_candidate(name):
    logits, y = draw(120, 3)
    fitted = AutoCalibration([name], input="logits").fit(logits, y)
    assert isinstance(fitted.calibrator_, type(make_calibrator(name)))


@pytest.mark.parametrize("name", LOCAL_CALIBRATOR_NAMES)
def test_candidates_cannot_be_told_features(name):
    logits, y = draw(120, 3)
    with pytest.raises(TypeError, match="needs features beside the scores"):
        AutoCalibration([name], input="logits").fit(logits, y)


def test_candidates_that_are_none():
    from sklearn.linear_model import LogisticRegression

    given = [0.2, 0.8, 0.6], [0, 1, 1]
    with pytest.raises(ValueError, match=r"candidates is empty; name at least one"):
        AutoCalibration([]).fit(*given)
    with pytest.raises(ValueError, match=r"Unknown calibrator 'temprature'.*'temperature'"):
        AutoCalibration(["temprature"]).fit(*given)
    with pytest.raises(TypeError, match=r"got LogisticRegression\(\)\. Derive it"):
        AutoCalibration([LogisticRegression()]).fit(*given)
    with pytest.raises(TypeError, match="a name or an instance"):
        AutoCalibration([TemperatureScaling]).fit(*given)
    with pytest.raises(ValueError, match="'candidates' parameter of AutoCalibration"):
        AutoCalibration("temperature").fit(*given)
    with pytest.raises(ValueError, match="'cv' parameter of AutoCalibration"):
        AutoCalibration(cv=1).fit(*given)
    # A candidate's own parameters are checked as if it were fitted by itself.
    with pytest.raises(ValueError, match="'shrinkage' parameter of TemperatureScaling"):
        AutoCalibration(["identity", TemperatureScaling(shrinkage=-1)]).fit(*given)


# --- Dirichlet's choice of its strengths -------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_dirichlet_takes_the_strengths_with_the_least_loss(weighted):
    logits, y = draw(150, 3)
    logits = logits @ (np.eye(3) + 0.3)
    weights = np.random.default_rng(1).exponential(size=150) if weighted else np.ones(150)
    strengths, shifts = [1e-4, 1e-2, 1.0, "auto"], [1e-3, 1.0]
    fitted = DirichletCalibration(reg_lambda=strengths, reg_mu=shifts, cv=4, input="logits")
    fitted.fit(logits, y, weights)
    folds = deal_folds(log_softmax(logits, axis=1), y, 4)
    pairs = [(one, other) for one in strengths for other in shifts]
    means = [
        np.average(
            losses_by_hand(
                DirichletCalibration(reg_lambda=one, reg_mu=other), logits, y, weights, folds
            ),
            weights=weights,
        )
        for one, other in pairs
    ]
    results = fitted.cv_results_
    assert list(zip(results["reg_lambda"], results["reg_mu"], strict=True)) == pairs
    assert_allclose(results["mean_log_loss"], means, rtol=1e-5)
    assert (fitted.reg_lambda_, fitted.reg_mu_) == pairs[int(np.argmin(means))]
    alone = DirichletCalibration(
        reg_lambda=fitted.reg_lambda_, reg_mu=fitted.reg_mu_, input="logits"
    ).fit(logits, y, weights)
    assert_allclose(fitted.predict_proba(logits), alone.predict_proba(logits), rtol=1e-9)
    assert not hasattr(alone, "cv_results_")


def test_dirichlet_with_one_list_and_another_fit():
    logits, y = draw(150, 3)
    calibrator = DirichletCalibration(reg_mu=[0.1, 1.0], input="logits").fit(logits, y)
    assert calibrator.reg_lambda_ == "auto"
    assert calibrator.reg_mu_ in (0.1, 1.0)
    assert calibrator.cv_results_["reg_lambda"].tolist() == ["auto", "auto"]
    calibrator.set_params(reg_mu="auto").fit(logits, y)
    assert not hasattr(calibrator, "cv_results_")


@pytest.mark.parametrize("n", [1, 2, 4])
def test_dirichlet_chooses_on_few_rows(n):
    logits, y = draw(n, 3)
    fitted = DirichletCalibration(reg_lambda=[0.1, 1.0], input="logits")
    fitted.fit(logits, y, classes=[0, 1, 2])
    if n == 1:  # which decides nothing: the first
        assert fitted.reg_lambda_ == 0.1


def test_dirichlet_refuses_lists_that_are_none():
    given = softmax(draw(30, 3)[0], axis=1), draw(30, 3)[1]
    with pytest.raises(ValueError, match="list of strengths is empty; give one value at least"):
        DirichletCalibration(reg_lambda=[]).fit(*given)
    with pytest.raises(ValueError, match=r"'reg_lambda' parameter of DirichletCalibration.*-1"):
        DirichletCalibration(reg_lambda=[0.1, -1.0]).fit(*given)
    with pytest.raises(ValueError, match=r"'reg_mu' parameter of DirichletCalibration.*'none'"):
        DirichletCalibration(reg_mu=["auto", "none"]).fit(*given)


# --- Names -------------------------------------------------------------------------------------


def test_names_make_what_they_say():
    names = CALIBRATOR_NAMES + LOCAL_CALIBRATOR_NAMES
    made = {name: make_calibrator(name) for name in names}
    assert made["svs"].structure == "vector"
    assert made["sms"].structure == "matrix"
    named = {"sms": "StructuredMatrixScaling", "svs": "StructuredMatrixScaling"}
    named |= {"ets": "EnsembleTemperatureScaling", "sigmoid": "PlattScaling"}
    named |= {"lcn": "LocalCalibrationNetwork"}
    for name, calibrator in made.items():
        words = named.get(name, name.replace("_", "")).lower()
        assert type(calibrator).__name__.lower().startswith(words)
        assert calibrator.get_params() == clone(calibrator).get_params()
        assert make_calibrator(name) is not calibrator
    # Apart from those that need more than a name.
    kinds = {type(calibrator).__name__ for calibrator in made.values()}
    import skcal.calibration

    others = set(skcal.calibration.__all__) - kinds
    assert others == {
        "CALIBRATOR_NAMES",
        "LOCAL_CALIBRATOR_NAMES",
        "BaseCalibrator",
        "LocalCalibrator",
        "OneVsRestCalibration",
        "PriorCorrection",
        "make_calibrator",
    }


def test_an_instance_is_copied():
    mine = IsotonicCalibration(centered=True).fit([0.2, 0.8], [0, 1])
    made = make_calibrator(mine)
    assert made is not mine
    assert made.centered
    assert not hasattr(made, "maps_")


@pytest.mark.parametrize(
    ("name", "near"), [("temprature", "temperature"), ("isotonc", "isotonic"), ("betta", "beta")]
)
def test_an_unknown_name_is_told_the_nearest(name, near):
    with pytest.raises(ValueError, match=f"Unknown calibrator '{name}'.*Did you mean '{near}'"):
        make_calibrator(name)


def test_a_name_that_is_near_none():
    with pytest.raises(ValueError, match="the names are") as error:
        make_calibrator("xyzzy")
    assert "Did you mean" not in str(error.value)
    for name in CALIBRATOR_NAMES + LOCAL_CALIBRATOR_NAMES:
        assert repr(name) in str(error.value)
