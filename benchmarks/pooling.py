"""Confidence and log-loss of the ways to calibrate a classifier, against scikit-learn's.

    python benchmarks/pooling.py [--seeds 4] [--models mlp forest boosting]

Temperature scaling throughout. Tables: ``make_classification`` with 4 classes, 2,000 training
and 20,000 test rows; digits and breast cancer, half of the rows for training. Each line is the
mean over the seeds of: test log-loss; log-loss after the temperature that is best on the test
rows, which leaves out what a temperature could mend; confidence minus accuracy, in points.
"""

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import CalibratedClassifier, TemperatureScaling
from skcal.metrics import log_loss


def tables(seed: int) -> Iterator[tuple[str, list[Any]]]:
    X, y = make_classification(
        22_000, 20, n_informative=8, n_classes=4, flip_y=0.05, class_sep=1.0, random_state=seed
    )
    yield "4 classes", [X[:2000], X[2000:], y[:2000], y[2000:]]
    for name, load in (("digits", load_digits), ("cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        yield name, train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)


def classifier(name: str, seed: int) -> BaseEstimator:
    if name == "mlp":
        return make_pipeline(StandardScaler(), MLPClassifier(max_iter=300, random_state=seed))
    if name == "forest":
        return RandomForestClassifier(random_state=seed)
    return HistGradientBoostingClassifier(max_iter=50, random_state=seed)


def ways(base: BaseEstimator, seed: int) -> dict[str, BaseEstimator]:
    twice = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=seed)
    return {
        "5 folds, proba": CalibratedClassifier(base),
        "5 folds, logit": CalibratedClassifier(base, pooling="logit"),
        "5 folds twice, proba": CalibratedClassifier(base, cv=twice),
        "5 folds twice, logit": CalibratedClassifier(base, cv=twice, pooling="logit"),
        "ensemble=False": CalibratedClassifier(base, ensemble=False),
        "cv=0.2": CalibratedClassifier(base, cv=0.2, random_state=seed),
        "scikit-learn, True": CalibratedClassifierCV(base, method="temperature", ensemble=True),
        "scikit-learn, False": CalibratedClassifierCV(base, method="temperature", ensemble=False),
    }


def measure(proba: Any, y: Any) -> tuple[float, float, float]:
    best = TemperatureScaling(shrinkage=0).fit(proba, y).predict_proba(proba)
    accuracy = (proba.argmax(axis=1) == y).mean()
    return log_loss(y, proba), log_loss(y, best), 100 * (proba.max(axis=1).mean() - accuracy)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--models", nargs="+", default=["mlp", "forest", "boosting"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.models:
        found: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for seed in range(arguments.seeds):
            base = classifier(name, seed)
            for table, (X, X_test, y, y_test) in tables(seed):
                for way, model in ways(base, seed).items():
                    proba = clone(model).fit(X, y).predict_proba(X_test)
                    found[table, way].append(measure(proba, y_test))
        for (table, way), values in found.items():
            loss, best, gap = np.mean(values, axis=0)
            print(f"{name:<10}{table:<11}{way:<22}{loss:.4f}  {best:.4f}  {gap:+.1f}", flush=True)


if __name__ == "__main__":
    main()
