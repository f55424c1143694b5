"""Pieces that several losses are made of, with gradients that stay finite."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

# What lies below is 0, where a square root would have an infinite gradient.
_TINY = 1e-12


def root(x: Tensor) -> Tensor:
    """Return the square root of what should not be negative: 0, with a gradient of 0, at 0."""
    large = ~(x <= _TINY)  # NaN stays NaN
    return torch.where(large, torch.where(large, x, 1.0).sqrt(), 0.0)


def total(weight: Tensor) -> Tensor:
    """Return the sum over rows of weights; 1 if all are 0, as is then whatever it divides."""
    size = weight.sum(dim=0)
    return torch.where(size == 0, 1.0, size)


def log_proba_of_target(logits: Tensor, target: Tensor) -> Tensor:
    """Return the log-probability of each row's class, shape (n,)."""
    return log_softmax(logits, dim=1).gather(1, target.unsqueeze(1)).squeeze(1)


def log_proba_of_others(logits: Tensor, target: Tensor) -> Tensor:
    """Return log(1 - p) of each row's class, shape (n,): no rounding where p is almost 1."""
    others = logits.scatter(1, target.unsqueeze(1), -torch.inf)
    return others.logsumexp(dim=1) - logits.logsumexp(dim=1)


def confidence_and_hits(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's largest probability, and 1.0 where its class is the right one.

    Both have shape (n,); hits are constants for the gradient.
    """
    # Rows whose classes are all alike pull on all of them, whichever comes first.
    confidence = logits.softmax(dim=1).amax(dim=1)
    return confidence, (logits.argmax(dim=1) == target).to(confidence)


def one_hot(target: Tensor, like: Tensor) -> Tensor:
    """Return the classes as rows of zeros and a one, shape and type of ``like`` (n, K)."""
    return torch.zeros_like(like).scatter_(1, target.unsqueeze(1), 1.0)
