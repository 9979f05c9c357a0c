"""Reads and writes files of episodes, as `//worker:evaluate --record_episodes` writes them."""

import numpy as np

from ding_worker.errors import FormatError
from ding_worker.safetensors import read_safetensors, write_safetensors
from ding_worker.spec import parse_spec, spec_bytes

_TYPE = "episodes"
_VERSION = 1
_ENDS = {1: "terminated", 2: "truncated"}


class Episode:
    """The rows of an episode: columns by name, as views [T, ...].

    end         "terminated", or "truncated" by a time limit
    final_obs   the observation after the last row, by name
    """

    def __init__(self, columns, final_obs, end):
        self.columns = columns
        self.final_obs = final_obs
        self.end = end

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name):
        return self.columns[name]

    @property
    def episode_return(self):
        """The sum of the rewards."""
        return float(self.columns["reward"].sum(dtype=np.float64))


class Episodes:
    """A set of episodes, a sequence of Episode.

    env          name of the env
    fields       FieldSpec of each column; `field(name)` finds one
    rows         all rows of all episodes: columns [N, ...] by name
    lengths      rows of each episode
    """

    def __init__(self, env, fields, rows, final_obs, lengths, ends):
        self.env = env
        self.fields = fields
        self.rows = rows
        self.lengths = lengths
        self._final_obs = final_obs
        self._ends = ends
        self._begins = np.concatenate([[0], np.cumsum(lengths)])

    def field(self, name):
        for spec in self.fields:
            if spec.name == name:
                return spec
        raise KeyError(name)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        rows = slice(self._begins[i], self._begins[i + 1])
        columns = {name: column[rows] for name, column in self.rows.items()}
        return Episode(columns, {name: column[i] for name, column in self._final_obs.items()}, _ENDS[int(self._ends[i])])

    @property
    def returns(self):
        return [episode.episode_return for episode in self]


def _load_columns(tensors, scope, fields, rows):
    return {spec.name: tensors.get_array(f"{scope}/{spec.name}", spec.dtype, (rows,) + spec.shape) for spec in fields}


def _load(tensors):
    kind = tensors.get_string("type")
    if kind != _TYPE:
        raise FormatError(f"it holds '{kind}', expected '{_TYPE}'")
    version = tensors.get_int("version")
    if version != _VERSION:
        raise FormatError(f"it has version {version}, this package reads version {_VERSION}")
    lengths = tensors.get_array("length", np.int64, (None,))
    ends = tensors.get_array("end", np.uint8, (None,))
    if len(lengths) != len(ends) or len(lengths) == 0:
        raise FormatError(f"'length' is of {len(lengths)} episodes, 'end' of {len(ends)}, expected at least one")
    if lengths.min() < 1 or lengths.max() > 2**40 or not np.isin(ends, list(_ENDS)).all():
        raise FormatError("an episode has no rows, or an end that is neither 1 nor 2")
    fields = parse_spec(tensors.get_bytes("rows_spec"))
    final_fields = parse_spec(tensors.get_bytes("final_obs_spec"))
    rows = _load_columns(tensors, "rows", fields, sum(map(int, lengths)))
    final_obs = _load_columns(tensors, "final_obs", final_fields, len(lengths))
    return Episodes(tensors.get_string("env"), fields, rows, final_obs, lengths, ends)


def read_episodes(path):
    """Reads a file of episodes. FormatError if it is damaged or holds something else; OSError if it cannot be read."""
    tensors = read_safetensors(path, self_checked=True)
    try:
        return _load(tensors)
    except FormatError as error:
        raise FormatError(f"'{path}' is not a file of episodes: {error}") from None


def write_episodes(path, episodes):
    """Writes a file that read_episodes(), `data_set.path` of a config, and data/episodes.h read. It replaces an old one when it is whole."""
    text = lambda value: np.frombuffer(value if isinstance(value, bytes) else value.encode(), np.uint8)
    final_fields = [spec for spec in episodes.fields if spec.name in episodes._final_obs]
    tensors = {
        "type": text(_TYPE),
        "version": np.int64(_VERSION),
        "env": text(episodes.env),
        "rows_spec": text(spec_bytes(episodes.fields)),
        "final_obs_spec": text(spec_bytes(final_fields)),
        "length": np.asarray(episodes.lengths, np.int64),
        "end": np.asarray(episodes._ends, np.uint8),
    }
    for scope, fields, columns in (("rows", episodes.fields, episodes.rows), ("final_obs", final_fields, episodes._final_obs)):
        tensors.update({f"{scope}/{spec.name}": np.asarray(columns[spec.name], spec.dtype) for spec in fields})
    write_safetensors(path, tensors)
