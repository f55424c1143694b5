"""Log-loss on sixteen real tables, beside the networks and trees that people would use instead.

    pip install -c constraints.txt -e . catboost pytabkit
    SKCAL_DATA=<data folder> python benchmarks/quality.py run --out quality.jsonl
    python benchmarks/quality.py report --out quality.jsonl

The rivals are the plain network trained otherwise, on another loss or with several heads, each
with the defaults of this package, and five of them averaged:

    SKCAL_DATA=<data folder> python benchmarks/quality.py run --models rivals --out rivals.jsonl
    python benchmarks/quality.py report --ours plain --out rivals.jsonl

Every table is capped at 20,000 rows and cut into 60 % training, 10 % validation, 10 %
calibration and 20 % test rows, the same for all. Validation rows stop the training (models that
cannot be given any get them as training rows); calibration rows fit one temperature; test rows
are for the scores alone. Times are processor seconds on one thread. A cell that is in the file
already is not run again; one that fails is recorded with its error.
"""

import argparse
import json
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from skcal import (
    DeepEnsembleClassifier,
    MultiHeadMLP,
    NeSCalMLP,
    TabularEncoder,
    TemperatureScaling,
)
from skcal.datasets import load_dataset
from skcal.neural.losses import LOSS_NAMES

CORE16 = [
    "credit_g",
    "soybean",
    "wine_quality",
    "satimage",
    "churn_modelling",
    "eye_movements",
    "mammography",
    "dry_bean",
    "letter",
    "kropt",
    "credit_default",
    "bank_marketing",
    "adult",
    "diabetes130",
    "covertype",
    "nycflights",
]
OURS = ("default", "no-smoothing", "fast", "strong")
CAP = 20_000
# Gradient boosting bins categories; scikit-learn's holds at most 255 of them.
MOST_LEVELS = 250


class Parts(NamedTuple):
    """One table, cut into what a model may see."""

    X: pd.DataFrame
    y: np.ndarray
    X_val: pd.DataFrame
    y_val: np.ndarray

    def all(self) -> tuple[pd.DataFrame, np.ndarray]:
        return pd.concat([self.X, self.X_val]), np.concatenate([self.y, self.y_val])


Fit = Callable[[Parts, int], Any]


# A 2 x 256 network as one would write it: standard scaling, one-hot, AdamW, dropout.
PLAIN = {
    "encoder": TabularEncoder(scaling="standard"),
    "num_embedding": None,
    "hidden_sizes": (256, 256),
    "dropout": 0.1,
    "smoothing": 0,
    "lr": 1e-3,
    "batch_size": 256,
    "ema_decay": 0.0,
    "max_epochs": 100,
    "n_iter_no_change": 12,
}


def plain(**params: Any) -> Fit:
    return ours(NeSCalMLP(**PLAIN | {"n_members": 1} | params))


def ours(model: Any) -> Fit:
    def fit(parts: Parts, seed: int) -> Any:
        network = clone(model).set_params(random_state=seed)
        return network.fit(parts.X, parts.y, X_val=parts.X_val, y_val=parts.y_val)

    return fit


def strong(parts: Parts, seed: int) -> Any:
    """Fit the preset that makes folds of its own: it takes validation rows as training rows."""
    return NeSCalMLP(preset="strong", random_state=seed).fit(*parts.all())


def sklearn_mlp(early_stopping: bool) -> Fit:
    def fit(parts: Parts, seed: int) -> Any:
        columns = make_column_transformer(
            (
                make_pipeline(
                    SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
                ),
                make_column_selector(dtype_include="number"),
            ),
            (
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_include="category"),
            ),
        )
        net = MLPClassifier(early_stopping=early_stopping, random_state=seed)
        return make_pipeline(columns, net).fit(*parts.all())

    return fit


class Merged:
    """Boosting with the rarest levels of long categories merged, and the best of four trials."""

    def __init__(self, parts: Parts, seed: int) -> None:
        categories = parts.X.select_dtypes("category")
        self.levels = {
            name: column.value_counts().index[:MOST_LEVELS].tolist()
            for name, column in categories.items()
            if column.nunique() > MOST_LEVELS
        }
        X, X_val = self.merge(parts.X), self.merge(parts.X_val)
        trials = []
        for max_leaf_nodes in (8, 31):
            for l2 in (0.0, 10.0):
                model = HistGradientBoostingClassifier(
                    learning_rate=0.05,
                    max_iter=500,
                    max_leaf_nodes=max_leaf_nodes,
                    l2_regularization=l2,
                    early_stopping=True,
                    n_iter_no_change=20,
                    categorical_features="from_dtype",
                    random_state=seed,
                ).fit(X, parts.y, X_val=X_val, y_val=parts.y_val)
                loss = log_loss(parts.y_val, model.predict_proba(X_val), labels=model.classes_)
                trials.append((loss, len(trials), model))
        self.model = min(trials)[2]
        self.classes_ = self.model.classes_

    def merge(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{n: X[n].cat.set_categories(kept) for n, kept in self.levels.items()})

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.merge(X))


