"""Training rows as whole tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


class Rows(torch.utils.data.Dataset):
    """Encoded rows held as tensors; indexing with many positions gives a batch.

    A batch is ``({"X", "index", "weight"}, y)``: the loss learns which rows it sees, and
    skorch still finds the target where it expects it.

    Parameters
    ----------
    X : array-like of shape (n, ...)
    y : array-like of shape (n,), int64, optional
        Class codes.
    weight : array-like of shape (n,), optional
        Row weights, ones by default.
    valid : Rows, optional
        Rows held out for validation.
    groups : ndarray of shape (n,), optional
        Rows of one group stay together when rows are held out.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        valid: Rows | None = None,
        groups: NDArray[Any] | None = None,
    ) -> None:
        self.X = torch.as_tensor(X)
        n = len(self.X)
        self.y = torch.zeros(n, dtype=torch.int64) if y is None else torch.as_tensor(y)
        weight = torch.ones(n) if weight is None else torch.as_tensor(weight)
        self.weight = weight.to(self.X.dtype)
        self.index = torch.arange(n)
        self.valid = valid
        self.groups = groups

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> tuple[dict[str, Tensor], Tensor]:
        batch = {"X": self.X[rows], "index": self.index[rows], "weight": self.weight[rows]}
        return batch, self.y[rows]

    def take(self, rows: Any) -> Rows:
        """Return some of the rows, numbered anew from zero."""
        groups = None if self.groups is None else self.groups[rows]
        rows = torch.as_tensor(rows)
        return Rows(self.X[rows], self.y[rows], self.weight[rows], groups=groups)


class Batches:
    """Whole batches by slicing; a stand-in for torch's row-collating DataLoader.

    Parameters
    ----------
    dataset : Rows
    batch_size : int
    shuffle : bool, default=False
    generator : torch.Generator, optional
        Where the shuffles come from.
    """

    def __init__(
        self,
        dataset: Rows,
        batch_size: int = 256,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator

    def __len__(self) -> int:
        return len(self._batches(torch.arange(len(self.dataset))))

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        n = len(self.dataset)
        if not self.shuffle:
            for start in range(0, n, self.batch_size):
                yield self.dataset[start : start + self.batch_size]
        else:
            for rows in self._batches(torch.randperm(n, generator=self.generator)):
                yield self.dataset[rows]

    def _batches(self, order: Tensor) -> list[Tensor]:
        batches = list(order.split(self.batch_size))
        # Batch normalisation cannot train on a single row: it joins the batch before it.
        if self.shuffle and len(batches) > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches
