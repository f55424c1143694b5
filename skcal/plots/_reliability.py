"""The reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from skcal.metrics import ReliabilityCurve
from skcal.metrics._bins import Strategy
from skcal.plots._data.fitted_curve import FittedReliabilityCurve, Seed
from skcal.plots._data.inputs import AnyKind, predicted_by
from skcal.plots._data.reliability import Method, find_curve
from skcal.plots._drawing.axes import new_axes
from skcal.plots._drawing.panels import count_panel, draw_counts
from skcal.plots._drawing.reliability import axis_labels, draw_binned, draw_fitted
from skcal.plots._drawing.style import draw_reference, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch

_DIAGONAL = "Perfectly calibrated"


class ReliabilityDisplay:
    """Reliability diagram: observed frequency against predicted probability.

    The upper panel shows how often the event happened over the predicted probability, and the
    diagonal of perfect calibration: bin by bin with Wilson intervals, or as an isotonic or a
    smooth curve with a consistency band around the diagonal. Where a curve leaves its band,
    the rows speak against calibration. The lower panel counts rows. Empty bins have no point,
    and the line is broken there. Make one with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    curve : ReliabilityCurve or FittedReliabilityCurve
        What to draw.
    name : str, optional
        Name of the model in the legend.
    nll : float, optional
        Log loss in nats, for the legend. Given together with `ece` or not at all: a
        calibration error alone says little about a model.
    ece : float, optional
        Calibration error of the curve shown, in probability, for the legend.

    Attributes
    ----------
    curve : ReliabilityCurve or FittedReliabilityCurve
        The numbers behind the picture.
    ax_ : matplotlib Axes
        Axes of the curve.
    ax_histogram_ : matplotlib Axes
        Axes of the counts, below the curve; it carries the label of the shared x axis.
    figure_ : matplotlib Figure
        Figure that holds both.
    line_ : matplotlib Line2D
        The curve.
    errorbar_ : matplotlib ErrorbarContainer or None
        The intervals of the bins.
    band_ : matplotlib PolyCollection or None
        The consistency band of a fitted curve.
    bars_ : matplotlib StepPatch
        Outline of the counts.

    See Also
    --------
    skcal.metrics.reliability_curve : The numbers of the bins alone.
    ClasswiseReliabilityDisplay : All classes, or the worst of many, side by side.

    References
    ----------
    .. [1] M. H. DeGroot and S. E. Fienberg, "The Comparison and Evaluation of Forecasters",
       The Statistician, 1983.
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML, 2017.
    .. [3] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable reliability diagrams for
       probabilistic classifiers", PNAS, 2021.
    .. [4] J. Błasiok and P. Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing", ICLR, 2024.

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
        curve: ReliabilityCurve | FittedReliabilityCurve,
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
        kind: AnyKind = "auto",
        class_label: Any = None,
        method: Method = "binned",
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 200,
        random_state: Seed = None,
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
        kind, class_label, method, n_bins, strategy, sample_weight
            As in :meth:`from_predictions`.
        confidence_level, n_resamples, random_state
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
        y_proba, classes = predicted_by(estimator, X, "a reliability diagram")
        return cls.from_predictions(
            y,
            y_proba,
            kind=kind,
            class_label=class_label,
            method=method,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=classes,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
            name=type(estimator).__name__ if name is None else name,
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
        kind: AnyKind = "auto",
        class_label: Any = None,
        method: Method = "binned",
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 200,
        random_state: Seed = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of predicted probabilities.

        The legend gives the log loss (in nats) and the calibration error of the curve shown:
        of the bins, ``sum(weight * |mean_predicted - event_rate|) / sum(weight)``; of the
        isotonic curve, the mean distance of the rows' fitted from their predicted
        probability; of the smooth curve, the smooth calibration error.

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
        method : {"binned", "isotonic", "smooth"}, default="binned"
            How the observed frequency is found.

            - "binned": the frequency in each bin, with a Wilson interval.
            - "isotonic": the best rising step curve [3]_, which needs no bins.
            - "smooth": the diagonal plus a kernel regression of outcome minus probability,
              with a reflected Gaussian kernel whose bandwidth is the smooth calibration error
              itself [4]_. Regressing the difference is this package's choice: calibrated
              rows then lie on the diagonal whatever the bandwidth.
        n_bins : int, default=10
            Number of bins, of the lower panel too.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of about equal weight.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. The lower panel counts rows all the same.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order. The second one is the
            positive class.
        confidence_level : float, default=0.95
            Level of the intervals, or of the consistency band at each of its points.
        n_resamples : int, default=200
            How often the band's outcomes are drawn from the probabilities themselves, and the
            curve fitted to them. The isotonic fits of the band round probabilities to four
            decimals. The bins draw nothing.
        random_state : int, RandomState or None, default=None
            Draws these outcomes.
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
        curve, nll, error = find_curve(
            y_true,
            y_proba,
            kind=kind,
            class_label=class_label,
            method=method,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=labels,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(curve, name=name, nll=nll, ece=error)
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
            intervals, the band and the counts.

        Returns
        -------
        ReliabilityDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` already shows a diagram of another event.
        """
        if ax is None:
            ax = new_axes(5.0, 6.0)
        curve = self.curve
        xlabel, ylabel = axis_labels(curve.kind, curve.class_label)
        histogram = count_panel(ax, xlabel)
        # Each display adds one outline to the panel, so they number the displays on it.
        number = len(histogram.patches)
        if ref_line:
            draw_reference(ax, [0, 1], [0, 1], _DIAGONAL)
        style = line_style(number, line_kwargs)
        style.setdefault("label", self._legend_entry(self.name if name is None else name))
        self.errorbar_: ErrorbarContainer | None = None
        self.band_: PolyCollection | None = None
        self.line_: Line2D
        if isinstance(curve, ReliabilityCurve):
            self.line_, self.errorbar_ = draw_binned(ax, curve, style)
        else:
            self.line_, self.band_ = draw_fitted(ax, curve, style, first=number == 0)
        self.bars_: StepPatch = draw_counts(histogram, curve.count, curve.edges, self.line_)
        ax.set(ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.legend(loc="best", fontsize="small", framealpha=0.9)
        self.ax_: Axes = ax
        self.ax_histogram_: Axes = histogram
        self.figure_: Figure | SubFigure = ax.figure
        return self

    def _legend_entry(self, name: str | None) -> str:
        """Return the name over both figures, or whatever there is of them."""
        if self.nll is None:
            return "Classifier" if name is None else name
        figures = f"NLL {self.nll:.3f}, ECE {self.ece:.3f}"
        return figures if name is None else f"{name}\n{figures}"
