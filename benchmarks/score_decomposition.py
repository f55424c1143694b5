"""Calibration loss found by each way to split a log-loss, on data whose truth is known.

    python benchmarks/score_decomposition.py

Mean of 20 tables, in nats.
"""

import numpy as np

from skcal.datasets import make_calibration_data
from skcal.metrics import score_decomposition

WAYS = {
    "auto": {"calibrator": "auto"},
    "temperature": {"calibrator": "temperature"},
    "binned": {"method": "binned"},
    "isotonic": {"method": "isotonic"},
}


def distort(proba: np.ndarray, factor: float, shift: float) -> np.ndarray:
    """Return probabilities whose logits are stretched, and moved class by class."""
    raised = proba**factor * np.exp(np.linspace(0, shift, proba.shape[1]))
    return raised / raised.sum(axis=1, keepdims=True)


def main() -> None:
    print(f"{'K':>2}{'rows':>6}{'factor':>8}{'shift':>7}{'truth':>9}", *(f"{w:>12}" for w in WAYS))
    for n_classes in (2, 4):
        *_, p = make_calibration_data(200_000, n_classes=n_classes, random_state=1, row_state=99)
        for n in (500, 2000):
            for change in ((1.0, 0.0), (1.5, 0.0), (1.0, 1.0)):
                truth = (p * np.log(p / distort(p, *change))).sum(axis=1).mean()
                found = []
                for way in WAYS.values():
                    if n_classes > 2 and "method" in way:
                        continue
                    losses = []
                    for seed in range(20):
                        _, y, q = make_calibration_data(
                            n, n_classes=n_classes, random_state=1, row_state=seed
                        )
                        parts = score_decomposition(y, distort(q, *change), **way)
                        losses.append(parts.calibration_loss)
                    found.append(np.mean(losses))
                print(
                    f"{n_classes:>2}{n:>6}{change[0]:>8}{change[1]:>7}{truth:>9.4f}",
                    *(f"{value:>12.4f}" for value in found),
                    flush=True,
                )


if __name__ == "__main__":
    main()
