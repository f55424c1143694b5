"""Reliability diagrams of all classes, or of some of many, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from skcal._validation import check_predictions
from skcal.metrics import log_loss
from skcal.metrics._bins import Strategy
from skcal.metrics._events import find_column
from skcal.plots._data.class_choice import ORDERS, Order, choose_classes, class_errors
from skcal.plots._data.fitted_curve import Seed
from skcal.plots._data.inputs import predicted_by
from skcal.plots._data.reliability import Method, find_curve
from skcal.plots._reliability import ReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Under this name a figure that is labelled as a whole remembers its legend.
_MEMORY = "_skcal_classwise_legend"
_CELL = (2.7, 3.0)  # inches


class ClasswiseReliabilityDisplay:
    """Reliability diagrams of each class against the rest, in a grid.

    A calibration error averaged over many classes hides the few that are wrong. Where there
    are more classes than `max_classes`, the grid shows those with the largest calibration
    error, or the most rows, and says so. Make one with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        One diagram of kind "class-wise" per class shown.
    n_classes : int
        Number of classes there are.
    choice : str, optional
        How the classes shown were chosen, for the heading.
    name : str, optional
        Name of the model in the legend.
    nll : float, optional
        Log loss of all classes in nats, for the legend.
    ece : float, optional
        Class-wise calibration error, averaged over all classes, for the legend.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The diagrams, each with its ``curve``, ``ax_`` and ``line_``.
    axes_ : ndarray of matplotlib Axes, shape (n_shown,)
        Axes of the curves.
    class_labels_ : list
        The classes shown.
    figure_ : matplotlib Figure
        Figure that holds the grid.

    See Also
    --------
    ReliabilityDisplay : One diagram.
    skcal.metrics.expected_calibration_error : The error of the legend, kind "class-wise".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import ClasswiseReliabilityDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianNB().fit(X[::2], y[::2])
    >>> grid = ClasswiseReliabilityDisplay.from_estimator(model, X[1::2], y[1::2], n_bins=5)
    >>> grid.class_labels_
    [0, 1, 2]
    """

    def __init__(
        self,
        displays: list[ReliabilityDisplay],
        *,
        n_classes: int,
        choice: str | None = None,
        name: str | None = None,
        nll: float | None = None,
        ece: float | None = None,
    ) -> None:
        if (nll is None) != (ece is None):
            raise ValueError(
                "Give nll and ece together or neither; a calibration error alone, or beside "
                "no proper score, misleads."
            )
        self.displays_ = displays
        self.class_labels_ = [display.curve.class_label for display in displays]
        self.n_classes = n_classes
        self.choice = choice
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
        class_labels: ArrayLike | None = None,
        max_classes: int = 12,
        order: Order = "error",
        method: Method = "binned",
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 200,
        random_state: Seed = None,
        name: str | None = None,
        axes: ArrayLike | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ClasswiseReliabilityDisplay:
        """Draw the grid of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        class_labels, max_classes, order
            As in :meth:`from_predictions`.
        method, n_bins, strategy, sample_weight, confidence_level, n_resamples, random_state
            As in :meth:`ReliabilityDisplay.from_predictions`.
        name : str, optional
            Name in the legend; by default the name of the estimator's class.
        axes, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        ClasswiseReliabilityDisplay

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
            class_labels=class_labels,
            max_classes=max_classes,
            order=order,
            method=method,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            labels=classes,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
            name=type(estimator).__name__ if name is None else name,
            axes=axes,
            ref_line=ref_line,
            **line_kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        class_labels: ArrayLike | None = None,
        max_classes: int = 12,
        order: Order = "error",
        method: Method = "binned",
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 200,
        random_state: Seed = None,
        name: str | None = None,
        axes: ArrayLike | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ClasswiseReliabilityDisplay:
        """Draw the grid of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        class_labels : array-like, optional
            The classes to show. By default all of them, or some if there are too many.
        max_classes : int, default=12
            How many classes are shown where `class_labels` does not tell.
        order : {"error", "count"}, default="error"
            Which are shown if there are more: those with the largest binned calibration error
            of the class against the rest, or those with the most rows, in this order.
        method, n_bins, strategy, sample_weight, labels, confidence_level
            As in :meth:`ReliabilityDisplay.from_predictions`.
        n_resamples, random_state
            As in :meth:`ReliabilityDisplay.from_predictions`.
        name : str, optional
            Name in the legend.
        axes, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        ClasswiseReliabilityDisplay

        Raises
        ------
        ValueError
            If an option is unknown, or labels and probabilities do not fit together.
        """
        codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
        errors = class_errors(codes, proba, weights, n_bins, strategy)
        choice = None
        if class_labels is not None:
            shown = [find_column(classes, one) for one in np.asarray(class_labels).tolist()]
        else:
            shown = choose_classes(codes, weights, errors, max_classes, order)
            if len(shown) < len(classes):
                choice = ORDERS[order]
        nll = log_loss(classes[codes], proba, sample_weight=weights, labels=classes)
        # All panels draw from one generator, or the classes' bands would share their noise.
        rng = RandomState() if random_state is None else check_random_state(random_state)
        displays = []
        for column in shown:
            # As a problem of two classes, whose checks do not look at all columns again.
            curve, _, error = find_curve(
                codes == column,
                proba[:, column],
                kind="positive",
                class_label=None,
                method=method,
                n_bins=n_bins,
                strategy=strategy,
                sample_weight=weights,
                labels=[False, True],
                confidence_level=confidence_level,
                n_resamples=n_resamples,
                random_state=rng,
            )
            curve = replace(curve, kind="class-wise", class_label=classes.tolist()[column])
            displays.append(ReliabilityDisplay(curve, nll=nll, ece=error))
        grid = cls(
            displays,
            n_classes=len(classes),
            choice=choice,
            name=name,
            nll=nll,
            ece=float(errors.mean()),
        )
        return grid.plot(axes, ref_line=ref_line, **line_kwargs)

    def plot(
        self,
        axes: ArrayLike | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> ClasswiseReliabilityDisplay:
        """Draw the grid.

        Parameters
        ----------
        axes : array-like of matplotlib Axes, optional
            Where to draw, one for each class shown. Pass the ``axes_`` of another grid, made
            with its ``class_labels_``, to lay the two over each other. By default a new
            figure, sized for the number of classes.
        name : str, optional
            Name in the legend, instead of the display's own.
        ref_line : bool, default=True
            Whether to draw the diagonals.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the curves.

        Returns
        -------
        ClasswiseReliabilityDisplay
            Itself.

        Raises
        ------
        ValueError
            If there are not as many axes as classes, or they show other classes.
        """
        legend_entry = self._legend_entry(self.name if name is None else name)
        style = {"markersize": 4, "label": legend_entry, **line_kwargs}
        places = self._new_axes() if axes is None else np.asarray(axes, dtype=object).ravel()
        if len(places) < len(self.displays_):
            raise ValueError(
                f"The grid shows {len(self.displays_)} classes; got {len(places)} axes. Pass one "
                "for each class, or choose fewer with class_labels=... or max_classes=..."
            )
        places = places[: len(self.displays_)]
        figure = places[0].figure
        for ax, display in zip(places, self.displays_, strict=True):
            display.plot(ax, ref_line=ref_line, **style)
            ax.get_legend().remove()
            before = ax.get_title() if len(display.ax_histogram_.patches) > 1 else ""
            title = f"{before} / {display.ece:.3f}" if before else self._title(display)
            ax.set_title(title, fontsize="medium")
            if hasattr(figure, _MEMORY):  # the figure is labelled as a whole
                ax.set_ylabel("")
                display.ax_histogram_.set(xlabel="", ylabel="")
                for each in (ax, display.ax_histogram_):
                    each.tick_params(labelsize="small")
        self._draw_legend(places[0])
        self.axes_: NDArray[Any] = places
        self.figure_: Figure | SubFigure = figure
        return self

    def _new_axes(self) -> NDArray[Any]:
        """Return axes of a new figure that is labelled as a whole."""
        from matplotlib import pyplot as plt

        n_shown = len(self.displays_)
        wide = (3, 4) if n_shown <= 12 else (5, 6)
        n_columns = min(n_shown, min(reversed(wide), key=lambda width: -n_shown % width))
        n_rows = -(-n_shown // n_columns)
        # One legend entry needs three inches even above a single panel.
        size = (max(_CELL[0] * n_columns, 4.0) + 0.4, _CELL[1] * n_rows + 0.9)
        figure, axes = plt.subplots(
            n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
        )
        for ax in axes.ravel()[n_shown:]:
            ax.remove()
        figure.supxlabel("Predicted probability of the class", fontsize="medium")
        figure.supylabel("Count, and observed frequency", fontsize="medium")
        setattr(figure, _MEMORY, None)
        return axes.ravel()

    def _draw_legend(self, ax: Axes) -> None:
        """Draw one legend for all: above the grid, or inside the first of given axes."""
        handles, texts = ax.get_legend_handles_labels()
        if not hasattr(ax.figure, _MEMORY):
            ax.legend(handles, texts, loc="best", fontsize="small", framealpha=0.9)
            return
        former = getattr(ax.figure, _MEMORY)
        if former is not None:
            former.remove()
        n_shown = len(self.displays_)
        legend = ax.figure.legend(
            handles,
            texts,
            loc="outside upper center",
            # Side by side as far as the figure is wide enough.
            ncols=max(1, int(ax.figure.bbox.width / ax.figure.dpi // 2.4)),
            fontsize="small",
            title=self.choice and f"{n_shown} of {self.n_classes} classes: {self.choice}",
        )
        setattr(ax.figure, _MEMORY, legend)

    @staticmethod
    def _title(display: ReliabilityDisplay) -> str:
        label = str(display.curve.class_label)
        return f"{label if len(label) <= 24 else label[:23] + '…'}\nECE {display.ece:.3f}"

    def _legend_entry(self, name: str | None) -> str:
        """Return the name over both figures of all classes, or whatever there is of them."""
        if self.nll is None:
            return "Classifier" if name is None else name
        figures = f"NLL {self.nll:.3f}, class-wise ECE {self.ece:.3f}"
        return figures if name is None else f"{name}\n{figures}"
