"""Where a network's representation of a row is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from skcal.neural.tabular_net import LinearEnsemble

_CHUNK = 8_192


@torch.no_grad()
def embed_rows(
    module: nn.Module, X: Tensor, embedding: str, *, device: Any = "cpu"
) -> tuple[Tensor, Tensor]:
    """Run a module in eval mode and return its embeddings and logits.

    Parameters
    ----------
    module : nn.Module
        Returns logits of shape (n, n_classes). Its training mode is left as it was.
    X : Tensor of shape (n, ...)
        Inputs of the module.
    embedding : str
        "penultimate" (the input of the last linear layer that runs), "input", "logits", the
        name of a submodule (its output), or the name of a method of the module.

    Returns
    -------
    embeddings : Tensor of shape (n, d)
    logits : Tensor of shape (n, n_classes)

    Raises
    ------
    ValueError
        If the module has nothing of that name.
    """
    module = getattr(module, "_orig_mod", module)  # torch.compile hides the parts
    was_training = module.training
    if was_training:
        module.eval()
    try:
        embeddings, logits = [], []
        with _tap(module, embedding) as read:
            for part in X.split(_CHUNK):
                part = part.to(device)
                output = module(part)
                embeddings.append(read(part, output).flatten(1))
                logits.append(output)
        return torch.cat(embeddings), torch.cat(logits)
    finally:
        if was_training:
            module.train()


def _mean_of_members(layer: nn.Module, hidden: Tensor) -> Tensor:
    """Return one representation per row of the input of a layer with several members."""
    return hidden.mean(dim=1) if isinstance(layer, LinearEnsemble) else hidden


@contextmanager
def _tap(module: nn.Module, embedding: str) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
    """Yield a function from (input, output) of the last forward pass to the embedding."""
    if embedding == "input":
        yield lambda X, _: X
        return
    if embedding == "logits":
        yield lambda _, output: output
        return
    seen: list[Tensor] = []
    # The module may be answering another thread at the same time.
    caller = get_ident()

    def keep(value: Tensor) -> None:
        if get_ident() == caller:
            seen.append(value)

    parts = dict(module.named_modules())
    if embedding == "penultimate":
        linear = [part for part in parts.values() if isinstance(part, (nn.Linear, LinearEnsemble))]
        if not linear:
            raise ValueError(
                f"{type(module).__name__} has no linear layer to read a penultimate embedding "
                "from; name a submodule or a method in embedding=..."
            )
        # The last one to run wins, whatever the order in which the layers were defined.
        hooks = [
            part.register_forward_pre_hook(lambda part, args: keep(_mean_of_members(part, args[0])))
            for part in linear
        ]
    elif embedding and embedding in parts:
        hooks = [parts[embedding].register_forward_hook(lambda _, __, output: keep(output))]
    elif callable(getattr(module, embedding, None)):
        yield lambda X, _: getattr(module, embedding)(X)
        return
    else:
        names = [name for name in parts if name]
        raise ValueError(
            f"embedding={embedding!r} is neither 'penultimate', 'input' nor 'logits', nor a "
            f"submodule or method of {type(module).__name__}; its submodules are {names}."
        )

    def read(_: Tensor, __: Tensor) -> Tensor:
        last = seen[-1] if seen else None
        seen.clear()
        if not isinstance(last, Tensor):
            raise ValueError(
                f"embedding={embedding!r} cannot be read: "
                + (
                    f"{type(module).__name__} does not run it."
                    if last is None
                    else f"it is a {type(last).__name__}, not a tensor."
                )
                + " Name another submodule, or a method."
            )
        return last

    try:
        yield read
    finally:
        for hook in hooks:
            hook.remove()
