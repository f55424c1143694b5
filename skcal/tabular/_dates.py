"""Dates as numbers of the calendar, durations as seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# The hour comes last: a column without times of day goes without it.
PARTS = ("days", "month", "day", "weekday", "hour")
# How a text in ISO 8601 form ends that knows its distance from universal time.
_OFFSET = r"(?:[+-]\d\d:?\d\d|Z)$"
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "complex")


def date_parts(clock: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """Return the parts of dates, as a clock and a calendar on the wall show them.

    Parameters
    ----------
    clock : ndarray of shape (n,), datetime64

    Returns
    -------
    ndarray of shape (n, 5)
        Days since 1970-01-01 with the time of day as a fraction, month (1 to 12), day of the
        month (1 to 31), day of the week (0 is Monday) and hour of the day with minutes and
        seconds as a fraction. NaN where there is no date.
    """
    days, months = clock.astype("datetime64[D]"), clock.astype("datetime64[M]")
    whole_days = days.astype(np.int64)
    time_of_day = (clock - days) / np.timedelta64(1, "D")
    parts = np.stack(
        [
            whole_days + time_of_day,
            months.astype(np.int64) % 12 + 1,
            (days - months).astype(np.int64) + 1,
            (whole_days + 3) % 7,  # 1970-01-01 was a Thursday.
            24.0 * time_of_day,
        ],
        axis=1,
    )
    parts[np.isnat(clock)] = np.nan
    return parts


def parse_dates(column: Any, name: Any) -> Any:
    """Return a pandas column of dates, or of text in ISO 8601 form, as pandas datetimes.

    Files keep dates as text, so that a table read again must mean the same.
    """
    import pandas as pd

    cells = _plain(column)
    content = pd.api.types.infer_dtype(cells, skipna=True)
    if content == "period":
        cells = pd.Series(pd.PeriodIndex(cells).to_timestamp())
    try:
        cells = _without_numbers(cells, content)
        # Moments of one zone have two offsets where there is a summer time.
        dates = pd.to_datetime(cells, format="ISO8601", utc=_has_offsets(cells, content))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} held dates when fitted and now holds {_example(column)}. Turn it "
            "into dates first (pandas.to_datetime)."
        ) from error
    if isinstance(dates.dtype, pd.ArrowDtype):
        dates = dates.astype(dates.dt.tz_localize(None).to_numpy().dtype)
    return dates


def read_clock(dates: Any, zone: Any, name: Any) -> NDArray[np.datetime64]:
    """Return what clocks of a time zone showed; ``zone`` is None where dates have none.

    Raises
    ------
    ValueError
        If only one of the two knows its time zone: the hours between them are unknown.
    """
    if (dates.dt.tz is None) != (zone is None) and dates.notna().any():
        now, then = ("with", "without") if zone is None else ("without", "with")
        raise ValueError(
            f"Column {name!r} held dates {then} a time zone when fitted and now holds dates {now} "
            "one. Use dt.tz_localize in both tables, or in none."
        )
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert(zone).dt.tz_localize(None)
    return dates.to_numpy()


def read_seconds(column: Any, name: Any) -> NDArray[np.float64]:
    """Return a pandas column of durations, or of text such as "1 days 02:00:00", in seconds."""
    import pandas as pd

    cells = _plain(column)
    try:
        cells = _without_numbers(cells, pd.api.types.infer_dtype(cells, skipna=True))
        durations = pd.to_timedelta(cells).to_numpy(dtype="timedelta64[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} held durations when fitted and now holds {_example(column)}. Turn "
            "it into durations first (pandas.to_timedelta)."
        ) from error
    return durations / np.timedelta64(1, "s")


def _plain(column: Any) -> Any:
    import pandas as pd

    return column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _without_numbers(cells: Any, content: str) -> Any:
    """Return cells that may be dates or durations; of a number nobody knows the unit."""
    if content in _NUMBERS:
        if cells.notna().any():
            raise TypeError("numbers")
        return cells.astype(object)  # A column without a cell is of a number type.
    return cells


def _has_offsets(cells: Any, content: str) -> bool:
    """Return whether cells say how far their clocks are from universal time, each in its way."""
    if content == "string":
        present = cells[cells.notna() & (cells != "")]
        return bool(len(present)) and bool(present.str.contains(_OFFSET).all())
    if content == "datetime":
        zones = {moment.tzinfo for moment in cells.dropna()}
        return len(zones) > 1 and None not in zones
    return False


def _example(column: Any) -> str:
    present = column.dropna()
    return f"cells such as {present.iloc[0]!r}" if len(present) else "no dates"
