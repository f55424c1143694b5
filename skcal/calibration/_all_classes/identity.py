"""No calibration."""

from __future__ import annotations

from skcal._validation import FloatArray, IntArray
from skcal.calibration._base import BaseCalibrator


class IdentityCalibration(BaseCalibrator):
    """Return the probabilities as they are.

    The choice that every other calibrator has to beat.

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
        1.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``.

    Examples
    --------
    >>> from skcal.calibration import IdentityCalibration
    >>> identity = IdentityCalibration().fit([[0.8, 0.2], [0.3, 0.7]], ["a", "b"])
    >>> identity.predict_proba([[0.6, 0.4]]).round(2)
    array([[0.6, 0.4]])
    """

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        """Learn nothing."""

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return log_proba
