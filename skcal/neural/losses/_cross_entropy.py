"""Cross-entropy, with or without smoothed labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from skcal.neural.losses._base import Loss


class CrossEntropy(Loss):
    r"""Cross-entropy: torch's own, that takes row weights.

    .. math:: \ell_i = -(1-\epsilon) \log p_{i y_i} - \frac{\epsilon}{K} \sum_k \log p_{ik}

    Parameters
    ----------
    label_smoothing : float in [0, 1), default=0.0
        The share :math:`\epsilon` of each label that is spread evenly over all K classes.
        Some papers spread it over the K - 1 others, which is as strong as
        :math:`\epsilon K / (K - 1)` here.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If ``label_smoothing`` is not in [0, 1).

    Notes
    -----
    Smoothed labels put the optimum at probabilities that are less extreme than the true ones:
    judge by the log-loss after temperature scaling.

    References
    ----------
    C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import CrossEntropy
    >>> logits, y = torch.tensor([[2.0, 0.0], [0.5, 0.0]]), torch.tensor([0, 1])
    >>> CrossEntropy()(logits, y, sample_weight=torch.tensor([1.0, 3.0]))
    tensor(0.7623)
    """

    def __init__(self, label_smoothing: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1); got {label_smoothing!r}.")
        self.label_smoothing = label_smoothing

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        return cross_entropy(logits, target, label_smoothing=self.label_smoothing, reduction="none")
