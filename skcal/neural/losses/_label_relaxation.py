"""Label relaxation, by the package of its author."""

from __future__ import annotations

from torch import Tensor

from skcal.neural.losses._base import Loss


class LabelRelaxationLoss(Loss):
    r"""Distance to the nearest distribution that gives the label at least :math:`1 - \alpha`.

    .. math:: \ell_i = 0 \text{ if } p_{i y_i} \ge 1 - \alpha, \text{ else }
              KL(p^\alpha_i \,\|\, p_i)

    :math:`p^\alpha_i` gives the label :math:`1 - \alpha` and shares :math:`\alpha` among the
    other classes as :math:`p_i` does. Where label smoothing demands one distribution, this
    leaves the choice. Needs ``skcal[relaxation]``.

    Parameters
    ----------
    alpha : float in (0, 1), default=0.1
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ImportError
        If the package label-relaxation is not installed.
    ValueError
        If ``alpha`` is not in (0, 1).

    References
    ----------
    J. Lienen and E. Hüllermeier, "From Label Smoothing to Label Relaxation", AAAI 2021.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import LabelRelaxationLoss
    >>> LabelRelaxationLoss()(torch.tensor([[3.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    tensor(0.1840)
    """

    def __init__(self, alpha: float = 0.1, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        try:
            from label_relaxation import label_relaxation_loss
        except ImportError as error:
            raise ImportError(
                "Label relaxation needs the package label-relaxation (and torch 2.13 or newer); "
                "install it with pip install 'skcal[relaxation]'."
            ) from error
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be in (0, 1); got {alpha!r}.")
        self.alpha = alpha
        self._loss = label_relaxation_loss

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, shape (n,)."""
        return self._loss(logits, target, alpha=self.alpha, reduction="none")
