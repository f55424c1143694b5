"""Regions of rows ranked by calibration error: found, described, measured and drawn."""

import matplotlib

matplotlib.use("Agg")

import re
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skcal import TabularEncoder
from skcal.datasets import load_credit
from skcal.plots import CalibrationRegion, RegionCalibrationDisplay

Z = 1.959963984540054  # of the normal distribution, at 0.975


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def draw(y, p, X, **options):
    return RegionCalibrationDisplay.from_predictions(y, p, X, **options)


def happen(rng, truth):
    return (rng.random(len(truth)) < truth).astype(int)


@pytest.fixture(scope="module")
def planted():
    """Return a table, labels and probabilities: too high by 0.3 for young tenants only."""
    rng = np.random.default_rng(0)
    n = 3000
    X = pd.DataFrame(
        {
            "Income": rng.normal(size=n),
            "Age": rng.integers(18, 80, n),
            "Home": pd.Categorical(rng.choice(["owner", "parents", "rent"], n)),
            "Debt": rng.exponential(size=n),
        }
    )
    truth = rng.uniform(0.3, 0.6, n)
    is_off = ((X["Age"] < 41) & (X["Home"] == "rent")).to_numpy()
    return X, happen(rng, truth), truth + 0.3 * is_off, is_off


@pytest.fixture(scope="module")
def credit():
    X, y = load_credit(return_X_y=True)
    model = make_pipeline(TabularEncoder(), GaussianNB()).fit(X[::2], y[::2])
    return model, X[1::2].reset_index(drop=True), y[1::2]


@pytest.fixture
def unpruned(monkeypatch):
    """Let trees grow all the regions they may, most of them noise."""
    monkeypatch.setattr("skcal.plots._data.tree_regions._WORTH", 0.0)


def meets(text, X):
    """Read a description as a person would: which rows it is about."""
    inside = np.ones(len(X), dtype=bool)
    for part in text.split(" and "):
        plain = part.removesuffix(" (or missing)").replace(",", "")
        if (found := re.fullmatch(r"(?:(\S+) ≤ )?(\w+)(?: < (\S+))?", plain)) and (
            found[1] or found[3]
        ):
            values = X[found[2]]
            holds = (values >= float(found[1] or "-inf")) & (values < float(found[3] or "inf"))
        elif found := re.fullmatch(r"(\w+) ≥ (\S+)", plain):
            values = X[found[1]]
            holds = values >= float(found[2])
        elif found := re.fullmatch(r"(\w+) (missing|known)", plain):
            values = X[found[1]]
            holds = values.isna() == (found[2] == "missing")
        elif found := re.fullmatch(r"(\w+) (=|≠) (\w+)", plain):
            values = X[found[1]]
            holds = (values == found[3]) == (found[2] == "=")
        else:
            found = re.fullmatch(r"(\w+) neither (.+)", plain)
            values = X[found[1]]
            holds = ~values.isin([v for v in found[2].split(" nor ") if v != "missing"])
            holds &= values.notna() | ("missing" not in found[2].split(" nor "))
        if part != plain and part.endswith(" (or missing)"):
            assert values.isna().any()
            holds |= values.isna()
        inside &= holds.to_numpy()
    return inside


# --- What is found ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_planted_region_comes_first_and_is_named(planted, seed):
    X, y, p, is_off = planted
    worst, *others = draw(y, p, X, random_state=seed).regions_
    age = re.fullmatch(r"(?:Home = rent and )?Age < (\d+)(?: and Home = rent)?", worst.description)
    assert age is not None
    assert "Home = rent" in worst.description
    assert 36 <= int(age[1]) <= 48
    assert worst.low < 0.3 < worst.high
    assert worst.is_off
    assert is_off[worst.rows].mean() > 0.75
    assert all(abs(region.error) < 0.15 for region in others)


def test_one_column_is_enough_for_a_threshold(planted):
    _, y, _, _ = planted
    values = np.repeat([10.0, 20.0, 21.0, 1e9], 750)
    p = np.where(values > 20, 0.9, y.mean())
    display = draw(y, p, values[:, None], n_regions=2)
    assert [r.description for r in display.regions_] == ["Column 0 ≥ 21", "Column 0 < 21"]


def test_thresholds_are_round_numbers(planted):
    X, y, p, _ = planted
    X = X.assign(Age=1000 * X["Age"] + np.random.default_rng(0).random(len(X)))
    worst = draw(y, p, X).regions_[0]
    (age,) = re.findall(r"Age < ([\d,]+)", worst.description)
    assert int(age.replace(",", "")) % 1000 == 0


