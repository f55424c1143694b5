"""TabularEncoder against tables encoded by hand."""

import datetime
import pickle
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skcal import TabularEncoder


def plain(**params):
    """Return an encoder whose numbers are easy to check by hand."""
    return TabularEncoder(**{"scaling": "standard", "dtype": "float64"} | params)


def encode(fit, transform=None, **params):
    """Return the matrix, in float64, of ``transform`` after ``fit``."""
    encoder = plain(**params).fit(fit)
    return encoder.transform(fit if transform is None else transform)


def fit_on(table):
    return TabularEncoder().fit(table)


def column(values, **kwargs):
    return pd.DataFrame({"c": pd.Series(values, **kwargs)})


def names(table):
    return TabularEncoder().fit(table).get_feature_names_out().tolist()


# --- By hand ----------------------------------------------------------------------------


def test_mixed_table_by_hand():
    table = pd.DataFrame(
        {
            "job": ["cook", "clerk", None, "cook"],
            "age": [20.0, 30.0, 40.0, np.nan],
            "owner": [True, False, True, True],
            "town": pd.Categorical(["b", "b", "a", np.nan], categories=["b", "a", "unused"]),
            "debt": [0, 0, 4, 4],
        }
    )
    encoder = plain().fit(table)
    assert encoder.is_categorical_.tolist() == [True, False, True, True, False]
    assert encoder.has_missing_.tolist() == [True, False]
    assert encoder.n_features_in_ == 5
    assert encoder.feature_names_in_.tolist() == ["job", "age", "owner", "town", "debt"]
    # Numbers first, then flags, then levels in the order of their text, missing last.
    expected = {
        "age": np.array([-10, 0, 10, 0]) / np.sqrt(200 / 3),
        "debt": [-1, -1, 1, 1],
        "age_missing": [0, 0, 0, 1],
        "job_clerk": [0, 1, 0, 0],
        "job_cook": [1, 0, 0, 1],
        "job_nan": [0, 0, 1, 0],
        "owner_False": [0, 1, 0, 0],
        "owner_True": [1, 0, 1, 1],
        "town_a": [0, 0, 1, 0],
        "town_b": [1, 1, 0, 0],
        "town_nan": [0, 0, 0, 1],
    }
    assert encoder.get_feature_names_out().tolist() == list(expected)
    assert_allclose(encoder.transform(table), np.column_stack(list(expected.values())), rtol=1e-14)


