"""Proper scores of several models as bars: what calibration costs, and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcal.metrics import ScoreDecomposition, score_decomposition
from skcal.metrics._bins import Strategy
from skcal.plots._data.inputs import predicted_by
from skcal.plots._drawing.axes import empty_axes
from skcal.plots._drawing.style import DARKER, LIGHTER, REFERENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

_SCORES = {"log_loss": "Log loss (nats)", "brier": "Brier score"}


class ScoreDecompositionDisplay:
    """Calibration and refinement loss of several models, as stacked bars.

    The refinement loss is what recalibration leaves of the score: what only a better
    classifier can lower. The calibration loss is on top of it, so that the whole bar is the
    score. A dotted line is the uncertainty: the score of the base rate, which says the same
    for every row. Cross-fitted recalibration can make a calibrated model a little worse; its
    calibration loss is then negative, and shown inside the bar. Make one with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    decompositions : dict of str to ScoreDecomposition
        One for each model, by its name, from the top down. All of the same score and method.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the bars.
    figure_ : matplotlib Figure
        Figure that holds them.
    bars_refinement_, bars_calibration_ : matplotlib BarContainer
        The two parts of the bars.
    line_ : matplotlib Line2D
        The uncertainty of the first model's rows.
    texts_ : list of matplotlib Text
        The score and the calibration loss of each model, at the right.

    See Also
    --------
    skcal.metrics.score_decomposition : The numbers alone.

    References
    ----------
    .. [1] J. Bröcker, "Reliability, sufficiency, and the decomposition of proper scores",
       Quarterly Journal of the Royal Meteorological Society, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal.plots import ScoreDecompositionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = [GaussianNB(), LogisticRegression(C=0.01, max_iter=5000)]
    >>> fitted = {type(model).__name__: model.fit(X[::2], y[::2]) for model in models}
    >>> display = ScoreDecompositionDisplay.from_estimator(
    ...     fitted, X[1::2], y[1::2], calibrator="temperature")
    >>> list(display.decompositions)
    ['GaussianNB', 'LogisticRegression']
    """

    def __init__(self, decompositions: Mapping[str, ScoreDecomposition]) -> None:
        if not decompositions:
            raise ValueError("There is no model to draw; give at least one decomposition.")
        kinds = {(one.score_name, one.method) for one in decompositions.values()}
        if len(kinds) > 1:
            raise ValueError(
                "Bars can be compared if they are the same score by the same method; got "
                f"{sorted(kinds)}."
            )
        self.decompositions = dict(decompositions)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        score: Literal["log_loss", "brier"] = "log_loss",
        method: Literal["recalibration", "binned", "isotonic"] = "recalibration",
        calibrator: Any = "auto",
        cv: int = 5,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ScoreDecompositionDisplay:
        """Draw the bars of fitted classifiers on labelled data.

        Parameters
        ----------
        estimator : object, or dict of str to object
            Fitted classifier with ``predict_proba`` and ``classes_``, or several by name.
        X : array-like of shape (n_samples, n_features)
            Data the classifiers have not been trained on.
        y : array-like of shape (n_samples,)
            True labels.
        score, method, calibrator, cv, n_bins, strategy, sample_weight
            As in :func:`skcal.metrics.score_decomposition`.
        name : str, optional
            Name of a single classifier; by default the name of its class.
        ax
            As in :meth:`plot`.

        Returns
        -------
        ScoreDecompositionDisplay

        Raises
        ------
        TypeError
            If an estimator has no ``predict_proba`` or no ``classes_``.
        sklearn.exceptions.NotFittedError
            If an estimator is not fitted.
        ValueError
            If `y` holds a class an estimator does not know, or an option is unknown.
        """
        several = _by_name(estimator, name, type(estimator).__name__)
        found = {}
        for key, one in several.items():
            y_proba, classes = predicted_by(one, X, "a decomposition of its score")
            found[key] = score_decomposition(
                y,
                y_proba,
                score=score,
                method=method,
                calibrator=calibrator,
                cv=cv,
                n_bins=n_bins,
                strategy=strategy,
                sample_weight=sample_weight,
                labels=classes,
            )
        return cls(found).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike | Mapping[str, ArrayLike],
        *,
        score: Literal["log_loss", "brier"] = "log_loss",
        method: Literal["recalibration", "binned", "isotonic"] = "recalibration",
        calibrator: Any = "auto",
        cv: int = 5,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ScoreDecompositionDisplay:
        """Draw the bars of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array-like, or dict of str to array-like
            Predicted probabilities of shape (n_samples, n_classes), (n_samples,) or
            (n_samples, 1); of several models by name.
        score, method, calibrator, cv, n_bins, strategy, sample_weight, labels
            As in :func:`skcal.metrics.score_decomposition`.
        name : str, optional
            Name of a single model.
        ax
            As in :meth:`plot`.

        Returns
        -------
        ScoreDecompositionDisplay

        Raises
        ------
        ValueError
            If an option is unknown, or labels and probabilities do not fit together.
        """
        found = {
            key: score_decomposition(
                y_true,
                one,
                score=score,
                method=method,
                calibrator=calibrator,
                cv=cv,
                n_bins=n_bins,
                strategy=strategy,
                sample_weight=sample_weight,
                labels=labels,
            )
            for key, one in _by_name(y_proba, name, "Classifier").items()
        }
        return cls(found).plot(ax)

    def plot(self, ax: Axes | None = None) -> ScoreDecompositionDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; empty, since bars of several displays would hide each other. By
            default a new figure.

        Returns
        -------
        ScoreDecompositionDisplay
            Itself.

        Raises
        ------
        ValueError
            If there is something on `ax` already.
        """
        names, parts = list(self.decompositions), list(self.decompositions.values())
        why = "which the bars would hide (several models in one: give them by name in a dict)"
        ax = empty_axes(ax, 7.5, 1.5 + 0.45 * len(parts), why)
        refinement = np.array([part.refinement_loss for part in parts])
        calibration = np.array([part.calibration_loss for part in parts])
        uncertainty = parts[0].uncertainty
        rows = range(len(parts))
        looks: dict[str, Any] = {"edgecolor": "0.1", "linewidth": 0.8, "height": 0.62}
        self.bars_refinement_: BarContainer = ax.barh(
            rows, refinement, color=LIGHTER, label="Refinement loss", **looks
        )
        self.bars_calibration_: BarContainer = ax.barh(
            rows,
            calibration,
            left=refinement,
            color=DARKER,
            hatch="////",
            label="Calibration loss",
            **looks,
        )
        self.line_: Line2D = ax.axvline(
            uncertainty, label=f"Uncertainty {uncertainty:.3f}", **{**REFERENCE, "linewidth": 1.8}
        )
        self.texts_ = [
            ax.text(
                1.01,
                row,
                f"{part.score:.3f} (calibration {part.calibration_loss:.3f})",
                transform=ax.get_yaxis_transform(),
                va="center",
                fontsize="small",
            )
            for row, part in zip(rows, parts, strict=True)
        ]
        ax.set_yticks(rows, names)
        ax.set_ylim(len(parts) - 0.5, -0.5)  # the first at the top
        right = max(float((refinement + calibration).max()), float(refinement.max()), uncertainty)
        # Scores of 0, of perfect models, still have an axis.
        ax.set_xlim(0, 1.04 * right or 1.0)
        ax.set_xlabel(_SCORES[parts[0].score_name])
        # Above the axes no bar is in its way, however many there are.
        ax.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize="small", frameon=False
        )
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        return self


def _by_name(given: Any, name: str | None, default: str) -> dict[str, Any]:
    """Return models by name, also of a single one."""
    if not isinstance(given, Mapping):
        return {default if name is None else name: given}
    if name is not None:
        raise ValueError("name is for a single model; several have theirs in the dict.")
    return dict(given)
