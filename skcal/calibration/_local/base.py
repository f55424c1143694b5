"""What every local calibrator shares: features beside scores, and a temperature to fall back on."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples

from skcal._rows import log_softmax, row_blocks, softmax
from skcal._validation import TINY, FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.folds import deal_folds
from skcal.calibration._fitting.temperature import find_temperature

# Rows on which the choice is made, at most.
_MOST_ROWS = 20_000


def clear_gain(error: float, n_tried: int) -> float:
    """Return what the best of several gains must exceed, to be told from none.

    One standard error for a single one. The best of many is high by chance alone: the share of
    chance is divided among them (Bonferroni).
    """
    return float(error * norm.isf(norm.sf(1) / n_tried))


class LocalCalibrator(BaseCalibrator):
    """Base class of the calibrators that read features of the rows beside their scores.

    All begin with temperature scaling, and correct what is left of the error region by region.
    A map implements ``_fit_local(log_proba, codes, weights, features)`` and
    ``_transform_local(log_proba, features)``, which returns log-probabilities up to a constant
    per row. Both see temperature-scaled log-probabilities, and clean arrays only.

    Parameters
    ----------
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error; by more of them the more settings were
        tried, 2.1 for the best of eight.
    cv : int, default=3
        Folds of that comparison, and of the choice of what is left at "auto"; of 20,000 rows
        at most.
    random_state : int, RandomState instance or None, default=None
        Seeds whatever is drawn.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it.

    Attributes
    ----------
    temperature_ : float
        Of the global map.
    settings_ : dict
        What was chosen for parameters left at "auto".
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that each takes off the temperature's on
        held-out rows; if there was anything to choose.
    is_local_ : bool
        Whether the local map is in use; False if it fell back on the temperature.
    reason_ : str
        Why, in a sentence.
    n_columns_ : int
        Number of feature columns.
    column_names_ : ndarray of shape (n_columns,)
        Their names, if the features were a table with names.
    """

    # Squares of larger features, and their sums, would overflow.
    _largest_feature: ClassVar[float] = 1e150

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "fallback": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.fallback = fallback
        self.cv = cv
        self.random_state = random_state

    @abstractmethod
    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        """Learn the local map from temperature-scaled log-probabilities and features."""

    @abstractmethod
    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        """Return calibrated log-probabilities (n, K), up to a constant per row."""

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
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
        features : array-like of shape (n_samples, n_columns)
            Numbers that tell where each row lies: an embedding, or the encoded table.
        classes : array-like of shape (n_classes,), optional
            The class of each column. Needed when some class has no row in ``y``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If scores are not what ``input`` declares, a label has no column, or features are
            missing, not finite numbers, too large to be squared, or not of as many rows as the
            scores.
        """
        # Which attributes there are depends on whether the local map is in use.
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)
        table = self._check_features(features, scores)
        self._check_size(table)
        self.n_columns_ = table.shape[1]
        names = _names_of(features)
        if names and table.shape[1]:
            self.column_names_ = np.array(names)
        return self._fit_rows(scores, y, sample_weight, classes, table)

    def predict_proba(self, scores: ArrayLike, *, features: ArrayLike | None = None) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Scores of the same kind and with the same columns as in ``fit``.
        features : array-like of shape (n_samples, n_columns)
            The same features as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Rows sum to one; no value is exactly zero.

        Raises
        ------
        ValueError
            If features are not as in ``fit``: as many columns, and in tables with names the
            same ones in the same order.
        """
        log_proba = self._checked(scores)
        table = self._check_fitted_features(features, log_proba)
        proba = np.empty_like(log_proba)
        for rows in row_blocks(log_proba.shape, large=True):
            proba[rows] = softmax(self._answer(log_proba[rows], table[rows]), TINY)
        return proba

    def predict(self, scores: ArrayLike, *, features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        features : array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.predict_proba(scores, features=features).argmax(axis=1)
        return self.classes_[codes]

    # -- the map -------------------------------------------------------------------------

    def _candidates(self, features: FloatArray, n_classes: int) -> list[dict[str, Any]]:
        """Return the settings that cross-validation chooses from: what is left at "auto"."""
        return [{}]

    def _fit(
        self,
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        features: FloatArray | None = None,
    ) -> float:
        if features is None:  # as part of a map that is told of scores alone
            raise TypeError(f"{type(self).__name__} needs features beside the scores.")
        # One seed for all fits: the folds shall try what is fitted on all rows in the end.
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        candidates = self._candidates(features, log_proba.shape[1])
        self.is_local_, self.settings_ = True, candidates[0]
        self.reason_ = "The local map was not compared with temperature scaling (fallback=False)."
        if self.fallback or len(candidates) > 1:
            self._choose(candidates, log_proba, codes, weights, features)
        scaled = self._scale(log_proba, codes, weights)
        if self.is_local_:
            self._fit_local(scaled, codes, weights, features)
        answer = log_softmax(self._answer(log_proba, features))
        return -float(weights @ answer[np.arange(len(codes)), codes] / weights.sum())

    def _scale(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Find the temperature, and return the log-probabilities it leaves."""
        self.temperature_ = find_temperature(log_proba, codes, weights)[0]
        return log_softmax(log_proba / self.temperature_)

    def _choose(
        self,
        candidates: list[dict[str, Any]],
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        features: FloatArray,
    ) -> None:
        """Set the best settings, and whether they are better than the temperature, by folds."""
        rows = np.arange(len(codes))
        if len(rows) > _MOST_ROWS:
            draw = np.random.default_rng(self._seed)
            rows = np.sort(draw.choice(rows, _MOST_ROWS, replace=False))
        parts = log_proba[rows], codes[rows], weights[rows], features[rows]
        n_folds = min(self.cv, len(rows))
        if n_folds < 2:
            self.is_local_ = not self.fallback
            self.reason_ = "A single row tells nothing of regions."
            return
        gains = np.array([self._gains(settings, n_folds, *parts) for settings in candidates])
        share = parts[2] / parts[2].sum()
        means = gains @ share
        best = int(means.argmax())
        error = float(np.sqrt(share @ (gains[best] - means[best]) ** 2 / parts[2].sum()))
        self.settings_ = candidates[best]
        self.cv_results_ = {"settings": candidates, "gain": means}
        if self.fallback:
            self.is_local_ = bool(means[best] > clear_gain(error, len(candidates)))
            self.reason_ = (
                f"Cross-validated log-loss {abs(means[best]):.4f} nats "
                f"{'below' if means[best] > 0 else 'above'} that of temperature scaling "
                f"(standard error {error:.4f})"
                + ("." if self.is_local_ else ": fell back on temperature scaling.")
            )

    def _gains(
        self,
        settings: dict[str, Any],
        n_folds: int,
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        features: FloatArray,
    ) -> FloatArray:
        """Return how much log-loss (n,) the local map takes off the temperature's, held out."""
        folds = deal_folds(log_proba, codes, n_folds)
        gains = np.empty(len(codes))
        for fold in range(n_folds):
            out, rest = folds == fold, folds != fold
            one = clone(self).set_params(fallback=False, input="logits")
            one._seed, one.settings_ = self._seed, settings
            scaled = one._scale(log_proba[rest], codes[rest], weights[rest])
            one._fit_local(scaled, codes[rest], weights[rest], features[rest])
            before = log_softmax(log_proba[out] / one.temperature_)
            after = log_softmax(one._transform_local(before, features[out]))
            own = np.arange(len(before)), codes[out]
            gains[out] = after[own] - before[own]
        return gains

    def _answer(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        scaled = log_softmax(log_proba / self.temperature_)
        return self._transform_local(scaled, features) if self.is_local_ else scaled

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        raise TypeError(f"{type(self).__name__} needs features beside the scores.")

    # -- features ------------------------------------------------------------------------

    def _reads_features(self) -> bool:
        """Return whether the map looks at features, as parameters have it."""
        return True

    def _check_features(self, features: ArrayLike | None, scores: Any = None) -> FloatArray:
        if not self._reads_features():
            return np.empty((0 if scores is None else _num_samples(scores), 0))
        if features is None:
            raise ValueError(
                f"{type(self).__name__} corrects regions, and needs to know where each row lies: "
                "pass features=..., one row of numbers per score, such as an embedding or the "
                "encoded table. CalibratedClassifier finds them by itself."
            )
        if hasattr(features, "detach"):  # a torch tensor, perhaps part of a graph or on a device
            features = features.detach().cpu()
        try:
            # Sums depend on the order in memory, and results should not.
            return check_array(features, dtype=np.float64, order="C", input_name="features")
        except ValueError as error:
            raise ValueError(
                f"{type(self).__name__} needs features that are finite numbers, of shape "
                f"(n_samples, n_columns); TabularEncoder makes such columns of texts, categories "
                f"and missing values. {error}"
            ) from error

    def _check_size(self, table: FloatArray) -> None:
        largest = np.abs(table).max(axis=0, initial=0.0)
        if (largest > self._largest_feature).any():
            column = int(largest.argmax())
            raise ValueError(
                f"{type(self).__name__} needs features of at most {self._largest_feature:g}, as "
                f"squares of larger ones overflow; column {column} holds {largest[column]:g}. "
                "Rescale it, or replace what stands for a missing value."
            )

    def _check_fitted_features(self, features: ArrayLike | None, scores: Any = None) -> FloatArray:
        table = self._check_features(features, scores)
        if table.shape[1] != self.n_columns_:
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.n_columns_} columns of features; "
                f"these have {table.shape[1]}."
            )
        if scores is not None:
            self._check_feature_rows(table, scores)
        names, wanted = _names_of(features), getattr(self, "column_names_", np.array([])).tolist()
        if names and wanted and names != wanted:
            column = int((np.array(names) != np.array(wanted)).argmax())
            raise ValueError(
                f"{type(self).__name__} was fitted on features in which column {column} is "
                f"{wanted[column]!r}; in these it is {names[column]!r}. Pass the same columns in "
                "the same order, or an array."
            )
        return table


def _names_of(features: Any) -> list[str]:
    """Return the names of a table's columns; none if it has none, or some are not strings."""
    names = list(getattr(features, "columns", ()))
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else []
