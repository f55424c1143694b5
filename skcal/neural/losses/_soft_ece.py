"""The calibration error with soft bins (SB-ECE)."""

from __future__ import annotations

import torch
from torch import Tensor

from skcal.neural.losses._base import Penalty
from skcal.neural.losses._math import confidence_and_hits, root, total

# Rows in a bin, at least, when its means are taken.
_FLOOR = 1e-5


class SoftECE(Penalty):
    r"""Expected calibration error with bins that share each row.

    A row of confidence :math:`r_i` belongs to the bin with centre :math:`b_m = (m - 1/2) / M`
    by :math:`g_{im} = \mathrm{softmax}_m(-(r_i - b_m)^2 / T)`; with the means of confidence
    and hits in each bin,

    .. math:: SBECE = \sqrt{ \sum_m \frac{\sum_i g_{im}}{B} (conf_m - acc_m)^2 }.

    Parameters
    ----------
    n_bins : int, default=15
        The number :math:`M` of bins.
    temperature : float, default=0.01
        Softness :math:`T` of the bins.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    A. Karandikar et al., "Soft Calibration Objectives for Neural Networks", NeurIPS 2021.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import SoftECE
    >>> SoftECE()(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor(0.4452)
    """

    default_weight = 0.3

    def __init__(self, n_bins: int = 15, temperature: float = 0.01) -> None:
        super().__init__()
        if not (n_bins >= 1 and n_bins % 1 == 0):
            raise ValueError(f"n_bins must be a whole number of at least 1; got {n_bins!r}.")
        if not temperature > 0:
            raise ValueError(f"temperature must be more than 0; got {temperature!r}.")
        self.n_bins = n_bins
        self.temperature = temperature

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch."""
        confidence, hits = confidence_and_hits(logits, target)
        centres = (torch.arange(self.n_bins).to(confidence) + 0.5) / self.n_bins
        distance = (confidence.unsqueeze(1) - centres).square()
        share = (-distance / self.temperature).softmax(dim=1)
        weight = sample_weight / total(sample_weight)  # the batch counts as one
        size = weight @ share
        gap = (weight * (confidence - hits)) @ share / size.clamp(min=_FLOOR / len(weight))
        return root(size @ gap.square())
