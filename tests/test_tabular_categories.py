"""Categories of the table encoder: which columns, rare and new levels, codes."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from skcal import TabularEncoder

NEW = "hold levels that fit did not see"


def column(values, **kwargs):
    return pd.DataFrame({"c": pd.Series(values, **kwargs)})


def plain(**params):
    return TabularEncoder(**{"scaling": "standard", "dtype": "float64"} | params)


def names(table, **params):
    return plain(**params).fit(table).get_feature_names_out().tolist()


def silently(encoder, table):
    """Transform without regard to new levels."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NEW)
        warnings.filterwarnings("ignore", f".*{NEW}")
        return encoder.transform(table)


# Texts with ties in frequency, and an order in which digits, cases and accents matter.
LEVELS = st.lists(st.sampled_from(["b", "a", "B", "10", "9", "é"]), min_size=1, max_size=30)
LEVELS_OR_NONE = st.lists(st.sampled_from(["b", "a", "B", "10", None]), min_size=1, max_size=30)


# --- Which columns ----------------------------------------------------------------------

TABLE = pd.DataFrame(
    {"n": [1.0, 3.0, 1.0], "k": [7, 8, 7], "b": [True, False, True], "c": list("uvu")}
)


def test_by_default_types_decide():
    assert plain().fit(TABLE).is_categorical_.tolist() == [False, False, True, True]
    assert not plain().fit(TABLE[["n", "k"]].to_numpy()).is_categorical_.any()


@pytest.mark.parametrize(
    "chosen",
    [
        ["k", "c"],
        ("c", "k"),
        np.array(["k", "c"]),
        np.array(["k", "c"], dtype=object),
        [1, 3],
        np.array([3, 1]),
        [False, True, False, True],
        pd.Series([False, True, False, True]),
    ],
    ids=str,
)
def test_columns_may_be_chosen_by_name_position_and_mask(chosen):
    encoder = plain(categorical_features=chosen).fit(TABLE)
    assert encoder.is_categorical_.tolist() == [False, True, False, True]
    expected = {
        "n": [-1, 2, -1] / np.sqrt(2),
        "b": [1, -2, 1] / np.sqrt(2),  # a boolean that was not chosen is a number
        "k_7": [1, 0, 1],
        "k_8": [0, 1, 0],
        "c_u": [1, 0, 1],
        "c_v": [0, 1, 0],
    }
    assert encoder.get_feature_names_out().tolist() == list(expected)
    assert_allclose(encoder.transform(TABLE), np.column_stack(list(expected.values())))


@pytest.mark.parametrize("container", [np.array, pd.DataFrame, list])
def test_an_array_may_have_categories(container):
    table = container([[2.0, 1.0], [np.nan, 3.0], [10.0, 1.0], [2.5, 3.0]])
    encoder = plain(categorical_features=[0]).fit(table)
    assert encoder.get_feature_names_out().tolist() == [
        *["1" if container is pd.DataFrame else "x1"][:0],
        "x1",
        "x0_10",
        "x0_2",
        "x0_2.5",
        "x0_nan",
    ]
    expected = [[-1, 0, 1, 0, 0], [1, 0, 0, 0, 1], [-1, 1, 0, 0, 0], [1, 0, 0, 1, 0]]
    assert_array_equal(encoder.transform(table), expected)
    with pytest.warns(UserWarning, match=r"The columns \[0\] " + NEW):
        assert_array_equal(encoder.transform(container([[3.0, 1.0]])), [[-1, 0, 0, 0, 0]])
    assert encoder.count_unseen(container([[3.0, 1.0], [2, 3]])) == {"x0": 1}


@pytest.mark.parametrize("chosen", [[], None, np.zeros(2, dtype=bool)], ids=str)
def test_no_categories_at_all(chosen):
    encoder = plain(categorical_features=chosen).fit(TABLE[["k", "b"]])
    assert encoder.get_feature_names_out().tolist() == ["k", "b"]
    assert encoder.one_hot_sizes_ == []
    assert encoder.cardinalities_ == []


