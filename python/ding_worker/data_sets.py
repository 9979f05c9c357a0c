"""Makes a file of episodes, to learn from, of data sets in other formats:

    python3 -m ding_worker.data_sets hopper-medium.hdf5 more.npz --out=hopper.episodes --env=Hopper-v4

  .hdf5, .h5     episodes as Minari writes them, or columns as in D4RL; needs h5py
  .npz, .safetensors, a folder of .npy files    columns
  .csv           columns with a header; obs_0, obs_1, ... are the elements of obs

Columns are [N, ...], all rows of all episodes: observations, actions, rewards, terminals and timeouts, under the names in _NAMES. An
episode ends at a terminal or a timeout. Without a column of next observations, what follows the last row of an episode that was cut
off is not known: this row then only gives the last observation.

--env gives the fields the types and bounds of an env, which the run's env.type must have; it needs the extension. Without it, floats
become float32 without bounds, and actions that are whole numbers have as many categories as occur.
"""

import argparse
import csv
import os
import re
import sys
import zipfile

import numpy as np

from ding_worker.episodes import Episodes, write_episodes
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
_ENDS = {"terminated": 1, "truncated": 2}


def _read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), [])
        try:
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
        except ValueError as error:
            raise FormatError(f"'{path}' is no table of numbers with a header: {error}") from None
    if not rows.size or rows.shape[1] != len(header):
        raise FormatError(f"'{path}' has {len(header)} names in its header, and rows of {rows.shape[1]} numbers")
    columns = {}
    for i, name in enumerate(header):
        stem = re.fullmatch(r"(.*?)[_.]?\[?(\d+)\]?", name.strip())
        columns.setdefault(stem[1] if stem else name.strip(), []).append(rows[:, i])
    columns = {name: np.stack(column, 1) if len(column) > 1 else column[0] for name, column in columns.items()}
    for name in set(columns) & set(_NAMES["action"]):
        if (columns[name] == columns[name].astype(np.uint32)).all():
            columns[name] = columns[name].astype(np.int64)
    return columns


def _arrays(group, prefix=""):
    """The arrays of an HDF5 group and of those in it, by path."""
    for name, item in group.items():
        if hasattr(item, "items"):
            yield from _arrays(item, f"{prefix}{name}/")
        elif item.shape != () and item.dtype.kind in "biuf":
            yield prefix + name, item[...]


def _read_hdf5(path):
    """A list of sets of columns: one, or one for each of Minari's episodes."""
    try:
        import h5py
    except ImportError:
        raise FormatError(f"'{path}': h5py is missing, which reads this format; install it (pip install h5py, or Debian's python3-h5py)") from None
    with h5py.File(path, "r") as file:
        episodes = [name for name in file if re.fullmatch(r"episode_\d+", name)]
        groups = [file[name] for name in sorted(episodes, key=lambda name: int(name[8:]))] or [file]
        return [dict(_arrays(group)) for group in groups]


def _read(path):
    """The sets of columns in a file or folder, under its names."""
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.endswith(".npy"))
        return [{name[:-4]: np.load(os.path.join(path, name), allow_pickle=False) for name in names}]
    ending = os.path.splitext(path)[1]
    if ending == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return [dict(arrays)]
    if ending == ".safetensors":
        return [read_safetensors(path)]
    if ending == ".csv":
        return [_read_csv(path)]
    if ending in (".hdf5", ".h5"):
        return _read_hdf5(path)
    raise FormatError(f"'{path}' ends with '{ending}', expected .hdf5, .h5, .npz, .safetensors, .csv, or a folder of .npy files")


def _known(arrays, source):
    """The columns by our names: obs or obs/NAME, action, reward, terminated, ..."""
    columns = {}
    for ours, names in _NAMES.items():
        for name in names:
            found = {ours + path[len(name) :]: array for path, array in arrays.items() if path == name or path.startswith(name + "/")}
            if found:
                columns.update(found)
                break
    for ours in ("obs", "action", "reward"):
        if not any(name.split("/")[0] == ours for name in columns):
            raise FormatError(f"{source} has no {_NAMES[ours][0]} (or {', '.join(_NAMES[ours][1:])}), but: {', '.join(arrays) or 'nothing'}")
    return columns


