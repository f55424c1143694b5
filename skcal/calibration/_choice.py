"""Calibrators by name, and the one that chooses among them by cross-validation."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._all_classes.dirichlet import DirichletCalibration
from skcal.calibration._all_classes.ensemble_temperature import EnsembleTemperatureScaling
from skcal.calibration._all_classes.identity import IdentityCalibration
from skcal.calibration._all_classes.matrix import MatrixScaling
from skcal.calibration._all_classes.structured import StructuredMatrixScaling
from skcal.calibration._all_classes.temperature import TemperatureScaling
from skcal.calibration._all_classes.vector import VectorScaling
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.folds import deal_folds, held_out_losses
from skcal.calibration._local.kernel import KernelCalibration
from skcal.calibration._local.lcn import LocalCalibrationNetwork
from skcal.calibration._local.local_temperature import LocalTemperatureScaling
from skcal.calibration._local.multicalibration import MultiCalibration
from skcal.calibration._local.proximity import ProximityCalibration
from skcal.calibration._local.vq_dirichlet import VQDirichletCalibration
from skcal.calibration._one_vs_rest.beta import BetaCalibration
from skcal.calibration._one_vs_rest.histogram import HistogramBinning
from skcal.calibration._one_vs_rest.isotonic import IsotonicCalibration
from skcal.calibration._one_vs_rest.platt import PlattScaling
from skcal.calibration._one_vs_rest.quadratic import QuadraticScaling
from skcal.calibration._one_vs_rest.scaling_binning import ScalingBinning
from skcal.calibration._one_vs_rest.venn_abers import VennAbersCalibration

_TWO_CLASSES = ("identity", "temperature", "sigmoid", "beta", "isotonic")
_MORE_CLASSES = ("identity", "temperature", "svs", "sms", "isotonic")


class AutoCalibration(BaseCalibrator):
    r"""Choose among calibrators by cross-validated log-loss, preferring simple ones.

    Each candidate is fitted on all folds but one and scored on that one. Chosen is the first
    candidate in the list whose mean log-loss is not above the least one by more than a
    standard error: the standard error of the rows' differences in log-loss between the two.
    It is then fitted on all rows.

    Parameters
    ----------
    candidates : list of str or calibrator, default=None
        Names or instances, the simpler ones first. None is "identity", "temperature",
        "sigmoid", "beta" and "isotonic" for two classes, and "identity", "temperature",
        "svs", "sms" and "isotonic" for more.
    cv : int, default=5
        Number of folds, at most as many as rows. Each has its share of every class. Rows are
        shuffled by a fixed seed after sorting, so that the choice depends neither on chance nor
        on their order.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    calibrator_ : calibrator
        The chosen one, fitted on all rows; it reads logits.
    best_index_ : int
        Its place in the list.
    reason_ : str
        Why it was chosen, in a sentence.
    cv_results_ : dict
        Arrays with one entry per candidate: "calibrator", its name; "mean_log_loss", in nats;
        "difference", to the least; "standard_error", of the difference;
        "within_one_standard_error".
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Iterations of the chosen one.
    converged_ : bool
        Whether it reached its optimum.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    make_calibrator : The names.

    Notes
    -----
    The rule is that of Breiman and others for trees; that the standard error is the one of
    the paired differences, which is smaller than that of a score, is our choice.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen and C. Stone, "Classification and Regression Trees",
    1984 (section 3.4.3).

    Examples
    --------
    >>> from skcal.calibration import AutoCalibration
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> AutoCalibration().fit(p, y).calibrator_  # p is calibrated
    IdentityCalibration(input='logits')
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    >>> auto = AutoCalibration().fit(sharp, y)
    >>> auto.calibrator_
    TemperatureScaling(input='logits')
    >>> auto.reason_
    'temperature has the least cross-validated log-loss, 0.5846 nats, and no simpler ...'

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "candidates": [list, tuple, None],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        candidates: Any = None,
        *,
        cv: int = 5,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.candidates = candidates
        self.cv = cv

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        names, candidates = self._candidates(log_proba.shape[1])
        folds = deal_folds(log_proba, codes, min(self.cv, len(codes)))
        losses = np.array(
            [held_out_losses(one, log_proba, codes, weights, folds) for one in candidates]
        )
        means = losses @ weights / weights.sum()
        best = int(means.argmin())
        difference = means - means[best]
        spread = (losses - losses[best] - difference[:, None]) ** 2 @ weights / weights.sum()
        error = np.sqrt(spread / weights.sum())
        within = difference <= error
        self.best_index_ = int(within.argmax())
        self.cv_results_ = {
            "calibrator": np.array(names),
            "mean_log_loss": means,
            "difference": difference,
            "standard_error": error,
            "within_one_standard_error": within,
        }
        self.reason_ = (
            _reason(names, means, error, best, self.best_index_)
            if len(codes) > 1
            else "A single row decides nothing, and the first candidate is taken."
        )
        self.calibrator_ = clone(candidates[self.best_index_]).set_params(input="logits")
        self.calibrator_._learn(
            log_proba, codes, weights, classes=np.arange(log_proba.shape[1]), eps=self.eps_
        )
        self.n_iter_ = self.calibrator_.n_iter_
        self.converged_ = self.calibrator_.converged_

    def _advice(self) -> str:
        return f"{type(self.calibrator_).__name__}: {self.calibrator_._advice()}"

    def _candidates(self, n_classes: int) -> tuple[list[str], list[BaseCalibrator]]:
        given = self.candidates
        if given is None:
            given = _TWO_CLASSES if n_classes == 2 else _MORE_CLASSES
        if not len(given):
            raise ValueError("candidates is empty; name at least one calibrator, or pass None.")
        found = [make_calibrator(one) for one in given]
        for one in found:
            if not isinstance(one, BaseCalibrator):
                raise TypeError(
                    f"candidates must be names or calibrators of skcal; got {one!r}. Derive it "
                    "from skcal.calibration.BaseCalibrator."
                )
        return [one if isinstance(one, str) else repr(one) for one in given], found

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return self.calibrator_._transform(log_proba)


