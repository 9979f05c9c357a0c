"""Imports the extension, or says why it cannot be used."""

import numpy

try:
    from ding_worker import _core
except ImportError as error:
    raise ImportError(
        f"the extension of ding_worker is missing or does not fit ({error}): install the wheel of `bazel build //python:wheel` "
        "with the Python that the wheel's name says"
    ) from error
if int(numpy.__version__.split(".")[0]) >= 2 and not _core._takes_numpy_2:
    raise ImportError(f"numpy is {numpy.__version__}, but the extension of ding_worker was compiled for numpy 1: install 'numpy<2'")

__all__ = ["_core", "config_text"]


def config_text(value):
    """A value in protobuf's text format: a dict is a message, whose braces are left out."""
    return _text(value)[2:-2]


def _text(value):
    if isinstance(value, dict):
        return "{ " + " ".join(f"{key}: {_text(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(inner) for inner in value) + "]"
    return repr(value.item() if isinstance(value, numpy.generic) else value)
