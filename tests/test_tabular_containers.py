"""Tables of other libraries, and outputs for them."""

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import make_pipeline

from skcal import TabularEncoder

PARIS = "Europe/Paris"
MOMENTS = [
    datetime.datetime(2020, 7, 1, 0, 30),
    None,
    datetime.datetime(1969, 12, 31, 23),
    datetime.datetime(2024, 2, 29),
]
# Cells as Python has them; every library makes columns of its own types of them.
CELLS = {
    "float": [1.5, None, 2.5, -1.0],
    "whole": [1, None, 3, 3],
    "count": [1, 2, 3, 4],
    "flag": [True, None, False, True],
    "text": ["b", None, "a", "b"],
    "level": ["v", "u", None, "v"],
    "price": [Decimal("1.25"), None, Decimal("3.5"), Decimal("0")],
    "date": [m and m.date() for m in MOMENTS],
    "moment": MOMENTS,
    "zoned": MOMENTS,
    "wait": [datetime.timedelta(hours=1), None, datetime.timedelta(days=-1), datetime.timedelta()],
    "nothing": [None, None, None, None],
}


def of_pandas():
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in CELLS.items()})
    frame["float"] = frame["float"].astype(float)
    frame["whole"] = frame["whole"].astype("Int64")
    frame["count"] = frame["count"].astype(np.uint8)
    frame["level"] = frame["level"].astype("category")
    frame["moment"] = pd.to_datetime(frame["moment"])
    frame["zoned"] = pd.to_datetime(frame["zoned"]).dt.tz_localize(PARIS)
    frame["wait"] = pd.to_timedelta(frame["wait"])
    return frame


def of_polars():
    pl = pytest.importorskip("polars")
    types = {"level": pl.Categorical, "count": pl.UInt8, "price": pl.Decimal(10, 2)}
    frame = pl.DataFrame(CELLS, schema_overrides=types)
    return frame.with_columns(pl.col("zoned").dt.replace_time_zone(PARIS))


def of_pyarrow():
    pa = pytest.importorskip("pyarrow")
    columns = {name: pa.array(cells) for name, cells in CELLS.items()}
    columns["level"] = columns["level"].dictionary_encode()
    columns["count"] = columns["count"].cast(pa.uint8())
    zoned = of_pandas()["zoned"].tolist()
    columns["zoned"] = pa.array(
        [None if pd.isna(m) else m.to_pydatetime() for m in zoned], pa.timestamp("us", tz=PARIS)
    )
    return pa.table(columns)


def of_pandas_with_arrow():
    pytest.importorskip("pyarrow")
    return of_pyarrow().to_pandas(types_mapper=pd.ArrowDtype)


LIBRARIES = [of_pandas, of_polars, of_pyarrow, of_pandas_with_arrow]
each_library = pytest.mark.parametrize("make", LIBRARIES)


def plain(**params):
    return TabularEncoder(**{"dtype": "float64"} | params)


def rows(table, positions):
    if isinstance(table, pd.DataFrame):
        return table.iloc[positions]
    return table.take(positions) if hasattr(table, "take") else table[positions]


# --- Every library is read as pandas is ---------------------------------------------------


@each_library
@pytest.mark.parametrize("params", [{}, {"max_one_hot": 0, "min_frequency": 2}], ids=str)
def test_tables_of_every_library_are_the_same_table(make, params):
    expected = plain(**params).fit(of_pandas())
    matrix = expected.transform(of_pandas())
    table = make()
    encoder = plain(**params).fit(table)
    assert encoder.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    assert encoder.feature_names_in_.tolist() == list(CELLS)
    assert encoder.is_categorical_.tolist() == expected.is_categorical_.tolist()
    assert_array_equal(encoder.transform(table), matrix)
    # Fitted on one, used on the other.
    assert_array_equal(expected.transform(table), matrix)
    assert_array_equal(encoder.transform(of_pandas()), matrix)
    for i in range(4):
        assert_array_equal(encoder.transform(rows(table, [i])), matrix[[i]])


@each_library
def test_weights_with_every_library(make):
    encoder = plain().fit(make(), sample_weight=[1, 2, 0, 1])
    repeated = plain().fit(rows(make(), [0, 1, 1, 3]))
    assert encoder.get_feature_names_out().tolist() == repeated.get_feature_names_out().tolist()


@each_library
def test_chosen_columns_of_every_library(make):
    table = make()
    encoder = plain(categorical_features=["whole", "text", "level", "float"]).fit(table)
    expected = ["float", "whole", "text", "level"]
    assert encoder.feature_names_in_[encoder.is_categorical_].tolist() == expected
    assert [n for n in encoder.get_feature_names_out() if n.startswith(("whole", "float"))] == [
        *["float_-1", "float_1.5", "float_2.5", "float_nan"],
        *["whole_1", "whole_3", "whole_nan"],
    ]


