"""Reads and writes the specs in files of episodes: which fields rows have. docs/reference/checkpoint_format.md describes their bytes."""

import struct
from dataclasses import dataclass, field

import numpy as np

from ding_worker.crc32c import crc32c
from ding_worker.errors import FormatError

_MAGIC = b"DBAT"
_MAJOR_VERSION = 1
_MAX_FIELDS = 4096
_DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class FieldSpec:
    """A field of a row; `low` and `high` are empty (unbounded), or have one value, or one for each element."""

    name: str
    dtype: np.dtype
    shape: tuple
    low: tuple = field(default=())
    high: tuple = field(default=())
    num_categories: int = 0  # above 0: elements are categories 0 to num_categories - 1
    frame_stack_axis: int = -1  # the axis along which a row stacks frames, or -1

    @property
    def num_elements(self):
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def category_counts(self):
        """The number of categories of each element; empty if the field is not discrete."""
        if self.num_categories <= 0:
            return []
        if not self.high:
            return [self.num_categories] * self.num_elements
        return [int(self.high[0 if len(self.high) == 1 else i]) + 1 for i in range(self.num_elements)]


class _Cursor:
    def __init__(self, data):
        self._data = data
        self._at = 0

    def take(self, layout):
        size = struct.calcsize(layout)
        (value,) = struct.unpack(layout, self.take_bytes(size))
        return value

    def take_bytes(self, size):
        if size > len(self._data) - self._at:
            raise FormatError(f"it ends after {len(self._data)} bytes, {size} more were expected at byte {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]


def _take_field(cursor):
    try:
        name = cursor.take_bytes(cursor.take("<I")).decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError("the name of a field is not UTF-8") from None
    dtype = cursor.take("<B")
    if dtype >= len(_DTYPES):
        raise FormatError(f"field '{name}' has the unknown element type {dtype}")
    shape = tuple(cursor.take("<q") for _ in range(cursor.take("<B")))
    if any(extent < 1 for extent in shape):
        raise FormatError(f"field '{name}' has the shape {list(shape)}")
    bounds = cursor.take("<I")
    low = struct.unpack(f"<{bounds}d", cursor.take_bytes(8 * bounds))
    high = struct.unpack(f"<{bounds}d", cursor.take_bytes(8 * bounds))
    found = FieldSpec(name, np.dtype(_DTYPES[dtype]), shape, low, high, cursor.take("<q"), cursor.take("<i"))
    elements = 1
    for extent in shape:
        elements *= extent
    if elements > 2**40 or (bounds not in (0, 1) and bounds != elements):
        raise FormatError(f"field '{name}' has {elements} elements and {bounds} bounds")
    return found


def parse_spec(data):
    """The list of FieldSpec in the bytes of a batch without rows."""
    if len(data) < 16:
        raise FormatError(f"a batch message of only {len(data)} bytes")
    magic, major, minor, header_size = struct.unpack_from("<4sHHI", data)
    if magic == _MAGIC and major != _MAJOR_VERSION:
        raise FormatError(f"a batch message of version {major}.{minor}; this package reads {_MAJOR_VERSION}.x")
    if magic != _MAGIC or crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise FormatError(f"a batch message of {len(data)} bytes is corrupted or truncated")
    if header_size != len(data) - 16:
        raise FormatError(f"a batch message of {len(data)} bytes has a header of {header_size}, and no rows")
    cursor = _Cursor(data[12:-4])
    rows, count = cursor.take("<Q"), cursor.take("<I")
    if rows != 0 or count > _MAX_FIELDS:
        raise FormatError(f"a spec with {rows} rows and {count} fields")
    fields = [_take_field(cursor) for _ in range(count)]
    if len({spec.name for spec in fields}) != count or any(not spec.name for spec in fields):
        raise FormatError("a spec has an empty name, or one that appears twice")
    return fields


def spec_bytes(fields):
    """The bytes that parse_spec() reads."""
    header = struct.pack("<QI", 0, len(fields))
    for spec in fields:
        name = spec.name.encode()
        header += struct.pack("<I", len(name)) + name + struct.pack("<BB", _DTYPES.index(np.dtype(spec.dtype).name), len(spec.shape))
        header += struct.pack(f"<{len(spec.shape)}q", *spec.shape) + struct.pack("<I", len(spec.low))
        header += struct.pack(f"<{2 * len(spec.low)}d", *spec.low, *spec.high)
        header += struct.pack("<qi", spec.num_categories, spec.frame_stack_axis)
    data = struct.pack("<4sHHI", _MAGIC, _MAJOR_VERSION, 0, len(header)) + header
    return data + struct.pack("<I", crc32c(data))
