"""The suite for calibrators: it lets good ones pass, and each check catches some fault."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skcal.calibration import BaseCalibrator, IdentityCalibration, TemperatureScaling
from skcal.testing import calibrator_checks, check_calibrator

CHECKS = {check.__name__: check for check in calibrator_checks()}


# --- Good calibrators ------------------------------------------------------------------------


class BaseRateMixing(BaseCalibrator):
    """A user's own map: mix each row with the shares of the classes."""

    def _fit(self, log_proba, codes, weights):
        k = log_proba.shape[1]
        self.shares_ = (np.bincount(codes, weights, minlength=k) + 1) / (weights.sum() + k)
        own = np.exp(log_proba[np.arange(len(codes)), codes])
        gap = self.shares_[codes] - own

        def gain(mix):
            return weights @ (gap / (own + mix * gap))

        low, high = 1e-12, 1 - 1e-12
        if gain(low) <= 0 or gain(high) >= 0:
            self.mix_ = low if gain(low) <= 0 else high
        else:
            self.mix_ = brentq(gain, low, high, xtol=1e-14)

    def _transform(self, log_proba):
        return np.logaddexp(np.log1p(-self.mix_) + log_proba, np.log(self.mix_ * self.shares_))


LIMITS = {
    "check_logits_of_any_size": "mixing cannot make a row surer",
    "check_one_hot_rows": "mixing cannot make a row surer",
}


class Wrapped(BaseEstimator):
    """A calibrator by its methods only, for probabilities only."""

    def __init__(self, strength=10.0):
        self.strength = strength

    def fit(self, scores, y, sample_weight=None, *, classes=None):
        scaling = TemperatureScaling(shrinkage=self.strength)
        self.scaling_ = scaling.fit(scores, y, sample_weight, classes=classes)
        self.classes_ = scaling.classes_
        return self

    def predict_proba(self, scores):
        check_is_fitted(self)
        return self.scaling_.predict_proba(scores)


def outcomes(results, status):
    return {result["check_name"] for result in results if result["status"] == status}


def test_a_users_own_subclass_passes():
    results = check_calibrator(BaseRateMixing(), expected_failed_checks=LIMITS)
    assert [result["check_name"] for result in results] == list(CHECKS)
    assert outcomes(results, "xfail") == set(LIMITS)
    assert outcomes(results, "passed") == set(CHECKS) - set(LIMITS)
    by_name = {result["check_name"]: result for result in results}
    failed = by_name["check_one_hot_rows"]
    assert failed["reason"] == "mixing cannot make a row surer"
    assert isinstance(failed["exception"], AssertionError)
    passed = by_name["check_single_class"]
    assert passed["exception"] is None
    assert passed["reason"] is None


def test_a_calibrator_by_its_methods_is_asked_about_probabilities_only():
    results = check_calibrator(Wrapped())
    assert outcomes(results, "skipped") == {
        "check_dict_keeps_the_answers",
        "check_logits_agree_with_their_softmax",
        "check_logits_of_any_size",
        "check_reported_values",
        "check_scores_are_what_is_declared",
        "check_spellings_of_two_logits",
    }
    assert outcomes(results, "passed") | outcomes(results, "skipped") == set(CHECKS)
    reasons = {result["check_name"]: result["reason"] for result in results}
    assert reasons["check_logits_of_any_size"] == "Wrapped has no parameter input: no logits"


# --- Broken ones -----------------------------------------------------------------------------


class Broken(TemperatureScaling):
    """Temperature scaling with one fault, put in at one of three places."""

    def taken(self, scores, y, sample_weight, classes):
        return scores, y, sample_weight, classes

    def learned(self):
        pass

    def answered(self, proba, scores):
        return proba

    def fit(self, scores, y, sample_weight=None, *, classes=None):
        scores, y, sample_weight, classes = self.taken(scores, y, sample_weight, classes)
        super().fit(scores, y, sample_weight, classes=classes)
        self.learned()
        return self

    def predict_proba(self, scores):
        scores = self.taken(scores, None, None, None)[0]
        return self.answered(super().predict_proba(scores), scores)


