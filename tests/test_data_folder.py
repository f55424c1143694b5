"""Tables of a data folder: what a cell means, and the splits that comparisons share."""

import csv
import gzip
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skcal.datasets import load_dataset

PARTS = ("train", "val", "cal", "test")
COLUMNS = ["row", "size", "colour", "code", "patient", "target"]
ABOUT = {"categorical": ["colour", "code"], "auxiliary": ["patient"]}


def write(folder, rows, columns=COLUMNS, name="things", **about):
    """Write one table and its manifest by hand, without pandas."""
    text = "\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n"
    packed = gzip.compress(text.encode(), mtime=0)
    (folder / f"{name}.csv.gz").write_bytes(packed)
    described = {
        "file": f"{name}.csv.gz",
        "sha256": hashlib.sha256(packed).hexdigest(),
        **ABOUT,
        "official_train_rows": None,
        **about,
    }
    table = {key: value for key, value in described.items() if value is not ...}
    (folder / "manifest.json").write_text(json.dumps({"datasets": {name: table}}))
    return folder


def simple_rows(**counts):
    """Return rows of some classes, evenly mixed; ``row`` is the number in the file."""
    order = sorted((i / n, label) for label, n in counts.items() for i in range(n))
    return [[i, 0.5, "red", "1", i // 2, label] for i, (_, label) in enumerate(order)]


@pytest.fixture
def things(tmp_path):
    """80 rows of classes a, b and NA, and 9 of a rare one; cells of every kind."""
    rows = simple_rows(a=40, b=30, NA=10, rare=9)
    for i, row in enumerate(rows):
        row[1] = "" if i % 7 == 0 else i / 4
        row[2] = ["NA", "None", "red", "", "null"][i % 5]
        row[3] = ["1", "01", "1.0"][i % 3]
    return write(tmp_path, rows, official_train_rows=60), rows


# --- Cells -------------------------------------------------------------------------------


def test_only_an_empty_field_is_missing(things):
    folder, rows = things
    table = load_dataset("things", folder)
    kept = [row for row in rows if row[-1] != "rare"]
    assert table.data.columns.tolist() == ["row", "size", "colour", "code"]
    assert table.categorical_features == ["colour", "code"]
    for name in ("row", "size"):
        expected = [float(str(r[COLUMNS.index(name)]) or "nan") for r in kept]
        assert table.data[name].dtype == np.float64
        assert_array_equal(table.data[name], expected)
    for name in ("colour", "code"):
        column = table.data[name]
        assert isinstance(column.dtype, pd.CategoricalDtype)
        assert not column.cat.ordered
        cells = [r[COLUMNS.index(name)] for r in kept]
        assert_array_equal(column.isna(), [cell == "" for cell in cells])
        assert column.dropna().tolist() == [cell for cell in cells if cell]
    assert set(table.data["colour"].cat.categories) == {"NA", "None", "null", "red"}
    assert set(table.data["code"].cat.categories) == {"1", "01", "1.0"}
    assert table.data.index.tolist() == list(range(80))


def test_labels_are_texts_and_auxiliary_columns_groups(things):
    folder, rows = things
    table = load_dataset("things", folder)
    assert table.target.dtype.kind == "U"
    assert_array_equal(table.target, [row[-1] for row in rows if row[-1] != "rare"])
    assert_array_equal(table.groups, [row[4] for row in rows if row[-1] != "rare"])


def test_a_table_without_auxiliary_columns_has_no_groups(tmp_path):
    rows = [[i, "ab"[i % 2]] for i in range(40)]
    write(tmp_path, rows, ["x", "target"], categorical=[], auxiliary=[])
    table = load_dataset("things", tmp_path)
    assert table.groups is None
    assert table.categorical_features == []
    assert table.data.columns.tolist() == ["x"]


@pytest.mark.parametrize(
    "drop", ["size", ["size"], iter(["size"]), (name for name in ["size", "code"])]
)
def test_columns_can_be_left_out(things, drop):
    table = load_dataset("things", things[0], drop=drop)
    assert "size" not in table.data
    assert table.categorical_features == [c for c in ("colour", "code") if c in table.data]
    assert "row" in table.data


# --- Splits ------------------------------------------------------------------------------


def check_parts(table):
    """Assert that the parts are sorted, disjoint, and cover the rows."""
    parts = [table[name] for name in PARTS]
    for part in parts:
        assert len(part) > 0
        assert (np.diff(part) > 0).all()
    together = np.sort(np.concatenate(parts))
    assert_array_equal(together, np.arange(len(table.target)))
    assert len(table.data) == len(table.target)


def count(table, part):
    return dict(Counter(table.target[table[part]].tolist()))


def test_a_random_split_is_stratified_and_leaves_rare_classes_out(things):
    table = load_dataset("things", things[0], seed=3)
    check_parts(table)
    assert table.dropped_classes == ["rare"]
    assert count(table, "test") == {"a": 8, "b": 6, "NA": 2}
    assert count(table, "cal") == count(table, "val") == {"a": 4, "b": 3, "NA": 1}
    assert count(table, "train") == {"a": 24, "b": 18, "NA": 6}


def test_nine_rows_are_rare_and_ten_are_not(tmp_path):
    table = load_dataset("things", write(tmp_path, simple_rows(a=20, b=10, c=9)))
    assert table.dropped_classes == ["c"]
    assert set(table.target) == {"a", "b"}


def test_the_seed_alone_decides(things):
    first, again, other = (load_dataset("things", things[0], seed=s) for s in (5, 5, 6))
    for part in PARTS:
        assert_array_equal(first[part], again[part])
    assert not np.array_equal(first.test, other.test)
    pd.testing.assert_frame_equal(first.data, other.data)


def test_splits_and_caps_stay_those_of_published_figures(things, tmp_path):
    # Written down once: a change would make new figures incomparable with old ones.
    table = load_dataset("things", things[0], seed=12)
    assert table.test.tolist() == [1, 8, 11, 12, 14, 21, 23, 25, 27, 30, 34, 48, 51, 52, 58, 69]
    assert table.cal.tolist() == [2, 15, 32, 47, 50, 54, 55, 59]
    assert table.val.tolist() == [17, 38, 40, 53, 60, 63, 67, 78]
    table = load_dataset("things", write(tmp_path, simple_rows(a=40, b=30, NA=20)), cap=45)
    assert table.data["row"].head(12).tolist() == [2, 3, 5, 6, 7, 9, 10, 11, 15, 17, 18, 24]


def test_the_official_test_part_is_kept(things):
    folder, _ = things
    table = load_dataset("things", folder, protocol="official", seed=1)
    check_parts(table)
    in_file = table.data["row"].to_numpy()
    assert_array_equal(in_file[table.test], in_file[in_file >= 60])
    n_rest = (in_file < 60).sum()
    assert len(table.cal) == np.ceil(n_rest / 8)
    assert len(table.val) == np.ceil((n_rest - len(table.cal)) / 7)


def test_the_last_fifth_is_the_future(tmp_path):
    # The last fifth of 100 rows holds a class that was not there before.
    rows = simple_rows(a=40, b=40)
    rows += [[80 + i, 0.5, "red", "1", 0, "new"] for i in range(20)]
    table = load_dataset("things", write(tmp_path, rows), protocol="time")
    check_parts(table)
    assert_array_equal(table.test, np.arange(80, 100))
    assert count(table, "test") == {"new": 20}
    assert [len(table[part]) for part in PARTS] == [60, 10, 10, 20]
    assert count(table, "cal") == {"a": 5, "b": 5}


def test_a_single_earlier_row_of_a_class_leaves_the_others_stratified(tmp_path):
    rows = simple_rows(a=60, b=19)
    rows[0][-1] = "c"
    rows += [[79 + i, 0.5, "red", "1", 0, "c"] for i in range(20)]
    table = load_dataset("things", write(tmp_path, rows), protocol="time")
    assert 4 <= count(table, "cal").get("a", 0) + count(table, "cal").get("c", 0) <= 8
    assert 2 <= count(table, "cal")["b"] <= 3


def test_the_cap_is_stratified_keeps_the_order_and_knows_no_seed(tmp_path):
    folder = write(tmp_path, simple_rows(a=300, b=200, c=100))
    first, other, time = (
        load_dataset("things", folder, cap=60, **options)
        for options in ({"seed": 0}, {"seed": 9}, {"protocol": "time"})
    )
    assert Counter(first.target.tolist()) == {"a": 30, "b": 20, "c": 10}
    assert (np.diff(first.data["row"]) > 0).all()
    for table in (first, other, time):
        check_parts(table)
        pd.testing.assert_frame_equal(table.data, first.data)
    assert not np.array_equal(first.test, other.test)
    assert_array_equal(time.test, np.arange(48, 60))


@pytest.mark.parametrize("cap", [600, 599, 598, 10_000, np.int64(597)])
def test_a_cap_may_leave_out_fewer_rows_than_there_are_classes(tmp_path, cap):
    table = load_dataset("things", write(tmp_path, simple_rows(a=300, b=200, c=100)), cap=cap)
    assert len(table.target) == min(cap, 600)


def test_the_cap_stays_stratified_beside_a_class_of_one_row(tmp_path):
    table = load_dataset("things", write(tmp_path, simple_rows(a=600, b=300, c=99, d=1)), cap=200)
    counts = Counter(table.target.tolist())
    assert counts["a"] == 120
    assert counts["b"] == 60
    assert 19 <= counts["c"] <= 20


def test_classes_are_dropped_after_the_cap(tmp_path):
    table = load_dataset("things", write(tmp_path, simple_rows(a=400, b=300, c=50)), cap=75)
    assert table.dropped_classes == ["c"]
    assert Counter(table.target.tolist()) == {"a": 40, "b": 30}


# --- Errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "thing"}, r"no table 'thing'; it has \['things'\]"),
        ({"protocol": "fold"}, "protocol must be 'random', 'official' or 'time'; got 'fold'"),
        ({"cap": 0}, "cap must be a number of rows of at least 1"),
        ({"cap": -5}, "cap must"),
        ({"cap": True}, "cap must.*got cap=True"),
        ({"cap": 50.0}, "cap must"),
        ({"cap": "50"}, "cap must"),
        ({"cap": 50, "protocol": "official"}, "None with protocol='official'"),
        ({"cap": 12}, "fewer than two classes of at least 10 rows with cap=12; raise it"),
        ({"cap": 3}, "fewer than two classes"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": -1}, "seed must"),
        ({"seed": True}, "seed must"),
        ({"seed": 1.5}, "seed must"),
        ({"seed": 2**32}, "seed must"),
        ({"drop": ["weight"]}, "things has no column 'weight'; it has"),
        ({"drop": "weight"}, "things has no column 'weight'; it has"),
        ({"drop": "patient"}, "no column 'patient'"),
        ({"drop": "target"}, "no column 'target'"),
    ],
)
def test_wrong_arguments_are_refused(things, options, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(options.pop("name", "things"), things[0], **options)


def test_there_is_no_official_part(tmp_path):
    folder = write(tmp_path, simple_rows(a=20, b=20))
    with pytest.raises(ValueError, match=r"no official test part; use protocol='random'"):
        load_dataset("things", folder, protocol="official")


def test_the_folder_is_an_argument_or_a_variable(things, tmp_path, monkeypatch):
    folder, _ = things
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv("SKCAL_DATA", raising=False)
        else:
            monkeypatch.setenv("SKCAL_DATA", value)
        monkeypatch.chdir(folder)  # where an empty name would lead
        with pytest.raises(FileNotFoundError, match=r"pass folder=.*SKCAL_DATA"):
            load_dataset("things")
    monkeypatch.setenv("SKCAL_DATA", str(folder))
    assert len(load_dataset("things").target) == 80
    monkeypatch.setenv("SKCAL_DATA", str(tmp_path / "nowhere"))
    assert len(load_dataset("things", str(folder)).target) == 80
    with pytest.raises(FileNotFoundError, match=r"nowhere.manifest\.json does not exist"):
        load_dataset("things")


def test_a_changed_or_missing_file_is_refused(things):
    folder, _ = things
    file = folder / "things.csv.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + b"0,0,red,1,0,a\n"))
    with pytest.raises(ValueError, match=r"things\.csv\.gz is not the file that the manifest"):
        load_dataset("things", folder)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"things\.csv\.gz"):
        load_dataset("things", folder)


@pytest.mark.parametrize("key", ["file", "sha256", "categorical", "auxiliary"])
def test_an_incomplete_manifest_is_named(tmp_path, key):
    write(tmp_path, simple_rows(a=20, b=20), **{key: ...})
    with pytest.raises(ValueError, match=rf"manifest\.json gives no '{key}' for things"):
        load_dataset("things", tmp_path)


@pytest.mark.parametrize(
    ("about", "absent"),
    [({"categorical": ["shape"]}, "shape"), ({"auxiliary": ["doctor"]}, "doctor")],
)
def test_columns_of_the_manifest_must_be_there(tmp_path, about, absent):
    write(tmp_path, simple_rows(a=20, b=20), **about)
    with pytest.raises(ValueError, match=f"has no column '{absent}'; it has"):
        load_dataset("things", tmp_path)


def test_every_row_needs_a_label(tmp_path):
    rows = simple_rows(a=20, b=20)
    rows[7][-1] = ""
    with pytest.raises(ValueError, match=r"no label in row 7 \(from 0\)"):
        load_dataset("things", write(tmp_path, rows))
    write(tmp_path, [row[:-1] for row in rows], COLUMNS[:-1])
    with pytest.raises(ValueError, match="has no column 'target'"):
        load_dataset("things", tmp_path)


def test_one_class_is_not_a_table_to_classify(tmp_path):
    with pytest.raises(ValueError, match=r"fewer than two classes of at least 10 rows\."):
        load_dataset("things", write(tmp_path, simple_rows(a=20, b=9)))


# --- A real folder -------------------------------------------------------------------------

REAL = os.environ.get("SKCAL_DATA", "")
TABLES = (
    json.loads((Path(REAL) / "manifest.json").read_text(encoding="utf-8"))["datasets"]
    if REAL
    else {}
)
# Tables that take seconds to read.
LARGE = 100_000
REAL_TABLES = [
    pytest.param(name, marks=[pytest.mark.slow] if about["rows"] > LARGE else [])
    for name, about in TABLES.items()
]
on_real_tables = pytest.mark.parametrize("name", REAL_TABLES)


def count_empty_fields(about, classes):
    """Return how many feature cells of some classes are empty, read without pandas."""
    with gzip.open(Path(REAL) / about["file"], "rt", encoding="utf-8", newline="") as file:
        return sum(
            sum(value == "" for key, value in row.items() if key not in about["auxiliary"])
            for row in csv.DictReader(file)
            if row["target"] in classes
        )


@on_real_tables
def test_real_table_is_what_its_manifest_says(name):
    about = TABLES[name]
    table = load_dataset(name)
    counts = about["class_counts"]
    dropped = {label for label, n in counts.items() if n < 10}
    assert set(table.dropped_classes) == dropped
    assert Counter(table.target.tolist()) == {c: n for c, n in counts.items() if c not in dropped}
    assert len(table.data) == about["rows"] - sum(counts[label] for label in dropped)
    is_category = [isinstance(dtype, pd.CategoricalDtype) for dtype in table.data.dtypes]
    assert (is_category.count(False), is_category.count(True)) == (about["n_num"], about["n_cat"])
    assert (table.data.dtypes[~np.array(is_category)] == np.float64).all()
    assert sorted(table.categorical_features) == sorted(about["categorical"])
    left_out = count_empty_fields(about, dropped) if dropped else 0
    assert table.data.isna().to_numpy().sum() == about["missing_cells"] - left_out
    if not dropped:
        levels = {c: table.data[c].nunique() for c in table.categorical_features}
        assert levels == about["cat_cardinality"]
    assert (table.groups is None) == (not about["auxiliary"])
    check_parts(table)


@on_real_tables
def test_real_table_has_one_cap_and_repeatable_splits(name):
    cap = min(2000, TABLES[name]["rows"] // 2)
    if cap < 20 * TABLES[name]["classes"]:
        cap = TABLES[name]["rows"] - 1
    first, again, other = (load_dataset(name, cap=cap, seed=seed) for seed in (0, 0, 1))
    n_dropped = cap - len(first.target)
    assert 0 <= n_dropped < 10 * max(len(first.dropped_classes), 1)
    for table in (again, other):
        pd.testing.assert_frame_equal(table.data, first.data)
        assert_array_equal(table.target, first.target)
        check_parts(table)
    for part in PARTS:
        assert_array_equal(first[part], again[part])
        assert not np.array_equal(first[part], other[part])
    shares = np.array([len(first[part]) for part in PARTS]) / len(first.target)
    np.testing.assert_allclose(shares, [0.6, 0.1, 0.1, 0.2], atol=3 / len(first.target))
    for part in PARTS:
        whole = pd.Series(first.target).value_counts()
        drawn = pd.Series(first.target[first[part]]).value_counts().reindex(whole.index)
        expected = whole * len(first[part]) / len(first.target)
        assert (np.abs(drawn - expected) < 3).all()


@pytest.mark.parametrize(
    "name", [name for name, about in TABLES.items() if about["official_train_rows"]]
)
def test_real_table_keeps_its_official_test_part(name):
    about = TABLES[name]
    table = load_dataset(name, protocol="official")
    with gzip.open(Path(REAL) / about["file"], "rt", encoding="utf-8", newline="") as file:
        labels = [row[-1] for row in csv.reader(file)][1:]
    assert not table.dropped_classes
    assert_array_equal(table.test, np.arange(about["official_train_rows"], about["rows"]))
    assert_array_equal(table.target, labels)
    check_parts(table)


@pytest.mark.parametrize("name", TABLES)
def test_real_table_is_checked_by_its_hash(name, tmp_path):
    about = TABLES[name]
    (tmp_path / about["file"]).symlink_to(Path(REAL).resolve() / about["file"])
    packed = (tmp_path / about["file"]).read_bytes()
    assert hashlib.sha256(packed).hexdigest() == about["sha256"]
    other = {**about, "sha256": hashlib.sha256(packed[:-1]).hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps({"datasets": {name: other}}))
    with pytest.raises(ValueError, match="not the file that the manifest describes"):
        load_dataset(name, tmp_path)
