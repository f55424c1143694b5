"""Soft accuracy versus uncertainty (S-AvUC)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from skcal.neural.losses._base import Penalty
from skcal.neural.losses._math import total

# Share of a uniform distribution in the probabilities, and how near relative entropies may
# come to 0 and 1: both keep logarithms finite.
_UNIFORM, _EDGE = 1e-5, 1e-6
# Below this a count is not divided by.
_FLOOR = 1e-5


class SoftAvUC(Penalty):
    r"""Rows that are right shall be certain, rows that are wrong uncertain.

    With the entropy :math:`h` of a row, its share :math:`e = h / \log K` of the largest and

    .. math:: u = \sigma\Big( \frac{\mathrm{logit}(e) - \mathrm{logit}(\kappa)}{T} \Big),
              \qquad
              \log\Big( 1 + \frac{\sum_{right} u \tanh h + \sum_{wrong} (1-u)(1 - \tanh h)}
                                 {\sum_{right} (1-u)(1 - \tanh h) + \sum_{wrong} u \tanh h}
              \Big).

    Parameters
    ----------
    temperature : float, default=0.3
        Softness :math:`T` of the step from certain to uncertain; the gradients of most rows
        vanish below about 0.1.
    threshold : float in (0, 1), default=0.5
        The relative entropy :math:`\kappa` at which a row is neither.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    It rewards certainty wherever a row is right, so that its optimum is over-confident. In a
    batch that is wrong throughout it is large: a warm-up without it helps
    (:class:`PenalizedLoss`). The published code has no defaults; these are ours.

    References
    ----------
    A. Karandikar et al., "Soft Calibration Objectives for Neural Networks", NeurIPS 2021.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import SoftAvUC
    >>> SoftAvUC()(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor(0.2341)
    """

    default_weight = 0.3

    def __init__(self, temperature: float = 0.3, threshold: float = 0.5) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be more than 0; got {temperature!r}.")
        if not 0 < threshold < 1:
            raise ValueError(f"threshold must be in (0, 1); got {threshold!r}.")
        self.temperature = temperature
        self.threshold = threshold

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch."""
        n_classes = logits.shape[1]
        proba = torch.lerp(logits.softmax(dim=1), logits.new_tensor(1.0 / n_classes), _UNIFORM)
        entropy = -(proba * proba.log()).sum(dim=1)
        relative = (entropy / math.log(n_classes)).clamp(_EDGE, 1.0 - _EDGE)
        step = (relative.logit() - math.log(self.threshold / (1 - self.threshold))).div(
            self.temperature
        )
        right = (logits.argmax(dim=1) == target).to(proba)
        uncertain = step.sigmoid() * entropy.tanh()
        certain = (-step).sigmoid() * (1.0 - entropy.tanh())
        weight = sample_weight * (len(sample_weight) / total(sample_weight))
        good = weight @ (right * certain + (1.0 - right) * uncertain)
        bad = weight @ (right * uncertain + (1.0 - right) * certain)
        return (bad / good.clamp(min=_FLOOR)).log1p()
