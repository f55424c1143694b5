"""The grid of reliability diagrams, one for each class or for some of many."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skcal.metrics import expected_calibration_error, log_loss, reliability_curve
from skcal.plots import ClasswiseReliabilityDisplay, ReliabilityDisplay


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


def legend_texts(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 12])
def test_every_class_has_its_diagram(n_classes):
    y, proba = predictions(n_classes)
    names = np.array([f"c{k:02d}" for k in range(n_classes)])
    grid = ClasswiseReliabilityDisplay.from_predictions(names[y], proba, n_bins=6)
    assert grid.class_labels_ == names.tolist()
    assert len(grid.axes_) == n_classes
    for name, display, ax in zip(names, grid.displays_, grid.axes_, strict=True):
        curve = reliability_curve(names[y], proba, kind="class-wise", class_label=name, n_bins=6)
        assert display.ax_ is ax
        np.testing.assert_array_equal(display.line_.get_ydata(), curve.event_rate)
        np.testing.assert_array_equal(display.bars_.get_data()[0], curve.count)
        assert ax.get_title().startswith(f"{name}\nECE ")
    assert len(grid.figure_.axes) == 2 * n_classes
    assert len(plt.get_fignums()) == 1


def test_legend_gives_both_figures_of_all_classes():
    y, proba = predictions(4)
    grid = ClasswiseReliabilityDisplay.from_predictions(y, proba, name="Net")
    ece = expected_calibration_error(y, proba, kind="class-wise", n_bins=10)
    nll = log_loss(y, proba)
    assert legend_texts(grid.figure_)[-1] == f"Net\nNLL {nll:.3f}, class-wise ECE {ece:.3f}"
    with pytest.raises(ValueError, match="together or neither"):
        ClasswiseReliabilityDisplay(grid.displays_, n_classes=4, nll=0.1)
    bare = ClasswiseReliabilityDisplay(grid.displays_, n_classes=4).plot(name="B")
    assert legend_texts(bare.figure_)[-1] == "B"


def test_of_many_classes_the_worst_are_shown_and_that_is_said():
    y, proba = predictions(150, 2000)
    labels = np.arange(150)
    grid = ClasswiseReliabilityDisplay.from_predictions(y, proba, labels=labels)
    errors = []
    for k in labels:
        curve = reliability_curve(
            y, proba, kind="class-wise", class_label=k, n_bins=10, labels=labels
        )
        filled = curve.count > 0
        gaps = np.abs(curve.mean_predicted - curve.event_rate)[filled]
        errors.append(np.average(gaps, weights=curve.weight[filled]))
    assert grid.class_labels_ == np.argsort(-np.array(errors), kind="stable")[:12].tolist()
    heading = grid.figure_.legends[0].get_title().get_text()
    assert heading == "12 of 150 classes: largest calibration error"
    most = ClasswiseReliabilityDisplay.from_predictions(
        y, proba, labels=labels, order="count", max_classes=5
    )
    counts = np.bincount(y, minlength=150)
    assert counts[most.class_labels_].tolist() == np.sort(counts)[::-1][:5].tolist()
    assert most.figure_.legends[0].get_title().get_text() == "5 of 150 classes: most rows"


def test_classes_can_be_told():
    y, proba = predictions(5)
    grid = ClasswiseReliabilityDisplay.from_predictions(y, proba, class_labels=[4, 1])
    assert grid.class_labels_ == [4, 1]
    assert grid.figure_.legends[0].get_title().get_text() == ""
    with pytest.raises(ValueError, match="class_label must be one of"):
        ClasswiseReliabilityDisplay.from_predictions(y, proba, class_labels=[7])


def test_nothing_is_cut_off_or_overlaps():
    y, proba = predictions(150, 2000)
    figure = ClasswiseReliabilityDisplay.from_predictions(y, proba, labels=np.arange(150)).figure_
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    boxes = [ax.get_tightbbox(renderer) for ax in figure.axes]
    boxes += [figure.legends[0].get_window_extent(renderer)]
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1 + 1
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            assert min(box.x1, other.x1) <= max(box.x0, other.x0) + 1 or (
                min(box.y1, other.y1) <= max(box.y0, other.y0) + 1
            )


def test_grids_lie_over_each_other():
    y, proba = predictions(3)
    flat = proba**0.5 / (proba**0.5).sum(axis=1, keepdims=True)
    one = ClasswiseReliabilityDisplay.from_predictions(y, proba, name="A")
    two = ClasswiseReliabilityDisplay.from_predictions(y, flat, name="B", axes=one.axes_)
    assert two.figure_ is one.figure_
    assert len(one.figure_.axes) == 6
    names = [text.split("\n")[0] for text in legend_texts(one.figure_)]
    assert names == ["Perfectly calibrated", "A", "B"]
    assert one.axes_[0].get_title() == (
        f"0\nECE {one.displays_[0].ece:.3f} / {two.displays_[0].ece:.3f}"
    )
    assert {ax.get_ylabel() for ax in one.figure_.axes} == {""}
    with pytest.raises(ValueError, match="Draw it on axes of its own"):
        ClasswiseReliabilityDisplay.from_predictions(
            y, proba, class_labels=[2, 1, 0], axes=one.axes_
        )
    with pytest.raises(ValueError, match="shows 3 classes; got 2 axes"):
        ClasswiseReliabilityDisplay.from_predictions(y, proba, axes=one.axes_[:2])


def test_given_axes_keep_their_own_labels():
    y, proba = predictions(2)
    figure, axes = plt.subplots(1, 3, layout="constrained")
    grid = ClasswiseReliabilityDisplay.from_predictions(y, proba, axes=axes)
    assert grid.axes_.tolist() == axes[:2].tolist()
    assert not figure.legends
    assert axes[0].get_legend() is not None
    assert "(class: 0)" in axes[0].get_ylabel()


def test_bands_of_the_classes_are_drawn_one_after_the_other():
    y, proba = predictions(3)
    options = {"method": "isotonic", "n_resamples": 20, "random_state": 0}
    one, two = (ClasswiseReliabilityDisplay.from_predictions(y, proba, **options) for _ in range(2))
    for a, b in zip(one.displays_, two.displays_, strict=True):
        assert a.curve.method == "isotonic"
        np.testing.assert_array_equal(a.curve.upper, b.curve.upper)
    alone = ReliabilityDisplay.from_predictions(y, proba, class_label=1, **options)
    np.testing.assert_array_equal(alone.line_.get_ydata(), one.displays_[1].line_.get_ydata())


def test_weights_reach_every_number():
    y, proba = predictions(3, 90)
    times = np.arange(90) % 3
    one = ClasswiseReliabilityDisplay.from_predictions(y, proba, sample_weight=times)
    two = ClasswiseReliabilityDisplay.from_predictions(y.repeat(times), proba.repeat(times, axis=0))
    assert (one.nll, one.ece) == pytest.approx((two.nll, two.ece))
    for a, b in zip(one.displays_, two.displays_, strict=True):
        np.testing.assert_allclose(a.curve.event_rate, b.curve.event_rate)


def test_estimators():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    model = LogisticRegression().fit(X, y)
    grid = ClasswiseReliabilityDisplay.from_estimator(model, X[y != "c"], y[y != "c"])
    assert grid.class_labels_ == ["a", "b", "c"]
    assert legend_texts(grid.figure_)[-1].startswith("LogisticRegression\n")
    with pytest.raises(NotFittedError):
        ClasswiseReliabilityDisplay.from_estimator(LogisticRegression(), X, y)


def test_unknown_options():
    y, proba = predictions(3)
    with pytest.raises(ValueError, match="order must be 'error' or 'count'; got 'name'"):
        ClasswiseReliabilityDisplay.from_predictions(y, proba, order="name")
    for wrong in (0, 2.0, True):
        with pytest.raises(ValueError, match="max_classes must be a whole number"):
            ClasswiseReliabilityDisplay.from_predictions(y, proba, max_classes=wrong)
    assert not plt.get_fignums()
