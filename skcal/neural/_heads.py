"""Several linear heads in the place of a network's output layer."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from skcal.neural._embedding import embed_rows
from skcal.neural.tabular_net import mean_log_proba

Averaging = Literal["proba", "logit"]


class Heads(nn.Module):
    """Linear heads on the same representation, computed as one layer.

    Parameters
    ----------
    n_inputs : int
    n_classes : int
    n_heads : int
    averaging : {"proba", "logit"}, default="proba"
        How the heads answer together.
    bias : bool, default=True
    """

    def __init__(
        self,
        n_inputs: int,
        n_classes: int,
        n_heads: int,
        averaging: Averaging = "proba",
        bias: bool = True,
    ) -> None:
        super().__init__()
        # torch draws weights by the number of inputs alone: each head is drawn as if apart.
        self.linear = nn.Linear(n_inputs, n_heads * n_classes, bias=bias)
        self.n_heads = n_heads
        self.averaging = averaging

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the heads' logits in training, and those of their average after it."""
        logits = self.linear(hidden).unflatten(-1, (self.n_heads, -1))
        return logits if self.training else self.average(logits)

    def average(self, logits: Tensor) -> Tensor:
        """Return logits (n, n_classes) of the average of the heads' (n, n_heads, n_classes)."""
        return mean_log_proba(logits) if self.averaging == "proba" else logits.mean(dim=1)


def replace_output_layer(
    module: nn.Module, name: str, n_classes: int, n_heads: int, averaging: Averaging
) -> None:
    """Put heads in the place of a linear layer.

    Parameters
    ----------
    module : nn.Module
        Changed in place.
    name : str
        Of the layer; "auto" is the last linear layer defined that has an output per class.
    n_classes, n_heads : int
    averaging : {"proba", "logit"}

    Raises
    ------
    ValueError
        If there is no such layer.
    """
    linear = {
        path: part
        for path, part in module.named_modules()
        if path
        and isinstance(part, nn.Linear)
        and part.out_features == n_classes
        and not isinstance(part, nn.LazyLinear)  # which does not know its inputs yet
    }
    if name == "auto" and linear:
        name = [*linear][-1]
    if name not in linear:
        raise ValueError(
            f"The heads take the place of a linear layer with one output for each of the "
            f"{n_classes} classes; {type(module).__name__} "
            + ("has none. " if name == "auto" else f"has none of the name {name!r}. ")
            + (f"Those it has are {[*linear]}." if linear else "Give it one as its output layer.")
        )
    old = linear[name]
    heads = Heads(old.in_features, n_classes, n_heads, averaging, bias=old.bias is not None)
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, heads)


def heads_of(module: nn.Module) -> Heads:
    """Return the heads of a network that has them."""
    return next(part for part in module.modules() if isinstance(part, Heads))


def logits_of_heads(module: nn.Module, X: Tensor, *, device: Any = "cpu") -> Tensor:
    """Return what every head of a network says of some rows, (n, n_heads, n_classes)."""
    module = getattr(module, "_orig_mod", module)  # torch.compile hides the parts
    heads = heads_of(module)
    [path] = [name for name, part in module.named_modules() if part is heads.linear]
    return embed_rows(module, X, path, device=device)[0].unflatten(1, (heads.n_heads, -1))


def check_output_layer(module: nn.Module, X: Tensor) -> None:
    """Refuse a network that returns something else than its heads do.

    Raises
    ------
    ValueError
        If the heads are not the output layer.
    """
    module = getattr(module, "_orig_mod", module)  # hooks are for what is not compiled
    seen: list[Tensor] = []
    hook = heads_of(module).register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        with torch.no_grad():
            output = module(X)
    finally:
        hook.remove()
    if not (seen and output.shape == seen[-1].shape and output.equal(seen[-1])):
        raise ValueError(
            f"{type(module).__name__} does not return what its layer of heads returns. The heads "
            "take the place of the output layer: name it in head=..., and let the module return "
            "its logits as they are."
        )
