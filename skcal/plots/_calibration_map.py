"""What a fitted calibrator makes of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skcal._options import check_whole
from skcal._validation import FloatArray
from skcal.plots._data.calibration_map import ask, check_base, lattice, lines_to_corners, pooled
from skcal.plots._drawing.axes import empty_axes, new_axes
from skcal.plots._drawing.calibration_map import MapArtists, draw_curves, draw_simplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.quiver import Quiver

View = Literal["auto", "curve", "simplex"]


class CalibrationMapDisplay:
    """A calibration map: probability in, probability out.

    - Two classes: a curve over the probability of the second class. Several maps can be laid
      over each other, an interval (Venn-Abers) is a band, and the folds of a cross-fitted
      classifier are thin lines behind their pool.
    - Three classes: arrows on the simplex, from where a prediction was to where it goes, over
      the distance in probability that it moves.
    - More classes: for each class the curve along the line to its corner of the simplex, on
      which the others share the rest in fixed proportions. Up to six classes have a curve
      each. Of more, the median over the classes is drawn, with a band from the lowest to the
      highest class, and the three classes that are farthest from the median.

    Make one with :meth:`from_calibrator` or :meth:`from_estimator`.

    Parameters
    ----------
    before : ndarray of shape (n_points,) or (n_points, 3), float64
        Probabilities of a class, or points of the simplex.
    after : ndarray of shape (n_curves, n_points) or (n_points, 3), float64
        What the map makes of them: one curve for two classes, else one for each class.
    classes : ndarray of shape (n_classes,)
        The class of each column.
    interval : ndarray of shape (n_curves, n_points, 2), optional
        Lower and upper probabilities.
    members : ndarray of shape (n_folds, n_curves, n_points), optional
        The maps of the folds.
    name : str, optional
        Name of the map in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture.
    figure_ : matplotlib Figure
        Figure that holds it.
    lines_ : list of matplotlib Line2D
        The curves; of more than six classes their median, and then the three farthest from it.
    band_ : matplotlib PolyCollection or None
        The interval, or the range over the classes.
    arrows_ : matplotlib Quiver or None
        The arrows on the simplex.

    See Also
    --------
    skcal.calibration : The maps.
    ReliabilityDisplay : Whether their probabilities come true.

    References
    ----------
    .. [1] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
       Dirichlet calibration", NeurIPS, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal import TemperatureScaling
    >>> from skcal.plots import CalibrationMapDisplay
    >>> p = np.linspace(0.01, 0.99, 200)
    >>> y = np.random.default_rng(0).random(200) < p**2 / (p**2 + (1 - p) ** 2)
    >>> display = CalibrationMapDisplay.from_calibrator(TemperatureScaling().fit(p, y))
    >>> display.after[0, [0, 100, 200]].round(2)
    array([0. , 0.5, 1. ])
    """

    def __init__(
        self,
        before: FloatArray,
        after: FloatArray,
        classes: NDArray[Any],
        *,
        interval: FloatArray | None = None,
        members: FloatArray | None = None,
        name: str | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.classes = classes
        self.interval = interval
        self.members = members
        self.name = name

    @classmethod
    def from_calibrator(
        cls,
        calibrator: Any,
        *,
        view: View = "auto",
        n_points: int = 201,
        base: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> CalibrationMapDisplay:
        """Draw the map of a fitted calibrator.

        Parameters
        ----------
        calibrator : object
            Fitted calibrator with ``predict_proba(scores)`` and ``classes_``. One of
            :mod:`skcal.calibration` that reads logits is given logarithms of probabilities.
        view : {"auto", "curve", "simplex"}, default="auto"
            "auto" is the simplex for three classes and curves otherwise.
        n_points : int, default=201
            Number of points of a curve, from 0 to 1.
        base : array-like of shape (n_classes,), optional
            In which proportions the other classes share what one class leaves, along the
            curves of three and more classes. By default equal ones.
        name : str, optional
            Name in the legend; by default the name of the calibrator's class.
        ax, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        CalibrationMapDisplay

        Raises
        ------
        TypeError
            If the calibrator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If the view does not suit the number of classes, or an option is out of range.
        """
        check_is_fitted(calibrator)
        for needed in ("predict_proba", "classes_"):
            if not hasattr(calibrator, needed):
                raise TypeError(
                    f"{type(calibrator).__name__} has no {needed}; a calibration map needs a "
                    "fitted calibrator."
                )
        display = _look(
            cls,
            np.asarray(calibrator.classes_),
            [calibrator],
            lambda members: members[0],
            view,
            n_points,
            base,
            type(calibrator).__name__ if name is None else name,
        )
        return display.plot(ax, ref_line=ref_line, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        view: View = "auto",
        n_points: int = 201,
        base: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> CalibrationMapDisplay:
        """Draw the map inside a fitted :class:`skcal.CalibratedClassifier`.

        Where each fold has a map of its own, these are thin lines, and the thick one is their
        pool: the answer to a row of which all the folds' models say the same.

        Parameters
        ----------
        estimator : CalibratedClassifier
            Fitted.
        view, n_points, base
            As in :meth:`from_calibrator`.
        name : str, optional
            Name in the legend; by default the name of the calibrator's class.
        ax, ref_line, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        CalibrationMapDisplay

        Raises
        ------
        TypeError
            If it is another kind of estimator.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If a fold does not know all classes, or as in :meth:`from_calibrator`.
        """
        check_is_fitted(estimator)
        pairs = getattr(estimator, "calibrated_classifiers_", [])
        if not pairs or not hasattr(estimator, "pooling_temperature_"):
            raise TypeError(
                f"{type(estimator).__name__} is not a skcal.CalibratedClassifier. Draw a fitted "
                "calibrator with CalibrationMapDisplay.from_calibrator."
            )
        classes = estimator.classes_
        for number, pair in enumerate(pairs):
            if not np.array_equal(pair.calibrator.classes_, classes):
                raise ValueError(
                    f"Fold {number} knows the classes {pair.calibrator.classes_.tolist()} of "
                    f"{classes.tolist()}, so that the folds have no common map. Draw the "
                    "calibrators of calibrated_classifiers_ one by one with from_calibrator."
                )

        def pool(members: FloatArray) -> FloatArray:
            return pooled(members, estimator.pooling, estimator.pooling_temperature_)

        display = _look(
            cls,
            classes,
            [pair.calibrator for pair in pairs],
            pool,
            view,
            n_points,
            base,
            type(pairs[0].calibrator).__name__ if name is None else name,
        )
        return display.plot(ax, ref_line=ref_line, **line_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        **line_kwargs: Any,
    ) -> CalibrationMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Curves can be laid over those of another display; a simplex needs
            axes of its own. By default a new figure.
        name : str, optional
            Name in the legend, instead of the display's own.
        ref_line : bool, default=True
            Whether to draw the diagonal of curves, which is no calibration.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for curves, and to ``Axes.quiver`` for arrows.

        Returns
        -------
        CalibrationMapDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` shows something that this map cannot be laid over.
        """
        name = self.name if name is None else name
        artists: MapArtists
        if self.before.ndim == 2:
            ax = empty_axes(ax, 5.6, 5.0, "and a simplex lies under nothing")
            artists = draw_simplex(ax, self.before, self.after, self.classes, name, line_kwargs)
        else:
            ax = new_axes(5.0, 5.0) if ax is None else ax
            artists = draw_curves(
                ax,
                self.before,
                self.after,
                self.classes,
                name or "Map",
                line_kwargs,
                interval=self.interval,
                members=self.members,
                ref_line=ref_line,
            )
        self.lines_: list[Line2D] = artists.lines
        self.band_: PolyCollection | None = artists.band
        self.arrows_: Quiver | None = artists.arrows
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self


