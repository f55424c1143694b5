"""Penalties on means over a batch: MDCA of every class, DCA of the confidence."""

from __future__ import annotations

from torch import Tensor

from skcal.neural.losses._base import Penalty
from skcal.neural.losses._math import confidence_and_hits, one_hot, total


class MDCA(Penalty):
    r"""Multi-class difference of confidence and accuracy.

    .. math:: MDCA = \frac1K \sum_k \Big| \frac1B \sum_i p_{ik} - \frac1B \sum_i 1[y_i = k]
              \Big|

    Notes
    -----
    A network with a bias in its last layer already has means that fit over all rows; the
    penalty acts through the chance of the batches, and hence depends on their size. It cannot
    see over-confidence that is balanced between classes.

    References
    ----------
    R. Hebbalaguppe, J. Prakash, N. Madan and C. Arora, "A Stitch in Time Saves Nine: A
    Train-Time Regularizing Loss for Improved Neural Network Calibration", CVPR 2022.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import MDCA
    >>> MDCA()(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
    tensor(0.2500)
    """

    default_weight = 1.0

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch."""
        gaps = logits.softmax(dim=1) - one_hot(target, logits)
        return (sample_weight @ gaps / total(sample_weight)).abs().mean()


class DCA(Penalty):
    r"""Difference between the mean confidence and the accuracy of a batch.

    .. math:: DCA = \Big| \frac1B \sum_i r_i - \frac1B \sum_i c_i \Big|

    :math:`r_i` is the largest probability of a row, :math:`c_i` is 1 where that class is right.

    Notes
    -----
    Errors in opposite directions cancel in a single mean.

    References
    ----------
    G. Liang, Y. Zhang, X. Wang and N. Jacobs, "Improved Trainable Calibration Method for Neural
    Networks on Medical Imaging Classification", BMVC 2020.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import DCA
    >>> DCA()(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
    tensor(0.2500)
    """

    default_weight = 2.0

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch."""
        confidence, hits = confidence_and_hits(logits, target)
        return (sample_weight @ (confidence - hits) / total(sample_weight)).abs()
