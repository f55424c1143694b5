"""Bins of numbers, against numpy's and scikit-learn's, and exact fractions."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.tree import DecisionTreeClassifier

from skcal.neural._bins import bin_edges

ROWS = st.integers(1, 120)


def column_of(kind, n, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(size=n),
        "ties": rng.integers(-3, 4, size=n) / 4,
        "constant": np.full(n, 0.1),
        "mostly zero": np.where(rng.random(n) < 0.9, 0.0, rng.exponential(size=n)),
        "wide": rng.normal(size=n) * 10.0 ** rng.integers(-30, 30, size=n),
        "two": rng.integers(2, size=n),
        "next to each other": 1 + rng.integers(4, size=n) * np.finfo(dtype).eps,
    }[kind]
    return values.astype(dtype)


KINDS = st.sampled_from(
    ["normal", "ties", "constant", "mostly zero", "wide", "two", "next to each other"]
)


def single(column, weights, n_bins, codes=None):
    (edges,) = bin_edges(column[:, None], weights, n_bins, codes)
    return edges.numpy()


def exact_edges(column, n_bins):
    """Values of more than a bin's share, and exact quantiles of the rows that are left."""
    counts, light, heavy = Counter(column.tolist()), sorted(column.tolist()), set()
    while len(heavy) < n_bins - 1:
        share = Fraction(len(light), n_bins - len(heavy))
        new = [v for v in sorted(set(light)) if counts[v] > share][: n_bins - 1 - len(heavy)]
        if not new:
            break
        heavy.update(new)
        light = [v for v in light if v not in heavy]
    n_left, n, edges = n_bins - len(heavy), len(light), {column.min(), column.max()} | heavy
    for t in range(1, n_left if n else 1):
        edges.add(next(v for i, v in enumerate(light) if Fraction(i + 1, n) >= Fraction(t, n_left)))
    return sorted(edges)


# --- Equal shares -----------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(kind=KINDS, n=ROWS, n_bins=st.integers(2, 30), seed=st.integers(0, 1000))
def test_edges_are_those_of_rows_repeated_by_their_weight(kind, n, n_bins, seed):
    column = column_of(kind, n, seed)
    weights = np.random.default_rng(seed).integers(0, 4, size=n).astype(float)
    weights[-1] = 1
    repeated = np.repeat(column, weights.astype(int))
    assert_array_equal(single(column, weights, n_bins), exact_edges(repeated, n_bins))


@pytest.mark.parametrize("n_bins", [2, 8, 64])
@pytest.mark.parametrize("n", [512, 1001])
def test_numpy_agrees_where_no_value_is_heavy(n, n_bins):
    column = column_of("normal", n, 0)
    weights = np.random.default_rng(1).integers(1, 5, size=n)
    shares = np.arange(n_bins + 1) / n_bins  # exact, so that numpy rounds nowhere
    repeated = np.repeat(column, weights)
    expected = np.unique(np.quantile(repeated, shares, method="inverted_cdf"))
    assert_array_equal(single(column, weights.astype(float), n_bins), expected)
    weighted = np.quantile(column, shares, method="inverted_cdf", weights=weights)
    assert_array_equal(single(column, weights.astype(float), n_bins), np.unique(weighted))


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 7e-5, 1e6])
def test_only_proportions_of_weights_matter(weight):
    """Sums of such weights round below the shares that they should equal."""
    column = np.arange(24_000.0)
    edges = single(column, np.full(24_000, weight), 24)
    assert_array_equal(edges, [0, *np.arange(999.0, 24_000, 1000)])


def test_weights_in_single_precision_repeat_rows_too():
    # Each share ends with a row; how far its rounded weights miss the share depends on them.
    repeats = np.array(([1] * 6 + [2] * 3 + [3] * 2 + [5, 1] + [2, 4]) * 6)
    column = np.arange(float(len(repeats)))
    weights = (repeats / 7).astype(np.float32)
    expected = exact_edges(np.repeat(column, repeats), 30)
    assert_array_equal(single(column, weights, 30), expected)


@pytest.mark.parametrize("codes", [None, np.arange(200) // 50])
def test_rows_of_weight_zero_are_no_rows(codes):
    column = np.append(np.linspace(0, 1, 100), np.linspace(-9, 9, 100))
    weights = np.repeat([1.0, 0.0], 100)
    kept = None if codes is None else codes[:100]
    expected = single(column[:100], weights[:100], 8, kept)
    assert_array_equal(single(column, weights, 8, codes), expected)
    assert (expected[0], expected[-1]) == (0, 1)


def test_every_column_has_its_own_edges():
    numbers = np.column_stack([column_of(kind, 300, 0) for kind in ("ties", "normal", "constant")])
    weights = np.random.default_rng(0).random(300)
    edges = bin_edges(numbers, weights, 6)
    assert [len(column) for column in edges] == [len(set(edges[0].tolist())), 7, 1]
    for column, one in zip(numbers.T, edges, strict=True):
        assert_array_equal(one, single(column, weights, 6))
    assert edges[2].tolist() == [0.1]


# --- Trees ------------------------------------------------------------------------------


def classes_by_value(column, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(column)) < 0.8, np.digitize(column, [-1, 0.2, 0.5]), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "leaf"), [(20_000, 0.005), (500, 0.005)])
def test_tree_edges_are_scikit_learns_thresholds(n, leaf, dtype):
    column = column_of("normal", n, 0, dtype)
    codes = classes_by_value(column)
    tree = DecisionTreeClassifier(
        max_leaf_nodes=12,
        min_weight_fraction_leaf=leaf,
        min_impurity_decrease=1e-4,
        random_state=0,
    ).fit(column[:, None], codes)
    inner = tree.tree_.threshold[tree.tree_.feature == 0]  # leaves have feature -2
    edges = single(column, np.ones(n), 12, codes)
    assert_array_equal(
        edges, np.unique(np.concatenate([[column.min()], inner, [column.max()]]).astype(dtype))
    )
    assert len(edges) > 4
    for jump in (-1, 0.2, 0.5):
        assert np.abs(edges - jump).min() < 0.02 * (1 if n > 1000 else 5)
    # Each leaf holds as many rows as the smallest may.
    held = np.histogram(column, edges)[0]
    assert held.min() >= leaf * n - 1