def test_new_rows_are_scaled_as_the_fitted_ones():
    fitted = np.array([[1.0, 10.0], [3.0, 10.0]])  # means 2 and 10, deviations 1 and 0
    assert_allclose(encode(fitted, [[5.0, 10.0], [np.nan, np.nan]]), [[3.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_that_of_the_matrix(dtype):
    matrix = TabularEncoder(dtype=dtype).fit_transform(column(["a", "b"]).assign(n=[1, 2]))
    assert matrix.dtype == dtype
    assert matrix.flags.c_contiguous


def test_dtype_is_checked_by_fit_alone():
    with pytest.raises(ValueError, match=r"dtype must be 'float32' or 'float64'; got 'int8'"):
        TabularEncoder(dtype="int8").fit([[1.0]])


def test_needs_fit():
    with pytest.raises(NotFittedError):
        TabularEncoder().transform([[1.0]])
    with pytest.raises(NotFittedError):
        TabularEncoder().get_feature_names_out()


# --- Missing cells ----------------------------------------------------------------------


def test_missing_only_in_new_rows_becomes_the_mean_without_a_flag():
    assert_allclose(encode([[1.0], [3.0]], [[np.nan], [3.0]]), [[0.0], [1.0]])
    assert names(column([1.0, 3.0])) == ["c"]


def test_flag_of_a_column_without_missing_cells_in_new_rows_is_zero():
    assert_allclose(encode([[1.0], [3.0], [np.nan]], [[3.0]]), [[1.0, 0.0]])


@pytest.mark.parametrize("container", [np.array, pd.DataFrame], ids=["array", "frame"])
def test_all_missing_column(container):
    fitted = container([[np.nan, 1.0], [np.nan, 3.0]])
    # Its flag is 1 in every row of fit, and tells a new row that has a number.
    assert_allclose(encode(fitted), [[0.0, -1.0, 1.0], [0.0, 1.0, 1.0]])
    assert_allclose(encode(fitted, container([[7.0, 1.0]])), [[0.0, -1.0, 0.0]])


def test_all_missing_category():
    fitted = column([None, None], dtype="str")
    assert_allclose(encode(fitted, column([None])), [[1.0]])
    with pytest.warns(UserWarning, match=r"\['c'\] hold levels that fit did not see"):
        assert_allclose(encode(fitted, column(["a", None])), [[0.0], [1.0]])


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, 3, None], dtype="Int64"),
        pd.array([1, 3, None], dtype="UInt8"),
        pd.array([1.0, 3.0, None], dtype="Float64"),
        pd.array([1.0, 3.0, None], dtype="Float32"),
        pd.array([1.0, 3.0, np.nan], dtype="float16"),
        np.array([1, 3, None], dtype=object),
        np.array([1.0, 3, pd.NA], dtype=object),
        np.array([Decimal(1), Decimal(3), None], dtype=object),
        pd.arrays.SparseArray([1.0, 3.0, np.nan]),
    ],
    ids=lambda values: type(values).__name__ + "-" + str(values.dtype),
)
@pytest.mark.parametrize("beside", [[], ["text"]], ids=["alone", "beside-text"])
def test_types_of_numbers_with_missing_cells(values, beside):
    table = pd.DataFrame({"number": values} | {name: ["a", "a", "a"] for name in beside})
    expected = [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert_allclose(encode(table)[:, :2], expected)


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (pd.array([True, False, None], dtype="boolean"), ["False", "True", "nan"]),
        (np.array([True, False, None], dtype=object), ["False", "True", "nan"]),
        (pd.array(["x", "y", None], dtype="string"), ["x", "y", "nan"]),
        (pd.array(["x", "y", None], dtype="str"), ["x", "y", "nan"]),
        (np.array(["x", "y", None], dtype=object), ["x", "y", "nan"]),
        (np.array(["x", "y", pd.NA], dtype=object), ["x", "y", "nan"]),
        (pd.Categorical(["x", "y", None], ["y", "never", "x"]), ["x", "y", "nan"]),
        (pd.Categorical([2, 10, None]), ["10", "2", "nan"]),
        (pd.Categorical([2.0, 10.5, None]), ["10.5", "2", "nan"]),
        (pd.Categorical([True, False, None]), ["False", "True", "nan"]),
    ],
    ids=lambda value: None if isinstance(value, list) else f"{type(value).__name__}-{value.dtype}",
)
def test_types_of_categories_with_missing_cells(values, levels):
    table = column(values)
    assert names(table) == [f"c_{level}" for level in levels]
    matrix = encode(table)
    assert_array_equal(matrix.sum(axis=1), 1)
    assert_array_equal(matrix[2], [0, 0, 1])
    assert matrix[0].argmax() != matrix[1].argmax()


# --- Levels -----------------------------------------------------------------------------


@pytest.mark.parametrize("new", ["new", None, 7])
def test_unseen_level_is_a_row_of_zeros_alone_and_in_a_batch(new):
    fitted = column(["a", "b", "a"])
    expected = pytest.warns(UserWarning, match="fit did not see") if new else nullcontext()
    with expected:
        one = encode(fitted, column([new], dtype=object))
    with expected:
        batch = encode(fitted, column(["b", new, "a"], dtype=object))
    assert_array_equal(one, [[0, 0]])
    assert_array_equal(batch, [[0, 1], [0, 0], [1, 0]])