class BrokenPickle(TemperatureScaling):
    def __getstate__(self):
        return {**super().__getstate__(), "temperature_": round(self.temperature_, 3)}


class BrokenDict(TemperatureScaling):
    def to_dict(self):
        written = super().to_dict()
        written["fitted"]["temperature_"] = round(self.temperature_, 3)
        return written


class BrokenMemory(TemperatureScaling):
    def _fit(self, log_proba, codes, weights):
        before = getattr(self, "temperature_", 1.0)
        super()._fit(log_proba, codes, weights)
        self.temperature_ = (self.temperature_ + before) / 2


class BrokenZeros(TemperatureScaling):
    def _transform(self, log_proba):
        return super()._transform(log_proba) * np.where(log_proba < -80, 40, 1)


def scores_(change):
    """Change what is read as scores, in fit and predict_proba."""

    def taken(self, scores, y, sample_weight, classes):
        return change(self, scores), y, sample_weight, classes

    return type("Broken", (Broken,), {"taken": taken})


def rows_(change):
    """Change labels, weights and classes, in fit."""

    def taken(self, scores, y, sample_weight, classes):
        return (
            (scores, y, sample_weight, classes)
            if y is None
            else change(scores, y, sample_weight, classes)
        )

    return type("Broken", (Broken,), {"taken": taken})


def learned(change):
    return type("Broken", (Broken,), {"learned": change})


def answered(change):
    return type("Broken", (Broken,), {"answered": change})


def set_temperature(value):
    return learned(lambda self: setattr(self, "temperature_", value(self)))


def as_proba(values):
    """Read rows as logits if they do not sum to one, as some libraries do."""
    values = np.asarray(values)
    proper = np.isclose(values.sum(axis=-1), 1).all() and values.min() >= 0
    return values if values.ndim < 2 or proper else softmax(values.astype(float), axis=1)


def rescaled(values):
    values = np.asarray(values)
    return values / values.sum(axis=1, keepdims=True) if values.ndim == 2 else values


def by_index(values):
    return values.sort_index() if isinstance(values, pd.Series | pd.DataFrame) else values


def write(self, scores):
    if isinstance(scores, np.ndarray) and scores.flags.writeable:
        scores[0] = scores[1]
    return scores


def without_a_wordy_label(scores, y, sample_weight, classes):
    keep = np.isin(y, y if classes is None else classes)
    return np.asarray(scores)[keep], np.asarray(y)[keep], sample_weight, classes


def silence(self, proba, scores):
    warnings.filterwarnings("ignore")
    return proba


def first_class_up(self, proba, scores):
    proba = proba * np.r_[1.2, np.ones(proba.shape[1] - 1)]
    return proba / proba.sum(axis=1, keepdims=True)


def toward_the_mean(self, proba, scores):
    return (proba + proba.mean(axis=0)) / 2


def only_column(self, proba, scores):
    return proba[:, :1] if min(proba.mean(axis=0)) < 0.3 else proba


def coarse(self, proba, scores):
    proba = (proba > 0.2) + 0.1
    return proba / proba.sum(axis=1, keepdims=True)


def squeezed(self, scores):
    return np.tanh(np.asarray(scores)) if self.input == "logits" else scores


def doubled_single_column(self, scores):
    scores = np.asarray(scores)
    return np.arctan(scores) if self.input == "logits" and scores.ndim == 1 else scores


def guessed(self, scores):
    within = self.input == "logits" and np.min(scores) >= 0 and np.max(scores) <= 1
    return np.log(scores) if within else scores


