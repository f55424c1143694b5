"""A moving average of a network's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

# The average begins with a shorter memory: it has seen few steps.
_START = 10


class WeightAverage:
    r"""The average, step by step, of a module's weights; the module holds it between epochs.

    After step :math:`t = 1, 2, \dots` the average moves to the weights by one minus

    .. math:: \min\Big(d, \frac{1 + t}{10 + t}\Big),

    of which the second part is our choice, TensorFlow's.

    Parameters
    ----------
    module : nn.Module
    decay : float in [0, 1)
        The weight :math:`d` of the past; with 0 nothing is averaged.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._parameters = list(module.parameters()) if decay else []
        # The average while the module trains; while it holds the average, the weights themselves.
        self._spare: list[Tensor] = [p.detach().clone() for p in self._parameters]
        self._decay = decay
        self._n_steps = 0

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Give the module its own weights to train, then the average, interrupted or not."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def update(self) -> None:
        """Take in the weights after a step."""
        if not self._parameters:
            return
        self._n_steps += 1
        seen = self._n_steps
        decay = min(self._decay, (1 + seen) / (_START + seen))
        weights = [p.detach() for p in self._parameters]
        get_ema_multi_avg_fn(decay)(self._spare, weights, seen)

    def _swap(self) -> None:
        for parameter, spare in zip(self._parameters, self._spare, strict=True):
            parameter.data, spare.data = spare.data, parameter.data