@pytest.mark.parametrize(
    ("fitted", "new"),
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["1", "2", "1"], [1.0, 2.0, 1.0]),
        (["1", "2", "1"], pd.array([1, 2, 1], dtype="Int64")),
        (["1", "2", "1"], pd.Categorical([1, 2, 1])),
        (pd.Categorical([1, 2, 1]), ["1", "2", "1"]),
        (pd.Categorical([1, 2, 1]), [1.0, 2.0, 1.0]),
        (pd.Categorical(["1", "2", "1"]), pd.array([1, 2, 1], dtype="float32")),
        (pd.Categorical([0, 1, 0]), [False, True, False]),
        ([False, True, False], [0, 1, 0]),
        ([False, True, False], [0.0, 1.0, 0.0]),
        ([False, True, False], ["False", "True", "False"]),
        (["False", "True", "False"], pd.array([0, 1, 0], dtype="Int8")),
        (pd.Categorical(["b", "a", "b"], ["b", "a"]), pd.Categorical(["b", "a", "b"], ["a", "b"])),
    ],
    ids=str,
)
def test_a_level_of_another_type_is_the_same_level(fitted, new):
    expected = encode(column(fitted))
    assert_array_equal(expected.sum(axis=1), 1)
    assert_array_equal(encode(column(fitted), column(new)), expected)


def test_a_category_missing_in_all_new_rows_and_so_of_a_number_type():
    fitted = column(["a", "b", None])
    assert_array_equal(encode(fitted, column([np.nan, np.nan])), [[0, 0, 1], [0, 0, 1]])


def test_levels_of_several_types_do_not_depend_on_the_other_rows():
    # 1, 1.0 and True are equal in Python, and True is not the level 1 of this column.
    values = [1, "1", 1.0, True, "True", 2.5]
    fitted = column(values, dtype=object)
    assert names(fitted) == ["c_1", "c_2.5", "c_True"]
    expected = np.eye(3)[[0, 0, 0, 2, 2, 1]]
    assert_array_equal(encode(fitted), expected)
    for position, value in enumerate(values):
        one = encode(fitted, column([value], dtype=object))
        assert_array_equal(one, expected[[position]])
        reverse = encode(fitted, column(values[::-1], dtype=object))
        assert_array_equal(reverse, expected[::-1])


def test_unused_levels_have_no_column():
    assert names(column(pd.Categorical(["b"], ["a", "b", "c"]))) == ["c_b"]


def test_many_levels_of_which_two_look_alike():
    fitted = column(["nan", "NaN", "", " ", None, "None"])
    assert_array_equal(encode(fitted).sum(axis=0), np.ones(6))


# --- Numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-200, 1.0, 1e30, 1e200, 1e307])
def test_any_scale(scale):
    matrix = encode(np.array([[0.0], [1.0], [2.0]]) * scale)
    # 5e-324 is the smallest number there is, so that the three are whole multiples of it.
    assert_allclose(matrix, np.array([[-1], [0], [1]]) * np.sqrt(1.5), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 5.0, 1e8, -1e300])
def test_constant_column_is_zero(offset):
    assert_array_equal(encode(np.full((4, 1), offset)), np.zeros((4, 1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("far", [1e7, 1e39, 1e300, np.finfo(float).max])
def test_far_numbers_stay_finite(far, dtype):
    encoder = plain(dtype=dtype).fit([[0.0, 0.0], [2.0, 0.0]])
    assert_array_equal(encoder.transform([[far, 0.0], [-far, 0.0]])[:, 0], [1e6, -1e6])
    assert np.isfinite(encoder.transform([[0.0, far]])).all()


def test_an_outlier_in_the_table_is_not_clipped():
    # The furthest that one row of n can lie is sqrt(n - 1) deviations.
    table = np.zeros((10_001, 1))
    table[0] = 1e250
    assert_allclose(encode(table)[0], [100.0])


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "int8", "uint64", "bool", "object", "longdouble"]
)
def test_array_types(dtype):
    array = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], dtype=dtype)
    assert_array_equal(encode(array), np.array([[-1, 1], [1, 1], [1, -1], [-1, -1]]))


