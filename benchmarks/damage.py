"""What calibration does to a model that needs little of it, or much: mean test log-loss.

    python benchmarks/damage.py            # this package's maps
    python benchmarks/damage.py --peers    # and the libraries that are installed

Four models on scikit-learn's tables: a scaled MLP, GaussianNB and a random forest on digits,
GaussianNB on breast cancer. The MLP is calibrated as it comes, so that maps can only do harm.
Five stratified splits, seeds 0 to 4: 36 % test, 24 % calibration (431 rows of digits), the rest
training. Maps see probabilities, at their defaults. A star marks a map that gave exactly zero to
a true class in some split; such zeros count as 1e-12, so the log-loss is really infinite.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from peers import MISSING, Array, Contestant, Predict, Scores, everyone, log_loss, own
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import skcal.calibration

TEST, CALIBRATION = 0.36, 0.24
SEEDS = range(5)
ALLOWED = {"damage": 0.005, "best": 0.005, "auto": 0.01}
# These are reported, and may do harm: they do not know the identity.
REPORTED_ONLY = ("HistogramBinning", "ScalingBinning", "VennAbersCalibration")


def models(seed: int) -> dict[str, tuple]:
    """Return the loader of the table and the unfitted model of each name."""
    return {
        "mlp": (
            load_digits,
            make_pipeline(StandardScaler(), MLPClassifier(max_iter=400, random_state=seed)),
        ),
        "gnb": (load_digits, GaussianNB()),
        "forest": (load_digits, RandomForestClassifier(random_state=seed)),
        "cancer": (load_breast_cancer, GaussianNB()),
    }


Split = tuple[Scores, np.ndarray, Scores, np.ndarray]


def split(name: str, seed: int) -> Split:
    """Return calibration scores and labels, test scores and labels."""
    data, model = models(seed)[name]
    X, y = data(return_X_y=True)
    rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=TEST, stratify=y, random_state=seed
    )
    X_train, X_cal, y_train, y_cal = train_test_split(
        rest, y_rest, test_size=round(CALIBRATION * len(y)), stratify=y_rest, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X_train, y_train)
    cal, test = model.predict_proba(X_cal), model.predict_proba(X_test)
    return _scores(cal), y_cal, _scores(test), y_test


def _scores(proba: Array) -> Scores:
    proba = proba / proba.sum(axis=1, keepdims=True)
    return Scores(proba, np.log(np.maximum(proba, 1e-12)))


def oracles() -> list[Contestant]:
    """Return maps with what holds them back switched off, to show what it is good for."""
    found = []
    for name, family, parameters in [
        ("TemperatureScaling", "temperature", {"shrinkage": 0}),
        ("IsotonicCalibration", "isotonic", {"shrinkage": 0}),
        ("BetaCalibration", "beta", {"shrinkage": 0}),
        ("PlattScaling", "sigmoid", {"shrinkage": 0}),
        ("VectorScaling", "vector", {"reg": 0}),
        ("MatrixScaling", "matrix", {"reg": 0}),
    ]:
        cls = getattr(skcal.calibration, name, None)
        if cls is None or not set(parameters) <= set(cls().get_params()):
            continue

        def fit(
            scores: Scores, y: np.ndarray, cls: Any = cls, parameters: Any = parameters
        ) -> Predict:
            calibrator = cls(**parameters)
            calibrator.fit(scores.proba, y, classes=np.arange(scores.proba.shape[1]))
            return lambda new: calibrator.predict_proba(new.proba)

        setting = ", ".join(f"{k}={v}" for k, v in parameters.items())
        found.append(Contestant("skcal", f"{name}({setting})", f"{family}, free", fit))
    return found


def measure(contestant: Contestant, splits: list[Split]) -> tuple[float, bool]:
    """Return the mean test log-loss over the splits and whether it is truly infinite."""
    losses, zeros = [], 0
    for cal, y_cal, test, y_test in splits:
        if contestant.binary_only and cal.proba.shape[1] > 2:
            return np.nan, False
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                loss, zero = log_loss(contestant.fit(cal, y_cal)(test), y_test)
            except Exception as error:
                print(f"  {contestant.library} {contestant.name}: {error!r}"[:150])
                return np.nan, False
        losses.append(loss)
        zeros += zero
    return float(np.mean(losses)), zeros > 0


def check(table: dict[tuple, dict[str, float]], names: list[str]) -> None:
    """Say which of the three promises hold."""
    raw = table[("–", "uncalibrated")]
    maps = {
        name: row
        for (library, name), row in table.items()
        if library == "skcal"
        and "=0" not in name
        and not name.startswith(("AutoCalibration", "Identity", *REPORTED_ONLY))
    }
    auto = next((row for (_, name), row in table.items() if name.startswith("Auto")), None)
    print("\nHarm to the calibrated model (at most +0.005):")
    for name, row in [*maps.items(), *([("AutoCalibration", auto)] if auto else [])]:
        harm = row["mlp"] - raw["mlp"] if "mlp" in names else np.nan
        if np.isfinite(harm):
            verdict = "" if harm <= ALLOWED["damage"] else "  <-- too much"
            print(f"  {harm:+.4f} {name}{verdict}")
    others = {key: row for key, row in table.items() if key[0] not in ("skcal", "–")}
    for column in names:
        best = min((row[column], n) for n, row in maps.items() if np.isfinite(row[column]))
        text = f"{column}: best map {best[1]} {best[0]:.4f}"
        rivals = [(row[column], key) for key, row in others.items() if np.isfinite(row[column])]
        if rivals:
            loss, key = min(rivals)
            text += f"; best peer {' '.join(key)} {loss:.4f} ({best[0] - loss:+.4f}, allowed +.005)"
        if auto:
            text += f"; AutoCalibration {auto[column] - best[0]:+.4f} (allowed +.01)"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--models", nargs="+", default=list(models(0)))
    args = parser.parse_args()
    with threadpool_limits(1):
        splits = {name: [split(name, seed) for seed in SEEDS] for name in args.models}
        contestants = everyone("proba") if args.peers else own("proba")
        # This package's, then the same without restraint, then the others.
        contestants.sort(key=lambda c: c.library != "skcal")
        count = sum(c.library == "skcal" for c in contestants)
        contestants[count:count] = oracles()
        raw = {
            name: float(np.mean([log_loss(test.proba, y)[0] for _, _, test, y in splits[name]]))
            for name in args.models
        }
        table = {("–", "uncalibrated"): raw}
        print("| library | map | " + " | ".join(args.models) + " | CPU s |")
        print("|---|---|" + "---|" * (len(args.models) + 1))
        cells = " | ".join(
            f"{raw[name]:.4f}"
            + "*" * any(log_loss(test.proba, y)[1] for _, _, test, y in splits[name])
            for name in args.models
        )
        print(f"| – | uncalibrated | {cells} | |")
        for contestant in contestants:
            start = time.process_time()
            row = {name: measure(contestant, splits[name]) for name in args.models}
            seconds = time.process_time() - start
            table[(contestant.library, contestant.name)] = {k: v[0] for k, v in row.items()}
            cells = " | ".join(
                "–" if np.isnan(loss) else f"{loss:.4f}" + "*" * zero for loss, zero in row.values()
            )
            print(
                f"| {contestant.library} | {contestant.name} | {cells} | {seconds:.1f} |",
                flush=True,
            )
    check(table, args.models)
    for line in dict.fromkeys(MISSING):
        print("Left out:", line)


if __name__ == "__main__":
    main()
