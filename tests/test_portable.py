"""Fitted calibrators as dictionaries: there and back through JSON, and what is refused."""

import inspect
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import skcal.calibration
from skcal.calibration import (
    AutoCalibration,
    BaseCalibrator,
    BetaCalibration,
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    LocalCalibrator,
    OneVsRestCalibration,
    PlattScaling,
    PriorCorrection,
    TemperatureScaling,
)

CALIBRATORS = [
    found
    for found in (getattr(skcal.calibration, name) for name in skcal.calibration.__all__)
    if isinstance(found, type)
    and issubclass(found, BaseCalibrator)
    and not inspect.isabstract(found)
    # Their own tests write and read these, with features of the rows.
    and not issubclass(found, LocalCalibrator)
]
# Parameters that change what is fitted, apart from the defaults.
VARIANTS = [
    AutoCalibration(["temperature", BetaCalibration(), IsotonicCalibration(centered=True)], cv=3),
    AutoCalibration(("isotonic",)),
    BetaCalibration(parameters="ab", shrinkage=0.5),
    DirichletCalibration(reg_lambda=["auto", 0.1], reg_mu=[1.0]),
    DirichletCalibration(penalty="diagonal"),
    HistogramBinning(n_bins=4, strategy="uniform"),
    IsotonicCalibration(centered=True, shrinkage=0),
    OneVsRestCalibration(HistogramBinning(n_bins=5), normalize="softmax"),
    OneVsRestCalibration(AutoCalibration(["sigmoid", "isotonic"], cv=2)),
    TemperatureScaling(bounds=(0.5, 5.0), shrinkage=1),
]


def draw(n, k, *, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=(n, k))
    true = softmax(logits / 2, axis=1)
    y = (true.cumsum(axis=1) < np.random.default_rng(seed + 1).random((n, 1))).sum(axis=1)
    return softmax(logits, axis=1), y.clip(max=k - 1)


def through_json(calibrator, cls=None):
    """Return what is read from what is written."""
    text = json.dumps(calibrator.to_dict(), allow_nan=False)
    return (cls or type(calibrator)).from_dict(json.loads(text))


def labelled(kind, k):
    return {
        "integers": np.arange(k) * 3 - 2,
        "strings": np.array(["no", "yes", "perhaps"])[:k],
        "booleans": np.array([False, True]),
    }[kind]


@pytest.fixture(params=[*(found() for found in CALIBRATORS), *VARIANTS], ids=repr)
def calibrator(request):
    return clone(request.param)


# --- There and back ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "k"),
    [("integers", 2), ("strings", 2), ("booleans", 2), ("integers", 3), ("strings", 3)],
)
@pytest.mark.parametrize("missing", [False, True])
def test_the_answers_are_the_same_to_the_last_bit(calibrator, kind, k, missing):
    proba, y = draw(120, k)
    fresh, _ = draw(50, k, seed=7)
    if missing:  # the last class
        proba, y = proba[y < k - 1], y[y < k - 1]
    classes = labelled(kind, k)
    calibrator.fit(proba, classes[y], classes=classes)
    again = through_json(calibrator)
    assert type(again) is type(calibrator)
    assert_array_equal(again.predict_proba(fresh), calibrator.predict_proba(fresh))
    predicted = again.predict(fresh)
    assert_array_equal(predicted, calibrator.predict(fresh))
    assert predicted.dtype.kind == classes.dtype.kind
    assert vars(again).keys() == vars(calibrator).keys()
    assert repr(again) == repr(calibrator).replace("('isotonic',)", "['isotonic']")
    if hasattr(calibrator, "predict_interval"):
        assert_array_equal(again.predict_interval(fresh), calibrator.predict_interval(fresh))
    # What is read can be written, cloned and fitted again.
    assert again.to_dict() == calibrator.to_dict()
    refitted = clone(again).fit(proba, classes[y], classes=classes)
    assert_array_equal(refitted.predict_proba(fresh), calibrator.predict_proba(fresh))


def test_parameters_come_back_as_they_were(calibrator):
    calibrator.fit(*draw(60, 3), classes=[0, 1, 2])
    again = through_json(calibrator).get_params(deep=False)
    for name, value in calibrator.get_params(deep=False).items():
        if isinstance(value, list):
            assert [repr(one) for one in again[name]] == [repr(one) for one in value]
        elif isinstance(value, BaseCalibrator):
            assert repr(again[name]) == repr(value)
        elif name == "candidates" and value is not None:
            assert again[name] == list(value)  # for which either will do
        else:
            assert again[name] == value
            assert type(again[name]) is type(value)