class Texts:
    """CatBoost at its defaults, its early stopping on the validation rows."""

    def __init__(self, parts: Parts, seed: int) -> None:
        from catboost import CatBoostClassifier

        names = parts.X.select_dtypes("category").columns.tolist()
        self.model = CatBoostClassifier(
            iterations=1000,
            od_type="Iter",
            od_wait=50,
            cat_features=names,
            thread_count=1,
            random_seed=seed,
            verbose=False,
            allow_writing_files=False,
        )
        self.names = names
        self.model.fit(
            self.texts(parts.X), parts.y, eval_set=(self.texts(parts.X_val), parts.y_val)
        )
        self.classes_ = self.model.classes_

    def texts(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{n: X[n].astype(object).fillna("missing") for n in self.names})

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.texts(X))


class Imputed:
    """A network of pytabkit, stopped on cross-entropy; it takes no missing numbers."""

    def __init__(self, make: Callable[..., Any], parts: Parts, seed: int, **params: Any) -> None:
        numbers = parts.X.select_dtypes("number")
        self.median = numbers.median().fillna(0.0)
        self.flagged = numbers.columns[numbers.isna().any()].tolist()
        X, y = parts.all()
        self.model = make(
            val_metric_name="cross_entropy",
            n_threads=1,
            device="cpu",
            random_state=seed,
            verbosity=0,
            **params,
        )
        self.model.fit(self.fill(X), y, val_idxs=np.arange(len(parts.X), len(X)))
        self.classes_ = self.model.classes_

    def fill(self, X: pd.DataFrame) -> pd.DataFrame:
        flags = {f"{name}_missing": X[name].isna().astype(float) for name in self.flagged}
        return X.fillna(self.median).assign(**flags).reset_index(drop=True)

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.fill(X))


def realmlp(parts: Parts, seed: int) -> Any:
    from pytabkit import RealMLP_TD_Classifier

    return Imputed(RealMLP_TD_Classifier, parts, seed, use_ls=False)


def tabm_d(parts: Parts, seed: int) -> Any:
    from pytabkit import TabM_D_Classifier

    return Imputed(TabM_D_Classifier, parts, seed)


# The plain network with something else than cross-entropy.
RIVALS: dict[str, Fit] = {
    "nescal": plain(smoothing=3.0),
    **{name: plain(loss=name) for name in LOSS_NAMES if name != "cross_entropy"},
    "mmce+nescal": plain(loss="mmce", smoothing=3.0),
    "heads": ours(MultiHeadMLP(**PLAIN)),
    "heads-logit": ours(MultiHeadMLP(**PLAIN, averaging="logit")),
    "ensemble": ours(DeepEnsembleClassifier(NeSCalMLP(**PLAIN, n_members=1))),
}
PEERS: dict[str, Fit] = {
    "default": ours(NeSCalMLP()),
    "no-smoothing": ours(NeSCalMLP(smoothing=0)),
    "fast": ours(NeSCalMLP(preset="fast")),
    "strong": strong,
    "plain": plain(),
    "sklearn": sklearn_mlp(False),
    "sklearn-stopped": sklearn_mlp(True),
    "boosting": Merged,
    "catboost": Texts,
    "realmlp": realmlp,
    "tabm-d": tabm_d,
}
MODELS = PEERS | RIVALS


def measure(fit: Fit, table: Bunch, seed: int) -> dict[str, float]:
    """Fit one model on one split and return its scores."""
    data, y = table.data, table.target
    parts = Parts(data.iloc[table.train], y[table.train], data.iloc[table.val], y[table.val])
    start = time.process_time()
    model = fit(parts, seed)
    fitted = time.process_time()
    proba = np.asarray(model.predict_proba(data.iloc[table.test]), dtype=float)
    predicted = time.process_time()
    classes = np.asarray(model.classes_).astype(str)
    on_cal = np.asarray(model.predict_proba(data.iloc[table.cal]), dtype=float)
    scaling = TemperatureScaling(input="proba").fit(on_cal, y[table.cal], classes=classes)
    scaled = scaling.predict_proba(proba)
    y_test = y[table.test]
    return {
        "nll": log_loss(y_test, proba / proba.sum(axis=1, keepdims=True), labels=classes),
        "nll_ts": log_loss(y_test, scaled, labels=classes),
        "temperature": float(scaling.temperature_),
        "accuracy": accuracy_score(y_test, classes[proba.argmax(axis=1)]),
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
    }


