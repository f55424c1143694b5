"""The report of a benchmark: its numbers by an independent reckoning, its text and its pictures."""

import io
import json
import re

import matplotlib.image
import numpy as np
import pytest
from scipy import stats

from skcal.cli import main
from skcal.experiments import ConfigError, Store, check_config, write_report
from skcal.experiments._analysis import change, frame_of, holm, means, pooled_curve, ranks
from skcal.experiments._page import Grid, Heading, Picture, Text, markdown, page
from skcal.experiments._report import report_blocks

METHODS = ["cross_entropy", "nescal", "focal", "ensemble_2"]
TABLES = ["a", "b", "c", "d", "e", "f"]
CONFIG = check_config(
    {
        "name": "made up",
        "data": TABLES,
        "methods": METHODS,
        "calibrators": ["none", "temperature", "sms"],
        "seeds": [12, 13, 14],
        "search_seeds": [0],
        "tuning": {"method_trials": 2},
        "regimes": [{"name": "early_stopped"}, {"name": "fixed", "epochs": 60, "seeds": [12]}],
    }
)


def result(nll):
    curve = [[0.3, 0.7], [0.35, 0.6], [40.0, 60.0]]
    scores = {"nll": nll, "brier": nll / 2, "ece": 0.1, "classwise_ece": 0.05, "accuracy": 0.8}
    return {**scores, "curve": curve, "seconds": 0.1}


def made_up_rows(methods=METHODS):
    rng = np.random.default_rng(0)
    rows = []
    for regime, seeds in (("early_stopped", (12, 13, 14)), ("fixed", (12,))):
        for data in TABLES:
            hard = rng.uniform(0.3, 1)
            for seed in seeds:
                luck = rng.normal(scale=0.02)
                for place, method in enumerate(methods):
                    nll = hard * np.exp(luck + 0.01 * place + rng.normal(scale=0.005))
                    if data == "f" and method == "nescal":
                        nll = rows[-1]["results"]["none"]["nll"]  # a tie with cross-entropy
                    cell = {"kind": "fit", "data": data, "method": method}
                    rows.append(
                        {
                            "cell": {**cell, "regime": regime, "seed": seed},
                            "fit_seconds": 1.0 + place,
                            "predict_seconds": 0.01,
                            "n_train": 600,
                            "results": {
                                "none": result(nll),
                                "temperature": result(0.98 * nll),
                                "sms": result(0.97 * nll),
                            },
                            "seconds": 2.0,
                            "cpu": 2.0,
                        }
                    )
    return rows


@pytest.fixture
def run(tmp_path):
    store = Store(tmp_path / "run")
    store.open(CONFIG, {"versions": {"python": "3"}}, resume=False)
    for row in made_up_rows():
        store.append(row)
    return store


# --- Numbers ------------------------------------------------------------------------------------


def test_a_change_is_the_mean_log_ratio_over_common_seeds():
    rows = [row for row in made_up_rows() if row["cell"]["regime"] == "early_stopped"]
    rows = rows[1:]  # cross-entropy lacks a seed of the first table
    frame = frame_of(rows)
    found = change(frame[frame["calibrator"] == "none"], "focal", "cross_entropy")
    expected = {}
    for data in TABLES:
        losses = {
            (row["cell"]["method"], row["cell"]["seed"]): row["results"]["none"]["nll"]
            for row in rows
            if row["cell"]["data"] == data
        }
        seeds = [s for s in (12, 13, 14) if ("cross_entropy", s) in losses]
        logs = [100 * np.log(losses["focal", s] / losses["cross_entropy", s]) for s in seeds]
        expected[data] = np.mean(logs)
        n = len(logs)
        half = stats.t.ppf(0.975, n - 1) * np.std(logs, ddof=1) * np.sqrt(1 / n + 1 / 3)
        assert found.by_table.loc[data, "half"] == pytest.approx(half)
    values = np.array(list(expected.values()))
    assert found.by_table["change"].to_numpy() == pytest.approx(values)
    assert (found.lower, found.tied, found.higher) == (np.sum(values < 0), 0, np.sum(values > 0))
    assert found.median == pytest.approx(np.median(values))
    assert found.worst == pytest.approx(values.max())
    assert found.p_value == pytest.approx(stats.wilcoxon(values).pvalue)
    half = stats.t.ppf(0.975, 5) * stats.sem(values)
    assert (found.mean, found.half) == pytest.approx((values.mean(), half))


def test_a_tie_is_a_tie():
    frame = frame_of([r for r in made_up_rows() if r["cell"]["regime"] == "early_stopped"])
    found = change(frame[frame["calibrator"] == "none"], "nescal", "cross_entropy")
    assert found.tied == 1
    assert found.lower + found.higher == 5
    itself = change(frame[frame["calibrator"] == "none"], "nescal", "nescal")
    assert (itself.lower, itself.tied, itself.higher) == (0, 6, 0)
    assert np.isnan(itself.p_value)


def test_holm_is_the_step_down_procedure():
    p = [0.01, 0.04, 0.03, np.nan, 0.005]
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, then never falling.
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, np.nan, 0.02], nan_ok=True)
    assert holm([0.6, 0.7]) == pytest.approx([1, 1])


