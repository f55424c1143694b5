"""Where in the space of features a model is over- or under-confident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from skcal._options import check_level, check_positive
from skcal._validation import FloatArray
from skcal.metrics._events import Kind
from skcal.plots._data.inputs import AnyKind, predicted_by, read_event
from skcal.plots._data.projection import project, smooth_error
from skcal.plots._drawing.axes import empty_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure, SubFigure


class LocalCalibrationDisplay:
    r"""Calibration error over a two-dimensional projection of the features.

    The colour shows the predicted probability minus the observed frequency, each averaged
    over the rows around a point with a Gaussian kernel,

    .. math:: \hat e(z) = \frac{\sum_i w_i K(z - z_i) (p_i - o_i)}{\sum_i w_i K(z - z_i)},

    so that a model that is calibrated on average can be seen to be over-confident here and
    under-confident there. Regions of under-confidence are hatched. Grey is where a calibrated
    model with the same probabilities would scatter as far by chance. Dashed lines give the
    effective number of rows behind the average, :math:`(\sum w K)^2 / \sum (w K)^2`; where it
    is below `min_rows`, the picture is left white. Make one with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    x : ndarray of shape (n_x,), float64
        First coordinates of the grid.
    y : ndarray of shape (n_y,), float64
        Second coordinates of the grid.
    error : ndarray of shape (n_y, n_x), float64
        Predicted probability minus observed frequency; NaN where there are too few rows.
    noise : ndarray of shape (n_y, n_x), float64
        Standard error of `error` for a calibrated model with the same probabilities,
        :math:`\sqrt{\sum (w K)^2 p (1 - p)} / \sum w K`; NaN where there are too few rows.
    rows : ndarray of shape (n_y, n_x), float64
        Effective number of rows around each point.
    kind : {"top-label", "class-wise", "positive"}
        Which probability is held against which event.
    class_label : object, optional
        The class that is the event; None for "top-label".
    confidence_level : float, default=0.95
        Level at which an error is more than chance, at each point by itself.
    axis_names : tuple of str, default=("First coordinate", "Second coordinate")
        What the coordinates are.
    name : str, optional
        Name of the model, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the map.
    figure_ : matplotlib Figure
        Figure that holds it.
    contours_ : matplotlib QuadContourSet
        The coloured regions.
    rows_ : matplotlib QuadContourSet or None
        The lines of equal numbers of rows; None where the number is the same everywhere.
    colorbar_ : matplotlib Colorbar
        The scale of the error.

    See Also
    --------
    ReliabilityDisplay : The error over the predicted probability.
    skcal.metrics.local_calibration_error : Such an error in one number.

    Notes
    -----
    The kernel's width is Scott's, :math:`m^{-1/6}` times the spread of each coordinate, with m
    the effective number of rows, times `bandwidth`; the spread is the lesser of the standard
    deviation and the interquartile range over 1.349. What is far apart in the features can be
    close in the projection, and cancel there. The level holds at each point by itself: of a
    calibrated model's map, about a share of 1 - `confidence_level` is coloured. Rows are
    counted into 160 by 160 cells first.

    References
    ----------
    .. [1] R. Luo, A. Bhatnagar, Y. Bai, S. Zhao, H. Wang, C. Xiong, S. Savarese, S. Ermon,
       E. Schmerling and M. Pavone, "Local Calibration: Metrics and Recalibration", UAI, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import LocalCalibrationDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GaussianNB().fit(X[::2], y[::2])
    >>> display = LocalCalibrationDisplay.from_estimator(model, X[1::2], y[1::2])
    >>> display.ax_.get_xlabel()
    'First principal component (44 %)'
    """

    def __init__(
        self,
        x: FloatArray,
        y: FloatArray,
        error: FloatArray,
        noise: FloatArray,
        rows: FloatArray,
        *,
        kind: Kind,
        class_label: Any = None,
        confidence_level: float = 0.95,
        axis_names: tuple[str, str] = ("First coordinate", "Second coordinate"),
        name: str | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.error = error
        self.noise = noise
        self.rows = rows
        self.kind = kind
        self.class_label = class_label
        self.confidence_level = confidence_level
        self.axis_names = axis_names
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        projection: Any = "pca",
        kind: AnyKind = "auto",
        class_label: Any = None,
        bandwidth: float = 1.0,
        min_rows: float = 30,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> LocalCalibrationDisplay:
        """Draw the map of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        projection, kind, class_label, bandwidth, min_rows, confidence_level, sample_weight
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the title; by default the name of the estimator's class.
        ax
            As in :meth:`plot`.

        Returns
        -------
        LocalCalibrationDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `y` holds a class the estimator does not know, or as in
            :meth:`from_predictions`.
        """
        y_proba, classes = predicted_by(estimator, X, "a map of local calibration")
        return cls.from_predictions(
            y,
            y_proba,
            X,
            projection=projection,
            kind=kind,
            class_label=class_label,
            bandwidth=bandwidth,
            min_rows=min_rows,
            confidence_level=confidence_level,
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
        X: Any,
        *,
        projection: Any = "pca",
        kind: AnyKind = "auto",
        class_label: Any = None,
        bandwidth: float = 1.0,
        min_rows: float = 30,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> LocalCalibrationDisplay:
        """Draw the map of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        X : array-like of shape (n_samples, n_features)
            Features of the same rows, numbers only where they are to be projected. Not looked
            at if `projection` is an array.
        projection : "pca", transformer or array-like of shape (n_samples, 2), default="pca"
            "pca" takes the first two principal components of the standardised features; an
            object is asked for ``fit_transform(X)``, the first two columns of which count; an
            array holds the coordinates themselves.
        kind : {"auto", "top-label", "class-wise", "positive"}, default="auto"
            Which probability is held against which event, as in
            :meth:`ReliabilityDisplay.from_predictions`.
        class_label : object, optional
            The class to look at, for kind "class-wise".
        bandwidth : float, default=1.0
            Width of the kernel, in multiples of Scott's.
        min_rows : float, default=30
            Effective number of rows below which nothing is shown.
        confidence_level : float, default=0.95
            Level at which an error counts as more than chance and is coloured.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order.
        name : str, optional
            Name in the title.
        ax
            As in :meth:`plot`.

        Returns
        -------
        LocalCalibrationDisplay

        Raises
        ------
        TypeError
            If `bandwidth` or `min_rows` is not a number.
        ValueError
            If features are not numbers, coordinates are not two finite columns, an option is
            out of range, or no point has enough rows around it.
        """
        check_positive(bandwidth, "bandwidth")
        check_positive(min_rows, "min_rows")
        check_level(confidence_level)
        event = read_event(y_true, y_proba, kind, class_label, sample_weight, labels)
        points, axis_names = project(X, projection, len(event.weights))
        display = cls(
            *smooth_error(points, event, bandwidth, min_rows),
            kind=event.kind,
            class_label=event.class_label,
            confidence_level=confidence_level,
            axis_names=axis_names,
            name=name,
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> LocalCalibrationDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; empty. By default a new figure.
        name : str, optional
            Name in the title, instead of the display's own.

        Returns
        -------
        LocalCalibrationDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is something on `ax` already.
        """
        from matplotlib.ticker import LogLocator, MaxNLocator

        ax = empty_axes(ax, 6.2, 4.8, "which the map would hide")
        known = np.isfinite(self.error)
        chance = ndtri(0.5 + self.confidence_level / 2) * self.noise
        is_sure = known & (np.abs(self.error) > np.where(known, chance, 0.0))
        # The same scale on both sides, and no noise blown up to full colours.
        top = max(float(np.abs(self.error[known]).max()), 0.05)
        levels = MaxNLocator(nbins=10, symmetric=True).tick_values(-top, top)
        ax.contourf(self.x, self.y, known * 1.0, levels=[0.5, 1.5], colors=["0.93"])
        self.contours_: QuadContourSet = ax.contourf(
            self.x,
            self.y,
            np.ma.masked_array(self.error, ~is_sure),
            levels=levels,
            cmap="PuOr_r",
            # Greyscale cannot tell both ends of the colours apart.
            hatches=["///" if upper <= 0 else "" for upper in levels[1:]],
        )
        self.contours_.set_edgecolor("0.45")
        self.contours_.set_linewidth(0.0)
        if is_sure.any() and not is_sure.all():
            ax.contour(self.x, self.y, is_sure * 1.0, levels=[0.5], colors="0.3", linewidths=0.6)
        counted = np.where(known, self.rows, np.nan)
        steps = LogLocator(subs=(1.0, 3.0)).tick_values(np.nanmin(counted), np.nanmax(counted))
        steps = steps[(steps > np.nanmin(counted)) & (steps < np.nanmax(counted))]
        self.rows_: QuadContourSet | None = None
        if len(steps) > 0:
            self.rows_ = ax.contour(
                self.x,
                self.y,
                counted,
                levels=steps,
                colors="0.0",
                linewidths=0.7,
                linestyles="--",
            )
            ax.clabel(self.rows_, fmt="%d rows", fontsize="small")
        self.colorbar_: Colorbar = ax.figure.colorbar(self.contours_, ax=ax)
        what = "Confidence minus accuracy"
        if self.kind != "top-label":
            what = f"Predicted minus observed frequency of {self.class_label!r}"
        self.colorbar_.set_label(f"{what}\n(hatched: predicted too low)")
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        ax.set_xlim(_frame(self.x[known.any(axis=0)]))
        ax.set_ylim(_frame(self.y[known.any(axis=1)]))
        name = self.name if name is None else name
        if name is not None:
            ax.set_title(name)
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self


def _frame(shown: FloatArray) -> tuple[float, float]:
    """Return limits around coordinates that are shown, with some white on both sides."""
    low, high = float(shown.min()), float(shown.max())
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin
