"""Makes a file of episodes, to learn from, of data sets in other formats:

    python3 -m ding_worker.data_sets hopper-medium.hdf5 more.npz --out=hopper.episodes --env=Hopper-v4

  .hdf5, .h5     episodes as Minari writes them, or columns as in D4RL; needs h5py
  .npz, .safetensors, a folder of .npy files    columns
  .csv           columns with a header, separated by commas; obs_0, obs_1, ... are the elements of obs
  .episodes      a file of episodes, to split it (--rows_per_file) or to join several; observations, actions and rewards are kept

Columns are [N, ...], all rows of all episodes in the order in which they happened:

  observations       or observation, obs, states; observations/NAME are parts of it
  actions            or action
  rewards            or reward
  terminals          or terminations, terminated; or dones, done, which also hold where timeouts do
  timeouts           or truncations, truncated
  next_observations  or next_obs, next_states; optional

An episode ends at a terminal or a timeout. Without next observations, what follows the last row of an episode that was cut off is
not known: this row then only gives the last observation.

--env gives the fields the types and bounds of an env, which the run's env.type must have; it needs the extension. Actions beyond
these bounds are refused; those within 0.001 of them are taken for rounding errors and set to the bound. Without it,
observations become float32 without bounds (uint8 stays), and actions are either whole numbers from 0 on, the categories, or float32
in [-1, 1].

--rows_per_file makes --out a folder of files, each with as many whole episodes as have together at most so many rows. It reads one file
after another, of Minari's even one episode, and twice without --env, so that the data set need not fit into memory.
"""

import argparse
import csv
import itertools
import os
import re
import shutil
import sys

import numpy as np

from ding_worker.episodes import Episodes, read_episodes, write_episodes
from ding_worker.errors import FormatError
from ding_worker.safetensors import read_safetensors
from ding_worker.spec import FieldSpec

_NAMES = {
    "obs": ("observations", "observation", "obs", "states"),
    "action": ("actions", "action"),
    "reward": ("rewards", "reward"),
    "terminated": ("terminals", "terminations", "terminated", "dones", "done"),
    "truncated": ("timeouts", "truncations", "truncated"),
    "next_obs": ("next_observations", "next_obs", "next_states"),
}
_FLAGS = ("terminated", "truncated")
_MAX_CATEGORIES = 1 << 20
_WORDS = {"true": 1.0, "false": 0.0}


def _csv_columns(header):
    """The elements of each column: {"obs": [3, 4]} for the fields 3 and 4."""
    columns = {}
    for at, name in enumerate(header):
        element = re.fullmatch(r"(.*?)[_.]?\[?(\d+)\]?", name)
        columns.setdefault(element[1] if element else name, []).append((int(element[2]) if element else 0, at))
    for name, elements in columns.items():
        elements.sort()
        numbers = [number for number, _ in elements]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] > 1:
            raise FormatError(f"'{name}' has the elements {numbers} in the header, expected 0, 1, ... once each")
    return {name: [at for _, at in elements] for name, elements in columns.items()}


def _number(field):
    word = field.strip().lower()
    return _WORDS[word] if word in _WORDS else float(word)


def _read_csv(path):
    rows = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        lines = (line for line in reader if any(field.strip() for field in line))
        header = [name.strip() for name in next(lines, [])]
        for line in lines:
            if len(line) != len(header):
                raise FormatError(f"line {reader.line_num} has {len(line)} fields, its header {len(header)}")
            try:
                rows.append([_number(field) for field in line])
            except ValueError as error:
                raise FormatError(f"line {reader.line_num}: {error}") from None
    if not rows:
        raise FormatError("it has no rows below its header")
    table = np.array(rows)
    columns = {name: table[:, at if len(at) > 1 else at[0]] for name, at in _csv_columns(header).items()}
    for name in set(columns) & set(_NAMES["action"]):
        if np.isfinite(columns[name]).all() and (columns[name] == np.floor(columns[name])).all():
            columns[name] = columns[name].astype(np.int64)
    return [("", columns)]


def _arrays(group, prefix=""):
    """The arrays of numbers of an HDF5 group and of those in it, by path."""
    for name, item in group.items():
        if hasattr(item, "items"):
            yield from _arrays(item, f"{prefix}{name}/")
        elif getattr(item, "shape", ()) and item.dtype.kind in "biuf":
            yield prefix + name, item[...]


def _read_hdf5(path):
    try:
        import h5py
    except ImportError:
        raise FormatError("h5py is missing, which reads this format; install it (pip install h5py, or Debian's python3-h5py)") from None
    with h5py.File(path, "r") as file:
        episodes = sorted((name for name in file if re.fullmatch(r"episode_\d+", name)), key=lambda name: int(name[8:]))
        for name in episodes:
            yield f", {name}", dict(_arrays(file[name]))
        if not episodes:
            yield "", dict(_arrays(file))


