"""Local calibration maps on real tables, beside the global ones: log-loss and local errors.

    SKCAL_DATA=<data folder> python benchmarks/local_maps.py run --out local.jsonl
    python benchmarks/local_maps.py report --out local.jsonl
    python benchmarks/local_maps.py cost

Tables of 10,000 rows and more, capped at 15,000. Of the training part of each split (60 %), half
trains a model and half calibrates it, together with the calibration part (10 %); the
validation part (10 %) stops the training, and the test part (20 %) is for the scores alone. Local
maps read the network's embedding, or the encoded table for boosting. The local errors of all are
measured in one space: principal components of the encoded, standardised table, fitted on the rows
that train, with a Gaussian kernel as wide as the median distance. Times are processor seconds on
one thread. A cell that is in the file already is not run again. The cost is that of 100,000 rows of
64 features and 10 classes, each map in a process of its own.
"""

import argparse
import json
import multiprocessing
import resource
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from scipy.stats import t as student
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skcal import CalibratedClassifier, NeSCalMLP, TabularEncoder
from skcal.calibration import (
    IdentityCalibration,
    KernelCalibration,
    LocalCalibrationNetwork,
    LocalCalibrator,
    LocalTemperatureScaling,
    MultiCalibration,
    ProximityCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
    VQDirichletCalibration,
)
from skcal.datasets import load_dataset
from skcal.metrics import local_calibration_error, log_loss

TABLES = [
    "eye_movements",
    "dry_bean",
    "letter",
    "avila",
    "credit_default",
    "nursery",
    "diabetes130",
    "nycflights",
]
CAP = 15_000
COMPONENTS = 10
# Gradient boosting bins categories; scikit-learn's holds at most 255 of them.
MOST_LEVELS = 250
MAPS: dict[str, Any] = {
    "uncalibrated": IdentityCalibration(),
    "temperature": TemperatureScaling(),
    "sms": StructuredMatrixScaling(),
    "vq": VQDirichletCalibration(random_state=0),
    "vq-dirichlet": VQDirichletCalibration(8, 4, parameterization="dirichlet", random_state=0),
    "local-temperature": LocalTemperatureScaling(random_state=0),
    "lcn": LocalCalibrationNetwork(random_state=0),
    "kernel": KernelCalibration(random_state=0),
    "proximity": ProximityCalibration(),
    "boosting": MultiCalibration(random_state=0),
}


def network(X: pd.DataFrame, y: np.ndarray, valid: tuple[Any, Any], seed: int) -> Any:
    model = NeSCalMLP(preset="fast", smoothing=0, random_state=seed)
    return model.fit(X, y, X_val=valid[0], y_val=valid[1])


def boosting(X: pd.DataFrame, y: np.ndarray, valid: tuple[Any, Any], seed: int) -> Any:
    model = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=500,
        early_stopping=True,
        n_iter_no_change=20,
        categorical_features="from_dtype",
        random_state=seed,
    )
    return model.fit(X, y, X_val=valid[0], y_val=valid[1])


MODELS = {"network": network, "boosting": boosting}


def without_long_categories(data: pd.DataFrame) -> pd.DataFrame:
    long = [
        name
        for name, column in data.select_dtypes("category").items()
        if column.nunique() > MOST_LEVELS
    ]
    return data.drop(columns=long)


def space_of(X: pd.DataFrame, seed: int) -> tuple[Any, float]:
    """Return what embeds rows for the local errors, and the width of their kernel."""
    places = make_pipeline(
        TabularEncoder(dtype="float64"), StandardScaler(), PCA(COMPONENTS, random_state=seed)
    ).fit(X)
    some = places.transform(X.sample(min(len(X), 1000), random_state=seed))
    distances = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    return places, float(np.median(distances[distances > 0]))