@each_library
def test_other_columns_are_refused_in_every_library(make):
    encoder = plain().fit(of_pandas())
    table = make()
    names = list(CELLS)
    select = table.select if hasattr(table, "select") else table.__getitem__
    for wrong in (names[::-1], names[:-1]):
        with pytest.raises(ValueError, match="The feature names should match those that were"):
            encoder.transform(select(wrong))
    renamed = pd.DataFrame({"other" if n == "text" else n: of_pandas()[n] for n in names})
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- other\n.*missing:\n- text"):
        encoder.transform(renamed)


@pytest.mark.parametrize("make", [of_polars, of_pyarrow])
def test_empty_tables(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        plain().fit(make()[:0])


def test_two_columns_of_one_name():
    pa = pytest.importorskip("pyarrow")
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(ValueError, match="unique column names, got:\n- 'a' 2 times"):
        plain().fit(table)


def test_rows_that_are_not_in_memory_are_refused():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"polars LazyFrame.*pass X.collect\(\)"):
        plain().fit(pl.DataFrame({"a": [1.0]}).lazy())


def test_types_of_polars_that_hold_no_levels_are_refused_by_name():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="Column 'c' holds "):
        plain().fit(pl.DataFrame({"c": [[1], [2, 3]]}))
    with pytest.raises(TypeError, match="Column 'c' holds times of day"):
        plain().fit(pl.DataFrame({"c": [datetime.time(3), None]}))
    with pytest.raises(ValueError, match="infinity in column 'c'"):
        plain().fit(pl.DataFrame({"c": [1.0, np.inf]}))


def test_levels_of_a_fixed_set():
    pl = pytest.importorskip("polars")
    cells = pl.Series("c", ["b", None, "a"], dtype=pl.Enum(["b", "a", "never"]))
    encoder = plain().fit(cells.to_frame())
    assert encoder.get_feature_names_out().tolist() == ["c_a", "c_b", "c_nan"]
    assert_array_equal(encoder.transform(cells.to_frame()), np.eye(3)[[1, 2, 0]])


def test_polars_needs_no_pyarrow():
    pytest.importorskip("polars")
    code = """
import sys
sys.modules["pyarrow"] = None
import datetime
import polars as pl
from skcal import TabularEncoder
when = [datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1, 5)]
table = pl.DataFrame({"n": [1, None], "c": ["a", None], "b": [True, None], "when": when})
table = table.with_columns(
    pl.col("c").cast(pl.Categorical).alias("d"), pl.col("when").dt.replace_time_zone("Asia/Tokyo")
)
encoder = TabularEncoder().fit(table)
print(encoder.transform(table).shape, len(encoder.get_feature_names_out()))
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["(2,", "13)", "13"]


def test_arrays_load_no_library_of_tables():
    code = """
import sys
sys.modules["pandas"] = None
import numpy as np
from skcal import TabularEncoder
X = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 5.0]])
for params in ({}, {"scaling": "quantile"}, {"categorical_features": [1]}):
    encoder = TabularEncoder(**params).fit(X)
    print(encoder.transform(X).shape, encoder.transform(X.tolist()).shape)
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:3] == ["(3, 3) (3, 3)"] * 3


# --- Sparse input -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
@pytest.mark.parametrize("when", ["fit", "transform"])
def test_sparse_input_names_the_way_out(kind, when):
    encoder = plain()
    if when == "transform":
        encoder.fit(np.eye(3))
    with pytest.raises(TypeError, match="toarray"):
        getattr(encoder, when)(kind(np.eye(3)))


# --- Output -------------------------------------------------------------------------------


@each_library
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_output_of_every_library(make, output):
    pytest.importorskip(output)
    expected = plain().fit(of_pandas())
    framed = plain().set_output(transform=output).fit(make()).transform(make())
    assert type(framed).__module__.startswith(output)
    assert list(framed.columns) == expected.get_feature_names_out().tolist()
    assert_array_equal(framed.to_numpy(), expected.transform(of_pandas()))


def test_pandas_output_switched_on_for_all():
    table = of_pandas()
    y = [0.0, 1.0, 1.0, 0.0]
    pipeline = make_pipeline(plain(), IsotonicRegression())
    expected = pipeline.fit(table[["count"]], y).predict(table[["count"]])
    with config_context(transform_output="pandas"):
        found = pipeline.fit(table[["count"]], y).predict(table[["count"]])
    assert_array_equal(found, expected)