def test_descriptions_part_the_measured_rows(credit, unpruned):
    model, X, y = credit
    display = RegionCalibrationDisplay.from_estimator(
        model, X, y, n_regions=20, max_depth=6, min_rows=15
    )
    measured = np.sort(np.concatenate([region.rows for region in display.regions_]))
    assert len(display.regions_) >= 10
    assert len(np.unique(measured)) == len(measured) == len(X) // 2
    np.testing.assert_array_equal(measured, display.overall.rows)
    for region in display.regions_:
        inside = measured[meets(region.description, X)[measured]]
        np.testing.assert_array_equal(region.rows, inside)
        assert region.description.count(" and ") < 6


def test_missing_cells_can_be_the_region():
    rng = np.random.default_rng(0)
    n = 2000
    number, level = rng.normal(size=n), rng.choice(np.array(["a", "b", "c"], dtype=object), n)
    number[rng.random(n) < 0.3] = np.nan
    level[rng.random(n) < 0.3] = None
    truth = rng.uniform(0.3, 0.5, n)
    y = happen(rng, truth)
    X = pd.DataFrame({"Number": number, "Level": level})
    for column in X:
        missing = X[column].isna().to_numpy()
        both = draw(y, truth + 0.4 * missing, X, n_regions=2).regions_
        assert [r.description for r in both] == [f"{column} missing", f"{column} known"]
        assert missing[both[0].rows].all()
        assert not missing[both[1].rows].any()
    mixed = draw(y, truth + 0.4 * ~(number >= 0), X, n_regions=2).regions_[0]
    assert re.fullmatch(r"Number < -?0(\.\d+)? \(or missing\)", mixed.description)


def test_two_levels_are_named_without_a_not(planted):
    X, y, p, _ = planted
    answer = np.where(np.arange(len(y)) % 2, "yes", "no")
    both = draw(y, np.where(answer == "no", 0.9, p), X.assign(Answer=answer), n_regions=2).regions_
    assert [region.description for region in both] == ["Answer = no", "Answer = yes"]


def test_dates_are_shown_as_dates(planted):
    X, y, p, _ = planted
    day = pd.Series(pd.date_range("2020-01-01", periods=len(y)))
    late = (day >= "2024-03-01").to_numpy()
    worst = draw(y, np.where(late, 0.95, p), X.assign(Day=day), n_regions=2).regions_[0]
    cut = re.fullmatch(r"Day ≥ (\d{4}-\d\d-\d\d)", worst.description)
    assert abs(pd.Timestamp(cut[1]) - pd.Timestamp("2024-03-01")).days < 60


def test_nothing_to_split_by_leaves_all_rows(planted):
    _, y, p, _ = planted
    (region,) = draw(y, p, np.full((len(y), 1), np.nan)).regions_
    assert region.description == "All rows: no part stands out"
    assert region.count == len(y) // 2


def test_noise_is_no_region():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 2, 1000)
        display = draw(happen(rng, p), p, rng.normal(size=(1000, 5)), min_rows=20)
        found.append(len(display.regions_))
    assert np.mean(np.array(found) == 1) >= 0.8
    # All rows are drawn once, not as a region and as a whole.
    assert len(display.texts_) == 2 * found[-1] + 2 * (found[-1] > 1)


def test_the_seed_decides(planted):
    X, y, p, _ = planted
    first, again, other = (draw(y, p, X, random_state=s).regions_[0] for s in (5, 5, 6))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)


# --- How it is measured -----------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_and_intervals_row_by_row(planted, weighted):
    X, y, p, _ = planted
    weights = np.random.default_rng(1).exponential(size=len(y)) if weighted else np.ones(len(y))
    display = draw(y, p, X, sample_weight=weights)
    total = sum(weights[i] for i in display.overall.rows)
    for region in [*display.regions_, display.overall]:
        w, o, q = weights[region.rows], y[region.rows], p[region.rows]
        said = sum(w * q) / sum(w)
        happened = sum(w * o) / sum(w)
        error = said - happened
        m = sum(w) ** 2 / sum(w**2)
        spread = sum(w**2 * (q - o - error) ** 2) / sum(w) ** 2
        expected = sum(w**2 * q * (1 - q)) / sum(w) ** 2
        half = Z * max(spread, expected, (m + 1) / (m + 2) ** 2 / m) ** 0.5
        assert region.count == len(w)
        assert region.predicted == pytest.approx(said)
        assert region.observed == pytest.approx(happened)
        assert region.error == pytest.approx(error)
        assert region.low == pytest.approx(max(error - half, said - 1))
        assert region.high == pytest.approx(min(error + half, said))
        assert region.share == pytest.approx(sum(w) / total)
    errors = [abs(region.error) for region in display.regions_]
    assert errors == sorted(errors, reverse=True)