def test_list_and_object_array_with_none():
    assert_allclose(encode([[1, 2], [3, 2]]), [[-1, 0], [1, 0]])
    array = np.array([[1, None], [3.0, 2]], dtype=object)
    assert_allclose(encode(array), [[-1, 0, 1], [1, 0, 0]])


def test_one_row():
    table = pd.DataFrame({"n": [5.0], "c": ["a"]})
    assert_array_equal(encode(table), [[0, 1]])


@settings(max_examples=50, deadline=None)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 3)),
        elements=st.floats(allow_nan=True, allow_infinity=False),
    )
)
def test_every_finite_table_gives_standardised_finite_numbers(table):
    matrix = encode(table)
    assert np.isfinite(matrix).all()
    n_features = table.shape[1]
    missing = np.isnan(table)
    for numbers, gone in zip(matrix.T[:n_features], missing.T, strict=True):
        present = numbers[~gone]
        if np.abs(present).max(initial=0) > 1e-6:  # neither empty nor constant
            assert_allclose(present.mean(), 0, atol=1e-6)
            assert_allclose(present.std(), 1, atol=1e-6)
    assert_array_equal(matrix[:, n_features:], missing[:, missing.any(axis=0)])
    for row in range(len(table)):
        assert_array_equal(encode(table, table[[row]]), matrix[[row]])


# --- Weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 0.001, 1e-300, 1e300])
def test_weights_are_repetition(scale):
    rng = np.random.default_rng(0)
    weight = np.array([0, 1, 2, 3, 0, 2])
    table = pd.DataFrame({"n": rng.normal(size=6), "c": list("abcabc")})
    table.loc[3, "n"] = np.nan
    repeated = table.iloc[np.repeat(np.arange(6), weight)]
    weighted = plain().fit(table, sample_weight=weight * scale)
    assert_allclose(weighted.transform(table), encode(repeated, table), rtol=1e-12, atol=1e-12)
    assert np.abs(weighted.transform(table) - encode(table)).max() > 0.1


