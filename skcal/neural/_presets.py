"""What the presets of NeSCalMLP stand for, and its rules for tables of any size."""

from __future__ import annotations

import math
from typing import Any

# One line per parameter whose default is "auto".
PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "n_members": 8,
        "hidden_sizes": (128, 128),
        "num_embedding": "piecewise",
        "lr": 4e-3,
        "n_iter_no_change": 12,
        "n_folds": 1,
        "calibrate": False,
    },
    "fast": {
        "n_members": 1,
        "hidden_sizes": (256, 256),
        "num_embedding": "piecewise",
        "lr": 1e-3,
        "n_iter_no_change": 12,
        "n_folds": 1,
        "calibrate": False,
    },
    "strong": {
        "n_members": 8,
        "hidden_sizes": (128, 128),
        "num_embedding": "piecewise",
        "lr": 4e-3,
        "n_iter_no_change": 12,
        "n_folds": 5,
        "calibrate": True,
    },
}

_MOST_EPOCHS = 200
_FEWEST_EPOCHS = 10
# So many rows are looked at in all: 200 epochs of 100,000.
_MOST_VISITS = 20_000_000
_SMALLEST_BATCH, _LARGEST_BATCH = 128, 1024
_BATCHES_PER_EPOCH = 48


# Many classes on many rows: fewer and wider members learn more, and faster.
_WIDE = {"n_members": 4, "hidden_sizes": (256, 256)}
_MANY_CLASSES, _MANY_ROWS = 10, 5_000


def ensemble_for(n_rows: int, n_classes: int) -> dict[str, Any]:
    """Return other values of the ensembles' parameters than the presets', if the table asks."""
    return _WIDE if n_classes > _MANY_CLASSES and n_rows >= _MANY_ROWS else {}


def batch_size_for(n_rows: int) -> int:
    """Return the power of two that gives about 48 batches per epoch, between 128 and 1,024."""
    power = round(math.log2(max(1.0, n_rows / _BATCHES_PER_EPOCH)))
    return min(_LARGEST_BATCH, max(_SMALLEST_BATCH, 2**power))


def max_epochs_for(n_rows: int) -> int:
    """Return 200 epochs, fewer beyond 100,000 rows, never fewer than 10."""
    return min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _MOST_VISITS // n_rows))