def _look(
    cls: type[CalibrationMapDisplay],
    classes: NDArray[Any],
    calibrators: list[Any],
    pool: Callable[[FloatArray], FloatArray],
    view: str,
    n_points: int,
    base: ArrayLike | None,
    name: str,
) -> CalibrationMapDisplay:
    """Return the display of one map or of the folds' maps, not drawn yet."""
    n_points = check_whole(n_points, "n_points", 2)
    if view not in ("auto", "curve", "simplex"):
        raise ValueError(f"view must be 'auto', 'curve' or 'simplex'; got {view!r}.")
    n_classes = len(classes)
    if view == "simplex" and n_classes != 3:
        raise ValueError(
            f"view='simplex' is a picture of three classes, and this map has {n_classes}; use "
            "view='curve'."
        )
    proportions = check_base(base, n_classes)
    if view == "simplex" or (view == "auto" and n_classes == 3):
        before, _ = lattice()
        answers = np.array([ask(one, before) for one in calibrators])
        return cls(before, pool(answers), classes, name=name)
    lines = lines_to_corners(n_classes, n_points, proportions)
    after, members, interval = [], [], []
    # Class by class, which keeps the memory of many classes small.
    for column, line in enumerate(lines, start=1 if n_classes == 2 else 0):
        answers = np.array([ask(one, line) for one in calibrators])
        after.append(pool(answers)[:, column])
        members.append(answers[:, :, column])
        if len(calibrators) == 1 and hasattr(calibrators[0], "predict_interval"):
            interval.append(ask(calibrators[0], line, "predict_interval")[:, column])
    return cls(
        np.linspace(0.0, 1.0, n_points),
        np.array(after),
        classes,
        interval=np.array(interval) if interval else None,
        members=np.array(members).transpose(1, 0, 2) if len(calibrators) > 1 else None,
        name=name,
    )
