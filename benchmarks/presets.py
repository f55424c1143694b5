"""CPU time of the presets of NeSCalMLP, per epoch and per prediction.

    python benchmarks/presets.py

10,000 rows of 20 numbers and 4 categories. One process, one thread, the contestants in turn within
each round; medians over rounds of the ratios. An epoch is the difference of a long and a short fit,
so that encoding, bins and the first graph are left out. The plain network is 2 x 256, on standard
scales, without embeddings; scikit-learn's is MLPClassifier (2 x 256) behind StandardScaler, on the
numbers alone.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skcal import NeSCalMLP, TabularEncoder

N_ROWS, N_NUMBERS, N_CLASSES = 10_000, 20, 4
SHORT, LONG = 2, 10
N_CALLS = 200


def table() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_classification(
        N_ROWS, N_NUMBERS, n_informative=10, n_classes=N_CLASSES, random_state=0
    )
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(N_NUMBERS)])
    rng = np.random.default_rng(0)
    for i in range(4):
        frame[f"c{i}"] = pd.Categorical(rng.integers(0, 4 + 2 * i, N_ROWS).astype(str))
    return frame, y


def networks() -> dict[str, dict[str, Any]]:
    plain = {
        "encoder": TabularEncoder(scaling="standard"),
        "n_members": 1,
        "num_embedding": None,
        "hidden_sizes": (256, 256),
        "ema_decay": 0.0,
        "smoothing": 0,
    }
    return {
        "plain": plain,
        "fast, smoothing=0": {"preset": "fast", "smoothing": 0},
        "fast": {"preset": "fast"},
        "default, smoothing=0": {"smoothing": 0},
        "default": {},
    }


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def epoch_seconds(params: dict[str, Any], X: pd.DataFrame, y: np.ndarray) -> float:
    def fit(epochs: int) -> object:
        return NeSCalMLP(
            early_stopping=False,
            warmup=1,
            refresh=5,
            batch_size=256,
            max_epochs=epochs,
            random_state=0,
            **params,
        ).fit(X, y)

    return (seconds(lambda: fit(LONG)) - seconds(lambda: fit(SHORT))) / (LONG - SHORT)


def show(times: dict[str, list[float]], reference: str, unit: str, scale: float) -> None:
    for name, values in times.items():
        ratio = np.median(np.array(values) / np.array(times[reference]))
        print(f"  {name:<24}{scale * np.median(values):9.2f} {unit}  {ratio:6.2f} x {reference}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        X, y = table()
        numbers = X.iloc[:, :N_NUMBERS].to_numpy()
        times: dict[str, list[float]] = {name: [] for name in networks()}
        for params in networks().values():
            epoch_seconds(params, X.head(1000), y[:1000])
        for _ in range(args.rounds):
            for name, params in networks().items():
                times[name].append(epoch_seconds(params, X, y))
        print("An epoch (the default's and fast's with graphs every five epochs):")
        show(times, "plain", "ms", 1e3)

        fitted: dict[str, Any] = {
            name: NeSCalMLP(max_epochs=2, random_state=0, **params).fit(numbers, y)
            for name, params in networks().items()
            if "smoothing=0" not in name
        }
        fitted["scikit-learn"] = make_pipeline(
            StandardScaler(), MLPClassifier((256, 256), max_iter=2, random_state=0)
        ).fit(numbers, y)
        for n_rows, n_calls in ((1, N_CALLS), (N_ROWS, 3)):
            rows = numbers[:n_rows]
            asked: dict[str, list[float]] = {name: [] for name in fitted}
            for _ in range(args.rounds):
                for name, model in fitted.items():
                    model.predict_proba(rows)
                    start = time.process_time()
                    for _ in range(n_calls):
                        model.predict_proba(rows)
                    asked[name].append((time.process_time() - start) / n_calls)
            print(f"\nAnswering {n_rows} row(s) of numbers:")
            show(asked, "scikit-learn", "ms", 1e3)


if __name__ == "__main__":
    main()