def run(args: argparse.Namespace) -> None:
    out = Path(args.out)
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(r["table"], r["model"], r["map"], r["seed"]) for r in map(json.loads, lines)}
    for seed in args.seeds:
        for name in args.tables:
            table = load_dataset(name, seed=seed, cap=args.cap)
            data, y = without_long_categories(table.data), table.target
            draw = np.random.default_rng(seed)
            shuffled = draw.permutation(table.train)
            train, cal = np.split(shuffled, [len(shuffled) // 2])
            cal = np.concatenate([cal, table.cal])
            places, bandwidth = space_of(data.iloc[train], seed)
            where = places.transform(data.iloc[table.test])
            for kind, fit_model in MODELS.items():
                cells = [m for m in args.maps if (name, kind, m, seed) not in done]
                if not cells:
                    continue
                valid = data.iloc[table.val], y[table.val]
                model = FrozenEstimator(fit_model(data.iloc[train], y[train], valid, seed))
                for one in cells:
                    record: dict[str, Any] = {
                        "table": name,
                        "model": kind,
                        "map": one,
                        "seed": seed,
                    }
                    try:
                        record |= measure(
                            CalibratedClassifier(model, MAPS[one]),
                            (data.iloc[cal], y[cal]),
                            (data.iloc[table.test], y[table.test]),
                            where,
                            bandwidth,
                        )
                    except Exception:
                        record["error"] = traceback.format_exc(limit=-3)
                    with out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                    print(*(f"{v:.4f}" if isinstance(v, float) else v for v in record.values()))


def measure(
    model: CalibratedClassifier,
    cal: tuple[Any, Any],
    test: tuple[Any, Any],
    where: np.ndarray,
    bandwidth: float,
) -> dict[str, Any]:
    start = time.process_time()
    model.fit(*cal)
    fitted = time.process_time()
    proba = model.predict_proba(test[0])
    predicted = time.process_time()
    around = {"features": where, "bandwidth": bandwidth, "labels": model.classes_}
    calibrator = model.calibrated_classifiers_[0].calibrator
    return {
        "nll": log_loss(test[1], proba, labels=model.classes_),
        "lce": local_calibration_error(test[1], proba, **around),
        "mlce": local_calibration_error(test[1], proba, statistic="max", **around),
        "accuracy": float((model.classes_[proba.argmax(axis=1)] == test[1]).mean()),
        "local": bool(getattr(calibrator, "is_local_", False)),
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
    }


def report(args: argparse.Namespace) -> None:
    results = pd.DataFrame(map(json.loads, Path(args.out).read_text().splitlines()))
    if "error" in results:
        for _, row in results[results["error"].notna()].iterrows():
            print(f"FAILED {row.table} {row.model} {row['map']} {row.seed}: {row.error[-200:]}")
        results = results[results["error"].isna()]
    order = [name for name in MAPS if name in set(results["map"])]
    for kind in MODELS:
        of_kind = results[results["model"] == kind]
        for score in ("nll", "lce", "mlce", "accuracy", "local", "fit_seconds"):
            wide = of_kind.astype({"local": float}).pivot_table(
                index="table", columns="map", values=score
            )
            print(f"\n{kind}: {score}, mean of the seeds")
            print(wide.reindex(columns=order).round(4).to_string())
        cells = of_kind.set_index(["table", "seed", "map"])["nll"].unstack()
        print(
            f"\n{kind}: log-loss less that of temperature scaling, with 95 % intervals over seeds"
        )
        for name in (n for n in order if n != "temperature"):
            for table, gap in (cells[name] - cells["temperature"]).groupby(level="table"):
                half = student.ppf(0.975, max(1, len(gap) - 1)) * gap.std() / np.sqrt(len(gap))
                print(f"  {name:<18}{table:<16}{gap.mean():+.4f} ± {half:.4f}")


def cost(args: argparse.Namespace) -> None:
    """Print seconds and memory of each map, fitted and asked in a process of its own."""
    for name in args.maps:
        spawn = multiprocessing.get_context("spawn")
        process = spawn.Process(target=cost_of, args=(name, args.rows))
        process.start()
        process.join()


def cost_of(name: str, n_rows: int) -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_rows, 64))
    truth = features @ rng.normal(size=(64, 10)) / 4
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    # Logits three times too large where the first feature is positive.
    scores = softmax(truth * np.where(features[:, :1] > 0, 3.0, 1.0), axis=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calibrator = MAPS[name]
    places = {"features": features} if isinstance(calibrator, LocalCalibrator) else {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        calibrator.fit(scores, labels, **places)
        fitted = time.process_time()
        calibrator.predict_proba(scores, **places)
        asked = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{name:<18} fit {fitted - start:7.1f} s   predict {asked - fitted:6.1f} s   "
        f"memory {before / 1e6:.2f} -> {peak / 1e6:.2f} GB   log-loss "
        f"{calibrator.baseline_loss_:.4f} -> {calibrator.loss_:.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "report", "cost"])
    parser.add_argument("--out", default="local.jsonl", help="file of results, appended to")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--maps", nargs="+", default=list(MAPS), choices=list(MAPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[12, 13, 14, 15, 16])
    parser.add_argument("--cap", type=int, default=CAP)
    parser.add_argument("--rows", type=int, default=100_000, help="rows whose cost is measured")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        {"run": run, "report": report, "cost": cost}[args.action](args)


if __name__ == "__main__":
    main()