BROKEN = {
    "check_clone_is_unfitted": set_temperature(lambda self: self.temperature_ + random.random()),
    "check_parameters_can_be_set": learned(lambda self: setattr(self, "eps", 1e-9)),
    "check_pickle_keeps_the_answers": BrokenPickle,
    "check_dict_keeps_the_answers": BrokenDict,
    "check_second_fit_forgets_the_first": BrokenMemory,
    "check_answers_do_not_depend_on_the_batch": answered(toward_the_mean),
    "check_reported_values": learned(lambda self: setattr(self, "loss_", 0.5)),
    "check_inputs_are_left_alone": scores_(write),
    "check_process_is_left_alone": answered(silence),
    "check_numbers_of_classes": answered(lambda self, proba, _: proba * 1.00001),
    "check_numbers_of_rows": answered(
        lambda self, proba, _: proba * (np.nan if len(proba) == 12 else 1)
    ),
    "check_missing_class": learned(lambda self: setattr(self, "classes_", [0, 2])),
    "check_single_class": answered(only_column),
    "check_kinds_of_labels": learned(lambda self: setattr(self, "classes_", np.arange(3))),
    "check_containers_of_labels": rows_(lambda s, y, w, c: (s, by_index(y), w, c)),
    "check_declared_order_of_columns": learned(
        lambda self: setattr(self, "classes_", np.sort(self.classes_))
    ),
    "check_number_of_columns_is_enforced": scores_(
        lambda self, s: np.asarray(s)[:, :3] if np.ndim(s) == 2 else s
    ),
    "check_labels_without_a_column_are_refused": rows_(without_a_wordy_label),
    "check_spellings_of_two_classes": answered(
        lambda self, proba, scores: proba[:, ::-1] if np.ndim(scores) == 1 else proba
    ),
    "check_spellings_of_two_logits": scores_(doubled_single_column),
    "check_logits_agree_with_their_softmax": scores_(squeezed),
    "check_scores_are_what_is_declared": scores_(guessed),
    "check_logits_of_any_size": IdentityCalibration,
    "check_containers_of_scores": scores_(lambda self, s: by_index(s)),
    "check_float32_and_float16": scores_(
        lambda self, s: np.full_like(s, 1 / 3) if getattr(s, "dtype", 0) == np.float32 else s
    ),
    "check_float32_rows_of_100_classes": answered(lambda self, proba, _: proba.astype(np.float32)),
    "check_rows_that_miss_one_are_refused": scores_(lambda self, s: as_proba(s)),
    "check_rows_that_miss_one_by_rounding_are_rescaled": scores_(lambda self, s: as_proba(s)),
    "check_one_row_off_leaves_the_others": scores_(lambda self, s: as_proba(s)),
    "check_scores_that_are_not_finite_are_refused": scores_(
        lambda self, s: rescaled(np.nan_to_num(s, nan=0.5, posinf=1, neginf=0))
    ),
    "check_logits_given_as_probabilities_are_refused": scores_(
        lambda self, s: rescaled(np.clip(s, 0, 1))
    ),
    "check_shapes_that_are_no_scores_are_refused": scores_(
        lambda self, s: s.toarray() if hasattr(s, "toarray") else s
    ),
    "check_weights_equal_repetition": rows_(lambda s, y, w, c: (s, y, None, c)),
    "check_weight_zero_equals_absence": rows_(
        lambda s, y, w, c: (s, y, w if w is None else np.maximum(w, 1e-6), c)
    ),
    "check_class_without_weight": answered(lambda self, proba, _: proba[:, ::2]),
    "check_containers_of_weights": rows_(lambda s, y, w, c: (s, y, by_index(w), c)),
    "check_senseless_weights_are_refused": rows_(lambda s, y, w, c: (s, y, np.abs(w), c)),
    "check_overconfident_scores_are_mended": IdentityCalibration,
    "check_calibrated_scores_keep_their_loss": set_temperature(lambda self: 0.7),
    "check_calibrated_scores_stay_as_they_are": set_temperature(lambda self: 0.7),
    "check_own_rows_are_not_made_worse": set_temperature(lambda self: 0.99),
    "check_saturated_scores_do_not_diverge": set_temperature(lambda self: -self.temperature_),
    "check_ranking_of_two_classes_is_kept": answered(coarse),
    "check_one_hot_rows": IdentityCalibration,
    "check_votes_with_zeros": type(
        "Broken", (TemperatureScaling,), {"eps": property(lambda s: 1e-30, lambda s, v: None)}
    ),
    "check_separable_rows": set_temperature(lambda self: self.temperature_ / 100),
    "check_separable_rows_keep_their_class": set_temperature(lambda self: -self.temperature_),
    "check_zeros_and_ones_unseen_in_fit": answered(lambda self, proba, _: proba.round(12)),
    "check_scores_that_say_nothing": answered(first_class_up),
    "check_permuted_classes": answered(first_class_up),
}


