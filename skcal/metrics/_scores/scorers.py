"""Scorers for model selection by the quality of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics._scorer import _BaseScorer

from skcal._options import find_name
from skcal._validation import (
    FloatArray,
    IntArray,
    check_labels,
    check_predictions,
    check_proba,
    encode_labels,
)
from skcal.metrics._errors.binned import expected_calibration_error
from skcal.metrics._errors.smooth import smooth_calibration_error
from skcal.metrics._scores.proper import brier_score_loss, log_loss, ranked_probability_score
from skcal.metrics._scores.recalibrated import losses_after_temperature


def get_scorer(name: str) -> Callable[..., float]:
    r"""Return a scikit-learn scorer of a classifier's probabilities.

    Every score is a loss with its sign turned, so that greater is better. It goes wherever
    scikit-learn takes a scorer: ``GridSearchCV(scoring=...)``, ``cross_validate(scoring={...})``,
    an Optuna objective.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`:

        - "neg_log_loss", "neg_brier_score", "neg_rps": :func:`log_loss`,
          :func:`brier_score_loss` and :func:`ranked_probability_score` (classes in the order
          of ``classes_``). Proper scores.
        - "neg_log_loss_after_temperature": the log loss that is left after temperature
          scaling, for models that will be calibrated afterwards. The scored rows are split in
          five by a fixed rule, and each fifth is scored with the temperature, between 0.01
          and 100, of the others: fitted on the rows it is scored on, it would flatter.
        - "neg_calibration_loss": the log loss minus the former, what the temperature saves.
        - "neg_ece", "neg_classwise_ece": :func:`expected_calibration_error`, 15 bins of equal
          width, "top-label" and "class-wise".
        - "neg_smooth_ece": :func:`smooth_calibration_error` of the "top-label".

    Returns
    -------
    scorer : callable
        Called as ``scorer(estimator, X, y, sample_weight=...)``. The estimator has
        ``predict_proba`` and ``classes_``.

    Raises
    ------
    ValueError
        If there is no scorer of this name; the message gives the nearest one.

    See Also
    --------
    get_scorer_names : The names.

    Notes
    -----
    Columns belong to the estimator's ``classes_``, so that a fold of test rows may lack a
    class. A class that the estimator has not seen, because its fold of training rows lacked
    it, has the probability zero: each such row costs 36.04 nats of log loss.

    Do not select models by a calibration error or the calibration loss alone: a model that
    predicts the class frequencies for every row has none. Look at them beside a proper score.

    With scikit-learn's metadata routing, ask for weights by
    ``get_scorer(name).set_score_request(sample_weight=True)``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV, cross_validate
    >>> from skcal.metrics import get_scorer
    >>> X, y = make_classification(random_state=0)
    >>> after = get_scorer("neg_log_loss_after_temperature")
    >>> search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, scoring=after)
    >>> search.fit(X, y).best_params_
    {'C': 0.01}
    >>> scoring = {name: get_scorer(name) for name in ("neg_log_loss", "neg_ece")}
    >>> sorted(cross_validate(LogisticRegression(), X, y, scoring=scoring))
    ['fit_time', 'score_time', 'test_neg_ece', 'test_neg_log_loss']
    """
    return _ProbabilityScorer(find_name(name, get_scorer_names(), "name"))


def get_scorer_names() -> list[str]:
    """Return the names that :func:`get_scorer` knows.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from skcal.metrics import get_scorer_names
    >>> "neg_ece" in get_scorer_names()
    True
    """
    return sorted(_LOSSES)


def _log_loss_after_temperature(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    codes, proba, weights, _ = check_predictions(y_true, y_proba, sample_weight, labels)
    kept = weights > 0  # A row of weight zero is a row that is not there.
    losses, _ = losses_after_temperature(codes[kept], proba[kept], weights[kept])
    return float(np.average(losses, weights=weights[kept]))


def _calibration_loss(y_true: ArrayLike, y_proba: ArrayLike, **kwargs: Any) -> float:
    after = _log_loss_after_temperature(y_true, y_proba, **kwargs)
    return log_loss(y_true, y_proba, **kwargs) - after


# Functions of labels, probabilities, sample_weight and labels.
_LOSSES: dict[str, Callable[..., float]] = {
    "neg_brier_score": brier_score_loss,
    "neg_calibration_loss": _calibration_loss,
    "neg_classwise_ece": partial(expected_calibration_error, kind="class-wise"),
    "neg_ece": expected_calibration_error,
    "neg_log_loss": log_loss,
    "neg_log_loss_after_temperature": _log_loss_after_temperature,
    "neg_rps": ranked_probability_score,
    "neg_smooth_ece": smooth_calibration_error,
}


def _loss(
    name: str, codes: IntArray, y_proba: FloatArray, sample_weight: ArrayLike | None = None
) -> float:
    columns = np.arange(y_proba.shape[1])
    return _LOSSES[name](codes, y_proba, sample_weight=sample_weight, labels=columns)


class _ProbabilityScorer(_BaseScorer):
    """A scorer that is given the whole matrix of probabilities and the classes it belongs to.

    scikit-learn's own hands a score function the second of two columns only, and no classes.
    """

    def __init__(self, name: str) -> None:
        super().__init__(partial(_loss, name), -1, {}, "predict_proba")
        self._name = name

    def __repr__(self) -> str:
        return f"get_scorer({self._name!r})"

    def _score(
        self, method_caller: Any, estimator: Any, X: Any, y_true: ArrayLike, **kwargs: Any
    ) -> float:
        # The caller's cache keeps one column of two, and 1 - p has lost a small p: ask anew.
        for needed in ("predict_proba", "classes_"):
            if not hasattr(estimator, needed):
                raise TypeError(
                    f"{type(estimator).__name__} has no {needed}; the scorer {self._name!r} "
                    "needs a fitted classifier that gives probabilities."
                )
        codes, proba = _aligned(y_true, estimator.predict_proba(X), estimator.classes_)
        return float(self._sign * self._score_func(codes, proba, **kwargs))


def _aligned(
    y_true: ArrayLike, y_proba: ArrayLike, classes: ArrayLike
) -> tuple[IntArray, FloatArray]:
    """Return label codes and probabilities (n, K); unknown classes get a column of zeros."""
    known, labels = np.asarray(classes), check_labels(y_true, name="y")
    alone = len(known) == 1  # of one class; a lone column would be taken for the second of two
    proba = check_proba(
        np.column_stack([y_proba, np.zeros(len(labels))]) if alone else y_proba,
        name="predict_proba(X)",
    )
    if known.shape != (proba.shape[1] - alone,):
        raise ValueError(
            f"predict_proba(X) has {proba.shape[1] - alone} columns, but classes_ has the shape "
            f"{known.shape}; one class for each column is needed."
        )
    unknown = np.setdiff1d(labels, known)
    if len(unknown) == 0:
        return encode_labels(labels, known), proba
    if len(unknown) == len(np.unique(labels)):
        raise ValueError(
            f"None of the labels, {unknown.tolist()[:5]}, is among the classes of the estimator, "
            f"{known.tolist()[:5]}; score with the labels it was fitted on."
        )
    every = np.union1d(known, unknown)
    wider = np.zeros((len(proba), len(every)))
    wider[:, encode_labels(known, every)] = proba[:, : len(known)]
    return encode_labels(labels, every), wider
