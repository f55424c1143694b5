"""One network out of several that were trained on different rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skcal.neural.tabular_net import mean_log_proba


class FoldEnsemble(nn.Module):
    """The mean probability of networks that were each trained without one fold of the rows.

    Parameters
    ----------
    networks : sequence of nn.Module
        Each returns logits of shape (n, n_classes).
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, X: Tensor) -> Tensor:
        """Return the logarithm of the mean probability, of shape (n, n_classes)."""
        return mean_log_proba(torch.stack([network(X) for network in self.networks], dim=1))
