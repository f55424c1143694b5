"""Test log-loss with and without smoothing, of a plain network or the default one.

    SKCAL_DATA=folder python benchmarks/smoothing.py --seeds 12 13 14

The folder holds gzipped CSV files and a manifest.json that names, for each table, its file, its
categorical and auxiliary columns and its label column. Each seed makes a stratified split of at
most --rows rows into 52 % training (early stopping included), 13 % calibration and 35 % test.
Temperature scaling is fitted on the calibration rows. One thread. The network is a plain one of
two layers of 128; --preset default takes NeSCalMLP as it is.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skcal import NeSCalMLP, TabularEncoder, TemperatureScaling
from skcal.metrics import log_loss

TABLES = [
    "adult",
    "bank_marketing",
    "churn_modelling",
    "covertype",
    "credit_data",
    "credit_default",
    "credit_g",
    "diabetes130",
    "eye_movements",
    "letter",
    "satimage",
    "wine_quality",
]


def read(folder: Path, name: str, rows: int) -> tuple[pd.DataFrame, pd.Series]:
    entry = json.loads((folder / "manifest.json").read_text())["datasets"][name]
    text = dict.fromkeys([*entry["categorical"], entry["target"]], str)
    table = pd.read_csv(
        folder / entry["file"], dtype=text, keep_default_na=False, na_values=[""]
    ).drop(columns=entry["auxiliary"])
    if len(table) > rows:
        table = table.sample(rows, random_state=0)
    y = table.pop(entry["target"])
    common = y.map(y.value_counts()) >= 8
    return table[common], y[common]


PLAIN = {
    "encoder": TabularEncoder(scaling="standard"),
    "n_members": 1,
    "num_embedding": None,
    "hidden_sizes": (128, 128),
    "dropout": 0.1,
    "lr": 2e-3,
    "batch_size": 128,
    "max_epochs": 100,
    "ema_decay": 0.0,
    "smoothing": 3.0,
}


def scores(model: NeSCalMLP, X: list, y: list) -> tuple[float, float, float]:
    """Return test log-loss raw and after temperature scaling, and CPU seconds of fit."""
    start = time.process_time()
    model.fit(X[0], y[0])
    seconds = time.process_time() - start
    scaling = TemperatureScaling(input="logits")
    scaling.fit(model.predict_logits(X[1]), y[1], classes=model.classes_)
    scaled = scaling.predict_proba(model.predict_logits(X[2]))
    raw = log_loss(y[2], model.predict_proba(X[2]), labels=model.classes_)
    return raw, log_loss(y[2], scaled, labels=model.classes_), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", help="a preset of NeSCalMLP instead of the plain network")
    parser.add_argument("--seeds", type=int, nargs="+", default=[12, 13, 14])
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--data", default=os.environ.get("SKCAL_DATA"))
    parser.add_argument(
        "--graph", default="knn", choices=["knn", "random", "permuted"], help="or a control"
    )
    args = parser.parse_args()
    network = {"preset": args.preset} if args.preset else PLAIN
    if args.data is None:
        parser.error("name the folder of tables: --data, or SKCAL_DATA")
    changes = []
    print(f"{'':<17}{'cross-entropy':^18}{'smoothing':^18}{'change %':^16}{'time':>6}")
    print(f"{'table':<17}" + f"{'raw':>9}{'TS':>9}" * 2 + f"{'raw':>8}{'TS':>8}")
    with threadpool_limits(1):
        for name in args.tables:
            X, y = read(Path(args.data), name, args.rows)
            runs = []
            for seed in args.seeds:
                X_rest, X_test, y_rest, y_test = train_test_split(
                    X, y, test_size=0.35, stratify=y, random_state=seed
                )
                X_train, X_cal, y_train, y_cal = train_test_split(
                    X_rest, y_rest, test_size=0.2, stratify=y_rest, random_state=seed
                )
                parts = [X_train, X_cal, X_test], [y_train, y_cal, y_test]
                runs.append(
                    scores(NeSCalMLP(random_state=seed, **network | {"smoothing": 0}), *parts)
                    + scores(NeSCalMLP(graph=args.graph, random_state=seed, **network), *parts)
                )
            results = np.array(runs)
            change = 100 * np.log(results[:, 3:5] / results[:, :2]).mean(axis=0)
            changes.append(change)
            ratio = np.median(results[:, 5] / results[:, 2])
            losses = results.mean(axis=0)[[0, 1, 3, 4]]
            print(
                f"{name:<17}"
                + "".join(f"{loss:>9.4f}" for loss in losses)
                + f"{change[0]:>+8.2f}{change[1]:>+8.2f}{ratio:>6.2f}",
                flush=True,
            )
    for form, change in zip(("raw", "TS"), np.array(changes).T, strict=True):
        moved = change[change != 0]
        print(
            f"{form}: lower on {(change < 0).sum()}, higher on {(change > 0).sum()} of "
            f"{len(change)}; median {np.median(change):+.2f} %, worst {change.max():+.2f} %"
            + (f", Wilcoxon p {wilcoxon(moved).pvalue:.3f}" if len(moved) > 4 else "")
        )


if __name__ == "__main__":
    main()
