"""Where each loss puts the confidence of a model that knows the true probabilities.

    python benchmarks/loss_optimum.py

Rows have logits z, and labels drawn from their softmax: the model is calibrated. The table has
the factor a, between 0.2 and 5, at which the loss of the logits a z is least: 1 stays calibrated,
less is under-confident, more is over-confident. Labels are not drawn but counted: each row comes
once with every label, weighted by the label's probability, so that nothing is left to chance but
the rows.
"""

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from skcal.neural.losses import (
    DCA,
    MDCA,
    MMCE,
    LogitMargin,
    PenalizedLoss,
    SoftAvUC,
    SoftECE,
    make_loss,
)

N_ROWS, LOWEST, HIGHEST = 400, 0.2, 5.0
# classes: spread of the logits, advantage of the last class
POPULATIONS = {
    "2 classes": (2, 1.5, 0.0),
    "2, unequal": (2, 1.8, 2.0),
    "3 classes": (3, 1.7, 0.0),
    "10 classes": (10, 1.6, 0.0),
}


def with_ce(penalty, weight=None):
    return PenalizedLoss(penalty, weight)


LOSSES = {
    "cross_entropy": make_loss("cross_entropy"),
    "brier": make_loss("brier"),
    "label_smoothing .05": make_loss("label_smoothing"),
    "label_smoothing .1": make_loss("label_smoothing", label_smoothing=0.1),
    "label_relaxation .1": make_loss("label_relaxation"),
    "focal 1": make_loss("focal", gamma=1),
    "focal 2": make_loss("focal", gamma=2),
    "flsd": make_loss("flsd"),
    "dual_focal 3": make_loss("dual_focal"),
    "mbls 4, weight .1": make_loss("mbls"),
    "mbls 1, weight .1": with_ce(LogitMargin(1)),
    "mmce, weight 2": make_loss("mmce"),
    "mmce weighted, weight .1": make_loss("mmce", variant="weighted"),
    "mmce weighted, weight 2": with_ce(MMCE("weighted"), 2),
    "mdca, weight 1": make_loss("mdca"),
    "dca, weight 2": make_loss("dca"),
    "soft_ece, weight .3": make_loss("soft_ece"),
    "soft_avuc, weight .3": make_loss("soft_avuc"),
    "soft_avuc, weight 1": with_ce(SoftAvUC(), 1),
    "mmce alone": MMCE(),
    "dca alone": DCA(),
    "soft_ece alone": SoftECE(),
    "mdca alone": MDCA(),
}


def population(n_classes: int, spread: float, lead: float) -> tuple[torch.Tensor, ...]:
    """Return logits, labels and weights, (n, K), (n,) and (n,): each row with every label."""
    rng = np.random.default_rng(0)
    logits = spread * rng.normal(size=(N_ROWS, n_classes))
    logits[:, -1] += lead
    labels = np.tile(np.arange(n_classes), N_ROWS)
    return (
        torch.from_numpy(logits.repeat(n_classes, axis=0)),
        torch.from_numpy(labels),
        torch.from_numpy(softmax(logits, axis=1).ravel()),
    )


def best_factor(loss: torch.nn.Module, rows: tuple[torch.Tensor, ...]) -> float:
    logits, labels, weights = rows

    def value(log_factor: float) -> float:
        return float(loss(float(np.exp(log_factor)) * logits, labels, sample_weight=weights))

    # Some penalties have several valleys: a grid first.
    grid = np.linspace(np.log(LOWEST), np.log(HIGHEST), 33)
    best = int(np.argmin([value(point) for point in grid]))
    around = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    return float(np.exp(minimize_scalar(value, bounds=around, method="bounded").x))


def main() -> None:
    tables = {name: population(*numbers) for name, numbers in POPULATIONS.items()}
    accuracy = [float(w @ (z.argmax(dim=1) == y).double() / w.sum()) for z, y, w in tables.values()]
    print(f"{'loss':<26}" + "".join(f"{name:>12}" for name in tables))
    print(f"{'(accuracy)':<26}" + "".join(f"{value:12.3f}" for value in accuracy))
    for name, loss in LOSSES.items():
        found = [best_factor(loss, rows) for rows in tables.values()]
        print(f"{name:<26}" + "".join(f"{value:12.2f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
