"""Reads files of torch.save() without torch, and without executing anything from them: tensors, numbers, texts and plain
containers only. Whatever else a pickle names is refused.
"""

import collections
import io
import math
import pickle
import zipfile

import numpy as np

from ding_worker.di_engine.evaluator import Refused

_MAX_BYTES = 1 << 32
_DTYPES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"),  # their bits
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "BoolStorage": np.dtype("bool"),
    "ByteStorage": np.dtype("u1"),
}


class _Storage:
    """Stands for a class of storages, such as torch.FloatStorage."""

    def __init__(self, name):
        self.dtype = _DTYPES[name]
        self.is_bfloat16 = name == "BFloat16Storage"


class _StateDict(collections.OrderedDict):
    """What a pickled OrderedDict becomes. torch gives it an attribute `_metadata`, which is dropped."""

    def __setstate__(self, state):
        pass


def _rebuild_tensor(storage, offset, shape, stride, *_):
    if not all(isinstance(value, int) and value >= 0 for value in (offset, *shape, *stride)) or len(shape) != len(stride):
        raise Refused(f"a tensor of shape {shape}, stride {stride} and offset {offset}")
    last = offset + sum((extent - 1) * step for extent, step in zip(shape, stride))
    if math.prod(shape) > len(storage) or (0 not in shape and last >= len(storage)):
        raise Refused(f"a tensor of shape {shape} beyond the end of its {len(storage)} elements")
    size = storage.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, [step * size for step in stride], writeable=False)
    return np.array(view)


def _rebuild_parameter(data, *_):
    if not isinstance(data, np.ndarray):
        raise Refused("a parameter without a tensor")
    return data


_ALLOWED = {
    ("collections", "OrderedDict"): _StateDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, data, load_storage):
        super().__init__(io.BytesIO(data))
        self._load_storage = load_storage

    def find_class(self, module, name):
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and name in _DTYPES:
            return _Storage(name)
        raise Refused(
            f"the pickle names {module}.{name}; only tensors and plain containers are read, because anything else could be "
            "code. Save the state_dict() alone"
        )

    def persistent_load(self, pid):
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], _Storage):
            raise Refused(f"a reference {pid!r} that is no storage")
        data = self._load_storage(pid[1].dtype, str(pid[2]), pid[4])
        # The bits of a bfloat16 are the first ones of a float32.
        return (data.astype("<u4") << 16).view("<f4") if pid[1].is_bfloat16 else data


def load(path):
    """The object of the file, with tensors as numpy arrays. Raises Refused."""
    try:
        with zipfile.ZipFile(path) as file:
            return _load(file)
    except zipfile.BadZipFile as error:
        raise Refused(f"{path} is no file of torch.save() since torch 1.6 ({error}); load and save it with a later torch") from None
    except Refused as error:
        raise Refused(f"{path}: {error}") from None
    except OSError:
        raise
    except Exception as error:  # of any kind: the file may hold anything
        raise Refused(f"{path} is damaged: {error!r}") from None


def _load(file):
    roots = [name[: -len("data.pkl")] for name in file.namelist() if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise Refused(f"found {len(roots)} files data.pkl, expected one")
    if sum(entry.file_size for entry in file.infolist()) > _MAX_BYTES:
        raise Refused(f"more than {_MAX_BYTES} bytes")
    order = roots[0] + "byteorder"
    if order in file.namelist() and file.read(order) != b"little":
        raise Refused("its numbers are not little endian")

    def load_storage(dtype, key, size):
        data = np.frombuffer(file.read(f"{roots[0]}data/{key}"), dtype)
        if len(data) != size:
            raise Refused(f"storage {key} has {len(data)} elements, expected {size}")
        return data

    return _Unpickler(file.read(roots[0] + "data.pkl"), load_storage).load()
