"""Log-loss on clean tables, where smoothing has nothing to mend.

    python benchmarks/clean_tables.py

Mean of three shuffled 5-fold cross-validations (seeds 0, 1 and 2) on tables of scikit-learn, of a
plain network of two layers of 128.
"""

import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import NeSCalMLP, TabularEncoder

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
}


def contestants(seed: int) -> dict[str, BaseEstimator]:
    return {
        "smoothing=0": NeSCalMLP(smoothing=0, random_state=seed, **PLAIN),
        "smoothing=3": NeSCalMLP(smoothing=3, random_state=seed, **PLAIN),
        "MLPClassifier, scaled": make_pipeline(
            StandardScaler(), MLPClassifier(max_iter=500, random_state=seed)
        ),
    }


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for load in (load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        for name in contestants(0):
            losses = [
                -cross_val_score(
                    contestants(seed)[name],
                    X,
                    y,
                    scoring="neg_log_loss",
                    cv=StratifiedKFold(5, shuffle=True, random_state=seed),
                ).mean()
                for seed in range(3)
            ]
            print(f"{load.__name__[5:]:<15}{name:<24}{np.mean(losses):.4f}", flush=True)


if __name__ == "__main__":
    main()
