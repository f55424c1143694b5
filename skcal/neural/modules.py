"""Building blocks of the default networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout that draws from its own generator.

    torch's ``nn.Dropout`` draws from the process-wide generator, so that two fits running in
    threads disturb each other. This one is reproducible in threads too: the estimators of
    :mod:`skcal.neural` give each instance they train a seeded generator.

    Parameters
    ----------
    p : float in [0, 1), default=0.5
        Probability of dropping a value, taken to the nearest 1 in 65,536. Values that stay are
        divided by the probability of staying, so that means stay too.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1).

    Examples
    --------
    >>> import torch
    >>> from skcal.neural import Dropout
    >>> layer = Dropout(0.5)
    >>> layer.generator = torch.Generator().manual_seed(0)
    >>> layer(torch.ones(100)).unique()
    tensor([0., 2.])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"Dropout drops a share p of the values, 0 <= p < 1; got p={p!r}.")
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop values in training mode, scaling the others up; pass ``x`` on in eval mode."""
        if not self.training or self.p == 0:
            return x
        # One draw of 64 bits serves four values, to a precision of 1 in 65,536: drawing one
        # number per value would cost as much as the layers around.
        n = x.numel()
        draws = torch.empty(-(-n // 4), dtype=torch.int64, device=x.device)
        bits = draws.random_(-(2**63), None, generator=self.generator).view(torch.int16)
        n_dropped = min(round(self.p * 2**16), 2**16 - 1)  # of the 65,536 possible draws
        keep = bits[:n].view(x.shape) >= n_dropped - 2**15
        return x * keep.to(x.dtype).div_(1 - n_dropped / 2**16)

    def extra_repr(self) -> str:
        """Return the parameters shown in ``repr``."""
        return f"p={self.p}"

    def __getstate__(self) -> dict[str, Any]:
        # torch generators cannot be pickled; training sets a new one.
        return self.__dict__ | {"generator": None}


class MLP(nn.Module):
    """A plain multilayer perceptron: linear layers with ReLU and dropout, then a linear head.

    Parameters
    ----------
    n_inputs : int
    n_classes : int
    hidden_sizes : sequence of int, default=(128, 128)
        Width of each hidden layer.
    dropout : float, default=0.1
        Share of hidden values dropped in training.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural import MLP
    >>> MLP(4, 3, hidden_sizes=(8,))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_inputs: int,
        n_classes: int,
        hidden_sizes: Sequence[int] = (128, 128),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_inputs
        for size in hidden_sizes:
            layers += [nn.Linear(width, size), nn.ReLU()]
            if dropout:
                layers.append(Dropout(dropout))
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, n_classes)

    def forward(self, X: Tensor) -> Tensor:
        """Return logits of shape (n, n_classes) for rows of shape (n, n_inputs)."""
        return self.head(self.body(X))
