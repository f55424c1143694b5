"""Focal losses: less weight for rows that are already right."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from skcal.neural.losses._base import Loss
from skcal.neural.losses._math import log_proba_of_others, log_proba_of_target


class FocalLoss(Loss):
    r"""Focal loss.

    .. math:: \ell_i = -(1 - p_{i y_i})^\gamma \log p_{i y_i}

    Parameters
    ----------
    gamma : float, default=2.0
        0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If ``gamma`` is negative or infinite.

    Notes
    -----
    Not a proper score: its optimum is less confident than the true probabilities, the more so
    the fewer the classes. :math:`1 - p` is computed from the other classes, so that exponents
    below 1 have finite gradients, too.

    References
    ----------
    T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object
    Detection", ICCV 2017.
    J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. Torr and P. Dokania, "Calibrating Deep
    Neural Networks using Focal Loss", NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import FocalLoss
    >>> FocalLoss(gamma=2)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.0018)
    """

    def __init__(self, gamma: float = 2.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.gamma = _exponent("gamma", gamma)

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        return focal_rows(logits, target, self.gamma)


class SampleDependentFocalLoss(Loss):
    r"""Focal loss with a larger exponent for rows whose class looks improbable (FLSD).

    .. math:: \ell_i = -(1 - p_{i y_i})^{\gamma_i} \log p_{i y_i}, \qquad
              \gamma_i = \gamma_{low} \text{ if } p_{i y_i} < t \text{ else } \gamma

    The defaults are the published FLSD-53.

    Parameters
    ----------
    gamma : float, default=3.0
        Exponent of rows at or above the threshold.
    gamma_low : float, default=5.0
        Exponent of rows below it.
    threshold : float in [0, 1], default=0.2
        Probability :math:`t` of the row's class; the loss jumps there.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If an exponent is negative or infinite, or ``threshold`` is not in [0, 1].

    References
    ----------
    J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. Torr and P. Dokania, "Calibrating Deep
    Neural Networks using Focal Loss", NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import SampleDependentFocalLoss
    >>> SampleDependentFocalLoss()(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor(1.1275)
    """

    def __init__(
        self,
        gamma: float = 3.0,
        gamma_low: float = 5.0,
        threshold: float = 0.2,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.gamma = _exponent("gamma", gamma)
        self.gamma_low = _exponent("gamma_low", gamma_low)
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a probability; got {threshold!r}.")
        self.threshold = threshold

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        proba = log_proba_of_target(logits.detach(), target).exp()
        gamma = torch.full_like(proba, self.gamma)
        gamma[proba < self.threshold] = self.gamma_low
        return focal_rows(logits, target, gamma)


class DualFocalLoss(Loss):
    r"""Focal loss that looks at the strongest class below the row's own, too.

    .. math:: \ell_i = -(1 - p_{i y_i} + q_i)^\gamma \log p_{i y_i}

    :math:`q_i` is the largest probability strictly below :math:`p_{i y_i}`, or 0.

    Parameters
    ----------
    gamma : float, default=3.0
        0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If ``gamma`` is negative or infinite.

    References
    ----------
    L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import DualFocalLoss
    >>> DualFocalLoss(gamma=2)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.0072)
    """

    def __init__(self, gamma: float = 3.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.gamma = _exponent("gamma", gamma)

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        # Logits are compared: probabilities of the same class by two ways may differ.
        own = logits.gather(1, target.unsqueeze(1))
        log_proba = log_softmax(logits, dim=1)
        below = log_proba.masked_fill(~(logits < own), -torch.inf).amax(dim=1)
        distance = torch.logaddexp(log_proba_of_others(logits, target), below)
        return -_weight(distance, self.gamma) * log_proba_of_target(logits, target)


def focal_rows(logits: Tensor, target: Tensor, gamma: float | Tensor) -> Tensor:
    """Return the focal loss of each row (n,), with one exponent or one for each row."""
    others = log_proba_of_others(logits, target)
    return -_weight(others, gamma) * log_proba_of_target(logits, target)


def _weight(log_base: Tensor, gamma: float | Tensor) -> Tensor:
    # As a power of the base itself its gradient would be infinite at 0 for exponents below 1.
    return (gamma * log_base).exp()


def _exponent(name: str, value: Any) -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is an exponent of at least 0; got {value!r}.")
    return float(value)
