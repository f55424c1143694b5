"""Errors around rows, in regions, groups and segments, against plain loops and golden numbers."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from skcal.metrics import (
    cumulative_calibration_error,
    expected_calibration_error,
    group_calibration_error,
    local_calibration_error,
    multicalibration_error,
    proximity_informed_calibration_error,
)

KINDS = ("top-label", "class-wise", "positive")


def toy(n=600, seed=0):
    """Overconfident predictions of three classes in a space of five features."""
    rs = np.random.RandomState(seed)
    Z = rs.normal(size=(n, 5))
    W = rs.normal(size=(5, 3))
    true = softmax(Z @ W, axis=1)
    y = (true.cumsum(axis=1) < rs.uniform(size=n)[:, None]).sum(axis=1)
    return y, softmax(2 * Z @ W, axis=1), Z


@st.composite
def cases(draw, n_classes=None):
    """Labels, rows of twentieths, small whole coordinates, groups and weights."""
    k = n_classes or draw(st.integers(2, 3))
    n = draw(st.integers(2, 25))
    cuts = st.lists(st.integers(0, 20), min_size=k - 1, max_size=k - 1).map(sorted)
    proba = np.array([np.diff([0, *draw(cuts), 20]) for _ in range(n)]) / 20
    integers = st.integers(0, 3)
    y = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    x = draw(st.lists(st.tuples(integers, integers), min_size=n, max_size=n))
    weight = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    return np.array(y), proba, np.array(x, dtype=float), np.array(weight)


def pairs(y, proba, kind):
    """The confidences and events of a kind, one pair of lists for each comparison."""
    columns = {"positive": [1], "class-wise": range(proba.shape[1])}
    if kind == "top-label":
        top = proba.argmax(axis=1)
        return [(proba.max(axis=1), (top == y).astype(float))]
    return [(proba[:, k], (y == k).astype(float)) for k in columns[kind]]


def bin_of(p, n_bins):
    return max(math.ceil(round(p * n_bins, 9)) - 1, 0)


def allowed(kind, proba):
    return kind if proba.shape[1] == 2 or kind != "positive" else "top-label"


# --- Local calibration error ---------------------------------------------------------------


def slow_lce(y, proba, x, w, bandwidth, statistic, n_bins, min_count):
    errors = []
    for k in range(proba.shape[1]):
        found, share = [], []
        for i in range(len(y)):
            if not w[i]:
                continue
            same = [
                j
                for j in range(len(y))
                if w[j] and bin_of(proba[j, k], n_bins) == bin_of(proba[i, k], n_bins)
            ]
            if len(same) < min_count:
                continue
            kernel = [math.exp(-sum((x[i] - x[j]) ** 2) / 2 / bandwidth**2) for j in same]
            gap = sum(
                a * w[j] * (proba[j, k] - (y[j] == k)) for a, j in zip(kernel, same, strict=True)
            )
            found.append(abs(gap / sum(a * w[j] for a, j in zip(kernel, same, strict=True))))
            share.append(w[i])
        if not found:
            return None
        errors.append(max(found) if statistic == "max" else np.average(found, weights=share))
    return np.mean(errors)


@pytest.mark.parametrize(
    ("bandwidth", "lce", "mlce"),
    [(0.5, 0.121066, 0.948388), (1, 0.078530, 0.690337), (10, 0.066803, 0.189024)],
)
def test_local_error_is_that_of_the_papers_code(bandwidth, lce, mlce):
    # Printed by the function of the paper's authors on these arrays.
    y, proba, Z = toy()
    given = {"features": Z, "bandwidth": bandwidth}
    assert local_calibration_error(y, proba, **given) == pytest.approx(lce, abs=1e-6)
    largest = local_calibration_error(y, proba, **given, statistic="max")
    assert largest == pytest.approx(mlce, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(["mean", "max"]), st.integers(1, 4), st.sampled_from([0.5, 2]))
def test_local_error_equals_plain_loops(case, statistic, min_count, bandwidth):
    y, proba, x, w = case
    expected = slow_lce(y, proba, x, w, bandwidth, statistic, 5, min_count)
    options = {
        "features": x,
        "bandwidth": bandwidth,
        "statistic": statistic,
        "n_bins": 5,
        "min_count": min_count,
        "sample_weight": w,
        "labels": range(proba.shape[1]),
    }
    if expected is None:
        with pytest.raises(ValueError, match=f"No bin of class column . holds {min_count} rows"):
            local_calibration_error(y, proba, **options)
    else:
        assert local_calibration_error(y, proba, **options) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_weights_are_repetitions_to_the_local_error(case):
    y, proba, x, w = case
    options = {"bandwidth": 1.0, "n_bins": 4, "min_count": 1, "labels": range(proba.shape[1])}
    weighted = local_calibration_error(y, proba, features=x, sample_weight=w, **options)
    again = np.repeat(np.arange(len(y)), w)
    repeated = local_calibration_error(y[again], proba[again], features=x[again], **options)
    assert weighted == pytest.approx(repeated, abs=1e-9)


def test_local_error_over_the_blocks_of_the_kernel():
    # More rows in one bin than a block has, and a last block that is not full.
    rng = np.random.default_rng(0)
    n = 2500
    x, y = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    kernel = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 2 / 0.3**2)
    expected = np.abs(kernel @ (0.5 - y) / kernel.sum(axis=1)).mean()
    error = local_calibration_error(y, np.full(n, 0.5), features=x, bandwidth=0.3)
    assert error == pytest.approx(expected, abs=1e-12)


def test_bandwidths_at_the_ends():
    y, proba, Z = toy()
    wide = local_calibration_error(y, proba, features=Z, bandwidth=1e6, min_count=1)
    assert wide == pytest.approx(expected_calibration_error(y, proba, kind="class-wise"), abs=1e-9)
    for bandwidth in (1e-6, 1e-12):
        narrow = local_calibration_error(y, proba, features=Z, bandwidth=bandwidth, min_count=1)
        assert narrow == pytest.approx(np.abs(proba - np.eye(3)[y]).mean(), abs=1e-9)


def test_where_the_features_lie_does_not_matter():
    y, proba, Z = toy()
    near = local_calibration_error(y, proba, features=Z, bandwidth=1)
    far = local_calibration_error(y, proba, features=Z + 1e6, bandwidth=1)
    assert far == pytest.approx(near, abs=1e-8)


def test_class_weights():
    y, proba, Z = toy()
    names = np.array(["a", "b", "c"])

    def error(class_weight):
        return local_calibration_error(
            names[y], proba, features=Z, bandwidth=1, class_weight=class_weight
        )

    single = [error(row) for row in np.eye(3)]
    assert error("uniform") == pytest.approx(np.mean(single))
    assert error("prevalence") == pytest.approx(np.average(single, weights=np.bincount(y)))
    assert error([2, 6, 0]) == pytest.approx(np.average(single, weights=[1, 3, 0]))


def test_memory_does_not_grow_with_the_square_of_the_rows():
    rng = np.random.default_rng(0)
    n = 6000  # the whole kernel would take 288 MB
    y, x = rng.integers(0, 2, n), rng.normal(size=(n, 3))
    tracemalloc.start()
    try:
        local_calibration_error(y, np.full(n, 0.5), features=x, bandwidth=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"features": np.zeros((5, 2))},
            ValueError,
            "one row for each prediction: 600 rows; got 5",
        ),
        ({"features": np.full(600, np.nan)}, ValueError, "features hold NaN or infinity in row 0"),
        ({"features": ["a"] * 600}, ValueError, "features must be numbers"),
        ({"features": np.zeros((600, 0))}, ValueError, "must have shape"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be positive and finite.*got 0"),
        ({"bandwidth": -1.0}, ValueError, "bandwidth must be positive"),
        ({"bandwidth": np.inf}, ValueError, "bandwidth must be positive and finite"),
        ({"bandwidth": "median"}, TypeError, "bandwidth must be a number; got 'median'"),
        ({"statistic": "median"}, ValueError, "statistic must be 'mean'"),
        ({"min_count": 0}, ValueError, "min_count must be a whole number of at least 1"),
        ({"n_bins": 0}, ValueError, "n_bins must be a whole number"),
        ({"class_weight": "balanced"}, ValueError, "class_weight must be 'uniform'"),
        ({"class_weight": [1, 1]}, ValueError, "one number for each of the 3 classes"),
        ({"class_weight": [1, -1, 1]}, ValueError, "none below 0"),
        ({"class_weight": [0, 0, 0]}, ValueError, "one above"),
        ({"min_count": 601}, ValueError, "No bin of class column 0 holds 601 rows"),
    ],
)
def test_mistakes_with_the_local_error(options, error, match):
    y, proba, Z = toy()
    with pytest.raises(error, match=match):
        local_calibration_error(y, proba, **{"features": Z, "bandwidth": 1.0, **options})


# --- Proximity-informed error ----------------------------------------------------------------


def slow_piece(y, proba, x, reference, w, kind, n_neighbors, n_bins, n_regions):
    proximity = []
    for i, row in enumerate(x):
        others = reference if reference is not None else np.delete(x, i, axis=0)
        distances = sorted(math.dist(row, other) for other in others)
        # Rounded, so that rows with equal distances in another order tie.
        proximity.append(round(math.exp(-sum(distances[:n_neighbors]) / n_neighbors), 12))
    edges = []
    for m in range(1, n_regions):
        edges.append(
            min(
                v for v in proximity if w[np.array(proximity) <= v].sum() * n_regions >= m * w.sum()
            )
        )
    errors = []
    for confidence, event in pairs(y, proba, kind):
        cells = {}
        for i in range(len(y)):
            cell = sum(proximity[i] > edge for edge in edges), bin_of(confidence[i], n_bins)
            cells[cell] = cells.get(cell, 0) + w[i] * (confidence[i] - event[i])
        errors.append(sum(map(abs, cells.values())) / w.sum())
    return np.mean(errors)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(KINDS), st.integers(1, 4), st.booleans())
def test_proximity_error_equals_plain_loops(case, kind, n_neighbors, apart):
    y, proba, x, w = case
    kind, n_neighbors = allowed(kind, proba), min(n_neighbors, len(y) - 1)
    reference = x[::-1][: n_neighbors + 1] + 0.5 if apart else None
    error = proximity_informed_calibration_error(
        y,
        proba,
        features=x,
        reference_features=reference,
        n_neighbors=n_neighbors,
        kind=kind,
        n_bins=4,
        n_proximity_bins=3,
        sample_weight=w,
        labels=range(proba.shape[1]),
    )
    expected = slow_piece(y, proba, x, reference, w, kind, n_neighbors, 4, 3)
    assert error == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(KINDS), st.integers(1, 8))
def test_proximity_error_is_never_below_the_plain_one(case, kind, n_proximity_bins):
    y, proba, x, w = case
    given = {"kind": allowed(kind, proba), "n_bins": 6, "sample_weight": w}
    given["labels"] = range(proba.shape[1])
    error = proximity_informed_calibration_error(
        y, proba, features=x, n_neighbors=1, n_proximity_bins=n_proximity_bins, **given
    )
    plain = expected_calibration_error(y, proba, **given)
    assert error >= plain - 1e-12
    if n_proximity_bins == 1:
        assert error == pytest.approx(plain, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_weights_are_repetitions_to_the_proximity_error(case):
    y, proba, x, w = case
    given = {"reference_features": [[0, 0], [1, 2], [3, 3]], "n_neighbors": 2}
    given |= {"n_bins": 4, "n_proximity_bins": 3, "labels": range(proba.shape[1])}
    weighted = proximity_informed_calibration_error(y, proba, features=x, sample_weight=w, **given)
    i = np.repeat(np.arange(len(y)), w)
    repeated = proximity_informed_calibration_error(y[i], proba[i], features=x[i], **given)
    assert weighted == pytest.approx(repeated, abs=1e-9)


def test_regions_are_found_where_every_proximity_vanishes():
    # exp(-distance) is zero for all rows; their ranks are not. Errors cancel between regions.
    far = 1e6 * np.arange(200.0) ** 3
    y = np.repeat([0, 1], 100)
    error = proximity_informed_calibration_error(
        y, np.full(200, 0.5), features=far, kind="positive"
    )
    assert expected_calibration_error(y, np.full(200, 0.5), kind="positive") == 0
    assert error > 0.45


def test_rounding_does_not_part_the_rows_of_a_grid():
    # 0.3 - 0.2 and 0.2 - 0.1 differ in the last digits: all rows are equally near.
    y, p = np.arange(100) % 2, np.linspace(0, 1, 100)
    error = proximity_informed_calibration_error(y, p, features=0.1 * np.arange(100), n_neighbors=1)
    assert error == pytest.approx(expected_calibration_error(y, p), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1; got 0"),
        ({"n_neighbors": 600}, "600 neighbours need that many other rows; there are 599"),
        ({"reference_features": np.zeros((4, 5))}, "there are 4"),
        ({"reference_features": np.zeros((20, 3))}, "must have the same columns.*5 and 3"),
        ({"reference_features": np.full((20, 5), np.inf)}, "reference_features hold NaN or inf"),
        ({"n_proximity_bins": 0}, "n_proximity_bins must be a whole number"),
        ({"kind": "positive"}, "needs exactly two classes"),
    ],
)
def test_mistakes_with_the_proximity_error(options, match):
    y, proba, Z = toy()
    with pytest.raises(ValueError, match=match):
        proximity_informed_calibration_error(y, proba, **{"features": Z, **options})


def test_sparse_features_are_refused_in_words():
    from scipy.sparse import csr_array

    y, proba, Z = toy()
    with pytest.raises(TypeError, match=r"features are sparse; pass features.toarray\(\)"):
        local_calibration_error(y, proba, features=csr_array(Z), bandwidth=1)


# --- Groups -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(KINDS), st.sampled_from(["uniform", "quantile"]))
def test_errors_of_groups_are_those_of_their_rows(case, kind, strategy):
    y, proba, x, w = case
    kind = allowed(kind, proba)
    given = {"kind": kind, "n_bins": 4, "strategy": strategy, "labels": range(proba.shape[1])}
    result = group_calibration_error(y, proba, groups=x[:, 0].astype(int), sample_weight=w, **given)
    counted = [g for g in range(4) if w[x[:, 0] == g].any()]
    assert result.group == counted
    for g, error, gap, count, weight in zip(
        counted, result.error, result.mean_gap, result.count, result.weight, strict=True
    ):
        i = np.flatnonzero(x[:, 0] == g)
        alone = expected_calibration_error(y[i], proba[i], sample_weight=w[i], **given)
        assert error == pytest.approx(alone, abs=1e-12)
        assert (count, weight) == (np.sum(w[i] > 0), w[i].sum())
        if kind == "class-wise":
            assert np.isnan(gap)
        else:
            ((c, e),) = pairs(y[i], proba[i], kind)
            assert gap == pytest.approx(np.average(c - e, weights=w[i]), abs=1e-12)
    whole = expected_calibration_error(y, proba, sample_weight=w, **given)
    assert result.overall == pytest.approx(whole, abs=1e-12)
    if strategy == "uniform":
        assert result.mean_error >= result.overall - 1e-12
    assert result.max_error >= result.mean_error - 1e-12
    assert result.difference == pytest.approx(result.max_error - min(result.error))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [3, 40, 400])
def test_chance_error_is_the_mean_error_of_a_right_model(kind, n):
    rng = np.random.default_rng(0)
    p = rng.beta(2, 1, size=n)
    groups, weights = np.arange(n) % 2, rng.uniform(0.5, 2, size=n)
    given = {"groups": groups, "kind": kind, "n_bins": 10, "sample_weight": weights}
    draws = [
        group_calibration_error((rng.uniform(size=n) < p).astype(int), p, labels=[0, 1], **given)
        for _ in range(400)
    ]
    means = np.mean([draw.error for draw in draws], axis=0)
    np.testing.assert_allclose(draws[0].chance_error, means, rtol=0.12)


def test_chance_error_of_a_single_row_is_exact():
    result = group_calibration_error([1, 1], [0.9, 0.5], groups=["a", "b"], kind="positive")
    assert result.chance_error == pytest.approx([0.9 * 0.1 + 0.1 * 0.9, 0.5])


def test_the_worst_group_is_not_merely_the_smallest():
    y = np.concatenate([[1, 0], np.tile([1, 1, 1, 0], 100)])
    result = group_calibration_error(
        y, np.full(402, 0.5), groups=["tiny"] * 2 + ["large"] * 400, kind="positive"
    )
    assert result.worst == "large"
    lucky = group_calibration_error(
        [1, *y[2:]], np.full(401, 0.5), groups=["tiny"] + ["large"] * 400, kind="positive"
    )
    assert lucky.error[lucky.group.index("tiny")] == lucky.max_error
    assert lucky.worst == "large"


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (["b", "a", "b", "a"], ["a", "b"]),
        ([2, 1, 2, 1], [1, 2]),
        ([True, False, True, False], [False, True]),
        (pd.Series(["b", "a", "b", "a"], index=[7, 8, 9, 3]), ["a", "b"]),
        (pd.Series(["b", "a", None, "a"], dtype="string"), ["a", "b", None]),
        (pd.Series(pd.Categorical(["b", "a", np.nan, "a"])), ["a", "b", None]),
        (pd.array([2, 1, pd.NA, 1]), [1, 2, None]),
        ([2.0, 1.0, np.nan, 1.0], [1.0, 2.0, None]),
        (np.array([["b"], ["a"], ["b"], ["a"]]), ["a", "b"]),
        (pd.DataFrame({"s": list("baba"), "t": [1, 2, 1, 1]}), [("a", 1), ("a", 2), ("b", 1)]),
        (
            np.array([["x", "u"], ["y", "v"], ["x", "u"], ["x", "v"]]),
            [("x", "u"), ("x", "v"), ("y", "v")],
        ),
        (pd.cut(pd.Series([5, 1, 5, 1]), [0, 2, 9]), [pd.Interval(0, 2), pd.Interval(2, 9)]),
    ],
    ids=str,
)
def test_groups_of_any_kind(groups, names):
    result = group_calibration_error([0, 1, 1, 0], [0.2, 0.8, 0.7, 0.4], groups=groups)
    assert result.group == names
    assert result.count.sum() == 4
    frame = result.to_frame()
    assert frame.shape == (len(names), 5)
    assert list(frame.columns) == ["error", "chance_error", "mean_gap", "count", "weight"]
    assert frame["count"].tolist() == result.count.tolist()


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (["a"] * 3, "groups must hold one value for each of the 4 rows; its shape is"),
        ([0.5, 1.0, 2.0, 3.0], "groups must hold categories, not fractions; cut"),
        (np.array(["a", 1, "b", 2], dtype=object), "groups must hold values of one kind"),
        (pd.DataFrame({"a": [0.5] * 4, "b": [1] * 4}), r"groups\['a'\] must hold categories"),
    ],
)
def test_mistakes_with_groups(groups, match):
    with pytest.raises(ValueError, match=match):
        group_calibration_error([0, 1, 1, 0], [0.2, 0.8, 0.7, 0.4], groups=groups)


# --- Segments ---------------------------------------------------------------------------------


def slow_range(confidence, event, weights):
    """Range and standard deviation of the cumulative differences, one value at a time."""
    sums = [0.0]
    for value in sorted(set(confidence)):
        inside = [i for i in range(len(confidence)) if confidence[i] == value]
        sums.append(sums[-1] + sum(weights[i] * (event[i] - confidence[i]) for i in inside))
    variance = sum(w**2 * max(c * (1 - c), 1e-12) for c, w in zip(confidence, weights, strict=True))
    total = sum(weights)
    return (max(sums) - min(sums)) / total, math.sqrt(variance) / total


def all_masks(x):
    """The segments of a table with two columns, combined."""
    a, b = x.T
    masks = {"all rows": np.ones(len(x), dtype=bool)}
    masks |= {f"a={u:g}": a == u for u in np.unique(a)}
    masks |= {f"b={v:g}": b == v for v in np.unique(b)}
    masks |= {f"a={u:g} & b={v:g}": (a == u) & (b == v) for u in np.unique(a) for v in np.unique(b)}
    return masks


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(KINDS), st.integers(1, 3))
def test_segments_equal_plain_loops(case, kind, min_count):
    y, proba, x, w = case
    kind = allowed(kind, proba)
    given = {"kind": kind, "min_count": min_count, "labels": range(proba.shape[1])}
    table = pd.DataFrame(x.astype(int), columns=["a", "b"])
    result = multicalibration_error(y, proba, segments=table, sample_weight=w, **given)
    expected = []
    for label, (c, e) in enumerate(pairs(y, proba, kind)):
        for name, mask in all_masks(x).items():
            rows = mask & (w > 0)
            if rows.sum() >= min_count or name == "all rows":
                label = label if kind == "class-wise" else None
                values = slow_range(c[rows].tolist(), e[rows].tolist(), w[rows].tolist())
                expected.append((name, label, rows.sum(), *values))
    names, class_labels, counts, ranges, deviations = zip(*expected, strict=True)
    assert result.segment == list(names)
    assert result.class_label == list(class_labels)
    assert result.count.tolist() == list(counts)
    np.testing.assert_allclose(result.cumulative_error, ranges, atol=1e-12)
    np.testing.assert_allclose(result.standard_deviation, deviations, rtol=1e-9)
    sigma = np.divide(ranges, deviations)
    np.testing.assert_allclose(result.sigma, sigma, rtol=1e-6, atol=1e-6)
    whole = np.array(deviations)[np.array(names) == "all rows"]
    per_table = sigma.reshape(len(whole), -1).max(axis=1) * whole
    assert result.error == pytest.approx(per_table.max(), rel=1e-6, abs=1e-9)
    assert result.detectable == pytest.approx(5 * whole.max())
    # The same segments as masks.
    masks = {name: mask for name, mask in all_masks(x).items() if name != "all rows"}
    again = multicalibration_error(y, proba, segments=masks, sample_weight=w, **given)
    assert again.segment == result.segment
    np.testing.assert_allclose(again.sigma, result.sigma, rtol=1e-6, atol=1e-6)


def test_all_rows_alone_are_the_cumulative_error():
    y, proba, _ = toy()
    result = multicalibration_error(y, proba, segments={})
    assert result.segment == [result.worst] == ["all rows"]
    assert result.error == pytest.approx(cumulative_calibration_error(y, proba))


def test_errors_that_cancel_show_up_in_the_segment_that_has_them():
    rng = np.random.default_rng(0)
    n = 4000
    region, colour = rng.choice(["n", "s", "w"], n), rng.choice(["red", "blue"], n)
    p = rng.uniform(0.2, 0.8, n)
    shift = np.where(region == "n", 0.15, 0) * np.where(colour == "red", 1, -1)
    y = (rng.uniform(size=n) < p + shift).astype(int)
    table = pd.DataFrame({"region": region, "colour": colour})
    flat = multicalibration_error(y, p, segments=table, kind="positive", max_depth=1)
    deep = multicalibration_error(y, p, segments=table, kind="positive")
    assert flat.error < flat.detectable < deep.error
    assert deep.worst in ("region=n & colour=blue", "region=n & colour=red")
    frame = deep.to_frame().sort_values("sigma")
    assert frame["segment"].iloc[-1] == deep.worst
    assert len(frame) == 1 + 3 + 2 + 6
    assert "class_label" not in frame


def test_a_table_of_classes_names_them():
    y, proba, Z = toy()
    result = multicalibration_error(
        np.array(["u", "v", "w"])[y], proba, segments=Z[:, 0] > 0, kind="class-wise"
    )
    frame = result.to_frame()
    assert frame["class_label"].tolist() == [label for label in "uvw" for _ in range(3)]
    assert frame["segment"].tolist() == ["all rows", "False", "True"] * 3


def test_one_mistake_among_sure_predictions_is_large_and_finite():
    y, p = [0] * 50 + [1] + [0, 1] * 25, [0.0] * 51 + [0.5] * 50
    result = multicalibration_error(y, p, segments=["sure"] * 51 + ["not"] * 50, kind="positive")
    assert result.worst == "sure"
    assert 1 < result.error < np.inf


def test_scaling_all_weights_changes_nothing():
    y, proba, Z = toy()
    w = np.random.default_rng(0).uniform(size=len(y))
    once = multicalibration_error(y, proba, segments=Z[:, 0] > 0, sample_weight=w)
    twice = multicalibration_error(y, proba, segments=Z[:, 0] > 0, sample_weight=1e3 * w)
    np.testing.assert_allclose(twice.sigma, once.sigma)
    assert twice.error == pytest.approx(once.error)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"segments": {"a": [1, 0, 1, 0]}}, "must hold 4 booleans.*'a' has dtype int64"),
        ({"segments": [[True, False]]}, r"'mask 0' has dtype bool and shape \(2,\)"),
        ({"segments": [0.1, 0.2, 0.3, 0.4]}, "segments must hold categories, not fractions"),
        ({"segments": ["a", "b"]}, "segments must hold one value for each of the 4 rows"),
        ({"segments": pd.DataFrame({"u": [0.5] * 4})}, r"segments\['u'\] must hold categories"),
        ({"max_depth": 0}, "max_depth must be a whole number"),
        ({"min_count": 1.5}, "min_count must be a whole number"),
        ({"kind": "top"}, "kind must be one of"),
    ],
)
def test_mistakes_with_segments(options, match):
    given = {"segments": ["a", "a", "b", "b"], **options}
    with pytest.raises(ValueError, match=match):
        multicalibration_error([0, 1, 1, 0], [0.2, 0.8, 0.7, 0.4], **given)