def test_a_rare_event_that_did_not_happen_is_no_evidence():
    p = np.full(400, 0.005)
    (region,) = draw(np.zeros(400), p, np.zeros((400, 1)), labels=[0, 1]).regions_
    assert region.error == pytest.approx(0.005)
    assert not region.is_off
    assert region.low > region.predicted - 1
    assert region.high == pytest.approx(0.005)  # an event cannot be rarer than never


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_a_right_model_hold_zero_at_their_level(weighted, unpruned, monkeypatch):
    # Measured on the rows it grew on, a tree's regions would hold zero in about half the cases.
    monkeypatch.setattr(RegionCalibrationDisplay, "plot", lambda self, ax: self)
    held = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 2, 800)
        display = draw(
            happen(rng, p),
            p,
            rng.normal(size=(800, 4)),
            sample_weight=rng.uniform(0.2, 2, 800) if weighted else None,
            confidence_level=0.8,
            random_state=seed,
        )
        held += [not region.is_off for region in display.regions]
    assert len(held) > 300
    # Three standard deviations of a share of so many.
    assert np.mean(held) == pytest.approx(0.8, abs=3 * (0.8 * 0.2 / len(held)) ** 0.5)


def test_rows_of_weight_zero_do_not_count(planted):
    X, y, p, _ = planted
    weights = np.ones(len(y))
    weights[1000:] = 0
    display = draw(y, np.where(weights > 0, p, 0.99), X, sample_weight=weights)
    assert display.overall.rows.max() < 1000
    alone = draw(y[:1000], p[:1000], X[:1000])
    assert [r.error for r in display.regions_] == [r.error for r in alone.regions_]
    scaled = draw(y[:1000], p[:1000], X[:1000], sample_weight=np.full(1000, 7.0))
    np.testing.assert_allclose([r.low for r in scaled.regions_], [r.low for r in alone.regions_])


def test_weights_decide_what_the_tree_finds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    truth = rng.uniform(0.4, 0.5, 2000)
    heavy = rng.random(2000) < 0.4
    # Off by the first column in most rows, by the second one in those that weigh more.
    p = truth + 0.4 * np.where(heavy, X[:, 1] > 0, X[:, 0] > 0)
    y = happen(rng, truth)
    for weights, column in ((None, 0), (np.where(heavy, 10.0, 1.0), 1)):
        worst = draw(y, p, X, n_regions=2, sample_weight=weights).regions_[0]
        assert worst.description.startswith(f"Column {column} ≥ ")


