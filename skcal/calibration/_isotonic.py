"""Isotonic calibration."""

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from skcal._validation import FloatArray
from skcal.calibration._one_vs_rest import OneVsRestMap, smoothed_targets

# Steps rise by this much in log-odds, so that rows on one step keep the order of their scores.
_TILT = 1e-9


class IsotonicCalibration(OneVsRestMap):
    r"""Fit a rising step curve to the probability of each class.

    The best non-decreasing map of the log-odds of the second of two classes, or of each
    class against the rest, divided by their sum; between two steps it is linear in the
    log-odds. Outcomes are replaced by Platt's smoothed targets :math:`(n_+ + 1)/(n_+ + 2)`
    and :math:`1/(n_- + 2)`: a plain isotonic fit says 0 and 1, and one wrong row then makes
    the log-loss infinite. Steps are tilted by 1e-9, so that ties do not undo the ranking.

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
    maps_ : list of IsotonicRegression or None
        The curves over log-odds: one for two classes, one per class otherwise; None
        for a class without rows, which keeps its probability.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    TemperatureScaling : Safer on few rows and with many classes.

    Notes
    -----
    Needs many rows, and one-vs-rest curves are fitted apart: with few rows per class it
    often makes the log-loss worse. Where every curve says its lowest value, the row is close
    to uniform over the classes.

    References
    ----------
    B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass
    probability estimates", KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import IsotonicCalibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p**2  # over-confident in the second class
    >>> isotonic = IsotonicCalibration().fit(p, y)
    >>> isotonic.predict_proba([0.8])[:, 1].round(1)
    array([0.6])
    """

    def _fit_column(self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray) -> Any:
        curve = IsotonicRegression(out_of_bounds="clip", increasing=True)
        return curve.fit(log_odds, smoothed_targets(hit, weights), sample_weight=weights)

    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        steps = logit(np.clip(learned.predict(log_odds), 1e-300, 1 - 1e-16))
        return steps + _TILT * np.arctan(log_odds)
