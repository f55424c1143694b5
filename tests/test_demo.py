"""The command line: what it prints, what it writes, and how it refuses."""

import re
import struct
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from skcal.cli import main
from skcal.datasets import load_credit
from skcal.demo import Comparison, compare, read_table, write_report
from skcal.demo._report import summary, text_table
from skcal.demo._table import TableError


@pytest.fixture(scope="module")
def credit():
    return load_credit(as_frame=True).frame.iloc[:600]


@pytest.fixture
def csv(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


ROWS = "age,city,label\n" + "31,Bern,yes\n52,Ulm,no\n" * 20

REFUSALS = {
    "missing column": (ROWS, "lable", ["'lable'", "Did you mean 'label'?", "age, city, label"]),
    "empty file": ("", "label", ["is empty"]),
    "no rows": ("age,label\n", "label", ["header but no rows"]),
    "semicolons": (ROWS.replace(",", ";"), "label", ["separated by semicolons"]),
    "one class": ("age,label\n" + "1,yes\n" * 30, "label", ["one class only", "'yes'"]),
    "fractions": (
        "age,label\n" + "".join(f"1,{i / 7:.3f}\n" for i in range(60)),
        "label",
        ["regression", "fractions", "qcut"],
    ),
    "many whole numbers": (
        "age,label\n" + "".join(f"1,{i}\n" for i in range(60)),
        "label",
        ["regression", "60 different numbers"],
    ),
    "rare class": (ROWS + "40,Ulm,maybe\n", "label", ["'maybe'", "1 row(s)", "at least 10"]),
    "only the target": ("label\n" + "yes\nno\n" * 20, "label", ["only the column 'label'"]),
    "no label at all": ("age,label\n" + "3,\n" * 30, "label", ["no row with a label"]),
    "nothing usable": (
        "id,label\n" + "".join(f"user-{i},{'yes' if i % 2 else 'no'}\n" for i in range(200)),
        "label",
        ["no usable column", "'id'", "different texts"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_an_unusable_table_is_refused_in_one_line_that_says_what_to_do(case, csv, tmp_path, capsys):
    text, target, words = REFUSALS[case]
    out = tmp_path / "out"
    assert main(["demo", "--data", csv(text), "--target", target, "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("skcal: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err
    assert not out.exists()


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path, capsys):
    assert main(["demo", "--data", str(tmp_path / "no.csv"), "--target", "y"]) == 2
    assert "There is no file" in capsys.readouterr().err
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\x80\xff\xfe\x00" * 50)
    assert main(["demo", "--data", str(path), "--target", "y"]) == 2
    assert "could not be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["demo", "--data", "a.csv"], "go together"),
        (["demo", "--target", "y"], "go together"),
        (["demo", "--seeds", "0"], "at least 1"),
    ],
)
def test_wrong_arguments_exit_with_two(arguments, word, capsys):
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


def test_what_cannot_be_learned_from_is_left_out_and_said(csv):
    rows = "".join(f"{i},key-{i},,{'yes' if i % 3 else 'no'}\n" for i in range(300))
    X, y, notes = read_table(csv("number,key,empty,label\n" + rows + "7,k,,\n"), "label")
    assert X.columns.tolist() == ["number"]
    assert len(y) == 300
    assert any("'key'" in note and "300 different texts" in note for note in notes)
    assert any("'empty'" in note for note in notes)
    assert any("1 rows without a label" in note for note in notes)


def test_whole_numbers_are_classes_when_they_are_few(csv):
    rows = "".join(f"{i % 7},{i % 3}\n" for i in range(60))
    _, y, _ = read_table(csv("x,label\n" + rows), "label")
    assert sorted(set(y)) == ["0", "1", "2"]


def test_a_users_table_is_compared_and_reported(credit, tmp_path, capsys):
    path, out = tmp_path / "mine.csv", tmp_path / "report"
    credit.to_csv(path, index=False)
    arguments = ["demo", "--data", str(path), "--target", "Status", "--out", str(out)]
    assert main([*arguments, "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    header = next(line for line in lines if line.startswith("Method"))
    for name in ("NLL", "Brier", "ECE", "accuracy", "fit s"):
        assert name in header
    table = [line for line in lines if re.search(r"\d ± \d", line) and "paired" not in line]
    assert len(table) == 6
    assert len({len(line) for line in table}) == 1  # aligned
    for name in ("Cross-entropy", "NeSCal", "MLPClassifier"):
        assert name in printed
    assert "360 training, 120 calibration and 120 test rows" in printed
    picture = (out / "reliability.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", picture[16:24])) > 400
    page = (out / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)  # self-contained
    assert sorted(path.name for path in out.iterdir()) == ["reliability.png", "report.html"]


def test_intervals_are_students_with_the_correction_for_overlapping_splits():
    values = [0.5, 0.6, 0.55, 0.7]
    result = Comparison(
        scores={("a", "raw"): [{"NLL": v} for v in values]}, seeds=[0, 1, 2, 3], sizes=(60, 20, 20)
    )
    mean, half = result.interval(("a", "raw"), "NLL")
    # Nadeau and Bengio: the variance of the mean is (1/n + n_test/n_train) s^2.
    scale = np.std(values, ddof=1) * np.sqrt(1 / 4 + 20 / 60)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=scale)
    assert mean == pytest.approx(np.mean(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    result.scores["b", "raw"] = [{"NLL": v + 0.1} for v in values]
    difference, spread = result.difference(("a", "raw"), ("b", "raw"), "NLL")
    assert difference == pytest.approx(-0.1)
    assert spread == pytest.approx(0.0, abs=1e-12)


def test_a_large_table_is_sampled_and_its_rare_class_named(csv):
    rows = "".join(f"{i},{'rare' if i < 12 else 'ab'[i % 2]}\n" for i in range(2000))
    path = csv("x,label\n" + rows)
    X, y, notes = read_table(path, "label", max_rows=1900)
    assert len(X) == len(y) == 1900
    assert any("sample of 1900 of the 2000" in note for note in notes)
    with pytest.raises(TableError, match=r"'rare'.*in a sample of 500 rows.*at least 10"):
        read_table(path, "label", max_rows=500)


def test_infinity_is_left_out_and_said(csv):
    rows = "".join(f"{i},{'inf' if i == 3 else i},{'ab'[i % 2]}\n" for i in range(60))
    X, _, notes = read_table(csv("x,big,label\n" + rows), "label")
    assert X.columns.tolist() == ["x"]
    assert any("'big'" in note and "infinity" in note for note in notes)


def test_one_seed_has_no_interval_and_says_so(credit, tmp_path):
    X, y = credit.drop(columns="Status"), credit["Status"]
    result = compare(X, y, seeds=[3])
    assert "±" not in text_table(result)
    assert "no interval" in summary(result)[0]
    assert [path.name for path in write_report(result, tmp_path, title="<b>", notes=[])] == [
        "reliability.png",
        "report.html",
    ]
    assert "&lt;b&gt;" in (tmp_path / "report.html").read_text()


def test_the_same_seeds_give_the_same_numbers(credit):
    X, y = credit.drop(columns="Status"), credit["Status"]
    first, second = (compare(X, y, seeds=[1]) for _ in range(2))
    for key, scores in first.scores.items():
        for metric in ("NLL", "Brier", "ECE", "accuracy"):
            assert scores[0][metric] == second.scores[key][0][metric]


def test_a_folder_that_cannot_be_written_is_named(credit, csv, tmp_path, capsys):
    blocked = csv("not a folder", name="file")
    path = tmp_path / "mine.csv"
    credit.to_csv(path, index=False)
    arguments = ["demo", "--data", str(path), "--target", "Status", "--seeds", "1"]
    assert main([*arguments, "--out", blocked]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_table_errors_are_value_errors():
    assert issubclass(TableError, ValueError)


def test_the_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "skcal", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("skcal ")
