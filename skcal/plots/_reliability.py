"""The reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcal._validation import check_predictions
from skcal.metrics import ReliabilityCurve, log_loss, reliability_curve
from skcal.metrics._bins import Strategy, binned_error
from skcal.metrics._events import Kind
from skcal.plots._panels import count_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import StepPatch

# Okabe and Ito's colours, which colour-blind readers tell apart. The first three differ in
# lightness too; marker and dash say the same in greyscale.
_STYLES = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    {"color": "#000000", "marker": "^", "linestyle": "-."},
    {"color": "#CC79A7", "marker": "D", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    {"color": "#009E73", "marker": "v", "linestyle": (0, (5, 1))},
    {"color": "#D55E00", "marker": "P", "linestyle": (0, (1, 1))},
)
_DIAGONAL = "Perfectly calibrated"


class ReliabilityDisplay:
    """Reliability diagram: observed frequency against predicted probability.

    The upper panel shows, bin by bin, how often the event happened over the mean predicted
    probability, with Wilson intervals and the diagonal of perfect calibration. The lower
    panel shows how many rows each bin holds. Empty bins have no point, and the line is broken
    there. Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to draw.
    name : str, optional
        Name of the model in the legend.
    nll : float, optional
        Log loss in nats, for the legend. Given together with `ece` or not at all: a
        calibration error alone says little about a model.
    ece : float, optional
        Calibration error of the bins shown, in probability, for the legend.

    Attributes
    ----------
    curve : ReliabilityCurve
        The numbers behind the picture.
    ax_ : matplotlib Axes
        Axes of the curve.
    ax_histogram_ : matplotlib Axes
        Axes of the counts, below the curve; it carries the label of the shared x axis.
    figure_ : matplotlib Figure
        Figure that holds both.
    line_ : matplotlib Line2D
        The curve.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    bars_ : matplotlib StepPatch
        Outline of the counts.

    See Also
    --------
    skcal.metrics.reliability_curve : The numbers alone.

    References
    ----------
    .. [1] M. H. DeGroot and S. E. Fienberg, "The Comparison and Evaluation of Forecasters",
       The Statistician, 1983.
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML, 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import ReliabilityDisplay
    >>> X, y = make_classification(n_samples=600, random_state=0)
    >>> model = GaussianNB().fit(X[:300], y[:300])
    >>> display = ReliabilityDisplay.from_estimator(model, X[300:], y[300:])
    >>> display.curve.count.sum()
    np.int64(300)
    >>> display.figure_.savefig("reliability.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        curve: ReliabilityCurve,
        *,
        name: str | None = None,
        nll: float | None = None,
        ece: float | None = None,
    ) -> None:
        if (nll is None) != (ece is None):
            raise ValueError(
                "Give nll and ece together or neither; a calibration error alone, or beside "
                "no proper score, misleads."
            )
        self.curve = curve
        self.name = name
        self.nll = nll
        self.ece = ece

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        kind: Kind | Literal["auto"] = "auto",
        class_label: Any = None,
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        kind, class_label, n_bins, strategy, sample_weight, confidence_level
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the legend; by default the name of the estimator's class.
        ax, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `y` holds a class the estimator does not know, or an option is unknown.
        """
        kind_of = type(estimator).__name__
        check_is_fitted(estimator)
        for needed in ("predict_proba", "classes_"):
            if not hasattr(estimator, needed):
                raise TypeError(
                    f"{kind_of} has no {needed}; a reliability diagram needs a classifier "
                    "that gives probabilities."
                )
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            kind=kind,
            class_label=class_label,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=estimator.classes_,
            confidence_level=confidence_level,
            name=kind_of if name is None else name,
            ax=ax,
            ref_line=ref_line,
            **line_kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        kind: Kind | Literal["auto"] = "auto",
        class_label: Any = None,
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of predicted probabilities.

        The legend gives the log loss (in nats) and the calibration error of the bins shown,
        ``sum(weight * |mean_predicted - event_rate|) / sum(weight)``.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        kind : {"auto", "top-label", "class-wise", "positive"}, default="auto"
            Which probability is held against which event; see
            :func:`skcal.metrics.reliability_curve`. "auto" is "class-wise" where a
            `class_label` is given, else "positive" for two classes and "top-label" for
            more. The axis labels say which it is.
        class_label : object, optional
            The class to look at in a "class-wise" diagram.
        n_bins : int, default=10
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of about equal weight.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. The lower panel counts rows all the same.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order. The second one is the
            positive class.
        confidence_level : float, default=0.95
            Level of the intervals.
        name : str, optional
            Name in the legend.
        ax, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            If an option is unknown, or labels and probabilities do not fit together.
        """
        if kind == "auto":
            _, proba, _, _ = check_predictions(y_true, y_proba, sample_weight, labels)
            several: Kind = "positive" if proba.shape[1] == 2 else "top-label"
            kind = several if class_label is None else "class-wise"
        curve = reliability_curve(
            y_true,
            y_proba,
            kind=kind,
            class_label=class_label,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=labels,
            confidence_level=confidence_level,
        )
        display = cls(
            curve,
            name=name,
            nll=log_loss(y_true, y_proba, sample_weight=sample_weight, labels=labels),
            ece=binned_error(curve.weight, curve.mean_predicted, curve.event_rate),
        )
        return display.plot(ax, ref_line=ref_line, **line_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; the panel of counts is cut off its lower end. Pass the ``ax_`` of
            another display to lay the two over each other. By default a new figure.
        name : str, optional
            Name in the legend, instead of the display's own.
        ref_line : bool, default=True
            Whether to draw the diagonal.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the curve; colour and line style also go to the
            intervals and the counts.

        Returns
        -------
        ReliabilityDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` already shows a diagram of another event.
        """
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(5.0, 6.0), layout="constrained")
        xlabel, ylabel = self._axis_labels()
        histogram = count_panel(ax, xlabel)
        # Each display adds one outline to the panel, so they number the displays on it.
        number = len(histogram.patches)
        curve = self.curve
        filled = curve.count > 0

        if ref_line and _DIAGONAL not in ax.get_legend_handles_labels()[1]:
            ax.plot([0, 1], [0, 1], color="0.45", linestyle=":", linewidth=1.2, label=_DIAGONAL)
        # NaN of the empty bins breaks the line there: nothing was observed between.
        style = _STYLES[number % len(_STYLES)]
        line_style: dict[str, Any] = {**style, "linewidth": 1.5, "markersize": 5}
        line_style.update(normalize_kwargs(line_kwargs, Line2D))
        line_style.setdefault("label", self._legend_entry(self.name if name is None else name))
        line = ax.plot(curve.mean_predicted, curve.event_rate, **line_style)[0]
        color = line.get_color()
        reach = np.stack([curve.event_rate - curve.lower, curve.upper - curve.event_rate])
        errorbar: ErrorbarContainer = ax.errorbar(
            curve.mean_predicted[filled],
            curve.event_rate[filled],
            yerr=reach[:, filled],
            fmt="none",
            ecolor=color,
            elinewidth=1.0,
            capsize=2.5,
            zorder=line.get_zorder() - 0.1,
        )
        # Only the first is filled and parted, or several would hide each other.
        bars: StepPatch = histogram.stairs(
            curve.count,
            curve.edges,
            baseline=0,
            fill=True,
            facecolor=(color, 0.15) if number == 0 else "none",
            edgecolor=color,
            linestyle=line.get_linestyle(),
            linewidth=1.2,
        )
        if number == 0:
            between = np.minimum(curve.count[1:], curve.count[:-1])
            histogram.vlines(curve.edges[1:-1], 0, between, colors=[color], linewidth=0.5)
        ax.set(ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.legend(loc="best", fontsize="small", framealpha=0.9)

        self.ax_: Axes = ax
        self.ax_histogram_: Axes = histogram
        self.figure_: Figure | SubFigure = ax.figure
        self.line_, self.errorbar_, self.bars_ = line, errorbar, bars
        return self

    def _axis_labels(self) -> tuple[str, str]:
        """Return the labels of both axes, which name the event."""
        label = self.curve.class_label
        if self.curve.kind == "top-label":
            return "Mean confidence in the predicted class", "Accuracy of the predicted class"
        role = "positive class" if self.curve.kind == "positive" else "class"
        return (
            f"Mean predicted probability ({role}: {label!r})",
            f"Observed frequency ({role}: {label!r})",
        )

    def _legend_entry(self, name: str | None) -> str:
        """Return the name over both figures, or whatever there is of them."""
        if self.nll is None:
            return "Classifier" if name is None else name
        figures = f"NLL {self.nll:.3f}, ECE {self.ece:.3f}"
        return figures if name is None else f"{name}\n{figures}"