def test_ranks_are_those_of_demsar():
    frame = frame_of([r for r in made_up_rows() if r["cell"]["regime"] == "early_stopped"])
    table = means(frame[frame["calibrator"] == "none"], "nll")[METHODS]
    found = ranks(table)
    by_hand = {}
    for method in METHODS:
        places = [
            sum(row[other] < row[method] for other in METHODS)
            + (1 + sum(row[other] == row[method] for other in METHODS)) / 2
            for _, row in table.iterrows()
        ]
        by_hand[method] = np.mean(places)
    assert dict(zip(found.methods, found.average, strict=True)) == pytest.approx(by_hand)
    assert list(found.average) == sorted(found.average)
    # Demšar's table has 2.569 for four classifiers.
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 6)), abs=1e-3)
    assert found.p_value == stats.friedmanchisquare(*table.to_numpy().T).pvalue


def test_curves_are_pooled_by_their_weights():
    one = [[0.31, 0.72], [0.5, 0.8], [10.0, 30.0]]
    two = [[0.33, 0.95], [0.1, 1.0], [5.0, 5.0]]
    x, y, share = pooled_curve([one, two], 10)
    assert x == pytest.approx([(0.25 * 0.31 + 0.5 * 0.33) / 0.75, 0.72, 0.95])
    assert y == pytest.approx([(0.25 * 0.5 + 0.5 * 0.1) / 0.75, 0.8, 1.0])
    assert share == pytest.approx([0.375, 0.375, 0.25])


# --- Text and pictures --------------------------------------------------------------------------


def test_the_report_has_a_table_for_each_form_and_regime(run):
    blocks = report_blocks(run)
    headings = [block.text for block in blocks if isinstance(block, Heading)]
    assert headings[0] == "Benchmark: made up"
    for regime in ("early_stopped", "fixed"):
        assert f"Regime: {regime}" in headings
    assert (
        headings.count("Log-loss raw") == headings.count("Log-loss after temperature scaling") == 2
    )
    grids = [block for block in blocks if isinstance(block, Grid)]
    first = grids[0]
    assert list(first.header) == ["table", *METHODS]
    frame = frame_of(run.rows()).query("regime == 'early_stopped' and calibrator == 'none'")
    expected = means(frame, "nll")
    for i, row in enumerate(first.rows):
        assert row[1:] == [f"{expected.loc[row[0], m]:.4f}" for m in METHODS]
        # An ensemble is not the best of single models, whatever it has.
        best = 1 + int(np.argmin([expected.loc[row[0], m] for m in METHODS[:3]]))
        assert {j for place, j in first.bold if place == i} == {best}


def test_files_are_whole_and_the_page_stands_alone(run, tmp_path):
    written = write_report(run.folder, tmp_path / "out")
    names = [path.name for path in written]
    assert names[:2] == ["report.md", "report.html"]
    assert len(names) == 2 + 2 * 2 * 4
    text = written[0].read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\S+\.png)\)", text)) == set(names[2:])
    html = written[1].read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == 16
    assert not re.search(r'(src|href)="(?!data:)', html)
    for path in written[2:]:
        picture = matplotlib.image.imread(path)
        assert picture[..., :3].std() > 0.02
        assert min(picture.shape[:2]) > 100


def test_what_failed_is_in_the_report(run):
    cell = {"kind": "fit", "data": "a", "method": "focal", "regime": "fixed", "seed": 12}
    run.append(
        {"cell": cell, "error": "Traceback ...\nValueError: it broke", "seconds": 0, "cpu": 0}
    )
    text = markdown(report_blocks(run))
    assert "1 cells failed" in text
    assert "ValueError: it broke" in text
    assert "| a | " in text


def test_a_run_that_is_not_finished_is_reported_as_far_as_it_is(tmp_path):
    store = Store(tmp_path)
    store.open(CONFIG, {"versions": {}}, resume=False)
    with pytest.raises(ConfigError, match="no finished cell"):
        write_report(tmp_path)
    rows = made_up_rows()
    for row in rows[:2]:
        store.append(row)
    assert write_report(tmp_path)
    for row in made_up_rows(["focal", "nescal"])[:4]:
        store.append(row)
    assert write_report(tmp_path)


def test_blocks_are_escaped():
    blocks = [Heading("<b>", 1), Text("a & b"), Grid(["x|y"], [["<i>"]], frozenset({(0, 0)}))]
    html = page([*blocks, Picture("p.png", b"png", '"quoted"')])
    assert "<title>&lt;b&gt;</title>" in html
    assert "a &amp; b" in html
    assert "<b>&lt;i&gt;</b>" in html
    assert 'alt="&quot;quoted&quot;"' in html
    assert "| x\\|y |\n| --- |\n| **<i>** |" in markdown(blocks)


def test_the_command(run, tmp_path, capsys):
    assert main(["report", str(run.folder), "--out", str(tmp_path / "out")]) == 0
    assert "report.html" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "has no run" in capsys.readouterr().err
    (run.folder / "config.json").write_text(json.dumps({"config": {}}))
    assert main(["report", str(run.folder)]) == 2


def test_pictures_are_drawn_without_pyplot(run):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    blocks = report_blocks(run)
    assert plt.get_fignums() == before
    picture = next(block for block in blocks if isinstance(block, Picture))
    assert matplotlib.image.imread(io.BytesIO(picture.content)).ndim == 3
