"""Reads checkpoints: folders of safetensors files with a manifest; docs/reference/checkpoint_format.md describes them."""

import os
import re

from ding_worker.actor import Actor
from ding_worker.crc32c import crc32c
from ding_worker.errors import FormatError
from ding_worker.safetensors import parse_json, parse_safetensors, read_file
from ding_worker.textproto import parse_text_config

TRAIN_KIND = "ding_worker/train"
_FORMAT = "ding_worker checkpoint"
_MAJOR_VERSION = 1
_MAX_MANIFEST_BYTES = 1 << 20
_SUFFIX = ".safetensors"
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}", re.ASCII)
_CRC = re.compile(r"[0-9a-fA-F]{8}", re.ASCII)


def _member(object_, name, kind):
    value = object_.get(name) if isinstance(object_, dict) else None
    if type(value) is not kind or (kind is int and value < 0):
        words = {str: "a string", int: "a count", dict: "an object", list: "a list"}
        raise FormatError(f"malformed: '{name}' is missing or is not {words[kind]}")
    return value


def _manifest_end(body):
    return b',\n  "crc32c": "%08x"\n}\n' % crc32c(body)


def _parse_file(entry):
    name, size, crc = _member(entry, "name", str), _member(entry, "size_bytes", int), _member(entry, "crc32c", str)
    if not _FILE_NAME.fullmatch(name) or not name.endswith(_SUFFIX):
        raise FormatError(f"malformed: '{name}' is not a file name")
    if not _CRC.fullmatch(crc):
        raise FormatError(f"malformed: '{crc}' is not a checksum")
    return name[: -len(_SUFFIX)], (size, int(crc, 16))


def _parse_manifest(data):
    """Returns kind, fields and files."""
    if len(data) > _MAX_MANIFEST_BYTES:
        raise FormatError(f"malformed: {len(data)} bytes")
    root = parse_json(data)
    format_ = _member(root, "format", str)
    if format_ != _FORMAT:
        raise FormatError(f"malformed: format is '{format_}'")
    major, minor = _member(root, "major_version", int), _member(root, "minor_version", int)
    if major != _MAJOR_VERSION:
        raise FormatError(f"it has version {major}.{minor}, this package reads versions {_MAJOR_VERSION}.x")
    body = data[: max(0, len(data) - len(_manifest_end(b"")))]
    if data[len(body) :] != _manifest_end(body):
        raise FormatError("its checksum does not fit: it was corrupted or edited")
    fields = _member(root, "fields", dict)
    if not all(isinstance(value, str) for value in fields.values()):
        raise FormatError("malformed: a field is not a string")
    return _member(root, "kind", str), fields, dict(map(_parse_file, _member(root, "files", list)))


class Checkpoint:
    """A checkpoint.

    path        its folder
    kind        what it is of: "ding_worker/train" for those of training programs
    fields      facts about it, texts by name: "config", "env", "env_step", "policy", "train_iter", ...
    components  names of its parts: "model", "train_state", "learner", ...
    """

    def __init__(self, path, kind, fields, files):
        self.path = path
        self.kind = kind
        self.fields = fields
        self._files = files

    @property
    def components(self):
        return list(self._files)

    @property
    def config(self):
        """The resolved config of the run, as nested dicts (see textproto.py)."""
        if "config" not in self.fields:
            raise FormatError(f"the checkpoint '{self.path}' has no config")
        return parse_text_config(self.fields["config"], f"the config in '{self.path}'")

    def component(self, name):
        """The tensors of a component, after a comparison of size and checksum with the manifest."""
        if name not in self._files:
            raise FormatError(
                f"the checkpoint '{self.path}' has no component '{name}'; it has: {', '.join(self._files)}"
            )
        path = os.path.join(self.path, name + _SUFFIX)
        size, crc = self._files[name]
        try:
            data = read_file(path)
        except FileNotFoundError:
            raise FormatError(f"the checkpoint is damaged: '{path}' is missing") from None
        if len(data) != size:
            raise FormatError(f"the checkpoint is damaged: '{path}' has {len(data)} bytes, the manifest says {size}")
        if crc32c(data) != crc:
            raise FormatError(f"the checkpoint is damaged: '{path}' has not the checksum {crc:08x} of the manifest")
        return parse_safetensors(data, f"'{path}'")

    def verify(self):
        """Reads and checks every file of the checkpoint."""
        for name in self._files:
            self.component(name)

    def actor(self, **options):
        """The policy of the checkpoint; see actor.Actor for the options."""
        return Actor(self, **options)

    def __repr__(self):
        step = self.fields.get("env_step", "?")
        return f"Checkpoint('{self.path}', policy {self.fields.get('policy', '?')}, env step {step})"


def open_checkpoint(path):
    """Opens the checkpoint in the folder `path`: reads its manifest, and looks whether the files have their sizes.

    The folder of a run, or of its checkpoints, stands for the run's ckpt_best. A component is compared with its checksum when
    it is read. FileNotFoundError if there is no checkpoint, FormatError if it is damaged or of another version.
    """
    path = os.fspath(path)
    for inside in ("ckpt/ckpt_best", "ckpt_best"):
        if os.path.isfile(os.path.join(path, "manifest.json")):
            break
        if os.path.isfile(os.path.join(path, inside, "manifest.json")):
            path = os.path.join(path, inside)
    manifest = os.path.join(path, "manifest.json")
    try:
        data = read_file(manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no checkpoint at '{path}': it has no manifest.json") from None
    try:
        kind, fields, files = _parse_manifest(data)
    except FormatError as error:
        raise FormatError(f"'{manifest}': {error}") from None
    for name, (size, _) in files.items():
        file = os.path.join(path, name + _SUFFIX)
        if not os.path.isfile(file):
            raise FormatError(f"the checkpoint is damaged: '{file}' is missing")
        if os.path.getsize(file) != size:
            raise FormatError(
                f"the checkpoint is damaged: '{file}' has {os.path.getsize(file)} bytes, the manifest says {size}"
            )
    return Checkpoint(path, kind, fields, files)
