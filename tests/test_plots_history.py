"""Training histories: what is drawn equals the records, and the legend says what it is."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import NeSCalMLP
from skcal.plots import RiskCoverageDisplay, TrainingHistoryDisplay

NAN = float("nan")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=200, random_state=0)


@pytest.fixture(scope="module")
def smoothed(data):
    return NeSCalMLP(smoothing=3, warmup=4, max_epochs=12, random_state=0).fit(*data)


def records(n=12, valid=True, start=5, **more):
    """Return a history whose smoothing starts in epoch `start`, if it is a number."""
    epochs = np.arange(1, n + 1)
    on = np.zeros(n, bool) if start is None else epochs >= start
    columns = {
        "epoch": epochs,
        "train_loss": 0.6 - 0.02 * epochs + 0.03 * on,
        "criterion": 0.6 - 0.02 * epochs,
        "penalty": np.where(on, 0.01 + 0.0001 * epochs, NAN),
        "smoothing": np.where(on, 3.0, 0.0),
        **({"valid_loss": 0.5 + 0.001 * (epochs - 7.0) ** 2} if valid else {}),
        **more,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- What is drawn -----------------------------------------------------------------------


def test_lines_equal_the_history_of_the_estimator(smoothed):
    display = TrainingHistoryDisplay.from_estimator(smoothed)
    history = smoothed.history_
    epochs = np.arange(1, len(history) + 1)
    drawn = [
        (display.train_line_, "criterion"),
        (display.valid_line_, "valid_loss"),
        (display.penalty_line_, "penalty"),
    ]
    for line, key in drawn:
        np.testing.assert_array_equal(line.get_xdata(), epochs)
        np.testing.assert_array_equal(line.get_ydata(), history[:, key])
    assert np.isnan(display.penalty_line_.get_ydata()).sum() == 4
    assert (display.valid_scaled_line_ is None) == ("valid_scaled_loss" not in history[0])
    assert display.smoothing_start == 5
    assert display.smoothing_span_.get_x() == 4.5
    assert display.best_epoch == smoothed.best_epoch_
    assert set(display.best_epoch_line_.get_xdata()) == {smoothed.best_epoch_}
    low, high = display.ax_.get_xlim()
    assert (low, high) == (0.5, len(history) + 0.5)
    assert display.smoothing_span_.get_x() + display.smoothing_span_.get_width() == high
    assert display.figure_ is display.ax_.figure


def test_estimator_gives_the_same_as_its_history(smoothed):
    one = TrainingHistoryDisplay.from_estimator(smoothed)
    two = TrainingHistoryDisplay.from_history(smoothed.history_, best_epoch=smoothed.best_epoch_)
    assert len(one.ax_.lines) == len(two.ax_.lines)
    for a, b in zip(one.ax_.lines, two.ax_.lines, strict=True):
        np.testing.assert_array_equal(a.get_xydata(), b.get_xydata())
    assert legend_texts(one.ax_) == legend_texts(two.ax_)


def test_legend_and_axes_say_what_it_is():
    display = TrainingHistoryDisplay.from_history(records(), best_epoch=7)
    assert legend_texts(display.ax_) == [
        "Validation log-loss (nats)",
        "Training criterion",
        "Smoothing from epoch 5",
        "Weights kept: epoch 7",
    ]
    assert display.ax_.get_ylabel() == "Mean loss per row"
    assert display.penalty_ax_.get_ylabel() == "Penalty\n(nats)"
    assert (display.ax_.get_xlabel(), display.penalty_ax_.get_xlabel()) == ("", "Epoch")
    named = display.plot(name="Net")
    assert named is display
    assert legend_texts(named.ax_)[0] == "Net: validation log-loss (nats)"


def test_plain_training_has_neither_shade_nor_panel(data):
    model = NeSCalMLP(smoothing=0, max_epochs=4, random_state=0).fit(*data)
    for display in (
        TrainingHistoryDisplay.from_estimator(model),
        TrainingHistoryDisplay.from_history(records(start=None)),
    ):
        assert display.smoothing_start is None
        assert display.smoothing_span_ is None
        assert display.penalty_line_ is None
        assert display.penalty_ax_ is None
        assert len(display.figure_.axes) == 1
        assert display.ax_.get_xlabel() == "Epoch"


def test_without_validation_there_is_the_training_criterion(data):
    model = NeSCalMLP(max_epochs=6, early_stopping=False, random_state=0).fit(*data)
    display = TrainingHistoryDisplay.from_estimator(model)
    assert display.valid_line_ is None
    np.testing.assert_array_equal(display.train_line_.get_ydata(), model.history_[:, "criterion"])
    assert legend_texts(display.ax_)[0] == "Training criterion"
    assert "Weights kept: epoch 6" in legend_texts(display.ax_)
    mark = TrainingHistoryDisplay.from_history(records(valid=False)).best_epoch_line_
    assert mark is None


def test_refitted_networks_have_their_last_training(data):
    model = NeSCalMLP(max_epochs=6, refit=True, random_state=0).fit(*data)
    display = TrainingHistoryDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.train_line_.get_ydata(), model.history_[:, "criterion"])


def test_scaled_validation_loss_is_a_line_of_its_own():
    scaled = np.linspace(0.5, 0.4, 12)
    display = TrainingHistoryDisplay.from_history(records(valid_scaled_loss=scaled))
    np.testing.assert_array_equal(display.valid_scaled_line_.get_ydata(), scaled)
    assert display.valid_scaled_line_.get_label() == "The same at its best temperature"
    assert display.valid_scaled_line_.get_markerfacecolor() == "white"
    assert display.valid_line_.get_markerfacecolor() != "white"


def test_records_may_lack_what_others_have():
    # A warm start on other data: no validation, and a new graph after a gap.
    history = [*records(6, start=3), *records(6, valid=False, start=4)]
    display = TrainingHistoryDisplay.from_history(history)
    assert np.isnan(display.valid_line_.get_ydata()).tolist() == [False] * 6 + [True] * 6
    expected = [True] * 2 + [False] * 4 + [True] * 3 + [False] * 3
    assert np.isnan(display.penalty_line_.get_ydata()).tolist() == expected
    assert display.smoothing_start == 3


def test_train_loss_stands_in_for_a_missing_criterion():
    history = [{"epoch": 1, "train_loss": 0.7}, {"epoch": 2, "train_loss": 0.6}]
    display = TrainingHistoryDisplay.from_history(history)
    assert display.train_line_.get_ydata().tolist() == [0.7, 0.6]


def test_one_epoch_is_seen():
    display = TrainingHistoryDisplay.from_history(records(1, start=1), best_epoch=1)
    for line in (display.valid_line_, display.train_line_, display.penalty_line_):
        assert line.get_marker() not in ("", "None", None)
    assert display.ax_.get_xlim() == (0.5, 1.5)
    assert [t for t in display.ax_.get_xticks() if 0.5 < t < 1.5] == [1]


@pytest.mark.parametrize(("first", "scale"), [(0.9, "linear"), (3.0, "log")])
def test_losses_of_very_different_size_go_by_logarithm(first, scale):
    history = records()
    history[0]["criterion"] = first
    display = TrainingHistoryDisplay.from_history(history)
    assert display.ax_.get_yscale() == scale
    assert ("(log)" in display.ax_.get_ylabel()) == (scale == "log")
    history[3]["criterion"] = 0.0  # has no logarithm
    assert TrainingHistoryDisplay.from_history(history).ax_.get_yscale() == "linear"


# --- Axes and looks ----------------------------------------------------------------------


def test_overlay_shares_both_panels_and_differs_in_style():
    one = TrainingHistoryDisplay.from_history(records(start=None), best_epoch=7, name="A")
    two = TrainingHistoryDisplay.from_history(records(20), best_epoch=9, name="B", ax=one.ax_)
    three = TrainingHistoryDisplay.from_history(records(9, start=2), name="C", ax=one.ax_)
    assert two.ax_ is three.ax_ is one.ax_
    assert two.penalty_ax_ is three.penalty_ax_
    assert len(one.figure_.axes) == 2
    assert one.ax_.get_xlim() == (0.5, 20.5)
    assert three.penalty_ax_.get_ylim()[1] > two.penalty_line_.get_ydata()[-1]
    assert one.ax_.get_xlabel() == ""
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({str(getattr(d.valid_line_, look)()) for d in (one, two, three)}) == 3
    for display in (one, two, three):
        assert display.train_line_.get_color() == display.valid_line_.get_color()
    texts = legend_texts(one.ax_)
    assert texts[:3] == [f"{name}: validation log-loss (nats)" for name in "ABC"]
    assert {"A: weights kept: epoch 7", "B: weights kept: epoch 9"} < set(texts)


def test_line_options_win():
    display = TrainingHistoryDisplay.from_history(
        records(), best_epoch=3, c="#123456", lw=4, marker="*", label="mine"
    )
    assert display.valid_line_.get_linewidth() == 4
    assert display.valid_line_.get_marker() == "*"
    assert legend_texts(display.ax_)[0] == "mine"
    for line in (
        display.valid_line_,
        display.train_line_,
        display.penalty_line_,
        display.best_epoch_line_,
    ):
        assert to_rgba(line.get_color()) == to_rgba("#123456")


def test_given_axes_are_used_and_can_be_cleared():
    figure, axes = plt.subplots(1, 2)
    for ax in axes:
        display = TrainingHistoryDisplay.from_history(records(), ax=ax)
        assert display.ax_ is ax
        assert len(display.penalty_ax_.lines) == 1
    assert plt.get_fignums() == [figure.number]
    assert len(figure.axes) == 4
    axes[0].clear()
    afresh = TrainingHistoryDisplay.from_history(records(), ax=axes[0])
    assert len(figure.axes) == 4
    assert afresh.valid_line_.get_marker() == "o"
    assert afresh.penalty_ax_.lines[:] == [afresh.penalty_line_]


def test_axes_of_another_picture_are_refused():
    shown = RiskCoverageDisplay.from_predictions([0, 1], [0.2, 0.6])
    with pytest.raises(ValueError, match="Draw it on axes of its own"):
        TrainingHistoryDisplay.from_history(records(), ax=shown.ax_)


def test_it_can_be_saved(tmp_path, smoothed):
    figure = TrainingHistoryDisplay.from_estimator(smoothed, name="A").figure_
    for ending in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"history.{ending}")
        assert (tmp_path / f"history.{ending}").stat().st_size > 1000


# --- Errors ------------------------------------------------------------------------------


def test_unsuitable_estimators(data, smoothed):
    with pytest.raises(NotFittedError):
        TrainingHistoryDisplay.from_estimator(NeSCalMLP())
    with pytest.raises(NotFittedError):
        TrainingHistoryDisplay.from_estimator(GaussianNB())
    with pytest.raises(TypeError, match="GaussianNB has no history_; a training history needs"):
        TrainingHistoryDisplay.from_estimator(GaussianNB().fit(*data))
    pipeline = make_pipeline(StandardScaler(), NeSCalMLP(max_epochs=2)).fit(*data)
    with pytest.raises(TypeError, match=r"Pipeline has no history_.*pass the last step"):
        TrainingHistoryDisplay.from_estimator(pipeline)
    assert TrainingHistoryDisplay.from_estimator(pipeline[-1]).valid_line_ is not None
    with pytest.raises(TypeError, match="not an estimator"):
        TrainingHistoryDisplay.from_estimator(smoothed.history_)


@pytest.mark.parametrize("history", [{"train_loss": [0.7, 0.6]}, [0.7, 0.6], "criterion"])
def test_other_records_are_refused(history):
    with pytest.raises(TypeError, match="history must be a sequence of dicts, one per epoch"):
        TrainingHistoryDisplay.from_history(history)
    assert not plt.get_fignums()


def test_histories_without_a_loss_are_refused():
    with pytest.raises(ValueError, match="The history has no epoch; fit the network first"):
        TrainingHistoryDisplay.from_history([])
    with pytest.raises(
        ValueError, match=r"expected 'criterion' or 'train_loss'.*\['dur', 'epoch'\]"
    ):
        TrainingHistoryDisplay.from_history([{"epoch": 1, "dur": 0.1}])


@pytest.mark.parametrize("best_epoch", [0, 13, -1, 2.0, True, "3"])
def test_the_best_epoch_is_one_of_them(best_epoch):
    with pytest.raises(ValueError, match="best_epoch must be one of the 12 epochs, counted from 1"):
        TrainingHistoryDisplay.from_history(records(), best_epoch=best_epoch)
    assert not plt.get_fignums()


def test_curves_have_one_value_per_epoch():
    with pytest.raises(ValueError, match=r"valid_loss must have one value for each of the 2"):
        TrainingHistoryDisplay([0.7, 0.6], valid_loss=[0.7])