def _reason(names: list[str], means: FloatArray, error: FloatArray, best: int, chosen: int) -> str:
    """Say why a candidate was chosen."""
    least = f"{names[best]} has the least cross-validated log-loss, {means[best]:.4f} nats"
    if best == chosen:
        return f"{least}, and no simpler candidate is within a standard error of it."
    return (
        f"{least}; {names[chosen]} is simpler, and its {means[chosen]:.4f} are within a standard "
        f"error ({error[chosen]:.4f}) of it."
    )


_BY_NAME: dict[str, Any] = {
    "identity": IdentityCalibration,
    "temperature": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "sigmoid": PlattScaling,
    "platt": PlattScaling,
    "quadratic": QuadraticScaling,
    "beta": BetaCalibration,
    "isotonic": IsotonicCalibration,
    "histogram": HistogramBinning,
    "scaling_binning": ScalingBinning,
    "venn_abers": VennAbersCalibration,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "svs": partial(StructuredMatrixScaling, structure="vector"),
    "sms": StructuredMatrixScaling,
    "auto": AutoCalibration,
}
CALIBRATOR_NAMES = tuple(_BY_NAME)
# These read features beside the scores.
_LOCAL_BY_NAME: dict[str, Any] = {
    "vq_dirichlet": VQDirichletCalibration,
    "local_temperature": LocalTemperatureScaling,
    "lcn": LocalCalibrationNetwork,
    "kernel": KernelCalibration,
    "proximity": ProximityCalibration,
    "multicalibration": MultiCalibration,
}
LOCAL_CALIBRATOR_NAMES = tuple(_LOCAL_BY_NAME)


def make_calibrator(calibrator: Any) -> Any:
    """Return an unfitted calibrator for a name or an instance.

    Parameters
    ----------
    calibrator : str or calibrator
        A name: scikit-learn's "temperature", "sigmoid" (or "platt") and "isotonic", and
        "identity", "ets", "quadratic", "beta", "histogram", "scaling_binning", "venn_abers",
        "vector", "matrix", "dirichlet", "svs", "sms" and "auto"; of those that read features,
        too, "vq_dirichlet", "local_temperature", "lcn", "kernel", "proximity" and
        "multicalibration". Or an object with
        ``fit(scores, y, sample_weight, classes=...)`` and ``predict_proba(scores)``, which is
        cloned.

    Returns
    -------
    calibrator

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a calibrator.

    Examples
    --------
    >>> from skcal.calibration import make_calibrator
    >>> make_calibrator("sigmoid")
    PlattScaling()
    """
    if isinstance(calibrator, str):
        known = _BY_NAME | _LOCAL_BY_NAME
        if calibrator not in known:
            near = get_close_matches(calibrator, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"Unknown calibrator {calibrator!r}; the names are {sorted(known)}.{hint}"
            )
        return known[calibrator]()
    if isinstance(calibrator, type) or not (
        hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    ):
        raise TypeError(
            "calibrator must be a name or an instance with fit and predict_proba; got "
            f"{calibrator!r}."
        )
    return clone(calibrator, safe=False)