def test_every_check_has_something_to_catch():
    assert BROKEN.keys() == CHECKS.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_catches_its_fault(name):
    CHECKS[name](TemperatureScaling())
    with pytest.raises(AssertionError):
        CHECKS[name](BROKEN[name]())


def test_what_cannot_be_cloned_fails_first():
    class Renamed(TemperatureScaling):
        def __init__(self, *, shrinkage=1.0):
            super().__init__(shrinkage=2 * shrinkage)

    with pytest.raises(RuntimeError, match="Cannot clone") as caught:
        check_calibrator(Renamed())
    assert "check_clone_is_unfitted failed for Renamed" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="get_params"):
        check_calibrator(object())


def test_a_class_that_no_module_holds_is_not_pickled():
    class Local(TemperatureScaling):
        pass

    results = check_calibrator(Local(), on_fail=None)
    assert outcomes(results, "skipped") == {"check_pickle_keeps_the_answers"}


# --- Expected failures -----------------------------------------------------------------------


def test_the_first_failure_is_raised_with_the_name_of_its_check():
    broken = BROKEN["check_weights_equal_repetition"]()
    with pytest.raises(AssertionError, match="weights and repeated rows") as caught:
        check_calibrator(broken, expected_failed_checks={"check_reported_values": "no weights"})
    assert caught.value.__notes__ == [f"check_weights_equal_repetition failed for {broken!r}."]


def test_all_failures_are_returned_on_request():
    results = check_calibrator(IdentityCalibration(), on_fail=None)
    assert outcomes(results, "failed") == {
        "check_logits_of_any_size",
        "check_overconfident_scores_are_mended",
        "check_one_hot_rows",
    }
    assert len(results) == len(CHECKS)


def test_an_expected_failure_that_passes_is_a_failure():
    expected = {"check_clone_is_unfitted": "not written yet"}
    with pytest.raises(AssertionError, match=r"to fail \(not written yet\), and passes"):
        check_calibrator(TemperatureScaling(), expected_failed_checks=expected)
    results = check_calibrator(TemperatureScaling(), expected_failed_checks=expected, on_fail=None)
    assert outcomes(results, "failed") == {"check_clone_is_unfitted"}


def test_unknown_names_and_classes_are_refused():
    with pytest.raises(ValueError, match="no check 'check_weights'"):
        check_calibrator(TemperatureScaling(), expected_failed_checks={"check_weights": "why"})
    with pytest.raises(ValueError, match="Did you mean 'check_single_class'"):
        check_calibrator(TemperatureScaling(), expected_failed_checks={"check_single_clas": "?"})
    with pytest.raises(TypeError, match=r"Pass an instance: TemperatureScaling\(\)"):
        check_calibrator(TemperatureScaling)
    with pytest.raises(ValueError, match="on_fail must be 'raise' or None"):
        check_calibrator(TemperatureScaling(), on_fail="warn")


def test_a_changed_process_is_put_back():
    filters = list(warnings.filters)
    results = check_calibrator(BROKEN["check_process_is_left_alone"](), on_fail=None)
    assert outcomes(results, "failed") == {"check_process_is_left_alone"}
    assert warnings.filters == filters