def test_logits_of_any_size_and_one_column():
    odds = np.r_[-300.0, -2, -1, 0, 1, 2, 300]
    fitted = PlattScaling(input="logits").fit(odds, [0, 0, 1, 0, 1, 1, 1])
    assert_array_equal(through_json(fitted).predict_proba(odds), fitted.predict_proba(odds))


@pytest.mark.parametrize(
    ("labels", "prior"),
    [
        (["no", "yes"], {"no": 0.9, "yes": 0.1}),
        ([0, 1], {0: 0.9, 1: 0.1}),
        ([False, True], {False: 0.9, True: 0.1}),
        ([0, 1], {np.int64(0): np.float64(0.9), np.int64(1): 0.1}),
        ([3, 4], [0.9, 0.1]),
        ([3, 4], np.array([0.9, 0.1])),
    ],
)
def test_priors_of_any_form(labels, prior):
    fitted = PriorCorrection(prior).fit([0.4, 0.6], labels)
    again = through_json(fitted)
    assert_array_equal(again.predict_proba([0.3]), fitted.predict_proba([0.3]))
    assert_array_equal(
        again.fit([0.4, 0.6], labels).predict_proba([0.5]), fitted.predict_proba([0.5])
    )
    if isinstance(prior, dict):
        assert again.target_prior == prior
        assert {type(key) for key in again.target_prior} <= {str, int, bool}
    else:
        assert again.target_prior == [0.9, 0.1]


def test_the_layout():
    fitted = TemperatureScaling().fit(*draw(60, 2))
    written = fitted.to_dict()
    assert written.keys() == {"calibrator", "format", "parameters", "fitted"}
    assert written["calibrator"] == "TemperatureScaling"
    assert written["format"] == 1
    assert written["parameters"] == {
        "bounds": [1e-7, 1e7],
        "eps": "auto",
        "input": "proba",
        "shrinkage": 1.0,
    }
    assert written["fitted"]["temperature_"] == fitted.temperature_
    assert written["fitted"]["classes_"] == [0, 1]


def test_the_class_is_found_by_name():
    fitted = BetaCalibration().fit(*draw(60, 2))
    for cls in (BaseCalibrator, BetaCalibration):
        assert type(through_json(fitted, cls)) is BetaCalibration


def test_parameters_that_are_calibrators_may_be_fitted_or_not():
    proba, y = draw(60, 2)
    inner = PlattScaling().fit(proba, y)
    fitted = OneVsRestCalibration(inner).fit(proba, y)
    again = through_json(fitted)
    assert_array_equal(again.calibrator.predict_proba(proba), inner.predict_proba(proba))
    plain = through_json(OneVsRestCalibration(PlattScaling()).fit(proba, y))
    with pytest.raises(NotFittedError):
        plain.calibrator.predict_proba(proba)


# --- A user's own class ------------------------------------------------------------------------


class Shifted(BaseCalibrator):
    """Adds a number that is given to the second of two logits."""

    def __init__(self, by=1.0, *, input="proba", eps="auto"):
        super().__init__(input=input, eps=eps)
        self.by = by

    def _fit(self, log_proba, codes, weights):
        self.shift_ = np.array([0.0, self.by])
        self.notes_ = {"rows": len(codes), "words": ["a", None, 0.5]}

    def _transform(self, log_proba):
        return log_proba + self.shift_


def test_a_class_of_the_users_own_reads_its_own():
    proba, y = draw(60, 2)
    fitted = Shifted(by=0.3).fit(proba, y)
    again = through_json(fitted)
    assert type(again) is Shifted
    assert_array_equal(again.predict_proba(proba), fitted.predict_proba(proba))
    assert again.notes_["rows"] == 60
    assert list(again.notes_["words"]) == ["a", None, 0.5]
    with pytest.raises(
        ValueError, match=r"'Shifted' is no calibrator of skcal.*call its from_dict"
    ):
        BaseCalibrator.from_dict(fitted.to_dict())


# --- What is refused ---------------------------------------------------------------------------


@pytest.fixture
def written():
    return TemperatureScaling().fit(*draw(60, 2)).to_dict()


def test_nothing_fitted_is_nothing_to_write(calibrator):
    with pytest.raises(NotFittedError):
        calibrator.to_dict()


