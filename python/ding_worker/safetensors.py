"""Reads and writes files of the safetensors format; docs/reference/checkpoint_format.md describes them byte for byte.

Every size is checked against the bytes that are there. Arrays are views of the file's bytes, and read-only.
"""

import json
import os
import struct

import numpy as np

from ding_worker.crc32c import crc32c
from ding_worker.errors import FormatError, UnsupportedError

CHECKSUM = "crc32c"  # the last tensor of a file that checks itself
_METADATA = "__metadata__"
_VERSION = "ding_worker_version"
_MAJOR_VERSION = "1"
_MAX_HEADER_BYTES = 100000000
_MAX_RANK = 64
_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}


class Tensors(dict):
    """The arrays of a file by name, in the order in which they were written."""

    def __init__(self, arrays, metadata, source):
        super().__init__(arrays)
        self.metadata = metadata
        self.source = source

    def get_array(self, name, dtype=None, shape=None):
        """The array; FormatError if there is none, or if it is not of this dtype and shape (None: of any extent)."""
        if name not in self:
            raise FormatError(f"{self.source} has no '{name}'")
        array = self[name]
        fits = shape is None or (
            len(shape) == array.ndim and all(want is None or want == have for want, have in zip(shape, array.shape))
        )
        if (dtype is not None and array.dtype != np.dtype(dtype)) or not fits:
            expected = f"{np.dtype(dtype or array.dtype).name}{'' if shape is None else list(shape)}"
            raise FormatError(
                f"{self.source}: '{name}' is {array.dtype.name}{list(array.shape)}, expected {expected}".replace("None", "any")
            )
        return array

    def get_int(self, name):
        return int(self.get_array(name, np.int64, ()))

    def get_string(self, name):
        data = self.get_bytes(name)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError(f"{self.source}: the text '{name}' is not UTF-8") from None

    def get_bytes(self, name):
        return self.get_array(name, np.uint8, (None,)).tobytes()

    def scope(self, prefix):
        """The arrays below "<prefix>/", without that prefix in their names."""
        start = prefix + "/"
        inside = {name[len(start) :]: array for name, array in self.items() if name.startswith(start)}
        return Tensors(inside, self.metadata, f"{self.source}, '{prefix}'")


def _is_count(value):
    return type(value) is int and 0 <= value < 2**63


def _refuse_constant(text):
    raise FormatError(f"{text} is not a number of JSON")


def _unique(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"'{twice}' appears twice")
    return found


def parse_json(data):
    """JSON of unique names and finite numbers, from bytes that somebody else wrote."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except FormatError:
        raise
    except RecursionError:
        raise FormatError("it is nested too deep") from None
    except ValueError as error:  # also of UTF-8 and of numbers with too many digits
        raise FormatError(f"it is not JSON: {error}") from None


def _read_entry(name, entry, data_bytes):
    """Returns dtype, shape, begin and end of a tensor."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"tensor '{name}' does not have just dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise FormatError(f"the dtype of tensor '{name}' is no string")
    if dtype not in _DTYPES:
        raise UnsupportedError(f"tensor '{name}' has dtype '{dtype}'; known are {', '.join(_DTYPES)}")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(_is_count, shape)):
        raise FormatError(f"the shape of tensor '{name}' is no list of at most {_MAX_RANK} extents")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise FormatError(f"tensor '{name}' does not have two data_offsets")
    begin, end = offsets
    size = _DTYPES[dtype].itemsize
    for extent in shape:
        size *= extent
    if end < begin or end - begin != size or end > data_bytes:
        raise FormatError(
            f"tensor '{name}', {dtype}{shape}, is said to be at bytes {begin} to {end} of {data_bytes}; it has {size}"
        )
    return _DTYPES[dtype], tuple(shape), begin, end


def _check_layout(places, data_bytes):
    """The tensors fill the data without gap or overlap."""
    at = 0
    for begin, end, name in sorted(places):
        if begin != at:
            raise FormatError(f"tensor '{name}' begins at byte {begin} of the data, expected {at}")
        at = end
    if at != data_bytes:
        raise FormatError(f"the tensors have {at} bytes, the file has {data_bytes} for them")


def _check_metadata(metadata):
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError("the metadata are not strings")
    version = metadata.get(_VERSION)
    if version is not None and version.split(".")[0] != _MAJOR_VERSION:
        raise FormatError(f"it has version {version}, this package reads versions {_MAJOR_VERSION}.x")


def _parse(data):
    if len(data) < 8:
        raise FormatError(f"it has only {len(data)} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > len(data) - 8 or length > _MAX_HEADER_BYTES:
        raise FormatError(f"it says that its header has {length} bytes; {len(data) - 8} follow")
    header = parse_json(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise FormatError("its header is no object")
    metadata = header.pop(_METADATA, {})
    _check_metadata(metadata)
    body = memoryview(data)[8 + length :]
    arrays, places = {}, []
    for name, entry in header.items():
        dtype, shape, begin, end = _read_entry(name, entry, len(body))
        places.append((begin, end, name))
        raw = np.frombuffer(body[begin:end], dtype=np.uint8)
        if dtype == np.bool_ and raw.size and raw.max() > 1:
            raise FormatError(f"tensor '{name}' is BOOL, but has bytes that are neither 0 nor 1")
        try:
            arrays[name] = raw.view(dtype).reshape(shape)
        except ValueError:  # such as more dimensions than numpy has
            raise UnsupportedError(f"numpy has no arrays of the shape {list(shape)} of tensor '{name}'") from None
    _check_layout(places, len(body))
    return arrays, metadata


def _check_checksum(data, arrays):
    checksum = arrays.get(CHECKSUM)
    if checksum is None or checksum.dtype != np.uint8 or checksum.shape != (4,) or data[-4:] != checksum.tobytes():
        raise FormatError(f"it has no '{CHECKSUM}' of 4 bytes as its last tensor")
    found, expected = crc32c(data[:-4]), int.from_bytes(data[-4:], "little")
    if found != expected:
        raise FormatError(f"it is corrupted: its checksum is {found:08x}, expected {expected:08x}")


def parse_safetensors(data, source, self_checked=False):
    """As read_safetensors(), from bytes; `source` names them in messages."""
    data = bytes(data)
    try:
        arrays, metadata = _parse(data)
        if self_checked:
            _check_checksum(data, arrays)
    except (FormatError, UnsupportedError) as error:
        raise type(error)(f"safetensors file {source}: {error}") from None
    return Tensors(arrays, metadata, f"safetensors file {source}")


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def read_safetensors(path, self_checked=False):
    """Reads the tensors of a file. `self_checked`: it must end with its checksum, which is compared.

    Raises FormatError for a damaged file or one of another version, UnsupportedError for an element type that is not ours,
    OSError if it cannot be read.
    """
    return parse_safetensors(read_file(path), f"'{path}'", self_checked)


def write_safetensors(path, arrays):
    """Writes a file that checks itself. It replaces an old one at `path` when it is whole. OSError if it cannot be written."""
    names = {dtype: name for name, dtype in _DTYPES.items()}
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header, at = {name: None for name in arrays}, 0
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)  # so that all are aligned
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    header[CHECKSUM] = {"dtype": "U8", "shape": [4], "data_offsets": [at, at + 4]}
    text = json.dumps({**header, _METADATA: {_VERSION: f"{_MAJOR_VERSION}.0"}}).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join([struct.pack("<Q", len(text)), text, *(arrays[name].tobytes() for name in order)])
    data += struct.pack("<I", crc32c(data))
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"cannot write '{path}': it is no file")
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise OSError(error.errno, error.strerror, path) from None
