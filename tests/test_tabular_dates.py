"""Dates and durations of the table encoder, against Python's own calendar."""

import datetime
import pickle
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skcal import TabularEncoder
from skcal.tabular._dates import date_parts

PARIS = ZoneInfo("Europe/Paris")
TEXTS = ["2020-02-29 06:30:00", "1969-12-31 23:00:00", "2021-07-04 00:00:00"]
NAMES = ["when_days", "when_month", "when_day", "when_weekday", "when_hour"]


def plain(**params):
    return TabularEncoder(**{"scaling": "standard", "dtype": "float64"} | params)


def when(values, **kwargs):
    return pd.DataFrame({"when": pd.Series(values, **kwargs)})


def parts_of(moment):
    """Return the parts of a datetime by Python's calendar."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    share = (moment - midnight) / datetime.timedelta(days=1)
    days = moment.toordinal() - datetime.date(1970, 1, 1).toordinal() + share
    return [days, moment.month, moment.day, moment.weekday(), 24 * share]


# --- Parts ------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.datetimes(), min_size=1, max_size=5))
def test_parts_are_those_of_the_calendar(moments):
    clock = np.array(moments, dtype="datetime64[us]")
    assert_allclose(date_parts(clock), [parts_of(m) for m in moments], rtol=1e-12, atol=1e-9)


def test_parts_by_hand():
    clock = np.array(["1969-12-31T18:00", "1970-01-01T00:00", "NaT"], dtype="datetime64[s]")
    expected = [[-0.25, 12, 31, 2, 18], [0, 1, 1, 3, 0], [np.nan] * 5]
    assert_array_equal(date_parts(clock), expected)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_column_of_dates_becomes_scaled_parts(unit):
    table = when(pd.to_datetime(TEXTS).as_unit(unit)).assign(n=[1.0, 2.0, 3.0])
    encoder = plain().fit(table)
    assert encoder.get_feature_names_out().tolist() == [*NAMES, "n"]
    assert encoder.n_numeric_ == 6
    assert encoder.has_missing_.tolist() == [False] * 6
    assert encoder.is_categorical_.tolist() == [False, False]
    parts = np.array([parts_of(datetime.datetime.fromisoformat(text)) for text in TEXTS])
    expected = (parts - parts.mean(axis=0)) / parts.std(axis=0)
    assert_allclose(encoder.transform(table)[:, :5], expected, rtol=1e-12)


def test_dates_without_a_time_of_day_have_no_hour():
    encoder = plain().fit(when(pd.to_datetime(["2020-01-01", "2021-02-03", None])))
    assert encoder.get_feature_names_out().tolist() == [*NAMES[:4], "when_missing"]
    # A time of day later on is a fraction of a day, and no more.
    matrix = encoder.transform(when(pd.to_datetime(["2020-01-01 12:00", "2020-01-01 00:00"])))
    assert matrix.shape == (2, 5)
    assert matrix[0, 0] > matrix[1, 0]
    assert_array_equal(matrix[0, 1:], matrix[1, 1:])


def test_a_missing_date_is_the_centre_with_one_flag():
    table = when(pd.to_datetime([*TEXTS, None]))
    encoder = plain().fit(table)
    assert encoder.has_missing_.tolist() == [True, False, False, False, False]
    assert encoder.get_feature_names_out().tolist() == [*NAMES, "when_missing"]
    matrix = encoder.transform(table)
    assert_array_equal(matrix[3], [0, 0, 0, 0, 0, 1])
    assert_array_equal(matrix[:3, 5], 0)


@pytest.mark.parametrize("dtype", ["datetime64[us]", "datetime64[us, UTC]"])
def test_a_column_without_a_single_date(dtype):
    table = when([None, None], dtype=dtype)
    assert_array_equal(plain().fit_transform(table), [[0, 0, 0, 0, 1]] * 2)


def test_rows_of_weight_zero_have_no_hour():
    table = when(
        pd.to_datetime(
            [f"{day}:00" for day in ("2020-01-01 00", "2021-02-03 00", "2021-02-03 10")] + [None]
        )
    )
    encoder = plain().fit(table, sample_weight=[1, 2, 0, 0])
    assert encoder.get_feature_names_out().tolist() == NAMES[:4]
    repeated = plain().fit(table.iloc[[0, 1, 1]])
    assert_allclose(encoder.transform(table), repeated.transform(table), rtol=1e-12)


def test_several_columns_of_dates():
    dates = pd.to_datetime(TEXTS)
    table = pd.DataFrame({"a": dates, "c": list("uvu"), "b": dates.normalize()})
    encoder = plain().fit(table)
    names = encoder.get_feature_names_out().tolist()
    assert names[:5] == [name.replace("when", "a") for name in NAMES]
    assert names[5:] == [*(name.replace("when", "b") for name in NAMES[:4]), "c_u", "c_v"]
    for i in range(3):
        assert_array_equal(encoder.transform(table.iloc[[i]]), encoder.transform(table)[[i]])


# --- Types ------------------------------------------------------------------------------

DAYS = ["2020-02-29", "1969-12-31", None]
LIKE_DATES = {
    "datetime": pd.to_datetime(DAYS),
    "python dates": pd.Series([datetime.date(2020, 2, 29), datetime.date(1969, 12, 31), None]),
    "python datetimes": pd.Series(
        [datetime.datetime(2020, 2, 29), datetime.datetime(1969, 12, 31), None], dtype=object
    ),
    "timestamps": pd.Series([*map(pd.Timestamp, DAYS[:2]), pd.NaT], dtype=object),
    "numpy": pd.Series([*map(np.datetime64, DAYS[:2]), None], dtype=object),
    "both": pd.Series([datetime.date(2020, 2, 29), pd.Timestamp("1969-12-31"), None], dtype=object),
    "periods": pd.PeriodIndex(DAYS, freq="D"),
    "python periods": pd.Series([*(pd.Period(d, "D") for d in DAYS[:2]), None], dtype=object),
}
ALSO_LATER = LIKE_DATES | {
    "text": pd.Series(DAYS),
    "objects of text": pd.Series(DAYS, dtype=object),
    "categories": pd.Categorical(DAYS),
    "categories of dates": pd.Categorical(pd.to_datetime(DAYS)),
    "with seconds": pd.Series([f"{day} 00:00:00" if day else "" for day in DAYS]),
}


@pytest.mark.parametrize("values", LIKE_DATES.values(), ids=LIKE_DATES)
def test_types_of_dates(values):
    expected = plain().fit_transform(when(LIKE_DATES["datetime"]))
    assert expected.shape == (3, 5)
    assert_array_equal(plain().fit_transform(when(values)), expected)


@pytest.mark.parametrize("values", ALSO_LATER.values(), ids=ALSO_LATER)
@pytest.mark.parametrize("fitted", ["datetime", "python dates", "periods"])
def test_dates_of_another_type_are_the_same_dates(fitted, values):
    encoder = plain().fit(when(LIKE_DATES[fitted]))
    expected = encoder.transform(when(LIKE_DATES["datetime"]))
    assert_array_equal(encoder.transform(when(values)), expected)
    one = when(values).iloc[[1]]
    assert_array_equal(encoder.transform(one), expected[[1]])


@pytest.mark.parametrize("values", [[np.nan, np.nan], [None, None], ["", None]], ids=str)
def test_a_column_that_is_missing_throughout_later(values):
    encoder = plain().fit(when(LIKE_DATES["datetime"]))
    assert_array_equal(encoder.transform(when(values)), [[0, 0, 0, 0, 1]] * 2)


@pytest.mark.parametrize("values", [["29.02.2020"], ["soon"], [20200229], [1.5], [True]], ids=str)
@pytest.mark.parametrize("dtype", [None, object])
def test_what_is_no_date_is_refused_by_name(values, dtype):
    encoder = plain().fit(when(LIKE_DATES["datetime"]))
    message = rf"Column 'when' held dates when fitted and now holds cells such as .*{values[0]}"
    with pytest.raises(ValueError, match=message):
        encoder.transform(when(values, dtype=dtype))


def test_durations_are_no_dates():
    encoder = plain().fit(when(LIKE_DATES["datetime"]))
    with pytest.raises(ValueError, match="held dates when fitted"):
        encoder.transform(when(pd.to_timedelta(["1D"])))


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[s]"])
def test_an_array_of_dates_is_refused(dtype):
    with pytest.raises(TypeError, match=r"array of dates or durations .* pass a pandas DataFrame"):
        plain().fit(np.zeros((2, 2), dtype=dtype))


def test_an_array_after_a_frame_with_dates():
    encoder = plain().fit(when(LIKE_DATES["datetime"]).set_axis([0], axis=1))
    with pytest.raises(ValueError, match="fitted on a DataFrame with categories or dates"):
        encoder.transform([[1.0]])


def test_times_of_day_are_refused_by_name():
    times = when([datetime.time(10), None], dtype=object)
    with pytest.raises(TypeError, match="Column 'when' holds times of day"):
        plain().fit(times)


# --- Time zones -------------------------------------------------------------------------


def test_parts_are_those_of_the_clock_on_the_wall():
    # Half past midnight in summer is half past ten the evening before in Greenwich.
    local = pd.to_datetime(["2020-07-01 00:30", "2020-12-31 23:30"])
    zoned = plain().fit(when(local.tz_localize(PARIS)))
    assert_array_equal(
        zoned.transform(when(local.tz_localize(PARIS))), plain().fit_transform(when(local))
    )


LOCAL = pd.to_datetime(["2020-07-01 00:30", "2020-12-31 23:30", None]).tz_localize(PARIS)


@pytest.mark.parametrize(
    "values",
    [
        LOCAL.tz_convert("UTC"),
        LOCAL.tz_convert("America/New_York").as_unit("ns"),
        LOCAL.astype(object),
        [None if pd.isna(moment) else moment.isoformat() for moment in LOCAL],
        [None if pd.isna(moment) else str(moment) for moment in LOCAL.tz_convert("UTC")],
        pd.Categorical([None if pd.isna(moment) else str(moment) for moment in LOCAL]),
    ],
    ids=["utc", "elsewhere", "objects", "offsets", "text", "categories"],
)
def test_a_moment_is_the_same_in_another_zone(values):
    encoder = plain().fit(when(LOCAL))
    assert_array_equal(encoder.transform(when(values)), encoder.transform(when(LOCAL)))


def test_clocks_of_several_zones_are_those_of_universal_time():
    hours = [datetime.timezone(datetime.timedelta(hours=h)) for h in (1, 2)]
    moments = [datetime.datetime(2020, 1, 1, 3, tzinfo=zone) for zone in hours]
    universal = when(pd.to_datetime(["2020-01-01 02:00", "2020-01-01 01:00"], utc=True))
    encoder = plain().fit(when(moments, dtype=object))
    assert_array_equal(encoder.transform(universal), plain().fit_transform(universal))


def test_half_of_a_zone_is_refused():
    without = when(pd.to_datetime(TEXTS))
    zoned = when(pd.to_datetime(TEXTS, utc=True))
    message = "Column 'when' held dates {} a time zone when fitted and now holds dates {} one"
    with pytest.raises(ValueError, match=message.format("without", "with")):
        plain().fit(without).transform(zoned)
    with pytest.raises(ValueError, match=message.format("with", "without")):
        plain().fit(zoned).transform(without)
    assert_array_equal(plain().fit(zoned).transform(when([None]))[:, :5], [[0] * 5])


def test_zones_are_kept_in_a_pickle():
    encoder = plain().fit(when(LOCAL))
    again = pickle.loads(pickle.dumps(encoder))
    table = when(LOCAL.tz_convert("UTC"))
    assert_array_equal(again.transform(table), encoder.transform(table))


def test_fitting_again_forgets_the_zone():
    encoder = plain().fit(when(LOCAL)).fit(when(LOCAL.tz_localize(None)))
    assert encoder.transform(when(LOCAL.tz_localize(None))).shape == (3, 6)


# --- Durations --------------------------------------------------------------------------

SECONDS = [90.0, 86400.0, -0.5, np.nan]
DURATIONS = {
    "timedelta": pd.to_timedelta(SECONDS, unit="s"),
    "milliseconds": pd.to_timedelta(SECONDS, unit="s").as_unit("ms"),
    "python": pd.Series(
        [None if s != s else datetime.timedelta(seconds=s) for s in SECONDS], dtype=object
    ),
}


@pytest.mark.parametrize("values", DURATIONS.values(), ids=DURATIONS)
def test_durations_are_seconds(values):
    table = pd.DataFrame({"n": [1.0, 2.0, 3.0, 4.0], "wait": values})
    expected = pd.DataFrame({"n": [1.0, 2.0, 3.0, 4.0], "wait": SECONDS})
    encoder = plain().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["n", "wait", "wait_missing"]
    assert_allclose(encoder.transform(table), plain().fit_transform(expected), rtol=1e-12)
    for other in [*DURATIONS.values(), pd.Series([str(v) for v in DURATIONS["timedelta"]])]:
        assert_array_equal(encoder.transform(table.assign(wait=other)), encoder.transform(table))


@pytest.mark.parametrize("values", [[5], ["soon"], pd.to_datetime(["2020-01-01"])], ids=str)
def test_what_is_no_duration_is_refused_by_name(values):
    encoder = plain().fit(when(DURATIONS["timedelta"]))
    with pytest.raises(ValueError, match="'when' held durations when fitted and now holds"):
        encoder.transform(when(values))
    assert_array_equal(encoder.transform(when([None, np.nan])), [[0, 1]] * 2)
