"""Correction for another base rate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skcal._validation import TINY, FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.affine import fit_affine

# Shares that differ by less than a twentieth are taken for the same.
_SAME = 0.05


class PriorCorrection(BaseCalibrator):
    r"""Adjust probabilities to the base rates of the rows they will be used on.

    .. math:: q_k \propto p_k\, \frac{\pi'_k}{\pi_k},

    with :math:`\pi` the base rates that the probabilities are right for, and :math:`\pi'`
    those of production: the rule of Bayes when the classes look the same in both places and
    only their shares differ. It holds after resampling (SMOTE, undersampling), where
    :math:`\pi` are the shares in the resampled rows.

    Without a ``target_prior`` the factors are learned: those that minimise the log-loss on the
    rows of ``fit``, for which the mean of the calibrated probabilities is (nearly) the share
    of each class.

    Parameters
    ----------
    target_prior : array-like of shape (n_classes,) or dict {class: share}, default=None
        :math:`\pi'`. None learns the factors from rows that are like those of production.
    source_prior : array-like of shape (n_classes,) or dict {class: share}, default=None
        :math:`\pi`. None takes the shares among the labels of ``fit``, which then must be
        like those that the classifier was trained on. Not used without ``target_prior``.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    factors_ : ndarray of shape (n_classes,)
        What each probability is multiplied by, with a geometric mean of 1.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Iterations of L-BFGS; 1 when the factors are given.
    converged_ : bool
        Whether it reached its tolerance.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    PlattScaling, VectorScaling : Learn a slope, too.

    Notes
    -----
    Learned factors are drawn to 1 by the penalty :math:`(K/n) \lVert \ln f \rVert^2` on the
    mean log-loss, with n the sum of the weights; this is our choice, and keeps them finite for
    a class without rows.

    References
    ----------
    M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new
    a priori probabilities: a simple procedure", Neural Computation, 2002.

    Examples
    --------
    Trained on as many frauds as others, used where one row in a hundred is a fraud:

    >>> from skcal.calibration import PriorCorrection
    >>> prior = PriorCorrection(target_prior={"no": 0.99, "fraud": 0.01})
    >>> prior.fit([0.2, 0.9, 0.3, 0.6], ["fraud", "no", "fraud", "no"]).classes_
    array(['fraud', 'no'], dtype='<U5')
    >>> prior.predict_proba([[0.5, 0.5], [0.99, 0.01]]).round(2)
    array([[0.01, 0.99],
           [0.5 , 0.5 ]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "target_prior": ["array-like", dict, None],
        "source_prior": ["array-like", dict, None],
    }

    def __init__(
        self,
        target_prior: Any = None,
        *,
        source_prior: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.target_prior = target_prior
        self.source_prior = source_prior

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        n_classes = log_proba.shape[1]
        if self.target_prior is None:
            shifts = self._learned(log_proba, codes, weights)
        else:
            source = np.bincount(codes, weights, n_classes) / weights.sum()
            if self.source_prior is not None:
                source = self._shares(self.source_prior, "source_prior")
            if (source == 0).any():
                missing = self.classes_.tolist()[int(np.argmin(source))]
                raise ValueError(
                    f"The source share of class {missing!r} is zero, so that its probability "
                    "cannot be corrected. Give the shares of the classifier's training rows as "
                    "source_prior."
                )
            target = self._shares(self.target_prior, "target_prior")
            if self.source_prior is None and np.abs(target / source - 1).max() < _SAME:
                warnings.warn(
                    "The shares in y are those of target_prior, so that nothing is corrected. If "
                    "the classifier was trained on other shares, give these as source_prior.",
                    UserWarning,
                    stacklevel=5,
                )
            shifts = np.log(np.maximum(target, TINY)) - np.log(source)
        # A class that is no more has a factor of nothing, not of infinity for the others.
        self.factors_ = np.exp(np.clip(shifts - shifts.mean(), -700.0, 700.0))

    def _learned(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        n_classes = log_proba.shape[1]
        fitted = fit_affine(
            log_proba,
            codes,
            weights,
            start=np.ones(n_classes),
            toward=np.ones(n_classes),
            coef_penalty=0.0,
            intercept_penalty=n_classes / weights.sum(),
            fit_coef=False,
        )
        self.n_iter_, self.converged_ = fitted.n_iter, fitted.converged
        return fitted.intercept

    def _shares(self, prior: Any, name: str) -> FloatArray:
        """Return the share of each class, in the order of the columns."""
        classes = self.classes_.tolist()
        if isinstance(prior, Mapping):
            if set(prior) != set(classes):
                raise ValueError(
                    f"{name} must give the share of each class {classes}; it has {list(prior)}."
                )
            prior = [prior[label] for label in classes]
        try:
            shares = np.asarray(prior, dtype=np.float64)
        except (TypeError, ValueError):  # no numbers, or ragged
            shares = np.array([])
        if shares.shape != (len(classes),) or not (
            np.isfinite(shares).all() and (shares >= 0).all() and abs(shares.sum() - 1) < 1e-6
        ):
            raise ValueError(
                f"{name} must hold {len(classes)} shares that sum to 1, in the order {classes}; "
                f"got {prior}."
            )
        return shares

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return log_proba + np.log(self.factors_)