@pytest.mark.parametrize(
    "values", [["u", "v", "u"], pd.Categorical(["1", "2", "x"]), np.array([1, "x", 2.5], object)]
)
def test_text_that_was_not_chosen_is_an_error(values):
    message = "Column 'c' holds text, but categorical_features does not name it"
    with pytest.raises(ValueError, match=message):
        plain(categorical_features=["k"]).fit(TABLE.assign(c=values))


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical([1, 3, None]),
        pd.Categorical([True, False, None]),
        pd.array([True, False, None], dtype="boolean"),
        np.array([True, False, None], dtype=object),
    ],
)
def test_numbers_of_other_types_that_were_not_chosen_are_numbers(values):
    encoder = plain(categorical_features=["k"]).fit(TABLE.assign(c=values)[["k", "c"]])
    numbers = encoder.transform(TABLE.assign(c=values)[["k", "c"]])[:, :2]
    assert_array_equal(np.abs(numbers), [[1, 0], [1, 0], [0, 1]])


def test_dates_that_were_chosen_are_their_text():
    when = pd.to_datetime(["2020-01-01", "2021-01-01", "2020-01-01"])
    table = TABLE.assign(c=when)[["c"]]
    assert_array_equal(plain(categorical_features=["c"]).fit_transform(table), np.eye(2)[[0, 1, 0]])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["k", "other"], "'other', which is not a column of the table"),
        ([4], "position 4, and the table has the columns 0 to 3"),
        ([-1], "position -1, and the table has the columns 0 to 3"),
        ([True, False], "a mask of 2 booleans, and the table has 4 columns"),
        ([0.5], "must be 'from_dtype', or a list of column names"),
        ("k", "must be 'from_dtype', or a list of column names"),
        ([["k"]], "must be 'from_dtype', or a list of column names"),
    ],
)
def test_wrong_choices(chosen, message):
    with pytest.raises(ValueError, match=message):
        plain(categorical_features=chosen).fit(TABLE)


def test_an_array_has_no_names():
    with pytest.raises(ValueError, match="holds names, but an array has none"):
        plain(categorical_features=["k"]).fit([[1.0, 2.0]])


# --- Rare levels ------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(LEVELS, LEVELS, st.one_of(st.none(), st.integers(1, 6), st.sampled_from([0.05, 0.2, 0.5])))
def test_rare_levels_as_in_scikit_learn(fitted, new, min_frequency):
    theirs = OneHotEncoder(
        min_frequency=min_frequency,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        feature_name_combiner=lambda name, level: f"{name}_{level}",
    ).fit(column(fitted))
    ours = plain(min_frequency=min_frequency).fit(column(fitted))
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    for values in (fitted, new):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert_array_equal(ours.transform(column(values)), theirs.transform(column(values)))


def test_missing_cells_are_never_rare():
    table = column(["a", "a", "b", None])
    assert names(table, min_frequency=2) == ["c_a", "c_nan", "c_infrequent_sklearn"]
    expected = np.eye(3)[[0, 0, 2, 1]]
    assert_array_equal(plain(min_frequency=2).fit_transform(table), expected)