def test_rows_of_weight_zero_teach_nothing():
    table = pd.DataFrame({"n": [1.0, 3.0, np.nan, 1e300], "c": ["a", "b", "only here", None]})
    weighted = plain().fit(table, sample_weight=[1, 1, 0, 0])
    assert weighted.get_feature_names_out().tolist() == ["n", "c_a", "c_b"]
    assert weighted.has_missing_.tolist() == [False]
    with pytest.warns(UserWarning, match="fit did not see"):
        matrix = weighted.transform(table)
    assert_array_equal(matrix, [[-1, 1, 0], [1, 0, 1], [0, 0, 0], [1e6, 0, 0]])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([0, 0], "Sample weights must contain at least one non-zero"),
        ([1, -1], "sample_weight must not be negative; row 1"),
        ([1, np.nan], "sample_weight contains NaN"),
        ([1, 1, 1], r"sample_weight.shape == \(3,\)"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        TabularEncoder().fit(column(["a", "b"]), sample_weight=weight)


# --- Refused ----------------------------------------------------------------------------

DATES = {
    "datetime": pd.to_datetime(["2020-01-01", "2021-01-01"]),
    "zone": pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC"),
    "timedelta": pd.to_timedelta(["1D", "2D"]),
    "period": pd.period_range("2020", periods=2, freq="Y").astype(object),
    "date": pd.Series([datetime.date(2020, 1, 1), None], dtype=object),
    "timestamp": pd.Series([pd.Timestamp("2020-01-01"), None], dtype=object),
    "python timedelta": pd.Series([datetime.timedelta(1), None], dtype=object),
}


@pytest.mark.parametrize("values", DATES.values(), ids=DATES.keys())
@pytest.mark.parametrize("fitted", [[1.0, 2.0], ["a", "b"]], ids=["number", "text"])
def test_dates_in_a_column_that_held_none_are_refused_by_name(values, fitted):
    table = pd.DataFrame({"n": [1.0, 2.0], "when": values})
    with pytest.raises(TypeError, match="Column 'when' holds dates or durations"):
        fit_on(table.assign(when=fitted)).transform(table)


@pytest.mark.parametrize("dtype", [complex, object])
@pytest.mark.parametrize("fitted", [None, [1.0, 2.0]], ids=["new", "number"])
def test_complex_numbers_are_refused_by_name(dtype, fitted):
    table = pd.DataFrame({"n": [1.0, 2.0], "z": np.array([1j, 2j], dtype=dtype)})
    use = TabularEncoder().fit if fitted is None else fit_on(table.assign(z=fitted)).transform
    with pytest.raises(TypeError, match="Column 'z' holds complex numbers"):
        use(table)


def test_objects_that_are_no_levels_are_refused_by_name():
    with pytest.raises(TypeError, match="Column 'c' holds list objects"):
        TabularEncoder().fit(column([[1], [2]]))


@pytest.mark.parametrize("text", ["old", "1,5", ""])
def test_a_number_column_that_turned_to_text(text):
    fitted = pd.DataFrame({"n": [1.0, 2.0], "age": [20, 30]})
    new = pd.DataFrame({"n": [1.0, 2.0], "age": ["20", text]})
    message = "Column 'age' held numbers when fitted and now holds "
    with pytest.raises(ValueError, match=message):
        TabularEncoder().fit(fitted).transform(new)


def test_numbers_written_as_text_are_those_numbers():
    assert_allclose(encode(column([1.0, 3.0]), column(["1", "3.0"])), [[-1], [1]])


@pytest.mark.parametrize("when", ["fit", "transform"])
@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
@pytest.mark.parametrize("beside", [["a", "b"], [1, 2]], ids=["mixed", "numbers"])
def test_infinity_is_refused_by_name(when, infinity, beside):
    good = pd.DataFrame({"x": [1.0, 2.0], "income": [1.0, 2.0], "z": beside})
    bad = good.assign(income=[1.0, infinity])
    with pytest.raises(ValueError, match="infinity in column 'income'"):
        TabularEncoder().fit(bad if when == "fit" else good).transform(bad)


def test_infinity_in_an_array_is_refused_by_number():
    with pytest.raises(ValueError, match="infinity in column 1;"):
        TabularEncoder().fit([[1.0, np.inf]])
    with pytest.raises(ValueError, match="infinity in column 'c'"):
        TabularEncoder().fit(column([1, np.inf], dtype=object))


@pytest.mark.parametrize("other", [["a", "b"], [3.0, 4.0]], ids=["mixed", "numbers"])
def test_two_columns_of_one_name(other):
    table = pd.DataFrame({"a": [1.0, 2.0], "b": other})
    table.columns = ["a", "a"]
    with pytest.raises(ValueError, match="More than one column is named 'a'"):
        TabularEncoder().fit(table)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table[["c", "n"]],
        lambda table: table.rename(columns={"n": "m"}),
        lambda table: table[["n"]],
        lambda table: table.assign(more=1),
    ],
    ids=["order", "name", "less", "more"],
)
def test_other_columns_are_refused(change):
    table = pd.DataFrame({"n": [1.0, 2.0], "c": ["a", "b"]})
    with pytest.raises(ValueError, match="The feature names should match those that were passed"):
        TabularEncoder().fit(table).transform(change(table))


