"""The risk-coverage curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skcal._validation import FloatArray
from skcal.metrics import RiskCoverageCurve, risk_coverage_curve
from skcal.plots._data.inputs import predicted_by
from skcal.plots._drawing.axes import draw_legend, join_axes, mark_curve, new_axes
from skcal.plots._drawing.style import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

# Points of the line, and how many of them may be kinks besides.
_GRID = 401
_KINKS = 400
_MARKED = 20


class RiskCoverageDisplay:
    """Risk-coverage curve: what the rows lose that are decided, over how many are decided.

    Rows are decided in order of confidence, and the rest is referred to someone else. The
    curve should fall to the left: then a small share of referred rows holds many errors. Its
    right end is the mean loss of all rows. Make one with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    curve : RiskCoverageCurve
        What to draw.
    name : str, optional
        Name of the model in the legend.
    risk_name : str, default="Error rate"
        What the risk is; the label of the y axis.

    Attributes
    ----------
    curve : RiskCoverageCurve
        The numbers behind the picture.
    ax_ : matplotlib Axes
        Axes of the curve.
    figure_ : matplotlib Figure
        Figure that holds it.
    line_ : matplotlib Line2D
        The curve.

    See Also
    --------
    skcal.metrics.risk_coverage_curve : The numbers alone.

    References
    ----------
    .. [1] R. El-Yaniv and Y. Wiener, "On the Foundations of Noise-free Selective
       Classification", Journal of Machine Learning Research, 2010.
    .. [2] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep
       Neural Classifiers", ICLR, 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import RiskCoverageDisplay
    >>> X, y = make_classification(n_samples=600, flip_y=0.2, random_state=0)
    >>> model = GaussianNB().fit(X[:300], y[:300])
    >>> display = RiskCoverageDisplay.from_estimator(model, X[300:], y[300:])
    >>> display.curve.risk_at([0.5, 1.0]).round(3)
    array([0.127, 0.227])
    >>> display.figure_.savefig("risk_coverage.png")  # doctest: +SKIP
    """

    def __init__(
        self, curve: RiskCoverageCurve, *, name: str | None = None, risk_name: str = "Error rate"
    ) -> None:
        self.curve = curve
        self.name = name
        self.risk_name = risk_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        cost_matrix: Any = None,
        loss: ArrayLike | None = None,
        confidence: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        risk_name: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> RiskCoverageDisplay:
        """Draw the curve of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        cost_matrix, loss, confidence, sample_weight, risk_name
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the legend; by default the name of the estimator's class.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        RiskCoverageDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            As in :meth:`from_predictions`.
        """
        proba, classes = predicted_by(estimator, X, "a risk-coverage curve")
        return cls.from_predictions(
            y,
            proba,
            cost_matrix=cost_matrix,
            loss=loss,
            confidence=confidence,
            sample_weight=sample_weight,
            labels=classes,
            risk_name=risk_name,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **line_kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        cost_matrix: Any = None,
        loss: ArrayLike | None = None,
        confidence: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        risk_name: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> RiskCoverageDisplay:
        """Draw the curve of predicted probabilities.

        The legend gives the area under the curve (AURC), and by how much it exceeds that of
        the oracle, which knows the losses and refers the greatest first. Both are in the unit
        of the loss.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        cost_matrix, loss, confidence
            As in :func:`skcal.metrics.risk_coverage_curve`: costs of actions under classes,
            or any other loss of each row, and any other order.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order.
        risk_name : str, optional
            Label of the y axis; by default "Error rate", "Mean cost" or "Mean loss".
        name : str, optional
            Name in the legend.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        RiskCoverageDisplay

        Raises
        ------
        ValueError
            If labels, probabilities, costs and losses do not fit together.
        """
        curve = risk_coverage_curve(
            y_true,
            y_proba,
            cost_matrix=cost_matrix,
            loss=loss,
            confidence=confidence,
            sample_weight=sample_weight,
            labels=labels,
        )
        if risk_name is None:
            given = "Error rate" if cost_matrix is None else "Mean cost"
            risk_name = given if loss is None else "Mean loss"
        return cls(curve, name=name, risk_name=risk_name).plot(ax, **line_kwargs)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, **line_kwargs: Any
    ) -> RiskCoverageDisplay:
        """Draw the curve.

        Between two thresholds, where rows of equal confidence are kept at random, the line is
        the expected risk. Where there are few distinct confidences, markers stand at the
        thresholds.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Pass the ``ax_`` of another display to lay the two over each other.
            By default a new figure.
        name : str, optional
            Name in the legend, instead of the display's own.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        RiskCoverageDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` already shows another kind of risk.
        """
        ax = new_axes(5.0, 4.2) if ax is None else ax
        number = join_axes(ax, self.risk_name)
        x, marked = self._grid(number)
        style = line_style(number, line_kwargs, markevery=marked)
        style.setdefault("label", self._legend_entry(self.name if name is None else name))
        (line,) = ax.plot(x, self.curve.risk_at(x), **style)
        mark_curve(line)
        ax.set(
            xlabel="Coverage (share of rows decided, the surest first)",
            ylabel=self.risk_name,
            xlim=(-0.02, 1.02),
        )
        if not self.curve.risk.min() < 0:
            ax.set_ylim(bottom=0)
        draw_legend(ax)

        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        self.line_: Line2D = line
        return self

    def _grid(self, number: int) -> tuple[FloatArray, list[int]]:
        """Return coverages to draw, and which of them have a marker."""
        ends = self.curve.coverage
        x = np.linspace(0.0, 1.0, _GRID)
        x = np.unique(np.r_[x, ends]) if len(ends) <= _KINKS else x
        # Markers of several curves stand apart, as far as they are not about thresholds.
        at = ends if len(ends) <= _MARKED else np.linspace(0.04 + 0.02 * (number % 5), 1.0, 10)
        return x, np.searchsorted(x, at).clip(max=len(x) - 1).tolist()

    def _legend_entry(self, name: str | None) -> str:
        """Return the name over both figures."""
        area, excess = self.curve.area, self.curve.excess_area
        figures = f"AURC {area:.3g}, excess {excess:.3g}"
        return figures if name is None else f"{name}\n{figures}"
