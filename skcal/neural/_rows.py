"""Training rows as whole tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
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
    """

    def __init__(
        self, X: Any, y: Any = None, weight: Any = None, valid: Rows | None = None
    ) -> None:
        self.X = torch.as_tensor(X)
        n = len(self.X)
        self.y = torch.zeros(n, dtype=torch.int64) if y is None else torch.as_tensor(y)
        weight = torch.ones(n) if weight is None else torch.as_tensor(weight)
        self.weight = weight.to(self.X.dtype)
        self.index = torch.arange(n)
        self.valid = valid

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> tuple[dict[str, Tensor], Tensor]:
        batch = {"X": self.X[rows], "index": self.index[rows], "weight": self.weight[rows]}
        return batch, self.y[rows]

    def take(self, rows: Any) -> Rows:
        """Return some of the rows, numbered anew from zero."""
        rows = torch.as_tensor(rows)
        return Rows(self.X[rows], self.y[rows], self.weight[rows])


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


def hold_out(rows: Rows, fraction: float, seed: int) -> Rows:
    """Return training rows, with a stratified share of the rows held out as ``valid``.

    Every class keeps a row in training.

    Raises
    ------
    ValueError
        If too few rows would be left to train on.
    """
    codes = rows.y.numpy()
    n_valid = int(np.ceil(fraction * len(rows)))
    counts = np.bincount(codes)
    splittable = np.flatnonzero(counts[codes] > 1)
    if n_valid >= len(splittable):
        raise ValueError(
            f"early_stopping=True holds out {n_valid} of the {len(rows)} samples, which leaves "
            "too few to train on; pass X_val and y_val, or set early_stopping=False."
        )
    n_classes = len(np.unique(codes[splittable]))
    stratify = min(n_valid, len(splittable) - n_valid) >= n_classes
    splitter = (StratifiedShuffleSplit if stratify else ShuffleSplit)(
        1, test_size=n_valid, random_state=seed
    )
    _, held_out = next(splitter.split(splittable, codes[splittable]))
    is_valid = np.zeros(len(rows), dtype=bool)
    is_valid[splittable[held_out]] = True
    # A split that is not stratified may take a small class whole.
    for code in np.setdiff1d(codes, codes[~is_valid]):
        is_valid[np.argmax(codes == code)] = False
    train = rows.take(np.flatnonzero(~is_valid))
    train.valid = rows.take(np.flatnonzero(is_valid))
    return train
