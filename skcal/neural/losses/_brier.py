"""The Brier score as a loss."""

from __future__ import annotations

from torch import Tensor

from skcal.neural.losses._base import Loss
from skcal.neural.losses._math import one_hot


class BrierLoss(Loss):
    r"""Squared distance of the probabilities from the label.

    .. math:: \ell_i = \sum_k (p_{ik} - 1[y_i = k])^2

    Between 0 and 2; for two classes twice scikit-learn's Brier score.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"

    Notes
    -----
    Strictly proper: its optimum is the true probabilities. The gradient vanishes for rows
    that are confidently wrong, so that training starts slowly.

    References
    ----------
    G. Brier, "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather
    Review, 1950.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import BrierLoss
    >>> BrierLoss()(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.5000)
    """

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        return (logits.softmax(dim=1) - one_hot(target, logits)).square().sum(dim=1)
