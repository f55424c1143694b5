"""Stress studies: what is damaged and what is not, and that configurations reach it."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from skcal.experiments import ConfigError, check_config, run_benchmark, write_report
from skcal.experiments._config import Data
from skcal.experiments._data import load_table
from skcal.experiments._stress import CORRUPTIONS, corrupt, separation, wrong_labels

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=4000),
        "b": 100 * RNG.normal(size=4000),
        "constant": np.ones(4000),
        "count": RNG.integers(0, 9, 4000),
        "level": pd.Categorical(RNG.choice(["x", "y", "z"], 4000)),
        "only": pd.Categorical(["w"] * 4000),
    }
)


# --- Damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_damage_is_a_copy_and_repeatable_and_of_the_same_form(kind):
    before = FRAME.copy()
    one, two, other = (corrupt(FRAME, FRAME, kind, 3, seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(FRAME, before)
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(other)
    assert not one.equals(FRAME)
    assert list(one.columns) == list(FRAME.columns)
    assert len(one) == len(FRAME)


@pytest.mark.parametrize(("severity", "deviation"), [(1, 0.1), (3, 0.5), (5, 2.0)])
def test_noise_is_in_standard_deviations_of_the_training_rows(severity, deviation):
    found = corrupt(FRAME, FRAME, "noise", severity, 0)
    for name in ("a", "b", "count"):
        added = found[name] - FRAME[name]
        assert added.std() == pytest.approx(deviation * FRAME[name].std(), rel=0.05)
        assert abs(added.mean()) < 0.1 * deviation * FRAME[name].std()
    assert (found["constant"] == 1).all()
    assert found["level"].equals(FRAME["level"])


@pytest.mark.parametrize(("severity", "share"), [(1, 0.05), (3, 0.2), (5, 0.6)])
def test_cells_are_missing_and_the_others_as_they_were(severity, share):
    found = corrupt(FRAME, FRAME, "missing", severity, 0)
    for name in FRAME:
        gone = found[name].isna()
        assert gone.mean() == pytest.approx(share, abs=0.03)
        assert (found[name][~gone] == FRAME[name][~gone]).all()


def test_units_are_those_of_whole_columns():
    changed = []
    for severity in (1, 2, 3, 4, 5):
        found = corrupt(FRAME, FRAME, "units", severity, 0)
        ratios = {n: set((found[n] / FRAME[n]).dropna().round(6)) for n in ("a", "b", "constant")}
        assert all(ratio in ({1.0}, {10.0}) for ratio in ratios.values())
        n_changed = sum(
            not np.allclose(found[n], FRAME[n]) for n in ("a", "b", "constant", "count")
        )
        changed.append(n_changed)
    assert changed == [1, 1, 1, 2, 3]


@pytest.mark.parametrize(("severity", "share"), [(1, 0.05), (5, 0.6)])
def test_categories_are_swapped_for_others(severity, share):
    found = corrupt(FRAME, FRAME, "swapped", severity, 0)
    differs = found["level"].astype(str) != FRAME["level"].astype(str)
    assert differs.mean() == pytest.approx(share, abs=0.03)
    assert set(found["level"]) == {"x", "y", "z"}
    assert (found["only"] == "w").all()
    assert found["a"].equals(FRAME["a"])


def test_wrong_labels_are_of_other_classes():
    y = np.repeat(["p", "q", "r"], 2000)
    found = wrong_labels(y, 0.3, 0)
    differs = found != y
    assert differs.mean() == pytest.approx(0.3, abs=0.02)
    shares = pd.Series(found[differs & (y == "p")]).value_counts(normalize=True)
    assert set(shares.index) == {"q", "r"}
    assert shares.to_numpy() == pytest.approx([0.5, 0.5], abs=0.05)
    assert np.array_equal(wrong_labels(y, 0.0, 0), y)


def test_separation_is_the_area_under_the_curve():
    rng = np.random.default_rng(0)
    sure, unsure = rng.dirichlet([0.2] * 3, 100), rng.dirichlet([3] * 3, 80)
    found = separation(sure, unsure)
    both = np.concatenate([sure, unsure])
    truth = np.repeat([0, 1], [100, 80])
    entropy = [-sum(p * np.log(p) for p in row if p > 0) for row in both]
    assert found["entropy"] == pytest.approx(roc_auc_score(truth, entropy))
    assert found["confidence"] == pytest.approx(roc_auc_score(truth, -both.max(axis=1)))
    assert found["confidence"] > 0.8
    with_zero = np.array([[1.0, 0.0]])
    assert separation(with_zero, with_zero) == {"confidence": 0.5, "entropy": 0.5}


# --- Tables -------------------------------------------------------------------------------------


def test_noise_and_size_are_of_the_training_rows_alone():
    plain = load_table(Data(sklearn="digits"), 3, None)
    few = load_table(Data(sklearn="digits", train_rows=100), 3, None)
    assert len(few.train) == 100
    assert set(few.train) < set(plain.train)
    for part in ("val", "cal", "test"):
        assert np.array_equal(getattr(few, part), getattr(plain, part))
    noisy = load_table(Data(sklearn="digits", label_noise=0.5), 3, None)
    differs = noisy.y != plain.y
    assert differs[plain.train].mean() == pytest.approx(0.5, abs=0.05)
    assert not np.delete(differs, plain.train).any()


def test_a_class_that_is_not_known_is_in_no_part():
    table = load_table(Data(sklearn="digits", unseen_class="7"), 3, None)
    everything = np.concatenate([table.train, table.val, table.cal, table.test])
    assert "7" not in set(table.y[everything])
    assert len(table.X_unseen) + len(everything) == len(table.y)
    with pytest.raises(ValueError, match="needs three classes, and the unseen one among them"):
        load_table(Data(sklearn="digits", unseen_class="seven"), 3, None)
    with pytest.raises(ValueError, match="needs three classes"):
        load_table(Data(sklearn="breast_cancer", unseen_class="1"), 3, None)


def test_groups_stay_in_one_part(tmp_path):
    import gzip
    import hashlib

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=300).round(3),
            "patient": np.repeat(np.arange(60), 5),
            "target": np.tile(["p", "q"], 150),
        }
    )
    content = gzip.compress(frame.to_csv(index=False).encode())
    (tmp_path / "t.csv.gz").write_bytes(content)
    about = {
        "file": "t.csv.gz",
        "sha256": hashlib.sha256(content).hexdigest(),
        "categorical": [],
        "auxiliary": ["patient"],
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"datasets": {"t": about}}))
    table = load_table(Data(table="t", protocol="group"), 0, tmp_path)
    patients = frame["patient"].to_numpy()
    parts = [set(patients[getattr(table, part)]) for part in ("train", "val", "cal", "test")]
    assert [len(part) for part in parts] == [36, 6, 6, 12]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 60
    about["auxiliary"] = []
    (tmp_path / "manifest.json").write_text(json.dumps({"datasets": {"t": about}}))
    with pytest.raises(ValueError, match="t has no groups"):
        load_table(Data(table="t", protocol="group"), 0, tmp_path)


# --- Configurations -----------------------------------------------------------------------------


def test_a_study_from_its_configuration_to_its_report(tmp_path):
    made = check_config(
        {
            "name": "stress",
            "data": [
                {"sklearn": "wine", "unseen_class": "2"},
                {"bundled": "credit", "cap": 200, "label_noise": 0.2, "name": "credit, noisy"},
            ],
            "methods": [
                "cross_entropy",
                {"name": "few neighbours", "method": "nescal", "params": {"n_neighbors": 2}},
            ],
            "seeds": [12],
            "network": {"preset": "fast", "max_epochs": 3, "hidden_sizes": [8]},
            "stress": ["noise", {"kind": "missing", "severities": [1, 5]}],
        }
    )
    store = run_benchmark(made, tmp_path)
    rows = store.rows()
    assert [row.get("error") for row in rows] == [None] * 4
    for row in rows:
        names = [*(f"noise-{s}" for s in (1, 2, 3, 4, 5)), "missing-1", "missing-5"]
        assert list(row["stress"]) == names
        assert all(set(one) == {"none", "temperature"} for one in row["stress"].values())
        is_wine = row["cell"]["data"] == "wine"
        assert ("unseen" in row["results"]["none"]) is is_wine
    again = run_benchmark(made, tmp_path / "again").rows()
    assert [row["stress"] for row in again] == [row["stress"] for row in rows]
    text = write_report(tmp_path)[0].read_text(encoding="utf-8")
    assert "Damaged test rows" in text
    assert "| missing-5 |" in text
    assert "Rows of an unseen class, told by entropy" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stress": ["fog"]}, "stress.0.kind: .*'noise'.*got 'fog'"),
        ({"stress": [{"kind": "noise", "severities": [6]}]}, "stress.0.severities.0"),
        ({"stress": [{"kin": "noise"}]}, "stress.0.kin: .*did you mean 'kind'"),
        ({"data": [{"sklearn": "iris", "protocol": "time"}]}, "of tables of the data folder"),
        ({"data": [{"sklearn": "iris", "label_noise": 1}]}, "data.0.label_noise: .*less than 1"),
    ],
)
def test_wrong_studies_are_refused(changes, words):
    small = {"name": "s", "data": [{"sklearn": "iris"}], "methods": ["nescal"], "seeds": [1]}
    with pytest.raises(ConfigError, match=words):
        check_config(small | changes)
