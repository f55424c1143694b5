"""CPU time in which OptunaSearch reaches what RandomizedSearchCV finds, of as many fits.

    SKCAL_DATA=... python benchmarks/tuning.py [--trials 30] [--tables ...] [--seeds 0 1 2]

The space is space_for(NeSCalMLP(preset="fast")) for both, the folds are the same, and so is the
score, the log-loss. RandomizedSearchCV draws --trials settings and fits each on three folds.
OptunaSearch may fit as often; fits that it gives up count as fits, and what it leaves out it may
spend on further trials. For each table and seed: the CPU seconds of the random search, and those
after which the best complete trial of OptunaSearch was as good ("-" if none was), as they are and
as a share; the best scores of both, and the log-loss of both on test rows. One process, one thread.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.samplers import TPESampler
from optuna.trial import TrialState
from scipy.stats import loguniform
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RandomizedSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from skcal import NeSCalMLP
from skcal.datasets import load_dataset
from skcal.metrics import get_scorer, log_loss
from skcal.tuning import OptunaSearch, space_for

TABLES = ("phoneme", "wine_quality", "churn_telecom")
CAP = 3_000
N_FOLDS = 3

# The state of every trial that ended, its score, and the CPU seconds since the search began.
Ended = tuple[TrialState, float, float]
ENDED: list[Ended] = []
BEGAN = [0.0]


class Timed(TPESampler):
    """Notes when trials end, and stops the study after so many fits."""

    def __init__(self, max_fits: int, seed: int) -> None:
        super().__init__(seed=seed)
        self.max_fits = max_fits

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        super().after_trial(study, trial, state, values)
        score = values[0] if state == TrialState.COMPLETE else -np.inf
        ENDED.append((state, score, time.process_time() - BEGAN[0]))
        if sum(map(n_fits, study.get_trials(deepcopy=False))) >= self.max_fits:
            study.stop()


def n_fits(trial: Any) -> int:
    """Return how many fits a trial began."""
    scores = trial.user_attrs.get("scores", {}).get("test_scores", [])
    return max(1, sum(score is not None for score in scores))


def drawn(distribution: Any) -> Any:
    """Return what RandomizedSearchCV draws from."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    assert distribution.log
    return loguniform(distribution.low, distribution.high)


def compare(name: str, seed: int, n_trials: int) -> dict[str, float]:
    table = load_dataset(name, seed=seed, cap=CAP)
    train = np.concatenate([table.train, table.val, table.cal])
    X, y = table.data.iloc[train], table.target[train]
    X_test, y_test = table.data.iloc[table.test], table.target[table.test]
    model = NeSCalMLP(preset="fast", random_state=seed)
    common = {
        "scoring": get_scorer("neg_log_loss"),
        "cv": StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed),
    }
    space = space_for(model)
    start = time.process_time()
    random = RandomizedSearchCV(
        model,
        {key: drawn(values) for key, values in space.items()},
        n_iter=n_trials,
        random_state=seed,
        refit=False,
        **common,
    ).fit(X, y)
    random_seconds = time.process_time() - start
    ENDED.clear()
    BEGAN[0] = time.process_time()
    search = OptunaSearch(
        model,
        space,
        n_trials=n_trials * N_FOLDS,
        sampler=Timed(n_trials * N_FOLDS, seed),
        refit=False,
        **common,
    ).fit(X, y)
    reached = [at for _, score, at in ENDED if score >= random.best_score_]
    losses = [
        log_loss(
            y_test,
            model.set_params(**found.best_params_).fit(X, y).predict_proba(X_test),
            labels=model.classes_,
        )
        for found in (random, search)
    ]
    states = [state for state, _, _ in ENDED]
    return {
        "random_seconds": random_seconds,
        "reached": reached[0] if reached else np.inf,
        "search_seconds": ENDED[-1][2],
        "n_trials": len(ENDED),
        "n_given_up": states.count(TrialState.PRUNED),
        "random_score": random.best_score_,
        "search_score": search.best_score_,
        "random_test": losses[0],
        "search_test": losses[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(
        f"{'table':14} seed  random s  reached s  share  trials given up  "
        "best score random / Optuna  test log-loss random / Optuna"
    )
    everything = []
    for name in options.tables:
        shares = []
        for seed in options.seeds:
            with threadpool_limits(1):
                one = compare(name, seed, options.trials)
            shares.append(one["reached"] / one["random_seconds"])
            reached = f"{one['reached']:9.1f}" if np.isfinite(one["reached"]) else f"{'-':>9}"
            print(
                f"{name:14} {seed:4}  {one['random_seconds']:8.1f}  {reached}  {shares[-1]:5.2f}  "
                f"{one['n_trials']:6} {one['n_given_up']:8}  "
                f"{one['random_score']:17.4f} / {one['search_score']:.4f}  "
                f"{one['random_test']:19.4f} / {one['search_test']:.4f}",
                flush=True,
            )
        print(f"{name:14} median share {np.median(shares):.2f}", flush=True)
        everything += shares
    print(f"median share of all {np.median(everything):.2f}")


if __name__ == "__main__":
    main()
