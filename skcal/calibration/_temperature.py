"""Temperature scaling."""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcal._rows import row_blocks, row_max
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator

_MAX_ITER = 200
_LONGEST_STEP = 2.0  # in ln T: far from the optimum the objective is no parabola
_PATIENCE = 15
# Above this many rows the search starts from the answer of a share of them.
_MANY_ROWS, _FEW_ROWS = 20_000, 4_000


class TemperatureScaling(BaseCalibrator):
    r"""Divide all logits by one number, the temperature.

    .. math:: q = \mathrm{softmax}(z / T), \qquad
              T = \arg\min_T \sum_i w_i \big[ -\ln q_{i y_i} \big]
              + s \cdot \overline{KL}(p \,\|\, q).

    T > 1 softens predictions, T < 1 sharpens them; the ranking of the classes within a row,
    and so accuracy, never changes. The objective is convex in 1/T, and T is found by Newton's
    method on its derivative, inside a bracket.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    shrinkage : float, default=10.0
        Strength :math:`s` of the pull towards T = 1, in rows: as if that many further rows
        had been seen whose labels were drawn from the model's own probabilities. It bounds T
        on few or error-free rows and fades as 1/n. 0 is plain maximum likelihood.
    bounds : (float, float), default=(1e-7, 1e7)
        Range of T.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    temperature_ : float
        T.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Evaluations of the derivatives.
    converged_ : bool
        False when the optimum lies outside ``bounds``; T is then the nearer bound.
    loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after calibration.
    baseline_loss_ : float
        The same before calibration. ``loss_`` is never greater.

    See Also
    --------
    CalibratedClassifier : Calibrates a classifier, taking care of held-out rows.

    Notes
    -----
    The pull towards T = 1 is the mean Kullback-Leibler divergence of the uncalibrated from
    the calibrated rows, which is zero at T = 1: this is why calibration cannot be worse than
    none on its own rows. It is this package's choice; other libraries mix the calibrated
    probabilities with uniform ones instead, which also serves against infinite log-loss.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal import TemperatureScaling
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]] * 25)
    >>> y = ["no", "no", "yes", "yes"] * 25
    >>> scaling = TemperatureScaling(input="logits").fit(logits, y)
    >>> round(scaling.temperature_, 2)
    3.29
    >>> scaling.predict_proba(logits[:1]).round(2)
    array([[0.77, 0.23]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "bounds": [tuple, list],
    }

    def __init__(
        self,
        *,
        input: Input = "proba",
        shrinkage: float = 10.0,
        bounds: tuple[float, float] = (1e-7, 1e7),
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.shrinkage = shrinkage
        self.bounds = bounds

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        if len(self.bounds) != 2 or not 0 < self.bounds[0] <= self.bounds[1] < np.inf:
            raise ValueError(f"bounds must be two positive numbers (low, high); got {self.bounds}.")
        self.temperature_, self.n_iter_, self.converged_ = find_temperature(
            log_proba, codes, weights, shrinkage=self.shrinkage, bounds=self.bounds
        )

    def _advice(self) -> str:
        return (
            f"the best temperature lies outside bounds={self.bounds}, and {self.temperature_:.6g} "
            "is used"
        )

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        return log_proba / self.temperature_


def find_temperature(
    log_proba: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    *,
    shrinkage: float = 10.0,
    bounds: tuple[float, float] = (1e-7, 1e7),
) -> tuple[float, int, bool]:
    """Return the best temperature, the evaluations, and whether it lies inside the bounds.

    Parameters and objective are those of :class:`TemperatureScaling`, on clean arrays.
    """
    start, n_iter = 1.0, 0
    if len(codes) > _MANY_ROWS:  # The answer of a share of the rows is a good start.
        some = slice(None, None, len(codes) // _FEW_ROWS)
        if weights[some].any():
            start, n_iter, _ = find_temperature(
                log_proba[some], codes[some], weights[some], shrinkage=shrinkage, bounds=bounds
            )
    derivatives = (_of_two if log_proba.shape[1] == 2 else _of_many)(
        log_proba, codes, weights, shrinkage
    )
    low, high = -float(np.log(bounds[1])), -float(np.log(bounds[0]))
    log_inverse, more, inside = _root(derivatives, -float(np.log(start)), low, high)
    return float(np.exp(-log_inverse)), n_iter + more, inside


# Two derivatives of the objective with respect to 1/T, as a function of 1/T.
_Derivatives = Callable[[float], tuple[float, float]]


def _root(
    derivatives: _Derivatives, start: float, low: float, high: float
) -> tuple[float, int, bool]:
    """Return the root in ln(1/T), the evaluations, and whether it is inside the bounds.

    Newton's method inside a bracket: the first derivative rises with 1/T.
    """
    bounds = low, high
    at_high = at_low = False  # whether the ends of the bracket have been looked at
    here = min(max(start, low), high)
    for n_iter in range(1, _MAX_ITER + 1):
        inverse = np.exp(here)
        first, second = derivatives(inverse)
        # Scores that are equal within each row tell nothing about T.
        if first == 0.0:
            return here, n_iter, n_iter > 1 or here == start
        if here == bounds[0 if first > 0 else 1]:
            return here, n_iter, False
        if first > 0:
            high, at_high = here, True
        else:
            low, at_low = here, True
        curvature = second * inverse + first
        closed = at_low and at_high
        if curvature > 0 and (closed or n_iter < _PATIENCE):
            step = -first / curvature
        else:  # far off, where the derivative fades like an exponential and steps are tiny
            step = -_LONGEST_STEP * np.sign(first)
        there = here + min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
        if there >= high:
            there = (here + high) / 2 if at_high else high
        elif there <= low:
            there = (here + low) / 2 if at_low else low
        if abs(there - here) < 1e-9:  # The next step would be about its square.
            return there, n_iter, True
        here = there
    return here, n_iter, False


def _of_two(
    log_proba: FloatArray, codes: IntArray, weights: FloatArray, shrinkage: float
) -> _Derivatives:
    """Return the derivatives for two classes, which have one score: the margin of the first."""
    margin = log_proba[:, 0] - log_proba[:, 1]
    # The targets are the labels, plus the model's own probabilities at the given strength.
    pull = shrinkage * weights / weights.sum()
    wanted = float(weights @ (margin * (codes == 0)) + pull @ (margin * np.exp(log_proba[:, 0])))
    moved = (weights + pull) * margin

    def derivatives(inverse: float) -> tuple[float, float]:
        first = second = 0.0
        for rows in row_blocks((len(margin), 1)):
            part, size = margin[rows], moved[rows]
            small = np.exp(-np.abs(inverse * part))
            whole = 1 + small
            first += float(size @ (np.where(part >= 0, 1.0, small) / whole))
            second += float((size * part) @ (small / whole**2))
        return first - wanted, second

    return derivatives


def _of_many(
    log_proba: FloatArray, codes: IntArray, weights: FloatArray, shrinkage: float
) -> _Derivatives:
    """Return the derivatives for any number of classes, block by block."""
    shape, ones = log_proba.shape, np.ones(log_proba.shape[1])
    top = np.empty(len(codes))
    pull = shrinkage * weights / weights.sum()
    total = weights + pull
    wanted = 0.0
    for rows in row_blocks(shape):
        part = log_proba[rows]
        top[rows] = row_max(part)
        scores = part - top[rows, None]
        own = np.exp(part)
        own *= scores
        wanted += float(weights[rows] @ scores[np.arange(len(part)), codes[rows]])
        wanted += float(pull[rows] @ (own @ ones))

    def derivatives(inverse: float) -> tuple[float, float]:
        first = second = 0.0
        for rows in row_blocks(shape):
            # Scores are at most zero, so no power overflows, and each row has one that is 1.
            scores = log_proba[rows] - top[rows, None]
            powers = np.exp(inverse * scores)
            sums = powers @ ones
            powers *= scores
            mean = (powers @ ones) / sums
            powers *= scores
            first += float(total[rows] @ mean)
            second += float(total[rows] @ ((powers @ ones) / sums - mean**2))
        return first - wanted, second

    return derivatives
