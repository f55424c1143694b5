"""What a module returns: whether it is logits, and what scaling would leave of their log-loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from skcal.calibration import TemperatureScaling


def scaled_log_loss(logits: Tensor, y: Tensor, weight: Tensor) -> float:
    """Return the log-loss of validation rows after their own best temperature."""
    scores, codes = logits.numpy(), y.numpy()
    weights = (weight / weight.mean()).numpy()  # a calibrator counts rows by their weights
    scaling = TemperatureScaling(input="logits")
    scaling.fit(scores, codes, weights, classes=np.arange(scores.shape[1]))
    log_proba = np.log(scaling.predict_proba(scores)[np.arange(len(codes)), codes])
    return float(-np.average(log_proba, weights=weights))


def check_logits(output: Any, n_rows: int, n_classes: int) -> None:
    """Refuse a module whose output cannot be logits."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape != (n_rows, n_classes):
        raise ValueError(
            f"The module must return logits of shape {(n_rows, n_classes)}, one column per class; "
            f"got {shape}."
        )
    values = output.detach()
    sums = values.sum(dim=1)
    if (values >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ValueError(
            "The module returns probabilities (rows between 0 and 1 that sum to 1); it must return "
            "logits. Remove its softmax layer: predict_proba applies softmax by itself."
        )