def _read(path):
    """What a file or folder has: (where, columns under its names) of each part."""
    ending = os.path.splitext(path)[1].lower()
    try:
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name.endswith(".npy"))
            yield "", {name[:-4]: np.load(os.path.join(path, name), allow_pickle=False) for name in names}
            return
        if ending == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                yield "", dict(arrays)
            return
        if ending == ".safetensors":
            yield "", read_safetensors(path)
            return
        if ending == ".csv":
            yield from _read_csv(path)
            return
        if ending in (".hdf5", ".h5"):
            yield from _read_hdf5(path)
            return
    except Exception as error:  # The libraries raise errors of many kinds for damaged files.
        raise FormatError(f"'{path}' cannot be read: {error or type(error).__name__}") from None
    raise FormatError(f"'{path}' ends with '{ending}', expected .hdf5, .h5, .npz, .safetensors, .csv, .episodes, or a folder of .npy files")


def _known(arrays, source):
    """The columns by our names: "obs" or "obs/NAME", "action", "reward", "terminated", ..."""
    columns, said_done = {}, False
    for ours, names in _NAMES.items():
        for name in names:
            found = {ours + path[len(name) :]: array for path, array in arrays.items() if path == name or path.startswith(name + "/")}
            if found:
                columns.update(found)
                said_done |= name.startswith("done")
                break
    for ours in ("obs", "action", "reward"):
        if not any(name.split("/")[0] == ours for name in columns):
            raise FormatError(f"{source} has no {_NAMES[ours][0]} (or {', '.join(_NAMES[ours][1:])}), but: {', '.join(arrays) or 'nothing'}")
    parts = [name for name in columns if "/" in name and name.split("/")[0] not in ("obs", "next_obs")]
    if parts:
        raise FormatError(f"{source} has '{parts[0]}': only observations may have parts")
    if not any(name in columns for name in _FLAGS):
        raise FormatError(f"{source} does not say where episodes end: it has neither {' nor '.join(_NAMES[name][0] for name in _FLAGS)}")
    for name, column in columns.items():
        if column.ndim == 0 or column.dtype.kind not in "biuf":
            raise FormatError(f"{source}: '{name}' is {column.dtype}{list(column.shape)}, expected a column of numbers")
        if 0 in column.shape[1:]:
            raise FormatError(f"{source}: '{name}' has rows of the shape {list(column.shape[1:])}")
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            raise FormatError(f"{source}: '{name}' has NaN or infinity in row {np.argwhere(~np.isfinite(column))[0][0]}")
    if said_done and "truncated" in columns and columns["truncated"].shape == columns["terminated"].shape:
        columns["terminated"] = (columns["terminated"] != 0) & (columns["truncated"] == 0)
    return columns


def _cut(arrays, source):
    """Yields (columns, final_obs, end) of each episode."""
    columns = _known(arrays, source)
    rows = len(columns["action"])
    flags = {name: columns.pop(name) for name in _FLAGS if name in columns}
    obs = [name for name in columns if name.split("/")[0] == "obs"]
    after = {name[5:]: columns.pop(name) for name in list(columns) if name.startswith("next_obs")}
    if not after and all(len(columns[name]) == rows + 1 for name in obs):  # Minari: an episode, with the observation after it
        after = {name: columns[name][1:] for name in obs}
        columns.update({name: columns[name][:-1] for name in obs})
    elif after and sorted(after) != sorted(obs):
        raise FormatError(f"{source}: the parts of next observations are {sorted(after)}, those of observations {sorted(obs)}")
    for which, of in (("", columns), ("next_", after), ("", flags)):
        for name, column in of.items():
            if len(column) != rows:
                raise FormatError(f"{source}: '{which}{name}' has {len(column)} rows, the actions have {rows}")
    if rows == 0:
        return
    ends = {name: flag.reshape(rows, -1).any(axis=1) for name, flag in flags.items()}
    terminated = ends.get("terminated", np.zeros(rows, bool))
    lasts = list(np.flatnonzero(terminated | ends.get("truncated", False)))
    if not lasts or lasts[-1] != rows - 1:
        lasts.append(rows - 1)
    begin = 0
    for last in lasts:
        end = last + 1 if after or terminated[last] else last
        final = {name: (after or columns)[name][last] for name in obs}
        if end > begin:
            yield {name: column[begin:end] for name, column in columns.items()}, final, 1 if terminated[last] else 2
        begin = last + 1


