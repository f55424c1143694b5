"""CPU time of a training epoch: the loop against others, the penalty, the losses, the heads.

    python benchmarks/training.py [--parts loop penalty losses]

One process, one thread, the contestants in turn within each round, so that a slow moment of
the machine hits all of them; the table gives medians over rounds of the ratios. Times are
processor seconds. Epochs are timed as the difference of a long and a short fit, so that
set-up (imports, encoding, neighbour graphs) is left out; the graph is timed in graph.py.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier
from threadpoolctl import threadpool_limits
from torch import nn

from skcal import MultiHeadMLP, NeSCalMLP
from skcal.neural import MLP
from skcal.neural.losses import LOSS_NAMES

N_ROWS, N_FEATURES, BATCH, LR = 10_000, 50, 256, 1e-3
SHORT, LONG = 2, 10

Fit = Callable[[int], object]


def epoch_seconds(fit: Fit) -> float:
    times = []
    for epochs in (SHORT, LONG):
        start = time.process_time()
        fit(epochs)
        times.append(time.process_time() - start)
    return (times[1] - times[0]) / (LONG - SHORT)


def raw_loop(X: np.ndarray, y: np.ndarray, width: int, n_classes: int, fused: bool) -> Fit:
    def fit(epochs: int) -> None:
        torch.manual_seed(0)
        net = MLP(N_FEATURES, n_classes, hidden_sizes=(width, width), dropout=0.0)
        optimizer = torch.optim.AdamW(net.parameters(), lr=LR, fused=fused)
        rows, labels = torch.from_numpy(X), torch.from_numpy(y)
        for _ in range(epochs):
            for index in torch.randperm(len(rows)).split(BATCH):
                loss = nn.functional.cross_entropy(net(rows[index]), labels[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return fit


def skcal_net(X: np.ndarray, y: np.ndarray, width: int, **params: object) -> Fit:
    return network(NeSCalMLP(n_members=1, **params), X, y, width)


def heads(X: np.ndarray, y: np.ndarray, width: int, n_heads: int) -> Fit:
    return network(MultiHeadMLP(n_heads=n_heads), X, y, width)


def network(model: NeSCalMLP, X: np.ndarray, y: np.ndarray, width: int) -> Fit:
    model.set_params(
        num_embedding=None,
        ema_decay=0.0,
        hidden_sizes=(width, width),
        lr=LR,
        batch_size=BATCH,
        early_stopping=False,
        warmup=0,
        refresh=None,
        random_state=0,
    )
    return lambda epochs: model.set_params(max_epochs=epochs).fit(X, y)


def stock_skorch(X: np.ndarray, y: np.ndarray, width: int, n_classes: int) -> Fit:
    def fit(epochs: int) -> object:
        return NeuralNetClassifier(
            MLP,
            module__n_inputs=N_FEATURES,
            module__n_classes=n_classes,
            module__hidden_sizes=(width, width),
            module__dropout=0.0,
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.AdamW,
            lr=LR,
            batch_size=BATCH,
            max_epochs=epochs,
            train_split=None,
            verbose=0,
            iterator_train__shuffle=True,
        ).fit(X, y)

    return fit


def sklearn_net(X: np.ndarray, y: np.ndarray, width: int, dtype: str) -> Fit:
    def fit(epochs: int) -> object:
        return MLPClassifier(
            (width, width),
            batch_size=BATCH,
            learning_rate_init=LR,
            max_iter=epochs,
            n_iter_no_change=10_000,
            random_state=0,
        ).fit(X.astype(dtype), y)

    return fit


def rounds(contestants: dict[str, Fit], n_rounds: int) -> dict[str, np.ndarray]:
    """Return seconds per epoch, shape (n_rounds,), after one round to warm up."""
    for fit in contestants.values():
        fit(SHORT)
    times = {name: np.empty(n_rounds) for name in contestants}
    for i in range(n_rounds):
        for name, fit in contestants.items():
            times[name][i] = epoch_seconds(fit)
    return times


def print_ratios(times: dict[str, np.ndarray], reference: str) -> None:
    for name, seconds in times.items():
        ratio = np.median(seconds / times[reference])
        print(f"  {name:<34}{1e3 * np.median(seconds):8.1f} ms   {ratio:5.2f} x {reference}")


def compare_loops(n_rounds: int, widths: list[int]) -> None:
    X, y = make_classification(N_ROWS, N_FEATURES, n_informative=20, n_classes=10, random_state=0)
    X = X.astype(np.float32)
    for width in widths:
        print(f"\nEpoch, {N_ROWS} rows x {N_FEATURES}, 10 classes, width {width}:")
        times = rounds(
            {
                "raw torch loop": raw_loop(X, y, width, 10, fused=False),
                "raw torch loop, fused AdamW": raw_loop(X, y, width, 10, fused=True),
                "skcal (smoothing=0)": skcal_net(X, y, width, smoothing=0, dropout=0.0),
                "stock skorch": stock_skorch(X, y, width, 10),
                "MLPClassifier float32": sklearn_net(X, y, width, "float32"),
                "MLPClassifier float64": sklearn_net(X, y, width, "float64"),
            },
            n_rounds,
        )
        print_ratios(times, "raw torch loop")
        print_ratios(
            {k: times[k] for k in ("skcal (smoothing=0)", "MLPClassifier float64")},
            "MLPClassifier float64",
        )


def compare_penalties(n_rounds: int) -> None:
    X, labels_of = random_rows()
    for n_classes in (2, 10, 100):
        y = labels_of(n_classes)
        print(f"\nSmoothing, {n_classes} classes, 10 neighbours, width 128, dropout .2 (default):")
        times = rounds(
            {
                "smoothing=0": skcal_net(X, y, 128, smoothing=0),
                "default": skcal_net(X, y, 128),
                "published form (each, no decay)": skcal_net(
                    X, y, 128, target="each", cache_decay=0.0
                ),
                "smoothing=0, no dropout": skcal_net(X, y, 128, smoothing=0, dropout=0.0),
                "default, no dropout": skcal_net(X, y, 128, dropout=0.0),
            },
            n_rounds,
        )
        print_ratios(times, "smoothing=0")


def compare_losses(n_rounds: int) -> None:
    X, labels_of = random_rows()
    for n_classes in (2, 10, 100):
        y = labels_of(n_classes)
        print(f"\nLoss, {n_classes} classes, width 128, batches of {BATCH}, smoothing=0:")
        contestants = {
            name: skcal_net(X, y, 128, smoothing=0, loss=name)
            for name in LOSS_NAMES
            if name != "label_relaxation" or find_spec("label_relaxation")
        }
        contestants["mixup and smoothing"] = skcal_net(X, y, 128, loss="mixup")
        contestants["2 heads"] = heads(X, y, 128, n_heads=2)
        if n_classes >= 4:
            contestants["4 heads"] = heads(X, y, 128, n_heads=4)
        print_ratios(rounds(contestants, n_rounds), "cross_entropy")


def random_rows() -> tuple[np.ndarray, Callable[[int], np.ndarray]]:
    """Return rows, and labels of any number of classes that nothing can be learned of."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    return X, lambda n_classes: rng.integers(0, n_classes, N_ROWS)


def main() -> None:
    parts = {"loop", "penalty", "losses"}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--widths", type=int, nargs="*", default=[64, 128, 256])
    parser.add_argument("--parts", nargs="*", choices=sorted(parts), default=sorted(parts))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if "loop" in args.parts:
            compare_loops(args.rounds, args.widths)
        if "penalty" in args.parts:
            compare_penalties(args.rounds)
        if "losses" in args.parts:
            compare_losses(args.rounds)


if __name__ == "__main__":
    main()
