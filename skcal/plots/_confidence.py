"""The confidence histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skcal._options import check_whole
from skcal._validation import FloatArray, check_predictions
from skcal.metrics import log_loss
from skcal.metrics._bins import bin_statistics
from skcal.metrics._events import top_label
from skcal.plots._data.inputs import predicted_by
from skcal.plots._drawing.axes import empty_axes
from skcal.plots._drawing.style import DARKER, LIGHTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch


class ConfidenceHistogramDisplay:
    """Histogram of the confidence, parted into right and wrong predictions.

    The confidence of a row is its largest probability. Wrong rows stand at the bottom, right
    ones on top of them. Two vertical lines show the mean confidence and the accuracy: a
    calibrated model has them in the same place, though that alone does not make it calibrated.
    Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,), float64
        Bin edges. Bins are closed on the right, the first one on both sides.
    wrong, right : ndarray of shape (n_bins,), float64
        Share of all rows, by weight, that falls into each bin and is predicted wrongly or
        rightly; together they sum to one.
    mean_confidence : float
        Weighted mean of the largest probabilities.
    accuracy : float
        Weighted share of right predictions.
    name : str, optional
        Name of the model, for the heading of the legend.
    nll : float, optional
        Log loss in nats, for the heading of the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the histogram.
    figure_ : matplotlib Figure
        Figure that holds it.
    bars_wrong_, bars_right_ : matplotlib StepPatch
        The two parts of the histogram.
    line_confidence_, line_accuracy_ : matplotlib Line2D
        The vertical lines.

    See Also
    --------
    ReliabilityDisplay : Accuracy against confidence, bin by bin.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML, 2017.

    Examples
    --------
    >>> from skcal.plots import ConfidenceHistogramDisplay
    >>> y_true = ["a", "b", "c", "a"]
    >>> y_proba = [[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1], [0.6, 0.2, 0.2]]
    >>> display = ConfidenceHistogramDisplay.from_predictions(y_true, y_proba)
    >>> display.accuracy, round(display.mean_confidence, 3)
    (0.75, 0.675)
    """

    def __init__(
        self,
        edges: FloatArray,
        wrong: FloatArray,
        right: FloatArray,
        *,
        mean_confidence: float,
        accuracy: float,
        name: str | None = None,
        nll: float | None = None,
    ) -> None:
        self.edges = edges
        self.wrong = wrong
        self.right = right
        self.mean_confidence = mean_confidence
        self.accuracy = accuracy
        self.name = name
        self.nll = nll

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 20,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ConfidenceHistogramDisplay:
        """Draw the histogram of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        n_bins, sample_weight
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the legend; by default the name of the estimator's class.
        ax
            As in :meth:`plot`.

        Returns
        -------
        ConfidenceHistogramDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `y` holds a class the estimator does not know, or an option is unknown.
        """
        y_proba, classes = predicted_by(estimator, X, "a confidence histogram")
        return cls.from_predictions(
            y,
            y_proba,
            n_bins=n_bins,
            sample_weight=sample_weight,
            labels=classes,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int = 20,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ConfidenceHistogramDisplay:
        """Draw the histogram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        n_bins : int, default=20
            Number of bins of equal width between 1/n_classes, below which no largest
            probability lies, and 1.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. The bars are shares of their sum.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order.
        name : str, optional
            Name in the legend.
        ax
            As in :meth:`plot`.

        Returns
        -------
        ConfidenceHistogramDisplay

        Raises
        ------
        ValueError
            If an option is unknown, or labels and probabilities do not fit together.
        """
        n_bins = check_whole(n_bins, "n_bins")
        codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
        confidence, is_right = top_label(codes, proba)
        share = weights / weights.sum()
        edges = np.linspace(1 / len(classes), 1, n_bins + 1)
        wrong, right = (
            bin_statistics(confidence, is_right, share * part, edges).weight
            for part in (1 - is_right, is_right)
        )
        display = cls(
            edges,
            wrong,
            right,
            mean_confidence=float(share @ confidence),
            accuracy=float(share @ is_right),
            name=name,
            nll=log_loss(y_true, y_proba, sample_weight=sample_weight, labels=labels),
        )
        return display.plot(ax)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None
    ) -> ConfidenceHistogramDisplay:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; empty, since two histograms would hide each other. By default a
            new figure.
        name : str, optional
            Name in the legend, instead of the display's own.

        Returns
        -------
        ConfidenceHistogramDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is something on `ax` already.
        """
        ax = empty_axes(ax, 5.5, 4.2, "and two histograms would hide each other")
        self.bars_wrong_: StepPatch = ax.stairs(
            self.wrong,
            self.edges,
            fill=True,
            facecolor=DARKER,
            edgecolor="0.1",
            hatch="////",
            linewidth=0.8,
            label="Wrong",
        )
        self.bars_right_: StepPatch = ax.stairs(
            self.wrong + self.right,
            self.edges,
            baseline=self.wrong,
            fill=True,
            facecolor=LIGHTER,
            edgecolor="0.1",
            linewidth=0.8,
            label="Right",
        )
        gap = self.mean_confidence - self.accuracy
        self.line_accuracy_: Line2D = ax.axvline(
            self.accuracy, color="0.0", linewidth=1.8, label=f"Accuracy {self.accuracy:.3f}"
        )
        self.line_confidence_: Line2D = ax.axvline(
            self.mean_confidence,
            color="0.0",
            linestyle=(0, (4, 2)),
            linewidth=1.8,
            label=f"Mean confidence {self.mean_confidence:.3f} ({gap:+.3f})",
        )
        ax.set(xlabel="Confidence in the predicted class", ylabel="Share of rows")
        # A line at the very end of the axis would lie on the frame.
        reach = self.edges[-1] - self.edges[0]
        ax.set_xlim(self.edges[0] - 0.02 * reach, self.edges[-1] + 0.02 * reach)
        # Room for the legend, wherever the rows are.
        ax.set_ylim(0, 1.45 * float((self.wrong + self.right).max()))
        ax.legend(
            loc="best", fontsize="small", framealpha=0.9, title=self._title(name or self.name)
        )
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self

    def _title(self, name: str | None) -> str | None:
        """Return the heading of the legend: the name and the proper score, as far as known."""
        if self.nll is None:
            return name
        return f"NLL {self.nll:.3f}" if name is None else f"{name}, NLL {self.nll:.3f}"