@pytest.mark.parametrize("wrong", [None, "{}", [1, 2], 3])
def test_what_is_no_dictionary(wrong):
    with pytest.raises(
        ValueError, match="dictionary as written by to_dict.* got " + type(wrong).__name__
    ):
        BaseCalibrator.from_dict(wrong)


@pytest.mark.parametrize("part", ["calibrator", "format", "parameters", "fitted"])
def test_a_part_that_is_missing_or_wrong(written, part):
    good = written.pop(part)
    with pytest.raises(ValueError, match="Expected a dictionary as written by to_dict"):
        BaseCalibrator.from_dict(written)
    written[part] = [good]
    with pytest.raises(ValueError, match="Expected a dictionary as written by to_dict"):
        BaseCalibrator.from_dict(written)


def test_a_newer_format(written):
    written["format"] = 2
    with pytest.raises(
        ValueError, match=r"has format 2, and this version .* reads up to 1; update"
    ):
        BaseCalibrator.from_dict(written)


@pytest.mark.parametrize(
    "name",
    [
        "NoSuchScaling",
        "make_calibrator",
        "CALIBRATOR_NAMES",
        "BaseCalibrator",
        "Portable",
        "LogisticRegression",
        "__class__",
        "os.system",
        "sklearn.linear_model.LogisticRegression",
    ],
)
def test_a_class_that_is_no_calibrator(written, name):
    written["calibrator"] = name
    with pytest.raises(ValueError, match=f"'{name}' is no calibrator of skcal"):
        BaseCalibrator.from_dict(written)


def test_another_class_than_it_is_called_on(written):
    with pytest.raises(ValueError, match="holds a TemperatureScaling, not a PlattScaling"):
        PlattScaling.from_dict(written)


def test_an_unknown_parameter(written):
    written["parameters"]["strength"] = 1.0
    with pytest.raises(ValueError, match=r"no parameter 'strength'; it has \['bounds', 'eps'"):
        BaseCalibrator.from_dict(written)


@pytest.mark.parametrize(
    "name", ["__class__", "fit", "_transform", "predict_proba", "_fit_", "__dict__", ""]
)
def test_names_that_are_no_fitted_attributes(written, name):
    written["fitted"][name] = 1.0
    with pytest.raises(ValueError, match=f"'{name}' is not the name of a fitted attribute"):
        BaseCalibrator.from_dict(written)


def test_a_parameter_of_a_wrong_type_is_refused(written):
    written["parameters"]["shrinkage"] = "much"
    with pytest.raises(ValueError, match="'shrinkage' parameter of TemperatureScaling must be"):
        BaseCalibrator.from_dict(written)


@pytest.mark.parametrize(
    "damage",
    [
        {"n_features_in_": 3},
        {"classes_": ["one"]},
        {"temperature_": float("nan")},
        {"temperature_": [1.0, float("inf")]},
    ],
)
def test_damaged_attributes_are_refused(written, damage):
    written["fitted"] |= damage
    with pytest.raises(ValueError, match="damaged: TemperatureScaling needs finite numbers"):
        BaseCalibrator.from_dict(written)


def test_a_lone_attribute_is_no_map(written):
    written["fitted"] = {"loss_": 1.0}
    with pytest.raises(ValueError, match="as many classes as columns"):
        BaseCalibrator.from_dict(written)
    written["format"] = 0
    with pytest.raises(ValueError, match="no format 0"):
        BaseCalibrator.from_dict(written)


def test_text_is_never_executed(written):
    # Whatever stands for a number stays text.
    written["fitted"]["classes_"] = ["__import__('os').abort()", "exit()"]
    read = BaseCalibrator.from_dict(json.loads(json.dumps(written)))
    assert read.classes_.tolist() == ["__import__('os').abort()", "exit()"]
    inner = {"calibrator": "os.abort", "format": 1, "parameters": {}, "fitted": {}}
    written["fitted"]["calibrator_"] = inner
    with pytest.raises(ValueError, match=r"'os\.abort' is no calibrator"):
        BaseCalibrator.from_dict(written)


class Foreign:
    """A binary calibrator of another library."""

    def fit(self, p, y, sample_weight=None):
        return self

    def predict_proba(self, p):
        return np.column_stack([1 - p, p])


def test_a_foreign_calibrator_cannot_be_written():
    proba, y = draw(60, 3)
    fitted = OneVsRestCalibration(Foreign()).fit(proba, y)
    assert_allclose(fitted.predict_proba(proba), proba, rtol=1e-9)
    with pytest.raises(TypeError, match="calibrator is a Foreign, which plain JSON cannot hold"):
        fitted.to_dict()
