"""Regions of rows in which probabilities are off, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from skcal._options import check_level, check_whole
from skcal.metrics._events import Kind
from skcal.plots._data.inputs import AnyKind, predicted_by, read_event
from skcal.plots._data.region_errors import CalibrationRegion, find_regions
from skcal.plots._drawing.axes import empty_axes
from skcal.plots._drawing.bands import draw_bands, label_below, scale_right_of_texts
from skcal.plots._drawing.style import REFERENCE, STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.figure import Figure, SubFigure


class RegionCalibrationDisplay:
    r"""Regions of rows ranked by calibration error, described by the columns of the table.

    For each region r there is a point at the predicted probability minus the observed
    frequency, by weight,

    .. math:: e_r = \frac{\sum_{i \in r} w_i (p_i - o_i)}{\sum_{i \in r} w_i} ,

    with its interval. A filled point is one whose interval leaves out zero. Beside it stands
    in words which rows these are, how many, and which columns' typical values differ most from
    those of all rows. Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    regions : list of CalibrationRegion
        The regions.
    overall : CalibrationRegion
        All rows together.
    kind : {"top-label", "class-wise", "positive"}
        Which probability is held against which event.
    class_label : object, optional
        The class that is the event; None for "top-label".
    name : str, optional
        Name of the model, for the title.

    Attributes
    ----------
    regions_ : list of CalibrationRegion
        The regions in the order drawn, the largest absolute error first;
        ``pandas.DataFrame(display.regions_)`` is a table of them.
    ax_ : matplotlib Axes
        Axes of the points.
    figure_ : matplotlib Figure
        Figure that holds it.
    points_ : matplotlib PathCollection
        The errors, top down; all rows come last, unless they are the only region.
    intervals_ : matplotlib LineCollection
        The intervals, in the same order.
    texts_ : list of matplotlib Text
        Two for each region: its description, and what it holds.

    See Also
    --------
    LocalCalibrationDisplay : The error over a projection of the features, without words.
    skcal.metrics.group_calibration_error : Errors of groups one knows already.
    skcal.metrics.multicalibration_error : One number over overlapping segments.

    Notes
    -----
    Regions that are chosen because the error is large there, and measured on the same rows,
    show large errors even if the model is calibrated. So "tree" grows a regression tree of
    :math:`p_i - o_i` on one random half of the rows, and everything shown is measured on the
    other half. The price is half of the rows, and another seed gives somewhat other regions.

    The tree is pruned: with m rows, each further region must take off the sum of squares as
    much as 2 log m rows add to it on average, which is our choice. Where nothing does, all
    rows are the only region. Thresholds are rounded between two values of the table. A split
    by a category parts one of its 30 most frequent levels from the others. Missing cells are a
    level of their own, or go to the side of a threshold where they fit better.

    The interval is :math:`e_r \pm z \, s_r`, cut where the frequency would leave [0, 1], with

    .. math:: s_r^2 = \frac{1}{W^2} \max\Bigl(\sum w_i^2 p_i (1 - p_i), \;
        \sum w_i^2 (p_i - o_i - e_r)^2, \; \tfrac{W^2}{m} \tfrac{m + 1}{(m + 2)^2}\Bigr) ,

    :math:`m = (\sum w_i)^2 / \sum w_i^2`: what the probabilities expect, what is found, and the
    variance of one event in m + 2 rows, whichever is largest. This is our choice; without the
    first and third, a region in which a rare event did not happen would look sure. The level
    holds for each region by itself: of eight regions of a calibrated model, one is off at 95 %
    in about every third picture. Over 60 tables of 1,200 rows of a right model, the intervals
    of unpruned trees' regions held zero in 95 % of the cases with probabilities Beta(2, 2), in
    97 % with Beta(0.2, 0.2) and in 99.7 % with Beta(1, 40), of which 2 % are events.

    References
    ----------
    .. [1] S. Athey and G. Imbens, "Recursive Partitioning for Heterogeneous Causal Effects",
       Proceedings of the National Academy of Sciences 113, 2016: trees that are grown and
       measured on different rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import RegionCalibrationDisplay
    >>> X, y = load_breast_cancer(as_frame=True, return_X_y=True)
    >>> model = GaussianNB().fit(X[::2], y[::2])
    >>> display = RegionCalibrationDisplay.from_estimator(model, X[1::2], y[1::2], min_rows=20)
    >>> display.regions_[0].description
    'worst concave points ≥ 0.111 and worst perimeter < 126'
    """

    def __init__(
        self,
        regions: list[CalibrationRegion],
        overall: CalibrationRegion,
        *,
        kind: Kind,
        class_label: Any = None,
        name: str | None = None,
    ) -> None:
        self.regions = regions
        self.overall = overall
        self.kind = kind
        self.class_label = class_label
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        regions: Any = "tree",
        kind: AnyKind = "auto",
        class_label: Any = None,
        n_regions: int = 8,
        max_depth: int = 3,
        min_rows: int = 50,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        random_state: Any = 0,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> RegionCalibrationDisplay:
        """Draw the regions of a fitted classifier on labelled data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : DataFrame or array-like of shape (n_samples, n_features)
            Data the classifier has not been trained on, as it takes it.
        y : array-like of shape (n_samples,)
            True labels.
        regions, kind, class_label, n_regions, max_depth, min_rows, confidence_level
            As in :meth:`from_predictions`.
        sample_weight, random_state
            As in :meth:`from_predictions`.
        name : str, optional
            Name in the title; by default the name of the estimator's class.
        ax
            As in :meth:`plot`.

        Returns
        -------
        RegionCalibrationDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba`` or no ``classes_``, or as in
            :meth:`from_predictions`.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `y` holds a class the estimator does not know, or as in
            :meth:`from_predictions`.
        """
        y_proba, classes = predicted_by(estimator, X, "a ranking of regions")
        return cls.from_predictions(
            y,
            y_proba,
            X,
            regions=regions,
            kind=kind,
            class_label=class_label,
            n_regions=n_regions,
            max_depth=max_depth,
            min_rows=min_rows,
            confidence_level=confidence_level,
            sample_weight=sample_weight,
            labels=classes,
            random_state=random_state,
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
        regions: Any = "tree",
        kind: AnyKind = "auto",
        class_label: Any = None,
        n_regions: int = 8,
        max_depth: int = 3,
        min_rows: int = 50,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        random_state: Any = 0,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> RegionCalibrationDisplay:
        """Draw the regions of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities; a single column is the probability of the second class.
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table of the same rows: numbers, categories or dates as they are, missing cells
            too; numbers only in an array. The columns need not be those of the model.
        regions : "tree", clusterer or array-like of shape (n_samples,), default="tree"
            How regions are found.

            - "tree": the leaves of a small regression tree of the error, grown on one half of
              the rows and measured on the other.
            - A clusterer is asked for ``fit_predict(X)``, for example
              ``make_pipeline(TabularEncoder(), KMeans(6, random_state=0))``. It does not see
              the labels, so that all rows are measured.
            - An array holds the region of each row, chosen without a look at these labels. All
              rows are measured.
        kind : {"auto", "top-label", "class-wise", "positive"}, default="auto"
            Which probability is held against which event, as in
            :meth:`ReliabilityDisplay.from_predictions`.
        class_label : object, optional
            The class to look at, for kind "class-wise".
        n_regions : int, default=8
            Most regions that the tree grows, or that are kept of those given, the worst ones.
        max_depth : int, default=3
            Most conditions in a row that make a region of the tree.
        min_rows : int, default=50
            Fewest rows of a region, in the half in which the tree grows.
        confidence_level : float, default=0.95
            Level of each interval.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. A row is one observation, whatever its weight.
        labels : array-like of shape (n_classes,), optional
            The class of each column of `y_proba`, in column order.
        random_state : int, RandomState or None, default=0
            Decides the halves, and between equally good splits. None draws fresh entropy.
        name : str, optional
            Name in the title.
        ax
            As in :meth:`plot`.

        Returns
        -------
        RegionCalibrationDisplay

        Raises
        ------
        TypeError
            If `regions` is none of these, or a column is neither numbers, category nor dates.
        ValueError
            If `X` or `regions` do not fit the rows, an option is out of range, or there are
            too few rows.
        """
        check_whole(n_regions, "n_regions", 2)
        check_whole(max_depth, "max_depth")
        check_whole(min_rows, "min_rows")
        check_level(confidence_level)
        event = read_event(y_true, y_proba, kind, class_label, sample_weight, labels)
        found, overall = find_regions(
            X,
            event,
            regions,
            n_regions=n_regions,
            max_depth=max_depth,
            min_rows=min_rows,
            confidence_level=confidence_level,
            random_state=random_state,
        )
        display = cls(found, overall, kind=event.kind, class_label=event.class_label, name=name)
        return display.plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> RegionCalibrationDisplay:
        """Draw the regions.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; empty. Texts are written inside it, in letters small enough for its
            height. By default a new figure, as high as the texts need.
        name : str, optional
            Name in the title, instead of the display's own.

        Returns
        -------
        RegionCalibrationDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is something on `ax` already.
        """
        may_grow = ax is None
        ax = empty_axes(ax, 9.5, 4.0, "which the texts of the regions would hide")
        self.regions_: list[CalibrationRegion] = sorted(
            self.regions, key=lambda region: -abs(region.error)
        )
        shown = self.regions_
        if [region.count for region in shown] != [self.overall.count]:
            shown = [*shown, self.overall]
        scale_right_of_texts(
            ax, min(0.0, *(region.low for region in shown)), max(0.0, *(r.high for r in shown))
        )
        what = "Confidence minus accuracy"
        if self.kind != "top-label":
            what = f"Predicted minus observed frequency of {self.class_label!r}"
        label_below(ax, f"{what}\n(left of 0: predicted too low)")
        name = self.name if name is None else name
        if name is not None:
            ax.set_title(name)
        self.texts_, centres = draw_bands(
            ax, [(region.description, self._details(region)) for region in shown], may_grow=may_grow
        )
        ax.axvline(0.0, color="0.0", linewidth=0.8, zorder=1)
        ax.axvline(self.overall.error, zorder=1, **REFERENCE)
        style = STYLES[0]["color"]
        self.intervals_: LineCollection = ax.hlines(
            centres, [r.low for r in shown], [r.high for r in shown], color=style, linewidth=2.2
        )
        self.points_: PathCollection = ax.scatter(
            [region.error for region in shown],
            centres,
            s=55,
            facecolors=[style if region.is_off else "white" for region in shown],
            edgecolors=style,
            linewidths=1.6,
            zorder=3,
        )
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self

    def _details(self, region: CalibrationRegion) -> str:
        """Return what a region holds: rows, both sides of the error, typical values."""
        said, happened = ("confidence", "accuracy")
        if self.kind != "top-label":
            said, happened = ("predicted", "observed")
        text = (
            f"{region.count:,} rows: {said} {100 * region.predicted:.1f} %, "
            f"{happened} {100 * region.observed:.1f} %"
        )
        return "\n".join([text + "; typically:" * bool(region.typical), *region.typical])