def run(args: argparse.Namespace) -> None:
    out = Path(args.out)
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(r["table"], r["model"], r["seed"]) for r in map(json.loads, lines)}
    for seed in args.seeds:
        for name in args.tables:
            cells = [model for model in args.models if (name, model, seed) not in done]
            if not cells:
                continue
            table = load_dataset(name, protocol=args.protocol, seed=seed, cap=args.cap)
            for model in cells:
                record: dict[str, Any] = {"table": name, "model": model, "seed": seed}
                try:
                    record |= measure(MODELS[model], table, seed)
                except Exception:
                    record["error"] = traceback.format_exc(limit=-3)
                with out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(
                    *(
                        f"{k}={v:.4f}" if isinstance(v, float) else f"{v}"
                        for k, v in record.items()
                    ),
                    flush=True,
                )


def interval(ratios: np.ndarray) -> str:
    """Mean and 95 % interval (Student's t over seeds) of relative differences, in percent."""
    mean = 100 * ratios.mean()
    if len(ratios) < 2:
        return f"{mean:+6.1f}"
    half = 100 * student.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / np.sqrt(len(ratios))
    return f"{mean:+6.1f} ±{half:4.1f}"


def report(args: argparse.Namespace) -> None:
    results = pd.DataFrame(map(json.loads, Path(args.out).read_text().splitlines()))
    if "error" in results:
        for _, row in results[results["error"].notna()].iterrows():
            print(f"FAILED {row.table} {row.model} {row.seed}: {row.error.splitlines()[-1]}")
        results = results[results["error"].isna()]
    order = [name for name in MODELS if name in set(results["model"])]
    tables = [name for name in CORE16 if name in set(results["table"])]
    for score in ("nll", "nll_ts", "accuracy", "fit_seconds", "predict_seconds"):
        wide = results.pivot_table(index="table", columns="model", values=score)
        print(f"\n{score}, mean of the seeds")
        print(wide.reindex(index=tables, columns=order).round(4).to_string())
    cells = results.set_index(["table", "seed", "model"])["nll_ts"].unstack()
    for one in (name for name in args.ours if name in cells):
        print(f"\n{one} against others: relative difference of nll_ts in %, negative is better")
        for other in (name for name in order if name != one):
            both = cells[[one, other]].dropna()
            if both.empty:
                continue
            means = both.groupby(level="table").mean()
            relative = means[one] / means[other] - 1
            wins = int((relative < 0).sum())
            p = wilcoxon(relative).pvalue if len(relative) > 5 else float("nan")
            print(
                f"  {other:<16}lower on {wins}/{len(relative)}, median "
                f"{100 * relative.median():+.2f} %, worst {100 * relative.max():+.2f} %, "
                f"Wilcoxon p {p:.3f}"
            )
            if args.details:
                for name in (t for t in tables if t in means.index):
                    pair = both.loc[name]
                    print(f"    {name:<18}{interval((pair[one] / pair[other] - 1).to_numpy())}")
        complete = cells.groupby(level="table").mean().dropna(axis=1, how="all")
        peers = complete.drop(columns=[name for name in {*OURS, *args.ours} if name in complete])
        if peers.shape[1]:
            gap = complete[one] / peers.min(axis=1) - 1
            print(
                f"  best of all peers: lower on {int((gap < 0).sum())}/{len(gap)}, within 2 % on "
                f"{int((gap < 0.02).sum())}/{len(gap)}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--out", default="quality.jsonl", help="file of results, appended to")
    parser.add_argument("--tables", nargs="+", default=CORE16)
    parser.add_argument("--models", nargs="+", default=list(PEERS), choices=[*MODELS, "rivals"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[17, 18, 19])
    parser.add_argument("--protocol", choices=["random", "official"], default="random")
    parser.add_argument("--cap", type=int, default=CAP)
    parser.add_argument("--details", action="store_true", help="intervals per table")
    parser.add_argument("--ours", nargs="+", default=OURS, help="models to hold others against")
    args = parser.parse_args()
    if args.models == ["rivals"]:
        args.models = ["plain", *RIVALS]
    torch.set_num_threads(1)
    if args.protocol == "official":
        args.cap = None
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        (run if args.action == "run" else report)(args)


if __name__ == "__main__":
    main()
