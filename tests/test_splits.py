"""Rows held out of training: shares, classes, groups, and the order of the file."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skcal.neural._rows import Rows
from skcal.neural._splits import deal_out, hold_out


def make_rows(y, groups=None):
    """Rows whose only number is their position."""
    y = np.asarray(y, dtype=np.int64)
    positions = np.arange(len(y), dtype=np.float64)[:, None]
    return Rows(positions, y, 1 + positions[:, 0], groups=groups)


def positions(rows):
    return rows.X[:, 0].numpy().astype(int)


def held_out(part):
    return positions(part.valid)


def check_cut(part, rows):
    """All rows are in one of the two parts, in order, with their labels, weights and groups."""
    kept, out = positions(part), held_out(part)
    assert_array_equal(np.sort(np.concatenate([kept, out])), np.arange(len(rows)))
    assert len(out)
    for piece, chosen in ((part, kept), (part.valid, out)):
        assert (np.diff(chosen) > 0).all()
        assert_array_equal(piece.y, rows.y[chosen])
        assert_array_equal(piece.weight, rows.weight[chosen])
        assert_array_equal(piece.index, np.arange(len(chosen)))
        if rows.groups is not None:
            assert_array_equal(piece.groups, rows.groups[chosen])
    assert set(part.y.tolist()) == set(rows.y.tolist())
    if rows.groups is not None:
        assert not set(part.groups.tolist()) & set(part.valid.groups.tolist())


# --- hold_out ---------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.1, 0.15, 0.3, 0.7])
def test_shares_of_classes_are_those_of_all_rows(fraction):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [600, 250, 100, 50]))
    part = hold_out(make_rows(y), fraction, 0)
    check_cut(part, make_rows(y))
    assert len(part.valid) == math.ceil(fraction * 1000)
    counts = np.bincount(part.valid.y)
    assert np.abs(counts - fraction * np.array([600, 250, 100, 50])).max() <= 1


@settings(deadline=None, max_examples=80)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    fraction=st.sampled_from([0.05, 0.15, 0.5, 0.7]),
    seed=st.integers(0, 100),
)
def test_every_class_keeps_a_row_however_small(sizes, fraction, seed):
    y = np.repeat(np.arange(len(sizes) + 1), [60, *sizes])
    part = hold_out(make_rows(y), fraction, seed)
    check_cut(part, make_rows(y))
    n_valid = math.ceil(fraction * len(y))
    assert n_valid - len(sizes) - 1 <= len(part.valid) <= n_valid


def test_rows_are_drawn_evenly():
    rows = make_rows(np.repeat([0, 1], [30, 10]))
    times = np.zeros(40)
    for seed in range(400):
        times[held_out(hold_out(rows, 0.25, seed))] += 1
    # 100 times each, of 400: five standard errors.
    assert np.abs(times - 100).max() < 5 * np.sqrt(400 * 0.25 * 0.75)


@pytest.mark.parametrize("how", ["rows", "groups"])
def test_the_same_seed_holds_out_the_same(how):
    groups = np.repeat(np.arange(100), 2) if how == "groups" else None
    rows = make_rows(np.arange(200) % 3, groups)
    one, same, other = (held_out(hold_out(rows, 0.2, seed)) for seed in (4, 4, 5))
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    folds, again, others = ([held_out(p) for p in deal_out(rows, 4, seed)] for seed in (4, 4, 5))
    for a, b in zip(folds, again, strict=True):
        assert_array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(folds, others, strict=True))


@pytest.mark.parametrize("y", [[0, 1], [0, 1, 2], [0, 0]])
def test_too_few_rows_are_refused(y):
    fraction = 0.9 if y == [0, 0] else 0.15
    with pytest.raises(ValueError, match=r"Holding \d of the \d samples out.*pass X_val and y_val"):
        hold_out(make_rows(y), fraction, 0)


def test_whole_groups_are_held_out_in_numbers_near_the_share():
    rng = np.random.default_rng(0)
    for names in (np.arange(60), np.array([f"g{i}" for i in range(60)])):
        groups = rng.permutation(np.repeat(names, rng.integers(1, 20, size=60)))
        rows = make_rows(rng.integers(3, size=len(groups)), groups)
        for seed in range(20):
            part = hold_out(rows, 0.2, seed)
            check_cut(part, rows)
            assert abs(len(part.valid) - math.ceil(0.2 * len(rows))) <= 10  # half of a group


def test_groups_of_one_size_give_the_exact_share():
    groups = np.repeat(np.arange(40), 5)
    part = hold_out(make_rows(np.arange(200) % 2, groups), 0.15, 0)
    assert len(np.unique(part.valid.groups)) == 6


def test_a_giant_group_is_not_the_validation_set():
    groups = np.concatenate([np.zeros(900), np.arange(1, 101)])
    rows = make_rows(np.arange(1000) % 2, groups)
    for seed in range(20):
        part = hold_out(rows, 0.1, seed)
        check_cut(part, rows)
        assert len(part.valid) == 100


def test_groups_all_larger_than_the_share_give_the_smallest():
    groups = np.repeat([5, 6, 7, 8], [30, 25, 20, 25])
    for seed in range(9):
        part = hold_out(make_rows(np.arange(100) % 2, groups), 0.05, seed)
        assert set(part.valid.groups) == {7}
    y = np.where(groups == 7, 2, np.arange(100) % 2)  # the smallest that can be spared
    parts = [hold_out(make_rows(y, groups), 0.05, seed) for seed in range(20)]
    assert {tuple(np.unique(part.valid.groups)) for part in parts} == {(6,), (8,)}


def test_a_group_with_all_rows_of_a_class_stays_in_training():
    groups = np.repeat(np.arange(10), 4)
    y = np.where(groups == 3, 2, np.arange(40) % 2)
    for seed in range(30):
        rows = make_rows(y, groups)
        part = hold_out(rows, 0.5, seed)
        check_cut(part, rows)
        assert 3 in part.groups


def test_the_last_group_of_a_class_stays_in_training():
    """Class 2 is in two groups: one may go, whichever it is."""
    groups = np.repeat(np.arange(10), 4)
    y = np.where(groups < 2, 2, np.arange(40) % 2)
    gone = set()
    for seed in range(30):
        rows = make_rows(y, groups)
        part = hold_out(rows, 0.7, seed)
        check_cut(part, rows)
        gone |= set(part.valid.groups)
    assert {0, 1} <= gone


@pytest.mark.parametrize("groups", [np.zeros(20), np.arange(20) % 2])
def test_groups_that_training_cannot_spare_are_named(groups):
    y = np.arange(20) % 2  # each of the groups, or the only one, holds all of a class
    with pytest.raises(ValueError, match=r"None of the [12] group\(s\).*pass X_val|None of .*Pass"):
        hold_out(make_rows(y, groups), 0.3, 0)


def test_the_last_rows_are_held_out():
    rows = make_rows(np.arange(101) % 3)
    for seed in range(2):
        part = hold_out(rows, 0.25, seed, split="last")
        check_cut(part, rows)
        assert_array_equal(held_out(part), np.arange(75, 101))


def test_groups_that_begin_before_the_last_rows_stay_in_training():
    groups = np.repeat(np.arange(20), 5)
    groups[-1] = 2  # comes back
    rows = make_rows(np.arange(100) % 2, groups)
    part = hold_out(rows, 0.22, 0, split="last")
    check_cut(part, rows)
    assert_array_equal(held_out(part), np.arange(80, 99))  # group 15 has rows on both sides


@pytest.mark.parametrize(
    ("y", "groups", "fraction", "words"),
    [
        ([0] * 16 + [1] * 4, None, 0.3, r"hold every row of 1 class\(es\), which training needs"),
        ([0] * 10 + [1, 2] * 5, None, 0.6, r"hold every row of 2 class\(es\)"),
        ([0, 1] * 10, None, 0.99, "are all rows"),
        ([0, 1] * 10, np.arange(20) % 4, 0.3, "belong to groups that begin before"),
    ],
)
def test_last_rows_that_training_needs_are_refused(y, groups, fraction, words):
    with pytest.raises(ValueError, match=rf"the last \d+ of 20 samples, but they .*{words}"):
        hold_out(make_rows(y, groups), fraction, 0, split="last")


# --- deal_out ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_every_row_is_held_out_once(n_folds):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [100, 63, 20, 9]))
    rows = make_rows(y)
    parts = deal_out(rows, n_folds, 0)
    assert len(parts) == n_folds
    for part in parts:
        check_cut(part, rows)
        counts = np.bincount(part.valid.y, minlength=4)
        assert np.abs(counts - np.array([100, 63, 20, 9]) / n_folds).max() < 1
    out = np.concatenate([held_out(part) for part in parts])
    assert_array_equal(np.sort(out), np.arange(len(y)))


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 100),
)
def test_classes_of_one_row_are_never_held_out_and_all_others_once(sizes, n_folds, seed):
    y = np.repeat(np.arange(len(sizes) + 1), [30, *sizes])
    rows = make_rows(y)
    parts = deal_out(rows, n_folds, seed)
    for part in parts:
        check_cut(part, rows)
    out = np.concatenate([held_out(part) for part in parts])
    assert_array_equal(np.sort(out), np.flatnonzero(np.bincount(y)[y] > 1))


def test_groups_stay_whole_in_folds():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat([f"g{i}" for i in range(50)], 6))
    rows = make_rows(rng.permutation(np.arange(300) % 3), groups)
    parts = deal_out(rows, 5, 0)
    for part in parts:
        check_cut(part, rows)
        assert len(part.valid) == pytest.approx(60, abs=12)
        assert np.bincount(part.valid.y) == pytest.approx(20, abs=8)
    out = np.concatenate([held_out(part) for part in parts])
    assert_array_equal(np.sort(out), np.arange(300))


def test_groups_of_a_class_that_is_nowhere_else_stay_in_training_whole():
    groups = np.repeat(np.arange(30), 4)
    y = np.arange(120) % 2
    y[8:10] = 2  # half of group 2
    rows = make_rows(y, groups)
    for seed in range(5):
        parts = deal_out(rows, 3, seed)
        for part in parts:
            check_cut(part, rows)
        out = np.concatenate([held_out(part) for part in parts])
        assert_array_equal(np.sort(out), np.flatnonzero(groups != 2))


@pytest.mark.parametrize(
    ("y", "groups", "n_folds", "words"),
    [
        ([0, 1] * 4, None, 5, "n_folds=5 needs at least 10 samples; got 8"),
        ([0, 1] * 20, np.arange(40) % 9, 5, "n_folds=5 needs at least 10 groups; got 9"),
        (np.arange(20) // 2, None, 3, "a class of at least 3 samples; the largest has 2"),
        (np.arange(20) // 2, np.arange(20), 3, "a class of at least 3 samples; the largest has 2"),
        (np.repeat(np.arange(4), 5), np.repeat(np.arange(4), 5), 2, "rows that training can spare"),
    ],
)
def test_folds_that_cannot_be_are_refused(y, groups, n_folds, words):
    with pytest.raises(ValueError, match=words):
        deal_out(make_rows(y, groups), n_folds, 0)
