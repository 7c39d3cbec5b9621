"""Values of fields as sort keys, against Python's own numbers and dates."""

import math
from datetime import datetime, timedelta, timezone
from decimal import ROUND_DOWN, Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters.field_values import numbers, times

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def keys(read, values):
    """The two keys of each value, None where it cannot be read."""
    first, second = (key.to_pylist() for key in read(pa.array(values, pa.large_string())))
    return [None if one is None else (one, other) for one, other in zip(first, second, strict=True)]


def exact_times(values):
    return [
        None if key is None else Decimal(key[0]) + Decimal(key[1]) for key in keys(times, values)
    ]


@given(
    st.lists(
        st.one_of(
            st.integers(-(10**49), 10**49).map(str),
            st.integers(2**60 - 3, 2**60 + 3).map(str),
            st.decimals(-1000, 1000, places=3).map(str),
            st.decimals(2**53, 2**53 + 2, places=9).map(str),
            st.floats(allow_nan=False).map(repr),
            st.sampled_from(["true", "False", "1", "-0", "1e3", "1E-5", "Infinity", "1e-5000"]),
        ),
        min_size=2,
        max_size=20,
    )
)
def test_numbers_are_ordered_as_they_are(values):
    found = keys(numbers, values)

    def exact(text):
        number = Decimal({"true": 1, "False": 0}.get(text, text))
        if not number.is_finite() or abs(number) >= 10**50:
            return Decimal(float(number))
        return number.quantize(Decimal("1e-20"), ROUND_DOWN, Context(prec=100))

    assert sorted(range(len(values)), key=lambda i: found[i]) == sorted(
        range(len(values)), key=lambda i: exact(values[i])
    )


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("5", 5), ("+5", 5), (" -5\n", -5), ("007", 7), (".5", 0.5), ("5.", 5), ("1e3", 1000),
        ("-2.5E-1", -0.25), ("-0", 0), ("12345678901234567890", 12345678901234567890), ("TRUE", 1),
    ],
)  # fmt: skip
def test_numbers(value, number):
    assert keys(numbers, [value]) == [(float(number), number)]


@pytest.mark.parametrize("value", ["Infinity", "-inf", "+INF", "1e999", "-1e400"])
def test_infinities(value):
    assert keys(numbers, [value]) == [(math.inf if "-" not in value else -math.inf, 0)]


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "x",
        "1_0",
        "1,5",
        "0x10",
        "１２",
        "nan",
        "infinit",
        "yes",
        "+-5",
        "5 6",
        ".",
        "e5",
        None,
    ],
)
def test_what_is_no_number(value):
    assert keys(numbers, [value, "1"]) == [None, (1, 1)]


def iso_forms(moment):
    """Ways to write a moment of whole microseconds in ISO 8601."""
    utc = moment.astimezone(timezone.utc)
    return [
        moment.isoformat(),
        moment.isoformat(" "),
        moment.isoformat().replace(".", ","),
        utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0"),
        utc.strftime("%Y-%m-%dt%H:%M:%S.%f").rjust(26, "0"),
        utc.strftime("%Y%m%dT%H%M%S.%fZ").rjust(23, "0"),
        utc.strftime("%Y%m%d%H%M%S.%f").rjust(21, "0"),
    ]


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
    st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_moment_in_every_form_is_one(moment, zone):
    moment = moment.replace(tzinfo=zone)
    since = moment - EPOCH
    seconds = since.days * 86400 + since.seconds
    for whole, fraction in keys(times, iso_forms(moment)):
        assert whole == seconds
        assert fraction == Decimal(since.microseconds) / 10**6


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2024", datetime(2024, 1, 1)),
        ("2024-02", datetime(2024, 2, 1)),
        ("2024-02-29", datetime(2024, 2, 29)),
        ("20240229", datetime(2024, 2, 29)),
        (" 2024-02-29 12:30 ", datetime(2024, 2, 29, 12, 30)),
        ("2024-02-29T12:30+02", datetime(2024, 2, 29, 10, 30)),
        ("2024-02-29 12:30:01 -0130", datetime(2024, 2, 29, 14, 0, 1)),
        ("20240229123001", datetime(2024, 2, 29, 12, 30, 1)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1)),
    ],
)
def test_times(value, moment):
    assert keys(times, [value]) == [((moment - datetime(1970, 1, 1)).total_seconds(), 0)]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0), ("1700000000", 1700000000), ("1700000000.25", 1700000000.25), ("-1.5", -1.5),
        ("1700000000123", 1700000000123), ("99999999", 99999999), ("999", 999), ("10000", 10000),
        ("1700000000.123456789", Decimal("1700000000.123456789")),
        ("1700000000123456789", 1700000000123456789),
    ],
)  # fmt: skip
def test_other_numbers_are_seconds(value, seconds):
    assert exact_times([value]) == [Decimal(seconds)]


@pytest.mark.parametrize(
    "value",
    [
        "", "x", "2023-02-29", "20230231", "2024-13", "2024-00-01", "2024-01-00",
        "2024-01-01T24:00", "2024-01-01T12:60", "2024-01-01T12:00:61", "2024-01-01T12",
        "2024-1-1", "24-01-01",
        "01/02/2024", "2024-W05-3", "yesterday", "true", "2024-01-01T12:00:00 CET", None,
    ],
)  # fmt: skip
def test_what_is_no_time(value):
    assert keys(times, [value, "1970"]) == [None, (0, 0)]


def test_times_a_nanosecond_apart_differ():
    values = ["2024-01-01T00:00:00.123456789", "2024-01-01T00:00:00.123456790"]
    earlier, later = keys(times, values)
    assert earlier < later


def test_columns_may_be_empty_or_null():
    for read in (numbers, times):
        assert keys(read, []) == []
        assert keys(read, [None, None]) == [None, None]
