"""The decision curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skcal.metrics import DecisionCurve, decision_curve
from skcal.plots._data.inputs import predicted_by
from skcal.plots._drawing.axes import draw_legend, join_axes, mark_curve, new_axes
from skcal.plots._drawing.style import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

_MARKERS = 10
_ALL, _NONE = "Act on all rows", "Act on no row"
_PROMISED = "Thin: promised by the probabilities"


class DecisionCurveDisplay:
    """Decision curve: mean cost, or net benefit, over the threshold of a decision.

    The thick line is what decisions cost by the labels, the thin one what the probabilities
    promise. They part where the probabilities are not calibrated. Grey lines are the two
    decisions that need no model. A mean cost has its least expected value at the threshold
    that the costs imply, which is marked, if the probabilities are calibrated. Make one with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    curve : DecisionCurve
        What to draw.
    name : str, optional
        Name of the model in the legend.

    Attributes
    ----------
    curve : DecisionCurve
        The numbers behind the picture.
    ax_ : matplotlib Axes
        Axes of the curve.
    figure_ : matplotlib Figure
        Figure that holds it.
    line_ : matplotlib Line2D
        What the labels say.
    promised_line_ : matplotlib Line2D or None
        What the probabilities say; None if it was not to be drawn.
    threshold_line_ : matplotlib Line2D or None
        The threshold that the costs imply; None for net benefits.

    See Also
    --------
    skcal.metrics.decision_curve : The numbers alone.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI, 2001.
    .. [2] A. J. Vickers and E. B. Elkin, "Decision Curve Analysis: A Novel Method for
       Evaluating Prediction Models", Medical Decision Making, 2006.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import DecisionCurveDisplay
    >>> X, y = make_classification(n_samples=600, flip_y=0.2, random_state=0)
    >>> model = GaussianNB().fit(X[:300], y[:300])
    >>> display = DecisionCurveDisplay.from_estimator(
    ...     model, X[300:], y[300:], cost_matrix=[[0, 1], [4, 0]]
    ... )
    >>> display.curve.optimal_threshold
    0.2
    >>> display.figure_.savefig("decision_curve.png")  # doctest: +SKIP
    """

    def __init__(self, curve: DecisionCurve, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        cost_matrix: Any = None,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        promised: bool = True,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> DecisionCurveDisplay:
        """Draw the curve of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier of two classes with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        cost_matrix, thresholds, sample_weight
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the legend; by default the name of the estimator's class.
        ax, promised, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        DecisionCurveDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            As in :meth:`from_predictions`.
        """
        proba, classes = predicted_by(estimator, X, "a decision curve")
        return cls.from_predictions(
            y,
            proba,
            cost_matrix=cost_matrix,
            thresholds=thresholds,
            sample_weight=sample_weight,
            labels=classes,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            promised=promised,
            ref_line=ref_line,
            **line_kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        cost_matrix: Any = None,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        promised: bool = True,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> DecisionCurveDisplay:
        """Draw the curve of predicted probabilities.

        With a cost matrix, the legend gives the realised and the promised mean cost at the
        threshold that the costs imply.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of two classes.
        y_proba : array-like of shape (n_samples, 2), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        cost_matrix : array-like of shape (2, 2), dict or DataFrame, default=None
            Rows are truths, columns actions, the second of which is acting; as in
            :func:`skcal.metrics.decision_curve`. None draws the net benefit.
        thresholds : array-like of shape (n_thresholds,), optional
            By default 0, 0.01, ...
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.
        labels : array-like of shape (2,), optional
            The class of each column of `y_proba`, in column order.
        name : str, optional
            Name in the legend.
        ax, promised, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        DecisionCurveDisplay

        Raises
        ------
        ValueError
            If there are not two classes, or labels, probabilities and costs do not fit
            together.
        """
        curve = decision_curve(
            y_true,
            y_proba,
            cost_matrix=cost_matrix,
            thresholds=thresholds,
            sample_weight=sample_weight,
            labels=labels,
        )
        return cls(curve, name=name).plot(ax, promised=promised, ref_line=ref_line, **line_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        promised: bool = True,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> DecisionCurveDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Pass the ``ax_`` of another display to lay the two over each other.
            By default a new figure.
        name : str, optional
            Name in the legend, instead of the display's own.
        promised : bool, default=True
            Whether to draw what the probabilities promise, as a thin line.
        ref_line : bool, default=True
            Whether to draw what acting on all rows and on none is worth.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the thick line; the thin one has its colour.

        Returns
        -------
        DecisionCurveDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` already shows something else.
        """
        ax = new_axes(5.6, 5.0) if ax is None else ax
        curve = self.curve
        quantity = "Mean cost per row" if curve.kind == "cost" else "Net benefit per row"
        number = join_axes(ax, f"{quantity} (class {curve.class_label!r})")
        if ref_line and number == 0:
            grey: dict[str, Any] = {"color": "0.45", "linewidth": 1.2}
            ax.plot(curve.threshold, curve.act_on_all, linestyle="--", label=_ALL, **grey)
            ax.plot(curve.threshold, curve.act_on_none, linestyle=":", label=_NONE, **grey)
        # Markers of several curves stand apart.
        step = max(len(curve.threshold) // _MARKERS, 1)
        style = line_style(
            number, line_kwargs, linewidth=2.0, markevery=((3 * number) % step, step)
        )
        style.setdefault("label", self._legend_entry(self.name if name is None else name))
        (line,) = ax.plot(curve.threshold, curve.realised, **style)
        mark_curve(line)
        thin = None
        if promised:
            (thin,) = ax.plot(
                curve.threshold,
                curve.promised,
                color=line.get_color(),
                linestyle=line.get_linestyle(),
                linewidth=0.8,
            )
            if _PROMISED not in ax.get_legend_handles_labels()[1]:
                ax.plot([], [], color="0.2", linewidth=0.8, label=_PROMISED)
        ax.set(
            xlabel=f"Threshold on the probability of class {curve.class_label!r}",
            ylabel=quantity,
            xlim=(-0.02, 1.02),
        )
        self.threshold_line_: Line2D | None = self._mark_threshold(ax)
        if curve.kind == "net benefit":
            self._limit_benefit(ax)
        draw_legend(ax)

        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        self.line_: Line2D = line
        self.promised_line_: Line2D | None = thin
        return self

    def _mark_threshold(self, ax: Axes) -> Line2D | None:
        """Draw the threshold that the costs imply, once per axes and threshold."""
        optimum = self.curve.optimal_threshold
        if optimum is None:
            return None
        label = f"Threshold of the costs: t* = {optimum:.3g}"
        for line in ax.lines:
            if line.get_label() == label:
                return line
        return ax.axvline(optimum, color="0.45", linestyle="-.", linewidth=1.2, label=label)

    def _limit_benefit(self, ax: Axes) -> None:
        """Cut off how bad acting on all rows becomes, which would dwarf the rest."""
        top = max(float(np.max(line.get_ydata())) for line in ax.lines if np.size(line.get_xdata()))
        if top > 0:
            ax.set_ylim(-0.2 * top, 1.05 * top)

    def _legend_entry(self, name: str | None) -> str:
        """Return the name over both costs at the threshold that the costs imply."""
        curve = self.curve
        if curve.optimal_threshold is None:
            return "Classifier" if name is None else name
        figures = (
            f"at t*: cost {curve.realised_at_optimum:.3g}, promised {curve.promised_at_optimum:.3g}"
        )
        return figures if name is None else f"{name}\n{figures}"
