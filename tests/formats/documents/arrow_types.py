"""Columns of three rows, the last one null, of every type of Arrow that Parquet has, nested too."""

import datetime
import decimal
import io
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

_FIRST = uuid.UUID("6f1bd25e-0c52-4a8e-9d5b-000000000001")
_DECIMALS = [decimal.Decimal("1.00"), decimal.Decimal("-0.25"), None]
_DATES = [datetime.date(2024, 5, 31), datetime.date(1, 1, 1), None]
_STRINGS, _BYTES = ["a", "早", None], [b"a", b"\xff\xfe", None]


def _extension(kind, values):
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


SCALARS = {
    "null": (pa.nulls(3), [None, None]),
    "bool": (pa.array([True, False, None]), ["true", "false"]),
    **{
        str(kind): (pa.array([1, 7, None], kind), ["1", "7"])
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
                     pa.uint32(), pa.uint64())
    },
    "large integers": (pa.array([2**64 - 1, 2**53 + 1, None], pa.uint64()),
                       ["18446744073709551615", "9007199254740993"]),
    **{
        str(kind): (pa.array([3.0, 0.1, None], kind), ["3", "0.1"])
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    "large floats": (pa.array([1e16, 1e300, None]), ["10000000000000000", "1e+300"]),
    "no numbers": (pa.array([float("nan"), float("inf"), None]), [None, None]),
    **{
        str(kind): (pa.array(_DECIMALS, kind), ["1.00", "-0.25"])
        for kind in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(30, 2),
                     pa.decimal256(60, 2))
    },
    "small decimals": (pa.array([decimal.Decimal("0E-20"), decimal.Decimal("1E-20"), None]),
                       ["0." + "0" * 20, "0." + "0" * 19 + "1"]),
    "date32": (pa.array(_DATES, pa.date32()), ["2024-05-31", "0001-01-01"]),
    "date64": (pa.array(_DATES, pa.date64()), ["2024-05-31", "0001-01-01"]),
    "time32[s]": (pa.array([1, 2, None], pa.time32("s")), ["00:00:01.000", "00:00:02.000"]),
    "time32[ms]": (pa.array([1, 2, None], pa.time32("ms")), ["00:00:00.001", "00:00:00.002"]),
    "time64[us]": (pa.array([1, 2, None], pa.time64("us")), ["00:00:00.000001", "00:00:00.000002"]),
    "time64[ns]": (pa.array([1, 2, None], pa.time64("ns")),
                   ["00:00:00.000000001", "00:00:00.000000002"]),
    **{
        f"timestamp[{unit}]": (pa.array([0, 86_400 * 10**power, None], pa.timestamp(unit)),
                               [f"1970-01-0{day} 00:00:00.{digits}" for day in (1, 2)])
        for unit, power, digits in (("s", 0, "000"), ("ms", 3, "000"), ("us", 6, "000000"),
                                    ("ns", 9, "000000000"))
    },
    **{
        f"timestamp of {zone}": (pa.array([0, 1, None], pa.timestamp("us", zone)),
                                 [f"1970-01-01 {time}.00000{n}{offset}" for n in (0, 1)])
        for zone, time, offset in (("UTC", "00:00:00", "Z"), ("Europe/Paris", "01:00:00", "+0100"),
                                   ("+05:30", "05:30:00", "+0530"), ("Nowhere/At", "00:00:00", "Z"))
    },
    "year 12000": (pa.array([316_516_204_800_000_000, 0, None], pa.timestamp("us")),
                   ["12000-01-01 00:00:00.000000", "1970-01-01 00:00:00.000000"]),
    **{
        f"duration[{unit}]": (pa.array([1, 2, None], pa.duration(unit)), ["1", "2"])
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        str(kind): (pa.array(_STRINGS, kind), ["a", "早"])
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): (pa.array(_BYTES, kind), ["a", "fffe"])
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "bytes of one size": (pa.array([b"ab", b"\xff\xfe", None], pa.binary(2)), ["6162", "fffe"]),
    "uuid": (_extension(pa.uuid(), [_FIRST.bytes, bytes(16), None]),
             [str(_FIRST), str(uuid.UUID(int=0))]),
    "json": (_extension(pa.json_(), ['{"a": 1}', "2", None]), ['{"a": 1}', "2"]),
    "bool8": (_extension(pa.bool8(), [1, 0, None]), ["true", "false"]),
    "unknown extension": (_extension(pa.opaque(pa.string(), "t", "v"), _STRINGS), ["a", "早"]),
    "unknown numbers": (_extension(pa.opaque(pa.int64(), "t", "v"), [1, 2, None]), ["1", "2"]),
}  # fmt: skip
"""By name an array, and the ids that its first two values are, None if they have no form."""


def _dictionary(values):
    indices = pa.array([0, 1, None], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, values[:2])


def _nested(values):
    offsets = pa.array([0, 1, 3, 3], pa.int32())
    keys = pa.array(["k", "l", "m"])
    struct = pa.StructArray.from_arrays([values, pa.array([1, 2, 3])], ["x", "y"])
    yield "list", pa.ListArray.from_arrays(offsets, values)
    yield "large list", pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), values)
    views = pa.array([0, 1, 2], pa.int32()), pa.array([1, 2, 0], pa.int32())
    yield "list view", pa.ListViewArray.from_arrays(*views, values)
    yield "list of one size", pa.FixedSizeListArray.from_arrays(values, 1)
    yield "struct", struct
    yield "map", pa.MapArray.from_arrays(offsets, keys, values)
    yield "list of structs", pa.ListArray.from_arrays(offsets, struct)
    lists = pa.ListArray.from_arrays(offsets, values)
    yield "struct of lists", pa.StructArray.from_arrays([lists], ["x"])


def is_stored(values):
    """Return whether Arrow writes a column to Parquet, and reads it."""
    file = io.BytesIO()
    try:
        pq.write_table(pa.table({"c": values}), file)
        pq.read_table(pa.BufferReader(file.getvalue()))
    except (pa.ArrowException, OSError):
        return False
    return True


def columns():
    """Yield names and arrays: scalars, dictionaries of them, and both nested."""
    for name, (values, _) in SCALARS.items():
        dictionary = _dictionary(values)
        yield name, values
        yield f"dictionary of {name}", dictionary
        for kind, nested in _nested(values):
            yield f"{kind} of {name}", nested
        for kind, nested in _nested(dictionary):
            yield f"{kind} of dictionary of {name}", nested


STORED = {name: values for name, values in columns() if is_stored(values)}
"""Those that Arrow writes to Parquet: not dictionaries of views, nor some nested views."""