def _cut(arrays, source):
    """Yields (rows, final_obs, end) of each episode."""
    columns = _known(arrays, source)
    rows = len(columns["action"])
    flags = {name: columns.pop(name).reshape(-1) != 0 for name in _ENDS if name in columns}
    next_obs = {name[5:]: columns.pop(name) for name in list(columns) if name.split("/")[0] == "next_obs"}
    obs = [name for name in columns if name.split("/")[0] == "obs"]
    if all(len(columns[name]) == rows + 1 for name in obs):  # Minari: an episode, with the observation after it
        next_obs = {name: columns[name][1:] for name in obs}
        columns.update({name: columns[name][:-1] for name in obs})
    if not flags:
        raise FormatError(f"{source} does not say where episodes end: it has neither {' nor '.join(_NAMES[name][0] for name in _ENDS)}")
    for name, column in {**columns, **next_obs, **flags}.items():
        if column.dtype.kind not in "biuf":
            raise FormatError(f"{source}: '{name}' is of type {column.dtype}, expected numbers")
        if len(column) != rows:
            raise FormatError(f"{source}: '{name}' has {len(column)} rows, the actions have {rows}")
    next_obs = {name if name in columns else "obs" + name: column for name, column in next_obs.items()}
    terminated = flags.get("terminated", np.zeros(rows, bool))
    ends = np.flatnonzero(terminated | flags.get("truncated", False))
    begin = 0
    for last in [*ends, *([rows - 1] if rows and (not len(ends) or ends[-1] != rows - 1) else [])]:
        known = bool(next_obs) or terminated[last]
        end = last + 1 if known else last
        final = {name: (next_obs or columns)[name][last] for name in obs}
        if end > begin:
            yield {name: column[begin:end] for name, column in columns.items()}, final, 1 if terminated[last] else 2
        begin = last + 1


def _guess_field(name, column):
    dtype = np.dtype("float32") if column.dtype.kind == "f" else column.dtype if column.dtype == np.uint8 else np.dtype("int64")
    if name == "action" and column.ndim == 2 and column.shape[1] == 1 and column.dtype.kind != "f":
        column = column[:, 0]
    categories = int(column.max()) + 1 if name == "action" and column.dtype.kind != "f" else 0
    return FieldSpec(name, dtype, column.shape[1:], num_categories=categories)


def _env_fields(env):
    from ding_worker import make_vec

    with make_vec(env) as envs:
        fields = [*envs._observation_fields(), *envs._action_fields()]
    return [FieldSpec(name, np.dtype(dtype), tuple(shape), tuple(low), tuple(high), max(counts, default=0)) for name, dtype, shape, low, high, counts in fields]


def _fit(column, spec):
    """The column as an array of the field; FormatError if it loses something."""
    rows = len(column)
    if column[0].size != spec.num_elements:
        raise FormatError(f"'{spec.name}' has the shape {list(column.shape[1:])}, expected {list(spec.shape)}")
    fitted = np.asarray(column).reshape((rows, *spec.shape)).astype(spec.dtype)
    if spec.dtype.kind != "f" and not np.array_equal(fitted, np.asarray(column).reshape(fitted.shape)):
        raise FormatError(f"'{spec.name}' has values that are no {spec.dtype}")
    if spec.dtype.kind == "f" and not np.isfinite(fitted).all():
        raise FormatError(f"'{spec.name}' has NaN or infinity in row {np.argwhere(~np.isfinite(fitted))[0][0]}")
    counts = spec.category_counts
    if counts and (fitted.min() < 0 or (fitted.reshape(rows, -1) >= counts).any()):
        raise FormatError(f"'{spec.name}' has values from {fitted.min()} to {fitted.max()}, expected 0 to {max(counts) - 1}")
    return fitted


def import_episodes(paths, env=None):
    """Reads data sets in other formats as one set of Episodes; `env` names the env whose fields they have."""
    found = []
    for path in paths:
        source = f"'{path}'"
        try:
            read = _read(path)
        except FormatError:
            raise
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise FormatError(f"{source} cannot be read: {error}") from None
        for arrays in read:
            found.extend(_cut(arrays, source))
    if not found:
        raise FormatError(f"{', '.join(paths)}: there are no episodes")
    names = list(found[0][0])
    if any(set(rows) != set(names) for rows, _, _ in found):
        raise FormatError("the data sets have different columns")
    try:
        columns = {name: np.concatenate([rows[name] for rows, _, _ in found]) for name in names}
        final_obs = {name: np.stack([final[name] for _, final, _ in found]) for name in found[0][1]}
    except ValueError as error:
        raise FormatError(f"the data sets do not fit together: {error}") from None
    fields = _env_fields(env) if env else [_guess_field(name, columns[name]) for name in [*final_obs, "action"]]
    missing = [spec.name for spec in fields if spec.name not in columns]
    if missing:
        raise FormatError(f"env '{env}' has the field '{missing[0]}', the data set has {', '.join(names)}")
    fields.append(FieldSpec("reward", np.dtype("float32"), ()))
    rows = {spec.name: _fit(columns[spec.name], spec) for spec in fields}
    final_obs = {spec.name: _fit(final_obs[spec.name], spec) for spec in fields if spec.name in final_obs}
    lengths = np.array([len(rows_of["action"]) for rows_of, _, _ in found])
    return Episodes(env or "", fields, rows, final_obs, lengths, np.array([end for _, _, end in found], np.uint8))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m ding_worker.data_sets", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="FILE")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--env", metavar="TYPE")
    given = parser.parse_args(arguments)
    try:
        episodes = import_episodes(given.paths, given.env)
        write_episodes(given.out, episodes)
    except (ValueError, OSError, ImportError) as error:
        return f"error: {error}"
    returns = episodes.returns
    print(f"{given.out}: {len(episodes)} episodes, {sum(episodes.lengths)} rows, returns from {min(returns):g} to {max(returns):g}")
    return None


if __name__ == "__main__":
    sys.exit(main())
