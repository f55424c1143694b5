"""Pictures of calibration maps: what is drawn is what the calibrators answer."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skcal import CalibratedClassifier
from skcal.calibration import (
    IdentityCalibration,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
)
from skcal.plots import CalibrationMapDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def predictions(n_classes, n=600):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, n_classes)) * 1.5
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(2 * logits)
    return y, sharp / sharp.sum(axis=1, keepdims=True)


def fit(calibrator, n_classes):
    y, proba = predictions(n_classes)
    scores = np.log(proba) if calibrator.input == "logits" else proba
    return calibrator.fit(scores, y, classes=np.arange(n_classes))


def tempered(p, temperature):
    powers = p ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


# --- Two classes -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["proba", "logits"])
def test_curve_of_two_classes_is_the_formula(kind):
    calibrator = fit(TemperatureScaling(input=kind), 2)
    display = CalibrationMapDisplay.from_calibrator(calibrator, n_points=11)
    x, y = display.lines_[0].get_data()
    np.testing.assert_allclose(x, np.arange(11) / 10, atol=1e-12)
    expected = tempered(np.column_stack([1 - x, x]), calibrator.temperature_)[:, 1]
    np.testing.assert_allclose(y, expected, atol=1e-9)
    assert display.ax_.get_xlabel() == "Probability of class 1 before calibration"
    assert (display.band_, display.arrows_) == (None, None)


def test_several_maps_lie_over_each_other():
    one = CalibrationMapDisplay.from_calibrator(fit(TemperatureScaling(), 2))
    two = CalibrationMapDisplay.from_calibrator(fit(IdentityCalibration(), 2), ax=one.ax_)
    assert two.ax_ is one.ax_
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(one.lines_[0], look)() != getattr(two.lines_[0], look)()
    texts = [text.get_text() for text in one.ax_.get_legend().get_texts()]
    assert texts == ["No calibration", "TemperatureScaling", "IdentityCalibration"]
    np.testing.assert_allclose(*two.lines_[0].get_data(), atol=1e-9)


def test_interval_is_a_band():
    calibrator = fit(VennAbersCalibration(), 2)
    display = CalibrationMapDisplay.from_calibrator(calibrator, n_points=21)
    expected = calibrator.predict_interval(np.linspace(0, 1, 21))[:, 1]
    np.testing.assert_array_equal(display.interval[0], expected)
    corners = display.band_.get_paths()[0].vertices
    for x, (low, high) in zip(np.linspace(0, 1, 21)[1:-1], expected[1:-1], strict=True):
        at = corners[np.isclose(corners[:, 0], x), 1]
        assert (at.min(), at.max()) == (low, high)


# --- More classes ------------------------------------------------------------------------


def test_arrows_on_the_simplex_are_the_formula():
    calibrator = fit(TemperatureScaling(), 3)
    display = CalibrationMapDisplay.from_calibrator(calibrator)
    assert display.lines_ == []
    before, arrows = display.before, display.arrows_
    np.testing.assert_allclose(before.sum(axis=1), 1)
    assert before.min() > 0
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
    # Back from the plane to probabilities: the weights of the corners.
    plane = np.vstack([corners.T, np.ones(3)])
    start = np.linalg.solve(plane, np.vstack([arrows.get_offsets().T, np.ones(arrows.N)])).T
    move = np.column_stack([arrows.U, arrows.V])
    np.testing.assert_allclose(
        move, (tempered(start, calibrator.temperature_) - start) @ corners, atol=1e-9
    )
    assert 50 < arrows.N < 200
    np.testing.assert_allclose(start[:, 2].max(), start[:, 0].max())
    words = [text.get_text() for text in display.ax_.texts]
    assert words == ["0", "1", "2"]


def test_a_map_that_moves_nothing_is_white():
    display = CalibrationMapDisplay.from_calibrator(fit(IdentityCalibration(), 3))
    np.testing.assert_allclose(display.after, display.before, atol=1e-12)
    display.figure_.draw_without_rendering()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_few_classes_have_a_curve_each(n_classes):
    calibrator = fit(VectorScaling(), n_classes)
    base = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    display = CalibrationMapDisplay.from_calibrator(calibrator, view="curve", n_points=6, base=base)
    assert len(display.lines_) == n_classes
    for k, line in enumerate(display.lines_):
        for t, drawn in zip(*line.get_data(), strict=True):
            p = base * (1 - t) / (1 - base[k])
            p[k] = t
            assert drawn == pytest.approx(calibrator.predict_proba([p])[0, k], abs=1e-12)
        assert line.get_label() == f"VectorScaling: {k}"


@pytest.mark.parametrize("n_classes", [10, 150])
def test_of_many_classes_the_median_the_range_and_the_farthest_are_drawn(n_classes):
    rng = np.random.default_rng(0)
    calibrator = fit(VectorScaling(), n_classes)
    calibrator.intercept_ = rng.normal(size=n_classes)
    calibrator.intercept_[7] = 5.0
    display = CalibrationMapDisplay.from_calibrator(calibrator, n_points=11)
    middle = np.median(display.after, axis=0)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), middle)
    assert display.lines_[0].get_label() == f"VectorScaling: median of {n_classes} classes"
    assert display.lines_[1].get_label() == "VectorScaling: 7"
    assert len(display.lines_) == 4
    drawn = display.band_.get_paths()[0].vertices
    at = drawn[np.isclose(drawn[:, 0], 0.5), 1]
    assert (at.min(), at.max()) == (display.after[:, 5].min(), display.after[:, 5].max())


def test_classes_that_are_treated_alike_have_one_curve():
    display = CalibrationMapDisplay.from_calibrator(fit(TemperatureScaling(), 10))
    assert len(display.lines_) == 1
    two = CalibrationMapDisplay.from_calibrator(fit(VectorScaling(), 10), ax=display.ax_)
    texts = [text.get_text() for text in two.ax_.get_legend().get_texts()]
    assert texts.count("Lowest to highest class") == 1


# --- Classifiers -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X = np.hstack([X, X])
    y = np.array(["no", "yes"])[(X[:, 0] + rng.normal(size=300) > 0).astype(int)]
    return X, y


@pytest.mark.parametrize("pooling", ["proba", "logit"])
def test_folds_are_thin_lines_behind_their_pool(table, pooling):
    model = CalibratedClassifier(GaussianNB(), cv=3, pooling=pooling).fit(*table)
    display = CalibrationMapDisplay.from_estimator(model, n_points=5)
    x = np.linspace(0, 1, 5)
    folds = [
        tempered(np.column_stack([1 - x, x]), pair.calibrator.temperature_)
        for pair in model.calibrated_classifiers_
    ]
    np.testing.assert_allclose(display.members[:, 0], [fold[:, 1] for fold in folds], atol=1e-9)
    if pooling == "proba":
        pool = np.mean(folds, axis=0)
    else:
        with np.errstate(divide="ignore"):
            pool = np.exp(np.mean(np.log(folds), axis=0))
        pool /= pool.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), pool[:, 1], atol=1e-9)
    thin = [line for line in display.ax_.lines if line.get_linewidth() < 1]
    assert len(thin) == 3
    assert display.ax_.get_xlabel() == "Probability of class 'yes' before calibration"


def test_a_single_map_of_logits(table):
    frozen = FrozenEstimator(LogisticRegression().fit(*table))
    model = CalibratedClassifier(frozen, "sigmoid").fit(*table)
    display = CalibrationMapDisplay.from_estimator(model, name="Platt")
    assert model.calibrated_classifiers_[0].calibrator.input == "logits"
    assert display.members is None
    assert display.lines_[0].get_label() == "Platt"
    # The map through the model's own probabilities is the answer of the whole.
    before, after = (one.predict_proba(table[0])[:, 1] for one in (frozen, model))
    drawn = np.interp(before, *display.lines_[0].get_data())
    np.testing.assert_allclose(drawn, after, atol=1e-3)


def test_unsuitable_estimators(table):
    X, y = table
    with pytest.raises(NotFittedError):
        CalibrationMapDisplay.from_estimator(CalibratedClassifier(GaussianNB()))
    with pytest.raises(NotFittedError):
        CalibrationMapDisplay.from_calibrator(TemperatureScaling())
    for other in (GaussianNB(), CalibratedClassifierCV(GaussianNB())):
        with pytest.raises(TypeError, match=r"is not a skcal\.CalibratedClassifier"):
            CalibrationMapDisplay.from_estimator(other.fit(X, y))
    model = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    model.calibrated_classifiers_[1].calibrator.classes_ = np.array(["no", "perhaps"])
    with pytest.raises(ValueError, match=r"Fold 1 knows the classes \['no', 'perhaps'\]"):
        CalibrationMapDisplay.from_estimator(model)
    assert not plt.get_fignums()


# --- Options and axes --------------------------------------------------------------------


def test_options():
    two, three, four = (fit(TemperatureScaling(), k) for k in (2, 3, 4))
    draw = CalibrationMapDisplay.from_calibrator
    with pytest.raises(ValueError, match="three classes, and this map has 4; use view='curve'"):
        draw(four, view="simplex")
    with pytest.raises(ValueError, match="view must be"):
        draw(two, view="line")
    for wrong in (1, 3.0, True):
        with pytest.raises(ValueError, match="n_points must be a whole number"):
            draw(two, n_points=wrong)
    for wrong in ([0.5, 0.5], [0, 0.5, 0.5], 0.3, [[0.2, 0.3, 0.5]]):
        with pytest.raises(ValueError, match="base must hold a positive probability"):
            draw(three, view="curve", base=wrong)
    with pytest.raises(ValueError, match="sum to 1"):
        draw(three, base=[0.5, 0.5, 0.5])
    with pytest.raises(TypeError, match="StandIn has no classes_; a calibration map"):
        draw(type("StandIn", (GaussianNB,), {"__sklearn_is_fitted__": lambda self: True})())
    assert not plt.get_fignums()


def test_axes():
    two, three = fit(TemperatureScaling(), 2), fit(TemperatureScaling(), 3)
    figure, axes = plt.subplots(1, 2, layout="constrained")
    curve = CalibrationMapDisplay.from_calibrator(two, ax=axes[0])
    simplex = CalibrationMapDisplay.from_calibrator(three, ax=axes[1], color="0.5")
    assert (curve.ax_, simplex.ax_, simplex.figure_) == (axes[0], axes[1], figure)
    with pytest.raises(ValueError, match="a simplex lies under nothing"):
        simplex.plot(axes[1])
    with pytest.raises(ValueError, match="would be misread there"):
        CalibrationMapDisplay.from_calibrator(three, view="curve", ax=axes[0])
    figure.draw_without_rendering()
    assert len(plt.get_fignums()) == 1
    bare = curve.plot(c="#123456", ref_line=False, name="mine")
    assert bare.lines_[0].get_color() == "#123456"
    assert [t.get_text() for t in bare.ax_.get_legend().get_texts()] == ["mine"]