def test_kinds_and_classes():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([2, 2, 2], 2000)
    codes = (rng.random((2000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    y = np.array(["low", "mid", "top"])[codes]
    X = rng.normal(size=(2000, 2))
    for label, column in (("mid", 1), ("top", 2)):
        display = draw(y, proba, X, class_label=label)
        rows = display.overall.rows
        assert (display.kind, display.class_label) == ("class-wise", label)
        assert display.overall.predicted == pytest.approx(proba[rows, column].mean())
        assert display.overall.observed == pytest.approx((y[rows] == label).mean())
        assert repr(label) in display.ax_.get_xlabel()
    display = draw(y, proba, X)
    rows = display.overall.rows
    assert display.kind == "top-label"
    assert display.overall.predicted == pytest.approx(proba[rows].max(axis=1).mean())
    assert display.overall.observed == pytest.approx((codes == proba.argmax(axis=1))[rows].mean())
    assert "Confidence minus accuracy" in display.ax_.get_xlabel()


# --- Typical values ---------------------------------------------------------------------


def test_typical_values_are_medians_and_shares():
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 300)
    X = pd.DataFrame(
        {
            "Same": np.tile([1.0, 2.0, 3.0], 200),
            "Shifted": rng.integers(0, 100, 600) + 40 * (group == "a"),
            "Kind": np.where(rng.random(600) < np.where(group == "a", 0.9, 0.2), "x", "y"),
            "Gaps": np.where((group == "a") & (rng.random(600) < 0.8), np.nan, 5.0),
        }
    )
    # Whole weights mean the same as repeated rows, of which pandas knows the medians.
    weights = rng.integers(1, 4, 600)
    display = draw(
        np.zeros(600), np.full(600, 0.1), X, labels=[0, 1], regions=group, sample_weight=weights
    )
    many = X.loc[X.index.repeat(weights)]
    inside = many[np.repeat(group, weights) == "a"]

    def middle(values):
        return f"{values.quantile(interpolation='lower'):g}"

    (region,) = [r for r in display.regions_ if r.description == "Region = a"]
    shifted = f"Shifted {middle(inside['Shifted'])} (all rows {middle(many['Shifted'])})"
    kind, kinds = (100 * (frame["Kind"] == "x").mean() for frame in (inside, many))
    gap, gaps = (100 * frame["Gaps"].isna().mean() for frame in (inside, many))
    assert set(region.typical) == {
        shifted,
        f"Kind = x in {kind:.0f} % (all rows {kinds:.0f} %)",
        f"Gaps missing in {gap:.0f} % (all rows {gaps:.0f} %)",
    }


def test_columns_of_the_description_are_typical_last(planted):
    X, y, p, _ = planted
    worst = draw(y, p, X.assign(Child=X["Age"] + 100)).regions_[0]
    assert [text.split()[0] for text in worst.typical[:1]] in (["Age"], ["Child"])
    assert worst.typical[0].split()[0] not in worst.description.split()


# --- Regions that are given -------------------------------------------------------------


def test_given_regions_are_measured_on_all_rows(planted):
    X, y, p, _ = planted
    display = draw(y, p, X, regions=X["Home"].rename("Home"))
    assert {r.description for r in display.regions_} == {
        "Home = owner",
        "Home = parents",
        "Home = rent",
    }
    for region in display.regions_:
        here = (X["Home"] == region.description.removeprefix("Home = ")).to_numpy()
        np.testing.assert_array_equal(region.rows, np.flatnonzero(here))
        assert region.error == pytest.approx((p - y)[here].mean())
    many = draw(y, p, X, regions=X["Age"].to_numpy(), min_rows=45, n_regions=5)
    sizes = X["Age"].value_counts()
    assert len(many.regions_) == 5
    assert min(region.count for region in many.regions_) >= 45
    kept = [abs((p - y)[X["Age"] == age].mean()) for age in sizes.index[sizes >= 45]]
    assert [abs(r.error) for r in many.regions_] == pytest.approx(sorted(kept)[:-6:-1])


def test_a_clusterer_finds_regions(credit):
    model, X, y = credit
    clusterer = make_pipeline(TabularEncoder(), KMeans(4, n_init=1, random_state=0))
    display = RegionCalibrationDisplay.from_estimator(model, X, y, regions=clusterer)
    expected = clusterer.fit_predict(X)
    assert len(display.regions_) == 4
    for region in display.regions_:
        number = int(region.description.removeprefix("Cluster "))
        np.testing.assert_array_equal(region.rows, np.flatnonzero(expected == number))
        assert len(region.typical) == 3


# --- The picture ------------------------------------------------------------------------


def assert_texts_fit(display):
    """Check that no text is cut off, and none lies on another one or on the points."""
    figure = display.ax_.figure.figure
    figure.draw_without_rendering()
    ax = display.ax_.get_window_extent()
    boxes = [text.get_window_extent() for text in display.texts_]
    edge = ax.x0 + 0.54 * ax.width
    assert all(box.x0 >= ax.x0 and box.x1 <= edge for box in boxes)
    assert all(box.y0 >= ax.y0 - 1 and box.y1 <= ax.y1 + 1 for box in boxes)
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    ends = np.concatenate([path.vertices[:, 0] for path in display.intervals_.get_paths()])
    assert display.ax_.transData.transform([(ends.min(), 0)])[0, 0] > edge
    label = display.ax_.xaxis.label.get_window_extent()
    assert label.x0 >= 0
    assert label.y0 >= 0
    assert label.x1 <= figure.bbox.x1


LONG = {
    "Age": "the age of whoever asked for the $loan$ in completed years on the day it was asked",
    "Home": "Home_as_it_was_written_down_by_the_officer_without_any_blank_to_break_the_line_at_x",
}


@pytest.mark.parametrize("n_regions", [2, 16])
@pytest.mark.parametrize("names", [{}, LONG])
def test_texts_are_not_cut_off(planted, unpruned, n_regions, names):
    X, y, p, _ = planted
    X = X.rename(columns=names)
    display = draw(y, p, X, n_regions=n_regions, max_depth=5, min_rows=20, name="Model")
    assert len(display.texts_) == 2 * len(display.regions_) + 2
    assert len(display.regions_) > 0.8 * n_regions
    assert_texts_fit(display)
    letters = {text.get_fontsize() for text in display.texts_}
    assert letters == {9.0}  # the figure grows instead
    blank = re.compile(r"\s")
    for number, region in enumerate(display.regions_):
        shown = blank.sub("", display.texts_[2 * number].get_text())
        assert shown == blank.sub("", region.description)
        details = blank.sub("", display.texts_[2 * number + 1].get_text())
        assert details.startswith(f"{region.count:,}rows:predicted{100 * region.predicted:.1f}%,")
        assert all(blank.sub("", text) in details for text in region.typical)


def test_texts_fit_given_axes(planted):
    X, y, p, _ = planted
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    ax = right.add_subplot()
    long = "a class whose name is as long as names of classes should not be, yet sometimes are"
    y = np.where(y == 1, long, "A")
    display = draw(y, p, X.rename(columns=LONG), ax=ax, labels=["A", long])
    assert display.ax_ is ax
    assert display.figure_ is right
    assert tuple(figure.get_size_inches()) == (11, 5)
    assert not left.axes
    assert_texts_fit(display)


def test_what_is_drawn_is_the_record(planted):
    X, y, p, _ = planted
    display = draw(y, p, X, name="Model")
    shown = [*display.regions_, display.overall]
    points = np.asarray(display.points_.get_offsets())
    np.testing.assert_allclose(points[:, 0], [region.error for region in shown])
    assert (np.diff(points[:, 1]) > 0).all()  # the axis points down
    assert display.ax_.yaxis_inverted()
    ends = [path.vertices[:, 0] for path in display.intervals_.get_paths()]
    np.testing.assert_allclose(ends, [(region.low, region.high) for region in shown])
    hollow = (display.points_.get_facecolor()[:, :3] == 1).all(axis=1)
    assert hollow.tolist() == [region.low <= 0 <= region.high for region in shown]
    assert display.ax_.get_title() == "Model"
    again = RegionCalibrationDisplay(display.regions[::-1], display.overall, kind="positive")
    assert again.plot(name="Other").regions_ == display.regions_
    assert again.ax_.get_title() == "Other"


def test_records_make_a_table(planted):
    X, y, p, _ = planted
    display = draw(y, p, X)
    table = pd.DataFrame(display.regions_)
    assert list(table.columns) == [field.name for field in fields(CalibrationRegion)]
    assert table["error"].tolist() == [region.error for region in display.regions_]


# --- Mistakes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regions": "forest"}, "regions must be 'tree', a clusterer.*got 'forest'"),
        ({"regions": np.zeros(7)}, "one value for each of the 3000 rows; its shape is \\(7,\\)"),
        ({"regions": np.arange(3000)}, "No region has min_rows=50 rows.*the largest has 1"),
        ({"min_rows": 751}, "needs 4 \\* min_rows = 3004 rows.*got 3000"),
        ({"min_rows": 0}, "min_rows must be a whole number of at least 1"),
        ({"n_regions": 1}, "n_regions must be a whole number of at least 2"),
        ({"max_depth": 0}, "max_depth must be a whole number of at least 1"),
        ({"confidence_level": 95}, "confidence_level must be strictly between 0 and 1"),
        ({"class_label": 7}, "class_label must be one of the classes"),
    ],
)
def test_options_out_of_range(planted, options, message):
    X, y, p, _ = planted
    with pytest.raises(ValueError, match=message):
        draw(y, p, X, **options)