def test_tree_edges_of_weights_are_those_of_repeated_rows():
    column = column_of("normal", 3000, 0)
    codes, weights = classes_by_value(column), np.random.default_rng(1).integers(1, 4, size=3000)
    repeated = np.repeat(column, weights)
    ones = np.ones(len(repeated))
    expected = single(repeated, ones, 10, np.repeat(codes, weights))
    assert_array_equal(single(column, weights.astype(float), 10, codes), expected)
    assert not np.array_equal(single(column, np.ones(3000), 10, codes), expected)


def test_a_number_that_tells_nothing_has_no_inner_edges():
    column = column_of("normal", 5000, 0)
    codes = np.arange(5000) % 2
    codes = codes[np.argsort(np.argsort(column))]  # classes alternate along the column
    assert_array_equal(single(column, np.ones(5000), 8, codes), [column.min(), column.max()])


# --- What always holds ------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    kind=KINDS,
    n=ROWS,
    n_bins=st.integers(2, 30),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([np.float32, np.float64]),
    tree=st.booleans(),
)
def test_edges_are_sorted_distinct_few_and_span_the_column(kind, n, n_bins, seed, dtype, tree):
    column = column_of(kind, n, seed, dtype)
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n) if tree else None
    (edges,) = bin_edges(column[:, None], rng.random(n) + 0.01, n_bins, codes)
    assert edges.dtype == torch.from_numpy(column).dtype
    edges = edges.numpy()
    assert (edges[1:] > edges[:-1]).all()
    assert 1 <= len(edges) <= n_bins + 1
    assert (edges[0], edges[-1]) == (column.min(), column.max())
    if column.min() == column.max():
        assert len(edges) == 1
    order = rng.permutation(n)
    if not tree:
        assert_array_equal(
            single(column[order], np.ones(n), n_bins), single(column, np.ones(n), n_bins)
        )


# --- More rows than are looked at -------------------------------------------------------

MANY = 250_000


def rank_errors(column, edges):
    """How far the edges are from equal shares of all rows."""
    reached = np.searchsorted(np.sort(column), edges, side="right") / len(column)
    return np.abs(reached - np.arange(len(edges)) / (len(edges) - 1))[1:]


@pytest.mark.parametrize("order", ["as drawn", "sorted", "by class"])
def test_many_rows_are_sampled_fairly(order):
    column = column_of("normal", MANY, 0, np.float32)
    if order == "sorted":
        column = np.sort(column)
    elif order == "by class":
        column = np.concatenate([column[: MANY // 2], column[MANY // 2 :] + 5])
    edges = single(column, np.ones(MANY), 16)
    # Five standard errors of a share among 100,000 rows.
    assert rank_errors(column, edges).max() < 5 * np.sqrt(0.25 / 100_000)
    assert (edges[0], edges[-1]) == (column.min(), column.max())
    assert_array_equal(edges, single(column, np.ones(MANY), 16))


@pytest.mark.parametrize("period", [2, 3, 24])
def test_rows_that_alternate_are_all_seen(period):
    """Files of pairs, or of hours: every third row of 250,000 would always be the same kind."""
    kind = np.arange(MANY) % period
    column = 10.0 * kind + np.random.default_rng(0).random(MANY)
    edges = single(column, np.ones(MANY), 4 * period)
    assert rank_errors(column, edges).max() < 5 * np.sqrt(0.25 / 100_000)
    codes = (kind == 0).astype(np.int64)
    thresholds = single(column, np.ones(MANY), 3, codes)
    assert ((thresholds > 0.99) & (thresholds < 10.01)).any()


def test_rare_extremes_are_edges_however_many_rows_there_are():
    column = np.zeros(MANY)
    column[[7, 1234, 200_003]] = -4, 3, 9
    assert_array_equal(single(column, np.ones(MANY), 8), [-4, 0, 9])
    assert_array_equal(single(column, np.ones(MANY), 8, np.arange(MANY) % 2), [-4, 9])


def test_weights_stay_with_their_rows_in_the_sample():
    column = np.sort(column_of("normal", MANY, 0))
    weights = np.repeat([3.0, 1.0], MANY // 2)
    median = single(column, weights, 2)[1]
    # Half of the weight is two thirds of the rows of the lower half.
    assert np.searchsorted(column, median) / MANY == pytest.approx(1 / 3, abs=0.008)


def test_what_nine_in_ten_rows_share_takes_one_edge_and_not_all():
    gains = np.where(np.arange(1000) < 900, 0.0, np.arange(1000.0))
    edges = single(gains, np.ones(1000), 11)
    assert_array_equal(edges, [0, *range(909, 1000, 10)])
