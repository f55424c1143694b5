"""Benchmarks by configuration: what is refused, what is run, and what a crash leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from skcal import CalibratedClassifier, NeSCalMLP
from skcal.calibration import TemperatureScaling
from skcal.cli import main
from skcal.experiments import ConfigError, Store, check_config, make_plan, read_config
from skcal.experiments import run_benchmark as run
from skcal.experiments._config import Data
from skcal.experiments._data import load_table
from skcal.experiments._methods import METHODS, candidates, make_estimator, spread
from skcal.metrics import brier_score_loss, expected_calibration_error, log_loss

QUICK = {"preset": "fast", "max_epochs": 3, "hidden_sizes": [8], "num_embedding": None}
SMALL = {
    "name": "small",
    "data": [{"sklearn": "iris"}, {"bundled": "credit", "cap": 200}],
    "methods": ["cross_entropy", "nescal", "hist_gradient_boosting"],
    "seeds": [12, 13],
    "network": QUICK,
}


def config(**changes):
    return check_config(SMALL | changes)


def cells(store):
    """Return what was found, without times, by cell."""
    timed = ("seconds", "cpu", "fit_seconds", "predict_seconds")
    found = {}
    for row in store.rows():
        kept = {name: value for name, value in row.items() if name not in (*timed, "cell")}
        for result in kept.get("results", {}).values():
            result.pop("seconds")
        found[tuple(row["cell"].items())] = kept
    return found


class Own(LogisticRegression):
    """A classifier of a user."""

    def fit(self, X, y):
        if self.C == 13:
            raise ArithmeticError("told to fail")
        return super().fit(np.asarray(X, dtype=float), y)


class OwnMap(TemperatureScaling):
    """A calibrator of a user."""


# --- The configuration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sede": [1]}, r"sede: there is no key 'sede'; did you mean 'seeds'\?"),
        ({"data": [{"tabel": "a"}]}, r"data.0.tabel: .* did you mean 'table'\?"),
        ({"methods": [{"name": "a", "parms": {}}]}, r"methods.0.parms: .* mean 'params'\?"),
        ({"tuning": {"trials": 3}}, r"tuning.trials: .* mean 'method_trials'\?"),
        ({"regimes": [{"name": "b", "epoch": 3}]}, r"regimes.0.epoch: .* mean 'epochs'\?"),
        ({"seeds": []}, "seeds: .*at least 1 item"),
        ({"seeds": ["twelve"]}, "seeds.0: .*integer.*got 'twelve'"),
        ({"data": [{"table": "a", "csv": "b"}]}, "data.0: give exactly one of suite, table"),
        ({"data": [{}]}, "data.0: give exactly one of suite, table.*got none"),
        ({"data": [{"csv": "a"}]}, "data.0: csv and target go together"),
        ({"methods": ["focal", "focal"]}, "methods has 'focal' twice"),
        ({"methods": [{"name": "a", "method": "b", "estimator": "c:d"}]}, "methods.0: give one of"),
        ({"search_seeds": [12]}, "seed 12 is among seeds and search_seeds"),
        ({"tuning": {"method_trials": 2}}, "tuning needs search_seeds"),
        ({"cap": 5}, "cap: .*greater than or equal to 100"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(changes, words):
    with pytest.raises(ConfigError, match=words):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["nescall"]}, "Did you mean 'nescal'"),
        ({"calibrators": ["temprature"]}, "temperature"),
        ({"methods": [{"name": "a", "estimator": "nowhere:Thing"}]}, "cannot be imported"),
        ({"methods": [{"name": "a", "estimator": "sklearn"}]}, "is no import path"),
        ({"methods": [{"name": "nescal", "params": {"lrr": 1}}]}, "Did you mean 'lr'"),
        ({"data": [{"sklearn": "iris"}, {"csv": "iris.csv", "target": "y"}]}, "'iris' twice"),
        ({"data": [{"suite": "core16"}]}, "of a data folder: pass --data, or set SKCAL_DATA"),
    ],
)
def test_what_cannot_be_built_is_told_before_the_run(changes, words, tmp_path, monkeypatch):
    monkeypatch.delenv("SKCAL_DATA", raising=False)
    with pytest.raises((ValueError, TypeError), match=words):
        run(config(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_files_that_are_none(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "absent.json")
    (tmp_path / "half.json").write_text("{")
    with pytest.raises(ConfigError, match="is no JSON file"):
        read_config(tmp_path / "half.json")


def test_short_forms_are_those_in_full():
    short = config(data=["adult"], methods=["focal"], calibrators=["none"], regimes=["a"])
    full = config(
        data=[{"table": "adult"}],
        methods=[{"name": "focal"}],
        calibrators=[{"name": "none"}],
        regimes=[{"name": "a"}],
    )
    assert short == full
    assert check_config(json.loads(full.model_dump_json())) == full


# --- Tables -------------------------------------------------------------------------------------


def test_tables_are_split_as_those_of_a_folder(tmp_path):
    table = load_table(Data(sklearn="digits"), 3, None)
    shares = [len(getattr(table, part)) / len(table.y) for part in ("train", "val", "cal", "test")]
    assert shares == pytest.approx([0.6, 0.1, 0.1, 0.2], abs=0.002)
    everything = np.sort(np.concatenate(table[2:6]))
    assert everything.tolist() == list(range(len(table.y)))
    again, other = (load_table(Data(sklearn="digits"), seed, None) for seed in (3, 4))
    assert table.test.tolist() == again.test.tolist() != other.test.tolist()


def test_any_csv_file_is_a_table(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["text"] = np.where(np.arange(150) % 2, "a", "b")
    path = tmp_path / "mine.csv"
    X.assign(label=np.where(np.arange(150) == 3, None, y.map({0: "p", 1: "q", 2: "r"}))).to_csv(
        path, index=False
    )
    table = load_table(Data(csv=str(path), target="label"), 0, None)
    assert len(table.y) == 149
    assert set(table.y) == {"p", "q", "r"}
    assert table.X["text"].dtype == "category"
    with pytest.raises(ValueError, match="no column 'lable'"):
        load_table(Data(csv=str(path), target="lable"), 0, None)


def test_a_cap_draws_the_same_rows_for_every_seed():
    few = [load_table(Data(sklearn="digits", cap=300), seed, None) for seed in (0, 1)]
    assert len(few[0].y) == 300
    assert few[0].X.equals(few[1].X)


# --- Methods and their settings -----------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_built_and_takes_what_is_chosen(name):
    made = config(methods=[{"name": name}], tuning={"method_trials": 3}, search_seeds=[0])
    (method,), (regime,) = made.methods, made.regimes
    tried = candidates(method, made, regime, {})
    for chosen in tried:
        model = make_estimator(method, made, regime, chosen, 5)
        params = model.get_params(deep=True)
        for key, value in chosen.items():
            assert params[key] == value
    assert len(tried) == (1 if METHODS[name].tuned_as or not METHODS[name].own else 3) or (
        name in ("cross_entropy", "nescal", "nescal_published")
    )


def test_a_fixed_number_of_epochs():
    made = config(regimes=[{"name": "long", "epochs": 60}])
    model = make_estimator(made.methods[0], made, made.regimes[0], {}, 0)
    assert model.max_epochs == 60
    assert not model.early_stopping


def test_settings_are_spread_over_the_space():
    space = {
        "a": FloatDistribution(0.01, 100, log=True),
        "b": FloatDistribution(-1, 1),
        "c": IntDistribution(5, 50, log=True),
        "d": CategoricalDistribution(["u", "v"]),
    }
    found = spread(space, {"a": 7.0, "b": None, "c": "auto"}, 17)
    assert found[0] == {"a": 7.0}
    assert len(found) == 17
    for one in found[1:]:
        assert 0.01 <= one["a"] <= 100
        assert -1 <= one["b"] <= 1
        assert 5 <= one["c"] <= 50
        assert isinstance(one["c"], int)
    assert 5 <= sum(one["a"] < 1 for one in found[1:]) <= 11
    assert {one["d"] for one in found[1:]} == {"u", "v"}
    grid = spread({"d": space["d"]}, {"d": "v"}, 2)
    assert grid == [{"d": "u"}, {"d": "v"}]


def test_nescal_is_tuned_with_plain_cross_entropy_among_its_settings():
    made = config(methods=["nescal"], tuning={"method_trials": 4}, search_seeds=[0])
    network = {"dropout": 0.1, "lr": 0.002}
    tried = candidates(made.methods[0], made, made.regimes[0], network)
    assert [one["smoothing"] for one in tried] == [0.0, 0.3, 1.0, 3.0]
    assert all(one.items() >= network.items() for one in tried)


# --- Runs ---------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_estimators(tmp_path):
    store = run(config(calibrators=["none", "temperature"]), tmp_path)
    found = cells(store)
    assert len(found) == 2 * 3 * 2
    table = load_table(Data(sklearn="iris"), 13, None)
    X_val, y_val = table.take("val")
    model = NeSCalMLP(**QUICK | {"hidden_sizes": [8]}, smoothing=0, random_state=13)
    model.fit(*table.take("train"), X_val=X_val, y_val=y_val)
    scaled = CalibratedClassifier(FrozenEstimator(model)).fit(*table.take("cal"))
    X, y = table.take("test")
    key = (
        ("kind", "fit"),
        ("data", "iris"),
        ("method", "cross_entropy"),
        ("regime", "early_stopped"),
        ("seed", 13),
    )
    for name, answers in {"none": model, "temperature": scaled}.items():
        proba = answers.predict_proba(X).astype(float)
        result = found[key]["results"][name]
        assert result["nll"] == pytest.approx(log_loss(y, proba))
        assert result["brier"] == pytest.approx(brier_score_loss(y, proba))
        assert result["accuracy"] == pytest.approx((answers.predict(X) == y).mean())
        error = expected_calibration_error(y, proba, kind="class-wise")
        assert result["classwise_ece"] == pytest.approx(error)
    assert store.header()["versions"]["skcal"]


def test_tuning_chooses_by_the_search_seeds(tmp_path):
    made = config(
        data=[{"sklearn": "wine"}],
        methods=["cross_entropy", "nescal", "nescal_self", "ensemble_2", "hist_gradient_boosting"],
        tuning={"network_trials": 1, "method_trials": 2},
        search_seeds=[0, 1],
    )
    found = cells(run(made, tmp_path))
    tuned = {dict(key)["method"]: row for key, row in found.items() if dict(key)["kind"] == "tune"}
    fitted = {dict(key)["method"]: row for key, row in found.items() if dict(key)["kind"] == "fit"}
    assert set(tuned) == {"cross_entropy", "nescal", "hist_gradient_boosting"}
    n_trials = {name: len(row["trials"]) for name, row in tuned.items()}
    assert n_trials == {"cross_entropy": 3, "nescal": 2, "hist_gradient_boosting": 3}
    for row in tuned.values():
        means = [np.mean(trial["scores"]) for trial in row["trials"]]
        assert row["chosen"] == row["trials"][int(np.argmax(means))]["params"]
        assert all(len(trial["scores"]) == 2 for trial in row["trials"])
    network = tuned["cross_entropy"]["chosen"]
    assert tuned["nescal"]["chosen"].items() >= network.items()
    assert fitted["nescal_self"]["chosen"] == fitted["nescal"]["chosen"]
    assert fitted["ensemble_2"]["chosen"] == network


def test_estimators_maps_and_predictions_of_ones_own(tmp_path):
    for seed in (12, 13):
        table = load_table(Data(sklearn="iris"), seed, None)
        model = LogisticRegression().fit(*table.take("train"))
        np.savez(
            tmp_path / f"iris-{seed}.npz",
            cal=model.predict_proba(table.take("cal")[0]),
            test=model.predict_proba(table.take("test")[0]),
            classes=model.classes_,
        )
    made = config(
        data=[{"sklearn": "iris"}],
        methods=[
            {"name": "own", "estimator": f"{__name__}:Own", "params": {"C": 2.0}},
            {"name": "ready", "predictions": str(tmp_path / "{data}-{seed}.npz")},
        ],
        calibrators=["none", {"name": "mine", "estimator": f"{__name__}:OwnMap"}, "temperature"],
    )
    found = cells(run(made, tmp_path / "run"))
    assert len(found) == 4
    for row in found.values():
        assert row["results"]["mine"] == row["results"]["temperature"] != row["results"]["none"]


def test_a_cell_that_fails_is_recorded_and_the_rest_goes_on(tmp_path):
    made = config(
        data=[{"sklearn": "iris"}],
        methods=[
            {"name": "bad", "estimator": f"{__name__}:Own", "params": {"C": 13}},
            {"name": "absent", "predictions": str(tmp_path / "nowhere-{seed}.npz")},
            "hist_gradient_boosting",
        ],
    )
    store = run(made, tmp_path / "run")
    errors = {row["cell"]["method"]: row.get("error") for row in store.rows()}
    assert "told to fail" in errors["bad"]
    assert "Traceback" in errors["bad"]
    assert "nowhere-13.npz" in errors["absent"]
    assert errors["hist_gradient_boosting"] is None
    # They are tried again, the others are not.
    before = len(store.rows())
    lines = (tmp_path / "run" / "cells.jsonl").read_bytes().count(b"\n")
    run(made, tmp_path / "run", resume=True)
    after = (tmp_path / "run" / "cells.jsonl").read_bytes().count(b"\n")
    assert after == lines + 4
    assert len(store.rows()) == before


@pytest.mark.slow
def test_any_number_of_jobs_gives_the_same_numbers(tmp_path):
    made = config(tuning={"method_trials": 2}, search_seeds=[0])
    one, two = (cells(run(made, tmp_path / str(n), n_jobs=n)) for n in (1, 2))
    assert one == two


def test_a_run_goes_on_after_a_line_that_was_cut_short(tmp_path):
    whole = cells(run(config(), tmp_path / "whole"))
    store = run(config(), tmp_path / "cut")
    path = tmp_path / "cut" / "cells.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][: len(lines[4]) // 2])
    assert len(store.rows()) == 4
    run(config(), tmp_path / "cut", resume=True)
    assert cells(store) == whole
    assert path.read_bytes().count(b"\n") == len(lines)


def test_a_run_is_neither_overwritten_nor_mixed(tmp_path):
    run(config(), tmp_path)
    with pytest.raises(ConfigError, match="has a run already; go on with it by --resume"):
        run(config(), tmp_path)
    with pytest.raises(ConfigError, match="has a run of another configuration"):
        run(config(seeds=[14]), tmp_path, resume=True)
    with pytest.raises(ConfigError, match="has no run"):
        Store(tmp_path / "none").header()


KILLED = """
import json, sys
from skcal.experiments import check_config, run_benchmark
run_benchmark(check_config(json.loads(sys.argv[1])), sys.argv[2], resume=True, n_jobs=2)
"""


@pytest.mark.slow
def test_a_killed_run_loses_the_cells_in_flight_alone(tmp_path):
    told = json.dumps(SMALL | {"seeds": list(range(12, 24))})
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, told, str(tmp_path / "run")], start_new_session=True
    )
    store = Store(tmp_path / "run")
    deadline = time.monotonic() + 120
    while len(store.rows()) < 8:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = cells(store)
    made = check_config(json.loads(told))
    run(made, tmp_path / "run", resume=True)
    after = cells(store)
    assert len(after) == 2 * 3 * 12
    assert all(after[key] == row for key, row in kept.items())
    assert after == cells(run(made, tmp_path / "again"))


@pytest.mark.slow
def test_a_cluster_of_dask_gives_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    script = tmp_path / "cluster.py"
    script.write_text(
        "import json, sys\n"
        "from distributed import Client, LocalCluster\n"
        "from skcal.experiments import check_config, run_benchmark\n"
        "if __name__ == '__main__':\n"
        "    made = check_config(json.loads(sys.argv[1]))\n"
        "    there = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)\n"
        "    with there as cluster, Client(cluster):\n"
        "        run_benchmark(made, sys.argv[2], backend='dask')\n"
    )
    out = tmp_path / "run"
    process = subprocess.run(
        [sys.executable, script, json.dumps(SMALL), out], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert distributed
    assert cells(Store(out)) == cells(run(config(), tmp_path / "here"))


# --- Plans --------------------------------------------------------------------------------------


def test_a_plan_counts_what_is_run(tmp_path):
    made = config(
        methods=["cross_entropy", "focal", "nescal_random", "brier"],
        tuning={"network_trials": 2, "method_trials": 3},
        search_seeds=[0, 1],
        regimes=[{"name": "a"}, {"name": "b", "epochs": 5, "seeds": [12]}],
    )
    plan = make_plan(made)
    base, others, fits = plan.waves()
    assert len(base) == 2 * 2
    assert len(others) == 2 * 2  # focal; the random graph takes what NeSCal has, brier has nothing
    assert len(fits) == 2 * 4 * (2 + 1)
    assert plan.n_fits() == 4 * 5 * 2 + 4 * 3 * 2 + len(fits)
    assert plan.minutes() > plan.minutes(n_jobs=2) > 0


# --- The command --------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL | {"seeds": [12]}))
    out = tmp_path / "run"
    assert main(["bench", str(path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "small: 2 tables, 3 methods, 2 calibrators; 6 cells (6 measured), 6 fits"
    )
    assert not out.exists()
    assert main(["bench", str(path), "--out", str(out)]) == 0
    assert f"6 cells in {out}, 0 failed." in capsys.readouterr().out
    assert main(["bench", str(path), "--out", str(out)]) == 2
    assert "go on with it by --resume" in capsys.readouterr().err
    assert main(["bench", str(path), "--out", str(out), "--resume"]) == 0
    assert main(["bench", str(tmp_path / "absent.json")]) == 2
    assert main(["bench", str(path), "--jobs", "0"]) == 2
    path.write_text(json.dumps(SMALL | {"sede": 1}))
    assert main(["bench", str(path)]) == 2
    assert "did you mean 'seeds'?" in capsys.readouterr().err


def test_the_command_tells_of_cells_that_failed(tmp_path, capsys):
    path = tmp_path / "bad.json"
    bad = {"name": "bad", "estimator": f"{__name__}:Own", "params": {"C": 13}}
    path.write_text(json.dumps(SMALL | {"methods": [bad], "seeds": [12]}))
    assert main(["bench", str(path), "--out", str(tmp_path / "run")]) == 1
    told = capsys.readouterr()
    assert "0 cells in" in told.out
    assert "2 failed" in told.out
    assert "ArithmeticError: told to fail" in told.err


def test_without_pydantic_the_extra_is_named():
    code = """
import sys
sys.modules["pydantic"] = None
from skcal.cli import main
print(main(["bench", "any.json"]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "2"
    assert "pip install 'skcal[bench]'" in said.stderr
