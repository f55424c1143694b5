"""Several processes: a shared study by the example, folds and seeds on a cluster of Dask."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "tune_together.py"


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["study.log", "sqlite:///study.db"])
def test_processes_share_the_study_of_the_example(tmp_path, storage):
    processes = [
        subprocess.Popen(
            [sys.executable, EXAMPLE, storage, "--seed", str(seed), "--trials=7", "--rows=600"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (0, 1)
    ]
    told = [process.communicate(timeout=300) for process in processes]
    assert [error for _, error in told] == ["", ""]
    for text, _ in told:
        # Both may have begun the last trial at the same time.
        assert re.search(r"^[78] trials: ", text)
        assert re.search(r"log-loss of test rows: 0\.\d{4}$", text)


CLUSTER = """
import os
import sys
import joblib
import numpy as np
from distributed import Client, LocalCluster
from optuna.distributions import FloatDistribution
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from skcal.neural import NetClassifier
from skcal.tuning import OptunaSearch, tune_and_confirm

class Signed(LogisticRegression):
    def fit(self, X, y):
        with open(f"{sys.argv[1]}/{os.getpid()}", "w"):
            return super().fit(X, y)

def main():
    X, y = make_classification(240, n_informative=6, random_state=0)
    linear = OptunaSearch(
        Signed(), {"C": FloatDistribution(1e-3, 1e3, log=True)}, n_trials=8, cv=4, random_state=0,
        refit=False,
    )
    net = OptunaSearch(
        NetClassifier(max_epochs=3, random_state=0), n_trials=3, cv=2, random_state=0
    )
    there = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with there as cluster, Client(cluster), joblib.parallel_config("dask"):
        found = clone(linear).fit(X, y), clone(net).fit(X, y)
        told = str(tune_and_confirm(net, X, y, confirmation_seeds=[7, 8]))
    pids = os.listdir(sys.argv[1])
    assert len(pids) == 2 and str(os.getpid()) not in pids, pids
    for one, again in zip(found, (linear, net)):
        here = clone(again).set_params(n_jobs=2).fit(X, y)
        assert here.cv_results_["params"] == one.cv_results_["params"]
        for name in ("split0_test_score", "mean_test_score"):
            np.testing.assert_array_equal(here.cv_results_[name], one.cv_results_[name])
    with joblib.parallel_config("loky", n_jobs=2):
        assert told == str(tune_and_confirm(net, X, y, confirmation_seeds=[7, 8]))
    print("the same")

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_cluster_of_dask_gives_the_same_study(tmp_path):
    pytest.importorskip("distributed")
    script, signs = tmp_path / "cluster.py", tmp_path / "signs"
    script.write_text(CLUSTER)
    signs.mkdir()
    process = subprocess.run(
        [sys.executable, script, signs], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "the same"
