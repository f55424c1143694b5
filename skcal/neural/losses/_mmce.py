"""The maximum mean calibration error of a batch (MMCE), in its three published forms."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from skcal.neural.losses._base import Penalty
from skcal.neural.losses._math import confidence_and_hits, root, total

Variant = Literal["plain", "weighted", "official"]

# The authors' code divides by the number of pairs a second time, plus this, and adds the
# second under the root.
_PAIRS, _UNDER_ROOT = 1e-5, 1e-10


class MMCE(Penalty):
    r"""Maximum mean calibration error: a kernel distance of confidence from accuracy.

    With the confidence :math:`r_i`, :math:`c_i = 1` where it is right, and the Laplacian
    kernel :math:`k(r, r') = \exp(-|r - r'| / b)`,

    .. math:: MMCE^2 = \frac{1}{B^2} \sum_{ij} (c_i - r_i)(c_j - r_j) k(r_i, r_j).

    Parameters
    ----------
    variant : {"plain", "weighted", "official"}, default="plain"
        "plain" is the formula above. "weighted" averages over the right and over the wrong
        rows apart, each with equal weight. "official" is what the authors' code makes of the
        weighted form: it divides each double sum by its number of pairs twice, so that the
        strength falls about as 1 / B, and published weights belong to their batch of 128.
    rooted : bool, default=True
        Take the square root.
    bandwidth : float, default=0.4
        Width :math:`b` of the kernel.

    Raises
    ------
    ValueError
        If a parameter is not one of these.

    Notes
    -----
    The weighted forms are not zero for a calibrated model unless half of the rows are right:
    on an easy table they are large, and pull the confidence down. They are 0 where all rows
    are right, or all wrong. Time and memory grow with the square of the batch.

    Row weights count rows: a row of weight two is two rows. In the official form they count as
    proportions of the batch.

    References
    ----------
    A. Kumar, S. Sarawagi and U. Jain, "Trainable Calibration Measures for Neural Networks from
    Kernel Mean Embeddings", ICML 2018.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import MMCE
    >>> MMCE()(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor(0.3274)
    """

    def __init__(
        self, variant: Variant = "plain", *, rooted: bool = True, bandwidth: float = 0.4
    ) -> None:
        super().__init__()
        if variant not in ("plain", "weighted", "official"):
            raise ValueError(f"variant must be 'plain', 'weighted' or 'official'; got {variant!r}.")
        if not bandwidth > 0:
            raise ValueError(f"bandwidth must be more than 0; got {bandwidth!r}.")
        self.variant = variant
        self.rooted = rooted
        self.bandwidth = bandwidth
        # "weighted" is the one of which little is much.
        self.default_weight = 0.1 if variant == "weighted" else 2.0

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch."""
        confidence, hits = confidence_and_hits(logits, target)
        squared = (
            _plain(confidence, hits, sample_weight, self.bandwidth)
            if self.variant == "plain"
            else _weighted(
                confidence, hits, sample_weight, self.bandwidth, self.variant == "official"
            )
        )
        return root(squared) if self.rooted else squared


def _kernel_sum(gaps: Tensor, confidence: Tensor, bandwidth: float) -> Tensor:
    """Return the sum over pairs of gap times kernel times gap."""
    kernel = (-(confidence.unsqueeze(1) - confidence).abs() / bandwidth).exp()
    return gaps @ (kernel @ gaps)


def _plain(confidence: Tensor, hits: Tensor, weight: Tensor, bandwidth: float) -> Tensor:
    return _kernel_sum(weight / total(weight) * (hits - confidence), confidence, bandwidth)


def _weighted(
    confidence: Tensor, hits: Tensor, weight: Tensor, bandwidth: float, official: bool
) -> Tensor:
    """Return the form in which right and wrong rows weigh the same, squared."""
    right, wrong = weight * hits, weight * (1.0 - hits)
    n_right, n_wrong = right.sum(), wrong.sum()
    if not (n_right > 0 and n_wrong > 0):
        return 0.0 * confidence.sum()
    if not official:
        gaps = right / n_right * (1.0 - confidence) - wrong / n_wrong * confidence
        return _kernel_sum(gaps, confidence, bandwidth)
    counts = len(weight) / weight.sum()
    n_right, n_wrong = counts * n_right, counts * n_wrong
    kernel = (-(confidence.unsqueeze(1) - confidence).abs() / bandwidth).exp()
    a, b = counts * right * (1.0 - confidence), counts * wrong * confidence

    def mean(gaps: Tensor, other: Tensor, n: Tensor, m: Tensor) -> Tensor:
        return gaps @ (kernel @ other) / (n * m) / (n * m + _PAIRS)

    return (
        mean(a, a, n_right, n_right)
        + mean(b, b, n_wrong, n_wrong)
        - 2.0 * mean(a, b, n_right, n_wrong)
        + _UNDER_ROOT
    )
