"""What every calibrator shares: validation, labels, weights and the shape of the answer."""

from abc import ABCMeta, abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcal._validation import (
    FloatArray,
    Input,
    IntArray,
    check_weights,
    encode_labels,
    log_probabilities,
    resolve_classes,
)

# The smallest probability a map returns: no log-loss is infinite, and no sum is disturbed.
_FLOOR = float(np.finfo(np.float64).tiny)


class BaseCalibrator(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the maps from scores to calibrated probabilities.

    A map implements ``_fit(log_proba, codes, weights)``, which sets its fitted attributes,
    and ``_transform(log_proba)``, which returns log-probabilities up to a constant per row.
    Both see clean arrays only.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        Smallest probability told apart from zero in ``input="proba"``; see
        :func:`skcal._validation.log_probabilities`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "input": [StrOptions({"proba", "logits"})],
        "eps": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, *, input: Input = "proba", eps: Any = "auto") -> None:
        self.input = input
        self.eps = eps

    @abstractmethod
    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        """Learn the map from log-probabilities (n, K), class codes (n,) and weights (n,)."""

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
            Non-negative weights; a weight of two is the same as a row repeated.
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
        self._validate_params()
        log_proba = log_probabilities(scores, input=self.input, eps=self.eps)
        check_consistent_length(log_proba, y)
        found = resolve_classes(y, log_proba.shape[1], classes)
        weights = check_weights(sample_weight, log_proba)
        # Rows of weight zero are rows that are not there.
        keep = weights > 0
        codes = encode_labels(y, found)
        self._fit(log_proba[keep], codes[keep], weights[keep])
        self.classes_ = found
        self.n_features_in_ = log_proba.shape[1]
        return self

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
        check_is_fitted(self)
        log_proba = log_probabilities(scores, input=self.input, eps=self.eps)
        if log_proba.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.n_features_in_} score columns; "
                f"these scores have {log_proba.shape[1]}."
            )
        proba = np.maximum(softmax(self._transform(log_proba), axis=1), _FLOOR)
        return proba / proba.sum(axis=1, keepdims=True)

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


def mean_log_loss(log_scores: FloatArray, codes: IntArray, weights: FloatArray) -> float:
    """Return the weighted mean log-loss in nats of unnormalised log-probabilities."""
    rows = np.arange(len(codes))
    loss = logsumexp(log_scores, axis=1) - log_scores[rows, codes]
    return float(weights @ loss / weights.sum())
