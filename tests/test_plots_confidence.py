"""The confidence histogram: shares of right and wrong rows, and the two lines."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skcal.metrics import log_loss
from skcal.plots import ConfidenceHistogramDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def predictions(n_classes, n=500):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, n_classes)) * 2
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(2 * logits)
    return y, sharp / sharp.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 150])
@pytest.mark.parametrize("weighted", [False, True])
def test_bars_and_lines_are_the_shares_and_means(n_classes, weighted):
    y, proba = predictions(n_classes)
    weights = np.arange(500) % 4 if weighted else np.ones(500)
    display = ConfidenceHistogramDisplay.from_predictions(
        y, proba, n_bins=7, sample_weight=weights, labels=np.arange(n_classes)
    )
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y
    edges = 1 / n_classes + (1 - 1 / n_classes) * np.arange(8) / 7
    # Right-closed bins: those of the mirrored values, closed on the left, in reverse.
    shares = [
        np.histogram(-confidence[part], -edges[::-1], weights=weights[part])[0][::-1]
        / weights.sum()
        for part in (~right, right)
    ]
    bars = [display.bars_wrong_.get_data(), display.bars_right_.get_data()]
    np.testing.assert_allclose(bars[0].edges, edges, atol=1e-12)
    np.testing.assert_allclose(bars[0].values, shares[0], atol=1e-12)
    np.testing.assert_allclose(bars[1].values, shares[0] + shares[1], atol=1e-12)
    np.testing.assert_allclose(bars[1].baseline, shares[0], atol=1e-12)
    assert (display.wrong + display.right).sum() == pytest.approx(1)
    accuracy = np.average(right, weights=weights)
    mean = np.average(confidence, weights=weights)
    assert display.line_accuracy_.get_xdata() == pytest.approx([accuracy] * 2)
    assert display.line_confidence_.get_xdata() == pytest.approx([mean] * 2)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [
        "Wrong",
        "Right",
        f"Accuracy {accuracy:.3f}",
        f"Mean confidence {mean:.3f} ({mean - accuracy:+.3f})",
    ]
    display.figure_.draw_without_rendering()


def test_confidence_of_one_and_of_chance_are_counted():
    display = ConfidenceHistogramDisplay.from_predictions([0, 1, 1], [0.0, 0.5, 1.0], n_bins=2)
    assert display.edges.tolist() == [0.5, 0.75, 1.0]
    assert (display.wrong * 3).round(9).tolist() == [1, 0]  # 0.5 goes to the first class
    assert (display.right * 3).round(9).tolist() == [0, 2]


def test_right_and_wrong_differ_without_colour():
    display = ConfidenceHistogramDisplay.from_predictions(*predictions(3))
    assert display.bars_wrong_.get_hatch()
    assert not display.bars_right_.get_hatch()
    assert display.line_accuracy_.get_linestyle() != display.line_confidence_.get_linestyle()


def test_heading_has_name_and_score():
    y, proba = predictions(3)
    nll = log_loss(y, proba)
    display = ConfidenceHistogramDisplay.from_predictions(y, proba, name="Net")
    assert display.ax_.get_legend().get_title().get_text() == f"Net, NLL {nll:.3f}"
    display.plot(name="Other")
    assert display.ax_.get_legend().get_title().get_text() == f"Other, NLL {nll:.3f}"
    bare = ConfidenceHistogramDisplay(
        display.edges, display.wrong, display.right, mean_confidence=0.7, accuracy=0.6
    )
    assert bare.plot().ax_.get_legend().get_title().get_text() == ""


def test_given_axes_are_used_if_they_are_empty():
    y, proba = predictions(3)
    figure, axes = plt.subplots(1, 2)
    display = ConfidenceHistogramDisplay.from_predictions(y, proba, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="show something already"):
        display.plot(axes[1])
    axes[1].clear()
    display.plot(axes[1])
    assert len(plt.get_fignums()) == 1


def test_estimators():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    model = LogisticRegression().fit(X, y)
    display = ConfidenceHistogramDisplay.from_estimator(model, X[y != "c"], y[y != "c"])
    assert display.edges[0] == pytest.approx(1 / 3)
    assert display.accuracy == pytest.approx(model.score(X[y != "c"], y[y != "c"]))
    assert display.name == "LogisticRegression"
    with pytest.raises(NotFittedError):
        ConfidenceHistogramDisplay.from_estimator(LogisticRegression(), X, y)
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba; a confidence"):
        ConfidenceHistogramDisplay.from_estimator(LinearSVC().fit(X, y), X, y)


@pytest.mark.parametrize("wrong", [0, 2.0, True])
def test_number_of_bins(wrong):
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1"):
        ConfidenceHistogramDisplay.from_predictions([0, 1], [0.2, 0.7], n_bins=wrong)
    assert not plt.get_fignums()
