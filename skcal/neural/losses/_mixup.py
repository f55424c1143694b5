"""Mixup: training on convex combinations of rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from skcal.neural.losses._base import Loss, base_rows, check_batch


class Mix(NamedTuple):
    """How a batch was mixed.

    Attributes
    ----------
    partner : Tensor of shape (n,), int64
        The row that each row is mixed with.
    share : float
        The share of the row itself.
    """

    partner: Tensor
    share: float

    def to(self, device: Any) -> Mix:
        """Return the same mixture for rows on a device."""
        return self._replace(partner=self.partner.to(device))

    def of(self, X: Tensor) -> Tensor:
        """Return the mixed rows."""
        return self.share * X + (1.0 - self.share) * X[self.partner]


class MixupLoss(Loss):
    r"""Train on mixtures of two rows, and on the same mixture of their losses.

    Once per batch, :math:`\lambda \sim \mathrm{Beta}(\alpha, \alpha)` and a permutation
    :math:`\pi` are drawn, and

    .. math:: x'_i = \lambda x_i + (1 - \lambda) x_{\pi(i)}, \qquad
              \ell_i = \lambda\, \ell(z'_i, y_i) + (1 - \lambda)\, \ell(z'_i, y_{\pi(i)}).

    The estimators of this package mix by themselves, numbers and categories after they are
    encoded and embedded. In a loop of one's own ``draw`` the mixture, mix the inputs by its
    ``of``, and hand it to the loss.

    Parameters
    ----------
    alpha : float, default=0.3
        Large values mix evenly, small ones hardly; 0 does not mix.
    base : str or torch loss, default="cross_entropy"
        The loss :math:`\ell`: a name that :func:`make_loss` knows, a :class:`Loss`, or a loss
        of torch that can answer row by row. Penalties of the batch have no meaning here: a
        mixed row is neither right nor wrong.
    random_state : int, RandomState instance or None, default=None
        Seeds the mixtures; the estimators set it from their own.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If ``alpha`` is negative or infinite, or ``base`` penalises the batch as a whole.

    References
    ----------
    H. Zhang, M. Cisse, Y. Dauphin and D. Lopez-Paz, "mixup: Beyond Empirical Risk
    Minimization", ICLR 2018.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import MixupLoss
    >>> loss = MixupLoss(random_state=0)
    >>> X, y = torch.eye(3), torch.tensor([0, 1, 2])
    >>> mix = loss.draw(len(X))
    >>> loss(mix.of(X), y, mix=mix).shape  # a network would stand between
    torch.Size([])
    """

    def __init__(
        self,
        alpha: float = 0.3,
        base: Any = "cross_entropy",
        *,
        random_state: Any = None,
        reduction: str = "mean",
    ) -> None:
        from skcal.neural.losses._registry import make_base  # knows this class, too

        super().__init__(reduction=reduction)
        if not 0 <= alpha < math.inf:
            raise ValueError(f"alpha must be at least 0, and finite; got {alpha!r}.")
        self.alpha = alpha
        self.base: nn.Module = make_base(base)
        if getattr(self.base, "penalizes_batch", False):
            raise ValueError(
                f"base={base!r} does not go with mixup: a mixed row has two labels, and is "
                "neither right nor wrong. Take a loss of the rows, such as 'focal'."
            )
        self.random_state = random_state
        self.seed(random_state)

    def seed(self, random_state: Any) -> None:
        """Begin the mixtures anew from a seed."""
        # A generator of its own also without a seed: others may draw at the same time.
        self._random = (
            np.random.RandomState() if random_state is None else check_random_state(random_state)
        )

    def draw(self, n_rows: int) -> Mix:
        """Draw how a batch is mixed."""
        share = self._random.beta(self.alpha, self.alpha) if self.alpha > 0 else 1.0
        return Mix(torch.from_numpy(self._random.permutation(n_rows)), float(share))

    def set_epoch(self, epoch: int) -> None:
        """Tell the loss which epoch begins, counted from 0."""
        if isinstance(self.base, Loss):
            self.base.set_epoch(epoch)

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row that is not mixed, shape (n,)."""
        return base_rows(self.base, logits, target)

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        *,
        mix: Mix | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes)
            Of the mixed rows.
        target : Tensor of shape (n,), int64
            Class codes, as they were before mixing.
        sample_weight : Tensor of shape (n,), optional
            Weights of the rows, which go with their labels.
        mix : Mix, optional
            How the rows were mixed; None for rows that were not.

        Returns
        -------
        Tensor of shape (), or (n,) with ``reduction="none"``
        """
        if mix is None:
            return super().forward(logits, target, sample_weight)
        logits, target, weight = check_batch(logits, target, sample_weight)
        if mix.partner.shape != target.shape:
            raise ValueError(
                f"mix is of {len(mix.partner)} rows, but the batch has {len(target)}; draw one "
                "for each batch."
            )
        terms = mix.share * weight * self.rows(logits, target)
        terms = terms + (1.0 - mix.share) * weight[mix.partner] * self.rows(
            logits, target[mix.partner]
        )
        return self._reduce(terms, weight)
