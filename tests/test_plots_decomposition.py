"""Bars of scores: their parts are those of the decomposition."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skcal.metrics import brier_score_loss, log_loss, score_decomposition
from skcal.plots import ScoreDecompositionDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3)) * 1.5
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    powers = {"sharp": 2.0, "right": 1.0, "flat": 0.5}
    proba = {name: np.exp(power * logits) for name, power in powers.items()}
    return y, {name: p / p.sum(axis=1, keepdims=True) for name, p in proba.items()}


def ends(bars):
    return np.array([[bar.get_x(), bar.get_x() + bar.get_width()] for bar in bars])


@pytest.mark.parametrize(("score", "metric"), [("log_loss", log_loss), ("brier", brier_score_loss)])
@pytest.mark.parametrize("weighted", [False, True])
def test_bars_are_the_parts_and_end_at_the_score(models, score, metric, weighted):
    y, proba = models
    weights = np.arange(600) % 3 + 1.0 if weighted else None
    options = {"score": score, "calibrator": "temperature", "sample_weight": weights}
    display = ScoreDecompositionDisplay.from_predictions(y, proba, **options)
    assert list(display.decompositions) == ["sharp", "right", "flat"]
    inner, outer = ends(display.bars_refinement_), ends(display.bars_calibration_)
    for row, p in enumerate(proba.values()):
        part = score_decomposition(y, p, **options)
        assert inner[row] == pytest.approx([0, part.refinement_loss])
        assert outer[row, 1] == pytest.approx(metric(y, p, sample_weight=weights))
        assert f"calibration {part.calibration_loss:.3f}" in display.texts_[row].get_text()
    np.testing.assert_allclose(outer[:, 0], inner[:, 1])
    # The models differ in calibration only, by their temperature.
    np.testing.assert_allclose(inner[:, 1], inner[0, 1], rtol=5e-3)
    shares = np.average(y[:, None] == np.arange(3), axis=0, weights=weights)
    base = metric(y, np.tile(shares, (600, 1)), sample_weight=weights)
    assert display.line_.get_xdata() == pytest.approx([base, base])
    assert display.ax_.get_xlim()[1] > max(outer.max(), base)


def test_names_stand_from_the_top_down(models):
    y, proba = models
    display = ScoreDecompositionDisplay.from_predictions(y, proba, calibrator="temperature")
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["sharp", "right", "flat"]
    bottom, top = display.ax_.get_ylim()
    assert bottom > top
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend[1:] == ["Refinement loss", "Calibration loss"]
    assert display.bars_calibration_[0].get_hatch()
    assert not display.bars_refinement_[0].get_hatch()


def test_nothing_is_cut_off(models):
    y, proba = models
    many = {f"A rather long name of model {k}": proba["sharp"] for k in range(15)}
    figure = ScoreDecompositionDisplay.from_predictions(
        y, many, score="brier", method="binned"
    ).figure_
    figure.draw_without_rendering()
    box = figure.axes[0].get_tightbbox(figure.canvas.get_renderer())
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1


def test_a_single_model_and_given_axes(models):
    y, proba = models
    figure, axes = plt.subplots(1, 2)
    display = ScoreDecompositionDisplay.from_predictions(
        y, proba["flat"], name="Flat", score="brier", method="binned", ax=axes[1]
    )
    assert list(display.decompositions) == ["Flat"]
    assert (display.ax_, display.figure_) == (axes[1], figure)
    with pytest.raises(ValueError, match="give them by name in a dict"):
        display.plot(axes[1])
    assert len(plt.get_fignums()) == 1


def test_estimators():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.array(["no", "yes"])[(X[:, 0] + rng.normal(size=200) > 0).astype(int)]
    fitted = {"NB": GaussianNB().fit(X, y), "LR": LogisticRegression().fit(X, y)}
    display = ScoreDecompositionDisplay.from_estimator(fitted, X, y, method="isotonic")
    for name, model in fitted.items():
        expected = score_decomposition(y, model.predict_proba(X), method="isotonic")
        assert display.decompositions[name].score == pytest.approx(expected.score)
    one = ScoreDecompositionDisplay.from_estimator(fitted["NB"], X, y, method="isotonic")
    assert list(one.decompositions) == ["GaussianNB"]
    with pytest.raises(NotFittedError):
        ScoreDecompositionDisplay.from_estimator({"A": GaussianNB()}, X, y)


def test_unsuitable_input(models):
    y, proba = models
    with pytest.raises(ValueError, match="no model to draw"):
        ScoreDecompositionDisplay({})
    with pytest.raises(ValueError, match="several have theirs in the dict"):
        ScoreDecompositionDisplay.from_predictions(y, proba, name="A")
    parts = {
        score: score_decomposition(y, proba["flat"], score=score, calibrator="temperature")
        for score in ("log_loss", "brier")
    }
    with pytest.raises(ValueError, match="the same score by the same method"):
        ScoreDecompositionDisplay(parts)
    assert not plt.get_fignums()