def _guess_field(name, columns):
    """The field that the columns of all files have."""
    shape = columns[0].shape[1:]
    if name != "action":
        return FieldSpec(name, np.dtype("uint8" if all(column.dtype == np.uint8 for column in columns) else "float32"), shape)
    low, high = min(column.min() for column in columns), max(column.max() for column in columns)
    if any(column.dtype.kind == "f" for column in columns):
        if low < -1 or high > 1:
            raise FormatError(f"the actions reach from {low:g} to {high:g}, and their bounds are not known: give the env (--env), or scale them to [-1, 1]")
        return FieldSpec(name, np.dtype("float32"), shape, (-1.0,), (1.0,))
    if low < 0 or high >= _MAX_CATEGORIES:
        raise FormatError(f"the actions reach from {low} to {high}, expected categories from 0 to at most {_MAX_CATEGORIES - 1}")
    return FieldSpec(name, np.dtype("int64"), () if shape == (1,) else shape, num_categories=int(high) + 1)


def _env_fields(env):
    from ding_worker import make_vec

    with make_vec(env) as envs:
        fields = [*envs._observation_fields(), *envs._action_fields()]
    return [FieldSpec(name, np.dtype(dtype), tuple(shape), tuple(low), tuple(high), max(counts, default=0)) for name, dtype, shape, low, high, counts in fields]


def _fit(column, spec, source):
    """The column as an array of the field; FormatError if it is of another kind."""
    rows = len(column)
    if column[0].size != spec.num_elements:
        raise FormatError(f"{source}: '{spec.name}' has the shape {list(column.shape[1:])}, expected {list(spec.shape)}")
    column = column.reshape((rows, *spec.shape))
    with np.errstate(all="ignore"):
        fitted = column.astype(spec.dtype)
    if spec.dtype.kind == "f" and not np.isfinite(fitted).all():
        raise FormatError(f"{source}: '{spec.name}' has values beyond {spec.dtype}")
    if spec.dtype.kind != "f" and not np.array_equal(fitted, column):
        raise FormatError(f"{source}: '{spec.name}' has values that are no {spec.dtype}")
    counts = spec.category_counts
    if counts and (fitted.min() < 0 or (fitted.reshape(rows, -1) >= counts).any()):
        raise FormatError(f"{source}: '{spec.name}' has values from {fitted.min()} to {fitted.max()}, expected 0 to {max(counts) - 1}")
    if spec.name == "action" and spec.high and not counts:
        low, high = np.resize(spec.low, spec.num_elements), np.resize(spec.high, spec.num_elements)
        flat, slack = fitted.reshape(rows, -1), 1e-3
        if (flat < low - slack).any() or (flat > high + slack).any():
            raise FormatError(f"{source}: the actions reach from {flat.min():g} to {flat.max():g}, expected {low.min():g} to {high.max():g}")
        fitted = np.clip(flat, low, high).astype(spec.dtype).reshape(fitted.shape)
    return fitted


def _kept_fields(path, episodes):
    """What is kept of a file of episodes: observation, action and reward."""
    kept = [spec for spec in episodes.fields if spec.name.split("/")[0] == "obs" or spec.name in ("action", "reward")]
    if "reward" not in (spec.name for spec in kept):
        raise FormatError(f"'{path}' has the fields {', '.join(spec.name for spec in episodes.fields)}, expected a reward")
    return kept


def _of_episodes(path, expected):
    episodes = read_episodes(path)
    fields = _kept_fields(path, episodes)
    expected = expected or fields
    if fields != expected:
        raise FormatError(f"'{path}' has the fields {fields}, the files before it {expected}")
    for episode in episodes:
        yield f"'{path}'", ({spec.name: episode[spec.name] for spec in fields}, episode.final_obs, 1 if episode.end == "terminated" else 2)


def _episodes_of(paths, expected=None):
    """Yields (source, (columns, final_obs, end)) of each episode; `expected` are the fields of files of episodes."""
    first = None
    for path in paths:
        if path.endswith(".episodes"):
            episodes = _of_episodes(path, expected)
        else:
            episodes = ((f"'{path}'", episode) for where, arrays in _read(path) for episode in _cut(arrays, f"'{path}'{where}"))
        for source, episode in episodes:
            first = first or (source, set(episode[0]))
            if set(episode[0]) != first[1]:
                raise FormatError(f"{source} has the columns {', '.join(episode[0])}, {first[0]} has {', '.join(sorted(first[1]))}")
            yield source, episode


