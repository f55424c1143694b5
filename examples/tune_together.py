"""Tune one study in several processes, or on several machines that share a folder.

    python examples/tune_together.py study.log --seed 0 &
    python examples/tune_together.py study.log --seed 1 &

Each process runs trials until the study in the file has enough of them, and then fits the best on
all training rows and prints what it found. Kill one, and start it again: no finished trial is
lost. A process needs a seed of its own, or it draws what the others draw. For machines without a
common folder take the URL of a database instead of the file.
"""

import argparse

from sklearn.model_selection import train_test_split

from skcal import NeSCalMLP
from skcal.datasets import load_credit
from skcal.metrics import log_loss
from skcal.tuning import OptunaSearch, SearchReport


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("storage", help="a file, or the URL of a database")
    parser.add_argument("--seed", type=int, required=True, help="another one for each process")
    parser.add_argument("--trials", type=int, default=20, help="of all processes together (20)")
    parser.add_argument("--rows", type=int, default=None, help="fewer rows, for a try")
    options = parser.parse_args()

    X, y = load_credit(return_X_y=True)
    X, y = X[: options.rows], y[: options.rows]
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    search = OptunaSearch(
        NeSCalMLP(preset="fast", random_state=0),
        n_trials=options.trials,
        cv=3,
        storage=options.storage,
        study_name="credit",
        random_state=options.seed,
    )
    search.fit(X, y)
    print(SearchReport(search, n_best=5))
    print(f"log-loss of test rows: {log_loss(y_test, search.predict_proba(X_test)):.4f}")


if __name__ == "__main__":
    main()
