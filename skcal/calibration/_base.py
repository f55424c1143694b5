"""What every calibrator shares: validation, labels, weights and the shape of the answer."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcal._rows import mean_log_loss_of, row_blocks, softmax
from skcal._validation import (
    TINY,
    FloatArray,
    Input,
    IntArray,
    check_column_order,
    check_scores,
    check_weights,
    encode_labels,
    log_probabilities,
    resolve_classes,
    zero_probability,
)
from skcal.calibration._portable import Portable


class BaseCalibrator(ClassifierMixin, Portable, metaclass=ABCMeta):
    """Base class of the maps from scores to calibrated probabilities.

    A map implements ``_fit(log_proba, codes, weights)``, which sets its fitted attributes,
    and ``_transform(log_proba)``, which returns log-probabilities up to a constant per row.
    Both see clean arrays only.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Iterations; 1 for a map in closed form.
    converged_ : bool
        Whether the optimum was reached.
    loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after calibration.
    baseline_loss_ : float
        The same before calibration.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "input": [StrOptions({"proba", "logits"})],
        "eps": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, *, input: Input = "proba", eps: Any = "auto") -> None:
        self.input = input
        self.eps = eps

    @abstractmethod
    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        """Learn the map from log-probabilities (n, K), class codes (n,) and weights (n,).

        May return the mean log-loss of the answer on these rows, where it is at hand.
        """

    def _advice(self) -> str:
        """Return what to do when the optimum was not reached."""
        return "raise max_iter, or look at the scores for extreme values"

    @abstractmethod
    def _transform(self, log_proba: FloatArray) -> FloatArray:
        """Return calibrated log-probabilities (n, K), up to a constant per row."""

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn the map on rows that the classifier was not trained on.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Scores of the kind that ``input`` declares, one column per class. A single column
            is the score of the second class.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; a weight of two is the same as a row repeated. Weights that
            sum to one are one row, from which little is learned.
        classes : array-like of shape (n_classes,), optional
            The class of each column. Needed when some class has no row in ``y``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If scores are not what ``input`` declares, or a label has no column.
        """
        return self._fit_rows(scores, y, sample_weight, classes)

    def _fit_rows(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
        features: FloatArray | None = None,
    ) -> Self:
        """Check the rows and learn from those that count."""
        self.__dict__.pop("loss_", None)  # a failed fit leaves no map behind
        self._validate_params()
        checked = check_scores(scores, input=self.input)
        if features is not None:
            self._check_feature_rows(features, checked)
        check_consistent_length(checked, y)
        found = resolve_classes(y, checked.shape[1], classes)
        check_column_order(scores, found)
        codes = encode_labels(y, found)
        weights = check_weights(sample_weight, checked)
        keep = weights > 0
        if not keep.all():  # Rows of weight zero are rows that are not there.
            checked, codes, weights = checked[keep], codes[keep], weights[keep]
            features = None if features is None else features[keep]
        scaled = weights / weights.max()
        rows = scaled.sum() ** 2 / (scaled @ scaled)  # as many rows of equal weight
        # Rows that stand for one between them, as of repeated folds, are another matter.
        if weights.sum() < 0.05 * rows:
            warnings.warn(
                f"Weights count rows: these sum to {weights.sum():.3g} for {rows:.0f} rows, so "
                "that the map is hardly fitted. Multiply them by n / sample_weight.sum().",
                UserWarning,
                stacklevel=3,
            )
        eps = self.eps
        if eps == "auto":
            eps = zero_probability(checked) if self.input == "proba" else TINY
        log_proba = log_probabilities(checked, input=self.input, eps=eps)
        self._learn(log_proba, codes, weights, classes=found, eps=eps, features=features)
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} did not converge: {self._advice()}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _check_feature_rows(self, features: FloatArray, scores: FloatArray) -> None:
        if len(features) != len(scores):
            raise ValueError(
                f"{type(self).__name__} needs one row of features for each row of scores; there "
                f"are {len(features)} rows of features and {len(scores)} of scores."
            )

    def predict_proba(self, scores: ArrayLike) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Scores of the same kind and with the same columns as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Rows sum to one; no value is exactly zero.
        """
        log_proba = self._checked(scores)
        proba = np.empty_like(log_proba)
        for rows in row_blocks(log_proba.shape, large=True):
            # No log-loss is infinite, and no sum is disturbed.
            proba[rows] = softmax(self._transform(log_proba[rows]), TINY)
        return proba

    def predict(self, scores: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.predict_proba(scores).argmax(axis=1)
        return self.classes_[codes]

    def _learn(
        self,
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        *,
        classes: NDArray[Any],
        eps: float,
        features: FloatArray | None = None,
    ) -> Self:
        """Set all fitted attributes, given clean arrays; without a warning."""
        self.classes_, self.n_features_in_, self.eps_ = classes, log_proba.shape[1], eps
        self.n_iter_, self.converged_ = 1, True
        loss = self._fit(log_proba, codes, weights, *([] if features is None else [features]))
        if loss is None:
            loss = mean_log_loss_of(self._transform, log_proba, codes, weights)
        rows = np.arange(len(codes))
        self.baseline_loss_ = -float(weights @ log_proba[rows, codes] / weights.sum())
        self.loss_ = loss
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loss_")

    def _checked(self, scores: ArrayLike) -> FloatArray:
        """Return the log-probabilities of scores that fit those of ``fit``."""
        check_is_fitted(self)
        checked = check_scores(scores, input=self.input)
        check_column_order(scores, self.classes_)
        if checked.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.n_features_in_} score columns; "
                f"these scores have {checked.shape[1]}."
            )
        return log_probabilities(checked, input=self.input, eps=self.eps_)