def _fields_of(found, env):
    """The fields of observation, action and reward; `found` are all episodes, or at least their extreme rows."""
    if not found:
        raise FormatError("there are no episodes")
    names, obs = list(found[0][1][0]), list(found[0][1][1])
    if env:
        fields = _env_fields(env)
    else:
        fields = [_guess_field(name, [columns[name] for _, (columns, _, _) in found]) for name in [*obs, "action"]]
    missing = [spec.name for spec in fields if spec.name not in names]
    if missing:
        raise FormatError(f"env '{env}' has the field '{missing[0]}', the data set has {', '.join(names)}")
    return [*fields, FieldSpec("reward", np.dtype("float32"), ())]


def _join(found, fields, env):
    """The episodes as one set."""
    rows = {spec.name: np.concatenate([_fit(columns[spec.name], spec, source) for source, (columns, _, _) in found]) for spec in fields}
    obs = [spec for spec in fields if spec.name in found[0][1][1]]
    final_obs = {spec.name: np.concatenate([_fit(final[spec.name][None], spec, source) for source, (_, final, _) in found]) for spec in obs}
    lengths = np.array([len(columns["action"]) for _, (columns, _, _) in found])
    return Episodes(env or "", fields, rows, final_obs, lengths, np.array([end for _, (_, _, end) in found], np.uint8))


def _known_fields(paths, env):
    """(fields, env) of the first file if all are files of episodes, whose fields need no guess; else (None, env)."""
    if env or not paths or not all(path.endswith(".episodes") for path in paths):
        return None, env
    first = read_episodes(paths[0])
    return _kept_fields(paths[0], first), first.env


def import_episodes(paths, env=None):
    """Reads data sets in other formats, a path or a list of them, as one set of Episodes; `env` names the env whose fields they have."""
    paths = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    fields, env_of_files = _known_fields(paths, env)
    found = list(_episodes_of(paths, fields))
    if not found:
        raise FormatError(f"there are no episodes in: {', '.join(paths) or 'no files'}")
    return _join(found, fields or _fields_of(found, env), env_of_files)


def _extremes(columns):
    return {name: np.stack([column.min(axis=0), column.max(axis=0)]) for name, column in columns.items()}


def import_in_files(paths, folder, rows_per_file, env=None):
    """As import_episodes(), for data that need not fit into memory: makes `folder`, a new one, of files with at most so many rows, or one episode.

    Yields the Episodes of each file when it is written. The folder has its name when all of them are.
    """
    paths, folder = [os.fspath(path) for path in paths], os.path.normpath(os.fspath(folder))
    unfinished = f"{folder}.unfinished"
    for path in (folder, unfinished):
        if os.path.exists(path):
            raise FormatError(f"'{path}' exists: expected a new folder '{folder}'")
    fields, env_of_files = _known_fields(paths, env)
    if fields is None:
        every = ((source, (_extremes(columns), dict.fromkeys(final), end)) for source, (columns, final, end) in _episodes_of(paths))
        fields = _fields_of(list(itertools.islice(every, 1 if env else None)), env)
    os.makedirs(unfinished)
    count = 0

    def write(found):
        nonlocal count
        episodes = _join(found, fields, env_of_files)
        write_episodes(os.path.join(unfinished, f"{count:05d}.episodes"), episodes)
        count += 1
        return episodes

    try:
        found, rows = [], 0
        for source, episode in _episodes_of(paths, fields):
            length = len(episode[0]["action"])
            if found and rows + length > rows_per_file:
                yield write(found)
                found, rows = [], 0
            found.append((source, episode))
            rows += length
        yield write(found)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m ding_worker.data_sets", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="FILE")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--env", metavar="TYPE")
    parser.add_argument("--rows_per_file", type=int, metavar="N", help="--out is a new folder of files with at most N rows each, or one episode")
    given = parser.parse_args(arguments)
    try:
        if any(os.path.exists(path) and os.path.exists(given.out) and os.path.samefile(path, given.out) for path in given.paths):
            raise FormatError(f"--out is '{given.out}', which is to be read: expected another file")
        if given.rows_per_file is None:
            episodes = import_episodes(given.paths, given.env)
            write_episodes(given.out, episodes)
            returns, rows, files = episodes.returns, sum(episodes.lengths), ""
        else:
            if given.rows_per_file < 1:
                raise FormatError(f"--rows_per_file is {given.rows_per_file}, expected at least 1")
            written = [(episodes.returns, sum(episodes.lengths)) for episodes in import_in_files(given.paths, given.out, given.rows_per_file, given.env)]
            returns, rows, files = [value for of_file, _ in written for value in of_file], sum(rows for _, rows in written), f"{len(written)} files, "
    except (ValueError, OSError, ImportError, MemoryError) as error:
        return f"error: {error or 'there is not enough memory'}"
    print(f"{given.out}: {files}{len(returns)} episodes, {rows} rows, returns from {min(returns):g} to {max(returns):g}")
    return None


if __name__ == "__main__":
    sys.exit(main())
