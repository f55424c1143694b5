"""The reliability diagram: what is drawn equals the numbers, and the axes say what it is."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skcal.metrics import expected_calibration_error, log_loss, reliability_curve
from skcal.plots import ReliabilityDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=600, n_informative=4, random_state=0)
    names = np.array(["no", "yes"])[y]
    return X, names, GaussianNB().fit(X[:300], names[:300])


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 5)) * 1.5
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(2 * logits)
    return y, sharp / sharp.sum(axis=1, keepdims=True)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- What is drawn -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_drawn_points_equal_the_curve(several, strategy):
    y, proba = several
    display = ReliabilityDisplay.from_predictions(y, proba, n_bins=8, strategy=strategy)
    curve = reliability_curve(y, proba, kind="top-label", n_bins=8, strategy=strategy)
    np.testing.assert_array_equal(display.line_.get_xdata(), curve.mean_predicted)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.event_rate)
    counts, edges, _ = display.bars_.get_data()
    np.testing.assert_array_equal(counts, curve.count)
    np.testing.assert_array_equal(edges, curve.edges)
    filled = curve.count > 0
    (intervals,) = display.errorbar_.lines[2]
    drawn = np.array(intervals.get_segments())
    np.testing.assert_allclose(drawn[:, 0, 1], curve.lower[filled], atol=1e-12)
    np.testing.assert_allclose(drawn[:, 1, 1], curve.upper[filled], atol=1e-12)
    np.testing.assert_allclose(drawn[:, 0, 0], curve.mean_predicted[filled], atol=1e-12)


def test_empty_bins_have_no_point():
    display = ReliabilityDisplay.from_predictions([1, 0, 0], [0.9, 0.8, 0.2], n_bins=3)
    assert display.curve.count.tolist() == [1, 0, 2]
    assert np.isnan(display.line_.get_ydata()).tolist() == [False, True, False]
    assert len(display.errorbar_.lines[2][0].get_segments()) == 2


def test_weights_and_level_reach_the_curve():
    y, p, w = [0, 1, 1, 0], [0.2, 0.6, 0.9, 0.9], [1, 2, 3, 4]
    display = ReliabilityDisplay.from_predictions(
        y, p, sample_weight=w, confidence_level=0.5, n_bins=4
    )
    curve = reliability_curve(
        y, p, kind="positive", sample_weight=w, confidence_level=0.5, n_bins=4
    )
    np.testing.assert_array_equal(display.curve.upper, curve.upper)
    np.testing.assert_array_equal(display.curve.weight, curve.weight)
    assert display.nll == log_loss(y, p, sample_weight=w)


# --- What the axes say -------------------------------------------------------------------


def test_two_classes_show_the_positive_class_and_say_which():
    display = ReliabilityDisplay.from_predictions(["no", "yes"], [0.2, 0.7])
    assert display.curve.kind == "positive"
    assert display.ax_histogram_.get_xlabel() == "Predicted probability (positive class: 'yes')"
    assert display.ax_.get_ylabel() == "Observed frequency (positive class: 'yes')"
    turned = ReliabilityDisplay.from_predictions(["no", "yes"], [0.2, 0.7], labels=["yes", "no"])
    assert "positive class: 'no'" in turned.ax_.get_ylabel()


def test_more_classes_show_the_top_label_and_say_so(several):
    display = ReliabilityDisplay.from_predictions(*several)
    assert display.curve.kind == "top-label"
    assert "Confidence in the predicted class" in display.ax_histogram_.get_xlabel()
    assert "Accuracy" in display.ax_.get_ylabel()


def test_one_class_of_several(several):
    display = ReliabilityDisplay.from_predictions(*several, class_label=3)
    assert display.curve.kind == "class-wise"
    assert "(class: 3)" in display.ax_.get_ylabel()
    assert "(class: 3)" in display.ax_histogram_.get_xlabel()


def test_kind_can_be_told(binary):
    X, y, model = binary
    display = ReliabilityDisplay.from_estimator(model, X, y, kind="top-label")
    assert display.curve.kind == "top-label"
    with pytest.raises(ValueError, match="exactly two classes"):
        ReliabilityDisplay.from_predictions([0, 1, 2], np.eye(3), kind="positive")


# --- Legend ------------------------------------------------------------------------------


def test_legend_gives_both_figures_of_the_bins_shown(several):
    y, proba = several
    display = ReliabilityDisplay.from_predictions(y, proba, name="Net", n_bins=10)
    nll = log_loss(y, proba)
    ece = expected_calibration_error(y, proba, kind="top-label", n_bins=10)
    assert display.ece == pytest.approx(ece, abs=1e-12)
    assert legend_texts(display.ax_) == [
        "Perfectly calibrated",
        f"Net\nNLL {nll:.3f}, ECE {ece:.3f}",
    ]


def test_one_figure_alone_is_refused():
    curve = reliability_curve([0, 1], [0.2, 0.7], kind="positive")
    for alone in ({"ece": 0.1}, {"nll": 0.1}):
        with pytest.raises(ValueError, match="together or neither"):
            ReliabilityDisplay(curve, **alone)
    assert legend_texts(ReliabilityDisplay(curve, name="A").plot().ax_)[1] == "A"
    assert legend_texts(ReliabilityDisplay(curve).plot(name="B", ref_line=False).ax_) == ["B"]


def test_estimator_is_named_by_its_class(binary):
    X, y, model = binary
    display = ReliabilityDisplay.from_estimator(model, X, y)
    assert legend_texts(display.ax_)[1].startswith("GaussianNB\n")
    display.plot(name="Bayes")
    assert legend_texts(display.ax_)[1].startswith("Bayes\n")


# --- Where it is drawn -------------------------------------------------------------------


def test_new_figure_by_default(binary):
    X, y, model = binary
    display = ReliabilityDisplay.from_estimator(model, X, y)
    assert isinstance(display.figure_, Figure)
    assert display.figure_.axes == [display.ax_, display.ax_histogram_]
    assert display.ax_.figure is display.figure_
    assert display.plot() is display
    assert len(plt.get_fignums()) == 2


def test_panels_lie_inside_the_figure_and_apart(several):
    figure = ReliabilityDisplay.from_predictions(*several, class_label=0).figure_
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    curve, counts = (ax.get_tightbbox(renderer) for ax in figure.axes)
    assert counts.y1 < curve.y0
    for box in (curve, counts):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("layout", ["none", "constrained", "tight"])
def test_given_axes_are_used_and_shared_axes_keep_their_own_panel(binary, layout):
    X, y, model = binary
    figure, axes = plt.subplots(1, 2, sharex=True, sharey=True, layout=layout, figsize=(9, 5))
    left, right = (ReliabilityDisplay.from_estimator(model, X, y, ax=ax) for ax in axes)
    assert len(plt.get_fignums()) == 1
    assert left.figure_ is right.figure_ is figure
    assert (left.ax_, right.ax_) == tuple(axes)
    assert left.ax_histogram_ is not right.ax_histogram_
    assert len(figure.axes) == 4
    figure.draw_without_rendering()
    for display in (left, right):
        upper, lower = display.ax_.get_position(), display.ax_histogram_.get_position()
        assert lower.y1 < upper.y0
        assert (lower.x0, lower.x1) == pytest.approx((upper.x0, upper.x1))


def test_axes_outside_any_grid():
    figure = plt.figure()
    ax = figure.add_axes((0.2, 0.2, 0.6, 0.7))
    display = ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.7], ax=ax)
    upper, lower = display.ax_.get_position(), display.ax_histogram_.get_position()
    assert (upper.y1, lower.y0) == pytest.approx((0.9, 0.2))
    assert lower.y1 < upper.y0
    assert upper.height == pytest.approx(4 * lower.height)


def test_overlay_shares_the_panels_and_differs_in_style(binary):
    X, y, model = binary
    other = LogisticRegression().fit(X[:300], y[:300])
    one = ReliabilityDisplay.from_estimator(model, X, y)
    two = ReliabilityDisplay.from_estimator(other, X, y, ax=one.ax_)
    assert two.ax_ is one.ax_
    assert two.ax_histogram_ is one.ax_histogram_
    assert len(one.figure_.axes) == 2
    texts = legend_texts(one.ax_)
    assert [text.split("\n")[0] for text in texts] == [
        "Perfectly calibrated",
        "GaussianNB",
        "LogisticRegression",
    ]
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(one.line_, look)() != getattr(two.line_, look)()
    # Only outlines go over the first histogram.
    assert two.bars_.get_facecolor()[3] == 0
    assert two.bars_.get_linestyle() != one.bars_.get_linestyle()


def test_overlay_of_another_event_is_refused(several):
    display = ReliabilityDisplay.from_predictions(*several)
    with pytest.raises(ValueError, match="Draw it on axes of its own"):
        ReliabilityDisplay.from_predictions(*several, class_label=1, ax=display.ax_)


def test_cleared_axes_start_afresh(several):
    display = ReliabilityDisplay.from_predictions(*several)
    display.ax_.clear()
    again = ReliabilityDisplay.from_predictions(*several, class_label=1, ax=display.ax_)
    assert again.ax_histogram_ is display.ax_histogram_
    assert len(again.ax_histogram_.patches) == 1
    assert "(class: 1)" in again.ax_histogram_.get_xlabel()
    assert again.line_.get_marker() == "o"


def test_more_models_than_styles():
    display = ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.7])
    for _ in range(7):
        display.plot(display.ax_)
    assert len(display.ax_histogram_.patches) == 8


def test_line_options_win(binary):
    X, y, model = binary
    display = ReliabilityDisplay.from_estimator(
        model, X, y, c="#123456", ls=":", marker="*", label="mine", ref_line=False
    )
    assert display.line_.get_color() == "#123456"
    assert display.line_.get_marker() == "*"
    assert legend_texts(display.ax_) == ["mine"]
    np.testing.assert_allclose(display.bars_.get_edgecolor(), matplotlib.colors.to_rgba("#123456"))


def test_it_can_be_saved(binary, tmp_path):
    X, y, model = binary
    display = ReliabilityDisplay.from_estimator(model, X, y)
    for ending in ("png", "svg", "pdf"):
        display.figure_.savefig(tmp_path / f"diagram.{ending}")
        assert (tmp_path / f"diagram.{ending}").stat().st_size > 1000


# --- Estimators --------------------------------------------------------------------------


def test_estimator_gives_the_same_as_its_predictions(binary):
    X, y, model = binary
    one = ReliabilityDisplay.from_estimator(model, X[300:], y[300:], n_bins=7)
    two = ReliabilityDisplay.from_predictions(y[300:], model.predict_proba(X[300:]), n_bins=7)
    np.testing.assert_array_equal(one.curve.event_rate, two.curve.event_rate)
    assert one.nll == two.nll
    assert one.curve.class_label == "yes"


def test_classes_come_from_the_estimator(binary):
    X, y, model = binary
    only = y == "no"
    display = ReliabilityDisplay.from_estimator(model, X[only], y[only])
    assert display.curve.class_label == "yes"
    assert np.nanmax(display.curve.event_rate) == 0


def test_unsuitable_estimators(binary):
    X, y, model = binary
    with pytest.raises(NotFittedError):
        ReliabilityDisplay.from_estimator(GaussianNB(), X, y)
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, y), X, y)
    with pytest.raises(ValueError, match="'maybe' is not among the classes"):
        ReliabilityDisplay.from_estimator(model, X[:2], ["no", "maybe"])
    assert not plt.get_fignums()