def test_tables_that_do_not_fit(planted):
    X, y, p, _ = planted
    with pytest.raises(ValueError, match="one row for each prediction: 3000 rows; got 2999"):
        draw(y, p, X[1:])
    with pytest.raises(ValueError, match="infinity in column 'Income'"):
        draw(y, p, X.assign(Income=np.inf))
    with pytest.raises(ValueError, match="Pass a pandas DataFrame for a table with text"):
        draw(y, p, np.full((3000, 1), "text"))
    for wrong in (KMeans, 3, None):
        with pytest.raises(TypeError, match="regions must be 'tree', a clusterer with fit_predict"):
            draw(y, p, X, regions=wrong)


def test_estimators_and_axes_that_do_not_fit(credit, planted):
    model, X, y = credit
    with pytest.raises(NotFittedError):
        RegionCalibrationDisplay.from_estimator(GaussianNB(), X, y)
    svm = LinearSVC().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="a ranking of regions needs a classifier"):
        RegionCalibrationDisplay.from_estimator(svm, [[0.0]], [0])
    display = RegionCalibrationDisplay.from_estimator(model, X, y)
    assert display.ax_.get_title() == "Pipeline"
    assert display.class_label == "good"
    with pytest.raises(ValueError, match="show something already, which the texts"):
        display.plot(display.ax_)
