"""Risk-coverage and decision curves: what is drawn equals the numbers, and says what it is."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skcal.metrics import decision_curve, risk_coverage_curve
from skcal.plots import DecisionCurveDisplay, RiskCoverageDisplay

COSTS = [[0, 1], [4, 0]]
DISPLAYS = pytest.mark.parametrize(
    ("display", "options"),
    [
        (RiskCoverageDisplay, {}),
        (RiskCoverageDisplay, {"cost_matrix": COSTS}),
        (DecisionCurveDisplay, {}),
        (DecisionCurveDisplay, {"cost_matrix": COSTS}),
    ],
    ids=["risk", "risk by costs", "net benefit", "cost"],
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=600, n_informative=4, flip_y=0.2, random_state=0)
    names = np.array(["no", "yes"])[y]
    return X, names, GaussianNB().fit(X[:300], names[:300])


def sample(n=200, decimals=6):
    rng = np.random.default_rng(0)
    p = rng.random(n).round(decimals)
    return (rng.random(n) < p).astype(int), p


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- Both --------------------------------------------------------------------------------


@DISPLAYS
def test_estimator_gives_the_same_as_its_predictions(binary, display, options):
    X, y, model = binary
    one = display.from_estimator(model, X[300:], y[300:], **options)
    two = display.from_predictions(y[300:], model.predict_proba(X[300:]), **options)
    np.testing.assert_array_equal(one.line_.get_xdata(), two.line_.get_xdata())
    np.testing.assert_array_equal(one.line_.get_ydata(), two.line_.get_ydata())
    assert legend_texts(one.ax_)[0].startswith("GaussianNB")
    assert one.figure_ is one.ax_.figure
    assert one.plot(name="Bayes") is one
    assert legend_texts(one.ax_)[0].startswith("Bayes")


@DISPLAYS
def test_overlay_shares_the_axes_and_differs_in_style(binary, display, options):
    X, y, model = binary
    other = LogisticRegression().fit(X[:300], y[:300])
    one = display.from_estimator(model, X, y, **options)
    two = display.from_estimator(other, X, y, ax=one.ax_, **options)
    assert two.ax_ is one.ax_
    assert len(plt.get_fignums()) == 1
    names = [text.split("\n")[0] for text in legend_texts(one.ax_)]
    assert names[:2] == ["GaussianNB", "LogisticRegression"]
    assert len(set(names)) == len(names)  # what they are compared with is there once
    for look in ("get_color", "get_marker", "get_linestyle", "get_markevery"):
        assert getattr(one.line_, look)() != getattr(two.line_, look)()
    for _ in range(6):  # more than there are styles
        two.plot(one.ax_)


@DISPLAYS
def test_line_options_win(binary, display, options):
    X, y, model = binary
    shown = display.from_estimator(
        model, X, y, c="#123456", ls=":", marker="*", label="mine", gid="own", **options
    )
    assert to_rgba(shown.line_.get_color()) == to_rgba("#123456")
    assert shown.line_.get_marker() == "*"
    assert legend_texts(shown.ax_)[0] == "mine"


@DISPLAYS
def test_it_can_be_saved(tmp_path, display, options):
    figure = display.from_predictions(*sample(), name="A", **options).figure_
    for ending in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"curve.{ending}")
        assert (tmp_path / f"curve.{ending}").stat().st_size > 1000


@DISPLAYS
def test_given_axes_are_used(display, options):
    figure, axes = plt.subplots(1, 2, sharey=True)
    for ax in axes:
        assert display.from_predictions(*sample(), ax=ax, **options).ax_ is ax
    assert plt.get_fignums() == [figure.number]


@DISPLAYS
def test_unsuitable_estimators(binary, display, options):
    X, y, model = binary
    with pytest.raises(NotFittedError):
        display.from_estimator(GaussianNB(), X, y, **options)
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        display.from_estimator(LinearSVC().fit(X, y), X, y, **options)
    with pytest.raises(ValueError, match="'maybe' is not among the classes"):
        display.from_estimator(model, X[:2], ["no", "maybe"], **options)
    assert not plt.get_fignums()


@DISPLAYS
def test_another_quantity_is_refused(display, options):
    shown = display.from_predictions(*sample(), **options)
    others = [
        (RiskCoverageDisplay, {"risk_name": "Something else"}),
        (DecisionCurveDisplay, {} if options else {"cost_matrix": COSTS}),
    ]
    for other, given in others:
        with pytest.raises(ValueError, match="Draw it on axes of its own"):
            other.from_predictions(*sample(), ax=shown.ax_, **given)
    shown.ax_.clear()
    afresh = RiskCoverageDisplay.from_predictions(*sample(), ax=shown.ax_, risk_name="Other")
    assert afresh.line_.get_marker() == "o"


# --- Risk over coverage --------------------------------------------------------------------


@pytest.mark.parametrize("n", [7, 200, 3000])
def test_the_line_is_the_risk(n):
    y, p = sample(n)
    display = RiskCoverageDisplay.from_predictions(y, p, sample_weight=np.arange(n) + 1)
    curve = risk_coverage_curve(y, p, sample_weight=np.arange(n) + 1)
    x = display.line_.get_xdata()
    np.testing.assert_allclose(display.line_.get_ydata(), curve.risk_at(x))
    assert (x[0], x[-1]) == (0, 1)
    assert len(x) < 1000
    assert n > 400 or np.isin(curve.coverage, x).all()
    assert display.line_.get_ydata()[-1] == pytest.approx(curve.risk[-1])


def test_few_confidences_have_their_markers():
    y, p = sample(200, decimals=1)
    display = RiskCoverageDisplay.from_predictions(y, p)
    marked = display.line_.get_xdata()[display.line_.get_markevery()]
    np.testing.assert_allclose(marked, display.curve.coverage)


def test_legend_gives_the_areas():
    y, p = sample()
    display = RiskCoverageDisplay.from_predictions(y, p, name="A")
    curve = risk_coverage_curve(y, p)
    figures = f"AURC {curve.area:.3g}, excess {curve.excess_area:.3g}"
    assert legend_texts(display.ax_) == [f"A\n{figures}"]
    assert legend_texts(RiskCoverageDisplay(curve).plot().ax_) == [figures]


def test_the_axis_says_which_risk():
    y, p = sample()
    costs = RiskCoverageDisplay.from_predictions(y, p, cost_matrix=[[0, 1], [4, -9]])
    losses = RiskCoverageDisplay.from_predictions(y, p, loss=(y - p) ** 2, confidence=p)
    assert RiskCoverageDisplay.from_predictions(y, p).ax_.get_ylabel() == "Error rate"
    assert costs.ax_.get_ylabel() == "Mean cost"
    assert costs.ax_.get_ylim()[0] < costs.curve.risk.min() < 0  # gains are not cut off
    assert losses.ax_.get_ylabel() == "Mean loss"
    assert losses.ax_.get_ylim()[0] == 0
    named = RiskCoverageDisplay.from_predictions(y, p, loss=y, risk_name="Euros")
    assert named.ax_.get_ylabel() == "Euros"


# --- Decision curves -------------------------------------------------------------------------


@pytest.mark.parametrize("costs", [None, COSTS])
def test_the_lines_are_the_curve(costs):
    y, p = sample()
    w = np.arange(200) % 3
    at = np.linspace(0.1, 0.6, 7)
    display = DecisionCurveDisplay.from_predictions(
        y, p, cost_matrix=costs, sample_weight=w, thresholds=at
    )
    curve = decision_curve(y, p, cost_matrix=costs, sample_weight=w, thresholds=at)
    lines = {line.get_label(): line for line in display.ax_.lines}
    drawn = [
        (display.line_, curve.realised),
        (display.promised_line_, curve.promised),
        (lines["Act on all rows"], curve.act_on_all),
        (lines["Act on no row"], curve.act_on_none),
    ]
    for line, values in drawn:
        np.testing.assert_array_equal(line.get_xdata(), at)
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert display.promised_line_.get_color() == display.line_.get_color()
    assert display.promised_line_.get_linewidth() < display.line_.get_linewidth()


def test_the_threshold_of_the_costs_is_marked():
    y, p = sample()
    one = DecisionCurveDisplay.from_predictions(y, p, cost_matrix=COSTS, name="A")
    assert one.threshold_line_.get_xdata() == [0.2, 0.2]
    texts = legend_texts(one.ax_)
    curve = one.curve
    assert texts[0] == (
        f"A\nat t*: cost {curve.realised_at_optimum:.3g}, promised {curve.promised_at_optimum:.3g}"
    )
    assert "Threshold of the costs: t* = 0.2" in texts
    two = one.plot(one.ax_)
    assert sum("t* = 0.2" in text for text in legend_texts(two.ax_)) == 1
    DecisionCurveDisplay.from_predictions(y, p, cost_matrix=[[0, 1], [1, 0]], ax=one.ax_)
    assert "Threshold of the costs: t* = 0.5" in legend_texts(one.ax_)


def test_net_benefit_has_no_threshold_and_does_not_drown():
    y, p = sample()
    display = DecisionCurveDisplay.from_predictions(y, p)
    assert display.threshold_line_ is None
    assert legend_texts(display.ax_)[0] == "Classifier"
    low, high = display.ax_.get_ylim()
    assert display.curve.act_on_all.min() < -10 < low < 0
    assert high > display.curve.promised.max()
    assert high > y.mean()


def test_lines_can_be_left_out():
    y, p = sample()
    display = DecisionCurveDisplay.from_predictions(y, p, promised=False, ref_line=False)
    assert display.promised_line_ is None
    assert legend_texts(display.ax_) == ["Classifier"]
    assert len(display.ax_.lines) == 1


def test_the_axes_name_the_class():
    y, p = sample()
    names = np.array(["good", "bad"])[y]
    display = DecisionCurveDisplay.from_predictions(names, p, labels=["good", "bad"])
    assert display.ax_.get_xlabel() == "Threshold on the probability of class 'bad'"
    assert display.ax_.get_ylabel() == "Net benefit per row"
    with pytest.raises(ValueError, match="Draw it on axes of its own"):
        DecisionCurveDisplay.from_predictions(names, 1 - p, labels=["bad", "good"], ax=display.ax_)
