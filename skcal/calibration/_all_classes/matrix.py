"""Matrix scaling."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input
from skcal.calibration._all_classes.affine_scaling import AffineScaling, structured_penalties
from skcal.calibration._base import BaseCalibrator


class MatrixScaling(AffineScaling):
    r"""Apply a matrix and a shift to the logits.

    .. math:: q = \mathrm{softmax}(M z / T + b),

    where z are logits centred to mean zero in each row, and T is the temperature that
    :class:`TemperatureScaling` finds. The mean log-loss is minimised with a penalty:

    - ``penalty="structured"``: the strengths of :class:`StructuredMatrixScaling`, times
      ``reg``, on the diagonal less one, the other entries, and b,
    - ``penalty="odir"``: :math:`s` on the other entries and on b; the diagonal is free,
    - ``penalty="l2"``: :math:`s` on all entries of M less the identity, and on b,
    - ``penalty=None``: maximum likelihood.

    Parameters
    ----------
    penalty : {"structured", "odir", "l2"} or None, default="structured"
        What is penalised.
    reg : float or "auto", default="auto"
        For "structured" a factor, 1 if "auto". For "odir" and "l2" the strength s, which is
        :math:`K(K-1)/n` if "auto", with n the sum of the weights.
    max_iter : int, default=1000
        Most iterations of L-BFGS.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    temperature_ : float
        T.
    coef_ : ndarray of shape (n_classes, n_classes)
        M.
    intercept_ : ndarray of shape (n_classes,)
        b.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Iterations of L-BFGS.
    converged_ : bool
        Whether it reached its tolerance.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration, without
        penalties.

    See Also
    --------
    StructuredMatrixScaling : The published form of the structured penalty.

    Notes
    -----
    Without a penalty, or with a fixed one, the map over-fits when there are ten classes or
    more and few rows. Centring the logits and the strength "auto" are this package's choice.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017 (matrix scaling). M. Kull et al., "Beyond temperature scaling", NeurIPS 2019
    (ODIR). E. Berta et al., arXiv:2511.03685 (structured penalty).

    Examples
    --------
    >>> from skcal.calibration import MatrixScaling
    >>> from skcal.datasets import make_calibration_data
    >>> _, y, p = make_calibration_data(2000, n_classes=3, random_state=0)
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # over-confident
    >>> scaling = MatrixScaling().fit(sharp, y)
    >>> scaling.loss_ < scaling.baseline_loss_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "penalty": [StrOptions({"structured", "odir", "l2"}), None],
        "reg": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        penalty: str | None = "structured",
        reg: Any = "auto",
        max_iter: int = 1_000,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.penalty = penalty
        self.reg = reg
        self.max_iter = max_iter

    def _penalties(self, n_classes: int, n: float) -> tuple[FloatArray, FloatArray, float]:
        identity = np.eye(n_classes)
        if self.penalty == "structured":
            factor = 1.0 if self.reg == "auto" else self.reg
            return structured_penalties(n_classes, n, "matrix", reg=factor)
        if self.penalty is None:
            return identity, 0 * identity, 0.0
        strength = n_classes * (n_classes - 1) / n if self.reg == "auto" else float(self.reg)
        entries = 1 - identity if self.penalty == "odir" else np.ones_like(identity)
        return identity, strength * entries, strength