def test_missing_cells_that_are_new_go_to_the_infrequent_level():
    encoder = plain(min_frequency=2).fit(column(["a", "a", "b"]))
    assert_array_equal(encoder.transform(column([None, "a", "b"])), [[0, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize("min_frequency", [2, 0.3])
def test_rows_are_counted_by_weight(min_frequency):
    # Of a weight of 8 in all, "b" has 2 (a quarter) and "a" and "c" have 3.
    table = column(["a", "b", "c", "a", "gone"])
    weight = [1, 2, 3, 2, 0]
    encoder = plain(min_frequency=min_frequency).fit(table, sample_weight=weight)
    rare = ["c_b"] if min_frequency == 2 else ["c_infrequent_sklearn"]
    assert encoder.get_feature_names_out().tolist() == sorted(["c_a", "c_c", *rare])


@settings(max_examples=60, deadline=None)
@given(LEVELS_OR_NONE, st.data(), st.sampled_from([None, 1, 3, 5, 0.2]), st.sampled_from([None, 2]))
def test_weights_are_repetition(levels, data, min_frequency, max_one_hot):
    n_rows = len(levels)
    weight = data.draw(st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows).filter(any))
    table = column(levels, dtype=object)
    params = {"min_frequency": min_frequency, "max_one_hot": max_one_hot}
    weighted = plain(**params).fit(table, sample_weight=weight)
    repeated = plain(**params).fit(table.iloc[np.repeat(np.arange(n_rows), weight)])
    assert weighted.get_feature_names_out().tolist() == repeated.get_feature_names_out().tolist()
    assert_array_equal(silently(weighted, table), silently(repeated, table))
    assert weighted.cardinalities_ == repeated.cardinalities_
    if not isinstance(min_frequency, int):
        for unit in (0.001, 1e-300, 1e300):
            scaled = plain(**params).fit(table, sample_weight=np.multiply(weight, unit))
            assert_array_equal(silently(scaled, table), silently(repeated, table))


def test_a_share_of_the_rows_that_is_just_reached():
    # In binary, 0.1 + 0.2 is more than 0.3, and three times 0.1 more than 0.3 of 1.
    table = column(list("aaabbbbbbb"))
    for unit in (1, 0.1, 0.7, 1e-300):
        for share in (0.3, 0.30000000000000004):
            encoder = plain(min_frequency=share).fit(table, sample_weight=np.full(10, unit))
            assert encoder.get_feature_names_out().tolist() == ["c_a", "c_b"]


@pytest.mark.parametrize("value", [0, -1, 0.0, 1.0, 1.5, True, "2", np.nan])
def test_min_frequency_is_checked(value):
    with pytest.raises(ValueError, match="min_frequency must be a whole number of rows"):
        plain(min_frequency=value).fit([[1.0]])


# --- Codes ------------------------------------------------------------------------------


def test_codes_by_hand():
    table = pd.DataFrame(
        {
            "big": ["c", "a", "b", None, "c"],
            "n": [1.0, 3.0, np.nan, 1.0, 3.0],
            "small": ["y", "x", "y", "x", "y"],
            "also": pd.Categorical([5, 10, 7, 7, 5]),
        }
    )
    encoder = plain(max_one_hot=2).fit(table)
    assert encoder.get_feature_names_out().tolist() == [
        *["n", "n_missing"],
        *["small_x", "small_y"],
        *["big", "also"],
    ]
    expected = [
        [-1, 0, 0, 1, 3, 2],
        [1, 0, 1, 0, 1, 1],
        [0, 1, 0, 1, 2, 3],
        [-1, 0, 1, 0, 4, 3],
        [1, 0, 0, 1, 3, 2],
    ]
    assert_array_equal(encoder.transform(table), expected)
    assert encoder.n_numeric_ == 1
    assert encoder.has_missing_.tolist() == [True]
    assert encoder.one_hot_sizes_ == [2]
    assert encoder.cardinalities_ == [5, 4]  # with 0, and with missing in the first


def test_the_boundary_counts_missing_and_infrequent_levels():
    table = column(["a", "a", "b", "b", "rare", None])
    for params, n_columns in (({}, 4), ({"min_frequency": 2}, 4), ({"min_frequency": 3}, 2)):
        assert len(names(table, max_one_hot=n_columns, **params)) == n_columns
        assert names(table, max_one_hot=n_columns - 1, **params) == ["c"]


def test_infrequent_and_new_levels_share_the_code_zero():
    encoder = plain(max_one_hot=0, min_frequency=2).fit(column(["b", "b", "a", "a", "rare", None]))
    assert encoder.cardinalities_ == [4]
    with pytest.warns(UserWarning, match=NEW):
        codes = encoder.transform(column(["a", "b", None, "rare", "new"]))
    assert_array_equal(codes, [[1], [2], [3], [0], [0]])


def test_missing_cells_that_are_new_have_the_code_zero():
    encoder = plain(max_one_hot=0).fit(column(["b", "a"]))
    assert_array_equal(encoder.transform(column(["a", None, "b"])), [[1], [0], [2]])


@settings(max_examples=50, deadline=None)
@given(LEVELS)
def test_codes_as_in_scikit_learn(levels):
    theirs = OrdinalEncoder().fit_transform(column(levels)) + 1
    assert_array_equal(plain(max_one_hot=0).fit_transform(column(levels)), theirs)


def test_truth_values_have_the_same_code_however_they_are_written():
    encoder = plain(max_one_hot=0).fit(column([True, False]))
    for values in (["1", "0"], [1.0, 0.0], ["TRUE", "FALSE"], ["true", "false"], [True, False]):
        assert_array_equal(encoder.transform(column(values)), [[2], [1]])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_layout_adds_up(data):
    n_rows = data.draw(st.integers(1, 20))

    def draw(*values):
        return data.draw(st.lists(st.sampled_from(values), min_size=n_rows, max_size=n_rows))

    table = pd.DataFrame(
        {
            "n": np.array(draw(0.0, 1.0, 5.0, np.nan)),
            "c": pd.Series(draw("a", "b", "c", None), dtype=object),
            "when": pd.to_datetime(draw("2020-01-01", "2021-02-03", None)),
            "b": pd.array(draw(True, False, None), dtype="boolean"),
            "d": pd.Series(draw("u", "v", "w", "x"), dtype=object),
        }
    )
    encoder = plain(
        max_one_hot=data.draw(st.sampled_from([None, 0, 2, 3])),
        min_frequency=data.draw(st.sampled_from([None, 2, 0.3])),
    ).fit(table)
    matrix = encoder.transform(table)
    assert encoder.n_numeric_ == len(encoder.has_missing_) == 5
    numbers_end = encoder.n_numeric_ + encoder.has_missing_.sum()
    hot_end = numbers_end + sum(encoder.one_hot_sizes_)
    n_out = hot_end + len(encoder.cardinalities_)
    assert matrix.shape == (n_rows, n_out)
    assert (
        len(encoder.get_feature_names_out()) == len(set(encoder.get_feature_names_out())) == n_out
    )
    assert np.isin(matrix[:, encoder.n_numeric_ : hot_end], (0, 1)).all()
    start = numbers_end
    for size in encoder.one_hot_sizes_:
        assert_array_equal(matrix[:, start : start + size].sum(axis=1), 1)  # these rows are known
        start += size
    codes = matrix[:, hot_end:]
    assert_array_equal(codes, codes.astype(int))
    assert (codes >= 0).all()
    assert (codes < encoder.cardinalities_).all()
    for i in range(n_rows):
        assert_array_equal(encoder.transform(table.iloc[[i]]), matrix[[i]])


@pytest.mark.parametrize("value", [-1, 1.0, True, "2"])
def test_max_one_hot_is_checked(value):
    with pytest.raises(ValueError, match="max_one_hot must be a whole number of at least 0"):
        plain(max_one_hot=value).fit([[1.0]])


# --- New levels -------------------------------------------------------------------------


def test_one_warning_names_all_columns_with_new_levels():
    fitted = pd.DataFrame({"a": ["u", "v"], "b": [True, False], "c": ["x", "y"], "n": [1.0, 2.0]})
    encoder = plain().fit(fitted)
    new = pd.DataFrame({"a": ["new", None], "b": [True, False], "c": ["y", "z"], "n": [9.0, 2.0]})
    with pytest.warns(UserWarning, match=NEW) as caught:
        encoder.transform(new)
    assert len(caught) == 1
    assert "['a', 'c']" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert encoder.count_unseen(new) == {"a": 1, "b": 0, "c": 1}
    assert encoder.count_unseen(fitted) == {"a": 0, "b": 0, "c": 0}


def test_a_server_is_warned_once():
    encoder = plain().fit(column(["a", "b"]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for i in range(5):
            encoder.transform(column([f"new {i}"] * (1 + i)))
    assert len(caught) == 1


def test_missing_cells_are_no_new_levels():
    encoder = plain().fit(column(["a", "b"]))
    assert_array_equal(encoder.transform(column([None] * 30)), np.zeros((30, 2)))
    assert encoder.count_unseen(column([None, "a"])) == {"c": 0}


@pytest.mark.parametrize("n_rows", [19, 20])
def test_a_column_of_new_levels_alone_is_hardly_chance(n_rows):
    encoder = plain().fit(column(["apple", "pear", "plum", "fig", "apple"]))
    new = column(["Apple", "Pear"] * 9 + ["Fig", None])[-n_rows:]
    with pytest.warns(UserWarning, match=NEW) as caught:
        assert not encoder.transform(new).any()
    strong = (
        "Column 'c': none of its levels was seen in fit. Expected such as ['apple', 'fig', "
        "'pear']; came ['Apple', 'Fig', 'Pear']. The columns ['c']"
    )
    assert len(caught) == 1
    assert (strong in str(caught[0].message)) == (n_rows == 20)


def test_one_known_cell_is_enough_against_the_strong_warning():
    encoder = plain().fit(column(["apple", "pear", None]))
    for known in ("pear", None):
        with pytest.warns(UserWarning, match=NEW) as caught:
            encoder.transform(column(["Apple"] * 30 + [known]))
        assert "none of its levels" not in str(caught[0].message)


def test_the_strong_warning_where_levels_are_merged():
    encoder = plain(min_frequency=2).fit(column(["apple", "pear"]))
    with pytest.warns(UserWarning, match=r"Expected such as \['apple', 'pear'\]; came \['Apple'\]"):
        encoder.transform(column(["Apple"] * 30))


def test_transform_leaves_the_encoder_as_it_is():
    table = column(["a", "b", None]).assign(n=[1.0, 2.0, np.nan], when=pd.Timestamp("2020"))
    encoder = plain(min_frequency=2, max_one_hot=1).fit(table)
    before = str(vars(encoder))
    silently(encoder, table.assign(c=["a", "new", "newer"]))
    encoder.count_unseen(table)
    assert str(vars(encoder)) == before


# --- Identifiers ------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"max_one_hot": 8}, {"min_frequency": 2}], ids=str)
def test_a_column_in_which_nothing_repeats_is_refused(params):
    with pytest.raises(ValueError, match="Column 'c' holds 60 different texts in 60 rows"):
        plain(**params).fit(column([f"id {i}" for i in range(60)]))


def test_a_long_tail_is_refused_unless_it_is_merged():
    levels = ["often"] * 20 + [f"level {i}" for i in range(80)]
    with pytest.raises(ValueError, match=r"merge its rare levels \(min_frequency=2\)"):
        plain().fit(column(levels))
    assert names(column(levels), min_frequency=2) == ["c_often", "c_infrequent_sklearn"]


def test_few_levels_may_each_stand_once():
    assert len(names(column([f"level {i}" for i in range(50)]))) == 50


# --- Cells ------------------------------------------------------------------------------


def test_levels_of_two_types_that_are_written_alike_are_one():
    table = column(pd.Categorical([1, "1", 1.0, "2"], [1, "1", "2"]))
    assert names(table) == ["c_1", "c_2"]
    assert_array_equal(plain().fit_transform(table), np.eye(2)[[0, 0, 0, 1]])


def test_whole_numbers_are_written_alike():
    values = [1, 1.0, np.float32(1), np.int8(1), Decimal("1.0"), "1", 2]
    table = column(values, dtype=object)
    encoder = plain(categorical_features=["c"]).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["c_1", "c_2"]
    assert_array_equal(encoder.transform(table), np.eye(2)[[0] * 6 + [1]])


def test_many_rows_of_each_type():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 500)
    texts = np.array(["a", "b", None], dtype=object)[codes]
    expected = np.eye(3)[codes]
    for values in (
        pd.Series(texts, dtype=object),
        pd.Series(texts, dtype="str"),
        pd.Series(texts, dtype="string"),
        pd.Series(texts, dtype="category"),
    ):
        assert_array_equal(plain().fit_transform(column(values)), expected)
    numbers = np.array([1, 2, None], dtype=object)[codes]
    for dtype in (object, "Int64", "float32", "Float64", "category"):
        values = pd.Series(numbers, dtype=object).astype(dtype)
        encoder = plain(categorical_features=[0]).fit(column(values))
        assert_array_equal(encoder.transform(column(values)), expected)


def test_names_that_would_stand_twice_are_numbered():
    table = pd.DataFrame({"a": [1.0, None], "a_missing": [1.0, 2.0], "c": ["nan", None]})
    assert names(table) == ["a", "a_missing", "a_missing_2", "c_nan", "c_nan_2"]