def test_an_array_after_a_table_with_categories():
    table = pd.DataFrame({"n": [1.0, 2.0], "c": ["a", "b"]})
    encoder = TabularEncoder().fit(table)
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(ValueError, match="fitted on a DataFrame with categories or dates; pass a"),
    ):
        encoder.transform(np.ones((2, 2)))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"n": [], "c": []}, dtype=float),
        pd.DataFrame({"n": [], "c": []}, dtype="str"),
        pd.DataFrame(index=range(3)),
        np.empty((0, 2)),
        np.empty((3, 0)),
    ],
    ids=["numbers", "text", "columns", "rows-array", "columns-array"],
)
def test_empty_tables(table):
    n, m = table.shape
    missing = f"{n} sample" if n == 0 else f"{m} feature"
    with pytest.raises(ValueError, match=rf"{missing}\(s\).*minimum of 1 is required"):
        TabularEncoder().fit(table)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (2, 3), (2,)])
def test_arrays_of_another_shape_are_refused_later(shape):
    encoder = TabularEncoder().fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"minimum of 1 is required|expecting 2 features|2D array"):
        encoder.transform(np.ones(shape))


def test_text_in_an_array():
    with pytest.raises(ValueError, match="could not convert string to float: 'lo'"):
        TabularEncoder().fit(np.array([["lo"], ["hi"]], dtype=object))


# --- Names and containers ---------------------------------------------------------------


def test_column_names_that_are_no_strings():
    table = pd.DataFrame({0: [1.0, np.nan], 7: ["a", "b"]})
    encoder = TabularEncoder().fit(table)
    assert not hasattr(encoder, "feature_names_in_")
    assert encoder.get_feature_names_out().tolist() == ["x0", "x0_missing", "x1_a", "x1_b"]
    assert encoder.get_feature_names_out(["n", "c"]).tolist() == ["n", "n_missing", "c_a", "c_b"]
    with pytest.raises(TypeError, match="all input features have string names"):
        TabularEncoder().fit(pd.DataFrame({0: [1.0], "c": ["a"]}))


def test_names_of_an_array():
    encoder = TabularEncoder().fit([[1.0, np.nan], [2.0, 3.0]])
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x1_missing"]
    with pytest.raises(ValueError, match="input_features"):
        encoder.get_feature_names_out(["a"])


def test_pandas_output():
    table = pd.DataFrame({"n": [1.0, np.nan], "c": ["a", "b"]}, index=[5, 9])
    plain = TabularEncoder().fit(table).transform(table)
    for encoder, config in [
        (TabularEncoder().set_output(transform="pandas"), {}),
        (TabularEncoder(), {"transform_output": "pandas"}),
    ]:
        with config_context(**config):
            framed = encoder.fit(table).transform(table)
        assert framed.columns.tolist() == ["n", "n_missing", "c_a", "c_b"]
        assert framed.index.tolist() == [5, 9]
        assert_array_equal(framed.to_numpy(), plain)


def test_the_table_and_its_index_are_left_alone():
    table = pd.DataFrame(
        {"n": [1.0, np.nan], "c": pd.Categorical(["b", None]), "b": [True, False]}, index=[3, 3]
    )
    before = table.copy(deep=True)
    encode(table, table.assign(b=[1, 0]))
    pd.testing.assert_frame_equal(table, before)
    array = np.array([[1.0, np.nan], [2.0, 1.0]])
    encode(array)
    assert_array_equal(array, [[1.0, np.nan], [2.0, 1.0]])


def test_fitting_again_forgets_the_first_table():
    encoder = plain().fit(column(["a", None]).assign(n=[np.nan, 1]))
    assert_array_equal(encoder.fit_transform(column([1.0, 3.0])), [[-1], [1]])
    assert_array_equal(encoder.fit_transform([[1.0], [3.0]]), [[-1], [1]])
    assert not hasattr(encoder, "feature_names_in_")


def test_clone_and_pickle():
    table = pd.DataFrame({"n": [1.0, np.nan], "c": ["a", None]})
    encoder = plain().fit(table)
    assert clone(encoder).dtype == "float64"
    assert not hasattr(clone(encoder), "is_categorical_")
    again = pickle.loads(pickle.dumps(encoder))
    assert_array_equal(again.transform(table), encoder.transform(table))
